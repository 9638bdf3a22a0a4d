"""What right kernels of "Attention in the decoder" are."""

from __future__ import annotations

import math

import numpy as np

from autograder.case import Case
from autograder.checking import Check, edited
from autograder.reference import rnn_attention as reference

FUSED = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)


def _states(draw, leading, keys, d_s, d_h):
    return {"s": draw.normal(*leading, d_s), "H": draw.normal(*leading, keys, d_h)}


def _additive_weights(draw, d_s, d_h, d_a):
    return {
        "W": draw.normal(d_s, d_a) / math.sqrt(d_s),
        "U": draw.normal(d_h, d_a) / math.sqrt(d_h),
        "v": draw.normal(d_a),
    }


def _real(lengths, keys):
    """A mask that is True for the first ``lengths[i]`` keys of sentence ``i``."""
    return np.arange(keys) < np.asarray(lengths)[:, None]


def _ragged(draw, batch, keys):
    """A mask for sentences of mixed lengths: one of them full, one of a single word, at least one padded in between."""
    lengths = draw.rng.integers(2, keys, batch)
    lengths[0], lengths[-1] = keys, 1
    return _real(lengths, keys)


additive_scores = Check(
    reference.additive_scores,
    difficulty="core",
    minutes=15,
    hints=(
        "For one encoder state: two products, a sum, a hyperbolic tangent, and a dot product with `v`. Write that first.",
        "The product of all encoder states with their matrix is one product of matrices. That of the decoder's state is "
        "the same for each of them.",
        "The decoder's part is a vector for each sentence; it needs an axis of length 1 for the states, so that it "
        "broadcasts over them. Count from the end, so that it works with and without a batch.",
    ),
)


@additive_scores.aspect("one sentence", points=1)
def _additive_values(draw):
    d_s, d_h, d_a, keys = draw.sizes(4, 3)
    yield Case("several states", _states(draw, (), keys, d_s, d_h) | _additive_weights(draw, d_s, d_h, d_a))
    yield Case("all widths equal", _states(draw, (), keys, d_a, d_a) | _additive_weights(draw, d_a, d_a, d_a))
    yield Case("as many states as units", _states(draw, (), d_a, d_a, d_a) | _additive_weights(draw, d_a, d_a, d_a))
    yield Case("a single state", _states(draw, (), 1, d_s, d_h) | _additive_weights(draw, d_s, d_h, d_a))
    yield Case("a hidden layer of one unit", _states(draw, (), keys, d_s, d_h) | _additive_weights(draw, d_s, d_h, 1))


@additive_scores.aspect("a batch", points=1)
def _additive_batch(draw):
    d_s, d_h, d_a, keys, batch = draw.sizes(5, 2)
    weights = _additive_weights(draw, d_s, d_h, d_a)
    inputs = _states(draw, (batch,), keys, d_s, d_h) | weights
    yield Case("a batch", inputs)
    yield Case("a batch of one", _states(draw, (1,), keys, d_s, d_h) | weights)
    yield Case("as many sentences as states", _states(draw, (keys,), keys, d_s, d_h) | weights)
    yield Case("a batch, a single state", _states(draw, (batch,), 1, d_s, d_h) | weights)
    yield Case("two leading axes", _states(draw, (batch, 3), keys, d_s, d_h) | weights)
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("W with one row too many", inputs | {"W": draw.normal(d_s + 1, d_a)}, refused=True)
    yield Case("v with one number too many", inputs | {"v": draw.normal(d_a + 1)}, refused=True)


@additive_scores.aspect("large states, gradients, single precision", points=1)
def _additive_numbers(draw):
    d_s, d_h, d_a, keys, batch = draw.sizes(5, 2)
    inputs = _states(draw, (batch,), keys, d_s, d_h) | _additive_weights(draw, d_s, d_h, d_a)
    yield Case("states of some 1,000", inputs | {"H": 1e3 * inputs["H"]})
    yield Case("gradients for states and weights", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


HIDDEN = "torch.tanh((s @ W).unsqueeze(-2) + H @ U)"
SUM = "hidden @ v"


def _additive(id, hint, *edits, source=""):
    additive_scores.mistake(id, hint, source)(edited(reference.additive_scores, *edits))


_additive(
    "additive-no-tanh",
    "The hyperbolic tangent is missing. Without it the decoder's state adds the same number to every score, and the "
    "softmax cancels it: the weights would not depend on it at all.",
    (HIDDEN, "(s @ W).unsqueeze(-2) + H @ U"),
    source="https://github.com/keon/seq2seq/pull/6",
)
_additive(
    "additive-tanh-each",
    "You take the hyperbolic tangent of each part and then the sum. The two parts are added first: only then can a unit "
    "see how they go together.",
    (HIDDEN, "torch.tanh(s @ W).unsqueeze(-2) + torch.tanh(H @ U)"),
)
_additive(
    "additive-tanh-of-product",
    "You multiply the two parts; this score is called additive because they are added.",
    (HIDDEN, "torch.tanh((s @ W).unsqueeze(-2) * (H @ U))"),
)
_additive(
    "additive-tanh-last",
    "The hyperbolic tangent is taken of the score, after `v`. It belongs to the hidden units, before they are added up.",
    (HIDDEN, "(s @ W).unsqueeze(-2) + H @ U"),
    (SUM, "torch.tanh(hidden @ v)"),
)
_additive(
    "additive-tanh-twice",
    "A second hyperbolic tangent squeezes the score itself between -1 and 1. The scores are not bounded.",
    (SUM, "torch.tanh(hidden @ v)"),
)
_additive(
    "additive-tanh-first",
    "The hyperbolic tangent is taken of the states, before their weights. It is taken of the hidden layer.",
    (HIDDEN, "(torch.tanh(s) @ W).unsqueeze(-2) + torch.tanh(H) @ U"),
)
_additive(
    "additive-relu",
    "The hidden units are rectified (ReLU); this network's units are hyperbolic tangents.",
    (HIDDEN, "torch.relu((s @ W).unsqueeze(-2) + H @ U)"),
)
_additive(
    "additive-sigmoid",
    "The hidden units go through a sigmoid; this network's units are hyperbolic tangents, which can be negative.",
    (HIDDEN, "torch.sigmoid((s @ W).unsqueeze(-2) + H @ U)"),
)
_additive(
    "additive-decoder-forgotten",
    "The decoder's state plays no part: every step would look at the same words.",
    (HIDDEN, "torch.tanh(H @ U)"),
)
_additive(
    "additive-encoder-forgotten",
    "The encoder's states play no part, so all scores of a sentence are equal.",
    (HIDDEN, "torch.tanh((s @ W).unsqueeze(-2) + 0 * (H @ U))"),
)
_additive(
    "additive-weights-swapped",
    "The two matrices have changed places: `W` is for the decoder's state, `U` for the encoder's.",
    (HIDDEN, "torch.tanh((s @ U).unsqueeze(-2) + H @ W)"),
)
_additive(
    "additive-weights-transposed",
    "The weights are used in the layout (D_out, D_in) of `nn.Linear`. Here they are (D_in, D_out): a row vector stands on "
    "their left.",
    (HIDDEN, "torch.tanh((s @ W.T).unsqueeze(-2) + H @ U.T)"),
)
_additive(
    "additive-v-forgotten",
    "The hidden units are added up without their weights `v`.",
    (SUM, "hidden.sum(-1) + 0 * v.sum()"),
)
_additive(
    "additive-not-summed",
    "The weighted units are not added up yet: there should be one number for each encoder state.",
    (SUM, "hidden * v"),
)
_additive(
    "additive-mean",
    "The weighted units are averaged. They should be added up.",
    (SUM, "(hidden * v).mean(-1)"),
)
_additive(
    "additive-scaled",
    "The score is divided by the square root of the width. That belongs to the scaled dot product of the next chapter.",
    (SUM, "hidden @ v / v.shape[0] ** 0.5"),
)
_additive(
    "additive-softmax",
    "Your scores sum to one: the softmax is not part of this kernel, and it would not know the padding.",
    (SUM, "torch.softmax(hidden @ v, dim=-1)"),
    source="https://github.com/abisee/pointer-generator/issues/41",
)
_additive(
    "additive-column",
    "Your scores keep an axis of length 1 at the end; a softmax over it would make every weight 1. Return one number "
    "for each encoder state.",
    (SUM, "hidden @ v.unsqueeze(-1)"),
    source="https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2",
)
_additive(
    "additive-broadcast-by-chance",
    "The decoder's part has no axis for the encoder's states. For one sentence it broadcasts by chance; in a batch "
    "sentences and states are mixed up.",
    (HIDDEN, "torch.tanh(s @ W + H @ U)"),
)
_additive(
    "additive-second-axis",
    "You make the axis for the states at place 1, counted from the front. That is right for a batch only; count from the "
    "end.",
    (HIDDEN, "torch.tanh((s @ W).unsqueeze(1) + H @ U)"),
)
_additive(
    "additive-squeezed",
    "`squeeze` without an axis removes every axis of length 1, also a batch of one or a single state.",
    (SUM, "(hidden @ v).squeeze()"),
    source="Starter code of Stanford CS224N, a4/nmt_model.py, which warns of it",
)
_additive(
    "additive-detached",
    "No gradient reaches the encoder's states, so the encoder would not learn what makes a word easy to find.",
    (HIDDEN, "torch.tanh((s @ W).unsqueeze(-2) + H.detach() @ U)"),
)


multiplicative_scores = Check(
    reference.multiplicative_scores,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "For one encoder state: the decoder's state as a row, times the matrix, times the encoder's state as a column. "
        "That is one number.",
        "Send the decoder's state through the matrix first. Then one dot product with each encoder state is left.",
        "`A @ b` with a matrix and a column is one dot product for each row. In a batch, make the vector a column by an "
        "axis of length 1 at its end, and take that axis away again by its place.",
    ),
    reproduces=("torch.nn.functional.bilinear", "torch.nn.Bilinear", *FUSED),
)


@multiplicative_scores.aspect("one sentence", points=1)
def _multiplicative_values(draw):
    d_s, d_h, keys = draw.sizes(3, 3)
    yield Case("several states", _states(draw, (), keys, d_s, d_h) | {"W": draw.normal(d_s, d_h)})
    yield Case("equal widths", _states(draw, (), keys, d_h, d_h) | {"W": draw.normal(d_h, d_h)})
    yield Case("as many states as components", _states(draw, (), d_h, d_h, d_h) | {"W": draw.normal(d_h, d_h)})
    yield Case("a single state", _states(draw, (), 1, d_s, d_h) | {"W": draw.normal(d_s, d_h)})
    yield Case("states of width 1", _states(draw, (), keys, 1, 1) | {"W": draw.normal(1, 1)})


@multiplicative_scores.aspect("a batch", points=1)
def _multiplicative_batch(draw):
    d_s, d_h, keys, batch = draw.sizes(4, 2)
    W = {"W": draw.normal(d_s, d_h)}
    inputs = _states(draw, (batch,), keys, d_s, d_h) | W
    yield Case("a batch", inputs)
    yield Case("a batch of one", _states(draw, (1,), keys, d_s, d_h) | W)
    yield Case("as many sentences as states", _states(draw, (keys,), keys, d_s, d_h) | W)
    yield Case("a batch, a single state", _states(draw, (batch,), 1, d_s, d_h) | W)
    yield Case("two leading axes", _states(draw, (batch, 3), keys, d_s, d_h) | W)
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a matrix that is transposed", inputs | {"W": draw.normal(d_h, d_s)}, refused=True)


@multiplicative_scores.aspect("large states, gradients, single precision", points=1)
def _multiplicative_numbers(draw):
    d_s, d_h, keys, batch = draw.sizes(4, 2)
    inputs = _states(draw, (batch,), keys, d_s, d_h) | {"W": draw.normal(d_s, d_h)}
    yield Case("states of some 1,000", inputs | {"H": 1e3 * inputs["H"]})
    yield Case("gradients for states and matrix", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


BILINEAR = "(H @ (s @ W).unsqueeze(-1)).squeeze(-1)"

for _id, _new, _hint, _source in (
    (
        "multiplicative-transposed",
        "(H @ (s @ W.T).unsqueeze(-1)).squeeze(-1)",
        "The matrix is transposed: the decoder's state belongs on its left, an encoder state on its right. Where the widths "
        "are equal no shape complains.",
        "https://github.com/rohitg00/ai-engineering-from-scratch/pull/48",
    ),
    (
        "multiplicative-no-matrix",
        "(H @ s.unsqueeze(-1)).squeeze(-1)",
        "The matrix is left out: this is the plain dot product, which needs equal widths.",
        "",
    ),
    (
        "multiplicative-matrix-twice",
        "((H @ W.T) @ (s @ W).unsqueeze(-1)).squeeze(-1)",
        "Both states go through the matrix. It stands between them once.",
        "",
    ),
    (
        "multiplicative-tanh",
        "torch.tanh(H @ (s @ W).unsqueeze(-1)).squeeze(-1)",
        "There is a hyperbolic tangent. That belongs to the additive score; this one is a plain product.",
        "",
    ),
    (
        "multiplicative-tanh-inside",
        "(H @ torch.tanh(s @ W).unsqueeze(-1)).squeeze(-1)",
        "There is a hyperbolic tangent after the matrix. That belongs to the additive score; this one is a plain product.",
        "",
    ),
    (
        "multiplicative-scaled",
        "(H @ (s @ W).unsqueeze(-1)).squeeze(-1) / H.shape[-1] ** 0.5",
        "The score is divided by the square root of the width. That belongs to the scaled dot product of the next chapter.",
        "",
    ),
    (
        "multiplicative-softmax",
        "torch.softmax((H @ (s @ W).unsqueeze(-1)).squeeze(-1), dim=-1)",
        "Your scores sum to one: the softmax is not part of this kernel, and it would not know the padding.",
        "",
    ),
    (
        "multiplicative-not-summed",
        "H * (s @ W).unsqueeze(-2)",
        "The products are not added up yet: there should be one number for each encoder state.",
        "",
    ),
    (
        "multiplicative-mean",
        "(H * (s @ W).unsqueeze(-2)).mean(-1)",
        "The products are averaged. A dot product adds them up.",
        "",
    ),
    (
        "multiplicative-summed-over-states",
        "(H * (s @ W).unsqueeze(-2)).sum(-2)",
        "You add up over the encoder's states. Each of them has a score of its own: add up over the components, the last "
        "axis.",
        "",
    ),
    (
        "multiplicative-cosine",
        "torch.nn.functional.cosine_similarity(H, (s @ W).unsqueeze(-2), dim=-1)",
        "This is the cosine: it forgets how long the vectors are. The dot product keeps their lengths.",
        "",
    ),
    (
        "multiplicative-column",
        "H @ (s @ W).unsqueeze(-1)",
        "Your scores keep an axis of length 1 at the end; a softmax over it would make every weight 1. Return one number "
        "for each encoder state.",
        "https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2",
    ),
    (
        "multiplicative-all-with-all",
        "s @ W @ H.transpose(-2, -1)",
        "In a batch every decoder state is compared with the words of every sentence. For one sentence the product is right; "
        "in a batch each state needs an axis of its own.",
        "",
    ),
    (
        "multiplicative-axes-reversed",
        "s @ W @ H.T",
        "`.T` reverses all axes of a tensor. It is a transpose for one sentence only; with a batch, name the axes.",
        "",
    ),
    (
        "multiplicative-squeezed",
        "(H @ (s @ W).unsqueeze(-1)).squeeze()",
        "`squeeze` without an axis removes every axis of length 1, also a batch of one or a single state.",
        "Starter code of Stanford CS224N, a4/nmt_model.py, which warns of it",
    ),
    (
        "multiplicative-detached",
        "(H.detach() @ (s @ W).unsqueeze(-1)).squeeze(-1)",
        "No gradient reaches the encoder's states, so the encoder would not learn what makes a word easy to find.",
        "",
    ),
):
    multiplicative_scores.slip(_id, BILINEAR, _new, _hint, _source)


masked_softmax = Check(
    reference.masked_softmax,
    difficulty="core",
    minutes=20,
    hints=(
        "Where must the mask act, before the softmax or after it, so that the weights that are left sum to one?",
        "A score that gives no weight is very low, far below any score that can occur. Zero is an ordinary score.",
        "In a row without any real key every score is equally low, so the softmax is even, or NaN with minus infinity. Such a "
        "row should be zeros, and its gradient too: keep the NaN from arising, rather than hide it afterwards.",
    ),
)


@masked_softmax.aspect("sentences of different lengths", points=1)
def _softmax_values(draw):
    keys, batch = draw.sizes(2, 4)
    yield Case("a padded batch", {"scores": draw.normal(batch, keys), "key_mask": _ragged(draw, batch, keys)})
    high = draw.normal(batch, keys) + 5.0 * ~(mask := _ragged(draw, batch, keys))
    yield Case("padding with high scores", {"scores": high, "key_mask": mask})
    yield Case("as many sentences as keys", {"scores": draw.normal(keys, keys), "key_mask": _ragged(draw, keys, keys)})
    yield Case("real keys anywhere", {"scores": draw.normal(batch, keys), "key_mask": draw.mask(batch, keys)})
    yield Case("no padding", {"scores": draw.normal(batch, keys), "key_mask": np.ones((batch, keys), bool)})


@masked_softmax.aspect("other shapes", points=1)
def _softmax_shapes(draw):
    keys, batch, queries = draw.sizes(3, 4)
    yield Case("a single sentence", {"scores": draw.normal(keys), "key_mask": draw.mask(keys)})
    yield Case("a batch of one", {"scores": draw.normal(1, keys), "key_mask": draw.mask(1, keys)})
    yield Case("a single key", {"scores": draw.normal(batch, 1), "key_mask": np.ones((batch, 1), bool)})
    yield Case("one mask for all sentences", {"scores": draw.normal(batch, keys), "key_mask": draw.mask(keys)})
    inputs = {"scores": draw.normal(batch, queries, keys), "key_mask": draw.mask(batch, 1, keys)}
    yield Case("several questions to each sentence", inputs)
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    numbers = {"scores": inputs["scores"], "key_mask": np.where(inputs["key_mask"], 0.0, -1e9)}
    yield Case("a mask of numbers", numbers, refused=True)


@masked_softmax.aspect("a sentence without any real word", points=1)
def _softmax_nothing(draw):
    keys, batch = draw.sizes(2, 4)
    mask = _ragged(draw, batch, keys)
    mask[1] = False
    inputs = {"scores": draw.normal(batch, keys), "key_mask": mask}
    yield Case("a sentence of padding alone", inputs)
    yield Case("its gradient", inputs, gradient=("scores",))
    yield Case("padding everywhere", inputs | {"key_mask": np.zeros((1, 1), bool)}, gradient=("scores",))
    single = np.arange(batch)[:, None] != 1
    yield Case("a single key, for some", {"scores": draw.normal(batch, 1), "key_mask": single})


@masked_softmax.aspect("large scores, gradients, single and half precision", points=1)
def _softmax_numbers(draw):
    keys, batch = draw.sizes(2, 4)
    inputs = {"scores": draw.normal(batch, keys), "key_mask": _ragged(draw, batch, keys)}
    far = 1e3 * np.arange(batch)[:, None] - 1e3
    yield Case("rows of scores far apart, some near 1,000", inputs | {"scores": inputs["scores"] + far})
    yield Case("scores near -20,000", inputs | {"scores": inputs["scores"] - 2e4})
    padding = np.where(inputs["key_mask"], inputs["scores"], 1e3)
    yield Case("padding 1,000 above the others", inputs | {"scores": padding})
    yield Case("the gradient", inputs, gradient=("scores",))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("half precision", inputs, dtype="float16")


FILL = "scores.masked_fill(~key_mask, torch.finfo(scores.dtype).min)"
SOFTMAX = "torch.softmax(scores, dim=-1)"
ZERO = "attn_weights.masked_fill(~key_mask, 0.0)"


def _softmax(id, hint, *edits, source=""):
    masked_softmax.mistake(id, hint, source)(edited(reference.masked_softmax, *edits))


_softmax(
    "softmax-batch-axis",
    "Your weights sum to one over the sentences of the batch. Each sentence's weights sum to one over its keys, the last "
    "axis.",
    (SOFTMAX, "torch.softmax(scores, dim=0)"),
    source="https://github.com/PetrochukM/PyTorch-NLP/issues/2",
)
_softmax(
    "softmax-second-axis",
    "Your softmax runs over axis 1, counted from the front. Those are the keys of a batch, but with one sentence, or several "
    "questions to each, they are not. Count from the end.",
    (SOFTMAX, "torch.softmax(scores, dim=1)"),
)
_softmax(
    "softmax-implicit-dim",
    "A softmax without an axis guesses one: axis 1 for a matrix, axis 0 for three axes. Say which axis counts the keys.",
    (SOFTMAX, "torch.nn.functional.softmax(scores)"),
    source="Student code of Stanford CS224N, a4/nmt_model.py, where it happens to be right",
)
_softmax(
    "softmax-size-1-axis",
    "All weights of real keys are one: your softmax runs over an axis of size 1. Let it run over the axis of the keys.",
    (SOFTMAX, "torch.softmax(scores.unsqueeze(-1), dim=-1).squeeze(-1)"),
    source="https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2",
)
_softmax(
    "softmax-whole-batch",
    "All weights of the batch together sum to one. Each sentence should have a total of one for itself.",
    (SOFTMAX, "torch.softmax(scores.flatten(), dim=0).reshape(scores.shape)"),
)
_softmax(
    "softmax-twice",
    "The softmax is applied twice, so the weights are much too even.",
    (SOFTMAX, "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"),
)
_softmax(
    "softmax-log",
    "These are the logarithms of the weights (log-softmax): they are negative and do not sum to one.",
    (SOFTMAX, "torch.log_softmax(scores, dim=-1)"),
)
_softmax(
    "softmax-overflow",
    "Your exponentials overflow: exp(1000) is infinite. Subtract each row's largest score first; the weights stay the same.",
    (SOFTMAX, "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"),
    source="https://github.com/uTensor/uTensor/issues/175",
)
_softmax(
    "softmax-largest-of-all",
    "You subtract the largest score of the whole batch. A sentence far below it underflows to zero over zero: take the "
    "largest of each row.",
    (SOFTMAX, "(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)"),
)
_softmax(
    "softmax-largest-on-padding",
    "You subtract the largest score of each row, padding included. Where padding scores far above the real keys, theirs "
    "underflow: take the largest of the real ones.",
    (FILL, "scores - scores.amax(dim=-1, keepdim=True)"),
    (
        SOFTMAX,
        "scores.exp() * key_mask\n"
        "    total = attn_weights.sum(dim=-1, keepdim=True)\n"
        "    attn_weights = attn_weights / total.masked_fill(total == 0, 1)",
    ),
)
_softmax(
    "softmax-epsilon",
    "A small number is added where the weights are shared out, so they sum to less than one. Treat the rows without any "
    "real key apart.",
    (
        SOFTMAX,
        "(scores - scores.amax(dim=-1, keepdim=True)).exp()\n"
        "    attn_weights = attn_weights / (attn_weights.sum(dim=-1, keepdim=True) + 1e-6)",
    ),
)
_softmax(
    "softmax-detached",
    "No gradient flows back to the scores, so the alignment would never be learned.",
    (SOFTMAX, "torch.softmax(scores.detach(), dim=-1)"),
)
_softmax(
    "mask-ignored",
    "The mask changes nothing: padding still gets weight.",
    (FILL, "scores"),
    (ZERO, "attn_weights"),
    source="https://github.com/abisee/pointer-generator/issues/41",
)
_softmax(
    "mask-inverted",
    "The mask is read the wrong way round: True is a real key. (PyTorch's modules mean the opposite by "
    "`key_padding_mask`.)",
    (FILL, "scores.masked_fill(key_mask, torch.finfo(scores.dtype).min)"),
    (ZERO, "attn_weights.masked_fill(key_mask, 0.0)"),
    source="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
)
_softmax(
    "mask-after-softmax",
    "The mask acts only after the softmax, so the weights that are left sum to less than one.",
    (FILL, "scores"),
    source="https://github.com/huggingface/pytorch-image-models/pull/2236",
)
_softmax(
    "mask-renormalised",
    "The mask acts only after the softmax, and the weights are divided by their sum again. Where padding scores far above "
    "the real keys, theirs have become zero by then. Block the scores, before the softmax.",
    (FILL, "scores"),
    (
        "return " + ZERO,
        "attn_weights = attn_weights.masked_fill(~key_mask, 0.0)\n"
        "    total = attn_weights.sum(dim=-1, keepdim=True)\n"
        "    return attn_weights / total.masked_fill(total == 0, 1)",
    ),
)
_softmax(
    "mask-tiny-fill",
    "Blocked scores become 1e-9, which is nearly 0 and an ordinary score. A score that gives no weight is very negative.",
    (FILL, "scores.masked_fill(~key_mask, 1e-9)"),
    (ZERO, "attn_weights"),
    source="https://github.com/awslabs/gluonts/pull/1401",
)
_softmax(
    "mask-tiny-negative-fill",
    "Blocked scores become -1e-9, which is nearly 0 and an ordinary score. Very negative is -1e9, and more.",
    (FILL, "scores.masked_fill(~key_mask, -1e-9)"),
    (ZERO, "attn_weights"),
    source="https://github.com/hyunwoongko/transformer/issues/10",
)
_softmax(
    "mask-multiplied",
    "Blocked scores become 0, by a product with the mask or by filling. Zero is an ordinary score and still gets weight.",
    (FILL, "scores * key_mask"),
    (ZERO, "attn_weights"),
    source="https://github.com/georg-wolflein/good-features/pull/1",
)
_softmax(
    "mask-zero-then-zero",
    "Blocked scores become 0 before the softmax, and their weights 0 after it. A score of 0 takes its share all the same, "
    "so the weights that are left sum to less than one.",
    (FILL, "scores * key_mask"),
)
_softmax(
    "mask-added",
    "The boolean mask is added to the scores as if it were numbers: real keys rise by 1, padding stays.",
    (FILL, "scores + key_mask"),
    (ZERO, "attn_weights"),
    source="https://github.com/pytorch/pytorch/issues/117939",
)
_softmax(
    "mask-plus-infinity",
    "Blocked scores become plus infinity: they take all the weight, or turn into NaN. The sign is wrong, or there twice.",
    (FILL, "scores.masked_fill(~key_mask, torch.inf)"),
    (ZERO, "attn_weights"),
    source="https://github.com/lucidrains/memory-compressed-attention/issues/2",
)
_softmax(
    "mask-fill-too-small",
    "The fill of -10,000 is not low enough: where the real scores are lower still, padding wins.",
    (FILL, "scores.masked_fill(~key_mask, -1e4)"),
)
_softmax(
    "mask-fill-fp16-overflow",
    "The fill of -1e9 does not fit into half precision, whose lowest number is -65,504.",
    (FILL, "scores.masked_fill(~key_mask, -1e9)"),
    source="https://github.com/pytorch/pytorch/issues/103963",
)
_softmax(
    "mask-empty-row-nan",
    "A row without any real key comes out as NaN: a softmax of nothing but minus infinity is zero over zero. It should be "
    "zeros.",
    (FILL, "scores.masked_fill(~key_mask, -torch.inf)"),
    (ZERO, "attn_weights"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
_softmax(
    "mask-empty-row-uniform",
    "A row without any real key shares its weight among the padding: where every score is the same, the softmax is even, "
    "however low that score. It should be zeros.",
    (ZERO, "attn_weights"),
    source="https://github.com/d2l-ai/d2l-en/pull/2423",
)
_softmax(
    "mask-nan-gradient",
    "The weights are right, but for a row without any real key the gradient is NaN: the NaN was hidden after the softmax, "
    "and the way back still goes through it. Keep it from arising, or block the scores rather than add to them.",
    (FILL, "scores + torch.zeros_like(scores).masked_fill(~key_mask, -torch.inf)"),
    (ZERO, "attn_weights.nan_to_num()"),
    source="https://github.com/pytorch/pytorch/issues/41508",
)
_softmax(
    "mask-changes-scores",
    "You write into the caller's scores (an operation in place), so they are different after the call. Make a new tensor.",
    (FILL, "scores.detach().masked_fill_(~key_mask, torch.finfo(scores.dtype).min)"),
)
_softmax(
    "mask-of-numbers",
    "A mask of numbers is taken as well, as if every number but zero meant True. A mask made to be added means the opposite "
    "by its zeros: such a mask should be an error.",
    (
        """    if key_mask.dtype != torch.bool:
        raise TypeError(f"key_mask has dtype {key_mask.dtype}; it must be torch.bool, True where a key is real.")
""",
        "    key_mask = key_mask.bool()\n",
    ),
)


context_vector = Check(
    reference.context_vector,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Each encoder state times its weight, and the results added up.",
        "Give the weights an axis of length 1 so that each meets all components of its state. Over which axis is the sum?",
        "A row of weights times the matrix of states does both at once. In a batch the row needs an axis of its own.",
    ),
    reproduces=FUSED,
)


def _weighted(draw, leading, keys, d_h):
    """Weights that do not sum to one, so that whoever divides by their sum gives himself away."""
    return {"attn_weights": draw.rng.random((*leading, keys)), "H": draw.normal(*leading, keys, d_h)}


@context_vector.aspect("one sentence, and a batch", points=1)
def _context_values(draw):
    d_h, keys, batch = draw.sizes(3, 3)
    yield Case("one sentence", _weighted(draw, (), keys, d_h))
    yield Case("as many states as components", _weighted(draw, (), d_h, d_h))
    yield Case("a batch", _weighted(draw, (batch,), keys, d_h))


@context_vector.aspect("other shapes, gradients, single precision", points=1)
def _context_shapes(draw):
    d_h, keys, batch = draw.sizes(3, 3)
    inputs = _weighted(draw, (batch,), keys, d_h)
    yield Case("a batch of one", _weighted(draw, (1,), keys, d_h))
    yield Case("as many sentences as states", _weighted(draw, (keys,), keys, d_h))
    yield Case("a single state", _weighted(draw, (batch,), 1, d_h))
    yield Case("states of width 1", _weighted(draw, (batch,), keys, 1))
    yield Case("two leading axes", _weighted(draw, (batch, 2), keys, d_h))
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    zeros = inputs | {"attn_weights": inputs["attn_weights"] * (np.arange(batch)[:, None] != 1)}
    yield Case("a sentence whose weights are all zero", zeros)
    yield Case("gradients for weights and states", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")
    one = {"attn_weights": draw.rng.random((batch, 1)), "H": inputs["H"]}
    yield Case("one weight for many states", one, refused=True)


CONTEXT = "(attn_weights.unsqueeze(-2) @ H).squeeze(-2)"

for _id, _new, _hint in (
    (
        "context-mean",
        "H.mean(-2) + 0 * attn_weights.sum()",
        "The weights play no part: this is the plain mean of the encoder's states.",
    ),
    (
        "context-last-state",
        "H[..., -1, :] + 0 * attn_weights.sum()",
        "This is the last encoder state, the fixed context of the chapter before. Every state counts, by its weight.",
    ),
    (
        "context-divided-by-number",
        "(attn_weights.unsqueeze(-1) * H).mean(-2)",
        "The weighted states are averaged, so the sum is divided by their number once more. Add them up.",
    ),
    (
        "context-renormalised",
        "(attn_weights.unsqueeze(-2) @ H).squeeze(-2) / attn_weights.sum(-1, keepdim=True)",
        "You divide by the sum of the weights. They are taken as they are; a sentence without weight would give NaN.",
    ),
    (
        "context-softmax-again",
        "(torch.softmax(attn_weights, dim=-1).unsqueeze(-2) @ H).squeeze(-2)",
        "The softmax is taken of the weights, which went through one already.",
    ),
    (
        "context-not-summed",
        "attn_weights.unsqueeze(-1) * H",
        "The weighted states are not added up yet: one vector for each sentence is asked for.",
    ),
    (
        "context-summed-over-components",
        "(attn_weights.unsqueeze(-1) * H).sum(-1)",
        "You add up over the components of each state. Add up over the states, so that a vector is left.",
    ),
    (
        "context-hard",
        "H.gather(-2, attn_weights.argmax(-1)[..., None, None].expand(*H.shape[:-2], 1, H.shape[-1])).squeeze(-2)",
        "You take the state with the largest weight alone. Every state counts, by its weight; a choice has no gradient.",
    ),
    (
        "context-weights-on-components",
        "(H @ attn_weights.unsqueeze(-1)).squeeze(-1)",
        "The weights meet the components of the states. There is one weight for each state: it multiplies the whole state.",
    ),
    (
        "context-all-with-all",
        "attn_weights @ H",
        "In a batch the weights of every sentence meet the states of every other. For one sentence the product is right; in a "
        "batch the weights need an axis of their own.",
    ),
    (
        "context-axis-kept",
        "attn_weights.unsqueeze(-2) @ H",
        "Your context keeps an axis of length 1 that the product needed. Take it away again, by its place.",
    ),
    (
        "context-squeezed",
        "(attn_weights.unsqueeze(-2) @ H).squeeze()",
        "`squeeze` without an axis removes every axis of length 1, also a batch of one or a width of one.",
    ),
    (
        "context-weights-detached",
        "(attn_weights.detach().unsqueeze(-2) @ H).squeeze(-2)",
        "No gradient reaches the weights, so the alignment would never be learned.",
    ),
    (
        "context-states-detached",
        "(attn_weights.unsqueeze(-2) @ H.detach()).squeeze(-2)",
        "No gradient reaches the encoder's states through the context, so the encoder would not learn what to say.",
    ),
):
    context_vector.slip(_id, CONTEXT, _new, _hint)


attention_decoder_step = Check(
    reference.attention_decoder_step,
    difficulty="core",
    minutes=20,
    hints=(
        "Four lines, one for each arrow: scores from the state before, weights from the scores, a context from the weights, "
        "a new state from the cell. Three of them are kernels that you have; the fourth is `gru_cell`.",
        "The cell reads one vector: the word's embedding and the context, side by side. `torch.cat` joins along an axis that "
        "exists; which one holds the components?",
        "The scores are asked for by `s`, the state that came in, and the cell starts from it too. The new state asks at the "
        "next step.",
    ),
    uses=("additive_scores", "masked_softmax", "context_vector"),
    reproduces=("torch.nn.GRUCell", "torch.gru_cell", "torch.nn.GRU"),
)


def _step_inputs(draw, batch, keys, d_y, d_s, d_h, d_a, mask=None):
    states = _states(draw, (batch,), keys, d_s, d_h)
    return {
        "y": draw.normal(batch, d_y),
        **states,
        "key_mask": np.ones((batch, keys), bool) if mask is None else mask,
        **_additive_weights(draw, d_s, d_h, d_a),
        "W_ih": draw.normal(3 * d_s, d_y + d_h) / math.sqrt(d_y + d_h),
        "W_hh": draw.normal(3 * d_s, d_s) / math.sqrt(d_s),
        "b_ih": draw.normal(3 * d_s),
        "b_hh": draw.normal(3 * d_s),
    }


@attention_decoder_step.aspect("state, context and weights", points=2)
def _step_values(draw):
    d_y, d_s, d_h, d_a, keys, batch = draw.sizes(6, 2)
    yield Case("a batch", _step_inputs(draw, batch, keys, d_y, d_s, d_h, d_a))
    yield Case("all widths equal", _step_inputs(draw, batch, keys, d_s, d_s, d_s, d_s))
    yield Case("as many sentences as words", _step_inputs(draw, keys, keys, d_y, d_s, d_h, d_a))
    yield Case("a batch of one", _step_inputs(draw, 1, keys, d_y, d_s, d_h, d_a))
    yield Case("a single source word", _step_inputs(draw, batch, 1, d_y, d_s, d_h, d_a))


@attention_decoder_step.aspect("padding", points=1)
def _step_padding(draw):
    d_y, d_s, d_h, d_a = draw.sizes(4, 2)
    batch, keys = 5, 7
    mask = _ragged(draw, batch, keys)
    inputs = _step_inputs(draw, batch, keys, d_y, d_s, d_h, d_a, mask)
    yield Case("sentences of different lengths", inputs)
    far = np.where(mask[..., None], inputs["H"], 50 * inputs["H"])
    yield Case("padding with large states", inputs | {"H": far})
    equal = _step_inputs(draw, batch, keys, d_s, d_s, d_s, d_s, mask)
    yield Case("all widths equal, different lengths", equal)
    mask = mask.copy()
    mask[1] = False
    yield Case("a sentence without any real word", inputs | {"key_mask": mask})
    yield Case("several calls", inputs, repeated=True)
    yield Case("an embedding of another width", inputs | {"y": draw.normal(batch, d_y + 1)}, refused=True)


@attention_decoder_step.aspect("gradients, single precision", points=1)
def _step_numbers(draw):
    d_y, d_s, d_h, d_a, batch = draw.sizes(5, 2)
    keys = 10
    mask = _ragged(draw, batch, keys)
    inputs = _step_inputs(draw, batch, keys, d_y, d_s, d_h, d_a, mask)
    floats = tuple(name for name in inputs if name != "key_mask")
    yield Case("gradients for everything", inputs, gradient=floats)
    mask = mask.copy()
    mask[-1] = False
    yield Case("gradients with a sentence without words", inputs | {"key_mask": mask}, gradient=floats)
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")


SCORE = "scores = additive_scores(s, H, W, U, v)"
WEIGH = "attn_weights = masked_softmax(scores, key_mask)"
READ = "context = context_vector(attn_weights, H)"
MOVE = "s_new = gru_cell(torch.cat([y, context], dim=-1), s, W_ih, W_hh, b_ih, b_hh)"
RETURN = "return s_new, context, attn_weights"


def _step(id, hint, *edits, source=""):
    attention_decoder_step.mistake(id, hint, source)(edited(reference.attention_decoder_step, *edits))


_step(
    "step-looks-again",
    "Off by one: weights and context that you return were asked for by the new state, so they belong to the next word. "
    "Return those that made the new state.",
    (
        RETURN,
        "attn_weights = masked_softmax(additive_scores(s_new, H, W, U, v), key_mask)\n"
        "    return s_new, context_vector(attn_weights, H), attn_weights",
    ),
    source="https://github.com/OpenNMT/OpenNMT-py/issues/668",
)
_step(
    "step-attends-with-new-state",
    "Off by one: the cell moves on first, without a context, and its new state asks. That is nearer to Luong's order. Here "
    "the state before asks, and the cell reads the answer.",
    (
        SCORE,
        "s_new = gru_cell(torch.cat([y, y.new_zeros(len(y), H.shape[-1])], dim=-1), s, W_ih, W_hh, b_ih, b_hh)\n"
        "    scores = additive_scores(s_new, H, W, U, v)",
    ),
    (MOVE, ""),
    source="https://github.com/OpenNMT/OpenNMT-py/issues/668",
)
_step(
    "step-moves-twice",
    "The cell moves on twice in one step: once to ask, and once more to answer. It moves once, after the context is known.",
    (
        SCORE,
        "s = gru_cell(torch.cat([y, y.new_zeros(len(y), H.shape[-1])], dim=-1), s, W_ih, W_hh, b_ih, b_hh)\n"
        "    scores = additive_scores(s, H, W, U, v)",
    ),
)
_step(
    "step-scores-from-embedding",
    "The scores are asked for by the word's embedding. The decoder's state asks: it knows the whole sentence so far.",
    (SCORE, "scores = additive_scores(y, H, W, U, v)"),
    source="https://github.com/pytorch/tutorials/issues/87",
)
_step(
    "step-context-forgotten",
    "The context does not reach the cell: the new state does not depend on the source sentence.",
    (MOVE, "s_new = gru_cell(torch.cat([y, 0 * context], dim=-1), s, W_ih, W_hh, b_ih, b_hh)"),
)
_step(
    "step-context-from-embedding",
    "The cell reads the embedding twice, in the context's place too.",
    (MOVE, "s_new = gru_cell(torch.cat([y, y], dim=-1), s, W_ih, W_hh, b_ih, b_hh)"),
)
_step(
    "step-word-forgotten",
    "The embedding does not reach the cell: the decoder does not know which word it said before.",
    (MOVE, "s_new = gru_cell(torch.cat([0 * y, context], dim=-1), s, W_ih, W_hh, b_ih, b_hh)"),
)
_step(
    "step-input-swapped",
    "Embedding and context have changed places in the cell's input: the embedding comes first. The width is the same, so "
    "no shape complains.",
    (MOVE, "s_new = gru_cell(torch.cat([context, y], dim=-1), s, W_ih, W_hh, b_ih, b_hh)"),
)
_step(
    "step-state-forgotten",
    "The cell starts from zeros. It starts from the state before, which also asked for the scores.",
    (MOVE, "s_new = gru_cell(torch.cat([y, context], dim=-1), torch.zeros_like(s), W_ih, W_hh, b_ih, b_hh)"),
)
_step(
    "step-context-as-state",
    "The cell starts from the context. The context is a part of its input; it starts from the state before.",
    (MOVE, "s_new = gru_cell(torch.cat([y, context], dim=-1), context, W_ih, W_hh, b_ih, b_hh)"),
    source="https://github.com/d2l-ai/d2l-en/issues/2134",
)
_step(
    "step-biases-swapped",
    "The cell's two biases have changed places. Only the candidate, where the reset gate stands between them, can tell.",
    (MOVE, "s_new = gru_cell(torch.cat([y, context], dim=-1), s, W_ih, W_hh, b_hh, b_ih)"),
)
_step(
    "step-attention-weights-swapped",
    "`W` and `U` have changed places: `W` is for the decoder's state, `U` for the encoder's.",
    (SCORE, "scores = additive_scores(s, H, U, W, v)"),
)
_step(
    "step-mask-ignored",
    "Padding gets weight: the mask does not reach the softmax.",
    (WEIGH, "attn_weights = torch.softmax(scores, dim=-1)"),
    source="https://github.com/abisee/pointer-generator/issues/41",
)
_step(
    "step-mask-inverted",
    "The mask is turned round on its way: True is a real word, here and in `masked_softmax`.",
    (WEIGH, "attn_weights = masked_softmax(scores, ~key_mask)"),
)
_step(
    "step-softmax-batch-axis",
    "The weights sum to one over the sentences of the batch instead of over the words of each.",
    (WEIGH, "attn_weights = masked_softmax(scores.T, key_mask.T).T"),
    source="https://github.com/keon/seq2seq/pull/6",
)
_step(
    "step-no-softmax",
    "The scores are used as weights: they may be negative and do not sum to one.",
    (WEIGH, "attn_weights = scores.masked_fill(~key_mask, 0.0)"),
)
_step(
    "step-last-state-read",
    "The context is the encoder's last state, whatever the weights say: that is the bottleneck again.",
    (READ, "context = H[:, -1]"),
)
_step(
    "step-mean-read",
    "The context is the plain mean of the encoder's states, whatever the weights say.",
    (READ, "context = H.mean(1)"),
)
_step(
    "step-hard-choice",
    "The context is the one state with the largest weight. It should be the weighted sum, which has a gradient.",
    (READ, "context = H[torch.arange(len(H)), attn_weights.argmax(1)]"),
)
_step(
    "step-scores-returned",
    "You return the scores where the weights are asked for.",
    (RETURN, "return s_new, context, scores"),
)
_step(
    "step-returned-in-another-order",
    "Return the new state, the context and the weights, in this order.",
    (RETURN, "return context, s_new, attn_weights"),
)
_step(
    "step-weights-before-context",
    "Return the new state, the context and the weights, in this order: the context comes before the weights.",
    (RETURN, "return s_new, attn_weights, context"),
)
_step(
    "step-state-alone",
    "You return the new state alone. The context and the weights are asked for too.",
    (RETURN, "return s_new"),
)
_step(
    "step-old-state-returned",
    "You return the state that came in.",
    (RETURN, "return s, context, attn_weights"),
)
_step(
    "step-weights-detached",
    "No gradient goes through the weights, so what makes a word fit would never be learned.",
    (READ, "context = context_vector(attn_weights.detach(), H)"),
)
_step(
    "step-states-detached",
    "No gradient reaches the encoder's states through the context, so the encoder would not learn what to say.",
    (READ, "context = context_vector(attn_weights, H.detach())"),
)


alignment_error_rate = Check(
    reference.alignment_error_rate,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Four numbers are needed, each added up over all sentences: found links, sure links, found links that are sure, found "
        "links that are possible.",
        "Links are sets, so the links that two of them share are their intersection.",
        "A sure link that is found counts twice above the line, because it is possible too. Below the line it counts twice "
        "as well: as a found link and as a sure one.",
    ),
)


def _links(draw, rows, columns, number):
    """Different links of one sentence, in random order."""
    places = draw.rng.choice(rows * columns, number, replace=False)
    return [[int(place) // columns, int(place) % columns] for place in places]


def _alignment(draw, rows=8, columns=9, sure=6, possible=5, found_sure=4, found_possible=2, found_wrong=3):
    """Links of one sentence: how many are sure, only possible, and how many of each, and of wrong ones, are found."""
    links = _links(draw, rows, columns, sure + possible + found_wrong)
    must, may, wrong = links[:sure], links[sure : sure + possible], links[sure + possible :]
    return {"found": must[:found_sure] + may[:found_possible] + wrong, "sure": must, "possible": must + may}


def _corpus(*sentences):
    return {name: [sentence[name] for sentence in sentences] for name in ("found", "sure", "possible")}


@alignment_error_rate.aspect("one sentence", points=1)
def _rate_values(draw):
    wrong, only_possible = int(draw.rng.integers(2, 6)), int(draw.rng.integers(1, 4))
    yield Case("some right, some wrong", _corpus(_alignment(draw, found_wrong=wrong, found_possible=only_possible)))
    yield Case(
        "all possible links are sure", _corpus(_alignment(draw, possible=0, found_possible=0, found_wrong=wrong))
    )
    yield Case("few sure links, many possible", _corpus(_alignment(draw, sure=2, possible=9, found_sure=1)))
    exact = _alignment(draw, found_sure=6, found_possible=0, found_wrong=0)
    yield Case("exactly the sure links", _corpus(exact))
    yield Case("nothing found", _corpus(exact | {"found": []}))
    yield Case("all wrong", _corpus(_alignment(draw, found_sure=0, found_possible=0, found_wrong=wrong)))


@alignment_error_rate.aspect("many sentences", points=1)
def _rate_corpus(draw):
    short = _alignment(draw, 3, 4, sure=2, possible=1, found_sure=1, found_possible=1, found_wrong=1)
    long = _alignment(
        draw, 12, 15, sure=9, possible=4, found_sure=8, found_possible=3, found_wrong=int(draw.rng.integers(1, 5))
    )
    middle = _alignment(draw)
    yield Case("a short sentence and long ones", _corpus(short, middle, long))
    silent = {"found": [], "sure": [], "possible": []}
    yield Case("one of them without links", _corpus(short, silent, long))
    yield Case("the same links in two sentences", _corpus(middle, middle | {"found": middle["found"][2:]}))
    yield Case("several calls", _corpus(middle, long), repeated=True)
    yield Case("no link anywhere", _corpus(silent, silent), refused=True)
    yield Case("one sentence too few", _corpus(short, long) | {"sure": [short["sure"]]}, refused=True)
    yield Case("a sure link that is not possible", _corpus(short | {"possible": short["sure"][1:]}), refused=True)


COUNT_RIGHT = "right += len(links & must_be) + len(links & may_be)"
COUNT_ALL = "total += len(links) + len(must_be)"
RATE = "return 1 - right / total"


def _rate(id, hint, *edits, source=""):
    alignment_error_rate.mistake(id, hint, source)(edited(reference.alignment_error_rate, *edits))


_rate(
    "rate-not-error",
    "This is the share that is right; the error rate is what is missing to one.",
    (RATE, "return right / total"),
)
_rate(
    "rate-sure-possible-swapped",
    "Sure and possible links have changed places below the line: whoever leaves out a link that is only possible pays for it.",
    (COUNT_ALL, "total += len(links) + len(may_be)"),
)
_rate(
    "rate-precision",
    "This is one minus the precision: it asks only whether found links are possible, so an aligner that says nothing makes "
    "no error.",
    (COUNT_RIGHT, "right += len(links & may_be)"),
    (COUNT_ALL, "total += len(links)"),
    (RATE, "return 1 - right / total if total else 0.0"),
)
_rate(
    "rate-recall",
    "This is one minus the recall: it asks only whether sure links are found, so an aligner that links everything makes no "
    "error.",
    (COUNT_RIGHT, "right += len(links & must_be)"),
    (COUNT_ALL, "total += len(must_be)"),
)
_rate(
    "rate-sure-only",
    "The possible links play no part: a found link that is only possible counts as wrong.",
    (COUNT_RIGHT, "right += 2 * len(links & must_be)"),
)
_rate(
    "rate-possible-only",
    "Above the line the possible links are counted twice. The found links that are sure make up the other half.",
    (COUNT_RIGHT, "right += 2 * len(links & may_be)"),
)
_rate(
    "rate-mean-of-sentences",
    "You average the rates of the sentences, so a short one weighs as much as a long one. Count all links together.",
    ("right, total = 0, 0", "rates = []"),
    (COUNT_RIGHT, "right = len(links & must_be) + len(links & may_be)"),
    (COUNT_ALL, "total = len(links) + len(must_be)\n        rates += [1 - right / total] if total else []"),
    (RATE, "return sum(rates) / len(rates)"),
)
_rate(
    "rate-mean-of-both",
    "You average precision and recall. The two are joined by adding what is above the lines and what is below them.",
    ("right, total = 0, 0", "precise, recalled, found_links, sure_links = 0, 0, 0, 0"),
    (COUNT_RIGHT, "precise, recalled = precise + len(links & may_be), recalled + len(links & must_be)"),
    (COUNT_ALL, "found_links, sure_links = found_links + len(links), sure_links + len(must_be)"),
    (RATE, "return 1 - (precise / max(found_links, 1) + recalled / max(sure_links, 1)) / 2"),
)
_rate(
    "rate-jaccard",
    "You divide shared links by all different ones (the Jaccard index). Each side counts for itself below the line.",
    (COUNT_RIGHT, "right += len(links & must_be)"),
    (COUNT_ALL, "total += len(links | must_be)"),
)
_rate(
    "rate-pooled-links",
    "The links of all sentences are thrown together before they are compared, so a link of one sentence is found in another.",
    (
        "    right, total = 0, 0\n",
        "    right, total = 0, 0\n    found, sure, possible = ([set().union(*sets)] for sets in (found, sure, possible))\n",
    ),
)
_rate(
    "rate-first-sentence",
    "Only the first sentence is counted: a `return` stands inside the loop.",
    (COUNT_ALL, COUNT_ALL + "\n        break"),
)
_rate(
    "rate-percent",
    "This is the rate in percent; a number from 0 to 1 is asked for.",
    (RATE, "return 100 * (1 - right / total)"),
)
