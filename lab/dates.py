"""Real data for a translator: dates as people write them in many languages, to be written as numbers.

"vendredi 15 mars 2024" becomes "2024-03-15", letter by letter. How a date is written in each language is the Unicode
Consortium's Common Locale Data Repository (Unicode licence), which the package ``babel`` (BSD licence) ships.

- ``draw_dates(number, seed)``: pairs of letters, for `lab.translation`; without gold alignments.
- ``corpus()``: training and test pairs; no day of the test is in training, in any language.
- ``trained_reader()``: a translator with attention, trained once for all who ask.
"""

import datetime
import functools
import random

import torch
from babel.dates import format_date

from lab.parallel_corpus import Pair, vocabularies
from lab.trained import trained_once
from lab.translation import Translator, train

LANGUAGES = {
    "en_US": "English (USA)",
    "en_GB": "English (UK)",
    "fr": "French",
    "it": "Italian",
    "es": "Spanish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "de": "German",
    "nl": "Dutch",
    "sv": "Swedish",
    "da": "Danish",
    "pl": "Polish",
    "cs": "Czech",
    "fi": "Finnish",
    "hu": "Hungarian",
    "eu": "Basque",
    "lt": "Lithuanian",
    "tr": "Turkish",
    "id": "Indonesian",
    "vi": "Vietnamese",
}
STYLES = ("long", "full")  # the month by its name; "full" has the day of the week too
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


def write(day: datetime.date, language: str, style: str) -> str:
    """A date as it is written in a language, in small letters."""
    return format_date(day, style, locale=language).lower()


def pair(day: datetime.date, language: str, style: str) -> Pair:
    """A date's letters, and those of its year, month and day as numbers."""
    return Pair(tuple(write(day, language, style)), tuple(day.isoformat()), frozenset())


def draw_dates(number: int, seed: int) -> list[Pair]:
    """Draw dates, in languages and styles that are all equally likely; the same seed gives the same ones."""
    rng = random.Random(seed)
    return [_draw(rng) for _ in range(number)]


def _draw(rng: random.Random) -> Pair:
    day = FIRST + datetime.timedelta(days=rng.randrange((LAST - FIRST).days + 1))
    return pair(day, rng.choice(list(LANGUAGES)), rng.choice(STYLES))


@functools.cache
def corpus(train: int = 10_000, test: int = 500, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs; no day of the test is in training."""
    test_pairs = draw_dates(test, seed + 1)
    days = {pair.target for pair in test_pairs}
    rng, train_pairs = random.Random(seed), []
    while len(train_pairs) < train:
        drawn = _draw(rng)
        if drawn.target not in days:
            train_pairs.append(drawn)
    return train_pairs, test_pairs


def trained_reader() -> tuple[Translator, list[float]]:
    """A translator with attention that reads dates, and the loss of each step of its training."""
    return trained_once(_untrained, _train, steps=300)


def _untrained(steps: int) -> Translator:
    torch.manual_seed(0)
    train_pairs, test_pairs = corpus()
    return Translator(*vocabularies(train_pairs + test_pairs), attention=True, width=32, hidden=96)


def _train(model: Translator, steps: int) -> list[float]:
    return train(model, corpus()[0], steps, size=32, lr=6e-3)
