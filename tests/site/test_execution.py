"""Which chapters are executed again, what a failure says, and when nothing is done."""

import json

import build_book
import pytest
from execution import ChapterFailed, Outputs, chapters, execute, execute_changed, imported_files, key

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---

# A chapter

"""


def page(*cells: str) -> str:
    return HEAD + "".join(f"```{{code-cell}}\n{cell}\n```\n\n" for cell in cells)


@pytest.fixture
def course(tmp_path):
    """A small course: two chapters, of which one uses a module of ``lab`` through another."""
    files = {
        "_config.yml": "parse: {myst_enable_extensions: [colon_fence]}\n",
        "requirements.lock": "numpy==2.0\n",
        "book/_toc.yml": "root: intro\nparts: [{chapters: [{file: one}, {file: two}]}]\n",
        "book/intro.md": "# No code here\n",
        "book/one.md": page("from lab import plots", "1 + 1"),
        "book/two.md": page("%matplotlib inline\nimport lab.other", "2 + 2"),
        "lab/__init__.py": "",
        "lab/plots.py": "from lab.colours import BLUE\n",
        "lab/colours.py": "BLUE = 1\n",
        "lab/other.py": "",
        "lab/unused.py": "",
        "autograder/__init__.py": "",
        "autograder/catalog.py": "import importlib\n",
        "autograder/checks/one.py": "",
        "autograder/checks/two.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def keys(root):
    return {chapter.stem: key(chapter, root) for chapter in chapters(root)}


def test_pages_without_code_are_not_chapters(course):
    assert [chapter.stem for chapter in chapters(course)] == ["one", "two"]


def test_imports_are_followed_through_modules(course):
    names = {path.relative_to(course).as_posix() for path in imported_files("from lab import plots", "one", course)}
    assert names == {"lab/__init__.py", "lab/plots.py", "lab/colours.py"}


def test_a_page_that_reads_other_pages_depends_on_them_but_not_on_its_own_prose(course):
    (course / "lab" / "paragraphs.py").write_text("", encoding="utf-8")
    names = {file.name for file in imported_files("from lab import paragraphs", "one", course)}
    assert names == {"__init__.py", "paragraphs.py", "_toc.yml", "intro.md", "two.md"}


def test_a_page_that_uses_the_catalog_depends_on_its_own_checks(course):
    found = imported_files("def late():\n    from autograder.catalog import checks", "one", course)
    names = {path.relative_to(course).as_posix() for path in found}
    assert names == {"autograder/__init__.py", "autograder/catalog.py", "autograder/checks/one.py"}


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("lab/colours.py", {"one"}),
        ("lab/other.py", {"two"}),
        ("lab/unused.py", set()),
        ("lab/data.csv", {"one", "two"}),
        ("requirements.lock", {"one", "two"}),
        ("autograder/checks/one.py", set()),
    ],
)
def test_a_changed_file_touches_the_chapters_that_use_it(course, file, changed):
    before = keys(course)
    (course / file).write_text("CHANGED = True\n", encoding="utf-8")
    after = keys(course)
    assert {stem for stem in before if before[stem] != after[stem]} == changed


@pytest.mark.slow
def test_chapters_run_once_until_something_they_use_changes(course, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(course))
    outputs = Outputs(course / "cache")
    said = []
    assert execute_changed(course, outputs, say=said.append) == ({"one", "two"}, [])
    assert sorted(line.split("] ")[1].split(":")[0] for line in said) == ["one", "two"]
    assert execute_changed(course, outputs, say=said.append) == (set(), [])
    (course / "lab" / "colours.py").write_text("BLUE = 2\n", encoding="utf-8")
    said.clear()
    assert execute_changed(course, outputs, say=said.append) == ({"one"}, [])
    assert said[0].startswith("[1/1] one: ")


@pytest.mark.slow
def test_figures_are_shown_whatever_backend_the_environment_names(course, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    (course / "book" / "one.md").write_text(page(plot), encoding="utf-8")
    executed, _ = execute(chapters(course)[0])
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
def test_a_failing_chapter_is_named_with_its_cell_and_does_not_stop_the_rest(course):
    (course / "book" / "two.md").write_text(
        page("1 + 1", "def broken():\n    return 1 / 0\n\nbroken()"), encoding="utf-8"
    )
    (course / "book" / "one.md").write_text(page("3 + 3"), encoding="utf-8")
    outputs = Outputs(course / "cache")
    executed, failures = execute_changed(course, outputs, say=lambda line: None)
    assert executed == {"one", "two"}
    assert len(failures) == 1
    message = str(failures[0])
    assert message.startswith("two.md, code cell at line 13:")
    assert "ZeroDivisionError" in message
    assert "\x1b" not in message
    one = chapters(course)[0]
    assert outputs.has(one, key(one, course))


@pytest.mark.slow
def test_an_endless_cell_is_stopped(course):
    (course / "book" / "one.md").write_text(page("while True: pass"), encoding="utf-8")
    with pytest.raises(ChapterFailed, match=r"one\.md, code cell at line 9"):
        execute(chapters(course)[0], timeout=2)


def test_only_changed_pages_are_written_again():
    assert build_book.only_pages({"book/intro.md", "book/glossary.md"}, {"intro"})
    assert not build_book.only_pages({"book/intro.md", "lab/plots.py"}, set())
    assert not build_book.only_pages({"book/_static/site.css"}, set())
    assert not build_book.only_pages({"book/intro.md"}, {"intro", "a_page_that_reads_it"})


def test_what_changed_since_the_last_build(tmp_path, monkeypatch):
    monkeypatch.setattr(build_book, "BUILD", tmp_path)
    monkeypatch.setattr(build_book, "RECORD", tmp_path / "site.json")
    now = {"a": "1", "b": "2"}
    assert build_book.changed(now) == {"a", "b"}
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("", encoding="utf-8")
    (tmp_path / "site.json").write_text(json.dumps({"a": "1", "b": "3", "c": "4"}), encoding="utf-8")
    assert build_book.changed(now) == {"b", "c"}
    (tmp_path / "site.json").write_text(json.dumps(now), encoding="utf-8")
    assert build_book.changed(now) == set()
