"""Grading one student again: the old mark beside the new one, recorded when the instructor says so."""

import dataclasses
import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import notebooks
from autograder.grading.batch import show
from autograder.grading.grade import close_workers, grade_found, use_one_thread
from autograder.grading.placing import Found
from autograder.grading.records import Results, course_digest, key_of, seed_of
from autograder.grading.results import KernelMark, SubmissionResult
from autograder.grading.session import Limits

FAILED, SEEN, RECORDED = "failed", "not recorded", "recorded"


@dataclass(frozen=True)
class Regrade:
    """What grading again came to: the old result where there is one, and the new one or the grader's own fault."""

    found: Found
    kernel: str | None
    old: SubmissionResult | None
    new: SubmissionResult | None
    key: str
    error: str = ""

    def pairs(self) -> Iterator[tuple[KernelMark | None, KernelMark]]:
        """The old and the new mark of each kernel that was asked for."""
        old = {mark.kernel: mark for mark in self.old.kernels} if self.old else {}
        for mark in self.new.kernels if self.new else ():
            if self.kernel in (None, mark.kernel):
                yield old.get(mark.kernel), mark

    @property
    def changes(self) -> bool:
        return any(old is None or old.score != new.score for old, new in self.pairs())

    @property
    def to_record(self) -> SubmissionResult:
        """The result to record: the new one, or the old one with the new mark of the one kernel asked for."""
        if self.kernel is None or self.old is None:
            return self.new
        asked_for = {new.kernel: new for _, new in self.pairs()}
        kernels = tuple(asked_for.get(mark.kernel, mark) for mark in self.old.kernels)
        return dataclasses.replace(self.old, kernels=kernels)


def regrade(
    found: Sequence[Found], directory: Path, limits: Limits, rung: str, kernel: str | None = None
) -> list[Regrade]:
    """Grade what a student handed in again, with the seed of the grading directory. Nothing is recorded.

    Parameters
    ----------
    found
        The student's notebooks.
    directory
        The grading directory.
    limits, rung
        What they may use, and what shuts them in.
    kernel
        The one kernel that was asked for; all where None.
    """
    results, seed = Results(directory), seed_of(directory)
    use_one_thread()
    done = []
    try:
        for one in found:
            old = results.read(one.student, one.stem)
            key = key_of(one, seed, limits, course_digest(one.stem))
            try:
                done.append(Regrade(one, kernel, old, grade_found(one, seed, limits, rung), key))
            except Exception as error:  # whatever it is, the request must not end without a word on the old mark
                done.append(Regrade(one, kernel, old, None, key, f"{type(error).__name__}: {error}"))
    finally:
        close_workers()
    return done


def record(regrades: Sequence[Regrade], directory: Path, db_url: str) -> None:
    """Enter new marks in the gradebook and file them; where grading failed, flag the old mark there."""
    from autograder.grading import gradebook as marks

    results = Results(directory)
    with marks.open_gradebook(db_url) as gradebook:
        for one in regrades:
            student, stem = one.found.student, one.found.stem
            if one.new is None:
                _flag(gradebook, student, stem, one.kernel)
                continue
            marks.register(gradebook, stem, notebooks.released(stem))
            marks.record(gradebook, [(student, one.to_record)])
            show(directory, one.found, one.to_record)
            # A result of which only one kernel is new is no result of this key: the next run grades it whole.
            whole = one.to_record == one.new
            results.write(student, one.key if whole else f"{one.key}, {one.kernel} alone", one.to_record)


def _flag(gradebook, student: str, stem: str, kernel: str | None) -> None:
    """Let formgrader ask for a person at the marks that a failed regrade leaves standing."""
    from nbgrader.api import MissingEntry

    try:
        notebook = gradebook.find_submission_notebook(stem, stem, student)
    except MissingEntry:
        return
    for grade in notebook.grades:
        if kernel is None or grade.cell.name == f"check-{kernel}":
            grade.needs_manual_grade = True
    gradebook.db.commit()


def log(one: Regrade, directory: Path, state: str) -> None:
    """Keep what the last regrade of a notebook came to, for the report."""
    entry = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "state": state,
        "kernel": one.kernel,
        "changes": one.changes,
        "error": one.error,
    }
    notebooks.write_text(
        directory / "regrades" / one.found.student / f"{one.found.stem}.json", json.dumps(entry, ensure_ascii=False)
    )


def open_requests(directory: Path) -> dict[tuple[str, str], str]:
    """Regrades that wait for a person, by student and chapter: those that failed, and changes not recorded.

    One that was graded since then no longer waits.
    """
    waiting = {}
    for path in sorted((directory / "regrades").glob("*/*.json")):
        result = directory / "results" / path.parent.name / path.name
        if result.exists() and result.stat().st_mtime_ns > path.stat().st_mtime_ns:
            continue
        entry = json.loads(path.read_text(encoding="utf-8"))
        what = entry["kernel"] or "the notebook"
        if entry["state"] == FAILED:
            waiting[path.parent.name, path.stem] = (
                f"regrading {what} failed on {entry['time'][:10]} ({entry['error']}); the mark is the old one"
            )
        elif entry["state"] == SEEN and entry["changes"]:
            waiting[path.parent.name, path.stem] = f"regrading {what} gave another mark, which is not recorded"
    return waiting
