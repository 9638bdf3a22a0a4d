"""The language model with experts: its pieces, its bookkeeping, and what finds room."""

import pytest
import torch

from lab import experts, python_text

torch.set_num_threads(1)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return experts.with_experts()


@pytest.fixture(scope="module")
def tokens():
    return python_text.corpus().validation[: 4 * 50].view(4, 50)


def test_the_experts_together_are_as_large_as_the_large_network(model):
    large = experts.dense(experts.NUM_EXPERTS * experts.D_FF).blocks[0].network
    layer = model.blocks[0].network.layer
    sizes = [sum(p.numel() for p in part.parameters()) for part in (layer.experts, large)]
    assert sizes[0] - sizes[1] == (experts.NUM_EXPERTS - 1) * experts.WIDTH  # a last bias for each


def test_a_route_is_the_expert_that_changes_the_token(model, tokens):
    routes = experts.routes(model, tokens)
    assert routes.shape == tokens.shape
    before = model(tokens)
    chosen = int(routes[0, 7])
    with torch.no_grad():
        model.blocks[0].network.layer.experts[chosen][2].bias += 1
    changed = (model(tokens) - before).abs().amax(-1) > 1e-6
    assert torch.equal(changed, routes == chosen)


def test_room_for_all_drops_nobody_and_less_room_drops_as_many_as_it_must(model, tokens):
    assert experts.share_kept(model, tokens, experts.ROOM_FOR_ALL) == 1
    loads = experts.routes(model, tokens).flatten().bincount(minlength=experts.NUM_EXPERTS)
    assert experts.share_kept(model, tokens, 1.0) == pytest.approx(loads.clamp(max=25).sum().item() / 200)


def test_training_notes_losses_and_loads_of_each_step(model):
    noted = experts.train(model, balance=0.1, steps=12)
    assert len(noted["losses"]) == len(noted["loads"]) == 12
    assert all(sum(loads) == pytest.approx(1, abs=1e-5) for loads in noted["loads"])
    assert noted["losses"][-1] < noted["losses"][0]
