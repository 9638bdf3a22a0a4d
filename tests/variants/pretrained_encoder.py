"""Right kernels of "A pretrained encoder" in other styles."""

import functools
import math
import re

import numpy as np
import torch
from torch.nn import functional as F

from autograder.reference import pretrained_encoder as reference

# word_pieces


def pieces_by_shrinking(word, vocabulary, unknown="[UNK]"):
    """As in BERT's own program."""
    pieces, start = [], 0
    while start < len(word):
        end, found = len(word), None
        while start < end:
            piece = word[start:end]
            if start > 0:
                piece = "##" + piece
            if piece in vocabulary:
                found = piece
                break
            end -= 1
        if found is None:
            return [unknown]
        pieces.append(found)
        start = end
    return pieces


def pieces_by_recursion(word, vocabulary, unknown="[UNK]"):
    def cut(rest, mark):
        if not rest:
            return []
        for end in range(len(rest), 0, -1):
            if mark + rest[:end] in vocabulary:
                others = cut(rest[end:], "##")
                return None if others is None else [mark + rest[:end], *others]
        return None

    pieces = cut(word, "")
    return [unknown] if pieces is None else pieces


def pieces_by_search_in_the_vocabulary(word, vocabulary, unknown="[UNK]"):
    pieces, rest = [], word
    while rest:
        marked = "##" + rest if pieces else rest
        least = 2 if pieces else 0
        fitting = [piece for piece in vocabulary if marked.startswith(piece) and len(piece) > least]
        if not fitting:
            return [unknown]
        pieces.append(max(fitting, key=len))
        rest = marked[len(pieces[-1]) :]
    return pieces


def pieces_as_a_tuple(word, vocabulary, unknown="[UNK]"):
    found, start = (), 0
    while start < len(word):
        ends = range(len(word), start, -1)
        end = next((end for end in ends if "##" * (start > 0) + word[start:end] in vocabulary), None)
        if end is None:
            return (unknown,)
        found, start = (*found, "##" * bool(found) + word[start:end]), end
    return found


# gelu


def gelu_by_normal_distribution(x):
    return x * torch.special.ndtr(x)


def gelu_by_complement(x):
    return x * torch.erfc(-x / math.sqrt(2)) / 2


def gelu_by_distribution_object(x):
    return torch.distributions.Normal(torch.zeros((), dtype=x.dtype), 1.0, validate_args=False).cdf(x).mul(x)


def gelu_by_multiplying_out(x):
    return 0.5 * x + 0.5 * x * torch.special.erf(x * 0.5**0.5)


# BertBlock


class BlockByModules(reference.BertBlock):
    """By the block's own modules and PyTorch's functions."""

    def forward(self, x, key_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x, key_mask=key_mask))
        return self.norm2(x + self.linear2(F.gelu(self.linear1(x))))


class BlockByFunctions(reference.BertBlock):
    def forward(self, x, key_mask=None):
        def norm(sum_, layer):
            return F.layer_norm(sum_, sum_.shape[-1:], layer.weight, layer.bias, layer.eps)

        attended = norm(self.self_attn(x, x, x, key_mask=key_mask) + x, self.norm1)
        hidden = F.gelu(F.linear(attended, self.linear1.weight, self.linear1.bias), approximate="none")
        return norm(F.linear(hidden, self.linear2.weight, self.linear2.bias) + attended, self.norm2)


class BlockByFusedAttention(reference.BertBlock):
    def forward(self, x, key_mask=None):
        layer = self.self_attn
        Q, K, V = (
            part.unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2)
            for part in F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
        )
        mask = None if key_mask is None else key_mask[..., None, None, :]
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
        x = self.norm1(layer.out_proj(heads.transpose(-3, -2).flatten(-2)) + x)
        return self.norm2(self.linear2(reference.gelu(self.linear1(x))) + x)


class BlockByMaskOfPairs(reference.BertBlock):
    """The key mask as a mask of all pairs of query and key."""

    def forward(self, x, key_mask=None):
        pairs = None if key_mask is None else key_mask[..., None, :].expand(*key_mask.shape, key_mask.shape[-1])
        attn_output = self.self_attn(query=x, key=x, value=x, attn_mask=pairs)
        after = self.norm1(x + attn_output)
        inner = self.linear1(after)
        return self.norm2(after + self.linear2(inner * torch.special.ndtr(inner)))


class BlockByHand(reference.BertBlock):
    def forward(self, x, key_mask=None):
        def norm(tokens, layer):
            centred = tokens - tokens.mean(-1, keepdim=True)
            scale = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + layer.eps)
            return centred * scale * layer.weight + layer.bias

        y = norm(x + self.self_attn(x, x, x, None, key_mask), self.norm1)
        inner = y @ self.linear1.weight.T + self.linear1.bias
        outer = (inner * (1 + torch.erf(inner / 2**0.5)) / 2) @ self.linear2.weight.T + self.linear2.bias
        return norm(y + outer, self.norm2)


# mean_pool


def _refuse_mask(states, key_mask):
    if key_mask is not None and key_mask.shape != states.shape[:-1]:
        raise ValueError("the mask does not fit")


def pool_by_filling(states, key_mask=None):
    _refuse_mask(states, key_mask)
    if key_mask is None:
        key_mask = torch.ones(states.shape[:-1], dtype=torch.bool)
    filled = states.masked_fill(~key_mask[..., None], 0)
    return filled.sum(-2) / key_mask.sum(-1, keepdim=True).clamp_min(1)


def pool_by_weights(states, key_mask=None):
    _refuse_mask(states, key_mask)
    if key_mask is None:
        return states.sum(-2) / states.shape[-2]
    weights = key_mask.to(states.dtype)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    clean = torch.where(key_mask[..., None], states, torch.zeros_like(states))
    return torch.einsum("...t,...td->...d", weights, clean)


def pool_text_by_text(states, key_mask=None):
    _refuse_mask(states, key_mask)
    if key_mask is None:
        return states.mean(-2)
    texts, masks = states.reshape(-1, *states.shape[-2:]), key_mask.reshape(-1, key_mask.shape[-1])
    means = [
        text[real].mean(0) if real.any() else text.new_zeros(text.shape[-1])
        for text, real in zip(texts, masks, strict=True)
    ]
    return torch.stack(means).reshape(*states.shape[:-2], states.shape[-1])


def pool_by_nan(states, key_mask=None):
    _refuse_mask(states, key_mask)
    if key_mask is None:
        return states.mean(dim=-2)
    hidden = ~key_mask.unsqueeze(-1)
    mean = states.masked_fill(hidden, torch.nan).nanmean(dim=-2)
    return torch.where(hidden.all(dim=-2), 0, mean)


# SentenceEncoder


class EncoderByModules(reference.SentenceEncoder):
    def embed(self, tokens):
        places = torch.arange(tokens.shape[-1])
        return self.norm(self.words(tokens) + self.positions(places) + self.segments(torch.zeros_like(tokens)))

    def states(self, tokens, key_mask=None):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, key_mask=key_mask)
        return x

    def forward(self, tokens, key_mask=None):
        mean = reference.mean_pool(self.states(tokens, key_mask), key_mask)
        return mean / mean.norm(dim=-1, keepdim=True)


class EncoderWithMaskOfOnes(reference.SentenceEncoder):
    """Where there is no mask, it makes one."""

    def forward(self, tokens, key_mask=None):
        key_mask = torch.ones_like(tokens, dtype=torch.bool) if key_mask is None else key_mask
        return F.normalize(reference.mean_pool(self.states(tokens, key_mask), key_mask), p=2, dim=-1)


class EncoderBySum(reference.SentenceEncoder):
    """The sum has the direction of the mean."""

    def forward(self, tokens, key_mask=None):
        states = self.states(tokens, key_mask)
        if key_mask is not None:
            states = states * key_mask.unsqueeze(-1)
        summed = states.sum(-2)
        return summed / summed.square().sum(-1, keepdim=True).sqrt()


class EncoderByRows(reference.SentenceEncoder):
    def embed(self, tokens):
        length = tokens.shape[-1]
        if length > self.positions.weight.shape[0]:
            raise ValueError("too long")
        x = F.embedding(tokens, self.words.weight)
        x = x + self.segments.weight[:1] + self.positions.weight.narrow(0, 0, length)
        return F.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, self.norm.eps)


class EncoderByReduction(reference.SentenceEncoder):
    def states(self, tokens, key_mask=None):
        return functools.reduce(lambda x, block: block(x, key_mask), self.blocks, self.embed(tokens))


# rename_weights


def _is_spare(name):
    return name == "embeddings.position_ids" or name.split(".")[0] == "pooler"


def rename_by_replacing(stored, num_layers):
    """Name by name, from the file's side, by replacing pieces of the names."""
    pieces = (
        ("embeddings.word_embeddings", "words"),
        ("embeddings.position_embeddings", "positions"),
        ("embeddings.token_type_embeddings", "segments"),
        ("embeddings.LayerNorm", "norm"),
        ("encoder.layer", "blocks"),
        ("attention.output.dense", "self_attn.out_proj"),
        ("attention.output.LayerNorm", "norm1"),
        ("intermediate.dense", "linear1"),
        ("output.dense", "linear2"),
        ("output.LayerNorm", "norm2"),
    )
    renamed = {}
    for name, weight in stored.items():
        if _is_spare(name):
            continue
        for old, new in pieces:
            name = name.replace(old, new)
        renamed[name] = weight
    for number in range(num_layers):
        for kind in ("weight", "bias"):
            parts = [renamed.pop(f"blocks.{number}.attention.self.{part}.{kind}") for part in ("query", "key", "value")]
            joined = torch.vstack(parts) if kind == "weight" else torch.hstack(parts)
            renamed[f"blocks.{number}.self_attn.in_proj_{kind}"] = joined
    _refuse_other_names(renamed, num_layers)
    return renamed


def _refuse_other_names(renamed, num_layers):
    wanted = set(reference.SentenceEncoder(3, 3, 4, 2, 4, num_layers).state_dict())
    if set(renamed) != wanted:
        raise ValueError(f"names differ: {set(renamed) ^ wanted}")


def rename_by_pattern(stored, num_layers):
    inner = {
        "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "linear1",
        "output.dense": "linear2",
        "output.LayerNorm": "norm2",
    }
    outer = {
        "word_embeddings": "words",
        "position_embeddings": "positions",
        "token_type_embeddings": "segments",
        "LayerNorm": "norm",
    }
    renamed, parts = {}, {}
    for name, weight in stored.items():
        if match := re.fullmatch(r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.(weight|bias)", name):
            parts[match[1], match[2], match[3]] = weight
        elif match := re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)\.(weight|bias)", name):
            renamed[f"blocks.{match[1]}.{inner[match[2]]}.{match[3]}"] = weight
        elif (match := re.fullmatch(r"embeddings\.(\w+)\.(weight|bias)", name)) and match[1] in outer:
            renamed[f"{outer[match[1]]}.{match[2]}"] = weight
        elif not _is_spare(name):
            raise ValueError(name)
    for number, kind in {(number, kind) for number, _, kind in parts}:
        found = [parts[number, part, kind] for part in ("query", "key", "value")]
        renamed[f"blocks.{number}.self_attn.in_proj_{kind}"] = torch.cat(found, dim=0)
    _refuse_other_names(renamed, num_layers)
    return renamed


def rename_by_table(stored, num_layers):
    """A whole table of names first."""
    table = {
        "words.weight": ["embeddings.word_embeddings.weight"],
        "positions.weight": ["embeddings.position_embeddings.weight"],
        "segments.weight": ["embeddings.token_type_embeddings.weight"],
    }
    for kind in ("weight", "bias"):
        table[f"norm.{kind}"] = [f"embeddings.LayerNorm.{kind}"]
        for i in range(num_layers):
            ours, theirs = f"blocks.{i}.", f"encoder.layer.{i}."
            table[f"{ours}self_attn.in_proj_{kind}"] = [
                f"{theirs}attention.self.{part}.{kind}" for part in ("query", "key", "value")
            ]
            table[f"{ours}self_attn.out_proj.{kind}"] = [f"{theirs}attention.output.dense.{kind}"]
            table[f"{ours}linear1.{kind}"] = [f"{theirs}intermediate.dense.{kind}"]
            table[f"{ours}linear2.{kind}"] = [f"{theirs}output.dense.{kind}"]
            table[f"{ours}norm1.{kind}"] = [f"{theirs}attention.output.LayerNorm.{kind}"]
            table[f"{ours}norm2.{kind}"] = [f"{theirs}output.LayerNorm.{kind}"]
    used = {name for names in table.values() for name in names}
    assert all(_is_spare(name) for name in set(stored) - used)
    return {ours: torch.cat([stored[name] for name in names]) for ours, names in table.items()}


def rename_by_sorting_names(stored, num_layers):
    """Works the names off until none is left."""
    waiting, renamed = sorted(stored), {}
    inner = {"attention.output.": ("self_attn.out_proj", "norm1"), "output.": ("linear2", "norm2")}
    beginnings = {"word_": "words", "position_": "positions", "token_type_": "segments"}
    for number in range(num_layers):
        for kind in ("weight", "bias"):
            block, layer = f"blocks.{number}", f"encoder.layer.{number}"
            renamed[f"{block}.linear1.{kind}"] = f"{layer}.intermediate.dense.{kind}"
            for place, (dense, norm) in inner.items():
                renamed[f"{block}.{dense}.{kind}"] = f"{layer}.{place}dense.{kind}"
                renamed[f"{block}.{norm}.{kind}"] = f"{layer}.{place}LayerNorm.{kind}"
            names = [f"{layer}.attention.self.{part}.{kind}" for part in ("query", "key", "value")]
            renamed[f"{block}.self_attn.in_proj_{kind}"] = names
    renamed |= {f"{ours}.weight": f"embeddings.{theirs}embeddings.weight" for theirs, ours in beginnings.items()}
    renamed |= {f"norm.{kind}": f"embeddings.LayerNorm.{kind}" for kind in ("weight", "bias")}
    for names in renamed.values():
        for name in [names] if isinstance(names, str) else names:
            waiting.remove(name)
    if not all(map(_is_spare, waiting)):
        raise ValueError(waiting)
    return {
        ours: stored[names] if isinstance(names, str) else torch.cat([stored[name] for name in names])
        for ours, names in renamed.items()
    }


def rename_part_by_part(stored, num_layers):
    renamed, used = {}, set()

    def take(theirs, ours, kinds=("weight", "bias")):
        for kind in kinds:
            renamed[f"{ours}.{kind}"] = stored[f"{theirs}.{kind}"].clone()
            used.add(f"{theirs}.{kind}")

    take("embeddings.word_embeddings", "words", ("weight",))
    take("embeddings.position_embeddings", "positions", ("weight",))
    take("embeddings.token_type_embeddings", "segments", ("weight",))
    take("embeddings.LayerNorm", "norm")
    for i in range(num_layers):
        for kind in ("weight", "bias"):
            names = [f"encoder.layer.{i}.attention.self.{part}.{kind}" for part in ("query", "key", "value")]
            used.update(names)
            renamed[f"blocks.{i}.self_attn.in_proj_{kind}"] = torch.stack([stored[n] for n in names]).flatten(0, 1)
        take(f"encoder.layer.{i}.attention.output.dense", f"blocks.{i}.self_attn.out_proj")
        take(f"encoder.layer.{i}.attention.output.LayerNorm", f"blocks.{i}.norm1")
        take(f"encoder.layer.{i}.intermediate.dense", f"blocks.{i}.linear1")
        take(f"encoder.layer.{i}.output.dense", f"blocks.{i}.linear2")
        take(f"encoder.layer.{i}.output.LayerNorm", f"blocks.{i}.norm2")
    for name in stored:
        if name not in used and not _is_spare(name):
            raise ValueError(f"{name} is left over")
    return renamed


# most_similar


def _refuse_none(k):
    if k < 1:
        raise ValueError("k is too small")


def similar_by_lengths(queries, vectors, k):
    _refuse_none(k)
    lengths = queries.norm(dim=-1, keepdim=True) * vectors.norm(dim=-1)
    products = torch.einsum("...d,nd->...n", queries, vectors)
    similarities = torch.where(lengths > 0, products / torch.where(lengths > 0, lengths, 1), 0)
    found = similarities.sort(descending=True, stable=True)
    return found.indices[..., :k], found.values[..., :k]


def similar_by_argsort(queries, vectors, k):
    _refuse_none(k)
    similarities = F.normalize(queries, dim=-1) @ F.normalize(vectors, dim=-1).mT
    order = torch.argsort(-similarities, dim=-1, stable=True)[..., :k]
    return order, torch.gather(similarities, -1, order)


def similar_by_numpy(queries, vectors, k):
    """Chooses outside of PyTorch; gradients flow through the cosines alone."""
    _refuse_none(k)
    rows = F.normalize(vectors, p=2, dim=1)
    similarities = (F.normalize(queries, p=2, dim=-1).unsqueeze(-2) * rows).sum(-1)
    order = torch.from_numpy(np.argsort(-similarities.detach().numpy(), axis=-1, kind="stable")[..., :k].copy())
    return order, similarities.gather(-1, order)


def similar_one_by_one(queries, vectors, k):
    """Takes the best one away, again and again; `max` of a list gives the first of equal ones."""
    _refuse_none(k)
    similarities = torch.inner(F.normalize(queries, dim=-1), F.normalize(vectors, dim=-1))
    chosen = []
    for row in similarities.reshape(-1, len(vectors)).tolist():
        places = list(range(len(row)))
        best = []
        while places and len(best) < k:
            best.append(max(places, key=row.__getitem__))
            places.remove(best[-1])
        chosen.append(best)
    order = torch.tensor(chosen).reshape(*queries.shape[:-1], -1)
    return order, similarities.gather(-1, order)


VARIANTS = {
    "word_pieces": [
        pieces_by_shrinking,
        pieces_by_recursion,
        pieces_by_search_in_the_vocabulary,
        pieces_as_a_tuple,
    ],
    "gelu": [
        gelu_by_normal_distribution,
        gelu_by_complement,
        gelu_by_distribution_object,
        gelu_by_multiplying_out,
    ],
    "BertBlock": [BlockByModules, BlockByFunctions, BlockByFusedAttention, BlockByMaskOfPairs, BlockByHand],
    "mean_pool": [pool_by_filling, pool_by_weights, pool_text_by_text, pool_by_nan],
    "SentenceEncoder": [
        EncoderByModules,
        EncoderWithMaskOfOnes,
        EncoderBySum,
        EncoderByRows,
        EncoderByReduction,
    ],
    "rename_weights": [
        rename_by_replacing,
        rename_by_pattern,
        rename_by_table,
        rename_by_sorting_names,
        rename_part_by_part,
    ],
    "most_similar": [similar_by_lengths, similar_by_argsort, similar_by_numpy, similar_one_by_one],
}
