"""What the page "The multilayer perceptron" says in words, on the data that it plots."""

import types

import numpy as np
import pytest

from autograder.checks import multilayer_perceptron as checks
from autograder.reference.multilayer_perceptron import (
    linear_forward,
    relu_forward,
    softmax_cross_entropy,
    train_epoch,
)
from lab import digits

KNOWN = {
    mistake.id: mistake.kernel
    for check in (checks.linear_backward, checks.relu_backward, checks.softmax_cross_entropy, checks.train_epoch)
    for mistake in check.mistakes
}


@pytest.fixture(scope="module")
def centred():
    return digits.load()


@pytest.fixture(scope="module")
def moved():
    return digits.load(reach=1)


@pytest.fixture(scope="module")
def first():
    return digits.first_parameters(100, 64, 10)


def with_kernel(name, kernel):
    return types.FunctionType(train_epoch.__code__, train_epoch.__globals__ | {name: kernel})


def linear_shares(data, epochs, batch_size):
    first = digits.first_parameters(data.X.shape[1], 10, scale=0)
    _, history = digits.train(digits.linear_epoch, first, data, epochs, batch_size)
    return history.accuracy[-1], history.test_accuracy[-1]


def test_ten_templates_read_digits_that_stand_still_and_not_those_that_move(centred, moved):
    assert linear_shares(centred, 40, 32)[1] > 0.94
    assert max(linear_shares(moved, 20, 64)) < 0.75
    assert max(linear_shares(digits.load(reach=2), 6, 64)) < 0.45


@pytest.mark.slow
def test_a_bend_between_two_layers_is_what_counts(moved, first):
    perceptron, history = digits.train(train_epoch, first, moved, 20)
    assert history.test_accuracy[-1] > 0.94
    assert history.losses[-1] < 0.1

    def without_rectifier(parameters, X):
        return linear_forward(linear_forward(X, *parameters[:2]), *parameters[2:])

    _, collapsed = digits.train(
        KNOWN["epoch-no-rectifier"], first, moved, 20, learning_rate=0.1, logits=without_rectifier
    )
    assert 0.65 < collapsed.test_accuracy[-1] < 0.75
    assert 0.85 < collapsed.losses[-1] < 1.0
    assert sum(parameter.size for parameter in perceptron) > 7 * (100 * 10 + 10)


def ring():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    angle = rng.uniform(0, 2 * np.pi, 400)
    radius = np.where(labels == 0, 0.8 * np.sqrt(rng.random(400)), rng.normal(1.3, 0.1, 400))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), labels


@pytest.mark.parametrize(("units", "lowest", "highest"), [(2, 0.7, 0.9), (3, 0.99, 1.0)])
def test_three_units_enclose_a_disc_and_two_do_not(units, lowest, highest):
    points, labels = ring()
    parameters, orders = digits.first_parameters(2, units, 2, seed=1), np.random.default_rng(0)
    for _ in range(150):
        parameters, _ = train_epoch(parameters, points, labels, orders.permutation(400), 32, 0.3)
    assert lowest <= digits.accuracy(digits.logits_of(parameters, points), labels) <= highest


def test_between_their_lines_the_scores_of_three_units_are_linear():
    """Along a segment on which no unit changes sides, the middle is the mean of the ends."""
    parameters = digits.first_parameters(2, 3, 2, seed=1)
    rng, found = np.random.default_rng(0), 0
    for one, other in rng.normal(size=(50, 2, 2)):
        sides = linear_forward(np.stack([one, other]), *parameters[:2]) > 0
        if (sides[0] == sides[1]).all():
            ends, middle = (digits.logits_of(parameters, x) for x in (np.stack([one, other]), (one + other)[None] / 2))
            np.testing.assert_allclose(middle[0], ends.mean(axis=0), atol=1e-12)
            found += 1
    assert found > 5


def test_softmax_twice_cannot_get_below_its_floor():
    certain = np.where(np.arange(10) == 3, 1e4, 0.0)[None]
    loss, _ = KNOWN["cross-entropy-softmax-twice"](certain, np.array([3]))
    assert loss == pytest.approx(np.log(1 + 9 / np.e))


def test_a_small_number_inside_the_logarithm_caps_the_loss():
    hopeless = np.array([[0.0, 10_000.0]]), np.array([0])
    assert KNOWN["cross-entropy-1e-12-added"](*hopeless)[0] == pytest.approx(-np.log(1e-12))
    assert softmax_cross_entropy(*hopeless)[0] == 10_000


def test_the_plain_logarithm_is_lost_where_the_probability_is_below_half_the_smallest_number():
    plain = KNOWN["cross-entropy-log-of-probability"]
    limit = np.log(2) - np.log(np.nextafter(0, 1))  # half of the smallest number is rounded to zero
    with np.errstate(divide="ignore"):
        losses = [plain(np.array([[0.0, distance]]), np.array([0]))[0] for distance in (limit - 0.1, limit + 0.1)]
    assert np.isfinite(losses[0])
    assert np.isinf(losses[1])


def test_the_noise_of_a_gradient_falls_with_the_root_of_the_batch_size(moved, first):
    def gradient_of(order):
        stepped, _ = train_epoch(first, moved.X, moved.labels, order, len(order), 1.0)
        return np.concatenate([(before - after).ravel() for before, after in zip(first, stepped, strict=True)])

    rng, whole = np.random.default_rng(0), gradient_of(np.arange(len(moved.X)))

    def noise(size):
        drawn = [gradient_of(rng.choice(len(moved.X), size, replace=False)) for _ in range(50)]
        return np.sqrt(np.mean([((one - whole) ** 2).sum() for one in drawn]))

    assert noise(4) / noise(256) == pytest.approx(8, rel=0.25)


def test_too_large_a_learning_rate_silences_most_units(moved, first):
    with np.errstate(all="ignore"):
        parameters, history = digits.train(train_epoch, first, moved, 5, learning_rate=3.0)
    assert history.losses[-1] > 2
    assert (~relu_forward(linear_forward(moved.X, *parameters[:2])).any(axis=0)).sum() > 50


def test_he_keeps_the_size_of_the_hidden_units_and_half_of_it_halves_them(moved):
    for scale, low, high in ((0.5, 1e-7, 1e-5), (1.0, 0.3, 3), (2.0, 1e5, 1e7)):
        parameters = digits.first_parameters(100, *[64] * 20, 10, scale=scale, seed=3)
        hidden, sizes = moved.X_test[:500], []
        for start in range(0, 40, 2):
            hidden = relu_forward(linear_forward(hidden, *parameters[start : start + 2]))
            sizes.append(np.sqrt((hidden**2).mean()))
        assert low < sizes[-1] / sizes[0] < high


def test_zeros_learn_nothing_and_equal_units_stay_equal(centred):
    _, history = digits.train(train_epoch, digits.first_parameters(64, 32, 10, scale=0), centred, 5, 32)
    assert history.losses[-1] == pytest.approx(np.log(10), abs=0.01)
    equal = tuple(np.full_like(parameter, 0.1) for parameter in digits.first_parameters(64, 32, 10))
    (W_1, *_), _ = digits.train(train_epoch, equal, centred, 5, 32)
    np.testing.assert_allclose(W_1, W_1[:, :1].repeat(32, axis=1), atol=1e-9)


def test_some_mistakes_are_silent_and_others_are_not(centred):
    first = digits.first_parameters(64, 64, 10)

    def share(epoch):
        with np.errstate(all="ignore"):
            return digits.train(epoch, first, centred, 20, 32, 0.2)[1].test_accuracy[-1]

    right = share(train_epoch)
    assert right > 0.95
    for name in ("epoch-rectifier-skipped-backward", "epoch-second-layer-changed-too-early", "epoch-rectified-logits"):
        assert share(KNOWN[name]) > right - 0.02
    assert share(with_kernel("linear_backward", KNOWN["linear-backward-bias-mean"])) > right - 0.02
    assert share(KNOWN["epoch-labels-not-reordered"]) < 0.3
    assert share(with_kernel("softmax_cross_entropy", KNOWN["cross-entropy-softmax-twice"])) < 0.6


def test_what_is_learned_about_one_place_says_little_about_another(moved, centred):
    middle = slice(4 * len(centred.X), 5 * len(centred.X))
    still = digits.Digits(moved.X[middle], moved.labels[middle], moved.X_test, moved.labels_test)
    narrow, _ = digits.train(train_epoch, digits.first_parameters(100, 64, 10), still, 60, 32, 0.2)
    right = digits.logits_of(narrow, moved.X_test).argmax(axis=1) == moved.labels_test
    by_place = right.reshape(3, 3, -1).mean(axis=2)
    assert by_place[1, 1] > 0.94
    assert 0.3 < by_place.ravel()[1::2].mean() < 0.6  # one pixel beside it, where strokes still overlap
    assert by_place[::2, ::2].mean() < 0.3


def test_scaling_one_layer_up_and_the_next_down_changes_no_logit_but_the_gradients():
    first = digits.first_parameters(5, 4, 3)
    scaled = (2 * first[0], 2 * first[1], first[2] / 2, first[3])
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(6, 5)), rng.integers(0, 3, 6)
    np.testing.assert_allclose(digits.logits_of(scaled, X), digits.logits_of(first, X))
    gradients = [
        [before - after for before, after in zip(p, train_epoch(p, X, labels, np.arange(6), 6, 1.0)[0], strict=True)]
        for p in (first, scaled)
    ]
    np.testing.assert_allclose(gradients[1][0], gradients[0][0] / 2, atol=1e-14)
    np.testing.assert_allclose(gradients[1][2], gradients[0][2] * 2, atol=1e-14)
