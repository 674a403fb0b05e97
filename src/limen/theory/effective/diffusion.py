r"""Paths of $du=(-f+g)\,dt+\sqrt\Sigma\,dB$ from polynomials fitted to sampled drift and volatility.

Estimates are made where the paths go: a cloud around the start first, then points the fitted paths visited, until few
leave the box of the estimates. Between, Euler–Maruyama with shared steps.
"""

import math
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from limen.method import answers
from limen.problem.spec import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.effective.estimates import pooled
from limen.theory.effective.polynomial import Polynomial, fitted
from limen.theory.effective.sampling import Sampling, check_closing

CITATIONS = ("benarous2022",)
MOST_STATISTICS = 4
DEGREE = {1: 5, 2: 3, 3: 3, 4: 2}
ROUNDS = 6
STEPS = 400
# Part of all positions that may lie outside the estimates.
MOST_OUTSIDE = 0.01


@answers("theory", CITATIONS, "effective_diffusion")
def integrate_diffusion(sampling: Sampling, u0: NDArray[np.float64], times: Any, paths: int) -> Findings:
    """Paths from `u0` as a Result; refuses statistics that do not close there."""
    grid = time_grid(times, counts_steps=False)
    size = u0.size
    if size > MOST_STATISTICS:
        raise InputError(f"diffusion takes at most {MOST_STATISTICS} statistics, got {size}.")
    if isinstance(paths, bool) or not isinstance(paths, int) or paths < 1:
        raise InputError(f"paths must be a whole number of at least 1, got {paths!r}.")
    spread = check_closing(sampling, u0)
    random = np.random.default_rng([sampling.seed, sampling.model.dimension])
    design = _Design(sampling)
    first = design.estimate(u0[None])
    reach = np.sqrt(np.diag(first[1]).clip(0.0) * grid[-1]) + np.abs(first[0]) * min(grid[-1], 0.1)
    design.add(u0 + np.maximum(reach, 1e-3) * random.uniform(-1.0, 1.0, (_wanted(size), size)))
    rounds = 0
    while True:
        drift, volatility = design.surrogates()
        found, visited = _paths(drift, volatility, u0, grid, paths, random)
        outside = float(drift.outside(visited).mean())
        rounds += 1
        if outside <= MOST_OUTSIDE or rounds == ROUNDS:
            break
        design.add(_spread_out(visited, design.points, _wanted(size) // 2, random))
    ok = outside <= MOST_OUTSIDE and drift.misfit < 3.0 and bool(np.isfinite(found).all())
    status = (
        f"drift and volatility from {len(design.points)} estimates, chi squared per degree of freedom "
        f"{drift.misfit:.2g}, {outside:.1%} of positions outside them"
    )
    status += "." if ok else ": take shorter times, or trust the flow only."
    dataset = xr.Dataset(
        {"statistics": (("path", "time", "statistic"), found)},
        coords={"time": grid},
        attrs={"d": sampling.model.dimension},
    )
    statistics = {"estimates": float(len(design.points)), "spread": spread}
    return Findings(dataset, ok, status, statistics)


class _Design:
    """Values at which drift and volatility have been estimated."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.points = np.empty((0, 0))
        self.drifts: list[tuple[np.ndarray, np.ndarray]] = []
        self.volatilities: list[tuple[np.ndarray, np.ndarray]] = []

    def estimate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Adds points and gives drift and volatility at the last; values that cannot be lifted are left out."""
        reached = []
        for point in points:
            try:
                found = self.sampling.moments(point)
            except InputError:
                continue
            reached.append(point)
            self.drifts.append(pooled(found.corrector - found.population_drift))
            self.volatilities.append(pooled(found.volatility))
        if reached:
            self.points = np.vstack([self.points, *reached]) if self.points.size else np.stack(reached)
        if not self.drifts:
            raise InputError(f"u0 = {points[0].tolist()} was not reached by any lift.")
        return self.drifts[-1][0], self.volatilities[-1][0]

    def add(self, points: np.ndarray) -> None:
        """Adds points."""
        self.estimate(points)

    def surrogates(self) -> tuple[Polynomial, Polynomial]:
        """Polynomials of drift (k) and volatility (k * k)."""
        count, size = self.points.shape
        degree = DEGREE[size]
        drifts, errors = (np.stack([one[i] for one in self.drifts]) for i in (0, 1))
        noises, noise_errors = (np.stack([one[i] for one in self.volatilities]).reshape(count, -1) for i in (0, 1))
        return fitted(self.points, drifts, errors, degree), fitted(self.points, noises, noise_errors, min(degree, 2))


def _wanted(size: int) -> int:
    """Three points for each coefficient."""
    terms = 1
    for i in range(size):
        terms = terms * (DEGREE[size] + i + 1) // (i + 1)
    return 3 * terms


def _paths(
    drift: Polynomial, volatility: Polynomial, u0: np.ndarray, grid: np.ndarray, paths: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (path, time, statistic) at the times asked for, and all positions visited (position, statistic)."""
    value = np.tile(u0, (paths, 1))
    saved, visited, now = [], [value], 0.0
    longest = grid[-1] / STEPS
    for until in grid:
        count = int(np.ceil((until - now) / max(longest, 1e-300) - 1e-9))
        for _ in range(count):
            step = (until - now) / count
            value = value + step * drift(value) + np.sqrt(step) * _noise(volatility(value), random)
            visited.append(value)
        now = float(until)
        saved.append(value)
    return np.stack(saved, axis=1), np.concatenate(visited[:: max(1, len(visited) // 50)])


def _noise(volatility: np.ndarray, random: np.random.Generator) -> np.ndarray:
    size = math.isqrt(volatility.shape[-1])
    values, vectors = np.linalg.eigh(volatility.reshape(-1, size, size))
    kicks = np.sqrt(values.clip(0.0)) * random.standard_normal(values.shape)
    return np.einsum("pij,pj->pi", vectors, kicks)


def _spread_out(visited: np.ndarray, known: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Visited points far from the known ones and from each other, one after another."""
    finite = visited[np.isfinite(visited).all(axis=1)]
    candidates = random.permutation(finite)[:2000]
    scale = candidates.std(axis=0) + 1e-12
    nearest = np.min(np.linalg.norm((candidates[:, None] - known[None]) / scale, axis=-1), axis=1)
    chosen = []
    for _ in range(count):
        best = int(nearest.argmax())
        chosen.append(candidates[best])
        nearest = np.minimum(nearest, np.linalg.norm((candidates - candidates[best]) / scale, axis=-1))
    return np.stack(chosen)
