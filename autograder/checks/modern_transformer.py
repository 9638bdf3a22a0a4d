"""What right kernels of "The modern Transformer" are."""

import math

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import modern_transformer as reference

PreNormBlock = Check(
    reference.PreNormBlock,
    difficulty="core",
    minutes=20,
    hints=(
        "Write `x + f(norm(x))` twice: first with the attention for f, then with the network.",
        "Queries, keys and values are all made from the normalised tokens. What is added to is not normalised.",
        "The second sub-layer starts from the sum that the first one left, not from the block's input.",
        "Dropout acts on what a sub-layer gave, before the addition, and only while the block is being trained.",
    ),
    reproduces=("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"),
)


def _block_sizes(draw, count):
    """Sizes of a block, and ``count`` more for its tokens; the root of a head's width is exact in every precision."""
    num_heads = int(draw.rng.integers(2, 4))
    others = [int(size) for size in draw.rng.permutation([size for size in range(3, 8) if size != num_heads])]
    return {"d_model": 4 * num_heads, "num_heads": num_heads, "d_ff": 10}, *others[:count]


def _block_inputs(draw, sizes, *leading_and_length, attn_mask=None):
    """Tokens far from mean 0 and variance 1, a mask, and the parameters of a block."""
    d_model, d_ff = sizes["d_model"], sizes["d_ff"]
    return {
        "x": 2 * draw.normal(*leading_and_length, d_model) + 1,
        "attn_mask": attn_mask,
        **draw.block_parameters(d_model, d_ff),
    }


def _causal(length):
    return np.tril(np.ones((length, length), bool))


@PreNormBlock.aspect("norms, attention, network, residuals", points=3)
def _block_values(draw):
    sizes, batch, length = _block_sizes(draw, 2)
    probe = {"sizes": sizes}
    yield Case("a batch", _block_inputs(draw, sizes, batch, length), probe=probe)
    yield Case("as many tokens as texts", _block_inputs(draw, sizes, length, length), probe=probe)
    yield Case("one token", _block_inputs(draw, sizes, batch, 1), probe=probe)
    single = sizes | {"d_model": 4, "num_heads": 1}
    yield Case("a batch of one, a single head", _block_inputs(draw, single, 1, length), probe={"sizes": single})


@PreNormBlock.aspect("masks", points=1)
def _block_masks(draw):
    sizes, batch, length = _block_sizes(draw, 2)
    probe = {"sizes": sizes}
    yield Case("causal", _block_inputs(draw, sizes, batch, length, attn_mask=_causal(length)), probe=probe)
    real = np.arange(length) < np.arange(1, batch + 1)[:, None]
    inputs = _block_inputs(draw, sizes, batch, length, attn_mask=real[:, None])
    yield Case("padding", inputs, probe=probe)
    mask = draw.mask(batch, length, length)
    mask[0, 1] = False
    yield Case("a token that may look at nothing", inputs | {"attn_mask": mask}, probe=probe)


@PreNormBlock.aspect("where and when dropout acts", points=1)
def _block_dropout(draw):
    sizes, batch, length = _block_sizes(draw, 2)
    inputs, sizes = _block_inputs(draw, sizes, batch, length), sizes | {"dropout": 1.0}
    yield Case("training, every sub-layer dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})


# What the sums are made of. Small in single precision, where rounding must stay below the tolerance.
SUMMED = ("x", "self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear2.weight", "linear2.bias")


@PreNormBlock.aspect("gradients, strides, precision", points=1)
def _block_gradients(draw):
    sizes, batch, length = _block_sizes(draw, 2)
    inputs, probe = _block_inputs(draw, sizes, batch, length, attn_mask=_causal(length)), {"sizes": sizes}
    wanted = tuple(name for name in inputs if name != "attn_mask")
    yield Case("gradients for tokens and parameters", inputs, gradient=wanted, probe=probe)
    yield Case("no batch, not contiguous", _block_inputs(draw, sizes, length), strided=True, probe=probe)
    small = {name: inputs[name] / 4 for name in SUMMED}
    yield Case("single precision", inputs | small, dtype="float32", probe=probe)


def _norm(tokens, number):
    return f"layer_norm({tokens}, self.norm{number}.weight, self.norm{number}.bias)"


DROPOUT = "dropout = self.dropout if self.training else 0.0"
NORM_1, NORM_2 = (f"normalised = {_norm('x', number)}" for number in (1, 2))
ATTENTION = "attn_output = self.self_attn(normalised, normalised, normalised, attn_mask)"
ADD_1 = "x = x + F.dropout(attn_output, dropout)"
NETWORK = (
    "hidden = feed_forward(\n            normalised, self.linear1.weight, self.linear1.bias, self.linear2.weight, "
    "self.linear2.bias\n        )"
)
ADD_2 = "return x + F.dropout(hidden, dropout)"
GIVEN = f"given = x\n        {NORM_1}"
for _id, _hint, *_edits in (
    (
        "pre-norm-is-post-norm",
        "This is post-norm, the block of 2017: the sums are normalised. Normalise what a sub-layer reads.",
        (NORM_1, "normalised = x"),
        (ADD_1, f"x = {_norm('x + F.dropout(attn_output, dropout)', 1)}"),
        (NORM_2, "normalised = x"),
        (ADD_2, f"return {_norm('x + F.dropout(hidden, dropout)', 2)}"),
    ),
    (
        "pre-norm-of-the-output",
        "What a sub-layer gives is normalised. Normalise what it reads.",
        (NORM_1, "normalised = x"),
        (ADD_1, f"x = x + {_norm('F.dropout(attn_output, dropout)', 1)}"),
        (NORM_2, "normalised = x"),
        (ADD_2, f"return x + {_norm('F.dropout(hidden, dropout)', 2)}"),
    ),
    (
        "pre-norm-on-the-residual",
        "The normalised tokens are added to as well, so that the residual path has a norm on it. It goes round the norm.",
        (ADD_1, "x = normalised + F.dropout(attn_output, dropout)"),
        (ADD_2, "return normalised + F.dropout(hidden, dropout)"),
    ),
    (
        "pre-norm-first-residual-normalised",
        "The first sum starts from the normalised tokens. It starts from the tokens as they came.",
        (ADD_1, "x = normalised + F.dropout(attn_output, dropout)"),
    ),
    (
        "pre-norm-second-residual-normalised",
        "The second sum starts from the normalised tokens. It starts from what the first one left.",
        (ADD_2, "return normalised + F.dropout(hidden, dropout)"),
    ),
    (
        "pre-norm-not-before-attention",
        "The attention reads tokens that are not normalised.",
        (NORM_1, "normalised = x"),
    ),
    ("pre-norm-not-before-network", "The network reads tokens that are not normalised.", (NORM_2, "normalised = x")),
    (
        "pre-norm-none",
        "There is no norm at all.",
        (NORM_1, "normalised = x"),
        (NORM_2, "normalised = x"),
    ),
    (
        "pre-norm-queries-alone",
        "Only the queries are made from normalised tokens. Keys and values are too.",
        (ATTENTION, "attn_output = self.self_attn(normalised, x, x, attn_mask)"),
    ),
    (
        "pre-norm-values-not",
        "The values are made from tokens that are not normalised.",
        (ATTENTION, "attn_output = self.self_attn(normalised, normalised, x, attn_mask)"),
    ),
    (
        "pre-norm-last-norm-inside",
        "The output is normalised once more. That norm stands behind the last block of a stack, not in each.",
        (ADD_2, f"return {_norm('x + F.dropout(hidden, dropout)', 2)}"),
    ),
    (
        "pre-norm-same-norm-twice",
        "Both sub-layers use the first norm. Each has its own gain and shift.",
        (NORM_2, f"normalised = {_norm('x', 1)}"),
    ),
    (
        "pre-norm-norms-exchanged",
        "The two norms are exchanged: `norm1` belongs to the attention, `norm2` to the network.",
        (NORM_1, "normalised = self.norm2(x)"),
        (NORM_2, "normalised = self.norm1(x)"),
    ),
    (
        "pre-norm-no-gain-and-shift",
        "The norms have no gain and no shift: use the weights and biases of `norm1` and `norm2`.",
        (NORM_1, "normalised = F.layer_norm(x, x.shape[-1:])"),
        (NORM_2, "normalised = F.layer_norm(x, x.shape[-1:])"),
    ),
    (
        "pre-norm-rms",
        "The norms take no mean away, as RMS norm. This block has layer norm.",
        (NORM_1, "normalised = F.rms_norm(x, x.shape[-1:], self.norm1.weight, 1e-5) + self.norm1.bias"),
        (NORM_2, "normalised = F.rms_norm(x, x.shape[-1:], self.norm2.weight, 1e-5) + self.norm2.bias"),
    ),
    (
        "pre-norm-network-reads-the-first-norm",
        "The network reads what the attention read. It reads the sum that the attention left, normalised.",
        (NORM_2, ""),
    ),
    (
        "pre-norm-parallel",
        "The two sub-layers both read the block's input, side by side. (Some models do so.) Here the network comes after the "
        "attention.",
        (NORM_1, GIVEN),
        (NORM_2, f"normalised = {_norm('given', 2)}"),
    ),
    (
        "pre-norm-residual-from-the-input",
        "The second sum starts from the block's input, so that the attention is lost on the way.",
        (NORM_1, GIVEN),
        (ADD_2, ADD_2.replace("x +", "given +")),
    ),
    (
        "pre-norm-no-residual-of-attention",
        "The attention has no residual around it.",
        (ADD_1, "x = F.dropout(attn_output, dropout)"),
    ),
    (
        "pre-norm-no-residual-of-network",
        "The network has no residual around it.",
        (ADD_2, "return F.dropout(hidden, dropout)"),
    ),
    (
        "pre-norm-no-attention",
        "The attention is missing.",
        (ADD_1, ""),
    ),
    (
        "pre-norm-no-network",
        "The network is missing.",
        (ADD_2, "return x"),
    ),
    (
        "pre-norm-gelu",
        "The network has GELU between its layers. This one has the ramp max(0, .).",
        (NETWORK, "hidden = self.linear2(F.gelu(self.linear1(normalised)))"),
    ),
    (
        "pre-norm-mask-not-used",
        "The mask does not reach the attention.",
        (ATTENTION, ATTENTION.replace(", attn_mask", "")),
    ),
    (
        "pre-norm-mask-inverted",
        "The mask is that of PyTorch's modules, in which True is blocked. Here True may be looked at.",
        (ATTENTION, ATTENTION.replace(", attn_mask", ", None if attn_mask is None else ~attn_mask")),
    ),
    (
        "pre-norm-always-causal",
        "A token never sees those after it, whatever the mask says. Without a mask every token looks at all.",
        (
            ATTENTION,
            "past = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()\n        "
            + ATTENTION.replace("attn_mask)", "past if attn_mask is None else past & attn_mask)"),
        ),
    ),
    (
        "pre-norm-mask-as-key-mask",
        "The mask is handed over as one of keys. It is one of queries and keys.",
        (ATTENTION, ATTENTION.replace(", attn_mask", ", key_mask=attn_mask")),
    ),
    (
        "pre-norm-dropout-when-not-training",
        "Something is dropped while the block is not being trained.",
        (DROPOUT, "dropout = self.dropout"),
    ),
    (
        "pre-norm-dropout-forgotten",
        "`self.dropout` is set to 0 where the block is not being trained, and stays 0 when training goes on.",
        (DROPOUT, "self.dropout = self.dropout if self.training else 0.0\n        dropout = self.dropout"),
    ),
    ("pre-norm-no-dropout", "Nothing is dropped in training.", (DROPOUT, "dropout = 0.0")),
    (
        "pre-norm-dropout-on-the-residual",
        "Dropout acts on the sums, and so on the residual path too.",
        (ADD_1, "x = F.dropout(x + attn_output, dropout)"),
        (ADD_2, "return F.dropout(x + hidden, dropout)"),
    ),
    (
        "pre-norm-dropout-of-what-is-read",
        "Dropout acts on what the sub-layers read. It acts on what they give.",
        (NORM_1, f"normalised = F.dropout({_norm('x', 1)}, dropout)"),
        (ADD_1, "x = x + attn_output"),
        (NORM_2, f"normalised = F.dropout({_norm('x', 2)}, dropout)"),
        (ADD_2, "return x + hidden"),
    ),
    (
        "pre-norm-in-place",
        "Your kernel adds to the caller's tokens in place. Make a new tensor.",
        (ADD_1, "x += F.dropout(attn_output, dropout)"),
    ),
):
    PreNormBlock.edit(_id, _hint, *_edits)


rms_norm = Check(
    reference.rms_norm,
    difficulty="warm-up",
    minutes=15,
    hints=(
        "Square, mean, root, divide: each token by itself, over the last axis, which you keep.",
        "eps belongs to the mean of the squares, under the root.",
        "Half precision holds numbers up to 65,504. Which is the largest whose square it holds?",
        "`torch.promote_types` gives single precision for half and leaves double as it is. The result gets x's dtype at the "
        "end.",
    ),
    reproduces=("torch.nn.functional.rms_norm", "torch.rms_norm", "torch.nn.RMSNorm", "torch.ops.aten._fused_rms_norm"),
)


def _norm_inputs(draw, *shape):
    return {"x": 3 * draw.normal(*shape) + 2, "weight": 1 + draw.normal(shape[-1]) / 2}


@rms_norm.aspect("each token by its own root mean square", points=2)
def _rms_values(draw):
    batch, length, width = draw.sizes(3)
    yield Case("a batch", _norm_inputs(draw, batch, length, width))
    yield Case("a batch of one", _norm_inputs(draw, 1, length, width))
    yield Case("one token", _norm_inputs(draw, 1, 1, width))
    yield Case("no batch, as many tokens as components", _norm_inputs(draw, width, width))


@rms_norm.aspect("where the numbers are small or large", points=1)
def _rms_eps(draw):
    batch, length, width = draw.sizes(3)
    inputs = _norm_inputs(draw, batch, length, width)
    yield Case("tokens that are nearly zero", inputs | {"x": 0.001 * inputs["x"]})
    yield Case("another eps", inputs, options={"eps": 0.5})
    yield Case("tokens of zeros", inputs | {"x": 0 * inputs["x"]})
    yield Case("width 1", _norm_inputs(draw, batch, length, 1))
    yield Case("numbers near 1e30, in double precision", inputs | {"x": 1e30 * inputs["x"]})


@rms_norm.aspect("half precision", points=1)
def _rms_half(draw):
    batch, length, width = draw.sizes(3)
    inputs = _norm_inputs(draw, batch, length, width)
    yield Case("numbers near 1", inputs, dtype="float16")
    large = np.where(inputs["x"] < 0, -400, 400) + 100 * inputs["x"]
    yield Case("numbers near 400", inputs | {"x": large}, dtype="float16")
    small = 1e-4 * (2 + draw.rng.random((batch, length, width)))
    yield Case("numbers near 0.0002", inputs | {"x": small}, options={"eps": 1e-8}, dtype="float16")


@rms_norm.aspect("gradients, strides, precision, wrong arguments", points=1)
def _rms_gradients(draw):
    batch, length, width = draw.sizes(3)
    inputs = _norm_inputs(draw, batch, length, width + 4)
    yield Case("the gradients", inputs, gradient=("x", "weight"))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("one gain for all components", inputs | {"weight": np.ones(1)}, refused=True)


PRECISE = "precise = x.to(torch.promote_types(x.dtype, torch.float32))"
MEAN_SQUARE = "mean_square = precise.square().mean(-1, keepdim=True)"
NORMALISED = "normalised = precise * torch.rsqrt(mean_square + eps)"
GAIN = "return (weight * normalised).to(x.dtype)"
for _id, _hint, *_edits in (
    (
        "rms-mean-taken-away",
        "The mean is taken away first, as in layer norm. RMS norm leaves it.",
        (PRECISE, f"{PRECISE}\n    precise = precise - precise.mean(-1, keepdim=True)"),
    ),
    (
        "rms-standard-deviation",
        "You divide by the standard deviation, which takes the mean away. Take the mean of the squares.",
        (MEAN_SQUARE, "mean_square = precise.var(-1, correction=0, keepdim=True)"),
    ),
    (
        "rms-sum-of-squares",
        "You add up the squares; their mean is asked for.",
        (MEAN_SQUARE, MEAN_SQUARE.replace(".mean(", ".sum(")),
    ),
    (
        "rms-of-n-minus-1",
        "The sum of the squares is divided by n - 1. It is a mean: divide by n.",
        (MEAN_SQUARE, "mean_square = precise.square().sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1)"),
    ),
    (
        "rms-no-root",
        "You divide by the mean square; divide by its root.",
        (NORMALISED, "normalised = precise / (mean_square + eps)"),
    ),
    (
        "rms-mean-of-absolute-values",
        "You divide by the mean of the absolute values. The root of the mean of the squares is asked for.",
        (NORMALISED, "normalised = precise / (precise.abs().mean(-1, keepdim=True) + eps)"),
    ),
    (
        "rms-over-tokens",
        "The mean is taken over the tokens; take it over a token's components.",
        (MEAN_SQUARE, MEAN_SQUARE.replace("-1,", "-2,")),
    ),
    (
        "rms-whole-tensor",
        "The mean is of the whole tensor. Each token has its own.",
        (MEAN_SQUARE, "mean_square = precise.square().mean()"),
    ),
    (
        "rms-axis-1",
        "The mean is taken over axis 1. The components are on the last axis, however many there are.",
        (MEAN_SQUARE, MEAN_SQUARE.replace("-1,", "1,")),
    ),
    (
        "rms-axis-dropped",
        "The mean has lost the last axis, so that it does not fit the tokens. Keep it, with `keepdim`.",
        (MEAN_SQUARE, "mean_square = precise.square().mean(-1)"),
    ),
    (
        "rms-eps-outside",
        "eps is added to the root; it belongs under it.",
        (NORMALISED, "normalised = precise / (torch.sqrt(mean_square) + eps)"),
    ),
    ("rms-no-eps", "eps is missing under the root.", (NORMALISED, "normalised = precise * torch.rsqrt(mean_square)")),
    (
        "rms-eps-ignored",
        "Your eps is fixed; take the argument.",
        (NORMALISED, "normalised = precise * torch.rsqrt(mean_square + 1e-6)"),
    ),
    (
        "rms-eps-of-the-machine",
        "The eps is that of the machine, PyTorch's default. Take the argument.",
        (NORMALISED, "normalised = precise * torch.rsqrt(mean_square + torch.finfo(x.dtype).eps)"),
    ),
    ("rms-no-gain", "The gain `weight` is not used.", (GAIN, "return normalised.to(x.dtype)")),
    (
        "rms-gain-plus-1",
        "The gain is 1 + weight, as in Gemma, whose weights start at zero. Here it is the weight itself.",
        (GAIN, GAIN.replace("weight *", "(1 + weight) *")),
    ),
    (
        "rms-gain-first",
        "The gain is applied before the mean is taken. It comes last.",
        (PRECISE, PRECISE.replace("x.to(", "(weight * x).to(")),
        (GAIN, "return normalised.to(x.dtype)"),
    ),
    (
        "rms-result-in-single-precision",
        "Half precision comes back as single. The result has the dtype of `x`.",
        (GAIN, "return weight * normalised"),
    ),
    (
        "rms-always-single",
        "Double precision goes through single, and loses digits and large numbers. Only half precision needs more.",
        (PRECISE, "precise = x.to(torch.float32)"),
    ),
    (
        "rms-detached",
        "No gradient flows through the mean square. It depends on x.",
        (MEAN_SQUARE, f"{MEAN_SQUARE}.detach()"),
    ),
):
    rms_norm.edit(_id, _hint, *_edits)
rms_norm.edit(
    "rms-divides-by-rsqrt",
    "`rsqrt` is one over the root already: multiply by it, or divide by the root.",
    (NORMALISED, "normalised = precise / torch.rsqrt(mean_square + eps)"),
    source="https://github.com/mosaicml/llm-foundry/issues/371",
)
rms_norm.edit(
    "rms-squares-in-half-precision",
    "In half precision the squares are computed before the numbers are made precise: those of large numbers are infinite, "
    "those of small ones zero.",
    (MEAN_SQUARE, "mean_square = x.square().to(precise.dtype).mean(-1, keepdim=True)"),
    source="https://github.com/jingyaogong/minimind/issues/301",
)
rms_norm.edit(
    "rms-all-in-half-precision",
    "In half precision nothing is computed in single: squares of large numbers are infinite, those of small ones zero.",
    (PRECISE, "precise = x"),
    source="https://github.com/pytorch/pytorch/issues/189581",
)
rms_norm.edit(
    "rms-in-place",
    "Your kernel changes the caller's `x`: where no other dtype is needed, `to` and `float` hand out the same tensor.",
    (NORMALISED, "normalised = precise.mul_(torch.rsqrt(mean_square + eps))"),
    source="https://github.com/GeeeekExplorer/nano-vllm/issues/170",
)


swiglu = Check(
    reference.swiglu,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Two linear layers read the token, a third one leads back.",
        "silu acts on what `W_gate` gives, and on nothing else. What `W_up` gives is multiplied by it, entry by entry.",
        "The weights are in the layout (out, in), which `F.linear` reads. `torch.sigmoid` is finite everywhere.",
    ),
)


def _gated_inputs(draw, *shape, d_ff):
    width = shape[-1]
    return {
        "x": 2 * draw.normal(*shape),
        "W_gate": draw.normal(d_ff, width),
        "W_up": draw.normal(d_ff, width),
        "W_down": draw.normal(width, d_ff),
    }


@swiglu.aspect("each token by the same gated network", points=1)
def _swiglu_values(draw):
    batch, length, width, d_ff = draw.sizes(4)
    yield Case("a batch", _gated_inputs(draw, batch, length, width, d_ff=d_ff))
    yield Case("a batch of one", _gated_inputs(draw, 1, length, width, d_ff=d_ff))
    yield Case("one token, no batch", _gated_inputs(draw, 1, width, d_ff=d_ff))
    yield Case("a hidden layer as wide as the tokens", _gated_inputs(draw, batch, length, width, d_ff=width))


@swiglu.aspect("gates far open and far closed", points=1)
def _swiglu_large(draw):
    length, width, d_ff = draw.sizes(3, 4, 9)
    inputs = _gated_inputs(draw, length, width, d_ff=d_ff)
    inputs["x"][:, 0] = np.where(np.arange(length) % 2, 1.0, -1.0)
    inputs["W_gate"][:, 0] = 1000.0
    yield Case("gates near 1,000 and -1,000, with gradients", inputs, gradient=tuple(inputs))


@swiglu.aspect("gradients, strides, precision, wrong arguments", points=1)
def _swiglu_gradients(draw):
    batch, length, width, d_ff = draw.sizes(4)
    inputs = _gated_inputs(draw, batch, length, width, d_ff=d_ff)
    yield Case("the gradients", inputs, gradient=tuple(inputs))
    yield Case("tensors that are not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("weights turned round", inputs | {"W_down": inputs["W_down"].T}, refused=True)


LAYERS = "gate, up = F.linear(x, W_gate), F.linear(x, W_up)"
HIDDEN = "hidden = gate * torch.sigmoid(gate) * up"
DOWN = "return F.linear(hidden, W_down)"
for _id, _hint, *_edits in (
    (
        "swiglu-gates-exchanged",
        "silu acts on what `W_up` gives. It acts on the gates, which `W_gate` gives.",
        (HIDDEN, "hidden = up * torch.sigmoid(up) * gate"),
    ),
    (
        "swiglu-both-gated",
        "silu acts on both factors. It acts on the gates alone.",
        (HIDDEN, "hidden = F.silu(gate) * F.silu(up)"),
    ),
    (
        "swiglu-glu",
        "The gates open by the logistic function alone: this is GLU. silu is its product with the gate itself.",
        (HIDDEN, "hidden = torch.sigmoid(gate) * up"),
    ),
    ("swiglu-reglu", "The gates open by the ramp: this is ReGLU.", (HIDDEN, "hidden = torch.relu(gate) * up")),
    ("swiglu-geglu", "The gates open by GELU: this is GEGLU.", (HIDDEN, "hidden = F.gelu(gate) * up")),
    ("swiglu-bilinear", "The gates have no function: silu is missing.", (HIDDEN, "hidden = gate * up")),
    (
        "swiglu-sum",
        "The two layers are added. One multiplies the other.",
        (HIDDEN, "hidden = gate * torch.sigmoid(gate) + up"),
    ),
    (
        "swiglu-up-without-weights",
        "The gates multiply each other's silu: what `W_up` gives is not used.",
        (HIDDEN, "hidden = gate * torch.sigmoid(gate) * gate"),
    ),
    (
        "swiglu-no-way-back",
        "The last layer is missing: the output is as wide as the token.",
        (DOWN, "return hidden"),
    ),
    ("swiglu-residual", "The residual is no part of this kernel.", (DOWN, "return x + F.linear(hidden, W_down)")),
    (
        "swiglu-weights-turned-round",
        "The weights are in the layout (out, in): a product with them needs the transpose. `F.linear` knows.",
        (LAYERS, "gate, up = x @ W_gate, x @ W_up"),
        (DOWN, "return hidden @ W_down"),
    ),
    (
        "swiglu-overflow",
        "The exponential overflows where a gate is far open: infinity over infinity. `torch.sigmoid` does not.",
        (HIDDEN, "hidden = gate * gate.exp() / (1 + gate.exp()) * up"),
    ),
    (
        "swiglu-gradient-overflow",
        "The exponential overflows where a gate is far closed. The value survives, but not the gradient: it is NaN.",
        (HIDDEN, "hidden = gate / (1 + torch.exp(-gate)) * up"),
    ),
    (
        "swiglu-gate-detached",
        "No gradient flows through the logistic function.",
        (HIDDEN, "hidden = gate * torch.sigmoid(gate).detach() * up"),
    ),
):
    swiglu.edit(_id, _hint, *_edits)
swiglu.edit(
    "swiglu-silu-of-the-product",
    "silu acts on the product of the two layers. It acts on the gates, before the product.",
    (HIDDEN, "hidden = F.silu(gate * up)"),
    source="https://github.com/Nijikadesu/breakdown-minimind/issues/3",
)
swiglu.edit(
    "swiglu-no-gate",
    "There is no gate: what `W_up` gives is not used.",
    (HIDDEN, "hidden = gate * torch.sigmoid(gate)"),
    source="https://github.com/google-research/timesfm/issues/493",
)


rotary_embedding = Check(
    reference.rotary_embedding,
    difficulty="core",
    minutes=30,
    hints=(
        "One angle for each token and pair: position times the pair's speed. There are d_head / 2 speeds, from 1 downwards.",
        "First cut x into the first components of all pairs and the second ones: every other column, or the two halves.",
        "Turn: `a * cos - b * sin` and `a * sin + b * cos`. Then put the components back where they came from.",
        "For interleaved pairs, `torch.stack` on a new last axis and `flatten` put them side by side; for halves, `torch.cat`.",
        "Make the angles in float64 and give cosine and sine the dtype of `x`.",
    ),
)

LAYOUTS = ("interleaved", "halves")


def _width(draw):
    """A width with at least three pairs, and not as many pairs as tokens."""
    return 2 * int(draw.rng.integers(3, 6))


def _vectors(draw, *shape, start=0):
    return {"x": 2 * draw.normal(*shape), "positions": start + np.arange(shape[-2])}


@rotary_embedding.aspect("each pair by its own angle", points=2)
def _rotary_values(draw):
    width, (batch, heads, length) = _width(draw), draw.sizes(3, 2, 8)
    length += 4
    yield Case("queries of all heads", _vectors(draw, batch, heads, length, width))
    yield Case("queries of one head", _vectors(draw, length, width))
    yield Case("as many heads as tokens", _vectors(draw, batch, length, length, width))
    yield Case("as many tokens as components", _vectors(draw, 1, width, width))
    yield Case("width 2", _vectors(draw, length, 2))


@rotary_embedding.aspect("the other layout", points=1)
def _rotary_halves(draw):
    width, (batch, heads, length) = _width(draw), draw.sizes(3, 2, 8)
    length += 4
    options = {"layout": "halves"}
    yield Case("halves, all heads", _vectors(draw, batch, heads, length, width), options)
    yield Case("halves, one head", _vectors(draw, length, width), options)


@rotary_embedding.aspect("any positions, any base", points=1)
def _rotary_positions(draw):
    width, (heads, length) = _width(draw), draw.sizes(2, 3, 8)
    for layout in LAYOUTS:
        inputs, options = _vectors(draw, heads, length, width, start=7), {"layout": layout}
        yield Case(f"behind a cache of 7 tokens, {layout}", inputs, options, repeated=True)
    yield Case("one new token", _vectors(draw, heads, 1, width, start=12))
    yield Case("base 500", _vectors(draw, heads, length, width), {"base": 500.0})
    steps = 2 + 3 * np.arange(length)
    yield Case("positions that leave some out", _vectors(draw, heads, length, width) | {"positions": steps})
    inputs = _vectors(draw, heads, length, 10, start=10_000_000)
    yield Case("a very long text, in single precision", inputs, dtype="float32")


@rotary_embedding.aspect("scores that depend on distances alone", points=1)
def _rotary_scores(draw):
    width, (queries, keys) = _width(draw), draw.sizes(2, 3, 8)
    for layout in LAYOUTS:
        inputs = {
            "query": draw.normal(queries, width),
            "key": draw.normal(keys, width),
            "query_positions": 3 + np.arange(queries),
            "key_positions": np.arange(keys),
        }
        yield Case(f"scores, also 100 places further on, {layout}", inputs, {"layout": layout}, probe={"shift": 100})


@rotary_embedding.aspect("gradients, strides, precision, wrong arguments", points=1)
def _rotary_gradients(draw):
    width, (heads, length) = _width(draw), draw.sizes(2, 3, 8)
    inputs = _vectors(draw, heads, length, width)
    for layout in LAYOUTS:
        yield Case(f"the gradient, {layout}", inputs, {"layout": layout}, gradient=("x",))
    yield Case("a tensor that is not contiguous", inputs, {"layout": "halves"}, strided=True)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("an odd width", _vectors(draw, length, width - 1), refused=True)
    yield Case("too few positions", inputs | {"positions": inputs["positions"][1:]}, refused=True)
    yield Case("a layout that does not exist", inputs, {"layout": "half"}, refused=True)


FREQUENCIES = "frequencies = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])"
ANGLES = "angles = positions[:, None] * frequencies  # (token, pair)"
TABLES = "cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)"
PAIRS = 'a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, dim=-1)'
ROTATED = "rotated = a * cos - b * sin, a * sin + b * cos"
BACK = 'if layout == "interleaved":\n        return torch.stack(rotated, dim=-1).flatten(-2)\n    return torch.cat(rotated, dim=-1)'
for _id, _hint, *_edits in (
    (
        "rotary-the-other-way",
        "The pairs turn the other way: the signs of the sines are exchanged.",
        (ROTATED, "rotated = a * cos + b * sin, b * cos - a * sin"),
    ),
    (
        "rotary-no-minus",
        "This is no rotation: one of the sines has a minus before it.",
        (ROTATED, "rotated = a * cos + b * sin, a * sin + b * cos"),
    ),
    (
        "rotary-sine-and-cosine-exchanged",
        "Sine and cosine are exchanged. At position 0 nothing turns: the cosine is 1.",
        (ROTATED, "rotated = a * sin - b * cos, a * cos + b * sin"),
    ),
    (
        "rotary-added",
        "Sines and cosines are added, as the positions of 2017 are. Here they turn the vector.",
        (ROTATED, "rotated = a + sin, b + cos"),
    ),
    (
        "rotary-cosine-alone",
        "Each component is multiplied by its cosine alone. A turn mixes the two of a pair.",
        (ROTATED, "rotated = a * cos, b * cos"),
    ),
    (
        "rotary-half-the-exponent",
        "The pairs slow down too little: the exponent is 2 i / d_head, and yours is i / d_head.",
        (FREQUENCIES, FREQUENCIES.replace("torch.arange(0, x.shape[-1], 2,", "torch.arange(x.shape[-1] // 2,")),
    ),
    (
        "rotary-twice-the-exponent",
        "The pairs slow down too much: the exponent is 2 i / d_head, and yours is 4 i / d_head.",
        (FREQUENCIES, FREQUENCIES.replace("(-torch", "(-2 * torch")),
    ),
    (
        "rotary-exponent-positive",
        "The pairs turn faster and faster. The exponent is negative.",
        (FREQUENCIES, FREQUENCIES.replace("(-torch", "(torch")),
    ),
    (
        "rotary-one-speed",
        "All pairs turn at one speed. Each has its own.",
        (FREQUENCIES, "frequencies = torch.ones(x.shape[-1] // 2, dtype=torch.float64)"),
    ),
    (
        "rotary-base-fixed",
        "Your base is fixed; take the argument.",
        (FREQUENCIES, FREQUENCIES.replace("base **", "10000 **")),
    ),
    (
        "rotary-speeds-turned-round",
        "The last pair is the fastest. The first one is.",
        (FREQUENCIES, f"{FREQUENCIES}.flip(0)"),
    ),
    (
        "rotary-counted-from-1",
        "Positions are counted from one more than they are. At position 0 nothing turns.",
        (ANGLES, ANGLES.replace("positions[:, None]", "(positions[:, None] + 1)")),
    ),
    (
        "rotary-twice",
        "Each vector is turned twice, by double the angle.",
        (ANGLES, ANGLES.replace("positions[:, None]", "2 * positions[:, None]")),
    ),
    (
        "rotary-from-the-first-token",
        "Positions are counted from the first token given. Only differences to it are left.",
        (ANGLES, ANGLES.replace("positions[:, None]", "(positions - positions[0])[:, None]")),
    ),
    (
        "rotary-angles-in-single",
        "The angles are computed in single precision, which makes them wrong in a long text.",
        (ANGLES, "angles = positions[:, None].float() * frequencies.float()"),
    ),
    (
        "rotary-angles-in-the-dtype-of-x",
        "The angles are computed in the dtype of `x`. Single precision is too little for a long text.",
        (ANGLES, "angles = positions[:, None].to(x.dtype) * frequencies.to(x.dtype)"),
    ),
    (
        "rotary-heads-for-tokens",
        "The angles are laid along the axis of the heads. The tokens are on the last axis but one.",
        (TABLES, f"{TABLES}\n    cos, sin = cos[:, None], sin[:, None]"),
    ),
    (
        "rotary-always-interleaved",
        "Pairs are always neighbours. The argument `layout` says which components are a pair.",
        (PAIRS, "a, b = x[..., 0::2], x[..., 1::2]"),
        (BACK, "return torch.stack(rotated, dim=-1).flatten(-2)"),
    ),
    (
        "rotary-always-halves",
        "Pairs always lie half a width apart. The argument `layout` says which components are a pair.",
        (PAIRS, "a, b = x.chunk(2, dim=-1)"),
        (BACK, "return torch.cat(rotated, dim=-1)"),
    ),
    (
        "rotary-layouts-exchanged",
        "The two layouts are exchanged.",
        (PAIRS, PAIRS.replace("==", "!=")),
        (BACK, BACK.replace("==", "!=")),
    ),
    (
        "rotary-not-put-back",
        "Interleaved pairs come back as halves. Put each component back where it came from.",
        (BACK, "return torch.cat(rotated, dim=-1)"),
    ),
    (
        "rotary-returns-in-single-precision",
        "The dtype of `x` is lost: single precision goes in and double comes out.",
        (TABLES, "cos, sin = angles.cos(), angles.sin()"),
    ),
    (
        "rotary-in-place",
        "Your kernel writes into the caller's `x`. Make a new tensor.",
        (
            BACK,
            "rotated = torch.stack(rotated, dim=-1).flatten(-2) if layout == 'interleaved' else torch.cat(rotated, dim=-1)\n"
            "    return x.copy_(rotated)",
        ),
    ),
    (
        "rotary-detached",
        "No gradient flows back to `x`.",
        (PAIRS, PAIRS.replace("x.chunk", "x.detach().chunk").replace("x[...", "x.detach()[...")),
    ),
    (
        "rotary-angles-squared",
        "Positions are multiplied by themselves: the angle grows with the square. Multiply them by the pair's speed.",
        (ANGLES, "angles = positions[:, None] ** 2 * frequencies"),
    ),
):
    rotary_embedding.edit(_id, _hint, *_edits)
ROTATED_WITH_TABLE = (
    "swapped = torch.stack((-b, a), dim=-1).flatten(-2) if layout == 'interleaved' else torch.cat((-b, a), dim=-1)\n"
    "    {tables}\n"
    "    return x * cos + swapped * sin"
)
rotary_embedding.edit(
    "rotary-pairing-mixed",
    "The table of angles has another layout than the pairs: for neighbours each angle is repeated in its place, for halves "
    "the whole row is.",
    (
        ROTATED,
        ROTATED_WITH_TABLE.format(
            tables="cos, sin = ((table.repeat(1, 2) if layout == 'interleaved' else table.repeat_interleave(2, dim=1)) "
            "for table in (cos, sin))"
        ),
    ),
    source="https://github.com/raiyanyahya/how-to-train-your-gpt/issues/6",
)
rotary_embedding.edit(
    "rotary-halves-with-interleaved-table",
    "The halves are turned with a table in which each angle stands twice side by side. For halves the whole row stands twice.",
    (
        ROTATED,
        ROTATED_WITH_TABLE.format(tables="cos, sin = (table.repeat_interleave(2, dim=1) for table in (cos, sin))"),
    ),
    source="https://github.com/raiyanyahya/how-to-train-your-gpt/pull/7",
)
rotary_embedding.edit(
    "rotary-neighbours-with-table-of-halves",
    "Neighbours are turned with a table in which the whole row of angles stands twice. For them each angle stands twice side "
    "by side.",
    (ROTATED, ROTATED_WITH_TABLE.format(tables="cos, sin = (table.repeat(1, 2) for table in (cos, sin))")),
    source="https://github.com/raiyanyahya/how-to-train-your-gpt/pull/7",
)
rotary_embedding.edit(
    "rotary-speeds-reused",
    "The second half of the pairs has the speeds of the first half. Each pair has its own.",
    (
        FREQUENCIES,
        f"{FREQUENCIES}\n    frequencies = frequencies[torch.arange(len(frequencies)) % -(-len(frequencies) // 2)]",
    ),
    source="https://github.com/Tencent/ncnn/issues/6833",
)
rotary_embedding.edit(
    "rotary-not-turned",
    "Nothing is turned.",
    (ROTATED, "rotated = a, b"),
    source="duoan/TorchCode @8a49ba1, whose tests accept it",
)
rotary_embedding.edit(
    "rotary-base-10",
    "The base is 10. Take the argument.",
    (FREQUENCIES, FREQUENCIES.replace("base **", "10.0 **")),
    source="duoan/TorchCode @8a49ba1, whose tests accept it",
)
rotary_embedding.edit(
    "rotary-positions-ignored",
    "Positions are counted from 0, whatever was given. Behind a cache they go on where it ends.",
    (ANGLES, ANGLES.replace("positions[:, None]", "torch.arange(x.shape[-2])[:, None]")),
    source="https://github.com/lucidrains/rotary-embedding-torch/issues/11",
)


grouped_query_attention = Check(
    reference.grouped_query_attention,
    difficulty="core",
    minutes=15,
    hints=(
        "How many heads of queries share one head of keys?",
        "With six heads of queries and two of keys, heads 0, 1 and 2 share the first and heads 3, 4 and 5 the second.",
        "Repeat each head of keys and values, in its place, as often as it is shared; or give the queries one axis more, for "
        "the heads that share. The heads are on the last axis but two.",
        "What is left is `scaled_dot_product_attention`.",
    ),
    reproduces=(
        "torch.nn.functional.scaled_dot_product_attention",
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.MultiheadAttention",
    ),
)


def _grouped(draw, *leading, kv_heads, group, lengths, widths):
    (queries, keys), (d_k, d_v) = lengths, widths
    return {
        "query": 1.5 * draw.normal(*leading, kv_heads * group, queries, d_k),
        "key": draw.normal(*leading, kv_heads, keys, d_k),
        "value": draw.normal(*leading, kv_heads, keys, d_v),
    }


def _grouped_sizes(draw):
    """Two or three heads of keys for groups of another size, and lengths that are none of these, all different."""
    kv_heads = int(draw.rng.integers(2, 4))
    lengths = tuple(int(length) for length in draw.rng.choice([4, 5, 7], 2, replace=False))
    return {"kv_heads": kv_heads, "group": 5 - kv_heads, "lengths": lengths, "widths": (4, 8)}


@grouped_query_attention.aspect("heads that share keys and values", points=2)
def _grouped_values(draw):
    sizes = _grouped_sizes(draw)
    yield Case("a batch", _grouped(draw, 4, **sizes))
    yield Case("no batch", _grouped(draw, **sizes))
    yield Case("as many groups as heads in each", _grouped(draw, 1, **sizes | {"kv_heads": 2, "group": 2}))
    yield Case("one head of keys for all", _grouped(draw, 5, **sizes | {"kv_heads": 1, "group": 3}))
    yield Case("as many heads of keys as of queries", _grouped(draw, 5, **sizes | {"kv_heads": 3, "group": 1}))
    yield Case("two batch axes, one query", _grouped(draw, 2, 3, **sizes | {"lengths": (1, 6)}))


@grouped_query_attention.aspect("masks", points=1)
def _grouped_masks(draw):
    sizes = _grouped_sizes(draw)
    queries, keys = sizes["lengths"]
    inputs = _grouped(draw, 4, **sizes)
    yield Case("one mask for all", inputs | {"attn_mask": draw.mask(queries, keys)})
    yield Case("a mask for each head", inputs | {"attn_mask": draw.mask(4, 6, queries, keys)})
    real = np.arange(keys) < np.arange(1, 5)[:, None]
    yield Case("padding", inputs | {"attn_mask": real[:, None, None]})
    mask = draw.mask(queries, keys)
    mask[1] = False
    yield Case("a query that may attend to nothing", inputs | {"attn_mask": mask})


@grouped_query_attention.aspect("gradients, large scores, precision, wrong arguments", points=1)
def _grouped_gradients(draw):
    sizes = _grouped_sizes(draw)
    queries, keys = sizes["lengths"]
    inputs = _grouped(draw, 2, **sizes) | {"attn_mask": draw.mask(queries, keys)}
    yield Case("the gradients", inputs, gradient=("query", "key", "value"))
    yield Case("scores near 1,000", inputs | {"query": 500 * inputs["query"]})
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    five = draw.normal(2, 5, queries, 4)
    yield Case("five heads that share two or three", inputs | {"query": five}, refused=True)


GROUP = "group = query.shape[-3] // key.shape[-3]"
REPEATED = "key, value = (shared.repeat_interleave(group, dim=-3) for shared in (key, value))"
ATTENDED = "return scaled_dot_product_attention(query, key, value, attn_mask)"
TILED = "torch.cat([{name}] * group, dim=-3)"
for _id, _hint, *_edits in (
    (
        "grouped-keys-tiled-alone",
        "The keys stand in another order than the values: the row of their heads is repeated as a whole.",
        (REPEATED, f"key, value = {TILED.format(name='key')}, value.repeat_interleave(group, dim=-3)"),
    ),
    (
        "grouped-values-tiled-alone",
        "The values stand in another order than the keys: the row of their heads is repeated as a whole.",
        (REPEATED, f"key, value = key.repeat_interleave(group, dim=-3), {TILED.format(name='value')}"),
    ),
    (
        "grouped-first-head-for-all",
        "All heads use the first head of keys and values, as with a single one. Each group has its own.",
        (REPEATED, "key, value = key[..., :1, :, :], value[..., :1, :, :]"),
    ),
    (
        "grouped-mean-of-keys",
        "The heads of keys and values are averaged. That is how a trained model is converted; each group has its own.",
        (REPEATED, "key, value = key.mean(-3, keepdim=True), value.mean(-3, keepdim=True)"),
    ),
    (
        "grouped-mean-of-queries",
        "The queries of a group are averaged. Each head asks for itself; what is shared is keys and values.",
        (REPEATED, "query = query.unflatten(-3, (-1, group)).mean(-3)"),
    ),
    (
        "grouped-outputs-summed",
        "The outputs of a group are added up. Each head has its own.",
        (ATTENDED, ATTENDED.replace("return ", "output = ") + "\n    return output.unflatten(-3, (-1, group)).sum(-3)"),
    ),
    (
        "grouped-not-repeated",
        "Nothing is shared: the heads of keys are fewer than those of queries, and do not broadcast.",
        (REPEATED, ""),
    ),
    (
        "grouped-tokens-repeated",
        "Keys and values are repeated along the tokens. Repeat them along the heads, the last axis but two.",
        (REPEATED, REPEATED.replace("dim=-3", "dim=-2")),
    ),
    (
        "grouped-axis-1",
        "The heads are looked for on axis 1. They are on the last axis but two, however many there are.",
        (REPEATED, REPEATED.replace("dim=-3", "dim=1")),
    ),
    (
        "grouped-by-number-of-groups",
        "Each head of keys is repeated as often as there are heads of keys. Repeat it as often as it is shared.",
        (GROUP, "group = key.shape[-3]"),
    ),
    (
        "grouped-order-turned-round",
        "The groups take the heads of keys in the opposite order.",
        (REPEATED, REPEATED.replace("shared.repeat", "shared.flip(-3).repeat")),
    ),
    (
        "grouped-cyclic-shift",
        "The groups are shifted: the first and the last head share one head of keys. Neighbours from the first one on do.",
        (REPEATED, f"{REPEATED}\n    key, value = key.roll(1, dims=-3), value.roll(1, dims=-3)"),
    ),
    (
        "grouped-mask-not-used",
        "The mask is not used.",
        (ATTENDED, ATTENDED.replace(", attn_mask", "")),
    ),
    (
        "grouped-mask-inverted",
        "The mask is that of PyTorch's modules, in which True is blocked. Here True may be attended to.",
        (ATTENDED, ATTENDED.replace("attn_mask)", "None if attn_mask is None else ~attn_mask)")),
    ),
    (
        "grouped-mask-of-the-first-head",
        "The mask of the first head is used for all. Each head may have its own.",
        (
            ATTENDED,
            "if attn_mask is not None and attn_mask.dim() > 2:\n        attn_mask = attn_mask[..., :1, :, :]\n    "
            + ATTENDED,
        ),
    ),
    (
        "grouped-nan",
        "A query that may attend to nothing gets NaN, the softmax of nothing but minus infinity. It should get zeros.",
        (
            ATTENDED,
            "scores = query @ key.mT / math.sqrt(query.shape[-1])\n"
            "    if attn_mask is not None:\n"
            "        scores = scores.masked_fill(~attn_mask, -math.inf)\n"
            "    return torch.softmax(scores, dim=-1) @ value",
        ),
    ),
    (
        "grouped-mean-of-nothing",
        "A query that may attend to nothing gets the mean of all values. It should get zeros.",
        (
            ATTENDED,
            "scores = query @ key.mT / math.sqrt(query.shape[-1])\n"
            "    if attn_mask is not None:\n"
            "        scores = scores.masked_fill(~attn_mask, -1e9)\n"
            "    return torch.softmax(scores, dim=-1) @ value",
        ),
    ),
    (
        "grouped-not-scaled",
        "The scores are not divided by the root of the keys' width.",
        (ATTENDED, ATTENDED.replace("(query,", "(query * math.sqrt(query.shape[-1]),")),
    ),
    (
        "grouped-scaled-by-all-heads",
        "The scores are divided by the root of the width of all heads. Take one head's width.",
        (ATTENDED, ATTENDED.replace("(query,", "(query / math.sqrt(query.shape[-3]),")),
    ),
    (
        "grouped-overflow",
        "The exponentials overflow where scores are large. `torch.softmax` is stable.",
        (
            ATTENDED,
            "weights = torch.exp(query @ key.mT / math.sqrt(query.shape[-1]))\n"
            "    weights = weights if attn_mask is None else weights * attn_mask\n"
            "    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30) @ value",
        ),
    ),
    (
        "grouped-detached",
        "No gradient reaches keys and values.",
        (REPEATED, REPEATED.replace("shared.repeat", "shared.detach().repeat")),
    ),
):
    grouped_query_attention.edit(_id, _hint, *_edits)
grouped_query_attention.edit(
    "grouped-tiled",
    "The row of the heads of keys is repeated as a whole, so that head 1 gets the second head of keys. Neighbours share: "
    "repeat each head in its place.",
    (REPEATED, f"key, value = {TILED.format(name='key')}, {TILED.format(name='value')}"),
    source="https://github.com/onnx/onnx/pull/7274",
)


moe_route = Check(
    reference.moe_route,
    difficulty="stretch",
    minutes=40,
    hints=(
        "Softmax over all experts, then look up the probabilities of the k experts with the largest logits.",
        "Make a queue: the first choices of all tokens one after the other, then the second choices. Which place in its "
        "expert's own queue has each entry?",
        "With one row of zeros and a single one for each entry of the queue, `cumsum` along the queue counts for all experts "
        "at once.",
        "For the loss: one number for each expert from the choices, one from the probabilities; multiply, sum, and multiply "
        "by the number of experts. Room plays no part in it.",
    ),
)


def _router_logits(draw, order, steeper=0.0):
    """Logits whose order in each row is the one given, best first, with gaps that no rounding bridges.

    Those of a later token are ``steeper`` times as far apart for each token before it.
    """
    order = np.asarray(order)
    tokens, experts = order.shape
    levels = 1.4 - 0.7 * np.arange(experts) + draw.rng.uniform(-0.15, 0.15, (tokens, experts))
    levels *= 1 + steeper * np.arange(tokens)[:, None]
    logits = np.empty((tokens, experts))
    np.put_along_axis(logits, order, levels, -1)
    return logits


def _orders(draw, tokens, experts):
    """For each token an order of the experts, drawn."""
    return draw.rng.permuted(np.tile(np.arange(experts), (tokens, 1)), axis=1)


def _completed(draw, choices, experts):
    """Orders that begin with the choices given, the experts named anew."""
    rest = [[expert for expert in range(experts) if expert not in row] for row in choices]
    names = draw.rng.permutation(experts)
    return names[np.array([[*row, *others] for row, others in zip(choices, rest, strict=True)])]


def _routed(title, logits, k, capacity, *compared, **settings):
    return Case(title, {"logits": logits, "k": k, "capacity": capacity}, probe={"compared": list(compared)}, **settings)


@moe_route.aspect("the best experts and their gates", points=2)
def _route_values(draw):
    tokens, experts = (*draw.sizes(1, 6, 9), *draw.sizes(1, 4, 5))
    compared = ("gates", "experts")
    for k in (2, 1, experts):
        yield _routed(
            f"{k} of {experts} experts", _router_logits(draw, _orders(draw, tokens, experts)), k, tokens, *compared
        )
    square = _router_logits(draw, _orders(draw, experts, experts))
    yield _routed("as many tokens as experts", square, 2, experts, *compared)
    yield _routed("one token", _router_logits(draw, _orders(draw, 1, experts)), 3, 1, *compared)


# The two best experts of each of eight tokens, so that shares of the choices are exact in every precision. Expert 0 is
# the first choice of tokens 1, 2 and 5 and the second choice of tokens 0 and 3: with room for two it matters who comes
# first.
TWO_CHOICES = ((1, 0), (0, 2), (0, 1), (2, 0), (3, 1), (0, 3), (1, 2), (2, 3))
ONE_CHOICE = ((2,), (0,), (1,), (0,), (0,), (2,), (0,), (0,))


@moe_route.aspect("who finds room", points=2)
def _route_room(draw):
    compared = ("kept", "gates")
    logits = _router_logits(draw, _completed(draw, ONE_CHOICE, 4), steeper=0.1)
    yield _routed("one choice, room for two", logits, 1, 2, *compared)
    logits = _router_logits(draw, _completed(draw, TWO_CHOICES, 4), steeper=0.1)
    yield _routed("two choices, room for two", logits, 2, 2, *compared)
    yield _routed("two choices, room for one", logits, 2, 1, *compared)
    yield _routed("room for all", logits, 2, 8, *compared)
    tokens, experts = draw.sizes(2, 5, 12)
    yield _routed("three choices", _router_logits(draw, _orders(draw, tokens, experts)), 3, 2, *compared)


@moe_route.aspect("the load-balancing loss", points=2)
def _route_loss(draw):
    logits = _router_logits(draw, _completed(draw, ONE_CHOICE, 4), steeper=0.1)
    yield _routed("one choice", logits, 1, 8, "loss")
    yield _routed("one choice, no room for many", logits, 1, 1, "loss", gradient=("logits",))
    logits = _router_logits(draw, _completed(draw, TWO_CHOICES, 4), steeper=0.1)
    yield _routed("two choices", logits, 2, 2, "loss", gradient=("logits",))


ALL_RESULTS = ("gates", "experts", "kept", "loss")


@moe_route.aspect("gradients, large scores, precision, wrong arguments", points=1)
def _route_other(draw):
    logits = _router_logits(draw, _completed(draw, TWO_CHOICES, 4), steeper=0.1)
    yield _routed("the gradient", logits, 2, 2, *ALL_RESULTS, gradient=("logits",))
    yield _routed("scores near 1,000", 1000 + logits, 2, 2, *ALL_RESULTS)
    yield _routed("single precision, not contiguous", logits, 2, 2, *ALL_RESULTS, dtype="float32", strided=True)
    for title, k, capacity in (("no choice", 0, 2), ("more choices than experts", 5, 2), ("no room", 2, 0)):
        yield _routed(title, logits, k, capacity, *ALL_RESULTS, refused=True)


PROBS = "probs = torch.softmax(logits, dim=-1)"
EXPERTS = "experts = logits.topk(k, dim=-1).indices  # best first"
CHOSEN = "chosen = F.one_hot(experts, logits.shape[1])  # (token, k, expert)"
IN_ORDER = "in_order = chosen.transpose(0, 1).flatten(0, 1)  # all first choices, then all second ones"
PLACES = "places = (in_order.cumsum(0) * in_order).sum(-1)  # in the expert's own queue, counted from 1"
KEPT = "kept = (places <= capacity).view(k, -1).T"
GATES = "gates = probs.gather(-1, experts) * kept"
LOSS = "loss = logits.shape[1] * (chosen.to(probs.dtype).mean((0, 1)) * probs.mean(0)).sum()"
BY_TOKEN = ((IN_ORDER, "in_order = chosen.flatten(0, 1)"), (KEPT, "kept = (places <= capacity).view(-1, k)"))
for _id, _hint, *_edits in (
    (
        "route-gates-sum-to-one",
        "The gates are divided by their sum, or come from a softmax over the chosen experts alone, so that they sum to one. "
        "Here each is a probability among all experts.",
        (GATES, "gates = torch.softmax(logits.gather(-1, experts), dim=-1) * kept"),
    ),
    (
        "route-gates-are-logits",
        "The gates are scores. They are probabilities: the softmax is missing.",
        (GATES, "gates = logits.gather(-1, experts) * kept"),
    ),
    (
        "route-gates-logistic",
        "Each gate is the logistic function of its score. It is a probability among all experts.",
        (GATES, "gates = torch.sigmoid(logits.gather(-1, experts)) * kept"),
    ),
    (
        "route-softmax-over-tokens",
        "The probabilities sum to one over the tokens. They should over the experts.",
        (PROBS, "probs = torch.softmax(logits, dim=0)"),
    ),
    (
        "route-overflow",
        "The exponentials overflow for large scores. `torch.softmax` is stable.",
        (PROBS, "probs = logits.exp() / logits.exp().sum(-1, keepdim=True)"),
    ),
    (
        "route-worst-experts",
        "The experts with the smallest scores are chosen.",
        (EXPERTS, "experts = logits.topk(k, dim=-1, largest=False).indices"),
    ),
    (
        "route-best-last",
        "The chosen experts come in the wrong order. The best comes first.",
        (EXPERTS, "experts = logits.argsort(dim=-1)[:, -k:]"),
    ),
    (
        "route-experts-by-number",
        "The chosen experts come in the order of their numbers. The best comes first.",
        (EXPERTS, "experts = logits.topk(k, dim=-1).indices.sort(dim=-1).values"),
    ),
    (
        "route-first-choice-alone",
        "Only the best expert is chosen. There are k of them.",
        (EXPERTS, "experts = logits.argmax(-1, keepdim=True).expand(-1, k)"),
    ),
    (
        "route-no-capacity",
        "All tokens are kept, however many want one expert.",
        (KEPT, "kept = torch.ones_like(experts, dtype=torch.bool)"),
    ),
    (
        "route-one-too-few",
        "Each expert takes one token fewer than it has room for.",
        (KEPT, KEPT.replace("<=", "<")),
    ),
    (
        "route-one-too-many",
        "Each expert takes one token more than it has room for.",
        (KEPT, KEPT.replace("<= capacity", "<= capacity + 1")),
    ),
    (
        "route-token-by-token",
        "Room is given token by token, so that a second choice of an early token goes before a first choice of a later one. "
        "All first choices come first.",
        *BY_TOKEN,
    ),
    (
        "route-room-for-each-choice",
        "First and second choices are counted apart, so that an expert may take its capacity twice.",
        (PLACES, "places = ((chosen.cumsum(0) * chosen).sum(-1)).T.flatten()"),
    ),
    (
        "route-room-together",
        "The experts share one queue. Each has its own.",
        (PLACES, "places = torch.arange(len(in_order)) + 1"),
    ),
    (
        "route-last-come",
        "The last tokens that want an expert are kept. The first ones are.",
        (PLACES, "places = (in_order.flip(0).cumsum(0).flip(0) * in_order).sum(-1)"),
    ),
    (
        "route-second-choices-first",
        "Second choices are given room before first ones.",
        (IN_ORDER, "in_order = chosen.flip(1).transpose(0, 1).flatten(0, 1)"),
        (KEPT, "kept = (places <= capacity).view(k, -1).T.flip(1)"),
    ),
    (
        "route-by-gate",
        "The tokens with the largest gates are kept. (Some models do so.) Here they are served in their order.",
        (
            IN_ORDER,
            "order = (torch.arange(k)[:, None] * 2 - probs.gather(-1, experts).T).flatten().argsort()\n"
            "    in_order = chosen.transpose(0, 1).flatten(0, 1)[order]",
        ),
        (KEPT, "kept = (places <= capacity)[order.argsort()].view(k, -1).T"),
    ),
    (
        "route-kept-reshaped",
        "What was counted choice by choice is read token by token.",
        (KEPT, KEPT.replace(".view(k, -1).T", ".view(-1, k)")),
    ),
    (
        "route-dropped-gates-remain",
        "Where an expert has no room the gate should be 0.",
        (GATES, "gates = probs.gather(-1, experts)"),
    ),
    (
        "route-token-dropped-as-a-whole",
        "A token that finds no room with one expert loses the other too. Each choice stands by itself.",
        (KEPT, f"{KEPT}\n    kept = kept & kept.all(-1, keepdim=True)"),
    ),
    (
        "route-kept-is-not-boolean",
        "`kept` holds numbers. It should be boolean.",
        (KEPT, KEPT.replace("(places <= capacity)", "(places <= capacity).long()")),
    ),
    (
        "route-loss-not-times-experts",
        "The sum is not multiplied by the number of experts, so that its value depends on their number.",
        (LOSS, LOSS.replace("logits.shape[1] * ", "")),
    ),
    (
        "route-loss-after-dropping",
        "The shares count only what found room, where an expert that all tokens want looks no busier than the others.",
        (LOSS, LOSS.replace("chosen.to(probs.dtype)", "(chosen * kept.unsqueeze(-1)).to(probs.dtype)")),
    ),
    (
        "route-loss-first-choices",
        "The shares count first choices alone. All k count.",
        (LOSS, LOSS.replace("chosen.to(", "chosen[:, :1].to(")),
    ),
    (
        "route-loss-sums-to-k",
        "The shares sum to k. Divide by the number of all choices, so that they sum to one.",
        (LOSS, LOSS.replace("mean((0, 1))", "sum(1).mean(0)")),
    ),
    (
        "route-loss-not-mean",
        "Choices or probabilities are summed over the tokens. Take means, so that the loss does not grow with their number.",
        (LOSS, LOSS.replace("probs.mean(0)", "probs.sum(0)")),
    ),
    (
        "route-loss-of-probabilities",
        "The mean probabilities are squared. One factor is the share of the choices.",
        (LOSS, LOSS.replace("chosen.to(probs.dtype).mean((0, 1))", "probs.mean(0)")),
    ),
    (
        "route-loss-of-shares",
        "The shares are squared, which no gradient flows through. One factor is the mean probability.",
        (LOSS, "share = chosen.to(probs.dtype).mean((0, 1))\n    loss = logits.shape[1] * share.square().sum()"),
    ),
    (
        "route-loss-of-gates",
        "The second factor is the mean gate: probabilities of experts without room, or not chosen, are left out.",
        (
            LOSS,
            "gate_of_all = (chosen * gates.unsqueeze(-1)).sum(1)\n    "
            + LOSS.replace("probs.mean(0)", "gate_of_all.mean(0)"),
        ),
    ),
    (
        "route-loss-token-by-token",
        "Share and probability are multiplied for each token, then averaged. First take both means.",
        (LOSS, "loss = logits.shape[1] * (chosen.to(probs.dtype).mean(1) * probs).sum(-1).mean()"),
    ),
    (
        "route-loss-mean-over-experts",
        "The products are averaged over the experts. Add them up.",
        (LOSS, LOSS.replace(".sum()", ".mean()")),
    ),
    (
        "route-loss-detached",
        "No gradient flows through the mean probabilities, and there is no other way for it.",
        (LOSS, LOSS.replace("probs.mean(0)", "probs.detach().mean(0)")),
    ),
    (
        "route-gates-detached",
        "No gradient flows through the gates. They are the only way on which the router learns from the model's loss.",
        (GATES, "gates = probs.detach().gather(-1, experts) * kept"),
    ),
):
    moe_route.edit(_id, _hint, *_edits)
moe_route.edit(
    "route-softmax-twice",
    "The softmax is taken twice.",
    (PROBS, "probs = torch.softmax(torch.softmax(logits, dim=-1), dim=-1)"),
    source="https://github.com/huggingface/transformers/issues/45120",
)
moe_route.edit(
    "route-loss-of-chosen-probabilities",
    "The mean probability of an expert counts only tokens that chose it. All tokens count.",
    (LOSS, LOSS.replace("probs.mean(0)", "(probs * chosen.sum(1)).mean(0)")),
    source="https://github.com/AI-Hypercomputer/maxtext/issues/1432",
)


MoELayer = Check(
    reference.MoELayer,
    difficulty="stretch",
    minutes=30,
    hints=(
        "Make one long list of all tokens of the batch, and route it.",
        "For each expert, find the tokens and the choices that are kept and name it: `torch.nonzero` with `as_tuple=True`.",
        "Pick those tokens, let the expert work on them alone, and multiply each result by its gate.",
        "Add each result to its token's row of an output of zeros: `index_add` adds where a plain assignment overwrites.",
    ),
    uses=("moe_route",),
)


def _moe_inputs(draw, sizes, *leading, choices=None, steeper=0.0):
    """Tokens, and the parameters of a layer, by which each token chooses the experts of its row of ``choices``."""
    d_model, d_ff, experts = sizes["d_model"], sizes["d_ff"], sizes["num_experts"]
    tokens = math.prod(leading)
    orders = _orders(draw, tokens, experts) if choices is None else _completed(draw, choices, experts)
    router = draw.normal(experts, d_model, scale=1 / math.sqrt(d_model))
    inverse, x = np.linalg.pinv(router.T), draw.normal(tokens, d_model)
    x += (_router_logits(draw, orders, steeper) - x @ router.T) @ inverse  # the rest of the token is free
    inputs = {"x": x.reshape(*leading, d_model), "router.weight": router}
    for expert in range(experts):
        inputs |= {
            f"experts.{expert}.0.weight": draw.normal(d_ff, d_model, scale=1 / math.sqrt(d_model)),
            f"experts.{expert}.0.bias": draw.normal(d_ff),
            f"experts.{expert}.2.weight": draw.normal(d_model, d_ff, scale=1 / math.sqrt(d_ff)),
            f"experts.{expert}.2.bias": 1 + draw.normal(d_model),
        }
    return inputs


def _moe(title, inputs, sizes, *compared, **settings):
    probe = {"sizes": sizes, "compared": list(compared) or ["output", "loss"]} | settings.pop("probe", {})
    return Case(title, inputs, probe=probe, **settings)


def _moe_sizes(draw, k, capacity_factor=None, num_experts=4):
    """Sizes of a layer, with room for all tokens where no factor is given."""
    d_model, d_ff = (int(size) for size in draw.rng.permutation([6, 7, 8])[:2])
    factor = num_experts / k if capacity_factor is None else capacity_factor
    return {"d_model": d_model, "d_ff": d_ff, "num_experts": num_experts, "k": k, "capacity_factor": factor}


@MoELayer.aspect("the chosen experts' outputs, by their gates", points=3)
def _moe_values(draw):
    for k in (1, 2):
        sizes = _moe_sizes(draw, k)
        yield _moe(f"a batch, {k} of 4 experts", _moe_inputs(draw, sizes, 2, 5), sizes, "output")
    sizes = _moe_sizes(draw, 2)
    yield _moe("no batch", _moe_inputs(draw, sizes, 5), sizes, "output")
    yield _moe("two batch axes", _moe_inputs(draw, sizes, 2, 1, 3), sizes, "output")
    yield _moe("one token", _moe_inputs(draw, sizes, 1, 1), sizes, "output")
    sizes = _moe_sizes(draw, 3, num_experts=3)
    yield _moe("all experts chosen", _moe_inputs(draw, sizes, 2, 3), sizes, "output")


@MoELayer.aspect("no expert works on tokens of others", points=2)
def _moe_work(draw):
    sizes = {"d_model": 18, "d_ff": 64, "num_experts": 16, "k": 1, "capacity_factor": 2.0}
    even = [(token % 16,) for token in range(32)]
    inputs = _moe_inputs(draw, sizes, 2, 16, choices=even)
    yield _moe("one of 16 experts", inputs, sizes, "output", probe={"count_multiply_adds": True})


# The first sequence wants expert 0, so that it finds room for some of its tokens alone.
ONE_WANTED = ((0,), (0,), (0,), (0,), (0,), (1,), (2,), (3,), (0,), (1,))
TWO_WANTED = ((0, 1), (0, 2), (0, 1), (0, 3), (0, 1), (1, 0), (2, 0), (3, 0), (1, 2), (0, 1))


@MoELayer.aspect("tokens that find no room", points=2)
def _moe_room(draw):
    sizes = _moe_sizes(draw, 1, capacity_factor=1.25)
    yield _moe("one choice", _moe_inputs(draw, sizes, 2, 5, choices=ONE_WANTED), sizes, "output")
    sizes = _moe_sizes(draw, 2, capacity_factor=0.75)
    yield _moe("two choices", _moe_inputs(draw, sizes, 2, 5, choices=TWO_WANTED), sizes, "output")
    sizes = _moe_sizes(draw, 2, capacity_factor=0.25)
    yield _moe("hardly any room", _moe_inputs(draw, sizes, 5, 2, choices=TWO_WANTED), sizes, "output")


@MoELayer.aspect("loss, gradients, strides, precision", points=1)
def _moe_other(draw):
    sizes = _moe_sizes(draw, 2, capacity_factor=0.75)
    inputs = _moe_inputs(draw, sizes, 2, 5, choices=TWO_WANTED, steeper=0.1)
    yield _moe("the loss", inputs, sizes, "loss")
    yield _moe("gradients for tokens and parameters", inputs, sizes, gradient=tuple(inputs))
    yield _moe("not contiguous", inputs, sizes, strided=True)
    yield _moe("single precision", inputs, sizes, dtype="float32")


TOKENS = "tokens = x.flatten(0, -2)"
CAPACITY = "capacity = math.ceil(self.capacity_factor * self.k * len(tokens) / len(self.experts))"
ROUTED = "gates, experts, kept, loss = moe_route(self.router(tokens), self.k, capacity)"
ZEROS = "output = torch.zeros_like(tokens)"
FOUND = "token, choice = torch.nonzero(kept & (experts == number), as_tuple=True)"
ADDED = "output = output.index_add(0, token, gates[token, choice, None] * expert(tokens[token]))"
RESULT = "return output.view(x.shape), loss"
for _id, _hint, *_edits in (
    (
        "moe-every-expert-works",
        "Every expert works on every token, and most of it is thrown away. The result is right, and the point is lost: pick "
        "the expert's tokens first.",
        (FOUND, "gate = (gates * (experts == number)).sum(-1, keepdim=True)"),
        (ADDED, "output = output + gate * expert(tokens)"),
    ),
    (
        "moe-no-gates",
        "The experts' outputs are added as they are. Multiply each by its gate, which is also what trains the router.",
        (ADDED, ADDED.replace("gates[token, choice, None] * ", "")),
    ),
    (
        "moe-gates-before-the-expert",
        "The gate multiplies what the expert reads. It multiplies what the expert gives.",
        (ADDED, "output = output.index_add(0, token, expert(gates[token, choice, None] * tokens[token]))"),
    ),
    (
        "moe-gates-sum-to-one",
        "The gates are divided by their sum. They are taken as `moe_route` gives them.",
        (ROUTED, f"{ROUTED}\n        gates = gates / gates.sum(-1, keepdim=True).clamp(min=1e-30)"),
    ),
    (
        "moe-first-gate-for-all",
        "All experts of a token get the gate of its first choice.",
        (ADDED, ADDED.replace("gates[token, choice, None]", "gates[token, 0, None]")),
    ),
    (
        "moe-gates-of-other-tokens",
        "The gates are those of the first tokens. Pick them as the tokens are picked.",
        (ADDED, ADDED.replace("gates[token, choice, None]", "gates[: len(token), :1]")),
    ),
    (
        "moe-gates-detached",
        "No gradient flows through the gates, so that the router learns nothing from the model's loss.",
        (ADDED, ADDED.replace("gates[token", "gates.detach()[token")),
    ),
    (
        "moe-first-choice-alone",
        "Only a token's first expert works. There are k of them.",
        (FOUND, FOUND.replace("kept & (experts == number)", "(kept & (experts == number))[:, :1]")),
    ),
    (
        "moe-last-expert-wins",
        "What a later expert gives replaces what an earlier one gave. Add up the outputs of a token's experts.",
        (
            ADDED,
            "output = output.index_copy(0, token, gates[token, choice, None] * expert(tokens[token]))",
        ),
    ),
    (
        "moe-mean-of-experts",
        "The outputs are divided by k. The gates weigh them already.",
        (RESULT, RESULT.replace("output.view(x.shape)", "output.view(x.shape) / self.k")),
    ),
    (
        "moe-first-tokens",
        "The experts work on the right number of tokens, but on the first ones.",
        (ADDED, ADDED.replace("expert(tokens[token])", "expert(tokens[: len(token)])")),
    ),
    (
        "moe-one-expert",
        "The first expert works for all. Each has its own tokens.",
        (ADDED, ADDED.replace("expert(tokens", "self.experts[0](tokens")),
    ),
    (
        "moe-residual",
        "The residual is no part of this layer.",
        (ZEROS, "output = tokens"),
    ),
    (
        "moe-dropped-pass-through",
        "A token that found no room comes out as it came. It gets zeros here: the residual around the layer carries it.",
        (ZEROS, "output = tokens * ~kept.any(-1, keepdim=True)"),
    ),
    (
        "moe-nobody-dropped",
        "Every token is kept: `kept` is not used, or there is room for all.",
        (CAPACITY, "capacity = len(tokens)"),
    ),
    (
        "moe-room-rounded-down",
        "The room is rounded down. Round it up.",
        (CAPACITY, "capacity = max(int(self.capacity_factor * self.k * len(tokens) / len(self.experts)), 1)"),
    ),
    (
        "moe-room-without-factor",
        "The capacity factor is not used.",
        (CAPACITY, CAPACITY.replace("self.capacity_factor * ", "")),
    ),
    (
        "moe-room-without-k",
        "The number of choices is not used: with k choices there are k times as many tokens to make room for.",
        (CAPACITY, CAPACITY.replace("self.k * ", "")),
    ),
    (
        "moe-room-of-one-sequence",
        "The room is reckoned from the length of one sequence. All tokens of the batch are routed together.",
        (CAPACITY, CAPACITY.replace("len(tokens)", "x.shape[-2]")),
    ),
    (
        "moe-sequences-apart",
        "Each sequence is routed by itself, with room of its own. All tokens of the batch are routed together.",
        (
            TOKENS,
            "if x.dim() > 2:\n"
            "            outputs, losses = zip(*(self.forward(sequence) for sequence in x), strict=True)\n"
            "            return torch.stack(outputs), torch.stack(losses).mean()\n"
            f"        {TOKENS}",
        ),
    ),
    (
        "moe-three-axes",
        "Three axes are taken for granted. There may be any number before that of the tokens' components.",
        (TOKENS, "batch, length, d_model = x.shape\n        tokens = x.reshape(batch * length, d_model)"),
    ),
    (
        "moe-softmax-before-routing",
        "The router's scores go through a softmax before `moe_route`, which takes one itself.",
        (ROUTED, ROUTED.replace("self.router(tokens)", "torch.softmax(self.router(tokens), dim=-1)")),
    ),
    (
        "moe-no-loss",
        "The loss is thrown away.",
        (RESULT, "return output.view(x.shape), torch.zeros_like(loss)"),
    ),
    (
        "moe-loss-detached",
        "No gradient flows through the loss.",
        (RESULT, RESULT.replace(", loss", ", loss.detach()")),
    ),
    (
        "moe-output-alone",
        "The output comes back without the loss. Return the two.",
        (RESULT, "return output.view(x.shape)"),
    ),
    (
        "moe-output-flat",
        "The tokens come back in one long list. The output has the shape of `x`.",
        (RESULT, "return output, loss"),
    ),
):
    MoELayer.edit(_id, _hint, *_edits)
