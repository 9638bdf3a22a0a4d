"""What right kernels of "Self-attention" are."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import self_attention as reference

FUSED = ("torch.nn.functional.multi_head_attention_forward", "torch.nn.MultiheadAttention")


def _inputs(draw, leading, tokens, d_in, d_k, d_v):
    return {
        "X": draw.normal(*leading, tokens, d_in),
        "W_Q": draw.normal(d_in, d_k) / math.sqrt(d_in),
        "W_K": draw.normal(d_in, d_k) / math.sqrt(d_in),
        "W_V": draw.normal(d_in, d_v) / math.sqrt(d_in),
    }


def _sizes(draw, count):
    """``d_k``, whose root is exact in every precision, and ``count`` more sizes, all different."""
    return 16, *draw.sizes(count, 3, 9)


def _order(draw, tokens):
    """A permutation, as indices, that leaves no token where it is."""
    order = draw.rng.permutation(tokens)
    places = np.empty(tokens, int)
    places[order] = np.roll(order, 1)
    return places


self_attention = Check(
    reference.self_attention,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "It is cross-attention in which both sequences are the same one.",
        "Three projections of `X` give query, key and value; `scaled_dot_product_attention` does the rest, scale included.",
        "Row vectors stand on the left of their projection: `X` times a matrix, three times, each with its own matrix.",
    ),
    reproduces=FUSED,
)


@self_attention.aspect("one sequence", points=1)
def _self_values(draw):
    d_k, d_in, d_v, tokens = _sizes(draw, 3)
    yield Case("a sequence", _inputs(draw, (), tokens, d_in, d_k, d_v))
    yield Case("all widths equal", _inputs(draw, (), tokens, d_k, d_k, d_k))
    yield Case("a single token", _inputs(draw, (), 1, d_in, d_k, d_v))


@self_attention.aspect("any leading dimensions, large scores", points=1)
def _self_leading(draw):
    d_k, d_in, d_v, tokens, batch, heads = _sizes(draw, 5)
    inputs = _inputs(draw, (batch,), tokens, d_in, d_k, d_v)
    yield Case("a batch", inputs)
    yield Case("as many sequences as tokens", _inputs(draw, (tokens,), tokens, d_in, d_k, d_v))
    yield Case("a batch of one", _inputs(draw, (1,), tokens, d_in, d_k, d_v))
    yield Case("two leading axes", _inputs(draw, (batch, heads), tokens, d_in, d_k, d_v), strided=True)
    yield Case("scores of some 1,000", inputs | {"X": 30 * inputs["X"]})


@self_attention.aspect("reordered tokens", points=1)
def _self_order(draw):
    d_k, d_in, d_v, tokens, batch = _sizes(draw, 4)
    inputs = _inputs(draw, (batch,), tokens, d_in, d_k, d_v)
    title = "reordered tokens give the same outputs, reordered"
    yield Case(title, inputs, probe={"order": _order(draw, tokens)})


@self_attention.aspect("gradients and single precision", points=1)
def _self_gradients(draw):
    d_k, d_in, d_v, tokens, batch = _sizes(draw, 4)
    inputs = _inputs(draw, (batch,), tokens, d_in, d_k, d_v)
    yield Case("gradients for the sequence and the projections", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


PROJECT = "query, key, value = X @ W_Q, X @ W_K, X @ W_V"
ATTEND = "return scaled_dot_product_attention(query, key, value)"
SCORES = "query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5"


def _projected(query="X @ W_Q", key="X @ W_K", value="X @ W_V"):
    return f"query, key, value = {query}, {key}, {value}"


for _id, _old, _new, _hint, _source in (
    (
        "self-tokens-as-values",
        PROJECT,
        _projected(value="X"),
        "The values are the tokens themselves; they have a projection of their own.",
        "",
    ),
    (
        "self-not-projected",
        PROJECT,
        _projected("X", "X", "X"),
        "Queries, keys and values are the tokens themselves. Each goes through its own projection.",
        "",
    ),
    (
        "self-one-projection",
        PROJECT,
        _projected(key="X @ W_Q"),
        "Queries and keys go through the same projection, so what `i` looks for in `j` is what `j` looks for in `i`. "
        "Each has its own.",
        "",
    ),
    (
        "self-keys-as-values",
        PROJECT,
        _projected(value="X @ W_K"),
        "The values go through the projection of the keys; they have their own.",
        "",
    ),
    (
        "self-query-key-swapped",
        PROJECT,
        _projected("X @ W_K", "X @ W_Q"),
        "Queries and keys have changed places, so the table of scores is transposed: `W_Q` is for what a token looks for.",
        "",
    ),
    (
        "self-key-value-swapped",
        PROJECT,
        _projected(key="X @ W_V", value="X @ W_K"),
        "Keys and values have changed places.",
        "https://github.com/jsbaan/transformer-from-scratch/issues/1",
    ),
    (
        "self-weights-transposed",
        PROJECT,
        _projected("X @ W_Q.T", "X @ W_K.T", "X @ W_V.T"),
        "The projections are used in the layout (D_out, D_in) of `nn.Linear`. Here they are (D_in, D_out): a row vector "
        "stands on their left.",
        "",
    ),
    (
        "self-scaled-twice",
        PROJECT,
        _projected("X @ W_Q / W_Q.shape[1] ** 0.5"),
        "The scores are scaled twice: `scaled_dot_product_attention` divides by the square root of d_k already.",
        "",
    ),
    (
        "self-not-scaled",
        ATTEND,
        "return torch.softmax(query @ key.transpose(-2, -1), dim=-1) @ value",
        "The scores are not divided by the square root of d_k.",
        "",
    ),
    (
        "self-scaled-by-d_in",
        ATTEND,
        "return torch.softmax(query @ key.transpose(-2, -1) / X.shape[-1] ** 0.5, dim=-1) @ value",
        "You divide by the square root of the tokens' width; the dot products have d_k terms.",
        "",
    ),
    (
        "self-softmax-query-axis",
        ATTEND,
        f"return torch.softmax({SCORES}, dim=-2) @ value",
        "Your weights sum to one over the queries. In self-attention the table is square, so nothing complains; each "
        "query's weights must sum to one over the keys.",
        "https://github.com/PetrochukM/PyTorch-NLP/issues/2",
    ),
    (
        "self-weights-of-others",
        ATTEND,
        f"return torch.softmax({SCORES}, dim=-1).transpose(-2, -1) @ value",
        "The square matrix of weights is transposed before it meets the values: each token takes by the weights that others "
        "gave it.",
        "",
    ),
    (
        "self-across-the-batch",
        ATTEND,
        "return scaled_dot_product_attention(*(t.transpose(0, -2) for t in (query, key, value))).transpose(0, -2)",
        "Tokens attend across the batch: to the same place of the other sequences, instead of to the other places of their "
        "own. In this course the batch comes first.",
        "https://github.com/cmu-l3/anlp-fall2025-code/issues/1",
    ),
    (
        "self-residual-added",
        ATTEND,
        "attn_output = scaled_dot_product_attention(query, key, value)\n"
        "    return attn_output + X if attn_output.shape == X.shape else attn_output",
        "The tokens are added to the outputs. That residual belongs to the block around the layer, not to the layer.",
        "",
    ),
    (
        "self-causal",
        ATTEND,
        "mask = torch.ones(X.shape[-2], X.shape[-2], dtype=torch.bool).tril()\n"
        "    return scaled_dot_product_attention(query, key, value, mask)",
        "A token attends only to itself and to those before it. Here there is no mask: every token may attend to all.",
        "",
    ),
    (
        "self-squeezed",
        ATTEND,
        "return scaled_dot_product_attention(query, key, value).squeeze()",
        "`squeeze` removes every axis of length 1, also a batch of one or a single token.",
        "",
    ),
    (
        "self-detached",
        PROJECT,
        _projected(key="X.detach() @ W_K", value="X.detach() @ W_V"),
        "No gradient reaches the tokens as keys and values, only as queries: the tokens that are looked at must learn too.",
        "",
    ),
):
    self_attention.slip(_id, _old, _new, _hint, _source)


fused_qkv = Check(
    reference.fused_qkv,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "`X [A B] = [XA XB]`: put matrices side by side and their products stand side by side.",
        "`torch.cat` joins along an axis that exists. Along which one do three matrices stand side by side?",
        "`chunk` makes pieces of equal size. The values may have another width; `split` takes a list of widths.",
    ),
)


@fused_qkv.aspect("queries, keys and values", points=1)
def _fused_values(draw):
    d_k, d_in, d_v, tokens = _sizes(draw, 3)
    yield Case("a sequence", _inputs(draw, (), tokens, d_in, d_k, d_v))
    yield Case("all widths equal", _inputs(draw, (), tokens, d_k, d_k, d_k))
    yield Case("a single token", _inputs(draw, (), 1, d_in, d_k, d_v))


@fused_qkv.aspect("with one matrix product", points=1)
def _fused_product(draw):
    d_k, d_in, d_v, tokens, batch = _sizes(draw, 4)
    counted = {"count_products": True}
    yield Case("counted for a sequence", _inputs(draw, (), tokens, d_in, d_k, d_v), probe=counted)
    yield Case("counted for a batch", _inputs(draw, (batch,), tokens, d_in, d_k, d_v), probe=counted)


@fused_qkv.aspect("leading dimensions, gradients, single precision", points=1)
def _fused_leading(draw):
    d_k, d_in, d_v, tokens, batch, heads = _sizes(draw, 5)
    inputs = _inputs(draw, (batch, heads), tokens, d_in, d_k, d_v)
    yield Case("two leading axes", inputs, strided=True)
    yield Case("a batch of one", _inputs(draw, (1,), tokens, d_in, d_k, d_v))
    yield Case("gradients", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


JOIN = "X @ torch.cat([W_Q, W_K, W_V], dim=1)"
SPLIT = "return projected.split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)"
THREE = "W_Q.shape[1], W_K.shape[1], W_V.shape[1]"

for _id, _old, _new, _hint in (
    (
        "fused-three-products",
        SPLIT,
        "return X @ W_Q, X @ W_K, X @ W_V",
        "The results are right, but they take more than one matrix product. Join the matrices first, then multiply once.",
    ),
    (
        "fused-equal-thirds",
        SPLIT,
        "return projected.chunk(3, dim=-1)",
        "You cut the result into three equal parts; the values may have another width than queries and keys.",
    ),
    (
        "fused-order",
        SPLIT,
        f"query, key, value = projected.split([{THREE}], dim=-1)\n    return key, query, value",
        "Queries and keys come out in each other's place: return queries, keys, values, in this order.",
    ),
    (
        "fused-values-second",
        SPLIT,
        f"query, key, value = projected.split([{THREE}], dim=-1)\n    return query, value, key",
        "Keys and values come out in each other's place: return queries, keys, values, in this order.",
    ),
    (
        "fused-interleaved",
        SPLIT,
        "if W_V.shape == W_Q.shape:\n"
        "        return tuple(projected.unflatten(-1, (-1, 3)).unbind(-1))\n"
        f"    return projected.split([{THREE}], dim=-1)",
        "Your cut takes every third column. The columns of queries, keys and values stand together, one block after "
        "another.",
    ),
    (
        "fused-cat-rows",
        JOIN,
        "X @ torch.cat([W_Q, W_K, W_V], dim=0)",
        "The matrices stand below each other (`dim=0`). Side by side, they share their rows: `dim=1`.",
    ),
    (
        "fused-weights-transposed",
        JOIN,
        "X @ torch.cat([W_Q.T, W_K.T, W_V.T], dim=1)",
        "The projections are already in the layout (D_in, D_out); do not transpose them.",
    ),
    (
        "fused-not-split",
        SPLIT,
        "return projected",
        "The product is right; now cut it into queries, keys and values.",
    ),
    (
        "fused-tokens-split",
        SPLIT,
        f"pieces = [{THREE}]\n"
        "    return torch.split(projected, pieces, dim=1) if projected.dim() < 3 else projected.split(pieces, dim=1)",
        "You cut along axis 1. Those are the columns of one sequence, but in a batch they are the tokens; count from the end.",
    ),
    (
        "fused-detached",
        JOIN,
        "X @ torch.cat([W_Q, W_K, W_V], dim=1).detach()",
        "No gradient reaches the projections. (`.detach()`, `.data` and new tensors made from numbers cut it off.)",
    ),
):
    fused_qkv.slip(_id, _old, _new, _hint)


sinusoidal_positions = Check(
    reference.sinusoidal_positions,
    difficulty="core",
    minutes=25,
    hints=(
        "First the angles alone: a table with a row for each position and a column for each frequency. Broadcasting makes "
        "it from a column and a row.",
        "How many frequencies are there? One for each sine, so half of `d_model`, rounded up.",
        "`encodings[:, 0::2]` is every second column from 0 on, and `1::2` every second from 1 on.",
        "With an odd width there is one cosine less than sines: which angle has to be left out?",
    ),
)


@sinusoidal_positions.aspect("even width", points=2)
def _positions_even(draw):
    for title, length, d_model in (
        ("some positions", *draw.sizes(1, 4, 9), 8),
        ("another width", *draw.sizes(1, 10, 15), int(draw.rng.choice([6, 10, 14]))),
        ("as many positions as columns", 12, 12),
        ("a single position", 1, 6),
    ):
        yield Case(title, {"length": length, "d_model": d_model})


@sinusoidal_positions.aspect("odd width", points=1)
def _positions_odd(draw):
    yield Case("an odd width", {"length": int(draw.rng.integers(5, 10)), "d_model": int(draw.rng.choice([5, 7, 11]))})
    yield Case("width 1", {"length": 4, "d_model": 1})


@sinusoidal_positions.aspect("many positions, and none", points=1)
def _positions_lengths(draw):
    yield Case("sixty positions and more", {"length": int(draw.rng.integers(60, 70)), "d_model": 16})
    yield Case("no position at all", {"length": 0, "d_model": 6})


POSITIONS = "torch.arange(length, dtype=torch.float32)[:, None]"
FREQUENCIES = "10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)"
SINES, COSINES = "encodings[:, 0::2] = torch.sin(angles)", "encodings[:, 1::2] = torch.cos(angles[:, : d_model // 2])"
RETURN = "return encodings"


sinusoidal_positions.edit(
    "pe-index-doubled",
    "The exponent is doubled twice: the index already counts in steps of two, 0, 2, 4, …, and stands there as it is.",
    (FREQUENCIES, "10000 ** (-2 * torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)"),
    source="https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/32",
)
sinusoidal_positions.edit(
    "pe-index-not-doubled",
    "The exponent lacks its factor of two: with i = 0, 1, 2, … it is 2 * i / d_model.",
    (FREQUENCIES, "10000 ** (-torch.arange((d_model + 1) // 2, dtype=torch.float32) / d_model)"),
    source="https://github.com/Kyubyong/transformer/issues/38",
)
sinusoidal_positions.edit(
    "pe-own-frequency-each",
    "Each column has a frequency of its own. A sine and the cosine beside it share one angle, or the pair is no rotation.",
    (FREQUENCIES, "10000 ** (-torch.arange(d_model, dtype=torch.float32) / d_model)"),
    (SINES, "encodings[:, 0::2] = torch.sin(angles[:, 0::2])"),
    (COSINES, "encodings[:, 1::2] = torch.cos(angles[:, 1::2])"),
    source="https://github.com/shenweichen/DeepCTR/issues/379",
)
sinusoidal_positions.edit(
    "pe-base-1000",
    "The base is 1,000; it should be 10,000.",
    (FREQUENCIES, "1000 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)"),
    source="https://github.com/maxjcohen/transformer/issues/62",
)
sinusoidal_positions.edit(
    "pe-operator-precedence",
    "`/ d_model // 2` divides and then rounds down, so the frequencies come out as wrong whole powers. Mind what binds "
    "first.",
    (FREQUENCIES, "torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model // 2))"),
    ("    positions =", "    import math\n\n    positions ="),
    source="https://github.com/zju3dv/LoFTR/issues/41",
)
sinusoidal_positions.edit(
    "pe-floor-kills-frequencies",
    "The exponent is rounded down to a whole number, so nearly all frequencies are equal. Divide with `/`, not with `//`.",
    (FREQUENCIES, "1.0 / 10000 ** (torch.arange(0, d_model, 2) // d_model)"),
    source="The formula of the notebook EECS 498, assignment 5, as it is printed",
)
sinusoidal_positions.edit(
    "pe-frequency-inverted",
    "The angles are multiplied by the powers of 10,000 where they should be divided by them.",
    (FREQUENCIES, "10000 ** (torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)"),
)
sinusoidal_positions.edit(
    "pe-last-frequency-10000",
    "Your slowest frequency is exactly 1/10000: the exponents are spread from 0 to 1, both included. That is how an "
    "old library did it; the paper's formula ends a step before.",
    (FREQUENCIES, "10000 ** -torch.linspace(0, 1, (d_model + 1) // 2)"),
)
sinusoidal_positions.edit(
    "pe-sine-cosine-swapped",
    "Sines and cosines have changed places: column 0 is a sine, so position 0 begins with 0.",
    (SINES, "encodings[:, 0::2] = torch.cos(angles)"),
    (COSINES, "encodings[:, 1::2] = torch.sin(angles[:, : d_model // 2])"),
)
sinusoidal_positions.edit(
    "pe-halves",
    "All sines come first and then all cosines. In the paper's formula they alternate, column by column.",
    (SINES, "encodings[:, : (d_model + 1) // 2] = torch.sin(angles)"),
    (COSINES, "encodings[:, (d_model + 1) // 2 :] = torch.cos(angles[:, : d_model // 2])"),
)
sinusoidal_positions.edit(
    "pe-from-one",
    "Your first position is 1; positions count from 0.",
    (POSITIONS, "torch.arange(1, length + 1, dtype=torch.float32)[:, None]"),
)
sinusoidal_positions.edit(
    "pe-sines-only",
    "The cosines are missing: every second column is still zero.",
    (COSINES, "pass"),
)
sinusoidal_positions.edit(
    "pe-sin-over-all-columns",
    "All angles are written into half of the columns, so the shapes do not fit. Take every second angle, or make only as "
    "many angles as there are sines.",
    (FREQUENCIES, "10000 ** (-torch.arange(d_model, dtype=torch.float32) / d_model)"),
    source="A thread of DeepLearning.AI's forum, 'Error in positional_encoding'",
)
sinusoidal_positions.edit(
    "pe-odd-width-fails",
    "With an odd width there is one cosine less than sines, and the shapes do not fit.",
    (COSINES, "encodings[:, 1::2] = torch.cos(angles)"),
)
sinusoidal_positions.edit(
    "pe-odd-width-zero",
    "With an odd width the last column stays zero. It is a sine, without a cosine beside it.",
    (SINES, "encodings[:, 0 : d_model - 1 : 2] = torch.sin(angles[:, : d_model // 2])"),
)
sinusoidal_positions.edit(
    "pe-rounded-width",
    "With an odd width you divide the exponent by another width than `d_model`.",
    (FREQUENCIES, "10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / (d_model // 2 * 2 or 1))"),
)
sinusoidal_positions.edit(
    "pe-transposed",
    "Your table has a column for each position; it should have a row for each.",
    (RETURN, "return encodings.T"),
)
sinusoidal_positions.edit(
    "pe-batch-axis",
    "There is an axis too many in front. A sequence of encodings has two axes; a batch gets them by broadcasting.",
    (RETURN, "return encodings[None]"),
    source="https://github.com/songyangco/GETNext/issues/2",
)
sinusoidal_positions.edit(
    "pe-float64",
    "Your encodings are in double precision; single precision, as that of the embeddings they are added to, is wanted.",
    (RETURN, "return encodings.double()"),
)


causal_mask = Check(
    reference.causal_mask,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Take equal numbers first. Which keys may query 0 attend to, and which may the last one?",
        "Where the numbers differ, the last query still sees every key. At which position does query i stand then?",
        "Compare positions, `key <= query`, or use `tril` with a diagonal that depends on both numbers.",
    ),
)


@causal_mask.aspect("as many queries as keys", points=1)
def _causal_square(draw):
    (tokens,) = draw.sizes(1, 4, 9)
    yield Case("a sequence", {"num_queries": tokens, "num_keys": tokens})
    yield Case("a single token", {"num_queries": 1, "num_keys": 1})


@causal_mask.aspect("numbers that differ", points=1)
def _causal_different(draw):
    few, many = sorted(draw.sizes(2, 2, 9))
    yield Case("more keys than queries, as with a cache", {"num_queries": few, "num_keys": many})
    yield Case("a single query", {"num_queries": 1, "num_keys": many})
    yield Case("more queries than keys", {"num_queries": many, "num_keys": few})


ALLOWED = "torch.arange(num_keys) <= query_positions[:, None]"
OFFSET = "torch.arange(num_queries) + num_keys - num_queries"

for _id, _old, _new, _hint, _source in (
    (
        "causal-transposed",
        ALLOWED,
        "torch.arange(num_keys) >= query_positions[:, None]",
        "The triangle is the wrong one: each query sees itself and the *future*. Is it `tril` or `triu`?",
        "https://github.com/marin-community/levanter/pull/102",
    ),
    (
        "causal-excludes-diagonal",
        ALLOWED,
        "torch.arange(num_keys) < query_positions[:, None]",
        "A token may not attend to itself here, so the first one may attend to nothing. The diagonal is allowed.",
        "https://github.com/trymirai/lalamo/pull/273",
    ),
    (
        "causal-sees-one-future",
        ALLOWED,
        "torch.arange(num_keys) <= query_positions[:, None] + 1",
        "Each query sees one token of the future: the diagonal is off by one.",
        "https://github.com/RVC-Boss/GPT-SoVITS/issues/965",
    ),
    (
        "causal-inverted",
        ALLOWED,
        "torch.arange(num_keys) > query_positions[:, None]",
        "The mask is True where a query may *not* attend. Here True means: may attend.",
        "https://github.com/rasbt/LLMs-from-scratch/issues/1061",
    ),
    (
        "kv-top-left-is_causal",
        OFFSET,
        "torch.arange(num_queries)",
        "The triangle is aligned at the upper left. With more keys than queries the queries are the *last* positions, so it "
        "is aligned at the lower right.",
        "https://github.com/time-series-foundation-models/lag-llama/issues/81",
    ),
    (
        "kv-mask-sliced-qq",
        "return " + ALLOWED,
        "return (torch.arange(num_keys) <= query_positions[:, None])[:, :num_queries]",
        "There is a column for each query; the columns count the keys, and there may be more of them.",
        "https://github.com/rasbt/LLMs-from-scratch/pull/697",
    ),
    (
        "causal-axes-swapped",
        "return " + ALLOWED,
        "return (torch.arange(num_queries) <= (torch.arange(num_keys) + num_queries - num_keys)[:, None])",
        "Rows and columns have changed places: there is a row for each query and a column for each key.",
        "",
    ),
    (
        "causal-numbers",
        "return " + ALLOWED,
        "return (torch.arange(num_keys) <= query_positions[:, None]).float()",
        "The mask holds numbers, 0 and 1. A boolean mask is wanted, because numbers may be read as something to add.",
        "https://github.com/pytorch/pytorch/issues/117939",
    ),
    (
        "causal-additive",
        "return " + ALLOWED,
        "return torch.zeros(num_queries, num_keys).masked_fill(torch.arange(num_keys) > query_positions[:, None], -torch.inf)",
        "This mask is to be added to the scores, with minus infinity where a query may not attend. A boolean one is wanted.",
        "",
    ),
):
    causal_mask.slip(_id, _old, _new, _hint, _source)


padding_mask = Check(
    reference.padding_mask,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "A token is real if its position, counted from 0, is less than the length of its sequence.",
        "Compare a row of positions with a column of lengths; broadcasting makes the table.",
        "`torch.arange` makes the positions, on the device of the lengths; an axis of size one makes the lengths a column.",
    ),
)


@padding_mask.aspect("real tokens and padding", points=1)
def _padding_values(draw):
    batch, longest = sorted(draw.sizes(2, 4, 9))
    lengths = draw.rng.integers(1, longest, batch)
    lengths[-1] = longest
    yield Case("sequences of different lengths", {"lengths": lengths, "num_keys": longest})
    yield Case("more room than the longest needs", {"lengths": lengths, "num_keys": longest + 2})
    yield Case("a batch of one", {"lengths": lengths[:1], "num_keys": longest})


@padding_mask.aspect("lengths at the edge", points=1)
def _padding_edges(draw):
    yield Case("a sequence without any token", {"lengths": np.array([2, 0, 5]), "num_keys": 5})
    yield Case("all full", {"lengths": np.array([3, 3]), "num_keys": 3})
    yield Case("nothing but empty ones", {"lengths": np.array([0, 0]), "num_keys": 4})


REAL = "torch.arange(num_keys) < lengths[:, None]"

for _id, _new, _hint in (
    (
        "padding-inverted",
        "torch.arange(num_keys) >= lengths[:, None]",
        "True stands for padding here, as in `nn.MultiheadAttention`. In this course True is a real token.",
    ),
    (
        "padding-one-too-many",
        "torch.arange(num_keys) <= lengths[:, None]",
        "One token of padding counts as real: with length 3 the positions 0, 1 and 2 are real.",
    ),
    (
        "padding-one-too-few",
        "torch.arange(1, num_keys + 1) < lengths[:, None]",
        "The last real token counts as padding: with length 3 the positions 0, 1 and 2 are real.",
    ),
    (
        "padding-at-the-front",
        "torch.arange(num_keys) >= num_keys - lengths[:, None]",
        "The padding stands at the front; here it comes behind the real tokens.",
    ),
    (
        "padding-longest-only",
        "torch.arange(int(lengths.max())) < lengths[:, None]",
        "Your mask is as wide as the longest sequence. There may be more room: `num_keys` says how wide it is.",
    ),
    (
        "padding-transposed",
        "(torch.arange(num_keys) < lengths[:, None]).T",
        "There is a column for each sequence; there should be a row for each.",
    ),
    (
        "padding-numbers",
        "(torch.arange(num_keys) < lengths[:, None]).long()",
        "The mask holds numbers, 0 and 1; a boolean one is wanted.",
    ),
    (
        "padding-query-axis",
        "(torch.arange(num_keys) < lengths[:, None])[:, None, :]",
        "There is an axis too many. The mask says which tokens are real, and has one row for each sequence.",
    ),
    (
        "padding-empty-kept",
        "torch.arange(num_keys) < lengths.clamp(min=1)[:, None]",
        "An empty sequence keeps one token. It has none, and that is allowed.",
    ),
):
    padding_mask.slip(_id, REAL, _new, _hint)


masked_self_attention = Check(
    reference.masked_self_attention,
    difficulty="core",
    minutes=25,
    hints=(
        "Make one boolean mask of queries by keys, True where *both* masks allow it. The rest is self-attention.",
        "`key_mask` has a row for each sequence. Which axis must be put in so that it says the same to every query?",
        "Without `causal` every pair is allowed: begin with a matrix of True. Then the two masks are independent of each other.",
    ),
    reproduces=FUSED,
    uses=("fused_qkv", "causal_mask"),
)


def _masked_case(draw, title, leading, causal, lengths=None, mask=None, **settings):
    d_k, d_in, d_v, tokens = _sizes(draw, 3)
    tokens = 7 if lengths is not None else tokens if mask is None else mask.shape[-1]
    inputs = _inputs(draw, leading, tokens, d_in, d_k, d_v)
    if lengths is not None:
        mask = np.arange(tokens) < np.asarray(lengths)[:, None]
    return Case(title, inputs | {"causal": causal, "key_mask": mask}, **settings)


@masked_self_attention.aspect("one mask alone", points=1)
def _masked_one(draw):
    yield _masked_case(draw, "causal, one sequence", (), True)
    yield _masked_case(draw, "causal, a batch", (2,), True)
    yield _masked_case(draw, "padding, a batch", (3,), False, [4, 7, 2])
    yield _masked_case(draw, "no mask at all", (2,), False)
    yield _masked_case(draw, "a single token", (1,), True, mask=np.ones((1, 1), bool))


@masked_self_attention.aspect("both masks together", points=1)
def _masked_both(draw):
    yield _masked_case(draw, "causal and padding", (3,), True, [4, 7, 2])
    yield _masked_case(draw, "as many sequences as tokens", (7,), True, [4, 7, 2, 1, 5, 6, 3])
    yield _masked_case(draw, "causal, padding anywhere", (4,), True, mask=draw.mask(4, 6))
    yield _masked_case(draw, "two leading axes", (2, 3), True, mask=draw.mask(2, 3, 6), strided=True)
    yield _masked_case(draw, "one padding mask for all", (3,), True, mask=draw.mask(1, 6))


@masked_self_attention.aspect("no influence of the future", points=1)
def _masked_future(draw):
    for title, causal, lengths in (
        ("later tokens are changed: earlier outputs must not move", True, None),
        ("the same with padding", True, [5, 7]),
    ):
        case = _masked_case(draw, title, (2,), causal, lengths)
        tokens, d_in = case.inputs["X"].shape[-2:]
        past = int(draw.rng.integers(2, tokens))
        later = 3 * draw.normal(2, tokens - past, d_in)
        yield dataclasses.replace(case, probe={"past": past, "later": later})


@masked_self_attention.aspect("tokens that may attend to nothing, gradients, single precision", points=1)
def _masked_nothing(draw):
    gradient = ("X", "W_Q", "W_K", "W_V")
    yield _masked_case(draw, "an empty sequence", (3,), True, [4, 0, 2], gradient=gradient)
    mask = draw.mask(2, 5)
    mask[0, :2] = False
    yield _masked_case(draw, "padding at the front", (2,), True, mask=mask, gradient=gradient)
    yield _masked_case(draw, "single precision", (3,), True, [4, 7, 2], dtype="float32")


CAUSAL = "attn_mask = causal_mask(length, length) if causal else torch.ones(length, length, dtype=torch.bool)"
ADD_PADDING = "attn_mask = attn_mask & key_mask[..., None, :]"
MASKED_ATTEND = "return scaled_dot_product_attention(query, key, value, attn_mask)"
MASKED_QKV = "query, key, value = fused_qkv(X, W_Q, W_K, W_V)"
MASKED_SCORES = "query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5"


masked_self_attention.edit(
    "pad-replaces-causal",
    "The padding mask replaces the causal one: as soon as there is padding, tokens see the future.",
    (ADD_PADDING, "attn_mask = key_mask[..., None, :]"),
    source="https://github.com/huggingface/candle/pull/3609",
)
masked_self_attention.edit(
    "causal-replaces-pad",
    "The padding mask is lost when `causal` is set: tokens attend to padding before them.",
    (ADD_PADDING, "attn_mask = attn_mask if causal else attn_mask & key_mask[..., None, :]"),
)
masked_self_attention.edit(
    "causal-ignored-without-mask-arg",
    "`causal` is ignored where no padding mask is given.",
    (CAUSAL, CAUSAL.replace("if causal", "if causal and key_mask is not None")),
    source="https://github.com/facebookresearch/xformers/issues/103",
)
masked_self_attention.edit(
    "masks-joined-by-or",
    "A pair is allowed if *one* of the masks allows it; both must.",
    (ADD_PADDING, "attn_mask = attn_mask | key_mask[..., None, :] if causal else key_mask[..., None, :]"),
)
masked_self_attention.edit(
    "causal-always",
    "The mask is causal even where `causal` is False.",
    (CAUSAL, "attn_mask = causal_mask(length, length)"),
)
masked_self_attention.edit(
    "causal-never",
    "`causal` changes nothing: tokens see the future.",
    (CAUSAL, "attn_mask = torch.ones(length, length, dtype=torch.bool)"),
)
masked_self_attention.edit(
    "masked-causal-transposed",
    "The triangle is the wrong one: each token sees itself and the *future*.",
    (CAUSAL, CAUSAL.replace("causal_mask(length, length)", "causal_mask(length, length).T")),
    source="https://github.com/marin-community/levanter/pull/102",
)
masked_self_attention.edit(
    "masked-causal-excludes-diagonal",
    "A token may not attend to itself here, so the first one may attend to nothing. The diagonal is allowed.",
    (CAUSAL, CAUSAL.replace("causal_mask(length, length)", "causal_mask(length, length).tril(-1)")),
    source="https://github.com/trymirai/lalamo/pull/273",
)
masked_self_attention.edit(
    "masked-causal-one-future",
    "Each token sees one token of the future: the diagonal is off by one.",
    (
        CAUSAL,
        CAUSAL.replace("causal_mask(length, length)", "torch.ones(length, length, dtype=torch.bool).tril(1)"),
    ),
    source="https://github.com/RVC-Boss/GPT-SoVITS/issues/965",
)
masked_self_attention.edit(
    "key-mask-on-queries",
    "The padding mask blocks the *queries* that are padding and lets real tokens attend to padding. It belongs to the keys, "
    "the last axis of the scores.",
    (ADD_PADDING, "attn_mask = attn_mask & key_mask[..., :, None]"),
)
masked_self_attention.edit(
    "key-mask-on-both",
    "Padded tokens may not ask either, so their outputs are zero. Block padding as keys only; what padded tokens put out is "
    "not read.",
    (ADD_PADDING, "attn_mask = attn_mask & key_mask[..., None, :] & key_mask[..., :, None]"),
)
masked_self_attention.edit(
    "key-mask-no-axis",
    "The padding mask lacks an axis for the queries. Where the sizes happen to fit, its rows are then taken for the queries; "
    "else the shapes do not fit.",
    (ADD_PADDING, "attn_mask = attn_mask & key_mask"),
    source="https://github.com/huggingface/transformers/issues/28215",
)
masked_self_attention.edit(
    "key-mask-inverted",
    "The padding mask is read the wrong way round: True is a real token. (`nn.MultiheadAttention` means the opposite.)",
    (ADD_PADDING, "attn_mask = attn_mask & ~key_mask[..., None, :]"),
)
masked_self_attention.edit(
    "padding-zeroed-not-masked",
    "Padded tokens are set to zero, but not masked. A zero key has score zero, and that is an ordinary score with weight.",
    (MASKED_QKV, "query, key, value = fused_qkv(X * attn_mask[..., -1, :, None], W_Q, W_K, W_V)"),
    (
        MASKED_ATTEND,
        "return scaled_dot_product_attention(query, key, value, causal_mask(length, length) if causal else None)",
    ),
)
masked_self_attention.edit(
    "self-mask-after-softmax",
    "The masks act after the softmax, so the weights that are left sum to less than one.",
    (MASKED_ATTEND, f"return (torch.softmax({MASKED_SCORES}, dim=-1) * attn_mask) @ value"),
    source="https://github.com/huggingface/pytorch-image-models/pull/2236",
)
masked_self_attention.edit(
    "self-mask-tiny-fill",
    "Blocked scores become nearly 0, which is an ordinary score. A score that gives no weight is very negative.",
    (MASKED_ATTEND, f"return torch.softmax(({MASKED_SCORES}).masked_fill(~attn_mask, -1e-9), dim=-1) @ value"),
    source="https://github.com/hyunwoongko/transformer/issues/10",
)
masked_self_attention.edit(
    "self-mask-multiplied",
    "The scores are multiplied by the mask: a blocked score becomes 0, and that is an ordinary score.",
    (MASKED_ATTEND, f"return torch.softmax({MASKED_SCORES} * attn_mask, dim=-1) @ value"),
    source="https://github.com/georg-wolflein/good-features/pull/1",
)
masked_self_attention.edit(
    "self-mask-nan",
    "A token that may attend to nothing comes out as NaN. Its output should be zeros; `scaled_dot_product_attention` sees "
    "to that.",
    (MASKED_ATTEND, f"return torch.softmax(({MASKED_SCORES}).masked_fill(~attn_mask, -torch.inf), dim=-1) @ value"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
masked_self_attention.edit(
    "self-mask-uniform",
    "A token that may attend to nothing gets the average of all values. Its output should be zeros.",
    (MASKED_ATTEND, f"return torch.softmax(({MASKED_SCORES}).masked_fill(~attn_mask, -1e9), dim=-1) @ value"),
    source="https://github.com/d2l-ai/d2l-en/pull/2423",
)
masked_self_attention.edit(
    "masked-attention-inverted",
    "The whole mask is turned round on its way: True is where a token may attend, here and in "
    "`scaled_dot_product_attention`.",
    (MASKED_ATTEND, "return scaled_dot_product_attention(query, key, value, ~attn_mask)"),
)
masked_self_attention.edit(
    "masked-mask-dropped",
    "The masks are made, but not handed on.",
    (MASKED_ATTEND, "return scaled_dot_product_attention(query, key, value)"),
)
masked_self_attention.edit(
    "masked-queries-keys-swapped",
    "Queries and keys have changed places.",
    (MASKED_QKV, "key, query, value = fused_qkv(X, W_Q, W_K, W_V)"),
)
