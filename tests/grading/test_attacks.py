"""Hostile notebooks: none gains a point, reaches what is outside, outlives its run or harms the next notebook.

Each file of ``tests/attacks`` is a notebook's cells below a header: what it tries, a pattern of what the report must
say, and ``score: full`` where a right kernel stands below the attack and must keep its points. Otherwise the kernel
is wrong and must have none. ``wall`` is the limit by the clock where a busy machine needs longer for the attack itself.
An attack that gets through raises an error with the word BREACH.
"""

import dataclasses
import json
import os
import re
import socket
import sqlite3
from pathlib import Path

import pytest

from autograder import catalog
from autograder.grading import sandbox, summary
from autograder.grading.grade import close_workers, grade_submission
from autograder.grading.session import Limits
from autograder.notebooks import ROOT
from tests.grading.rungs import need

pytestmark = pytest.mark.slow
ATTACKS = sorted((Path(__file__).parents[1] / "attacks").glob("*.txt"))
STEM = "getting_started"
FULL = sum(check.points for check in catalog.checks(STEM).values())
LIMITS = Limits(cpu_seconds=3, wall_seconds=10, memory_mb=1_800)
SETUP = "import numpy as np\nfrom autograder import begin, check, hint\nbegin('getting_started', release='0')"
RIGHT = """def softmax(x, axis=-1):
    largest = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(largest), 0, largest).astype(x.dtype))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total).astype(x.dtype)
"""
WRONG = "def softmax(x, axis=-1):\n    return x"


@pytest.fixture(scope="module", params=sandbox.BEST_FIRST)
def rung(request):
    need(request.param)
    yield request.param
    close_workers()


class Outside:
    """What attacks aim at, and whether it is as it was."""

    def __init__(self, directory: Path):
        self.canary, self.other, self.book = (directory / name for name in ("canary", "other.ipynb", "gradebook.db"))
        self.canary.write_text("the-canary's-secret")
        self.other.write_text("another student's notebook")
        with sqlite3.connect(self.book) as connection:
            connection.execute("CREATE TABLE grade (auto_score)")
            connection.execute("INSERT INTO grade VALUES (1)")
        directory.chmod(0o755)
        self.marker = f"autograder-marker-{os.getpid()}"
        self.servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        self.port = self.servers[0].getsockname()[1]
        self.servers[1].bind(("127.0.0.1", self.port))
        for address in (str(directory / "socket"), f"\0{self.marker}"):
            self.servers.append(socket.socket(socket.AF_UNIX))
            self.servers[-1].bind(address)
            self.servers[-1].listen()
        for server in self.servers:
            server.setblocking(False)
        self.values = {
            "ROOT": str(ROOT),
            "CANARY": str(self.canary),
            "GRADEBOOK": str(self.book),
            "OTHER": str(self.other),
            "SECRET": "the-environment's-secret",
            "PID": os.getpid(),
            "PORT": self.port,
            "SOCKET": str(directory / "socket"),
            "MARKER": self.marker,
        }
        self.directory = directory
        self.before = self._state()

    def _state(self):
        files = sorted(path for path in self.directory.iterdir())
        return [(p.name, p.lstat().st_mode, p.lstat().st_mtime_ns, p.lstat().st_size) for p in files]

    def assert_untouched(self):
        assert self._state() == self.before
        for server in self.servers:
            with pytest.raises(BlockingIOError):
                server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()
        running = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                running += [path] if self.marker.encode() in path.read_bytes() else []
            except OSError:
                continue
        assert running == []


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    outside = Outside(tmp_path_factory.mktemp("outside"))
    os.environ["AUTOGRADER_TEST_SECRET"] = outside.values["SECRET"]
    yield outside
    del os.environ["AUTOGRADER_TEST_SECRET"]
    for server in outside.servers:
        server.close()


def read_attack(path: Path, values: dict) -> tuple[dict[str, str], list[str]]:
    """The header of an attack, and its cells."""
    head, *cells = re.split(r"^# %%\n", path.read_text(encoding="utf-8"), flags=re.M)
    header = dict(re.findall(r"^# (\w+): (.*)$", head, flags=re.M))
    return header, [re.sub(r"\{\{(\w+)\}\}", lambda match: repr(values[match[1]]), cell) for cell in cells]


def graded(cells: list[str], rung: str, wall_seconds: int = LIMITS.wall_seconds):
    made = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in (SETUP, *cells)]
    data = json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    return grade_submission(data, STEM, 5, dataclasses.replace(LIMITS, wall_seconds=wall_seconds), rung)


def told(result) -> list[str]:
    """Every line that a report of the result may show."""
    lines = [*summary.remarks(result), *(f"cell {p.cell}: {p.text}" for p in result.problems)]
    for mark in result.kernels:
        lines += [f"{mark.kernel}: {mark.verdict}", *(aspect.why for aspect in mark.aspects), *mark.advice, *mark.flags]
    return lines


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_gains_nothing_and_harms_nobody(path, rung, outside):
    header, cells = read_attack(path, outside.values)
    assert header.keys() >= {"tries", "told"}
    kernel = RIGHT if "score" in header else WRONG
    kernels = [] if any("def softmax" in cell for cell in cells) else [kernel]
    for _ in range(2 if "twice" in header["tries"] else 1):
        result = graded([*cells, *kernels], rung, int(header.get("wall", LIMITS.wall_seconds)))
        lines = told(result)
        assert result.score == (FULL if "score" in header else 0)
        assert not any("BREACH" in line for line in lines)
        assert any(re.search(header["told"], line) for line in lines), lines
        assert all(line.isprintable() for line in summary.remarks(result))
    assert "secret" not in json.dumps(lines)
    assert graded([RIGHT], rung).score == FULL
    outside.assert_untouched()
