"""``autograder doctor``."""

import argparse
import platform
import sys
import textwrap

WHAT = {
    "bubblewrap": (
        "namespaces by bubblewrap, a filter of system calls, limits",
        "Student code sees Python, the packages and the course without its answers; no network, no other process, "
        "and private directories in memory.",
    ),
    "landlock": (
        "Landlock, a filter of system calls, limits",
        "Student code can open nothing but Python, the packages, the course without its answers, and a directory of "
        "its own; no network. It can still see that other files exist, and their size.",
    ),
}
CONTAINER = (
    "Use a container whose engine allows namespaces; the course's Dockerfile says how (linted, but never built):\n"
    "    docker build -t attention-course .\n"
    "    docker run --rm --network none --security-opt seccomp=unconfined --security-opt apparmor=unconfined \\\n"
    "        -v GRADING_DIRECTORY:/grading attention-course\n"
    "With none of these the grader refuses to run, unless --unsafe says that every submission is trusted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit code 0 when student code can be shut in here, 1 when not."


def run(arguments: argparse.Namespace) -> int:
    if sys.platform != "linux":
        print(f"Grading needs Linux; this is {sys.platform}. {CONTAINER}")
        return 1
    from autograder.grading import sandbox

    print(f"Linux {platform.release()}, {platform.machine()}. Each rung was tried just now.\n")
    works = []
    for number, rung in enumerate(sandbox.BEST_FIRST, 1):
        title, meaning = WHAT[rung]
        reason = sandbox.why_not(rung)
        works += [] if reason else [rung]
        print(f"{number}. {rung}: {'not here' if reason else 'works'} ({title})")
        print(f"{textwrap.fill(reason or meaning, 76, initial_indent='   ', subsequent_indent='   ')}\n")
    if not works:
        print(CONTAINER)
        return 1
    print(f"`autograder grade` uses {works[0]}.")
    return 0
