"""Linear attention: what its state can look up, how even its weights are, and what random features estimate.

- ``ATTENTIONS``: softmax attention and linear attention, ``(query, key, value) -> attn_output``.
- ``trained(name, d_k)``: a model for associative recall, trained once for page and tests.
- ``Recall(attend, d_k)``: the same with a kernel of your own.
- ``look_up(model, name, pairs)``: the weights that a trained model gives, and which one is right.
- ``effective_number(weights)``: over how many keys weights are spread.
- ``projections(...)``, ``kernel_estimates(...)``, ``output_error(...)``: Performer's estimates and their errors.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.linear_attention import (
    elu_features,
    linear_attention,
    orthogonal_projections,
    performer_features,
)
from lab import recall
from lab.trained import trained_once

STEPS, MAX_PAIRS = 800, 32
D_K = 64  # of the queries whose attention Performer estimates


def elu_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Linear attention with the features ``elu(x) + 1``."""
    return linear_attention(elu_features(query), elu_features(key), value)


ATTENTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "softmax": scaled_dot_product_attention,
    "linear": elu_attention,
}


class Recall(recall.AttentionRecall):
    """Associative recall by any attention, with queries and keys of any width.

    Parameters
    ----------
    attend
        ``(query, key, value) -> attn_output``.
    d_k
        Width of queries and keys: the number of features of linear attention.
    width
        Width of each embedding, and of the values.
    """

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], d_k: int, width: int = 32):
        super().__init__(lambda X_q, X_kv, W_Q, W_K, W_V: attend(X_q @ W_Q, X_kv @ W_K, X_kv @ W_V), width)
        self.W_Q = nn.Parameter(torch.randn(width, d_k) / width**0.5)
        self.W_K = nn.Parameter(torch.randn(2 * width, d_k) / (2 * width) ** 0.5)


def build(name: str, d_k: int) -> Recall:
    """A model for associative recall, untrained.

    Raises
    ------
    ValueError
        If the name is not one of ``ATTENTIONS``.
    """
    if name not in ATTENTIONS:
        raise ValueError(f"There is no attention {name!r}; choose one of {', '.join(ATTENTIONS)}.")
    torch.manual_seed(0)
    return Recall(ATTENTIONS[name], d_k)


def _train(model: Recall, name: str, d_k: int) -> list[float]:
    return recall.train(model, STEPS, MAX_PAIRS)


def trained(name: str, d_k: int) -> Recall:
    """A model that was trained on lists of 2 to ``MAX_PAIRS`` pairs, from the store if it is there."""
    return trained_once(build, _train, name=name, d_k=d_k)[0]


@torch.no_grad()
def look_up(model: Recall, name: str, pairs: int, questions: int = 1000, seed: int = 1) -> tuple[Tensor, Tensor]:
    """The weights ``(questions, pairs)`` with which a model reads lists of pairs, and the place of the right one."""
    question = recall.ask(questions, pairs, torch.Generator().manual_seed(seed))
    X_kv = torch.cat([model.key_embedding(question.keys), model.value_embedding(question.values)], dim=-1)
    query = model.key_embedding(question.asked)[:, None] @ model.W_Q
    one_hot = torch.eye(pairs).expand(questions, pairs, pairs)  # with these as values, the output is the weights
    weights = ATTENTIONS[name](query, X_kv @ model.W_K, one_hot)[:, 0]
    return weights, (question.keys == question.asked[:, None]).int().argmax(-1)


def effective_number(weights: Tensor) -> Tensor:
    """Over how many keys each row of weights is spread: the exponential of its entropy, ``N`` for equal weights."""
    return torch.special.entr(weights).sum(-1).exp()


def projections(num_directions: int, d_k: int, generator: torch.Generator, orthogonal: bool = True) -> Tensor:
    """Random directions in float64 for Performer, orthogonal in blocks of ``d_k``, or independent."""
    gaussian = torch.randn(num_directions, d_k, generator=generator, dtype=torch.float64)
    if not orthogonal:
        return gaussian
    lengths = torch.randn(num_directions, d_k, generator=generator, dtype=torch.float64).norm(dim=1)
    return orthogonal_projections(gaussian, lengths)


def trigonometric_features(x: Tensor, projections: Tensor) -> Tensor:
    """The random Fourier features of softmax attention: unbiased as Performer's, but their products may be negative."""
    scaled = x / x.shape[-1] ** 0.25
    angles = scaled @ projections.T
    return (
        torch.cat([angles.cos(), angles.sin()], -1)
        * torch.exp(scaled.square().sum(-1, keepdim=True) / 2)
        / len(projections) ** 0.5
    )


def kernel_estimates(
    query: Tensor, key: Tensor, projections: Tensor, draws: int, features: Callable = performer_features
) -> Tensor:
    """Several estimates of ``exp(q . k / sqrt(d_k))``, one from each part of the directions: ``(draws, N_q, N_k)``."""
    return torch.stack([features(query, part) @ features(key, part).T for part in projections.chunk(draws)])


def inputs(length: int, std: float, seed: int = 0, d_k: int = D_K) -> tuple[Tensor, Tensor, Tensor]:
    """Normal queries and keys of a standard deviation, and normal values, all ``(length, d_k)`` in float64."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = torch.randn(3, length, d_k, generator=generator, dtype=torch.float64)
    return std * query, std * key, value


def output_error(
    num_directions: int, std: float, orthogonal: bool = True, length: int = 256, draws: int = 10, seed: int = 1
) -> float:
    """How far Performer's output is from softmax attention's: norm of the difference by norm of the right output.

    The mean over several draws of the directions, for normal queries and keys of a standard deviation.
    """
    query, key, value = inputs(length, std)
    right = scaled_dot_product_attention(query, key, value)
    generator = torch.Generator().manual_seed(seed)
    errors = []
    for _ in range(draws):
        directions = projections(num_directions, D_K, generator, orthogonal)
        estimate = linear_attention(performer_features(query, directions), performer_features(key, directions), value)
        errors.append((estimate - right).norm() / right.norm())
    return torch.stack(errors).mean().item()
