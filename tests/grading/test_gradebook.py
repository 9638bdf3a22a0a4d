"""Marks reach nbgrader's gradebook once, survive a new release, leave as a harmless CSV, and come with feedback."""

import csv
import io
import os
import shutil
import stat

import pytest

from autograder import cli, notebooks
from autograder.grading import batch, exporting, feedback
from autograder.grading.gradebook import Marks, marks_of_all, open_gradebook, record, register
from autograder.grading.recorded import recorded
from autograder.grading.records import Results, seed_of
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult
from autograder.grading.session import CellProblem

STEM = "getting_started"


def cell(name, *, grade=False, points=0, kind="code"):
    role = {"grade_id": name, "grade": grade, "solution": not grade, "locked": grade, "points": points, "checksum": "c"}
    return {"cell_type": kind, "source": ["a\n", "b"], "metadata": {"nbgrader": role}}


RELEASED = {"cells": [cell("kernel-softmax"), cell("check-softmax", grade=True, points=5)]}


def result(score, kernel="softmax", **options):
    mark = KernelMark(kernel, score == 5, score, 5, f"{kernel}: verdict", (AspectMark("values", score > 0, score, 5),))
    return SubmissionResult(STEM, (mark,), **options)


def _hand_in_untouched(directory, *students):
    """Each student hands in the notebook as it was given out."""
    for student in students:
        folder = directory / "submitted" / student / STEM
        folder.mkdir(parents=True)
        shutil.copy(notebooks.released_path(STEM), folder / f"{STEM}.ipynb")


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An empty gradebook, which nbgrader takes seconds to make."""
    path = tmp_path_factory.mktemp("empty") / "gradebook.db"
    with open_gradebook(f"sqlite:///{path}"):
        return path


@pytest.fixture
def url(tmp_path, empty):
    shutil.copy(empty, tmp_path / "gradebook.db")
    return f"sqlite:///{tmp_path / 'gradebook.db'}"


def scores(gradebook):
    return {entry.student: {name: score for name, score, _ in entry.cells} for entry in marks_of_all(gradebook)}


@pytest.mark.slow
def test_marks_are_recorded_once_and_replaced(url):
    with open_gradebook(url) as gradebook:
        for _ in range(2):
            register(gradebook, STEM, RELEASED)
            record(gradebook, [("李雷", result(5)), ("anna", result(2))])
        record(gradebook, [("anna", result(3))])
        assert scores(gradebook) == {"李雷": {"softmax": 5}, "anna": {"softmax": 3}}
        assert gradebook.find_assignment(STEM).num_submissions == 2
        assert gradebook.find_submission(STEM, "anna").score == 3
        assert gradebook.find_submission(STEM, "anna").max_score == 5
        assert not gradebook.find_grade("check-softmax", STEM, STEM, "anna").needs_manual_grade
        assert gradebook.find_comment("kernel-softmax", STEM, STEM, "anna")
    assert recorded(url, [STEM, "other"]) == {STEM: {"李雷", "anna"}, "other": set()}


@pytest.mark.slow
def test_a_manual_mark_stays_and_asks_to_be_looked_at(url):
    with open_gradebook(url) as gradebook:
        register(gradebook, STEM, RELEASED)
        record(gradebook, [("anna", result(2))])
        gradebook.find_grade("check-softmax", STEM, STEM, "anna").manual_score = 4
        record(gradebook, [("anna", result(3))])
        assert scores(gradebook) == {"anna": {"softmax": 4}}
        assert gradebook.find_grade("check-softmax", STEM, STEM, "anna").needs_manual_grade


@pytest.mark.slow
def test_a_new_release_takes_the_place_of_the_old(url):
    essay = cell("essay", grade=True, points=2, kind="markdown")
    with open_gradebook(url) as gradebook:
        register(gradebook, STEM, {"cells": [*RELEASED["cells"], cell("check-gone", grade=True, points=1)]})
        record(gradebook, [("anna", result(2))])
        register(gradebook, STEM, {"cells": [*RELEASED["cells"], essay]})
        record(gradebook, [("anna", result(5))])
        assert scores(gradebook) == {"anna": {"softmax": 5, "essay": 0}}
        # What no kernel's check stands behind is for a person to mark.
        assert gradebook.find_grade("essay", STEM, STEM, "anna").needs_manual_grade
        assert gradebook.find_submission(STEM, "anna").max_score == 7


def test_a_gradebook_that_is_not_there_holds_nobody(tmp_path):
    assert recorded(f"sqlite:///{tmp_path / 'gradebook.db'}", [STEM]) == {STEM: set()}


def test_the_seed_is_secret_and_stays(tmp_path):
    seed = seed_of(tmp_path)
    assert seed_of(tmp_path) == seed
    assert stat.S_IMODE((tmp_path / "seed").stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.mkdir()
    assert seed_of(other) != seed


def test_results_are_filed_under_their_key(tmp_path):
    results = Results(tmp_path)
    results.write("Zoë", "key", result(3, problems=(CellProblem(2, "raised", "x", 1),), remarks=("r",)))
    assert results.read("Zoë", STEM) == results.read("Zoë", STEM, "key")
    assert results.read("Zoë", STEM).problems == (CellProblem(2, "raised", "x", 1),)
    assert results.read("Zoë", STEM, "another") is None
    assert results.read("nobody", STEM) is None
    assert list(results.all()) == [("Zoë", results.read("Zoë", STEM))]
    (tmp_path / "results" / "Zoë" / f"{STEM}.json").write_text("{")
    assert results.read("Zoë", STEM) is None


def test_the_csv_quotes_and_defuses():
    marks = [
        Marks('=HYPERLINK("x")', "a", (("k", 1.5, 2.0),)),
        Marks("Rossi, Anna", "a", (("k", 2.0, 2.0),)),
        Marks("李雷", "b", (("k", 0.0, 1.0), ("essay", 1.0, 3.0))),
        Marks("\t=1", "a", (("k", 0.0, 2.0),)),
        Marks("a\nb", "a", (("k", 0.0, 2.0),)),
    ]
    text = io.StringIO()
    exporting.write_csv(text, marks)
    assert '"Rossi, Anna"' in text.getvalue()
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(text.getvalue()))}
    assert rows["student"] == ["a: k (of 2)", "a: total (of 2)", "b: essay (of 3)", "b: k (of 1)", "b: total (of 4)"]
    assert rows['\'=HYPERLINK("x")'] == ["1.5", "1.5", "", "", ""]
    assert rows["Rossi, Anna"] == ["2", "2", "", "", ""]
    assert rows["李雷"] == ["", "", "1", "0", "1"]
    assert "' =1" in rows
    assert "a b" in rows


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "＝1", "\x00=1", "\x1b[31m"])
def test_what_a_spreadsheet_would_run_is_defused(text):
    assert exporting.harmless(text).startswith("'")
    assert exporting.harmless(text).isprintable()


@pytest.mark.parametrize("text", ["anna", "O'Brien, Seán", "李雷", "محمد", "a=b", "12"])
def test_names_stay_as_they_are(text):
    assert exporting.harmless(text) == text


def test_feedback_escapes_what_students_write():
    evil = "<script>alert(1)</script>"
    aspect = AspectMark(evil, False, 0, 5, evil)
    mark = KernelMark("softmax", False, 0, 5, evil, (aspect,), (evil, "two"), source=f"# {evil}\nx = '</details>'")
    page = feedback.page(evil, SubmissionResult(STEM, (mark,), (CellProblem(1, "raised", evil, 2),), (evil,)))
    assert "<script" not in page
    assert page.count("</details>") == 1
    assert "Content-Security-Policy" in page
    assert "prefers-color-scheme:dark" in page
    assert "Cell 1, line 2" in page


def test_commands_say_what_is_wrong(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    (tmp_path / "empty").mkdir()
    _hand_in_untouched(tmp_path, "anna")
    for command, words in {
        ("grade", str(tmp_path / "nowhere"), *out): "not a directory",
        ("grade", str(tmp_path / "empty"), *out): "holds no notebook",
        ("grade", "--assignment", "nothing", *out): "no chapter 'nothing'",
        ("grade", "--unsafe", "--sandbox", "landlock", *out): "--unsafe",
        ("feedback", *out): "holds no results",
        ("export", *out): "holds no gradebook",
    }.items():
        assert cli.main(list(command)) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        cli.main(["grade", "--workers", "0"])
    assert stopped.value.code == 2


@pytest.mark.parametrize("command", ["grade", "feedback", "export"])
def test_help_is_there(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    assert "--out" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_end_to_end(tmp_path, capsys):
    _hand_in_untouched(tmp_path, "=anna")
    out = ["--out", str(tmp_path)]
    assert cli.main(["grade", "--unsafe", *out]) == 0
    shown = capsys.readouterr()
    assert "=anna" in shown.out
    assert "not confined" in shown.err
    assert cli.main(["feedback", *out]) == 0
    assert "Not written yet" in (tmp_path / "feedback" / "=anna" / f"{STEM}.html").read_text(encoding="utf-8")
    assert cli.main(["feedback", "nobody", *out]) == 2
    assert cli.main(["export", str(tmp_path / "marks.csv"), "--excel", *out]) == 0
    assert (tmp_path / "marks.csv").read_bytes().startswith(b"\xef\xbb\xbfstudent,")
    assert "'=anna,0,0" in (tmp_path / "marks.csv").read_text(encoding="utf-8-sig")


@pytest.mark.slow
def test_a_fault_of_the_grader_leaves_the_submission_for_the_next_run_and_no_old_mark(tmp_path, url, monkeypatch):
    _hand_in_untouched(tmp_path, "anna", "ben")
    original = batch._submit
    fail = True

    def submit(executor, task, *rest):
        return (
            executor.submit(os.fspath, 3) if fail and task.found.student == "ben" else original(executor, task, *rest)
        )

    monkeypatch.setattr(batch, "_submit", submit)
    first = batch.grade_directory(tmp_path / "submitted", [STEM], url, tmp_path)
    assert [student for student, _ in first.results] == ["anna"]
    assert first.failures[0].startswith("ben, getting_started: TypeError")
    fail = False
    second = batch.grade_directory(tmp_path / "submitted", [STEM], url, tmp_path)
    assert (second.graded, second.failures) == (1, [])
    assert [student for student, _ in second.results] == ["anna", "ben"]
    fail = True
    with (tmp_path / "submitted" / "ben" / STEM / f"{STEM}.ipynb").open("a") as file:
        file.write("\n")
    third = batch.grade_directory(tmp_path / "submitted", [STEM], url, tmp_path)
    assert [student for student, _ in third.results] == ["anna"]
    assert [student for student, _ in Results(tmp_path).all()] == ["anna"]
    with open_gradebook(url) as gradebook:
        grades = {name: gradebook.find_grade("check-softmax", STEM, STEM, name) for name in ("anna", "ben")}
        assert (grades["anna"].auto_score, grades["anna"].needs_manual_grade) == (0, False)
        # No old mark stands as if it were that of the new submission.
        assert (grades["ben"].auto_score, grades["ben"].needs_manual_grade) == (None, True)


@pytest.mark.slow
def test_a_notebook_that_cannot_be_shown_stops_nobody(tmp_path, url, monkeypatch):
    _hand_in_untouched(tmp_path, "anna", "ben")
    original = batch.show

    def show(directory, found, result):
        if found.student == "anna":
            raise AttributeError("odd")
        original(directory, found, result)

    monkeypatch.setattr(batch, "show", show)
    outcome = batch.grade_directory(tmp_path / "submitted", [STEM], url, tmp_path)
    assert outcome.failures == ["anna, getting_started: AttributeError: odd"]
    assert [student for student, _ in outcome.results] == ["ben"]
