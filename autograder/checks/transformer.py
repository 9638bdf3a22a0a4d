"""What right kernels of "The Transformer" are."""

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import transformer as reference

NORMS = ("torch.nn.functional.layer_norm", "torch.layer_norm", "torch.native_layer_norm", "torch.nn.LayerNorm")


layer_norm = Check(
    reference.layer_norm,
    difficulty="core",
    minutes=10,
    hints=(
        "Mean and variance are each token's own, over the last axis. Keep that axis, so that they broadcast.",
        "PyTorch's `var` divides by n - 1 unless you tell it otherwise with `correction`.",
        "The root is taken of variance and eps together. Gain and shift come last.",
    ),
    reproduces=NORMS,
)


def _norm_inputs(draw, *shape):
    width = shape[-1]
    return {"x": 3 * draw.normal(*shape) + 2, "weight": 1 + draw.normal(width) / 2, "bias": draw.normal(width)}


@layer_norm.aspect("each token's own mean and variance", points=2)
def _norm_values(draw):
    batch, length, width = draw.sizes(3)
    yield Case("a batch", _norm_inputs(draw, batch, length, width))
    yield Case("a batch of one", _norm_inputs(draw, 1, length, width))
    yield Case("one token", _norm_inputs(draw, 1, 1, width))
    yield Case("no batch", _norm_inputs(draw, length, width))


@layer_norm.aspect("where the variance is small", points=1)
def _norm_eps(draw):
    batch, length, width = draw.sizes(3)
    inputs = _norm_inputs(draw, batch, length, width)
    yield Case("tokens that hardly vary", inputs | {"x": 2 + 0.003 * draw.normal(batch, length, width)})
    yield Case("another eps", inputs, options={"eps": 0.5})
    yield Case("components that are all equal", inputs | {"x": 0 * inputs["x"] + 1})
    yield Case("width 1", _norm_inputs(draw, batch, length, 1))
    yield Case(
        "a mean far from zero", _norm_inputs(draw, batch, length, 20) | {"x": 1e5 + draw.normal(batch, length, 20)}
    )


@layer_norm.aspect("gradients, strides, precision", points=1)
def _norm_gradients(draw):
    batch, length, width = draw.sizes(3)
    inputs = _norm_inputs(draw, batch, length, width)
    yield Case("the gradients", inputs, gradient=("x", "weight", "bias"))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")


MEAN = "x.mean(-1, keepdim=True)"
VARIANCE = "x.var(-1, correction=0, keepdim=True)"
NORMALISED = "(x - mean) / torch.sqrt(variance + eps)"
AFFINE = "return weight * normalised + bias"
for _id, _old, _new, _hint in (
    (
        "layer-norm-unbiased",
        VARIANCE,
        "x.var(-1, keepdim=True)",
        "The variance is divided by n - 1. Layer norm takes the biased one, divided by n.",
    ),
    (
        "layer-norm-eps-outside",
        NORMALISED,
        "(x - mean) / (torch.sqrt(variance) + eps)",
        "eps is added to the standard deviation; it belongs to the variance, under the root.",
    ),
    (
        "layer-norm-eps-ignored",
        NORMALISED,
        "(x - mean) / torch.sqrt(variance + 1e-5)",
        "Your eps is fixed; take the argument.",
    ),
    ("layer-norm-no-eps", NORMALISED, "(x - mean) / torch.sqrt(variance)", "eps is missing under the root."),
    (
        "layer-norm-by-variance",
        NORMALISED,
        "(x - mean) / (variance + eps)",
        "You divide by the variance; divide by its root.",
    ),
    (
        "layer-norm-not-centred",
        NORMALISED,
        "x / torch.sqrt(variance + eps)",
        "The mean is not taken away. (That is nearly RMS norm, of a later chapter.)",
    ),
    (
        "layer-norm-mean-square",
        VARIANCE,
        "x.square().mean(-1, keepdim=True)",
        "The squares are of the numbers themselves; the variance is of their deviations from the mean.",
    ),
    (
        "layer-norm-all-tokens",
        f"mean = {MEAN}\n    variance = {VARIANCE}",
        "axes = tuple(range(x.dim()))[-2:]\n    mean = x.mean(axes, keepdim=True)\n"
        "    variance = x.var(axes, correction=0, keepdim=True)",
        "Mean and variance are of a whole sequence. Each token has its own.",
    ),
    (
        "layer-norm-over-tokens",
        f"mean = {MEAN}\n    variance = {VARIANCE}",
        "mean = x.mean(-2, keepdim=True)\n    variance = x.var(-2, correction=0, keepdim=True)",
        "Mean and variance are taken over the tokens of a sequence; take them over a token's components.",
    ),
    (
        "layer-norm-batch-norm",
        f"mean = {MEAN}\n    variance = {VARIANCE}",
        "axes = tuple(range(x.dim() - 1))\n    mean = x.mean(axes, keepdim=True)\n"
        "    variance = x.var(axes, correction=0, keepdim=True)",
        "This is batch norm: each component is normalised over all tokens of the batch.",
    ),
    ("layer-norm-no-gain", AFFINE, "return normalised + bias", "The gain `weight` is not used."),
    ("layer-norm-no-shift", AFFINE, "return weight * normalised", "The shift `bias` is not used."),
    (
        "layer-norm-shift-first",
        AFFINE,
        "return weight * (normalised + bias)",
        "The shift is multiplied by the gain. First the gain, then the shift.",
    ),
    (
        "layer-norm-cancellation",
        VARIANCE,
        "x.square().mean(-1, keepdim=True) - mean.square()",
        "Where the mean is large, the difference of two large numbers loses the variance. Square the deviations.",
    ),
    (
        "layer-norm-detached",
        f"variance = {VARIANCE}",
        "mean, variance = mean.detach(), x.detach().var(-1, correction=0, keepdim=True)",
        "No gradient flows through mean and variance. They depend on x.",
    ),
):
    layer_norm.slip(_id, _old, _new, _hint)


feed_forward = Check(
    reference.feed_forward,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Two linear layers with the ramp between them.",
        "The weights are in the layout (out, in), which `F.linear` reads.",
        "No loop over the tokens is needed: a linear layer acts on the last axis.",
    ),
)


def _feed_inputs(draw, *shape, d_ff):
    width = shape[-1]
    return {
        "x": draw.normal(*shape),
        "W_1": draw.normal(d_ff, width),
        "b_1": draw.normal(d_ff),
        "W_2": draw.normal(width, d_ff),
        "b_2": draw.normal(width),
    }


@feed_forward.aspect("each token by the same network", points=1)
def _feed_values(draw):
    batch, length, width, d_ff = draw.sizes(4)
    yield Case("a batch", _feed_inputs(draw, batch, length, width, d_ff=d_ff))
    yield Case("a batch of one", _feed_inputs(draw, 1, length, width, d_ff=d_ff))
    yield Case("one token, no batch", _feed_inputs(draw, 1, width, d_ff=d_ff))
    yield Case("a hidden layer as wide as the tokens", _feed_inputs(draw, batch, length, width, d_ff=width))


@feed_forward.aspect("gradients, strides, precision", points=1)
def _feed_gradients(draw):
    batch, length, width, d_ff = draw.sizes(4)
    inputs = _feed_inputs(draw, batch, length, width, d_ff=d_ff)
    yield Case("the gradients", inputs, gradient=tuple(inputs))
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")


HIDDEN = "torch.relu(F.linear(x, W_1, b_1))"
OUTPUT = "return F.linear(hidden, W_2, b_2)"
for _id, _old, _new, _hint in (
    ("ffn-no-ramp", HIDDEN, "F.linear(x, W_1, b_1)", "Nothing stands between the layers, so that the two are one."),
    ("ffn-gelu", HIDDEN, "F.gelu(F.linear(x, W_1, b_1))", "This is GELU; the network of 2017 has the ramp max(0, .)."),
    ("ffn-ramp-first", HIDDEN, "F.linear(torch.relu(x), W_1, b_1)", "The ramp comes after the first layer."),
    ("ffn-ramp-at-the-end", OUTPUT, "return torch.relu(F.linear(hidden, W_2, b_2))", "No ramp follows the last layer."),
    ("ffn-no-first-bias", HIDDEN, "torch.relu(F.linear(x, W_1))", "The bias of the first layer is missing."),
    ("ffn-no-second-bias", OUTPUT, "return F.linear(hidden, W_2)", "The bias of the second layer is missing."),
    ("ffn-residual", OUTPUT, "return x + F.linear(hidden, W_2, b_2)", "The residual is no part of this kernel."),
):
    feed_forward.slip(_id, _old, _new, _hint)


residual_add_norm = Check(
    reference.residual_add_norm,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Three steps: dropout, addition, layer norm.",
        "Dropout touches only what the sub-layer gave. The residual path stays whole.",
        "`F.dropout` with its default `training=True` drops and scales.",
    ),
    uses=("layer_norm",),
)


def _residual_inputs(draw, *shape):
    inputs = _norm_inputs(draw, *shape)
    return {"x": inputs.pop("x"), "sublayer_output": draw.normal(*shape)} | inputs


@residual_add_norm.aspect("add, then normalise", points=1)
def _residual_values(draw):
    batch, length, width = draw.sizes(3)
    yield Case("a batch", _residual_inputs(draw, batch, length, width))
    yield Case("one token, no batch", _residual_inputs(draw, 1, width))
    inputs = _residual_inputs(draw, batch, length, width)
    short = inputs | {"sublayer_output": inputs["sublayer_output"][:1]}
    yield Case("an output of another shape", short, refused=True)


@residual_add_norm.aspect("where dropout acts", points=1)
def _residual_dropout(draw):
    batch, length, width = draw.sizes(3)
    inputs = _residual_inputs(draw, batch, length, width)
    yield Case("everything dropped", inputs, options={"dropout": 1.0})


@residual_add_norm.aspect("gradients and precision", points=1)
def _residual_gradients(draw):
    batch, length, width = draw.sizes(3)
    inputs = _residual_inputs(draw, batch, length, width)
    yield Case("the gradients", inputs, gradient=tuple(inputs))
    yield Case("single precision", inputs, dtype="float32")


KEPT = "F.dropout(sublayer_output, dropout)"
ADD_NORM = "return layer_norm(x + kept, weight, bias)"
for _id, _old, _new, _hint in (
    (
        "residual-pre-norm",
        ADD_NORM,
        "return x + layer_norm(kept, weight, bias)",
        "Only the sub-layer's output is normalised. In post-norm it is the sum.",
    ),
    ("residual-missing", ADD_NORM, "return layer_norm(kept, weight, bias)", "The residual x is not added."),
    ("residual-no-norm", ADD_NORM, "return x + kept", "The sum is not normalised."),
    (
        "residual-norm-of-x",
        ADD_NORM,
        "return layer_norm(x, weight, bias) + kept",
        "x is normalised before the addition. In post-norm it is the sum.",
    ),
    (
        "residual-dropout-on-sum",
        ADD_NORM,
        "return layer_norm(F.dropout(x + sublayer_output, dropout), weight, bias)",
        "Dropout acts on the sum, and so on the residual path too.",
    ),
    (
        "residual-dropout-last",
        ADD_NORM,
        "return F.dropout(layer_norm(x + sublayer_output, weight, bias), dropout)",
        "Dropout comes after the norm. It acts on the sub-layer's output, before the addition.",
    ),
    ("residual-no-dropout", KEPT, "sublayer_output", "Nothing is dropped."),
    (
        "residual-detached",
        ADD_NORM,
        "return layer_norm(x.detach() + kept, weight, bias)",
        "No gradient flows along the residual path, for which it is there.",
    ),
):
    residual_add_norm.slip(_id, _old, _new, _hint)


noam_learning_rate = Check(
    reference.noam_learning_rate,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "Write the two branches apart. Which is smaller before the warm-up's end, which after?",
        "Both are equal at `step == warmup_steps`.",
        "The whole is scaled by one over the root of d_model.",
    ),
)


@noam_learning_rate.aspect("rise and fall", points=1)
def _noam_values(draw):
    warmup, width = int(draw.rng.integers(50, 100)), int(draw.rng.integers(20, 60))
    for title, step in (("first", 1), ("rising", 20), ("highest", warmup), ("falling", 3 * warmup)):
        yield Case(title, {"step": step, "d_model": width}, options={"warmup_steps": warmup})
    yield Case("the paper's warm-up", {"step": 9000, "d_model": 512})
    yield Case("step 0", {"step": 0, "d_model": 512}, refused=True)


for _id, _old, _new, _hint in (
    ("noam-max", "min(rising", "max(rising", "You take the larger branch; the rate is the smaller of the two."),
    ("noam-no-width", "d_model**-0.5 * ", "", "The factor that depends on d_model is missing."),
    (
        "noam-width-upright",
        "d_model**-0.5",
        "d_model**0.5",
        "Wider models get a smaller rate: the exponent is negative.",
    ),
    (
        "noam-warmup-exponent",
        "warmup_steps**-1.5",
        "warmup_steps**-0.5",
        "The branches do not meet at the warm-up's end.",
    ),
    ("noam-never-falls", "step**-0.5", "warmup_steps**-0.5", "The rate should fall after the warm-up."),
    (
        "noam-falls-linearly",
        "falling = step**-0.5",
        "falling = warmup_steps**0.5 / step",
        "It falls with the root of step.",
    ),
):
    noam_learning_rate.slip(_id, _old, _new, _hint)


label_smoothing_loss = Check(
    reference.label_smoothing_loss,
    difficulty="core",
    minutes=20,
    hints=(
        "The smoothed target is a mixture: the right word with 1 - smoothing, and the uniform distribution with smoothing.",
        "Cross-entropy is linear in the target: mix two losses.",
        "The loss against the uniform distribution is the mean of minus the log-probabilities over the vocabulary.",
        "A padded target may be no index at all. Put some word there, and leave the token out of the mean.",
    ),
    reproduces=("torch.nn.functional.cross_entropy", "torch.nn.CrossEntropyLoss"),
)


def _loss_inputs(draw, *shape, vocabulary, padding=None):
    targets = draw.rng.integers(1, vocabulary, size=shape)
    if padding is not None:
        targets[0, 1:] = padding  # sequences of different length
    return {"logits": 2 * draw.normal(*shape, vocabulary), "targets": targets}


@label_smoothing_loss.aspect("the smoothed target", points=2)
def _loss_values(draw):
    batch, length, vocabulary = draw.sizes(3)
    vocabulary += 3
    yield Case("a batch", _loss_inputs(draw, batch, length, vocabulary=vocabulary))
    inputs = _loss_inputs(draw, batch, length, vocabulary=vocabulary)
    yield Case("more smoothing", inputs, options={"smoothing": 0.4})
    yield Case("no smoothing", inputs, options={"smoothing": 0.0})
    yield Case("one token", _loss_inputs(draw, 1, vocabulary=vocabulary))


@label_smoothing_loss.aspect("padding", points=1)
def _loss_padding(draw):
    batch, length, vocabulary = draw.sizes(3)
    vocabulary += 3
    yield Case("the padding -100", _loss_inputs(draw, batch, length, vocabulary=vocabulary, padding=-100))
    inputs = _loss_inputs(draw, batch, length, vocabulary=vocabulary, padding=0)
    yield Case("the word 0 as padding", inputs, options={"ignore_index": 0})


@label_smoothing_loss.aspect("gradient, large scores, precision", points=1)
def _loss_gradients(draw):
    batch, length, vocabulary = draw.sizes(3)
    inputs = _loss_inputs(draw, batch, length, vocabulary=vocabulary + 3, padding=-100)
    yield Case("the gradient", inputs, gradient=("logits",))
    yield Case("scores near 1,000", inputs | {"logits": 400 * inputs["logits"]})
    yield Case("single precision", inputs, dtype="float32")


LOG_PROBS = "torch.log_softmax(logits, dim=-1)"
OF_ALL = "-log_probs.mean(-1)"
LOSSES = "(1 - smoothing) * of_target + smoothing * of_all"
RETURN = "return losses[real].mean()"
for _id, _old, _new, _hint in (
    (
        "smoothing-others-only",
        OF_ALL,
        "(-log_probs.sum(-1) - of_target) / (logits.shape[-1] - 1)",
        "The share goes to the wrong words only. Here it goes to all words, the right one included.",
    ),
    (
        "smoothing-not-divided",
        OF_ALL,
        "-log_probs.sum(-1)",
        "Each word gets the whole share; divide it by the size of the vocabulary.",
    ),
    (
        "smoothing-not-taken-away",
        LOSSES,
        "of_target + smoothing * of_all",
        "The target's probabilities sum to over one: the right word must give away what the others get.",
    ),
    ("smoothing-none", LOSSES, "of_target", "Nothing is smoothed."),
    (
        "smoothing-turned-round",
        LOSSES,
        "smoothing * of_target + (1 - smoothing) * of_all",
        "The two shares are exchanged.",
    ),
    (
        "smoothing-padding-counts",
        RETURN,
        "return losses.mean()",
        "Padding counts as if it were a word.",
    ),
    (
        "smoothing-padding-in-the-mean",
        RETURN,
        "return (losses * real).sum() / real.numel()",
        "The sum is divided by all tokens. Divide by the number of those that count.",
    ),
    (
        "smoothing-padding-in-the-uniform-part",
        RETURN,
        "return ((1 - smoothing) * of_target * real + smoothing * of_all).sum() / real.sum()",
        "Padding counts in the part that is spread over all words.",
    ),
    ("smoothing-sum", RETURN, "return losses[real].sum()", "This is the sum over the tokens; the mean is asked for."),
    (
        "smoothing-mean-of-means",
        RETURN,
        "return ((losses * real).sum(-1) / real.sum(-1)).mean()",
        "This is the mean of the sequences' means. All tokens of the batch should weigh the same.",
    ),
    (
        "smoothing-overflow",
        LOG_PROBS,
        "torch.log(logits.exp() / logits.exp().sum(-1, keepdim=True))",
        "The exponentials overflow for large scores. `torch.log_softmax` is stable.",
    ),
    (
        "smoothing-over-tokens",
        LOG_PROBS,
        "torch.log_softmax(logits, dim=0)",
        "The probabilities sum to one over another axis; they should over the vocabulary.",
    ),
    (
        "smoothing-detached",
        OF_ALL,
        "-log_probs.detach().mean(-1)",
        "No gradient flows through the part that is spread over all words.",
    ),
):
    label_smoothing_loss.slip(_id, _old, _new, _hint)
