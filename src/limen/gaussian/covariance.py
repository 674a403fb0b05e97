r"""$E[\sigma(u)\sigma(v)]$ for centred Gaussians with unequal variances $q_1,q_2$ and covariance $c$."""

from typing import Any

import numpy as np

from limen.gaussian.duals import Dual, dual
from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.gaussian.rotated import rotated_rule
from limen.problem.spec import InputError

_TABLE_PAYS = 40  # pairs of equal variances above which a table is cheaper than one integral each
_ROUNDING = 1e-9


def covariance_dual(activation: Any, q1: Any, q2: Any, c: Any) -> np.ndarray:
    r"""$E[\sigma(u)\sigma(v)]$, $(u,v)\sim N(0,\begin{pmatrix}q_1&c\\c&q_2\end{pmatrix})$, for arrays that broadcast.

    Closed forms for ReLU and $|z|$ (homogeneous: $\sqrt{q_1q_2}\,h(c/\sqrt{q_1q_2})$), $\mathrm{erf}(kz)$
    ($\frac2\pi\arcsin\frac{2k^2c}{\sqrt{(1+2k^2q_1)(1+2k^2q_2)}}$, Williams 1997), $z$ and $z^2$ ($q_1q_2+2c^2$).
    Otherwise by the rule that follows kinks, once per pair of variances; where more than 40 entries share their
    variances (a sphere) the dual is tabulated once. About 5 ms per entry or 0.3 s per table.
    """
    function = as_function(activation)
    first, second, covariance = _checked(q1, q2, c)
    product = np.sqrt(first * second)
    if function.kind in ("relu", "abs"):
        return product * dual(function)(_correlation(covariance, product))
    if function.erf_scale is not None:
        k = function.erf_scale
        return 2 / np.pi * np.arcsin(2 * k**2 * covariance / np.sqrt((1 + 2 * k**2 * first) * (1 + 2 * k**2 * second)))
    if function.series == (0.0, 1.0):
        return covariance.copy()
    if function.series == (1.0, 0.0, 2.0**0.5):
        return first * second + 2 * covariance**2
    return _grouped(function, first, second, covariance)


def covariance_dual_prime(activation: Any, q1: Any, q2: Any, c: Any) -> np.ndarray:
    r"""$E[\sigma'(u)\sigma'(v)]=\partial_cE[\sigma(u)\sigma(v)]$ for the Gaussians of `covariance_dual`.

    Closed forms for the same functions; for $\mathrm{erf}(kz)$ it is
    $\frac{4k^2}{\pi}[(1+2k^2q_1)(1+2k^2q_2)-4k^4c^2]^{-1/2}$. Otherwise the generic rule on $\sigma'$, which must be an
    ordinary function: an activation that jumps, or that cannot be differentiated automatically, is refused.
    """
    function = as_function(activation)
    first, second, covariance = _checked(q1, q2, c)
    if function.kind in ("relu", "abs"):
        return dual(function).prime(_correlation(covariance, np.sqrt(first * second)))
    if function.erf_scale is not None:
        k = function.erf_scale
        return 4 * k**2 / np.pi / np.sqrt((1 + 2 * k**2 * first) * (1 + 2 * k**2 * second) - 4 * k**4 * covariance**2)
    if function.series == (0.0, 1.0):
        return np.ones_like(covariance)
    if function.series == (1.0, 0.0, 2.0**0.5):
        return 4 * covariance
    slope = function.derivative()
    if slope is None or function.jumps_at(gaussian_rule(function).kinks):
        raise InputError(f"activation must be continuous and differentiable by JAX, got {function.label}.")
    return _grouped(slope, first, second, covariance)


def _grouped(function: ScalarFunction, first: np.ndarray, second: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The generic route, one rule for every distinct pair of variances."""
    result = np.empty(covariance.shape)
    pairs, which = np.unique(np.stack([first.ravel(), second.ravel()], -1), axis=0, return_inverse=True)
    for index, (one, two) in enumerate(pairs):
        here = which.ravel() == index
        rho = _correlation(covariance.ravel()[here], np.sqrt(one * two))
        left = function.scaled(float(np.sqrt(one))).without_closed_form()
        right = function.scaled(float(np.sqrt(two))).without_closed_form()
        if rho.size > _TABLE_PAYS:
            result.flat[here] = Dual(left, right, None)(rho)
        else:
            rule = rotated_rule(left, right)
            result.flat[here] = [rule(float(np.arccos(value))) for value in rho]
    return result


def _checked(q1: Any, q2: Any, c: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (q1, q2, c)))
    first, second, covariance = arrays
    for name, values in (("q1", first), ("q2", second)):
        if not np.all(values >= 0):
            raise InputError(f"{name} must not be negative, got {values.min()}.")
    excess = np.abs(covariance) - np.sqrt(first * second) * (1 + _ROUNDING)
    if not np.all(excess <= 0):
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        raise InputError(f"c must be at most sqrt(q1 q2) in size, got {covariance[worst]}.")
    return first, second, covariance


def _correlation(covariance: np.ndarray, product: Any) -> np.ndarray:
    """Rounding beyond one, allowed up to 1e-9 by the check, is taken off here."""
    return np.clip(covariance / np.where(product > 0, product, 1.0), -1.0, 1.0)
