"""The workers of a Dask scheduler give the marks that processes on this machine give."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import notebooks
from autograder.cli import main
from autograder.grading import batch
from autograder.grading.records import Results
from tests.sample_class import sample_class, write

pytestmark = pytest.mark.slow
STEM = "getting_started"
SAMPLES = [sample for sample in sample_class(STEM) if "endless" not in sample.kind]
OPTIONS = ["--assignment", STEM, "--cpu-seconds", "5", "--quiet"]


def dask(*arguments: str, directory: Path) -> subprocess.Popen:
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s", "PYTHONPATH": str(notebooks.ROOT)}
    log = (directory / f"{arguments[0]}.log").open("ab")
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """The address of a scheduler with two workers of one thread each, and the processes, the scheduler first."""
    path = directory / "scheduler.json"
    where = f"--scheduler-file={path}"
    processes = [dask("scheduler", "--host=127.0.0.1", "--port=0", where, directory=directory)]
    try:
        for _ in range(2):
            processes.append(dask("worker", where, "--nthreads=1", "--no-nanny", directory=directory))
        deadline = time.monotonic() + 120
        while not path.exists() or not path.read_text():
            assert time.monotonic() < deadline, (directory / "scheduler.log").read_text()
            time.sleep(0.1)
        yield json.loads(path.read_text())["address"], processes
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGINT)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


@pytest.fixture
def submitted(tmp_path):
    write(SAMPLES, tmp_path / "submitted")
    return tmp_path / "submitted"


def test_a_cluster_gives_the_same_marks_and_outlives_a_worker(submitted, tmp_path, capsys, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    assert main(["grade", str(submitted), *OPTIONS, "--out", str(here), "--workers", "1"]) == 0
    there.mkdir()
    shutil.copy(here / "seed", there)
    with cluster(tmp_path) as (address, processes):
        record = batch._batches

        def batches(*arguments):
            for number, found in enumerate(record(*arguments)):
                if number == 0:
                    processes[-1].kill()
                yield found

        monkeypatch.setattr(batch, "_batches", batches)
        monkeypatch.setattr(batch, "BATCH", 2)
        assert main(["grade", str(submitted), *OPTIONS, "--out", str(there), "--scheduler", address]) == 0
    assert dict(Results(there).all()) == dict(Results(here).all())
    assert "not graded: " not in capsys.readouterr().err


def test_a_scheduler_that_ends_leaves_the_rest_for_the_next_run(submitted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(batch, "BATCH", 2)
    monkeypatch.setattr(batch, "WINDOW", 6)
    with cluster(tmp_path) as (address, processes):

        def kill():
            while not list(Results(tmp_path).all()):
                time.sleep(0.05)
            processes[0].kill()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        assert main(["grade", str(submitted), *OPTIONS, "--out", str(tmp_path), "--scheduler", address]) == 1
    assert "not graded: " in capsys.readouterr().err
    done = len(list(Results(tmp_path).all()))
    assert 0 < done < len(SAMPLES)
    assert main(["grade", str(submitted), *OPTIONS, "--out", str(tmp_path)]) == 0
    assert len(list(Results(tmp_path).all())) == len(SAMPLES)


def test_no_scheduler_is_said(submitted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("autograder.grading.cluster.WAIT_SECONDS", 1)
    options = ["grade", str(submitted), *OPTIONS, "--out", str(tmp_path), "--scheduler", "tcp://127.0.0.1:9"]
    assert main(options) == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert main([*options, "--workers", "2"]) == 2
    assert "--scheduler for none" in capsys.readouterr().err
