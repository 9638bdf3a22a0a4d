"""The kernels of "Linear attention" against the formula with the matrix of all pairs, PyTorch, and by counting."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.judging import evaluate
from autograder.reference import linear_attention as reference
from autograder.work import count_work
from tests.gradients import assert_same, value_and_gradients

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def sequence(*leading, queries=7, keys=7, features=5, d_v=3):
    return [
        normal(*leading, queries, features, seed=1).abs(),
        normal(*leading, keys, features, seed=2).abs(),
        normal(*leading, keys, d_v, seed=3),
    ]


def by_all_pairs(mask=None):
    """The plain formula, with the matrix of all pairs."""

    def formula(query_features, key_features, value):
        weights = query_features @ key_features.transpose(-2, -1)
        if mask is not None:
            weights = weights * mask
        return weights / weights.sum(-1, keepdim=True) @ value

    return formula


@pytest.mark.parametrize("sizes", [(7, 4, 5, 3), (1, 6, 2, 2), (5, 1, 3, 4)], ids=str)
def test_linear_attention_is_the_formula_with_all_pairs(sizes):
    tensors = sequence(2, 3, **dict(zip(("queries", "keys", "features", "d_v"), sizes, strict=True)))
    assert_same(value_and_gradients(reference.linear_attention, tensors), value_and_gradients(by_all_pairs(), tensors))


def test_linear_attention_leaves_masked_keys_out():
    tensors, mask = sequence(2, queries=4, keys=6), torch.tensor([[True] * 4 + [False] * 2, [False] + [True] * 5])
    assert_same(
        value_and_gradients(lambda *t: reference.linear_attention(*t, mask), tensors),
        value_and_gradients(by_all_pairs(mask[:, None, :]), tensors),
    )


def test_who_reaches_nothing_gets_zeros_and_finite_gradients():
    query_features, key_features, value = sequence(2)
    query_features[0, 3] = 0.0
    key_features[1, :4] = 0.0
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1] = False
    masked = value_and_gradients(lambda *t: reference.linear_attention(*t, mask), (query_features, key_features, value))
    causal = value_and_gradients(
        lambda *t: reference.causal_linear_attention(*t, 3), (query_features, key_features, value)
    )
    for output, *gradients in (masked, causal):
        assert not output[0, 3].any()
        assert not output[1, :4].any()
        assert output[0, 4].all()
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 12, 13, 50])
@pytest.mark.parametrize("length", [1, 5, 12, 13])
def test_causal_linear_attention_is_the_formula_with_a_triangle(length, chunk_size):
    tensors = sequence(2, 3, queries=length, keys=length)
    mask = torch.ones(length, length, dtype=torch.float64).tril()
    assert_same(
        value_and_gradients(lambda *t: reference.causal_linear_attention(*t, chunk_size), tensors),
        value_and_gradients(by_all_pairs(mask), tensors),
    )


def test_no_token_sees_the_future():
    query_features, key_features, value = sequence(queries=11, keys=11)
    before = reference.causal_linear_attention(query_features, key_features, value, 4)
    for token in range(11):
        key_features, value = key_features.clone(), value.clone()
        key_features[token], value[token] = key_features[token] + 1, value[token] - 2
        after = reference.causal_linear_attention(query_features, key_features, value, 4)
        assert torch.equal(after[:token], before[:token])
        assert (after[token:] != before[token:]).any(-1).all()
        before = after


@pytest.mark.parametrize("cut", [0, 1, 6, 11])
def test_the_recurrent_form_is_the_chunked_form_also_when_it_goes_on(cut):
    tensors = sequence(2, queries=11, keys=11)

    def recurrent(query_features, key_features, value):
        state, key_sum = query_features.new_zeros(2, 5, 3), query_features.new_zeros(2, 5)
        outputs = []
        for tokens in (range(cut), range(cut, 11)):
            for token in tokens:
                rows = (x[:, token] for x in (query_features, key_features, value))
                output, state, key_sum = reference.linear_attention_state(state, key_sum, *rows)
                outputs.append(output)
        return torch.stack(outputs, dim=1)

    assert_same(
        value_and_gradients(recurrent, tensors),
        value_and_gradients(lambda *t: reference.causal_linear_attention(*t, 4), tensors),
    )


def test_values_of_one_give_outputs_of_one():
    query_features, key_features, _ = sequence(3)
    ones = torch.ones(3, 7, 2, dtype=torch.float64)
    torch.testing.assert_close(reference.linear_attention(query_features, key_features, ones), ones)
    torch.testing.assert_close(reference.causal_linear_attention(query_features, key_features, ones, 2), ones)


def test_elu_features_are_pytorchs_elu_plus_one():
    x = torch.cat([normal(40), torch.tensor([0.0, 1e-9, -1e-9, 60.0, -60.0], dtype=torch.float64)])
    assert_same(value_and_gradients(reference.elu_features, [x]), value_and_gradients(lambda x: F.elu(x) + 1, [x]))
    value, gradient = value_and_gradients(reference.elu_features, [torch.tensor([1e4, -1e4, -90.0])])
    assert value.tolist()[:2] == [10001.0, 0.0]
    assert value[2] > 0
    assert gradient.isfinite().all()


@pytest.mark.parametrize("sizes", [(7, 5, 3, 4), (20, 30, 8, 2)], ids=str)
def test_costs_are_those_that_are_counted(sizes):
    queries, keys, d_k, d_v = sizes
    Q, K, V = normal(queries, d_k), normal(keys, d_k), normal(keys, d_v)
    left, right = count_work(lambda: (Q @ K.T) @ V), count_work(lambda: Q @ (K.T @ V))
    assert reference.matmul_cost(*sizes) == (left.multiply_adds, right.multiply_adds)


def test_projections_are_orthogonal_in_blocks_and_keep_the_first_direction():
    gaussian, lengths = normal(13, 5), normal(13, seed=4).abs()
    rows = reference.orthogonal_projections(gaussian, lengths)
    torch.testing.assert_close(rows.norm(dim=1), lengths)
    products = rows @ rows.T
    for start in (0, 5, 10):
        block = products[start : start + 5, start : start + 5]
        torch.testing.assert_close(block, block.diagonal().diag(), rtol=0, atol=1e-12)
        torch.testing.assert_close(F.normalize(rows[start], dim=0), F.normalize(gaussian[start], dim=0))


def test_projections_are_those_of_gram_and_schmidt():
    gaussian, lengths = normal(7, 4, seed=5), normal(7, seed=6).abs()
    wanted = []
    for number in range(7):
        row = gaussian[number].clone()
        for other in wanted[number - number % 4 :]:
            row = row - (row @ other) / (other @ other) * other
        wanted.append(row)
    wanted = torch.stack([row / row.norm() for row in wanted]) * lengths[:, None]
    torch.testing.assert_close(reference.orthogonal_projections(gaussian, lengths), wanted)


@pytest.mark.parametrize("orthogonal", [False, True], ids=["independent", "orthogonal"])
def test_products_of_features_estimate_the_exponential_without_bias(orthogonal):
    width, count = 4, 400_000
    query, key = normal(1, width, seed=7), normal(1, width, seed=8)
    projections = normal(count, width, seed=9)
    if orthogonal:
        projections = reference.orthogonal_projections(projections, normal(count, width, seed=10).norm(dim=1))
    products = count * (
        reference.performer_features(query, projections) * reference.performer_features(key, projections)
    )
    wanted = torch.exp(query @ key.T / math.sqrt(width)).item()
    error = products.std().item() / math.sqrt(count)
    assert abs(products.mean().item() - wanted) < 4 * error
    assert error < 0.02 * wanted


def test_features_are_the_formula_and_differentiable():
    x, projections = normal(2, 6, 4), normal(5, 4)

    def formula(x, projections):
        y = x / 4**0.25
        rows = [torch.exp((y * w).sum(-1) - (y**2).sum(-1) / 2) / math.sqrt(5) for w in projections]
        return torch.stack(rows, dim=-1)

    assert_same(
        value_and_gradients(reference.performer_features, [x, projections]),
        value_and_gradients(formula, [x, projections]),
    )


def test_performer_comes_near_to_softmax_attention():
    query, key, value = (normal(8, 4, seed=seed) / 2 for seed in (1, 2, 3))
    exact = F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
    errors = []
    for count in (16, 4096):
        projections = normal(count, 4, seed=11)
        features = (reference.performer_features(x, projections) for x in (query, key))
        errors.append((reference.linear_attention(*features, value) - exact).norm() / exact.norm())
    assert errors[1] < 0.05 < errors[0]


@pytest.mark.parametrize(
    "kernel",
    [reference.linear_attention, lambda *t: reference.causal_linear_attention(*t, 32)],
    ids=["both sides", "causal"],
)
def test_work_and_memory_grow_with_the_tokens(kernel):
    short, long = (count_work(lambda n=n: kernel(*sequence(queries=n, keys=n))) for n in (512, 4096))
    assert long.multiply_adds / short.multiply_adds == pytest.approx(8, rel=0.05)
    assert long.largest / short.largest == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda q, k, v: reference.matmul_cost(1, -2, 3, 4), "1, -2, 3 and 4"),
        (lambda q, k, v: reference.linear_attention(q, k, v[1:]), "7 keys and 6 values"),
        (lambda q, k, v: reference.linear_attention(q, k[:, 1:], v), "5 features and the keys 4"),
        (lambda q, k, v: reference.causal_linear_attention(q, k, v, 0), "chunk_size is 0"),
        (lambda q, k, v: reference.orthogonal_projections(q, v[:, 0][:3]), "7 rows"),
        (lambda q, k, v: reference.performer_features(q, v), "width 5 and the projections have width 3"),
    ],
)
def test_bad_arguments_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call(*sequence())


def test_a_matrix_of_all_pairs_is_told_so():
    def linear_attention(query_features, key_features, value, key_mask=None):
        weights = query_features @ key_features.mT
        if key_mask is not None:
            weights = weights * key_mask[..., None, :]
        sums = weights.sum(-1, keepdim=True)
        return weights @ value / sums.masked_fill(sums == 0, 1.0)

    visible, hidden = evaluate("linear_attention", linear_attention), evaluate("linear_attention", linear_attention, 5)
    assert visible.mistake == "linear-full-matrix"
    for report in (visible, hidden):
        assert [aspect.title for aspect in report.aspects if not aspect.passed] == ["work in proportion to the tokens"]
    assert "240,000 entries" in next(finding.text for finding in visible.findings if not finding.passed)
    assert any("allocate" in finding.text or "memory" in finding.text for finding in hidden.findings if finding.fault)
