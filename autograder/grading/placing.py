"""Finding what was handed in: which file of a student belongs to which chapter."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder import notebooks, telling
from autograder.grading.submission import NotReadable, read_file, read_notebook

NAME_LIMIT = 128  # characters of a student's name in nbgrader's tables
LOOK_LIMIT = 50  # notebooks of one student that are looked into
DEPTH_LIMIT = 20  # folders in folders that are looked into


@dataclass
class Found:
    """What a student handed in for one chapter: bytes, or why there are none; ``remarks`` are for the report."""

    student: str
    stem: str
    path: Path
    data: bytes | None = None
    remarks: list[str] = field(default_factory=list)


def find_submissions(directory: Path, stems: Collection[str]) -> Iterator[Found]:
    """What lies in a directory in nbgrader's layout, ``STUDENT/STEM/STEM.ipynb``, a student and a chapter at a time.

    A notebook that goes by another name is placed by what it holds.
    """
    for student in sorted(entry for entry in directory.iterdir() if entry.is_dir() and not entry.is_symlink()):
        if not can_be_a_student(student.name):
            continue
        yield from find_of_student(student, stems)


def can_be_a_student(name: str) -> bool:
    """Whether a gradebook can hold a name: bytes that are no text cannot be written, nor long names on PostgreSQL."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return len(name) <= NAME_LIMIT


def left_aside(directory: Path, students: Collection[str]) -> list[str]:
    """What lies in a directory of submissions and is no student's of whom something was found."""
    return sorted(entry.name for entry in directory.iterdir() if entry.name not in students and entry.name[0] != ".")


def find_of_student(folder: Path, stems: Collection[str]) -> Iterator[Found]:
    """What one student handed in."""
    misnamed = _misnamed(folder, stems)
    for stem in sorted(stems):
        path = folder / stem / f"{stem}.ipynb"
        found = Found(folder.name, stem, path)
        others = [candidate for candidate, chapter in misnamed if chapter == stem]
        if os.path.lexists(path):
            if others:
                found.remarks.append(f"Not graded, as {path.name} is there: {_listed(others, folder)}.")
        elif others:
            found.path = others[-1]
            found.remarks.append(
                f"Placed by what it holds: {_listed(others[-1:], folder)} should be {stem}/{path.name}."
            )
            if others[:-1]:
                found.remarks.append(f"Not graded, as a newer one is there: {_listed(others[:-1], folder)}.")
        elif os.path.isdir(path.parent):
            found.remarks.append("No notebook of this chapter was handed in.")
            yield found
            continue
        else:
            continue
        try:
            found.data = read_file(found.path, folder)
        except NotReadable as error:
            found.remarks.append(str(error))
        yield found


def _listed(paths: Sequence[Path], folder: Path) -> str:
    return telling.one_line(", ".join(str(path.relative_to(folder)) for path in paths))


def _misnamed(folder: Path, stems: Collection[str]) -> list[tuple[Path, str]]:
    """Notebooks whose name is not the right one, oldest first, with the chapter that each is of."""
    proper = {folder / stem / f"{stem}.ipynb" for stem in stems}
    candidates = [path for path in sorted(_notebooks_below(folder, DEPTH_LIMIT)) if path not in proper]
    found = []
    for path in sorted(candidates[:LOOK_LIMIT], key=lambda path: (path.stat().st_mtime, path)):
        try:
            stem = notebooks.chapter_of(read_notebook(read_file(path, folder)), path)
        except (NotReadable, ValueError):
            # It does not say what it is: the folder that it lies in says where it belongs.
            stem = path.relative_to(folder).parts[0]
        if stem in stems:
            found.append((path, stem))
    return found


def _notebooks_below(folder: Path, depth: int) -> Iterator[Path]:
    """The notebooks in a folder and, ``depth`` deep, in those below it; no link is followed."""
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.is_symlink()]
    except OSError:  # one that may not be opened
        return
    for entry in entries:
        if entry.is_dir():
            if depth and entry.name != ".ipynb_checkpoints":
                yield from _notebooks_below(Path(entry), depth - 1)
        elif entry.name.endswith(".ipynb") and entry.is_file():
            yield Path(entry)
