"""Which chapters must be executed, and executing them into the cache that MyST-NB reads.

MyST-NB's own key is the text of a page's code cells. Ours adds every file of ``lab/`` and ``autograder/`` that the
cells import, directly or through each other, and the lock file, so that no figure outlives the code that drew it.
"""

import ast
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi

PACKAGES = ("autograder", "lab")
QUIET = ["--log-level=ERROR"]  # each kernel warns that it listens on a local port
FOUND_BY_STEM = {
    "autograder/catalog.py": [f"autograder/{room}/{{stem}}.py" for room in ("probes", "checks", "reference")],
    "autograder/notebooks.py": ["exercises/{stem}/{stem}.ipynb", "solutions/{stem}/{stem}.py"],
}
# What a module reads when it runs: the prose of other pages.
READ = {"lab/paragraphs.py": ["book/_toc.yml", "book/*.md"]}
# One thread each; figures in the page, whatever the terminal's own settings are.
VARIABLES = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


class ChapterFailed(Exception):
    """A chapter that could not be executed; the message names the chapter and the cell and ends with the traceback."""


@dataclass
class Chapter:
    """A page with code cells."""

    stem: str
    path: Path
    notebook: nbformat.NotebookNode

    @classmethod
    def read(cls, path: Path, extensions: list[str]) -> "Chapter | None":
        """The page as a notebook, exactly as MyST-NB will read it; None for a page without code cells."""
        text = path.read_text(encoding="utf-8")
        if not is_myst_markdown_notebook(text):
            return None
        config = MdParserConfig(enable_extensions=set(extensions))
        notebook = read_myst_markdown_notebook(text, config=config, add_source_map=True, path=path)
        return cls(path.stem, path, notebook)

    def code(self) -> str:
        """The code cells as one source, without IPython's magics and shell lines."""
        cells = (cell.source for cell in self.notebook.cells if cell.cell_type == "code")
        lines = "\n".join(cells).splitlines()
        return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def chapters(root: Path) -> list[Chapter]:
    """The pages of the table of contents that hold code cells, in its order."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    toc = yaml.safe_load((root / "book" / "_toc.yml").read_text(encoding="utf-8"))
    extensions = config["parse"]["myst_enable_extensions"]
    pages = (Chapter.read(root / "book" / f"{name}.md", extensions) for name in _files(toc))
    return [page for page in pages if page is not None]


def _files(toc) -> Iterator[str]:
    """The names of pages anywhere in a table of contents."""
    if isinstance(toc, list):
        for entry in toc:
            yield from _files(entry)
    elif isinstance(toc, dict):
        for key, value in toc.items():
            if key in ("root", "file"):
                yield value
            else:
                yield from _files(value)


def imported_files(code: str, stem: str, root: Path) -> set[Path]:
    """Files of our packages that ``code`` imports, and those that they import in turn.

    Checks and notebooks are found by a chapter's name, not by an import, so a page that uses what finds them depends on
    those of its own chapter. A package that is used counts with its data files, and a module with what it reads.
    """
    found: set[Path] = set()
    waiting = list(_modules(ast.parse(code), "", root))
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.name == "__init__.py":
            found |= {f for f in path.parent.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")}
        read = (file for pattern in READ.get(path.relative_to(root).as_posix(), ()) for file in root.glob(pattern))
        found |= {file for file in read if file.stem != stem}
        by_stem = [root / name.format(stem=stem) for name in FOUND_BY_STEM.get(path.relative_to(root).as_posix(), ())]
        waiting += [file for file in by_stem if file.exists() and root / "autograder" in file.parents]
        found |= {file for file in by_stem if file.exists() and root / "autograder" not in file.parents}
        package = ".".join(path.relative_to(root).parent.parts)
        waiting += _modules(ast.parse(path.read_text(encoding="utf-8")), package, root)
    return found


def _modules(tree: ast.AST, package: str, root: Path) -> Iterator[Path]:
    """Files of our packages that the imports of a syntax tree name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                candidates = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*parents, *([module] if module else [])])
                candidates = [base, *(f"{base}.{alias.name}" for alias in names)]
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
                candidates = [name]
            case _:
                continue
        for name in candidates:
            parts = name.split(".")
            if parts[0] in PACKAGES:
                yield from _files_of(parts, root)


def _files_of(parts: list[str], root: Path) -> Iterator[Path]:
    """The file of a module and the ``__init__.py`` of each package around it, those that exist."""
    for count in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:count])
        yield from (path for path in (place / "__init__.py", place.with_suffix(".py")) if path.exists())


def key(chapter: Chapter, root: Path) -> str:
    """A digest of all that a chapter's outputs depend on."""
    digest = hashlib.sha256(f"{sys.version}{VARIABLES}{chapter.code()}".encode())
    for path in sorted(imported_files(chapter.code(), chapter.stem, root) | set(root.glob("requirements*.lock"))):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Outputs:
    """The cache of executed chapters, with the key that each was executed for."""

    def __init__(self, folder: Path):
        self._cache = get_cache(str(folder))

    def has(self, chapter: Chapter, key: str) -> bool:
        try:
            record = self._cache.match_cache_notebook(chapter.notebook)
        except KeyError:
            return False
        return record.data.get("key") == key

    def put(self, chapter: Chapter, executed: nbformat.NotebookNode, key: str, seconds: float) -> None:
        bundle = CacheBundleIn(executed, str(chapter.path), data={"execution_seconds": seconds, "key": key})
        self._cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def execute(chapter: Chapter, timeout: int = 600) -> tuple[nbformat.NotebookNode, float]:
    """Run a chapter in a fresh kernel with one thread; the notebook with its outputs, and the seconds it took."""
    notebook = nbformat.from_dict(chapter.notebook)
    resources = {"metadata": {"path": str(chapter.path.parent)}}
    line = 1

    def note_line(cell, cell_index):
        nonlocal line
        line = notebook.metadata.source_map[cell_index]

    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources=resources,
        extra_arguments=QUIET,
        record_timing=False,  # it writes to the cells' metadata, which the cache's key holds
        on_cell_start=note_line,
    )
    begin = time.perf_counter()
    try:
        client.execute(env={**os.environ, **VARIABLES})
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise ChapterFailed(f"{chapter.path.name}, code cell at line {line}:\n{strip_ansi(str(error))}") from None
    return notebook, time.perf_counter() - begin


def execute_changed(
    root: Path, outputs: Outputs, workers: int = 2, say: Callable[[str], None] = print
) -> tuple[set[str], list[ChapterFailed]]:
    """Execute the chapters whose inputs changed, ``workers`` at a time; the stems of these, and those that failed."""
    keys = {chapter.stem: (chapter, key(chapter, root)) for chapter in chapters(root)}
    stale = [(chapter, digest) for chapter, digest in keys.values() if not outputs.has(chapter, digest)]
    failures: list[ChapterFailed] = []
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(execute, chapter): (chapter, digest) for chapter, digest in stale}
        for count, future in enumerate(as_completed(waiting), 1):
            chapter, digest = waiting[future]
            try:
                notebook, seconds = future.result()
            except ChapterFailed as failure:
                failures.append(failure)
                say(f"[{count}/{len(stale)}] {chapter.stem}: failed")
                continue
            outputs.put(chapter, notebook, digest, seconds)
            say(f"[{count}/{len(stale)}] {chapter.stem}: {seconds:.0f} s")
    return {chapter.stem for chapter, _ in stale}, failures
