"""The repeated texts are what they say, and the places that an induction head needs are found."""

import pytest
import torch

from lab import induction
from lab.language_model import LanguageModel

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def texts():
    return induction.draw(300, torch.Generator().manual_seed(0))


def test_texts_repeat_themselves_after_their_period(texts):
    assert texts.tokens.shape == texts.known.shape == (300, induction.LENGTH)
    assert texts.periods.min() == induction.PERIODS[0]
    assert texts.periods.max() == induction.PERIODS[1]
    for row, (period,) in zip(texts.tokens, texts.periods.tolist(), strict=True):
        assert torch.equal(row[period:], row[:-period])
        assert len(row[:period].unique()) > period // 2


def test_the_first_token_that_comes_again_cannot_be_known(texts):
    first = texts.known.int().argmax(1)
    assert torch.equal(first, texts.periods[:, 0] + 1)
    assert (texts.known.sum(1) == induction.LENGTH - 1 - texts.periods[:, 0]).all()


def test_an_induction_head_looks_behind_earlier_occurrences():
    tokens = torch.tensor([[5, 6, 7, 5, 6]])
    places = induction.after_earlier(tokens)[0].nonzero().tolist()
    assert places == [[3, 1], [4, 2]]


def test_weights_on_the_right_places_are_one_for_ideal_heads(texts):
    length = induction.LENGTH
    before = torch.eye(length).roll(-1, 1).expand(300, 1, length, length)
    assert induction.weight_before(before) == 1
    places = induction.after_earlier(texts.tokens).float()
    ideal = (places / places.sum(-1, keepdim=True).clamp(min=1))[:, None]
    assert induction.weight_after_earlier(ideal, texts) == pytest.approx(1)


def test_attention_maps_are_causal_and_sum_to_one(texts):
    torch.manual_seed(0)
    model = LanguageModel(induction.VOCAB_SIZE, 12, num_heads=3, d_ff=8)
    maps = induction.attention_maps(model, texts.tokens[:4])
    assert [weights.shape for weights in maps] == [(4, 3, induction.LENGTH, induction.LENGTH)] * 2
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert not weights.triu(1).any()


def test_the_loss_counts_what_can_be_known(texts):
    torch.manual_seed(0)
    model = LanguageModel(induction.VOCAB_SIZE, 12, num_heads=3, d_ff=8)
    assert len(induction.losses(model, texts)) == texts.known.sum()
