"""The generator: what it makes, what it refuses, and that stock nbgrader agrees."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest

from autograder import __version__, catalog, generating, notebooks, sources, stubs
from autograder.cli import main
from tests.sample_class import without_experiments

ROOT = Path(__file__).parents[1]
STEMS = sources.stems()
COMMITTED = sorted(p for room in ("solutions", "exercises") for p in ROOT.glob(f"{room}/*/*.ipynb"))
BIN = Path(sys.executable).parent

REFERENCE = '''
    """Reference kernels of a chapter that only the tests have."""

    import numpy as np


    def double(x: np.ndarray) -> np.ndarray:
        """Give back twice the array."""
        if x.ndim == 0:
            raise ValueError("x has no axes; give it one.")
        # A comment that belongs to the answer.
        twice = np.add(x, x).astype(x.dtype)
        return twice


    class Scale:
        """Multiply by a factor."""

        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            """Multiply x by the factor."""
            return double(x) * self.factor / 2.0
'''
PROBES = """
    def double(kernel, case): ...
    def Scale(kernel, case): ...
"""
SOURCE = """
    # %% [markdown]
    # # A chapter

    # %% tags=["setup"]
    import numpy as np
    from autograder import begin, check

    begin("chapter", release="")

    # %% kernel="double"

    # %% check="double"

    # %% kernel="Scale"

    # %% check="Scale"

    # %%
    print(double(np.ones(2)))
"""


def make_chapter(folder, *, source=SOURCE, reference=REFERENCE, probes=PROBES, checks="", **changes):
    """A chapter whose rooms are files in ``folder``; ``changes`` are other checks by kernel name, None for no check."""
    rooms = {"source": source, "reference": reference, "probes": probes, "checks_module": checks}
    paths = {room: folder / ("chapter.py" if room == "source" else f"{room}.py") for room in rooms}
    for room, text in rooms.items():
        paths[room].write_text(textwrap.dedent(text).lstrip("\n"))
    known = {"double": fake_check(), "Scale": fake_check(uses=("double",))} | changes
    return sources.Chapter("chapter", **paths, checks={name: check for name, check in known.items() if check})


def fake_check(points=2, uses=(), hints=()):
    return SimpleNamespace(points=points, uses=uses, hints=hints, mistakes=())


def cells_of(text):
    return {cell["id"]: cell for cell in nbformat.reads(text, as_version=4).cells}


@pytest.fixture
def chapter(tmp_path):
    return make_chapter(tmp_path)


# What is committed


@pytest.mark.parametrize("stem", STEMS)
def test_committed_notebooks_are_what_their_source_makes(stem):
    solution, student = generating.generate(sources.Chapter.named(stem))
    assert (ROOT / "solutions" / stem / f"{stem}.ipynb").read_bytes().decode() == solution
    assert (ROOT / "exercises" / stem / f"{stem}.ipynb").read_bytes().decode() == student


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_committed_notebooks_are_valid_and_empty_of_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.autograder == {"release": __version__, "stem": path.stem}
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    assert path.read_bytes().decode() == notebooks.as_text(notebook)


@pytest.mark.parametrize("stem", STEMS)
def test_student_notebooks_show_no_answer(stem):
    chapter = sources.Chapter.named(stem)
    student = json.loads((ROOT / "exercises" / stem / f"{stem}.ipynb").read_text())
    assert generating.leaks(chapter, student) == []
    solution = json.loads((ROOT / "solutions" / stem / f"{stem}.ipynb").read_text())
    assert len(generating.leaks(chapter, solution)) >= len(chapter.kernels)


def test_every_notebook_passes_ruff():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", *map(str, COMMITTED)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("stem", STEMS)
def test_every_kernel_and_check_has_its_marks(stem):
    released = {cell.id: cell for cell in notebooks.read_released(stem).cells}
    for name, check in catalog.checks(stem).items():
        kernel, test = released[f"kernel-{name}"].metadata.nbgrader, released[f"check-{name}"].metadata.nbgrader
        assert (kernel.solution, kernel.grade, kernel.locked) == (True, False, False)
        assert (test.solution, test.grade, test.locked, test.points) == (False, True, True, check.points)
        assert notebooks.cell_kind(released[f"kernel-{name}"]) == "kernel"
        assert notebooks.cell_kind(released[f"check-{name}"]) == "check"
    assert set(notebooks.kernel_sources({"cells": list(released.values())})) == set(catalog.checks(stem))


# What is made


def test_generation_is_byte_stable(chapter, tmp_path_factory):
    again = make_chapter(tmp_path_factory.mktemp("again"))
    assert generating.generate(chapter) == generating.generate(again)


def test_solution_has_markers_around_each_body_and_the_student_the_stub(chapter):
    solution, student = map(cells_of, generating.generate(chapter))
    assert solution["kernel-double"].source == textwrap.dedent('''\
        def double(x: np.ndarray) -> np.ndarray:
            """Give back twice the array."""
            if x.ndim == 0:
                raise ValueError("x has no axes; give it one.")
            ### BEGIN SOLUTION
            # A comment that belongs to the answer.
            twice = np.add(x, x).astype(x.dtype)
            return twice
            ### END SOLUTION''')
    assert student["kernel-double"].source == textwrap.dedent('''\
        def double(x: np.ndarray) -> np.ndarray:
            """Give back twice the array."""
            if x.ndim == 0:
                raise ValueError("x has no axes; give it one.")
            # YOUR CODE HERE
            raise NotImplementedError()''')
    assert student["kernel-Scale"].source == textwrap.dedent('''\
        class Scale:
            """Multiply by a factor."""

            def __init__(self, factor):
                self.factor = factor

            def __call__(self, x):
                """Multiply x by the factor."""
                # YOUR CODE HERE
                raise NotImplementedError()''')
    assert student["check-double"].source == 'check("double", double)'


def test_setup_cell_is_stamped_with_the_release(chapter):
    _, student = generating.generate(chapter)
    assert f'begin("chapter", release="{__version__}")' in student.replace('\\"', '"')


def test_comments_below_the_last_statement_are_part_of_the_answer():
    source = "class A:\n    def f(self):\n        return 1\n        # secret\n\n    def g(self):\n        return 2"
    marked = stubs.with_markers(source)
    assert "secret" not in stubs.without_regions(marked, "SOLUTION", stubs.CODE_STUB)
    assert marked.count("### BEGIN SOLUTION") == marked.count("### END SOLUTION") == 2


def test_comments_above_the_first_statement_are_part_of_the_answer():
    marked = stubs.with_markers("def f(\n    x,\n):\n    # secret\n\n    return x")
    assert stubs.without_regions(marked, "SOLUTION") == "def f(\n    x,\n):"


def test_own_reader_of_marker_lines_agrees_with_jupytext(chapter):
    text = chapter.source.read_text()
    lines = text.splitlines()
    for cell, other in zip(chapter.cells, jupytext.reads(text, fmt="py:percent").cells, strict=True):
        assert lines[cell.line - 2].startswith("# %%")
        assert cell.source == other.source


HAND_WRITTEN = """
    # %% [markdown]
    # Why is the sum of two doubles a double?

    # %% [markdown] grade="why" points=3
    # Because doubling is linear in its argument.

    # %% solution="triple"
    def triple(x):
        ### BEGIN SOLUTION
        return np.multiply(x, 3.0).astype(float)
        ### END SOLUTION

    # %% grade="test-triple" points=1.5
    assert triple(np.ones(1)) == 3
    ### BEGIN HIDDEN TESTS
    assert triple(np.full(3, 2.0)).sum() == 18
    ### END HIDDEN TESTS
"""


def test_hand_written_exercises(tmp_path):
    _, student = generating.generate(make_chapter(tmp_path, source=SOURCE + HAND_WRITTEN))
    cells = cells_of(student)
    assert cells["why"].source == "YOUR ANSWER HERE"
    assert cells["why"].metadata.nbgrader.points == 3
    assert cells["why"].metadata.nbgrader.solution
    assert cells["triple"].source == "def triple(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    assert cells["test-triple"].source == "assert triple(np.ones(1)) == 3"
    assert cells["test-triple"].metadata.nbgrader.locked
    assert notebooks.cell_kind(cells["triple"]) == "kernel"
    assert notebooks.cell_kind(cells["test-triple"]) == "check"


# What is refused, with file and line


def without(text):
    return SOURCE.replace(text, "")


REFUSED = {
    "duplicate kernel": (
        {"source": SOURCE + '    # %% kernel="double"\n'},
        r"chapter.py:20: kernel .double. stands in line 10 already",
    ),
    "unknown kernel": (
        {"source": SOURCE + '    # %% kernel="dubble"\n'},
        r"chapter.py:20: chapter has no kernel .dubble.; did you mean double",
    ),
    "kernel without check": ({"source": without('# %% check="double"')}, r"chapter.py:10: .double. has no check cell"),
    "check without kernel": (
        {"source": without('# %% kernel="double"')},
        r"chapter.py:\d+: .double. has no kernel cell",
    ),
    "check above its kernel": (
        {
            "source": SOURCE.replace('check="double"', "X")
            .replace('kernel="double"', 'check="double"')
            .replace("X", 'kernel="double"')
        },
        r"chapter.py:12: .double. has no check cell below it",
    ),
    "kernel never used": (
        {"source": without('# %% kernel="double"').replace('# %% check="double"', "")},
        r"reference.py:6: kernel .double. has no cell in chapter.py",
    ),
    "kernel without check object": ({"double": None}, r"reference.py:6: kernel .double. is not in autograder/checks/"),
    "kernel without probe": (
        {"probes": "def double(kernel, case): ..."},
        r"reference.py:15: kernel .Scale. is not in autograder/probes/",
    ),
    "kernel without reference": (
        {"probes": PROBES + "    def triple(kernel, case): ..."},
        r"probes.py:3: kernel .triple. is not in autograder/reference/",
    ),
    "undeclared kernel": (
        {"Scale": fake_check()},
        r"reference.py:23: kernel .Scale. uses .double., which no setup cell",
    ),
    "undeclared import": (
        {"reference": REFERENCE.replace("np.add(x, x)", "math.prod(x)")},
        r"reference.py:11: kernel .double. uses .math.",
    ),
    "answer in prose": (
        {"source": SOURCE + "    # %% [markdown]\n    # Try\n    # `twice = np.add(x,  x).astype( x.dtype )`\n"},
        r"chapter.py:22: this shows students an answer of .double.",
    ),
    "answer in an experiment": (
        {"source": SOURCE + "    # %%\n    x = np.ones(1)\n    twice = (np.add(x, x)).astype(x.dtype)\n"},
        r"chapter.py:\d+: this shows students an answer of .double.",
    ),
    "answer in a docstring": (
        {
            "reference": REFERENCE.replace(
                "Give back twice the array.", "Give np.add(x, x); twice = np.add(x, x).astype(x.dtype)."
            )
        },
        r"reference.py:7: this shows students an answer of .double.",
    ),
    "answer in a hint": (
        {
            "checks": 'hints = (\n    "Say",\n    "Write twice = np.add(x, x)"\n    ".astype(x.dtype)",\n)',
            "double": fake_check(hints=("Write twice = np.add(x, x).astype(x.dtype)",)),
        },
        r"checks_module.py:3: this shows students an answer of .double.",
    ),
    "kernel without a body": (
        {
            "reference": REFERENCE.replace(
                "        # A comment that belongs to the answer.\n"
                "        twice = np.add(x, x).astype(x.dtype)\n"
                "        return twice\n",
                "",
            )
        },
        r"reference.py:6: kernel .double. leaves nothing to write",
    ),
    "no begin": ({"source": without('begin("chapter", release="")')}, r"chapter.py:1: no setup cell calls begin"),
    "begin of another chapter": (
        {"source": SOURCE.replace('begin("chapter"', 'begin("other"')},
        r"chapter.py:8: begin names .other.; this chapter is .chapter.",
    ),
    "unknown option": ({"source": SOURCE + "    # %% mark=1\n"}, r"chapter.py:20: unknown cell option .mark."),
    "two roles": (
        {"source": SOURCE.replace('kernel="double"', 'kernel="double" check="double"')},
        r"chapter.py:10: the cell is kernel and check at once",
    ),
    "kernel cell that is not empty": (
        {"source": SOURCE.replace('# %% kernel="double"', '# %% kernel="double"\n    x = 1')},
        r"chapter.py:10: a kernel cell is filled in by the generator",
    ),
    "text above the first cell": (
        {"source": "    x = 1\n" + SOURCE},
        r"chapter.py:\d+: jupytext finds 8 cells, but 7 lines",
    ),
    "points without grade": (
        {"source": SOURCE + "    # %% points=1\n    1\n"},
        r"chapter.py:20: points and manual belong to",
    ),
    "grade without points": ({"source": SOURCE + '    # %% grade="a"\n    1\n'}, r"chapter.py:20: points is None"),
    "name like a generated one": (
        {"source": SOURCE + '    # %% grade="check-a" points=1\n    1\n'},
        r"chapter.py:20: .check-a. cannot name",
    ),
    "the same hand-written name twice": (
        {"source": SOURCE + '    # %% grade="a" points=1\n    1\n    # %% solution="a"\n    1\n'},
        r"chapter.py:22: solution .a. stands in line 20 already",
    ),
    "markdown solution": (
        {"source": SOURCE + '    # %% [markdown] solution="a"\n    # A\n'},
        r"chapter.py:20: a markdown cell",
    ),
    "solution that never ends": (
        {"source": SOURCE + '    # %% solution="a"\n    ### BEGIN SOLUTION\n    1\n'},
        r"chapter.py:21: `BEGIN SOLUTION` has no `END SOLUTION`",
    ),
    "solution within a solution": (
        {"source": SOURCE + '    # %% solution="a"\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    1\n'},
        r"chapter.py:21: `BEGIN SOLUTION` stands inside another",
    ),
    "solution in an experiment": (
        {"source": SOURCE + "    # %%\n    ### BEGIN SOLUTION\n    1\n    ### END SOLUTION\n"},
        r"chapter.py:21: a solution stands outside a solution cell",
    ),
    "hidden tests in an experiment": (
        {"source": SOURCE + "    # %%\n    ### BEGIN HIDDEN TESTS\n    1\n    ### END HIDDEN TESTS\n"},
        r"chapter.py:21: hidden tests stand outside a test cell",
    ),
    "hand-written answer in prose": (
        {
            "source": SOURCE
            + HAND_WRITTEN
            + "\n    # %% [markdown]\n    # Hint: return np.multiply(x, 3.0).astype(float)\n"
        },
        r"chapter.py:40: this shows students an answer of .triple.",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_file_and_line(tmp_path, changes, message):
    with pytest.raises(sources.SourceError, match=message):
        generating.generate(make_chapter(tmp_path, **changes))


def test_short_statements_are_no_leak(tmp_path):
    generating.generate(make_chapter(tmp_path, source=SOURCE + "    # %% [markdown]\n    # Then `return twice`.\n"))


@pytest.mark.parametrize("place", ["source", "metadata", "outputs", "notebook metadata"])
def test_leaks_are_found_anywhere_in_a_notebook(chapter, place):
    notebook = json.loads(generating.generate(chapter)[1])
    assert generating.leaks(chapter, notebook) == []
    secret = "x = 1\ntwice = np.add(x, x) \\\n    .astype(x.dtype)"
    cell = notebook["cells"][-1]
    if place == "source":
        cell["source"] = secret.splitlines(keepends=True)
    elif place == "metadata":
        cell["metadata"]["note"] = {"deep": [1, secret]}
    elif place == "outputs":
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": secret.splitlines(keepends=True)}]
    else:
        notebook["metadata"]["note"] = secret
    assert len(generating.leaks(chapter, notebook)) == 1


# Telling cells apart


@pytest.mark.parametrize(
    ("source", "metadata", "kind"),
    [
        ("def softmax(x):\n    return x", {}, "kernel"),
        ("softmax = lambda x: x", {}, "kernel"),
        ("def softmax(x:\n    return", {}, "kernel"),
        ("text = '''\ndef softmax(x): ...\n'''", {}, "experiment"),
        ("def helper(x):\n    return x", {}, "experiment"),
        ("def helper(x):\n    return x", {"nbgrader": {"solution": True, "grade": False}}, "kernel"),
        ('check("softmax", softmax)', {}, "check"),
        ('x = 1\ncheck("softmax", softmax)', {}, "experiment"),
        ('x = 1\ncheck("softmax", softmax)', {"nbgrader": {"solution": False, "grade": True}}, "check"),
        ('import numpy\nbegin("getting_started", release="1")', {}, "setup"),
        ("import numpy", {"tags": ["setup"]}, "setup"),
        ("softmax(x)", {}, "experiment"),
        ("", {}, "experiment"),
        ("x = \0", {}, "experiment"),
    ],
)
def test_cell_kind(source, metadata, kind):
    assert notebooks.cell_kind({"cell_type": "code", "metadata": metadata, "source": source}) == kind


def test_prose_is_prose():
    assert notebooks.cell_kind({"cell_type": "markdown", "metadata": {}, "source": "def softmax(x): ..."}) == "prose"


def test_last_definition_of_a_kernel_counts():
    sources_ = ["def softmax(x): return 1", "x = 2", "def softmax(x): return 3", "softmax(0)"]
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources_]
    assert notebooks.kernel_sources({"cells": cells}) == {"softmax": "def softmax(x): return 3"}


def test_released_notebook_that_is_not_there_is_said_so(monkeypatch, tmp_path):
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="autograder notebooks getting_started"):
        notebooks.read_released("getting_started")


def test_installed_package_has_its_notebooks_beside_it(monkeypatch, tmp_path):
    monkeypatch.setattr(notebooks, "ROOT", tmp_path / "site-packages")
    monkeypatch.setattr(notebooks, "SHARE", tmp_path / "share/attention-course")
    target = tmp_path / "share/attention-course/exercises/getting_started.ipynb"
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / "exercises/getting_started/getting_started.ipynb", target)
    assert notebooks.read_released("getting_started").metadata.autograder.stem == "getting_started"


# The command, in a copy of the course's notebooks


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for room in ("solutions", "exercises"):
        for path in (ROOT / room / "getting_started").glob("getting_started.*"):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    return tmp_path


def test_check_is_content_with_what_was_just_generated(checkout, capsys):
    assert main(["notebooks"]) == 0
    assert main(["notebooks", "--check"]) == 0
    student = checkout / "exercises/getting_started/getting_started.ipynb"
    before = student.stat().st_mtime_ns
    assert main(["notebooks"]) == 0
    assert "getting_started.ipynb: unchanged" in capsys.readouterr().out
    assert student.stat().st_mtime_ns == before


@pytest.mark.parametrize("room", ["solutions", "exercises"])
@pytest.mark.parametrize("drift", ["edited", "missing"])
def test_drift_is_reported_and_one_command_repairs_it(checkout, capsys, room, drift):
    path = checkout / room / "getting_started/getting_started.ipynb"
    if drift == "edited":
        path.write_text(path.read_text().replace("Softmax", "Softmin"))
    else:
        path.unlink()
    assert main(["notebooks", "--check"]) == 1
    error = capsys.readouterr().err
    assert f"{room}/getting_started/getting_started.ipynb" in error
    command = re.search(r"autograder (notebooks \w+)", error)[1].split()
    assert main(command) == 0
    assert main(["notebooks", "--check"]) == 0


def test_a_leak_in_a_file_is_reported(checkout, capsys):
    chapter = sources.Chapter.named("getting_started")
    path = checkout / "exercises/getting_started/getting_started.ipynb"
    notebook = nbformat.read(path, as_version=4)
    secret = stubs.secrets("softmax", stubs.answers(chapter.definitions["softmax"])[0][1])[0]
    notebook.cells[0].source = f"Write `{secret.text}`."
    path.write_text(notebooks.as_text(notebook))
    assert main(["notebooks", "--check"]) == 1
    assert "cell 1 shows an answer of 'softmax'" in capsys.readouterr().err


def test_a_notebook_without_source_is_reported(checkout, capsys):
    path = checkout / "exercises/gone/gone.ipynb"
    path.parent.mkdir()
    path.write_text("{}")
    assert main(["notebooks", "--check"]) == 1
    assert "exercises/gone/gone.ipynb has no source" in capsys.readouterr().err


def test_a_faulty_source_ends_in_1_and_writes_nothing(checkout, capsys):
    path = checkout / "solutions/getting_started/getting_started.py"
    path.write_text(path.read_text() + '\n# %% kernel="softmaxx"\n')
    before = {p: p.read_bytes() for p in checkout.rglob("*.ipynb")}
    assert main(["notebooks"]) == 1
    assert re.search(r"solutions/getting_started/getting_started.py:\d+: ", capsys.readouterr().err)
    assert before == {p: p.read_bytes() for p in checkout.rglob("*.ipynb")}


# Stock nbgrader


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course folder with our solutions and configuration, and one exercise written by hand."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "solutions", folder / "solutions", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    hand = make_chapter(tmp_path_factory.mktemp("rooms"), source=SOURCE + HAND_WRITTEN)
    solution, student = generating.generate(hand)
    (folder / "solutions" / "chapter").mkdir()
    (folder / "solutions" / "chapter" / "chapter.ipynb").write_text(solution)
    (folder / "chapter_student.ipynb").write_text(student)
    return folder


def nbgrader(course, *arguments):
    """Run nbgrader as its user does; its programs find alembic on the path."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], cwd=course, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def marked_cells(path):
    return [(cell.cell_type, cell.source, cell.metadata) for cell in nbformat.read(path, as_version=4).cells]


@pytest.mark.slow
@pytest.mark.parametrize("stem", [*STEMS, "chapter"])
def test_nbgrader_generates_the_same_cells(course, stem):
    code, log = nbgrader(course, "generate_assignment", stem, "--force")
    assert code == 0, log
    folder = course / "exercises" / stem
    assert [path.name for path in folder.iterdir()] == [f"{stem}.ipynb"]
    ours = course / "chapter_student.ipynb" if stem == "chapter" else ROOT / "exercises" / stem / f"{stem}.ipynb"
    assert marked_cells(folder / f"{stem}.ipynb") == marked_cells(ours)


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_nbgrader_validates_the_solution_and_not_the_students_notebook(course, stem, tmp_path):
    logs = {}
    for room in ("solutions", "exercises"):
        path = tmp_path / f"{room}.ipynb"
        path.write_bytes(without_experiments((ROOT / room / stem / f"{stem}.ipynb").read_bytes()))
        logs[room] = nbgrader(course, "validate", str(path))[1]
    assert "Success! Your notebook passes all the tests." in logs["solutions"], logs["solutions"]
    log = logs["exercises"]
    assert f"VALIDATION FAILED ON {len(catalog.checks(stem))} CELL(S)" in log
    for name in catalog.checks(stem):
        assert f'check("{name}", {name})' in log


@pytest.mark.slow
def test_nbgrader_autogrades_solution_and_untouched_notebook(course):
    from nbgrader.api import Gradebook

    stem = "getting_started"
    assert nbgrader(course, "generate_assignment", stem, "--force")[0] == 0
    for student, room in (("able", "solutions"), ("idle", "exercises")):
        target = course / "_build/grading/submitted" / student / stem
        target.mkdir(parents=True)
        shutil.copy(ROOT / room / stem / f"{stem}.ipynb", target)
    code, log = nbgrader(course, "autograde", stem)
    assert code == 0, log
    with Gradebook(f"sqlite:///{course}/_build/grading/gradebook.db") as gradebook:
        marks = {s.student.id: (s.score, s.max_score) for s in gradebook.assignment_submissions(stem)}
    points = sum(check.points for check in catalog.checks(stem).values())
    assert marks == {"able": (points, points), "idle": (0, points)}


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("room", ["solutions", "exercises"])
def test_executed_notebooks(stem, room, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(ROOT / room / stem / f"{stem}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, allow_errors=room == "exercises").execute()
    checks = [cell for cell in notebook.cells if notebooks.cell_kind(cell) == "check"]
    assert len(checks) == len(catalog.checks(stem))
    for cell in checks:
        shown = json.dumps(cell.outputs)
        if room == "solutions":
            assert "all visible cases pass" in shown
            assert cell.outputs[-1].data["text/plain"] == f"{float(cell.metadata.nbgrader.points)}"
        else:
            assert "Not written yet" in shown
            assert cell.outputs[-1].output_type == "error"
