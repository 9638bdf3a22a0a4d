"""What the page "Vision Transformers" says in words, on the data that it plots."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference.multi_head_attention import attention_flops, attention_memory
from autograder.reference.vision_transformer import attention_rollout, patchify, unpatchify
from autograder.work import count_work
from lab import vision
from lab.vision import accuracy, trained

torch.set_num_threads(1)
pytestmark = pytest.mark.slow  # trains the models of the page, unless they are in the store
CHANCE = 0.025  # two standard errors of a share near .95 on 500 pictures, rounded up


@pytest.fixture(scope="module")
def data():
    return vision.load()


@pytest.fixture(scope="module")
def tests(data):
    return data.images_test, data.labels_test


@pytest.fixture(scope="module")
def moved_tests(data):
    return vision.everywhere(data.images_test), data.labels_test.repeat(9)


@pytest.fixture(scope="module")
def model():
    return vision.trained_model()[0].requires_grad_(False)


@pytest.fixture(scope="module")
def short():
    return trained()[0]


def linear(**options):
    return trained("linear", lr=3e-2, **options)[0]


def cosines(of):
    rows = F.normalize(of.positions.detach()[1:], dim=1)
    return rows @ rows.T


def distances():
    places = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
    return torch.cdist(places, places)


def test_patches_make_a_picture_affordable():
    pixels, patches = 224**2, 14**2
    assert pixels == 50_176
    assert attention_memory(1, pixels, pixels, 12) > 100e9
    assert attention_memory(1, patches, patches, 12) < 2e6
    assert attention_flops(1, pixels, pixels, 12, 64) > 7000 * attention_flops(1, patches, patches, 12, 64)


@torch.no_grad()
def test_the_projection_is_a_strided_convolution(model, data):
    images = data.images_test[:50]
    weight, bias = model.projection.weight.view(-1, 1, 2, 2), model.projection.bias
    by_convolution = F.conv2d(images, weight, bias, stride=2).flatten(2).transpose(1, 2)
    torch.testing.assert_close(model.projection(patchify(images, 2)), by_convolution)


def test_pooling_is_as_good_as_the_class_token(short, tests):
    assert abs(accuracy(trained("mean of patches")[0], *tests) - accuracy(short, *tests)) < CHANCE


@torch.no_grad()
def test_without_positions_the_order_is_not_seen(short, tests):
    images, labels = tests
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    shuffled = unpatchify(patchify(images, 2)[:, order], (4, 4), 2)
    blind = trained("without positions")[0]
    assert 0.5 < accuracy(blind, *tests) < accuracy(short, *tests) - 0.2
    assert (blind(shuffled) - blind(images)).abs().max() < 1e-3
    assert accuracy(short, shuffled, labels) < 0.3


def test_positions_find_the_plane_where_digits_move(model, short):
    near, far = distances() == 1, distances() > 2.5
    assert cosines(model)[near].mean() > cosines(model)[far].mean() + 0.2
    assert abs(cosines(short)[near].mean() - cosines(short)[far].mean()) < 0.1


def test_interpolation_must_be_in_the_plane(model, tests):
    images, labels = tests
    large = F.interpolate(images, scale_factor=2, mode="bilinear")
    of_class, of_patches = model.positions[:1], model.positions[1:]

    def read(table):
        other = copy.deepcopy(model)
        other.grid, other.positions = (8, 8), nn.Parameter(torch.cat([of_class, table]))
        return accuracy(other, large, labels)

    in_the_plane = accuracy(model, large, labels)
    assert 0.7 < in_the_plane < accuracy(model, images, labels) - 0.05
    assert read(F.interpolate(of_patches.T[None], 64, mode="linear")[0].T) < in_the_plane - 0.25
    assert read(of_patches.repeat(4, 1)) < 0.25
    assert read(of_patches.view(4, 4, -1).repeat(2, 2, 1).flatten(0, 1)) < 0.25


def test_who_learns_from_still_digits_cannot_read_moved_ones(model, short, tests, moved_tests):
    assert accuracy(model, *tests) > 0.95
    assert accuracy(model, *moved_tests) > 0.94
    assert accuracy(short, *tests) > 0.9
    assert accuracy(short, *moved_tests) < 0.6


def test_the_transformer_does_not_win(model, short, tests, moved_tests):
    convolutions = trained("convolutions")[0]
    assert accuracy(convolutions, *tests) > accuracy(short, *tests) + 0.01
    assert accuracy(convolutions, *moved_tests) > accuracy(short, *moved_tests) + 0.05
    assert accuracy(convolutions, *moved_tests) > accuracy(trained("perceptron")[0], *moved_tests) + 0.05
    moved = {
        "convolutions": trained("convolutions", steps=400, reach=1)[0],
        "perceptron": trained("perceptron", steps=vision.STEPS, reach=1)[0],
        "linear": linear(steps=vision.STEPS, reach=1),
    }
    shares = {kind: accuracy(of, *moved_tests) for kind, of in moved.items()}
    assert shares["convolutions"] > accuracy(model, *moved_tests)
    assert abs(shares["perceptron"] - accuracy(model, *moved_tests)) < CHANCE
    assert shares["linear"] < 0.8


@torch.no_grad()
def test_at_equal_work_the_transformer_has_hardly_begun(model, data, moved_tests):
    picture, perceptron = data.images[:1], vision.build("perceptron")
    ratio = count_work(lambda: model(picture)).multiply_adds / count_work(lambda: perceptron(picture)).multiply_adds
    assert 15 < ratio < 25
    with torch.enable_grad():
        equal, _ = trained(steps=round(vision.STEPS / ratio), reach=1)
    assert accuracy(equal, *moved_tests) < 0.5


def test_few_pictures_hurt_the_transformer_most(short, tests):
    few = {kind: trained(kind, number=100)[0] for kind in ("transformer", "perceptron", "convolutions")}
    errors = {kind: 1 - accuracy(of, *tests) for kind, of in few.items()} | {
        "linear": 1 - accuracy(linear(number=100), *tests)
    }
    assert errors.pop("transformer") > 1.5 * max(errors.values())
    assert abs(accuracy(short, *tests) - accuracy(linear(), *tests)) < CHANCE


def test_smaller_patches_buy_nothing_here(short, tests):
    larger = trained(patch_size=4)[0]
    assert accuracy(larger, *tests) > accuracy(short, *tests) - 0.01
    assert accuracy(trained(patch_size=8)[0], *tests) > 0.94
    assert accuracy(trained(patch_size=1, steps=54)[0], *tests) < 0.4


def test_rollout_finds_what_does_not_matter_and_not_what_decides(model, tests):
    images, labels = tests
    untrained = vision.new_model()
    maps, maps_untrained = (attention_rollout(vision.attention_maps(of, images))[:, 0, 1:] for of in (model, untrained))
    ink = patchify(images, 2).sum(-1)
    chance = torch.rand(ink.shape, generator=torch.Generator().manual_seed(0))
    right_logit = model(images).gather(1, labels[:, None])

    def fall(scores):
        logits = model(vision.erased(images, scores.topk(1).indices, 2))
        return (right_logit - logits.gather(1, labels[:, None])).mean()

    assert fall(maps) > fall(-maps) + 0.5
    assert abs(fall(maps) - fall(chance)) < 0.6
    assert fall(chance * (ink > 0.5)) > fall(maps) + 0.2
    assert fall(ink) > fall(maps) + 1

    def spread(weights):
        return (weights.max(1).values / weights.min(1).values).mean()

    assert spread(maps) > 3 > 1.5 > spread(maps_untrained)


def test_patches_cut_by_view_train_as_well_and_read_nothing_with_right_weights(model, short, tests):
    images, labels = tests
    assert accuracy(trained("cut by view")[0], *tests) > accuracy(short, *tests) - 0.01
    assert accuracy(model, vision.cut_by_view(images, 2), labels) < 0.4


@pytest.mark.parametrize("row", [1, 16, slice(1, None)])
def test_a_head_that_reads_another_token_is_wrong(model, tests, row):
    def other_tokens(tokens):
        return tokens[:, row].view(len(tokens), -1, 32).mean(1, keepdim=True)

    hook = vision.head_reads(model, other_tokens)
    try:
        assert accuracy(model, *tests) < 0.75
    finally:
        hook.remove()
