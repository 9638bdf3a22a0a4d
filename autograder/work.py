"""Counting what a PyTorch computation does: multiply-adds, entries touched, and the largest tensor made."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

# A view in all but its schema: matmul ends in one.
VIEWS = {torch.ops.aten._unsafe_view}
MATRIX_VECTOR = {torch.ops.aten.mv, torch.ops.aten.addmv, torch.ops.aten.dot, torch.ops.aten.vdot}


@dataclass
class Work:
    """What a computation did.

    Parameters
    ----------
    multiply_adds
        Products that are summed count one each (``torch.utils.flop_counter`` counts two). An elementwise operation or a
        reduction counts one for each entry.
    entries
        Entries read and written, over all operations.
    largest
        Entries of the largest tensor that was made; a view makes none.
    """

    multiply_adds: int = 0
    entries: int = 0
    largest: int = 0


class Mode(TorchDispatchMode):
    """A mode that sees each operation of PyTorch, and does not load its compiler, which takes more than a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Counter(Mode):
    """A context that counts the work of the PyTorch operations in it, in ``work``."""

    def __init__(self):
        super().__init__()
        self.work = Work()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if not _is_view(function):
            given, made = _sizes((args, kwargs)), _sizes(result)
            self.work.multiply_adds += _multiply_adds(function, args, kwargs, result, given, made)
            self.work.entries += sum(given) + sum(made)
            self.work.largest = max(self.work.largest, *made, 0)
        return result


def count_work(function: Callable[[], Any]) -> Work:
    """Call a function without arguments and count the work of the PyTorch operations in it."""
    with Counter() as counter:
        function()
    return counter.work


def _sizes(tree: Any) -> list[int]:
    return [leaf.numel() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _is_view(function) -> bool:
    if function._overloadpacket in VIEWS:
        return True
    aliases = [returned.alias_info for returned in function._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _multiply_adds(function, args, kwargs, result, given: list[int], made: list[int]) -> int:
    packet = function._overloadpacket
    if packet in flop_registry:
        return math.ceil(flop_registry[packet](*args, **kwargs, out_val=result) / 2)
    if packet in MATRIX_VECTOR:
        return max(given)
    return max([*given, *made], default=0)
