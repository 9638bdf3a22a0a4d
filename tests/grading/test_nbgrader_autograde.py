"""`nbgrader autograde` with our configuration gives the marks of `autograder grade`, and no others."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder import catalog, notebooks
from autograder.grading.gradebook import open_gradebook
from autograder.grading.records import Results, seed_of
from tests.grading.test_sample_class import deserved
from tests.sample_class import sample_class, write

pytestmark = pytest.mark.slow
STEM = "getting_started"
FORGED = {"output_type": "execute_result", "data": {"text/plain": "5"}, "metadata": {}, "execution_count": 1}


def autograde(course: Path, *options: str, command: str = "autograde") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", command, STEM, "--SubmissionExporter.cpu_seconds=5", *options],
        cwd=course,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(course)},
        capture_output=True,
        text=True,
    )


def forged() -> bytes:
    """An untouched notebook whose check cell claims all points, in its source, its marks and its output."""
    notebook = json.loads(notebooks.released_path(STEM).read_bytes())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["metadata"]["nbgrader"] |= {"locked": False, "points": 0}
            cell |= {"source": "from IPython.display import display\n5", "outputs": [FORGED]}
    return json.dumps(notebook).encode()


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course of its own, its class graded by nbgrader; what nbgrader said."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(notebooks.ROOT / "nbgrader_config.py", root)
    submitted = root / "_build" / "grading" / "submitted"
    write(sample_class(STEM), submitted)
    attack = submitted / "mallory" / STEM / f"{STEM}.ipynb"
    attack.parent.mkdir(parents=True)
    attack.write_bytes(forged())
    link = submitted / "eve" / STEM / f"{STEM}.ipynb"
    link.parent.mkdir(parents=True)
    link.symlink_to(submitted / "anna-rossi" / STEM / f"{STEM}.ipynb")
    done = autograde(root)
    assert done.returncode == 0, done.stderr[-3000:]
    return root, done.stderr


def grades(course: Path) -> dict:
    """By student, the automatic mark of the one check and whether a person is asked to look at it."""
    with open_gradebook(f"sqlite:///{course / '_build' / 'grading' / 'gradebook.db'}") as gradebook:
        return {
            submission.student_id: (grade.auto_score, grade.needs_manual_grade)
            for submission in gradebook.assignment_submissions(STEM)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def test_everyone_has_the_mark_they_deserve(course):
    root, said = course
    (check,) = catalog.checks(STEM).values()
    seed = seed_of(root / "_build" / "grading")
    expected = {sample.student: deserved(check, sample, seed) for sample in sample_class(STEM)}
    found = grades(root)
    assert {student: score for student, (score, _) in found.items()} == expected | {"mallory": 0, "eve": 0}
    assert not any(asked for _, asked in found.values())
    results = dict(Results(root / "_build" / "grading").all())
    assert {student: result.score for student, result in results.items()} == expected | {"mallory": 0, "eve": 0}
    assert "Placed by what it holds" in said
    assert "is a link to another file" in said


def test_formgrader_and_feedback_show_the_verdict(course):
    root, _ = course
    results = dict(Results(root / "_build" / "grading").all())
    for student, result in results.items():
        path = root / "_build" / "grading" / "autograded" / student / STEM / f"{STEM}.ipynb"
        cells = nbformat.read(path, 4).cells
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert [output.output_type for output in outputs] == ["stream", "execute_result" if result.score else "error"]
        assert outputs[0].text.startswith(result.kernels[0].verdict)
    done = autograde(root, "--student=mallory", command="generate_feedback")
    assert done.returncode == 0, done.stderr[-3000:]
    page = root / "_build" / "grading" / "feedback" / "mallory" / STEM / f"{STEM}.html"
    assert "0 of 5 points" in page.read_text(encoding="utf-8")


def test_a_regrade_that_fails_leaves_no_mark_and_asks_for_a_person(course, tmp_path):
    root, _ = course
    copy = tmp_path / "course"
    shutil.copytree(root, copy)
    with open_gradebook(f"sqlite:///{copy / '_build' / 'grading' / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("check-softmax", STEM, STEM, "anna-rossi").manual_score = 3
        gradebook.db.commit()
    (copy / "_build" / "grading" / "seed").write_text("lost")
    done = autograde(copy, "--force", "--student=anna-rossi")
    assert done.returncode == 1
    assert "error processing assignment 'getting_started' for student 'anna-rossi'" in done.stderr
    found = grades(copy)
    assert found["anna-rossi"] == (None, True)
    assert found["jean"] == grades(root)["jean"]
    assert Results(copy / "_build" / "grading").read("anna-rossi", STEM) is None
    with open_gradebook(f"sqlite:///{copy / '_build' / 'grading' / 'gradebook.db'}") as gradebook:
        assert gradebook.find_submission(STEM, "anna-rossi").score == 3


def test_an_assignment_of_another_course_is_refused(course):
    root, _ = course
    other = root / "_build" / "grading" / "submitted" / "anna-rossi" / "midterm" / "midterm.ipynb"
    other.parent.mkdir()
    shutil.copy(notebooks.released_path(STEM), other)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", "midterm"],
        cwd=root,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "midterm is not a chapter of the course" in done.stderr
