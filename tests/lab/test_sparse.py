"""The sequences are what they say, a layer's attention is what it is given, and windows are counted right."""

import pytest
import torch

from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.self_attention import causal_mask
from autograder.reference.sparse_attention import sparse_pattern
from lab import induction, sparse
from lab.dependency import dependency_matrix
from lab.language_model import LanguageModel

torch.set_num_threads(1)
HERE = torch.arange(sparse.LENGTH)


def drawn(task, batch=50):
    return sparse.draw(task, batch, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("task", ["every token asks", "few tokens ask"])
def test_each_token_asks_for_the_key_of_another_and_the_answer_is_its_value(task):
    asked = drawn(task)
    matches = asked.keys[:, None, :] == asked.asked[:, :, None]
    assert (matches.sum(-1) == 1).all()
    there = matches.int().argmax(-1)
    assert torch.equal(asked.values.gather(1, there), asked.answer)
    assert torch.equal((there - HERE).abs(), asked.distance)
    assert asked.distance.min() == 1
    assert sparse.LENGTH - 8 < asked.distance.max() < sparse.LENGTH
    wanted = torch.isin(HERE, sparse.SPECIAL) if task == "few tokens ask" else torch.ones_like(HERE) > 0
    assert torch.equal(asked.counted, wanted.expand_as(asked.counted))


def test_one_message_is_wanted_by_all_but_the_token_that_holds_it():
    asked = drawn("one message")
    holders = asked.asked == sparse.MESSAGE
    assert (holders.sum(1) == 1).all()
    assert torch.equal(asked.counted, ~holders)
    assert (asked.asked[~holders] == sparse.NOTHING).all()
    assert torch.equal(asked.values[holders][:, None].expand_as(asked.answer), asked.answer)
    assert (asked.distance[holders] == 0).all()


def test_there_is_no_other_task():
    with pytest.raises(ValueError, match="no task 'sorting'; choose one of every token asks"):
        drawn("sorting")


@pytest.mark.parametrize("pattern", sparse.PATTERNS)
def test_the_layers_see_what_the_patterns_name_says(pattern):
    visible = {
        "full": sparse_pattern(sparse.LENGTH, stride=1),
        "window": sparse_pattern(sparse.LENGTH, sparse.WINDOW),
        "stride": sparse_pattern(sparse.LENGTH, stride=sparse.STRIDE),
        "window + special": sparse_pattern(sparse.LENGTH, sparse.WINDOW, positions=sparse.SPECIAL),
    }
    names = pattern.removesuffix(", twice").split(", ")
    names *= 1 + pattern.endswith(", twice")
    query, key, value = torch.randn(3, sparse.LENGTH, 4, generator=torch.Generator().manual_seed(0))
    assert len(names) == len(sparse.PATTERNS[pattern])
    for name, attend in zip(names, sparse.PATTERNS[pattern], strict=True):
        expected = scaled_dot_product_attention(query, key, value, visible[name])
        torch.testing.assert_close(attend(query, key, value), expected)


def test_accuracy_is_one_for_an_oracle_and_chance_for_a_guess():
    def oracle(sequences):
        return torch.nn.functional.one_hot(sequences.answer, 32).float()

    def guess(sequences):
        return torch.rand(*sequences.answer.shape, 32, generator=torch.Generator().manual_seed(2))

    by_distance = sparse.accuracy_by_distance(oracle, "every token asks", 100)
    assert by_distance.shape == (sparse.LENGTH,)
    assert by_distance[0].isnan()
    assert (by_distance[1:] == 1).all()
    assert abs(sparse.accuracy_by_distance(guess, "every token asks")[1:].mean() - 1 / 32) < 0.01


def test_training_repeats_itself():
    def losses():
        torch.manual_seed(0)
        model = sparse.SparseReader(sparse.PATTERNS["window, stride"])
        return sparse.train(model, "one message", 3, batch=2)

    assert losses() == losses()


def test_the_share_near_is_that_of_even_weights_and_of_a_head_that_looks_one_back():
    even = causal_mask(8, 8).double()
    even = even / even.sum(-1, keepdim=True)
    expected = (1 / 5 + 1 / 6 + 1 / 7 + 1 / 8) / 4
    torch.testing.assert_close(sparse.share_near(even), expected * torch.arange(1, 5).double())
    one_back = torch.eye(8).roll(-1, 1).expand(3, 2, 8, 8)
    assert sparse.share_near(one_back).tolist() == [0, 1, 1, 1]


def test_a_window_as_long_as_the_text_changes_nothing_and_a_shorter_one_sees_less():
    torch.manual_seed(0)
    model = LanguageModel(20, 12, num_heads=3, d_ff=8).requires_grad_(False)
    tokens = torch.randint(20, (2, 9))
    torch.testing.assert_close(sparse.windowed(model, 9)(tokens), model(tokens))
    embedded = torch.randn(9, 12)
    matrix = dependency_matrix(sparse.windowed(model, 3).blocks[0], embedded)
    assert torch.equal(matrix > 0, sparse_pattern(9, 3, causal=True))


def test_a_windowed_copy_leaves_the_model_alone():
    torch.manual_seed(0)
    model = LanguageModel(induction.VOCAB_SIZE, **induction.SIZES)
    copy = sparse.windowed(model, 4)
    assert type(model.blocks[0]) is not type(copy.blocks[0])
    assert copy.embedding.weight.data_ptr() != model.embedding.weight.data_ptr()
