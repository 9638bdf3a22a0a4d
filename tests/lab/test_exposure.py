"""The small translator, and what is measured of its prefixes, on models whose answers are known."""

import pytest
import torch
from torch import nn

from autograder.reference.decoding import scheduled_sampling, teacher_forcing_batch
from lab import exposure
from lab.parallel_corpus import BOS, EOS, vocabularies

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pairs():
    return exposure.corpus().test[:40]


class Parrot(nn.Module):
    """In place of a Transformer: says what stands in a table after the last word that it has read."""

    def __init__(self, following):
        super().__init__()
        self.following = following

    def encode(self, source, key_mask):
        return torch.zeros(*source.shape, 1)

    def decode(self, target_in, memory, key_mask):
        return nn.functional.one_hot(self.following[target_in], len(self.following)).double()


def parrot(pairs, following):
    model = exposure.SmallTranslator(*vocabularies(pairs), d_model=8)
    model.transformer = Parrot(torch.tensor([following(n) for n in range(len(model.target_vocabulary))]))
    return model


def test_who_never_errs_is_right_after_right_and_own_words(pairs):
    one = [pairs[0]] * 3
    words = vocabularies(one)[1].encode(one[0].target)
    assert len(set(words)) == len(words)
    chain = dict(zip([BOS, *words], [*words, EOS], strict=True))
    compared = exposure.with_right_and_own_words(parrot(one, lambda n: chain.get(n, EOS)), one)
    assert compared.after_right[compared.real].all()
    assert compared.after_own[compared.real].all()
    assert not compared.after_error.any()


def test_who_errs_at_the_first_word_is_lost_after_own_words(pairs):
    one = [pairs[0]] * 3
    words = vocabularies(one)[1].encode(one[0].target)
    chain = dict(zip([BOS, *words], [EOS, *words[1:], EOS], strict=True))
    compared = exposure.with_right_and_own_words(parrot(one, lambda n: chain.get(n, EOS)), one)
    assert compared.after_right[compared.real].sum() == 3 * len(words)
    assert not compared.after_own[compared.real].any()
    assert compared.after_error[:, 1:].all()
    assert not compared.after_error[:, 0].any()


def test_corruption_changes_as_many_words_as_it_says(pairs):
    """Who looks at the last word alone is wrong as often as that word is replaced."""
    model = exposure.SmallTranslator(*vocabularies(pairs), d_model=8)
    seen = []

    class Spy(Parrot):
        def decode(self, target_in, memory, key_mask):
            seen.append(target_in.clone())
            return super().decode(target_in, memory, key_mask)

    model.transformer = Spy(torch.zeros(len(model.target_vocabulary), dtype=torch.long))
    exposure.after_corruption(model, pairs, 0)
    exposure.after_corruption(model, pairs, 3)
    right, *_, corrupted = seen
    changed = (right != corrupted).sum(1)
    assert (right[:, 0] == corrupted[:, 0]).all()
    assert changed.max() == 3
    assert changed.double().mean() > 2.8  # a random word may be the right one


def test_training_uses_the_kernels_that_it_is_given(pairs):
    calls = []

    def make(*arguments):
        calls.append("batch")
        return teacher_forcing_batch(*arguments)

    def mix(*arguments):
        calls.append(arguments[-1])
        return scheduled_sampling(*arguments)

    model = exposure.SmallTranslator(*vocabularies(pairs), d_model=8)
    losses = exposure.train(model, pairs, 3, scheduled=True, teacher_forcing_batch=make, scheduled_sampling=mix)
    assert len(losses) == 3
    assert calls == ["batch", 1.0, 0.5, 0.0]


def test_a_translator_is_searched_with_many_prefixes_of_one_sentence(pairs):
    model = exposure.SmallTranslator(*vocabularies(pairs), d_model=8)
    prefix = torch.full((5, 3), BOS)
    log_probs = model.next_log_probs([pairs[0].source])(prefix)
    assert log_probs.shape == (5, len(model.target_vocabulary))
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(5))
