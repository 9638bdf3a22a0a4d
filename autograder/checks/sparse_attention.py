"""What right kernels of "Sparse attention" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import sparse_attention as reference

FUSED = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
    "torch.nn.attention.flex_attention.flex_attention",
)
# The N x N matrix of this many tokens, 8.1 GB of single precision, fits into no submission's memory.
LONG = 45_000
LONG_TITLE = "a sequence whose matrix of all pairs fits into no memory"
LONG_MB = 3_000


def _inputs(draw, leading, tokens, d_k, d_v):
    return {
        "query": draw.normal(*leading, tokens, d_k),
        "key": draw.normal(*leading, tokens, d_k),
        "value": draw.normal(*leading, tokens, d_v),
    }


def _tall(inputs):
    """The same with scores of some 1,000."""
    return inputs | {"query": 40 * inputs["query"], "key": 40 * inputs["key"]}


def _sizes(draw):
    """Widths, batch and heads, all different and none a window's length."""
    return draw.sizes(4, 4, 8)


TWICE = "The scores are scaled twice: `scaled_dot_product_attention` divides by the square root of d_k already."
DETACHED = "No gradient reaches the keys and the values: the tokens that are looked at must learn too."
MATRIX = (
    "The outputs are right, but the matrix of all pairs of tokens is made, and then most of it is masked: the work and the "
    "memory are those of full attention."
)
PADDING = (
    "Behind the ends of the sequence there is nothing to attend to. The zeros that you fill up with have a score of 0 and "
    "take a share of the weight: mask them."
)
UNNORMALISED = (
    "The softmax is over all scores, and the weights outside the pattern are set to zero afterwards: what is left no longer "
    "sums to one. Mask the scores before the softmax."
)


local_attention = Check(
    reference.local_attention,
    difficulty="stretch",
    minutes=40,
    hints=(
        "Cut the queries into blocks of `window` tokens. Which keys can a query of a block see, at the farthest?",
        "Fill the sequence up to whole blocks, and the keys by a block on either side. `unfold` then gives each block of "
        "queries its stretch of keys as a view; `scaled_dot_product_attention` takes blocks as one more leading axis.",
        "Inside a stretch most keys are still too far. The distance `i - j` is alike in all blocks, so one mask of "
        "(window, span) does for all; a second, of (block, span), says which keys are real.",
    ),
    reproduces=FUSED,
)


@local_attention.aspect("neighbours on both sides", points=2)
def _local_values(draw):
    d_k, d_v, *_ = _sizes(draw)
    yield Case("a window of 3", _inputs(draw, (), 14, d_k, d_v) | {"window": 3})
    yield Case("a window of 2, whole blocks", _inputs(draw, (), 12, d_k, d_v) | {"window": 2})
    yield Case("a window of 1: the token alone", _inputs(draw, (), 7, d_k, d_v) | {"window": 1})
    yield Case("a window as long as the sequence", _inputs(draw, (), 9, d_k, d_v) | {"window": 9})
    yield Case("a window longer than the sequence", _inputs(draw, (), 5, d_k, d_v) | {"window": 8})
    yield Case("a single token", _inputs(draw, (), 1, d_k, d_v) | {"window": 3})


@local_attention.aspect("the past alone", points=1)
def _local_causal(draw):
    d_k, d_v, *_ = _sizes(draw)
    yield Case("a causal window of 3", _inputs(draw, (), 14, d_k, d_v) | {"window": 3, "causal": True})
    yield Case("a causal window of 1", _inputs(draw, (), 7, d_k, d_v) | {"window": 1, "causal": True})
    yield Case("a causal window over all", _inputs(draw, (), 5, d_k, d_v) | {"window": 8, "causal": True})


@local_attention.aspect("any leading dimensions, large scores", points=1)
def _local_leading(draw):
    d_k, d_v, batch, heads = _sizes(draw)
    yield Case("a batch", _inputs(draw, (batch,), 11, d_k, d_v) | {"window": 3})
    yield Case("a batch of one", _inputs(draw, (1,), 11, d_k, d_v) | {"window": 3, "causal": True})
    yield Case("a batch of heads", _inputs(draw, (batch, heads), 10, d_k, d_v) | {"window": 3}, strided=True)
    yield Case("scores of some 1,000", _tall(_inputs(draw, (batch,), 11, d_k, d_v)) | {"window": 3})


@local_attention.aspect("work in proportion to the window", points=2)
def _local_work(draw):
    yield Case("counted", _inputs(draw, (), 500, 4, 3) | {"window": 16}, count_work=True)
    yield Case("counted, causal", _inputs(draw, (), 500, 4, 3) | {"window": 16, "causal": True}, count_work=True)
    if draw.hidden:
        inputs = _inputs(draw, (), LONG, 2, 3) | {"window": 3}
        yield Case(LONG_TITLE, inputs, dtype="float32", memory_mb=LONG_MB)


@local_attention.aspect("gradients and single precision", points=1)
def _local_gradients(draw):
    d_k, d_v, batch, _ = _sizes(draw)
    inputs = _inputs(draw, (batch,), 11, d_k, d_v)
    yield Case("gradients", inputs | {"window": 3}, gradient=("query", "key", "value"))
    yield Case("single precision", inputs | {"window": 3, "causal": True}, dtype="float32")


NEAR = "near = distance.abs() < window"
CAUSAL = "    if causal:\n        near = near & (distance >= 0)\n"
AHEAD = "ahead = 0 if causal else window"
LOCAL_MASK = "near & real[:, None, :])"
LOCAL_ATTEND = (
    "    attn_output = scaled_dot_product_attention(query_blocks, key_blocks, value_blocks, near & real[:, None, :])\n"
)
WINDOW_SOURCE = "https://github.com/huggingface/transformers/issues/39408"

local_attention.edit(
    "local-window-closed",
    "The window is one token too wide. A token at distance `window` is outside: `|i - j| < window`.",
    (NEAR, "near = distance.abs() <= window"),
    source=WINDOW_SOURCE,
)
local_attention.edit(
    "local-window-of-both-sides",
    "You take `window` for the number of tokens on both sides together. Here it reaches `window - 1` tokens to each side.",
    (NEAR, "near = distance.abs() <= window // 2"),
    source="https://github.com/microsoft/onnxruntime/pull/25927",
)
local_attention.edit(
    "local-window-twice-as-wide",
    "The window is about twice as wide as it should be.",
    (NEAR, "near = distance.abs() < 2 * window - 1"),
    source="duoan/TorchCode, sliding-window tests that accept a window twice as wide",
)
local_attention.edit(
    "local-causal-ignored",
    "With `causal` a token must not see those after it; yours does.",
    (AHEAD, "ahead = window"),
    (CAUSAL, ""),
)
local_attention.edit(
    "local-always-causal",
    "A token sees only those before it, although `causal` was not asked for. A window reaches to both sides.",
    ("    if causal:\n", "    if True:\n"),
    source="https://github.com/NVIDIA/TransformerEngine/issues/629",
)
local_attention.edit(
    "local-causal-closed",
    "With `causal` the window is one token too wide: `0 <= i - j < window`, the token itself included.",
    ("near = near & (distance >= 0)", "near = (distance >= 0) & (distance <= window)"),
    source="https://github.com/onnx/onnx/pull/8108",
)
local_attention.edit(
    "local-causal-without-itself",
    "With `causal` a token must still see itself.",
    ("(distance >= 0)", "(distance > 0)"),
    source="https://github.com/trymirai/lalamo/pull/273",
)
local_attention.edit(
    "local-looks-ahead",
    "With `causal` a token sees those after it in place of those before it: the sign of the distance is turned round.",
    (AHEAD, "ahead = window"),
    ("(distance >= 0)", "(distance <= 0)"),
)
local_attention.edit(
    "local-own-block",
    "Tokens see only their own block. Those at its edge have neighbours in the next block, too.",
    (NEAR, f"{NEAR}\n    near = near & (torch.arange(span) >= window) & (torch.arange(span) < 2 * window)"),
)
local_attention.edit(
    "local-whole-blocks",
    "Tokens see whole blocks, also what is farther away in them than the window. Mask by distance inside the blocks.",
    (NEAR, "near = torch.ones_like(distance, dtype=torch.bool)"),
)
local_attention.edit("local-padding-seen", PADDING, (LOCAL_MASK, "near)"))
local_attention.edit(
    "local-wraps-around",
    "The first tokens see the last ones: the sequence is closed to a ring (`torch.roll` does that). Beyond its ends there is "
    "nothing.",
    (
        "F.pad(x, (0, 0, window, missing + ahead))",
        "x[..., torch.arange(-window, blocks * window + ahead) % length, :]",
    ),
    (LOCAL_MASK, "near)"),
)
local_attention.edit(
    "local-rest-dropped",
    "The last tokens, which fill no whole block, get zeros. Fill the block up, and cut the outputs afterwards.",
    (
        "return attn_output.flatten(-3, -2)[..., :length, :]",
        "whole = torch.arange(length) < length // window * window\n"
        "    return attn_output.flatten(-3, -2)[..., :length, :] * whole[:, None]",
    ),
)
local_attention.edit(
    "local-masked-after-softmax",
    UNNORMALISED,
    (
        LOCAL_ATTEND,
        "    weights = torch.softmax(query_blocks @ key_blocks.mT / query.shape[-1] ** 0.5, dim=-1)\n"
        "    attn_output = (weights * (near & real[:, None, :])) @ value_blocks\n",
    ),
)
local_attention.edit("local-scaled-twice", TWICE, ("F.pad(query,", "F.pad(query / query.shape[-1] ** 0.5,"))
local_attention.edit("local-detached", DETACHED, ("for x in (key, value)", "for x in (key.detach(), value.detach())"))


@local_attention.mistake("local-full-matrix", MATRIX)
def _local_full(query, key, value, window, causal=False):
    pattern = reference.sparse_pattern(query.shape[-2], window=window, causal=causal)
    return reference.scaled_dot_product_attention(query, key, value, pattern)


strided_attention = Check(
    reference.strided_attention,
    difficulty="core",
    minutes=25,
    hints=(
        "Who sees whom? With a stride of 3, tokens 0, 3, 6, … see each other and nobody else; so do 1, 4, 7, …",
        "Fill up to a multiple of the stride, cut the token axis into (row, stride), and exchange the two: each remainder is "
        "a short sequence of its own, with full attention.",
        "Two masks: what was filled up is not there to be seen, and with `causal` no later row. At the end exchange the axes "
        "back before they are joined.",
    ),
    reproduces=FUSED,
)


@strided_attention.aspect("tokens whole strides away", points=2)
def _strided_values(draw):
    d_k, d_v, *_ = _sizes(draw)
    yield Case("a stride of 3", _inputs(draw, (), 14, d_k, d_v) | {"stride": 3})
    yield Case("a stride that divides the length", _inputs(draw, (), 12, d_k, d_v) | {"stride": 2})
    yield Case("as many rows as the stride", _inputs(draw, (), 9, d_k, d_v) | {"stride": 3})
    yield Case("a stride of 1: every token", _inputs(draw, (), 7, d_k, d_v) | {"stride": 1})
    yield Case("a stride longer than the sequence", _inputs(draw, (), 5, d_k, d_v) | {"stride": 8})
    yield Case("a single token", _inputs(draw, (), 1, d_k, d_v) | {"stride": 3})


@strided_attention.aspect("the past alone", points=1)
def _strided_causal(draw):
    d_k, d_v, *_ = _sizes(draw)
    yield Case("a causal stride of 3", _inputs(draw, (), 14, d_k, d_v) | {"stride": 3, "causal": True})
    yield Case("a causal stride of 1", _inputs(draw, (), 7, d_k, d_v) | {"stride": 1, "causal": True})


@strided_attention.aspect("any leading dimensions, large scores", points=1)
def _strided_leading(draw):
    d_k, d_v, batch, heads = _sizes(draw)
    yield Case("a batch", _inputs(draw, (batch,), 11, d_k, d_v) | {"stride": 3})
    yield Case("a batch of one", _inputs(draw, (1,), 11, d_k, d_v) | {"stride": 2, "causal": True})
    yield Case("a batch of heads", _inputs(draw, (batch, heads), 10, d_k, d_v) | {"stride": 3}, strided=True)
    yield Case("scores of some 1,000", _tall(_inputs(draw, (batch,), 11, d_k, d_v)) | {"stride": 3})


@strided_attention.aspect("work that falls with the stride", points=2)
def _strided_work(draw):
    yield Case("counted", _inputs(draw, (), 130, 4, 3) | {"stride": 12}, count_work=True)
    yield Case("counted, causal", _inputs(draw, (), 130, 4, 3) | {"stride": 12, "causal": True}, count_work=True)
    if draw.hidden:
        inputs = _inputs(draw, (), LONG, 2, 3) | {"stride": 3_001}
        yield Case(LONG_TITLE, inputs, dtype="float32", memory_mb=LONG_MB)


@strided_attention.aspect("gradients and single precision", points=1)
def _strided_gradients(draw):
    d_k, d_v, batch, _ = _sizes(draw)
    inputs = _inputs(draw, (batch,), 11, d_k, d_v)
    yield Case("gradients", inputs | {"stride": 3}, gradient=("query", "key", "value"))
    yield Case("single precision", inputs | {"stride": 3, "causal": True}, dtype="float32")


CLASSES = ".unflatten(-2, (rows, stride)).transpose(-3, -2)"
POSITIONS = "position = torch.arange(rows * stride).reshape(rows, stride).T"
JOINED = "attn_output.transpose(-3, -2).flatten(-3, -2)"
STRIDED_CAUSAL = "attn_mask = attn_mask & (position[:, None, :] <= position[:, :, None])"

strided_attention.edit(
    "strided-blocks",
    "Tokens see the block of `stride` tokens that they stand in. They should see those that stand whole strides away: "
    "exchange the two axes after the cut.",
    (CLASSES, ".unflatten(-2, (rows, stride))"),
    (POSITIONS, "position = torch.arange(rows * stride).reshape(rows, stride)"),
    (JOINED, "attn_output.flatten(-3, -2)"),
)
strided_attention.edit(
    "strided-not-put-back",
    "The outputs are right, but in another order than the tokens: exchange the axes back before you join them.",
    (JOINED, "attn_output.flatten(-3, -2)"),
)
strided_attention.edit(
    "strided-padding-seen",
    PADDING,
    ("(position < length)[:, None, :]", "torch.ones(stride, 1, rows, dtype=torch.bool)"),
)
strided_attention.edit(
    "strided-causal-ignored",
    "With `causal` a token must not see those after it; yours does.",
    ("    if causal:\n", "    if False:\n"),
)
strided_attention.edit(
    "strided-always-causal",
    "A token sees only those before it, although `causal` was not asked for.",
    ("    if causal:\n", "    if True:\n"),
)
strided_attention.edit(
    "strided-causal-without-itself",
    "With `causal` a token must still see itself.",
    ("position[:, None, :] <= position[:, :, None]", "position[:, None, :] < position[:, :, None]"),
)
strided_attention.edit(
    "strided-looks-ahead",
    "With `causal` a token sees those after it in place of those before it.",
    ("position[:, None, :] <= position[:, :, None]", "position[:, None, :] >= position[:, :, None]"),
)
strided_attention.edit(
    "strided-one-more",
    "The stride is one too long: between two tokens that see each other stand `stride - 1` others.",
    ("    length = query.shape[-2]\n", "    length = query.shape[-2]\n    stride = stride + 1\n"),
)
strided_attention.edit(
    "strided-scaled-twice",
    TWICE,
    ("for x in (query, key, value)", "for x in (query / query.shape[-1] ** 0.5, key, value)"),
)
strided_attention.edit(
    "strided-detached", DETACHED, ("for x in (query, key, value)", "for x in (query, key.detach(), value.detach())")
)


def _by_pattern(pattern):
    """Full attention with the mask that ``pattern(distance, stride)`` gives."""

    def kernel(query, key, value, stride, causal=False):
        distance = reference.torch.arange(query.shape[-2])[:, None] - reference.torch.arange(query.shape[-2])
        mask = pattern(distance, stride)
        return reference.scaled_dot_product_attention(query, key, value, mask & (distance >= 0) if causal else mask)

    return kernel


strided_attention.mistake("strided-full-matrix", MATRIX)(_by_pattern(lambda distance, stride: distance % stride == 0))
strided_attention.mistake(
    "strided-from-the-first",
    "All tokens see the same ones, at the multiples of the stride. The stride is counted from the token itself.",
)(_by_pattern(lambda distance, stride: (distance[:1] % stride == 0).expand(distance.shape)))
strided_attention.mistake(
    "strided-and-window",
    "The tokens between are seen too: that is the union with a window, which is another head's pattern.",
    source="https://github.com/openai/sparse_attention/issues/7",
)(_by_pattern(lambda distance, stride: (distance % stride == 0) | (distance.abs() < stride)))
strided_attention.mistake(
    "strided-without-itself", "A token must see itself too: a distance of 0 is a multiple of the stride."
)(_by_pattern(lambda distance, stride: (distance % stride == 0) & (distance != 0)))


global_attention = Check(
    reference.global_attention,
    difficulty="core",
    minutes=20,
    hints=(
        "Two attentions: all tokens look at the special ones, and the special ones look at all.",
        "Indexing with `positions` along the token axis picks the special rows, whatever the leading axes are.",
        "The second attention gives one output for each special token; it takes the place of what the first gave for it. "
        "`index_copy` puts rows in their places and makes a new tensor.",
    ),
    reproduces=FUSED,
)


def _positions(*numbers):
    return {"positions": np.array(numbers, dtype=np.int64)}


@global_attention.aspect("through special tokens", points=2)
def _global_values(draw):
    d_k, d_v, *_ = _sizes(draw)
    inputs = _inputs(draw, (), 13, d_k, d_v)
    yield Case("two special tokens", inputs | _positions(3, 10))
    yield Case("one, in front", inputs | _positions(0))
    yield Case("in another order", inputs | _positions(9, 2, 5))
    yield Case("every token is special", _inputs(draw, (), 3, d_k, d_v) | _positions(2, 0, 1))
    yield Case("no token is special", inputs | _positions())
    yield Case("a single token", _inputs(draw, (), 1, d_k, d_v) | _positions(0))


@global_attention.aspect("any leading dimensions, large scores", points=1)
def _global_leading(draw):
    d_k, d_v, batch, heads = _sizes(draw)
    yield Case("a batch", _inputs(draw, (batch,), 11, d_k, d_v) | _positions(10, 4))
    yield Case("a batch of one", _inputs(draw, (1,), 11, d_k, d_v) | _positions(1, 4))
    yield Case("a batch of heads", _inputs(draw, (batch, heads), 10, d_k, d_v) | _positions(9, 0, 6), strided=True)
    yield Case("scores of some 1,000", _tall(_inputs(draw, (batch,), 11, d_k, d_v)) | _positions(4, 7))


@global_attention.aspect("work in proportion to the special tokens", points=2)
def _global_work(draw):
    yield Case("counted", _inputs(draw, (), 130, 4, 3) | _positions(97, 21), count_work=True)
    if draw.hidden:
        inputs = _inputs(draw, (), LONG, 2, 3) | _positions(44_000, 7, 31_000)
        yield Case(LONG_TITLE, inputs, dtype="float32", memory_mb=LONG_MB)


@global_attention.aspect("gradients and single precision", points=1)
def _global_gradients(draw):
    d_k, d_v, batch, _ = _sizes(draw)
    inputs = _inputs(draw, (batch,), 11, d_k, d_v)
    yield Case("gradients", inputs | _positions(8, 3), gradient=("query", "key", "value"))
    yield Case("single precision", inputs | _positions(8, 3), dtype="float32")


SEEN = "scaled_dot_product_attention(query, key[..., positions, :], value[..., positions, :])"
SEEING = "scaled_dot_product_attention(query[..., positions, :], key, value)"
PUT = "seen_by_all.index_copy(-2, positions, seeing_all)"
SORTED_HINT = "The outputs of the special tokens come in the order of `positions`, and you put them back in the order of the sequence."
NO_ROWS_HINT = "The special tokens see only each other. They must see every token: that is what they collect."

global_attention.edit("global-not-seeing-all", NO_ROWS_HINT, (PUT, "seen_by_all"))
global_attention.edit(
    "global-not-seen",
    "The special tokens see every token, but nobody sees them: the other tokens get zeros.",
    (PUT, "torch.zeros_like(value).index_copy(-2, positions, seeing_all)"),
)
global_attention.edit(
    "global-added",
    "What a special token gets from all tokens is added to what it got from the special ones; it should replace it.",
    (PUT, "seen_by_all.index_add(-2, positions, seeing_all)"),
    source="https://github.com/huggingface/transformers/pull/5659",
)
global_attention.edit(
    "global-sorted",
    SORTED_HINT,
    (PUT, "seen_by_all.index_copy(-2, positions.sort().values, seeing_all)"),
)
global_attention.edit(
    "global-first-tokens",
    "The special tokens are taken from the front of the sequence; they stand at `positions`.",
    ("    seen_by_all", "    positions = torch.arange(len(positions))\n    seen_by_all"),
    source="https://github.com/huggingface/transformers/issues/5646",
)
global_attention.edit(
    "global-keys-as-queries",
    "The special tokens look with their keys; they have queries for that.",
    (SEEING, "scaled_dot_product_attention(key[..., positions, :], key, value)"),
)
global_attention.edit(
    "global-from-the-end",
    "The positions are counted from the end of the sequence.",
    ("    seen_by_all", "    positions = query.shape[-2] - 1 - positions\n    seen_by_all"),
)
global_attention.edit(
    "global-averaged",
    "The tokens take the plain mean of the special tokens' values; they should weigh them by their scores.",
    (SEEN, "value[..., positions, :].mean(-2, keepdim=True).expand_as(value)"),
)
global_attention.edit(
    "global-scaled-twice", TWICE, ("    seen_by_all =", "    query = query / query.shape[-1] ** 0.5\n    seen_by_all =")
)
global_attention.edit(
    "global-detached",
    DETACHED,
    ("    seen_by_all =", "    key, value = key.detach(), value.detach()\n    seen_by_all ="),
)


def _with_mask(change):
    """Full attention with the special tokens' mask, changed."""

    def kernel(query, key, value, positions):
        mask = change(reference.sparse_pattern(query.shape[-2], positions=positions))
        return reference.scaled_dot_product_attention(query, key, value, mask)

    return kernel


global_attention.mistake("global-full-matrix", MATRIX)(_with_mask(lambda mask: mask))
global_attention.mistake(
    "global-and-itself", "A token that is not special sees itself too; here it sees the special tokens only."
)(_with_mask(lambda mask: mask | reference.torch.eye(len(mask), dtype=bool)))
global_attention.mistake("global-everybody", "Every token sees every token: that is full attention.")(
    _with_mask(reference.torch.ones_like)
)


external_global_attention = Check(
    reference.external_global_attention,
    difficulty="core",
    minutes=15,
    hints=(
        "The sequence's tokens look at the special tokens alone. What do the special tokens look at?",
        "One softmax over two sets of keys is the softmax over the keys of both, one after the other.",
        "Join the keys with `torch.cat` along the token axis, and the values in the very same order.",
    ),
    reproduces=FUSED,
)


def _external(draw, leading, tokens, special, d_k, d_v):
    inputs = _inputs(draw, leading, tokens, d_k, d_v)
    return inputs | {f"global_{name}": array for name, array in _inputs(draw, leading, special, d_k, d_v).items()}


@external_global_attention.aspect("through tokens beside the sequence", points=2)
def _external_values(draw):
    d_k, d_v, *_ = _sizes(draw)
    yield Case("two special tokens", _external(draw, (), 11, 2, d_k, d_v))
    yield Case("one special token", _external(draw, (), 9, 1, d_k, d_v))
    yield Case("more special tokens than others", _external(draw, (), 3, 10, d_k, d_v))
    yield Case("as many special tokens as others", _external(draw, (), 9, 9, d_k, d_v))


@external_global_attention.aspect("any leading dimensions, large scores", points=1)
def _external_leading(draw):
    d_k, d_v, batch, heads = _sizes(draw)
    yield Case("a batch", _external(draw, (batch,), 11, 2, d_k, d_v))
    yield Case("a batch of one", _external(draw, (1,), 11, 2, d_k, d_v))
    yield Case("a batch of heads", _external(draw, (batch, heads), 10, 3, d_k, d_v), strided=True)
    inputs = _external(draw, (batch,), 11, 2, d_k, d_v)
    yield Case(
        "scores of some 1,000", {name: 40 * array if "value" not in name else array for name, array in inputs.items()}
    )


@external_global_attention.aspect("work in proportion to the special tokens", points=1)
def _external_work(draw):
    yield Case("counted", _external(draw, (), 130, 2, 4, 3), count_work=True)
    if draw.hidden:
        yield Case(LONG_TITLE, _external(draw, (), LONG, 3, 2, 3), dtype="float32", memory_mb=LONG_MB)


@external_global_attention.aspect("gradients and single precision", points=1)
def _external_gradients(draw):
    d_k, d_v, batch, _ = _sizes(draw)
    inputs = _external(draw, (batch,), 11, 2, d_k, d_v)
    yield Case("gradients", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


EXTERNAL_SEEN = "attn_output = scaled_dot_product_attention(query, global_key, global_value)"
EVERY_KEY = "torch.cat([global_key, key], dim=-2)"
EVERY_VALUE = "torch.cat([global_value, value], dim=-2)"
EXTERNAL_RETURN = "return attn_output, scaled_dot_product_attention(global_query, every_key, every_value)"

external_global_attention.edit(
    "external-not-each-other",
    "The special tokens see the sequence, but not each other and not themselves.",
    (EVERY_KEY, "key"),
    (EVERY_VALUE, "value"),
)
external_global_attention.edit(
    "external-only-each-other",
    "The special tokens see only each other; nothing of the sequence reaches them.",
    (EVERY_KEY, "global_key"),
    (EVERY_VALUE, "global_value"),
)
external_global_attention.edit(
    "external-two-softmaxes",
    "The special tokens look at the sequence and at each other in two softmaxes whose results are added. One softmax over "
    "all of those keys shares out one weight of 1.",
    (
        EXTERNAL_RETURN,
        "own = scaled_dot_product_attention(global_query, global_key, global_value)\n"
        "    return attn_output, own + scaled_dot_product_attention(global_query, key, value)",
    ),
)
external_global_attention.edit(
    "external-averaged",
    "The special tokens look at the sequence and at each other in two softmaxes whose results are averaged. One softmax "
    "over all of those keys shares out the weight by the scores.",
    (
        EXTERNAL_RETURN,
        "own = scaled_dot_product_attention(global_query, global_key, global_value)\n"
        "    return attn_output, (own + scaled_dot_product_attention(global_query, key, value)) / 2",
    ),
)
external_global_attention.edit(
    "external-values-in-another-order",
    "Keys and values are joined in different orders, so each key brings the value of another token.",
    (EVERY_VALUE, "torch.cat([value, global_value], dim=-2)"),
)
external_global_attention.edit(
    "external-outputs-swapped",
    "The two outputs have changed places: the sequence's come first.",
    (EXTERNAL_RETURN, "return scaled_dot_product_attention(global_query, every_key, every_value), attn_output"),
)
external_global_attention.edit(
    "external-and-itself",
    "A token of the sequence sees itself too, beside the special tokens; here it sees these alone.",
    (
        EXTERNAL_SEEN,
        "scores = torch.cat([query @ global_key.mT, (query * key).sum(-1, keepdim=True)], dim=-1)\n"
        "    weights = torch.softmax(scores / query.shape[-1] ** 0.5, dim=-1)\n"
        "    attn_output = weights[..., :-1] @ global_value + weights[..., -1:] * value",
    ),
)
external_global_attention.edit(
    "external-queries-of-the-sequence",
    "The special tokens look with the mean of the sequence's queries; they have queries of their own.",
    (
        "scaled_dot_product_attention(global_query,",
        "scaled_dot_product_attention(query.mean(-2, keepdim=True).expand_as(global_query),",
    ),
)
external_global_attention.edit(
    "external-updated-values",
    "The special tokens take the outputs of the sequence. Both attend at once, to the values that came in.",
    (EVERY_VALUE, "torch.cat([global_value, attn_output], dim=-2)"),
)
external_global_attention.edit(
    "external-scaled-twice",
    TWICE,
    (
        "    attn_output =",
        "    query, global_query = (x / x.shape[-1] ** 0.5 for x in (query, global_query))\n    attn_output =",
    ),
)
external_global_attention.edit(
    "external-detached",
    "No gradient reaches the sequence's keys and values through the special tokens' outputs.",
    (EVERY_KEY, "torch.cat([global_key, key.detach()], dim=-2)"),
    (EVERY_VALUE, "torch.cat([global_value, value.detach()], dim=-2)"),
)


@external_global_attention.mistake(
    "external-everybody", "Every token of the sequence sees every other: that is full attention over both together."
)
def _external_full(query, key, value, global_query, global_key, global_value):
    pairs = ((global_query, query), (global_key, key), (global_value, value))
    output = reference.scaled_dot_product_attention(*(reference.torch.cat(pair, dim=-2) for pair in pairs))
    special = global_query.shape[-2]
    return output[..., special:, :], output[..., :special, :]


longformer_attention = Check(
    reference.longformer_attention,
    difficulty="stretch",
    minutes=40,
    hints=(
        "Begin with the blocks of `local_attention`. The special tokens are more keys that every block of queries sees: put "
        "them in front of each block's stretch.",
        "A special token can stand in a stretch as well. Where it does, mask it there: it is among the first keys already.",
        "The special tokens' own rows see everything. Compute them apart and put them in their places at the end.",
    ),
    reproduces=FUSED,
)


@longformer_attention.aspect("window and special tokens in one softmax", points=2)
def _longformer_values(draw):
    d_k, d_v, *_ = _sizes(draw)
    inputs = _inputs(draw, (), 16, d_k, d_v) | {"window": 3}
    yield Case("one special token", inputs | _positions(7))
    yield Case("several, in another order", inputs | _positions(12, 0, 4))
    yield Case("no special token", inputs | _positions())
    yield Case("every token is special", _inputs(draw, (), 4, d_k, d_v) | {"window": 2} | _positions(2, 0, 3, 1))
    yield Case("a window of 1", _inputs(draw, (), 7, d_k, d_v) | {"window": 1} | _positions(5, 1))
    yield Case("a window longer than the sequence", _inputs(draw, (), 5, d_k, d_v) | {"window": 8} | _positions(3))


@longformer_attention.aspect("any leading dimensions, large scores", points=1)
def _longformer_leading(draw):
    d_k, d_v, batch, heads = _sizes(draw)
    yield Case("a batch", _inputs(draw, (batch,), 11, d_k, d_v) | {"window": 3} | _positions(10, 4))
    yield Case("a batch of one", _inputs(draw, (1,), 11, d_k, d_v) | {"window": 2} | _positions(9, 4))
    heads_of = _inputs(draw, (batch, heads), 10, d_k, d_v) | {"window": 3}
    yield Case("a batch of heads", heads_of | _positions(9, 0, 6), strided=True)
    yield Case("scores of some 1,000", _tall(_inputs(draw, (batch,), 11, d_k, d_v)) | {"window": 3} | _positions(7, 4))


@longformer_attention.aspect("work in proportion to window and special tokens", points=2)
def _longformer_work(draw):
    yield Case("counted", _inputs(draw, (), 500, 4, 3) | {"window": 16} | _positions(397, 21), count_work=True)
    if draw.hidden:
        inputs = _inputs(draw, (), LONG, 2, 3) | {"window": 3} | _positions(44_000, 7)
        yield Case(LONG_TITLE, inputs, dtype="float32", memory_mb=LONG_MB)


@longformer_attention.aspect("gradients and single precision", points=1)
def _longformer_gradients(draw):
    d_k, d_v, batch, _ = _sizes(draw)
    inputs = _inputs(draw, (batch,), 11, d_k, d_v) | {"window": 3} | _positions(8, 3)
    yield Case("gradients", inputs, gradient=("query", "key", "value"))
    yield Case("single precision", inputs, dtype="float32")


ORDINARY = "(position >= 0) & (position < length) & ~torch.isin(position, positions)"
LONGFORMER_NEAR = "(distance.abs() < window) & ordinary[:, None, :]"
LONGFORMER_ATTEND = "    attn_output = scaled_dot_product_attention(query_blocks, seen(key), seen(value), attn_mask)\n"
LONGFORMER_FLAT = "    attn_output = attn_output.flatten(-3, -2)[..., :length, :]\n"
LONGFORMER_PUT = "attn_output.index_copy(-2, positions, seeing_all)"

longformer_attention.edit(
    "longformer-counted-twice",
    "A special token that stands in the window counts twice: once as special, once as neighbour. Mask it in the window.",
    (ORDINARY, "(position >= 0) & (position < length)"),
)
longformer_attention.edit("longformer-padding-seen", PADDING, (ORDINARY, "~torch.isin(position, positions)"))
longformer_attention.edit(
    "longformer-not-seeing-all",
    NO_ROWS_HINT.replace("only each other", "only each other and their neighbours"),
    (LONGFORMER_PUT, "attn_output"),
)
longformer_attention.edit(
    "longformer-special-not-seen",
    "Tokens outside a special token's window do not see it: a special token must be seen by all.",
    ("F.pad(near, (len(positions), 0), value=True)", "F.pad(near, (len(positions), 0), value=False)"),
    (ORDINARY, "(position >= 0) & (position < length)"),
)
longformer_attention.edit(
    "longformer-never-in-the-window",
    "A special token is hidden from its neighbours: it is masked in the window and not seen as special either.",
    (
        "attn_mask = F.pad(near, (len(positions), 0), value=True)",
        "far = (torch.arange(blocks * window).reshape(blocks, window, 1) - positions).abs() >= window\n"
        "    attn_mask = torch.cat([far, near], dim=-1)",
    ),
)
longformer_attention.edit(
    "longformer-two-softmaxes",
    "Two attentions are added, one over the window and one over the special tokens, each with weights that sum to one. Their "
    "scores belong into one softmax.",
    (
        LONGFORMER_FLAT,
        "    local = scaled_dot_product_attention(query_blocks, seen(key), seen(value), F.pad(near, (len(positions), 0)))\n"
        "    others = torch.zeros_like(near)\n"
        "    special = F.pad(others, (len(positions), 0), value=True)\n"
        "    attn_output = local + scaled_dot_product_attention(query_blocks, seen(key), seen(value), special)\n"
        + LONGFORMER_FLAT,
    ),
)
longformer_attention.edit(
    "longformer-window-closed",
    "The window is one token too wide. A token at distance `window` is outside: `|i - j| < window`.",
    ("(distance.abs() < window)", "(distance.abs() <= window)"),
    source=WINDOW_SOURCE,
)
longformer_attention.edit(
    "longformer-causal-window",
    "The window reaches only back. It should reach to both sides.",
    ("(distance.abs() < window)", "(distance.abs() < window) & (distance >= 0)"),
)
longformer_attention.edit(
    "longformer-own-block",
    "Tokens see only the neighbours of their own block. Those at its edge have neighbours in the next block, too.",
    (LONGFORMER_NEAR, f"{LONGFORMER_NEAR} & (torch.arange(span) // window == 1)"),
)
longformer_attention.edit(
    "longformer-sorted",
    SORTED_HINT,
    (LONGFORMER_PUT, "attn_output.index_copy(-2, positions.sort().values, seeing_all)"),
)
longformer_attention.edit(
    "longformer-added",
    "What a special token gets from all tokens is added to what it got from its neighbours; it should replace it.",
    (LONGFORMER_PUT, "attn_output.index_add(-2, positions, seeing_all)"),
    source="https://github.com/huggingface/transformers/pull/5659",
)
longformer_attention.edit(
    "longformer-masked-after-softmax",
    UNNORMALISED,
    (
        LONGFORMER_ATTEND,
        "    weights = torch.softmax(query_blocks @ seen(key).mT / query.shape[-1] ** 0.5, dim=-1)\n"
        "    attn_output = (weights * attn_mask) @ seen(value)\n",
    ),
)
longformer_attention.edit(
    "longformer-scaled-twice", TWICE, ("    blocks = ", "    query = query / query.shape[-1] ** 0.5\n    blocks = ")
)
longformer_attention.edit(
    "longformer-detached", DETACHED, ("    blocks = ", "    key, value = key.detach(), value.detach()\n    blocks = ")
)


@longformer_attention.mistake("longformer-full-matrix", MATRIX)
def _longformer_full(query, key, value, window, positions):
    pattern = reference.sparse_pattern(query.shape[-2], window=window, positions=positions)
    return reference.scaled_dot_product_attention(query, key, value, pattern)


sparse_pattern = Check(
    reference.sparse_pattern,
    difficulty="warm-up",
    minutes=20,
    hints=(
        "A column of row numbers minus a row of column numbers is the table of all distances `i - j`.",
        "Each part is a boolean table of its own; what one of them allows is allowed: `|`.",
        "A special token's row and its column are True. `scatter` along a row sets the entries that an index names.",
    ),
)


def _pattern(title, length, **options):
    arrays = {name: np.array(value, np.int64) if isinstance(value, list) else value for name, value in options.items()}
    return Case(title, {"length": length}, arrays)


def _random_keys(draw, tokens, count):
    """Keys for each token that stand far from it on both sides, and others; no two rows agree in their last entry."""
    keys = (np.arange(tokens)[:, None] + draw.rng.integers(3, tokens - 2, (tokens, count))) % tokens
    keys[:, 0] = (2 * np.arange(tokens) + 5) % tokens
    return keys.astype(np.int64)


@sparse_pattern.aspect("window and stride", points=1)
def _pattern_window(draw):
    (more,) = draw.sizes(1, 0, 4)
    yield _pattern("a window of 3", 9 + more, window=3)
    yield _pattern("a window of 1", 4 + more, window=1)
    yield _pattern("a stride of 4", 11 + more, stride=4)
    yield _pattern("window and stride", 12 + more, window=2, stride=5)
    yield _pattern("nothing at all", 5 + more)


@sparse_pattern.aspect("special tokens and random keys", points=1)
def _pattern_special(draw):
    one, other = draw.sizes(2, 1, 7)
    yield _pattern("special tokens", 9, positions=[one, other])
    yield _pattern("window and special tokens", 10, window=2, positions=[0, one])
    yield _pattern("random keys", 11, random_keys=_random_keys(draw, 11, 2))
    yield _pattern("everything at once", 13, window=2, stride=6, positions=[one], random_keys=_random_keys(draw, 13, 1))


@sparse_pattern.aspect("the past alone", points=1)
def _pattern_causal(draw):
    (one,) = draw.sizes(1, 3, 7)
    yield _pattern("a causal window", 6 + one, window=3, causal=True)
    yield _pattern("a causal window and stride", 12, window=2, stride=5, causal=True)
    everything = {"window": 2, "stride": 6, "positions": [one], "random_keys": _random_keys(draw, 13, 1)}
    yield _pattern("everything at once, causal", 13, **everything, causal=True)


PATTERN_STRIDE = "pattern = pattern | (distance % stride == 0)"
PATTERN_SPECIAL = "pattern = pattern | special | special[:, None]"
PATTERN_RANDOM = "pattern = pattern.scatter(1, random_keys, True)"
PATTERN_RETURN = "return pattern & (distance >= 0) if causal else pattern"

sparse_pattern.edit(
    "pattern-intersection",
    "A token sees another only if all parts allow it. One part is enough: `|`, not `&`.",
    (PATTERN_STRIDE, "pattern = (pattern | (window == 0)) & (distance % stride == 0)"),
    (PATTERN_SPECIAL, "pattern = (pattern | (not window)) & (special | special[:, None])"),
    source="https://github.com/lucidrains/local-attention/issues/5",
)
sparse_pattern.edit(
    "pattern-window-closed",
    "The window is one token too wide: `|i - j| < window`. A window of 0 sees nothing.",
    ("distance.abs() < window", "distance.abs() <= window"),
    source="https://github.com/apple/axlearn/pull/1009",
)
sparse_pattern.edit(
    "pattern-window-of-both-sides",
    "You take `window` for the number of tokens on both sides together. It reaches `window - 1` tokens to each side.",
    ("distance.abs() < window", "distance.abs() < (window + 1) // 2"),
)
sparse_pattern.edit(
    "pattern-window-forwards",
    "The window has no far side: without the absolute value every token sees all the tokens after it.",
    ("distance.abs() < window", "(distance < window) & (window > 0)"),
)
sparse_pattern.edit(
    "pattern-stride-from-the-first",
    "All tokens see the same ones, at the multiples of the stride. The stride is counted from the token itself.",
    ("distance % stride == 0", "torch.arange(length) % stride == 0"),
)
sparse_pattern.edit(
    "pattern-stride-replaces",
    "The stride's part takes the place of the window's; the pattern is the union of both.",
    (PATTERN_STRIDE, "pattern = distance % stride == 0"),
    source="https://github.com/openai/sparse_attention/issues/7",
)
sparse_pattern.edit(
    "pattern-stride-of-zero",
    "A stride of 0 means that this part is left out; you divide by it.",
    ("    if stride:\n", "    if stride is not None:\n"),
)
sparse_pattern.edit(
    "pattern-special-not-seen",
    "The special tokens see all tokens, but are not seen by them: their columns must be True as well.",
    (PATTERN_SPECIAL, "pattern = pattern | special[:, None]"),
    source="https://github.com/huggingface/transformers/issues/5646",
)
sparse_pattern.edit(
    "pattern-special-not-seeing",
    "The special tokens are seen by all tokens, but do not see them: their rows must be True as well.",
    (PATTERN_SPECIAL, "pattern = pattern | special"),
)
sparse_pattern.edit(
    "pattern-special-each-other",
    "The special tokens and only they see each other. A special token's whole row and whole column are True.",
    (PATTERN_SPECIAL, "pattern = pattern | (special & special[:, None])"),
)
sparse_pattern.edit(
    "pattern-random-by-column",
    "Row `i` of `random_keys` names what token `i` sees. You set the entries in column `i`: who sees token `i`.",
    (PATTERN_RANDOM, "pattern = pattern | torch.zeros_like(pattern).scatter(1, random_keys, True).T"),
)
sparse_pattern.edit(
    "pattern-random-both-ways",
    "A random key is seen by its token; the token is not seen by it.",
    (
        PATTERN_RANDOM,
        "drawn = torch.zeros_like(pattern).scatter(1, random_keys, True)\n        pattern = pattern | drawn | drawn.T",
    ),
)
sparse_pattern.edit(
    "pattern-random-forgotten",
    "The random keys are missing.",
    (PATTERN_RANDOM, "pattern = pattern.clone()"),
)
sparse_pattern.edit(
    "pattern-causal-ignored",
    "With `causal` a token must not see those after it.",
    (PATTERN_RETURN, "return pattern"),
)
sparse_pattern.edit(
    "pattern-causal-window-only",
    "Only the window is causal. The other parts too must let a token see nothing that comes after it.",
    ("    if stride:\n", "    if causal:\n        pattern = pattern & (distance >= 0)\n    if stride:\n"),
    (PATTERN_RETURN, "return pattern"),
    source="https://github.com/HKUSTDial/flash-sparse-attention/issues/146",
)
sparse_pattern.edit(
    "pattern-causal-without-itself",
    "With `causal` a token must still see itself.",
    ("(distance >= 0)", "(distance > 0)"),
)
sparse_pattern.edit(
    "pattern-turned-round",
    "True says here that a token MAY attend to another. Your mask says what it may not.",
    (PATTERN_RETURN, "return ~(pattern & (distance >= 0)) if causal else ~pattern"),
)
sparse_pattern.edit(
    "pattern-of-numbers",
    "The mask should be boolean.",
    (PATTERN_RETURN, "return (pattern & (distance >= 0)).int() if causal else pattern.int()"),
)


pattern_reachability = Check(
    reference.pattern_reachability,
    difficulty="core",
    minutes=25,
    hints=(
        "After one layer a token has something of every token that it sees. What has it after two, if those have looked "
        "around themselves before?",
        "A product of two tables of 0 and 1 counts the ways over one token in between; more than none is what matters.",
        "Begin with the tokens that have only themselves, and multiply by the pattern, with its diagonal set, until nothing "
        "is missing, or until nothing new comes.",
    ),
)


def _ring(tokens, *steps):
    """Token ``i`` sees the tokens ``i + step`` of a ring, and not itself."""
    pattern = np.zeros((tokens, tokens), dtype=bool)
    for step in steps:
        pattern[np.arange(tokens), (np.arange(tokens) + step) % tokens] = True
    return pattern


def _shuffled(draw, pattern):
    """The same pattern with its tokens in another order."""
    order = draw.rng.permutation(len(pattern))
    return pattern[np.ix_(order, order)]


def _chain(tokens, window, causal=False):
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    return (np.abs(distance) < window) & ((distance >= 0) | (not causal))


@pattern_reachability.aspect("how many layers", points=2)
def _reach_values(draw):
    more, tokens = draw.sizes(2, 0, 4)
    star = np.eye(8 + more, dtype=bool)
    star[0] = star[:, 0] = True
    yield Case("a window", {"pattern": _chain(9 + more, 3)})
    yield Case("a ring that is walked one way", {"pattern": _shuffled(draw, _ring(7 + more, 1))})
    yield Case("a token that all meet in", {"pattern": star})
    yield Case("everything in one layer", {"pattern": np.ones((4 + tokens, 4 + tokens), dtype=bool)})
    one_way = _chain(8 + tokens, 2)
    one_way[-1, 0] = True
    yield Case("a short cut one way", {"pattern": one_way})
    yield Case("the same in another order", {"pattern": _shuffled(draw, one_way)})


@pattern_reachability.aspect("a token keeps what it has", points=1)
def _reach_residual(draw):
    yield Case("a ring of two steps, no token sees itself", {"pattern": _shuffled(draw, _ring(10, 1, 3))})
    yield Case("a window without the token itself", {"pattern": _chain(9, 2) & ~np.eye(9, dtype=bool)})


@pattern_reachability.aspect("never, and at once", points=1)
def _reach_never(draw):
    apart = np.zeros((9, 9), dtype=bool)
    apart[:4, :4] = apart[4:, 4:] = True
    yield Case("two parts that never meet", {"pattern": _shuffled(draw, apart)})
    yield Case("a chain that is walked one way", {"pattern": _chain(7, 2, causal=True)})
    yield Case("nobody sees anybody", {"pattern": np.zeros((5, 5), dtype=bool)})
    yield Case("a single token", {"pattern": np.zeros((1, 1), dtype=bool)})


@pattern_reachability.aspect("only from the past", points=1)
def _reach_causal(draw):
    yield Case("a causal window", {"pattern": _chain(11, 3, causal=True), "causal": True})
    broken = _chain(8, 2, causal=True)
    broken[5, 4] = False
    yield Case("a chain that is broken", {"pattern": broken, "causal": True})
    jumps = _chain(12, 2, causal=True) | (_chain(12, 12, causal=True) & (np.arange(12) % 4 == 3))
    yield Case("a causal window and special tokens", {"pattern": jumps, "causal": True})


STEPS = "steps = (pattern | itself).double()"
WHILE = "while not (reached | ~wanted).all():"
START = "reached, layers = itself, 0"
FURTHER = "further = reached.double() @ steps > 0"
STUCK = "        if further.equal(reached):\n            return -1\n"

pattern_reachability.edit(
    "reach-without-itself",
    "A token forgets what it had where the pattern lets it not see itself. The residual connection keeps it: a walk of fewer "
    "steps counts too.",
    (STEPS, "steps = pattern.double()"),
    (STUCK, "        if layers > 2 * len(pattern) ** 2:\n            return -1\n"),
)
pattern_reachability.edit(
    "reach-one-too-many",
    "One layer too many: a token has itself before the first layer.",
    (START, "reached, layers = itself, 1"),
)
pattern_reachability.edit(
    "reach-one-too-few",
    "One layer too few: before the first layer a token has only itself, not yet what it sees.",
    (START, "reached, layers = pattern | itself, 0"),
)
pattern_reachability.edit(
    "reach-one-token-is-enough",
    "You stop when one token has something of all. Every token must.",
    (WHILE, "while not (reached | ~wanted).all(dim=1).any():"),
)
pattern_reachability.edit(
    "reach-first-token",
    "You look at what has come to the first token alone.",
    (WHILE, "while not (reached | ~wanted)[0].all():"),
)
pattern_reachability.edit(
    "reach-doubled",
    "Each round multiplies the whole table by itself, and so doubles the number of layers, but counts as one.",
    (
        START,
        "reached, layers = itself, 0\n    reached = steps > 0 if not (reached | ~wanted).all() else reached\n    layers = int(len(pattern) > 1)",
    ),
    (FURTHER, "further = reached.double() @ reached.double() > 0"),
)
pattern_reachability.edit(
    "reach-never-is-the-length",
    "Where no number of layers is enough, the answer is -1; yours gives the number of rounds that it tried.",
    ("return -1", "return len(pattern)"),
)
pattern_reachability.edit(
    "reach-never-is-zero",
    "Where no number of layers is enough, the answer is -1. 0 would say that it is reached already.",
    ("return -1", "return 0"),
)
pattern_reachability.edit(
    "reach-both-ways",
    "You walk the pattern both ways. That token i sees token j does not let j see i.",
    (STEPS, "steps = (pattern | pattern.T | itself).double()"),
)
pattern_reachability.edit(
    "reach-causal-ignored",
    "With `causal` only the tokens before a token need to reach it; you wait for those after it too.",
    ("torch.ones_like(pattern).tril() if causal else torch.ones_like(pattern)", "torch.ones_like(pattern)"),
)
pattern_reachability.edit(
    "reach-always-causal",
    "Without `causal` every token must reach every other, also those before it.",
    ("torch.ones_like(pattern).tril() if causal else torch.ones_like(pattern)", "torch.ones_like(pattern).tril()"),
)
pattern_reachability.edit(
    "reach-causal-turned-round",
    "With `causal` it is the tokens before a token that must reach it. Rows are those that see, columns those that are seen.",
    ("torch.ones_like(pattern).tril()", "torch.ones_like(pattern).triu()"),
)
