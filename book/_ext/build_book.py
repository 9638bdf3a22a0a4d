"""Build the site: execute the chapters whose inputs changed, then let Jupyter Book write ``_build/html``.

Nothing is done when nothing changed. Warnings are errors.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
RECORD = BUILD / "site.json"  # the inputs of the last build that went well
INPUTS = (
    "_config.yml",
    "requirements*.lock",
    "book/**/*",
    "exercises/*/*.ipynb",
    "solutions/*/*.py",
    "lab/**/*",
    "autograder/**/*",
)
OPTIONS = ["build", "book", "--config", "_config.yml", "--path-output", ".", "-W", "-n", "--keep-going", "-q"]


def digests() -> dict[str, str]:
    """A digest of each file that the site is made from."""
    files = {
        path for pattern in INPUTS for path in ROOT.glob(pattern) if path.is_file() and "__pycache__" not in path.parts
    }
    return {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def changed(now: dict[str, str]) -> set[str]:
    """Files that changed, came or went since the last good build; all of them where there was none."""
    if not RECORD.exists() or not (BUILD / "html" / "index.html").exists():
        return set(now)
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def only_pages(names: set[str], executed: set[str]) -> bool:
    """Whether nothing but pages changed, so that Sphinx itself knows what to write again.

    Not so where a page that did not change was executed, because it reads one that did.
    """
    return all(Path(name).match("book/*.md") for name in names) and executed <= {Path(name).stem for name in names}


def build() -> int:
    """Bring the site up to date; 0 when it is."""
    now = digests()
    names = changed(now)
    if not names:
        print("The site is up to date: _build/html/index.html")
        return 0
    from execution import Outputs, execute_changed  # slow to import, and most often not needed

    begin = time.perf_counter()
    recorded = RECORD.exists()
    RECORD.unlink(missing_ok=True)
    executed, failures = execute_changed(ROOT, Outputs(BUILD / "cache"))
    if failures:
        print("\n\n".join(str(failure) for failure in failures), file=sys.stderr)
        return 1
    incremental = recorded and only_pages(names, executed)
    command = [str(Path(sys.executable).with_name("jupyter-book")), *OPTIONS, *([] if incremental else ["--all"])]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        print("The site was not built; the warnings above say why, and warnings are errors.", file=sys.stderr)
        return 1
    partial = RECORD.with_suffix(".partial")
    partial.write_text(json.dumps(now, indent=1), encoding="utf-8")
    os.replace(partial, RECORD)
    print(f"The site was built in {time.perf_counter() - begin:.0f} s: _build/html/index.html")
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / "site.lock"):
        sys.exit(build())
