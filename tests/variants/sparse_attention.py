"""Right kernels of "Sparse attention" in other styles."""

import math

import torch
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.sparse_attention import global_attention, local_attention

# local_attention


def _neighbours(length, window, causal):
    """For each token the places of the keys that it may see, and which of them there are."""
    places = torch.arange(length)[:, None] - torch.arange(0 if causal else 1 - window, window)
    return places.clamp(0, length - 1), (places >= 0) & (places < length)


def local_by_gathering(query, key, value, window, causal=False):
    places, real = _neighbours(query.shape[-2], window, causal)
    scores = (query.unsqueeze(-2) * key[..., places, :]).sum(-1) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~real, -torch.inf), dim=-1)
    return (weights.unsqueeze(-1) * value[..., places, :]).sum(-2)


def local_by_distances(query, key, value, window, causal=False):
    length = query.shape[-2]
    distances = range(window) if causal else range(1 - window, window)
    scores, values = [], []
    for distance in distances:
        places = torch.arange(length) - distance
        real = (places >= 0) & (places < length)
        places = places.clamp(0, length - 1)
        score = (query * key[..., places, :]).sum(-1) / query.shape[-1] ** 0.5
        scores.append(torch.where(real, score, -torch.inf))
        values.append(value[..., places, :])
    weights = torch.stack(scores).softmax(0)
    return sum(weight[..., None] * moved for weight, moved in zip(weights, values, strict=True))


def local_block_by_block(query, key, value, window, causal=False):
    length = query.shape[-2]
    size = max(window, 32)
    outputs = []
    for start in range(0, length, size):
        end = min(start + size, length)
        low, high = max(0, start - window + 1), end if causal else min(length, end + window - 1)
        distance = torch.arange(start, end)[:, None] - torch.arange(low, high)
        near = (distance >= 0) & (distance < window) if causal else distance.abs() < window
        stretch = key[..., low:high, :], value[..., low:high, :]
        outputs.append(scaled_dot_product_attention(query[..., start:end, :], *stretch, near))
    return torch.cat(outputs, dim=-2)


def local_by_rolling(query, key, value, window, causal=False):
    length = query.shape[-2]
    reach = min(window, length)
    distances = torch.arange(0 if causal else 1 - reach, reach)
    places = torch.arange(length)[:, None] - distances
    keys = torch.stack([key.roll(int(distance), -2) for distance in distances], dim=-2)
    values = torch.stack([value.roll(int(distance), -2) for distance in distances], dim=-2)
    scores = torch.einsum("...nd,...nwd->...nw", query, keys) * query.shape[-1] ** -0.5
    scores = scores.masked_fill((places < 0) | (places >= length), torch.finfo(scores.dtype).min)
    return torch.einsum("...nw,...nwd->...nd", scores.softmax(-1), values)


def local_with_three_blocks_joined(query, key, value, window, causal=False):
    length = query.shape[-2]
    blocks = math.ceil(length / window)

    def cut(x):
        return F.pad(x, (0, 0, 0, blocks * window - length)).unflatten(-2, (blocks, window))

    def joined(x):
        x = F.pad(cut(x), (0, 0, 0, 0, 1, 1))
        return torch.cat([x[..., :-2, :, :], x[..., 1:-1, :, :], x[..., 2:, :, :]], dim=-2)

    place = torch.arange(blocks * window).reshape(blocks, window, 1)
    key_place = (torch.arange(blocks)[:, None] - 1) * window + torch.arange(3 * window)
    distance = place - key_place[:, None, :]
    mask = (distance < window) & (distance >= (0 if causal else 1 - window))
    mask = mask & ((key_place >= 0) & (key_place < length))[:, None, :]
    return scaled_dot_product_attention(cut(query), joined(key), joined(value), mask).flatten(-3, -2)[..., :length, :]


# strided_attention


def strided_by_slices(query, key, value, stride, causal=False):
    output = query.new_zeros(*query.shape[:-1], value.shape[-1])
    for first in range(min(stride, query.shape[-2])):
        rows = (query[..., first::stride, :], key[..., first::stride, :], value[..., first::stride, :])
        size = rows[0].shape[-2]
        mask = torch.ones(size, size, dtype=torch.bool).tril() if causal else None
        output[..., first::stride, :] = scaled_dot_product_attention(*rows, mask)
    return output


def strided_by_stacking(query, key, value, stride, causal=False):
    length = query.shape[-2]
    padded = [
        torch.cat([x, x[..., :1, :].expand(*x.shape[:-2], -length % stride, -1)], -2) for x in (query, key, value)
    ]
    q, k, v = (torch.stack([x[..., first::stride, :] for first in range(stride)], dim=-3) for x in padded)
    rows = q.shape[-2]
    place = torch.arange(rows * stride).view(rows, stride).T
    mask = (place < length)[:, None, :].expand(stride, rows, rows)
    mask = mask & mask.tril() if causal else mask
    classes = scaled_dot_product_attention(q, k, v, mask).unbind(-3)
    return torch.stack(classes, dim=-2).flatten(-3, -2)[..., :length, :]


def strided_by_permutation(query, key, value, stride, causal=False):
    length = query.shape[-2]
    rows = math.ceil(length / stride)
    order = torch.arange(rows * stride).reshape(rows, stride).T.reshape(-1)
    real = order < length
    moved = [x[..., order.clamp(max=length - 1), :].unflatten(-2, (stride, rows)) for x in (query, key, value)]
    mask = real.reshape(stride, 1, rows)
    if causal:
        mask = mask & torch.ones(rows, rows, dtype=torch.bool).tril()
    output = scaled_dot_product_attention(*moved, mask).flatten(-3, -2)
    return output[..., order.argsort()[:length], :]


def strided_with_own_softmax(query, key, value, stride, causal=False):
    length = query.shape[-2]
    missing = -length % stride
    q, k, v = (F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, stride)) for x in (query, key, value))
    scores = torch.einsum("...rsd,...tsd->...srt", q, k) / math.sqrt(query.shape[-1])
    row = torch.arange(scores.shape[-1])
    blocked = (stride * row + torch.arange(stride)[:, None] >= length)[:, None, :]
    if causal:
        blocked = blocked | (row > row[:, None])
    weights = scores.masked_fill(blocked, -1e30).softmax(-1)
    return torch.einsum("...srt,...tsd->...rsd", weights, v).flatten(-3, -2)[..., :length, :]


# global_attention


def global_in_place(query, key, value, positions):
    output = scaled_dot_product_attention(query, key[..., positions, :], value[..., positions, :])
    output[..., positions, :] = scaled_dot_product_attention(query[..., positions, :], key, value)
    return output


def global_by_softmax(query, key, value, positions):
    scale = query.shape[-1] ** -0.5
    to_special = torch.softmax(query @ key[..., positions, :].mT * scale, dim=-1) @ value[..., positions, :]
    from_special = torch.softmax(query[..., positions, :] @ key.mT * scale, dim=-1) @ value
    return to_special.index_copy(-2, positions, from_special)


def global_by_one_hot(query, key, value, positions):
    chosen = F.one_hot(positions, query.shape[-2]).to(query.dtype)
    seen = scaled_dot_product_attention(query, chosen @ key, chosen @ value)
    seeing = scaled_dot_product_attention(chosen @ query, key, value)
    special = torch.isin(torch.arange(query.shape[-2]), positions)[:, None]
    return torch.where(special, chosen.mT @ seeing, seen)


def global_by_masked_where(query, key, value, positions):
    special = torch.zeros(query.shape[-2], dtype=torch.bool)
    special[positions] = True
    seen = scaled_dot_product_attention(query, key[..., special, :], value[..., special, :])
    seeing = scaled_dot_product_attention(query[..., special, :], key, value)
    output = torch.empty_like(seen)
    output[..., ~special, :] = seen[..., ~special, :]
    output[..., special, :] = seeing
    return output


# external_global_attention


def external_by_softmax(query, key, value, global_query, global_key, global_value):
    scale = query.shape[-1] ** -0.5
    scores = torch.cat([global_query @ key.mT, global_query @ global_key.mT], dim=-1) * scale
    output = torch.softmax(query @ global_key.mT * scale, dim=-1) @ global_value
    return output, torch.softmax(scores, dim=-1) @ torch.cat([value, global_value], dim=-2)


def external_with_sequence_first(query, key, value, global_query, global_key, global_value):
    keys, values = torch.cat((key, global_key), -2), torch.cat((value, global_value), -2)
    return [
        scaled_dot_product_attention(query, global_key, global_value),
        scaled_dot_product_attention(global_query, keys, values),
    ]


def external_by_merging(query, key, value, global_query, global_key, global_value):
    def part(keys, values):
        scores = global_query @ keys.mT / math.sqrt(query.shape[-1])
        return scores.logsumexp(-1, keepdim=True), scores.softmax(-1) @ values

    (one, outside), (other, inside) = part(key, value), part(global_key, global_value)
    share = torch.sigmoid(one - other)
    return (
        scaled_dot_product_attention(query, global_key, global_value),
        share * outside + (1 - share) * inside,
    )


def external_by_global_attention(query, key, value, global_query, global_key, global_value):
    special = global_query.shape[-2]
    pairs = ((global_query, query), (global_key, key), (global_value, value))
    together = global_attention(*(torch.cat(pair, dim=-2) for pair in pairs), torch.arange(special))
    return together[..., special:, :], together[..., :special, :]


# longformer_attention


def longformer_by_gathering(query, key, value, window, positions):
    length, special = query.shape[-2], len(positions)
    places, real = _neighbours(length, window, causal=False)
    real = real & ~torch.isin(places, positions)
    places = torch.cat([positions.expand(length, special), places], dim=1)
    real = torch.cat([torch.ones(length, special, dtype=torch.bool), real], dim=1)
    scores = torch.einsum("...nd,...nwd->...nw", query, key[..., places, :]) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
    # A special token with no ordinary neighbour and no special one is replaced below.
    output = torch.einsum("...nw,...nwd->...nd", weights, value[..., places, :])
    output[..., positions, :] = scaled_dot_product_attention(query[..., positions, :], key, value)
    return output


def longformer_block_by_block(query, key, value, window, positions):
    length, size = query.shape[-2], max(window, 32)
    outputs = []
    for start in range(0, length, size):
        end = min(start + size, length)
        places = torch.arange(max(0, start - window + 1), min(length, end + window - 1))
        places = torch.cat([places[~torch.isin(places, positions)], positions])
        distance = torch.arange(start, end)[:, None] - places
        mask = (distance.abs() < window) | torch.isin(places, positions)
        outputs.append(
            scaled_dot_product_attention(query[..., start:end, :], key[..., places, :], value[..., places, :], mask)
        )
    output = torch.cat(outputs, dim=-2)
    return output.index_copy(-2, positions, scaled_dot_product_attention(query[..., positions, :], key, value))


def _scores_and_values(query, key, value, places, allowed):
    """The logarithm of the sum of the exponentials of the scores at ``places``, and the average that they give."""
    scores = (query.unsqueeze(-2) * key[..., places, :]).sum(-1) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~allowed, -1e30)
    return scores.logsumexp(-1, keepdim=True), (scores.softmax(-1).unsqueeze(-1) * value[..., places, :]).sum(-2)


def longformer_by_merging(query, key, value, window, positions):
    length = query.shape[-2]
    places, real = _neighbours(length, window, causal=False)
    near, local = _scores_and_values(query, key, value, places, real & ~torch.isin(places, positions))
    if len(positions):
        everywhere = positions.expand(length, -1)
        far, special = _scores_and_values(query, key, value, everywhere, torch.ones_like(everywhere, dtype=torch.bool))
        share = torch.sigmoid(near - far)
        local = share * local + (1 - share) * special
    return local.index_copy(-2, positions, scaled_dot_product_attention(query[..., positions, :], key, value))


def longformer_counting_half(query, key, value, window, positions):
    """A special token in the window has the score of two halves: less the logarithm of 2 in either place."""
    length = query.shape[-2]
    places, real = _neighbours(length, window, causal=False)
    distance = torch.arange(length)[:, None] - positions
    scale = query.shape[-1] ** -0.5
    near = torch.einsum("...nd,...nwd->...nw", query, key[..., places, :]) * scale
    near = near - math.log(2) * torch.isin(places, positions).to(query.dtype)
    far = query @ key[..., positions, :].mT * scale - math.log(2) * (distance.abs() < window).to(query.dtype)
    weights = torch.cat([near.masked_fill(~real, -torch.inf), far], dim=-1).softmax(-1)
    local = torch.einsum("...nw,...nwd->...nd", weights[..., : places.shape[1]], value[..., places, :])
    output = local + weights[..., places.shape[1] :] @ value[..., positions, :]
    return output.index_copy(-2, positions, scaled_dot_product_attention(query[..., positions, :], key, value))


def longformer_without_special_tokens_apart(query, key, value, window, positions):
    if not len(positions):
        return local_attention(query, key, value, window)
    return longformer_block_by_block(query, key, value, window, positions)


# sparse_pattern


def pattern_by_loops(length, window=0, stride=0, positions=None, random_keys=None, causal=False):
    special = set() if positions is None else set(positions.tolist())
    drawn = [[] for _ in range(length)] if random_keys is None else random_keys.tolist()
    pattern = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(length):
            seen = abs(i - j) < window or i in special or j in special or j in drawn[i]
            seen = seen or (stride > 0 and (i - j) % stride == 0)
            pattern[i, j] = seen and (j <= i or not causal)
    return pattern


def pattern_by_bands(length, window=0, stride=0, positions=None, random_keys=None, causal=False):
    pattern = torch.zeros(length, length, dtype=torch.bool)
    for distance in range(length):
        if distance < window or (stride and distance % stride == 0):
            pattern.diagonal(distance).fill_(True)
            pattern.diagonal(-distance).fill_(True)
    if positions is not None:
        pattern[positions] = True
        pattern[:, positions] = True
    if random_keys is not None:
        pattern[torch.arange(length)[:, None], random_keys] = True
    return pattern.tril() if causal else pattern


def pattern_by_triangles(length, window=0, stride=0, positions=None, random_keys=None, causal=False):
    ones = torch.ones(length, length, dtype=torch.bool)
    parts = [ones.triu(1 - window) & ones.tril(window - 1)]
    if stride > 0:
        remainder = torch.arange(length) % stride
        parts.append(remainder[:, None] == remainder[None, :])
    if positions is not None:
        index = torch.arange(length)
        special = (index[:, None] == positions).any(1)
        parts.append(special[:, None].logical_or(special[None]))
    if random_keys is not None:
        parts.append((random_keys[:, :, None] == torch.arange(length)).any(1))
    pattern = torch.stack(parts).any(0)
    return torch.tril(pattern) if causal else pattern


def pattern_by_numbers(length, window=0, stride=0, positions=None, random_keys=None, causal=False):
    votes = torch.zeros(length, length)
    place = torch.arange(length)
    votes += ((place - place[:, None]).abs() < window).float()
    if stride:
        votes += (torch.remainder(place - place[:, None], stride) == 0).float()
    if positions is not None:
        votes[positions, :] += 1
        votes[:, positions] += 1
    if random_keys is not None:
        votes += torch.nn.functional.one_hot(random_keys, length).sum(1)
    if causal:
        votes[place[:, None] < place] = 0
    return votes > 0


# pattern_reachability


def reach_by_breadth(pattern, causal=False):
    length = len(pattern)
    farthest = 0
    for start in range(length):
        steps, front, layer = {start: 0}, {start}, 0
        while front:
            layer += 1
            front = {j for i in front for j in range(length) if pattern[i, j]} - steps.keys()
            steps |= dict.fromkeys(front, layer)
        wanted = range(start + 1) if causal else range(length)
        if any(token not in steps for token in wanted):
            return -1
        farthest = max(farthest, *(steps[token] for token in wanted))
    return farthest


def reach_by_shortest_paths(pattern, causal=False):
    length = len(pattern)
    distance = torch.where(pattern, 1.0, torch.inf).fill_diagonal_(0.0)
    for middle in range(length):
        distance = torch.minimum(distance, distance[:, middle, None] + distance[None, middle])
    if causal:
        distance = distance.masked_fill(torch.ones_like(pattern).triu(1), 0.0)
    longest = distance.max().item()
    return -1 if math.isinf(longest) else int(longest)


def reach_by_powers(pattern, causal=False):
    length = len(pattern)
    steps = (pattern | torch.eye(length, dtype=torch.bool)).double()
    for layers in range(length):
        reached = torch.linalg.matrix_power(steps, layers) > 0
        if causal:
            reached = reached | torch.ones_like(reached).triu()
        if reached.all():
            return layers
    return -1


def reach_by_looking_around(pattern, causal=False):
    length = len(pattern)
    has = torch.eye(length, dtype=torch.bool)
    for layer in range(length):
        missing = ~has.tril() & torch.ones_like(has).tril() if causal else ~has
        if not missing.any():
            return torch.tensor(layer)
        has = has | (pattern[:, :, None] & has[None]).any(1)
    return torch.tensor(-1)


VARIANTS = {
    "local_attention": [
        local_by_gathering,
        local_by_distances,
        local_block_by_block,
        local_by_rolling,
        local_with_three_blocks_joined,
    ],
    "strided_attention": [
        strided_by_slices,
        strided_by_stacking,
        strided_by_permutation,
        strided_with_own_softmax,
    ],
    "global_attention": [global_in_place, global_by_softmax, global_by_one_hot, global_by_masked_where],
    "external_global_attention": [
        external_by_softmax,
        external_with_sequence_first,
        external_by_merging,
        external_by_global_attention,
    ],
    "longformer_attention": [
        longformer_by_gathering,
        longformer_block_by_block,
        longformer_by_merging,
        longformer_counting_half,
        longformer_without_special_tokens_apart,
    ],
    "sparse_pattern": [pattern_by_loops, pattern_by_bands, pattern_by_triangles, pattern_by_numbers],
    "pattern_reachability": [
        reach_by_breadth,
        reach_by_shortest_paths,
        reach_by_powers,
        reach_by_looking_around,
    ],
}
