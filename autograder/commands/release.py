"""``autograder release --without-solutions OUT``."""

import argparse
import subprocess
import sys
from pathlib import Path

from autograder.cli import WrongUse
from autograder.commands.collect import add_settings, settings_of

EPILOG = """\
OUT gets the site, the notebooks and the package, to be given to students: without the solutions, references and check
modules of the assigned chapters. The checks in the notebooks work as before, on stored arrays of the visible cases, and
name the same mistakes. Every file is searched for statements of the solutions before OUT is there.

A chapter that is over is opened by --open; its solutions are in the next release.

Exit code 0 when OUT was written, 1 when a file would show a solution (each is named) or the site cannot be built,
2 for wrong use.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--without-solutions", type=Path, metavar="OUT", required=True, help="the directory to make")
    parser.add_argument("--open", action="append", default=[], metavar="CHAPTER", help="a chapter that is over")
    parser.add_argument("--no-site", action="store_true", help="leave the site out, which takes minutes to build")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    from autograder.notebooks import ROOT

    out = arguments.without_solutions
    if not (ROOT / "solutions").is_dir():
        raise WrongUse("a release is made in a checkout of the course, and this is none.")
    if out.exists():
        raise WrongUse(f"{out} is there already; name a directory that is not.")
    settings, stems = settings_of(arguments)
    for stem in arguments.open:
        if stem not in stems:
            raise WrongUse(f"there is no chapter {stem!r}; there are {', '.join(stems)}.")
    from autograder.course import releasing

    withheld = releasing.withheld_stems(settings.assigned(stems), arguments.open)
    if not withheld:
        raise WrongUse("every assigned chapter is open, so there is nothing to leave out: give out the course itself.")
    try:
        releasing.release(out, withheld, with_site=not arguments.no_site)
    except releasing.Leak as leak:
        print(f"Not released, as students would see solutions:\n{leak}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print("Not released: the site was not built; the warnings above say why.", file=sys.stderr)
        return 1
    print(f"Released without the solutions of {', '.join(withheld)}: {out}")
    return 0
