r"""Estimates with standard errors, pooled over independent lifts, and what the lifts disagree about."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Lifts are taken to differ where sampling explains their spread with less than this probability.
SIGNIFICANCE = 1e-3
# Differences below this part of the value are rounding.
ROUNDING = 1e-10


class Estimate(NamedTuple):
    """A sampled value and its standard error, arrays of equal shape; unpacks as `value, error`."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]


class Spread(NamedTuple):
    """Standard deviation over lifts beyond what sampling explains, and whether it is significant, entry by entry."""

    excess: NDArray[np.float64]
    significant: NDArray[np.bool_]


def pooled(groups: NDArray[np.float64]) -> Estimate:
    r"""Mean of independent group estimates (lift, group, ...) with its standard error.

    The error is $\sqrt{s_w^2/LG}$ from the spread $s_w$ of groups within lifts; where lifts differ significantly it
    is the standard error of their mean, $\sqrt{s_b^2/L}$.
    """
    lifts, count = groups.shape[:2]
    within, between = _variances(groups)
    sampling = within / (lifts * count)
    error = np.sqrt(np.where(spread(groups).significant, np.maximum(between / lifts, sampling), sampling))
    return Estimate(groups.mean(axis=(0, 1)), error)


def spread(groups: NDArray[np.float64]) -> Spread:
    r"""$\sqrt{\max(0,s_b^2-s_w^2/G)}$ of group estimates (lift, group, ...), judged by the F test at $10^{-3}$."""
    lifts, count = groups.shape[:2]
    within, between = _variances(groups)
    expected = within / count + (ROUNDING * np.abs(groups).max(axis=(0, 1))) ** 2
    if lifts < 2:
        return Spread(np.zeros_like(within), np.zeros(within.shape, dtype=bool))
    limit = stats.f.isf(SIGNIFICANCE, lifts - 1, lifts * (count - 1))
    return Spread(np.sqrt(np.maximum(between - expected, 0.0)), between > limit * expected)


def _variances(groups: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variance of groups within lifts, and of the means of lifts."""
    within = groups.var(axis=1, ddof=1).mean(axis=0)
    means = groups.mean(axis=1)
    return within, means.var(axis=0, ddof=1) if groups.shape[0] > 1 else np.zeros_like(within)
