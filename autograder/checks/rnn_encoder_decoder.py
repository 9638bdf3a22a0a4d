"""What right kernels of "The recurrent encoder-decoder" are."""

from __future__ import annotations

import math

import numpy as np
import torch

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import rnn_encoder_decoder as reference

WEIGHTS = ("W_ih", "W_hh", "b_ih", "b_hh")


def _weights(draw, gates, d_in, d_h):
    """Weights and biases of a cell with the rows of that many gates. No bias is zero."""
    return {
        "W_ih": draw.normal(gates * d_h, d_in) / math.sqrt(d_in),
        "W_hh": draw.normal(gates * d_h, d_h) / math.sqrt(d_h),
        "b_ih": draw.normal(gates * d_h),
        "b_hh": draw.normal(gates * d_h),
    }


def _cell_inputs(draw, gates, batch, d_in, d_h, states=("h",)):
    values = {name: draw.normal(batch, d_h) for name in states}
    return {"x": draw.normal(batch, d_in)} | values | _weights(draw, gates, d_in, d_h)


def _basic_cell_cases(draw, gates, states=("h",)):
    batch, d_in, d_h = draw.sizes(3, 2, 7)
    yield Case("a batch", _cell_inputs(draw, gates, batch, d_in, d_h, states))
    yield Case("inputs as wide as the state", _cell_inputs(draw, gates, batch, d_h, d_h, states))
    yield Case("as many sentences as the state is wide", _cell_inputs(draw, gates, d_h, d_in, d_h, states))
    yield Case("a batch of one", _cell_inputs(draw, gates, 1, d_in, d_h, states))
    yield Case("widths of 1", _cell_inputs(draw, gates, batch, 1, 1, states))


def _other_cell_cases(draw, gates, states=("h",)):
    batch, d_in, d_h = draw.sizes(3, 2, 7)
    inputs = _cell_inputs(draw, gates, batch, d_in, d_h, states)
    yield Case("gradients for the input, the state and the weights", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("tensors that are not contiguous, several calls", inputs, strided=True, repeated=True)
    far = 1e6 * inputs["x"]  # the exponential of a sum overflows
    far[1] = -far[0]  # in each column, one sum is positive
    yield Case("large inputs", inputs | {"x": far})
    large = np.where(
        np.arange(gates * d_h) < min(gates, 2) * d_h, 1e4, 0.0
    )  # not in a GRU's candidate, which gates one
    cancelling = {"b_ih": inputs["b_ih"] + large, "b_hh": inputs["b_hh"] - large}
    yield Case("large biases that cancel", inputs | cancelling)
    yield Case("weights for wider inputs", inputs | _weights(draw, gates, d_in + 1, d_h), refused=True)


rnn_cell = Check(
    reference.rnn_cell,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Two linear maps, one of the input and one of the state, each with its bias; add them; squash the sum.",
        "PyTorch keeps weights as (out, in), one row for each number that comes out. Which of the two must be transposed "
        "so that a row vector can stand on its left?",
        "The squashing function is the hyperbolic tangent, of the whole sum with both biases in it.",
    ),
    reproduces=("torch.rnn_tanh_cell", "torch.nn.RNNCell", "torch.nn.RNN", "torch.rnn_tanh"),
)


@rnn_cell.aspect("one step", points=1)
def _rnn_values(draw):
    yield from _basic_cell_cases(draw, 1)


@rnn_cell.aspect("gradients, single precision, large inputs", points=1)
def _rnn_other(draw):
    yield from _other_cell_cases(draw, 1)


RNN = "torch.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)"

for _id, _new, _hint in (
    (
        "rnn-no-tanh",
        "x @ W_ih.T + b_ih + h @ W_hh.T + b_hh",
        "The sum is not squashed: put it through the hyperbolic tangent.",
    ),
    (
        "rnn-sigmoid",
        "torch.sigmoid(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)",
        "You squash with the sigmoid, so the state is never negative. This cell uses the hyperbolic tangent.",
    ),
    (
        "rnn-relu",
        "torch.relu(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)",
        "You cut off negative numbers (ReLU). This cell uses the hyperbolic tangent.",
    ),
    (
        "rnn-tanh-overflows",
        "(lambda a: (a.exp() - (-a).exp()) / (a.exp() + (-a).exp()))(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)",
        "The hyperbolic tangent as a quotient of exponentials overflows where the sum is large, and infinity over infinity "
        "is NaN. PyTorch has a tangent that does not.",
    ),
    (
        "rnn-input-bias-missing",
        "torch.tanh(x @ W_ih.T + h @ W_hh.T + b_hh)",
        "The bias of the input, `b_ih`, is missing.",
    ),
    (
        "rnn-hidden-bias-missing",
        "torch.tanh(x @ W_ih.T + b_ih + h @ W_hh.T)",
        "The bias of the state, `b_hh`, is missing.",
    ),
    (
        "rnn-one-bias-twice",
        "torch.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_ih)",
        "One bias is added twice and the other never.",
    ),
    (
        "rnn-bias-outside",
        "torch.tanh(x @ W_ih.T + h @ W_hh.T) + b_ih + b_hh",
        "The biases are added after the hyperbolic tangent; they belong into the sum that it squashes.",
    ),
    (
        "rnn-two-tanhs",
        "torch.tanh(x @ W_ih.T + b_ih) + torch.tanh(h @ W_hh.T + b_hh)",
        "Input and state are squashed one by one. Add them first, then squash the sum once.",
    ),
    (
        "rnn-state-ignored",
        "torch.tanh(x @ W_ih.T + b_ih + b_hh)",
        "The state before the step has no influence, so nothing is remembered.",
    ),
    (
        "rnn-input-ignored",
        "torch.tanh(h @ W_hh.T + b_ih + b_hh)",
        "The input has no influence.",
    ),
    (
        "rnn-state-added",
        "h + torch.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)",
        "The old state is added to the new one. This cell replaces it.",
    ),
    (
        "rnn-input-weights-not-transposed",
        "torch.tanh((x @ W_ih if W_ih.shape[0] == W_ih.shape[1] else x @ W_ih.T) + b_ih + h @ W_hh.T + b_hh)",
        "The input is multiplied by `W_ih` as it is. Its layout is (out, in), so it must be transposed, also where it is "
        "square and nothing complains.",
    ),
    (
        "rnn-state-weights-not-transposed",
        "torch.tanh(x @ W_ih.T + b_ih + h @ W_hh + b_hh)",
        "The state is multiplied by `W_hh` as it is. The matrix is square, so nothing complains, but its layout is "
        "(out, in): it must be transposed.",
    ),
    (
        "rnn-detached",
        "torch.tanh(x @ W_ih.T + b_ih + h.detach() @ W_hh.T + b_hh)",
        "No gradient flows back to the state before, so nothing is learned from one step to the next.",
    ),
    (
        "rnn-in-float32",
        "torch.tanh((x @ W_ih.T + b_ih).float() + (h @ W_hh.T + b_hh).float()).to(x.dtype)",
        "The step is computed in single precision whatever dtype comes in, so digits are lost.",
    ),
):
    rnn_cell.slip(_id, RNN, _new, _hint)

rnn_cell.slip(
    "rnn-state-overwritten",
    f"return {RNN}",
    f"new_h = {RNN}\n    h.data.copy_(new_h)\n    return new_h",
    "Your kernel writes the new state into the caller's old one. Return a new tensor.",
)


gru_cell = Check(
    reference.gru_cell,
    difficulty="core",
    minutes=20,
    hints=(
        "Make both products for all three parts at once, then cut each result in three: reset gate, update gate, candidate.",
        "Both gates are sigmoids of a sum of the input's part and the state's part. The candidate is a hyperbolic tangent.",
        "In the candidate the reset gate multiplies the part from the state, its bias included, before it meets the part "
        "from the input.",
        "The new state is a blend of the candidate and the old state. An update gate of one keeps the old state.",
    ),
    reproduces=("torch.gru_cell", "torch.nn.GRUCell", "torch.nn.GRU", "torch.gru"),
)


@gru_cell.aspect("one step", points=2)
def _gru_values(draw):
    yield from _basic_cell_cases(draw, 3)


@gru_cell.aspect("gradients, single precision, large inputs", points=1)
def _gru_other(draw):
    yield from _other_cell_cases(draw, 3)


GRU_INPUT = "(x @ W_ih.T + b_ih).chunk(3, dim=-1)"
GRU_STATE = "(h @ W_hh.T + b_hh).chunk(3, dim=-1)"
GRU_X = f"x_reset, x_update, x_candidate = {GRU_INPUT}"
GRU_H = f"h_reset, h_update, h_candidate = {GRU_STATE}"
CANDIDATE = "torch.tanh(x_candidate + reset * h_candidate)"
BLEND = "(1 - update) * candidate + update * h"
LAST = "W_hh[-h.shape[-1] :], b_hh[-h.shape[-1] :]"
RESET_BEFORE = "torch.tanh(x_candidate + (reset * h) @ W_hh[2 * h.shape[-1] :].T + b_hh[2 * h.shape[-1] :])"
UPDATE_FIRST = f"x_update, x_reset, x_candidate = {GRU_INPUT}\n    h_update, h_reset, h_candidate = {GRU_STATE}"
GATES_OF_GRU = "    reset = torch.sigmoid(x_reset + h_reset)\n    update = torch.sigmoid(x_update + h_update)\n"

for _id, _old, _new, _hint, _source in (
    (
        "gru-reset-before-matmul",
        CANDIDATE,
        RESET_BEFORE,
        "The reset gate multiplies the state before the weights, as in the first paper. Here, as in PyTorch, it multiplies "
        "what comes out of the weights and the bias.",
        "",
    ),
    (
        "gru-of-bahdanau",
        f"candidate = {CANDIDATE}\n    return {BLEND}",
        f"candidate = {RESET_BEFORE}\n    return update * candidate + (1 - update) * h",
        "This is the cell as Bahdanau and many pages write it, which differs from PyTorch's twice. Here the reset gate "
        "multiplies what comes out of the weights and the bias, and an update gate of one keeps the old state.",
        "",
    ),
    (
        "gru-of-keras",
        f"{GRU_X}\n    {GRU_H}\n{GATES_OF_GRU}    candidate = {CANDIDATE}\n",
        f"{UPDATE_FIRST}\n{GATES_OF_GRU}    candidate = {RESET_BEFORE}\n",
        "This is the cell as Keras first had it, which differs from PyTorch's twice. Here the rows of the reset gate come "
        "first, and it multiplies what comes out of the weights and the bias.",
        "",
    ),
    (
        "gru-update-first-and-blend-swapped",
        f"{GRU_X}\n    {GRU_H}\n{GATES_OF_GRU}    candidate = {CANDIDATE}\n    return {BLEND}",
        f"{UPDATE_FIRST}\n{GATES_OF_GRU}    candidate = {CANDIDATE}\n    return update * candidate + (1 - update) * h",
        "Two things are the other way round. The rows of the reset gate come before those of the update gate, and an update "
        "gate of one keeps the old state.",
        "",
    ),
    (
        "gru-of-encyclopedias",
        f"{GRU_X}\n    {GRU_H}\n{GATES_OF_GRU}    candidate = {CANDIDATE}\n    return {BLEND}",
        f"{UPDATE_FIRST}\n{GATES_OF_GRU}    candidate = {RESET_BEFORE}\n    return update * candidate + (1 - update) * h",
        "This differs from PyTorch's cell three times. The rows of the reset gate come first; it multiplies what comes out "
        "of the weights and the bias; and an update gate of one keeps the old state.",
        "",
    ),
    (
        "gru-gates-overflow",
        "torch.sigmoid(x_update + h_update)",
        "torch.exp(x_update + h_update) / (1 + torch.exp(x_update + h_update))",
        "A sigmoid as a quotient of exponentials overflows where the sum is large, and infinity over infinity is NaN. "
        "PyTorch has a sigmoid that does not.",
        "",
    ),
    (
        "gru-reset-omitted",
        CANDIDATE,
        "torch.tanh(x_candidate + h_candidate)",
        "The reset gate is never used: it should scale the state's part of the candidate.",
        "https://github.com/zhiyongc/GRU-D/issues/2",
    ),
    (
        "gru-candidate-bias-outside",
        CANDIDATE,
        "torch.tanh(x_candidate + reset * (h_candidate - b_hh[2 * h.shape[-1] :]) + b_hh[2 * h.shape[-1] :])",
        "The state's bias of the candidate is added outside the reset gate; the gate should scale it too.",
        "https://github.com/pytorch/pytorch/pull/529",
    ),
    (
        "gru-candidate-bias-missing",
        CANDIDATE,
        "torch.tanh(x_candidate + reset * (h_candidate - b_hh[2 * h.shape[-1] :]))",
        "The state's bias of the candidate is missing.",
        "https://github.com/pytorch/pytorch/pull/529",
    ),
    (
        "gru-reset-on-input",
        CANDIDATE,
        "torch.tanh(reset * x_candidate + h_candidate)",
        "The reset gate scales the input's part of the candidate; it should scale the state's part.",
        "",
    ),
    (
        "gru-reset-on-both",
        CANDIDATE,
        "torch.tanh(reset * (x_candidate + h_candidate))",
        "The reset gate scales the whole candidate; it should scale the state's part alone.",
        "",
    ),
    (
        "gru-update-in-candidate",
        CANDIDATE,
        "torch.tanh(x_candidate + update * h_candidate)",
        "The update gate stands in the candidate where the reset gate belongs.",
        "",
    ),
    (
        "gru-candidate-sigmoid",
        CANDIDATE,
        "torch.sigmoid(x_candidate + reset * h_candidate)",
        "The candidate goes through a sigmoid, so it is never negative. It takes the hyperbolic tangent.",
        "",
    ),
    (
        "gru-candidate-not-squashed",
        CANDIDATE,
        "x_candidate + reset * h_candidate",
        "The candidate is not squashed: it takes the hyperbolic tangent.",
        "",
    ),
    (
        "gru-gates-tanh",
        "torch.sigmoid(x_update + h_update)",
        "torch.tanh(x_update + h_update)",
        "The update gate goes through the hyperbolic tangent, so it may be negative. A gate is a sigmoid, between 0 and 1.",
        "",
    ),
    (
        "gru-blend-swapped",
        BLEND,
        "update * candidate + (1 - update) * h",
        "Your blend is the other way round, as in some papers. Here, as in PyTorch, an update gate of one keeps the old "
        "state.",
        "",
    ),
    (
        "gru-no-blend",
        BLEND,
        "candidate",
        "You return the candidate itself. The update gate should blend it with the old state.",
        "",
    ),
    (
        "gru-blend-adds",
        BLEND,
        "candidate + update * h",
        "The candidate is taken whole and the old state added to it. The two shares must sum to one.",
        "",
    ),
    (
        "gru-blend-with-reset",
        BLEND,
        "(1 - reset) * candidate + reset * h",
        "The reset gate does the blending where the update gate should.",
        "",
    ),
    (
        "gru-gate-order-update-first",
        GRU_X + "\n    " + GRU_H,
        UPDATE_FIRST,
        "You read the update gate's rows first (as Keras stores them). PyTorch's order is reset gate, update gate, candidate.",
        "",
    ),
    (
        "gru-gate-order-candidate-first",
        GRU_X + "\n    " + GRU_H,
        f"x_candidate, x_reset, x_update = {GRU_INPUT}\n    h_candidate, h_reset, h_update = {GRU_STATE}",
        "You read the candidate's rows first. The order is reset gate, update gate, candidate.",
        "",
    ),
    (
        "gru-gate-order-mixed",
        GRU_H,
        f"h_update, h_reset, h_candidate = {GRU_STATE}",
        "The rows of the input's weights are read in one order and those of the state's weights in another.",
        "",
    ),
    (
        "gru-rows-interleaved",
        GRU_X + "\n    " + GRU_H,
        "x_reset, x_update, x_candidate = (x @ W_ih.T + b_ih).unflatten(-1, (-1, 3)).unbind(-1)\n"
        "    h_reset, h_update, h_candidate = (h @ W_hh.T + b_hh).unflatten(-1, (-1, 3)).unbind(-1)",
        "You give every third row to a gate. The rows of one gate stand together, one block after another.",
        "",
    ),
    (
        "gru-input-bias-missing",
        GRU_INPUT,
        "(x @ W_ih.T).chunk(3, dim=-1)",
        "The bias of the input, `b_ih`, is missing.",
        "",
    ),
    (
        "gru-hidden-bias-missing",
        GRU_STATE,
        "(h @ W_hh.T).chunk(3, dim=-1)",
        "The bias of the state, `b_hh`, is missing.",
        "https://github.com/pytorch/pytorch/pull/529",
    ),
    (
        "gru-one-bias-twice",
        GRU_STATE,
        "(h @ W_hh.T + b_ih).chunk(3, dim=-1)",
        "One bias is added twice and the other never.",
        "",
    ),
    (
        "gru-gates-from-input-alone",
        GRU_STATE,
        "(torch.zeros_like(h) @ W_hh.T + b_hh).chunk(3, dim=-1)",
        "Gates and candidate see the input alone; each also has a part from the state.",
        "",
    ),
    (
        "gru-state-weights-not-transposed",
        GRU_STATE,
        "torch.cat([h @ block for block in W_hh.chunk(3)], dim=-1).add(b_hh).chunk(3, dim=-1)",
        "The state is multiplied by each gate's block as it is. A block is square, so nothing complains, but its layout is "
        "(out, in): it must be transposed.",
        "",
    ),
    (
        "gru-detached",
        GRU_STATE,
        "(h.detach() @ W_hh.T + b_hh).chunk(3, dim=-1)",
        "No gradient flows back to the state through the gates and the candidate.",
        "",
    ),
    (
        "gru-in-float32",
        "torch.sigmoid(x_update + h_update)",
        "torch.sigmoid(x_update.float() + h_update.float()).to(x.dtype)",
        "The step is computed in single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
    (
        "gru-state-overwritten",
        f"return {BLEND}",
        f"new_h = {BLEND}\n    h.data.copy_(new_h)\n    return new_h",
        "Your kernel writes the new state into the caller's old one. Return a new tensor.",
        "",
    ),
):
    gru_cell.slip(_id, _old, _new, _hint, _source)


lstm_cell = Check(
    reference.lstm_cell,
    difficulty="core",
    minutes=20,
    hints=(
        "One sum of both linear maps holds all four parts: cut it into input gate, forget gate, candidate, output gate.",
        "The three gates are sigmoids, the candidate is a hyperbolic tangent.",
        "The cell state is what the forget gate leaves of the old one, plus what the input gate lets in of the candidate.",
        "The hidden state is the output gate times the hyperbolic tangent of the *new* cell state. Return it first.",
    ),
    reproduces=("torch.lstm_cell", "torch.nn.LSTMCell", "torch.nn.LSTM", "torch.lstm"),
)


@lstm_cell.aspect("one step", points=2)
def _lstm_values(draw):
    yield from _basic_cell_cases(draw, 4, ("h", "c"))


@lstm_cell.aspect("gradients, single precision, large inputs", points=1)
def _lstm_other(draw):
    yield from _other_cell_cases(draw, 4, ("h", "c"))
    batch, d_in, d_h = draw.sizes(3, 2, 7)
    inputs = _cell_inputs(draw, 4, batch, d_in, d_h, ("h", "c"))
    yield Case("a cell state far from zero", inputs | {"c": 3 + inputs["c"]})


GATES = "x @ W_ih.T + b_ih + h @ W_hh.T + b_hh"
ORDER = "input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)"
NEW_C = "torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.tanh(candidate)"
NEW_H = "torch.sigmoid(output_gate) * torch.tanh(new_c)"
RETURN = "return new_h, new_c"

for _id, _old, _new, _hint, _source in (
    (
        "lstm-input-forget-swapped",
        ORDER,
        "forget_gate, input_gate, candidate, output_gate = gates.chunk(4, dim=-1)",
        "Input gate and forget gate have changed places. The order of the rows is input, forget, candidate, output.",
        "https://github.com/NX-AI/xlstm/issues/98",
    ),
    (
        "lstm-candidate-last",
        ORDER,
        "input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)",
        "You read the candidate's rows last. The order is input gate, forget gate, candidate, output gate.",
        "",
    ),
    (
        "lstm-candidate-second",
        ORDER,
        "input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=-1)",
        "You read the candidate's rows second (as old TensorFlow stored them). The order is input gate, forget gate, "
        "candidate, output gate.",
        "",
    ),
    (
        "lstm-rows-interleaved",
        ORDER,
        "input_gate, forget_gate, candidate, output_gate = gates.unflatten(-1, (-1, 4)).unbind(-1)",
        "You give every fourth row to a gate. The rows of one gate stand together, one block after another.",
        "",
    ),
    (
        "lstm-returns-cell-first",
        RETURN,
        "return new_c, new_h",
        "Hidden state and cell state come out in each other's place: the hidden state, which stays between -1 and 1, is "
        "first.",
        "https://github.com/microsoft/nni/issues/2839",
    ),
    (
        "lstm-returns-cell-as-hidden",
        RETURN,
        "return new_c, new_c",
        "The cell state is returned as the hidden state too.",
        "https://github.com/microsoft/nni/pull/2842",
    ),
    (
        "lstm-returns-hidden-alone",
        RETURN,
        "return new_h",
        "The new cell state must be returned too: without it the next step starts from the old one.",
        "",
    ),
    (
        "lstm-old-cell-returned",
        RETURN,
        "return new_h, c",
        "You return the cell state from before the step.",
        "",
    ),
    (
        "lstm-candidate-sigmoid",
        NEW_C,
        "torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.sigmoid(candidate)",
        "The candidate goes through a sigmoid like a gate, so the cell state can only be pushed up. It takes the hyperbolic "
        "tangent.",
        "",
    ),
    (
        "lstm-candidate-not-squashed",
        NEW_C,
        "torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * candidate",
        "The candidate is not squashed: it takes the hyperbolic tangent.",
        "",
    ),
    (
        "lstm-no-forget-gate",
        NEW_C,
        "c + torch.sigmoid(input_gate) * torch.tanh(candidate)",
        "The old cell state is kept whole, as in the paper of 1997; here the forget gate scales it.",
        "",
    ),
    (
        "lstm-coupled-gates",
        NEW_C,
        "torch.sigmoid(forget_gate) * c + (1 - torch.sigmoid(forget_gate)) * torch.tanh(candidate)",
        "You let in as much as is forgotten, as a GRU does. An LSTM has an input gate of its own.",
        "",
    ),
    (
        "lstm-no-input-gate",
        NEW_C,
        "torch.sigmoid(forget_gate) * c + torch.tanh(candidate)",
        "The candidate is added whole; the input gate should scale it.",
        "",
    ),
    (
        "lstm-forget-one-minus",
        NEW_C,
        "(1 - torch.sigmoid(forget_gate)) * c + torch.sigmoid(input_gate) * torch.tanh(candidate)",
        "Your forget gate forgets when it is one. In spite of its name, a forget gate of one keeps the cell state.",
        "",
    ),
    (
        "lstm-forget-bias-one",
        NEW_C,
        "torch.sigmoid(forget_gate + 1) * c + torch.sigmoid(input_gate) * torch.tanh(candidate)",
        "One is added to the forget gate, as TensorFlow's old cell did. That belongs into the initial bias, not into the cell.",
        "",
    ),
    (
        "lstm-gates-on-hidden",
        NEW_C,
        "torch.sigmoid(forget_gate) * h + torch.sigmoid(input_gate) * torch.tanh(candidate)",
        "The forget gate scales the hidden state where it should scale the cell state.",
        "",
    ),
    (
        "lstm-cell-squashed",
        NEW_C,
        "torch.tanh(torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.tanh(candidate))",
        "The cell state itself is squashed. It may grow beyond one: only the hidden state takes its hyperbolic tangent.",
        "",
    ),
    (
        "lstm-no-tanh-of-cell",
        NEW_H,
        "torch.sigmoid(output_gate) * new_c",
        "The output gate scales the cell state as it is; take its hyperbolic tangent first.",
        "",
    ),
    (
        "lstm-output-of-old-cell",
        NEW_H,
        "torch.sigmoid(output_gate) * torch.tanh(c)",
        "The hidden state is made from the old cell state; it should see the new one.",
        "",
    ),
    (
        "lstm-no-output-gate",
        NEW_H,
        "torch.tanh(new_c)",
        "The output gate is never used: it scales what the hidden state shows of the cell state.",
        "",
    ),
    (
        "lstm-output-gate-tanh",
        NEW_H,
        "torch.tanh(output_gate) * torch.tanh(new_c)",
        "The output gate goes through the hyperbolic tangent, so it may be negative. A gate is a sigmoid, between 0 and 1.",
        "",
    ),
    (
        "lstm-input-bias-missing",
        GATES,
        "x @ W_ih.T + h @ W_hh.T + b_hh",
        "The bias of the input, `b_ih`, is missing.",
        "",
    ),
    (
        "lstm-hidden-bias-missing",
        GATES,
        "x @ W_ih.T + b_ih + h @ W_hh.T",
        "The bias of the state, `b_hh`, is missing.",
        "",
    ),
    (
        "lstm-one-bias-twice",
        GATES,
        "x @ W_ih.T + b_ih + h @ W_hh.T + b_ih",
        "One bias is added twice and the other never.",
        "",
    ),
    (
        "lstm-dot-instead-of-elementwise",
        NEW_H,
        "torch.sigmoid(output_gate) @ torch.tanh(new_c)",
        "The output gate and the cell state are multiplied as matrices, which only fits when there are as many sentences as "
        "components. A gate scales number by number.",
        "https://community.deeplearning.ai/t/w1-lstm-network/41544",
    ),
    (
        "lstm-gates-overflow",
        "torch.sigmoid(forget_gate)",
        "(torch.exp(forget_gate) / (1 + torch.exp(forget_gate)))",
        "A sigmoid as a quotient of exponentials overflows where the sum is large, and infinity over infinity is NaN. "
        "PyTorch has a sigmoid that does not.",
        "",
    ),
    (
        "lstm-copy-paste-bias",
        GATES,
        "x @ W_ih.T + h @ W_hh.T + (b_ih + b_hh)[: h.shape[-1]].repeat(4)",
        "All four parts get the bias of the input gate; each has its own.",
        "https://github.com/ddbourgin/numpy-ml/issues/42",
    ),
    (
        "lstm-state-weights-not-transposed",
        GATES,
        "x @ W_ih.T + b_ih + torch.cat([h @ block for block in W_hh.chunk(4)], dim=-1) + b_hh",
        "The state is multiplied by each gate's block as it is. A block is square, so nothing complains, but its layout is "
        "(out, in): it must be transposed.",
        "",
    ),
    (
        "lstm-detached",
        NEW_C,
        "torch.sigmoid(forget_gate) * c.detach() + torch.sigmoid(input_gate) * torch.tanh(candidate)",
        "No gradient flows back along the cell state, which is what the cell state is for.",
        "",
    ),
    (
        "lstm-in-float32",
        GATES,
        "((x @ W_ih.T + b_ih).float() + (h @ W_hh.T + b_hh).float()).to(x.dtype)",
        "The step is computed in single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
    (
        "lstm-state-overwritten",
        RETURN,
        "c.data.copy_(new_c)\n    return new_h, new_c",
        "Your kernel writes the new cell state into the caller's old one. Return a new tensor.",
        "",
    ),
):
    lstm_cell.slip(_id, _old, _new, _hint, _source)


encode = Check(
    reference.encode,
    difficulty="core",
    minutes=25,
    hints=(
        "Walk along the axis of the tokens. At each one, call `step` with that token of every sentence and the state so far.",
        "Where a sentence is over, its state must stay as it is. Which comparison of `t` and `lengths` says so, and how must "
        "it be shaped to choose between rows?",
        "`torch.where(condition, new, old)` chooses row by row if the condition has the shape (B, 1).",
        "Two things are returned: what each step gave, with zeros on padding, and the state that is left over at the end.",
    ),
)


def _encode_inputs(draw, lengths, tokens, d_in, d_h, gates=3):
    lengths = np.asarray(lengths)
    inputs = {"X": draw.normal(len(lengths), tokens, d_in), "lengths": lengths, "h_0": draw.normal(len(lengths), d_h)}
    return inputs | _weights(draw, gates, d_in, d_h)


def _ragged(draw, batch, tokens):
    """Lengths of which one is 1, one is ``tokens``, and the rest are drawn, in random order, never sorted."""
    lengths = np.array([1, tokens, *draw.rng.integers(2, tokens, batch - 2)])
    while (np.diff(lengths) >= 0).all() or (np.diff(lengths) <= 0).all():
        draw.rng.shuffle(lengths)
    return lengths


@encode.aspect("sentences of one length", points=1)
def _encode_values(draw):
    batch, tokens, d_in, d_h = draw.sizes(4, 3, 7)
    yield Case("a batch without padding", _encode_inputs(draw, [tokens] * batch, tokens, d_in, d_h))
    yield Case("as many sentences as tokens", _encode_inputs(draw, [tokens] * tokens, tokens, d_in, d_h))
    yield Case("a batch of one", _encode_inputs(draw, [tokens], tokens, d_in, d_h))
    yield Case("a single token", _encode_inputs(draw, [1] * batch, 1, d_in, d_h))
    yield Case("another cell", _encode_inputs(draw, [tokens] * batch, tokens, d_in, d_h, gates=1))


@encode.aspect("the last state of sentences of different lengths", points=1)
def _encode_last(draw):
    batch, tokens, d_in, d_h = draw.sizes(4, 4, 8)
    inputs = _encode_inputs(draw, _ragged(draw, batch, tokens), tokens, d_in, d_h)
    only = {"only": "last"}
    yield Case("a padded batch", inputs, probe=only)
    yield Case("large numbers on padding", _with_padding(draw, inputs, 100), probe=only)
    yield Case(
        "as many sentences as tokens",
        _encode_inputs(draw, _ragged(draw, tokens, tokens), tokens, d_in, d_h),
        probe=only,
    )
    yield Case(
        "more room than any sentence needs", inputs | {"lengths": np.maximum(inputs["lengths"] - 1, 1)}, probe=only
    )


@encode.aspect("zeros on padding", points=1)
def _encode_states(draw):
    batch, tokens, d_in, d_h = draw.sizes(4, 4, 8)
    inputs = _encode_inputs(draw, _ragged(draw, batch, tokens), tokens, d_in, d_h)
    only = {"only": "states"}
    yield Case("a padded batch", inputs, probe=only)
    yield Case(
        "more room than any sentence needs", inputs | {"lengths": np.maximum(inputs["lengths"] - 1, 1)}, probe=only
    )


@encode.aspect("gradients, single precision, a sentence without tokens", points=1)
def _encode_other(draw):
    batch, tokens, d_in, d_h = draw.sizes(4, 4, 7)
    lengths = _ragged(draw, batch, tokens)
    inputs = _encode_inputs(draw, lengths, tokens, d_in, d_h)
    yield Case("gradients", inputs, gradient=("X", "h_0", *WEIGHTS))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("tensors that are not contiguous, several calls", inputs, strided=True, repeated=True)
    yield Case("a sentence of length 0", inputs | {"lengths": np.where(lengths == 1, 0, lengths)})
    yield Case("a sentence longer than the batch", inputs | {"lengths": lengths + 1}, refused=True)


def _with_padding(draw, inputs, scale):
    """The same sentences with large numbers on padding."""
    padding = np.arange(inputs["X"].shape[1]) >= inputs["lengths"][:, None]
    return inputs | {"X": np.where(padding[..., None], scale * draw.normal(*inputs["X"].shape), inputs["X"])}


LOOP = "for t in range(X.shape[1]):"
REAL = "real = (t < lengths)[:, None]"
KEEP = "h = torch.where(real, step(X[:, t], h), h)"
APPEND = "states.append(torch.where(real, h, 0.0))"
BEGIN = "h, states = h_0, []"
END = "return torch.stack(states, dim=1), h"

for _id, _old, _new, _hint, _source in (
    (
        "encode-runs-over-padding",
        KEEP,
        "h = step(X[:, t], h)",
        "The state runs on over the padding. Where a sentence is over, its state must stay as it is.",
        "https://github.com/pytorch/pytorch/issues/517",
    ),
    (
        "encode-padding-zeroed-not-skipped",
        KEEP,
        "h = step(torch.where(real, X[:, t], 0.0), h)",
        "Padding is set to zero, but the cell still takes a step on it, and its biases and old state move the state. "
        "Take no step there.",
        "https://github.com/pytorch/pytorch/issues/1811",
    ),
    (
        "encode-state-zeroed-on-padding",
        KEEP,
        "h = torch.where(real, step(X[:, t], h), 0.0)",
        "The state is set to zero where a sentence is over, so nothing is left of it at the end. It must stay as it is.",
        "",
    ),
    (
        "encode-state-back-to-start",
        KEEP,
        "h = torch.where(real, step(X[:, t], h), h_0)",
        "Where a sentence is over, its state goes back to the beginning. It must stay as it is.",
        "",
    ),
    (
        "encode-last-column",
        END,
        "states = torch.stack(states, dim=1)\n    return states, states[:, -1]",
        "The last state is read from the last column. There a shorter sentence has padding; its last state stands further "
        "to the left.",
        "https://github.com/pytorch/pytorch/issues/3662",
    ),
    (
        "encode-last-real-missed-by-one",
        END,
        "states = torch.stack(states, dim=1)\n    return states, states[torch.arange(len(X)), lengths - 2]",
        "The last state is that before the last token. Counted from 0, a sentence of length n has its last token at n - 1.",
        "",
    ),
    (
        "encode-last-index-is-length",
        END,
        "states = torch.stack(states, dim=1)\n    return states, states[torch.arange(len(X)), lengths.clamp(max=X.shape[1] - 1)]",
        "The last state is read one place after the last token. Counted from 0, a sentence of length n has it at n - 1.",
        "",
    ),
    (
        "encode-last-of-nothing",
        END,
        "states = torch.stack(states, dim=1)\n    return states, states[torch.arange(len(X)), lengths - 1]",
        "A sentence without tokens has no place at length - 1: index -1 is the last column. Its state is `h_0`.",
        "",
    ),
    (
        "encode-last-of-nothing-gathered",
        f"{KEEP}\n        {APPEND}\n    {END}",
        "h = step(X[:, t], h)\n        states.append(h)\n    states = torch.stack(states, dim=1)\n"
        "    last = states[torch.arange(len(X)), lengths - 1]\n"
        "    return torch.where((torch.arange(X.shape[1]) < lengths[:, None])[..., None], states, 0.0), last",
        "A sentence without tokens has no place at length - 1: index -1 is the last column, a state made of padding. Its state "
        "is `h_0`.",
        "",
    ),
    (
        "encode-states-repeated-on-padding",
        APPEND,
        "states.append(h)",
        "On padding you repeat the last state; put zeros there.",
        "",
    ),
    (
        "encode-one-step-too-many",
        REAL,
        "real = (t <= lengths)[:, None]",
        "Each shorter sentence is read one step too far, into its padding: token `t`, counted from 0, is real if `t` is below "
        "the length.",
        "",
    ),
    (
        "encode-one-step-too-few",
        REAL,
        "real = (t < lengths - 1)[:, None]",
        "The last token of each sentence is not read: token `t`, counted from 0, is real if `t` is below the length.",
        "",
    ),
    (
        "encode-longest-length",
        LOOP,
        "for t in range(int(lengths.max())):",
        "The states end where the longest sentence does. There is one for each column of `X`, zeros where nobody has a token.",
        "",
    ),
    (
        "encode-shortest-length",
        REAL,
        "real = (t < lengths.min().expand_as(lengths))[:, None]",
        "All sentences stop where the shortest one does; each has a length of its own.",
        "",
    ),
    (
        "encode-lengths-ignored",
        REAL,
        "real = torch.ones(len(X), 1, dtype=torch.bool)",
        "The lengths have no influence: padding is read like words.",
        "https://github.com/pytorch/pytorch/issues/517",
    ),
    (
        "encode-lengths-sorted",
        BEGIN,
        "lengths = lengths.sort(descending=True).values\n    " + BEGIN,
        "The lengths are sorted but the sentences are not, so that a sentence gets another one's length.",
        "",
    ),
    (
        "encode-order-not-restored",
        BEGIN,
        "order = lengths.argsort(descending=True, stable=True)\n"
        "    X, lengths, h_0 = X[order], lengths[order], h_0[order]\n"
        "    " + BEGIN,
        "The sentences are sorted by length and never put back in order, so each gets another one's states.",
        "",
    ),
    (
        "encode-starts-at-zero",
        BEGIN,
        "h, states = torch.zeros_like(h_0), []",
        "You start from zeros; the state before the first token is `h_0`.",
        "",
    ),
    (
        "encode-state-not-fed-back",
        KEEP,
        "h = torch.where(real, step(X[:, t], h_0), h)",
        "Each step starts from `h_0` again, so no token knows of those before it. Hand the new state on.",
        "https://github.com/upskyy/ContextNet/issues/4",
    ),
    (
        "encode-first-token-again",
        KEEP,
        "h = torch.where(real, step(X[:, 0], h), h)",
        "The first token is read at every step.",
        "",
    ),
    (
        "encode-backwards",
        LOOP,
        "for t in reversed(range(X.shape[1])):",
        "The sentences are read from the end to the beginning.",
        "",
    ),
    (
        "encode-states-before-the-step",
        KEEP + "\n        " + APPEND,
        APPEND + "\n        " + KEEP,
        "You keep the state before each token is read; keep the one after it.",
        "",
    ),
    (
        "encode-start-kept",
        BEGIN,
        "h, states = h_0, [h_0]",
        "`h_0` stands among the states, so there is one too many: keep one for each token.",
        "",
    ),
    (
        "encode-time-first",
        END,
        "return torch.stack(states, dim=0), h",
        "Your states have the tokens as first axis. In this course the batch comes first.",
        "",
    ),
    (
        "encode-last-with-an-axis",
        END,
        "return torch.stack(states, dim=1), h[None]",
        "The last state has an axis too many in front, as `nn.GRU` gives it; (B, d_h) is asked for.",
        "",
    ),
    (
        "encode-squeezed",
        END,
        "return torch.stack(states, dim=1).squeeze(), h.squeeze()",
        "`squeeze` removes every axis of length 1, also a batch of one or a single token.",
        "",
    ),
    (
        "encode-detached",
        KEEP,
        "h = torch.where(real, step(X[:, t], h.detach()), h)",
        "The gradient is cut at every step, so the first tokens would never learn what the last state needs.",
        "",
    ),
    (
        "encode-masked-by-numbers",
        KEEP,
        "h = torch.lerp(h, step(X[:, t], h), real.to(h.dtype)).float().to(h.dtype)",
        "The states pass through single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
    (
        "encode-start-overwritten",
        KEEP,
        "h = h_0.data.copy_(torch.where(real, step(X[:, t], h), h))",
        "Your kernel writes the states into the caller's `h_0`. Work on a new tensor.",
        "",
    ),
):
    encode.slip(_id, _old, _new, _hint, _source)


shift_right = Check(
    reference.shift_right,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Write down one sentence and, below it, what the decoder has read when it is to say each of its tokens.",
        "The result is as long as the target: one token comes in at the left, so one must go at the right.",
        "`torch.full_like` makes a column of one token with the right dtype; `torch.cat` joins along an axis.",
    ),
)


def _tokens(draw, *shape):
    """Tokens and a ``<bos>`` that is none of them, all different in each row so that no shift can hide."""
    vocabulary = 3 * shape[-1]
    rows = [draw.rng.permutation(vocabulary)[: shape[-1]] for _ in range(math.prod(shape[:-1]))]
    return {"target": np.reshape(rows, shape), "bos": vocabulary + int(draw.rng.integers(9))}


def _twice(inputs):
    """The same, with one token, 2, at both ends of each sentence."""
    target = inputs["target"].copy()
    target[..., [0, -1]] = 2
    return inputs | {"target": target}


@shift_right.aspect("a batch", points=1)
def _shift_values(draw):
    batch, tokens = draw.sizes(2, 3, 8)
    yield Case("several sentences", _tokens(draw, batch, tokens))
    yield Case("as many sentences as tokens", _tokens(draw, tokens, tokens))
    yield Case("a batch of one", _tokens(draw, 1, tokens))
    yield Case("a single token", _tokens(draw, batch, 1))
    inputs = _tokens(draw, batch, tokens)
    ends = draw.rng.integers(1, tokens, batch)[:, None]
    padded = np.where(np.arange(tokens) < ends, inputs["target"], 0)
    yield Case("sentences with padding", inputs | {"target": padded})
    yield Case("a token that comes twice", _twice(_tokens(draw, batch, tokens)))


@shift_right.aspect("any leading dimensions, and the caller's target left alone", points=1)
def _shift_leading(draw):
    batch, tokens, more = draw.sizes(3, 3, 8)
    yield Case("one sentence", _tokens(draw, tokens))
    yield Case("two leading axes", _tokens(draw, more, batch, tokens))
    yield Case(
        "a target that is not contiguous, several calls", _tokens(draw, batch, tokens), strided=True, repeated=True
    )
    inputs = _twice(_tokens(draw, batch, tokens))
    yield Case("tokens as 32-bit numbers", inputs | {"target": inputs["target"].astype(np.int32)})


START = "start = torch.full_like(target[..., :1], bos)"
JOINED = "torch.cat([start, target[..., :-1]], dim=-1)"

for _id, _new, _hint, _source in (
    (
        "shift-no-bos",
        "target[..., :-1]",
        "The last token is dropped, but nothing stands in front: the decoder must read `bos` before its first word.",
        "",
    ),
    (
        "shift-not-at-all",
        "target.clone()",
        "The target is not shifted: the decoder would read the very token that it is to say, and learn to copy.",
        "https://github.com/Project-MONAI/GenerativeModels/issues/314",
    ),
    (
        "shift-bos-replaces-first",
        "torch.cat([start, target[..., 1:]], dim=-1)",
        "`bos` takes the place of the first token and the others stay where they are. Each must move one place to the right.",
        "",
    ),
    (
        "shift-end-removed",
        f"torch.where({JOINED} == 2, 0, {JOINED})",
        "One token is taken out, as if it were `<eos>`. Every token but the last moves one place to the right, whatever it is.",
        "",
    ),
    (
        "shift-keeps-last",
        "torch.cat([start, target], dim=-1)",
        "The result is one token too long: the last token of the target is in no one's input.",
        "",
    ),
    (
        "shift-wraps-round",
        "target.roll(1, dims=-1)",
        "The last token comes round to the front; `bos` belongs there.",
        "",
    ),
    (
        "shift-wraps-through-the-batch",
        "torch.cat([torch.full_like(target.flatten()[:1], bos), target.flatten()[:-1]]).view(target.shape)",
        "The shift runs on from one sentence into the next; each starts with `bos`.",
        "",
    ),
    (
        "shift-left",
        "torch.cat([target[..., 1:], start], dim=-1)",
        "The target is shifted to the left: the decoder would read what comes after the token that it is to say.",
        "",
    ),
    (
        "shift-bos-at-the-end",
        "torch.cat([target[..., :-1], start], dim=-1)",
        "`bos` stands at the end; it belongs to the beginning.",
        "",
    ),
    (
        "shift-along-the-batch",
        "torch.cat([torch.full_like(target[:1], bos), target[:-1]], dim=0)",
        "You shift along the first axis, from sentence to sentence. Shift along the tokens, the last axis.",
        "",
    ),
    (
        "shift-along-axis-one",
        "torch.cat([torch.full_like(target[:, :1], bos), target[:, :-1]], dim=1)",
        "You shift along axis 1. With other leading dimensions the tokens are elsewhere; count from the end.",
        "",
    ),
    (
        "shift-bos-is-zero",
        "torch.cat([torch.zeros_like(target[..., :1]), target[..., :-1]], dim=-1)",
        "A zero stands in front, whatever `bos` is.",
        "",
    ),
    (
        "shift-bos-is-one",
        "torch.cat([torch.ones_like(target[..., :1]), target[..., :-1]], dim=-1)",
        "A one stands in front, whatever `bos` is.",
        "",
    ),
    (
        "shift-first-twice",
        "torch.cat([target[..., :1], target[..., :-1]], dim=-1)",
        "The first token stands twice; `bos` belongs in front of it.",
        "",
    ),
    (
        "shift-by-two",
        "torch.cat([start, start, target[..., :-2]], dim=-1)[..., : target.shape[-1]]",
        "The target is shifted by two places; one is enough.",
        "",
    ),
    (
        "shift-to-numbers",
        "torch.cat([torch.full_like(target[..., :1], bos, dtype=torch.float32), target[..., :-1]], dim=-1)",
        "The tokens have become floating-point numbers. `torch.zeros`, `torch.ones` and `torch.full` need a dtype; "
        "the relatives that end in `_like` take it over.",
        "",
    ),
    (
        "shift-to-int64",
        "torch.cat([start.long(), target[..., :-1].long()], dim=-1)",
        "The result has another dtype than the target.",
        "",
    ),
):
    shift_right.slip(_id, JOINED, _new, _hint, _source)

shift_right.slip(
    "shift-in-place",
    START,
    "shifted = target.clone()\n    target[..., 1:] = shifted[..., :-1]\n    target[..., 0] = bos\n    return target",
    "Your kernel shifts the caller's target itself, which the loss still needs. Make a new tensor.",
)


masked_cross_entropy = Check(
    reference.masked_cross_entropy,
    difficulty="core",
    minutes=20,
    hints=(
        "Which places are real? Compare the target with `pad`.",
        "The loss of one place is the negative log-probability of its right token. `torch.log_softmax` gives the "
        "log-probabilities, and `gather` picks one of each row.",
        "Add up the losses of the real places, and divide by their number, over the whole batch at once.",
        "`pad` may be a number that is no token, such as -100, so do not look it up. And a batch without a real token must "
        "not divide by zero.",
    ),
    reproduces=(
        "torch.nn.functional.cross_entropy",
        "torch.nn.functional.nll_loss",
        "torch.nn.CrossEntropyLoss",
        "torch.nn.NLLLoss",
    ),
)


def _loss_inputs(draw, batch, tokens, vocab_size, pad=None, lengths=None):
    """Logits, and targets whose padding stands at the end; lengths are ragged unless given.

    Token 0 is a word unless it is padding. No token is improbable: that is an aspect of its own. In single precision
    the right tokens' logits are all rounded down.
    """
    pad = int(draw.rng.integers(1, vocab_size)) if pad is None else pad
    words = np.setdiff1d(np.arange(vocab_size), [pad])
    target = draw.rng.choice(words, (batch, tokens))
    target[0, 0] = words[0]
    logits = np.float32(draw.rng.uniform(99.3, 100.7, (batch, tokens, vocab_size))) + 3e-6 * np.eye(vocab_size)[target]
    lengths = _ragged(draw, batch, tokens) if lengths is None else np.asarray(lengths)
    target[np.arange(tokens) >= lengths[:, None]] = pad
    return {"logits": logits, "target": target, "pad": pad}


@masked_cross_entropy.aspect("a batch without padding", points=1)
def _loss_values(draw):
    batch, tokens, vocab_size = draw.sizes(3, 3, 8)
    yield Case("several sentences", _loss_inputs(draw, batch, tokens, vocab_size, lengths=[tokens] * batch))
    yield Case("all sizes equal", _loss_inputs(draw, tokens, tokens, tokens, lengths=[tokens] * tokens))
    yield Case("a single token", _loss_inputs(draw, 1, 1, vocab_size, lengths=[1]))


@masked_cross_entropy.aspect("real tokens alone count", points=2)
def _loss_padding(draw):
    batch, tokens, vocab_size = draw.sizes(3, 4, 9)
    yield Case("sentences of different lengths", _loss_inputs(draw, batch, tokens, vocab_size))
    yield Case("padding is token 0", _loss_inputs(draw, batch, tokens, vocab_size, pad=0))
    yield Case("padding is the last token", _loss_inputs(draw, batch, tokens, vocab_size, pad=vocab_size - 1))
    yield Case("a sentence of padding alone", _loss_inputs(draw, 3, tokens, vocab_size, lengths=[2, 0, tokens]))
    inputs = _loss_inputs(draw, batch, tokens, vocab_size)
    yield Case("padding in front", inputs | {"target": inputs["target"][:, ::-1].copy()})


@masked_cross_entropy.aspect("padding that is no token, a batch of padding alone", points=1)
def _loss_edges(draw):
    batch, tokens, vocab_size = draw.sizes(3, 4, 9)
    yield Case("padding is -100", _loss_inputs(draw, batch, tokens, vocab_size, pad=-100))
    yield Case("padding is above every token", _loss_inputs(draw, batch, tokens, vocab_size, pad=vocab_size + 7))
    nothing = _loss_inputs(draw, batch, tokens, vocab_size, lengths=[0] * batch)
    yield Case("padding alone", nothing, gradient=("logits",))


@masked_cross_entropy.aspect("large logits, gradients, single precision", points=1)
def _loss_other(draw):
    batch, tokens, vocab_size = draw.sizes(3, 4, 9)
    inputs = _loss_inputs(draw, batch, tokens, vocab_size)
    far = 1000 * (inputs["logits"] - 99)
    far[0, 0, inputs["target"][0, 0]] -= 2000  # a right token whose probability underflows
    yield Case("logits far apart", inputs | {"logits": far})
    yield Case("logits far from zero", inputs | {"logits": 1e5 + inputs["logits"]})
    yield Case("gradients", inputs, gradient=("logits",))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("tensors that are not contiguous, several calls", inputs, strided=True, repeated=True)
    yield Case("a target too many", inputs | {"target": inputs["target"][:, [0, *range(tokens)]]}, refused=True)


LOG = "torch.log_softmax(logits[real], dim=-1)"
MASK = "real = target != pad"
GATHER = "of_target = log_probabilities.gather(-1, target[real][:, None])"
MEAN = "return -of_target.sum() / real.sum().clamp(min=1)"
EACH = (
    "of_target = torch.log_softmax(logits, dim=-1).gather(-1, torch.where(real, target, 0)[..., None])[..., 0]"
    ".masked_fill(~real, 0.0)"
)

for _id, _old, _new, _hint, _source in (
    (
        "loss-mean-of-all-places",
        MEAN,
        "return -of_target.sum() / target.numel()",
        "You divide by the number of all places, padding included. Then a batch with more padding seems to have a smaller "
        "loss.",
        "https://github.com/lukas-blecher/LaTeX-OCR/pull/443",
    ),
    (
        "loss-padding-counted",
        MASK,
        "real = (target >= 0) & (target < logits.shape[-1])",
        "Padding counts like words: the model is also asked to predict padding.",
        "https://github.com/lukas-blecher/LaTeX-OCR/issues/305",
    ),
    (
        "loss-padding-counted-not-divided",
        GATHER,
        "log_probabilities = torch.log_softmax(logits, dim=-1)\n"
        "    of_target = log_probabilities.gather(-1, target.clamp(0, logits.shape[-1] - 1)[..., None])",
        "Padding is left out of the number of tokens, but its losses are still in the sum.",
        "",
    ),
    (
        "loss-mean-of-sentence-means",
        GATHER + "\n    " + MEAN,
        EACH + "\n    means = -of_target.sum(-1) / real.sum(-1).clamp(min=1)\n    return means.sum() / len(target)",
        "You take the mean of each sentence and then the mean of those, so a word in a short sentence counts more. Every "
        "real token should count the same.",
        "",
    ),
    (
        "loss-mean-of-step-means",
        GATHER + "\n    " + MEAN,
        EACH + "\n    means = -of_target.sum(0) / real.sum(0).clamp(min=1)\n    return means.sum() / target.shape[1]",
        "You take the mean at each step and then the mean of those, so a word at a place where few sentences still go on "
        "counts more. Every real token should count the same.",
        "https://github.com/pytorch/tutorials/issues/663",
    ),
    (
        "loss-sum",
        MEAN,
        "return -of_target.sum()",
        "You return the sum of the losses; divide by the number of real tokens.",
        "",
    ),
    (
        "loss-divided-by-sentences",
        MEAN,
        "return -of_target.sum() / len(target)",
        "You divide by the number of sentences; divide by the number of real tokens.",
        "",
    ),
    (
        "loss-not-averaged",
        GATHER + "\n    " + MEAN,
        EACH + "\n    return -of_target",
        "You return a loss for each place; one number is asked for.",
        "",
    ),
    (
        "loss-nan-without-tokens",
        MEAN,
        "return -of_target.sum() / real.sum()",
        "A batch of padding alone gives NaN, zero over zero, and one such batch spoils a whole training. Its loss is zero.",
        "https://github.com/pytorch/pytorch/issues/75181",
    ),
    (
        "loss-pad-looked-up",
        GATHER + "\n    " + MEAN,
        "of_target = torch.log_softmax(logits, dim=-1).gather(-1, target[..., None])[..., 0]\n"
        "    return -(of_target * real).sum() / real.sum().clamp(min=1)",
        "The log-probability is looked up on padding too, before it is masked. `pad` need not be a token: put another index "
        "there first, or leave these places out.",
        "",
    ),
    (
        "loss-pad-hard-coded",
        MASK,
        "real = (target != 0) & (target >= 0) & (target < logits.shape[-1])",
        "Padding is taken to be token 0, whatever `pad` says.",
        "",
    ),
    (
        "loss-mask-inverted",
        GATHER + "\n    " + MEAN,
        "real = ~real\n    "
        + EACH.replace("target, 0)", "target, 0).clamp(0, logits.shape[-1] - 1)")
        + "\n    return -of_target.sum() / real.sum().clamp(min=1)",
        "Padding is what counts, and the real tokens are left out.",
        "",
    ),
    (
        "loss-positive-sign",
        MEAN,
        "return of_target.sum() / real.sum().clamp(min=1)",
        "The sign is missing: a loss is the negative log-probability, so that smaller is better.",
        "",
    ),
    (
        "loss-softmax-twice",
        LOG,
        "torch.log_softmax(torch.softmax(logits[real], dim=-1), dim=-1)",
        "The softmax is applied twice: `log_softmax` takes the logits themselves.",
        "",
    ),
    (
        "loss-no-log",
        LOG,
        "torch.softmax(logits[real], dim=-1)",
        "You average probabilities; take their logarithms.",
        "",
    ),
    (
        "loss-no-softmax",
        LOG,
        "logits[real]",
        "You average the logits of the right tokens. They are not log-probabilities yet: the softmax is missing.",
        "",
    ),
    (
        "loss-overflow",
        LOG,
        "torch.log(logits[real].exp() / logits[real].exp().sum(-1, keepdim=True))",
        "Your exponentials overflow: exp(1000) is infinite. `torch.log_softmax` takes care of that.",
        "",
    ),
    (
        "loss-log-of-zero",
        LOG,
        "torch.log(torch.softmax(logits[real], dim=-1))",
        "The softmax underflows to zero where the logits are far apart, and the logarithm of zero is infinite. "
        "`torch.log_softmax` takes both in one.",
        "",
    ),
    (
        "loss-log-of-almost-zero",
        LOG,
        "torch.log(torch.softmax(logits[real], dim=-1) + 1e-9)",
        "A small number under the logarithm hides infinities, but the loss is wrong wherever a token is improbable. "
        "`torch.log_softmax` needs no such help.",
        "",
    ),
    (
        "loss-softmax-over-tokens",
        LOG,
        "torch.log_softmax(logits, dim=1)[real]",
        "Your softmax runs over the places of a sentence; it must run over the vocabulary, the last axis.",
        "",
    ),
    (
        "loss-in-bits",
        MEAN,
        "return -of_target.sum() / real.sum().clamp(min=1) / torch.log(torch.tensor(2.0, dtype=logits.dtype))",
        "This is the loss in bits; nats are asked for, with the natural logarithm.",
        "",
    ),
    (
        "loss-first-token-dropped",
        MASK,
        "real = (target != pad) & (torch.arange(target.shape[1]) > 0)",
        "The first token of each sentence is left out: the shift is done by `shift_right` already.",
        "",
    ),
    (
        "loss-last-token-dropped",
        MASK,
        "real = (target != pad) & (torch.arange(target.shape[1]) < target.shape[1] - 1)",
        "The last token of each sentence is left out: the shift is done by `shift_right` already.",
        "",
    ),
    (
        "loss-shifted-again",
        GATHER + "\n    " + MEAN,
        "real = real[:, 1:]\n"
        "    log_probabilities = torch.log_softmax(logits[:, :-1][real], dim=-1)\n"
        "    of_target = log_probabilities.gather(-1, target[:, 1:][real][:, None])\n"
        "    return -of_target.sum() / real.sum().clamp(min=1)",
        "Logits are compared with the token of the next place: the shift is done by `shift_right` already.",
        "",
    ),
    (
        "loss-detached",
        MEAN,
        "return torch.tensor((-of_target.sum() / real.sum().clamp(min=1)).item(), dtype=logits.dtype)",
        "The loss has become a Python number on the way, so no gradient flows back.",
        "",
    ),
    (
        "loss-in-float32",
        LOG,
        "torch.log_softmax(logits[real].float(), dim=-1).to(logits.dtype)",
        "The loss is computed in single precision whatever dtype comes in, so digits are lost.",
        "",
    ),
):
    masked_cross_entropy.slip(_id, _old, _new, _hint, _source)


greedy_decode = Check(
    reference.greedy_decode,
    difficulty="core",
    minutes=25,
    hints=(
        "Start from `start` and `state`. Each step gives logits and a new state; the tokens that you choose are the next "
        "step's input.",
        "Keep a boolean for each sentence that says whether it has ended. It can only turn from False to True.",
        "A sentence that ended before this step says `pad`, whatever the logits say. The step that says `eos` still counts.",
        "Two things end the loop: the number of steps, and that every sentence has ended.",
    ),
)


def _decode_inputs(draw, ends, steps, max_length):
    """A table of logits by sentence, step, and token before, in which sentence ``i`` says ``eos`` at step ``ends[i]``.

    Before that it says no special token. After it, it says whatever comes, ``eos`` too.
    """
    batch, vocab_size = len(ends), 2 * int(draw.rng.integers(4, 6))
    bos, eos, pad = (int(token) for token in draw.rng.permutation(np.arange(1, vocab_size))[:3])
    table = draw.normal(batch, steps, vocab_size, vocab_size)
    for sentence, end in enumerate(ends):
        table[sentence, :end, :, [bos, eos, pad]] -= 20
        table[sentence, end, :, eos] += 20
        table[sentence, end + 1 :, :, pad] -= 20
    start = np.full(batch, bos)
    return {"table": table, "start": start, "eos": eos, "pad": pad, "max_length": max_length}


@greedy_decode.aspect("one sentence", points=1)
def _decode_values(draw):
    end, room = sorted(draw.sizes(2, 3, 8))
    yield Case("a sentence that ends", _decode_inputs(draw, [end], room + 4, room + 2))
    yield Case("a sentence that ends at once", _decode_inputs(draw, [0], room + 4, room))
    yield Case("a sentence that is cut off", _decode_inputs(draw, [room + 2], room + 4, end))
    yield Case("room for a single token", _decode_inputs(draw, [end], room + 4, 1))


@greedy_decode.aspect("each sentence stops for itself", points=2)
def _decode_batch(draw):
    ends = draw.sizes(4, 1, 8)
    yield Case("several sentences", _decode_inputs(draw, ends, 14, 12))
    yield Case("the first ends last", _decode_inputs(draw, sorted(ends, reverse=True), 14, 12))
    yield Case("some are cut off", _decode_inputs(draw, [10, *ends], 14, max(ends)))
    yield Case("all end together", _decode_inputs(draw, [5, 5, 5], 14, 12))
    yield Case("as many sentences as steps", _decode_inputs(draw, [4, 1, 3, 2, 0], 14, 12))


@greedy_decode.aspect("several calls, wrong arguments", points=1)
def _decode_other(draw):
    ends = draw.sizes(3, 1, 6)
    inputs = _decode_inputs(draw, ends, 12, 10)
    inputs["table"][..., -1 - inputs["eos"]] -= 60  # in reverse order, as in the other calls, this one is that of `eos`
    yield Case("single precision, several calls", inputs, dtype="float32", repeated=True)
    yield Case("no room for any token", inputs | {"max_length": 0}, refused=True)


DECODE_BEGIN = "tokens, said = start, []"
WHILE = "while len(said) < max_length and not ended.all():"
STEP = "logits, state = step(tokens, state)"
CHOOSE = "tokens = logits.argmax(dim=-1).masked_fill(ended, pad)"
ENDED = "ended = ended | (tokens == eos)"
SAID = "said.append(tokens)"
STACK = "return torch.stack(said, dim=1)"

for _id, _old, _new, _hint, _source in (
    (
        "decode-speaks-after-the-end",
        CHOOSE,
        "tokens = logits.argmax(-1)",
        "A sentence that has ended speaks on until the others have ended too. After its `eos` it should say `pad`.",
        "",
    ),
    (
        "decode-eos-as-padding",
        CHOOSE,
        "tokens = logits.argmax(dim=-1).masked_fill(ended, eos)",
        "A sentence that has ended is filled up with `eos`; `pad` is asked for.",
        "",
    ),
    (
        "decode-zero-as-padding",
        CHOOSE,
        "tokens = logits.argmax(dim=-1).masked_fill(ended, 0)",
        "A sentence that has ended is filled up with zeros, whatever `pad` is.",
        "",
    ),
    (
        "decode-eos-dropped",
        SAID,
        "said.append(torch.where(tokens == eos, pad, tokens))",
        "`eos` itself is missing: it is the last token of a sentence, and padding comes after it.",
        "",
    ),
    (
        "decode-last-eos-dropped",
        f"{ENDED}\n        {SAID}",
        f"{ENDED}\n        if ended.all():\n            break\n        {SAID}",
        "The loop is left before the last `eos` is kept. It belongs to the sentence, so keep the tokens first.",
        "",
    ),
    (
        "decode-ends-forgotten",
        ENDED,
        "ended = tokens == eos",
        "A sentence that has ended begins to speak again one step later: whether it has ended is forgotten.",
        "",
    ),
    (
        "decode-waits-for-all-at-once",
        f"{CHOOSE}\n        {ENDED}",
        "tokens = logits.argmax(-1)\n        ended = tokens == eos",
        "Your loop ends when all sentences say `<eos>` in the same step, and one that has ended speaks on until then. "
        "Remember which have ended.",
        "",
    ),
    (
        "decode-stops-at-the-first-end",
        WHILE,
        "while len(said) < max_length and not ended.any():",
        "All sentences stop when the first one ends; go on until every one has ended.",
        "",
    ),
    (
        "decode-never-stops-early",
        WHILE,
        "while len(said) < max_length:",
        "Steps are taken after every sentence has ended, up to the largest length.",
        "",
    ),
    (
        "decode-no-largest-length",
        WHILE,
        "while not ended.all():",
        "A sentence that does not end goes on beyond `max_length`.",
        "",
    ),
    (
        "decode-one-token-too-many",
        WHILE,
        "while len(said) <= max_length and not ended.all():",
        "One token more than `max_length` is said.",
        "",
    ),
    (
        "decode-one-token-too-few",
        WHILE,
        "while len(said) < max(max_length - 1, 1) and not ended.all():",
        "One token fewer than `max_length` is said. `start` is not among the tokens that count.",
        "",
    ),
    (
        "decode-start-kept",
        DECODE_BEGIN,
        "tokens, said = start, [start]\n    max_length += 1",
        "`start` stands in front of the result; the sentence begins with the first token that the decoder says.",
        "",
    ),
    (
        "decode-start-counted",
        DECODE_BEGIN,
        "tokens, said = start, [start]",
        "`start` stands in front of the result, and takes the place of a token that the decoder should say.",
        "",
    ),
    (
        "decode-start-fed-again",
        STEP,
        "logits, state = step(start, state)",
        "Each step reads `start` again; it should read the token that was just said.",
        "",
    ),
    (
        "decode-state-not-handed-on",
        STEP,
        "logits, _ = step(tokens, state)",
        "Each step starts from the first state again; hand the new state on.",
        "https://github.com/upskyy/ContextNet/issues/4",
    ),
    (
        "decode-argmin",
        CHOOSE,
        "tokens = logits.argmin(dim=-1).masked_fill(ended, pad)",
        "You take the least probable token.",
        "",
    ),
    (
        "decode-ended-one-step-early",
        CHOOSE + "\n        " + ENDED,
        "tokens = logits.argmax(-1)\n        " + ENDED + "\n        tokens = tokens.masked_fill(ended, pad)",
        "The step that says `eos` is padded already, so `eos` never appears. Note the end after the token is kept.",
        "",
    ),
    (
        "decode-time-first",
        STACK,
        "return torch.stack(said, dim=0)",
        "Your result has the steps as first axis. In this course the batch comes first.",
        "",
    ),
    (
        "decode-squeezed",
        STACK,
        "return torch.stack(said, dim=1).squeeze()",
        "`squeeze` removes every axis of length 1, also a batch of one or a single token.",
        "",
    ),
    (
        "decode-always-padded-to-the-end",
        STACK,
        "said = torch.stack(said, dim=1)\n"
        "    return torch.nn.functional.pad(said, (0, max(max_length - said.shape[1], 0)), value=pad)",
        "The result is filled up to `max_length`; the longest sentence should end it.",
        "",
    ),
):
    greedy_decode.slip(_id, _old, _new, _hint, _source)


@greedy_decode.mistake(
    "decode-trimmed-afterwards",
    "The tokens are right, but more steps are taken than needed: stop as soon as every sentence has ended.",
)
def _trimmed_afterwards(step, state, start, eos, pad, max_length):
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; it must be at least 1.")
    tokens, said = start, []
    ended = torch.zeros_like(start, dtype=torch.bool)
    for _ in range(max_length):
        logits, state = step(tokens, state)
        tokens = logits.argmax(dim=-1).masked_fill(ended, pad)
        ended = ended | (tokens == eos)
        said.append(tokens)
    said = torch.stack(said, dim=1)
    return said[:, (said != pad).any(dim=0)]
