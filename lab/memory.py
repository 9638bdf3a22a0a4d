"""How far back a recurrent network reaches: by the gradient, and by a task of pure memory."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.readers import RecurrentReader
from lab.training import fit

NUM_SYMBOLS = 8


def draw(batch: int, distance: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random symbols ``(B, distance + 1)``, and the first of each, which is asked for after ``distance`` others."""
    symbols = torch.randint(NUM_SYMBOLS, (batch, distance + 1), generator=generator)
    return symbols, symbols[:, 0]


def train(
    model: nn.Module, steps: int, max_distance: int, batch: int = 64, lr: float = 5e-3, seed: int = 0
) -> list[float]:
    """Train on distances of 1 to ``max_distance``; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        distance = int(torch.randint(1, max_distance + 1, (), generator=generator))
        symbols, first = draw(batch, distance, generator)
        return F.cross_entropy(model(symbols), first)

    return fit(model, next_loss, steps, lr, max_norm=1.0)


@torch.no_grad()
def accuracy(model: nn.Module, distance: int, questions: int = 1000, seed: int = 1) -> float:
    """Share of right answers at one distance."""
    symbols, first = draw(questions, distance, torch.Generator().manual_seed(seed))
    return (model(symbols).argmax(-1) == first).double().mean().item()


def gradient_norms(model: RecurrentReader, length: int, batch: int = 64, seed: int = 0) -> Tensor:
    """How strongly a loss at the last step depends on the symbol at each distance before it.

    The loss is a random linear function of the last state. For each distance from 0 to ``length - 1``, the norm of its
    gradient for the embedding of that symbol, the mean over a batch of random sequences.
    """
    generator = torch.Generator().manual_seed(seed)
    symbols, _ = draw(batch, length - 1, generator)
    X = model.embedding(symbols).detach().requires_grad_()
    last = model.last_state(X)
    loss = (last * torch.randn(last.shape, generator=generator)).sum()
    (gradient,) = torch.autograd.grad(loss, X)
    return gradient.norm(dim=-1).mean(0).flip(0)
