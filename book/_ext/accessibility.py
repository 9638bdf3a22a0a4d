"""What a reader who does not see the page needs.

An image without alternative text is an error of the build. The list that docutils makes of a bibliography claims to be
one in ARIA's sense, but its entries have another role; the claim goes.
"""

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)


class RequireAltText(SphinxPostTransform):
    """Report images without alternative text, after MyST-NB has chosen the outputs to show."""

    default_priority = 300
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for image in self.document.findall(nodes.image):
            if not image.get("alt", "").strip():
                logger.warning(
                    "%s has no alternative text; say what the figure shows (`:alt:` of a figure, the text in ![…], "
                    "or in a code cell the option `mystnb: {image: {alt: …}}`).",
                    image.get("uri", "an image"),
                    location=image if image.line else image.parent,
                    type="accessibility",
                )


def _drop_false_list(app, pagename, templatename, context, doctree) -> None:
    body = context.get("body", "")
    context["body"] = body.replace('<div role="list" class="citation-list">', '<div class="citation-list">')


def setup(app):
    app.connect("html-page-context", _drop_false_list)
    app.add_post_transform(RequireAltText)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
