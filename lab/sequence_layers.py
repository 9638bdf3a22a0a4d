"""Three layers through which the tokens of a sequence speak to each other, at one width: what each costs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.work import Work, count_work

D_MODEL = 64
NUM_HEADS = 4
KERNEL_SIZE = 3
NAMES = ("rnn", "convolution", "self-attention")


def build(name: str, d_model: int = D_MODEL) -> Callable[[Tensor], Tensor]:
    """A layer from ``(B, N, d_model)`` to the same shape, without gradients.

    Raises
    ------
    ValueError
        If the name is not one of ``NAMES``.
    """
    if name not in NAMES:
        raise ValueError(f"There is no layer {name!r}; choose one of {', '.join(NAMES)}.")
    torch.manual_seed(0)
    if name == "rnn":
        rnn = nn.RNN(d_model, d_model, batch_first=True).requires_grad_(False)
        return lambda tokens: rnn(tokens)[0]
    if name == "convolution":
        convolution = nn.Conv1d(d_model, d_model, KERNEL_SIZE).requires_grad_(False)
        return lambda tokens: convolution(F.pad(tokens.mT, (KERNEL_SIZE - 1, 0))).mT
    attention = MultiHeadAttention(d_model, NUM_HEADS).requires_grad_(False)
    return lambda tokens: attention(tokens, tokens, tokens)


def formula(name: str, length: int, d_model: int = D_MODEL) -> int:
    """Multiply-adds of a layer's matrix products for one sequence, by hand."""
    return {
        "rnn": 2 * length * d_model**2,
        "convolution": KERNEL_SIZE * length * d_model**2,
        "self-attention": 4 * length * d_model**2 + 2 * length**2 * d_model,
    }[name]


def counted(name: str, length: int, d_model: int = D_MODEL) -> Work:
    """What one layer does for one sequence, counted while it runs."""
    layer, tokens = build(name, d_model), torch.zeros(1, length, d_model)
    return count_work(lambda: layer(tokens))
