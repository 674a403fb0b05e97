r"""Functions of a correlation $\rho=\cos t$ as Chebyshev series in the angle $t\in[0,\pi]$."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

LONGEST = 256
ACCURACY = 1e-13


@dataclass(frozen=True, eq=False)
class AngleSeries:
    r"""$F(t)=\sum_jf_jT_j(2t/\pi-1)$ and the size of its truncation error.

    Duals of kinked activations are smooth in the angle although not in the correlation (for ReLU
    $h(\cos t)=(\sin t+(\pi-t)\cos t)/2\pi$), which is why the angle is the variable.
    """

    coefficients: np.ndarray
    error: float

    def __call__(self, correlation: np.ndarray) -> np.ndarray:
        """Values at correlations in [-1, 1]."""
        return chebyshev.chebval(2 / np.pi * np.arccos(correlation) - 1, self.coefficients)

    def slope(self) -> "AngleSlope":
        r"""$dF/d\rho=-F'(t)/\sin t$."""
        return AngleSlope(chebyshev.chebder(self.coefficients) * 2 / np.pi, self.error)


@dataclass(frozen=True, eq=False)
class AngleSlope:
    r"""$-F'(t)/\sin t$, finite at $t=0,\pi$ only where $F'$ vanishes there; infinite otherwise."""

    coefficients: np.ndarray
    series_error: float

    @property
    def error(self) -> float:
        """Truncation error in the middle of the interval: differentiation costs a factor of the degree squared."""
        return self.series_error * len(self.coefficients) ** 2

    def __call__(self, correlation: np.ndarray) -> np.ndarray:
        """Values at correlations in [-1, 1]."""
        angle = np.arccos(correlation)
        sine = np.sqrt((1 - correlation) * (1 + correlation))
        inside = -chebyshev.chebval(2 / np.pi * angle - 1, self.coefficients) / np.where(sine > 0, sine, 1.0)
        return np.where(sine > 0, inside, self._at_ends(correlation))

    def slope(self) -> "AngleSlope | AngleCurvature":
        """One more derivative: through a series of the quotient while that is finite, else term by term."""
        if not np.all(np.isfinite(self._at_ends(np.array([-1.0, 1.0])))):
            return AngleCurvature(self.coefficients, self.series_error)
        series = angle_series(lambda angle: float(self(np.cos(angle))), float(np.max(np.abs(self.coefficients))))
        return AngleSeries(series.coefficients, max(series.error, self.error)).slope()

    def _at_ends(self, correlation: np.ndarray) -> np.ndarray:
        """By L'Hopital where the numerator vanishes within its error, else the infinity of its sign."""
        numerator = -chebyshev.chebval(np.array([1.0, -1.0]), self.coefficients)
        curvature = chebyshev.chebval(np.array([1.0, -1.0]), chebyshev.chebder(self.coefficients) * 2 / np.pi)
        size = np.max(np.abs(self.coefficients), initial=1e-300)
        vanishes = np.abs(numerator) <= max(1e3 * self.error, 1e-9 * size)
        at_minus, at_plus = np.where(vanishes, curvature * np.array([1.0, -1.0]), np.copysign(np.inf, numerator))
        return np.where(correlation > 0, at_plus, at_minus)


@dataclass(frozen=True, eq=False)
class AngleCurvature:
    r"""$d^2F/d\rho^2=(F''\sin t-F'\cos t)/\sin^3t$ from the series of $F'$.

    At $\rho=\pm1$ it is infinite where $F'$ does not vanish, else nan: the series does not determine it.
    """

    coefficients: np.ndarray
    series_error: float

    @property
    def error(self) -> float:
        """Truncation error in the middle of the interval."""
        return self.series_error * len(self.coefficients) ** 4

    def __call__(self, correlation: np.ndarray) -> np.ndarray:
        """Values at correlations in [-1, 1]."""
        position = 2 / np.pi * np.arccos(correlation) - 1
        sine = np.sqrt((1 - correlation) * (1 + correlation))
        first = chebyshev.chebval(position, self.coefficients)
        second = chebyshev.chebval(position, chebyshev.chebder(self.coefficients) * 2 / np.pi)
        numerator = second * sine - first * correlation
        inside = numerator / np.where(sine > 0, sine, 1.0) ** 3
        size = np.max(np.abs(self.coefficients), initial=1e-300)
        at_end = np.where(np.abs(numerator) > 1e-9 * size, np.copysign(np.inf, numerator), np.nan)
        return np.where(sine > 0, inside, at_end)


def angle_series(function: Callable[[float], float], scale: float, longest: int = LONGEST) -> AngleSeries:
    """The series of a function of the angle, its length doubled from 16 to at most `longest` until the tail is below
    1e-13 of `scale`."""
    values: dict[float, float] = {}
    coefficients, error, degree = np.zeros(1), np.inf, 16
    while degree <= longest:
        fractions = np.arange(degree + 1) / degree
        for fraction in fractions:
            if fraction not in values:
                values[fraction] = function(0.5 * np.pi * (1 + np.cos(np.pi * fraction)))
        samples = np.array([values[fraction] for fraction in fractions])
        coefficients = chebyshev_coefficients(samples)
        error = float(np.max(np.abs(coefficients[-(degree // 8) - 1 :])))
        if error <= ACCURACY * scale:
            break
        degree *= 2
    return AngleSeries(coefficients, error)


def chebyshev_coefficients(samples: np.ndarray) -> np.ndarray:
    r"""Coefficients of the interpolant through values at $\cos(\pi j/N)$, $j=0..N$."""
    from scipy.fft import dct

    coefficients = np.asarray(dct(samples, type=1)) / (len(samples) - 1)
    coefficients[[0, -1]] *= 0.5
    return coefficients
