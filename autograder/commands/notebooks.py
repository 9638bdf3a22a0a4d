"""``autograder notebooks [STEM ...] [--check]``."""

import argparse
import json
import sys
from collections.abc import Collection
from pathlib import Path

from autograder import generating, notebooks, sources
from autograder.cli import WrongUse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stem", nargs="*", help="a chapter, such as getting_started (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; report drift and leaks (exit code 1)")


def run(arguments: argparse.Namespace) -> int:
    known = sources.stems()
    if not known:
        raise WrongUse(f"there is no solutions/STEM/STEM.py in {sources.ROOT}; run this in a checkout of the course.")
    if unknown := [stem for stem in arguments.stem if stem not in known]:
        raise WrongUse(f"there is no chapter {unknown[0]!r}; the chapters with exercises are {', '.join(known)}.")
    problems = [] if arguments.stem else _orphans(known)
    for stem in arguments.stem or known:
        try:
            chapter = sources.Chapter.named(stem)
            problems += _drift_and_leaks(chapter) if arguments.check else _write(chapter)
        except sources.SourceError as error:
            problems.append(str(error))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _targets(chapter: sources.Chapter) -> list[tuple[Path, str]]:
    """The chapter's two notebooks: where each belongs, and its text."""
    solution, student = generating.generate(chapter)
    stem = chapter.stem
    return [
        (chapter.source.with_suffix(".ipynb"), solution),
        (sources.ROOT / "exercises" / stem / f"{stem}.ipynb", student),
    ]


def _write(chapter: sources.Chapter) -> list[str]:
    for path, text in _targets(chapter):
        state = "unchanged" if _text(path) == text else "written"
        if state == "written":
            notebooks.write_text(path, text)
        print(f"{path.relative_to(sources.ROOT)}: {state}")
    return []


def _drift_and_leaks(chapter: sources.Chapter) -> list[str]:
    (solution, right_solution), (student, right_student) = _targets(chapter)
    problems = []
    for path, right in ((solution, right_solution), (student, right_student)):
        if (found := _text(path)) != right:
            state = "is missing" if found is None else "differs from its source"
            problems.append(
                f"{path.relative_to(sources.ROOT)} {state}. To repair it:  autograder notebooks {chapter.stem}"
            )
    if (found := _text(student)) is not None:
        try:
            hits = generating.leaks(chapter, json.loads(found))
        except (ValueError, KeyError, TypeError):
            hits = ["it is not a notebook"]
        problems += [f"{student.relative_to(sources.ROOT)}: {hit}" for hit in hits]
    return problems


def _text(path: Path) -> str | None:
    return path.read_bytes().decode(errors="replace") if path.exists() else None


def _orphans(known: Collection[str]) -> list[str]:
    """Notebooks that no source makes."""
    found = sorted(p for room in ("exercises", "solutions") for p in sources.ROOT.glob(f"{room}/*/*.ipynb"))
    return [
        f"{path.relative_to(sources.ROOT)} has no source; write solutions/{path.stem}/{path.stem}.py or delete it."
        for path in found
        if path.stem not in known or path.parent.name != path.stem
    ]
