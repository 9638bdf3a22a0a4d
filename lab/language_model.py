"""A language model of characters: train it, let it write, with and without a cache.

- ``LanguageModel(vocab_size)``: embedding, positions, blocks, tied output layer. ``block=`` swaps in a class of your
  own.
- ``train(model, tokens, steps)``: windows of a text, drawn at random; the loss of each step.
- ``trained_model(d_model)``: those that the chapter plots, trained once.
- ``generate(model, tokens, number, choose)``: go on with texts, one token at a time; ``make_cache=`` for a cache.
- ``chooser(temperature, k, p)``: how a token is chosen. ``write(model, prompt)``: all of it, from text to text.
- ``nats(model, tokens)``: the loss on a text that was not trained on.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograder.reference.self_attention import sinusoidal_positions
from lab import python_text
from lab.trained import trained_once
from lab.training import fit

CONTEXT, BATCH = 128, 4
WIDTH, NUM_HEADS, NUM_LAYERS = 64, 2, 2
# For each width of the chapter's models: how many steps, and the largest learning rate, which was tried out.
STEPS = {16: 425, 32: 750, WIDTH: 1250}
PEAK = {16: 1.5e-2, 32: 1e-2, WIDTH: 6e-3}


class LanguageModel(nn.Module):
    """From the tokens of a text to scores for each next token: a Transformer's decoder alone.

    Parameters
    ----------
    vocab_size
        How many tokens there are.
    d_model, num_heads, d_ff, num_layers
        Sizes of the blocks and their number; those of the chapter's model where they are not given, and ``d_ff`` four
        times ``d_model``.
    block
        The class of the blocks, called as ``block(d_model, num_heads, d_ff)``; the course's own unless one is given.

    Notes
    -----
    As in the chapter on the Transformer: embeddings are scaled by ``sqrt(d_model)``, positions are sinusoidal, and the
    output layer is the embedding, without a bias.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = WIDTH,
        num_heads: int = NUM_HEADS,
        d_ff: int | None = None,
        num_layers: int = NUM_LAYERS,
        block: Callable[..., nn.Module] | None = None,
    ):
        super().__init__()
        if block is None:
            from autograder.reference.language_model import CausalBlock as block
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(block(d_model, num_heads, d_ff or 4 * d_model) for _ in range(num_layers))
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor, caches: Sequence[Any] | None = None) -> Tensor:
        """Scores ``(B, N, V)`` for the token after each place.

        Parameters
        ----------
        tokens
            Texts ``(B, N)`` or, with caches, their next tokens.
        caches
            One for each block, which hold the keys and values of all tokens before; see `KVCache` of the chapter.
        """
        before = 0 if caches is None else caches[0].length
        end, d_model = before + tokens.shape[-1], self.embedding.embedding_dim
        x = self.embedding(tokens) * math.sqrt(d_model) + sinusoidal_positions(end, d_model)[before:]
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x) if cache is None else block(x, cache)
        return x @ self.embedding.weight.T


def windows(tokens: Tensor, number: int, length: int, generator: torch.Generator) -> Tensor:
    """Pieces ``(number, length)`` of a text, each from a place drawn at random."""
    starts = torch.randint(len(tokens) - length + 1, (number, 1), generator=generator)
    return tokens[starts + torch.arange(length)]


def train(
    model: nn.Module,
    tokens: Tensor,
    steps: int,
    next_token_loss: Callable | None = None,
    context: int = CONTEXT,
    batch: int = BATCH,
    lr: float = PEAK[WIDTH],
    seed: int = 0,
    progress: bool = False,
) -> list[float]:
    """Train on windows of ``context + 1`` tokens, so that ``context`` of them are predicted; the loss of each step.

    The kernel ``next_token_loss`` is the course's own unless one is given.
    """
    if next_token_loss is None:
        from autograder.reference.language_model import next_token_loss
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        drawn = windows(tokens, batch, context + 1, generator)
        return next_token_loss(model(drawn), drawn)

    return fit(model, next_loss, steps, lr, warm_up=steps // 10, max_norm=1.0, progress=progress)


def trained_model(d_model: int = WIDTH) -> tuple[LanguageModel, list[float]]:
    """A language model of the chapter, of one of the widths in ``STEPS``, and the loss of each step of its training.

    In the repository it is trained once and kept; elsewhere it is trained now, in less than half a minute.
    """
    text = python_text.corpus().digest
    return trained_once(_build, _train, d_model=d_model, steps=STEPS[d_model], lr=PEAK[d_model], text=text)


def _build(d_model: int, steps: int, lr: float, text: str) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(python_text.VOCAB_SIZE, d_model)


def _train(model: LanguageModel, d_model: int, steps: int, lr: float, text: str) -> list[float]:
    return train(model, python_text.corpus().train, steps, lr=lr)


@torch.no_grad()
def nats(model: nn.Module, tokens: Tensor, context: int = CONTEXT) -> float:
    """The mean loss of a token, in nats, over a text cut into windows of ``context + 1`` tokens; the rest is left out.

    The first token of each window is not predicted, and the others only from those of their own window.
    """
    from autograder.reference.language_model import next_token_loss

    pieces = tokens[: len(tokens) // (context + 1) * (context + 1)].view(-1, context + 1)
    losses = [next_token_loss(model(part), part) * len(part) for part in pieces.split(32)]
    return (torch.stack(losses).sum() / len(pieces)).item()


def chooser(
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
    seed: int = 0,
    sample_temperature: Callable | None = None,
    top_k_filter: Callable | None = None,
    top_p_filter: Callable | None = None,
) -> Callable[[Tensor], Tensor]:
    """A way to choose the next tokens from logits ``(B, V)``: exclude some, then draw at a temperature.

    The filters see the probabilities of temperature 1. The kernels are the course's own unless others are given.
    """
    from autograder.reference import language_model as kernels

    sample = sample_temperature or kernels.sample_temperature
    keep_k, keep_p = top_k_filter or kernels.top_k_filter, top_p_filter or kernels.top_p_filter
    generator = torch.Generator().manual_seed(seed)

    def choose(logits: Tensor) -> Tensor:
        if k is not None:
            logits = keep_k(logits, k)
        if p is not None:
            logits = keep_p(logits, p)
        return sample(logits, temperature, torch.rand(logits.shape[:-1], generator=generator))

    return choose


@torch.no_grad()
def generate(
    model: LanguageModel,
    tokens: Tensor,
    number: int,
    choose: Callable[[Tensor], Tensor],
    make_cache: Callable[[int], Any] | None = None,
) -> Tensor:
    """Go on with texts ``(B, N)`` by ``number`` tokens each; all of it, ``(B, N + number)``.

    Parameters
    ----------
    model
        The language model.
    tokens
        The beginnings, at least one token each.
    number
        How many tokens to add.
    choose
        Takes logits ``(B, V)`` and returns tokens ``(B,)``, as that of `chooser` does.
    make_cache
        Makes the cache of one block, ``make_cache(max_length)``, such as the class `KVCache`. With None the whole text
        is read anew for each token.
    """
    model.eval()
    caches = None
    if make_cache is not None:
        caches = [make_cache(tokens.shape[-1] + number) for _ in model.blocks]
    unread = tokens
    for _ in range(number):
        chosen = choose(model(tokens if caches is None else unread, caches)[:, -1])
        unread = chosen[:, None]
        tokens = torch.cat([tokens, unread], 1)
    return tokens


def write(
    model: LanguageModel,
    prompt: str,
    number: int = CONTEXT,
    choose: Callable[[Tensor], Tensor] | None = None,
    make_cache: Callable[[int], Any] | None = None,
) -> str:
    """Go on with a typed text by ``number`` characters, drawn from the model's own probabilities unless told otherwise.

    The model was trained on texts of up to ``CONTEXT`` characters. What it writes beyond that gets worse.
    """
    tokens = python_text.encode(prompt or "\n")[None]
    if make_cache is None:
        from autograder.reference.language_model import KVCache as make_cache
    return python_text.decode(generate(model, tokens, number, choose or chooser(), make_cache)[0])
