"""``{answer}``: an answer behind a click, in plain ``<details>``, which needs no script.

    :::{answer} Why does it not overflow?
    The largest exponent is zero.
    :::

Without a title the summary says "Answer".
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class answer(nodes.General, nodes.Element):
    """Content that is folded until the reader asks for it."""


class summary(nodes.TextElement):
    """What a folded answer shows."""


class AnswerDirective(SphinxDirective):
    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        title = self.arguments[0] if self.arguments else "Answer"
        inline, messages = self.state.inline_text(title, self.lineno)
        node = answer("", summary(title, "", *inline))
        self.set_source_info(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node, *messages]


def _visit_answer(translator, node):
    translator.body.append(translator.starttag(node, "details", CLASS="answer"))


def _depart_answer(translator, node):
    translator.body.append("</details>\n")


def _visit_summary(translator, node):
    translator.body.append("<summary>")


def _depart_summary(translator, node):
    translator.body.append("</summary>\n")


def setup(app):
    app.add_node(answer, html=(_visit_answer, _depart_answer))
    app.add_node(summary, html=(_visit_summary, _depart_summary))
    app.add_directive("answer", AnswerDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
