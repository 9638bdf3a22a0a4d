"""How the kernels of "Multi-head attention" are exercised."""

import numpy as np
import torch

from autograder.probing import call_numpy, call_torch
from autograder.work import Mode

PARAMETERS = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
MATRIX_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear"}


def split_heads(kernel, case):
    return call_torch(kernel, case, outputs=("heads",))


def merge_heads(kernel, case):
    return call_torch(kernel, case, outputs=("merged",))


def MultiHeadAttention(kernel, case):
    """Builds the layer and calls it with the parameters of the case in place of its own."""

    def layer(query, key, value, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias, attn_mask, key_mask):
        built = kernel(query.shape[-1], case.probe["num_heads"])
        given = (in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias)
        parameters = dict(zip(PARAMETERS, given, strict=True))
        return torch.func.functional_call(built, parameters, (query, key, value, attn_mask, key_mask), strict=True)

    # Where query, key and value are one sequence, they are one tensor, as they are in a model.
    if case.probe.get("self"):
        return call_torch(lambda tokens, *rest: layer(tokens, tokens, tokens, *rest), case, outputs=("attn_output",))
    return call_torch(layer, case, outputs=("attn_output",))


class _MatrixProducts(Mode):
    """Counts the matrix products in a block."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function._overloadpacket._qualified_op_name.removeprefix("aten::") in MATRIX_PRODUCTS
        return function(*args, **(kwargs or {}))


def attention_as_four_matmuls(kernel, case):
    """Compares the output and, where the case asks for it, the number of matrix products."""
    if not case.probe.get("count"):
        return call_torch(kernel, case, outputs=("attn_output",))
    with _MatrixProducts() as products:
        arrays = call_torch(kernel, case, outputs=("attn_output",))
    return {"matrix_products": np.array(products.count)} | arrays


def attention_flops(kernel, case):
    return call_numpy(kernel, case, outputs=("flops",))


def attention_memory(kernel, case):
    return call_numpy(kernel, case, outputs=("size_in_bytes",))


def path_length(kernel, case):
    return call_numpy(kernel, case, outputs=("steps",))
