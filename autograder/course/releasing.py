"""What students get while chapters are open to be written: site and package without a line of their solutions."""

import ast
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from autograder import notebooks, sources, stored, stubs
from autograder.generating import secrets_of
from autograder.notebooks import ROOT
from autograder.sources import Chapter

COPIED = ("autograder", "lab", "exercises")
FILES = ("LICENSE", "LICENSE-TEXT", "requirements.lock", "pyproject.toml", "book/_toc.yml")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".ipynb_checkpoints", "*.bak-*", ".*")
CHECKS = '''"""What right kernels of this chapter are, as stored arrays; the code comes when the chapter is over."""

from pathlib import Path

from autograder import stored

globals().update(stored.load(Path(__file__).with_suffix(".npz")))
'''
REFERENCE = '''"""The kernels of this chapter are yours to write; where another chapter calls one, yours is called."""

from autograder.borrowing import own_kernel


def __getattr__(name):
    return own_kernel("{stem}", name)
'''
README = """# Attention, from RNN to FlashAttention

The book is in `site/index.html`; it needs no network. The notebooks are in `exercises/`.

| | Linux and macOS | Windows (PowerShell) |
|---|---|---|
| make an environment | `python3 -m venv .venv` | `py -m venv .venv` |
| install the course | `.venv/bin/pip install -e ".[student]"` | `.venv\\Scripts\\pip install -e ".[student]"` |
| open the notebooks | `.venv/bin/jupyter lab exercises` | `.venv\\Scripts\\jupyter lab exercises` |
| check a notebook | `.venv/bin/autograder check NOTEBOOK` | `.venv\\Scripts\\autograder check NOTEBOOK` |

Fill in the kernel where a cell says `YOUR CODE HERE`, run the cell, and run the check below it.

The course's own code of these chapters comes when they are over: {chapters}.
Where another chapter calls one of their kernels, it calls yours.
"""


class Leak(Exception):
    """A release would show a solution; the message says where, line by line."""


def withheld_stems(assigned: Collection[str], opened: Collection[str]) -> list[str]:
    """The assigned chapters that have a notebook and are not over."""
    return [stem for stem in assigned if stem not in opened and notebooks.released_path(stem).exists()]


def release(out: Path, withheld: Sequence[str], *, with_site: bool = True) -> None:
    """Write a release without the solutions of some chapters, whole or not at all.

    Parameters
    ----------
    out
        The directory to make; it must not be there.
    withheld
        The chapters whose kernels are to be written.
    with_site
        Whether to build the site too.

    Raises
    ------
    Leak
        If a statement of a withheld solution stands in any file; nothing is left at ``out`` then.
    """
    unfinished = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _write_package(unfinished, withheld)
        if with_site:
            _write_site(unfinished / "site", withheld)
        if found := leaks(unfinished, withheld):
            raise Leak("\n".join(found))
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_package(out: Path, withheld: Sequence[str]) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, out / name, ignore=LEFT_OUT)
    for name in FILES:
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, out / name)
    for stem in withheld:
        (out / "autograder" / "reference" / f"{stem}.py").write_text(REFERENCE.format(stem=stem), encoding="utf-8")
    for stem in [*withheld, *_standing_on(withheld)]:
        checks = out / "autograder" / "checks" / f"{stem}.py"
        checks.write_text(CHECKS, encoding="utf-8")
        checks.with_suffix(".npz").write_bytes(stored.dump(stem))
    (out / "README.md").write_text(README.format(chapters=", ".join(withheld)), encoding="utf-8")


def _standing_on(withheld: Sequence[str]) -> list[str]:
    """The other chapters whose references or checks import a withheld one, at first or second hand."""
    package = ROOT / "autograder"
    stems = {path.stem for path in (package / "checks").glob("*.py")} - {"__init__"}
    imports = {stem: _imported(package, stem) for stem in stems}
    found = set(withheld)
    while more := {stem for stem in stems - found if imports[stem] & found}:
        found |= more
    return sorted(found - set(withheld))


def _imported(package: Path, stem: str) -> set[str]:
    """The chapters whose references those of a chapter, or its checks, import."""
    found = set()
    for room in ("reference", "checks"):
        for node in ast.walk(ast.parse((package / room / f"{stem}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "autograder.reference":
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autograder.reference."):
                found.add(node.module.rpartition(".")[2])
    return found - {stem}


def _write_site(out: Path, withheld: Sequence[str]) -> None:
    """Build the book without the solutions of the withheld chapters; the executed pages are those of the full book."""
    run = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "check": True}
    subprocess.run([sys.executable, "book/_ext/build_book.py"], **run)
    build = out.with_name(".site")
    options = [
        "build",
        "book",
        "--config",
        "_config.yml",
        "--path-output",
        str(build),
        "-W",
        "-n",
        "--keep-going",
        "-q",
    ]
    command = [str(Path(sys.executable).with_name("jupyter-book")), *options, "--all"]
    subprocess.run(command, env=os.environ | {"COURSE_WITHHELD": ",".join(withheld)}, **run)
    (build / "_build" / "html").rename(out)
    shutil.rmtree(build)


def leaks(directory: Path, withheld: Sequence[str]) -> list[str]:
    """The statements of withheld solutions in any file below a directory, one sentence each."""
    secrets = _secrets(withheld)
    found = []
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        shown = path.relative_to(directory)
        if path.suffix in (".pyc", ".pyo"):
            found.append(f"{shown} is compiled code, which can be turned back into its source.")
            continue
        for text in _texts(path):
            found += [
                f"{shown} shows an answer of {secret.owner!r}: {secret.text!r}" for secret in _shown(text, secrets)
            ]
    return list(dict.fromkeys(found))


def _secrets(withheld: Sequence[str]) -> dict[str, stubs.Secret]:
    """The statements of the withheld solutions, squeezed; one that the solution of another chapter has is none."""
    others = [stem for stem in sources.stems() if stem not in withheld]
    known = {_squeezed(secret.text) for stem in others for secret in secrets_of(Chapter.named(stem))}
    own = {_squeezed(secret.text): secret for stem in withheld for secret in secrets_of(Chapter.named(stem))}
    return {text: secret for text, secret in own.items() if text not in known}


def _shown(text: str, secrets: Mapping[str, stubs.Secret]) -> list[stubs.Secret]:
    """The secrets that stand in a text as whole statements: a longer statement that begins the same is another one."""
    squeezed = _squeezed(text)
    return [secret for code, secret in secrets.items() if code in squeezed and _statement(code).search(text)]


def _squeezed(text: str) -> str:
    return re.sub(r"\s", "", text).replace('"', "'")


def _statement(code: str) -> re.Pattern:
    """Squeezed code as it may stand in a text: with any space and quotes, to the end of its line."""
    letters = ("['\"]" if letter == "'" else re.escape(letter) for letter in code)
    return re.compile(r"\s*".join(letters) + r"[ \t]*(?=\\n|[\n\r#;\"'<]|$)")


def _texts(path: Path) -> Iterator[str]:
    """What can be read in a file, in each way in which it may be read."""
    data = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            yield from (
                arrays[name].tobytes().decode("latin-1") for name in arrays.files if arrays[name].dtype == np.uint8
            )
        return
    text = data.decode("utf-8", "replace")
    yield text
    if path.suffix == ".py":
        yield ast.unparse(ast.parse(text))
    if path.suffix in (".html", ".svg"):
        yield html.unescape(re.sub(r"<[^>]*>", "", text))
    if path.suffix in (".ipynb", ".json"):
        try:
            yield "\n".join(_strings(json.loads(text)))
        except ValueError:
            return


def _strings(value) -> Iterator[str]:
    """Every text in a piece of JSON; a list of texts, as a notebook's source is, is put together."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.items() for part in item for text in _strings(part))
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)
        else:
            yield from (text for item in value for text in _strings(item))
