"""Runs of online SGD recorded at given times: the whole steps around every time, and the result made of the records."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from limen.problem import SpikedTensor
from limen.problem.families.effective_models import SphericalProblem
from limen.result import Findings

# Nearer than this to a whole step a time is that step: times come from divisions.
ROUNDING = 1e-6


class RecordedSteps(NamedTuple):
    r"""Where the times of a run lie among its steps.

    `exact` (time,) are $tN/\delta$, `whole` the increasing whole steps around them, at which a run is recorded. A time
    lies `part` (time,) of the way from the place `before` (time,) in `whole` to the next.
    """

    exact: np.ndarray
    whole: np.ndarray
    before: np.ndarray
    part: np.ndarray

    def at_times(self, recorded: np.ndarray, axis: int) -> np.ndarray:
        """Records at the whole steps, along `axis`, read at the times: linear between two steps.

        A mean over runs read so is off by the square of a step; the nearest step alone would be off by half of one.
        """
        near = np.take(recorded, self.before, axis=axis)
        after = np.take(recorded, np.minimum(self.before + 1, self.whole.size - 1), axis=axis)
        part = self.part.reshape([-1 if i == axis % recorded.ndim else 1 for i in range(recorded.ndim)])
        # A run that overflows after a time is finite at it.
        with np.errstate(invalid="ignore"):
            return np.where(part > 0.0, near + part * (after - near), near)


def recorded_steps(step: float, times: np.ndarray, d: int) -> RecordedSteps:
    r"""The steps of SGD with $t=\text{steps}\cdot\delta/N$ around each time."""
    exact = np.asarray(times, dtype=float) * (d / step)
    nearest = np.rint(exact)
    exact = np.where(np.abs(exact - nearest) < ROUNDING, nearest, exact)
    first = np.floor(exact).astype(np.int64)
    whole = np.unique(np.concatenate([first, np.ceil(exact).astype(np.int64)]))
    return RecordedSteps(exact, whole, np.searchsorted(whole, first), exact - first)


def recorded_runs(
    problem: SphericalProblem | SpikedTensor,
    variables: Mapping[str, np.ndarray],
    times: np.ndarray,
    steps: RecordedSteps,
    d: int,
    seeds: Sequence[int],
    status: str,
) -> Findings:
    """The findings made of `variables` (seeds, whole steps); runs that overflowed are counted in the status."""
    variables = {name: steps.at_times(values, axis=1) for name, values in variables.items()}
    dataset = xr.Dataset(
        {name: (("seed", "time"), values) for name, values in variables.items()},
        coords={"time": times, "seed": list(seeds), "step": ("time", steps.exact), "samples": ("time", steps.exact)},
        attrs={"d": d},
    )
    finite = np.all([np.isfinite(values).all(axis=1) for values in variables.values()], axis=0)
    diverged = int((~finite).sum())
    if diverged:
        status = (
            f"{diverged} of {len(seeds)} runs diverged at d = {d}, because the explicit step is unstable at small d: "
            f"take a larger d or a smaller step than {problem.step:g}."
        )
    return Findings(dataset, not diverged, status)
