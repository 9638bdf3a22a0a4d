"""What right kernels of "Multi-head attention" are."""

import math

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import multi_head_attention as reference

FUSED = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)


split_heads = Check(
    reference.split_heads,
    difficulty="core",
    minutes=10,
    hints=(
        "Two steps: cut the last axis in two, then bring the axes into the order that is asked for.",
        "After the cut the axes are (batch, length, head, d_head). Only then exchange two of them.",
        "`view`, `reshape` and `unflatten` never move a number past another. To move an axis takes `transpose` or `permute`.",
    ),
)


def _split_sizes(draw):
    """Heads, width of a head, length and batch; all different, and the widths too."""
    while True:
        num_heads, d_head, length, batch = draw.sizes(4)
        if num_heads * d_head not in (length, batch):
            return num_heads, d_head, length, batch


@split_heads.aspect("one axis for the heads", points=1)
def _split_values(draw):
    num_heads, d_head, length, batch = _split_sizes(draw)
    width = num_heads * d_head
    yield Case("a batch", {"x": draw.normal(batch, length, width), "num_heads": num_heads})
    yield Case("a batch of one", {"x": draw.normal(1, length, width), "num_heads": num_heads})
    yield Case("one token", {"x": draw.normal(batch, 1, width), "num_heads": num_heads})
    yield Case("a single head", {"x": draw.normal(batch, length, d_head), "num_heads": 1})
    yield Case("heads of width 1", {"x": draw.normal(batch, length, num_heads), "num_heads": num_heads})
    yield Case("as many heads as tokens", {"x": draw.normal(batch, num_heads, width), "num_heads": num_heads})


@split_heads.aspect("any leading axes, strides, gradient", points=1)
def _split_leading(draw):
    num_heads, d_head, length, batch = _split_sizes(draw)
    width = num_heads * d_head
    yield Case("no batch", {"x": draw.normal(length, width), "num_heads": num_heads})
    yield Case("two leading axes", {"x": draw.normal(2, batch, length, width), "num_heads": num_heads})
    inputs = {"x": draw.normal(batch, length, width), "num_heads": num_heads}
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("the gradient", inputs, gradient=("x",))
    yield Case("single precision", inputs, dtype="float32")


CUT = "x.unflatten(-1, (num_heads, -1))"
SPLIT_RETURN = "return pieces.transpose(-3, -2)"
VIEW_SOURCE = "https://github.com/harvardnlp/annotated-transformer/issues/118"


split_heads.edit(
    "mha-split-by-view",
    "The shape is right, but each head holds pieces of several tokens: `view` and `reshape` read the numbers on in their old "
    "order. Cut the last axis first, then exchange axes.",
    (CUT, "x.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)"),
    (SPLIT_RETURN, "return pieces"),
    source=VIEW_SOURCE,
)
split_heads.edit(
    "mha-split-not-transposed",
    "The heads have an axis, but it stands after the tokens. A head must hold all tokens, so its axis comes before theirs.",
    (SPLIT_RETURN, "return pieces"),
)
split_heads.edit(
    "mha-split-interleaved",
    "Head h takes every num_heads-th component. It should take d_head components that lie side by side.",
    (CUT, "x.unflatten(-1, (-1, num_heads)).transpose(-2, -1)"),
)
split_heads.edit(
    "mha-split-last-axes",
    "The last two axes are exchanged: tokens should come before the components of a head.",
    (SPLIT_RETURN, "return pieces.transpose(-3, -2).transpose(-2, -1)"),
)
split_heads.edit(
    "mha-split-chunks-of-tokens",
    "Each head got a stretch of the tokens with their full width. It should get all tokens, with a part of the width.",
    (CUT, "x.unflatten(-2, (num_heads, -1)).transpose(-3, -2)"),
)
split_heads.edit(
    "mha-split-heads-before-batch",
    "The heads stand before the batch; they belong between the batch and the tokens.",
    (SPLIT_RETURN, "return pieces.movedim(-2, 0)"),
)
split_heads.edit(
    "mha-split-fixed-axes",
    "Axes 1 and 2 are exchanged, counted from the front. That is right behind one batch axis only; count from the end.",
    (SPLIT_RETURN, "return pieces.transpose(1, 2)"),
)
split_heads.edit(
    "mha-split-by-storage",
    "You read the memory of a tensor that is not contiguous in its own order. Let `reshape` or `contiguous` copy it first.",
    (
        CUT,
        "x.as_strided(x.shape, tuple(math.prod(x.shape[i + 1:]) for i in range(x.dim()))).unflatten(-1, (num_heads, -1))",
    ),
)
split_heads.edit(
    "mha-split-detached",
    "No gradient flows back through the split.",
    (CUT, "x.detach().unflatten(-1, (num_heads, -1))"),
)


merge_heads = Check(
    reference.merge_heads,
    difficulty="core",
    minutes=5,
    hints=(
        "Undo the split, step by step and in the opposite order.",
        "First the axis of the heads must stand beside the components of a head, after the tokens.",
        "When the last two axes are (head, d_head), `flatten` or `reshape` joins them. `view` cannot after a transpose.",
    ),
)


@merge_heads.aspect("the heads side by side", points=1)
def _merge_values(draw):
    num_heads, d_head, length, batch = _split_sizes(draw)
    yield Case("a batch", {"x": draw.normal(batch, num_heads, length, d_head)})
    yield Case("a batch of one", {"x": draw.normal(1, num_heads, length, d_head)})
    yield Case("one token", {"x": draw.normal(batch, num_heads, 1, d_head)})
    yield Case("a single head", {"x": draw.normal(batch, 1, length, d_head)})
    yield Case("as many heads as tokens", {"x": draw.normal(batch, length, length, d_head)})


@merge_heads.aspect("any leading axes, strides, gradient", points=1)
def _merge_leading(draw):
    num_heads, d_head, length, batch = _split_sizes(draw)
    yield Case("no batch", {"x": draw.normal(num_heads, length, d_head)})
    yield Case("two leading axes", {"x": draw.normal(2, batch, num_heads, length, d_head)})
    inputs = {"x": draw.normal(batch, num_heads, length, d_head)}
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("the gradient", inputs, gradient=("x",))
    yield Case("single precision", inputs, dtype="float32")


TOKENS_FIRST = "x.transpose(-3, -2)"
merge_heads.slip(
    "mha-merge-no-transpose",
    TOKENS_FIRST,
    "x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])",
    "The shape is right, but each token holds pieces of other tokens: the transpose is missing before the heads are joined.",
    VIEW_SOURCE,
)
merge_heads.slip(
    "mha-merge-interleaved",
    "tokens_first.flatten(-2)",
    "tokens_first.transpose(-2, -1).flatten(-2)",
    "The heads' components alternate. Each head's vector should stay together, head 0 first.",
)
merge_heads.slip(
    "mha-merge-heads-summed",
    "tokens_first.flatten(-2)",
    "tokens_first.sum(-2)",
    "The heads are added up; they should lie side by side, so that the width is num_heads * d_head.",
)
merge_heads.slip(
    "mha-merge-tokens-joined",
    TOKENS_FIRST,
    "x",
    "Heads and tokens are exchanged: you joined the tokens of each head. Bring the heads behind the tokens first.",
)
merge_heads.slip(
    "mha-merge-fixed-axes",
    TOKENS_FIRST,
    "x.transpose(1, 2)",
    "Axes 1 and 2 are exchanged, counted from the front. That is right behind one batch axis only; count from the end.",
)
merge_heads.slip(
    "mha-merge-reversed",
    TOKENS_FIRST,
    "x.flip(-3).transpose(-3, -2)",
    "The heads are joined in reverse; head 0 comes first.",
)
merge_heads.slip(
    "mha-merge-detached",
    TOKENS_FIRST,
    "x.detach().transpose(-3, -2)",
    "No gradient flows back through the merge.",
)


MultiHeadAttention = Check(
    reference.MultiHeadAttention,
    difficulty="core",
    minutes=35,
    hints=(
        "Five steps: project query, key and value; split each into heads; attend; merge the heads; project once more.",
        "`in_proj_weight` holds three matrices below each other: `chunk(3)` takes them apart. They are in PyTorch's layout "
        "(out, in), which `F.linear(x, weight, bias)` wants.",
        "After the split there is a head axis before the last two. A mask of shape (batch, N_q, N_k) needs an axis of "
        "length one there, and a key mask (batch, N_k) two: one for the heads, one for the queries.",
        "Each mask may be None. Where both are given, a query may attend where both are True.",
    ),
    reproduces=FUSED,
    uses=("split_heads", "merge_heads"),
)


def _heads(draw, count):
    """Heads, their width, and ``count`` more sizes, all different; the root of the width is exact in every precision."""
    num_heads, *others = (int(size) for size in draw.rng.permutation([2, 3, 5, 6, 7, 8])[: count + 1])
    return num_heads, 4, *others


def _layer(draw, num_heads, d_head, query, key=None, value=None, attn_mask=None, key_mask=None):
    """A case's inputs: a layer's tokens and parameters. Without keys, query, key and value are one tensor."""
    width = num_heads * d_head
    tokens = {"tokens": query} if key is None else {"query": query, "key": key, "value": value}
    return tokens | {
        "in_proj_weight": draw.normal(3 * width, width, scale=1.5 / math.sqrt(width)),
        "in_proj_bias": draw.normal(3 * width),
        "out_proj_weight": draw.normal(width, width, scale=1 / math.sqrt(width)),
        "out_proj_bias": draw.normal(width),
        "attn_mask": attn_mask,
        "key_mask": key_mask,
    }


def _cross(draw, num_heads, d_head, leading, queries, keys, **masks):
    width = num_heads * d_head
    shapes = (queries, width), (keys, width), (keys, width)
    return _layer(draw, num_heads, d_head, *(draw.normal(*leading, *shape) for shape in shapes), **masks)


def _self(draw, num_heads, d_head, leading, length, **masks):
    return _layer(draw, num_heads, d_head, draw.normal(*leading, length, num_heads * d_head), **masks)


def _long(size):
    """A length at which a mask leaves several keys and hides several; the weight of a single one is always 1."""
    return size + 7


def _allow_first_key(attn_mask, key_mask):
    """Change two masks so that every query may attend to something, which is an aspect of its own."""
    attn_mask[..., 0], key_mask[..., 0] = True, True


def _multi_head_case(title, num_heads, inputs, **more):
    return Case(title, inputs, probe={"num_heads": num_heads, "self": "tokens" in inputs}, **more)


@MultiHeadAttention.aspect("no mask", points=3)
def _multi_head_values(draw):
    num_heads, d_head, queries, keys, batch = _heads(draw, 3)
    yield _multi_head_case("self-attention", num_heads, _self(draw, num_heads, d_head, (batch,), queries))
    yield _multi_head_case(
        "queries, keys and values that differ", num_heads, _cross(draw, num_heads, d_head, (batch,), queries, keys)
    )
    yield _multi_head_case("a single head", 1, _self(draw, 1, 16, (batch,), queries))
    yield _multi_head_case("a batch of one", num_heads, _cross(draw, num_heads, d_head, (1,), queries, keys))
    yield _multi_head_case("one token", num_heads, _self(draw, num_heads, d_head, (batch,), 1))
    again = _cross(draw, num_heads, d_head, (batch,), queries, keys)
    yield _multi_head_case("several calls", num_heads, again, repeated=True)


@MultiHeadAttention.aspect("a mask for queries and keys", points=1)
def _multi_head_attn_mask(draw):
    num_heads, d_head, queries, keys, batch = _heads(draw, 3)
    keys = _long(keys)
    shared = _cross(draw, num_heads, d_head, (batch,), queries, keys, attn_mask=draw.mask(queries, keys))
    yield _multi_head_case("one mask for the whole batch", num_heads, shared)
    own = _cross(draw, num_heads, d_head, (batch,), queries, keys, attn_mask=draw.mask(batch, queries, keys))
    yield _multi_head_case("a mask for each sequence", num_heads, own)
    square = _cross(draw, num_heads, d_head, (num_heads,), queries, keys, attn_mask=draw.mask(num_heads, queries, keys))
    yield _multi_head_case("as many sequences as heads", num_heads, square)
    numbers = shared | {"attn_mask": shared["attn_mask"].astype(float)}
    yield _multi_head_case("a mask of numbers", num_heads, numbers, refused=True)


@MultiHeadAttention.aspect("a mask for padding", points=1)
def _multi_head_key_mask(draw):
    num_heads, d_head, length, keys, batch = _heads(draw, 3)
    length = _long(length)
    key_mask = draw.mask(batch, length)
    padded = _self(draw, num_heads, d_head, (batch,), length, key_mask=key_mask)
    yield _multi_head_case("self-attention with padding", num_heads, padded)
    inputs = _cross(draw, num_heads, d_head, (batch,), length, keys, key_mask=draw.mask(batch, keys))
    yield _multi_head_case("keys with padding", num_heads, inputs)
    both = {"attn_mask": draw.mask(length, length), "key_mask": key_mask.copy()}
    _allow_first_key(**both)
    yield _multi_head_case("both masks", num_heads, _self(draw, num_heads, d_head, (batch,), length, **both))
    numbers = padded | {"key_mask": key_mask.astype(int)}
    yield _multi_head_case("a mask of zeros and ones", num_heads, numbers, refused=True)


@MultiHeadAttention.aspect("a query that may attend to nothing", points=1)
def _multi_head_empty(draw):
    num_heads, d_head, queries, keys, batch = _heads(draw, 3)
    keys = _long(keys)
    key_mask = draw.mask(batch, keys)
    key_mask[0] = False
    inputs = _cross(draw, num_heads, d_head, (batch,), queries, keys, key_mask=key_mask)
    yield _multi_head_case("a sequence of nothing but padding", num_heads, inputs, gradient=("query", "key", "value"))
    attn_mask = draw.mask(queries, keys)
    attn_mask[1] = False
    inputs = _cross(draw, num_heads, d_head, (batch,), queries, keys, attn_mask=attn_mask)
    yield _multi_head_case("one query of each sequence", num_heads, inputs)


@MultiHeadAttention.aspect("gradients, leading axes, precision", points=1)
def _multi_head_gradients(draw):
    num_heads, d_head, queries, keys, batch = _heads(draw, 3)
    inputs = _cross(draw, num_heads, d_head, (batch,), queries, keys)
    wanted = tuple(name for name in inputs if not name.endswith("mask"))
    yield _multi_head_case("gradients for tokens and parameters", num_heads, inputs, gradient=wanted)
    yield _multi_head_case("no batch", num_heads, _self(draw, num_heads, d_head, (), queries))
    length = _long(queries)
    masks = {"attn_mask": draw.mask(length, length), "key_mask": draw.mask(2, batch, length)}
    _allow_first_key(**masks)
    yield _multi_head_case("two leading axes", num_heads, _self(draw, num_heads, d_head, (2, batch), length, **masks))
    yield _multi_head_case("tensors that are not contiguous", num_heads, inputs, strided=True)
    yield _multi_head_case("single precision", num_heads, _self(draw, num_heads, 5, (batch,), queries), dtype="float32")
    large = dict(inputs)
    large["query"], large["key"] = 30 * inputs["query"], 30 * inputs["key"]
    yield _multi_head_case("scores near 1,000", num_heads, large)


PROJECT = "F.linear(x, W, b) for x, W, b in zip((query, key, value), weights, biases, strict=True)"
SPLIT = "(split_heads(x, self.num_heads) for x in projected)"
ATTEND = "scaled_dot_product_attention(Q, K, V, allowed)"
OUTPUT = "return self.out_proj(merge_heads(attn_output))"
ATTN_MASK = "None if attn_mask is None else attn_mask.unsqueeze(-3)"
KEY_MASK = "key_mask[..., None, None, :]"
BOTH = "real if allowed is None else allowed & real"
ATTN_CHECK = """        if attn_mask is not None and attn_mask.dtype != torch.bool:
            raise TypeError(
                f"attn_mask has dtype {attn_mask.dtype}; it must be torch.bool, True where a query may attend to a key."
            )
"""
KEY_CHECK = """        if key_mask is not None and key_mask.dtype != torch.bool:
            raise TypeError(f"key_mask has dtype {key_mask.dtype}; it must be torch.bool, True where a key is a token.")
"""
SCORES = "Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])"


MultiHeadAttention.edit(
    "mha-split-by-view",
    "The split into heads mixes the tokens: `view` or `reshape` alone reads the numbers on in their old order. Every shape is "
    "right, so nothing complains.",
    (SPLIT, "(x.reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1) for x in projected)"),
    source=VIEW_SOURCE,
)
MultiHeadAttention.edit(
    "mha-merge-no-transpose",
    "The merge mixes the tokens: bring the heads behind the tokens before you join them.",
    (OUTPUT, "return self.out_proj(attn_output.reshape(query.shape))"),
    source="https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/53",
)
MultiHeadAttention.edit(
    "mha-split-and-merge-by-view",
    "Split and merge both lack their transpose. One undoes the other's shape, but the heads attend between pieces of tokens.",
    (SPLIT, "(x.reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1) for x in projected)"),
    (OUTPUT, "return self.out_proj(attn_output.reshape(query.shape))"),
    source=VIEW_SOURCE,
)
MultiHeadAttention.edit(
    "mha-heads-attend-to-heads",
    "The split has no transpose, so within each token its heads attend to each other, and no token sees another.",
    (SPLIT, "(x.unflatten(-1, (self.num_heads, -1)) for x in projected)"),
    (OUTPUT, "return self.out_proj(attn_output.flatten(-2))"),
)
MultiHeadAttention.edit(
    "mha-one-head",
    "The heads are never split: this is one attention over the full width.",
    (SPLIT, "(x.unsqueeze(-3) for x in projected)"),
)
MultiHeadAttention.edit(
    "mha-split-interleaved",
    "Head h takes every num_heads-th component of the projection; it should take d_head components side by side.",
    (SPLIT, "(x.unflatten(-1, (-1, self.num_heads)).movedim(-1, -3) for x in projected)"),
)
MultiHeadAttention.edit(
    "attn-scale-d_model",
    "The scores are divided by the square root of d_model. A head's dot product has only d_head terms.",
    (ATTEND, "scaled_dot_product_attention(Q / math.sqrt(self.num_heads), K, V, allowed)"),
    source="https://github.com/lucidrains/vit-pytorch/issues/65",
)
MultiHeadAttention.edit(
    "attn-no-scale",
    "The scores are not divided by the square root of d_head.",
    (ATTEND, "scaled_dot_product_attention(Q * math.sqrt(Q.shape[-1]), K, V, allowed)"),
)
MultiHeadAttention.edit(
    "attn-scaled-twice",
    "The scores are divided by the square root of d_head twice, or by d_head itself; `scaled_dot_product_attention` already does "
    "it.",
    (ATTEND, "scaled_dot_product_attention(Q / math.sqrt(Q.shape[-1]), K, V, allowed)"),
    source="https://github.com/delzac/cntkx/issues/10",
)
MultiHeadAttention.edit(
    "mha-project-inside-head",
    "Each head projects only its own slice of the tokens. Project the whole token first, then split: every head may read all of it.",
    (
        PROJECT,
        "torch.cat([F.linear(part, w, c) for part, w, c in zip(x.chunk(self.num_heads, -1), "
        "[row.chunk(self.num_heads, 1)[i] for i, row in enumerate(W.chunk(self.num_heads, 0))], b.chunk(self.num_heads), "
        "strict=True)], -1) for x, W, b in zip((query, key, value), weights, biases, strict=True)",
    ),
    source="https://github.com/neetcode-gh/leetcode/issues/5130",
)
MultiHeadAttention.edit(
    "mha-weights-transposed",
    "The projections are used in the layout (in, out). A module keeps PyTorch's layout (out, in).",
    (PROJECT, "x @ W + b for x, W, b in zip((query, key, value), weights, biases, strict=True)"),
)
MultiHeadAttention.edit(
    "mha-projections-order",
    "The three projections are taken in the wrong order: query, key, value.",
    (PROJECT, "F.linear(x, W, b) for x, W, b in zip((query, key, value), weights[::-1], biases[::-1], strict=True)"),
)
MultiHeadAttention.edit(
    "mha-same-projection",
    "All three go through the projection of the query; key and value have their own.",
    (PROJECT, "F.linear(x, weights[0], biases[0]) for x in (query, key, value)"),
    source="Student code rleaf/EECS-498-007-Deep-Learning, A5/transformers.py, initialises one weight three times",
)
MultiHeadAttention.edit(
    "mha-no-in-bias",
    "The biases of the first projections are missing.",
    (PROJECT, "F.linear(x, W) for x, W in zip((query, key, value), weights, strict=True)"),
)
MultiHeadAttention.edit(
    "mha-value-from-key",
    "The values are projected from `key`; `value` is never read. In self-attention it makes no difference.",
    (PROJECT, "F.linear(x, W, b) for x, W, b in zip((query, key, key), weights, biases, strict=True)"),
)
MultiHeadAttention.edit(
    "cross-attn-attends-to-self",
    "Keys and values are projected from `query`, so the sequence attends to itself.",
    (PROJECT, "F.linear(x, W, b) for x, W, b in zip((query, query, query), weights, biases, strict=True)"),
    source="https://github.com/keitakurita/Practical_NLP_in_PyTorch/issues/1",
)
MultiHeadAttention.edit(
    "mha-no-output-projection",
    "The output projection is missing: the merged heads are returned as they are.",
    (OUTPUT, "return merge_heads(attn_output)"),
)
MultiHeadAttention.edit(
    "mha-no-output-bias",
    "The bias of the output projection is missing.",
    (OUTPUT, "return F.linear(merge_heads(attn_output), self.out_proj.weight)"),
)
MultiHeadAttention.edit(
    "mha-softmax-over-heads",
    "The softmax runs over the heads, or over the queries; each query's weights sum to one over the keys.",
    (ATTEND, f"torch.softmax({SCORES}, dim=1) @ V"),
)
MultiHeadAttention.edit(
    "mha-detached",
    "No gradient reaches the projections for queries and keys, so the heads never learn where to look.",
    (ATTEND, "scaled_dot_product_attention(Q.detach(), K.detach(), V, allowed)"),
)
MultiHeadAttention.edit(
    "mha-squeezed",
    "`squeeze` removes every axis of length 1: a batch of one, a single query.",
    (OUTPUT, "return self.out_proj(merge_heads(attn_output)).squeeze()"),
)
MultiHeadAttention.edit(
    "mha-masks-of-numbers",
    "Masks of numbers are taken as well, as if every number but zero meant True. A mask made to be added means the opposite by "
    "its zeros: such a mask should be an error.",
    (ATTN_CHECK, "        attn_mask = None if attn_mask is None else attn_mask.bool()\n"),
    (KEY_CHECK, "        key_mask = None if key_mask is None else key_mask.bool()\n"),
)
MultiHeadAttention.edit(
    "mha-attn-mask-inverted",
    "`attn_mask` is read as PyTorch's module reads it. Here True is where a query may attend.",
    (ATTN_MASK, "None if attn_mask is None else ~attn_mask.unsqueeze(-3)"),
)
MultiHeadAttention.edit(
    "mha-key-mask-inverted",
    "`key_mask` is read as PyTorch's `key_padding_mask`. Here True is a real token.",
    (KEY_MASK, "~key_mask[..., None, None, :]"),
)
MultiHeadAttention.edit(
    "mha-attn-mask-ignored",
    "`attn_mask` changes nothing.",
    (ATTN_MASK, "None"),
)
MultiHeadAttention.edit(
    "mha-key-mask-ignored",
    "`key_mask` changes nothing: padding is attended to.",
    (BOTH, "allowed"),
)
MultiHeadAttention.edit(
    "pad-replaces-causal",
    "Where a key mask is given, it replaces `attn_mask`. A query may attend where both are True.",
    (BOTH, "real"),
    source="https://github.com/huggingface/candle/pull/3609",
)
MultiHeadAttention.edit(
    "mha-key-mask-only-alone",
    "Where `attn_mask` is given, the key mask is forgotten. A query may attend where both are True.",
    (BOTH, "real if allowed is None else allowed"),
)
MultiHeadAttention.edit(
    "mha-masks-either",
    "The masks are joined by `or`. A query may attend only where both are True.",
    (BOTH, "real if allowed is None else allowed | real"),
    source="https://github.com/lucidrains/local-attention/issues/5",
)
MultiHeadAttention.edit(
    "mha-key-mask-on-queries",
    "The key mask is laid along the queries: it silences padded queries, while everyone still attends to padding.",
    (KEY_MASK, "key_mask[..., None, :, None]"),
)
MultiHeadAttention.edit(
    "mha-mask-without-head-axis",
    "A mask of shape (batch, N_q, N_k) meets scores of shape (batch, head, N_q, N_k): its first axis falls on the heads. Give "
    "it an axis of length one for them.",
    (ATTN_MASK, "attn_mask"),
)
MultiHeadAttention.edit(
    "mask-head-tiling-order",
    "Heads were folded into the batch and the mask was repeated in another order, so that sequences get the mask of others.",
    (
        KEY_MASK,
        "key_mask.repeat(*[1] * (key_mask.dim() - 1), self.num_heads).reshape(*key_mask.shape[:-1], self.num_heads, 1, -1)"
        ".flatten(0, -3).reshape(self.num_heads, -1, 1, key_mask.shape[-1]).transpose(0, 1)"
        ".reshape(*key_mask.shape[:-1], self.num_heads, 1, -1)",
    ),
    source="https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36",
)
MultiHeadAttention.edit(
    "mask-fully-masked-uniform",
    "A query that may attend to nothing gets the mean of all values, blocked ones included. Each head should give it zeros.",
    (
        ATTEND,
        f"torch.softmax(({SCORES}).masked_fill(~(torch.tensor(True) if allowed is None else allowed), -1e9), -1) @ V",
    ),
    source="https://github.com/d2l-ai/d2l-en/pull/2423",
)
MultiHeadAttention.edit(
    "mask-fully-masked-nan",
    "A query that may attend to nothing gives NaN: a softmax over minus infinity. Each head should give it zeros.",
    (
        ATTEND,
        f"torch.softmax(({SCORES}).masked_fill(~(torch.tensor(True) if allowed is None else allowed), -math.inf), -1) @ V",
    ),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
MultiHeadAttention.edit(
    "mask-after-softmax",
    "The mask acts after the softmax, so the weights that are left do not sum to one.",
    (
        ATTEND,
        f"(torch.softmax({SCORES}, -1) * (torch.tensor(True) if allowed is None else allowed)) @ V",
    ),
    source="https://github.com/huggingface/pytorch-image-models/pull/2236",
)
MultiHeadAttention.edit(
    "mha-empty-rows-zeroed-last",
    "A query that may attend to nothing gets zeros at the very end. The heads give zeros; the output projection then adds its bias.",
    (
        OUTPUT,
        "output = self.out_proj(merge_heads(attn_output))\n"
        "        return output if allowed is None else output * allowed.any(-1).squeeze(-2).unsqueeze(-1)",
    ),
)


attention_as_four_matmuls = Check(
    reference.attention_as_four_matmuls,
    difficulty="core",
    minutes=15,
    hints=(
        "The four products: tokens times W_QKV, queries times keys, weights times values, merged heads times W_O.",
        "The first product has three results side by side in its last axis: `chunk(3, dim=-1)`. Split each into heads.",
        "No loop over heads: a matrix product repeats over all leading axes, and then it counts as one.",
    ),
    reproduces=FUSED,
    uses=("split_heads", "merge_heads"),
)


def _four(draw, num_heads, d_head, *leading_and_length):
    width = num_heads * d_head
    return {
        "X": draw.normal(*leading_and_length, width),
        "W_QKV": draw.normal(width, 3 * width, scale=1.5 / math.sqrt(width)),
        "W_O": draw.normal(width, width, scale=1 / math.sqrt(width)),
        "num_heads": num_heads,
    }


@attention_as_four_matmuls.aspect("self-attention with several heads", points=2)
def _four_values(draw):
    num_heads, d_head, length, batch = _heads(draw, 2)
    yield Case("a batch", _four(draw, num_heads, d_head, batch, length))
    yield Case("a batch of one", _four(draw, num_heads, d_head, 1, length))
    yield Case("a single head", _four(draw, 1, 16, batch, length))
    yield Case("one token", _four(draw, num_heads, d_head, batch, 1))
    yield Case("no batch", _four(draw, num_heads, d_head, length))


@attention_as_four_matmuls.aspect("no more than four products", points=1)
def _four_products(draw):
    num_heads, d_head, length, batch = _heads(draw, 2)
    inputs = _four(draw, num_heads, d_head, batch, length)
    yield Case("the number of matrix products", inputs, probe={"count": True})


@attention_as_four_matmuls.aspect("gradients, large scores, single precision", points=1)
def _four_gradients(draw):
    num_heads, d_head, length, batch = _heads(draw, 2)
    inputs = _four(draw, num_heads, d_head, batch, length)
    yield Case("gradients", inputs, gradient=("X", "W_QKV", "W_O"))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("scores near 1,000", inputs | {"X": 30 * inputs["X"]})


FOUR_SPLIT = "Q, K, V = (split_heads(part, num_heads) for part in (X @ W_QKV).chunk(3, dim=-1))"
FOUR_SCORES = "scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])"
FOUR_SOFTMAX = "torch.softmax(scores, dim=-1)"
FOUR_OUTPUT = "return merge_heads(attn_output) @ W_O"


attention_as_four_matmuls.edit(
    "four-separate-projections",
    "The result is right, but queries, keys and values take a product each. One product with `W_QKV` gives all three.",
    (FOUR_SPLIT, "Q, K, V = (split_heads(X @ W, num_heads) for W in W_QKV.chunk(3, dim=-1))"),
)
attention_as_four_matmuls.edit(
    "four-loop-over-heads",
    "The result is right, but each head takes products of its own. With the heads as a leading axis one product does them all.",
    (
        FOUR_SCORES,
        "scores = torch.stack([Q[..., h, :, :] @ K[..., h, :, :].transpose(-2, -1) for h in range(num_heads)], -3) "
        "/ math.sqrt(Q.shape[-1])",
    ),
    (
        "attn_output = torch.softmax(scores, dim=-1) @ V",
        "weights = torch.softmax(scores, dim=-1)\n"
        "    attn_output = torch.stack([weights[..., h, :, :] @ V[..., h, :, :] for h in range(num_heads)], -3)",
    ),
)
attention_as_four_matmuls.edit(
    "four-projections-interleaved",
    "The three parts are read component by component in turn. They lie side by side: first all of the queries' columns.",
    (
        FOUR_SPLIT,
        "Q, K, V = (split_heads(part, num_heads) for part in (X @ W_QKV).unflatten(-1, (-1, 3)).unbind(-1))",
    ),
)
attention_as_four_matmuls.edit(
    "four-split-before-chunk",
    "The heads are split before queries, keys and values are taken apart, so each head mixes the three.",
    (FOUR_SPLIT, "Q, K, V = split_heads(X @ W_QKV, num_heads).chunk(3, dim=-1)"),
)
attention_as_four_matmuls.edit(
    "four-order",
    "Queries, keys and values are taken in the wrong order.",
    (FOUR_SPLIT, FOUR_SPLIT.replace("Q, K, V", "V, K, Q")),
)
attention_as_four_matmuls.edit(
    "four-softmax-query-axis",
    "The weights sum to one over the queries; each query's weights must sum to one over the keys.",
    (FOUR_SOFTMAX, "torch.softmax(scores, dim=-2)"),
    source="https://github.com/PetrochukM/PyTorch-NLP/issues/2",
)
attention_as_four_matmuls.edit(
    "four-scale-d_model",
    "The scores are divided by the square root of d_model. A head's dot product has only d_head terms.",
    (FOUR_SCORES, "scores = Q @ K.transpose(-2, -1) / math.sqrt(X.shape[-1])"),
    source="https://github.com/lucidrains/vit-pytorch/issues/65",
)
attention_as_four_matmuls.edit(
    "four-no-scale",
    "The scores are not divided by the square root of d_head.",
    (FOUR_SCORES, "scores = Q @ K.transpose(-2, -1)"),
)
attention_as_four_matmuls.edit(
    "four-split-by-view",
    "The split into heads mixes the tokens: the transpose is missing.",
    (
        FOUR_SPLIT,
        FOUR_SPLIT.replace(
            "split_heads(part, num_heads)", "part.reshape(*part.shape[:-2], num_heads, part.shape[-2], -1)"
        ),
    ),
    source=VIEW_SOURCE,
)
attention_as_four_matmuls.edit(
    "four-merge-no-transpose",
    "The merge mixes the tokens: the transpose is missing.",
    (FOUR_OUTPUT, "return attn_output.reshape(X.shape) @ W_O"),
    source=VIEW_SOURCE,
)
attention_as_four_matmuls.edit(
    "four-output-transposed",
    "`W_O` is used in the layout of `nn.Linear`. Here a row vector stands on its left.",
    (FOUR_OUTPUT, "return merge_heads(attn_output) @ W_O.T"),
)
attention_as_four_matmuls.edit(
    "four-three-products",
    "There are only three products: the output projection is missing.",
    (FOUR_OUTPUT, "return merge_heads(attn_output)"),
)
attention_as_four_matmuls.edit(
    "four-overflow",
    "The exponentials overflow for large scores. `torch.softmax` subtracts each row's largest first.",
    (FOUR_SOFTMAX, "(scores.exp() / scores.exp().sum(-1, keepdim=True))"),
    source="https://github.com/uTensor/uTensor/issues/175",
)


attention_flops = Check(
    reference.attention_flops,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "List the six products: three projections, scores, weighted means, output. Write the two shapes of each.",
        "Two projections are of the tokens that ask, for queries and for the output; two of those that are looked up.",
        "All heads together have width d_model: the scores take num_heads * N_q * N_k * d_head multiply-adds.",
    ),
)


def _counts(draw):
    batch, queries, keys, heads, width = draw.sizes(5)
    return {"batch": batch, "num_queries": queries, "num_keys": keys, "num_heads": heads, "d_head": width}


@attention_flops.aspect("self-attention", points=1)
def _flops_self(draw):
    sizes = _counts(draw)
    yield Case("as many queries as keys", sizes | {"num_queries": sizes["num_keys"]})
    yield Case("a single head", sizes | {"num_queries": sizes["num_keys"], "num_heads": 1})
    yield Case("one token", sizes | {"num_queries": 1, "num_keys": 1})
    yield Case("a long sequence", sizes | {"num_queries": 4096, "num_keys": 4096, "num_heads": 16, "d_head": 64})


@attention_flops.aspect("queries and keys that differ in number", points=1)
def _flops_cross(draw):
    yield Case("all sizes different", _counts(draw))
    yield Case("one query, many keys", _counts(draw) | {"num_queries": 1, "num_keys": 1000})


FLOPS_PROJECTIONS = "2 * (num_queries + num_keys) * width**2"
FLOPS_SCORES = "2 * num_queries * num_keys * width"
for _id, _old, _new, _hint in (
    (
        "flops-multiply-adds",
        "return 2 * batch",
        "return batch",
        "This is the number of multiply-adds: each is two operations, a multiplication and an addition.",
    ),
    (
        "flops-no-projections",
        "(projections + scores_and_means)",
        "scores_and_means",
        "The projections are missing. Table 1 of the paper leaves them out; they are most of the work when d_model is over N.",
    ),
    (
        "flops-no-output-projection",
        FLOPS_PROJECTIONS,
        "(num_queries + 2 * num_keys) * width**2",
        "The output projection is missing: it maps every merged output, one for each query.",
    ),
    (
        "flops-output-for-keys",
        FLOPS_PROJECTIONS,
        "(num_queries + 3 * num_keys) * width**2",
        "There is one output for each query, not for each key.",
    ),
    (
        "flops-one-product",
        FLOPS_SCORES,
        "num_queries * num_keys * width",
        "Only one of the two products of length N x N is counted: there are the scores, and the weighted means.",
    ),
    (
        "flops-times-heads",
        FLOPS_SCORES,
        "2 * num_heads * num_queries * num_keys * width",
        "The number of heads counts twice: d_model holds all heads already, one head has width d_head.",
    ),
    (
        "flops-one-head",
        FLOPS_SCORES,
        "2 * num_queries * num_keys * d_head",
        "These are the scores of one head; there are num_heads of them.",
    ),
    (
        "flops-width-of-a-head",
        "width = num_heads * d_head",
        "width = d_head",
        "Tokens have width num_heads * d_head; you count with the width of one head.",
    ),
    (
        "flops-keys-only",
        FLOPS_PROJECTIONS,
        "4 * num_keys * width**2",
        "All four projections are counted on the keys. Queries and outputs are as many as there are queries.",
    ),
    (
        "flops-no-batch",
        "return 2 * batch *",
        "return 2 *",
        "One sequence is counted; there are `batch` of them.",
    ),
):
    attention_flops.slip(_id, _old, _new, _hint)


attention_memory = Check(
    reference.attention_memory,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "How many scores does one query have in one head?",
        "A score for each query and key, in each head, in each sequence.",
        "The width of a head is summed over in the dot product, so it is gone.",
    ),
)


@attention_memory.aspect("single precision", points=1)
def _memory_single(draw):
    sizes = _counts(draw)
    del sizes["d_head"]
    yield Case("all sizes different", sizes)
    yield Case("one head, one sequence", sizes | {"batch": 1, "num_heads": 1})
    yield Case("a long text", sizes | {"num_queries": 100_000, "num_keys": 100_000})


@attention_memory.aspect("other precisions", points=1)
def _memory_half(draw):
    sizes = _counts(draw)
    del sizes["d_head"]
    yield Case("half precision", sizes, options={"bytes_per_number": 2})
    yield Case("double precision", sizes, options={"bytes_per_number": 8})


MEMORY = "batch * num_heads * num_queries * num_keys"
for _id, _old, _new, _hint in (
    (
        "memory-no-heads",
        MEMORY,
        "batch * num_queries * num_keys",
        "One score matrix for each sequence is counted; each head has its own.",
    ),
    ("memory-no-batch", MEMORY, "num_heads * num_queries * num_keys", "One sequence is counted; there are `batch`."),
    (
        "memory-keys-squared",
        MEMORY,
        "batch * num_heads * num_keys**2",
        "There is a score for each query and each key; you count keys by keys.",
    ),
    (
        "memory-queries-squared",
        MEMORY,
        "batch * num_heads * num_queries**2",
        "There is a score for each query and each key; you count queries by queries.",
    ),
    (
        "memory-numbers",
        "return numbers * bytes_per_number",
        "return numbers",
        "These are numbers; bytes are asked for.",
    ),
    (
        "memory-always-single",
        "return numbers * bytes_per_number",
        "return numbers * 4",
        "Four bytes are right in single precision only.",
    ),
    (
        "memory-bits",
        "numbers * bytes_per_number",
        "numbers * bytes_per_number * 8",
        "These are bits; a byte has eight.",
    ),
    (
        "memory-sum-of-lengths",
        MEMORY,
        "batch * num_heads * (num_queries + num_keys)",
        "Queries and keys are added. Every query has a score with every key: multiply.",
    ),
):
    attention_memory.slip(_id, _old, _new, _hint)


path_length = Check(
    reference.path_length,
    difficulty="core",
    minutes=15,
    hints=(
        "The farthest token is `length - 1` places away. How many places does one step bridge?",
        "A convolution that reads k places, its own among them, reaches k - 1 back.",
        "With dilation, layer l bridges kernel_size**l times as many places. Add layers in a loop until they reach far enough; no "
        "logarithm is needed.",
        "A single token still goes through one layer.",
    ),
)


@path_length.aspect("one layer after another", points=1)
def _path_plain(draw):
    length = int(draw.rng.integers(20, 60))
    for layer in ("rnn", "self-attention", "convolution"):
        yield Case(f"{layer}, {length} tokens", {"layer": layer, "length": length})
    yield Case("convolution of kernel size 7", {"layer": "convolution", "length": 6 * length, "kernel_size": 7})
    yield Case("a layer more for one token", {"layer": "convolution", "length": 26, "kernel_size": 9})
    yield Case("just reached", {"layer": "convolution", "length": 25, "kernel_size": 9})


@path_length.aspect("dilated convolutions", points=1)
def _path_dilated(draw):
    layer = "dilated convolution"
    yield Case("kernel size 3", {"layer": layer, "length": int(draw.rng.integers(20, 60))})
    yield Case("just reached by three layers of 5", {"layer": layer, "length": 125, "kernel_size": 5})
    yield Case("one token beyond that", {"layer": layer, "length": 126, "kernel_size": 5})
    yield Case("a long text", {"layer": layer, "length": 10**5 + int(draw.rng.integers(1000)), "kernel_size": 7})


@path_length.aspect("a single token", points=1)
def _path_single(draw):
    for layer in ("rnn", "convolution", "dilated convolution", "self-attention"):
        yield Case(f"{layer}, one token", {"layer": layer, "length": 1})


RNN = 'if layer == "rnn":\n        return length'
REACH = "stride = 0, 0, kernel_size - 1"
WHILE = "while steps == 0 or reach < length - 1:"
DILATE = "stride *= kernel_size"


path_length.edit(
    "path-rnn-between-states",
    "From the first token to the last state: the token has to enter the first state too, which is a step.",
    (RNN, 'if layer == "rnn":\n        return max(1, length - 1)'),
)
path_length.edit(
    "path-rnn-one",
    "A recurrent cell reads one token and the state before. The first token is `length` steps away from the last state.",
    (RNN, 'if layer == "rnn":\n        return 1'),
)
path_length.edit(
    "path-attention-length",
    "Every output of self-attention reads every token directly.",
    ('if layer == "self-attention":\n        return 1', 'if layer == "self-attention":\n        return length'),
)
path_length.edit(
    "path-convolution-centred",
    "You let a convolution reach half as far, as if its own place were the middle of those it reads. It is the last of them.",
    (REACH, "stride = 0, 0, max(1, (kernel_size - 1) // 2)"),
)
path_length.edit(
    "path-convolution-kernel-size",
    "You let a convolution bridge kernel_size places in one layer: that is how many it reads, its own among them.",
    (REACH, "stride = 0, 0, kernel_size"),
)
path_length.edit(
    "path-whole-length",
    "The farthest token is `length - 1` places away, not `length`.",
    (WHILE, "while steps == 0 or reach < length:"),
)
path_length.edit(
    "path-rounded-down",
    "The number of layers is rounded down; a last layer is needed for the places that are left.",
    (WHILE, "while steps == 0 or reach + stride <= length - 1:"),
)
path_length.edit(
    "path-not-dilated",
    "The dilation is ignored: layer l bridges kernel_size**l times as many places as layer 0.",
    (DILATE, "pass"),
)
path_length.edit(
    "path-dilation-doubles",
    "The dilation doubles in your stack; here it grows by the factor kernel_size.",
    (DILATE, "stride *= 2"),
)
path_length.edit(
    "path-only-last-layer",
    "Only the last layer's reach is counted. The layers' reaches add up.",
    ("reach += stride", 'reach = stride if layer == "dilated convolution" else reach + stride'),
)
path_length.edit(
    "path-float-logarithm",
    "Your logarithm comes out a little larger than a whole number, and rounding up adds a layer too many. Count in whole "
    "numbers.",
    (
        "steps, reach, stride = 0",
        'if layer == "dilated convolution":\n'
        "        return max(1, math.ceil(math.log(length, kernel_size)))\n"
        "    steps, reach, stride = 0",
    ),
)
path_length.edit(
    "path-single-token-zero",
    "A single token gives no steps in your count; it still goes through one layer.",
    (WHILE, "while reach < length - 1:"),
)
