"""Words and repetition, counted by hand."""

import pytest

from lab import samples


def test_cut_words_at_both_ends_do_not_count():
    assert samples.words('ner Dog saw a "cat", 2 ra') == ["dog", "saw", "a", "cat"]


def test_the_share_of_known_words_is_over_all_texts():
    texts = ["x the dog zq x", "x the x"]
    assert samples.share_known(texts, {"the", "dog"}) == pytest.approx(3 / 4)


def test_only_what_came_before_in_the_same_text_is_repeated():
    assert samples.share_repeated(["abcabc", "abcxyz"], length=3) == pytest.approx(1 / 8)
    assert samples.share_repeated(["aaaaa"], length=2) == pytest.approx(3 / 4)
