"""Deep stacks: what they are made of, their training, and the path round their sub-layers."""

import math

import pytest
import torch

from autograder.reference.modern_transformer import PreNormBlock
from autograder.reference.transformer import EncoderBlock
from lab import depth

torch.set_num_threads(1)


@pytest.mark.parametrize(("order", "block"), [("post", EncoderBlock), ("pre", PreNormBlock)])
def test_stacks_have_the_blocks_of_their_order_and_pre_norm_one_norm_more(order, block):
    stack = depth.untrained(order, depth=3)
    assert [type(one) for one in stack.blocks] == [block] * 3
    assert (stack.norm is None) == (order == "post")
    assert stack(torch.zeros(2, 8, dtype=torch.long)).shape == (2, 8, depth.SYMBOLS)


def test_a_model_that_knows_nothing_has_the_loss_of_guessing():
    def guess(symbols):
        return torch.zeros(*symbols.shape, depth.SYMBOLS)

    loss = depth.reversal_loss(guess, torch.Generator().manual_seed(0))
    assert loss.item() == pytest.approx(math.log(depth.SYMBOLS))


def test_warm_up_makes_the_first_steps_small():
    moved = []
    for warm_up in (0, 100):
        stack = depth.untrained("pre", depth=1)
        before = stack.output.weight.detach().clone()
        depth.train(stack, warm_up, steps=1)
        moved.append((stack.output.weight - before).abs().max().item())
    assert moved[0] == pytest.approx(depth.LR, rel=0.01)
    assert moved[1] == pytest.approx(depth.LR / 100, rel=0.01)


def without_output(order):
    stack = depth.untrained(order, depth=3)
    with torch.no_grad():
        for block in stack.blocks:
            block.self_attn.out_proj.weight.zero_()
            block.linear2.weight.zero_()
            block.linear2.bias.zero_()
    return stack


def test_with_sub_layers_that_add_nothing_only_one_norm_divides():
    post, pre = (depth.identity_path(without_output(order)) for order in ("post", "pre"))
    assert post[0] == 1
    assert post[1:] == pytest.approx([pre[3]] * 3, rel=1e-3)
    assert pre[:3] == [1, 1, 1]
    assert 0.5 < pre[3] < 1.1


def test_the_gradient_is_that_of_each_blocks_matrix():
    stack = depth.untrained("post", depth=3)
    depth.reversal_loss(stack, torch.Generator().manual_seed(0)).backward()
    wanted = [block.linear2.weight.grad.norm().item() for block in stack.blocks]
    assert depth.gradient_by_depth(stack) == pytest.approx(wanted)
