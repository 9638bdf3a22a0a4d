"""``autograder update``: the release's text, the student's every answer."""

import copy
import json
import random

import nbformat
import pytest

from autograder import __version__, notebooks, update
from autograder.cli import main

STEM = "getting_started"
ANSWER = "def softmax(x, axis=-1):\n    # mine\n    return x / x.sum(axis, keepdims=True)"
STUB = "# YOUR CODE HERE\n    raise NotImplementedError()"


@pytest.fixture
def released():
    return notebooks.read_released(STEM)


def code(source, **more):
    return nbformat.v4.new_code_cell(source, **more)


def place_of(notebook, id):
    return next(place for place, cell in enumerate(notebook["cells"]) if cell["id"] == id)


def texts(notebook):
    return [cell["source"] for cell in notebook["cells"]]


def answered(released, answer=ANSWER):
    notebook = copy.deepcopy(released)
    notebook.cells[place_of(notebook, "kernel-softmax")].source = answer
    return notebook


def of_an_older_release(notebook):
    """The notebook as release 0.0.1 would have made it: other prose, another stamp, one cell that is now gone."""
    old = copy.deepcopy(notebook)
    for cell in old.cells:
        kind = notebooks.cell_kind(cell)
        if kind == "prose":
            cell.source += "\nAn older wording."
        elif kind == "setup":
            cell.source = cell.source.replace(__version__, "0.0.1")
        if kind in ("prose", "setup"):
            cell.id = f"{kind}-{notebooks.digest(cell.source)}"
    gone = "print('an experiment that is now gone')"
    old.cells.append(code(gone, id=f"experiment-{notebooks.digest(gone)}"))
    old.metadata.autograder.release = "0.0.1"
    return old


def stripped(notebook):
    """The notebook as a metadata stripper leaves it: no metadata, ids of its own, format 4.4's lack of them."""
    bare = copy.deepcopy(notebook)
    bare.metadata = nbformat.from_dict({})
    for number, cell in enumerate(bare.cells):
        cell.metadata = nbformat.from_dict({})
        cell.id = str(number)
    return bare


def test_untouched_notebook_of_this_release_is_unchanged(released):
    result = update.update(released, released)
    assert not result.changed
    assert result.answers == {}
    assert texts(result.notebook) == texts(released)


def test_neither_notebook_is_changed(released):
    old = of_an_older_release(answered(released))
    before = copy.deepcopy(old), copy.deepcopy(released)
    update.update(old, released)
    assert (old, released) == before


def test_answer_moves_into_the_new_text(released):
    result = update.update(of_an_older_release(answered(released)), released)
    assert result.changed
    assert result.answers == {"softmax": ANSWER}
    assert texts(result.notebook) == texts(answered(released))
    assert result.notebook.metadata.autograder.release == __version__
    assert [cell.metadata for cell in result.notebook.cells] == [cell.metadata for cell in released.cells]


def test_answer_is_found_by_name_when_metadata_are_gone_and_cells_moved(released):
    old = stripped(answered(released))
    old.cells.insert(0, old.cells.pop(place_of(released, "kernel-softmax")))
    result = update.update(old, released)
    assert texts(result.notebook) == texts(answered(released))
    assert [cell.id for cell in result.notebook.cells] == [cell.id for cell in released.cells]


def test_last_definition_wins_and_the_placeholder_goes(released):
    old = copy.deepcopy(released)
    old.cells.append(code(ANSWER))
    result = update.update(old, released)
    assert texts(result.notebook) == texts(answered(released))


def test_an_earlier_attempt_is_kept_above_the_answer(released):
    attempt = "def softmax(x, axis=-1):\n    return x"
    old = answered(released, attempt)
    old.cells.append(code(ANSWER))
    result = update.update(old, released)
    place = place_of(result.notebook, "kernel-softmax")
    assert texts(result.notebook)[place - 1 : place + 1] == [attempt, ANSWER]
    assert notebooks.kernel_sources(result.notebook)["softmax"] == ANSWER


def test_a_split_cell_keeps_both_halves_in_order(released):
    old = of_an_older_release(answered(released))
    old.cells.insert(place_of(old, "kernel-softmax"), code("def total(x):\n    return x.sum()"))
    result = update.update(old, released)
    place = place_of(result.notebook, "kernel-softmax")
    assert texts(result.notebook)[place - 1 : place + 1] == ["def total(x):\n    return x.sum()", ANSWER]


def test_an_emptied_kernel_cell_leaves_nothing_behind(released):
    old = answered(released, "")
    old.cells.append(code(ANSWER))
    assert texts(update.update(old, released).notebook) == texts(answered(released))


def test_a_helper_in_the_kernels_own_cell_stays_above_the_answer(released):
    helper = "def total(x):\n    return x.sum()"
    old = of_an_older_release(answered(released, helper))
    old.cells.insert(place_of(old, "check-softmax"), code(ANSWER))
    result = update.update(old, released)
    place = place_of(result.notebook, "kernel-softmax")
    assert texts(result.notebook)[place - 1 : place + 1] == [helper, ANSWER]
    assert not update.update(result.notebook, released).changed


@pytest.mark.parametrize(
    "source",
    [
        "def softmax(x, axis=-1)\n    return x",  # a syntax error
        "def softmax(x):\n    # an idea: subtract the largest\n    raise NotImplementedError()",
        "softmax = lambda x: x",
        "def soft_max(x):\n    return x",  # renamed; known by the cell
        "%timeit 1\ndef softmax(x):\n    return x",
    ],
)
def test_whatever_stands_in_the_kernels_cell_is_kept(released, source):
    result = update.update(of_an_older_release(answered(released, source)), released)
    assert texts(result.notebook) == texts(answered(released, source))


def test_own_cells_stay_where_they_stood(released):
    old = of_an_older_release(answered(released))
    for id in ("check-softmax", "kernel-softmax"):
        old.cells.insert(place_of(old, id) + 1, code(f"x_after = '{id}'", outputs=[]))
    old.cells.insert(0, nbformat.v4.new_markdown_cell("My notes"))
    result = update.update(old, released)
    found = texts(result.notebook)
    assert found[0] == "My notes"
    for id in ("check-softmax", "kernel-softmax"):
        assert found[place_of(result.notebook, id) + 1] == f"x_after = '{id}'"
    assert result.own_cells == 3


def test_own_cells_keep_their_outputs_and_lose_marks_of_the_release(released):
    old = copy.deepcopy(released)
    output = nbformat.v4.new_output("stream", name="stdout", text="1")
    marks = {"nbgrader": {"grade": True, "grade_id": "mine", "locked": True, "points": 9, "solution": False}}
    old.cells.append(code("print(1)", outputs=[output], metadata=marks | {"editable": False}))
    own = update.update(old, released).notebook.cells[-1]
    assert (own.outputs, own.metadata) == ([output], {})


def test_edited_experiment_is_kept_in_its_place(released):
    place = next(i for i, cell in enumerate(released.cells) if notebooks.cell_kind(cell) == "experiment")
    old = answered(released)
    old.cells[place].source = "for scale in (3.0,):\n    print(scale)"
    result = update.update(of_an_older_release(old), released)
    assert texts(result.notebook)[place] == "for scale in (3.0,):\n    print(scale)"
    assert len(result.notebook.cells) == len(released.cells)


def test_notes_written_into_prose_are_kept(released):
    old = copy.deepcopy(released)
    old.cells[0].source += "\n\nMy remark."
    assert texts(update.update(old, released).notebook)[1] == old.cells[0].source


def test_imports_added_to_the_setup_cell_are_kept_below_it(released):
    place = next(i for i, cell in enumerate(released.cells) if notebooks.cell_kind(cell) == "setup")
    old = of_an_older_release(answered(released))
    old.cells[place].source = "# for my loops\nimport itertools\n" + old.cells[place].source
    result = update.update(old, released)
    assert texts(result.notebook)[place] == released.cells[place].source
    assert texts(result.notebook)[place + 1] == "# for my loops\nimport itertools"


def test_code_of_a_kernel_that_is_gone_is_kept_at_the_end(released):
    old = of_an_older_release(answered(released))
    mark = {"nbgrader": {"grade_id": "kernel-hardmax", "solution": True, "grade": False, "locked": False}}
    old.cells.insert(2, code("def hardmax(x):\n    return x", id="kernel-hardmax", metadata=mark))
    old.cells.insert(3, code('check("hardmax", hardmax)'))
    result = update.update(old, released)
    assert result.retired == ["hardmax"]
    assert "no longer asks for `hardmax`" in texts(result.notebook)[-2]
    assert texts(result.notebook)[-1] == "def hardmax(x):\n    return x"
    assert texts(result.notebook)[:-2] == texts(answered(released))
    assert not update.update(result.notebook, released).changed


def test_changed_contract_is_told(released):
    assert update.update(of_an_older_release(answered(released)), released).contracts == ["softmax"]
    given = released.cells[place_of(released, "kernel-softmax")].source
    kept = answered(released, given.replace(STUB, "return x"))
    assert update.update(of_an_older_release(kept), released).contracts == []


def test_untouched_hand_written_exercise_takes_the_new_text(released):
    marks = {"grade": False, "grade_id": "triple", "locked": False, "schema_version": 3, "solution": True}
    old = copy.deepcopy(released)
    for notebook, text in ((released, "def triple(x): ..."), (old, "def triple(y): ...")):
        cell = code(text, id="triple", metadata={"nbgrader": dict(marks)})
        cell.metadata.nbgrader["checksum"] = notebooks.checksum(cell)
        notebook.cells.append(cell)
    assert texts(update.update(old, released).notebook) == texts(released)


def test_hand_written_answers_are_kept(released):
    marks = {"grade": True, "grade_id": "why", "locked": False, "points": 2, "schema_version": 3, "solution": True}
    old = of_an_older_release(released)
    for notebook, text in ((released, "YOUR ANSWER HERE"), (old, "Because.")):
        notebook.cells.append(nbformat.v4.new_markdown_cell(text, id="why", metadata={"nbgrader": marks}))
    assert texts(update.update(old, released).notebook)[place_of(released, "why")] == "Because."


OWN = [
    "y = 1",
    "print(2)",
    "def helper(x):\n    return x",
    'check("softmax", softmax)',
    "similarity(softmax(1), 2)",
    "import math",
    "for",
]


@pytest.fixture
def two_kernels(released):
    """A release with a second kernel."""
    for id, source in (
        ("kernel", f"def similarity(query, keys):\n    {STUB}"),
        ("check", 'check("similarity", similarity)'),
    ):
        marks = {"grade": id == "check", "solution": id == "kernel", "locked": id == "check", "points": 1}
        marks["grade_id"] = f"{id}-similarity"
        cell = code(source, id=marks["grade_id"], metadata={"nbgrader": marks})
        cell.metadata.nbgrader["checksum"] = notebooks.checksum(cell)
        released.cells.append(cell)
    released.cells.append(nbformat.v4.new_markdown_cell("The end.", id=f"prose-{notebooks.digest('The end.')}"))
    return released


@pytest.mark.parametrize("seed", range(40))
def test_any_history_of_edits(two_kernels, seed):
    """Whatever was done to a notebook: answers and own cells survive once, the rest is the release, twice is once."""
    released, rng = two_kernels, random.Random(seed)
    old, answers = copy.deepcopy(released), {}
    for name in ("softmax", "similarity"):
        if rng.random() < 0.7:
            answers[name] = f"def {name}(x, y=-1):\n    return x  # {seed}"
            old.cells[place_of(old, f"kernel-{name}")].source = answers[name]
    if rng.random() < 0.7:
        old = of_an_older_release(old)
    own = [f"{rng.choice(OWN)}  # {seed} {number}" for number in range(rng.randrange(6))]
    for source in own:
        cell = code(source) if rng.random() < 0.8 else nbformat.v4.new_markdown_cell(source)
        old.cells.insert(rng.randrange(len(old.cells) + 1), cell)
    if rng.random() < 0.3:
        rng.shuffle(old.cells)
    if rng.random() < 0.3:
        old = stripped(old)
    if rng.random() < 0.3:  # some of the release's cells were deleted
        old.cells = [cell for cell in old.cells if f"# {seed}" in cell.source or rng.random() < 0.7]

    result = update.update(old, released)
    nbformat.validate(result.notebook)
    assert result.answers == answers
    assert {name: notebooks.kernel_sources(result.notebook)[name] for name in answers} == answers
    assert all(texts(result.notebook).count(source) == 1 for source in own)
    given = {cell.id: cell.source for cell in released.cells}
    assert [cell.id for cell in result.notebook.cells if cell.id in given] == list(given)
    given |= {f"kernel-{name}": source for name, source in answers.items()}
    assert {cell.id: cell.source for cell in result.notebook.cells if cell.id in given} == given
    again = update.update(result.notebook, released)
    assert not again.changed
    assert again.notebook == result.notebook


# The command


@pytest.fixture
def old_file(released, tmp_path):
    path = tmp_path / "my work.ipynb"
    path.write_text(notebooks.as_text(of_an_older_release(answered(released))))
    return path


def test_command_updates_backs_up_and_then_has_nothing_to_do(released, old_file, capsys):
    before = old_file.read_text()
    assert main(["update", str(old_file)]) == 0
    assert "Answers kept: softmax" in capsys.readouterr().out
    assert old_file.with_name("my work.ipynb.bak-0.0.1").read_text() == before
    after = old_file.read_text()
    assert texts(nbformat.reads(after, as_version=4)) == texts(answered(released))
    assert main(["update", str(old_file)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert old_file.read_text() == after
    assert len(list(old_file.parent.iterdir())) == 2


def test_running_an_updated_notebook_does_not_make_it_old(old_file, capsys):
    main(["update", str(old_file)])
    notebook = nbformat.read(old_file, as_version=4)
    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.execution_count = number
        cell.outputs = [nbformat.v4.new_output("stream", text="1")]
        cell.metadata["execution"] = {"iopub.execute_input": "now"}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    old_file.write_text(nbformat.writes(notebook))
    before = old_file.read_text()
    capsys.readouterr()
    assert main(["update", str(old_file)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert old_file.read_text() == before


def test_an_older_backup_is_not_overwritten(old_file):
    backup = old_file.with_name("my work.ipynb.bak-0.0.1")
    backup.write_text("precious")
    main(["update", str(old_file)])
    assert backup.read_text() == "precious"
    assert backup.with_name(backup.name + "-2").exists()


def test_failure_while_writing_leaves_the_notebook_whole(old_file, monkeypatch):
    before = old_file.read_bytes()

    def fail(*paths):
        raise OSError("disk full")

    monkeypatch.setattr(notebooks.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        main(["update", str(old_file)])
    assert [path.name for path in old_file.parent.iterdir()] == [old_file.name]
    assert old_file.read_bytes() == before


def test_exported_answers_can_be_checked(released, old_file, tmp_path, capsys):
    export = tmp_path / "answers.py"
    assert main(["update", str(old_file), "--export", str(export)]) == 0
    assert ANSWER in export.read_text()
    capsys.readouterr()
    assert main(["check", str(export)]) == 1  # the answer is not a softmax
    assert "softmax: " in capsys.readouterr().out


def test_notebook_of_format_4_4_without_ids(released, tmp_path):
    old = stripped(answered(released))
    for cell in old.cells:
        del cell["id"]
    old.nbformat_minor = 4
    path = tmp_path / "old.ipynb"
    path.write_text(nbformat.writes(old))
    assert main(["update", str(path)]) == 0
    assert texts(nbformat.read(path, as_version=4)) == texts(answered(released))
    assert [p.name for p in tmp_path.iterdir() if "bak" in p.name] == [f"old.ipynb.bak-{__version__}"]


ODD_DEFINITIONS = {
    "async": "async def softmax(x, axis=-1):\n    return x",
    "annotated lambda": "softmax: object = lambda x, axis=-1: x",
    "another name": "def mine(x, axis=-1):\n    return x\n\n\nsoftmax = mine",
    "in a block": "try:\n    def softmax(x, axis=-1):\n        return x\nexcept ValueError:\n    pass",
    "with Windows line ends": "def softmax(x, axis=-1):\r\n    return x",
    "broken": "def softmax(x, axis=-1):\n    return x)",
}


@pytest.mark.parametrize("answer", ODD_DEFINITIONS.values(), ids=ODD_DEFINITIONS)
def test_an_answer_of_any_form_replaces_the_stub_without_metadata(answer):
    released = notebooks.read_released("getting_started")
    old = {"metadata": {}, "cells": []}
    for cell in released["cells"]:
        source = answer if cell["id"] == "kernel-softmax" else cell["source"]
        old["cells"].append({"cell_type": cell["cell_type"], "metadata": {}, "source": source})
    result = update.update(old, released)
    assert [c["source"] for c in result.notebook["cells"] if c["id"] == "kernel-softmax"] == [answer]
    assert result.own_cells == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", [{"id": 7}, {"metadata": {"nbgrader": None}}, {"metadata": {"tags": "setup"}}])
def test_odd_marks_of_other_tools_are_borne(odd, tmp_path):
    released = notebooks.read_released("getting_started")
    cells = [{**cell, **odd} for cell in released["cells"]]
    path = tmp_path / "getting_started.ipynb"
    content = {**released, "metadata": {"autograder": None}, "cells": cells}
    path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
    old = notebooks.read_notebook(path)
    assert notebooks.chapter_of(old, path) == "getting_started"
    assert len(update.update(old, released).notebook["cells"]) == len(cells)
