"""The untrusted side: run a kernel on one case and return named arrays.

Nothing here knows an answer. The same functions run with the student's kernel and with the reference.
"""

import builtins
import contextlib
import importlib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.case import Case
from autograder.lazy import torch
from autograder.watching import default_settings, put_back, seed, watching

REFUSED = "refused"  # the array of a case that is to be refused
PRINT_LIMIT = 2_000
TRACEBACK_LIMIT = 4_000


@dataclass(frozen=True)
class Fault:
    """Why a run gave no arrays. ``kind`` is one of ``KINDS``; the texts come from the student's side.

    Parameters
    ----------
    kind
        "raised", "unusable" (a return value that is not what the contract says), "missing", "stopped", "crashed".
    text
        One sentence for the student.
    exception
        Name of the exception's class where one was raised.
    line
        Line in the student's cell, counted from 1, where one is known.
    details
        The traceback.
    """

    KINDS = ("raised", "unusable", "missing", "stopped", "crashed")

    kind: str
    text: str
    exception: str = ""
    line: int | None = None
    details: str = ""

    @property
    def is_placeholder(self) -> bool:
        """Whether the kernel ended in ``raise NotImplementedError``; PyTorch's own names a dtype that it lacks."""
        return self.exception == "NotImplementedError" and "not implemented for '" not in self.text


@dataclass(frozen=True)
class Outcome:
    """What one run of a kernel gave: named arrays, or the fault that kept them away."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    fault: Fault | None = None
    watched: tuple[str, ...] = ()
    printed: str = ""


class Unusable(Exception):
    """The kernel returned something that its contract does not allow; the message says what."""


class _Printed(io.TextIOBase):
    """Keeps the beginning of what is printed."""

    def __init__(self):
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text[: PRINT_LIMIT - len(self.text)]
        return len(text)


@contextlib.contextmanager
def _memory_limit(megabytes: int | None):
    """Let this process take only so much more memory; its own limit stays where it is lower, or is not enforced."""
    if megabytes is None or not os.path.exists("/proc/self/statm"):
        yield
        return
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as pages:
        taken = int(pages.read().split()[0]) * resource.getpagesize()
    limits = [limit for limit in (taken + (megabytes << 20), soft) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _nothing_printed():
    """Let ``print`` do nothing where its text would be dropped; to make that of a tensor takes longer than a kernel."""
    dropped = sys.stdout, sys.stderr
    before = builtins.print

    def print_elsewhere(*values, file=None, **options):
        if (sys.stdout if file is None else file) not in dropped:
            before(*values, file=file, **options)

    builtins.print = print_elsewhere
    try:
        yield
    finally:
        builtins.print = before


def run_probe(stem: str, name: str, kernel: Callable, case: Case, sandboxed: bool = False) -> Outcome:
    """Run the probe of the kernel ``name`` of chapter ``stem`` on one case; never raises for what the kernel does.

    What the kernel does to random generators and to shared modules is undone. Where it is ``sandboxed``, that is left
    to its process's end, and neither a traceback nor what it prints is kept: each takes longer than most kernels.

    An interrupt from the keyboard alone goes on. Where the case is to be refused, the one array is ``refused``: whether
    the kernel raised an error, whichever; a placeholder's is none.
    """
    probe = getattr(importlib.import_module(f"autograder.probes.{stem}"), name)
    printed = _Printed()
    arrays, fault = {}, None
    if sandboxed:
        seed()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(),
        _nothing_printed() if sandboxed else put_back(),
        default_settings(),
        _memory_limit(case.memory_mb),
        watching(case.watch) as watched,
    ):
        warnings.simplefilter("ignore")
        try:
            arrays = probe(kernel, case)
        except Unusable as error:
            fault = Fault("unusable", str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and its like too
            fault = _raised(kernel, error, traced=not sandboxed)
    if case.refused and not (fault and (fault.is_placeholder or fault.exception == "SystemExit")):
        refused = fault is not None and fault.kind == "raised"
        arrays, fault = {REFUSED: np.array(refused)}, None
    return Outcome(arrays, fault, tuple(sorted(watched)), printed.text)


def _raised(kernel: Callable, error: BaseException, traced: bool) -> Fault:
    """A fault that names the exception and the line of the student's own code that it came through last."""
    code = getattr(getattr(kernel, "forward", kernel), "__code__", None)
    frames = traceback.walk_tb(error.__traceback__)
    own = [line for frame, line in frames if code and frame.f_code.co_filename == code.co_filename]
    try:
        text = str(error)
    except Exception:  # an exception of the student's own, whose text cannot be made
        text = ""
    name = type(error).__name__
    return Fault(
        "raised",
        f"{name}: {text}"[:PRINT_LIMIT] if text else name,
        name,
        own[-1] if own else None,
        "".join(traceback.format_exception(error))[-TRACEBACK_LIMIT:] if traced else "",
    )


def call_numpy(kernel: Callable, case: Case, outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Call a NumPy kernel once; its outputs by name, and ``NAME_after`` for each array that it was given."""
    given = {name: _as_array(value, case) for name, value in case.inputs.items()}
    options = {name: _as_array(value, case) for name, value in case.options.items()}
    with _between_other_calls(kernel, case, _as_array):
        returned = kernel(*given.values(), **options)
    results = _as_tuple(returned, outputs)
    arrays = {name: _from_numpy(name, value) for name, value in zip(outputs, results, strict=True)}
    return arrays | _after(given, np.ndarray, np.asarray)


def call_torch(kernel: Callable, case: Case, outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Call a PyTorch kernel once; outputs by name, ``NAME_after`` for each tensor given, ``grad_NAME`` where asked.

    Where the case counts work, ``work_largest`` is the number of entries of the largest tensor that the kernel made,
    and ``work_multiply_adds`` that of its multiply-adds.
    The gradient is that of the sum of all outputs, each entry weighted by a fixed number of its own.
    """
    given = {name: _as_tensor(value, case) for name, value in case.inputs.items()}
    options = {name: _as_tensor(value, case) for name, value in case.options.items()}
    for name in case.gradient:
        given[name].requires_grad_()
    with _between_other_calls(kernel, case, _as_tensor), _counting(case.count_work) as counted:
        returned = kernel(*given.values(), **options)
    for name, value in given.items():
        if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad != (name in case.gradient):
            raise Unusable(f"The kernel changed `requires_grad` of its argument `{name}`. Leave that to the caller.")
    results = _as_tuple(returned, outputs)
    arrays = {name: _from_torch(name, value) for name, value in zip(outputs, results, strict=True)} | counted
    arrays |= _after(given, torch.Tensor, lambda tensor: tensor.detach().numpy())
    return arrays | gradients(
        dict(zip(outputs, results, strict=True)),
        {name: given[name] for name in case.gradient},
    )


@contextlib.contextmanager
def _between_other_calls(kernel: Callable, case: Case, convert: Callable):
    """Call the kernel before and after the block too, on the same numbers in another order, where the case says so.

    A kernel that keeps something from call to call, or hands out the same memory twice, gives itself away.
    """

    def call():
        other = [convert(_reversed(value), case) for value in case.inputs.values()]
        options = {name: convert(_reversed(value), case) for name, value in case.options.items()}
        kernel(*other, **options)

    if case.repeated:
        call()
    yield
    if case.repeated:
        call()


def _reversed(value: Any) -> Any:
    return np.flip(value).copy() if isinstance(value, np.ndarray) else value


@contextlib.contextmanager
def _counting(wanted: bool):
    """Yield a dict that holds what was counted once the block has ended, where that is wanted."""
    counted: dict[str, np.ndarray] = {}
    if not wanted:
        yield counted
        return
    from autograder.work import Counter

    with Counter() as counter:
        yield counted
    counted["work_largest"] = np.array(counter.work.largest)
    counted["work_multiply_adds"] = np.array(counter.work.multiply_adds)


def gradients(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """``grad_NAME`` for each input that a gradient reaches; an input that none reaches is left out."""
    differentiable = [value for value in outputs.values() if value.requires_grad]
    if not inputs or not differentiable:
        return {}
    loss = sum((value * cotangent(value)).sum() for value in differentiable)
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True)
    return {
        f"grad_{name}": gradient.numpy() for name, gradient in zip(inputs, found, strict=True) if gradient is not None
    }


def cotangent(value):
    """Fixed weights in [-1, 1], different from entry to entry, of the shape and dtype of ``value``."""
    return torch.cos(torch.arange(1, value.numel() + 1, dtype=torch.float64)).reshape(value.shape).to(value.dtype)


def _as_array(value: Any, case: Case) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    array = value.astype(case.dtype) if value.dtype.kind == "f" else value.copy()
    if case.strided and array.ndim:
        spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        spread[..., ::2] = array
        return spread[..., ::2]
    return array


def _as_tensor(value: Any, case: Case) -> Any:
    if isinstance(value, dict):
        return {name: _as_tensor(item, case) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_tensor(item, case) for item in value]
    array = _as_array(value, case)
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def _after(given: Mapping[str, Any], kind: type, to_array: Callable) -> dict[str, np.ndarray]:
    return {f"{name}_after": np.array(to_array(value)) for name, value in given.items() if isinstance(value, kind)}


def _as_tuple(returned: Any, outputs: Sequence[str]) -> tuple:
    if len(outputs) == 1:
        return (returned,)
    if not isinstance(returned, tuple | list) or len(returned) != len(outputs):
        got = f"{len(returned)} values" if isinstance(returned, tuple | list) else describe(returned)
        raise Unusable(f"The kernel should return {len(outputs)} values, {', '.join(outputs)}; it returned {got}.")
    return tuple(returned)


def _from_numpy(name: str, value: Any) -> np.ndarray:
    # Matrices and masked arrays, which are subclasses of arrays, are none of ours: they compute by rules of their own.
    plain = type(value) is np.ndarray or isinstance(value, np.generic | float | int | bool)
    if plain and np.asarray(value).dtype.kind in "fiub":
        return np.array(value)
    raise Unusable(f"`{name}` should be a NumPy array of numbers; the kernel returned {describe(value)}.")


def _from_torch(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        raise Unusable(f"`{name}` should be a torch.Tensor; the kernel returned {describe(value)}.")
    try:
        return np.array(value.detach().resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise Unusable(
            f"`{name}` is a tensor of a kind that cannot be compared ({value.dtype}, {value.layout})."
        ) from error


def describe(value: Any) -> str:
    """A value in a few words, for messages: its type, and the shape of an array or the length of a collection."""
    if value is None:
        return "None (is a `return` missing?)"
    kind = type(value).__name__
    if hasattr(value, "shape"):
        return f"a {kind} of shape {tuple(value.shape)} and dtype {getattr(value, 'dtype', '?')}"
    return f"a {kind} of length {len(value)}" if hasattr(value, "__len__") else f"a {kind}"
