"""The layers that are compared: right shapes, causal or not as they should be, and the counts near the formulas."""

import pytest
import torch

from lab import sequence_layers

torch.set_num_threads(1)


@pytest.mark.parametrize("name", sequence_layers.NAMES)
def test_the_shape_stays(name):
    tokens = torch.zeros(2, 7, sequence_layers.D_MODEL)
    assert sequence_layers.build(name)(tokens).shape == tokens.shape


@pytest.mark.parametrize(("name", "reached"), [("rnn", 5), ("convolution", 3), ("self-attention", 7)])
def test_each_token_reaches_as_many_outputs_as_its_layer_lets_it(name, reached):
    torch.manual_seed(0)
    layer, tokens = sequence_layers.build(name), torch.randn(1, 7, sequence_layers.D_MODEL)
    moved = tokens.clone()
    moved[0, 2] += 1
    changed = (layer(moved) - layer(tokens)).abs().amax(-1)[0] > 0
    assert changed.sum() == reached


@pytest.mark.parametrize("name", sequence_layers.NAMES)
@pytest.mark.parametrize("length", [16, 128])
def test_the_formula_is_what_is_counted_but_for_elementwise_work(name, length):
    work, formula = sequence_layers.counted(name, length).multiply_adds, sequence_layers.formula(name, length)
    assert formula <= work < 1.25 * formula


def test_an_unknown_layer_is_told_in_words():
    with pytest.raises(ValueError, match="no layer 'tree'; choose one of rnn, convolution, self-attention"):
        sequence_layers.build("tree")
