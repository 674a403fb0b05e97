"""Functions of one Gaussian variable: what can be integrated, from a spec, a name, a formula or a callable."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from limen.gaussian.panels import TOLERANCE, average_over_noise
from limen.problem import formula as formulas
from limen.problem.activations import NAMED, Activation, as_activation
from limen.problem.spec import InputError, Spec
from limen.problem.targets import Target, expand

# Elementwise JAX functions are compiled for these lengths only, since every new shape costs a compilation.
SHORT, LONG = 4096, 65536
_POLYNOMIALS = {"z": (0.0, 1.0), "z**2": (1.0, 0.0, 2.0**0.5)}


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    r"""A function $f:\mathbb R\to\mathbb R$ with what is known of it.

    `values` maps a NumPy array to an array of the same shape in double precision. `breakpoints` are its
    announced kinks and jumps. `series` are its orthonormal Hermite coefficients when it is a polynomial known
    as such, `erf_scale` is $c$ when $f=\mathrm{erf}(cz)$, and `kind` is `relu`, `abs` or `sign` when it is that.
    `traced` is the JAX function behind it, or None when it cannot be differentiated automatically. `accuracy` is
    the relative accuracy of its integrals that makes sense, given how exactly the values are known.
    """

    values: Callable[[np.ndarray], np.ndarray]
    label: str
    breakpoints: tuple[float, ...] = ()
    series: tuple[float, ...] | None = None
    erf_scale: float | None = None
    kind: str | None = None
    traced: Callable[[Any], Any] | None = None
    accuracy: float = TOLERANCE

    @property
    def averaged(self) -> bool:
        """Whether every value is itself an integral, over the noise inside a target."""
        return self.accuracy > TOLERANCE

    def without_closed_form(self) -> "ScalarFunction":
        """The same function as the generic routes see it: only values, kinks and derivatives."""
        return ScalarFunction(self.values, self.label, self.breakpoints, traced=self.traced, accuracy=self.accuracy)

    def derivative(self) -> "ScalarFunction | None":
        """$f'$ away from the kinks, or None when it is not available (a NumPy callable, or noise inside)."""
        if self.traced is None:
            return None
        slope = _slope(self.traced)
        return ScalarFunction(_compiled(slope), f"the derivative of {self.label}", self.breakpoints, traced=slope)

    def jumps_at(self, kinks: tuple[float, ...]) -> bool:
        """Whether the function is discontinuous at one of these points (by more than a millionth of its size)."""
        if not kinks:
            return False
        points = np.array(kinks)
        left, right = self.values(points - 1e-9), self.values(points + 1e-9)
        return bool(np.any(np.abs(right - left) > 1e-6 * (1 + np.abs(left) + np.abs(right))))

    def scaled(self, scale: float) -> "ScalarFunction":
        r"""$z\mapsto f(\text{scale}\cdot z)$, with its closed form where that is known."""
        if scale == 1.0:
            return self
        series = None
        if self.series is not None and len(self.series) == 2:
            series = (self.series[0], scale * self.series[1])
        return ScalarFunction(
            lambda z: self.values(scale * z),
            f"{self.label} at scale {scale:g}",
            tuple(point / scale for point in self.breakpoints) if scale > 0 else (),
            series,
            None if self.erf_scale is None else self.erf_scale * scale,
            accuracy=self.accuracy,
        )


def as_function(value: Any) -> ScalarFunction:
    """An `Activation`, a single-index `Target`, a name or formula in `z`, or an elementwise callable.

    A target stands for its mean label $E[h(z,e)\\mid z]$; additive label noise does not enter.
    """
    if isinstance(value, ScalarFunction):
        return value
    if callable(value) and not isinstance(value, Spec):
        return _of_callable(value)
    value = as_activation(value)
    if isinstance(value, Activation):
        return _of_activation(value)
    if isinstance(value, Target):
        return _of_target(value)
    raise InputError(f"activation must be an activation, a target, a formula or a function, got {value!r}.")


@lru_cache(maxsize=256)
def _of_activation(value: Activation) -> ScalarFunction:
    series, kind = value.hermite, None
    if value.formula is not None:
        series, kind = _recognise(NAMED.get(value.formula, value.formula))
    return ScalarFunction(
        _compiled(value.function), value.label, value.breakpoints, series, value.erf_scale, kind, value.function
    )


@lru_cache(maxsize=256)
def _of_target(value: Target) -> ScalarFunction:
    if value.latents > 1:
        raise InputError(
            f"target {value.label!r} must depend on one latent direction here, got {value.latents} directions."
        )
    link = value.function
    if value.uses_inner_noise:
        joint = _compiled_pair(lambda z, e: link(z[..., None], e))
        return ScalarFunction(lambda z: average_over_noise(joint, z), value.label, accuracy=1e-13)

    noiseless = _noiseless(link)
    if value.formula is None:
        return ScalarFunction(_compiled(noiseless), value.label, value.breakpoints, value.hermite, traced=noiseless)
    text = re.sub(r"\bz1\b", "z", expand(value.formula))
    series, kind = _recognise(text)
    scale = Activation(text).erf_scale
    return ScalarFunction(_compiled(noiseless), value.label, value.breakpoints, series, scale, kind, noiseless)


@lru_cache(maxsize=256)
def _noiseless(link: Callable[..., Any]) -> Callable[[Any], Any]:
    """The link of one coordinate as a function of it: one object, and one compiled program, for every label noise."""
    return lambda z: link(z[..., None], 0.0 * z)


def _recognise(text: str) -> tuple[tuple[float, ...] | None, str | None]:
    written = ast.unparse(formulas.parse(text, ("z",)))
    kind = {"relu(z)": "relu", "abs(z)": "abs", "sign(z)": "sign"}.get(written)
    return _POLYNOMIALS.get(written.replace(" ", "")), kind


def _of_callable(function: Callable[[Any], Any]) -> ScalarFunction:
    import jax

    label = getattr(function, "__name__", "the function")
    label = "the function" if label == "<lambda>" else label
    with jax.enable_x64(True):
        try:
            shape = jax.eval_shape(function, jax.ShapeDtypeStruct((3,), np.float64)).shape
            traceable = True
        except (TypeError, AttributeError):
            # NumPy and SciPy functions cannot be traced: they are called on plain arrays, without derivatives.
            shape, traceable = np.shape(function(np.array([-0.5, 0.1, 0.7]))), False
    if shape != (3,):
        raise InputError(f"activation must act elementwise, got shape {shape} from an array of shape (3,).")
    if traceable:
        return ScalarFunction(_compiled(function), label, traced=function)

    def values(z: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(z), dtype=np.float64)

    return ScalarFunction(values, label)


@lru_cache(maxsize=256)
def _slope(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import jax
    import jax.numpy as jnp

    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


@lru_cache(maxsize=256)
def _compiled(function: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    pair = _compiled_pair(lambda z, e: function(z))
    return lambda z: pair(z, z)


def _compiled_pair(function: Callable[[Any, Any], Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """An elementwise JAX function of two arrays as a NumPy one, evaluated in blocks of fixed length.

    JAX is imported at the first values: series and closed forms ask for none.
    """

    @cache
    def compiled() -> Callable[[Any, Any], Any]:
        import jax

        return jax.jit(function)

    def values(z: np.ndarray, e: np.ndarray) -> np.ndarray:
        import jax

        z = np.asarray(z, dtype=np.float64)
        first, second = z.ravel(), np.asarray(e, dtype=np.float64).ravel()
        # A few short blocks cost less than compiling the long one.
        block = SHORT if first.size <= 4 * SHORT else LONG
        result = np.empty(first.size)
        with jax.enable_x64(True):
            for start in range(0, first.size, block):
                count = min(block, first.size - start)
                padding = (0, block - count)
                pieces = (np.pad(array[start : start + count], padding) for array in (first, second))
                result[start : start + count] = np.asarray(compiled()(*pieces))[:count]
        return result.reshape(z.shape)

    return values
