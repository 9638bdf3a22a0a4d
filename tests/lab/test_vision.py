"""Digits, moves and models for the Vision Transformer are what they say."""

import matplotlib.pyplot as plt
import pytest
import torch
from torch.nn import functional as F

from autograder.reference.transformer import EncoderBlock
from autograder.reference.vision_transformer import VisionTransformer, attention_rollout, patchify
from lab import vision

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pictures():
    return vision.load()


def drawn(number=3, side=8):
    return torch.rand(number, 1, side, side, generator=torch.Generator().manual_seed(1))


def test_few_pictures_are_the_first_ones_and_the_test_stays(pictures):
    few = vision.load(50)
    assert pictures.images.shape == (1297, 1, 8, 8)
    assert torch.equal(few.images, pictures.images[:50])
    assert torch.equal(few.labels, pictures.labels[:50])
    assert torch.equal(few.images_test, pictures.images_test)
    assert pictures.images.min() == 0
    assert pictures.images.max() == 1


def test_each_picture_moves_by_its_own_number_of_pixels():
    images = drawn()
    moved = vision.moved(images, torch.tensor([0, 1, -1]), torch.tensor([0, 0, 1]))
    assert torch.equal(moved[0], images[0])
    assert torch.equal(moved[1, :, 1:], images[1, :, :-1])
    assert not moved[1, :, 0].any()
    assert torch.equal(moved[2, :, :-1, 1:], images[2, :, 1:, :-1])
    assert not moved[2, :, -1].any()
    assert not moved[2, :, :, 0].any()


def test_everywhere_holds_all_nine_places():
    images = drawn()
    places = vision.everywhere(images).split(3)
    assert len(places) == 9
    assert torch.equal(places[4], images)
    assert len({place[0].numpy().tobytes() for place in places}) == 9


def test_a_class_of_ones_own_is_built_and_seeds_repeat():
    class Mine(VisionTransformer):
        pass

    model = vision.new_model(Mine, d_model=12, num_heads=3)
    assert isinstance(model, Mine)
    assert model.positions.shape == (17, 12)
    assert torch.equal(model.positions, vision.new_model(d_model=12, num_heads=3).positions)
    assert model.positions.std().item() == pytest.approx(vision.POSITION_STD, rel=0.2)


@pytest.mark.parametrize("kind", vision.KINDS)
def test_every_kind_gives_logits(kind):
    assert vision.build(kind)(drawn()).shape == (3, 10)


def test_models_to_compare_with_have_as_many_parameters():
    sizes = {kind: sum(p.numel() for p in vision.build(kind).parameters()) for kind in vision.KINDS}
    for kind in ("perceptron", "convolutions"):
        assert sizes[kind] == pytest.approx(sizes["transformer"], rel=0.02)


@torch.no_grad()
def test_without_positions_patches_are_a_bag():
    model, images = vision.build("without positions"), drawn()
    torch.testing.assert_close(model(images), model(images.flip(-2).view(3, 1, 4, 2, 8).flip(3).view(3, 1, 8, 8)))


@torch.no_grad()
def test_the_head_reads_what_it_is_told_to():
    model, images = vision.new_model(), drawn()
    seen = []
    model.blocks[-1].register_forward_hook(lambda _, given, tokens: seen.append(tokens))
    logits = model(images)
    hook = vision.head_reads(model, lambda tokens: tokens[:, 5:])
    torch.testing.assert_close(model(images), model.head(seen[0][:, 5]))
    hook.remove()
    assert torch.equal(model(images), logits)


def test_cut_by_view_gives_pieces_of_rows():
    images = torch.arange(64.0).view(1, 1, 8, 8)
    assert torch.equal(patchify(vision.cut_by_view(images, 2), 2)[0], torch.arange(64.0).view(16, 4))


def test_training_lowers_the_loss_and_repeats_itself(pictures):
    runs = []
    for _ in range(2):
        model = vision.build("perceptron")
        runs.append(vision.train(model, pictures.images, pictures.labels, 80))
    assert runs[0] == runs[1]
    assert runs[0][-1] < 0.5 * runs[0][0]
    assert vision.accuracy(model, pictures.images_test, pictures.labels_test) > 0.5


@torch.no_grad()
def test_attention_maps_are_those_of_the_blocks():
    model, images = vision.new_model(), drawn()
    maps = vision.attention_maps(model, images)
    assert maps.shape == (2, 3, 4, 17, 17)
    inputs = []
    model.blocks[1].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    model(images)
    layer = model.blocks[1].self_attn
    _, expected = F.multi_head_attention_forward(
        *([inputs[0].transpose(0, 1)] * 3),
        *(32, 4, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0),
        *(layer.out_proj.weight, layer.out_proj.bias),
        average_attn_weights=False,
    )
    torch.testing.assert_close(maps[1], expected)
    assert isinstance(model.blocks[0], EncoderBlock)
    assert not model.blocks[0]._forward_pre_hooks
    assert attention_rollout(maps).shape == (3, 17, 17)


def test_erased_patches_are_white_and_the_others_stay():
    images = drawn() + 1
    patches = patchify(vision.erased(images, torch.tensor([[0, 5], [1, 2], [15, 3]]), 2), 2)
    white = (patches == 0).all(-1)
    assert [row.nonzero().flatten().tolist() for row in white] == [[0, 5], [1, 2], [3, 15]]
    assert torch.equal(patches[~white], patchify(images, 2)[~white])


def test_weights_are_drawn_over_the_picture():
    figure, axes = plt.subplots()
    vision.show_weights(axes, drawn()[0], torch.arange(16.0), "title")
    picture, weights = axes.images
    assert weights.get_array().shape == (4, 4)
    assert picture.get_extent() == weights.get_extent()
    plt.close(figure)
