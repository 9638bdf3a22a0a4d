"""What the page "Decoding" says in words, on the data that it plots."""

import pytest
import torch

from autograder.checks import decoding as checks
from autograder.reference.decoding import (
    beam_search,
    greedy_search,
    nat_decode_by_length,
    nat_decode_until_eos,
    teacher_forcing_batch,
)
from lab import exposure, synonyms, two_answers
from lab.parallel_corpus import BOS, EOS, PAD

torch.set_num_threads(1)


def known(check, id):
    return next(mistake.kernel for mistake in check.mistakes if mistake.id == id)


def share(truths):
    return torch.as_tensor(truths).double().mean().item()


@pytest.fixture(scope="module")
def pairs():
    return exposure.corpus().test


@pytest.fixture(scope="module")
def translators():
    return {name: exposure.trained(name == "sampled") for name in ("forced", "sampled")}


@pytest.fixture(scope="module")
def compared(translators, pairs):
    return {name: exposure.with_right_and_own_words(model, pairs) for name, (model, _) in translators.items()}


@pytest.mark.slow
def test_a_mistake_makes_the_next_one_likelier(compared):
    found = compared["forced"]
    assert share(found.after_right[found.real]) > 0.93
    assert 0.01 < share(found.after_right[found.real]) - share(found.after_own[found.real]) < 0.1
    lost = found.real & found.after_error
    assert lost.sum() > 200
    assert share(found.after_right[lost]) > 0.8
    assert share(found.after_own[lost]) < 0.7


@pytest.mark.slow
def test_the_share_of_perfect_translations_is_the_same_after_right_and_own_words(compared):
    for found in compared.values():
        perfect = [(right | ~found.real).all(1) for right in (found.after_right, found.after_own)]
        assert torch.equal(*perfect)
        assert perfect[0].any()
        assert not perfect[0].all()


@pytest.mark.slow
def test_the_gap_opens_from_place_to_place(compared):
    found = compared["forced"]
    gaps = [
        share(found.after_right[found.real[:, t], t]) - share(found.after_own[found.real[:, t], t]) for t in range(9)
    ]
    assert gaps[0] == 0
    assert sum(gaps[6:9]) / 3 > sum(gaps[1:4]) / 3 + 0.02


@pytest.mark.slow
def test_wrong_words_in_the_prefix_cost_right_ones_behind_it_and_scheduled_sampling_less_so(translators, pairs):
    curves = {
        name: [exposure.after_corruption(model, pairs, number) for number in range(7)]
        for name, (model, _) in translators.items()
    }
    for curve in curves.values():
        assert all(one > other for one, other in zip(curve, curve[1:], strict=False))
        assert curve[0] > curve[6] + 0.4
    assert curves["forced"][0] > curves["sampled"][0] + 0.02
    assert curves["forced"][1] > curves["sampled"][1]
    for number in (3, 4, 5, 6):
        assert curves["sampled"][number] > curves["forced"][number]


@pytest.mark.slow
def test_scheduled_sampling_recovers_better_and_errs_sooner(compared, translators):
    own, lost, exact = {}, {}, {}
    for name, found in compared.items():
        own[name] = share(found.after_own[found.real])
        lost[name] = share(found.after_own[found.real & found.after_error])
        exact[name] = share((found.after_own | ~found.real).all(1))
    assert lost["sampled"] > lost["forced"]
    assert exact["sampled"] < exact["forced"] - 0.03
    assert own["sampled"] < own["forced"]


@pytest.mark.slow
@torch.no_grad()
def test_no_place_sees_the_word_that_it_is_to_say(translators, pairs):
    model, _ = translators["forced"]
    long = [pair for pair in pairs if len(pair.target) > 6]
    words = [model.target_vocabulary.encode(pair.target) for pair in long]
    read, _, _ = teacher_forcing_batch(words, BOS, EOS, PAD)
    other = read.clone()
    other[:, 4] = other[:, 4].roll(1)
    memory = model.encode([pair.source for pair in long])
    moved = (model.transformer.decode(other, *memory) - model.transformer.decode(read, *memory)).abs()
    assert moved[:, :4].max() == 0
    assert moved[:, 4].max() > 1


def test_a_mask_made_by_comparing_with_the_padding_loses_every_end():
    sentences = [[3, 4, 5], [6]]
    _, target, mask = teacher_forcing_batch(sentences, bos=1, eos=2, pad=2)
    *_, wrong = known(checks.teacher_forcing_batch, "forcing-mask-from-pad")(sentences, bos=1, eos=2, pad=2)
    assert (target[mask] == 2).sum() == 2
    assert (target[wrong] == 2).sum() == 0


@pytest.fixture(scope="module")
def tiny():
    return synonyms.trained()


@torch.no_grad()
def searched(tiny, source, beam_size, alpha, kernel=beam_search):
    of_prefixes = synonyms.next_log_probs(tiny, source)
    return kernel(of_prefixes, synonyms.BOS, synonyms.EOS, beam_size, synonyms.MAX_LENGTH, alpha)


@pytest.fixture(scope="module")
def right_and_errors(tiny):
    shares = {}
    with torch.no_grad():
        for alpha in (0.0, 1.0):
            best = {source: synonyms.exhaustive(tiny, source, alpha)[1] for source in synonyms.sources()}
            for width in (1, 2, 3, 4, 6, 8):
                found = {source: searched(tiny, source, width, alpha) for source in best}
                right = share([synonyms.is_right(tokens, source) for source, (tokens, _) in found.items()])
                errors = share([score < best[source] - 1e-4 for source, (_, score) in found.items()])
                shares[alpha, width] = right, errors
    return shares


@pytest.mark.slow
def test_a_better_search_gives_worse_translations(right_and_errors):
    for width in (1, 2):
        right, errors = right_and_errors[0.0, width]
        assert right > 0.95
        assert errors > 0.6
    for width in (3, 4, 6, 8):
        right, errors = right_and_errors[0.0, width]
        assert right < 0.4
        assert errors < 0.05


@pytest.mark.slow
def test_divided_by_the_length_a_wider_beam_does_no_harm(right_and_errors):
    assert all(right_and_errors[1.0, width][0] > 0.95 for width in (1, 2, 3, 4, 6, 8))
    assert right_and_errors[1.0, 1][1] > right_and_errors[1.0, 3][1]
    assert right_and_errors[1.0, 3][1] < 0.05


@pytest.mark.slow
@torch.no_grad()
def test_the_model_is_right_about_its_data(tiny):
    """Silence has the probability that it had in training, and each of eight translations about a tenth."""
    for source in synonyms.sources():
        of_prefixes = synonyms.next_log_probs(tiny, source)
        first = of_prefixes(torch.tensor([[synonyms.BOS]]))[0].exp()
        assert abs(first[synonyms.EOS] - synonyms.MISSING) < 0.06
        for synonym in synonyms.SYNONYMS[source[0]]:
            assert 0.3 < first[synonym] < 0.55
        if len(source) == 3:
            _, score = searched(tiny, source, 2, 0.0)
            assert 0.07 < score.exp() < 0.15


@pytest.mark.slow
def test_most_mistakes_leave_the_translations_right(tiny):
    ids = (
        "beam-starts-with-copies",
        "beam-not-normalised",
        "beam-length-without-eos",
        "beam-divided-again-and-again",
        "beam-stops-at-first-end",
        "beam-best-of-each-parent",
        "beam-probabilities-added",
        "beam-ends-extended",
    )
    still_right = {
        id: share(
            [
                synonyms.is_right(searched(tiny, source, 3, 0.7, known(checks.beam_search, id))[0], source)
                for source in synonyms.sources()
            ]
        )
        for id in ids
    }
    assert sum(right > 0.9 for right in still_right.values()) >= 4
    assert still_right["beam-not-normalised"] < 0.5
    assert still_right["beam-stops-at-first-end"] < 0.5


@pytest.mark.slow
def test_on_the_corpus_a_wider_beam_finds_little(translators, pairs):
    model, _ = translators["forced"]
    scores, right = {}, {}
    for width in (1, 4):
        found = [
            beam_search(model.next_log_probs([pair.source]), BOS, EOS, width, exposure.MAX_LENGTH, 0.0)
            for pair in pairs[:80]
        ]
        scores[width] = torch.stack([score for _, score in found])
        right[width] = share(
            [
                tuple(model.target_vocabulary.decode(tokens)) == pair.target
                for pair, (tokens, _) in zip(pairs, found, strict=False)
            ]
        )
    assert share(scores[4] > scores[1] + 1e-4) < 0.15
    assert abs(right[4] - right[1]) < 0.05


@pytest.fixture(scope="module")
def spoken():
    """What both models say, the most probable words and drawn ones: shares of right translations and of mixtures."""
    one_by_one, all_at_once = two_answers.trained_one_by_one(), two_answers.trained_all_at_once()
    test = two_answers.encode(two_answers.draw_pairs(500, seed=1))
    generator = torch.Generator().manual_seed(0)
    changes = {"best": lambda scores: scores, "drawn": lambda scores: two_answers.with_noise(scores, generator)}
    verdicts, of_one_kind = {}, {}
    with torch.no_grad():
        after_prefix = one_by_one.next_log_probs(test.source)
        memory = all_at_once.encode(test.source)
        lengths = all_at_once.length_logits(test.source, memory)
        emit = all_at_once.emitter(test.source, memory)
        hidden = torch.full((500, two_answers.LONGEST + 1), two_answers.HIDDEN)
        everywhere = all_at_once(test.source, memory, hidden).log_softmax(-1)
        for name, change in changes.items():
            start = torch.full((500,), two_answers.BOS)
            said = {
                "one by one": greedy_search(
                    lambda prefix, change=change: change(after_prefix(prefix)),
                    start,
                    two_answers.EOS,
                    two_answers.PAD,
                    two_answers.LONGEST + 1,
                )[0],
                "by length": nat_decode_by_length(
                    lengths, lambda n, change=change: change(emit(n).log_softmax(-1)), two_answers.PAD
                ),
                "until eos": nat_decode_until_eos(change(everywhere), two_answers.EOS, two_answers.PAD),
            }
            for way, tokens in said.items():
                found = two_answers.verdicts(tokens, test.answers)
                verdicts[way, name] = share(found["right"]), share(found["mixed"])
                of_one_kind[way, name] = found
    return verdicts, of_one_kind, test, lengths, all_at_once


@pytest.mark.slow
def test_all_at_once_mixes_two_right_answers_and_one_by_one_does_not(spoken):
    verdicts, _, test, lengths, _ = spoken
    assert share(lengths.argmax(-1) == (test.answers[0] != PAD).sum(-1)) > 0.97
    right, mixed = verdicts["one by one", "best"]
    assert right > 0.97
    assert mixed < 0.01
    assert verdicts["one by one", "drawn"][1] < 0.02
    assert verdicts["one by one", "drawn"][0] > 0.7
    for way in ("by length", "until eos"):
        right, mixed = verdicts[way, "best"]
        assert right < 0.6
        assert right + mixed > 0.97


@pytest.mark.slow
def test_drawn_words_agree_as_often_as_independent_ones_would(spoken):
    verdicts, _, test, _, _ = spoken
    sites = (test.answers[0] != test.answers[1]).sum(-1)
    by_chance = (0.5 ** (sites - 1).double()).mean().item()
    for way in ("by length", "until eos"):
        right, mixed = verdicts[way, "drawn"]
        assert abs(right - by_chance) < 0.06
        assert mixed > 0.7


@pytest.mark.slow
def test_each_further_word_that_differs_halves_the_share_of_one_kind(spoken):
    _, found, test, _, _ = spoken
    sites = (test.answers[0] != test.answers[1]).sum(-1)
    assert len(set(sites.tolist())) > 1
    for m in set(sites.tolist()):
        for way, wanted in (("one by one", 1.0), ("by length", 0.5 ** (m - 1)), ("until eos", 0.5 ** (m - 1))):
            right, mixed = found[way, "drawn"]["right"], found[way, "drawn"]["mixed"]
            assert abs(share(right[(sites == m) & (right | mixed)]) - wanted) < 0.12


def test_with_no_division_a_live_hypothesis_overtakes_by_a_larger_sum():
    """Why the search does not stop at the first end, also where the length does not count."""
    bos, eos, word = 0, 1, 2
    table = torch.tensor([[0.0, 0.4, 0.6], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]]).log()
    tokens, _ = beam_search(lambda prefix: table[prefix[:, -1]], bos, eos, 2, 4, 0.0)
    first_end, _ = known(checks.beam_search, "beam-stops-at-first-end")(
        lambda prefix: table[prefix[:, -1]], bos, eos, 2, 4, 0.0
    )
    assert tokens.tolist() == [word, eos]
    assert first_end.tolist() == [eos]


@pytest.mark.slow
def test_more_steps_say_more_of_the_sentences_rightly(spoken):
    *_, test, _, model = spoken
    right = [
        share(two_answers.verdicts(two_answers.refine(model, test.source, steps), test.answers)["right"])
        for steps in (1, 2, 4, 8, 13)
    ]
    assert right[0] + 0.1 < right[1]
    assert right[1] < right[2] < right[3]
    assert right[2] > 0.7
    assert right[4] > 0.93
