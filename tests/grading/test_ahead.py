"""Grading ahead: the results are those of the submissions as they are when they are asked for."""

from concurrent.futures import BrokenExecutor, Future
from pathlib import Path

import pytest

from autograder.grading import ahead
from autograder.grading.ahead import Ahead
from autograder.grading.placing import Found
from autograder.grading.session import Limits

CONTEXT = 1, Limits(), "none"


class Pool:
    """An executor that does the work at once; ``lost`` at a submission, or at its result."""

    def __init__(self, lost=""):
        self.lost, self.graded, self.ended = lost, [], False

    def shutdown(self, wait):
        self.ended = True

    def submit(self, function, found, *context):
        assert context == CONTEXT
        if self.lost == "submission" or self.ended:
            raise BrokenExecutor("gone")
        self.graded.append(found.student)
        future = Future()
        if self.lost == "result":
            future.set_exception(BrokenExecutor("gone"))
        else:
            future.set_result(function(found, *context))
        return future


@pytest.fixture(autouse=True)
def grading(monkeypatch):
    """In place of a mark, the bytes that were graded."""
    monkeypatch.setattr(ahead, "grade_found", lambda found, *context: found.data)


def found(number, data=b"as handed in"):
    return Found(f"student{number}", "stem", Path("stem.ipynb"), data)


def test_results_come_in_any_order_and_a_few_are_graded_ahead():
    pool = Pool()
    class_ = Ahead(pool, map(found, range(100)), 4, *CONTEXT)
    assert pool.graded == []
    class_.begin()
    assert len(pool.graded) == 4
    assert [class_.result(found(number)) for number in (0, 1)] == [b"as handed in"] * 2
    assert len(pool.graded) == 6
    assert class_.result(found(50)) == b"as handed in"
    assert pool.graded[-1] == "student50"


def test_what_nobody_asks_for_takes_no_place():
    pool = Pool()
    class_ = Ahead(pool, map(found, range(100)), 4, *CONTEXT)
    class_.begin()
    assert class_.result(found(3)) == b"as handed in"
    assert pool.graded == [f"student{number}" for number in range(8)]


def test_a_submission_that_has_changed_since_is_graded_again():
    pool = Pool()
    class_ = Ahead(pool, map(found, range(3)), 4, *CONTEXT)
    class_.begin()
    assert class_.result(found(1, b"another version")) == b"another version"
    assert pool.graded.count("student1") == 2


def test_the_pool_ends_with_the_last_submission_and_others_are_graded_without_it():
    pool = Pool()
    class_ = Ahead(pool, map(found, range(2)), 4, *CONTEXT)
    class_.begin()
    class_.result(found(0))
    assert not pool.ended
    class_.result(found(1))
    assert pool.ended
    assert class_.result(found(2)) == b"as handed in"


@pytest.mark.parametrize("lost", ["submission", "result"])
def test_a_lost_pool_loses_nothing(lost):
    class_ = Ahead(Pool(lost), map(found, range(3)), 4, *CONTEXT)
    class_.begin()
    assert [class_.result(found(number)) for number in range(3)] == [b"as handed in"] * 3


def test_an_error_of_one_submission_is_its_own(monkeypatch):
    def grade(found, *context):
        if found.student == "student1":
            raise ValueError("what went wrong")
        return found.data

    class Failing(Pool):
        def submit(self, function, *arguments):
            future = Future()
            try:
                future.set_result(grade(*arguments))
            except ValueError as error:
                future.set_exception(error)
            return future

    class_ = Ahead(Failing(), map(found, range(3)), 4, *CONTEXT)
    class_.begin()
    assert class_.result(found(0)) == b"as handed in"
    with pytest.raises(ValueError, match="what went wrong"):
        class_.result(found(1))
    assert class_.result(found(2)) == b"as handed in"
