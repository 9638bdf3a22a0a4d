"""What sparse attention can look up, what it can pass on, and how far a trained model looks.

- ``PATTERNS``: layers of attention by name, such as two windows, or a window and a stride.
- ``draw(task, batch, generator)``: sequences for one of ``TASKS``: each token asks for a value of its own, a few
  tokens ask, or all want one message.
- ``trained(task, pattern)``: a small model for a task, trained once for page and tests.
- ``SparseReader(layers)``, ``train(model, task, steps)``: the same with kernels of your own.
- ``accuracy_by_distance(model, task)``: the share of right answers at each distance.
- ``share_near(maps)``: how much weight of causal attention maps lies within each window.
- ``windowed(model, window)``: a language model whose tokens see the last ones only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.language_model import CausalBlock
from autograder.reference.multi_head_attention import merge_heads, split_heads
from autograder.reference.sparse_attention import local_attention, longformer_attention, strided_attention
from autograder.reference.transformer import residual_add_norm
from lab import recall
from lab.language_model import LanguageModel
from lab.trained import trained_once
from lab.training import fit

LENGTH, WINDOW, STRIDE = 64, 8, 8
SPECIAL = torch.arange(LENGTH // 8, LENGTH, LENGTH // 4)  # four tokens
WIDTH, NUM_HEADS = 32, 2
MESSAGE, NOTHING = recall.NUM_KEYS, recall.NUM_KEYS + 1  # what a token asks for in the task "one message"
TASKS = ("every token asks", "few tokens ask", "one message")
STEPS = {"every token asks": 170, "few tokens ask": 130, "one message": 120}

WINDOWED = partial(local_attention, window=WINDOW)
PATTERNS: dict[str, tuple[Callable, ...]] = {
    "full": (scaled_dot_product_attention,),
    "window": (WINDOWED,),
    "window, window": (WINDOWED, WINDOWED),
    "window, stride": (WINDOWED, partial(strided_attention, stride=STRIDE)),
    "window + special": (partial(longformer_attention, window=WINDOW, positions=SPECIAL),),
    "window + special, twice": (partial(longformer_attention, window=WINDOW, positions=SPECIAL),) * 2,
}


@dataclass(frozen=True)
class Sequences:
    """A batch of sequences whose tokens hold pairs of a key and a value, and ask for the value of some key.

    Parameters
    ----------
    keys, values
        What each token holds, ``(B, N)``; the keys of one sequence are all different.
    asked
        The key that each token asks for, ``(B, N)``. In the task "one message" it is ``MESSAGE`` at the token that
        holds the message and ``NOTHING`` elsewhere.
    answer
        The right value for each token, ``(B, N)``.
    distance
        How far away it stands, ``(B, N)``.
    counted
        True for the tokens whose answers are wanted, ``(B, N)``.
    """

    keys: Tensor
    values: Tensor
    asked: Tensor
    answer: Tensor
    distance: Tensor
    counted: Tensor


def draw(task: str, batch: int, generator: torch.Generator) -> Sequences:
    """Draw sequences of ``LENGTH`` tokens for a task.

    Raises
    ------
    ValueError
        If the task is not one of ``TASKS``.
    """
    if task not in TASKS:
        raise ValueError(f"There is no task {task!r}; choose one of {', '.join(TASKS)}.")
    pairs = recall.ask(batch, LENGTH, generator)
    here = torch.arange(LENGTH).expand(batch, LENGTH)
    if task == "one message":
        wanted = torch.randint(LENGTH, (batch, 1), generator=generator).expand(batch, LENGTH)
        asked = torch.where(here == wanted, MESSAGE, NOTHING)
        counted = here != wanted
    else:
        wanted = (here + torch.randint(1, LENGTH, (batch, LENGTH), generator=generator)) % LENGTH
        asked = pairs.keys.gather(1, wanted)
        counted = torch.ones_like(here, dtype=torch.bool) if task == "every token asks" else torch.isin(here, SPECIAL)
    return Sequences(pairs.keys, pairs.values, asked, pairs.values.gather(1, wanted), (wanted - here).abs(), counted)


class SparseLayer(nn.Module):
    """A block, pre-norm, whose attention is any function of queries, keys and values ``(B, H, N, d_head)``."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], d_model: int, num_heads: int):
        super().__init__()
        self.attend, self.num_heads = attend, num_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.in_proj, self.out_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        heads = (split_heads(part, self.num_heads) for part in self.in_proj(self.norm1(x)).chunk(3, -1))
        x = x + self.out_proj(merge_heads(self.attend(*heads)))
        return x + self.feed_forward(self.norm2(x))


class SparseReader(nn.Module):
    """A small encoder that names a value for each token of `Sequences`.

    Parameters
    ----------
    layers
        The attention of each layer, ``(query, key, value) -> attn_output``.
    """

    def __init__(self, layers: Sequence[Callable[[Tensor, Tensor, Tensor], Tensor]]):
        super().__init__()
        d_model = 3 * WIDTH
        self.key = nn.Embedding(recall.NUM_KEYS + 2, WIDTH)
        self.value = nn.Embedding(recall.NUM_VALUES, WIDTH)
        self.place = nn.Parameter(0.1 * torch.randn(LENGTH, d_model))
        self.layers = nn.Sequential(*(SparseLayer(attend, d_model, NUM_HEADS) for attend in layers))
        self.read_out = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, recall.NUM_VALUES))

    def forward(self, sequences: Sequences) -> Tensor:
        parts = self.key(sequences.keys), self.value(sequences.values), self.key(sequences.asked)
        return self.read_out(self.layers(torch.cat(parts, -1) + self.place))


def train(model: nn.Module, task: str, steps: int, batch: int = 16, lr: float = 1e-2, seed: int = 0) -> list[float]:
    """Train on fresh sequences; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        sequences = draw(task, batch, generator)
        return F.cross_entropy(model(sequences)[sequences.counted], sequences.answer[sequences.counted])

    return fit(model, next_loss, steps, lr, warm_up=steps // 10, max_norm=1.0)


def trained(task: str, pattern: str) -> SparseReader:
    """A model with the layers of one of ``PATTERNS``, trained for one of ``TASKS``."""
    return trained_once(_build, _train, task=task, pattern=pattern, steps=STEPS[task])[0]


def _build(task: str, pattern: str, steps: int) -> SparseReader:
    torch.manual_seed(0)
    return SparseReader(PATTERNS[pattern])


def _train(model: SparseReader, task: str, pattern: str, steps: int) -> list[float]:
    return train(model, task, steps, batch=32 if task == "few tokens ask" else 16)


@torch.no_grad()
def accuracy_by_distance(model: nn.Module, task: str, sequences: int = 500, seed: int = 1) -> Tensor:
    """The share of right answers at the distances 0 to ``LENGTH - 1``; NaN where there was no question."""
    drawn = draw(task, sequences, torch.Generator().manual_seed(seed))
    right = (model(drawn).argmax(-1) == drawn.answer)[drawn.counted].double()
    distance = drawn.distance[drawn.counted]
    questions = torch.bincount(distance, minlength=LENGTH)
    return torch.bincount(distance, right, minlength=LENGTH) / questions


def share_near(maps: Tensor) -> Tensor:
    """How much weight lies within a window: entry ``w - 1`` for the window ``0 <= i - j < w``.

    Parameters
    ----------
    maps
        Causal attention weights ``(*batch, N, N)``.

    Returns
    -------
    ``N // 2`` shares. They are means over the second half of the queries, which could look at any of these distances.
    """
    length = maps.shape[-1]
    later = maps[..., length // 2 :, :]
    distance = torch.arange(length // 2, length)[:, None] - torch.arange(length)
    return torch.stack([later[..., distance == d].mean() for d in range(length // 2)]).cumsum(0)


class WindowedBlock(CausalBlock):
    """The block of the language model, with a causal window for each head."""

    window: int

    def forward(self, x: Tensor) -> Tensor:
        projected = F.linear(x, self.self_attn.in_proj_weight, self.self_attn.in_proj_bias)
        heads = (split_heads(part, self.self_attn.num_heads) for part in projected.chunk(3, -1))
        attn_output = self.self_attn.out_proj(merge_heads(local_attention(*heads, self.window, causal=True)))
        x = residual_add_norm(x, attn_output, self.norm1.weight, self.norm1.bias)
        return residual_add_norm(x, self.linear2(self.linear1(x).relu()), self.norm2.weight, self.norm2.bias)


def windowed(model: LanguageModel, window: int) -> LanguageModel:
    """A copy of a language model whose tokens attend to the last ``window`` tokens, themselves among them."""

    def block(*sizes: int) -> WindowedBlock:
        made = WindowedBlock(*sizes)
        made.window = window
        return made

    first = model.blocks[0]
    vocab_size, d_model = model.embedding.weight.shape
    copy = LanguageModel(
        vocab_size, d_model, first.self_attn.num_heads, first.linear1.out_features, len(model.blocks), block
    )
    copy.load_state_dict(model.state_dict())
    return copy
