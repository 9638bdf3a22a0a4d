"""The kernels of "The modern Transformer" against PyTorch's own operators, plain loops and the properties they have."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.judging import evaluate
from autograder.reference import modern_transformer as reference
from autograder.work import count_work

torch.set_num_threads(1)

D_MODEL, NUM_HEADS, D_FF = 12, 3, 10
LAYOUTS = ("interleaved", "halves")


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def assert_same(given, wanted, inputs, **tolerance):
    """Equal in value, and in the gradient for each input."""
    tolerance = {"rtol": 1e-9, "atol": 1e-12} | tolerance
    torch.testing.assert_close(given, wanted, **tolerance)
    weights = torch.cos(torch.arange(given.numel())).view_as(given)
    gradients = [torch.autograd.grad((output * weights).sum(), inputs, retain_graph=True) for output in (given, wanted)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


# PreNormBlock


def blocks(**options):
    """PyTorch's layer, and ours with the same parameters."""
    torch.manual_seed(0)
    options = {"dropout": 0.0} | options
    theirs = nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, D_FF, **options, batch_first=True, norm_first=True)
    for parameter in theirs.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = reference.PreNormBlock(D_MODEL, NUM_HEADS, D_FF, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def masks(batch, length):
    real = torch.arange(length) < torch.tensor([[length], [2], [4]])[:batch]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return {"none": None, "causal": causal, "padding": real[:, None], "both": causal & real[:, None]}


@pytest.mark.parametrize("name", ["none", "causal", "padding", "both"])
def test_the_block_equals_pytorchs_with_norm_first(name):
    (theirs, ours), x, mask = blocks(), normal(3, 5, D_MODEL).requires_grad_(), masks(3, 5)[name]
    blocked = None if mask is None else ~mask.expand(3, 5, 5).repeat_interleave(NUM_HEADS, 0)
    given, wanted = ours(x, mask), theirs(x, blocked)
    assert_same(given, wanted, [x], rtol=1e-8)
    torch.testing.assert_close(ours(x[0], None), theirs(x[:1])[0], rtol=1e-9, atol=1e-12)
    for name, parameter in ours.named_parameters():
        own, other = (
            torch.autograd.grad(output.square().sum(), of, retain_graph=True)[0]
            for output, of in ((given, parameter), (wanted, theirs.get_parameter(name)))
        )
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-10)


def test_the_block_passes_the_sum_on_untouched():
    """Whatever the sub-layers give is added: without them the block is the identity, and so is its gradient."""
    _, block = blocks(dropout=1.0)
    x = (100 * normal(3, 5, D_MODEL)).requires_grad_()
    given = block.train()(x)
    assert torch.equal(given, x)
    (gradient,) = torch.autograd.grad(given.sum(), x)
    assert torch.equal(gradient, torch.ones_like(x))
    assert not torch.equal(block.eval()(x), x)


def test_what_a_sublayer_adds_does_not_depend_on_the_size_of_the_tokens():
    _, block = blocks()
    x = 1e5 * normal(3, 5, D_MODEL)
    torch.testing.assert_close(block(1000 * x) - 1000 * x, block(x) - x, rtol=1e-2, atol=1e-2)


# rms_norm


@pytest.mark.parametrize("eps", [1e-6, 0.3])
@pytest.mark.parametrize("shape", [(4, 5, 6), (6,), (2, 3, 1, 1)])
def test_rms_norm_equals_pytorchs(shape, eps):
    x, weight = normal(*shape).requires_grad_(), normal(shape[-1], seed=1).requires_grad_()
    assert_same(reference.rms_norm(x, weight, eps), F.rms_norm(x, shape[-1:], weight, eps), [x, weight])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 2000.0, 2e-4])
def test_rms_norm_in_low_precision_equals_the_formula_in_double(dtype, scale):
    x, weight = (scale * normal(4, 9)).to(dtype), normal(9, seed=1).to(dtype)
    given = reference.rms_norm(x, weight, eps=1e-9)
    assert given.dtype == dtype
    wanted = reference.rms_norm(x.double(), weight.double(), eps=1e-9)
    torch.testing.assert_close(given.double(), wanted, rtol=torch.finfo(dtype).eps * 2, atol=1e-6)


def test_the_default_eps_of_pytorch_is_that_of_the_machine():
    x, weight = 1e-4 * normal(4, 9).float(), torch.ones(9)
    assert nn.RMSNorm(9).eps is None
    theirs = F.rms_norm(x, (9,), weight)
    torch.testing.assert_close(theirs, reference.rms_norm(x, weight, torch.finfo(torch.float32).eps))
    assert (theirs / reference.rms_norm(x, weight)).min() > 2


def test_rms_norm_is_layer_norm_where_the_mean_is_zero():
    x = normal(4, 9)
    x -= x.mean(-1, keepdim=True)
    torch.testing.assert_close(reference.rms_norm(x, torch.ones(9).double(), 1e-5), F.layer_norm(x, (9,)))


# swiglu


def test_swiglu_equals_pytorchs_silu_between_linear_layers():
    x = normal(4, 5, 6).requires_grad_()
    weights = [normal(*shape, seed=1).requires_grad_() for shape in ((7, 6), (7, 6), (6, 7))]
    gate, up, down = weights
    wanted = F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
    assert_same(reference.swiglu(x, *weights), wanted, [x, *weights])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_swiglu_is_finite_where_gates_are_far_open_or_closed(dtype):
    x = torch.tensor([[-3000.0], [0.0], [3000.0]], dtype=dtype, requires_grad=True)
    one = torch.ones(1, 1, dtype=dtype)
    given = reference.swiglu(x, one, one / 100, one)
    torch.testing.assert_close(given.flatten(), torch.tensor([0.0, 0.0, 90_000.0], dtype=dtype))
    (gradient,) = torch.autograd.grad(given.sum(), x)
    torch.testing.assert_close(gradient.flatten(), torch.tensor([0.0, 0.0, 60.0], dtype=dtype))


def test_swiglu_at_two_thirds_of_the_width_is_as_large_as_the_network_of_2017():
    d_model, d_ff = 12, 48
    weights = [torch.zeros(d_ff * 2 // 3, d_model)] * 2 + [torch.zeros(d_model, d_ff * 2 // 3)]
    assert sum(weight.numel() for weight in weights) == 2 * d_model * d_ff


# rotary_embedding


def rotated_by_loops(x, positions, base, layout):
    """Each pair as a complex number times a turn, one at a time."""
    rotated, half = x.clone(), x.shape[-1] // 2
    for token, pair in itertools.product(range(len(x)), range(half)):
        one, other = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, half + pair)
        angle = positions[token].item() / base ** (2 * pair / x.shape[-1])
        turned = complex(x[token, one], x[token, other]) * complex(math.cos(angle), math.sin(angle))
        rotated[token, one], rotated[token, other] = turned.real, turned.imag
    return rotated


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 20.0])
@pytest.mark.parametrize("width", [2, 6, 8])
def test_rotary_equals_turns_of_complex_numbers(width, base, layout):
    x, positions = normal(5, width), torch.tensor([0, 1, 2, 7, 100])
    given = reference.rotary_embedding(x, positions, base, layout)
    torch.testing.assert_close(given, rotated_by_loops(x, positions, base, layout), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(given[0], x[0])
    for heads in (x.expand(3, 5, width), x.expand(2, 3, 5, width)):
        assert torch.equal(reference.rotary_embedding(heads, positions, base, layout), given.expand_as(heads))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_keeps_lengths_and_its_gradient_turns_back(layout):
    x, positions = normal(5, 8).requires_grad_(), torch.arange(5)
    rotated = reference.rotary_embedding(x, positions, layout=layout)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    cotangent = normal(5, 8, seed=1)
    (gradient,) = torch.autograd.grad(rotated, x, cotangent)
    torch.testing.assert_close(gradient, reference.rotary_embedding(cotangent, -positions, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_depend_on_the_distance_alone(layout):
    query, key = normal(8), normal(8, seed=1)
    scores = {}
    for m, n in itertools.product(range(0, 50, 7), repeat=2):
        rotated = reference.rotary_embedding(torch.stack([query, key]), torch.tensor([m, n]), layout=layout)
        scores.setdefault(m - n, []).append(rotated[0] @ rotated[1])
    means = torch.stack([torch.stack(equal).mean() for equal in scores.values()])
    for equal, mean in zip(scores.values(), means, strict=True):
        torch.testing.assert_close(torch.stack(equal), mean.expand(len(equal)), rtol=0, atol=1e-12)
    assert means.std() > 0.1


def test_mixed_layouts_lose_the_property():
    query, key, positions = normal(4, 8), normal(4, 8, seed=1), torch.arange(4)
    scores = [
        reference.rotary_embedding(query, positions + shift)
        @ reference.rotary_embedding(key, positions + shift, layout="halves").T
        for shift in (0, 5)
    ]
    assert (scores[0] - scores[1]).abs().max() > 0.1


def test_the_layouts_differ_by_the_order_of_components():
    x, positions = normal(5, 8), torch.arange(5)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    halves = reference.rotary_embedding(x[:, order], positions, layout="halves")
    assert torch.equal(halves, reference.rotary_embedding(x, positions)[:, order])


def test_a_text_in_pieces_is_rotated_as_in_one():
    x = normal(3, 9, 8)
    pieces, start = [], 0
    for piece in x.split([4, 1, 3, 1], dim=-2):
        end = start + piece.shape[-2]
        pieces.append(reference.rotary_embedding(piece, torch.arange(start, end)))
        start = end
    assert torch.equal(torch.cat(pieces, -2), reference.rotary_embedding(x, torch.arange(9)))


def test_angles_are_precise_in_a_very_long_text():
    x = normal(2, 10).float()
    positions = torch.tensor([10_000_001, 10_000_003])
    given = reference.rotary_embedding(x, positions)
    assert given.dtype == torch.float32
    wanted = rotated_by_loops(x.double(), positions, 10000.0, "interleaved")
    torch.testing.assert_close(given.double(), wanted, rtol=0, atol=1e-6)


# grouped_query_attention


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (6, 3), (6, 1), (6, 6)])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_attention_equals_pytorchs(heads, kv_heads, masked):
    inputs = query, key, value = normal(2, heads, 5, 4), normal(2, kv_heads, 7, 4), normal(2, kv_heads, 7, 8)
    for tensor in inputs:
        tensor.requires_grad_()
    mask = normal(2, heads, 5, 7, seed=2) > 0 if masked else None
    if masked:
        mask[1, 2, 3] = False
    wanted = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    given = reference.grouped_query_attention(query, key, value, mask)
    assert_same(given, wanted, inputs)
    if masked:
        assert not given[1, 2, 3].any()


def test_heads_of_a_group_that_ask_the_same_get_the_same():
    query, key, value = normal(1, 5, 4).expand(6, 5, 4), normal(2, 7, 4), normal(2, 7, 8)
    output = reference.grouped_query_attention(query, key, value)
    assert all(torch.equal(output[head], output[3 * (head // 3)]) for head in range(6))
    assert not torch.allclose(output[0], output[3])


def test_pytorchs_fused_attention_is_no_answer():
    def fused(query, key, value, attn_mask=None):
        if query.shape[-3] % key.shape[-3]:
            raise ValueError("the heads do not fit")
        return F.scaled_dot_product_attention(query, key, value, attn_mask, enable_gqa=True)

    report = evaluate("grouped_query_attention", fused)
    assert (report.passed, report.score) == (False, 0)
    assert report.ready_made == ("torch.nn.functional.scaled_dot_product_attention",)


# moe_route


def routed_by_loops(logits, k, capacity):
    """Serves one choice after the other, each in the order of the tokens."""
    tokens, num_experts = logits.shape
    probs = torch.stack([row.exp() / row.exp().sum() for row in logits])
    experts = [sorted(range(num_experts), key=lambda expert: -row[expert].item())[:k] for row in logits]
    served, kept, choices = [0] * num_experts, [[False] * k for _ in range(tokens)], [0] * num_experts
    for choice, token in itertools.product(range(k), range(tokens)):
        expert = experts[token][choice]
        choices[expert] += 1
        kept[token][choice] = served[expert] < capacity
        served[expert] += kept[token][choice]
    gates = torch.stack(
        [
            torch.stack([probs[token, experts[token][choice]] * kept[token][choice] for choice in range(k)])
            for token in range(tokens)
        ]
    )
    loss = num_experts * sum(choices[e] / (tokens * k) * probs[:, e].sum() / tokens for e in range(num_experts))
    return gates, torch.tensor(experts), torch.tensor(kept), loss


@pytest.mark.parametrize(("k", "capacity"), [(1, 2), (1, 9), (2, 1), (2, 3), (4, 5)])
def test_routing_equals_loops_in_value_and_gradient(k, capacity):
    logits = normal(9, 4).requires_grad_()
    given, wanted = reference.moe_route(logits, k, capacity), routed_by_loops(logits, k, capacity)
    assert torch.equal(given[1], wanted[1])
    assert torch.equal(given[2], wanted[2])
    assert_same(given[0], wanted[0], [logits])
    assert_same(given[3], wanted[3], [logits])


def test_an_expert_serves_no_more_than_it_has_room_for():
    logits = normal(50, 5) + torch.tensor([2.0, 1.0, 0.0, 0.0, -1.0])
    for k, capacity in itertools.product((1, 2, 3), (1, 4, 50)):
        gates, experts, kept, _ = reference.moe_route(logits, k, capacity)
        wanted = experts.flatten().bincount(minlength=5)
        assert torch.equal(experts[kept].bincount(minlength=5), wanted.clamp(max=capacity))
        assert torch.equal(gates > 0, kept)
        assert (gates.sum(-1) <= 1 + 1e-12).all()


def test_the_loss_of_equal_loads_is_1_and_that_of_one_expert_the_number_of_experts():
    even = torch.full((12, 4), -20.0).double()
    even[torch.arange(12), torch.arange(12) % 4] = 20.0
    one = torch.full((12, 4), -20.0).double()
    one[:, 2] = 20.0
    assert reference.moe_route(even, 1, 12)[3].item() == pytest.approx(1)
    assert reference.moe_route(one, 1, 12)[3].item() == pytest.approx(4)
    indifferent = 1e-9 * normal(12, 4)
    assert reference.moe_route(indifferent, 2, 12)[3].item() == pytest.approx(1)
    assert reference.moe_route(one, 1, 1)[3] == reference.moe_route(one, 1, 12)[3]  # room plays no part


def test_descending_the_loss_evens_out_the_loads():
    logits = (normal(200, 4) + torch.tensor([2.0, 0.0, 0.0, -2.0])).requires_grad_()
    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    for _ in range(300):
        (gradient,) = torch.autograd.grad(reference.moe_route(logits + bias, 1, 200)[3], bias)
        bias = (bias - 0.1 * gradient).detach().requires_grad_()
    before, after = (
        reference.moe_route(scores, 1, 200)[1].flatten().bincount(minlength=4) for scores in (logits, logits + bias)
    )
    assert before.max() > 120
    assert after.max() < 90


def test_with_one_choice_the_router_learns_from_the_gates():
    """Gates that were made to sum to one would all be 1 and have no gradient."""
    logits = normal(9, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(reference.moe_route(logits, 1, 9)[0].sum(), logits)
    assert (gradient.abs().sum(-1) > 0).all()


# MoELayer


def a_layer(**options):
    torch.manual_seed(0)
    return reference.MoELayer(**{"d_model": 6, "d_ff": 8, "num_experts": 4, "k": 2} | options).double()


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"capacity_factor": 0.4}, {"k": 4, "capacity_factor": 1.0}], ids=str)
def test_the_layer_equals_a_sum_over_each_tokens_experts(options):
    layer, x = a_layer(**options), normal(3, 5, 6).requires_grad_()
    output, loss = layer(x)
    capacity = math.ceil(layer.capacity_factor * layer.k * 15 / 4)
    tokens = x.reshape(15, 6)
    gates, experts, kept, wanted_loss = routed_by_loops(layer.router(tokens), layer.k, capacity)
    rows = []
    for token in range(15):
        row = 0 * tokens[token]
        for choice in range(layer.k):
            if kept[token, choice]:
                row = row + gates[token, choice] * layer.experts[experts[token, choice]](tokens[token])
        rows.append(row)
    parameters = [x, *layer.parameters()]
    assert_same(output, torch.stack(rows).view(3, 5, 6), parameters)
    torch.testing.assert_close(loss, wanted_loss, rtol=1e-12, atol=0)


def test_with_all_experts_chosen_it_is_the_dense_mixture():
    layer, x = a_layer(k=4, capacity_factor=1.0), normal(3, 5, 6)
    weights = torch.softmax(layer.router(x), dim=-1)
    wanted = sum(weights[..., e, None] * expert(x) for e, expert in enumerate(layer.experts))
    torch.testing.assert_close(layer(x)[0], wanted)


def test_a_token_that_finds_no_room_gets_zeros():
    layer, x = a_layer(k=1, capacity_factor=1.0), normal(1, 1, 6).expand(2, 4, 6)
    output = layer(x)[0].flatten(0, 1)  # eight equal tokens, which all want one expert with room for two
    assert output[:2].all()
    assert not output[2:].any()


def test_an_expert_works_on_its_own_tokens_alone():
    layer, read = a_layer(capacity_factor=4.0), []
    for expert in layer.experts:
        expert.register_forward_pre_hook(lambda module, inputs: read.append(len(inputs[0])))
    layer(normal(3, 5, 6))
    assert sum(read) == 15 * layer.k
    wide = {"d_model": 16, "d_ff": 64, "k": 1}
    few, many = (
        count_work(lambda layer=a_layer(num_experts=number, **wide): layer(normal(1, 64, 16))).multiply_adds
        for number in (2, 16)
    )
    assert many < 1.5 * few


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.rms_norm(torch.zeros(2, 3), torch.ones(4)), r"width 3 and weight has shape \(4,\)"),
        (
            lambda: reference.swiglu(torch.zeros(2, 3), *[torch.zeros(5, 3)] * 3),
            r"they must be \(d_ff, d_model\) twice and \(d_model, d_ff\)",
        ),
        (lambda: reference.rotary_embedding(torch.zeros(2, 3), torch.arange(2)), "width 3, which cannot be cut"),
        (lambda: reference.rotary_embedding(torch.zeros(2, 4), torch.arange(3)), "each of the 2 tokens"),
        (lambda: reference.rotary_embedding(torch.zeros(2, 4), torch.arange(2), layout="pairs"), "layout is 'pairs'"),
        (
            lambda: reference.grouped_query_attention(torch.zeros(5, 2, 4), *[torch.zeros(2, 3, 4)] * 2),
            "5 heads of queries, 2 of keys and 2 of values",
        ),
        (lambda: reference.moe_route(torch.zeros(2, 3), 4, 1), "k is 4 and capacity 1"),
        (lambda: reference.moe_route(torch.zeros(2, 3), 1, 0), "capacity at least 1"),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
