"""Simultaneous 99% bands for a mean over seeds: of real numbers, of fractions of outcomes, of counts."""

import numpy as np
from scipy import special

CONFIDENCE = 0.99
RESAMPLES = 999
COLUMNS_AT_ONCE = 4096
# Over the number of seeds: the part of the largest spread of a variable that every moving point is taken to have.
LEAST_SPREAD = 1.6
# How much wider than Student's t for laws that are not normal, at 8 seeds: measured on exponential and lognormal ones.
WIDENING, SKEWNESS_WEIGHT = 0.4, 0.6
# Spreads below this part of the largest are rounding: such a point is the same for every seed.
ROUNDING = 1e-9


def simultaneous_band(values: np.ndarray, spread: np.ndarray | float = 0.0) -> np.ndarray:
    r"""Half-widths of a simultaneous 99% band for the mean over rows (seeds) of `values` (seed, point).

    $c\,\hat s_j\,(1+\max(0.4,0.6|\hat g_j|)\sqrt{8/n})/\sqrt n$. Seeds resampled with Gaussian multipliers give the
    99% quantile of $\max_j|t_j|$ for known variances; its two-sided normal tail is then read as one of Student's t with
    $n-1$ degrees of freedom, so that few seeds widen the band. $\hat g_j$ is the skewness of the seeds: the mean of a
    skewed law is off by more than Student's t knows, always on the side of the tail that was not seen. For the same
    reason $\hat s_j$ is at least $1.6/n$ of the variable's largest: where most runs have arrived and a few are late,
    a handful of seeds may show none of the late ones. `spread` is the standard deviation of one run where a theory
    knows it, a lower limit too. $O(\text{resamples}\cdot n\cdot\text{points})$.
    """
    count = values.shape[0]
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0, ddof=1)
    moving = np.flatnonzero(deviation > max(ROUNDING * deviation.max(initial=0.0), 1e-12))
    quantile = largest_quantile(centred[:, moving] / deviation[moving])
    factor = -special.stdtrit(count - 1, special.ndtr(-quantile)) / np.sqrt(count)
    skewness = np.zeros_like(deviation)
    scaled = centred[:, moving] / (deviation[moving] * np.sqrt(1.0 - 1.0 / count))
    skewness[moving] = np.abs((scaled**3).mean(axis=0))
    widened = 1.0 + np.maximum(WIDENING, SKEWNESS_WEIGHT * skewness) * np.sqrt(8.0 / count)
    least = np.zeros_like(deviation)
    least[moving] = LEAST_SPREAD / count * deviation.max(initial=0.0)
    return factor * np.maximum(np.maximum(deviation, least) * widened, spread)


def largest_quantile(standardised: np.ndarray) -> float:
    r"""99% quantile of $\max_j|t_j|$ for known variances, from seeds (seed, point) of mean 0 and variance 1.

    Without any point, of a single one.
    """
    count, points = standardised.shape
    if points == 0:
        return float(-special.ndtri((1.0 - CONFIDENCE) / 2.0))
    multipliers = np.random.default_rng(count).standard_normal((RESAMPLES, count)) / np.sqrt(count - 1.0)
    largest = np.zeros(RESAMPLES)
    for begin in range(0, points, COLUMNS_AT_ONCE):
        part = standardised[:, begin : begin + COLUMNS_AT_ONCE]
        largest = np.maximum(largest, np.abs(multipliers @ part).max(axis=1))
    return float(np.quantile(largest, CONFIDENCE, method="higher"))


def outcome_band(fractions: np.ndarray, trials: int, difference: np.ndarray) -> np.ndarray:
    r"""Half-widths at each point for the mean of `fractions` (seed, point) of `trials` outcomes each.

    The exact interval of Clopper & Pearson (1934) for all $N=n\cdot$`trials` outcomes of a point, on the side on which
    the theory lies (`difference`: mean minus theory), at the level $0.01/\text{points}$ (Bonferroni). Where nothing but
    ones was seen, $1-(0.005/\text{points})^{1/N}$.
    """
    count, points = fractions.shape
    total = count * trials
    hits = np.rint(fractions.sum(axis=0) * trials)
    tail = (1.0 - CONFIDENCE) / (2.0 * points)
    mean = hits / total
    lower = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), total - hits + 1, tail), 0.0)
    upper = np.where(hits < total, special.betaincinv(hits + 1, np.maximum(total - hits, 1), 1.0 - tail), 1.0)
    below, above = mean - lower, upper - mean
    # A theory beyond 0 or 1 is on the side of no outcome; the other side is then the one that has a width.
    side = np.where(difference > 0, below, above)
    return np.where((difference == 0) | (side == 0), np.maximum(below, above), side)


def count_band(values: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Half-widths where all seeds gave the same whole number, which the theory does not: 0 elsewhere.

    A run that gives the next number may not have been seen: with 99% confidence its probability is at most
    1 - (0.01/points)^(1/seeds).
    """
    count, points = values.shape
    equal = np.ptp(values, axis=0) == 0.0
    unseen = 1.0 - ((1.0 - CONFIDENCE) / points) ** (1.0 / count)
    return np.where(equal & (difference != 0.0), unseen, 0.0)
