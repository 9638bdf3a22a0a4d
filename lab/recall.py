"""Associative recall: pairs of a key and a value are shown, then one key is asked for its value."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.training import fit

NUM_KEYS = 512
NUM_VALUES = 32


@dataclass(frozen=True)
class Question:
    """A batch of lists of pairs, each with the key that is asked for and the value that goes with it.

    Parameters
    ----------
    keys, values
        Symbols of shape ``(B, N)``; the keys of one list are all different.
    asked, answer
        Symbols of shape ``(B,)``.
    """

    keys: Tensor
    values: Tensor
    asked: Tensor
    answer: Tensor


def ask(batch: int, pairs: int, generator: torch.Generator) -> Question:
    """Draw lists of pairs and one question about each.

    Raises
    ------
    ValueError
        If there are not as many different keys as pairs are wanted.
    """
    if not 1 <= pairs <= NUM_KEYS:
        raise ValueError(f"{pairs} pairs were asked for; it must be 1 to {NUM_KEYS}, because keys do not repeat.")
    keys = torch.rand(batch, NUM_KEYS, generator=generator).topk(pairs, dim=-1).indices
    values = torch.randint(NUM_VALUES, (batch, pairs), generator=generator)
    place = torch.randint(pairs, (batch, 1), generator=generator)
    return Question(keys, values, keys.gather(1, place)[:, 0], values.gather(1, place)[:, 0])


class AttentionRecall(nn.Module):
    """One cross-attention from the question to the pairs.

    Each pair is one token: the embeddings of its key and of its value, one after the other.

    Parameters
    ----------
    cross_attention
        The kernel that looks the pairs up: ``(X_q, X_kv, W_Q, W_K, W_V) -> attn_output``.
    width
        Width of each embedding, and of queries, keys and values.
    """

    def __init__(self, cross_attention: Callable, width: int = 32):
        super().__init__()
        self.cross_attention = cross_attention
        self.key_embedding = nn.Embedding(NUM_KEYS, width)
        self.value_embedding = nn.Embedding(NUM_VALUES, width)
        self.W_Q = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.W_K = nn.Parameter(torch.randn(2 * width, width) / (2 * width) ** 0.5)
        self.W_V = nn.Parameter(torch.randn(2 * width, width) / (2 * width) ** 0.5)
        self.output = nn.Linear(width, NUM_VALUES)

    def forward(self, question: Question) -> Tensor:
        pairs = torch.cat([self.key_embedding(question.keys), self.value_embedding(question.values)], dim=-1)
        asked = self.key_embedding(question.asked)[:, None]
        return self.output(self.cross_attention(asked, pairs, self.W_Q, self.W_K, self.W_V)[:, 0])


def train(
    model: nn.Module, steps: int, max_pairs: int, batch: int = 64, lr: float = 1e-2, seed: int = 0
) -> list[float]:
    """Train on lists of 2 to ``max_pairs`` pairs, with a learning rate that falls to zero; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        pairs = int(torch.randint(2, max_pairs + 1, (), generator=generator))
        question = ask(batch, pairs, generator)
        return F.cross_entropy(model(question), question.answer)

    return fit(model, next_loss, steps, lr)


@torch.no_grad()
def accuracy(model: nn.Module, pairs: int, questions: int = 1000, seed: int = 1) -> float:
    """Share of right answers about lists of ``pairs`` pairs."""
    question = ask(questions, pairs, torch.Generator().manual_seed(seed))
    return (model(question).argmax(-1) == question.answer).double().mean().item()
