"""Reference kernels of the chapter "The Transformer"."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


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
    variance = x.var(-1, correction=0, keepdim=True)
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
