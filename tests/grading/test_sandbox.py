"""What the filter of system calls decides, what is hidden, which rung is taken, and what is said without one."""

import errno
import socket
import struct
from pathlib import Path

import pytest

from autograder import cli
from autograder.grading import landlock, linux, sandbox, seccomp
from autograder.grading.session import Limits, Worker, run_notebook
from autograder.notebooks import ROOT, released_path
from tests.grading.rungs import need

KILLED, ALLOWED = seccomp.KILL, seccomp.ALLOW
REFUSED, ABSENT = seccomp.ERRNO | errno.EPERM, seccomp.ERRNO | errno.ENOSYS


def decide(program: bytes, code: int, number: int, argument: int = 0) -> int:
    """What the kernel's machine makes of one system call."""
    steps = [struct.unpack("HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    data = {seccomp.NUMBER_AT: number, seccomp.MACHINE_AT: code, seccomp.FIRST_ARGUMENT_AT: argument}
    loaded, at = 0, 0
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        if operation == seccomp.RETURN:
            return value
        if operation == seccomp.LOAD:
            loaded = data[value]
            continue
        holds = {
            seccomp.EQUAL: loaded == value,
            seccomp.GREATER: loaded > value,
            seccomp.ANY_BIT: bool(loaded & value),
        }[operation]
        at += if_true if holds else if_false


@pytest.fixture(params=seccomp.MACHINES)
def decision(request):
    column, code = seccomp.MACHINES[request.param]

    def decision(call, argument=0, namespaces=True, signals=True):
        program = seccomp.program(request.param, namespaces=namespaces, signals=signals)
        return decide(program, code, call if isinstance(call, int) else seccomp.NUMBERS[call][column], argument)

    return decision


@pytest.mark.parametrize(
    ("call", "argument", "expected"),
    [
        *[(call, 0, KILLED) for call in seccomp.FATAL],
        *[(call, 0, REFUSED) for call in seccomp.REFUSED],
        ("clone3", 0, ABSENT),
        ("clone", 0x11, ALLOWED),
        ("clone", linux.CLONE_NEWUSER | 0x11, KILLED),
        ("socket", socket.AF_UNIX, ALLOWED),
        ("socket", socket.AF_INET, REFUSED),
        ("socket", 16, REFUSED),
        ("socketpair", socket.AF_UNIX, ALLOWED),
        ("kill", 0, ALLOWED),
        (seccomp.LAST_KNOWN + 1, 0, ABSENT),
        (0x40000000 + 41, 0, ABSENT),
    ],
)
def test_what_the_filter_decides(decision, call, argument, expected):
    assert decision(call, argument) == expected


@pytest.mark.parametrize(
    ("call", "argument", "signals", "expected"),
    [
        ("socket", socket.AF_UNIX, True, REFUSED),
        ("fchmodat", 0, True, REFUSED),
        ("prlimit64", 0, True, ALLOWED),
        ("prlimit64", 1, True, REFUSED),
        ("kill", 0, True, ALLOWED),
        ("kill", 0, False, REFUSED),
    ],
)
def test_without_namespaces_the_filter_refuses_more(decision, call, argument, signals, expected):
    assert decision(call, argument, namespaces=False, signals=signals) == expected


def test_the_filter_ends_calls_of_another_machine_and_refuses_to_guess():
    program = seccomp.program("x86_64", namespaces=True, signals=True)
    assert decide(program, 0x40000003, 0) == KILLED
    with pytest.raises(OSError, match="x86_64, aarch64, not riscv64"):
        seccomp.program("riscv64", namespaces=True, signals=True)


@pytest.mark.parametrize(("version", "count"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (9, 16)])
def test_landlock_asks_for_the_rights_that_its_version_knows(version, count):
    assert landlock.all_rights(version).bit_count() == count


def test_the_view_holds_no_folder_of_the_instructor(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "_bwrap", lambda: "bwrap")
    command = sandbox._bubblewrap(tmp_path, {})
    bound = {Path(target) for kind, _, target in zip(command, command[1:], command[2:], strict=False) if "bind" in kind}
    assert Path(sandbox.COURSE) in bound
    for hidden in (ROOT, ROOT / "autograder", Path.home(), Path("/"), Path("/home"), Path("/etc"), tmp_path):
        assert not any(hidden.is_relative_to(path) for path in bound)


@pytest.mark.slow
def test_a_course_that_is_installed_among_the_packages_is_hidden(monkeypatch, tmp_path):
    packages = tmp_path / "site-packages"
    answer = packages / "autograder" / "checks" / "answer.py"
    answer.parent.mkdir(parents=True)
    answer.write_text("secret")
    missing = {rung: sandbox.why_not(rung) for rung in sandbox.BEST_FIRST}  # before the change, which it remembers
    monkeypatch.setattr(sandbox, "_packages", lambda own=sandbox._packages(): [str(packages), *own])
    if not missing["landlock"]:
        with pytest.raises(sandbox.NotAvailable, match="cannot hide"):
            Worker("getting_started", "landlock")
    need("bubblewrap")
    worker = Worker("getting_started", "bubblewrap")
    try:
        came = run_notebook(worker, [(1, f"open({str(answer)!r})")], {}, Limits(cpu_seconds=5))
    finally:
        worker.close()
    assert came.problems[0].text.startswith("FileNotFoundError")


def test_the_best_rung_that_works_is_taken(monkeypatch):
    monkeypatch.setattr(sandbox, "why_not", {"bubblewrap": "no namespaces", "landlock": ""}.get)
    assert sandbox.best() == "landlock"


@pytest.fixture
def nothing_works(monkeypatch):
    monkeypatch.setattr(sandbox, "why_not", {"bubblewrap": "no namespaces", "landlock": "too old"}.get)


def test_without_a_rung_the_grader_refuses_and_says_why(nothing_works, tmp_path, capsys):
    folder = tmp_path / "submitted" / "anna" / "getting_started"
    folder.mkdir(parents=True)
    (folder / "getting_started.ipynb").write_bytes(released_path("getting_started").read_bytes())
    assert cli.main(["grade", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    for words in ("no namespaces", "too old", "autograder doctor", "--unsafe", "reach the network"):
        assert words in said
    assert cli.main(["grade", "--sandbox", "landlock", "--out", str(tmp_path)]) == 2
    assert "landlock does not work here: too old" in capsys.readouterr().err


def test_doctor_says_what_is_missing_and_what_to_do(nothing_works, capsys):
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    for words in ("no namespaces", "too old", "docker run", "--unsafe"):
        assert words in said


def test_doctor_says_what_the_grader_will_use(monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "why_not", {"bubblewrap": "", "landlock": "too old"}.get)
    assert cli.main(["doctor"]) == 0
    assert "`autograder grade` uses bubblewrap." in capsys.readouterr().out


def test_a_missing_program_is_said(monkeypatch, tmp_path):
    def missing():
        raise sandbox.NotAvailable("there is no bwrap program")

    monkeypatch.setattr(sandbox, "_bwrap", missing)
    assert sandbox.why_not.__wrapped__("bubblewrap") == "there is no bwrap program"


def test_the_trial_finds_open_doors():
    said = sandbox.why_not.__wrapped__(sandbox.UNSAFE)
    assert "read /etc/passwd" in said
    assert "open a network socket" in said
