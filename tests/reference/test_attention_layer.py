"""The kernels of "Attention as a layer" against PyTorch, plain float64 loops, and finite differences."""

import doctest
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.reference import attention_layer as reference
from tests.gradients import assert_same, value_and_gradients

torch.set_num_threads(1)
SHAPES = [(), (4,), (1,), (4, 3), (2, 1, 3)]
SHAPE_IDS = ["one sequence", "batch", "batch of one", "batch and heads", "three axes"]


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def inputs(leading, queries=5, keys=7, d_k=16, d_v=6):
    return normal(*leading, queries, d_k), normal(*leading, keys, d_k, seed=1), normal(*leading, keys, d_v, seed=2)


def some_mask(*shape):
    """A mask with True and False in each row, except row 1, which is all False."""
    mask = torch.from_numpy(np.random.default_rng(3).random(shape) < 0.6)
    mask[..., 0] = True
    mask[..., 1, :] = False
    return mask


def by_loops(query, key, value, attn_mask=None):
    """Equation 1 of "Attention Is All You Need", number by number; zeros where a query may attend to nothing."""
    output = np.zeros((*query.shape[:-1], value.shape[-1]))
    mask = np.ones((1, 1), bool) if attn_mask is None else attn_mask
    mask = np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
    for at in np.ndindex(query.shape[:-2]):
        for i, q in enumerate(query[at]):
            seen = [j for j in range(key.shape[-2]) if mask[at][i, j]]
            scores = [sum(a * b for a, b in zip(q, key[at][j], strict=True)) / math.sqrt(len(q)) for j in seen]
            powers = [math.exp(score - max(scores)) for score in scores]
            for power, j in zip(powers, seen, strict=True):
                output[at][i] += power / sum(powers) * value[at][j]
    return output


def test_similarity_is_the_scaled_sum_of_products():
    query, keys = normal(16), normal(7, 16)
    wanted = [sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) / 4 for key in keys]
    assert_same([reference.similarity(query, keys)], [torch.tensor(wanted, dtype=torch.float64)])


@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_weights_are_what_pytorch_gives_for_the_identity_as_values(leading):
    query, key, _ = inputs(leading)
    identity = torch.eye(key.shape[-2], dtype=key.dtype).expand(*leading, -1, -1)
    assert_same(
        value_and_gradients(reference.attention_weights, (query, key)),
        value_and_gradients(lambda q, k: F.scaled_dot_product_attention(q, k, identity), (query, key)),
    )


@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask with an empty row"])
@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_attention_equals_pytorch_in_value_and_gradient(leading, masked):
    """PyTorch's function, too, gives zeros and no gradient for a row without any True."""
    query, key, value = inputs(leading)
    mask = some_mask(*leading, 5, 7) if masked else None
    given = value_and_gradients(
        lambda q, k, v: reference.scaled_dot_product_attention(q, k, v, mask), (query, key, value)
    )
    wanted = value_and_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), (query, key, value))
    assert_same(given, wanted)
    if masked:
        assert not given[0][..., 1, :].any()
        assert not given[1][..., 1, :].any()


@pytest.mark.parametrize("shape", [(5, 7), (7,), (4, 1, 5, 7), (4, 1, 1, 7), (3, 5, 7)], ids=str)
def test_attention_broadcasts_its_mask(shape):
    tensors = inputs((4, 3))
    mask = torch.from_numpy(np.random.default_rng(4).random(shape) < 0.6)
    wanted = by_loops(*(tensor.numpy() for tensor in tensors), mask.numpy())
    assert_same([reference.scaled_dot_product_attention(*tensors, mask)], [torch.from_numpy(wanted)])


def test_attention_equals_loops_for_scores_near_a_thousand():
    query, key, value = inputs((2,))
    query[..., 0], key[..., 0] = 4000 - 2000 * torch.arange(5.0), 1.0
    output = reference.scaled_dot_product_attention(query, key, value)
    assert_same([output], [torch.from_numpy(by_loops(query.numpy(), key.numpy(), value.numpy()))])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_attention_keeps_the_dtype(dtype):
    tensors = [tensor.to(dtype) for tensor in inputs((4,))]
    mask = some_mask(4, 5, 7)
    output = reference.scaled_dot_product_attention(*tensors, mask)
    wanted = F.scaled_dot_product_attention(*(tensor.double() for tensor in tensors), mask)
    assert output.dtype == dtype
    torch.testing.assert_close(
        output.double(), wanted, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps
    )


def test_a_plain_softmax_and_pytorchs_module_give_nan_where_attention_gives_zeros():
    """What the docstring and the chapter say of others."""
    assert torch.softmax(torch.full((2,), -torch.inf), -1).isnan().all()
    module = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
    tokens, everything = normal(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)
    assert module(tokens, tokens, tokens, key_padding_mask=everything, need_weights=True)[0].isnan().all()


@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask with an empty row"])
def test_cross_attention_equals_pytorchs_module(masked):
    """`nn.MultiheadAttention` with one head, identity as output projection, and the mask turned round."""
    X_q, X_kv = normal(4, 5, 6), normal(4, 7, 3)
    W_Q, W_K, W_V = normal(6, 6), normal(3, 6), normal(3, 6, seed=1)
    module = torch.nn.MultiheadAttention(6, 1, bias=False, kdim=3, vdim=3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        module.q_proj_weight.copy_(W_Q.T)
        module.k_proj_weight.copy_(W_K.T)
        module.v_proj_weight.copy_(W_V.T)
        module.out_proj.weight.copy_(torch.eye(6))
    mask = some_mask(5, 7) if masked else None
    other = None if mask is None else ~mask
    assert_same(
        value_and_gradients(lambda q, kv: reference.cross_attention(q, kv, W_Q, W_K, W_V, mask), (X_q, X_kv)),
        value_and_gradients(lambda q, kv: module(q, kv, kv, attn_mask=other, need_weights=False)[0], (X_q, X_kv)),
    )


@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask with an empty row"])
@pytest.mark.parametrize("leading", SHAPES, ids=SHAPE_IDS)
def test_backward_equals_autograd(leading, masked):
    tensors = inputs(leading)
    grad_output = normal(*leading, 5, 6, seed=5)
    mask = some_mask(5, 7) if masked else None
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(*leaves, mask), leaves, grad_output)
    arrays = (tensor.numpy() for tensor in (grad_output, *tensors))
    given = reference.attention_backward(*arrays, None if mask is None else mask.numpy())
    assert_same([torch.from_numpy(array) for array in given], wanted)


def test_backward_equals_finite_differences():
    arrays = [tensor.numpy() for tensor in inputs((2,), queries=3, keys=4, d_k=3, d_v=2)]
    grad_output, mask, step = normal(2, 3, 2, seed=5).numpy(), some_mask(3, 4).numpy(), 1e-6
    for number, gradient in enumerate(reference.attention_backward(grad_output, *arrays, mask)):
        for at in np.ndindex(gradient.shape):
            losses = []
            for sign in (1, -1):
                moved = [array.copy() for array in arrays]
                moved[number][at] += sign * step
                losses.append((by_loops(*moved, mask) * grad_output).sum())
            assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(gradient[at], rel=1e-6, abs=1e-8)


def test_backward_needs_no_pytorch():
    program = """
        import sys
        from autograder import evaluate
        from autograder.reference.attention_layer import attention_backward
        assert evaluate("attention_backward", lambda *args, **options: attention_backward(*args, **options), 1).passed
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: reference.similarity(normal(3), normal(5, 4)), ValueError, "query has width 3 .* keys have width 4"),
        (lambda: reference.attention_weights(normal(2, 3), normal(5, 4)), ValueError, "width 3 .* width 4"),
        (
            lambda: reference.scaled_dot_product_attention(normal(2, 3), normal(5, 4), normal(5, 6)),
            ValueError,
            "width 3 .* width 4",
        ),
        (
            lambda: reference.scaled_dot_product_attention(normal(2, 4), normal(5, 4), normal(6, 4)),
            ValueError,
            "5 keys and 6 values",
        ),
        (
            lambda: reference.scaled_dot_product_attention(normal(2, 4), normal(5, 4), normal(5, 4), torch.ones(2, 5)),
            TypeError,
            "dtype torch.float32; it must be torch.bool, True where a query may attend",
        ),
        (
            lambda: reference.cross_attention(normal(2, 3), normal(5, 4), normal(4, 6), normal(4, 6), normal(4, 7)),
            ValueError,
            "X_q has width 3 and W_Q has 4 rows",
        ),
        (
            lambda: reference.cross_attention(normal(2, 3), normal(5, 4), normal(3, 6), normal(4, 6), normal(3, 7)),
            ValueError,
            "X_kv has width 4, W_K has 4 rows and W_V has 3",
        ),
        (
            lambda: reference.attention_backward(*(a.numpy() for a in (normal(2, 5), *inputs(())))),
            ValueError,
            r"grad_output has shape \(2, 5\); the output of these arguments has shape \(5, 6\)",
        ),
    ],
)
def test_bad_input_is_told_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_examples_run():
    assert doctest.testmod(reference).attempted > 10
    assert doctest.testmod(reference).failed == 0


@pytest.mark.slow
def test_signatures_are_enforced():
    """With jaxtyping and beartype, right shapes pass and each wrong one is an error that names the parameter."""
    program = """
        import jaxtyping
        with jaxtyping.install_import_hook("autograder.reference.attention_layer", "beartype.beartype"):
            from autograder.reference import attention_layer as kernels
        import numpy as np
        import torch
        a = torch.ones
        mask = torch.ones(3, 1, 1, 5, dtype=torch.bool)
        kernels.similarity(a(4), a(5, 4))
        kernels.attention_weights(a(3, 2, 4), a(3, 5, 4))
        kernels.scaled_dot_product_attention(a(2, 4), a(5, 4), a(5, 6))
        kernels.scaled_dot_product_attention(a(3, 7, 2, 4), a(3, 7, 5, 4), a(3, 7, 5, 6), mask)
        kernels.scaled_dot_product_attention(a(3, 7, 2, 4), a(3, 7, 5, 4), a(3, 7, 5, 6), mask[0, 0])
        kernels.cross_attention(a(3, 2, 4), a(3, 5, 6), a(4, 8), a(6, 8), a(6, 7), mask[:, 0])
        n = np.ones
        kernels.attention_backward(n((3, 2, 6)), n((3, 2, 4)), n((3, 5, 4)), n((3, 5, 6)), n((2, 5), bool))
        for wrong in (
            lambda: kernels.similarity(a(1, 4), a(5, 4)),
            lambda: kernels.attention_weights(a(3, 2, 4), a(2, 5, 4)),
            lambda: kernels.scaled_dot_product_attention(a(2, 4), a(5, 4), a(5, 6), torch.ones(2, 4, dtype=torch.bool)),
            lambda: kernels.scaled_dot_product_attention(a(2, 4), a(5, 4), a(5, 6).int()),
            lambda: kernels.attention_backward(n((2, 6)), n((2, 4)), n((5, 4)), n((5, 6)), n((2, 5))),
        ):
            try:
                wrong()
            except jaxtyping.TypeCheckError:
                continue
            raise SystemExit("a wrong shape was let through")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
