"""The trusted side: draw cases, compare outcomes with the reference's, name mistakes, give points."""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autograder import catalog
from autograder.case import VISIBLE_SEED, Case, Draw
from autograder.checking import Aspect, Check, Mistake
from autograder.compare import Mismatch, first_mismatch, same
from autograder.probing import Fault, Outcome, run_probe
from autograder.reading import placeholder_line

EXAMS = 256  # that are kept: all kernels of a course which is graded in one run


@dataclass(frozen=True)
class Finding:
    """What one case found. ``target`` and ``given`` are there for pictures of visible cases only."""

    aspect: str
    title: str
    passed: bool
    text: str = ""
    fault: Fault | None = None
    mismatch: Mismatch | None = None
    target: np.ndarray | None = None
    given: np.ndarray | None = None


@dataclass(frozen=True)
class AspectResult:
    """One aspect: whether all of its cases passed, and the points that it earned out of those it can."""

    title: str
    passed: bool
    score: int
    points: int


@dataclass(frozen=True)
class Report:
    """What a check says of a kernel. ``mistakes`` are the known ones that would give the very same arrays."""

    kernel: str
    passed: bool
    score: int
    points: int
    hidden: bool
    aspects: tuple[AspectResult, ...]
    findings: tuple[Finding, ...]
    mistakes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    ready_made: tuple[str, ...] = ()
    is_reference: bool = False
    printed: str = ""

    @property
    def mistake(self) -> str | None:
        """The id of the known mistake that the kernel makes, or None."""
        return self.mistakes[0] if self.mistakes else None


class Exam:
    """The cases of a check drawn from one seed, and what trusted kernels give on them, each run only once."""

    def __init__(self, name: str, seed: int | None, check: Check):
        watch = (*check.reproduces, f"{check.reference.__module__}.{name}")
        self.name, self.stem, self.check, self.hidden = name, catalog.stem_of(name), check, seed is not None
        self.drawn: list[tuple[str, Case]] = [
            (aspect.title, dataclasses.replace(case, watch=watch))
            for number, aspect in enumerate(check.aspects)
            for case in aspect.cases(Draw(*_seed(name, seed), number, hidden=self.hidden))
        ]
        self._outcomes: dict[tuple[Callable, int], Outcome] = {}

    def outcome(self, kernel: Callable, number: int) -> Outcome:
        """What the reference, or a known mistake, gives on the case of that number."""
        if (kernel, number) not in self._outcomes:
            stored = getattr(kernel, "stored_outcome", None)  # of a release without solutions
            case = dataclasses.replace(self.drawn[number][1], watch=())  # watching takes as long as the kernel itself
            self._outcomes[kernel, number] = stored(number) if stored else run_probe(self.stem, self.name, kernel, case)
        return self._outcomes[kernel, number]

    def target(self, number: int) -> Mapping[str, np.ndarray]:
        """The reference's arrays on the case of that number."""
        outcome = self.outcome(self.check.reference, number)
        if outcome.fault:
            title = self.drawn[number][1].title
            raise AssertionError(f"The reference failed on {title!r}: {outcome.fault.details or outcome.fault.text}")
        return outcome.arrays


@functools.lru_cache(maxsize=EXAMS)
def _exam(name: str, seed: int | None, aspects: tuple[Aspect, ...]) -> Exam:
    return Exam(name, seed, catalog.check_of(name))


def exam(name: str, seed: int | None = None) -> Exam:
    """The exam of a kernel: of the visible cases without a seed, of the hidden ones with one."""
    return _exam(name, seed, tuple(catalog.check_of(name).aspects))


def forget_exams() -> None:
    """Let go of the exams that are kept, with all that trusted kernels gave on them."""
    _exam.cache_clear()


def draw_cases(name: str, seed: int | None = None) -> list[tuple[str, Case]]:
    """The cases of a kernel's check, each with its aspect's title: the visible ones, or the hidden ones of ``seed``."""
    return list(exam(name, seed).drawn)


def _seed(name: str, seed: int | None) -> tuple[int, int, int]:
    if seed is not None and seed < 0:
        raise ValueError(f"The seed is {seed}; it must be 0 or more.")
    return (zlib.crc32(name.encode()), *((0, VISIBLE_SEED) if seed is None else (1, seed)))


def evaluate(name: str, kernel: Callable, seed: int | None = None) -> Report:
    """Check a kernel and say what was found. Pure: nothing is shown, kept or changed.

    Parameters
    ----------
    name
        The kernel's name in the course, such as ``"softmax"``.
    kernel
        The function or class to check.
    seed
        None for the visible cases; a number of 0 or more for hidden cases drawn from it.

    Raises
    ------
    UnknownKernel
        If the course has no kernel of that name; the message names the nearest ones.
    TypeError
        If ``kernel`` is not callable.
    """
    stem = catalog.stem_of(name)
    if not callable(kernel):
        raise TypeError(f"The check of {name!r} needs the function itself; it was given {kernel!r}.")
    return judge(name, seed, [run_probe(stem, name, kernel, case) for _, case in draw_cases(name, seed)])


def judge(name: str, seed: int | None, outcomes: Sequence[Outcome]) -> Report:
    """Compare a kernel's outcomes on ``draw_cases(name, seed)`` with the reference's own; the outcomes are not trusted.

    Raises
    ------
    ValueError
        If there is not one outcome for each case, or no case at all: a check that compares nothing has not passed.
    """
    given = exam(name, seed)
    if not given.drawn or len(given.drawn) != len(outcomes):
        raise ValueError(f"{name}: {len(outcomes)} outcomes for {len(given.drawn)} cases; each case needs one.")
    own_name = f"{given.check.reference.__module__}.{name}"
    watched = {dotted for outcome in outcomes for dotted in outcome.watched}
    ready_made = tuple(sorted(watched - {own_name}))
    findings = tuple(_finding(given, number, outcome) for number, outcome in enumerate(outcomes))
    aspects = _aspect_results(given.check, findings, ready_made)
    mistakes = () if all(finding.passed for finding in findings) else _diagnose(given, outcomes, findings)
    return Report(
        kernel=name,
        passed=all(aspect.passed for aspect in aspects) and not ready_made,
        score=sum(aspect.score for aspect in aspects),
        points=given.check.points,
        hidden=given.hidden,
        aspects=aspects,
        findings=findings,
        mistakes=tuple(mistake.id for mistake in mistakes),
        advice=tuple(dict.fromkeys(mistake.hint for mistake in mistakes)),
        ready_made=ready_made,
        is_reference=own_name in watched,
        printed="" if given.hidden else next((outcome.printed for outcome in outcomes if outcome.printed), ""),
    )


def not_run(name: str, fault: Fault) -> Report:
    """The report of a kernel that could not be run at all: no points, and the reason."""
    check = catalog.check_of(name)
    return Report(
        kernel=name,
        passed=False,
        score=0,
        points=check.points,
        hidden=True,
        aspects=tuple(AspectResult(aspect.title, False, 0, aspect.points) for aspect in check.aspects),
        findings=(Finding(check.aspects[0].title, "the kernel itself", False, fault.text, fault),),
    )


def _finding(given: Exam, number: int, outcome: Outcome) -> Finding:
    (aspect, case), target = given.drawn[number], given.target(number)
    if outcome.fault:
        return Finding(aspect, case.title, False, outcome.fault.text, outcome.fault)
    mismatch = first_mismatch(target, outcome.arrays)
    if mismatch is None:
        return Finding(aspect, case.title, True)
    shown = {"target": target[mismatch.array], "given": outcome.arrays.get(mismatch.array)}
    if given.hidden:
        return Finding(aspect, case.title, False, mismatch.discreet, mismatch=mismatch)
    return Finding(aspect, case.title, False, mismatch.text, mismatch=mismatch, **shown)


def _aspect_results(
    check: Check, findings: Collection[Finding], ready_made: tuple[str, ...]
) -> tuple[AspectResult, ...]:
    def passed(aspect: Aspect) -> bool:
        passes = [finding.passed for finding in findings if finding.aspect == aspect.title]
        return bool(passes) and all(passes)

    earns = passed(check.aspects[0]) and not ready_made
    return tuple(
        AspectResult(aspect.title, passed(aspect), aspect.points if earns and passed(aspect) else 0, aspect.points)
        for aspect in check.aspects
    )


def _diagnose(given: Exam, outcomes: Sequence[Outcome], findings: Sequence[Finding]) -> list[Mistake]:
    """The known mistakes that explain every case; failing that, the first wrong case and all those that passed."""

    def explains(mistake: Mistake, number: int) -> bool:
        return _alike(given.outcome(mistake.kernel, number), outcomes[number])

    right = [number for number, finding in enumerate(findings) if finding.passed]
    first_wrong, *other_wrong = (number for number, finding in enumerate(findings) if not finding.passed)
    suspects = [
        mistake
        for mistake in given.check.mistakes
        if explains(mistake, first_wrong) and all(explains(mistake, number) for number in right)
    ]
    return [mistake for mistake in suspects if all(explains(mistake, number) for number in other_wrong)] or suspects


def _alike(one: Outcome, other: Outcome) -> bool:
    """Whether two runs look the same from outside: the same arrays, or a fault in the very same words."""
    if one.fault and other.fault:
        return (one.fault.kind, one.fault.text) == (other.fault.kind, other.fault.text)
    return not one.fault and not other.fault and same(one.arrays, other.arrays)


def explain(report: Report, source: str | None, passed: Mapping[str, bool]) -> Report:
    """The report with advice that needs more than arrays: the student's source, and how the other kernels did.

    Parameters
    ----------
    source
        The cell or file that defines the kernel, or None where it is not known.
    passed
        Whether other kernels of the notebook passed, by name, as far as known.
    """
    advice = list(report.advice)
    if source and not report.passed and (line := placeholder_line(source, report.kernel)):
        advice.insert(0, f"Your answer is followed by the placeholder in line {line}: delete that line.")
    if not report.passed:
        broken = [part for part in catalog.check_of(report.kernel).uses if passed.get(part) is False]
        advice += [
            f"It calls your `{part}`, which does not pass its own check yet: mend that first." for part in broken
        ]
    return dataclasses.replace(report, advice=tuple(advice))
