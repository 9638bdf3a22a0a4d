"""From an exercise source to the solution notebook and the student's notebook, byte for byte the same each time."""

import ast
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import __version__, stubs
from autograder.notebooks import BEGIN, checksum, digest
from autograder.sources import Chapter, SourceCell, SourceError

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Piece:
    """A cell of the solution notebook as plain data, and the file and line that it comes from."""

    cell: dict[str, Any]
    path: Path
    line: int


def generate(chapter: Chapter) -> tuple[str, str]:
    """The solution notebook and the student's notebook of a chapter, as the text of their files.

    Raises
    ------
    SourceError
        If the source does not fit the chapter's other rooms, or the student's notebook would show an answer.
    """
    _check_kernels(chapter)
    _check_names(chapter)
    pieces = _pieces(chapter)
    secrets = secrets_of(chapter)
    student = [Piece(_without_answer(piece), piece.path, piece.line) for piece in pieces]
    for piece in student:
        _refuse_leak(piece.cell["source"], piece.path, piece.line, secrets)
    _refuse_leaking_hints(chapter, secrets)
    return tuple(_as_file(chapter.stem, [piece.cell for piece in part]) for part in (pieces, student))


def leaks(chapter: Chapter, notebook: Mapping[str, Any]) -> list[str]:
    """The answers that stand anywhere in a notebook: in sources, metadata or outputs; one sentence each."""
    secrets = secrets_of(chapter)
    places = [("the notebook's metadata", notebook["metadata"])]
    places += [(f"cell {number}", cell) for number, cell in enumerate(notebook["cells"], 1)]
    found = [(place, stubs.find_leak(text, secrets)) for place, value in places for text in _strings(value)]
    return [f"{place} shows an answer of {hit[0].owner!r}: {hit[0].text!r}" for place, hit in found if hit]


def _strings(value: Any) -> Iterable[str]:
    """Every text in a piece of JSON; the lines of a cell's source or of an output are put together."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _strings(item)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)
        else:
            for item in value:
                yield from _strings(item)


def _named(cells: Iterable[SourceCell], role: str) -> dict[str, SourceCell]:
    return {cell.options[role]: cell for cell in cells if role in cell.options}


def _check_kernels(chapter: Chapter) -> None:
    """Each kernel of the chapter has one cell, and one check cell below it; nothing else claims to be a kernel."""
    names = [*chapter.kernels]
    place: dict[tuple[str, str], int] = {}
    for number, cell in enumerate(chapter.cells):
        for role in {"kernel", "check", "solution", "grade"} & cell.options.keys():
            name = cell.options[role]
            where = chapter.source, cell.line - 1
            if role in ("kernel", "check") and name not in names:
                near = difflib.get_close_matches(str(name), names, 3) or names
                raise SourceError(*where, f"{chapter.stem} has no kernel {name!r}; did you mean {', '.join(near)}?")
            group = "hand-written" if role in ("solution", "grade") else role
            if (group, name) in place:
                first = chapter.cells[place[group, name]].line - 1
                raise SourceError(*where, f"{role} {name!r} stands in line {first} already; remove one of the two.")
            place[group, name] = number
    for name in names:
        kernel, check = place.get(("kernel", name)), place.get(("check", name))
        if kernel is None and check is None:
            line = chapter.kernel_line(name)
            message = f"kernel {name!r} has no cell in {chapter.source.name}; add `# %% kernel={name!r}` and its check."
            raise SourceError(chapter.reference, line, message.replace("'", '"'))
        if kernel is None or check is None or check < kernel:
            line = chapter.cells[check if kernel is None else kernel].line - 1
            missing = "kernel cell above its check" if kernel is None else "check cell below it"
            role = "kernel" if kernel is None else "check"
            raise SourceError(chapter.source, line, f'{name!r} has no {missing}; add a cell `# %% {role}="{name}"`.')


def _check_names(chapter: Chapter) -> None:
    """Each kernel uses the setup cells, the kernels that its check declares, and nothing else."""
    setup = set().union(*(stubs.names_made(cell.source) for cell in chapter.cells if _is_setup(cell)))
    for name in chapter.kernels:
        for used, line in stubs.undeclared_names(chapter.kernel_text(name), setup.union(chapter.checks[name].uses)):
            raise SourceError(
                chapter.reference,
                chapter.kernel_line(name) + line - 1,
                f"kernel {name!r} uses {used!r}, which no setup cell of {chapter.source.name} makes; "
                "import it there, or name the kernel in the check's `uses`.",
            )


def _is_setup(cell: SourceCell) -> bool:
    return "setup" in cell.options.get("tags", ())


def _pieces(chapter: Chapter) -> list[Piece]:
    """The cells of the solution notebook."""
    pieces, ids = [], {}
    for cell in chapter.cells:
        piece = _piece(chapter, cell)
        number = ids[piece.cell["id"]] = ids.get(piece.cell["id"], 0) + 1
        if number > 1:
            piece.cell["id"] += f"-{number}"
        pieces.append(piece)
    if not any(_is_setup(cell) and BEGIN.search(cell.source) for cell in chapter.cells):
        raise SourceError(
            chapter.source,
            1,
            f'no setup cell calls begin; put `begin("{chapter.stem}", release="")` into the cell with tags=["setup"].',
        )
    return pieces


def _piece(chapter: Chapter, cell: SourceCell) -> Piece:
    options, path, line = cell.options, chapter.source, cell.line
    if "kernel" in options:
        name = options["kernel"]
        path, line = chapter.reference, chapter.kernel_line(name)
        try:
            source = stubs.with_markers(chapter.kernel_text(name))
        except ValueError as error:
            raise SourceError(path, line, str(error)) from None
        return Piece(_cell("code", f"kernel-{name}", source, _nbgrader(f"kernel-{name}", solution=True)), path, line)
    if "check" in options:
        name = options["check"]
        marks = _nbgrader(f"check-{name}", grade=True, points=chapter.checks[name].points)
        return Piece(_cell("code", f"check-{name}", f'check("{name}", {name})', marks), path, line)
    if "solution" in options:
        name = options["solution"]
        return Piece(_cell(cell.cell_type, name, cell.source, _nbgrader(name, solution=True)), path, line)
    if "grade" in options:
        name = options["grade"]
        manual = bool(options.get("manual")) or cell.cell_type == "markdown"
        marks = _nbgrader(name, grade=True, solution=manual, points=options["points"])
        return Piece(_cell(cell.cell_type, name, cell.source, marks), path, line)
    source = _stamped(chapter, cell) if _is_setup(cell) else cell.source
    role = "setup" if _is_setup(cell) else "experiment" if cell.cell_type == "code" else "prose"
    metadata = {"tags": options["tags"]} if options.get("tags") else {}
    return Piece(_cell(cell.cell_type, f"{role}-{digest(source)}", source, metadata), path, line)


def _cell(cell_type: str, id: str, source: str, metadata: dict[str, Any]) -> dict[str, Any]:
    cell = {"cell_type": cell_type, "id": id, "metadata": metadata, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if cell_type == "code" else {})


def _nbgrader(grade_id: str, *, grade: bool = False, solution: bool = False, points: float | None = None) -> dict:
    marks = {
        "grade": grade,
        "grade_id": grade_id,
        "locked": grade and not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return {"nbgrader": marks if points is None else marks | {"points": points}}


def _stamped(chapter: Chapter, cell: SourceCell) -> str:
    """A setup cell whose ``begin`` call names the installed release."""
    match = BEGIN.search(cell.source)
    if not match:
        return cell.source
    if match[1] != chapter.stem:
        line = cell.line + cell.source.count("\n", 0, match.start())
        raise SourceError(chapter.source, line, f"begin names {match[1]!r}; this chapter is {chapter.stem!r}.")
    call = f'begin("{chapter.stem}", release="{__version__}")'
    return re.sub(r"^begin\([^()]*\)", call, cell.source, count=1, flags=re.MULTILINE)


def _without_answer(piece: Piece) -> dict[str, Any]:
    """The student's version of a cell: what stock ``nbgrader generate_assignment`` makes of it."""
    marks = piece.cell["metadata"].get("nbgrader", {})
    source = piece.cell["source"]
    stub = stubs.CODE_STUB if piece.cell["cell_type"] == "code" else stubs.TEXT_STUB
    try:
        cleared = stubs.without_regions(source, "SOLUTION", stub)
        if marks.get("solution") and cleared == source:
            cleared = "\n".join(stub)
        elif cleared != source and not marks.get("solution"):
            raise ValueError('a solution stands outside a solution cell; give the cell solution="NAME".')
        shown = stubs.without_regions(cleared, "HIDDEN TESTS")
        if shown != cleared and not marks.get("grade"):
            raise ValueError('hidden tests stand outside a test cell; give the cell grade="NAME" and points.')
    except ValueError as error:
        raise SourceError(piece.path, piece.line, str(error)) from None
    cell = piece.cell | {"source": shown}
    if not marks:
        return cell
    marks = marks | {"cell_type": cell["cell_type"], "checksum": checksum(cell)}
    locks = {"deletable": False} | ({} if marks["solution"] else {"editable": False})
    return cell | {"metadata": {"nbgrader": marks, **locks}}


def secrets_of(chapter: Chapter) -> list[stubs.Secret]:
    """The statements of every answer of the chapter."""
    found = []
    for name, node in chapter.definitions.items():
        for _, statements in stubs.answers(node):
            found += stubs.secrets(name, statements)
    for cell in chapter.cells:
        name = cell.options.get("solution", cell.options.get("grade"))
        if name is None:
            continue
        answer = stubs.region_of(cell.source, "SOLUTION")
        manual = cell.options.get("manual") or cell.cell_type == "markdown"
        if not answer and ("solution" in cell.options or manual):
            answer = cell.source
        found += stubs.secrets_in_text(name, answer)
    return found


def _refuse_leak(text: str, path: Path, line: int, secrets: list[stubs.Secret]) -> None:
    if hit := stubs.find_leak(text, secrets):
        secret, offset = hit
        message = f"this shows students an answer of {secret.owner!r}: `{secret.text}`; say it in other words."
        raise SourceError(path, line + offset - 1, message)


def _refuse_leaking_hints(chapter: Chapter, secrets: list[stubs.Secret]) -> None:
    for name in chapter.kernels:
        check = chapter.checks[name]
        for hint in (*check.hints, *(mistake.hint for mistake in check.mistakes)):
            if stubs.find_leak(hint, secrets):
                _refuse_leak(hint, chapter.checks_module, _line_of_text(chapter.checks_module, hint), secrets)


def _line_of_text(path: Path, text: str) -> int:
    """The line where a module writes a text that its code holds as one string."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return next((node.lineno for node in nodes if isinstance(node, ast.Constant) and node.value == text), 1)


def _as_file(stem: str, cells: list[dict[str, Any]]) -> str:
    """A notebook's file, in the layout that nbformat writes."""
    notebook = {
        "cells": [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in cells],
        "metadata": {
            "autograder": {"release": __version__, "stem": stem},
            "kernelspec": KERNELSPEC,
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
