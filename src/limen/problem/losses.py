r"""Losses $\ell(y, f)$ of label and output; primes are always derivatives in the output $f$."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pydantic import Field, model_validator

from limen.problem import formula as formulas
from limen.problem.own_functions import OwnFunction, check_elementwise, found_kinks, own_function
from limen.problem.spec import InputError, Spec

PLAIN = ("square", "logistic", "exponential", "squared-hinge")
WITH_THRESHOLD = ("huber", "pseudo-huber")
# Labels at which a loss of one's own is looked at.
LABELS = (-1.0, 0.37, 1.0, 2.21)


class Loss(Spec):
    r"""A loss by name, or as a formula in the label `y` and the output `f`, such as `"log(1 + (y - f)**2)"`.

    | name | $\ell(y,f)$ |
    |---|---|
    | `square` | $\frac12(y-f)^2$ |
    | `huber:k` | $\frac12r^2$ for $\lvert r\rvert\le k$, else $k(\lvert r\rvert-\frac k2)$, $r=f-y$ |
    | `pseudo-huber:k` | $k^2(\sqrt{1+(r/k)^2}-1)$ |
    | `logistic` | $\log(1+e^{-yf})$, labels $\pm1$ |
    | `exponential` | $e^{-yf}$ |
    | `squared-hinge` | $\max(0,1-yf)^2$ |

    Or a JAX function of label and output, `own`, which goes by `name`.
    """

    name: str = Field("square", description="a name, or a formula in the label y and the output f")

    own: OwnFunction | None = Field(None, description="instead of a formula: a function of one's own, from Python")

    @model_validator(mode="after")
    def _check(self) -> "Loss":
        if self.own is None:
            _function(self.name)
        else:
            check_elementwise(self.own, "loss")
        return self

    @property
    def function(self) -> Callable[[Any, Any], Any]:
        r"""$\ell(y,f)$ as an elementwise JAX function; the same object for equal losses."""
        return _function(self.name) if self.own is None else _own(self.own)

    @property
    def slope(self) -> Callable[[Any, Any], Any]:
        r"""$\ell'(y,f)=\partial_f\ell$, elementwise."""
        return _slope(self.name) if self.own is None else _derivative(_own(self.own))

    @property
    def curvature(self) -> Callable[[Any, Any], Any]:
        r"""$\ell''(y,f)=\partial_f^2\ell$, elementwise; at a kink of $\ell'$ the value of one side."""
        return _curvature(self.name) if self.own is None else _derivative(_derivative(_own(self.own)))

    @property
    def kinked(self) -> bool:
        r"""Whether the loss bends in its output, so that $\ell'$ jumps: `abs(y-f)` does, `huber:k` does not."""
        named = self.own is None and self.name.partition(":")[0] in (*PLAIN, *WITH_THRESHOLD)
        return not named and _kinked(self.function)


def as_loss(value: Any) -> Any:
    """Lets every argument that wants a loss also take its name, its formula, or a JAX function of label and output."""
    if callable(value) and not isinstance(value, Spec):
        own = own_function(value, None, 2)
        return Loss(name=own.name, own=own)
    return Loss(name=value) if isinstance(value, str) else value


@lru_cache(maxsize=64)
def _own(own: OwnFunction) -> Callable[[Any, Any], Any]:
    return lambda y, f: own(y, f) + 0.0 * (y + f)


@lru_cache(maxsize=64)
def _kinked(function: Callable[[Any, Any], Any]) -> bool:
    """Whether the loss bends in its output at one of a few labels."""
    import numpy as np

    return any(found_kinks(lambda f, y=y: function(np.full_like(f, y), f)) for y in LABELS)


@lru_cache(maxsize=64)
def _function(name: str) -> Callable[[Any, Any], Any]:
    family, _, number = name.partition(":")
    if name in PLAIN:
        return {"square": _square, "logistic": _logistic, "exponential": _exponential, "squared-hinge": _squared_hinge}[
            name
        ]
    if family in WITH_THRESHOLD:
        try:
            k = float(number or "1")
        except ValueError:
            k = -1.0
        if not 0.0 < k < 1e6:
            raise InputError(f"loss {family}:k needs a positive number k, got {number!r}.")
        loss = _huber if family == "huber" else _pseudo_huber
        return lambda y, f: loss(y, f, k)
    return _formula(name)


def _formula(text: str) -> Callable[[Any, Any], Any]:
    """A loss written in `y` and `f`; a single word was meant as a name."""
    if text.isidentifier() or ":" in text or not text:
        known = ", ".join((*PLAIN, *(f"{name}:k" for name in WITH_THRESHOLD)))
        raise InputError(f"loss must be one of {known}, or a formula in y and f, got {text!r}.")
    tree = formulas.parse(text, ("y", "f"))
    if "f" not in formulas.names_in(tree):
        raise InputError(f"loss must depend on the output f, got {text!r}.")
    return lambda y, f: formulas.evaluate(tree, {"y": y, "f": f}) + 0.0 * (y + f)  # constants get the shape of both


@lru_cache(maxsize=64)
def _slope(name: str) -> Callable[[Any, Any], Any]:
    return _derivative(_function(name))


@lru_cache(maxsize=64)
def _curvature(name: str) -> Callable[[Any, Any], Any]:
    return _derivative(_slope(name))


@lru_cache(maxsize=64)
def _derivative(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def derivative(y: Any, f: Any) -> Any:
        import jax
        import jax.numpy as jnp

        f = jnp.asarray(f)
        return jax.jvp(lambda output: function(y, output), (f,), (jnp.ones_like(f),))[1]

    return derivative


def _square(y: Any, f: Any) -> Any:
    return 0.5 * (f - y) ** 2


def _logistic(y: Any, f: Any) -> Any:
    import jax

    return jax.nn.softplus(-y * f)


def _exponential(y: Any, f: Any) -> Any:
    import jax.numpy as jnp

    return jnp.exp(-y * f)


def _squared_hinge(y: Any, f: Any) -> Any:
    import jax.numpy as jnp

    return jnp.maximum(0.0, 1.0 - y * f) ** 2


def _huber(y: Any, f: Any, k: float) -> Any:
    import jax.numpy as jnp

    r = f - y
    size = jnp.abs(r)
    # The square of r, not of its size: automatic second derivatives of the size vanish at zero.
    return jnp.where(size <= k, 0.5 * r**2, k * (size - 0.5 * k))


def _pseudo_huber(y: Any, f: Any, k: float) -> Any:
    import jax.numpy as jnp

    return k**2 * (jnp.sqrt(1.0 + ((f - y) / k) ** 2) - 1.0)
