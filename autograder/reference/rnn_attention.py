"""Reference kernels of the chapter "Attention in the decoder"."""

from collections.abc import Sequence, Set

import torch
from jaxtyping import Bool, Float

from autograder.reference.rnn_encoder_decoder import gru_cell


def additive_scores(
    s: Float[torch.Tensor, "*batch d_s"],
    H: Float[torch.Tensor, "*batch key d_h"],
    W: Float[torch.Tensor, "d_s d_a"],
    U: Float[torch.Tensor, "d_h d_a"],
    v: Float[torch.Tensor, "d_a"],
) -> Float[torch.Tensor, "*batch key"]:
    """Score each encoder state against the decoder's state with a small network of one hidden layer.

    Parameters
    ----------
    s
        The decoder's state, one row for each sentence, with any leading dimensions (none for a single sentence).
    H
        The encoder's states, one in each row, with the same leading dimensions.
    W, U
        Weights for the decoder's state and for the encoder's, in the layout ``(D_in, D_out)``, so that a row vector is
        multiplied from the left. No biases.
    v
        The weights of the hidden layer's units in the score.

    Returns
    -------
    One alignment score for each encoder state, before any softmax. Dtype as that of ``s``.

    Raises
    ------
    ValueError
        If the weights do not fit the states or each other.

    Notes
    -----
    The two products are added, the hyperbolic tangent is taken of the sum, and the units are added up by ``v``.
    ``d_s * d_a + N * (d_h + 1) * d_a`` multiply-adds for each sentence, and ``N * d_a`` hyperbolic tangents; the
    largest tensor made has ``N * d_a`` numbers for each.

    References
    ----------
    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate" (2015), appendix A.1.2.

    Examples
    --------
    >>> s, H = torch.zeros(1), torch.tensor([[0.0], [50.0], [-50.0]])
    >>> additive_scores(s, H, torch.ones(1, 2), torch.ones(1, 2), torch.tensor([2.0, 1.0])).tolist()
    [0.0, 3.0, -3.0]
    """
    if (s.shape[-1], H.shape[-1]) != (W.shape[0], U.shape[0]) or not W.shape[1] == U.shape[1] == v.shape[0]:
        raise ValueError(
            f"s has width {s.shape[-1]} and H has width {H.shape[-1]}, so W must be of shape ({s.shape[-1]}, d_a), "
            f"U of shape ({H.shape[-1]}, d_a) and v of shape (d_a,); "
            f"they are {tuple(W.shape)}, {tuple(U.shape)} and {tuple(v.shape)}."
        )
    hidden = torch.tanh((s @ W).unsqueeze(-2) + H @ U)  # (*batch, key, d_a)
    return hidden @ v


def multiplicative_scores(
    s: Float[torch.Tensor, "*batch d_s"], H: Float[torch.Tensor, "*batch key d_h"], W: Float[torch.Tensor, "d_s d_h"]
) -> Float[torch.Tensor, "*batch key"]:
    """Score each encoder state against the decoder's state by a product with a matrix between them.

    Parameters
    ----------
    s
        The decoder's state, one row for each sentence, with any leading dimensions (none for a single sentence).
    H
        The encoder's states, one in each row, with the same leading dimensions.
    W
        The matrix between the two. The decoder's state stands on its left, an encoder state on its right.

    Returns
    -------
    One alignment score for each encoder state, before any softmax. Dtype as that of ``s``.

    Raises
    ------
    ValueError
        If ``W`` does not fit the states.

    Notes
    -----
    Linear in each of the three; the same as ``torch.nn.functional.bilinear`` with one output and no bias. With the
    identity in place of ``W`` it is the dot product.
    ``d_s * d_h + N * d_h`` multiply-adds for each sentence, if the decoder's state goes through the matrix, once, and
    not each encoder state. No tensor made then has more numbers than ``d_h`` or ``N`` for each.

    References
    ----------
    Luong et al., "Effective Approaches to Attention-based Neural Machine Translation" (2015), section 3.1, the score
    "general".

    Examples
    --------
    >>> s, H = torch.tensor([1.0, 2.0]), torch.tensor([[1.0], [-3.0]])
    >>> multiplicative_scores(s, H, torch.tensor([[10.0], [1.0]])).tolist()
    [12.0, -36.0]
    """
    if W.shape != (s.shape[-1], H.shape[-1]):
        raise ValueError(
            f"s has width {s.shape[-1]} and H has width {H.shape[-1]}, so W must be of shape "
            f"{(s.shape[-1], H.shape[-1])}; it is {tuple(W.shape)}."
        )
    return (H @ (s @ W).unsqueeze(-1)).squeeze(-1)


def masked_softmax(
    scores: Float[torch.Tensor, "*batch key"], key_mask: Bool[torch.Tensor, "*#batch #key"]
) -> Float[torch.Tensor, "*batch key"]:
    """Share out a total of one among the real keys, by their scores; padding gets exactly nothing.

    Parameters
    ----------
    scores
        A score for each key, with any leading dimensions.
    key_mask
        True where a key is real, False on padding; any shape that broadcasts to that of ``scores``.

    Returns
    -------
    Weights that are zero on padding and sum to one over the last axis. A row without any real key gets zeros, and
    finite gradients. Dtype as that of ``scores``.

    Raises
    ------
    TypeError
        If ``key_mask`` is not boolean: of numbers, one cannot tell whether they are to be added or to select.

    Notes
    -----
    What the scores are on padding changes nothing. The result is finite for scores of any size; a plain softmax of a
    row of minus infinity gives NaN.
    One exponential for each score; the largest tensor made is as large as ``scores``.

    References
    ----------
    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate" (2015), section 3.1, for a
    single sentence, which needs no mask.

    Examples
    --------
    >>> scores = torch.tensor([[1.0, 1.0, 9.0], [1.0, 1.0, 9.0]])
    >>> key_mask = torch.tensor([[True, True, False], [False, False, False]])
    >>> masked_softmax(scores, key_mask).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    if key_mask.dtype != torch.bool:
        raise TypeError(f"key_mask has dtype {key_mask.dtype}; it must be torch.bool, True where a key is real.")
    scores = scores.masked_fill(~key_mask, torch.finfo(scores.dtype).min)
    attn_weights = torch.softmax(scores, dim=-1)
    return attn_weights.masked_fill(~key_mask, 0.0)  # a row without any real key is uniform so far


def context_vector(
    attn_weights: Float[torch.Tensor, "*batch key"], H: Float[torch.Tensor, "*batch key d_h"]
) -> Float[torch.Tensor, "*batch d_h"]:
    """Sum the encoder's states, each times its weight: what the decoder reads at this step.

    Parameters
    ----------
    attn_weights
        A weight for each encoder state, with any leading dimensions (none for a single sentence).
    H
        The encoder's states, one in each row, with the same leading dimensions.

    Returns
    -------
    One context vector for each sentence, as wide as an encoder state. Dtype as that of ``H``.

    Raises
    ------
    ValueError
        If there is not one weight for each encoder state.

    Notes
    -----
    The weights are taken as they are: they need not sum to one.
    ``N * d_h`` multiply-adds for each sentence; the result is the largest tensor that need be made.

    References
    ----------
    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate" (2015), equation 5.

    Examples
    --------
    >>> H = torch.tensor([[2.0, 0.0], [0.0, 4.0], [7.0, 7.0]])
    >>> context_vector(torch.tensor([0.5, 0.5, 0.0]), H).tolist()
    [1.0, 2.0]
    """
    if attn_weights.shape != H.shape[:-1]:
        raise ValueError(
            f"attn_weights has shape {tuple(attn_weights.shape)} and H has shape {tuple(H.shape)}; "
            f"weights of shape {tuple(H.shape[:-1])} are wanted, one for each encoder state."
        )
    return (attn_weights.unsqueeze(-2) @ H).squeeze(-2)


def attention_decoder_step(
    y: Float[torch.Tensor, "batch d_y"],
    s: Float[torch.Tensor, "batch d_s"],
    H: Float[torch.Tensor, "batch key d_h"],
    key_mask: Bool[torch.Tensor, "batch key"],
    W: Float[torch.Tensor, "d_s d_a"],
    U: Float[torch.Tensor, "d_h d_a"],
    v: Float[torch.Tensor, "d_a"],
    W_ih: Float[torch.Tensor, "3*d_s d_y+d_h"],
    W_hh: Float[torch.Tensor, "3*d_s d_s"],
    b_ih: Float[torch.Tensor, "3*d_s"],
    b_hh: Float[torch.Tensor, "3*d_s"],
) -> tuple[
    Float[torch.Tensor, "batch d_s"],
    Float[torch.Tensor, "batch d_h"],
    Float[torch.Tensor, "batch key"],
]:
    """Take one step of the decoder: look at the source with the state before, then move on to the new state.

    Parameters
    ----------
    y
        The embedding of the word before, one row for each sentence.
    s
        The decoder's state *before* this step.
    H
        The encoder's states, one row for each source word, filled up with padding.
    key_mask
        True where a source word is real, False on padding.
    W, U, v
        The weights of `additive_scores`.
    W_ih, W_hh, b_ih, b_hh
        The weights of `gru_cell`, in PyTorch's layout ``(d_out, d_in)``. Its input is the embedding followed by the
        context vector, side by side in this order.

    Returns
    -------
    s_new
        The decoder's state after this step.
    context
        The context vector of this step.
    attn_weights
        How much of each source word went into it: zero on padding, and all zero for a sentence without real words.

    Raises
    ------
    ValueError
        If the cell's input weights do not fit the width of an embedding and a context vector together.

    Notes
    -----
    The order is Bahdanau's: the state before, alignment scores, weights, context, new state. In Luong's order the new
    state comes first and asks for the context itself.
    The cost of its four parts, added up. ``H`` times ``U`` does not change from step to step and could be kept.

    References
    ----------
    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate" (2015), section 3.1 and
    appendix A.2.2, where the context enters the cell's gates by weights of its own, which is the same.

    Examples
    --------
    >>> y, s, H = torch.zeros(1, 1), torch.zeros(1, 1), torch.tensor([[[3.0], [5.0], [9.0]]])
    >>> key_mask, zero = torch.tensor([[True, True, False]]), torch.zeros(1, 1)
    >>> W_ih, W_hh, bias = torch.zeros(3, 2), torch.zeros(3, 1), torch.zeros(3)
    >>> s_new, context, attn_weights = attention_decoder_step(
    ...     y, s, H, key_mask, zero, zero, torch.ones(1), W_ih, W_hh, bias, bias
    ... )
    >>> attn_weights.tolist(), context.tolist(), s_new.tolist()
    ([[0.5, 0.5, 0.0]], [[4.0]], [[0.0]])
    """
    if W_ih.shape[1] != y.shape[-1] + H.shape[-1]:
        raise ValueError(
            f"An embedding has width {y.shape[-1]} and a context vector has width {H.shape[-1]}, so W_ih must have "
            f"{y.shape[-1] + H.shape[-1]} columns; it has {W_ih.shape[1]}."
        )
    scores = additive_scores(s, H, W, U, v)
    attn_weights = masked_softmax(scores, key_mask)
    context = context_vector(attn_weights, H)
    s_new = gru_cell(torch.cat([y, context], dim=-1), s, W_ih, W_hh, b_ih, b_hh)
    return s_new, context, attn_weights


def alignment_error_rate(
    found: Sequence[Set[tuple[int, int]]],
    sure: Sequence[Set[tuple[int, int]]],
    possible: Sequence[Set[tuple[int, int]]],
) -> float:
    """Say how far word alignments are from those that people, or a grammar, have marked.

    Parameters
    ----------
    found
        The links that are to be judged: for each sentence pair a set of pairs ``(target place, source place)``.
    sure
        The links that must be there, in the same form.
    possible
        The links that may be there, the sure ones among them.

    Returns
    -------
    A number from 0, when every sure link is found and every found link is possible, to 1.

    Raises
    ------
    ValueError
        If the three do not speak of the same number of sentences, a sure link is not possible, or there is nothing to
        judge.

    Notes
    -----
    One minus the number of found links that are sure plus the number of found links that are possible, over the
    number of found links plus the number of sure ones. All sentences are counted together, so that a long
    sentence weighs more. Where every possible link is sure, it is one minus the F-score of precision and recall.
    Linear in the number of links.

    References
    ----------
    Och & Ney, "A Systematic Comparison of Various Statistical Alignment Models" (2003), section 5.

    Examples
    --------
    >>> sure, possible = [{(0, 0), (1, 2)}], [{(0, 0), (0, 1), (1, 2)}]
    >>> alignment_error_rate([{(0, 0), (0, 1), (1, 2)}], sure, possible)
    0.0
    >>> alignment_error_rate([{(0, 0), (1, 1)}], sure, possible)
    0.5
    """
    if not len(found) == len(sure) == len(possible):
        raise ValueError(
            f"There are links of {len(found)}, {len(sure)} and {len(possible)} sentences; the three must speak of the "
            "same sentences."
        )
    if not all(must_be <= may_be for must_be, may_be in zip(sure, possible, strict=True)):
        raise ValueError("A sure link is not among the possible links of its sentence; put each of them there too.")
    if not any(found) and not any(sure):
        raise ValueError("No link is found and none is sure, so there is nothing to judge.")
    right, total = 0, 0
    for links, must_be, may_be in zip(found, sure, possible, strict=True):
        right += len(links & must_be) + len(links & may_be)
        total += len(links) + len(must_be)
    return 1 - right / total
