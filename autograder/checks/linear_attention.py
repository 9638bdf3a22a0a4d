"""What right kernels of "Linear attention" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import linear_attention as reference

# The matrices of all pairs of so many sequences and tokens, 7.2 GB of single precision, fit into no submission's memory.
LONG = (8, 15_000)
LONG_TITLE = "sequences whose matrices of all pairs fit into no memory"
LONG_MB = 3_000

MATRIX = (
    "The outputs are right, but the matrix of all pairs of tokens is made: the work and the memory are those of full "
    "attention. Multiply the keys' features with the values first."
)
NOT_A_NUMBER = (
    "Where the products with all keys are zero you divide zero by zero. Such a query gets the zero vector, and finite "
    "gradients."
)
UNNORMALISED = "The sums are not divided by the sum of the weights. With values that are all 1 the outputs must be 1: they are averages."
INVERTED = "You multiply by the sum of the weights, where you should divide by it."
WITHOUT_QUERY = (
    "You divide by a sum over the keys' features in which the query has no part. The sum of the weights is that sum's dot "
    "product with the query's features."
)


def _positive(draw, *shape):
    """Numbers like those that a feature map gives."""
    return 0.2 + np.abs(draw.normal(*shape))


def _sequence(draw, leading, queries, keys, features, d_v):
    return {
        "query_features": _positive(draw, *leading, queries, features),
        "key_features": _positive(draw, *leading, keys, features),
        "value": draw.normal(*leading, keys, d_v),
    }


matmul_cost = Check(
    reference.matmul_cost,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "The queries are (N_q, d_k), the keys transposed (d_k, N_k), the values (N_k, d_v).",
        "A product of an (a, b) matrix with a (b, c) matrix has a * c entries, each a sum of b products.",
        "Write the shapes of both products of each order side by side: what has the first one, and what meets it?",
    ),
)


@matmul_cost.aspect("both orders", points=1)
def _cost_values(draw):
    queries, keys, d_k, d_v = draw.sizes(4, 3, 40)
    names = ("num_queries", "num_keys", "d_k", "d_v")
    yield Case("four different sizes", dict(zip(names, (queries, keys, d_k, d_v), strict=True)))
    yield Case("as many queries as keys", dict(zip(names, (1000 + queries, 1000 + queries, d_k, d_v), strict=True)))
    yield Case("a single query", dict(zip(names, (1, keys, d_k, d_v), strict=True)))


LEFT = "num_queries * num_keys * d_k + num_queries * num_keys * d_v"
RIGHT = "num_keys * d_k * d_v + num_queries * d_k * d_v"
matmul_cost.edit(
    "cost-swapped",
    "The two costs have changed places.",
    ("return left_first, right_first", "return right_first, left_first"),
)
matmul_cost.edit(
    "cost-two-per-multiply-add",
    "A multiplication with the addition that follows it counts as one.",
    ("return left_first, right_first", "return 2 * left_first, 2 * right_first"),
)
matmul_cost.edit(
    "cost-square",
    "You take as many queries as there are keys. They may differ.",
    (LEFT, "num_keys * num_keys * (d_k + d_v)"),
    (RIGHT, "2 * num_keys * d_k * d_v"),
)
matmul_cost.edit(
    "cost-first-product-only",
    "Each order has two products; you count the first of each.",
    (LEFT, "num_queries * num_keys * d_k"),
    (RIGHT, "num_keys * d_k * d_v"),
)
matmul_cost.edit(
    "cost-all-sizes-multiplied",
    "The costs of the two products are added, not multiplied.",
    (LEFT, "num_queries * num_keys * d_k * d_v"),
    (RIGHT, "num_queries * num_keys * d_k * d_v"),
)
matmul_cost.edit(
    "cost-of-the-result",
    "You count the entries of the two results. Each of them is a sum of products, and those are what counts.",
    (LEFT, "num_queries * num_keys + num_queries * d_v"),
    (RIGHT, "d_k * d_v + num_queries * d_v"),
)
matmul_cost.edit(
    "cost-square-of-the-width",
    "You take the values to be as wide as the keys. They may differ.",
    (LEFT, "2 * num_queries * num_keys * d_k"),
    (RIGHT, "(num_keys + num_queries) * d_k * d_k"),
)


elu_features = Check(
    reference.elu_features,
    difficulty="warm-up",
    minutes=8,
    hints=(
        "Weights must not be negative, so the map is positive everywhere: a straight line above zero, a curve below.",
        "Two pieces that meet at 0, where both are 1, with the same slope.",
        "`torch.where` computes both pieces everywhere. What is the exponential of 1,000, and what does an infinity that "
        "is not chosen do to the gradient?",
    ),
)


@elu_features.aspect("above and below zero", points=1)
def _elu_values(draw):
    batch, tokens, width = draw.sizes(3)
    yield Case("a batch", {"x": draw.normal(batch, tokens, width, scale=2.0)})
    yield Case("zero, and some way below", {"x": np.array([[0.0, -1.0, -5.0, -12.0], [0.5, 2.0, 7.0, 30.0]])})
    yield Case("single precision", {"x": draw.normal(tokens, width, scale=2.0)}, dtype="float32")


@elu_features.aspect("large numbers and gradients", points=1)
def _elu_large(draw):
    tokens, width = draw.sizes(2)
    yield Case("the gradient", {"x": draw.normal(tokens, width, scale=2.0)}, gradient=("x",))
    large = np.array([[-1000.0, 1000.0, 3.0], [-3.0, 800.0, -800.0]])
    yield Case("numbers of some 1,000, and the gradient", {"x": large}, gradient=("x",))


ELU = "torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))"
elu_features.edit(
    "elu-not-positive",
    "The features can be negative: that is `elu` itself. One is added, so that no weight falls below zero.",
    (ELU, "F.elu(x)"),
)
elu_features.edit(
    "elu-relu",
    "Below zero your features vanish, and their gradient too. They should fall off as the exponential does.",
    (ELU, "F.relu(x)"),
)
elu_features.edit(
    "elu-relu-plus-one",
    "Below zero your features are all 1. They should fall off as the exponential does.",
    (ELU, "F.relu(x) + 1"),
)
elu_features.edit(
    "elu-exponential",
    "Above zero the features grow in a straight line, as `x + 1`; yours grow exponentially.",
    (ELU, "torch.exp(x)"),
)
elu_features.edit(
    "elu-pieces-swapped",
    "The two pieces have changed places: the straight line belongs above zero.",
    (ELU, "torch.where(x > 0, torch.exp(x), x + 1)"),
)
elu_features.edit(
    "elu-softplus",
    "That is softplus, a smooth ramp; it is log(2) at zero, where this map is 1.",
    (ELU, "F.softplus(x)"),
)
elu_features.edit(
    "elu-gradient-not-a-number",
    "The values are right, but the exponential of a large number is infinite, and though it is not chosen, its gradient, "
    "zero times infinity, is NaN.",
    (ELU, "torch.where(x > 0, x + 1, torch.exp(x))"),
)
elu_features.edit("elu-selu", "That is SELU, which has scales of its own.", (ELU, "F.selu(x) + 1"))
elu_features.edit("elu-detached", "No gradient flows back through the features.", (ELU, "F.elu(x.detach()) + 1"))


linear_attention = Check(
    reference.linear_attention,
    difficulty="core",
    minutes=20,
    hints=(
        "`(Q K^T) V` and `Q (K^T V)` are the same numbers. Which of the two never makes a table of queries by keys?",
        "The sum of a query's weights is the dot product of its features with the sum of all keys' features.",
        "A key that is masked has features of zero: then it is missing in both sums. Where the sum of the weights is zero, "
        "divide by something else before you choose with `torch.where`.",
    ),
)


@linear_attention.aspect("weighted averages", points=2)
def _linear_values(draw):
    queries, keys, features, d_v = draw.sizes(4)
    yield Case("one sequence looks at another", _sequence(draw, (), queries, keys, features, d_v))
    yield Case("all sizes equal", _sequence(draw, (), 5, 5, 5, 5))
    yield Case("a single key", _sequence(draw, (), queries, 1, features, d_v))
    yield Case("a single query", _sequence(draw, (), 1, keys, features, d_v))
    constant = _sequence(draw, (), queries, keys, features, d_v)
    yield Case("values that are all 1", constant | {"value": np.ones((keys, d_v))})


@linear_attention.aspect("a mask, and queries that reach nothing", points=1)
def _linear_masked(draw):
    queries, keys, features, d_v, batch = draw.sizes(5)
    inputs = _sequence(draw, (batch,), queries, keys, features, d_v)
    mask = draw.mask(batch, keys)
    yield Case("padding", inputs | {"key_mask": mask})
    yield Case("one mask for all", inputs | {"key_mask": mask[0]})
    nothing = mask.copy()
    nothing[1] = False
    yield Case("a sequence of padding alone", inputs | {"key_mask": nothing}, gradient=("query_features", "value"))
    zero = inputs["query_features"].copy()
    zero[0, 0] = 0.0
    # What moves such a query's output is a matter of convention; what comes back to the others is zero.
    yield Case("a query without any feature", inputs | {"query_features": zero}, gradient=("key_features", "value"))


@linear_attention.aspect("leading dimensions, gradients, single precision", points=1)
def _linear_leading(draw):
    queries, keys, features, d_v, batch, heads = draw.sizes(6)
    inputs = _sequence(draw, (batch, heads), queries, keys, features, d_v)
    yield Case("a batch of heads", inputs, strided=True)
    yield Case("gradients", _sequence(draw, (batch,), queries, keys, features, d_v), gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


@linear_attention.aspect("work in proportion to the tokens", points=2)
def _linear_work(draw):
    yield Case("counted", _sequence(draw, (), 480, 500, 4, 3), count_work=True)
    if draw.hidden:
        batch, tokens = LONG
        inputs = _sequence(draw, (batch,), tokens, tokens, 3, 2)
        yield Case(LONG_TITLE, inputs, dtype="float32", memory_mb=LONG_MB)


STATE = "key_features.transpose(-2, -1) @ value"
NORMALISER = "normaliser = query_features @ key_sum"
QUOTIENT = "torch.where(reached, query_features @ state / torch.where(reached, normaliser, 1.0), 0.0)"
MASKED = "key_features = key_features * key_mask.unsqueeze(-1)"

linear_attention.edit(
    "linear-unnormalised",
    UNNORMALISED,
    (QUOTIENT, "query_features @ state"),
    source="duoan/TorchCode, linear-attention tests",
)
linear_attention.edit(
    "linear-normaliser-not-inverted",
    INVERTED,
    (QUOTIENT, "query_features @ state * normaliser"),
    source="https://github.com/lucidrains/performer-pytorch/issues/13",
)
linear_attention.edit(
    "linear-normaliser-omits-query",
    WITHOUT_QUERY,
    (NORMALISER, "normaliser = key_sum.sum(-2, keepdim=True).expand(*query_features.shape[:-1], 1)"),
    source="https://github.com/lucidrains/performer-pytorch/issues/21",
)
linear_attention.edit(
    "linear-divided-by-the-number",
    "You divide by the number of keys. The weights are not all 1: divide by their sum.",
    (NORMALISER, "normaliser = torch.ones_like(query_features[..., :1]) * key_features.shape[-2]"),
)
linear_attention.edit("linear-not-a-number", NOT_A_NUMBER, (QUOTIENT, "query_features @ state / normaliser"))
linear_attention.edit(
    "linear-epsilon",
    "Something small is added to the sum of the weights. That moves every output a little, and much where the weights are "
    "small; only a sum of zero needs care.",
    (QUOTIENT, "query_features @ state / (normaliser + 1e-6)"),
)
linear_attention.edit("linear-mask-ignored", "The mask is not used: padding is averaged too.", (MASKED, "pass"))
linear_attention.edit(
    "linear-mask-turned-round",
    "True says here that a key is a real token. You leave out the real ones.",
    (MASKED, "key_features = key_features * ~key_mask.unsqueeze(-1)"),
)
linear_attention.edit(
    "linear-masked-values-only",
    "The values of masked keys are zero, but their weights are still in the sum that you divide by.",
    (MASKED, "value = value * key_mask.unsqueeze(-1)"),
)
linear_attention.edit(
    "linear-softmax",
    "That is softmax attention with the features as queries and keys.",
    (
        QUOTIENT,
        "torch.softmax((query_features @ key_features.mT).masked_fill(\n"
        "        torch.zeros(()).bool() if key_mask is None else ~key_mask.unsqueeze(-2), -1e30), -1) @ value",
    ),
)
linear_attention.edit(
    "linear-full-matrix",
    MATRIX,
    (
        QUOTIENT,
        "torch.where(reached, query_features @ key_features.mT @ value / torch.where(reached, normaliser, 1.0), 0.0)",
    ),
)
linear_attention.edit(
    "linear-keys-normalised",
    "The keys' features are normalised to sum to one first. That weighs keys with small features up; only the sum of a "
    "query's weights is divided by.",
    (
        "    state =",
        "    key_features = key_features / key_features.sum(-1, keepdim=True).clamp(min=1e-30)\n    state =",
    ),
)
linear_attention.edit(
    "linear-detached-normaliser",
    "The values are right, but no gradient flows through the sum of the weights.",
    (NORMALISER, "normaliser = (query_features @ key_sum).detach()"),
)


causal_linear_attention = Check(
    reference.causal_linear_attention,
    difficulty="stretch",
    minutes=40,
    hints=(
        "What a chunk needs to know of all chunks before it is one matrix and one vector. Inside the chunk the small table "
        "of products can be made and masked.",
        "`cumsum` over the chunks gives the sums up to and with each chunk. A chunk needs the sums before it: move them on "
        "by one.",
        "A column of ones beside the values is summed up like a value, and its sum is that of the weights: one code for "
        "both sums.",
    ),
)


def _causal(draw, leading, tokens, features, d_v, chunk_size):
    return _sequence(draw, leading, tokens, tokens, features, d_v) | {"chunk_size": chunk_size}


@causal_linear_attention.aspect("the past alone", points=2)
def _causal_values(draw):
    features, d_v = draw.sizes(2, 3, 8)
    yield Case("chunks of 3", _causal(draw, (), 13, features, d_v, 3))
    yield Case("whole chunks", _causal(draw, (), 12, features, d_v, 4))
    yield Case("chunks of one token", _causal(draw, (), 7, features, d_v, 1))
    yield Case("one chunk for all", _causal(draw, (), 9, features, d_v, 9))
    yield Case("a chunk longer than the sequence", _causal(draw, (), 5, features, d_v, 8))
    yield Case("a single token", _causal(draw, (), 1, features, d_v, 2))
    yield Case("values that are all 1", _causal(draw, (), 10, features, d_v, 3) | {"value": np.ones((10, d_v))})


@causal_linear_attention.aspect("tokens that reach nothing", points=1)
def _causal_nothing(draw):
    features, d_v, batch = draw.sizes(3, 3, 8)
    inputs = _causal(draw, (batch,), 10, features, d_v, 3)
    empty = inputs["key_features"].copy()
    empty[:, :4] = 0.0
    names = ("query_features", "value")
    yield Case("the first keys without any feature", inputs | {"key_features": empty}, gradient=names)


@causal_linear_attention.aspect("leading dimensions, gradients, single precision", points=1)
def _causal_leading(draw):
    features, d_v, batch, heads = draw.sizes(4, 3, 8)
    yield Case("a batch of heads", _causal(draw, (batch, heads), 10, features, d_v, 4), strided=True)
    names = ("query_features", "key_features", "value")
    yield Case("gradients", _causal(draw, (batch,), 10, features, d_v, 3), gradient=names)
    yield Case("single precision", _causal(draw, (batch,), 10, features, d_v, 3), dtype="float32")


@causal_linear_attention.aspect("work in proportion to the tokens", points=2)
def _causal_work(draw):
    yield Case("counted", _causal(draw, (), 500, 16, 12, 20), count_work=True)
    if draw.hidden:
        batch, tokens = LONG
        yield Case(LONG_TITLE, _causal(draw, (batch,), tokens, 3, 2, 50), dtype="float32", memory_mb=LONG_MB)


STATES = "states = (keys.transpose(-2, -1) @ values).cumsum(-3)"
BEFORE = "before = F.pad(states, (0, 0, 0, 0, 1, 0))[..., :-1, :, :]"
INSIDE = "weights = (queries @ keys.transpose(-2, -1)).tril()"
SUMS = "sums = (queries @ before + weights @ values).flatten(-3, -2)[..., :length, :]"
CAUSAL_NORMALISER = "normaliser = sums[..., -1:]"
CAUSAL_QUOTIENT = "torch.where(reached, sums[..., :-1] / torch.where(reached, normaliser, 1.0), 0.0)"

causal_linear_attention.edit(
    "causal-linear-own-chunk-twice",
    "The sums of the chunks before have the chunk itself in them: its tokens count twice, and those still to come count too.",
    (BEFORE, "before = states"),
)
causal_linear_attention.edit(
    "causal-linear-chunks-apart",
    "Tokens see their own chunk alone; what the chunks before it hold is missing.",
    (SUMS, SUMS.replace("queries @ before + ", "")),
)
causal_linear_attention.edit(
    "causal-linear-past-chunks-only",
    "Tokens see the chunks before theirs, and nothing of their own chunk, not even themselves.",
    (SUMS, SUMS.replace(" + weights @ values", "")),
)
causal_linear_attention.edit(
    "causal-linear-last-chunk-only",
    "Of the past, tokens see only the chunk before theirs: the sums of the chunks are not summed up.",
    (STATES, STATES.replace(".cumsum(-3)", "")),
)
causal_linear_attention.edit(
    "causal-linear-future-in-the-chunk",
    "Inside a chunk tokens see those after them: mask the small table.",
    (INSIDE, INSIDE.replace(".tril()", "")),
)
causal_linear_attention.edit(
    "causal-linear-without-itself",
    "A token must see itself too.",
    (INSIDE, INSIDE.replace(".tril()", ".tril(-1)")),
)
causal_linear_attention.edit(
    "causal-linear-turned-round",
    "Inside a chunk tokens see those after them in place of those before them.",
    (INSIDE, INSIDE.replace(".tril()", ".triu()")),
)
causal_linear_attention.edit(
    "causal-linear-not-causal",
    "Every token sees the whole sequence.",
    (BEFORE, "before = states[..., -1:, :, :]"),
    (SUMS, SUMS.replace(" + weights @ values", "")),
)
causal_linear_attention.edit(
    "causal-linear-unnormalised",
    UNNORMALISED,
    ("    return torch.where(reached,", "    return sums[..., :-1]\n    torch.where(reached,"),
)
causal_linear_attention.edit(
    "causal-linear-normaliser-omits-query",
    WITHOUT_QUERY,
    (CAUSAL_NORMALISER, "normaliser = key_features.cumsum(-2).sum(-1, keepdim=True)"),
    source="https://github.com/lucidrains/performer-pytorch/issues/21",
)
causal_linear_attention.edit(
    "causal-linear-normaliser-of-all",
    "You divide by the sum of the weights of all keys, also of those after the token.",
    (CAUSAL_NORMALISER, "normaliser = query_features @ key_features.sum(-2).unsqueeze(-1)"),
)
causal_linear_attention.edit(
    "causal-linear-normaliser-of-the-chunk",
    "You divide by the sum of the weights inside the chunk. The sum of the chunks before belongs to it.",
    (CAUSAL_NORMALISER, "normaliser = weights.sum(-1).flatten(-2)[..., :length, None]"),
    source="https://github.com/fla-org/flash-linear-attention/pull/267",
)
causal_linear_attention.edit(
    "causal-linear-not-a-number", NOT_A_NUMBER, (CAUSAL_QUOTIENT, "sums[..., :-1] / normaliser")
)
causal_linear_attention.edit(
    "causal-linear-rest-dropped",
    "The last tokens, which fill no whole chunk, get zeros. Fill the chunk up, and cut the outputs afterwards.",
    (
        "return torch.where(reached,",
        "reached = reached & (torch.arange(length) < length // chunk_size * chunk_size)[:, None]\n"
        "    return torch.where(reached,",
    ),
)


@causal_linear_attention.mistake("causal-linear-full-matrix", MATRIX)
def _causal_full(query_features, key_features, value, chunk_size):
    weights = (query_features @ key_features.mT).tril()
    sums = weights.sum(-1, keepdim=True)
    return weights @ value / sums.masked_fill(sums == 0, 1.0)


@causal_linear_attention.mistake(
    "causal-linear-state-of-each-token",
    "The outputs are right, but you keep the sum of `phi(k) v^T` for each token: N matrices at once. Chunks need one each.",
)
def _causal_outer(query_features, key_features, value, chunk_size):
    states = (key_features.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(-3)
    sums = (query_features.unsqueeze(-2) @ states).squeeze(-2)
    normaliser = (query_features * key_features.cumsum(-2)).sum(-1, keepdim=True)
    return sums / normaliser.masked_fill(normaliser == 0, 1.0)


linear_attention_state = Check(
    reference.linear_attention_state,
    difficulty="core",
    minutes=15,
    hints=(
        "First take the token in, then answer its query: a token sees itself.",
        "`phi(k) v^T` is a column times a row. `unsqueeze` makes both of two vectors, and any leading axes stay in front.",
        "The output is `phi(q)` times the state, divided by the dot product of `phi(q)` with the sum of the keys' features.",
    ),
)


def _step(draw, leading, features, d_v, fresh=False):
    state, key_sum = draw.normal(*leading, features, d_v), _positive(draw, *leading, features)
    return {
        "state": 0 * state if fresh else state,
        "key_sum": 0 * key_sum if fresh else key_sum,
        "query_features": _positive(draw, *leading, features),
        "key_features": _positive(draw, *leading, features),
        "value": draw.normal(*leading, d_v),
    }


@linear_attention_state.aspect("one token more", points=2)
def _state_values(draw):
    features, d_v = draw.sizes(2)
    yield Case("a token", _step(draw, (), features, d_v))
    yield Case("the first token", _step(draw, (), features, d_v, fresh=True))
    yield Case("as many features as values are wide", _step(draw, (), 5, 5))
    yield Case("a single feature", _step(draw, (), 1, d_v))


@linear_attention_state.aspect("leading dimensions, gradients, a query that reaches nothing", points=1)
def _state_leading(draw):
    features, d_v, batch, heads = draw.sizes(4)
    inputs = _step(draw, (batch, heads), features, d_v)
    yield Case("a batch of heads", inputs, strided=True)
    yield Case("a batch of as many as there are features", _step(draw, (features,), features, d_v))
    yield Case("gradients", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")
    zero = inputs["query_features"].copy()
    zero[0] = 0.0
    yield Case("a query without any feature", inputs | {"query_features": zero}, gradient=("key_features", "value"))


TAKE_IN = "state = state + key_features.unsqueeze(-1) * value.unsqueeze(-2)"
TAKE_SUM = "key_sum = key_sum + key_features"
STATE_NORMALISER = "normaliser = (query_features * key_sum).sum(-1, keepdim=True)"
TOTAL = "total = (query_features.unsqueeze(-2) @ state).squeeze(-2)"
ANSWER = "torch.where(reached, total / torch.where(reached, normaliser, 1.0), 0.0), state, key_sum"

linear_attention_state.edit(
    "state-answers-first",
    "The token answers before it is taken in, so it does not see itself.",
    ("    state = state", "    old_state, old_sum = state, key_sum\n    state = state"),
    (STATE_NORMALISER, STATE_NORMALISER.replace("key_sum", "old_sum")),
    (TOTAL, TOTAL.replace("@ state", "@ old_state")),
)
linear_attention_state.edit(
    "state-drops-key-sum",
    "The sum of the keys' features is not carried on: it has the last token alone in it.",
    (TAKE_SUM, "key_sum = key_features"),
    source="https://github.com/fla-org/flash-linear-attention/pull/268",
)
linear_attention_state.edit(
    "state-key-sum-not-updated",
    "The sum of the keys' features goes out as it came in.",
    (TAKE_SUM, "key_sum = key_sum.clone()"),
)
linear_attention_state.edit(
    "state-not-carried-on",
    "The state has the last token alone in it; what was there is lost.",
    (TAKE_IN, TAKE_IN.replace("state + ", "")),
)
linear_attention_state.edit("state-unnormalised", UNNORMALISED, (ANSWER, "total, state, key_sum"))
linear_attention_state.edit("state-normaliser-not-inverted", INVERTED, (ANSWER, "total * normaliser, state, key_sum"))
linear_attention_state.edit(
    "state-normaliser-omits-query", WITHOUT_QUERY, (STATE_NORMALISER, "normaliser = key_sum.sum(-1, keepdim=True)")
)
linear_attention_state.edit("state-not-a-number", NOT_A_NUMBER, (ANSWER, "total / normaliser, state, key_sum"))
linear_attention_state.edit(
    "state-in-place",
    "You change the state that you were given. Make a new tensor: the caller may still need the old one.",
    (
        TAKE_IN,
        "state = state.add_(key_features.unsqueeze(-1) * value.unsqueeze(-2)) if not state.requires_grad else "
        + TAKE_IN[8:],
    ),
)
linear_attention_state.edit(
    "state-normalised",
    "The state itself is divided by the sum. Keep the plain sums; only the output is divided.",
    (
        ANSWER,
        "torch.where(reached, total / torch.where(reached, normaliser, 1.0), 0.0), state / normaliser.unsqueeze(-1), key_sum",
    ),
)
linear_attention_state.edit(
    "state-outputs-swapped",
    "State and output have changed places.",
    (ANSWER, "state, torch.where(reached, total / torch.where(reached, normaliser, 1.0), 0.0), key_sum"),
)
linear_attention_state.edit(
    "state-by-the-query",
    "The query's features are taken in; the keys' features belong into the state.",
    (TAKE_IN, TAKE_IN.replace("key_features", "query_features")),
    (TAKE_SUM, TAKE_SUM.replace("key_features", "query_features")),
)


orthogonal_projections = Check(
    reference.orthogonal_projections,
    difficulty="core",
    minutes=25,
    hints=(
        "In a space of d_k dimensions no more than d_k directions can stand at right angles: take the rows in blocks.",
        "`torch.linalg.qr` makes the columns of a matrix orthogonal, the first one first. Which matrix has your rows as its "
        "columns?",
        "QR leaves open whether a column points forwards or backwards. The diagonal of `R` tells: where it is negative, "
        "turn the column round. Lengths come last.",
    ),
)


def _directions(draw, count, width):
    """Rows that are far from depending on each other, so that rounding stays small."""
    rows = draw.normal(count, width)
    rows[np.arange(count), np.arange(count) % width] += 3.0 * np.where(np.arange(count) % 2, -1.0, 1.0)
    return {"gaussian": rows, "lengths": 0.5 + draw.rng.random(count)}


@orthogonal_projections.aspect("one block", points=1)
def _orthogonal_values(draw):
    (width,) = draw.sizes(1, 4, 7)
    yield Case("as many rows as the width", _directions(draw, width, width))
    yield Case("fewer rows than the width", _directions(draw, width - 1, width))
    yield Case("a single row", _directions(draw, 1, width))
    yield Case("single precision", _directions(draw, width, width), dtype="float32")


@orthogonal_projections.aspect("many blocks", points=1)
def _orthogonal_blocks(draw):
    (width,) = draw.sizes(1, 4, 7)
    yield Case("two blocks", _directions(draw, 2 * width, width))
    yield Case("a block that is not full", _directions(draw, 3 * width - 2, width))
    yield Case("not contiguous in memory", _directions(draw, width + 2, width), strided=True)
    yield Case("a width of 1", _directions(draw, 4, 1))


QR = "orthogonal, triangle = torch.linalg.qr(block.T)"
TURNED = "directions.append((orthogonal * triangle.diagonal().sign()).T)"
JOINED = "return torch.cat(directions) * lengths[:, None]"

orthogonal_projections.edit(
    "orthogonal-signs-of-the-library",
    "Some rows point backwards: those signs are the library's choice, and with them the directions are no longer uniform. "
    "The diagonal of `R` tells which to turn round.",
    (TURNED, "directions.append(orthogonal.T)"),
    source="Mezzadri, How to Generate Random Matrices from the Classical Compact Groups (2007), section 5",
)
orthogonal_projections.edit(
    "orthogonal-only-normalised",
    "The rows have their lengths, but they do not stand at right angles.",
    (TURNED, "directions.append(block / block.norm(dim=1, keepdim=True))"),
)
orthogonal_projections.edit(
    "orthogonal-unit-length",
    "Every row has length 1; it should have the length that is given.",
    (JOINED, "return torch.cat(directions)"),
)
orthogonal_projections.edit(
    "orthogonal-own-lengths",
    "The rows keep the lengths that they had. They should have those that are given.",
    (JOINED, "return torch.cat(directions) * gaussian.norm(dim=1, keepdim=True)"),
)
orthogonal_projections.edit(
    "orthogonal-root-of-the-width",
    "Every row has the length `sqrt(d_k)`, which is that of a normal vector on average. It should have its own.",
    (JOINED, "return torch.cat(directions) * gaussian.shape[1] ** 0.5"),
)
orthogonal_projections.edit(
    "orthogonal-roots-of-lengths",
    "Each row has the square root of the length that it should have.",
    (JOINED, "return torch.cat(directions) * lengths[:, None].sqrt()"),
)
orthogonal_projections.edit(
    "orthogonal-columns",
    "You make the columns of a block orthogonal one after the other, where it should be its rows: transpose it first.",
    (QR, "orthogonal, triangle = torch.linalg.qr(block)"),
    (TURNED, "directions.append(orthogonal * triangle.diagonal().sign())"),
)
orthogonal_projections.edit(
    "orthogonal-polar",
    "That is the nearest orthogonal matrix, in which all rows have moved. Here the first row keeps its direction.",
    (QR, "left, _, right = torch.linalg.svd(block, full_matrices=False)"),
    (TURNED, "directions.append(left @ right)"),
)
orthogonal_projections.edit(
    "orthogonal-last-row-first",
    "You begin with the last row of a block; the first row is the one that keeps its direction.",
    (QR, "orthogonal, triangle = torch.linalg.qr(block.flip(0).T)"),
    (TURNED, "directions.append((orthogonal * triangle.diagonal().sign()).T.flip(0))"),
)
orthogonal_projections.edit(
    "orthogonal-rest-left",
    "The rows that fill no whole block are left as they were; they too must stand at right angles to each other.",
    (
        TURNED,
        "whole = len(block) == gaussian.shape[1]\n        directions.append((orthogonal * triangle.diagonal().sign()).T if whole else block)",
    ),
)


performer_features = Check(
    reference.performer_features,
    difficulty="core",
    minutes=15,
    hints=(
        "Scale first. The scores are divided by the square root of d_k; what must queries and keys each be divided by?",
        "The exponent of feature i is the dot product of the i-th direction with the scaled vector, less half the square of "
        "that vector's length.",
        "The square's sum runs over the components and stays as an axis of length 1; the root of the number of directions "
        "divides at the end.",
    ),
)


def _featured(draw, leading, width, projections, scale=0.8):
    return {"x": draw.normal(*leading, width, scale=scale), "projections": draw.normal(projections, width)}


@performer_features.aspect("positive random features", points=2)
def _performer_values(draw):
    tokens, width, projections = draw.sizes(3, 3, 9)
    yield Case("a sequence", _featured(draw, (tokens,), width, projections))
    yield Case("a single direction", _featured(draw, (tokens,), width, 1))
    yield Case("as many directions as the width", _featured(draw, (tokens,), width, width))
    yield Case("a width of 1", _featured(draw, (tokens,), 1, projections))
    yield Case("a vector of zeros", _featured(draw, (1,), width, projections, scale=0.0))


@performer_features.aspect("leading dimensions, gradients, large vectors", points=1)
def _performer_leading(draw):
    tokens, width, projections, batch, heads = draw.sizes(5, 3, 9)
    inputs = _featured(draw, (batch, heads, tokens), width, projections)
    yield Case("a batch of heads", inputs, strided=True)
    yield Case("gradients", _featured(draw, (batch, tokens), width, projections), gradient=("x",))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("vectors of length 30 and more", _featured(draw, (batch, tokens), width, projections, scale=30.0))


SCALED = "scaled = x * x.shape[-1] ** -0.25"
HALF = "half_square = scaled.square().sum(-1, keepdim=True) / 2"
FEATURES = "torch.exp(scaled @ projections.T - half_square) / len(projections) ** 0.5"

performer_features.edit(
    "performer-root-of-d",
    "Queries and keys are each divided by the square root of d_k, so their product is divided by d_k. Each takes the fourth "
    "root.",
    (SCALED, "scaled = x * x.shape[-1] ** -0.5"),
)
performer_features.edit(
    "performer-not-scaled",
    "The scores are to be divided by the square root of d_k: nothing is scaled here.",
    (SCALED, "scaled = x"),
)
performer_features.edit(
    "performer-without-the-square",
    "Half the squared length is missing in the exponent; without it the features' products estimate another number.",
    (FEATURES, FEATURES.replace(" - half_square", "")),
)
performer_features.edit(
    "performer-whole-square",
    "You take the whole squared length away; it is half of it.",
    (HALF, HALF.removesuffix(" / 2")),
)
performer_features.edit(
    "performer-length",
    "You take half the length away; it is half the squared length.",
    (HALF, "half_square = scaled.norm(dim=-1, keepdim=True) / 2"),
)
performer_features.edit(
    "performer-square-not-scaled",
    "The squared length is that of the vector before it was scaled.",
    (HALF, "half_square = x.square().sum(-1, keepdim=True) / 2"),
)
performer_features.edit(
    "performer-square-of-the-directions",
    "You take away half the squared length of the direction; it is that of the vector.",
    (HALF, "half_square = projections.square().sum(-1) / 2"),
)
performer_features.edit(
    "performer-not-averaged",
    "The products of the features are sums over the directions; they should be means: divide each feature by `sqrt(m)`.",
    (FEATURES, FEATURES.removesuffix(" / len(projections) ** 0.5")),
)
performer_features.edit(
    "performer-averaged-twice",
    "Each feature is divided by the number of directions, so the product of two is divided by its square.",
    (FEATURES, FEATURES.removesuffix(" ** 0.5")),
)
performer_features.edit(
    "performer-largest-subtracted",
    "The largest exponent is subtracted, as in a softmax. In the quotient that cancels, but the features are no longer the "
    "ones that are asked for.",
    (
        FEATURES,
        "torch.exp(scaled @ projections.T - half_square - (scaled @ projections.T).amax()) / len(projections) ** 0.5",
    ),
)
performer_features.edit(
    "performer-epsilon",
    "Something small is added to each feature. That is no part of the estimate.",
    (FEATURES, FEATURES + " + 1e-6"),
)
performer_features.edit(
    "performer-trigonometric",
    "Those are the features with a cosine, which can be negative. Softmax attention's have an exponential.",
    (FEATURES, "torch.exp(half_square) * torch.cos(scaled @ projections.T) / len(projections) ** 0.5"),
)
performer_features.edit(
    "performer-directions-normalised",
    "The directions are cut to length 1 first; they should be as long as they are.",
    (SCALED, SCALED + "\n    projections = projections / projections.norm(dim=-1, keepdim=True)"),
)
