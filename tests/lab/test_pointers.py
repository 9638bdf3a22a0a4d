"""Two pointers: the answers are what is pointed at; one head cannot give both, two can, and each takes one."""

import pytest
import torch

from autograder.reference.multi_head_attention import MultiHeadAttention
from lab import pointers

torch.set_num_threads(1)


def trained(num_heads, steps):
    return pointers.trained(MultiHeadAttention, num_heads, steps=steps)


def test_answers_are_the_symbols_at_the_pointers():
    batch = pointers.draw(20, torch.Generator().manual_seed(0))
    assert batch.answers.shape == (20, pointers.LENGTH, 2)
    for b, token, which in [(0, 0, 0), (7, 3, 1), (19, pointers.LENGTH - 1, 0)]:
        place = batch.pointers[b, token, which]
        assert batch.answers[b, token, which] == batch.symbols[b, place]


def test_all_symbols_and_places_are_drawn_alike():
    batch = pointers.draw(2000, torch.Generator().manual_seed(0))
    for drawn, kinds in ((batch.symbols, pointers.NUM_SYMBOLS), (batch.pointers, pointers.LENGTH)):
        shares = torch.bincount(drawn.flatten(), minlength=kinds) / drawn.numel()
        torch.testing.assert_close(shares, torch.full((kinds,), 1 / kinds), atol=0.01, rtol=0)


def test_parameters_do_not_depend_on_the_number_of_heads():
    counts = {
        sum(p.numel() for p in pointers.PointerModel(MultiHeadAttention(64, heads)).parameters())
        for heads in (1, 2, 4, 8)
    }
    assert len(counts) == 1


def test_training_repeats_itself():
    assert trained(2, 3)[1] == trained(2, 3)[1]


def test_weights_of_the_heads_are_those_that_the_layer_uses():
    model, _ = trained(2, 0)
    batch = pointers.draw(3, torch.Generator().manual_seed(0))
    layer, tokens = model.attention, model.tokens(batch)
    weights = pointers.head_weights(model, batch)
    theirs = torch.nn.MultiheadAttention(64, 2, batch_first=True)
    theirs.load_state_dict(layer.state_dict())
    torch.testing.assert_close(weights, theirs(tokens, tokens, tokens, average_attn_weights=False)[1])


def test_a_silenced_head_adds_nothing_and_comes_back():
    model, _ = trained(2, 0)
    batch = pointers.draw(3, torch.Generator().manual_seed(0))
    before = model(batch)
    with pointers.without_head(model, 0), pointers.without_head(model, 1):
        assert torch.equal(model.attention.out_proj.weight, torch.zeros(64, 64))
    assert torch.equal(model(batch), before)


@pytest.mark.slow
def test_one_head_answers_one_pointer_and_two_heads_take_one_each():
    one, two = trained(1, 500)[0], trained(2, 500)[0]
    shares = pointers.accuracy(one)
    assert max(shares["first"], shares["second"]) > 0.95
    assert shares["both"] < 0.25
    assert pointers.accuracy(two)["both"] > 0.95
    looked_at = pointers.looked_at(two)
    assert sorted(looked_at.argmax(-1).tolist()) == [0, 1]
    assert (looked_at.amax(-1) > 0.8).all()
    for head, which in enumerate(looked_at.argmax(-1).tolist()):
        lost, kept = (("first", "second"), ("second", "first"))[which]
        with pointers.without_head(two, head):
            assert pointers.accuracy(two)[lost] < 0.25
            assert pointers.accuracy(two)[kept] > 0.95
