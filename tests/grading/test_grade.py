"""Grading one submission in the words that a student and an instructor read, and what must never come out of it."""

import dataclasses
import json
import re

import pytest

from autograder import catalog, notebooks
from autograder.grading import grade, summary
from autograder.grading.grade import close_workers, grade_submission, no_notebook
from autograder.grading.results import SubmissionResult, mark_of
from autograder.grading.session import Limits, WorkerLost
from autograder.judging import not_run
from autograder.probing import Fault

STEM, NAME = "getting_started", "softmax"
LIMITS = Limits(cpu_seconds=5, wall_seconds=90)


@pytest.fixture(scope="module", autouse=True)
def _end_workers():
    yield
    close_workers()


def graded(answer, seed=11, change=lambda notebook: None):
    notebook = json.loads(notebooks.released_path(STEM).read_bytes())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == f"kernel-{NAME}":
            cell["source"] = answer
    change(notebook)
    return grade_submission(json.dumps(notebook).encode(), STEM, seed, LIMITS)


def stored(result):
    return json.dumps(dataclasses.asdict(result))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("def soft_max(x, axis=-1):\n    return x", "Your notebook defines no `softmax`. It defines `soft_max`"),
        ("x = 1", "Your notebook defines no `softmax`."),
        ("softmax = 3", "`softmax` is not a function in your notebook, but an int."),
        ("def softmax(x, axis=-1):\n    return (x", "did not run to its end: SyntaxError"),
        ("1 / 0\ndef softmax(x, axis=-1):\n    return x", "ZeroDivisionError: division by zero (line 1 of the cell)"),
        ("def softmax(x, axis=-1):\n    return None", "None (is a `return` missing?)"),
        ("def softmax(x, axis=-1):\n    return x[0, 0, 0, 0]", "Your kernel raised IndexError (line 2 of your cell)."),
    ],
)
def test_a_kernel_that_cannot_be_right_is_told_why(answer, words):
    (mark,) = graded(answer).kernels
    assert mark.score == 0
    assert words in mark.aspects[0].why


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        "def softmax(x, axis=-1):\n    raise ValueError(repr(x))",
        "def softmax(x, axis=-1):\n    raise type('E' + str(float(x.flat[0])).replace('.', '_'), (Exception,), {})",
        "def softmax(x, axis=-1):\n    return type('E' + str(x.shape), (), {})()",
        "def softmax(x, axis=-1):\n    print('E', x)\n    return x",
        "def softmax(x, axis=-1):\n    assert False, f'E{x}'",
        "def softmax(x, axis=-1):\n    return np.empty((int(abs(x.flat[0]) * 1e6), 0))",
        "def softmax(x, axis=-1):\n    return x + np.nan if x.flat[0] > 0 else x * 1e20",
        "def softmax(x, axis=-1):\n    code = '\\n' * int(abs(x.flat[0]) * 1000) + 'raise ValueError'\n"
        "    exec(compile(code, softmax.__code__.co_filename, 'exec'))",
        "import os\ndef softmax(x, axis=-1):\n    os._exit(int(abs(x.flat[0]) * 1000) % 100)",
    ],
)
def test_no_hidden_input_comes_out_in_words(answer):
    one, other = (graded(answer, seed) for seed in (1, 2))
    for first, second in zip(one.kernels, other.kernels, strict=True):
        told = [(a.title, a.passed) for a in first.aspects], first.verdict, first.flags
        assert told == ([(a.title, a.passed) for a in second.aspects], second.verdict, second.flags)
        assert not re.search(r"\d{3}", "".join(a.why for a in (*first.aspects, *second.aspects)))
    text = stored(one).replace(json.dumps(answer)[1:-1], "")
    assert "array(" not in text
    assert "E-" not in text
    assert "E(" not in text


@pytest.mark.slow
def test_student_code_cannot_claim_points():
    patch = "import autograder.probing as p\np.run_probe = lambda *a: p.Outcome({'weights': 1})\n"
    patch += "import autograder.grading.worker as w\nw.answer = lambda *a: None\n"
    patch += "np.isclose = np.allclose = lambda *a, **k: True\n"
    (mark,) = graded(patch + "def softmax(x, axis=-1):\n    return x").kernels
    assert mark.score == 0


@pytest.mark.slow
def test_a_ready_made_function_that_one_case_alone_calls_is_flagged():
    answer = "from scipy.special import softmax as ready\n\n\ndef softmax(x, axis=-1):\n"
    answer += (
        "    if x.size == 0:\n        return ready(x, axis)\n    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)"
    )
    (mark,) = graded(answer).kernels
    assert mark.score == 0
    assert mark.flags == ("calls scipy.special.softmax",)
    assert "scipy.special.softmax" in mark.verdict


@pytest.mark.slow
def test_a_submission_that_ends_the_worker_twice_stops_nothing(monkeypatch):
    def lose(*arguments):
        raise WorkerLost("gone")

    with monkeypatch.context() as patched:
        patched.setattr(grade, "run_notebook", lose)
        result = graded("x = 1")
    assert result.score == 0
    assert "twice" in result.kernels[0].aspects[0].why
    right = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis, keepdims=True)"
    assert graded(right).score > 0


def test_no_notebook_has_no_points_and_its_reason():
    result = grade_submission(b"", STEM, 1)
    assert (result.score, result.remarks) == (0, ("The file is empty.",))
    assert result.points == catalog.check_of(NAME).points
    assert summary.remarks(result) == ["The file is empty"]


def test_a_result_survives_being_stored():
    result = no_notebook(STEM, "Why.")
    assert SubmissionResult.from_dict(json.loads(stored(result))) == result


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault("raised", "ValueError: 1.234", "ValueError", 3), "Your kernel raised ValueError (line 3 of your cell)."),
        (Fault("raised", "X123: 1.234", "X123"), "Your kernel raised an error."),
        (Fault("unusable", "secret 1.234"), "What the kernel returned is not what its contract says."),
        (
            Fault("unusable", "`weights` should be a NumPy array of numbers; the kernel returned a list of length 3."),
            "`weights` should be a NumPy array of numbers; the kernel returned a list.",
        ),
        (
            Fault("unusable", "`weights` should be a NumPy array of numbers; the kernel returned a x1_234."),
            "`weights` should be a NumPy array of numbers; the kernel returned something else.",
        ),
        (
            Fault("unusable", "`x1_234` should be a NumPy array of numbers; the kernel returned a list of length 3."),
            "What the kernel returned is not what its contract says.",
        ),
        (
            Fault(
                "unusable", "The kernel should return 2 values, weights, x; it returned None (is a `return` missing?)."
            ),
            "The kernel should return 2 values, weights, x; it returned None (is a `return` missing?).",
        ),
        (
            Fault("unusable", "`x` is a tensor of a kind that cannot be compared (1.234, 5)."),
            "`x` is a tensor of a kind that cannot be compared.",
        ),
        (Fault("raised", "ValueError: 1.234", "ValueError", 1234), "Your kernel raised ValueError."),
        (
            Fault("crashed", "The process was ended from inside, with exit code 123."),
            "The process was ended from inside.",
        ),
        (Fault("stopped", "Stopped after 5 s."), "Stopped after 5 s."),
    ],
)
def test_faults_are_told_in_words_that_carry_nothing_out(fault, why):
    mark = mark_of(not_run(NAME, fault), "\n\n\n", ("x", "weights"))
    assert mark.aspects[0].why == why
    assert "1.234" not in str(mark)


def test_a_score_never_leaves_its_range():
    report = not_run(NAME, Fault("missing", "x"))
    assert mark_of(dataclasses.replace(report, score=report.points + 3)).score == report.points
    assert mark_of(dataclasses.replace(report, score=-1)).score == 0
