"""Mathematics for the page: MathML for prose."""

import re
from html import escape
from inspect import cleandoc

from limen.web.text.equations import Node, UnknownMathematics, parse
from limen.web.text.one_line import FENCES, between


def mathml(latex: str, display: bool = False) -> str:
    """A `<math>` element; LaTeX that is not understood is shown as it was written."""
    try:
        body = _mathml(parse(latex))
    except UnknownMathematics:
        return f"<code>{escape(latex)}</code>"
    return f'<math display="{"block" if display else "inline"}">{body}</math>'


def _mathml(node: Node | None) -> str:
    if node is None:
        return "<mrow></mrow>"
    parts = [_mathml(part) for part in node.parts]
    match node.kind:
        case "row":
            return f"<mrow>{''.join(parts)}</mrow>"
        case "letter":
            return f"<mi>{escape(node.text)}</mi>"
        case "number":
            return f"<mn>{escape(node.text)}</mn>"
        case "operator":
            # Fences keep their size: docstrings put them around single symbols.
            fence = ' stretchy="false"' if node.text in FENCES else ""
            return f"<mo{fence}>{escape(node.text)}</mo>"
        case "large":
            return f'<mo largeop="true">{node.text}</mo>'
        case "function":
            return f'<mrow><mi mathvariant="normal">{escape(node.text)}</mi><mspace width="0.1em"/></mrow>'
        case "text":
            return f"<mtext>{escape(node.text)}</mtext>"
        case "space":
            return f'<mspace width="{node.text}em"/>'
        case "fraction":
            return f"<mfrac>{parts[0]}{parts[1]}</mfrac>"
        case "binomial":
            return f'<mrow><mo>(</mo><mfrac linethickness="0">{parts[0]}{parts[1]}</mfrac><mo>)</mo></mrow>'
        case "root":
            return f"<msqrt>{parts[0]}</msqrt>"
        case "accent":
            mark = {"\u0302": "^", "\u0304": "¯", "\u0303": "~", "\u0307": "˙", "\u0308": "¨", "\u20d7": "→"}[node.text]
            return f'<mover accent="true">{parts[0]}<mo stretchy="false">{mark}</mo></mover>'
        case "script":
            _, sub, sup = node.parts
            if sub is not None and sup is not None:
                return f"<msubsup>{''.join(parts)}</msubsup>"
            return f"<msub>{parts[0]}{parts[1]}</msub>" if sub is not None else f"<msup>{parts[0]}{parts[2]}</msup>"


def prose(docstring: str) -> str:
    """A docstring as HTML paragraphs with MathML; the text itself is escaped."""
    paragraphs = re.split(r"\n\s*\n", cleandoc(docstring))
    bodies = (between(" ".join(part.split()), mathml, _words) for part in paragraphs if part)
    return "".join(f"<p>{_together(body)}</p>" for body in bodies)


def _together(html: str) -> str:
    """Keeps a formula on one line with the brackets and stops that touch it."""
    touching = re.compile(r"([(\[]?)(<math [^>]*>.*?</math>)([)\].,;:%]*)")
    return touching.sub(lambda m: f'<span class="together">{m[0]}</span>' if m[1] or m[3] else m[0], html)


def _words(text: str) -> str:
    html = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", html)
