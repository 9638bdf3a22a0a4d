"""Tolerances lie well above the spread of right kernels and well below the error of wrong ones."""

import numpy as np
import pytest

from autograder import catalog
from autograder.compare import first_mismatch, tolerance
from autograder.judging import exam
from tests.sharpness import right_variants

pytestmark = pytest.mark.slow

# The tolerance over the spread of right kernels, and the error of wrong ones over the tolerance. Half precision has few
# digits to share between the two.
MARGINS = {"float64": 10, "float32": 10, "float16": 4}
MISTAKE_MARGIN = 10
SEEDS = (None, 0, 1, 2)


def excess(target, given):
    """The largest error in units of the tolerance; infinite where an entry is finite on one side alone."""
    relative, absolute = tolerance(target.dtype)
    finite = np.isfinite(target)
    if (finite != np.isfinite(given)).any():
        return np.inf
    target, given = target[finite].astype(np.float64), given[finite].astype(np.float64)
    return (np.abs(given - target) / (absolute + relative * np.abs(target))).max(initial=0.0)


def runs(name, kernel):
    """Arrays of the reference and of a kernel on each case where both gave some."""
    for seed in SEEDS:
        drawn = exam(name, seed)
        for number in range(len(drawn.drawn)):
            outcome = drawn.outcome(kernel, number)
            if outcome.fault is None:
                yield drawn.target(number), outcome.arrays


@pytest.mark.parametrize("name", catalog.kernels())
def test_right_variants_stay_well_within_the_tolerance(name):
    for variant in right_variants()[name]:
        for expected, given in runs(name, variant):
            for array, target in expected.items():
                if target.dtype.kind == "f":
                    spread = excess(target, given[array])
                    assert spread < 1 / MARGINS[target.dtype.name], f"{variant.__name__}: {array} {target.dtype}"


@pytest.mark.parametrize("name", catalog.kernels())
def test_mistakes_in_values_exceed_the_tolerance_tenfold(name):
    for mistake in catalog.check_of(name).mistakes:
        errors = [
            excess(expected[found.array], given[found.array])
            for expected, given in runs(name, mistake.kernel)
            if (found := first_mismatch(expected, given))
            and found.kind == "values"
            and expected[found.array].dtype.kind == "f"  # whole numbers have no tolerance
        ]
        assert not errors or max(errors) > MISTAKE_MARGIN, (
            f"{mistake.id}: at most {max(errors):.2g} times the tolerance"
        )
