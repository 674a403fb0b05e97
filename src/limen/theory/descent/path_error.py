"""How far sets of paths differ, and from which step on their median is not to be trusted."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import stdtrit

WATCHED = ("train_loss", "test_loss", "overlap", "gram", "second_layer")
# A median of n normal values varies by this much more than their mean.
OF_A_MEDIAN = 1.2533
# 99% of a normal law lie within so many deviations.
NORMAL_99 = 2.5758


class PathError(NamedTuple):
    """The largest error of a watched variable, in parts of its largest size so far, and the first step at which one is
    beyond the tolerance (None where none is)."""

    largest: float
    first: float | None


def stated_part(sets: int) -> float:
    r"""What part of the standard deviation between few sets is stated as the standard error of their median,
    $\frac{1.2533}{\sqrt n}\frac{t_{n-1,0.995}}{2.5758}$: 99% lie within as many errors as of a normal law. Five sets
    are now and then alike by chance."""
    if sets < 2:
        return OF_A_MEDIAN
    return OF_A_MEDIAN / sets**0.5 * float(stdtrit(sets - 1, 0.995)) / NORMAL_99


def path_error(dataset: xr.Dataset, sets: int, tolerance: float) -> PathError:
    """The error of the medians in `dataset`, from the spread between `sets` sets; steps that diverged are left out."""
    worst = np.zeros(dataset.sizes["time"])
    for name in WATCHED:
        values = np.abs(dataset[name].values.reshape(len(worst), -1))
        error = dataset[f"{name}_spread"].values.reshape(len(worst), -1) * OF_A_MEDIAN / sets**0.5
        size = np.maximum.accumulate(values.max(axis=1))
        if name == "overlap":
            # An overlap near zero is measured by the neurons' length.
            size = np.maximum(size, np.sqrt(np.einsum("tjj->tj", dataset["gram"].values).max(axis=1)))
        with np.errstate(invalid="ignore", divide="ignore"):
            worst = np.fmax(worst, error.max(axis=1) / np.where(size > 0.0, size, 1.0))
    beyond = np.flatnonzero(worst > tolerance)
    first = float(dataset["time"].values[beyond[0]]) if beyond.size else None
    return PathError(float(np.nanmax(worst)), first)
