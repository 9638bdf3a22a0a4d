"""Right kernels of "Attention in the decoder" in other styles."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference.rnn_attention import additive_scores, context_vector, masked_softmax
from autograder.reference.rnn_encoder_decoder import gru_cell

# additive_scores


def check_weights(W, U, v):
    """The part of the given input checks that PyTorch would not make on its own in the kernels below."""
    if not W.shape[1] == U.shape[1] == len(v):
        raise ValueError("the hidden layer has one width")


def additive_by_loops(s, H, W, U, v):
    check_weights(W, U, v)
    if s.dim() > 1:
        return torch.stack([additive_by_loops(one, states, W, U, v) for one, states in zip(s, H, strict=True)])
    return torch.stack([v.dot(torch.tanh(s @ W + h @ U)) for h in H])


def additive_by_einsum(s, H, W, U, v):
    decoder, encoder = torch.einsum("...i,ia->...a", s, W), torch.einsum("...ni,ia->...na", H, U)
    return torch.einsum("...na,a->...n", (decoder[..., None, :] + encoder).tanh(), v)


def additive_by_one_product(s, H, W, U, v):
    """Both states side by side, and the two matrices one above the other."""
    both = torch.cat([s.unsqueeze(-2).expand(*H.shape[:-1], -1), H], dim=-1)
    return torch.tanh(both @ torch.cat([W, U], dim=0)) @ v


def additive_by_linear(s, H, W, U, v):
    hidden = torch.tanh(F.linear(s, W.T)[..., None, :] + F.linear(H, U.T))
    return F.linear(hidden, v[None]).squeeze(-1)


def additive_summing_products(s, H, W, U, v):
    check_weights(W, U, v)
    hidden = torch.tanh(torch.matmul(s, W).unsqueeze(dim=-2) + torch.matmul(H, U))
    return (v * hidden).sum(dim=-1)


def additive_by_repeating(s, H, W, U, v):
    repeated = torch.stack([s] * H.shape[-2], dim=-2)
    z = repeated @ W + H @ U
    return (2 * torch.sigmoid(2 * z) - 1) @ v


def additive_by_columns(s, H, W, U, v):
    hidden = torch.tanh((W.T @ s.unsqueeze(-1)) + U.T @ H.mT)  # (*batch, d_a, key)
    return (v @ hidden) if s.dim() == 1 else (v[None] @ hidden).squeeze(-2)


# multiplicative_scores


def multiplicative_by_bmm(s, H, W):
    flat = H.reshape(-1, *H.shape[-2:])
    row = (s @ W).reshape(-1, 1, W.shape[1])
    return torch.bmm(row, flat.transpose(1, 2)).reshape(H.shape[:-1])


def multiplicative_by_einsum(s, H, W):
    return torch.einsum("...i,ij,...nj->...n", s, W, H)


def multiplicative_by_sum(s, H, W):
    return ((s @ W)[..., None, :] * H).sum(-1)


def multiplicative_projecting_encoder(s, H, W):
    return torch.matmul(H @ W.T, s[..., None])[..., 0]


def multiplicative_by_loops(s, H, W):
    if W.shape != (s.shape[-1], H.shape[-1]):
        raise ValueError("W does not fit")
    if s.dim() > 1:
        return torch.stack([multiplicative_by_loops(one, states, W) for one, states in zip(s, H, strict=True)])
    return torch.stack([sum(s[i] * W[i, j] * h[j] for i in range(len(s)) for j in range(len(h))) for h in H])


def multiplicative_by_linear(s, H, W):
    return (F.linear(s, W.mT).unsqueeze(-2) @ H.mT).squeeze(-2)


# masked_softmax


def check_mask(key_mask):
    if key_mask.dtype != torch.bool:
        raise TypeError("key_mask must be boolean")


def softmax_minus_infinity(scores, key_mask):
    weights = torch.softmax(scores.masked_fill(~key_mask, float("-inf")), dim=-1)
    return weights.nan_to_num(0.0)


def softmax_by_where(scores, key_mask):
    check_mask(key_mask)
    weights = torch.where(key_mask, scores, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.where(key_mask, weights, 0)


def softmax_times_any(scores, key_mask):
    check_mask(key_mask)
    fill = -6e4 if scores.dtype == torch.float16 else -1e9
    weights = scores.masked_fill(key_mask.logical_not(), fill).softmax(dim=-1)
    return weights * key_mask.any(-1, keepdim=True)


def softmax_by_exponentials(scores, key_mask):
    scores = scores.masked_fill(~key_mask, torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - scores.max(-1, keepdim=True).values) * key_mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


def softmax_by_logsumexp(scores, key_mask):
    check_mask(key_mask)
    blocked = torch.where(key_mask, scores, -torch.inf)
    total = torch.logsumexp(blocked, dim=-1, keepdim=True)
    return torch.exp(blocked - torch.where(total.isneginf(), 0.0, total))


def softmax_by_loops(scores, key_mask):
    check_mask(key_mask)
    if scores.dim() > 1:
        masks = key_mask.expand_as(scores)
        return torch.stack([softmax_by_loops(row, mask) for row, mask in zip(scores, masks, strict=True)])
    weights = torch.zeros_like(scores)
    real = key_mask.expand_as(scores).nonzero().squeeze(1)
    if len(real) == 0:
        return 0 * scores
    return weights.index_put((real,), torch.softmax(scores[real], dim=0))


def softmax_sparing_empty_rows(scores, key_mask):
    """Rows without any real key go through as if all were real, and come out as zeros."""
    empty = ~key_mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(key_mask | empty), -torch.inf).softmax(-1).masked_fill(empty, 0)


def softmax_adding_a_bias(scores, key_mask):
    check_mask(key_mask)
    lowest = torch.finfo(scores.dtype).min / 2
    bias = torch.zeros_like(scores).masked_fill(~key_mask, lowest)
    return torch.softmax(scores + bias, dim=-1) * key_mask


# context_vector


def check_weights_of_states(attn_weights, H):
    if attn_weights.shape != H.shape[:-1]:
        raise ValueError("there must be one weight for each state")


def context_by_sum(attn_weights, H):
    check_weights_of_states(attn_weights, H)
    return (attn_weights[..., None] * H).sum(-2)


def context_by_einsum(attn_weights, H):
    check_weights_of_states(attn_weights, H)
    return torch.einsum("...n,...nd->...d", attn_weights, H)


def context_by_bmm(attn_weights, H):
    flat = H.reshape(-1, *H.shape[-2:])
    return torch.bmm(attn_weights.reshape(len(flat), 1, -1), flat).reshape(*H.shape[:-2], H.shape[-1])


def context_by_columns(attn_weights, H):
    return torch.matmul(H.transpose(-1, -2), attn_weights.unsqueeze(-1)).squeeze(-1)


def context_by_loop(attn_weights, H):
    check_weights_of_states(attn_weights, H)
    context = torch.zeros_like(H[..., 0, :])
    for i in range(H.shape[-2]):
        context = context + attn_weights[..., i, None] * H[..., i, :]
    return context


# attention_decoder_step


def step_without_the_kernels(y, s, H, key_mask, W, U, v, W_ih, W_hh, b_ih, b_hh):
    scores = torch.einsum("bna,a->bn", torch.tanh((s @ W)[:, None] + H @ U), v)
    attn_weights = torch.softmax(scores.masked_fill(~key_mask, -torch.inf), 1).nan_to_num(0)
    context = torch.bmm(attn_weights[:, None], H)[:, 0]
    return gru_cell(torch.cat((y, context), 1), s, W_ih, W_hh, b_ih, b_hh), context, attn_weights


def step_with_input_weights_apart(y, s, H, key_mask, W, U, v, W_ih, W_hh, b_ih, b_hh):
    """Bahdanau's own form: a matrix for the embedding and one for the context."""
    if W_ih.shape[1] != y.shape[1] + H.shape[2]:
        raise ValueError("W_ih does not fit")
    attn_weights = masked_softmax(additive_scores(s, H, W, U, v), key_mask)
    context = context_vector(attn_weights, H)
    of_word, of_context = W_ih[:, : y.shape[1]], W_ih[:, y.shape[1] :]
    r_x, z_x, n_x = (y @ of_word.T + context @ of_context.T + b_ih).chunk(3, 1)
    r_h, z_h, n_h = (s @ W_hh.T + b_hh).chunk(3, 1)
    z = torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
    return n + z * (s - n), context, attn_weights


def step_by_sentences(y, s, H, key_mask, W, U, v, W_ih, W_hh, b_ih, b_hh):
    results = []
    for word, state, states, mask in zip(y, s, H, key_mask, strict=True):
        weights = masked_softmax(additive_scores(state, states, W, U, v), mask)
        context = weights @ states
        cell_input = torch.cat([word, context])[None]
        results.append((gru_cell(cell_input, state[None], W_ih, W_hh, b_ih, b_hh)[0], context, weights))
    return tuple(torch.stack(column) for column in zip(*results, strict=True))


def step_leaving_padding_out(y, s, H, key_mask, W, U, v, W_ih, W_hh, b_ih, b_hh):
    weights = masked_softmax(additive_scores(s, H, W, U, v), key_mask)
    c = torch.stack([w[m] @ h[m] for w, m, h in zip(weights, key_mask, H, strict=True)])
    return [gru_cell(torch.hstack([y, c]), s, W_ih, W_hh, b_ih, b_hh), c, weights]


def step_by_row_products(y, s, H, key_mask, W, U, v, W_ih, W_hh, b_ih, b_hh):
    energy = F.linear(torch.tanh(F.linear(s, W.T).unsqueeze(1) + F.linear(H, U.T)), v.unsqueeze(0)).squeeze(2)
    weights = softmax_by_where(energy, key_mask)
    context = (H * weights.unsqueeze(2)).sum(dim=1)
    return gru_cell(torch.cat([y, context], -1), s, W_ih, W_hh, b_ih, b_hh), context, weights


class DecoderStep(nn.Module):
    """A module in place of a function."""

    def forward(self, y, s, H, key_mask, *weights):
        return step_without_the_kernels(y, s, H, key_mask, *weights)


step_by_a_module = DecoderStep()
step_by_a_module.__name__ = "step_by_a_module"


# alignment_error_rate


def check_links(found, sure, possible):
    if not any(found) and not any(sure):
        raise ValueError("nothing to judge")
    if any(a - b for a, b in zip(sure, possible, strict=True)):
        raise ValueError("a sure link is not possible")


def rate_by_comprehensions(found, sure, possible):
    check_links(found, sure, possible)
    in_sure = sum(len(a & s) for a, s in zip(found, sure, strict=True))
    in_possible = sum(len(a & p) for a, p in zip(found, possible, strict=True))
    return 1.0 - (in_sure + in_possible) / (sum(map(len, found)) + sum(map(len, sure)))


def rate_by_marked_links(found, sure, possible):
    """Each link carries the number of its sentence, so that one set holds them all."""
    check_links(found, sure, possible)
    A, S, P = ({(n, *link) for n, links in enumerate(of_all) for link in links} for of_all in (found, sure, possible))
    return (len(A) + len(S) - len(A & S) - len(A & P)) / (len(A) + len(S))


def rate_by_counting(found, sure, possible):
    check_links(found, sure, possible)
    right = total = 0
    for n in range(len(found)):
        for link in found[n]:
            right += (link in sure[n]) + (link in possible[n])
            total += 1
        total += len(sure[n])
    return np.float64(1 - right / total)


def rate_by_precision_and_recall(found, sure, possible):
    """The mean of precision and recall, weighted by the numbers of links beneath them."""
    check_links(found, sure, possible)
    a, s = sum(map(len, found)), sum(map(len, sure))
    precision = sum(len(x & y) for x, y in zip(found, possible, strict=True)) / max(a, 1)
    recall = sum(len(x.intersection(y)) for x, y in zip(found, sure, strict=True)) / max(s, 1)
    return torch.tensor(1 - (a * precision + s * recall) / (a + s), dtype=torch.float64)


VARIANTS = {
    "additive_scores": [
        additive_by_loops,
        additive_by_einsum,
        additive_by_one_product,
        additive_by_linear,
        additive_summing_products,
        additive_by_repeating,
        additive_by_columns,
    ],
    "multiplicative_scores": [
        multiplicative_by_bmm,
        multiplicative_by_einsum,
        multiplicative_by_sum,
        multiplicative_projecting_encoder,
        multiplicative_by_loops,
        multiplicative_by_linear,
    ],
    "masked_softmax": [
        softmax_minus_infinity,
        softmax_by_where,
        softmax_times_any,
        softmax_by_exponentials,
        softmax_by_logsumexp,
        softmax_by_loops,
        softmax_sparing_empty_rows,
        softmax_adding_a_bias,
    ],
    "context_vector": [context_by_sum, context_by_einsum, context_by_bmm, context_by_columns, context_by_loop],
    "attention_decoder_step": [
        step_without_the_kernels,
        step_with_input_weights_apart,
        step_by_sentences,
        step_leaving_padding_out,
        step_by_row_products,
        step_by_a_module,
    ],
    "alignment_error_rate": [
        rate_by_comprehensions,
        rate_by_marked_links,
        rate_by_counting,
        rate_by_precision_and_recall,
    ],
}
