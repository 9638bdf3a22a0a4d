"""What two layers of attention can do and one cannot: look up what came after the same token before.

- ``draw(batch, generator)``: texts of random tokens that repeat themselves.
- ``trained(num_layers)``: a small language model for them, trained once for page and tests.
- ``attention_maps(model, tokens)``: the weights of each layer and head.
- ``weight_before(maps)``, ``weight_after_earlier(maps, texts)``: how much falls on the places that are needed.
- ``after_earlier(tokens)``: the second kind of places.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.multi_head_attention import split_heads
from autograder.reference.self_attention import causal_mask
from lab.language_model import LanguageModel
from lab.trained import trained_once
from lab.training import fit

VOCAB_SIZE, LENGTH = 128, 32
PERIODS = (8, 16)  # after how many tokens a text repeats itself: at least, at most
SIZES = {"d_model": 48, "num_heads": 1, "d_ff": 96}
STEPS, BATCH, PEAK = 700, 32, 8e-3


@dataclass(frozen=True)
class Repeated:
    """Texts ``(B, N)`` that repeat themselves, their periods ``(B, 1)``, and where a token can be known.

    The first token that comes again cannot be: nothing says that the repetition begins there.
    """

    tokens: Tensor
    periods: Tensor
    known: Tensor


def draw(batch: int, generator: torch.Generator) -> Repeated:
    """Texts of ``LENGTH`` tokens: some drawn at random, then the same again and again."""
    periods = torch.randint(PERIODS[0], PERIODS[1] + 1, (batch, 1), generator=generator)
    first = torch.randint(VOCAB_SIZE, (batch, PERIODS[1]), generator=generator)
    places = torch.arange(LENGTH).expand(batch, LENGTH)
    return Repeated(first.gather(1, places % periods), periods, places > periods)


def losses(model: LanguageModel, texts: Repeated) -> Tensor:
    """The loss of each token that can be known, in one row."""
    known = texts.known[:, 1:]
    return F.cross_entropy(model(texts.tokens)[:, :-1][known], texts.tokens[:, 1:][known], reduction="none")


def trained(num_layers: int) -> tuple[LanguageModel, list[float]]:
    """A model of one head in each layer, and the loss of each step on what can be known."""
    return trained_once(_build, _train, num_layers=num_layers, steps=STEPS, **SIZES)


def _build(num_layers: int, steps: int, **sizes) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(VOCAB_SIZE, num_layers=num_layers, **sizes)


def _train(model: LanguageModel, num_layers: int, steps: int, **sizes) -> list[float]:
    generator = torch.Generator().manual_seed(0)

    def next_loss() -> Tensor:
        return losses(model, draw(BATCH, generator)).mean()

    return fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0)


@torch.no_grad()
def attention_maps(model: LanguageModel, tokens: Tensor) -> list[Tensor]:
    """The attention weights ``(B, H, N, N)`` of each block, computed again from what goes into it."""
    inputs = []
    hooks = [block.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for block in model.blocks]
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return [_weights(block.self_attn, x) for block, x in zip(model.blocks, inputs, strict=True)]


def _weights(layer: torch.nn.Module, x: Tensor) -> Tensor:
    Q, K, _ = (
        split_heads(part, layer.num_heads)
        for part in F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    )
    length = x.shape[-2]
    return scaled_dot_product_attention(Q, K, torch.eye(length), causal_mask(length, length))


def weight_before(maps: Tensor) -> float:
    """The mean weight of one layer on the token just before, from the places that may be looked up later.

    These are the places of the first period, 1 to ``PERIODS[1]``.
    """
    return maps.diagonal(-1, 2, 3)[..., : PERIODS[1]].mean().item()


def after_earlier(tokens: Tensor) -> Tensor:
    """Where an induction head looks, ``(B, N, N)``: right behind earlier occurrences of the token just read."""
    length = tokens.shape[-1]
    same = tokens[:, :, None] == F.pad(tokens, (1, 0), value=-1)[:, None, :length]  # one place later
    return same & causal_mask(length, length)


def weight_after_earlier(maps: Tensor, texts: Repeated) -> float:
    """The mean weight of one layer behind earlier occurrences, from all places where the next token can be known."""
    found = (maps.mean(1) * after_earlier(texts.tokens)).sum(-1)
    return found[:, :-1][texts.known[:, 1:]].mean().item()
