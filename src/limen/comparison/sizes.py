"""Several sizes: what of a deviation falls as the size grows, as far as the data show it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limen.comparison.measure import FEWEST_SEEDS, Measured
from limen.problem.spec import InputError

# A slope of fewer standard errors than this is not shown.
SHOWN = 2.0


def over_sizes(measured: Sequence[Measured], sizes: Sequence[int]) -> Measured:
    """One variable at several increasing sizes: the largest, with the allowance that all of them show."""
    last = measured[-1]
    if len(measured) == 1 or any(one.broken or one.seeds < FEWEST_SEEDS for one in measured):
        return next((one for one in reversed(measured) if one.broken or one.seeds < FEWEST_SEEDS), last)
    for one, size in zip(measured, sizes, strict=True):
        if not _same_points(one, last):
            raise InputError(
                f"{last.name} has other points at size {size} than at size {sizes[-1]}: compare the sizes one by one."
            )
        if (one.diverged != last.diverged).any():
            raise InputError(f"{last.name} diverges at other points at size {size} than at size {sizes[-1]}.")
    scales = np.array([[one.scale / last.scale] for one in measured])
    means, errors, bands = (
        scales * np.array([getattr(one, name) for one in measured]) for name in ("deviation", "error", "band")
    )
    bands -= scales * np.array([one.own for one in measured])
    allowance, weights = finite_size_part(np.asarray(sizes, dtype=float), means, errors, last.order)
    band = np.sqrt(((weights * bands) ** 2).sum(axis=0)) + last.own
    return replace(last, band=band, allowance=allowance, seeds=min(one.seeds for one in measured))


def finite_size_part(
    sizes: np.ndarray, means: np.ndarray, errors: np.ndarray, order: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""The part of the largest size's mean deviation that falls as $d^{-q}$, and the weights of the estimate left.

    `means`, `errors` (size, point): mean deviations and their standard errors, sizes increasing. The fit $b+Ad^{-q}$
    by least squares gives $A$; of it the part $w=(1-(2\,\mathrm{se}_A/A)^2)_+$ is allowed: nothing below two standard
    errors, nearly all of a clear slope. Allowed is $w|A|d^{-q}$ where it has the sign of the deviation. The second
    value are weights (size, point) that give the deviation less the allowed part, whose band is theirs.
    """
    weights = np.zeros_like(means)
    weights[-1] = 1.0
    if np.unique(sizes).size < 2 or sizes.min() <= 0:
        return np.zeros(means.shape[1]), weights
    small = sizes**-order
    design = np.stack([np.ones_like(small), small], axis=1)
    slope_weights = np.linalg.pinv(design)[1][:, None]
    slope = (slope_weights * means).sum(axis=0)
    error = np.sqrt(((slope_weights * errors) ** 2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.where(slope != 0.0, 1.0 - (SHOWN * error / slope) ** 2, 0.0)
    part = np.maximum(shown, 0.0) * (np.sign(slope) == np.sign(means[-1])) * small[-1]
    return part * np.abs(slope), weights - part * slope_weights


def _same_points(one: Measured, other: Measured) -> bool:
    ours, theirs = (measured.variable.isel(seed=0) for measured in (one, other))
    if ours.dims != theirs.dims or ours.shape != theirs.shape:
        return False
    return all(np.array_equal(ours[dim].values, theirs[dim].values) for dim in ours.dims if dim in ours.coords)
