"""What the page "Attention in the decoder" says in words, where no cell of it asserts it."""

import pytest
import torch

from autograder.checks import rnn_attention as checks
from autograder.reference.rnn_attention import (
    additive_scores,
    alignment_error_rate,
    attention_decoder_step,
    context_vector,
    masked_softmax,
    multiplicative_scores,
)
from autograder.work import count_work
from lab import translation
from tests.reference.test_rnn_attention import normal, step_inputs

torch.set_num_threads(1)
KNOWN = {mistake.id: mistake.kernel for mistake in checks.additive_scores.mistakes}


def test_without_the_tangent_the_decoders_state_does_not_change_the_weights():
    H, W, U, v = normal(7, 5), normal(4, 6), normal(5, 6), normal(6)
    one, other = normal(4), normal(4, seed=1)
    for kernel, equal in ((KNOWN["additive-no-tanh"], True), (additive_scores, False)):
        first, second = (torch.softmax(kernel(s, H, W, U, v), -1) for s in (one, other))
        assert torch.allclose(first, second) == equal


def test_costs_of_the_two_scores_are_what_the_formulas_say():
    d_s, d_h, d_a, words = 12, 16, 8, 20
    s, H, W, U, v = normal(1, d_s), normal(1, words, d_h), normal(d_s, d_a), normal(d_h, d_a), normal(d_a)
    elementwise = 2 * words * d_a  # the sum and the tangent
    counted = count_work(lambda: additive_scores(s, H, W, U, v)).multiply_adds
    assert counted == d_s * d_a + words * (d_h + 1) * d_a + elementwise
    counted = count_work(lambda: multiplicative_scores(s, H, normal(d_s, d_h))).multiply_adds
    assert counted == d_s * d_h + words * d_h


def test_the_gradient_of_the_context_by_a_score_points_from_the_context_to_the_state():
    scores, H, real = normal(7), normal(7, 5), torch.ones(7, dtype=torch.bool)
    jacobian = torch.autograd.functional.jacobian(lambda e: context_vector(masked_softmax(e, real), H), scores)
    weights = masked_softmax(scores, real)
    torch.testing.assert_close(jacobian.T, weights[:, None] * (H - weights @ H))


def test_a_decoder_that_is_certain_has_no_gradient_for_its_scores():
    scores = torch.tensor([0.0, 1e3, 0.0], dtype=torch.float64, requires_grad=True)
    context_vector(masked_softmax(scores, torch.ones(3, dtype=torch.bool)), normal(3, 5)).sum().backward()
    assert not scores.grad.any()


def test_equal_states_give_equal_weights():
    y, s, H, key_mask, *weights = step_inputs()
    _, context, attn_weights = attention_decoder_step(y, s, H[:, :1].expand_as(H), torch.ones_like(key_mask), *weights)
    torch.testing.assert_close(attn_weights, torch.full_like(attn_weights, 1 / 7))
    torch.testing.assert_close(context, H[:, 0])


def test_error_rate_counts_a_sure_link_twice_and_a_possible_one_once():
    sure, possible = [{(0, 0), (1, 1)}], [{(0, 0), (1, 1), (1, 2)}]
    assert alignment_error_rate([{(0, 0), (1, 1)}], sure, possible) == 0
    assert alignment_error_rate([{(0, 0), (1, 1), (1, 2)}], sure, possible) == 0
    assert alignment_error_rate([{(0, 0)}], sure, possible) == pytest.approx(1 / 3)


@pytest.mark.slow
def test_attention_cures_the_bottleneck_at_equal_parameters_and_steps():
    """The two translators that the page plots, from the store where they were trained once."""
    pairs = [pair for pair in translation.corpus("french").test if len(pair.source) >= 13]
    share, size, steps = {}, {}, {}
    for attention in (True, False):
        model, losses = translation.trained_translator("french", attention=attention)
        translations = translation.translate(model, [pair.source for pair in pairs])
        right = [pair.target == said.words for pair, said in zip(pairs, translations, strict=True)]
        share[attention], steps[attention] = sum(right) / len(right), len(losses)
        size[attention] = sum(p.numel() for p in model.parameters())
    assert max(len(pair.source) for pair in pairs) == 20
    assert share[True] >= 0.8
    assert share[False] < 0.1
    assert steps[True] == steps[False]
    assert size[True] == pytest.approx(size[False], rel=0.01)
