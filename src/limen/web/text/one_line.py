"""Mathematics on one line: letters with `<sub>` and `<sup>` for the labels of plots, Unicode for a terminal."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from limen.web.text.equations import Node, UnknownMathematics, parse

FENCES = "()[]{}|‖⟨⟩⌊⌋⌈⌉"
_DOLLARS = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
_RAISED = str.maketrans("0123456789+-−=()niTk⊤", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵀᵏᵀ")
_LOWERED = str.maketrans("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")


def label(text: str) -> str:
    """A label of a figure for plotly, whose only markup is `<i>`, `<sub>` and `<sup>`; everything else is escaped."""
    written = between(text, lambda latex, _: _formula(latex, HTML), escape)
    return written.replace("\n", "<br>").removesuffix("<br>")


def plain(text: str) -> str:
    """A text with its `$...$` in Unicode letters; what is not understood stays as it was written."""
    return between(text, lambda latex, _: re.sub(r" +", " ", _formula(latex, UNICODE)).strip(), str)


def between(text: str, mathematics: Callable[[str, bool], str], words: Callable[[str], str]) -> str:
    """Applies one function to the mathematics of a text (LaTeX, and whether it is displayed), another to the rest."""
    out, last = [], 0
    for match in _DOLLARS.finditer(text):
        display, inline = match.groups()
        out += [words(text[last : match.start()]), mathematics(display or inline, display is not None)]
        last = match.end()
    return "".join([*out, words(text[last:])])


@dataclass(frozen=True)
class Hand:
    """How a line of mathematics is written: blanks around signs and between, letters, close signs, scripts."""

    escaped: Callable[[str], str]
    blank: str
    narrow: str
    letter: Callable[[str], str]
    close: frozenset[str]
    accent: Callable[[str, str], str]
    script: Callable[[str, str, str], str]


def _formula(latex: str, hand: Hand) -> str:
    try:
        return _written(parse(latex), hand)
    except UnknownMathematics:
        return hand.escaped(latex)


def _written(node: Node | None, hand: Hand) -> str:
    if node is None:
        return ""
    parts = [_written(part, hand) for part in node.parts]
    match node.kind:
        case "row":
            return "".join(parts)
        case "letter":
            return hand.letter(node.text)
        case "operator":
            text = hand.escaped(node.text)
            return text if node.text in hand.close else f"{hand.blank}{text}{hand.blank}"
        case "function":
            return hand.escaped(node.text) + hand.blank
        case "space":
            return hand.narrow if float(node.text) < 0.25 else " "
        case "fraction":
            return f"{_grouped(node.parts[0], parts[0])}/{_grouped(node.parts[1], parts[1])}"
        case "binomial":
            return f"C({parts[0]}, {parts[1]})"
        case "root":
            return f"√{_grouped(node.parts[0], parts[0])}"
        case "accent":
            return hand.accent(parts[0], node.text)
        case "script":
            return hand.script(*parts)
        case _:
            return hand.escaped(node.text)


def _grouped(node: Node | None, text: str) -> str:
    """With parentheses around more than one symbol."""
    single = node is None or node.kind != "row" or len(node.parts) <= 1
    return text.strip() if single else f"({text.strip()})"


def _tagged(base: str, low: str, high: str) -> str:
    return base.rstrip("\u2009") + (f"<sub>{low}</sub>" if low else "") + (f"<sup>{high}</sup>" if high else "")


def _small(base: str, low: str, high: str) -> str:
    return base.rstrip() + _script(low, _LOWERED, "_") + _script(high, _RAISED, "^")


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


HTML = Hand(
    escape,
    "\u2009",
    "\u2009",
    lambda text: f"<i>{text}</i>" if text.isalpha() else text,
    frozenset((*FENCES, ",", ".", "/", "′", "!", ":", ";", "−")),
    lambda base, mark: re.sub(r"(?<=[^<>/])(?=</i>|$)", mark, base, count=1),
    _tagged,
)
UNICODE = Hand(
    str,
    " ",
    "",
    str,
    frozenset((*FENCES, *",./′!:;^∗*")),
    lambda base, mark: base[:1] + mark + base[1:],
    _small,
)
