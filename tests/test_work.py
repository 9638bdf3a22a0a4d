"""Counted work against the counts of the formulas."""

import pytest
import torch
from torch.nn import functional

from autograder.work import Work, count_work

A, B, C = torch.ones(2, 3, 5), torch.ones(2, 5, 7), torch.ones(2, 7, 5)
VECTOR = torch.ones(5)
SIGNAL, FILTER = torch.ones(1, 2, 9), torch.ones(4, 2, 3)


@pytest.mark.parametrize(
    ("computation", "multiply_adds", "largest"),
    [
        (lambda: A[0] @ B[0], 3 * 5 * 7, 3 * 7),
        (lambda: A @ B, 2 * 3 * 5 * 7, 2 * 3 * 7),
        (lambda: A[0] @ VECTOR, 3 * 5, 3),
        (lambda: VECTOR @ VECTOR, 5, 1),
        (lambda: torch.einsum("bqd,bkd->bqk", A, C), 2 * 3 * 7 * 5, 2 * 3 * 7),
        (lambda: A * 2.0, 2 * 3 * 5, 2 * 3 * 5),
        (lambda: A.sum(), 2 * 3 * 5, 1),
        (lambda: functional.conv1d(SIGNAL, FILTER), 4 * 7 * 2 * 3, 4 * 7),
        (lambda: None, 0, 0),
    ],
)
def test_multiply_adds_and_largest(computation, multiply_adds, largest):
    work = count_work(computation)
    assert (work.multiply_adds, work.largest) == (multiply_adds, largest)


def test_entries_are_those_read_and_written():
    assert count_work(lambda: A * A).entries == 3 * A.numel()


def test_a_view_makes_no_tensor_and_does_no_work():
    matrix = torch.ones(6, 4)
    assert count_work(lambda: matrix.T.reshape(2, 2, 6).transpose(0, 1)) == Work()


def test_a_broadcast_product_is_counted_where_it_is_made():
    one, other = torch.ones(6, 1, 4), torch.ones(1, 5, 4)
    assert count_work(lambda: one * other).largest == 6 * 5 * 4
