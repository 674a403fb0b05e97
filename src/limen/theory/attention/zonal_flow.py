r"""Mean-field attention for laws symmetric about an axis of the sphere in any dimension, by characteristics.

Heights $u=\langle x,e\rangle$ move as $\dot y=\frac1\beta\partial_u\ln\Phi$ (softmax) or $\frac1\beta\partial_u\Phi$,
$y=\operatorname{atanh}u$,
$$\Phi(u)=\sum_bw_be^{\beta uu_b}J\big(\beta\sqrt{1-u^2}\sqrt{1-u_b^2}\big),\qquad
J(z)=\Gamma(\tfrac{d-1}2)(2/z)^{(d-3)/2}I_{(d-3)/2}(z)$$
($J=\cosh$ on the circle), with $u_b$ started at Gauss nodes of the uniform heights and weights $w_b$ from the density.
With $J'(z)/J(z)=z\,g(z)$ the velocity is the average of $u_b-\beta u(1-u_b^2)g$ under the weights $w_be^{\beta uu_b}J$:
nothing is singular at the poles or at $\beta=0$. Mass is never lost and the method works past clustering; it is
spectrally accurate while nearby heights stay together. Non-axial perturbations, which may grow, are outside it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from limen.checks import increasing_times, integer, number
from limen.method import answers
from limen.result import Findings
from limen.theory.attention.bessel import bessel_ratios
from limen.theory.attention.field_limits import beta_without_normalization, density_values
from limen.theory.attention.height_rule import height_rule

CITATIONS = ("geshkovski2023",)
TRUSTED = 1e-6


@answers("theory", CITATIONS)
def zonal_flow(
    density: Callable[[Any], Any],
    d: int,
    beta: float,
    times: ArrayLike,
    normalized: bool = True,
    nodes: int | None = None,
) -> Findings:
    r"""The law of infinitely many tokens symmetric about an axis, $Q^\top K=V=I$, dimension $d\ge2$.

    Args:
        density: function of the height $u\in(-1,1)$ relative to the uniform law on the sphere (constant is uniform),
            evaluated on NumPy arrays; non-negative, any normalisation.
        d: dimension, at least 2.
        beta: inverse temperature, any sign; at most 700 in size without softmax.
        times: increasing, non-negative.
        normalized: softmax attention, or without its denominator.
        nodes: characteristics, by default $32+4\sqrt{|\beta|}$. $O(\text{nodes}^2)$ per evaluation.

    Returns:
        `mean_height` (time), $\mathbb Eu$; `height` (time, node) and `weight` (node), the law as point masses. The run
        is repeated with half the nodes; `ok` is false if the mean height then differs by more than $10^{-6}$.
    """
    d, beta, grid = integer("d", d, 2), number("beta", beta), increasing_times(times)
    beta_without_normalization(beta, normalized)
    count = 32 + math.ceil(4.0 * math.sqrt(abs(beta))) if nodes is None else integer("nodes", nodes, 8)
    heights, weights, evaluations = _characteristics(density, d, beta, grid, normalized, count)
    coarse, coarse_weights, _ = _characteristics(density, d, beta, grid, normalized, count // 2)
    mean = heights @ weights
    difference = float(np.abs(coarse @ coarse_weights - mean).max())
    ok = difference <= TRUSTED
    status = f"mean height settled to {difference:.1g} between {count // 2} and {count} nodes"
    status = f"{status}." if ok else f"{status}: take more nodes."
    dataset = xr.Dataset(
        {"mean_height": (("time",), mean), "height": (("time", "node"), heights), "weight": (("node",), weights)},
        coords={"time": grid},
    )
    statistics = {"evaluations": evaluations, "difference": difference}
    return Findings(dataset, ok, status, statistics)


def _characteristics(
    density: Callable[[Any], Any], d: int, beta: float, grid: NDArray[np.float64], normalized: bool, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    nodes, weights = height_rule(d, count)
    weights = weights * density_values(density, nodes)
    weights = weights / weights.sum()
    log_kernel, curvature = _ring_kernel(d, abs(beta))

    def slope(t: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.tanh(y)
        flat = 1.0 / np.cosh(y)
        position = 2.0 * flat[:, None] * flat - 1.0
        # The kernel is even in beta, tabulated on z = |beta| (position + 1) / 2.
        exponent = beta * u[:, None] * u + chebyshev.chebval(position, log_kernel)
        largest = exponent.max(axis=1, keepdims=True) if normalized else 0.0
        mass = weights * np.exp(exponent - largest)
        pull = u - beta * u[:, None] * flat**2 * chebyshev.chebval(position, curvature)
        total = (mass * pull).sum(axis=1)
        return total / mass.sum(axis=1) if normalized else total

    until = max(float(grid[-1]), 1e-12)
    start = np.arctanh(nodes)
    solution = solve_ivp(slope, (0.0, until), start, "DOP853", t_eval=grid, rtol=1e-10, atol=1e-11)
    if not solution.success:
        raise RuntimeError(f"the zonal flow stopped at t = {solution.t[-1]:.4g}: {solution.message}")
    return np.tanh(solution.y.T), weights, float(solution.nfev)


def _ring_kernel(d: int, largest: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Chebyshev series on $[0,\text{largest}]$ of $\ln J(z)$ and $g(z)=J'(z)/(zJ(z))=1/(d-1+z\,r(z))$,
    $r=I_{(d+1)/2}/I_{(d-1)/2}$.
    """
    degree = 40 + math.ceil(20.0 * math.sqrt(largest))
    positions = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    z = 0.5 * largest * (positions + 1.0)
    g = 1.0 / (d - 1.0 + z * bessel_ratios((d - 1.0) / 2.0, 1, z)[0])
    curvature = _coefficients(g)
    log_kernel = chebyshev.chebint(_coefficients(z * g), scl=1.0, lbnd=-1.0) * (0.5 * largest)
    return np.asarray(log_kernel, dtype=float), curvature


def _coefficients(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chebyshev coefficients of values at Chebyshev points of the first kind, without the tail below rounding."""
    count = len(values)
    angles = np.pi * (np.arange(count) + 0.5) / count
    coefficients = 2.0 / count * np.cos(np.arange(count)[:, None] * angles) @ values
    coefficients[0] /= 2.0
    significant = np.flatnonzero(np.abs(coefficients) > 1e-17 * np.abs(values).max())
    return coefficients[: int(significant.max(initial=0)) + 1]
