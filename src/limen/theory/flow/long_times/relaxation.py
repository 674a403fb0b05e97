r"""How fast noise is fitted: above the interpolation threshold $e_{tr}\sim e^{-t/t_{rel}}$.

$t_{rel}$ diverges at the threshold like $(\gamma-\gamma_{GF})^{-\nu}$ with $\nu$ between 2.5 and 3 (a fit; Montanari &
Urbani 2025 define the exponent). Far above it the first layer hardly moves, and what is slowest is the left edge of a
Marchenko-Pastur law.
"""

from typing import Any

import numpy as np

from limen.labelled import mean_over_runs
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.theory.flow.long_times.ageing_state import NoiseCovariance
from limen.theory.flow.long_times.threshold import checked_gammas, checked_ratio

# Training errors below are those of a solver that has stopped at interpolation.
FLOOR = 2e-9
FEWEST_POINTS = 6
FEWEST_FOLDS = 2.0
LARGEST_CHANGE = 0.1


def relaxation_time(result: Findings | Result) -> float:
    r"""$t_{rel}$ of $e_{tr}\sim e^{-t/t_{rel}}$, fitted to the late part of `train_loss` of a solved flow.

    The last third of the fall of $\log e_{tr}$ is fitted by a line. It is refused when that third has fewer than 6
    times or falls by less than a factor $e^2$ (the run is too short), or when the slopes of its two halves differ by
    more than 10% (not exponential: ageing below the threshold, or a power law on the way to it). Ask for times that are
    dense at the end, such as equal steps over the last half of the run. Accuracy: a few percent.
    """
    if "train_loss" not in result.dataset or "time" not in result.dataset["train_loss"].dims:
        raise InputError("result must have train_loss against time, as limen.flow.solve gives it.")
    loss = mean_over_runs(result.dataset["train_loss"])
    t = result.dataset["time"].values
    # Rounding and what is constant after interpolation say nothing about the rate.
    alive = loss > FLOOR
    end = int(np.argmin(alive)) if not alive.all() else loss.size
    t, log_loss = t[:end], np.log(loss[:end])
    if end < FEWEST_POINTS:
        raise InputError(f"train_loss must be above {FLOOR:g} at {FEWEST_POINTS} times or more, got {end}.")
    late = log_loss <= log_loss[-1] + (log_loss[0] - log_loss[-1]) / 3.0
    first = int(np.argmax(late))
    t, log_loss = t[first:], log_loss[first:]
    folds = log_loss[0] - log_loss[-1]
    if t.size < FEWEST_POINTS or folds < FEWEST_FOLDS:
        raise InputError(
            f"the late part of train_loss has {t.size} times and falls by a factor {np.exp(folds):.3g}: at least "
            f"{FEWEST_POINTS} times and a factor {np.exp(FEWEST_FOLDS):.2g} are needed, solve longer, at more times."
        )
    half = t.size // 2
    early_rate, late_rate = -_slope(t[: half + 1], log_loss[: half + 1]), -_slope(t[half:], log_loss[half:])
    if not abs(early_rate - late_rate) <= LARGEST_CHANGE * abs(late_rate):
        raise InputError(
            f"train_loss is not exponential at late times: its rate changes from {early_rate:.3g} to {late_rate:.3g}, "
            "solve for longer, or the second layer is below the interpolation threshold."
        )
    return -1.0 / _slope(t, log_loss)


def lazy_relaxation_rate(h: Any, samples_per_parameter: float, gamma: Any) -> Any:
    r"""$1/t_{rel}=2\gamma^2h'(1)(1-\sqrt\alpha)^2$, the rate far above the interpolation threshold.

    There the tangent kernel $\frac1dJJ^\top$ is constant with the spectrum of a Wishart matrix of $n$ samples in $md$
    dimensions; its left edge is $\gamma^2h'(1)(1-\sqrt\alpha)^2$. Whatever the noise. `gamma` is a number or an array.
    """
    covariance, alpha = NoiseCovariance(h), checked_ratio(samples_per_parameter)
    rates = 2.0 * checked_gammas(gamma) ** 2 * covariance(1.0, 1) * (1.0 - alpha**0.5) ** 2
    return float(rates) if rates.ndim == 0 else rates


def _slope(t: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(t - t[0], values, 1)[0])
