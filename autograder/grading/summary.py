"""The marks of a class as tables in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.grading.results import KernelMark, SubmissionResult


def print_marks(console: Console, results: Sequence[tuple[str, SubmissionResult]]) -> None:
    """A table for each chapter: a row for each student, a column for each kernel, and remarks for the instructor."""
    for stem in sorted({result.stem for _, result in results}):
        rows = [(student, result) for student, result in results if result.stem == stem]
        table = Table(title=stem, title_justify="left", pad_edge=False)
        table.add_column("student", overflow="fold")
        for mark in rows[0][1].kernels:
            table.add_column(f"{mark.kernel}\nof {mark.points}", justify="right", overflow="fold")
        table.add_column(f"total\nof {rows[0][1].points}", justify="right")
        table.add_column("remarks", overflow="fold")
        for student, result in rows:
            scores = (str(mark.score) for mark in result.kernels)
            table.add_row(escape(student), *scores, str(result.score), escape("; ".join(remarks(result))))
        console.print(table)


def remarks(result: SubmissionResult) -> list[str]:
    """What an instructor should know of a submission, in a few words each."""
    found = [remark.rstrip(".") for remark in result.remarks]
    found += [f"cell {problem.cell} {problem.kind}" for problem in result.problems if problem.kind != "raised"]
    for mark in result.kernels:
        said = _of_kernel(mark)
        found += [f"{mark.kernel}: {said}"] if said else []
    return found


def _of_kernel(mark: KernelMark) -> str:
    known = " or ".join(mark.mistakes[:2]) + (" or others" if len(mark.mistakes) > 2 else "")
    return ", ".join(part for part in (*mark.flags, known) if part)
