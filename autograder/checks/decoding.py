"""What right kernels of "Decoding" are."""

from __future__ import annotations

import numpy as np
import torch

from autograder.case import Case
from autograder.checking import Check
from autograder.compare import same
from autograder.probes import decoding as probes
from autograder.reference import decoding as reference

teacher_forcing_batch = Check(
    reference.teacher_forcing_batch,
    difficulty="warm-up",
    minutes=15,
    hints=(
        "Write down two sentences of different lengths. Below each, write what the decoder reads and what it should say.",
        "Both have one token more than the sentence has words: one gets its extra token in front, the other at the end.",
        "Begin with tensors full of padding, as long as the longest needs, and fill in each row from the left.",
        "The lengths say which tokens are real. A comparison with `pad` does not, where `pad` and `eos` are one number.",
    ),
)


def _sentences(draw, lengths, pad_is_eos=False):
    """Sentences of these lengths, no word twice in one, and three special tokens that are no words."""
    size = max(*lengths, 4) + 4
    bos, eos, pad = (int(token) for token in draw.rng.permutation(np.arange(1, 10))[:3])
    sentences = [(10 + draw.rng.permutation(size)[:length]).tolist() for length in lengths]
    return {"sentences": sentences, "bos": bos, "eos": eos, "pad": eos if pad_is_eos else pad}


@teacher_forcing_batch.aspect("sentences of one length", points=1)
def _forcing_values(draw):
    batch, length = draw.sizes(2, 3, 7)
    yield Case("several sentences", _sentences(draw, [length] * batch))
    yield Case("one sentence", _sentences(draw, [length]))
    yield Case("sentences of a single word", _sentences(draw, [1] * batch))


@teacher_forcing_batch.aspect("sentences of different lengths", points=1)
def _forcing_ragged(draw):
    lengths = draw.sizes(4, 1, 8)
    yield Case("several sentences", _sentences(draw, lengths))
    yield Case("the longest comes last", _sentences(draw, sorted(lengths)))
    yield Case("a sentence without words", _sentences(draw, [lengths[0], 0, lengths[1]]))


@teacher_forcing_batch.aspect("the same number for the end and for padding, wrong arguments", points=1)
def _forcing_other(draw):
    lengths = sorted(draw.sizes(4, 1, 8))
    yield Case("padding is the end's token", _sentences(draw, lengths, pad_is_eos=True))
    yield Case("several calls", _sentences(draw, lengths), repeated=True)
    yield Case("no sentence", _sentences(draw, lengths) | {"sentences": []}, refused=True)


LENGTHS = "lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])"
READ = "decoder_input[row, :length] = torch.tensor([bos, *sentence])"
SAY = "target[row, :length] = torch.tensor([*sentence, eos])"
REAL = "mask = torch.arange(target.shape[1]) < lengths[:, None]"
THREE = "return decoder_input, target, mask"

for _id, _old, _new, _hint, _source in (
    (
        "forcing-not-shifted",
        READ,
        "decoder_input[row, :length] = torch.tensor([*sentence, eos])",
        "The decoder reads the very token that it is to say at each place, so it learns to copy. Its input begins with `bos`.",
        "https://github.com/Project-MONAI/GenerativeModels/issues/314",
    ),
    (
        "forcing-no-eos",
        SAY,
        "target[row, : length - 1] = torch.tensor(sentence, dtype=torch.long)",
        "The target has no `eos`, so the decoder never learns to end a sentence.",
        "",
    ),
    (
        "forcing-no-bos",
        READ,
        "decoder_input[row, : length - 1] = torch.tensor(sentence, dtype=torch.long)",
        "The input begins with the first word; the decoder must read `bos` before it.",
        "",
    ),
    (
        "forcing-bos-in-target",
        SAY,
        "target[row, :length] = torch.tensor([bos, *sentence])",
        "The target begins with `bos`. The decoder only reads that token; it should say the first word.",
        "",
    ),
    (
        "forcing-eos-read",
        READ,
        "row_input = [bos, *sentence, eos]\n"
        "        decoder_input[row, : length + 1] = torch.tensor(row_input[: decoder_input.shape[1]])",
        "The input of the shorter sentences has `eos` where padding should stand: what comes after the last word is read by "
        "no one.",
        "",
    ),
    (
        "forcing-eos-after-padding",
        SAY,
        "target[row, : length - 1] = torch.tensor(sentence, dtype=torch.long)\n        target[row, -1] = eos",
        "The shorter sentences have `eos` behind their padding. It comes right after the last word.",
        "",
    ),
    (
        "forcing-target-filled-with-eos",
        "target = decoder_input.clone()",
        "target = torch.full_like(decoder_input, eos)",
        "The target of the shorter sentences is filled up with `eos`; `pad` is asked for.",
        "",
    ),
    (
        "forcing-shifted-left",
        SAY,
        "target[row, : length - 2] = torch.tensor(sentence[1:], dtype=torch.long)",
        "The target has lost the first word: the decoder says it right after `bos`.",
        "",
    ),
    (
        "forcing-input-ends-with-eos",
        READ,
        "decoder_input[row, :length] = torch.tensor([bos, *sentence])\n        decoder_input[row, length - 1] = eos",
        "The last word of each sentence is not read: `eos` stands in its place.",
        "",
    ),
    (
        "forcing-mask-from-pad",
        REAL,
        "mask = target != pad",
        "Your mask is made by comparing with `pad`. Where `pad` and `eos` are one number, it also hides every `eos`, and the "
        "decoder never learns to end.",
        "",
    ),
    (
        "forcing-mask-of-input",
        REAL,
        "mask = torch.arange(target.shape[1]) < lengths[:, None] - 1",
        "Your mask leaves out `eos`: it is a token that the decoder must say, so it counts.",
        "",
    ),
    (
        "forcing-mask-inverted",
        REAL,
        "mask = torch.arange(target.shape[1]) >= lengths[:, None]",
        "Your mask is True on padding; it should be True where a token is real.",
        "",
    ),
    (
        "forcing-mask-all-true",
        REAL,
        "mask = torch.ones_like(target, dtype=torch.bool)",
        "Your mask is True on padding too, so the model would also be asked to predict padding.",
        "",
    ),
    (
        "forcing-mask-of-numbers",
        REAL,
        "mask = (torch.arange(target.shape[1]) < lengths[:, None]).long()",
        "Your mask holds numbers; a boolean one is asked for.",
        "",
    ),
    (
        "forcing-padded-in-front",
        READ + "\n        " + SAY,
        "decoder_input[row, decoder_input.shape[1] - length :] = torch.tensor([bos, *sentence])\n"
        "        target[row, target.shape[1] - length :] = torch.tensor([*sentence, eos])",
        "Padding stands in front of the shorter sentences; it comes after them.",
        "",
    ),
    (
        "forcing-zero-as-padding",
        "int(lengths.max())), pad)",
        "int(lengths.max())), 0)",
        "Shorter sentences are filled up with zeros, whatever `pad` is.",
        "",
    ),
    (
        "forcing-cut-to-shortest",
        LENGTHS,
        LENGTHS + "\n    lengths = lengths.min().expand_as(lengths)\n"
        "    sentences = [sentence[: lengths.min() - 1] for sentence in sentences]",
        "All sentences are cut to the length of the shortest one.",
        "",
    ),
    (
        "forcing-sorted",
        LENGTHS,
        "sentences = sorted(sentences, key=len, reverse=True)\n    " + LENGTHS,
        "The sentences come back in another order than they were given, so they no longer fit their sources.",
        "",
    ),
    (
        "forcing-swapped",
        THREE,
        "return target, decoder_input, mask",
        "Input and target come out in each other's place.",
        "",
    ),
    (
        "forcing-floats",
        THREE,
        "return decoder_input.float(), target.float(), mask",
        "Tokens are whole numbers, of dtype torch.int64.",
        "",
    ),
):
    teacher_forcing_batch.slip(_id, _old, _new, _hint, _source)


scheduled_sampling = Check(
    reference.scheduled_sampling,
    difficulty="warm-up",
    minutes=15,
    hints=(
        "For each place of `decoder_input`: which entry of `predicted` is the guess at the very word that stands there?",
        "Shift the predictions by one place. Nobody guesses `<bos>`, so something else must stand in front.",
        "`torch.where(condition, one, other)` chooses place by place. Small draws keep the right word.",
    ),
)


def _mixed_inputs(draw, batch, tokens, ratio, dtype=np.int64):
    """Right words below 50 and predictions from 50 on, all different in a row."""
    given = np.stack([draw.rng.permutation(50)[:tokens] for _ in range(batch)]).astype(dtype)
    predicted = np.stack([50 + draw.rng.permutation(50)[:tokens] for _ in range(batch)]).astype(dtype)
    share = draw.rng.random((batch, tokens))
    return {"decoder_input": given, "predicted": predicted, "draw": share, "teacher_forcing_ratio": ratio}


@scheduled_sampling.aspect("a mixture", points=1)
def _mixed_values(draw):
    batch, tokens = draw.sizes(2, 4, 9)
    yield Case("more right words than predictions", _mixed_inputs(draw, batch, tokens, 0.7))
    yield Case("more predictions than right words", _mixed_inputs(draw, batch, tokens, 0.2))
    yield Case("as many sentences as tokens", _mixed_inputs(draw, tokens, tokens, 0.5))
    yield Case("one sentence", _mixed_inputs(draw, 1, 12, 0.5))


@scheduled_sampling.aspect("no mixture, other dtypes, wrong arguments", points=1)
def _mixed_other(draw):
    batch, tokens = draw.sizes(2, 4, 9)
    inputs = _mixed_inputs(draw, batch, tokens, 0.0)
    inputs["draw"][:, 1::2] = 0.0  # which random numbers may be
    yield Case("predictions alone", inputs)
    yield Case("right words alone", _mixed_inputs(draw, batch, tokens, 1.0))
    yield Case("nothing but the first token", _mixed_inputs(draw, batch, 1, 0.0))
    inputs = _mixed_inputs(draw, batch, tokens, 0.5)
    yield Case("tensors that are not contiguous, several calls", inputs, strided=True, repeated=True)
    yield Case("tokens as 32-bit numbers", _mixed_inputs(draw, batch, tokens, 0.5, np.int32))
    yield Case("one prediction too few", inputs | {"predicted": inputs["predicted"][:, 1:]}, refused=True)
    yield Case("a ratio above one", inputs | {"teacher_forcing_ratio": 1.5}, refused=True)


GUESSES = "guesses = torch.cat([decoder_input[:, :1], predicted[:, :-1]], dim=1)"
MIX = "torch.where(draw < teacher_forcing_ratio, decoder_input, guesses)"

for _id, _old, _new, _hint in (
    (
        "mixed-not-shifted",
        GUESSES,
        "guesses = torch.cat([decoder_input[:, :1], predicted[:, 1:]], dim=1)",
        "The prediction of place `t` is put at place `t`. It guesses the word that is read one place later.",
    ),
    (
        "mixed-shifted-the-wrong-way",
        GUESSES,
        "guesses = torch.cat([predicted[:, 1:], decoder_input[:, -1:]], dim=1)",
        "The predictions are shifted to the left; the guess at a word is made one place before it.",
    ),
    (
        "mixed-bos-replaced",
        GUESSES,
        "guesses = torch.cat([predicted[:, :1], predicted[:, :-1]], dim=1)",
        "The first token may be replaced by a prediction. It is `<bos>`, which nobody guesses: it always stays.",
    ),
    (
        "mixed-rolled",
        GUESSES,
        "guesses = predicted.roll(1, dims=1)",
        "The last prediction comes round to the first place. `<bos>` always stays there.",
    ),
    (
        "mixed-ratio-inverted",
        MIX,
        "torch.where(draw < teacher_forcing_ratio, guesses, decoder_input)",
        "The ratio is the share of right words; yours is that of predictions.",
    ),
    (
        "mixed-ratio-of-own-words",
        MIX,
        "torch.where(draw < 1 - teacher_forcing_ratio, decoder_input, guesses)",
        "You take the ratio from 1. It is the share of right words already.",
    ),
    (
        "mixed-comparison-inverted",
        MIX,
        "torch.where(draw > teacher_forcing_ratio, decoder_input, guesses)",
        "A right word stays where the draw is *below* the ratio.",
    ),
    (
        "mixed-not-below",
        MIX,
        "torch.where(draw <= teacher_forcing_ratio, decoder_input, guesses)",
        "A draw may be 0, and with a ratio of 0 no right word should stay: the draw must be below the ratio.",
    ),
    (
        "mixed-once-a-sentence",
        MIX,
        "torch.where(draw[:, :1] < teacher_forcing_ratio, decoder_input, guesses)",
        "The first draw of a sentence decides for all its places. Each place is decided for itself.",
    ),
    (
        "mixed-once-a-batch",
        MIX,
        "(decoder_input if draw[0, 0] < teacher_forcing_ratio else guesses).clone()",
        "One draw decides for the whole batch. Each place is decided for itself.",
    ),
    (
        "mixed-draw-of-the-place-before",
        MIX,
        "torch.where(draw.roll(1, dims=1) < teacher_forcing_ratio, decoder_input, guesses)",
        "A place is decided by the draw of the place before it; each place has its own.",
    ),
    (
        "mixed-half",
        MIX,
        "torch.where(draw < 0.5, decoder_input, guesses)",
        "Half of the words stay, whatever the ratio is.",
    ),
    (
        "mixed-once-wrong-always-own",
        MIX,
        "torch.where((draw < teacher_forcing_ratio).cumprod(dim=1).bool(), decoder_input, guesses)",
        "After the first prediction no right word is read any more. Each place is decided for itself.",
    ),
    (
        "mixed-in-place",
        f"return {MIX}",
        f"return decoder_input.copy_({MIX})",
        "Your kernel writes into the caller's `decoder_input`. Return a new tensor.",
    ),
    (
        "mixed-sum-of-numbers",
        MIX,
        "(draw < teacher_forcing_ratio) * decoder_input + (draw >= teacher_forcing_ratio) * guesses.to(draw.dtype)",
        "The tokens have become floating-point numbers. They have the dtype of `decoder_input`.",
    ),
):
    scheduled_sampling.slip(_id, _old, _new, _hint)


greedy_search = Check(
    reference.greedy_search,
    difficulty="core",
    minutes=25,
    hints=(
        "Begin with a prefix of one column, `start`. Each step asks the model about the whole prefix and adds a column.",
        "`max(dim=-1)` of a tensor gives the largest numbers and their places at once.",
        "Keep a boolean for each sentence that says whether it has ended. It can only turn from False to True.",
        "A sentence that ended before this step says `pad`, and its log-probability stays as it is. The step that says `eos` "
        "still counts.",
    ),
)


def _influence(draw, places, vocab_size, scale=1.0):
    """What a token adds to the logits of the places after it: less from place to place."""
    return scale * draw.normal(places, vocab_size, vocab_size) * 0.6 ** np.arange(places)[:, None, None]


def _greedy_inputs(draw, ends, steps, max_length):
    """A model by which sentence ``i`` says ``eos`` at step ``ends[i]``, and no special token before.

    After it, it says whatever comes, ``eos`` too, but not padding. ``eos`` has a rival, so it is never certain.
    """
    vocab_size = 2 * int(draw.rng.integers(4, 6))
    eos = int(draw.rng.integers(1, vocab_size))
    others = np.setdiff1d(np.arange(1, vocab_size), [eos, _mirrored(eos, vocab_size)])
    bos, pad, rival = (int(token) for token in draw.rng.permutation(others)[:3])
    bias, influence = draw.normal(len(ends), steps, vocab_size), _influence(draw, steps, vocab_size)
    influence[..., rival] = influence[..., eos]
    for sentence, end in enumerate(ends):
        bias[sentence, :end, [bos, eos, pad]] -= 12
        bias[sentence, end, eos] += 12
        bias[sentence, end, rival] = bias[sentence, end, eos] - 1
        bias[sentence, end + 1 :, pad] -= 12
    start = np.full(len(ends), bos)
    return {"bias": bias, "influence": influence, "start": start, "eos": eos, "pad": pad, "max_length": max_length}


def _mirrored(token, vocab_size):
    """The token that stands in this one's place where the vocabulary is in reverse order, as in repeated calls."""
    return vocab_size - 1 - token


@greedy_search.aspect("one sentence", points=1)
def _greedy_values(draw):
    end, room = sorted(draw.sizes(2, 3, 8))
    yield Case("a sentence that ends", _greedy_inputs(draw, [end], room + 4, room + 2))
    yield Case("a sentence that ends at once", _greedy_inputs(draw, [0], room + 4, room))
    yield Case("a sentence that is cut off", _greedy_inputs(draw, [room + 2], room + 4, end))
    yield Case("room for a single token", _greedy_inputs(draw, [end], room + 4, 1))


@greedy_search.aspect("each sentence stops for itself", points=2)
def _greedy_batch(draw):
    ends = draw.sizes(4, 1, 8)
    yield Case("several sentences", _greedy_inputs(draw, ends, 14, 12))
    yield Case("the first ends last", _greedy_inputs(draw, sorted(ends, reverse=True), 14, 12))
    yield Case("some are cut off", _greedy_inputs(draw, [10, *ends], 14, max(ends)))
    yield Case("all end together", _greedy_inputs(draw, [5, 5, 5], 14, 12))
    yield Case("as many sentences as steps", _greedy_inputs(draw, [4, 1, 3, 2, 0], 14, 12))


@greedy_search.aspect("single precision, several calls, wrong arguments", points=1)
def _greedy_other(draw):
    inputs = _greedy_inputs(draw, draw.sizes(3, 1, 6), 12, 10)
    bias = inputs["bias"]
    bias[..., _mirrored(inputs["eos"], bias.shape[-1])] -= 24  # the other calls are cut off, whatever was drawn
    yield Case("single precision, several calls", inputs, dtype="float32", repeated=True)
    yield Case("no room for any token", inputs | {"max_length": 0}, refused=True)


GREEDY_BEGIN = "prefix, total = start[:, None], 0.0"
GREEDY_WHILE = "while prefix.shape[1] <= max_length and not ended.all():"
CHOOSE = "log_probs, tokens = next_log_probs(prefix).max(dim=-1)"
ADD = "total = total + log_probs.masked_fill(ended, 0.0)"
GROW = "prefix = torch.cat([prefix, tokens.masked_fill(ended, pad)[:, None]], dim=1)"
ENDED = "ended = ended | (tokens == eos)"
GREEDY_END = "return prefix[:, 1:], total"

for _id, _old, _new, _hint, _source in (
    (
        "greedy-speaks-after-the-end",
        GROW,
        "prefix = torch.cat([prefix, tokens[:, None]], dim=1)",
        "A sentence that has ended speaks on until the others have ended too. After its `eos` it should say `pad`.",
        "",
    ),
    (
        "greedy-eos-as-padding",
        GROW,
        "prefix = torch.cat([prefix, tokens.masked_fill(ended, eos)[:, None]], dim=1)",
        "A sentence that has ended is filled up with `eos`; `pad` is asked for.",
        "",
    ),
    (
        "greedy-zero-as-padding",
        GROW,
        "prefix = torch.cat([prefix, tokens.masked_fill(ended, 0)[:, None]], dim=1)",
        "A sentence that has ended is filled up with zeros, whatever `pad` is.",
        "",
    ),
    (
        "greedy-eos-dropped",
        GROW + "\n        " + ENDED,
        ENDED + "\n        " + GROW,
        "`eos` itself is missing: it is the last token of a sentence, and padding comes after it.",
        "",
    ),
    (
        "greedy-last-step-missing",
        GROW + "\n        " + ENDED,
        "before, ended = ended, ended | (tokens == eos)\n"
        "        if ended.all():\n"
        "            break\n"
        "        prefix = torch.cat([prefix, tokens.masked_fill(before, pad)[:, None]], dim=1)",
        "The loop is left before the last tokens are added, so that the longest sentence lacks its `eos`.",
        "",
    ),
    (
        "greedy-ends-forgotten",
        ENDED,
        "ended = tokens == eos",
        "A sentence that has ended begins to speak again one step later: whether it has ended is forgotten.",
        "",
    ),
    (
        "greedy-stops-at-the-first-end",
        GREEDY_WHILE,
        "while prefix.shape[1] <= max_length and not ended.any():",
        "All sentences stop when the first one ends; go on until every one has ended.",
        "",
    ),
    (
        "greedy-never-stops-early",
        GREEDY_WHILE,
        "while prefix.shape[1] <= max_length:",
        "Steps are taken after every sentence has ended, up to the largest length.",
        "",
    ),
    (
        "greedy-no-largest-length",
        GREEDY_WHILE,
        "while not ended.all():",
        "A sentence that does not end goes on beyond `max_length`.",
        "",
    ),
    (
        "greedy-one-token-too-many",
        GREEDY_WHILE,
        "while prefix.shape[1] <= max_length + 1 and not ended.all():",
        "One token more than `max_length` is said.",
        "",
    ),
    (
        "greedy-start-counted",
        GREEDY_WHILE,
        "while prefix.shape[1] < max(max_length, 2) and not ended.all():",
        "One token fewer than `max_length` is said. `start` stands in the prefix, but is not among the tokens that count.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "greedy-start-kept",
        GREEDY_END,
        "return prefix, total",
        "`start` stands in front of the result; the sentence begins with the first token that the model says.",
        "",
    ),
    (
        "greedy-last-token-alone",
        CHOOSE,
        "log_probs, tokens = next_log_probs(prefix[:, -1:]).max(dim=-1)",
        "The model is shown the last token alone. It has no state that remembers the others: show it the whole prefix.",
        "",
    ),
    (
        "greedy-start-not-shown",
        CHOOSE,
        "log_probs, tokens = next_log_probs(prefix[:, 1:] if prefix.shape[1] > 1 else prefix).max(dim=-1)",
        "After the first step the model is no longer shown `start`, so every token stands at the wrong place.",
        "",
    ),
    (
        "greedy-argmin",
        CHOOSE,
        "log_probs, tokens = next_log_probs(prefix).min(dim=-1)",
        "You take the least probable token.",
        "",
    ),
    (
        "greedy-log-prob-after-the-end",
        ADD,
        "total = total + log_probs",
        "The log-probability goes on growing after a sentence has ended: padding counts.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "greedy-log-prob-of-padding",
        CHOOSE + "\n        " + ADD,
        "scores = next_log_probs(prefix)\n"
        "        tokens = scores.argmax(dim=-1).masked_fill(ended, pad)\n"
        "        total = total + scores.gather(-1, tokens[:, None])[:, 0]",
        "After the end of a sentence the log-probability of `pad` is added at each step. It stays as it is.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "greedy-log-prob-without-eos",
        ADD,
        "total = total + log_probs.masked_fill(ended | (tokens == eos), 0.0)",
        "The log-probability of `eos` is missing in the sum: to stop is a choice like any other.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "greedy-probabilities-added",
        ADD,
        "total = total + log_probs.exp().masked_fill(ended, 0.0)",
        "You add up probabilities; add up their logarithms.",
        "",
    ),
    (
        "greedy-probability",
        GREEDY_END,
        "return prefix[:, 1:], total.exp()",
        "You return the probability of each sentence; its logarithm is asked for.",
        "",
    ),
    (
        "greedy-mean-of-log-probs",
        GREEDY_END,
        "return prefix[:, 1:], total / (prefix.shape[1] - 1)",
        "The log-probability is divided by the number of steps; the sum is asked for.",
        "",
    ),
    (
        "greedy-last-log-prob",
        ADD,
        "total = torch.where(ended, total, log_probs)",
        "You return the log-probability of the last token alone; add up those of all tokens.",
        "",
    ),
    (
        "greedy-softmax-again",
        CHOOSE,
        "log_probs, tokens = torch.softmax(next_log_probs(prefix), dim=-1).max(dim=-1)",
        "The model's log-probabilities are put through a softmax, so what you add up is probabilities.",
        "",
    ),
    (
        "greedy-time-first",
        GREEDY_END,
        "return prefix[:, 1:].T, total",
        "Your tokens have the steps as first axis. In this course the batch comes first.",
        "",
    ),
    (
        "greedy-squeezed",
        GREEDY_END,
        "return prefix[:, 1:].squeeze(), total.squeeze()",
        "`squeeze` removes every axis of length 1, also a batch of one or a single token.",
        "",
    ),
    (
        "greedy-score-first",
        GREEDY_END,
        "return total, prefix[:, 1:]",
        "Tokens and log-probabilities come out in each other's place.",
        "",
    ),
    (
        "greedy-padded-to-the-end",
        GREEDY_END,
        "missing = max(max_length + 1 - prefix.shape[1], 0)\n"
        "    return torch.nn.functional.pad(prefix, (0, missing), value=pad)[:, 1:], total",
        "The result is filled up to `max_length`; the longest sentence should end it.",
        "",
    ),
):
    greedy_search.slip(_id, _old, _new, _hint, _source)


beam_search = Check(
    reference.beam_search,
    difficulty="stretch",
    minutes=60,
    hints=(
        "Keep two things for the live hypotheses: their tokens, one in each row, and their log-probabilities. In the beginning "
        "there is one, which has said nothing but `bos`.",
        "A step asks the model once, for all live hypotheses. Add each one's log-probability to its row: that is a matrix "
        "of all continuations. The best of the *whole* matrix are kept.",
        "Flatten the matrix. A place in it is `parent * V + token`; integer division and remainder take it apart.",
        "Put those that said `eos` on a list, with their score, and go on with the rest. In the last step all of them go "
        "on the list.",
        "The length of a hypothesis is the number of the step at which it came on the list. Only there is anything divided.",
    ),
)


def _beam_inputs(draw, beam_size, max_length, alpha, eos_bias=0.0, vocab_size=None):
    """A model of few tokens, in which the last token says much about the next one."""
    vocab_size = int(draw.rng.integers(5, 8)) if vocab_size is None else vocab_size
    bos, eos = (int(token) for token in draw.rng.permutation(vocab_size)[:2])
    bias = 0.7 * draw.normal(max_length + 2, vocab_size)
    bias[:, eos] += eos_bias
    return {
        "bias": bias,
        "influence": _influence(draw, max_length + 2, vocab_size, scale=1.5),
        "bos": bos,
        "eos": eos,
        "beam_size": beam_size,
        "max_length": max_length,
        "alpha": alpha,
    }


# Mistakes by what they are about. They show on cases drawn for it, and are kept from others, where chance would decide.
LOSES = (
    "beam-stops-at-first-end",
    "beam-first-end-wins",
    "beam-cut-off-dropped",
    "beam-stops-when-full",
    "beam-narrows",
    "beam-ends-hold-their-places",
    "beam-ends-compete-by-score",
    "beam-always-full",
    "beam-stops-when-the-best-has-ended",
)
MISLEADS = ("beam-starts-with-copies", "beam-parents-ignored", "beam-best-of-each-parent", "beam-not-cut")
MISCOUNTS = ("beam-one-token-too-few", "beam-one-token-too-many", "beam-cut-off-not-divided")
DRAWS = 5000


def _drawn_until(make, told=(), untold=(), dtype="float64"):
    """Inputs that ``make`` draws, again until each mistake of ``told`` shows on them, and none of ``untold``."""
    kernels = {mistake.id: mistake.kernel for mistake in beam_search.mistakes}
    for _ in range(DRAWS):
        case = Case("", make(), dtype=dtype)
        target = probes.beam_search(reference.beam_search, case)

        def shows(mistake, case=case, target=target):
            return not same(target, probes.beam_search(kernels[mistake], case))

        if all(map(shows, told)) and not any(map(shows, untold)):
            return case.inputs
    raise RuntimeError(f"In {DRAWS} draws there was none that shows {told} and hides {untold}; ask less of one case.")


@beam_search.aspect("the most probable hypothesis", points=2)
def _beam_values(draw):
    def inputs(told, *arguments, **options):
        return _drawn_until(lambda: _beam_inputs(draw, *arguments, **options), told, untold=LOSES)

    yield Case("a beam of one", inputs((), 1, 6, 0.0))
    ends = ("beam-ends-dropped", "beam-ends-extended", "beam-score-aliased", "beam-eos-dropped")
    yield Case("a beam of two", inputs(("beam-starts-with-copies", *ends), 2, 5, 0.0))
    parents = ("beam-starts-with-copies", "beam-parents-ignored", "beam-best-of-each-parent")
    yield Case("a beam of three", inputs(parents, 3, 5, 0.0))
    cut = (
        "beam-not-cut",
        "beam-one-token-too-few",
        "beam-one-token-too-many",
        "beam-last-token-alone",
        "beam-eos-added",
    )
    yield Case("a beam that loses the best", inputs(cut, 2, 4, 0.0, eos_bias=-1.0))
    yield Case("a beam as wide as the space", inputs((), 4**3, 3, 0.0, vocab_size=4))
    yield Case("room for a single token", inputs((), 3, 1, 0.0))


@beam_search.aspect("scores by length", points=2)
def _beam_lengths(draw):
    later = "beam-stops-at-first-end", "beam-first-end-wins"

    def inputs(told, *arguments, **options):
        untold = [mistake for mistake in LOSES + MISLEADS if mistake not in later]
        return _drawn_until(lambda: _beam_inputs(draw, *arguments, **options), told, untold)

    yield Case("divided by the length", inputs(("beam-chosen-by-sum", *later), 3, 5, 1.0))
    lengths = ("beam-chosen-by-sum", "beam-length-without-eos", "beam-length-is-the-largest", "beam-ends-dropped")
    yield Case("divided by a power of the length", inputs(lengths, 3, 6, 0.6, eos_bias=1.0))
    yield Case("long hypotheses", inputs(MISCOUNTS, 3, 6, 0.8, eos_bias=-8.0))
    yield Case("short hypotheses", inputs((), 3, 6, 1.5, eos_bias=2.0))


@beam_search.aspect("no hypothesis is lost", points=2)
def _beam_ends(draw):
    def inputs(told, *arguments, **options):
        return _drawn_until(lambda: _beam_inputs(draw, *arguments, **options), told, untold=("beam-not-cut",))

    later = (
        "beam-stops-when-full",
        "beam-stops-at-first-end",
        "beam-stops-when-the-best-has-ended",
        "beam-first-end-wins",
        "beam-length-without-eos",
    )
    yield Case("a later end is better", inputs(later, 2, 6, 1.0, eos_bias=1.0))
    yield Case("an earlier end is better", inputs(("beam-ends-dropped", "beam-ends-extended"), 3, 5, 0.0))
    full = ("beam-narrows", "beam-ends-hold-their-places", *MISLEADS[:3])
    yield Case("a beam that is full again", inputs(full, 3, 6, 1.5, eos_bias=1.0))
    kept = ("beam-always-full", "beam-ends-compete-by-score")
    yield Case("no more than the beam is wide", inputs(kept, 2, 7, 2.0, eos_bias=2.0))
    cut_off = ("beam-cut-off-dropped", "beam-cut-off-not-divided")
    yield Case("one that is cut off is best", inputs(cut_off, 3, 4, 1.0, eos_bias=-1.0))
    yield Case("none comes to its end", inputs((), 2, 4, 0.5, eos_bias=-30.0))


@beam_search.aspect("single precision, impossible tokens, wrong arguments", points=1)
def _beam_other(draw):
    def impossible():
        inputs = _beam_inputs(draw, 4, 5, 0.7, eos_bias=1.0, vocab_size=7)
        words = [token for token in range(7) if token not in (inputs["bos"], inputs["eos"])]
        inputs["bias"][:, words[:2]] = -np.inf
        return inputs

    untold = LOSES + MISLEADS + MISCOUNTS
    told = (
        "beam-length-without-eos",
        "beam-length-is-the-largest",
        "beam-ends-dropped",
        "beam-divided-again-and-again",
    )
    inputs = _drawn_until(lambda: _beam_inputs(draw, 3, 5, 0.7, eos_bias=1.0), told, untold, "float32")
    yield Case("single precision, several calls", inputs, dtype="float32", repeated=True)
    inputs = _drawn_until(impossible, ("beam-not-normalised",), untold)
    yield Case("tokens of probability zero", inputs)
    yield Case("a beam of none", inputs | {"beam_size": 0}, refused=True)
    yield Case("no room for any token", inputs | {"max_length": 0}, refused=True)


BEAM_BEGIN = "live, log_probs = torch.tensor([[bos]]), torch.zeros(1)"
LOOP = "for length in range(1, max_length + 1):"
TOTALS = "totals = log_probs[:, None] + next_log_probs(live)"
KEEP = "log_probs, places = totals.flatten().topk(min(beam_size, totals.numel()))"
APART = "parents, tokens = places // totals.shape[1], places % totals.shape[1]"
EXTEND = "live = torch.cat([live[parents], tokens[:, None]], dim=1)"
OVER = "ended = (tokens == eos) | (length == max_length)"
COLLECT = "hypotheses += zip(log_probs[ended] / length**alpha, live[ended, 1:], strict=True)"
GO_ON = "live, log_probs = live[~ended], log_probs[~ended]"
EMPTY = "if len(live) == 0:"
BEST = "score, best = max(hypotheses, key=lambda hypothesis: hypothesis[0])"
BEAM_END = "return best, score"

for _id, _old, _new, _hint, _source in (
    (
        "beam-not-normalised",
        COLLECT,
        "hypotheses += zip(log_probs[ended], live[ended, 1:], strict=True)",
        "Hypotheses of different lengths compete by their sums, so the short ones win. Divide by the length to the power of "
        "`alpha`.",
        "",
    ),
    (
        "beam-alpha-ignored",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / length, live[ended, 1:], strict=True)",
        "You divide by the length itself, whatever `alpha` is.",
        "",
    ),
    (
        "beam-alpha-times-length",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / (alpha * length or 1), live[ended, 1:], strict=True)",
        "You divide by `alpha` times the length; `alpha` is its exponent.",
        "",
    ),
    (
        "beam-multiplied-by-length",
        COLLECT,
        "hypotheses += zip(log_probs[ended] * length**alpha, live[ended, 1:], strict=True)",
        "You multiply by the power of the length. A log-probability is negative, so that punishes long hypotheses once more.",
        "",
    ),
    (
        "beam-length-of-wu",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / ((5 + length) / 6) ** alpha, live[ended, 1:], strict=True)",
        "This is the length of Wu and others, (5 + length) / 6. The length itself is asked for.",
        "",
    ),
    (
        "beam-length-without-eos",
        COLLECT,
        "said = length - (tokens[ended] == eos).to(log_probs.dtype)\n"
        "        hypotheses += zip(log_probs[ended] / said.clamp(min=1) ** alpha, live[ended, 1:], strict=True)",
        "The length does not count `eos`. Its log-probability is in the sum, so it counts.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "beam-length-with-bos",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / (length + 1) ** alpha, live[ended, 1:], strict=True)",
        "The length counts `bos` too. That token was given, not said.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "beam-length-one-less",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / max(length - 1, 1) ** alpha, live[ended, 1:], strict=True)",
        "Every length is one too small. All tokens that were said count; only `bos` does not.",
        "https://github.com/awslabs/sockeye/issues/483",
    ),
    (
        "beam-length-is-the-largest",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / max_length**alpha, live[ended, 1:], strict=True)",
        "All scores are divided by the same length, `max_length`. Each hypothesis has its own.",
        "",
    ),
    (
        "beam-divided-again-and-again",
        GO_ON,
        "live, log_probs = live[~ended], log_probs[~ended] / length**alpha",
        "The sums of the live hypotheses are divided at every step, so the first tokens are divided many times. Divide once, "
        "when a hypothesis is over.",
        "",
    ),
    (
        "beam-chosen-by-sum",
        COLLECT + "\n        " + GO_ON,
        "hypotheses += zip(log_probs[ended], live[ended, 1:], strict=True)\n        " + GO_ON,
        "The best hypothesis is chosen by its sum, and only then is its score divided. Divide first, then compare.",
        "",
    ),
    (
        "beam-cut-off-not-divided",
        COLLECT,
        "powers = torch.where(tokens[ended] == eos, length**alpha, 1.0).to(log_probs.dtype)\n"
        "        hypotheses += zip(log_probs[ended] / powers, live[ended, 1:], strict=True)",
        "Hypotheses that are cut off compete by their sum, the others by their score. Divide both.",
        "https://github.com/awslabs/sockeye/issues/545",
    ),
    (
        "beam-cut-off-dropped",
        BEST,
        "over = [hypothesis for hypothesis in hypotheses if hypothesis[1][-1] == eos]\n"
        "    score, best = max(over or hypotheses, key=lambda hypothesis: hypothesis[0])",
        "Hypotheses that are cut off at `max_length` never win against one that came to its end. They compete by the same "
        "score.",
        "",
    ),
    (
        "beam-stops-at-first-end",
        EMPTY,
        "if len(live) == 0 or hypotheses:",
        "The search stops when the first hypothesis has come to its end. One that ends later may have a better score.",
        "",
    ),
    (
        "beam-stops-when-full",
        EMPTY,
        "if len(live) == 0 or len(hypotheses) >= beam_size:",
        "The search stops when as many hypotheses have ended as the beam is wide. One that is still alive may have a better "
        "score.",
        "",
    ),
    (
        "beam-stops-when-the-best-has-ended",
        EMPTY,
        "if len(live) == 0 or any(score * len(said) ** alpha >= log_probs.max() for score, said in hypotheses):",
        "The search stops when one that has ended has a larger sum than all that live. A live one that gets longer may still "
        "have the better score.",
        "",
    ),
    (
        "beam-first-end-wins",
        BEST,
        "score, best = hypotheses[0]",
        "You return the hypothesis that came to its end first; the one with the best score is asked for.",
        "",
    ),
    (
        "beam-last-end-wins",
        BEST,
        "score, best = hypotheses[-1]",
        "You return the hypothesis that came to its end last; the one with the best score is asked for.",
        "",
    ),
    (
        "beam-worst",
        BEST,
        "score, best = min(hypotheses, key=lambda hypothesis: hypothesis[0])",
        "You return the hypothesis with the lowest score. A score is a log-probability, so larger is better.",
        "",
    ),
    (
        "beam-ends-dropped",
        EMPTY,
        "if length < max_length and len(live):\n            hypotheses.clear()\n        else:",
        "Hypotheses that ended before the last step are lost. Keep them, and let them compete.",
        "",
    ),
    (
        "beam-ends-extended",
        OVER,
        "ended = torch.full_like(tokens, length == max_length, dtype=torch.bool)",
        "Hypotheses go on after their `eos`. One that has said it is over.",
        "",
    ),
    (
        "beam-narrows",
        KEEP,
        "log_probs, places = totals.flatten().topk(min(max(beam_size - len(hypotheses), 1), totals.numel()))",
        "Each hypothesis that ends takes a place of the beam for good. The live ones have all `beam_size` places again at the "
        "next step.",
        "",
    ),
    (
        "beam-always-full",
        KEEP,
        "order = totals.flatten().argsort(descending=True)\n"
        "        goes_on = (order % totals.shape[1] != eos).long()\n"
        "        places = order[goes_on.cumsum(0) - goes_on < beam_size]\n"
        "        log_probs = totals.flatten()[places]",
        "`beam_size` hypotheses live on at each step, and those that end come on top. Here `beam_size` continuations are kept "
        "in all, the ended ones among them.",
        "",
    ),
    (
        "beam-topk-too-large",
        KEEP,
        "log_probs, places = totals.flatten().topk(beam_size)",
        "There may be fewer continuations than the beam is wide, in the first step above all. Then keep all of them.",
        "",
    ),
    (
        "beam-best-of-each-parent",
        KEEP + "\n        " + APART,
        KEEP + "\n        " + APART + "\n"
        "        if length > 1:\n"
        "            log_probs, tokens = totals.max(dim=1)\n"
        "            parents = torch.arange(len(live))",
        "After the first step each hypothesis is continued by its own best token. All continuations compete: a good hypothesis "
        "may have two children, and a bad one none.",
        "",
    ),
    (
        "beam-not-cut",
        KEEP,
        "per_parent = totals.topk(min(beam_size, totals.shape[1]), dim=1)\n"
        "        log_probs = per_parent.values.flatten()\n"
        "        places = (per_parent.indices + torch.arange(len(live))[:, None] * totals.shape[1]).flatten()",
        "The best `beam_size` continuations of *each* hypothesis are kept, so the beam grows at every step. Keep the best of "
        "all.",
        "",
    ),
    (
        "beam-probabilities-added",
        TOTALS,
        "totals = log_probs[:, None] + next_log_probs(live).exp()",
        "You add up probabilities; add up their logarithms.",
        "",
    ),
    (
        "beam-step-alone",
        TOTALS,
        "totals = next_log_probs(live)",
        "Continuations compete by the log-probability of their last token alone. Add what the hypothesis had before.",
        "",
    ),
    (
        "beam-starts-with-copies",
        BEAM_BEGIN,
        "live, log_probs = torch.full((beam_size, 1), bos), torch.zeros(beam_size)",
        "The search begins with `beam_size` copies of the same hypothesis. They make the same continuations, so the beam is "
        "full of one hypothesis. Begin with one.",
        "",
    ),
    (
        "beam-is-greedy",
        BEAM_BEGIN,
        "beam_size = 1\n    " + BEAM_BEGIN,
        "Only the most probable hypothesis is kept at each step, which is greedy search. Keep `beam_size` of them.",
        "",
    ),
    (
        "beam-last-token-alone",
        TOTALS,
        "totals = log_probs[:, None] + next_log_probs(live[:, -1:])",
        "The model is shown the last tokens alone. It has no state that remembers the others: show it the whole prefix.",
        "",
    ),
    (
        "beam-true-division",
        APART,
        "parents, tokens = places / totals.shape[1], places % totals.shape[1]",
        "The parent is found by `/`, which gives a fraction. Integer division is `//`.",
        "https://github.com/ZubinGou/CS224n-Assignment",
    ),
    (
        "beam-parent-and-token-swapped",
        APART,
        "parents, tokens = places % totals.shape[1], places // totals.shape[1]",
        "Parent and token are swapped: the matrix has one row for each hypothesis, so the quotient is the parent.",
        "",
    ),
    (
        "beam-divided-by-the-beam",
        APART,
        "parents, tokens = places // len(live), places % len(live)",
        "A place in the flattened matrix is taken apart by the number of hypotheses; a row has as many entries as the "
        "vocabulary has tokens.",
        "",
    ),
    (
        "beam-parents-ignored",
        EXTEND,
        "live = torch.cat([live[torch.arange(len(parents)) % len(live)], tokens[:, None]], dim=1)",
        "New tokens are appended to the hypotheses in their old order. Each belongs to its own parent.",
        "",
    ),
    (
        "beam-bos-kept",
        COLLECT,
        "hypotheses += zip(log_probs[ended] / length**alpha, live[ended], strict=True)",
        "`bos` stands in front of the result; it begins with the first token that the model says.",
        "",
    ),
    (
        "beam-eos-dropped",
        BEAM_END,
        "return best[best != eos], score",
        "`eos` is missing at the end of the result.",
        "",
    ),
    (
        "beam-eos-added",
        BEAM_END,
        "return best if best[-1] == eos else torch.cat([best, torch.tensor([eos])]), score",
        "A hypothesis that was cut off has an `eos` that the model did not say.",
        "",
    ),
    (
        "beam-one-token-too-many",
        LOOP,
        "max_length += 1\n    " + LOOP,
        "One token more than `max_length` may be said.",
        "",
    ),
    (
        "beam-one-token-too-few",
        LOOP,
        "max_length = max(max_length - 1, 1)\n    " + LOOP,
        "One token fewer than `max_length` may be said. `bos` is not among the tokens that count.",
        "",
    ),
    (
        "beam-score-is-the-sum",
        BEAM_END,
        "return best, score * len(best) ** alpha",
        "The hypothesis is right, but its log-probability comes with it; its score is asked for.",
        "",
    ),
    (
        "beam-score-first",
        BEAM_END,
        "return score, best",
        "Tokens and score come out in each other's place.",
        "",
    ),
):
    beam_search.slip(_id, _old, _new, _hint, _source)


@beam_search.mistake(
    "beam-score-aliased",
    "The score of a hypothesis that has ended is a view into the scores of the beam, which you overwrite afterwards. Keep a "
    "copy.",
    "https://github.com/speechbrain/speechbrain/pull/2253",
)
def _score_aliased(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    if min(beam_size, max_length) < 1:
        raise ValueError(f"beam_size is {beam_size} and max_length is {max_length}; both must be at least 1.")
    live, log_probs = torch.tensor([[bos]]), torch.zeros(1)
    hypotheses = []
    for length in range(1, max_length + 1):
        totals = log_probs[:, None] + next_log_probs(live)
        log_probs, places = totals.flatten().topk(min(beam_size, totals.numel()))
        live = torch.cat([live[places // totals.shape[1]], places[:, None] % totals.shape[1]], dim=1)
        for row in range(len(live)):
            if live[row, -1] == eos or length == max_length:
                hypotheses.append((log_probs[row], length, live[row, 1:]))
        if length < max_length:
            log_probs[live[:, -1] == eos] = -torch.inf
    return max(
        ((tokens, score / length**alpha) for score, length, tokens in hypotheses), key=lambda hypothesis: hypothesis[1]
    )


def _ends_in_the_beam(score_of, next_log_probs, bos, eos, beam_size, max_length, alpha):
    """A search in which hypotheses that have ended keep their places until better ones take them."""
    if min(beam_size, max_length) < 1:
        raise ValueError(f"beam_size is {beam_size} and max_length is {max_length}; both must be at least 1.")
    beam = [(torch.tensor(0.0), [bos])]
    for _ in range(max_length):
        live = [(total, said) for total, said in beam if said[-1] != eos or len(said) == 1]
        if not live:
            break
        rows = next_log_probs(torch.tensor([said for _, said in live]))
        grown = [
            (total + log_prob, [*said, token])
            for (total, said), row in zip(live, rows, strict=True)
            for token, log_prob in enumerate(row)
        ]
        rest = [(total, said) for total, said in beam if said[-1] == eos and len(said) > 1]
        beam = sorted(rest + grown, key=lambda hypothesis: score_of(*hypothesis), reverse=True)[:beam_size]
    score, said = max((total / (len(said) - 1) ** alpha, said) for total, said in beam)
    return torch.tensor(said[1:]), score


@beam_search.mistake(
    "beam-ends-hold-their-places",
    "Hypotheses that have ended stay in the beam and compete with the live ones for its places, so fewer and fewer are "
    "extended. They leave the beam.",
)
def _ends_hold_their_places(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    return _ends_in_the_beam(lambda total, said: total, next_log_probs, bos, eos, beam_size, max_length, alpha)


@beam_search.mistake(
    "beam-ends-compete-by-score",
    "Hypotheses that have ended stay in the beam and compete by their score with the live ones for its places. They leave "
    "the beam.",
)
def _ends_compete_by_score(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    def score_of(total, said):
        return total / (len(said) - 1) ** alpha

    return _ends_in_the_beam(score_of, next_log_probs, bos, eos, beam_size, max_length, alpha)


nat_decode_by_length = Check(
    reference.nat_decode_by_length,
    difficulty="core",
    minutes=15,
    hints=(
        "Three things, one after the other: the most probable length of each sentence, one call of `emit`, the most probable "
        "token of each place.",
        "The tokens have as many places as the longest sentence of the batch. Which places lie beyond the end of a shorter "
        "one? Compare place numbers with lengths.",
        "Lengths as a column, (B, 1), compare with every place of their own row.",
    ),
)


def _by_length_inputs(draw, lengths, num_lengths, vocab_size):
    """Logits of lengths of which these are the most probable, and logits for each sentence, length, and place."""
    batch = len(lengths)
    length_logits = draw.normal(batch, num_lengths)
    length_logits[np.arange(batch), lengths] = length_logits.max(axis=1) + 0.5
    table = draw.normal(batch, num_lengths, num_lengths - 1, vocab_size)
    pad = int(draw.rng.integers(1, vocab_size))
    table[..., pad] -= 12  # no place says padding by itself
    return {"length_logits": length_logits, "table": table, "pad": pad}


@nat_decode_by_length.aspect("sentences of one length", points=1)
def _by_length_values(draw):
    batch, length, vocab_size = draw.sizes(3, 3, 8)
    yield Case("several sentences", _by_length_inputs(draw, [length] * batch, length + 4, vocab_size))
    yield Case("one sentence", _by_length_inputs(draw, [length], length + 3, vocab_size))
    yield Case("the largest length there is", _by_length_inputs(draw, [length] * batch, length + 1, vocab_size))


@nat_decode_by_length.aspect("sentences of different lengths", points=1)
def _by_length_ragged(draw):
    lengths = draw.sizes(4, 1, 7)
    yield Case("several sentences", _by_length_inputs(draw, lengths, 9, 6))
    yield Case("as many sentences as lengths", _by_length_inputs(draw, [3, 1, 4, 2, 3, 1], 6, 7))
    yield Case("a sentence without words", _by_length_inputs(draw, [lengths[0], 0, lengths[1]], 9, 6))
    yield Case("no sentence has words", _by_length_inputs(draw, [0, 0, 0], 5, 6))
    inputs = _by_length_inputs(draw, lengths, 9, 6)
    yield Case("single precision, several calls", inputs, dtype="float32", repeated=True)


PREDICT = "lengths = length_logits.argmax(dim=-1)"
EMIT = "tokens = emit(lengths).argmax(dim=-1)"
BEYOND = "beyond = torch.arange(tokens.shape[1]) >= lengths[:, None]"
BY_LENGTH_END = "return tokens.masked_fill(beyond, pad)"

for _id, _old, _new, _hint in (
    (
        "by-length-not-padded",
        BY_LENGTH_END,
        "return tokens",
        "The shorter sentences speak on up to the end of the longest one; put `pad` beyond their own length.",
    ),
    (
        "by-length-zero-as-padding",
        BY_LENGTH_END,
        "return tokens.masked_fill(beyond, 0)",
        "Shorter sentences are filled up with zeros, whatever `pad` is.",
    ),
    (
        "by-length-counted-from-one",
        PREDICT,
        "lengths = (length_logits.argmax(dim=-1) + 1).clamp(max=length_logits.shape[1] - 1)",
        "Every length is one too large: class 0 of the length logits is the length 0.",
    ),
    (
        "by-length-place-counted-from-one",
        BEYOND,
        "beyond = torch.arange(tokens.shape[1]) + 1 >= lengths[:, None]",
        "The last token of each sentence is padding: place `t`, counted from 0, belongs to a sentence if `t` is below its "
        "length.",
    ),
    (
        "by-length-one-token-too-many",
        BEYOND,
        "beyond = torch.arange(tokens.shape[1]) > lengths[:, None]",
        "Each shorter sentence has one token too many: place `t`, counted from 0, belongs to it if `t` is below its length.",
    ),
    (
        "by-length-mask-inverted",
        BEYOND,
        "beyond = torch.arange(tokens.shape[1]) < lengths[:, None]",
        "The sentences themselves are filled with padding.",
    ),
    (
        "by-length-largest-for-all",
        PREDICT,
        "lengths = length_logits.argmax(dim=-1).amax().expand(len(length_logits))",
        "All sentences get the length of the longest one.",
    ),
    (
        "by-length-mean-length",
        PREDICT,
        "expected = length_logits.softmax(dim=-1) @ torch.arange(length_logits.shape[1]).to(length_logits.dtype)\n"
        "    lengths = expected.round().long()",
        "You take the mean length. Between two probable lengths that may be one that never occurs: take the most probable.",
    ),
    (
        "by-length-least-probable",
        EMIT,
        "tokens = emit(lengths).argmin(dim=-1)",
        "You take the least probable token of each place.",
    ),
    (
        "by-length-over-places",
        EMIT,
        "logits = emit(lengths)\n"
        "    tokens = logits.argmax(dim=1)[:, : logits.shape[1]] if logits.shape[1] else logits[..., 0].long()",
        "Your maximum runs over the places; it must run over the vocabulary, the last axis.",
    ),
    (
        "by-length-one-place-at-a-time",
        EMIT,
        "count = max(int(lengths.max()), 1)\n"
        "    tokens = torch.stack([emit(lengths)[:, t : t + 1] for t in range(count)], dim=1).flatten(1, 2).argmax(dim=-1)",
        "The decoder is called once for each place. One call gives all places at once.",
    ),
    (
        "by-length-one-sentence-at-a-time",
        EMIT,
        "tokens = torch.cat([emit(lengths)[row : row + 1] for row in range(len(lengths))]).argmax(dim=-1)",
        "The decoder is called once for each sentence. One call serves the whole batch.",
    ),
):
    nat_decode_by_length.slip(_id, _old, _new, _hint)


nat_decode_until_eos = Check(
    reference.nat_decode_until_eos,
    difficulty="core",
    minutes=15,
    hints=(
        "Take the most probable token of each place first. All that follows is about whole numbers.",
        "A place is cut off if some place *before* it says `eos`. The first `eos` itself stays.",
        "`cumsum` along a sentence counts how many times `eos` was said up to each place. What must be taken off to leave "
        "out the place itself?",
    ),
)


def _until_eos_inputs(draw, ends, tokens, vocab_size):
    """Logits by which each sentence says ``eos`` at the places named and at no other, and never padding."""
    eos, pad = (int(token) for token in draw.rng.permutation(np.arange(1, vocab_size))[:2])
    logits = draw.normal(len(ends), tokens, vocab_size)
    logits[..., [eos, pad]] -= 12
    for row, places in enumerate(ends):
        logits[row, list(places), eos] += 24
    return {"logits": logits, "eos": eos, "pad": pad}


@nat_decode_until_eos.aspect("one end", points=1)
def _until_eos_values(draw):
    one, two, three, four = draw.sizes(4, 1, 8)
    yield Case("several sentences", _until_eos_inputs(draw, [[one], [two], [three], [four]], 11, 7))
    yield Case("one sentence", _until_eos_inputs(draw, [[one]], 10, 7))
    yield Case("as many sentences as tokens", _until_eos_inputs(draw, [[1], [3], [0], [4], [2], [5]], 6, 8))


@nat_decode_until_eos.aspect("several ends, or none", points=1)
def _until_eos_other(draw):
    one, two, three, four = sorted(draw.sizes(4, 1, 8))
    yield Case("several ends", _until_eos_inputs(draw, [[one, two], [two, three, four], [one, four]], 11, 7))
    yield Case("one sentence without an end", _until_eos_inputs(draw, [[two], [], [three, four]], 11, 7))
    yield Case("an end at the first place", _until_eos_inputs(draw, [[0], [0, two], [three]], 11, 7))
    yield Case("an end at the last place", _until_eos_inputs(draw, [[8], [one]], 9, 7))
    yield Case("ends alone", _until_eos_inputs(draw, [range(5), range(1, 5)], 5, 6))
    yield Case("a single place", _until_eos_inputs(draw, [[0], []], 1, 6))
    inputs = _until_eos_inputs(draw, [[one, two], [three], []], 11, 7)
    yield Case("single precision, several calls", inputs, dtype="float32", repeated=True)


UNTIL_TOKENS = "tokens = logits.argmax(dim=-1)"
ENDS = "ends = (tokens == eos).long()"
BEFORE = "ends_before = ends.cumsum(dim=-1) - ends"
UNTIL_END = "return tokens.masked_fill(ends_before > 0, pad)"

for _id, _old, _new, _hint in (
    (
        "until-eos-not-cut",
        UNTIL_END,
        "return tokens",
        "Nothing is cut: after the first `eos` there should be padding alone.",
    ),
    (
        "until-eos-dropped",
        BEFORE,
        "ends_before = ends.cumsum(dim=-1)",
        "`eos` itself is cut off too. It is the last token of a sentence; padding comes after it.",
    ),
    (
        "until-eos-one-token-too-many",
        BEFORE,
        "ends_before = ends.cumsum(dim=-1).roll(2, dims=-1) * (torch.arange(ends.shape[1]) > 1)",
        "One token after `eos` is left.",
    ),
    (
        "until-eos-last-end",
        BEFORE,
        "ends_before = (ends.flip(-1).cumsum(dim=-1).flip(-1) == 0) * ends.amax(dim=-1, keepdim=True)",
        "Where `eos` was said several times, you cut after the last one; cut after the first.",
    ),
    (
        "until-eos-silences-without-end",
        BEFORE,
        "ends_before = torch.arange(ends.shape[1]) > ends.argmax(dim=-1, keepdim=True)",
        "A sentence without `eos` loses all but its first token: the maximum of a row of zeros is found at place 0. It keeps "
        "all its tokens.",
    ),
    (
        "until-eos-ends-alone-replaced",
        UNTIL_END,
        "return tokens.masked_fill((tokens == eos) & (ends_before > 0), pad)",
        "Only the further `eos` are replaced by padding; all tokens after the first one go.",
    ),
    (
        "until-eos-cut-where-all-cut",
        BEFORE,
        "ends_before = (ends.cumsum(dim=-1) - ends).amin(dim=0).expand_as(ends)",
        "All sentences are cut where the longest one is; each has an end of its own.",
    ),
    (
        "until-eos-as-padding",
        UNTIL_END,
        "return tokens.masked_fill(ends_before > 0, eos)",
        "The rest of a sentence is filled with `eos`; `pad` is asked for.",
    ),
    (
        "until-eos-zero-as-padding",
        UNTIL_END,
        "return tokens.masked_fill(ends_before > 0, 0)",
        "The rest of a sentence is filled with zeros, whatever `pad` is.",
    ),
    (
        "until-eos-along-the-batch",
        BEFORE,
        "ends_before = ends.cumsum(dim=0) - ends",
        "You count `eos` along the batch; count along each sentence.",
    ),
    (
        "until-eos-least-probable",
        UNTIL_TOKENS,
        "tokens = logits.argmin(dim=-1)",
        "You take the least probable token of each place.",
    ),
    (
        "until-eos-trimmed",
        UNTIL_END,
        "kept = tokens.masked_fill(ends_before > 0, pad)\n    return kept[:, (ends_before == 0).any(dim=0)]",
        "The places at which all sentences are over are missing; the result has as many places as the logits.",
    ),
):
    nat_decode_until_eos.slip(_id, _old, _new, _hint)


length_predictor_loss = Check(
    reference.length_predictor_loss,
    difficulty="warm-up",
    minutes=10,
    hints=(
        "How many tokens of each target are no padding? Compare, and add up along the sentence.",
        "From here it is the loss of any classifier: the negative log-probability of the right class, averaged.",
        "`torch.log_softmax` gives log-probabilities, and `gather` picks one of each row. The class of a length is its number.",
    ),
    reproduces=(
        "torch.nn.functional.cross_entropy",
        "torch.nn.functional.nll_loss",
        "torch.nn.CrossEntropyLoss",
        "torch.nn.NLLLoss",
    ),
)


def _length_inputs(draw, lengths, num_lengths, tokens=None, pad=None, scale=1.0):
    tokens = max(lengths) if tokens is None else tokens
    pad = int(draw.rng.integers(20)) if pad is None else pad
    target = draw.rng.choice(np.setdiff1d(np.arange(20), [pad]), (len(lengths), tokens))
    target[np.arange(tokens) >= np.asarray(lengths)[:, None]] = pad
    return {"length_logits": draw.normal(len(lengths), num_lengths, scale=scale), "target": target, "pad": pad}


@length_predictor_loss.aspect("a batch", points=1)
def _length_values(draw):
    lengths = draw.sizes(4, 1, 7)
    yield Case("several sentences", _length_inputs(draw, lengths, 10))
    yield Case("as many sentences as lengths", _length_inputs(draw, [3, 1, 4, 2, 3], 5))
    yield Case("one sentence", _length_inputs(draw, [lengths[0]], 9))
    yield Case("sentences of one length", _length_inputs(draw, [4, 4, 4], 7))


@length_predictor_loss.aspect("padding, large logits, gradients, wrong arguments", points=1)
def _length_other(draw):
    lengths = draw.sizes(4, 1, 7)
    yield Case("padding is token 0", _length_inputs(draw, lengths, 10, pad=0))
    yield Case("padding is -100", _length_inputs(draw, lengths, 10, pad=-100))
    yield Case("a sentence without words, and room for more", _length_inputs(draw, [5, 0, 3], 9, tokens=8))
    yield Case("logits far apart", _length_inputs(draw, lengths, 10, scale=1000))
    inputs = _length_inputs(draw, lengths, 10)
    yield Case("gradients", inputs, gradient=("length_logits",))
    yield Case("single precision", inputs, dtype="float32")
    yield Case("tensors that are not contiguous, several calls", inputs, strided=True, repeated=True)
    yield Case("too few lengths", _length_inputs(draw, [4, 2, 1], 4), refused=True)


COUNT = "lengths = (target != pad).sum(dim=-1)"
LOG = "log_probs = torch.log_softmax(length_logits, dim=-1)"
MEAN = "return -of_lengths.mean()"

for _id, _old, _new, _hint in (
    (
        "length-counted-from-one",
        COUNT,
        "lengths = ((target != pad).sum(dim=-1) - 1).clamp(min=0)",
        "The class of a length is its number, since class 0 is the length 0: nothing is to be taken off.",
    ),
    (
        "length-one-more",
        COUNT,
        "lengths = ((target != pad).sum(dim=-1) + 1).clamp(max=length_logits.shape[1] - 1)",
        "Every length is one too large. There is no `<eos>` here that would count.",
    ),
    (
        "length-padding-counted",
        COUNT,
        "lengths = torch.full_like(target[:, 0], target.shape[1])",
        "Padding counts: every sentence has the width of the batch as its length.",
    ),
    (
        "length-of-padding",
        COUNT,
        "lengths = (target == pad).sum(dim=-1)",
        "You count the padding; the real tokens are wanted.",
    ),
    (
        "length-pad-hard-coded",
        COUNT,
        "lengths = (target != 0).sum(dim=-1)",
        "Padding is taken to be token 0, whatever `pad` says.",
    ),
    (
        "length-first-padding",
        COUNT,
        "lengths = (target == pad).long().argmax(dim=-1)",
        "The length is the place of the first padding. A sentence that fills its row has none, and comes out as 0.",
    ),
    (
        "length-all-pairs",
        MEAN,
        "return -log_probs[:, lengths].mean()",
        "Each sentence is asked for the lengths of all sentences. Each has one of its own: pick one number of each row.",
    ),
    (
        "length-sum",
        MEAN,
        "return -of_lengths.sum()",
        "You return the sum of the losses; take their mean over the sentences.",
    ),
    (
        "length-per-token",
        MEAN,
        "return -of_lengths.sum() / lengths.sum()",
        "You divide by the number of tokens. Each sentence has one length, so divide by the number of sentences.",
    ),
    (
        "length-positive-sign",
        MEAN,
        "return of_lengths.mean()",
        "The sign is missing: a loss is the negative log-probability, so that smaller is better.",
    ),
    (
        "length-no-log",
        LOG,
        "log_probs = torch.softmax(length_logits, dim=-1)",
        "You average probabilities; take their logarithms.",
    ),
    (
        "length-no-softmax",
        LOG,
        "log_probs = length_logits",
        "You average the logits of the right lengths. They are not log-probabilities yet: the softmax is missing.",
    ),
    (
        "length-log-of-zero",
        LOG,
        "log_probs = torch.log(torch.softmax(length_logits, dim=-1))",
        "The softmax underflows to zero where the logits are far apart, and the logarithm of zero is infinite. "
        "`torch.log_softmax` takes both in one.",
    ),
    (
        "length-softmax-over-sentences",
        LOG,
        "log_probs = torch.log_softmax(length_logits, dim=0)",
        "Your softmax runs over the sentences; it must run over the lengths, the last axis.",
    ),
    (
        "length-squared-error",
        MEAN,
        "expected = log_probs.exp() @ torch.arange(log_probs.shape[1]).to(log_probs.dtype)\n"
        "    return ((expected - lengths) ** 2).mean()",
        "You take the squared distance to the mean length. Here a length is a class, and its loss is the cross-entropy.",
    ),
    (
        "length-detached",
        MEAN,
        "return torch.tensor(-of_lengths.mean().item(), dtype=length_logits.dtype)",
        "The loss has become a Python number on the way, so no gradient flows back.",
    ),
):
    length_predictor_loss.slip(_id, _old, _new, _hint)
