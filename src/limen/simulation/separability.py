r"""The perceptron run point by point, and the separability of random labelings decided by linear programming."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]


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
    r"""Whether some $w$ has $\langle w,y_ix_i\rangle>0$ for all `rows` $y_ix_i$: feasibility of
    $\langle w,y_ix_i\rangle\ge1$, by linear programming (HiGHS)."""
    points = np.asarray(rows, dtype=float)
    answer = linprog(
        np.zeros(points.shape[1]), A_ub=-points, b_ub=-np.ones(len(points)), bounds=(None, None), method="highs"
    )
    if answer.status not in (0, 2):
        raise ArithmeticError(f"The linear program gave no answer: {answer.message}")
    return answer.status == 0


def separable_labelings(samples: int, dimension: int, *, draws: int, seed: int = 0) -> NDArray[np.bool_]:
    """For each of `draws` sets of Gaussian points with random labels, whether a hyperplane through the origin separates
    them. Random labels of symmetric points are points again, so the points alone are drawn."""
    points = numpy_generator(seed, dimension, f"{samples} points").standard_normal((draws, samples, dimension))
    return np.array([is_separable(rows) for rows in points])
