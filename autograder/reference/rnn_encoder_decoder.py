"""Reference kernels of the chapter "The recurrent encoder-decoder"."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int


def rnn_cell(
    x: Float[torch.Tensor, "batch d_in"],
    h: Float[torch.Tensor, "batch d_h"],
    W_ih: Float[torch.Tensor, "d_h d_in"],
    W_hh: Float[torch.Tensor, "d_h d_h"],
    b_ih: Float[torch.Tensor, "d_h"],
    b_hh: Float[torch.Tensor, "d_h"],
) -> Float[torch.Tensor, "batch d_h"]:
    """Take one step with the simple recurrent cell: a new state from an input and the state before.

    Parameters
    ----------
    x
        The input of this step, one row for each sentence.
    h
        The state before the step, one row for each sentence.
    W_ih, W_hh
        Weights for the input and for the state, in PyTorch's layout ``(d_out, d_in)``.
    b_ih, b_hh
        The bias of each of the two.

    Returns
    -------
    The state after the step, every number between -1 and 1. Dtype as the input's.

    Raises
    ------
    ValueError
        If the weights do not fit the widths of ``x`` and ``h``.

    Notes
    -----
    The hyperbolic tangent of the sum of two linear maps, one of the input and one of the state; the same as
    ``torch.nn.RNNCell``.
    ``d_h * (d_in + d_h)`` multiply-adds for each sentence; the largest tensor made has ``B * d_h`` numbers.

    References
    ----------
    Elman, "Finding Structure in Time" (1990).

    Examples
    --------
    >>> x, h = torch.tensor([[0.0], [50.0]]), torch.zeros(2, 1)
    >>> one, zero = torch.ones(1, 1), torch.zeros(1)
    >>> rnn_cell(x, h, one, one, zero, zero).tolist()
    [[0.0], [1.0]]
    """
    if W_ih.shape != (h.shape[-1], x.shape[-1]) or W_hh.shape != (h.shape[-1], h.shape[-1]):
        raise ValueError(
            f"x has width {x.shape[-1]} and h has width {h.shape[-1]}, so W_ih must be of shape "
            f"{(h.shape[-1], x.shape[-1])} and W_hh of shape {(h.shape[-1], h.shape[-1])}; "
            f"they are {tuple(W_ih.shape)} and {tuple(W_hh.shape)}."
        )
    return torch.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)


def gru_cell(
    x: Float[torch.Tensor, "batch d_in"],
    h: Float[torch.Tensor, "batch d_h"],
    W_ih: Float[torch.Tensor, "3*d_h d_in"],
    W_hh: Float[torch.Tensor, "3*d_h d_h"],
    b_ih: Float[torch.Tensor, "3*d_h"],
    b_hh: Float[torch.Tensor, "3*d_h"],
) -> Float[torch.Tensor, "batch d_h"]:
    """Take one step with the gated recurrent unit, which chooses how much of its state to keep.

    Parameters
    ----------
    x
        The input of this step, one row for each sentence.
    h
        The state before the step, one row for each sentence.
    W_ih, W_hh
        Weights for the input and for the state, in PyTorch's layout ``(d_out, d_in)``: the rows of the reset gate,
        then those of the update gate, then those of the candidate.
    b_ih, b_hh
        The biases of each of the two, in the same order.

    Returns
    -------
    The state after the step. Dtype as the input's.

    Raises
    ------
    ValueError
        If the weights do not fit the widths of ``x`` and ``h``.

    Notes
    -----
    The same as ``torch.nn.GRUCell``. The reset gate multiplies the candidate's part from the state *after* its weights
    and bias. An update gate of one keeps the old state, an update gate of zero takes the candidate; some papers name
    them the other way round.
    ``3 * d_h * (d_in + d_h)`` multiply-adds for each sentence; the largest tensor made has ``3 * B * d_h`` numbers.

    References
    ----------
    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), section 2.3, with the reset gate
    after the weights.

    Examples
    --------
    >>> x, h = torch.zeros(1, 1), torch.tensor([[0.5]])
    >>> W_ih, W_hh, b_hh = torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3)
    >>> gru_cell(x, h, W_ih, W_hh, torch.tensor([0.0, 50.0, 0.0]), b_hh).tolist()
    [[0.5]]
    >>> gru_cell(x, h, W_ih, W_hh, torch.tensor([0.0, 0.0, 50.0]), b_hh).tolist()
    [[0.75]]
    """
    if W_ih.shape != (3 * h.shape[-1], x.shape[-1]) or W_hh.shape != (3 * h.shape[-1], h.shape[-1]):
        raise ValueError(
            f"x has width {x.shape[-1]} and h has width {h.shape[-1]}, so W_ih must be of shape "
            f"{(3 * h.shape[-1], x.shape[-1])} and W_hh of shape {(3 * h.shape[-1], h.shape[-1])}; "
            f"they are {tuple(W_ih.shape)} and {tuple(W_hh.shape)}."
        )
    x_reset, x_update, x_candidate = (x @ W_ih.T + b_ih).chunk(3, dim=-1)
    h_reset, h_update, h_candidate = (h @ W_hh.T + b_hh).chunk(3, dim=-1)
    reset = torch.sigmoid(x_reset + h_reset)
    update = torch.sigmoid(x_update + h_update)
    candidate = torch.tanh(x_candidate + reset * h_candidate)
    return (1 - update) * candidate + update * h


def lstm_cell(
    x: Float[torch.Tensor, "batch d_in"],
    h: Float[torch.Tensor, "batch d_h"],
    c: Float[torch.Tensor, "batch d_h"],
    W_ih: Float[torch.Tensor, "4*d_h d_in"],
    W_hh: Float[torch.Tensor, "4*d_h d_h"],
    b_ih: Float[torch.Tensor, "4*d_h"],
    b_hh: Float[torch.Tensor, "4*d_h"],
) -> tuple[Float[torch.Tensor, "batch d_h"], Float[torch.Tensor, "batch d_h"]]:
    """Take one step with the long short-term memory, which keeps a second state that is only added to.

    Parameters
    ----------
    x
        The input of this step, one row for each sentence.
    h
        The hidden state before the step, which the rest of a network sees.
    c
        The cell state before the step, which stays inside.
    W_ih, W_hh
        Weights for the input and for the hidden state, in PyTorch's layout ``(d_out, d_in)``: the rows of the input
        gate, then of the forget gate, then of the candidate, then of the output gate.
    b_ih, b_hh
        The biases of each of the two, in the same order.

    Returns
    -------
    The hidden state and the cell state after the step, in this order. Dtype as the input's.

    Raises
    ------
    ValueError
        If the weights do not fit the widths of ``x`` and ``h``.

    Notes
    -----
    The same as ``torch.nn.LSTMCell``. The forget gate scales the old cell state, the input gate the candidate; the
    output gate scales the hyperbolic tangent of the new cell state.
    ``4 * d_h * (d_in + d_h)`` multiply-adds for each sentence; the largest tensor made has ``4 * B * d_h`` numbers.

    References
    ----------
    Hochreiter & Schmidhuber, "Long Short-Term Memory" (1997); the forget gate is of Gers et al., "Learning to Forget"
    (2000).

    Examples
    --------
    >>> x, h, c = torch.zeros(1, 1), torch.zeros(1, 1), torch.tensor([[3.0]])
    >>> W_ih, W_hh, b_hh = torch.zeros(4, 1), torch.zeros(4, 1), torch.zeros(4)
    >>> h, c = lstm_cell(x, h, c, W_ih, W_hh, torch.tensor([-50.0, 50.0, 0.0, -50.0]), b_hh)
    >>> h.round().tolist(), c.tolist()
    ([[0.0]], [[3.0]])
    """
    if W_ih.shape != (4 * h.shape[-1], x.shape[-1]) or W_hh.shape != (4 * h.shape[-1], h.shape[-1]):
        raise ValueError(
            f"x has width {x.shape[-1]} and h has width {h.shape[-1]}, so W_ih must be of shape "
            f"{(4 * h.shape[-1], x.shape[-1])} and W_hh of shape {(4 * h.shape[-1], h.shape[-1])}; "
            f"they are {tuple(W_ih.shape)} and {tuple(W_hh.shape)}."
        )
    gates = x @ W_ih.T + b_ih + h @ W_hh.T + b_hh  # (batch, 4 d_h)
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
    new_c = torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.tanh(candidate)
    new_h = torch.sigmoid(output_gate) * torch.tanh(new_c)
    return new_h, new_c


def encode(
    step: Callable,
    X: Float[torch.Tensor, "batch token d_in"],
    lengths: Int[torch.Tensor, "batch"],
    h_0: Float[torch.Tensor, "batch d_h"],
) -> tuple[Float[torch.Tensor, "batch token d_h"], Float[torch.Tensor, "batch d_h"]]:
    """Read a batch of sentences of different lengths, token by token, and keep every state.

    Parameters
    ----------
    step
        A recurrent cell with its weights in it: ``step(x, h)`` takes inputs ``(B, d_in)`` and states ``(B, d_h)`` and
        returns the new states. It treats each row for itself, and any number of rows will do.
    X
        The sentences, one token in each row, filled up with padding to the length of the longest.
    lengths
        The number of real tokens of each sentence, from 0 to ``N``. The real ones come first.
    h_0
        The state before the first token.

    Returns
    -------
    states
        The state after each token; zeros on padding.
    last
        The state of each sentence after its last real token: ``h_0`` for a sentence without any.

    Raises
    ------
    ValueError
        If a length is below 0 or above ``N``.

    Notes
    -----
    What stands on padding changes nothing. The same as ``torch.nn.RNN`` and its relatives on a packed sequence, which
    however allow no sentence of length 0.
    ``N`` steps one after the other, each for the whole batch; the states have ``B * N * d_h`` numbers.

    References
    ----------
    Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014), section 2.

    Examples
    --------
    >>> X = torch.tensor([[[1.0], [2.0], [4.0]], [[8.0], [0.0], [0.0]]])
    >>> states, last = encode(lambda x, h: x + h, X, torch.tensor([3, 1]), torch.full((2, 1), 100.0))
    >>> states[..., 0].tolist()
    [[101.0, 103.0, 107.0], [108.0, 0.0, 0.0]]
    >>> last[..., 0].tolist()
    [107.0, 108.0]
    """
    if lengths.min() < 0 or lengths.max() > X.shape[1]:
        raise ValueError(
            f"The lengths run from {int(lengths.min())} to {int(lengths.max())}; "
            f"X has room for {X.shape[1]} tokens, so they must be from 0 to {X.shape[1]}."
        )
    h, states = h_0, []
    for t in range(X.shape[1]):
        real = (t < lengths)[:, None]  # (batch, 1)
        h = torch.where(real, step(X[:, t], h), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


def shift_right(target: Int[torch.Tensor, "*batch token"], bos: int) -> Int[torch.Tensor, "*batch token"]:
    """Make the decoder's inputs for teacher forcing: at each place, the right token of the place before.

    Parameters
    ----------
    target
        What the decoder should say, with any leading dimensions: the tokens of each sentence, its ``<eos>``, padding.
    bos
        The token ``<bos>`` that stands before the first word.

    Returns
    -------
    A new tensor of the shape and dtype of ``target``, which starts with ``bos``. The last token of ``target`` is
    in no one's input.

    Notes
    -----
    The decoder predicts ``target[..., t]`` when it has read the result up to place ``t``.
    Linear in the number of tokens, in time and in memory.

    References
    ----------
    Williams & Zipser, "A Learning Algorithm for Continually Running Fully Recurrent Neural Networks" (1989), which
    names teacher forcing.

    Examples
    --------
    >>> bos, eos, pad = 1, 2, 0
    >>> shift_right(torch.tensor([[5, 6, 7, eos], [8, eos, pad, pad]]), bos).tolist()
    [[1, 5, 6, 7], [1, 8, 2, 0]]
    """
    start = torch.full_like(target[..., :1], bos)
    return torch.cat([start, target[..., :-1]], dim=-1)


def masked_cross_entropy(
    logits: Float[torch.Tensor, "batch token vocab_size"], target: Int[torch.Tensor, "batch token"], pad: int
) -> Float[torch.Tensor, ""]:
    """Measure how badly a model predicts the real tokens of a padded batch.

    Parameters
    ----------
    logits
        A score for each token of the vocabulary at each place, before any softmax.
    target
        The token that is right at each place, ``pad`` on padding.
    pad
        The number that marks padding; it need not be a token (PyTorch's default is -100).

    Returns
    -------
    One number: the cross-entropy in nats, averaged over all real tokens of the batch. A batch of padding alone has loss
    zero, and zero gradients. Dtype as that of ``logits``.

    Raises
    ------
    ValueError
        If there is not one target for each row of logits.

    Notes
    -----
    The same as ``torch.nn.functional.cross_entropy`` with ``ignore_index=pad``, which however gives NaN for a batch of
    padding alone. Every real token counts the same, whether its sentence is long or short.
    ``B * N * V`` exponentials; the largest tensor made has as many numbers.

    References
    ----------
    Any text on maximum likelihood; the loss is the mean of the negative log-probabilities of the right tokens.

    Examples
    --------
    >>> pad = 0
    >>> logits = torch.zeros(1, 3, 4)
    >>> logits[0, 1, 3] = 100.0
    >>> masked_cross_entropy(logits, torch.tensor([[2, 3, pad]]), pad).exp().item()
    2.0
    """
    if logits.shape[:-1] != target.shape:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)} and target has shape {tuple(target.shape)}; "
            "there must be one target for each row of logits."
        )
    real = target != pad  # (batch, token)
    log_probabilities = torch.log_softmax(logits[real], dim=-1)  # (real token, vocab_size)
    of_target = log_probabilities.gather(-1, target[real][:, None])
    return -of_target.sum() / real.sum().clamp(min=1)


def greedy_decode(
    step: Callable, state: object, start: Int[torch.Tensor, "batch"], eos: int, pad: int, max_length: int
) -> Int[torch.Tensor, "batch token"]:
    """Let a decoder speak: take the most probable token at each step, and read it as the next input.

    Parameters
    ----------
    step
        One step of the decoder: ``step(tokens, state)`` takes a token for each sentence ``(B,)`` and returns logits
        ``(B, V)`` and the new state.
    state
        The decoder's state before the first step, whatever it is; it is only handed on.
    start
        The token that each sentence starts from, ``<bos>``.
    eos
        The token that ends a sentence.
    pad
        The token that fills up a sentence that has ended.
    max_length
        The largest number of tokens of a sentence, its ``<eos>`` included.

    Returns
    -------
    The tokens of each sentence: without ``start``, with ``<eos>`` where the sentence came to its end, then padding up
    to the end of the longest. As many tokens as steps were taken, of dtype ``torch.int64``.

    Raises
    ------
    ValueError
        If ``max_length`` is below 1.

    Notes
    -----
    Once every sentence has ended, no further step is taken.
    At most ``max_length`` steps one after the other, each for the whole batch.

    References
    ----------
    Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014), section 3.2, with a beam of one.

    Examples
    --------
    >>> pad, eos = 0, 2
    >>> def count_down(tokens, state):  # says the state, then one less, and so on down to 2
    ...     return torch.nn.functional.one_hot(state, 9).float(), state - 1
    >>> start = torch.tensor([1, 1])
    >>> greedy_decode(count_down, torch.tensor([5, 3]), start, eos, pad, max_length=8).tolist()
    [[5, 4, 3, 2], [3, 2, 0, 0]]
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; it must be at least 1.")
    tokens, said = start, []
    ended = torch.zeros_like(start, dtype=torch.bool)
    while len(said) < max_length and not ended.all():
        logits, state = step(tokens, state)
        tokens = logits.argmax(dim=-1).masked_fill(ended, pad)
        ended = ended | (tokens == eos)
        said.append(tokens)
    return torch.stack(said, dim=1)
