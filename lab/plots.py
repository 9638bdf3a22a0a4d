"""The look of the course's figures: legible small, in print, and to colour-blind readers."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib_inline.backend_inline import set_matplotlib_formats

# Okabe and Ito's colours, darker ones first. Curves also differ in their dashes, so that nothing rests on colour alone.
COLOURS = ["#0072b2", "#d55e00", "#007a5a", "#8a3b72", "#000000", "#b8860b"]
DASHES = ["-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1))]


def use_style(file_format: str = "svg") -> None:
    """Give every figure from here on the course's look; ``file_format`` is what notebooks show, "svg" or "retina"."""
    set_matplotlib_formats(file_format)
    plt.rcParams.update(
        {
            "axes.axisbelow": True,
            "axes.grid": True,
            "axes.prop_cycle": plt.cycler(color=COLOURS, linestyle=DASHES),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.figsize": (6.4, 3.4),
            "font.size": 12,
            "grid.color": "0.9",
            "legend.frameon": False,
            "lines.linewidth": 2.2,
            "svg.hashsalt": "attention course",
        }
    )


def show_matrix(axes, matrix, *, rows: str, columns: str, title: str = "", largest: float | None = None) -> None:
    """Draw a matrix of weights as squares, white for zero, with each number written in where there is room."""
    matrix = np.asarray(matrix, dtype=float)
    largest = np.nanmax(matrix) if largest is None else largest
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=largest, aspect="equal")
    axes.set(xlabel=columns, ylabel=rows, xticks=range(matrix.shape[1]), yticks=range(matrix.shape[0]))
    axes.set_title(title, fontsize=11)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if matrix.size <= 60:
        for (row, column), number in np.ndenumerate(matrix):
            colour = "white" if number > 0.6 * largest else "black"
            axes.text(column, row, f"{number:.2f}", ha="center", va="center", color=colour, fontsize=9)
