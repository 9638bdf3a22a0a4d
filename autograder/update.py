"""Bringing an old notebook to the installed release: its text from the release, every answer from the student."""

import ast
import copy
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import nbformat

from autograder import __version__, catalog, stubs
from autograder.notebooks import (
    BEGIN,
    KERNEL_ID,
    RELEASED_ID,
    cell_kind,
    digest,
    is_as_released,
    is_only_checks,
    kernel_cells,
)

CHECKED = re.compile(r"""check\(\s*["'](\w+)["']""")
BEGIN_LINE = re.compile(r"^begin\(.*$", re.MULTILINE)
RELEASE = re.compile(r"""^begin\(.*release\s*=\s*["']([\w.+-]+)["']""", re.MULTILINE)
GIVEN_METADATA = ("nbgrader", "deletable", "editable")


@dataclass
class Updated:
    """An updated notebook, and what a student should know of the update.

    Parameters
    ----------
    notebook
        The release's notebook with the student's answers and own cells.
    changed
        Whether it differs from the notebook that was given, outputs aside.
    answers
        The student's code for each kernel that has any, by the kernel's name.
    own_cells
        How many cells of the student's own were kept.
    contracts
        Kernels whose signature, docstring or input checks are now other than in the student's cell.
    retired
        Kernels that the release no longer asks for.
    """

    notebook: Any
    changed: bool
    answers: dict[str, str] = field(default_factory=dict)
    own_cells: int = 0
    contracts: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)


def update(old: Mapping[str, Any], released: Mapping[str, Any]) -> Updated:
    """Merge a student's notebook into the release's; neither is changed.

    A kernel's answer is the last cell that defines it, wherever that stands. A cell of the student's own comes after
    the cell that it followed.
    """
    merge = _Merge(copy.deepcopy(old), copy.deepcopy(released))
    notebook = merge.run()
    return Updated(
        notebook,
        _essence(notebook) != _essence(old),
        merge.answers,
        len(notebook["cells"]) - len(released["cells"]),
        merge.contracts,
        merge.retired,
    )


def release_of(notebook: Mapping[str, Any]) -> str:
    """The release that a notebook says it is of, or "unknown"."""
    if stamped := notebook["metadata"].get("autograder", {}).get("release"):
        return str(stamped)
    found = (RELEASE.search(cell["source"]) for cell in notebook["cells"])
    return next((match[1] for match in found if match), "unknown")


def _essence(notebook: Mapping[str, Any]) -> tuple:
    """What makes two notebooks the same for a student: all but outputs and what editors write into metadata."""
    cells = [(cell["cell_type"], cell["source"], cell["metadata"].get("nbgrader")) for cell in notebook["cells"]]
    return cells, notebook["metadata"].get("autograder")


class _Merge:
    """One update under way: where each cell of the old notebook goes in the new one."""

    def __init__(self, old, released):
        self.old, self.new = old["cells"], released["cells"]
        self.released = released
        self.metadata = {**old["metadata"], **released["metadata"]}
        self.slots = {match[1]: i for i, cell in enumerate(self.new) if (match := KERNEL_ID.fullmatch(cell["id"]))}
        self.by_id = {cell["id"]: i for i, cell in enumerate(self.new)}
        self.own_before: dict[int, list] = {}
        self.own_after: dict[int, list] = {}
        self.at_end: list = []
        self.taken: set[int] = set()
        self.answers: dict[str, str] = {}
        self.contracts: list[str] = []
        self.retired: list[str] = []

    def run(self):
        """The new notebook."""
        winners = self._winners()
        attempts = {place: name for place, name in kernel_cells(self.old) if name in self.slots}
        anchor = -1
        for place, cell in enumerate(self.old):
            if place in winners:
                for name in winners[place]:
                    self._answer(name, cell)
                anchor = self.slots[winners[place][-1]]
            elif place in attempts:
                if _is_written(cell):
                    self.own_before.setdefault(self.slots[attempts[place]], []).append(cell)
            else:
                anchor = self._place(cell, anchor)
        self.released["cells"] = self._assembled()
        self.released["metadata"].update(self.metadata)
        return self.released

    def _winners(self) -> dict[int, list[str]]:
        """The cell that answers each kernel of the release: the last to define it, else the one made for it."""
        last = {name: place for place, name in kernel_cells(self.old)}
        for place, cell in enumerate(self.old):
            name = _made_for(cell)
            if name in self.slots and cell["source"].strip():
                last.setdefault(name, place)
        winners: dict[int, list[str]] = {}
        for name, place in last.items():
            if name in self.slots:
                winners.setdefault(place, []).append(name)
        return winners

    def _answer(self, name: str, cell) -> None:
        if not _is_written(cell):
            return
        source, slot = cell["source"], self.new[self.slots[name]]
        if stubs.given_part(source, name) not in (None, stubs.given_part(slot["source"], name)):
            self.contracts.append(name)
        slot["source"] = self.answers[name] = source

    def _place(self, cell, anchor: int) -> int:
        """Put one cell that answers no kernel; the place in the release that the next one follows."""
        same, name = self._same_in_release(cell), _made_for(cell)
        if same is not None:
            self.taken.add(same)
            return same
        if name in self.slots:  # a piece of an answer whose definition stands in another cell
            if cell["source"].strip():
                self.own_before.setdefault(self.slots[name], []).append(cell)
            return self.slots[name]
        if name is not None:
            if _is_written(cell):
                self._retire(name, cell)
            return anchor
        if cell_kind(cell) == "setup":
            return self._place_setup(cell, anchor)
        if is_as_released(cell):
            return self._successor(cell, anchor)
        place = self.by_id.get(_id(cell))
        if place is not None and place not in self.taken:
            if self._is_for_students(place):
                self.taken.add(place)
                self.new[place]["source"] = cell["source"]
                return place
            anchor = place
        if cell["source"].strip() and not _checks_nothing_known(cell):
            self.own_after.setdefault(anchor, []).append(cell)
        return anchor

    def _is_for_students(self, place: int) -> bool:
        """Whether a cell of the release is there to be edited: a hand-written exercise or an experiment."""
        cell = self.new[place]
        return bool(cell["metadata"].get("nbgrader", {}).get("solution")) or cell_kind(cell) == "experiment"

    def _successor(self, cell, anchor: int) -> int:
        """The place of the cell that replaces one of an older release: the next, if of its kind and new."""
        new = self.new[anchor + 1] if anchor + 1 < len(self.new) else None
        is_new = new is not None and all(new["source"] != other["source"] for other in self.old)
        return anchor + 1 if is_new and cell_kind(new) == cell_kind(cell) else anchor

    def _same_in_release(self, cell) -> int | None:
        matches = (
            i
            for i, new in enumerate(self.new)
            if i not in self.taken and (new["cell_type"], new["source"]) == (cell["cell_type"], cell["source"])
        )
        return next(matches, None)

    def _retire(self, name: str, cell) -> None:
        self.retired.append(name)
        note = f"Release {__version__} of the course no longer asks for `{name}`. Your code for it is kept here."
        self.at_end += [{"cell_type": "markdown", "metadata": {}, "source": note}, cell]

    def _place_setup(self, cell, anchor: int) -> int:
        """Keep what a student added to a setup cell, below the release's own; its place."""
        setups = [place for place, new in enumerate(self.new) if cell_kind(new) == "setup"]
        if BEGIN.search(cell["source"]):
            anchor = next(place for place in setups if BEGIN.search(self.new[place]["source"]))
        given = "\n".join(self.new[place]["source"] for place in setups)
        if not is_as_released(cell) and (added := _added(cell["source"], given)):
            self.own_after.setdefault(anchor, []).append({**cell, "source": added, "metadata": {}})
        return anchor

    def _assembled(self) -> list:
        """All cells in order, each with an id of its own, the student's without marks that only the release gives."""
        order = [(cell, True) for cell in self.own_after.get(-1, [])]
        for place, cell in enumerate(self.new):
            order += [(own, True) for own in self.own_before.get(place, [])]
            order.append((cell, False))
            order += [(own, True) for own in self.own_after.get(place, [])]
        order += [(cell, True) for cell in self.at_end]
        used = Counter(cell["id"] for cell in self.new)
        for cell, is_own in order:
            if is_own:
                _make_own(cell, used)
        return [nbformat.from_dict(cell) for cell, _ in order]


def _id(cell) -> str:
    """The name that the release gave to a cell: nbgrader's, else the cell's own id."""
    return cell["metadata"].get("nbgrader", {}).get("grade_id", cell.get("id", ""))


def _made_for(cell) -> str | None:
    """The kernel that a cell was made for by some release."""
    match = KERNEL_ID.fullmatch(_id(cell))
    return match[1] if match and cell["cell_type"] == "code" else None


def _is_written(cell) -> bool:
    """Whether a kernel's cell holds anything of the student's."""
    released = is_as_released(cell)
    return not (stubs.is_stub(cell["source"]) if released is None else released)


def _checks_nothing_known(cell) -> bool:
    """Whether a cell only checks kernels that the course no longer has."""
    source = cell["source"]
    return is_only_checks(source) and not any(name in catalog.kernels() for name in CHECKED.findall(source))


def _added(source: str, given: str) -> str:
    """What of a setup cell is not in the release's: without the statements given there and without ``begin``."""
    try:
        body, known = ast.parse(source).body, {ast.unparse(node) for node in ast.parse(given).body}
    except SyntaxError:
        return BEGIN_LINE.sub("", source).strip()
    lines = source.split("\n")
    for node in reversed(body):
        is_begin = BEGIN.match(ast.unparse(node)) is not None
        if is_begin or ast.unparse(node) in known:
            del lines[node.lineno - 1 : node.end_lineno]
    left = "\n".join(lines).strip()
    return "" if set(left.splitlines()) <= {"", *given.splitlines()} else left


def _make_own(cell, used: Counter) -> None:
    """Take the release's marks from a cell of the student's, and give it an id of its own."""
    for name in GIVEN_METADATA:
        cell["metadata"].pop(name, None)
    if not cell.get("id") or used[cell["id"]] or KERNEL_ID.fullmatch(cell["id"]) or RELEASED_ID.fullmatch(cell["id"]):
        base = cell["id"] = f"own-{digest(cell['source'])}"
        number = 1
        while used[cell["id"]]:
            number += 1
            cell["id"] = f"{base}-{number}"
    used[cell["id"]] += 1
