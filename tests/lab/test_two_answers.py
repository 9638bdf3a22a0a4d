"""Sentences with two right translations: both are right, mixtures are told from them, and words can be filled in."""

import pytest
import torch
from torch import nn

from autograder.reference.decoding import nat_decode_by_length
from lab import two_answers
from lab.two_answers import EOS, HIDDEN, PAD, TARGET_WORDS

torch.set_num_threads(1)
TU = {"tu", "ton", "ta", "tes"} | {tu for tu, _ in two_answers.VERBS.values()}
VOUS = {"vous", "votre", "vos"} | {vous for _, vous in two_answers.VERBS.values()}


@pytest.fixture(scope="module")
def pairs():
    return two_answers.draw_pairs(300, seed=5)


def test_each_translation_stays_with_its_form(pairs):
    for pair in pairs:
        tu, vous = map(set, pair.answers)
        assert tu & TU
        assert vous & VOUS
        assert not tu & VOUS
        assert not vous & TU


def test_both_are_equally_long_and_fit_the_vocabularies(pairs):
    encoded = two_answers.encode(pairs)
    lengths = (encoded.answers != PAD).sum(-1)
    assert torch.equal(lengths[0], lengths[1])
    assert lengths.tolist()[0] == [len(pair.answers[0]) for pair in pairs]
    assert lengths.max() == two_answers.LONGEST
    assert two_answers.words(encoded.answers[1, 0]) == " ".join(pairs[0].answers[1])


def test_the_same_seed_gives_the_same_pairs():
    assert two_answers.draw_pairs(20, 1) == two_answers.draw_pairs(20, 1) != two_answers.draw_pairs(20, 2)


def test_a_mixture_is_neither_of_the_two(pairs):
    answers = two_answers.encode(pairs).answers
    half = answers[0].clone()
    half[:, 0] = answers[1, :, 0]
    wrong = answers[0].clone()
    wrong[:, 3] = TARGET_WORDS.index("tu")
    for said, right, mixed in ((answers[0], 1, 0), (answers[1], 1, 0), (half, 0, 1), (wrong, 0, 0)):
        found = two_answers.verdicts(said, answers)
        assert found["right"].double().mean() == right
        assert found["mixed"].double().mean() == mixed


def test_what_stands_behind_the_end_does_not_count(pairs):
    answers = two_answers.encode(pairs).answers
    lengths = (answers[0] != PAD).sum(-1, keepdim=True)
    ended = torch.cat([answers[0], torch.full_like(answers[0], 7)], 1)
    ended[:, two_answers.LONGEST] = 7
    places = torch.arange(ended.shape[1])
    ended = ended.where(places < lengths, 7).masked_fill(places == lengths, EOS)
    assert two_answers.verdicts(ended, answers)["right"].all()


class Sure(two_answers.AllAtOnce):
    """Knows the words, each place as sure as its number says."""

    def __init__(self, words, lengths):
        nn.Module.__init__(self)
        self.words, self.lengths, self.seen = words, lengths, []

    def encode(self, source):
        return source

    def length_logits(self, source, memory):
        return nn.functional.one_hot(self.lengths, two_answers.LONGEST + 1).double()

    def forward(self, source, memory, places):
        self.seen.append(places.clone())
        sureness = torch.arange(1.0, places.shape[1] + 1)[:, None]
        return sureness * nn.functional.one_hot(self.words[:, : places.shape[1]], len(TARGET_WORDS))


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9])
def test_refining_fills_the_surest_places_first_and_an_equal_share_in_each_step(steps):
    lengths = torch.tensor([8, 3])
    words = torch.randint(4, len(TARGET_WORDS), (2, 8), generator=torch.Generator().manual_seed(0))
    model = Sure(words, lengths)
    said = two_answers.refine(model, torch.ones(2, 5, dtype=torch.long), steps)
    assert torch.equal(said, words.masked_fill(torch.arange(8) >= lengths[:, None], PAD))
    for step, places in enumerate(model.seen):
        hidden = (places == HIDDEN).sum(1)
        assert hidden.tolist() == [length * (steps - step) // steps for length in (8, 3)]
        assert (places[0, : int(hidden[0])] == HIDDEN).all()


def test_one_step_of_refining_is_decoding_by_length(pairs):
    torch.manual_seed(0)
    model = two_answers.AllAtOnce(8)
    source = two_answers.encode(pairs[:20]).source
    with torch.no_grad():
        memory = model.encode(source)
        by_length = nat_decode_by_length(model.length_logits(source, memory), model.emitter(source, memory), PAD)
    assert torch.equal(two_answers.refine(model, source, 1), by_length)


def test_noise_makes_the_most_probable_word_a_draw():
    probabilities = torch.tensor([0.5, 0.3, 0.2])
    noisy = two_answers.with_noise(probabilities.log().expand(20_000, 3), torch.Generator().manual_seed(0))
    shares = torch.bincount(noisy.argmax(-1)) / 20_000
    torch.testing.assert_close(shares, probabilities, atol=0.02, rtol=0)
