"""``autograder regrade STUDENT [KERNEL]``."""

import argparse
import sys
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.grade import (
    add_limits,
    add_places,
    db_url,
    gradebook_in_use,
    limits_of,
    rung_of,
    shown_url,
)

EPILOG = (
    "Shows the old and the new mark side by side and records nothing, unless --record is said. Exit code 0 when the "
    "notebook was graded, whatever the mark; 1 when the grader itself failed: the old mark is then flagged in the "
    "gradebook and in `autograder report`. 2 for wrong use."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("student", help="the student, as in the table of marks")
    parser.add_argument("kernel", nargs="?", help="the kernel that was asked about (default: all)")
    parser.add_argument("--assignment", metavar="CHAPTER", help="the chapter (default: all that were handed in)")
    parser.add_argument("--record", action="store_true", help="let the new mark take the place of the old")
    add_places(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    if sys.platform != "linux":
        raise WrongUse(f"grading needs Linux; this is {sys.platform}. A container or a virtual machine will do.")
    url = db_url(arguments)
    found = _found(arguments)
    rung = rung_of(arguments)
    from autograder.course import regrading

    regrades = regrading.regrade(found, arguments.out, limits_of(arguments), rung, arguments.kernel)
    for one in regrades:
        _show(one)
    failed = [one for one in regrades if one.new is None]
    wanted = regrades if arguments.record else failed
    if wanted:
        with gradebook_in_use(arguments):
            regrading.record(wanted, arguments.out, url)
    for one in regrades:
        recorded = regrading.RECORDED if arguments.record else regrading.SEEN
        regrading.log(one, arguments.out, regrading.FAILED if one.new is None else recorded)
    if arguments.record and len(failed) < len(regrades):
        print(f"Recorded: {shown_url(arguments)}")
    elif any(one.changes for one in regrades):
        print("Nothing is recorded yet. To record the new marks, give the same command with --record.")
    return 1 if failed else 0


def _found(arguments: argparse.Namespace) -> list:
    """The student's notebooks that were asked for."""
    from autograder import catalog, notebooks
    from autograder.grading.placing import find_submissions

    known = notebooks.stems()
    stems = [arguments.assignment] if arguments.assignment else known
    if arguments.assignment and arguments.assignment not in known:
        raise WrongUse(f"there is no chapter {arguments.assignment!r}; there are {', '.join(known)}.")
    if arguments.kernel:
        try:
            stems = {catalog.stem_of(arguments.kernel)}
        except catalog.UnknownKernel as error:
            raise WrongUse(str(error)) from None
        if arguments.assignment not in (None, *stems):
            raise WrongUse(f"{arguments.kernel} is a kernel of {stems.pop()}, not of {arguments.assignment}.")
    submitted: Path = arguments.out / "submitted"
    folders = sorted(path.name for path in submitted.iterdir()) if submitted.is_dir() else []
    if arguments.student not in folders:
        raise WrongUse(f"there is no {arguments.student!r} in {submitted}; there are {', '.join(folders) or 'none'}.")
    found = [one for one in find_submissions(submitted, stems) if one.student == arguments.student]
    if not found:
        raise WrongUse(f"{arguments.student} handed in nothing of {', '.join(sorted(stems))}.")
    return found


def _show(one) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from autograder.telling import one_line

    title = one_line(f"{one.found.student}, {one.found.stem}")
    if one.new is None:
        print(f"{title}: not graded, so the old mark is flagged: {one.error}", file=sys.stderr)
        return
    table = Table(title=escape(title), title_justify="left", box=SIMPLE, pad_edge=False)
    for column in ("kernel", "old", "new", "of"):
        table.add_column(column, justify="left" if column == "kernel" else "right", no_wrap=True)
    table.add_column("now")
    for old, new in one.pairs():
        changed = old is None or old.score != new.score
        style = "bold" if changed else ""
        verdict = new.verdict.removeprefix(f"{new.kernel}: ")
        table.add_row(
            new.kernel, str(old.score) if old else "none", str(new.score), str(new.points), escape(verdict), style=style
        )
    Console(highlight=False).print(table)
    if not one.changes:
        print("No mark changes.")
