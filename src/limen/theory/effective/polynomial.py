"""Polynomials in several variables fitted to noisy values by weighted least squares."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Polynomial:
    """Values (point, output) as a polynomial of total degree `degree`, held constant outside the box of its data."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    degree: int
    coefficients: NDArray[np.float64]
    misfit: float

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values (point, output) at points (point, variable)."""
        return _features(np.clip(points, self.low, self.high), self.low, self.high, self.degree) @ self.coefficients

    def outside(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which points lie outside the box of the data by more than a twentieth of its sides."""
        margin = 0.05 * (self.high - self.low)
        return np.any((points < self.low - margin) | (points > self.high + margin), axis=-1)


def fitted(
    points: NDArray[np.float64], values: NDArray[np.float64], errors: NDArray[np.float64], degree: int
) -> Polynomial:
    """Weighted least squares; `misfit` is the mean over outputs of chi squared per degree of freedom."""
    low, high = points.min(axis=0), points.max(axis=0)
    high = np.where(high - low > 1e-12 * (1.0 + np.abs(high)), high, low + 1.0)
    features = _features(points, low, high, degree)
    columns, misfits = [], []
    for value, error in zip(values.T, errors.T, strict=True):
        # Errors of single points are themselves estimates: none is trusted beyond a fifth of the typical one.
        weight = 1.0 / np.maximum(error, 0.2 * np.median(error) + 1e-12 * (1.0 + np.abs(value).max()))
        column = np.linalg.lstsq(features * weight[:, None], value * weight, rcond=1e-10)[0]
        columns.append(column)
        freedom = max(1, len(value) - features.shape[1])
        misfits.append(float(np.sum(((features @ column - value) * weight) ** 2)) / freedom)
    return Polynomial(low, high, degree, np.stack(columns, axis=1), float(np.mean(misfits)))


def _features(points: NDArray[np.float64], low: np.ndarray, high: np.ndarray, degree: int) -> NDArray[np.float64]:
    scaled = 2.0 * (points - low) / (high - low) - 1.0
    columns = [np.ones(points.shape[:-1])]
    for total in range(1, degree + 1):
        for chosen in combinations_with_replacement(range(points.shape[-1]), total):
            columns.append(np.prod(scaled[..., list(chosen)], axis=-1))
    return np.stack(columns, axis=-1)
