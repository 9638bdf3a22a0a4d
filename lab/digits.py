"""Handwritten digits, and perceptrons that learn to read them, in NumPy alone.

The pictures are the 1,797 of scikit-learn, of 8 by 8 pixels. On a larger canvas each of them can stand in several
places, which makes the task harder: what counts is no longer which pixels are dark, but which are dark together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autograder.reference.multilayer_perceptron import (
    linear_backward,
    linear_forward,
    relu_forward,
    sgd_step,
    softmax_cross_entropy,
)

NUM_CLASSES = 10
SIDE = 8  # pixels


@dataclass(frozen=True)
class Digits:
    """Pictures, one in each row with pixels from 0 (white) to 1 (black), and the digits that they show.

    Parameters
    ----------
    X, labels
        What is learned from.
    X_test, labels_test
        What is kept aside. No picture of it is in ``X``, in whatever place.
    """

    X: np.ndarray
    labels: np.ndarray
    X_test: np.ndarray
    labels_test: np.ndarray


def load(reach: int = 0, test: int = 500, seed: int = 0) -> Digits:
    """The digits, split by chance.

    Parameters
    ----------
    reach
        By how many pixels a picture is moved at the most. The canvas is larger by as many on each side, and each
        picture is there once in every place: 9 times for a reach of 1.
    test
        How many pictures are kept aside.
    seed
        Of the split.
    """
    from sklearn.datasets import load_digits  # takes a second or two

    data = load_digits()
    pictures, labels = data.images / 16, data.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(pictures))
    aside, learned = order[:test], order[test:]
    places = (2 * reach + 1) ** 2
    return Digits(
        everywhere(pictures[learned], reach),
        np.tile(labels[learned], places),
        everywhere(pictures[aside], reach),
        np.tile(labels[aside], places),
    )


def everywhere(pictures: np.ndarray, reach: int) -> np.ndarray:
    """Every picture in every place of a canvas with ``reach`` more pixels on each side, as rows, place after place."""
    moves = [(down, right) for down in range(2 * reach + 1) for right in range(2 * reach + 1)]
    rest = 2 * reach
    moved = [np.pad(pictures, ((0, 0), (down, rest - down), (right, rest - right))) for down, right in moves]
    return np.concatenate(moved).reshape(len(moves) * len(pictures), -1)


def first_parameters(*widths: int, scale: float = 1.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Weights and biases ``W_1, b_1, W_2, b_2, …`` of a network whose layers have these widths, before it learns.

    Weights are normal with variance ``scale**2 * 2 / d_in``, which for a scale of 1 is He's initialisation. Biases are
    zero.
    """
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(0.0, scale * np.sqrt(2 / d_in), (d_in, d_out)), np.zeros(d_out))
        for d_in, d_out in zip(widths[:-1], widths[1:], strict=True)
    ]
    return tuple(parameter for layer in layers for parameter in layer)


def logits_of(parameters: Sequence[np.ndarray], X: np.ndarray) -> np.ndarray:
    """The logits of a network of any depth: linear layers with rectifiers between them. One layer is a linear model."""
    *hidden, last = zip(parameters[::2], parameters[1::2], strict=True)
    for weights, bias in hidden:
        X = relu_forward(linear_forward(X, weights, bias))
    return linear_forward(X, *last)


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows whose largest logit is that of the label."""
    return float((logits.argmax(axis=1) == labels).mean())


def linear_epoch(parameters, X, labels, order, batch_size, learning_rate):
    """What `train_epoch` is for a perceptron, for a model of one linear layer."""
    losses = []
    for batch in np.split(order, range(batch_size, len(order), batch_size)):
        loss, gradient = softmax_cross_entropy(linear_forward(X[batch], *parameters), labels[batch])
        _, *gradients = linear_backward(gradient, X[batch], parameters[0])
        parameters = tuple(map(sgd_step, parameters, gradients, [learning_rate] * 2))
        losses += [loss] * len(batch)
    return parameters, float(np.mean(losses))


@dataclass
class History:
    """What was measured at each epoch: the mean loss while it learned, and right answers after it."""

    losses: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)


def train(
    epoch: Callable,
    parameters: Sequence[np.ndarray],
    digits: Digits,
    epochs: int,
    batch_size: int = 64,
    learning_rate: float = 0.3,
    seed: int = 0,
    logits: Callable = logits_of,
) -> tuple[Sequence[np.ndarray], History]:
    """Go through the data ``epochs`` times, each time in an order drawn anew.

    Parameters
    ----------
    epoch
        `train_epoch`, or a function that is called in the same way.
    seed
        Of the orders.
    logits
        What a network says: ``logits(parameters, X)``.
    """
    rng, history = np.random.default_rng(seed), History()
    for _ in range(epochs):
        order = rng.permutation(len(digits.X))
        parameters, loss = epoch(parameters, digits.X, digits.labels, order, batch_size, learning_rate)
        history.losses.append(loss)
        history.accuracy.append(accuracy(logits(parameters, digits.X), digits.labels))
        history.test_accuracy.append(accuracy(logits(parameters, digits.X_test), digits.labels_test))
    return parameters, history
