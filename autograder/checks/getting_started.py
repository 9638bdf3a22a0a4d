"""What right kernels of "Getting started" are."""

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import getting_started as reference

softmax = Check(
    reference.softmax,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Write the formula first: exponentials, divided by their sum along `axis`. `keepdims=True` keeps the sum's axis.",
        "A common constant cancels: exp(x - m) over its sum is the same for every m. Which m keeps exp from overflowing?",
        "A row of minus infinity has the largest score minus infinity, and minus infinity minus itself is NaN. Put 0 there.",
    ),
    reproduces=("scipy.special.softmax", "torch.softmax", "torch.nn.functional.softmax"),
)


@softmax.aspect("weights along the last axis", points=1)
def _values(draw):
    rows, columns = draw.sizes(2, 3, 8)
    yield Case("a matrix, last axis", {"x": draw.normal(rows, columns), "axis": -1})
    yield Case("a single row of scores", {"x": draw.normal(columns), "axis": 0})


softmax.slip(
    "softmax-overflow",
    "largest = x.max(axis=axis, keepdims=True)",
    "largest = np.zeros_like(x)",
    "Your exponentials overflow: `np.exp(1e4)` is infinite, and infinity over infinity is NaN. "
    "Subtract the largest score of each row first; the result stays the same.",
)
