"""Marks reach the platforms whole: each in its student's row, late ones by the rule, and no cell runs as a formula."""

import csv
import datetime
import io
from types import SimpleNamespace

import pytest

from autograder.course import uploads
from autograder.course.handed_in import HandedIn, Ledger, digest_of, submitted_path, write_bytes
from autograder.course.marks import Total, course_percent, totals
from autograder.course.settings import read_settings
from autograder.grading.exporting import write_csv

STEM, OTHER = "getting_started", "self_attention"
KNOWN = (STEM, OTHER)
SETTINGS = """
time_zone = "Europe/Rome"
[late]
percent_per_day = 10
most_percent = 50
[chapters.getting_started]
deadline = 2026-03-28T18:00:00
[chapters.self_attention]
weight = 3
"""


def marks(student, score, stem=STEM):
    return SimpleNamespace(student=student, stem=stem, cells=(("kernel", score, 10.0),))


def total(earned, days=0, guess=False):
    return Total(earned, 10.0, days, guess, earned * (1 - days / 10))


def after(entry):
    return entry.after_penalty


def person(student, ident, platform="canvas", name=None, stem=STEM):
    return HandedIn(student, stem, platform, name or student, ident, "", "", None, False, "2026", 1, 0)


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "course.toml"
    path.write_text(SETTINGS)
    return read_settings(path, KNOWN)


def hand_in(directory, student, received=None, late=False):
    """Put a notebook where the grader reads it, with its line in the ledger."""
    ledger, data = Ledger(directory), student.encode()
    path = submitted_path(directory, student, STEM)
    write_bytes(path, data)
    if received:
        path.with_name("timestamp.txt").write_text(f"{received} UTC")
        moment = datetime.datetime.fromisoformat(received).replace(tzinfo=datetime.UTC)
        received = moment.isoformat(timespec="microseconds")
    entry = HandedIn(student, STEM, "x", student, "", "", digest_of(data), received, late, "2026", 1, 0)
    ledger.add(entry, data)
    ledger.save()


def test_lateness_is_counted_in_the_courses_zone_over_the_change_of_clocks(tmp_path, settings):
    # 18:00 in Rome is 17:00 UTC before the night of 29 March and 16:00 UTC after it.
    hand_in(tmp_path, "in time", "2026-03-28 17:00:00.000000")
    hand_in(tmp_path, "one day", "2026-03-29 16:00:00.000000")
    hand_in(tmp_path, "two days", "2026-03-29 16:00:01.000000")
    hand_in(tmp_path, "weeks", "2026-04-20 10:00:00.000000")
    hand_in(tmp_path, "who knows", late=True)
    hand_in(tmp_path, "unknown")
    students = ("in time", "one day", "two days", "weeks", "who knows", "unknown")
    sums = totals([marks(student, 8.0) for student in students], Ledger(tmp_path), settings)
    found = {student: (entry.days_late, entry.is_guess, entry.after_penalty) for (student, _), entry in sums.items()}
    assert found == {
        "in time": (0, False, 8.0),
        "one day": (1, False, 7.2),
        "two days": (2, False, 6.4),
        "weeks": (23, False, 4.0),
        "who knows": (1, True, 7.2),
        "unknown": (0, False, 8.0),
    }
    assert {entry.earned for entry in sums.values()} == {8.0}


def test_what_nbgrader_collected_is_late_by_its_stamp(tmp_path, settings):
    path = submitted_path(tmp_path, "anna", STEM)
    write_bytes(path, b"x")
    path.with_name("timestamp.txt").write_text("2026-03-29 10:00:00.000000 UTC")
    assert totals([marks("anna", 5.0)], Ledger(tmp_path), settings)["anna", STEM].days_late == 1


def test_chapters_count_by_weight(settings):
    sums = {("anna", STEM): total(10, 2), ("anna", OTHER): total(5), ("ben", OTHER): total(10)}
    assert course_percent("anna", sums, settings) == pytest.approx((80 + 3 * 50) / 4)
    assert course_percent("ben", sums, settings) == 75


def test_the_plain_table_shows_both_marks():
    entries = [marks("=anna", 8.0), marks("李雷", 6.0), marks("李雷", 5.0, OTHER)]
    sums = {("=anna", STEM): total(8.0, 2), ("李雷", STEM): total(6.0, 1, True), ("李雷", OTHER): total(5.0)}
    file = io.StringIO(newline="")
    write_csv(file, entries, sums, {STEM}, {"=anna": 16.0, "李雷": 50.55})
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert rows[0][2:5] == ["getting_started: total (of 10)", "getting_started: days late", f"{STEM}: after penalty"]
    assert rows[0][-1] == "course: percent"
    assert rows[1] == ["'=anna", "8", "8", "2", "6.4", "", "", "16.0"]
    assert rows[2] == ["李雷", "6", "6", "1?", "5.4", "5", "5", "50.5"]


CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Getting started (501),Essay (502),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,100,20,(read only)
"Doe, Jane",12345,u1,jane,Monday,,7,
"Rossi, Anna",12346,u2,arossi,Monday,55,8,
"=HYPERLINK(""x"")",12347,u3,@evil,Monday,,,
"Li, 雷",12348,u4,lilei,Monday,30,,
"Student, Test",99,,,Monday,,,
"""


def read(text):
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_canvas_keeps_its_numbers_and_its_scale(tmp_path):
    path = tmp_path / "canvas.csv"
    path.write_text(CANVAS, encoding="utf-8")
    sums = {
        ("doejane", STEM): total(8.0, 1),  # by Canvas's number
        ("arossi", STEM): total(10.0),  # by login
        ("evil", STEM): total(4.0),  # by number
        ("arossi", OTHER): total(3.0),
        ("ghost", STEM): total(3.0),
    }
    people = [person("doejane", "12345"), person("evil", "12347")]
    upload = uploads.for_canvas(sums, people, after, uploads.read_base(path))
    assert upload.text().startswith("\ufeffStudent,ID,")
    rows = read(upload.text())
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Getting started (501)", OTHER]
    assert rows[1] == ["    Points Possible", "", "", "", "", "100", "10"]
    assert rows[2] == ["Doe, Jane", "12345", "u1", "jane", "Monday", "72", ""]
    assert rows[3] == ["Rossi, Anna", "12346", "u2", "arossi", "Monday", "100", "3"]
    assert rows[4] == ['\'=HYPERLINK("x")', "12347", "u3", "'@evil", "Monday", "40", ""]
    # Nobody's mark is taken away by an empty cell.
    assert rows[5] == ["Li, 雷", "12348", "u4", "lilei", "Monday", "30", ""]
    assert len(rows) == 7
    assert len(upload.unplaced) == 1
    assert upload.unplaced[0].startswith("ghost: not in")


def test_a_name_that_two_have_is_nobodys(tmp_path):
    path = tmp_path / "canvas.csv"
    path.write_text('Student,ID,Section\n"Wang, Wei",1,A\n"Wang, Wei",2,A\n"Doe, Jane",3,A\n')
    sums = {("Wei Wang", STEM): total(8.0), ("Jane Doe", STEM): total(7.0)}
    upload = uploads.for_canvas(sums, [], after, uploads.read_base(path))
    assert [row[-1] for row in read(upload.text())] == [STEM, "", "", "7"]
    assert [line.split(":")[0] for line in upload.unplaced] == ["Wei Wang"]


def test_canvas_without_a_base():
    sums = {("doejane", STEM): total(8.0), ("李雷", STEM): total(7.123)}
    upload = uploads.for_canvas(sums, [person("doejane", "12345")], after, None)
    assert upload.rows == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", STEM],
        ["    Points Possible", "", "", "", "", "10"],
        ["doejane", "12345", "", "", "", "8"],
        ["李雷", "", "", "李雷", "", "7.12"],
    ]
    assert len(upload.notes) == 1


MOODLE = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Feedback comments
Participant 12345,Anna Rossi,anna@example.org,Submitted,,100.00,"Sunday, 29 March 2026, 6:00 PM",=1+1
Participant 12346,محمد علي,m@example.org,Submitted,50.00,100.00,-,
Participant 12347,Wei Wang,w1@example.org,Submitted,,100.00,-,
Participant 12348,Wei Wang,w2@example.org,Submitted,,100.00,-,
"""


def test_moodles_grading_worksheet(tmp_path):
    path = tmp_path / "moodle.csv"
    path.write_text(MOODLE, encoding="utf-8")
    sums = {
        ("Anna Rossi", STEM): total(9.0),
        ("محمد علي", STEM): total(8.0, 5),
        ("Wei Wang", STEM): total(1.0),
        ("Wei Wang (12348)", STEM): total(2.0),
    }
    people = [
        person("Wei Wang", "12347", "moodle"),
        person("Wei Wang (12348)", "12348", "moodle"),
        # The numbers of another assignment are others.
        person("محمد علي", "12345", "moodle", stem=OTHER),
    ]
    base = uploads.read_base(path)
    upload = uploads.for_moodle(sums, people, after, base, [STEM])
    rows = read(upload.text())
    assert rows[0] == MOODLE.splitlines()[0].split(",")
    assert [(row[0], row[4]) for row in rows[1:]] == [
        ("Participant 12345", "90"),
        ("Participant 12346", "40"),
        ("Participant 12347", "10"),
        ("Participant 12348", "20"),
    ]
    assert rows[1][-1] == "'=1+1"
    assert rows[2][6] == "-"
    assert upload.unplaced == []
    assert not upload.text().startswith("\ufeff")
    with pytest.raises(uploads.BaseError, match="--column"):
        uploads.for_moodle(sums, people, after, base, [STEM], "Bewertung")
    with pytest.raises(uploads.BaseError, match="--assignment"):
        uploads.for_moodle(sums, people, after, base, [STEM, OTHER])


def test_moodle_without_a_base():
    sums = {("Anna", STEM): total(8.0, 1)}
    people = [person("Anna", "1", "moodle", "Anna Rossi")]
    assert uploads.for_moodle(sums, people, after, None, [STEM]).rows == [
        ["Student", "Full name", f"{STEM} (of 10)", f"{STEM}: before penalty", f"{STEM}: days late"],
        ["Anna", "Anna Rossi", "7.2", "8", "1"],
    ]


@pytest.mark.parametrize("data", [b"", b"x", b"\xff\xfe", b"a;b\n"])
def test_a_base_that_is_none(tmp_path, data):
    path = tmp_path / "base.csv"
    path.write_bytes(data)
    with pytest.raises(uploads.BaseError, match=r"base\.csv"):
        uploads.for_canvas({}, [], after, uploads.read_base(path))


def test_semicolons_are_read(tmp_path):
    path = tmp_path / "canvas.csv"
    path.write_text("Student;ID;Section\nAnna;1;A\n")
    rows = uploads.for_canvas({("Anna", STEM): total(5.0)}, [], after, uploads.read_base(path)).rows
    assert rows[1] == ["Anna", "1", "A", "5"]


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    from autograder import cli
    from autograder.grading.gradebook import open_gradebook, record, register
    from autograder.grading.results import AspectMark, KernelMark, SubmissionResult

    role = {"grade_id": "check-softmax", "grade": True, "solution": False, "locked": True, "points": 10}
    cell = {"cell_type": "code", "source": ["x"], "metadata": {"nbgrader": role}}
    mark = KernelMark("softmax", False, 8, 10, "", (AspectMark("values", True, 8, 10),))
    with open_gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        register(gradebook, STEM, {"cells": [cell]})
        record(gradebook, [("doejane", SubmissionResult(STEM, (mark,)))])
    hand_in(tmp_path, "doejane", "2026-03-29 17:00:00.000000")
    (tmp_path / "course.toml").write_text(SETTINGS)
    (tmp_path / "canvas.csv").write_text(CANVAS, encoding="utf-8")
    out, base = tmp_path / "marks.csv", ["--base", str(tmp_path / "canvas.csv")]

    def run(*arguments):
        places = ["--out", str(tmp_path), "--course", str(tmp_path / "course.toml")]
        code = cli.main(["export", *arguments, *places])
        return code, capsys.readouterr().err

    code, said = run(str(out), "--to", "canvas", *base)
    assert code == 0
    assert "doejane, getting_started: 2 days late: 8 of 10 before, 6.4 after the penalty." in said
    assert read(out.read_text(encoding="utf-8"))[2][-1] == "64"
    assert run(str(out), "--to", "canvas", "--raw", *base)[0] == 0
    assert read(out.read_text(encoding="utf-8"))[2][-1] == "80"
    assert run(str(out), "--to", "moodle")[0] == 0
    assert run(str(out))[0] == 0
    assert read(out.read_text(encoding="utf-8"))[1] == ["doejane", "8", "8", "2", "6.4", "16.0"]
    assert run(*base)[0] == 2
    assert run("--assignment", "nothing")[0] == 2
    (tmp_path / "canvas.csv").write_text("Student,ID,Section\nX,1,A\n")
    code, said = run(str(out), "--to", "canvas", *base)
    assert code == 1
    assert "not placed: doejane" in said


def test_a_missing_mark_is_never_a_number(tmp_path, settings):
    entry = SimpleNamespace(student="anna", stem=STEM, cells=(("essay", None, 4.0), ("kernel", 6.0, 10.0)))
    other = marks("ben", 0.0)
    hand_in(tmp_path, "anna", late=True)
    sums = totals([entry, other], Ledger(tmp_path), settings)
    assert (sums["anna", STEM].earned, sums["anna", STEM].after_penalty) == (None, None)
    percent = {student: course_percent(student, sums, settings) for student in ("anna", "ben")}
    assert percent == {"anna": None, "ben": 0}
    file = io.StringIO(newline="")
    write_csv(file, [entry, other], sums, {STEM}, percent)
    assert [row[1:] for row in read(file.getvalue())[1:]] == [
        ["", "6", "incomplete", "1?", "incomplete", "incomplete"],
        ["", "0", "0", "0", "0", "0.0"],
    ]
    canvas, moodle = tmp_path / "canvas.csv", tmp_path / "moodle.csv"
    canvas.write_text("Student,ID,Section,Getting started (5)\nanna,1,A,7\nben,2,A,7\n")
    moodle.write_text("Identifier,Full name,Grade\nParticipant 1,anna,7\nParticipant 2,ben,7\n")
    upload = uploads.for_canvas(sums, [], after, uploads.read_base(canvas))
    assert [row[-1] for row in upload.rows[1:]] == ["7", "0"]
    upload = uploads.for_moodle(sums, [], after, uploads.read_base(moodle), [STEM])
    assert [row[-1] for row in upload.rows[1:]] == ["7", "0"]
    assert uploads.for_moodle(sums, [], after, None, [STEM]).rows[1][2:] == ["", "", "1"]
