"""Transformers with a part taken away: the part is gone, everything else is as it was."""

import pytest
import torch

from autograder.reference import transformer as reference
from autograder.reference.self_attention import sinusoidal_positions
from lab import ablations, parallel_corpus
from lab.ablations import AttentionAlone, Unscaled

torch.set_num_threads(1)
ONE, ZERO = torch.ones(6), torch.zeros(6)


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch):
    pairs = parallel_corpus.draw_pairs("french", 70, seed=0, lengths=(3, 8))
    monkeypatch.setattr(ablations, "short_sentences", lambda: (pairs[:60], pairs[60:64]))

    def trained_now(build, train, **arguments):
        model = build(**arguments)
        return model, train(model, **arguments)

    monkeypatch.setattr(ablations, "trained_once", trained_now)  # these are not to be kept


def test_kernels_are_replaced_inside_the_block_alone():
    right = reference.feed_forward
    with ablations.replaced(feed_forward=max):
        assert reference.feed_forward is max
    assert reference.feed_forward is right
    with pytest.raises(ZeroDivisionError), ablations.replaced(feed_forward=max):
        1 / 0  # noqa: B018
    assert reference.feed_forward is right
    with pytest.raises(ValueError, match="'softmax'"), ablations.replaced(softmax=max):
        pass


def test_joins_are_the_kernel_without_one_of_its_halves():
    x, output = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    right = reference.residual_add_norm(x, output, ONE, ZERO)
    assert torch.equal(reference.layer_norm(ablations.add_only(x, output, ONE, ZERO), ONE, ZERO), right)
    without = reference.residual_add_norm(torch.zeros(3, 6), output, ONE, ZERO)
    assert torch.equal(ablations.norm_only(x, output, ONE, ZERO), without)
    assert torch.equal(ablations.output_only(x, output, ONE, ZERO), output)
    assert torch.equal(ablations.add_only(x, output, ONE, ZERO, dropout=1.0), x)


@pytest.mark.parametrize("part", ablations.WITHOUT)
def test_a_part_that_is_taken_away_is_not_trained(part):
    run = ablations.train_small(without=part, steps=2)
    torch.manual_seed(0)
    untrained = ablations.TransformerTranslator(
        run.model.source_vocabulary, run.model.target_vocabulary, **ablations.SMALL
    )
    of = {"norm": "norm", "feed-forward": "linear"}.get(part)
    for (name, value), start in zip(run.model.named_parameters(), untrained.parameters(), strict=True):
        if of and of in name:
            assert torch.equal(value, start)
        elif not of and "in_proj_bias" not in name:
            assert not torch.equal(value, start)
    assert len(run.losses) == 2


def test_embeddings_can_be_left_unscaled():
    model = Unscaled(20, 30, d_model=8, num_heads=2, d_ff=12, num_layers=1)
    tokens = torch.tensor([[3, 7, 1]])
    wanted = model.source_embedding(tokens) + sinusoidal_positions(3, 8).float()
    torch.testing.assert_close(model.embed(tokens, model.source_embedding), wanted)


def test_matrices_of_the_blocks_alone_are_scaled():
    plain, large = (ablations.train_small(steps=0, initial_scale=scale).model for scale in (1.0, 2.0))
    for (name, value), other in zip(plain.named_parameters(), large.parameters(), strict=True):
        factor = 2 if value.dim() == 2 and "embedding" not in name else 1
        assert torch.equal(factor * value, other), name


def test_depth_is_measured_from_input_to_output():
    numbers = ablations.through_depth(depth=3)
    assert len(numbers.variety) == len(numbers.size) == len(numbers.gradient) == 4
    assert numbers.gradient[-1] == 1
    assert numbers.size[1:] == pytest.approx([1, 1, 1], rel=1e-3)  # each block ends in a norm
    assert numbers.variety[0] == pytest.approx((1 - 1 / 16) ** 0.5, rel=0.02)
    assert ablations.through_depth(layer=AttentionAlone, depth=3).variety[-1] < 1e-3
