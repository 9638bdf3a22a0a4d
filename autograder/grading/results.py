"""What came of grading one submission, as plain data that can be stored and shown."""

import builtins
import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from autograder import telling
from autograder.grading.session import CellProblem
from autograder.judging import Report
from autograder.probing import Fault

# The errors that are named to a student. Other names, and all messages, were made by code that saw hidden inputs.
KNOWN_ERRORS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
# The types that are named to a student, for the same reason.
KNOWN_TYPES = {
    *(name for name, value in vars(builtins).items() if isinstance(value, type) and name not in KNOWN_ERRORS),
    *("function", "generator", "method", "module", "ndarray", "matrix", "MaskedArray", "Tensor", "Parameter"),
    *("float16", "float32", "float64", "int32", "int64", "bool_"),
}
SOURCE_LIMIT = 50_000  # characters of a cell that are kept with a mark
EXIT_CODE = re.compile(r", with exit code -?\d+")
UNUSABLE = "What the kernel returned is not what its contract says."
# What ``probing`` says of a value. The beginning is shown if the names in it can be meant, the value as far as known.
DESCRIPTIONS = tuple(
    re.compile(rf"(?P<said>{said}){rest}\.")
    for said, rest in (
        (r"The kernel should return \d\d? values, (?P<names>\w+(, \w+)*); it returned ", "(?P<value>.*)"),
        (
            r"`(?P<names>\w+)` should be a (NumPy array of numbers|torch\.Tensor); the kernel returned ",
            "(?P<value>.*)",
        ),
        (r"`(?P<names>\w+)` is a tensor of a kind that cannot be compared", r" \(.*\)"),
        (r"The kernel changed `requires_grad` of its argument `(?P<names>\w+)`\. Leave that to the caller", ""),
    )
)
VALUE = re.compile(r"None \(is a `return` missing\?\)|\d\d? values|(?P<typed>an? (?P<type>\w+))( of .*)?")


@dataclass(frozen=True)
class AspectMark:
    """One aspect of a kernel: its points, and in words why it did not pass ("" where it did)."""

    title: str
    passed: bool
    score: int
    points: int
    why: str = ""


@dataclass(frozen=True)
class KernelMark:
    """What a kernel earned and what its author is told; ``flags`` are for the instructor."""

    kernel: str
    passed: bool
    score: int
    points: int
    verdict: str
    aspects: tuple[AspectMark, ...]
    advice: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class SubmissionResult:
    """The marks of one submission; ``alarms`` say to the instructor what in its source may be tampering."""

    stem: str
    kernels: tuple[KernelMark, ...]
    problems: tuple[CellProblem, ...] = ()
    remarks: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def score(self) -> int:
        return sum(mark.score for mark in self.kernels)

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.kernels)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SubmissionResult":
        """The result in what ``dataclasses.asdict`` and JSON made of it."""
        kernels = (
            KernelMark(
                **mark
                | {"aspects": tuple(AspectMark(**aspect) for aspect in mark["aspects"])}
                | {name: tuple(mark[name]) for name in ("advice", "mistakes", "flags")}
            )
            for mark in data["kernels"]
        )
        problems = (CellProblem(**problem) for problem in data["problems"])
        return cls(data["stem"], tuple(kernels), tuple(problems), tuple(data["remarks"]), tuple(data["alarms"]))


def mark_of(report: Report, source: str = "", names: Collection[str] = ()) -> KernelMark:
    """A report on hidden cases as a mark: no case, no value, and no words that student code chose while it saw them.

    Parameters
    ----------
    report
        What was found.
    source
        The cell that defines the kernel.
    names
        The names of the arrays that the kernel's probe returns.
    """
    lines = source.count("\n") + 1
    report = dataclasses.replace(
        report,
        findings=tuple(
            dataclasses.replace(finding, fault=fault, text=fault.text if fault else finding.text)
            for finding in report.findings
            for fault in [_presentable(finding.fault, lines, names)]
        ),
    )
    reasons: dict[str, str] = {}
    for aspect in report.aspects:
        wrong = telling.first_wrong(report, aspect.title)
        reason = telling.why_not(report, wrong) if wrong else ""
        reasons[aspect.title] = "" if reason in reasons.values() else reason
    return KernelMark(
        kernel=report.kernel,
        passed=report.passed,
        score=min(max(report.score, 0), report.points),
        points=report.points,
        verdict=telling.headline(report),
        aspects=tuple(
            AspectMark(aspect.title, aspect.passed, aspect.score, aspect.points, reasons[aspect.title])
            for aspect in report.aspects
        ),
        advice=report.advice,
        mistakes=report.mistakes,
        flags=tuple(f"calls {name}" for name in report.ready_made) + _ends(report),
        source=source if len(source) <= SOURCE_LIMIT else f"{source[:SOURCE_LIMIT]}\n# … and more",
    )


def _ends(report: Report) -> tuple[str, ...]:
    faults = [finding.fault for finding in report.findings if finding.fault]
    forbidden = any(fault.kind == "crashed" and "SIGSYS" in fault.text for fault in faults)
    ends = {fault.kind for fault in faults} & {"stopped", "crashed", "missing"}
    return (*sorted(ends), *(["asked for a forbidden system call"] if forbidden else []))


def _presentable(fault: Fault | None, lines: int, names: Collection[str]) -> Fault | None:
    """The fault in words that cannot carry a hidden input out."""
    if fault is None:
        return None
    if fault.kind == "unusable":
        return Fault("unusable", _described(fault.text, names))
    if fault.kind != "raised":
        return Fault(fault.kind, EXIT_CODE.sub("", fault.text))
    known = fault.exception in KNOWN_ERRORS and (fault.is_placeholder or fault.exception != "NotImplementedError")
    name = fault.exception if known else "an error"
    return Fault("raised", name, name, fault.line if fault.line and fault.line <= lines else None)


def _described(text: str, names: Collection[str]) -> str:
    """What is said of a value that is not what the contract says: its type where that is a known one, no number."""
    found = next((match for form in DESCRIPTIONS if (match := form.fullmatch(text))), None)
    named = found["names"].split(", ") if found else []
    if not named or not set(named) <= set(names) or len(set(named)) < len(named):
        return UNUSABLE
    if (value := found.groupdict().get("value")) is None:
        return f"{found['said']}."
    what = VALUE.fullmatch(value)
    known = what and (what["type"] is None or what["type"] in KNOWN_TYPES)
    return f"{found['said']}{(what['typed'] or value) if known else 'something else'}."
