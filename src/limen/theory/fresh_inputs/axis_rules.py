r"""Gauss rules of the normal law on the pieces of an axis, for links whose kinks lie across the axes."""

from functools import lru_cache
from itertools import pairwise

import numpy as np

from limen.gaussian.panels import normal_density

REACH = 12.0
_FINE_NODES, _FINE_WEIGHTS = np.polynomial.legendre.leggauss(20)
PANELS = 24


@lru_cache(maxsize=64)
def axis_rule(breakpoints: tuple[float, ...], order: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights of the normal law, a Gauss rule of `order` points on each piece between `breakpoints`.

    Each from the Jacobi matrix of the normal density on its piece (Golub & Welsch), by Lanczos on a fine rule.
    """
    edges = np.array([-REACH, *(point for point in breakpoints if abs(point) < REACH), REACH])
    rules = [_piece(low, high, order) for low, high in pairwise(edges)]
    return np.concatenate([nodes for nodes, _ in rules]), np.concatenate([weights for _, weights in rules])


def _piece(low: float, high: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    cuts = np.linspace(low, high, PANELS + 1)
    half, centre = 0.5 * np.diff(cuts)[:, None], 0.5 * (cuts[1:] + cuts[:-1])[:, None]
    points = (centre + half * _FINE_NODES).ravel()
    density = (half * _FINE_WEIGHTS).ravel() * normal_density(points)
    mass = density.sum()
    if mass < 1e-15:
        return np.zeros(0), np.zeros(0)
    basis = np.zeros((order + 1, points.size))
    basis[0] = np.sqrt(density / mass)
    diagonal, beside = np.zeros(order), np.zeros(order)
    for n in range(order):
        new = points * basis[n]
        for _ in range(2):
            new -= basis[: n + 1].T @ (basis[: n + 1] @ new) if n else basis[0] * (basis[0] @ new)
        diagonal[n] = basis[n] @ (points * basis[n])
        beside[n] = np.linalg.norm(new)
        basis[n + 1] = new / beside[n]
    matrix = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, mass * vectors[0] ** 2
