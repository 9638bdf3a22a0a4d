"""A task that order alone decides: of two marked symbols in a sequence, which one comes first?"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.training import fit

NUM_SYMBOLS = 12
FIRST, SECOND = 0, 1  # the two symbols whose order is asked for; all others are filling


def draw(batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw sequences in which each of the two symbols stands once, and whether ``FIRST`` comes before ``SECOND``.

    Raises
    ------
    ValueError
        If there is no room for both symbols.
    """
    if length < 2:
        raise ValueError(f"length is {length}; two symbols need at least 2.")
    symbols = torch.randint(2, NUM_SYMBOLS, (batch, length), generator=generator)
    places = torch.rand(batch, length, generator=generator).topk(2, dim=-1).indices
    symbols.scatter_(1, places, torch.tensor([FIRST, SECOND]).expand(batch, 2))
    return symbols, places[:, 0] < places[:, 1]


class OrderModel(nn.Module):
    """Embeddings, with or without positions, one self-attention, and the mean of its outputs.

    Parameters
    ----------
    self_attention
        The kernel: ``(X, W_Q, W_K, W_V) -> attn_output``.
    positions
        Position encodings ``(N, width)`` that are added to the embeddings, or None for no positions.
    learn_positions
        Whether training changes the encodings.
    width
        Width of embeddings, queries, keys and values.
    """

    def __init__(
        self, self_attention: Callable, positions: Tensor | None = None, learn_positions: bool = False, width: int = 32
    ):
        super().__init__()
        self.self_attention = self_attention
        self.embedding = nn.Embedding(NUM_SYMBOLS, width)
        nn.init.normal_(self.embedding.weight, std=0.3)  # with standard deviation 1 some seeds do not learn the order
        self.projections = nn.ParameterList(torch.randn(width, width) / width**0.5 for _ in range(3))
        self.output = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.choice = nn.Linear(width, 2)
        self.positions = None if positions is None else nn.Parameter(positions.clone(), learn_positions)

    def forward(self, symbols: Tensor) -> Tensor:
        """Scores for "no" and "yes", of shape ``(B, 2)``, to sequences ``(B, N)``."""
        X = self.embedding(symbols)
        if self.positions is not None:
            X = X + self.positions[: symbols.shape[1]]
        attended = X + self.self_attention(X, *self.projections)
        return self.choice(self.output(attended).mean(1))


def train(
    model: nn.Module, steps: int, max_length: int, batch: int = 64, lr: float = 3e-3, seed: int = 0
) -> list[float]:
    """Train on lengths of 2 to ``max_length``, with a learning rate that falls to zero; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        length = int(torch.randint(2, max_length + 1, (), generator=generator))
        symbols, yes = draw(batch, length, generator)
        return F.cross_entropy(model(symbols), yes.long())

    return fit(model, next_loss, steps, lr)


@torch.no_grad()
def accuracy(model: nn.Module, length: int, questions: int = 2000, seed: int = 1) -> float:
    """Share of right answers about sequences of one length."""
    symbols, yes = draw(questions, length, torch.Generator().manual_seed(seed))
    return (model(symbols).argmax(-1).bool() == yes).double().mean().item()
