r"""Incremental learning: with a fast second layer a wide network learns a single-index target degree by degree.

Width $m\to\infty$ particles $(a_i,s_i)$, $d\to\infty$, first layer on the sphere, from $s_i=0$ (Berthier, Montanari &
Zhou 2023). With orthonormal Hermite coefficients $\sigma_\ell$ of the activation and $\varphi_\ell$ of the target,
$$\epsilon\,\dot a_i=\sum_\ell\sigma_\ell s_i^\ell r_\ell,\qquad
\dot s_i=a_i(1-s_i^2)\sum_\ell\ell\sigma_\ell s_i^{\ell-1}r_\ell,\qquad
r_\ell=\varphi_\ell-\frac{\sigma_\ell}m\sum_ja_js_j^\ell,$$
excess risk $\frac12\sum_\ell r_\ell^2$. The learning-rate ratio of the second layer is $1/\epsilon$; as $\epsilon\to0$
degree $\ell$ is learnt at a time of order $\epsilon^{1/(2\ell)}$, $\ell\ge1$ (a logarithm more at $\ell=1$).

A network of finite width $m$ differs at order $1/m$. Part of that is the kernel of a neuron with itself, $\langle
u_i,u_i\rangle=1$ where the particles have $s_i^2$: it adds $-\sum_\ell\frac{\sigma_\ell^2}ma_i(1-s_i^{2\ell})$ to
$\epsilon\dot a_i$, $\frac{\sigma_\ell}ma_is_i^\ell$ to $r_\ell$ in $\dot s_i$, and
$\frac1{2m^2}\sum_{i\ell}\sigma_\ell^2a_i^2(1-s_i^{2\ell})$ to the risk. The overlaps that different neurons acquire
outside the target's direction are of the same order and are left out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ndtri

from limen.labelled import labelled
from limen.method import answers
from limen.problem.spec import InputError
from limen.result import Findings

CITATIONS = ("berthier2023",)


@answers("theory", CITATIONS)
def incremental_learning(
    activation_series: Sequence[float],
    target_series: Sequence[float],
    epsilon: float,
    times: Sequence[float] | np.ndarray,
    width: int = 200,
    seed: int = 0,
    second_layer: Sequence[float] | np.ndarray | None = None,
    self_term: bool = False,
) -> Findings:
    r"""Particles with $s_i(0)=0$ and $a_i(0)$ given or drawn from $N(0,1)$ and centred.

    Args:
        activation_series, target_series: $\sigma_\ell$ and $\varphi_\ell$, $\ell=0..L$, of equal length.
        epsilon: time scale of the second layer against the first.
        times: increasing; the first layer's time.
        width: number of particles.
        seed: of the second layer at the start.
        second_layer: $a_i(0)$, `width` of them, in place of the draw; `normal_quantiles(width)` has no sampling error.
        self_term: whether a neuron's kernel with itself is that of width $m$, or that of particles for $m=\infty$.

    Returns:
        `excess_risk` (time), `residual` $r_\ell$ (time, degree), `learning_time` (degree): when $|r_\ell|$ is first
        half of $|\varphi_\ell|$ (not a number if that does not happen before the last time).

    Adams' steps where they suffice and backward differences with the exact Jacobian where the second layer is too fast
    for them (LSODA): any $\epsilon$, $O(m)$ and at worst $O(m^3)$ a step; errors of about $10^{-7}$.
    """
    sigma, phi = (np.asarray(series, dtype=float) for series in (activation_series, target_series))
    grid = np.asarray(times, dtype=float)
    _check(sigma, phi, epsilon, grid, width)
    degrees = np.arange(sigma.size)
    normals = np.random.default_rng(seed).normal(size=width)
    second = normals - normals.mean() if width > 1 else normals
    if second_layer is not None:
        second = np.asarray(second_layer, dtype=float)
        if second.shape != (width,) or not np.isfinite(second).all():
            raise InputError(f"second_layer must be {width} numbers, as many as width, got shape {second.shape}.")
    own = sigma**2 / width if self_term else np.zeros_like(sigma)

    def parts(state: np.ndarray) -> tuple[np.ndarray, ...]:
        a, s = state[:width], state[width:]
        powers = _powers(s, sigma.size)
        residual = phi - sigma * (a @ powers) / width
        return a, s, powers, degrees * _shifted(powers), residual

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        a, s, powers, lower, residual = parts(state)
        fast = powers @ (sigma * residual) - a * ((1.0 - powers**2) @ own)
        slow = lower @ (sigma * residual) + a * ((lower * powers) @ own)
        return np.concatenate([fast / epsilon, a * (1 - s**2) * slow])

    def jacobian(t: float, state: np.ndarray) -> np.ndarray:
        a, s, powers, lower, residual = parts(state)
        second_power = degrees * (degrees - 1) * _shifted(_shifted(powers))
        self_force = (lower * powers) @ own
        force = lower @ (sigma * residual) + a * self_force
        by_a, by_s = -(sigma**2) * powers / width, -(sigma**2) * lower * a[:, None] / width
        fast_by_a = powers @ by_a.T - np.diag((1.0 - powers**2) @ own)
        # The derivative of -a(1 - s^2l) in s is 2a s^l l s^(l-1): twice the self-force, once already in the force.
        top = np.concatenate([fast_by_a, powers @ by_s.T + np.diag(force + a * self_force)], axis=1) / epsilon
        front = (a * (1 - s**2))[:, None]
        bend = second_power @ (sigma * residual) + a * ((second_power * powers + lower**2) @ own)
        diagonal = a * (1 - s**2) * bend - 2 * a * s * force
        left = front * (lower @ by_a.T) + np.diag((1 - s**2) * (force + a * self_force))
        right = front * (lower @ by_s.T) + np.diag(diagonal)
        return np.concatenate([top, np.concatenate([left, right], axis=1)], axis=0)

    start = np.concatenate([second, np.zeros(width)])
    solution = solve_ivp(slope, (0.0, grid[-1]), start, "LSODA", jac=jacobian, dense_output=True, rtol=1e-7, atol=1e-10)
    dense = np.unique(np.concatenate([solution.t, np.geomspace(1e-3 * epsilon, grid[-1], 4000)]))
    fine = _residuals(solution.sol(dense), sigma, phi)
    learned = [_half_time(dense, fine[:, degree], phi[degree]) for degree in degrees]
    states = solution.sol(grid)
    residual = _residuals(states, sigma, phi)
    kernels = (1.0 - _powers(states[width:].T, sigma.size) ** 2) @ own
    excess = 0.5 * (residual**2).sum(axis=1) + 0.5 / width * (states[:width].T ** 2 * kernels).sum(axis=1)
    dataset = labelled(
        {
            "excess_risk": (("time",), excess),
            "residual": (("time", "degree"), residual),
            "learning_time": (("degree",), np.array(learned), {"undefined": "not half learnt at the last time"}),
        },
        coords={"time": grid, "degree": degrees},
    )
    spec: dict[str, Any] = {"type": "incremental_learning", "epsilon": epsilon, "width": width, "seed": seed}
    spec |= {"second_layer": second.tolist(), "self_term": self_term}
    spec |= {"activation_series": sigma.tolist(), "target_series": phi.tolist()}
    statistics = {"evaluations": float(solution.nfev)}
    status = f"{width} particles." if solution.success else f"stopped at t = {solution.t[-1]:.4g}: {solution.message}"
    return Findings(dataset, bool(solution.success), status, statistics)


def normal_quantiles(width: int) -> np.ndarray:
    """Second layer without sampling error: midpoint quantiles of N(0, 1), scaled to unit variance."""
    if width < 2:
        raise InputError(f"width must be at least 2, got {width}.")
    quantiles = ndtri((np.arange(width) + 0.5) / width)
    return quantiles / quantiles.std()


def early_first_degree(times: np.ndarray, sigma: float, phi: float, epsilon: float, variance: float) -> np.ndarray:
    r"""$F_1=\frac{\sigma_1}m\sum_ia_is_i$ before it acts back: $\sinh(2\varphi_1\sigma_1t/\sqrt\epsilon)
    \cdot\frac12\sigma_1\sqrt\epsilon\,\mathrm{Var}\,a$."""
    return 0.5 * sigma * np.sqrt(epsilon) * variance * np.sinh(2.0 * phi * sigma * times / np.sqrt(epsilon))


def _powers(s: np.ndarray, count: int) -> np.ndarray:
    r"""$s^\ell$, $\ell=0..$ `count` - 1, along a new last axis."""
    powers = np.ones((*s.shape, count))
    powers[..., 1:] = s[..., None]
    return np.multiply.accumulate(powers, axis=-1)


def _shifted(powers: np.ndarray) -> np.ndarray:
    r"""$s^{\ell-1}$ from $s^\ell$ along the last axis, 0 at $\ell=0$."""
    shifted = np.zeros_like(powers)
    shifted[..., 1:] = powers[..., :-1]
    return shifted


def _residuals(states: np.ndarray, sigma: np.ndarray, phi: np.ndarray) -> np.ndarray:
    r"""$r_\ell$ (time, degree) of states (2m, time), second layers first."""
    a, s = np.split(states, 2)
    moments, power = [], np.ones_like(s)
    for _ in sigma:
        moments.append((a * power).mean(axis=0))
        power = power * s
    return phi - sigma * np.stack(moments, axis=1)


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
