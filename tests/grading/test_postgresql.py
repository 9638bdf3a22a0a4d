"""A gradebook on PostgreSQL holds what one on SQLite does; the server is a real one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import notebooks
from autograder.cli import main
from autograder.grading.gradebook import marks_of_all, open_gradebook
from autograder.grading.recorded import recorded
from autograder.grading.records import Results
from tests.grading.postgresql import server
from tests.sample_class import sample_class, write

pytestmark = pytest.mark.slow
STEM = "getting_started"
KINDS = ("all right", "half done", "invalid JSON", "a wrong file name", "metadata stripped, cells moved")


def test_marks_on_postgresql(tmp_path, capsys):
    samples = [sample for sample in sample_class(STEM) if sample.kind in KINDS]
    write(samples, tmp_path / "submitted")
    options = ["--assignment", STEM, "--out", str(tmp_path), "--workers", "1"]
    with server() as url:
        # The driver need not be named.
        plain = url.replace("postgresql+psycopg:", "postgresql:").replace("grader@", "grader:secret@")
        assert main(["grade", *options, "--db", plain]) == 0
        assert "secret" not in capsys.readouterr().out
        results = dict(Results(tmp_path).all())
        assert recorded(url, [STEM]) == {STEM: {sample.student for sample in samples}} == {STEM: set(results)}
        expected = {student: [(m.kernel, m.score, m.points) for m in r.kernels] for student, r in results.items()}
        assert _marks(url) == expected
        assert main(["grade", *options, "--db", url]) == 0
        assert f"0 graded, {len(samples)} as before" in capsys.readouterr().out
        assert not (tmp_path / "gradebook.db").exists()
        _autograde(tmp_path / "course", tmp_path / "submitted", url)
        assert _marks(url) == expected


def _marks(url: str) -> dict[str, list[tuple[str, float, float]]]:
    with open_gradebook(url) as gradebook:
        return {entry.student: list(entry.cells) for entry in marks_of_all(gradebook)}


def _autograde(course: Path, submitted: Path, url: str) -> None:
    """Grade the same class by nbgrader with our configuration."""
    course.mkdir()
    shutil.copy(notebooks.ROOT / "nbgrader_config.py", course)
    shutil.copytree(submitted, course / "_build" / "grading" / "submitted")
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", STEM, f"--db={url}"], cwd=course, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
