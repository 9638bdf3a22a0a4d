"""What the page "Self-attention" says in words, where no cell of it computes the number."""

import math

import numpy as np
import pytest
import torch

from autograder.checks import self_attention as checks
from autograder.reference.self_attention import masked_self_attention, self_attention, sinusoidal_positions
from lab import minilm
from lab.dependency import dependency_matrix

torch.set_num_threads(1)
KNOWN = {mistake.id: mistake.kernel for mistake in checks.masked_self_attention.mistakes}


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def weights(width=8):
    return [normal(width, width, seed=seed) / math.sqrt(width) for seed in range(3)]


def test_recurrent_influence_decays_and_that_of_self_attention_does_not():
    torch.manual_seed(0)
    tokens = torch.randn(40, 32)
    for kind in (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM):
        layer = kind(32, 32)
        influence = dependency_matrix(lambda x, layer=layer: layer(x)[0][-1:], tokens)[0].flip(0)
        assert influence[1] > 1e3 * influence[21]
    projections = [torch.randn(32, 32) / math.sqrt(32) for _ in range(3)]
    influence = dependency_matrix(lambda x: self_attention(x, *projections)[-1:], tokens)[0].flip(0)
    assert 0.1 < influence[1:6].mean() / influence[-5:].mean() < 10


def test_the_dot_product_of_positions_is_the_sum_of_cosines_of_the_distance():
    P = sinusoidal_positions(200, 64).double()
    frequencies = 10000 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    for distance in range(-40, 41):
        wanted = torch.cos(frequencies * distance).sum()
        for position in (50, 100, 150):
            assert P[position] @ P[position + distance] == pytest.approx(wanted.item(), abs=1e-4)
        assert wanted < 32 or distance == 0


def test_a_rotation_between_queries_and_keys_moves_the_peak():
    """A layer can look to one side, although the dot product does not tell left from right."""
    P, step = sinusoidal_positions(60, 64).double(), 3
    turned = torch.linalg.lstsq(P[:-step], P[step:]).solution
    scores = P[step:] @ turned.T @ P.T
    assert torch.equal(scores.argmax(1), torch.arange(60 - step))


@pytest.mark.parametrize("name", ["causal-replaces-pad", "key-mask-on-queries", "padding-zeroed-not-masked"])
def test_a_causal_mask_hides_mistakes_about_padding_at_the_end_but_not_in_front(name):
    X, real = normal(1, 7, 8), torch.tensor([[True] * 5 + [False] * 2])
    for key_mask, hidden in ((real, True), (real.flip(1), False)):
        given, wanted = (
            kernel(X, *weights(), causal=True, key_mask=key_mask)[key_mask]
            for kernel in (KNOWN[name], masked_self_attention)
        )
        assert torch.allclose(given, wanted) == hidden


def test_equal_tokens_give_equal_outputs_under_a_causal_mask():
    output = masked_self_attention(normal(1, 8).expand(5, 8), *weights(), causal=True)
    torch.testing.assert_close(output, output[:1].expand(5, 8))


def test_the_slowest_frequency_moves_towards_one_ten_thousandth_with_the_width():
    slowest = [10000 ** (-(d_model - 2) / d_model) for d_model in (32, 64)]
    assert slowest[0] > slowest[1] > 1e-4


def test_the_positions_of_the_encoder_lie_where_its_words_do_not():
    encoder = minilm.load()
    places, words = ((table.weight - table.weight.mean(0)).detach() for table in (encoder.positions, encoder.words))
    directions = torch.linalg.svd(places, full_matrices=False).Vh[:8]
    held, strayed = ((t @ directions.T).square().sum() / t.square().sum() for t in (places, words))
    assert held > 0.5
    assert strayed < 8 / minilm.D_MODEL
