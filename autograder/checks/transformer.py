"""What right kernels of "The Transformer" are."""

import math

import numpy as np

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
    inputs = _norm_inputs(draw, batch, length, width + 8)  # in a short token the variance may be small by chance
    yield Case("the gradients", inputs, gradient=("x", "weight", "bias"))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")


MEAN = "x.mean(-1, keepdim=True)"
VARIANCE = "(x - mean).square().mean(-1, keepdim=True)"
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
        "layer-norm-std-plus-eps",
        NORMALISED,
        "(x - mean) / (x.std(-1, keepdim=True) + eps)",
        "You divide by the standard deviation plus eps. It divides by n - 1 inside, and eps belongs under the root.",
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
        "layer-norm-var-squared",
        NORMALISED,
        "(x - mean) / (variance + eps) ** 2",
        "You divide by the square of the variance; divide by its root.",
    ),
    (
        "layer-norm-divided-by-rsqrt",
        NORMALISED,
        "(x - mean) / torch.rsqrt(variance + eps)",
        "`rsqrt` is one over the root already: multiply by it, or divide by the root.",
    ),
    (
        "layer-norm-eps-after-division",
        NORMALISED,
        "(x - mean) / torch.sqrt(variance) + eps",
        "eps is added to the quotient: without brackets the division comes first. It belongs to the variance.",
    ),
    (
        "layer-norm-sum-of-squares",
        VARIANCE,
        "(x - mean).square().sum(-1, keepdim=True)",
        "You add up the squared deviations; the variance is their mean.",
    ),
    (
        "layer-norm-axis-dropped",
        f"mean = {MEAN}\n    variance = {VARIANCE}",
        "mean, variance = x.mean(-1), x.var(-1, correction=0)",
        "Mean and variance have lost the last axis, so that they do not fit the tokens. Keep it, with `keepdim`.",
    ),
    (
        "layer-norm-repeated-by-the-length",
        f"mean = {MEAN}",
        "mean = x.mean(-1, keepdim=True).repeat(1, 1, x.shape[1])",
        "The mean is repeated as often as there are tokens. No repeating is needed: an axis of length 1 broadcasts.",
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
        "layer-norm-whole-tensor",
        f"mean = {MEAN}\n    variance = {VARIANCE}",
        "mean, variance = x.mean(), x.var(correction=0)",
        "Mean and variance are of the whole tensor. Each token has its own: name the axis.",
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
    (
        "ffn-weights-turned-round",
        f"hidden = {HIDDEN}\n    {OUTPUT}",
        "return torch.relu(x @ W_1 + b_1) @ W_2 + b_2",
        "The weights are in the layout (out, in): a product with them needs the transpose. `F.linear` knows.",
    ),
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
    token, output, weight, bias = _residual_inputs(draw, 3).values()
    many = {"x": np.tile(token, (400, 1)), "sublayer_output": np.tile(output, (400, 1)), "weight": weight, "bias": bias}
    yield Case("equal tokens, some numbers dropped", many, options={"dropout": 0.4}, probe={"equal_tokens": True})


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
        "residual-kept-not-dropped",
        KEPT,
        "F.dropout(sublayer_output, 1 - dropout)",
        "`dropout` is the probability with which a number is dropped; you take it as that with which it is kept.",
    ),
    (
        "residual-dropout-not-scaled",
        KEPT,
        "sublayer_output * (torch.rand_like(sublayer_output) >= dropout)",
        "What is not dropped is not scaled up, so that the mean of the output shrinks.",
    ),
    (
        "residual-dropout-of-whole-tokens",
        KEPT,
        "sublayer_output * F.dropout(torch.ones_like(sublayer_output[..., :1]), dropout)",
        "Whole tokens are dropped. Each number is dropped for itself.",
    ),
    (
        "residual-dropout-as-factor",
        KEPT,
        "(1 - dropout) * sublayer_output",
        "Nothing is dropped at random: all numbers are made smaller.",
    ),
    (
        "residual-detached",
        ADD_NORM,
        "return layer_norm(x.detach() + kept, weight, bias)",
        "No gradient flows along the residual path, for which it is there.",
    ),
):
    residual_add_norm.slip(_id, _old, _new, _hint)


def _sizes(draw, count):
    """Sizes of a model, and ``count`` more for its sequences; the root of a head's width is exact in every precision."""
    num_heads = int(draw.rng.integers(2, 4))
    others = [int(size) for size in draw.rng.permutation([size for size in range(2, 8) if size != num_heads])]
    return {"d_model": 4 * num_heads, "num_heads": num_heads, "d_ff": 10}, *others[:count]


def _attention_parameters(draw, name, d_model):
    return {
        f"{name}.in_proj_weight": draw.normal(3 * d_model, d_model, scale=1.5 / math.sqrt(d_model)),
        f"{name}.in_proj_bias": draw.normal(3 * d_model),
        f"{name}.out_proj.weight": draw.normal(d_model, d_model, scale=1 / math.sqrt(d_model)),
        f"{name}.out_proj.bias": draw.normal(d_model),
    }


def _network_parameters(draw, d_model, d_ff):
    return {
        "linear1.weight": draw.normal(d_ff, d_model, scale=1 / math.sqrt(d_model)),
        "linear1.bias": draw.normal(d_ff),
        "linear2.weight": draw.normal(d_model, d_ff, scale=1 / math.sqrt(d_ff)),
        "linear2.bias": draw.normal(d_model),
    }


def _norm_parameters(draw, number, d_model):
    return {f"norm{number}.weight": 1 + draw.normal(d_model) / 2, f"norm{number}.bias": draw.normal(d_model)}


def _encoder_parameters(draw, d_model, num_heads, d_ff):
    parameters = _attention_parameters(draw, "self_attn", d_model) | _network_parameters(draw, d_model, d_ff)
    return parameters | _norm_parameters(draw, 1, d_model) | _norm_parameters(draw, 2, d_model)


def _decoder_parameters(draw, d_model, num_heads, d_ff):
    parameters = _encoder_parameters(draw, d_model, num_heads, d_ff)
    return parameters | _attention_parameters(draw, "multihead_attn", d_model) | _norm_parameters(draw, 3, d_model)


def _with_few_results(inputs, *last_layers):
    """Inputs whose tokens are all equal, and of whose sub-layers' outputs only the first two numbers are not zero.

    So dropout can make no more than four different ones of each sub-layer's output. All hidden units are at work, so
    that to drop some of those makes many.
    """
    tokens = {
        name: np.broadcast_to(value[:1, :1], value.shape).copy()
        for name, value in inputs.items()
        if name in ("x", "memory")
    }
    zeroed = {}
    for name in (f"{layer}.{part}" for layer in last_layers for part in ("weight", "bias")):
        zeroed[name] = inputs[name].copy()
        zeroed[name][2:] = 0
    return inputs | tokens | zeroed | {"linear1.bias": inputs["linear1.bias"] + 6}


def _key_mask(draw, batch, length):
    """Sentences of different lengths: the first fills its row, padding ends the others."""
    lengths = draw.rng.integers(1, length, size=batch)
    lengths[0] = length
    return np.arange(length) < lengths[:, None]


EncoderBlock = Check(
    reference.EncoderBlock,
    difficulty="core",
    minutes=15,
    hints=(
        "Two sub-layers, each followed by `residual_add_norm`: first the attention, then the feed-forward network.",
        "In self-attention query, key and value are the same tokens. The mask goes to `key_mask`, by its name.",
        "What the first norm gives is both the input of the network and the second residual.",
        "`self.training` says whether the block is being trained. Where it is not, nothing is dropped.",
    ),
    reproduces=("torch.nn.TransformerEncoderLayer",),
    uses=("feed_forward", "residual_add_norm"),
)


def _encoder_inputs(draw, sizes, *leading_and_length, key_mask=None):
    x = draw.normal(*leading_and_length, sizes["d_model"])
    return {"x": x, "key_mask": key_mask} | _encoder_parameters(draw, **sizes)


@EncoderBlock.aspect("attention, network, residuals, norms", points=3)
def _encoder_values(draw):
    sizes, batch, length = _sizes(draw, 2)
    probe = {"sizes": sizes}
    yield Case("a batch", _encoder_inputs(draw, sizes, batch, length), probe=probe)
    yield Case("one token", _encoder_inputs(draw, sizes, batch, 1), probe=probe)
    single = sizes | {"d_model": 4, "num_heads": 1}
    yield Case("a batch of one, a single head", _encoder_inputs(draw, single, 1, length), probe={"sizes": single})


@EncoderBlock.aspect("padding", points=1)
def _encoder_padding(draw):
    sizes, batch, length = _sizes(draw, 2)
    key_mask = _key_mask(draw, batch, length)
    inputs = _encoder_inputs(draw, sizes, batch, length, key_mask=key_mask)
    yield Case("sentences of different lengths", inputs, probe={"sizes": sizes})
    key_mask = key_mask.copy()
    key_mask[-1] = False
    yield Case("a sequence of nothing but padding", inputs | {"key_mask": key_mask}, probe={"sizes": sizes})


@EncoderBlock.aspect("where and when dropout acts", points=1)
def _encoder_dropout(draw):
    sizes, batch, length = _sizes(draw, 2)
    few = _with_few_results(_encoder_inputs(draw, sizes, 20, 30), "self_attn.out_proj", "linear2")
    half = {"sizes": sizes | {"dropout": 0.5}, "equal_tokens": True}
    inputs, sizes = _encoder_inputs(draw, sizes, batch, length), sizes | {"dropout": 1.0}
    yield Case("training, every sub-layer dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})
    yield Case("equal tokens, half of the numbers dropped", few, probe=half)


@EncoderBlock.aspect("gradients, strides, precision", points=1)
def _encoder_gradients(draw):
    sizes, batch, length = _sizes(draw, 2)
    inputs, probe = _encoder_inputs(draw, sizes, batch, length), {"sizes": sizes}
    wanted = tuple(name for name in inputs if name != "key_mask")
    yield Case("gradients for tokens and parameters", inputs, gradient=wanted, probe=probe)
    yield Case("no batch, not contiguous", _encoder_inputs(draw, sizes, length), strided=True, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)


def _norm(tokens, number):
    """The text of a layer norm, for edits."""
    return f"layer_norm({tokens}, self.norm{number}.weight, self.norm{number}.bias)"


def _add_norm(tokens, number, dropout="dropout"):
    return f"residual_add_norm({tokens}, self.norm{number}.weight, self.norm{number}.bias, {dropout})"


def _network(tokens):
    return f"feed_forward({tokens}, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)"


# The lines of the encoder's block, and what mistakes put in their place.
DROPOUT = "dropout = self.dropout if self.training else 0.0"
ATTENTION = "attn_output = self.self_attn(x, x, x, key_mask=key_mask)"
AFTER_ATTENTION = f"x = {_add_norm('x, attn_output', 1)}"
NETWORK = f"hidden = {_network('x')}"
AFTER_NETWORK = f"return {_add_norm('x, hidden', 2)}"
GIVEN = f"given = x\n        {ATTENTION}"
DROPPED_ATTENTION, DROPPED_NETWORK = "F.dropout(attn_output, dropout)", "F.dropout(hidden, dropout)"
LINEAR_LAYERS = "hidden = self.linear2({}(self.linear1(x)))"
EncoderBlock.edit(
    "encoder-pre-norm",
    "This is pre-norm: each sub-layer reads normalised tokens, and the sum stays as it is. Here the sum is normalised.",
    (ATTENTION, f"n = {_norm('x', 1)}\n        attn_output = self.self_attn(n, n, n, key_mask=key_mask)"),
    (AFTER_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
    (NETWORK, f"hidden = {_network(_norm('x', 2))}"),
    (AFTER_NETWORK, f"return x + {DROPPED_NETWORK}"),
)
EncoderBlock.edit(
    "encoder-norm-before-adding",
    "Each sub-layer's output is normalised before it is added. Add first, then normalise the sum.",
    (AFTER_ATTENTION, f"x = x + {_norm(DROPPED_ATTENTION, 1)}"),
    (AFTER_NETWORK, f"return x + {_norm(DROPPED_NETWORK, 2)}"),
)
EncoderBlock.edit(
    "encoder-no-residual-of-attention",
    "The attention has no residual around it: its output is normalised alone.",
    (AFTER_ATTENTION, f"x = {_norm(DROPPED_ATTENTION, 1)}"),
)
EncoderBlock.edit(
    "encoder-no-residual-of-network",
    "The feed-forward network has no residual around it: its output is normalised alone.",
    (AFTER_NETWORK, f"return {_norm(DROPPED_NETWORK, 2)}"),
)
EncoderBlock.edit(
    "encoder-no-residuals",
    "No sub-layer has a residual around it.",
    (AFTER_ATTENTION, f"x = {_norm(DROPPED_ATTENTION, 1)}"),
    (AFTER_NETWORK, f"return {_norm(DROPPED_NETWORK, 2)}"),
)
EncoderBlock.edit(
    "encoder-residual-from-the-input",
    "The second residual comes from the block's input. It should come from what the network read.",
    (ATTENTION, GIVEN),
    (AFTER_NETWORK, f"return {_add_norm('given, hidden', 2)}"),
    source="https://github.com/NVIDIA-NeMo/Speech/pull/4350",
)
EncoderBlock.edit(
    "encoder-parallel",
    "The network reads the block's input, beside the attention. It should read what the first norm gave.",
    (ATTENTION, GIVEN),
    (NETWORK, f"hidden = {_network('given')}"),
)
EncoderBlock.edit(
    "encoder-residual-twice",
    "The residuals are added twice: `residual_add_norm` already adds them.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, x + attn_output', 1)}"),
    (AFTER_NETWORK, f"return {_add_norm('x, x + hidden', 2)}"),
    source="https://github.com/probml/pml-book/issues/709",
)
EncoderBlock.edit(
    "encoder-same-norm-twice",
    "Both sub-layers use the first norm. Each has its own gain and shift.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 1)}"),
)
EncoderBlock.edit(
    "encoder-norms-exchanged",
    "The two norms are exchanged: `norm1` belongs to the attention, `norm2` to the network.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, attn_output', 2)}"),
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 1)}"),
)
EncoderBlock.edit(
    "encoder-no-first-norm",
    "There is no norm after the attention. Each sub-layer is followed by one.",
    (AFTER_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
)
EncoderBlock.edit(
    "encoder-no-last-norm",
    "There is no norm after the network. Each sub-layer is followed by one.",
    (AFTER_NETWORK, f"return x + {DROPPED_NETWORK}"),
)
EncoderBlock.edit(
    "encoder-network-first",
    "The sub-layers are in the wrong order: the attention comes before the network.",
    (ATTENTION, f"x = {_add_norm(_network('x') + ', x', 2)}\n        {ATTENTION}"),
    (AFTER_ATTENTION, f"return {_add_norm('x, attn_output', 1)}"),
)
EncoderBlock.edit(
    "encoder-no-attention",
    "The attention is missing, so that no token sees another.",
    (AFTER_ATTENTION, f"x = {_norm('x', 1)}"),
)
EncoderBlock.edit(
    "encoder-no-network",
    "The feed-forward network is missing.",
    (AFTER_NETWORK, f"return {_norm('x', 2)}"),
)
EncoderBlock.edit(
    "encoder-no-ramp",
    "The network has no ramp between its layers, so that the two are one.",
    (NETWORK, LINEAR_LAYERS.format("")),
)
EncoderBlock.edit(
    "encoder-gelu",
    "The network has GELU between its layers; that of 2017 has the ramp max(0, .).",
    (NETWORK, LINEAR_LAYERS.format("F.gelu")),
)
EncoderBlock.edit(
    "encoder-key-mask-left-out",
    "The key mask changes nothing: tokens look at padding.",
    (ATTENTION, "attn_output = self.self_attn(x, x, x)"),
)
EncoderBlock.edit(
    "encoder-key-mask-inverted",
    "The key mask is turned round, as PyTorch's modules want it. Here True is a real token.",
    (ATTENTION, "attn_output = self.self_attn(x, x, x, key_mask=None if key_mask is None else ~key_mask)"),
)
EncoderBlock.edit(
    "encoder-key-mask-as-attn-mask",
    "The key mask was handed over as `attn_mask`, the fourth argument: pass it by its name.",
    (ATTENTION, "attn_output = self.self_attn(x, x, x, key_mask)"),
)
EncoderBlock.edit(
    "encoder-padding-zeroed",
    "Padded tokens are set to zero. The mask only keeps others from looking at them.",
    (ATTENTION, f"x = x if key_mask is None else x * key_mask[..., None]\n        {ATTENTION}"),
)
EncoderBlock.edit(
    "encoder-outputs-of-padding-zeroed",
    "The outputs of padded tokens are set to zero. They are computed like all others; the mask keeps others from looking.",
    (
        AFTER_NETWORK,
        f"x = {_add_norm('x, hidden', 2)}\n        return x if key_mask is None else x * key_mask[..., None]",
    ),
)
EncoderBlock.edit(
    "encoder-padding-may-not-look",
    "Padded tokens may look at nobody. The mask says who may not be looked at; it takes out keys, not queries.",
    (
        ATTENTION,
        "pairs = None if key_mask is None else key_mask[..., :, None] & key_mask[..., None, :]\n"
        "        attn_output = self.self_attn(x, x, x, attn_mask=pairs)",
    ),
)
EncoderBlock.edit(
    "encoder-attention-of-pytorch",
    "Two values are unpacked, as from PyTorch's `nn.MultiheadAttention`. The course's attention returns one tensor.",
    (ATTENTION, ATTENTION.replace("attn_output =", "attn_output, _ =")),
)
EncoderBlock.edit(
    "encoder-norms-without-parameters",
    "The norms have neither gain nor shift. `self.norm1` and `self.norm2` hold them.",
    (AFTER_ATTENTION, "x = F.layer_norm(x + F.dropout(attn_output, dropout), x.shape[-1:])"),
    (AFTER_NETWORK, "return F.layer_norm(x + F.dropout(hidden, dropout), x.shape[-1:])"),
)
EncoderBlock.edit(
    "encoder-causal",
    "No token sees those after it. In the encoder every token may look at every other.",
    (
        ATTENTION,
        "attn_output = self.self_attn(x, x, x, causal_mask(x.shape[-2], x.shape[-2]), key_mask=key_mask)",
    ),
)
EncoderBlock.edit(
    "encoder-dropout-when-not-training",
    "Something is dropped while the block is not being trained.",
    (DROPOUT, "dropout = self.dropout"),
)
EncoderBlock.edit(
    "encoder-dropout-forgotten",
    "`self.dropout` is set to 0 where the block is not being trained, and stays 0 when training goes on.",
    (DROPOUT, "self.dropout = self.dropout if self.training else 0.0\n        dropout = self.dropout"),
    source="https://github.com/NVIDIA/Megatron-LM/pull/411",
)
EncoderBlock.edit(
    "encoder-hidden-units-dropped",
    "The network's hidden units are dropped too, as in PyTorch's layer. The paper drops each sub-layer's output alone.",
    (NETWORK, "hidden = self.linear2(F.dropout(torch.relu(self.linear1(x)), dropout))"),
)
EncoderBlock.edit(
    "encoder-dropped-twice",
    "The outputs are dropped before `residual_add_norm`, which drops them once more.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, F.dropout(attn_output, dropout)', 1)}"),
    (AFTER_NETWORK, f"return {_add_norm('x, F.dropout(hidden, dropout)', 2)}"),
)
EncoderBlock.edit(
    "encoder-no-dropout",
    "Nothing is dropped in training. Hand the probability to `residual_add_norm`.",
    (DROPOUT, "dropout = 0.0"),
)
EncoderBlock.edit(
    "encoder-no-dropout-of-attention",
    "The output of the attention is never dropped.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, attn_output', 1, dropout=0.0)}"),
)
EncoderBlock.edit(
    "encoder-no-dropout-of-network",
    "The output of the network is never dropped.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 2, dropout=0.0)}"),
)
EncoderBlock.edit(
    "encoder-dropout-on-residual",
    "Dropout acts on the sums, and so on the residual path too.",
    (AFTER_ATTENTION, f"x = {_norm('F.dropout(x + attn_output, dropout)', 1)}"),
    (AFTER_NETWORK, f"return {_norm('F.dropout(x + hidden, dropout)', 2)}"),
)
EncoderBlock.edit(
    "encoder-dropout-last",
    "Dropout comes after the norms. It acts on a sub-layer's output, before the addition.",
    (AFTER_ATTENTION, f"x = F.dropout({_norm('x + attn_output', 1)}, dropout)"),
    (AFTER_NETWORK, f"return F.dropout({_norm('x + hidden', 2)}, dropout)"),
)


DecoderBlock = Check(
    reference.DecoderBlock,
    difficulty="core",
    minutes=20,
    hints=(
        "Three sub-layers, each followed by `residual_add_norm` with its own norm: attention to the target so far, "
        "attention to the memory, the feed-forward network.",
        "The first attention takes a causal mask, square in the target's length. The second takes none: every target word may "
        "see the whole source, except its padding.",
        "In the second attention the decoder asks: its tokens are the query. The memory is both key and value.",
        "All three residuals run along the target's tokens; the memory only enters through the second attention.",
    ),
    reproduces=("torch.nn.TransformerDecoderLayer",),
    uses=("feed_forward", "residual_add_norm"),
)


def _decoder_inputs(draw, sizes, leading, queries, keys, memory_key_mask=None):
    x, memory = (draw.normal(*leading, length, sizes["d_model"]) for length in (queries, keys))
    return {"x": x, "memory": memory, "memory_key_mask": memory_key_mask} | _decoder_parameters(draw, **sizes)


@DecoderBlock.aspect("both attentions, network, residuals, norms", points=3)
def _decoder_values(draw):
    sizes, batch, queries, keys = _sizes(draw, 3)
    probe = {"sizes": sizes}
    yield Case("as many target as source words", _decoder_inputs(draw, sizes, (batch,), keys, keys), probe=probe)
    yield Case("lengths that differ", _decoder_inputs(draw, sizes, (batch,), queries, keys), probe=probe)
    single = sizes | {"d_model": 4, "num_heads": 1}
    inputs = _decoder_inputs(draw, single, (1,), 1, keys)
    yield Case("the first target word, a single head", inputs, probe={"sizes": single})


@DecoderBlock.aspect("padding in the source", points=1)
def _decoder_padding(draw):
    sizes, batch, length = _sizes(draw, 2)
    key_mask = _key_mask(draw, batch, length)
    inputs = _decoder_inputs(draw, sizes, (batch,), length, length, memory_key_mask=key_mask)
    yield Case("sources of different lengths", inputs, probe={"sizes": sizes})
    key_mask = key_mask.copy()
    key_mask[-1] = False
    nothing = inputs | {"memory_key_mask": key_mask}
    yield Case("a source of nothing but padding", nothing, probe={"sizes": sizes})


@DecoderBlock.aspect("where and when dropout acts", points=1)
def _decoder_dropout(draw):
    sizes, batch, queries, keys = _sizes(draw, 3)
    last_layers = "self_attn.out_proj", "multihead_attn.out_proj", "linear2"
    few = _with_few_results(_decoder_inputs(draw, sizes, (50,), 30, keys), *last_layers)
    half = {"sizes": sizes | {"dropout": 0.5}, "equal_tokens": True}
    inputs, sizes = _decoder_inputs(draw, sizes, (batch,), queries, keys), sizes | {"dropout": 1.0}
    yield Case("training, every sub-layer dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})
    yield Case("equal tokens, half of the numbers dropped", few, probe=half)


@DecoderBlock.aspect("gradients, strides, precision", points=1)
def _decoder_gradients(draw):
    sizes, batch, queries, keys = _sizes(draw, 3)
    inputs, probe = _decoder_inputs(draw, sizes, (batch,), queries, keys), {"sizes": sizes}
    wanted = tuple(name for name in inputs if name != "memory_key_mask")
    yield Case("gradients for tokens, memory and parameters", inputs, gradient=wanted, probe=probe)
    yield Case("no batch, not contiguous", _decoder_inputs(draw, sizes, (), queries, keys), strided=True, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)


CAUSAL_ATTENTION = "attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length, length))"
CROSS_ATTENTION = "attn_output = self.multihead_attn(x, memory, memory, key_mask=memory_key_mask)"
AFTER_CROSS_ATTENTION = f"x = {_add_norm('x, attn_output', 2)}"
AFTER_NETWORK = f"return {_add_norm('x, hidden', 3)}"
GIVEN = f"given = x\n        {CAUSAL_ATTENTION}"
KEYS_SOURCE = "https://github.com/keitakurita/Practical_NLP_in_PyTorch/issues/1"
DecoderBlock.edit(
    "decoder-pre-norm",
    "This is pre-norm: each sub-layer reads normalised tokens, and the sum stays as it is. Here the sum is normalised.",
    (
        CAUSAL_ATTENTION,
        f"n = {_norm('x', 1)}\n        attn_output = self.self_attn(n, n, n, attn_mask=causal_mask(length, length))",
    ),
    (AFTER_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("(x,", f"({_norm('x', 2)},")),
    (AFTER_CROSS_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
    (NETWORK, f"hidden = {_network(_norm('x', 3))}"),
    (AFTER_NETWORK, f"return x + {DROPPED_NETWORK}"),
)
DecoderBlock.edit(
    "decoder-norm-before-adding",
    "Each sub-layer's output is normalised before it is added. Add first, then normalise the sum.",
    (AFTER_ATTENTION, f"x = x + {_norm(DROPPED_ATTENTION, 1)}"),
    (AFTER_CROSS_ATTENTION, f"x = x + {_norm(DROPPED_ATTENTION, 2)}"),
    (AFTER_NETWORK, f"return x + {_norm(DROPPED_NETWORK, 3)}"),
)
DecoderBlock.edit(
    "decoder-no-residual-of-self-attention",
    "The self-attention has no residual around it: its output is normalised alone.",
    (AFTER_ATTENTION, f"x = {_norm(DROPPED_ATTENTION, 1)}"),
)
DecoderBlock.edit(
    "decoder-no-residual-of-cross-attention",
    "The attention to the memory has no residual around it: its output is normalised alone.",
    (AFTER_CROSS_ATTENTION, f"x = {_norm(DROPPED_ATTENTION, 2)}"),
)
DecoderBlock.edit(
    "decoder-no-residual-of-network",
    "The feed-forward network has no residual around it: its output is normalised alone.",
    (AFTER_NETWORK, f"return {_norm(DROPPED_NETWORK, 3)}"),
)
DecoderBlock.edit(
    "decoder-residual-from-the-input",
    "All residuals come from the block's input. Each should come from what its sub-layer read.",
    (CAUSAL_ATTENTION, GIVEN),
    (AFTER_CROSS_ATTENTION, f"x = {_add_norm('given, attn_output', 2)}"),
    (AFTER_NETWORK, f"return {_add_norm('given, hidden', 3)}"),
)
DecoderBlock.edit(
    "decoder-cross-attention-from-the-input",
    "The block's input asks the memory. What the first norm gave should ask.",
    (CAUSAL_ATTENTION, GIVEN),
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("(x,", "(given,")),
)
DecoderBlock.edit(
    "decoder-same-norm-twice",
    "The network is followed by the second norm. It has a third one of its own.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 2)}"),
)
DecoderBlock.edit(
    "decoder-norms-exchanged",
    "The first two norms are exchanged: `norm1` belongs to the self-attention, `norm2` to that to the memory.",
    (
        f"{AFTER_ATTENTION}\n        {CROSS_ATTENTION}\n        {AFTER_CROSS_ATTENTION}",
        f"{AFTER_CROSS_ATTENTION}\n        {CROSS_ATTENTION}\n        {AFTER_ATTENTION}",
    ),
)
DecoderBlock.edit(
    "decoder-attention-of-pytorch",
    "Two values are unpacked, as from PyTorch's `nn.MultiheadAttention`. The course's attention returns one tensor.",
    (CAUSAL_ATTENTION, CAUSAL_ATTENTION.replace("attn_output =", "attn_output, _ =")),
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("attn_output =", "attn_output, _ =")),
)
DecoderBlock.edit(
    "decoder-no-causal-mask",
    "The self-attention has no causal mask: each target word sees those that come after it.",
    (CAUSAL_ATTENTION, "attn_output = self.self_attn(x, x, x)"),
)
DecoderBlock.edit(
    "decoder-causal-mask-transposed",
    "The causal mask is turned round: each target word sees those after it, none before.",
    (CAUSAL_ATTENTION, "attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length, length).T)"),
    source="https://github.com/marin-community/levanter/pull/102",
)
DecoderBlock.edit(
    "decoder-causal-mask-inverted",
    "The causal mask is that of PyTorch's modules, in which True is blocked. Here True may be seen.",
    (CAUSAL_ATTENTION, "attn_output = self.self_attn(x, x, x, attn_mask=~causal_mask(length, length))"),
)
DecoderBlock.edit(
    "decoder-causal-mask-of-the-memory",
    "The causal mask has the width of the memory. It is square: the target looks at itself.",
    (
        CAUSAL_ATTENTION,
        "attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length, memory.shape[-2]))",
    ),
)
DecoderBlock.edit(
    "decoder-causal-mask-strict",
    "A target word does not see itself, so that the first one sees nothing.",
    (CAUSAL_ATTENTION, "attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length, length).tril(-1))"),
    source="https://github.com/trymirai/lalamo/pull/273",
)
DecoderBlock.edit(
    "decoder-sees-one-ahead",
    "Each target word sees the one after it, which is the one that it should predict.",
    (
        CAUSAL_ATTENTION,
        "attn_output = self.self_attn(x, x, x, attn_mask=causal_mask(length + 1, length + 1)[1:, :-1])",
    ),
    source="https://github.com/RVC-Boss/GPT-SoVITS/issues/965",
)
DecoderBlock.edit(
    "decoder-causal-cross-attention",
    "The attention to the memory has a causal mask. The whole source is known: every target word may see all of it.",
    (
        CROSS_ATTENTION,
        CROSS_ATTENTION.replace("key_mask=", "causal_mask(length, memory.shape[-2]), key_mask="),
    ),
    source="https://github.com/NVIDIA/TransformerEngine/issues/629",
)
DecoderBlock.edit(
    "decoder-keys-from-the-target",
    "In the second attention the target looks at itself. Key and value come from the memory.",
    (CROSS_ATTENTION, "attn_output = self.multihead_attn(x, x, x)"),
    source=KEYS_SOURCE,
)
DecoderBlock.edit(
    "decoder-values-from-the-target",
    "In the second attention the keys are the memory's, but the values the target's. Both come from the memory.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("memory, memory,", "memory, x,")),
    source=KEYS_SOURCE,
)
DecoderBlock.edit(
    "decoder-target-as-value",
    "In the second attention the memory asks and is asked, and the target is the value. The order is query, key, value.",
    (CROSS_ATTENTION, "attn_output = self.multihead_attn(memory, memory, x)"),
)
DecoderBlock.edit(
    "decoder-target-as-key",
    "In the second attention the keys are the target's. Both come from the memory.",
    (CROSS_ATTENTION, "attn_output = self.multihead_attn(x, x, memory)"),
)
DecoderBlock.edit(
    "decoder-query-and-memory-exchanged",
    "In the second attention the memory asks the target. The target's tokens are the query.",
    (CROSS_ATTENTION, "attn_output = self.multihead_attn(memory, x, x)"),
)
DecoderBlock.edit(
    "decoder-attentions-exchanged",
    "`self_attn` and `multihead_attn` are exchanged: the second one is for the memory.",
    (CAUSAL_ATTENTION, CAUSAL_ATTENTION.replace("self_attn", "multihead_attn")),
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("multihead_attn", "self_attn")),
)
DecoderBlock.edit(
    "decoder-one-attention-twice",
    "Both attentions use the projections of `self_attn`. The one to the memory has its own.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("multihead_attn", "self_attn")),
)
DecoderBlock.edit(
    "decoder-cross-attention-first",
    "The target looks at the memory before it looks at itself. The causal self-attention comes first.",
    (
        f"{CAUSAL_ATTENTION}\n        {AFTER_ATTENTION}\n        {CROSS_ATTENTION}\n        {AFTER_CROSS_ATTENTION}",
        f"{CROSS_ATTENTION}\n        {AFTER_CROSS_ATTENTION}\n        {CAUSAL_ATTENTION}\n        {AFTER_ATTENTION}",
    ),
)
DecoderBlock.edit(
    "decoder-network-between",
    "The network comes before the attention to the memory. It is the last sub-layer.",
    (CROSS_ATTENTION, f"x = {_add_norm('x, ' + _network('x'), 3)}\n        {CROSS_ATTENTION}"),
    (AFTER_CROSS_ATTENTION, f"return {_add_norm('x, attn_output', 2)}"),
)
DecoderBlock.edit(
    "decoder-no-self-attention",
    "The self-attention is missing: no target word sees those before it.",
    (AFTER_ATTENTION, f"x = {_norm('x', 1)}"),
)
DecoderBlock.edit(
    "decoder-no-cross-attention",
    "The attention to the memory is missing: the decoder does not know the source.",
    (AFTER_CROSS_ATTENTION, f"x = {_norm('x', 2)}"),
)
DecoderBlock.edit(
    "decoder-no-network",
    "The feed-forward network is missing.",
    (AFTER_NETWORK, f"return {_norm('x', 3)}"),
)
DecoderBlock.edit(
    "decoder-no-ramp",
    "The network has no ramp between its layers, so that the two are one.",
    (NETWORK, LINEAR_LAYERS.format("")),
)
DecoderBlock.edit(
    "decoder-memory-mask-left-out",
    "The memory's mask changes nothing: target words look at padding of the source.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace(", key_mask=memory_key_mask", "")),
)
DecoderBlock.edit(
    "decoder-memory-mask-inverted",
    "The memory's mask is turned round, as PyTorch's modules want it. Here True is a real token.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("=memory", "=None if memory_key_mask is None else ~memory")),
)
DecoderBlock.edit(
    "decoder-memory-mask-as-attn-mask",
    "The memory's mask was handed over as `attn_mask`, the fourth argument: pass it by its name.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("key_mask=", "")),
)
DecoderBlock.edit(
    "decoder-memory-mask-on-the-target",
    "The memory's mask went to the self-attention. It belongs to the attention to the memory.",
    (CAUSAL_ATTENTION, CAUSAL_ATTENTION.replace("))", "), key_mask=memory_key_mask)")),
    (CROSS_ATTENTION, CROSS_ATTENTION.replace(", key_mask=memory_key_mask", "")),
)
DecoderBlock.edit(
    "decoder-memory-mask-on-both",
    "The memory's mask goes to the self-attention too. It says nothing of the target's tokens.",
    (CAUSAL_ATTENTION, CAUSAL_ATTENTION.replace("))", "), key_mask=memory_key_mask)")),
)
DecoderBlock.edit(
    "decoder-memory-detached",
    "No gradient reaches the memory, so that the encoder learns nothing.",
    (CROSS_ATTENTION, CROSS_ATTENTION.replace("memory, memory,", "memory.detach(), memory.detach(),")),
)
DecoderBlock.edit(
    "decoder-dropout-when-not-training",
    "Something is dropped while the block is not being trained.",
    (DROPOUT, "dropout = self.dropout"),
)
DecoderBlock.edit(
    "decoder-no-dropout",
    "Nothing is dropped in training. Hand the probability to `residual_add_norm`.",
    (DROPOUT, "dropout = 0.0"),
)
DecoderBlock.edit(
    "decoder-no-dropout-of-self-attention",
    "The output of the self-attention is never dropped.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, attn_output', 1, dropout=0.0)}"),
)
DecoderBlock.edit(
    "decoder-no-dropout-of-cross-attention",
    "The output of the attention to the memory is never dropped.",
    (AFTER_CROSS_ATTENTION, f"x = {_add_norm('x, attn_output', 2, dropout=0.0)}"),
)
DecoderBlock.edit(
    "decoder-no-dropout-of-network",
    "The output of the network is never dropped.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 3, dropout=0.0)}"),
)
DecoderBlock.edit(
    "decoder-dropout-forgotten",
    "`self.dropout` is set to 0 where the block is not being trained, and stays 0 when training goes on.",
    (DROPOUT, "self.dropout = self.dropout if self.training else 0.0\n        dropout = self.dropout"),
    source="https://github.com/NVIDIA/Megatron-LM/pull/411",
)
DecoderBlock.edit(
    "decoder-hidden-units-dropped",
    "The network's hidden units are dropped too, as in PyTorch's layer. The paper drops each sub-layer's output alone.",
    (NETWORK, "hidden = self.linear2(F.dropout(torch.relu(self.linear1(x)), dropout))"),
)
DecoderBlock.edit(
    "decoder-dropout-on-residual",
    "Dropout acts on the sums, and so on the residual path too.",
    (AFTER_ATTENTION, f"x = {_norm('F.dropout(x + attn_output, dropout)', 1)}"),
    (AFTER_CROSS_ATTENTION, f"x = {_norm('F.dropout(x + attn_output, dropout)', 2)}"),
    (AFTER_NETWORK, f"return {_norm('F.dropout(x + hidden, dropout)', 3)}"),
)


Transformer = Check(
    reference.Transformer,
    difficulty="core",
    minutes=25,
    hints=(
        "`embed`: the rows of the embedding, scaled; then positions from `sinusoidal_positions`, which fit a sentence of any "
        "length; then dropout, which only acts in training.",
        "`encode`: embed the source, then one block after the other, each with the key mask.",
        "`decode`: embed the target, then one block after the other. Each gets the same memory, that of the encoder's last "
        "block, and its key mask. The output layer is `F.linear` with the embedding's own weight.",
        "`forward` calls the two. It shifts nothing and returns logits, with no softmax.",
    ),
    reproduces=(
        "torch.nn.Transformer",
        "torch.nn.TransformerEncoder",
        "torch.nn.TransformerDecoder",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoderLayer",
    ),
    uses=("EncoderBlock", "DecoderBlock"),
)


def _model_sizes(draw, count):
    """Sizes of a model with one layer and vocabularies of different size, and ``count`` more for its sentences."""
    sizes, *others = _sizes(draw, count)
    return sizes | {"source_size": 11, "target_size": 13, "num_layers": 1}, *others


def _model_inputs(draw, sizes, leading, queries, keys, key_mask=None):
    source = draw.rng.integers(1, sizes["source_size"], (*leading, keys))
    if key_mask is not None:
        source[~key_mask] = 0
    target_in = draw.rng.integers(1, sizes["target_size"], (*leading, queries))
    block = {name: sizes[name] for name in ("d_model", "num_heads", "d_ff")}
    parameters = {
        f"{side}_embedding.weight": draw.normal(sizes[f"{side}_size"], sizes["d_model"], scale=sizes["d_model"] ** -0.5)
        for side in ("source", "target")
    }
    for stack, draw_block in (("encoder", _encoder_parameters), ("decoder", _decoder_parameters)):
        for layer in range(sizes["num_layers"]):
            parameters |= {f"{stack}.{layer}.{name}": value for name, value in draw_block(draw, **block).items()}
    return {"source": source, "target_in": target_in, "key_mask": key_mask} | parameters


@Transformer.aspect("embeddings, blocks, output layer", points=3)
def _model_values(draw):
    sizes, batch, queries, keys = _model_sizes(draw, 3)
    alike = sizes | {"target_size": sizes["source_size"]}
    inputs = _model_inputs(draw, alike, (batch,), keys, keys)
    yield Case("encode and decode", inputs, probe={"sizes": alike, "halves": True})
    deep = sizes | {"num_layers": 2}
    yield Case("two layers", _model_inputs(draw, deep, (batch,), queries, keys), probe={"sizes": deep})
    yield Case("the first target word, no batch", _model_inputs(draw, sizes, (), 1, keys), probe={"sizes": sizes})


@Transformer.aspect("padding in the source", points=1)
def _model_padding(draw):
    sizes, batch, queries, keys = _model_sizes(draw, 3)
    inputs = _model_inputs(draw, sizes, (batch,), queries, keys, key_mask=_key_mask(draw, batch, keys))
    yield Case("sentences of different lengths", inputs, probe={"sizes": sizes})


@Transformer.aspect("where and when dropout acts", points=1)
def _model_dropout(draw):
    sizes, batch, queries, keys = _model_sizes(draw, 3)
    inputs, sizes = _model_inputs(draw, sizes, (batch,), queries, keys), sizes | {"dropout": 1.0}
    yield Case("training, everything dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})


@Transformer.aspect("gradients, precision", points=1)
def _model_gradients(draw):
    sizes, batch, queries, keys = _model_sizes(draw, 3)
    inputs, probe = _model_inputs(draw, sizes, (batch,), queries, keys), {"sizes": sizes}
    wanted = ("source_embedding.weight", "target_embedding.weight", "encoder.0.linear1.weight")
    yield Case("gradients for embeddings and encoder", inputs, gradient=wanted, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)


SCALED = "x = embedding(tokens) * math.sqrt(embedding.embedding_dim)"
POSITIONS = "x = x + sinusoidal_positions(*x.shape[-2:]).to(x)"
DROP = "return F.dropout(x, self.dropout, self.training)"
ENCODER = "for block in self.encoder:\n            x = block(x, key_mask)"
DECODER = "for block in self.decoder:\n            x = block(x, memory, key_mask)"
EMBED_TARGET = "x = self.embed(target_in, self.target_embedding)"
LOGITS = "return F.linear(x, self.target_embedding.weight)"
ENCODE = "memory = self.encode(source, key_mask)"
DECODE = "return self.decode(target_in, memory, key_mask)"
Transformer.edit(
    "transformer-embeddings-not-scaled",
    "The embeddings are not scaled by the square root of d_model.",
    (SCALED, "x = embedding(tokens)"),
    source="https://github.com/SamLynnEvans/Transformer/issues/10",
)
Transformer.edit(
    "transformer-embeddings-scaled-by-width",
    "The embeddings are multiplied by d_model itself. Take its square root.",
    (SCALED, "x = embedding(tokens) * embedding.embedding_dim"),
)
Transformer.edit(
    "transformer-embeddings-divided",
    "The embeddings are divided by the square root of d_model. Multiply by it.",
    (SCALED, "x = embedding(tokens) / math.sqrt(embedding.embedding_dim)"),
)
Transformer.edit(
    "transformer-single-word-without-position",
    "A word that stands alone has no position. The first word has position 0, also where no other follows.",
    (POSITIONS, "x = x + (x.shape[-2] > 1) * sinusoidal_positions(*x.shape[-2:]).to(x)"),
)
Transformer.edit(
    "transformer-no-positions",
    "No positions are added: the encoder cannot tell the order of the words.",
    (POSITIONS, ""),
)
Transformer.edit(
    "transformer-no-target-positions",
    "The source has positions and the target has none.",
    (
        EMBED_TARGET,
        "x = self.target_embedding(target_in) * math.sqrt(self.target_embedding.embedding_dim)\n"
        "        x = F.dropout(x, p=self.dropout, training=self.training)",
    ),
)
Transformer.edit(
    "transformer-positions-scaled",
    "The positions are added before the embeddings are scaled, so that they are scaled too.",
    (SCALED, "x = embedding(tokens)"),
    (POSITIONS, f"{POSITIONS}\n        x = x * math.sqrt(embedding.embedding_dim)"),
)
Transformer.edit(
    "transformer-positions-from-one",
    "The positions are counted from 1. The first word stands at position 0.",
    (POSITIONS, "x = x + sinusoidal_positions(x.shape[-2] + 1, x.shape[-1])[1:].to(x)"),
)
Transformer.edit(
    "transformer-positions-of-the-batch",
    "The positions are counted over the sentences of the batch, not over the words of a sentence.",
    (POSITIONS, "x = x + sinusoidal_positions(x.shape[0], x.shape[-1])[:, None].to(x)"),
    source="https://github.com/songyangco/GETNext/issues/2",
)
Transformer.edit(
    "transformer-positions-in-every-block",
    "The positions are added again before every block of the encoder. They are added once, to the embeddings.",
    (ENCODER, ENCODER.replace("block(x,", "block(x + sinusoidal_positions(*x.shape[-2:]).to(x),")),
)
Transformer.edit(
    "transformer-positions-not-dropped",
    "Dropout acts on the embeddings before the positions are added. It acts on their sum.",
    (POSITIONS, "x = F.dropout(x, p=self.dropout, training=self.training)"),
    (DROP, "return x + sinusoidal_positions(*x.shape[-2:]).to(x)"),
)
Transformer.edit(
    "transformer-sum-not-dropped",
    "The sum of embeddings and positions is never dropped.",
    (DROP, "return x"),
)
Transformer.edit(
    "transformer-dropout-when-not-training",
    "The sum of embeddings and positions is dropped while the model is not being trained.",
    (DROP, "return F.dropout(x, self.dropout)"),
)
Transformer.edit(
    "transformer-dropout-forgotten",
    "`self.dropout` is set to 0 where the model is not being trained, and stays 0 when training goes on.",
    (DROP, "self.dropout = self.dropout if self.training else 0.0\n        return F.dropout(x, self.dropout)"),
    source="https://github.com/NVIDIA/Megatron-LM/pull/411",
)
Transformer.edit(
    "transformer-target-in-the-sources-table",
    "The target's words are looked up in the source's embedding. Each language has its own.",
    (EMBED_TARGET, "x = self.embed(target_in, self.source_embedding)"),
)
Transformer.edit(
    "transformer-encoder-shared",
    "The encoder's first block is applied again and again. Each layer has a block of its own.",
    (ENCODER, ENCODER.replace("= block(", "= self.encoder[0](")),
)
Transformer.edit(
    "transformer-decoder-shared",
    "The decoder's first block is applied again and again. Each layer has a block of its own.",
    (DECODER, DECODER.replace("= block(", "= self.decoder[0](")),
)
Transformer.edit(
    "transformer-blocks-not-chained",
    "Every block reads the embeddings, so that only the last one counts. Each reads what the one before gave.",
    (ENCODER, "x = self.encoder[-1](x, key_mask)"),
    (DECODER, "x = self.decoder[-1](x, memory, key_mask)"),
)
Transformer.edit(
    "transformer-memory-of-the-same-depth",
    "Each block of the decoder reads the encoder's block of the same depth. All read what the last one gave.",
    (ENCODE, "x, memory = self.embed(target_in, self.target_embedding), self.embed(source, self.source_embedding)"),
    (
        DECODE,
        "for encoder, decoder in zip(self.encoder, self.decoder, strict=True):\n"
        "            memory = encoder(memory, key_mask)\n"
        "            x = decoder(x, memory, key_mask)\n"
        f"        {LOGITS}",
    ),
)
Transformer.edit(
    "transformer-memory-from-the-embedding",
    "The decoder reads the source's embeddings. It should read what `encode` makes of them.",
    (ENCODE, "memory = self.embed(source, self.source_embedding)"),
)
Transformer.edit(
    "transformer-memory-normalised",
    "The memory is normalised once more. (PyTorch's `nn.Transformer` does so; here the last block's norm is the last.)",
    (ENCODER, f"{ENCODER}\n        x = F.layer_norm(x, x.shape[-1:])"),
)
Transformer.edit(
    "transformer-output-of-the-source",
    "The output layer is tied to the source's embedding. It scores words of the target.",
    (LOGITS, "return F.linear(x, self.source_embedding.weight)"),
)
Transformer.edit(
    "transformer-output-detached",
    "No gradient flows through the output layer into the embedding: the two are one tensor, not a copy.",
    (LOGITS, "return F.linear(x, self.target_embedding.weight.detach())"),
)
Transformer.edit(
    "transformer-no-output-layer",
    "The output layer is missing: one score for each word is asked for.",
    (LOGITS, "return x"),
)
Transformer.edit(
    "transformer-softmax",
    "Probabilities are returned. The softmax belongs to the loss; return the logits.",
    (LOGITS, "return torch.softmax(F.linear(x, self.target_embedding.weight), -1)"),
)
Transformer.edit(
    "transformer-log-softmax",
    "Log-probabilities are returned. The softmax belongs to the loss; return the logits.",
    (LOGITS, "return torch.log_softmax(F.linear(x, self.target_embedding.weight), -1)"),
)
Transformer.edit(
    "transformer-output-scaled",
    "The output layer is scaled by the square root of d_model. Only the embeddings that are read are.",
    (LOGITS, "return F.linear(x, self.target_embedding.weight * math.sqrt(x.shape[-1]))"),
)
Transformer.edit(
    "transformer-last-word-only",
    "Only the last place is scored. Every place predicts its next word.",
    (LOGITS, "return F.linear(x[..., -1, :], self.target_embedding.weight)"),
)
Transformer.edit(
    "transformer-shifts-again",
    "The target is shifted inside the model. It arrives shifted: its first word is the start of sentence.",
    (EMBED_TARGET, "x = self.embed(F.pad(target_in[..., :-1], (1, 0)), self.target_embedding)"),
)
Transformer.edit(
    "transformer-no-mask-in-the-encoder",
    "The key mask does not reach the encoder's blocks.",
    (ENCODER, ENCODER.replace(", key_mask", "")),
)
Transformer.edit(
    "transformer-no-mask-in-the-decoder",
    "The key mask does not reach the decoder's blocks, which look at padding of the source.",
    (DECODER, DECODER.replace(", key_mask", "")),
)
Transformer.edit(
    "transformer-no-mask-in-forward",
    "`forward` keeps the key mask to itself. `encode` and `decode` need it both.",
    (ENCODE, "memory = self.encode(source)"),
    (DECODE, "return self.decode(target_in, memory)"),
)


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
    (
        "noam-rises-too-fast",
        "warmup_steps**-1.5",
        "warmup_steps**-1",
        "At the end of the warm-up both branches are equal; yours rises above the other before that.",
    ),
    (
        "noam-exponents-exchanged",
        "rising = step * warmup_steps**-1.5",
        "rising = step**-1.5 * warmup_steps",
        "The exponent -1.5 belongs to the warm-up, not to the step: the first branch should rise.",
    ),
    ("noam-warmup-fixed", "warmup_steps**-1.5", "4000**-1.5", "Your warm-up is fixed; take the argument."),
    (
        "noam-counted-from-zero",
        "rising = step * warmup_steps**-1.5\n    falling = step**-0.5",
        "rising = (step + 1) * warmup_steps**-1.5\n    falling = (step + 1) ** -0.5",
        "You add 1 to the step. It is counted from 1 already.",
    ),
    ("noam-only-rises", "min(rising, falling)", "rising", "The rate goes on rising; after the warm-up it should fall."),
    ("noam-only-falls", "min(rising, falling)", "falling", "There is no warm-up: the first rate is the largest."),
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
    yield Case("sequences of one token", _loss_inputs(draw, batch, 1, vocabulary=vocabulary))


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
WORDS = "words = targets.masked_fill(~real, 0)  # an index that exists, also where the target is padding"
OF_TARGET = "of_target = -log_probs.gather(-1, words.unsqueeze(-1)).squeeze(-1)"
SQUEEZED = "`squeeze` without an axis removes every axis of length 1, also a sequence's. Name the axis."
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
    (
        "smoothing-target-overwritten",
        LOSSES,
        "(1 - smoothing) * of_target + smoothing * (of_all - of_target / logits.shape[-1])",
        "The right word gets 1 - smoothing alone. Its part of the evenly spread share is missing.",
    ),
    (
        "smoothing-divergence",
        LOSSES,
        "torch.nn.functional.kl_div(\n"
        "        log_probs,\n"
        "        smoothing / logits.shape[-1] + (1 - smoothing) * F.one_hot(words, logits.shape[-1]).to(logits.dtype),\n"
        "        reduction='none',\n"
        "    ).sum(-1)",
        "This is the Kullback-Leibler divergence: the entropy of the smoothed target is taken off. The cross-entropy is asked "
        "for.",
    ),
    ("smoothing-fixed", LOSSES, "0.9 * of_target + 0.1 * of_all", "Your smoothing is fixed; take the argument."),
    ("smoothing-sign", RETURN, "return -losses[real].mean()", "The sign is wrong: a loss is positive."),
    (
        "smoothing-logits",
        LOG_PROBS,
        "logits",
        "The scores are no log-probabilities yet: the softmax is missing.",
    ),
    ("smoothing-squeeze", OF_TARGET, OF_TARGET.replace("squeeze(-1)", "squeeze()"), SQUEEZED),
    (
        "smoothing-log-of-zero",
        LOG_PROBS,
        "torch.log(torch.softmax(logits, dim=-1))",
        "The softmax underflows to zero where scores are far apart, and the logarithm of zero is infinite. "
        "`torch.log_softmax` takes both in one.",
    ),
    (
        "smoothing-log-of-nearly-zero",
        LOG_PROBS,
        "torch.log(torch.softmax(logits, dim=-1) + 1e-9)",
        "A small number is added before the logarithm, so that small probabilities come out wrong. `torch.log_softmax` "
        "needs no such number.",
    ),
    (
        "smoothing-padding-as-index",
        WORDS,
        "words = targets",
        "The number that marks padding is used as an index. Put some word there; such tokens do not count.",
    ),
    (
        "smoothing-padding-fixed",
        "targets != ignore_index",
        "targets != -100",
        "The number that marks padding is fixed; take the argument.",
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
        "smoothing-mean-of-places",
        RETURN,
        "return ((losses * real).sum(0) / real.sum(0)).mean()",
        "This is the mean of the places' means. All tokens of the batch should weigh the same.",
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
label_smoothing_loss.edit(
    "smoothing-squeeze-in-silence",
    SQUEEZED,
    (OF_TARGET, OF_TARGET.replace("squeeze(-1)", "squeeze()")),
    (RETURN, "return (losses * real).sum() / real.sum()"),
)
