"""Reference kernels of the chapter "Attention as a layer"."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

from autograder.lazy import torch


def similarity(query: Float[torch.Tensor, "d_k"], keys: Float[torch.Tensor, "key d_k"]) -> Float[torch.Tensor, "key"]:
    """Compare one query with every key: the scaled dot products, before any softmax.

    Parameters
    ----------
    query
        What is looked for, a vector of width ``d_k``.
    keys
        What is offered, one key in each row.

    Returns
    -------
    One score for each key, large where the key points the same way as the query. Dtype as the query's.

    Raises
    ------
    ValueError
        If the query and the keys differ in width.

    Notes
    -----
    The score of key ``i`` is the sum over ``c`` of ``query[c] * keys[i, c]``, divided by the square root of ``d_k``.
    ``N_k * d_k`` multiply-adds; the largest tensor made has ``N_k`` numbers.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1.

    Examples
    --------
    >>> keys = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, -3.0, 0.0]])
    >>> similarity(torch.tensor([1.0, 1.0, 2.0, 0.0]), keys).tolist()
    [1.0, -3.0]
    """
    if query.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and the keys have width {keys.shape[-1]}; "
            "a dot product needs equal widths."
        )
    return keys @ query / math.sqrt(query.shape[-1])


def attention_weights(
    query: Float[torch.Tensor, "*batch query d_k"], key: Float[torch.Tensor, "*batch key d_k"]
) -> Float[torch.Tensor, "*batch query key"]:
    """Turn many queries and keys into weights: for each query, how much of each key's value it will take.

    Parameters
    ----------
    query
        One query in each row, with any leading dimensions (none, a batch, a batch and heads).
    key
        One key in each row, with the same leading dimensions.

    Returns
    -------
    Weights that are positive and sum to one over the keys, the last axis. Dtype as the query's.

    Raises
    ------
    ValueError
        If queries and keys differ in width.

    Notes
    -----
    The softmax over the keys of the scaled dot products. It stays finite for scores of any size.
    ``N_q * N_k * d_k`` multiply-adds for each sequence and head; the largest tensor made has ``N_q * N_k`` numbers.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), the first factor of equation 1.

    Examples
    --------
    >>> query = torch.tensor([[0.0, 0.0], [1000.0, 0.0]])
    >>> key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attention_weights(query, key).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    >>> attention_weights(torch.ones(7, 2, 3, 8), torch.ones(7, 2, 5, 8)).shape
    torch.Size([7, 2, 3, 5])
    """
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and key has width {key.shape[-1]}; a dot product needs equal widths."
        )
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (*batch, query, key)
    return torch.softmax(scores, dim=-1)


def scaled_dot_product_attention(
    query: Float[torch.Tensor, "*batch query d_k"],
    key: Float[torch.Tensor, "*batch key d_k"],
    value: Float[torch.Tensor, "*batch key d_v"],
    attn_mask: Bool[torch.Tensor, "*#batch #query #key"] | None = None,
) -> Float[torch.Tensor, "*batch query d_v"]:
    """Answer each query with the average of the values, weighted by how well their keys match it.

    Parameters
    ----------
    query
        One query in each row, with any leading dimensions (none, a batch, a batch and heads).
    key
        One key in each row, with the same leading dimensions.
    value
        One value in each row, as many as there are keys. Its width ``d_v`` may differ from ``d_k``.
    attn_mask
        True where a query may attend to a key; any shape that broadcasts to ``(*batch, N_q, N_k)``.
        None lets every query attend to every key.

    Returns
    -------
    One output for each query. A query that may attend to nothing gets the zero vector, and finite gradients.
    Dtype as the query's.

    Raises
    ------
    TypeError
        If ``attn_mask`` is not boolean: of numbers, one cannot tell whether they are to be added or to select.
    ValueError
        If queries and keys differ in width, or keys and values in number.

    Notes
    -----
    ``softmax(Q K^T / sqrt(d_k)) V``, the softmax over the keys that the mask leaves.
    ``torch.nn.functional.scaled_dot_product_attention`` reads a boolean mask in the same way and also gives zeros to a
    query that may attend to nothing; a plain softmax of a row of minus infinity gives NaN.
    ``N_q * N_k * (d_k + d_v)`` multiply-adds for each sequence and head; the largest tensor made has ``N_q * N_k``
    numbers for each.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), equation 1.

    Examples
    --------
    >>> query, key = torch.zeros(2, 4), torch.ones(3, 4)
    >>> value = torch.tensor([[1.0], [2.0], [6.0]])
    >>> scaled_dot_product_attention(query, key, value).tolist()
    [[3.0], [3.0]]
    >>> attn_mask = torch.tensor([[True, True, False], [False] * 3])
    >>> scaled_dot_product_attention(query, key, value, attn_mask).tolist()
    [[1.5], [0.0]]
    """
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and key has width {key.shape[-1]}; a dot product needs equal widths."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"There are {key.shape[-2]} keys and {value.shape[-2]} values; each key needs one value.")
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError(
            f"attn_mask has dtype {attn_mask.dtype}; it must be torch.bool, True where a query may attend to a key."
        )
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (*batch, query, key)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    attn_weights = torch.softmax(scores, dim=-1)
    if attn_mask is not None:  # a row without any True is uniform so far
        attn_weights = attn_weights.masked_fill(~attn_mask, 0.0)
    return attn_weights @ value


def cross_attention(
    X_q: Float[torch.Tensor, "*batch query d_in_q"],
    X_kv: Float[torch.Tensor, "*batch key d_in_kv"],
    W_Q: Float[torch.Tensor, "d_in_q d_k"],
    W_K: Float[torch.Tensor, "d_in_kv d_k"],
    W_V: Float[torch.Tensor, "d_in_kv d_v"],
    attn_mask: Bool[torch.Tensor, "*#batch #query #key"] | None = None,
) -> Float[torch.Tensor, "*batch query d_v"]:
    """Let one sequence look things up in another: queries from the first, keys and values from the second.

    Parameters
    ----------
    X_q
        The sequence that asks, one token in each row, with any leading dimensions.
    X_kv
        The sequence that is looked up, with the same leading dimensions; its width may differ.
    W_Q, W_K, W_V
        Projections in the layout ``(D_in, D_out)``, so that a row vector is multiplied from the left. No biases.
    attn_mask
        True where a token of ``X_q`` may attend to a token of ``X_kv``; broadcasts to ``(*batch, N_q, N_k)``.

    Returns
    -------
    One output of width ``d_v`` for each token of ``X_q``; zeros for a token that may attend to nothing.

    Raises
    ------
    ValueError
        If a sequence and its projection do not fit.

    Notes
    -----
    ``N_q * d_in_q * d_k + N_k * d_in_kv * (d_k + d_v)`` multiply-adds for the projections, and those of
    `scaled_dot_product_attention` after them.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3, "encoder-decoder attention".

    Examples
    --------
    >>> X_q, X_kv = torch.zeros(3, 2), torch.tensor([[1.0], [5.0]])
    >>> W_Q, W_K = torch.ones(2, 4), torch.ones(1, 4)
    >>> W_V = torch.tensor([[1.0, -1.0]])
    >>> cross_attention(X_q, X_kv, W_Q, W_K, W_V).tolist()
    [[3.0, -3.0], [3.0, -3.0], [3.0, -3.0]]
    """
    if X_q.shape[-1] != W_Q.shape[0]:
        raise ValueError(
            f"X_q has width {X_q.shape[-1]} and W_Q has {W_Q.shape[0]} rows; W_Q must be of shape (D_in, d_k)."
        )
    if not X_kv.shape[-1] == W_K.shape[0] == W_V.shape[0]:
        raise ValueError(
            f"X_kv has width {X_kv.shape[-1]}, W_K has {W_K.shape[0]} rows and W_V has {W_V.shape[0]}; "
            "W_K must be of shape (D_in, d_k) and W_V of shape (D_in, d_v)."
        )
    query = X_q @ W_Q
    key = X_kv @ W_K
    value = X_kv @ W_V
    return scaled_dot_product_attention(query, key, value, attn_mask)


def attention_backward(
    grad_output: Float[np.ndarray, "*batch query d_v"],
    query: Float[np.ndarray, "*batch query d_k"],
    key: Float[np.ndarray, "*batch key d_k"],
    value: Float[np.ndarray, "*batch key d_v"],
    attn_mask: Bool[np.ndarray, "*#batch #query #key"] | None = None,
) -> tuple[
    Float[np.ndarray, "*batch query d_k"],
    Float[np.ndarray, "*batch key d_k"],
    Float[np.ndarray, "*batch key d_v"],
]:
    """Carry a gradient back through scaled dot-product attention, in NumPy and by hand.

    Parameters
    ----------
    grad_output
        The gradient of the loss for the output of `scaled_dot_product_attention`.
    query, key, value, attn_mask
        What the forward pass was given; the same shapes and the same meaning, as NumPy arrays.

    Returns
    -------
    The gradients of the loss for ``query``, ``key`` and ``value``, in this order, each of the shape and dtype of its
    array. A query that may attend to nothing gets zeros and adds nothing to the others.

    Raises
    ------
    ValueError
        If ``grad_output`` does not have one row for each query and the width of the values.

    Notes
    -----
    The weights are computed again rather than handed over.
    ``N_q * N_k * (3 * d_k + 2 * d_v)`` multiply-adds for each sequence and head, those of the weights included; the
    largest arrays made have ``N_q * N_k`` numbers for each.

    References
    ----------
    Dao et al., "FlashAttention" (2022), appendix B.2, which derives the same gradients.

    Examples
    --------
    >>> query, value = np.zeros((1, 2)), np.array([[0.0], [4.0]])
    >>> key = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> gradients = attention_backward(np.ones((1, 1)), query, key, value)
    >>> for gradient in gradients:
    ...     print(gradient.round(3).tolist())
    [[-0.707, 0.707]]
    [[0.0, 0.0], [0.0, 0.0]]
    [[0.5], [0.5]]
    """
    if grad_output.shape != (*query.shape[:-1], value.shape[-1]):
        raise ValueError(
            f"grad_output has shape {grad_output.shape}; the output of these arguments has shape "
            f"{(*query.shape[:-1], value.shape[-1])}."
        )
    allowed = True if attn_mask is None else attn_mask
    scale = 1 / math.sqrt(query.shape[-1])
    scores = query @ np.swapaxes(key, -2, -1) * scale  # (*batch, query, key)
    scores = np.where(allowed, scores, np.finfo(scores.dtype).min)
    exponentials = np.where(allowed, np.exp(scores - scores.max(axis=-1, keepdims=True)), scores.dtype.type(0))
    total = exponentials.sum(axis=-1, keepdims=True)
    attn_weights = exponentials / np.where(total == 0, scores.dtype.type(1), total)

    grad_value = np.swapaxes(attn_weights, -2, -1) @ grad_output
    grad_weights = grad_output @ np.swapaxes(value, -2, -1)
    mean_gradient = (attn_weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = attn_weights * (grad_weights - mean_gradient)
    grad_query = grad_scores @ key * scale
    grad_key = np.swapaxes(grad_scores, -2, -1) @ query * scale
    return grad_query, grad_key, grad_value
