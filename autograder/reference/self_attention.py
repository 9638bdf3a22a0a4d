"""Reference kernels of the chapter "Self-attention"."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int

from autograder.reference.attention_layer import scaled_dot_product_attention


def self_attention(
    X: Float[torch.Tensor, "*batch token d_in"],
    W_Q: Float[torch.Tensor, "d_in d_k"],
    W_K: Float[torch.Tensor, "d_in d_k"],
    W_V: Float[torch.Tensor, "d_in d_v"],
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Let every token of a sequence look things up in that same sequence.

    Parameters
    ----------
    X
        The sequence, one token in each row, with any leading dimensions.
    W_Q, W_K, W_V
        Projections in the layout ``(D_in, D_out)``, so that a row vector is multiplied from the left. No biases.

    Returns
    -------
    One output of width ``d_v`` for each token. Dtype as that of ``X``.

    Raises
    ------
    ValueError
        If the sequence and its projections do not fit.

    Notes
    -----
    Reorder the tokens and the outputs are reordered in the same way: the layer is permutation equivariant.
    ``N * D_in * (2 * d_k + d_v)`` multiply-adds for the projections and ``N * N * (d_k + d_v)`` for the attention, for
    each sequence; the largest tensor made has ``N * N`` numbers for each, where ``N`` exceeds the widths.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3, the self-attention of the encoder.

    Examples
    --------
    >>> X = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    >>> W_Q, W_K = torch.zeros(2, 4), torch.ones(2, 4)
    >>> W_V = torch.tensor([[2.0], [4.0]])
    >>> self_attention(X, W_Q, W_K, W_V).tolist()
    [[7.0], [7.0]]
    """
    if not X.shape[-1] == W_Q.shape[0] == W_K.shape[0] == W_V.shape[0]:
        raise ValueError(
            f"X has width {X.shape[-1]}; W_Q, W_K and W_V have {W_Q.shape[0]}, {W_K.shape[0]} and {W_V.shape[0]} rows. "
            "All four must be equal, because each projection is of shape (D_in, D_out)."
        )
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    return scaled_dot_product_attention(query, key, value)


def fused_qkv(
    X: Float[torch.Tensor, "*batch token d_in"],
    W_Q: Float[torch.Tensor, "d_in d_k"],
    W_K: Float[torch.Tensor, "d_in d_k"],
    W_V: Float[torch.Tensor, "d_in d_v"],
) -> tuple[
    Float[torch.Tensor, "*batch token d_k"],
    Float[torch.Tensor, "*batch token d_k"],
    Float[torch.Tensor, "*batch token d_v"],
]:
    """Compute queries, keys and values with a single matrix product.

    Parameters
    ----------
    X
        The sequence, one token in each row, with any leading dimensions.
    W_Q, W_K, W_V
        Projections in the layout ``(D_in, D_out)``. The width ``d_v`` may differ from ``d_k``.

    Returns
    -------
    Queries, keys and values, in this order: the same numbers as ``X @ W_Q``, ``X @ W_K`` and ``X @ W_V``.

    Raises
    ------
    ValueError
        If the projections differ in their number of rows.

    Notes
    -----
    The same ``N * D_in * (2 * d_k + d_v)`` multiply-adds as three products, in one call. The largest tensor made has
    ``N * (2 * d_k + d_v)`` numbers, or the ``D_in * (2 * d_k + d_v)`` of the joined matrix. A layer keeps that matrix
    joined, as ``in_proj_weight`` of ``nn.MultiheadAttention`` is (there in the layout (out, in)).

    References
    ----------
    Any text on block matrices: ``X [A B] = [XA XB]``.

    Examples
    --------
    >>> X = torch.tensor([[1.0, 2.0]])
    >>> W_Q, W_K, W_V = torch.eye(2), 10 * torch.eye(2), torch.tensor([[1.0], [1.0]])
    >>> for part in fused_qkv(X, W_Q, W_K, W_V):
    ...     print(part.tolist())
    [[1.0, 2.0]]
    [[10.0, 20.0]]
    [[3.0]]
    """
    if not W_Q.shape[0] == W_K.shape[0] == W_V.shape[0]:
        raise ValueError(
            f"W_Q, W_K and W_V have {W_Q.shape[0]}, {W_K.shape[0]} and {W_V.shape[0]} rows; "
            "to stand side by side they need equally many."
        )
    projected = X @ torch.cat([W_Q, W_K, W_V], dim=1)  # (*batch, token, 2 * d_k + d_v)
    return projected.split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)


def sinusoidal_positions(length: int, d_model: int) -> Float[torch.Tensor, "token d_model"]:
    """Encode each position as sines and cosines of angles that grow with it, from fast to slow.

    Parameters
    ----------
    length
        How many positions, counted from 0.
    d_model
        Width of an encoding; it may be odd, and then the last sine has no cosine beside it.

    Returns
    -------
    One encoding in each row, in single precision.

    Raises
    ------
    ValueError
        If ``length`` is negative or ``d_model`` is not positive.

    Notes
    -----
    Column ``2 * i`` of row ``t`` is ``sin(t / 10000 ** (2 * i / d_model))`` and column ``2 * i + 1`` is the cosine of
    the same angle. There is no largest length. ``length * d_model`` numbers in time and memory.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.5.

    Examples
    --------
    >>> for row in sinusoidal_positions(2, 5).tolist():
    ...     print([round(number, 4) for number in row])
    [0.0, 1.0, 0.0, 1.0, 0.0]
    [0.8415, 0.5403, 0.0251, 0.9997, 0.0006]
    """
    if length < 0 or d_model < 1:
        raise ValueError(f"length is {length} and d_model is {d_model}; they must be at least 0 and 1.")
    positions = torch.arange(length, dtype=torch.float32)[:, None]
    frequencies = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)
    angles = positions * frequencies  # (token, pair)
    encodings = torch.zeros(length, d_model)
    encodings[:, 0::2] = torch.sin(angles)
    encodings[:, 1::2] = torch.cos(angles[:, : d_model // 2])
    return encodings


def causal_mask(num_queries: int, num_keys: int) -> Bool[torch.Tensor, "query key"]:
    """Let each query attend to its own position and to those before it.

    Parameters
    ----------
    num_queries, num_keys
        How many there are. The last query stands at the position of the last key, also where the numbers differ.

    Returns
    -------
    A boolean mask, True where a query may attend to a key.

    Raises
    ------
    ValueError
        If a number is negative.

    Notes
    -----
    The triangle is aligned at the lower right, as decoding with a cache needs it: new queries, all keys so far.
    ``is_causal=True`` of ``torch.nn.functional.scaled_dot_product_attention`` is aligned at the upper left.
    With fewer keys than queries the first queries may attend to nothing. ``N_q * N_k`` booleans.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3, the self-attention of the decoder.

    Examples
    --------
    >>> causal_mask(2, 4).int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    >>> causal_mask(3, 2).int().tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    if num_queries < 0 or num_keys < 0:
        raise ValueError(f"num_queries is {num_queries} and num_keys is {num_keys}; neither may be negative.")
    query_positions = torch.arange(num_queries) + num_keys - num_queries
    return torch.arange(num_keys) <= query_positions[:, None]


def padding_mask(lengths: Int[torch.Tensor, "batch"], num_keys: int) -> Bool[torch.Tensor, "batch key"]:
    """Tell real tokens from the padding behind them.

    Parameters
    ----------
    lengths
        How many real tokens each sequence has, 0 included.
    num_keys
        How many tokens there are with the padding; it may be more than the longest sequence has.

    Returns
    -------
    A boolean mask, True where a key is a real token: the ``key_mask`` of `masked_self_attention`.

    Raises
    ------
    ValueError
        If a length is negative or above ``num_keys``.

    Notes
    -----
    ``key_padding_mask`` of ``nn.MultiheadAttention`` means the opposite, True for padding. ``B * N_k`` booleans.

    References
    ----------
    None is needed; every batch of unequal sentences has one.

    Examples
    --------
    >>> padding_mask(torch.tensor([2, 0, 3]), 3).int().tolist()
    [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    """
    if ((lengths < 0) | (lengths > num_keys)).any():
        raise ValueError(f"The lengths are {lengths.tolist()}; each must be from 0 to num_keys, which is {num_keys}.")
    return torch.arange(num_keys) < lengths[:, None]


def masked_self_attention(
    X: Float[torch.Tensor, "*batch token d_in"],
    W_Q: Float[torch.Tensor, "d_in d_k"],
    W_K: Float[torch.Tensor, "d_in d_k"],
    W_V: Float[torch.Tensor, "d_in d_v"],
    causal: bool = False,
    key_mask: Bool[torch.Tensor, "*#batch token"] | None = None,
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Self-attention in which a token may be kept from the tokens after it, and from padding.

    Parameters
    ----------
    X
        The sequence, one token in each row, with any leading dimensions.
    W_Q, W_K, W_V
        Projections in the layout ``(D_in, D_out)``. No biases.
    causal
        Whether a token may attend only to itself and to tokens before it.
    key_mask
        True where a token is real and not padding; None where all are. A token may attend to another if both masks
        allow it.

    Returns
    -------
    One output for each token; zeros for a token that may attend to nothing, with finite gradients. A padded token has
    an output like any other, from the real tokens that it may attend to; whoever reads it makes the mistake.

    Raises
    ------
    TypeError
        If ``key_mask`` is not boolean: of numbers, one cannot tell whether they are to be added or to select.
    ValueError
        If ``key_mask`` does not have one entry for each token.

    Notes
    -----
    The work of `self_attention`: masked scores are computed too, and then thrown away.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3.

    Examples
    --------
    >>> X, W_V = torch.tensor([[[2.0], [4.0], [9.0]]]), torch.ones(1, 1)
    >>> W_Q = W_K = torch.zeros(1, 4)
    >>> masked_self_attention(X, W_Q, W_K, W_V, causal=True).tolist()
    [[[2.0], [3.0], [5.0]]]
    >>> key_mask = torch.tensor([[False, True, True]])
    >>> masked_self_attention(X, W_Q, W_K, W_V, causal=True, key_mask=key_mask).tolist()
    [[[0.0], [4.0], [6.5]]]
    """
    if key_mask is not None and key_mask.dtype != torch.bool:
        raise TypeError(f"key_mask has dtype {key_mask.dtype}; it must be torch.bool, True where a token is real.")
    if key_mask is not None and key_mask.shape[-1] != X.shape[-2]:
        raise ValueError(f"key_mask has {key_mask.shape[-1]} entries in a row and X has {X.shape[-2]} tokens.")
    length = X.shape[-2]
    attn_mask = causal_mask(length, length) if causal else torch.ones(length, length, dtype=torch.bool)
    if key_mask is not None:
        attn_mask = attn_mask & key_mask[..., None, :]  # (*batch, query, key)
    query, key, value = fused_qkv(X, W_Q, W_K, W_V)
    return scaled_dot_product_attention(query, key, value, attn_mask)
