"""The shared look of figures."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from lab.plots import COLOURS, DASHES, show_matrix, use_style


def test_curves_differ_in_colour_and_in_dashes():
    assert len(set(COLOURS)) == len(set(DASHES)) == len(COLOURS)
    with plt.rc_context():
        use_style()
        figure, axes = plt.subplots()
        lines = [axes.plot([0, 1])[0] for _ in COLOURS]
        assert [line.get_color() for line in lines] == COLOURS
        plt.close(figure)


def test_a_small_matrix_shows_its_numbers_and_a_large_one_does_not():
    figure, (left, right) = plt.subplots(1, 2)
    show_matrix(left, np.array([[0.25, 0.75]]), rows="query", columns="key")
    show_matrix(right, np.zeros((9, 9)), rows="query", columns="key", largest=1)
    assert [text.get_text() for text in left.texts] == ["0.25", "0.75"]
    assert not right.texts
    plt.close(figure)
