"""Right kernels of "Attention as a layer" in other styles."""

import math

import numpy as np
import torch

from autograder.reference.attention_layer import scaled_dot_product_attention

# similarity


def similarity_by_loops(query, keys):
    scores = []
    for key in keys:
        total = 0.0
        for a, b in zip(query, key, strict=True):
            total = total + a * b
        scores.append(total / len(query) ** 0.5)
    return torch.stack(scores)


def similarity_by_einsum(query, keys):
    return torch.einsum("d,kd->k", query, keys) * query.shape[0] ** -0.5


def similarity_by_sum(query, keys):
    return (keys * query).sum(dim=1) / np.sqrt(query.numel())


def similarity_by_mv(query, keys):
    return torch.mv(keys, query) / torch.sqrt(torch.tensor(len(query)))


def similarity_scaling_both(query, keys):
    root = query.size(-1) ** 0.25
    return torch.matmul(keys / root, query / root)


def similarity_by_column(query, keys):
    d = query.shape[-1]
    return (query.unsqueeze(0) @ keys.T).squeeze(0) / math.sqrt(d)


# attention_weights


def weights_by_einsum(query, key):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.shape[-1] ** 0.5
    return scores.softmax(-1)


def weights_by_hand(query, key):
    scores = torch.matmul(query, key.mT) / math.sqrt(key.size(-1))
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return exponentials / exponentials.sum(-1, keepdim=True)


def weights_by_logsumexp(query, key):
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp()


def weights_by_bmm(query, key):
    d = query.shape[-1]
    flat_query = query.reshape(-1, query.shape[-2], d)
    flat_key = key.reshape(-1, key.shape[-2], d)
    weights = torch.softmax(torch.bmm(flat_query, flat_key.permute(0, 2, 1)) / d**0.5, dim=2)
    return weights.reshape(*query.shape[:-1], key.shape[-2])


def weights_transposed(query, key):
    scores = key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, dim=-2).transpose(-2, -1)


def weights_by_loops(query, key):
    if query.dim() > 2:
        return torch.stack([weights_by_loops(q, k) for q, k in zip(query, key, strict=True)])
    return torch.stack([torch.softmax(key @ q / math.sqrt(len(q)), dim=0) for q in query])


def weights_by_log_softmax(query, key):
    return torch.log_softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, -1).exp()


# scaled_dot_product_attention


def check_arguments(key, value, attn_mask):
    """The part of the given input checks that PyTorch would not make on its own in the kernels below."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError("each key needs one value")
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError("attn_mask must be boolean")


def attention_by_loops(query, key, value, attn_mask=None):
    check_arguments(key, value, attn_mask)
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() > 2:
        masks = [None] * len(query) if attn_mask is None else attn_mask
        return torch.stack([attention_by_loops(*item) for item in zip(query, key, value, masks, strict=True)])
    rows = []
    for i, q in enumerate(query):
        seen = torch.arange(len(key)) if attn_mask is None else attn_mask[i].nonzero().squeeze(1)
        if len(seen) == 0:
            rows.append(0 * q.sum() + torch.zeros_like(value[0]))
            continue
        scores = torch.stack([(q * key[j]).sum() for j in seen]) / math.sqrt(len(q))
        powers = torch.exp(scores - scores.max())
        rows.append(sum(w * value[j] for w, j in zip(powers / powers.sum(), seen, strict=True)))
    return torch.stack(rows)


def attention_by_einsum(query, key, value, attn_mask=None):
    check_arguments(key, value, attn_mask)
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.size(-1) ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("...qk,...kv->...qv", weights, value)


def attention_by_bmm(query, key, value, attn_mask=None):
    *leading, queries, d_k = query.shape
    keys, d_v = value.shape[-2:]
    q, k, v = query.reshape(-1, queries, d_k), key.reshape(-1, keys, d_k), value.reshape(-1, keys, d_v)
    scores = torch.bmm(q / math.sqrt(d_k), k.transpose(1, 2))
    if attn_mask is None:
        return torch.bmm(torch.softmax(scores, 2), v).reshape(*leading, queries, d_v)
    mask = attn_mask.expand(*leading, queries, keys).reshape(-1, queries, keys)
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, 2) * mask.any(dim=-1, keepdim=True)
    return torch.bmm(weights, v).reshape(*leading, queries, d_v)


def attention_by_baddbmm(query, key, value, attn_mask=None):
    *leading, queries, d_k = query.shape
    keys, d_v = value.shape[-2:]
    bias = torch.zeros(*leading, queries, keys, dtype=query.dtype)
    if attn_mask is not None:
        bias = bias.masked_fill(~attn_mask, torch.finfo(query.dtype).min / 2)
    scores = torch.baddbmm(
        bias.reshape(-1, queries, keys),
        query.reshape(-1, queries, d_k),
        key.reshape(-1, keys, d_k).mT,
        alpha=d_k**-0.5,
    )
    weights = torch.softmax(scores, -1).reshape(*leading, queries, keys)
    if attn_mask is not None:
        weights = weights * attn_mask.any(-1, keepdim=True)
    return weights @ value


def attention_scaling_keys(query, key, value, attn_mask=None):
    scores = query @ (key * key.shape[-1] ** -0.5).mT
    if attn_mask is None:
        return scores.softmax(-1) @ value
    empty = ~attn_mask.any(-1, keepdim=True)
    scores = scores.masked_fill(~(attn_mask | empty), -torch.inf)
    return (scores.softmax(-1) @ value).masked_fill(empty, 0)


def attention_by_logsumexp(query, key, value, attn_mask=None):
    log_weights = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        log_weights = torch.where(attn_mask, log_weights, -torch.inf)
    total = torch.logsumexp(log_weights, dim=-1, keepdim=True)
    total = torch.where(total.isneginf(), 0.0, total)
    return torch.exp(log_weights - total) @ value


def attention_by_running_maximum(query, key, value, attn_mask=None):
    """One key after another, with a running maximum, as FlashAttention does."""
    check_arguments(key, value, attn_mask)
    scale = 1 / math.sqrt(query.shape[-1])
    lowest = torch.finfo(torch.float64).min
    largest = torch.full((*query.shape[:-1], 1), lowest, dtype=torch.float64)
    total, output = torch.zeros_like(largest), torch.zeros(*query.shape[:-1], value.shape[-1], dtype=torch.float64)
    mask = torch.ones(1, 1, dtype=torch.bool) if attn_mask is None else attn_mask
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    for j in range(key.shape[-2]):
        allowed = mask[..., j : j + 1]
        score = (query * key[..., j : j + 1, :]).sum(-1, keepdim=True).double() * scale
        new_largest = torch.where(allowed, torch.maximum(largest, score), largest).detach()
        shrink = torch.exp(largest - new_largest)
        weight = torch.where(allowed, torch.exp(torch.where(allowed, score - new_largest, 0)), 0)
        total = total * shrink + weight
        output = output * shrink + weight * value[..., j : j + 1, :].double()
        largest = new_largest
    return (output / torch.where(total == 0, 1, total)).to(query.dtype)


def attention_in_double(query, key, value, attn_mask=None):
    q, k, v = query.double(), key.double(), value.double()
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -1e9)
    weights = torch.softmax(scores, -1)
    if attn_mask is not None:
        weights = weights * attn_mask.double()
    return (weights @ v).to(query.dtype)


def attention_exponentials_times_mask(query, key, value, attn_mask=None):
    scores = torch.matmul(query, key.swapaxes(-1, -2)) * (1.0 / np.sqrt(query.shape[-1]))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    if attn_mask is not None:
        powers = powers * attn_mask
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1)) @ value


def attention_dividing_last(query, key, value, attn_mask=None):
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    allowed = torch.ones_like(scores, dtype=torch.bool) if attn_mask is None else attn_mask.expand_as(scores)
    largest = scores.masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True)
    largest = largest.masked_fill(largest.isneginf(), 0).detach()
    powers = torch.exp((scores - largest).masked_fill(~allowed, -torch.inf))
    return (powers @ value) / powers.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)


def attention_with_a_sink(query, key, value, attn_mask=None):
    """A row without any key attends to an extra key whose value is zero."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if attn_mask is None:
        return torch.softmax(scores, -1) @ value
    scores = scores.masked_fill(~attn_mask, -torch.inf)
    empty = ~attn_mask.expand_as(scores).any(-1, keepdim=True)
    sink = torch.zeros_like(scores[..., :1]).masked_fill(~empty, -torch.inf)
    weights = torch.cat([scores, sink], -1).softmax(-1)
    return weights[..., :-1] @ value


def attention_values_first(query, key, value, attn_mask=None):
    """Transposed throughout: (V^T A^T)^T."""
    scores = key @ query.mT / math.sqrt(query.shape[-1])
    if attn_mask is None:
        return (value.mT @ torch.softmax(scores, -2)).mT
    mask = attn_mask.mT
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -2)
    return (value.mT @ torch.where(mask, weights, 0)).mT


def attention_by_vmap(query, key, value, attn_mask=None):
    *leading, queries, _ = query.shape
    check_arguments(key, value, attn_mask)
    mask = torch.ones(1, 1, dtype=torch.bool) if attn_mask is None else attn_mask
    mask = mask.expand(*leading, queries, key.shape[-2])

    def one(q, k, v, allowed):
        scores = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(~allowed, torch.finfo(q.dtype).min)
        return (torch.softmax(scores, -1) * allowed) @ v

    flat = (tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (query, key, value, mask))
    return torch.vmap(one)(*flat).reshape(*leading, queries, value.shape[-1])


class _WithBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, allowed):
        scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~allowed, -torch.inf)
        weights = torch.softmax(scores, -1).nan_to_num(0)
        ctx.save_for_backward(query, key, value, weights)
        return weights @ value

    @staticmethod
    def backward(ctx, grad_output):
        query, key, value, weights = ctx.saved_tensors
        slope = grad_output @ value.mT
        slope = weights * (slope - (weights * slope).sum(-1, keepdim=True)) / math.sqrt(query.shape[-1])
        return slope @ key, slope.mT @ query, weights.mT @ grad_output, None


def attention_with_its_own_backward(query, key, value, attn_mask=None):
    check_arguments(key, value, attn_mask)
    return _WithBackward.apply(query, key, value, torch.tensor([[True]]) if attn_mask is None else attn_mask)


def attention_in_chunks_of_queries(query, key, value, attn_mask=None):
    check_arguments(key, value, attn_mask)
    outputs = []
    for start in range(0, query.shape[-2], 3):
        scores = query[..., start : start + 3, :] @ key.mT / math.sqrt(query.shape[-1])
        if attn_mask is not None:
            chunk = attn_mask.expand(*query.shape[:-1], key.shape[-2])[..., start : start + 3, :]
            scores = torch.where(chunk, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        outputs.append((weights if attn_mask is None else weights * chunk) @ value)
    return torch.cat(outputs, dim=-2)


class AttentionModule(torch.nn.Module):
    """A module in place of a function."""

    def forward(self, query, key, value, attn_mask=None):
        return attention_values_first(query, key, value, attn_mask)


attention_by_a_module = AttentionModule()
attention_by_a_module.__name__ = "attention_by_a_module"


# cross_attention


def cross_by_einsum(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    query = torch.einsum("...nd,dk->...nk", X_q, W_Q)
    key = torch.einsum("...nd,dk->...nk", X_kv, W_K)
    value = torch.einsum("...nd,dv->...nv", X_kv, W_V)
    return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)


def cross_by_linear(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    linear = torch.nn.functional.linear
    return scaled_dot_product_attention(linear(X_q, W_Q.T), linear(X_kv, W_K.T), linear(X_kv, W_V.T), attn_mask)


def cross_by_one_product(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    key, value = (X_kv @ torch.cat([W_K, W_V], dim=1)).split([W_K.shape[1], W_V.shape[1]], dim=-1)
    return scaled_dot_product_attention(X_q @ W_Q, key, value, attn_mask)


def cross_projecting_last(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    return scaled_dot_product_attention(X_q @ W_Q, X_kv @ W_K, X_kv, attn_mask) @ W_V


def cross_without_the_kernel(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    query, key, value = torch.matmul(X_q, W_Q), torch.matmul(X_kv, W_K), torch.matmul(X_kv, W_V)
    return attention_by_einsum(query, key, value, attn_mask)


def cross_merging_projections(X_q, X_kv, W_Q, W_K, W_V, attn_mask=None):
    scores = X_q @ (W_Q @ W_K.T / math.sqrt(W_Q.shape[1])) @ X_kv.mT
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    return scores.softmax(-1).nan_to_num(0) @ (X_kv @ W_V)


# attention_backward


def backward_by_loops(grad_output, query, key, value, attn_mask=None):
    d_k = query.shape[-1]
    grads = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
    mask = np.ones((1, 1), bool) if attn_mask is None else attn_mask
    mask = np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
    for at in np.ndindex(query.shape[:-2]):
        q, k, v, g, m = query[at], key[at], value[at], grad_output[at], mask[at]
        grad_q, grad_k, grad_v = (grad[at] for grad in grads)
        for i in range(len(q)):
            seen = np.flatnonzero(m[i])
            if len(seen) == 0:
                continue
            s = np.array([q[i] @ k[j] for j in seen]) / math.sqrt(d_k)
            a = np.exp(s - s.max())
            a = a / a.sum()
            da = np.array([g[i] @ v[j] for j in seen])
            ds = (np.diag(a) - np.outer(a, a)) @ da / math.sqrt(d_k)
            for w, slope, j in zip(a, ds, seen, strict=True):
                grad_v[j] += w * g[i]
                grad_q[i] += slope * k[j]
                grad_k[j] += slope * q[i]
    return grads


def backward_by_einsum(grad_output, query, key, value, attn_mask=None):
    assert grad_output.shape == (*query.shape[:-1], value.shape[-1])
    scale = query.shape[-1] ** -0.5
    scores = np.einsum("...qd,...kd->...qk", query, key) * scale
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(powers / powers.sum(-1, keepdims=True))
    grad_value = np.einsum("...qk,...qv->...kv", weights, grad_output)
    grad_weights = np.einsum("...qv,...kv->...qk", grad_output, value)
    grad_scores = weights * (grad_weights - np.einsum("...qk,...qk->...q", weights, grad_weights)[..., None])
    grad_query = scale * np.einsum("...qk,...kd->...qd", grad_scores, key)
    grad_key = scale * np.einsum("...qk,...qd->...kd", grad_scores, query)
    return grad_query, grad_key, grad_value


def backward_through_the_output(grad_output, query, key, value, attn_mask=None):
    """The average under the weights is grad_output . output, as in FlashAttention."""
    root = math.sqrt(query.shape[-1])
    scores = query @ key.swapaxes(-2, -1) / root
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, np.finfo(scores.dtype).min / 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if attn_mask is not None:
        weights = weights * attn_mask
    output = weights @ value
    row = (grad_output * output).sum(-1, keepdims=True)
    grad_scores = weights * (grad_output @ value.swapaxes(-2, -1) - row) / root
    return grad_scores @ key, grad_scores.swapaxes(-2, -1) @ query, weights.swapaxes(-2, -1) @ grad_output


def backward_by_jacobians(grad_output, query, key, value, attn_mask=None):
    scale = 1 / math.sqrt(query.shape[-1])
    scores = np.matmul(query * scale, np.moveaxis(key, -1, -2))
    mask = np.ones(scores.shape, bool) if attn_mask is None else np.broadcast_to(attn_mask, scores.shape)
    powers = np.exp(
        scores - np.where(mask, scores, -1e30).max(-1, keepdims=True), where=mask, out=np.zeros_like(scores)
    )
    total = powers.sum(-1, keepdims=True)
    weights = np.divide(powers, total, where=total > 0, out=np.zeros_like(powers))
    eye = np.eye(weights.shape[-1], dtype=weights.dtype)
    jacobian = weights[..., None] * (eye - weights[..., None, :])
    grad_weights = grad_output @ np.moveaxis(value, -1, -2)
    grad_scores = (jacobian @ grad_weights[..., None])[..., 0] * scale
    return [
        np.matmul(grad_scores, key),
        np.matmul(np.moveaxis(grad_scores, -1, -2), query),
        np.matmul(np.moveaxis(weights, -1, -2), grad_output),
    ]


def backward_in_double(grad_output, query, key, value, attn_mask=None):
    dtype = query.dtype
    wide = (array.astype(np.float64) for array in (grad_output, query, key, value))
    return tuple(grad.astype(dtype) for grad in backward_by_einsum(*wide, attn_mask))


VARIANTS = {
    "similarity": [
        similarity_by_loops,
        similarity_by_einsum,
        similarity_by_sum,
        similarity_by_mv,
        similarity_scaling_both,
        similarity_by_column,
    ],
    "attention_weights": [
        weights_by_einsum,
        weights_by_hand,
        weights_by_logsumexp,
        weights_by_bmm,
        weights_transposed,
        weights_by_loops,
        weights_by_log_softmax,
    ],
    "scaled_dot_product_attention": [
        attention_by_loops,
        attention_by_einsum,
        attention_by_bmm,
        attention_by_baddbmm,
        attention_scaling_keys,
        attention_by_logsumexp,
        attention_by_running_maximum,
        attention_in_double,
        attention_exponentials_times_mask,
        attention_dividing_last,
        attention_with_a_sink,
        attention_values_first,
        attention_by_vmap,
        attention_with_its_own_backward,
        attention_in_chunks_of_queries,
        attention_by_a_module,
    ],
    "cross_attention": [
        cross_by_einsum,
        cross_by_linear,
        cross_by_one_product,
        cross_projecting_last,
        cross_without_the_kernel,
        cross_merging_projections,
    ],
    "attention_backward": [
        backward_by_loops,
        backward_by_einsum,
        backward_through_the_output,
        backward_by_jacobians,
        backward_in_double,
    ],
}
