"""Docstrings and labels for a terminal: mathematics in letters, marks of emphasis left out, lines to the width."""

import re
import shutil
import textwrap
from inspect import cleandoc

from limen.web.equations import Node, UnknownMathematics, parse

NARROWEST, WIDEST, WITHOUT_TERMINAL = 40, 110, 100
_DOLLARS = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
_RAISED = str.maketrans("0123456789+-−=()niTk⊤", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵀᵏᵀ")
_LOWERED = str.maketrans("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
_CLOSE = set("()[]{}|‖⟨⟩⌊⌋⌈⌉,./′!:;^∗*")


def width() -> int:
    """Columns to write in: those of the terminal within bounds, or a plain number where there is none."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns))


def plain(text: str) -> str:
    """A text with its `$...$` in Unicode letters; what is not understood stays as it was written."""
    return _DOLLARS.sub(lambda match: _formula(match.group(1) or match.group(2)), text)


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


def _formula(latex: str) -> str:
    try:
        return re.sub(r" +", " ", _letters(parse(latex))).strip()
    except UnknownMathematics:
        return latex


def _letters(node: Node | None) -> str:
    if node is None:
        return ""
    parts = [_letters(part) for part in node.parts]
    match node.kind:
        case "row":
            return "".join(parts)
        case "operator":
            return node.text if node.text in _CLOSE else f" {node.text} "
        case "function":
            return f"{node.text} "
        case "space":
            return " " if float(node.text) > 0.2 else ""
        case "fraction":
            return f"{_grouped(node.parts[0], parts[0])}/{_grouped(node.parts[1], parts[1])}"
        case "binomial":
            return f"C({parts[0]}, {parts[1]})"
        case "root":
            return f"√{_grouped(node.parts[0], parts[0])}"
        case "accent":
            return parts[0][:1] + node.text + parts[0][1:]
        case "script":
            base, low, high = parts
            return base.rstrip() + _script(low, _LOWERED, "_") + _script(high, _RAISED, "^")
        case _:
            return node.text


def _script(text: str, letters: dict[int, int], mark: str) -> str:
    """Small letters where Unicode has them all, else the mark and brackets."""
    text = text.replace(" ", "")
    if not text:
        return ""
    if text in ("*", "∗", "′"):
        return text
    small = text.translate(letters)
    if not any(character in small for character in text if character not in "ᵀ"):
        return small
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


def _grouped(node: Node | None, text: str) -> str:
    single = node is None or node.kind != "row" or len(node.parts) <= 1
    return text.strip() if single else f"({text.strip()})"
