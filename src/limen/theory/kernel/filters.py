"""Gradient flow, gradient descent and ridge for least squares, as spectral filters on one contour."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.contour import ContourRisk, SpectralFilter, filtered_risk
from limen.theory.kernel.equivalent import KernelSpectrum
from limen.theory.kernel.ridge import population
from limen.theory.kernel.risk import FINITE, FilterRisk, filter_risk
from limen.theory.kernel.spectral_edges import spectral_edges

# A filter may grow to about e^8 outside the spectrum before the cancellation costs digits.
GROWTH = 8.0


def ridge_flow(
    ratio: float,
    time: ArrayLike,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
    ridge: float = 0.0,
) -> FilterRisk:
    r"""Gradient flow $\dot b=\frac1nX^\top(y-Xb)-\lambda b$ from $b=0$ as $n,p\to\infty$ with $p/n\to\gamma$.

    The flow of $\frac1{2n}\|y-Xb\|^2+\frac\lambda2\|b\|^2$; for the loss $\frac1n\|\cdot\|^2$ without the half use
    $2t$. The residual filter is $\varphi(z)=1-z\frac{1-e^{-t(z+\lambda)}}{z+\lambda}$, which is $e^{-tz}$ for
    $\lambda=0$. With isotropic inputs and $\lambda=0$ the result is
    $$\text{bias}=r^2\!\int\!e^{-2ts}d\mu,\quad\text{variance}=\sigma^2\gamma\!\int\!\frac{(1-e^{-ts})^2}sd\mu,\quad
      \text{train}=r^2\!\int\!s\,e^{-2ts}d\mu+\sigma^2\Big[\gamma\!\int\!e^{-2ts}d\mu+1-\gamma\Big]$$
    over the Marchenko-Pastur law $\mu$ with its atom at 0; for any covariance see `limen.theory.kernel.contour`.

    From a start $b_0\ne0$ (and $\lambda=0$) the risk is that of the signal $\beta-b_0$.

    `ratio` is $\gamma$, `time` $t\ge0$ (a number or an array), `noise` $\sigma^2$; population as in `ridge`. `test`
    is the excess risk. Accuracy about $10^{-11}$. Cost: milliseconds away from $\gamma=1$; there it grows like $\sqrt
    t$, and times above about $10^8$ are refused. Sources: Ali, Kolter & Tibshirani 2019; Advani, Saxe & Sompolinsky
    2020.
    """
    gamma, variance = _scalars(ratio, noise)
    penalty = checks.non_negative("ridge", ridge)
    times = checks.non_negatives("time", time)
    spectrum = population(values, weights, signal).spectrum
    return combine(flow_risk(spectrum, np.inf, 1 / gamma, times, penalty), times.shape, variance)


def gradient_descent_risk(
    ratio: float,
    step: float,
    steps: ArrayLike,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> FilterRisk:
    r"""Gradient descent $b\leftarrow b+\frac\eta nX^\top(y-Xb)$ from $b=0$, after $k$ steps: the filter $(1-\eta z)^k$.

    `step` is $\eta$, `steps` $k$ (non-negative whole numbers, one or an array); the rest as in `ridge_flow`. Above
    $\eta=2/\lambda_+$, $\lambda_+$ the right edge of the spectrum of $\frac1nX^\top X$, the iteration diverges: the
    values at finite $k$ are still right, and `status` says so.
    """
    gamma, variance = _scalars(ratio, noise)
    eta = checks.positive("step", step)
    counts = checks.non_negatives("steps", steps)
    if (counts != np.round(counts)).any():
        raise InputError(f"steps must be whole numbers, got {float(counts[counts != np.round(counts)].flat[0])}.")
    spectrum = population(values, weights, signal).spectrum

    def descent(group: NDArray[np.float64]) -> SpectralFilter:
        power = group[:, None]
        most = max(float(group.max()), 1e-12)

        def fitted(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
            factor = 1 - eta * z
            flipped = factor.real < 0
            # the phase of a negative factor is split off: multiplied by the number of steps it would lose digits
            growth = power * np.log(np.where(flipped, -factor, factor))
            return np.where(flipped, 1 - (1 - 2 * (power % 2)) * np.exp(growth), -np.expm1(growth))

        def right_reach(edge: float) -> float:
            return max((1 + np.exp(min(GROWTH / most, 50.0))) / eta - edge, GROWTH / (most * eta))

        return SpectralFilter(fitted, GROWTH / (most * eta), right_reach)

    risk = in_groups(spectrum, np.inf, 1 / gamma, counts.ravel(), descent)
    right = spectral_edges(spectrum, np.inf, 1 / gamma)[1]
    status = FINITE
    if eta * right >= 2:
        status = f"Gradient descent diverges: step must be below {2 / right:.6g}, got {eta:g}."
    return combine(risk, counts.shape, variance, status)


def ridge_by_contour(
    ratio: float,
    ridge: ArrayLike,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> FilterRisk:
    r"""Ridge regression through the filter $\frac{\lambda}{z+\lambda}$, $\lambda>0$: `ridge` by the other road."""
    gamma, variance = _scalars(ratio, noise)
    penalties = checks.positives("ridge", ridge)
    spectrum = population(values, weights, signal).spectrum
    risk = in_groups(spectrum, np.inf, 1 / gamma, penalties.ravel(), ridge_filter)
    return combine(risk, penalties.shape, variance)


def optimal_stopping_time(
    ratio: float,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> float:
    r"""The time $t$ at which `ridge_flow` has its least excess risk; infinite if the risk falls for ever, 0 without
    signal.

    The risk on a geometric grid of times, then Brent's method in $\log t$ around its least value; relative
    accuracy about $10^{-5}$, as far as a minimum can be located by its values.
    """
    gamma, variance = _scalars(ratio, noise)
    spectrum = population(values, weights, signal).spectrum
    if not spectrum.coefficients.any():
        return 0.0
    left, right = spectral_edges(spectrum, np.inf, 1 / gamma)
    longest = min(50 / left if left > 0 else np.inf, 1e5 / right)

    def excess(logs: ArrayLike) -> NDArray[np.float64]:
        risk = flow_risk(spectrum, np.inf, 1 / gamma, np.exp(np.atleast_1d(logs)))
        return risk.bias + variance * risk.variance

    grid = np.linspace(np.log(1e-4 / right), np.log(longest), 80)
    risks = excess(grid)
    best = int(np.argmin(risks))
    if best == len(grid) - 1 or variance == 0.0:
        return float("inf")
    bounds = (grid[max(best - 1, 0)], grid[best + 1])
    found = minimize_scalar(lambda log: float(excess(log)[0]), bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))  # pyright: ignore[reportAttributeAccessIssue]


def flow_filter(times: NDArray[np.float64], ridge: float = 0.0) -> SpectralFilter:
    r"""Gradient flow with weight decay: $1-\varphi=z\frac{1-e^{-t(z+\lambda)}}{z+\lambda}$, entire in $z$."""
    column = times[:, None]

    def fitted(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return -z / (z + ridge) * np.expm1(-column * (z + ridge))

    longest = float(times.max())
    return SpectralFilter(fitted, ridge + GROWTH / longest if longest > 0 else np.inf, lambda edge: np.inf)


def ridge_filter(penalties: NDArray[np.float64]) -> SpectralFilter:
    r"""Ridge: $1-\varphi=\frac{z}{z+\lambda}$, with a pole at $-\lambda$."""
    column = penalties[:, None]
    return SpectralFilter(lambda z: z / (z + column), float(penalties.min()), lambda edge: np.inf)


def flow_risk(
    spectrum: KernelSpectrum, features: float, samples: float, times: NDArray[np.float64], ridge: float = 0.0
) -> ContourRisk:
    """Gradient flow on any feature spectrum, one entry per time."""
    return in_groups(spectrum, features, samples, times.ravel(), lambda group: flow_filter(group, ridge))


def in_groups(
    spectrum: KernelSpectrum,
    features: float,
    samples: float,
    parameters: NDArray[np.float64],
    make: Callable[[NDArray[np.float64]], SpectralFilter],
) -> ContourRisk:
    """Filters whose parameters lie within a factor of 4 share a contour, which neither starves nor overfeeds any."""
    sums = np.empty((4, len(parameters)))
    edges = spectral_edges(spectrum, features, samples)
    label = np.floor(np.log(np.maximum(parameters, 1e-9)) / np.log(4.0))
    for value in np.unique(label):
        group = np.flatnonzero(label == value)
        sums[:, group] = filtered_risk(spectrum, features, samples, edges, make(parameters[group]))
    return ContourRisk(*sums)


def combine(risk: ContourRisk, shape: tuple[int, ...], noise: float, status: str = FINITE) -> FilterRisk:
    """The result at a noise level, in the shape of the argument."""
    bias, variance = risk.bias.reshape(shape), noise * risk.variance.reshape(shape)
    return filter_risk(bias, variance, (risk.train_signal + noise * risk.train_noise).reshape(shape), status)


def _scalars(ratio: ArrayLike, noise: ArrayLike) -> tuple[float, float]:
    gamma = checks.positive("ratio", ratio)
    return gamma, checks.non_negative("noise", noise)
