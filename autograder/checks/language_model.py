"""What right kernels of "Language models" are."""

import math

import numpy as np

from autograder.case import Case
from autograder.checking import Check
from autograder.reference import language_model as reference
from autograder.reference.getting_started import softmax

next_token_loss = Check(
    reference.next_token_loss,
    difficulty="warm-up",
    minutes=15,
    hints=(
        "Write down for a text of four tokens which logits predict which token. Which logits and which token are left over?",
        "Cut the last place off the logits and the first place off the tokens; then each place of one belongs to one of the other.",
        "`F.cross_entropy` takes logits `(rows, V)` and targets `(rows,)`, so make one row of each place.",
        "Its `ignore_index` leaves targets out of the mean. Token 0 is a token like any other, and may be the padding.",
    ),
)


def _texts(draw, *shape, vocabulary, pad=None):
    """Texts of the shape with logits for each place; with ``pad``, all texts but the first are filled up with it."""
    tokens = draw.rng.integers(0, vocabulary, size=shape)
    tokens.flat[-1] = 0  # a token like any other
    if pad is not None:
        tokens[tokens == pad] = (pad + 1) % vocabulary
        lengths = [shape[-1], *draw.rng.permutation(np.arange(2, shape[-1]))[: shape[0] - 1]]
        tokens[np.arange(shape[-1]) >= np.array(lengths)[:, None]] = pad
    return {"logits": 2 * draw.normal(*shape, vocabulary), "tokens": tokens}


@next_token_loss.aspect("each token from those before it", points=2)
def _loss_values(draw):
    batch, length, vocabulary = draw.sizes(3, 3, 9)
    yield Case("a batch of texts", _texts(draw, batch, length, vocabulary=vocabulary + 4))
    yield Case("a batch of one", _texts(draw, 1, length, vocabulary=vocabulary + 4))
    yield Case("one text, no batch", _texts(draw, length, vocabulary=vocabulary + 4))
    yield Case("as many places as tokens in the vocabulary", _texts(draw, batch, length, vocabulary=length))
    yield Case("two tokens", _texts(draw, batch, 2, vocabulary=vocabulary + 4))


@next_token_loss.aspect("padding", points=1)
def _loss_padding(draw):
    batch, length, vocabulary = (*draw.sizes(1, 3, 5), *draw.sizes(2, 6, 9))
    inputs = _texts(draw, batch, length, vocabulary=vocabulary, pad=0)
    yield Case("token 0 as padding", inputs, options={"pad": 0})
    last = vocabulary - 1
    inputs = _texts(draw, batch, length, vocabulary=vocabulary, pad=last)
    yield Case("the last token of the vocabulary as padding", inputs, options={"pad": last})


@next_token_loss.aspect("gradient, large scores, precision, wrong arguments", points=1)
def _loss_other(draw):
    batch, length, vocabulary = draw.sizes(3, 3, 9)
    inputs = _texts(draw, batch, length, vocabulary=vocabulary + 4)
    yield Case("the gradient", inputs, gradient=("logits",))
    yield Case("scores near 1,000", inputs | {"logits": 400 * inputs["logits"]})
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("a text of one token", _texts(draw, batch, 1, vocabulary=vocabulary), refused=True)
    yield Case("targets that are shifted already", inputs | {"tokens": inputs["tokens"][:, 1:]}, refused=True)


SHIFT = "predictions, targets = logits[..., :-1, :], tokens[..., 1:]"
IGNORED = "-100 if pad is None else pad"
CROSS_ENTROPY = "F.cross_entropy(predictions.flatten(0, -2), targets.flatten(), ignore_index=ignored)"
LOSSES = (
    'losses = F.cross_entropy(predictions.flatten(0, -2), targets.flatten(), reduction="none").reshape(targets.shape)'
)
REAL = "real = torch.ones_like(targets) if pad is None else (targets != pad).long()"
for _id, _old, _new, _hint, _source in (
    (
        "next-token-not-shifted",
        SHIFT,
        "predictions, targets = logits, tokens",
        "Each place is asked for the token that it has just read, so that a model learns to copy. It should be asked for the "
        "next one.",
        "https://github.com/Project-MONAI/GenerativeModels/issues/314",
    ),
    (
        "next-token-previous",
        SHIFT,
        "predictions, targets = logits[..., 1:, :], tokens[..., :-1]",
        "The shift goes the wrong way: each place is asked for the token before the one that it has read.",
        "",
    ),
    (
        "next-token-shifted-twice",
        SHIFT,
        "predictions, targets = logits[..., :-2, :], tokens[..., 2:]",
        "Each place is asked for the token after the next. Shift once.",
        "",
    ),
    (
        "next-token-wraps-round",
        SHIFT,
        "predictions, targets = logits, tokens.roll(-1, dims=-1)",
        "The last place is asked for the first token of the text. It has nothing to predict.",
        "",
    ),
    (
        "next-token-first-from-nothing",
        SHIFT,
        "predictions, targets = logits[..., 1:, :], tokens[..., 1:]",
        "Only the first place is left out on both sides, so that nothing is shifted.",
        "",
    ),
    (
        "next-token-shift-of-the-batch",
        SHIFT,
        "predictions, targets = (logits[:-1], tokens[1:]) if len(tokens) > 1 else (logits[..., :-1, :], tokens[..., 1:])",
        "The shift runs along the first axis, from text to text. It runs along the tokens of each text.",
        "",
    ),
    (
        "next-token-flattened-first",
        SHIFT,
        "predictions, targets = logits.flatten(0, -2)[:-1], tokens.flatten()[1:]",
        "All texts are strung together before the shift, so that the last place of one text is asked for the first token of "
        "the next.",
        "",
    ),
    (
        "next-token-pad-zero-lost",
        IGNORED,
        "pad or -100",
        "Padding by token 0 counts: 0 is false in a condition. Compare with None.",
        "",
    ),
    (
        "next-token-zero-never-counts",
        IGNORED,
        "0 if pad is None else pad",
        "Token 0 is left out although no padding was named.",
        "",
    ),
    ("next-token-padding-counts", IGNORED, "-100", "Predictions of padding count too.", ""),
    (
        "next-token-padding-in-the-mean",
        f"return {CROSS_ENTROPY}",
        f"{LOSSES}\n    {REAL}\n    return (losses * real).sum() / real.numel()",
        "The sum is divided by the number of all places. Divide by the number of those that count.",
        "",
    ),
    (
        "next-token-padding-of-the-input",
        f"return {CROSS_ENTROPY}",
        f"{LOSSES}\n    {REAL.replace('(targets', '(tokens[..., :-1]')}\n    return (losses * real).sum() / real.sum()",
        "A place is left out where it has read padding. What counts is the target: it is padding one place earlier.",
        "",
    ),
    (
        "next-token-mean-of-means",
        f"return {CROSS_ENTROPY}",
        f"{LOSSES}\n    {REAL}\n    return ((losses * real).sum(-1) / real.sum(-1)).mean()",
        "This is the mean of the texts' means. All tokens of the batch weigh the same.",
        "",
    ),
    (
        "next-token-sum",
        CROSS_ENTROPY,
        CROSS_ENTROPY.replace("ignored)", 'ignored, reduction="sum")'),
        "This is the sum; the mean over the tokens that count is asked for.",
        "",
    ),
    (
        "next-token-softmax-first",
        SHIFT,
        "predictions, targets = torch.softmax(logits[..., :-1, :], dim=-1), tokens[..., 1:]",
        "A softmax is taken before the cross-entropy, which takes one itself.",
        "",
    ),
    (
        "next-token-overflow",
        f"return {CROSS_ENTROPY}",
        "probs = predictions.exp() / predictions.exp().sum(-1, keepdim=True)\n"
        "    of_target = -probs.gather(-1, targets.unsqueeze(-1)).log().squeeze(-1)\n"
        "    return of_target[targets != ignored].mean()",
        "The exponentials overflow for large scores. `F.cross_entropy` and `torch.log_softmax` are stable.",
        "",
    ),
    (
        "next-token-classes-last",
        CROSS_ENTROPY,
        "F.cross_entropy(predictions, targets, ignore_index=ignored)",
        "`F.cross_entropy` takes axis 1 for the vocabulary, and in a batch of texts that is the axis of the places. Make one "
        "row of each place.",
        "",
    ),
    (
        "next-token-view",
        CROSS_ENTROPY,
        "F.cross_entropy(predictions.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=ignored)",
        "What is cut off a batch does not lie in one piece, so that `view` refuses it. `reshape` and `flatten` copy.",
        "",
    ),
    (
        "next-token-in-bits",
        CROSS_ENTROPY,
        f"{CROSS_ENTROPY} / math.log(2)",
        "The loss is in bits; nats are asked for, the natural logarithm.",
        "",
    ),
):
    next_token_loss.slip(_id, _old, _new, _hint, _source)


perplexity = Check(
    reference.perplexity,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "A model that gives each token probability 1/4 has perplexity 4. What must be done with -log 4?",
        "First the mean over all real tokens of all texts, then one exponential.",
        "Select by the mask, or put zeros where it is False. A product with it leaves NaN where infinity stood.",
    ),
)


def _log_probs(draw, *shape):
    return np.log(draw.rng.uniform(0.02, 0.9, shape))


def _different_lengths(draw, batch, length):
    """Which tokens are real: the first text fills its row, the others are shorter, each in its own way."""
    lengths = [length, *draw.rng.permutation(np.arange(1, length))[: batch - 1]]
    return np.arange(length) < np.array(lengths)[:, None]


@perplexity.aspect("how unsure a model is", points=1)
def _perplexity_values(draw):
    batch, length = draw.sizes(2, 3, 9)
    yield Case("texts of one length", {"log_probs": _log_probs(draw, batch, length)})
    yield Case("one text, no batch", {"log_probs": _log_probs(draw, length)})
    yield Case("a single token", {"log_probs": _log_probs(draw, 1, 1)})
    yield Case("a long text", {"log_probs": _log_probs(draw, 1, 700) - 0.5})


@perplexity.aspect("texts of different lengths", points=1)
def _perplexity_padding(draw):
    batch, length = (*draw.sizes(1, 3, 5), *draw.sizes(1, 6, 9))
    log_probs, mask = _log_probs(draw, batch, length), _different_lengths(draw, batch, length)
    yield Case("padding at the end", {"log_probs": log_probs, "mask": mask})
    infinite = np.where(mask, log_probs, -math.inf)
    infinite[~mask & (np.arange(length) % 2 == 0)] = math.nan
    yield Case("minus infinity and NaN on padding", {"log_probs": infinite, "mask": mask})


@perplexity.aspect("probability zero, precision, wrong arguments", points=1)
def _perplexity_other(draw):
    batch, length = (*draw.sizes(1, 3, 5), *draw.sizes(1, 6, 9))
    log_probs, mask = _log_probs(draw, batch, length), _different_lengths(draw, batch, length)
    impossible = log_probs.copy()
    impossible[0, 0] = -math.inf
    yield Case("a token of probability 0", {"log_probs": impossible, "mask": mask})
    yield Case("single precision", {"log_probs": log_probs, "mask": mask}, dtype="float32")
    yield Case("the gradient", {"log_probs": log_probs, "mask": mask}, gradient=("log_probs",))
    yield Case("no real token", {"log_probs": log_probs, "mask": np.zeros_like(mask)}, refused=True)


SELECT = "real = log_probs if mask is None else log_probs[mask]"
EXP_MEAN = "return torch.exp(-real.mean())"
ALL_REAL = "mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask"
for _id, _old, _new, _hint in (
    (
        "perplexity-mean-of-exponentials",
        EXP_MEAN,
        "return torch.exp(-real).mean()",
        "You take the mean of the tokens' exponentials. First the mean, then the exponential.",
    ),
    (
        "perplexity-mean-of-texts",
        f"{SELECT}\n    {EXP_MEAN}",
        f"{ALL_REAL}\n"
        "    kept = torch.where(mask, log_probs, 0)\n"
        "    return torch.exp(-kept.sum(-1) / mask.sum(-1)).mean()",
        "This is the mean of the texts' perplexities. All real tokens weigh the same, whichever text they stand in.",
    ),
    (
        "perplexity-mean-of-means",
        f"{SELECT}\n    {EXP_MEAN}",
        f"{ALL_REAL}\n"
        "    kept = torch.where(mask, log_probs, 0)\n"
        "    return torch.exp(-(kept.sum(-1) / mask.sum(-1)).mean())",
        "Each text has the same weight, so that tokens of short texts weigh more. All real tokens weigh the same.",
    ),
    (
        "perplexity-padding-in-the-mean",
        f"{SELECT}\n    {EXP_MEAN}",
        f"{ALL_REAL}\n    return torch.exp(-torch.where(mask, log_probs, 0).mean())",
        "The sum is divided by the number of all places. Divide by the number of real tokens.",
    ),
    ("perplexity-padding-counts", SELECT, "real = log_probs", "Padding counts as if it were text."),
    (
        "perplexity-mask-inverted",
        SELECT,
        SELECT.replace("[mask]", "[~mask]"),
        "Padding counts and the text does not: the mask is True where a token is real.",
    ),
    (
        "perplexity-times-mask",
        f"{SELECT}\n    {EXP_MEAN}",
        f"{ALL_REAL}\n    return torch.exp(-(log_probs * mask).sum() / mask.sum())",
        "A product with the mask: zero times minus infinity is NaN. Select, or use `torch.where`.",
    ),
    (
        "perplexity-mask-required",
        f"{SELECT}\n    {EXP_MEAN}",
        "return torch.exp(-torch.where(mask, log_probs, 0).sum() / mask.sum())",
        "Without a mask there is an error. None says that all tokens are real.",
    ),
    (
        "perplexity-infinity-hidden",
        EXP_MEAN,
        "return torch.exp(-torch.nan_to_num(real, neginf=0.0).mean())",
        "A token of probability 0 was left out. It makes the perplexity infinite.",
    ),
    (
        "perplexity-no-exponential",
        EXP_MEAN,
        "return -real.mean()",
        "This is the mean loss. Its exponential is asked for.",
    ),
    ("perplexity-no-minus", EXP_MEAN, "return torch.exp(real.mean())", "The minus sign is missing: this is below one."),
    (
        "perplexity-base-two",
        EXP_MEAN,
        "return 2 ** -real.mean()",
        "The log-probabilities are natural logarithms; 2 to their power mixes two bases.",
    ),
    (
        "perplexity-sum",
        EXP_MEAN,
        "return torch.exp(-real.sum())",
        "This grows with the length of the text: it is the exponential of the sum, not of the mean.",
    ),
    (
        "perplexity-product-underflows",
        EXP_MEAN,
        "return real.exp().prod() ** (-1 / real.numel())",
        "The product of the probabilities of a long text is zero in floating point. Stay with logarithms until the end.",
    ),
    (
        "perplexity-entropy",
        EXP_MEAN,
        "return torch.exp(-(real.exp() * real).sum() / real.exp().sum())",
        "Each token is weighted by its probability. The text is what came: each of its tokens counts once.",
    ),
):
    perplexity.slip(_id, _old, _new, _hint)


KVCache = Check(
    reference.KVCache,
    difficulty="core",
    minutes=20,
    hints=(
        "The tokens are on the last axis but one, whatever comes before it.",
        "Either take room for `max_length` tokens at the first call and write into it, or join what you have and what is new.",
        "With room taken at once: the new ones go to the places from `length` on, and only the places that are filled are "
        "returned.",
        "Keys and values may differ in width, and both keep their dtype. `length` counts tokens, not calls.",
    ),
)


def _cached(draw, *leading, length, d_k, d_v):
    return {"keys": draw.normal(*leading, length, d_k), "values": draw.normal(*leading, length, d_v)}


def _filled(title, inputs, chunks, room=None, **more):
    """Fill a cache chunk by chunk; it has some room to spare unless told how much there is."""
    return Case(title, inputs, probe={"chunks": chunks, "max_length": room or sum(chunks) + 3}, **more)


@KVCache.aspect("all tokens so far", points=2)
def _cache_values(draw):
    batch, num_heads, d_k, d_v = draw.sizes(4, 2, 7)
    prompt = int(draw.rng.integers(3, 6))
    chunks = [prompt, 1, 1, 1]
    inputs = _cached(draw, batch, num_heads, length=sum(chunks), d_k=d_k, d_v=d_v)
    yield _filled("several tokens, then one by one", inputs, chunks)
    chunks = [2, prompt + 1, 3]
    inputs = _cached(draw, batch, num_heads, length=sum(chunks), d_k=d_k, d_v=d_k)
    yield _filled("several tokens each time", inputs, chunks)
    chunks = [2, 2, 2]
    inputs = _cached(draw, 2, 2, length=sum(chunks), d_k=2, d_v=2)
    yield _filled("as many tokens as heads and texts", inputs, chunks)
    inputs = _cached(draw, 1, 1, length=3, d_k=d_k, d_v=d_v)
    yield _filled("a single text and head, one token each time", inputs, [1, 1, 1])


@KVCache.aspect("a cache for each layer, and its room", points=1)
def _cache_room(draw):
    batch, num_heads, d_k, d_v, prompt = draw.sizes(5, 2, 7)
    chunks = [prompt, 1, 2]
    inputs = _cached(draw, batch, num_heads, length=sum(chunks), d_k=d_k, d_v=d_v)
    other = _cached(draw, batch, num_heads, length=sum(chunks), d_k=d_k, d_v=d_v)
    two = inputs | {f"other_{name}": array for name, array in other.items()}
    yield _filled("two caches, filled in turn", two, chunks)
    yield _filled("filled to the last place", inputs, chunks, room=sum(chunks))
    yield _filled("one token too many", inputs, chunks, room=sum(chunks) - 1, refused=True)
    short = inputs | {"values": inputs["values"][..., 1:, :]}
    yield _filled("a key without a value", short, [sum(chunks)], refused=True)


@KVCache.aspect("no batch, strides, precision", points=1)
def _cache_other(draw):
    batch, num_heads, d_k, d_v, prompt = draw.sizes(5, 2, 7)
    chunks = [prompt, 1, 2]
    yield _filled("no batch and no heads", _cached(draw, length=sum(chunks), d_k=d_k, d_v=d_v), chunks)
    inputs = _cached(draw, batch, num_heads, length=sum(chunks), d_k=d_k, d_v=d_v)
    yield _filled("tensors that are not contiguous, several texts", inputs, chunks, strided=True, repeated=True)
    yield _filled("single precision", inputs, chunks, dtype="float32")
    yield _filled("half precision", inputs, chunks, dtype="float16")


ROOM = """if self.length == 0:
            self.keys, self.values = (
                new.new_zeros(*new.shape[:-2], self.max_length, new.shape[-1]) for new in (keys, values)
            )"""
END = "end = self.length + keys.shape[-2]"
WRITE_KEYS = "self.keys[..., self.length : end, :] = keys"
WRITE_VALUES = "self.values[..., self.length : end, :] = values"
MOVE_ON = "self.length = end"
FILLED = "return self.keys[..., :end, :], self.values[..., :end, :]"
WRITTEN = f"{ROOM}\n        {END}\n        {WRITE_KEYS}\n        {WRITE_VALUES}\n        {MOVE_ON}\n        {FILLED}"
JOINED = """pairs = ((self.keys, keys), (self.values, values))
        self.keys, self.values = (new if old is None else torch.cat([old, new], dim=-2) for old, new in pairs)
        self.length += keys.shape[-2]
        return self.keys, self.values"""
FITS = "if self.length + keys.shape[-2] > self.max_length:"


def _joining(id, hint, old, new, *edits, source=""):
    """A wrong cache that joins tensors, with a piece of that text replaced."""
    assert JOINED.count(old) == 1, old
    KVCache.edit(id, hint, (WRITTEN, JOINED.replace(old, new)), *edits, source=source)


_joining(
    "cache-only-new",
    "Only the new keys and values come back. All so far are asked for.",
    "return self.keys, self.values",
    "return keys, values",
)
_joining(
    "cache-only-old",
    "The keys and values of the new tokens are missing in what comes back: a token attends to itself too.",
    "return self.keys, self.values",
    "return tuple(kept[..., : self.length - keys.shape[-2], :] for kept in (self.keys, self.values))",
)
_joining(
    "cache-only-last-call",
    "Only what the last call brought is kept, so that from the third call on the beginning is lost.",
    "return self.keys, self.values",
    "joined = self.keys, self.values\n        self.keys, self.values = keys, values\n        return joined",
)
_joining(
    "cache-new-first",
    "The new tokens stand before the old ones. They come last.",
    "[old, new]",
    "[new, old]",
)
_joining(
    "cache-axis-1",
    "The tokens are joined along axis 1, which is that of the heads. They are on the last axis but one.",
    "dim=-2",
    "dim=1",
)
_joining(
    "cache-axis-2",
    "The tokens are joined along axis 2. That is right for a batch with heads only: count the axis from the end.",
    "dim=-2",
    "dim=2",
)
_joining(
    "cache-first-call",
    "At the first call there is nothing yet to join the new ones to: `keys` and `values` of the cache are None.",
    "new if old is None else torch.cat([old, new], dim=-2)",
    "torch.cat([old, new], dim=-2)",
)
_joining(
    "cache-axis-0",
    "The tokens are joined along the axis of the texts. They are on the last axis but one.",
    "dim=-2",
    "dim=0",
)
_joining(
    "cache-axis-last",
    "The vectors are joined to longer ones. The tokens are on the last axis but one.",
    "dim=-2",
    "dim=-1",
)
_joining(
    "cache-swapped",
    "Values and keys come back in each other's place.",
    "return self.keys, self.values",
    "return self.values, self.keys",
)
_joining(
    "cache-values-from-keys",
    "What comes back as values are keys.",
    "(self.values, values)",
    "(self.values, keys)",
)
_joining(
    "cache-length-counts-calls",
    "`length` counts the calls. It counts the tokens: the first call may bring many.",
    "self.length += keys.shape[-2]",
    "self.length += 1",
)
_joining(
    "cache-length-stays",
    "`length` does not move.",
    "self.length += keys.shape[-2]",
    "pass",
)
_joining(
    "cache-length-twice",
    "`length` counts the new tokens twice.",
    "self.length += keys.shape[-2]",
    "self.length += 2 * keys.shape[-2]",
    (FITS, "if self.length // 2 + keys.shape[-2] > self.max_length:"),
    source="https://github.com/skyzh/tiny-llm/pull/46",
)
_joining(
    "cache-length-adds-all",
    "`length` grows by all tokens so far at each call. It grows by the new ones.",
    "self.length += keys.shape[-2]",
    "self.length += self.keys.shape[-2]",
    (FITS, "if 0 if self.keys is None else self.keys.shape[-2] + keys.shape[-2] > self.max_length:"),
    source="https://github.com/skyzh/tiny-llm/pull/46",
)
_joining(
    "cache-length-of-before",
    "`length` is that of before the call.",
    "self.length += keys.shape[-2]",
    "self.length = self.keys.shape[-2] - keys.shape[-2]",
    (FITS, "if (0 if self.keys is None else self.keys.shape[-2]) + keys.shape[-2] > self.max_length:"),
)
_joining(
    "cache-no-limit",
    "The cache takes more tokens than it has room for.",
    "pairs =",
    "pairs =",
    (FITS, "if False:"),
)
_joining(
    "cache-last-place-refused",
    "The last place is refused. `max_length` tokens fit.",
    "pairs =",
    "pairs =",
    (FITS, FITS.replace(" > ", " >= ")),
)
_joining(
    "cache-shared",
    "All caches share what they keep. Each has its own: keep it in `self`.",
    JOINED,
    JOINED.replace("self.keys", "KVCache.all_keys").replace("self.values", "KVCache.all_values"),
    ("self.keys = None", "KVCache.all_keys = None"),
    ("self.values = None", "KVCache.all_values = None"),
)
KVCache.edit(
    "cache-whole-room",
    "The places that are still empty come back too. Return those that are filled.",
    (FILLED, "return self.keys, self.values"),
)
KVCache.edit(
    "cache-overwritten",
    "Each call writes from the first place on, over what was there. Write from `length` on.",
    (WRITE_KEYS, "self.keys[..., : keys.shape[-2], :] = keys"),
    (WRITE_VALUES, "self.values[..., : keys.shape[-2], :] = values"),
)
KVCache.edit(
    "cache-one-place-early",
    "The new tokens are written one place too early, over the last one that was kept.",
    (END, "start = max(self.length - 1, 0)\n        end = start + keys.shape[-2]"),
    (WRITE_KEYS, WRITE_KEYS.replace("self.length :", "start :")),
    (WRITE_VALUES, WRITE_VALUES.replace("self.length :", "start :")),
    source="https://github.com/pytorch/executorch/pull/2689",
)
KVCache.edit(
    "cache-one-place-late",
    "A place is left empty between the calls.",
    (END, "start = self.length + (self.length > 0)\n        end = start + keys.shape[-2]"),
    (WRITE_KEYS, WRITE_KEYS.replace("self.length :", "start :")),
    (WRITE_VALUES, WRITE_VALUES.replace("self.length :", "start :")),
    (FITS, "if self.length + (self.length > 0) + keys.shape[-2] > self.max_length:"),
    source="https://github.com/pytorch/executorch/pull/2689",
)
KVCache.edit(
    "cache-one-token-a-call",
    "Only the last token of each call is kept. The first call brings a whole prompt.",
    (END, "keys, values = keys[..., -1:, :], values[..., -1:, :]\n        end = self.length + 1"),
)
KVCache.edit(
    "cache-single-precision",
    "The room is of single precision whatever comes in. Dtypes are as those given.",
    (
        "new.new_zeros(*new.shape[:-2], self.max_length, new.shape[-1])",
        "torch.zeros(*new.shape[:-2], self.max_length, new.shape[-1])",
    ),
)
KVCache.edit(
    "cache-four-axes",
    "Four axes are taken for granted. There may be any number before that of the tokens.",
    (END, "batch, num_heads, new, _ = keys.shape\n        end = self.length + new"),
)
KVCache.edit(
    "cache-third-axis",
    "The places are counted along the third axis. There may be any number of axes before that of the tokens.",
    (WRITE_KEYS, "self.keys[:, :, self.length : end] = keys"),
    (WRITE_VALUES, "self.values[:, :, self.length : end] = values"),
    (FILLED, "return self.keys[:, :, :end], self.values[:, :, :end]"),
)
KVCache.edit(
    "cache-values-as-wide-as-keys",
    "The room for values has the width of the keys. The two may differ.",
    ("self.max_length, new.shape[-1]", "self.max_length, keys.shape[-1]"),
)
KVCache.edit(
    "cache-emptied",
    "The room is taken anew at each call, so that what was kept is lost.",
    ("if self.length == 0:", "if True:"),
)


def _sizes(draw, count):
    """Sizes of a block, and ``count`` more for its tokens; the root of a head's width is exact in every precision."""
    num_heads = int(draw.rng.integers(2, 4))
    others = [int(size) for size in draw.rng.permutation([size for size in range(2, 8) if size != num_heads])]
    return {"d_model": 4 * num_heads, "num_heads": num_heads, "d_ff": 10}, *others[:count]


def _block_inputs(draw, sizes, *leading_and_length, past=None):
    """Tokens, the keys and values of earlier ones where a past is given, and the parameters of a block."""
    *leading, _ = leading_and_length
    d_model, num_heads, d_ff = sizes["d_model"], sizes["num_heads"], sizes["d_ff"]
    shape = (*leading, num_heads, past, d_model // num_heads)
    return {
        "x": draw.normal(*leading_and_length, d_model),
        "past_keys": None if past is None else draw.normal(*shape, scale=1.5),
        "past_values": None if past is None else draw.normal(*shape),
        **draw.block_parameters(d_model, d_ff),
    }


CausalBlock = Check(
    reference.CausalBlock,
    difficulty="core",
    minutes=30,
    hints=(
        "An encoder's block with a causal mask: two sub-layers, each followed by `residual_add_norm`.",
        "The cache holds projected keys and values, so project first: one linear layer by `in_proj_weight` gives queries, keys "
        "and values side by side. Then split each into heads, and only then ask the cache.",
        "With a cache there are more keys than queries. `causal_mask` takes both numbers, and the last query stands at the "
        "last key.",
        "After the attention: merge the heads, then `out_proj`. Residual, norm and network are as in `EncoderBlock`.",
    ),
    reproduces=("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"),
)


@CausalBlock.aspect("causal attention, network, residuals, norms", points=3)
def _block_values(draw):
    sizes, batch, length = _sizes(draw, 2)
    probe = {"sizes": sizes}
    yield Case("a batch", _block_inputs(draw, sizes, batch, length), probe=probe)
    yield Case("as many tokens as texts", _block_inputs(draw, sizes, length, length), probe=probe)
    yield Case("one token", _block_inputs(draw, sizes, batch, 1), probe=probe)
    single = sizes | {"d_model": 4, "num_heads": 1}
    yield Case("a batch of one, a single head", _block_inputs(draw, single, 1, length), probe={"sizes": single})


@CausalBlock.aspect("with a cache", points=2)
def _block_cache(draw):
    sizes, batch, length, past = _sizes(draw, 3)
    probe = {"sizes": sizes}
    yield Case("the beginning of a text", _block_inputs(draw, sizes, batch, length, past=0), probe=probe)
    yield Case("one more token", _block_inputs(draw, sizes, batch, 1, past=past), probe=probe)
    yield Case("several more tokens", _block_inputs(draw, sizes, batch, length, past=past), probe=probe)
    yield Case("as many more as before", _block_inputs(draw, sizes, batch, past, past=past), probe=probe)


@CausalBlock.aspect("where and when dropout acts", points=1)
def _block_dropout(draw):
    sizes, batch, length = _sizes(draw, 2)
    inputs, sizes = _block_inputs(draw, sizes, batch, length), sizes | {"dropout": 1.0}
    yield Case("training, every sub-layer dropped", inputs, probe={"sizes": sizes})
    yield Case("not training", inputs, probe={"sizes": sizes, "training": [False]})
    yield Case("training again after use", inputs, probe={"sizes": sizes, "training": [False, True]})


@CausalBlock.aspect("gradients, strides, precision", points=1)
def _block_gradients(draw):
    sizes, batch, length = _sizes(draw, 2)
    inputs, probe = _block_inputs(draw, sizes, batch, length), {"sizes": sizes}
    wanted = tuple(name for name, value in inputs.items() if value is not None)
    yield Case("gradients for tokens and parameters", inputs, gradient=wanted, probe=probe)
    yield Case("no batch, not contiguous", _block_inputs(draw, sizes, length), strided=True, probe=probe)
    yield Case("single precision", inputs, dtype="float32", probe=probe)


def _add_norm(tokens, number, dropout="dropout"):
    return f"residual_add_norm({tokens}, self.norm{number}.weight, self.norm{number}.bias, {dropout})"


def _norm(tokens, number):
    return f"self.norm{number}({tokens})"


def _network(tokens):
    return f"feed_forward({tokens}, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)"


# The lines of the block, and what mistakes put in their place.
DROPOUT = "dropout = self.dropout if self.training else 0.0"
PARTS = "(split_heads(part, num_heads) for part in F.linear(x, weight, bias).chunk(3, dim=-1))"
PROJECTED = f"Q, K, V = {PARTS}"
APPEND = "if cache is not None:\n            K, V = cache.append(K, V)  # those of the tokens before x too"
MASK = "causal_mask(Q.shape[-2], K.shape[-2])"
ATTENTION = f"attn_output = scaled_dot_product_attention(Q, K, V, {MASK})"
MERGED = "attn_output = self.self_attn.out_proj(merge_heads(attn_output))"
AFTER_ATTENTION = f"x = {_add_norm('x, attn_output', 1)}"
NETWORK = f"hidden = {_network('x')}"
AFTER_NETWORK = f"return {_add_norm('x, hidden', 2)}"
DROPPED_ATTENTION, DROPPED_NETWORK = "F.dropout(attn_output, dropout)", "F.dropout(hidden, dropout)"
GIVEN = f"given = x\n        {PROJECTED}"
BY_VIEW = (
    "(part.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1) for part in F.linear(x, weight, bias).chunk(3, dim=-1))"
)
CausalBlock.edit(
    "block-no-mask",
    "There is no mask: each token sees those that come after it, which it should predict.",
    (MASK, "None"),
)
CausalBlock.edit(
    "block-mask-transposed",
    "The mask is turned round: each token sees those after it, none before.",
    (MASK, "causal_mask(K.shape[-2], K.shape[-2]).T[K.shape[-2] - Q.shape[-2] :]"),
    source="https://github.com/marin-community/levanter/pull/102",
)
CausalBlock.edit(
    "block-mask-inverted",
    "The mask is that of PyTorch's modules, in which True is blocked. Here True may be seen.",
    (MASK, f"~{MASK}"),
)
CausalBlock.edit(
    "block-mask-strict",
    "A token does not see itself, so that the first one of a text sees nothing.",
    (MASK, f"{MASK}.tril(K.shape[-2] - Q.shape[-2] - 1)"),
    source="https://github.com/trymirai/lalamo/pull/273",
)
CausalBlock.edit(
    "block-sees-one-ahead",
    "Each token sees the one after it, which is the one that it should predict.",
    (MASK, "torch.ones(Q.shape[-2], K.shape[-2]).tril(K.shape[-2] - Q.shape[-2] + 1).bool()"),
    source="https://github.com/RVC-Boss/GPT-SoVITS/issues/965",
)
CausalBlock.edit(
    "block-mask-upper-left",
    "The mask is aligned at the upper left: with a cache the new tokens see the first keys and not the latest. The last query "
    "stands at the last key.",
    (MASK, "torch.ones(Q.shape[-2], K.shape[-2]).tril().bool()"),
    source="https://github.com/time-series-foundation-models/lag-llama/issues/81",
)
CausalBlock.edit(
    "block-mask-of-new-tokens",
    "The mask has the new tokens alone for keys. With a cache there are more keys than queries.",
    (MASK, "causal_mask(Q.shape[-2], Q.shape[-2])"),
    source="https://github.com/rasbt/LLMs-from-scratch/pull/697",
)
CausalBlock.edit(
    "block-mask-of-past",
    "The mask has the tokens of before for keys and not the new ones, which are keys too.",
    (MASK, "causal_mask(Q.shape[-2], K.shape[-2] if cache is None else K.shape[-2] - Q.shape[-2])"),
)
CausalBlock.edit(
    "block-past-counted-twice",
    "The mask counts the tokens in the cache twice. What the cache returns holds them already.",
    (MASK, "causal_mask(Q.shape[-2], 2 * K.shape[-2] - Q.shape[-2])"),
    source="https://github.com/skyzh/tiny-llm/pull/46",
)
CausalBlock.edit(
    "block-three-axes",
    "Three axes are taken for granted. There may be any number before that of the tokens.",
    (DROPOUT, f"{DROPOUT}\n        batch, length, d_model = x.shape"),
)
CausalBlock.edit(
    "block-mask-columns-sliced",
    "The last columns of a large mask are taken where its last rows are meant: rows are queries.",
    (MASK, "causal_mask(K.shape[-2], K.shape[-2])[:, K.shape[-2] - Q.shape[-2] :]"),
    source="rasbt/LLMs-from-scratch @28c65cd pkg/llms_from_scratch/kv_cache/gpt2.py",
)
CausalBlock.edit(
    "block-no-mask-with-cache",
    "With a cache there is no mask. Where several new tokens come at once, the first of them must not see the others.",
    (MASK, f"{MASK} if cache is None else None"),
)
CausalBlock.edit(
    "block-mask-hides-past",
    "The new tokens see each other and none of those in the cache.",
    (MASK, "F.pad(causal_mask(Q.shape[-2], Q.shape[-2]), (K.shape[-2] - Q.shape[-2], 0))"),
)
CausalBlock.edit(
    "block-cache-not-used",
    "The cache is not used.",
    (APPEND, ""),
)
CausalBlock.edit(
    "block-cache-not-read",
    "The cache is filled and what it returns is not used: the new tokens see each other alone.",
    (APPEND, APPEND.replace("K, V = cache", "cache")),
    source="https://github.com/lucidrains/x-transformers/issues/219",
)
CausalBlock.edit(
    "block-cache-gets-queries",
    "The cache was given the queries where it takes keys.",
    (APPEND, APPEND.replace("(K, V)", "(Q, V)")),
)
CausalBlock.edit(
    "block-cache-arguments-swapped",
    "The cache was given the values first. Keys come first.",
    (APPEND, APPEND.replace("K, V = cache.append(K, V)", "V, K = cache.append(V, K)")),
)
CausalBlock.edit(
    "block-cache-results-swapped",
    "Keys and values that the cache returns are taken in each other's place.",
    (APPEND, APPEND.replace("K, V = cache", "V, K = cache")),
)
CausalBlock.edit(
    "block-cache-before-heads",
    "The cache was given keys and values that are not split into heads.",
    (
        PROJECTED,
        "Q, K, V = F.linear(x, weight, bias).chunk(3, dim=-1)\n"
        "        if cache is not None:\n"
        "            K, V = cache.append(K, V)",
    ),
    (APPEND, "Q, K, V = (split_heads(part, num_heads) for part in (Q, K, V))"),
)
CausalBlock.edit(
    "block-cache-of-tokens",
    "The cache was given the tokens themselves. It keeps keys and values, so that no token is projected twice.",
    (APPEND, APPEND.replace("(K, V)", "(x, x)")),
)
CausalBlock.edit(
    "block-cache-called-twice",
    "The cache is asked twice. One call takes the keys and the values.",
    (APPEND, APPEND.replace("K, V = cache.append(K, V)", "K, V = cache.append(K, V)[0], cache.append(K, V)[1]")),
)
CausalBlock.edit(
    "block-cache-keys-normalised",
    "What comes from the cache is normalised once more. It is kept as it is used.",
    (APPEND, APPEND.replace("K, V)  #", "K, V)\n            K = F.normalize(K, dim=-1)  #")),
    source="https://github.com/google-deepmind/gemma/pull/392",
)
CausalBlock.edit(
    "block-projections-in-another-order",
    "The three parts of `in_proj_weight` are taken in another order. It is query, key, value.",
    (PROJECTED, PROJECTED.replace("Q, K, V", "K, Q, V")),
    source="https://github.com/jsbaan/transformer-from-scratch/issues/1",
)
CausalBlock.edit(
    "block-values-first",
    "The three parts of `in_proj_weight` are taken in another order. The values come last.",
    (PROJECTED, PROJECTED.replace("Q, K, V", "V, K, Q")),
)
CausalBlock.edit(
    "block-no-projection-bias",
    "The bias `in_proj_bias` is missing.",
    (PROJECTED, PROJECTED.replace("weight, bias", "weight")),
)
CausalBlock.edit(
    "block-heads-by-reshape",
    "The vectors were cut into heads by a reshape alone, which mixes tokens. Cut the last axis, then move the heads forward.",
    (PARTS, BY_VIEW),
)
CausalBlock.edit(
    "block-merged-by-reshape",
    "The heads were merged by a reshape alone, which mixes tokens. Move the tokens forward first.",
    (MERGED, MERGED.replace("merge_heads(attn_output)", "attn_output.reshape(x.shape)")),
)
CausalBlock.edit(
    "block-one-head",
    "There is a single head: nothing is split.",
    (PARTS, PARTS.replace("num_heads", "1")),
)
CausalBlock.edit(
    "block-no-output-projection",
    "The projection `out_proj` of the merged heads is missing.",
    (MERGED, "attn_output = merge_heads(attn_output)"),
)
CausalBlock.edit(
    "block-not-scaled",
    "The scores are not divided by the square root of a head's width.",
    (ATTENTION, f"Q = Q * Q.shape[-1] ** 0.5\n        {ATTENTION}"),
)
CausalBlock.edit(
    "block-scaled-by-d-model",
    "The scores are divided by the square root of d_model. Take a head's width.",
    (ATTENTION, f"Q = Q / num_heads**0.5\n        {ATTENTION}"),
)
CausalBlock.edit(
    "block-pre-norm",
    "This is pre-norm: each sub-layer reads normalised tokens, and the sum stays as it is. Here the sum is normalised.",
    (PARTS, PARTS.replace("(x,", f"({_norm('x', 1)},")),
    (AFTER_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
    (NETWORK, f"hidden = {_network(_norm('x', 2))}"),
    (AFTER_NETWORK, f"return x + {DROPPED_NETWORK}"),
)
CausalBlock.edit(
    "block-norm-before-adding",
    "Each sub-layer's output is normalised before it is added. Add first, then normalise the sum.",
    (AFTER_ATTENTION, f"x = x + {_norm(DROPPED_ATTENTION, 1)}"),
    (AFTER_NETWORK, f"return x + {_norm(DROPPED_NETWORK, 2)}"),
)
CausalBlock.edit(
    "block-no-residual-of-attention",
    "The attention has no residual around it: its output is normalised alone.",
    (AFTER_ATTENTION, f"x = {_norm(DROPPED_ATTENTION, 1)}"),
)
CausalBlock.edit(
    "block-no-residual-of-network",
    "The feed-forward network has no residual around it: its output is normalised alone.",
    (AFTER_NETWORK, f"return {_norm(DROPPED_NETWORK, 2)}"),
)
CausalBlock.edit(
    "block-residual-from-the-input",
    "The second residual comes from the block's input. It should come from what the network read.",
    (PROJECTED, GIVEN),
    (AFTER_NETWORK, f"return {_add_norm('given, hidden', 2)}"),
    source="https://github.com/NVIDIA-NeMo/Speech/pull/4350",
)
CausalBlock.edit(
    "block-parallel",
    "The network reads the block's input, beside the attention. It should read what the first norm gave.",
    (PROJECTED, GIVEN),
    (NETWORK, f"hidden = {_network('given')}"),
)
CausalBlock.edit(
    "block-same-norm-twice",
    "Both sub-layers use the first norm. Each has its own gain and shift.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 1)}"),
)
CausalBlock.edit(
    "block-norms-exchanged",
    "The two norms are exchanged: `norm1` belongs to the attention, `norm2` to the network.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, attn_output', 2)}"),
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 1)}"),
)
CausalBlock.edit(
    "block-no-first-norm",
    "There is no norm after the attention. Each sub-layer is followed by one.",
    (AFTER_ATTENTION, f"x = x + {DROPPED_ATTENTION}"),
)
CausalBlock.edit(
    "block-no-last-norm",
    "There is no norm after the network. Each sub-layer is followed by one.",
    (AFTER_NETWORK, f"return x + {DROPPED_NETWORK}"),
)
CausalBlock.edit(
    "block-no-network",
    "The feed-forward network is missing.",
    (AFTER_NETWORK, f"return {_norm('x', 2)}"),
)
CausalBlock.edit(
    "block-gelu",
    "The network has GELU between its layers, as GPT has; this one has the ramp max(0, .).",
    (NETWORK, "hidden = self.linear2(F.gelu(self.linear1(x)))"),
)
CausalBlock.edit(
    "block-dropout-when-not-training",
    "Something is dropped while the block is not being trained.",
    (DROPOUT, "dropout = self.dropout"),
)
CausalBlock.edit(
    "block-dropout-forgotten",
    "`self.dropout` is set to 0 where the block is not being trained, and stays 0 when training goes on.",
    (DROPOUT, "self.dropout = self.dropout if self.training else 0.0\n        dropout = self.dropout"),
    source="https://github.com/NVIDIA/Megatron-LM/pull/411",
)
CausalBlock.edit(
    "block-no-dropout",
    "Nothing is dropped in training.",
    (DROPOUT, "dropout = 0.0"),
)
CausalBlock.edit(
    "block-no-dropout-of-attention",
    "The output of the attention is never dropped.",
    (AFTER_ATTENTION, f"x = {_add_norm('x, attn_output', 1, dropout=0.0)}"),
)
CausalBlock.edit(
    "block-no-dropout-of-network",
    "The output of the network is never dropped.",
    (AFTER_NETWORK, f"return {_add_norm('x, hidden', 2, dropout=0.0)}"),
)
CausalBlock.edit(
    "block-dropout-on-residual",
    "Dropout acts on the sums, and so on the residual path too.",
    (AFTER_ATTENTION, f"x = {_norm('F.dropout(x + attn_output, dropout)', 1)}"),
    (AFTER_NETWORK, f"return {_norm('F.dropout(x + hidden, dropout)', 2)}"),
)


sample_temperature = Check(
    reference.sample_temperature,
    difficulty="core",
    minutes=20,
    hints=(
        "Divide by the temperature, then the softmax. Temperature 0 is a case of its own.",
        "`cumsum` of the probabilities gives the point where each token's piece ends.",
        "Count the pieces that end at or before the draw: that is the index of the token.",
        "The last end is 1 but for rounding. Scale the draws by it, and no draw falls behind the last piece.",
    ),
    reproduces=("torch.multinomial", "torch.distributions.Categorical"),
)


def _sampling(draw, *leading, vocabulary, temperature, excluded=0, scale=1.5):
    """Logits and draws, each draw well inside the piece of some token; of each row some tokens may be excluded."""
    logits = draw.normal(*leading, vocabulary, scale=scale)
    if excluded:
        places = draw.rng.random(logits.shape).argsort(-1)[..., :excluded]
        np.put_along_axis(logits, places, -math.inf, -1)
    return {"logits": logits, "temperature": temperature, "draw": _draws(draw, softmax(logits / (temperature or 1)))}


def _draws(draw, probs):
    ends = probs.cumsum(-1)
    wide = probs > 0.25 / probs.shape[-1]
    tokens = np.where(wide, draw.rng.random(probs.shape), -1).argmax(-1)[..., None]
    within = draw.rng.uniform(0.2, 0.8, tokens.shape)
    piece, end = np.take_along_axis(probs, tokens, -1), np.take_along_axis(ends, tokens, -1)
    return (end - within * piece)[..., 0]


@sample_temperature.aspect("each token on its own piece", points=2)
def _sampling_values(draw):
    batch, tokens, vocabulary = draw.sizes(3, 4, 9)
    for title, temperature in (("temperature 1", 1.0), ("low temperature", 0.6), ("high temperature", 2.5)):
        yield Case(title, _sampling(draw, batch, tokens, vocabulary=vocabulary + 3, temperature=temperature))
    logits = draw.normal(vocabulary, scale=0.4)
    line = (np.arange(40) + 0.5) / 40
    ends = softmax(logits / 0.8).cumsum()
    line = line[np.abs(line[:, None] - ends).min(-1) > 1e-3]  # not on a border
    many = np.broadcast_to(logits, (len(line), vocabulary))
    yield Case("draws along the line", {"logits": many, "temperature": 0.8, "draw": line})
    yield Case("a single row", _sampling(draw, vocabulary=vocabulary, temperature=1.0))


@sample_temperature.aspect("temperature 0", points=1)
def _sampling_greedy(draw):
    batch, vocabulary = draw.sizes(2, 4, 9)
    inputs = _sampling(draw, 3 * batch, vocabulary=vocabulary, temperature=0.0)
    yield Case("the most probable token", inputs)
    tied = inputs["logits"].copy()
    tied[:, 1] = tied[:, -2] = np.nanmax(tied, -1) + 1
    draws = np.where(np.arange(3 * batch) % 2, 0.1, 0.9)
    yield Case("two that are equally probable", inputs | {"logits": tied, "draw": draws})


@sample_temperature.aspect("excluded tokens, large scores, precision, wrong arguments", points=1)
def _sampling_other(draw):
    batch, tokens, vocabulary = draw.sizes(3, 4, 9)
    inputs = _sampling(draw, batch, tokens, vocabulary=vocabulary, temperature=0.9, excluded=2)
    yield Case("tokens that are excluded", inputs)
    logits = draw.normal(batch, vocabulary)
    logits[:, 0] = -math.inf
    yield Case("draw 0, the first token excluded", {"logits": logits, "temperature": 1.0, "draw": np.zeros(batch)})
    large = _sampling(draw, batch, tokens, vocabulary=vocabulary, temperature=600.0, scale=900.0)
    yield Case("scores near 1,000, a high temperature", large)
    yield Case(
        "single precision, not contiguous",
        _sampling(draw, batch, tokens, vocabulary=vocabulary, temperature=1.3),
        dtype="float32",
        strided=True,
    )
    yield Case("a negative temperature", inputs | {"temperature": -1.0}, refused=True)
    yield Case("one draw for all", inputs | {"draw": np.array(0.5)}, refused=True)


GREEDY = "return logits.argmax(dim=-1)"
ENDS = "ends = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)"
POINT = "point = draw.unsqueeze(-1) * ends[..., -1:]"
COUNT = "return (ends <= point).sum(dim=-1)"
for _id, _old, _new, _hint, _source in (
    (
        "temperature-multiplies",
        "logits / temperature",
        "logits * temperature",
        "The logits are multiplied by the temperature; divide: a low one makes probable tokens more probable.",
        "",
    ),
    ("temperature-ignored", "logits / temperature", "logits", "The temperature changes nothing unless it is 0.", ""),
    (
        "temperature-divides-probabilities",
        ENDS,
        "ends = (torch.softmax(logits, dim=-1) / temperature).cumsum(dim=-1)",
        "The probabilities are divided by the temperature, which leaves their ratios as they are. Divide the logits.",
        "",
    ),
    (
        "temperature-softmax-twice",
        ENDS,
        "ends = torch.softmax(torch.softmax(logits, dim=-1) / temperature, dim=-1).cumsum(dim=-1)",
        "A softmax is taken before the division, and another after it. The temperature divides the logits.",
        "",
    ),
    (
        "temperature-zero-divides",
        f"if temperature == 0:\n        {GREEDY}\n    ",
        "",
        "Temperature 0 divides by zero. It is the most probable token by contract.",
        "https://github.com/karpathy/nanoGPT/pull/739",
    ),
    (
        "temperature-zero-nearly",
        f"if temperature == 0:\n        {GREEDY}\n    ",
        "temperature = max(temperature, 1e-6)\n    ",
        "Temperature 0 is taken for a very low one. Where two tokens are equally probable, the draw then decides; the contract "
        "takes the first.",
        "",
    ),
    (
        "temperature-zero-raises",
        GREEDY,
        'raise ZeroDivisionError("float division by zero")',
        "Temperature 0 is an error. By contract it takes the most probable token.",
        "https://github.com/karpathy/nanoGPT/issues/738",
    ),
    (
        "temperature-zero-last",
        GREEDY,
        "return logits.shape[-1] - 1 - logits.flip(-1).argmax(dim=-1)",
        "Where tokens are equally probable, temperature 0 takes the first of them.",
        "",
    ),
    (
        "temperature-always-greedy",
        COUNT,
        GREEDY,
        "The most probable token is taken at every temperature: the draw decides nothing.",
        "",
    ),
    (
        "temperature-border",
        COUNT,
        "return (ends < point).sum(dim=-1)",
        "A draw of 0 falls on the first token even where that has probability 0. On a border it is the token whose piece "
        "begins there.",
        "",
    ),
    (
        "temperature-one-token-late",
        COUNT,
        "return ((ends <= point).sum(dim=-1) + 1).clamp(max=logits.shape[-1] - 1)",
        "The token after the right one comes out. Indices begin at 0.",
        "",
    ),
    (
        "temperature-one-token-early",
        COUNT,
        "return ((ends <= point).sum(dim=-1) - 1).clamp(min=0)",
        "The token before the right one comes out: its piece has ended before the draw.",
        "",
    ),
    (
        "temperature-line-turned-round",
        POINT,
        "point = (1 - draw).unsqueeze(-1) * ends[..., -1:]",
        "The line is read from its other end: a small draw should fall on the first tokens of the vocabulary.",
        "",
    ),
    (
        "temperature-sorted",
        f"{POINT}  # the last end is 1 but for rounding\n    {COUNT}",
        "probs, tokens = torch.softmax(logits / temperature, dim=-1).sort(dim=-1, descending=True, stable=True)\n"
        "    ends = probs.cumsum(dim=-1)\n"
        f"    {POINT}\n"
        "    return tokens.gather(-1, (ends <= point).sum(dim=-1, keepdim=True)).squeeze(-1)",
        "The tokens lie along the line in the order of their probability. They lie in the order of the vocabulary.",
        "",
    ),
    (
        "temperature-rank",
        ENDS,
        "probs = torch.softmax(logits / temperature, dim=-1).sort(dim=-1, descending=True).values\n"
        "    ends = probs.cumsum(dim=-1)",
        "What comes out is the rank of a token in the order of probability, not its index in the vocabulary.",
        "",
    ),
    (
        "temperature-one-draw",
        POINT,
        "point = draw.flatten()[0] * ends[..., -1:]",
        "The first draw decides for all rows. Each has its own.",
        "",
    ),
    (
        "temperature-two-axes",
        POINT,
        "point = draw[:, None] * ends[..., -1:]",
        "The new axis of the draws stands second. It belongs at the end, however many axes there are.",
        "",
    ),
    (
        "temperature-overflow",
        ENDS,
        "weights = torch.exp(logits) ** (1 / temperature)\n"
        "    ends = (weights / weights.sum(dim=-1, keepdim=True)).cumsum(dim=-1)",
        "The exponentials overflow for large scores. `torch.softmax` is stable.",
        "",
    ),
    (
        "temperature-floats",
        COUNT,
        "return (ends <= point).sum(dim=-1).to(logits.dtype)",
        "Tokens are whole numbers, of dtype torch.int64.",
        "",
    ),
    (
        "temperature-extra-axis",
        COUNT,
        "return (ends <= point).sum(dim=-1, keepdim=True)",
        "The result has an axis too many: there is one token for each row of logits.",
        "",
    ),
):
    sample_temperature.slip(_id, _old, _new, _hint, _source)


top_k_filter = Check(
    reference.top_k_filter,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "Find the `k`-th largest logit of each row; `topk` does. What is smaller goes.",
        "`topk` refuses more than there are.",
        "`masked_fill` makes a new tensor. Minus infinity is the one number whose exponential is 0.",
    ),
)


def _distinct(draw, *shape):
    """Logits of which no two of a row are near each other, negative ones among them."""
    ranks = draw.rng.random(shape).argsort(-1)
    return 0.5 * (ranks - shape[-1] / 2) + draw.rng.uniform(-0.1, 0.1, shape)


@top_k_filter.aspect("the k largest of each row", points=1)
def _top_k_values(draw):
    batch, tokens, vocabulary = draw.sizes(3, 3, 9)
    vocabulary += 4
    k = int(draw.rng.integers(3, vocabulary - 1))
    yield Case("a batch", {"logits": _distinct(draw, batch, tokens, vocabulary), "k": k})
    yield Case("the largest alone", {"logits": _distinct(draw, batch, vocabulary), "k": 1})
    yield Case("a single row, all but one", {"logits": _distinct(draw, vocabulary), "k": vocabulary - 1})
    negative = _distinct(draw, batch, vocabulary)
    yield Case("logits that are all negative", {"logits": negative - negative.max() - 1, "k": k})


@top_k_filter.aspect("ties, all tokens, tokens already excluded, precision, wrong arguments", points=1)
def _top_k_other(draw):
    batch, vocabulary = draw.sizes(2, 6, 9)
    logits = _distinct(draw, batch, vocabulary)
    yield Case("as many as there are", {"logits": logits, "k": vocabulary})
    yield Case("more than there are", {"logits": logits, "k": vocabulary + 5})
    tied = np.sort(logits, -1)[:, ::-1].copy()
    tied[:, 1:4] = tied[:, 2:3]
    tied = draw.rng.permuted(tied, axis=-1)
    yield Case("three that tie with the k-th", {"logits": tied, "k": 2})
    excluded = np.where(logits < np.sort(logits, -1)[:, 3:4], -math.inf, logits)
    yield Case("tokens that are excluded already", {"logits": excluded, "k": 2})
    yield Case("single precision, not contiguous", {"logits": logits, "k": 3}, dtype="float32", strided=True)
    yield Case("k 0", {"logits": logits, "k": 0}, refused=True)


BEST = "best = logits.topk(min(k, logits.shape[-1]), dim=-1).values"
EXCLUDE = "return logits.masked_fill(logits < best[..., -1:], -math.inf)"
for _id, _old, _new, _hint, _source in (
    (
        "top-k-filled-with-1e-10",
        "-math.inf",
        "1e-10",
        "The rest is set to 1e-10, which is a logit like any other, and above all negative ones. Only minus infinity has "
        "probability 0.",
        "https://github.com/karpathy/minGPT/issues/10",
    ),
    (
        "top-k-filled-with-0",
        "-math.inf",
        "0.0",
        "The rest is set to 0, a logit like any other. Its probability is not 0.",
        "",
    ),
    (
        "top-k-filled-with-large",
        "-math.inf",
        "-1e4",
        "The rest is set to a large negative number. Minus infinity is asked for.",
        "",
    ),
    (
        "top-k-exactly",
        f"{BEST}\n    {EXCLUDE}",
        "best = logits.topk(min(k, logits.shape[-1]), dim=-1)\n"
        "    return torch.full_like(logits, -math.inf).scatter(-1, best.indices, best.values)",
        "Of tokens that tie with the k-th only some stay. Here all of them do.",
        "karpathy/nanoGPT @3adf61e model.py and huggingface/transformers @00857b6 logits_process.py keep ties",
    ),
    (
        "top-k-smallest",
        f"{BEST}\n    {EXCLUDE}",
        "worst = logits.topk(min(k, logits.shape[-1]), dim=-1, largest=False).values\n"
        "    return logits.masked_fill(logits > worst[..., -1:], -math.inf)",
        "The least probable tokens are left.",
        "",
    ),
    (
        "top-k-rest",
        EXCLUDE,
        "return logits.masked_fill(logits >= best[..., -1:], -math.inf)",
        "The best are excluded and the rest is left.",
        "",
    ),
    (
        "top-k-one-fewer",
        EXCLUDE,
        "return logits.masked_fill(logits <= best[..., -1:], -math.inf)",
        "The k-th itself is excluded.",
        "",
    ),
    (
        "top-k-one-more",
        BEST,
        BEST.replace("min(k,", "min(k + 1,"),
        "One token too many is left.",
        "",
    ),
    (
        "top-k-largest-alone",
        EXCLUDE,
        "return logits.masked_fill(logits < best[..., :1], -math.inf)",
        "All are compared with the largest. Compare with the k-th.",
        "",
    ),
    (
        "top-k-more-than-there-are",
        BEST,
        "best = logits.topk(k, dim=-1).values",
        "A k above the size of the vocabulary is an error. It should exclude nothing.",
        "",
    ),
    (
        "top-k-of-all-rows",
        BEST,
        "best = logits.flatten().topk(min(k, logits.shape[-1])).values",
        "The k best of all rows together are left. Each row has its own.",
        "",
    ),
    (
        "top-k-two-axes",
        EXCLUDE,
        "return logits.masked_fill(logits < best[:, [-1]], -math.inf)",
        "The k-th is looked for on the second axis. The vocabulary is on the last one, however many there are.",
        "karpathy/nanoGPT @3adf61e model.py, where there are always two",
    ),
    (
        "top-k-axis-dropped",
        EXCLUDE,
        "return logits.masked_fill(logits < best[..., -1], -math.inf)",
        "The k-th logits have lost the last axis, so that they do not fit the rows. Keep it.",
        "",
    ),
    (
        "top-k-values-alone",
        EXCLUDE,
        "return best",
        "The k best logits come back without their places. The result has the shape of `logits`.",
        "",
    ),
    (
        "top-k-probabilities",
        EXCLUDE,
        "return torch.softmax(logits.masked_fill(logits < best[..., -1:], -math.inf), dim=-1)",
        "Probabilities come back. Logits are asked for.",
        "",
    ),
    (
        "top-k-in-place",
        EXCLUDE,
        EXCLUDE.replace("masked_fill", "masked_fill_"),
        "Your kernel writes into the caller's `logits`. Return a new tensor.",
        "",
    ),
):
    top_k_filter.slip(_id, _old, _new, _hint, _source)


top_p_filter = Check(
    reference.top_p_filter,
    difficulty="core",
    minutes=25,
    hints=(
        "Sort the logits downwards, and take the softmax and its cumulative sum in that order.",
        "A token is needed where those *before* it do not yet reach `p`. So the one that crosses `p` stays, and the first always.",
        "The smallest logit that is needed is a threshold. With it there is no need to undo the sorting, and ties stay together.",
        "At p = 1 rounding may make the sum reach 1 too early. Treat it by itself.",
    ),
)


def _crossed(draw, logits):
    """A p that is well between the cumulative probabilities of all rows, and below that of the last token."""
    probs = np.sort(softmax(logits), -1)[..., ::-1]
    ends = probs.cumsum(-1).ravel()
    candidates = np.linspace(0.35, 0.85, 101)
    return float(candidates[np.abs(candidates[:, None] - ends).min(-1).argmax()])


@top_p_filter.aspect("the fewest that reach p", points=2)
def _top_p_values(draw):
    batch, tokens, vocabulary = draw.sizes(3, 3, 8)
    logits = _distinct(draw, batch, vocabulary)
    logits[0] += 9  # so that a threshold of the first row shows in the others
    yield Case("a batch", {"logits": logits, "p": _crossed(draw, logits)})
    logits = 0.6 * _distinct(draw, 2, tokens, vocabulary + 3)
    yield Case("a batch of texts", {"logits": logits, "p": _crossed(draw, logits)})
    logits = _distinct(draw, vocabulary)
    yield Case("a single row", {"logits": logits, "p": _crossed(draw, logits)})
    logits = 6 * _distinct(draw, batch, vocabulary)
    yield Case("a model that is sure", {"logits": logits, "p": 0.5})
    logits = 0.1 * _distinct(draw, batch, vocabulary)
    yield Case("a model that is unsure, a low p", {"logits": logits, "p": 0.02})


@top_p_filter.aspect("p 1", points=1)
def _top_p_all(draw):
    batch, vocabulary = draw.sizes(2, 4, 9)
    logits = _distinct(draw, batch, vocabulary)
    logits[0] += 9
    yield Case("p 1", {"logits": logits, "p": 1.0})
    far = logits.copy()
    far[:, 1] += 1000
    yield Case("p 1, one token 1,000 above the others", {"logits": far, "p": 1.0})


@top_p_filter.aspect("ties, tokens already excluded, large scores, precision, wrong arguments", points=1)
def _top_p_other(draw):
    batch, vocabulary = draw.sizes(2, 5, 9)
    tied = draw.rng.permuted(np.tile([2.0, 1.0, 1.0, 1.0, -3.0, -4.0], (batch, 1)), axis=-1)
    yield Case("three that tie where p is crossed", {"logits": tied, "p": 0.6})
    logits = _distinct(draw, batch, vocabulary)
    excluded = np.where(logits < np.sort(logits, -1)[:, 2:3], -math.inf, logits)
    yield Case("tokens that are excluded already", {"logits": excluded, "p": _crossed(draw, excluded)})
    large = 1000 + logits
    large[0] += 9
    yield Case("scores near 1,000", {"logits": large, "p": _crossed(draw, logits)})
    inputs = {"logits": logits, "p": _crossed(draw, logits)}
    yield Case("single precision, not contiguous", inputs, dtype="float32", strided=True)
    yield Case("p 0", inputs | {"p": 0.0}, refused=True)
    yield Case("p above 1", inputs | {"p": 1.5}, refused=True)


SORTED = "descending = logits.sort(dim=-1, descending=True).values"
PROBS = "probs = torch.softmax(descending, dim=-1)"
BEFORE = "before = probs.cumsum(dim=-1) - probs  # what the more probable tokens have together"
NEEDED = "needed = (before < p) | (p == 1)"
LOWEST = "lowest = descending.masked_fill(~needed, math.inf).amin(dim=-1, keepdim=True)"
EXCLUDE = "return logits.masked_fill(logits < lowest, -math.inf)"
ORDER = "descending, order = logits.sort(dim=-1, descending=True)"
SCATTERED = "return logits.masked_fill(~torch.zeros_like(needed).scatter(-1, order, needed), -math.inf)"
for _id, _hint, *_edits in (
    (
        "top-p-without-the-crossing-token",
        "The token that makes the sum reach p is excluded. It is needed, or the sum stays below p; a sure model would have none "
        "left.",
        (NEEDED, "needed = (before + probs <= p) | (p == 1)"),
    ),
    (
        "top-p-crossing-token-but-for-the-first",
        "The token that crosses p is excluded unless it is the first.",
        (NEEDED, "needed = (before + probs <= p) | (p == 1)\n    needed[..., 0] = True"),
    ),
    (
        "top-p-one-more",
        "One token too many is left: the sum had reached p before it.",
        (NEEDED, "needed = (torch.cat([torch.zeros_like(before[..., :1]), before[..., :-1]], -1) < p) | (p == 1)"),
    ),
    (
        "top-p-1-loses-the-tail",
        "At p = 1 tokens of little probability are excluded, once the sum is 1 by rounding. None should be.",
        (NEEDED, "needed = before < p"),
    ),
    (
        "top-p-not-sorted",
        "The probabilities are summed in the order of the vocabulary. Sort first, from the most probable on.",
        (SORTED, "descending = logits"),
        (LOWEST, ""),
        (EXCLUDE, "return logits.masked_fill(~needed, -math.inf)"),
    ),
    (
        "top-p-sorted-upwards",
        "The sum begins with the least probable token.",
        (SORTED, "descending = logits.sort(dim=-1).values"),
        (LOWEST, "highest = descending.masked_fill(~needed, -math.inf).amax(dim=-1, keepdim=True)"),
        (EXCLUDE, "return logits.masked_fill(logits > highest, -math.inf)"),
    ),
    (
        "top-p-sorting-not-undone",
        "What was found in sorted order is applied to tokens in the order of the vocabulary.",
        (LOWEST, ""),
        (EXCLUDE, "return logits.masked_fill(~needed, -math.inf)"),
    ),
    (
        "top-p-sorting-undone-the-wrong-way",
        "The order is applied a second time and not undone: `gather` where `scatter` is meant.",
        (SORTED, ORDER),
        (LOWEST, ""),
        (EXCLUDE, "return logits.masked_fill(~needed.gather(-1, order), -math.inf)"),
    ),
    (
        "top-p-comes-back-sorted",
        "The logits come back in sorted order. Each stays at its place.",
        (LOWEST, ""),
        (EXCLUDE, "return descending.masked_fill(~needed, -math.inf)"),
    ),
    (
        "top-p-ties-cut",
        "Of tokens that tie with the last one needed only some stay. All of them do.",
        (SORTED, ORDER.replace("descending=True", "descending=True, stable=True")),
        (LOWEST, ""),
        (EXCLUDE, SCATTERED),
    ),
    (
        "top-p-each-alone",
        "Each token's own probability is compared with p. Compare the sum of those before it.",
        (NEEDED, "needed = (probs >= p) | (p == 1)"),
    ),
    (
        "top-p-of-the-largest",
        "Each probability is compared with p times the largest. (That is nearly min-p.) Compare sums with p.",
        (NEEDED, "needed = (probs >= p * probs[..., :1]) | (p == 1)"),
    ),
    (
        "top-p-logits-summed",
        "Logits are summed. Take the softmax first.",
        (PROBS, "probs = descending"),
    ),
    (
        "top-p-overflow",
        "The exponentials overflow for large scores. `torch.softmax` is stable.",
        (PROBS, "probs = descending.exp() / descending.exp().sum(dim=-1, keepdim=True)"),
    ),
    (
        "top-p-filled-with-0",
        "The rest is set to 0, a logit like any other. Its probability is not 0.",
        (EXCLUDE, EXCLUDE.replace("-math.inf", "0.0")),
    ),
    (
        "top-p-probabilities",
        "Probabilities come back. Logits are asked for.",
        (EXCLUDE, "return torch.softmax(logits.masked_fill(logits < lowest, -math.inf), dim=-1)"),
    ),
    (
        "top-p-one-threshold",
        "The first row decides for all. Each has its own.",
        (LOWEST, f"{LOWEST}\n    lowest = lowest.flatten()[0]"),
    ),
    (
        "top-p-largest-alone",
        "The most probable token alone is left.",
        (LOWEST, "lowest = descending[..., :1]"),
    ),
    (
        "top-p-in-place",
        "Your kernel writes into the caller's `logits`. Return a new tensor.",
        (EXCLUDE, EXCLUDE.replace("masked_fill", "masked_fill_")),
    ),
):
    top_p_filter.edit(_id, _hint, *_edits)
top_p_filter.edit(
    "top-p-1-argmax",
    "At p = 1 only the best token is left: `argmax` of a comparison that is never true is 0.",
    (NEEDED, "cut = (before + probs > p).int().argmax(dim=-1, keepdim=True)"),
    (LOWEST, "lowest = descending.gather(-1, cut)"),
    source="https://github.com/BlinkDL/ChatRWKV/pull/170",
)
top_p_filter.edit(
    "top-p-filled-with-1e-10",
    "The rest is set to 1e-10, a logit like any other. Only minus infinity has probability 0.",
    (EXCLUDE, EXCLUDE.replace("-math.inf", "1e-10")),
    source="https://github.com/karpathy/minGPT/issues/10",
)
top_p_filter.edit(
    "top-p-axis-1",
    "The softmax is taken over axis 1. The vocabulary is on the last axis, however many there are.",
    (PROBS, "probs = torch.softmax(descending, dim=1)"),
)
top_p_filter.edit(
    "top-p-least-probable-cut",
    "The least probable tokens are cut as long as they have at most 1 - p together. That splits ties, and at p = 1 it cuts "
    "tokens whose probability rounds to 0.",
    (SORTED, "ascending, order = logits.sort(dim=-1, stable=True)"),
    (PROBS, "ends = torch.softmax(ascending, dim=-1).cumsum(dim=-1)"),
    (BEFORE, ""),
    (NEEDED, "removed = ends <= 1 - p\n    removed[..., -1:] = False"),
    (LOWEST, ""),
    (EXCLUDE, "return logits.masked_fill(removed.scatter(-1, order, removed), -math.inf)"),
    source="huggingface/transformers @00857b6 logits_process.py",
)
