"""``autograder hint KERNEL``."""

import argparse

from autograder import catalog, telling
from autograder.cli import WrongUse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", help="the kernel's name, such as softmax")
    parser.add_argument("--level", type=int, default=1, help="how far up the ladder: 1 is the gentlest (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    try:
        hints = catalog.check_of(arguments.kernel).hints
    except catalog.UnknownKernel as error:
        raise WrongUse(str(error)) from None
    if not 1 <= arguments.level <= len(hints):
        raise WrongUse(f"--level is {arguments.level}; {arguments.kernel} has hints 1 to {len(hints)}.")
    print(telling.wrapped(f"Hint {arguments.level} of {len(hints)}: {hints[arguments.level - 1]}"))
    if arguments.level < len(hints):
        print(f"For the next hint: autograder hint {arguments.kernel} --level {arguments.level + 1}")
    return 0
