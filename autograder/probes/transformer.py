"""How the kernels of "The Transformer" are exercised."""

from collections.abc import Callable

import torch

from autograder.case import Case
from autograder.probing import call_numpy, call_torch


def layer_norm(kernel, case):
    return call_torch(kernel, case, outputs=("normalised",))


def feed_forward(kernel, case):
    return call_torch(kernel, case, outputs=("output",))


def residual_add_norm(kernel, case):
    return call_torch(kernel, case, outputs=("normalised",))


def EncoderBlock(kernel, case):
    return _call_model(kernel, case, ("x", "key_mask"), outputs=("output",))


def DecoderBlock(kernel, case):
    return _call_model(kernel, case, ("x", "memory", "memory_key_mask"), outputs=("output",))


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
    """

    def call(*values):
        given = dict(zip(case.inputs, values, strict=True))
        called_with = tuple(given.pop(name) for name in arguments)
        model = build(**case.probe["sizes"]).train(case.probe.get("training", True))
        parameters = {prefix + name: value for name, value in given.items()}
        return torch.func.functional_call(model, parameters, called_with, strict=True)

    return call_torch(call, case, outputs)


def noam_learning_rate(kernel, case):
    return call_numpy(kernel, case, outputs=("learning_rate",))


def label_smoothing_loss(kernel, case):
    return call_torch(kernel, case, outputs=("loss",))
