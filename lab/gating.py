"""What a gate is good for: feed-forward networks with and without one, of equal size, on functions of two numbers.

- ``TARGETS``: the functions. ``loss(gated, target)``: what is left of the error after a short training.
"""

from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.reference.modern_transformer import swiglu
from lab.modern import FeedForward
from lab.training import fit

WIDTH, D_FF, STEPS, BATCH, LR = 8, 48, 400, 64, 1e-2


def _neighbour(x: Tensor) -> Tensor:
    return x.roll(1, -1)


# Of each number and the one beside it; the mean square of both targets is near one.
TARGETS = {
    "product": lambda x: x * _neighbour(x),
    "distance": lambda x: (x - _neighbour(x)).abs() / 2**0.5,
}


def loss(gated: bool, target: str, seed: int = 0) -> float:
    """The mean squared error of a network on fresh inputs, over the last 20 steps of its training."""
    torch.manual_seed(seed)
    network = FeedForward(WIDTH, D_FF, swiglu if gated else None)
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        x = torch.randn(BATCH, WIDTH, generator=generator)
        return F.mse_loss(network(x), TARGETS[target](x))

    return fmean(fit(network, next_loss, STEPS, LR)[-20:])
