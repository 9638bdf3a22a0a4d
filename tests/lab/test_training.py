"""The training loop: it does the steps that it says, with the learning rate that it says."""

import pytest
import torch
from torch import nn

from lab.training import fit

torch.set_num_threads(1)


def line():
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def loss_of(model):
    generator = torch.Generator().manual_seed(0)

    def next_loss():
        x = torch.randn(16, 3, generator=generator)
        return (model(x)[:, 0] - x.sum(1)).square().mean()

    return next_loss


def test_a_line_is_learned_and_every_loss_is_returned():
    model = line()
    losses = fit(model, loss_of(model), steps=100, lr=0.1, warm_up=10, max_norm=1.0)
    assert len(losses) == 100
    assert losses[0] > 0.5
    assert losses[-1] < 1e-3


def test_the_learning_rate_rises_and_then_falls_to_zero():
    model, moved = line(), []
    before = model.weight.detach().clone()

    def next_loss():
        nonlocal before
        moved.append((model.weight.detach() - before).abs().max().item())
        before = model.weight.detach().clone()
        return model.weight.sum()  # its gradient is one, so that each step is as long as the learning rate

    fit(model, next_loss, steps=100, lr=0.01, warm_up=20)
    moved = moved[1:]
    assert moved[0] == pytest.approx(0.01 / 20, rel=0.01)
    assert max(moved) == pytest.approx(0.01, rel=0.01)
    assert moved.index(max(moved)) == pytest.approx(20, abs=1)
    assert moved[-1] < 3e-5


def test_what_needs_no_gradient_stays():
    model = line()
    model.bias.requires_grad_(False)
    bias = model.bias.clone()
    fit(model, loss_of(model), steps=5, lr=0.1)
    assert torch.equal(model.bias, bias)


def test_progress_is_ten_lines(capsys):
    model = line()
    fit(model, loss_of(model), steps=25, lr=0.1, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith("step 25 of 25: loss ")
