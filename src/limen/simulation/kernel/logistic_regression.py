r"""Linear classification by plain gradient descent on the logistic, the exponential and softer losses."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]


def draw_labelled_points(seed: int, samples: int, dimension: int, gap: float = 0.0) -> Floats:
    r"""Rows $y_ix_i$ (n, d) of Gaussian inputs labelled by a random direction $u$, $y_i=\mathrm{sign}\langle u,x_i
    \rangle$, and moved away from its hyperplane by `gap`: separable with margin at least `gap`."""
    teacher = numpy_generator(seed, dimension, "teacher").standard_normal(dimension)
    teacher /= np.linalg.norm(teacher)
    inputs = numpy_generator(seed, dimension, "inputs").standard_normal((samples, dimension))
    return inputs * np.sign(inputs @ teacher)[:, None] + gap * teacher


def logistic_descent(rows: ArrayLike, step: float, steps: Sequence[int], start: ArrayLike | None = None) -> Floats:
    r"""Weights of $w\leftarrow w-\eta\nabla L$, $L=\frac1n\sum_i\log(1+e^{-\langle w,\bar x_i\rangle})$, at the step
    counts of `steps` (increasing): shape (count, d).

    `rows` (n, d) are $\bar x_i=y_ix_i$. Steps of $8/\lambda_{\max}(\frac1n\bar X^\top\bar X)$ or more are refused: the
    Hessian is at most $\frac14$ of that matrix. Cost $O(nd)$ per step.
    """
    points = _points(rows)
    largest = 8.0 * len(points) / float(np.linalg.norm(points, 2)) ** 2
    return _descend(points, lambda margins: expit(-margins), step, largest, steps, start)


def exponential_descent(rows: ArrayLike, step: float, steps: Sequence[int], start: ArrayLike | None = None) -> Floats:
    r"""The same for $L=\frac1n\sum_ie^{-\langle w,\bar x_i\rangle}$.

    Its Hessian is at most $\max_i\|\bar x_i\|^2L$, so steps of $2/(\max_i\|\bar x_i\|^2L(w_0))$ or more are refused.
    """
    points = _points(rows)
    origin = _origin(points, start)
    curvature = np.max(np.sum(points**2, axis=1)) * np.mean(np.exp(-(points @ origin)))
    return _descend(points, lambda margins: np.exp(-margins), step, 2.0 / curvature, steps, origin)


def softened_descent(rows: ArrayLike, softness: float, step: float, steps: Sequence[int]) -> Floats:
    r"""The same from 0 for $L=\frac1n\sum_i\frac1c\log(1+ce^{-\langle w,\bar x_i\rangle})$, $c$ = `softness` $>0$.

    Its Hessian is at most $\frac1{4c}\lambda_{\max}(\frac1n\bar X^\top\bar X)$, which bounds the step.
    """
    points = _points(rows)
    largest = 8.0 * softness * len(points) / float(np.linalg.norm(points, 2)) ** 2
    return _descend(points, lambda margins: 1.0 / (np.exp(margins) + softness), step, largest, steps, None)


def _descend(
    points: Floats,
    pull: Callable[[Floats], Floats],
    step: float,
    largest: float,
    steps: Sequence[int],
    start: ArrayLike | None,
) -> Floats:
    if not 0 < step < largest:
        raise InputError(f"step must be positive and below {largest:.6g}, where descent is stable, got {step}.")
    counts = [int(count) for count in steps]
    if not counts or counts[0] < 0 or any(later <= earlier for earlier, later in pairwise(counts)):
        raise InputError(f"steps must be an increasing list of step counts, got {list(steps)}.")
    weights, done, kept = _origin(points, start), 0, []
    for count in counts:
        for _ in range(count - done):
            weights = weights + step / len(points) * (pull(points @ weights) @ points)
        done = count
        kept.append(weights)
    return np.array(kept)


def _points(rows: ArrayLike) -> Floats:
    points = np.asarray(rows, dtype=float)
    if points.ndim != 2 or 0 in points.shape or not np.any(points):
        raise InputError(f"rows must be a non-zero matrix of labelled points y_i x_i, got shape {points.shape}.")
    return points


def _origin(points: Floats, start: ArrayLike | None) -> Floats:
    origin = np.zeros(points.shape[1]) if start is None else np.asarray(start, dtype=float)
    if origin.shape != points.shape[1:]:
        raise InputError(f"start must have one entry per column of rows ({points.shape[1]}), got {origin.shape}.")
    return origin
