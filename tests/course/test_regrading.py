"""A request is answered with both marks; a failed one never leaves the old mark standing as new."""

import json
import sqlite3

import pytest

from autograder import cli, notebooks
from autograder.course import regrading
from autograder.course.handed_in import submitted_path, write_bytes
from autograder.course.regrading import Regrade, open_requests
from autograder.grading.placing import Found
from autograder.grading.records import Results
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult

STEM = "getting_started"
RIGHT = (
    "def softmax(x, axis=-1):\n    e = np.exp(x - np.where(np.isinf(m := x.max(axis=axis, keepdims=True)), 0, m))\n"
    "    s = e.sum(axis=axis, keepdims=True)\n    return np.divide(e, s, out=np.zeros_like(e), where=s > 0)\n"
)


def mark(kernel, score):
    return KernelMark(kernel, score == 5, score, 5, f"{kernel}: verdict", (AspectMark("values", score > 0, score, 5),))


def result(**scores):
    return SubmissionResult("attention_layer", tuple(mark(kernel, score) for kernel, score in scores.items()))


def test_only_the_kernel_that_was_asked_for_changes(tmp_path):
    found = Found("anna", "attention_layer", tmp_path)
    one = Regrade(found, "b", result(a=1, b=2), result(a=5, b=5), "key")
    assert [(old.score, new.score) for old, new in one.pairs()] == [(2, 5)]
    assert one.changes
    assert one.to_record == result(a=1, b=5)
    assert Regrade(found, None, result(a=1, b=2), result(a=5, b=5), "key").to_record == result(a=5, b=5)
    assert Regrade(found, "b", None, result(a=5, b=5), "key").to_record == result(a=5, b=5)
    assert not Regrade(found, "b", result(a=1, b=2), result(a=5, b=2), "key").changes


def test_what_waits_for_a_person(tmp_path):
    found = Found("anna", STEM, tmp_path)
    regrading.log(Regrade(found, "softmax", result(a=1), None, "key", "OSError: x"), tmp_path, regrading.FAILED)
    other = Found("ben", STEM, tmp_path)
    regrading.log(Regrade(other, None, result(a=1), result(a=2), "key"), tmp_path, regrading.SEEN)
    same = Found("cleo", STEM, tmp_path)
    regrading.log(Regrade(same, None, result(a=1), result(a=1), "key"), tmp_path, regrading.SEEN)
    waiting = open_requests(tmp_path)
    assert "regrading softmax failed" in waiting["anna", STEM]
    assert "the mark is the old one" in waiting["anna", STEM]
    assert "not recorded" in waiting["ben", STEM]
    assert len(waiting) == 2
    regrading.log(Regrade(other, None, result(a=1), result(a=2), "key"), tmp_path, regrading.RECORDED)
    assert ("ben", STEM) not in open_requests(tmp_path)


def test_wrong_use(tmp_path, capsys):
    write_bytes(submitted_path(tmp_path, "anna", STEM), b"{}")
    for arguments, words in {
        ("nobody",): "there is no 'nobody'",
        ("anna", "softmix"): "softmax",
        ("anna", "--assignment", "nothing"): "no chapter 'nothing'",
        ("anna", "softmax", "--assignment", "attention_layer"): "a kernel of getting_started",
        ("anna", "similarity"): "handed in nothing of attention_layer",
    }.items():
        assert cli.main(["regrade", *arguments, "--out", str(tmp_path)]) == 2
        assert words in capsys.readouterr().err


def flags(directory):
    with sqlite3.connect(directory / "gradebook.db") as connection:
        return connection.execute("SELECT auto_score, needs_manual_grade FROM grade").fetchall()


@pytest.mark.slow
def test_a_request_from_beginning_to_end(tmp_path, capsys, monkeypatch):
    released = json.loads(notebooks.released_path(STEM).read_bytes())
    path = submitted_path(tmp_path, "Zoë", STEM)
    write_bytes(path, json.dumps(released).encode())
    out = ["--unsafe", "--out", str(tmp_path)]
    assert cli.main(["grade", "--quiet", *out]) == 0
    assert flags(tmp_path) == [(0, 0)]
    for cell in released["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "kernel-softmax":
            cell["source"] = RIGHT
    write_bytes(path, json.dumps(released).encode())
    capsys.readouterr()
    assert cli.main(["regrade", "Zoë", "softmax", *out]) == 0
    shown = capsys.readouterr().out
    assert "Nothing is recorded yet" in shown
    assert Results(tmp_path).read("Zoë", STEM).score == 0
    assert flags(tmp_path) == [(0, 0)]
    with monkeypatch.context() as patched:
        patched.setattr(regrading, "grade_found", lambda *_: 1 / 0)
        assert cli.main(["regrade", "Zoë", "--record", *out]) == 1
    assert "the old mark is flagged: ZeroDivisionError" in capsys.readouterr().err
    assert flags(tmp_path) == [(0, 1)]
    assert "failed" in open_requests(tmp_path)["Zoë", STEM]
    assert cli.main(["regrade", "Zoë", "--record", *out]) == 0
    assert "Recorded" in capsys.readouterr().out
    points = Results(tmp_path).read("Zoë", STEM).points
    assert Results(tmp_path).read("Zoë", STEM).score == points
    assert flags(tmp_path) == [(points, 0)]
    assert open_requests(tmp_path) == {}
    # The next run of the grader has nothing to do.
    assert cli.main(["grade", *out]) == 0
    assert "0 graded, 1 as before" in capsys.readouterr().out
