"""The theme brings a script, source maps and old font formats that no page asks for; the site goes without."""

from pathlib import Path

UNUSED = ("_static/scripts/fontawesome.js*", "_static/scripts/*.map", "_static/styles/*.map", "_static/**/*.ttf")


def _remove_unused(app, exception) -> None:
    for pattern in UNUSED if exception is None and app.builder.format == "html" else ():
        for path in list(Path(app.outdir).glob(pattern)):
            path.unlink(missing_ok=True)


def setup(app):
    app.connect("build-finished", _remove_unused)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
