"""The reference kernels of "Getting started" against PyTorch and the plain formula."""

import math

import numpy as np
import pytest
import torch

from autograder.reference.getting_started import softmax


def by_definition(row):
    """exp(x_i) / sum_j exp(x_j), with exact rational arithmetic left to `math.fsum`."""
    powers = [math.exp(x) for x in row]
    return [power / math.fsum(powers) for power in powers]


def test_equals_the_definition():
    rows = np.random.default_rng(0).normal(0, 5, (7, 11))
    np.testing.assert_allclose(softmax(rows, -1), [by_definition(row) for row in rows], rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_equals_pytorch(dtype, axis, scale):
    x = np.random.default_rng(1).normal(0, scale, (2, 3, 5)).astype(dtype)
    weights = softmax(x, axis)
    assert weights.dtype == x.dtype
    tolerance = 1e-14 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(weights, torch.softmax(torch.from_numpy(x), axis), rtol=tolerance, atol=tolerance)


def test_minus_infinity_gets_no_weight():
    np.testing.assert_array_equal(softmax(np.array([0.0, -np.inf, 0.0])), [0.5, 0.0, 0.5])


def test_a_row_of_minus_infinity_gives_zeros_where_pytorch_gives_nan():
    rows = np.array([[-np.inf, -np.inf], [1.0, 1.0]])
    np.testing.assert_array_equal(softmax(rows), [[0.0, 0.0], [0.5, 0.5]])
    assert torch.softmax(torch.from_numpy(rows), -1)[0].isnan().all()


def test_an_axis_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"x has 2 axes; there is no axis 2. Give an axis from -2 to 1."):
        softmax(np.ones((2, 2)), 2)


def test_no_warning_is_given(recwarn):
    softmax(np.array([[1e4, -np.inf], [-np.inf, -np.inf]]))
    assert not recwarn.list
