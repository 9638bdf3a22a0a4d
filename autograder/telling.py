"""Telling a person what a check found: as text that reads without colour, and as HTML with small pictures."""

import html
import textwrap
import unicodedata
from collections.abc import Iterator

import numpy as np

from autograder.judging import AspectResult, Finding, Report

COLUMNS = 76  # of a report as text
PICTURE_CELLS = 16  # rows and columns of a picture at the most
PICTURE_SIZE = 112  # pixels, on its longer side; a picture of few cells is smaller
LARGEST_CELL = 14  # pixels
JOINERS = "\u200c\u200d"  # which scripts such as Persian and Hindi need
FAINT = 0.1  # a difference smaller than this share of the values is shown enlarged

STYLE = """
.ag{font:14px/1.5 system-ui,sans-serif;border-left:4px solid var(--ag);padding:.4em .9em;margin:.3em 0;color:inherit}
.ag.pass{--ag:#1a7f37}.ag.part{--ag:#9a6700}.ag.fail{--ag:#cf222e}
.ag p{margin:.3em 0}.ag .verdict{font-weight:700;font-size:1.05em}.ag .advice{font-weight:600}
.ag ul{margin:.5em 0;padding-left:0;list-style:none}.ag li{margin:.2em 0}.ag .why{margin-left:1.2em}
.ag .pictures{display:flex;gap:1.2em;margin:.4em 1.2em .7em}.ag figure{margin:0;flex:0 1 auto}
.ag figcaption{font-size:.85em;color:inherit;opacity:1;text-align:left;margin:.2em 0 0;padding:0}
.ag svg{display:block;max-width:100%;height:auto;outline:1px solid #8888}.ag code{font-size:.95em}
"""


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    if report.is_reference and not report.hidden:
        return f"{report.kernel}: this is the course's own kernel, compared with itself. Write yours in the cell above."
    if report.ready_made:
        names = ", ".join(f"`{name}`" for name in report.ready_made)
        return (
            f"{report.kernel}: this calls {names}, which does the whole work. The task is to write that work yourself."
        )
    if _untouched(report):
        return f"{report.kernel}: the placeholder still stands in it, so there is nothing to check yet."
    kind = "hidden" if report.hidden else "visible"
    if report.passed:
        return f"{report.kernel}: all {kind} cases pass."
    right = sum(aspect.passed for aspect in report.aspects)
    points = f"{report.score} of {report.points} points"
    return f"{report.kernel}: {right} of {len(report.aspects)} things asked are right ({points})."


def _untouched(report: Report) -> bool:
    """Whether nothing but the given input checks does anything yet."""
    wrong = [finding for finding in report.findings if not finding.passed]
    return bool(wrong) and all(map(_unwritten, wrong)) and not any(aspect.passed for aspect in report.aspects)


def _unwritten(finding: Finding) -> bool:
    """Whether the kernel ended in the placeholder."""
    return finding.fault is not None and finding.fault.is_placeholder


def first_wrong(report: Report, aspect: str) -> Finding | None:
    """The first case of an aspect that did not pass."""
    return next((f for f in report.findings if f.aspect == aspect and not f.passed), None)


def why_not(report: Report, finding: Finding) -> str:
    """What went wrong in one case; the title of a hidden case is not shown."""
    if _unwritten(finding):
        return "Not written yet: the kernel raises NotImplementedError."
    where = "" if report.hidden else f"Case: {finding.title}. "
    if finding.fault and finding.fault.kind == "raised":
        line = f" (line {finding.fault.line} of your cell)" if finding.fault.line else ""
        return f"{where}Your kernel raised {finding.text}{line}."
    return where + finding.text


def as_text(report: Report, next_hint: str = 'hint("{kernel}")') -> str:
    """The report as plain text; ``next_hint`` is how the reader asks for the next hint for ``{kernel}``."""
    lines = [headline(report)]
    for aspect, why, _ in _aspects(report):
        lines.append(f"  [{'ok' if aspect.passed else '--'}] {aspect.title} ({aspect.score} of {aspect.points})")
        lines += [f"       {why}"] if why else []
    lines += [f"  {line}" for line in _lead(report)]
    lines += [f"  -> {advice}" for advice in report.advice]
    lines += [f"  For the next hint: {next_hint.format(kernel=report.kernel)}"] if _wants_hint(report) else []
    return "\n".join(wrapped(line) for line in lines)


def as_html(report: Report) -> str:
    """The report as an HTML fragment with its own style, without scripts."""
    state = "pass" if report.passed and not report.is_reference else "part" if report.score else "fail"
    parts = [f"<style>{STYLE}</style><div class='ag {state}' role='status'>"]
    parts.append(f"<p class='verdict'>{inline(headline(report))}</p>")
    parts += [f"<p>{line}</p>" for line in _lead(report)]
    parts += [f"<p class='advice'>→ {inline(advice)}</p>" for advice in report.advice]
    parts.append("<ul>")
    for aspect, why, wrong in _aspects(report):
        mark, word = ("✓", "right") if aspect.passed else ("✗", "not yet")
        points = f"{aspect.score} of {aspect.points}"
        parts.append(f"<li><span aria-hidden='true'>{mark}</span> {inline(aspect.title)}: {word} ({points})")
        parts.append(f"<p class='why'>{inline(why)}</p>{_pictures(wrong)}" if why else "")
        parts.append("</li>")
    parts.append("</ul>")
    if _wants_hint(report):
        parts.append(f"<p>For the next hint: <code>hint(&quot;{html.escape(report.kernel)}&quot;)</code></p>")
    return "".join(parts) + "</div>"


def _aspects(report: Report) -> Iterator[tuple[AspectResult, str, Finding | None]]:
    """Each aspect, why it did not pass unless that was said before, and the finding that says so.

    None where a ready-made function did the work: what it gave says nothing about the student.
    """
    said = set()
    for aspect in () if report.ready_made else report.aspects:
        wrong = first_wrong(report, aspect.title)
        yield aspect, why_not(report, wrong) if wrong and wrong.text not in said else "", wrong
        said.add(wrong and wrong.text)


def _lead(report: Report) -> list[str]:
    """What stands before the advice where several known mistakes give the same arrays."""
    several = len(report.mistakes) > 1 and len(report.advice) > 1
    return ["Several mistakes look like this; yours may be one of them:"] if several else []


def _wants_hint(report: Report) -> bool:
    return not report.passed and not report.hidden and not report.is_reference and not report.ready_made


def wrapped(text: str) -> str:
    """Text in lines of ``COLUMNS``, each as far from the left as the first one's words."""
    words = text.lstrip(" ->")
    return textwrap.fill(
        text,
        COLUMNS,
        drop_whitespace=True,
        subsequent_indent=" " * (len(text) - len(words)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def one_line(text: str) -> str:
    """Text that somebody else wrote, on one line and without what a terminal obeys; letters of every script stay."""
    return "".join(
        " " if unicodedata.category(letter)[0] in "CZ" and letter not in JOINERS else letter for letter in text
    )


def inline(text: str) -> str:
    """Escaped text, with `code` marked up."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def _pictures(finding: Finding) -> str:
    """Target, yours and difference of the first two-dimensional slice that is wrong, as three small pictures."""
    target, given = finding.target, finding.given
    if target is None or given is None or target.shape != given.shape or not target.size or target.dtype.kind != "f":
        return ""
    cut = (finding.mismatch.index or ())[: max(target.ndim - 2, 0)]
    target, given = (
        np.atleast_2d(array[cut].astype(np.float64))[:PICTURE_CELLS, :PICTURE_CELLS] for array in (target, given)
    )
    with np.errstate(invalid="ignore"):
        difference = given - target
    scale, error = _largest(target, given) or 1.0, _largest(difference)
    faint = finding.mismatch.kind == "values" and 0 < error < FAINT * scale
    panels = {
        "target": target / scale,
        "yours": given / scale,
        "difference, enlarged" if faint else "difference": difference / (error if faint else scale),
    }
    what = f"{finding.mismatch.array}[{', '.join(map(str, cut))}]" if cut else finding.mismatch.array
    figures = "".join(
        f"<figure>{_picture(values, f'{title}: {what}')}<figcaption>{title}</figcaption></figure>"
        for title, values in panels.items()
    )
    return f"<div class='pictures'>{figures}</div>"


def _largest(*arrays: np.ndarray) -> float:
    """The largest size of a finite entry."""
    sizes = np.abs(np.concatenate(arrays))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def _picture(values: np.ndarray, label: str) -> str:
    """A matrix of numbers from -1 to 1 as coloured squares."""
    side = min(PICTURE_SIZE // max(values.shape), LARGEST_CELL)
    cells = "".join(
        f"<rect x='{column * side}' y='{row * side}' width='{side}' height='{side}' fill='{_colour(value)}'/>"
        for (row, column), value in np.ndenumerate(values)
    )
    height, width = (side * size for size in values.shape)
    label = html.escape(label, quote=True)
    size = f"width='{width}' height='{height}' viewBox='0 0 {width} {height}'"
    return f"<svg role='img' aria-label='{label}' {size} shape-rendering='crispEdges'>{cells}</svg>"


def _colour(value: float) -> str:
    """Blue for negative, white for zero, red for positive, black where the value is not finite."""
    if not np.isfinite(value):
        return "#000"
    fade = round(255 * (1 - min(abs(value), 1.0)))
    return f"rgb({fade},{fade},255)" if value < 0 else f"rgb(255,{fade},{fade})"
