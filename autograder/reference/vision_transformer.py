"""Reference kernels of the chapter "Vision Transformers"."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.transformer import EncoderBlock


def patchify(
    images: Float[Tensor, "batch channel height width"], patch_size: int
) -> Float[Tensor, "batch patch numbers"]:
    """Cut images into square patches that do not overlap, and lay each patch's numbers in one row.

    Parameters
    ----------
    images
        Pictures of one or more channels. They need not be square.
    patch_size
        Height and width ``P`` of a patch, in pixels.

    Returns
    -------
    One row for each patch: the patches in reading order, from left to right and then downwards, and in each patch first
    the whole of channel 0, pixel by pixel in reading order, then channel 1, and so on. Dtype as that of ``images``.

    Raises
    ------
    ValueError
        If ``patch_size`` does not divide height and width.

    Notes
    -----
    The order inside a patch is that of ``torch.nn.functional.unfold`` and of a convolution's weight, so that a linear
    layer on patches is a convolution of stride ``P``. Others lay the channels last. No arithmetic: each number is
    copied once.

    References
    ----------
    Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (2021),
    section 3.1.

    Examples
    --------
    >>> image = torch.arange(8.0).reshape(1, 1, 2, 4)
    >>> image[0, 0].tolist()
    [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    >>> patchify(image, 2)[0].tolist()
    [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
    >>> patchify(torch.zeros(7, 3, 8, 12), 4).shape
    torch.Size([7, 6, 48])
    """
    if patch_size < 1 or images.shape[-2] % patch_size or images.shape[-1] % patch_size:
        raise ValueError(
            f"images have height {images.shape[-2]} and width {images.shape[-1]}, which patches of {patch_size} by "
            f"{patch_size} pixels do not fill. Both must be multiples of patch_size."
        )
    cut_rows = images.unflatten(-2, (-1, patch_size))  # (batch, channel, row, y, width)
    cut = cut_rows.unflatten(-1, (-1, patch_size))  # (batch, channel, row, y, column, x)
    patches_first = cut.permute(0, 2, 4, 1, 3, 5)  # (batch, row, column, channel, y, x)
    return patches_first.flatten(3).flatten(1, 2)


def unpatchify(
    patches: Float[Tensor, "batch patch numbers"], grid: tuple[int, int], patch_size: int
) -> Float[Tensor, "batch channel height width"]:
    """Put images together from their patches: the inverse of `patchify`.

    Parameters
    ----------
    patches
        One row for each patch, in the order of `patchify`.
    grid
        How many rows and how many columns of patches an image has.
    patch_size
        Height and width ``P`` of a patch, in pixels.

    Returns
    -------
    Images of as many channels as a patch has numbers for each pixel. Dtype as that of ``patches``.

    Raises
    ------
    ValueError
        If the patches do not fill the grid, or a patch's numbers are not one for each pixel and channel.

    Notes
    -----
    ``unpatchify(patchify(images, P), grid, P)`` is ``images``, bit by bit. The grid must be told: twelve patches may be
    three rows of four or two rows of six.

    References
    ----------
    He et al., "Masked Autoencoders Are Scalable Vision Learners" (2022), section 3, whose decoder predicts patches.

    Examples
    --------
    >>> patches = torch.tensor([[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]])
    >>> unpatchify(patches, (1, 2), 2).tolist()
    [[[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]]]
    """
    if patches.shape[-2] != grid[0] * grid[1]:
        raise ValueError(f"There are {patches.shape[-2]} patches, which a grid of {grid[0]} by {grid[1]} has not.")
    if patch_size < 1 or patches.shape[-1] % patch_size**2:
        raise ValueError(
            f"A patch has {patches.shape[-1]} numbers, which is no multiple of its {patch_size} by {patch_size} pixels."
        )
    on_grid = patches.unflatten(1, grid)  # (batch, row, column, numbers)
    cut = on_grid.unflatten(-1, (-1, patch_size, patch_size))  # (batch, row, column, channel, y, x)
    channels_first = cut.permute(0, 3, 1, 4, 2, 5)  # (batch, channel, row, y, column, x)
    return channels_first.flatten(4).flatten(2, 3)


def class_token(
    x: Float[Tensor, "batch patch d_model"], token: Float[Tensor, " d_model"]
) -> Float[Tensor, "batch 1+patch d_model"]:
    """Put one learned token before the patches of each image; what becomes of it will stand for the whole image.

    Parameters
    ----------
    x
        One token for each patch.
    token
        A parameter, the same for all images.

    Returns
    -------
    One token more for each image: ``token`` first, then those of ``x`` as they are. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If ``token`` has not the width of ``x``.

    Notes
    -----
    The gradient for ``token`` is the sum over the images.

    References
    ----------
    Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (2021),
    section 3.1, equation 1; Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding" (2019), section 3, from which it comes.

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    >>> class_token(x, torch.tensor([0.0, -1.0])).tolist()
    [[[0.0, -1.0], [1.0, 2.0]], [[0.0, -1.0], [3.0, 4.0]]]
    """
    if token.shape != x.shape[-1:]:
        raise ValueError(f"token has shape {tuple(token.shape)}; it must be ({x.shape[-1]},), the width of x.")
    of_each_image = token.expand(x.shape[0], 1, -1)
    return torch.cat([of_each_image, x], dim=1)


def learned_position_embedding(
    table: Float[Tensor, "token d_model"], grid: tuple[int, int], new_grid: tuple[int, int]
) -> Float[Tensor, "new_token d_model"]:
    """Learned position vectors for an image of another size: those of the patches interpolated in two dimensions.

    Parameters
    ----------
    table
        One learned vector for each token: the class token's first, then those of the patches in reading order.
    grid
        How many rows and how many columns of patches the table was learned for.
    new_grid
        How many rows and columns there are now.

    Returns
    -------
    The table for the new grid: the class token's vector as it is, then one vector for each patch in reading order. The
    same numbers as ``table`` where the grids are equal. Dtype as that of ``table``.

    Raises
    ------
    ValueError
        If the table has not one row for the class token and one for each patch.

    Notes
    -----
    Bilinear, and aligned by the edges of the image, not by the centres of its corner patches: what
    ``torch.nn.functional.interpolate`` does with ``mode="bilinear"`` and ``align_corners=False``, which you may call.
    It wants ``(batch, channel, height, width)``: here the components of a vector are the channels. Beyond the outermost
    centres the vector stays the same.

    References
    ----------
    Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (2021),
    section 3.2.

    Examples
    --------
    >>> table = torch.tensor([[9.0], [0.0], [4.0]])
    >>> learned_position_embedding(table, (1, 2), (1, 4)).flatten().tolist()
    [9.0, 0.0, 1.0, 3.0, 4.0]
    >>> learned_position_embedding(table, (1, 2), (2, 1)).flatten().tolist()
    [9.0, 2.0, 2.0]
    """
    if len(table) != 1 + grid[0] * grid[1]:
        raise ValueError(
            f"table has {len(table)} rows; for the class token and {grid[0]} by {grid[1]} patches it must have "
            f"{1 + grid[0] * grid[1]}."
        )
    of_class, of_patches = table[:1], table[1:]
    picture = of_patches.T.unflatten(-1, grid)  # (d_model, row, column)
    resized = F.interpolate(picture.unsqueeze(0), size=new_grid, mode="bilinear", align_corners=False)
    return torch.cat([of_class, resized[0].flatten(1).T])


class VisionTransformer(nn.Module):
    """From the pixels of an image to a score for each class, by an encoder that reads patches as words.

    Parameters
    ----------
    image_size
        Height and width, in pixels, of the images that the positions are learned for.
    patch_size
        Height and width of a patch. It divides those of the images.
    num_channels
        1 for grey images, 3 for coloured ones.
    num_classes
        How many classes there are.
    d_model, num_heads, d_ff
        Sizes of each block.
    num_layers
        How many blocks there are.
    dropout
        Probability with which a number is dropped in training: in the sum of token and position, and in each
        sub-layer's output.

    Raises
    ------
    ValueError
        If ``patch_size`` does not divide height and width of the images.

    Notes
    -----
    The blocks are those of the chapter "The Transformer", with the norm after each sum. The paper's have it before
    each sub-layer, and one more behind the last block, and GELU where these have the ramp: the chapter on the modern
    Transformer derives why.
    ``patch_size**2 * num_channels * d_model`` multiply-adds for each patch, and those of the blocks for ``1 + N``
    tokens.

    References
    ----------
    Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (2021), figure 1,
    sections 3.1 and 3.2, appendix B.1 for the dropout.

    Examples
    --------
    >>> sizes = dict(num_channels=3, num_classes=10, d_model=6, num_heads=2, d_ff=9, num_layers=1)
    >>> model = VisionTransformer(image_size=(8, 12), patch_size=4, **sizes)
    >>> model(torch.zeros(7, 3, 8, 12)).shape
    torch.Size([7, 10])
    >>> model(torch.zeros(7, 3, 16, 16)).shape
    torch.Size([7, 10])
    """

    def __init__(
        self,
        image_size: tuple[int, int],
        patch_size: int,
        num_channels: int,
        num_classes: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        height, width = image_size
        if height % patch_size or width % patch_size:
            raise ValueError(f"image_size is {height} by {width}; patch_size {patch_size} must divide both.")
        self.patch_size = patch_size
        self.grid = (height // patch_size, width // patch_size)
        self.dropout = dropout
        self.projection = nn.Linear(num_channels * patch_size**2, d_model)
        self.class_token = nn.Parameter(torch.zeros(d_model))
        self.positions = nn.Parameter(torch.empty(1 + self.grid[0] * self.grid[1], d_model))
        self.blocks = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.head = nn.Linear(d_model, num_classes)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch num_classes"]:
        """Score the classes of each image.

        Parameters
        ----------
        images
            Pictures of the model's number of channels. Where their size is not ``image_size``, the positions are
            interpolated.

        Returns
        -------
        Logits, the scores before a softmax: of the class token, as the last block gives it. Dtype as that of
        ``images``.
        """
        patches = patchify(images, self.patch_size)
        grid = (images.shape[-2] // self.patch_size, images.shape[-1] // self.patch_size)
        x = class_token(self.projection(patches), self.class_token)
        x = x + learned_position_embedding(self.positions, self.grid, grid)
        x = F.dropout(x, self.dropout, self.training)
        for encoder_block in self.blocks:
            x = encoder_block(x)
        return self.head(x[:, 0])


def attention_rollout(
    attn_weights: Float[Tensor, "layer batch head token token"],
) -> Float[Tensor, "batch token token"]:
    """Follow attention through all layers: how much of each input token there is in each output token.

    Parameters
    ----------
    attn_weights
        The weights of every layer, the first one first. Each row, one for each query, sums to one over the keys.

    Returns
    -------
    Row ``i`` says how the output token ``i`` is mixed from the tokens that went into the first layer. Each row sums to
    one. Dtype as that of ``attn_weights``.

    Raises
    ------
    ValueError
        If ``attn_weights`` has not five axes, the last two of one length.

    Notes
    -----
    In each layer all heads count the same, and half of a token is taken to come from itself, through the residual. Then
    the layers' matrices are multiplied. It is a rough picture: values, feed-forward networks and norms are left out.
    ``(L - 1) * N**3`` multiply-adds for each image.

    References
    ----------
    Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (2020), section 3; Dosovitskiy et al., "An Image is
    Worth 16x16 Words: Transformers for Image Recognition at Scale" (2021), figure 6.

    Examples
    --------
    >>> first = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> second = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> attention_rollout(torch.stack([first, second])[:, None, None])[0].tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    if attn_weights.dim() != 5 or attn_weights.shape[-2] != attn_weights.shape[-1]:
        raise ValueError(
            f"attn_weights have shape {tuple(attn_weights.shape)}; it must be (layers, images, heads, tokens, tokens)."
        )
    identity = torch.eye(attn_weights.shape[-1]).to(attn_weights)
    of_layers = (attn_weights.mean(dim=2) + identity) / 2
    rollout = of_layers[0]
    for of_layer in of_layers[1:]:
        rollout = of_layer @ rollout
    return rollout
