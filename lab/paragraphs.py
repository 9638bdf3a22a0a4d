"""The paragraphs of the book, as texts to search in.

- ``chapters(before)``: the pages of the book that come before one of them.
- ``paragraphs(stem)``: the prose of a page, without code, tables, displayed formulas and the marks of its source.
"""

import re
from dataclasses import dataclass
from pathlib import Path

BOOK = Path(__file__).resolve().parents[1] / "book"
LEAST_WORDS = 8  # what is shorter introduces something else
NO_PROSE = re.compile(
    r"\A---\n.*?^---$"  # the front matter
    r"|^(`{3,})\{.*?^\1$"  # code cells and other directives that hold no prose
    r"|^\$\$.*?^\$\$.*?$"  # displayed formulas
    r"|^\|.*?$"  # rows of tables
    r"|^\(.*?\)=$"  # anchors
    r"|<!--.*?-->",
    flags=re.M | re.S,
)
# What stands in the source, and what a reader sees of it.
SEEN = (
    (r":{3,}\{\w+\} ?|^:{3,}$", "\n"),  # questions are prose, and so are their answers
    (r"\{(?:glue:text|eq|numref)\}`.*?`", "…"),
    (r"\{cite(?::[tp])?\}`.*?`", ""),
    (r"\{\w+\}`(.*?)(?: <.*?>)?`", r"\1"),
    (r"\[(.*?)\]\(.*?\)", r"\1"),
    (r"\\(?:mathrm|operatorname|text|mathbf|frac|left|right|[,;! ])", " "),
    (r"\\([A-Za-z]+)", r" \1 "),
    (r"[$`{}^]|\*\*?|__", " "),
)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of the book.

    Parameters
    ----------
    page
        The stem of the page that it stands on.
    heading
        The nearest heading above it.
    text
        What it says.
    """

    page: str
    heading: str
    text: str


def chapters(before: str) -> list[str]:
    """The stems of the pages that come before a page in the book's table of contents; all where it is not listed."""
    toc = (BOOK / "_toc.yml").read_text(encoding="utf-8")
    stems = re.findall(r"^ *- file: (\w+)$", toc, flags=re.M)
    return stems[: stems.index(before)] if before in stems else stems


def paragraphs(stem: str) -> list[Paragraph]:
    """The paragraphs of a page."""
    return of_source(stem, (BOOK / f"{stem}.md").read_text(encoding="utf-8"))


def of_source(stem: str, source: str) -> list[Paragraph]:
    """The paragraphs of a page's source."""
    prose = NO_PROSE.sub("\n", source)
    found, heading = [], ""
    for block in re.split(r"\n\s*\n|\n(?=#+ )", prose):
        if title := re.match(r"#+ (.*)", block.strip()):
            heading = _seen(title[1])
            block = block.strip()[title.end() :]
        text = _seen(block)
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= LEAST_WORDS:
            found.append(Paragraph(stem, heading, text))
    return found


def _seen(text: str) -> str:
    for pattern, replacement in SEEN:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return re.sub(r"\s+([.,;:!?)])", r"\1", " ".join(text.split()))
