"""The kernels of "Decoding" against exhaustive search, PyTorch's losses, and plain loops."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograder.reference import decoding as reference
from autograder.reference.rnn_encoder_decoder import greedy_decode, masked_cross_entropy, shift_right
from autograder.reference.transformer import Transformer

torch.set_num_threads(1)
BOS, EOS, PAD = 0, 1, 2


def normal(*shape, seed=0, scale=1.0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape, scale=scale))


def tree_model(vocab_size, max_length, seed=0, eos_bias=0.0):
    """A model of a tiny vocabulary with a distribution of its own for every prefix: nothing is tied."""
    rows = sum(vocab_size**length for length in range(max_length + 1))
    logits = normal(rows, vocab_size, seed=seed, scale=1.5)
    logits[:, EOS] += eos_bias
    table = logits.log_softmax(-1)

    def next_log_probs(prefix):
        said = prefix[:, 1:]
        number = sum(vocab_size**length for length in range(said.shape[1])) + torch.zeros(len(said), dtype=torch.long)
        for place, token in enumerate(said.unbind(1)):
            number = number + token * vocab_size**place
        return table[number]

    return next_log_probs


def every_hypothesis(vocab_size, max_length):
    """All that can be said: up to ``<eos>``, or cut off at the largest length."""
    words = [token for token in range(vocab_size) if token != EOS]
    for length in range(max_length):
        yield from ((*said, EOS) for said in itertools.product(words, repeat=length))
    yield from itertools.product(words, repeat=max_length)


def log_prob_of(next_log_probs, hypothesis):
    return sum(
        next_log_probs(torch.tensor([[BOS, *hypothesis[:place]]]))[0, token].item()
        for place, token in enumerate(hypothesis)
    )


def exhaustive(next_log_probs, vocab_size, max_length, alpha):
    scored = [
        (log_prob_of(next_log_probs, hypothesis) / len(hypothesis) ** alpha, hypothesis)
        for hypothesis in every_hypothesis(vocab_size, max_length)
    ]
    return max(scored)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize(("vocab_size", "max_length", "eos_bias"), [(3, 4, 0), (4, 3, 1), (5, 3, -2)])
def test_beam_search_equals_exhaustive_search_when_the_beam_is_as_wide_as_the_space(
    vocab_size, max_length, eos_bias, alpha
):
    for seed in range(3):
        model = tree_model(vocab_size, max_length, seed, eos_bias)
        score, hypothesis = exhaustive(model, vocab_size, max_length, alpha)
        tokens, given = reference.beam_search(model, BOS, EOS, vocab_size**max_length, max_length, alpha)
        assert tuple(tokens.tolist()) == hypothesis
        assert given.item() == pytest.approx(score, rel=1e-12)


def test_a_hypothesis_that_ends_cannot_beat_one_that_was_cut_off_without_competing():
    """Where nothing ends, the best one that was cut off is returned, without ``<eos>``."""
    model = tree_model(4, 3, eos_bias=-50.0)
    score, hypothesis = exhaustive(model, 4, 3, 1.0)
    tokens, given = reference.beam_search(model, BOS, EOS, 64, 3, 1.0)
    assert EOS not in hypothesis
    assert (tuple(tokens.tolist()), given.item()) == (hypothesis, pytest.approx(score))


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_the_score_is_that_of_the_hypothesis_and_never_above_the_best(beam_size):
    for seed, alpha in itertools.product(range(4), (0.0, 0.7)):
        model = tree_model(4, 4, seed)
        tokens, score = reference.beam_search(model, BOS, EOS, beam_size, 4, alpha)
        assert score.item() == pytest.approx(log_prob_of(model, tokens.tolist()) / len(tokens) ** alpha)
        assert score <= exhaustive(model, 4, 4, alpha)[0] + 1e-12


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_search_is_a_beam_of_one(seed, alpha):
    model = tree_model(4, 5, seed)
    tokens, score = reference.beam_search(model, BOS, EOS, 1, 5, alpha)
    greedy, log_probs = reference.greedy_search(model, torch.tensor([BOS]), EOS, PAD, 5)
    assert torch.equal(tokens, greedy[0])
    assert score.item() * len(tokens) ** alpha == pytest.approx(log_probs.item())


@pytest.mark.parametrize("max_length", [1, 4, 9])
def test_greedy_search_of_a_batch_is_that_of_each_sentence_alone(max_length):
    biases, influence = normal(6, 9, 7), normal(7, 7, seed=1)

    def model(rows):
        return lambda prefix: (biases[rows, prefix.shape[1] - 1] + influence[prefix].sum(1)).log_softmax(-1)

    together = reference.greedy_search(model(range(6)), torch.full((6,), BOS), EOS, PAD, max_length)
    for row, (tokens, log_prob) in enumerate(zip(*together, strict=True)):
        alone, alone_log_prob = reference.greedy_search(model([row]), torch.tensor([BOS]), EOS, PAD, max_length)
        assert torch.equal(tokens[: alone.shape[1]], alone[0])
        assert (tokens[alone.shape[1] :] == PAD).all()
        torch.testing.assert_close(log_prob, alone_log_prob[0], rtol=1e-12, atol=0)


def test_greedy_search_and_greedy_decode_say_the_same_where_the_state_is_the_prefix():
    model, start = tree_model(5, 6, seed=3), torch.tensor([BOS, BOS])

    def step(tokens, prefix):
        prefix = torch.cat([prefix, tokens[:, None]], 1)
        return model(prefix), prefix

    nothing = torch.zeros(2, 0, dtype=torch.long)
    by_state = greedy_decode(step, nothing, start, EOS, PAD, 6)
    assert torch.equal(by_state, reference.greedy_search(model, start, EOS, PAD, 6)[0])


@torch.no_grad()
def test_a_transformer_is_searched_as_it_was_scored():
    """Both searches take one form of the model, and the log-probabilities are those of teacher forcing."""
    torch.manual_seed(0)
    model = Transformer(6, 5, d_model=12, num_heads=3, d_ff=20, num_layers=2).double()
    source, key_mask = torch.tensor([[3, 4, 5, 2], [5, 3, 0, 0]]), torch.tensor([[True] * 4, [True] * 2 + [False] * 2])
    memory = model.encode(source, key_mask)

    def of_batch(prefix):
        return model.decode(prefix, memory, key_mask)[:, -1].log_softmax(-1)

    tokens, log_probs = reference.greedy_search(of_batch, torch.tensor([BOS, BOS]), EOS, PAD, 6)
    logits = model.decode(shift_right(tokens, BOS), memory, key_mask)
    chosen = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    over = ((tokens == EOS).cumsum(1) - (tokens == EOS).long()) > 0
    torch.testing.assert_close(chosen.masked_fill(over, 0.0).sum(1), log_probs, rtol=1e-10, atol=1e-12)

    def of_one(prefix):
        logits = model.decode(prefix, memory[:1].expand(len(prefix), -1, -1), key_mask[:1].expand(len(prefix), -1))
        return logits[:, -1].log_softmax(-1)

    tokens, score = reference.beam_search(of_one, BOS, EOS, 5**3, 3, 0.8)
    wanted, hypothesis = exhaustive(of_one, 5, 3, 0.8)
    assert (tuple(tokens.tolist()), score.item()) == (hypothesis, pytest.approx(wanted, rel=1e-10))


def test_teacher_forcing_by_loops_and_by_shifting():
    sentences = [[5, 6, 7], [], [8], [9, 5]]
    decoder_input, target, mask = reference.teacher_forcing_batch(sentences, BOS, EOS, PAD)
    for row, sentence in enumerate(sentences):
        assert decoder_input[row].tolist() == [BOS, *sentence] + [PAD] * (3 - len(sentence))
        assert target[row].tolist() == [*sentence, EOS] + [PAD] * (3 - len(sentence))
        assert mask[row].sum() == len(sentence) + 1
    assert torch.equal(decoder_input[mask], shift_right(target, BOS)[mask])


def test_one_hot_targets_give_pytorchs_cross_entropy_in_value_and_gradient():
    """What the chapter says: the sum over one-hot targets is the loss of the kernel before."""
    decoder_input, target, mask = reference.teacher_forcing_batch([[5, 6, 7], [8]], BOS, EOS, PAD)
    logits = normal(*target.shape, 9).requires_grad_()
    one_hot = F.one_hot(target, 9) * mask[..., None]
    by_one_hot = -(one_hot * logits.log_softmax(-1)).sum() / mask.sum()
    by_pytorch = F.cross_entropy(logits[mask], target[mask])
    torch.testing.assert_close(by_one_hot, by_pytorch)
    torch.testing.assert_close(masked_cross_entropy(logits, target, PAD), by_pytorch)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (by_one_hot, by_pytorch))
    )


def test_padding_with_the_number_of_the_end_keeps_the_end():
    _, target, mask = reference.teacher_forcing_batch([[5, 6], [7]], BOS, EOS, EOS)
    assert target[mask].tolist() == [5, 6, EOS, 7, EOS]


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_scheduled_sampling_by_loops(ratio):
    generator = torch.Generator().manual_seed(0)
    given, predicted = (torch.randint(99, (40, 25), generator=generator) for _ in range(2))
    draw = torch.rand(40, 25, generator=generator)
    mixed = reference.scheduled_sampling(given, predicted, draw, ratio)
    for row, t in np.ndindex(*mixed.shape):
        right = t == 0 or draw[row, t] < ratio
        assert mixed[row, t] == (given[row, t] if right else predicted[row, t - 1])
    kept = (mixed == given)[:, 1:][given[:, 1:] != predicted[:, :-1]].double().mean().item()
    assert kept == pytest.approx(ratio, abs=0.05)


def test_decoding_by_length_by_loops():
    length_logits, table = normal(6, 5), normal(6, 5, 4, 7, seed=1)
    tokens = reference.nat_decode_by_length(
        length_logits, lambda lengths: table[torch.arange(6), lengths, : lengths.max()], PAD
    )
    lengths = [max(range(5), key=row.__getitem__) for row in length_logits.tolist()]
    assert tokens.shape == (6, max(lengths))
    for row, t in np.ndindex(*tokens.shape):
        scores = table[row, lengths[row], t].tolist()
        assert tokens[row, t] == (max(range(7), key=scores.__getitem__) if t < lengths[row] else PAD)


def test_decoding_until_eos_by_loops():
    logits = normal(50, 6, 5)
    tokens = reference.nat_decode_until_eos(logits, EOS, PAD)
    whole = logits.argmax(-1).tolist()
    assert any(EOS not in row for row in whole)
    assert any(row.count(EOS) > 1 for row in whole)
    for row, given in zip(whole, tokens.tolist(), strict=True):
        end = row.index(EOS) + 1 if EOS in row else len(row)
        assert given == row[:end] + [PAD] * (len(row) - end)


@pytest.mark.parametrize("decode", ["length", "eos"])
def test_no_token_knows_which_others_were_chosen(decode):
    """The word at one place stays the same when the scores of all other places change."""
    logits, other = normal(1, 6, 7), normal(1, 6, 7, seed=1)
    logits[..., EOS] -= 50
    other[..., EOS] -= 50
    other[:, 3] = logits[:, 3]

    def say(logits):
        if decode == "eos":
            return reference.nat_decode_until_eos(logits, EOS, PAD)
        return reference.nat_decode_by_length(torch.eye(7)[6:], lambda lengths: logits, PAD)

    assert say(logits)[0, 3] == say(other)[0, 3]
    assert not torch.equal(say(logits), say(other))


@pytest.mark.parametrize("scale", [1, 300])
@pytest.mark.parametrize("pad", [0, 3, -100])
def test_length_loss_equals_pytorchs_in_value_and_gradient(pad, scale):
    lengths = torch.tensor([3, 0, 6, 1])
    target = torch.where(torch.arange(6) < lengths[:, None], 5, pad)
    logits = (scale * normal(4, 9)).requires_grad_()
    ours = reference.length_predictor_loss(logits, target, pad)
    theirs = F.cross_entropy(logits, lengths)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (ours, theirs)), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.teacher_forcing_batch([], BOS, EOS, PAD), "no sentence"),
        (
            lambda: reference.scheduled_sampling(
                torch.ones(2, 3, dtype=torch.long), torch.ones(2, 2, dtype=torch.long), torch.ones(2, 3), 0.5
            ),
            r"shape \(2, 3\), predicted \(2, 2\) and draw \(2, 3\)",
        ),
        (
            lambda: reference.scheduled_sampling(*(torch.ones(2, 3, dtype=torch.long),) * 2, torch.ones(2, 3), -0.1),
            "ratio is -0.1; it must be from 0 to 1",
        ),
        (lambda: reference.greedy_search(None, torch.tensor([1]), 2, 0, 0), "max_length is 0; it must be at least 1"),
        (lambda: reference.beam_search(None, BOS, EOS, 0, 4), "beam_size is 0 and max_length is 4; both must be"),
        (
            lambda: reference.length_predictor_loss(normal(2, 4), torch.zeros(2, 4, dtype=torch.long), 0),
            "room for 4 tokens and there are scores for 4 lengths",
        ),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
