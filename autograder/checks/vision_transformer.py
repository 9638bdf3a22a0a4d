"""What right kernels of "Vision Transformers" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import vision_transformer as reference
from autograder.reference.getting_started import softmax

patchify = Check(
    reference.patchify,
    difficulty="core",
    minutes=20,
    hints=(
        "Give height and width two axes each: which row of patches and which pixel in it, which column and which pixel in it.",
        "Now there are six axes. Name them on paper, and write down in which order they must stand before axes are joined.",
        "Row and column of the patch come first, then channel, pixel row, pixel column. `permute` sets the order; only then are "
        "axes joined.",
        "`reshape` alone never changes the order in which numbers follow each other. Without `permute` a patch gets pixels from "
        "all along a row of the image.",
    ),
)


def _picture(draw, batch, channels, rows, columns, patch_size):
    shape = batch, channels, rows * patch_size, columns * patch_size
    return {"images": draw.normal(*shape), "patch_size": patch_size}


@patchify.aspect("the order of the patches, and of the numbers in each", points=2)
def _patches_values(draw):
    yield Case("coloured images that are not square", _picture(draw, *draw.sizes(5, 2, 6)))
    yield Case("as many channels, rows, columns and pixels", _picture(draw, 3, 3, 3, 3, 3))
    rows, columns, patch_size = draw.sizes(3, 2, 5)
    yield Case("a single grey image", _picture(draw, 1, 1, rows, columns, patch_size))
    yield Case("patches of one pixel", _picture(draw, 2, 3, rows, columns, 1))
    yield Case("one patch that is the whole image", _picture(draw, 2, 3, 1, 1, patch_size))


@patchify.aspect("gradient, strides, precision, wrong arguments", points=1)
def _patches_other(draw):
    inputs = _picture(draw, *draw.sizes(5, 2, 6))
    yield Case("the gradient", inputs, gradient=("images",))
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    images = _picture(draw, 2, 3, 4, 5, 3)["images"]
    yield Case("a height that is no multiple", {"images": images[:, :, :-1], "patch_size": 3}, refused=True)
    yield Case("a width that is no multiple", {"images": images[..., :-1], "patch_size": 3}, refused=True)


CUT_ROWS = "cut_rows = images.unflatten(-2, (-1, patch_size))"
CUT = "cut = cut_rows.unflatten(-1, (-1, patch_size))"
ORDER = "cut.permute(0, 2, 4, 1, 3, 5)"
RETURN = "return patches_first.flatten(3).flatten(1, 2)"
VIEW_SOURCE = "https://github.com/duoan/TorchCode/issues/21"
for _id, _hint, _source, *_edits in (
    (
        "patchify-by-view",
        "The image is only cut into pieces of the right length, one after the other, so that a patch has pixels from all along "
        "a row. Give rows and columns of patches axes of their own, and put these first.",
        VIEW_SOURCE,
        (RETURN, "return images.reshape(len(images), -1, images.shape[1] * patch_size**2)"),
    ),
    (
        "patchify-by-view-channels-last",
        "The channels go last, and then the image is only cut into pieces of the right length. Give rows and columns of "
        "patches axes of their own, and put these first.",
        "https://github.com/gupta-abhay/pytorch-vit/issues/7",
        (RETURN, "return images.permute(0, 2, 3, 1).reshape(len(images), -1, images.shape[1] * patch_size**2)"),
    ),
    (
        "patchify-unfold-then-view",
        "The six axes are right, but they are joined in the order in which they stand, channel first. Put row and column of "
        "the patch before the channel.",
        VIEW_SOURCE,
        (
            RETURN,
            "pieces = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)\n"
            "    return pieces.reshape(len(images), -1, images.shape[1] * patch_size**2)",
        ),
    ),
    (
        "patchify-channels-last",
        "In each patch the channels come last, pixel by pixel. Here the whole of channel 0 comes first, as in a convolution's "
        "weight.",
        "https://github.com/lucidrains/vit-pytorch/issues/352",
        (ORDER, "cut.permute(0, 2, 4, 3, 5, 1)"),
    ),
    (
        "patchify-column-by-column",
        "The patches run down the columns. They run along the rows, as one reads.",
        "",
        (ORDER, "cut.permute(0, 4, 2, 1, 3, 5)"),
    ),
    (
        "patchify-patches-transposed",
        "Each patch is turned over: its pixels run down its columns.",
        "",
        (ORDER, "cut.permute(0, 2, 4, 1, 5, 3)"),
    ),
    (
        "patchify-images-transposed",
        "Patches and the pixels in them run down the columns: height and width are exchanged.",
        "",
        (ORDER, "cut.permute(0, 4, 2, 1, 5, 3)"),
    ),
    (
        "patchify-rows-of-pixels-first",
        "In each patch its pixel rows come before the channels. The channel is the outermost axis.",
        "",
        (ORDER, "cut.permute(0, 2, 4, 3, 1, 5)"),
    ),
    (
        "patchify-pixels-far-apart",
        "A patch takes pixels that are far apart, one from each part of the image. When an axis is cut in two, the first of the "
        "two counts the patches and the second the pixels in one.",
        "",
        (CUT_ROWS, "cut_rows = images.unflatten(-2, (patch_size, -1))"),
        (CUT, "cut = cut_rows.unflatten(-1, (patch_size, -1))"),
        (ORDER, "cut.permute(0, 3, 5, 1, 2, 4)"),
    ),
    (
        "patchify-each-channel-alone",
        "Each channel has patches of its own. One patch holds all channels.",
        "",
        (ORDER, "cut.permute(0, 1, 2, 4, 3, 5)"),
        (RETURN, "return patches_first.flatten(4).flatten(1, 3)"),
    ),
    (
        "patchify-grid-kept",
        "The patches still stand in rows and columns, on two axes. They are to be one sequence.",
        "",
        (RETURN, "return patches_first.flatten(3)"),
    ),
    (
        "patchify-patch-kept",
        "Each patch is still a small image. Lay its numbers in one row.",
        "",
        (RETURN, "return patches_first.flatten(1, 2)"),
    ),
    (
        "patchify-batch-joined",
        "The patches of all images are joined into one sequence. Each image has its own.",
        "",
        (RETURN, "return patches_first.flatten(3).flatten(0, 2)"),
    ),
    (
        "patchify-patches-last",
        "The patches are on the last axis, as `F.unfold` gives them. Exchange the last two axes.",
        "",
        (RETURN, "return F.unfold(images, patch_size, stride=patch_size)"),
    ),
    (
        "patchify-overlapping",
        "The patches overlap: the window moves by one pixel. It moves by the width of a patch.",
        "",
        (RETURN, "return F.unfold(images, patch_size).mT"),
    ),
    (
        "patchify-square-image",
        "The number of columns is computed from the height. Images need not be square.",
        "",
        (CUT, "cut = cut_rows.unflatten(-1, (images.shape[-2] // patch_size, patch_size))"),
    ),
    (
        "patchify-height-and-width-exchanged",
        "The number of rows is computed from the width, that of columns from the height.",
        "",
        (CUT_ROWS, "cut_rows = images.unflatten(-2, (images.shape[-1] // patch_size, patch_size))"),
        (CUT, "cut = cut_rows.unflatten(-1, (images.shape[-2] // patch_size, patch_size))"),
    ),
    (
        "patchify-rest-cut-off",
        "What does not fill a patch is cut off in silence. Say so by an error, as the input check does.",
        "",
        ("if patch_size < 1 or images.shape[-2] % patch_size or images.shape[-1] % patch_size:", "if patch_size < 1:"),
        (
            CUT_ROWS,
            "images = images[..., : images.shape[-2] // patch_size * patch_size, :]\n"
            "    images = images[..., : images.shape[-1] // patch_size * patch_size]\n"
            f"    {CUT_ROWS}",
        ),
    ),
    (
        "patchify-detached",
        "No gradient reaches the images.",
        "",
        (ORDER, "cut.detach().permute(0, 2, 4, 1, 3, 5)"),
    ),
):
    patchify.edit(_id, _hint, *_edits, source=_source)


unpatchify = Check(
    reference.unpatchify,
    difficulty="core",
    minutes=15,
    hints=(
        "Go the way of `patchify` backwards: first give every axis that was joined its own place again.",
        "The sequence becomes rows and columns of patches. The numbers of a patch become channel, pixel row, pixel column; how "
        "many channels there are is what remains to be divided.",
        "The pixel rows of a patch belong behind the row of patches, and the pixel columns behind its column. Then join.",
        "Try it: what `patchify` makes of an image that is not square must become the same image.",
    ),
)


def _pieces(draw, batch, channels, rows, columns, patch_size):
    patches = draw.normal(batch, rows * columns, channels * patch_size**2)
    return {"patches": patches, "grid": [rows, columns], "patch_size": patch_size}


@unpatchify.aspect("the image that the patches were cut from", points=2)
def _images_values(draw):
    yield Case("coloured images that are not square", _pieces(draw, *draw.sizes(5, 2, 6)))
    yield Case("as many channels, rows, columns and pixels", _pieces(draw, 3, 3, 3, 3, 3))
    rows, columns, patch_size = draw.sizes(3, 2, 5)
    yield Case("a single grey image", _pieces(draw, 1, 1, rows, columns, patch_size))
    yield Case("patches of one pixel", _pieces(draw, 2, 5, rows, columns, 1))
    yield Case("one patch that is the whole image", _pieces(draw, 2, 3, 1, 1, patch_size))


@unpatchify.aspect("gradient, strides, precision, wrong arguments", points=1)
def _images_other(draw):
    inputs = _pieces(draw, 5, 4, 3, 6, 2)
    yield Case("the gradient", inputs, gradient=("patches",))
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("one patch too few", inputs | {"patches": inputs["patches"][:, 1:]}, refused=True)
    yield Case("half a channel", _pieces(draw, 2, 3, 4, 5, 2) | {"patches": draw.normal(2, 20, 10)}, refused=True)


ON_GRID = "on_grid = patches.unflatten(1, grid)"
CUT = "cut = on_grid.unflatten(-1, (-1, patch_size, patch_size))"
ORDER = "cut.permute(0, 3, 1, 4, 2, 5)"
RETURN = "return channels_first.flatten(4).flatten(2, 3)"
for _id, _hint, _source, *_edits in (
    (
        "unpatchify-by-view",
        "The numbers of all patches are only laid out anew in the order in which they come. Give every axis its own place, and "
        "set their order by `permute`.",
        VIEW_SOURCE,
        (RETURN, "return patches.reshape(len(patches), -1, grid[0] * patch_size, grid[1] * patch_size)"),
    ),
    (
        "unpatchify-channels-last",
        "The channels are read as the last axis of a patch. `patchify` puts them first: this is not its inverse.",
        "https://github.com/cloneofsimo/minRF/issues/6",
        (CUT, "cut = on_grid.unflatten(-1, (patch_size, patch_size, -1))"),
        (ORDER, "cut.permute(0, 5, 1, 3, 2, 4)"),
    ),
    (
        "unpatchify-grid-exchanged",
        "Rows and columns of the grid are exchanged: the image comes out as wide as it should be high.",
        "",
        (ON_GRID, "on_grid = patches.unflatten(1, grid[::-1])"),
    ),
    (
        "unpatchify-column-by-column",
        "The patches are laid down the columns. They run along the rows, as one reads.",
        "",
        (ON_GRID, "on_grid = patches.unflatten(1, grid[::-1]).transpose(1, 2)"),
    ),
    (
        "unpatchify-patches-transposed",
        "Each patch is turned over: pixel rows and pixel columns are exchanged.",
        "https://github.com/cloneofsimo/minRF/issues/6",
        (ORDER, "cut.permute(0, 3, 1, 5, 2, 4)"),
    ),
    (
        "unpatchify-images-transposed",
        "The images are turned over: height and width are exchanged.",
        "",
        (ORDER, "cut.permute(0, 3, 2, 5, 1, 4)"),
    ),
    (
        "unpatchify-pixels-far-apart",
        "The pixels of a patch are spread over the image. The row of the patch is the outer axis, the pixel row the inner one; so "
        "with the columns.",
        "",
        (ORDER, "cut.permute(0, 3, 4, 1, 5, 2)"),
    ),
    (
        "unpatchify-not-interleaved",
        "Rows and columns of patches are joined, and pixel rows and columns. A row of patches must be joined with the pixel "
        "rows in it, a column with the pixel columns.",
        "",
        (ORDER, "cut.permute(0, 3, 1, 2, 4, 5)"),
        (RETURN, "return channels_first.reshape(len(cut), -1, grid[0] * patch_size, grid[1] * patch_size)"),
    ),
    (
        "unpatchify-square-image",
        "The grid is taken to be square. Its rows and columns are told.",
        "",
        (ON_GRID, "side = round(patches.shape[1] ** 0.5)\n    on_grid = patches.unflatten(1, (side, side))"),
    ),
    (
        "unpatchify-three-channels",
        "The number of channels is fixed. It is what remains when a patch's numbers are divided among its pixels.",
        "",
        (CUT, "cut = on_grid.unflatten(-1, (3, patch_size, patch_size))"),
    ),
    (
        "unpatchify-channels-behind",
        "The images come out with the channels on the last axis. They belong behind the batch.",
        "",
        (ORDER, "cut.permute(0, 1, 4, 2, 5, 3)"),
        (RETURN, "return channels_first.flatten(1, 2).flatten(2, 3)"),
    ),
    (
        "unpatchify-fold-not-transposed",
        "`F.fold` wants the patches on the last axis.",
        "",
        (
            RETURN,
            "size = grid[0] * patch_size, grid[1] * patch_size\n"
            "    return F.fold(patches, size, patch_size, stride=patch_size)",
        ),
    ),
    (
        "unpatchify-squeeze",
        "Axes of length 1 are removed: those of a single image, or of a single channel, belong there.",
        "",
        (RETURN, "return channels_first.flatten(4).flatten(2, 3).squeeze()"),
    ),
    (
        "unpatchify-detached",
        "No gradient reaches the patches.",
        "",
        (ON_GRID, "on_grid = patches.detach().unflatten(1, grid)"),
    ),
):
    unpatchify.edit(_id, _hint, *_edits, source=_source)


class_token = Check(
    reference.class_token,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "The token needs an axis for the batch and one for the sequence before it can be joined with `x`.",
        "`expand` repeats without a copy, and the gradient is summed over what was repeated.",
        "Join along the axis of the sequence, the token first.",
    ),
)


def _tokens(draw, batch, patches, d_model):
    return {"x": draw.normal(batch, patches, d_model), "token": draw.normal(d_model)}


@class_token.aspect("one token more, and it is the first", points=1)
def _token_values(draw):
    batch, patches, d_model = draw.sizes(3, 3)
    yield Case("a batch", _tokens(draw, batch, patches, d_model))
    yield Case("as many images as patches and components", _tokens(draw, 3, 3, 3))
    yield Case("a single image, a single patch", _tokens(draw, 1, 1, d_model))


@class_token.aspect("the token learns from every image; strides, precision, wrong arguments", points=1)
def _token_other(draw):
    batch, patches, d_model = draw.sizes(3, 3)
    inputs = _tokens(draw, batch, patches, d_model)
    yield Case("gradients for patches and token", inputs, gradient=("x", "token"))
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("a token of another width", inputs | {"token": inputs["token"][1:]}, refused=True)
    yield Case("a token of width 1", inputs | {"token": inputs["token"][:1]}, refused=True)


EXPAND = "of_each_image = token.expand(x.shape[0], 1, -1)"
JOIN = "return torch.cat([of_each_image, x], dim=1)"
for _id, _hint, _source, *_edits in (
    (
        "class-token-last",
        "The token comes last. It comes first.",
        "",
        (JOIN, "return torch.cat([x, of_each_image], dim=1)"),
    ),
    (
        "class-token-at-both-ends",
        "The token is put at both ends. It comes once, first.",
        "",
        (JOIN, "return torch.cat([of_each_image, x, of_each_image], dim=1)"),
    ),
    (
        "class-token-added",
        "The token is added to every patch. It is a token of its own.",
        "",
        (JOIN, "return x + of_each_image"),
    ),
    (
        "class-token-replaces-a-patch",
        "The first patch is lost: the token takes its place. There is one token more than patches.",
        "",
        (JOIN, "return torch.cat([of_each_image, x[:, 1:]], dim=1)"),
    ),
    (
        "class-token-in-place",
        "The token is written over the first patch of the caller's `x`. Return a new tensor with one token more.",
        "",
        (JOIN, "x[:, :1] = of_each_image\n    return x"),
    ),
    (
        "class-token-of-zeros",
        "A token of zeros is put first, which learns nothing. Take the parameter that is given.",
        "",
        (EXPAND, "of_each_image = torch.zeros_like(x[:, :1])"),
    ),
    (
        "class-token-for-the-first-image",
        "Only the first image gets the token; the others get zeros. It is the same for all.",
        "",
        (EXPAND, "of_each_image = torch.zeros_like(x[:, :1])\n    of_each_image[0, 0] = token"),
    ),
    (
        "class-token-one-for-all",
        "The token has no axis of the batch of the right length: `torch.cat` does not broadcast. Repeat it for each image.",
        "",
        (EXPAND, "of_each_image = token[None, None]"),
    ),
    (
        "class-token-as-an-image",
        "The token is joined along the batch, as an image more. Join along the axis of the sequence.",
        "",
        (EXPAND, "of_each_image = token.expand(1, x.shape[1], -1)"),
        (JOIN, "return torch.cat([of_each_image, x], dim=0)"),
    ),
    (
        "class-token-beside-each-patch",
        "The token is joined along the last axis, so that every patch becomes wider.",
        "",
        (EXPAND, "of_each_image = token.expand(*x.shape[:2], -1)"),
        (JOIN, "return torch.cat([of_each_image, x], dim=-1)"),
    ),
    (
        "class-token-split-over-the-batch",
        "The token is divided by the number of images.",
        "",
        (EXPAND, f"{EXPAND} / x.shape[0]"),
    ),
    (
        "class-token-detached",
        "No gradient reaches the token, so that it never learns.",
        "",
        (EXPAND, "of_each_image = token.detach().expand(x.shape[0], 1, -1)"),
    ),
    (
        "class-token-learns-from-the-first-image",
        "The gradient reaches the token from the first image alone. Every image should teach it.",
        "",
        (
            EXPAND,
            "others = token.detach().expand(x.shape[0] - 1, 1, -1)\n"
            "    of_each_image = torch.cat([token[None, None], others])",
        ),
    ),
):
    class_token.edit(_id, _hint, *_edits, source=_source)


learned_position_embedding = Check(
    reference.learned_position_embedding,
    difficulty="core",
    minutes=25,
    hints=(
        "Take the class token's row away, and put it back at the end: it stands nowhere in the image.",
        "The other rows are patches in reading order. Lay them out as an image with the components of a vector as channels.",
        "`(rows * columns, D)` becomes `(D, rows, columns)`: that takes a transposition, not only a reshape.",
        "`F.interpolate` wants a batch axis, the new size, the mode and align_corners. Then go all the way back to rows of "
        "vectors.",
    ),
)


def _table(draw, grid, new_grid, d_model):
    return {
        "table": draw.normal(1 + grid[0] * grid[1], d_model),
        "grid": [int(size) for size in grid],
        "new_grid": [int(size) for size in new_grid],
    }


@learned_position_embedding.aspect("the new grid, interpolated in two dimensions", points=2)
def _table_values(draw):
    d_model = 5
    small, large = draw.sizes(2, 2, 4), draw.sizes(2, 6, 9)
    yield Case("more rows and columns", _table(draw, small, large, d_model))
    yield Case("fewer rows and columns", _table(draw, large, small, d_model))
    other = large[0], small[0]  # never as many patches as before
    yield Case("more rows, fewer columns", _table(draw, (small[0], large[1]), other, d_model))
    yield Case("a square grid, larger", _table(draw, (3, 3), (5, 5), d_model))
    yield Case("a single row", _table(draw, (1, small[0]), (1, large[0]), d_model))


@learned_position_embedding.aspect("the same grid, and as many patches in another one", points=1)
def _table_same(draw):
    d_model = 5
    grid = draw.sizes(2, 2, 5)
    yield Case("the same grid", _table(draw, grid, grid, d_model))
    yield Case("rows and columns exchanged", _table(draw, grid, grid[::-1], d_model))
    yield Case("as many patches in other rows", _table(draw, (2, 6), (3, 4), d_model))


@learned_position_embedding.aspect("gradient, strides, precision, wrong arguments", points=1)
def _table_other(draw):
    d_model = 5
    small, large = draw.sizes(2, 2, 4), draw.sizes(2, 6, 9)
    inputs = _table(draw, small, large, d_model)
    yield Case("the gradient", inputs, gradient=("table",))
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("no row for the class token", inputs | {"table": inputs["table"][1:]}, refused=True)


SPLIT = "of_class, of_patches = table[:1], table[1:]"
PICTURE = "picture = of_patches.T.unflatten(-1, grid)"
RESIZE = 'resized = F.interpolate(picture.unsqueeze(0), size=new_grid, mode="bilinear", align_corners=False)'
JOIN = "return torch.cat([of_class, resized[0].flatten(1).T])"
ALONG_THE_SEQUENCE = (
    'F.interpolate({}.T.unsqueeze(0), size={}, mode="linear", align_corners=False)[0].T'  # in one dimension
)
for _id, _hint, _source, *_edits in (
    (
        "positions-class-row-interpolated",
        "The class token's row is interpolated together with the patches, along the sequence. It stands nowhere in the image; "
        "and patches have neighbours above and below.",
        "",
        (JOIN, f"return {ALONG_THE_SEQUENCE.format('table', '1 + new_grid[0] * new_grid[1]')}"),
    ),
    (
        "positions-in-one-dimension",
        "The patches are interpolated along the sequence. A patch has neighbours above and below: interpolate in two "
        "dimensions.",
        "",
        (
            JOIN,
            f"patches = {ALONG_THE_SEQUENCE.format('of_patches', 'new_grid[0] * new_grid[1]')}\n"
            "    return torch.cat([of_class, patches])",
        ),
    ),
    (
        "positions-by-view",
        "The table is laid out as an image by a reshape alone, which mixes components and patches. The components must be moved "
        "to the front first.",
        "",
        (PICTURE, "picture = of_patches.reshape(-1, *grid)"),
    ),
    (
        "positions-by-view-on-the-way-back",
        "On the way back the components are not moved to the last axis again; a reshape alone mixes components and patches.",
        "",
        (JOIN, "return torch.cat([of_class, resized[0].reshape(-1, table.shape[1])])"),
    ),
    (
        "positions-grid-exchanged",
        "The table is laid out with rows and columns exchanged.",
        "",
        (PICTURE, "picture = of_patches.T.unflatten(-1, grid[::-1])"),
    ),
    (
        "positions-new-grid-exchanged",
        "Rows and columns of the new grid are exchanged.",
        "",
        (RESIZE, RESIZE.replace("size=new_grid", "size=new_grid[::-1]")),
    ),
    (
        "positions-column-by-column",
        "The new vectors come back column by column. They run along the rows, as one reads.",
        "",
        (JOIN, "return torch.cat([of_class, resized[0].mT.flatten(1).T])"),
    ),
    (
        "positions-square-grid",
        "The grid is taken to be square. Its rows and columns are told.",
        "https://github.com/google-research/vision_transformer/pull/317",
        (PICTURE, "side = round(len(of_patches) ** 0.5)\n    picture = of_patches.T.unflatten(-1, (side, side))"),
    ),
    (
        "positions-square-new-grid",
        "The new grid is taken to be square.",
        "",
        (RESIZE, RESIZE.replace("size=new_grid", "size=(new_grid[0], new_grid[0])")),
    ),
    (
        "positions-align-corners",
        "The centres of the corner patches are laid on each other. The edges of the image should be: `align_corners=False`.",
        "",
        (RESIZE, RESIZE.replace("align_corners=False", "align_corners=True")),
    ),
    (
        "positions-bicubic",
        "This is bicubic. Bilinear is asked for.",
        "",
        (RESIZE, RESIZE.replace("bilinear", "bicubic")),
    ),
    (
        "positions-nearest",
        "Each new patch takes the vector of the nearest old one. Interpolate between neighbours.",
        "",
        (RESIZE, RESIZE.replace('"bilinear", align_corners=False', '"nearest"')),
    ),
    (
        "positions-antialiased",
        "Where the grid shrinks, the vectors are averaged first: `antialias`. It is not asked for.",
        "",
        (RESIZE, RESIZE.replace("align_corners=False", "align_corners=False, antialias=True")),
    ),
    (
        "positions-scale-factor-fudged",
        "A small number is added to the size so that a scale factor does not round down; it moves all places a little. Hand over "
        "the size itself.",
        "https://github.com/facebookresearch/dinov2/pull/378",
        (
            RESIZE,
            "factors = (new_grid[0] + 0.1) / grid[0], (new_grid[1] + 0.1) / grid[1]\n    "
            + RESIZE.replace("size=new_grid", "scale_factor=factors"),
        ),
    ),
    (
        "positions-unchanged-if-as-many",
        "The table comes back as it is where the number of patches is the same. Their rows and columns may differ: compare the "
        "grids.",
        "https://github.com/huggingface/transformers/issues/32410",
        (SPLIT, f"if new_grid[0] * new_grid[1] == len(table) - 1:\n        return table\n    {SPLIT}"),
    ),
    (
        "positions-cut-or-tiled",
        "The table is cut off, or begun again, to get as many rows as there are patches. Interpolate.",
        "",
        (
            JOIN,
            "again = torch.arange(new_grid[0] * new_grid[1]) % len(of_patches)\n"
            "    return torch.cat([of_class, of_patches[again]])",
        ),
    ),
    (
        "positions-class-row-lost",
        "The class token's row is missing.",
        "",
        (JOIN, "return resized[0].flatten(1).T"),
    ),
    (
        "positions-class-row-last",
        "The class token's row comes last. It comes first.",
        "",
        (JOIN, "return torch.cat([resized[0].flatten(1).T, of_class])"),
    ),
    (
        "positions-class-row-taken-from-the-end",
        "The last row is taken for the class token's. Its row is the first.",
        "",
        (SPLIT, "of_class, of_patches = table[-1:], table[:-1]"),
    ),
    (
        "positions-class-row-zeroed",
        "The class token's row is zeros. It was learned as the others were.",
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations/pull/221",
        (SPLIT, "of_class, of_patches = torch.zeros_like(table[:1]), table[1:]"),
    ),
    (
        "positions-detached",
        "No gradient reaches the table, so that the positions are never learned.",
        "",
        (SPLIT, "of_class, of_patches = table[:1].detach(), table[1:].detach()"),
    ),
):
    learned_position_embedding.edit(_id, _hint, *_edits, source=_source)


VisionTransformer = Check(
    reference.VisionTransformer,
    difficulty="core",
    minutes=25,
    hints=(
        "Patches, then the projection, then the class token, then the positions; then dropout, which only acts in training.",
        "The positions belong to the class token too, so they are added after it has been put first.",
        "`self.grid` is the grid that the positions were learned for. The grid of the images at hand follows from their height, "
        "width and the patch size.",
        "One block after the other; then only the class token goes to the head. It returns logits, with no softmax.",
    ),
    reproduces=("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerEncoder"),
    uses=("patchify", "class_token", "learned_position_embedding"),
)


def _vit_sizes(draw, **more):
    """Sizes of a model with one layer, all different where they can be."""
    rows, columns, patch_size = 2, 3, 2
    num_heads, d_head = draw.sizes(2, 2, 3)
    sizes = {"num_heads": num_heads, "d_model": num_heads * d_head, "num_layers": 1, "d_ff": 7, "num_classes": 5}
    return sizes | {"image_size": [rows * patch_size, columns * patch_size], "patch_size": 2, "num_channels": 3} | more


def _vit_inputs(draw, sizes, batch, grid=None):
    """Images of the model's own size, or of another grid of patches, and the model's parameters."""
    patch_size, d_model, classes = sizes["patch_size"], sizes["d_model"], sizes["num_classes"]
    own = [length // patch_size for length in sizes["image_size"]]
    rows, columns = grid or own
    numbers = sizes["num_channels"] * patch_size**2
    inputs = {
        "images": draw.normal(batch, sizes["num_channels"], rows * patch_size, columns * patch_size),
        "projection.weight": draw.normal(d_model, numbers, scale=numbers**-0.5),
        "projection.bias": draw.normal(d_model),
        "class_token": draw.normal(d_model),
        "positions": draw.normal(1 + own[0] * own[1], d_model),
        "head.weight": draw.normal(classes, d_model, scale=d_model**-0.5),
        "head.bias": draw.normal(classes),
    }
    for layer in range(sizes["num_layers"]):
        block = draw.block_parameters(d_model, sizes["d_ff"])
        inputs |= {f"blocks.{layer}.{name}": value for name, value in block.items()}
    return inputs


@VisionTransformer.aspect("patches, class token, positions, blocks, head", points=3)
def _vit_values(draw):
    sizes = _vit_sizes(draw)
    yield Case("a batch of images", _vit_inputs(draw, sizes, 4), probe={"sizes": sizes})
    deep = sizes | {"num_layers": 2}
    yield Case("two layers", _vit_inputs(draw, deep, 4), probe={"sizes": deep})
    grey = sizes | {"num_channels": 1, "num_heads": 1, "image_size": [6, 4]}
    yield Case("a single grey image, a single head", _vit_inputs(draw, grey, 1), probe={"sizes": grey})


@VisionTransformer.aspect("images of another size", points=1)
def _vit_other_size(draw):
    sizes = _vit_sizes(draw)
    yield Case("larger images", _vit_inputs(draw, sizes, 4, grid=(5, 4)), probe={"sizes": sizes})
    yield Case("smaller images", _vit_inputs(draw, sizes, 4, grid=(1, 2)), probe={"sizes": sizes})
    yield Case("as many patches in other rows", _vit_inputs(draw, sizes, 4, grid=(3, 2)), probe={"sizes": sizes})


@VisionTransformer.aspect("where and when dropout acts", points=1)
def _vit_dropout(draw):
    sizes = _vit_sizes(draw, dropout=1.0)
    inputs = _vit_inputs(draw, sizes, 4)
    yield Case("training, everything dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})


@VisionTransformer.aspect("gradients, strides, precision", points=1)
def _vit_gradients(draw):
    sizes = _vit_sizes(draw)
    inputs, probe = _vit_inputs(draw, sizes, 4), {"sizes": sizes}
    yield Case("gradients for images and parameters", inputs, gradient=tuple(inputs), probe=probe)
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True, probe=probe)


PATCHES = "patches = patchify(images, self.patch_size)"
GRID = "grid = (images.shape[-2] // self.patch_size, images.shape[-1] // self.patch_size)"
TOKENS = "x = class_token(self.projection(patches), self.class_token)"
POSITIONS = "x = x + learned_position_embedding(self.positions, self.grid, grid)"
DROP = "x = F.dropout(x, self.dropout, self.training)"
BLOCKS = "for encoder_block in self.blocks:\n            x = encoder_block(x)"
HEAD = "return self.head(x[:, 0])"
TABLE = "learned_position_embedding(self.positions, self.grid, grid)"
WITHOUT_SOURCE = "https://github.com/labmlai/annotated_deep_learning_paper_implementations/pull/221"
for _id, _hint, _source, *_edits in (
    (
        "vit-patches-by-view",
        "The images are only cut into pieces of a patch's length. `patchify` gives real patches.",
        "https://github.com/gupta-abhay/pytorch-vit/issues/7",
        (PATCHES, "patches = images.reshape(len(images), -1, images.shape[1] * self.patch_size**2)"),
    ),
    (
        "vit-no-class-token",
        "There is no class token: the patches' outputs are averaged. Put it first, and hand its output to the head.",
        "",
        (TOKENS, "x = self.projection(patches)"),
        (POSITIONS, f"x = x + {TABLE}[1:]"),
        (HEAD, "return self.head(x.mean(dim=1))"),
    ),
    (
        "vit-mean-of-all-tokens",
        "The head reads the mean of all tokens. It reads the class token alone.",
        "",
        (HEAD, "return self.head(x.mean(dim=1))"),
    ),
    (
        "vit-mean-of-patches",
        "The head reads the mean of the patches. It reads the class token alone.",
        "",
        (HEAD, "return self.head(x[:, 1:].mean(dim=1))"),
    ),
    (
        "vit-last-token",
        "The head reads the last token. The class token is the first.",
        "",
        (HEAD, "return self.head(x[:, -1])"),
    ),
    (
        "vit-first-patch",
        "The head reads the first patch. The class token stands before it.",
        "",
        (HEAD, "return self.head(x[:, 1])"),
    ),
    (
        "vit-every-token",
        "Every token is scored. The class token alone goes to the head.",
        "",
        (HEAD, "return self.head(x)"),
    ),
    (
        "vit-class-token-of-the-first-image",
        "The index is on the batch: the first image's tokens are scored. Take the first token of each image.",
        "",
        (HEAD, "return self.head(x[0])"),
    ),
    (
        "vit-class-token-appended",
        "The class token comes last, with the last position. It comes first.",
        "",
        (TOKENS, "x = class_token(self.projection(patches), self.class_token).roll(-1, dims=1)"),
        (HEAD, "return self.head(x[:, -1])"),
    ),
    (
        "vit-class-token-projected",
        "The projection comes behind the class token's place: a patch of zeros is put first and projected. The token itself is "
        "not projected.",
        "",
        (TOKENS, "x = self.projection(class_token(patches, torch.zeros_like(patches[0, 0])))"),
    ),
    (
        "vit-no-positions",
        "No positions are added: the model cannot tell where a patch stands.",
        "",
        (POSITIONS, ""),
    ),
    (
        "vit-class-token-without-position",
        "The positions are added before the class token is put first, so that it has none. It has the first row of the table.",
        WITHOUT_SOURCE,
        (TOKENS, "x = self.projection(patches)"),
        (POSITIONS, f"x = class_token(x + {TABLE}[1:], self.class_token)"),
    ),
    (
        "vit-positions-shifted",
        "The patches get the rows of the table from the first on, which is the class token's. They are added before it is put "
        "first.",
        "https://github.com/NVIDIA/Megatron-LM/pull/6260",
        (TOKENS, "x = self.projection(patches)"),
        (POSITIONS, f"x = class_token(x + {TABLE}[:-1], self.class_token)"),
    ),
    (
        "vit-positions-of-the-batch",
        "The positions are counted over the images of the batch. Each token has its own, the same in all images.",
        "https://github.com/pytorch/examples/issues/1178",
        (POSITIONS, f"x = x + {TABLE}.repeat(len(x), 1)[: len(x), None]"),
    ),
    (
        "vit-positions-in-every-block",
        "The positions are added again before every block. They are added once.",
        "",
        (POSITIONS, f"positions = {TABLE}"),
        (DROP, "x = F.dropout(x + positions, self.dropout, self.training)"),
        (BLOCKS, BLOCKS.replace("(x)", "(x if encoder_block is self.blocks[0] else x + positions)")),
    ),
    (
        "vit-positions-of-the-learned-grid",
        "The table is added as it was learned. Images of another size have another grid: interpolate.",
        "",
        (POSITIONS, "x = x + self.positions"),
    ),
    (
        "vit-positions-cut-or-tiled",
        "The table is cut off, or begun again, for images of another size. Interpolate.",
        "",
        (POSITIONS, "x = x + self.positions[torch.arange(x.shape[1]) % len(self.positions)]"),
    ),
    (
        "vit-grid-exchanged",
        "The grid of the images is given as columns and rows. Rows come first.",
        "",
        (GRID, "grid = (images.shape[-1] // self.patch_size, images.shape[-2] // self.patch_size)"),
    ),
    (
        "vit-grids-exchanged",
        "The two grids are exchanged: first that of the table, then that of the images.",
        "",
        (POSITIONS, "x = x + learned_position_embedding(self.positions, grid, self.grid)"),
    ),
    (
        "vit-projection-scaled",
        "The projected patches are multiplied by the square root of d_model, as the embeddings of words are. Here nothing is "
        "scaled.",
        "",
        (TOKENS, "x = class_token(self.projection(patches) * self.class_token.shape[0] ** 0.5, self.class_token)"),
    ),
    (
        "vit-ramp-after-projection",
        "The projected patches go through a ramp. The projection is linear.",
        "",
        (TOKENS, "x = class_token(torch.relu(self.projection(patches)), self.class_token)"),
    ),
    (
        "vit-first-block-shared",
        "The first block is applied again and again. Each layer has a block of its own.",
        "",
        (BLOCKS, BLOCKS.replace("= encoder_block(x)", "= self.blocks[0](x)")),
    ),
    (
        "vit-blocks-not-chained",
        "Every block reads the embedded patches, so that only the last one counts. Each reads what the one before gave.",
        "",
        (BLOCKS, "x = self.blocks[-1](x)"),
    ),
    (
        "vit-first-block-only",
        "Only the first block is applied.",
        "",
        (BLOCKS, "x = self.blocks[0](x)"),
    ),
    (
        "vit-no-blocks",
        "The blocks are missing, so that the class token never sees a patch.",
        "",
        (BLOCKS, ""),
    ),
    (
        "vit-residual-around-blocks",
        "What a block read is added to what it gives. The residuals are inside the blocks.",
        "",
        (BLOCKS, BLOCKS.replace("= encoder_block(x)", "= x + encoder_block(x)")),
    ),
    (
        "vit-normalised-at-the-end",
        "The class token is normalised once more. The paper does so, behind pre-norm blocks; here the last block ends in a norm.",
        "",
        (HEAD, "return self.head(F.layer_norm(x[:, 0], x.shape[-1:]))"),
    ),
    (
        "vit-softmax",
        "Probabilities are returned. The softmax belongs to the loss; return the logits.",
        "",
        (HEAD, "return torch.softmax(self.head(x[:, 0]), dim=-1)"),
    ),
    (
        "vit-log-softmax",
        "Log-probabilities are returned. The softmax belongs to the loss; return the logits.",
        "",
        (HEAD, "return torch.log_softmax(self.head(x[:, 0]), dim=-1)"),
    ),
    (
        "vit-no-head",
        "The head is missing: one score for each class is asked for.",
        "",
        (HEAD, "return x[:, 0]"),
    ),
    (
        "vit-no-dropout",
        "The sum of token and position is never dropped.",
        "",
        (DROP, ""),
    ),
    (
        "vit-dropout-when-not-training",
        "Something is dropped while the model is not being trained.",
        "",
        (DROP, "x = F.dropout(x, self.dropout)"),
    ),
    (
        "vit-dropout-before-positions",
        "The tokens are dropped before their positions are added. The sum is to be dropped.",
        "",
        (f"{POSITIONS}\n        {DROP}", f"{DROP}\n        {POSITIONS}"),
    ),
    (
        "vit-dropout-forgotten",
        "`self.dropout` is set to 0 where the model is not being trained, and stays 0 when training goes on.",
        "https://github.com/NVIDIA/Megatron-LM/pull/411",
        (DROP, f"self.dropout = self.dropout if self.training else 0.0\n        {DROP}"),
    ),
    (
        "vit-class-token-detached",
        "No gradient reaches the class token.",
        "",
        (TOKENS, "x = class_token(self.projection(patches), self.class_token.detach())"),
    ),
    (
        "vit-positions-detached",
        "No gradient reaches the positions, so that they are never learned.",
        "",
        (POSITIONS, "x = x + learned_position_embedding(self.positions.detach(), self.grid, grid)"),
    ),
):
    VisionTransformer.edit(_id, _hint, *_edits, source=_source)


attention_rollout = Check(
    reference.attention_rollout,
    difficulty="core",
    minutes=20,
    hints=(
        "First one matrix for each layer: the mean over its heads, and half of it replaced by the identity.",
        "A row of the second layer's matrix says how a token is mixed from what the first layer gave; a row of the first's, how "
        "that is mixed from the input. What is their product, and in which order?",
        "Begin with the first layer's matrix, and multiply by each later one from the left.",
        "Each row of the result sums to one. Does yours?",
    ),
)


def _attentions(draw, layers, batch, heads, tokens, scale=1.5):
    return {"attn_weights": softmax(draw.normal(layers, batch, heads, tokens, tokens, scale=scale))}


@attention_rollout.aspect("heads, residuals, layers", points=2)
def _rollout_values(draw):
    yield Case("some layers of some heads", _attentions(draw, *draw.sizes(4, 3, 7)))
    layers, batch, tokens = draw.sizes(3, 3, 6)
    yield Case("a single head, a single image", _attentions(draw, layers, 1, 1, tokens))
    yield Case("as many layers, images, heads and tokens", _attentions(draw, 3, 3, 3, 3))
    yield Case("two layers", _attentions(draw, 2, batch, 4, tokens))
    yield Case("one layer", _attentions(draw, 1, batch, 4, tokens))


@attention_rollout.aspect("one token, sure heads, strides, precision, wrong arguments", points=1)
def _rollout_other(draw):
    layers, batch, heads, tokens = draw.sizes(4, 3, 7)
    yield Case("one token", _attentions(draw, layers, batch, heads, 1))
    sure = np.eye(tokens)[draw.rng.integers(0, tokens, (layers, batch, heads, tokens))]
    yield Case("heads that look at one token alone", {"attn_weights": sure})
    inputs = _attentions(draw, layers, batch, heads, tokens)
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("the layers forgotten", {"attn_weights": inputs["attn_weights"][0]}, refused=True)
    yield Case("fewer keys than queries", {"attn_weights": inputs["attn_weights"][..., 1:]}, refused=True)


IDENTITY = "identity = torch.eye(attn_weights.shape[-1]).to(attn_weights)"
OF_LAYERS = "of_layers = (attn_weights.mean(dim=2) + identity) / 2"
FIRST = "rollout = of_layers[0]"
LOOP = "for of_layer in of_layers[1:]:"
PRODUCT = "rollout = of_layer @ rollout"
RETURN = "return rollout"
LOOP_AND_RETURN = f"{FIRST}\n    {LOOP}\n        {PRODUCT}\n    {RETURN}"
RESIDUAL_SOURCE = "https://github.com/google-research/vision_transformer/issues/18"
for _id, _hint, _source, *_edits in (
    (
        "rollout-no-residual",
        "The residual is forgotten: a token also keeps what it was. Half of each matrix is the identity.",
        RESIDUAL_SOURCE,
        (OF_LAYERS, "of_layers = attn_weights.mean(dim=2)"),
    ),
    (
        "rollout-not-halved",
        "The identity is added and the sum is not halved, so that the rows sum to more than one, and grow with every layer.",
        "",
        (OF_LAYERS, "of_layers = attn_weights.mean(dim=2) + identity"),
    ),
    (
        "rollout-residual-unhalved",
        "Only the attention is halved. Half of it and half of the identity: each row sums to one.",
        "",
        (OF_LAYERS, "of_layers = attn_weights.mean(dim=2) / 2 + identity"),
    ),
    (
        "rollout-normalised-over-queries",
        "The columns sum to one. The rows should: each token is a mixture.",
        "https://github.com/jacobgil/vit-explain/issues/16",
        (OF_LAYERS, f"{OF_LAYERS}\n    of_layers = of_layers / of_layers.sum(dim=-2, keepdim=True)"),
    ),
    (
        "rollout-softmax",
        "A softmax is taken of the sum with the identity. The weights are normalised already; halve the sum.",
        "",
        (OF_LAYERS, "of_layers = torch.softmax(attn_weights.mean(dim=2) + identity, dim=-1)"),
    ),
    (
        "rollout-reversed",
        "The product is in the wrong order: the later layer stands on the left.",
        "",
        (PRODUCT, "rollout = rollout @ of_layer"),
    ),
    (
        "rollout-layers-backwards",
        "The product begins with the last layer. A later layer stands to the left of an earlier one.",
        "",
        (OF_LAYERS, OF_LAYERS.replace("attn_weights.", "attn_weights.flip(0).")),
    ),
    (
        "rollout-transposed",
        "Rows and columns are exchanged: row i should say what the output i is mixed from.",
        "",
        (RETURN, "return rollout.mT"),
    ),
    (
        "rollout-elementwise",
        "The matrices are multiplied entry by entry. Use the matrix product.",
        "",
        (PRODUCT, "rollout = of_layer * rollout"),
    ),
    (
        "rollout-mean-of-layers",
        "This is the mean over the layers. They act one after the other: multiply.",
        "",
        (LOOP_AND_RETURN, "return of_layers.mean(dim=0)"),
    ),
    (
        "rollout-last-layer",
        "This is the last layer alone. What its tokens are made of, the layers before it decide.",
        "",
        (LOOP_AND_RETURN, "return of_layers[-1]"),
    ),
    (
        "rollout-raw-attention-of-the-last-layer",
        "This is the mean attention of the last layer. All layers count, and the residuals.",
        "",
        (LOOP_AND_RETURN, "return attn_weights[-1].mean(dim=1)"),
    ),
    (
        "rollout-last-layer-left-out",
        "The last layer is left out.",
        "",
        (LOOP, "for of_layer in of_layers[1:-1]:"),
    ),
    (
        "rollout-first-layer-left-out",
        "The first layer is left out.",
        "",
        (FIRST, "rollout = identity.expand_as(of_layers[0])"),
    ),
    (
        "rollout-first-layer-twice",
        "The first layer is multiplied in twice.",
        "",
        (LOOP, "for of_layer in of_layers:"),
    ),
    (
        "rollout-max-over-heads",
        "The largest head counts at each place. Take the mean over the heads, whose rows still sum to one.",
        "https://github.com/jacobgil/vit-explain",
        (OF_LAYERS, "of_layers = (attn_weights.amax(dim=2) + identity) / 2"),
    ),
    (
        "rollout-max-over-heads-normalised",
        "The largest head counts at each place, and the rows are normalised. Take the mean over the heads.",
        "https://github.com/jacobgil/vit-explain",
        (
            OF_LAYERS,
            "of_layers = attn_weights.amax(dim=2) + identity\n    of_layers = of_layers / of_layers.sum(-1, keepdim=True)",
        ),
    ),
    (
        "rollout-min-over-heads",
        "The smallest head counts at each place. Take the mean over the heads.",
        "https://github.com/jacobgil/vit-explain",
        (OF_LAYERS, "of_layers = (attn_weights.amin(dim=2) + identity) / 2"),
    ),
    (
        "rollout-sum-over-heads",
        "This is the sum over the heads; take the mean.",
        "",
        (OF_LAYERS, "of_layers = (attn_weights.sum(dim=2) + identity) / 2"),
    ),
    (
        "rollout-first-head",
        "Only the first head counts. Take the mean over all.",
        "",
        (OF_LAYERS, "of_layers = (attn_weights[:, :, 0] + identity) / 2"),
    ),
    (
        "rollout-each-head-apart",
        "Each head is followed through the layers by itself, and the mean is taken at the end. Every layer mixes its heads: take "
        "the mean first.",
        "",
        (OF_LAYERS, "of_layers = (attn_weights + identity) / 2"),
        (RETURN, "return rollout.mean(dim=1)"),
    ),
    (
        "rollout-mean-over-images",
        "The mean is taken over the images. Take it over the heads, the third axis.",
        "",
        (OF_LAYERS, "of_layers = (attn_weights.mean(dim=1) + identity) / 2"),
    ),
    (
        "rollout-class-token-alone",
        "Only the class token's row comes back. All rows are asked for.",
        "",
        (RETURN, "return rollout[:, 0]"),
    ),
    (
        "rollout-in-place",
        "The identity is added to the caller's `attn_weights`. Leave the arguments as they are.",
        "",
        (OF_LAYERS, "of_layers = attn_weights.add_(identity).div_(2).mean(dim=2)"),
    ),
):
    attention_rollout.edit(_id, _hint, *_edits, source=_source)
