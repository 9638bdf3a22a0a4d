"""Counted probabilities against counting by hand, and against a dictionary in a loop."""

import math
from collections import Counter

import pytest
import torch

from lab import ngrams


def by_loops(text, tokens, order, vocab_size, weight):
    text, tokens = text.tolist(), tokens.tolist()

    def prob(context, token):
        shorter = prob(context[1:], token) if context else 1 / vocab_size
        n = len(context) + 1
        pieces = Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1))
        before = Counter(tuple(text[i : i + n - 1]) for i in range(len(text) - n + 2))
        return (pieces[(*context, token)] + weight * shorter) / (before[tuple(context)] - (n == 1) + weight)

    return [math.log(prob(tokens[t - order + 1 : t], tokens[t])) for t in range(order - 1, len(tokens))]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_counts_are_those_of_a_dictionary(order):
    generator = torch.Generator().manual_seed(order)
    text, tokens = (torch.randint(5, (length,), generator=generator) for length in (60, 20))
    found = ngrams.log_probs(text, tokens, order, vocab_size=6, weight=1.5)
    expected = by_loops(text, tokens, order, 6, 1.5)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_a_bigram_by_hand():
    """After 0 comes 1 in two cases of three; 0 comes in four places of eight."""
    text = torch.tensor([0, 1, 0, 1, 0, 0, 1, 1])
    (log_prob,) = ngrams.log_probs(text, torch.tensor([0, 1]), order=2, vocab_size=2, weight=2.0)
    unigram = (4 + 2 / 2) / (8 + 2)
    assert log_prob.exp().item() == pytest.approx((3 + 2 * unigram) / (4 + 2))


def test_what_was_never_seen_has_a_probability():
    found = ngrams.log_probs(torch.zeros(50, dtype=torch.long), torch.tensor([3, 3, 3]), 3, vocab_size=5)
    assert torch.isfinite(found).all()
    assert found.exp().item() < 0.05
