"""``autograder update NOTEBOOK [...]``."""

import argparse
import re
from pathlib import Path

from autograder import __version__
from autograder.cli import WrongUse
from autograder.reading import release_order


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", nargs="+", type=Path, help="a notebook; a backup is written beside it")
    parser.add_argument("--export", metavar="FILE.py", type=Path, help="write the answers as plain Python too")


def run(arguments: argparse.Namespace) -> int:
    from autograder import notebooks, update

    results = [(path, *_updated(path)) for path in arguments.notebook]
    for path, old, result in results:
        if result.changed:
            backup = _back_up(path, update.release_of(old))
            notebooks.write_text(path, notebooks.as_text(result.notebook))
            print(f"{path}: now of release {__version__}; the old notebook is {backup.name}.")
            _tell(result)
        else:
            print(f"{path}: already of release {__version__}; nothing to do.")
    if arguments.export:
        notebooks.write_text(arguments.export, "\n\n\n".join(_as_python(result) for _, _, result in results) + "\n")
        print(f"{arguments.export}: answers written: {sum(len(result.answers) for _, _, result in results)}.")
    return 0


def _updated(path: Path):
    """The old notebook and its update; nothing is written."""
    from autograder import notebooks, update

    try:
        old = notebooks.read_notebook(path)
        released = notebooks.read_released(notebooks.chapter_of(old, path))
    except ValueError as error:
        raise WrongUse(str(error)) from None
    release = update.release_of(old)
    if release_order(release) > release_order(__version__):
        raise WrongUse(
            f"{path} is of release {release}, which is newer than the installed {__version__}; "
            "install the newer release of the course first."
        )
    return old, update.update(old, released)


def _back_up(path: Path, release: str) -> Path:
    """Copy a notebook beside itself; an older backup with other content is never overwritten."""
    from autograder import notebooks

    text = path.read_text(encoding="utf-8")
    name = f"{path.name}.bak-{re.sub(r'[^A-Za-z0-9.+-]', '_', release)}"
    backup, number = path.with_name(name), 1
    while backup.exists() and backup.read_text(encoding="utf-8") != text:
        number += 1
        backup = path.with_name(f"{name}-{number}")
    notebooks.write_text(backup, text)
    return backup


def _tell(result) -> None:
    kept = ", ".join(result.answers) or "none was written yet"
    print(f"  Answers kept: {kept}. Cells of your own kept: {result.own_cells}.")
    for name in result.contracts:
        print(f"  {name}: your cell was kept, but its signature, description or input checks have changed since.")
    for name in result.retired:
        print(f"  {name}: no longer asked for; your code is at the end of the notebook.")


def _as_python(result) -> str:
    """The setup cells and the answers of a notebook, as cells of a Python file."""
    from autograder import notebooks

    setup = [c["source"] for c in result.notebook["cells"] if notebooks.cell_kind(c) == "setup"]
    return "\n\n\n".join(f"# %%\n{source.strip()}" for source in [*setup, *result.answers.values()])
