"""``autograder check FILE [KERNEL ...]``."""

import argparse
import contextlib
import io
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from autograder import catalog, notebooks, telling
from autograder.cli import WrongUse
from autograder.grading.submission import cells_to_run, defining_cells
from autograder.judging import Report, evaluate, explain, not_run
from autograder.probing import Fault
from autograder.selfcheck import GRADING

CELL_MARKER = re.compile(r"^(?=# ?(?:%%|In\[))", re.MULTILINE)
MAGIC = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)
MODULE = "student_notebook"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a notebook of the course (.ipynb), or a Python file (.py)")
    parser.add_argument("kernel", nargs="*", default=[], help="kernels to check (default: all of the chapter)")


def run(arguments: argparse.Namespace) -> int:
    path = arguments.file
    try:
        notebook = _read_python(path) if path.suffix == ".py" else notebooks.read_notebook(path)
        stem = notebooks.chapter_of(notebook, path)
        released = notebooks.read_released(stem)
        names = arguments.kernel or [name for name, chapter in catalog.kernels().items() if chapter == stem]
        for name in names:
            catalog.stem_of(name)
    except (ValueError, catalog.UnknownKernel) as error:
        raise WrongUse(str(error)) from None
    module, problems = run_cells(path, cells_to_run(notebook, released))
    for problem in problems.values():
        print(problem, file=sys.stderr)
    passed: dict[str, bool] = {}
    sources, cells = notebooks.kernel_sources(notebook), defining_cells(notebook)
    for name in names:
        report = _report(name, vars(module), problems.get(cells.get(name)), path)
        report = explain(report, sources.get(name), passed)
        passed[name] = report.passed and not report.is_reference
        print(telling.as_text(report, next_hint="autograder hint {kernel}"))
    return 0 if all(passed.values()) else 1


def _read_python(path: Path) -> dict[str, Any]:
    """A Python file as a notebook; each cell begins with as many blank lines as stand above it in the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8; give a notebook (.ipynb) or a Python file (.py).") from None
    starts = sorted({0, *(match.start() for match in CELL_MARKER.finditer(text))})
    pieces = [(start, text[start:end]) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    cells = [
        {"cell_type": "code", "metadata": {}, "source": "\n" * text.count("\n", 0, start) + piece}
        for start, piece in pieces
    ]
    return {"cells": cells, "metadata": {}}


def run_cells(path: Path, cells: Sequence[tuple[int, str]]) -> tuple[ModuleType, dict[int, str]]:
    """Run cells in order in one module, going on after an error; the module, and what went wrong by cell number."""
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__file__ = str(path)
    problems: dict[int, str] = {}
    # Checks among the cells do nothing, and a plot opens no window.
    variables = {GRADING: "1", "MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")}
    with mock.patch.dict(os.environ, variables), contextlib.redirect_stdout(io.StringIO()):
        for number, source in cells:
            is_file = path.suffix == ".py"
            filename = str(path) if is_file else f"<cell {number}>"
            try:
                exec(compile(_without_magics(source), filename, "exec", dont_inherit=True), vars(module))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a cell may also call exit()
                place = path.name if is_file else f"{path.name}, cell {number}"
                problems[number] = f"{place}{_line(error, filename)}: {type(error).__name__}: {_message(error)}"
    return module, problems


def _without_magics(source: str) -> str:
    """A cell without IPython's magic and shell lines, where it is not plain Python; line numbers stay."""
    try:
        compile(source, "<cell>", "exec", dont_inherit=True)
    except SyntaxError:
        return MAGIC.sub(r"\1pass", source)
    return source


def _line(error: BaseException, filename: str) -> str:
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == filename else (frames or [None])[-1]
    return f", line {line}" if line else ""


def _message(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _report(name: str, made: Mapping[str, Any], problem: str | None, path: Path) -> Report:
    """The report of one kernel; a problem in its own cell is the reason that it cannot be checked."""
    if problem:
        return not_run(name, Fault("missing", f"its cell did not run. {problem}"))
    if name not in made:
        return not_run(name, Fault("missing", f"{path.name} does not define `{name}`."))
    try:
        return evaluate(name, made[name])
    except TypeError as error:
        return not_run(name, Fault("unusable", str(error)))
