"""`autograder grade` where it is given what it cannot use: exit code 2 and one sentence, no traceback."""

import errno
import functools
import os
import shutil
import sqlite3
import sys

import pytest

from autograder import notebooks
from autograder.cli import main
from autograder.grading.placing import find_submissions, left_aside

STEM = "getting_started"


@pytest.fixture
def submitted(tmp_path):
    """One student's untouched notebook."""
    target = tmp_path / "submitted" / "ana" / STEM / f"{STEM}.ipynb"
    target.parent.mkdir(parents=True)
    shutil.copyfile(notebooks.released_path(STEM), target)
    return tmp_path / "submitted"


def said(capsys, *arguments):
    assert main(["grade", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def test_a_directory_that_is_not_there(tmp_path, capsys):
    assert "is not a directory" in said(capsys, tmp_path / "nowhere")


def test_a_directory_without_notebooks(tmp_path, capsys):
    assert "holds no notebook of" in said(capsys, tmp_path)


def test_the_directory_of_one_student(submitted, capsys):
    message = said(capsys, submitted / "ana")
    assert f"holds {STEM}, so it is one student's; give the directory that holds it" in message


def test_a_gradebook_that_is_no_url(submitted, tmp_path, capsys):
    message = said(capsys, submitted, "--db", "gradebook", "--out", tmp_path / "out")
    assert "'gradebook' is not a database URL" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("url", ["nosuch://host/gradebook", "sqlite+nosuch:///gradebook.db"])
def test_a_gradebook_on_an_unknown_system(submitted, tmp_path, capsys, url):
    assert "is not a database URL" in said(capsys, submitted, "--db", url, "--out", tmp_path / "out")


def test_a_driver_that_is_not_installed_is_named_with_its_extra(submitted, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    message = said(capsys, submitted, "--db", "postgresql://me:secret@host/marks", "--out", tmp_path / "out")
    assert 'pip install ".[postgresql]"' in message
    assert "secret" not in message


@pytest.mark.slow
def test_a_gradebook_that_cannot_be_opened(submitted, tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/nowhere/gradebook.db"
    message = said(capsys, submitted, "--db", url, "--out", tmp_path / "out", "--assignment", STEM)
    assert f"the gradebook {url} cannot be used" in message


@pytest.mark.parametrize("command", [["grade"], ["export"], ["report"]])
@pytest.mark.parametrize("trouble", ["no database", "locked"])
def test_a_gradebook_that_cannot_be_used_is_said(submitted, tmp_path, capsys, command, trouble, monkeypatch):
    book = tmp_path / "gradebook.db"
    if trouble == "no database":
        book.write_text("This is a text and no database. " * 10)
    holder = sqlite3.connect(book, isolation_level=None)
    if trouble == "locked":
        holder.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    place = [str(submitted)] if command == ["grade"] else []
    assert main([*command, *place, "--out", str(tmp_path)]) == 2
    assert (
        f"gradebook.db cannot be used: {'file is not a' if trouble == 'no database' else ''}" in capsys.readouterr().err
    )
    holder.close()


def test_a_full_disk_is_said(submitted, tmp_path, capsys, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("autograder.grading.batch.grade_directory", refuse)
    assert main(["grade", str(submitted), "--out", str(tmp_path)]) == 2
    assert "No space left on device. Make room" in capsys.readouterr().err


def test_what_is_no_student_s_is_named(submitted):
    (submitted / "stray.ipynb").write_text("{}")
    (submitted / "bob").mkdir()
    assert left_aside(submitted, {"ana"}) == ["bob", "stray.ipynb"]


def test_a_name_that_no_gradebook_can_hold_stops_nobody(submitted):
    long, no_text = "x" * 129, os.fsdecode(b"\xff\xfe")
    for name in (long, no_text):
        shutil.copytree(submitted / "ana", submitted / name)
    assert [found.student for found in find_submissions(submitted, [STEM])] == ["ana"]
    assert left_aside(submitted, {"ana"}) == [long, no_text]
