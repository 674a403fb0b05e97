r"""Two clusters of any weights: how long until they merge.

Clusters of weights $w_1,w_2$ at cosine $\gamma$ on a sphere of any dimension obey, under softmax attention with
$Q^\top K=V=I$,
$$\dot\gamma=(1-\gamma^2)\,c(\gamma),\qquad
c=\frac{w_2}{w_1e^{\beta(1-\gamma)}+w_2}+\frac{w_1}{w_2e^{\beta(1-\gamma)}+w_1},$$
that is $\dot y=c$ with $y=\operatorname{atanh}\gamma$: coincident tokens act as one token of their total weight. Equal
weights are two equiangular tokens, in closed form (`equiangular`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from limen.checks import fraction, increasing_times, number, reals
from limen.problem.spec import InputError

CITATIONS = ("geshkovski2023",)
NODES = 16


def two_cluster_time(weights: Sequence[float], beta: float, gamma0: float, delta: float = 1e-3) -> float:
    r"""Time for two clusters at cosine `gamma0` to reach cosine $1-\delta$; `inf` beyond the largest double.

    $t=\int dy/c$ from $\operatorname{atanh}\gamma_0$ to $\operatorname{atanh}(1-\delta)$ by Gauss–Legendre panels no
    wider than $2/(1+|\beta|)$, to rounding. Only the ratio of the weights matters. Antipodal clusters ($\gamma_0=-1$)
    never move and are refused.
    """
    return _exponential(log_two_cluster_time(weights, beta, gamma0, delta))


def log_two_cluster_time(weights: Sequence[float], beta: float, gamma0: float, delta: float = 1e-3) -> float:
    r"""$\ln t$ of `two_cluster_time`, finite at every $\beta$."""
    first, second = _shares(weights)
    beta, delta = number("beta", beta), fraction("delta", delta)
    gamma0 = _start(gamma0)
    if gamma0 >= 1.0 - delta:
        raise InputError(f"gamma0 must be less than 1 - delta = {1.0 - delta}, got {gamma0}.")
    low, high = math.atanh(gamma0), 0.5 * math.log((2.0 - delta) / delta)
    count = 8 + math.ceil((high - low) * (1.0 + abs(beta)) / 2.0)
    nodes, own = np.polynomial.legendre.leggauss(NODES)
    width = (high - low) / count
    points = low + width * (np.arange(count)[:, None] + 0.5 * (nodes + 1.0))
    logarithms = -_log_speed(points, first, second, beta) + np.log(0.5 * width * own)
    largest = float(logarithms.max())
    return largest + math.log(float(np.exp(logarithms - largest).sum()))


def two_cluster_cosine(weights: Sequence[float], beta: float, gamma0: float, times: ArrayLike) -> NDArray[np.float64]:
    r"""$\gamma(t)$ of two clusters at increasing times $\ge0$, by Dormand–Prince 8 in $\operatorname{atanh}\gamma$."""
    first, second = _shares(weights)
    beta, start, grid = number("beta", beta), math.atanh(_start(gamma0)), increasing_times(times)

    def slope(t: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(_log_speed(y, first, second, beta))

    until = max(float(grid[-1]), 1e-12)
    solution = solve_ivp(slope, (0.0, until), [start], "DOP853", t_eval=grid, rtol=1e-11, atol=1e-12)
    if not solution.success:
        raise RuntimeError(f"the two-cluster equation stopped at t = {solution.t[-1]:.4g}: {solution.message}")
    return np.tanh(solution.y[0])


def _log_speed(y: Any, first: float, second: float, beta: float) -> NDArray[np.float64]:
    r"""$\ln c$ with $1-\gamma=2/(e^{2y}+1)$, exact near consensus."""
    exponent = beta * 2.0 / (np.exp(2.0 * np.asarray(y)) + 1.0)
    ratio = math.log(first / second)
    return np.logaddexp(-np.logaddexp(0.0, exponent + ratio), -np.logaddexp(0.0, exponent - ratio))


def _shares(weights: Sequence[float]) -> tuple[float, float]:
    pair = reals("weights", weights)
    if pair.shape != (2,) or (pair <= 0.0).any():
        raise InputError(f"weights must be two positive numbers, got {pair.tolist()}.")
    return float(pair[0]), float(pair[1])


def _start(gamma0: Any) -> float:
    cosine = number("gamma0", gamma0)
    if not -1.0 < cosine < 1.0:
        raise InputError(f"gamma0 must be strictly between -1 and 1 (antipodal clusters never move), got {cosine}.")
    return cosine


def _exponential(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 709.78 else math.inf
