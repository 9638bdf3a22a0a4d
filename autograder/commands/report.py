"""``autograder report``."""

import argparse
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.collect import add_settings, settings_of
from autograder.commands.grade import add_places, db_url, gradebook_in_use

MOST = 8  # lines of a list in the terminal; the page has all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit code 0 when the report was written, 2 for wrong use (no results yet)."
    parser.add_argument(
        "file", nargs="?", type=Path, help="the HTML file (default: report.html in the grading directory)"
    )
    parser.add_argument("--assignment", action="append", metavar="CHAPTER", help="this chapter (default: all)")
    parser.add_argument("--quiet", action="store_true", help="write the page alone")
    add_places(parser)
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    from autograder.course.report import class_report
    from autograder.course.report_page import page
    from autograder.course.standing import standings
    from autograder.grading.staging import chapters_before
    from autograder.notebooks import write_text

    settings, stems = settings_of(arguments)
    for stem in arguments.assignment or ():
        if stem not in stems:
            raise WrongUse(f"there is no chapter {stem!r}; there are {', '.join(stems)}.")
    url = db_url(arguments)
    with gradebook_in_use(arguments):
        kept = standings(url) if arguments.db or (arguments.out / "gradebook.db").is_file() else []
    wanted = sorted(arguments.assignment or settings.assigned(stems), key=lambda stem: len(chapters_before(stem)))
    report = class_report(arguments.out, settings, kept, wanted)
    if not report.chapters:
        raise WrongUse(f"{arguments.out} holds no results; to grade submissions:  autograder grade")
    file = arguments.file or arguments.out / "report.html"
    write_text(file, page(report))
    if not arguments.quiet:
        _print(report)
    print(f"Report: {file}")
    return 0


def _print(report) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from autograder.course.report import KINDS, by_kind

    console = Console(highlight=False)
    for chapter in report.chapters:
        title = f"{chapter.stem}: {len(chapter.rows)} handed in, median {chapter.median:g} of {chapter.points}"
        table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
        table.add_column("kernel")
        for column in ("right", "partly", "wrong", "not written"):
            table.add_column(column, justify="right")
        for kernel in sorted(chapter.kernels, key=lambda kernel: -kernel.failing):
            counts = (kernel.right, kernel.partly, kernel.wrong, kernel.not_written)
            table.add_row(kernel.kernel, *map(str, counts))
        console.print(table)
        lines = [f"{m.count} of {m.of} {m.kernel}: {' or '.join(m.ids)}" for m in chapter.mistakes]
        _print_list(console, "Mistakes by name:", lines)
        lines = [f"{p.one} and {p.other}: {100 * p.share:.0f} % of {p.tokens} tokens" for p in chapter.alike]
        _print_list(console, "Nearly the same code (it proves nothing: read both):", lines)
    for kind, looks in by_kind(report.looks).items():
        lines = [f"{look.student}, {look.stem}: {look.what}" for look in looks]
        _print_list(console, f"To be looked at, {escape(kind)}: {len(looks)}. {escape(KINDS[kind])}", lines)


def _print_list(console, title: str, lines: list[str]) -> None:
    from rich.markup import escape

    from autograder.telling import one_line

    if not lines:
        return
    console.print(title, soft_wrap=True)
    for line in lines[:MOST]:
        console.print(f"  {escape(one_line(line))}", soft_wrap=True)
    if len(lines) > MOST:
        console.print(f"  and {len(lines) - MOST} more")
    console.print()
