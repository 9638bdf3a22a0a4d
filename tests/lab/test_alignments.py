"""Drawing alignments, and which links are sure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from lab.alignments import show_alignment, sure_links
from lab.parallel_corpus import draw_pairs


def test_words_stand_at_their_rows_and_columns_and_gold_links_are_framed():
    figure, axes = plt.subplots()
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])
    show_alignment(axes, weights, ["we", "see", "it"], ["lo", "vediamo"], gold={(0, 2), (1, 0), (1, 1)})
    assert np.array_equal(axes.images[0].get_array(), weights)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["we", "see", "it"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lo", "vediamo"]
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert sorted(tuple(map(float, frame.get_center())) for frame in frames) == [(0, 1), (1, 1), (2, 0)]
    plt.close(figure)


def test_weights_that_do_not_fit_the_words_are_refused():
    figure, axes = plt.subplots()
    with pytest.raises(ValueError, match=r"shape \(2, 3\); 3 target words and 2 source words"):
        show_alignment(axes, np.ones((2, 3)), ["a", "b"], ["x", "y", "z"])
    plt.close(figure)


def test_sure_links_are_those_between_words_without_another():
    assert sure_links({(0, 0), (0, 1), (1, 3), (2, 2), (3, 2)}) == {(1, 3)}


@pytest.mark.parametrize("language", ["french", "italian"])
def test_most_gold_links_of_the_corpus_are_sure(language):
    for pair in draw_pairs(language, 50, seed=0):
        sure = sure_links(pair.alignment)
        assert sure <= pair.alignment
    of_all = [pair.alignment for pair in draw_pairs(language, 200, seed=0)]
    assert sum(len(sure_links(gold)) for gold in of_all) > 0.5 * sum(map(len, of_all))
