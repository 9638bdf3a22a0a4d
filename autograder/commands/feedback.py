"""``autograder feedback``."""

import argparse
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.grade import GRADING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("student", nargs="*", help="write the pages of these students (default: all)")
    parser.add_argument(
        "--out", type=Path, default=GRADING, metavar="DIR", help="the grading directory (default: _build/grading)"
    )


def run(arguments: argparse.Namespace) -> int:
    from autograder.grading.feedback import page
    from autograder.grading.records import Results
    from autograder.notebooks import write_text

    results = list(Results(arguments.out).all())
    if not results:
        raise WrongUse(f"{arguments.out} holds no results; to grade submissions:  autograder grade")
    students = {student for student, _ in results}
    if unknown := [student for student in arguments.student if student not in students]:
        raise WrongUse(f"there is no result of {unknown[0]!r}; there are results of {', '.join(sorted(students))}.")
    pages = arguments.out / "feedback"
    wanted = [entry for entry in results if not arguments.student or entry[0] in arguments.student]
    for student, result in wanted:
        write_text(pages / student / f"{result.stem}.html", page(student, result))
    print(f"Feedback: {len(wanted)} pages in {pages}")
    return 0
