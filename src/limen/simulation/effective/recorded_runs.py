"""Runs of online SGD recorded at given times: the whole steps of every time, and the result made of the records."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from limen.problem import SpikedTensor
from limen.problem.families.effective_models import SphericalProblem
from limen.result import Findings


def steps_of(step: float, times: np.ndarray, d: int) -> np.ndarray:
    """Whole steps of SGD up to each time."""
    return np.rint(np.asarray(times) * (d / step)).astype(np.int64)


def recorded_runs(
    problem: SphericalProblem | SpikedTensor,
    variables: Mapping[str, np.ndarray],
    times: np.ndarray,
    steps: np.ndarray,
    d: int,
    seeds: Sequence[int],
    status: str,
) -> Findings:
    """The findings made of `variables` (seeds, times); runs that overflowed are counted in the status."""
    dataset = xr.Dataset(
        {name: (("seed", "time"), values) for name, values in variables.items()},
        coords={"time": times, "seed": list(seeds), "step": ("time", steps), "samples": ("time", steps)},
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
