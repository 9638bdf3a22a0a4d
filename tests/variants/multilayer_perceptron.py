"""Right kernels of "The multilayer perceptron" in other styles."""

import numpy as np

from autograder.reference import multilayer_perceptron as reference


def forward_by_einsum(x, weight, bias):
    return np.einsum("bi,io->bo", x, weight) + bias


def forward_by_dot(x, weight, bias):
    return np.add(np.dot(x, weight), bias[None, :])


def forward_by_rows(x, weight, bias):
    return np.stack([row @ weight + bias for row in x])


def forward_with_a_column_of_ones(x, weight, bias):
    return np.hstack([x, np.ones((len(x), 1), x.dtype)]) @ np.vstack([weight, bias])


def backward_by_einsum(grad_output, x, weight):
    return (
        np.einsum("bo,io->bi", grad_output, weight),
        np.einsum("bi,bo->io", x, grad_output),
        np.einsum("bo->o", grad_output),
    )


def backward_by_examples(grad_output, x, weight):
    grad_weight = sum(np.outer(row, g) for row, g in zip(x, grad_output, strict=True))
    return np.stack([weight @ g for g in grad_output]), grad_weight, sum(grad_output)


def backward_by_broadcasting(grad_output, x, weight):
    grad_x = (grad_output[:, None, :] * weight[None]).sum(-1)
    return grad_x, (x[:, :, None] * grad_output[:, None, :]).sum(0), np.sum(grad_output, 0)


def backward_with_ones(grad_output, x, weight):
    return [(weight @ grad_output.T).T, (grad_output.T @ x).T, np.ones(len(x), x.dtype) @ grad_output]


def backward_by_tensordot(grad_output, x, weight):
    grad_x = np.tensordot(grad_output, weight, ((1,), (1,)))
    return grad_x, np.tensordot(x, grad_output, ((0,), (0,))), np.add.reduce(grad_output)


def relu_by_where(x):
    return np.where(x > 0, x, np.zeros_like(x))


def relu_by_product(x):
    return x * (x > 0)


def relu_by_assignment(x):
    out = x.copy()
    out[out < 0] = 0
    return out


def relu_by_clip(x):
    return np.clip(x, 0, None)


def relu_by_absolute(x):
    return (x + np.abs(x)) / 2


def relu_back_by_product(grad_output, x):
    return grad_output * (x > 0)


def relu_back_by_assignment(grad_output, x):
    out = grad_output.copy()
    out[x <= 0] = 0
    return out


def relu_back_by_heaviside(grad_output, x):
    return grad_output * np.heaviside(x, x.dtype.type(0))


def relu_back_by_indices(grad_output, x):
    out = np.zeros_like(x)
    out[x > 0] = grad_output[x > 0]
    return out


def entropy_by_one_hot(logits, targets):
    one_hot = np.eye(logits.shape[1], dtype=logits.dtype)[targets]
    shifted = logits - logits.max(1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -(one_hot * log_probs).sum() / len(logits), (np.exp(log_probs) - one_hot) / len(logits)


def entropy_by_logaddexp(logits, targets):
    log_total = np.logaddexp.reduce(logits, axis=1)
    rows = range(len(targets))
    gradient = np.exp(logits - log_total[:, None])
    gradient[rows, targets] -= 1
    # Row by row the largest logit comes off first, as the sum of a large number and a small one has few digits.
    largest = logits.max(1)
    log_total = np.logaddexp.reduce(logits - largest[:, None], axis=1)
    gradient = np.exp(logits - largest[:, None] - log_total[:, None])
    gradient[rows, targets] -= 1
    return np.mean(log_total - (logits[rows, targets] - largest)), gradient / len(targets)


def entropy_by_loops(logits, targets):
    losses, gradient = [], np.zeros_like(logits)
    for i, (row, target) in enumerate(zip(logits, targets, strict=True)):
        powers = np.exp(row - max(row))
        losses.append(np.log(sum(powers)) - (row[target] - max(row)))
        gradient[i] = powers / sum(powers)
        gradient[i, target] -= 1
    return float(np.mean(losses)), gradient / len(targets)


def entropy_by_take_along_axis(logits, targets):
    shifted = logits - np.amax(logits, axis=-1)[:, None]
    powers = np.exp(shifted)
    total = powers.sum(-1, keepdims=True)
    chosen = np.take_along_axis(shifted, targets[:, None], 1)
    gradient = powers / total / len(targets)
    np.subtract.at(gradient, (np.arange(len(targets)), targets), logits.dtype.type(1 / len(targets)))
    return (np.log(total) - chosen).mean(), gradient


def entropy_in_double_precision(logits, targets):
    loss, gradient = entropy_by_one_hot(logits.astype(np.float64), targets)
    return loss, gradient.astype(logits.dtype)


def step_by_subtract(parameter, gradient, learning_rate):
    return np.subtract(parameter, gradient * learning_rate)


def step_on_a_copy(parameter, gradient, learning_rate):
    stepped = parameter.copy()
    stepped -= learning_rate * gradient
    return stepped


def step_by_adding(parameter, gradient, learning_rate):
    return parameter + (-learning_rate) * gradient


def step_by_loops(parameter, gradient, learning_rate):
    stepped = np.empty_like(parameter)
    for index in np.ndindex(parameter.shape):
        stepped[index] = parameter[index] - learning_rate * gradient[index]
    return stepped


def _gradients(parameters, x, targets):
    weight_1, bias_1, weight_2, bias_2 = parameters
    before = x @ weight_1 + bias_1
    hidden = np.maximum(before, 0)
    loss, delta = reference.softmax_cross_entropy(hidden @ weight_2 + bias_2, targets)
    delta_1 = delta @ weight_2.T * (before > 0)
    return loss, (x.T @ delta_1, delta_1.sum(0), hidden.T @ delta, delta.sum(0))


def epoch_by_a_list(weight_1, bias_1, weight_2, bias_2, x, targets, order, batch_size, learning_rate):
    parameters, losses = [weight_1, bias_1, weight_2, bias_2], []
    for batch in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
        loss, gradients = _gradients(parameters, x[batch], targets[batch])
        losses += [loss] * len(batch)
        parameters = [p - learning_rate * g for p, g in zip(parameters, gradients, strict=True)]
    return *parameters, np.mean(losses)


def epoch_on_copies(weight_1, bias_1, weight_2, bias_2, x, targets, order, batch_size, learning_rate):
    parameters = [p.copy() for p in (weight_1, bias_1, weight_2, bias_2)]
    total, x, targets = 0, x[order], targets[order]
    for start in range(0, len(x), batch_size):
        end = min(start + batch_size, len(x))
        loss, gradients = _gradients(parameters, x[start:end], targets[start:end])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= learning_rate * gradient
        total += float(loss) * (end - start)
    return *parameters, total / len(x)


def epoch_by_array_split(weight_1, bias_1, weight_2, bias_2, x, targets, order, batch_size, learning_rate):
    parameters, losses, sizes = (weight_1, bias_1, weight_2, bias_2), [], []
    for batch in np.split(order, range(batch_size, len(order), batch_size)):
        loss, gradients = _gradients(parameters, x[batch], targets[batch])
        parameters = tuple(p - learning_rate * g for p, g in zip(parameters, gradients, strict=True))
        losses.append(loss)
        sizes.append(len(batch))
    return *parameters, np.average(losses, weights=sizes)


def epoch_by_while(weight_1, bias_1, weight_2, bias_2, x, targets, order, batch_size, learning_rate):
    parameters, total, start = (weight_1, bias_1, weight_2, bias_2), 0.0, 0
    while start < len(order):
        batch = list(order[start : start + batch_size])
        loss, gradients = _gradients(parameters, x[batch], targets[batch])
        parameters = tuple(reference.sgd_step(p, g, learning_rate) for p, g in zip(parameters, gradients, strict=True))
        total += loss * len(batch) / len(order)
        start += batch_size
    return *parameters, total


VARIANTS = {
    "linear_forward": [forward_by_einsum, forward_by_dot, forward_by_rows, forward_with_a_column_of_ones],
    "linear_backward": [
        backward_by_einsum,
        backward_by_examples,
        backward_by_broadcasting,
        backward_with_ones,
        backward_by_tensordot,
    ],
    "relu_forward": [relu_by_where, relu_by_product, relu_by_assignment, relu_by_clip, relu_by_absolute],
    "relu_backward": [relu_back_by_product, relu_back_by_assignment, relu_back_by_heaviside, relu_back_by_indices],
    "softmax_cross_entropy": [
        entropy_by_one_hot,
        entropy_by_logaddexp,
        entropy_by_loops,
        entropy_by_take_along_axis,
        entropy_in_double_precision,
    ],
    "sgd_step": [step_by_subtract, step_on_a_copy, step_by_adding, step_by_loops],
    "train_epoch": [epoch_by_a_list, epoch_on_copies, epoch_by_array_split, epoch_by_while],
}
