"""The figure in which a reader moves a query: drawn here once, so that it can be read without scripts.

``book/_static/attention_figure.js`` moves what is drawn here. The numbers that it needs stand in the markup.
"""

import html
import json
import math

import numpy as np

from autograder.reference.getting_started import softmax

SIDE = 240  # of a panel, in units of its own
REACH = 3.2  # a panel shows coordinates from -REACH to REACH
BAR_LEFT, BAR_WIDTH = 40, 150
SHAPES = "●▲■◆★"


def draw(keys: np.ndarray, values: np.ndarray, query: np.ndarray, sharpness: float = 1.0) -> str:
    """The figure as HTML: keys and query, weights, values and output, for one query in the plane.

    Parameters
    ----------
    keys, values
        Points of the plane, of shape ``(N, 2)`` with N at most five.
    query
        Where the query stands at first, of shape ``(2,)``.
    sharpness
        A factor on the scaled scores, 1 for scaled dot-product attention.
    """
    weights = softmax(sharpness * keys @ query / math.sqrt(2))
    output = weights @ values
    data = html.escape(json.dumps({"keys": keys.tolist(), "values": values.tolist(), "reach": REACH, "side": SIDE}))
    marks = list(zip(SHAPES, range(1, len(keys) + 1), strict=False))
    query_x, query_y = _place(query)
    key_marks = "".join(_point(*_place(key), shape, f"k{i}") for key, (shape, i) in zip(keys, marks, strict=True))
    output_x, output_y = _place(output)
    value_marks = "".join(
        _point(*_place(value), shape, f"v{i}") for value, (shape, i) in zip(values, marks, strict=True)
    )
    bars = "".join(
        f"<text class='af-mark' x='20' y='{30 + 42 * n}'>{shape}</text>"
        f"<rect class='af-bar' x='{BAR_LEFT}' y='{14 + 42 * n}' width='{BAR_WIDTH * w:.1f}' height='22' rx='2'/>"
        f"<text class='af-number' x='{BAR_LEFT + BAR_WIDTH * w + 6:.1f}' y='{31 + 42 * n}'>{w:.2f}</text>"
        for n, ((shape, _), w) in enumerate(zip(marks, weights, strict=True))
    )
    said = f"query at ({query[0]:.1f}, {query[1]:.1f}); weights " + ", ".join(f"{w:.2f}" for w in weights)
    return f"""<div class="attention-figure" data-attention='{data}'>
<div class="af-panels">
<figure><svg class="af-plane" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="Keys and the query in the plane">
{_axes()}{_links(keys, query, weights)}{key_marks}
<g class="af-query" transform="translate({query_x:.1f} {query_y:.1f})">
<circle class="af-halo" r="24"/><circle class="af-dot" r="8"/><text class="af-name" x="12" y="-10">q</text></g></svg>
<figcaption>keys and the query</figcaption></figure>
<figure><svg class="af-bars" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="The weight of each key">{bars}</svg>
<figcaption>weights, their sum is one</figcaption></figure>
<figure><svg class="af-values" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="Values and the output in the plane">
{_axes()}{_links(values, output, weights)}{value_marks}
<g class="af-output" transform="translate({output_x:.1f} {output_y:.1f})">
<circle r="8"/><text class="af-name" x="12" y="-10">o</text></g></svg>
<figcaption>values and the output</figcaption></figure>
</div>
<p class="af-words" aria-live="polite">{said}; output ({output[0]:.2f}, {output[1]:.2f})</p>
</div>"""


def _place(point: np.ndarray) -> tuple[float, float]:
    """Where a point of the plane lies in a panel, whose second axis points down."""
    return SIDE / 2 * (1 + point[0] / REACH), SIDE / 2 * (1 - point[1] / REACH)


def _links(points: np.ndarray, end: np.ndarray, weights: np.ndarray) -> str:
    """A line from each point to ``end``, as thick as its weight."""
    end_x, end_y = _place(end)
    target = f"x2='{end_x:.1f}' y2='{end_y:.1f}'"
    return "".join(
        f"<line class='af-link' x1='{x:.1f}' y1='{y:.1f}' {target} stroke-width='{0.4 + 9 * weight:.2f}'/>"
        for (x, y), weight in zip(map(_place, points), weights, strict=True)
    )


def _axes() -> str:
    middle = SIDE // 2
    return f"<path class='af-axes' d='M0 {middle}H{SIDE}M{middle} 0V{SIDE}'/>"


def _point(x: float, y: float, shape: str, name: str) -> str:
    return (
        f"<text class='af-mark' x='{x:.1f}' y='{y + 5:.1f}'>{shape}</text>"
        f"<text class='af-name' x='{x + 10:.1f}' y='{y - 7:.1f}'>{name}</text>"
    )
