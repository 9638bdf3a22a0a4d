"""The kernels of "The Transformer" against PyTorch's own operators, in value and gradient."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.reference import transformer as reference

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape)).requires_grad_()


def assert_same(given, wanted, leaves):
    """Equal in value and in the gradients of a sum with weights that differ."""
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    weights = torch.cos(torch.arange(given.numel(), dtype=given.dtype)).reshape(given.shape)
    gradients = (torch.autograd.grad((output * weights).sum(), leaves) for output in (given, wanted))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("eps", [1e-5, 0.3])
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
def test_layer_norm_equals_pytorchs(leading, eps):
    x, weight, bias = normal(*leading, 6), normal(6, seed=1), normal(6, seed=2)
    wanted = F.layer_norm(x, (6,), weight, bias, eps)
    assert_same(reference.layer_norm(x, weight, bias, eps), wanted, [x, weight, bias])


def test_no_token_has_a_part_in_the_norm_of_another():
    x, weight, bias = normal(2, 5, 6), normal(6, seed=1), normal(6, seed=2)
    (gradient,) = torch.autograd.grad(reference.layer_norm(x, weight, bias)[1, 3].square().sum(), x)
    assert gradient[1, 3].all()
    assert gradient.count_nonzero() == 6


def test_feed_forward_equals_pytorchs_layers_and_keeps_tokens_apart():
    layers = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 6)).double()
    x, parameters = normal(2, 5, 6), list(layers.parameters())
    given = reference.feed_forward(x, *parameters)
    assert_same(given, layers(x), [x, *parameters])
    torch.testing.assert_close(given[1, 3], reference.feed_forward(x[1, 3], *parameters))


def test_residual_add_norm_equals_pytorchs_norm_of_the_sum():
    x, output, weight, bias = normal(2, 5, 6), normal(2, 5, 6, seed=1), normal(6, seed=2), normal(6, seed=3)
    given = reference.residual_add_norm(x, output, weight, bias)
    assert_same(given, F.layer_norm(x + output, (6,), weight, bias), [x, output, weight, bias])


def test_dropout_acts_on_the_sublayer_alone():
    x, output, weight, bias = normal(2, 5, 6), normal(2, 5, 6, seed=1), normal(6, seed=2), normal(6, seed=3)
    dropped = reference.residual_add_norm(x, output, weight, bias, dropout=1.0)
    torch.testing.assert_close(dropped, F.layer_norm(x, (6,), weight, bias))
    torch.manual_seed(0)
    given = reference.residual_add_norm(x, output, weight, bias, dropout=0.5)
    torch.manual_seed(0)
    torch.testing.assert_close(given, F.layer_norm(x + F.dropout(output, 0.5), (6,), weight, bias))


def test_the_learning_rate_is_highest_at_the_end_of_the_warm_up():
    rates = [reference.noam_learning_rate(step, d_model=64, warmup_steps=40) for step in range(1, 200)]
    assert int(np.argmax(rates)) + 1 == 40
    np.testing.assert_allclose(rates[39], (64 * 40) ** -0.5)
    np.testing.assert_allclose(np.diff(rates[:40]), rates[0])
    np.testing.assert_allclose(rates[159], rates[39] / 2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignore_index", [-100, 0])
def test_the_loss_equals_pytorchs(smoothing, ignore_index):
    logits, targets = normal(4, 5, 7), torch.from_numpy(np.random.default_rng(0).integers(1, 7, (4, 5)))
    targets[1, 3:] = ignore_index
    targets[3] = ignore_index
    wanted = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing, ignore_index=ignore_index
    )
    assert_same(reference.label_smoothing_loss(logits, targets, smoothing, ignore_index), wanted, [logits])


def test_the_loss_without_a_token_is_nan_as_pytorchs():
    logits, targets = normal(3, 7), torch.full((3,), -100)
    assert reference.label_smoothing_loss(logits, targets).isnan()
    assert F.cross_entropy(logits, targets, label_smoothing=0.1).isnan()


def test_what_does_not_fit_is_told_in_words():
    x, wide = torch.zeros(2, 3), torch.zeros(4)
    with pytest.raises(ValueError, match=r"x has width 3; weight and bias have shapes \(4,\) and \(4,\)"):
        reference.layer_norm(x, wide, wide)
    with pytest.raises(ValueError, match=r"x has width 3, W_1 has shape \(5, 4\)"):
        reference.feed_forward(x, torch.zeros(5, 4), torch.zeros(5), torch.zeros(4, 5), wide)
    with pytest.raises(ValueError, match="the two must be equal"):
        reference.residual_add_norm(x, x[:1], torch.ones(3), torch.zeros(3))
    with pytest.raises(ValueError, match="each must be at least 1"):
        reference.noam_learning_rate(0, 512)
    with pytest.raises(ValueError, match="the same shape without the last axis"):
        reference.label_smoothing_loss(x, torch.zeros(3, dtype=torch.long))
