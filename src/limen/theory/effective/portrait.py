"""The effective drift of two statistics on a grid."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from limen.method import answers
from limen.problem.spec import InputError
from limen.result import Findings

CITATIONS = ("benarous2022",)


@answers("theory", CITATIONS)
def portrait(dynamics: Any, first: ArrayLike, second: ArrayLike) -> Findings:
    """Drift (first, second, statistic) with its error, and the volatility (first, second, statistic, statistic2)."""
    axes = [np.atleast_1d(np.asarray(grid, dtype=float)) for grid in (first, second)]
    if any(axis.ndim != 1 or not np.isfinite(axis).all() for axis in axes):
        raise InputError("first and second must be lists of finite numbers.")
    shape = (axes[0].size, axes[1].size)
    drift, error = np.full((*shape, 2), np.nan), np.full((*shape, 2), np.nan)
    volatility = np.full((*shape, 2, 2), np.nan)
    for i, one in enumerate(axes[0]):
        for j, other in enumerate(axes[1]):
            try:
                drift[i, j], error[i, j] = dynamics.effective_drift([one, other])
            except InputError:
                # No point has these statistics: a hole of the portrait, counted in the status.
                continue
            volatility[i, j] = dynamics.volatility([one, other]).value
    dataset = xr.Dataset(
        {
            "drift": (("first", "second", "statistic"), drift),
            "error": (("first", "second", "statistic"), error),
            "volatility": (("first", "second", "statistic", "statistic2"), volatility),
        },
        coords={"first": axes[0], "second": axes[1]},
    )
    missing = int(np.isnan(drift[..., 0]).sum())
    status = f"{drift[..., 0].size - missing} values" + (f", {missing} impossible ones." if missing else ".")
    return Findings(dataset, missing < drift[..., 0].size, status)
