"""Every figure says in words what it shows: an image without alternative text is an error of the build."""

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
                    location=image,
                    type="accessible_figures",
                )


def setup(app):
    app.add_post_transform(RequireAltText)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
