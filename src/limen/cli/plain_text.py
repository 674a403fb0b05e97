"""Docstrings and labels for a terminal: mathematics in letters, marks of emphasis left out, lines to the width."""

import re
import shutil
import textwrap
from inspect import cleandoc

from limen.web.text.one_line import plain

NARROWEST, WIDEST, WITHOUT_TERMINAL = 40, 110, 100


def width() -> int:
    """Columns to write in: those of the terminal within bounds, or a plain number where there is none."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns))


def paragraphs(docstring: str) -> str:
    """A docstring in paragraphs of plain text, one line each."""
    parts = re.split(r"\n\s*\n", cleandoc(docstring))
    return "\n\n".join(_unmarked(plain(" ".join(part.split()))) for part in parts if part.strip())


def wrapped(text: str, columns: int, indent: int = 0) -> str:
    """A line broken at `columns`, later lines indented."""
    return textwrap.fill(text, columns, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _unmarked(text: str) -> str:
    text = re.sub(r"`+([^`]+)`+", r"\1", text)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"\1", text)
