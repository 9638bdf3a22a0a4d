"""The kernels of "The recurrent encoder-decoder" against PyTorch's cells, packed sequences, losses, and plain loops."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from autograder.reference import rnn_encoder_decoder as reference

torch.set_num_threads(1)
BATCHES = [4, 1]
CELLS = {
    "rnn_cell": (torch.nn.RNNCell, torch.nn.RNN),
    "gru_cell": (torch.nn.GRUCell, torch.nn.GRU),
    "lstm_cell": (torch.nn.LSTMCell, torch.nn.LSTM),
}


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def cell_inputs(name, batch, d_in=3, d_h=5):
    gates = {"rnn_cell": 1, "gru_cell": 3, "lstm_cell": 4}[name]
    states = [normal(batch, d_h, seed=1)] + ([3 * normal(batch, d_h, seed=2)] if name == "lstm_cell" else [])
    weights = [normal(gates * d_h, d_in, seed=3), normal(gates * d_h, d_h, seed=4)]
    return [normal(batch, d_in), *states, *weights, normal(gates * d_h, seed=5), normal(gates * d_h, seed=6)]


def pytorch_cell(name):
    """The same call of PyTorch's module, its parameters in place of its own."""

    def call(x, *rest):
        *states, W_ih, W_hh, b_ih, b_hh = rest
        module = CELLS[name][0](x.shape[-1], states[0].shape[-1], dtype=x.dtype)
        parameters = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b_ih, "bias_hh": b_hh}
        state = states[0] if len(states) == 1 else tuple(states)
        return torch.func.functional_call(module, parameters, (x, state), strict=True)

    return call


def values_and_gradients(kernel, tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    outputs = kernel(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum(
        (output * torch.cos(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)).sum()
        for output in outputs
    )
    return [*(output.detach() for output in outputs), *torch.autograd.grad(loss, leaves)]


def assert_same(given, wanted):
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CELLS)
def test_cells_equal_pytorchs_in_value_and_gradient(name, batch):
    inputs = cell_inputs(name, batch)
    kernel = getattr(reference, name)
    assert_same(values_and_gradients(kernel, inputs), values_and_gradients(pytorch_cell(name), inputs))


@pytest.mark.parametrize("name", CELLS)
def test_cells_keep_single_precision(name):
    inputs = [tensor.float() for tensor in cell_inputs(name, 4)]
    given, wanted = getattr(reference, name)(*inputs), pytorch_cell(name)(*inputs)
    for one, other in zip(given, wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other)


def test_the_first_paper_applies_the_reset_gate_before_the_weights():
    """What the docstring and the chapter say: the two orders differ, and PyTorch's is ours."""
    x, h, W_ih, W_hh, b_ih, b_hh = cell_inputs("gru_cell", 4)
    reset, update = torch.sigmoid((x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)[:, :10]).chunk(2, dim=-1)
    candidate = torch.tanh(x @ W_ih[10:].T + b_ih[10:] + (reset * h) @ W_hh[10:].T + b_hh[10:])
    first_paper = (1 - update) * candidate + update * h
    assert (first_paper - torch.gru_cell(x, h, W_ih, W_hh, b_ih, b_hh)).abs().max() > 0.01


@pytest.mark.parametrize("lengths", [[4, 7, 1, 3], [7, 7, 7, 7], [2]], ids=str)
@pytest.mark.parametrize("name", ["rnn_cell", "gru_cell"])
def test_encode_equals_packed_sequences_in_value_and_gradient(name, lengths):
    X, lengths, h_0 = normal(len(lengths), 7, 3), torch.tensor(lengths), normal(len(lengths), 5, seed=8)
    module = CELLS[name][1](3, 5, batch_first=True, dtype=torch.float64)
    weights = [parameter.detach() for parameter in module.parameters()]
    names = [name for name, _ in module.named_parameters()]

    def ours(X, h_0, *weights):
        return reference.encode(lambda x, h: getattr(reference, name)(x, h, *weights), X, lengths, h_0)

    def packed(X, h_0, *weights):
        sequences = pack_padded_sequence(X, lengths, batch_first=True, enforce_sorted=False)
        parameters = dict(zip(names, weights, strict=True))
        states, last = torch.func.functional_call(module, parameters, (sequences, h_0[None]))
        return pad_packed_sequence(states, batch_first=True, total_length=7)[0], last[0]

    assert_same(values_and_gradients(ours, (X, h_0, *weights)), values_and_gradients(packed, (X, h_0, *weights)))


def test_padding_has_no_influence_on_values_or_gradients():
    lengths, h_0 = torch.tensor([4, 0, 1]), normal(3, 5)
    weights = cell_inputs("gru_cell", 3)[2:]
    padding = torch.arange(6) >= lengths[:, None]

    def read(X):
        return reference.encode(lambda x, h: reference.gru_cell(x, h, *weights), X, lengths, h_0)

    X = normal(3, 6, 3)
    other = torch.where(padding[..., None], 1e3 * normal(3, 6, 3, seed=1), X)
    assert_same(read(X), read(other))
    states, last, gradient = values_and_gradients(read, (X,))
    assert not states[padding].any()
    assert not gradient[padding].any()
    assert torch.equal(last[1], h_0[1])


def test_shift_right_by_loops():
    target = torch.randint(9, (2, 3, 5))
    shifted = reference.shift_right(target, 77)
    for at in np.ndindex(2, 3, 5):
        assert shifted[at] == (77 if at[2] == 0 else target[(*at[:2], at[2] - 1)])
    assert torch.equal(reference.shift_right(target[..., :1], 77), torch.full((2, 3, 1), 77))


@pytest.mark.parametrize("pad", [0, 4, -100])
@pytest.mark.parametrize("scale", [1, 300])
def test_loss_equals_pytorchs_in_value_and_gradient(pad, scale):
    logits, target = scale * normal(4, 6, 9), torch.randint(5, 9, (4, 6), generator=torch.Generator().manual_seed(0))
    target[torch.arange(6) >= torch.tensor([6, 1, 3, 0])[:, None]] = pad
    assert_same(
        values_and_gradients(lambda logits: reference.masked_cross_entropy(logits, target, pad), (logits,)),
        values_and_gradients(
            lambda logits: F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad), (logits,)
        ),
    )


def test_loss_of_padding_alone_is_zero_where_pytorchs_is_nan():
    logits, target = normal(2, 3, 4), torch.zeros(2, 3, dtype=torch.long)
    loss, gradient = values_and_gradients(lambda logits: reference.masked_cross_entropy(logits, target, 0), (logits,))
    assert loss == 0
    assert not gradient.any()
    assert F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0).isnan()


def test_loss_of_equal_logits_is_the_logarithm_of_the_vocabulary():
    loss = reference.masked_cross_entropy(torch.zeros(3, 2, 7), torch.tensor([[1, 2], [3, 0], [0, 0]]), 0)
    assert loss.item() == pytest.approx(math.log(7))


def decode_one(table, start, eos, max_length):
    """Greedy decoding of one sentence in plain Python."""
    said, token = [], start
    for scores in table[:max_length]:
        token = max(range(len(scores[token])), key=lambda v, row=scores[token]: row[v])
        said.append(token)
        if token == eos:
            break
    return said


@pytest.mark.parametrize("max_length", [1, 5, 12])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_decoding_of_a_batch_is_that_of_each_sentence_alone(seed, max_length):
    table, start, eos, pad = normal(6, 12, 4, 4, seed=seed), torch.arange(6) % 4, 2, 99
    rows = torch.arange(6)

    def step(tokens, number):
        return table[rows, number, tokens.where(tokens != pad, 0)], number + 1

    given = reference.greedy_decode(step, 0, start, eos, pad, max_length)
    wanted = [decode_one(one.tolist(), int(first), eos, max_length) for one, first in zip(table, start, strict=True)]
    longest = max(map(len, wanted))
    assert given.tolist() == [said + [pad] * (longest - len(said)) for said in wanted]


@pytest.mark.parametrize("name", CELLS)
def test_weights_that_do_not_fit_are_told_in_words(name):
    inputs = cell_inputs(name, 2)
    gates = inputs[-1].shape[0]
    with pytest.raises(ValueError, match=rf"x has width 4 .* shape \({gates}, 4\) .* they are \({gates}, 3\)"):
        getattr(reference, name)(normal(2, 4), *inputs[1:])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: reference.encode(torch.add, normal(2, 3, 4), torch.tensor([4, 1]), normal(2, 4)),
            "run from 1 to 4; X has room for 3",
        ),
        (
            lambda: reference.masked_cross_entropy(normal(2, 3, 4), torch.zeros(2, 4, dtype=torch.long), 0),
            r"logits have shape \(2, 3, 4\) and target has shape \(2, 4\)",
        ),
        (
            lambda: reference.greedy_decode(None, None, torch.tensor([1]), 2, 0, 0),
            "max_length is 0; it must be at least 1",
        ),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
