"""Reference kernels of the chapter "Sparse attention"."""

import torch
from jaxtyping import Bool, Float, Int
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention


def local_attention(
    query: Float[torch.Tensor, "*batch token d_k"],
    key: Float[torch.Tensor, "*batch token d_k"],
    value: Float[torch.Tensor, "*batch token d_v"],
    window: int,
    causal: bool = False,
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Let each token attend to its neighbours alone, block by block, without the matrix of all pairs.

    Parameters
    ----------
    query, key, value
        One sequence's queries, keys and values, with any leading dimensions.
    window
        How far a token sees: token ``i`` attends to token ``j`` if ``|i - j| < window``. So 1 is the token alone.
    causal
        Whether a token sees only itself and those before it: ``0 <= i - j < window``.

    Returns
    -------
    One output for each token. Dtype as the query's.

    Raises
    ------
    ValueError
        If the window is not at least 1.

    Notes
    -----
    The queries stand in blocks of ``window``. A block's queries reach into the block before it and, unless the
    attention is causal, into the one behind it, and no further. The scores are those of a block with two or three
    blocks of keys: ``N * 3 * window * (d_k + d_v)`` multiply-adds, and a largest tensor of ``N * 3 * window`` or
    ``N * 3 * d_k`` numbers. Elsewhere a window may count the tokens on
    one side without the token itself, or those on both sides together.

    References
    ----------
    Beltagy et al., "Longformer: The Long-Document Transformer" (2020), section 3.1, "Sliding Window".

    Examples
    --------
    >>> query = key = torch.zeros(5, 2)
    >>> value = torch.tensor([[1.0], [2.0], [3.0], [4.0], [8.0]])
    >>> local_attention(query, key, value, 2)[:, 0].tolist()
    [1.5, 2.0, 3.0, 5.0, 6.0]
    >>> local_attention(query, key, value, 2, causal=True)[:, 0].tolist()
    [1.0, 1.5, 2.5, 3.5, 6.0]
    """
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1, for a token sees itself.")
    length = query.shape[-2]
    blocks = -(-length // window)
    missing = blocks * window - length
    ahead = 0 if causal else window
    span = 2 * window + ahead  # keys that the queries of a block can see
    query_blocks = F.pad(query, (0, 0, 0, missing)).unflatten(-2, (blocks, window))
    key_blocks, value_blocks = (
        F.pad(x, (0, 0, window, missing + ahead)).unfold(-2, span, window).transpose(-2, -1) for x in (key, value)
    )  # (*batch, block, span, width)
    distance = torch.arange(window)[:, None] + window - torch.arange(span)  # i - j, alike in each block
    near = distance.abs() < window
    if causal:
        near = near & (distance >= 0)
    position = torch.arange(blocks)[:, None] * window - window + torch.arange(span)
    real = (position >= 0) & (position < length)
    attn_output = scaled_dot_product_attention(query_blocks, key_blocks, value_blocks, near & real[:, None, :])
    return attn_output.flatten(-3, -2)[..., :length, :]


def strided_attention(
    query: Float[torch.Tensor, "*batch token d_k"],
    key: Float[torch.Tensor, "*batch token d_k"],
    value: Float[torch.Tensor, "*batch token d_v"],
    stride: int,
    causal: bool = False,
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Let each token attend to every ``stride``-th token, counted from itself.

    Parameters
    ----------
    query, key, value
        One sequence's queries, keys and values, with any leading dimensions.
    stride
        Token ``i`` attends to token ``j`` if ``i - j`` is a multiple of it, to the left or to the right.
    causal
        Whether a token sees only itself and those before it.

    Returns
    -------
    One output for each token. Dtype as the query's.

    Raises
    ------
    ValueError
        If the stride is not at least 1.

    Notes
    -----
    Tokens that leave the same remainder see each other and nobody else: ``stride`` short sequences, each with full
    attention. ``N * ceil(N / stride) * (d_k + d_v)`` multiply-adds, and a largest tensor of ``N * ceil(N / stride)``
    numbers. A stride near the square root of N makes that ``N ** 1.5``.

    References
    ----------
    Child et al., "Generating Long Sequences with Sparse Transformers" (2019), section 4.3, one of the two heads of
    "strided attention"; the other is a causal window.

    Examples
    --------
    >>> query = key = torch.zeros(5, 2)
    >>> value = torch.tensor([[1.0], [2.0], [3.0], [4.0], [8.0]])
    >>> strided_attention(query, key, value, 2)[:, 0].tolist()
    [4.0, 3.0, 4.0, 3.0, 4.0]
    >>> strided_attention(query, key, value, 2, causal=True)[:, 0].tolist()
    [1.0, 2.0, 2.0, 3.0, 4.0]
    """
    if stride < 1:
        raise ValueError(f"stride is {stride}; it must be at least 1.")
    length = query.shape[-2]
    rows = -(-length // stride)
    query_classes, key_classes, value_classes = (
        F.pad(x, (0, 0, 0, rows * stride - length)).unflatten(-2, (rows, stride)).transpose(-3, -2)
        for x in (query, key, value)
    )  # (*batch, remainder, row, width)
    position = torch.arange(rows * stride).reshape(rows, stride).T  # (remainder, row)
    attn_mask = (position < length)[:, None, :]
    if causal:
        attn_mask = attn_mask & (position[:, None, :] <= position[:, :, None])
    attn_output = scaled_dot_product_attention(query_classes, key_classes, value_classes, attn_mask)
    return attn_output.transpose(-3, -2).flatten(-3, -2)[..., :length, :]


def global_attention(
    query: Float[torch.Tensor, "*batch token d_k"],
    key: Float[torch.Tensor, "*batch token d_k"],
    value: Float[torch.Tensor, "*batch token d_v"],
    positions: Int[torch.Tensor, "special"],
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Let all tokens meet in a few special tokens of the sequence: these see every token, and every token sees these.

    Parameters
    ----------
    query, key, value
        One sequence's queries, keys and values, with any leading dimensions.
    positions
        Where the special tokens stand, in any order, without repetition.

    Returns
    -------
    One output for each token. A token that is not special takes from the special ones only, not even from itself; where
    there is no special token, it gets the zero vector. Dtype as the query's.

    Raises
    ------
    ValueError
        If a position is repeated, or is not one of the sequence's.

    Notes
    -----
    ``2 * N * G * (d_k + d_v)`` multiply-adds for ``G`` special tokens, and a largest tensor of ``N * G`` numbers, or of
    the sequence itself.

    References
    ----------
    Zaheer et al., "Big Bird: Transformers for Longer Sequences" (2020), section 2, "internal transformer construction".

    Examples
    --------
    >>> query = key = torch.zeros(4, 2)
    >>> value = torch.tensor([[1.0], [2.0], [4.0], [9.0]])
    >>> global_attention(query, key, value, torch.tensor([2]))[:, 0].tolist()
    [4.0, 4.0, 4.0, 4.0]
    >>> global_attention(query, key, value, torch.tensor([0, 3]))[:, 0].tolist()
    [4.0, 5.0, 5.0, 4.0]
    """
    if len(positions.unique()) < len(positions) or ((positions < 0) | (positions >= query.shape[-2])).any():
        raise ValueError(
            f"positions are {positions.tolist()}; they must be different, from 0 to {query.shape[-2] - 1}."
        )
    seen_by_all = scaled_dot_product_attention(query, key[..., positions, :], value[..., positions, :])
    seeing_all = scaled_dot_product_attention(query[..., positions, :], key, value)
    return seen_by_all.index_copy(-2, positions, seeing_all)


def external_global_attention(
    query: Float[torch.Tensor, "*batch token d_k"],
    key: Float[torch.Tensor, "*batch token d_k"],
    value: Float[torch.Tensor, "*batch token d_v"],
    global_query: Float[torch.Tensor, "*batch special d_k"],
    global_key: Float[torch.Tensor, "*batch special d_k"],
    global_value: Float[torch.Tensor, "*batch special d_v"],
) -> tuple[Float[torch.Tensor, "*batch token d_v"], Float[torch.Tensor, "*batch special d_v"]]:
    """Let all tokens meet in special tokens that stand beside the sequence.

    Parameters
    ----------
    query, key, value
        One sequence's queries, keys and values, with any leading dimensions.
    global_query, global_key, global_value
        Those of the special tokens, with the same leading dimensions.

    Returns
    -------
    attn_output
        One output for each token of the sequence, which sees the special tokens and nothing else.
    global_output
        One output for each special token, which sees the special tokens and the sequence, in one softmax.

    Raises
    ------
    ValueError
        If the special tokens' keys and values differ in number.

    Notes
    -----
    ``(2 * N + G) * G * (d_k + d_v)`` multiply-adds for ``G`` special tokens, and a largest tensor of ``(N + G) * G``
    numbers, or of the keys.

    References
    ----------
    Zaheer et al., "Big Bird: Transformers for Longer Sequences" (2020), section 2, "extended transformer construction";
    Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers" (2020), section 3.

    Examples
    --------
    >>> query, key, value = torch.zeros(3, 2), torch.zeros(3, 2), torch.tensor([[1.0], [2.0], [6.0]])
    >>> special = torch.zeros(1, 2)
    >>> outputs = external_global_attention(query, key, value, special, special, torch.tensor([[-1.0]]))
    >>> [output[:, 0].tolist() for output in outputs]
    [[-1.0, -1.0, -1.0], [2.0]]
    """
    if global_key.shape[-2] != global_value.shape[-2]:
        raise ValueError(
            f"There are {global_key.shape[-2]} global keys and {global_value.shape[-2]} global values; "
            "each key needs one value."
        )
    attn_output = scaled_dot_product_attention(query, global_key, global_value)
    every_key, every_value = torch.cat([global_key, key], dim=-2), torch.cat([global_value, value], dim=-2)
    return attn_output, scaled_dot_product_attention(global_query, every_key, every_value)


def longformer_attention(
    query: Float[torch.Tensor, "*batch token d_k"],
    key: Float[torch.Tensor, "*batch token d_k"],
    value: Float[torch.Tensor, "*batch token d_v"],
    window: int,
    positions: Int[torch.Tensor, "special"],
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Let each token attend to its neighbours and to the special tokens, in one softmax that counts each key once.

    Parameters
    ----------
    query, key, value
        One sequence's queries, keys and values, with any leading dimensions.
    window
        Token ``i`` attends to token ``j`` if ``|i - j| < window``.
    positions
        Where the special tokens stand, in any order, without repetition. They see every token, and every token sees
        them.

    Returns
    -------
    One output for each token. Dtype as the query's.

    Raises
    ------
    ValueError
        If the window is not at least 1, or a position is repeated or is not one of the sequence's.

    Notes
    -----
    The pattern of `local_attention` and that of `global_attention`, joined. A special token may stand in a window too;
    it must not count twice. Longformer gives the special tokens projections of their own, which this leaves out.
    ``N * (3 * window + 2 * G) * (d_k + d_v)`` multiply-adds for ``G`` special tokens, and a largest tensor of
    ``N * (3 * window + G)`` numbers, or as many blocks of keys.

    References
    ----------
    Beltagy et al., "Longformer: The Long-Document Transformer" (2020), section 3.1, "Global Attention".

    Examples
    --------
    >>> query = key = torch.zeros(5, 2)
    >>> value = torch.tensor([[1.0], [2.0], [3.0], [4.0], [10.0]])
    >>> longformer_attention(query, key, value, 2, torch.tensor([0]))[:, 0].tolist()
    [4.0, 2.0, 2.5, 4.5, 5.0]
    """
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1, for a token sees itself.")
    if len(positions.unique()) < len(positions) or ((positions < 0) | (positions >= query.shape[-2])).any():
        raise ValueError(
            f"positions are {positions.tolist()}; they must be different, from 0 to {query.shape[-2] - 1}."
        )
    length = query.shape[-2]
    blocks = -(-length // window)
    missing = blocks * window - length
    span = 3 * window
    query_blocks = F.pad(query, (0, 0, 0, missing)).unflatten(-2, (blocks, window))

    def seen(x):
        """What a block can see: the special tokens, then the tokens of three blocks."""
        near = F.pad(x, (0, 0, window, missing + window)).unfold(-2, span, window).transpose(-2, -1)
        special = x[..., None, positions, :].expand(*near.shape[:-2], -1, -1)
        return torch.cat([special, near], dim=-2)

    distance = torch.arange(window)[:, None] + window - torch.arange(span)
    position = torch.arange(blocks)[:, None] * window - window + torch.arange(span)
    ordinary = (position >= 0) & (position < length) & ~torch.isin(position, positions)
    near = (distance.abs() < window) & ordinary[:, None, :]  # (block, window, span)
    attn_mask = F.pad(near, (len(positions), 0), value=True)
    attn_output = scaled_dot_product_attention(query_blocks, seen(key), seen(value), attn_mask)
    attn_output = attn_output.flatten(-3, -2)[..., :length, :]
    seeing_all = scaled_dot_product_attention(query[..., positions, :], key, value)
    return attn_output.index_copy(-2, positions, seeing_all)


def sparse_pattern(
    length: int,
    window: int = 0,
    stride: int = 0,
    positions: Int[torch.Tensor, "special"] | None = None,
    random_keys: Int[torch.Tensor, "token random"] | None = None,
    causal: bool = False,
) -> Bool[torch.Tensor, "token token"]:
    """Write a sparse pattern down as the mask that full attention would need for it: the union of its parts.

    Parameters
    ----------
    length
        How many tokens the sequence has.
    window
        Token ``i`` sees token ``j`` if ``|i - j| < window``. 0 leaves this part out, as it does for the next.
    stride
        Token ``i`` sees token ``j`` if ``i - j`` is a multiple of it.
    positions
        Special tokens, which see every token and are seen by every token.
    random_keys
        In row ``i`` the tokens that token ``i`` sees besides, repetitions allowed.
    causal
        Whether, of all that, a token keeps only itself and those before it.

    Returns
    -------
    A boolean mask, True where token ``i`` (row) may attend to token ``j`` (column).

    Raises
    ------
    ValueError
        If length, window or stride is negative.

    Notes
    -----
    To draw a pattern and to test the kernels that never make this matrix: ``N ** 2`` booleans.
    Window and stride are the Sparse Transformer's pattern, window and special tokens Longformer's, and random keys make
    it Big Bird's.

    References
    ----------
    Child et al. (2019), section 4.2; Beltagy et al. (2020), figure 2; Zaheer et al. (2020), figure 1.

    Examples
    --------
    >>> sparse_pattern(4, window=1, positions=torch.tensor([0])).int().tolist()
    [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    >>> sparse_pattern(4, window=2, stride=3, causal=True).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]
    """
    if min(length, window, stride) < 0:
        raise ValueError(f"length is {length}, window {window} and stride {stride}; none may be negative.")
    distance = torch.arange(length)[:, None] - torch.arange(length)
    pattern = distance.abs() < window
    if stride:
        pattern = pattern | (distance % stride == 0)
    if positions is not None:
        special = torch.isin(torch.arange(length), positions)
        pattern = pattern | special | special[:, None]
    if random_keys is not None:
        pattern = pattern.scatter(1, random_keys, True)
    return pattern & (distance >= 0) if causal else pattern


def pattern_reachability(pattern: Bool[torch.Tensor, "token token"], causal: bool = False) -> int:
    """Count the layers until what any token knows can have come to every other.

    Parameters
    ----------
    pattern
        True where token ``i`` (row) attends to token ``j`` (column) in a layer; the same in each layer. A token keeps
        what it has, by the residual connection, also where the pattern lets it not attend to itself.
    causal
        Whether only the tokens before a token need to reach it.

    Returns
    -------
    The smallest number of layers after which every token has something of every token (of every earlier one, where
    causal); 0 for a single token, -1 if no number of layers is enough.

    Raises
    ------
    ValueError
        If the pattern is not square.

    Notes
    -----
    After ``n`` layers, token ``i`` has something of token ``j`` if a walk of ``n`` steps or fewer leads from ``i`` to
    ``j``. It counts whether a path is there, not how much comes along it. At most ``N`` products of ``N x N``
    matrices: ``N ** 4`` multiply-adds at worst, ``L * N ** 3`` for a pattern that needs ``L`` layers.

    References
    ----------
    Child et al. (2019), section 4.2, asks for such paths; Zaheer et al. (2020), section 2, for short ones.

    Examples
    --------
    >>> pattern_reachability(sparse_pattern(9, window=2))
    8
    >>> pattern_reachability(sparse_pattern(9, window=2, positions=torch.tensor([4])))
    2
    >>> pattern_reachability(sparse_pattern(9, stride=2))
    -1
    """
    if pattern.ndim != 2 or pattern.shape[0] != pattern.shape[1]:
        raise ValueError(f"pattern has shape {tuple(pattern.shape)}; it must have a row and a column for each token.")
    itself = torch.eye(len(pattern), dtype=torch.bool)
    wanted = torch.ones_like(pattern).tril() if causal else torch.ones_like(pattern)
    steps = (pattern | itself).double()
    reached, layers = itself, 0
    while not (reached | ~wanted).all():
        further = reached.double() @ steps > 0
        if further.equal(reached):
            return -1
        reached, layers = further, layers + 1
    return layers
