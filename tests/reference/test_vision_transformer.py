"""The kernels of "Vision Transformers" against PyTorch's own operators and plain loops."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference import vision_transformer as reference

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape)).requires_grad_()


def assert_same(given, wanted, leaves, other_leaves=None):
    """Equal in value and in the gradients of a sum with weights that differ."""
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    weights = torch.cos(torch.arange(given.numel(), dtype=given.dtype)).reshape(given.shape)
    gradients = (
        torch.autograd.grad((output * weights).sum(), tensors)
        for output, tensors in ((given, leaves), (wanted, other_leaves or leaves))
    )
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other.reshape(one.shape), rtol=1e-9, atol=1e-11)


# patchify and unpatchify

SHAPES = [(2, 3, 6, 9, 3), (1, 1, 4, 4, 2), (3, 2, 5, 7, 1), (2, 4, 5, 5, 5), (3, 3, 9, 9, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_patches_equal_pytorchs_unfold(shape):
    *size, patch_size = shape
    images = normal(*size)
    assert_same(reference.patchify(images, patch_size), F.unfold(images, patch_size, stride=patch_size).mT, [images])


def test_patches_equal_loops_over_the_pixels():
    images = normal(2, 3, 4, 6)
    patches = reference.patchify(images, 2)
    assert patches.shape == (2, 6, 12)
    for row, column, channel, y, x in itertools.product(range(2), range(3), range(3), range(2), range(2)):
        number = patches[:, 3 * row + column, 4 * channel + 2 * y + x]
        assert torch.equal(number, images[:, channel, 2 * row + y, 2 * column + x])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_linear_layer_on_patches_is_a_strided_convolution(shape):
    batch, channels, height, width, patch_size = shape
    images = normal(batch, channels, height, width)
    weight, bias = normal(7, channels, patch_size, patch_size), normal(7)
    given = F.linear(reference.patchify(images, patch_size), weight.flatten(1), bias)
    wanted = F.conv2d(images, weight, bias, stride=patch_size).flatten(2).mT
    assert_same(given, wanted, [images, weight, bias])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_images_come_back_bit_by_bit(shape):
    *size, patch_size = shape
    images = normal(*size)
    grid = (size[2] // patch_size, size[3] // patch_size)
    patches = reference.patchify(images, patch_size)
    assert torch.equal(reference.unpatchify(patches, grid, patch_size), images)
    others = normal(*patches.shape, seed=1)
    assert torch.equal(reference.patchify(reference.unpatchify(others, grid, patch_size), patch_size), others)
    wanted = F.fold(others.mT, tuple(size[2:]), patch_size, stride=patch_size)
    assert_same(reference.unpatchify(others, grid, patch_size), wanted, [others])


# class_token


def test_the_token_comes_first_and_learns_from_every_image():
    x, token = normal(4, 3, 5), normal(5)
    tokens = reference.class_token(x, token)
    assert torch.equal(tokens[:, 1:], x)
    for image in range(4):
        assert torch.equal(tokens[image, 0], token)
        (gradient,) = torch.autograd.grad(tokens[image, 0].sum(), token, retain_graph=True)
        assert torch.equal(gradient, torch.ones_like(token))
    assert_same(tokens, torch.cat([token.repeat(4, 1, 1), x], 1), [x, token])


# learned_position_embedding


def between(table, grid, new_grid, row, column):
    """The vector of one new patch, from the four old centres around it."""
    y = min(max((row + 0.5) * grid[0] / new_grid[0] - 0.5, 0), grid[0] - 1)
    x = min(max((column + 0.5) * grid[1] / new_grid[1] - 0.5, 0), grid[1] - 1)
    total = torch.zeros(table.shape[1], dtype=table.dtype)
    for old_row, old_column in itertools.product(range(grid[0]), range(grid[1])):
        weight = max(0, 1 - abs(y - old_row)) * max(0, 1 - abs(x - old_column))
        total = total + weight * table[1 + old_row * grid[1] + old_column]
    return total


GRIDS = [((2, 3), (5, 7)), ((5, 7), (2, 3)), ((2, 6), (3, 4)), ((1, 1), (3, 2)), ((4, 1), (1, 6)), ((3, 3), (6, 6))]


@pytest.mark.parametrize(("grid", "new_grid"), GRIDS, ids=str)
def test_positions_equal_loops_in_value_and_gradient(grid, new_grid):
    table = normal(1 + math.prod(grid), 5)
    places = itertools.product(range(new_grid[0]), range(new_grid[1]))
    wanted = torch.stack([table[0], *(between(table, grid, new_grid, *place) for place in places)])
    assert_same(reference.learned_position_embedding(table, grid, new_grid), wanted, [table])


@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (7, 4)], ids=str)
def test_positions_of_the_same_grid_stay_as_they_are(grid):
    table = normal(1 + math.prod(grid), 5)
    assert torch.equal(reference.learned_position_embedding(table, grid, grid), table)


def test_positions_that_change_evenly_stay_even():
    """A table that holds each patch's own centre gives the new patches' centres, but for those beyond the border."""
    rows, columns = torch.meshgrid(torch.arange(4.0) + 0.5, torch.arange(3.0) + 0.5, indexing="ij")
    table = torch.cat([torch.zeros(1, 2), torch.stack([rows.flatten() / 4, columns.flatten() / 3], 1)])
    new = reference.learned_position_embedding(table, (4, 3), (8, 9))[1:].unflatten(0, (8, 9))
    inside = new[1:-1, 1:-1]
    torch.testing.assert_close(inside[..., 0], ((torch.arange(8) + 0.5) / 8)[1:-1, None].expand(6, 7))
    torch.testing.assert_close(inside[..., 1], ((torch.arange(9) + 0.5) / 9)[None, 1:-1].expand(6, 7))


# VisionTransformer

SIZES = {"patch_size": 2, "num_channels": 3, "num_classes": 5, "d_model": 6, "num_heads": 2, "d_ff": 7}


class FromPyTorch(nn.Module):
    """A strided convolution, PyTorch's encoder layers, and a linear layer on the first token."""

    def __init__(self, model):
        super().__init__()
        torch.manual_seed(0)
        self.cut = nn.Conv2d(3, 6, 2, stride=2)
        self.first = nn.Parameter(torch.empty(1, 1, 6))
        self.positions = nn.Parameter(torch.empty(1, *model.positions.shape))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(6, 2, 7, dropout=0.0, batch_first=True) for _ in model.blocks
        )
        self.head = nn.Linear(6, 5)
        self.double()
        with torch.no_grad():
            for theirs, ours in zip(self.parameters_of_ours(), model.parameters_in_order, strict=True):
                theirs.copy_(ours.reshape(theirs.shape))

    def parameters_of_ours(self):
        of_layers = [dict(layer.named_parameters()) for layer in self.layers]
        return [
            self.cut.weight,
            self.cut.bias,
            self.first,
            self.positions,
            self.head.weight,
            self.head.bias,
            *(parameters[name] for parameters in of_layers for name in sorted(parameters)),
        ]

    def forward(self, images):
        x = self.cut(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def a_model(image_size=(4, 6), num_layers=2, **options):
    model = reference.VisionTransformer(image_size, num_layers=num_layers, **SIZES, **options).double()
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    of_blocks = [dict(block.named_parameters()) for block in model.blocks]
    model.parameters_in_order = [
        model.projection.weight,
        model.projection.bias,
        model.class_token,
        model.positions,
        model.head.weight,
        model.head.bias,
        *(parameters[name] for parameters in of_blocks for name in sorted(parameters)),
    ]
    return model


@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_model_equals_one_made_of_pytorchs_parts(num_layers):
    ours = a_model(num_layers=num_layers)
    theirs, images = FromPyTorch(ours), normal(4, 3, 4, 6)
    leaves, other_leaves = [images, *ours.parameters_in_order], [images, *theirs.parameters_of_ours()]
    assert len(leaves) == 1 + len(list(ours.parameters()))
    assert_same(ours(images), theirs(images), leaves, other_leaves)


def test_images_of_another_size_get_interpolated_positions():
    small, images = a_model(), normal(4, 3, 8, 10)
    large = a_model(image_size=(8, 10))
    large.load_state_dict(
        small.state_dict()
        | {"positions": reference.learned_position_embedding(small.positions, (2, 3), (4, 5)).detach()}
    )
    torch.testing.assert_close(small(images), large(images), rtol=1e-12, atol=1e-12)


def test_without_positions_the_model_does_not_see_the_order_of_the_patches():
    model, images = a_model(), normal(4, 3, 4, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = reference.unpatchify(reference.patchify(images, 2)[:, order], (2, 3), 2)
    assert (model(images) - model(shuffled)).abs().max() > 1e-2
    nn.init.zeros_(model.positions)
    torch.testing.assert_close(model(images), model(shuffled), rtol=1e-10, atol=1e-12)


def test_dropout_acts_in_training_alone_and_on_the_positions_too():
    model, images = a_model(dropout=1.0), normal(4, 3, 4, 6)
    x = torch.zeros(6, dtype=torch.float64)
    for block in model.blocks:
        x = block.norm2(block.norm1(x))
    torch.testing.assert_close(model(images), model.head(x).expand(4, -1))
    torch.testing.assert_close(model.eval()(images), a_model()(images))


# attention_rollout


def random_weights(layers, batch, heads, tokens):
    return normal(layers, batch, heads, tokens, tokens).detach().mul(1.5).softmax(-1)


@pytest.mark.parametrize("shape", [(4, 2, 3, 5), (1, 3, 2, 4), (3, 1, 1, 6), (2, 2, 2, 1)], ids=str)
def test_rollout_equals_loops(shape):
    weights = random_weights(*shape)
    layers, batch, heads, tokens = shape
    rollout = reference.attention_rollout(weights)
    for image in range(batch):
        of_input = np.eye(tokens)  # row i: how token i is mixed from the input so far
        for layer in range(layers):
            mixed = np.zeros((tokens, tokens))
            for token, other in itertools.product(range(tokens), repeat=2):
                attention = sum(weights[layer, image, head, token, other].item() for head in range(heads)) / heads
                mixed[token] += 0.5 * attention * of_input[other]
            of_input = mixed + 0.5 * of_input
        np.testing.assert_allclose(rollout[image], of_input, rtol=1e-12, atol=1e-14)


def test_each_row_of_the_rollout_is_a_mixture():
    rollout = reference.attention_rollout(random_weights(6, 2, 3, 5))
    assert (rollout >= 0).all()
    torch.testing.assert_close(rollout.sum(-1), torch.ones(2, 5, dtype=torch.float64))


def test_rollout_is_what_residual_layers_of_such_weights_do():
    """Layers that do nothing but mix, half from the attention and half from the residual, are the matrix itself."""
    weights, x = random_weights(4, 2, 3, 5), normal(2, 5, 7)
    mixed = x
    for of_layer in weights:
        mixed = (of_layer.mean(1) @ mixed + mixed) / 2
    torch.testing.assert_close(reference.attention_rollout(weights) @ x, mixed)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.patchify(torch.zeros(1, 1, 4, 5), 2), "height 4 and width 5"),
        (lambda: reference.patchify(torch.zeros(1, 1, 4, 4), 0), "multiples of patch_size"),
        (lambda: reference.unpatchify(torch.zeros(1, 5, 4), (2, 3), 2), "5 patches, which a grid of 2 by 3 has not"),
        (lambda: reference.unpatchify(torch.zeros(1, 6, 5), (2, 3), 2), "has 5 numbers"),
        (lambda: reference.class_token(torch.zeros(2, 3, 4), torch.zeros(3)), r"it must be \(4,\)"),
        (lambda: reference.learned_position_embedding(torch.zeros(6, 4), (2, 3), (4, 4)), "it must have 7"),
        (lambda: reference.VisionTransformer((4, 5), num_layers=1, **SIZES), "patch_size 2 must divide both"),
        (lambda: reference.attention_rollout(torch.zeros(2, 3, 4, 4)), "must be .layers, images, heads"),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
