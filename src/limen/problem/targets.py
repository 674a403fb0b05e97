"""Targets: the multi-index link $y=h(z_1,\\dots,z_k,e)+\\sqrt{\\text{noise}}\\,\\varepsilon$."""

import ast
import copy
import difflib
import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from limen.problem import formula as formulas
from limen.problem.activations import check_series, hermite_series
from limen.problem.own_functions import OwnFunction, bent, check_elementwise, own_function
from limen.problem.spec import InputError, Spec, nested_tuple

MOST_LATENTS = 32
NAMED = {"phase-retrieval": "z1**2", "linear": "z1"}
FAMILIES = {
    "committee": lambda k: "(" + "+".join(f"erf(z{r}/sqrt(2))" for r in range(1, k + 1)) + f")/{k}",
    "parity": lambda k: "*".join(f"sign(z{r})" for r in range(1, k + 1)),
    "halfspaces": lambda k: "*".join(f"heaviside(z{r})" for r in range(1, k + 1)),
}
_VARIABLES = (*(f"z{r}" for r in range(1, MOST_LATENTS + 1)), "e")


class _Renamed(ast.NodeTransformer):
    """`z` written `z1`."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(id="z1", ctx=node.ctx), node) if node.id == "z" else node


class Target(Spec):
    r"""A link $h$ of $k$ latent coordinates $z_r=\langle\theta_{*r},x\rangle$, orthonormal $\theta_{*r}$.

    Exactly one of `formula` (a name, or a formula in `z1`..`zk`, or `z` when $k=1$; it may use `e`, a
    standard normal of its own), `hermite` (single index, orthonormal coefficients) and `own` (a JAX function of
    $z_1,\dots,z_k$) is given.
    `noise` is the *variance* of additive label noise.

    `entries` is the law of the entries of $\sqrt d\,\theta_{*r}$, of variance 1: `gaussian`, or `sparse:p`, Gaussian of
    variance $1/p$ with probability $p$ and else zero. With Gaussian inputs only rules that treat entries alone (`Adam`,
    `SignDescent`) can tell them apart.
    """

    formula: str | None = Field(None, description="a name, or a formula in z1..zk (z for one) and the inner noise e")
    noise: float = Field(0.0, ge=0.0, description="variance of the label noise")
    hermite: tuple[float, ...] | None = Field(
        None, description="instead of a formula: orthonormal Hermite coefficients"
    )
    entries: str = Field("gaussian", description="law of the entries of the directions: gaussian or sparse:p")
    own: OwnFunction | None = Field(None, description="instead of a formula: a function of one's own, from Python")

    @field_validator("hermite", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return nested_tuple(value)

    @model_validator(mode="after")
    def _check(self) -> "Target":
        if [self.formula, self.hermite, self.own].count(None) != 2:
            raise InputError("a target takes either a name or formula, or its hermite coefficients, or a function.")
        if self.hermite is not None:
            check_series(self.hermite)
        elif self.own is not None:
            check_elementwise(self.own, "target")
        else:
            _latents(self.formula or "")
        _filled(self.entries)
        return self

    @property
    def label(self) -> str:
        """The name to print."""
        if self.own is not None:
            return self.own.name
        return self.formula or f"hermite[{', '.join(f'{c:g}' for c in self.hermite or ())}]"

    @property
    def latents(self) -> int:
        """Number $k$ of latent directions."""
        if self.own is not None:
            return self.own.arguments
        return 1 if self.formula is None else _latents(self.formula)

    @property
    def filled(self) -> float:
        """The fraction of the entries of the latent directions that are not zero."""
        return _filled(self.entries)

    @property
    def uses_inner_noise(self) -> bool:
        """Whether the formula contains `e`."""
        return self.formula is not None and "e" in formulas.names_in(syntax_tree(self.formula))

    @property
    def function(self) -> Callable[[Any, Any], Any]:
        """$h(z, e)$ as a JAX function of `z` with shape (..., k) and `e` with shape (...), without the
        additive noise; the same object for equal links, so that jit caches on it."""
        return _function(self.formula, self.hermite) if self.own is None else _own(self.own)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Kinks and jumps of a single-index link without `e`; empty otherwise."""
        if self.own is not None and self.latents == 1:
            return self.own.kinks
        if self.formula is None or self.latents > 1 or self.uses_inner_noise:
            return ()
        return _breakpoints(self.formula)

    @property
    def axis_breakpoints(self) -> tuple[tuple[float, ...], ...] | None:
        """Kinks and jumps along each coordinate (`z1`..`zk`, then `e` where it is used), or None where one runs
        obliquely: where it depends on several coordinates at once."""
        if self.own is not None:
            # A function of several coordinates may bend anywhere.
            return (self.own.kinks,) if self.latents == 1 else None
        return ((),) if self.formula is None else _axis_breakpoints(self.formula)


def target(
    name_or_formula: "str | Callable[..., Any] | None" = None,
    noise: float = 0.0,
    hermite: Any = None,
    entries: str = "gaussian",
    gram: Any = None,
    name: str | None = None,
    kinks: tuple[float, ...] | None = None,
) -> Target:
    r"""A target from a name (`phase-retrieval linear committee:k parity:k halfspaces:k`), a formula in
    `z1`..`zk` and `e`, (single index) orthonormal Hermite coefficients, or a JAX function of $z_1,\dots,z_k$; `entries`
    (`gaussian` or `sparse:p`) is the law of the entries of its directions.

    `gram` is the matrix $P_{rs}=\langle\theta_{*r},\theta_{*s}\rangle$ of directions that are not orthonormal: with
    $P=LL^\top$ (Cholesky) the formula is written in the orthonormal coordinates, $z=Lz'$, and overlaps are those with
    the orthonormal directions. A function goes by its own name or by `name`; `kinks` (one latent direction) are where
    it bends or jumps, found by looking where they are not given."""
    if callable(name_or_formula):
        if gram is not None:
            raise InputError("gram is for formulas: let the function itself mix its coordinates.")
        count = _positional(name_or_formula)
        own = own_function(name_or_formula, name, count)
        return Target(own=own if count > 1 else bent(own, "target", kinks), noise=noise, entries=entries)
    if name is not None or kinks is not None:
        raise InputError("name and kinks are for a function of one's own, not for a formula.")
    if gram is not None:
        if name_or_formula is None:
            raise InputError("gram is for formulas in z1..zk, not for hermite coefficients.")
        name_or_formula = mixed_formula(name_or_formula, gram)
    return Target(formula=name_or_formula, noise=noise, hermite=hermite, entries=entries)


def _positional(function: Callable[..., Any]) -> int:
    """How many coordinates a function takes."""
    # The signature of a NumPy function counts the array for its answer too.
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(one.kind is one.VAR_POSITIONAL for one in given):
        raise InputError("a target's function must name its coordinates, as in def h(z1, z2).")
    count = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in given)
    if not 1 <= count <= MOST_LATENTS:
        raise InputError(f"a target's function must take 1 to {MOST_LATENTS} coordinates, got {count}.")
    return count


def mixed_formula(text: str, gram: Any) -> str:
    """A formula in coordinates with the Gram matrix `gram`, written in orthonormal ones."""
    k, matrix = _latents(text), np.asarray(gram, dtype=float)
    if matrix.shape != (k, k) or not np.allclose(matrix, matrix.T):
        raise InputError(f"gram must be a symmetric matrix of shape ({k}, {k}), one row per direction of the target.")
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InputError("gram must be positive definite: the directions must be linearly independent.") from None
    rows = {
        f"z{r + 1}": " + ".join(f"{factor[r, s]:.15g}*z{s + 1}" for s in range(r + 1) if factor[r, s] != 0.0)
        for r in range(k)
    }
    return re.sub(r"\bz\d+\b", lambda found: f"({rows[found[0]]})", expand(text)).replace("+ -", "- ")


def as_target(value: Any) -> Any:
    """Lets every argument that wants a target also take its name or formula."""
    return target(value) if isinstance(value, str) or (callable(value) and not isinstance(value, Spec)) else value


def _filled(entries: str) -> float:
    family, _, number = entries.partition(":")
    if entries == "gaussian":
        return 1.0
    if entries == "one-hot":
        raise InputError(
            "entries must be gaussian or sparse:p, got 'one-hot': a single entry of size sqrt(d) has no limit under "
            "rules with bounded steps (take sparse:p with a small fraction p)."
        )
    try:
        fraction = float(number) if family == "sparse" else 0.0
    except ValueError:
        fraction = 0.0
    if not 0.0 < fraction <= 1.0:
        raise InputError(f"entries must be gaussian or sparse:p with 0 < p <= 1, got {entries!r}.")
    return fraction


def expand(text: str) -> str:
    """The formula behind a name; a formula is returned with `z` written `z1`."""
    if text in NAMED:
        return NAMED[text]
    family, _, number = text.partition(":")
    if family in FAMILIES:
        number = number or "2"
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_LATENTS):
            raise InputError(f"{family}:k needs k from 1 to {MOST_LATENTS}, got {number!r}.")
        return FAMILIES[family](int(number))
    return re.sub(r"\bz\b", "z1", text)


@lru_cache(maxsize=256)
def syntax_tree(text: str) -> ast.expr:
    """The checked formula behind a name or a formula; one tree for all, to be read only."""
    if text in NAMED or text.partition(":")[0] in FAMILIES:
        return formulas.parse(expand(text), _VARIABLES)
    try:
        # Read as it was typed, so that complaints quote it; then `z` is the first coordinate.
        return _Renamed().visit(copy.deepcopy(formulas.parse(text, ("z", *_VARIABLES))))
    except InputError as error:
        if re.fullmatch(r"[a-z][a-z:-]+\d*", text) and not difflib.get_close_matches(text, formulas.FUNCTIONS):
            names = ", ".join((*NAMED, *(f"{family}:k" for family in FAMILIES)))
            raise InputError(f"target {text!r} is neither a known name ({names}) nor a formula.") from None
        raise error


@lru_cache(maxsize=64)
def _latents(text: str) -> int:
    used = sorted(int(name[1:]) for name in formulas.names_in(syntax_tree(text)) if name[0] == "z")
    if not used:
        raise InputError(f"target {text!r} must depend on z (or z1, z2, ...).")
    if used != list(range(1, used[-1] + 1)):
        raise InputError(f"target {text!r} uses z{used[-1]} but not all of z1..z{used[-1]}: number them from 1.")
    return used[-1]


@lru_cache(maxsize=256)
def _function(text: str | None, series: tuple[float, ...] | None) -> Callable[[Any, Any], Any]:
    if text is None:
        assert series is not None
        return lambda z, e: hermite_series(series, z[..., 0])
    tree, k = syntax_tree(text), _latents(text)

    def link(z: Any, e: Any) -> Any:
        return formulas.evaluate(tree, {**{f"z{r + 1}": z[..., r] for r in range(k)}, "e": e}) + 0.0 * z[..., 0]

    return link


@lru_cache(maxsize=256)
def _own(own: OwnFunction) -> Callable[[Any, Any], Any]:
    def link(z: Any, e: Any) -> Any:
        return own(*(z[..., r] for r in range(own.arguments))) + 0.0 * z[..., 0]

    return link


@lru_cache(maxsize=256)
def _axis_breakpoints(text: str) -> tuple[tuple[float, ...], ...] | None:
    tree = syntax_tree(text)
    names = [name for name in _VARIABLES if name in formulas.names_in(tree)]
    found: dict[str, set[float]] = {name: set() for name in names}
    for argument in formulas.bending_arguments(tree):
        used = formulas.names_in(argument) & set(names)
        if len(used) > 1:
            return None
        for name in used:
            found[name] |= set(formulas.zeros(argument, name))
    return tuple(tuple(sorted(found[name])) for name in names)


@lru_cache(maxsize=256)
def _breakpoints(text: str) -> tuple[float, ...]:
    return formulas.breakpoints(syntax_tree(text), "z1")
