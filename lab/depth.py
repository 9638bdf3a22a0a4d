"""Deep stacks of blocks with the norm before or behind each sub-layer.

- ``trained(order, seed)``: the losses of a deep stack that learns to turn a sequence round.
- ``gradient_by_depth(model)``: the gradient that each block's weights get.
- ``identity_path(model)``: what is left of a token on the path that goes round all sub-layers.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.modern_transformer import PreNormBlock
from autograder.reference.self_attention import sinusoidal_positions
from autograder.reference.transformer import EncoderBlock, layer_norm, residual_add_norm
from lab.ablations import replaced
from lab.trained import trained_once

SYMBOLS, LENGTH, BATCH = 10, 8, 16
DEPTH, WIDTH, NUM_HEADS, D_FF = 10, 32, 4, 64
STEPS, LR, WARM_UP = 250, 1e-2, 80
ORDERS = {"post": EncoderBlock, "pre": PreNormBlock}


class Stack(nn.Module):
    """From symbols to scores for symbols, through a deep stack of blocks.

    Parameters
    ----------
    block
        The class of the blocks, called as ``block(d_model, num_heads, d_ff)``.
    depth
        How many blocks.
    last_norm
        Whether the output of the last block is normalised, as a stack of pre-norm blocks needs it.
    """

    def __init__(self, block: Callable[..., nn.Module], depth: int = DEPTH, last_norm: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList(block(WIDTH, NUM_HEADS, D_FF) for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH) if last_norm else None
        self.output = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, symbols: Tensor) -> Tensor:
        """Scores ``(B, N, SYMBOLS)`` for each place of sequences ``(B, N)``."""
        x = self.embedding(symbols) + sinusoidal_positions(symbols.shape[-1], WIDTH)
        for block in self.blocks:
            x = block(x)
        if self.norm is not None:
            x = layer_norm(x, self.norm.weight, self.norm.bias)
        return self.output(x)


def reversal_loss(model: nn.Module, generator: torch.Generator) -> Tensor:
    """The loss of saying random sequences backwards; ``log(SYMBOLS)`` for a model that knows nothing."""
    symbols = torch.randint(SYMBOLS, (BATCH, LENGTH), generator=generator)
    return F.cross_entropy(model(symbols).flatten(0, 1), symbols.flip(1).flatten())


def train(model: nn.Module, warm_up: int = 0, steps: int = STEPS, lr: float = LR, seed: int = 0) -> list[float]:
    """Train by Adam with a constant learning rate, which the first ``warm_up`` steps rise to; the loss of each step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / max(warm_up, 1)))
    losses = []
    for _ in range(steps):
        loss = reversal_loss(model, generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def untrained(order: str, depth: int = DEPTH, seed: int = 0) -> Stack:
    """A stack of blocks of one of the ``ORDERS``."""
    torch.manual_seed(seed)
    return Stack(ORDERS[order], depth, last_norm=order == "pre")


def trained(order: str, warm_up: int = 0, seed: int = 0) -> list[float]:
    """The losses of a stack's training, which is done once for page and tests."""
    _, losses = trained_once(_build, _train, order=order, warm_up=warm_up, seed=seed, steps=STEPS, lr=LR)
    return losses


def _build(order: str, seed: int, **_) -> Stack:
    return untrained(order, seed=seed)


def _train(model: Stack, order: str, warm_up: int, seed: int, steps: int, lr: float) -> list[float]:
    return train(model, warm_up, steps, lr, seed)


def gradient_by_depth(model: Stack) -> list[float]:
    """The norm of the gradient of each block's second weight matrix of the feed-forward network, for one batch."""
    loss = reversal_loss(model, torch.Generator().manual_seed(0))
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, [b.linear2.weight for b in model.blocks])]


@torch.no_grad()
def identity_path(model: Stack) -> list[float]:
    """The factor of a token on the path round all sub-layers, the mean over tokens: at the input and behind each block.

    Each norm on the way divides what comes along by the standard deviation of the token that it reads. A norm behind
    the last block counts with that block.
    """
    symbols = torch.randint(SYMBOLS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    if model.norm is not None:
        last = []
        hook = model.blocks[-1].register_forward_hook(lambda _, given, output: last.append(output))
        model(symbols)
        hook.remove()
        return [1.0] * len(model.blocks) + [(1 / last[0].std(-1, correction=0)).mean().item()]
    factors = [torch.ones(BATCH, LENGTH)]

    def watched(x: Tensor, sublayer_output: Tensor, *parameters) -> Tensor:
        factors.append(factors[-1] / (x + sublayer_output).std(-1, correction=0))
        return residual_add_norm(x, sublayer_output, *parameters)

    with replaced(residual_add_norm=watched):
        model(symbols)
    return [factor.mean().item() for factor in factors[::2]]
