"""Two pointers: each token names two places of its sequence and must say which symbols stand there."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import attention_weights
from autograder.reference.multi_head_attention import split_heads
from lab.training import fit

LENGTH = 12
NUM_SYMBOLS = 10
# Whoever knows one answer only repeats it for the other: right if both pointers are equal, or both symbols.
CHANCE = 1 / LENGTH + (1 - 1 / LENGTH) / NUM_SYMBOLS


@dataclass(frozen=True)
class Batch:
    """Sequences of tokens, each token a symbol and two pointers.

    Parameters
    ----------
    symbols
        Shape ``(B, N)``.
    pointers
        Places of the same sequence, of shape ``(B, N, 2)``.
    """

    symbols: Tensor
    pointers: Tensor

    @property
    def answers(self) -> Tensor:
        """The symbols that the pointers point at, of shape ``(B, N, 2)``."""
        return self.symbols.gather(1, self.pointers.flatten(1)).view_as(self.pointers)


def draw(batch: int, generator: torch.Generator) -> Batch:
    """Draw sequences whose symbols and pointers are all independent and equally likely."""
    symbols = torch.randint(NUM_SYMBOLS, (batch, LENGTH), generator=generator)
    return Batch(symbols, torch.randint(LENGTH, (batch, LENGTH, 2), generator=generator))


class PointerModel(nn.Module):
    """One layer of self-attention between embeddings and a linear read-out of two symbols.

    Parameters
    ----------
    attention
        The layer, called as ``attention(query, key, value)``.
    d_model
        Width of the tokens.
    """

    def __init__(self, attention: nn.Module, d_model: int = 64):
        super().__init__()
        self.attention = attention
        self.symbol = nn.Embedding(NUM_SYMBOLS, d_model)
        self.place = nn.Embedding(LENGTH, d_model)
        self.pointer = nn.Embedding(2 * LENGTH, d_model)
        self.read_out = nn.Linear(d_model, 2 * NUM_SYMBOLS)

    def tokens(self, batch: Batch) -> Tensor:
        """What the layer attends to: the sum of the embeddings of symbol, place and both pointers."""
        which = batch.pointers + torch.tensor([0, LENGTH])
        return self.symbol(batch.symbols) + self.place.weight + self.pointer(which).sum(-2)

    def forward(self, batch: Batch) -> Tensor:
        tokens = self.tokens(batch)
        return self.read_out(self.attention(tokens, tokens, tokens)).unflatten(-1, (2, NUM_SYMBOLS))


def train(model: nn.Module, steps: int, batch: int = 32, lr: float = 5e-3, seed: int = 0) -> list[float]:
    """Train with a learning rate that falls to zero; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        drawn = draw(batch, generator)
        return F.cross_entropy(model(drawn).flatten(0, -2), drawn.answers.flatten())

    return fit(model, next_loss, steps, lr)


def trained(
    attention: Callable[[int, int], nn.Module], num_heads: int, seed: int = 0, steps: int = 500, d_model: int = 64
) -> tuple[PointerModel, list[float]]:
    """A model whose layer is ``attention(d_model, num_heads)``, trained, and its losses; all from one seed."""
    torch.manual_seed(seed)
    model = PointerModel(attention(d_model, num_heads), d_model)
    return model, train(model, steps, seed=seed)


@torch.no_grad()
def accuracy(model: nn.Module, sequences: int = 200, seed: int = 1) -> dict[str, float]:
    """Share of tokens whose first answer, second answer, and both answers are right."""
    drawn = draw(sequences, torch.Generator().manual_seed(seed))
    first, second = (model(drawn).argmax(-1) == drawn.answers).unbind(-1)
    shares = {"first": first, "second": second, "both": first & second}
    return {name: share.double().mean().item() for name, share in shares.items()}


@contextlib.contextmanager
def without_head(model: PointerModel, head: int):
    """Silence one head of the model's layer inside the block: the output projection does not read it."""
    weight = model.attention.out_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.unflatten(-1, (model.attention.num_heads, -1))[:, head] = 0.0
    try:
        yield
    finally:
        with torch.no_grad():
            weight.copy_(kept)


@torch.no_grad()
def head_weights(model: PointerModel, batch: Batch) -> Tensor:
    """The attention weights of each head, of shape ``(B, H, N, N)``, computed again from the layer's parameters."""
    layer, tokens = model.attention, model.tokens(batch)
    query, key, _ = F.linear(tokens, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    return attention_weights(split_heads(query, layer.num_heads), split_heads(key, layer.num_heads))


@torch.no_grad()
def looked_at(model: PointerModel, sequences: int = 200, seed: int = 1) -> Tensor:
    """The mean weight that each head puts on what the first and the second pointer point at, of shape ``(H, 2)``.

    Tokens whose pointers are equal are left out.
    """
    batch = draw(sequences, torch.Generator().manual_seed(seed))
    weights = head_weights(model, batch)
    places = batch.pointers[:, None].expand(-1, weights.shape[1], -1, -1)
    differ = batch.pointers[..., 0] != batch.pointers[..., 1]
    return weights.gather(-1, places).transpose(0, 1)[:, differ].mean(1)
