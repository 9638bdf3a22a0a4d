"""Right kernels of "Vision Transformers" in other styles."""

import functools
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference import vision_transformer as reference

# patchify


def _refuse(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("patches do not fill the image")


def patches_by_reshape(images, patch_size):
    _refuse(images, patch_size)
    b, c, h, w = images.shape
    p = patch_size
    pieces = images.reshape(b, c, h // p, p, w // p, p)
    return torch.einsum("bcrysx->brscyx", pieces).reshape(b, (h // p) * (w // p), c * p * p)


def patches_by_unfold(images, patch_size):
    _refuse(images, patch_size)
    return F.unfold(images, kernel_size=patch_size, stride=patch_size).transpose(1, 2)


def patches_by_windows(images, patch_size):
    _refuse(images, patch_size)
    windows = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)  # (b, c, row, column, y, x)
    return windows.movedim(1, 3).flatten(1, 2).flatten(2)


def patches_by_convolution(images, patch_size):
    """A convolution whose filters each pick one number of the patch."""
    _refuse(images, patch_size)
    numbers = images.shape[1] * patch_size**2
    filters = torch.eye(numbers, dtype=images.dtype).reshape(numbers, images.shape[1], patch_size, patch_size)
    return F.conv2d(images, filters, stride=patch_size).flatten(2).mT


def patches_one_by_one(images, patch_size):
    _refuse(images, patch_size)
    tops, lefts = (range(0, length, patch_size) for length in images.shape[2:])
    pieces = [
        images[:, :, top : top + patch_size, left : left + patch_size].reshape(len(images), -1)
        for top, left in itertools.product(tops, lefts)
    ]
    return torch.stack(pieces, dim=1)


def patches_by_pixel_unshuffle(images, patch_size):
    _refuse(images, patch_size)
    return F.pixel_unshuffle(images, patch_size).flatten(2).permute(0, 2, 1)


# unpatchify


def _refuse_patches(patches, grid, patch_size):
    if patches.shape[1] != grid[0] * grid[1] or patches.shape[2] % patch_size**2:
        raise ValueError("the patches do not fill the grid")


def images_by_reshape(patches, grid, patch_size):
    _refuse_patches(patches, grid, patch_size)
    batch, _, numbers = patches.shape
    rows, columns = grid
    channels = numbers // (patch_size * patch_size)
    cut = patches.reshape(batch, rows, columns, channels, patch_size, patch_size)
    return torch.einsum("brscyx->bcrysx", cut).reshape(batch, channels, rows * patch_size, columns * patch_size)


def images_by_fold(patches, grid, patch_size):
    _refuse_patches(patches, grid, patch_size)
    size = [patch_size * length for length in grid]
    return F.fold(patches.transpose(1, 2), size, kernel_size=patch_size, stride=patch_size)


def images_by_concatenation(patches, grid, patch_size):
    _refuse_patches(patches, grid, patch_size)
    pieces = [piece.reshape(len(patches), -1, patch_size, patch_size) for piece in patches.unbind(1)]
    rows = [torch.cat(pieces[start : start + grid[1]], dim=3) for start in range(0, len(pieces), grid[1])]
    return torch.cat(rows, dim=2)


def images_by_pixel_shuffle(patches, grid, patch_size):
    _refuse_patches(patches, grid, patch_size)
    return F.pixel_shuffle(patches.mT.reshape(*patches.shape[::2], *grid), patch_size)


def images_by_transposed_convolution(patches, grid, patch_size):
    _refuse_patches(patches, grid, patch_size)
    numbers = patches.shape[-1]
    filters = torch.eye(numbers, dtype=patches.dtype).reshape(numbers, -1, patch_size, patch_size)
    return F.conv_transpose2d(patches.mT.unflatten(-1, grid), filters, stride=patch_size)


# class_token


def _refuse_token(x, token):
    if token.shape[0] != x.shape[2]:
        raise ValueError("the widths differ")


def token_by_repeat(x, token):
    _refuse_token(x, token)
    return torch.cat((token.view(1, 1, -1).repeat(x.size(0), 1, 1), x), 1)


def token_by_padding(x, token):
    """A row of zeros in front, and the token added to it."""
    _refuse_token(x, token)
    first = torch.zeros(1 + x.shape[1], 1, dtype=x.dtype)
    first[0] = 1
    return F.pad(x, (0, 0, 1, 0)) + first * token


def token_image_by_image(x, token):
    _refuse_token(x, token)
    return torch.stack([torch.vstack([token, image]) for image in x])


def token_by_assignment(x, token):
    _refuse_token(x, token)
    tokens = x.new_empty(x.shape[0], x.shape[1] + 1, x.shape[2])
    tokens[:, 0], tokens[:, 1:] = token, x
    return tokens


def token_stacked(x, token):
    _refuse_token(x, token)
    return torch.hstack([torch.stack([token] * len(x)).unsqueeze(1), x])


# learned_position_embedding


def _refuse_table(table, grid):
    if table.shape[0] != grid[0] * grid[1] + 1:
        raise ValueError("the table does not fill the grid")


def table_by_permute(table, grid, new_grid):
    _refuse_table(table, grid)
    if tuple(grid) == tuple(new_grid):
        return table
    picture = table[1:].reshape(1, *grid, -1).permute(0, 3, 1, 2)
    resized = F.interpolate(picture, new_grid, mode="bilinear")
    return torch.cat((table[0:1], resized.permute(0, 2, 3, 1).reshape(-1, table.shape[1])), dim=0)


def table_component_by_component(table, grid, new_grid):
    """The components as a batch of pictures of one channel."""
    _refuse_table(table, grid)
    pictures = table[1:].T.reshape(-1, 1, *grid)
    resized = nn.Upsample(new_grid, mode="bilinear", align_corners=False)(pictures)
    return torch.vstack([table[0], resized.reshape(table.shape[1], -1).T])


def _weights(length, new_length, dtype):
    """How each new place along one axis is mixed from the old ones."""
    place = (torch.arange(new_length, dtype=dtype) + 0.5) * length / new_length - 0.5
    distance = place.clamp(0, length - 1)[:, None] - torch.arange(length, dtype=dtype)
    return (1 - distance.abs()).clamp(min=0)


def table_by_matrices(table, grid, new_grid):
    """Bilinear is linear along each axis: one matrix for the rows, one for the columns."""
    _refuse_table(table, grid)
    vertical, horizontal = (_weights(*lengths, table.dtype) for lengths in zip(grid, new_grid, strict=True))
    patches = torch.einsum("rR,cC,RCd->rcd", vertical, horizontal, table[1:].unflatten(0, tuple(grid)))
    return torch.cat([table[:1], patches.flatten(0, 1)])


def table_by_loops(table, grid, new_grid):
    _refuse_table(table, grid)
    vectors = [table[0]]
    for row, column in itertools.product(range(new_grid[0]), range(new_grid[1])):
        y = min(max((row + 0.5) * grid[0] / new_grid[0] - 0.5, 0), grid[0] - 1)
        x = min(max((column + 0.5) * grid[1] / new_grid[1] - 0.5, 0), grid[1] - 1)
        top, left = math.floor(y), math.floor(x)
        bottom, right = min(top + 1, grid[0] - 1), min(left + 1, grid[1] - 1)
        corners = [table[1 + r * grid[1] + c] for r, c in itertools.product((top, bottom), (left, right))]
        upper = corners[0] + (x - left) * (corners[1] - corners[0])
        lower = corners[2] + (x - left) * (corners[3] - corners[2])
        vectors.append(upper + (y - top) * (lower - upper))
    return torch.stack(vectors)


def table_by_grid_sample(table, grid, new_grid):
    _refuse_table(table, grid)
    vertical, horizontal = ((torch.arange(n, dtype=table.dtype) * 2 + 1) / n - 1 for n in new_grid)
    places = torch.stack(torch.meshgrid(horizontal, vertical, indexing="xy"), dim=-1)
    picture = table[1:].T.reshape(1, -1, *grid)
    patches = F.grid_sample(picture, places[None], padding_mode="border", align_corners=False)
    return torch.cat([table[:1], patches[0].flatten(1).mT])


# VisionTransformer


class VisionByConvolution(reference.VisionTransformer):
    """The projection of patches as a strided convolution with the same weight."""

    def forward(self, images):
        p = self.patch_size
        W = self.projection.weight.reshape(-1, images.shape[1], p, p)
        x = F.conv2d(images, W, self.projection.bias, stride=p)  # (b, d_model, rows, columns)
        grid = tuple(x.shape[-2:])
        x = token_by_repeat(x.flatten(2).transpose(1, 2), self.class_token)
        x = x + table_by_permute(self.positions, self.grid, grid)
        x = F.dropout(x, p=self.dropout, training=self.training)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0, :])


class VisionByPyTorchsParts(reference.VisionTransformer):
    """Everything from PyTorch but the blocks."""

    def forward(self, images):
        p = self.patch_size
        grid = images.size(-2) // p, images.size(-1) // p
        x = self.projection(F.unfold(images, p, stride=p).mT)
        x = torch.cat([self.class_token.repeat(len(x), 1, 1), x], dim=1)
        x = nn.Dropout(self.dropout).train(self.training)(x + table_by_matrices(self.positions, self.grid, grid))
        return self.head(functools.reduce(lambda x, block: block(x), self.blocks, x).select(1, 0))


class VisionImageByImage(reference.VisionTransformer):
    def forward(self, images):
        if len(images) > 1:
            return torch.cat([self(image[None]) for image in images])
        patches = patches_one_by_one(images, self.patch_size)[0]
        grid = [length // self.patch_size for length in images.shape[2:]]
        x = torch.vstack([self.class_token, F.linear(patches, self.projection.weight, self.projection.bias)])
        x = x + table_by_loops(self.positions, self.grid, grid)
        x = torch.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:1])


class VisionSumsApart(reference.VisionTransformer):
    """Class token and patches meet their positions before they meet each other."""

    def forward(self, images):
        patches = reference.patchify(images, self.patch_size)
        grid = tuple(length // self.patch_size for length in images.shape[-2:])
        of_class, of_patches = reference.learned_position_embedding(self.positions, self.grid, grid).split(
            [1, patches.shape[1]]
        )
        first = (self.class_token + of_class).expand(len(images), -1, -1)
        x = torch.cat([first, self.projection(patches) + of_patches], dim=1)
        if self.training and self.dropout:
            x = F.dropout(x, self.dropout)
        for layer in range(len(self.blocks)):
            x = self.blocks[layer](x)
        return x[:, 0] @ self.head.weight.T + self.head.bias


class VisionHeadOnAllTokens(reference.VisionTransformer):
    """Scores every token and throws all but the first away."""

    def forward(self, images):
        x = reference.class_token(self.projection(patches_by_windows(images, self.patch_size)), self.class_token)
        grid = images.shape[-2] // self.patch_size, images.shape[-1] // self.patch_size
        positions = self.positions
        if grid != self.grid:
            positions = reference.learned_position_embedding(positions, self.grid, grid)
        x = F.dropout(x + positions.unsqueeze(0), self.dropout, self.training)
        x = nn.Sequential(*self.blocks)(x)
        return self.head(x)[:, 0]


# attention_rollout


def _refuse_weights(attn_weights):
    if attn_weights.ndim != 5 or attn_weights.shape[3] != attn_weights.shape[4]:
        raise ValueError("not layers of heads")


def rollout_normalised(attn_weights):
    """As in the paper's code: the identity is added, and the rows are divided by their sum."""
    _refuse_weights(attn_weights)
    mixed = attn_weights.mean(2) + torch.eye(attn_weights.shape[-1], dtype=attn_weights.dtype)
    mixed = mixed / mixed.sum(dim=-1, keepdim=True)
    return functools.reduce(lambda rollout, of_layer: torch.bmm(of_layer, rollout), mixed)


def rollout_by_residual_steps(attn_weights):
    _refuse_weights(attn_weights)
    layers, batch, heads, tokens, _ = attn_weights.shape
    rollout = torch.eye(tokens, dtype=attn_weights.dtype).repeat(batch, 1, 1)
    for of_layer in attn_weights:
        rollout = 0.5 * rollout + 0.5 * (of_layer.sum(1) / heads) @ rollout
    return rollout


def rollout_from_the_last_layer(attn_weights):
    _refuse_weights(attn_weights)
    rollout = torch.eye(attn_weights.size(-1)).to(attn_weights).expand_as(attn_weights[0, :, 0])
    for of_layer in reversed(attn_weights.unbind(0)):
        rollout = (rollout + rollout @ of_layer.mean(dim=1)) / 2
    return rollout


def rollout_by_loops(attn_weights):
    _refuse_weights(attn_weights)
    layers, batch, heads, tokens, _ = attn_weights.shape
    rollouts = []
    for image in range(batch):
        rollout = torch.eye(tokens, dtype=attn_weights.dtype)
        for layer in range(layers):
            mean = sum(attn_weights[layer, image, head] for head in range(heads)) / heads
            rows = []
            for token in range(tokens):
                kept = 0.5 * rollout[token]
                rows.append(kept + sum(0.5 * mean[token, other] * rollout[other] for other in range(tokens)))
            rollout = torch.stack(rows)
        rollouts.append(rollout)
    return torch.stack(rollouts)


def rollout_halved_at_the_end(attn_weights):
    _refuse_weights(attn_weights)
    mixed = attn_weights.mean(dim=2)
    mixed.diagonal(dim1=-2, dim2=-1).add_(1)
    return functools.reduce(lambda rollout, of_layer: of_layer @ rollout, mixed) / 2 ** len(mixed)


def rollout_by_einsum(attn_weights):
    _refuse_weights(attn_weights)
    heads, tokens = attn_weights.shape[2:4]
    mixed = torch.einsum("lbhqk->lbqk", attn_weights) / (2 * heads) + 0.5 * torch.eye(tokens, dtype=attn_weights.dtype)
    rollout, *later = mixed
    for of_layer in later:
        rollout = torch.einsum("bij,bjk->bik", of_layer, rollout)
    return rollout


VARIANTS = {
    "patchify": [
        patches_by_reshape,
        patches_by_unfold,
        patches_by_windows,
        patches_by_convolution,
        patches_one_by_one,
        patches_by_pixel_unshuffle,
    ],
    "unpatchify": [
        images_by_reshape,
        images_by_fold,
        images_by_concatenation,
        images_by_pixel_shuffle,
        images_by_transposed_convolution,
    ],
    "class_token": [
        token_by_repeat,
        token_by_padding,
        token_image_by_image,
        token_by_assignment,
        token_stacked,
    ],
    "learned_position_embedding": [
        table_by_permute,
        table_component_by_component,
        table_by_matrices,
        table_by_loops,
        table_by_grid_sample,
    ],
    "VisionTransformer": [
        VisionByConvolution,
        VisionByPyTorchsParts,
        VisionImageByImage,
        VisionSumsApart,
        VisionHeadOnAllTokens,
    ],
    "attention_rollout": [
        rollout_normalised,
        rollout_by_residual_steps,
        rollout_from_the_last_layer,
        rollout_by_loops,
        rollout_halved_at_the_end,
        rollout_by_einsum,
    ],
}
