"""Translators: they compute what they say; attention cures the bottleneck at equal parameters and steps."""

from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import nn

from lab import parallel_corpus, translation
from lab.parallel_corpus import EOS, PAD, Pair, UnknownWords
from lab.translation import Kernels, Translation, Translator

torch.set_num_threads(1)
both = pytest.mark.parametrize("attention", [True, False])


@pytest.fixture(scope="module")
def pairs():
    return parallel_corpus.draw_pairs("italian", 60, 0, (3, 9))


def small(pairs, attention, **options):
    torch.manual_seed(0)
    return Translator(*parallel_corpus.vocabularies(pairs), attention, width=16, hidden=32, **options)


def as_batch(model, pairs):
    return parallel_corpus.batch(pairs, model.source_vocabulary, model.target_vocabulary)


def test_the_encoder_is_a_bidirectional_gru_on_packed_sentences(pairs):
    model = small(pairs, True)
    given = as_batch(model, pairs[:7])
    gru = nn.GRU(16, 16, batch_first=True, bidirectional=True)
    for cell, suffix in ((model.forwards, "l0"), (model.backwards, "l0_reverse")):
        for name, value in cell.named_parameters():
            getattr(gru, f"{name}_{suffix}").data.copy_(value)
    packed = nn.utils.rnn.pack_padded_sequence(
        model.source_embedding(given.source), given.source_lengths, batch_first=True, enforce_sorted=False
    )
    output, last = gru(packed)
    states, sides = model.read(given.source, given.source_lengths)
    torch.testing.assert_close(states, nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0])
    torch.testing.assert_close(sides, torch.cat([last[0], last[1]], -1))


@both
def test_what_it_says_is_most_probable_after_what_it_said(pairs, attention):
    model = small(pairs, attention)
    translation.train(model, pairs, steps=25, size=20, lr=2e-2)
    said = translation.translate(model, [pair.source for pair in pairs])
    again = as_batch(model, [replace(p, target=t.words) for p, t in zip(pairs, said, strict=True)])
    best = model(again).argmax(-1)
    real = (again.target != PAD) & (again.target_lengths < translation.MAX_LENGTH)[:, None]
    assert torch.equal(best[real], again.target[real])


@both
def test_a_sentence_is_translated_alike_alone_and_among_others(pairs, attention):
    model = small(pairs, attention)
    sentences = [pair.source for pair in pairs]
    together = translation.translate(model, sentences, size=9)
    for place in (0, 17, 42):
        (alone,) = translation.translate(model, [sentences[place]])
        assert alone.words == together[place].words
        if attention:
            torch.testing.assert_close(alone.attn_weights, together[place].attn_weights)


def test_weights_have_a_row_for_each_target_word_and_sum_to_one(pairs):
    model = small(pairs, True)
    for pair, result in zip(pairs, translation.translate(model, [pair.source for pair in pairs]), strict=True):
        assert result.attn_weights.shape == (len(result.words), len(pair.source))
        torch.testing.assert_close(result.attn_weights.sum(-1), torch.ones(len(result.words)))
    assert translation.translate(small(pairs, False), [pairs[0].source])[0].attn_weights is None


@both
def test_a_few_sentences_are_learned_by_heart(pairs, attention):
    model = small(pairs[:6], attention)
    losses = translation.train(model, pairs[:6], steps=80, size=6, lr=2e-2)
    assert losses[-1] < 0.1
    said = translation.translate(model, [pair.source for pair in pairs[:6]])
    assert set(translation.exact_match_by_length(pairs[:6], said).values()) == {1.0}
    assert translation.say(model, parallel_corpus.join(pairs[3].source)) == parallel_corpus.join(pairs[3].target)


def test_training_repeats_itself(pairs):
    losses = [translation.train(small(pairs, True), pairs, steps=4, size=8) for _ in range(2)]
    assert losses[0] == losses[1]


def test_an_epoch_holds_every_pair_once_and_little_padding(pairs):
    model = small(pairs, True)
    epoch = list(islice(translation.batches(model, pairs, 16, seed=0), 4))
    seen = Counter(tuple(t[t != PAD].tolist()) for b in epoch for t in b.target)
    assert seen == Counter((*model.target_vocabulary.encode(p.target), EOS) for p in pairs)
    padding = sum(int((b.target == PAD).sum()) for b in epoch) / sum(b.target.numel() for b in epoch)
    assert padding < 0.15


def test_other_kernels_can_be_swapped_in(pairs):
    reference, calls = Kernels.reference(), []

    def counted(*arguments):
        calls.append(arguments)
        return reference.gru_cell(*arguments)

    model = small(pairs, False, kernels=replace(reference, gru_cell=counted))
    plain = small(pairs, False)
    given = as_batch(model, pairs[:5])
    assert torch.equal(model(given), plain(given))
    assert len(calls) == 2 * given.source.shape[1] + given.target.shape[1]


def test_an_unknown_word_is_an_error_that_names_it(pairs):
    with pytest.raises(UnknownWords, match="'zebra'"):
        translation.say(small(pairs, True), "the zebra sleeps")


def test_what_the_figures_show_is_counted_right():
    pairs = [Pair(("a", "b"), ("x", "y"), frozenset())] * 2 + [Pair(("a",), ("x",), frozenset())]
    said = [Translation(words, None) for words in (("x", "y"), ("x",), ("y", "x"))]
    assert translation.exact_match_by_length(pairs, said) == {1: 0.0, 2: 0.5}
    assert translation.token_accuracy_by_length(pairs, said) == {1: 0.0, 2: 0.75}
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
    assert translation.links(Translation(("x", "y"), weights)) == {(0, 1), (1, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("language", ["french", "italian"])
def test_both_translators_of_the_chapters_have_as_many_parameters(language):
    with_attention, without = (
        sum(p.numel() for p in translation._untrained(language, attention, 0).parameters())
        for attention in (True, False)
    )
    assert without == pytest.approx(with_attention, rel=0.01)


@pytest.mark.slow
def test_attention_cures_the_bottleneck():
    """At equal parameters, steps and batches, on the test sentences that the chapters plot."""
    parts = translation.corpus("french")
    shares, tokens = {}, {}
    for attention in (True, False):
        model, _ = translation.trained_translator("french", attention)
        said = translation.translate(model, [pair.source for pair in parts.test])
        shares[attention] = translation.exact_match_by_length(parts.test, said)
        tokens[attention] = translation.token_accuracy_by_length(parts.test, said)
    long = range(13, 21)
    assert sum(shares[True][n] for n in long) / len(long) > 0.8
    assert sum(shares[False][n] for n in long) / len(long) < 0.1
    assert min(shares[True][n] for n in (3, 4, 5)) > 0.9
    assert min(shares[False][n] for n in (3, 4, 5)) > 0.6
    assert min(tokens[True][n] for n in long) > 0.85
    assert tokens[False][20] < tokens[False][5] - 0.3


@pytest.mark.slow
def test_attention_finds_most_of_the_gold_links_and_pairs_that_it_never_saw():
    from autograder.reference.rnn_attention import alignment_error_rate

    parts = translation.corpus("french")
    model, _ = translation.trained_translator("french", True)
    said = translation.translate(model, [pair.source for pair in parts.test])
    right = [(p, t) for p, t in zip(parts.test, said, strict=True) if t.words == p.target]
    found, gold = [translation.links(t) for _, t in right], [set(p.alignment) for p, _ in right]
    among_gold = sum(len(f & g) for f, g in zip(found, gold, strict=True)) / sum(map(len, found))
    assert among_gold > 0.85
    assert alignment_error_rate(found, gold, gold) < 0.2
    new = translation.translate(model, [pair.source for pair in parts.new_pairs])
    assert sum(t.words == p.target for p, t in zip(parts.new_pairs, new, strict=True)) / len(new) > 0.65
