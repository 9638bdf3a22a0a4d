"""The digits are what they say, and networks of right kernels learn to read them."""

import subprocess
import sys

import numpy as np
import pytest

from autograder.checks import multilayer_perceptron as checks
from autograder.reference.multilayer_perceptron import linear_forward, relu_forward, train_epoch
from lab import digits


@pytest.fixture(scope="module")
def centred():
    return digits.load()


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_every_picture_is_there_once_in_every_place_and_on_one_side_of_the_split(reach):
    data = digits.load(reach)
    places, side = (2 * reach + 1) ** 2, digits.SIDE + 2 * reach
    assert data.X.shape == (places * 1297, side**2)
    assert data.X_test.shape == (places * 500, side**2)
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert set(data.labels) == set(data.labels_test) == set(range(digits.NUM_CLASSES))
    original = {picture.tobytes() for picture in digits.load().X}
    for number in range(places):
        down, right = divmod(number, 2 * reach + 1)
        canvas = data.X[1297 * number].reshape(side, side)
        picture = canvas[down : down + digits.SIDE, right : right + digits.SIDE]
        assert np.ascontiguousarray(picture).tobytes() in original
        assert picture.sum() == canvas.sum()
        assert data.labels[1297 * number] == data.labels[0]
    assert not original & {picture.tobytes() for picture in digits.load().X_test}


def test_the_split_is_by_seed_alone(centred):
    again, other = digits.load(), digits.load(seed=1)
    assert np.array_equal(centred.X, again.X)
    assert not np.array_equal(centred.labels_test, other.labels_test)


def test_first_parameters_have_the_widths_and_the_spread_asked_for():
    W_1, b_1, W_2, b_2 = digits.first_parameters(400, 300, 10, scale=3.0)
    assert [array.shape for array in (W_1, b_1, W_2, b_2)] == [(400, 300), (300,), (300, 10), (10,)]
    assert W_1.std() == pytest.approx(3 * (2 / 400) ** 0.5, rel=0.02)
    assert W_2.std() == pytest.approx(3 * (2 / 300) ** 0.5, rel=0.05)
    assert not b_1.any()
    assert not b_2.any()


def test_logits_are_those_of_the_layers_one_after_the_other():
    parameters, X = digits.first_parameters(5, 4, 3, 2), np.random.default_rng(0).normal(size=(6, 5))
    hidden = X
    for number in (0, 2):
        hidden = relu_forward(linear_forward(hidden, *parameters[number : number + 2]))
    np.testing.assert_array_equal(digits.logits_of(parameters, X), linear_forward(hidden, *parameters[4:]))
    np.testing.assert_array_equal(digits.logits_of(parameters[:2], X), linear_forward(X, *parameters[:2]))


def test_accuracy_is_the_share_of_right_rows():
    assert digits.accuracy(np.array([[0, 2], [3, 1], [5, 4], [0, 1]]), np.array([1, 0, 1, 1])) == 0.75


def test_a_linear_epoch_is_that_of_a_perceptron_whose_rectifier_lets_everything_through():
    """With identity weights and a large bias in front, the hidden layer is the input plus a constant."""
    rng = np.random.default_rng(0)
    X, labels, order = rng.normal(size=(11, 4)), rng.integers(0, 3, 11), rng.permutation(11)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=3)
    (W_new, b_new), loss = digits.linear_epoch((W, b), X, labels, order[:4], 4, 0.1)
    far = np.full(4, 1e3)
    parameters, same_loss = train_epoch((np.eye(4), far, W, b - far @ W), X, labels, order[:4], 4, 0.1)
    assert loss == pytest.approx(same_loss, rel=1e-9)
    np.testing.assert_allclose(b_new - b, parameters[3] - (b - far @ W), rtol=1e-6)
    np.testing.assert_allclose(W_new - W + np.outer(far, b_new - b), parameters[2] - W, rtol=1e-6)


def test_training_repeats_itself_and_right_kernels_learn(centred):
    first = digits.first_parameters(64, 32, 10)
    _, history = digits.train(train_epoch, first, centred, epochs=8, batch_size=32)
    _, again = digits.train(train_epoch, first, centred, epochs=8, batch_size=32)
    assert history == again
    assert history.losses[-1] < 0.2 < history.losses[0]
    assert history.accuracy[-1] > 0.95
    assert history.test_accuracy[-1] > 0.9


def test_a_wrong_kernel_does_not_learn(centred):
    wrong = next(m.kernel for m in checks.train_epoch.mistakes if m.id == "epoch-labels-not-reordered")
    _, history = digits.train(wrong, digits.first_parameters(64, 32, 10), centred, epochs=8, batch_size=32)
    assert history.test_accuracy[-1] < 0.3


def test_nothing_here_needs_pytorch():
    code = "import sys; from lab import digits; digits.load(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
