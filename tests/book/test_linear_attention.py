"""What the page "Linear attention" says in words, on the data that it plots."""

import math

import pytest
import torch

from autograder.reference.linear_attention import (
    causal_linear_attention,
    elu_features,
    linear_attention_state,
    matmul_cost,
    performer_features,
)
from autograder.work import count_work
from lab import linear, recall

torch.set_num_threads(1)
LONGEST, D = 4096, 64


@pytest.fixture(scope="module")
def inputs():
    return torch.randn(3, LONGEST, D, generator=torch.Generator().manual_seed(0))


def works(function, inputs, lengths):
    return [count_work(lambda N=N: function(*(x[:N] for x in inputs))) for N in lengths]


def test_the_two_orders_cost_what_the_formula_says_and_cross_at_the_harmonic_mean(inputs):
    lengths = [16, 64, 256, 1024]
    for which, product in enumerate((lambda q, k, v: (q @ k.T) @ v, lambda q, k, v: q @ (k.T @ v))):
        counted = [work.multiply_adds for work in works(product, inputs, lengths)]
        assert counted == [matmul_cost(N, N, D, D)[which] for N in lengths]
    left_first, right_first = matmul_cost(64, 64, D, D)
    assert left_first == right_first
    assert matmul_cost(48, 48, 32, 96)[0] == matmul_cost(48, 48, 32, 96)[1]  # 2 * 32 * 96 / (32 + 96) = 48
    assert matmul_cost(LONGEST, LONGEST, D, D)[0] == 64 * matmul_cost(LONGEST, LONGEST, D, D)[1]


def test_softmax_makes_the_table_and_linear_attention_nothing_larger_than_the_result(inputs):
    softmax, attend = (works(linear.ATTENTIONS[name], inputs, [2048, 4096]) for name in ("softmax", "linear"))
    assert softmax[1].largest == LONGEST**2
    assert attend[1].largest == LONGEST * D
    assert math.log2(softmax[1].multiply_adds / softmax[0].multiply_adds) == pytest.approx(2, abs=0.05)
    assert math.log2(attend[1].multiply_adds / attend[0].multiply_adds) == pytest.approx(1, abs=0.05)
    assert softmax[1].multiply_adds > 40 * attend[1].multiply_adds


@pytest.mark.slow
def test_the_cumulative_sum_saves_no_memory_and_chunks_do(inputs):
    q, k, v = elu_features(inputs[0]), elu_features(inputs[1]), inputs[2]
    by_size = {
        size: count_work(lambda size=size: causal_linear_attention(q, k, v, size)) for size in (1, 4, 64, 1024, LONGEST)
    }
    assert by_size[1].largest == pytest.approx(LONGEST**2, rel=0.05)
    assert by_size[LONGEST].largest == pytest.approx(LONGEST**2, rel=0.05)
    assert by_size[64].largest < min(by_size[4].largest, by_size[1024].largest) / 4
    assert by_size[64].multiply_adds == pytest.approx(by_size[1].multiply_adds, rel=0.3)
    assert by_size[LONGEST].multiply_adds > 10 * by_size[64].multiply_adds


def test_the_forms_of_the_causal_layer_are_equal(inputs):
    q, k, v = (x[:512].double() for x in (elu_features(inputs[0]), elu_features(inputs[1]), inputs[2]))
    weights = (q @ k.T).tril()
    expected = weights / weights.sum(-1, keepdim=True) @ v
    for size in (1, 48, 64, 512):
        torch.testing.assert_close(causal_linear_attention(q, k, v, size), expected, atol=1e-12, rtol=0)
    state, key_sum = q.new_zeros(D, D), q.new_zeros(D)
    for token in range(512):
        output, state, key_sum = linear_attention_state(state, key_sum, q[token], k[token], v[token])
        torch.testing.assert_close(output, expected[token], atol=1e-12, rtol=0)
    assert 4 * (state.numel() + key_sum.numel()) == 32.5 * 4 * (D + D)


@pytest.mark.slow
def test_linear_attention_recalls_more_with_more_features_and_never_as_much_as_softmax():
    softmax = linear.trained("softmax", 8)
    models = [linear.trained("linear", features) for features in (8, 32, 128)]
    assert recall.accuracy(softmax, 64) > 0.95
    assert recall.accuracy(softmax, 512) > 0.8
    at_64 = [recall.accuracy(model, 64) for model in models]
    assert at_64[0] < 0.35
    assert at_64[0] + 0.15 < at_64[1] < at_64[2] - 0.15
    assert at_64[2] < 0.85
    for model in models:
        assert recall.accuracy(model, 2) > 0.95
        assert recall.accuracy(model, 512) < 0.3

    weights, place = linear.look_up(softmax, "softmax", 64)
    assert linear.effective_number(weights).median() < 2.5
    on_right = []
    for model in models:
        weights, place = linear.look_up(model, "linear", 64)
        assert 25 < linear.effective_number(weights).median() < 50
        on_right.append(weights.gather(1, place[:, None]).mean().item())
    assert on_right[0] < on_right[1] < on_right[2] < 0.2
    assert on_right[2] > 5 / 64


def test_a_scale_sharpens_softmax_and_not_linear_attention():
    query, key, _ = linear.inputs(256, std=1.0)
    one_hot = torch.eye(256, dtype=torch.float64)
    for scale, softmax in ((0.1, 250), (100, 0)):
        numbers = {
            name: linear.effective_number(attend(scale * query, scale * key, one_hot)).mean().item()
            for name, attend in linear.ATTENTIONS.items()
        }
        assert softmax < numbers["softmax"] < softmax + 6
        assert numbers["linear"] > 235


@pytest.mark.slow
def test_the_exponential_is_estimated_without_bias_and_the_weight_is_not():
    draws, m, width = 4000, 16, 16
    query, key, _ = linear.inputs(8, std=0.5, d_k=width)
    truth = torch.exp(query @ key.T / width**0.5)
    variances = {}
    for orthogonal in (False, True):
        directions = linear.projections(draws * m, width, torch.Generator().manual_seed(2), orthogonal)
        estimates = linear.kernel_estimates(query, key, directions, draws)
        error = (estimates.mean(0) - truth) / (estimates.std(0) / draws**0.5)
        assert error.square().mean().sqrt() < 1.6
        variances[orthogonal] = (estimates.var(0) / truth**2).mean().item()
        weight, drawn = truth / truth.sum(-1, keepdim=True), estimates / estimates.sum(-1, keepdim=True)
        top = weight.flatten().argmax()
        bias = (weight - drawn.mean(0)).flatten()[top] / (drawn.std(0).flatten()[top] / draws**0.5)
        assert bias > 5
    a, b = query / width**0.25, key / width**0.25
    predicted = (torch.exp((a[:, None] + b).square().sum(-1)) - 1).mean().item() / m
    assert variances[False] == pytest.approx(predicted, rel=0.2)
    assert 0.5 < variances[True] / variances[False] < 0.9


@pytest.mark.slow
def test_the_error_falls_for_short_queries_and_stays_over_one_for_normal_ones():
    half = [linear.output_error(m, 0.5, draws=4) for m in (64, 1024, 4096)]
    assert 0.4 < half[0] < 0.8
    assert half[0] > 2 * half[1] > 3 * half[2]
    assert half[2] < 0.2
    assert all(linear.output_error(m, 1.0, draws=4) > 1.4 for m in (64, 1024, 4096))
    few = {orthogonal: linear.output_error(128, 0.5, orthogonal) for orthogonal in (True, False)}
    assert few[True] < few[False]


def test_trigonometric_features_estimate_small_exponentials_as_negative():
    query, key, _ = linear.inputs(64, std=0.9, d_k=16)
    small = torch.exp(query @ key.T / 4) < 0.5
    directions = linear.projections(256, 16, torch.Generator().manual_seed(3))
    for features, low, high in ((performer_features, 0, 0), (linear.trigonometric_features, 0.2, 0.5)):
        share = ((features(query, directions) @ features(key, directions).T)[small] < 0).double().mean()
        assert low <= share <= high
