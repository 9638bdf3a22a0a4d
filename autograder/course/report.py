"""What an instructor should know of a class: marks, named mistakes, kernels that fail, who needs a person to look."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder import catalog
from autograder.course.handed_in import Ledger
from autograder.course.likeness import Alike, alike
from autograder.course.marks import Totals, course_percent, totals
from autograder.course.regrading import open_requests
from autograder.course.settings import Settings
from autograder.course.standing import Standing
from autograder.grading.exporting import shown
from autograder.grading.records import Results
from autograder.grading.results import KernelMark, SubmissionResult
from autograder.stubs import is_stub

# What needs a person, the most pressing first: the kind, and what it means.
KINDS = {
    "tampering": "Looks like tampering. A list of signs, with false alarms, and not complete.",
    "ready-made": "Calls the ready-made function that the kernel should reproduce. What is found is not complete.",
    "forbidden": "Asked the system for something that is forbidden while grading.",
    "regrade": "A regrade waits.",
    "by hand": "The gradebook has a mark that a person should give or look at.",
    "file": "The file is not what was asked for.",
    "crash": "The notebook or a kernel ended its process.",
    "time-out": "The notebook or a kernel was stopped at its limit.",
    "late": "Late by a time that the platform does not say; counted as one day.",
}
FLAGS = {"crashed": "crash", "stopped": "time-out", "asked for a forbidden system call": "forbidden"}


@dataclass(frozen=True)
class Look:
    """Something that a person should look at."""

    kind: str
    student: str
    stem: str
    what: str


@dataclass(frozen=True)
class Mistake:
    """A named mistake of a class: how many of those who handed in make it, and the hint that they got."""

    kernel: str
    ids: tuple[str, ...]
    count: int
    of: int
    hint: str


@dataclass(frozen=True)
class KernelCount:
    """How a class did on one kernel: how many had it right, partly right, wrong, and not written."""

    kernel: str
    points: int
    right: int
    partly: int
    wrong: int
    not_written: int

    @property
    def failing(self) -> float:
        """The share of those who wrote it that did not get it right."""
        written = self.right + self.partly + self.wrong
        return (written - self.right) / written if written else 0.0


@dataclass
class ChapterReport:
    """One chapter: everybody's result, and what the class made of each kernel."""

    stem: str
    rows: list[tuple[str, SubmissionResult]]
    kernels: list[KernelCount]
    mistakes: list[Mistake]
    alike: list[Alike]

    @property
    def points(self) -> int:
        return self.rows[0][1].points

    @property
    def scores(self) -> list[int]:
        return [result.score for _, result in self.rows]

    @property
    def median(self) -> float:
        return statistics.median(self.scores)


@dataclass
class ClassReport:
    """The whole report."""

    chapters: list[ChapterReport]
    sums: Totals
    looks: list[Look]
    percent: dict[str, float | None] = field(default_factory=dict)

    @property
    def students(self) -> list[str]:
        return sorted({student for chapter in self.chapters for student, _ in chapter.rows})


def class_report(
    directory: Path, settings: Settings, standings: Sequence[Standing], stems: Sequence[str]
) -> ClassReport:
    """The report on a grading directory.

    Parameters
    ----------
    directory
        The grading directory.
    standings
        What the gradebook holds.
    stems
        The chapters to report on.
    """
    results = [entry for entry in Results(directory).all() if entry[1].stem in stems]
    chapters = [_chapter(stem, [entry for entry in results if entry[1].stem == stem]) for stem in stems]
    chapters = [chapter for chapter in chapters if chapter.rows]
    sums = totals([entry for entry in standings if entry.stem in stems], Ledger(directory), settings)
    looks = [*_looks(results), *_from_gradebook(standings, stems), *_requests(directory, stems), *_late(sums)]
    order = list(KINDS)
    looks.sort(key=lambda look: (order.index(look.kind), look.student, look.stem))
    percent = {student: course_percent(student, sums, settings) for student in {student for student, _ in results}}
    return ClassReport(chapters, sums, looks, percent)


def _chapter(stem: str, rows: list[tuple[str, SubmissionResult]]) -> ChapterReport:
    names = [mark.kernel for mark in rows[0][1].kernels] if rows else []
    marks = {name: [mark for _, result in rows for mark in result.kernels if mark.kernel == name] for name in names}
    kernels = [_count(name, marks[name]) for name in names]
    mistakes = [mistake for name in names for mistake in _mistakes(name, marks[name])]
    mistakes.sort(key=lambda mistake: -mistake.count)
    return ChapterReport(stem, rows, kernels, mistakes, alike(rows))


def _count(kernel: str, marks: Sequence[KernelMark]) -> KernelCount:
    right = sum(mark.passed for mark in marks)
    not_written = sum(not mark.passed and not is_written(mark) for mark in marks)
    partly = sum(not mark.passed and mark.score > 0 for mark in marks)
    return KernelCount(kernel, marks[0].points, right, partly, len(marks) - right - not_written - partly, not_written)


def is_written(mark: KernelMark) -> bool:
    """Whether a student wrote anything in a kernel's cell."""
    return bool(mark.source) and not is_stub(mark.source)


def _mistakes(kernel: str, marks: Sequence[KernelMark]) -> Iterator[Mistake]:
    """The named mistakes in a kernel by how many make them; those that cannot be told apart stand together."""
    hints = {m.id: m.hint for m in catalog.check_of(kernel).mistakes} if kernel in catalog.kernels() else {}
    for ids, count in Counter(mark.mistakes for mark in marks if mark.mistakes).items():
        told = dict.fromkeys(hints.get(name, name) for name in ids)
        yield Mistake(kernel, ids, count, len(marks), " Or: ".join(told))


def _looks(results: Sequence[tuple[str, SubmissionResult]]) -> Iterator[Look]:
    for student, result in results:
        for alarm in result.alarms:
            yield Look("tampering", student, result.stem, alarm)
        for remark in result.remarks:
            yield Look("file", student, result.stem, remark)
        for problem in result.problems:
            kind = {"stopped": "time-out", "crashed": "crash"}.get(problem.kind)
            if kind:
                yield Look(kind, student, result.stem, f"cell {problem.cell}: {problem.text}")
        for mark in result.kernels:
            for flag in mark.flags:
                kind = "ready-made" if flag.startswith("calls ") else FLAGS.get(flag)
                if kind:
                    yield Look(kind, student, result.stem, f"{mark.kernel}: {flag}")


def _from_gradebook(standings: Sequence[Standing], stems: Sequence[str]) -> Iterator[Look]:
    for entry in standings:
        if entry.waiting and entry.stem in stems:
            unmarked = f" (no mark yet: {', '.join(entry.unmarked)})" if entry.unmarked else ""
            yield Look("by hand", entry.student, entry.stem, f"{', '.join(entry.waiting)}{unmarked}")


def _requests(directory: Path, stems: Sequence[str]) -> Iterator[Look]:
    for (student, stem), what in open_requests(directory).items():
        if stem in stems:
            yield Look("regrade", student, stem, what)


def _late(sums: Totals) -> Iterator[Look]:
    for (student, stem), total in sums.items():
        if total.is_guess:
            before, after = shown(total.earned), shown(total.after_penalty)
            yield Look("late", student, stem, f"{before} before the penalty, {after} after it")


def by_kind(looks: Sequence[Look]) -> Mapping[str, list[Look]]:
    """What needs a person, by kind."""
    found: dict[str, list[Look]] = {}
    for look in looks:
        found.setdefault(look.kind, []).append(look)
    return found
