"""A release shows no statement of a withheld solution in any file, and its checks judge and name mistakes as before."""

import inspect
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from autograder import borrowing, catalog, cli, judging, notebooks, stored
from autograder.course import releasing
from autograder.judging import evaluate
from autograder.reference import getting_started

STEM = "getting_started"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The stored checks of a chapter."""
    path = tmp_path_factory.mktemp("release") / f"{STEM}.npz"
    path.write_bytes(stored.dump(STEM))
    return stored.load(path)


def reports(kernels):
    judging._exam.cache_clear()
    return [evaluate("softmax", kernel) for kernel in kernels]


def said(report):
    """What a student sees of a report."""
    findings = [(f.aspect, f.title, f.passed, f.text, f.mismatch) for f in report.findings]
    return report.passed, report.score, report.points, report.mistakes, report.advice, report.aspects, findings


def copied(kernel):
    """The kernel as a student's own function, not the course's."""
    return lambda *args, **kwargs: kernel(*args, **kwargs)


def test_stored_checks_say_what_the_courses_own_say(released, monkeypatch):
    mistakes = catalog.checks(STEM)["softmax"].mistakes
    kernels = [copied(kernel) for kernel in (getting_started.softmax, *(mistake.kernel for mistake in mistakes))]
    kernels += [lambda x, axis=-1: None, lambda x, axis=-1: np.asarray(x)]
    own = reports(kernels)
    monkeypatch.setattr(catalog, "checks", lambda stem: released)
    without_code = reports(kernels)
    judging._exam.cache_clear()
    # The course's own says of its reference that it is the reference; a release has none.
    assert [said(report) for report in without_code[1:]] == [said(report) for report in own[1:]]
    assert without_code[0].passed
    assert without_code[0].score == without_code[0].points == own[0].points
    for mistake, report in zip(mistakes, without_code[1:], strict=False):
        assert not report.passed
        assert mistake.id in report.mistakes


def test_a_release_has_no_code_and_no_hidden_cases(released):
    check = released["softmax"]
    assert check.hints == tuple(catalog.checks(STEM)["softmax"].hints)
    with pytest.raises(RuntimeError, match="no code"):
        check.reference(np.ones(3))
    with pytest.raises(TypeError):
        inspect.getsource(check.reference)
    with pytest.raises(RuntimeError, match="cannot grade"):
        judging.Exam("softmax", 3, check)


@pytest.mark.parametrize("value", [None, "x", 2, 1.5, True, np.float32(2), [1, (2, 3)], {"a": [np.arange(3.0)]}])
def test_what_a_case_may_hold_is_stored(value):
    pool = stored._Pool()
    text = json.dumps(stored._encoded(value, pool))
    found = stored._decoded(json.loads(text), {f"a{n}": array for n, array in enumerate(pool.arrays)})
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_what_cannot_be_stored_is_refused():
    with pytest.raises(TypeError, match="cannot be stored"):
        stored._encoded(object(), stored._Pool())


# Borrowing


def notebook(tmp_path, source):
    cells = [
        {
            "cell_type": "code",
            "source": 'import numpy as np\nbegin = print\nbegin("getting_started", "x")',
            "metadata": {},
        },
        {"cell_type": "code", "source": source, "metadata": {}},
    ]
    for cell in cells:
        cell |= {"outputs": [], "execution_count": None}
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    (tmp_path / f"{STEM}.ipynb").write_text(text)


def test_another_chapter_calls_the_students_own_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook(tmp_path, "def softmax(x, axis=-1):\n    return np.exp(x)\n")
    kernel = borrowing.own_kernel(STEM, "softmax")
    assert kernel(np.zeros(2)).tolist() == [1, 1]
    with pytest.raises(AttributeError, match="no kernel 'nothing'"):
        borrowing.own_kernel(STEM, "nothing")


def test_a_class_is_derived_from_the_students_own_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook(tmp_path, "class softmax:\n    def say(self):\n        return 'own'\n")

    class Derived(borrowing.own_kernel(STEM, "softmax")):
        pass

    assert Derived().say() == "own"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def softmax(x, axis=-1):\n    raise NotImplementedError()\n", "write it first"),
        ("def softmax(x, axis=-1:\n", "cannot be read"),
        ("x = 1", "does not define it"),
    ],
)
def test_a_kernel_that_is_not_there_is_named(tmp_path, monkeypatch, source, words):
    monkeypatch.chdir(tmp_path)
    notebook(tmp_path, source)
    with pytest.raises(RuntimeError, match=words):
        borrowing.own_kernel(STEM, "softmax")(np.zeros(2))


# Leaks


def statement():
    """A statement of the solution of softmax."""
    return next(iter(releasing._secrets([STEM]).values())).text


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.py", "def f():\n    {code}  # done\n"),
        ("a.md", "Say `{code}`\n\n{code}\n"),
        ("a.html", "<pre><span>{marked}</span>\n</pre>"),
        ("searchindex.js", 'Search.setIndex({{"x":"{escaped}"}})'),
        ("a.ipynb", '{{"cells": [{{"source": ["x = 1\\n", "{escaped}\\n"]}}]}}'),
        ("metadata.json", '{{"metadata": {{"note": "{escaped}"}}}}'),
        ("deep/er/x.toml", "note = '''\n{code}\n'''"),
        ("x.svg", "<svg><title>{code}\n</title></svg>"),
    ],
)
def test_a_solution_is_found_wherever_it_stands(tmp_path, name, form):
    code = statement()
    marked = code.replace("(", "<b>(</b>").replace(" = ", " <i>=</i> ")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(form.format(code=code, marked=marked, escaped=json.dumps(code)[1:-1]), encoding="utf-8")
    (found,) = releasing.leaks(tmp_path, [STEM])
    assert found.startswith(f"{name} shows an answer of 'softmax'")


def test_a_longer_statement_is_another_one_and_bytecode_is_none_to_give_out(tmp_path):
    (tmp_path / "a.py").write_text(f"{statement()}[0]\n")
    assert releasing.leaks(tmp_path, [STEM]) == []
    (tmp_path / "a.pyc").write_bytes(b"x")
    assert "compiled" in releasing.leaks(tmp_path, [STEM])[0]


def test_a_solution_in_stored_data_is_found(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", meta=np.frombuffer(f"x\n{statement()}\n".encode(), np.uint8))
    assert "x.npz" in releasing.leaks(tmp_path, [STEM])[0]


def test_wrong_use(tmp_path, capsys):
    (tmp_path / "course.toml").write_text("[chapters.getting_started]")
    course = ["--course", str(tmp_path / "course.toml")]
    for arguments, words in {
        (str(tmp_path),): "is there already",
        (str(tmp_path / "x"), "--open", "nothing"): "no chapter 'nothing'",
        (str(tmp_path / "x"), "--open", STEM): "nothing to leave out",
    }.items():
        assert cli.main(["release", "--without-solutions", *arguments, *course]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_what_students_get(tmp_path, capsys):
    (tmp_path / "course.toml").write_text("[chapters.getting_started]")
    out = tmp_path / "release"
    arguments = ["--no-site", "--course", str(tmp_path / "course.toml")]
    assert cli.main(["release", "--without-solutions", str(out), *arguments]) == 0
    assert "without the solutions of getting_started" in capsys.readouterr().out
    assert not (out / "solutions").exists()
    assert not (out / "tests").exists()
    assert "own_kernel" in (out / "autograder" / "reference" / f"{STEM}.py").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"release", "course.toml"}
    # The students' own command, in what they got.
    released = json.loads(notebooks.released_path(STEM).read_bytes())
    for cell in released["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "kernel-softmax":
            cell["source"] = (
                "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)\n"
            )
    (out / f"{STEM}.ipynb").write_text(json.dumps(released))
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "check", f"{STEM}.ipynb"],
        cwd=out,
        env=os.environ | {"PYTHONPATH": str(out), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "3 of 5 points" in done.stdout
    assert "minus infinities" in done.stdout


@pytest.mark.slow
def test_nothing_is_left_of_a_release_that_would_show_a_solution(tmp_path, capsys, monkeypatch):
    (tmp_path / "course.toml").write_text("[chapters.getting_started]")
    monkeypatch.setattr(releasing, "COPIED", ("autograder",))
    monkeypatch.setattr(releasing, "README", f"{{chapters}}\n\n    {statement()}\n".replace("{}", "{{}}"))
    arguments = ["--no-site", "--course", str(tmp_path / "course.toml")]
    assert cli.main(["release", "--without-solutions", str(tmp_path / "release"), *arguments]) == 1
    assert "README.md shows an answer of 'softmax'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["course.toml"]


@pytest.mark.slow
@pytest.mark.parametrize("stem", notebooks.stems())
def test_no_other_room_shows_an_answer_of_a_chapter(stem, tmp_path, monkeypatch):
    nothing = io.BytesIO()
    np.savez(nothing)
    monkeypatch.setattr(stored, "dump", lambda stem: nothing.getvalue())  # test_a_release_has_no_code looks into these
    releasing._write_package(tmp_path / "release", [stem])
    assert releasing.leaks(tmp_path / "release", [stem]) == []


@pytest.mark.slow
def test_the_lab_is_there_also_where_every_chapter_is_withheld(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "dump", lambda stem: b"")
    releasing._write_package(tmp_path / "release", notebooks.stems())
    modules = [f"lab.{path.stem}" for path in (notebooks.ROOT / "lab").glob("*.py")]
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(modules)}"],
        cwd=tmp_path / "release",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "release"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
