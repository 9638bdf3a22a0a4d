"""The kernels of "Language models" against PyTorch's own operators, plain loops and exhaustive search."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from autograder.reference import language_model as reference

torch.set_num_threads(1)

D_MODEL, NUM_HEADS, D_FF = 12, 3, 10


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def texts(batch=4, length=6, vocabulary=9, pad=None):
    tokens = torch.from_numpy(np.random.default_rng(0).integers(1, vocabulary - 1, (batch, length)))
    if pad is not None:
        tokens[1, 4:] = tokens[3, 2:] = pad
    return 2 * normal(batch, length, vocabulary), tokens


# next_token_loss


@pytest.mark.parametrize("pad", [None, 0, 8])
def test_next_token_loss_equals_loops_in_value_and_gradient(pad):
    logits, tokens = texts(pad=pad)
    logits.requires_grad_()
    losses = [
        logits[i, t].logsumexp(0) - logits[i, t, tokens[i, t + 1]]
        for i, t in itertools.product(range(4), range(5))
        if pad is None or tokens[i, t + 1] != pad
    ]
    wanted, given = sum(losses) / len(losses), reference.next_token_loss(logits, tokens, pad)
    torch.testing.assert_close(given, wanted, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (given, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)
    assert not gradients[0][:, -1].any()  # the last place predicts nothing
    assert gradients[0][:, 0].all()


def test_the_loss_of_a_model_that_knows_nothing_and_of_one_that_copies():
    _, tokens = texts()
    assert reference.next_token_loss(torch.zeros(4, 6, 9), tokens).item() == pytest.approx(math.log(9))
    what_was_read = 50.0 * F.one_hot(tokens, 9)
    what_comes = 50.0 * F.one_hot(tokens.roll(-1, 1), 9)
    assert reference.next_token_loss(what_was_read, tokens) > 20
    assert reference.next_token_loss(what_comes, tokens) < 1e-12


def test_a_loss_of_padding_alone_is_nan():
    logits, _ = texts()
    assert reference.next_token_loss(logits, torch.zeros(4, 6, dtype=torch.long), pad=0).isnan()


# perplexity


def test_perplexity_is_the_exponential_of_the_loss_over_all_texts():
    logits, tokens = texts(pad=0)
    log_probs = logits.log_softmax(-1)[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)
    given = reference.perplexity(log_probs, tokens[:, 1:] != 0)
    torch.testing.assert_close(given, reference.next_token_loss(logits, tokens, pad=0).exp(), rtol=1e-12, atol=0)


def test_perplexity_counts_equally_probable_tokens():
    assert reference.perplexity(torch.full((3, 5), 1 / 7, dtype=torch.float64).log()).item() == pytest.approx(7)
    mask = torch.tensor([[True, True], [True, False]])
    log_probs = torch.tensor([[0.5, 0.125], [0.25, math.nan]], dtype=torch.float64).log()
    assert reference.perplexity(log_probs, mask).item() == pytest.approx((0.5 * 0.125 * 0.25) ** (-1 / 3))
    log_probs[0, 0] = -math.inf
    assert reference.perplexity(log_probs, mask).item() == math.inf


# KVCache


def chunkings(length):
    """All ways to cut so many tokens into chunks."""
    cuts = [cut for number in range(length) for cut in itertools.combinations(range(1, length), number)]
    return [[end - start for start, end in itertools.pairwise([0, *cut, length])] for cut in cuts]


@pytest.mark.parametrize("chunks", chunkings(5), ids=str)
def test_cache_returns_what_was_appended(chunks):
    keys, values = normal(4, 3, 5, 2), normal(4, 3, 5, 6, seed=1).float()
    cache, read = reference.KVCache(max_length=5), 0
    for new in zip(keys.split(chunks, dim=-2), values.split(chunks, dim=-2), strict=True):
        all_keys, all_values = cache.append(*new)
        read += new[0].shape[-2]
        assert cache.length == read
        assert torch.equal(all_keys, keys[..., :read, :])
        assert torch.equal(all_values, values[..., :read, :])
        assert (all_keys.dtype, all_values.dtype) == (torch.float64, torch.float32)
    with pytest.raises(ValueError, match="holds 5 tokens of at most 5; 1 more do not fit"):
        cache.append(keys[..., :1, :], values[..., :1, :])
    assert cache.length == 5


# CausalBlock


def blocks(**options):
    """PyTorch's layer, and ours with the same parameters."""
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, D_FF, **({"dropout": 0.0} | options), batch_first=True)
    for parameter in theirs.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = reference.CausalBlock(D_MODEL, NUM_HEADS, D_FF, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


FUTURE = torch.ones(6, 6, dtype=torch.bool).triu(1)  # what PyTorch's modules want: True is blocked


def test_block_equals_pytorchs_layer_in_value_and_gradient():
    theirs, ours = blocks()
    assert theirs.state_dict().keys() == ours.state_dict().keys()
    x = normal(4, 6, D_MODEL).requires_grad_()
    given, wanted = ours(x), theirs(x, src_mask=FUTURE)
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    weights = normal(*given.shape, seed=1)
    gradients = [
        torch.autograd.grad((output * weights).sum(), [x, *(dict(module.named_parameters())[name] for name in names)])
        for names in [sorted(dict(ours.named_parameters()))]
        for output, module in ((given, ours), (wanted, theirs))
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_no_token_is_moved_by_one_that_comes_after_it():
    _, block = blocks()
    x = normal(1, 6, D_MODEL)
    moves = torch.autograd.functional.jacobian(block, x)[0, :, :, 0].abs().amax((1, 3))  # (output's token, input's)
    assert not moves[FUTURE].any()
    assert (moves[~FUTURE] > 1e-6).all()


@pytest.mark.parametrize("chunks", chunkings(6), ids=str)
def test_with_a_cache_the_block_gives_the_same(chunks):
    _, block = blocks()
    x = normal(4, 6, D_MODEL)
    with torch.no_grad():
        cache = reference.KVCache(max_length=6)
        given = torch.cat([block(part, cache) for part in x.split(chunks, dim=1)], dim=1)
        torch.testing.assert_close(given, block(x), rtol=1e-10, atol=1e-12)
    assert cache.length == 6


def test_dropout_acts_in_training_alone_and_leaves_the_residual_path():
    _, block = blocks(dropout=1.0)
    x = normal(4, 6, D_MODEL)
    torch.testing.assert_close(block(x), block.norm2(block.norm1(x)))
    _, without = blocks()
    torch.testing.assert_close(block.eval()(x), without(x))


@pytest.mark.parametrize("length", [1, 7, 30])
def test_block_does_the_work_that_its_notes_say(length):
    _, block = blocks()
    x, cache = normal(2, length, D_MODEL), reference.KVCache(length)
    with torch.no_grad(), FlopCounterMode(display=False) as whole:
        block(x)
    with torch.no_grad():
        if length > 1:
            block(x[:, :-1], cache)
        with FlopCounterMode(display=False) as last:
            block(x[:, -1:], cache)
    d, f, N = D_MODEL, D_FF, length
    assert whole.get_total_flops() == 2 * 2 * (4 * N * d**2 + 2 * N * d * f + 2 * N**2 * d)
    assert last.get_total_flops() == 2 * 2 * (4 * d**2 + 2 * d * f + 2 * N * d)


# sample_temperature


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_even_draws_give_each_token_its_probability(temperature):
    logits, count = normal(7), 100_000
    draw = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens = reference.sample_temperature(logits.expand(count, 7), temperature, draw)
    frequencies = tokens.bincount(minlength=7) / count
    torch.testing.assert_close(frequencies.double(), torch.softmax(logits / temperature, 0), rtol=0, atol=2 / count)
    assert (tokens.diff() >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_the_largest_draw_stay_on_the_line(dtype):
    """Also where the probabilities do not quite sum to one, and tokens at both ends have none."""
    draws = torch.tensor([0.0, 1 - torch.finfo(dtype).eps / 2], dtype=dtype)
    assert draws[1] < 1
    for vocabulary in range(3, 300):
        logits = normal(vocabulary).to(dtype)
        logits[[0, -1]] = -math.inf
        tokens = reference.sample_temperature(logits.expand(2, vocabulary), 1.0, draws)
        assert tokens[0] == 1
        assert torch.isfinite(logits[tokens[1]])


def test_temperature_0_is_the_limit():
    logits, draw = normal(5, 8), torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    greedy = reference.sample_temperature(logits, 0.0, draw)
    assert torch.equal(greedy, logits.argmax(-1))
    assert torch.equal(greedy, reference.sample_temperature(logits, 1e-4, draw))
    assert reference.sample_temperature(torch.zeros(4), 0.0, torch.tensor(0.9)) == 0


# top_k_filter and top_p_filter


@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_top_k_leaves_the_k_best(k):
    logits = normal(5, 8)
    filtered = reference.top_k_filter(logits, k)
    for row, given in zip(logits, filtered, strict=True):
        best = row.argsort(descending=True)[:k]
        assert torch.equal(given[best], row[best])
        assert given.isfinite().sum() == min(k, 8)
        assert (given[~given.isfinite()] == -math.inf).all()


def test_top_k_keeps_ties():
    assert reference.top_k_filter(torch.tensor([1.0, 2.0, 2.0, 0.0]), 1).isfinite().tolist() == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("p", [0.01, 0.3, 0.6, 0.9, 0.99])
def test_top_p_leaves_the_smallest_set_that_reaches_p(p):
    """Found by trying all sets of tokens."""
    for seed in range(10):
        logits = normal(6, seed=seed)
        probs = torch.softmax(logits, 0)
        reaching = [
            kept
            for size in range(1, 7)
            for kept in itertools.combinations(range(6), size)
            if probs[list(kept)].sum() >= p
        ]
        fewest = min(map(len, reaching))
        wanted = max((kept for kept in reaching if len(kept) == fewest), key=lambda kept: probs[list(kept)].sum())
        filtered = reference.top_p_filter(logits, p)
        assert filtered.isfinite().nonzero().flatten().tolist() == list(wanted)
        assert torch.equal(filtered[list(wanted)], logits[list(wanted)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_p_of_1_excludes_nothing(dtype):
    logits = (5 * normal(3, 5000)).to(dtype)
    assert torch.equal(reference.top_p_filter(logits, 1.0), logits)


def test_top_p_keeps_ties_whatever_the_order():
    for order in itertools.permutations([2.0, 1.0, 1.0, -1.0]):
        logits = torch.tensor(order)
        assert torch.equal(reference.top_p_filter(logits, 0.6).isfinite(), logits > 0)


def test_top_p_after_top_k_reads_probabilities_that_sum_to_one():
    """Of ten tokens of nearly equal probability two are left, with about half each; of all ten, .4 would need five."""
    logits = torch.arange(10) * 1e-3
    filtered = reference.top_k_filter(logits, 2)
    assert reference.top_p_filter(filtered, 0.4).isfinite().sum() == 1
    assert reference.top_p_filter(filtered, 0.9).isfinite().sum() == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.next_token_loss(torch.zeros(2, 1, 9), torch.zeros(2, 1, dtype=torch.long)), "at least two"),
        (lambda: reference.perplexity(torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.bool)), r"mask \(2, 4\)"),
        (lambda: reference.perplexity(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)), "No token is real"),
        (lambda: reference.KVCache(0), "at least one token"),
        (lambda: reference.KVCache(9).append(torch.zeros(2, 3, 4), torch.zeros(2, 2, 4)), "each key needs one value"),
        (lambda: reference.sample_temperature(torch.zeros(2, 3), 1.0, torch.zeros(3)), "each row needs one draw"),
        (lambda: reference.sample_temperature(torch.zeros(2, 3), -1.0, torch.zeros(2)), "temperature is -1.0"),
        (lambda: reference.top_k_filter(torch.zeros(3), 0), "k is 0; at least one"),
        (lambda: reference.top_p_filter(torch.zeros(3), 0.0), "p is 0.0; it must be above 0"),
        (lambda: reference.top_p_filter(torch.zeros(3), 1.1), "p is 1.1; it must be above 0 and at most 1"),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
