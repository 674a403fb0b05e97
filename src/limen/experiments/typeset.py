"""Formulas and names that users give, as they stand in the title of a figure: `z1*z2**2` becomes $z_1\\,z_2^{2}$."""

import ast
import re

# How tightly a sign binds: what binds less tightly inside needs brackets.
SUM, PRODUCT, POWER, WHOLE = range(4)
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Gt: ">", ast.GtE: r"\geq ", ast.Lt: "<", ast.LtE: r"\leq "}
NAMES = {
    "relu": "ReLU", "gelu": "GELU", "erf": "erf", "saad-solla": r"erf$(z/\sqrt{2})$", "pseudo-huber": "pseudo-Huber",
    "huber": "Huber",
}  # fmt: skip


def typeset(text: str) -> str:
    """A formula in `$...$`; a name (`relu`, `hermite:3`, `huber:1`) in words; what cannot be read stays as it is."""
    head, _, number = text.partition(":")
    if head == "hermite":
        return f"$he_{{{number}}}$"
    if re.fullmatch(r"[a-z-]{2,}", head):
        return NAMES.get(head, head) + (f" ($k={number}$)" if number else "")
    try:
        return f"${_latex(ast.parse(text.strip(), mode='eval').body)[0]}$"
    except (SyntaxError, ValueError, KeyError, RecursionError):
        return text


def _latex(node: ast.AST) -> tuple[str, int]:
    """LaTeX, and how tightly its outermost sign binds."""
    match node:
        case ast.Constant(value=int() | float() as value):
            digits, _, exponent = f"{value:g}".partition("e")
            return (digits, WHOLE) if not exponent else (rf"{digits}\cdot 10^{{{int(exponent)}}}", PRODUCT)
        case ast.Name(id="pi"):
            return r"\pi", WHOLE
        case ast.Name(id=letter):
            return re.sub(r"(\d+)$", r"_{\1}", letter), WHOLE
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return f"-{_within(inner, PRODUCT)}", SUM
        case ast.UnaryOp(operand=inner):
            return _latex(inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base = _within(left, WHOLE)
            # A letter that has an index keeps it beside the power.
            return f"{base}^{{{_latex(right)[0]}}}", POWER
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            second = _within(right, PRODUCT)
            sign = r"\cdot " if second[:1].isdigit() else r"\,"
            return f"{_within(left, PRODUCT)}{sign}{second}", PRODUCT
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"{_within(left, PRODUCT)}/{_within(right, POWER)}", PRODUCT
        case ast.BinOp(left=left, op=sign, right=right):
            return f"{_latex(left)[0]}{SIGNS[type(sign)]}{_within(right, PRODUCT)}", SUM
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return rf"\mathbf{{1}}({_latex(left)[0]}{SIGNS[type(sign)]}{_latex(right)[0]})", WHOLE
        case ast.Call(func=ast.Name(id="abs"), args=[inner]):
            return f"|{_latex(inner)[0]}|", WHOLE
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner]):
            return rf"\sqrt{{{_latex(inner)[0]}}}", WHOLE
        case ast.Call(func=ast.Name(id=function), args=inner):
            return rf"\mathrm{{{function}}}({', '.join(_latex(part)[0] for part in inner)})", WHOLE
    raise ValueError(f"cannot typeset {type(node).__name__}.")


def _within(node: ast.AST, tightness: int) -> str:
    text, own = _latex(node)
    return text if own >= tightness else f"({text})"
