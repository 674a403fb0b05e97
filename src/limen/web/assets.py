"""The files of the page, read once: no path that comes from outside is ever opened."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
PAGE = ("index.html", "style.css", "app.js", "api.js", "gallery.js", "stored.js", "experiment.js", "controls.js",
        "owndata.js", "plots.js", "problem.js", "questions.js", "sheet.js", "icon.svg")  # fmt: skip


@dataclass(frozen=True)
class Asset:
    """One file: its bytes, and how a browser should read and keep them."""

    name: str
    content: bytes

    @property
    def media_type(self) -> str:
        """The type of the content, with its encoding."""
        return f"{TYPES[self.name.rpartition('.')[2]]}; charset=utf-8"

    @cached_property
    def tag(self) -> str:
        """Changes whenever the content does."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:20]}"'

    @cached_property
    def compressed(self) -> bytes:
        """The content, gzipped once."""
        return gzip.compress(self.content, 6, mtime=0)


@cache
def assets() -> dict[str, Asset]:
    """Every file by its name; plotly's script comes from the installed package."""
    own = files("limen.web") / "static"
    found = {name: Asset(name, (own / name).read_bytes()) for name in PAGE}
    script = files("plotly") / "package_data" / "plotly.min.js"
    return {**found, "plotly.js": Asset("plotly.js", script.read_bytes())}
