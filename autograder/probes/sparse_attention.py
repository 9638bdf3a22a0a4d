"""How the kernels of "Sparse attention" are exercised."""

import torch

from autograder.probing import Unusable, call_torch, describe


def local_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def strided_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def global_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def external_global_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output", "global_output"))


def longformer_attention(kernel, case):
    return call_torch(kernel, case, outputs=("attn_output",))


def sparse_pattern(kernel, case):
    return call_torch(kernel, case, outputs=("pattern",))


def pattern_reachability(kernel, case):
    """Takes a whole number, also as a tensor of no axes."""

    def layers(*arguments, **options):
        returned = kernel(*arguments, **options)
        number = returned.item() if isinstance(returned, torch.Tensor) and returned.ndim == 0 else returned
        if not isinstance(number, int) or isinstance(number, bool):
            raise Unusable(f"`layers` should be a whole number; the kernel returned {describe(returned)}.")
        return torch.tensor(number)

    return call_torch(layers, case, outputs=("layers",))
