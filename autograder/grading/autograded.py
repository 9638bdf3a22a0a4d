"""The notebook that formgrader opens: the student's cells, the marks of the release on them, our verdicts below."""

import ast
import json
from collections.abc import Collection, Mapping
from typing import Any

from autograder import notebooks
from autograder.grading.results import KernelMark, SubmissionResult
from autograder.grading.submission import defining_cells, read_notebook


def autograded_notebook(data: bytes, result: SubmissionResult, released: Mapping[str, Any]) -> str:
    """A submission as formgrader shows it, as the text of a notebook file.

    Outputs of the student are left out: they would run in the instructor's browser. A graded cell that the student
    deleted is put back at the end.
    """
    roles = {c["metadata"]["nbgrader"]["grade_id"]: c for c in released["cells"] if "nbgrader" in c["metadata"]}
    marks = {f"check-{mark.kernel}": mark for mark in result.kernels}
    notebook = read_notebook(data)
    names = _names(notebook, roles)
    cells = [_cell(number, cell, roles.get(names.get(number, ""))) for number, cell in enumerate(notebook["cells"], 1)]
    for name, cell in roles.items():
        if cell["metadata"]["nbgrader"]["grade"] and name not in names.values():
            cells.append(_cell(len(cells) + 1, cell, cell))
    for cell in cells:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in marks:
            cell["outputs"] = [_verdict(marks[name])]
    whole = {"cells": cells, "metadata": released["metadata"], "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1)


def _names(notebook: Mapping[str, Any], roles: Collection[str]) -> dict[int, str]:
    """Which marked cell of the release each cell is, by its number: by what it holds, else by the mark it bears."""
    numbers = {f"kernel-{name}": number for name, number in defining_cells(notebook).items()}
    for number, cell in enumerate(notebook["cells"], 1):
        marked = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if cell["cell_type"] == "code" and notebooks.is_only_checks(cell["source"]):
            numbers[f"check-{_checked(cell['source'])}"] = number
        elif not marked.startswith(("kernel-", "check-")):
            numbers[marked] = number
    return {number: name for name, number in numbers.items() if name in roles}


def _checked(source: str) -> str:
    """The kernel that a check cell names first."""
    arguments = ast.parse(source).body[0].value.args
    return str(arguments[0].value) if arguments and isinstance(arguments[0], ast.Constant) else ""


def _cell(number: int, cell: Mapping[str, Any], role: Mapping[str, Any] | None) -> dict[str, Any]:
    made = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "source": "".join(cell["source"])}
    made["metadata"] = {"nbgrader": role["metadata"]["nbgrader"]} if role else {}
    return made | ({"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {})


def _verdict(mark: KernelMark) -> dict[str, Any]:
    """What was found, as the output of a check cell."""
    lines = [mark.verdict]
    for aspect in mark.aspects:
        lines.append(f"  [{'ok' if aspect.passed else '--'}] {aspect.title} ({aspect.score} of {aspect.points})")
        lines += [f"       {aspect.why}"] if aspect.why else []
    lines += [f"  -> {advice}" for advice in mark.advice]
    return {"output_type": "stream", "name": "stdout", "text": "\n".join(lines)}
