"""Several sizes: what of a deviation falls as the size grows, as far as the data show it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from limen.comparison.measure import FEWEST_SEEDS, Measured
from limen.problem.spec import InputError

# A slope of fewer standard errors than this is not shown.
SHOWN = 2.0
# Nor is a limit within so many of nothing shown to be wrong: 99% of a normal law.
LIMIT_SHOWN = 2.576
# The slowest fall that next orders may make of a power of the size.
SLOWEST, POWERS = 0.5, 11
ROUNDING = 1e-12


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
    means, errors = (scales * np.array([getattr(one, name) for one in measured]) for name in ("deviation", "error"))
    allowance, weights = finite_size_part(np.asarray(sizes, dtype=float), means, errors, last.order)
    band, conditional = (
        np.sqrt(((weights * scales * np.array([getattr(one, name) - one.own for one in measured])) ** 2).sum(axis=0))
        + last.own
        for name in ("band", "conditional")
    )
    seeds, falling = min(one.seeds for one in measured), may_vanish(np.asarray(sizes, float), means, errors, last.order)
    found = replace(last, band=band, conditional=conditional, allowance=allowance, may_vanish=falling, seeds=seeds)
    return replace(found, loss_may_vanish=loss_may_vanish(measured, np.asarray(sizes, float)))


def loss_may_vanish(measured: Sequence[Measured], sizes: np.ndarray) -> bool:
    """Whether the part of runs that leave the finite numbers falls with size so that none may be left, by the rule of
    `may_vanish`. Rare divergence falls faster than any power in the end, but slowly where it is not rare yet."""
    lost = np.array([[one.lost] for one in measured], dtype=float)
    runs = lost + np.array([[one.seeds] for one in measured])
    # With one run more on both sides: where none was lost there is still doubt.
    even = (lost + 1.0) / (runs + 2.0)
    return bool(may_vanish(sizes, lost / runs, np.sqrt(even * (1.0 - even) / runs), measured[-1].order)[0])


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
    if not _tell_apart(sizes):
        return np.zeros(means.shape[1]), weights
    small, slope_weights = sizes**-order, _fit(sizes, order)[1]
    slope, error = _estimate(slope_weights, means, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.where(slope != 0.0, 1.0 - (SHOWN * error / slope) ** 2, 0.0)
    part = np.maximum(shown, 0.0) * (np.sign(slope) == np.sign(means[-1])) * small[-1]
    return part * np.abs(slope), weights - part * slope_weights


def may_vanish(sizes: np.ndarray, means: np.ndarray, errors: np.ndarray, order: float) -> np.ndarray:
    r"""Points (point,) whose deviation is no evidence against a limit: $b$ of the fit $b+Ad^{-q}$ may be nothing
    (99%), though the slope itself may be too uncertain to be allowed.

    Where the data show that a deviation falls ($A$ of its sign, 99%), next orders in $1/d$ may make the fall slower
    than $d^{-q}$: it is no evidence then if $Ad^{-p}$ alone, with a power $\tfrac12\le p\le q$, goes through the
    deviations of all sizes ($\chi^2$, 99%).
    """
    if not _tell_apart(sizes):
        return np.zeros(means.shape[1], dtype=bool)
    (limit, error), (slope, slope_error) = (_estimate(part, means, errors) for part in _fit(sizes, order))
    falls = slope * np.sign(means[-1]) > LIMIT_SHOWN * slope_error
    misfit = np.min([_misfit(sizes**-power, means, errors) for power in np.linspace(SLOWEST, order, POWERS)], axis=0)
    return (np.abs(limit) <= LIMIT_SHOWN * error) | (falls & (misfit <= scipy.special.chdtri(sizes.size - 1, 0.01)))


def _misfit(shape: np.ndarray, means: np.ndarray, errors: np.ndarray) -> np.ndarray:
    r"""$\chi^2$ (point,) of mean deviations (size, point) about the best multiple of a shape (size,)."""
    # A point that is the same in all runs has no error.
    weights = np.maximum(errors, ROUNDING) ** -2.0
    best = (weights * shape[:, None] * means).sum(axis=0) / (weights * shape[:, None] ** 2).sum(axis=0)
    return (weights * (means - best * shape[:, None]) ** 2).sum(axis=0)


def _estimate(weights: np.ndarray, means: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A combination of mean deviations (size, point) and its standard error."""
    return (weights * means).sum(axis=0), np.sqrt(((weights * errors) ** 2).sum(axis=0))


def _tell_apart(sizes: np.ndarray) -> bool:
    return np.unique(sizes).size > 1 and sizes.min() > 0


def _fit(sizes: np.ndarray, order: float) -> np.ndarray:
    r"""Weights (2, size, 1) with which mean deviations give $b$ and $A$ of $b+Ad^{-q}$, by least squares."""
    small = sizes**-order
    return np.linalg.pinv(np.stack([np.ones_like(small), small], axis=1))[..., None]


def _same_points(one: Measured, other: Measured) -> bool:
    ours, theirs = (measured.variable.isel(seed=0) for measured in (one, other))
    if ours.dims != theirs.dims or ours.shape != theirs.shape:
        return False
    return all(np.array_equal(ours[dim].values, theirs[dim].values) for dim in ours.dims if dim in ours.coords)
