"""Grading one submission: bytes in, marks out."""

import dataclasses
import functools
import os
import signal
from collections.abc import Mapping
from multiprocessing.util import Finalize
from threading import Lock
from typing import Any

from autograder import catalog
from autograder.grading import linux
from autograder.grading.placing import Found
from autograder.grading.results import SubmissionResult, mark_of
from autograder.grading.sandbox import best
from autograder.grading.scanning import ready_made_uses, suspicious_uses
from autograder.grading.session import CellProblem, Limits, Run, Worker, WorkerLost, run_notebook
from autograder.grading.submission import (
    NotReadable,
    cells_to_run,
    defining_cells,
    read_notebook,
    read_released,
    similar_name,
)
from autograder.grading.wire import frame_of
from autograder.judging import EXAMS, Exam, Report, exam, explain, judge, not_run
from autograder.probing import Fault, Outcome

_workers: dict[tuple[str, str], Worker] = {}
_one_at_a_time = Lock()  # a worker runs one submission, and to watch what a kernel calls concerns the whole process


def grade_submission(
    data: bytes, stem: str, seed: int, limits: Limits | None = None, rung: str | None = None
) -> SubmissionResult:
    """The marks of one submission. Same bytes, same seed, same course: same marks.

    Parameters
    ----------
    data
        The bytes of the notebook that was handed in.
    stem
        The chapter that it is of.
    seed
        The secret from which the hidden cases are drawn.
    limits
        What the submission may use; the defaults of ``Limits`` where None.
    rung
        What shuts student code in: "bubblewrap", "landlock" or "none"; the best that works here where None.

    Raises
    ------
    NotAvailable
        If nothing is asked for and nothing works here.
    """
    try:
        notebook = read_notebook(data)
    except NotReadable as error:
        return no_notebook(stem, str(error))
    cases = {name: _frames(exam(name, seed)) for name in catalog.checks(stem)}
    run = _run(stem, rung or best(), cells_to_run(notebook, read_released(stem)), cases, limits or Limits())
    defining = defining_cells(notebook)
    sources = {name: notebook["cells"][number - 1]["source"] for name, number in defining.items()}
    reports: dict[str, Report] = {}
    arrays: dict[str, set[str]] = {}
    for name, check in catalog.checks(stem).items():
        if name in run.outcomes:
            ready_made = tuple(ready_made_uses(notebook, name, check.reproduces))
            outcomes = [_with_watched(outcome, ready_made, check.reproduces) for outcome in run.outcomes[name]]
            reports[name] = judge(name, seed, outcomes)
            arrays[name] = {array.removesuffix("_after") for array in exam(name, seed).target(0)}
        else:
            reports[name] = not_run(name, _missing(name, run, defining))
    passed = {name: report.passed for name, report in reports.items()}
    kernels = tuple(
        mark_of(explain(report, sources.get(name), passed), sources.get(name, ""), arrays.get(name, ()))
        for name, report in reports.items()
    )
    alarms = tuple(
        f"look at cell {number}: it {', '.join(uses[:4])}{' and more' if len(uses) > 4 else ''}"
        for number, uses in suspicious_uses(notebook, read_released(stem)).items()
    )
    return SubmissionResult(stem, kernels, run.problems, alarms=alarms)


@functools.lru_cache(maxsize=EXAMS)
def _frames(given: Exam) -> tuple[bytes, ...]:
    """The cases of an exam, packed once for the whole class."""
    return tuple(frame_of(case) for _, case in given.drawn)


def grade_found(found: Found, seed: int, limits: Limits | None = None, rung: str | None = None) -> SubmissionResult:
    """The marks of what a student handed in, be it a notebook or not, with the remarks on where it lay."""
    if found.data is None:
        result = no_notebook(found.stem)
    else:
        with _one_at_a_time:
            result = grade_submission(found.data, found.stem, seed, limits, rung)
    return dataclasses.replace(result, remarks=(*found.remarks, *result.remarks))


def no_notebook(stem: str, *remarks: str) -> SubmissionResult:
    """The result of a submission that is no notebook: no points, and the reason."""
    fault = Fault("missing", "There is no notebook to grade.")
    return SubmissionResult(stem, tuple(mark_of(not_run(name, fault)) for name in catalog.checks(stem)), (), remarks)


def _run(stem: str, rung: str, cells: list[tuple[int, str]], cases: Mapping[str, Any], limits: Limits) -> Run:
    """Run the notebook in this process's worker for the chapter; once more in a new one where that is lost."""
    for _ in range(2):
        if (stem, rung) not in _workers:
            _workers[stem, rung] = Worker(stem, rung)
        try:
            return run_notebook(_workers[stem, rung], cells, cases, limits)
        except WorkerLost:
            _workers.pop((stem, rung)).close()
    fault = Outcome(fault=Fault("crashed", "The notebook ended the process that runs it, twice."))
    return Run((), {}, {name: (fault,) * len(drawn) for name, drawn in cases.items()})


def close_workers() -> None:
    """End the workers of this process."""
    while _workers:
        _workers.popitem()[1].close()


def use_one_thread() -> None:
    """Let PyTorch, which is loaded with the first check, compute with one thread in this process."""
    os.environ["OMP_NUM_THREADS"] = "1"


def prepare_process() -> None:
    """Set up a process of a pool that grades: one thread, an end with the grader's own, however that comes about."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    use_one_thread()
    Finalize(None, close_workers, exitpriority=10)


def _with_watched(outcome: Outcome, found: tuple[str, ...], allowed: tuple[str, ...]) -> Outcome:
    """The outcome with the ready-made functions that its watch saw and those found in the source."""
    seen = tuple(name for name in outcome.watched if name in allowed)
    return Outcome(outcome.arrays, outcome.fault, tuple(sorted({*seen, *found})))


def _missing(name: str, run: Run, defining: Mapping[str, int]) -> Fault:
    """Why a kernel's name does not stand for something that can be called."""
    if kind := run.kinds.get(name):
        return Fault("missing", f"`{name}` is not a function in your notebook, but {_with_article(kind)}.")
    if problem := _problem_of(defining.get(name), run.problems):
        line = f" (line {problem.line} of the cell)" if problem.line else ""
        return Fault(
            "missing", f"The cell that defines `{name}` did not run to its end: {problem.text.rstrip(chr(46))}{line}."
        )
    text = f"Your notebook defines no `{name}`."
    if near := similar_name(name, defining.keys() - catalog.kernels().keys()):
        text += f" It defines `{near}`: should that be the name?"
    return Fault("missing", text)


def _problem_of(cell: int | None, problems: tuple[CellProblem, ...]) -> CellProblem | None:
    return next((problem for problem in problems if problem.cell == cell), None)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
