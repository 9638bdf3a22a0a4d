"""The smallest language: what is right in it, and a search of all that can be said."""

import itertools

import pytest
import torch

from lab import synonyms

torch.set_num_threads(1)


def test_every_source_has_as_many_translations_as_it_should():
    said = [
        torch.tensor([*words, synonyms.EOS])
        for length in range(synonyms.MAX_LENGTH)
        for words in itertools.product(range(1, synonyms.VOCAB_SIZE), repeat=length)
    ]
    for source in [(1,), (2, 1), (1, 1, 2)]:
        assert sum(synonyms.is_right(tokens, source) for tokens in said) == 2 ** len(source)


@pytest.mark.parametrize("tokens", [[2], [2, 0, 0], [4, 0], [0], [2, 3, 0]])
def test_a_translation_that_is_no_translation(tokens):
    assert not synonyms.is_right(torch.tensor(tokens), (1,))


@torch.no_grad()
def test_the_search_of_all_finds_the_best_of_all():
    model = synonyms._build(0, 0.0)
    of_prefixes = synonyms.next_log_probs(model, (2, 1))
    words = range(1, synonyms.VOCAB_SIZE)
    whole = [(*said, 0) for length in range(3) for said in itertools.product(words, repeat=length)]
    tokens, score = synonyms.exhaustive(model, (2, 1), alpha=0.0)
    for said in whole:
        prefix = torch.tensor([[synonyms.BOS, *said]])
        log_prob = sum(of_prefixes(prefix[:, : place + 1])[0, token] for place, token in enumerate(said))
        assert log_prob <= score + 1e-5
    own = sum(
        of_prefixes(torch.tensor([[synonyms.BOS, *tokens[:place]]]))[0, token] for place, token in enumerate(tokens)
    )
    torch.testing.assert_close(own, score)
