"""``autograder export``."""

import argparse
import io
import sys
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.collect import add_settings, settings_of
from autograder.commands.grade import add_places, db_url, gradebook_in_use

EPILOG = """\
--to canvas and --to moodle write what the platform imports, with lateness counted by the rule in course.toml. Give as
--base the file that the platform exported: Canvas's gradebook (Grades, Export), or Moodle's grading worksheet of one
assignment. Its rows and numbers stay, marks are put on its scale, and students who are not in it are named. A late
student's line says the mark before and after the penalty.

A mark that is missing, as one that a person is to give, is an empty cell; its sums are "incomplete", and a platform's
file leaves what the platform has.

Exit code 0 when every mark found its place, 1 when a student is not in the base, 2 for wrong use.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("file", nargs="?", type=Path, help="the CSV file to write (default: standard output)")
    add_places(parser)
    add_settings(parser)
    parser.add_argument("--to", choices=("plain", "canvas", "moodle"), default="plain", help="for which platform")
    parser.add_argument("--base", type=Path, metavar="CSV", help="what the platform exported, to be filled in")
    parser.add_argument("--assignment", action="append", metavar="CHAPTER", help="this chapter (default: all)")
    parser.add_argument("--column", default="Grade", metavar="TITLE", help="Moodle's column for marks (default: Grade)")
    parser.add_argument("--raw", action="store_true", help="marks before the penalty, for a platform with its own rule")
    parser.add_argument("--excel", action="store_true", help="begin with the mark by which Excel knows UTF-8")


def run(arguments: argparse.Namespace) -> int:
    if arguments.base and arguments.to == "plain":
        raise WrongUse("--base is a file of Canvas or Moodle; say which:  --to canvas  or  --to moodle")
    from autograder.course.handed_in import Ledger
    from autograder.course.marks import totals
    from autograder.course.standing import standings

    settings, stems = settings_of(arguments)
    for stem in arguments.assignment or ():
        if stem not in stems:
            raise WrongUse(f"there is no chapter {stem!r}; there are {', '.join(stems)}.")
    wanted = arguments.assignment or settings.assigned(stems)
    with gradebook_in_use(arguments):
        marks = [entry for entry in standings(_existing(arguments)) if entry.stem in wanted]
    for entry in marks:
        if entry.unmarked:
            missing = ", ".join(entry.unmarked)
            print(f"{entry.student}, {entry.stem}: no mark yet, so the sum is left open: {missing}.", file=sys.stderr)
    ledger = Ledger(arguments.out)
    sums = totals(marks, ledger, settings)
    if arguments.to == "plain":
        return _write(arguments, _plain(marks, sums, settings, arguments.excel))
    return _upload(arguments, sums, ledger, settings)


def _plain(marks, sums, settings, bom: bool) -> str:
    from autograder.course.marks import course_percent
    from autograder.grading.exporting import write_csv

    due = {stem for (_, stem), total in sums.items() if total.days_late or settings.of(stem).deadline}
    percent = {entry.student: course_percent(entry.student, sums, settings) for entry in marks}
    text = io.StringIO("\ufeff" if bom else "", newline="")
    text.seek(0, io.SEEK_END)
    write_csv(text, marks, sums, due, percent)
    return text.getvalue()


def _upload(arguments: argparse.Namespace, sums, ledger, settings) -> int:
    from autograder.course import uploads
    from autograder.grading.exporting import shown

    def value(total) -> float | None:
        return total.earned if arguments.raw else total.after_penalty

    try:
        base = uploads.read_base(arguments.base) if arguments.base else None
        if arguments.to == "canvas":
            upload = uploads.for_canvas(sums, ledger.entries, value, base)
        else:
            stems = sorted({stem for _, stem in sums})
            upload = uploads.for_moodle(sums, ledger.entries, value, base, stems, arguments.column)
    except uploads.BaseError as error:
        raise WrongUse(str(error)) from None
    upload.bom = upload.bom or arguments.excel
    code = _write(arguments, upload.text())
    for (student, stem), total in sorted(sums.items()):
        if total.days_late:
            days = f"{total.days_late} day{'s' * (total.days_late > 1)} late{' (a guess)' * total.is_guess}"
            before, after = shown(total.earned), shown(total.after_penalty)
            change = f"{before} of {total.points:g} before, {after} after the penalty"
            print(f"{student}, {stem}: {days}: {change}.", file=sys.stderr)
    for note in upload.notes:
        print(f"note: {note}", file=sys.stderr)
    for student in upload.unplaced:
        print(f"not placed: {student}", file=sys.stderr)
    return 1 if upload.unplaced else code


def _write(arguments: argparse.Namespace, text: str) -> int:
    from autograder.course.handed_in import write_bytes

    if arguments.file is None:
        sys.stdout.write(text)
    else:
        write_bytes(arguments.file, text.encode())
        print(f"Marks: {arguments.file}")
    return 0


def _existing(arguments: argparse.Namespace) -> str:
    """The URL of a gradebook that is there: nbgrader would make an empty one."""
    from sqlalchemy import make_url

    url = make_url(db_url(arguments))
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        where = arguments.db or arguments.out
        raise WrongUse(f"{where} holds no gradebook; to grade submissions:  autograder grade")
    return db_url(arguments)
