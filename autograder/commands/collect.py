"""``autograder collect SOURCE [...]``."""

import argparse
import sys
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.grade import GRADING

EPILOG = """\
What a SOURCE may be: a folder (or zip) of students' folders; a folder of notebooks that are named for their students;
Canvas's "Download submissions"; Moodle's "Download all submissions"; what `gh classroom clone student-repos` made;
the inbound folder of nbgrader's exchange. It may be packed or unpacked, and may be given again: what was seen before
is not taken twice. Every hand-in is kept in handed_in/ below the grading directory; the one that counts, by `repeated`
in course.toml the latest, is put where `autograder grade` reads it.

Exit code 0 when everything was placed, 1 when something was not (each is named), 2 for wrong use.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from autograder.course.platforms import FORMATS

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("source", nargs="+", type=Path, help="a folder or a zip, as the platform gave it out")
    parser.add_argument("--from", dest="kind", choices=FORMATS, help="what it is (default: recognised)")
    parser.add_argument(
        "--assignment", metavar="CHAPTER", help="the chapter of notebooks that do not say it themselves"
    )
    parser.add_argument(
        "--out", type=Path, default=GRADING, metavar="DIR", help="the grading directory (default: _build/grading)"
    )
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The option that names the file of settings."""
    parser.add_argument(
        "--course", type=Path, metavar="FILE", help="the course's settings (default: course.toml, where there is one)"
    )


def settings_of(arguments: argparse.Namespace):
    """The settings, and the chapters of the course."""
    from autograder import notebooks
    from autograder.course.settings import SettingsError, read_settings

    stems = notebooks.stems()
    try:
        return read_settings(arguments.course, stems), stems
    except SettingsError as error:
        raise WrongUse(str(error)) from None


def run(arguments: argparse.Namespace) -> int:
    from autograder.course.collecting import collect
    from autograder.grading.submission import NotReadable

    settings, stems = settings_of(arguments)
    if arguments.assignment and arguments.assignment not in stems:
        raise WrongUse(f"there is no chapter {arguments.assignment!r}; there are {', '.join(stems)}.")
    for source in arguments.source:
        if not source.exists():
            raise WrongUse(f"{source} does not exist; give a folder or a zip.")
    try:
        outcome = collect(
            arguments.source,
            arguments.out,
            settings,
            stems,
            kind=arguments.kind,
            assignment=arguments.assignment,
        )
    except NotReadable as error:
        raise WrongUse(f"{', '.join(map(str, arguments.source))}: {error}") from None
    _tell(outcome, settings, arguments.out)
    return 1 if outcome.problems else 0


def _tell(outcome, settings, out: Path) -> None:
    for source, kind in outcome.kinds.items():
        print(f"{source}: read as {kind}.")
    print(f"{outcome.new} new, {outcome.seen} seen before.")
    for stem in sorted({entry.stem for entry in outcome.chosen}):
        own = [entry for entry in outcome.chosen if entry.stem == stem]
        print(f"{stem}: {len(own)} students in {out / 'submitted'}")
        for entry in own:
            if days := entry.days_late(settings):
                how = "by how much is not known" if entry.lateness_is_guessed else f"{days} day{'s' * (days > 1)}"
                print(f"  late: {entry.student} ({how})")
    for note in outcome.notes:
        print(f"  note: {note}")
    for problem in outcome.problems:
        print(f"not placed: {problem}", file=sys.stderr)
