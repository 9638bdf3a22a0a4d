"""Reference kernels of the chapter "The modern Transformer"."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.transformer import feed_forward, layer_norm


class PreNormBlock(nn.Module):
    """One layer of a modern Transformer: self-attention, then the feed-forward network, each reading normalised tokens.

    Parameters
    ----------
    d_model
        Width of the tokens that come in and go out.
    num_heads
        Number of heads of the attention; it divides ``d_model``.
    d_ff
        Width of the feed-forward network's hidden layer.
    dropout
        Probability with which a number of each sub-layer's output is dropped in training.

    Notes
    -----
    ``x + f(norm(x))`` for each of the two sub-layers ``f``, where the block of 2017 has ``norm(x + f(x))``. Nothing
    stands on the path that goes round the sub-layers, so the tokens grow from block to block: behind the last one a
    stack needs one more norm, which is no part of this block.
    The parameters have the names and shapes of ``torch.nn.TransformerEncoderLayer``, and with ``norm_first=True`` that
    computes the same. In training PyTorch's layer drops attention weights and hidden units too. The norm is that of
    2017, and so is the network, with the ramp between its layers.
    ``4 * N * d_model**2 + 2 * N * d_model * d_ff + 2 * N**2 * d_model`` multiply-adds for each sequence.

    References
    ----------
    Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3;
    Xiong et al., "On Layer Normalization in the Transformer Architecture" (2020), section 3.

    Examples
    --------
    >>> block = PreNormBlock(d_model=12, num_heads=3, d_ff=20)
    >>> block(torch.zeros(7, 5, 12)).shape
    torch.Size([7, 5, 12])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "*batch token d_model"],
        attn_mask: Bool[Tensor, "*#batch #token token"] | None = None,
    ) -> Float[Tensor, "*batch token d_model"]:
        """Let the tokens look at each other, then change each by itself; add both to what came in.

        Parameters
        ----------
        x
            One token in each row.
        attn_mask
            True where a token may look at another, the same for all heads; broadcasts to ``(*batch, N, N)``. With
            ``causal_mask(N, N)`` this is a block of a language model; ``key_mask[:, None, :]`` leaves padding out. None
            lets every token look at all.

        Returns
        -------
        One output for each token. For a token that may look at nothing the attention gives its output's bias. Dtype as
        that of ``x``.
        """
        dropout = self.dropout if self.training else 0.0
        normalised = layer_norm(x, self.norm1.weight, self.norm1.bias)
        attn_output = self.self_attn(normalised, normalised, normalised, attn_mask)
        x = x + F.dropout(attn_output, dropout)
        normalised = layer_norm(x, self.norm2.weight, self.norm2.bias)
        hidden = feed_forward(
            normalised, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias
        )
        return x + F.dropout(hidden, dropout)


def rms_norm(
    x: Float[Tensor, "*batch d_model"], weight: Float[Tensor, " d_model"], eps: float = 1e-6
) -> Float[Tensor, "*batch d_model"]:
    """Divide each token's vector by its root mean square, then multiply each component by a gain.

    Parameters
    ----------
    x
        One token in each row, with any leading dimensions.
    weight
        The gain of each component, the same for all tokens.
    eps
        Added to the mean of the squares, under the root.

    Returns
    -------
    The normalised tokens. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If the gain has not the width of the tokens.

    Notes
    -----
    Layer norm without its mean and its shift. In half precision the square of 256 is infinite already, and that of
    0.0001 is zero: there the norm is computed in single precision, and its result rounded. Double precision stays so.
    ``torch.nn.functional.rms_norm`` computes the same. Its ``eps`` is None by default, and so is that of
    ``torch.nn.RMSNorm``: machine epsilon, 1.2e-7 in single precision.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 7.0], [-30.0, 30.0]])
    >>> rms_norm(x, torch.tensor([1.0, 10.0]), eps=0.0).tolist()
    [[0.20000000298023224, 14.0], [-1.0, 10.0]]
    """
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"x has width {x.shape[-1]} and weight has shape {tuple(weight.shape)}; the two must agree.")
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = precise.square().mean(-1, keepdim=True)
    normalised = precise * torch.rsqrt(mean_square + eps)
    return (weight * normalised).to(x.dtype)


def swiglu(
    x: Float[Tensor, "*batch d_model"],
    W_gate: Float[Tensor, "d_ff d_model"],
    W_up: Float[Tensor, "d_ff d_model"],
    W_down: Float[Tensor, "d_model d_ff"],
) -> Float[Tensor, "*batch d_model"]:
    """Apply to each token a feed-forward network whose hidden units are products of two: one is the other's gate.

    Parameters
    ----------
    x
        One token in each row, with any leading dimensions.
    W_gate, W_up
        Weights of the two layers that read the token; the first makes the gates.
    W_down
        Weights of the layer that leads back to the width of a token. All are in the layout of modules, (out, in); there
        are no biases.

    Returns
    -------
    One output for each token. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If the widths do not fit.

    Notes
    -----
    A gate ``z`` opens by ``silu(z)``, which is ``z`` times the logistic function of ``z`` and also called swish. It is
    nearly 0 where ``z`` is far below 0, and nearly ``z`` where it is far above; values and gradients are finite for
    ``z`` of any size.
    ``3 * d_model * d_ff`` multiply-adds for each token, and as many parameters. The network of 2017 has
    ``2 * d_model * d_ff`` of each: at two thirds of its ``d_ff`` this one is as large.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer" (2020), equation 6.

    Examples
    --------
    >>> W_gate, W_up, W_down = (torch.tensor([[weight]]) for weight in (1.0, 2.0, 10.0))
    >>> swiglu(torch.tensor([[-100.0], [0.0], [100.0]]), W_gate, W_up, W_down).tolist()
    [[0.0], [0.0], [200000.0]]
    """
    if W_up.shape != W_gate.shape or W_gate.shape[1] != x.shape[-1] or W_down.shape != W_gate.T.shape:
        raise ValueError(
            f"x has width {x.shape[-1]}, W_gate has shape {tuple(W_gate.shape)}, W_up {tuple(W_up.shape)} and W_down "
            f"{tuple(W_down.shape)}; they must be (d_ff, d_model) twice and (d_model, d_ff)."
        )
    gate, up = F.linear(x, W_gate), F.linear(x, W_up)
    hidden = gate * torch.sigmoid(gate) * up
    return F.linear(hidden, W_down)


def rotary_embedding(
    x: Float[Tensor, "*batch token d_head"],
    positions: Int[Tensor, " token"],
    base: float = 10000.0,
    layout: str = "interleaved",
) -> Float[Tensor, "*batch token d_head"]:
    """Rotate pairs of components of each query or key by angles that grow with its position.

    Parameters
    ----------
    x
        Queries or keys, one in each row: of one head, of all heads, of a batch.
    positions
        Where each token stands in its text. Behind a cache of 7 tokens the next three have positions 7, 8 and 9.
    base
        How much slower the slowest pairs turn, nearly: pair ``i`` of ``d_head / 2`` turns by
        ``base ** (-2 * i / d_head)`` with each position, so the first one by 1 radian.
    layout
        Which two components are a pair. ``"interleaved"``, as in the paper: components ``2 * i`` and ``2 * i + 1``.
        ``"halves"``, as in GPT-NeoX and Llama's Hugging Face version: components ``i`` and ``i + d_head / 2``.

    Returns
    -------
    The rotated vectors, as long as they were. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If the width is odd, there is not one position for each token, or the layout has another name.

    Notes
    -----
    A pair ``(a, b)`` turned by an angle ``t`` is ``(a * cos(t) - b * sin(t), a * sin(t) + b * cos(t))``. The dot
    product of a rotated query with a rotated key depends on the two vectors and on the difference of their positions
    alone. Queries and keys are rotated, values are not. The two layouts are the same up to the order of the components,
    so either will do, as long as queries, keys and the weights that were trained with them use the same.
    Angles are computed in double precision, whatever the dtype of ``x``: in single precision that of position
    10,000,000 may be wrong by a tenth of a radian.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), sections 3.2.2
    and 3.4.2.

    Examples
    --------
    >>> x, positions = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2), torch.tensor([0, 1])
    >>> for layout in ("interleaved", "halves"):
    ...     print([round(number, 4) for number in rotary_embedding(x, positions, layout=layout)[1].tolist()])
    [-1.1426, 1.9221, 2.9599, 4.0298]
    [-1.9841, 1.9599, 2.4624, 4.0198]
    """
    if x.shape[-1] % 2:
        raise ValueError(f"x has width {x.shape[-1]}, which cannot be cut into pairs.")
    if positions.shape != x.shape[-2:-1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and positions {tuple(positions.shape)}; each of the {x.shape[-2]} tokens "
            "needs one position."
        )
    if layout not in ("interleaved", "halves"):
        raise ValueError(f'layout is {layout!r}; it must be "interleaved" or "halves".')
    frequencies = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = positions[:, None] * frequencies  # (token, pair)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, dim=-1)
    rotated = a * cos - b * sin, a * sin + b * cos
    if layout == "interleaved":
        return torch.stack(rotated, dim=-1).flatten(-2)
    return torch.cat(rotated, dim=-1)


def grouped_query_attention(
    query: Float[Tensor, "*batch head query d_k"],
    key: Float[Tensor, "*batch kv_head key d_k"],
    value: Float[Tensor, "*batch kv_head key d_v"],
    attn_mask: Bool[Tensor, "*mask #query #key"] | None = None,
) -> Float[Tensor, "*batch head query d_v"]:
    """Attend in many heads that share, in groups of neighbours, the keys and values of fewer heads.

    Parameters
    ----------
    query
        One query in each row, for each of ``H`` heads.
    key, value
        One key and one value in each row, for each of ``H_kv`` heads. ``H_kv`` divides ``H``: with ``H_kv = H`` this is
        multi-head attention, with ``H_kv = 1`` multi-query attention.
    attn_mask
        True where a query may attend to a key; any shape that broadcasts to ``(*batch, H, N_q, N_k)``. None lets every
        query attend to every key.

    Returns
    -------
    One output for each query and head. A query that may attend to nothing gets the zero vector. Dtype as the query's.

    Raises
    ------
    ValueError
        If the number of heads of the keys does not divide that of the queries, or keys and values have not as many.

    Notes
    -----
    The first ``H / H_kv`` heads share the first head of keys and values, the next as many share the second, and so on.
    ``torch.nn.functional.scaled_dot_product_attention`` with ``enable_gqa=True`` computes the same.
    As many multiply-adds as with ``H`` heads of keys. What shrinks is the projection of the keys and values, and their
    cache: ``2 * H_kv * N_k * d_head`` numbers for each text and layer.

    References
    ----------
    Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints" (2023),
    section 2.2; Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need" (2019), section 3.

    Examples
    --------
    >>> query, key = torch.zeros(4, 1, 3), torch.zeros(2, 5, 3)
    >>> value = torch.tensor([10.0, 20.0]).view(2, 1, 1).expand(2, 5, 1)
    >>> grouped_query_attention(query, key, value).flatten().tolist()
    [10.0, 10.0, 20.0, 20.0]
    """
    if key.shape[-3] != value.shape[-3] or query.shape[-3] % key.shape[-3]:
        raise ValueError(
            f"There are {query.shape[-3]} heads of queries, {key.shape[-3]} of keys and {value.shape[-3]} of values; "
            "keys and values must have as many, and that number must divide the number of queries' heads."
        )
    group = query.shape[-3] // key.shape[-3]
    key, value = (shared.repeat_interleave(group, dim=-3) for shared in (key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask)


def moe_route(
    logits: Float[Tensor, "token expert"], k: int, capacity: int
) -> tuple[
    Float[Tensor, "token k"],
    Int[Tensor, "token k"],
    Bool[Tensor, "token k"],
    Float[Tensor, ""],
]:
    """Send each token to its k best experts, as long as these have room, and say how unequal the experts' loads are.

    Parameters
    ----------
    logits
        The router's score of each expert for each token, before the softmax.
    k
        To how many experts a token is sent.
    capacity
        How many tokens an expert has room for.

    Returns
    -------
    gates
        The weight of each chosen expert's output: its probability among all experts, or 0 where it has no room.
        Dtype as that of ``logits``.
    experts
        Which experts were chosen, the best first.
    kept
        True where the expert has room for the token.
    loss
        The load-balancing loss. Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If ``k`` is less than 1 or more than there are experts, or ``capacity`` is less than 1.

    Notes
    -----
    The softmax is over all experts, and the gates are not made to sum to one: with ``k = 1`` each would then be 1, and
    no gradient would reach the router. (GShard and Mixtral, with ``k = 2``, do divide by the sum.)
    Room is given to the first choices of all tokens, in the order of the tokens, then to the second choices of all, and
    so on. A token that finds no room with any expert is dropped.
    The loss is the number of experts times the sum, over the experts, of ``f * P``. ``f`` is an expert's share of all
    choices, with room or without, and has no gradient; ``P`` is the mean of its probability over all tokens. Where both
    are the same for all experts the loss is 1; where every token is sure of one and the same expert, and ``k = 1``, it
    is the number of experts.

    References
    ----------
    Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer" (2017);
    Lepikhin et al., "GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding" (2021),
    algorithm 1; Fedus, Zoph and Shazeer, "Switch Transformers: Scaling to Trillion Parameter Models with Simple and
    Efficient Sparsity" (2022), equations 4 to 6.

    Examples
    --------
    >>> logits = torch.tensor([[0.75, 0.25], [0.625, 0.375], [0.5, 0.125]]).log()
    >>> gates, experts, kept, loss = moe_route(logits, k=1, capacity=2)
    >>> experts.flatten().tolist(), kept.flatten().tolist()
    ([0, 0, 0], [True, True, False])
    >>> [round(gate, 4) for gate in gates.flatten().tolist()], round(loss.item(), 4)
    ([0.75, 0.625, 0.0], 1.45)
    """
    if not 1 <= k <= logits.shape[1] or capacity < 1:
        raise ValueError(
            f"k is {k} and capacity {capacity}; k must be from 1 to the number of experts, here {logits.shape[1]}, and "
            "capacity at least 1."
        )
    probs = torch.softmax(logits, dim=-1)
    experts = logits.topk(k, dim=-1).indices  # best first
    chosen = F.one_hot(experts, logits.shape[1])  # (token, k, expert)
    in_order = chosen.transpose(0, 1).flatten(0, 1)  # all first choices, then all second ones
    places = (in_order.cumsum(0) * in_order).sum(-1)  # in the expert's own queue, counted from 1
    kept = (places <= capacity).view(k, -1).T
    gates = probs.gather(-1, experts) * kept
    loss = logits.shape[1] * (chosen.to(probs.dtype).mean((0, 1)) * probs.mean(0)).sum()
    return gates, experts, kept, loss


class MoELayer(nn.Module):
    """A mixture of experts: many feed-forward networks, of which each token passes through a few.

    Parameters
    ----------
    d_model
        Width of the tokens that come in and go out.
    d_ff
        Width of each expert's hidden layer.
    num_experts
        How many experts there are.
    k
        Through how many of them each token is sent.
    capacity_factor
        How much room each expert has, in units of what it needs where all experts are chosen equally often.

    Notes
    -----
    The layer stands in a block where the feed-forward network stood. There are ``num_experts`` times as many parameters
    as in one expert, ``2 * d_model * d_ff`` weights each, and ``k`` times as many multiply-adds, plus
    ``d_model * num_experts`` of the router, for each token. An expert computes nothing for tokens that are not sent to
    it: that is the whole point.
    The room of an expert is ``capacity_factor * k * T / num_experts`` tokens, rounded up, where ``T`` counts the tokens
    of the whole batch. What a token gets so depends on the tokens before it in the batch, wherever some are dropped.

    References
    ----------
    Fedus, Zoph and Shazeer, "Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient
    Sparsity" (2022), sections 2.1 and 2.2.

    Examples
    --------
    >>> layer = MoELayer(d_model=12, d_ff=20, num_experts=4, k=2)
    >>> output, loss = layer(torch.zeros(7, 5, 12))
    >>> output.shape, loss.shape
    (torch.Size([7, 5, 12]), torch.Size([]))
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int = 1, capacity_factor: float = 1.25):
        super().__init__()
        self.k = k
        self.capacity_factor = capacity_factor
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)) for _ in range(num_experts)
        )

    def forward(
        self, x: Float[Tensor, "*batch token d_model"]
    ) -> tuple[Float[Tensor, "*batch token d_model"], Float[Tensor, ""]]:
        """Route all tokens together, let each expert work on its own tokens, and add up what comes back.

        Parameters
        ----------
        x
            One token in each row, with any leading dimensions. The order of the tokens is that of the rows.

        Returns
        -------
        output
            For each token the sum of its experts' outputs, each multiplied by its gate. A token that was dropped gets
            zeros, so that the residual around the layer carries it on. Dtype as that of ``x``.
        loss
            The load-balancing loss of `moe_route`, to be added to the model's own loss with a small factor.
        """
        tokens = x.flatten(0, -2)
        capacity = math.ceil(self.capacity_factor * self.k * len(tokens) / len(self.experts))
        gates, experts, kept, loss = moe_route(self.router(tokens), self.k, capacity)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, choice = torch.nonzero(kept & (experts == number), as_tuple=True)
            output = output.index_add(0, token, gates[token, choice, None] * expert(tokens[token]))
        return output.view(x.shape), loss
