"""What the theme leaves to scripts, settled when the book is built.

The theme's colours hang on an attribute that a script sets; without scripts the page is light. A script, source maps
and old font formats that no page asks for are left out.
"""

from pathlib import Path

UNUSED = ("_static/scripts/fontawesome.js*", "_static/scripts/*.map", "_static/styles/*.map", "_static/**/*.ttf")


def _finish(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    for pattern in UNUSED:
        for path in list(Path(app.outdir).glob(pattern)):
            path.unlink(missing_ok=True)
    for page in Path(app.outdir).glob("**/*.html"):
        text = page.read_text(encoding="utf-8")
        if ' data-theme="auto">' in text:
            page.write_text(text.replace(' data-theme="auto">', ' data-theme="light">', 1), encoding="utf-8")


def setup(app):
    app.connect("build-finished", _finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
