r"""Hermite coefficients $c_m=E[\sigma(s\xi)\,he_m(\xi)]$, $\xi\sim N(0,1)$, $he_m$ orthonormal.

With them $E[\sigma(G_1)\phi(G_2)]=\sum_mc_m(\sigma)c_m(\phi)\rho^m$ for standard normals of correlation $\rho$
(Mehler), $c_m(\sigma')=\sqrt{m+1}\,c_{m+1}(\sigma)$, and $E\sigma^2=\sum_mc_m^2$.
"""

from typing import Any

import numpy as np

from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.panels import normal_density
from limen.gaussian.quadrature import gaussian_rule, weighted_hermite
from limen.problem.spec import InputError

HIGHEST_DEGREE = 300  # he_m oscillates up to 2 sqrt(m), which must stay inside the quadrature's interval


def hermite_polynomials(z: Any, degree: int) -> np.ndarray:
    r"""Orthonormal Hermite polynomials $he_0(z),\dots,he_{\text{degree}}(z)$ on a new last axis.

    By $\sqrt{m+1}\,he_{m+1}=z\,he_m-\sqrt m\,he_{m-1}$, which is stable; $E[he_l(\xi)he_m(\xi)]=\delta_{lm}$.
    """
    _check_degree(degree)
    points = np.asarray(z, dtype=np.float64)
    rows = np.ones((*points.shape, degree + 1))
    if degree > 0:
        rows[..., 1] = points
    for m in range(1, degree):
        rows[..., m + 1] = (points * rows[..., m] - m**0.5 * rows[..., m - 1]) / (m + 1) ** 0.5
    return rows


def hermite_coefficients(activation: Any, degree: int, scale: float = 1.0) -> np.ndarray:
    r"""$c_0,\dots,c_{\text{degree}}$ with $c_m=E[\sigma(\text{scale}\cdot\xi)\,he_m(\xi)]$, shape (degree + 1,).

    `activation` is an `Activation`, a single-index `Target` (then $\sigma$ is its mean label given $z$), a name or
    formula, or an elementwise NumPy or JAX function. Closed forms for ReLU, $|z|$, sign and $\mathrm{erf}(cz)$ at
    any scale and for Hermite series at scale 1; everything else by `hermite_coefficients_by_quadrature`.
    """
    _check_degree(degree)
    _check_scale(scale)
    function = as_function(activation)
    exact = _closed_form(function, degree, scale)
    return hermite_coefficients_by_quadrature(function, degree, scale) if exact is None else exact


def hermite_coefficients_by_quadrature(activation: Any, degree: int, scale: float = 1.0) -> np.ndarray:
    r"""The coefficients of `hermite_coefficients` by the adapted Gauss-Legendre rule, closed form or not.

    Absolute accuracy about $10^{-14}\lVert\sigma\rVert$, kinks and jumps included. Costs a few thousand
    evaluations of the activation. A function that is not square integrable is refused.
    """
    _check_degree(degree)
    _check_scale(scale)
    function = as_function(activation).scaled(scale)
    rule = gaussian_rule(function, degree)
    damped = rule.weights * rule.values / np.sqrt(normal_density(rule.nodes))
    return weighted_hermite(rule.nodes, degree) @ damped


def hermite_at_zero(degree: int) -> np.ndarray:
    r"""$he_m(0)$, $m=0..$degree: zero for odd $m$ and $(-1)^j\sqrt{\binom{2j}{j}}\,2^{-j}$ for $m=2j$."""
    return hermite_polynomials(0.0, degree)


def _closed_form(function: ScalarFunction, degree: int, scale: float) -> np.ndarray | None:
    m = np.arange(degree + 1)
    zero = hermite_at_zero(degree)
    coefficients = np.zeros(degree + 1)
    if function.kind in ("relu", "abs"):
        # Integrating by parts twice leaves a point mass at the kink.
        coefficients[2:] = zero[:-2] / np.sqrt(2 * np.pi * m[2:] * (m[2:] - 1.0)) if degree > 1 else 0.0
        coefficients[:2] = np.array([1 / np.sqrt(2 * np.pi), 0.5])[: degree + 1]
        if function.kind == "abs":
            coefficients *= 2.0
            coefficients[1:2] = 0.0
        return scale * coefficients
    if function.kind == "sign" and scale > 0:
        coefficients[1:] = 2.0 * zero[:-1] / np.sqrt(2 * np.pi * m[1:])
        return coefficients
    if function.erf_scale is not None:
        slope = function.erf_scale * scale
        shrink = 2 * slope**2 / (1 + 2 * slope**2)
        front = 2 * slope / np.sqrt(np.pi * (1 + 2 * slope**2))
        coefficients[1:] = front * zero[:-1] * shrink ** (0.5 * (m[1:] - 1)) / np.sqrt(m[1:])
        return coefficients
    series = function.scaled(scale).series
    if series is None:
        return None
    shared = min(degree + 1, len(series))
    coefficients[:shared] = series[:shared]
    return coefficients


def _check_degree(degree: int) -> None:
    if not 0 <= degree <= HIGHEST_DEGREE:
        raise InputError(f"degree must be between 0 and {HIGHEST_DEGREE}, got {degree}.")


def _check_scale(scale: float) -> None:
    if not (np.isfinite(scale) and scale >= 0):
        raise InputError(f"scale must be finite and not negative, got {scale}.")
