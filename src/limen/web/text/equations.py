r"""The LaTeX of docstrings and axis labels as a small tree.

Covered is what the experiments write: letters, numbers, scripts, fractions, roots, accents, fences, named functions and
Greek. Anything else raises `UnknownMathematics`, and the page shows the source text instead.
"""

import re
from dataclasses import dataclass
from typing import Literal

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "varrho": "ϱ", "sigma": "σ", "varsigma": "ς", "tau": "τ", "upsilon": "υ", "phi": "ϕ", "varphi": "φ",
    "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "infty": "∞", "partial": "∂",
    "nabla": "∇", "top": "⊤", "perp": "⊥", "hbar": "ℏ", "emptyset": "∅",
}  # fmt: skip
OPERATORS = {
    "to": "→", "rightarrow": "→", "leftarrow": "←", "mapsto": "↦", "cdot": "⋅", "times": "×", "pm": "±", "mp": "∓",
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "sim": "∼", "simeq": "≃",
    "propto": "∝", "asymp": "≍", "equiv": "≡", "gg": "≫", "ll": "≪", "in": "∈", "mid": "∣", "langle": "⟨",
    "rangle": "⟩", "|": "‖", "lvert": "|", "rvert": "|", "lVert": "‖", "rVert": "‖", "dots": "…", "ldots": "…",
    "cdots": "⋯", "circ": "∘", "otimes": "⊗", "oplus": "⊕", "odot": "⊙", "setminus": "∖", "cup": "∪", "cap": "∩",
    "{": "{", "}": "}", "%": "%", "&": "&", "#": "#", "_": "_",
    "Rightarrow": "⇒", "iff": "⇔", "implies": "⇒", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
    "prime": "′", "ast": "∗", "star": "⋆", "dagger": "†",
}  # fmt: skip
LARGE = {"sum": "∑", "prod": "∏", "int": "∫"}
FUNCTIONS = {"log", "ln", "exp", "cos", "sin", "tan", "tanh", "cosh", "sinh", "max", "min", "sup", "inf", "arg", "det",
             "lim", "Pr", "dim", "tr", "argmax", "argmin", "arcsin", "arccos", "arctan"}  # fmt: skip
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303", "dot": "\u0307", "ddot": "\u0308", "vec": "\u20d7",
           "widehat": "\u0302", "overline": "\u0304", "widetilde": "\u0303"}  # fmt: skip
SPACES = {",": 0.17, ":": 0.22, ";": 0.28, "!": 0.0, " ": 0.3, "quad": 1.0, "qquad": 2.0}
SIZES = {"big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "left", "right", "displaystyle", "textstyle"}
DOUBLE = {"R": "ℝ", "E": "𝔼", "P": "ℙ", "S": "𝕊", "N": "ℕ", "Z": "ℤ", "C": "ℂ", "V": "𝕍", "1": "𝟙"}
_TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[0-9]+(?:\.[0-9]+)?|\s+|.", re.DOTALL)
Kind = Literal[
    "row", "letter", "number", "operator", "large", "function", "text", "space",
    "script", "fraction", "root", "accent", "binomial",
]  # fmt: skip
DEEPEST = 30


class UnknownMathematics(ValueError):
    """LaTeX that the small reader does not know."""


@dataclass(frozen=True)
class Node:
    """One piece: `text` for leaves; `parts` for the others. A script has base, sub and sup, either possibly None."""

    kind: Kind
    text: str = ""
    parts: tuple["Node | None", ...] = ()


def parse(latex: str) -> Node:
    """The tree of a formula without its dollars."""
    reader = _Reader(_TOKEN.findall(latex))
    row = reader.row(None, 0)
    if reader.tokens:
        raise UnknownMathematics(f"unexpected {reader.tokens[-1]!r}")
    return row


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def row(self, end: str | None, depth: int) -> Node:
        """Everything up to `end`, which is taken too."""
        if depth > DEEPEST:
            raise UnknownMathematics("nested too deeply")
        parts: list[Node] = []
        while self.tokens:
            token = self.tokens.pop()
            if token == end:
                return Node("row", parts=tuple(parts))
            if token in "^_'" and not token.isspace():
                base = parts.pop() if parts else Node("text", "")
                parts.append(self._script(base, token, depth))
            elif not token.isspace():
                node = self._atom(token, depth)
                if node is not None:
                    parts.append(node)
        if end is not None:
            raise UnknownMathematics(f"no {end!r}")
        return Node("row", parts=tuple(parts))

    def _script(self, base: Node, token: str, depth: int) -> Node:
        sub, sup = (base.parts[1], base.parts[2]) if base.kind == "script" else (None, None)
        inner = base.parts[0] if base.kind == "script" else base
        if token == "'":
            primes = Node("operator", "′")
            return Node("script", parts=(inner, sub, Node("row", parts=(sup, primes)) if sup else primes))
        value = self._argument(depth)
        if token == "_":
            if sub is not None:
                raise UnknownMathematics("two subscripts")
            return Node("script", parts=(inner, value, sup))
        return Node("script", parts=(inner, sub, Node("row", parts=(sup, value)) if sup else value))

    def _argument(self, depth: int) -> Node:
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()
        if not self.tokens:
            raise UnknownMathematics("an argument is missing")
        token = self.tokens.pop()
        if token[0].isdigit() and len(token) > 1:
            # \frac12 and x^10: only the first digit belongs to the command.
            self.tokens.append(token[1:])
            token = token[0]
        node = self._atom(token, depth)
        return node if node is not None else Node("row")

    def _raw(self) -> str:
        """The text of a {group}, as it is."""
        if not self.tokens or self.tokens.pop() != "{":
            raise UnknownMathematics("a group is missing")
        text = ""
        while self.tokens:
            token = self.tokens.pop()
            if token == "}":
                return text
            text += token
        raise UnknownMathematics("no '}'")

    def _atom(self, token: str, depth: int) -> Node | None:
        if token == "{":
            return self.row("}", depth + 1)
        if token.startswith("\\") and len(token) > 1:
            return self._command(token[1:], depth)
        if token[0].isdigit():
            return Node("number", token)
        if token.isalpha():
            return Node("letter", token)
        if token in "}\\$&#%^_":
            raise UnknownMathematics(f"unexpected {token!r}")
        if token == "~":
            return Node("space", "0.3")
        return Node("operator", {"-": "−", "*": "∗"}.get(token, token))

    def _command(self, name: str, depth: int) -> Node | None:
        if name in GREEK:
            return Node("letter", GREEK[name])
        if name in OPERATORS:
            return Node("operator", OPERATORS[name])
        if name in LARGE:
            return Node("large", LARGE[name])
        if name in FUNCTIONS:
            return Node("function", name)
        if name in SPACES:
            return Node("space", str(SPACES[name]))
        if name in SIZES:
            return None
        if name in ("frac", "tfrac", "dfrac"):
            return Node("fraction", parts=(self._argument(depth + 1), self._argument(depth + 1)))
        if name == "binom":
            return Node("binomial", parts=(self._argument(depth + 1), self._argument(depth + 1)))
        if name == "sqrt":
            return Node("root", parts=(self._argument(depth + 1),))
        if name in ACCENTS:
            return Node("accent", ACCENTS[name], (self._argument(depth + 1),))
        if name in ("mathrm", "text", "operatorname", "mathsf", "mathtt", "textrm"):
            return Node("text", self._raw())
        if name in ("mathbb", "mathbf", "mathcal", "boldsymbol"):
            inner = self._argument(depth + 1)
            if name == "mathbb" and inner.kind in ("letter", "number", "row"):
                leaf = inner if inner.kind != "row" else next((p for p in inner.parts if p is not None), inner)
                return Node("letter", DOUBLE.get(leaf.text, leaf.text))
            return inner
        raise UnknownMathematics(f"unknown command \\{name}")
