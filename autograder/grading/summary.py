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
        if "missing" not in mark.flags:
            said = [*mark.flags, *_known(mark)]
            found += [f"{mark.kernel}: {', '.join(said)}"] if said else []
        elif not result.remarks:
            found.append(mark.aspects[0].why.replace("`", "").rstrip("."))
    return found


def _known(mark: KernelMark) -> list[str]:
    """The known mistakes that a kernel's answers look like, two at the most."""
    return [" or ".join(mark.mistakes[:2]) + (" or others" if len(mark.mistakes) > 2 else "")] if mark.mistakes else []
