"""Small language models whose blocks can be changed, piece by piece, from those of 2017 into those of today.

- ``Design``: which pieces a model has. ``OF_2017``, ``TODAY``, and ``LADDER``, one change after the other.
- ``ModernLanguageModel(vocab_size, design)``: the model, on the course's kernels or, by ``rms_norm=mine``, on others.
- ``train(model, steps)``: its training on the text of the chapter before; the loss of each step.
- ``trained(name)``: the model of one rung of the ladder, trained once for page and tests.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference import modern_transformer as reference
from autograder.reference.language_model import next_token_loss
from autograder.reference.multi_head_attention import merge_heads, split_heads
from autograder.reference.self_attention import causal_mask, sinusoidal_positions
from autograder.reference.transformer import feed_forward, layer_norm
from lab import python_text
from lab.language_model import windows
from lab.trained import trained_once
from lab.training import fit

WIDTH, NUM_HEADS, NUM_LAYERS = 64, 4, 2
CONTEXT, BATCH, STEPS, PEAK = 64, 6, 180, 6e-3
KERNELS = ("rms_norm", "swiglu", "rotary_embedding", "grouped_query_attention")


@dataclass(frozen=True)
class Design:
    """Which pieces a model's blocks have.

    Parameters
    ----------
    pre_norm
        Whether the norm stands before each sub-layer, and once more behind the last block; else after each sum.
    rms
        Whether the norm is `rms_norm`, and no layer has a bias; else layer norm, and biases.
    gated
        Whether the feed-forward network is `swiglu`, with two thirds of the hidden units; else that of 2017.
    rotary
        Whether queries and keys are rotated; else sinusoidal positions are added to the embeddings.
    num_kv_heads
        How many heads of keys and values there are; it divides the number of heads.
    """

    pre_norm: bool = True
    rms: bool = True
    gated: bool = True
    rotary: bool = True
    num_kv_heads: int = 2


TODAY = Design()
OF_2017 = Design(pre_norm=False, rms=False, gated=False, rotary=False, num_kv_heads=NUM_HEADS)
LADDER = {"2017": OF_2017}
LADDER["+ pre-norm"] = replace(LADDER["2017"], pre_norm=True)
LADDER["+ RMS norm"] = replace(LADDER["+ pre-norm"], rms=True)
LADDER["+ SwiGLU"] = replace(LADDER["+ RMS norm"], gated=True)
LADDER["+ rotary"] = replace(LADDER["+ SwiGLU"], rotary=True)
LADDER["+ 2 key-value heads"] = TODAY
LADDER["+ 1 key-value head"] = replace(TODAY, num_kv_heads=1)


class Norm(nn.Module):
    """A gain, and a shift where there is one: the parameters of a norm, applied by the kernel."""

    def __init__(self, width: int, rms_norm: Callable | None):
        super().__init__()
        self.rms_norm = rms_norm
        self.weight = nn.Parameter(torch.ones(width))
        if rms_norm is None:
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.rms_norm is None:
            return layer_norm(x, self.weight, self.bias)
        return self.rms_norm(x, self.weight)


class FeedForward(nn.Module):
    """The weights of a feed-forward network: `swiglu` where one is given, else that of 2017, which has biases."""

    def __init__(self, d_model: int, d_ff: int, swiglu: Callable | None):
        super().__init__()
        self.swiglu = swiglu
        hidden, bias = (d_ff, True) if swiglu is None else (d_ff * 2 // 3, False)
        self.up = nn.Linear(d_model, hidden, bias)
        self.down = nn.Linear(hidden, d_model, bias)
        if swiglu is not None:
            self.gate = nn.Linear(d_model, hidden, bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.swiglu is None:
            return feed_forward(x, self.up.weight, self.up.bias, self.down.weight, self.down.bias)
        return self.swiglu(x, self.gate.weight, self.up.weight, self.down.weight)


class ModernBlock(nn.Module):
    """One causal layer of a design: attention, then a network for each token.

    Parameters
    ----------
    d_model, num_heads, d_ff
        Sizes as for `CausalBlock`; a gated network has two thirds of ``d_ff`` hidden units.
    design
        Which pieces it has.
    network
        A module that takes the feed-forward network's place.
    kernels
        Functions by the names in ``KERNELS``; the course's own where one is not given.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        design: Design = TODAY,
        network: nn.Module | None = None,
        **kernels: Callable,
    ):
        super().__init__()
        unknown = sorted(set(kernels) - set(KERNELS))
        if unknown:
            raise ValueError(f"The block uses no kernel {', '.join(unknown)}; it uses {', '.join(KERNELS)}.")
        rms_norm, swiglu, self.rotate, self.attend = (kernels.get(name, getattr(reference, name)) for name in KERNELS)
        self.design, self.num_heads = design, num_heads
        bias, d_kv = not design.rms, d_model // num_heads * design.num_kv_heads
        self.query = nn.Linear(d_model, d_model, bias)
        self.key = nn.Linear(d_model, d_kv, bias)
        self.value = nn.Linear(d_model, d_kv, bias)
        self.output = nn.Linear(d_model, d_model, bias)
        self.network = network or FeedForward(d_model, d_ff, swiglu if design.gated else None)
        self.norm1, self.norm2 = (Norm(d_model, rms_norm if design.rms else None) for _ in range(2))

    def forward(self, x: Tensor, cache: Any = None) -> Tensor:
        """One output ``(B, N, d_model)`` for each token; with a cache, for texts that go on with ``x``."""
        if self.design.pre_norm:
            x = x + self.attention(self.norm1(x), cache)
            return x + self.network(self.norm2(x))
        x = self.norm1(x + self.attention(x, cache))
        return self.norm2(x + self.network(x))

    def attention(self, x: Tensor, cache: Any = None) -> Tensor:
        """Causal attention; with a cache, also to the tokens that it holds."""
        Q = split_heads(self.query(x), self.num_heads)
        K, V = (split_heads(layer(x), self.design.num_kv_heads) for layer in (self.key, self.value))
        if self.design.rotary:
            before = 0 if cache is None else cache.length
            positions = torch.arange(before, before + x.shape[-2])
            Q, K = self.rotate(Q, positions), self.rotate(K, positions)
        K, V = (K, V) if cache is None else cache.append(K, V)
        return self.output(merge_heads(self.attend(Q, K, V, causal_mask(Q.shape[-2], K.shape[-2]))))


class ModernLanguageModel(nn.Module):
    """From the tokens of a text to scores for each next token, with the blocks of a design.

    Parameters
    ----------
    vocab_size
        How many tokens there are.
    design
        Which pieces the model has; today's unless one is given.
    d_model, num_heads, d_ff, num_layers
        Sizes of the blocks and their number; ``d_ff`` is four times ``d_model`` where it is not given.
    kernels
        As for `ModernBlock`.
    """

    def __init__(
        self,
        vocab_size: int,
        design: Design = TODAY,
        d_model: int = WIDTH,
        num_heads: int = NUM_HEADS,
        d_ff: int | None = None,
        num_layers: int = NUM_LAYERS,
        **kernels: Callable,
    ):
        super().__init__()
        self.design = design
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            ModernBlock(d_model, num_heads, d_ff or 4 * d_model, design, **kernels) for _ in range(num_layers)
        )
        rms_norm = kernels.get("rms_norm", reference.rms_norm) if design.rms else None
        self.norm = Norm(d_model, rms_norm) if design.pre_norm else nn.Identity()
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor, caches: Sequence[Any] | None = None) -> Tensor:
        """Scores ``(B, N, V)`` for the token after each place; caches as for `lab.language_model.LanguageModel`."""
        before = 0 if caches is None else caches[0].length
        end, d_model = before + tokens.shape[-1], self.embedding.embedding_dim
        x = self.embedding(tokens) * math.sqrt(d_model)
        if not self.design.rotary:
            x = x + sinusoidal_positions(end, d_model)[before:]
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, cache)
        return F.linear(self.norm(x), self.embedding.weight)


def train(model: nn.Module, steps: int = STEPS, lr: float = PEAK, seed: int = 0, progress: bool = False) -> list[float]:
    """Train on windows of ``CONTEXT + 1`` characters of the text that comes with Python; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)
    text = python_text.corpus().train

    def next_loss() -> Tensor:
        tokens = windows(text, BATCH, CONTEXT + 1, generator)
        return next_token_loss(model(tokens), tokens)

    return fit(model, next_loss, steps, lr, warm_up=steps // 5, max_norm=1.0, progress=progress)


def trained(name: str, seed: int = 0) -> tuple[ModernLanguageModel, list[float]]:
    """The model of one rung of ``LADDER`` and the loss of each step of its training."""
    text = python_text.corpus().digest
    return trained_once(_build, _train, design=asdict(LADDER[name]), seed=seed, steps=STEPS, lr=PEAK, text=text)


def _build(design: dict, seed: int, **_) -> ModernLanguageModel:
    torch.manual_seed(seed)
    return ModernLanguageModel(python_text.VOCAB_SIZE, Design(**design))


def _train(model: ModernLanguageModel, design: dict, seed: int, steps: int, lr: float, text: str) -> list[float]:
    return train(model, steps, lr, seed)
