"""Sphinx configuration; gallery, tutorials, reference and references are made before the pages are read."""

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
    """Writes the gallery, the tutorials, the reference and the references."""
    from gallery_pages import write_gallery
    from reference_pages import write_reference
    from references_page import references_page
    from tutorial_pages import write_tutorials

    def write(app: object) -> None:
        source = Path(app.srcdir)  # pyright: ignore
        write_gallery(source / "gallery")
        write_reference(source / "reference")
        write_tutorials(source / "notebooks", source / "tutorials")
        (source / "references.md").write_text(references_page())

    app.connect("builder-inited", write)  # pyright: ignore
