"""Reference kernels of the chapter "Decoding"."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def teacher_forcing_batch(
    sentences: Sequence[Sequence[int]], bos: int, eos: int, pad: int
) -> tuple[Int[Tensor, "batch token"], Int[Tensor, "batch token"], Bool[Tensor, "batch token"]]:
    """Make a decoder's training batch from target sentences: what it reads, what it should say, and where that counts.

    Parameters
    ----------
    sentences
        The words of each sentence as numbers, without any special token. A sentence may have no words.
    bos
        The token ``<bos>``, which the decoder reads first.
    eos
        The token ``<eos>``, which it should say last.
    pad
        The token that fills up the shorter sentences; it may be the same number as ``eos``.

    Returns
    -------
    decoder_input
        ``bos`` and the words, then padding. Of dtype ``torch.int64``, as is ``target``.
    target
        The words and ``eos``, then padding: at each place what the decoder should say when it has read
        ``decoder_input`` up to there.
    mask
        True where a token of ``target`` is real, ``eos`` included; False on padding.

    Raises
    ------
    ValueError
        If there is no sentence.

    Notes
    -----
    All three are as long as the longest sentence and one more.
    A one-hot target has its one at the number in ``target``, and cross-entropy needs no more than that number.

    References
    ----------
    Williams & Zipser, "A Learning Algorithm for Continually Running Fully Recurrent Neural Networks" (1989), which
    names teacher forcing.

    Examples
    --------
    >>> pad, bos, eos = 0, 1, 2
    >>> decoder_input, target, mask = teacher_forcing_batch([[5, 6, 7], [8]], bos, eos, pad)
    >>> decoder_input.tolist()
    [[1, 5, 6, 7], [1, 8, 0, 0]]
    >>> target.tolist()
    [[5, 6, 7, 2], [8, 2, 0, 0]]
    >>> mask.tolist()
    [[True, True, True, True], [True, True, False, False]]
    """
    if len(sentences) == 0:
        raise ValueError("There is no sentence; a batch needs at least one.")
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    decoder_input = torch.full((len(sentences), int(lengths.max())), pad)
    target = decoder_input.clone()
    for row, (sentence, length) in enumerate(zip(sentences, lengths, strict=True)):
        decoder_input[row, :length] = torch.tensor([bos, *sentence])
        target[row, :length] = torch.tensor([*sentence, eos])
    mask = torch.arange(target.shape[1]) < lengths[:, None]
    return decoder_input, target, mask


def scheduled_sampling(
    decoder_input: Int[Tensor, "batch token"],
    predicted: Int[Tensor, "batch token"],
    draw: Float[Tensor, "batch token"],
    teacher_forcing_ratio: float,
) -> Int[Tensor, "batch token"]:
    """Put some of the decoder's own predictions in place of the right words that it reads.

    Parameters
    ----------
    decoder_input
        What the decoder reads under teacher forcing: ``<bos>`` and the right words.
    predicted
        What it says when it has read ``decoder_input`` up to each place. So ``predicted[:, t]`` is its guess at the
        word that stands at place ``t + 1`` of ``decoder_input``.
    draw
        A random number from 0 up to but not including 1 for each place, drawn by the caller.
    teacher_forcing_ratio
        The probability, from 0 to 1, with which a word stays the right one.

    Returns
    -------
    A new tensor of the shape and dtype of ``decoder_input``. A word stays where the ``draw`` of its own place is below
    ``teacher_forcing_ratio``; elsewhere the guess at it takes its place. ``<bos>`` always stays.

    Raises
    ------
    ValueError
        If the three shapes differ, or the ratio is not from 0 to 1.

    Notes
    -----
    Each place is decided for itself. The random numbers are an argument, so that the same call gives the same result.
    Tokens have no gradient: the model learns from what it then says, not from what was chosen.

    References
    ----------
    Bengio et al., "Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks" (2015), section 2.4;
    Mihaylova & Martins, "Scheduled Sampling for Transformers" (2019), which takes all guesses from one first pass.

    Examples
    --------
    >>> decoder_input = torch.tensor([[1, 5, 6, 7]])
    >>> predicted = torch.tensor([[50, 60, 70, 80]])
    >>> draw = torch.tensor([[0.9, 0.1, 0.9, 0.3]])
    >>> scheduled_sampling(decoder_input, predicted, draw, 0.5).tolist()
    [[1, 5, 60, 7]]
    """
    if not decoder_input.shape == predicted.shape == draw.shape:
        raise ValueError(
            f"decoder_input has shape {tuple(decoder_input.shape)}, predicted {tuple(predicted.shape)} and draw "
            f"{tuple(draw.shape)}; the three must be equal."
        )
    if not 0 <= teacher_forcing_ratio <= 1:
        raise ValueError(f"teacher_forcing_ratio is {teacher_forcing_ratio}; it must be from 0 to 1.")
    guesses = torch.cat([decoder_input[:, :1], predicted[:, :-1]], dim=1)
    return torch.where(draw < teacher_forcing_ratio, decoder_input, guesses)


def greedy_search(
    next_log_probs: Callable, start: Int[Tensor, "batch"], eos: int, pad: int, max_length: int
) -> tuple[Int[Tensor, "batch token"], Float[Tensor, "batch"]]:
    """Let a model without a state of its own speak: at each step the most probable token is added to the prefix.

    Parameters
    ----------
    next_log_probs
        The model: ``next_log_probs(prefix)`` takes all that was said so far, ``start`` included, as tokens
        ``(B, length)``, and returns the log-probability of each next token ``(B, V)``. Rows do not depend on each
        other.
    start
        The token that each sentence starts from, ``<bos>``.
    eos
        The token that ends a sentence.
    pad
        The token that fills up a sentence that has ended; the model takes it like any other.
    max_length
        The largest number of tokens of a sentence, ``eos`` included and ``start`` not.

    Returns
    -------
    tokens
        The tokens of each sentence: without ``start``, with ``eos`` where the sentence came to its end, then padding
        up to the end of the longest. As many as steps were taken, of dtype ``torch.int64``.
    log_probs
        The log-probability of each sentence: the sum over its tokens, ``eos`` included and padding not. Dtype as the
        model's.

    Raises
    ------
    ValueError
        If ``max_length`` is below 1.

    Notes
    -----
    ``greedy_decode`` of the chapter on recurrent decoders hands a state from step to step and shows one token at a
    time. Here the whole prefix is read again at every step, as a Transformer does without a cache.
    Once every sentence has ended, no further step is taken.

    References
    ----------
    Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014), section 3.2, with a beam of one.

    Examples
    --------
    >>> pad, bos, eos = 0, 1, 2
    >>> def counts_down(prefix):  # from 5 in the first step, then one less than the last token
    ...     following = torch.where(prefix[:, -1] == bos, 5, prefix[:, -1] - 1).clamp(min=0)
    ...     return torch.log(0.5 * torch.nn.functional.one_hot(following, 6) + 0.5 / 6)
    >>> tokens, log_probs = greedy_search(counts_down, torch.tensor([bos]), eos, pad, max_length=8)
    >>> tokens.tolist()
    [[5, 4, 3, 2]]
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; it must be at least 1.")
    prefix, total = start[:, None], 0.0
    ended = torch.zeros_like(start, dtype=torch.bool)
    while prefix.shape[1] <= max_length and not ended.all():
        log_probs, tokens = next_log_probs(prefix).max(dim=-1)
        total = total + log_probs.masked_fill(ended, 0.0)
        prefix = torch.cat([prefix, tokens.masked_fill(ended, pad)[:, None]], dim=1)
        ended = ended | (tokens == eos)
    return prefix[:, 1:], total


def beam_search(
    next_log_probs: Callable, bos: int, eos: int, beam_size: int, max_length: int, alpha: float = 1.0
) -> tuple[Int[Tensor, " token"], Float[Tensor, ""]]:
    """Search for the sentence with the best score, keeping several unfinished ones alive at each step.

    Parameters
    ----------
    next_log_probs
        The model, for one source: ``next_log_probs(prefix)`` takes hypotheses, ``bos`` included, as tokens
        ``(hypothesis, length)``, and returns the log-probability of each next token ``(hypothesis, V)``. Any number of
        rows will do, and they do not depend on each other.
    bos
        The token that every hypothesis starts from.
    eos
        The token that finishes a hypothesis.
    beam_size
        How many continuations are kept at each step.
    max_length
        The largest number of tokens of a hypothesis, ``eos`` included and ``bos`` not.
    alpha
        The exponent of the length in the score, 0 or more. With 0 the score is the log-probability.

    Returns
    -------
    tokens
        The hypothesis with the best score: without ``bos``, with ``eos`` if it came to its end. Dtype ``torch.int64``.
    score
        Its log-probability divided by its length to the power of ``alpha``. The length counts all tokens of the
        hypothesis, ``eos`` too, and not ``bos``. Dtype as the model's.

    Raises
    ------
    ValueError
        If ``beam_size`` or ``max_length`` is below 1.

    Notes
    -----
    At each step all continuations of all live hypotheses compete by their log-probability, those by ``eos`` too, and
    the ``beam_size`` best are kept. Of these, the ones that end with ``eos`` are finished and leave the beam; the
    others live on, and have the full ``beam_size`` of places again at the next step. All of one step are equally long,
    so a division by the length would not change their order.
    The search goes on until no hypothesis is alive or ``max_length`` is reached, where the live ones are cut off and
    compete with the finished ones by the same score.
    With ``beam_size=1`` this is greedy search. At most ``max_length`` calls of the model, each with at most
    ``beam_size`` rows.

    References
    ----------
    Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014), section 3.2; Wu et al., "Google's
    Neural Machine Translation System" (2016), section 7, whose length is ``(5 + length) / 6``.

    Examples
    --------
    >>> bos, eos = 0, 1
    >>> table = torch.tensor([[0.0, 0.0, 0.6, 0.4], [0.0, 1.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.9, 0.1, 0.0]])
    >>> def after_the_last_token(prefix):
    ...     return table[prefix[:, -1]].log()
    >>> for beam_size in (1, 2):
    ...     tokens, score = beam_search(after_the_last_token, bos, eos, beam_size, max_length=2, alpha=0.0)
    ...     print(tokens.tolist(), round(score.exp().item(), 2))
    [2, 1] 0.3
    [3, 1] 0.36
    """
    if min(beam_size, max_length) < 1:
        raise ValueError(f"beam_size is {beam_size} and max_length is {max_length}; both must be at least 1.")
    live, log_probs = torch.tensor([[bos]]), torch.zeros(1)
    hypotheses = []
    for length in range(1, max_length + 1):
        totals = log_probs[:, None] + next_log_probs(live)  # (live, vocabulary)
        log_probs, places = totals.flatten().topk(min(beam_size, totals.numel()))
        parents, tokens = places // totals.shape[1], places % totals.shape[1]
        live = torch.cat([live[parents], tokens[:, None]], dim=1)
        ended = (tokens == eos) | (length == max_length)
        hypotheses += zip(log_probs[ended] / length**alpha, live[ended, 1:], strict=True)
        live, log_probs = live[~ended], log_probs[~ended]
        if len(live) == 0:
            break
    score, best = max(hypotheses, key=lambda hypothesis: hypothesis[0])
    return best, score


def nat_decode_by_length(
    length_logits: Float[Tensor, "batch num_lengths"], emit: Callable, pad: int
) -> Int[Tensor, "batch token"]:
    """Say all tokens of a sentence at once, after its length has been predicted.

    Parameters
    ----------
    length_logits
        A score for each length of a sentence, from 0 to ``num_lengths - 1``, before any softmax.
    emit
        The decoder: ``emit(lengths)`` takes the number of tokens of each sentence ``(B,)`` and returns logits
        ``(B, N, V)`` for all places at once, where ``N`` is the largest of these numbers.
    pad
        The token that fills up the shorter sentences.

    Returns
    -------
    The most probable token of each place, in sentences of the most probable length; padding after their end. There is
    no ``<eos>``. Dtype ``torch.int64``.

    Notes
    -----
    One call of ``emit`` for the whole batch, whatever the lengths. No token knows which others were chosen.

    References
    ----------
    Gu et al., "Non-Autoregressive Neural Machine Translation" (2018), section 3, whose fertilities say the length;
    Ghazvininejad et al., "Mask-Predict" (2019), section 2, which predicts it as here.

    Examples
    --------
    >>> length_logits = torch.tensor([[0.0, 0.0, 9.0, 0.0], [0.0, 9.0, 0.0, 0.0]])
    >>> logits = torch.nn.functional.one_hot(torch.tensor([[5, 6, 7], [8, 8, 8]])).float()
    >>> nat_decode_by_length(length_logits, lambda lengths: logits[:, : lengths.max()], pad=0).tolist()
    [[5, 6], [8, 0]]
    """
    lengths = length_logits.argmax(dim=-1)
    tokens = emit(lengths).argmax(dim=-1)
    beyond = torch.arange(tokens.shape[1]) >= lengths[:, None]
    return tokens.masked_fill(beyond, pad)


def nat_decode_until_eos(
    logits: Float[Tensor, "batch token vocabulary"], eos: int, pad: int
) -> Int[Tensor, "batch token"]:
    """Cut sentences whose tokens were all said at once where the first ``<eos>`` among them stands.

    Parameters
    ----------
    logits
        A score for each token at each of more places than a sentence needs.
    eos
        The token that ends a sentence.
    pad
        The token to put after the end.

    Returns
    -------
    The most probable token of each place, up to and with the first ``eos``; padding after it. A sentence without
    ``eos`` keeps all its tokens. Dtype ``torch.int64``.

    Notes
    -----
    No token knows which others were chosen, so nothing stops a model from saying ``eos`` too early, or twice.
    Linear in the number of logits; the tokens beyond the end were computed for nothing.

    References
    ----------
    Gu et al., "Non-Autoregressive Neural Machine Translation" (2018), section 3, on why the length is hard to know.

    Examples
    --------
    >>> eos, pad = 2, 0
    >>> logits = torch.nn.functional.one_hot(torch.tensor([[5, 2, 6, 2], [7, 7, 7, 7]])).float()
    >>> nat_decode_until_eos(logits, eos, pad).tolist()
    [[5, 2, 0, 0], [7, 7, 7, 7]]
    """
    tokens = logits.argmax(dim=-1)
    ends = (tokens == eos).long()
    ends_before = ends.cumsum(dim=-1) - ends
    return tokens.masked_fill(ends_before > 0, pad)


def length_predictor_loss(
    length_logits: Float[Tensor, "batch num_lengths"], target: Int[Tensor, "batch token"], pad: int
) -> Float[Tensor, ""]:
    """Measure how badly a model predicts how many tokens its target sentences have.

    Parameters
    ----------
    length_logits
        A score for each length, from 0 to ``num_lengths - 1``, before any softmax.
    target
        The tokens of each sentence, then padding.
    pad
        The token that marks padding.

    Returns
    -------
    One number: the cross-entropy in nats of the right lengths, averaged over the sentences. The length of a sentence is
    the number of its tokens that are not ``pad``. Dtype as that of ``length_logits``.

    Raises
    ------
    ValueError
        If some length from 0 to the width of ``target`` has no score.

    Notes
    -----
    The length is treated as a class: to be off by one costs as much as to be off by ten.

    References
    ----------
    Ghazvininejad et al., "Mask-Predict" (2019), section 2, whose encoder reads one more token to say the length.

    Examples
    --------
    >>> pad = 0
    >>> length_logits = torch.tensor([[0.0, 0.0, 100.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    >>> target = torch.tensor([[7, 8, pad], [9, pad, pad]])
    >>> length_predictor_loss(length_logits, target, pad).exp().item()  # the root of 1 times 4
    2.0
    """
    if target.shape[1] >= length_logits.shape[1]:
        raise ValueError(
            f"target has room for {target.shape[1]} tokens and there are scores for {length_logits.shape[1]} lengths; "
            f"there must be one for each from 0 to {target.shape[1]}."
        )
    lengths = (target != pad).sum(dim=-1)
    log_probs = torch.log_softmax(length_logits, dim=-1)
    of_lengths = log_probs.gather(-1, lengths[:, None])
    return -of_lengths.mean()
