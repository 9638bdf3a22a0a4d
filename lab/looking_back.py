"""Positions and length: a task that asks for a token some places before, learned on short sequences.

- ``trained(positions)``: a small causal model for it, with one kind of positions, trained once for page and tests.
- ``accuracy(model, length, start)``: its share of right answers at each place of sequences that begin at a position.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.modern_transformer import rms_norm, rotary_embedding
from autograder.reference.multi_head_attention import merge_heads, split_heads
from autograder.reference.self_attention import causal_mask, sinusoidal_positions
from lab.trained import trained_once
from lab.training import fit

SYMBOLS, BACK = 16, 3
LENGTH, LONGEST = 16, 64  # of the sequences of training, and of testing
WIDTH, NUM_HEADS = 32, 2
STEPS, BATCH, PEAK = 400, 32, 3e-3
KINDS = ("learned", "sinusoidal", "rotary", "rotary, base 100")


class Looker(nn.Module):
    """One block of causal attention and a network, with one kind of positions of ``KINDS``."""

    def __init__(self, positions: str):
        super().__init__()
        self.positions = positions
        self.layout = "interleaved"
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.table = nn.Embedding(LONGEST, WIDTH) if positions == "learned" else None
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.gains = nn.Parameter(torch.ones(3, WIDTH))
        self.read_out = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, symbols: Tensor, start: int = 0) -> Tensor:
        """Scores ``(B, N, SYMBOLS)`` for sequences whose first symbol stands at the position ``start``."""
        length = symbols.shape[-1]
        positions = torch.arange(start, start + length)
        x = self.embedding(symbols)
        if self.table is not None:
            x = x + self.table(positions)
        if self.positions == "sinusoidal":
            x = x + sinusoidal_positions(start + length, WIDTH)[start:]
        projected = self.projections(rms_norm(x, self.gains[0])).chunk(3, dim=-1)
        Q, K, V = (split_heads(part, NUM_HEADS) for part in projected)
        if self.positions.startswith("rotary"):
            base = 100.0 if self.positions.endswith("100") else 10000.0
            Q, K = (rotary_embedding(part, positions, base, self.layout) for part in (Q, K))
        attn_output = scaled_dot_product_attention(Q, K, V, causal_mask(length, length))
        x = x + self.output(merge_heads(attn_output))
        x = x + self.network(rms_norm(x, self.gains[1]))
        return self.read_out(rms_norm(x, self.gains[2]))


def draw(number: int, length: int, generator: torch.Generator) -> Tensor:
    """Random sequences ``(number, length)``."""
    return torch.randint(SYMBOLS, (number, length), generator=generator)


def trained(positions: str, seed: int = 0) -> tuple[Looker, list[float]]:
    """A model that has learned, on sequences of ``LENGTH`` symbols, to say the one ``BACK`` places before each."""
    return trained_once(_build, _train, positions=positions, seed=seed, steps=STEPS)


def _build(positions: str, seed: int, **_) -> Looker:
    torch.manual_seed(seed)
    return Looker(positions)


def _train(model: Looker, positions: str, seed: int, steps: int) -> list[float]:
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        symbols = draw(BATCH, LENGTH, generator)
        scores = model(symbols)[:, BACK:]
        return F.cross_entropy(scores.flatten(0, 1), symbols[:, :-BACK].flatten())

    return fit(model, next_loss, steps, PEAK, warm_up=50)


@torch.no_grad()
def accuracy(model: Looker, length: int = LONGEST, start: int = 0) -> list[float]:
    """The share of right answers at each place, NaN at the first ``BACK``, which have none."""
    symbols = draw(200, length, torch.Generator().manual_seed(1))
    right = model(symbols, start)[:, BACK:].argmax(-1) == symbols[:, :-BACK]
    return [math.nan] * BACK + right.double().mean(0).tolist()
