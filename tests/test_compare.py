"""What the comparison finds, and in which words."""

import numpy as np
import pytest

from autograder.compare import first_mismatch, same

RIGHT = {"out": np.array([[1.0, 2.0], [3.0, 4.0]])}


def mismatch(given, name="out", right=None):
    target = RIGHT["out"] if right is None else right
    return first_mismatch({name: target}, {} if given is None else {name: np.asarray(given)})


def test_equal_arrays_agree():
    assert mismatch([[1.0, 2.0], [3.0, 4.0]]) is None
    assert same(RIGHT, {"out": RIGHT["out"] + 1e-12})


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (None, "absent", "`out` is missing"),
        ([1.0, 2.0, 3.0], "shape", "should have shape (2, 2); yours has shape (3,)"),
        (np.ones((2, 2), np.float32), "dtype", "should have dtype float64; yours has dtype float32"),
        (
            [[1.0, 2.5], [3.0, 5.0]],
            "values",
            "2 of 4 entries are wrong, first at index [0, 1]; the largest error is 1",
        ),
        ([[1.0, 2.0], [np.nan, 4.0]], "not finite", "is NaN in 1 of 4 entries, first at index [1, 0]"),
        ([[1.0, np.inf], [3.0, 4.0]], "not finite", "is infinite in 1 of 4 entries, first at index [0, 1]"),
    ],
)
def test_mismatch_names_its_kind(given, kind, words):
    found = mismatch(given)
    assert found.kind == kind
    assert words in found.text


def test_no_text_gives_an_expected_number():
    right = np.array([0.123456789, 0.987654321])
    for wrong in ([0.5, 0.987654321], [np.nan, 0.987654321], [0.123456789, np.inf]):
        text = mismatch(wrong, right=right).text
        assert "0.12" not in text
        assert "0.98" not in text


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        (
            np.ones((123456, 0)),
            "out",
            "`out` has the right number of axes, 2, but not the right sizes, first along axis 0.",
        ),
        (np.ones(123456), "out", "`out` should have 2 axes; yours has 1."),
        ([[1.0, 2.0], [3.0, 123456.0]], "out", "`out` has the right shape, but is wrong in some entries."),
        ([[5.0, 5.0], [5.0, 5.0]], "out", "`out` has the right shape, but is wrong in all entries."),
        ([[1.0, np.nan], [3.0, 4.0]], "out", "`out` is NaN in some entries; it should be finite."),
        ([[1.0, 2.0], [3.0, 0.0]], "x_after", "The kernel changed its argument `x`. Work on a new array instead."),
        (np.full((2, 2), 123456), "out", "`out` should have dtype float64; yours has dtype int64."),
    ],
)
def test_of_a_hidden_case_no_number_is_said_that_the_kernel_chose(given, name, words):
    assert mismatch(given, name).discreet == words


def test_a_changed_argument_is_said_to_be_changed():
    found = mismatch([[1.0, 2.0], [3.0, 0.0]], name="query_after")
    assert found.kind == "changed"
    assert "changed its argument `query`, first at index [1, 1]" in found.text


def test_a_missing_gradient_is_said_to_be_cut_off():
    found = mismatch(None, name="grad_key")
    assert found.kind == "gradient"
    assert "No gradient reaches `key`" in found.text


def test_nan_matches_nan_only():
    right = np.array([np.nan, 1.0])
    assert mismatch([np.nan, 1.0], right=right) is None
    assert mismatch([0.0, 1.0], right=right).kind == "values"


def test_a_wrong_infinity_is_found():
    assert mismatch([np.inf], right=np.array([-np.inf])).kind == "values"
    assert mismatch([-np.inf], right=np.array([-np.inf])) is None


def test_the_order_of_the_probe_decides_which_comes_first():
    right = {"first": np.zeros(2), "second": np.zeros(2)}
    assert first_mismatch(right, {"second": np.ones(2), "first": np.ones(2)}).array == "first"


@pytest.mark.parametrize(("dtype", "gap"), [("float64", 1e-6), ("float32", 1e-2), ("float16", 0.1)])
def test_tolerance_is_that_of_the_precision(dtype, gap):
    right = np.linspace(1, 2, 5).astype(dtype)
    assert mismatch(right + np.finfo(dtype).eps, right=right) is None
    assert mismatch((right + gap).astype(dtype), right=right).kind == "values"


def test_integers_and_booleans_must_be_equal():
    assert mismatch([1, 2, 4], right=np.array([1, 2, 3])).index == (2,)
    assert mismatch([True, True], right=np.array([True, False])).index == (1,)


@pytest.mark.parametrize("right", [np.array(1.0), np.array([[1.0]])])
def test_a_single_number_has_no_index_and_is_not_counted(right):
    found = mismatch(np.full_like(right, 1.5), right=right)
    assert found.text == "`out` is one number, as it should be, but not the right one; the error is 0.5."
    assert mismatch(np.full_like(right, np.nan), right=right).text == "`out` is NaN; it should be finite."


def test_counted_work_may_differ_by_a_small_factor():
    assert mismatch(250, name="work_largest", right=np.array(100)) is None
    found = mismatch(10_000, name="work_largest", right=np.array(100))
    assert found.kind == "work"
    assert "10,000 entries" in found.text
    found = mismatch(10_000, name="work_multiply_adds", right=np.array(100))
    assert found.text == "Your kernel does 10,000 multiply-adds, over 3 times what it needs."
    assert found.discreet == "Your kernel does too many multiply-adds, over 3 times what it needs."
    assert same({"work_largest": np.array(1)}, {"work_largest": np.array(1000)})
