"""How the kernels of "The modern Transformer" are exercised."""

import contextlib
from collections.abc import Sequence

import numpy as np
import torch

from autograder.case import Case
from autograder.probing import Unusable, call_torch, describe
from autograder.work import Counter


def PreNormBlock(kernel, case):
    return _call_module(kernel, case, ("x", "attn_mask"), outputs=("output",))


def rms_norm(kernel, case):
    return call_torch(kernel, case, outputs=("normalised",))


def swiglu(kernel, case):
    return call_torch(kernel, case, outputs=("output",))


def rotary_embedding(kernel, case):
    """Rotates or, where there are queries and keys, takes their scores: as they stand, and all moved by ``shift``."""
    if "query" not in case.inputs:
        return call_torch(kernel, case, outputs=("rotated",))

    def scores(query, key, query_positions, key_positions, **options):
        return tuple(
            kernel(query, query_positions + shift, **options) @ kernel(key, key_positions + shift, **options).mT
            for shift in (0, case.probe["shift"])
        )

    return call_torch(scores, case, outputs=("scores", "scores_further_on"))


def grouped_query_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def moe_route(kernel, case):
    """Compares those of the four results that the case names."""
    compared = case.probe["compared"]

    def route(*arguments):
        return _chosen(kernel(*arguments), ("gates", "experts", "kept", "loss"), compared)

    return call_torch(route, case, compared)


def MoELayer(kernel, case):
    """Compares those of the two results that the case names and, where it counts work, the multiply-adds of a call."""
    return _call_module(kernel, case, ("x",), outputs=("output", "loss"))


def _call_module(kernel, case: Case, arguments: tuple[str, ...], outputs: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Build a module of the case's sizes and call it with the case's parameters in place of its own.

    What the case gives is the module's arguments, by their names, and its parameters, by the names of its state dict.
    Its ``training`` says for each call whether the module is being trained; the last call counts. ``compared`` names
    the outputs that are compared, all by default.
    """
    *before, training = case.probe.get("training", [True])
    compared = case.probe.get("compared", outputs)
    counter = Counter() if case.probe.get("count_multiply_adds") else None

    def call(*values):
        given = dict(zip(case.inputs, values, strict=True))
        called_with = tuple(given.pop(name) for name in arguments)
        module = kernel(**case.probe["sizes"])
        for mode in before:
            torch.func.functional_call(module.train(mode), given, called_with, strict=True)
        with counter or contextlib.nullcontext():
            returned = torch.func.functional_call(module.train(training), given, called_with, strict=True)
        return _chosen(returned, outputs, compared)

    arrays = call_torch(call, case, compared)
    return arrays | ({"work_multiply_adds": np.array(counter.work.multiply_adds)} if counter else {})


def _chosen(returned, outputs: tuple[str, ...], compared: Sequence[str]):
    """Those of a kernel's outputs that are compared."""
    if len(outputs) == 1:
        return returned
    if not isinstance(returned, tuple | list) or len(returned) != len(outputs):
        raise Unusable(f"The kernel should return {', '.join(outputs)}; it returned {describe(returned)}.")
    chosen = tuple(returned[outputs.index(name)] for name in compared)
    return chosen if len(chosen) > 1 else chosen[0]
