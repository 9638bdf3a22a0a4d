"""Hand-ins from every platform end in the grader's layout: nothing lost, nothing twice, nothing outside of it."""

import io
import json
import os
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from autograder import cli
from autograder.course import entries, platforms
from autograder.course.handed_in import Ledger
from autograder.grading.placing import DEPTH_LIMIT, find_submissions

STEM, OTHER = "getting_started", "attention_layer"
DEADLINE = "time_zone = 'Europe/Rome'\n[chapters.getting_started]\ndeadline = 2026-03-29T18:00:00\n"


def notebook(text: str = "", stem: str = STEM) -> bytes:
    sources = [f'begin("{stem}", release="")', text]
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()


@pytest.fixture
def grading(tmp_path):
    return tmp_path / "grading"


@pytest.fixture
def collect(grading, tmp_path, capsys):
    """Run the command; its exit code and all that it says."""
    (tmp_path / "course.toml").write_text(DEADLINE)

    def run(*arguments):
        out = ["--out", str(grading), "--course", str(tmp_path / "course.toml")]
        code = cli.main(["collect", *map(str, arguments), *out])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


def folder(root, files):
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def packed(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def submitted(grading, student, stem=STEM):
    return (grading / "submitted" / student / stem / f"{stem}.ipynb").read_bytes()


def students(grading):
    return sorted(path.name for path in (grading / "submitted").iterdir()) if (grading / "submitted").exists() else []


FOLDERS = {
    f"anna/{STEM}/{STEM}.ipynb": notebook("anna"),
    f"anna/{STEM}/notes.txt": b"x",
    "李雷/my work.ipynb": notebook("李雷"),
    f"José/{OTHER}.ipynb": notebook("José", OTHER),
    "Zoë.zip": b"",
    "anna/.ipynb_checkpoints/x.ipynb": notebook("old"),
}


@pytest.mark.parametrize("as_zip", [False, True])
def test_students_folders(collect, grading, tmp_path, as_zip):
    inner = io.BytesIO()
    packed(inner, {"work/getting_started.ipynb": notebook("Zoë")})
    files = FOLDERS | {"Zoë.zip": inner.getvalue()}
    source = packed(tmp_path / "class.zip", files) if as_zip else folder(tmp_path / "class", files)
    code, said = collect(source)
    assert code == 0, said
    assert "read as folder" in said
    assert students(grading) == sorted(["anna", "李雷", "José", "Zoë"])
    assert submitted(grading, "anna") == notebook("anna")
    assert submitted(grading, "José", OTHER) == notebook("José", OTHER)
    assert submitted(grading, "Zoë") == notebook("Zoë")
    assert {found.student for found in find_submissions(grading / "submitted", [STEM])} == {"anna", "李雷", "Zoë"}


def test_a_folder_of_notebooks_that_are_named_for_students(collect, grading, tmp_path):
    files = {
        f"anna_{STEM}.ipynb": notebook("a"),
        f"{STEM} - Li Lei.ipynb": notebook("b"),
        "O'Brien.ipynb": notebook("c"),
        f"{STEM}.ipynb": notebook("d"),
    }
    code, said = collect(folder(tmp_path / "class", files))
    assert code == 1
    assert "read as files" in said
    assert f"{STEM}.ipynb: its name does not say whose it is" in said
    assert students(grading) == ["Li Lei", "O'Brien", "anna"]


CANVAS = {
    "doejane_12345_700_getting_started.ipynb": notebook("jane"),
    "doejane_LATE_999_701_getting_started-1.ipynb": notebook("another jane"),
    "李雷_77_702_attention_layer.ipynb": notebook("li", OTHER),
    "smith_bob_78_703_a_1_2_b.ipynb": notebook("bob"),
    "anon_Ab3dE_704_getting_started.ipynb": notebook("nobody"),
    "LATE_anon_Xy1z0_705_getting_started.ipynb": notebook("late nobody"),
    "noté_79_706_essay.pdf": b"x",
    "wei_80_707_text.ipynb": notebook("older"),
    "wei_80_1708_text-1.ipynb": notebook("newer"),
    "odd.txt": b"x",
}


def test_canvas(collect, grading, tmp_path):
    code, said = collect(packed(tmp_path / "submissions.zip", CANVAS))
    assert code == 1
    assert "read as canvas" in said
    assert "not placed: noté: no notebook was handed in" in said
    assert "not placed: odd.txt: its name is not one that Canvas gives" in said
    assert said.count("not placed") == 2
    assert submitted(grading, "doejane") == notebook("jane")
    assert submitted(grading, "doejane (999)") == notebook("another jane")
    assert "doejane (999) (by how much is not known)" in said
    assert submitted(grading, "李雷", OTHER) == notebook("li", OTHER)
    assert submitted(grading, "smith_bob") == notebook("bob")
    assert submitted(grading, "anon_Ab3dE") == notebook("nobody")
    assert submitted(grading, "anon_Xy1z0") == notebook("late nobody")
    assert submitted(grading, "wei") == notebook("newer")
    wei = Ledger(grading).of("wei", STEM)
    assert [Ledger(grading).path(entry).read_bytes() for entry in wei] == [notebook("older"), notebook("newer")]


def test_canvas_numbers_know_a_student_again(collect, grading, tmp_path):
    collect(packed(tmp_path / "one.zip", {"doejane_12345_700_a.ipynb": notebook("one")}))
    code, _ = collect(
        packed(
            tmp_path / "two.zip",
            {"smithjane_12345_800_b.ipynb": notebook("two", OTHER), "doejane_5_801_b.ipynb": notebook("x", OTHER)},
        )
    )
    assert code == 0
    assert students(grading) == ["doejane", "doejane (5)"]
    assert submitted(grading, "doejane", OTHER) == notebook("two", OTHER)


@pytest.mark.parametrize("as_zip", [False, True])
def test_moodle(collect, grading, tmp_path, as_zip):
    files = {
        "Anna Rossi_12345_assignsubmission_file/getting_started.ipynb": notebook("anna"),
        "Олег Иванов_12346_assignsubmission_file_/work/getting_started.ipynb": notebook("oleg"),
        "محمد علي_12347_assignsubmission_file_getting_started.ipynb": notebook("flat"),
        "Wei Wang_12348_assignsubmission_file_/a.ipynb": notebook("first wei"),
        "Wei Wang_12349_assignsubmission_file_/a.ipynb": notebook("second wei"),
        "Anna Rossi_12345_assignsubmission_onlinetext/onlinetext.html": b"<p>x</p>",
    }
    source = packed(tmp_path / "m.zip", files) if as_zip else folder(tmp_path / "m", files)
    code, said = collect(source)
    assert code == 1
    assert "read as moodle" in said
    assert said.count("not placed") == 1
    assert "Moodle's text field" in said
    assert students(grading) == sorted(["Anna Rossi", "Олег Иванов", "محمد علي", "Wei Wang", "Wei Wang (12349)"])
    assert "is another one in each assignment" in said
    assert submitted(grading, "محمد علي") == notebook("flat")
    # The numbers are others in the next assignment; the names are not.
    again = {"Anna Rossi_9_assignsubmission_file_/a.ipynb": notebook("next", OTHER)}
    assert collect(packed(tmp_path / "next.zip", again))[0] == 0
    assert submitted(grading, "Anna Rossi", OTHER) == notebook("next", OTHER)


def test_github_classroom(collect, grading, tmp_path):
    root = tmp_path / "attention-course-submissions"
    for user, text in {"octo-cat": "a", "anna": "b"}.items():
        clone = folder(root / f"attention-course-{user}", {f"{STEM}.ipynb": notebook(text), "README.md": b"x"})
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_COMMITTER_DATE": "2026-03-30T10:00:00Z"}
        names = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run(["git", *names, *command], cwd=clone, env=environment, check=True)
    code, said = collect(root)
    assert code == 0, said
    assert "read as github" in said
    assert students(grading) == ["anna", "octo-cat"]
    assert Ledger(grading).of("anna", STEM)[0].received == "2026-03-30T10:00:00.000000+00:00"
    assert "late: anna (1 day)" in said
    # Another name of the folder: what the repositories have in common tells the student.
    assert collect(root.rename(tmp_path / "checkout"))[0] == 0
    assert students(grading) == ["anna", "octo-cat"]


@pytest.mark.parametrize("remote", ["ext::sh -c touch% {marker}", "ssh://x/y"])
def test_a_repository_cannot_have_git_run_a_program(collect, tmp_path, monkeypatch, remote):
    # A student's folder may hold a repository of any kind: here one whose last commit git would have to fetch.
    marker, root = tmp_path / "marker", tmp_path / "hw-submissions"
    clone = folder(root / "hw-anna", {f"{STEM}.ipynb": notebook("a")})
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": remote.format(marker=marker),
        "protocol.ext.allow": "always",
        "core.sshCommand": f"touch {marker};",
    }
    names = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    commands = [["init", "-q"], ["add", "."], ["commit", "-qm", "x"], *(["config", *s] for s in settings.items())]
    for command in commands:
        subprocess.run(["git", *names, *command], cwd=clone, check=True)
    for objects in (clone / ".git" / "objects").glob("??"):
        shutil.rmtree(objects)
    monkeypatch.delitem(platforms.GIT_READS_ALONE, "GIT_NO_LAZY_FETCH")  # which an older git does not know
    assert collect(root)[0] == 0
    assert not marker.exists()


def test_folders_without_end_are_left_out_and_named(collect, grading, tmp_path):
    root = folder(tmp_path / "class", {f"anna/{STEM}/{STEM}.ipynb": notebook("a")})
    deep = root / "anna" / Path(*["f"] * (DEPTH_LIMIT + 3))
    deep.mkdir(parents=True)
    code, said = collect(root)
    assert (code, students(grading)) == (1, ["anna"])
    assert f"nested more than {DEPTH_LIMIT} deep are left out" in said


def test_names_keep_the_joiners_that_their_script_needs(collect, grading, tmp_path):
    names = ["علی\u200cرضا", "क्\u200dष"]
    files = {f"{name}_{n}_assignsubmission_file_/a.ipynb": notebook("a") for n, name in enumerate(names, 1)}
    assert collect(packed(tmp_path / "moodle.zip", files))[0] == 0
    assert students(grading) == sorted(names)


def exchange(root):
    def hand_in(user, time, text, stamp=None):
        name = f"{user}+{STEM}+{time} UTC+aB3_d-5fGh1k"
        files = {f"{STEM}.ipynb": notebook(text)} | ({"timestamp.txt": stamp} if stamp else {})
        return {f"attention-course/inbound/{name}/{file}": data for file, data in files.items()}

    return folder(
        root,
        hand_in("anna", "2026-03-29 15:59:00.000001", "in time", b"2026-03-29 15:59:00.000001 UTC")
        | hand_in("anna", "2026-03-29 16:30:00.000000", "late", b"2026-03-29 18:30:00.000000 +0200")
        | hand_in("a+b", "2026-03-27 10:00:00.000000", "plus"),
    )


@pytest.mark.parametrize("inside", ["", "attention-course", "attention-course/inbound"])
def test_the_exchange(collect, grading, tmp_path, inside):
    code, said = collect(exchange(tmp_path / "exchange") / inside)
    assert code == 0, said
    assert "read as exchange" in said
    assert students(grading) == ["a+b", "anna"]
    assert submitted(grading, "anna") == notebook("late")
    assert "late: anna (1 day)" in said
    stamp = grading / "submitted" / "anna" / STEM / "timestamp.txt"
    assert stamp.read_text() == "2026-03-29 16:30:00.000000 UTC"


def test_the_times_of_nbgraders_own_folders(collect, grading, tmp_path):
    forged = io.BytesIO()
    packed(forged, {"a.ipynb": notebook(), "timestamp.txt": b"2026-03-01 10:00:00.000000 UTC"})
    files = {
        f"anna/{STEM}/{STEM}.ipynb": notebook(),
        f"anna/{STEM}/timestamp.txt": b"2026-03-31 16:00:00.000000 UTC",
        f"anna/{OTHER}/{OTHER}.ipynb": notebook("", OTHER),
        f"anna/{OTHER}/timestamp.txt": b"nonsense",
        "ben/work.zip": forged.getvalue(),
    }
    assert "late: anna (2 days)" in collect(folder(tmp_path / "class", files))[1]
    ledger = Ledger(grading)
    assert [ledger.of("anna", OTHER)[0].received, ledger.of("ben", STEM)[0].received] == [None, None]


@pytest.mark.parametrize(("rule", "text"), [("latest in time", "in time"), ("first", "in time"), ("latest", "late")])
def test_which_of_several_counts(collect, grading, tmp_path, rule, text):
    (tmp_path / "course.toml").write_text(f"repeated = '{rule}'\n{DEADLINE}")
    collect(exchange(tmp_path / "exchange"))
    assert submitted(grading, "anna") == notebook(text)
    assert len(Ledger(grading).of("anna", STEM)) == 2


def test_again_nothing_is_new_and_a_newer_one_takes_the_place(collect, grading, tmp_path):
    source = folder(tmp_path / "class", {"anna/a.ipynb": notebook("old")})
    assert "1 new, 0 seen" in collect(source)[1]
    assert "0 new, 1 seen" in collect(source)[1]
    folder(source, {"anna/a.ipynb": notebook("new")})
    assert "1 new, 0 seen" in collect(source)[1]
    assert submitted(grading, "anna") == notebook("new")
    folder(source, {"anna/a.ipynb": notebook("old")})
    assert "0 new, 1 seen" in collect(source)[1]
    assert submitted(grading, "anna") == notebook("old")
    assert len(Ledger(grading).of("anna", STEM)) == 2
    assert not list(grading.rglob("*.unfinished"))


def test_what_lay_there_is_kept(collect, grading, tmp_path):
    folder(grading / "submitted", {f"anna/{STEM}/{STEM}.ipynb": notebook("by hand")})
    collect(folder(tmp_path / "class", {"anna/a.ipynb": notebook("new")}))
    ledger = Ledger(grading)
    kept = [ledger.path(entry).read_bytes() for entry in ledger.of("anna", STEM)]
    assert kept == [notebook("by hand"), notebook("new")]


def test_a_notebook_that_cannot_be_read_is_placed_by_its_path(collect, grading, tmp_path):
    source = folder(tmp_path / "class", {f"anna/{STEM}/x.ipynb": b"{", "ben/hw.ipynb": b"{"})
    code, said = collect(source)
    assert code == 1
    assert submitted(grading, "anna") == b"{"
    assert "not placed: ben: hw.ipynb: its chapter cannot be told" in said
    assert collect(source, "--assignment", STEM)[0] == 0
    assert submitted(grading, "ben") == b"{"


def test_names_that_a_file_system_may_take_for_one(collect, grading, tmp_path):
    files = {"anna/a.ipynb": notebook("1"), "Anna/a.ipynb": notebook("2"), "Jose\u0301/a.ipynb": notebook("3")}
    code, said = collect(packed(tmp_path / "class.zip", files))
    assert code == 1
    assert "in capital letters alone" in said
    assert len(students(grading)) == 2
    assert "Jos\u00e9" in students(grading)


def test_paths_and_links_lead_nowhere(collect, grading, tmp_path):
    canary = tmp_path / "canary.ipynb"
    canary.write_bytes(notebook("secret"))
    path = packed(
        tmp_path / "class.zip",
        {
            "../evil/a.ipynb": notebook(),
            "/abs/a.ipynb": notebook(),
            "a\\..\\b.ipynb": notebook(),
            "ok/a.ipynb": notebook(),
        },
    )
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("linked/a.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, str(canary))
    code, said = collect(path)
    assert code == 1
    assert said.count("leads out of the zip") >= 3
    assert "is a link" in said
    assert students(grading) == ["ok"]
    root = folder(tmp_path / "class", {"ben/b.ipynb": notebook()})
    (root / "anna").mkdir()
    (root / "anna" / "a.ipynb").symlink_to(canary)
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "ben" / "pipe.ipynb")
    code, said = collect(root)
    assert code == 1
    assert said.count("is a link") == 2
    assert "device" in said
    assert students(grading) == ["ben", "ok"]
    outside = tmp_path / "outside"
    outside.mkdir()
    (grading / "submitted" / "cleo").mkdir()
    (grading / "submitted" / "cleo" / STEM).symlink_to(outside)
    code, said = collect(folder(tmp_path / "more", {"cleo/a.ipynb": notebook()}))
    assert code == 1
    assert "link to another place" in said
    assert list(outside.iterdir()) == []


def test_bombs_and_huge_files_are_refused(collect, grading, tmp_path, monkeypatch):
    monkeypatch.setattr(entries, "SIZE_LIMIT", 3_000_000)
    source = packed(
        tmp_path / "class.zip",
        {"anna/a.ipynb": b" " * 2_000_000, "ben/b.ipynb": os.urandom(3_000_001), "ok/a.ipynb": notebook()},
    )
    code, said = collect(source)
    assert code == 1
    assert "anna: a.ipynb" in said
    assert "as a zip bomb does" in said
    assert "ben: b.ipynb: It has over 3 MB" in said
    assert students(grading) == ["ok"]
    # Files of a zip that share their bytes.
    data = source.read_bytes()
    small = packed(tmp_path / "small.zip", {f"{n}/a.ipynb": notebook() for n in range(3)}).read_bytes()
    start, end = small.index(b"PK\x01\x02"), small.index(b"PK\x05\x06")
    first = small[start : small.index(b"PK\x01\x02", start + 4)]
    directory = first.replace(first[20:24], (len(small) * 2).to_bytes(4, "little"), 1)
    tail = bytearray(small[end:])
    tail[8:12] = b"\x01\x00\x01\x00"
    tail[12:16] = len(directory).to_bytes(4, "little")
    (tmp_path / "overlap.zip").write_bytes(small[:start] + directory + bytes(tail))
    code, said = collect(tmp_path / "overlap.zip")
    assert code == 2
    assert "overlap" in said
    assert data


def test_what_a_platform_gave_out_inside_a_folder_is_no_student(collect, grading, tmp_path):
    source = tmp_path / "class"
    source.mkdir()
    packed(source / "submissions.zip", CANVAS)
    code, said = collect(source)
    assert code == 1
    assert "collect it by itself" in said
    assert students(grading) == []


def test_names_without_the_mark_of_utf8_are_read(collect, grading, tmp_path):
    path = packed(tmp_path / "x.zip", {"李雷_77_702_a.ipynb": notebook()})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + offset
        data[at : at + 2] = b"\x00\x00"
    path.write_bytes(bytes(data))
    assert collect(path)[0] == 0
    assert students(grading) == ["李雷"]


def test_wrong_use(collect, tmp_path):
    (tmp_path / "x.txt").write_text("x")
    for arguments, words in {
        (tmp_path / "nowhere",): "does not exist",
        (tmp_path / "x.txt",): "neither a folder nor a zip",
        (tmp_path, "--assignment", "nothing"): "no chapter 'nothing'",
    }.items():
        code, said = collect(*arguments)
        assert code == 2
        assert words in said
    (tmp_path / "course.toml").write_text("x = 1")
    code, said = collect(tmp_path)
    assert code == 2
    assert "no key x" in said
