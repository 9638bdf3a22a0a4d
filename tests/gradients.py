"""Comparing a kernel with an oracle in value and in gradient."""

import torch


def value_and_gradients(kernel, tensors):
    """A kernel's outputs, and the gradients for its arguments of a sum of all entries, each with another weight."""
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    outputs = kernel(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum((o * torch.cos(torch.arange(o.numel(), dtype=o.dtype)).reshape(o.shape)).sum() for o in outputs)
    return [*(output.detach() for output in outputs), *torch.autograd.grad(loss, leaves)]


def assert_same(given, wanted):
    """Assert that two lists of tensors agree up to rounding in double precision."""
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
