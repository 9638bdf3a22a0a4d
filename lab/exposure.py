"""What a translator does when the words before are its own, or wrong: exposure bias, measured.

- ``corpus()``: English and French sentences of 3 to 8 words. ``SmallTranslator``: a small Transformer for them.
- ``train(model, pairs, steps, scheduled=...)``: with teacher forcing, or with scheduled sampling.
- ``trained(scheduled)``: the two of the chapter, trained once for page and tests.
- ``with_right_and_own_words(model, pairs)``: which words are right after right words, and after its own.
- ``after_corruption(model, pairs, number)``: how often the next word is right after some wrong ones.
"""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lab import parallel_corpus
from lab.parallel_corpus import BOS, EOS, PAD, SPECIAL, Pair, Splits, Vocabulary, join, pad, vocabularies
from lab.trained import trained_once
from lab.training import fit
from lab.transformer_translation import TransformerTranslator

STEPS, BATCH, PEAK = 600, 32, 4e-3
MAX_LENGTH = 20  # of a translation; no sentence of this corpus is longer
PLACE = 6  # of the word that is asked for after a corrupted prefix, counted from 0


@functools.cache
def corpus() -> Splits:
    """Sentences of 3 to 8 English words; the same object whenever it is asked for."""
    return parallel_corpus.corpus("french", train=10_000, validation=50, test=500, lengths=(3, 8), longer=(9, 10))


class SmallTranslator(TransformerTranslator):
    """A Transformer of one block each, with the words that it reads and writes."""

    def __init__(self, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary, d_model: int = 48):
        sizes = {"d_model": d_model, "num_heads": 4, "d_ff": 2 * d_model, "num_layers": 1}
        super().__init__(source_vocabulary, target_vocabulary, **sizes)

    def encode(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """The memory of sentences given as words, and which of it is real."""
        source, _ = pad([self.source_vocabulary.encode(sentence) for sentence in sentences])
        return self.transformer.encode(source, source != PAD), source != PAD

    def next_log_probs(self, sentences: Sequence[Sequence[str]]) -> Callable[[Tensor], Tensor]:
        """The model as a search takes it: for several sentences, or for any number of prefixes of a single one."""
        memory, key_mask = self.encode(sentences)

        @torch.no_grad()
        def next_log_probs(prefix: Tensor) -> Tensor:
            rows = len(prefix)
            logits = self.transformer.decode(prefix, memory.expand(rows, -1, -1), key_mask.expand(rows, -1))
            return logits[:, -1].log_softmax(-1)

        return next_log_probs

    def text(self, tokens: Tensor) -> str:
        """A translation as a text."""
        return join(self.target_vocabulary.decode(tokens))


def train(
    model: SmallTranslator,
    pairs: Sequence[Pair],
    steps: int = STEPS,
    scheduled: bool = False,
    teacher_forcing_batch: Callable | None = None,
    scheduled_sampling: Callable | None = None,
    progress: bool = False,
) -> list[float]:
    """Train on right words, or with a share of the model's own that rises from none to all; the loss of each step.

    The model's own words are drawn from what it predicts after the right ones, in a first pass without gradients.
    The two kernels are the course's own unless others are given.
    """
    from autograder.reference import decoding

    make_batch = teacher_forcing_batch or decoding.teacher_forcing_batch
    mix = scheduled_sampling or decoding.scheduled_sampling
    source, _ = pad([model.source_vocabulary.encode(pair.source) for pair in pairs])
    targets = make_batch([model.target_vocabulary.encode(pair.target) for pair in pairs], BOS, EOS, PAD)
    generator = torch.Generator().manual_seed(0)
    ratios = iter(torch.linspace(1, 0, steps).tolist())

    def next_loss() -> Tensor:
        rows = torch.randint(len(pairs), (BATCH,), generator=generator)
        decoder_input, target, mask = (tensor[rows] for tensor in targets)
        key_mask = source[rows] != PAD
        memory = model.transformer.encode(source[rows], key_mask)
        if scheduled:
            with torch.no_grad():
                probabilities = model.transformer.decode(decoder_input, memory, key_mask).softmax(-1)
            predicted = probabilities.flatten(0, 1).multinomial(1, generator=generator).view_as(target)
            draw = torch.rand(target.shape, generator=generator)
            decoder_input = mix(decoder_input, predicted, draw, next(ratios))
        logits = model.transformer.decode(decoder_input, memory, key_mask)
        return F.cross_entropy(logits[mask], target[mask])

    return fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0, progress=progress)


def trained(scheduled: bool) -> tuple[SmallTranslator, float]:
    """A translator of the chapter, and how many seconds of one core its training took when it was trained."""
    return trained_once(_build, _train, scheduled=scheduled, steps=STEPS)


def _build(scheduled: bool, steps: int) -> SmallTranslator:
    torch.manual_seed(0)
    return SmallTranslator(*vocabularies(corpus().train))


def _train(model: SmallTranslator, scheduled: bool, steps: int) -> float:
    begin = time.process_time()
    train(model, corpus().train, steps, scheduled)
    return time.process_time() - begin


def _targets(model: SmallTranslator, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    from autograder.reference.decoding import teacher_forcing_batch

    return teacher_forcing_batch([model.target_vocabulary.encode(pair.target) for pair in pairs], BOS, EOS, PAD)


@dataclass(frozen=True)
class Comparison:
    """Which words of translations are right, of shape ``(B, N)``.

    Parameters
    ----------
    after_right
        Where the words before are the right ones.
    after_own
        Where they are the translator's own, and the word stands where it should.
    real
        Where a word of the target, or its ``<eos>``, is asked for.
    after_error
        Where one of the translator's own words before is wrong.
    """

    after_right: Tensor
    after_own: Tensor
    real: Tensor
    after_error: Tensor


@torch.no_grad()
def with_right_and_own_words(model: SmallTranslator, pairs: Sequence[Pair]) -> Comparison:
    """Translate with greedy search, and predict each word after the right ones before it."""
    from autograder.reference.decoding import greedy_search

    sentences = [pair.source for pair in pairs]
    decoder_input, target, real = _targets(model, pairs)
    predicted = model.transformer.decode(decoder_input, *model.encode(sentences)).argmax(-1)
    start = torch.full((len(pairs),), BOS)
    said, _ = greedy_search(model.next_log_probs(sentences), start, EOS, PAD, target.shape[1])
    said = F.pad(said, (0, target.shape[1] - said.shape[1]), value=PAD)
    wrong = (said != target).long()
    return Comparison(predicted == target, said == target, real, wrong.cumsum(1) - wrong > 0)


@torch.no_grad()
def after_corruption(
    model: SmallTranslator, pairs: Sequence[Pair], number: int, repeats: int = 4, seed: int = 0
) -> float:
    """The share of right words at place ``PLACE`` when ``number`` of the words before are replaced by random ones.

    Only sentences that have a word, or their ``<eos>``, there are asked; each ``repeats`` times.
    """
    generator = torch.Generator().manual_seed(seed)
    decoder_input, target, real = _targets(model, pairs)
    rows = real[:, PLACE].nonzero().flatten()
    memory, key_mask = model.encode([pairs[row].source for row in rows.tolist()])
    right = []
    for _ in range(repeats):
        prefix = decoder_input[rows, : PLACE + 1].clone()
        places = 1 + torch.rand(len(rows), PLACE, generator=generator).argsort(1)[:, :number]
        words = torch.randint(len(SPECIAL), len(model.target_vocabulary), places.shape, generator=generator)
        predicted = model.transformer.decode(prefix.scatter(1, places, words), memory, key_mask)[:, -1].argmax(-1)
        right.append(predicted == target[rows, PLACE])
    return torch.cat(right).double().mean().item()
