"""Right kernels of "The modern Transformer" in other styles."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference import modern_transformer as reference
from tests.variants.multi_head_attention import Einsum, ExponentialsTimesMask, LoopOverHeads
from tests.variants.transformer import feed_by_einsum, norm_by_deviations, norm_by_var_mean

# PreNormBlock


class BlockByModules(reference.PreNormBlock):
    def forward(self, x, attn_mask=None):
        z = self.norm1(x)
        x = x + F.dropout(self.self_attn(z, z, z, attn_mask=attn_mask), self.dropout, self.training)
        return x + F.dropout(self.linear2(self.linear1(self.norm2(x)).relu()), self.dropout, self.training)


class BlockByFusedAttention(reference.PreNormBlock):
    def forward(self, x, attn_mask=None):
        drop, layer = nn.Dropout(self.dropout).train(self.training), self.self_attn
        projected = F.linear(self.norm1(x), layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
        Q, K, V = (part.unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2) for part in projected)
        heads = F.scaled_dot_product_attention(Q, K, V, None if attn_mask is None else attn_mask[..., None, :, :])
        x = drop(layer.out_proj(heads.transpose(-3, -2).flatten(-2))) + x
        return drop(self.linear2(F.relu(self.linear1(self.norm2(x))))) + x


class BlockBySublayers(reference.PreNormBlock):
    """Each sub-layer as a function, and one way to wrap it."""

    def wrap(self, x, sublayer, norm):
        output = sublayer(norm_by_var_mean(x, norm.weight, norm.bias))
        if self.training:
            output = torch.dropout(output, self.dropout, True)
        return x + output

    def forward(self, x, attn_mask=None):
        x = self.wrap(x, lambda z: Einsum.forward(self.self_attn, z, z, z, attn_mask), self.norm1)
        return self.wrap(x, nn.Sequential(self.linear1, nn.ReLU(), self.linear2), self.norm2)


class BlockHeadByHead(reference.PreNormBlock):
    def forward(self, x, attn_mask=None):
        dropout = self.dropout * self.training
        z = norm_by_deviations(x, self.norm1.weight, self.norm1.bias)
        attended = x + F.dropout(LoopOverHeads.forward(self.self_attn, z, z, z, attn_mask), dropout)
        z = norm_by_deviations(attended, self.norm2.weight, self.norm2.bias)
        hidden = feed_by_einsum(z, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return attended + F.dropout(hidden, dropout)


class BlockTextByText(reference.PreNormBlock):
    def forward(self, x, attn_mask=None):
        if x.dim() > 2:
            masks = [None] * len(x) if attn_mask is None else attn_mask.expand(len(x), *attn_mask.shape[-2:])
            return torch.stack([self(text, mask) for text, mask in zip(x, masks, strict=True)])
        keep = 1.0 if not self.training else (torch.rand(2, *x.shape) >= self.dropout) / max(1 - self.dropout, 1e-9)
        keep_1, keep_2 = (keep, keep) if isinstance(keep, float) else keep
        z = F.layer_norm(x, x.shape[-1:], self.norm1.weight, self.norm1.bias)
        x = x + keep_1 * ExponentialsTimesMask.forward(self.self_attn, z, z, z, attn_mask)
        z = F.layer_norm(x, x.shape[-1:], self.norm2.weight, self.norm2.bias)
        return x + keep_2 * self.linear2(self.linear1(z).clamp(min=0))


# rms_norm


def _refuse_gain(x, weight):
    if weight.shape != x.shape[-1:]:
        raise ValueError("the gain does not fit")


def _precise(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def rms_by_root(x, weight, eps=1e-6):
    _refuse_gain(x, weight)
    z = _precise(x)
    return (z / torch.sqrt(z.pow(2).mean(dim=-1, keepdim=True) + eps) * weight).to(x.dtype)


def rms_as_in_llama(x, weight, eps=1e-6):
    """Rounds before the gain; x * rsqrt(.) is the same as x / sqrt(.)."""
    _refuse_gain(x, weight)
    z = _precise(x)
    return (z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps)).type_as(x) * weight


def rms_by_norm(x, weight, eps=1e-6):
    _refuse_gain(x, weight)
    z = _precise(x)
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return (weight * z / (length**2 / x.shape[-1] + eps) ** 0.5).type(x.dtype)


def rms_by_einsum(x, weight, eps=1e-6):
    _refuse_gain(x, weight)
    z = x.double() if x.dtype == torch.float64 else x.float()
    squares = torch.einsum("...d,...d->...", z, z) / z.size(-1)
    return torch.einsum("...d,d,...->...d", z, weight.to(z), (squares + eps).rsqrt()).to(x.dtype)


def rms_row_by_row(x, weight, eps=1e-6):
    _refuse_gain(x, weight)
    rows = [
        weight * row * (row.square().sum() / len(row) + eps) ** -0.5 for row in _precise(x).reshape(-1, len(weight))
    ]
    return torch.stack(rows).reshape(x.shape).to(x.dtype)


# swiglu


def _refuse_widths(x, W_gate, W_up, W_down):
    if W_gate.shape != W_up.shape or W_gate.shape != W_down.T.shape or W_gate.shape[1] != x.shape[-1]:
        raise ValueError("the widths do not fit")


def swiglu_by_silu(x, W_gate, W_up, W_down):
    _refuse_widths(x, W_gate, W_up, W_down)
    return (F.silu(x @ W_gate.T) * (x @ W_up.T)) @ W_down.T


def swiglu_fused(x, W_gate, W_up, W_down):
    """One product for both layers, as where speed counts."""
    _refuse_widths(x, W_gate, W_up, W_down)
    gate, up = F.linear(x, torch.cat([W_gate, W_up])).chunk(2, dim=-1)
    return F.linear(nn.functional.silu(gate).mul(up), W_down)


def swiglu_by_tanh(x, W_gate, W_up, W_down):
    _refuse_widths(x, W_gate, W_up, W_down)
    gate = torch.einsum("...m,fm->...f", x, W_gate)
    hidden = gate * (1 + torch.tanh(gate / 2)) / 2 * torch.einsum("...m,fm->...f", x, W_up)
    return torch.einsum("...f,mf->...m", hidden, W_down)


def swiglu_unit_by_unit(x, W_gate, W_up, W_down):
    _refuse_widths(x, W_gate, W_up, W_down)
    output = torch.zeros_like(x)
    for gate, up, down in zip(W_gate, W_up, W_down.T, strict=True):
        z = x @ gate
        output = output + (z * z.sigmoid() * (x @ up)).unsqueeze(-1) * down
    return output


# rotary_embedding


def _refuse_rotary(x, positions, layout):
    if x.shape[-1] % 2 or positions.shape != x.shape[-2:-1] or layout not in ("interleaved", "halves"):
        raise ValueError("cannot be rotated")


def _angles(x, positions, base):
    speeds = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    return torch.outer(positions.double(), speeds)


def rotary_by_table(x, positions, base=10000.0, layout="interleaved"):
    """With a table as wide as a vector and the pairs exchanged, as in GPT-NeoX and GPT-J."""
    _refuse_rotary(x, positions, layout)
    angles = _angles(x, positions, base)
    if layout == "halves":
        angles = torch.cat([angles, angles], dim=-1)
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        exchanged = torch.cat([-second, first], dim=-1)
    else:
        angles = angles.repeat_interleave(2, dim=-1)
        exchanged = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angles.cos().to(x) + exchanged * angles.sin().to(x)


def rotary_by_complex_numbers(x, positions, base=10000.0, layout="interleaved"):
    _refuse_rotary(x, positions, layout)
    pairs = x.unflatten(-1, (-1, 2)) if layout == "interleaved" else x.unflatten(-1, (2, -1)).mT
    angles = _angles(x, positions, base)
    turns = torch.polar(torch.ones_like(angles), angles).to(torch.promote_types(x.dtype, torch.complex64))
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turns)
    return (turned if layout == "interleaved" else turned.mT).flatten(-2)


def rotary_by_matrices(x, positions, base=10000.0, layout="interleaved"):
    """The rotation as a matrix for each token and pair."""
    _refuse_rotary(x, positions, layout)
    angles = _angles(x, positions, base)
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2).to(x.dtype)
    pairs = x.unflatten(-1, (-1, 2)) if layout == "interleaved" else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    turned = torch.einsum("tpij,...tpj->...tpi", matrices, pairs)
    return turned.flatten(-2) if layout == "interleaved" else turned.transpose(-1, -2).flatten(-2)


def rotary_by_permuting(x, positions, base=10000.0, layout="interleaved"):
    """The halves by the neighbours, with the components put in another order and back."""
    _refuse_rotary(x, positions, layout)
    if layout == "halves":
        order = torch.arange(x.shape[-1]).view(2, -1).T.flatten()
        return rotary_by_permuting(x[..., order], positions, base)[..., order.argsort()]
    angles = _angles(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(x.shape)


def rotary_pair_by_pair(x, positions, base=10000.0, layout="interleaved"):
    _refuse_rotary(x, positions, layout)
    half = x.shape[-1] // 2
    columns = list(x.unbind(-1))
    for pair in range(half):
        one, other = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + half)
        angles = [int(position) * base ** (-pair / half) for position in positions]
        cos = torch.tensor([math.cos(angle) for angle in angles], dtype=x.dtype)
        sin = torch.tensor([math.sin(angle) for angle in angles], dtype=x.dtype)
        a, b = columns[one], columns[other]
        columns[one], columns[other] = a * cos - b * sin, a * sin + b * cos
    return torch.stack(columns, dim=-1)


# grouped_query_attention


def _refuse_heads(query, key, value):
    if key.shape[-3] != value.shape[-3] or query.shape[-3] % key.shape[-3]:
        raise ValueError("the heads do not fit")


def _masked_weights(scores, attn_mask):
    """The softmax over the keys that a mask leaves; zeros where it leaves none."""
    if attn_mask is None:
        return torch.softmax(scores, -1)
    scores = scores.masked_fill(~attn_mask, -1e30 if scores.dtype != torch.float16 else -6e4)
    return torch.softmax(scores, -1) * attn_mask


def grouped_by_axis(query, key, value, attn_mask=None):
    """An axis for the heads that share, along which keys and values are broadcast."""
    _refuse_heads(query, key, value)
    queries = query.unflatten(-3, (key.shape[-3], -1))  # (*batch, kv_head, group, query, d_k)
    scores = queries @ key.unsqueeze(-3).mT / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2]).unflatten(-3, queries.shape[-4:-2])
    return (_masked_weights(scores, attn_mask) @ value.unsqueeze(-3)).flatten(-4, -3)


def grouped_by_long_queries(query, key, value, attn_mask=None):
    """The queries of all heads that share, one after the other, so that no key is copied."""
    _refuse_heads(query, key, value)
    kv_heads, length = key.shape[-3], query.shape[-2]
    queries = query.unflatten(-3, (kv_heads, -1)).flatten(-3, -2)
    scores = queries.matmul(key.transpose(-2, -1)) * query.shape[-1] ** -0.5
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2]).unflatten(-3, (kv_heads, -1)).flatten(-3, -2)
    output = _masked_weights(scores, attn_mask) @ value
    return output.unflatten(-2, (-1, length)).flatten(-4, -3)


def grouped_by_einsum(query, key, value, attn_mask=None):
    _refuse_heads(query, key, value)
    kv_heads = key.shape[-3]
    queries = query.reshape(*query.shape[:-3], kv_heads, query.shape[-3] // kv_heads, *query.shape[-2:])
    scores = torch.einsum("...hgqd,...hkd->...hgqk", queries, key).flatten(-4, -3) / math.sqrt(query.shape[-1])
    weights = _masked_weights(scores, attn_mask).unflatten(-3, (kv_heads, -1))
    return torch.einsum("...hgqk,...hkd->...hgqd", weights, value).flatten(-4, -3)


def grouped_head_by_head(query, key, value, attn_mask=None):
    _refuse_heads(query, key, value)
    heads, group = query.shape[-3], query.shape[-3] // key.shape[-3]
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    outputs = []
    for head in range(heads):
        scores = query[..., head, :, :] @ key[..., head // group, :, :].mT / math.sqrt(query.shape[-1])
        mask = None if attn_mask is None else attn_mask[..., head, :, :]
        outputs.append(_masked_weights(scores, mask) @ value[..., head // group, :, :])
    return torch.stack(outputs, dim=-3)


def grouped_by_indexing(query, key, value, attn_mask=None):
    _refuse_heads(query, key, value)
    shared = torch.arange(query.shape[-3]) // (query.shape[-3] // key.shape[-3])
    key, value = key[..., shared, :, :], value[..., shared, :, :]
    scores = query / query.shape[-1] ** 0.5 @ key.mT
    if attn_mask is None:
        return scores.softmax(-1) @ value
    weights = (scores - scores.masked_fill(~attn_mask, -torch.inf).amax(-1, keepdim=True).clamp(min=-1e30)).exp()
    weights = torch.where(attn_mask, weights, 0.0)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30) @ value


# moe_route


def _refuse_route(logits, k, capacity):
    if not 1 <= k <= logits.shape[1] or capacity < 1:
        raise ValueError("cannot be routed")


def route_by_counting(logits, k, capacity):
    """One choice after the other, token by token, with a counter for each expert."""
    _refuse_route(logits, k, capacity)
    tokens, num_experts = logits.shape
    probs = logits.softmax(-1)
    gates, experts = probs.topk(k)
    kept, taken, chosen = torch.zeros(tokens, k, dtype=torch.bool), [0] * num_experts, [0] * num_experts
    for choice in range(k):
        for token in range(tokens):
            expert = int(experts[token, choice])
            chosen[expert] += 1
            if taken[expert] < capacity:
                taken[expert] += 1
                kept[token, choice] = True
    share = torch.tensor(chosen, dtype=logits.dtype) / (tokens * k)
    return gates.masked_fill(~kept, 0.0), experts, kept, num_experts * share @ probs.mean(0)


def route_by_positions_from_zero(logits, k, capacity):
    """As in GShard: an exclusive sum, choice after choice, with what earlier choices took as the start."""
    _refuse_route(logits, k, capacity)
    num_experts = logits.shape[1]
    probs = torch.softmax(logits, 1)
    experts = logits.argsort(dim=1, descending=True)[:, :k]
    taken, kept = torch.zeros(num_experts, dtype=torch.long), []
    for choice in experts.unbind(1):
        chosen = F.one_hot(choice, num_experts)
        before = taken + chosen.cumsum(0) - chosen
        kept.append(before.gather(1, choice[:, None])[:, 0] < capacity)
        taken = taken + chosen.sum(0)
    kept = torch.stack(kept, dim=1)
    share = experts.flatten().bincount(minlength=num_experts) / experts.numel()
    return torch.where(kept, probs.gather(1, experts), 0), experts, kept, num_experts * (share * probs.mean(0)).sum()


def route_by_sorting(logits, k, capacity):
    """Sorts the queue by expert; a place is the distance from the expert's first entry."""
    _refuse_route(logits, k, capacity)
    num_experts = logits.shape[1]
    probs = F.softmax(logits, dim=-1)
    gates, experts = torch.topk(probs, k, dim=-1)
    queue = experts.T.reshape(-1)
    order = torch.argsort(queue, stable=True)
    counts = torch.bincount(queue, minlength=num_experts)
    starts = counts.cumsum(0) - counts
    places = torch.empty_like(queue)
    places[order] = torch.arange(len(queue)) - starts[queue[order]]
    kept = (places < capacity).reshape(k, -1).transpose(0, 1)
    loss = num_experts * torch.dot(counts.to(probs.dtype) / len(queue), probs.mean(dim=0))
    return gates * kept, experts, kept, loss


def route_by_comparing(logits, k, capacity):
    """Compares each entry of the queue with all entries before it."""
    _refuse_route(logits, k, capacity)
    log_probs = torch.log_softmax(logits, dim=-1)
    best, experts = log_probs.topk(k, dim=-1)
    queue = experts.mT.flatten()
    before = (queue[:, None] == queue).tril(-1).sum(1)
    kept = (before < capacity).unflatten(0, (k, -1)).mT
    share = (experts.unsqueeze(-1) == torch.arange(logits.shape[1])).to(logits.dtype).sum((0, 1)) / experts.numel()
    return best.exp().where(kept, 0.0), experts, kept, (share * log_probs.exp().mean(0)).sum() * logits.shape[1]


def route_expert_by_expert(logits, k, capacity):
    _refuse_route(logits, k, capacity)
    tokens, num_experts = logits.shape
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    probs = weights / weights.sum(-1, keepdim=True)
    experts = torch.sort(logits, dim=-1, descending=True).indices[:, :k]
    kept, loss = torch.zeros_like(experts, dtype=torch.bool), 0.0
    for expert in range(num_experts):
        choice, token = torch.nonzero(experts.T.eq(expert), as_tuple=True)  # first choices first
        kept[token[:capacity], choice[:capacity]] = True
        loss = loss + len(token) / (tokens * k) * probs[:, expert].mean()
    return torch.take_along_dim(probs, experts, -1) * kept, experts, kept, num_experts * loss


# MoELayer


def _capacity(layer, tokens):
    return -int(-layer.capacity_factor * layer.k * tokens // len(layer.experts))


class LayerByMasks(reference.MoELayer):
    """One choice after the other; rows picked by a boolean mask, results put back by it."""

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        gates, experts, kept, loss = reference.moe_route(self.router(tokens), self.k, _capacity(self, len(tokens)))
        output = torch.zeros_like(tokens)
        for choice in range(self.k):
            part = torch.zeros_like(tokens)
            for number, expert in enumerate(self.experts):
                mine = kept[:, choice] & (experts[:, choice] == number)
                part[mine] = expert(tokens[mine])
            output = output + gates[:, choice : choice + 1] * part
        return output.reshape_as(x), loss


class LayerBySorting(reference.MoELayer):
    """Sorts what is kept by expert and splits it."""

    def forward(self, x):
        tokens = x.view(-1, x.size(-1)) if x.is_contiguous() else x.reshape(-1, x.size(-1))
        capacity = math.ceil(len(tokens) * self.k * self.capacity_factor / len(self.experts))
        gates, experts, kept, loss = reference.moe_route(self.router(tokens), self.k, capacity)
        token, choice = kept.nonzero(as_tuple=True)
        order = experts[token, choice].argsort()
        token, choice = token[order], choice[order]
        counts = experts[token, choice].bincount(minlength=len(self.experts)).tolist()
        parts = tokens[token].split(counts)
        results = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        weighted = gates[token, choice].unsqueeze(1) * results
        return torch.zeros_like(tokens).index_add(0, token, weighted).reshape(x.shape), loss


class LayerByBuffers(reference.MoELayer):
    """A buffer of rows for each expert, all experts in one batched product, as in GShard."""

    def forward(self, x):
        tokens, num_experts = x.flatten(end_dim=-2), len(self.experts)
        capacity = _capacity(self, len(tokens))
        gates, experts, kept, loss = reference.moe_route(F.linear(tokens, self.router.weight), self.k, capacity)
        rows = torch.zeros(num_experts, capacity, dtype=torch.long)
        weights = torch.zeros(num_experts, capacity, dtype=x.dtype)
        for number in range(num_experts):
            token, choice = torch.where(kept & (experts == number))
            rows[number, : len(token)] = token
            weights[number, : len(token)] = gates[token, choice]
        W_1, b_1, W_2, b_2 = (
            torch.stack([getattr(expert[layer], name) for expert in self.experts])
            for layer in (0, 2)
            for name in ("weight", "bias")
        )
        hidden = torch.relu(tokens[rows] @ W_1.mT + b_1[:, None])
        results = weights[..., None] * (hidden @ W_2.mT + b_2[:, None])
        output = torch.zeros_like(tokens).index_add(0, rows.flatten(), results.flatten(0, 1))
        return output.view_as(x), loss


class LayerTokenByToken(reference.MoELayer):
    def forward(self, x):
        tokens = x.flatten(0, -2)
        capacity = math.ceil(self.capacity_factor * self.k * tokens.shape[0] / self.router.out_features)
        gates, experts, kept, loss = reference.moe_route(self.router(tokens), self.k, capacity)
        rows = []
        for token, row_gates, row_experts, row_kept in zip(tokens, gates, experts.tolist(), kept.tolist(), strict=True):
            row = torch.zeros_like(token)
            for gate, expert, has_room in zip(row_gates, row_experts, row_kept, strict=True):
                if has_room:
                    row = row + gate * self.experts[expert](token)
            rows.append(row)
        return torch.stack(rows).reshape(x.shape), loss


class LayerWithoutEmptyCalls(reference.MoELayer):
    """An expert without tokens is passed over; results are added in place to an output of its own."""

    def forward(self, x):
        tokens = x.flatten(0, -2)
        gates, experts, kept, loss = reference.moe_route(self.router(tokens), self.k, _capacity(self, len(tokens)))
        output = tokens.new_zeros(tokens.shape)
        for number in range(len(self.experts)):
            at = (kept & (experts == number)).nonzero()
            if len(at) == 0:
                continue
            inward, _, outward = self.experts[number]
            hidden = inward(tokens[at[:, 0]]).clamp(min=0)
            output.index_add_(0, at[:, 0], outward(hidden) * gates[at[:, 0], at[:, 1]][:, None])
        return output.unflatten(0, x.shape[:-1]), loss


VARIANTS = {
    "PreNormBlock": [BlockByModules, BlockByFusedAttention, BlockBySublayers, BlockHeadByHead, BlockTextByText],
    "rms_norm": [rms_by_root, rms_as_in_llama, rms_by_norm, rms_by_einsum, rms_row_by_row],
    "swiglu": [swiglu_by_silu, swiglu_fused, swiglu_by_tanh, swiglu_unit_by_unit],
    "rotary_embedding": [
        rotary_by_table,
        rotary_by_complex_numbers,
        rotary_by_matrices,
        rotary_by_permuting,
        rotary_pair_by_pair,
    ],
    "grouped_query_attention": [
        grouped_by_axis,
        grouped_by_long_queries,
        grouped_by_einsum,
        grouped_head_by_head,
        grouped_by_indexing,
    ],
    "moe_route": [
        route_by_counting,
        route_by_positions_from_zero,
        route_by_sorting,
        route_by_comparing,
        route_expert_by_expert,
    ],
    "MoELayer": [LayerByMasks, LayerBySorting, LayerByBuffers, LayerTokenByToken, LayerWithoutEmptyCalls],
}
