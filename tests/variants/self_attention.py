"""Right kernels of "Self-attention" in other styles."""

import math

import numpy as np
import torch

from autograder.reference.attention_layer import cross_attention, scaled_dot_product_attention

# self_attention


def self_by_cross_attention(X, W_Q, W_K, W_V):
    return cross_attention(X, X, W_Q, W_K, W_V)


def self_by_einsum(X, W_Q, W_K, W_V):
    query, key, value = (torch.einsum("...nd,dk->...nk", X, W) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("...qd,...kd->...qk", query, key) * W_Q.shape[1] ** -0.5
    return torch.einsum("...qk,...kv->...qv", scores.softmax(-1), value)


def self_by_linear(X, W_Q, W_K, W_V):
    query, key, value = (torch.nn.functional.linear(X, W.T) for W in (W_Q, W_K, W_V))
    return scaled_dot_product_attention(query, key, value)


def self_fused(X, W_Q, W_K, W_V):
    pieces = (X @ torch.cat([W_Q, W_K, W_V], dim=1)).split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)
    return scaled_dot_product_attention(*pieces)


def self_projecting_last(X, W_Q, W_K, W_V):
    weights = torch.softmax(X @ (W_Q @ W_K.T / math.sqrt(W_Q.shape[1])) @ X.mT, dim=-1)
    return weights @ X @ W_V


def self_by_loops(X, W_Q, W_K, W_V):
    if X.dim() > 2:
        return torch.stack([self_by_loops(x, W_Q, W_K, W_V) for x in X])
    outputs = []
    for x in X:
        scores = torch.stack([(x @ W_Q) @ (other @ W_K) / math.sqrt(W_Q.shape[1]) for other in X])
        weights = torch.softmax(scores, dim=0)
        outputs.append(sum(weight * (other @ W_V) for weight, other in zip(weights, X, strict=True)))
    return torch.stack(outputs)


def self_by_bmm(X, W_Q, W_K, W_V):
    tokens = X.reshape(-1, *X.shape[-2:])
    query, key, value = tokens @ W_Q, tokens @ W_K, tokens @ W_V
    weights = torch.bmm(query, key.transpose(1, 2)).div(W_Q.shape[1] ** 0.5).softmax(2)
    return torch.bmm(weights, value).reshape(*X.shape[:-1], W_V.shape[1])


# fused_qkv


def fused_by_slices(X, W_Q, W_K, W_V):
    d_k = W_Q.shape[1]
    projected = torch.matmul(X, torch.cat((W_Q, W_K, W_V), -1))
    return projected[..., :d_k], projected[..., d_k : 2 * d_k], projected[..., 2 * d_k :]


def fused_by_linear(X, W_Q, W_K, W_V):
    weight = torch.cat([W_Q.T, W_K.T, W_V.T])
    return torch.nn.functional.linear(X, weight).split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], -1)


def fused_by_hstack(X, W_Q, W_K, W_V):
    d_k = W_K.shape[1]
    return tuple(torch.tensor_split(X @ torch.hstack([W_Q, W_K, W_V]), [d_k, 2 * d_k], dim=-1))


def fused_by_einsum(X, W_Q, W_K, W_V):
    projected = torch.einsum("...nd,dk->...nk", X, torch.cat([W_Q, W_K, W_V], dim=1))
    query, key, value = projected.split_with_sizes([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)
    return query, key, value


def fused_transposed(X, W_Q, W_K, W_V):
    columns = torch.cat([W_V, W_K, W_Q], dim=1).T @ X.mT
    value, key, query = columns.split([W_V.shape[1], W_K.shape[1], W_Q.shape[1]], dim=-2)
    return [query.mT, key.mT, value.mT]


# sinusoidal_positions


def positions_by_loops(length, d_model):
    encodings = torch.zeros(length, d_model)
    for position in range(length):
        for column in range(d_model):
            angle = position / 10000 ** (column // 2 * 2 / d_model)
            encodings[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return encodings


def positions_by_exponential(length, d_model):
    encodings = torch.empty(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    encodings[:, 0::2] = torch.sin(position * div_term)
    encodings[:, 1::2] = torch.cos(position * div_term[: d_model // 2])
    return encodings


def positions_in_numpy(length, d_model):
    columns = np.arange(d_model)
    angles = np.arange(length)[:, None] / np.power(10000, 2 * (columns // 2) / d_model)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return torch.from_numpy(angles).float()


def positions_by_stacking(length, d_model):
    pairs = (d_model + 1) // 2
    angles = torch.outer(torch.arange(length).float(), 10000 ** (-2 * torch.arange(pairs) / d_model))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, 2 * pairs)[:, :d_model]


def positions_by_where(length, d_model):
    column = torch.arange(d_model)
    angles = torch.arange(length)[:, None] * 10000 ** (-(column - column % 2) / d_model)
    return torch.where(column % 2 == 0, torch.sin(angles), torch.cos(angles))


def positions_by_phase(length, d_model):
    """A cosine is a sine, a quarter turn ahead."""
    column = torch.arange(d_model, dtype=torch.float64)
    angles = torch.arange(length)[:, None] / 10000 ** ((column - column % 2) / d_model)
    return torch.sin(angles + column % 2 * math.pi / 2).float()


# causal_mask


def causal_by_tril(num_queries, num_keys):
    return torch.ones(num_queries, num_keys, dtype=torch.bool).tril(num_keys - num_queries)


def causal_by_triu(num_queries, num_keys):
    return ~torch.triu(torch.ones(num_queries, num_keys, dtype=torch.bool), diagonal=num_keys - num_queries + 1)


def causal_by_slicing(num_queries, num_keys):
    size = max(num_queries, num_keys)
    return torch.ones(size, size).tril().bool()[size - num_queries :, size - num_keys :]


def causal_by_loops(num_queries, num_keys):
    rows = [[j <= i + num_keys - num_queries for j in range(num_keys)] for i in range(num_queries)]
    return torch.tensor(rows, dtype=torch.bool)


def causal_in_numpy(num_queries, num_keys):
    return torch.from_numpy(np.tri(num_queries, num_keys, num_keys - num_queries, dtype=bool))


def causal_from_the_end(num_queries, num_keys):
    return torch.arange(num_queries, 0, -1)[:, None] <= torch.arange(num_keys, 0, -1)[None, :]


# padding_mask


def padding_by_loops(lengths, num_keys):
    return torch.tensor([[j < length for j in range(num_keys)] for length in lengths.tolist()])


def padding_by_expanding(lengths, num_keys):
    positions = torch.arange(num_keys).unsqueeze(0).expand(len(lengths), num_keys)
    return positions.lt(lengths.unsqueeze(-1))


def padding_by_filling(lengths, num_keys):
    mask = torch.zeros(lengths.shape[0], num_keys, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    return mask


def padding_by_triangle(lengths, num_keys):
    return torch.ones(num_keys + 1, num_keys).tril(-1).bool()[lengths]


def padding_by_counting(lengths, num_keys):
    return torch.ones(len(lengths), num_keys).cumsum(1) <= lengths.reshape(-1, 1)


# masked_self_attention


def masked_by_tril(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    allowed = torch.ones(X.shape[-2], X.shape[-2], dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    if key_mask is not None:
        allowed = allowed.logical_and(key_mask.unsqueeze(-2))
    return scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V, allowed)


def masked_without_a_mask_of_ones(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    tokens, attn_mask = X.shape[-2], None
    if causal:
        attn_mask = torch.arange(tokens) <= torch.arange(tokens)[:, None]
    if key_mask is not None:
        key_mask = key_mask[..., None, :]
        attn_mask = key_mask if attn_mask is None else attn_mask & key_mask
    return scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V, attn_mask)


def masked_by_infinity(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if causal:
        future = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), 1)
        scores = scores.masked_fill(future, -torch.inf)
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask[..., None, :], -torch.inf)
    empty = scores.isneginf().all(-1, keepdim=True)
    return (scores.masked_fill(empty, 0).softmax(-1) @ value).masked_fill(empty, 0)


def masked_by_large_numbers(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    query, key, value = (torch.einsum("...nd,dk->...nk", X, W) for W in (W_Q, W_K, W_V))
    allowed = torch.ones(X.shape[-2], X.shape[-2], dtype=torch.bool)
    allowed = allowed.tril() if causal else allowed
    allowed = allowed if key_mask is None else allowed & key_mask[..., None, :]
    scores = torch.where(allowed, query @ key.mT / query.shape[-1] ** 0.5, -1e9)
    return (torch.softmax(scores, -1) * allowed) @ value


def masked_token_by_token(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    """Each token in turn attends to the sequence so far, as a decoder with a cache does."""
    tokens = X.shape[-2]
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    outputs = []
    for t in range(tokens):
        seen = t + 1 if causal else tokens
        mask = None if key_mask is None else key_mask[..., None, :seen]
        attend = scaled_dot_product_attention
        outputs.append(attend(query[..., t : t + 1, :], key[..., :seen, :], value[..., :seen, :], mask))
    return torch.cat(outputs, dim=-2)


def masked_by_multiplying_masks(X, W_Q, W_K, W_V, causal=False, key_mask=None):
    tokens = X.shape[-2]
    allowed = torch.ones(tokens, tokens)
    if causal:
        allowed = torch.tril(allowed)
    if key_mask is not None:
        allowed = allowed * key_mask[..., None, :]
    return scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V, allowed > 0)


VARIANTS = {
    "self_attention": [
        self_by_cross_attention,
        self_by_einsum,
        self_by_linear,
        self_fused,
        self_projecting_last,
        self_by_loops,
        self_by_bmm,
    ],
    "fused_qkv": [fused_by_slices, fused_by_linear, fused_by_hstack, fused_by_einsum, fused_transposed],
    "sinusoidal_positions": [
        positions_by_loops,
        positions_by_exponential,
        positions_in_numpy,
        positions_by_stacking,
        positions_by_where,
        positions_by_phase,
    ],
    "causal_mask": [
        causal_by_tril,
        causal_by_triu,
        causal_by_slicing,
        causal_by_loops,
        causal_in_numpy,
        causal_from_the_end,
    ],
    "padding_mask": [
        padding_by_loops,
        padding_by_expanding,
        padding_by_filling,
        padding_by_triangle,
        padding_by_counting,
    ],
    "masked_self_attention": [
        masked_by_tril,
        masked_without_a_mask_of_ones,
        masked_by_infinity,
        masked_by_large_numbers,
        masked_token_by_token,
        masked_by_multiplying_masks,
    ],
}
