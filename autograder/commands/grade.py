"""``autograder grade [SUBMITTED]``."""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from autograder import notebooks
from autograder.cli import WrongUse

RUNGS = ("bubblewrap", "landlock")
# Beside the course in a checkout; an installed package has no place of its own for students' work.
GRADING = (notebooks.ROOT if (notebooks.ROOT / "pyproject.toml").exists() else Path()) / "_build" / "grading"
EXIT_CODES = (
    "Exit code 0 when every submission has its mark, whatever the mark: a file that is no notebook gets 0 points. "
    "1 when the grader itself failed on a submission, which is then left for the next run. 2 for wrong use."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    parser.add_argument(
        "submitted",
        nargs="?",
        type=Path,
        help="directory with STUDENT/CHAPTER/CHAPTER.ipynb (default: submitted/ in the grading directory)",
    )
    parser.add_argument("--assignment", action="append", metavar="CHAPTER", help="grade this chapter (default: all)")
    add_places(parser)
    parser.add_argument("--workers", type=positive, metavar="N", help="submissions at once (default: one a core)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="grade on the workers of a Dask scheduler, such as tcp://host:8786, in place of processes here",
    )
    parser.add_argument("--quiet", action="store_true", help="for a log: no bar and no table, a line each minute")
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The options that say what a submission may use and what shuts it in."""
    parser.add_argument("--cpu-seconds", type=positive, default=30, help="for a cell or a kernel (default: 30)")
    parser.add_argument(
        "--wall-seconds",
        type=positive,
        help="the same by the clock (default: six times --cpu-seconds); the whole notebook has ten times as much",
    )
    parser.add_argument(
        "--sandbox",
        choices=RUNGS,
        help="what shuts student code in (default: the best that works here, as `autograder doctor` says)",
    )
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="run student code although nothing shuts it in beyond processes and limits of its own",
    )


def add_places(parser: argparse.ArgumentParser) -> None:
    """The options that say where the grading directory and the gradebook are."""
    parser.add_argument(
        "--out", type=Path, default=GRADING, metavar="DIR", help="the grading directory (default: _build/grading)"
    )
    parser.add_argument(
        "--db",
        metavar="URL",
        help="the gradebook: sqlite:///… or postgresql://… (default: gradebook.db in the grading directory)",
    )


def db_url(arguments: argparse.Namespace) -> str:
    """The gradebook's URL."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    text = arguments.db or f"sqlite:///{(arguments.out / 'gradebook.db').resolve()}"
    try:
        url = make_url(text)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError):
        raise WrongUse(
            f"{text!r} is not a database URL; give one such as sqlite:///gradebook.db or "
            "postgresql://USER:PASSWORD@HOST/DATABASE."
        ) from None
    except ImportError:
        raise WrongUse(
            f"a gradebook on {url.get_backend_name()} needs a driver that is not installed. To install that of "
            'PostgreSQL:  pip install ".[postgresql]"'
        ) from None
    return url.render_as_string(hide_password=False)


def shown_url(arguments: argparse.Namespace) -> str:
    """The gradebook's URL without the password."""
    from sqlalchemy import make_url

    return make_url(db_url(arguments)).render_as_string()


@contextlib.contextmanager
def gradebook_in_use(arguments: argparse.Namespace) -> Iterator[None]:
    """Say in words that the gradebook cannot be used: locked, no database, on a full disk."""
    from sqlalchemy.exc import DatabaseError

    try:
        yield
    except DatabaseError as error:
        raise WrongUse(f"the gradebook {shown_url(arguments)} cannot be used: {error.orig}.") from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    if sys.platform != "linux":
        raise WrongUse(f"grading needs Linux; this is {sys.platform}. A container or a virtual machine will do.")
    submitted = arguments.submitted or arguments.out / "submitted"
    if not submitted.is_dir():
        raise WrongUse(f"{submitted} is not a directory; give one with STUDENT/CHAPTER/CHAPTER.ipynb in it.")
    from autograder.grading import sandbox

    stems = _stems(arguments.assignment)
    _check_layout(submitted, stems)
    db_url(arguments)
    rung = _rung_on_cluster(arguments) if arguments.scheduler else rung_of(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if rung == sandbox.UNSAFE:
        print(f"Note: {sandbox.WARNING}", file=sys.stderr)
    return _grade(arguments, submitted, stems, rung)


def limits_of(arguments: argparse.Namespace):
    """What a submission may use."""
    from autograder.grading.session import Limits

    return Limits(arguments.cpu_seconds, arguments.wall_seconds or 6 * arguments.cpu_seconds)


def _rung_on_cluster(arguments: argparse.Namespace) -> str | None:
    """What shuts student code in on a cluster: as asked for, else the best that works on each of its machines."""
    if arguments.workers:
        raise WrongUse(
            f"--workers {arguments.workers} asks for processes here, --scheduler for none; give one of them."
        )
    _check_unsafe(arguments)
    from autograder.grading import sandbox

    return sandbox.UNSAFE if arguments.unsafe else arguments.sandbox


def _check_unsafe(arguments: argparse.Namespace) -> None:
    if arguments.unsafe and arguments.sandbox:
        raise WrongUse(f"--unsafe asks for no sandbox, --sandbox {arguments.sandbox} for one; give one of them.")


def rung_of(arguments: argparse.Namespace) -> str:
    """What shuts student code in: as asked for, else the best that works here."""
    from autograder.grading import sandbox

    _check_unsafe(arguments)
    if arguments.unsafe:
        return sandbox.UNSAFE
    if arguments.sandbox:
        if reason := sandbox.why_not(arguments.sandbox):
            raise WrongUse(f"{arguments.sandbox} does not work here: {reason}. `autograder doctor` says what does.")
        return arguments.sandbox
    try:
        return sandbox.best()
    except sandbox.NotAvailable as error:
        raise WrongUse(
            f"{error} `autograder doctor` says what to do. To grade all the same, submissions that you trust: "
            f"--unsafe. {sandbox.WARNING}"
        ) from None


def _stems(wanted: list[str] | None) -> list[str]:

    known = notebooks.stems()
    if not known:
        raise WrongUse("no chapter has a notebook; to generate them:  autograder notebooks")
    for stem in wanted or ():
        if stem not in known:
            raise WrongUse(f"there is no chapter {stem!r} with a notebook; there are {', '.join(known)}.")
    return sorted(set(wanted or known))


def _check_layout(submitted: Path, stems: list[str]) -> None:
    """Refuse a directory in which no student can be told from another."""
    from autograder import catalog
    from autograder.grading.placing import find_submissions

    if chapters := sorted({entry.name for entry in submitted.iterdir()} & set(catalog.kernels().values())):
        raise WrongUse(f"{submitted} holds {chapters[0]}, so it is one student's; give the directory that holds it.")
    if next(find_submissions(submitted, stems), None) is None:
        raise WrongUse(
            f"{submitted} holds no notebook of {', '.join(stems)}; give a directory with STUDENT/CHAPTER/CHAPTER.ipynb."
        )


def _grade(arguments: argparse.Namespace, submitted: Path, stems: list[str], rung: str | None) -> int:
    from rich.console import Console

    from autograder.grading.batch import NoCluster, grade_directory
    from autograder.grading.placing import can_be_a_student, left_aside
    from autograder.grading.progress import LogLines, bar
    from autograder.grading.summary import print_marks
    from autograder.telling import one_line

    console, begun = Console(quiet=arguments.quiet), time.monotonic()
    try:
        with (
            gradebook_in_use(arguments),
            contextlib.nullcontext(LogLines()) if arguments.quiet else bar(console) as progress,
        ):
            outcome = grade_directory(
                submitted,
                stems,
                db_url(arguments),
                arguments.out,
                limits=limits_of(arguments),
                workers=arguments.workers,
                scheduler=arguments.scheduler,
                rung=rung,
                progress=progress,
            )
    except NoCluster as error:
        raise WrongUse(f"{error}.") from None
    print_marks(console, outcome.results)
    as_before, seconds = len(outcome.results) - outcome.graded, time.monotonic() - begun
    print(f"{outcome.graded} graded, {as_before} as before, {len(outcome.failures)} not graded, in {seconds:.0f} s.")
    print(f"Marks: {shown_url(arguments)}")
    for entry in left_aside(submitted, {student for student, _ in outcome.results.places}):
        what = "no notebook found in" if can_be_a_student(entry) else "not a name that the gradebook can hold"
        print(f"{what}: {one_line(entry)}", file=sys.stderr)
    for failure in outcome.failures:
        print(f"not graded: {one_line(failure)}", file=sys.stderr)
    return 1 if outcome.failures else 0
