"""The command ``autograder``. Exit codes: 0 pass, 1 did not pass, 2 wrong use."""

import argparse
import errno
import sys
from importlib import import_module

from autograder import __version__

COMMANDS = {
    "check": "check the kernels of a notebook or a Python file on the visible cases",
    "hint": "print the hints for a kernel",
    "notebooks": "generate the student and solution notebooks from their sources, or find drift and leaks",
    "release": "write what students get: site, notebooks and package without solutions",
    "update": "bring an old notebook to the installed release and keep every answer",
    "collect": "bring in what students handed in on a learning platform",
    "grade": "grade submissions into nbgrader's gradebook",
    "regrade": "grade one student again and show the old and the new mark",
    "doctor": "say how this machine can shut student code in",
    "feedback": "write each student's feedback page",
    "report": "show what the class did, and which submissions need a person",
    "export": "write the marks as CSV, also for Canvas and Moodle",
}
NEED_THE_GRADER = ("grade", "regrade", "feedback", "export", "report")
WRONG_PATH = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class WrongUse(Exception):
    """What was given, what was wanted and what to do, in one message; the command ends with exit code 2."""


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="autograder", description="Checks and grades the notebooks of the course.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in argv[:1]:
            import_module(f"autograder.commands.{name}").add_arguments(subparser)
    arguments = parser.parse_args(argv)
    try:
        return import_module(f"autograder.commands.{arguments.command}").run(arguments)
    except WrongUse as error:
        reason = str(error)
    except WRONG_PATH as error:
        reason = f"{error.filename}: {error.strerror}." if error.filename else str(error)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        reason = f"{error.strerror}. Make room and give the same command again; it goes on where it stopped."
    except ModuleNotFoundError as error:
        if arguments.command not in NEED_THE_GRADER:
            raise
        reason = f'it needs {error.name}, which is not installed. To install the grader:  pip install ".[grade]"'
    print(f"autograder {arguments.command}: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    # The commands raise the WrongUse of the imported module, so its main is the one that knows it.
    sys.exit(import_module("autograder.cli").main())
