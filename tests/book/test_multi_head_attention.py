"""What the page "Multi-head attention" says in words, on the data that it plots."""

import math

import pytest
import torch

from autograder.checks import multi_head_attention as checks
from autograder.reference.multi_head_attention import MultiHeadAttention, attention_flops, path_length
from lab import pointers, sequence_layers
from lab.dependency import dependency_matrix

torch.set_num_threads(1)
LENGTHS = [2**power for power in range(4, 12)]


def known(id):
    return next(mistake.kernel for mistake in checks.MultiHeadAttention.mistakes if mistake.id == id)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_one_head_answers_one_pointer_and_more_heads_answer_both(seed):
    one = pointers.accuracy(pointers.trained(MultiHeadAttention, 1, seed)[0])
    assert max(one["first"], one["second"]) > 0.95
    assert abs(min(one["first"], one["second"]) - pointers.CHANCE) < 0.03
    for num_heads in (2, 4, 8):
        assert pointers.accuracy(pointers.trained(MultiHeadAttention, num_heads, seed)[0])["both"] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("id", ["mha-split-by-view", "mha-merge-no-transpose"])
def test_with_mixed_tokens_the_loss_falls_and_the_answers_stay_wrong(id):
    model, losses = pointers.trained(known(id), num_heads=2)
    assert sum(losses[-20:]) / 20 < sum(losses[:20]) / 20 - 0.3
    shares = pointers.accuracy(model)
    assert shares["both"] < 0.15
    assert pointers.CHANCE + 0.05 < (shares["first"] + shares["second"]) / 2 < 0.4


@pytest.mark.slow
def test_of_four_heads_two_can_be_spared_though_they_look_at_the_pointers():
    model, _ = pointers.trained(MultiHeadAttention, 4)
    spared = []
    for head, looked_at in enumerate(pointers.looked_at(model)):
        with pointers.without_head(model, head):
            if min(pointers.accuracy(model).values()) > 0.99:
                spared.append(looked_at.sum().item())
    assert len(spared) == 2
    assert min(spared) > 0.5


@pytest.mark.parametrize("id", ["mha-split-by-view", "mha-merge-no-transpose"])
def test_with_mixed_tokens_the_future_leaks_through_a_right_mask(id):
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    for layer, leaks in ((MultiHeadAttention, False), (known(id), True)):
        torch.manual_seed(0)
        built = layer(16, 2)
        matrix = dependency_matrix(lambda X, built=built: built(X, X, X, causal), torch.randn(8, 16))
        assert (matrix.triu(1) > 0).any() == leaks
        assert (matrix.diagonal() > 0).any()


@pytest.fixture(scope="module")
def counts():
    return {name: [sequence_layers.counted(name, N) for N in LENGTHS] for name in sequence_layers.NAMES}


def slope(numbers, at):
    """How the cost grows from one length to the next: the exponent of N."""
    return math.log2(numbers[at + 1] / numbers[at])


def test_work_grows_in_proportion_or_with_the_square(counts):
    work = {name: [one.multiply_adds for one in works] for name, works in counts.items()}
    for at in range(len(LENGTHS) - 1):
        assert slope(work["rnn"], at) == pytest.approx(1, abs=0.02)
        assert slope(work["convolution"], at) == pytest.approx(1, abs=0.02)
    assert slope(work["self-attention"], 0) < 1.25
    assert 1.9 < slope(work["self-attention"], -2) < 2
    assert all(attention > rnn for attention, rnn in zip(work["self-attention"], work["rnn"], strict=True))


def test_memory_grows_in_proportion_or_with_the_square(counts):
    largest = {name: [one.largest for one in works] for name, works in counts.items()}
    assert slope(largest["self-attention"], -2) == pytest.approx(2, abs=0.01)
    assert largest["self-attention"][-1] == sequence_layers.NUM_HEADS * LENGTHS[-1] ** 2
    for name in ("rnn", "convolution"):
        assert slope(largest[name], -2) == pytest.approx(1, abs=0.01)


def test_projections_and_scores_take_the_same_work_at_twice_the_width():
    for d_model, num_heads in ((512, 8), (64, 4)):
        length = 2 * d_model
        assert attention_flops(1, length, length, num_heads, d_model // num_heads) == 2 * 8 * length * d_model**2


def test_paths_grow_as_the_table_says():
    for length in LENGTHS:
        assert path_length("rnn", length) == length
        assert path_length("convolution", length) == math.ceil((length - 1) / 2)
        assert (
            3 ** (path_length("dilated convolution", length) - 1)
            < length
            <= 3 ** path_length("dilated convolution", length)
        )
        assert path_length("self-attention", length) == 1
