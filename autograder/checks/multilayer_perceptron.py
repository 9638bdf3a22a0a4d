"""What right kernels of "The multilayer perceptron" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check, edited
from autograder.reference import multilayer_perceptron as reference

linear_forward = Check(
    reference.linear_forward,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Each output is a dot product of the example with one column of the matrix, plus that output's bias.",
        "The rows of a matrix product are those of its left factor. The bias broadcasts over the rows by itself.",
    ),
)


def _linear(draw, batch, d_in, d_out):
    return {"x": draw.normal(batch, d_in), "weight": draw.normal(d_in, d_out), "bias": draw.normal(d_out)}


@linear_forward.aspect("one output row for each example", points=1)
def _linear_values(draw):
    batch, d_in, d_out = draw.sizes(3)
    inputs = _linear(draw, batch, d_in, d_out)
    yield Case("a batch", inputs)
    yield Case("as many outputs as inputs", _linear(draw, batch, d_in, d_in))
    yield Case("one example, one output", _linear(draw, 1, d_in, 1))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a matrix of another height", inputs | {"weight": draw.normal(d_in + 1, d_out)}, refused=True)


AFFINE = "x @ weight + bias"
linear_forward.slip(
    "linear-weight-transposed",
    AFFINE,
    "x @ weight.T + bias",
    "You transpose the matrix, as `nn.Linear` does. Here it already has one row for each input.",
)
linear_forward.slip("linear-no-bias", AFFINE, "x @ weight", "The bias is missing: add it to every row.")
linear_forward.slip("linear-bias-subtracted", AFFINE, "x @ weight - bias", "You subtract the bias; it should be added.")
linear_forward.slip(
    "linear-elementwise",
    AFFINE,
    "x * weight + bias",
    "`*` multiplies entry by entry; a product of matrices is asked for.",
)
linear_forward.slip(
    "linear-rectified",
    AFFINE,
    "np.maximum(x @ weight + bias, 0)",
    "Negative outputs come out as zero. The rectifier is a kernel of its own; this one is only linear.",
)

linear_backward = Check(
    reference.linear_backward,
    difficulty="core",
    minutes=20,
    hints=(
        "Write one output as a sum and differentiate it for one input, one weight, one bias. Then sum over all outputs "
        "that this variable touches.",
        "Let the shapes guide you: each gradient has the shape of its variable, and only one product of two of the "
        "arrays has it, with one of them transposed.",
        "Each bias is added in every row of the batch, so its gradient gathers from every row.",
    ),
    reproduces=("torch.autograd.grad", "torch.autograd.backward"),
)


def _linear_gradients(draw, batch, d_in, d_out):
    return {
        "grad_output": draw.normal(batch, d_out),
        "x": draw.normal(batch, d_in),
        "weight": draw.normal(d_in, d_out),
    }


@linear_backward.aspect("the three gradients of a batch", points=2)
def _linear_backward_values(draw):
    batch, d_in, d_out = draw.sizes(3)
    yield Case("a batch", _linear_gradients(draw, batch, d_in, d_out))
    yield Case("as many outputs as inputs and examples", _linear_gradients(draw, batch, batch, batch))
    yield Case("as many outputs as inputs", _linear_gradients(draw, batch, d_in, d_in))


@linear_backward.aspect("batches of one, single precision, other layouts", points=1)
def _linear_backward_more(draw):
    batch, d_in, d_out = draw.sizes(3)
    inputs = _linear_gradients(draw, batch, d_in, d_out)
    yield Case("one example", _linear_gradients(draw, 1, d_in, d_out))
    yield Case("one output", _linear_gradients(draw, batch, d_in, 1))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case(
        "a gradient wider than the output", inputs | {"grad_output": draw.normal(batch, d_out + 1)}, refused=True
    )


GRAD_X = "grad_x = grad_output @ weight.T"
GRAD_WEIGHT = "grad_weight = x.T @ grad_output"
GRAD_BIAS = "grad_bias = grad_output.sum(axis=0)"
GRADIENTS = "return grad_x, grad_weight, grad_bias"
for _id, _old, _new, _hint in (
    (
        "linear-backward-weight-not-transposed",
        GRAD_X,
        "grad_x = grad_output @ weight",
        "In the gradient for `x` the matrix is not transposed: an input gathers from all outputs that it feeds.",
    ),
    (
        "linear-backward-x-not-transposed",
        GRAD_WEIGHT,
        "grad_weight = x @ grad_output",
        "In the gradient for the matrix `x` is not transposed: the sum must run over the examples.",
    ),
    (
        "linear-backward-weight-gradient-transposed",
        GRAD_WEIGHT,
        "grad_weight = grad_output.T @ x",
        "The gradient for the matrix comes out transposed, as `nn.Linear` keeps it. Here inputs are rows.",
    ),
    (
        "linear-backward-weight-mean",
        GRAD_WEIGHT,
        "grad_weight = x.T @ grad_output / len(x)",
        "You divide the gradient for the matrix by the batch size. The loss has done that; here it would be done twice.",
    ),
    (
        "linear-backward-bias-mean",
        GRAD_BIAS,
        "grad_bias = grad_output.mean(axis=0)",
        "The gradient for the bias is a mean over the examples; it should be their sum.",
    ),
    (
        "linear-backward-bias-wrong-axis",
        GRAD_BIAS,
        "grad_bias = grad_output.sum(axis=1)",
        "The gradient for the bias is summed over the outputs. Sum over the examples: one number for each output remains.",
    ),
    (
        "linear-backward-bias-not-summed",
        GRAD_BIAS,
        "grad_bias = grad_output",
        "The gradient for the bias still has a row for each example; the bias has none. Add the rows up.",
    ),
    (
        "linear-backward-bias-keepdims",
        GRAD_BIAS,
        "grad_bias = grad_output.sum(axis=0, keepdims=True)",
        "The gradient for the bias has kept an axis of length one; it should have the shape of the bias.",
    ),
    (
        "linear-backward-bias-all",
        GRAD_BIAS,
        "grad_bias = grad_output.sum()",
        "The gradient for the bias is one number for all outputs; each output has its own.",
    ),
    (
        "linear-backward-order",
        GRADIENTS,
        "return grad_weight, grad_x, grad_bias",
        "The gradients for `x` and for the matrix are returned in the wrong order.",
    ),
    (
        "linear-backward-in-place",
        GRAD_X,
        "grad_x = grad_output @ weight.T\n    x -= grad_x",
        "You change `x`, which belongs to the caller. Make new arrays.",
    ),
):
    linear_backward.slip(_id, _old, _new, _hint)

relu_forward = Check(
    reference.relu_forward,
    difficulty="warm-up",
    minutes=3,
    hints=("Compare each entry with zero and keep the larger of the two, in a new array.",),
)


@relu_forward.aspect("negative numbers become zero, the rest stays", points=1)
def _relu_values(draw):
    rows, columns = draw.sizes(2, 4)
    x = draw.normal(rows, columns)
    x[0, :2] = 3.0, -2.0
    yield Case("a matrix", {"x": x})
    yield Case("three axes", {"x": draw.normal(2, rows, columns)})
    yield Case("single precision", {"x": x}, dtype="float32")
    yield Case("an array that is not contiguous", {"x": x}, strided=True)
    yield Case("several calls", {"x": x}, repeated=True)


RECTIFIED = "np.maximum(x, 0)"
relu_forward.slip("relu-absolute", RECTIFIED, "np.abs(x)", "You turn negative numbers round; they should become zero.")
relu_forward.slip(
    "relu-minimum", RECTIFIED, "np.minimum(x, 0)", "You keep the negative numbers; keep the positive ones."
)
relu_forward.slip(
    "relu-leaky",
    RECTIFIED,
    "np.where(x > 0, x, 0.01 * x)",
    "Negative numbers leak through, scaled down; they should be zero.",
)
relu_forward.slip(
    "relu-largest",
    RECTIFIED,
    "x.max(initial=0)",
    "`x.max()` is the largest entry of all. Compare each entry with zero.",
)
relu_forward.slip(
    "relu-in-place",
    RECTIFIED,
    "np.maximum(x, 0, out=x)",
    "You write into `x`, which the way back still needs. Make a new array.",
)
relu_forward.slip(
    "relu-indicator", RECTIFIED, "(x > 0).astype(x.dtype)", "You return the slope, zero or one, not the value."
)

relu_backward = Check(
    reference.relu_backward,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "The slope is one where the rectifier let its input through and zero where it did not.",
        "What decides is what the rectifier was given, not the gradient that comes back.",
    ),
    reproduces=("torch.autograd.grad", "torch.autograd.backward"),
)


@relu_backward.aspect("the gradient passes where the input was positive", points=1)
def _relu_backward_values(draw):
    rows, columns = draw.sizes(2, 4)
    inputs = {"grad_output": draw.normal(rows, columns), "x": draw.normal(rows, columns)}
    inputs["grad_output"][0, :4] = 2.0, -2.0, 3.0, -3.0
    inputs["x"][0, :4] = 1.5, 2.5, -1.5, -2.5
    at_zero = inputs | {"x": inputs["x"].copy()}
    at_zero["x"][1, :2] = 0.0
    yield Case("a matrix", inputs)
    yield Case("inputs of zero", at_zero)
    yield Case("three axes", {"grad_output": draw.normal(2, rows, columns), "x": draw.normal(2, rows, columns)})
    yield Case("single precision", inputs, dtype="float32")
    yield Case("several calls", inputs, repeated=True)
    yield Case("a gradient of another shape", inputs | {"grad_output": draw.normal(rows, 1)}, refused=True)


GATED = "np.where(x > 0, grad_output, np.zeros_like(x))"
relu_backward.slip(
    "relu-backward-at-zero", "x > 0", "x >= 0", "At zero you let the gradient through; the contract says zero there."
)
relu_backward.slip(
    "relu-backward-gradient-rectified",
    GATED,
    "np.maximum(grad_output, 0)",
    "You rectify the gradient. A gradient may be negative; it is the input's sign that counts.",
)
relu_backward.slip(
    "relu-backward-both",
    "x > 0",
    "(x > 0) & (grad_output > 0)",
    "You stop negative gradients too; only the input's sign counts.",
)
relu_backward.slip(
    "relu-backward-slope",
    GATED,
    "(x > 0).astype(x.dtype)",
    "You return the slope; multiply it by the gradient that comes back.",
)
relu_backward.slip(
    "relu-backward-passed",
    GATED,
    "grad_output.copy()",
    "You pass the whole gradient on, also where the rectifier gave zero.",
)
relu_backward.slip(
    "relu-backward-times-input",
    GATED,
    "grad_output * np.maximum(x, 0)",
    "You multiply by the rectifier's output; multiply by its slope, which is zero or one.",
)

softmax_cross_entropy = Check(
    reference.softmax_cross_entropy,
    difficulty="core",
    minutes=25,
    hints=(
        "Take the logarithm before you compute: log of a quotient is a difference. The loss of an example is then "
        "the log of a sum of exponentials minus one logit.",
        "Subtract each row's largest logit first. The loss does not change, and no exponential overflows.",
        "To pick one entry from each row, index with two arrays: the row numbers and the targets.",
        "The gradient of one example is its probabilities, less one at the right class. The mean over the examples "
        "divides it by their number.",
    ),
    reproduces=("torch.nn.functional.cross_entropy",),
)


def _classified(draw, batch, classes, shift=0.0):
    targets = draw.rng.integers(0, classes, batch)
    targets[0] = classes - 1
    return {"logits": draw.normal(batch, classes, scale=2.0) + shift, "targets": targets}


@softmax_cross_entropy.aspect("the loss and its gradient", points=2)
def _entropy_values(draw):
    batch, classes = draw.sizes(2, 3)
    inputs = _classified(draw, batch, classes)
    yield Case("a batch", inputs)
    yield Case("as many classes as examples", _classified(draw, batch, batch))
    yield Case("one example", _classified(draw, 1, classes))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("several calls", inputs, repeated=True)
    yield Case("a class that is not there", inputs | {"targets": np.full(batch, classes)}, refused=True)
    yield Case("a negative class", inputs | {"targets": np.full(batch, -1)}, refused=True)


@softmax_cross_entropy.aspect("logits as large as 10,000", points=1)
def _entropy_large(draw):
    batch, classes = draw.sizes(2, 3)
    yield Case("large positive logits", _classified(draw, batch, classes, 1e4))
    yield Case("large negative logits", _classified(draw, batch, classes, -1e4))
    yield Case("rows that lie far apart", _classified(draw, batch, classes, 1e4 * np.arange(batch)[:, None]))
    apart = _classified(draw, batch, classes)
    apart["logits"][:, 0] += 1e4
    yield Case("a right class with no chance", apart)


MAX = "logits.max(axis=1, keepdims=True)"
LOG_TOTAL = "np.log(np.exp(shifted).sum(axis=1, keepdims=True))"
LOSS = "loss = -log_probs[rows, targets].mean()"
LESS_ONE = "    grad_logits[rows, targets] -= 1\n"
LOSS_AND_GRADIENT = "return loss, grad_logits / len(targets)"
for _id, _old, _new, _hint in (
    (
        "cross-entropy-overflow",
        MAX,
        "np.zeros((), logits.dtype)",
        "Your exponentials overflow: exp(10000) is infinite. Subtract each row's largest logit first.",
    ),
    (
        "cross-entropy-largest-of-all",
        MAX,
        "logits.max()",
        "You subtract the largest logit of the whole batch, so that rows far below it underflow. Take each row's own.",
    ),
    (
        "cross-entropy-log-of-probability",
        LOSS,
        "loss = -np.log(np.exp(log_probs)[rows, targets]).mean()",
        "You take the logarithm of a probability that has underflowed to zero. Compute the logarithm from the logits.",
    ),
    (
        "cross-entropy-epsilon",
        LOSS,
        "loss = -np.log(np.exp(log_probs)[rows, targets] + logits.dtype.type(1e-4)).mean()",
        "You add a small number inside the logarithm. It bends the loss and caps it; compute it from the logits.",
    ),
    (
        "cross-entropy-sum-loss",
        LOSS,
        "loss = -log_probs[rows, targets].sum()",
        "The loss is the sum over the examples; their mean is asked for.",
    ),
    (
        "cross-entropy-gradient-of-sum",
        LOSS_AND_GRADIENT,
        "return loss, grad_logits",
        "The gradient is that of the sum. The loss is a mean, so its gradient is divided by the number of examples.",
    ),
    (
        "cross-entropy-divided-by-classes",
        LOSS_AND_GRADIENT,
        "return loss, grad_logits / logits.size",
        "You divide the gradient by the number of all logits; divide by that of the examples.",
    ),
    (
        "cross-entropy-one-not-subtracted",
        LESS_ONE,
        "",
        "The gradient is the probabilities themselves; at the right class one must come off.",
    ),
    (
        "cross-entropy-gradient-sign",
        LOSS_AND_GRADIENT,
        "return loss, -grad_logits / len(targets)",
        "The gradient has the wrong sign: a step against it would make the right class less likely.",
    ),
    (
        "cross-entropy-loss-sign",
        LOSS,
        "loss = log_probs[rows, targets].mean()",
        "The loss is negative. The logarithm of a probability is below zero; the loss is minus that.",
    ),
    (
        "cross-entropy-over-examples",
        LOG_TOTAL,
        "np.log(np.exp(shifted).sum(axis=0, keepdims=True))",
        "Your probabilities sum to one over the examples. Sum over the classes, the last axis.",
    ),
    (
        "cross-entropy-base-2",
        LOSS,
        "loss = -log_probs[rows, targets].mean() / logits.dtype.type(np.log(2))",
        "The loss is in bits; use the natural logarithm.",
    ),
    (
        "cross-entropy-all-columns",
        LESS_ONE,
        "    grad_logits[:, targets] -= 1\n",
        "You subtract one in whole columns. Pair each row with its own target: index by two arrays.",
    ),
):
    softmax_cross_entropy.slip(_id, _old, _new, _hint)

sgd_step = Check(
    reference.sgd_step,
    difficulty="warm-up",
    minutes=3,
    hints=("The loss falls fastest against its gradient. Give back a new array.",),
)


@sgd_step.aspect("one step against the gradient", points=1)
def _sgd_values(draw):
    rows, columns = draw.sizes(2)
    inputs = {"parameter": draw.normal(rows, columns), "gradient": draw.normal(rows, columns), "learning_rate": 0.3}
    yield Case("a matrix", inputs)
    yield Case("a learning rate over one", inputs | {"learning_rate": 2.5})
    yield Case("a bias", {"parameter": draw.normal(columns), "gradient": draw.normal(columns), "learning_rate": 0.1})
    yield Case("single precision", inputs, dtype="float32")
    yield Case("several calls", inputs, repeated=True)
    yield Case("a gradient of another shape", inputs | {"gradient": draw.normal(rows, 1)}, refused=True)


STEP = "parameter - learning_rate * gradient"
sgd_step.slip(
    "sgd-ascent", STEP, "parameter + learning_rate * gradient", "You go up the gradient: the loss would grow."
)
sgd_step.slip("sgd-no-rate", STEP, "parameter - gradient", "The learning rate is missing.")
sgd_step.slip(
    "sgd-only-step",
    STEP,
    "-learning_rate * gradient",
    "You return the step alone; the parameter after it is asked for.",
)
sgd_step.slip(
    "sgd-parameter-scaled",
    STEP,
    "learning_rate * (parameter - gradient)",
    "The learning rate scales the gradient only, not the parameter.",
)
sgd_step.slip(
    "sgd-in-place",
    "return parameter - learning_rate * gradient",
    "parameter -= learning_rate * gradient\n    return parameter",
    "You change the caller's parameter itself. Return a new array and leave the old one.",
)

train_epoch = Check(
    reference.train_epoch,
    difficulty="core",
    minutes=30,
    hints=(
        "Cut `order` into pieces of `batch_size`; a slice that runs over the end is shorter by itself.",
        "Forward: linear, rectifier, linear, loss. Backward: the same in reverse. Each backward kernel wants what its "
        "forward kernel was given, so keep those arrays.",
        "Compute all gradients before you change any parameter. Then step all four.",
        "A short batch counts for as many examples as it has: weight its loss by its size.",
    ),
    uses=("linear_forward", "linear_backward", "relu_forward", "relu_backward", "softmax_cross_entropy", "sgd_step"),
)


def _epoch(draw, examples, batch_size, d_in=3, hidden=6, classes=4):
    return {
        "weight_1": draw.normal(d_in, hidden),
        "bias_1": draw.normal(hidden),
        "weight_2": draw.normal(hidden, classes),
        "bias_2": draw.normal(classes),
        "x": draw.normal(examples, d_in),
        "targets": draw.rng.integers(0, classes, examples),
        "order": np.roll(draw.rng.permutation(examples), 1),
        "batch_size": batch_size,
        "learning_rate": 0.2,
    }


@train_epoch.aspect("one mini-batch", points=1)
def _epoch_one(draw):
    yield Case("all examples in one batch", _epoch(draw, 7, 7))
    yield Case("a batch size over the number of examples", _epoch(draw, 5, 8))


@train_epoch.aspect("many mini-batches, in the order given", points=2)
def _epoch_many(draw):
    inputs = _epoch(draw, 12, 4)
    yield Case("batches of one size", inputs)
    yield Case("batches of one example", _epoch(draw, 5, 1))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("several calls", inputs, repeated=True)
    yield Case("no batch at all", inputs | {"batch_size": 0}, refused=True)


@train_epoch.aspect("a last batch that is shorter", points=1)
def _epoch_short(draw):
    yield Case("a last batch of two", _epoch(draw, 12, 5))
    yield Case("a last batch of one", _epoch(draw, 7, 3))


BATCH = "batch = order[start : start + batch_size]"
GRAD_BEFORE = "grad_before = relu_backward(grad_hidden, before)"
SUM = "total = total + loss * len(batch)"
MEAN = "total / len(order)"


def _epoch_edited(id, hint, *edits):
    train_epoch.mistake(id, hint)(edited(reference.train_epoch, *edits))


_epoch_edited(
    "epoch-order-ignored",
    "You take the examples as they stand, not in the `order` that was given.",
    (BATCH, "batch = np.arange(len(order))[start : start + batch_size]"),
)
_epoch_edited(
    "epoch-order-drawn",
    "You sort or draw the order anew; the caller gives it.",
    (BATCH, "batch = np.sort(order)[::-1][start : start + batch_size]"),
)
_epoch_edited(
    "epoch-last-batch-dropped",
    "The last, shorter batch is left out: its examples are never seen.",
    ("range(0, len(order), batch_size)", "range(0, len(order) - batch_size + 1, batch_size)"),
)
_epoch_edited(
    "epoch-loss-not-weighted",
    "The loss is the mean over the batches, so that a short batch counts as much as a full one. Weight it by its size.",
    (SUM, "total = total + loss"),
    (MEAN, "total / -(-len(order) // batch_size)"),
)
_epoch_edited(
    "epoch-loss-summed",
    "The loss is summed over the examples; their mean is asked for.",
    (MEAN, "total"),
)
_epoch_edited(
    "epoch-last-loss",
    "You return the loss of the last batch; the mean over all examples is asked for.",
    (MEAN, "loss"),
)
_epoch_edited(
    "epoch-rectifier-skipped-backward",
    "The way back goes round the rectifier.",
    (GRAD_BEFORE, "grad_before = grad_hidden"),
)
_epoch_edited(
    "epoch-targets-not-reordered",
    "The examples are reordered and their targets are not, so that most get the wrong class.",
    ("targets[batch]", "targets[start : start + batch_size]"),
)
_epoch_edited(
    "epoch-first-layer-frozen",
    "The first layer is never changed.",
    ("weight_1 = sgd_step(weight_1, grad_weight_1, learning_rate)", "pass"),
    ("bias_1 = sgd_step(bias_1, grad_bias_1, learning_rate)", "pass"),
)
