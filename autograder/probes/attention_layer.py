"""How the kernels of "Attention as a layer" are exercised."""

from autograder.probing import call_numpy, call_torch


def similarity(kernel, case):
    return call_torch(kernel, case, outputs=("scores",))


def attention_weights(kernel, case):
    return call_torch(kernel, case, outputs=("attn_weights",))


def scaled_dot_product_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def cross_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def attention_backward(kernel, case):
    """Compares all three gradients, or the one that ``case.probe["only"]`` names, so that each earns its own points."""
    arrays = call_numpy(kernel, case, outputs=("grad_query", "grad_key", "grad_value"))
    only = case.probe.get("only")
    return {name: array for name, array in arrays.items() if only in (None, name) or name.endswith("_after")}
