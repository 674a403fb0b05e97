"""Sphinx configuration; the gallery is made from the registry of experiments before the pages are read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "limen"
author = "the limen developers"
copyright = "the limen developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "limen"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


def setup(app: object) -> None:
    """Writes the gallery pages."""
    from gallery_pages import write_gallery

    app.connect("builder-inited", lambda app: write_gallery(Path(app.srcdir) / "gallery"))  # pyright: ignore
    app.connect("autodoc-process-docstring", _dollars)  # pyright: ignore


def _dollars(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings write mathematics as $...$, which reStructuredText spells :math:`...`."""
    import re

    text = re.sub(r"\$([^$]+)\$", lambda match: f":math:`{match.group(1)}`", "\n".join(lines))
    text = re.sub(r"(?<![`:])`([^`\n]+)`(?!`)", r"``\1``", text).replace(":math:``", ":math:`")
    text = re.sub(r":math:`([^`]*)``", r":math:`\1`", text)
    lines[:] = text.split("\n")
