"""Which kernels there are, and where: found by reading the rooms, so that no list is kept by hand."""

import ast
import difflib
import functools
import importlib
from pathlib import Path

from autograder.checking import Check

PROBES = Path(__file__).parent / "probes"


class UnknownKernel(LookupError):
    """No kernel of the course has this name; the message names the nearest ones."""


@functools.cache
def kernels() -> dict[str, str]:
    """Kernel name to chapter stem, read from the functions of ``probes/*.py`` without importing them."""
    found: dict[str, str] = {}
    for path in sorted(PROBES.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if node.name in found:
                    raise ValueError(
                        f"{path}:{node.lineno}: kernel {node.name!r} is also in chapter {found[node.name]!r}; "
                        "a kernel's name must be unique in the course."
                    )
                found[node.name] = path.stem
    return found


def stem_of(name: str) -> str:
    """The chapter of a kernel."""
    try:
        return kernels()[name]
    except KeyError:
        near = difflib.get_close_matches(str(name), kernels(), 3) or sorted(kernels())
        raise UnknownKernel(f"There is no kernel {name!r} in this course. Did you mean: {', '.join(near)}?") from None


@functools.cache
def checks(stem: str) -> dict[str, Check]:
    """The checks of a chapter by kernel name, in the order of the module that defines them."""
    module = importlib.import_module(f"autograder.checks.{stem}")
    return {value.name: value for value in vars(module).values() if isinstance(value, Check)}


def check_of(name: str) -> Check:
    """The check of a kernel."""
    return checks(stem_of(name))[name]
