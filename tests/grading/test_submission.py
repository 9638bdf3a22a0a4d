"""What is handed in is read without being run, whatever it is; files find their chapter; ready-made calls are seen."""

import json
import os
from pathlib import Path

import pytest

from autograder import notebooks
from autograder.grading import placing, submission
from autograder.grading.autograded import restored_notebook
from autograder.grading.placing import find_submissions
from autograder.grading.scanning import ready_made_uses, suspicious_uses
from autograder.grading.submission import NotReadable, cells_to_run, read_file, read_notebook, read_released

STEM = "getting_started"


def notebook(*sources, metadata=None):
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}


def as_bytes(*sources, **options):
    return json.dumps(notebook(*sources, **options)).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[1, 2]", "no cells"),
        (b'{"cells": 3}', "no cells"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"9" * 5_000, "not valid JSON"),
    ],
)
def test_what_is_no_notebook_is_refused_in_words(data, reason):
    with pytest.raises(NotReadable, match=reason):
        read_notebook(data)


def test_a_huge_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(submission, "SIZE_LIMIT", 1_000_000)
    path = tmp_path / "a.ipynb"
    path.write_bytes(b" " * 2_000_000)
    with pytest.raises(NotReadable, match="2 MB; a notebook may have 1 MB"):
        read_file(path, tmp_path)
    with pytest.raises(NotReadable, match="may have"):
        read_notebook(path.read_bytes() + b"1")


def test_more_code_than_the_grader_can_parse_is_refused():
    assert read_notebook(as_bytes("a;" * (submission.CODE_LIMIT // 2)))["cells"]
    with pytest.raises(NotReadable, match="Its cells hold 500,001 characters of code; a notebook may have 500,000"):
        read_notebook(as_bytes("a;" * (submission.CODE_LIMIT // 4), "a;" * (submission.CODE_LIMIT // 4), "a"))
    assert read_notebook(json.dumps({"cells": [{"cell_type": "markdown", "source": "a" * 600_000}]}).encode())


def test_marks_of_the_release_that_were_forged_stop_nothing():
    forged = {"nbgrader": {"grade_id": True, "grade": True, "points": 1000, "solution": "yes"}, "tags": [1, True]}
    cells = [{"cell_type": kind, "source": KERNEL, "metadata": forged} for kind in ("code", "markdown", "raw")]
    read = read_notebook(json.dumps({"cells": cells * 2}).encode())
    shown = restored_notebook(read["cells"], notebooks.released(STEM))
    marked = [cell["metadata"]["nbgrader"] for cell in shown["cells"] if cell["metadata"]]
    released = [
        cell["metadata"]["nbgrader"] for cell in notebooks.released(STEM)["cells"] if "nbgrader" in cell["metadata"]
    ]
    assert all(mark in released for mark in marked)
    assert len({mark["grade_id"] for mark in marked}) == len(marked)


def test_directories_links_and_devices_are_refused(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "student"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret.ipynb").write_bytes(as_bytes("1"))
    (folder / "dir.ipynb").mkdir()
    (folder / "link.ipynb").symlink_to(outside / "secret.ipynb")
    (folder / "chapter").symlink_to(outside)
    os.mkfifo(folder / "pipe.ipynb")
    for name, reason in (("dir", "directory"), ("link", "link"), ("chapter/secret", "link"), ("pipe", "device")):
        with pytest.raises(NotReadable, match=reason):
            read_file(folder / f"{name}.ipynb", folder)


def test_odd_cells_are_read_as_far_as_they_go():
    data = {
        "metadata": {"autograder": ["x"], "kernelspec": 3},
        "cells": [
            {"cell_type": "code", "source": ["a = 1\n", 3, "b = 2"], "metadata": {"tags": "setup", "nbgrader": 1}},
            {"cell_type": "code"},
            {"cell_type": ["code"], "source": {"a": 1}},
            "no cell",
            {"cell_type": "code", "source": "x = '\ud800'"},
        ],
    }
    read = read_notebook(json.dumps(data).encode())
    assert [cell["source"] for cell in read["cells"]] == ["a = 1\nb = 2", "", "", "x = '?'"]
    assert read["metadata"] == {}
    assert read["cells"][0]["metadata"] == {}


def test_a_notebook_of_version_3_is_read():
    data = {"worksheets": [{"cells": [{"cell_type": "code", "input": "a = 1", "metadata": {}}]}], "nbformat": 3}
    assert read_notebook(json.dumps(data).encode())["cells"][0]["source"] == "a = 1"


@pytest.mark.parametrize("cells", [3, None, "text", {"a": 1}, [3, None]])
def test_a_sheet_that_holds_no_cells_stops_nothing(folder, cells):
    data = json.dumps({"worksheets": [{"cells": cells}, {}, 3]}).encode()
    assert read_notebook(data)["cells"] == []
    (folder / "odd.ipynb").write_bytes(data)
    assert found(folder) == []


def test_a_byte_order_mark_costs_nothing():
    assert read_notebook(b"\xef\xbb\xbf" + as_bytes("a = 1"))["cells"][0]["source"] == "a = 1"


def test_unchanged_experiments_and_checks_are_not_run():
    released = read_released(STEM)
    run = [source for _, source in cells_to_run(released, released)]
    kinds = [submission.notebooks.cell_kind(cell) for cell in released["cells"]]
    assert len(run) == kinds.count("setup") + kinds.count("kernel") > 0
    changed = read_released(STEM)
    for cell in changed["cells"]:
        cell["source"] = "\n".join(f"{line}  " for line in cell["source"].splitlines()) + "\n\n"
    assert len(cells_to_run(changed, released)) == len(run)
    experiment = changed["cells"][kinds.index("experiment")]
    experiment["source"] += "x = 1"
    assert cells_to_run(changed, released)[-1][1] == experiment["source"]


def test_a_near_name_is_found():
    assert submission.similar_name("softmax", ["soft_max", "begin"]) == "soft_max"
    assert submission.similar_name("softmax", ["Softmax2"]) == "Softmax2"
    assert submission.similar_name("softmax", ["relu"]) is None


KERNEL = "def softmax(x, axis=-1):\n    return x"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ann").mkdir()
    return tmp_path / "ann"


def found(folder):
    return list(find_submissions(folder.parent, [STEM]))


def test_the_right_name_is_taken_and_others_are_mentioned(folder):
    (folder / STEM).mkdir()
    (folder / STEM / f"{STEM}.ipynb").write_bytes(as_bytes(KERNEL))
    (folder / STEM / "old.ipynb").write_bytes(as_bytes(KERNEL))
    (one,) = found(folder)
    assert one.data == as_bytes(KERNEL)
    assert one.remarks == [f"Not graded, as {STEM}.ipynb is there: {STEM}/old.ipynb."]


@pytest.mark.parametrize(
    "data",
    [
        as_bytes("x = 1", metadata={"autograder": {"stem": STEM}}),
        as_bytes(f'begin("{STEM}", release="0.1.0")'),
        as_bytes(KERNEL),
    ],
    ids=["stamp", "begin", "kernel"],
)
def test_a_wrong_name_is_placed_by_what_it_holds(folder, data):
    (folder / "Untitled (1).ipynb").write_bytes(data)
    (one,) = found(folder)
    assert one.data == data
    assert one.remarks == [f"Placed by what it holds: Untitled (1).ipynb should be {STEM}/{STEM}.ipynb."]


def test_of_several_wrong_names_the_newest_is_taken(folder):
    for age, name in enumerate(("new", "old")):
        (folder / f"{name}.ipynb").write_bytes(as_bytes(KERNEL, name))
        os.utime(folder / f"{name}.ipynb", (1e9 - age, 1e9 - age))
    (one,) = found(folder)
    assert one.data == as_bytes(KERNEL, "new")
    assert any("old.ipynb" in remark for remark in one.remarks)


def test_a_broken_file_is_placed_by_its_folder(folder):
    (folder / STEM).mkdir()
    (folder / STEM / "a.ipynb").write_bytes(b"{")
    (one,) = found(folder)
    assert one.data == b"{"


@pytest.mark.parametrize("kind", ["empty folder", "directory", "link"])
def test_what_cannot_be_read_has_no_data_and_a_reason(folder, kind):
    (folder / STEM).mkdir()
    path = folder / STEM / f"{STEM}.ipynb"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/nowhere")
    (one,) = found(folder)
    assert one.data is None
    assert len(one.remarks) == 1


def test_nothing_of_a_chapter_is_no_submission(folder):
    (folder / "notes.ipynb").write_bytes(as_bytes("x = 1"))
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "a.ipynb").write_bytes(as_bytes(KERNEL))
    assert found(folder) == []


def test_folders_without_end_are_not_looked_into(folder):
    (folder / "a.ipynb").write_bytes(as_bytes(KERNEL))
    place = folder
    for _ in range(placing.DEPTH_LIMIT + 2):
        place = place / "f"
        place.mkdir()
    (place / "b.ipynb").write_bytes(as_bytes(KERNEL))
    (one,) = found(folder)
    assert one.path.name == "a.ipynb"


def test_what_may_not_be_opened_has_a_reason(folder, monkeypatch):
    (folder / STEM).mkdir()
    (folder / STEM / f"{STEM}.ipynb").write_bytes(as_bytes(KERNEL))

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (one,) = found(folder)
    assert (one.data, one.remarks) == (None, [f"{STEM}.ipynb cannot be read: Permission denied."])


def test_a_file_name_cannot_paint_over_the_terminal(folder):
    (folder / "\x1b[2J\n\u202ea.ipynb").write_bytes(as_bytes(KERNEL))
    (one,) = found(folder)
    assert one.remarks[0].isprintable()


def test_only_so_many_files_of_a_student_are_looked_into(folder, monkeypatch):
    monkeypatch.setattr(placing, "LOOK_LIMIT", 2)
    for name in "abc":
        (folder / f"{name}.ipynb").write_bytes(as_bytes(KERNEL, name))
    (one,) = found(folder)
    assert one.path.name == "b.ipynb"


READY = ("torch.nn.functional.scaled_dot_product_attention", "torch.softmax", "scipy.special.softmax")


@pytest.mark.parametrize(
    "sources",
    [
        ["import torch", "def kernel(x):\n    return torch.softmax(x, -1)"],
        ["import torch.nn.functional as F", "def kernel(x):\n    return F.softmax(x, -1)"],
        ["from torch.nn import functional", "def kernel(x):\n    return functional.softmax(x, -1)"],
        ["from torch.nn.functional import softmax as s", "def kernel(x):\n    return s(x, -1)"],
        ["import torch", "f = torch.softmax", "def kernel(x):\n    return f(x, -1)"],
        ["import torch", "def helper(x):\n    return torch.softmax(x, -1)", "def kernel(x):\n    return helper(x)"],
        ["def kernel(x):\n    import torch\n    return torch.softmax(x, -1)"],
        ["%matplotlib inline\nimport torch\n!ls", "def kernel(x):\n    return torch.softmax(x, -1)"],
        ["import torch", "class kernel:\n    def forward(self, x):\n        return torch.softmax(x, -1)"],
    ],
)
def test_a_ready_made_function_is_seen(sources):
    assert ready_made_uses(read_notebook(as_bytes(*sources)), "kernel", READY) == ["torch.softmax"]


@pytest.mark.parametrize(
    "sources",
    [
        # A comparison beside the kernel is no solution.
        ["import torch", "def kernel(x):\n    return x.exp()", "torch.allclose(kernel(x), torch.softmax(x, -1))"],
        # The student's own function of the same name.
        ["def softmax(x):\n    return x", "def kernel(x):\n    return softmax(x)"],
        ["import torch", "def kernel(x):\n    return torch.logsumexp(x, -1)"],
        ["def kernel(x:\n"],
    ],
)
def test_no_ready_made_function_is_seen_where_there_is_none(sources):
    assert ready_made_uses(read_notebook(as_bytes(*sources)), "kernel", READY) == []


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("import ctypes, numpy", ["imports ctypes"]),
        ("from multiprocessing import shared_memory", ["imports multiprocessing"]),
        ("import os as o\no.fork()", ["uses os.fork"]),
        ("import numpy as np\nnp.allclose = max", ["replaces numpy.allclose"]),
        ("open('/proc/1/mem')", ["mentions /proc"]),
        ("from autograder.grading.wire import encode", ["imports autograder.grading.wire"]),
        ("from autograder import begin, check, hint\nimport numpy as np\nx = np.ones(3)\nx.shape = (3, 1)", []),
        ("%matplotlib inline\nimport torch\ntorch.manual_seed(0)", []),
        ("def kernel(:", []),
    ],
)
def test_means_of_tampering_are_seen_in_the_source(source, uses):
    found = suspicious_uses(read_notebook(as_bytes("x = 1", source)), read_released(STEM))
    assert found == ({2: uses} if uses else {})


def test_no_released_notebook_holds_means_of_tampering():
    assert suspicious_uses(read_released(STEM), {"cells": []}) == {}
