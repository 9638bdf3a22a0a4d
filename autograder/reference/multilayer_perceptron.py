"""Reference kernels of the chapter "The multilayer perceptron"."""

import numpy as np
from jaxtyping import Float, Int


def linear_forward(
    X: Float[np.ndarray, "B D_in"], W: Float[np.ndarray, "D_in D_out"], b: Float[np.ndarray, "D_out"]
) -> Float[np.ndarray, "B D_out"]:
    """Apply a linear layer to each row.

    Parameters
    ----------
    X
        One input a row.
    W
        Weights, one column for each output.
    b
        One bias for each output.

    Returns
    -------
    ``X W + b``, one output a row.

    Notes
    -----
    ``B * D_in * D_out`` multiplications.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), chapter 6.

    Examples
    --------
    >>> linear_forward(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]), np.array([5.0])).tolist()
    [[16.0]]
    """
    return X @ W + b


def linear_backward(
    grad_output: Float[np.ndarray, "B D_out"], X: Float[np.ndarray, "B D_in"], W: Float[np.ndarray, "D_in D_out"]
) -> tuple[Float[np.ndarray, "B D_in"], Float[np.ndarray, "D_in D_out"], Float[np.ndarray, "D_out"]]:
    """Carry a gradient back through a linear layer.

    Parameters
    ----------
    grad_output
        The gradient of the loss for the layer's output.
    X
        The layer's input.
    W
        The layer's weights.

    Returns
    -------
    The gradients of the loss for the input, the weights and the bias. The loss is already a mean over the batch where
    it is to be one: nothing is divided here.

    Notes
    -----
    Twice the multiplications of the forward pass. The bias itself is not needed.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.5.

    Examples
    --------
    >>> grad_X, grad_W, grad_b = linear_backward(np.array([[2.0]]), np.array([[1.0, 3.0]]), np.array([[5.0], [7.0]]))
    >>> grad_X.tolist(), grad_W.tolist(), grad_b.tolist()
    ([[10.0, 14.0]], [[2.0], [6.0]], [2.0])
    """
    grad_X = grad_output @ W.T
    grad_W = X.T @ grad_output
    grad_b = grad_output.sum(axis=0)
    return grad_X, grad_W, grad_b


def relu_forward(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Set negative entries to zero.

    Parameters
    ----------
    x
        An array of any shape.

    Returns
    -------
    A new array of the shape and dtype of ``x``.

    Notes
    -----
    Linear in the number of entries.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.3.

    Examples
    --------
    >>> relu_forward(np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 2.0]
    """
    return np.maximum(x, 0.0)


def relu_backward(
    grad_output: Float[np.ndarray, "*shape"], x: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """Carry a gradient back through the rectifier.

    Parameters
    ----------
    grad_output
        The gradient of the loss for the rectifier's output.
    x
        The rectifier's input.

    Returns
    -------
    The gradient for ``x``, a new array. Where ``x`` is zero it is zero, as in PyTorch.

    Notes
    -----
    Linear in the number of entries.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.3.

    Examples
    --------
    >>> relu_backward(np.array([5.0, 6.0, 7.0]), np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 7.0]
    """
    return grad_output * (x > 0.0)


def softmax_cross_entropy(
    logits: Float[np.ndarray, "B C"], labels: Int[np.ndarray, "B"]
) -> tuple[np.floating, Float[np.ndarray, "B C"]]:
    """Compute the mean cross-entropy of a batch and its gradient for the logits.

    Parameters
    ----------
    logits
        One row of scores for each example.
    labels
        The right class of each example, from 0 to C - 1.

    Returns
    -------
    The mean loss over the batch, and its gradient for ``logits``. Both are finite for logits as large as 10,000.

    Raises
    ------
    ValueError
        If a label is not from 0 to C - 1.

    Notes
    -----
    Linear in the number of logits.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.2.2.3.

    Examples
    --------
    >>> loss, grad_logits = softmax_cross_entropy(np.array([[0.0, np.log(3.0)]]), np.array([1]))
    >>> round(float(loss), 4), grad_logits.round(2).tolist()
    (0.2877, [[0.25, -0.25]])
    """
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"labels go from {labels.min()} to {labels.max()}; with {logits.shape[1]} columns of logits they must be "
            f"from 0 to {logits.shape[1] - 1}."
        )
    rows = np.arange(len(logits))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(total)
    loss = -log_probabilities[rows, labels].mean()
    grad_logits = exponentials / total
    grad_logits[rows, labels] -= 1.0
    return loss, grad_logits / len(logits)
