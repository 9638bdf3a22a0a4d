"""The task that order decides: its answers are right, and only a model that knows positions learns it."""

import pytest
import torch

from autograder.reference.self_attention import self_attention, sinusoidal_positions
from lab import order

torch.set_num_threads(1)


@pytest.mark.parametrize("length", [2, 9])
def test_each_symbol_stands_once_and_the_answer_says_which_comes_first(length):
    symbols, yes = order.draw(500, length, torch.Generator().manual_seed(0))
    assert symbols.shape == (500, length)
    for symbol in (order.FIRST, order.SECOND):
        assert ((symbols == symbol).sum(1) == 1).all()
    first, second = ((symbols == symbol).int().argmax(1) for symbol in (order.FIRST, order.SECOND))
    assert torch.equal(first < second, yes)
    assert 0.4 < yes.double().mean() < 0.6


def test_too_little_room_is_an_error_in_words():
    with pytest.raises(ValueError, match="length is 1; two symbols need at least 2"):
        order.draw(3, 1, torch.Generator())


def test_without_positions_the_model_does_not_see_the_order():
    torch.manual_seed(0)
    model = order.OrderModel(self_attention).double()
    symbols, _ = order.draw(20, 9, torch.Generator().manual_seed(0))
    shuffled = symbols[:, torch.randperm(9, generator=torch.Generator().manual_seed(1))]
    torch.testing.assert_close(model(symbols), model(shuffled))


def trained(positions, learn_positions=False):
    torch.manual_seed(0)
    model = order.OrderModel(self_attention, positions, learn_positions)
    order.train(model, steps=1200, max_length=16)
    return model


@pytest.mark.slow
def test_accuracy_is_at_chance_without_positions_and_near_one_with_them():
    assert 0.45 < order.accuracy(trained(None), 12) < 0.55
    assert order.accuracy(trained(sinusoidal_positions(16, 32)), 12) > 0.97
    torch.manual_seed(0)
    assert order.accuracy(trained(0.1 * torch.randn(16, 32), learn_positions=True), 12) > 0.97


@pytest.mark.slow
def test_sines_that_exist_beyond_the_training_lengths_are_not_understood_there():
    model = trained(sinusoidal_positions(64, 32))
    assert order.accuracy(model, 16) > 0.95
    assert order.accuracy(model, 64) < 0.75
