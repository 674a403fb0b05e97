r"""One step of a staircase: the directions of $z$ that a class of label statistics sees at Hermite degree $\ell$.

With $E$ the directions already known and $z_\perp$ the coordinates orthogonal to it, the moments
$A_{f\alpha}=E[T_f\,he_\alpha(z_\perp)]$, $|\alpha|=\ell$, are estimated for many statistics $T_f$ in several Sobol
scrambles. Their right singular vectors are symmetric tensors of order $\ell$; the directions seen are the smallest
subspace on which the significant ones live.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from limen.link.label_points import label_points
from limen.problem.targets import Target

COUNT = 1 << 15
SCRAMBLES = 6
FEATURES = 100
ERRORS = 6.0
FLOOR = 2e-3
CHUNK = 1 << 13
SMALLEST_SHARE = 1e-3

Statistics = Callable[[np.ndarray, np.ndarray], np.ndarray]


class StaircasePoints(NamedTuple):
    """Latents (N, k) and statistics of the labels (N, features) at the points of one scramble."""

    latents: np.ndarray
    statistics: np.ndarray


@dataclass(frozen=True, eq=False)
class Step:
    """What one degree shows.

    `directions` (k, s) orthonormal, empty when nothing is significant; `singular_values` of the moments, descending,
    and `error`, the size below which a singular value is not told from zero; `angle` is the uncertainty of the
    directions.
    """

    directions: np.ndarray
    singular_values: np.ndarray
    error: float
    angle: float


def random_cosines(inputs: np.ndarray) -> np.ndarray:
    r"""$\cos(\omega_f\cdot u+\varphi_f)$, shape (points, 100); frequencies from smooth to one turn per deviation."""
    generator = np.random.default_rng(20)
    size = inputs.shape[1]
    scale = np.exp(generator.uniform(0.0, np.log(4.0), FEATURES)) / np.sqrt(max(size, 1))
    frequencies = generator.standard_normal((size, FEATURES)) * scale
    phases = generator.uniform(0.0, 2.0 * np.pi, FEATURES)
    # Single precision: its error is far below that of the points, and it takes a third of the time.
    angles = np.column_stack([inputs, np.ones(len(inputs))]).astype(np.float32) @ np.vstack(
        [frequencies, phases]
    ).astype(np.float32)
    return np.cos(angles, out=angles)


def staircase_points(target: Target, known: np.ndarray, statistics: Statistics) -> list[StaircasePoints]:
    r"""The points of six scrambles, with the `statistics` that may use the coordinates along `known` (k, s).

    `statistics` maps labels (N,) and known coordinates (N, s) to values (N, features) of size of order 1.
    """
    points = []
    for seed in range(SCRAMBLES):
        z, y = label_points(target, COUNT, 1000 + seed)
        points.append(StaircasePoints(z, statistics(y, z @ known)))
    return points


def staircase_step(points: list[StaircasePoints], known: np.ndarray, degree: int) -> Step:
    r"""The directions orthogonal to `known` (k, s) that the statistics see at one degree.

    A singular value counts when it exceeds six standard errors over scrambles, twice the largest that errors alone
    would give, and $2\cdot10^{-3}\sqrt{\text{features}}$. Cost: 2·10^5 products features × tensors.
    """
    unknown = complement(known)
    indices = _multi_indices(unknown.shape[1], degree)
    moments = []
    for z, values in points:
        total = np.zeros((values.shape[1], len(indices)))
        for start in range(0, COUNT, CHUNK):
            part = slice(start, start + CHUNK)
            total += (_hermite_products(z[part] @ unknown, indices, values.dtype) @ values[part]).T
        moments.append(total / COUNT)
    samples = np.array(moments)
    left_size, right_size = samples.shape[1:]
    _, singular, right = np.linalg.svd(samples.mean(0), full_matrices=False)
    spread = samples.std(0, ddof=1) / np.sqrt(SCRAMBLES)
    edge = float(np.sqrt(np.mean(spread**2))) * (np.sqrt(left_size) + np.sqrt(right_size))
    along = np.linalg.norm((samples @ right.T).std(0, ddof=1), axis=0) / np.sqrt(SCRAMBLES)
    limit = np.maximum(np.maximum(ERRORS * along, 2.0 * edge), FLOOR * np.sqrt(left_size))
    kept = np.flatnonzero(singular > limit)
    if kept.size == 0:
        return Step(np.zeros((len(known), 0)), singular, float(limit.max()), 0.0)
    angle = float(edge / singular[kept[-1]])
    inside = _essential(right[kept], indices, max(SMALLEST_SHARE, degree * (ERRORS * angle) ** 2))
    return Step(unknown @ inside, singular, float(limit.max()), angle)


def complement(basis: np.ndarray) -> np.ndarray:
    """Orthonormal columns (k, k-s) of the orthogonal complement of the columns of `basis` (k, s)."""
    k, size = basis.shape
    return np.eye(k) if size == 0 else np.linalg.svd(basis)[0][:, size:]


def readable(basis: np.ndarray, tolerance: float) -> np.ndarray:
    r"""An orthonormal basis of the same subspace with as many zeros and simple ratios as its accuracy allows.

    The columns are row-reduced; entries within `tolerance` of a multiple of 1/12 are set to it, and the result is
    orthonormalised in order, first entries positive. The subspace turns by at most about the tolerance.
    """
    reduced, pivots = basis.T.copy(), []
    for row in range(len(reduced)):
        size = np.linalg.norm(reduced[row:], axis=0)
        # The leftmost column that is not small, so that bases read from z1 on.
        pivot = int(np.flatnonzero(size > 0.3 * size.max())[0])
        top = row + int(np.argmax(np.abs(reduced[row:, pivot])))
        reduced[[row, top]] = reduced[[top, row]]
        reduced[row] /= reduced[row, pivot]
        others = np.arange(len(reduced)) != row
        reduced[others] -= np.outer(reduced[others, pivot], reduced[row])
        pivots.append(pivot)
    reduced = reduced[np.argsort(pivots)]
    simple = np.round(12.0 * reduced) / 12.0
    reduced = np.where(np.abs(reduced - simple) <= min(tolerance, 0.02), simple, reduced)
    triangular = np.linalg.qr(reduced.T)[0] if len(reduced) else basis
    triangular = np.where(np.abs(triangular) < 1e-12, 0.0, triangular)
    first = np.argmax(np.abs(triangular) > 1e-9, axis=0) if triangular.size else np.zeros(0, dtype=int)
    return triangular * np.sign(triangular[first, np.arange(triangular.shape[1])]) + 0.0


def _multi_indices(size: int, degree: int) -> np.ndarray:
    rows = [np.bincount(choice, minlength=size) for choice in combinations_with_replacement(range(size), degree)]
    return np.array(rows, dtype=int).reshape(-1, size)


def _hermite_products(z: np.ndarray, indices: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """$he_\\alpha(z)$, one row per multi-index, shape (tensors, points)."""
    degree = int(indices.sum(1).max(initial=0))
    table = np.empty((degree + 1, *z.T.shape))
    table[0] = 1.0
    if degree:
        table[1] = z.T
    for m in range(1, degree):
        table[m + 1] = (z.T * table[m] - m**0.5 * table[m - 1]) / (m + 1) ** 0.5
    table = table.astype(dtype)
    products = np.empty((len(indices), len(z)), dtype=dtype)
    for row, index in zip(products, indices, strict=True):
        axes = np.flatnonzero(index)
        row[:] = table[index[axes[0]], axes[0]]
        for axis in axes[1:]:
            row *= table[index[axis], axis]
    return products


def _essential(tensors: np.ndarray, indices: np.ndarray, share: float) -> np.ndarray:
    r"""Directions on which $\sum_\alpha v_\alpha he_\alpha$ depends: the range of $E[\nabla p\nabla p^\top]$."""
    position = {tuple(index): place for place, index in enumerate(indices.tolist())}
    size, degree = indices.shape[1], int(indices[0].sum())
    gram = np.zeros((size, size))
    for index in _multi_indices(size, degree - 1):
        up = [position[tuple(index + np.eye(size, dtype=int)[i])] for i in range(size)]
        slopes = tensors[:, up] * np.sqrt(index + 1.0)
        gram += slopes.T @ slopes
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, values > share * degree][:, ::-1]
