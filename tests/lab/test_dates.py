"""Dates: what is written says which day it is, and a translator with attention learns to read it."""

import datetime

import pytest
import torch

from lab import dates, translation
from lab.parallel_corpus import UNK, vocabularies

torch.set_num_threads(1)
IDES = datetime.date(2024, 3, 15)


@pytest.mark.parametrize(
    ("language", "style", "written"),
    [
        ("fr", "full", "vendredi 15 mars 2024"),
        ("it", "long", "15 marzo 2024"),
        ("en_US", "full", "friday, march 15, 2024"),
        ("en_GB", "long", "15 march 2024"),
        ("hu", "long", "2024. március 15."),
    ],
)
def test_dates_are_written_as_people_write_them(language, style, written):
    assert dates.write(IDES, language, style) == written
    pair = dates.pair(IDES, language, style)
    assert ("".join(pair.source), "".join(pair.target)) == (written, "2024-03-15")


def test_what_is_written_names_one_day():
    found = {}
    for pair in dates.draw_dates(4000, 3):
        assert found.setdefault(pair.source, pair.target) == pair.target


@pytest.mark.parametrize("language", dates.LANGUAGES)
def test_a_date_shows_its_year_and_its_day(language):
    for style in dates.STYLES:
        written = dates.write(IDES, language, style)
        assert "2024" in written
        assert "15" in written
        assert any(letter.isalpha() for letter in written)


def test_the_same_seed_draws_the_same_dates():
    assert dates.draw_dates(20, 1) == dates.draw_dates(20, 1) != dates.draw_dates(20, 2)


def test_no_day_of_the_test_is_in_training():
    train, test = dates.corpus()
    assert {pair.target for pair in train}.isdisjoint({pair.target for pair in test})
    source, target = vocabularies(train)
    assert all(UNK not in source.encode(pair.source) for pair in test)
    assert len(target) == 4 + 11


@pytest.mark.slow
def test_dates_are_learned():
    model, losses = dates.trained_reader()
    _, test = dates.corpus()
    said = translation.translate(model, [pair.source for pair in test])
    assert losses[0] > 2
    assert sum(t.words == p.target for p, t in zip(test, said, strict=True)) / len(test) > 0.9
