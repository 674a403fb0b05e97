r"""The perceptron run point by point, and the separability of random labelings decided exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]

SMALLEST_RESIDUAL = 1e-10


@dataclass(frozen=True)
class PerceptronRun:
    """Where the perceptron stopped: its `weights`, the `mistakes` it made, the `passes` over the data it took, and
    whether the last pass was free of mistakes (`separated`)."""

    weights: Floats
    mistakes: int
    passes: int
    separated: bool


def perceptron(rows: ArrayLike, *, largest_passes: int = 10_000) -> PerceptronRun:
    r"""Cycles through `rows` $y_ix_i$ (n, d) from $w=0$ and adds to $w$ each one with $\langle w,y_ix_i\rangle\le0$,
    until a pass has no mistake or `largest_passes` are done."""
    points = np.asarray(rows, dtype=float)
    if points.ndim != 2 or 0 in points.shape:
        raise InputError(f"rows must be a non-empty matrix of labelled points y_i x_i, got shape {points.shape}.")
    weights, mistakes = np.zeros(points.shape[1]), 0
    for done in range(1, largest_passes + 1):
        before = mistakes
        for point in points:
            if point @ weights <= 0:
                weights, mistakes = weights + point, mistakes + 1
        if mistakes == before:
            return PerceptronRun(weights, mistakes, done, True)
    return PerceptronRun(weights, mistakes, largest_passes, False)


def is_separable(rows: ArrayLike) -> bool:
    r"""Whether some $w$ has $\langle w,y_ix_i\rangle>0$ for all `rows` $y_ix_i$ (n, d), none of them zero.

    By Gordan's alternative this fails if and only if some $a\ge0$ with $\sum_ia_i=1$ has $\sum_ia_iy_ix_i/\|x_i\|=0$.
    Both equations are solved for $a\ge0$ in least squares; a residual below $10^{-10}$ counts as none.
    """
    points = np.asarray(rows, dtype=float)
    norms = np.linalg.norm(points, axis=-1, keepdims=True)
    if points.ndim != 2 or 0 in points.shape or (norms == 0).any():
        raise InputError(f"rows must be a matrix of labelled points y_i x_i, none zero, got shape {points.shape}.")
    system = np.vstack([(points / norms).T, np.ones(len(points))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    return bool(nnls(system, target, maxiter=30 * len(points) + 300)[1] > SMALLEST_RESIDUAL)


def separable_count(seed: int, most: int, dimension: int) -> int:
    """How many of `most` Gaussian points with random labels, taken one after the other, a hyperplane through the origin
    separates. More points never make it easier, so the count is found by bisection. Random labels of symmetric points
    are points again, so the points alone are drawn."""
    rows = numpy_generator(seed, dimension, f"{most} points in order").standard_normal((most, dimension))
    # In general position any d points are separable.
    low, high = min(dimension, most), most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_separable(rows[:middle]) else (low, middle)
    return low
