r"""The deterministic equivalent of a feature matrix: its spectrum, its two capacities, its effective ridge.

Linear regression, random features and kernels share one scalar equation. With the degrees of freedom
$T(\kappa)=\sum_km_k\frac{\eta_k}{\eta_k+\kappa}+\frac{\eta_{tail}}\kappa$,
$$\lambda=\kappa\Big(1-\frac{T(\kappa)}{P}\Big)\Big(1-\frac{T(\kappa)}{N}\Big),$$
where $P$ counts features and $N$ samples in the unit of the multiplicities $m_k$; $P=\infty$ is the kernel itself.
Linear regression with $\gamma=p/n$ has $\eta=$ the atoms of the covariance, $m=$ their weights, $N=1/\gamma$,
$P=\infty$ (Hastie, Montanari, Rosset & Tibshirani 2022). Random features in the regime of Mei & Montanari 2019
have the one eigenvalue $\mu_1^2$, the tail $\mu_*^2$, $P=\psi_1$ and $N=\psi_2$; the form for any spectrum is that
of Simon et al. 2023, Atanasov et al. 2024 and Defilippis, Loureiro & Misiakiewicz 2024.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Two capacities that differ by less are the same number written in two ways.
SAME = 16 * np.finfo(float).eps
MOST_STEPS = 400
# Newton's method squares the error: after a step this small the next would be rounding.
SETTLED = 1e-9


@dataclass(frozen=True)
class KernelSpectrum:
    r"""Eigenvalues $\eta_k>0$ with multiplicities $m_k$, the energies $c_k^2$ of the target along them, the trace
    $\eta_{tail}$ of the eigenvalues too small and too many to be learnt, and the target's energy there."""

    eigenvalues: NDArray[np.float64]
    multiplicities: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    tail: float = 0.0
    tail_coefficient: float = 0.0

    @property
    def trace(self) -> float:
        r"""$\sum_km_k\eta_k+\eta_{tail}$."""
        return float(self.multiplicities @ self.eigenvalues) + self.tail

    def degrees(self, kappa: Any) -> Any:
        r"""$T(\kappa)$, for real or complex $\kappa$."""
        eigenvalues = self.eigenvalues
        return (eigenvalues / (eigenvalues + kappa[..., None])) @ self.multiplicities + self._over(kappa)

    def slope(self, kappa: Any) -> Any:
        r"""$-\kappa T'(\kappa)=\sum_km_k\frac{\eta_k\kappa}{(\eta_k+\kappa)^2}+\frac{\eta_{tail}}\kappa$."""
        wide = kappa[..., None]
        total = self.eigenvalues + wide
        return ((self.eigenvalues / total) * (wide / total)) @ self.multiplicities + self._over(kappa)

    def unlearnt(self, kappa: Any) -> Any:
        r"""$g(\kappa)=\sum_kc_k^2\frac{\kappa}{\eta_k+\kappa}+c_{tail}^2$."""
        wide = kappa[..., None]
        return (wide / (self.eigenvalues + wide)) @ self.coefficients + self.tail_coefficient

    def unlearnt_slope(self, kappa: Any) -> Any:
        r"""$g'(\kappa)$."""
        total = self.eigenvalues + kappa[..., None]
        return (self.eigenvalues / total / total) @ self.coefficients

    def _over(self, kappa: Any) -> Any:
        return self.tail / kappa if self.tail else 0.0


def kernel_spectrum(
    eigenvalues: NDArray[np.float64],
    multiplicities: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    tail: float = 0.0,
    tail_coefficient: float = 0.0,
) -> KernelSpectrum:
    """A spectrum without its null directions; the target's energy along them is never learnt and joins the tail's."""
    kept = (eigenvalues > 0) & (multiplicities > 0)
    lost = float(coefficients[~kept].sum())
    return KernelSpectrum(
        eigenvalues[kept], multiplicities[kept], coefficients[kept], float(tail), float(tail_coefficient) + lost
    )


@dataclass(frozen=True)
class EffectiveRidge:
    r"""$\kappa$ with the two factors $1-T/P$ and $1-T/N$, each accurate to relative precision where it is small."""

    kappa: NDArray[np.float64]
    feature_slack: NDArray[np.float64]
    sample_slack: NDArray[np.float64]


def least_effective_ridge(spectrum: KernelSpectrum, capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The effective ridge $\kappa_0$ without any explicit one: $T(\kappa_0)=$ `capacity`, or 0 if $T$ stays below.

    $\kappa T(\kappa)-\text{capacity}\cdot\kappa$ is concave, so Newton's method from
    $\operatorname{tr}/\text{capacity}$ falls monotonically onto the root.
    """
    rank = float(spectrum.multiplicities.sum()) if not spectrum.tail else np.inf
    reached = rank > capacity * (1 + SAME)
    # Points without a root iterate on a harmless capacity of their own, and are overwritten.
    target = np.where(reached, capacity, 0.5 * min(rank, 1.0))
    kappa = np.asarray(spectrum.trace / target)
    eigenvalues, weights = spectrum.eigenvalues, spectrum.multiplicities
    for _ in range(MOST_STEPS):
        share = eigenvalues / (eigenvalues + kappa[..., None])
        excess = kappa * (share @ weights - target) + spectrum.tail
        step = excess / (share**2 @ weights - target)
        kappa = np.maximum(kappa - step, 0.5 * kappa)
        if np.all(np.abs(step) <= SETTLED * kappa):
            break
    return np.where(reached, kappa, 0.0)


def effective_ridge(
    spectrum: KernelSpectrum,
    features: NDArray[np.float64],
    samples: NDArray[np.float64],
    ridge: NDArray[np.float64],
) -> EffectiveRidge:
    r"""Solves the scalar equation for $\kappa\ge\kappa_0$, where its right side increases; arrays of one shape.

    The unknown is $e=\kappa-\kappa_0$, in which the smaller factor is
    $\frac{e}{\min(P,N)}\big[\sum_k\frac{m_k\eta_k}{(\eta_k+\kappa)(\eta_k+\kappa_0)}+\frac{\eta_{tail}}{\kappa\kappa_0}\big]$:
    a product instead of a difference, exact up to the interpolation threshold. Newton's method inside a bracket.
    """
    least = np.minimum(features, samples)
    ratio = np.where(np.abs(features - samples) <= SAME * least, 1.0, least / np.maximum(features, samples))
    start = least_effective_ridge(spectrum, least)
    rank = float(spectrum.multiplicities.sum())
    slack = np.where(start > 0, 0.0, np.maximum(0.0, 1 - rank / least))
    slack = np.where(slack <= SAME, 0.0, slack)
    eigenvalues = spectrum.eigenvalues
    weight = spectrum.multiplicities * eigenvalues / (eigenvalues + start[..., None])

    def factors(excess: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        kappa = start + excess
        rise = (weight / (eigenvalues + kappa[..., None])).sum(axis=-1)
        if spectrum.tail:
            rise = rise + spectrum.tail / (kappa * start)
        small = slack + excess * rise / least
        return kappa, small, (1 - ratio) + ratio * small

    highest = np.maximum(ridge + spectrum.trace * (1 / features + 1 / samples) - start, 0.0)
    low, high = np.zeros_like(highest), highest
    excess = np.where(ridge > 0, np.minimum(_first_guess(spectrum, start, slack, ratio, least, ridge), highest), 0.0)
    for _ in range(MOST_STEPS):
        kappa, small, large = factors(excess)
        value = kappa * small * large - ridge
        # kappa or the slope is 0 only where the ridge is 0 and nothing is left to solve
        slope = small * large + spectrum.slope(np.where(kappa > 0, kappa, 1.0)) * (large + ratio * small) / least
        slope = np.where(ridge > 0, slope, 1.0)
        high, low = np.where(value > 0, excess, high), np.where(value < 0, excess, low)
        proposal = excess - value / slope
        outside = (proposal < low) | (proposal > high)
        proposal = np.where(ridge > 0, np.where(outside, 0.5 * (low + high), proposal), 0.0)
        moved = np.abs(proposal - excess)
        excess = proposal
        if np.all(moved <= SETTLED * excess):
            break
    else:
        raise ArithmeticError("the effective ridge did not converge.")
    kappa, small, large = factors(excess)
    fewer_features = features <= samples
    return EffectiveRidge(kappa, np.where(fewer_features, small, large), np.where(fewer_features, large, small))


def _first_guess(
    spectrum: KernelSpectrum,
    start: NDArray[np.float64],
    slack: NDArray[np.float64],
    ratio: NDArray[np.float64],
    least: NDArray[np.float64],
    ridge: NDArray[np.float64],
) -> NDArray[np.float64]:
    # Next to kappa_0 > 0 the equation is quadratic in the smaller factor; next to kappa_0 = 0 it is a power of kappa.
    found = start > 0
    safe = np.where(found, start, 1.0)
    rise = spectrum.slope(safe) / safe
    scaled = ridge / safe
    small = 2 * scaled / ((1 - ratio) + np.sqrt((1 - ratio) ** 2 + 4 * ratio * scaled) + np.finfo(float).tiny)
    first = (spectrum.multiplicities / spectrum.eigenvalues).sum() / least
    gap = (1 - ratio) + ratio * slack
    return np.where(found, small * least / rise, _least_of_powers(ridge, slack * gap, first * gap, first**2 * ratio))


def _least_of_powers(value: NDArray[np.float64], *factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least x with factor_k x^k = value, k = 1, 2, ..., over the factors that are positive."""
    guesses = [
        np.where(factor > 0, (value / np.where(factor > 0, factor, 1.0)) ** (1 / power), np.inf)
        for power, factor in enumerate(factors, start=1)
    ]
    return np.minimum.reduce(guesses)
