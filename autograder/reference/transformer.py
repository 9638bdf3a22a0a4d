"""Reference kernels of the chapter "The Transformer"."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.self_attention import causal_mask, sinusoidal_positions


def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d_model"]:
    """Give each token's vector mean 0 and variance 1 over its components, then a gain and a shift for each component.

    Parameters
    ----------
    x
        One token in each row, with any leading dimensions.
    weight, bias
        Gain and shift, the same for all tokens.
    eps
        Added to the variance, under the root.

    Returns
    -------
    The normalised tokens. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If gain or shift has not the width of the tokens.

    Notes
    -----
    The variance is the biased one: the mean of the squared deviations. No token's result depends on another token.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization" (2016), section 3.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 3.0], [20.0, 10.0]])
    >>> layer_norm(x, torch.ones(2), torch.tensor([0.0, 5.0]), eps=0.0).tolist()
    [[-1.0, 6.0], [1.0, 4.0]]
    """
    if not x.shape[-1:] == weight.shape == bias.shape:
        raise ValueError(
            f"x has width {x.shape[-1]}; weight and bias have shapes {tuple(weight.shape)} and {tuple(bias.shape)}. "
            f"Both must be ({x.shape[-1]},)."
        )
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    normalised = (x - mean) / torch.sqrt(variance + eps)
    return weight * normalised + bias


def feed_forward(
    x: Float[Tensor, "*batch d_model"],
    W_1: Float[Tensor, "d_ff d_model"],
    b_1: Float[Tensor, " d_ff"],
    W_2: Float[Tensor, "d_model d_ff"],
    b_2: Float[Tensor, " d_model"],
) -> Float[Tensor, "*batch d_model"]:
    """Apply one and the same two-layer network to each token alone.

    Parameters
    ----------
    x
        One token in each row, with any leading dimensions.
    W_1, b_1, W_2, b_2
        Weights and biases of the two layers. The weights are in the layout of modules, (out, in).

    Returns
    -------
    One output for each token: a linear layer, the ramp ``max(0, .)``, a linear layer. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If the widths do not fit.

    Notes
    -----
    ``2 * d_model * d_ff`` multiply-adds for each token. The paper has no dropout between the two layers;
    ``torch.nn.TransformerEncoderLayer`` has one there.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), section 3.3.

    Examples
    --------
    >>> x = torch.tensor([[2.0], [-3.0]])
    >>> W_1, W_2 = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0, 10.0]])
    >>> feed_forward(x, W_1, torch.zeros(2), W_2, torch.zeros(1)).tolist()
    [[2.0], [30.0]]
    """
    if W_1.shape[1] != x.shape[-1] or W_2.shape != (x.shape[-1], W_1.shape[0]):
        raise ValueError(
            f"x has width {x.shape[-1]}, W_1 has shape {tuple(W_1.shape)} and W_2 {tuple(W_2.shape)}; "
            "they must be (d_ff, d_model) and (d_model, d_ff)."
        )
    hidden = torch.relu(F.linear(x, W_1, b_1))
    return F.linear(hidden, W_2, b_2)


def residual_add_norm(
    x: Float[Tensor, "*batch d_model"],
    sublayer_output: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    dropout: float = 0.0,
) -> Float[Tensor, "*batch d_model"]:
    """Add what a sub-layer gave to what went into it, and normalise the sum: post-norm, as in 2017.

    Parameters
    ----------
    x
        What went into the sub-layer.
    sublayer_output
        What came out of it, of the same shape.
    weight, bias
        Gain and shift of the layer norm, which has its default ``eps``.
    dropout
        Probability with which a number of the sub-layer's output is set to zero, the others being scaled up to keep the
        mean. It is 0 when the model is not being trained.

    Returns
    -------
    The normalised sum. Dtype as that of ``x``.

    Raises
    ------
    ValueError
        If the two shapes differ: they are to be added, not broadcast.

    Notes
    -----
    Dropout acts on the sub-layer's output, before the addition. With ``dropout=1`` what is left is ``layer_norm(x)``.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 and 5.4.

    Examples
    --------
    >>> x, output = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 100.0]])
    >>> residual_add_norm(x, output, torch.ones(2), torch.zeros(2)).round().tolist()
    [[-1.0, 1.0]]
    """
    if x.shape != sublayer_output.shape:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and sublayer_output {tuple(sublayer_output.shape)}; the two must be equal."
        )
    kept = F.dropout(sublayer_output, dropout)
    return layer_norm(x + kept, weight, bias)


class EncoderBlock(nn.Module):
    """One layer of the encoder: self-attention, then the feed-forward network, each with residual and norm.

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
    Post-norm, as in 2017: the norm is of the sum. The parameters have the names and shapes of
    ``torch.nn.TransformerEncoderLayer``, so that the state dict of one loads into the other. ``norm1`` and ``norm2``
    hold the gains and shifts. In training PyTorch's layer drops attention weights and hidden units too, which the
    paper's section 5.4 does not name. A padded token has an output like any other, as in PyTorch's layer; a stack of
    these, ``torch.nn.TransformerEncoder``, gives zeros there in inference. In a sequence of nothing but padding the
    attention gives its output's bias; PyTorch's layer does so in training, and may give NaN in inference.
    ``4 * N * d_model**2 + 2 * N * d_model * d_ff + 2 * N**2 * d_model`` multiply-adds for each sequence.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 and 5.4.

    Examples
    --------
    >>> block = EncoderBlock(d_model=12, num_heads=3, d_ff=20)
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
        key_mask: Bool[Tensor, "*batch token"] | None = None,
    ) -> Float[Tensor, "*batch token d_model"]:
        """Let the tokens look at each other, then change each by itself.

        Parameters
        ----------
        x
            One token in each row.
        key_mask
            True where a token is real, False where it is padding and nobody may look at it; None where all are real.

        Returns
        -------
        One output for each token. Dtype as that of ``x``.
        """
        dropout = self.dropout if self.training else 0.0
        attn_output = self.self_attn(x, x, x, key_mask=key_mask)
        x = residual_add_norm(x, attn_output, self.norm1.weight, self.norm1.bias, dropout)
        hidden = feed_forward(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_add_norm(x, hidden, self.norm2.weight, self.norm2.bias, dropout)


class DecoderBlock(nn.Module):
    """One layer of the decoder: causal self-attention, attention to the memory, the feed-forward network.

    Parameters
    ----------
    d_model
        Width of the tokens that come in and go out, and of the memory.
    num_heads
        Number of heads of both attentions; it divides ``d_model``.
    d_ff
        Width of the feed-forward network's hidden layer.
    dropout
        Probability with which a number of each sub-layer's output is dropped in training.

    Notes
    -----
    Each of the three sub-layers has its residual and its norm: post-norm, as in 2017. The parameters have the names
    and shapes of ``torch.nn.TransformerDecoderLayer``, so that the state dict of one loads into the other:
    ``self_attn`` with ``norm1``, ``multihead_attn`` (the attention to the memory) with ``norm2``, the network with
    ``norm3``. PyTorch's layer is causal only if it is given a ``tgt_mask``; in training it drops attention weights and
    hidden units too.
    Padding needs no mask in the target as long as it comes last: no token that counts can see it.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 and 3.2.3.

    Examples
    --------
    >>> block = DecoderBlock(d_model=12, num_heads=3, d_ff=20)
    >>> block(torch.zeros(7, 5, 12), memory=torch.zeros(7, 9, 12)).shape
    torch.Size([7, 5, 12])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "*batch query d_model"],
        memory: Float[Tensor, "*batch key d_model"],
        memory_key_mask: Bool[Tensor, "*batch key"] | None = None,
    ) -> Float[Tensor, "*batch query d_model"]:
        """Let the target's tokens look back, then at the source, then change each by itself.

        Parameters
        ----------
        x
            The target's tokens, one in each row. None sees one that comes after it.
        memory
            What the encoder made of the source. It gives the keys and values, and every target token may see all of it.
        memory_key_mask
            True where a token of the memory is real, False where it is padding; None where all are real.

        Returns
        -------
        One output for each target token. Dtype as that of ``x``.
        """
        dropout = self.dropout if self.training else 0.0
        length = x.shape[-2]
        attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length, length))
        x = residual_add_norm(x, attn_output, self.norm1.weight, self.norm1.bias, dropout)
        attn_output = self.multihead_attn(x, memory, memory, key_mask=memory_key_mask)
        x = residual_add_norm(x, attn_output, self.norm2.weight, self.norm2.bias, dropout)
        hidden = feed_forward(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_add_norm(x, hidden, self.norm3.weight, self.norm3.bias, dropout)


class Transformer(nn.Module):
    """From the words of a source sentence, and of a target sentence so far, to scores for each next target word.

    Parameters
    ----------
    source_size, target_size
        How many words the two vocabularies have.
    d_model, num_heads, d_ff
        Sizes of each block.
    num_layers
        How many blocks the encoder has, and how many the decoder.
    dropout
        Probability with which a number is dropped in training: in the sum of embedding and position, and in each
        sub-layer's output.

    Notes
    -----
    The output layer is tied: its weight is the target's embedding, and it has no bias. Embeddings are drawn with
    standard deviation ``d_model ** -0.5``: scaled, they are of size 1, and so are the first scores, but for that of the
    word just read, whose embedding is still in the sum. Sentences may be of any length.
    ``torch.nn.Transformer`` has neither embeddings nor an output layer, and it puts one more norm behind the last block
    of the encoder and of the decoder.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), figure 1, sections 3.4, 3.5 and 5.4.

    Examples
    --------
    >>> model = Transformer(source_size=30, target_size=40, d_model=12, num_heads=3, d_ff=20, num_layers=2)
    >>> source, target_in = torch.zeros(7, 5, dtype=torch.long), torch.zeros(7, 9, dtype=torch.long)
    >>> model(source, target_in).shape
    torch.Size([7, 9, 40])
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout = dropout
        self.source_embedding = nn.Embedding(source_size, d_model)
        self.target_embedding = nn.Embedding(target_size, d_model)
        self.encoder = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)

    def embed(
        self, tokens: Int[Tensor, "*batch token"], embedding: nn.Embedding
    ) -> Float[Tensor, "*batch token d_model"]:
        """Look words up, make them ``sqrt(d_model)`` times as large, add their positions, and drop some of the numbers.

        Parameters
        ----------
        tokens
            Indices of words.
        embedding
            The source's or the target's.

        Returns
        -------
        One token in each row: what the first block reads.
        """
        x = embedding(tokens) * math.sqrt(embedding.embedding_dim)
        x = x + sinusoidal_positions(*x.shape[-2:]).to(x)
        return F.dropout(x, self.dropout, self.training)

    def encode(
        self, source: Int[Tensor, "*batch key"], key_mask: Bool[Tensor, "*batch key"] | None = None
    ) -> Float[Tensor, "*batch key d_model"]:
        """Read the source sentences.

        Parameters
        ----------
        source
            Indices of the source's words.
        key_mask
            True where a word is real, False where it is padding; None where all are real.

        Returns
        -------
        The memory: the output of the encoder's last block.
        """
        x = self.embed(source, self.source_embedding)
        for block in self.encoder:
            x = block(x, key_mask)
        return x

    def decode(
        self,
        target_in: Int[Tensor, "*batch query"],
        memory: Float[Tensor, "*batch key d_model"],
        key_mask: Bool[Tensor, "*batch key"] | None = None,
    ) -> Float[Tensor, "*batch query target_size"]:
        """Score every word of the target's vocabulary as the next one, at each place.

        Parameters
        ----------
        target_in
            Indices of the target's words before, beginning with the start of sentence.
        memory
            What `encode` made of the source.
        key_mask
            True where a word of the source is real, as for `encode`.

        Returns
        -------
        Logits, the scores before a softmax. Those at place ``t`` depend on the words up to ``t`` alone.
        """
        x = self.embed(target_in, self.target_embedding)
        for block in self.decoder:
            x = block(x, memory, key_mask)
        return F.linear(x, self.target_embedding.weight)

    def forward(
        self,
        source: Int[Tensor, "*batch key"],
        target_in: Int[Tensor, "*batch query"],
        key_mask: Bool[Tensor, "*batch key"] | None = None,
    ) -> Float[Tensor, "*batch query target_size"]:
        """Encode, then decode.

        Parameters
        ----------
        source
            Indices of the source's words.
        target_in
            Indices of the target's words before, beginning with the start of sentence.
        key_mask
            True where a word of the source is real, False where it is padding; None where all are real.

        Returns
        -------
        The logits of `decode`.
        """
        memory = self.encode(source, key_mask)
        return self.decode(target_in, memory, key_mask)


def noam_learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Let the learning rate grow linearly for some steps, then fall with the root of the step.

    Parameters
    ----------
    step
        Which update it is, counted from 1.
    d_model
        Width of the model.
    warmup_steps
        At which update the rate is highest.

    Returns
    -------
    The learning rate of that update.

    Raises
    ------
    ValueError
        If an argument is less than 1.

    Notes
    -----
    The two branches meet at ``step == warmup_steps``, where the rate is ``(d_model * warmup_steps) ** -0.5``.

    References
    ----------
    Vaswani et al., "Attention Is All You Need" (2017), equation 3.

    Examples
    --------
    >>> [noam_learning_rate(step, d_model=16, warmup_steps=4) for step in (1, 4, 16)]
    [0.03125, 0.125, 0.0625]
    """
    if min(step, d_model, warmup_steps) < 1:
        raise ValueError(
            f"step, d_model and warmup_steps are {(step, d_model, warmup_steps)}; each must be at least 1."
        )
    rising = step * warmup_steps**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


def label_smoothing_loss(
    logits: Float[Tensor, "*batch vocabulary"],
    targets: Int[Tensor, "*batch"],
    smoothing: float = 0.1,
    ignore_index: int = -100,
) -> Float[Tensor, ""]:
    """Cross-entropy against targets that give a little of their probability to all words alike.

    Parameters
    ----------
    logits
        A score for each word of the vocabulary, before the softmax.
    targets
        Index of the right word.
    smoothing
        Share of the probability that is spread evenly over the whole vocabulary, the right word included.
    ignore_index
        The target that marks padding: such tokens do not count.

    Returns
    -------
    The mean over the tokens that count, in nats; NaN where none does. Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If there is not one target for each row of logits.

    Notes
    -----
    The same as ``F.cross_entropy`` with ``label_smoothing`` and ``ignore_index``. The lowest value is over 0: it is the
    entropy of the smoothed target.

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2016), section 7;
    Vaswani et al., "Attention Is All You Need" (2017), section 5.4.

    Examples
    --------
    >>> logits, targets = torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([1, -100])
    >>> round(label_smoothing_loss(logits, targets).item(), 4)
    0.6931
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)} and targets {tuple(targets.shape)}; "
            "the targets must have the same shape without the last axis."
        )
    log_probs = torch.log_softmax(logits, dim=-1)
    real = targets != ignore_index
    words = targets.masked_fill(~real, 0)  # an index that exists, also where the target is padding
    of_target = -log_probs.gather(-1, words.unsqueeze(-1)).squeeze(-1)
    of_all = -log_probs.mean(-1)
    losses = (1 - smoothing) * of_target + smoothing * of_all
    return losses[real].mean()
