"""Targets: the multi-index link $y=h(z_1,\\dots,z_k,e)+\\sqrt{\\text{noise}}\\,\\varepsilon$."""

import ast
import copy
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pydantic import Field, field_validator, model_validator

from limen.problem import formula as formulas
from limen.problem.activations import check_series, hermite_series
from limen.problem.spec import InputError, Spec, nested_tuple

MOST_LATENTS = 8
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
    standard normal of its own) and `hermite` (single index, orthonormal coefficients) is given.
    `noise` is the *variance* of additive label noise.

    `entries` is the law of the entries of $\sqrt d\,\theta_{*r}$, of variance 1: `gaussian`, or `sparse:p`, Gaussian of
    variance $1/p$ with probability $p$ and else zero. With Gaussian inputs only rules that treat entries alone (`Adam`,
    `SignDescent`) can tell them apart.
    """

    formula: str | None = None
    noise: float = Field(0.0, ge=0.0)
    hermite: tuple[float, ...] | None = None
    entries: str = "gaussian"

    @field_validator("hermite", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return nested_tuple(value)

    @model_validator(mode="after")
    def _check(self) -> "Target":
        if (self.formula is None) == (self.hermite is None):
            raise InputError("a target takes either a name or formula, or its hermite coefficients.")
        if self.hermite is not None:
            check_series(self.hermite)
        else:
            _latents(self.formula or "")
        _filled(self.entries)
        return self

    @property
    def label(self) -> str:
        """The name to print."""
        return self.formula or f"hermite[{', '.join(f'{c:g}' for c in self.hermite or ())}]"

    @property
    def latents(self) -> int:
        """Number $k$ of latent directions."""
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
        return _function(self.formula, self.hermite)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Kinks and jumps of a single-index link without `e`; empty otherwise."""
        if self.formula is None or self.latents > 1 or self.uses_inner_noise:
            return ()
        return _breakpoints(self.formula)

    @property
    def axis_breakpoints(self) -> tuple[tuple[float, ...], ...] | None:
        """Kinks and jumps along each coordinate (`z1`..`zk`, then `e` where it is used), or None where one runs
        obliquely: where it depends on several coordinates at once."""
        return ((),) if self.formula is None else _axis_breakpoints(self.formula)


def target(
    name_or_formula: str | None = None, noise: float = 0.0, hermite: Any = None, entries: str = "gaussian"
) -> Target:
    """A target from a name (`phase-retrieval linear committee:k parity:k halfspaces:k`), a formula in
    `z1`..`zk` and `e`, or (single index) orthonormal Hermite coefficients; `entries` (`gaussian` or `sparse:p`) is the
    law of the entries of its directions."""
    return Target(formula=name_or_formula, noise=noise, hermite=hermite, entries=entries)


def as_target(value: Any) -> Any:
    """Lets every argument that wants a target also take its name or formula."""
    return target(value) if isinstance(value, str) else value


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


def syntax_tree(text: str) -> ast.expr:
    """The checked formula behind a name or a formula."""
    if text in NAMED or text.partition(":")[0] in FAMILIES:
        return formulas.parse(expand(text), _VARIABLES)
    try:
        # Read as it was typed, so that complaints quote it; then `z` is the first coordinate.
        return _Renamed().visit(copy.deepcopy(formulas.parse(text, ("z", *_VARIABLES))))
    except InputError as error:
        if re.fullmatch(r"[a-z][a-z:-]+\d*", text):
            names = ", ".join((*NAMED, *(f"{family}:k" for family in FAMILIES)))
            raise InputError(f"target {text!r} is neither a known name ({names}) nor a formula.") from None
        raise error


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
