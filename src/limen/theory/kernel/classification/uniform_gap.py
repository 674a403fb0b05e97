r"""The exact uniform deviation of empirical from true risk over a ball, beside the gap of the least-squares fit."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from limen import checks
from limen.problem.spec import InputError

# Fifth powers of 1/radius are still numbers.
SMALLEST_RADIUS = 1e-60


@dataclass(frozen=True)
class UniformGap:
    r"""`empirical_above` $=\sup_{\|\theta\|\le\rho}(\hat R-R)$ and `true_above` $=\sup_{\|\theta\|\le\rho}(R-\hat R)$;
    the second is what a guarantee by uniform convergence pays."""

    empirical_above: float
    true_above: float

    @property
    def largest(self) -> float:
        r"""$\sup_{\|\theta\|\le\rho}|\hat R-R|$."""
        return max(self.empirical_above, self.true_above)


@dataclass(frozen=True)
class FitGap:
    r"""Least-squares fit: `gap` $=R-\hat R$ of the fitted model and its `squared_norm` $\|\hat\theta\|^2$, to be
    compared with a uniform gap over a ball that contains it."""

    gap: float
    squared_norm: float


def uniform_gap(ratio: float, radius: float, noise: float, signal: float = 1.0) -> UniformGap:
    r"""Limit of $\sup_{\|\theta\|\le\rho}\pm(\hat R-R)$ for the square loss as $n,d\to\infty$ with $d/n\to\gamma$.

    $x\sim N(0,I_d)$, $y=\langle\beta,x\rangle+\varepsilon$ with noise variance $\sigma^2$, $\|\beta\|=r$; $\hat R$ and
    $R$ are mean squares without $\frac12$, noise included. Both signs $\varsigma=\pm1$ are trust-region problems. With
    $l=\varsigma(s-1)$, $b^2=r^2l^2+\sigma^2\gamma s$ and $s$ of the Marchenko–Pastur law, atom included,
    $$\sup\varsigma(\hat R-R)=\min_{\mu\ge\max l}\ \rho^2\mu+\int\frac{b^2}{\mu-l}.$$
    The integrals are elementary. In the variable $G=\int\frac1{\mu-l}$, from 0 up to its value
    $1/(\sqrt\gamma+\varsigma\gamma)$ at the edge of the spectrum (infinite for $\varsigma=-1$, $\gamma\ge1$),
    $$\mu=\frac1G+\frac{\gamma G}{1-\varsigma\gamma G},\qquad
      \int\frac{b^2}{\mu-l}=\gamma\,\frac{r^2\mu G^2+\sigma^2G}{1-\varsigma\gamma G}.$$

    `ratio` $\gamma$, `radius` $\rho$, `noise` $\sigma^2$, `signal` $r$. Cost: one scalar root.
    """
    gamma = checks.positive("ratio", ratio)
    rho = checks.positive("radius", radius)
    if rho < SMALLEST_RADIUS:
        raise InputError(f"radius must be at least {SMALLEST_RADIUS:g}, got {rho:g}.")
    variance = checks.non_negative("noise", noise)
    size = checks.non_negative("signal", signal)
    above, below = (_supremum(sign, gamma, rho**2, variance, size**2) for sign in (1.0, -1.0))
    return UniformGap(above, below)


def least_squares_gap(ratio: float, noise: float, signal: float = 1.0) -> FitGap:
    r"""Gap $R-\hat R$ of least squares (the least-norm interpolator for $\gamma>1$) in the setting of `uniform_gap`.

    For $\gamma<1$, $\hat R=\sigma^2(1-\gamma)$, $R=\frac{\sigma^2}{1-\gamma}$ and
    $\|\hat\theta\|^2=r^2+\frac{\sigma^2\gamma}{1-\gamma}$. For $\gamma>1$, $\hat R=0$,
    $R=r^2(1-\frac1\gamma)+\frac{\sigma^2\gamma}{\gamma-1}$ and
    $\|\hat\theta\|^2=\frac{r^2}\gamma+\frac{\sigma^2}{\gamma-1}$. $\gamma=1$ is refused: the fit is infinite.
    """
    gamma = checks.positive("ratio", ratio)
    variance = checks.non_negative("noise", noise)
    energy = checks.non_negative("signal", signal) ** 2
    if gamma == 1.0:
        raise InputError("ratio must not be 1, where least squares diverges, got 1.0.")
    if gamma < 1:
        return FitGap(variance * (1 / (1 - gamma) - (1 - gamma)), energy + variance * gamma / (1 - gamma))
    risk = energy * (1 - 1 / gamma) + variance * gamma / (gamma - 1)
    return FitGap(risk, energy / gamma + variance / (gamma - 1))


def _supremum(sign: float, gamma: float, ball: float, noise: float, energy: float) -> float:
    # In u = 1/G the edge is finite for both signs, and 0 stands for an infinite G.
    edge = max(0.0, np.sqrt(gamma) + sign * gamma)

    def bound(u: float) -> float:
        share = u - sign * gamma
        return ball * (u + gamma / share) + gamma * (energy * (1 + gamma / (u * share)) + noise) / share

    def slope(u: float) -> float:
        share = u - sign * gamma
        inverse_square = ball * gamma + gamma * (energy + noise)
        return ball - inverse_square / share**2 - gamma**2 * energy * (share + 2 * u) / (u**2 * share**3)

    if energy == 0.0:
        share = max(np.sqrt(gamma * (1 + noise / ball)), edge - sign * gamma)
        return float(ball * (share + sign * gamma + gamma / share) + gamma * noise / share)
    low = edge if edge > 0 else np.sqrt(energy / ball) * 1e-3
    while slope(low) > 0 and edge == 0.0:
        low /= 10
    high = edge + 1.0
    while slope(high) < 0:
        high = edge + 2 * (high - edge)
    return bound(float(brentq(slope, low, high, xtol=1e-300, rtol=1e-14)))  # pyright: ignore[reportArgumentType]
