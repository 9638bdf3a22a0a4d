"""Translators for the parallel corpus, without and with attention, built on the course's kernels.

- ``Translator(source_vocabulary, target_vocabulary, attention=...)``: one model in two forms. Its encoder reads in both
  directions, its decoder is a GRU. Without attention the decoder sees one context, the last states of the encoder; with
  attention it computes a context anew at each step. All else is the same.
- ``train(model, pairs, steps)``: teacher forcing; the loss of each step.
- ``trained_translator(language, attention)``: the two that the chapters plot, trained once for both: a model and its
  losses. ``corpus(language)`` is what they are trained on.
- ``translate(model, sentences)``: a ``Translation(words, attn_weights)`` of each; ``say(model, text)``: text to text.
- ``exact_match_by_length(pairs, translations)``, ``token_accuracy_by_length``, ``links(translation)``: for the figures.
- ``Kernels``: the kernels that a translator runs on. ``Kernels.reference()`` are the course's own, and
  ``dataclasses.replace(Kernels.reference(), gru_cell=gru_cell)`` swaps in yours.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab import parallel_corpus
from lab.parallel_corpus import BOS, EOS, PAD, Batch, Pair, Vocabulary, batch, join, pad, vocabularies
from lab.trained import trained_once
from lab.training import fit

MAX_LENGTH = 60  # of a translation; no sentence of the corpus is longer


@dataclass(frozen=True)
class Kernels:
    """The functions that a translator is built from, as the chapters define them."""

    gru_cell: Callable
    encode: Callable
    shift_right: Callable
    masked_cross_entropy: Callable
    greedy_decode: Callable
    attention_decoder_step: Callable

    @classmethod
    def reference(cls) -> "Kernels":
        """The course's own."""
        from autograder.reference import rnn_attention, rnn_encoder_decoder

        names = ("gru_cell", "encode", "shift_right", "masked_cross_entropy", "greedy_decode")
        return cls(
            **{name: getattr(rnn_encoder_decoder, name) for name in names},
            attention_decoder_step=rnn_attention.attention_decoder_step,
        )


class Translator(nn.Module):
    """A bidirectional GRU that reads and a GRU that writes.

    Parameters
    ----------
    source_vocabulary, target_vocabulary
        The words that it reads and writes.
    attention
        Whether the decoder attends to all states of the encoder, or keeps one context.
    width
        Width of the embeddings.
    hidden
        Width of the decoder's state; each direction of the encoder has half of it.
    kernels
        What it runs on; the course's own unless others are given.
    """

    def __init__(
        self,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        attention: bool,
        width: int = 64,
        hidden: int = 128,
        kernels: Kernels | None = None,
    ):
        super().__init__()
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.attention = attention
        self.kernels = kernels or Kernels.reference()
        self.source_embedding = nn.Embedding(len(source_vocabulary), width, padding_idx=PAD)
        self.target_embedding = nn.Embedding(len(target_vocabulary), width, padding_idx=PAD)
        self.forwards, self.backwards = (nn.GRUCell(width, hidden // 2) for _ in range(2))  # they hold the weights
        self.start = nn.Linear(hidden, hidden)
        self.decoder = nn.GRUCell(width + hidden, hidden)
        if attention:
            d_a = hidden // 2
            self.W, self.U = (nn.Parameter(torch.randn(hidden, d_a) / hidden**0.5) for _ in range(2))
            self.v = nn.Parameter(torch.randn(d_a) / d_a**0.5)
        self.output = nn.Linear(2 * hidden, len(target_vocabulary))

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's states ``(B, N, hidden)``, and its last ones, side by side ``(B, hidden)``."""
        X = self.source_embedding(source)
        nothing = X.new_zeros(len(X), self.forwards.hidden_size)
        places = torch.arange(X.shape[1])
        real = (places < lengths[:, None])[..., None]
        turned = (lengths[:, None] - 1 - places).clamp(min=0)[..., None]  # the real words from the last to the first
        states, last = self.kernels.encode(self._cell(self.forwards), X, lengths, nothing)
        back, back_last = self.kernels.encode(
            self._cell(self.backwards), X.gather(1, turned.expand_as(X)), lengths, nothing
        )
        back = back.gather(1, turned.expand_as(back)).where(real, 0.0)
        return torch.cat([states, back], -1), torch.cat([last, back_last], -1)

    def _cell(self, holder: nn.GRUCell) -> Callable:
        weights = holder.weight_ih, holder.weight_hh, holder.bias_ih, holder.bias_hh
        return lambda x, h: self.kernels.gru_cell(x, h, *weights)

    def stepper(self, source: Tensor, lengths: Tensor) -> tuple[Callable, Tensor]:
        """Read sentences; the decoder's step ``(y, s) -> (s_new, context, attn_weights)``, and its first state.

        The step takes embeddings. Without attention its weights are None.
        """
        H, last = self.read(source, lengths)
        key_mask = source != PAD
        weights = self.decoder.weight_ih, self.decoder.weight_hh, self.decoder.bias_ih, self.decoder.bias_hh

        def attend(y: Tensor, s: Tensor):
            return self.kernels.attention_decoder_step(y, s, H, key_mask, self.W, self.U, self.v, *weights)

        def remember(y: Tensor, s: Tensor):
            return self.kernels.gru_cell(torch.cat([y, last], -1), s, *weights), last, None

        return attend if self.attention else remember, torch.tanh(self.start(last))

    def forward(self, batch: Batch) -> Tensor:
        """Scores ``(B, N_target, V)`` for each target word, when the right words before it are given."""
        step, s = self.stepper(batch.source, batch.source_lengths)
        Y = self.target_embedding(self.kernels.shift_right(batch.target, BOS))
        read = []
        for y in Y.unbind(1):
            s, context, _ = step(y, s)
            read.append(torch.cat([s, context], -1))
        return self.output(torch.stack(read, 1))


def train(
    model: Translator,
    pairs: Sequence[Pair],
    steps: int,
    size: int = 64,
    lr: float = 4e-3,
    seed: int = 0,
    progress: bool = False,
) -> list[float]:
    """Train with teacher forcing on batches of ``size`` sentences of like lengths; the loss of each step."""
    stream = batches(model, pairs, size, seed)

    def next_loss() -> Tensor:
        drawn = next(stream)
        return model.kernels.masked_cross_entropy(model(drawn), drawn.target, PAD)

    model.train()
    return fit(model, next_loss, steps, lr, warm_up=steps // 20, max_norm=1.0, progress=progress)


def batches(model: Translator, pairs: Sequence[Pair], size: int, seed: int) -> Iterator[Batch]:
    """Batches without end: each epoch in a new order, sentences of like lengths together, so that little is padding."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([len(pair.target) for pair in pairs])
    while True:
        noise = torch.rand(len(pairs), generator=generator)
        order = (lengths + noise).argsort()  # by length, those of one length mixed
        groups = order.split(size)
        for group in torch.randperm(len(groups), generator=generator).tolist():
            chosen = [pairs[place] for place in groups[group].tolist()]
            yield batch(chosen, model.source_vocabulary, model.target_vocabulary)


# Widths that give both translators the same number of parameters, within one in a hundred.
HIDDEN = {True: 128, False: 132}
# Of the Italian translator the chapters show single sentences and means over the exact ones, for which fewer steps do.
STEPS = {"french": 1500, "italian": 900}
SIZE, PEAK = 32, 4e-3


@functools.cache
def corpus(language: str) -> parallel_corpus.Splits:
    """The corpus that the chapters use; the same object whenever it is asked for."""
    return parallel_corpus.corpus(language)


def trained_translator(language: str, attention: bool) -> tuple[Translator, list[float]]:
    """The translator of the chapters, and the loss of each step of its training.

    In the repository it is trained once and kept; elsewhere it is trained now, which takes about a minute.
    """
    return trained_once(_untrained, _train, language=language, attention=attention, steps=STEPS[language])


def _untrained(language: str, attention: bool, steps: int) -> Translator:
    torch.manual_seed(0)
    return Translator(*vocabularies(corpus(language).train), attention, hidden=HIDDEN[attention])


def _train(model: Translator, language: str, attention: bool, steps: int) -> list[float]:
    return train(model, corpus(language).train, steps, size=SIZE, lr=PEAK)


@dataclass(frozen=True)
class Translation:
    """What a translator made of a sentence.

    Parameters
    ----------
    words
        The translation, without ``<eos>``.
    attn_weights
        The weights of each target word over the source words, ``(N_target, N_source)``; None without attention.
    """

    words: tuple[str, ...]
    attn_weights: Tensor | None


@torch.no_grad()
def translate(model: Translator, sentences: Sequence[Sequence[str]], size: int = 200) -> list[Translation]:
    """Translate sentences, given as words, ``size`` of them at a time; always the most probable next word."""
    return in_order_of_length(functools.partial(_translate, model), sentences, size)


def in_order_of_length(
    translate_some: Callable[[list[Sequence[str]]], list[Translation]], sentences: Sequence[Sequence[str]], size: int
) -> list[Translation]:
    """Translate sentences ``size`` at a time, those of like lengths together, so that little is padding."""
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    results: dict[int, Translation] = {}
    for first in range(0, len(order), size):
        places = order[first : first + size]
        results |= zip(places, translate_some([sentences[place] for place in places]), strict=True)
    return [results[place] for place in range(len(sentences))]


def _translate(model: Translator, sentences: Sequence[Sequence[str]]) -> list[Translation]:
    source, lengths = pad([model.source_vocabulary.encode(sentence) for sentence in sentences])
    step, s = model.stepper(source, lengths)
    looked = []

    def speak(tokens: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        s, context, attn_weights = step(model.target_embedding(tokens), s)
        looked.append(attn_weights)
        return model.output(torch.cat([s, context], -1)), s

    start = torch.full_like(lengths, BOS)
    said = model.kernels.greedy_decode(speak, s, start, EOS, PAD, MAX_LENGTH)
    attn_weights = torch.stack(looked, 1) if model.attention else None
    translations = []
    for row, (tokens, length) in enumerate(zip(said, lengths.tolist(), strict=True)):
        words = tuple(model.target_vocabulary.decode(tokens))
        weights = attn_weights[row, : len(words), :length] if model.attention else None
        translations.append(Translation(words, weights))
    return translations


def say(model: Translator, text: str) -> str:
    """Translate a typed sentence.

    Raises
    ------
    UnknownWords
        If the translator does not know a word of it; the message names the words.
    """
    (translation,) = translate(model, [model.source_vocabulary.read(text)])
    return join(translation.words)


def links(translation: Translation) -> set[tuple[int, int]]:
    """For each target word the source word with the largest weight, as links ``(target index, source index)``."""
    return set(enumerate(translation.attn_weights.argmax(-1).tolist()))


def exact_match_by_length(pairs: Sequence[Pair], translations: Sequence[Translation]) -> dict[int, float]:
    """The share of sentences of each source length that are translated without any difference from the corpus."""
    return _mean_by_length(pairs, [float(t.words == pair.target) for pair, t in zip(pairs, translations, strict=True)])


def token_accuracy_by_length(pairs: Sequence[Pair], translations: Sequence[Translation]) -> dict[int, float]:
    """The share of target words that the translation has in the same place, the mean over the sentences of a length."""
    shares = []
    for pair, translation in zip(pairs, translations, strict=True):
        right = sum(wanted == said for wanted, said in zip(pair.target, translation.words, strict=False))
        shares.append(right / len(pair.target))
    return _mean_by_length(pairs, shares)


def _mean_by_length(pairs: Sequence[Pair], numbers: Sequence[float]) -> dict[int, float]:
    lengths = [len(pair.source) for pair in pairs]
    return {
        length: sum(n for n, at in zip(numbers, lengths, strict=True) if at == length) / lengths.count(length)
        for length in sorted(set(lengths))
    }
