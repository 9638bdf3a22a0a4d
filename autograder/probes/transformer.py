"""How the kernels of "The Transformer" are exercised."""

from collections.abc import Callable

import numpy as np
import torch

from autograder.case import Case
from autograder.probing import call_numpy, call_torch


def layer_norm(kernel, case):
    return call_torch(kernel, case, outputs=("normalised",))


def feed_forward(kernel, case):
    return call_torch(kernel, case, outputs=("output",))


def residual_add_norm(kernel, case):
    return _results(call_torch(kernel, case, outputs=("normalised",)), "normalised", case)


def EncoderBlock(kernel, case):
    return _results(_call_model(kernel, case, ("x", "key_mask"), outputs=("output",)), "output", case)


def DecoderBlock(kernel, case):
    arguments = ("x", "memory", "memory_key_mask")
    return _results(_call_model(kernel, case, arguments, outputs=("output",)), "output", case)


MOST_RESULTS = 64


def _results(arrays: dict[str, np.ndarray], name: str, case: Case) -> dict[str, np.ndarray]:
    """The arrays of a call; where the case says ``equal_tokens``, the different tokens of an output in its place.

    Dropout makes different ones of many equal tokens: at random, but each of a few that can be told beforehand. They
    come in an order of their own. Of more than ``MOST_RESULTS`` it is only said that they are too many.
    """
    if not case.probe.get("equal_tokens"):
        return arrays
    output = arrays.pop(name)
    rest, results = output.reshape(-1, output.shape[-1] if output.ndim else 1), []
    while len(rest) and len(results) <= MOST_RESULTS:
        results.append(rest[0])
        rest = rest[np.abs(rest - rest[0]).max(axis=1) > 1e-6]
    found = {"number_of_different_results": np.array(len(results))}
    if len(results) <= MOST_RESULTS:
        different = np.array(results)
        order = np.argsort(different @ np.cos(np.arange(different.shape[1])))
        found["different_results"] = different[order]
    return found | arrays


class _Halves(torch.nn.Module):
    """Calls the two halves of a Transformer one after the other."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, source, target_in, key_mask):
        memory = self.model.encode(source, key_mask)
        return memory, self.model.decode(target_in, memory, key_mask)


def Transformer(kernel, case):
    """Calls the model itself or, where the case asks for it, its two halves."""
    arguments = ("source", "target_in", "key_mask")
    if case.probe.get("halves"):
        outputs = ("memory", "logits")
        return _call_model(lambda **sizes: _Halves(kernel(**sizes)), case, arguments, outputs, prefix="model.")
    return _call_model(kernel, case, arguments, outputs=("logits",))


def _call_model(build: Callable, case: Case, arguments: tuple[str, ...], outputs: tuple[str, ...], prefix: str = ""):
    """Build a model of the case's sizes and call it with the case's parameters in place of its own.

    What the case gives is the model's arguments, by their names, and its parameters, by the names of its state dict.
    Its ``training`` says for each call whether the model is being trained; the last call counts.
    """
    *before, training = case.probe.get("training", [True])

    def call(*values):
        given = dict(zip(case.inputs, values, strict=True))
        called_with = tuple(given.pop(name) for name in arguments)
        model = build(**case.probe["sizes"])
        parameters = {prefix + name: value for name, value in given.items()}
        for mode in before:
            torch.func.functional_call(model.train(mode), parameters, called_with, strict=True)
        return torch.func.functional_call(model.train(training), parameters, called_with, strict=True)

    return call_torch(call, case, outputs)


def noam_learning_rate(kernel, case):
    return call_numpy(kernel, case, outputs=("learning_rate",))


def label_smoothing_loss(kernel, case):
    return call_torch(kernel, case, outputs=("loss",))
