r"""Spectrum of $\mu^2XX^\top/d+v\,\mathrm{diag}(\rho_i)$, $X\in\mathbb R^{n\times d}$ Gaussian: rows of unequal weight.

With $S_k(\omega)=\frac1n\sum_i(v\rho_i-\omega)^{-k}$ and $\gamma=n/d$ the Stieltjes transform is $S_1(\omega)$ at
$$z(\omega)=\omega+\frac{\mu^2}{1+\mu^2\gamma S_1(\omega)},$$
and the edges are the extrema of $z$ on the real axis below and above all $v\rho_i$ (Pastur 1972). The $\rho_i$ are the
quantiles of a Gamma law of mean 1: where $n$ independent weights typically lie, so that the least of them counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import gamma

from limen.theory.spectra.marchenko_pastur import TRACY_WIDOM_MEAN

CLOSE = 1e-9


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    found: Any = brentq(function, low, high, xtol=1e-14)
    return float(found)


@dataclass(frozen=True, eq=False)
class RowLaw:
    r"""`linear` is $\mu^2>0$, `weights` (n,) are $v\rho_i$, ascending; `ratio` is $\gamma=n/d$."""

    linear: float
    weights: np.ndarray
    ratio: float

    @classmethod
    def with_spread(cls, linear: float, level: float, variance: float, samples: int, dimension: int) -> "RowLaw":
        """Weights of mean `level` and relative variance `variance`."""
        rows = np.ones(samples)
        if level > 0.0 and variance > 0.0:
            rows = gamma.ppf((np.arange(samples) + 0.5) / samples, 1.0 / variance, scale=variance)
        return cls(linear, level * rows / rows.mean(), samples / dimension)

    def moment(self, place: float, order: int) -> float:
        r"""$S_k(\omega)$."""
        return float(np.mean((self.weights - place) ** -order))

    def map(self, place: float) -> float:
        r"""$z(\omega)$."""
        return place + self.linear / (1.0 + self.linear * self.ratio * self.moment(place, 1))

    def slope(self, place: float) -> float:
        r"""$z'(\omega)$."""
        inside = 1.0 + self.linear * self.ratio * self.moment(place, 1)
        return 1.0 - self.linear**2 * self.ratio * self.moment(place, 2) / inside**2

    def lower(self) -> float:
        r"""$\omega$ of the lower edge."""
        least, reach = float(self.weights[0]), self._reach()
        return _root(self.slope, least - 4.0 * reach, least - CLOSE * reach)

    def upper(self) -> float:
        r"""$\omega$ of the upper edge."""
        most, reach = float(self.weights[-1]), self._reach()
        pole = self.linear * self.ratio
        bottom = _root(lambda w: 1.0 + pole * self.moment(w, 1), most + CLOSE * pole, most + pole * (1.0 + CLOSE))
        return _root(self.slope, bottom + CLOSE * reach, most + 4.0 * reach)

    def typical_edges(self) -> tuple[float, float]:
        r"""Where the least and the largest eigenvalue lie in the mean: inside the edges by
        $|E\,TW_1|\,(\pi nC)^{-2/3}$, the density being $C\sqrt{|x-x_e|}$ there."""
        below, above = self.lower(), self.upper()
        return self.map(below) + self._depth(below), self.map(above) - self._depth(above)

    def mean_inverse(self) -> float:
        r"""$\int\lambda^{-1}d\mu=S_1$ where $z(\omega)=0$."""
        below = self.lower()
        place = _root(self.map, below - 4.0 * self._reach(), below)
        return self.moment(place, 1)

    def outlier(self, strength: float) -> float | None:
        r"""The eigenvalue that $\theta\,\mathbf 1\mathbf 1^\top/n$ adds above the bulk, at $S_1=-1/\theta$, or None."""
        edge = self.upper()
        if 1.0 + strength * self.moment(edge, 1) >= 0.0:
            return None
        return self.map(_root(lambda w: 1.0 + strength * self.moment(w, 1), edge, float(self.weights[-1]) + strength))

    def _depth(self, place: float) -> float:
        inside = 1.0 + self.linear * self.ratio * self.moment(place, 1)
        second, third = self.moment(place, 2), self.moment(place, 3)
        bend = -2.0 * self.linear**2 * self.ratio * third / inside**2
        bend += 2.0 * self.linear**3 * self.ratio**2 * second**2 / inside**3
        density = second * np.sqrt(2.0 / abs(bend)) / np.pi
        return -TRACY_WIDOM_MEAN * float((np.pi * self.weights.size * density) ** (-2.0 / 3.0))

    def _reach(self) -> float:
        """A length beyond which the bulk certainly ends."""
        return float(np.ptp(self.weights)) + self.linear * (1.0 + np.sqrt(self.ratio)) ** 2
