"""The kernels of "Attention in the decoder" against PyTorch, plain float64 loops, and their own properties."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.reference import rnn_attention as reference
from tests.gradients import assert_same, value_and_gradients

torch.set_num_threads(1)
SHAPES = [(), (4,), (1,), (4, 3)]
SHAPE_IDS = ["one sentence", "batch", "batch of one", "two axes"]


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def some_mask(batch=4, keys=7):
    """Sentences of 7, 0, 3 and 1 words."""
    return torch.arange(keys) < torch.tensor([7, 0, 3, 1])[:batch, None]


def step_inputs(d_y=3, d_s=4, d_h=5, d_a=6, batch=4, keys=7):
    return (
        normal(batch, d_y),
        normal(batch, d_s),
        normal(batch, keys, d_h),
        some_mask(batch, keys),
        normal(d_s, d_a),
        normal(d_h, d_a),
        normal(d_a),
        normal(3 * d_s, d_y + d_h),
        normal(3 * d_s, d_s),
        normal(3 * d_s),
        normal(3 * d_s, seed=1),
    )


@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_additive_scores_are_bahdanaus_formula_number_by_number(leading):
    s, H, W, U, v = normal(*leading, 4), normal(*leading, 7, 5), normal(4, 6), normal(5, 6), normal(6)
    given = reference.additive_scores(s, H, W, U, v)
    for at in np.ndindex(given.shape):
        state, word = s[at[:-1]], H[at]
        units = [
            math.tanh(
                sum(float(state[i] * W[i, a]) for i in range(4)) + sum(float(word[i] * U[i, a]) for i in range(5))
            )
            for a in range(6)
        ]
        assert float(given[at]) == pytest.approx(sum(float(v[a]) * units[a] for a in range(6)), abs=1e-12)


@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_additive_scores_equal_a_network_of_linear_modules_in_value_and_gradient(leading):
    """Both states side by side through `F.linear`, a hyperbolic tangent, `F.linear` again."""

    def network(s, H, W, U, v):
        both = torch.cat([s.unsqueeze(-2).expand(*H.shape[:-1], -1), H], dim=-1)
        return F.linear(torch.tanh(F.linear(both, torch.cat([W, U]).T)), v[None])[..., 0]

    tensors = normal(*leading, 4), normal(*leading, 7, 5), normal(4, 6), normal(5, 6), normal(6)
    assert_same(value_and_gradients(reference.additive_scores, tensors), value_and_gradients(network, tensors))


@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_multiplicative_scores_equal_pytorchs_bilinear_in_value_and_gradient(leading):
    def bilinear(s, H, W):
        return F.bilinear(s.unsqueeze(-2).expand(*H.shape[:-1], -1).contiguous(), H, W[None])[..., 0]

    tensors = normal(*leading, 4), normal(*leading, 7, 5), normal(4, 5)
    assert_same(value_and_gradients(reference.multiplicative_scores, tensors), value_and_gradients(bilinear, tensors))


def test_multiplicative_scores_with_the_identity_are_dot_products():
    s, H = normal(4, 5), normal(4, 7, 5)
    given = reference.multiplicative_scores(s, H, torch.eye(5, dtype=s.dtype))
    assert_same([given], [torch.linalg.vecdot(s[:, None], H)])


def test_masked_softmax_is_the_softmax_of_the_real_keys_alone_in_value_and_gradient():
    """What PyTorch's softmax gives for each sentence cut to its length, and zeros behind and for an empty one."""
    scores, mask = normal(4, 7), some_mask()

    def cut(scores):
        rows = [torch.softmax(row[:length], dim=0) for row, length in zip(scores, mask.sum(1), strict=True)]
        return torch.stack([F.pad(row, (0, 7 - len(row))) for row in rows])

    given = value_and_gradients(lambda s: reference.masked_softmax(s, mask), (scores,))
    assert_same(given, value_and_gradients(cut, (scores,)))
    assert not given[0][1].any()
    assert not given[1][1].any()


def test_masked_softmax_equals_pytorchs_attention_with_the_identity_as_values():
    """With queries of ones and keys of width 1, the scores of PyTorch's function are the keys themselves."""
    scores, mask = normal(4, 7), some_mask()
    identity = torch.eye(7, dtype=scores.dtype).expand(4, 7, 7)
    wanted = F.scaled_dot_product_attention(torch.ones(4, 1, 1).double(), scores[..., None], identity, mask[:, None])
    assert_same([reference.masked_softmax(scores, mask)], [wanted[:, 0]])


@pytest.mark.parametrize("shape", [(7,), (4, 1, 7), (4, 5, 7), (1, 1), (4, 5, 1)], ids=str)
def test_masked_softmax_broadcasts_its_mask(shape):
    scores = normal(4, 5, 7)
    mask = torch.from_numpy(np.random.default_rng(4).random(shape) < 0.6)
    given = reference.masked_softmax(scores, mask)
    assert_same([given], [reference.masked_softmax(scores, mask.expand(4, 5, 7).clone())])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_masked_softmax_keeps_the_dtype_and_survives_scores_of_any_size(dtype):
    scores = torch.tensor([[3e4, 2e4, -3e4], [-3e4, -3e4, 3e4]], dtype=dtype)
    mask = torch.tensor([[True, True, False], [True, True, False]])
    given = reference.masked_softmax(scores, mask)
    assert given.dtype == dtype
    assert given.tolist() == [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]


@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_context_equals_a_sum_over_the_states_in_value_and_gradient(leading):
    def loop(attn_weights, H):
        return sum(attn_weights[..., i, None] * H[..., i, :] for i in range(H.shape[-2]))

    tensors = normal(*leading, 7), normal(*leading, 7, 5)
    assert_same(value_and_gradients(reference.context_vector, tensors), value_and_gradients(loop, tensors))


def test_decoder_step_equals_pytorchs_attention_and_cell_in_value_and_gradient():
    """The scores as an additive mask of PyTorch's attention between zeros, and `nn.GRUCell`, which gets the context."""
    y, s, H, key_mask, *weights = step_inputs()

    def pytorch(y, s, H, W, U, v, W_ih, W_hh, b_ih, b_hh):
        scores = F.linear(torch.tanh((s @ W)[:, None] + H @ U), v[None])[..., 0]
        blocked = scores.masked_fill(~key_mask, torch.finfo(scores.dtype).min)[:, None]
        zeros = torch.zeros(4, 1, 1, dtype=y.dtype), torch.zeros(4, 7, 1, dtype=y.dtype)
        identity = torch.eye(7, dtype=y.dtype).expand(4, 7, 7)
        attn_weights = F.scaled_dot_product_attention(*zeros, identity, blocked)[:, 0] * key_mask
        context = torch.einsum("bn,bnd->bd", attn_weights, H)
        s_new = torch.gru_cell(torch.cat([y, context], 1), s, W_ih, W_hh, b_ih, b_hh)
        return s_new, context, attn_weights

    def step(y, s, H, *weights):
        return reference.attention_decoder_step(y, s, H, key_mask, *weights)

    tensors = y, s, H, *weights
    assert_same(value_and_gradients(step, tensors), value_and_gradients(pytorch, tensors))


def test_decoder_step_does_not_see_padding():
    y, s, H, key_mask, *weights = step_inputs()
    other = torch.where(key_mask[..., None], H, normal(*H.shape, seed=1))
    given, wanted = (reference.attention_decoder_step(y, s, states, key_mask, *weights) for states in (other, H))
    assert_same(given, wanted)


def test_decoder_step_does_not_see_the_order_of_the_source_words():
    y, s, H, key_mask, *weights = step_inputs()
    order = torch.from_numpy(np.random.default_rng(0).permutation(7))
    state, context, attn_weights = reference.attention_decoder_step(y, s, H, key_mask, *weights)
    given = reference.attention_decoder_step(y, s, H[:, order], key_mask[:, order], *weights)
    assert_same(given, [state, context, attn_weights[:, order]])


def test_alignment_error_rate_equals_membership_counted_in_matrices():
    rng = np.random.default_rng(0)
    for _ in range(20):
        found, sure, possible = (rng.random((3, 6, 7)) < share for share in (0.3, 0.2, 0.3))
        possible |= sure
        wanted = 1 - ((found & sure).sum() + (found & possible).sum()) / (found.sum() + sure.sum())
        sets = [[set(zip(*np.nonzero(matrix), strict=True)) for matrix in of_all] for of_all in (found, sure, possible)]
        assert reference.alignment_error_rate(*sets) == pytest.approx(wanted)


def test_alignment_error_rate_is_one_minus_the_f_score_where_every_possible_link_is_sure():
    found, sure = [{(0, 0), (1, 1), (2, 1)}, {(0, 1)}], [{(0, 0), (1, 1)}, {(0, 1), (1, 1), (2, 2)}]
    precision, recall = 3 / 4, 3 / 5
    f_score = 2 * precision * recall / (precision + recall)
    assert reference.alignment_error_rate(found, sure, sure) == pytest.approx(1 - f_score)


def test_alignment_error_rate_of_the_toolkits_documented_example():
    """The example of NLTK's `alignment_error_rate`, which gives 2/3."""
    sure = [{(0, 0), (1, 1), (2, 2)}]
    assert reference.alignment_error_rate([{(0, 0), (1, 2), (2, 1)}], sure, sure) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: reference.additive_scores(normal(4), normal(7, 5), normal(5, 6), normal(5, 6), normal(6)),
            ValueError,
            r"s has width 4 and H has width 5, so W must be of shape \(4, d_a\)",
        ),
        (
            lambda: reference.additive_scores(normal(4), normal(7, 5), normal(4, 6), normal(5, 6), normal(1)),
            ValueError,
            r"v of shape \(d_a,\)",
        ),
        (
            lambda: reference.multiplicative_scores(normal(4), normal(7, 5), normal(5, 4)),
            ValueError,
            r"W must be of shape \(4, 5\); it is \(5, 4\)",
        ),
        (
            lambda: reference.masked_softmax(normal(2, 5), torch.ones(2, 5)),
            TypeError,
            "dtype torch.float32; it must be torch.bool, True where a key is real",
        ),
        (
            lambda: reference.context_vector(normal(4, 1), normal(4, 7, 5)),
            ValueError,
            r"weights of shape \(4, 7\) are wanted",
        ),
        (
            lambda: reference.attention_decoder_step(normal(4, 2), *step_inputs()[1:]),
            ValueError,
            "W_ih must have 7 columns; it has 8",
        ),
        (lambda: reference.alignment_error_rate([set()], [], []), ValueError, "links of 1, 0 and 0 sentences"),
        (lambda: reference.alignment_error_rate([set()], [{(0, 0)}], [set()]), ValueError, "not among the possible"),
        (lambda: reference.alignment_error_rate([set()], [set()], [{(0, 0)}]), ValueError, "nothing to judge"),
    ],
)
def test_bad_input_is_told_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.slow
def test_signatures_are_enforced():
    """With jaxtyping and beartype, right shapes pass and each wrong one is an error that names the parameter."""
    program = """
        import jaxtyping
        with jaxtyping.install_import_hook("autograder.reference.rnn_attention", "beartype.beartype"):
            from autograder.reference import rnn_attention as kernels
        import torch
        a = torch.ones
        mask = torch.ones(2, 5, dtype=torch.bool)
        kernels.additive_scores(a(4), a(5, 3), a(4, 6), a(3, 6), a(6))
        kernels.additive_scores(a(2, 4), a(2, 5, 3), a(4, 6), a(3, 6), a(6))
        kernels.multiplicative_scores(a(2, 4), a(2, 5, 3), a(4, 3))
        kernels.masked_softmax(a(2, 7, 5), mask[:, None])
        kernels.context_vector(a(2, 5), a(2, 5, 3))
        step = a(2, 1), a(2, 4), a(2, 5, 3), mask, a(4, 6), a(3, 6), a(6), a(12, 4), a(12, 4), a(12), a(12)
        kernels.attention_decoder_step(*step)
        kernels.alignment_error_rate([{(0, 0)}], [frozenset({(0, 0)})], [{(0, 0), (1, 2)}])
        for wrong in (
            lambda: kernels.additive_scores(a(2, 4), a(3, 5, 3), a(4, 6), a(3, 6), a(6)),
            lambda: kernels.multiplicative_scores(a(2, 4), a(5, 3), a(4, 3)),
            lambda: kernels.masked_softmax(a(2, 7, 5), mask[..., None]),
            lambda: kernels.context_vector(a(2, 4), a(2, 5, 3)),
            lambda: kernels.attention_decoder_step(*step[:3], mask.T, *step[4:]),
            lambda: kernels.alignment_error_rate([[(0, 0)]], [[(0, 0)]], [[(0, 0)]]),
        ):
            try:
                wrong()
            except (jaxtyping.TypeCheckError, ValueError):
                continue
            raise SystemExit("a wrong shape was let through")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
