"""Handwritten digits for a Vision Transformer: pictures as tensors, training, models to compare it with, attention.

- ``load(number)``: the pictures of `lab.digits` as tensors ``(B, 1, 8, 8)``, all of them or few.
- ``new_model()``: an untrained Vision Transformer of the chapter's size. ``new_model(VisionTransformer)`` makes one
  of a class of your own.
- ``train(model, images, labels, steps)``: trains any model from pictures to logits; the loss of each step.
- ``accuracy(model, images, labels)``: the share that is read right.
- ``trained(kind)``: those that the chapter plots, trained once; ``KINDS`` names them.
- ``attention_maps(model, images)``: the weights of each layer, as `attention_rollout` takes them.
- ``show_weights(axes, image, weights)``: a picture with the weights of its patches over it.
- ``moved``, ``everywhere``, ``erased``, ``cut_by_view``, ``head_reads``: what is done to pictures, or to a model, in
  the chapter's experiments.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from autograder.reference.attention_layer import attention_weights
from autograder.reference.multi_head_attention import split_heads
from autograder.reference.vision_transformer import VisionTransformer, patchify, unpatchify
from lab import digits
from lab.trained import trained_once
from lab.training import fit

SIDE = digits.SIDE
SIZES = {
    "image_size": (SIDE, SIDE),
    "patch_size": 2,
    "num_channels": 1,
    "num_classes": digits.NUM_CLASSES,
    "d_model": 32,
    "num_heads": 4,
    "d_ff": 64,
    "num_layers": 2,
}
STEPS, BATCH, PEAK = 1500, 64, 8e-3
POSITION_STD = 0.2
SHORT = 250  # steps of a short run, for comparisons


class Pictures(NamedTuple):
    """Grey pictures ``(B, 1, 8, 8)`` from 0 (white) to 1 (black) and their digits; and those that are kept aside."""

    images: Tensor
    labels: Tensor
    images_test: Tensor
    labels_test: Tensor


def load(number: int | None = None) -> Pictures:
    """The digits. With a number, only so many are there to learn from; those kept aside are always the same 500."""
    data = digits.load()
    images, images_test = (
        torch.tensor(rows, dtype=torch.float32).view(-1, 1, SIDE, SIDE) for rows in (data.X, data.X_test)
    )
    return Pictures(images[:number], torch.tensor(data.labels)[:number], images_test, torch.tensor(data.labels_test))


def moved(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each picture moved by its own number of pixels, -1, 0 or 1 each way: white comes in, the edge goes out."""
    padded = F.pad(images, (1, 1, 1, 1))
    height, width = images.shape[-2:]
    picture = torch.arange(len(images))[:, None, None]
    rows = torch.arange(height)[:, None] + 1 - down[:, None, None]
    columns = torch.arange(width) + 1 - right[:, None, None]
    return padded.transpose(0, 1)[:, picture, rows, columns].transpose(0, 1)


def everywhere(images: Tensor) -> Tensor:
    """All pictures in all nine places that are at most one pixel away, place after place."""
    here = torch.ones(len(images), dtype=torch.long)
    return torch.cat([moved(images, down * here, right * here) for down in (-1, 0, 1) for right in (-1, 0, 1)])


def new_model(model_class: Callable[..., nn.Module] = VisionTransformer, seed: int = 0, **sizes) -> nn.Module:
    """An untrained Vision Transformer of the chapter's sizes, but for those that are given.

    Its positions are drawn larger than usual, with standard deviation ``POSITION_STD``. From 0.02, which suits a width
    of 768, so small a model needs longer to tell places apart.
    """
    torch.manual_seed(seed)
    model = model_class(**(SIZES | sizes))
    nn.init.normal_(model.positions, std=POSITION_STD)
    return model


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    steps: int = STEPS,
    reach: int = 1,
    lr: float = PEAK,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool = False,
) -> list[float]:
    """Train on pictures drawn at random, and return the loss of each step.

    Parameters
    ----------
    model
        From pictures ``(B, 1, H, W)`` to logits ``(B, 10)``.
    images, labels
        What is learned from.
    steps, batch, lr
        How many steps, of how many pictures, and the largest learning rate.
    reach
        With 1, each picture is moved by up to one pixel each way, anew whenever it is drawn; with 0 it stays.
    seed
        Of pictures and moves.
    progress
        Whether to print a line at each tenth of the steps.
    """
    generator = torch.Generator().manual_seed(seed)

    def next_loss() -> Tensor:
        chosen = torch.randint(len(images), (batch,), generator=generator)
        drawn = images[chosen]
        if reach:
            drawn = moved(drawn, *torch.randint(-reach, reach + 1, (2, batch), generator=generator))
        return F.cross_entropy(model(drawn), labels[chosen])

    return fit(model, next_loss, steps, lr, warm_up=steps // 10, max_norm=1.0, progress=progress)


@torch.no_grad()
def accuracy(model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> float:
    """The share of pictures whose largest logit is that of the label."""
    right = [model(part).argmax(-1) == of for part, of in zip(images.split(500), labels.split(500), strict=True)]
    return torch.cat(right).double().mean().item()


def head_reads(model: nn.Module, choose: Callable[[Tensor], Tensor]) -> RemovableHandle:
    """From now on the model's head reads the first token of ``choose(tokens)``, until ``remove()`` of what is returned.

    ``tokens`` is what the last block gives, the class token first.
    """
    return model.blocks[-1].register_forward_hook(lambda _, given, tokens: choose(tokens))


def cut_by_view(images: Tensor, patch_size: int) -> Tensor:
    """Pictures whose patches are what a mere ``view`` takes for the patches of ``images``: pixels in memory's order."""
    grid = (images.shape[-2] // patch_size, images.shape[-1] // patch_size)
    return unpatchify(images.reshape(len(images), grid[0] * grid[1], -1), grid, patch_size)


def _without_positions(**sizes) -> nn.Module:
    model = new_model(**sizes)
    nn.init.zeros_(model.positions)
    model.positions.requires_grad_(False)
    return model


def _cut_by_view(**sizes) -> nn.Module:
    model = new_model(**sizes)
    model.register_forward_pre_hook(lambda model, given: (cut_by_view(given[0], model.patch_size),))
    return model


def _mean_of_patches(**sizes) -> nn.Module:
    model = new_model(**sizes)
    head_reads(model, lambda tokens: tokens[:, 1:].mean(1, keepdim=True))
    return model


def _linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, digits.NUM_CLASSES))


def _perceptron(hidden: int = 242) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, hidden), nn.ReLU(), nn.Linear(hidden, digits.NUM_CLASSES))


def _convolutions(first: int = 30, second: int = 58) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(second * (SIDE // 4) ** 2, digits.NUM_CLASSES)),
    )


KINDS: dict[str, Callable[..., nn.Module]] = {
    "transformer": new_model,
    "without positions": _without_positions,
    "mean of patches": _mean_of_patches,
    "cut by view": _cut_by_view,
    "convolutions": _convolutions,
    "perceptron": _perceptron,
    "linear": _linear,
}


def build(kind: str, **sizes) -> nn.Module:
    """An untrained model of one of ``KINDS``."""
    torch.manual_seed(0)
    return KINDS[kind](**sizes)


def trained(
    kind: str = "transformer",
    steps: int = SHORT,
    reach: int = 0,
    number: int | None = None,
    lr: float = PEAK,
    **sizes,
) -> tuple[nn.Module, list[float]]:
    """A model of one of ``KINDS`` and the loss of each step of its training.

    In the repository it is trained once and kept; elsewhere it is trained now.

    Parameters
    ----------
    kind
        Which model.
    steps, reach, lr
        As in `train`.
    number
        How many pictures there are to learn from; all where it is None.
    sizes
        Sizes of a Vision Transformer that differ from ``SIZES``.
    """
    return trained_once(_build, _train, kind=kind, steps=steps, reach=reach, number=number, lr=lr, sizes=sizes)


def trained_model() -> tuple[nn.Module, list[float]]:
    """The chapter's Vision Transformer, trained on pictures that move by one pixel, and the loss of each step."""
    return trained(steps=STEPS, reach=1)


def _build(kind: str, sizes: dict[str, Any], **_) -> nn.Module:
    return build(kind, **sizes)


def _train(model: nn.Module, kind: str, sizes: dict[str, Any], steps: int, reach: int, number: int | None, lr: float):
    pictures = load(number)
    return train(model, pictures.images, pictures.labels, steps, reach, lr)


@torch.no_grad()
def attention_maps(model: nn.Module, images: Tensor) -> Tensor:
    """The attention weights ``(L, B, H, N, N)`` of all blocks, computed again from what goes into them.

    Token 0 is the class token, the others are the patches in reading order.
    """
    inputs = []
    hooks = [block.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for block in model.blocks]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([_weights(block.self_attn, x) for block, x in zip(model.blocks, inputs, strict=True)])


def _weights(layer: nn.Module, x: Tensor) -> Tensor:
    Q, K, _ = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    return attention_weights(split_heads(Q, layer.num_heads), split_heads(K, layer.num_heads))


def erased(images: Tensor, patches: Tensor, patch_size: int) -> Tensor:
    """Pictures in which some patches are white: ``patches`` holds their numbers, ``(B, any)``, in reading order."""
    grid = (images.shape[-2] // patch_size, images.shape[-1] // patch_size)
    cut = patchify(images, patch_size)
    cut = cut.scatter(1, patches[..., None].expand(-1, -1, cut.shape[-1]), 0.0)
    return unpatchify(cut, grid, patch_size)


def show_weights(axes, image: Tensor, weights: Tensor | None = None, title: str = "") -> None:
    """Draw a grey picture ``(1, H, W)`` on axes of Matplotlib, with the weights of its patches, if given, in colour.

    The weights are as many as the patches, in reading order, on a grid that is square. The darkest colour is the
    largest weight of the picture.
    """
    height, width = image.shape[-2:]
    frame = (0, width, height, 0)
    axes.imshow(image[0].numpy(), cmap="gray_r", vmin=0, vmax=1, extent=frame)
    if weights is not None:
        side = round(len(weights) ** 0.5)
        axes.imshow(weights.view(side, side).numpy(), cmap="Oranges", vmin=0, alpha=0.6, extent=frame)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=10)
    axes.grid(False)
    axes.spines[:].set(visible=True, color="0.75")
