"""Seeing which ready-made functions a kernel calls, and keeping what it does to its surroundings to itself."""

import contextlib
import functools
import operator
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Modules whose functions are put back where a kernel replaced them.
SHARED = ("builtins", "math", "numpy", "numpy.linalg", "torch", "torch.nn.functional")


@contextlib.contextmanager
def watching(dotted_names: Sequence[str]) -> Iterator[set[str]]:
    """Collect which of the named functions, classes' ``forward`` included, are called in the block.

    A call is seen however the function was reached: by another name, ``getattr``, ``functools.partial``, a lambda, and,
    for an operator of PyTorch, as ``torch.ops.aten.NAME`` or ``torch._C._nn.NAME`` too. Not seen: a call in another
    thread, by other code of the same effect, or after the kernel has switched the watching off. So no call seen is no
    proof that there was none; a call seen is one.
    """
    seen: set[str] = set()
    in_python: dict[int, tuple[Any, str]] = {}  # by the id of the code, whose hash takes long
    in_c: dict[Any, str] = {}
    for dotted in dotted_names:
        if (target := _resolve(dotted)) is not None:
            target = getattr(target, "forward", target)
            if hasattr(target, "__code__"):
                in_python[id(target.__code__)] = target.__code__, dotted
            else:
                in_c[target] = dotted

    def on_event(frame, event, argument):
        if event == "call":
            if id(frame.f_code) in in_python:
                seen.add(in_python[id(frame.f_code)][1])
        elif event == "c_call":
            try:
                if argument in in_c:
                    seen.add(in_c[argument])
            except TypeError:  # an unhashable callable is none of ours
                pass

    before = sys.getprofile()
    if in_python or in_c:
        sys.setprofile(on_event)
    try:
        with _operators_watched(dotted_names, seen):
            yield seen
    finally:
        if hasattr(before, "enable"):  # cProfile, as by %prun: an object that setprofile does not take back
            before.enable()
        else:
            sys.setprofile(before)


def _operators_watched(dotted_names: Sequence[str], seen: set[str]) -> contextlib.AbstractContextManager:
    """PyTorch's own hook for calls of its operators, by their short names, where one of them is watched."""
    operators = {
        name.rpartition(".")[2]: name
        for name in reversed(dotted_names)
        if name.startswith("torch.") and not isinstance(_resolve(name), type)  # a module class is no operator
    }
    if not operators or "torch" not in sys.modules:
        return contextlib.nullcontext()
    return _operators()(operators, seen)


@functools.cache
def _operators() -> type:
    """The mode that sees PyTorch's operators, a class that can be made only where PyTorch is loaded."""
    from torch.overrides import TorchFunctionMode

    names: dict[Any, str] = {}  # short names; this runs for each operation, and under the profiler

    class Operators(TorchFunctionMode):
        def __init__(self, operators: dict[str, str], seen: set[str]):
            super().__init__()
            self.operators, self.seen = operators, seen

        def __torch_function__(self, function, types, args=(), kwargs=None):
            try:
                name = names[function]
            except KeyError:
                name = names[function] = _short_name(function)
            except TypeError:  # a function that is unhashable
                name = _short_name(function)
            if name in self.operators and not any(other.endswith(f".{name}") for other in self.seen):
                self.seen.add(self.operators[name])
            return function(*args, **kwargs) if kwargs else function(*args)

    return Operators


def _short_name(function: Any) -> str:
    """The name of an operator, in ``torch.ops.aten.NAME.OVERLOAD`` too."""
    return str(getattr(function, "__name__", "")).partition(".")[0]


def _resolve(dotted: str) -> Any:
    """The object behind a dotted name, or None where its module was never loaded."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        if (found := sys.modules.get(".".join(parts[:cut]))) is not None:
            for part in parts[cut:]:
                found = getattr(found, part, None)
            return found
    return None


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """Run a block under the default settings of NumPy and PyTorch, and undo what it changes of them.

    A notebook may have switched gradients off or made overflow an error; that must change no verdict.
    """
    torch = sys.modules.get("torch")
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        if not torch:
            yield
            return
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            torch.set_default_dtype(dtype)


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """Undo what a block does to the random generators and, by replacing functions, to the modules ``SHARED``."""
    shared = [(module, dict(vars(module))) for name in SHARED if (module := sys.modules.get(name))]
    states = [(random.setstate, random.getstate())]
    if numpy_random := sys.modules.get("numpy.random"):
        states.append((numpy_random.set_state, numpy_random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    try:
        yield
    finally:
        for module, names in shared:
            now = vars(module)
            if len(now) == len(names) and all(map(operator.is_, now.values(), names.values())):
                continue
            for name, value in names.items():
                if now.get(name) is not value:
                    setattr(module, name, value)
        for restore, state in states:
            restore(state)


def seed() -> None:
    """Put the random generators in one state, which takes a tenth of the time of putting them back in theirs."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
