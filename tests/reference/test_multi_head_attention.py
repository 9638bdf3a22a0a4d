"""The kernels of "Multi-head attention" against PyTorch's module, its counter of operations, and graph searches."""

import collections

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autograder.reference import multi_head_attention as reference
from autograder.work import count_work

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def some_mask(*shape, seed=0):
    mask = torch.from_numpy(np.random.default_rng((seed, *shape)).random(shape) < 0.6)
    mask[..., 0] = True
    return mask


def pytorchs(d_model=12, num_heads=3, seed=0):
    """PyTorch's module in double precision, with biases that are not zero, and ours with the same parameters."""
    torch.manual_seed(seed)
    theirs = nn.MultiheadAttention(d_model, num_heads, batch_first=True, dtype=torch.float64)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = reference.MultiHeadAttention(d_model, num_heads).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def value_and_gradients(output, leaves):
    weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), leaves)]


@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
def test_split_and_merge_move_each_number_to_its_place(leading):
    x = normal(*leading, 5, 12)
    heads = reference.split_heads(x, 3)
    assert heads.shape == (*leading, 3, 5, 4)
    for head, token, part in np.ndindex(3, 5, 4):
        assert torch.equal(heads[..., head, token, part], x[..., token, 4 * head + part])
    assert torch.equal(reference.merge_heads(heads), x)


@pytest.mark.parametrize("num_heads", [1, 3])
@pytest.mark.parametrize("masks", ["none", "attn", "key", "both"])
def test_the_module_equals_pytorchs_in_value_and_gradient(masks, num_heads):
    """PyTorch's masks mean the opposite, so they are turned round at the call."""
    theirs, ours = pytorchs(num_heads=num_heads)
    tokens = [normal(4, 5, 12), normal(4, 7, 12), normal(4, 7, 12, seed=1)]
    for x in tokens:
        x.requires_grad_()
    attn_mask = some_mask(5, 7) if masks in ("attn", "both") else None
    key_mask = some_mask(4, 7) if masks in ("key", "both") else None
    wanted, _ = theirs(
        *tokens,
        attn_mask=None if attn_mask is None else ~attn_mask,
        key_padding_mask=None if key_mask is None else ~key_mask,
    )
    given = ours(*tokens, attn_mask, key_mask)
    for one, other in zip(
        value_and_gradients(given, [*tokens, *ours.parameters()]),
        value_and_gradients(wanted, [*tokens, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_a_mask_for_each_sequence_is_pytorchs_mask_repeated_over_the_heads():
    theirs, ours = pytorchs()
    query, key, value = normal(4, 5, 12), normal(4, 7, 12), normal(4, 7, 12, seed=1)
    attn_mask = some_mask(4, 5, 7)
    wanted, _ = theirs(query, key, value, attn_mask=~attn_mask.repeat_interleave(3, dim=0))
    torch.testing.assert_close(ours(query, key, value, attn_mask), wanted, rtol=1e-10, atol=1e-12)


def test_state_dicts_load_both_ways():
    theirs, ours = pytorchs()
    assert {name: tuple(p.shape) for name, p in ours.named_parameters()} == {
        name: tuple(p.shape) for name, p in theirs.named_parameters()
    }
    theirs.load_state_dict(reference.MultiHeadAttention(12, 3).state_dict())


def test_a_query_that_may_attend_to_nothing():
    """The output's bias here and in PyTorch without weights; NaN in PyTorch with weights, which is its default."""
    theirs, ours = pytorchs()
    tokens, nothing = normal(1, 5, 12).requires_grad_(), torch.zeros(1, 5, dtype=torch.bool)
    given = ours(tokens, tokens, tokens, key_mask=nothing)
    torch.testing.assert_close(given, ours.out_proj.bias.expand(1, 5, 12))
    without, _ = theirs(tokens, tokens, tokens, key_padding_mask=~nothing, need_weights=False)
    torch.testing.assert_close(given, without)
    assert theirs(tokens, tokens, tokens, key_padding_mask=~nothing)[0].isnan().all()
    (gradient,) = torch.autograd.grad(given.sum(), tokens)
    assert not gradient.any()


def test_what_is_masked_has_no_influence():
    _, ours = pytorchs()
    tokens = normal(4, 7, 12).requires_grad_()
    causal, key_mask = torch.ones(7, 7, dtype=torch.bool).tril(), some_mask(4, 7)
    output = ours(tokens, tokens, tokens, causal, key_mask)
    (gradient,) = torch.autograd.grad(output[:, 3].sum(), tokens)
    hidden = ~key_mask | (torch.arange(7) > 3)
    hidden[:, 3] = False  # the token asks, whether or not it may be looked up
    assert not gradient[hidden].any()
    assert gradient[:, 0].any()


def test_tokens_that_change_places_take_their_outputs_along():
    _, ours = pytorchs()
    tokens, order = normal(4, 7, 12), torch.randperm(7, generator=torch.Generator().manual_seed(0))
    moved = tokens[:, order]
    torch.testing.assert_close(ours(moved, moved, moved), ours(tokens, tokens, tokens)[:, order])


@pytest.mark.parametrize("name", ["attn_mask", "key_mask"])
def test_a_mask_of_numbers_is_told_in_words(name):
    _, ours = pytorchs()
    tokens = normal(4, 5, 12)
    shape = (5, 5) if name == "attn_mask" else (4, 5)
    with pytest.raises(TypeError, match=f"{name} has dtype torch.float32; it must be torch.bool, True where"):
        ours(tokens, tokens, tokens, **{name: torch.ones(shape)})


def test_four_products_equal_pytorchs_module():
    theirs, _ = pytorchs()
    nn.init.zeros_(theirs.in_proj_bias)
    nn.init.zeros_(theirs.out_proj.bias)
    X = normal(4, 5, 12).requires_grad_()
    given = reference.attention_as_four_matmuls(X, theirs.in_proj_weight.T, theirs.out_proj.weight.T, 3)
    leaves = [X, theirs.in_proj_weight, theirs.out_proj.weight]
    for one, other in zip(
        value_and_gradients(given, leaves), value_and_gradients(theirs(X, X, X)[0], leaves), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", [(1, 5, 5, 3, 4), (2, 7, 5, 1, 6), (3, 1, 9, 2, 2)], ids=str)
def test_operations_are_those_that_pytorch_counts(sizes):
    batch, queries, keys, num_heads, d_head = sizes
    layer = reference.MultiHeadAttention(num_heads * d_head, num_heads).double()
    query, key = normal(batch, queries, num_heads * d_head), normal(batch, keys, num_heads * d_head)
    with FlopCounterMode(display=False) as counter:
        layer(query, key, key)
    assert reference.attention_flops(*sizes) == counter.get_total_flops()


def test_the_scores_are_the_largest_tensor_and_take_as_many_bytes_as_counted():
    layer, tokens = reference.MultiHeadAttention(12, 3), torch.zeros(2, 40, 12)
    entries = count_work(lambda: layer(tokens, tokens, tokens)).largest
    assert reference.attention_memory(2, 40, 40, 3) == entries * tokens.element_size()


def steps_by_search(reads, length):
    """The largest, over inputs and the outputs that they reach, of the fewest steps from one to the other.

    ``reads(step, place)`` lists the places that are read to make ``place`` at that step; inputs are there at step 0.
    """
    longest = 1
    for source in range(length):
        frontier, found = {source}, {}
        for step in range(1, length + 1):
            frontier = {place for place in range(length) if frontier & set(reads(step, place))}
            found = dict.fromkeys(frontier, step) | found
        longest = max(longest, *found.values())
    return longest


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 10, 16])
@pytest.mark.parametrize("kernel_size", [2, 3, 4])
def test_paths_through_convolutions_and_attention_are_those_of_a_search(kernel_size, length):
    stacks = {
        "convolution": lambda step, place: [place - back for back in range(kernel_size)],
        "dilated convolution": lambda step, place: [place - kernel_size ** (step - 1) * i for i in range(kernel_size)],
        "self-attention": lambda step, place: range(length),
    }
    for layer, reads in stacks.items():
        assert reference.path_length(layer, length, kernel_size) == steps_by_search(reads, length), layer


@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_path_through_a_recurrent_network_is_that_of_a_search(length):
    edges = {("token", t): [("state", t)] for t in range(length)}
    edges |= {("state", t): [("state", t + 1)] for t in range(length - 1)}
    longest = 0
    for source in range(length):
        distance, queue = {("token", source): 0}, collections.deque([("token", source)])
        while queue:
            node = queue.popleft()
            for after in edges.get(node, []):
                if after not in distance:
                    distance[after] = distance[node] + 1
                    queue.append(after)
        longest = max(longest, *distance.values())
    assert reference.path_length("rnn", length) == longest


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.split_heads(normal(5, 12), 5), "width 12, which 5 heads"),
        (lambda: reference.merge_heads(normal(5, 12)), r"shape \(5, 12\); the last three axes"),
        (lambda: reference.MultiHeadAttention(12, 0), "d_model is 12, which 0 heads"),
        (
            lambda: reference.attention_as_four_matmuls(normal(5, 12), normal(12, 12), normal(12, 12), 3),
            r"W_QKV has shape \(12, 12\); for tokens of width 12 it must be \(12, 36\)",
        ),
        (lambda: reference.attention_flops(1, 5, 0, 3, 4), "each must be at least 1"),
        (lambda: reference.attention_memory(1, 5, 7, 3, 0), "each must be at least 1"),
        (lambda: reference.path_length("tree", 5), "layer is 'tree'; it must be 'rnn'"),
        (lambda: reference.path_length("rnn", 0), "length is 0; there must be at least one token"),
        (lambda: reference.path_length("convolution", 5, 1), "kernel_size is 1; a convolution that"),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
