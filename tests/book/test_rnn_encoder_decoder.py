"""What the page "The recurrent encoder-decoder" says in words, on the data that it plots."""

import numpy as np
import pytest
import torch

from autograder.checks import rnn_encoder_decoder as checks
from autograder.reference.rnn_encoder_decoder import gru_cell, lstm_cell, masked_cross_entropy
from lab import memory, order, parallel_corpus, translation
from lab.parallel_corpus import PAD
from lab.readers import MeanReader, PlaceReader, RecurrentReader

torch.set_num_threads(1)


def known(check, id):
    return next(mistake.kernel for mistake in check.mistakes if mistake.id == id)


@pytest.mark.slow
def test_a_step_for_each_symbol_reads_any_length_and_sees_the_order():
    shares = {}
    for name, build in {
        "mean": lambda: MeanReader(order.NUM_SYMBOLS, 2),
        "places": lambda: PlaceReader(order.NUM_SYMBOLS, 2, places=48),
        "steps": lambda: RecurrentReader("GRU", order.NUM_SYMBOLS, 2),
    }.items():
        torch.manual_seed(0)
        reader = build()
        order.train(reader, steps=600, max_length=16)
        shares[name] = {length: order.accuracy(reader, length) for length in (2, 16, 24, 48)}
    assert all(0.45 < share < 0.55 for share in shares["mean"].values())
    assert shares["places"][16] > 0.95
    assert 0.55 < shares["places"][24] < 0.8
    assert shares["places"][48] < 0.6
    assert all(share > 0.98 for share in shares["steps"].values())


@pytest.mark.slow
def test_gates_let_a_symbol_and_its_gradient_live():
    answers = {}
    for cell in ("RNN", "GRU", "LSTM"):
        answers[cell] = []
        for seed in range(3):
            torch.manual_seed(seed)
            reader = RecurrentReader(cell, memory.NUM_SYMBOLS, memory.NUM_SYMBOLS)
            before = memory.gradient_norms(reader, 40)
            assert before[10] > 1e2 * before[30]
            memory.train(reader, steps=400, max_distance=20, seed=seed)
            after = memory.gradient_norms(reader, 40)
            assert (after[10] < 20 * after[30]) == (cell != "RNN")
            answers[cell].append(memory.accuracy(reader, 20))
    assert min(answers["GRU"] + answers["LSTM"]) > 0.95
    assert max(answers["RNN"]) < 0.8


def test_the_norm_of_the_weights_is_above_one_and_the_gradient_vanishes_all_the_same():
    torch.manual_seed(0)
    reader = RecurrentReader("RNN", memory.NUM_SYMBOLS, memory.NUM_SYMBOLS)
    assert torch.linalg.matrix_norm(reader.cell.weight_hh, 2) > 1


@pytest.mark.parametrize(("bias", "left"), [(5.0, 0.87), (0.0, 1e-6)])
def test_a_gate_near_one_keeps_the_state(bias, left):
    h, biases = torch.ones(1, 1), torch.tensor([0.0, bias, 0.0])
    for _ in range(20):
        h = gru_cell(torch.zeros(1, 1), h, torch.zeros(3, 1), torch.zeros(3, 1), biases, torch.zeros(3))
    assert h.item() == pytest.approx(left, rel=0.1)


def test_a_forget_gate_of_one_forgets_nothing():
    c = torch.tensor([[3.0]])
    biases = torch.tensor([-50.0, 50.0, 0.0, 0.0])
    _, new_c = lstm_cell(
        torch.ones(1, 1), torch.ones(1, 1), c, torch.zeros(4, 1), torch.zeros(4, 1), biases, 0 * biases
    )
    assert new_c.item() == pytest.approx(3.0)


def test_gates_in_another_order_are_the_same_cell_with_its_rows_in_that_order():
    """So a network that is trained with the mistake is as good; weights from elsewhere are wrong."""
    generator = torch.Generator().manual_seed(0)
    x, h = torch.randn(4, 3, generator=generator), torch.randn(4, 5, generator=generator)
    weights = [torch.randn(15, *rest, generator=generator) for rest in ((3,), (5,), (), ())]
    wrong = known(checks.gru_cell, "gru-gate-order-update-first")
    reordered = [torch.cat([weight[5:10], weight[:5], weight[10:]]) for weight in weights]
    torch.testing.assert_close(wrong(x, h, *reordered), gru_cell(x, h, *weights))
    assert not torch.allclose(wrong(x, h, *weights), gru_cell(x, h, *weights))


def test_without_padding_the_means_are_equal_and_with_it_they_are_not():
    logits = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [8, 7, 6, 5]])
    padded = torch.where(torch.arange(4) < torch.tensor([[4], [1], [2]]), target, PAD)
    for id in ("loss-mean-of-all-places", "loss-mean-of-sentence-means", "loss-padding-counted"):
        wrong = known(checks.masked_cross_entropy, id)
        assert wrong(logits, target, PAD) == pytest.approx(masked_cross_entropy(logits, target, PAD).item())
        assert wrong(logits, padded, PAD) != pytest.approx(masked_cross_entropy(logits, padded, PAD).item(), rel=0.01)


def over(curve, low, high):
    return np.mean([share for length, share in curve.items() if low <= length <= high])


@pytest.fixture(scope="module")
def translator():
    return translation.trained_translator("french", attention=False)[0]


@pytest.mark.slow
def test_the_context_is_a_bottleneck(translator):
    corpus = translation.corpus("french")
    said = translation.translate(translator, [pair.source for pair in corpus.test])
    exact = translation.exact_match_by_length(corpus.test, said)
    tokens = translation.token_accuracy_by_length(corpus.test, said)
    assert over(exact, 3, 5) > 0.85
    assert 0.1 < over(exact, 8, 9) < 0.7
    assert over(exact, 13, 20) < 0.1
    assert over(tokens, 3, 5) > 0.9
    assert over(tokens, 13, 20) < 0.5

    seen = corpus.train[:2000]
    exact_seen = translation.exact_match_by_length(
        seen, translation.translate(translator, [pair.source for pair in seen])
    )
    assert over(exact_seen, 13, 20) < 0.1


@pytest.mark.slow
@torch.no_grad()
def test_a_word_is_harder_in_a_long_sentence_and_the_beginning_is_the_easiest(translator):
    corpus = translation.corpus("french")
    shares, firsts = {"short": [], "long": []}, []
    for pairs in (corpus.test[at : at + 250] for at in range(0, len(corpus.test), 250)):
        batch = parallel_corpus.batch(pairs, translator.source_vocabulary, translator.target_vocabulary)
        right, real = translator(batch).argmax(-1) == batch.target, batch.target != PAD
        share = (right & real).sum(1) / real.sum(1)
        long = batch.source_lengths >= 13
        shares["short"] += share[batch.source_lengths <= 5].tolist()
        shares["long"] += share[long].tolist()
        firsts += right[long, 0].tolist()
    assert np.mean(shares["short"]) > 0.95
    assert np.mean(shares["long"]) < 0.8
    assert np.mean(firsts) > np.mean(shares["long"]) + 0.1
