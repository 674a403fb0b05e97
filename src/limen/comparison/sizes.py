"""Several sizes: what of a deviation falls as the size grows, as far as the data show it."""

from collections.abc import Sequence

import numpy as np

# A slope of fewer standard errors than this is not shown.
SHOWN = 2.0


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


def combined_band(weights: np.ndarray, bands: Sequence[np.ndarray]) -> np.ndarray:
    """Half-widths of a weighted sum of independent means with bands of their own."""
    return np.sqrt(((weights * np.asarray(bands)) ** 2).sum(axis=0))
