"""Each notebook of the sample class ends with the mark that it deserves; stock nbgrader agrees where it can grade."""

import ast
import dataclasses
import html
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder import catalog, notebooks
from autograder.checking import Check
from autograder.grading.batch import grade_directory
from autograder.grading.feedback import page
from autograder.grading.gradebook import marks_of_all, open_gradebook
from autograder.grading.records import seed_of
from autograder.grading.session import Limits
from autograder.judging import evaluate
from autograder.reading import answer, definition, functions
from tests.sample_class import LOST, Sample, sample_class, without_experiments, write

pytestmark = pytest.mark.slow
STEMS = notebooks.stems()
WHOLE_BY_STOCK = ("getting_started", "attention_layer")  # stock nbgrader takes seconds a notebook: of others, three
LIMITS = Limits(cpu_seconds=5, wall_seconds=90)


def deserved(check: Check, sample: Sample, seed: int | None) -> int:
    """The points that a kernel of a sample deserves on the hidden cases of a seed, or on the visible ones."""
    if check.name in sample.right:
        return check.points
    if check.name not in sample.mistakes:
        return 0
    lost = _lost(check, sample.mistakes[check.name], seed)
    assert lost <= {aspect.title for aspect in check.aspects}
    if check.aspects[0].title in lost:
        return 0
    return sum(aspect.points for aspect in check.aspects if aspect.title not in lost)


def _lost(check: Check, mistake: str, seed: int | None) -> set[str]:
    """The titles of the aspects that a known mistake gets wrong: as stated, else as the check says in this process."""
    if mistake in LOST:
        return LOST[mistake]
    kernel = next(known.kernel for known in check.mistakes if known.id == mistake)
    return {aspect.title for aspect in evaluate(check.name, kernel, seed).aspects if not aspect.passed}


@pytest.fixture(scope="module", params=STEMS)
def graded(request, tmp_path_factory):
    """A chapter's sample class, where it was graded, and the results."""
    directory = tmp_path_factory.mktemp("grading")
    samples = sample_class(request.param)
    write(samples, directory / "submitted")
    url = f"sqlite:///{directory / 'gradebook.db'}"
    outcome = grade_directory(directory / "submitted", [request.param], url, directory, limits=LIMITS)
    assert outcome.failures == []
    return samples, directory, dict(outcome.results)


def test_the_class_has_every_kind(graded):
    samples, _, _ = graded
    assert len({sample.student for sample in samples}) == len(samples) >= 17
    assert sum(bool(sample.mistakes) for sample in samples) == 3
    assert len({mistake for sample in samples for mistake in sample.mistakes.values()}) == 3


def test_everyone_has_the_mark_they_deserve(graded):
    samples, directory, results = graded
    checks, seed = catalog.checks(samples[0].stem), seed_of(directory)
    expected = {s.student: {name: deserved(check, s, seed) for name, check in checks.items()} for s in samples}
    assert {student: {m.kernel: m.score for m in result.kernels} for student, result in results.items()} == expected


def test_the_gradebook_holds_the_same_marks(graded):
    _, directory, results = graded
    with open_gradebook(f"sqlite:///{directory / 'gradebook.db'}") as gradebook:
        kept = {entry.student: {name: score for name, score, _ in entry.cells} for entry in marks_of_all(gradebook)}
        stem = next(iter(results.values())).stem
        assert gradebook.find_assignment(stem).max_score == sum(check.points for check in catalog.checks(stem).values())
        grades = [g for s in gradebook.assignment_submissions(stem) for n in s.notebooks for g in n.grades]
        assert not any(grade.needs_manual_grade for grade in grades)
    assert kept == {student: {m.kernel: m.score for m in result.kernels} for student, result in results.items()}


def test_formgrader_finds_each_notebook_with_its_marked_cells(graded):
    samples, directory, results = graded
    stem = samples[0].stem
    released = nbformat.read(notebooks.released_path(stem), 4)
    expected = {
        cell.metadata.nbgrader.grade_id for cell in released.cells if cell.metadata.get("nbgrader", {}).get("grade")
    }
    for sample in samples:
        path = directory / "autograded" / sample.student / stem / f"{stem}.ipynb"
        if sample.kind == "invalid JSON":
            assert not path.exists()
            continue
        notebook = nbformat.read(path, 4)
        nbformat.validate(notebook)
        cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
        assert {name for name, cell in cells.items() if cell.metadata.nbgrader.grade} == expected
        for mark in results[sample.student].kernels:
            assert cells[f"check-{mark.kernel}"].outputs[0].text.startswith(mark.verdict)
            if mark.source:
                assert cells[f"kernel-{mark.kernel}"].source == mark.source


def test_known_mistakes_are_named(graded):
    samples, _, results = graded
    for sample in samples:
        for name, mistake in sample.mistakes.items():
            mark = next(mark for mark in results[sample.student].kernels if mark.kernel == name)
            assert mistake in mark.mistakes
            hint = next(known.hint for known in catalog.check_of(name).mistakes if known.id == mistake)
            assert hint in mark.advice


def test_each_trouble_is_said(graded):
    samples, _, results = graded
    said = {s.kind: json.dumps(dataclasses.asdict(results[s.student]), ensure_ascii=False) for s in samples}
    for kind, words in {
        "untouched": "Not written yet",
        "a syntax error in one kernel": "SyntaxError",
        "an endless loop in one kernel": "Stopped after 5 s",
        "a kernel that ends the process": "ended from inside",
        "a cell that ends the process": "ended from inside",
        "invalid JSON": "not valid JSON",
        "a wrong file name": "Placed by what it holds",
    }.items():
        assert words in said[kind], kind
    for kind, text in said.items():
        if kind.startswith("calls "):
            assert f"calls `{kind.removeprefix('calls ')}`" in text


def test_grading_again_does_nothing_and_changes_nothing(graded, monkeypatch):
    samples, directory, results = graded
    url = f"sqlite:///{directory / 'gradebook.db'}"
    before = {path: path.stat().st_mtime_ns for path in directory.glob("results/*/*")}
    again = grade_directory(directory / "submitted", [samples[0].stem], url, directory, limits=LIMITS)
    assert again.graded == 0
    assert dict(again.results) == results
    assert {path: path.stat().st_mtime_ns for path in directory.glob("results/*/*")} == before


def test_the_same_seed_gives_the_same_results_in_another_gradebook(graded, tmp_path):
    samples, directory, results = graded
    shutil.copy(directory / "seed", tmp_path / "seed")
    some = samples[1:5]
    write(some, tmp_path / "submitted")
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    again = grade_directory(tmp_path / "submitted", [samples[0].stem], url, tmp_path, limits=LIMITS, workers=1)
    assert dict(again.results) == {sample.student: results[sample.student] for sample in some}


def test_feedback_opens_alone_and_shows_no_hidden_case_and_no_answer(graded):
    samples, _, results = graded
    checks = catalog.checks(samples[0].stem)
    answers = {
        ast.unparse(statement)
        for check in checks.values()
        for function in functions(definition(inspect.getsource(check.reference), check.name))
        for statement in answer(function)
    }
    for student, result in results.items():
        text = page(student, result)
        assert not re.search(r"<script|\b(src|href)=|url\(|@import", text)
        own = "".join(mark.source for mark in result.kernels)
        shown = html.unescape(re.sub(r"<[^>]*>", "", text))
        assert not [line for line in answers if len(line) > 20 and line in shown and line not in own]
        assert "Case:" not in shown.replace(own, "")


def test_stock_nbgrader_gives_the_same_marks(graded, tmp_path):
    samples, _, _ = graded
    stem = samples[0].stem
    intact = {f"student{number}": sample for number, sample in enumerate(samples) if sample.intact}
    if stem not in WHOLE_BY_STOCK:
        kinds = {sample.kind.partition(":")[0]: student for student, sample in intact.items()}
        intact = {kinds[kind]: intact[kinds[kind]] for kind in ("all right", "a known mistake", "half done")}
    for student, sample in intact.items():
        (data,) = sample.files.values()
        path = tmp_path / "submitted" / student / stem / f"{stem}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(without_experiments(data))
    source = tmp_path / "source" / stem / f"{stem}.ipynb"
    source.parent.mkdir(parents=True)
    shutil.copy(notebooks.ROOT / "solutions" / stem / f"{stem}.ipynb", source)
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'attention-course'\n")
    for command in ("generate_assignment", "autograde"):
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", command, stem, f"--course={tmp_path}"],
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    with open_gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        stock = {entry.student: {name: score for name, score, _ in entry.cells} for entry in marks_of_all(gradebook)}
    checks = catalog.checks(stem)
    expected = {
        student: {name: deserved(check, sample, seed=None) for name, check in checks.items()}
        for student, sample in intact.items()
    }
    assert stock == expected
