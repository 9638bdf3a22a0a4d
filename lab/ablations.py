"""Small Transformers with one part taken away, or with other settings, all else equal.

- ``replaced(feed_forward=...)``: inside the block, the course's Transformer runs on another kernel.
- ``WITHOUT``: for each part, the kernels that make a Transformer without it.
- ``train_small(...)``: a small translator, trained for a fixed number of steps, with its losses and its share of exact
  translations of unseen sentences.
- ``through_depth(...)``: what becomes of tokens and of gradients in a deep stack that is not trained.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference import transformer as reference
from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.transformer import EncoderBlock, Transformer, layer_norm
from lab import parallel_corpus
from lab.parallel_corpus import Pair
from lab.trained import trained_once
from lab.transformer_translation import TransformerTranslator, train, translate


@contextlib.contextmanager
def replaced(**kernels: Callable) -> Iterator[None]:
    """Let the course's Transformer run on other kernels inside the block.

    Parameters
    ----------
    kernels
        Functions by the names that they have in the chapter's kernels: ``replaced(feed_forward=mine)``.

    Raises
    ------
    ValueError
        If the Transformer uses no kernel of that name.
    """
    unknown = [name for name in kernels if not hasattr(reference, name)]
    if unknown:
        raise ValueError(f"The Transformer uses no kernel {', '.join(map(repr, unknown))}.")
    right = {name: getattr(reference, name) for name in kernels}
    vars(reference).update(kernels)
    try:
        yield
    finally:
        vars(reference).update(right)


def norm_only(x: Tensor, sublayer_output: Tensor, weight: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """What `residual_add_norm` would be without the residual connection."""
    return layer_norm(F.dropout(sublayer_output, dropout), weight, bias)


def add_only(x: Tensor, sublayer_output: Tensor, weight: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """What `residual_add_norm` would be without the layer norm."""
    return x + F.dropout(sublayer_output, dropout)


def output_only(x: Tensor, sublayer_output: Tensor, weight: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """What `residual_add_norm` would be without either."""
    return F.dropout(sublayer_output, dropout)


WITHOUT = {
    "nothing": {},
    "residual": {"residual_add_norm": norm_only},
    "norm": {"residual_add_norm": add_only},
    "feed-forward": {"feed_forward": lambda x, *weights: torch.zeros_like(x)},
    "positions": {"sinusoidal_positions": lambda length, d_model: torch.zeros(length, d_model)},
    "causal mask": {"causal_mask": lambda queries, keys: torch.ones(queries, keys, dtype=torch.bool)},
    "embedding scale": {},  # see `Unscaled`
}


class Unscaled(Transformer):
    """A Transformer whose embeddings are not made larger before the positions are added."""

    def embed(self, tokens: Tensor, embedding: nn.Embedding) -> Tensor:
        return super().embed(tokens, embedding) - (embedding.embedding_dim**0.5 - 1) * embedding(tokens)


SMALL = {"d_model": 48, "num_heads": 4, "d_ff": 192, "num_layers": 2}


@functools.cache
def short_sentences() -> tuple[list[Pair], list[Pair]]:
    """Sentences of 3 to 8 words: for training, and others for testing."""
    pairs = parallel_corpus.draw_pairs("french", 6000, seed=0, lengths=(3, 8))
    met = {pair.source for pair in pairs}
    drawn = parallel_corpus.draw_pairs("french", 200, seed=1, lengths=(3, 8))
    return pairs, [pair for pair in drawn if pair.source not in met]


@dataclass(frozen=True)
class Run:
    """A small translator, the loss of each step, and its share of exact translations of unseen sentences."""

    model: TransformerTranslator
    losses: list[float]
    exact: float


def train_small(
    without: str = "nothing",
    initial_scale: float = 1.0,
    pairs: int | None = None,
    dropout: float = 0.0,
    steps: int = 200,
    lr: float = 5e-3,
    **options,
) -> Run:
    """Train a small translator on short sentences, once for all who ask.

    Parameters
    ----------
    without
        The part that is taken away, a key of ``WITHOUT``.
    initial_scale
        Factor of all matrices of the blocks before training.
    pairs
        How many of the training sentences are used; None for all.
    dropout
        As for `lab.transformer_translation.TransformerTranslator`.
    steps, lr, options
        As for `lab.transformer_translation.train`.
    """
    model, returned = trained_once(
        _untrained,
        _train,
        without=without,
        initial_scale=initial_scale,
        pairs=pairs,
        dropout=dropout,
        steps=steps,
        lr=lr,
        **options,
    )
    return Run(model, **returned)


def _untrained(without: str, initial_scale: float, dropout: float, **arguments) -> TransformerTranslator:
    torch.manual_seed(0)
    transformer = Unscaled if without == "embedding scale" else Transformer
    vocabularies = parallel_corpus.vocabularies(short_sentences()[0])
    model = TransformerTranslator(*vocabularies, transformer, dropout=dropout, **SMALL)
    with torch.no_grad():
        for block in (*model.transformer.encoder, *model.transformer.decoder):
            for parameter in block.parameters():
                if parameter.dim() == 2:
                    parameter *= initial_scale
    return model


def _train(
    model: TransformerTranslator, without: str, initial_scale: float, pairs: int | None, dropout: float, **options
):
    training, unseen = short_sentences()
    with replaced(**WITHOUT[without]):
        losses = train(model, training[:pairs], **options)
        said = translate(model, [pair.source for pair in unseen])
    right = [pair.target == result.words for pair, result in zip(unseen, said, strict=True)]
    return {"losses": losses, "exact": sum(right) / len(right)}


class AttentionAlone(nn.Module):
    """A layer of self-attention and nothing else."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.self_attn(x, x, x)


@dataclass(frozen=True)
class Depth:
    """Numbers for the input of a stack and the output of each of its layers.

    Parameters
    ----------
    variety
        How much of the tokens' size is their deviation from the mean token: 0 where all tokens are equal.
    size
        Root of the mean square of the tokens' components.
    gradient
        Norm of the gradient that arrives there from the stack's output, over that at the output.
    """

    variety: list[float]
    size: list[float]
    gradient: list[float]


def through_depth(
    join: Callable | None = None, layer: Callable[..., nn.Module] = EncoderBlock, depth: int = 24, seed: int = 0
) -> Depth:
    """Send random tokens through a stack that is not trained, and a random gradient back.

    Parameters
    ----------
    join
        What takes the place of `residual_add_norm`; None for the kernel itself.
    layer
        A layer, called as ``layer(d_model, num_heads, d_ff)``.
    depth
        How many layers.
    """
    torch.manual_seed(seed)
    layers = [layer(64, 4, 256).double() for _ in range(depth)]
    states = [torch.randn(8, 16, 64, dtype=torch.float64, requires_grad=True)]
    with replaced(**({} if join is None else {"residual_add_norm": join})):
        for one in layers:
            states.append(one(states[-1]))
    gradients = torch.autograd.grad((states[-1] * torch.randn_like(states[-1])).sum(), states)
    return Depth(
        variety=[((x - x.mean(1, keepdim=True)).norm() / x.norm()).item() for x in states],
        size=[x.square().mean().sqrt().item() for x in states],
        gradient=[(g.norm() / gradients[-1].norm()).item() for g in gradients],
    )
