"""The part of the course that student code may import while it is graded."""

import shutil
from pathlib import Path

from autograder.notebooks import ROOT, SHARE

PACKAGE = Path(__file__).parents[1]
# What probes need, and the worker itself. No checks, no judging, no gradebook.
SHARED = (
    "__init__.py",
    "case.py",
    "lazy.py",
    "probing.py",
    "watching.py",
    "work.py",
    "grading/__init__.py",
    "grading/wire.py",
    "grading/worker.py",
)
# What shuts a process in, and a trial of it; the standard library is all that it imports.
CONFINING = tuple(f"grading/{name}.py" for name in ("confining", "landlock", "linux", "seccomp"))
TRIAL = ("__init__.py", "grading/__init__.py", "grading/trial.py")
STUB = "grading/selfcheck_stub.py"
TOC = next((place / "_toc.yml" for place in (ROOT / "book", SHARE) if (place / "_toc.yml").exists()), None)


def stage(stem: str, directory: Path) -> None:
    """Copy what a submission of a chapter may import to ``directory``.

    That is the probes, the shared modules of ``lab``, and the references of the chapters before ``stem``. The
    references of this chapter and of later ones are not there, nor any check.
    """
    package = directory / "autograder"
    for name in (*SHARED, *CONFINING):
        _copy(PACKAGE / name, package / name)
    _copy(PACKAGE / STUB, package / "selfcheck.py")
    for probes in (PACKAGE / "probes").glob("*.py"):
        _copy(probes, package / "probes" / probes.name)
    for name in ("__init__", *chapters_before(stem)):
        if (reference := PACKAGE / "reference" / f"{name}.py").exists():
            _copy(reference, package / "reference" / reference.name)
    if (lab := ROOT / "lab").is_dir():
        shutil.copytree(lab, directory / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    _make_readable(directory)


def stage_trial(directory: Path) -> None:
    """Copy what a trial of a rung of the ladder imports to ``directory``."""
    for name in (*TRIAL, *CONFINING):
        _copy(PACKAGE / name, directory / "autograder" / name)
    _make_readable(directory)


def _make_readable(directory: Path) -> None:
    """Let another user read what was copied, whatever this one's umask: root's worker becomes nobody."""
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def chapters_before(stem: str) -> list[str]:
    """The stems of the chapters that come before one in the book's table of contents; none where it is not listed."""
    import yaml

    if TOC is None:
        raise FileNotFoundError("The book's table of contents, book/_toc.yml, is missing; install the course again.")
    order = list(_files(yaml.safe_load(TOC.read_text(encoding="utf-8"))))
    return order[: order.index(stem)] if stem in order else []


def _files(entry) -> list[str]:
    """The files of a table of contents, in the order of reading."""
    if isinstance(entry, list):
        return [name for item in entry for name in _files(item)]
    if isinstance(entry, dict):
        own = [entry["file"]] if "file" in entry else []
        return own + [name for key in ("parts", "chapters", "sections") for name in _files(entry.get(key, []))]
    return []
