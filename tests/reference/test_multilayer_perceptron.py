"""The reference kernels of "The multilayer perceptron" against PyTorch and finite differences."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from autograder.reference.multilayer_perceptron import (
    linear_backward,
    linear_forward,
    relu_backward,
    relu_forward,
    softmax_cross_entropy,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tensor(array):
    return torch.from_numpy(array.copy()).requires_grad_(array.dtype.kind == "f")


def by_differences(function, x, step=1e-6):
    """The gradient of a number by central differences, an entry at a time."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def test_linear_equals_pytorch(rng):
    X, W, b, grad_output = (rng.normal(size=size) for size in ((5, 3), (3, 4), (4,), (5, 4)))
    inputs = [tensor(array) for array in (X, W, b)]
    output = F.linear(inputs[0], inputs[1].T, inputs[2])
    np.testing.assert_allclose(linear_forward(X, W, b), output.detach(), rtol=1e-13)
    wanted = torch.autograd.grad(output, inputs, torch.from_numpy(grad_output))
    for own, right in zip(linear_backward(grad_output, X, W), wanted, strict=True):
        np.testing.assert_allclose(own, right, rtol=1e-13, atol=1e-14)


def test_linear_equals_finite_differences(rng):
    X, W, b, grad_output = (rng.normal(size=size) for size in ((5, 3), (3, 4), (4,), (5, 4)))
    grad_X, grad_W, grad_b = linear_backward(grad_output, X, W)
    for own, x, function in (
        (grad_X, X, lambda x: (linear_forward(x, W, b) * grad_output).sum()),
        (grad_W, W, lambda x: (linear_forward(X, x, b) * grad_output).sum()),
        (grad_b, b, lambda x: (linear_forward(X, W, x) * grad_output).sum()),
    ):
        np.testing.assert_allclose(own, by_differences(function, x), atol=1e-8)


def test_relu_equals_pytorch_also_at_zero(rng):
    x, grad_output = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    x[1] = 0.0
    given = tensor(x)
    output = torch.relu(given)
    np.testing.assert_array_equal(relu_forward(x), output.detach())
    (wanted,) = torch.autograd.grad(output, given, torch.from_numpy(grad_output))
    np.testing.assert_array_equal(relu_backward(grad_output, x), wanted)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 1e-5)])
def test_softmax_cross_entropy_equals_pytorch(rng, scale, dtype, tolerance):
    logits, labels = rng.normal(0, scale, (6, 4)).astype(dtype), rng.integers(0, 4, 6)
    given = tensor(logits)
    wanted = F.cross_entropy(given, torch.from_numpy(labels))
    loss, grad_logits = softmax_cross_entropy(logits, labels)
    assert (loss.dtype, grad_logits.dtype) == (dtype, dtype)
    np.testing.assert_allclose(loss, wanted.item(), rtol=tolerance)
    np.testing.assert_allclose(grad_logits, torch.autograd.grad(wanted, given)[0], rtol=tolerance, atol=tolerance)


def test_softmax_cross_entropy_equals_finite_differences(rng):
    logits, labels = rng.normal(size=(3, 5)), np.array([4, 0, 4])
    wanted = by_differences(lambda x: softmax_cross_entropy(x, labels)[0], logits)
    np.testing.assert_allclose(softmax_cross_entropy(logits, labels)[1], wanted, atol=1e-9)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_refused(label):
    with pytest.raises(ValueError, match=r"with 3 columns of logits they must be from 0 to 2"):
        softmax_cross_entropy(np.zeros((2, 3)), np.array([0, label]))


def test_the_kernels_need_no_torch():
    code = "import sys, autograder.reference.multilayer_perceptron; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
