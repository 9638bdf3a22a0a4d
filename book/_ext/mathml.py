r"""Formulas as MathML Core, made when the book is built: no script in the page, and bad TeX is an error.

The converter is ``math-core``. On the course's hardest formulas (aligned derivations with cases, matrices with dots,
``\underbrace``, stacked fractions, norm bars, numbered equations), seen in Chromium, it rendered all of them right
and refused what it does not know. ``latex2mathml`` printed the ``&`` of ``aligned``, lost ``\operatorname*`` and
accepted mistakes in silence. KaTeX in ``mini-racer`` was left aside: an engine of 82 MB to install and a vendored
script, where MathML needs neither and speaks to screen readers by itself.

MathML needs a font with a MATH table, which few machines have, so the site ships TeX Gyre Pagella Math (300 KB). It
stretches every delimiter, arrow and accent that we use; its strokes stay legible on dark backgrounds and on a phone,
where Latin Modern is thin.

Bare ``\\`` and ``&`` in a display are aligned, as Sphinx does for MathJax. Equations are numbered and referred to by
Sphinx: ``:label:`` on a ``{math}`` directive or ``$$ … $$ (label)``, then ``{eq}`label```.
"""

import re

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

# It asks for one of two forms of a script letter. The site's font has one form, and not this character.
CHANCERY = "\N{VARIATION SELECTOR-1}"
NUMBERED = r"\\(begin|end)\{(align|alignat|equation|gather|multline)\}"


def display_source(tex: str, nowrap: bool = False) -> str:
    """The TeX of a display as the converter wants it: rows aligned, environments without numbers of their own."""
    tex = re.sub(NUMBERED, r"\\\1{\2*}", tex.strip())
    if nowrap:
        return tex
    rows = [part.strip() for part in re.split(r"\n\s*\n", tex)]
    return r"\begin{aligned}" + r"\\".join(rows) + r"\end{aligned}" if len(rows) > 1 or r"\\" in tex else tex


def convert(converter: LatexToMathML, tex: str, display: bool) -> str:
    r"""MathML of a formula.

    Raises
    ------
    ValueError
        If the TeX is wrong; the message says what is wrong and quotes the place.
    """
    if reference := re.search(r"\\(label|ref|eqref)\b", tex):
        raise ValueError(
            f"{reference.group()} in a formula has no number to refer to; "
            "put :label: on a {math} directive and refer to it with {eq}."
        )
    try:
        return converter.convert_with_local_state(tex, displaystyle=display).replace(CHANCERY, "")
    except LatexError as error:
        place, _, reason = str(error).partition(": ")
        here = int(place) if place.isdigit() else 0
        raise ValueError(f"{reason} At: {tex[max(0, here - 15) : here + 25]!r}") from None


def _mathml(translator, node: nodes.Node, tex: str, display: bool) -> str:
    try:
        return convert(translator.builder.mathml_converter, tex, display)
    except ValueError as error:
        logger.warning("bad TeX: %s", error, location=node, type="mathml")
        return f"<code>{translator.encode(tex)}</code>"


def _visit_inline(translator, node: nodes.math) -> None:
    translator.body.append(_mathml(translator, node, node.astext(), display=False))
    raise nodes.SkipNode


def _visit_display(translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append('<div class="math-scroll">')
    translator.body.append(
        _mathml(translator, node, display_source(node.astext(), node.get("nowrap", False)), display=True)
    )
    translator.body.append("</div>")
    if node.get("number"):
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})</span>')
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def _make_converter(app) -> None:
    app.builder.mathml_converter = LatexToMathML(macros=app.config.mathml_macros, fancy_error=False)


def setup(app):
    app.add_config_value("mathml_macros", {}, "env")
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_display, None))
    app.connect("builder-inited", _make_converter)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
