"""Grading everything that lies in a directory, with results recorded as they come."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType

from autograder import notebooks
from autograder.grading.autograded import autograded_notebook
from autograder.grading.grade import grade_found, prepare_process
from autograder.grading.placing import Found, find_of_student, find_submissions
from autograder.grading.recorded import recorded
from autograder.grading.records import Filed, Results, course_digest, key_of, seed_of
from autograder.grading.results import SubmissionResult
from autograder.grading.sandbox import best
from autograder.grading.session import Limits
from autograder.grading.submission import NotReadable

WINDOW = 128  # submissions that are handed to the executor at once
BATCH = 20  # results that are written to the gradebook in one transaction
BATCH_SECONDS = 2.0  # or as many as come within this time
PATIENCE = 2.0  # seconds without a result after which it is asked whether the executor is still there


class NoCluster(Exception):
    """A cluster that cannot grade; the message says why."""


@dataclass(frozen=True)
class Task:
    """One submission to grade, and the key that its result is filed under."""

    found: Found
    key: str

    def without_data(self) -> "Task":
        """The same without the bytes, which would fill the memory where thousands wait."""
        return Task(dataclasses.replace(self.found, data=None), self.key)


Batch = list[tuple[Task, SubmissionResult]]


@dataclass
class Outcome:
    """What a run of the grader did: everybody's results, and what could not be graded through a fault of the grader."""

    results: Filed
    failures: list[str]
    graded: int


def grade_directory(
    submitted: Path,
    stems: Collection[str],
    db_url: str,
    directory: Path,
    *,
    limits: Limits | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    rung: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Grade what is new in a directory of submissions, and record it.

    A result is written to the gradebook and then filed, so that a run that is cut off is finished by the next one. What
    an earlier submission had is taken back first.

    Parameters
    ----------
    submitted
        Submissions in nbgrader's layout, ``STUDENT/STEM/STEM.ipynb``.
    stems
        The chapters to grade.
    db_url
        The gradebook, as nbgrader writes it: ``sqlite:///…`` or ``postgresql://…``.
    directory
        Where the seed and the results are kept.
    limits, workers
        What a submission may use, and how many are graded at once (default: one for each core).
    scheduler
        The address of a Dask scheduler whose workers grade, in place of processes on this machine.
    rung
        What shuts student code in: "bubblewrap", "landlock" or "none"; the best that works where it runs where None.
    progress
        Called with the number of submissions that are newly done, and of all that are to be done.

    Raises
    ------
    NoCluster
        If the scheduler's cluster cannot grade.
    """
    limits, results, seed = limits or Limits(), Results(directory), seed_of(directory)
    courses, known = {stem: course_digest(stem) for stem in stems}, recorded(db_url, stems)

    def task_of(found: Found) -> Task:
        return Task(found, key_of(found, seed, limits, courses[found.stem]))

    def read_again(task: Task) -> Task:
        gone = dataclasses.replace(task.found, remarks=["It was taken away while the grader ran."])
        return task_of(next(find_of_student(submitted / gone.student, [gone.stem]), gone))

    tasks, pending = [], []
    for task in map(task_of, find_submissions(submitted, stems)):
        found = task.found
        done = found.student in known[found.stem] and results.read(found.student, found.stem, task.key)
        tasks.append(task.without_data())
        pending += [] if done else [task.without_data()]
    failures: list[str] = []
    if pending:
        progress(0, len(pending))
        with _executor(scheduler, workers, pending) as executor:
            rung = rung if scheduler else rung or best()
            for task in pending:
                results.remove(task.found.student, task.found.stem)
            lost = executor.lost if scheduler else lambda: False
            flow = _Flow(lambda task: _submit(executor, task, seed, limits, rung), map(read_again, pending), lost)
            handed_in = [(task.found.student, task.found.stem) for task in pending]
            old = [(student, stem) for student, stem in handed_in if student in known[stem]]
            for batch in _recorded_batches(db_url, {stem for _, stem in handed_in}, old, flow, failures):
                for task, result in batch:
                    try:
                        show(directory, task.found, result)
                    except OSError:
                        raise
                    except Exception as error:  # whatever is odd in one notebook, the others are filed
                        failures.append(_failure(task, error))
                        continue
                    results.write(task.found.student, task.key, result)
                progress(len(batch), len(pending))
    handed_in = [(task.found.student, task.found.stem) for task in tasks]
    stored = [place for place in handed_in if results.read(*place) is not None]
    return Outcome(Filed(results, stored), failures, len(pending) - len(failures))


def show(directory: Path, found: Found, result: SubmissionResult) -> None:
    """Put the notebook where formgrader looks for it, or take it away where what was handed in is no notebook."""
    path = directory / "autograded" / found.student / found.stem / f"{found.stem}.ipynb"
    try:
        released = notebooks.released(found.stem)
        notebooks.write_text(path, autograded_notebook(found.data or b"", result, released))
    except NotReadable:
        path.unlink(missing_ok=True)


def _executor(scheduler: str | None, workers: int | None, tasks: Sequence[Task]) -> AbstractContextManager[Executor]:
    """What the work is handed to: a cluster where one is named, else processes of this machine."""
    if scheduler:
        try:
            from autograder.grading.cluster import cluster
        except ModuleNotFoundError as error:
            raise NoCluster(
                f'a cluster needs {error.name}, which is not installed. To install it:  pip install ".[dask]"'
            ) from None
        return cluster(scheduler, {task.found.stem for task in tasks})
    return pool(min(workers or os.cpu_count() or 1, len(tasks)))


def pool(count: int) -> ProcessPoolExecutor:
    """Processes of this machine that grade; they end with this one."""
    return ProcessPoolExecutor(count, _Context(), prepare_process)


class _Context(SpawnContext):
    """Starts processes that do not load the program that starts them: nbgrader is one, and takes seconds to load."""

    class Process(SpawnProcess):
        @staticmethod
        def _Popen(process):
            program = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process)
            finally:
                sys.modules["__main__"] = program


def _submit(executor: Executor, task: Task, seed: int, limits: Limits, rung: str | None) -> Future:
    try:
        return executor.submit(grade_found, task.found, seed, limits, rung)
    except (RuntimeError, OSError) as error:  # a pool that lost a process, a cluster that is gone
        return _failed(error)


def _failed(error: Exception) -> Future:
    future: Future = Future()
    future.set_exception(error)
    return future


class _Flow:
    """Tasks on their way through an executor, some at a time: memory does not grow with the size of the class.

    Where the executor is ``lost``, what it holds fails, for it may never end.
    """

    def __init__(
        self, submit: Callable[[Task], Future], tasks: Iterator[Task], lost: Callable[[], bool] = lambda: False
    ):
        self.submit, self.tasks, self.lost = submit, tasks, lost
        self.waiting: dict[Future, Task] = {}
        self.fill()

    def fill(self) -> None:
        for task in islice(self.tasks, WINDOW - len(self.waiting)):
            self.waiting[self.submit(task)] = task

    def __iter__(self) -> Iterator[tuple[Task, Future]]:
        while self.waiting:
            done, _ = wait(self.waiting, PATIENCE, FIRST_COMPLETED)
            if not done and self.lost():
                gone = ConnectionError("the connection to the scheduler is lost")
                self.waiting = {_failed(gone): task for task in self.waiting.values()}
                continue
            finished = [(self.waiting.pop(future), future) for future in done]
            self.fill()
            yield from finished


def _recorded_batches(
    db_url: str, stems: Collection[str], old: Collection[tuple[str, str]], flow: _Flow, failures: list[str]
) -> Iterator[Batch]:
    """Enter results in the gradebook as they come, a few in one transaction, and yield what is entered.

    First the ``old`` marks, by student and chapter, are taken back.
    """
    from autograder.grading import gradebook as marks  # loads nbgrader, while the pool is at work

    with marks.open_gradebook(db_url) as gradebook:
        for stem in sorted(stems):
            marks.register(gradebook, stem, notebooks.released(stem))
        marks.take_back(gradebook, old)
        for batch in _batches(flow, failures):
            marks.record(gradebook, [(task.found.student, result) for task, result in batch])
            yield batch


def _batches(flow: _Flow, failures: list[str]) -> Iterator[Batch]:
    """The results a few at a time; where the grader itself failed, ``failures`` says how."""
    batch, since = [], time.monotonic()
    for task, future in flow:
        try:
            result = future.result()
        except Exception as error:
            failures.append(_failure(task, error))
            continue
        batch.append((task, result))
        if len(batch) >= BATCH or time.monotonic() - since > BATCH_SECONDS:
            yield batch
            batch, since = [], time.monotonic()
    if batch:
        yield batch


def _failure(task: Task, error: Exception) -> str:
    """One line for a submission at which the grader itself failed."""
    return f"{task.found.student}, {task.found.stem}: {type(error).__name__}: {error}"
