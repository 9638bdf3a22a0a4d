"""Reference kernels of the chapter "Language models"."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from autograder.reference.self_attention import causal_mask
from autograder.reference.transformer import feed_forward, residual_add_norm


def next_token_loss(
    logits: Float[Tensor, "*batch token vocabulary"], tokens: Int[Tensor, "*batch token"], pad: int | None = None
) -> Float[Tensor, ""]:
    """Cross-entropy of a text under a model that predicts each token from those before it.

    Parameters
    ----------
    logits
        A score for each token of the vocabulary, before the softmax: at place ``t`` for the token at place ``t + 1``.
    tokens
        The text itself, the same that the model read, as indices of dtype ``torch.int64``.
    pad
        The token that fills up shorter texts; to predict it does not count. None where there is no padding.

    Returns
    -------
    The mean over all tokens that count, in nats; NaN where none does. Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If there is not one row of logits for each token, or a text has fewer than two tokens.

    Notes
    -----
    The first token is predicted by nothing, and the last logits predict a token that is not there: a text of ``N``
    tokens has ``N - 1`` predictions. The mean is over the tokens of the batch, so long texts weigh more than short
    ones.

    References
    ----------
    Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018), equation 1.

    Examples
    --------
    >>> tokens = torch.tensor([[2, 0, 1, 1]])
    >>> knows_the_next = torch.nn.functional.one_hot(torch.tensor([[0, 1, 1, 2]]), 3) * 100.0
    >>> next_token_loss(knows_the_next, tokens).item()
    0.0
    """
    if logits.shape[:-1] != tokens.shape or tokens.shape[-1] < 2:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)} and tokens {tuple(tokens.shape)}; the tokens must have the same "
            "shape without the last axis, and each text at least two."
        )
    predictions, targets = logits[..., :-1, :], tokens[..., 1:]
    ignored = -100 if pad is None else pad  # no token has a negative index
    return F.cross_entropy(predictions.flatten(0, -2), targets.flatten(), ignore_index=ignored)


def perplexity(
    log_probs: Float[Tensor, "*batch token"], mask: Bool[Tensor, "*batch token"] | None = None
) -> Float[Tensor, ""]:
    """Tell among how many equally probable tokens a model is as unsure as it was, on average, about a set of texts.

    Parameters
    ----------
    log_probs
        The natural logarithm of the probability that the model gave to each token that came.
    mask
        True where a token is real, False on padding, where ``log_probs`` may hold anything, minus infinity and NaN
        too. None where all are real.

    Returns
    -------
    ``exp`` of minus the mean log-probability; infinite where a real token had probability 0. Dtype as that of
    ``log_probs``.

    Raises
    ------
    ValueError
        If the mask has another shape, or no token is real.

    Notes
    -----
    The mean is over all real tokens, whichever text they stand in, and is taken before the exponential. Perplexities of
    models that cut a text into different tokens cannot be compared.

    References
    ----------
    Jelinek et al., "Perplexity, a Measure of the Difficulty of Speech Recognition Tasks" (1977).

    Examples
    --------
    >>> log_probs = torch.tensor([[0.5, 0.125], [0.25, 0.0]]).log()
    >>> mask = torch.tensor([[True, True], [True, False]])
    >>> round(perplexity(log_probs, mask).item(), 4)
    4.0
    """
    if mask is not None and mask.shape != log_probs.shape:
        raise ValueError(f"log_probs has shape {tuple(log_probs.shape)} and mask {tuple(mask.shape)}; give them one.")
    if log_probs.numel() == 0 or (mask is not None and not mask.any()):
        raise ValueError("No token is real; the perplexity of nothing is not defined.")
    real = log_probs if mask is None else log_probs[mask]
    return torch.exp(-real.mean())


class KVCache:
    """Keep the keys and values of the tokens that one attention layer has read, so that none is computed twice.

    Parameters
    ----------
    max_length
        For how many tokens there is room.

    Attributes
    ----------
    length
        How many tokens the cache holds. The next one to come stands at this position.

    Raises
    ------
    ValueError
        If ``max_length`` is less than 1; from `append`, if keys and values do not fit each other or the room.

    Notes
    -----
    Each layer of a model has a cache of its own, and each text or batch of texts new ones. ``keys`` and ``values`` are
    yours: None at first, then whatever you keep. Room for all can be taken at once, at the first call, or more with
    every call; the second way copies all that is kept each time.
    ``2 * max_length * d_model`` numbers for each text and layer. Made for generating under ``torch.no_grad()``.

    References
    ----------
    Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need" (2019), section 2.

    Examples
    --------
    >>> cache = KVCache(max_length=10)
    >>> keys, values = cache.append(torch.zeros(7, 3, 4, 5), torch.zeros(7, 3, 4, 2))
    >>> keys, values = cache.append(torch.ones(7, 3, 1, 5), torch.ones(7, 3, 1, 2))
    >>> cache.length, keys.shape, values.shape
    (5, torch.Size([7, 3, 5, 5]), torch.Size([7, 3, 5, 2]))
    """

    def __init__(self, max_length: int):
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; there must be room for at least one token.")
        self.max_length = max_length
        self.length = 0
        self.keys = None
        self.values = None

    def append(
        self, keys: Float[Tensor, "*batch new d_k"], values: Float[Tensor, "*batch new d_v"]
    ) -> tuple[Float[Tensor, "*batch all d_k"], Float[Tensor, "*batch all d_v"]]:
        """Add the keys and values of some more tokens.

        Parameters
        ----------
        keys, values
            One for each new token, in the order of the text; the axes before are the same in every call, and dtypes
            too.

        Returns
        -------
        The keys and the values of all tokens so far, the new ones last. Dtypes as those given.
        """
        if keys.shape[:-1] != values.shape[:-1]:
            raise ValueError(
                f"keys have shape {tuple(keys.shape)} and values {tuple(values.shape)}; each key needs one value."
            )
        if self.length + keys.shape[-2] > self.max_length:
            raise ValueError(
                f"The cache holds {self.length} tokens of at most {self.max_length}; {keys.shape[-2]} more do not fit."
            )
        if self.length == 0:
            self.keys, self.values = (
                new.new_zeros(*new.shape[:-2], self.max_length, new.shape[-1]) for new in (keys, values)
            )
        end = self.length + keys.shape[-2]
        self.keys[..., self.length : end, :] = keys
        self.values[..., self.length : end, :] = values
        self.length = end
        return self.keys[..., :end, :], self.values[..., :end, :]


class CausalBlock(nn.Module):
    """One layer of a decoder-only model: causal self-attention, then the feed-forward network.

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
    A decoder's block without the attention to a memory: there is no source. Post-norm, as in 2017 and in GPT of 2018;
    GPT-2 and its successors norm before each sub-layer, which the chapter on the modern Transformer derives. GPT has
    GELU where this network has the ramp.
    The parameters have the names and shapes of ``torch.nn.TransformerEncoderLayer``, so that the state dict of one
    loads into the other: only the mask makes a decoder of it. ``self_attn`` holds the projections, as in
    ``torch.nn.MultiheadAttention``: queries, keys and values come from ``in_proj_weight`` and ``in_proj_bias``, in this
    order.
    ``4 * N * d_model**2 + 2 * N * d_model * d_ff + 2 * N**2 * d_model`` multiply-adds for each sequence; with a cache
    ``4 * d_model**2 + 2 * d_model * d_ff + 2 * N * d_model`` for the ``N``-th token.

    References
    ----------
    Liu et al., "Generating Wikipedia by Summarizing Long Sequences" (2018), section 4.2.3, the first decoder-only
    Transformer; Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018), section 3.1.

    Examples
    --------
    >>> block = CausalBlock(d_model=12, num_heads=3, d_ff=20)
    >>> block(torch.zeros(7, 5, 12)).shape
    torch.Size([7, 5, 12])
    >>> cache = KVCache(max_length=10)
    >>> [block(torch.zeros(7, length, 12), cache).shape[1] for length in (4, 1)], cache.length
    ([4, 1], 5)
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
        self, x: Float[Tensor, "*batch token d_model"], cache: Any = None
    ) -> Float[Tensor, "*batch token d_model"]:
        """Let each token look at itself and those before it, then change each by itself.

        Parameters
        ----------
        x
            One token in each row: a whole text or, with a cache, its next tokens, one or several.
        cache
            The `KVCache` of this layer, which holds keys and values of the tokens before ``x``, split into heads:
            ``cache.append(keys, values)`` adds those of ``x`` and returns all, each ``(*batch, head, key, d_head)``.
            None where ``x`` is the beginning of a text that no one goes on with.

        Returns
        -------
        One output for each token of ``x``. With a cache, the same as if the whole text were given. Dtype as that of
        ``x``.
        """
        dropout = self.dropout if self.training else 0.0
        weight, bias, num_heads = self.self_attn.in_proj_weight, self.self_attn.in_proj_bias, self.self_attn.num_heads
        Q, K, V = (split_heads(part, num_heads) for part in F.linear(x, weight, bias).chunk(3, dim=-1))
        if cache is not None:
            K, V = cache.append(K, V)  # those of the tokens before x too
        attn_output = scaled_dot_product_attention(Q, K, V, causal_mask(Q.shape[-2], K.shape[-2]))
        attn_output = self.self_attn.out_proj(merge_heads(attn_output))
        x = residual_add_norm(x, attn_output, self.norm1.weight, self.norm1.bias, dropout)
        hidden = feed_forward(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_add_norm(x, hidden, self.norm2.weight, self.norm2.bias, dropout)


def sample_temperature(
    logits: Float[Tensor, "*batch vocabulary"], temperature: float, draw: Float[Tensor, "*batch"]
) -> Int[Tensor, "*batch"]:
    """Turn a random number into a token, each token with the probability that the model and the temperature give it.

    Parameters
    ----------
    logits
        A score for each token, before the softmax. Minus infinity excludes a token; at least one must be finite.
    temperature
        What the logits are divided by before the softmax. Below 1 the probable tokens become more probable; 0 takes the
        most probable one, whatever the draw.
    draw
        A random number from 0 up to but not including 1 for each row of logits, drawn by the caller.

    Returns
    -------
    Lay the tokens' probabilities end to end along the line from 0 to 1, in the order of the vocabulary: the token on
    whose piece the draw falls; where it falls on a border, the one that begins there. Never a token of probability 0.
    At temperature 0 the first of the most probable. Dtype ``torch.int64``.

    Raises
    ------
    ValueError
        If there is not one draw for each row of logits, or the temperature is negative.

    Notes
    -----
    The random numbers are an argument, so that the same call gives the same token. ``torch.multinomial`` draws its own.
    As the temperature goes to 0 the limit is an even choice between the most probable tokens; the contract takes the
    first.

    References
    ----------
    Ackley, Hinton and Sejnowski, "A Learning Algorithm for Boltzmann Machines" (1985), on temperature;
    Devroye, "Non-Uniform Random Variate Generation" (1986), section III.2, on inversion.

    Examples
    --------
    >>> logits = torch.tensor([0.2, 0.5, 0.3]).log()
    >>> [sample_temperature(logits, 1.0, torch.tensor(draw)).item() for draw in (0.1, 0.3, 0.6, 0.9)]
    [0, 1, 1, 2]
    >>> sample_temperature(logits, 0.0, torch.tensor(0.9)).item()
    1
    """
    if logits.shape[:-1] != draw.shape:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)} and draw {tuple(draw.shape)}; each row needs one draw."
        )
    if temperature < 0:
        raise ValueError(f"temperature is {temperature}; it must be 0 or more.")
    if temperature == 0:
        return logits.argmax(dim=-1)
    ends = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    point = draw.unsqueeze(-1) * ends[..., -1:]  # the last end is 1 but for rounding
    return (ends <= point).sum(dim=-1)


def top_k_filter(logits: Float[Tensor, "*batch vocabulary"], k: int) -> Float[Tensor, "*batch vocabulary"]:
    """Leave the ``k`` most probable tokens and exclude all others.

    Parameters
    ----------
    logits
        A score for each token, before the softmax; minus infinity where one is already excluded.
    k
        How many tokens are left. More than there are excludes none.

    Returns
    -------
    A new tensor: the logits that are left, and minus infinity for the rest. Tokens that tie with the ``k``-th stay too.
    Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If ``k`` is less than 1.

    Notes
    -----
    Where ties were cut off, the order of the vocabulary would decide. The softmax of what is left sums to one again.

    References
    ----------
    Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation" (2018).

    Examples
    --------
    >>> top_k_filter(torch.tensor([1.0, 3.0, -2.0, 2.0, 2.0]), k=2).tolist()
    [-inf, 3.0, -inf, 2.0, 2.0]
    """
    if k < 1:
        raise ValueError(f"k is {k}; at least one token must be left.")
    best = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    return logits.masked_fill(logits < best[..., -1:], -math.inf)


def top_p_filter(logits: Float[Tensor, "*batch vocabulary"], p: float) -> Float[Tensor, "*batch vocabulary"]:
    """Leave the fewest most probable tokens that together have the probability ``p``, and exclude all others.

    Parameters
    ----------
    logits
        A score for each token, before the softmax; minus infinity where one is already excluded.
    p
        The probability that what is left must reach, above 0. At 1 no token is excluded.

    Returns
    -------
    A new tensor: the logits that are left, and minus infinity for the rest. The token that makes the sum reach ``p`` is
    left, and so are those that tie with it; the most probable one always is. Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If ``p`` is not above 0 and at most 1.

    Notes
    -----
    Also called nucleus sampling. The number of tokens left follows the model: few where it is sure, many where it is
    not. Rounding may let a sum reach 1 before the last token; at ``p=1`` that excludes none.
    Sorting takes ``V log V`` steps for each row.

    References
    ----------
    Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), section 3.1.

    Examples
    --------
    >>> logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    >>> (top_p_filter(logits, p=0.6) == logits).tolist()
    [False, True, False, True]
    """
    if not 0 < p <= 1:
        raise ValueError(f"p is {p}; it must be above 0 and at most 1.")
    descending = logits.sort(dim=-1, descending=True).values
    probs = torch.softmax(descending, dim=-1)
    before = probs.cumsum(dim=-1) - probs  # what the more probable tokens have together
    needed = (before < p) | (p == 1)
    lowest = descending.masked_fill(~needed, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < lowest, -math.inf)
