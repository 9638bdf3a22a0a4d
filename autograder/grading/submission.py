"""Reading a notebook that was handed in, without running it."""

import difflib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from autograder import notebooks

SIZE_LIMIT = 20_000_000  # bytes of a notebook, outputs included
CODE_LIMIT = 500_000  # characters of its code; to parse a million takes up to a gigabyte


class NotReadable(Exception):
    """What was handed in is not a notebook; the message says why."""


def read_file(path: Path, folder: Path) -> bytes:
    """The bytes of a file that a student handed in below ``folder``.

    Raises
    ------
    NotReadable
        If it is not a file, is or lies behind a link that leads elsewhere, is too large, or may not be opened.
    """
    try:
        return _read_file(path, folder)
    except OSError as error:
        raise NotReadable(f"{path.name} cannot be read: {error.strerror}.") from None


def _read_file(path: Path, folder: Path) -> bytes:
    if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve()):
        raise NotReadable(f"{path.name} is a link to another file, not a notebook.")
    if not path.is_file():
        raise NotReadable(f"{path.name} is a {'directory' if path.is_dir() else 'device'}, not a notebook.")
    if (size := path.stat().st_size) > SIZE_LIMIT:
        raise NotReadable(f"{path.name} has {size / 1e6:.0f} MB; a notebook may have {SIZE_LIMIT / 1e6:.0f} MB.")
    return path.read_bytes()


def read_notebook(data: bytes) -> dict[str, Any]:
    """The notebook in a file's bytes: its metadata, and its cells with type, source and metadata; outputs are left out.

    Raises
    ------
    NotReadable
        If the bytes are no notebook; the message says why.
    """
    if not data.strip():
        raise NotReadable("The file is empty.")
    if len(data) > SIZE_LIMIT:
        raise NotReadable(f"The file has {len(data) / 1e6:.0f} MB; a notebook may have {SIZE_LIMIT / 1e6:.0f} MB.")
    try:
        parsed = json.loads(data)
    except RecursionError:
        raise NotReadable("The file is nested too deeply to be a notebook.") from None
    except ValueError as error:
        raise NotReadable(f"The file is not a notebook: it is not valid JSON ({error}).") from None
    if not isinstance(parsed, dict):
        raise NotReadable("The file is not a notebook: it holds no cells.")
    cells = parsed.get("cells")
    if cells is None and isinstance(parsed.get("worksheets"), list):  # notebooks of version 3
        sheets = [sheet.get("cells") for sheet in parsed["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list):
        raise NotReadable("The file is not a notebook: it holds no cells.")
    read = [_cell(cell) for cell in cells if isinstance(cell, dict)]
    code = sum(len(cell["source"]) for cell in read if cell["cell_type"] == "code")
    if code > CODE_LIMIT:
        raise NotReadable(f"Its cells hold {code:,} characters of code; a notebook may have {CODE_LIMIT:,}.")
    return {"metadata": _metadata(parsed), "cells": read}


def _cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    text = source if isinstance(source, str) else ""
    return {
        "cell_type": "code" if cell.get("cell_type") == "code" else "markdown",
        "source": text.encode("utf-8", "replace").decode(),  # a lone surrogate could not be written anywhere
        "metadata": _metadata(cell),
    }


def _metadata(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that the course reads, as far as they have the form that it gave them."""
    metadata = owner.get("metadata")
    kept: dict[str, Any] = {}
    if isinstance(metadata, dict):
        for name in ("autograder", "nbgrader"):
            if isinstance(metadata.get(name), dict):
                kept[name] = {key: value for key, value in metadata[name].items() if isinstance(value, str | bool)}
        if isinstance(metadata.get("tags"), list):
            kept["tags"] = [tag for tag in metadata["tags"] if isinstance(tag, str)]
    return kept


def read_released(stem: str) -> dict[str, Any]:
    """The notebook of a chapter as it was handed out, read in the same way; ``nbformat`` takes seconds to load."""
    return read_notebook(notebooks.released_path(stem).read_bytes())


def cells_to_run(notebook: Mapping[str, Any], released: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Number (from 1) and source of the code cells that count for the grade.

    Experiments and checks that are as they were handed out are left out: they define nothing that is graded.
    """
    kinds = ("experiment", "check")
    given = {_normal(cell["source"]) for cell in released["cells"] if notebooks.cell_kind(cell) in kinds}
    return [
        (number, cell["source"])
        for number, cell in enumerate(notebook["cells"], 1)
        if cell["cell_type"] == "code" and cell["source"].strip() and _normal(cell["source"]) not in given
    ]


def _normal(source: str) -> str:
    """A cell's source without what editors change on their own: spaces at line ends, blank lines around it."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def defining_cells(notebook: Mapping[str, Any]) -> dict[str, int]:
    """The number of the last cell that defines each name, also where that cell does not parse."""
    return {
        name: number
        for number, cell in enumerate(notebook["cells"], 1)
        if cell["cell_type"] == "code"
        for name in notebooks.defined_names(cell["source"])
    }


def similar_name(name: str, defined: Collection[str]) -> str | None:
    """The name among those defined that was probably meant."""
    folded = {re.sub(r"[^a-z0-9]", "", other.lower()): other for other in defined}
    near = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", name.lower()), folded, 1, cutoff=0.75)
    return folded[near[0]] if near else None
