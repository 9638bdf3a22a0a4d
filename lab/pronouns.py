"""Pairs of sentences in which one word decides what "it" means, and what the heads of an encoder make of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.minilm import MiniLM


@dataclass(frozen=True)
class Pair:
    """Two sentences that differ in their last word.

    Parameters
    ----------
    template
        The sentence, with places for two nouns and the last word.
    nouns
        The two nouns, in the order of the sentence.
    endings
        The word after which "it" is the first noun, and the word after which it is the second.
    """

    template: str
    nouns: tuple[str, str]
    endings: tuple[str, str]

    def sentences(self) -> tuple[str, str]:
        first, second = (self.template.format(*self.nouns, ending) for ending in self.endings)
        return first, second


ATE = "A {} ate the {} because it was {}."
FIT = "The {} did not fit into the {} because it was too {}."
CHASED = "The {} chased the {} because it was {}."
DOG = Pair(ATE, ("dog", "food"), ("hungry", "delicious"))
EATING = [
    Pair(ATE, nouns, endings)
    for nouns, endings in (
        (("cat", "fish"), ("hungry", "fresh")),
        (("horse", "apple"), ("starving", "sweet")),
        (("mouse", "cheese"), ("hungry", "tasty")),
        (("bear", "honey"), ("greedy", "sweet")),
        (("bird", "bread"), ("hungry", "stale")),
        (("pig", "cake"), ("greedy", "tasty")),
        (("monkey", "banana"), ("hungry", "ripe")),
        (("rabbit", "carrot"), ("hungry", "fresh")),
        (("cow", "grass"), ("hungry", "green")),
        (("wolf", "meat"), ("starving", "fresh")),
        (("goat", "hay"), ("hungry", "dry")),
    )
]
OTHERS = [
    Pair(FIT, nouns, endings)
    for nouns, endings in (
        (("trophy", "suitcase"), ("big", "small")),
        (("piano", "room"), ("wide", "narrow")),
        (("book", "bag"), ("large", "small")),
        (("ball", "box"), ("big", "small")),
        (("car", "garage"), ("long", "short")),
        (("shirt", "drawer"), ("big", "full")),
    )
] + [
    Pair(CHASED, nouns, endings)
    for nouns, endings in (
        (("dog", "cat"), ("angry", "afraid")),
        (("lion", "deer"), ("hungry", "slow")),
        (("cat", "mouse"), ("bored", "small")),
        (("boy", "ball"), ("bored", "rolling")),
    )
]


def weights_of_it(model: MiniLM, sentence: str, nouns: tuple[str, str]) -> Tensor:
    """The weights that "it" gives to two nouns in every head, of shape ``(num_layers, num_heads, 2)``.

    Raises
    ------
    ValueError
        If "it" or a noun is not one piece of the sentence that stands there once.
    """
    reading = model(sentence)
    for word in ("it", *nouns):
        if reading.pieces.count(word) != 1:
            raise ValueError(f"{word!r} stands {reading.pieces.count(word)} times in {reading.pieces}; once is wanted.")
    it, first, second = (reading.pieces.index(word) for word in ("it", *nouns))
    return reading.weights[:, :, it, [first, second]]


def resolved(model: MiniLM, pairs: list[Pair]) -> Tensor:
    """Whether each head gives the larger weight to the right noun, ``(num_pairs, 2, num_layers, num_heads)``."""
    answers = []
    for pair in pairs:
        first, second = (weights_of_it(model, sentence, pair.nouns) for sentence in pair.sentences())
        answers.append(torch.stack([first[..., 0] > first[..., 1], second[..., 1] > second[..., 0]]))
    return torch.stack(answers)
