"""Right kernels of "Language models" in other styles."""

import math

import torch
from torch.nn import functional as F

from autograder.reference import language_model as reference
from autograder.reference.transformer import layer_norm

# next_token_loss


def _refuse_texts(logits, tokens):
    if logits.shape[:-1] != tokens.shape or tokens.shape[-1] < 2:
        raise ValueError("logits and tokens do not fit")


def loss_by_transposing(logits, tokens, pad=None):
    _refuse_texts(logits, tokens)
    options = {} if pad is None else {"ignore_index": pad}
    return F.cross_entropy(logits[..., :-1, :].movedim(-1, 1 if logits.dim() > 2 else -1), tokens[..., 1:], **options)


def loss_by_gathering(logits, tokens, pad=None):
    _refuse_texts(logits, tokens)
    targets = tokens[..., 1:]
    log_probs = torch.log_softmax(logits, dim=-1)[..., :-1, :]
    of_target = log_probs.gather(-1, targets[..., None])[..., 0]
    real = torch.ones_like(targets, dtype=torch.bool) if pad is None else targets != pad
    return -(of_target * real).sum() / real.sum()


def loss_by_ignoring_the_last(logits, tokens, pad=None):
    _refuse_texts(logits, tokens)
    targets = F.pad(tokens, (0, 1), value=-100)[..., 1:].clone()  # the last place has no target
    if pad is not None:
        targets[targets == pad] = -100
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def loss_by_logsumexp(logits, tokens, pad=None):
    _refuse_texts(logits, tokens)
    targets, logits = tokens[..., 1:], logits[..., :-1, :]
    of_target = (F.one_hot(targets, logits.shape[-1]) * logits).sum(-1)
    losses = logits.logsumexp(-1) - of_target
    return losses.mean() if pad is None else losses[targets != pad].mean()


def loss_token_by_token(logits, tokens, pad=None):
    _refuse_texts(logits, tokens)
    losses = []
    for scores, text in zip(
        logits.reshape(-1, *logits.shape[-2:]), tokens.reshape(-1, tokens.shape[-1]).tolist(), strict=True
    ):
        losses += [-scores[t].log_softmax(0)[text[t + 1]] for t in range(len(text) - 1) if text[t + 1] != pad]
    return torch.stack(losses).mean()


# perplexity


def _refuse_nothing(log_probs, mask):
    if log_probs.numel() == 0 or (mask is not None and (mask.shape != log_probs.shape or not mask.any())):
        raise ValueError("no token is real")


def perplexity_by_where(log_probs, mask=None):
    _refuse_nothing(log_probs, mask)
    if mask is None:
        mask = torch.ones_like(log_probs, dtype=torch.bool)
    return torch.where(mask, -log_probs, 0.0).sum().div(mask.sum()).exp()


def perplexity_by_filling(log_probs, mask=None):
    _refuse_nothing(log_probs, mask)
    if mask is None:
        return (-log_probs.mean()).exp()
    return torch.exp(-log_probs.masked_fill(~mask, 0).sum() / mask.count_nonzero())


def perplexity_in_bits(log_probs, mask=None):
    _refuse_nothing(log_probs, mask)
    real = log_probs.flatten() if mask is None else torch.masked_select(log_probs, mask)
    return 2 ** (-real / math.log(2)).mean()


def perplexity_text_by_text(log_probs, mask=None):
    _refuse_nothing(log_probs, mask)
    total, count = 0.0, 0
    masks = torch.ones_like(log_probs) if mask is None else mask
    for text, real in zip(torch.atleast_2d(log_probs), torch.atleast_2d(masks).bool(), strict=True):
        total, count = total - text[real].sum(), count + int(real.sum())
    return torch.exp(total / count)


# KVCache


class JoiningCache(reference.KVCache):
    def append(self, keys, values):
        _refuse_chunk(self, keys, values)
        if self.keys is None:
            self.keys, self.values = keys, values
        else:
            self.keys = torch.cat([self.keys, keys], dim=-2)
            self.values = torch.cat([self.values, values], dim=-2)
        self.length = self.keys.shape[-2]
        return self.keys, self.values


class ListOfChunks(reference.KVCache):
    def append(self, keys, values):
        _refuse_chunk(self, keys, values)
        self.keys = [*(self.keys or []), keys]
        self.values = [*(self.values or []), values]
        self.length += keys.size(-2)
        return torch.cat(self.keys, -2), torch.cat(self.values, -2)


class NarrowedRoom(reference.KVCache):
    def append(self, keys, values):
        _refuse_chunk(self, keys, values)
        start, count = self.length, keys.size(-2)
        if self.keys is None:
            self.keys = torch.empty(*keys.shape[:-2], self.max_length, keys.shape[-1], dtype=keys.dtype)
            self.values = torch.empty(*values.shape[:-2], self.max_length, values.shape[-1], dtype=values.dtype)
        self.keys.narrow(-2, start, count).copy_(keys)
        self.values.narrow(-2, start, count).copy_(values)
        self.length = start + count
        return self.keys.narrow(-2, 0, self.length), self.values.narrow(-2, 0, self.length)


class TokensFirst(reference.KVCache):
    """Keeps the tokens on the first axis, and hands out copies."""

    def append(self, keys, values):
        _refuse_chunk(self, keys, values)
        if self.length == 0:
            self.keys, self.values = [], []
        self.keys += keys.movedim(-2, 0).unbind(0)
        self.values += values.movedim(-2, 0).unbind(0)
        self.length = len(self.keys)
        return torch.stack(self.keys, dim=-2), torch.stack(self.values, dim=-2)


class GrowingRoom(reference.KVCache):
    """Takes twice the room whenever it is full."""

    def append(self, keys, values):
        _refuse_chunk(self, keys, values)
        end = self.length + keys.shape[-2]
        if self.keys is None:
            self.keys, self.values = keys.clone(), values.clone()
        while self.keys.shape[-2] < end:
            self.keys, self.values = (torch.cat([kept, kept], dim=-2) for kept in (self.keys, self.values))
        self.keys[..., self.length : end, :], self.values[..., self.length : end, :] = keys, values
        self.length = end
        return self.keys[..., :end, :].clone(), self.values[..., :end, :].clone()


def _refuse_chunk(cache, keys, values):
    if keys.shape[:-1] != values.shape[:-1] or cache.length + keys.shape[-2] > cache.max_length:
        raise ValueError("does not fit")


# CausalBlock


def _projected(block, x):
    """Queries, keys and values, each projected by its own part of the weights and split by a view."""
    layer = block.self_attn
    parts = zip(layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True)
    return [(x @ W.T + b).unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2) for W, b in parts]


def _rest(block, x, heads):
    """The block after its attention, by PyTorch's own layers."""
    dropout = block.dropout if block.training else 0.0
    attn_output = block.self_attn.out_proj(heads.transpose(-3, -2).flatten(-2))
    x = block.norm1(x + F.dropout(attn_output, dropout))
    return block.norm2(x + F.dropout(block.linear2(block.linear1(x).relu()), dropout))


class BlockByFusedAttention(reference.CausalBlock):
    def forward(self, x, cache=None):
        Q, K, V = _projected(self, x)
        if cache is not None:
            K, V = cache.append(K, V)
        new, known = Q.shape[-2], K.shape[-2]
        mask = torch.ones(new, known, dtype=torch.bool).tril(known - new)
        return _rest(self, x, F.scaled_dot_product_attention(Q, K, V, mask))


class BlockByEinsum(reference.CausalBlock):
    def forward(self, x, cache=None):
        Q, K, V = _projected(self, x)
        if cache is not None:
            K, V = cache.append(K, V)
        scores = torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.shape[-1])
        ahead = torch.full(scores.shape[-2:], -math.inf, dtype=x.dtype).triu(1 + scores.shape[-1] - scores.shape[-2])
        return _rest(self, x, torch.einsum("...qk,...kd->...qd", torch.softmax(scores + ahead, -1), V))


class BlockByLengthOfCache(reference.CausalBlock):
    """Asks the cache for the position of the first new token; one new token needs no mask."""

    def forward(self, x, cache=None):
        start = 0 if cache is None else cache.length
        Q, K, V = _projected(self, x)
        if cache is not None:
            K, V = cache.append(K, V)
        scores = (Q * Q.shape[-1] ** -0.5).matmul(K.mT)
        if x.shape[-2] > 1:
            positions = start + torch.arange(x.shape[-2])
            scores = scores.masked_fill(positions[:, None] < torch.arange(K.shape[-2]), -1e9)
        return _rest(self, x, scores.softmax(-1) @ V)


class BlockTokenByToken(reference.CausalBlock):
    """Each query with as many keys as it may see."""

    def forward(self, x, cache=None):
        Q, K, V = _projected(self, x)
        if cache is not None:
            K, V = cache.append(K, V)
        start = K.shape[-2] - Q.shape[-2]
        outputs = [
            F.scaled_dot_product_attention(Q[..., t : t + 1, :], K[..., : start + t + 1, :], V[..., : start + t + 1, :])
            for t in range(Q.shape[-2])
        ]
        return _rest(self, x, torch.cat(outputs, dim=-2))


class BlockOfTwo(reference.CausalBlock):
    """The layer's own multi-head attention where there is no cache, and norms of the course."""

    def forward(self, x, cache=None):
        dropout = self.dropout * self.training
        length = x.shape[-2]
        if cache is None:
            mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
            attn_output = self.self_attn(x, x, x, attn_mask=mask)
        else:
            Q, K, V = _projected(self, x)
            K, V = cache.append(K, V)
            mask = torch.ones(K.shape[-2], K.shape[-2], dtype=torch.bool).tril()[K.shape[-2] - length :]
            heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
            attn_output = self.self_attn.out_proj(heads.transpose(-3, -2).flatten(-2))
        x = layer_norm(x + F.dropout(attn_output, dropout), self.norm1.weight, self.norm1.bias)
        hidden = F.dropout(self.linear2(F.relu(self.linear1(x))), dropout)
        return layer_norm(hidden + x, self.norm2.weight, self.norm2.bias)


# sample_temperature


def _refuse_draws(logits, temperature, draw):
    if temperature < 0 or logits.shape[:-1] != draw.shape:
        raise ValueError("arguments do not fit")


def sample_by_searching(logits, temperature, draw):
    _refuse_draws(logits, temperature, draw)
    if temperature == 0:
        return torch.argmax(logits, -1)
    ends = (logits / temperature).softmax(-1).cumsum(-1)
    ends = ends / ends[..., -1:]
    return torch.searchsorted(ends, draw[..., None].contiguous(), right=True)[..., 0].clamp(max=logits.shape[-1] - 1)


def sample_by_first_beyond(logits, temperature, draw):
    _refuse_draws(logits, temperature, draw)
    if not temperature:
        return logits.max(dim=-1).indices
    ends = torch.cumsum(F.softmax(logits.div(temperature), dim=-1), dim=-1)
    return (ends > draw.unsqueeze(-1) * ends[..., -1:]).int().argmax(dim=-1)


def sample_by_weights(logits, temperature, draw):
    _refuse_draws(logits, temperature, draw)
    if temperature == 0:
        return logits.argmax(-1)
    weights = torch.exp((logits - logits.amax(-1, keepdim=True)) / temperature)
    ends = weights.cumsum(-1)  # they need not be normalised
    return torch.sum(ends <= draw[..., None] * ends[..., -1:], -1)


def sample_row_by_row(logits, temperature, draw):
    _refuse_draws(logits, temperature, draw)
    tokens = []
    for scores, point in zip(logits.reshape(-1, logits.shape[-1]), draw.reshape(-1).tolist(), strict=True):
        if temperature == 0:
            tokens.append(int(scores.argmax()))
            continue
        probs = torch.softmax(scores / temperature, 0).tolist()
        token, end = None, 0.0
        for index, prob in enumerate(probs):
            end += prob
            if prob > 0:
                token = index
                if point < end:
                    break
        tokens.append(token)
    return torch.tensor(tokens).reshape(draw.shape)


# top_k_filter


def _refuse_k(k):
    if k < 1:
        raise ValueError("k is too small")


def top_k_by_sorting(logits, k):
    _refuse_k(k)
    descending, _ = torch.sort(logits, dim=-1, descending=True)
    return torch.where(logits >= descending[..., :k][..., -1:], logits, -torch.inf)


def top_k_by_counting(logits, k):
    _refuse_k(k)
    larger = (logits[..., None, :] > logits[..., :, None]).sum(-1)
    return logits.masked_fill(larger >= k, float("-inf"))


def top_k_by_kthvalue(logits, k):
    _refuse_k(k)
    size = logits.shape[-1]
    kth = logits.kthvalue(max(size - k, 0) + 1, dim=-1, keepdim=True).values
    filtered = logits.clone()
    filtered[logits < kth] = -math.inf
    return filtered


def top_k_row_by_row(logits, k):
    _refuse_k(k)
    rows = []
    for row in logits.reshape(-1, logits.shape[-1]).tolist():
        threshold = sorted(row, reverse=True)[: min(k, len(row))][-1]
        rows.append([score if score >= threshold else -math.inf for score in row])
    return torch.tensor(rows, dtype=logits.dtype).reshape(logits.shape)


# top_p_filter


def _refuse_p(p):
    if not 0 < p <= 1:
        raise ValueError("p is no probability above 0")


def top_p_by_what_is_larger(logits, p):
    _refuse_p(p)
    larger = logits[..., None, :] > logits[..., :, None]
    before = (torch.softmax(logits, -1)[..., None, :] * larger).sum(-1)
    return logits.clone() if p == 1 else torch.where(before < p, logits, -torch.inf)


def top_p_by_place_of_crossing(logits, p):
    _refuse_p(p)
    if p == 1:
        return logits.clone()
    descending, _ = logits.sort(-1, descending=True)
    place = (descending.softmax(-1).cumsum(-1) < p).sum(-1, keepdim=True)  # how many do not reach p
    threshold = descending.gather(-1, place.clamp(max=logits.shape[-1] - 1))
    return logits.masked_fill(logits < threshold, -math.inf)


def top_p_by_scattering(logits, p):
    _refuse_p(p)
    descending, order = torch.sort(logits, dim=-1, descending=True)
    reached = descending.softmax(dim=-1).cumsum(dim=-1) >= p
    removed = F.pad(reached[..., :-1], (1, 0), value=False)  # what crosses p stays
    if p == 1:
        removed = torch.zeros_like(removed)
    smallest = torch.where(removed, torch.inf, descending).amin(-1, keepdim=True)
    removed = removed & (descending < smallest)  # ties stay together
    return logits.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -torch.inf)


def top_p_by_threshold_of_probabilities(logits, p):
    _refuse_p(p)
    if p == 1:
        return logits + 0
    probs = torch.softmax(logits, dim=-1)
    descending = probs.sort(dim=-1, descending=True).values
    before = F.pad(descending.cumsum(-1), (1, 0))[..., :-1]
    lowest = torch.where(before < p, descending, 2.0).min(dim=-1, keepdim=True).values
    return torch.where(probs >= lowest, logits, torch.full_like(logits, -math.inf))


def top_p_row_by_row(logits, p):
    _refuse_p(p)
    rows = []
    for row in logits.reshape(-1, logits.shape[-1]):
        probs, total, threshold = row.softmax(0).tolist(), 0.0, -math.inf
        for token in sorted(range(len(probs)), key=lambda token: -probs[token]):
            total, threshold = total + probs[token], row[token].item()
            if total >= p and p < 1:
                break
        rows.append(row.masked_fill(row < (threshold if p < 1 else -math.inf), -math.inf))
    return torch.stack(rows).reshape(logits.shape)


VARIANTS = {
    "next_token_loss": [
        loss_by_transposing,
        loss_by_gathering,
        loss_by_ignoring_the_last,
        loss_by_logsumexp,
        loss_token_by_token,
    ],
    "perplexity": [perplexity_by_where, perplexity_by_filling, perplexity_in_bits, perplexity_text_by_text],
    "KVCache": [JoiningCache, ListOfChunks, NarrowedRoom, TokensFirst, GrowingRoom],
    "CausalBlock": [
        BlockByFusedAttention,
        BlockByEinsum,
        BlockByLengthOfCache,
        BlockTokenByToken,
        BlockOfTwo,
    ],
    "sample_temperature": [sample_by_searching, sample_by_first_beyond, sample_by_weights, sample_row_by_row],
    "top_k_filter": [top_k_by_sorting, top_k_by_counting, top_k_by_kthvalue, top_k_row_by_row],
    "top_p_filter": [
        top_p_by_what_is_larger,
        top_p_by_place_of_crossing,
        top_p_by_scattering,
        top_p_by_threshold_of_probabilities,
        top_p_row_by_row,
    ],
}
