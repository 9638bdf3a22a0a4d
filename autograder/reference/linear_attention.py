"""Reference kernels of the chapter "Linear attention"."""

import torch
from jaxtyping import Bool, Float
from torch.nn import functional as F


def matmul_cost(num_queries: int, num_keys: int, d_k: int, d_v: int) -> tuple[int, int]:
    """Count the multiply-adds of ``Q K^T V``, by which two of the three are multiplied first.

    Parameters
    ----------
    num_queries, num_keys
        Rows of ``Q``, and of ``K`` and ``V``.
    d_k, d_v
        Columns of ``Q`` and ``K``, and of ``V``.

    Returns
    -------
    left_first
        Those of ``(Q K^T) V``.
    right_first
        Those of ``Q (K^T V)``.

    Raises
    ------
    ValueError
        If a number is negative.

    Notes
    -----
    A product of an ``(a, b)`` matrix with a ``(b, c)`` matrix takes ``a * b * c``. For ``N`` queries and keys that is
    ``(d_k + d_v) * N ** 2`` against ``2 * d_k * d_v * N``.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs" (2020), section 3.2.

    Examples
    --------
    >>> matmul_cost(1000, 1000, 64, 64)
    (128000000, 8192000)
    >>> matmul_cost(3, 5, 2, 7)
    (135, 112)
    """
    if min(num_queries, num_keys, d_k, d_v) < 0:
        raise ValueError(f"The sizes are {num_queries}, {num_keys}, {d_k} and {d_v}; none may be negative.")
    left_first = num_queries * num_keys * d_k + num_queries * num_keys * d_v
    right_first = num_keys * d_k * d_v + num_queries * d_k * d_v
    return left_first, right_first


def elu_features(x: Float[torch.Tensor, "*batch d_k"]) -> Float[torch.Tensor, "*batch d_k"]:
    """Make each component of queries or keys positive: the simplest feature map of linear attention.

    Parameters
    ----------
    x
        Queries or keys, with any leading dimensions.

    Returns
    -------
    ``x + 1`` where ``x`` is above 0, else ``exp(x)``: positive, with a gradient that vanishes nowhere. Dtype as that of
    ``x``.

    Notes
    -----
    ``elu(x) + 1`` in exact numbers. In floating point that sum is 0 from -17 on in single precision, where ``exp(x)``
    is not. ``exp(x)`` of a large ``x`` that is not asked for must not spoil the gradient.
    As many multiply-adds as numbers.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs" (2020), equation 7.

    Examples
    --------
    >>> [round(number, 4) for number in elu_features(torch.tensor([-1.0, 0.0, 2.0])).tolist()]
    [0.3679, 1.0, 3.0]
    """
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


def linear_attention(
    query_features: Float[torch.Tensor, "*batch query feature"],
    key_features: Float[torch.Tensor, "*batch key feature"],
    value: Float[torch.Tensor, "*batch key d_v"],
    key_mask: Bool[torch.Tensor, "*#batch key"] | None = None,
) -> Float[torch.Tensor, "*batch query d_v"]:
    """Average the values by the dot products of positive features, without the table of all those products.

    Parameters
    ----------
    query_features, key_features
        Queries and keys after the feature map, with any leading dimensions; no component is negative.
    value
        One value for each key.
    key_mask
        True where a key is a real token; None where all are.

    Returns
    -------
    One output for each query. A query whose products with all keys are zero, or that may attend to nothing, gets the
    zero vector, and finite gradients. Dtype as that of the query's features.

    Raises
    ------
    ValueError
        If keys and values differ in number, or queries and keys in features.

    Notes
    -----
    The weight of key ``j`` for query ``i`` is ``phi(q_i) . phi(k_j)``, divided by the sum of these over all keys. The
    sum of ``phi(k_j) v_j^T`` over the keys is one small matrix, alike for all queries.
    ``2 * N * D * (d_v + 1)`` multiply-adds for ``N`` queries and keys with ``D`` features, and no tensor larger than
    what comes in and goes out, or ``D * d_v``.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs" (2020), equations 4 to 6.

    Examples
    --------
    >>> query_features, key_features = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 1.0], [3.0, 1.0]])
    >>> value = torch.tensor([[4.0], [8.0]])
    >>> linear_attention(query_features, key_features, value).flatten().tolist()
    [7.0, 6.666666507720947]
    """
    if key_features.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"There are {key_features.shape[-2]} keys and {value.shape[-2]} values; each key needs one value."
        )
    if query_features.shape[-1] != key_features.shape[-1]:
        raise ValueError(
            f"The queries have {query_features.shape[-1]} features and the keys {key_features.shape[-1]}; "
            "a dot product needs as many."
        )
    if key_mask is not None:
        key_features = key_features * key_mask.unsqueeze(-1)
    state = key_features.transpose(-2, -1) @ value  # (*batch, feature, d_v)
    key_sum = key_features.sum(-2).unsqueeze(-1)  # (*batch, feature, 1)
    normaliser = query_features @ key_sum
    reached = normaliser != 0
    return torch.where(reached, query_features @ state / torch.where(reached, normaliser, 1.0), 0.0)


def causal_linear_attention(
    query_features: Float[torch.Tensor, "*batch token feature"],
    key_features: Float[torch.Tensor, "*batch token feature"],
    value: Float[torch.Tensor, "*batch token d_v"],
    chunk_size: int,
) -> Float[torch.Tensor, "*batch token d_v"]:
    """Linear attention in which a token sees only itself and those before it, chunk by chunk.

    Parameters
    ----------
    query_features, key_features
        One sequence's queries and keys after the feature map, with any leading dimensions; no component is negative.
    value
        One value for each token.
    chunk_size
        How many tokens are taken together. The result does not depend on it.

    Returns
    -------
    One output for each token. A token whose products with all keys that it may see are zero gets the zero vector, and
    finite gradients. Dtype as that of the query's features.

    Raises
    ------
    ValueError
        If the chunk size is not at least 1.

    Notes
    -----
    What all earlier chunks hold is one matrix, the sum of ``phi(k_j) v_j^T``, and one vector, the sum of ``phi(k_j)``.
    Inside a chunk of ``C`` tokens the small table of products is made and masked.
    ``N * (2 * D * (d_v + 1) + C * (D + d_v))`` multiply-adds for ``D`` features. The largest tensor has
    ``N / C * D * d_v`` numbers, or ``N * C``; token by token, that is with ``C = 1``, it would be ``N * D * d_v``.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs" (2020), equations 8 to 12; Yang et al., "Gated Linear Attention
    Transformers with Hardware-Efficient Training" (2024), section 2.2, for the chunks.

    Examples
    --------
    >>> features, value = torch.ones(3, 1), torch.tensor([[2.0], [4.0], [9.0]])
    >>> causal_linear_attention(features, features, value, chunk_size=2).flatten().tolist()
    [2.0, 3.0, 5.0]
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; it must be at least 1.")
    length = query_features.shape[-2]
    missing = -length % chunk_size
    queries, keys, values = (
        F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, chunk_size)) for x in (query_features, key_features, value)
    )  # (*batch, chunk, token, width)
    values = F.pad(values, (0, 1), value=1.0)  # the last column sums up the weights
    states = (keys.transpose(-2, -1) @ values).cumsum(-3)
    before = F.pad(states, (0, 0, 0, 0, 1, 0))[..., :-1, :, :]  # of the chunks before
    weights = (queries @ keys.transpose(-2, -1)).tril()
    sums = (queries @ before + weights @ values).flatten(-3, -2)[..., :length, :]
    normaliser = sums[..., -1:]
    reached = normaliser != 0
    return torch.where(reached, sums[..., :-1] / torch.where(reached, normaliser, 1.0), 0.0)


def linear_attention_state(
    state: Float[torch.Tensor, "*batch feature d_v"],
    key_sum: Float[torch.Tensor, "*batch feature"],
    query_features: Float[torch.Tensor, "*batch feature"],
    key_features: Float[torch.Tensor, "*batch feature"],
    value: Float[torch.Tensor, "*batch d_v"],
) -> tuple[
    Float[torch.Tensor, "*batch d_v"],
    Float[torch.Tensor, "*batch feature d_v"],
    Float[torch.Tensor, "*batch feature"],
]:
    """Take in one token: causal linear attention as a recurrent network, whose state does not grow.

    Parameters
    ----------
    state
        The sum of ``phi(k_j) v_j^T`` over the tokens before; zeros at the start.
    key_sum
        The sum of their ``phi(k_j)``; zeros at the start.
    query_features, key_features, value
        Those of the next token, without an axis for tokens.

    Returns
    -------
    attn_output
        The token's output, which has seen the token itself; the zero vector where its products with all keys are zero.
    state, key_sum
        With the token taken in; new tensors. Dtype as that of what came in.

    Notes
    -----
    ``2 * D * (d_v + 1)`` multiply-adds and ``D * (d_v + 1)`` numbers of memory for ``D`` features, at the first token
    as at the millionth. A cache of keys and values grows by ``d_k + d_v`` numbers with each token.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs" (2020), equations 16 to 20.

    Examples
    --------
    >>> state, key_sum, feature = torch.zeros(1, 1), torch.zeros(1), torch.ones(1)
    >>> for number in (2.0, 4.0, 9.0):
    ...     attn_output, state, key_sum = linear_attention_state(
    ...         state, key_sum, feature, feature, torch.tensor([number])
    ...     )
    ...     print(attn_output.item(), state.item(), key_sum.item())
    2.0 2.0 1.0
    3.0 6.0 2.0
    5.0 15.0 3.0
    """
    state = state + key_features.unsqueeze(-1) * value.unsqueeze(-2)
    key_sum = key_sum + key_features
    normaliser = (query_features * key_sum).sum(-1, keepdim=True)
    reached = normaliser != 0
    total = (query_features.unsqueeze(-2) @ state).squeeze(-2)
    return torch.where(reached, total / torch.where(reached, normaliser, 1.0), 0.0), state, key_sum


def orthogonal_projections(
    gaussian: Float[torch.Tensor, "projection d_k"], lengths: Float[torch.Tensor, "projection"]
) -> Float[torch.Tensor, "projection d_k"]:
    """Turn random directions so that each ``d_k`` of them stand at right angles, and give each its length.

    Parameters
    ----------
    gaussian
        Independent normal numbers, one direction in each row.
    lengths
        How long each row shall be: in Performer, the lengths of other normal vectors.

    Returns
    -------
    The directions in blocks of ``d_k`` rows, the last block perhaps shorter. In each block the first row points as it
    did; from every further row its parts along the rows before it are taken away. Dtype as that of ``gaussian``.

    Raises
    ------
    ValueError
        If there is not one length for each row.

    Notes
    -----
    What Gram and Schmidt do to the rows of a block. It is the ``Q`` of a QR decomposition whose ``R`` has a positive
    diagonal; libraries do not promise those signs. Each row by itself is distributed as before, uniformly over all
    directions: only together they cover these more evenly.
    About ``2 * m * d_k ** 2`` multiply-adds for ``m`` projections.

    References
    ----------
    Choromanski et al., "Rethinking Attention with Performers" (2021), section 2.4; Mezzadri, "How to Generate Random
    Matrices from the Classical Compact Groups" (2007), section 5, for the signs.

    Examples
    --------
    >>> gaussian = torch.tensor([[3.0, 0.0], [5.0, -4.0], [0.0, 2.0]])
    >>> (orthogonal_projections(gaussian, torch.tensor([1.0, 2.0, 3.0])) + 0.0).tolist()
    [[1.0, 0.0], [0.0, -2.0], [0.0, 3.0]]
    """
    if lengths.shape != gaussian.shape[:1]:
        raise ValueError(
            f"There are {len(gaussian)} rows and lengths of shape {tuple(lengths.shape)}; each row needs one."
        )
    directions = []
    for block in gaussian.split(gaussian.shape[1]):
        orthogonal, triangle = torch.linalg.qr(block.T)
        directions.append((orthogonal * triangle.diagonal().sign()).T)
    return torch.cat(directions) * lengths[:, None]


def performer_features(
    x: Float[torch.Tensor, "*batch d_k"], projections: Float[torch.Tensor, "projection d_k"]
) -> Float[torch.Tensor, "*batch projection"]:
    """Map queries or keys to positive random features whose dot products estimate softmax attention's exponentials.

    Parameters
    ----------
    x
        Queries or keys, with any leading dimensions.
    projections
        Random directions ``w``, one in each row: normal numbers, orthogonal or independent. The same for queries and
        keys.

    Returns
    -------
    ``exp(w . y - |y| ** 2 / 2) / sqrt(m)`` for each of the ``m`` directions, where ``y = x / d_k ** 0.25``. Dtype as
    that of ``x``.

    Raises
    ------
    ValueError
        If ``x`` and the projections differ in width.

    Notes
    -----
    Over random directions the mean of ``phi(q) . phi(k)`` is ``exp(q . k / sqrt(d_k))``, the numerator of softmax
    attention: the fourth root divides queries and keys alike. The quotient of two such estimates, which attention
    needs, is right only in the limit of many directions.
    ``N * m * d_k`` multiply-adds, and a tensor of ``N * m`` numbers.

    References
    ----------
    Choromanski et al., "Rethinking Attention with Performers" (2021), lemma 1 and equation 7.

    Examples
    --------
    >>> x, projections = torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0], [1.0], [2.0]])
    >>> [[round(number, 4) for number in row] for row in performer_features(x, projections).tolist()]
    [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 3.6945]]
    """
    if x.shape[-1] != projections.shape[-1]:
        raise ValueError(f"x has width {x.shape[-1]} and the projections have width {projections.shape[-1]}.")
    scaled = x * x.shape[-1] ** -0.25
    half_square = scaled.square().sum(-1, keepdim=True) / 2
    return torch.exp(scaled @ projections.T - half_square) / len(projections) ** 0.5
