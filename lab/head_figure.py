"""The figure in which a reader picks a head and a word, and sees what that word attends to.

It is drawn here once, so that it can be read without scripts; ``book/_static/head_figure.js`` draws other choices. The
numbers that it needs stand in the markup, as whole percents.
"""

import html
import json

import numpy as np

ROW, LEFT, RIGHT, WIDTH = 26, 118, 222, 360  # in units of the drawing


def draw(pieces: list[str], weights: np.ndarray, layer: int, head: int, word: int) -> str:
    """The figure as HTML: one word's weights in one head, and for every head the word it attends to most.

    Parameters
    ----------
    pieces
        The words of the sentence, of number N.
    weights
        Attention weights of shape ``(num_layers, num_heads, N, N)``.
    layer, head, word
        What is shown at first, each counted from 0.
    """
    percents = np.rint(100 * np.asarray(weights)).astype(int)
    num_layers, num_heads, length, _ = percents.shape
    data = html.escape(
        json.dumps({"pieces": pieces, "shape": percents.shape[:3], "percents": percents.ravel().tolist()})
    )
    row = percents[layer, head, word]
    lines = "".join(
        f"<line class='hf-line' x1='{LEFT + 6}' y1='{_middle(word)}' x2='{RIGHT - 6}' y2='{_middle(n)}' "
        f"stroke-width='{percent / 8:.2f}'/>"
        for n, percent in enumerate(row)
    )
    asking = "".join(
        f"<text class='hf-asks{' hf-chosen' * (n == word)}' x='{LEFT}' y='{_middle(n) + 5}'>{html.escape(piece)}</text>"
        for n, piece in enumerate(pieces)
    )
    asked = "".join(
        f"<text x='{RIGHT}' y='{_middle(n) + 5}'>{html.escape(piece)}</text>"
        f"<text class='hf-percent' x='{WIDTH}' y='{_middle(n) + 5}'>{percent} %</text>"
        for n, (piece, percent) in enumerate(zip(pieces, row, strict=True))
    )
    heads = "".join(f"<th scope='col'>{number}</th>" for number in range(num_heads))
    body = "".join(
        f"<tr><th scope='row'>{number}</th>"
        + "".join(
            _cell(pieces, percents[number, other, word], chosen=(number, other) == (layer, head))
            for other in range(num_heads)
        )
        + "</tr>"
        for number in range(num_layers)
    )
    said = html.escape(describe(pieces, row, layer, head, word))
    return f"""<div class="head-figure" data-heads='{data}' data-choice='{layer} {head} {word}'>
<svg viewBox="0 0 {WIDTH} {ROW * length + 8}" role="img" aria-label="What one word attends to in one head">
{lines}{asking}{asked}</svg>
<p class="hf-words" aria-live="polite">{said}</p>
<p class="hf-caption">The word that <b class="hf-name">{html.escape(pieces[word])}</b> attends to most, in percent: a
row for each layer, a column for each head.</p>
<div class="hf-scroll" role="region" tabindex="0" aria-label="Every head's strongest word">
<table><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table></div>
</div>"""


def describe(pieces: list[str], percents: np.ndarray, layer: int, head: int, word: int) -> str:
    """The drawing in words: the three strongest weights of one word in one head."""
    strongest = np.argsort(-np.asarray(percents), kind="stable")[:3]
    named = ", ".join(f"{pieces[n]} {percents[n]} %" for n in strongest)
    return f"layer {layer}, head {head}: {pieces[word]} attends to {named}"


def _middle(row: int) -> int:
    return ROW * row + ROW // 2 + 4


def _cell(pieces: list[str], percents: np.ndarray, chosen: bool) -> str:
    strongest = int(np.argmax(percents))
    return (
        f"<td class='hf-cell{' hf-chosen' * chosen}' style='--weight: {percents[strongest]}%'>"
        f"{html.escape(pieces[strongest])} {percents[strongest]}</td>"
    )
