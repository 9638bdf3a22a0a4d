"""Associative recall: the questions are what they say, and a right kernel learns to answer them."""

import pytest
import torch

from autograder.checks import attention_layer as checks
from autograder.reference.attention_layer import cross_attention
from lab import recall

torch.set_num_threads(1)


def question(pairs=7, batch=50, seed=0):
    return recall.ask(batch, pairs, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pairs", [1, 7, recall.NUM_KEYS])
def test_keys_do_not_repeat_and_the_answer_belongs_to_the_key_asked_for(pairs):
    asked = question(pairs)
    assert asked.keys.shape == asked.values.shape == (50, pairs)
    assert all(len(keys.unique()) == pairs for keys in asked.keys)
    matches = asked.keys == asked.asked[:, None]
    assert (matches.sum(-1) == 1).all()
    assert torch.equal(asked.values[matches], asked.answer)


def test_every_place_is_asked_for():
    asked = question(pairs=3, batch=3000)
    places = (asked.keys == asked.asked[:, None]).double().mean(0)
    torch.testing.assert_close(places, torch.full((3,), 1 / 3, dtype=torch.float64), atol=0.05, rtol=0)


@pytest.mark.parametrize("pairs", [0, recall.NUM_KEYS + 1])
def test_more_pairs_than_keys_is_an_error_in_words(pairs):
    with pytest.raises(ValueError, match=f"{pairs} pairs were asked for; it must be 1 to {recall.NUM_KEYS}"):
        question(pairs)


def trained(kernel, steps):
    torch.manual_seed(0)
    model = recall.AttentionRecall(kernel, width=16)
    return model, recall.train(model, steps, max_pairs=8)


def test_training_repeats_itself():
    assert trained(cross_attention, 5)[1] == trained(cross_attention, 5)[1]


@pytest.mark.slow
def test_a_right_kernel_learns_beyond_the_lengths_it_saw_and_a_wrong_one_does_not():
    right, _ = trained(cross_attention, 500)
    assert recall.accuracy(right, 8) > 0.95
    assert recall.accuracy(right, 64) > 0.9
    by_attention = {known.id: known.kernel for known in checks.scaled_dot_product_attention.mistakes}
    attend = by_attention["attn-softmax-query-axis"]
    wrong, _ = trained(lambda X_q, X_kv, W_Q, W_K, W_V: attend(X_q @ W_Q, X_kv @ W_K, X_kv @ W_V), 500)
    assert recall.accuracy(wrong, 64) < 0.2
