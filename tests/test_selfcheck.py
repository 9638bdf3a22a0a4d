"""`check`, `hint` and `begin` as a notebook and a terminal see them."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.utils import determine_grade

from autograder import begin, check, hint, selfcheck
from autograder.checking import edited
from autograder.reference import getting_started as reference
from autograder.selfcheck import CheckFailed, Verdict

RIGHT = edited(reference.softmax)


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(selfcheck, "_passed", {})
    monkeypatch.setattr(selfcheck, "_hints_given", {})
    monkeypatch.delenv(selfcheck.GRADING, raising=False)


def test_in_a_terminal_a_pass_is_printed_and_returned(capsys):
    verdict = check("softmax", RIGHT)
    assert isinstance(verdict, Verdict)
    assert repr(verdict) == "5.0"
    assert "softmax: all visible cases pass." in capsys.readouterr().out


def test_in_a_terminal_a_failure_is_an_error_with_the_whole_report():
    with pytest.raises(CheckFailed, match="(?s)0 of 4 things asked are right.*For the next hint"):
        check("softmax", lambda x, axis: x)


@pytest.mark.parametrize("ask", [lambda: check("softmaxx", RIGHT), lambda: hint("softmaxx")])
def test_an_unknown_kernel_is_told_the_nearest_name(ask):
    with pytest.raises(CheckFailed, match="no kernel 'softmaxx' .* Did you mean: softmax"):
        ask()


def test_a_result_in_place_of_the_kernel_is_told_so():
    with pytest.raises(CheckFailed, match=r"given 'float'.*without parentheses after it:  check\("):
        check("softmax", 0.5)


def test_the_reference_itself_does_not_pass_a_check():
    with pytest.raises(CheckFailed, match="the course's own kernel"):
        check("softmax", reference.softmax)


def test_what_the_kernel_printed_is_shown(capsys):
    def talkative(x, axis=-1):
        print("shape", x.shape)
        return RIGHT(x, axis)

    check("softmax", talkative)
    assert "Your kernel printed:\nshape (" in capsys.readouterr().out


def test_hints_climb_the_ladder_and_stay_at_the_top(capsys):
    for _ in range(5):
        hint("softmax")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("Hint ")] == [
        "Hint 1 of 3",
        "Hint 2 of 3",
        "Hint 3 of 3 (the last one)",
        "Hint 3 of 3 (the last one)",
        "Hint 3 of 3 (the last one)",
    ]


def test_an_old_notebook_is_told_how_to_be_updated(capsys):
    begin("getting_started", release="0.0.1")
    assert "release 0.0.1" in (said := capsys.readouterr().out)
    assert "autograder update getting_started.ipynb" in said
    begin("getting_started", release="99.0")
    assert "Install the newer release" in (said := capsys.readouterr().out)
    assert "autograder update" not in said
    begin("getting_started", release=selfcheck.__version__)
    assert capsys.readouterr().out == ""


def test_while_grading_nothing_is_done(monkeypatch, capsys):
    monkeypatch.setenv(selfcheck.GRADING, "1")
    begin("getting_started", release="0.0.1")
    hint("softmax")
    assert check("softmax", lambda x, axis: x) is None
    assert capsys.readouterr() == ("", "")


CELLS = {
    "right": "def softmax(x, axis=-1):\n"
    "    e = np.exp(x - x.max(axis, keepdims=True))\n"
    "    return np.nan_to_num(e / e.sum(axis, keepdims=True))\n",
    "part": "import warnings, sys\n"
    "def softmax(x, axis=-1):\n"
    "    warnings.warn('noise'); print('noise', file=sys.stderr)\n"
    "    e = np.exp(x - x.max(axis, keepdims=True))\n"
    "    return e / e.sum(axis, keepdims=True)\n",
    "wrong": "def softmax(x, axis=-1):\n    return x\n",
    "left over": "def softmax(x, axis=-1):\n    y = np.exp(x)\n    raise NotImplementedError()\n",
    "unread": "# Closing parenthesis forgotten.\ndef softmax(x, axis=-1):\n    return np.exp(x\n",
}


@pytest.fixture(scope="module")
def outputs():
    """The check cell of a notebook for each of CELLS, run by a Jupyter kernel."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell("import numpy as np\nfrom autograder import check")]
    for source in CELLS.values():
        cell = nbformat.v4.new_code_cell('check("softmax", softmax)')
        cell.metadata["nbgrader"] = {"grade": True, "points": 5, "solution": False, "grade_id": "check-softmax"}
        book.cells += [nbformat.v4.new_code_cell(source), cell]
    NotebookClient(book, kernel_name="python3", allow_errors=True).execute()
    return dict(zip(CELLS, book.cells[2::2], strict=True))


@pytest.mark.parametrize(("name", "score"), [("right", 5), ("part", 4), ("wrong", 0), ("left over", 0), ("unread", 0)])
def test_nbgrader_reads_the_score_from_the_cell(outputs, name, score):
    assert determine_grade(outputs[name]) == (score, 5)


def test_a_pass_is_a_result_with_the_report_as_html(outputs):
    (result,) = outputs["right"].outputs
    assert result.output_type == "execute_result"
    assert "all visible cases pass" in result.data["text/html"]


def test_a_failure_shows_the_report_and_an_error_of_one_line(outputs):
    shown, error = outputs["wrong"].outputs
    assert shown.output_type == "display_data"
    assert "hint(&quot;softmax&quot;)" in shown.data["text/html"]
    assert error.output_type == "error"
    assert error.traceback == [error.evalue]
    assert error.evalue == "softmax: 0 of 4 things asked are right (0 of 5 points)."


def test_a_placeholder_in_a_cell_is_named_with_its_line(outputs):
    assert "placeholder in line 3" in outputs["left over"].outputs[0].data["text/html"]


def test_a_newer_cell_that_python_could_not_read_is_not_passed_over(outputs):
    (error,) = outputs["unread"].outputs
    assert error.traceback == [error.evalue]
    assert "syntax error in its line 3" in error.evalue
