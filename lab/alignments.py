"""Word alignments: drawing attention weights with gold links marked, and which gold links are sure."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.patches import Rectangle

from lab.plots import COLOURS

Link = tuple[int, int]  # (target place, source place)


def show_alignment(
    axes, attn_weights, source: Sequence[str], target: Sequence[str], gold: Collection[Link] = ()
) -> None:
    """Draw attention weights as a heat map, source words across and target words down, gold links as frames.

    Parameters
    ----------
    axes
        Where to draw.
    attn_weights
        A weight for each target word (row) and source word (column).
    source, target
        The words.
    gold
        Links ``(target place, source place)`` to mark.

    Raises
    ------
    ValueError
        If there is not one row for each target word and one column for each source word.
    """
    attn_weights = np.asarray(attn_weights, dtype=float)
    if attn_weights.shape != (len(target), len(source)):
        raise ValueError(
            f"The weights have shape {attn_weights.shape}; {len(target)} target words and {len(source)} source words "
            f"need {(len(target), len(source))}."
        )
    axes.imshow(attn_weights, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for row, column in gold:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=1.8))
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def sure_links(gold: Collection[Link]) -> set[Link]:
    """The links between two words that have no other link. Where a word has several, each is possible and none sure."""
    of_target, of_source = Counter(row for row, _ in gold), Counter(column for _, column in gold)
    return {(row, column) for row, column in gold if of_target[row] == of_source[column] == 1}
