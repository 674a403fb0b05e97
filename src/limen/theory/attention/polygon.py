r"""Regular polygons of equal clusters on the circle: how fast they fall apart, and how long they live.

$k$ equal clusters at angles $u_j=2\pi j/k$ are stationary for softmax attention. With
$f'(u)=e^{\beta\cos u}(\cos u-\beta\sin^2u)$ and $H=\sum_je^{\beta\cos u_j}$, displacing cluster $j$ by $\cos(mu_j)$
grows at
$$\sigma_m=\frac1H\sum_jf'(u_j)(\cos(mu_j)-1),\qquad m=1,\dots,k-1,$$
and tokens inside a cluster approach one another at the internal rate $-\frac1H\sum_jf'(u_j)$. $k=2$:
$\sigma_1=1-\tanh\beta$. For large $\beta$, $\max\sigma\propto e^{-\beta(1-\cos2\pi/k)}$: polygons are metastable. The
triangle is neutral at $\beta=-\frac23$ and stable below (Polyanskiy, Rigollet & Yao 2025).
"""

import math

import numpy as np
from numpy.typing import NDArray

from limen.checks import fraction, integer, number

CITATIONS = ("geshkovski2023", "polyanskiy2025")


def polygon_rates(k: int, beta: float) -> tuple[NDArray[np.float64], float]:
    r"""Growth rates $\sigma_m$, $m=1,\dots,k-1$, of a regular $k$-gon of equal clusters, and the internal rate of one
    cluster.

    The rotation $m=0$, neutral, is left out. A rate smaller than the smallest double is returned as 0.
    """
    k, beta = integer("k", k, 2), number("beta", beta)
    scaled, exponent = _scaled_rates(k, beta)
    weights = _weights(k, beta)
    slopes = weights * _bracket(k, beta)
    return scaled * math.exp(exponent), -float(slopes.sum() / weights.sum())


def lifetime(k: int, beta: float, perturbation: float = 1e-3) -> float:
    r"""Time $\ln(1/\text{perturbation})/\max_m\sigma_m$ for an angular perturbation to grow to order one; `inf` if
    stable.

    Linear estimate. The true time to the first merger has the same exponent in $\beta$. Exact polygons never move:
    `perturbation` in (0, 1) is the size of the first displacement in radians.
    """
    logarithm = log_lifetime(k, beta, perturbation)
    return math.exp(logarithm) if logarithm < 709.78 else math.inf


def log_lifetime(k: int, beta: float, perturbation: float = 1e-3) -> float:
    r"""$\ln$ of `lifetime`, of order $\beta(1-\cos2\pi/k)$ for large $\beta$; `inf` where the polygon is stable."""
    k, beta, perturbation = integer("k", k, 2), number("beta", beta), fraction("perturbation", perturbation)
    scaled, exponent = _scaled_rates(k, beta)
    fastest = float(scaled.max())
    # Rounding of a sum of terms of order one: a neutral polygon has no lifetime.
    if fastest <= 1e-14 * (1.0 + abs(beta)):
        return math.inf
    return math.log(math.log(1.0 / perturbation)) - math.log(fastest) - exponent


def _scaled_rates(k: int, beta: float) -> tuple[NDArray[np.float64], float]:
    """Rates without their common exponential factor, and its exponent; a cluster never acts on itself."""
    angles = 2.0 * np.pi * np.arange(k) / k
    exponents = beta * np.cos(angles)
    others = float(exponents[1:].max())
    pulls = np.exp(exponents[1:] - others) * _bracket(k, beta)[1:]
    modes = np.cos(np.arange(1, k)[:, None] * angles[None, 1:]) - 1.0
    top = float(exponents.max())
    total = float(np.exp(exponents - top).sum())
    return modes @ pulls / total, others - top


def _bracket(k: int, beta: float) -> NDArray[np.float64]:
    angles = 2.0 * np.pi * np.arange(k) / k
    return np.cos(angles) - beta * np.sin(angles) ** 2


def _weights(k: int, beta: float) -> NDArray[np.float64]:
    exponents = beta * np.cos(2.0 * np.pi * np.arange(k) / k)
    return np.exp(exponents - exponents.max())
