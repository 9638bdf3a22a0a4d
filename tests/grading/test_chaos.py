"""A grader that is killed is finished by the next run: nothing lost, nothing twice, the same marks."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder import notebooks
from autograder.grading.confining import processes_below
from autograder.grading.records import Results

pytestmark = pytest.mark.slow
STEM = "getting_started"
STUDENTS = 60
KILLS = 3
PLAIN = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)\n"
KERNELS = PLAIN, PLAIN.replace("np.exp(x)", "np.exp(x - x.max(axis=axis, keepdims=True))")


def write_class(directory: Path) -> None:
    released = json.loads(notebooks.released_path(STEM).read_bytes())
    for number in range(STUDENTS):
        for cell in released["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == "kernel-softmax":
                cell["source"] = KERNELS[number % 2]
        folder = directory / "submitted" / f"student{number:02}" / STEM
        folder.mkdir(parents=True)
        (folder / f"{STEM}.ipynb").write_text(json.dumps(released))


def start(directory: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "autograder.cli", "grade", "--quiet", "--workers", "2", "--out", str(directory)]
    return subprocess.Popen([*command, "--assignment", STEM], start_new_session=True)


def marks(directory: Path) -> list[tuple[str, int, float]]:
    """Student, number of rows and sum of the scores that the gradebook holds."""
    with sqlite3.connect(directory / "gradebook.db") as connection:
        return connection.execute(
            "SELECT student_id, COUNT(*), SUM(auto_score) FROM submitted_assignment AS assignment "
            "JOIN submitted_notebook AS notebook ON notebook.assignment_id = assignment.id "
            "JOIN grade ON grade.notebook_id = notebook.id GROUP BY student_id ORDER BY student_id"
        ).fetchall()


def test_killed_runs_end_in_the_marks_of_an_undisturbed_one(tmp_path):
    undisturbed, disturbed = tmp_path / "one", tmp_path / "two"
    for directory in (undisturbed, disturbed):
        write_class(directory)
    assert start(undisturbed).wait(300) == 0
    (disturbed / "seed").write_text((undisturbed / "seed").read_text())
    for kill in range(KILLS):
        process = start(disturbed)
        wait_for(lambda least=4 * kill: len(list(Results(disturbed).all())) > least)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    assert len(list(Results(disturbed).all())) < STUDENTS
    assert start(disturbed).wait(300) == 0
    assert marks(disturbed) == marks(undisturbed)
    assert len(marks(disturbed)) == STUDENTS
    assert dict(Results(disturbed).all()) == dict(Results(undisturbed).all())


def test_nothing_of_a_killed_grader_runs_on(tmp_path):
    write_class(tmp_path)
    process = start(tmp_path)
    wait_for(lambda: list(Results(tmp_path).all()))
    family = {child: started(child) for child in processes_below(process.pid)}
    assert len(family) > 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    wait_for(lambda: not any(when and started(child) == when for child, when in family.items()))


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def started(process: int) -> str:
    """When a process began, so that another one with its number is told from it; "" where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
