"""The text of the language model: prose, each paragraph once, and nothing of one part in the other."""

import pytest
import torch

from lab import python_text


def test_paragraphs_are_lines_of_prose_and_none_comes_twice():
    lines = python_text.paragraphs()
    assert len(lines) == len(set(lines)) > 1000
    assert not any("\n" in line or "  " in line or "::=" in line or ">>>" in line for line in lines)
    assert sum(map(len, lines)) > 250_000


def test_every_tenth_paragraph_is_kept_apart():
    corpus = python_text.corpus()
    assert 0.07 < len(corpus.validation) / len(corpus.train) < 0.16
    train, validation = (set(python_text.decode(part).splitlines()) for part in (corpus.train, corpus.validation))
    assert not train & validation
    assert train | validation == set(python_text.paragraphs())


def test_all_that_can_be_typed_is_a_token():
    text = "\n" + "".join(map(chr, range(32, 127)))
    assert len(text) == python_text.VOCAB_SIZE
    assert python_text.decode(python_text.encode(text)) == text
    assert sorted(python_text.encode(text).tolist()) == list(range(python_text.VOCAB_SIZE))
    assert python_text.encode("").dtype == torch.long


def test_a_strange_character_is_an_error_in_words():
    with pytest.raises(ValueError, match="The text has the characters 'ßé'; use letters"):
        python_text.encode("Maß, café")
