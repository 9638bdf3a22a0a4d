"""Pairs of sentences about "it": each is what it says, and what the chapter says of two heads holds."""

import pytest
import torch

from lab import minilm, pronouns

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    return minilm.load()


@pytest.fixture(scope="module")
def eating(model):
    return pronouns.resolved(model, pronouns.EATING).double()


def test_sentences_of_a_pair_differ_in_the_last_word_only():
    first, second = pronouns.DOG.sentences()
    assert first == "A dog ate the food because it was hungry."
    assert second == "A dog ate the food because it was delicious."


def test_a_noun_in_pieces_is_an_error_in_words(model):
    with pytest.raises(ValueError, match="'aardvark' stands 0 times"):
        pronouns.weights_of_it(model, "An aardvark ate the food because it was hungry.", ("aardvark", "food"))


def test_the_loudest_head_looks_at_the_dog_in_both_senses(model):
    weights = [
        pronouns.weights_of_it(model, sentence, pronouns.DOG.nouns)[5, 11] for sentence in pronouns.DOG.sentences()
    ]
    assert all(dog > 0.5 > 0.2 > food for dog, food in weights)


def test_another_head_turns_with_the_sense_of_this_pair(model):
    assert pronouns.resolved(model, [pronouns.DOG])[0, :, 3, 1].all()


def test_on_fresh_pairs_that_head_is_no_resolver(model, eating):
    assert eating[:, :, 3, 1].prod(1).mean() < 0.6
    others = pronouns.resolved(model, pronouns.OTHERS)[:, :, 3, 1]
    assert not others.all(1).any()
