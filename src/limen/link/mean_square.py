r"""Whether a function of standard normals has a finite mean square, by looking: for labels, activations, slopes."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from limen.precision import in_double
from limen.problem.activations import NAMED, Activation
from limen.problem.spec import InputError

DIRECTIONS = 256
RADII = (10.0, 20.0, 30.0)
DOMINATING_SHARE = 0.3
DIFFERENCE = 1e-7
Values = Callable[[np.ndarray], np.ndarray]


def has_finite_square(values: Values, size: int) -> bool:
    r"""Whether $E[f^2]$ is finite for a function of `size` standard normals, `values` from points (N, size) to (N,).

    Two symptoms are looked for: a tail that grows as fast as the Gaussian falls, along 256 random directions out to
    radius 30; and a singularity, seen as a single typical point of 65536 that carries a third of $E[f^2]$. A
    logarithmic divergence passes.
    """
    with np.errstate(all="ignore"):
        return not (_grows_too_fast(values, size) or _is_singular(values, size))


def check_activation(activation: Activation, scale: float, with_slope: bool) -> None:
    r"""Refuses an activation whose $E[\sigma(sz)^2]$ is infinite at the `scale` $s$ of the fields at the start; with
    `with_slope` also one whose $E[\sigma'(sz)^2]$ is: every limit of gradients rests on it."""
    if activation.hermite is not None or activation.formula in NAMED:
        return
    outputs, slopes = _square_integrable(activation, scale)
    if not outputs:
        raise InputError(f"activation must have a finite mean square, and {activation.label!r} has not.")
    if with_slope and not slopes:
        raise InputError(
            f"activation must have a derivative of finite mean square for a prediction, and {activation.label!r} has "
            "not."
        )


@lru_cache(maxsize=256)
@in_double
def _square_integrable(activation: Activation, scale: float) -> tuple[bool, bool]:
    """Whether the mean squares of an activation and of its slope are finite."""

    def outputs(points: np.ndarray) -> np.ndarray:
        return np.asarray(activation.function(scale * points[:, 0]), dtype=float)

    def slopes(points: np.ndarray) -> np.ndarray:
        # On NumPy arrays, by differences: derivatives of JAX would compile a program for every operation.
        step = np.zeros_like(points)
        step[:, 0] = DIFFERENCE * np.maximum(np.abs(points[:, 0]), 1.0)
        return (outputs(points + step) - outputs(points - step)) / (2.0 * scale * step[:, 0])

    return has_finite_square(outputs, 1), has_finite_square(slopes, 1)


def _grows_too_fast(values: Values, size: int) -> bool:
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # The Gaussian measure of a cell at radius r, on which the integrand is exp(2 log|f| - r^2/2).
    exponents = []
    for radius in RADII:
        found = values(radius * directions)
        exponents.append(np.where(np.isfinite(found), 2.0 * np.log(np.abs(found)), np.inf) - 0.5 * radius**2)
    # Beyond the largest number already at the first radius, it is so at the last.
    return bool(np.isposinf(exponents[0]).any() or (exponents[-1] > np.maximum(exponents[0], -50.0)).any())


def _is_singular(values: Values, size: int) -> bool:
    # Plain normals: Sobol's would import SciPy, a sixth of a second of the first answer.
    points = np.random.default_rng(1).standard_normal((1 << 16, size))
    found = values(points)
    if not np.isfinite(found).all():
        return True
    squares = (found / max(float(np.abs(found).max()), 1e-300)) ** 2
    largest = int(np.argmax(squares))
    typical = np.linalg.norm(points[largest]) < np.sqrt(size) + 2.5
    # An indicator of a rare event has few points too, but they are equal.
    share = squares[largest] / squares.sum() if squares.sum() > 0 else 0.0
    return bool(typical and share > DOMINATING_SHARE)
