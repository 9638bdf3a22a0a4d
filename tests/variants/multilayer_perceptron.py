"""Right kernels of "The multilayer perceptron" in other styles."""

import math

import numpy as np

from autograder.reference import multilayer_perceptron as reference


def forward_by_einsum(X, W, b):
    _refuse(X.shape[1] != W.shape[0] or b.shape != (W.shape[1],))
    return np.einsum("bi,io->bo", X, W) + b


def forward_by_dot(X, W, b):
    _refuse(X.shape[1] != W.shape[0] or b.shape != (W.shape[1],))
    return np.add(np.dot(X, W), b[None, :])


def forward_by_rows(X, W, b):
    _refuse(X.shape[1] != W.shape[0] or b.shape != (W.shape[1],))
    return np.stack([row @ W + b for row in X])


def forward_with_a_column_of_ones(X, W, b):
    return np.hstack([X, np.ones((len(X), 1), X.dtype)]) @ np.vstack([W, b])


def forward_by_loops(X, W, b):
    _refuse(X.shape[1] != W.shape[0] or b.shape != (W.shape[1],))
    output = np.zeros((len(X), len(b)), X.dtype)
    for i in range(len(X)):
        for j in range(len(b)):
            output[i, j] = b[j]
            for k in range(X.shape[1]):
                output[i, j] += X[i, k] * W[k, j]
    return output


def forward_into_the_bias(X, W, b):
    _refuse(X.shape[1] != W.shape[0] or b.shape != (W.shape[1],))
    output = np.tile(b, (len(X), 1))
    output += (W.T @ X.T).T
    return output


def _refuse(wrong):
    if wrong:
        raise ValueError("These arguments do not fit together.")


def backward_by_einsum(grad_output, X, W):
    _refuse(grad_output.shape != (len(X), W.shape[1]))
    return (
        np.einsum("bo,io->bi", grad_output, W),
        np.einsum("bi,bo->io", X, grad_output),
        np.einsum("bo->o", grad_output),
    )


def backward_by_examples(grad_output, X, W):
    grad_W = sum(np.outer(row, g) for row, g in zip(X, grad_output, strict=True))
    return np.stack([W @ g for g in grad_output]), grad_W, sum(grad_output)


def backward_by_broadcasting(grad_output, X, W):
    _refuse(grad_output.shape != (len(X), W.shape[1]))
    grad_X = (grad_output[:, None, :] * W[None]).sum(-1)
    return grad_X, (X[:, :, None] * grad_output[:, None, :]).sum(0), np.sum(grad_output, 0)


def backward_with_ones(grad_output, X, W):
    _refuse(grad_output.shape[0] != len(X))
    return [(W @ grad_output.T).T, (grad_output.T @ X).T, np.ones(len(X), X.dtype) @ grad_output]


def backward_by_tensordot(grad_output, X, W):
    _refuse(grad_output.shape[0] != len(X))
    grad_X = np.tensordot(grad_output, W, ((1,), (1,)))
    return grad_X, np.tensordot(X, grad_output, ((0,), (0,))), np.add.reduce(grad_output)


def backward_by_loops(grad_output, X, W):
    _refuse(grad_output.shape != (len(X), W.shape[1]))
    grad_X, grad_W, grad_b = np.zeros_like(X), np.zeros_like(W), np.zeros(W.shape[1], W.dtype)
    for example, i, o in np.ndindex(len(X), *W.shape):
        grad_X[example, i] += grad_output[example, o] * W[i, o]
        grad_W[i, o] += X[example, i] * grad_output[example, o]
    for row in grad_output:
        grad_b += row
    return grad_X, grad_W, grad_b


def backward_with_the_bias_as_a_row(grad_output, X, W):
    _refuse(grad_output.shape[0] != len(X))
    grad_all = np.hstack([X, np.ones((len(X), 1), X.dtype)]).T @ grad_output
    return grad_output @ W.transpose(), grad_all[:-1], grad_all[-1]


def backward_in_double_precision(grad_output, X, W):
    _refuse(grad_output.shape != (len(X), W.shape[1]))
    wide = (array.astype(np.float64) for array in (grad_output, X, W))
    return tuple(gradient.astype(X.dtype) for gradient in backward_by_einsum(*wide))


def relu_by_where(Z):
    return np.where(Z > 0, Z, np.zeros_like(Z))


def relu_by_product(Z):
    return Z * (Z > 0)


def relu_by_assignment(Z):
    output = Z.copy()
    output[output < 0] = 0
    return output


def relu_by_clip(Z):
    return np.clip(Z, 0, None)


def relu_by_absolute(Z):
    return (Z + np.abs(Z)) / 2


def relu_by_entries(Z):
    return np.array([max(float(z), 0.0) for z in Z.ravel()], Z.dtype).reshape(Z.shape)


def relu_back_by_product(grad_output, Z):
    _refuse(grad_output.shape != Z.shape)
    return grad_output * (Z > 0)


def relu_back_by_assignment(grad_output, Z):
    gradient = grad_output.copy()
    gradient[Z <= 0] = 0
    return gradient


def relu_back_by_heaviside(grad_output, Z):
    _refuse(grad_output.shape != Z.shape)
    return grad_output * np.heaviside(Z, Z.dtype.type(0))


def relu_back_by_indices(grad_output, Z):
    gradient = np.zeros_like(Z)
    gradient[Z > 0] = grad_output[Z > 0]
    return gradient


def relu_back_by_the_output(grad_output, Z):
    _refuse(grad_output.shape != Z.shape)
    return grad_output * (np.maximum(Z, 0) != 0)


def relu_back_by_sign(grad_output, Z):
    _refuse(grad_output.shape != Z.shape)
    return grad_output * np.maximum(np.sign(Z), 0)


def entropy_by_one_hot(logits, labels):
    _refuse(labels.ndim != 1 or labels.min() < 0)
    one_hot = np.eye(logits.shape[1], dtype=logits.dtype)[labels]
    shifted = logits - logits.max(1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -(one_hot * log_probabilities).sum() / len(logits), (np.exp(log_probabilities) - one_hot) / len(logits)


def entropy_by_logaddexp(logits, labels):
    _refuse(labels.ndim != 1 or labels.min() < 0)
    log_total = np.logaddexp.reduce(logits, axis=1)
    gradient = np.exp(logits - log_total[:, None])
    gradient[range(len(labels)), labels] -= 1
    return np.mean(log_total - logits[range(len(labels)), labels]), gradient / len(labels)


def entropy_by_loops(logits, labels):
    losses, gradient = [], np.zeros_like(logits)
    for i, (row, label) in enumerate(zip(logits, labels, strict=True)):
        _refuse(label < 0)
        powers = np.exp(row - max(row))
        losses.append(np.log(sum(powers)) - (row[label] - max(row)))
        gradient[i] = powers / sum(powers)
        gradient[i, label] -= 1
    return float(np.mean(losses)), gradient / len(labels)


def entropy_by_take_along_axis(logits, labels):
    _refuse(labels.ndim != 1 or labels.min() < 0)
    shifted = logits - np.amax(logits, axis=-1)[:, None]
    powers = np.exp(shifted)
    total = powers.sum(-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], 1)
    gradient = powers / total / len(labels)
    np.subtract.at(gradient, (np.arange(len(labels)), labels), logits.dtype.type(1 / len(labels)))
    return (np.log(total) - chosen).mean(), gradient


def entropy_in_double_precision(logits, labels):
    loss, gradient = entropy_by_one_hot(logits.astype(np.float64), labels)
    return loss, gradient.astype(logits.dtype)


def entropy_by_two_formulas(logits, labels):
    """The gradient by the softmax of "Getting started", and the loss on its own."""
    from autograder.reference.getting_started import softmax

    _refuse(labels.shape != logits.shape[:1] or labels.min() < 0)
    probabilities = softmax(logits)
    largest = logits.max(axis=1)
    log_total = np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    loss = np.mean(largest - logits[np.arange(len(labels)), labels] + log_total)
    probabilities[np.arange(len(labels)), labels] -= 1
    probabilities /= len(labels)
    return loss, probabilities


def entropy_by_differences(logits, labels):
    """The loss as the logarithm of the sum of exp(logit - right logit)."""
    _refuse(labels.shape != logits.shape[:1] or labels.min() < 0)
    gaps = logits - logits[np.arange(len(labels)), labels][:, None]
    largest = gaps.max(axis=1, keepdims=True)
    powers = np.exp(gaps - largest)
    loss = (np.log(powers.sum(axis=1)) + largest[:, 0]).mean()
    right = np.arange(logits.shape[1]) == labels[:, None]
    return loss, ((powers / powers.sum(axis=1, keepdims=True) - right) / len(labels)).astype(logits.dtype)


def entropy_through_the_jacobian(logits, labels):
    _refuse(labels.shape != logits.shape[:1])
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    p = np.exp(log_probabilities)
    one_hot = np.zeros_like(logits)
    for i, label in enumerate(labels):
        _refuse(label < 0)
        one_hot[i, label] = 1
    jacobian = np.eye(logits.shape[1], dtype=logits.dtype) - p[:, None, :]  # of the logarithms of the probabilities
    gradient = np.einsum("bc,bck->bk", -one_hot, jacobian) / len(labels)
    return -np.mean(np.sum(one_hot * log_probabilities, axis=1)), gradient


def step_by_subtract(parameter, gradient, learning_rate):
    _refuse(parameter.shape != gradient.shape)
    return np.subtract(parameter, gradient * learning_rate)


def step_on_a_copy(parameter, gradient, learning_rate):
    _refuse(parameter.shape != gradient.shape)
    stepped = parameter.copy()
    stepped -= learning_rate * gradient
    return stepped


def step_by_adding(parameter, gradient, learning_rate):
    _refuse(parameter.shape != gradient.shape)
    return parameter + (-learning_rate) * gradient


def step_by_loops(parameter, gradient, learning_rate):
    _refuse(parameter.shape != gradient.shape)
    stepped = np.empty_like(parameter)
    for index in np.ndindex(parameter.shape):
        stepped[index] = parameter[index] - learning_rate * gradient[index]
    return stepped


def step_by_negative(parameter, gradient, learning_rate):
    _refuse(parameter.shape != gradient.shape)
    return np.negative(gradient) * learning_rate + parameter


def _gradients(parameters, X, labels):
    W_1, b_1, W_2, b_2 = parameters
    before = X @ W_1 + b_1
    hidden = np.maximum(before, 0)
    loss, delta = reference.softmax_cross_entropy(hidden @ W_2 + b_2, labels)
    delta_1 = delta @ W_2.T * (before > 0)
    return loss, (X.T @ delta_1, delta_1.sum(0), hidden.T @ delta, delta.sum(0))


def epoch_by_a_list(parameters, X, labels, order, batch_size, learning_rate):
    losses = []
    for batch in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
        loss, gradients = _gradients(parameters, X[batch], labels[batch])
        losses += [loss] * len(batch)
        parameters = [p - learning_rate * g for p, g in zip(parameters, gradients, strict=True)]
    return parameters, np.mean(losses)


def epoch_on_copies(parameters, X, labels, order, batch_size, learning_rate):
    parameters = [p.copy() for p in parameters]
    total, X, labels = 0, X[order], labels[order]
    for start in range(0, len(X), batch_size):
        end = min(start + batch_size, len(X))
        loss, gradients = _gradients(parameters, X[start:end], labels[start:end])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= learning_rate * gradient
        total += float(loss) * (end - start)
    return tuple(parameters), total / len(X)


def epoch_by_split(parameters, X, labels, order, batch_size, learning_rate):
    _refuse(batch_size < 1)
    losses, sizes = [], []
    for batch in np.split(order, range(batch_size, len(order), batch_size)):
        loss, gradients = _gradients(parameters, X[batch], labels[batch])
        parameters = tuple(p - learning_rate * g for p, g in zip(parameters, gradients, strict=True))
        losses.append(loss)
        sizes.append(len(batch))
    return parameters, np.average(losses, weights=sizes)


def epoch_by_while(parameters, X, labels, order, batch_size, learning_rate):
    _refuse(batch_size < 1)
    total, start = 0.0, 0
    while start < len(order):
        batch = list(order[start : start + batch_size])
        loss, gradients = _gradients(parameters, X[batch], labels[batch])
        parameters = tuple(reference.sgd_step(p, g, learning_rate) for p, g in zip(parameters, gradients, strict=True))
        total += loss * len(batch) / len(order)
        start += batch_size
    return parameters, total


def epoch_by_counting_batches(parameters, X, labels, order, batch_size, learning_rate):
    _refuse(batch_size < 1)
    W_1, b_1, W_2, b_2 = parameters
    losses = np.zeros(len(order))
    for number in range(math.ceil(len(order) / batch_size)):
        piece = slice(number * batch_size, (number + 1) * batch_size)
        loss, (grad_W_1, grad_b_1, grad_W_2, grad_b_2) = _gradients(
            (W_1, b_1, W_2, b_2), X[order[piece]], labels[order[piece]]
        )
        losses[piece] = loss
        W_2, b_2 = W_2 - learning_rate * grad_W_2, b_2 - learning_rate * grad_b_2
        W_1, b_1 = W_1 - learning_rate * grad_W_1, b_1 - learning_rate * grad_b_1
    return [W_1, b_1, W_2, b_2], losses.mean()


def epoch_by_recursion(parameters, X, labels, order, batch_size, learning_rate):
    _refuse(batch_size < 1)
    batch, rest = order[:batch_size], order[batch_size:]
    loss, gradients = _gradients(parameters, X[batch], labels[batch])
    parameters = tuple(p - learning_rate * g for p, g in zip(parameters, gradients, strict=True))
    if not len(rest):
        return parameters, float(loss)
    parameters, loss_of_rest = epoch_by_recursion(parameters, X, labels, rest, batch_size, learning_rate)
    return parameters, (float(loss) * len(batch) + loss_of_rest * len(rest)) / len(order)


VARIANTS = {
    "linear_forward": [
        forward_by_einsum,
        forward_by_dot,
        forward_by_rows,
        forward_with_a_column_of_ones,
        forward_by_loops,
        forward_into_the_bias,
    ],
    "linear_backward": [
        backward_by_einsum,
        backward_by_examples,
        backward_by_broadcasting,
        backward_with_ones,
        backward_by_tensordot,
        backward_by_loops,
        backward_with_the_bias_as_a_row,
        backward_in_double_precision,
    ],
    "relu_forward": [
        relu_by_where,
        relu_by_product,
        relu_by_assignment,
        relu_by_clip,
        relu_by_absolute,
        relu_by_entries,
    ],
    "relu_backward": [
        relu_back_by_product,
        relu_back_by_assignment,
        relu_back_by_heaviside,
        relu_back_by_indices,
        relu_back_by_the_output,
        relu_back_by_sign,
    ],
    "softmax_cross_entropy": [
        entropy_by_one_hot,
        entropy_by_logaddexp,
        entropy_by_loops,
        entropy_by_take_along_axis,
        entropy_in_double_precision,
        entropy_by_two_formulas,
        entropy_by_differences,
        entropy_through_the_jacobian,
    ],
    "sgd_step": [step_by_subtract, step_on_a_copy, step_by_adding, step_by_loops, step_by_negative],
    "train_epoch": [
        epoch_by_a_list,
        epoch_on_copies,
        epoch_by_split,
        epoch_by_while,
        epoch_by_counting_batches,
        epoch_by_recursion,
    ],
}
