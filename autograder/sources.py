"""Reading what authors write by hand: the exercise source of a chapter and the rooms that it draws on.

A source is a jupytext percent file. What a cell is stands in the line that begins it::

    # %% [markdown]                     prose
    # %% tags=["setup"]                 given code that grading runs: the imports, and begin("STEM", release="")
    # %% kernel="softmax"               left empty; filled with the reference, or with its stub for students
    # %% check="softmax"                left empty; becomes check("softmax", softmax), worth the check's points
    # %%                                an experiment
    # %% solution="NAME"                an answer written by hand, with ### BEGIN SOLUTION and ### END SOLUTION
    # %% grade="NAME" points=2          a test written by hand; may hold ### BEGIN HIDDEN TESTS
    # %% [markdown] grade="NAME" points=2      an answer in words, or in code with manual=true, that a person marks
"""

import ast
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import catalog
from autograder.checking import Check

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"^# ?%%", re.MULTILINE)
OPTIONS = ("tags", "kernel", "check", "solution", "grade", "points", "manual")
GENERATED_IDS = re.compile(r"(?:kernel|check)-")
GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")


class SourceError(Exception):
    """What is wrong in a hand-written file, as ``path:line: what; what to do``."""

    def __init__(self, path: Path, line: int, message: str):
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        super().__init__(f"{shown}:{line}: {message}")


@dataclass(frozen=True)
class SourceCell:
    """One cell of an exercise source: type, options from the marker's line, text, and the first line of that text."""

    cell_type: str
    options: Mapping[str, Any]
    source: str
    line: int


@dataclass(frozen=True)
class Chapter:
    """The rooms of one chapter: its exercise source, its reference, its probes and its checks by kernel name."""

    stem: str
    source: Path
    reference: Path
    probes: Path
    checks_module: Path
    checks: Mapping[str, Check]

    @classmethod
    def named(cls, stem: str) -> "Chapter":
        """The chapter of that stem in this repository."""
        source = ROOT / "solutions" / stem / f"{stem}.py"
        rooms = [Path(__file__).parent / room / f"{stem}.py" for room in ("reference", "probes", "checks")]
        for path in rooms:
            if not path.exists():
                raise SourceError(source, 1, f"chapter {stem!r} has no {path.relative_to(ROOT)}; write it first.")
        return cls(stem, source, *rooms, catalog.checks(stem))

    @functools.cached_property
    def cells(self) -> tuple[SourceCell, ...]:
        """The cells of the exercise source, in order."""
        return _read_cells(self.source)

    @functools.cached_property
    def definitions(self) -> dict[str, ast.FunctionDef | ast.ClassDef]:
        """The reference kernels by name, as syntax trees."""
        return _definitions(self.reference)

    @functools.cached_property
    def kernels(self) -> tuple[str, ...]:
        """The chapter's kernels in the order of the reference, each present in probes, reference and checks.

        Raises
        ------
        SourceError
            If one of the three rooms lacks a kernel that another has.
        """
        probes = _definitions(self.probes)
        for name, node in (probes | self.definitions).items():
            path = self.reference if name in self.definitions else self.probes
            for room, names in (("reference", self.definitions), ("probes", probes), ("checks", self.checks)):
                if name not in names:
                    message = f"kernel {name!r} is not in autograder/{room}/{self.stem}.py; add it or remove it here."
                    raise SourceError(path, node.lineno, message)
        return tuple(self.definitions)

    def kernel_text(self, name: str) -> str:
        """The source of a reference kernel, decorators included."""
        node = self.definitions[name]
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return "\n".join(self.reference.read_text(encoding="utf-8").splitlines()[first - 1 : node.end_lineno])

    def kernel_line(self, name: str) -> int:
        """The line of the reference where ``kernel_text`` begins."""
        node = self.definitions[name]
        return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def stems() -> list[str]:
    """The chapters that have an exercise source."""
    return sorted(path.stem for path in ROOT.glob("solutions/*/*.py") if path.stem == path.parent.name)


def _definitions(path: Path) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {
        node.name: node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }


def _read_cells(path: Path) -> tuple[SourceCell, ...]:
    import jupytext

    text = path.read_text(encoding="utf-8")
    markers = [text.count("\n", 0, match.start()) + 1 for match in MARKER.finditer(text)]
    cells = jupytext.reads(text, fmt="py:percent").cells
    if len(cells) != len(markers):
        raise SourceError(
            path,
            markers[0] if markers else 1,
            f"jupytext finds {len(cells)} cells, but {len(markers)} lines begin with `# %%`; "
            "begin each cell with such a line, and keep it out of strings.",
        )
    return tuple(
        _checked(path, SourceCell(cell.cell_type, _options(cell.metadata), cell.source, line + 1))
        for cell, line in zip(cells, markers, strict=True)
    )


def _options(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the author wrote; jupytext adds some of its own about blank lines."""
    return {name: value for name, value in metadata.items() if not name.startswith("lines_to_")}


def _checked(path: Path, cell: SourceCell) -> SourceCell:
    """The cell, if its options go together."""

    def wrong(message: str) -> SourceError:
        return SourceError(path, cell.line - 1, message)

    options = cell.options
    if unknown := options.keys() - set(OPTIONS):
        raise wrong(f"unknown cell option {min(unknown)!r}; the options are {', '.join(OPTIONS)}.")
    roles = [role for role in ("kernel", "check", "solution", "grade") if role in options]
    if len(roles) > 1:
        raise wrong(f"the cell is {' and '.join(roles)} at once; give it one of them.")
    if roles and roles[0] in ("kernel", "check") and cell.source.strip():
        raise wrong(f"a {roles[0]} cell is filled in by the generator; leave it empty.")
    if roles and roles[0] in ("solution", "grade"):
        name = options[roles[0]]
        if not isinstance(name, str) or not GRADE_ID.fullmatch(name) or GENERATED_IDS.match(name):
            raise wrong(
                f"{name!r} cannot name a hand-written cell; use letters, digits, - and _, "
                "and begin neither with kernel- nor with check-."
            )
    if ("points" in options or "manual" in options) and "grade" not in options:
        raise wrong('points and manual belong to a cell with grade="NAME"; add it or remove them.')
    if "grade" in options:
        points = options.get("points")
        if isinstance(points, bool) or not isinstance(points, int | float) or points < 0:
            raise wrong(f"points is {points!r}; a graded cell needs a number of 0 or more, such as points=2.")
    if cell.cell_type == "markdown" and roles and roles[0] != "grade":
        raise wrong(f"a markdown cell cannot be a {roles[0]} cell; make it a code cell.")
    return cell
