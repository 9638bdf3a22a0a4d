"""Comparing what a kernel gave with what was asked, one named array at a time."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autograder.probing import REFUSED

# Relative and absolute tolerance by the precision that the kernel computed in. tests/test_tolerances.py measures the
# spread of the right variants and the smallest error of the known mistakes, and holds these well between the two.
TOLERANCES = {"float64": (1e-8, 1e-9), "float32": (1e-4, 1e-5), "float16": (2e-2, 5e-3)}


# Counted work may differ between right kernels; more than this many times the reference's is too much.
WORK, WORK_FACTOR = "work_", 3

ACCEPTED = (
    "Your kernel takes these arguments and returns a result. Its docstring says, under Raises, that it should raise an "
    "error: keep the input checks that the cell came with."
)


@dataclass(frozen=True)
class Mismatch:
    """How one array differs.

    Parameters
    ----------
    array
        Its name.
    kind
        "absent", "shape", "dtype", "not finite", "values", "changed", "gradient", "work" or "accepted".
    text
        A sentence without any expected number.
    index
        Where the values first differ.
    discreet
        The sentence for a hidden case: without numbers that the kernel could choose, and so carry its inputs out by.
    """

    array: str
    kind: str
    text: str
    index: tuple[int, ...] | None = None
    discreet: str = ""

    def __post_init__(self):
        object.__setattr__(self, "discreet", self.discreet or self.text)


@functools.cache  # to ask for a dtype's name takes as long as to compare a small array
def tolerance(dtype: np.dtype) -> tuple[float, float]:
    """Relative and absolute tolerance for values computed in ``dtype``; integers and booleans must be equal."""
    return TOLERANCES.get(np.dtype(dtype).name, (0.0, 0.0))


def close(expected: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Where two arrays of one shape agree: within tolerance, or both NaN, or the same infinity."""
    if expected.dtype.kind in "fc" and given.dtype.kind in "fc":
        relative, absolute = tolerance(expected.dtype)
        one, other = given.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            # What np.isclose does, which takes ten times as long on arrays as small as these.
            near = (np.abs(one - other) <= absolute + relative * np.abs(other)) & np.isfinite(other)
        return near | (one == other) | (np.isnan(one) & np.isnan(other))
    return given == expected


def same(expected: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> bool:
    """Whether two runs gave the same arrays, by name, shape, dtype and value; how much work they did is left aside."""
    expected, given = (
        {name: array for name, array in arrays.items() if not name.startswith(WORK)} for arrays in (expected, given)
    )
    return expected.keys() == given.keys() and all(
        expected[name].shape == given[name].shape
        and expected[name].dtype == given[name].dtype
        and bool(close(expected[name], given[name]).all())
        for name in expected
    )


def first_mismatch(expected: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> Mismatch | None:
    """The first array that differs, in the order in which the probe names them; None when all agree."""
    for name, target in expected.items():
        mismatch = _mismatch(name, target, given.get(name))
        if mismatch:
            return mismatch
    return None


def _mismatch(name: str, target: np.ndarray, given: np.ndarray | None) -> Mismatch | None:
    gradient_of = name.removeprefix("grad_") if name.startswith("grad_") else None
    label = f"The gradient for `{gradient_of}`" if gradient_of else f"`{name}`"
    if given is None:
        if gradient_of:
            text = f"No gradient reaches `{gradient_of}`. (`.detach()`, `.data`, `.item()` and NumPy cut it off.)"
            return Mismatch(name, "gradient", text)
        return Mismatch(name, "absent", f"{label} is missing from what the kernel returned.")
    if given.shape != target.shape:
        text = f"{label} should have shape {target.shape}; yours has shape {given.shape}."
        return Mismatch(name, "shape", text, discreet=f"{label} {_other_shape(target.shape, given.shape)}")
    if name.startswith(WORK):
        if given <= WORK_FACTOR * target:
            return None
        text, discreet = (f"{said}, over {WORK_FACTOR} times what it needs." for said in _work_said(name, given))
        return Mismatch(name, "work", text, discreet=discreet)
    if given.dtype != target.dtype:
        return Mismatch(name, "dtype", f"{label} should have dtype {target.dtype}; yours has dtype {given.dtype}.")
    if name == REFUSED:
        return None if given else Mismatch(name, "accepted", ACCEPTED)
    wrong = ~close(target, given)
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    if name.endswith("_after"):
        argument = name.removesuffix("_after")
        said = [f"The kernel changed its argument `{argument}`{where}." for where in (_first(index), "")]
        text, discreet = (f"{what} Work on a new array instead." for what in said)
        return Mismatch(name, "changed", text, index, discreet)
    stray = wrong & ~np.isfinite(given) & np.isfinite(target)
    if stray.any():
        index = tuple(int(i) for i in np.argwhere(stray)[0])
        what = "NaN" if np.isnan(given[index]) else "infinite"
        where = f" in {stray.sum()} of {stray.size} entries{_first(index)}" if stray.size > 1 else ""
        text, discreet = (f"{label} is {what}{where}; it should be finite." for where in (where, _share(stray)))
        return Mismatch(name, "not finite", text, index, discreet)
    if wrong.size > 1:
        discreet = f"{label} has the right shape, but is wrong{_share(wrong)}."
        text = f"{label} has the right shape {target.shape}, but {wrong.sum()} of {wrong.size} entries are wrong"
        text += _first(index)
    else:
        text = f"{label} is one number, as it should be, but not the right one"
        discreet = f"{text}."
    if target.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(given.astype(np.float64) - target.astype(np.float64))[wrong]
        error = "the largest error" if wrong.size > 1 else "the error"
        text += f"; {error} is {np.nanmax(gap):.2g}" if np.isfinite(gap).any() else ""
    return Mismatch(name, "values", text + ".", index, discreet)


def _work_said(name: str, given: np.ndarray) -> tuple[str, str]:
    """How much work was counted, with the number and without it."""
    if name == "work_largest":
        return (
            f"The largest tensor your kernel makes has {int(given):,} entries",
            "The largest tensor your kernel makes has too many entries",
        )
    return f"Your kernel does {int(given):,} multiply-adds", "Your kernel does too many multiply-adds"


def _other_shape(wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    """How a shape differs, in words that tell no size."""
    if len(wanted) != len(given):
        return f"should have {len(wanted)} axes; yours has {len(given)}."
    axis = next(axis for axis, sizes in enumerate(zip(wanted, given, strict=True)) if sizes[0] != sizes[1])
    return f"has the right number of axes, {len(wanted)}, but not the right sizes, first along axis {axis}."


def _share(wrong: np.ndarray) -> str:
    """How many of the entries are wrong, in words; "" where there is but one."""
    return "" if wrong.size == 1 else " in all entries" if wrong.all() else " in some entries"


def _first(index: tuple[int, ...]) -> str:
    return f", first at index {list(index)}" if index else ""
