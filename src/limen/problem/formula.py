"""Formulas from users: Python's syntax tree, a short list of allowed nodes, then JAX. Never `eval`."""

import ast
import difflib
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from limen.problem.spec import InputError

LONGEST = 2000
DEEPEST = 24
LARGEST_POWER = 16
LARGEST_NUMBER = 10**12
# Of more names than these a complaint says only the first and the last.
MOST_LISTED = 12

CONSTANTS = {"pi": float(np.pi)}
# name: number of arguments
FUNCTIONS = {
    "abs": 1, "cos": 1, "erf": 1, "exp": 1, "gelu": 1, "heaviside": 1, "log": 1, "relu": 1, "sigmoid": 1,
    "sign": 1, "sin": 1, "softplus": 1, "sqrt": 1, "tanh": 1, "max": 2, "min": 2,
}  # fmt: skip
KINKED = {"abs", "heaviside", "relu", "sign", "max", "min"}
SINGULAR_AT_ZERO = {"sqrt", "log"}
REACH, SCAN = 40.0, 8001
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_COMPARE = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<="}


@lru_cache(maxsize=512)
def parse(text: str, variables: tuple[str, ...]) -> ast.expr:
    """The checked syntax tree of a formula in the given variables.

    Allowed are numbers, `pi`, the variables, `+ - * / **` with a number as exponent, one comparison at a
    time (1 where true, else 0), and the functions of `FUNCTIONS`. Anything else is an `InputError` that
    names the column.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError("a formula must be a non-empty text.")
    if len(text) > LONGEST:
        raise InputError(f"a formula must have at most {LONGEST} characters, got {len(text)}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        missing = re.search(r"(?<![\w.])(\d+\.?\d*)\s*(?=[A-Za-df-z(])([A-Za-z]\w*|\()", text)
        if missing:
            product = f"{missing[1]}*{missing[2]}" + ("...)" if missing[2] == "(" else "")
            raise _complaint(text, f"a product needs its sign: write {product}", missing.start() + 1) from None
        raise _complaint(text, "cannot be read", error.offset or 1) from None
    except (ValueError, MemoryError, RecursionError):
        raise _complaint(text, "cannot be read", 1) from None
    _check(tree, text, variables, DEEPEST)
    return tree


class FormulaError(InputError):
    """A formula that cannot be read: which, what is wrong, and at which of its columns."""

    def __init__(self, formula: str, what: str, column: int) -> None:
        self.formula, self.what, self.column = formula, what, column
        super().__init__(f"formula {self.shown!r}: {what} (column {column}).")

    @property
    def shown(self) -> str:
        """The formula, or the beginning of a long one."""
        return self.formula if len(self.formula) <= 60 else self.formula[:57] + "..."


_complaint = FormulaError


def _check(node: ast.expr, text: str, variables: tuple[str, ...], depth: int) -> None:
    def refuse(what: str) -> InputError:
        return _complaint(text, what, node.col_offset + 1)

    def check(child: ast.expr, level: int = depth - 1) -> None:
        _check(child, text, variables, level)

    if depth == 0:
        raise refuse(f"is nested deeper than {DEEPEST} levels")
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise refuse("only numbers are allowed as constants")
        case ast.Constant(value=int() | float() as value):
            if not abs(value) < LARGEST_NUMBER:
                raise refuse("numbers must be smaller than 1e12")
        case ast.Name(id=name):
            if name not in variables and name not in CONSTANTS:
                if name in ("x", "x1", "y", "t", "u"):
                    raise refuse(f"unknown name {name!r}: the variable is called {variables[0]}")
                if name in FUNCTIONS:
                    raise refuse(f"a function needs its argument: write {name}({variables[0]})")
                near = difflib.get_close_matches(name, FUNCTIONS, n=1)
                said = f": did you mean {near[0]}?" if near else f" (allowed: {_listed((*variables, *CONSTANTS))})"
                raise refuse(f"unknown name {name!r}{said}")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            check(operand)
        case ast.BinOp(op=ast.BitXor()):
            raise refuse("^ is not a power here: write **, as in z**2")
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            check(left)
            exponent = _number(right)
            if exponent is None or abs(exponent) > LARGEST_POWER:
                column = right.col_offset + 1
                raise _complaint(text, f"an exponent must be a number of size at most {LARGEST_POWER}", column)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            # A sum or a product of many terms is a flat list to its writer, however deep its tree.
            check(left, depth if isinstance(left, ast.BinOp) and _rank(left.op) == _rank(op) else depth - 1)
            check(right)
            if isinstance(op, ast.Div) and _constant(right) == 0.0:
                raise refuse("divides by zero")
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            check(left)
            check(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            if len(args) != FUNCTIONS[name]:
                raise refuse(f"{name} takes {FUNCTIONS[name]} argument{'s' * (FUNCTIONS[name] > 1)}")
            for argument in args:
                check(argument)
        case ast.Call(func=ast.Name(id=name)):
            near = difflib.get_close_matches(name, FUNCTIONS, n=1)
            said = f": did you mean {near[0]}?" if near else f" (allowed: {', '.join(sorted(FUNCTIONS))})"
            raise refuse(f"unknown function {name!r}{said}")
        case _:
            raise refuse(f"{type(node).__name__} is not allowed")
    constant = _constant(node)
    if constant is not None and not np.isfinite(constant):
        raise refuse("has a constant part that is not a finite number")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= MOST_LISTED else (*names[:3], "...", *names[-3:]))


def _rank(op: ast.operator) -> int:
    """Sums and products apart."""
    return 1 if isinstance(op, (ast.Add, ast.Sub)) else 2 if isinstance(op, (ast.Mult, ast.Div)) else 3


def _constant(node: ast.expr) -> float | None:
    """The value of arithmetic with numbers alone, infinite or nan where it has none; None where a name is used."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _constant(operand)
            return None if inner is None else -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _constant(left), _constant(right)
            if a is None or b is None:
                return None
            with np.errstate(all="ignore"):
                first, second = np.float64(a), np.float64(b)
                match op:
                    case ast.Add():
                        return float(first + second)
                    case ast.Sub():
                        return float(first - second)
                    case ast.Mult():
                        return float(first * second)
                    case ast.Div():
                        return float(first / second)
                    case _:
                        return float(first**second)
    return None


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            # Whole numbers beyond all floats are as good as infinite.
            return float(value) if abs(value) < LARGEST_NUMBER else float("inf")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand)
            return None if inner is None else -inner
        case _:
            return None


def names_in(tree: ast.expr) -> set[str]:
    """The variables and constants that occur in a formula."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(FUNCTIONS)


def evaluate(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a checked formula: on JAX arrays by JAX, on NumPy arrays by NumPy, which compiles nothing."""
    library = _numpy() if all(isinstance(array, np.ndarray) for array in values.values()) else _jax()

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=number):
                return float(number)  # pyright: ignore[reportArgumentType]
            case ast.Name(id=name):
                return values[name] if name in values else CONSTANTS[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(operand=operand):
                return value(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                exponent = _number(right)
                assert exponent is not None
                if (constant := _constant(node)) is not None:
                    return constant
                return value(left) ** (int(exponent) if exponent == int(exponent) else exponent)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case _:
                        # so that a constant division by zero gives inf and not a traceback
                        return library.divide(a, b)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                difference = library.asarray(value(left) - value(right))
                true = {">": difference > 0, ">=": difference >= 0, "<": difference < 0, "<=": difference <= 0}
                return true[_COMPARE[type(op)]].astype(difference.dtype)
            case ast.Call(func=ast.Name(id=name), args=args):
                return getattr(library, name)(*(value(argument) for argument in args))
        raise AssertionError(f"unchecked node {node!r}")

    with np.errstate(all="ignore"):
        return value(tree)


@lru_cache(maxsize=1)
def _jax() -> SimpleNamespace:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf

    return _functions(
        jnp, erf=erf, gelu=lambda z: jax.nn.gelu(z, approximate=False), relu=jax.nn.relu, sigmoid=jax.nn.sigmoid,
        softplus=jax.nn.softplus,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _numpy() -> SimpleNamespace:
    def special(name: str, z: Any) -> Any:
        # Imported for the formulas that need it: it takes as long as many a first answer.
        return getattr(import_module("scipy.special"), name)(z)

    # Division by zero, overflow and roots of negative numbers give inf and nan, as in JAX, without a warning.
    return _functions(
        np, erf=partial(special, "erf"), gelu=lambda z: z * special("ndtr", z), relu=lambda z: np.maximum(z, 0.0),
        sigmoid=partial(special, "expit"), softplus=lambda z: np.logaddexp(z, 0.0),
    )  # fmt: skip


def _functions(library: Any, **special: Callable[..., Any]) -> SimpleNamespace:
    def heaviside(z: Any) -> Any:
        z = library.asarray(z)
        return (z > 0).astype(z.dtype)

    same = {name: getattr(library, name) for name in ("abs", "cos", "exp", "log", "sign", "sin", "sqrt", "tanh")}
    operations = {name: getattr(library, name) for name in ("divide", "asarray")}
    return SimpleNamespace(
        **same, **operations, heaviside=heaviside, max=library.maximum, min=library.minimum, **special
    )


def bending_arguments(tree: ast.expr) -> tuple[ast.expr, ...]:
    """What decides where a formula may bend, jump or be singular: there one of these vanishes."""
    return tuple(argument for node in ast.walk(tree) for argument in _bending(node))


def _bending(node: ast.AST) -> tuple[ast.expr, ...]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[single]) if name in KINKED or name in SINGULAR_AT_ZERO:
            return (single,)
        case ast.Call(func=ast.Name(id=name), args=[a, b]) if name in KINKED:
            return (ast.BinOp(left=a, op=ast.Sub(), right=b),)
        case ast.Compare(left=a, comparators=[b]):
            return (ast.BinOp(left=a, op=ast.Sub(), right=b),)
        case ast.BinOp(op=ast.Div(), right=below) if names_in(below):
            return (below,)
        case ast.BinOp(left=base, op=ast.Pow(), right=right) if names_in(base):
            exponent = _number(right)
            return (base,) if exponent is not None and (exponent < 0 or exponent != int(exponent)) else ()
    return ()


def breakpoints(tree: ast.expr, variable: str, reach: float = REACH) -> tuple[float, ...]:
    """Where a formula of one variable may have a kink, a jump or a singularity, within `reach` of the origin."""
    found = sorted(point for argument in bending_arguments(tree) for point in zeros(argument, variable, reach))
    distinct: list[float] = []
    for point in found:
        if not distinct or point - distinct[-1] > 1e-12:
            distinct.append(point)
    return tuple(distinct)


def zeros(argument: ast.expr, variable: str, reach: float = REACH) -> tuple[float, ...]:
    """Zeros of a formula of one variable within `reach` of the origin, ascending: where it changes its sign, by scan
    and bisection, and where it only touches zero, by golden sections."""
    import jax

    # Irrational offsets keep the scan from landing on a zero, where a sign is not defined.
    scan = np.linspace(-reach - 0.0123, reach + 0.0171, SCAN)

    def value(z: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(evaluate(argument, {variable: z}), dtype=float), z.shape)

    with jax.enable_x64(True), np.errstate(all="ignore"):
        values = value(scan)
        signs = np.sign(values)
        at = np.flatnonzero(signs[:-1] * signs[1:] < 0)
        low, high, low_sign = scan[at], scan[at + 1], signs[at]
        for _ in range(60):
            middle = 0.5 * (low + high)
            same = np.sign(value(middle)) == low_sign
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        found = (0.5 * (low + high)).tolist()
        size = np.abs(values)
        dips = np.flatnonzero((size[1:-1] < size[:-2]) & (size[1:-1] < size[2:]) & (signs[:-2] == signs[2:])) + 1
        if dips.size:
            found += _touches(lambda z: np.abs(value(z)), scan[dips - 1], scan[dips + 1], size[dips])
    return tuple(sorted(0.0 if abs(point) < 1e-7 else point for point in found))


def _touches(size: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, seen: np.ndarray) -> list:
    """Minima between `low` and `high` at which the size all but vanishes."""
    golden = 0.5 * (5**0.5 - 1)
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        lower = size(left) < size(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    points = 0.5 * (low + high)
    return points[size(points) <= 1e-9 * seen].tolist()
