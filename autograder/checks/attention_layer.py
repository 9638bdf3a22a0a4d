"""What right kernels of "Attention as a layer" are."""

from __future__ import annotations

import math

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import attention_layer as reference

FUSED = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)


def _widths(draw, count, low=2):
    """``d_k`` and ``count`` more sizes from ``low`` on, all different.

    The root of ``d_k`` and its inverse are exact in every precision, so that ``torch.sqrt(torch.tensor(d_k))``, which is
    in single precision, is no mistake.
    """
    d_k = int(draw.rng.choice([16, 64]))
    return d_k, *draw.sizes(count, low)


def _odd_width(draw):
    """A ``d_k`` whose root is not a whole number, for cases in single precision: a root in single precision is right."""
    return int(draw.rng.choice([5, 7, 11]))


def _inputs(draw, leading, queries, keys, d_k, d_v, mask=None):
    inputs = {
        "query": draw.normal(*leading, queries, d_k),
        "key": draw.normal(*leading, keys, d_k),
        "value": draw.normal(*leading, keys, d_v),
    }
    return inputs if mask is None else inputs | {"attn_mask": mask}


def _shifted(query, key, levels):
    """The same queries and keys, with the scores of query ``i`` raised by about ``levels[i]``."""
    query, key = query.copy(), key.copy()
    # A long key and a short query: the other way round, the keys' gradients would multiply the scores' rounding.
    query[..., 0], key[..., 0] = np.asarray(levels) * math.sqrt(query.shape[-1]) / 1024, 1024
    return query, key


similarity = Check(
    reference.similarity,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "For one key: multiply the two vectors number by number and add up. Then do it for all keys at once.",
        "A matrix times a vector is one dot product for each row of the matrix.",
        "The spread of a dot product of random vectors grows with the root of their width; divide by it.",
    ),
)


@similarity.aspect("one score for each key", points=1)
def _similarity_values(draw):
    d_k, keys = _widths(draw, 1)
    yield Case("several keys", {"query": draw.normal(d_k), "keys": draw.normal(keys, d_k)})
    other = 80 - d_k  # the other of the two widths, so that no number written out fits both
    yield Case("vectors of another width", {"query": draw.normal(other), "keys": draw.normal(keys, other)})
    yield Case("a single key", {"query": draw.normal(d_k), "keys": draw.normal(1, d_k)})
    yield Case("vectors of width 1", {"query": draw.normal(1), "keys": draw.normal(keys, 1)})
    yield Case(
        "a matrix that is not contiguous", {"query": draw.normal(d_k), "keys": draw.normal(keys, d_k)}, strided=True
    )


@similarity.aspect("gradients and single precision", points=1)
def _similarity_gradients(draw):
    d_k, keys = _widths(draw, 1)
    inputs = {"query": draw.normal(d_k), "keys": draw.normal(keys, d_k)}
    yield Case("gradients for the query and the keys", inputs, gradient=("query", "keys"))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("several calls", inputs, repeated=True)
    odd = _odd_width(draw)
    inputs = {"query": draw.normal(odd), "keys": draw.normal(keys, odd)}
    yield Case("a width without a whole root, single precision", inputs, dtype="float32")
    for title, more in (("a query wider than the keys", 1), ("keys wider than the query", -1)):
        yield Case(title, {"query": draw.normal(d_k + more), "keys": draw.normal(keys, d_k)}, refused=True)


SIMILARITY = "keys @ query / math.sqrt(query.shape[-1])"

similarity.slip(
    "similarity-no-scale",
    SIMILARITY,
    "keys @ query",
    "Your scores are plain dot products; divide them by the square root of the vectors' width.",
)
similarity.slip(
    "similarity-scale-no-sqrt",
    SIMILARITY,
    "keys @ query / query.shape[-1]",
    "You divide by the width itself; divide by its square root.",
    source="https://github.com/delzac/cntkx/issues/10",
)
similarity.slip(
    "similarity-scale-keys",
    SIMILARITY,
    "keys @ query / math.sqrt(keys.shape[0])",
    "You divide by the square root of the number of keys; the spread of a dot product comes from the width of the vectors.",
)
similarity.slip(
    "similarity-scale-multiplied",
    SIMILARITY,
    "keys @ query * math.sqrt(query.shape[-1])",
    "You multiply by the square root of the width where you should divide by it.",
)
similarity.slip(
    "similarity-scale-precedence",
    SIMILARITY,
    "keys @ query / (query.shape[-1] ** 1 / 2)",
    "You divide by half the width: in Python a power binds tighter than a division, so `x ** 1 / 2` is x / 2.",
)
similarity.slip(
    "similarity-scale-whole-root",
    SIMILARITY,
    "keys @ query / int(math.sqrt(query.shape[-1]))",
    "The root of the width is rounded to a whole number, which is right only where it is one.",
)
similarity.slip(
    "similarity-cut-to-fit",
    """    if query.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and the keys have width {keys.shape[-1]}; "
            "a dot product needs equal widths."
        )
""",
    "    keys, query = keys[..., : query.shape[-1]], query[..., : keys.shape[-1]]\n",
    "A query and keys of different widths are cut until they fit; the mistake of the caller should be an error instead.",
)
similarity.slip(
    "similarity-softmax",
    SIMILARITY,
    "torch.softmax(keys @ query / math.sqrt(query.shape[-1]), dim=0)",
    "Your result sums to one: the softmax is not part of this kernel. Return the scores.",
)
similarity.slip(
    "similarity-cosine",
    SIMILARITY,
    "torch.nn.functional.cosine_similarity(keys, query[None], dim=-1)",
    "This is the cosine: it forgets how long the vectors are. The scaled dot product keeps their lengths.",
)
similarity.slip(
    "similarity-distance",
    SIMILARITY,
    "-((keys - query) ** 2).sum(-1) / math.sqrt(query.shape[-1])",
    "This is a negative squared distance. It differs from the dot product by the lengths of the vectors.",
)
similarity.slip(
    "similarity-not-summed",
    SIMILARITY,
    "keys * query / math.sqrt(query.shape[-1])",
    "The products are not added up yet: there should be one number for each key.",
)
similarity.slip(
    "similarity-column",
    SIMILARITY,
    "keys @ query[:, None] / math.sqrt(query.shape[-1])",
    "Your scores are a matrix of one column; a vector with one score for each key is asked for.",
)
similarity.slip(
    "similarity-absolute",
    SIMILARITY,
    "(keys @ query).abs() / math.sqrt(query.shape[-1])",
    "The sign is lost: a key that points away from the query should score below zero.",
)
similarity.slip(
    "similarity-detached",
    SIMILARITY,
    "keys @ query.detach() / math.sqrt(query.shape[-1])",
    "No gradient flows back to the query; let it stay part of the computation.",
)
similarity.slip(
    "similarity-loop-of-numbers",
    SIMILARITY,
    "torch.tensor([float(key @ query) / math.sqrt(query.shape[-1]) for key in keys])",
    "Turning scores into Python numbers cuts off the gradient and forgets the dtype. Keep them tensors, `torch.stack` joins.",
)
similarity.slip(
    "similarity-in-place",
    "    return " + SIMILARITY,
    "    with torch.no_grad():\n        query /= math.sqrt(query.shape[-1])\n    return keys @ query",
    "You scale the caller's query itself, so it is smaller after each call. Make a new tensor.",
)


attention_weights = Check(
    reference.attention_weights,
    difficulty="core",
    minutes=10,
    hints=(
        "Stack the queries of `similarity` into a matrix: all scores are one product of two matrices. Which of them must be "
        "transposed so that row i holds the scores of query i?",
        "With leading dimensions, transpose only the last two axes of the keys. A matrix product repeats over the others.",
        "Each query shares out a total of one among the keys. Which axis counts the keys?",
    ),
    reproduces=FUSED,
)


@attention_weights.aspect("one sequence", points=1)
def _weights_values(draw):
    d_k, queries, keys = _widths(draw, 2)
    yield Case("several queries and keys", {"query": draw.normal(queries, d_k), "key": draw.normal(keys, d_k)})
    yield Case("as many queries as keys", {"query": draw.normal(keys, d_k), "key": draw.normal(keys, d_k)})
    other = 80 - d_k
    yield Case("another width", {"query": draw.normal(queries, other), "key": draw.normal(keys, other)})
    yield Case("a single query", {"query": draw.normal(1, d_k), "key": draw.normal(keys, d_k)})
    yield Case("a single key", {"query": draw.normal(queries, d_k), "key": draw.normal(1, d_k)})


@attention_weights.aspect("any leading dimensions", points=1)
def _weights_leading(draw):
    d_k, queries, keys, batch, heads = _widths(draw, 4)
    for title, leading, rows in (
        ("a batch", (batch,), queries),
        ("a batch of one", (1,), queries),
        ("a batch with as many queries as keys", (batch,), keys),
        ("a batch of one, with heads", (1, heads), queries),
        ("a batch with one head", (batch, 1), queries),
        ("a batch and heads", (batch, heads), queries),
    ):
        inputs = {"query": draw.normal(*leading, rows, d_k), "key": draw.normal(*leading, keys, d_k)}
        yield Case(title, inputs)
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("keys of another width", inputs | {"key": draw.normal(batch, heads, keys, d_k + 1)}, refused=True)
    if draw.hidden:
        leading = (1, heads, 2)
        yield Case(
            "three axes", {"query": draw.normal(*leading, queries, d_k), "key": draw.normal(*leading, keys, d_k)}
        )


@attention_weights.aspect("scores near 1,000", points=1)
def _weights_large(draw):
    d_k, queries, keys = _widths(draw, 2)
    query, key = draw.normal(queries, d_k), draw.normal(keys, d_k)
    for title, levels in (("large scores", [1e3] * queries), ("rows far apart", 1e3 * np.arange(queries) - 1e3)):
        raised, ones = _shifted(query, key, levels)
        yield Case(title, {"query": raised, "key": ones})


@attention_weights.aspect("gradients, single and half precision", points=1)
def _weights_gradients(draw):
    d_k, queries, keys, batch = _widths(draw, 3)
    inputs = {"query": draw.normal(batch, queries, d_k), "key": draw.normal(batch, keys, d_k)}
    yield Case("gradients for queries and keys", inputs, gradient=("query", "key"))
    yield Case("single precision", inputs, dtype="float32")
    odd = _odd_width(draw)
    odd_inputs = {"query": draw.normal(queries, odd), "key": draw.normal(keys, odd)}
    yield Case("a width without a whole root, single precision", odd_inputs, dtype="float32")
    yield Case("half precision", inputs, dtype="float16")


SCORES = "query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])"
SOFTMAX = "torch.softmax(scores, dim=-1)"

# Wrong softmaxes and wrong scores, made in both kernels that contain them.
WRONG_SOFTMAXES = (
    (
        "attn-softmax-query-axis",
        "torch.softmax(scores, dim=-2)",
        "Your weights sum to one over the queries. Each query's weights must sum to one over the keys, the last axis.",
        "https://github.com/PetrochukM/PyTorch-NLP/issues/2",
    ),
    (
        "attn-softmax-first-axis",
        "torch.softmax(scores, dim=0)",
        "Your softmax runs over the first axis, whichever that is: the queries of one sequence, the items of a batch. "
        "It must run over the keys, the last axis.",
        "",
    ),
    (
        "attn-softmax-second-axis",
        "torch.softmax(scores, dim=1)",
        "Your softmax runs over axis 1. Those are the keys of one sequence, but in a batch they are the queries or the heads; "
        "count from the end.",
        "",
    ),
    (
        "attn-softmax-implicit-dim",
        "torch.nn.functional.softmax(scores)",
        "A softmax without an axis guesses one: axis 1 for a matrix, axis 0 for three axes. Say which axis counts the keys.",
        "Student code of Stanford CS224N, a4/nmt_model.py, where it happens to be right",
    ),
    (
        "attn-softmax-whole-matrix",
        "torch.softmax(scores.flatten(-2), dim=-1).view(scores.shape)",
        "All weights of a sequence together sum to one. Each query should have a total of one for itself.",
        "",
    ),
    (
        "attn-softmax-twice",
        "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)",
        "The softmax is applied twice, so the weights are much too even.",
        "",
    ),
    (
        "attn-softmax-log",
        "torch.log_softmax(scores, dim=-1)",
        "These are the logarithms of the weights (log-softmax): they are negative and do not sum to one.",
        "",
    ),
    (
        "attn-softmax-no-exp",
        "scores / scores.sum(dim=-1, keepdim=True)",
        "You divide the scores by their sum. Scores can be negative; exponentials make them positive first.",
        "",
    ),
    (
        "attn-softmax-overflow",
        "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)",
        "Your exponentials overflow: exp(1000) is infinite, and infinity over infinity is NaN. Subtract each row's largest "
        "score first; the weights stay the same.",
        "https://github.com/uTensor/uTensor/issues/175",
    ),
    (
        "attn-softmax-largest-of-all",
        "(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)",
        "You subtract the largest score of the whole tensor. A row far below it underflows to zero over zero: take the "
        "largest of each row.",
        "",
    ),
    (
        "attn-softmax-in-float32",
        "torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)",
        "The softmax is computed in single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
    (
        "attn-softmax-detached",
        "torch.softmax(scores.detach(), dim=-1)",
        "No gradient flows back through the weights, so queries and keys would never learn.",
        "",
    ),
)
WRONG_SCORES = (
    (
        "attn-no-scale",
        "query @ key.transpose(-2, -1)",
        "Your scores are not divided by the square root of d_k, so the weights are too sharp.",
        "",
    ),
    (
        "attn-scale-no-sqrt",
        "query @ key.transpose(-2, -1) / query.shape[-1]",
        "Your scores are divided by d_k, or by its square root twice (query and scores). Divide by the square root, once.",
        "https://github.com/delzac/cntkx/issues/10",
    ),
    (
        "attn-scale-keys",
        "query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])",
        "You divide by the square root of the number of keys; the width of the keys is meant.",
        "",
    ),
    (
        "attn-scale-multiplied",
        "query @ key.transpose(-2, -1) * math.sqrt(query.shape[-1])",
        "You multiply by the square root of d_k where you should divide by it.",
        "",
    ),
    (
        "attn-scale-precedence",
        "query @ key.transpose(-2, -1) / (query.shape[-1] ** 1 / 2)",
        "You divide by half of d_k: in Python a power binds tighter than a division, so `x ** 1 / 2` is x / 2.",
        "",
    ),
    (
        "attn-scale-whole-root",
        "query @ key.transpose(-2, -1) / int(math.sqrt(query.shape[-1]))",
        "The root of d_k is rounded to a whole number, which is right only where it is one.",
        "",
    ),
    (
        "attn-scale-d_model",
        "query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1] * (query.shape[-3] if query.dim() > 3 else 1))",
        "With heads you divide by the square root of d_model, the width of all heads together. Each head's dot product has "
        "only d_k terms.",
        "https://github.com/lucidrains/vit-pytorch/issues/65",
    ),
    (
        "attn-key-reshaped",
        "query @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2]) / math.sqrt(query.shape[-1])",
        "`view` and `reshape` do not transpose: they read the same numbers on in another order, so parts of different keys "
        "are mixed.",
        "https://github.com/rish-16/tokenlearner-pytorch/issues/1",
    ),
    (
        "attn-key-first-axes-transposed",
        "query @ key.transpose(0, 1) / math.sqrt(query.shape[-1])",
        "You swap the first two axes of the keys. That is right for a matrix; with a batch or heads in front, swap the last "
        "two.",
        "",
    ),
    (
        "attn-in-place",
        "query.detach().div_(math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)",
        "You scale the caller's queries themselves (an operation in place), so they are smaller after each call. Make a "
        "new tensor.",
        "",
    ),
    (
        "attn-computed-in-float32",
        "(query.float() @ key.float().transpose(-2, -1) / math.sqrt(query.shape[-1])).to(query.dtype)",
        "The scores are computed in single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
)

for _id, _new, _hint, _source in WRONG_SOFTMAXES:
    attention_weights.slip(_id, SOFTMAX, _new, _hint, _source)
for _id, _new, _hint, _source in WRONG_SCORES:
    attention_weights.slip(_id, SCORES, _new, _hint, _source)
attention_weights.slip(
    "weights-transposed",
    "return torch.softmax(scores, dim=-1)",
    "return torch.softmax(scores, dim=-1).transpose(-2, -1)",
    "Your weights are transposed: there should be one row for each query and one column for each key.",
)
attention_weights.slip(
    "weights-keys-ask",
    SCORES,
    "key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1])",
    "Queries and keys have changed places: here each key shares out its weights among the queries.",
)
attention_weights.slip(
    "weights-scores-returned",
    "return torch.softmax(scores, dim=-1)",
    "return scores",
    "These are the scores; the weights are their softmax.",
)
attention_weights.slip(
    "weights-scale-after-softmax",
    "    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (*batch, query, key)\n"
    "    return torch.softmax(scores, dim=-1)",
    "    return torch.softmax(query @ key.transpose(-2, -1), dim=-1) / math.sqrt(query.shape[-1])",
    "You divide the weights by the square root of d_k, so they no longer sum to one. Divide the scores, before the softmax.",
)
attention_weights.slip(
    "weights-batch-squeezed",
    "return torch.softmax(scores, dim=-1)",
    "return torch.softmax(scores, dim=-1).squeeze()",
    "`squeeze` removes every axis of length 1, also a batch of one or a single query. Name the axis, or leave it out.",
)


scaled_dot_product_attention = Check(
    reference.scaled_dot_product_attention,
    difficulty="core",
    minutes=25,
    hints=(
        "Without a mask it is one more product: the weights of `attention_weights` times the values.",
        "A key that may not be attended to must have weight exactly zero, and the others must still sum to one. So the mask "
        "acts on the scores: which score gives weight zero?",
        "In a row without any True, every score is the same. Minus infinity gives NaN there, a large negative number gives "
        "equal weights. Either way the blocked weights can be set to zero after the softmax.",
        "Half precision holds no number below -65,504. `torch.finfo(dtype).min` is the lowest of any dtype.",
    ),
    reproduces=FUSED,
)


@scaled_dot_product_attention.aspect("one sequence", points=1)
def _attention_values(draw):
    d_k, d_v, queries, keys = _widths(draw, 3)
    yield Case("several queries and keys", _inputs(draw, (), queries, keys, d_k, d_v))
    yield Case("equal lengths and widths", _inputs(draw, (), keys, keys, d_k, d_k))
    yield Case("another width of the keys", _inputs(draw, (), queries, keys, 80 - d_k, d_v))
    yield Case("a single query and a single key", _inputs(draw, (), 1, 1, d_k, d_v))


@scaled_dot_product_attention.aspect("any leading dimensions", points=1)
def _attention_leading(draw):
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5)
    yield Case("a batch", _inputs(draw, (batch,), queries, keys, d_k, d_v))
    yield Case("a batch of one", _inputs(draw, (1,), queries, keys, d_k, d_v))
    yield Case("a batch and heads", _inputs(draw, (batch, heads), queries, keys, d_k, d_v))
    yield Case("tensors that are not contiguous", _inputs(draw, (batch, 1), queries, keys, d_k, d_v), strided=True)
    yield Case("as many heads as tokens", _inputs(draw, (batch, keys), keys, keys, d_k, d_v))
    yield Case("a batch with as many queries as keys", _inputs(draw, (batch,), keys, keys, d_k, d_v))
    yield Case("a batch, single queries, values of width 1", _inputs(draw, (batch,), 1, keys, d_k, 1))
    inputs = _inputs(draw, (batch,), queries, keys, d_k, d_v)
    yield Case("several calls", inputs, repeated=True)
    yield Case("keys of another width", inputs | {"key": draw.normal(batch, keys, d_k + 1)}, refused=True)
    yield Case("more values than keys", inputs | {"value": draw.normal(batch, keys + 1, d_v)}, refused=True)
    if draw.hidden:
        yield Case("three axes", _inputs(draw, (2, 3, heads), queries, keys, d_k, d_v))


@scaled_dot_product_attention.aspect("a mask, True where a query may attend", points=1)
def _attention_mask(draw):
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5)
    inputs = _inputs(draw, (batch, heads), queries, keys, d_k, d_v)
    yield Case("one mask for all", inputs | {"attn_mask": draw.mask(queries, keys)})
    yield Case("a mask for each item", inputs | {"attn_mask": draw.mask(batch, 1, queries, keys)})
    yield Case("a mask for each item's keys", inputs | {"attn_mask": draw.mask(batch, 1, 1, keys)})
    yield Case("a mask for each head", inputs | {"attn_mask": draw.mask(heads, queries, keys)})
    yield Case("a mask for each item and head", inputs | {"attn_mask": draw.mask(batch, heads, queries, keys)})
    yield Case("a mask that allows everything", inputs | {"attn_mask": np.ones((queries, keys), bool)})
    yield Case("a mask given by name", inputs, options={"attn_mask": draw.mask(queries, keys)})
    yield Case("several calls with masks", inputs | {"attn_mask": draw.mask(queries, keys)}, repeated=True)
    square = _inputs(draw, (), keys, keys, d_k, d_v)
    yield Case("a triangular mask", square | {"attn_mask": np.tri(keys, dtype=bool)})
    square = _inputs(draw, (batch, heads), keys, keys, d_k, d_v)
    yield Case("triangular masks", square | {"attn_mask": np.tile(np.tri(keys, dtype=bool), (batch, 1, 1, 1))})
    as_many = _inputs(draw, (queries, heads), queries, keys, d_k, d_v)
    yield Case("one mask for all, as many items as queries", as_many | {"attn_mask": draw.mask(queries, keys)})
    query, key = inputs["query"].copy(), inputs["key"].copy()
    query[..., 0], key[..., 0], key[..., 0, 0] = 1e3 * math.sqrt(d_k), 0.0, 1.0
    mask = draw.mask(queries, keys - 1)
    mask = np.concatenate([np.zeros((queries, 1), bool), mask], axis=1)
    yield Case("a blocked key 1,000 above the others", inputs | {"query": query, "key": key, "attn_mask": mask})
    numbers = np.where(draw.mask(queries, keys), 0.0, -1e9)
    yield Case("a mask of numbers", inputs | {"attn_mask": numbers}, refused=True)
    yield Case("a mask of zeros and ones", inputs | {"attn_mask": mask.astype(np.int64)}, refused=True)


@scaled_dot_product_attention.aspect("a query that may attend to nothing", points=1)
def _attention_nothing(draw):
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5)
    mask = draw.mask(batch, 1, queries, keys)
    mask[0, 0, 1] = False
    inputs = _inputs(draw, (batch, heads), queries, keys, d_k, d_v, mask)
    yield Case("one query without any key", inputs)
    yield Case("its gradients", inputs, gradient=("query", "key", "value"))
    mask = draw.mask(batch, 1, 1, keys)
    mask[1] = False
    yield Case("an item without any key", inputs | {"attn_mask": mask}, gradient=("query", "key", "value"))
    column = np.arange(queries)[:, None] != 1
    yield Case("one answer for all keys", inputs | {"attn_mask": column})
    yield Case("no key for any query", inputs | {"attn_mask": np.zeros((1, 1), bool)})
    yield Case("a single key, for some", _inputs(draw, (batch,), queries, 1, d_k, d_v, column))


@scaled_dot_product_attention.aspect("gradients", points=1)
def _attention_gradients(draw):
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5)
    inputs = _inputs(draw, (batch, heads), queries, keys, d_k, d_v)
    yield Case("without a mask", inputs, gradient=("query", "key", "value"))
    masked = inputs | {"attn_mask": draw.mask(batch, 1, queries, keys)}
    yield Case("with a mask", masked, gradient=("query", "key", "value"))


@scaled_dot_product_attention.aspect("large scores, single and half precision", points=1)
def _attention_numbers(draw):
    d_k, d_v, queries, keys, batch = _widths(draw, 4)
    inputs = _inputs(draw, (batch,), queries, keys, d_k, d_v)
    for title, levels in (
        ("scores near 1,000", [1e3] * queries),
        ("rows of scores far apart", 1e3 * np.arange(queries) - 1e3),
    ):
        query, key = _shifted(inputs["query"], inputs["key"], levels)
        yield Case(title, inputs | {"query": query, "key": key})
    query, key = _shifted(inputs["query"], inputs["key"], [-2e4] * queries)
    mask = draw.mask(batch, queries, keys)
    yield Case("scores near -20,000 and a mask", inputs | {"query": query, "key": key, "attn_mask": mask})
    odd = _inputs(draw, (), queries, keys, _odd_width(draw), d_v)
    yield Case("a width without a whole root, single precision", odd, dtype="float32")
    yield Case("single precision", inputs | {"attn_mask": mask}, dtype="float32")
    yield Case("half precision", inputs | {"attn_mask": mask}, dtype="float16")


for _id, _new, _hint, _source in WRONG_SOFTMAXES:
    scaled_dot_product_attention.slip(_id, SOFTMAX, _new, _hint, _source)
for _id, _new, _hint, _source in WRONG_SCORES:
    scaled_dot_product_attention.slip(_id, SCORES, _new, _hint, _source)

FILL = "scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)"
ZERO = "attn_weights.masked_fill(~attn_mask, 0.0)"


scaled_dot_product_attention.edit(
    "attn-scale-d_v",
    "You divide by the square root of the values' width; the dot products have d_k terms, the width of the keys.",
    (SCORES, "query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1])"),
)
scaled_dot_product_attention.edit(
    "attn-scale-after-softmax",
    "You divide the weights by the square root of d_k, so they no longer sum to one. Divide the scores, before the softmax.",
    (SCORES, "query @ key.transpose(-2, -1)"),
    (SOFTMAX, "torch.softmax(scores, dim=-1) / math.sqrt(query.shape[-1])"),
)
scaled_dot_product_attention.edit(
    "attn-keys-averaged",
    "The keys are averaged, not the values: keys are compared with, values are handed out.",
    ("return attn_weights @ value", "return attn_weights @ key"),
    source="https://github.com/jsbaan/transformer-from-scratch/issues/1",
)
scaled_dot_product_attention.edit(
    "attn-key-value-swapped",
    "Keys and values have changed places: queries are compared with keys, and values are averaged.",
    (SCORES, "query @ value.transpose(-2, -1) / math.sqrt(query.shape[-1])"),
    ("return attn_weights @ value", "return attn_weights @ key"),
    source="https://github.com/jsbaan/transformer-from-scratch/issues/1",
)
scaled_dot_product_attention.edit(
    "attn-weights-returned",
    "You return the weights; each query's output is the average of the values under its weights.",
    ("return attn_weights @ value", "return attn_weights"),
)
scaled_dot_product_attention.edit(
    "attn-pair-returned",
    "You return two things. Return the output alone.",
    ("return attn_weights @ value", "return attn_weights @ value, attn_weights"),
)
scaled_dot_product_attention.edit(
    "attn-batch-squeezed",
    "`squeeze` removes every axis of length 1, also a batch of one or a single query. Name the axis, or leave it out.",
    ("return attn_weights @ value", "return (attn_weights @ value).squeeze()"),
)
scaled_dot_product_attention.edit(
    "attn-float32-returned",
    "The result is in single precision whatever dtype comes in; keep the dtype of the query.",
    ("return attn_weights @ value", "return (attn_weights @ value).float()"),
)
scaled_dot_product_attention.edit(
    "mask-tiny-fill-1e-9",
    "Blocked scores become 1e-9, which is nearly 0 and an ordinary score. A score that gives no weight is very negative.",
    (FILL, "scores.masked_fill(~attn_mask, 1e-9)"),
    (ZERO, "attn_weights"),
    source="https://github.com/awslabs/gluonts/pull/1401",
)
scaled_dot_product_attention.edit(
    "mask-tiny-negative-fill",
    "Blocked scores become -1e-9, which is nearly 0 and an ordinary score. Very negative is -1e9, and more.",
    (FILL, "scores.masked_fill(~attn_mask, -1e-9)"),
    (ZERO, "attn_weights"),
    source="https://github.com/hyunwoongko/transformer/issues/10",
)
scaled_dot_product_attention.edit(
    "mask-double-negative-inf",
    "Blocked scores become plus infinity: they take all the weight, or turn into NaN. The sign is wrong, or there twice.",
    (FILL, "scores.masked_fill(~attn_mask, torch.inf)"),
    (ZERO, "attn_weights"),
    source="https://github.com/lucidrains/memory-compressed-attention/issues/2",
)
scaled_dot_product_attention.edit(
    "mask-multiply-scores",
    "Blocked scores become 0, by a product with the mask or by filling. Zero is an ordinary score and still gets weight.",
    (FILL, "scores * attn_mask"),
    (ZERO, "attn_weights"),
    source="https://github.com/georg-wolflein/good-features/pull/1",
)
scaled_dot_product_attention.edit(
    "mask-after-softmax",
    "The mask acts only after the softmax, so the weights that are left sum to less than one.",
    (FILL, "scores"),
    source="https://github.com/huggingface/pytorch-image-models/pull/2236",
)
scaled_dot_product_attention.edit(
    "mask-renormalised",
    "The mask acts only after the softmax, and the weights are divided by their sum again. Where a blocked key scores far "
    "above the others, theirs have become zero by then. Block the scores, before the softmax.",
    (FILL, "scores"),
    (
        ZERO,
        ZERO + "\n        total = attn_weights.sum(dim=-1, keepdim=True)"
        "\n        attn_weights = attn_weights / total.masked_fill(total == 0, 1)",
    ),
)
scaled_dot_product_attention.edit(
    "mask-as-numbers",
    "A mask of numbers is taken as well, as if every number but zero meant True. A mask made to be added means the opposite "
    "by its zeros: such a mask should be an error.",
    (
        """    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError(
            f"attn_mask has dtype {attn_mask.dtype}; it must be torch.bool, True where a query may attend to a key."
        )
""",
        "    attn_mask = None if attn_mask is None else attn_mask.bool()\n",
    ),
)
scaled_dot_product_attention.edit(
    "mask-added-as-numbers",
    "A mask of numbers is added to the scores. What a number means, the caller alone knows: such a mask should be an error.",
    (
        """    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError(
            f"attn_mask has dtype {attn_mask.dtype}; it must be torch.bool, True where a query may attend to a key."
        )
""",
        "    bias = 0\n"
        "    if attn_mask is not None and attn_mask.dtype != torch.bool:\n"
        "        bias, attn_mask = attn_mask, None\n",
    ),
    (SCORES, SCORES + " + bias"),
)
scaled_dot_product_attention.edit(
    "mask-one-for-each-item",
    "A mask of two axes is taken for one of items and keys where its shape allows that. It broadcasts from the right: its "
    "axes are queries and keys, the same for all items.",
    (
        "    attn_weights = torch.softmax(scores, dim=-1)\n    if attn_mask is not None:  # a row without any True is uniform so far",
        "    attn_weights = torch.softmax(scores, dim=-1)\n    if attn_mask is not None:",
    ),
    (
        "    if attn_mask is not None:\n        scores =",
        "    if attn_mask is not None:\n"
        "        if scores.dim() > 2 and attn_mask.shape == (scores.shape[0], scores.shape[-1]):\n"
        "            attn_mask = attn_mask.reshape(-1, *[1] * (scores.dim() - 2), scores.shape[-1])\n"
        "        scores =",
    ),
)
scaled_dot_product_attention.edit(
    "mask-inverted",
    "The mask is read the wrong way round: True is where a query may attend. (`nn.MultiheadAttention` means the opposite.)",
    (FILL, "scores.masked_fill(attn_mask, torch.finfo(scores.dtype).min)"),
    (ZERO, "attn_weights.masked_fill(attn_mask, 0.0)"),
    source="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
)
scaled_dot_product_attention.edit(
    "mask-bool-added",
    "The boolean mask is added to the scores as if it were numbers: allowed scores rise by 1, blocked ones stay.",
    (FILL, "scores + attn_mask"),
    (ZERO, "attn_weights"),
    source="https://github.com/pytorch/pytorch/issues/117939",
)
scaled_dot_product_attention.edit(
    "mask-ignored",
    "The mask changes nothing: every query still attends to every key.",
    (FILL, "scores"),
    (ZERO, "attn_weights"),
)
scaled_dot_product_attention.edit(
    "mask-transposed",
    "The mask is transposed: its rows belong to the queries and its columns to the keys, as those of the scores do.",
    (FILL, "scores.masked_fill(~attn_mask.transpose(-2, -1), torch.finfo(scores.dtype).min)"),
    (ZERO, "attn_weights.masked_fill(~attn_mask.transpose(-2, -1), 0.0)"),
)
scaled_dot_product_attention.edit(
    "mask-changed",
    "You turn the caller's mask round in place, so it means the opposite after the call. Make a new one.",
    (FILL, "scores.masked_fill(attn_mask.logical_not_(), torch.finfo(scores.dtype).min)"),
    (ZERO, "attn_weights.masked_fill(attn_mask, 0.0)"),
)
scaled_dot_product_attention.edit(
    "mask-fully-masked-nan",
    "A query that may attend to nothing comes out as NaN: a softmax of nothing but minus infinity is zero over zero. "
    "Its output should be zeros.",
    (FILL, "scores.masked_fill(~attn_mask, -torch.inf)"),
    (ZERO, "attn_weights"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
scaled_dot_product_attention.edit(
    "mask-fully-masked-uniform",
    "A query that may attend to nothing gets the average of all values: where every score is the same, the softmax "
    "is even, however low that score. Its output should be zeros.",
    (ZERO, "attn_weights"),
    source="https://github.com/d2l-ai/d2l-en/pull/2423",
)
scaled_dot_product_attention.edit(
    "mask-fully-masked-ignored",
    "A query that may attend to nothing attends as if there were no mask: the same number added to every score of a row "
    "changes nothing. Its output should be zeros.",
    (FILL, "scores - 1e9 * (~attn_mask).to(scores.dtype)"),
    (ZERO, "attn_weights"),
    source="https://github.com/ml-explore/mlx/issues/2395",
)
scaled_dot_product_attention.edit(
    "mask-nan-gradient",
    "The output is right, but for a query that may attend to nothing the gradient is NaN: the NaN was hidden after the "
    "softmax, and the way back still goes through it. Keep it from arising, or block the scores rather than add to them.",
    (FILL, "scores + torch.zeros_like(scores).masked_fill(~attn_mask, -torch.inf)"),
    (ZERO, "attn_weights.nan_to_num()"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
scaled_dot_product_attention.edit(
    "mask-fill-fp16-overflow",
    "The fill of -1e9 does not fit into half precision, whose lowest number is -65,504.",
    (FILL, "scores.masked_fill(~attn_mask, -1e9)"),
    source="https://github.com/pytorch/pytorch/issues/103963",
)
scaled_dot_product_attention.edit(
    "mask-fill-too-small",
    "The fill of -10,000 is not low enough: where the allowed scores are lower still, the blocked keys win.",
    (FILL, "scores.masked_fill(~attn_mask, -1e4)"),
)
scaled_dot_product_attention.edit(
    "mask-epsilon",
    "A small number is added where the weights are shared out, so they sum to less than one. Treat the rows without any "
    "key apart.",
    (
        SOFTMAX,
        "(scores - scores.amax(dim=-1, keepdim=True)).exp()\n"
        "    attn_weights = attn_weights / (attn_weights.sum(dim=-1, keepdim=True) + 1e-6)",
    ),
)


cross_attention = Check(
    reference.cross_attention,
    difficulty="core",
    minutes=10,
    hints=(
        "Which sequence asks, and which is looked up? The queries come from the first, everything else from the second.",
        "The projections are in the layout (D_in, D_out), so a row vector stands on their left.",
        "Three products give query, key and value; your `scaled_dot_product_attention` does the rest, the scale and the mask "
        "included.",
    ),
    reproduces=FUSED[1:],
    uses=("scaled_dot_product_attention",),
)


def _cross_inputs(draw, leading, queries, keys, d_in_q, d_in_kv, d_k, d_v):
    return {
        "X_q": draw.normal(*leading, queries, d_in_q),
        "X_kv": draw.normal(*leading, keys, d_in_kv),
        "W_Q": draw.normal(d_in_q, d_k) / math.sqrt(d_in_q),
        "W_K": draw.normal(d_in_kv, d_k) / math.sqrt(d_in_kv),
        "W_V": draw.normal(d_in_kv, d_v) / math.sqrt(d_in_kv),
    }


@cross_attention.aspect("one sequence looks things up in another", points=1)
def _cross_values(draw):
    d_k, d_v, d_in_q, d_in_kv, queries, keys = _widths(draw, 5)
    yield Case("two sequences of one width", _cross_inputs(draw, (), queries, keys, d_in_q, d_in_q, d_k, d_v))
    yield Case("all widths equal", _cross_inputs(draw, (), keys, keys, d_k, d_k, d_k, d_k))
    yield Case("two sequences of different widths", _cross_inputs(draw, (), queries, keys, d_in_q, d_in_kv, d_k, d_v))
    yield Case("values of width 1", _cross_inputs(draw, (), queries, keys, d_in_q, d_in_kv, 80 - d_k, 1))
    far = _cross_inputs(draw, (), queries, keys, d_in_q, d_in_kv, d_k, d_v)
    yield Case("scores near 1,000", far | {"X_q": 1e3 * far["X_q"]})


@cross_attention.aspect("a batch, with a mask", points=1)
def _cross_mask(draw):
    d_k, d_v, d_in, queries, keys, batch = _widths(draw, 5)
    inputs = _cross_inputs(draw, (batch,), queries, keys, d_in, d_in, d_k, d_v)
    yield Case("a batch", inputs)
    yield Case("a batch of one, a single query", _cross_inputs(draw, (1,), 1, keys, d_in, d_in, d_k, d_v))
    yield Case("a mask for each item's keys", inputs | {"attn_mask": draw.mask(batch, 1, keys)})
    yield Case("one mask for all, given by name", inputs, options={"attn_mask": draw.mask(queries, keys)})
    square = _cross_inputs(draw, (batch,), keys, keys, d_in, d_in, d_k, d_v)
    yield Case("equal lengths, a triangular mask", square | {"attn_mask": np.tri(keys, dtype=bool)})
    mask = draw.mask(batch, queries, keys)
    mask[0, 1] = False
    yield Case("a query that may attend to nothing", inputs | {"attn_mask": mask})
    yield Case("several calls", inputs | {"attn_mask": mask}, repeated=True)
    for name in ("W_Q", "W_K", "W_V"):
        wrong = inputs | {name: draw.normal(d_in + 1, inputs[name].shape[1])}
        yield Case(f"{name} with one row too many", wrong, refused=True)
    if draw.hidden:
        yield Case("two leading axes", _cross_inputs(draw, (2, 3), queries, keys, d_in, d_in, d_k, d_v))


@cross_attention.aspect("gradients and single precision", points=1)
def _cross_gradients(draw):
    d_k, d_v, d_in, queries, keys, batch = _widths(draw, 5)
    inputs = _cross_inputs(draw, (batch,), queries, keys, d_in, d_in, d_k, d_v)
    yield Case("gradients for sequences and projections", inputs, gradient=tuple(inputs))
    masked = inputs | {"attn_mask": draw.mask(batch, queries, keys)}
    yield Case("gradients with a mask", masked, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")
    odd = _cross_inputs(draw, (), queries, keys, d_in, d_in, _odd_width(draw), d_v)
    yield Case("a width without a whole root, single precision", odd, dtype="float32")


QUERY, KEY, VALUE = "query = X_q @ W_Q", "key = X_kv @ W_K", "value = X_kv @ W_V"
ATTEND = "return scaled_dot_product_attention(query, key, value, attn_mask)"


cross_attention.edit(
    "cross-attn-attends-to-self",
    "Keys and values come from the sequence that asks, so it attends to itself. They belong to the other one.",
    (KEY, "key = X_q @ W_K"),
    (VALUE, "value = X_q @ W_V"),
    source="https://github.com/keitakurita/Practical_NLP_in_PyTorch/issues/1",
)
cross_attention.edit(
    "cross-keys-from-asker",
    "Your keys come from the sequence that asks; keys and values belong to the one that is looked up.",
    (KEY, "key = X_q @ W_K"),
)
cross_attention.edit(
    "cross-values-from-asker",
    "Your values come from the sequence that asks; keys and values belong to the one that is looked up.",
    (VALUE, "value = X_q @ W_V"),
)
cross_attention.edit(
    "cross-queries-from-other",
    "Your queries come from the sequence that is looked up, so it attends to itself. `X_q` asks.",
    (QUERY, "query = X_kv @ W_Q"),
)
cross_attention.edit(
    "cross-roles-swapped",
    "The two sequences have changed places: `X_q` asks, `X_kv` is looked up.",
    (QUERY, "query = X_kv @ W_Q"),
    (KEY, "key = X_q @ W_K"),
    (VALUE, "value = X_q @ W_V"),
    source="https://github.com/keitakurita/Practical_NLP_in_PyTorch/issues/1",
)
cross_attention.edit(
    "cross-projections-swapped",
    "Keys and values have changed places: their projections, or the order in which they are handed on.",
    (KEY, "key = X_kv @ W_V"),
    (VALUE, "value = X_kv @ W_K"),
)
cross_attention.edit(
    "cross-one-projection",
    "Queries and keys go through the same projection, `W_Q`. Each has its own.",
    (KEY, "key = X_kv @ W_Q"),
)
cross_attention.edit(
    "cross-weights-transposed",
    "The projections are used in the layout (D_out, D_in) of `nn.Linear`. Here they are (D_in, D_out): a row vector stands "
    "on their left.",
    (QUERY, "query = X_q @ W_Q.T"),
    (KEY, "key = X_kv @ W_K.T"),
    (VALUE, "value = X_kv @ W_V.T"),
)
cross_attention.edit(
    "cross-values-not-projected",
    "The values are the tokens of `X_kv` themselves; they have a projection of their own.",
    (VALUE, "value = X_kv"),
)
cross_attention.edit(
    "cross-queries-not-projected",
    "The queries are the tokens of `X_q` themselves; they have a projection of their own.",
    (QUERY, "query = X_q"),
)
cross_attention.edit(
    "cross-scaled-twice",
    "The scores are scaled twice: `scaled_dot_product_attention` divides by the square root of d_k already.",
    (QUERY, "query = X_q @ W_Q / math.sqrt(W_Q.shape[-1])"),
)
cross_attention.edit(
    "cross-mask-dropped",
    "The mask is not handed on: every token of `X_q` attends to every token of `X_kv`.",
    (ATTEND, "return scaled_dot_product_attention(query, key, value, None)"),
)
cross_attention.edit(
    "cross-mask-inverted",
    "The mask is turned round on its way: True is where a query may attend, here and in `scaled_dot_product_attention`.",
    (ATTEND, "return scaled_dot_product_attention(query, key, value, None if attn_mask is None else ~attn_mask)"),
)
cross_attention.edit(
    "cross-squeezed",
    "`squeeze` removes every axis of length 1, also a batch of one or a single query.",
    (ATTEND, "return scaled_dot_product_attention(query, key, value, attn_mask).squeeze()"),
)
cross_attention.edit(
    "cross-detached",
    "No gradient reaches `X_kv`: the sequence that is looked up must learn too.",
    (KEY, "key = X_kv.detach() @ W_K"),
    (VALUE, "value = X_kv.detach() @ W_V"),
)


attention_backward = Check(
    reference.attention_backward,
    difficulty="stretch",
    minutes=45,
    hints=(
        "Compute the weights again first, stably and with the mask; the rest needs them. Then begin with `grad_value`, and "
        "return zeros of the right shapes for the gradients that you have not derived yet.",
        "The output is linear in the values: output = A V. So each value receives the output's gradient from every query, "
        "by its weight. The same product gives the gradient for A, from the values.",
        "Through the softmax, row by row: the gradient for score j is a_j times (its own gradient minus the average of all "
        "gradients under the weights).",
        "The scores are S = Q K^T / sqrt(d_k): the gradient for Q is that for S times K, that for K is its transpose times Q, "
        "and the scale stands in both.",
    ),
    reproduces=("torch.autograd.grad", "torch.autograd.backward"),
)


def _backward_inputs(draw, leading, queries, keys, d_k, d_v, mask=None):
    grad_output = {"grad_output": draw.normal(*leading, queries, d_v)}
    return grad_output | _inputs(draw, leading, queries, keys, d_k, d_v, mask)


def _one_gradient(name):
    def cases(draw):
        d_k, d_v, queries, keys = _widths(draw, 3)
        only = {"only": name}
        yield Case("one sequence", _backward_inputs(draw, (), queries, keys, d_k, d_v), probe=only)
        yield Case("equal lengths and widths", _backward_inputs(draw, (), keys, keys, d_k, d_k), probe=only)

    return cases


attention_backward.aspect("the gradient for the values", points=1)(_one_gradient("grad_value"))
attention_backward.aspect("the gradient for the queries", points=1)(_one_gradient("grad_query"))
attention_backward.aspect("the gradient for the keys", points=1)(_one_gradient("grad_key"))


@attention_backward.aspect("leading dimensions, large scores, single precision", points=1)
def _backward_leading(draw):
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5)
    inputs = _backward_inputs(draw, (batch, heads), queries, keys, d_k, d_v)
    yield Case("a batch and heads", inputs)
    yield Case("a batch of one, a single query", _backward_inputs(draw, (1,), 1, keys, d_k, d_v))
    yield Case("a batch of equal lengths and widths", _backward_inputs(draw, (batch,), keys, keys, d_k, d_k))
    yield Case("values of width 1", _backward_inputs(draw, (batch,), queries, keys, 80 - d_k, 1))
    yield Case("several calls", inputs, repeated=True)
    wide = {"grad_output": draw.normal(batch, heads, queries, d_v + 1)}
    yield Case("a gradient wider than the output", inputs | wide, refused=True)
    row = {"grad_output": draw.normal(1, heads, 1, d_v)}
    yield Case("a gradient that would broadcast to the output", inputs | row, refused=True)
    if draw.hidden:
        yield Case("three axes", _backward_inputs(draw, (2, 3, heads), queries, keys, d_k, d_v))
    yield Case(
        "arrays that are not contiguous", _backward_inputs(draw, (batch,), queries, keys, d_k, d_v), strided=True
    )
    query, key = _shifted(inputs["query"], inputs["key"], 1e3 * np.arange(queries) - 1e3)
    yield Case("rows of scores far apart, some near 1,000", inputs | {"query": query, "key": key})
    yield Case("single precision", inputs, dtype="float32")
    odd = _backward_inputs(draw, (), queries, keys, _odd_width(draw), d_v)
    yield Case("a width without a whole root, single precision", odd, dtype="float32")


@attention_backward.aspect("a mask, and a query that may attend to nothing", points=1)
def _backward_mask(draw):
    # Of two keys a mask would leave each query one, whose weight is 1 whatever the scores.
    d_k, d_v, queries, keys, batch, heads = _widths(draw, 5, low=3)
    inputs = _backward_inputs(draw, (batch, heads), queries, keys, d_k, d_v)
    yield Case("a mask for each item's keys", inputs | {"attn_mask": draw.mask(batch, 1, 1, keys)})
    yield Case("one mask for all, given by name", inputs, options={"attn_mask": draw.mask(queries, keys)})
    yield Case("a mask for each head", inputs | {"attn_mask": draw.mask(heads, queries, keys)})
    yield Case("a mask for each item and head", inputs | {"attn_mask": draw.mask(batch, heads, queries, keys)})
    mask = draw.mask(batch, 1, queries, keys)
    yield Case("a mask for each query", inputs | {"attn_mask": mask})
    yield Case("a mask, single precision", inputs | {"attn_mask": mask}, dtype="float32")
    query, key = _shifted(inputs["query"], inputs["key"], [-2e4] * queries)
    yield Case("scores near -20,000 and a mask", inputs | {"query": query, "key": key, "attn_mask": mask})
    mask = mask.copy()
    mask[0, 0, 1] = False
    yield Case("a query that may attend to nothing", inputs | {"attn_mask": mask})


BACK_FILL = "np.where(allowed, scores, np.finfo(scores.dtype).min)"
BACK_EXP = "np.where(allowed, np.exp(scores - scores.max(axis=-1, keepdims=True)), scores.dtype.type(0))"
BACK_SOFTMAX = "attn_weights * (grad_weights - mean_gradient)"
BACK_RETURN = "return grad_query, grad_key, grad_value"
GRAD_QUERY = "grad_query = grad_scores @ key * scale"
GRAD_KEY = "grad_key = np.swapaxes(grad_scores, -2, -1) @ query * scale"


attention_backward.edit(
    "backward-scale-missing",
    "The factor 1 / sqrt(d_k) of the scores is missing in the gradients for queries and keys.",
    (GRAD_QUERY, "grad_query = grad_scores @ key"),
    (GRAD_KEY, "grad_key = np.swapaxes(grad_scores, -2, -1) @ query"),
)
attention_backward.edit(
    "backward-scale-missing-in-keys",
    "The factor 1 / sqrt(d_k) of the scores is missing in the gradient for the keys.",
    (GRAD_KEY, "grad_key = np.swapaxes(grad_scores, -2, -1) @ query"),
)
attention_backward.edit(
    "backward-scale-twice",
    "The gradients for queries and keys carry the factor 1 / sqrt(d_k) twice.",
    (BACK_SOFTMAX, "attn_weights * (grad_weights - mean_gradient) * scale"),
)
attention_backward.edit(
    "backward-forward-unscaled",
    "The weights are computed again without the division by sqrt(d_k), so they are not those of the forward pass.",
    ("np.swapaxes(key, -2, -1) * scale", "np.swapaxes(key, -2, -1)"),
)
attention_backward.edit(
    "backward-softmax-skipped",
    "The way back goes round the softmax: the gradient for the weights is taken for that of the scores.",
    (BACK_SOFTMAX, "grad_weights"),
)
attention_backward.edit(
    "backward-softmax-no-mean",
    "In the softmax's gradient the average is missing: raising one score lowers the weights of all others.",
    (BACK_SOFTMAX, "attn_weights * grad_weights"),
)
attention_backward.edit(
    "backward-softmax-diagonal",
    "Only the diagonal of the softmax's Jacobian is there, a (1 - a): that is the sigmoid. Each weight also depends on "
    "every other score of its row.",
    (BACK_SOFTMAX, "attn_weights * (1 - attn_weights) * grad_weights"),
)
attention_backward.edit(
    "backward-softmax-unweighted-mean",
    "The plain mean of the row is subtracted; it should be the average under the weights.",
    ("(attn_weights * grad_weights).sum(axis=-1, keepdims=True)", "grad_weights.mean(axis=-1, keepdims=True)"),
)
attention_backward.edit(
    "backward-softmax-query-axis",
    "The average in the softmax's gradient runs over the queries; each query's softmax runs over the keys.",
    (
        "(attn_weights * grad_weights).sum(axis=-1, keepdims=True)",
        "(attn_weights * grad_weights).sum(axis=-2, keepdims=True)",
    ),
)
attention_backward.edit(
    "backward-weights-not-transposed",
    "In the gradient for the values the weights are not transposed: each value gathers over the queries.",
    ("np.swapaxes(attn_weights, -2, -1) @ grad_output", "attn_weights @ grad_output"),
)
attention_backward.edit(
    "backward-scores-not-transposed",
    "In the gradient for the keys that of the scores is not transposed: each key gathers over the queries.",
    (GRAD_KEY, "grad_key = grad_scores @ query * scale"),
)
attention_backward.edit(
    "backward-order-swapped",
    "The gradients for queries and keys are returned in the wrong order.",
    (BACK_RETURN, "return grad_key, grad_query, grad_value"),
)
attention_backward.edit(
    "backward-keys-for-values",
    "The keys are used where the values are meant: the gradient for a weight is the output's gradient times its value.",
    ("grad_output @ np.swapaxes(value, -2, -1)", "grad_output @ np.swapaxes(key, -2, -1)"),
)
attention_backward.edit(
    "backward-sign",
    "The gradients for queries and keys have the wrong sign: the softmax's gradient is turned round.",
    ("grad_weights - mean_gradient", "mean_gradient - grad_weights"),
)
attention_backward.edit(
    "backward-overflow",
    "The weights overflow: exp(1000) is infinite. Subtract each row's largest score before the exponential.",
    ("scores - scores.max(axis=-1, keepdims=True)", "scores"),
    source="https://github.com/uTensor/uTensor/issues/175",
)
attention_backward.edit(
    "backward-largest-of-all",
    "The largest score of the whole array is subtracted, so that rows far below it underflow. Take the largest of each row.",
    ("scores - scores.max(axis=-1, keepdims=True)", "scores - scores.max()"),
)
attention_backward.edit(
    "backward-all-axes-transposed",
    "`.T` reverses all axes of an array. With leading dimensions, swap the last two only.",
    ("np.swapaxes(key, -2, -1)", "key.T"),
)
attention_backward.edit(
    "backward-batch-summed",
    "The gradients are added up over the leading dimensions; each item has gradients of its own.",
    (BACK_RETURN, "return tuple(g.sum(axis=tuple(range(g.ndim - 2))) for g in (grad_query, grad_key, grad_value))"),
)
attention_backward.edit(
    "backward-float64",
    "Arrays in single precision come back in double: `np.sqrt` of a Python number is a double-precision NumPy number and "
    "wins. `math.sqrt` gives a Python number, which does not.",
    ("1 / math.sqrt(query.shape[-1])", "1 / np.sqrt(query.shape[-1])"),
)
attention_backward.edit(
    "backward-in-place",
    "You scale the caller's queries themselves, so they are smaller after each call. Make a new array.",
    (
        "    scores = query @ np.swapaxes(key, -2, -1) * scale",
        "    query *= scale\n    scores = query @ np.swapaxes(key, -2, -1)",
    ),
    (GRAD_KEY, "grad_key = np.swapaxes(grad_scores, -2, -1) @ query"),
)
attention_backward.edit(
    "backward-mask-ignored",
    "The mask changes nothing: the weights are computed as if every query could attend to every key.",
    ("True if attn_mask is None else attn_mask", "True"),
)
attention_backward.edit(
    "backward-mask-inverted",
    "The mask is read the wrong way round: True is where a query may attend.",
    ("True if attn_mask is None else attn_mask", "True if attn_mask is None else ~attn_mask"),
)
attention_backward.edit(
    "backward-mask-on-gradient",
    "The mask is applied to the gradient of the scores only. The weights must be those of the forward pass, with the mask.",
    ("True if attn_mask is None else attn_mask", "True"),
    (BACK_SOFTMAX, "attn_weights * (grad_weights - mean_gradient) * (True if attn_mask is None else attn_mask)"),
)
attention_backward.edit(
    "backward-fully-masked-uniform",
    "A query that may attend to nothing still has equal weights, so it sends gradients to values it never saw.",
    (BACK_EXP, "np.exp(scores - scores.max(axis=-1, keepdims=True))"),
    source="https://github.com/d2l-ai/d2l-en/pull/2423",
)
attention_backward.edit(
    "backward-fully-masked-nan",
    "A query that may attend to nothing gives NaN, and NaN spreads to every key and value. Its weights should be zeros.",
    (BACK_FILL, "np.where(allowed, scores, -np.inf)"),
    (BACK_EXP, "np.exp(scores - scores.max(axis=-1, keepdims=True))"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
