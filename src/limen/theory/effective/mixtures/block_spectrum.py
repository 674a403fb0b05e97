r"""Bulk, outliers and alignment of a test block $\frac1{\tilde M}\sum_lw_lY_lY_l^\top$ of a Gaussian mixture.

The weights $w_l$ depend on $Y_l$ through its coordinates $Y_U$ in $U$, the span of the means and of the parameters;
orthogonal to $U$ the inputs are noise of variance $1/\lambda$. As $d,\tilde M\to\infty$ with $\gamma=d/\tilde M$ fixed,
$\tau=w/\lambda$, the bulk solves $z=-\frac1S+E\frac\tau{1+\gamma\tau S}$, outliers solve
$\det\big(E\frac{w\,Y_UY_U^\top}{1+\gamma\tau S(z)}-z\big)=0$, and a vector $x\in U$ has the alignment
$\rho^2=\sum_j|P_U\hat u_j|^2(u_j\cdot x)^2/\|x\|^2$ with the outliers' eigenvectors (extends Ben Arous, Gheissari,
Huang & Jagannath 2023 to a finite ratio $\gamma$; the laws are those of `limen.spectra`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from limen.theory.spectra import WeightedLaw, subspace_outliers

# Share of the samples whose removal moves the edge by its `edge_uncertainty`, and the relative move called soft.
TAIL = 1e-3
SOFT = 0.02
SAMPLE_BINS = 200
NULL = 1e-12
LEAST_RATIO, LARGEST_RATIO = 1e-4, 1e6


class WeightedInputs(NamedTuple):
    r"""The law of a block: weights $w$ (n,), $Y_U$ (n, u), probabilities (n,), $1/\lambda$, and $x$ (u,) in $U$."""

    weights: np.ndarray
    coordinates: np.ndarray
    probabilities: np.ndarray
    bulk_variance: float
    vector: np.ndarray


@dataclass(frozen=True)
class SpectralBlock:
    """A block of a test Hessian or gradient second moment, as test size and dimension go to infinity together.

    Attributes:
        edge: upper edge of the bulk.
        outliers: eigenvalues above it, descending.
        alignment: norm of the projection of the block's own weight vector on the span of its leading eigenvectors, over
            its norm; NaN for the zero vector.
        overlaps: squared norm of the projection on the signal space of each outlier's eigenvector.
        lower_edge, lower_outliers: the same below the bulk, the most distant first.
        edge_uncertainty: how far the edge moves when the heaviest thousandth of the samples is left out.
        soft: whether that is more than 2% of the edge; the largest bulk eigenvalue at finite size then lies below it,
            and eigenvalues closer to it than `edge_uncertainty` are not told from the bulk.
        dead: whether the block vanishes, or its neuron has left the competition (second layer near zero).
    """

    edge: float
    outliers: np.ndarray
    alignment: float
    overlaps: np.ndarray
    lower_edge: float
    lower_outliers: np.ndarray
    edge_uncertainty: float = 0.0
    soft: bool = False
    dead: bool = False

    def leading(self, count: int) -> np.ndarray:
        """The `count` largest eigenvalues: outliers descending, then the edge for those that have not left the bulk."""
        return np.append(self.outliers, [self.edge] * count)[:count]


def block_spectrum(inputs: WeightedInputs, ratio: float, leading: int, dead: bool = False) -> SpectralBlock:
    r"""The spectrum of a block at $\gamma=$ `ratio`; the alignment is with its `leading` eigenvectors.

    Leading means largest in absolute value, which matters for blocks of signed weights; eigenvectors of the bulk
    count for nothing. $\lambda=\infty$: no bulk, and the block is a matrix on $U$.
    """
    nothing = np.empty(0)
    if not inputs.weights.any():
        return SpectralBlock(0.0, nothing, float("nan"), nothing, 0.0, nothing, dead=True)
    if inputs.bulk_variance == 0.0:
        return _without_bulk(inputs, leading, dead)
    lower, upper = _edges(inputs, inputs.probabilities, ratio)
    found = subspace_outliers(inputs.weights, inputs.coordinates, ratio, inputs.bulk_variance, inputs.probabilities)
    uncertainty = upper - _edges(inputs, _without_tail(inputs), ratio)[1]
    soft = bool(uncertainty > SOFT * abs(upper))
    top = upper + uncertainty if soft else upper
    above = [outlier for outlier in reversed(found) if outlier.location > top]
    below = [outlier for outlier in found if outlier.location < lower]
    bulk = max(abs(lower), abs(upper))
    distant = [one for one in (*above, *below) if abs(one.location) > bulk]
    ranked = sorted(distant, key=lambda one: -abs(one.location))[:leading]
    total = sum(one.overlap_squared * float(one.direction @ inputs.vector) ** 2 for one in ranked)
    return SpectralBlock(
        upper,
        np.array([one.location for one in above]),
        _alignment(total, inputs.vector),
        np.array([one.overlap_squared for one in above]),
        lower,
        np.array([one.location for one in below]),
        uncertainty,
        soft,
        dead,
    )


def emergence_ratio(inputs: WeightedInputs, outlier: int) -> float:
    r"""The largest $\gamma=d/\tilde M$ at which `outlier` eigenvalues (1, 2, ...) stand above the bulk; 0 if none does.

    An outlier meets the edge where the eigenvalue of the outlier equation at the edge equals the edge itself. Ratios
    below 1e-4 are not looked at: the frozen points do not resolve directions that weak.
    """
    size = inputs.coordinates.shape[1]
    if outlier > size or inputs.bulk_variance == 0.0:
        return 0.0 if outlier > size else np.inf
    values, masses = inputs.weights, inputs.probabilities
    products = (inputs.coordinates[:, :, None] * inputs.coordinates[:, None, :]).reshape(values.size, -1)
    moments = (masses * values)[:, None] * products

    def height(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        law = _law(inputs, masses, ratio)
        point = float(law.subordination.bands[-1, 1])
        place = float(law.subordination.map(np.array([point]))[0])
        poles = ratio * inputs.bulk_variance * values
        block = ((point / (point - poles)) @ moments).reshape(size, size)
        return float(np.linalg.eigvalsh(0.5 * (block + block.T))[size - outlier]) - place

    low, high = np.log(LEAST_RATIO), np.log(LARGEST_RATIO)
    if height(low) <= 0.0:
        return 0.0
    if height(high) >= 0.0:
        return np.inf
    found = float(brentq(height, low, high, xtol=1e-10))  # pyright: ignore[reportArgumentType]
    return math.exp(found)


def _law(inputs: WeightedInputs, probabilities: np.ndarray, ratio: float) -> WeightedLaw:
    variances = inputs.bulk_variance * inputs.weights
    resolution = float(np.ptp(variances)) / SAMPLE_BINS if variances.size > SAMPLE_BINS else 0.0
    return WeightedLaw(variances, probabilities, ratio, resolution)


def _edges(inputs: WeightedInputs, probabilities: np.ndarray, ratio: float) -> tuple[float, float]:
    edges = _law(inputs, probabilities, ratio).edges()
    return float(edges[0]), float(edges[-1])


def _without_tail(inputs: WeightedInputs) -> np.ndarray:
    order = np.argsort(-inputs.weights)
    kept = inputs.probabilities.copy()
    heaviest = order[np.cumsum(kept[order]) <= TAIL]
    # A plateau of equal weights is no tail: dropping part of it changes nothing.
    kept[heaviest] = 0.0
    return kept / kept.sum()


def _without_bulk(inputs: WeightedInputs, leading: int, dead: bool) -> SpectralBlock:
    weighted = (inputs.probabilities * inputs.weights)[:, None] * inputs.coordinates
    values, vectors = np.linalg.eigh(inputs.coordinates.T @ weighted)
    present = np.abs(values) > NULL * np.abs(values).max()
    ranked = [i for i in np.argsort(-np.abs(values)) if present[i]][:leading]
    total = float(((inputs.vector @ vectors[:, ranked]) ** 2).sum())
    above = values[present & (values > 0.0)][::-1]
    return SpectralBlock(
        0.0, above, _alignment(total, inputs.vector), np.ones(above.size), 0.0, values[present & (values < 0.0)],
        dead=dead,
    )  # fmt: skip


def _alignment(projection_squared: float, vector: np.ndarray) -> float:
    square = float(vector @ vector)
    return float(np.sqrt(projection_squared / square)) if square > 0.0 else float("nan")
