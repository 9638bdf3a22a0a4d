"""What the tests of the site share: the built pages, a server on this machine."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))


@pytest.fixture(scope="session")
def html() -> Path:
    """The built site, brought up to date first."""
    done = subprocess.run(
        [sys.executable, ROOT / "book" / "_ext" / "build_book.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def sampler(tmp_path_factory) -> Path:
    """A site of one page that holds everything that a chapter may hold, built with the course's own settings."""
    root = tmp_path_factory.mktemp("sampler")
    book = root / "book"
    book.mkdir()
    for name in ("_ext", "_static", "_templates"):
        shutil.copytree(ROOT / "book" / name, book / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "_config.yml", root)
    shutil.copy(ROOT / "book" / "references.bib", book)
    shutil.copy(Path(__file__).with_name("sampler.md"), book)
    (book / "_toc.yml").write_text("format: jb-book\nroot: sampler\n", encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", "book", "--config", "_config.yml"]
    done = subprocess.run(
        [*command, "--path-output", ".", "-W", "-n", "--keep-going", "-q"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return root / "_build" / "html"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def serve():
    """Serve a folder on a free port of this machine; gives the address."""
    servers = {}

    def address(folder: Path) -> str:
        if folder not in servers:
            handler = functools.partial(_Quiet, directory=str(folder))
            servers[folder] = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=servers[folder].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[folder].server_address[1]}"

    yield address
    for server in servers.values():
        server.shutdown()
        server.server_close()
