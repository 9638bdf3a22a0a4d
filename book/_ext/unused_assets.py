"""The theme brings Font Awesome (2.6 MB) and source maps that no page uses; the built site goes without them."""

import shutil
from pathlib import Path

UNUSED = ("_static/scripts/fontawesome.js*", "_static/vendor", "_static/scripts/*.map")


def _remove_unused(app, exception) -> None:
    for pattern in UNUSED if exception is None and app.builder.format == "html" else ():
        for path in list(Path(app.outdir).glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def setup(app):
    app.connect("build-finished", _remove_unused)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
