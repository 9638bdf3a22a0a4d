"""How the kernels of "Vision Transformers" are exercised."""

import torch

from autograder.probing import call_torch


def patchify(kernel, case):
    return call_torch(kernel, case, outputs=("patches",))


def unpatchify(kernel, case):
    def call(patches, grid, patch_size):
        return kernel(patches, tuple(grid), patch_size)

    return call_torch(call, case, outputs=("images",))


def class_token(kernel, case):
    return call_torch(kernel, case, outputs=("tokens",))


def learned_position_embedding(kernel, case):
    def call(table, grid, new_grid):
        return kernel(table, tuple(grid), tuple(new_grid))

    return call_torch(call, case, outputs=("new_table",))


def VisionTransformer(kernel, case):
    """Builds a model of the case's sizes and calls it with the case's parameters in place of its own.

    What the case gives is the images, and the model's parameters by the names of its state dict. Its ``training`` says
    for each call whether the model is being trained; the last call counts.
    """
    *before, training = case.probe.get("training", [True])
    sizes = case.probe["sizes"]

    def call(images, *parameters):
        model = kernel(**sizes | {"image_size": tuple(sizes["image_size"])})
        named = dict(zip(list(case.inputs)[1:], parameters, strict=True))
        for mode in before:
            torch.func.functional_call(model.train(mode), named, (images,), strict=True)
        return torch.func.functional_call(model.train(training), named, (images,), strict=True)

    return call_torch(call, case, outputs=("logits",))


def attention_rollout(kernel, case):
    return call_torch(kernel, case, outputs=("rollout",))
