r"""The limiting ODE $\dot u=-f+g$ integrated while its right side is being sampled.

Heun's method with adaptive steps; every step lifts afresh and draws fresh samples, the same for both of its stages, so
that errors of sampling average out along the path instead of adding up and do not disturb the control of the step.
Independent integrations give the standard error; as many more receive the kicks $\sqrt{\Sigma\,dt}\,\xi$ of the
volatility and show how far single runs stray.
"""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from limen.method import answers
from limen.precision import in_double
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.effective.lifting import lifted
from limen.theory.effective.sampling import Sampling, check_closing

CITATIONS = ("benarous2022",)
REPLICAS = 8
# Half the difference of the two stages, relative to 1 + |u|; the error of a step is of one order higher.
TOLERANCE = 5e-3
MOST_STEPS = 2000
# Statistics this many times larger than at the start are taken as divergence.
LARGEST_GROWTH = 1e3
SMALLEST_STEP = 1e-9
REACHED = 1e-6
# Noise above this part of a statistic's range is mentioned.
MENTIONED = 0.1


@answers("theory", CITATIONS, "effective_flow")
@in_double
def integrate_flow(sampling: Sampling, u0: NDArray[np.float64], times: Any) -> Findings:
    """The path from `u0` as a Result; refuses statistics that do not close at its ends."""
    grid = time_grid(times, counts_steps=False)
    model = sampling.model
    spread = check_closing(sampling, u0)
    ensemble = _Ensemble(sampling, u0, float(grid[-1]))
    rows = []
    for until in grid:
        ensemble.advance(float(until))
        rows.append(ensemble.values)
    path = np.stack(rows, axis=1)
    quiet, noisy = path[: ensemble.quiet], path[ensemble.quiet :]
    mean, error = quiet.mean(axis=0), quiet.std(axis=0, ddof=1) / np.sqrt(ensemble.quiet)
    # Measured from the quiet path: about an unstable point noise moves the mean too.
    noise = np.sqrt(((noisy - mean) ** 2).mean(axis=0))
    finished = not ensemble.stopped
    if finished:
        spread = max(spread, check_closing(sampling, mean[-1]))
    dataset = xr.Dataset(
        {
            "statistics": (("time", "statistic"), mean),
            "error": (("time", "statistic"), error),
            "fluctuation": (("time", "statistic"), noise),
        },
        coords={"time": grid},
        attrs={"d": model.dimension},
    )
    status = _status(finished, ensemble.time, mean, noise, spread)
    statistics = {"steps": float(ensemble.taken), "spread": spread}
    return Findings(dataset, finished, status, statistics)


def _status(finished: bool, reached: float, mean: np.ndarray, noise: np.ndarray, spread: float) -> str:
    if not finished:
        return f"the path stopped at t = {reached:.4g}: it diverges, or leaves the values the statistics can take."
    part = (noise / np.maximum(np.ptp(mean, axis=0), 1e-12)).max(axis=0)
    worst = int(np.argmax(part))
    status = f"drift differs by {spread:.1%} between lifts"
    if not part[worst] <= MENTIONED:
        status += (
            f"; volatility matters at this dimension: single runs stray from this path by up to "
            f"{noise.max(axis=0)[worst]:.2g} in statistic {worst}, {part[worst]:.0%} of its range (see diffusion)"
        )
    return f"{status}."


class _Ensemble:
    """Integrations side by side with common steps, in batches of as many as there are lifts; the last are noisy."""

    def __init__(self, sampling: Sampling, u0: NDArray[np.float64], span: float) -> None:
        self.sampling = sampling
        batches = -(-REPLICAS // sampling.lifts)
        self.quiet = batches * sampling.lifts
        self.batches = 2 * batches
        self.values = np.tile(u0, (2 * self.quiet, 1))
        self.time, self.step, self.span = 0.0, 1e-3 * span, span
        self.bound = LARGEST_GROWTH * (1.0 + np.abs(u0).max())
        self.taken = 0
        self.stopped = False
        self.random = np.random.default_rng([sampling.seed, sampling.model.dimension])

    def advance(self, until: float) -> None:
        """Integrates up to a time, or stops where the step would have to vanish."""
        while self.time < until * (1.0 - 1e-12) and not self.stopped:
            self._attempt(until)

    def _attempt(self, until: float) -> None:
        step = min(self.step, until - self.time)
        first = self._rates(self.values)
        ahead = None if first is None else self.values + step * first[0]
        second = None if ahead is None else self._rates(ahead)
        if first is None or ahead is None or second is None:
            self.stopped = self.step <= SMALLEST_STEP * self.span
            self.step = 0.3 * step
            # A noisy integration pushed out of the possible values would hold up all: it goes back to a quiet one.
            self._retire()
            return
        change = 0.5 * step * (second[0] - first[0])[: self.quiet].mean(axis=0)
        largest = np.maximum(np.abs(self.values), np.abs(ahead))[: self.quiet].max(axis=0)
        ratio = float(np.max(np.abs(change) / (TOLERANCE * (1.0 + largest))))
        following = step * float(np.clip(0.9 / np.sqrt(ratio + 1e-12), 0.3, 3.0))
        if ratio > 1.0:
            self.step = following
        else:
            # A step cut short by an output time says nothing about the next one.
            self.step = min(self.span, max(following, self.step) if step < self.step else following)
            self.values = self.values + 0.5 * step * (first[0] + second[0])
            self.values[self.quiet :] += self._kicks(first[1][self.quiet :], step)
            self.time += step
            self.taken += 1
        diverged = not np.abs(self.values[: self.quiet]).max() <= self.bound
        self.stopped = diverged or self.taken > MOST_STEPS or self.step < SMALLEST_STEP * self.span

    def _rates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Drift and volatility at every value, or nothing where one cannot be lifted; the same samples in a step."""
        model, lifts = self.sampling.model, self.sampling.lifts
        drifts, volatilities = [], []
        for i in range(self.batches):
            own = slice(i * lifts, (i + 1) * lifts)
            stream = f"flow {self.taken} {i}"
            points, residuals = lifted(model, values[own], model.random_points(self.sampling.seed, stream, lifts))
            if not np.asarray(residuals).max() <= REACHED:
                return None
            found = self.sampling.brief_moments_at(points, stream)
            drifts.append(found.corrector - found.population_drift)
            volatilities.append(found.volatility)
        return np.concatenate(drifts), np.concatenate(volatilities)

    def _kicks(self, volatility: np.ndarray, step: float) -> np.ndarray:
        # The sampled drift brings a part of the noise already, that of the steps of SGD it stands for.
        part = max(0.0, 1.0 - step / (self.sampling.model.delta * self.sampling.brief_samples))
        values, vectors = np.linalg.eigh(volatility)
        kicks = np.sqrt(np.maximum(values, 0.0)) * self.random.standard_normal(values.shape)
        return np.sqrt(step * part) * np.einsum("pij,pj->pi", vectors, kicks)

    def _retire(self) -> None:
        if self.step < 1e-5 * self.span:
            self.values[self.quiet :] = self.values[: self.quiet]
