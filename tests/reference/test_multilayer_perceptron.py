"""The kernels of "The multilayer perceptron" against PyTorch, plain loops, and finite differences."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.reference import multilayer_perceptron as reference
from autograder.reference.getting_started import softmax

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def leaf(array):
    return torch.from_numpy(array.copy()).requires_grad_()


def by_differences(function, x, step=1e-6):
    """The gradient of a number by central differences, an entry at a time."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize(("batch", "d_in", "d_out"), [(5, 3, 4), (1, 3, 4), (5, 1, 1), (4, 4, 4)])
def test_linear_equals_pytorch_in_value_and_gradient(batch, d_in, d_out):
    X, W, b, grad_output = normal(batch, d_in), normal(d_in, d_out, seed=1), normal(d_out), normal(batch, d_out, seed=2)
    leaves = [leaf(array) for array in (X, W, b)]
    output = F.linear(leaves[0], leaves[1].T, leaves[2])
    np.testing.assert_allclose(reference.linear_forward(X, W, b), output.detach(), rtol=1e-13, atol=1e-14)
    wanted = torch.autograd.grad(output, leaves, torch.from_numpy(grad_output))
    for own, right in zip(reference.linear_backward(grad_output, X, W), wanted, strict=True):
        np.testing.assert_allclose(own, right, rtol=1e-13, atol=1e-14)


def test_linear_equals_finite_differences():
    X, W, b, grad_output = normal(5, 3), normal(3, 4), normal(4), normal(5, 4)
    grad_X, grad_W, grad_b = reference.linear_backward(grad_output, X, W)
    for own, x, function in (
        (grad_X, X, lambda x: (reference.linear_forward(x, W, b) * grad_output).sum()),
        (grad_W, W, lambda x: (reference.linear_forward(X, x, b) * grad_output).sum()),
        (grad_b, b, lambda x: (reference.linear_forward(X, W, x) * grad_output).sum()),
    ):
        np.testing.assert_allclose(own, by_differences(function, x), atol=1e-8)


@pytest.mark.parametrize("shape", [(7,), (4, 6), (2, 3, 5)])
def test_relu_equals_pytorch_also_at_zero(shape):
    Z, grad_output = normal(*shape), normal(*shape, seed=1)
    Z[..., 1] = 0.0
    given = leaf(Z)
    output = torch.relu(given)
    np.testing.assert_array_equal(reference.relu_forward(Z), output.detach())
    (wanted,) = torch.autograd.grad(output, given, torch.from_numpy(grad_output))
    np.testing.assert_array_equal(reference.relu_backward(grad_output, Z), wanted)
    assert not reference.relu_backward(grad_output, Z)[..., 1].any()


def test_relu_equals_finite_differences_off_zero():
    Z, grad_output = normal(4, 6), normal(4, 6, seed=1)
    wanted = by_differences(lambda x: (reference.relu_forward(x) * grad_output).sum(), Z)
    np.testing.assert_allclose(reference.relu_backward(grad_output, Z), wanted, atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 1e-5)])
def test_softmax_cross_entropy_equals_pytorch_in_value_and_gradient(scale, dtype, tolerance):
    logits, labels = (scale * normal(6, 4)).astype(dtype), np.array([3, 0, 1, 1, 2, 3])
    given = leaf(logits)
    wanted = F.cross_entropy(given, torch.from_numpy(labels))
    loss, grad_logits = reference.softmax_cross_entropy(logits, labels)
    assert (loss.dtype, grad_logits.dtype) == (dtype, dtype)
    np.testing.assert_allclose(loss, wanted.item(), rtol=tolerance)
    np.testing.assert_allclose(grad_logits, torch.autograd.grad(wanted, given)[0], rtol=tolerance, atol=tolerance)


def test_softmax_cross_entropy_equals_the_definition_and_finite_differences():
    logits, labels = normal(3, 5), np.array([4, 0, 4])
    loss, grad_logits = reference.softmax_cross_entropy(logits, labels)
    losses = [-math.log(math.exp(row[i]) / sum(map(math.exp, row))) for row, i in zip(logits, labels, strict=True)]
    assert loss == pytest.approx(sum(losses) / 3, rel=1e-13)
    wanted = by_differences(lambda x: reference.softmax_cross_entropy(x, labels)[0], logits)
    np.testing.assert_allclose(grad_logits, wanted, atol=1e-9)


def test_the_gradient_of_cross_entropy_is_softmax_less_one_at_the_label():
    logits, labels = normal(4, 5), np.array([4, 0, 4, 2])
    expected = (softmax(logits) - np.eye(5)[labels]) / 4
    np.testing.assert_allclose(reference.softmax_cross_entropy(logits, labels)[1], expected, rtol=1e-13, atol=1e-15)


def test_a_hopeless_class_costs_its_distance_and_gives_no_warning(recwarn):
    loss, grad_logits = reference.softmax_cross_entropy(np.array([[1e4, 0.0], [0.0, 1e4]]), np.array([1, 1]))
    assert loss == 5_000
    np.testing.assert_array_equal(grad_logits, [[0.5, -0.5], [0.0, 0.0]])
    assert not recwarn.list


def test_sgd_step_equals_pytorchs_optimizer_and_leaves_the_parameter():
    parameter, gradient = normal(4, 3), normal(4, 3, seed=1)
    before, tensor = parameter.copy(), leaf(parameter)
    tensor.grad = torch.from_numpy(gradient)
    torch.optim.SGD([tensor], lr=0.3).step()
    np.testing.assert_allclose(reference.sgd_step(parameter, gradient, 0.3), tensor.detach(), rtol=1e-15)
    np.testing.assert_array_equal(parameter, before)
    assert reference.sgd_step(parameter.astype("float32"), gradient.astype("float32"), 0.3).dtype == "float32"


def pytorch_epoch(parameters, X, labels, order, batch_size, learning_rate):
    """The same by PyTorch: its layers, its automatic gradient, its optimizer."""
    W_1, b_1, W_2, b_2 = leaves = [leaf(parameter) for parameter in parameters]
    optimizer, losses = torch.optim.SGD(leaves, lr=learning_rate), []
    for batch in torch.from_numpy(order).split(batch_size):
        logits = torch.relu(torch.from_numpy(X)[batch] @ W_1 + b_1) @ W_2 + b_2
        target = torch.from_numpy(labels)[batch]
        losses += F.cross_entropy(logits, target, reduction="none").tolist()
        optimizer.zero_grad()
        F.cross_entropy(logits, target).backward()
        optimizer.step()
    return [parameter.detach().numpy() for parameter in leaves], sum(losses) / len(losses)


@pytest.mark.parametrize(("visited", "batch_size"), [(12, 4), (12, 5), (7, 3), (12, 1), (12, 12), (5, 100)])
def test_train_epoch_equals_pytorch(visited, batch_size):
    parameters = normal(3, 6), normal(6), normal(6, 4), normal(4)
    before = [parameter.copy() for parameter in parameters]
    X, labels = normal(12, 3), np.random.default_rng(0).integers(0, 4, 12)
    order = np.random.default_rng(1).permutation(12)[:visited]
    given, loss = reference.train_epoch(parameters, X, labels, order, batch_size, 0.3)
    wanted, wanted_loss = pytorch_epoch(parameters, X, labels, order, batch_size, 0.3)
    assert loss == pytest.approx(wanted_loss, rel=1e-12)
    for own, right, old, kept in zip(given, wanted, parameters, before, strict=True):
        np.testing.assert_allclose(own, right, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(old, kept)


def test_the_gradient_of_the_whole_network_equals_finite_differences():
    """A step of rate 1 on one mini-batch is the gradient itself."""
    parameters = normal(3, 6), normal(6), normal(6, 4), normal(4)
    X, labels, order = normal(5, 3), np.array([3, 0, 1, 1, 2]), np.arange(5)
    stepped, _ = reference.train_epoch(parameters, X, labels, order, 5, 1.0)
    for number, parameter in enumerate(parameters):

        def loss(x, number=number):
            moved = (*parameters[:number], x, *parameters[number + 1 :])
            return reference.train_epoch(moved, X, labels, order, 5, 1.0)[1]

        np.testing.assert_allclose(parameter - stepped[number], by_differences(loss, parameter), atol=1e-8)


def test_order_alone_decides_in_which_order_examples_are_visited():
    parameters = normal(3, 6), normal(6), normal(6, 4), normal(4)
    X, labels = normal(9, 3), np.random.default_rng(0).integers(0, 4, 9)
    order = np.random.default_rng(1).permutation(9)
    one, loss = reference.train_epoch(parameters, X, labels, order, 2, 0.3)
    other, same_loss = reference.train_epoch(parameters, X[order], labels[order], np.arange(9), 2, 0.3)
    assert loss == same_loss
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: reference.linear_forward(normal(5, 3), normal(4, 2), normal(2)),
            r"X has 3 columns, W has shape \(4, 2\)",
        ),
        (
            lambda: reference.linear_forward(normal(5, 3), normal(3, 2), normal(1)),
            r"b has shape \(1,\); W must be of shape",
        ),
        (
            lambda: reference.linear_backward(normal(5, 3), normal(5, 4), normal(4, 2)),
            r"grad_output has shape \(5, 3\); the output of these arguments has shape \(5, 2\)",
        ),
        (
            lambda: reference.relu_backward(normal(5, 3), normal(5, 1)),
            r"shape \(5, 3\) and Z has shape \(5, 1\); they must be equal",
        ),
        (
            lambda: reference.softmax_cross_entropy(normal(2, 3), np.eye(3, dtype=int)[:2]),
            r"labels has shape \(2, 3\) and logits have 2 rows; each row needs one class number",
        ),
        (
            lambda: reference.softmax_cross_entropy(normal(2, 3), np.array([0, 3])),
            r"from 0 to 3; with 3 columns of logits they must lie between 0 and 2",
        ),
        (lambda: reference.softmax_cross_entropy(normal(2, 3), np.array([-1, 0])), "labels go from -1 to 0"),
        (
            lambda: reference.sgd_step(normal(5, 3), normal(3), 0.1),
            r"parameter has shape \(5, 3\) and gradient \(3,\); they must be equal",
        ),
        (
            lambda: reference.train_epoch((), normal(5, 3), np.zeros(5, int), np.arange(5), 0, 0.1),
            "batch_size is 0; it must be at least 1",
        ),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_kernels_and_checks_need_no_pytorch():
    program = """
        import sys
        from autograder import catalog, evaluate
        from autograder.reference import multilayer_perceptron as kernels
        for name in catalog.checks("multilayer_perceptron"):
            kernel = getattr(kernels, name)
            assert evaluate(name, lambda *args, **options: kernel(*args, **options), 1).passed, name
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
