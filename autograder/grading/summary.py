"""The marks of a class as tables in a terminal."""

import re
from collections import defaultdict
from collections.abc import Iterable

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.grading.results import KernelMark, SubmissionResult
from autograder.telling import one_line

WORD_END = re.compile(r"(?<=_)(?=.)|(?<=[a-z])(?=[A-Z])")


def print_marks(console: Console, results: Iterable[tuple[str, SubmissionResult]]) -> None:
    """For each chapter the marks, a row for each student and a column for each kernel, and below them the remarks."""
    tables: dict[str, Table] = {}
    below: dict[str, list[str]] = defaultdict(list)
    for student, result in results:
        if result.stem not in tables:
            tables[result.stem] = _table(result)
        shown = escape(one_line(student))
        tables[result.stem].add_row(shown, *(str(mark.score) for mark in result.kernels), str(result.score))
        below[result.stem] += [f"  {shown}: {escape(remark)}" for remark in remarks(result)]
    for stem in sorted(tables):
        console.print(tables[stem])
        for line in below[stem]:
            console.print(line, highlight=False, soft_wrap=True)
        console.print()


def _table(result: SubmissionResult) -> Table:
    """The table of a chapter, without rows, for which one result gives the columns."""
    table = Table(title=result.stem, title_justify="left", box=SIMPLE, collapse_padding=True, pad_edge=False)
    table.add_column("student", no_wrap=True)
    for mark in result.kernels:
        name = WORD_END.sub("\n", mark.kernel)
        table.add_column(f"{name}\nof {mark.points}", justify="right", overflow="fold")
    table.add_column(f"total\nof {result.points}", justify="right", no_wrap=True)
    return table


def remarks(result: SubmissionResult) -> list[str]:
    """What an instructor should know of a submission, in a few words each."""
    found = [remark.rstrip(".") for remark in result.remarks]
    found += [
        f"cell {problem.cell}: {problem.text.rstrip('.')}" for problem in result.problems if problem.kind != "raised"
    ]
    found += result.alarms
    for mark in result.kernels:
        if "missing" not in mark.flags:
            said = mark.flags or _known(mark)
            found += [f"{mark.kernel}: {', '.join(said)}"] if said else []
        elif not result.remarks:
            found.append(mark.aspects[0].why.replace("`", "").rstrip("."))
    return found


def _known(mark: KernelMark) -> list[str]:
    """The known mistakes that a kernel's answers look like, two at the most."""
    return [" or ".join(mark.mistakes[:2]) + (" or others" if len(mark.mistakes) > 2 else "")] if mark.mistakes else []
