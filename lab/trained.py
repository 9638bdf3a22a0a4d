"""Models that more than one chapter needs are trained once, and their weights are kept.

Inside the repository's folder, which has a place for what is made, weights are kept there, named after all that they
depend on: the arguments, PyTorch's version, and the code of our modules. Anywhere else nothing is kept, and a model is
trained whenever it is asked for.
"""

import ast
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lab", "autograder")


def trained_once(build: Callable[..., nn.Module], train: Callable[..., Any], *, root: Path = ROOT, **arguments):
    """A model and what its training returned, from the store if both are there, else trained now and stored.

    Parameters
    ----------
    build
        Makes the model, untrained: ``build(**arguments)``. It seeds its own random numbers.
    train
        Trains the model: ``train(model, **arguments)``. What it returns is kept with the weights, so it must be
        numbers, strings, tensors, or lists and dictionaries of them.
    root
        The repository. Where it has no folder ``_build``, nothing is stored.
    arguments
        What both functions take; JSON must be able to hold them.
    """
    from filelock import FileLock  # a package that PyTorch itself needs

    model = build(**arguments)
    if not (root / "_build").is_dir():
        return model, train(model, **arguments)
    folder = root / "_build" / "cache" / "trained"
    folder.mkdir(parents=True, exist_ok=True)
    asked = _digest([_name(build), _name(train), arguments])
    with FileLock(folder / f"{asked}.lock"):
        # Inside the lock, for two threads that parse at once can break Python 3.11's parser (CPython issue 106905).
        place = folder / f"{asked}-{_digest([torch.__version__, *_code(build, train)])}.pt"
        if place.exists():
            kept = torch.load(place, weights_only=True)
            model.load_state_dict(kept["weights"])
            return model, kept["returned"]
        returned = train(model, **arguments)
        partial = place.with_suffix(".partial")
        torch.save({"weights": model.state_dict(), "returned": returned}, partial)
        for outdated in folder.glob(f"{asked}-*.pt"):
            outdated.unlink()
        os.replace(partial, place)
    return model, returned


def _name(function: Callable) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _digest(parts: list) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _code(*functions: Callable) -> list[str]:
    """The code of our modules that the functions depend on, but not of this one."""
    files = _sources({function.__module__ for function in functions}) - {Path(__file__)}
    return [_statements(path) for path in sorted(files)]


def _statements(path: Path) -> str:
    """What a file's code does: its syntax tree, without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            del node.body[0]
    return ast.dump(tree)


def _sources(modules: set[str]) -> set[Path]:
    """The files of modules and of those of our packages that they import, directly or through each other."""
    found: set[Path] = set()
    waiting = set(modules)
    while waiting:
        spec = importlib.util.find_spec(waiting.pop())
        path = Path(spec.origin)
        if path not in found:
            found.add(path)
            package = spec.name if spec.submodule_search_locations else spec.parent
            waiting |= set(_imported(ast.parse(path.read_text(encoding="utf-8")), package))
    return found


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """The modules of our packages that the imports of a syntax tree name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in PACKAGES and _is_module(name))


def _is_module(name: str) -> bool:
    """Whether a dotted name is a module's, and not that of something inside one."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
