"""Ridge and ridgeless least squares in the proportional limit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.equivalent import KernelSpectrum, kernel_spectrum, least_effective_ridge
from limen.theory.kernel.equivalent_risk import ridge_risk
from limen.theory.kernel.risk import RidgeRisk


class Population(NamedTuple):
    r"""Covariance atoms $s_k$, their weights $w_k$, and the squared norms $b_k^2$ of $\beta$ in their eigenspaces."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    signal: NDArray[np.float64]

    @property
    def spectrum(self) -> KernelSpectrum:
        """The population as a kernel spectrum: a linear model is the kernel of its inputs."""
        return kernel_spectrum(self.values, self.weights, self.signal * self.values)


def population(values: ArrayLike, weights: ArrayLike, signal: ArrayLike) -> Population:
    """The checked population of inputs and coefficients."""
    atoms, shares, energies = (
        checks.vector(name, value) for name, value in (("values", values), ("weights", weights), ("signal", signal))
    )
    checks.same_length("values", atoms, "weights", shares)
    checks.same_length("values", atoms, "signal", energies)
    if abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"weights must sum to 1, got {float(shares.sum())}.")
    if not (atoms * shares > 0).any():
        raise InputError("values must contain a positive covariance eigenvalue of positive weight.")
    return Population(atoms, shares / shares.sum(), energies)


def ridge(
    ratio: ArrayLike,
    ridge: ArrayLike,
    noise: ArrayLike,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> RidgeRisk:
    r"""Ridge regression $\min_b\frac1n\|y-Xb\|^2+\lambda\|b\|^2$ as $n,p\to\infty$ with $p/n\to\gamma$.

    Labels are $y=X\beta+\varepsilon$ with noise variance $\sigma^2$, rows of $X$ are $\Sigma^{1/2}z$ with iid entries
    of $z$. The effective ridge $\kappa\ge0$ solves $\lambda=\kappa\big(1-\gamma E\frac{s}{s+\kappa}\big)$ over the
    spectrum $s$ of $\Sigma$. With $D=1-\gamma E\frac{s^2}{(s+\kappa)^2}$,
    $$\text{bias}=\frac{\kappa^2}{D}\sum_kb_k^2\frac{s_k}{(s_k+\kappa)^2},\qquad
      \text{variance}=\sigma^2\frac{1-D}{D},\qquad
      \text{train}=(\lambda/\kappa)^2(\sigma^2+\text{bias}+\text{variance}).$$

    `ratio` is $\gamma$, `ridge` $\lambda\ge0$ (0 is the least-norm interpolator, or least squares), `noise`
    $\sigma^2$: numbers or arrays that broadcast. `values`, `weights` are the atoms $s_k$ of the spectrum of $\Sigma$
    and their shares, `signal` the squared norms $b_k^2$ of $\beta$ in each eigenspace. Ridgeless at the threshold
    ($\gamma=1$ for a regular $\Sigma$) the variance is infinite, returned as `inf` and said in `status`. Cost: about
    20 vectorised Newton steps.

    Of the ridgeless case: gradient descent from $b_0\ne0$ ends at the interpolator nearest to $b_0$, whose risk is that
    of the signal $\beta-b_0$ instead of $\beta$.

    Sources: Dobriban & Wager 2018; Hastie, Montanari, Rosset & Tibshirani 2022.
    """
    gamma, penalty, variance = checks.broadcast(
        ratio=checks.positives("ratio", ratio),
        ridge=checks.non_negatives("ridge", ridge),
        noise=checks.non_negatives("noise", noise),
    )
    spectrum = population(values, weights, signal).spectrum
    features = np.full(gamma.shape, np.inf)
    return ridge_risk(spectrum, features, 1 / gamma, penalty, variance, "as many samples as directions with variance")


def optimal_ridge(
    ratio: float,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> float:
    r"""The penalty $\lambda\ge0$ of least excess risk in the setting of `ridge`; infinite if there is no signal.

    The risk is minimised over $\kappa\ge\kappa_0$ by the zeros of its derivative, so that local minima are compared.
    If $\beta$ has no preferred direction ($b_k^2=r^2w_k$) the answer is $\sigma^2\gamma/r^2$ for every $\Sigma$
    (Dobriban & Wager 2018). For a $\beta$ aligned with the top of $\Sigma$ and $\gamma>1$ a negative penalty can be
    better still (Wu & Xu 2020); here it is cut at 0.
    """
    gamma = checks.positive("ratio", ratio)
    variance = checks.non_negative("noise", noise)
    spectrum = population(values, weights, signal).spectrum
    if not spectrum.coefficients.any():
        return float("inf") if variance > 0 else 0.0
    start = float(least_effective_ridge(spectrum, np.asarray(1 / gamma)))
    atoms, shares, energies = spectrum.eigenvalues, spectrum.multiplicities, spectrum.coefficients

    def pieces(kappa: float) -> tuple[float, float, float, float]:
        inverse = 1 / (atoms + kappa)
        numerator = kappa**2 * float(energies @ inverse**2) + variance
        denominator = 1 - gamma * float(shares @ (atoms * inverse) ** 2)
        rise = 2 * kappa * float(energies @ (atoms * inverse**3))
        return numerator, denominator, rise, 2 * gamma * float(shares @ (atoms**2 * inverse**3))

    def slope(kappa: float) -> float:
        numerator, denominator, rise, denominator_rise = pieces(kappa)
        return rise * denominator - numerator * denominator_rise

    def risk(kappa: float) -> float:
        numerator, denominator, _, _ = pieces(kappa)
        return numerator / denominator if denominator > 0 else float("inf")

    scale = spectrum.trace * (1 + gamma)
    grid = start + scale * np.geomspace(1e-12, 1e9, 400)
    slopes = np.array([slope(kappa) for kappa in grid])
    candidates = [start] if slopes[0] >= 0 else []
    for i in np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0)):
        candidates.append(float(brentq(slope, grid[i], grid[i + 1], xtol=1e-300, rtol=1e-14)))  # pyright: ignore[reportArgumentType]
    if not candidates:
        return float("inf")
    best = min(candidates, key=risk)
    if best == start:
        return 0.0
    return max(0.0, best * (1 - gamma * float(shares @ (atoms / (atoms + best)))))
