"""What right kernels of "Getting started" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check, edited
from autograder.reference import getting_started as reference

softmax = Check(
    reference.softmax,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Write the formula as it stands: the exponentials, then each divided by their sum along `axis`. "
        "`keepdims=True` lets the sum broadcast back.",
        "A common factor cancels: exp(x - m) over its own sum is the same for every m. Which m stops exp from overflowing?",
        "The largest of a row of minus infinities is minus infinity, and subtracting it from itself is NaN. Such a row "
        "needs another number to subtract, and then a sum of zero must not be divided by.",
    ),
    reproduces=("scipy.special.softmax", "torch.softmax", "torch.nn.functional.softmax"),
)


@softmax.aspect("weights along the last axis", points=2)
def _values(draw):
    rows, columns = draw.sizes(2, 3, 8)
    yield Case("a matrix, along its last axis", {"x": draw.normal(rows, columns), "axis": -1})
    yield Case("one row of scores", {"x": draw.normal(columns), "axis": 0})
    yield Case("a single score", {"x": draw.normal(1, 1), "axis": 1})
    yield Case("no axis named: the last one", {"x": draw.normal(columns, rows)})


@softmax.aspect("any axis of any array", points=1)
def _axes(draw):
    shape = draw.sizes(3, 2, 6)
    for axis in (0, 1, -2):
        yield Case(f"three axes, along axis {axis}", {"x": draw.normal(*shape), "axis": axis})
    yield Case("an array that is not contiguous", {"x": draw.normal(*shape), "axis": 0}, strided=True)
    yield Case("single precision", {"x": draw.normal(*shape), "axis": 1}, dtype="float32")
    yield Case("half precision", {"x": draw.normal(*shape), "axis": 1}, dtype="float16")
    yield Case("four axes", {"x": draw.normal(*shape, 2), "axis": 2})
    yield Case("several calls", {"x": draw.normal(*shape), "axis": 1}, repeated=True)
    yield Case("an axis that is not there", {"x": draw.normal(*shape), "axis": 3}, refused=True)
    yield Case("an axis that is not there, from the end", {"x": draw.normal(*shape), "axis": -4}, refused=True)


@softmax.aspect("scores as large as 10,000", points=1)
def _large(draw):
    rows, columns = draw.sizes(2, 3, 8)
    yield Case("large positive scores", {"x": 1e4 + draw.normal(rows, columns), "axis": -1})
    yield Case("large negative scores", {"x": -1e4 + draw.normal(rows, columns), "axis": -1})
    apart = draw.normal(rows, columns) + 1e4 * np.arange(rows)[:, None] - 2e4
    yield Case("rows that lie far apart", {"x": apart, "axis": -1})
    yield Case("scores of one row that lie far apart", {"x": apart.T.copy(), "axis": -1})
    low = np.where(draw.mask(rows, columns), draw.normal(rows, columns) - 2e4, -np.inf)
    yield Case("minus infinity among scores near -20,000", {"x": low, "axis": -1})


@softmax.aspect("scores of minus infinity", points=1)
def _minus_infinity(draw):
    rows, columns = draw.sizes(2, 3, 8)
    some = np.where(draw.mask(rows, columns), draw.normal(rows, columns), -np.inf)
    yield Case("some scores are minus infinity", {"x": some, "axis": -1})
    one_row = draw.normal(rows, columns)
    one_row[1] = -np.inf
    yield Case("all scores of one row are minus infinity", {"x": one_row, "axis": -1})
    yield Case("all scores of one column are minus infinity", {"x": one_row.T, "axis": 0}, dtype="float32")
    yield Case("nothing but minus infinity", {"x": np.full((rows, 1), -np.inf), "axis": -1})
    yield Case("one row of nothing but minus infinity", {"x": np.full(columns, -np.inf), "axis": 0})


LARGEST = """    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest).astype(x.dtype)
"""
NOTHING_SUBTRACTED = "    largest = np.zeros((), x.dtype)\n"
TOTAL = "total = exponentials.sum(axis=axis, keepdims=True)"
WEIGHTS = "return exponentials / np.where(total == 0.0, 1.0, total).astype(x.dtype)"


def _slip_in_both_forms(id, old, new, hint, source=""):
    """A slip in the kernel, and the same slip in the plain formula, where it gives other numbers."""
    softmax.slip(id, old, new, hint, source)
    softmax.mistake(f"{id}-plain", hint, source)(edited(reference.softmax, (LARGEST, NOTHING_SUBTRACTED), (old, new)))


softmax.slip(
    "softmax-overflow",
    LARGEST,
    NOTHING_SUBTRACTED,
    "Your exponentials overflow: exp(10000) is infinite, and infinity over infinity is NaN. Subtract each row's largest "
    "score before the exponential; the weights stay the same.",
    source="https://github.com/uTensor/uTensor/issues/175",
)
softmax.slip(
    "softmax-largest-of-all",
    "x.max(axis=axis, keepdims=True)",
    "x.max(keepdims=True)",
    "You subtract the largest score of the whole array. Rows far below it underflow to zero: take the largest along `axis`.",
)
softmax.slip(
    "softmax-smallest-subtracted",
    "x.max(axis=axis, keepdims=True)",
    "x.min(axis=axis, keepdims=True)",
    "You subtract the smallest score, not the largest, so large differences still overflow and minus infinity gives NaN.",
)
softmax.slip(
    "softmax-added",
    "np.exp(x - largest)",
    "np.exp(x + largest)",
    "You add the largest score instead of subtracting it, so that large scores overflow all the more.",
)
softmax.slip(
    "softmax-all-masked-nan",
    "    largest = np.where(np.isneginf(largest), 0.0, largest).astype(x.dtype)\n",
    "",
    "A row whose scores are all minus infinity comes out as NaN: minus infinity minus minus infinity is NaN. Its weights "
    "should be zeros.",
)
softmax.slip(
    "softmax-zero-over-zero",
    WEIGHTS,
    "return exponentials / total",
    "A row whose scores are all minus infinity comes out as NaN: its exponentials sum to zero, and zero over zero is NaN. "
    "Its weights should be zeros.",
)
softmax.slip(
    "softmax-all-masked-uniform",
    "    exponentials = np.exp(x - largest)\n",
    "    exponentials = np.where(np.isneginf(x).all(axis=axis, keepdims=True), np.ones((), x.dtype), np.exp(x - largest))\n",
    "A row whose scores are all minus infinity gets equal weights; nothing may be chosen there, so its weights should be "
    "zeros.",
)
softmax.mistake(
    "softmax-infinity-replaced",
    "You replace minus infinity by a large negative number. Where the other scores are lower still, that number wins. "
    "The exponential of minus infinity is zero on its own.",
)(
    edited(
        reference.softmax,
        (
            "    largest = x.max(",
            "    empty = np.isneginf(x).all(axis=axis, keepdims=True)\n"
            "    x = np.where(np.isneginf(x), np.asarray(-1e4, x.dtype), x)\n    largest = x.max(",
        ),
        (WEIGHTS, "return np.where(empty, np.zeros((), x.dtype), exponentials / total)"),
    )
)
softmax.slip(
    "softmax-axis-not-optional",
    "axis: int = -1",
    "axis: int",
    "The axis has a default, the last one; leave the signature as it was given.",
)
_slip_in_both_forms(
    "softmax-total-of-all",
    TOTAL,
    "total = exponentials.sum(keepdims=True)",
    "You divide by the sum over the whole array, so all entries together sum to one. The weights should sum to one along "
    "`axis`.",
)
_slip_in_both_forms(
    "softmax-axis-ignored",
    TOTAL,
    "total = exponentials.sum(-1, keepdims=True)",
    "Your weights sum to one along the last axis, whatever `axis` says.",
)
_slip_in_both_forms(
    "softmax-wrong-axis",
    TOTAL,
    "total = exponentials.sum(axis=0, keepdims=True)",
    "Your weights sum to one along the first axis, whatever `axis` says.",
    source="https://github.com/PetrochukM/PyTorch-NLP/issues/2",
)
_slip_in_both_forms(
    "softmax-not-normalised",
    WEIGHTS,
    "return exponentials",
    "You return the exponentials themselves; divide them by their sum along `axis`, so that the weights sum to one.",
)
softmax.slip(
    "softmax-log",
    WEIGHTS,
    "return x - largest - np.log(total)",
    "You return the logarithm of the weights (log-softmax); the weights themselves are asked for.",
)
softmax.slip(
    "softmax-base-2",
    "np.exp(x - largest)",
    "np.exp2(x - largest)",
    "You raise 2, not e, to the power of the scores.",
)
softmax.slip(
    "softmax-norm-of-scores",
    TOTAL,
    "total = np.sqrt((exponentials**2).sum(axis=axis, keepdims=True))",
    "You divide by the length of the row (the root of the sum of squares); divide by the sum.",
)
softmax.slip(
    "softmax-in-place",
    "    exponentials = np.exp(x - largest)\n",
    "    x -= largest\n    exponentials = np.exp(x, out=x)\n",
    "You write into `x`, so the caller's scores are lost. Let each step make a new array.",
)
softmax.slip(
    "softmax-float64-result",
    WEIGHTS,
    "return np.asarray(exponentials / np.where(total == 0.0, 1.0, total), dtype=np.float64)",
    "Scores in single precision come back in double precision; keep the dtype of `x`.",
)


@softmax.mistake(
    "softmax-plain-formula",
    "This is the plain formula, and its exponentials overflow: exp(10000) is infinite, and infinity over infinity is NaN. "
    "Subtract each row's largest score first; the weights stay the same. Then look at a row of minus infinities.",
    source="https://github.com/uTensor/uTensor/issues/175",
)
def _plain_formula(x, axis=-1):
    exponentials = np.exp(x)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@softmax.mistake(
    "softmax-no-exponential",
    "You divide the scores themselves by their sum. Scores may be negative: the exponential, which is always positive, "
    "comes first.",
)
def _no_exponential(x, axis=-1):
    return x / x.sum(axis=axis, keepdims=True)


@softmax.mistake(
    "softmax-missing-keepdims",
    "The largest score or the sum lost its axis, so NumPy lines them up with the wrong axis, or cannot: "
    "`keepdims=True` keeps it.",
)
def _missing_keepdims(x, axis=-1):
    exponentials = np.exp(x - x.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis)


@softmax.mistake(
    "softmax-epsilon-in-sum",
    "You add a small number to the sum, so the weights sum to less than one. Treat the rows whose sum is zero apart.",
)
def _epsilon(x, axis=-1):
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest).astype(x.dtype)
    exponentials = np.exp(x - largest)
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + np.asarray(1e-6, x.dtype))
