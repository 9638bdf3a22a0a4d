"""Modern language models: their designs, their cache, their training, and kernels of one's own."""

import pytest
import torch

from autograder.reference import modern_transformer as reference
from autograder.reference.language_model import CausalBlock, KVCache
from autograder.reference.self_attention import causal_mask
from lab import gating, modern
from lab.modern import LADDER, OF_2017, TODAY, ModernBlock, ModernLanguageModel

torch.set_num_threads(1)


def small(design=TODAY, **kernels):
    torch.manual_seed(0)
    return ModernLanguageModel(20, design, d_model=24, num_heads=4, **kernels)


def texts(length, batch=3):
    return torch.randint(20, (batch, length), generator=torch.Generator().manual_seed(1))


def copy(block, other):
    """Give one of the course's blocks the weights of a block of 2017's layers."""
    with torch.no_grad():
        for part, name in (("weight", "in_proj_weight"), ("bias", "in_proj_bias")):
            layers = (block.query, block.key, block.value)
            getattr(other.self_attn, name).copy_(torch.cat([getattr(layer, part) for layer in layers]))
    for here, there in (
        (block.output, other.self_attn.out_proj),
        (block.network.up, other.linear1),
        (block.network.down, other.linear2),
        (block.norm1, other.norm1),
        (block.norm2, other.norm2),
    ):
        there.load_state_dict(here.state_dict())


@torch.no_grad()
@pytest.mark.parametrize(("rung", "make"), [("2017", CausalBlock), ("+ pre-norm", reference.PreNormBlock)])
def test_the_first_rungs_are_the_kernels_blocks(rung, make):
    torch.manual_seed(0)
    block, other = ModernBlock(24, 4, 40, LADDER[rung]), make(24, 4, 40)
    copy(block, other)
    x = torch.randn(2, 7, 24)
    wanted = other(x) if make is CausalBlock else other(x, causal_mask(7, 7))
    torch.testing.assert_close(block(x), wanted)


def test_each_rung_changes_one_piece():
    designs = list(LADDER.values())
    assert designs[0] == OF_2017
    for before, after in zip(designs, designs[1:], strict=False):
        assert sum(vars(before)[name] != vars(after)[name] for name in vars(before)) == 1


def test_a_gated_network_is_as_large_as_one_without_to_a_few_weights():
    sizes = [sum(p.numel() for p in small(LADDER[rung]).parameters()) for rung in ("+ RMS norm", "+ SwiGLU")]
    assert abs(sizes[0] - sizes[1]) < 0.02 * sizes[0]


@torch.no_grad()
@pytest.mark.parametrize("design", [OF_2017, TODAY])
def test_no_place_sees_a_later_token(design):
    model, tokens = small(design), texts(9)
    other = tokens.clone()
    other[:, 5] = (other[:, 5] + 1) % 20
    moved = (model(tokens) - model(other)).abs().amax((0, 2))
    assert moved[:5].max() < 1e-6
    assert (moved[5:] > 1e-4).all()


@torch.no_grad()
@pytest.mark.parametrize("design", [OF_2017, TODAY])
def test_in_parts_with_caches_the_logits_are_those_of_the_whole(design):
    model, tokens = small(design), texts(9)
    caches = [KVCache(9) for _ in model.blocks]
    logits = torch.cat([model(part, caches) for part in tokens.split([4, 1, 3, 1], 1)], 1)
    torch.testing.assert_close(logits, model(tokens), atol=1e-5, rtol=1e-5)
    assert caches[0].keys.shape == (3, design.num_kv_heads, 9, 6)


def test_kernels_of_ones_own_are_used():
    calls = []

    def spy(name):
        def kernel(*arguments):
            calls.append(name)
            return getattr(reference, name)(*arguments)

        return kernel

    small(**{name: spy(name) for name in modern.KERNELS})(texts(5))
    assert {name: calls.count(name) for name in modern.KERNELS} == {
        "rms_norm": 5,
        "swiglu": 2,
        "rotary_embedding": 4,
        "grouped_query_attention": 2,
    }


def test_a_kernel_that_no_block_uses_is_refused():
    with pytest.raises(ValueError, match="no kernel layer_norm"):
        small(layer_norm=max)


def test_training_lowers_the_loss_and_a_seed_repeats_it():
    torch.manual_seed(0)
    model = ModernLanguageModel(modern.python_text.VOCAB_SIZE, d_model=16)
    first = modern.train(model, steps=30)
    assert sum(first[-5:]) < sum(first[:5]) - 2
    torch.manual_seed(0)
    assert modern.train(ModernLanguageModel(modern.python_text.VOCAB_SIZE, d_model=16), steps=30) == first


def test_both_targets_of_the_gate_have_a_mean_square_near_one():
    x = torch.randn(100_000, gating.WIDTH, generator=torch.Generator().manual_seed(0))
    for target in gating.TARGETS.values():
        assert target(x).square().mean().item() == pytest.approx(1, abs=0.03)
