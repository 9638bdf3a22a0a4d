"""What right kernels of "The multilayer perceptron" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import multilayer_perceptron as reference


def _slips(check, old, *mistakes):
    """Known mistakes that put other code in the place of ``old``: id, new code, hint, and a source where there is one."""
    for id, new, *words in mistakes:
        check.slip(id, old, new, *words)


linear_forward = Check(
    reference.linear_forward,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "One output of one example is a dot product: the example with one column of `W`. Then its bias is added.",
        "A product of matrices takes every row of the left one with every column of the right one.",
        "NumPy lines up shapes from the right, so a vector of one number for each output fits every row as it is.",
    ),
)


def _layer(draw, batch, d_in, d_out):
    return {"X": draw.normal(batch, d_in), "W": draw.normal(d_in, d_out), "b": draw.normal(d_out)}


@linear_forward.aspect("one row of outputs for each example", points=1)
def _layer_values(draw):
    batch, d_in, d_out = draw.sizes(3)
    # Sizes that agree come first: what is the wrong way round gives numbers there, by which it is known.
    yield Case("as many examples as inputs and outputs", _layer(draw, batch, batch, batch))
    yield Case("a batch", _layer(draw, batch, d_in, d_out))
    yield Case("as many outputs as inputs", _layer(draw, batch, d_in, d_in))
    yield Case("one example", _layer(draw, 1, d_in, d_out))
    yield Case("one input, one output", _layer(draw, batch, 1, 1))


@linear_forward.aspect("other arrays", points=1)
def _layer_more(draw):
    batch, d_in, d_out = draw.sizes(3)
    inputs = _layer(draw, batch, d_in, d_out)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("weights with a row too many", inputs | {"W": draw.normal(d_in + 1, d_out)}, refused=True)
    yield Case("a single bias for all outputs", inputs | {"b": draw.normal(1)}, refused=True)


_slips(
    linear_forward,
    "weighted_sums = X @ W\n    return weighted_sums + b",
    (
        "linear-weights-transposed",
        "return X @ W.T + b",
        "You transpose `W`. `nn.Linear` keeps its weights the other way round; here each input has a row already.",
    ),
    ("linear-no-bias", "return X @ W", "The bias is missing: it is added to every row."),
    ("linear-bias-subtracted", "return X @ W - b", "You subtract the bias; it should be added."),
    (
        "linear-bias-first",
        "return (X + b) @ W",
        "You add the bias to the inputs. It belongs to the outputs: first the product, then the bias.",
    ),
    (
        "linear-bias-by-row",
        "return X @ W + b[:, None]",
        "You add the biases down the rows, one for each example. Each output, a column, has its own.",
    ),
    (
        "linear-elementwise",
        "return X * W + b",
        "`*` multiplies entry by entry. A product of matrices is asked for.",
    ),
    (
        "linear-factors-swapped",
        "return W @ X + b",
        "The factors are in the wrong order. Examples are rows, so `X` stands on the left.",
    ),
    (
        "linear-columns",
        "return W.T @ X + b[:, None]",
        "You treat the columns of `X` as examples. Here its rows are.",
    ),
    (
        "linear-output-transposed",
        "return (X @ W + b).T",
        "The output is transposed: it should have one row for each example.",
    ),
    (
        "linear-biases-summed",
        "return X @ W + b.sum()",
        "You add the sum of all biases to every output. Each output has its own.",
    ),
    (
        "linear-rectified",
        "return np.maximum(X @ W + b, 0)",
        "Negative outputs come out as zero. The rectifier is a kernel of its own; a linear layer lets them through.",
    ),
    (
        "linear-double-result",
        "return np.asarray(X @ W + b, dtype=np.float64)",
        "Inputs in single precision give outputs in double precision; keep the dtype.",
    ),
)


linear_backward = Check(
    reference.linear_backward,
    difficulty="core",
    minutes=20,
    hints=(
        "Write one output as a sum and differentiate it: by one input, by one weight, by one bias. Then add up over all "
        "outputs that this number has a part in.",
        "Each gradient has the shape of its array. For `X` and for `W` there is one product of two of the three arrays "
        "that has this shape, with one of them transposed.",
        "A bias has a part in one column of the output, and there in every row.",
    ),
    reproduces=("torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward"),
)


def _layer_gradients(draw, batch, d_in, d_out):
    return {
        "grad_output": draw.normal(batch, d_out),
        "X": draw.normal(batch, d_in),
        "W": draw.normal(d_in, d_out),
    }


def _one_gradient(draw, name):
    batch, d_in, d_out = draw.sizes(3)
    only = {"only": f"grad_{name}"}
    yield Case("as many examples as inputs and outputs", _layer_gradients(draw, batch, batch, batch), probe=only)
    yield Case("a batch", _layer_gradients(draw, batch, d_in, d_out), probe=only)
    yield Case("as many inputs as outputs", _layer_gradients(draw, batch, d_in, d_in), probe=only)


@linear_backward.aspect("the gradient for the inputs", points=1)
def _layer_gradient_X(draw):
    yield from _one_gradient(draw, "X")


@linear_backward.aspect("the gradient for the weights", points=1)
def _layer_gradient_W(draw):
    yield from _one_gradient(draw, "W")


@linear_backward.aspect("the gradient for the bias", points=1)
def _layer_gradient_b(draw):
    yield from _one_gradient(draw, "b")


@linear_backward.aspect("small batches and other arrays", points=1)
def _layer_gradients_more(draw):
    batch, d_in, d_out = draw.sizes(3)
    inputs = _layer_gradients(draw, batch, d_in, d_out)
    yield Case("one example", _layer_gradients(draw, 1, d_in, d_out))
    yield Case("one output", _layer_gradients(draw, batch, d_in, 1))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case(
        "a gradient with a column too many", inputs | {"grad_output": draw.normal(batch, d_out + 1)}, refused=True
    )
    yield Case("a gradient of one example for a batch", inputs | {"grad_output": draw.normal(1, d_out)}, refused=True)


_slips(
    linear_backward,
    "grad_X = grad_output @ W.T",
    (
        "linear-backward-weights-not-transposed",
        "grad_X = grad_output @ W",
        "In the gradient for `X` the weights are not transposed. Forward, a row of `W` sends one input to all outputs; "
        "on the way back it gathers from them.",
    ),
    (
        "linear-backward-input-gradient-transposed",
        "grad_X = W @ grad_output.T",
        "The gradient for `X` comes out transposed: its rows should be the examples.",
    ),
)
_slips(
    linear_backward,
    "grad_W = X.T @ grad_output",
    (
        "linear-backward-inputs-not-transposed",
        "grad_W = X @ grad_output",
        "In the gradient for `W` the inputs are not transposed: the sum must run over the examples.",
    ),
    (
        "linear-backward-weight-gradient-transposed",
        "grad_W = grad_output.T @ X",
        "The gradient for `W` comes out transposed, as `nn.Linear` would keep it. Here its rows are the inputs.",
    ),
    (
        "linear-backward-weight-mean",
        "grad_W = X.T @ grad_output / len(X)",
        "You divide the gradient for `W` by the batch size. A loss that is a mean brings that along in its own gradient; "
        "so it happens twice.",
        "https://github.com/d2l-ai/d2l-en/pull/1000",
    ),
    (
        "linear-backward-weight-last-example",
        "grad_W = X[-1][:, None] * grad_output[-1]",
        "The gradient for `W` is that of the last example alone. Every example adds its part.",
    ),
)
_slips(
    linear_backward,
    "grad_b = grad_output.sum(axis=0)",
    (
        "linear-backward-bias-mean",
        "grad_b = grad_output.mean(axis=0)",
        "The gradient for `b` is a mean over the examples. Every example adds its part: take the sum.",
        "https://github.com/kvfrans/notes/issues/5",
    ),
    (
        "linear-backward-bias-over-outputs",
        "grad_b = grad_output.sum(axis=1)",
        "The gradient for `b` is summed over the outputs. Sum over the examples, so that each output keeps a number.",
    ),
    (
        "linear-backward-bias-not-summed",
        "grad_b = grad_output",
        "The gradient for `b` still has a row for each example; `b` has none. Add the rows up.",
    ),
    (
        "linear-backward-bias-keepdims",
        "grad_b = grad_output.sum(axis=0, keepdims=True)",
        "The gradient for `b` has kept an axis of length one. It should have the shape of `b`.",
    ),
    (
        "linear-backward-bias-one-number",
        "grad_b = grad_output.sum()",
        "The gradient for `b` is a single number for all outputs. Each output has its own.",
        "https://github.com/rasbt/stat453-deep-learning-ss21/issues/5",
    ),
    (
        "linear-backward-bias-last-example",
        "grad_b = grad_output[-1]",
        "The gradient for `b` is that of the last example alone. Every example adds its part.",
    ),
    (
        "linear-backward-bias-ones",
        "grad_b = np.ones_like(grad_output[0])",
        "The gradient for `b` is the slope alone, which is one. The chain rule multiplies it by the gradient that comes "
        "back, in each row.",
    ),
    (
        "linear-backward-bias-from-weights",
        "grad_b = grad_W.sum(axis=0)",
        "The gradient for `b` is gathered from that for `W`. A bias does not meet the inputs: they have no part in it.",
    ),
)
_slips(
    linear_backward,
    "return grad_X, grad_W, grad_b",
    (
        "linear-backward-order",
        "return grad_W, grad_X, grad_b",
        "The gradients for `X` and for `W` are returned in the wrong order.",
    ),
    (
        "linear-backward-inputs-last",
        "return grad_W, grad_b, grad_X",
        "The gradients are returned in the wrong order: that for `X` comes first.",
    ),
    (
        "linear-backward-all-means",
        "return grad_X, grad_W / len(X), grad_b / len(X)",
        "You divide the gradients for `W` and `b` by the batch size. A loss that is a mean brings that along in its own "
        "gradient; so it happens twice.",
        "https://github.com/d2l-ai/d2l-en/pull/1000",
    ),
    (
        "linear-backward-two-gradients",
        "return grad_W, grad_b",
        "You return two gradients. The third, for `X`, is what the layer below needs.",
    ),
    (
        "linear-backward-step-taken",
        "W -= 0.1 * grad_W\n    return grad_X, grad_W, grad_b",
        "You change `W` here. This kernel only computes gradients; the step is another kernel's.",
    ),
)


relu_forward = Check(
    reference.relu_forward,
    difficulty="warm-up",
    minutes=3,
    hints=(
        "Compare each entry with zero and keep the larger of the two.",
        "`max` is one number for a whole array. There is a function of two arguments that compares entry by entry.",
        "It is called `maximum`, and one of its two arguments may be a plain number.",
    ),
    reproduces=("torch.relu", "torch.nn.functional.relu"),
)


def _both_signs(draw):
    rows, columns = draw.sizes(2, 4)
    Z = draw.normal(rows, columns)
    Z[0, :4] = 3.0, -2.0, 0.0, 0.25  # both signs, zero, and a number below one are in every draw
    return Z


@relu_forward.aspect("negative entries become zero, the others stay", points=1)
def _relu_values(draw):
    Z = _both_signs(draw)
    yield Case("a matrix", {"Z": Z})
    yield Case("a vector", {"Z": Z[0]})
    yield Case("three axes", {"Z": draw.normal(2, *Z.shape)})
    yield Case("nothing above zero", {"Z": -np.abs(Z) - 0.5})


@relu_forward.aspect("other arrays", points=1)
def _relu_more(draw):
    Z = _both_signs(draw)
    yield Case("single precision", {"Z": Z}, dtype="float32")
    yield Case("an array that is not contiguous", {"Z": Z}, strided=True)
    yield Case("several calls", {"Z": Z}, repeated=True)


_slips(
    relu_forward,
    "return np.maximum(Z, 0)",
    ("relu-absolute", "return np.abs(Z)", "You turn negative numbers positive; they should become zero."),
    ("relu-minimum", "return np.minimum(Z, 0)", "You keep the negative numbers; keep the positive ones."),
    ("relu-negated", "return np.maximum(-Z, 0)", "You rectify the numbers with their signs turned round."),
    (
        "relu-leaky",
        "return np.where(Z > 0, Z, Z.dtype.type(0.01) * Z)",
        "Negative numbers leak through, scaled down (leaky ReLU); they should be zero.",
    ),
    (
        "relu-largest-of-all",
        "return np.maximum(Z.max(), 0)",
        "You return the largest entry of all, one number. Compare each entry with zero.",
    ),
    (
        "relu-largest-of-columns",
        "return np.max(Z, 0)",
        "`np.max` looks for the largest entry along an axis. `np.maximum` compares two arrays entry by entry.",
    ),
    (
        "relu-decides-once",
        "return max(0, Z)",
        "`max` and `if` decide about one number, not about each entry of an array. Compare entry by entry.",
    ),
    (
        "relu-sigmoid",
        "return 1 / (1 + np.exp(-Z))",
        "This is the sigmoid; the rectifier has a bend and two straight lines.",
    ),
    (
        "relu-tanh",
        "return np.tanh(Z)",
        "This is the hyperbolic tangent; the rectifier has a bend and two straight lines.",
    ),
    (
        "relu-softplus",
        "return np.log(1 + np.exp(Z))",
        "This is softplus, a smooth cousin of the rectifier, which has a bend and two straight lines.",
    ),
    (
        "relu-double-result",
        "return np.where(Z > 0, Z, np.zeros(Z.shape))",
        "An array in single precision comes back in double precision, which is what `np.zeros` makes. Keep the dtype.",
    ),
    (
        "relu-condition",
        "return Z > 0",
        "You return where the entries are positive. There the entries themselves should stand.",
    ),
    (
        "relu-slope",
        "return (Z > 0).astype(Z.dtype)",
        "You return the slope, zero or one. Where it is one, the entry itself should stand.",
    ),
    (
        "relu-positive-entries-only",
        "return Z[Z > 0]",
        "You leave the other entries out, so the shape is lost. They should stay, as zeros.",
    ),
    (
        "relu-at-one",
        "return np.where(Z > 1, Z, np.zeros_like(Z))",
        "Entries between zero and one come out as zero. The threshold is zero.",
    ),
    (
        "relu-capped",
        "return np.clip(Z, 0, 1)",
        "Numbers over one are cut off. Positive numbers should pass as they are.",
    ),
    (
        "relu-in-place",
        "return np.maximum(Z, 0, out=Z)",
        "You write into `Z`, whose signs the way back still needs. Make a new array.",
        "https://github.com/BVLC/caffe/issues/2413",
    ),
)


relu_backward = Check(
    reference.relu_backward,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Where the rectifier let a number through, its slope is one; where it did not, zero. The chain rule multiplies.",
        "What decides is what the rectifier was given, not the gradient that comes back.",
        "A comparison gives an array of True and False. Multiplied with numbers, they count as one and zero.",
    ),
    reproduces=("torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward"),
)


def _all_signs(draw):
    rows, columns = draw.sizes(2, 4)
    inputs = {"grad_output": draw.normal(rows, columns), "Z": draw.normal(rows, columns)}
    inputs["grad_output"][0, :4] = 2.0, -2.0, 3.0, -3.0  # all four pairs of signs are in every draw
    inputs["Z"][0, :4] = 1.5, 0.5, -1.5, -0.5
    return inputs


@relu_backward.aspect("the gradient passes where the input was positive", points=1)
def _relu_gradients(draw):
    inputs = _all_signs(draw)
    yield Case("a matrix", inputs)
    at_zero = inputs["Z"].copy()
    at_zero[1, :2] = 0.0
    yield Case("some entries are exactly zero", inputs | {"Z": at_zero})
    yield Case("a vector", {name: array[0] for name, array in inputs.items()})
    shape = (2, *at_zero.shape)
    yield Case("three axes", {"grad_output": draw.normal(*shape), "Z": draw.normal(*shape)})


@relu_backward.aspect("other arrays", points=1)
def _relu_gradients_more(draw):
    inputs = _all_signs(draw)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a gradient of another shape", inputs | {"grad_output": inputs["grad_output"][:, :1]}, refused=True)


_slips(
    relu_backward,
    "Z > 0",
    (
        "relu-backward-open-at-zero",
        "Z >= 0",
        "You let the gradient through where the input is exactly zero. The contract says zero there, as in PyTorch.",
    ),
    (
        "relu-backward-sign-of-gradient",
        "grad_output > 0",
        "You look at the sign of the gradient. A gradient may be negative; the sign of `Z` decides.",
    ),
    (
        "relu-backward-both-signs",
        "(Z > 0) & (grad_output > 0)",
        "You stop negative gradients too; the sign of `Z` alone decides.",
    ),
    (
        "relu-backward-turned-round",
        "Z <= 0",
        "The gradient passes where it should stop, and stops where it should pass.",
    ),
)
_slips(
    relu_backward,
    "np.where(Z > 0, grad_output, np.zeros_like(grad_output))",
    (
        "relu-backward-slope-only",
        "(Z > 0).astype(Z.dtype)",
        "You return the slope, zero or one. It multiplies the gradient that comes back.",
    ),
    (
        "relu-backward-condition",
        "Z > 0",
        "You return where the input was positive. There the gradient that comes back should stand.",
    ),
    (
        "relu-backward-half-at-zero",
        "grad_output * np.heaviside(Z, Z.dtype.type(0.5))",
        "You take one half for the slope at exactly zero. The contract says zero there, as in PyTorch.",
    ),
    (
        "relu-backward-double-result",
        "grad_output * np.where(Z > 0, np.ones(Z.shape), 0.0)",
        "A gradient in single precision comes back in double precision. An array of float64 or of integers makes it so, which is "
        "what `np.ones`, `astype(float)` and `astype(int)` give. Keep the dtype.",
    ),
    (
        "relu-backward-sign-of-input",
        "grad_output * np.sign(Z)",
        "Where `Z` is negative you turn the gradient round, for a sign is -1 there. Nothing passes there.",
    ),
    (
        "relu-backward-all-passed",
        "grad_output.copy()",
        "You pass the whole gradient on, also where the rectifier gave zero.",
    ),
    (
        "relu-backward-times-output",
        "grad_output * np.maximum(Z, 0)",
        "You multiply by the rectifier's output. Multiply by its slope, which is zero or one.",
    ),
    (
        "relu-backward-times-input",
        "grad_output * Z",
        "You multiply by the rectifier's input. Multiply by its slope, which is zero or one.",
    ),
    (
        "relu-backward-arguments-swapped",
        "np.where(grad_output > 0, Z, np.zeros_like(Z))",
        "You let `Z` through where the gradient is positive. It is the other way round.",
    ),
)


@relu_backward.mistake(
    "relu-backward-in-place",
    "You write into the gradient that you were given. Make a new array.",
)
def _relu_backward_in_place(grad_output, Z):
    if grad_output.shape != Z.shape:
        raise ValueError("shapes")
    grad_output[Z <= 0] = 0
    return grad_output


softmax_cross_entropy = Check(
    reference.softmax_cross_entropy,
    difficulty="core",
    minutes=25,
    hints=(
        "Take the logarithm on paper: the logarithm of a quotient is a difference. The loss of an example is then the "
        "logarithm of a sum of exponentials, minus one logit.",
        "Subtract each row's largest logit first. No loss changes by that, and no exponential overflows.",
        "To pick one entry out of each row, index with two arrays: the numbers of the rows, and the labels.",
        "The gradient of one example's loss is its row of probabilities, less one at the right class. The mean over the "
        "batch divides it.",
    ),
    reproduces=("torch.nn.functional.cross_entropy", "sklearn.metrics.log_loss"),
)


def _classified(draw, batch, classes, shift=0.0):
    labels = draw.rng.integers(0, classes, batch)
    # Two examples of one class, and the last class, are in every batch. No class is improbable: that is large logits'.
    labels[:2] = classes - 1
    return {"logits": draw.rng.uniform(-0.7, 0.7, (batch, classes)) + shift, "labels": labels}


@softmax_cross_entropy.aspect("the mean loss", points=1)
def _entropy_loss(draw):
    batch, classes = draw.sizes(2, 3)
    only = {"only": "loss"}
    yield Case("a batch", _classified(draw, batch, classes), probe=only)
    yield Case("as many classes as examples", _classified(draw, batch, batch), probe=only)
    yield Case("one example", _classified(draw, 1, classes), probe=only)


@softmax_cross_entropy.aspect("its gradient", points=1)
def _entropy_gradient(draw):
    batch, classes = draw.sizes(2, 3)
    only = {"only": "grad_logits"}
    yield Case("a batch", _classified(draw, batch, classes), probe=only)
    yield Case("as many classes as examples", _classified(draw, batch, batch), probe=only)
    yield Case("one example", _classified(draw, 1, classes), probe=only)


@softmax_cross_entropy.aspect("logits as large as 10,000", points=1)
def _entropy_large(draw):
    batch, classes = draw.sizes(2, 3)
    yield Case("large positive logits", _classified(draw, batch, classes, 1e4))
    yield Case("large negative logits", _classified(draw, batch, classes, -1e4))
    yield Case("rows that lie far apart", _classified(draw, batch, classes, 1e4 * np.arange(batch)[:, None] - 2e4))
    hopeless = _classified(draw, batch, classes)
    hopeless["logits"][:, 0] += 1e4
    yield Case("a right class whose probability is zero in the computer", hopeless)
    certain = _classified(draw, batch, classes)
    certain["logits"][np.arange(batch), certain["labels"]] += 1e4
    yield Case("a right class whose probability is one", certain)


@softmax_cross_entropy.aspect("other arrays", points=1)
def _entropy_more(draw):
    batch, classes = draw.sizes(2, 3)
    inputs = _classified(draw, batch, classes)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a single class", _classified(draw, batch, 1))
    yield Case("a label that is no class", inputs | {"labels": np.full(batch, classes)}, refused=True)
    yield Case("a negative label", inputs | {"labels": np.full(batch, -1)}, refused=True)
    one_hot = np.eye(classes, dtype=np.int64)[inputs["labels"]]
    yield Case("labels as rows of zeros and a one", inputs | {"labels": one_hot}, refused=True)


LOSS = "loss = -log_probabilities[rows, labels].mean()"
PROBABILITY = "np.exp(log_probabilities)[rows, labels]"
CAPPED = (
    "You add a small number to the probability, or clip it, before the logarithm. That caps the loss where the right class "
    "has no chance. Compute the logarithm from the logits."
)
_slips(
    softmax_cross_entropy,
    "logits.max(axis=1, keepdims=True)",
    (
        "cross-entropy-overflow",
        "np.zeros((), logits.dtype)",
        "Your exponentials overflow: exp(10000) is infinite. Subtract each row's largest logit first.",
    ),
    (
        "cross-entropy-largest-of-all",
        "logits.max()",
        "You subtract the largest logit of the whole batch. A row far below it underflows to zeros; take each row's own.",
    ),
    (
        "cross-entropy-missing-keepdims",
        "logits.max(axis=1)",
        "The largest logit of each row, or its sum, lost its axis, so NumPy lines it up with the classes: `keepdims=True` "
        "keeps it.",
    ),
    (
        "cross-entropy-largest-of-column",
        "logits.max(axis=0, keepdims=True)",
        "You subtract the largest logit of each column, and a different number from each class changes the "
        "probabilities. Take the largest of each row.",
    ),
)
_slips(
    softmax_cross_entropy,
    "np.log(np.exp(shifted).sum(axis=1, keepdims=True))",
    (
        "cross-entropy-over-examples",
        "np.log(np.exp(shifted).sum(axis=0, keepdims=True))",
        "Your probabilities sum to one over the examples. Each example's own, a row, should sum to one.",
    ),
    (
        "cross-entropy-over-everything",
        "np.log(np.exp(shifted).sum())",
        "Your probabilities sum to one over the whole batch. Each row should sum to one.",
    ),
    (
        "cross-entropy-log1p",
        "np.log1p(np.exp(shifted).sum(axis=1, keepdims=True))",
        "`log1p` adds one to the sum before the logarithm; the sum has no one in it.",
    ),
    (
        "cross-entropy-base-2",
        "np.log2(np.exp(shifted).sum(axis=1, keepdims=True))",
        "You take the logarithm to the base 2; take the natural one.",
    ),
)
_slips(
    softmax_cross_entropy,
    LOSS,
    (
        "cross-entropy-log-of-probability",
        f"loss = -np.log({PROBABILITY}).mean()",
        "You take the logarithm of a probability that has become zero in the computer, and get infinity. Take the "
        "logarithm on paper first, and compute it from the logits.",
        "https://github.com/apache/mxnet/pull/4594",
    ),
    (
        "cross-entropy-summed",
        "loss = -log_probabilities[rows, labels].sum()",
        "The loss is a sum; the mean is asked for.",
    ),
    (
        "cross-entropy-not-averaged",
        "loss = -log_probabilities[rows, labels]",
        "You return a loss for each example; their mean, one number, is asked for.",
    ),
    (
        "cross-entropy-mean-of-all-entries",
        "loss = -log_probabilities[rows, labels].sum() / logits.size",
        "You divide by the number of all logits, classes included. Divide by the number of examples.",
    ),
    (
        "cross-entropy-loss-sign",
        "loss = log_probabilities[rows, labels].mean()",
        "The loss comes out negative. A logarithm of a probability is at most zero; the loss is minus that.",
    ),
    (
        "cross-entropy-all-columns",
        "loss = -log_probabilities[:, labels].mean()",
        "`[:, labels]` takes whole columns. One entry is wanted from each row: pair each row with its own label.",
    ),
    (
        "cross-entropy-all-classes",
        "loss = -log_probabilities.mean()",
        "You average over all classes. Only the right class of each example counts.",
    ),
    (
        "cross-entropy-zero-times-infinity",
        "one_hot = np.eye(logits.shape[1], dtype=logits.dtype)[labels]\n"
        "    loss = -(one_hot * np.log(np.exp(log_probabilities))).sum(axis=1).mean()",
        "You take the logarithm of probabilities that have become zero in the computer, and zero times minus infinity is "
        "NaN. Take the logarithm on paper first, and compute it from the logits.",
    ),
    (
        "cross-entropy-binary",
        "p, one_hot = np.exp(log_probabilities), np.eye(logits.shape[1], dtype=logits.dtype)[labels]\n"
        "    loss = -(one_hot * np.log(p) + (1 - one_hot) * np.log(1 - p)).sum(axis=1).mean()",
        "This is the loss of many yes-or-no questions. Of several classes only the right one's probability counts.",
    ),
    (
        "cross-entropy-squared-error",
        "one_hot = np.eye(logits.shape[1], dtype=logits.dtype)[labels]\n"
        "    loss = ((np.exp(log_probabilities) - one_hot) ** 2).sum(axis=1).mean()",
        "This is the squared error of the probabilities; minus the logarithm of the right one is asked for.",
    ),
    (
        "cross-entropy-probability-not-logged",
        f"loss = -{PROBABILITY}.mean()",
        "There is no logarithm in your loss.",
    ),
    (
        "cross-entropy-one-minus-probability",
        f"loss = (1 - {PROBABILITY}).mean()",
        "Your loss is one minus the probability; it should be minus its logarithm.",
    ),
    (
        "cross-entropy-bits",
        "loss = -log_probabilities[rows, labels].mean() / logits.dtype.type(np.log(2))",
        "The loss is in bits; take the natural logarithm.",
    ),
)
for _small in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, np.finfo(float).eps, 1e-16, 1e-20):
    softmax_cross_entropy.slip(
        f"cross-entropy-{_small:.0e}-added",
        LOSS,
        f"loss = -np.log({PROBABILITY} + logits.dtype.type({_small})).mean()",
        CAPPED,
        "https://github.com/apache/mxnet/pull/4594",
    )
for _small in (1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15):
    softmax_cross_entropy.slip(
        f"cross-entropy-{_small:.0e}-clipped",
        LOSS,
        f"loss = -np.log(np.maximum({PROBABILITY}, logits.dtype.type({_small}))).mean()",
        CAPPED,
    )
_slips(
    softmax_cross_entropy,
    "    grad_logits[rows, labels] -= 1\n",
    (
        "cross-entropy-one-not-subtracted",
        "",
        "The gradient is the probabilities themselves; at the right class one must come off.",
    ),
    (
        "cross-entropy-whole-columns",
        "    grad_logits[:, labels] -= 1\n",
        "`[:, labels]` subtracts one from whole columns. Pair each row with its own label.",
    ),
    (
        "cross-entropy-one-added",
        "    grad_logits[rows, labels] += 1\n",
        "You add one at the right class; it comes off.",
    ),
    (
        "cross-entropy-right-class-alone",
        "    grad_logits[rows, labels] -= 1\n    grad_logits *= np.arange(logits.shape[1]) == labels[:, None]\n",
        "Only the right class gets a gradient. The others get their probabilities: they should fall.",
    ),
    (
        "cross-entropy-gradient-for-probabilities",
        "    grad_logits = -(np.arange(logits.shape[1]) == labels[:, None]) / grad_logits\n",
        "This is the gradient for the probabilities. Go on through softmax, to the logits.",
    ),
    (
        "cross-entropy-double-gradient",
        "    grad_logits = grad_logits - np.eye(logits.shape[1])[labels]\n",
        "The gradient comes back in double precision, which is what `np.eye` makes. Keep the dtype of the logits.",
    ),
    (
        "cross-entropy-times-slope-of-softmax",
        "    probabilities = grad_logits.copy()\n    grad_logits[rows, labels] -= 1\n"
        "    grad_logits *= probabilities * (1 - probabilities)\n",
        "You multiply by p (1 - p) once more. Probabilities minus the one are already the gradient for the logits: the "
        "slope of softmax is in it.",
    ),
)
softmax_cross_entropy.slip(
    "cross-entropy-gradient-overflow",
    "grad_logits = np.exp(log_probabilities)",
    "grad_logits = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)",
    "The gradient takes exponentials of the logits as they are, which overflow. You have the logarithms of the "
    "probabilities already, and they do not.",
)
_slips(
    softmax_cross_entropy,
    "return loss, grad_logits / len(labels)",
    (
        "cross-entropy-gradient-of-sum",
        "return loss, grad_logits",
        "The gradient is that of the sum of the losses. The loss is their mean, so it is divided by the batch size.",
    ),
    (
        "cross-entropy-gradient-by-size",
        "return loss, grad_logits / logits.size",
        "You divide the gradient by the number of all logits. Divide by the number of examples.",
    ),
    (
        "cross-entropy-gradient-by-classes",
        "return loss, grad_logits / logits.shape[1]",
        "You divide the gradient by the number of classes. Divide by the number of examples.",
    ),
    (
        "cross-entropy-gradient-sign",
        "return loss, -grad_logits / len(labels)",
        "The gradient has the wrong sign: a step against it would make the right class less likely.",
    ),
    (
        "cross-entropy-gradient-first",
        "return grad_logits / len(labels), loss",
        "The loss comes first, then the gradient.",
    ),
    (
        "cross-entropy-loss-alone",
        "return loss",
        "You return the loss alone; the gradient for the logits is asked for too.",
    ),
    (
        "cross-entropy-probabilities",
        "return loss, np.exp(log_probabilities)",
        "You return the probabilities in the place of the gradient.",
    ),
)


@softmax_cross_entropy.mistake(
    "cross-entropy-softmax-twice",
    "You apply softmax to the probabilities once more. Softmax belongs on the logits, once.",
    source="https://github.com/Lightning-Universe/lightning-bolts/issues/654",
)
def _softmax_twice(logits, labels):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return reference.softmax_cross_entropy(exponentials / exponentials.sum(axis=1, keepdims=True), labels)


@softmax_cross_entropy.mistake(
    "cross-entropy-in-place",
    "You write into `logits`, which belong to the caller. Let each step make a new array.",
)
def _entropy_in_place(logits, labels):
    returned = reference.softmax_cross_entropy(logits, labels)
    logits -= logits.max(axis=1, keepdims=True)
    return returned


@softmax_cross_entropy.mistake(
    "cross-entropy-plain-formula",
    "This is the plain formula. Its exponentials overflow, and the logarithm of a probability that has become zero is "
    "minus infinity. Take the logarithm on paper first, and subtract each row's largest logit.",
    source="https://github.com/apache/mxnet/pull/4594",
)
def _entropy_plain(logits, labels):
    if labels.shape != logits.shape[:1] or labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError("labels")
    rows = np.arange(len(labels))
    exponentials = np.exp(logits)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[rows, labels]).mean()
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(labels)


sgd_step = Check(
    reference.sgd_step,
    difficulty="warm-up",
    minutes=3,
    hints=(
        "The gradient points to where the loss grows fastest. Go the other way, as far as the learning rate says.",
        "An operator such as `-=` changes an array in place; one such as `-` makes a new one.",
        "The step is the learning rate times the gradient, and nothing else.",
    ),
)


def _step(draw, *shape):
    return {"parameter": draw.normal(*shape), "gradient": draw.normal(*shape), "learning_rate": 0.3}


@sgd_step.aspect("one step against the gradient", points=1)
def _step_values(draw):
    rows, columns = draw.sizes(2)
    inputs = _step(draw, rows, columns)
    yield Case("a matrix", inputs)
    yield Case("a bias", _step(draw, columns) | {"learning_rate": 0.01})
    yield Case("a learning rate over one", inputs | {"learning_rate": 2.5})
    yield Case("a learning rate of zero", inputs | {"learning_rate": 0.0})


@sgd_step.aspect("other arrays", points=1)
def _step_more(draw):
    rows, columns = draw.sizes(2)
    inputs = _step(draw, rows, columns)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a gradient of another shape", inputs | {"gradient": draw.normal(1, columns)}, refused=True)


_slips(
    sgd_step,
    "return parameter - learning_rate * gradient",
    (
        "sgd-uphill",
        "return parameter + learning_rate * gradient",
        "You step along the gradient, where the loss grows. Step against it.",
    ),
    ("sgd-no-rate", "return parameter - gradient", "The learning rate is missing."),
    (
        "sgd-step-alone",
        "return -learning_rate * gradient",
        "You return the step alone; the parameter after the step is asked for.",
    ),
    (
        "sgd-parameter-scaled",
        "return learning_rate * (parameter - gradient)",
        "You scale the parameter too; the learning rate is for the gradient.",
    ),
    (
        "sgd-divided-by-rate",
        "return parameter - gradient / (learning_rate or 1)",
        "You divide by the learning rate; multiply by it.",
    ),
    (
        "sgd-sign-only",
        "return parameter - parameter.dtype.type(learning_rate) * np.sign(gradient)",
        "You use the gradient's sign alone; its size counts too.",
    ),
    (
        "sgd-normalised",
        "return parameter - learning_rate * gradient / np.sqrt((gradient**2).sum())",
        "You bring the gradient to length one. A small gradient should make a small step.",
    ),
    (
        "sgd-in-place",
        "parameter -= learning_rate * gradient\n    return parameter",
        "You change the caller's parameter, as PyTorch's optimizers do. Here the old one stays: return a new array.",
    ),
    (
        "sgd-nothing-returned",
        "parameter = parameter - learning_rate * gradient",
        "You take the step and return nothing. The new array must be returned.",
    ),
    (
        "sgd-signs-turned-round",
        "return learning_rate * gradient - parameter",
        "The signs are turned round: the step is subtracted from the parameter.",
    ),
    (
        "sgd-mean-of-gradient",
        "return parameter - learning_rate * gradient.mean()",
        "Every entry takes the same step, by the mean of the gradient. Each has a gradient of its own.",
    ),
    (
        "sgd-double-result",
        "return parameter - np.float64(learning_rate) * gradient",
        "A parameter in single precision comes back in double precision; keep the dtype.",
    ),
)


train_epoch = Check(
    reference.train_epoch,
    difficulty="core",
    minutes=35,
    hints=(
        "Cut `order` into pieces of `batch_size`. A slice that runs over the end is shorter by itself.",
        "Forward there are four calls: linear, rectifier, linear, loss. Backward there are three, in the reverse order. "
        "Each of them wants what its forward kernel was given, so keep those arrays.",
        "Compute all four gradients before you change any parameter. The next mini-batch starts from the new ones.",
        "The loss kernel gives the mean of a mini-batch. For the mean over all examples each must count as often as it "
        "has examples.",
    ),
    uses=("linear_forward", "linear_backward", "relu_forward", "relu_backward", "softmax_cross_entropy", "sgd_step"),
)


def _epoch(draw, examples, batch_size, d_in=3, d_hidden=6, classes=4):
    order = draw.rng.permutation(examples)
    if (np.diff(order) > 0).all():  # the examples as they stand
        order = order[::-1].copy()
    W_2, b_2 = draw.normal(d_hidden, classes), draw.normal(classes)
    W_2[:, 0], b_2[0] = -np.abs(W_2[:, 0]), -1  # one logit is negative
    return {
        "W_1": draw.normal(d_in, d_hidden),
        "b_1": draw.normal(d_hidden),
        "W_2": W_2,
        "b_2": b_2,
        "X": draw.normal(examples, d_in),
        "labels": draw.rng.integers(0, classes, examples),
        "order": order,
        "batch_size": batch_size,
        "learning_rate": 0.3,
    }


@train_epoch.aspect("one step on one mini-batch", points=1)
def _epoch_one(draw):
    # As in a single layer, sizes that agree come first: what is mixed up gives numbers there, by which it is known.
    yield Case("as many examples as inputs, hidden units and classes", _epoch(draw, 6, 6, 6, 6, 6))
    yield Case("all examples in one mini-batch", _epoch(draw, 8, 8))
    yield Case("a batch size over the number of examples", _epoch(draw, 5, 11))


@train_epoch.aspect("many mini-batches, in the order given", points=1)
def _epoch_many(draw):
    yield Case("three mini-batches", _epoch(draw, 12, 4))
    yield Case("one example at a time", _epoch(draw, 5, 1))
    inputs = _epoch(draw, 12, 3)
    yield Case("some examples left out", inputs | {"order": inputs["order"][:6]})


@train_epoch.aspect("a last mini-batch that is shorter", points=1)
def _epoch_short(draw):
    yield Case("a last mini-batch of two", _epoch(draw, 12, 5))
    yield Case("a last mini-batch of one", _epoch(draw, 7, 3))


@train_epoch.aspect("other arrays", points=1)
def _epoch_more(draw):
    inputs = _epoch(draw, 8, 3)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("arrays that are not contiguous", inputs, strided=True)
    yield Case("several calls", inputs, repeated=True)
    yield Case("a batch size of zero", inputs | {"batch_size": 0}, refused=True)


BATCH = "batch = order[start : start + batch_size]"
STARTS = "range(0, len(order), batch_size)"
GRAD_Z = "grad_Z = relu_backward(grad_H, Z)"
LOGITS = "logits = linear_forward(H, W_2, b_2)"
STEP = "parameters = tuple(sgd_step(p, g, learning_rate) for p, g in zip(parameters, gradients, strict=True))"
TOTAL = "total += float(loss) * len(batch)"
MEAN = "total / len(order)"

train_epoch.edit(
    "epoch-order-ignored",
    "You take the examples as they stand, not in the `order` that was given.",
    (BATCH, "batch = np.arange(len(order))[start : start + batch_size]"),
)
train_epoch.edit(
    "epoch-order-sorted",
    "You visit the right examples, but sorted. Take them in the `order` that was given.",
    (BATCH, "batch = np.sort(order)[start : start + batch_size]"),
)
train_epoch.edit(
    "epoch-labels-not-reordered",
    "You reorder the examples and not their labels, so that most examples get the label of another.",
    ("labels[batch]", "labels[start : start + batch_size][: len(batch)]"),
    source="https://github.com/DrexelChatbotGroup/DrexelChatbot/issues/15",
)
train_epoch.edit(
    "epoch-all-examples",
    "You go through all of `X`, also where `order` leaves examples out.",
    ("    total = 0.0\n", "    total = 0.0\n    order = np.append(order, np.setdiff1d(np.arange(len(X)), order))\n"),
)
train_epoch.edit(
    "epoch-last-batch-dropped",
    "The last, shorter mini-batch is left out: its examples are never learned from.",
    (STARTS, "range(0, len(order) - batch_size + 1, batch_size)"),
    ("return parameters, " + MEAN, "return parameters, total / (len(order) // batch_size * batch_size or 1)"),
)
train_epoch.edit(
    "epoch-last-batch-dropped-but-counted",
    "The last, shorter mini-batch is left out, and yet the loss is divided as if it had been there.",
    (STARTS, "range(0, len(order) - batch_size + 1, batch_size)"),
)
train_epoch.edit(
    "epoch-first-batch-only",
    "You return after the first mini-batch: the `return` stands inside the loop.",
    (STARTS, "range(0, min(batch_size, len(order)), batch_size)"),
    (MEAN, "total / min(batch_size, len(order))"),
)
train_epoch.edit(
    "epoch-return-in-loop",
    "You return after the first mini-batch: the `return` stands inside the loop.",
    (STARTS, "range(0, min(batch_size, len(order)), batch_size)"),
)
train_epoch.edit(
    "epoch-range-over-all",
    "You count up to the number of all examples, where `order` leaves some out: the last mini-batches are empty.",
    (STARTS, "range(0, len(X), batch_size)"),
)
train_epoch.edit(
    "epoch-loss-over-all",
    "You divide the loss by the number of all examples, where `order` leaves some out. Only those visited count.",
    (MEAN, "total / len(X)"),
)
train_epoch.edit(
    "epoch-whole-batch",
    "Every step learns from all examples at once. A mini-batch has only those of its piece of `order`.",
    ("linear_forward(X[batch], W_1, b_1)", "linear_forward(X, W_1, b_1)"),
    ("softmax_cross_entropy(logits, labels[batch])", "softmax_cross_entropy(logits, labels)"),
    ("linear_backward(grad_Z, X[batch], W_1)", "linear_backward(grad_Z, X, W_1)"),
)
train_epoch.edit(
    "epoch-batches-overlap",
    "Your mini-batches overlap: the loop goes on by one example, not by `batch_size`.",
    (STARTS, "range(len(order))"),
    (MEAN, "total / sum(len(order[s : s + batch_size]) for s in range(len(order)))"),
)
train_epoch.edit(
    "epoch-loss-not-weighted",
    "The loss is the mean over the mini-batches, so that a short one counts as much as a full one. Weight each by its "
    "size.",
    (TOTAL, "total += float(loss)"),
    (MEAN, "total / -(-len(order) // batch_size)"),
    source="https://github.com/tensorflow/tensorflow/issues/38596",
)
train_epoch.edit(
    "epoch-loss-summed-over-batches",
    "The losses of the mini-batches are added up; the mean over the examples is asked for.",
    (TOTAL, "total += float(loss)"),
    (MEAN, "total"),
)
train_epoch.edit(
    "epoch-loss-divided-by-examples",
    "You add up the means of the mini-batches and divide by the number of examples. A mean must count as often as its "
    "mini-batch has examples.",
    (TOTAL, "total += float(loss)"),
    source="https://github.com/pytorch/tutorials/issues/179",
)
train_epoch.edit(
    "epoch-loss-summed-over-examples",
    "The losses of the examples are added up; their mean is asked for.",
    (MEAN, "total"),
)
train_epoch.edit(
    "epoch-loss-full-batches",
    "You weight every mini-batch as if it were full. The last one may be shorter.",
    (TOTAL, "total += float(loss) * batch_size"),
)
train_epoch.edit(
    "epoch-loss-of-last-batch",
    "You return the loss of the last mini-batch; the mean over all examples is asked for.",
    (MEAN, "float(loss)"),
)
train_epoch.edit(
    "epoch-loss-afterwards",
    "You measure the loss after the step. Each mini-batch counts with the parameters that it found.",
    (
        TOTAL,
        "W_1, b_1, W_2, b_2 = parameters\n"
        "        H = relu_forward(linear_forward(X[batch], W_1, b_1))\n"
        "        loss, _ = softmax_cross_entropy(linear_forward(H, W_2, b_2), labels[batch])\n"
        "        total += float(loss) * len(batch)",
    ),
)
train_epoch.edit(
    "epoch-loss-at-the-end",
    "You measure the loss once, with the last parameters. Each mini-batch counts with the parameters that it found.",
    (
        "return parameters, " + MEAN,
        "W_1, b_1, W_2, b_2 = parameters\n"
        "    H = relu_forward(linear_forward(X[order], W_1, b_1))\n"
        "    loss, _ = softmax_cross_entropy(linear_forward(H, W_2, b_2), labels[order])\n"
        "    return parameters, float(loss)",
    ),
)
train_epoch.edit(
    "epoch-rectifier-skipped-backward",
    "The way back leaves the rectifier out. Its slope is a factor of the gradient for the first layer.",
    (GRAD_Z, "grad_Z = grad_H"),
)
train_epoch.edit(
    "epoch-relu-backward-arguments-swapped",
    "The arguments of `relu_backward` are in the wrong order: the gradient that comes back is the first.",
    (GRAD_Z, "grad_Z = relu_backward(Z, grad_H)"),
)
train_epoch.edit(
    "epoch-rectifier-of-gradient",
    "You apply `relu_forward` to the gradient on the way back; that is `relu_backward`'s task, and it needs `Z`.",
    (GRAD_Z, "grad_Z = relu_forward(grad_H)"),
)
train_epoch.edit(
    "epoch-no-rectifier",
    "There is no rectifier between the layers, neither forward nor backward.",
    ("H = relu_forward(Z)", "H = Z"),
    (GRAD_Z, "grad_Z = grad_H"),
)
train_epoch.edit(
    "epoch-rectified-logits",
    "The logits go through the rectifier too. The last layer is linear: a logit may be negative.",
    (LOGITS, "logits = relu_forward(linear_forward(H, W_2, b_2))"),
)
train_epoch.edit(
    "epoch-rectifier-skipped-forward",
    "The second layer is given what the rectifier was given. On the way forward the rectifier is left out.",
    ("H = relu_forward(Z)", "H = Z"),
)
train_epoch.edit(
    "epoch-linear-backward-arguments-swapped",
    "The arguments of `linear_backward` are in the wrong order: first the gradient that comes back, then what the layer "
    "was given.",
    ("linear_backward(grad_logits, H, W_2)", "linear_backward(H, grad_logits, W_2)"),
)
train_epoch.edit(
    "epoch-gradients-mixed-up",
    "`linear_backward` returns the gradient for the inputs first, then those for weights and bias. You unpack them in "
    "another order.",
    ("grad_H, grad_W_2, grad_b_2 = linear_backward", "grad_W_2, grad_b_2, grad_H = linear_backward"),
)
train_epoch.edit(
    "epoch-inputs-and-weights-mixed-up",
    "`linear_backward` returns the gradient for the inputs first, then that for the weights. You unpack them the other way "
    "round.",
    ("grad_H, grad_W_2, grad_b_2 = linear_backward", "grad_W_2, grad_H, grad_b_2 = linear_backward"),
)
train_epoch.edit(
    "epoch-two-gradients",
    "`linear_backward` returns three gradients, also in the first layer, where nobody needs the one for the inputs.",
    ("_, grad_W_1, grad_b_1 = linear_backward", "grad_W_1, grad_b_1 = linear_backward"),
)
train_epoch.edit(
    "epoch-first-layer-given-hidden",
    "In the first layer's gradient stands the hidden layer. That layer was given the examples.",
    ("linear_backward(grad_Z, X[batch], W_1)", "linear_backward(grad_Z, H, W_1)"),
)
train_epoch.edit(
    "epoch-hidden-before-rectifier",
    "In the second layer's gradient stands what the rectifier was given. The layer was given what came out of it.",
    ("linear_backward(grad_logits, H, W_2)", "linear_backward(grad_logits, Z, W_2)"),
)
train_epoch.edit(
    "epoch-first-layer-frozen",
    "The first layer stays as it was. All four parameters take a step.",
    ("zip(parameters, gradients, strict=True))", "zip(parameters[2:], gradients[2:], strict=True))"),
    (TOTAL, "parameters = (W_1, b_1, *parameters)\n        " + TOTAL),
)
train_epoch.edit(
    "epoch-second-layer-frozen",
    "The second layer stays as it was. All four parameters take a step.",
    ("zip(parameters, gradients, strict=True))", "zip(parameters[:2], gradients[:2], strict=True))"),
    (TOTAL, "parameters = (*parameters, W_2, b_2)\n        " + TOTAL),
)
train_epoch.edit(
    "epoch-biases-frozen",
    "The biases stay as they were. All four parameters take a step.",
    (
        STEP,
        "parameters = sgd_step(W_1, grad_W_1, learning_rate), b_1, sgd_step(W_2, grad_W_2, learning_rate), b_2",
    ),
)
train_epoch.edit(
    "epoch-second-layer-changed-too-early",
    "The second layer takes its step before the gradient went back through it, so the first layer's gradient goes "
    "through weights that were not there on the way forward. First all gradients, then the steps.",
    (
        GRAD_Z,
        "grad_H = linear_backward(grad_logits, H, sgd_step(W_2, grad_W_2, learning_rate))[0]\n"
        "        grad_Z = relu_backward(grad_H, Z)",
    ),
    source="https://github.com/VikParuchuri/zero_to_gpt/issues/12",
)
train_epoch.edit(
    "epoch-starts-anew",
    "Every mini-batch starts from the first parameters again, so that only the last one counts. Go on from the new ones.",
    ("    total = 0.0\n", "    total = 0.0\n    given = parameters\n"),
    ("W_1, b_1, W_2, b_2 = parameters\n", "W_1, b_1, W_2, b_2 = parameters = given\n"),
)
train_epoch.edit(
    "epoch-steps-only-at-the-end",
    "You take one step at the end, with the gradient of the last mini-batch. Each mini-batch makes a step.",
    (STEP, "pass"),
    ("return parameters, ", STEP + "\n    return parameters, "),
)
train_epoch.edit(
    "epoch-divided-again",
    "You divide the gradients by the batch size. The loss is a mean, so they are divided already.",
    ("sgd_step(p, g, learning_rate)", "sgd_step(p, g / len(batch), learning_rate)"),
)
train_epoch.edit(
    "epoch-multiplied-by-size",
    "You multiply the gradients by the batch size, as for a sum. The gradients of the mean are asked for.",
    ("sgd_step(p, g, learning_rate)", "sgd_step(p, g * len(batch), learning_rate)"),
)
train_epoch.edit(
    "epoch-in-place",
    "You change the arrays of the caller. The old parameters stay as they are; return new ones.",
    ("sgd_step(p, g, learning_rate)", "np.subtract(p, learning_rate * g, out=p)"),
)
train_epoch.edit(
    "epoch-uphill",
    "You add the gradients, so the loss grows. Each parameter steps against its gradient.",
    ("sgd_step(p, g, learning_rate)", "p + learning_rate * g"),
)
train_epoch.edit(
    "epoch-parameters-not-returned",
    "You return the parameters that you were given; return the new ones.",
    ("    total = 0.0\n", "    total = 0.0\n    given = parameters\n"),
    ("return parameters, ", "return given, "),
)


@train_epoch.mistake(
    "epoch-loss-alone",
    "You return the loss alone. The new parameters come first: the old ones did not change.",
)
def _epoch_loss_alone(parameters, X, labels, order, batch_size, learning_rate):
    return reference.train_epoch(parameters, X, labels, order, batch_size, learning_rate)[1]
