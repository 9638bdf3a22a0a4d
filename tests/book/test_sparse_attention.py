"""What the page "Sparse attention" says in words, on the data that it plots."""

import pytest
import torch
from torch.nn import functional as F

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.sparse_attention import (
    external_global_attention,
    local_attention,
    longformer_attention,
    pattern_reachability,
    sparse_pattern,
    strided_attention,
)
from autograder.work import count_work
from lab import induction, python_text, sparse
from lab.dependency import dependency_matrix
from lab.language_model import CONTEXT, nats, trained_model, windows

torch.set_num_threads(1)
WINDOW = 32
REACH = sparse.WINDOW - 1


def inputs(length, width=64):
    return torch.randn(3, length, width, generator=torch.Generator().manual_seed(0))


def work(attend, length):
    return count_work(lambda: attend(*inputs(length)))


def masked(query, key, value):
    return scaled_dot_product_attention(query, key, value, sparse_pattern(query.shape[-2], WINDOW))


def test_full_attention_takes_four_times_as_much_for_twice_the_length():
    once, twice = (work(scaled_dot_product_attention, length) for length in (1024, 2048))
    assert twice.multiply_adds / once.multiply_adds == pytest.approx(4, abs=0.02)
    assert twice.largest / once.largest == 4
    assert twice.largest == 2048**2


def test_a_mask_saves_nothing_and_blocks_do():
    full, with_mask = work(scaled_dot_product_attention, 2048), work(masked, 2048)
    assert with_mask.multiply_adds > full.multiply_adds
    assert with_mask.largest == 2048**2
    once, twice = (work(lambda *x: local_attention(*x, WINDOW), length) for length in (1024, 2048))
    assert twice.multiply_adds / once.multiply_adds == pytest.approx(2, abs=0.05)
    assert full.multiply_adds > 15 * twice.multiply_adds
    assert twice.largest < full.largest / 8


@pytest.mark.slow
def test_the_language_model_spreads_its_weight_and_needs_only_what_is_near():
    model, _ = trained_model()
    validation = python_text.corpus().validation
    texts = windows(validation, 48, CONTEXT, torch.Generator().manual_seed(0))
    first, second = (sparse.share_near(maps.mean(1)) for maps in induction.attention_maps(model, texts))
    assert first[7] > 0.8
    assert second[7] < 0.3
    losses = {w: nats(sparse.windowed(model, w), validation) for w in (1, 2, 4, 8, 16)}
    full = nats(model, validation)
    assert losses[1] > losses[2] + 0.2 > losses[4] + 0.4
    assert abs(losses[8] - full) < 0.1
    assert abs(losses[16] - full) < 0.03


@pytest.mark.slow
@torch.no_grad()
def test_induction_heads_need_what_is_far():
    model, _ = induction.trained(2)
    texts = induction.draw(200, torch.Generator().manual_seed(1))
    assert induction.losses(model, texts).mean() < 0.6
    assert induction.losses(sparse.windowed(model, 8), texts).mean() > 4


def test_padding_that_counts_takes_weight_at_the_edge():
    query = key = torch.zeros(8, 4)
    value = torch.ones(8, 1)
    torch.testing.assert_close(local_attention(query, key, value, 4), value)
    wrong = local_attention(*(F.pad(x, (0, 0, 4, 4)) for x in (query, key, value)), 4)[4:-4]
    assert wrong[0].item() == pytest.approx(4 / 7)


def stack(layers):
    weights = torch.randn(layers, 3, 8, 8, generator=torch.Generator().manual_seed(0)) / 8**0.5

    def f(X):
        for W_Q, W_K, W_V in weights:
            X = X + local_attention(X @ W_Q, X @ W_K, X @ W_V, 4, causal=True)
        return X

    return f


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_layer_reaches_a_window_less_one_further_and_the_far_end_is_faint(layers):
    matrix = dependency_matrix(stack(layers), torch.randn(24, 8, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(matrix > 0, sparse_pattern(24, 3 * layers + 1, causal=True))
    assert matrix.diagonal().mean() > 3 * layers * matrix.diagonal(-3 * layers).mean()


def test_a_special_token_in_the_window_must_not_count_twice():
    query, key, value = torch.randn(3, 64, 16, generator=torch.Generator().manual_seed(0))
    places = torch.tensor([0, 20, 41])
    right = longformer_attention(query, key, value, 8, places)
    twice = scaled_dot_product_attention(
        query,
        torch.cat([key, key[places]]),
        torch.cat([value, value[places]]),
        torch.cat([sparse_pattern(64, 8), torch.ones(64, 3, dtype=torch.bool)], 1),
    )
    ordinary = ~torch.isin(torch.arange(64), places)
    wrong = (twice - right).norm(dim=-1) > 1e-4 * right.norm(dim=-1)
    near = sparse_pattern(64, 8)[:, places].any(1)
    assert torch.equal(wrong[ordinary], near[ordinary])
    assert 0.3 < wrong[ordinary].double().mean() < 0.7


def random_keys(length, number, seed):
    return torch.randint(length, (length, number), generator=torch.Generator().manual_seed(seed))


def test_layers_to_reach_all():
    for length in (16, 64, 256):
        assert pattern_reachability(sparse_pattern(length, 4)) == -(-(length - 1) // 3)
        assert pattern_reachability(sparse_pattern(length, 4, stride=4, causal=True), causal=True) == 2
        assert pattern_reachability(sparse_pattern(length, 4, positions=torch.tensor([0]))) == 2
    assert pattern_reachability(sparse_pattern(64, stride=4)) == -1
    for seed in range(3):
        assert 3 <= pattern_reachability(sparse_pattern(256, 4, random_keys=random_keys(256, 2, seed))) <= 8


def test_the_patterns_of_the_table_hold_a_small_share_of_the_pairs():
    pattern = sparse_pattern(512, WINDOW, positions=torch.arange(4), random_keys=random_keys(512, 3, 0))
    assert 0.1 < pattern.double().mean() < 0.2
    assert pattern_reachability(pattern) == 2


def test_special_tokens_outside_cost_much_less_than_all_pairs():
    sequence, beside = torch.randn(3, 1000, 16), torch.randn(3, 4, 16)
    assert count_work(lambda: external_global_attention(*sequence, *beside)).multiply_adds < 2 * 1004**2 * 16 / 50


def test_a_rolling_cache_gives_what_a_causal_window_gives():
    w, (Q, K, V) = 8, torch.randn(3, 50, 16, generator=torch.Generator().manual_seed(0))
    keys, values, outputs = torch.zeros(w, 16), torch.zeros(w, 16), []
    for i in range(50):
        keys[i % w], values[i % w] = K[i], V[i]
        outputs.append(scaled_dot_product_attention(Q[i : i + 1], keys[: i + 1], values[: i + 1]))
    torch.testing.assert_close(torch.cat(outputs), local_attention(Q, K, V, w, causal=True))


def test_a_stride_and_a_window_by_blocks_cost_the_same_near_the_root_of_a_third():
    length = 768  # sqrt(768 / 3) = 16
    query, key, value = inputs(length)
    strided = count_work(lambda: strided_attention(query, key, value, 16)).multiply_adds
    near = count_work(lambda: local_attention(query, key, value, 16)).multiply_adds
    assert strided / near == pytest.approx(1, abs=0.2)


def shares(task, pattern):
    """Right answers within one window's reach, from there to that of two, and beyond."""
    by_distance = sparse.accuracy_by_distance(sparse.trained(task, pattern), task)
    return [part.nanmean().item() for part in by_distance[1:].split([REACH, REACH, sparse.LENGTH - 1 - 2 * REACH])]


@pytest.mark.slow
def test_a_message_comes_as_far_as_the_pattern_reaches():
    within, next_window, beyond = shares("one message", "window")
    assert within > 0.9
    assert max(next_window, beyond) < 0.1
    within, next_window, beyond = shares("one message", "window, window")
    assert min(within, next_window) > 0.85
    assert beyond < 0.1
    for pattern in ("window, stride", "window + special, twice"):
        assert min(shares("one message", pattern)) > 0.85


@pytest.mark.slow
def test_an_answer_of_ones_own_comes_from_the_window_only():
    assert min(shares("every token asks", "full")) > 0.95
    for pattern in ("window", "window, window", "window, stride"):
        within, *further = shares("every token asks", pattern)
        assert within > 0.85
        assert max(further) < 0.1
    within, *further = shares("every token asks", "window + special, twice")
    assert within > 0.85
    assert 0.05 < min(further) <= max(further) < 0.3


@pytest.mark.slow
def test_those_who_ask_answer_at_any_distance_if_they_see_everything():
    assert min(shares("few tokens ask", "window + special")) > 0.85
