"""The report counts what the class did and names who needs a person; its page opens alone and escapes everything."""

import re

import pytest

from autograder import cli
from autograder.course.likeness import Alike
from autograder.course.marks import Total
from autograder.course.regrading import FAILED, Regrade, log
from autograder.course.report import ChapterReport, ClassReport, class_report
from autograder.course.report_page import page
from autograder.course.settings import Assignment, Settings
from autograder.course.standing import Standing, standings
from autograder.grading.placing import Found
from autograder.grading.records import Results
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult
from autograder.grading.session import CellProblem

STEM = "attention_layer"
STUB = 'def similarity(query, key):\n    """Scores."""\n    # YOUR CODE HERE\n    raise NotImplementedError()\n'
WRITTEN = "def similarity(query, key):\n    return query @ key.T\n"
NO_SCALE = "similarity-no-scale"


def mark(score, kernel="similarity", source=WRITTEN, **more):
    return KernelMark(
        kernel, score == 5, score, 5, "verdict", (AspectMark("a", score > 0, score, 5),), source=source, **more
    )


def result(*marks, **more):
    return SubmissionResult(STEM, marks, **more)


@pytest.fixture
def directory(tmp_path):
    results = Results(tmp_path)
    for student, entry in {
        "anna": result(mark(5), mark(5, "cross_attention")),
        "ben": result(mark(0, mistakes=(NO_SCALE,)), mark(5, "cross_attention")),
        "李雷": result(mark(2, mistakes=(NO_SCALE,)), mark(0, "cross_attention", flags=("calls torch.x",))),
        "cleo": result(mark(0, source=STUB), mark(0, "cross_attention", flags=("stopped",))),
        "dan": result(
            mark(5),
            mark(0, "cross_attention", flags=("crashed", "asked for a forbidden system call")),
            problems=(CellProblem(3, "stopped", "Stopped after 5 s"), CellProblem(4, "raised", "x")),
            remarks=("A remark.",),
            alarms=("look at cell 2: it uses os.kill",),
        ),
    }.items():
        results.write(student, "key", entry)
    return tmp_path


def test_what_the_class_did(directory):
    (chapter,) = class_report(directory, Settings(), [], [STEM, "getting_started"]).chapters
    first, second = chapter.kernels
    assert (first.kernel, first.right, first.partly, first.wrong, first.not_written) == ("similarity", 2, 1, 1, 1)
    assert (second.right, second.wrong) == (2, 3)
    assert first.failing == 0.5
    (mistake,) = chapter.mistakes
    assert (mistake.count, mistake.of, mistake.ids) == (2, 5, (NO_SCALE,))
    assert "square root" in mistake.hint
    assert chapter.scores == [10, 5, 0, 5, 2]
    assert chapter.median == 5


def test_who_needs_a_person(directory):
    failed = Regrade(Found("anna", STEM, directory), None, result(mark(5)), None, "key", "OSError: x")
    log(failed, directory, FAILED)
    kept = [Standing("ben", STEM, (("essay", None, 2.0),), ("essay",), ("essay",))]
    looks = class_report(directory, Settings(), kept, [STEM]).looks
    assert [(look.kind, look.student) for look in looks] == [
        ("tampering", "dan"),
        ("ready-made", "李雷"),
        ("forbidden", "dan"),
        ("regrade", "anna"),
        ("by hand", "ben"),
        ("file", "dan"),
        ("crash", "dan"),
        ("time-out", "cleo"),
        ("time-out", "dan"),
    ]
    assert "the mark is the old one" in looks[3].what
    assert looks[4].what == "essay (no mark yet: essay)"


def test_the_course_counts_by_weight(directory):
    kept = [Standing("anna", STEM, (("similarity", 4.0, 5.0), ("cross_attention", 5.0, 5.0)))]
    settings = Settings({STEM: Assignment(1), "getting_started": Assignment(2)})
    report = class_report(directory, settings, kept, [STEM])
    assert report.percent["anna"] == pytest.approx(30)
    assert report.percent["ben"] == 0


def test_the_page_opens_alone_and_escapes(directory):
    evil = "<script>alert('x')</script>"
    Results(directory).write(
        "<b>eve", "key", result(mark(0, mistakes=(evil,)), mark(0, "cross_attention", flags=(f"calls {evil}",)))
    )
    report = class_report(directory, Settings(), [], [STEM])
    report.chapters[0].alike.append(Alike("<b>eve", "anna", 0.95, 70, ("similarity",)))
    text = page(report)
    assert "<script" not in text
    assert "<b>" not in text
    assert not re.search(r"\b(src|href)=|url\(|@import", text)
    assert "Content-Security-Policy" in text
    assert "2 of 6" in text
    assert "95 %" in text
    assert "<bdi>李雷</bdi>" in text


def test_late_marks_stand_beside_the_earned_ones():
    chapter = ChapterReport(STEM, [("anna", result(mark(5)))], [], [], [])
    text = page(ClassReport([chapter], {("anna", STEM): Total(4.5, 5.0, 2, True, 3.6)}, []))
    assert ">4.5</td>" in text
    assert ">2?</td>" in text
    assert ">3.6</td>" in text


def test_the_command(directory, capsys):
    (directory / "none.toml").write_text("")
    out = ["--out", str(directory), "--course", str(directory / "none.toml")]
    assert cli.main(["report", *out]) == 0
    said = capsys.readouterr().out
    assert "2 of 5 similarity: similarity-no-scale" in said
    assert "To be looked at, tampering: 1" in said
    assert "What is found is not complete." in said
    assert (directory / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert cli.main(["report", "--assignment", "nothing", *out]) == 2
    assert cli.main(["report", "--assignment", "getting_started", *out]) == 2
    assert "holds no results" in capsys.readouterr().err


def test_a_gradebook_that_is_empty_holds_nobody(tmp_path):
    assert standings(f"sqlite:///{tmp_path / 'gradebook.db'}") == []
