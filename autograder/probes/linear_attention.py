"""How the kernels of "Linear attention" are exercised."""

from autograder.probing import call_numpy, call_torch


def matmul_cost(kernel, case):
    return call_numpy(kernel, case, outputs=("left_first", "right_first"))


def elu_features(kernel, case):
    return call_torch(kernel, case, outputs=("features",))


def linear_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def causal_linear_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def linear_attention_state(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output", "state", "key_sum"))


def orthogonal_projections(kernel, case):
    return call_torch(kernel, case, outputs=("projections",))


def performer_features(kernel, case):
    return call_torch(kernel, case, outputs=("features",))
