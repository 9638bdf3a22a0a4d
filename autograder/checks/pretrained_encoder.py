"""What right kernels of "A pretrained encoder" are."""

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import pretrained_encoder as reference

word_pieces = Check(
    reference.word_pieces,
    difficulty="core",
    minutes=20,
    hints=(
        "Keep the place up to which the word is cut. Look at all pieces that begin there, and take the longest.",
        "At the beginning of the word a piece is looked up as it is; everywhere else with the two marks before it.",
        "If nothing fits at some place, all that was found so far is thrown away.",
    ),
)

# Words and vocabulary in letters that are put in at random, so that nobody can write the answers down.
SKELETON = ("[UNK]", "a", "ab", "abcd", "##c", "##cd", "##d", "##ef", "##efg", "##g", "cd", "efg", "b", "##b", "##bx")


def _spelled(draw):
    """A function that puts letters drawn at random in the place of those of a skeleton."""
    letters = draw.rng.permutation(list("abcdefghijklmnopqrstuvwxyz"))
    table = {ord(old): str(new) for old, new in zip("abcdefghijklmnopqrstuvwxyz", letters, strict=True)}
    return lambda text: text if text == "[UNK]" else text.translate(table)


def _word(title, spell, word, skeleton=SKELETON, **more):
    vocabulary = {spell(piece): number for number, piece in enumerate(skeleton)}
    return Case(title, {"word": spell(word), "vocabulary": vocabulary}, **more)


@word_pieces.aspect("the longest piece first", points=2)
def _pieces_values(draw):
    spell = _spelled(draw)
    yield _word("a word that is one piece", spell, "abcd")
    yield _word("a word of two pieces, each of which could be shorter", spell, "abcdefg")
    yield _word("a word of three pieces", spell, "abcdefgb")
    yield _word("a piece that fits nowhere but at the beginning", spell, "acdcd")
    yield _word("a single letter", spell, "b")
    yield _word("the same piece twice", spell, "aefef")


@word_pieces.aspect("what cannot be cut", points=1)
def _pieces_unknown(draw):
    spell = _spelled(draw)
    yield _word("a last letter that fits no piece", spell, "abz")
    yield _word("a letter in the middle that fits no piece", spell, "abzefg")
    yield _word("a beginning that is known only inside of words", spell, "gb")
    yield _word("a rest that only a shorter first piece would have left", spell, "abx")
    renamed = ("other", *SKELETON[1:])
    yield _word("another name for what is unknown", spell, "abz", renamed, options={"unknown": spell("other")})
    yield _word("an empty word", spell, "")


FITTING = "fitting = [end for end in range(start + 1, len(word) + 1) if mark + word[start:end] in vocabulary]"
NOTHING = "return [unknown]"
APPEND = "pieces.append(mark + word[start : fitting[-1]])"
ADVANCE = "start = fitting[-1]"
BEGIN = "pieces, start = [], 0"
for _id, _hint, *_edits in (
    (
        "pieces-shortest-first",
        "Each time the shortest piece that fits is taken. Take the longest.",
        (f"{APPEND}\n        {ADVANCE}", "pieces.append(mark + word[start : fitting[0]])\n        start = fitting[0]"),
    ),
    (
        "pieces-no-marks",
        "Inside of a word too, pieces are looked up without the two marks.",
        ('mark = "##" if start > 0 else ""', 'mark = ""'),
    ),
    (
        "pieces-marks-lost",
        "A piece that goes on with a word is returned without its marks.",
        (APPEND, "pieces.append(word[start : fitting[-1]])"),
    ),
    (
        "pieces-marks-everywhere",
        "The first piece is looked up with marks too. They are for pieces that go on with a word.",
        ('"##" if start > 0 else ""', '"##"'),
    ),
    (
        "pieces-part-of-the-word-unknown",
        "What was cut off before the unknown part is kept. The whole word becomes the unknown piece.",
        (NOTHING, "return pieces + [unknown]"),
    ),
    (
        "pieces-unknown-letter-skipped",
        "A letter that fits no piece is replaced, and the cutting goes on behind it. The whole word becomes unknown.",
        (NOTHING, "pieces.append(unknown)\n            start += 1\n            continue"),
    ),
    (
        "pieces-unknown-dropped",
        "A word that cannot be cut leaves nothing, or what was cut off so far. It should be the unknown piece.",
        (NOTHING, "break"),
    ),
    (
        "pieces-unknown-fixed",
        "What is unknown is always called [UNK]; take the argument.",
        (NOTHING, 'return ["[UNK]"]'),
    ),
    (
        "pieces-last-letter-left-out",
        "No piece reaches the last letter of the word: the upper end of a range is not part of it.",
        ("range(start + 1, len(word) + 1)", "range(start + 1, len(word))"),
    ),
    (
        "pieces-one-letter-never",
        "A piece of a single letter is never tried.",
        ("range(start + 1, len(word) + 1)", "range(start + 2, len(word) + 1)"),
    ),
    (
        "pieces-only-the-first",
        "Only the first piece is cut off.",
        (ADVANCE, "start = len(word)"),
    ),
    (
        "pieces-empty-word-unknown",
        "An empty word gives the unknown piece. It has no pieces.",
        (BEGIN, f"if not word:\n        return [unknown]\n    {BEGIN}"),
    ),
):
    word_pieces.edit(_id, _hint, *_edits)


@word_pieces.mistake(
    "pieces-with-backtracking",
    "Where the longest piece leaves a rest that cannot be cut, you go back to a shorter one. The rule is greedy.",
)
def _with_backtracking(word, vocabulary, unknown="[UNK]"):
    def cut(start):
        if start == len(word):
            return []
        for end in range(len(word), start, -1):
            piece = ("##" if start > 0 else "") + word[start:end]
            if piece in vocabulary and (rest := cut(end)) is not None:
                return [piece, *rest]
        return None

    pieces = cut(0)
    return [unknown] if pieces is None else pieces


gelu = Check(
    reference.gelu,
    difficulty="warm-up",
    minutes=5,
    hints=(
        "A gate that opens slowly: each number is multiplied by the probability that a normal number lies below it.",
        "The probability that a normal number lies below x is written with `torch.erf`.",
        "`erf` runs from -1 to 1, a probability from 0 to 1; and its argument is measured in units of the root of 2.",
    ),
    reproduces=("torch.nn.functional.gelu", "torch.nn.GELU"),
)


def _numbers(draw, *shape):
    """Normal numbers, with the place where the forms of GELU differ most among them."""
    x = 2 * draw.normal(*shape)
    x.flat[0], x.flat[-1] = 2.3, -0.7
    return {"x": x}


@gelu.aspect("each number times its probability", points=1)
def _gelu_values(draw):
    rows, columns = draw.sizes(2)
    yield Case("a matrix", _numbers(draw, rows, columns))
    yield Case("zero, and numbers far out", {"x": np.array([0.0, 40.0, -40.0, 1e4, -1e4])})
    yield Case("three axes", _numbers(draw, 2, rows, columns))


@gelu.aspect("gradient, strides, precision", points=1)
def _gelu_other(draw):
    rows, columns = draw.sizes(2)
    inputs = _numbers(draw, rows, columns)
    yield Case("the gradient", inputs, gradient=("x",))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")


BELOW = "below = (1 + torch.erf(x / math.sqrt(2))) / 2"
for _id, _new, _hint in (
    (
        "gelu-tanh",
        "below = (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2",
        "This is the form with tanh, which comes near GELU. The model was trained with the exact one.",
    ),
    (
        "gelu-sigmoid",
        "below = torch.sigmoid(1.702 * x)",
        "This is the form with a sigmoid, which comes near GELU. The exact one is asked for.",
    ),
    ("gelu-silu", "below = torch.sigmoid(x)", "This is SiLU: a sigmoid stands where the normal probability belongs."),
    ("gelu-relu", "below = (x > 0).to(x.dtype)", "This is the ramp: the factor jumps from 0 to 1."),
    ("gelu-root-missing", "below = (1 + torch.erf(x)) / 2", "`erf` belongs to a variance of 1/2: divide x by a root."),
    (
        "gelu-root-times",
        "below = (1 + torch.erf(x * math.sqrt(2))) / 2",
        "x is multiplied by the root of 2; divide by it.",
    ),
    (
        "gelu-half-missing",
        "below = 1 + torch.erf(x / math.sqrt(2))",
        "The factor goes up to 2; a probability ends at 1.",
    ),
    ("gelu-erf-alone", "below = torch.erf(x / math.sqrt(2)) / 2", "The factor runs from -1/2 to 1/2; it begins at 0."),
    (
        "gelu-upper-tail",
        "below = torch.erfc(x / math.sqrt(2)) / 2",
        "This is the probability that the number lies above x.",
    ),
    (
        "gelu-density",
        "below = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)",
        "This is the density of the normal distribution; the probability below x is asked for.",
    ),
):
    gelu.slip(_id, BELOW, _new, _hint)
gelu.slip(
    "gelu-probability-alone",
    "return x * below",
    "return below",
    "This is the probability alone; x is to be multiplied by it.",
)


BertBlock = Check(
    reference.BertBlock,
    difficulty="core",
    minutes=15,
    hints=(
        "It is the encoder's block of 2017 with two changes. Which line holds the ramp?",
        "`feed_forward` and `residual_add_norm` cannot be used as they are: one has the ramp, the other its own eps.",
        "`layer_norm` takes eps as its last argument. Each norm of the block carries it: `self.norm1.eps`.",
        "What the first norm gives is both the input of the network and the second residual.",
    ),
    reproduces=("torch.nn.TransformerEncoderLayer",),
    uses=("gelu",),
)


def _sizes(draw, count):
    """Sizes of a model, and ``count`` more for its texts; the root of a head's width is exact in every precision."""
    num_heads = int(draw.rng.integers(2, 4))
    others = [int(size) for size in draw.rng.permutation([size for size in range(2, 8) if size != num_heads])]
    return {"d_model": 4 * num_heads, "num_heads": num_heads, "d_ff": 10}, *others[:count]


def _key_mask(draw, batch, length):
    """Texts of different lengths: the first fills its row, padding ends the others."""
    lengths = draw.rng.integers(1, length, size=batch)
    lengths[0] = length
    return np.arange(length) < lengths[:, None]


def _block_inputs(draw, sizes, *leading_and_length, key_mask=None):
    x = draw.normal(*leading_and_length, sizes["d_model"])
    return {"x": x, "key_mask": key_mask} | draw.block_parameters(sizes["d_model"], sizes["d_ff"])


@BertBlock.aspect("attention, network with GELU, residuals, norms", points=2)
def _block_values(draw):
    sizes, batch, length = _sizes(draw, 2)
    probe = {"sizes": sizes | {"eps": 1e-12}}
    yield Case("a batch", _block_inputs(draw, sizes, batch, length), probe=probe)
    yield Case("one token", _block_inputs(draw, sizes, batch, 1), probe=probe)
    single = sizes | {"d_model": 4, "num_heads": 1}
    inputs = _block_inputs(draw, single, 1, length)
    yield Case("a batch of one, a single head", inputs, probe={"sizes": single | {"eps": 1e-12}})


@BertBlock.aspect("padding, eps", points=1)
def _block_padding(draw):
    sizes, batch, length = _sizes(draw, 2)
    key_mask = _key_mask(draw, batch, length)
    inputs = _block_inputs(draw, sizes, batch, length, key_mask=key_mask)
    yield Case("texts of different lengths", inputs, probe={"sizes": sizes})
    inputs = _block_inputs(draw, sizes, batch, length)
    yield Case("a large eps", inputs, probe={"sizes": sizes | {"eps": 0.3}})


@BertBlock.aspect("gradients, strides, precision", points=1)
def _block_gradients(draw):
    sizes, batch, length = _sizes(draw, 2)
    inputs, probe = _block_inputs(draw, sizes, batch, length), {"sizes": sizes}
    wanted = tuple(name for name in inputs if name != "key_mask")
    yield Case("gradients for tokens and parameters", inputs, gradient=wanted, probe=probe)
    yield Case("no batch, not contiguous", _block_inputs(draw, sizes, length), strided=True, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)


def _norm(tokens, number, eps=True):
    norm = f"self.norm{number}"
    return f"layer_norm({tokens}, {norm}.weight, {norm}.bias" + (f", {norm}.eps)" if eps else ")")


ATTENTION = "attn_output = self.self_attn(x, x, x, key_mask=key_mask)"
FIRST_NORM = f"x = {_norm('x + attn_output', 1)}"
NETWORK = "hidden = self.linear2(gelu(self.linear1(x)))"
SECOND_NORM = f"return {_norm('x + hidden', 2)}"
GIVEN = f"given = x\n        {ATTENTION}"
for _id, _hint, *_edits in (
    (
        "bert-block-ramp",
        "This is the ramp of 2017. BERT has GELU.",
        (NETWORK, "hidden = self.linear2(torch.relu(self.linear1(x)))"),
    ),
    (
        "bert-block-gelu-tanh",
        "This is GELU's form with tanh. The model was trained with the exact one.",
        (NETWORK, 'hidden = self.linear2(F.gelu(self.linear1(x), approximate="tanh"))'),
    ),
    (
        "bert-block-no-activation",
        "Nothing stands between the two linear layers, so that they are one.",
        (NETWORK, "hidden = self.linear2(self.linear1(x))"),
    ),
    (
        "bert-block-gelu-last",
        "GELU comes after the second linear layer. It belongs between the two.",
        (NETWORK, "hidden = gelu(self.linear2(self.linear1(x)))"),
    ),
    (
        "bert-block-eps-of-2017",
        "The norms add 1e-5, the default of `layer_norm`. Give it the block's own eps.",
        (FIRST_NORM, f"x = {_norm('x + attn_output', 1, eps=False)}"),
        (SECOND_NORM, f"return {_norm('x + hidden', 2, eps=False)}"),
    ),
    (
        "bert-block-second-eps-of-2017",
        "The second norm adds 1e-5, the default of `layer_norm`. Give it the block's own eps.",
        (SECOND_NORM, f"return {_norm('x + hidden', 2, eps=False)}"),
    ),
    (
        "bert-block-first-eps-of-2017",
        "The first norm adds 1e-5, the default of `layer_norm`. Give it the block's own eps.",
        (FIRST_NORM, f"x = {_norm('x + attn_output', 1, eps=False)}"),
    ),
    (
        "bert-block-eps-fixed",
        "The norms always add 1e-12. Each norm of the block carries its own eps.",
        (FIRST_NORM, "x = layer_norm(x + attn_output, self.norm1.weight, self.norm1.bias, 1e-12)"),
        (SECOND_NORM, "return layer_norm(x + hidden, self.norm2.weight, self.norm2.bias, 1e-12)"),
    ),
    (
        "bert-block-pre-norm",
        "This is pre-norm: each sub-layer reads normalised tokens, and the sum stays as it is. BERT norms the sum.",
        (ATTENTION, f"n = {_norm('x', 1)}\n        attn_output = self.self_attn(n, n, n, key_mask=key_mask)"),
        (FIRST_NORM, "x = x + attn_output"),
        (NETWORK, f"hidden = self.linear2(gelu(self.linear1({_norm('x', 2)})))"),
        (SECOND_NORM, "return x + hidden"),
    ),
    (
        "bert-block-no-residual-of-attention",
        "The attention has no residual around it.",
        (FIRST_NORM, f"x = {_norm('attn_output', 1)}"),
    ),
    (
        "bert-block-no-residual-of-network",
        "The network has no residual around it.",
        (SECOND_NORM, f"return {_norm('hidden', 2)}"),
    ),
    (
        "bert-block-residual-from-the-input",
        "The second residual comes from the block's input. It should come from what the network read.",
        (ATTENTION, GIVEN),
        (SECOND_NORM, f"return {_norm('given + hidden', 2)}"),
    ),
    (
        "bert-block-same-norm-twice",
        "Both sub-layers use the first norm. Each has its own gain and shift.",
        (SECOND_NORM, f"return {_norm('x + hidden', 1)}"),
    ),
    (
        "bert-block-norms-swapped",
        "The two norms are swapped: the first belongs to the attention.",
        (FIRST_NORM, f"x = {_norm('x + attn_output', 2)}"),
        (SECOND_NORM, f"return {_norm('x + hidden', 1)}"),
    ),
    (
        "bert-block-mask-ignored",
        "Padding is looked at: the key mask is not used.",
        (ATTENTION, "attn_output = self.self_attn(x, x, x)"),
    ),
    (
        "bert-block-mask-inverted",
        "Only padding is looked at: `key_mask` is True where a token is real, as the attention wants it.",
        (
            ATTENTION,
            "attn_output = self.self_attn(x, x, x, key_mask=None if key_mask is None else ~key_mask)",
        ),
    ),
):
    BertBlock.edit(_id, _hint, *_edits)


mean_pool = Check(
    reference.mean_pool,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Two numbers are needed of each text: the sum of its real tokens, and how many there are.",
        "The mask needs one more axis, for the components.",
        "A product with the mask leaves NaN where infinity stood; `torch.where` does not. A text without a token has sum 0.",
    ),
)


@mean_pool.aspect("the mean of the real tokens", points=1)
def _pool_values(draw):
    batch, length, width = draw.sizes(3, 3, 9)
    states = draw.normal(batch, length, width) + 2
    yield Case("texts of different lengths", {"states": states, "key_mask": _key_mask(draw, batch, length)})
    yield Case("no mask", {"states": states})
    yield Case("one text, no batch", {"states": states[0], "key_mask": np.arange(length) < length - 1})
    yield Case("one token", {"states": states[:, :1], "key_mask": np.ones((batch, 1), dtype=bool)})
    square = draw.normal(4, 4, 4) + 2
    yield Case("as many texts as tokens as components", {"states": square, "key_mask": _key_mask(draw, 4, 4)})


@mean_pool.aspect("what stands on padding", points=1)
def _pool_padding(draw):
    batch, length, width = draw.sizes(3, 3, 9)
    states, key_mask = draw.normal(batch, length, width) + 2, _key_mask(draw, batch, length)
    spoiled = states.copy()
    spoiled[~key_mask] = np.where(np.arange(width) % 2, np.nan, np.inf)
    yield Case("infinity and NaN on padding", {"states": spoiled, "key_mask": key_mask})
    key_mask = key_mask.copy()
    key_mask[-1] = False
    yield Case("a text without a token", {"states": states, "key_mask": key_mask})


@mean_pool.aspect("gradient, strides, precision, wrong arguments", points=1)
def _pool_other(draw):
    batch, length, width = draw.sizes(3, 3, 9)
    inputs = {"states": draw.normal(batch, length, width) + 2, "key_mask": _key_mask(draw, batch, length)}
    yield Case("the gradient", inputs, gradient=("states",))
    yield Case("a tensor that is not contiguous", inputs, strided=True)
    yield Case("single precision", inputs, dtype="float32")
    yield Case("a mask for fewer tokens", inputs | {"key_mask": inputs["key_mask"][:, 1:]}, refused=True)


REAL = "real = key_mask.unsqueeze(-1)  # (*batch, token, 1)"
SUMMED = "summed = torch.where(real, states, 0).sum(dim=-2)"
DIVIDED = "return summed / real.sum(dim=-2).clamp(min=1)"
NO_MASK = "return states.mean(dim=-2)"
for _id, _hint, *_edits in (
    (
        "pool-padding-counts",
        "Padding counts as if it were text.",
        (DIVIDED, "return states.mean(dim=-2)"),
        (SUMMED, ""),
        (REAL, ""),
    ),
    (
        "pool-padding-in-the-number",
        "The sum is divided by the number of all places. Divide by that of the real tokens.",
        (DIVIDED, "return summed / states.shape[-2]"),
    ),
    (
        "pool-mask-inverted",
        "Padding counts and the text does not: the mask is True where a token is real.",
        (REAL, "real = ~key_mask.unsqueeze(-1)"),
    ),
    ("pool-sum", "This is the sum; the mean is asked for.", (DIVIDED, "return summed")),
    (
        "pool-sum-without-a-mask",
        "Without a mask this is the sum; the mean is asked for.",
        (NO_MASK, "return states.sum(dim=-2)"),
    ),
    (
        "pool-first-token",
        "This is the first token's vector. The mean of all real tokens is asked for.",
        (NO_MASK, "return states[..., 0, :]"),
        (DIVIDED, "return states[..., 0, :]"),
    ),
    (
        "pool-largest",
        "This is the largest number of each component. The mean is asked for.",
        (NO_MASK, "return states.amax(dim=-2)"),
        (DIVIDED, "return torch.where(real, states, -math.inf).amax(dim=-2)"),
    ),
    (
        "pool-times-mask",
        "A product with the mask: zero times infinity is NaN. Use `torch.where`.",
        (SUMMED, "summed = (states * real).sum(dim=-2)"),
    ),
    (
        "pool-nothing-by-nothing",
        "A text without a token gives NaN: zero divided by zero. It should give zeros.",
        (DIVIDED, "return summed / real.sum(dim=-2)"),
    ),
    (
        "pool-of-the-batch",
        "The mean runs over the texts of the batch. It runs over the tokens of each text.",
        (NO_MASK, "return states.mean(dim=0)"),
        (SUMMED, "summed = torch.where(real, states, 0).sum(dim=0)"),
        (DIVIDED, "return summed / real.sum(dim=0).clamp(min=1)"),
    ),
    (
        "pool-mean-of-all-real-tokens",
        "The sum is divided by the number of real tokens of the whole batch. Each text has its own.",
        (DIVIDED, "return summed / real.sum().clamp(min=1)"),
    ),
    (
        "pool-length-one",
        "The mean is divided by its length. That is the encoder's last step, not this kernel's.",
        (NO_MASK, "return F.normalize(states.mean(dim=-2), dim=-1)"),
        (DIVIDED, "return F.normalize(summed, dim=-1)"),
    ),
):
    mean_pool.edit(_id, _hint, *_edits)


SentenceEncoder = Check(
    reference.SentenceEncoder,
    difficulty="core",
    minutes=20,
    hints=(
        "`embed`: three vectors are added for each token, and the sum is normalised with the norm's own eps.",
        "The rows of `positions` are numbered as the tokens are, from 0 on; the whole text is segment 0.",
        "`states`: embed, then one block after the other. Each is given the key mask.",
        "`forward`: the mean of the real tokens, divided by its own length. `F.normalize` does that along an axis.",
    ),
    reproduces=("torch.nn.TransformerEncoder", "torch.nn.TransformerEncoderLayer"),
    uses=("BertBlock", "mean_pool"),
)


def _encoder_sizes(draw, count):
    sizes, *others = _sizes(draw, count)
    return sizes | {"vocab_size": 11, "max_length": 9, "num_layers": 2}, *others


def _encoder_inputs(draw, sizes, *leading_and_length, key_mask=None):
    tokens = draw.rng.integers(1, sizes["vocab_size"], leading_and_length)
    if key_mask is not None:
        tokens[~key_mask] = 0
    d_model = sizes["d_model"]
    parameters = {
        "words.weight": draw.normal(sizes["vocab_size"], d_model),
        "positions.weight": draw.normal(sizes["max_length"], d_model),
        "segments.weight": draw.normal(2, d_model),
        "norm.weight": 1 + draw.normal(d_model) / 2,
        "norm.bias": draw.normal(d_model),
    }
    for number in range(sizes["num_layers"]):
        drawn = draw.block_parameters(sizes["d_model"], sizes["d_ff"])
        parameters |= {f"blocks.{number}.{name}": value for name, value in drawn.items()}
    return {"tokens": tokens, "key_mask": key_mask} | parameters


@SentenceEncoder.aspect("embeddings, blocks, mean, length", points=3)
def _encoder_values(draw):
    sizes, batch, length = _encoder_sizes(draw, 2)
    inputs = _encoder_inputs(draw, sizes, batch, length)
    yield Case("each part", inputs, probe={"sizes": sizes, "parts": True})
    yield Case("a batch of texts", _encoder_inputs(draw, sizes, batch, length), probe={"sizes": sizes})
    shallow = sizes | {"num_layers": 1}
    yield Case("one text of one token, no batch", _encoder_inputs(draw, shallow, 1), probe={"sizes": shallow})
    yield Case("as long as there are positions", _encoder_inputs(draw, sizes, 2, 9), probe={"sizes": sizes})


@SentenceEncoder.aspect("padding", points=1)
def _encoder_padding(draw):
    sizes, batch, length = _encoder_sizes(draw, 2)
    key_mask = _key_mask(draw, batch, length)
    inputs = _encoder_inputs(draw, sizes, batch, length, key_mask=key_mask)
    yield Case("texts of different lengths", inputs, probe={"sizes": sizes})
    yield Case("each part, with padding", inputs, probe={"sizes": sizes, "parts": True})


@SentenceEncoder.aspect("eps, gradients, precision, wrong arguments", points=1)
def _encoder_other(draw):
    sizes, batch, length = _encoder_sizes(draw, 2)
    inputs, probe = _encoder_inputs(draw, sizes, batch, length), {"sizes": sizes}
    large = {"sizes": sizes | {"eps": 0.3}, "parts": True}
    yield Case("a large eps", inputs, probe=large)
    wanted = ("words.weight", "positions.weight", "segments.weight", "norm.weight", "blocks.0.linear1.weight")
    yield Case("gradients for embeddings and blocks", inputs, gradient=wanted, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)
    yield Case("a text that is too long", _encoder_inputs(draw, sizes, 2, 10), probe=probe, refused=True)


EMBEDDED = "x = self.words(tokens) + self.positions.weight[: tokens.shape[-1]] + self.segments.weight[0]"
EMBED_NORM = f"return {_norm('x', '')}"
STACK = "for block in self.blocks:\n            x = block(x, key_mask)"
MEAN = "mean = mean_pool(self.states(tokens, key_mask), key_mask)"
UNIT = "return F.normalize(mean, dim=-1)"
for _id, _hint, *_edits in (
    (
        "encoder-positions-from-one",
        "Positions are counted from 1. They begin at 0.",
        (EMBEDDED, EMBEDDED.replace("weight[: tokens.shape[-1]]", "weight.roll(-1, 0)[: tokens.shape[-1]]")),
    ),
    (
        "encoder-no-positions",
        "The positions' vectors are missing, so that the order of the words says nothing.",
        (EMBEDDED, "x = self.words(tokens) + self.segments.weight[0]"),
    ),
    (
        "encoder-no-segment",
        "The vector of segment 0 is missing. It stands for no word, but the model was trained with it.",
        (EMBEDDED, "x = self.words(tokens) + self.positions.weight[: tokens.shape[-1]]"),
    ),
    (
        "encoder-segment-one",
        "The vector of segment 1 is added, that of a second text. A single text is segment 0.",
        (EMBEDDED, EMBEDDED.replace("segments.weight[0]", "segments.weight[1]")),
    ),
    (
        "encoder-embeddings-scaled",
        "The embeddings are multiplied by the root of d_model, as in 2017. BERT does not.",
        (EMBEDDED, EMBEDDED.replace("self.words(tokens)", "self.words(tokens) * self.words.embedding_dim**0.5")),
    ),
    (
        "encoder-no-norm-of-embeddings",
        "The sum of the embeddings is not normalised.",
        (EMBED_NORM, "return x"),
    ),
    (
        "encoder-only-words-normalised",
        "Position and segment are added behind the norm. It is of the whole sum.",
        (
            EMBED_NORM,
            f"words = {_norm('self.words(tokens)', '')}\n        return words + x - self.words(tokens)",
        ),
    ),
    (
        "encoder-eps-of-2017",
        "The norm of the embeddings adds 1e-5, the default of `layer_norm`. It carries its own eps.",
        (EMBED_NORM, f"return {_norm('x', '', eps=False)}"),
    ),
    (
        "encoder-attends-to-padding",
        "The blocks are not given the key mask, so that real tokens look at padding.",
        (STACK, STACK.replace(", key_mask)", ")")),
    ),
    (
        "encoder-padding-in-the-mean",
        "The mean is of all places. Give `mean_pool` the key mask too.",
        (MEAN, "mean = mean_pool(self.states(tokens, key_mask))"),
    ),
    (
        "encoder-mask-nowhere",
        "The key mask is used neither in the blocks nor in the mean.",
        (MEAN, "mean = mean_pool(self.states(tokens))"),
    ),
    (
        "encoder-first-token",
        "This is the first token's vector. This model was trained with the mean of all.",
        (MEAN, "mean = self.states(tokens, key_mask)[..., 0, :]"),
    ),
    (
        "encoder-length-not-one",
        "The mean is not divided by its length.",
        (UNIT, "return mean"),
    ),
    (
        "encoder-each-token-to-length-one",
        "Each token's vector gets length one, and then the mean is taken. First the mean, then its length.",
        (MEAN, "mean = mean_pool(F.normalize(self.states(tokens, key_mask), dim=-1), key_mask)"),
        (UNIT, "return mean"),
    ),
    (
        "encoder-length-of-the-wrong-axis",
        "The first axis is given length one. Each text's vector is to have it.",
        (UNIT, "return F.normalize(mean, dim=0)"),
    ),
    (
        "encoder-softmax-last",
        "A softmax is taken at the end. A vector is asked for, not a distribution.",
        (UNIT, "return torch.softmax(mean, dim=-1)"),
    ),
    (
        "encoder-first-block-again",
        "The first block is applied again and again. Each layer has its own.",
        (STACK, "for _ in self.blocks:\n            x = self.blocks[0](x, key_mask)"),
    ),
    (
        "encoder-blocks-backwards",
        "The blocks come in the wrong order.",
        (STACK, STACK.replace("in self.blocks", "in reversed(self.blocks)")),
    ),
):
    SentenceEncoder.edit(_id, _hint, *_edits)


rename_weights = Check(
    reference.rename_weights,
    difficulty="core",
    minutes=25,
    hints=(
        "Begin with a copy of the dict, and take each weight out of it when you use it. What is left at the end tells.",
        "Most names go one to one, each with a weight and a bias. Make a dict of their beginnings; a loop does the layers.",
        "Queries, keys and values of a layer are joined: `torch.cat` puts them below each other.",
        "What is left may be `embeddings.position_ids` or begin with `pooler.`; anything else is an error.",
    ),
)

OUTER = {"words": "word_embeddings", "positions": "position_embeddings", "segments": "token_type_embeddings"}
INNER = {
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}
PROJECTIONS = ("query", "key", "value")


def _stored(draw, num_layers, extra=(), without=()):
    """A file's weights, each of numbers of its own, some of which may be missing; and the names that they should get."""
    d_model, d_ff = 4, 4  # alike, so that no weight is found by its shape
    stored, names = {}, [f"{ours}.weight" for ours in OUTER]
    for theirs in OUTER.values():
        stored[f"embeddings.{theirs}.weight"] = draw.normal(5, d_model)
    norms = {"embeddings.LayerNorm": "norm"}
    matrices = {}
    for number in range(num_layers):
        layer, block = f"encoder.layer.{number}", f"blocks.{number}"
        names += [f"{block}.self_attn.in_proj_weight", f"{block}.self_attn.in_proj_bias"]
        for part in PROJECTIONS:
            matrices[f"{layer}.attention.self.{part}"] = None
        for ours, theirs in INNER.items():
            (norms if ours.startswith("norm") else matrices)[f"{layer}.{theirs}"] = f"{block}.{ours}"
    for kind, dense in (("weight", (d_ff, d_model)), ("bias", (d_ff,))):
        stored |= {f"{theirs}.{kind}": draw.normal(*dense) for theirs in matrices}
        stored |= {f"{theirs}.{kind}": draw.normal(d_model) for theirs in norms}
        names += [f"{ours}.{kind}" for ours in (*matrices.values(), *norms.values()) if ours]
    stored |= {name: draw.normal(d_model) for name in extra}
    order = draw.rng.permutation(list(stored))
    return {"stored": {str(name): stored[name] for name in order if name not in without}}, names


def _file(title, draw, num_layers, extra=(), without=(), asked=None, **more):
    inputs, names = _stored(draw, num_layers, extra, without)
    probe = {"names": names, "num_layers": num_layers if asked is None else asked}
    return Case(title, inputs, probe=probe, **more)


POOLER = ("pooler.dense.weight", "pooler.dense.bias")


@rename_weights.aspect("every weight under its name", points=2)
def _rename_values(draw):
    yield _file("two layers", draw, 2)
    yield _file("one layer", draw, 1)
    yield _file("eleven layers", draw, 11)
    yield _file("single precision", draw, 2, dtype="float32")


@rename_weights.aspect("what is not needed, and what is missing", points=1)
def _rename_left(draw):
    yield _file("with a pooler and the positions' numbers", draw, 2, extra=(*POOLER, "embeddings.position_ids"))
    layer = int(draw.rng.integers(2))
    missing = f"encoder.layer.{layer}.output.dense.bias"
    yield _file("a bias is missing", draw, 2, without=(missing,), refused=True)
    missing = f"encoder.layer.{layer}.attention.self.value.weight"
    yield _file("a projection is missing", draw, 2, without=(missing,), refused=True)
    yield _file("a weight that is not known", draw, 2, extra=("cls.predictions.bias",), refused=True)
    yield _file("a layer more than is asked for", draw, 3, asked=2, refused=True)


PARTS = 'for part in ("query", "key", "value")]'
JOINED = 'renamed[f"{block}.self_attn.in_proj_{kind}"] = torch.cat(parts)'
LEFT = (
    'left = [name for name in rest if name != "embeddings.position_ids" and not name.startswith("pooler.")]\n'
    "    if left:\n"
    "        raise ValueError(f\"The file holds weights that are not used: {', '.join(left)}.\")\n"
)
POP = 'renamed[f"{ours}.{kind}"] = rest.pop(f"{theirs}.{kind}")'
for _id, _hint, *_edits in (
    (
        "rename-query-and-key-swapped",
        "Keys come first, then queries. The order is query, key, value.",
        (PARTS, 'for part in ("key", "query", "value")]'),
    ),
    (
        "rename-value-first",
        "Values come first. The order is query, key, value.",
        (PARTS, 'for part in ("value", "query", "key")]'),
    ),
    (
        "rename-alphabetical",
        "The projections stand in the order of the alphabet: key, query, value. The order is query, key, value.",
        (
            'parts = [rest.pop(f"{layer}.attention.self.{part}.{kind}") for part in ("query", "key", "value")]',
            'found = sorted(name for name in rest if name.startswith(f"{layer}.attention.self.") and '
            "name.endswith(kind))\n            parts = [rest.pop(name) for name in found]",
        ),
    ),
    (
        "rename-projections-transposed",
        "The projections are turned. Both sides have the layout (out, in).",
        (
            JOINED,
            JOINED.replace("torch.cat(parts)", "torch.cat([part.T if part.dim() > 1 else part for part in parts])"),
        ),
    ),
    (
        "rename-joined-side-by-side",
        "The projections are joined side by side. They stand below each other.",
        (JOINED, JOINED.replace("torch.cat(parts)", "torch.cat(parts, dim=-1)")),
    ),
    (
        "rename-matrices-transposed",
        "The matrices of the linear layers are turned. Both sides have the layout (out, in).",
        (
            POP,
            'weight = rest.pop(f"{theirs}.{kind}")\n'
            '            renamed[f"{ours}.{kind}"] = weight.T if weight.dim() > 1 else weight',
        ),
    ),
    (
        "rename-norms-swapped",
        "The two norms of each block are swapped: the first belongs to the attention.",
        (
            'names[f"{block}.norm1"] = f"{layer}.attention.output.LayerNorm"',
            'names[f"{block}.norm1"] = f"{layer}.output.LayerNorm"',
        ),
        (
            'names[f"{block}.norm2"] = f"{layer}.output.LayerNorm"',
            'names[f"{block}.norm2"] = f"{layer}.attention.output.LayerNorm"',
        ),
    ),
    (
        "rename-output-layers-swapped",
        "The attention's output layer and the network's last layer are swapped.",
        (
            'self_attn.out_proj"] = f"{layer}.attention.output.dense"',
            'self_attn.out_proj"] = f"{layer}.output.dense"',
        ),
        ('linear2"] = f"{layer}.output.dense"', 'linear2"] = f"{layer}.attention.output.dense"'),
    ),
    (
        "rename-network-swapped",
        "The two layers of the network are swapped.",
        ('linear1"] = f"{layer}.intermediate.dense"', 'linear1"] = f"{layer}.output.dense"'),
        ('linear2"] = f"{layer}.output.dense"', 'linear2"] = f"{layer}.intermediate.dense"'),
    ),
    (
        "rename-positions-and-segments-swapped",
        "The tables of positions and of segments are swapped.",
        (
            '("positions", "position"), ("segments", "token_type")',
            '("positions", "token_type"), ("segments", "position")',
        ),
    ),
    (
        "rename-layers-from-one",
        "Layers are counted from 1 in one of the two names. Both count from 0.",
        ('f"encoder.layer.{number}"', 'f"encoder.layer.{(number + 1) % num_layers}"'),
    ),
    (
        "rename-layers-by-alphabet",
        "The layers are in the order of the alphabet, in which 10 comes before 2.",
        (
            "for number in range(num_layers):\n",
            "for place, number in enumerate(sorted(range(num_layers), key=str)):\n",
        ),
        ('f"encoder.layer.{number}"', 'f"encoder.layer.{place}"'),
    ),
    (
        "rename-pooler-kept",
        "The pooler is handed on as it is; the encoder has no such weight.",
        ("return renamed", 'return renamed | {name: rest[name] for name in rest if name.startswith("pooler.")}'),
    ),
    (
        "rename-pooler-refused",
        "The pooler is refused. It is known, and not needed.",
        (' and not name.startswith("pooler.")', ""),
    ),
    (
        "rename-left-over-ignored",
        "A weight that nobody knows is left out in silence, so that a wrong file loads. It should be an error.",
        (LEFT, ""),
    ),
    (
        "rename-missing-ignored",
        "A weight that is missing is left out in silence. It should be an error.",
        (
            POP,
            'if f"{theirs}.{kind}" in rest:\n                renamed[f"{ours}.{kind}"] = rest.pop(f"{theirs}.{kind}")',
        ),
    ),
    (
        "rename-file-emptied",
        "Weights are taken out of the dict that was given. Take them out of a copy.",
        ("rest = dict(stored)", "rest = stored"),
    ),
):
    rename_weights.edit(_id, _hint, *_edits)


most_similar = Check(
    reference.most_similar,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "The cosine of two vectors is the product of the two after each is divided by its length.",
        "All cosines at once are one matrix product.",
        "`torch.sort` has an option that keeps equal numbers in their order.",
    ),
    reproduces=("torch.nn.functional.cosine_similarity", "torch.nn.CosineSimilarity"),
)


def _texts(draw, *leading, count, width):
    """Vectors of different lengths, the last of them the longest by far, and queries that are near to none of them."""
    vectors = draw.normal(count, width) * np.exp(draw.normal(count))[:, None]
    vectors[-1] *= 50
    return {"queries": draw.normal(*leading, width) * 3, "vectors": vectors}


@most_similar.aspect("the smallest angles, in their order", points=1)
def _similar_values(draw):
    batch, count, width, k = (*draw.sizes(2, 5, 9), *draw.sizes(2, 2, 4))
    yield Case("a batch of queries", _texts(draw, batch, count=count + 4, width=width) | {"k": k})
    yield Case("one query", _texts(draw, count=count + 4, width=width) | {"k": k})
    yield Case("more wanted than there are", _texts(draw, batch, count=count, width=width) | {"k": count + 2})
    yield Case("one wanted", _texts(draw, 2, count=count, width=width) | {"k": 1})
    inputs = _texts(draw, count=3, width=2)
    inputs["queries"], inputs["vectors"] = np.array([5.0, 1.0]), np.array([[-4.0, -1.0], [0.3, 0.4], [2.0, 1.0]])
    yield Case("a text that points the other way", inputs | {"k": 3})


@most_similar.aspect("ties, zeros, precision, wrong arguments", points=1)
def _similar_other(draw):
    batch, count, width = draw.sizes(3, 5, 9)
    inputs = _texts(draw, batch, count=count, width=width) | {"k": 3}
    # Vectors along one axis each, of lengths that are powers of two: equal cosines are equal to the last bit.
    axes = np.arange(40) % width
    tied = np.eye(width)[axes] * np.array([1.0, 4.0, 2.0])[np.arange(40) % 3][:, None]
    query = np.abs(draw.normal(width)) + np.arange(1, width + 1)
    yield Case("texts that are equally similar", {"queries": query, "vectors": tied, "k": 17})
    zeroed = inputs["vectors"].copy()
    zeroed[1] = 0
    yield Case("a vector of zeros", inputs | {"vectors": zeroed, "k": count})
    yield Case("the gradients", inputs, gradient=("queries", "vectors"))
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("none wanted", inputs | {"k": 0}, refused=True)


COSINES = "cosines = F.normalize(queries, dim=-1) @ F.normalize(vectors, dim=-1).T  # (*batch, text)"
SORTED = "similarities, indices = cosines.sort(dim=-1, descending=True, stable=True)"
KEPT = "return indices[..., :k], similarities[..., :k]"
for _id, _hint, _old, _new in (
    (
        "similar-products",
        "These are products of the vectors as they are, so that long vectors win. Divide each by its length.",
        COSINES,
        "cosines = queries @ vectors.T",
    ),
    (
        "similar-texts-not-normalised",
        "The texts' vectors are not divided by their lengths.",
        COSINES,
        "cosines = F.normalize(queries, dim=-1) @ vectors.T",
    ),
    (
        "similar-queries-not-normalised",
        "The queries are not divided by their lengths. The order is right, the cosines are not.",
        COSINES,
        "cosines = queries @ F.normalize(vectors, dim=-1).T",
    ),
    (
        "similar-wrong-axis",
        "The vectors are normalised along the axis of the texts. Each text's vector has a length.",
        COSINES,
        "cosines = F.normalize(queries, dim=-1) @ F.normalize(vectors, dim=0).T",
    ),
    (
        "similar-least",
        "The least similar come first.",
        SORTED,
        "similarities, indices = cosines.sort(dim=-1, stable=True)",
    ),
    (
        "similar-by-size-alone",
        "A text that points the other way counts as similar: the sign of the cosine is lost.",
        COSINES,
        "cosines = (F.normalize(queries, dim=-1) @ F.normalize(vectors, dim=-1).T).abs()",
    ),
    (
        "similar-by-distance",
        "The order is that of the distances, so that a long vector is far from all. Compare angles.",
        SORTED,
        "order = torch.cdist(queries.reshape(-1, queries.shape[-1]), vectors).sort(dim=-1, stable=True).indices\n"
        "    indices = order.reshape(cosines.shape)\n"
        "    similarities = cosines.gather(-1, indices)",
    ),
    (
        "similar-later-first",
        "Of texts that are equally similar, the one that comes last is named first.",
        SORTED,
        "similarities, indices = cosines.flip(-1).sort(dim=-1, descending=True, stable=True)\n"
        "    indices = vectors.shape[0] - 1 - indices",
    ),
    (
        "similar-zeros-by-zero",
        "A vector of zeros is divided by its length, which gives NaN. `F.normalize` leaves zeros.",
        COSINES,
        "cosines = F.normalize(queries, dim=-1) @ (vectors / vectors.norm(dim=-1, keepdim=True)).T",
    ),
    (
        "similar-swapped",
        "The two results are in the wrong order: first the indices.",
        KEPT,
        "return similarities[..., :k], indices[..., :k]",
    ),
    (
        "similar-one-too-few",
        "The most similar text is left out. That is right only where a text is its own query.",
        KEPT,
        "return indices[..., 1 : k + 1], similarities[..., 1 : k + 1]",
    ),
    (
        "similar-too-many-wanted",
        "`topk` raises an error where more texts are wanted than there are. All of them are to be given.",
        SORTED,
        "cosines.topk(k, dim=-1)\n    similarities, indices = cosines.sort(dim=-1, descending=True, stable=True)",
    ),
):
    most_similar.slip(_id, _old, _new, _hint)
