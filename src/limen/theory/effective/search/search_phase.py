r"""The search phase: the overlap while it is of order $N^{-1/2}$, a diffusion of $z=\sqrt Nm$.

$$dz=\big(\alpha z^{k-1}-\kappa z\big)dt+\sqrt D\,dB,\qquad z_0\sim N(0,1).$$
Losses on the sphere with information exponent $k\ge2$: $\alpha=a_kN^{-(k-2)/2}$, $\kappa=\frac\delta2\sigma^2(0)$,
$D=\delta v^2(0)$. With $\delta=cN^{-(k-2)/2}$ and the time $s=tN^{-(k-2)/2}$ the law does not depend on $N$, so that
the search takes $\frac{N^{k-1}}c$ times a random number of samples for $k\ge3$.
Spiked tensors: $\alpha=2k\lambda N^{-(k-2)/2}$, $\kappa=2kr^{k-1}$, $D=4kc\,r^{k-1}$ with $\dot r=-4kr^{k-1}(r-c)$,
$r(0)=1$: matrices ($k=2$) above and below the transition of Baik, Ben Arous & Péché, and tensors whose signal grows as
$\lambda=\Lambda N^{(k-2)/2}$ (Ben Arous, Gheissari & Jagannath 2022).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from limen.method import answers
from limen.problem import InputError, SpikedTensor
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.effective.search.search_law import SearchRates
from limen.theory.effective.sphere.sphere_drift import SphereDrift
from limen.theory.effective.sphere.sphere_population import checked_sphere
from limen.theory.effective.tensor_flow import square_at_rest

CITATIONS = ("benarous2021", "benarous2022")
FINEST = 0.02
MOST_STEPS = 2_000_000


def search_rates(problem: Any, N: float) -> tuple[int, Callable[[float], SearchRates]]:
    """The exponent, and the rates of the diffusion as functions of the time."""
    if isinstance(problem, SpikedTensor):
        k, c = problem.order, problem.step
        push, square = 2.0 * k * problem.signal * N ** (-(k - 2) / 2.0), square_at_rest(c, k, 1.0)

        def at(t: float) -> SearchRates:
            speed = float(square(t)) ** (k - 1)
            return SearchRates(push, 2.0 * k * speed, 4.0 * k * c * speed)

        return k, at
    drift = SphereDrift(checked_sphere(problem, "the search phase (or a SpikedTensor)"))
    k = drift.exponent
    if k == 1:
        raise InputError("the information exponent must be at least 2 for a search phase, and is 1.")
    rates = SearchRates(drift.leading * N ** (-(k - 2) / 2.0), drift.restoring, drift.volatility)
    return k, lambda t: rates


@answers("theory", CITATIONS)
def search_diffusion(problem: Any, N: int, times: Any, paths: int = 256, seed: int = 0) -> Findings:
    r"""Sampled paths of $z=\sqrt Nm$ in the search phase (module docstring); inf from where a path has blown up.

    Strang splitting: the drift $\dot z=\alpha z^{k-1}-\kappa z$, a Bernoulli equation, is solved exactly between two
    halves of the noise. Matrices and exponent 2 are Ornstein–Uhlenbeck processes, exact in law when rates are constant.
    Valid while $|m|\ll1$, that is $|z|\ll\sqrt N$. Steps of at most $0.02$ over the fastest rate.

    Args:
        problem: a loss on the sphere with exponent at least 2, or a `SpikedTensor`.
        N: the dimension.
        times: increasing, or a number T for 0..T.
        paths: how many.
        seed: of the noise and the starts.

    Returns:
        `rescaled_overlap(path, time)`; for tensors also `orthogonal_square(time)`.
    """
    grid = time_grid(times, False)
    if not (isinstance(N, (int, np.integer)) and N >= 3):
        raise InputError(f"N must be a whole number of at least 3, got {N!r}.")
    if not (isinstance(paths, (int, np.integer)) and paths >= 1):
        raise InputError(f"paths must be a positive whole number, got {paths!r}.")
    order, rates = search_rates(problem, N)
    generator = np.random.default_rng(seed)
    z = generator.standard_normal(paths)
    now, rows = 0.0, []
    for end in grid:
        fastest = _fastest(rates(now)) if end > now else 1.0
        count = int(np.ceil((end - now) * fastest / FINEST))
        if count > MOST_STEPS:
            raise InputError(f"times must be shorter: {count:.3g} steps of the diffusion are too many.")
        for i in range(count):
            dt = (end - now) / count
            z = _strang(z, rates(now + (i + 0.5) * dt), order, dt, generator)
        now = float(end)
        rows.append(z)
    variables: dict[str, Any] = {"rescaled_overlap": (("path", "time"), np.stack(rows, axis=1))}
    if isinstance(problem, SpikedTensor):
        variables["orthogonal_square"] = (("time",), square_at_rest(problem.step, order, 1.0)(grid))
    dataset = xr.Dataset(variables, coords={"time": grid, "path": np.arange(paths)}, attrs={"d": int(N)})
    escaped = int(np.isinf(z).sum())
    status = f"search phase: {escaped} of {paths} paths have blown up by t = {grid[-1]:g}."
    return Findings(dataset, True, status)


def _fastest(rates: SearchRates) -> float:
    return rates.restoring + rates.push + rates.volatility


def _strang(z: np.ndarray, rates: SearchRates, order: int, dt: float, generator: np.random.Generator) -> np.ndarray:
    if order == 2:
        growth = rates.push - rates.restoring
        spread = np.expm1(2.0 * growth * dt) / (2.0 * growth) if growth != 0.0 else dt
        return np.exp(growth * dt) * z + np.sqrt(rates.volatility * spread) * generator.standard_normal(z.shape)
    kick = np.sqrt(0.5 * rates.volatility * dt)
    z = z + kick * generator.standard_normal(z.shape)
    z = _bernoulli(z, rates, order, dt)
    return z + kick * generator.standard_normal(z.shape)


def _bernoulli(z: np.ndarray, rates: SearchRates, order: int, dt: float) -> np.ndarray:
    r"""$\dot z=\alpha z^{k-1}-\kappa z$ after `dt`, from $\frac d{dt}z^{-(k-2)}=(k-2)(\kappa z^{-(k-2)}-\alpha)$."""
    power = order - 2
    alive = np.isfinite(z)
    start = np.where(alive, z, 0.0)
    loss = -np.expm1(-power * rates.restoring * dt) / rates.restoring
    left = 1.0 - rates.push * start**power * loss
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = start * np.exp(-rates.restoring * dt) / np.where(left > 0.0, left, 1.0) ** (1.0 / power)
    moved = np.where(left > 0.0, moved, np.copysign(np.inf, start))
    return np.where(alive, moved, z)


def stationary_variance(problem: Any) -> float:
    r"""Variance of $\sqrt Nm$ around zero overlap, as $N\to\infty$, where zero attracts.

    `SpikedTensor`: $c^2/(c-\lambda)$ for matrices with $\lambda<c$ (an Ornstein–Uhlenbeck process on $r=c$), $c$ for
    $k\ge3$ with a signal of order one. Losses on the sphere: $\delta v^2(0)/(2|A|)$ with $A=b'(0)<0$, e.g.
    $\delta(1+\lambda)/(\delta-\lambda)$ for `OnlinePCA`. Refused where zero repels.
    """
    if isinstance(problem, SpikedTensor):
        c = problem.step
        if problem.order > 2:
            return c
        if problem.signal >= c:
            raise InputError(
                f"signal must be less than step = {c:g} for zero overlap to attract, got {problem.signal:g}."
            )
        return c**2 / (c - problem.signal)
    drift = SphereDrift(checked_sphere(problem, "stationary_variance (or a SpikedTensor)"))
    if drift.exponent == 1:
        raise InputError("the information exponent must be at least 2 for zero overlap to attract, and is 1.")
    if drift.growth >= 0.0:
        raise InputError(f"step must be larger for zero overlap to attract, got {problem.step:g}.")
    return drift.volatility / (-2.0 * drift.growth)
