"""Reference kernels of the chapter "The multilayer perceptron"."""

import numpy as np
from jaxtyping import Float, Int


def linear_forward(
    X: Float[np.ndarray, "batch d_in"], W: Float[np.ndarray, "d_in d_out"], b: Float[np.ndarray, "d_out"]
) -> Float[np.ndarray, "batch d_out"]:
    """Apply a linear layer to each example of a batch.

    Parameters
    ----------
    X
        The batch, one example in each row.
    W
        Weights, one row for each input and one column for each output.
    b
        One bias for each output.

    Returns
    -------
    One row of outputs for each example: each output is the sum of the inputs, weighted by its column, and its bias.
    Dtype as that of ``X``.

    Raises
    ------
    ValueError
        If ``W`` does not have one row for each input, or ``b`` not one number for each output.

    Notes
    -----
    ``torch.nn.Linear`` keeps its weights the other way round, in the layout ``(d_out, d_in)``.
    ``B * d_in * d_out`` multiply-adds; the largest array made has ``B * d_out`` numbers.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), chapter 6.

    Examples
    --------
    >>> X, W = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[3.0], [4.0]])
    >>> linear_forward(X, W, np.array([5.0])).tolist()
    [[16.0], [5.0]]
    """
    if X.shape[-1] != W.shape[0] or b.shape != W.shape[1:]:
        raise ValueError(
            f"X has {X.shape[-1]} columns, W has shape {W.shape} and b has shape {b.shape}; "
            "W must be of shape (d_in, d_out) and b of shape (d_out,)."
        )
    weighted_sums = X @ W
    return weighted_sums + b


def linear_backward(
    grad_output: Float[np.ndarray, "batch d_out"],
    X: Float[np.ndarray, "batch d_in"],
    W: Float[np.ndarray, "d_in d_out"],
) -> tuple[Float[np.ndarray, "batch d_in"], Float[np.ndarray, "d_in d_out"], Float[np.ndarray, "d_out"]]:
    """Carry a gradient back through a linear layer.

    Parameters
    ----------
    grad_output
        The gradient of the loss for the output of `linear_forward`.
    X, W
        What the forward pass was given.

    Returns
    -------
    The gradients of the loss for ``X``, ``W`` and ``b``, in this order, each of the shape and dtype of its array.

    Raises
    ------
    ValueError
        If ``grad_output`` does not have the shape of the layer's output.

    Notes
    -----
    If the loss is a mean over the batch, that is already in ``grad_output``: nothing is divided here. The bias itself
    is not needed.
    ``2 * B * d_in * d_out`` multiply-adds, twice those of the forward pass.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.5.

    Examples
    --------
    >>> grad_output, X, W = np.array([[2.0]]), np.array([[1.0, 3.0]]), np.array([[5.0], [7.0]])
    >>> for gradient in linear_backward(grad_output, X, W):
    ...     print(gradient.tolist())
    [[10.0, 14.0]]
    [[2.0], [6.0]]
    [2.0]
    """
    if grad_output.shape != (X.shape[0], W.shape[1]):
        raise ValueError(
            f"grad_output has shape {grad_output.shape}; the output of these arguments has shape "
            f"{(X.shape[0], W.shape[1])}."
        )
    grad_X = grad_output @ W.T
    grad_W = X.T @ grad_output
    grad_b = grad_output.sum(axis=0)
    return grad_X, grad_W, grad_b


def relu_forward(Z: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Rectify: keep positive entries, and set the others to zero.

    Parameters
    ----------
    Z
        An array of any shape.

    Returns
    -------
    A new array of the shape and dtype of ``Z``.

    Notes
    -----
    Linear in the number of entries, in time and in memory.

    References
    ----------
    Nair and Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines" (2010).

    Examples
    --------
    >>> relu_forward(np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 2.0]
    """
    return np.maximum(Z, 0)


def relu_backward(
    grad_output: Float[np.ndarray, "*shape"], Z: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """Carry a gradient back through the rectifier.

    Parameters
    ----------
    grad_output
        The gradient of the loss for the output of `relu_forward`.
    Z
        What the forward pass was given.

    Returns
    -------
    The gradient of the loss for ``Z``, a new array. Where ``Z`` is exactly zero, where the rectifier has no slope, the
    gradient is zero. Dtype as that of ``grad_output``.

    Raises
    ------
    ValueError
        If the two arrays differ in shape.

    Notes
    -----
    PyTorch takes zero for the slope at zero too.
    Linear in the number of entries, in time and in memory.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.3.

    Examples
    --------
    >>> relu_backward(np.array([5.0, 6.0, -7.0]), np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, -7.0]
    """
    if grad_output.shape != Z.shape:
        raise ValueError(f"grad_output has shape {grad_output.shape} and Z has shape {Z.shape}; they must be equal.")
    return np.where(Z > 0, grad_output, np.zeros_like(grad_output))


def softmax_cross_entropy(
    logits: Float[np.ndarray, "batch classes"], labels: Int[np.ndarray, "batch"]
) -> tuple[np.floating, Float[np.ndarray, "batch classes"]]:
    """Compute the mean cross-entropy of a batch and its gradient for the logits.

    Parameters
    ----------
    logits
        One row of scores for each example, one column for each class. Softmax makes probabilities of them.
    labels
        The right class of each example, a whole number counted from 0.

    Returns
    -------
    loss
        The mean over the batch of minus the natural logarithm of the probability of the right class, one number.
    grad_logits
        The gradient of ``loss`` for ``logits``, of the same shape and dtype. Both are right for logits as large as
        10,000 too.

    Raises
    ------
    ValueError
        If there is not one label for each row, or a label is not a column of the logits.

    Notes
    -----
    The same as ``torch.nn.functional.cross_entropy``, which takes logits as well, not probabilities.
    Linear in the number of logits, in time and in memory.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 6.2.2.3.

    Examples
    --------
    >>> logits, labels = np.array([[0.0, np.log(3.0)]]), np.array([1])
    >>> loss, grad_logits = softmax_cross_entropy(logits, labels)
    >>> round(float(loss), 4), grad_logits.round(2).tolist()
    (0.2877, [[0.25, -0.25]])
    """
    if labels.shape != logits.shape[:1]:
        raise ValueError(
            f"labels has shape {labels.shape} and logits have {len(logits)} rows; each row needs one class number."
        )
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"labels go from {labels.min()} to {labels.max()}; with {logits.shape[1]} columns of logits they must lie "
            f"between 0 and {logits.shape[1] - 1}."
        )
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    loss = -log_probabilities[rows, labels].mean()
    grad_logits = np.exp(log_probabilities)
    grad_logits[rows, labels] -= 1
    return loss, grad_logits / len(labels)


def sgd_step(
    parameter: Float[np.ndarray, "*shape"], gradient: Float[np.ndarray, "*shape"], learning_rate: float
) -> Float[np.ndarray, "*shape"]:
    """Take one step of gradient descent with one parameter.

    Parameters
    ----------
    parameter
        A weight matrix or a bias. It stays as it is.
    gradient
        The gradient of the loss for it.
    learning_rate
        By how much the gradient is multiplied.

    Returns
    -------
    The parameter after the step, a new array, in the direction in which the loss falls. Dtype as the parameter's.

    Raises
    ------
    ValueError
        If parameter and gradient differ in shape: NumPy would stretch the smaller one in silence.

    Notes
    -----
    No momentum and no weight decay. PyTorch's optimizers change the parameter itself; here the old one stays.
    Linear in the number of entries, in time and in memory.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 8.3.1.

    Examples
    --------
    >>> sgd_step(np.array([1.0, 2.0]), np.array([10.0, -10.0]), 0.01).tolist()
    [0.9, 2.1]
    """
    if gradient.shape != parameter.shape:
        raise ValueError(f"parameter has shape {parameter.shape} and gradient {gradient.shape}; they must be equal.")
    return parameter - learning_rate * gradient


def train_epoch(
    parameters: tuple[
        Float[np.ndarray, "d_in d_hidden"],
        Float[np.ndarray, "d_hidden"],
        Float[np.ndarray, "d_hidden classes"],
        Float[np.ndarray, "classes"],
    ],
    X: Float[np.ndarray, "examples d_in"],
    labels: Int[np.ndarray, "examples"],
    order: Int[np.ndarray, "visited"],
    batch_size: int,
    learning_rate: float,
) -> tuple[
    tuple[
        Float[np.ndarray, "d_in d_hidden"],
        Float[np.ndarray, "d_hidden"],
        Float[np.ndarray, "d_hidden classes"],
        Float[np.ndarray, "classes"],
    ],
    float,
]:
    """Train a perceptron with one hidden layer on mini-batches, going through the data once.

    The network is a linear layer, the rectifier, and another linear layer, which gives the logits.

    Parameters
    ----------
    parameters
        ``W_1, b_1, W_2, b_2``: weights and bias of the first linear layer, then of the second. They stay as they are.
    X
        All examples, one in each row.
    labels
        The class of each example.
    order
        The numbers of the examples to visit, in the order in which to visit them. It may leave some out.
    batch_size
        How many examples a mini-batch has. The last one has what is left, and counts too.
    learning_rate
        For `sgd_step`.

    Returns
    -------
    parameters
        The four parameters after the last mini-batch, as new arrays in the same order.
    loss
        The mean loss of the visited examples, each measured with the parameters that its mini-batch found.

    Raises
    ------
    ValueError
        If ``batch_size`` is below 1.

    Notes
    -----
    For each mini-batch: forward, backward, then one step of all four parameters.
    ``3 * d_hidden * (d_in + classes)`` multiply-adds for each visited example, forward and backward together. Those of
    the gradient for ``X``, which nobody needs, are among them.

    References
    ----------
    Rumelhart, Hinton and Williams, "Learning Representations by Back-Propagating Errors" (1986).

    Examples
    --------
    >>> zeros = np.zeros((2, 3)), np.zeros(3), np.zeros((3, 2)), np.zeros(2)
    >>> X, labels = np.ones((5, 2)), np.array([0, 0, 0, 0, 1])
    >>> (W_1, b_1, W_2, b_2), loss = train_epoch(zeros, X, labels, np.arange(5), 5, learning_rate=1.0)
    >>> b_2.round(2).tolist(), round(loss, 4)
    ([0.3, -0.3], 0.6931)
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be at least 1.")
    total = 0.0
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        W_1, b_1, W_2, b_2 = parameters
        Z = linear_forward(X[batch], W_1, b_1)
        H = relu_forward(Z)
        logits = linear_forward(H, W_2, b_2)
        loss, grad_logits = softmax_cross_entropy(logits, labels[batch])
        grad_H, grad_W_2, grad_b_2 = linear_backward(grad_logits, H, W_2)
        grad_Z = relu_backward(grad_H, Z)
        _, grad_W_1, grad_b_1 = linear_backward(grad_Z, X[batch], W_1)
        gradients = (grad_W_1, grad_b_1, grad_W_2, grad_b_2)
        parameters = tuple(sgd_step(p, g, learning_rate) for p, g in zip(parameters, gradients, strict=True))
        total += float(loss) * len(batch)
    return parameters, total / len(order)
