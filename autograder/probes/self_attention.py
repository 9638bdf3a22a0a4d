"""How the kernels of "Self-attention" are exercised."""

import dataclasses

import numpy as np
import torch
from torch.utils.flop_counter import flop_registry

from autograder.probing import Unusable, call_torch, describe
from autograder.work import Mode


def self_attention(kernel, case):
    """With ``case.probe["order"]``, compares what reordered tokens give with the reordered outputs as well."""
    arrays = call_torch(kernel, case, outputs=("attn_output",))
    if (order := case.probe.get("order")) is None:
        return arrays
    reordered = _with_X(case, case.inputs["X"][..., order, :])
    output_of_reordered = call_torch(kernel, reordered, outputs=("attn_output",))["attn_output"]
    return arrays | {"output_of_reordered_tokens": output_of_reordered}


def fused_qkv(kernel, case):
    """With ``case.probe["count_products"]``, counts the matrix products too."""
    if not case.probe.get("count_products"):
        return call_torch(kernel, case, outputs=("query", "key", "value"))
    with _ProductCounter() as counter:
        arrays = call_torch(kernel, case, outputs=("query", "key", "value"))
    return arrays | {"number_of_matrix_products": np.array(counter.products)}


def sinusoidal_positions(kernel, case):
    return call_torch(kernel, case, outputs=("encodings",))


def causal_mask(kernel, case):
    return call_torch(kernel, case, outputs=("attn_mask",))


def padding_mask(kernel, case):
    return call_torch(kernel, case, outputs=("key_mask",))


def masked_self_attention(kernel, case):
    """With ``case.probe["past"]``, a number of tokens, also asks how the later ones move the outputs of these.

    They are replaced by others, and the gradient of the earlier outputs for all tokens is taken.
    """
    arrays = call_torch(kernel, case, outputs=("attn_output",))
    if (past := case.probe.get("past")) is None:
        return arrays
    later = case.inputs["X"].copy()
    later[..., past:, :] = case.probe["later"]
    output = call_torch(kernel, _with_X(case, later), outputs=("attn_output",))["attn_output"]
    arrays["move_of_earlier_outputs"] = (output - arrays["attn_output"])[..., :past, :]

    def earlier_outputs(*arguments, **options):
        attn_output = kernel(*arguments, **options)
        if not isinstance(attn_output, torch.Tensor):
            raise Unusable(f"`attn_output` should be a torch.Tensor; the kernel returned {describe(attn_output)}.")
        return attn_output[..., :past, :]

    with_gradient = dataclasses.replace(case, gradient=("X",))
    arrays["grad_X"] = call_torch(earlier_outputs, with_gradient, outputs=("earlier_outputs",)).get("grad_X")
    return {name: array for name, array in arrays.items() if array is not None}


def _with_X(case, X):
    return dataclasses.replace(case, inputs={**case.inputs, "X": X})


class _ProductCounter(Mode):
    """Counts the matrix products, batched ones as one."""

    def __init__(self):
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.products += function._overloadpacket in flop_registry
        return function(*args, **(kwargs or {}))
