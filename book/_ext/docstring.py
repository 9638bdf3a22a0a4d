"""A numpydoc docstring as document nodes."""

import re
import textwrap

from docutils import nodes

OF_TERMS = ("Parameters", "Attributes", "Returns", "Raises")
MARKED = re.compile(r"``(.+?)``|`(.+?)`|(?<!\w)\*(\w[^*]*)\*(?!\w)")


def inline(text: str) -> list[nodes.Node]:
    """Text with backticked pieces as literals and starred ones as emphasis."""
    found: list[nodes.Node] = []
    end = 0
    for match in MARKED.finditer(text):
        marked = nodes.emphasis("", match[3]) if match[3] else nodes.literal("", match[1] or match[2])
        found += [nodes.Text(text[end : match.start()]), marked]
        end = match.end()
    return [*found, nodes.Text(text[end:])]


def paragraphs(text: str) -> list[nodes.Node]:
    """Blocks that blank lines divide: sessions of the interpreter, lists, paragraphs."""
    found: list[nodes.Node] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith(">>>"):
            found.append(nodes.literal_block(block, block, language="pycon"))
        elif block.startswith("- "):
            items = re.split(r"^- ", block, flags=re.M)[1:]
            entries = [nodes.list_item("", nodes.paragraph("", "", *inline(" ".join(item.split())))) for item in items]
            found.append(nodes.bullet_list("", *entries))
        elif block:
            found.append(nodes.paragraph("", "", *inline(" ".join(block.split()))))
    return found


def sections(docstring: str) -> dict[str, str]:
    """The text of each section by its title; what stands before the first title is under ``""``."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", docstring, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def definitions(text: str, types: dict[str, str]) -> list[nodes.Node]:
    """A section of terms with indented descriptions, each term beside its type; plain text stays paragraphs."""
    items = nodes.definition_list()
    for block in re.split(r"\n(?=\S)", text.strip()):
        term, _, rest = block.partition("\n")
        if not rest.startswith(" "):
            return paragraphs(text)
        name, _, kind = (part.strip() for part in term.partition(" : "))
        kind = ", ".join(dict.fromkeys(types[n] for n in name.split(", ") if types.get(n))) or kind
        line = nodes.term("", "", nodes.literal("", name), *([nodes.Text(" "), *_kind(kind)] if kind else []))
        items += nodes.definition_list_item("", line, nodes.definition("", *paragraphs(textwrap.dedent(rest))))
    return [items]


def _kind(text: str) -> list[nodes.Node]:
    return [nodes.inline("", "", *inline(text), classes=["kind"])]


def render(docstring: str, types: dict[str, str], returned: str = "") -> list[nodes.Node]:
    """Nodes for a whole docstring.

    Parameters
    ----------
    docstring
        The text, without its indentation.
    types
        What each parameter is, in words.
    returned
        What the function returns, in words.
    """
    found: list[nodes.Node] = []
    for title, text in sections(docstring).items():
        if title:
            found.append(nodes.rubric("", title))
        if title == "Returns" and returned:
            found.append(nodes.paragraph("", "", *_kind(returned)))
        found += definitions(text, types) if title in OF_TERMS else paragraphs(text)
    return found
