"""Reference kernels of the chapter "Multi-head attention"."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention


def split_heads(
    x: Float[Tensor, "*batch length d_model"], num_heads: int
) -> Float[Tensor, "*batch head length d_head"]:
    """Cut each token's vector into one piece for each head, and give the heads an axis before the tokens.

    Parameters
    ----------
    x
        One token in each row, with any leading dimensions.
    num_heads
        Into how many pieces each vector is cut. Piece ``h`` holds the components from ``h * d_head`` on.

    Returns
    -------
    The same numbers, ``d_head = d_model / num_heads`` of each token for each head. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If ``num_heads`` does not divide the width.

    Notes
    -----
    No arithmetic, and no copy: a view of ``x`` will do.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    >>> split_heads(x, 2).tolist()
    [[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]
    >>> split_heads(torch.zeros(7, 5, 12), 3).shape
    torch.Size([7, 3, 5, 4])
    """
    if num_heads < 1 or x.shape[-1] % num_heads:
        raise ValueError(f"x has width {x.shape[-1]}, which {num_heads} heads do not divide into equal whole parts.")
    pieces = x.unflatten(-1, (num_heads, -1))  # (*batch, length, head, d_head)
    return pieces.transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*batch head length d_head"]) -> Float[Tensor, "*batch length d_model"]:
    """Lay the heads' vectors of each token end to end: the inverse of `split_heads`.

    Parameters
    ----------
    x
        One vector for each head and token, with any leading dimensions.

    Returns
    -------
    One vector of width ``d_model = num_heads * d_head`` for each token, head 0 first. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If ``x`` has fewer than three axes.

    Notes
    -----
    No arithmetic. The numbers are copied once, since they do not lie in this order in memory.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2, "Concat".

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]])
    >>> merge_heads(x).tolist()
    [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    """
    if x.dim() < 3:
        raise ValueError(f"x has shape {tuple(x.shape)}; the last three axes must be (head, length, d_head).")
    tokens_first = x.transpose(-3, -2)  # (*batch, length, head, d_head)
    return tokens_first.flatten(-2)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own projection of the tokens, and one projection of their outputs.

    Parameters
    ----------
    d_model
        Width of the tokens that come in and go out.
    num_heads
        How many attentions there are, each of width ``d_head = d_model / num_heads``.

    Raises
    ------
    ValueError
        If ``num_heads`` does not divide ``d_model``.

    Notes
    -----
    The parameters have the names and the layout of ``torch.nn.MultiheadAttention``, so that the state dict of one loads
    into the other: ``in_proj_weight`` holds the projections for query, key and value below each other, each of shape
    (out, in), and ``in_proj_bias`` their biases.
    ``2 * (N_q + N_k) * d_model**2 + 2 * N_q * N_k * d_model`` multiply-adds for each sequence, whatever the number of
    heads; the scores are ``num_heads * N_q * N_k`` numbers.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.

    Examples
    --------
    >>> layer = MultiHeadAttention(d_model=12, num_heads=3)
    >>> tokens = torch.zeros(7, 5, 12)
    >>> layer(tokens, tokens, tokens).shape
    torch.Size([7, 5, 12])
    """

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model is {d_model}, which {num_heads} heads do not divide into equal whole parts.")
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Float[Tensor, "*batch query d_model"],
        key: Float[Tensor, "*batch key d_model"],
        value: Float[Tensor, "*batch key d_model"],
        attn_mask: Bool[Tensor, "*#batch #query #key"] | None = None,
        key_mask: Bool[Tensor, "*batch key"] | None = None,
    ) -> Float[Tensor, "*batch query d_model"]:
        """Project, split into heads, attend in each, merge, project.

        Parameters
        ----------
        query, key, value
            Tokens before any projection. For self-attention all three are the same tensor.
        attn_mask
            True where a query may attend to a key, the same for all heads; broadcasts to ``(*batch, N_q, N_k)``.
        key_mask
            True where a key is a real token, False where it is padding. A query may attend where both masks say so.

        Returns
        -------
        One output for each query. Where a query may attend to nothing, each head gives zeros, so that the output is the
        bias of ``out_proj``. Dtype as the query's.

        Raises
        ------
        TypeError
            If a mask is not boolean: of numbers, one cannot tell whether they are to be added or to select.

        Notes
        -----
        The boolean ``attn_mask`` and ``key_padding_mask`` of ``torch.nn.MultiheadAttention`` mean the opposite: True is
        blocked. For a query that may attend to nothing it gives NaN with ``need_weights=True``, its default, and the
        bias of ``out_proj`` with ``need_weights=False``.
        """
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            raise TypeError(
                f"attn_mask has dtype {attn_mask.dtype}; it must be torch.bool, True where a query may attend to a key."
            )
        if key_mask is not None and key_mask.dtype != torch.bool:
            raise TypeError(f"key_mask has dtype {key_mask.dtype}; it must be torch.bool, True where a key is a token.")
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        projected = (F.linear(x, W, b) for x, W, b in zip((query, key, value), weights, biases, strict=True))
        Q, K, V = (split_heads(x, self.num_heads) for x in projected)  # (*batch, head, length, d_head)
        allowed = None if attn_mask is None else attn_mask.unsqueeze(-3)  # an axis for the heads
        if key_mask is not None:
            real = key_mask[..., None, None, :]  # axes for the heads and the queries
            allowed = real if allowed is None else allowed & real
        attn_output = scaled_dot_product_attention(Q, K, V, allowed)
        return self.out_proj(merge_heads(attn_output))


def attention_as_four_matmuls(
    X: Float[Tensor, "*batch length d_model"],
    W_QKV: Float[Tensor, "d_model 3*d_model"],
    W_O: Float[Tensor, "d_model d_model"],
    num_heads: int,
) -> Float[Tensor, "*batch length d_model"]:
    """Multi-head self-attention in four matrix products and one softmax, all heads at once.

    Parameters
    ----------
    X
        One token in each row, with any leading dimensions.
    W_QKV
        The projections for queries, keys and values side by side, in this order, each of shape ``(d_model, d_model)``.
    W_O
        The projection of the merged outputs. No biases, no mask.
    num_heads
        How many heads there are.

    Returns
    -------
    One output for each token. Dtype as that of ``X``.

    Raises
    ------
    ValueError
        If ``W_QKV`` does not hold three projections of the tokens' width.

    Notes
    -----
    Each product is one operation of PyTorch (``@``, ``torch.matmul``, ``torch.einsum``, ``torch.bmm``) over all
    sequences and heads; the check counts them. ``4 * N * d_model**2 + 2 * N**2 * d_model`` multiply-adds for each
    sequence.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), sections 3.2.1 and 3.2.2.

    Examples
    --------
    >>> X = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
    >>> W_QKV = torch.cat([torch.zeros(2, 4), torch.eye(2)], dim=1)  # all scores are zero
    >>> attention_as_four_matmuls(X, W_QKV, 10 * torch.eye(2), num_heads=2).tolist()
    [[20.0, 10.0], [20.0, 10.0]]
    """
    if W_QKV.shape != (X.shape[-1], 3 * X.shape[-1]):
        raise ValueError(
            f"W_QKV has shape {tuple(W_QKV.shape)}; for tokens of width {X.shape[-1]} it must be "
            f"({X.shape[-1]}, {3 * X.shape[-1]})."
        )
    Q, K, V = (split_heads(part, num_heads) for part in (X @ W_QKV).chunk(3, dim=-1))
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])  # (*batch, head, query, key)
    attn_output = torch.softmax(scores, dim=-1) @ V
    return merge_heads(attn_output) @ W_O


def attention_flops(batch: int, num_queries: int, num_keys: int, num_heads: int, d_head: int) -> int:
    """Count the floating-point operations in the matrix products of one multi-head attention layer.

    Parameters
    ----------
    batch, num_queries, num_keys
        Number of sequences; tokens that ask, and tokens that are looked up, in each.
    num_heads, d_head
        Number of heads and width of one; tokens have width ``d_model = num_heads * d_head``.

    Returns
    -------
    Multiplications and additions of the projections of queries, keys, values and output, of the scores and of the
    weighted means. Softmax, scale and biases are not counted.

    Raises
    ------
    ValueError
        If a size is less than one.

    Notes
    -----
    A product of matrices of shapes ``(n, m)`` and ``(m, p)`` takes ``n * m * p`` multiply-adds, and one multiply-add is
    two operations, as ``torch.utils.flop_counter`` counts.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), table 1, which leaves the projections out.

    Examples
    --------
    >>> attention_flops(batch=1, num_queries=1, num_keys=1, num_heads=1, d_head=1)
    12
    >>> attention_flops(32, 128, 128, num_heads=8, d_head=64) == attention_flops(32, 128, 128, num_heads=4, d_head=128)
    True
    """
    if min(batch, num_queries, num_keys, num_heads, d_head) < 1:
        raise ValueError(f"Sizes are {(batch, num_queries, num_keys, num_heads, d_head)}; each must be at least 1.")
    width = num_heads * d_head
    projections = 2 * (num_queries + num_keys) * width**2
    scores_and_means = 2 * num_queries * num_keys * width
    return 2 * batch * (projections + scores_and_means)


def attention_memory(batch: int, num_queries: int, num_keys: int, num_heads: int, bytes_per_number: int = 4) -> int:
    """Count the bytes that the scores of one attention layer take, all sequences and heads together.

    Parameters
    ----------
    batch, num_queries, num_keys, num_heads
        Number of sequences, of queries and of keys in each, and of heads.
    bytes_per_number
        4 in single precision, 2 in half.

    Returns
    -------
    Bytes of the tensor of scores. The weights, which the backward pass needs, take as many again.

    Raises
    ------
    ValueError
        If a size is less than one.

    Notes
    -----
    The width of a head has no part in it.

    References
    ----------
    Dao et al., "FlashAttention" (2022), section 2.2, on the memory of standard attention.

    Examples
    --------
    >>> attention_memory(batch=1, num_queries=1000, num_keys=1000, num_heads=8)
    32000000
    """
    if min(batch, num_queries, num_keys, num_heads, bytes_per_number) < 1:
        raise ValueError(
            f"Sizes are {(batch, num_queries, num_keys, num_heads, bytes_per_number)}; each must be at least 1."
        )
    numbers = batch * num_heads * num_queries * num_keys
    return numbers * bytes_per_number


def path_length(layer: str, length: int, kernel_size: int = 3) -> int:
    """Count the steps from the token that is farthest away, along the shortest way, to an output that it can reach.

    Parameters
    ----------
    layer
        ``"rnn"``, ``"convolution"``, ``"dilated convolution"`` or ``"self-attention"``. A step is one application of a
        cell or of a layer.
    length
        Number of tokens.
    kernel_size
        How many tokens one output of a convolution reads: at least 2.

    Returns
    -------
    The number of steps, at least 1: also a single token goes through one layer.

    Raises
    ------
    ValueError
        If the layer is none of these, the length is less than one, or the kernel size is less than two.

    Notes
    -----
    A recurrent cell at place ``t`` reads token ``t`` and the state of the place before: from the first token to the
    last state the way is ``length`` steps. An output of self-attention reads every token.

    An output of a convolution reads ``kernel_size`` places: its own and those just before it. As many layers are laid
    on top of each other as are needed to reach ``length - 1`` places back. With dilation, the places that layer
    ``l = 0, 1, 2, ...`` reads are ``kernel_size**l`` apart. Beware of logarithms of floating-point numbers: where one
    should be whole, it may come out a little larger.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), table 1, "maximum path length", where only the order is given.

    Examples
    --------
    >>> [path_length(layer, 14) for layer in ("rnn", "convolution", "dilated convolution", "self-attention")]
    [14, 7, 3, 1]
    """
    if layer not in ("rnn", "convolution", "dilated convolution", "self-attention"):
        raise ValueError(
            f"layer is {layer!r}; it must be 'rnn', 'convolution', 'dilated convolution' or 'self-attention'."
        )
    if length < 1:
        raise ValueError(f"length is {length}; there must be at least one token.")
    if kernel_size < 2:
        raise ValueError(f"kernel_size is {kernel_size}; a convolution that reads one place reaches no other.")
    if layer == "rnn":
        return length
    if layer == "self-attention":
        return 1
    steps, reach, stride = 0, 0, kernel_size - 1
    while steps == 0 or reach < length - 1:
        reach += stride
        steps += 1
        if layer == "dilated convolution":
            stride *= kernel_size
    return steps
