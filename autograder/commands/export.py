"""``autograder export``."""

import argparse
import io
import sys
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.grade import add_places, db_url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, help="the CSV file to write (default: standard output)")
    add_places(parser)
    parser.add_argument("--excel", action="store_true", help="begin with the mark by which Excel knows UTF-8")


def run(arguments: argparse.Namespace) -> int:
    from autograder.grading.exporting import write_csv
    from autograder.grading.gradebook import marks_of_all, open_gradebook
    from autograder.notebooks import write_text

    if arguments.db is None and not (arguments.out / "gradebook.db").exists():
        raise WrongUse(f"{arguments.out} holds no gradebook; to grade submissions:  autograder grade")
    text = io.StringIO("\ufeff" if arguments.excel else "", newline="")
    text.seek(0, io.SEEK_END)
    with open_gradebook(db_url(arguments)) as gradebook:
        write_csv(text, marks_of_all(gradebook))
    if arguments.file is None:
        sys.stdout.write(text.getvalue())
    else:
        write_text(arguments.file, text.getvalue())
        print(f"Marks: {arguments.file}")
    return 0
