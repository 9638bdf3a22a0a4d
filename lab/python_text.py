"""Prose about Python that every Python brings along: what ``help()`` says about the language.

The text is not the same in every version of Python. What is trained on it therefore differs a little too.

- ``paragraphs()``: the prose, each paragraph once. ``corpus()``: its characters as tokens, for training and validation.
- ``encode(text)``, ``decode(tokens)``: between text and tokens. There are ``VOCAB_SIZE`` of them: what one can type.
"""

import functools
import hashlib
import re
from dataclasses import dataclass

import torch
from torch import Tensor

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
VOCAB_SIZE = len(ALPHABET)
TOKENS = {character: token for token, character in enumerate(ALPHABET)}
TYPED = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})
PROSE = re.compile("[a-z]{2} [a-z]")
OTHER = re.compile(r"::=|---|===|\*\*\*|>>>")  # grammar, headings and tables, sessions


@dataclass(frozen=True)
class Corpus:
    """Tokens of the two parts of the text, every tenth paragraph for validation, and a name for exactly this text."""

    train: Tensor
    validation: Tensor
    digest: str


def paragraphs() -> list[str]:
    """The prose of the Python Language Reference and of what belongs to it, one paragraph a line, each once."""
    from pydoc_data.topics import topics

    found = {}
    for name in sorted(topics):
        for paragraph in re.split(r"\n\s*\n", topics[name].translate(TYPED)):
            line = " ".join(paragraph.split())
            if line.isascii() and PROSE.search(line) and not OTHER.search(line):
                found[line] = None
    return list(found)


@functools.cache
def corpus() -> Corpus:
    """The text as tokens; the same object whenever it is asked for."""
    lines = paragraphs()
    parts = {True: [], False: []}
    for number, line in enumerate(lines):
        parts[number % 10 == 0].append(line + "\n")
    train, validation = ("".join(parts[held_out]) for held_out in (False, True))
    digest = hashlib.sha256((train + validation).encode()).hexdigest()[:16]
    return Corpus(encode(train), encode(validation), digest)


def encode(text: str) -> Tensor:
    """One token for each character.

    Raises
    ------
    ValueError
        If a character is not in the alphabet.
    """
    strange = sorted(set(text) - TOKENS.keys())
    if strange:
        raise ValueError(f"The text has the characters {''.join(strange)!r}; use letters, digits and signs of ASCII.")
    return torch.tensor([TOKENS[character] for character in text], dtype=torch.long)


def decode(tokens: Tensor) -> str:
    """The text that tokens stand for."""
    return "".join(ALPHABET[token] for token in tokens.tolist())
