"""A small language model with a mixture of experts in place of the feed-forward network.

- ``trained(balance)``: the model, trained with a factor of the load-balancing loss, and how the experts' loads went.
- ``trained_dense(d_ff)``: the same model with one feed-forward network, to compare with.
- ``routes(model, tokens)``: which expert each token is sent to.
- ``share_kept(model, tokens, capacity_factor)``: how many of the tokens find room.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.language_model import next_token_loss
from autograder.reference.modern_transformer import MoELayer, moe_route
from lab import python_text
from lab.language_model import windows
from lab.modern import BATCH, CONTEXT, Design, ModernLanguageModel
from lab.trained import trained_once
from lab.training import fit

NUM_EXPERTS, D_FF, WIDTH = 8, 32, 32
STEPS, PEAK = 250, 1e-2
ROOM_FOR_ALL = float(NUM_EXPERTS)  # a capacity factor with which no token is dropped, whatever the router does
DESIGN = Design(num_kv_heads=2)


class Experts(nn.Module):
    """A mixture of experts that stands where a feed-forward network stood, and keeps its last loss and tokens.

    Parameters
    ----------
    layer
        A layer such as `MoELayer`, which returns its output and its load-balancing loss.
    """

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        self.read = x.detach()
        output, self.loss = self.layer(x)
        return output


def with_experts(make_layer: Callable[..., nn.Module] = MoELayer) -> ModernLanguageModel:
    """A model of one block with a mixture of experts, not trained.

    Parameters
    ----------
    make_layer
        The class of the mixture, called as ``make_layer(d_model, d_ff, num_experts, k, capacity_factor)``.
    """
    model = ModernLanguageModel(python_text.VOCAB_SIZE, DESIGN, WIDTH, num_heads=2, num_layers=1)
    model.blocks[0].network = Experts(make_layer(WIDTH, D_FF, NUM_EXPERTS, 1, ROOM_FOR_ALL))
    return model


def train(model: ModernLanguageModel, balance: float, steps: int = STEPS, seed: int = 0) -> dict[str, list]:
    """Train a model of `with_experts`; the loss of each step, and each expert's share of the tokens at each step.

    Parameters
    ----------
    balance
        The factor with which the load-balancing loss is added to the loss.
    """
    generator, loads, losses = torch.Generator().manual_seed(seed), [], []
    text = python_text.corpus().train

    def next_loss() -> Tensor:
        tokens = windows(text, BATCH, CONTEXT + 1, generator)
        loss = next_token_loss(model(tokens), tokens)
        experts = model.blocks[0].network
        losses.append(loss.item())
        loads.append(_loads(experts.layer.router(experts.read).detach()).tolist())
        return loss + balance * experts.loss

    fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0)
    return {"losses": losses, "loads": loads}


def _loads(logits: Tensor) -> Tensor:
    chosen = logits.argmax(-1).flatten()
    return F.one_hot(chosen, NUM_EXPERTS).float().mean(0)


def trained(balance: float) -> tuple[ModernLanguageModel, dict[str, list]]:
    """A model with experts, trained once for page and tests, and what `train` returned."""
    text = python_text.corpus().digest
    return trained_once(_build, _train, balance=balance, steps=STEPS, lr=PEAK, text=text)


def _build(**_) -> ModernLanguageModel:
    torch.manual_seed(0)
    return with_experts()


def _train(model: ModernLanguageModel, balance: float, steps: int, lr: float, text: str) -> dict[str, list]:
    return train(model, balance, steps)


def dense(d_ff: int) -> ModernLanguageModel:
    """The same model with one feed-forward network, like an expert but of the width ``d_ff``, not trained."""
    model = ModernLanguageModel(python_text.VOCAB_SIZE, DESIGN, WIDTH, num_heads=2, num_layers=1)
    model.blocks[0].network = nn.Sequential(nn.Linear(WIDTH, d_ff), nn.ReLU(), nn.Linear(d_ff, WIDTH))
    return model


def trained_dense(d_ff: int) -> tuple[ModernLanguageModel, list[float]]:
    """A model with one feed-forward network, trained once like the others, and the loss of each step."""
    text = python_text.corpus().digest
    return trained_once(_build_dense, _train_dense, d_ff=d_ff, steps=STEPS, lr=PEAK, text=text)


def _build_dense(d_ff: int, **_) -> ModernLanguageModel:
    torch.manual_seed(0)
    return dense(d_ff)


def _train_dense(model: ModernLanguageModel, d_ff: int, steps: int, lr: float, text: str) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    tokens_of = python_text.corpus().train

    def next_loss() -> Tensor:
        tokens = windows(tokens_of, BATCH, CONTEXT + 1, generator)
        return next_token_loss(model(tokens), tokens)

    return fit(model, next_loss, steps, lr, warm_up=steps // 10, max_norm=1.0)


@torch.no_grad()
def router_logits(model: ModernLanguageModel, tokens: Tensor) -> Tensor:
    """The router's scores ``(B * N, E)`` for the tokens of texts ``(B, N)``."""
    model(tokens)
    experts = model.blocks[0].network
    return experts.layer.router(experts.read).flatten(0, 1)


def routes(model: ModernLanguageModel, tokens: Tensor) -> Tensor:
    """Which expert each token of texts ``(B, N)`` is sent to."""
    return router_logits(model, tokens).argmax(-1).view(tokens.shape)


def share_kept(model: ModernLanguageModel, tokens: Tensor, capacity_factor: float) -> float:
    """The share of tokens that find room if each expert has room for ``capacity_factor`` times its equal share."""
    logits = router_logits(model, tokens)
    _, _, kept, _ = moe_route(logits, 1, math.ceil(capacity_factor * len(logits) / NUM_EXPERTS))
    return kept.double().mean().item()
