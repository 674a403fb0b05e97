r"""Incremental learning at finite width: the overlap equations of a two-timescale network, $d\to\infty$.

As the particles of `incremental_learning`, but with the Gram matrix $Q$ of the neurons as part of the state, so that
the width $m$ is exact. On the sphere, with $\nu_\ell=\ell\sigma_\ell$,
$$\epsilon\dot a_i=\sum_\ell\sigma_\ell\Big(\varphi_\ell s_i^\ell-\frac{\sigma_\ell}m\sum_ja_jQ_{ij}^\ell\Big),$$
$$\dot u_i=a_i\sum_\ell\nu_\ell\Big(\varphi_\ell s_i^{\ell-1}u_*
-\frac{\sigma_\ell}m\sum_ja_jQ_{ij}^{\ell-1}u_j\Big)_{\perp u_i},$$
and $s_i=\langle u_i,u_*\rangle$, $Q_{ij}=\langle u_i,u_j\rangle$ follow by the product rule.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from limen.labelled import labelled
from limen.method import answers
from limen.problem.spec import InputError
from limen.result import Findings

CITATIONS = ("berthier2023", "arnaboldi2023high")


@answers("theory", CITATIONS)
def incremental_network(
    activation_series: Sequence[float],
    target_series: Sequence[float],
    epsilon: float,
    times: Sequence[float] | np.ndarray,
    second_layer: Sequence[float] | np.ndarray,
) -> Findings:
    r"""A network of the width of `second_layer`, from orthonormal neurons orthogonal to the target, $d=\infty$.

    Args:
        activation_series, target_series: orthonormal Hermite coefficients $\sigma_\ell$, $\varphi_\ell$, equally many.
        epsilon: time scale of the second layer against the first; small rates, no noise of SGD.
        times: increasing; the first layer's time.
        second_layer: $a_i(0)$, (m,).

    Returns `excess_risk` (time) and `residual` $\varphi_\ell-\frac{\sigma_\ell}m\sum_ia_is_i^\ell$ (time, degree).
    Explicit Runge–Kutta 5(4): $O(m^3)$ an evaluation, a number of them that grows like $1/\epsilon$.
    """
    sigma, phi, start, grid = (
        np.asarray(part, dtype=float) for part in (activation_series, target_series, second_layer, times)
    )
    if sigma.shape != phi.shape or sigma.ndim != 1 or sigma.size < 2:
        raise InputError("activation_series and target_series must be lists of equal length, degree 1 included.")
    if not epsilon > 0.0:
        raise InputError(f"epsilon must be positive, got {epsilon}.")
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 0.0 or (np.diff(grid) <= 0.0).any() or not grid[-1] > 0.0:
        raise InputError("times must be an increasing list of non-negative numbers.")
    if start.ndim != 1 or start.size < 1 or not np.isfinite(start).all():
        raise InputError(f"second_layer must be a list of numbers, got shape {start.shape}.")
    m, degrees = start.size, range(sigma.size)

    def split(state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return state[:m], state[m : 2 * m], state[2 * m :].reshape(m, m)

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        a, s, gram = split(state)
        fast = np.full(m, sigma[0] * (phi[0] - sigma[0] / m * a.sum()))
        fast += sigma[1] * (phi[1] * s - sigma[1] / m * (gram @ a))
        pull, mix = np.full(m, sigma[1] * phi[1]), np.full((m, m), sigma[1] ** 2 / m)
        power, pairs = s, gram
        for n in degrees[2:]:
            pull += n * sigma[n] * phi[n] * power
            mix += n * sigma[n] ** 2 / m * pairs
            power, pairs = power * s, pairs * gram
            fast += sigma[n] * (phi[n] * power - sigma[n] / m * (pairs @ a))
        mix *= a
        along = pull * s - np.einsum("ij,ij->i", mix, gram)
        # The velocity's products with the target and with the other neurons, its part along the neuron removed.
        turned = a * (pull - mix @ s - along * s)
        moved = a[:, None] * (pull[:, None] * s - mix @ gram - along[:, None] * gram)
        return np.concatenate([fast / epsilon, turned, (moved + moved.T).ravel()])

    first = np.concatenate([start, np.zeros(m), np.eye(m).ravel()])
    solution = solve_ivp(slope, (0.0, grid[-1]), first, "RK45", t_eval=grid, rtol=1e-6, atol=1e-9)
    risk, residual = [], []
    for state in solution.y.T:
        a, s, gram = split(state)
        learned = np.array([(a * s**n).mean() for n in degrees])
        pairs = np.array([a @ gram**n @ a for n in degrees]) / m**2
        residual.append(phi - sigma * learned)
        risk.append(0.5 * (phi**2 - 2.0 * phi * sigma * learned + sigma**2 * pairs).sum())
    dataset = labelled(
        {"excess_risk": (("time",), np.array(risk)), "residual": (("time", "degree"), np.array(residual))},
        coords={"time": grid[: len(risk)], "degree": list(degrees)},
    )
    spec: dict[str, Any] = {"type": "incremental_network", "epsilon": epsilon, "second_layer": start.tolist()}
    spec |= {"activation_series": sigma.tolist(), "target_series": phi.tolist()}
    statistics = {"evaluations": float(solution.nfev)}
    status = f"{m} neurons." if solution.success else f"stopped at t = {solution.t[-1]:.4g}: {solution.message}"
    return Findings(dataset, bool(solution.success), status, statistics)
