"""The times at which both verbs report."""

from typing import Any

import numpy as np

from limen.problem.spec import InputError

POINTS = 101


def time_grid(times: Any, counts_steps: bool) -> np.ndarray:
    """`times` as an increasing array: a number T means 0..T, every step where time counts steps, else 101 points."""
    refusal = InputError(f"times must be a number or an increasing array, got {times!r}.")
    try:
        given = np.asarray(times)
        grid = given.astype(float)
    except (TypeError, ValueError):
        raise refusal from None
    # NumPy would read None as NaN, and False and True as 0 and 1.
    if times is None or given.dtype == bool:
        raise refusal
    if not np.isfinite(grid).all():
        raise InputError("times must be finite.")
    if grid.ndim == 0:
        if grid <= 0:
            raise InputError(f"times must be positive, got {times!r}.")
        if counts_steps and grid != np.round(grid):
            raise InputError(f"times must be a whole number of steps for this algorithm, got {times!r}.")
        grid = np.arange(float(grid) + 1.0) if counts_steps else np.linspace(0.0, float(grid), POINTS)
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    if counts_steps and (grid != np.round(grid)).any():
        raise InputError("times must be whole numbers of steps for this algorithm.")
    return grid
