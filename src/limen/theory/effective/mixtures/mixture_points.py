"""Frozen antithetic normals behind every average over a mixture."""

from functools import lru_cache

import numpy as np

from limen.gaussian import sobol_normals
from limen.problem.spec import InputError


@lru_cache(maxsize=16)
def antithetic_points(dimension: int, count: int) -> np.ndarray:
    """`count` (a power of two) scrambled Sobol normals, half of them the other half's negatives: (count, dimension).

    The same at every call, so that averages over them are smooth deterministic functions of their parameters, and all
    odd moments vanish exactly.
    """
    half = sobol_normals(max(count // 2, 1), dimension)
    points = np.concatenate([half, -half])
    points.flags.writeable = False
    return points


@lru_cache(maxsize=16)
def whitened_points(dimension: int, count: int) -> np.ndarray:
    """`antithetic_points` with second moments exactly the identity: constant weights then show no direction."""
    points = antithetic_points(dimension, count)
    whitened = np.linalg.solve(np.linalg.cholesky(points.T @ points / count), points.T).T
    whitened.flags.writeable = False
    return whitened


def check_points(points: int) -> int:
    """The number of frozen points: a power of two of at least 256."""
    if isinstance(points, bool) or int(points) != points or points < 256 or int(points) & (int(points) - 1):
        raise InputError(f"points must be a power of two of at least 256, got {points!r}.")
    return int(points)
