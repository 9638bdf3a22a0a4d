"""The task of memory, and the gradient over distance."""

import pytest
import torch
from torch import nn

from lab import memory
from lab.readers import RecurrentReader

torch.set_num_threads(1)


class _First(nn.Module):
    """Knows the answer: the first symbol."""

    def forward(self, symbols):
        return torch.nn.functional.one_hot(symbols[:, 0], memory.NUM_SYMBOLS).float()


def test_what_is_asked_for_is_the_first_symbol_of_distance_plus_one():
    symbols, first = memory.draw(50, 7, torch.Generator().manual_seed(0))
    assert symbols.shape == (50, 8)
    assert torch.equal(first, symbols[:, 0])
    assert set(symbols.flatten().tolist()) == set(range(memory.NUM_SYMBOLS))


def test_accuracy_of_one_who_knows_is_one_and_of_one_who_does_not_is_chance():
    assert memory.accuracy(_First(), 5) == 1.0
    torch.manual_seed(0)
    untrained = RecurrentReader("GRU", memory.NUM_SYMBOLS, memory.NUM_SYMBOLS)
    assert memory.accuracy(untrained, 40) == pytest.approx(1 / memory.NUM_SYMBOLS, abs=0.06)


def test_gradient_norms_are_those_of_a_cell_that_halves_its_state():
    """With an identity matrix of a half and no tanh to speak of, each step back halves the gradient."""
    model = RecurrentReader("RNN", memory.NUM_SYMBOLS, 2, width=4)
    with torch.no_grad():
        model.embedding.weight.mul_(1e-4)
        model.cell.weight_ih.copy_(torch.eye(4))
        model.cell.weight_hh.copy_(torch.eye(4) / 2)
        model.cell.bias_ih.zero_()
        model.cell.bias_hh.zero_()
    norms = memory.gradient_norms(model, 10)
    assert norms.shape == (10,)
    torch.testing.assert_close(norms[1:] / norms[:-1], torch.full((9,), 0.5), rtol=1e-4, atol=0)


def test_training_lowers_the_loss_and_is_the_same_each_time():
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        model = RecurrentReader("GRU", memory.NUM_SYMBOLS, memory.NUM_SYMBOLS)
        losses.append(memory.train(model, steps=60, max_distance=3))
    assert losses[0] == losses[1]
    assert sum(losses[0][-10:]) < 0.7 * sum(losses[0][:10])
