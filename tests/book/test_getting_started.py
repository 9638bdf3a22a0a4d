"""What the page "Getting started" says in words, where no cell of it computes the number."""

import numpy as np
import pytest

from autograder.judging import evaluate
from autograder.reference.getting_started import softmax


def naive_softmax(x):
    with np.errstate(all="ignore"):
        exponentials = np.exp(x)
        return exponentials / exponentials.sum()


@pytest.mark.parametrize(("dtype", "fits", "fails"), [("float64", 709, 710), ("float32", 88, 89), ("float16", 11, 12)])
def test_a_score_overflows_past_the_logarithm_of_the_largest_number(dtype, fits, fails):
    assert np.floor(np.log(float(np.finfo(dtype).max))) == fits
    assert np.isfinite(naive_softmax(np.array([fits, fits - 1], dtype))).all()
    assert np.isnan(naive_softmax(np.array([fails, fails], dtype))).all()


def test_just_below_the_limit_only_the_sum_overflows():
    scores = np.array([88.5, 88.5], "float32")
    assert np.isfinite(np.exp(scores)).all()
    assert (naive_softmax(scores) == 0).all()


def test_very_negative_scores_go_wrong_before_they_give_nan():
    scores = np.array([-103.5, -102.0], "float32")
    error = np.abs(naive_softmax(scores) - softmax(scores.astype("float64"))).max()
    assert np.isfinite(error)
    assert error > 1e4 * np.finfo("float32").eps


@pytest.mark.parametrize("far", [1e2, 1e4, 1e6])
def test_a_row_that_goes_to_minus_infinity_keeps_its_weights(far):
    for difference in (0.0, 1.0, 5.0):
        expected = softmax(np.array([0.0, difference]))
        np.testing.assert_allclose(softmax(np.array([-far, difference - far])), expected, atol=1e-9)


def test_cold_is_a_hard_choice_and_hot_is_none():
    scores = np.array([1.0, 2.0, 3.0, 3.5])
    np.testing.assert_allclose(softmax(scores / 1e-3), [0, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(softmax(scores / 1e6), np.full(4, 1 / 4), atol=1e-6)


def test_softmax_twice_never_chooses_hard():
    rows = np.random.default_rng(0).normal(0, 100, (1000, 2))
    assert softmax(softmax(rows)).max() <= np.e / (1 + np.e)


def test_the_first_try_is_named_and_the_second_earns_part_of_the_points():
    def first_try(x, axis=-1):
        exponentials = np.exp(x)
        return exponentials / exponentials.sum()

    def second_try(x, axis=-1):
        exponentials = np.exp(x)
        return exponentials / exponentials.sum(axis=axis, keepdims=True)

    first, second = evaluate("softmax", first_try), evaluate("softmax", second_try)
    assert (first.score, first.mistakes) == (0, ("softmax-total-of-all-plain",))
    assert 0 < second.score < second.points
    assert second.mistakes == ("softmax-plain-formula",)


def test_a_function_that_returns_zeros_earns_nothing():
    assert evaluate("softmax", lambda x, axis=-1: np.zeros_like(x)).score == 0
