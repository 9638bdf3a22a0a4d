"""The kernels of "Self-attention" against PyTorch, plain float64 formulas, and the properties that define them."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.checks import self_attention as checks
from autograder.judging import evaluate
from autograder.reference import self_attention as reference
from tests.gradients import assert_same, value_and_gradients

torch.set_num_threads(1)
BATCH, LENGTH, WIDTH = 3, 5, 6


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def inputs(leading=(BATCH,), d_in=WIDTH, d_k=WIDTH, d_v=WIDTH):
    weights = [normal(d_in, width, seed=seed) for seed, width in enumerate((d_k, d_k, d_v), 1)]
    return normal(*leading, LENGTH, d_in), *weights


def multi_head_attention_forward(X, W_Q, W_K, W_V, attn_mask=None, key_padding_mask=None):
    """PyTorch's own layer with one head, no biases and no output projection; True is blocked."""
    output, _ = F.multi_head_attention_forward(
        *[X.transpose(0, 1)] * 3,
        embed_dim_to_check=WIDTH,
        num_heads=1,
        in_proj_weight=torch.cat([W_Q, W_K, W_V], dim=1).T,
        in_proj_bias=None,
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=torch.eye(WIDTH, dtype=X.dtype),
        out_proj_bias=None,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
    )
    return output.transpose(0, 1)


def test_self_attention_equals_pytorchs_layer_in_value_and_gradient():
    assert_same(
        value_and_gradients(reference.self_attention, inputs()),
        value_and_gradients(multi_head_attention_forward, inputs()),
    )


@pytest.mark.parametrize("leading", [(), (1,), (4, 3)], ids=str)
def test_self_attention_equals_the_formula_for_other_shapes(leading):
    def formula(X, W_Q, W_K, W_V):
        return F.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V)

    tensors = inputs(leading, d_in=7, d_k=4, d_v=2)
    assert_same(value_and_gradients(reference.self_attention, tensors), value_and_gradients(formula, tensors))


def test_self_attention_is_permutation_equivariant_and_positions_end_that():
    X, *weights = inputs()
    order = torch.tensor([3, 0, 4, 2, 1])
    assert_same([reference.self_attention(X[:, order], *weights)], [reference.self_attention(X, *weights)[:, order]])
    positions = reference.sinusoidal_positions(LENGTH, WIDTH)
    with_positions = reference.self_attention(X + positions, *weights)
    reordered = reference.self_attention(X[:, order] + positions, *weights)
    assert (reordered - with_positions[:, order]).abs().max() > 0.1


@pytest.mark.parametrize("leading", [(), (1,), (4, 3)], ids=str)
def test_fused_projection_equals_three_products_in_value_and_gradient(leading):
    tensors = inputs(leading, d_in=7, d_k=4, d_v=2)
    for number in range(3):
        assert_same(
            value_and_gradients(lambda *t, n=number: reference.fused_qkv(*t)[n] + 0 * sum(w.sum() for w in t), tensors),
            value_and_gradients(lambda *t, n=number: t[0] @ t[n + 1] + 0 * sum(w.sum() for w in t), tensors),
        )


@pytest.mark.parametrize("d_model", [1, 2, 5, 8, 13])
def test_positions_equal_the_papers_formula(d_model):
    wanted = np.empty((40, d_model))
    for t in range(40):
        for column in range(d_model):
            angle = t / 10000 ** (2 * (column // 2) / d_model)
            wanted[t, column] = math.sin(angle) if column % 2 == 0 else math.cos(angle)
    np.testing.assert_allclose(reference.sinusoidal_positions(40, d_model).numpy(), wanted, atol=5e-6)


@pytest.mark.parametrize("step", [1, 7, 40])
def test_a_step_rotates_every_pair_by_an_angle_that_does_not_depend_on_the_position(step):
    d_model = 16
    encodings = reference.sinusoidal_positions(100, d_model).double()
    rotation = torch.zeros(d_model, d_model, dtype=torch.float64)
    for pair in range(d_model // 2):
        angle = step / 10000 ** (2 * pair / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        block = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        rotation[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = block
    torch.testing.assert_close(encodings[step:], encodings[:-step] @ rotation.T, rtol=0, atol=2e-5)


@pytest.mark.parametrize("length", [1, 4, 6])
def test_square_causal_mask_acts_as_pytorchs_is_causal(length):
    query, key, value = (normal(length, 4, seed=seed) for seed in range(3))
    mask = reference.causal_mask(length, length)
    wanted = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert_same([F.scaled_dot_product_attention(query, key, value, mask)], [wanted])


def test_causal_mask_of_the_last_queries_is_the_last_rows():
    for num_queries in range(7):
        assert torch.equal(reference.causal_mask(num_queries, 6), reference.causal_mask(6, 6)[6 - num_queries :])
    assert reference.causal_mask(1, 6).all()
    assert not reference.causal_mask(6, 2)[:4].any()


def test_pytorchs_is_causal_is_aligned_at_the_upper_left():
    """What the docstring and the chapter say: one query with six keys sees the first key only."""
    query, key, value = normal(1, 4), normal(6, 4), normal(6, 4, seed=1)
    assert_same([F.scaled_dot_product_attention(query, key, value, is_causal=True)], [value[:1]])


def test_padding_mask_counts():
    lengths = torch.tensor([0, 3, 5, 1])
    mask = reference.padding_mask(lengths, 5)
    assert torch.equal(mask.sum(1), lengths)
    assert torch.equal(mask, mask.sort(dim=1, descending=True, stable=True).values)


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("lengths", [None, [5, 2, 4]], ids=["full", "padded"])
def test_masked_self_attention_equals_pytorchs_layer_in_value_and_gradient(causal, lengths):
    key_mask = None if lengths is None else reference.padding_mask(torch.tensor(lengths), LENGTH)
    blocked = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if causal else None
    padding = None if key_mask is None else ~key_mask
    assert_same(
        value_and_gradients(lambda *t: reference.masked_self_attention(*t, causal, key_mask), inputs()),
        value_and_gradients(lambda *t: multi_head_attention_forward(*t, blocked, padding), inputs()),
    )


def test_a_sequence_without_any_token_gives_zeros_and_finite_gradients():
    key_mask = reference.padding_mask(torch.tensor([5, 0, 4]), LENGTH)
    output, *gradients = value_and_gradients(lambda *t: reference.masked_self_attention(*t, True, key_mask), inputs())
    assert not output[1].any()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][1].any()


@pytest.mark.parametrize("past", range(1, LENGTH))
def test_the_future_has_no_influence_by_change_and_by_gradient(past):
    X, *weights = inputs()
    changed = X.clone()
    changed[:, past:] = 100 * normal(BATCH, LENGTH - past, WIDTH, seed=9)
    before, after = (reference.masked_self_attention(x, *weights, causal=True) for x in (X, changed))
    assert torch.equal(before[:, :past], after[:, :past])
    assert not torch.allclose(before[:, past:], after[:, past:])
    X.requires_grad_()
    (gradient,) = torch.autograd.grad(reference.masked_self_attention(X, *weights, causal=True)[:, :past].sum(), X)
    assert not gradient[:, past:].any()
    assert gradient[:, :past].any()


def test_a_prefix_alone_gives_the_same_outputs():
    X, *weights = inputs()
    whole = reference.masked_self_attention(X, *weights, causal=True)
    for length in range(1, LENGTH + 1):
        assert_same([reference.masked_self_attention(X[:, :length], *weights, causal=True)], [whole[:, :length]])


def test_padding_has_no_influence():
    X, *weights = inputs()
    key_mask = reference.padding_mask(torch.tensor([2, 5, 3]), LENGTH)
    noisy = torch.where(key_mask[..., None], X, 100 * normal(*X.shape, seed=9))
    given, other = (reference.masked_self_attention(x, *weights, key_mask=key_mask) for x in (X, noisy))
    assert torch.equal(given[key_mask], other[key_mask])
    assert_same([given[0, :2]], [reference.self_attention(X[0, :2], *weights)])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: reference.self_attention(normal(5, 4), *inputs()[1:]),
            ValueError,
            "X has width 4; .* 6, 6 and 6 rows",
        ),
        (lambda: reference.fused_qkv(normal(5, 4), normal(4, 2), normal(4, 2), normal(3, 2)), ValueError, "4, 4 and 3"),
        (lambda: reference.sinusoidal_positions(-1, 4), ValueError, "length is -1 and d_model is 4"),
        (lambda: reference.sinusoidal_positions(4, 0), ValueError, "length is 4 and d_model is 0"),
        (lambda: reference.causal_mask(2, -3), ValueError, "num_queries is 2 and num_keys is -3"),
        (lambda: reference.padding_mask(torch.tensor([2, 6]), 5), ValueError, r"\[2, 6\]; each must be from 0 to"),
        (lambda: reference.padding_mask(torch.tensor([-1]), 5), ValueError, r"\[-1\]; each must be from 0 to"),
        (
            lambda: reference.masked_self_attention(*inputs(), key_mask=torch.ones(BATCH, LENGTH)),
            TypeError,
            "dtype torch.float32; it must be torch.bool, True where a token is real",
        ),
        (
            lambda: reference.masked_self_attention(*inputs(), key_mask=torch.ones(BATCH, 4, dtype=torch.bool)),
            ValueError,
            "4 entries in a row and X has 5 tokens",
        ),
    ],
)
def test_bad_input_is_told_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_three_products_are_right_but_earn_no_points_for_one():
    known = {mistake.id: mistake.kernel for mistake in checks.fused_qkv.mistakes}
    report = evaluate("fused_qkv", known["fused-three-products"])
    assert [aspect.passed for aspect in report.aspects] == [True, False, True]
