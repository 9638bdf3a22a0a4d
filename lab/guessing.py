"""Guessing the next of random symbols, which nobody can: who does well at it has seen the future."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.self_attention import sinusoidal_positions

NUM_SYMBOLS = 8
LENGTH = 16
BEST_LOSS = math.log(NUM_SYMBOLS)  # of an honest guess: all symbols are equally likely


class Guesser(nn.Module):
    """Embeddings with positions, one causal self-attention, and scores for the next symbol.

    Parameters
    ----------
    masked_self_attention
        The kernel: ``(X, W_Q, W_K, W_V, causal) -> attn_output``.
    width
        Width of embeddings, queries, keys and values.
    """

    def __init__(self, masked_self_attention: Callable, width: int = 32):
        super().__init__()
        self.masked_self_attention = masked_self_attention
        self.embedding = nn.Embedding(NUM_SYMBOLS, width)
        self.projections = nn.ParameterList(torch.randn(width, width) / width**0.5 for _ in range(3))
        self.choice = nn.Linear(width, NUM_SYMBOLS)
        self.register_buffer("positions", sinusoidal_positions(LENGTH, width))

    def forward(self, symbols: Tensor) -> Tensor:
        X = self.embedding(symbols) + self.positions
        return self.choice(self.masked_self_attention(X, *self.projections, causal=True))


def train(model: nn.Module, steps: int, batch: int = 32, lr: float = 1e-2, seed: int = 0) -> list[float]:
    """Train on new random sequences in each step; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr, fused=True)
    losses = []
    for _ in range(steps):
        symbols = torch.randint(NUM_SYMBOLS, (batch, LENGTH + 1), generator=generator)
        loss = F.cross_entropy(model(symbols[:, :-1]).flatten(0, 1), symbols[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
