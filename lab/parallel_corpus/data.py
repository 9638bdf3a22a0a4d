"""Pairs, splits, vocabularies and batches."""

import difflib
import functools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import english, french, grammar, italian
from .lexicon import ADJECTIVES, LANGUAGES, NOUNS

WORDS = {"french": french.words, "italian": italian.words}
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(len(SPECIAL))
SHORTEST, LONGEST = 3, 40


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, word by word.

    Parameters
    ----------
    source, target
        The words of the English sentence and of its translation.
    alignment
        Which target word stands for which source word: links ``(target index, source index)``.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]


def pair_of(sentence: grammar.Sentence, language: str) -> Pair:
    """A sentence that is given as a tree, in English and in another language."""
    source, target = english.words(sentence), WORDS[language](sentence)
    places: dict[tuple, list[int]] = {}
    for place, (_, keys) in enumerate(source):
        for key in keys:
            places.setdefault(key, []).append(place)
    links = {(t, s) for t, (_, keys) in enumerate(target) for key in keys for s in places[key]}
    return Pair(tuple(w for w, _ in source), tuple(w for w, _ in target), frozenset(links))


def _stream(language: str, seed: int, lengths: tuple[int, int]) -> Iterator[tuple[Pair, bool]]:
    """Pairs without end, each with whether it holds an adjective and a noun that training never shows together."""
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}; it must be one of {', '.join(map(repr, LANGUAGES))}.")
    shortest, longest = lengths
    if not SHORTEST <= shortest <= longest <= LONGEST:
        raise ValueError(f"lengths are {lengths}; they must be a range inside {SHORTEST} to {LONGEST} words.")
    rng = random.Random(seed)
    while True:
        sentence = grammar.draw(rng, rng.randint(shortest, longest))
        yield pair_of(sentence, language), not held_out().isdisjoint(sentence.adjective_noun_pairs())


def draw_pairs(language: str, number: int, seed: int, lengths: tuple[int, int] = (3, 20)) -> list[Pair]:
    """Draw pairs, all source lengths of a range equally often.

    Parameters
    ----------
    language
        "french" or "italian".
    number
        How many.
    seed
        The same seed gives the same pairs.
    lengths
        The fewest and the most words of the English sentence, within 3 to 40.

    Raises
    ------
    ValueError
        If there is no such language, or if the lengths are no such range.
    """
    stream = _stream(language, seed, lengths)
    return [next(stream)[0] for _ in range(number)]


@functools.cache
def held_out() -> frozenset[tuple[str, str]]:
    """Adjectives with nouns that training never shows together, one in twelve of those that make sense.

    Each of these nouns has at least two other adjectives.
    """
    qualities = {noun: [a for a in ADJECTIVES if noun.fits(a.tags)] for noun in NOUNS if "kin" not in noun.tags}
    fitting = [(a.english, noun.name) for noun, adjectives in qualities.items() for a in adjectives[:-2]]
    return frozenset(fitting[7::8])


@dataclass(frozen=True)
class Splits:
    """The parts of a corpus; no sentence of one part is in another.

    Parameters
    ----------
    train, validation, test
        Drawn alike.
    longer
        Sentences longer than any of ``train``.
    new_pairs
        Sentences with an adjective at a noun at which the other parts never show it.
    """

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    longer: list[Pair]
    new_pairs: list[Pair]


def corpus(
    language: str,
    train: int = 20_000,
    validation: int = 500,
    test: int = 1_000,
    seed: int = 0,
    lengths: tuple[int, int] = (3, 20),
    longer: tuple[int, int] = (21, 40),
) -> Splits:
    """Draw a corpus and split it.

    Parameters
    ----------
    language
        "french" or "italian".
    train, validation, test
        How many pairs each part has; ``longer`` and ``new_pairs`` have as many as ``validation``.
    seed
        The same seed gives the same corpus.
    lengths, longer
        The fewest and the most words of the English sentences, everywhere and in the part ``longer``.

    Raises
    ------
    ValueError
        If there is no such language, or if the lengths are no ranges within 3 to 40 that follow each other.
    """
    if longer[0] <= lengths[1]:
        raise ValueError(f"The part longer starts at {longer[0]} words; the others go up to {lengths[1]}.")
    stream, seen = _stream(language, seed, lengths), set()
    known, new = (lambda is_new: not is_new), (lambda is_new: is_new)
    test_pairs = _take(stream, test, seen, known)
    validation_pairs = _take(stream, validation, seen, known)
    new_pairs = _take(stream, validation, seen, new)
    long_pairs = _take(_stream(language, seed + 1, longer), validation, seen, known)
    train_pairs = _take(stream, train, frozenset(seen), known)
    return Splits(train_pairs, validation_pairs, test_pairs, long_pairs, new_pairs)


def _take(stream, number: int, seen: set | frozenset, wanted) -> list[Pair]:
    """The next pairs of a kind whose source is not among those seen; a set of the seen ones gets them too."""
    taken: list[Pair] = []
    while len(taken) < number:
        pair, is_new = next(stream)
        if wanted(is_new) and pair.source not in seen:
            taken.append(pair)
            if isinstance(seen, set):
                seen.add(pair.source)
    return taken


class UnknownWords(ValueError):
    """Words that are not in a vocabulary."""


class Vocabulary:
    """Words and their numbers.

    Parameters
    ----------
    sentences
        The vocabulary holds the special tokens, at 0 to 3, and then every word of these sentences, in alphabetical
        order.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]):
        self.words = (*SPECIAL, *sorted({word for sentence in sentences for word in sentence}))
        self._numbers = {word: number for number, word in enumerate(self.words)}
        self._spellings = {word.casefold(): word for word in self.words}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._numbers

    def encode(self, sentence: Iterable[str]) -> list[int]:
        """The numbers of words; 3, ``<unk>``, for a word that is not known."""
        return [self._numbers.get(word, UNK) for word in sentence]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The words of numbers, up to the first ``<eos>``, without ``<bos>`` and ``<pad>``."""
        sentence = []
        for number in map(int, numbers):
            if number == EOS:
                break
            if number not in (PAD, BOS):
                sentence.append(self.words[number])
        return sentence

    def read(self, text: str) -> list[str]:
        """The words of a typed text, capitals put right.

        Raises
        ------
        UnknownWords
            If words are not known; the message names them, with known ones that are spelled alike.
        """
        words = [self._spellings.get(word.casefold(), word) for word in tokenize(text)]
        unknown = sorted({word for word in words if word not in self})
        if not words:
            raise UnknownWords("There is no word in the text: type a sentence.")
        if unknown:
            known = len(self.words) - len(SPECIAL)
            raise UnknownWords(
                f"Unknown: {', '.join(map(self._hint, unknown))}. "
                f"The vocabulary has {known} words; its attribute `words` lists them."
            )
        return words

    def _hint(self, word: str) -> str:
        near = difflib.get_close_matches(word.casefold(), self._spellings, n=2, cutoff=0.75)
        return f"{word!r} (near: {', '.join(self._spellings[n] for n in near)})" if near else repr(word)


def vocabularies(pairs: Sequence[Pair]) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the sources and of the targets."""
    return Vocabulary(pair.source for pair in pairs), Vocabulary(pair.target for pair in pairs)


def tokenize(text: str) -> list[str]:
    """The words and commas of a text; a word before an apostrophe keeps it."""
    return re.findall(r"aujourd'hui|\w+'|[\w-]+|,", text.replace("’", "'"))


def join(words: Iterable[str]) -> str:
    """The words as a text: nothing stands before a comma or after an apostrophe."""
    return re.sub(r"(?<=')\s|\s(?=,)", "", " ".join(words))


@dataclass(frozen=True)
class Batch:
    """Pairs as padded numbers.

    Parameters
    ----------
    source, source_lengths
        Numbers of the source words of shape ``(B, N_source)``, 0 where there is padding, and the lengths ``(B,)``.
    target, target_lengths
        The same of the target words; each target ends with ``<eos>``, which its length counts.
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor


def batch(pairs: Sequence[Pair], source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> Batch:
    """Encode and pad pairs."""
    source, source_lengths = pad([source_vocabulary.encode(pair.source) for pair in pairs])
    target, target_lengths = pad([[*target_vocabulary.encode(pair.target), EOS] for pair in pairs])
    return Batch(source, source_lengths, target, target_lengths)


def pad(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Numbers of sentences as one tensor ``(B, N)``, filled up with 0, and the lengths ``(B,)``."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    longest = max(map(len, sentences))
    return torch.tensor([[*sentence] + [PAD] * (longest - len(sentence)) for sentence in sentences]), lengths
