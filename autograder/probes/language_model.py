"""How the kernels of "Language models" are exercised."""

import torch

from autograder.probing import Unusable, call_torch, describe


def next_token_loss(kernel, case):
    return call_torch(kernel, case, outputs=("loss",))


def perplexity(kernel, case):
    return call_torch(kernel, case, outputs=("perplexity",))


def KVCache(kernel, case):
    """Hands keys and values over in chunks; compares what comes back after each, and the length.

    With ``other_keys`` and ``other_values`` a second cache, as of another layer, is filled in turn.
    """
    chunks = case.probe["chunks"]

    def fill(*tensors):
        layers = [tensors[:2], tensors[2:]] if len(tensors) > 2 else [tensors]
        caches = [kernel(case.probe["max_length"]) for _ in layers]
        results, start = [], 0
        for length in chunks:
            for cache, layer in zip(caches, layers, strict=True):
                returned = cache.append(*(tensor[..., start : start + length, :] for tensor in layer))
                if not isinstance(returned, tuple | list) or len(returned) != 2:
                    raise Unusable(f"`append` should return all keys and all values; it returned {describe(returned)}.")
                results += [*returned, _length(cache)]
            start += length
        return results

    of_layers = ("", "other_") if "other_keys" in case.inputs else ("",)
    outputs = [
        f"{layer}{name}_of_call_{number}"
        for number in range(1, len(chunks) + 1)
        for layer in of_layers
        for name in ("keys", "values", "length")
    ]
    return call_torch(fill, case, outputs)


def _length(cache):
    length = getattr(cache, "length", None)
    if isinstance(length, bool) or not isinstance(length, int):
        raise Unusable(f"`length` of the cache should be a whole number; it is {describe(length)}.")
    return torch.tensor(length)


class _Past:
    """Stands in for a cache: it holds the keys and values of earlier tokens, and notes those of the new ones."""

    def __init__(self, keys, values):
        self.keys, self.values, self.length = keys, values, keys.shape[-2]
        self.appended = None

    def append(self, keys, values):
        if self.appended is not None:
            raise RuntimeError(
                "cache.append was called twice; call it once, with the keys and values of all new tokens."
            )
        for name, new, old in (("keys", keys, self.keys), ("values", values, self.values)):
            if new.shape[:-2] != old.shape[:-2] or new.shape[-1] != old.shape[-1]:
                wanted = f"({', '.join(map(str, old.shape[:-2]))}, token, {old.shape[-1]})"
                raise ValueError(f"cache.append takes {name} of shape {wanted}; it was given {tuple(new.shape)}.")
        self.appended = keys, values
        self.length += keys.shape[-2]
        return torch.cat([self.keys, keys], -2), torch.cat([self.values, values], -2)


def CausalBlock(kernel, case):
    """Builds a block, calls it with the case's parameters and, where the case has a past, with that as its cache.

    Its ``training`` says for each call whether the block is being trained; the last call counts.
    """
    *before, training = case.probe.get("training", [True])

    def call(x, past_keys, past_values, *parameters):
        block = kernel(**case.probe["sizes"])
        named = dict(zip(list(case.inputs)[3:], parameters, strict=True))
        for mode in before:
            torch.func.functional_call(block.train(mode), named, (x,), strict=True)
        block.train(training)
        if past_keys is None:
            return torch.func.functional_call(block, named, (x,), strict=True)
        past = _Past(past_keys, past_values)
        output = torch.func.functional_call(block, named, (x, past), strict=True)
        if past.appended is None:
            raise Unusable("The block was given a cache and did not call its `append`.")
        return output, *past.appended

    with_past = case.inputs["past_keys"] is not None
    outputs = ("output", "appended_keys", "appended_values") if with_past else ("output",)
    return call_torch(call, case, outputs)


def sample_temperature(kernel, case):
    return call_torch(kernel, case, outputs=("tokens",))


def top_k_filter(kernel, case):
    return call_torch(kernel, case, outputs=("filtered",))


def top_p_filter(kernel, case):
    return call_torch(kernel, case, outputs=("filtered",))
