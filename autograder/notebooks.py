"""The course's notebooks as data: reading them, telling their cells apart, finding the kernels that they define."""

import ast
import functools
import hashlib
import json
import os
import re
import shutil
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder import catalog

ROOT = Path(__file__).parents[1]
SHARE = Path(sysconfig.get_path("data"), "share", "attention-course")  # where pip puts what is no package
DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
BEGIN = re.compile(r"""^begin\(\s*["'](\w+)["']""", re.MULTILINE)
KERNEL_ID = re.compile(r"kernel-(\w+)")
RELEASED_ID = re.compile(r"(?:prose|setup|experiment)-([0-9a-f]{8})(?:-\d+)?")

Cell = Mapping[str, Any]


def released_path(stem: str) -> Path:
    """Where the student's notebook of a chapter lies: in the checkout, or where an installed package keeps it."""
    checkout = ROOT / "exercises" / stem / f"{stem}.ipynb"
    installed = SHARE / "exercises" / f"{stem}.ipynb"
    return installed if installed.exists() and not checkout.exists() else checkout


def stems() -> list[str]:
    """The chapters that have a notebook to hand out, in the order of the alphabet."""
    return sorted(stem for stem in set(catalog.kernels().values()) if released_path(stem).exists())


def released(stem: str) -> dict[str, Any]:
    """The student's notebook of a chapter as it was written; ``nbformat`` takes seconds to load."""
    return json.loads(released_path(stem).read_bytes())


@functools.cache
def title(stem: str) -> str:
    """What a chapter's notebook calls itself in its first heading; the words of the stem where it has no notebook."""
    if released_path(stem).exists():
        for cell in released(stem)["cells"]:
            lines = "".join(cell["source"]).splitlines()
            if cell["cell_type"] == "markdown" and lines[:1] and lines[0].startswith("# "):
                return lines[0].removeprefix("# ")
    return stem.replace("_", " ").capitalize()


def read_released(stem: str):
    """The student's notebook of a chapter, as the installed release hands it out.

    Raises
    ------
    FileNotFoundError
        If the chapter has no notebook; the message names the command that makes it.
    """
    import nbformat

    path = released_path(stem)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. To generate it:  autograder notebooks {stem}")
    return nbformat.read(path, as_version=4)


def read_notebook(path: Path):
    """A notebook of any format that Jupyter reads, in the newest.

    Raises
    ------
    ValueError
        If the file is not a notebook.
    FileNotFoundError
        If there is no such file.
    """
    import nbformat

    try:
        # Some editors put a byte order mark at the beginning.
        notebook = nbformat.reads(Path(path).read_text(encoding="utf-8-sig"), as_version=4)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] and isinstance(cell["source"], str)]
    except OSError:
        raise
    except Exception as error:  # nbformat fails in many ways on a file that is no notebook
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ValueError(f"{path} is not a notebook ({reason}); give the .ipynb file itself.") from None
    _drop_odd(notebook["metadata"], {"autograder": Mapping})
    for cell in cells:
        _drop_odd(cell, {"id": str})
        _drop_odd(cell.setdefault("metadata", {}), {"nbgrader": Mapping, "tags": list})
        _drop_odd(cell["metadata"].get("nbgrader", {}), {"grade_id": str})
    return notebook


def _drop_odd(owner, types: Mapping[str, type]) -> None:
    """Remove what is not of the type that it should be of, as other tools leave it, before anything trips over it."""
    for name, type_ in types.items():
        if name in owner and not isinstance(owner[name], type_):
            del owner[name]


def as_text(notebook: Mapping[str, Any]) -> str:
    """The text of a notebook's file in format 4.5, which gives each cell an id."""
    import nbformat

    notebook = nbformat.from_dict({**notebook, "nbformat": 4, "nbformat_minor": 5})
    return nbformat.writes(notebook) + "\n"


def cell_kind(cell: Cell) -> str:
    """What a cell is for: "kernel", "check", "setup", "experiment" or "prose".

    What stands in the cell decides, so that a notebook whose metadata was stripped is read the same; metadata
    decide only where a kernel's or check's cell no longer holds what belongs there. A hand-written answer counts as
    a kernel and a hand-written test as a check.
    """
    if cell["cell_type"] != "code":
        return "prose"
    if any(name in catalog.kernels() for name in defined_names(cell["source"])):
        return "kernel"
    if is_only_checks(cell["source"]):
        return "check"
    if "setup" in cell["metadata"].get("tags", ()) or BEGIN.search(cell["source"]):
        return "setup"
    nbgrader = cell["metadata"].get("nbgrader", {})
    if nbgrader.get("solution"):
        return "kernel"
    return "check" if nbgrader.get("grade") else "experiment"


def defined_names(source: str) -> list[str]:
    """Names of the functions and classes that a cell defines, also where it does not parse.

    A lambda or another name's function that is assigned counts, and what stands in a block such as ``if`` or ``try``.
    """
    return list(_defined_names(source))


@functools.lru_cache(maxsize=128)
def _defined_names(source: str) -> tuple[str, ...]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return tuple(DEFINITION.findall(source))
    return tuple(_defined(body))


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda | ast.Name):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        else:
            for block in ("body", "handlers", "orelse", "finalbody"):
                yield from _defined(getattr(node, block, ()))


@functools.lru_cache(maxsize=128)  # most cells of a class are those that were handed out
def is_only_checks(source: str) -> bool:
    """Whether a cell does nothing but call ``check``."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(body) and all(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "check"
        for node in body
    )


def kernel_cells(cells: Iterable[Cell]) -> Iterator[tuple[int, str]]:
    """The place of each cell that defines a kernel of the course, and the kernel's name, in order."""
    for place, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            for name in defined_names(cell["source"]):
                if name in catalog.kernels():
                    yield place, name


def kernel_sources(notebook: Mapping[str, Any]) -> dict[str, str]:
    """The source of the last cell that defines each kernel, by the kernel's name."""
    return {name: notebook["cells"][place]["source"] for place, name in kernel_cells(notebook["cells"])}


def chapter_of(notebook: Mapping[str, Any], path: Path) -> str:
    """The chapter of a notebook: by its stamp, else its ``begin`` call, else the kernels that it defines.

    Raises
    ------
    ValueError
        If it is no notebook of this course; the message names ``path``.
    """
    known = set(catalog.kernels().values())
    begun = (BEGIN.search(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    claims = [notebook["metadata"].get("autograder", {}).get("stem"), *(match[1] for match in begun if match)]
    stems = [stem for stem in claims if stem in known]
    stems = stems[:1] or [catalog.stem_of(name) for name in kernel_sources(notebook)]
    if not stems:
        raise ValueError(
            f"{path} is not of this course: it defines none of its kernels, and `begin` names none of its chapters "
            f"({', '.join(sorted(known))})."
        )
    return max(stems, key=stems.count)


def digest(source: str) -> str:
    """Eight letters that change when a cell's source does; the ids of released cells end in them."""
    return hashlib.sha256(source.encode()).hexdigest()[:8]


def checksum(cell: Cell) -> str:
    """nbgrader's checksum of a cell with its marks, by which it notices that a cell was changed."""
    marks = cell["metadata"]["nbgrader"]
    parts = [cell["source"], cell["cell_type"], str(marks["grade"]), str(marks["solution"])]
    parts += [str(marks["locked"] and not marks["solution"]), marks["grade_id"]]
    if marks["grade"]:
        parts.append(str(float(marks["points"])))
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def is_as_released(cell: Cell) -> bool | None:
    """Whether a cell's source is as the release that made it had it; None where no mark of that release is left."""
    if match := RELEASED_ID.fullmatch(cell.get("id", "")):
        return match[1] == digest(cell["source"])
    marks = cell["metadata"].get("nbgrader", {})
    try:
        return marks["checksum"] == checksum(cell)
    except (KeyError, TypeError, ValueError):
        return None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half_done = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half_done.write_text(text, encoding="utf-8", newline="\n")
        if path.exists():
            shutil.copymode(path, half_done)
        os.replace(half_done, path)
    finally:
        half_done.unlink(missing_ok=True)
