r"""Incremental learning: with a fast second layer a wide network learns a single-index target degree by degree.

Width $m\to\infty$ particles $(a_i,s_i)$, $d\to\infty$, first layer on the sphere, from $s_i=0$ (Berthier, Montanari &
Zhou 2023). With orthonormal Hermite coefficients $\sigma_\ell$ of the activation and $\varphi_\ell$ of the target,
$$\epsilon\,\dot a_i=\sum_\ell\sigma_\ell s_i^\ell r_\ell,\qquad
\dot s_i=a_i(1-s_i^2)\sum_\ell\ell\sigma_\ell s_i^{\ell-1}r_\ell,\qquad
r_\ell=\varphi_\ell-\frac{\sigma_\ell}m\sum_ja_js_j^\ell,$$
excess risk $\frac12\sum_\ell r_\ell^2$. The learning-rate ratio of the second layer is $1/\epsilon$; as $\epsilon\to0$
degree $\ell$ is learnt at a time of order $\epsilon^{1/(2\ell)}$, $\ell\ge1$ (a logarithm more at $\ell=1$).
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from limen.problem.spec import InputError
from limen.result import Result

CITATIONS = ("arnaboldi2023escaping",)


def incremental_learning(
    activation_series: Sequence[float],
    target_series: Sequence[float],
    epsilon: float,
    times: Sequence[float] | np.ndarray,
    width: int = 200,
    seed: int = 0,
) -> Result:
    r"""Particles with $a_i(0)\sim N(0,1)$ of mean zero and $s_i(0)=0$.

    Args:
        activation_series, target_series: $\sigma_\ell$ and $\varphi_\ell$, $\ell=0..L$, of equal length.
        epsilon: time scale of the second layer against the first.
        times: increasing; the first layer's time.
        width: number of particles.
        seed: of the second layer at the start.

    Returns:
        `excess_risk` (time), `residual` $r_\ell$ (time, degree), `learning_time` (degree): when $|r_\ell|$ is first
        half of $|\varphi_\ell|$ (not a number if that does not happen before the last time).

    Implicit (Radau) steps with the exact Jacobian: $O(m^3)$ a step, any $\epsilon$.
    """
    began = time.perf_counter()
    sigma, phi = (np.asarray(series, dtype=float) for series in (activation_series, target_series))
    grid = np.asarray(times, dtype=float)
    _check(sigma, phi, epsilon, grid, width)
    degrees = np.arange(sigma.size)
    normals = np.random.default_rng(seed).normal(size=width)
    second = normals - normals.mean() if width > 1 else normals

    def parts(state: np.ndarray) -> tuple[np.ndarray, ...]:
        a, s = state[:width], state[width:]
        powers = s[:, None] ** degrees
        lower = degrees * s[:, None] ** np.maximum(degrees - 1, 0)
        residual = phi - sigma * (a @ powers) / width
        return a, s, powers, lower, residual

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        a, s, powers, lower, residual = parts(state)
        return np.concatenate([powers @ (sigma * residual) / epsilon, a * (1 - s**2) * (lower @ (sigma * residual))])

    def jacobian(t: float, state: np.ndarray) -> np.ndarray:
        a, s, powers, lower, residual = parts(state)
        second_power = degrees * (degrees - 1) * s[:, None] ** np.maximum(degrees - 2, 0)
        force = lower @ (sigma * residual)
        by_a, by_s = -(sigma**2) * powers / width, -(sigma**2) * lower * a[:, None] / width
        top = np.concatenate([powers @ by_a.T, powers @ by_s.T + np.diag(force)], axis=1) / epsilon
        front = (a * (1 - s**2))[:, None]
        own = a * (1 - s**2) * (second_power @ (sigma * residual)) - 2 * a * s * force
        left = front * (lower @ by_a.T) + np.diag((1 - s**2) * force)
        return np.concatenate([top, np.concatenate([left, front * (lower @ by_s.T) + np.diag(own)], axis=1)], axis=0)

    start = np.concatenate([second, np.zeros(width)])
    solution = solve_ivp(slope, (0.0, grid[-1]), start, "Radau", jac=jacobian, dense_output=True, rtol=1e-6, atol=1e-9)
    dense = np.unique(np.concatenate([solution.t, np.geomspace(1e-3 * epsilon, grid[-1], 4000)]))
    fine = np.stack([parts(state)[4] for state in solution.sol(dense).T])
    learned = [_half_time(dense, fine[:, degree], phi[degree]) for degree in degrees]
    residual = np.stack([parts(state)[4] for state in solution.sol(grid).T])
    dataset = xr.Dataset(
        {
            "excess_risk": (("time",), 0.5 * (residual**2).sum(axis=1)),
            "residual": (("time", "degree"), residual),
            "learning_time": (("degree",), np.array(learned)),
        },
        coords={"time": grid, "degree": degrees},
    )
    spec: dict[str, Any] = {"type": "incremental_learning", "epsilon": epsilon, "width": width, "seed": seed}
    spec |= {"activation_series": sigma.tolist(), "target_series": phi.tolist()}
    statistics = {"seconds": time.perf_counter() - began, "evaluations": float(solution.nfev)}
    status = f"{width} particles." if solution.success else f"stopped at t = {solution.t[-1]:.4g}: {solution.message}"
    return Result(dataset, spec, "theory", bool(solution.success), status, statistics, (), CITATIONS)


def early_first_degree(times: np.ndarray, sigma: float, phi: float, epsilon: float, variance: float) -> np.ndarray:
    r"""$F_1=\frac{\sigma_1}m\sum_ia_is_i$ before it acts back: $\sinh(2\varphi_1\sigma_1t/\sqrt\epsilon)
    \cdot\frac12\sigma_1\sqrt\epsilon\,\mathrm{Var}\,a$."""
    return 0.5 * sigma * np.sqrt(epsilon) * variance * np.sinh(2.0 * phi * sigma * times / np.sqrt(epsilon))


def _half_time(times: np.ndarray, residual: np.ndarray, start: float) -> float:
    if start == 0.0:
        return float("nan")
    below = np.abs(residual) <= 0.5 * abs(start)
    if not below.any():
        return float("nan")
    last = int(below.argmax())
    if last == 0:
        return float(times[0])
    high, low = abs(residual[last - 1]), abs(residual[last])
    part = (high - 0.5 * abs(start)) / (high - low)
    return float(times[last - 1] + part * (times[last] - times[last - 1]))


def _check(sigma: np.ndarray, phi: np.ndarray, epsilon: float, grid: np.ndarray, width: int) -> None:
    if sigma.shape != phi.shape or sigma.ndim != 1 or sigma.size < 2:
        raise InputError("activation_series and target_series must be lists of equal length, degree 1 included.")
    if not epsilon > 0.0:
        raise InputError(f"epsilon must be positive, got {epsilon}.")
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 0.0 or (np.diff(grid) <= 0.0).any() or not grid[-1] > 0.0:
        raise InputError("times must be an increasing list of non-negative numbers.")
    if width < 1:
        raise InputError(f"width must be at least 1, got {width}.")
    if phi[1] * sigma[1] == 0.0:
        raise InputError("degree 1 must be present in activation and target: from s = 0 nothing moves without it.")
    missing = np.flatnonzero((phi != 0.0) & (sigma == 0.0))
    if missing.size:
        raise InputError(f"activation_series must not vanish where target_series does not, got degree {missing[0]}.")
