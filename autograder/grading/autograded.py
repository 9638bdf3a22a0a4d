"""The notebook that formgrader opens: the student's cells, the marks of the release on them, our verdicts below."""

import ast
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from autograder import notebooks
from autograder.grading.results import KernelMark, SubmissionResult
from autograder.grading.submission import defining_cells, read_notebook


def autograded_notebook(data: bytes, result: SubmissionResult, released: Mapping[str, Any]) -> str:
    """A submission as formgrader shows it, as the text of a notebook file.

    Raises
    ------
    NotReadable
        If the bytes are no notebook.
    """
    notebook = restored_notebook(read_notebook(data)["cells"], released)
    for cell in notebook["cells"]:
        if (mark := mark_of_cell(cell, result)) is not None:
            cell["outputs"] = verdict(mark)
    return json.dumps(notebook, ensure_ascii=False)


def restored_notebook(cells: Sequence[Mapping[str, Any]], released: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a submission with the marks of the release on them, wherever the student or a tool put them.

    Outputs of the student are left out: they would run in the instructor's browser. A graded cell that the student
    deleted is put back at the end.
    """
    roles = {c["metadata"]["nbgrader"]["grade_id"]: c for c in released["cells"] if "nbgrader" in c["metadata"]}
    names = _names(cells, roles)
    made = [_cell(number, cell, roles.get(names.get(number, ""))) for number, cell in enumerate(cells, 1)]
    for name, cell in roles.items():
        if cell["metadata"]["nbgrader"]["grade"] and name not in names.values():
            made.append(_cell(len(made) + 1, cell, cell))
    return {"cells": made, "metadata": released["metadata"], "nbformat": 4, "nbformat_minor": 5}


def mark_of_cell(cell: Mapping[str, Any], result: SubmissionResult) -> KernelMark | None:
    """The mark that a check cell shows; None for any other cell."""
    name = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return next((mark for mark in result.kernels if name == f"check-{mark.kernel}"), None)


def verdict(mark: KernelMark) -> list[dict[str, Any]]:
    """What was found, as outputs of a check cell. The last one is what nbgrader takes the score from."""
    lines = [mark.verdict]
    for aspect in mark.aspects:
        lines.append(f"  [{'ok' if aspect.passed else '--'}] {aspect.title} ({aspect.score} of {aspect.points})")
        lines += [f"       {aspect.why}"] if aspect.why else []
    lines += [f"  -> {advice}" for advice in mark.advice]
    shown = {"output_type": "stream", "name": "stdout", "text": "\n".join(lines)}
    return [shown, _deciding(mark)]


def _deciding(mark: KernelMark) -> dict[str, Any]:
    """The score as a result; no points as an error, which formgrader and feedback show as a failed test."""
    if mark.score:
        data = {"text/plain": f"{mark.score:g}"}
        return {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None}
    text = f"0 of {mark.points} points"
    return {"output_type": "error", "ename": "NoPoints", "evalue": text, "traceback": [f"NoPoints: {text}"]}


def _names(cells: Sequence[Mapping[str, Any]], roles: Collection[str]) -> dict[int, str]:
    """Which marked cell of the release each cell is, by its number: by what it holds, else by the mark it bears."""
    numbers = {f"kernel-{name}": number for name, number in defining_cells({"cells": cells}).items()}
    for number, cell in enumerate(cells, 1):
        marked = str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
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
