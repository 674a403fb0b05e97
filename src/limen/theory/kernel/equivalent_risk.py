r"""Test and training error of ridge regression on any feature spectrum, from its effective ridge."""

import numpy as np
from numpy.typing import NDArray

from limen.checks import plain
from limen.theory.kernel.equivalent import EffectiveRidge, KernelSpectrum, effective_ridge
from limen.theory.kernel.risk import FINITE, RidgeRisk

INFINITE = "The ridgeless risk is infinite at the interpolation threshold ({}); a positive ridge makes it finite."


def ridge_risk(
    spectrum: KernelSpectrum,
    features: NDArray[np.float64],
    samples: NDArray[np.float64],
    ridge: NDArray[np.float64],
    noise: NDArray[np.float64],
    threshold: str,
    solution: EffectiveRidge | None = None,
) -> RidgeRisk:
    r"""Bias, variance and training error of ridge regression; arrays of one shape, `threshold` words for the status;
    `solution`, its effective ridge, where it is known.

    With $a=1-T/P$, $b=1-T/N$ and $s=-\kappa T'(\kappa)$, all positive,
    $$1-\Upsilon=b+\frac{a\,s/N}{a+s/P},\qquad
      \text{bias}=\frac{1}{1-\Upsilon}\Big[\sum_kc_k^2\frac{\kappa^2+\kappa\eta_k\frac{s/P}{a+s/P}}{(\eta_k+\kappa)^2}
      +c_{tail}^2\Big],\qquad\text{variance}=\sigma^2\frac{\Upsilon}{1-\Upsilon},$$
    and train $=b^2(\text{bias}+\text{variance}+\sigma^2)$. No term is a difference of close numbers, so the
    result keeps its relative precision up to the threshold $\Upsilon=1$, where it is infinite.
    """
    solution = solution or effective_ridge(spectrum, features, samples, ridge)
    kappa, a, b = solution.kappa, solution.feature_slack, solution.sample_slack
    slope = np.where(kappa > 0, spectrum.slope(np.where(kappa > 0, kappa, 1.0)), 0.0)
    total = a + slope / features
    total = np.where(total > 0, total, np.inf)
    margin = b + a * (slope / samples) / total
    mixing = (slope / features / total)[..., None]
    left_over = kappa[..., None] / (spectrum.eigenvalues + kappa[..., None])
    unlearnt = left_over * (left_over + (1 - left_over) * mixing) @ spectrum.coefficients + spectrum.tail_coefficient

    at_threshold = margin <= 0
    divisor = np.where(at_threshold, 1.0, margin)
    bias = np.where(at_threshold & (unlearnt > 0), np.inf, np.where(at_threshold, 0.0, unlearnt / divisor))
    variance = np.where(at_threshold & (noise > 0), np.inf, noise * np.where(at_threshold, 0.0, (1 - margin) / divisor))
    # In the limit towards the threshold b^2 wins over the diverging risk.
    train = np.where(at_threshold, 0.0, b**2 * (np.where(at_threshold, 0.0, bias + variance) + noise))
    diverges = bool(np.isinf(bias).any() or np.isinf(variance).any())
    status = INFINITE.format(threshold) if diverges else FINITE
    return RidgeRisk(plain(kappa), plain(bias), plain(variance), plain(train), status)
