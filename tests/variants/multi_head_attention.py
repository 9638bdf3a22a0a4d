"""Right kernels of "Multi-head attention" in other styles."""

import math

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autograder.reference import multi_head_attention as reference
from autograder.reference.attention_layer import scaled_dot_product_attention

# split_heads


def split_by_view_and_permute(x, num_heads):
    *batch, length, width = x.shape
    return (
        x.reshape(-1, length, num_heads, width // num_heads)
        .permute(0, 2, 1, 3)
        .reshape(*batch, num_heads, length, width // num_heads)
    )


def split_by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=-3)


def split_by_movedim(x, num_heads):
    return (
        x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).movedim(-2, -3)
        if x.is_contiguous()
        else (split_by_chunks(x, num_heads))
    )


def split_by_loop(x, num_heads):
    d_head = x.shape[-1] // num_heads
    heads = [x[..., h * d_head : (h + 1) * d_head] for h in range(num_heads)]
    return torch.cat([head.unsqueeze(-3) for head in heads], dim=-3)


def split_by_einsum(x, num_heads):
    return torch.einsum("...nhd->...hnd", x.reshape(*x.shape[:-1], num_heads, -1)).contiguous()


# merge_heads


def merge_by_reshape(x):
    *batch, num_heads, length, d_head = x.shape
    return x.transpose(-2, -3).contiguous().view(*batch, length, num_heads * d_head)


def merge_by_cat(x):
    return torch.cat(x.unbind(dim=-3), dim=-1)


def merge_by_einsum(x):
    return torch.einsum("...hnd->...nhd", x).reshape(*x.shape[:-3], x.shape[-2], -1)


def merge_by_filling(x):
    *batch, num_heads, length, d_head = x.shape
    merged = x.new_zeros(*batch, length, num_heads * d_head)
    for h in range(num_heads):
        merged[..., h * d_head : (h + 1) * d_head] = x[..., h, :, :]
    return merged


def merge_by_flatten(x):
    return x.movedim(-3, -2).flatten(-2)


# MultiHeadAttention


def _allowed(attn_mask, key_mask):
    """Both masks as one of shape (…, N_q or 1, N_k), without an axis for the heads."""
    if any(mask is not None and mask.dtype != torch.bool for mask in (attn_mask, key_mask)):
        raise TypeError("masks must be boolean")
    parts = [] if attn_mask is None else [attn_mask]
    parts += [] if key_mask is None else [key_mask.unsqueeze(-2)]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else torch.logical_and(*parts)


class LoopOverHeads(reference.MultiHeadAttention):
    """Projects for each head apart, attends head by head, and adds up what each head's part of the output gives."""

    def forward(self, query, key, value, attn_mask=None, key_mask=None):
        width = query.shape[-1]
        d_head = width // self.num_heads
        output = self.out_proj.bias
        for h in range(self.num_heads):
            rows = [slice(part * width + h * d_head, part * width + (h + 1) * d_head) for part in range(3)]
            Q, K, V = (
                x @ self.in_proj_weight[row].T + self.in_proj_bias[row]
                for x, row in zip((query, key, value), rows, strict=True)
            )
            head = scaled_dot_product_attention(Q, K, V, _allowed(attn_mask, key_mask))
            output = output + head @ self.out_proj.weight[:, h * d_head : (h + 1) * d_head].T
        return output


class Einsum(reference.MultiHeadAttention):
    """Everything by einsum, the masks as minus infinity, and empty rows set to zero at the weights."""

    def forward(self, query, key, value, attn_mask=None, key_mask=None):
        width, H = query.shape[-1], self.num_heads
        weights = self.in_proj_weight.view(3, H, width // H, width)
        biases = self.in_proj_bias.view(3, H, 1, width // H)
        Q, K, V = (
            torch.einsum("...nm,hdm->...hnd", x, weights[i]) + biases[i] for i, x in enumerate((query, key, value))
        )
        scores = torch.einsum("...qd,...kd->...qk", Q, K) * (width // H) ** -0.5
        allowed = _allowed(attn_mask, key_mask)
        if allowed is not None:
            allowed = allowed.unsqueeze(-3)
            scores = scores.masked_fill(~allowed, -1e30)
        attn_weights = scores.softmax(-1)
        if allowed is not None:
            attn_weights = torch.where(allowed.any(-1, keepdim=True), attn_weights, attn_weights.new_zeros(()))
        heads = torch.einsum("...qk,...kd->...qd", attn_weights, V)
        merged = torch.einsum("...hnd->...nhd", heads).flatten(-2)
        return torch.einsum("...nd,md->...nm", merged, self.out_proj.weight) + self.out_proj.bias


class FoldedIntoTheBatch(reference.MultiHeadAttention):
    """Heads and batch in one axis, products by bmm, the masks added."""

    def forward(self, query, key, value, attn_mask=None, key_mask=None):
        *batch, _, width = query.shape
        H = self.num_heads

        def folded(x, part):
            weight = self.in_proj_weight[part * width : (part + 1) * width]
            bias = self.in_proj_bias[part * width : (part + 1) * width]
            x = nn.functional.linear(x, weight, bias).reshape(-1, x.shape[-2], H, width // H)
            return x.permute(0, 2, 1, 3).reshape(-1, x.shape[1], width // H)

        Q, K, V = folded(query, 0), folded(key, 1), folded(value, 2)
        scores = torch.bmm(Q / math.sqrt(width // H), K.transpose(1, 2))
        keep = torch.ones((), dtype=torch.bool)
        if (allowed := _allowed(attn_mask, key_mask)) is not None:
            allowed = allowed.expand(*batch, query.shape[-2], key.shape[-2]).reshape(-1, query.shape[-2], key.shape[-2])
            keep = allowed.repeat_interleave(H, dim=0)
        low = torch.finfo(scores.dtype).min
        attn_weights = torch.where(keep, scores, torch.full_like(scores, low)).softmax(-1) * keep
        heads = torch.bmm(attn_weights, V).view(-1, H, query.shape[-2], width // H)
        return self.out_proj(heads.transpose(1, 2).reshape(*batch, query.shape[-2], width))


class ExponentialsTimesMask(reference.MultiHeadAttention):
    """The softmax by hand: exponentials times the mask, divided by their sum."""

    def forward(self, query, key, value, attn_mask=None, key_mask=None):
        W_Q, W_K, W_V = self.in_proj_weight.chunk(3)
        b_Q, b_K, b_V = self.in_proj_bias.chunk(3)
        Q = split_by_chunks(query @ W_Q.mT + b_Q, self.num_heads)
        K = split_by_chunks(key @ W_K.mT + b_K, self.num_heads)
        V = split_by_chunks(value @ W_V.mT + b_V, self.num_heads)
        scores = Q @ K.mT / math.sqrt(Q.size(-1))
        allowed = _allowed(attn_mask, key_mask)
        keep = torch.ones_like(scores) if allowed is None else allowed.unsqueeze(-3).to(scores.dtype)
        scores = scores - (1 - keep) * 1e6
        powers = torch.exp(scores - scores.amax(-1, keepdim=True).detach()) * keep
        total = powers.sum(-1, keepdim=True)
        return self.out_proj(merge_by_cat(powers @ V / torch.where(total == 0, torch.ones_like(total), total)))


class OneProjectionForSelfAttention(reference.MultiHeadAttention):
    """One product for all three projections where the three are one tensor; the masks combined by multiplication."""

    def forward(self, query, key, value, attn_mask=None, key_mask=None):
        if query is key and key is value:
            Q, K, V = nn.functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            parts = zip((query, key, value), self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3), strict=True)
            Q, K, V = (torch.matmul(x, weight.t()).add(bias) for x, weight, bias in parts)
        Q, K, V = (split_by_einsum(x, self.num_heads) for x in (Q, K, V))
        mask = torch.ones(1, 1, dtype=torch.bool) if attn_mask is None else attn_mask
        if key_mask is not None:
            mask = mask * key_mask[..., None, :]
        return self.out_proj(merge_by_reshape(scaled_dot_product_attention(Q, K, V, mask.unsqueeze(-3))))


# attention_as_four_matmuls


def four_by_einsum(X, W_QKV, W_O, num_heads):
    width = X.shape[-1]
    W = W_QKV.view(width, 3, num_heads, width // num_heads)
    Q, K, V = torch.einsum("...nm,mchd->c...hnd", X, W)
    weights = torch.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / (width // num_heads) ** 0.5, dim=-1)
    heads = torch.einsum("...qk,...kd->...qd", weights, V)
    return torch.einsum("...hnd,hdm->...nm", heads, W_O.view(num_heads, width // num_heads, width))


def four_by_split(X, W_QKV, W_O, num_heads):
    Q, K, V = torch.split(torch.matmul(X, W_QKV), X.shape[-1], dim=-1)
    Q, K, V = (split_by_chunks(part, num_heads) for part in (Q, K, V))
    return merge_by_cat(scaled_dot_product_attention(Q, K, V)) @ W_O


def four_by_linear(X, W_QKV, W_O, num_heads):
    projected = nn.functional.linear(X, W_QKV.T).unflatten(-1, (3, num_heads, -1))
    Q, K, V = projected.movedim(-3, 0).transpose(-3, -2)
    scores = (Q * Q.shape[-1] ** -0.5) @ K.mT
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return nn.functional.linear(merge_by_einsum(powers / powers.sum(-1, keepdim=True) @ V), W_O.T)


def four_by_bmm(X, W_QKV, W_O, num_heads):
    *batch, length, width = X.shape
    Q, K, V = (X.reshape(-1, width) @ W_QKV).view(-1, length, 3, num_heads, width // num_heads).unbind(2)
    Q, K, V = (part.transpose(1, 2).reshape(-1, length, width // num_heads) for part in (Q, K, V))
    weights = torch.softmax(torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(width // num_heads), dim=2)
    heads = torch.bmm(weights, V).view(-1, num_heads, length, width // num_heads).transpose(1, 2)
    return (heads.reshape(-1, width) @ W_O).view(*batch, length, width)


def four_transposed(X, W_QKV, W_O, num_heads):
    """Tokens as columns: every product the other way round."""
    width = X.shape[-1]
    columns = (W_QKV.T @ X.mT).unflatten(-2, (3, num_heads, width // num_heads))
    Q, K, V = columns.unbind(-4)
    weights = torch.softmax(K.mT @ Q / math.sqrt(width // num_heads), dim=-2)
    heads = (V @ weights).flatten(-3, -2)
    return (W_O.T @ heads).mT


# attention_flops


def flops_by_shapes(batch, num_queries, num_keys, num_heads, d_head):
    width = num_heads * d_head
    products = [(num_queries, width, width), (num_keys, width, width), (num_keys, width, width)]
    products += [(num_queries, d_head, num_keys), (num_queries, num_keys, d_head)] * num_heads
    products += [(num_queries, width, width)]
    return sum(2 * batch * math.prod(shape) for shape in products)


def flops_factored(batch, num_queries, num_keys, num_heads, d_head):
    d_model = num_heads * d_head
    return 4 * batch * d_model * ((num_queries + num_keys) * d_model + num_queries * num_keys)


def flops_for_each_sequence(batch, num_queries, num_keys, num_heads, d_head):
    total = 0
    for _ in range(batch):
        for tokens in (num_queries, num_keys, num_keys, num_queries):
            total += 2 * tokens * (num_heads * d_head) ** 2
        total += num_heads * 2 * (2 * num_queries * num_keys * d_head)
    return total


def flops_for_each_head(batch, num_queries, num_keys, num_heads, d_head):
    projections = 4 * (num_queries + num_keys) * num_heads * d_head * d_head
    return batch * num_heads * (projections + 4 * num_queries * num_keys * d_head)


def flops_by_counting(batch, num_queries, num_keys, num_heads, d_head):
    """Run the products on tensors without data, and count."""
    width = num_heads * d_head
    queries, keys = (torch.empty(batch * n, width, device="meta") for n in (num_queries, num_keys))
    projection = torch.empty(width, width, device="meta")
    with FlopCounterMode(display=False) as counter:
        Q, K, V = queries @ projection, keys @ projection, keys @ projection
        Q = Q.view(batch, num_queries, num_heads, d_head).transpose(1, 2).reshape(-1, num_queries, d_head)
        K, V = (
            part.view(batch, num_keys, num_heads, d_head).transpose(1, 2).reshape(-1, num_keys, d_head)
            for part in (K, V)
        )
        torch.bmm(torch.bmm(Q, K.mT), V)
        queries @ projection
    return counter.get_total_flops()


# attention_memory


def memory_by_prod(batch, num_queries, num_keys, num_heads, bytes_per_number=4):
    return math.prod((batch, num_heads, num_queries, num_keys, bytes_per_number))


def memory_for_each_head(batch, num_queries, num_keys, num_heads, bytes_per_number=4):
    return sum(num_queries * num_keys * bytes_per_number for _ in range(batch * num_heads))


def memory_by_tensor(batch, num_queries, num_keys, num_heads, bytes_per_number=4):
    scores = torch.empty(batch, num_heads, num_queries, num_keys, device="meta")
    return scores.numel() * bytes_per_number


def memory_in_steps(batch, num_queries, num_keys, num_heads, bytes_per_number=4):
    row = num_keys * bytes_per_number
    return batch * (num_heads * (num_queries * row))


def memory_by_shape(batch, num_queries, num_keys, num_heads, bytes_per_number=4):
    return torch.Size((batch, num_heads, num_queries, num_keys)).numel() * bytes_per_number


# path_length


def path_by_formula(layer, length, kernel_size=3):
    if layer == "rnn":
        return length
    if layer == "convolution":
        return max(1, math.ceil((length - 1) / (kernel_size - 1)))
    if layer == "self-attention":
        return 1
    layers = 1
    while kernel_size**layers < length:
        layers += 1
    return layers


def path_by_dictionary(layer, length, kernel_size=3):
    layers = next(L for L in range(1, 64) if kernel_size**L >= length)
    convolution = -(-(length - 1) // (kernel_size - 1)) or 1
    return {"rnn": length, "convolution": convolution, "dilated convolution": layers, "self-attention": 1}[layer]


def path_by_match(layer, length, kernel_size=3):
    match layer:
        case "rnn":
            return length
        case "self-attention":
            return 1
        case "convolution":
            reach = kernel_size - 1
            return max((length - 1 + reach - 1) // reach, 1)
        case _:
            to_go, layers, jump = length - 1, 0, kernel_size - 1
            while to_go > 0:
                to_go -= jump
                jump *= kernel_size
                layers += 1
            return max(layers, 1)


def path_recursively(layer, length, kernel_size=3):
    if layer == "rnn":
        return length

    def layers(to_go, jump):
        return 0 if to_go <= 0 else 1 + layers(to_go - jump, jump * kernel_size)

    if layer == "dilated convolution":
        return layers(length - 1, kernel_size - 1) or 1
    return 1 if layer == "self-attention" or length == 1 else 1 + (length - 2) // (kernel_size - 1)


def path_by_reach(layer, length, kernel_size=3):
    """Add layers until the last place has seen the first."""
    if layer == "rnn":
        return length
    layers, seen = 0, 1
    while seen < length or not layers:
        layers += 1
        if layer == "self-attention":
            seen = length
        elif layer == "convolution":
            seen += kernel_size - 1
        else:
            seen *= kernel_size
    return layers


VARIANTS = {
    "split_heads": [split_by_view_and_permute, split_by_chunks, split_by_movedim, split_by_loop, split_by_einsum],
    "merge_heads": [merge_by_reshape, merge_by_cat, merge_by_einsum, merge_by_filling, merge_by_flatten],
    "MultiHeadAttention": [
        LoopOverHeads,
        Einsum,
        FoldedIntoTheBatch,
        ExponentialsTimesMask,
        OneProjectionForSelfAttention,
    ],
    "attention_as_four_matmuls": [four_by_einsum, four_by_split, four_by_linear, four_by_bmm, four_transposed],
    "attention_flops": [
        flops_by_shapes,
        flops_factored,
        flops_for_each_sequence,
        flops_for_each_head,
        flops_by_counting,
    ],
    "attention_memory": [memory_by_prod, memory_for_each_head, memory_by_tensor, memory_in_steps, memory_by_shape],
    "path_length": [path_by_formula, path_by_dictionary, path_by_match, path_recursively, path_by_reach],
}
