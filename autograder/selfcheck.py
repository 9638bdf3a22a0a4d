"""What a notebook calls: ``begin``, ``check``, ``hint``."""

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable

from autograder import __version__, catalog, telling
from autograder.judging import Report, evaluate, explain
from autograder.reading import release_order

__all__ = ["CheckFailed", "Verdict", "begin", "check", "evaluate", "hint"]

GRADING = "AUTOGRADER_GRADING"  # set in the grader's own process, where checks and hints do nothing

_passed: dict[str, bool] = {}  # how the kernels checked so far in this process did
_hints_given: dict[str, int] = {}


class CheckFailed(AssertionError):
    """A check that earned no points. In a notebook its display is the message alone."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Verdict:
    """A report as the result of a notebook cell: its text is the score, which nbgrader reads, its HTML the report."""

    def __init__(self, report: Report):
        self.report = report

    def __repr__(self) -> str:
        return f"{float(self.report.score)}"

    def _repr_html_(self) -> str:
        return telling.as_html(self.report)


def begin(stem: str, release: str) -> None:
    """Start a notebook: say so when it belongs to another release of the course than the one installed."""
    if release == __version__ or os.environ.get(GRADING):
        return
    what_to_do = (
        "Install the newer release of the course first."
        if release_order(release) > release_order(__version__)
        else f"Your answers are kept if you run:  autograder update {stem}.ipynb"
    )
    print(f"This notebook is of release {release} of the course; release {__version__} is installed. {what_to_do}")


def check(name: str, kernel: Callable) -> Verdict | None:
    """Check a kernel on the visible cases and show what was found.

    Parameters
    ----------
    name
        The kernel's name in the course.
    kernel
        The function or class that you wrote.

    Returns
    -------
    A verdict whose display is the report, and whose text is the score.

    Raises
    ------
    CheckFailed
        If the kernel earned no points. The report is shown first; the error's display is its message alone.
        Also if there is nothing to judge: no such kernel, not a function, or a newer cell that Python could not read.
    """
    if os.environ.get(GRADING):
        return None
    _known(name)
    if not callable(kernel):
        raise CheckFailed(
            f"check was given {type(kernel).__name__!r}, but it calls your kernel itself, with arguments of its own. "
            f'Give it the name alone, without parentheses after it:  check("{name}", {name})'
        )
    if (line := _unread_line(name)) is not None:
        raise CheckFailed(
            f"The newest cell that defines {name} has a syntax error in its line {line}, so Python still holds your "
            "older version. Correct that cell and run it, then check again."
        )
    report = explain(evaluate(name, kernel), _source(kernel), _passed)
    _passed[name] = report.passed and not report.is_reference
    if report.printed:
        print(f"Your kernel printed:\n{report.printed}")
    if report.score and not report.is_reference:
        if not _in_notebook():
            print(telling.as_text(report))
        return Verdict(report)
    if _in_notebook():
        from IPython.display import HTML, display

        display(HTML(telling.as_html(report)))
        raise CheckFailed(telling.headline(report))
    raise CheckFailed(telling.as_text(report))


def hint(name: str) -> None:
    """Print the next hint for a kernel; each call goes one step further up the ladder."""
    if os.environ.get(GRADING):
        return
    _known(name)
    hints = catalog.check_of(name).hints
    step = min(_hints_given.get(name, 0), len(hints) - 1)
    _hints_given[name] = step + 1
    last = " (the last one)" if step == len(hints) - 1 else ""
    print(telling.wrapped(f"Hint {step + 1} of {len(hints)}{last}: {hints[step]}"))


def _known(name: str) -> None:
    try:
        catalog.stem_of(name)
    except catalog.UnknownKernel as unknown:
        raise CheckFailed(str(unknown)) from None


def _unread_line(name: str) -> int | None:
    """The line at which Python gave up the newest cell that defines ``name``; None if it read the cell."""
    if not _in_notebook():
        return None
    shell = sys.modules["IPython"].get_ipython()
    defines = re.compile(rf"^(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b", re.MULTILINE)
    newest = next((cell for cell in reversed(shell.history_manager.input_hist_raw) if defines.search(cell)), "")
    try:
        ast.parse(shell.transform_cell(newest))
    except SyntaxError as error:
        return error.lineno
    return None


def _source(kernel: Callable) -> str | None:
    """The whole cell or file that defines the kernel, so that line numbers are those the student sees."""
    try:
        return "".join(inspect.findsource(kernel)[0])
    except (OSError, TypeError):
        return None


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs us, as opposed to a terminal or a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"
