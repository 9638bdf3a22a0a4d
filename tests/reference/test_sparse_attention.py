"""The kernels of "Sparse attention" against PyTorch's full attention with the equivalent mask, and by counting."""

import itertools
import math

import networkx
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.judging import evaluate
from autograder.reference import sparse_attention as reference
from autograder.work import count_work
from tests.gradients import assert_same, value_and_gradients

torch.set_num_threads(1)
WIDTH, WIDTH_OF_VALUES = 4, 3


def sequence(*leading, length, seed=0):
    generator = np.random.default_rng((seed, length))
    widths = (WIDTH, WIDTH, WIDTH_OF_VALUES)
    return [torch.from_numpy(generator.normal(size=(*leading, length, width))) for width in widths]


def masked(length, sees):
    """Full attention by PyTorch where ``sees(i, j)`` says who sees whom."""
    mask = torch.tensor([[sees(i, j) for j in range(length)] for i in range(length)])
    return lambda query, key, value: F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 12, 40])
@pytest.mark.parametrize("length", [1, 5, 12, 13])
def test_local_attention_is_full_attention_with_a_band(length, window, causal):
    def sees(i, j):
        return 0 <= i - j < window if causal else abs(i - j) < window

    tensors = sequence(2, 3, length=length)
    local = value_and_gradients(lambda *qkv: reference.local_attention(*qkv, window, causal), tensors)
    assert_same(local, value_and_gradients(masked(length, sees), tensors))


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
@pytest.mark.parametrize("stride", [1, 2, 3, 5, 12, 40])
@pytest.mark.parametrize("length", [1, 5, 12, 13])
def test_strided_attention_is_full_attention_between_equal_remainders(length, stride, causal):
    def sees(i, j):
        return (i - j) % stride == 0 and (j <= i or not causal)

    tensors = sequence(2, 3, length=length)
    strided = value_and_gradients(lambda *qkv: reference.strided_attention(*qkv, stride, causal), tensors)
    assert_same(strided, value_and_gradients(masked(length, sees), tensors))


@pytest.mark.parametrize("positions", [[0], [12], [7, 2, 11], list(range(13))], ids=str)
def test_global_attention_is_full_attention_with_rows_and_columns(positions):
    tensors = sequence(2, length=13)
    sees = masked(13, lambda i, j: i in positions or j in positions)
    assert_same(
        value_and_gradients(lambda *qkv: reference.global_attention(*qkv, torch.tensor(positions)), tensors),
        value_and_gradients(sees, tensors),
    )


def test_without_special_tokens_nothing_is_seen():
    none = torch.tensor([], dtype=torch.int64)
    output, *gradients = value_and_gradients(lambda *qkv: reference.global_attention(*qkv, none), sequence(2, length=5))
    assert not output.any()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize(("length", "special"), [(9, 2), (1, 1), (4, 7)])
def test_external_tokens_are_tokens_in_front_of_the_sequence(length, special):
    tensors = [*sequence(2, length=length), *sequence(2, length=special, seed=1)]
    sees = masked(special + length, lambda i, j: i < special or j < special)

    def in_front(query, key, value, *others):
        together = [torch.cat(pair, dim=-2) for pair in zip(others, (query, key, value), strict=True)]
        output = sees(*together)
        return output[:, special:], output[:, :special]

    assert_same(
        value_and_gradients(reference.external_global_attention, tensors), value_and_gradients(in_front, tensors)
    )


@pytest.mark.parametrize("positions", [[], [0], [12], [6, 7], [11, 3, 5], list(range(13))], ids=str)
@pytest.mark.parametrize("window", [1, 3, 4, 20])
def test_longformer_attention_is_full_attention_with_the_union(window, positions):
    tensors = sequence(2, 2, length=13)
    sees = masked(13, lambda i, j: abs(i - j) < window or i in positions or j in positions)
    index = torch.tensor(positions, dtype=torch.int64)
    assert_same(
        value_and_gradients(lambda *qkv: reference.longformer_attention(*qkv, window, index), tensors),
        value_and_gradients(sees, tensors),
    )


def test_the_pattern_is_the_union_of_its_parts():
    positions, random_keys = [4, 9], np.random.default_rng(0).integers(0, 11, (11, 2))
    options = {"window": 2, "stride": 5, "positions": torch.tensor(positions)}
    for causal in (False, True):
        given = reference.sparse_pattern(11, **options, random_keys=torch.from_numpy(random_keys), causal=causal)
        for i, j in itertools.product(range(11), repeat=2):
            union = abs(i - j) < 2 or (i - j) % 5 == 0 or {i, j} & set(positions) or j in random_keys[i]
            assert given[i, j].item() == (bool(union) and (j <= i or not causal))


@pytest.mark.parametrize(
    ("kernel", "options", "pattern"),
    [
        (reference.local_attention, {"window": 3}, {"window": 3}),
        (reference.strided_attention, {"stride": 4}, {"stride": 4}),
        (
            reference.longformer_attention,
            {"window": 2, "positions": torch.tensor([5, 1])},
            {"window": 2, "positions": torch.tensor([1, 5])},
        ),
    ],
    ids=["local", "strided", "longformer"],
)
def test_a_token_moves_the_outputs_of_those_that_see_it_and_no_others(kernel, options, pattern):
    query, key, value = sequence(length=11)
    seen = reference.sparse_pattern(11, **pattern)
    before = kernel(query, key, value, **options)
    for token in range(11):
        moved = [x.index_add(0, torch.tensor([token]), torch.ones(1, x.shape[1], dtype=x.dtype)) for x in (key, value)]
        after = kernel(query, *moved, **options)
        torch.testing.assert_close((after != before).any(-1), seen[:, token])


def graph_distance(pattern, causal):
    graph = networkx.from_numpy_array(pattern.numpy(), create_using=networkx.DiGraph)
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    pairs = [(i, j) for i in range(len(pattern)) for j in range(i + 1 if causal else len(pattern))]
    if any(j not in lengths[i] for i, j in pairs):
        return -1
    return max(lengths[i][j] for i, j in pairs)


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_reachability_is_the_longest_shortest_path(causal):
    generator = np.random.default_rng(1)
    found = set()
    for density in np.linspace(0.08, 0.6, 40):
        pattern = torch.from_numpy(generator.random((9, 9)) < density)
        layers = reference.pattern_reachability(pattern, causal)
        assert layers == graph_distance(pattern, causal)
        found.add(layers)
    assert found >= {-1, 2, 3}


@pytest.mark.parametrize(("length", "window"), [(20, 2), (20, 4), (31, 6)])
def test_a_window_takes_as_many_layers_as_steps(length, window):
    pattern = reference.sparse_pattern(length, window=window)
    assert reference.pattern_reachability(pattern) == math.ceil((length - 1) / (window - 1))


def test_window_and_stride_reach_everything_in_two_layers():
    pattern = reference.sparse_pattern(49, window=7, stride=7)
    assert reference.pattern_reachability(pattern) == 2


KERNELS = {
    "local": (lambda *qkv: reference.local_attention(*qkv, 16), 1),
    "causal": (lambda *qkv: reference.local_attention(*qkv, 16, True), 1),
    "global": (lambda *qkv: reference.global_attention(*qkv, torch.tensor([5, 50])), 1),
    "longformer": (lambda *qkv: reference.longformer_attention(*qkv, 16, torch.tensor([5, 50])), 1),
    "external": (lambda *qkv: reference.external_global_attention(*qkv, *(x[..., :2, :] for x in qkv)), 1),
    "stride of 16": (lambda *qkv: reference.strided_attention(*qkv, 16), 2),
}


@pytest.mark.parametrize("name", KERNELS)
def test_work_and_memory_grow_as_the_docstrings_say(name):
    kernel, power = KERNELS[name]
    short, long = (count_work(lambda n=n: kernel(*sequence(length=n))) for n in (512, 4096))
    assert long.multiply_adds / short.multiply_adds == pytest.approx(8**power, rel=0.25)
    assert long.largest / short.largest == pytest.approx(8**power, rel=0.25)
    assert long.largest < 4096**2 / 10


def test_multiply_adds_are_those_of_the_docstrings():
    length, window = 4096, 16
    qkv = sequence(length=length)
    scores = {
        "local": 3 * length * window,
        "causal": 2 * length * window,
        "stride of 16": length**2 / 16,
        "global": 4 * length,
    }
    for name, pairs in scores.items():
        elementwise = 12 * pairs
        counted = count_work(lambda name=name: KERNELS[name][0](*qkv)).multiply_adds
        products = pairs * (WIDTH + WIDTH_OF_VALUES)
        assert products <= counted <= products + elementwise + 40 * length


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda q, k, v: reference.local_attention(q, k, v, 0), "window is 0"),
        (lambda q, k, v: reference.strided_attention(q, k, v, 0), "stride is 0"),
        (
            lambda q, k, v: reference.global_attention(q, k, v, torch.tensor([1, 1])),
            r"\[1, 1\]; they must be different",
        ),
        (lambda q, k, v: reference.global_attention(q, k, v, torch.tensor([-1])), "from 0 to 4"),
        (lambda q, k, v: reference.longformer_attention(q, k, v, 0, torch.tensor([1])), "window is 0"),
        (lambda q, k, v: reference.longformer_attention(q, k, v, 2, torch.tensor([5])), "from 0 to 4"),
        (
            lambda q, k, v: reference.external_global_attention(q, k, v, q, k, v[:2]),
            "5 global keys and 2 global values",
        ),
        (lambda q, k, v: reference.sparse_pattern(-1), "length is -1"),
        (lambda q, k, v: reference.pattern_reachability(q > 0), r"shape \(5, 4\)"),
    ],
)
def test_bad_arguments_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call(*sequence(length=5))


def test_a_matrix_of_all_pairs_is_told_so():
    def local_attention(query, key, value, window, causal=False):
        pattern = reference.sparse_pattern(query.shape[-2], window=window, causal=causal)
        return reference.scaled_dot_product_attention(query, key, value, pattern)

    visible, hidden = evaluate("local_attention", local_attention), evaluate("local_attention", local_attention, 5)
    assert visible.mistake == hidden.mistake == "local-full-matrix"
    for report in (visible, hidden):
        assert [aspect.title for aspect in report.aspects if not aspect.passed] == ["work in proportion to the window"]
    assert "250,000 entries" in next(finding.text for finding in visible.findings if not finding.passed)
    assert any("allocate" in finding.text or "memory" in finding.text for finding in hidden.findings if finding.fault)
