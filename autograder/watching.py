"""Seeing which ready-made functions a kernel calls, and keeping what it does to its surroundings to itself."""

import contextlib
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
    targets: dict[Any, str] = {}
    for dotted in dotted_names:
        if (target := _resolve(dotted)) is not None:
            target = getattr(target, "forward", target)
            targets[getattr(target, "__code__", target)] = dotted

    def on_event(frame, event, argument):
        if event == "call":
            called = frame.f_code
        elif event == "c_call":
            called = argument
        else:
            return
        try:
            if called in targets:
                seen.add(targets[called])
        except TypeError:  # an unhashable callable is none of ours
            pass

    before = sys.getprofile()
    if targets:
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
    from torch.overrides import TorchFunctionMode

    class Operators(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = str(getattr(function, "__name__", "")).partition(".")[0]  # of torch.ops.aten.NAME.OVERLOAD too
            if name in operators and not any(other.endswith(f".{name}") for other in seen):
                seen.add(operators[name])
            return function(*args, **(kwargs or {}))

    return Operators()


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
def default_settings(put_back: bool = True) -> Iterator[None]:
    """Run a block under the default settings of NumPy and PyTorch, and undo what it changes.

    A notebook may have switched gradients off or made overflow an error; that must change no verdict. Undone are such
    settings, the states of the random generators, and functions of the modules ``SHARED`` that were replaced; not the
    functions without ``put_back``, which costs more than most kernels.
    """
    torch = sys.modules.get("torch")
    names = SHARED if put_back else ()
    shared = [(module, dict(vars(module))) for name in names if (module := sys.modules.get(name))]
    states = [(random.setstate, random.getstate())]
    if numpy_random := sys.modules.get("numpy.random"):
        states.append((numpy_random.set_state, numpy_random.get_state()))
    with contextlib.ExitStack() as stack:
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        if torch:
            states.append((torch.set_rng_state, torch.get_rng_state()))
            states.append((torch.set_default_dtype, torch.get_default_dtype()))
            torch.set_default_dtype(torch.float32)
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
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
