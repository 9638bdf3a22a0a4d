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

    url = _existing(arguments)
    text = io.StringIO("\ufeff" if arguments.excel else "", newline="")
    text.seek(0, io.SEEK_END)
    with open_gradebook(url) as gradebook:
        write_csv(text, marks_of_all(gradebook))
    if arguments.file is None:
        sys.stdout.write(text.getvalue())
    else:
        write_text(arguments.file, text.getvalue())
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
