"""Work that waits takes no memory, and a pool that breaks fails what it held, not the run."""

import io
import threading
import tracemalloc
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from autograder import notebooks
from autograder.grading import batch
from autograder.grading.batch import Task, _batches, _Flow, _submit
from autograder.grading.placing import Found
from autograder.grading.records import Filed, Results
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult
from autograder.grading.session import Limits
from autograder.grading.summary import print_marks


def tasks(number):
    return (Task(Found(f"student{n:03}", "getting_started", Path("x"), b"data"), "key") for n in range(number))


def test_no_more_than_the_window_is_held_at_once(monkeypatch):
    monkeypatch.setattr(batch, "WINDOW", 8)
    taken, held, done, failures = 0, [], [], []

    def counted():
        nonlocal taken
        for task in tasks(100):
            taken += 1
            yield task

    def submit(task):
        future = Future()
        future.set_result(task.found.student)
        return future

    for few in _batches(_Flow(submit, counted()), failures):
        done += [result for _, result in few]
        held.append(taken - len(done))
    assert set(done) == {f"student{n:03}" for n in range(100)}
    assert max(held) <= 8 + batch.BATCH
    assert failures == []


def test_what_waits_holds_no_bytes():
    (task,) = tasks(1)
    assert task.without_data().found.data is None
    assert task.found.data == b"data"


def test_a_pool_that_breaks_fails_what_is_left_and_not_the_run():
    class Broken:
        def __init__(self):
            self.left = 3

        def submit(self, *arguments):
            if not self.left:
                raise BrokenProcessPool("a process was ended")
            self.left -= 1
            future = Future()
            threading.Timer(0.01, future.set_result, [arguments[1].student]).start()
            return future

    executor, failures = Broken(), []
    flow = _Flow(lambda task: _submit(executor, task, 1, Limits(), "none"), tasks(10))
    done = [result for few in _batches(flow, failures) for _, result in few]
    assert sorted(done) == ["student000", "student001", "student002"]
    assert len(failures) == 7
    assert failures[0].endswith("BrokenProcessPool: a process was ended")


def test_what_never_ends_fails_where_the_executor_is_lost(monkeypatch):
    monkeypatch.setattr(batch, "PATIENCE", 0.01)
    monkeypatch.setattr(batch, "WINDOW", 4)
    failures, submitted = [], []

    def submit(task):
        future = Future()
        submitted.append(future)
        if len(submitted) <= 3:
            future.set_result(task.found.student)
        return future

    done = [
        result for few in _batches(_Flow(submit, tasks(10), lambda: len(submitted) > 5), failures) for _, result in few
    ]
    assert sorted(done) == ["student000", "student001", "student002"]
    assert len(failures) == 7
    assert failures[0].endswith("ConnectionError: the connection to the scheduler is lost")


@pytest.mark.slow
def test_bytes_of_a_large_class_do_not_gather_in_the_parent(tmp_path, monkeypatch):
    """Notebooks with large outputs, far more together than the parent may hold."""
    size = 4_000_000
    released = notebooks.released_path("getting_started").read_bytes()
    for number in range(12):
        path = tmp_path / "submitted" / f"student{number}" / "getting_started" / "getting_started.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(released + b" " * size)
    monkeypatch.setattr(batch, "WINDOW", 2)
    monkeypatch.setattr(batch, "BATCH", 2)
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    import_module("autograder.grading.gradebook")  # nbgrader's own code is not what is measured
    tracemalloc.start()
    try:
        outcome = batch.grade_directory(tmp_path / "submitted", ["getting_started"], url, tmp_path, workers=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(outcome.results) == 12
    assert most < 12 * size


def test_the_results_of_a_class_are_read_one_at_a_time(tmp_path):
    results = Results(tmp_path)
    mark = KernelMark(
        "softmax", True, 5, 5, "softmax: right.", (AspectMark("values", True, 5, 5),), source="x" * 100_000
    )
    places = [(f"student{number:02}", "getting_started") for number in range(50)]
    for student, _ in places:
        results.write(student, "key", SubmissionResult("getting_started", (mark,)))
    filed, console = Filed(results, places), Console(file=io.StringIO(), width=100)
    print_marks(Console(file=io.StringIO()), [filed[0]])  # what is made once is not what is measured
    tracemalloc.start()
    try:
        print_marks(console, filed)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * len(mark.source)
    assert console.file.getvalue().count("student") == 51
    assert dict(filed) == {student: SubmissionResult("getting_started", (mark,)) for student, _ in places}
