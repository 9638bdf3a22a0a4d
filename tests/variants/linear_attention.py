"""Right kernels of "Linear attention" in other styles."""

import math

import torch
from torch.nn import functional as F

from autograder.reference.linear_attention import linear_attention_state

# matmul_cost


def cost_factored(num_queries, num_keys, d_k, d_v):
    return num_queries * num_keys * (d_k + d_v), (num_queries + num_keys) * d_k * d_v


def cost_of_shapes(num_queries, num_keys, d_k, d_v):
    def cost(left, right):
        return left[0] * left[1] * right[1]

    Q, K_T, V = (num_queries, d_k), (d_k, num_keys), (num_keys, d_v)
    return (
        cost(Q, K_T) + cost((num_queries, num_keys), V),
        cost(K_T, V) + cost(Q, (d_k, d_v)),
    )


def cost_by_products(num_queries, num_keys, d_k, d_v):
    left = math.prod((num_queries, num_keys, d_k)) + math.prod((num_queries, num_keys, d_v))
    right = sum(math.prod((rows, d_k, d_v)) for rows in (num_keys, num_queries))
    return [left, right]


def cost_by_numpy_like_sums(num_queries, num_keys, d_k, d_v):
    pairs = num_queries * num_keys
    entries = d_k * d_v
    return pairs * d_k + pairs * d_v, num_queries * entries + num_keys * entries


# elu_features


def elu_by_torch(x):
    return F.elu(x) + 1


def elu_by_ramps(x):
    return F.relu(x) + torch.exp(-F.relu(-x))


def elu_by_minimum(x):
    return torch.exp(torch.minimum(x, torch.zeros_like(x))) + torch.maximum(x, torch.zeros_like(x))


def elu_by_masked_fill(x):
    above = x > 0
    return torch.where(above, x + 1.0, x.masked_fill(above, 0.0).exp())


# linear_attention


def linear_by_einsum(query_features, key_features, value, key_mask=None):
    if key_mask is not None:
        key_features = torch.where(key_mask[..., None], key_features, 0.0)
    state = torch.einsum("...nf,...nv->...fv", key_features, value)
    normaliser = torch.einsum("...nf,...mf->...n", query_features, key_features.sum(-2, keepdim=True))
    sums = torch.einsum("...nf,...fv->...nv", query_features, state)
    return sums / normaliser.masked_fill(normaliser == 0, 1.0)[..., None]


def linear_with_a_column_of_ones(query_features, key_features, value, key_mask=None):
    values = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    if key_mask is not None:
        values = values.masked_fill(~key_mask.unsqueeze(-1), 0.0)
    sums = query_features @ (key_features.mT @ values)
    return sums[..., :-1] / sums[..., -1:].where(sums[..., -1:] > 0, 1.0)


def linear_by_means(query_features, key_features, value, key_mask=None):
    share = 1 / key_features.shape[-2]
    if key_mask is not None:
        key_features = key_features.masked_fill(~key_mask[..., None], 0)
    state = (key_features * share).transpose(-1, -2) @ value
    normaliser = query_features @ (key_features * share).sum(-2)[..., None]
    empty = normaliser == 0
    return (query_features @ state) / (normaliser + empty.to(normaliser.dtype))


def linear_piece_by_piece(query_features, key_features, value, key_mask=None):
    state, key_sum = 0, 0
    for start in range(0, value.shape[-2], 64):
        keys = key_features[..., start : start + 64, :]
        if key_mask is not None:
            keys = keys * key_mask[..., start : start + 64, None].to(keys.dtype)
        state = state + keys.mT @ value[..., start : start + 64, :]
        key_sum = key_sum + keys.sum(-2, keepdim=True)
    normaliser = (query_features * key_sum).sum(-1, keepdim=True)
    safe = torch.where(normaliser == 0, torch.ones_like(normaliser), normaliser)
    return torch.where(normaliser == 0, torch.zeros_like(value[..., :1, :]), query_features @ state / safe)


def linear_dividing_the_features(query_features, key_features, value, key_mask=None):
    if key_mask is not None:
        key_features = key_features * key_mask.unsqueeze(-1)
    weights = query_features @ key_features.sum(-2).unsqueeze(-1)
    return query_features / weights.masked_fill(weights == 0, torch.inf) @ (key_features.mT @ value)


# causal_linear_attention


def causal_chunk_by_chunk(query_features, key_features, value, chunk_size):
    values = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    state, outputs = 0.0, []
    pieces = (x.split(chunk_size, dim=-2) for x in (query_features, key_features, values))
    for queries, keys, chunk in zip(*pieces, strict=True):
        sums = queries @ state if outputs else 0.0
        sums = sums + torch.tril(queries @ keys.mT) @ chunk
        state = state + keys.mT @ chunk
        outputs.append(sums[..., :-1] / sums[..., -1:].masked_fill(sums[..., -1:] == 0, 1.0))
    return torch.cat(outputs, dim=-2)


def causal_token_by_token(query_features, key_features, value, chunk_size):
    *leading, length, features = query_features.shape
    state = value.new_zeros(*leading, features, value.shape[-1])
    key_sum, outputs = value.new_zeros(*leading, features), []
    for token in range(length):
        rows = (x[..., token, :] for x in (query_features, key_features, value))
        output, state, key_sum = linear_attention_state(state, key_sum, *rows)
        outputs.append(output)
    return torch.stack(outputs, dim=-2)


def causal_with_sums_apart(query_features, key_features, value, chunk_size):
    length = value.shape[-2]
    size = min(chunk_size, length)
    count = math.ceil(length / size)

    def cut(x):
        return F.pad(x, (0, 0, 0, count * size - length)).reshape(*x.shape[:-2], count, size, x.shape[-1])

    q, k, v = cut(query_features), cut(key_features), cut(value)
    own = k.mT @ v
    states = own.cumsum(-3) - own
    key_sums = k.sum(-2)
    key_sums = key_sums.cumsum(-2) - key_sums
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    table = (q @ k.mT).masked_fill(~causal, 0.0)
    weights = torch.einsum("...csf,...cf->...cs", q, key_sums) + table.sum(-1)
    # Differences of sums are exact enough where something is reached, and not zero where nothing is.
    weights = torch.where(weights.abs() < 1e-12, 0.0, weights)
    sums = torch.einsum("...csf,...cfv->...csv", q, states) + table @ v
    output = torch.where(weights[..., None] == 0, 0.0, sums / weights.masked_fill(weights == 0, 1.0)[..., None])
    return output.flatten(-3, -2)[..., :length, :]


def causal_with_moved_sums(query_features, key_features, value, chunk_size):
    length = query_features.shape[-2]
    padding = (0, 0, 0, -length % chunk_size)
    q, k, v = (F.pad(x, padding).unflatten(-2, (-1, chunk_size)) for x in (query_features, key_features, value))
    own = k.mT @ v
    states = torch.cat([torch.zeros_like(own[..., :1, :, :]), own.cumsum(-3)[..., :-1, :, :]], dim=-3)
    key_sums = F.pad(k.sum(-2).cumsum(-2), (0, 0, 1, 0))[..., :-1, :]
    table = (q @ k.mT).tril()
    weights = (q * key_sums[..., None, :]).sum(-1) + table.sum(-1)
    sums = q @ states + table @ v
    return (sums / weights.masked_fill(weights == 0, 1.0)[..., None]).flatten(-3, -2)[..., :length, :]


def causal_with_chunks_of_its_own(query_features, key_features, value, chunk_size):
    return causal_chunk_by_chunk(query_features, key_features, value, 32)


# linear_attention_state


def state_by_einsum(state, key_sum, query_features, key_features, value):
    state = state + torch.einsum("...f,...v->...fv", key_features, value)
    key_sum = key_sum + key_features
    weight = torch.einsum("...f,...f->...", query_features, key_sum)[..., None]
    output = torch.einsum("...f,...fv->...v", query_features, state)
    return output / weight.masked_fill(weight == 0, 1), state, key_sum


def state_by_matmul(state, key_sum, query_features, key_features, value):
    new_state = state + key_features[..., :, None] @ value[..., None, :]
    new_sum = torch.add(key_sum, key_features)
    weight = query_features[..., None, :] @ new_sum[..., :, None]
    output = query_features[..., None, :] @ new_state / weight.masked_fill(weight == 0, torch.inf)
    return [output[..., 0, :], new_state, new_sum]


def state_in_one_matrix(state, key_sum, query_features, key_features, value):
    joined = torch.cat([state, key_sum.unsqueeze(-1)], dim=-1)
    joined = joined + key_features.unsqueeze(-1) * F.pad(value, (0, 1), value=1.0).unsqueeze(-2)
    sums = (query_features.unsqueeze(-1) * joined).sum(-2)
    output = sums[..., :-1] / sums[..., -1:].where(sums[..., -1:] != 0, torch.ones(()).to(sums.dtype))
    return output, joined[..., :-1], joined[..., -1]


def state_answering_by_parts(state, key_sum, query_features, key_features, value):
    own = (query_features * key_features).sum(-1, keepdim=True)
    weight = (query_features * key_sum).sum(-1, keepdim=True) + own
    sums = (query_features.unsqueeze(-1) * state).sum(-2) + own * value
    reached = weight != 0
    output = torch.where(reached, sums / weight.where(reached, 1.0), 0.0)
    return output, torch.addcmul(state, key_features[..., None], value[..., None, :]), key_sum + key_features


# orthogonal_projections


def orthogonal_by_gram_schmidt(gaussian, lengths):
    rows = []
    for number, row in enumerate(gaussian):
        block = rows[number - number % gaussian.shape[1] :]
        for other in block:
            row = row - (row @ other) * other
        rows.append(row / row.norm())
    return torch.stack(rows) * lengths[:, None]


def orthogonal_by_cholesky(gaussian, lengths):
    blocks = []
    for block in gaussian.split(gaussian.shape[1]):
        lower = torch.linalg.cholesky(block @ block.T)
        blocks.append(torch.linalg.solve_triangular(lower, block, upper=False))
    return torch.cat(blocks) * lengths.unsqueeze(1)


def orthogonal_turning_rows(gaussian, lengths):
    count, width = gaussian.shape
    result = torch.zeros_like(gaussian)
    for start in range(0, count, width):
        block = gaussian[start : start + width]
        rows = torch.linalg.qr(block.mT)[0].mT
        forwards = (rows * block).sum(dim=1, keepdim=True) >= 0
        result[start : start + width] = torch.where(forwards, rows, -rows)
    return lengths.reshape(-1, 1) * result


def orthogonal_by_projection(gaussian, lengths):
    width = gaussian.shape[1]
    rows = []
    for number in range(len(gaussian)):
        start = number - number % width
        row = gaussian[number]
        if number > start:
            basis = torch.stack(rows[start:number])
            row = row - basis.T @ (basis @ row)
            row = row - basis.T @ (basis @ row)
        rows.append(F.normalize(row, dim=0))
    return torch.diag(lengths) @ torch.stack(rows)


# performer_features


def performer_by_linear(x, projections):
    y = x / x.shape[-1] ** 0.25
    exponent = F.linear(y, projections) - 0.5 * (y * y).sum(-1, keepdim=True)
    return exponent.exp() / math.sqrt(projections.shape[0])


def performer_scaling_the_directions(x, projections):
    width = x.shape[-1]
    half = x.pow(2).sum(dim=-1, keepdim=True) / (2 * math.sqrt(width))
    return torch.exp(torch.matmul(x, projections.mT) / width**0.25 - half) * len(projections) ** -0.5


def performer_in_the_exponent(x, projections):
    y = x * x.shape[-1] ** -0.25
    return torch.exp(
        torch.einsum("...d,md->...m", y, projections)
        - y.norm(dim=-1, keepdim=True) ** 2 / 2
        - math.log(len(projections)) / 2
    )


def performer_direction_by_direction(x, projections):
    y = x / x.shape[-1] ** 0.25
    half = torch.linalg.vecdot(y, y) / 2
    features = [torch.exp((y * direction).sum(-1) - half) for direction in projections]
    return torch.stack(features, dim=-1) / len(projections) ** 0.5


VARIANTS = {
    "matmul_cost": [cost_factored, cost_of_shapes, cost_by_products, cost_by_numpy_like_sums],
    "elu_features": [elu_by_torch, elu_by_ramps, elu_by_minimum, elu_by_masked_fill],
    "linear_attention": [
        linear_by_einsum,
        linear_with_a_column_of_ones,
        linear_by_means,
        linear_piece_by_piece,
        linear_dividing_the_features,
    ],
    "causal_linear_attention": [
        causal_chunk_by_chunk,
        causal_token_by_token,
        causal_with_sums_apart,
        causal_with_moved_sums,
        causal_with_chunks_of_its_own,
    ],
    "linear_attention_state": [
        state_by_einsum,
        state_by_matmul,
        state_in_one_matrix,
        state_answering_by_parts,
    ],
    "orthogonal_projections": [
        orthogonal_by_gram_schmidt,
        orthogonal_by_cholesky,
        orthogonal_turning_rows,
        orthogonal_by_projection,
    ],
    "performer_features": [
        performer_by_linear,
        performer_scaling_the_directions,
        performer_in_the_exponent,
        performer_direction_by_direction,
    ],
}
