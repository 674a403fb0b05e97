"""Sphinx configuration; gallery and reference are made from the code itself before the pages are read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "limen"
author = "the limen developers"
copyright = "the limen developers"
extensions = [
    "myst_parser",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "limen"


def setup(app: object) -> None:
    """Writes the gallery and the reference."""
    from gallery_pages import write_gallery
    from reference_pages import write_reference

    def write(app: object) -> None:
        source = Path(app.srcdir)  # pyright: ignore
        write_gallery(source / "gallery")
        write_reference(source / "reference")

    app.connect("builder-inited", write)  # pyright: ignore
