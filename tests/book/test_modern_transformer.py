"""What the page "The modern Transformer" says in words, on the data that it plots."""

import math

import numpy as np
import pytest
import torch

from autograder.reference.language_model import KVCache
from autograder.reference.modern_transformer import MoELayer, grouped_query_attention, rms_norm, rotary_embedding
from autograder.reference.transformer import layer_norm
from autograder.work import count_work
from lab import depth, experts, gating, looking_back, modern, python_text
from lab.language_model import nats

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def stacks():
    settings = {"behind": ("post", 0), "warm-up": ("post", depth.WARM_UP), "before": ("pre", 0)}
    return {label: np.mean(depth.trained(*setting)[-20:]) for label, setting in settings.items()}


@pytest.mark.slow
def test_deep_stacks_learn_with_the_norm_before_or_with_warm_up_only(stacks):
    chance = math.log(depth.SYMBOLS)
    assert abs(stacks["behind"] - chance) < 0.1
    assert stacks["warm-up"] < chance - 0.7
    assert stacks["before"] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_ten_steps_close_the_path_of_a_post_norm_stack(seed):
    paths, gradients = {}, {}
    for label, (order, warm_up) in {
        "behind": ("post", 0),
        "warm-up": ("post", depth.WARM_UP),
        "before": ("pre", 0),
    }.items():
        for steps in (0, 10):
            stack = depth.untrained(order, seed=seed)
            depth.train(stack, warm_up, steps, seed=seed)
            paths[label, steps], gradients[label, steps] = depth.identity_path(stack), depth.gradient_by_depth(stack)
    assert min(path[-1] for (_, steps), path in paths.items() if steps == 0) > 0.3
    assert paths["behind", 10][-1] < 1e-3
    assert paths["warm-up", 10][-1] > 0.05
    assert paths["before", 10][:-1] == [1.0] * depth.DEPTH
    assert 0.02 < paths["before", 10][-1] < 0.3
    assert gradients["behind", 10][0] < 0.03 * gradients["behind", 10][-1]
    for label in ("warm-up", "before"):
        assert gradients[label, 10][0] > 0.2 * gradients[label, 10][-1]
    for (_, steps), gradient in gradients.items():
        assert steps or max(gradient) < 5 * min(gradient)


@torch.no_grad()
def test_layer_norm_is_rms_norm_of_what_is_left_without_the_mean_for_about_twice_the_work():
    ones, zeros = torch.ones(1024), torch.zeros(1024)
    x = torch.randn(3, 1024, generator=torch.Generator().manual_seed(0)) + 0.5
    centred = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(layer_norm(x, ones, zeros), rms_norm(centred, ones, eps=1e-5))
    work = [count_work(call).multiply_adds for call in (lambda: rms_norm(x, ones), lambda: layer_norm(x, ones, zeros))]
    assert 0.3 < work[0] / work[1] < 0.7


def test_squares_in_half_precision_overflow_and_vanish():
    pattern = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float16)
    for size, wrong in ((300.0, 0.0), (1e-4, math.inf)):
        x = pattern * size
        in_half = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-9)
        assert in_half[0].item() == wrong
        assert rms_norm(x, torch.ones_like(x), eps=1e-9)[0].item() == pytest.approx(1, abs=0.06)


@pytest.mark.slow
def test_a_gate_is_better_at_products_and_the_ramp_at_distances():
    assert 2 * gating.loss(True, "product") < gating.loss(False, "product")
    assert 5 * gating.loss(False, "distance") < gating.loss(True, "distance")


@pytest.fixture(scope="module")
def held_out():
    text = python_text.corpus().validation[:20_000]
    return {name: nats(modern.trained(name)[0], text, modern.CONTEXT) for name in modern.LADDER}


@pytest.mark.slow
def test_rotary_positions_gain_and_norm_and_gate_change_little(held_out):
    assert abs(held_out["+ RMS norm"] - held_out["+ pre-norm"]) < 0.1
    assert abs(held_out["+ SwiGLU"] - held_out["+ RMS norm"]) < 0.1
    assert held_out["+ rotary"] < held_out["+ SwiGLU"] - 0.08
    assert held_out["+ pre-norm"] < held_out["2017"] + 0.1


@pytest.mark.slow
def test_fewer_key_value_heads_cost_little_quality_and_save_the_cache(held_out):
    rungs = ("+ rotary", "+ 2 key-value heads", "+ 1 key-value head")
    assert np.ptp([held_out[rung] for rung in rungs]) < 0.25
    counted = []
    for rung in rungs:
        model = modern.trained(rung)[0]
        caches = [KVCache(256) for _ in model.blocks]
        with torch.no_grad():
            model(torch.zeros(1, 256, dtype=torch.long), caches)
        counted.append(sum(part.nelement() * 4 for cache in caches for part in (cache.keys, cache.values)))
    assert counted == [2 * modern.NUM_LAYERS * 256 * heads * 16 * 4 for heads in (4, 2, 1)]


@pytest.fixture(scope="module")
def lookers():
    return {kind: looking_back.trained(kind)[0] for kind in looking_back.KINDS}


@pytest.mark.slow
def test_rotary_models_do_not_notice_a_move_and_others_do(lookers):
    def right(kind, start):
        return np.nanmean(looking_back.accuracy(lookers[kind], looking_back.LENGTH, start))

    for kind in lookers:
        assert right(kind, 0) > 0.9
    for kind in ("rotary", "rotary, base 100"):
        assert right(kind, 48) > 0.9
    assert right("rotary", 100_000) > 0.9
    assert right("learned", 48) < 0.3
    assert right("sinusoidal", 48) < 0.9


@pytest.mark.slow
def test_rotary_models_hold_on_for_a_while_and_then_fail_on_longer_sequences(lookers):
    longer = {kind: looking_back.accuracy(model) for kind, model in lookers.items()}
    assert np.mean(longer["rotary"][16:20]) > 0.8
    assert np.mean(longer["learned"][16:20]) < 0.3
    assert np.nanmean(longer["rotary"]) > np.nanmean(longer["learned"]) + 0.1
    assert np.mean(longer["rotary"][48:]) < 0.6
    assert np.nanmean(longer["rotary, base 100"]) > np.nanmean(longer["rotary"]) + 0.03


@pytest.mark.slow
def test_weights_of_one_layout_are_wrong_for_the_other(lookers):
    model = lookers["rotary"]
    model.layout = "halves"
    swapped = np.nanmean(looking_back.accuracy(model, looking_back.LENGTH))
    model.layout = "interleaved"
    assert swapped < 0.7


def test_mixed_layouts_lose_the_relative_property():
    generator = torch.Generator().manual_seed(3)
    query, key = torch.randn(2, 1, 16, generator=generator, dtype=torch.float64)
    places = torch.arange(3, 1000, 50)

    def spread(*layouts):
        rotated = (
            rotary_embedding(vector.expand(len(places), -1), at, layout=layout)
            for vector, at, layout in zip((query, key), (places, places - 3), layouts, strict=True)
        )
        scores = math.prod(rotated).sum(-1)
        return scores.max() - scores.min()

    assert max(spread("interleaved", "interleaved"), spread("halves", "halves")) < 1e-9
    assert spread("interleaved", "halves") > 1


def test_repeated_heads_are_wrong_for_the_inner_two_of_four():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, 5, 8, generator=generator) for heads in (4, 2, 2))
    tiled = grouped_query_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
    off = (tiled - grouped_query_attention(q, k, v)).abs().amax((0, 2, 3))
    assert (off > 0.1).tolist() == [False, True, True, False]


@pytest.fixture(scope="module")
def mixtures():
    return {balance: experts.trained(balance) for balance in (0.0, 0.1)}


@pytest.mark.slow
def test_experts_die_without_the_balancing_loss(mixtures):
    shares = {balance: np.mean(run["loads"][-20:], axis=0) for balance, (_, run) in mixtures.items()}
    assert (shares[0.0] < 0.01).sum() >= 3
    assert shares[0.0].max() > 0.4
    assert shares[0.1].min() > 0.04
    assert shares[0.1].max() < 0.3


@pytest.mark.slow
def test_balanced_experts_have_room_and_characters_of_their_own(mixtures):
    text = python_text.corpus().validation[: 64 * 150].view(150, 64)
    room = {balance: experts.share_kept(model, text, 1.25) for balance, (model, _) in mixtures.items()}
    assert room[0.1] > 0.85
    assert room[0.0] < 0.7
    assert experts.share_kept(mixtures[0.0][0], text, 8) == 1
    sent = experts.routes(mixtures[0.1][0], text)
    frequent = torch.bincount(text.flatten()).argsort(descending=True)[:30]
    shares = [torch.bincount(sent[text == character]).max() / (text == character).sum() for character in frequent]
    assert torch.stack(shares).mean() > 0.6


@pytest.mark.slow
def test_experts_are_no_better_here_than_the_large_network(mixtures):
    text = python_text.corpus().validation[:20_000]
    large, small = (nats(experts.trained_dense(d_ff)[0], text, modern.CONTEXT) for d_ff in (256, 32))
    mixed = nats(mixtures[0.1][0], text, modern.CONTEXT)
    assert large < mixed - 0.03
    assert abs(mixed - small) < 0.12


@torch.no_grad()
def test_experts_do_a_small_part_of_the_work_of_the_large_network():
    x = torch.randn(512, experts.WIDTH)
    layer = MoELayer(experts.WIDTH, experts.D_FF, experts.NUM_EXPERTS, 1, experts.ROOM_FOR_ALL)
    large = experts.dense(experts.NUM_EXPERTS * experts.D_FF).blocks[0].network
    assert 0.125 < count_work(lambda: layer(x)).multiply_adds / count_work(lambda: large(x)).multiply_adds < 0.3
