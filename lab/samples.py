"""How good is a text that a model wrote? Two numbers that can be counted: does it say words, does it repeat itself?"""

import re
from collections.abc import Collection

WORD = re.compile("[A-Za-z]+")


def words(text: str) -> list[str]:
    """The words of a text in small letters, without the first and the last, which may have been cut."""
    return [word.lower() for word in WORD.findall(text)[1:-1]]


def share_known(texts: Collection[str], known: Collection[str]) -> float:
    """The share of words in all texts together that are in a vocabulary."""
    said = [word for text in texts for word in words(text)]
    return sum(word in known for word in said) / len(said)


def share_repeated(texts: Collection[str], length: int = 12) -> float:
    """The share of pieces of ``length`` characters that came before in the same text."""
    repeated = total = 0
    for text in texts:
        seen = set()
        for start in range(len(text) - length + 1):
            piece = text[start : start + length]
            repeated += piece in seen
            total += 1
            seen.add(piece)
    return repeated / total
