"""Simultaneous 99% bands for a mean over seeds: of real numbers, of fractions of outcomes, of counts."""

import numpy as np
import scipy

CONFIDENCE = 0.99
RESAMPLES = 999
COLUMNS_AT_ONCE = 4096
# Standard errors by which the skewness of a law may exceed that of its seeds: a 95% limit.
SKEWNESS_ERRORS = 1.645
# Spreads below this part of the largest are rounding: such a point is the same for every seed.
ROUNDING = 1e-9


def simultaneous_band(values: np.ndarray, spread: np.ndarray | float = 0.0) -> np.ndarray:
    r"""Half-widths of a simultaneous 99% band for the mean over rows (seeds) of `values` (seed, point).

    $$h_j=\Big(c+\frac{2c^2+1}{6\sqrt n}\big(|\hat g_j|+1.645\sqrt{6/n}\big)\Big)\frac{\hat s_j}{\sqrt n},\qquad
    h_j\ge2(1-0.01^{1/n})\max_i\hat s_i.$$

    Seeds resampled with Gaussian multipliers give the 99% quantile of $\max_j|t_j|$ for known variances; its two-sided
    normal tail, read as one of Student's t with $n-1$ degrees of freedom, is $c$. The second term is the first of
    Cornish & Fisher for the studentised mean of a skewed law (Hall 1983); its skewness is taken at the upper 95% limit
    of what the seeds' own, $\hat g_j$, allows, since the tail that makes it is what few seeds do not show. Both ends
    are as wide as the wider one. The least width is for a kind of run that no seed was: with 99% confidence it has at
    most the probability $1-0.01^{1/n}$, and it is taken to differ by twice the variable's largest standard deviation,
    the least distance of two outcomes of that deviation (Popoviciu); where most runs have arrived and a few are late,
    a handful of seeds shows none of the late ones.

    `spread` is the standard deviation of one run where a theory knows it: $h_j\ge c\,$`spread`$/\sqrt n$.
    $O(\text{resamples}\cdot n\cdot\text{points})$.
    """
    count = values.shape[0]
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0, ddof=1)
    moving = np.flatnonzero(deviation > max(ROUNDING * deviation.max(initial=0.0), 1e-12))
    scaled = centred[:, moving] / deviation[moving]
    student = -scipy.special.stdtrit(count - 1, scipy.special.ndtr(-largest_quantile(scaled)))
    skewness = np.abs((scaled**3).mean(axis=0)) / (1.0 - 1.0 / count) ** 1.5
    allowed = skewness + SKEWNESS_ERRORS * np.sqrt(6.0 / count)
    widths = student + (2.0 * student**2 + 1.0) / (6.0 * np.sqrt(count)) * allowed
    unseen = 2.0 * (1.0 - (1.0 - CONFIDENCE) ** (1.0 / count))
    band = student * np.broadcast_to(np.asarray(spread, dtype=float), deviation.shape) / np.sqrt(count)
    own = np.maximum(widths * deviation[moving] / np.sqrt(count), unseen * deviation.max(initial=0.0))
    band[moving] = np.maximum(band[moving], own)
    return band


def normal_width(seeds: np.ndarray) -> np.ndarray:
    r"""Half-width of `simultaneous_band` at one point for a normal law, in standard deviations of a run.

    $$\frac1{\sqrt n}\Big(c+\frac{2c^2+1}{6\sqrt n}\,1.645\sqrt{6/n}\Big),\qquad c=t_{n-1}(0.995).$$

    While seeds are few it falls much faster than $n^{-1/2}$.
    """
    student = -scipy.special.stdtrit(seeds - 1.0, (1.0 - CONFIDENCE) / 2.0)
    skewed = (2.0 * student**2 + 1.0) / (6.0 * np.sqrt(seeds)) * SKEWNESS_ERRORS * np.sqrt(6.0 / seeds)
    return (student + skewed) / np.sqrt(seeds)


def largest_quantile(standardised: np.ndarray) -> float:
    r"""99% quantile of $\max_j|t_j|$ for known variances, from seeds (seed, point) of mean 0 and variance 1.

    Without any point, or of a single one, that of the normal law.
    """
    count, points = standardised.shape
    if points <= 1:
        return float(-scipy.special.ndtri((1.0 - CONFIDENCE) / 2.0))
    multipliers = np.random.default_rng(count).standard_normal((RESAMPLES, count)) / np.sqrt(count - 1.0)
    largest = np.zeros(RESAMPLES)
    for begin in range(0, points, COLUMNS_AT_ONCE):
        part = standardised[:, begin : begin + COLUMNS_AT_ONCE]
        largest = np.maximum(largest, np.abs(multipliers @ part).max(axis=1))
    return float(np.quantile(largest, CONFIDENCE, method="higher"))


def unexplained(differences: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    r"""Of each seed's difference (seed, point) what the other seeds' line through the predictions does not foresee.

    $$d_i-\hat a_{-i}-\hat b_{-i}x_i=\frac{d_i-\hat a-\hat bx_i}{1-h_i},\qquad
    h_i=\frac1n+\frac{(x_i-\bar x)^2}{\sum_l(x_l-\bar x)^2},$$

    least squares of the differences $d$ on the predictions $x$ at every point. A theory that is wrong by a factor
    leaves nothing; differences that have nothing to do with the predictions stay, a little larger ($1+2/n$). A seed
    far from all others is foreseen without itself, so that a line through it does not hide it.
    """
    count = differences.shape[0]
    apart, from_mean = predictions - predictions.mean(axis=0), differences - differences.mean(axis=0)
    squares = (apart**2).sum(axis=0)
    varies = squares > (ROUNDING * np.abs(predictions).max(axis=0, initial=0.0)) ** 2
    squares = np.where(varies, squares, 1.0)
    slope = np.where(varies, (apart * from_mean).sum(axis=0) / squares, 0.0)
    left = 1.0 - 1.0 / count - np.where(varies, apart**2 / squares, 0.0)
    # Without this seed the others have one prediction: there is no line, only their mean.
    alone = left < ROUNDING
    return np.where(alone, from_mean * count / (count - 1.0), (from_mean - slope * apart) / np.where(alone, 1.0, left))


def outcome_interval(hits: int, total: int) -> tuple[float, float]:
    """The exact 99% interval of Clopper & Pearson (1934) for a probability of which `hits` of `total` were seen."""
    tail = (1.0 - CONFIDENCE) / 2.0
    lower = float(scipy.special.betaincinv(hits, total - hits + 1, tail)) if hits > 0 else 0.0
    return lower, float(scipy.special.betaincinv(hits + 1, total - hits, 1.0 - tail)) if hits < total else 1.0


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
    lower = np.where(hits > 0, scipy.special.betaincinv(np.maximum(hits, 1), total - hits + 1, tail), 0.0)
    upper = np.where(hits < total, scipy.special.betaincinv(hits + 1, np.maximum(total - hits, 1), 1.0 - tail), 1.0)
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
