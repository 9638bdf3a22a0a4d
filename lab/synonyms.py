"""A language so small that every sentence of it can be tried: two words, each with two translations, and some silence.

A source has 1 to ``LONGEST`` words. Each word is translated by one of its two synonyms, so that a source of ``n`` words
has ``2 ** n`` right translations, all alike. And a share of the training targets is missing: nothing but ``<eos>``.

- ``trained()``: a tiny Transformer, trained once for page and tests. ``sources()``: all that can be asked.
- ``next_log_probs(model, source)``: the model as a search takes it.
- ``is_right(tokens, source)``: whether a translation is one of the right ones.
- ``exhaustive(model, source, alpha)``: the best of all that can be said.
"""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.reference.decoding import beam_search, teacher_forcing_batch
from autograder.reference.transformer import Transformer
from lab.trained import trained_once
from lab.training import fit

EOS, BOS = 0, 1
SYNONYMS = {1: (2, 3), 2: (4, 5)}  # of each source word; 0 is the source's padding
VOCAB_SIZE = 6
LONGEST = 4
MAX_LENGTH = LONGEST + 1  # with <eos>
MISSING = 0.15
STEPS, BATCH, PEAK = 400, 64, 5e-3


def sources() -> list[tuple[int, ...]]:
    """All sources."""
    return [words for length in range(1, LONGEST + 1) for words in itertools.product(SYNONYMS, repeat=length)]


def is_right(tokens: Tensor, source: Sequence[int]) -> bool:
    """Whether each word is translated by one of its synonyms, and nothing but ``<eos>`` follows."""
    *said, end = tokens.tolist()
    return end == EOS and len(said) == len(source) and all(y in SYNONYMS[x] for x, y in zip(source, said, strict=True))


def trained() -> Transformer:
    """A Transformer of one block each, trained on sources of all lengths, of which some have no translation."""
    return trained_once(_build, _train, steps=STEPS, missing=MISSING)[0]


def _build(steps: int, missing: float) -> Transformer:
    torch.manual_seed(0)
    return Transformer(len(SYNONYMS) + 1, VOCAB_SIZE, d_model=16, num_heads=2, d_ff=32, num_layers=1)


def _train(model: Transformer, steps: int, missing: float) -> list[float]:
    generator = torch.Generator().manual_seed(0)

    def next_loss() -> Tensor:
        lengths = torch.randint(1, LONGEST + 1, (BATCH, 1), generator=generator)
        source = torch.randint(1, 3, (BATCH, LONGEST), generator=generator)
        source = source.masked_fill(torch.arange(LONGEST) >= lengths, 0)
        target = 2 * source + torch.randint(2, source.shape, generator=generator)
        silent = (torch.rand(BATCH, generator=generator) < missing).tolist()
        said = [
            [] if quiet else row[:length]
            for row, (length,), quiet in zip(target.tolist(), lengths.tolist(), silent, strict=True)
        ]
        decoder_input, target, mask = teacher_forcing_batch(said, BOS, EOS, pad=EOS)
        return F.cross_entropy(model(source, decoder_input, source > 0)[mask], target[mask])

    return fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0)


def next_log_probs(model: Transformer, source: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The log-probabilities of each next token, for any number of prefixes of translations of one source."""
    memory = model.encode(torch.tensor([source]))

    def of_prefixes(prefix: Tensor) -> Tensor:
        return model.decode(prefix, memory.expand(len(prefix), -1, -1))[:, -1].log_softmax(-1)

    return of_prefixes


def exhaustive(model: Transformer, source: Sequence[int], alpha: float) -> tuple[Tensor, Tensor]:
    """The translation with the best score of all, and its score: a beam that never has to leave one out."""
    return beam_search(next_log_probs(model, source), BOS, EOS, VOCAB_SIZE**MAX_LENGTH, MAX_LENGTH, alpha)
