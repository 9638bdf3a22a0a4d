"""Random symbols cannot be guessed by a right kernel, and can by one that sees a step ahead."""

import pytest
import torch

from autograder.checks import self_attention as checks
from autograder.reference.self_attention import masked_self_attention
from lab import guessing

torch.set_num_threads(1)
KNOWN = {mistake.id: mistake.kernel for mistake in checks.masked_self_attention.mistakes}


def late_loss(kernel):
    torch.manual_seed(0)
    losses = guessing.train(guessing.Guesser(kernel), 400)
    return sum(losses[-50:]) / 50


@pytest.mark.slow
def test_only_a_kernel_that_sees_the_future_beats_an_honest_guess():
    assert late_loss(masked_self_attention) > 0.98 * guessing.BEST_LOSS
    assert late_loss(KNOWN["masked-causal-one-future"]) < 0.3 * guessing.BEST_LOSS
