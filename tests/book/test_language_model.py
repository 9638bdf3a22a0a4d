"""What the page "Language models" says in words, on the data that it plots."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.checks import language_model as checks
from autograder.reference.language_model import CausalBlock, KVCache, next_token_loss, perplexity, top_p_filter
from autograder.reference.transformer import Transformer
from autograder.work import count_work
from lab import induction, ngrams, python_text, samples
from lab.language_model import (
    CONTEXT,
    STEPS,
    WIDTH,
    LanguageModel,
    chooser,
    generate,
    nats,
    train,
    trained_model,
    windows,
)

torch.set_num_threads(1)
V = python_text.VOCAB_SIZE


def known(check, id):
    return next(mistake.kernel for mistake in check.mistakes if mistake.id == id)


def smooth(numbers, width=25):
    return np.convolve(numbers, np.ones(width) / width, mode="valid")


def drawn(number, length, seed):
    return windows(python_text.corpus().validation, number, length, torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def corpus():
    return python_text.corpus()


@pytest.fixture(scope="module")
def runs():
    return {width: trained_model(width) for width in STEPS}


@pytest.fixture(scope="module")
def model(runs):
    return runs[WIDTH][0]


@pytest.fixture(scope="module")
def counted(corpus):
    texts = {"counted": corpus.train[:30_000], "held out": corpus.validation}
    return {
        label: [-ngrams.log_probs(corpus.train, text, order, V).mean().item() for order in range(1, 9)]
        for label, text in texts.items()
    }


@torch.no_grad()
def test_nearly_all_work_of_a_search_had_been_done_before():
    decoder = Transformer(50, 50, d_model=48, num_heads=4, d_ff=96, num_layers=1)
    said = torch.zeros(1, 64, dtype=torch.long)
    memory = decoder.encode(said)
    work = [count_work(lambda n=n: decoder.decode(said[:, :n], memory)).multiply_adds for n in range(1, 65)]
    assert sum(work) > 30 * work[-1]
    assert all(new < 0.1 * of for new, of in zip(np.diff(work)[20:], work[21:], strict=True))


def test_an_untrained_model_is_worse_than_chance_and_expects_what_it_read(corpus):
    torch.manual_seed(0)
    untrained = LanguageModel(V)
    tokens = windows(corpus.train, 4, CONTEXT + 1, torch.Generator().manual_seed(0))
    logits = untrained(tokens)
    assert next_token_loss(logits, tokens) > math.log(V) + 0.5
    assert (logits.argmax(-1) == tokens).double().mean() > 0.95


def test_perplexity_depends_on_what_a_token_is(corpus):
    log_probs = ngrams.log_probs(corpus.train, corpus.validation, 3, V)
    log_probs = log_probs[: len(log_probs) // 2 * 2]
    of_pairs = perplexity(log_probs.view(-1, 2).sum(1))
    torch.testing.assert_close(of_pairs, perplexity(log_probs) ** 2)
    of_line = (corpus.validation[2:][: len(log_probs)] == 0).long().cumsum(0)
    of_texts = [perplexity(log_probs[of_line == line]) for line in range(int(of_line.max()))]
    assert torch.stack(of_texts).mean() > perplexity(log_probs) + 0.5


def test_counting_gains_and_then_loses_by_looking_further_back(counted):
    held_out = counted["held out"]
    assert held_out[1] < held_out[0] - 0.5
    assert held_out[2] < held_out[1] - 0.4
    assert 3 <= held_out.index(min(held_out)) <= 5
    assert held_out[7] > min(held_out) + 0.03
    assert all(more < less for less, more in zip(counted["counted"], counted["counted"][1:], strict=False))
    assert counted["counted"][7] < held_out[7] - 0.5


@pytest.mark.slow
def test_the_model_beats_bigrams_and_trigrams_and_not_the_best_table(model, corpus, counted):
    loss = nats(model, corpus.validation)
    assert loss < counted["held out"][1] - 0.5
    assert loss < counted["held out"][2] - 0.05
    assert loss > min(counted["held out"]) + 0.05


@pytest.mark.slow
def test_each_curve_rests_at_the_bigrams_loss(runs, counted):
    for _, losses in runs.values():
        near = np.abs(smooth(losses) - counted["held out"][1]) < 0.15
        assert near.sum() > 100
    assert smooth(runs[64][1])[-1] < smooth(runs[32][1])[-1] - 0.2 < smooth(runs[16][1])[-1] - 0.3


@pytest.mark.slow
def test_the_best_size_grows_with_the_compute(runs, corpus):
    tokens = windows(corpus.train, 4, CONTEXT + 1, torch.Generator().manual_seed(0))
    work, curves = {}, {}
    for width, (_, losses) in runs.items():
        fresh = LanguageModel(V, width)
        work[width] = count_work(lambda fresh=fresh: next_token_loss(fresh(tokens), tokens).backward()).multiply_adds
        curves[width] = smooth(losses)

    def after(width, budget):
        return curves[width][int(budget / work[width]) - 25]

    small = 400 * work[16]
    assert after(16, small) < after(32, small) - 0.03
    assert after(16, small) < after(64, small) - 0.2
    middle = len(runs[32][1]) * work[32]
    assert curves[32][-1] < after(64, middle) - 0.1
    parameters = sum(p.numel() for p in runs[WIDTH][0].parameters())
    assert 1 < work[WIDTH] / (3 * parameters * tokens.numel()) < 1.6


@pytest.fixture(scope="module")
def judged(model, corpus):
    lines = [line for line in python_text.decode(corpus.validation).splitlines() if len(line) >= CONTEXT][:48]
    assert len(lines) == 48
    beginnings = torch.stack([python_text.encode(line[:16]) for line in lines])
    vocabulary = set(samples.words(python_text.decode(corpus.train)))

    def shares(texts):
        return samples.share_known(texts, vocabulary), samples.share_repeated(texts)

    def judge(**options):
        written = generate(model, beginnings, CONTEXT - 16, chooser(**options), KVCache)[:, 16:]
        return shares([python_text.decode(tokens) for tokens in written])

    return judge, shares([line[16:CONTEXT] for line in lines])


@pytest.mark.slow
def test_cold_texts_repeat_themselves_and_hot_ones_have_no_words(judged):
    judge, by_human = judged
    known_words, repeated = zip(*(judge(temperature=temperature) for temperature in (0.0, 0.5, 1.0, 1.5)), strict=True)
    assert known_words[0] > 0.75
    assert repeated[0] > 0.15
    assert max(repeated[1:]) < 0.05
    assert known_words[1] > known_words[2] + 0.1 > known_words[3] + 0.2
    assert by_human[0] > 0.93
    assert by_human[1] < 0.03


@pytest.mark.slow
def test_filters_make_more_words_real_and_greedy_repeats_most(judged):
    judge, _ = judged
    plain, top_p, narrow, top_k = (judge(**options) for options in ({}, {"p": 0.9}, {"p": 0.5}, {"k": 3}))
    assert top_p[0] > plain[0] + 0.01
    assert min(narrow[0], top_k[0]) > plain[0] + 0.15
    assert judge(temperature=0.0)[1] > max(plain[1], top_p[1], narrow[1], top_k[1]) + 0.1


@pytest.mark.slow
@torch.no_grad()
def test_top_p_leaves_few_where_the_model_is_sure_and_many_where_not(model):
    nucleus = (top_p_filter(model(drawn(16, CONTEXT, seed=0)), 0.9) > -math.inf).sum(-1).flatten()
    assert 3 <= nucleus.median() <= 10
    assert nucleus.max() > 25
    assert 0.02 < (nucleus == 1).double().mean() < 0.3


@pytest.mark.slow
@torch.no_grad()
def test_without_the_crossing_token_too_little_is_left_or_nothing(model):
    logits = model(drawn(16, CONTEXT, seed=0))
    probs = logits.softmax(-1)
    right, wrong = (
        (probs * (kernel(logits, 0.9) > -math.inf)).sum(-1)
        for kernel in (top_p_filter, known(checks.top_p_filter, "top-p-without-the-crossing-token"))
    )
    assert right.min() > 0.9 - 1e-5
    assert wrong.mean() < 0.88
    nothing = wrong == 0
    assert 0.02 < nothing.double().mean() < 0.3
    assert (probs.amax(-1)[nothing] > 0.9 - 1e-5).all()


@pytest.mark.slow
def test_losses_that_leak_are_too_good_and_useless_in_writing(corpus):
    asked = drawn(200, 33, seed=2)
    versions = {
        "right": (CausalBlock, next_token_loss),
        "ahead": (known(checks.CausalBlock, "block-sees-one-ahead"), next_token_loss),
        "shift": (CausalBlock, known(checks.next_token_loss, "next-token-not-shifted")),
    }
    ends, alone = {}, {}
    for name, (block, loss) in versions.items():
        torch.manual_seed(0)
        trained = LanguageModel(V, 32, num_heads=1, block=block)
        ends[name] = np.mean(train(trained, corpus.train, 250, loss, context=32, batch=16, lr=1e-2)[-20:])
        with torch.no_grad():
            alone[name] = F.cross_entropy(trained(asked[:, :-1])[:, -1], asked[:, -1]).item()
    assert ends["right"] > 2
    assert max(ends["ahead"], ends["shift"]) < 0.3
    assert abs(alone["right"] - ends["right"]) < 0.5
    assert min(alone["ahead"], alone["shift"]) > alone["right"] + 2


@pytest.mark.slow
@torch.no_grad()
def test_beyond_the_length_of_its_training_the_model_is_worse(model):
    text = drawn(48, 257, seed=3)
    losses = F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:], reduction="none").mean(0)
    assert losses[192:].mean() > losses[64:128].mean() + 0.5


@torch.no_grad()
def test_a_cache_saves_work_changes_nothing_and_is_as_large_as_the_formula_says():
    torch.manual_seed(0)
    model, text = LanguageModel(V), drawn(3, 100, seed=4)
    caches = [KVCache(100) for _ in model.blocks]
    parts = [model(part, caches) for part in text.split([60, 1, 1, 38], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(text), atol=1e-4, rtol=1e-4)
    numbers = sum(part.nelement() for cache in caches for part in (cache.keys, cache.values))
    assert numbers == 2 * len(model.blocks) * 3 * 100 * WIDTH
    endless, ratios = torch.zeros(1, 1025, dtype=torch.long), []
    for n in (64, 1024):
        caches = [KVCache(n + 1) for _ in model.blocks]
        model(endless[:, :n], caches)
        cached = count_work(lambda caches=caches: model(endless[:, :1], caches)).multiply_adds
        ratios.append(count_work(lambda n=n: model(endless[:, : n + 1])).multiply_adds / cached)
    assert ratios[0] > 30
    assert ratios[1] > 400


@pytest.fixture(scope="module")
def inductive():
    texts = induction.draw(200, torch.Generator().manual_seed(1))
    return {layers: induction.trained(layers) for layers in (1, 2)}, texts


@pytest.mark.slow
@torch.no_grad()
def test_two_layers_learn_to_look_up_and_one_does_not(inductive):
    runs, texts = inductive
    one, two = (induction.losses(runs[layers][0], texts).mean() for layers in (1, 2))
    assert one > 4
    assert two < 0.6


@pytest.mark.slow
def test_the_loss_of_two_layers_falls_suddenly(inductive):
    runs, _ = inductive
    losses = smooth(runs[2][1], 10)
    falls, fallen = np.argmax(losses < 4), np.argmax(losses < 1)
    assert 0 < falls < fallen < falls + 250
    assert fallen < len(losses) - 100


@pytest.mark.slow
def test_the_first_layer_looks_one_back_and_the_second_behind_the_earlier_occurrence(inductive):
    runs, texts = inductive
    single, first, second = (
        maps for layers in (1, 2) for maps in induction.attention_maps(runs[layers][0], texts.tokens)
    )
    assert induction.weight_before(first) > 0.4
    assert induction.weight_after_earlier(second, texts) > 0.65
    assert induction.weight_after_earlier(single, texts) < 0.3


@pytest.mark.slow
@torch.no_grad()
def test_the_model_of_the_text_has_no_induction_heads(model):
    again = drawn(200, 24, seed=5).repeat(1, 5)
    losses = F.cross_entropy(model(again[:, :-1]).transpose(1, 2), again[:, 1:], reduction="none")
    assert losses[:, -24:].mean() > losses[:, :23].mean() - 0.05
