"""The commands check, hint, notebooks and update as a shell sees them: help, output, exit codes."""

import os
import subprocess
import sys
import textwrap

import nbformat
import pytest

from autograder import catalog, notebooks
from autograder.cli import main
from autograder.commands.check import MODULE

STEM = "getting_started"
RIGHT = """
def softmax(x, axis=-1):
    top = x.max(axis, keepdims=True)
    parts = np.exp(x - np.where(np.isinf(top), 0, top).astype(x.dtype))
    total = parts.sum(axis, keepdims=True)
    return parts / np.where(total == 0, 1, total).astype(x.dtype)
"""
OVERFLOWS = "def softmax(x, axis=-1):\n    parts = np.exp(x)\n    return parts / parts.sum(axis, keepdims=True)\n"
SYNTAX_ERROR = "def softmax(x, axis=-1):\n    return (x\n"


@pytest.fixture
def notebook(tmp_path):
    """Write a notebook of the course with a given answer; more cells go below it."""

    def write(answer=None, *more):
        released = notebooks.read_released(STEM)
        if answer is not None:
            next(cell for cell in released.cells if cell.id == "kernel-softmax").source = answer
        released.cells += [nbformat.v4.new_code_cell(source) for source in more]
        path = tmp_path / "work.ipynb"
        path.write_text(notebooks.as_text(released))
        return path

    return write


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "work.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def output(capsys):
    """What was printed, on one line: where lines break is not the matter here."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture(autouse=True)
def forget_the_students_module():
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize("command", ["check", "hint", "notebooks", "update"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"autograder {command}" in output(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["check"],
        ["hint"],
        ["update"],
        ["notebooks", "--nonsense"],
        ["hint", "softmax", "--level", "x"],
    ],
)
def test_arguments_that_do_not_parse_are_wrong_use(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_wrong_use_in_a_process_of_its_own():
    """The module may be run by its name too, as the Makefile does."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "hint", "softmaxx"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("autograder hint: There is no kernel 'softmaxx'")
    assert "Did you mean: softmax" in done.stderr


def test_a_missing_package_of_the_grader_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert main(["export", "--out", str(tmp_path)]) == 2
    assert 'pip install ".[grade]"' in capsys.readouterr().err


# hint


def test_hints(capsys):
    hints = catalog.check_of("softmax").hints
    for level, text in enumerate(hints, 1):
        assert main(["hint", "softmax", "--level", str(level)]) == 0
        told = output(capsys)
        assert text in told
        assert (f"--level {level + 1}" in told) == (level < len(hints))
    assert main(["hint", "softmax", "--level", str(len(hints) + 1)]) == 2
    assert f"hints 1 to {len(hints)}" in capsys.readouterr().err


# notebooks


def test_unknown_chapter_is_wrong_use(capsys):
    assert main(["notebooks", "getting_stated"]) == 2
    assert "there is no chapter 'getting_stated'" in capsys.readouterr().err


# export


@pytest.mark.parametrize(
    ("url", "told"),
    [("marks", "'marks' is not a database URL"), ("sqlite:///nowhere/marks.db", "nowhere/marks.db holds no gradebook")],
)
def test_export_of_what_is_no_gradebook_is_wrong_use(capsys, url, told):
    assert main(["export", "--db", url]) == 2
    assert told in capsys.readouterr().err


# check


def test_checking_leaves_the_environment_as_it_was(notebook, capsys):
    before = dict(os.environ)
    main(["check", str(notebook(RIGHT))])
    assert dict(os.environ) == before


def test_right_notebook_passes(notebook, capsys):
    assert main(["check", str(notebook(RIGHT))]) == 0
    assert "softmax: all visible cases pass" in output(capsys)


def test_untouched_notebook_does_not_pass(notebook, capsys):
    assert main(["check", str(notebook())]) == 1
    captured = capsys.readouterr()
    assert "Not written yet" in captured.out
    assert captured.err == ""  # the experiments are not run


def test_known_mistake_is_named(notebook, capsys):
    assert main(["check", str(notebook(OVERFLOWS)), "softmax"]) == 1
    assert "overflow" in output(capsys)


def test_last_definition_counts(notebook):
    assert main(["check", str(notebook(RIGHT, OVERFLOWS))]) == 1
    assert main(["check", str(notebook(OVERFLOWS, RIGHT))]) == 0


def test_last_definition_counts_even_if_it_does_not_parse(notebook, capsys):
    assert main(["check", str(notebook(RIGHT, SYNTAX_ERROR))]) == 1
    assert "its cell did not run" in output(capsys)


def test_syntax_error_is_told_with_cell_and_line(notebook, capsys):
    path = notebook(SYNTAX_ERROR)
    number = 1 + next(i for i, c in enumerate(nbformat.read(path, as_version=4).cells) if c.source == SYNTAX_ERROR)
    assert main(["check", str(path)]) == 1
    captured = capsys.readouterr()
    assert f"work.ipynb, cell {number}, line 2: SyntaxError: '(' was never closed" in captured.err
    assert f"cell {number}, line 2" in captured.out


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 +", "line 1: SyntaxError"),
        ("x = 1\nx.y", "line 2: AttributeError: 'int' object has no attribute 'y'"),
        ("exit()", "SystemExit"),
        ("raise KeyError('a')", "line 1: KeyError: 'a'"),
    ],
)
def test_a_broken_cell_does_not_stop_the_others(notebook, capsys, source, told):
    assert main(["check", str(notebook(source, RIGHT))]) == 0
    assert told in capsys.readouterr().err


def test_own_helpers_magics_checks_and_prints_are_run_quietly(notebook, capsys):
    answer = "%matplotlib inline\n!echo hello\n" + RIGHT.replace("x.max(axis", "largest(x, axis")
    helper = "def largest(x, *where, **how):\n    return x.max(*where, **how)"
    path = notebook(answer, helper, 'print("noise")\ncheck("softmax", softmax)')
    assert main(["check", str(path)]) == 0
    captured = capsys.readouterr()
    assert "noise" not in captured.out + captured.err
    assert captured.out.count("all visible cases pass") == 1
    assert "AUTOGRADER_GRADING" not in os.environ


def test_missing_kernel_and_kernel_that_is_no_function(notebook, capsys):
    assert main(["check", str(notebook("x = 1"))]) == 1
    assert "work.ipynb does not define `softmax`" in output(capsys)
    assert main(["check", str(notebook("softmax = 3"))]) == 1
    assert "it was given 3" in output(capsys)


def test_placeholder_left_in_is_named_with_its_line(notebook, capsys):
    assert main(["check", str(notebook(RIGHT.replace("    top", "    raise NotImplementedError()\n    top")))]) == 1
    assert "placeholder in line 3" in output(capsys)


def test_the_courses_own_kernel_is_no_answer(notebook, capsys):
    assert main(["check", str(notebook("from autograder.reference.getting_started import softmax"))]) == 1
    assert "the course's own kernel" in output(capsys)


def test_python_file(script, capsys):
    assert main(["check", str(script("import numpy as np\n" + RIGHT))]) == 0
    assert main(["check", str(script("import numpy as np\n\n# %%\nprint(1\n# %%\n" + RIGHT))]) == 0
    assert "work.py, line 4: SyntaxError" in capsys.readouterr().err
    path = script('import numpy as np\n# In[1]:\ndef softmax(x, axis=-1):\n    raise ValueError("a")')
    assert main(["check", str(path)]) == 1
    assert "Your kernel raised ValueError: a (line 4 of your cell)" in output(capsys)


@pytest.mark.parametrize("command", ["check", "update"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "not a notebook"),
        (b"{", "not a notebook"),
        (b"[1]", "not a notebook"),
        (b"\xff\xfe\x00", "not a notebook"),
        (b'{"cells": [{}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "not a notebook"),
        (b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "not of this course"),
    ],
)
def test_what_is_no_notebook_of_the_course_is_wrong_use(tmp_path, capsys, command, content, told):
    path = tmp_path / "work.ipynb"
    if content is not None:
        path.write_bytes(content)
    assert main([command, str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"autograder {command}: ")
    assert told in error
    assert str(path) in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ([] if content is None else ["work.ipynb"])


def test_unknown_kernel_is_wrong_use(notebook, capsys):
    assert main(["check", str(notebook(RIGHT)), "sofmax"]) == 2
    assert "Did you mean: softmax" in capsys.readouterr().err


# update


def test_update_of_a_newer_notebook_is_wrong_use(notebook, capsys):
    path = notebook(RIGHT)
    path.write_text(path.read_text().replace('"release": "', '"release": "9'))
    assert main(["update", str(path)]) == 2
    assert "newer than the installed" in capsys.readouterr().err


def test_one_wrong_file_among_several_and_none_is_changed(notebook, tmp_path, capsys):
    path = notebook(RIGHT)
    path.write_text(path.read_text().replace('"release": "', '"release": "0.0.'))
    before = path.read_bytes()
    assert main(["update", str(path), str(tmp_path / "none.ipynb")]) == 2
    assert path.read_bytes() == before
