"""Activations: a name, a formula in `z`, or a Hermite series."""

import ast
import difflib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from limen.problem import formula as formulas
from limen.problem.own_functions import OwnFunction, bent, check_elementwise, own_function
from limen.problem.spec import InputError, Spec, nested_tuple

NAMED = {
    "relu": "relu(z)",
    "gelu": "gelu(z)",
    "erf": "erf(z)",
    "saad-solla": "erf(z/sqrt(2))",
    "tanh": "tanh(z)",
    "sigmoid": "sigmoid(z)",
    "softplus": "softplus(z)",
    "silu": "z*sigmoid(z)",
    "elu": "relu(z) + exp(-relu(-z)) - 1",
    "leaky-relu": "relu(z) - 0.01*relu(-z)",
    "abs": "abs(z)",
    "sin": "sin(z)",
    "linear": "z",
    "square": "z**2",
}
# What names of NAMED are called elsewhere.
OTHERWISE = {
    "swish": "silu",
    "identity": "linear",
    "logistic": "sigmoid",
    "quadratic": "square",
    "leakyrelu": "leaky-relu",
}
HIGHEST_DEGREE = 40
STEP, SAME_SLOPE = 1e-6, 1e-3  # how kinks are told from smooth joints


class Activation(Spec):
    r"""An activation $\sigma:\mathbb R\to\mathbb R$.

    Exactly one of `formula` (a name of `NAMED`, `hermite:k`, or a formula in `z`), `hermite`
    (coefficients of the orthonormal Hermite polynomials, $\sigma=\sum_k s_k he_k$) and `own` (an elementwise JAX
    function) is given. `hermite:k` is stored as its series.
    """

    formula: str | None = Field(None, description="a name or a formula in z")
    hermite: tuple[float, ...] | None = Field(
        None, description="instead of a formula: orthonormal Hermite coefficients"
    )

    own: OwnFunction | None = Field(None, description="instead of a formula: a function of one's own, from Python")

    @field_validator("hermite", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return nested_tuple(value)

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, values: Any) -> Any:
        text = values.get("formula") if isinstance(values, dict) else None
        if isinstance(text, str) and text.startswith("hermite:"):
            return {**values, "formula": None, "hermite": _unit_series(text)}
        return values

    @model_validator(mode="after")
    def _check(self) -> "Activation":
        if [self.formula, self.hermite, self.own].count(None) != 2:
            raise InputError(
                "an activation takes either a name or formula, or its hermite coefficients, or a function."
            )
        if self.hermite is not None:
            check_series(self.hermite)
        elif self.own is not None:
            check_elementwise(self.own, "activation")
        elif self.formula not in NAMED:
            _refuse_other_names(self.formula or "")
            _tree(self.formula or "")
        return self

    @property
    def label(self) -> str:
        """The name to print."""
        if self.own is not None:
            return self.own.name
        return self.formula or f"hermite[{', '.join(f'{c:g}' for c in self.hermite or ())}]"

    @property
    def function(self) -> Callable[[Any], Any]:
        """The elementwise JAX function; the same object for equal activations, so that jit caches on it."""
        return _function(self.formula, self.hermite) if self.own is None else _own(self.own)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Points where the activation may have a kink or a jump (empty for smooth ones)."""
        if self.own is not None:
            return self.own.kinks
        return () if self.formula is None else _breakpoints(self.formula)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Those breakpoints at which the value or the slope really jumps: none for `relu(z)**2` or `z/(1+abs(z))`."""
        if self.own is not None:
            return self.own.kinks
        return () if self.formula is None else _kinks(self.formula)

    @property
    def erf_scale(self) -> float | None:
        r"""$c$ when the activation is exactly $\mathrm{erf}(cz)$, which has closed forms; else None."""
        return None if self.formula is None else _erf_scale(self.formula)


def activation(
    name_or_formula: "str | Callable[[Any], Any] | None" = None,
    hermite: Any = None,
    name: str | None = None,
    kinks: tuple[float, ...] | None = None,
) -> Activation:
    """An activation from a name (`relu gelu erf saad-solla tanh sigmoid softplus silu elu leaky-relu abs sin linear
    square hermite:k`; `leaky-relu` has the slope .01, `elu` the scale 1), a formula in `z`, orthonormal Hermite
    coefficients, or an elementwise JAX function.

    A function goes by its own name or by `name`; `kinks` are the places where it bends or jumps, found by looking where
    they are not given. It is stored by name and source text."""
    if callable(name_or_formula):
        return Activation(own=bent(own_function(name_or_formula, name, 1), "activation", kinks))
    if name is not None or kinks is not None:
        raise InputError("name and kinks are for a function of one's own, not for a formula.")
    return Activation(formula=name_or_formula, hermite=hermite)


def as_activation(value: Any) -> Any:
    """Lets every argument that wants an activation also take its name or formula."""
    return activation(value) if isinstance(value, str) or _is_function(value) else value


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, Spec)


def check_series(series: tuple[float, ...]) -> None:
    """Refuses an empty or a too long Hermite series."""
    if not 1 <= len(series) <= HIGHEST_DEGREE + 1:
        raise InputError(f"hermite must have 1 to {HIGHEST_DEGREE + 1} coefficients, got {len(series)}.")


def hermite_series(series: tuple[float, ...], z: Any) -> Any:
    r"""$\sum_k s_k\,he_k(z)$ with orthonormal $he_k$, by $\sqrt{k+1}\,he_{k+1}=z\,he_k-\sqrt k\,he_{k-1}$."""
    previous, current = 0.0 * z, 0.0 * z + 1.0
    total = series[0] * current
    for k, coefficient in enumerate(series[1:]):
        previous, current = current, (z * current - k**0.5 * previous) / (k + 1) ** 0.5
        total = total + coefficient * current
    return total


def _unit_series(text: str) -> tuple[float, ...]:
    degree = text.removeprefix("hermite:")
    if not (degree.isascii() and degree.isdigit() and int(degree) <= HIGHEST_DEGREE):
        raise InputError(f"hermite:k needs a degree from 0 to {HIGHEST_DEGREE}, got {degree!r}.")
    return (0.0,) * int(degree) + (1.0,)


def _refuse_other_names(text: str) -> None:
    """A single word that is no name: the name that was meant, or all of them."""
    if not text.replace("-", "_").isidentifier() or len(text) < 3 or text in formulas.FUNCTIONS:
        return
    word = text.lower().replace("_", "-")
    meant = OTHERWISE.get(word, word)
    if meant not in NAMED and difflib.get_close_matches(word, formulas.FUNCTIONS):
        return
    said = f"did you mean {meant!r}?" if meant in NAMED else f"names: {', '.join(NAMED)}, hermite:k."
    raise InputError(f"activation must be a name or a formula in z, got {text!r}; {said}")


def _tree(text: str) -> ast.expr:
    return formulas.parse(NAMED.get(text, text), ("z",))


@lru_cache(maxsize=256)
def _function(text: str | None, series: tuple[float, ...] | None) -> Callable[[Any], Any]:
    if text is None:
        assert series is not None
        return lambda z: hermite_series(series, z)
    tree = _tree(text)
    return lambda z: formulas.evaluate(tree, {"z": z}) + 0.0 * z  # the sum gives constants the shape of z


@lru_cache(maxsize=256)
def _own(own: OwnFunction) -> Callable[[Any], Any]:
    return lambda z: own(z) + 0.0 * z


@lru_cache(maxsize=256)
def _breakpoints(text: str) -> tuple[float, ...]:
    return formulas.breakpoints(_tree(text), "z")


@lru_cache(maxsize=256)
def _kinks(text: str) -> tuple[float, ...]:
    import jax

    places = np.asarray(_breakpoints(text), dtype=float)
    if places.size == 0:
        return ()
    with jax.enable_x64(True), np.errstate(all="ignore"):
        near = places[:, None] + STEP * np.array([-2.0, -1.0, 1.0, 2.0])
        values = np.asarray(_function(text, None)(near), dtype=float)
    below, above = values[:, 1] - values[:, 0], values[:, 3] - values[:, 2]
    size = 1.0 + (np.abs(below) + np.abs(above)) / STEP
    # A slope that is continuous changes by its curvature times the step.
    same_slope = np.abs(above - below) <= SAME_SLOPE * STEP * size
    joined = np.abs(values[:, 2] - values[:, 1]) <= 10.0 * STEP * size
    return tuple(places[~(same_slope & joined)].tolist())


@lru_cache(maxsize=256)
def _erf_scale(text: str) -> float | None:
    match _tree(text):
        case ast.Call(func=ast.Name(id="erf"), args=[argument]):
            pass
        case _:
            return None
    import jax

    def constant(node: ast.expr) -> float:
        with jax.enable_x64(True):
            return float(formulas.evaluate(node, {}))

    match argument:
        case ast.Name(id="z"):
            return 1.0
        case ast.BinOp(left=ast.Name(id="z"), op=ast.Mult(), right=factor) if not formulas.names_in(factor):
            return constant(factor)
        case ast.BinOp(left=factor, op=ast.Mult(), right=ast.Name(id="z")) if not formulas.names_in(factor):
            return constant(factor)
        case ast.BinOp(left=ast.Name(id="z"), op=ast.Div(), right=factor) if not formulas.names_in(factor):
            return 1.0 / constant(factor)
        case _:
            return None
