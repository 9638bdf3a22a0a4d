"""A class of students whose notebooks are of every kind that comes in, made from those that are handed out."""

import argparse
import ast
import builtins
import importlib.util
import inspect
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder import catalog, notebooks
from autograder.checking import Check, Mistake
from autograder.judging import evaluate

VARIANTS = Path(__file__).parent / "variants"
LOOP = "def {name}(*args, **kwargs):\n    while True:\n        pass\n"
# The aspects, by title, that the mistakes of the sample class get wrong.
LOST = {
    "softmax-overflow": {"scores as large as 10,000"},
    "softmax-all-masked-nan": {"scores of minus infinity"},
    "softmax-wrong-axis-plain": {
        "weights along the last axis",
        "any axis of any array",
        "scores as large as 10,000",
        "scores of minus infinity",
    },
    "similarity-no-scale": {"one score for each key", "gradients and single precision"},
    "weights-batch-squeezed": {"one sequence", "any leading dimensions"},
    "backward-fully-masked-nan": {"a mask, and a query that may attend to nothing"},
}
EXIT = "def {name}(*args, **kwargs):\n    import os\n\n    os._exit(0)\n"


def without_experiments(data: bytes) -> bytes:
    """A notebook without its experiments, which stock nbgrader would run for minutes."""
    notebook = json.loads(data)
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    notebook["cells"] = [cell for cell in notebook["cells"] if notebooks.cell_kind(cell) != "experiment"]
    return json.dumps(notebook).encode()


@dataclass(frozen=True)
class Sample:
    """One student's submission of one chapter.

    Parameters
    ----------
    kind
        What is the matter with it, in a few words.
    files
        What was handed in, by path below the student's directory.
    right
        The kernels that deserve all of their points.
    mistakes
        The kernels that make a known mistake, with its id: they deserve the points of the aspects that they get right.
        Kernels that are in neither deserve nothing.
    intact
        Whether stock nbgrader can grade it too.
    """

    student: str
    stem: str
    kind: str
    files: Mapping[str, bytes]
    right: frozenset[str] = frozenset()
    mistakes: Mapping[str, str] = field(default_factory=dict)
    intact: bool = True


def sample_class(stem: str) -> list[Sample]:
    """The whole class for one chapter."""
    return list(_Maker(stem).samples())


class _Maker:
    def __init__(self, stem: str):
        self.stem = stem
        self.checks = catalog.checks(stem)
        self.released = notebooks.released(stem)
        self.answers = {
            name: textwrap.dedent(inspect.getsource(check.reference)) for name, check in self.checks.items()
        }
        used = {part for check in self.checks.values() for part in check.uses}
        self.alone = [name for name in self.checks if name not in used]  # kernels that no other stands on

    def samples(self) -> Iterator[Sample]:
        everything = frozenset(self.checks)
        last = self.alone[-1]
        others = everything - {last}
        yield self._sample("anna-rossi", "all right", self.answers, everything)
        yield self._sample("Олег", "right in another style", self._other_style(), everything)
        for student, (name, mistake) in zip(("李雷", "María José", "محمد"), self._mistakes(), strict=True):
            wrong = self.answers | {name: _renamed(inspect.getsource(mistake.kernel), name)}
            yield self._sample(
                student, f"a known mistake: {mistake.id}", wrong, everything - {name}, {name: mistake.id}
            )
        half = list(self.checks)[: len(self.checks) // 2]
        yield self._sample("さくら", "half done", {name: self.answers[name] for name in half}, frozenset(half))
        yield self._sample("Ελένη", "untouched", {}, frozenset())
        # The last "return" is code; an earlier one may be a word of the docstring.
        broken = self.answers | {last: "    return (".join(self.answers[last].rsplit("    return", 1))}
        yield self._sample("김민준", "a syntax error in one kernel", broken, others)
        endless = self.answers | {last: LOOP.format(name=last)}
        yield self._sample("שרה", "an endless loop in one kernel", endless, others, intact=False)
        crashing = self.answers | {last: EXIT.format(name=last)}
        yield self._sample("Zoë", "a kernel that ends the process", crashing, others, intact=False)
        yield self._sample(
            "Seán O'Brien",
            "a cell that ends the process",
            self.answers,
            everything,
            change=_with_cell("import os\n\nos._exit(0)"),
            intact=False,
        )
        yield self._raw("อรุณ", "invalid JSON", f"{self.stem}/{self.stem}.ipynb", b'{"cells": [')
        yield self._sample(
            "Đặng", "metadata stripped, cells moved", self.answers, everything, change=_stripped_and_moved, intact=False
        )
        yield self._raw(
            "=1+1", "a wrong file name", f"{self.stem}/my copy (2).ipynb", self._notebook(self.answers), everything
        )
        yield self._sample(
            "jean", "check cells deleted", self.answers, everything, change=_without_checks, intact=False
        )
        left_over = {name: _with_placeholder(code) for name, code in self.answers.items()}
        yield self._sample("Ingrid", "the placeholder left below a right answer", left_over, everything)
        noisy = {name: _noisy(code, name) for name, code in self.answers.items()}
        yield self._sample("Tomáš", "prints, warnings and stderr", noisy, everything)
        yield from self._fused()

    def _sample(
        self,
        student: str,
        kind: str,
        answers: Mapping[str, str],
        right: frozenset[str],
        mistakes: Mapping[str, str] | None = None,
        change: Callable[[dict], None] = lambda notebook: None,
        intact: bool = True,
    ) -> Sample:
        files = {f"{self.stem}/{self.stem}.ipynb": self._notebook(answers, change)}
        return Sample(student, self.stem, kind, files, right, mistakes or {}, intact)

    def _raw(self, student: str, kind: str, path: str, data: bytes, right: frozenset[str] = frozenset()) -> Sample:
        return Sample(student, self.stem, kind, {path: data}, right, intact=False)

    def _notebook(self, answers: Mapping[str, str], change: Callable[[dict], None] = lambda notebook: None) -> bytes:
        """The released notebook with answers in its kernel cells, changed as a student or a tool would."""
        notebook = json.loads(json.dumps(self.released))
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id", "").removeprefix("kernel-")
            if name in answers:
                cell["source"] = answers[name].strip()
        change(notebook)
        return json.dumps(notebook, ensure_ascii=False, indent=1).encode()

    def _other_style(self) -> dict[str, str]:
        """The first right variant of each kernel that stands on the notebook's own imports, where there is one."""
        tree = ast.parse((VARIANTS / f"{self.stem}.py").read_text(encoding="utf-8"))
        definitions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        table = next(
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VARIANTS"
        )
        found = dict(self.answers)
        for key, listed in zip(table.keys, table.values, strict=True):
            own = [definitions[item.id] for item in listed.elts if getattr(item, "id", None) in definitions]
            usable = [node for node in own if self._self_contained(node, self.checks[key.value])]
            if usable:
                found[key.value] = _renamed(ast.unparse(usable[0]), key.value)
        return found

    def _self_contained(self, node: ast.FunctionDef | ast.ClassDef, check: Check) -> bool:
        return not _free_names(node) - self._imports() - set(check.uses)

    def _imports(self) -> set[str]:
        """The names that the notebook's own cells import."""
        nodes = (
            node
            for cell in self.released["cells"]
            if cell["cell_type"] == "code"
            for node in ast.walk(ast.parse("".join(cell["source"])))
        )
        return {
            (alias.asname or alias.name).split(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }

    def _mistakes(self) -> list[tuple[str, Mistake]]:
        """The known mistakes that ``LOST`` speaks of; three from all over the chapter where it speaks of none."""
        usable = []
        for name in self.alone:
            for mistake in self.checks[name].mistakes:
                node = ast.parse(textwrap.dedent(inspect.getsource(mistake.kernel))).body[0]
                if isinstance(node, ast.FunctionDef) and self._self_contained(node, self.checks[name]):
                    usable.append((name, mistake))
        chosen = [(name, mistake) for name, mistake in usable if mistake.id in LOST]
        return chosen or [usable[0], usable[len(usable) // 2], usable[-1]]

    def _fused(self) -> Iterator[Sample]:
        """A kernel that hands the work to the ready-made function of its own name, where the chapter has one."""
        for name, check in self.checks.items():
            for dotted in check.reproduces:
                module, _, function = dotted.rpartition(".")
                if function != name or importlib.util.find_spec(module.split(".")[0]) is None:
                    continue
                ready_made = getattr(importlib.import_module(module), function)
                if not evaluate(name, ready_made).findings[0].passed:  # its arguments are others
                    continue
                code = f"from {module} import {function} as ready_made\n\n\n"
                code += f"def {name}(*args, **kwargs):\n    return ready_made(*args, **kwargs)\n"
                # A kernel that stands on this one calls the ready-made function too, and may be forbidden to.
                also = {other for other, its in self.checks.items() if name in its.uses and dotted in its.reproduces}
                right = frozenset(self.checks.keys() - {name} - also)
                yield self._sample("Nguyễn", f"calls {dotted}", self.answers | {name: code}, right)
                return


def _renamed(code: str, name: str) -> str:
    """The function in a piece of source, without decorators, under another name (also where it calls itself)."""
    node = ast.parse(textwrap.dedent(code)).body[0]
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == node.name:
            part.id = name
    node.name, node.decorator_list = name, []
    return ast.unparse(node)


def _with_placeholder(code: str) -> str:
    """The answer, a function or a class, with the placeholder below its last statement."""
    node = ast.parse(code).body[0]
    while isinstance(node.body[-1], ast.FunctionDef):
        node = node.body[-1]
    return f"{code.rstrip()}\n{' ' * node.body[-1].col_offset}raise NotImplementedError()\n"


def _free_names(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """Names that a definition takes from outside, builtins and annotations left aside."""
    statements = [*node.body, *getattr(node, "bases", ())]
    names = [part for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Name)]
    bound = {part.id for part in names if isinstance(part.ctx, ast.Store)}
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    bound |= {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef)}
    return {part.id for part in names} - bound - set(dir(builtins))


def _noisy(code: str, name: str) -> str:
    """The answer with a print, a warning and a line on stderr in each call."""
    noise = (
        "import sys\nimport warnings\n\n\n"
        f"def _quiet(function):\n    def {name}(*args, **kwargs):\n"
        "        print('called', args)\n        print('on stderr', file=sys.stderr)\n"
        "        warnings.warn('deprecated', DeprecationWarning)\n        return function(*args, **kwargs)\n\n"
        f"    return {name}\n\n\n@_quiet\n"
    )
    return noise + code


def _with_cell(source: str) -> Callable[[dict], None]:
    def change(notebook: dict) -> None:
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        notebook["cells"].insert(math.ceil(len(notebook["cells"]) / 2), cell | {"id": "my-own-cell"})

    return change


def _stripped_and_moved(notebook: dict) -> None:
    """No metadata, no ids, text at the end, checks first in reverse order, as after a journey through other tools."""
    notebook["metadata"] = {}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    checks = [cell for cell in code if notebooks.is_only_checks("".join(cell["source"]))]
    prose = [cell for cell in notebook["cells"] if cell["cell_type"] != "code"]
    notebook["cells"] = checks[::-1] + [cell for cell in code if cell not in checks] + prose
    notebook["nbformat_minor"] = 4


def _without_checks(notebook: dict) -> None:
    notebook["cells"] = [
        cell
        for cell in notebook["cells"]
        if cell["cell_type"] != "code" or not notebooks.is_only_checks("".join(cell["source"]))
    ]


def write(samples: list[Sample], directory: Path) -> None:
    """Write submissions in nbgrader's layout, leaving alone the files that are as they should be."""
    for sample in samples:
        for name, data in sample.files.items():
            path = directory / sample.student / name
            if not path.exists() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                unfinished = path.with_suffix(".unfinished")
                unfinished.write_bytes(data)
                os.replace(unfinished, path)


def main() -> int:
    """Write the class to a directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where to write STUDENT/CHAPTER/CHAPTER.ipynb")
    arguments = parser.parse_args()
    samples = [sample for stem in notebooks.stems() for sample in sample_class(stem)]
    for leftover in {path.name for path in arguments.directory.glob("*")} - {sample.student for sample in samples}:
        shutil.rmtree(arguments.directory / leftover)
    write(samples, arguments.directory)
    print(f"A sample class of {len({sample.student for sample in samples})} students is in {arguments.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
