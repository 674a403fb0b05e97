r"""Local regression on drawn data with a k-d tree: singular Nadaraya–Watson weights, and nearest neighbours."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]

PLACES = 64


def singular_nadaraya_watson(
    inputs: ArrayLike, labels: ArrayLike, queries: ArrayLike, bandwidth: float, exponent: float
) -> Floats:
    r"""$\hat f(x)=\frac{\sum_iY_iK((x-X_i)/h)}{\sum_iK((x-X_i)/h)}$ with $K(u)=\|u\|^{-a}1(\|u\|\le1)$, at each query.

    `inputs` (n, d), `labels` (n,), `queries` (m, d); `exponent` is $a$, strictly between 0 and $d/2$. A query that hits
    an input returns its label, one without inputs within $h$ returns 0. Distances are divided by the smallest before
    the power is taken, so nothing overflows. Cost $O(\log n+nh^d)$ per query; meant for $d\lesssim8$.
    """
    points, values, places = _regression(inputs, labels, queries)
    check_kernel(bandwidth, exponent, points.shape[1])
    tree = KDTree(points)
    answers = np.zeros(len(places))
    for index, (place, near) in enumerate(zip(places, tree.query_ball_point(places, bandwidth), strict=True)):
        if near:
            distances = np.linalg.norm(points[near] - place, axis=1)
            answers[index] = _weighted_mean(distances, values[near], exponent)
    return answers


def nearest_neighbour_regression(inputs: ArrayLike, labels: ArrayLike, queries: ArrayLike, neighbours: int) -> Floats:
    r"""$\hat f_k(x)=\frac1k\sum_{l\le k}Y_{(l)}(x)$, the mean label of the $k$ nearest inputs, at each query."""
    points, values, places = _regression(inputs, labels, queries)
    _, nearest = _nearest(points, places, neighbours)
    return values[nearest].mean(axis=1)


def neighbour_distances(inputs: ArrayLike, queries: ArrayLike, neighbours: int) -> Floats:
    r"""Distances from each query to its nearest, second nearest, ..., $k$-th nearest input: shape (m, k)."""
    return _nearest(np.asarray(inputs, dtype=float), np.asarray(queries, dtype=float), neighbours)[0]


def singular_smoother_errors(
    samples: int,
    bandwidth: float,
    *,
    dimension: int,
    exponent: float,
    noise: float,
    smoothness: float = 1.0,
    height: float = 1.0,
    sets: int = 1,
    seed: int,
) -> Floats:
    r"""Squared errors of the singular smoother at interior points of `sets` data sets, shape (set, place).

    Inputs are uniform on the unit cube. The places form a grid at least $2h$ apart and $h$ from the boundary, so that
    no input serves two of them; at each place $x_0$ the labels are
    $L\|X_i-x_0\|^\beta+\sigma\varepsilon_i$ and the value to find is 0.
    """
    check_kernel(bandwidth, exponent, dimension)
    places = _grid(bandwidth, dimension)
    inputs, noises = _uniform_inputs(seed, (sets, samples), dimension, noise)
    errors = np.zeros((sets, len(places)))
    for row, (points, added) in enumerate(zip(inputs, noises, strict=True)):
        balls = KDTree(points).query_ball_point(places, bandwidth)
        for index, (place, near) in enumerate(zip(places, balls, strict=True)):
            if near:
                distances = np.linalg.norm(points[near] - place, axis=1)
                labels = height * distances**smoothness + added[near]
                errors[row, index] = _weighted_mean(distances, labels, exponent) ** 2
    return errors


def nearest_neighbour_errors(
    samples: int, most: int, *, dimension: int, noise: float, laplacian: float, margin: float, seed: int
) -> tuple[Floats, Floats]:
    r"""Bias and error of the noise, each (place, k), of regression by $k=1,\dots,$`most` neighbours on one data set.

    Inputs are uniform on the unit cube. At each place $x_0$ of a grid of about 64, `margin` away from the boundary, the
    target is $\frac{\Delta f}{2d}\|X_i-x_0\|^2$, whose value to find is 0. The estimate is linear in the labels: the
    two answers are its values for labels without noise and for the noise alone.
    """
    axis = np.linspace(margin, 1 - margin, round(PLACES ** (1 / dimension)))
    places = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    points, noises = _uniform_inputs(seed, (samples,), dimension, noise)
    distances, nearest = _nearest(points, places, most)
    counts = np.arange(1, most + 1)
    targets = laplacian / (2 * dimension) * distances**2
    return np.cumsum(targets, axis=1) / counts, np.cumsum(noises[nearest], axis=1) / counts


def check_kernel(bandwidth: float, exponent: float, dimension: int) -> None:
    """Refuses bandwidths that are not positive and exponents whose squared weights are not integrable."""
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive, got {bandwidth}.")
    if not 0 < exponent < dimension / 2:
        raise InputError(
            f"exponent must be between 0 and dimension/2 = {dimension / 2}, both excluded, got {exponent}."
        )


def _uniform_inputs(seed: int, shape: tuple[int, ...], dimension: int, noise: float) -> tuple[Floats, Floats]:
    points = numpy_generator(seed, shape[-1], "inputs").random((*shape, dimension))
    return points, np.sqrt(noise) * numpy_generator(seed, shape[-1], "label noise").standard_normal(shape)


def _weighted_mean(distances: Floats, labels: Floats, exponent: float) -> float:
    nearest = distances.min()
    if nearest == 0.0:
        return float(labels[np.argmin(distances)])
    weights = (distances / nearest) ** -exponent
    return float(weights @ labels / weights.sum())


def _grid(bandwidth: float, dimension: int) -> Floats:
    if bandwidth > 0.5:
        raise InputError(f"bandwidth must be at most 0.5, half the side of the cube of inputs, got {bandwidth}.")
    # The small term keeps round-off from dropping a place when 1/(2h) is whole.
    count = 1 + int((1 - 2 * bandwidth) / (2 * bandwidth) + 1e-9)
    axis = np.linspace(bandwidth, 1 - bandwidth, count) if count > 1 else np.array([0.5])
    return np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


def _regression(inputs: ArrayLike, labels: ArrayLike, queries: ArrayLike) -> tuple[Floats, Floats, Floats]:
    points, values, places = (np.asarray(array, dtype=float) for array in (inputs, labels, queries))
    if points.ndim != 2 or 0 in points.shape or values.shape != points.shape[:1]:
        raise InputError(f"labels must have one entry per row of inputs, got shapes {values.shape}, {points.shape}.")
    if places.ndim != 2 or places.shape[1] != points.shape[1]:
        raise InputError(f"queries must have rows of {points.shape[1]} coordinates, got shape {places.shape}.")
    groups = np.unique(points, axis=0, return_inverse=True)[1].ravel()
    first = np.full(groups.max() + 1, np.nan)
    first[groups[::-1]] = values[::-1]
    if (first[groups] != values).any():
        raise InputError("inputs must not contain the same point with two different labels.")
    return points, values, places


def _nearest(points: Floats, places: Floats, neighbours: int) -> tuple[Floats, NDArray[np.int64]]:
    count = len(points)
    if int(neighbours) != neighbours or not 1 <= neighbours <= count:
        raise InputError(
            f"neighbours must be a whole number from 1 to {count}, the number of inputs, got {neighbours}."
        )
    ranks = list(range(1, int(neighbours) + 1))  # a list keeps the last axis when only one neighbour is asked for
    return KDTree(points).query(places, k=ranks)  # pyright: ignore[reportArgumentType, reportReturnType]
