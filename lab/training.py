"""One loop that trains any model whose loss is a function without arguments."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def fit(
    model: nn.Module,
    next_loss: Callable[[], Tensor],
    steps: int,
    lr: float,
    warm_up: int = 0,
    max_norm: float | None = None,
    progress: bool = False,
) -> list[float]:
    """Train a model for a fixed number of steps; the loss of each.

    Parameters
    ----------
    model
        What is trained; parameters that need no gradient stay as they are.
    next_loss
        Draws a batch and returns the model's loss on it.
    steps
        How many steps.
    lr
        The largest learning rate of Adam, which falls to zero along a cosine.
    warm_up
        The number of first steps over which the learning rate rises to ``lr``.
    max_norm
        The largest norm that the gradient may have; a longer one is shortened.
    progress
        Whether to print a line at each tenth of the steps.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr, fused=True)

    def share(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(steps - warm_up, 1)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    losses = []
    for step in range(1, steps + 1):
        loss = next_loss()
        optimizer.zero_grad()
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(parameters, max_norm)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if progress and step * 10 // steps > (step - 1) * 10 // steps:
            print(f"step {step} of {steps}: loss {losses[-1]:.3f}", flush=True)
    return losses
