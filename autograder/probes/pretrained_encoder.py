"""How the kernels of "A pretrained encoder" are exercised."""

import numpy as np
import torch

from autograder.case import Case
from autograder.probing import Unusable, call_torch, describe


def word_pieces(kernel, case):
    """Compares the pieces as their numbers in the vocabulary; -1 stands for a text that is no piece of it."""
    vocabulary = case.inputs["vocabulary"]

    def pieces(word, vocabulary_given, **options):
        returned = kernel(word, vocabulary_given, **options)
        if not isinstance(returned, list | tuple) or not all(isinstance(piece, str) for piece in returned):
            raise Unusable(f"The kernel should return a list of texts; it returned {describe(returned)}.")
        return torch.tensor([vocabulary.get(piece, -1) for piece in returned], dtype=torch.long)

    return call_torch(pieces, case, outputs=("pieces",))


def gelu(kernel, case):
    return call_torch(kernel, case, outputs=("activated",))


def BertBlock(kernel, case):
    return _call_model(kernel, case, ("x", "key_mask"), outputs=("output",))


def mean_pool(kernel, case):
    return call_torch(kernel, case, outputs=("mean",))


class _Parts(torch.nn.Module):
    """Calls each part of an encoder."""

    def __init__(self, encoder: torch.nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens, key_mask):
        return self.encoder.embed(tokens), self.encoder.states(tokens, key_mask), self.encoder(tokens, key_mask)


def SentenceEncoder(kernel, case):
    """Compares the texts' vectors and, where the case asks for it, what goes before them."""
    if case.probe.get("parts"):
        outputs = ("embedded", "states", "vectors")
        return _call_model(
            lambda **sizes: _Parts(kernel(**sizes)), case, ("tokens", "key_mask"), outputs, prefix="encoder."
        )
    return _call_model(kernel, case, ("tokens", "key_mask"), outputs=("vectors",))


def _call_model(build, case: Case, arguments: tuple[str, ...], outputs: tuple[str, ...], prefix: str = ""):
    """Build a model of the case's sizes and call it with the case's parameters in place of its own."""

    def call(*values):
        given = dict(zip(case.inputs, values, strict=True))
        called_with = tuple(given.pop(name) for name in arguments)
        parameters = {prefix + name: value for name, value in given.items()}
        return torch.func.functional_call(build(**case.probe["sizes"]), parameters, called_with, strict=True)

    return call_torch(call, case, outputs)


def rename_weights(kernel, case):
    """Compares each weight under the name that it should have, how many there are, and what is left of the file."""
    names = case.probe["names"]

    def rename(stored):
        before = set(stored)
        returned = kernel(stored, case.probe["num_layers"])
        if not isinstance(returned, dict):
            raise Unusable(f"The kernel should return a dict of weights; it returned {describe(returned)}.")
        for name in names:
            if name not in returned:
                raise Unusable(f"`{name}` is missing from what the kernel returned.")
        untouched = torch.tensor(set(stored) == before)
        return *(returned[name] for name in names), torch.tensor(len(returned)), untouched

    arrays = call_torch(rename, case, outputs=(*names, "number_of_weights", "stored_after"))
    return {name: np.array(array) for name, array in arrays.items()}


def most_similar(kernel, case):
    return call_torch(kernel, case, outputs=("indices", "similarities"))
