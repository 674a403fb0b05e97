"""Quadrature for a function of one standard Gaussian that may jump: cells shrink onto the jumps."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limen.problem.spec import InputError

REACH = 8.5
CELLS = 340
MOST_CELLS = 20_000
ALLOWED_CHANGE = 0.02
NARROWEST = 1e-12
SMALLEST_MASS = 1e-14
NODES_PER_CELL = 4


class GaussianNodes(NamedTuple):
    """Values of the function, places $s$, probabilities, and the largest change between nodes of one cell."""

    values: np.ndarray
    places: np.ndarray
    probabilities: np.ndarray
    resolution: float


def gaussian_nodes(function: Callable[[np.ndarray], np.ndarray], name: str) -> GaussianNodes:
    r"""Nodes and probabilities for expectations over $s\sim N(0,1)$ of smooth functions of $(g(s),s)$.

    Cells of width 0.05 are halved where $g$ changes by more than 2% of its range, down to $10^{-12}$, so that a jump
    ends up in a cell without mass; each cell carries four Gauss–Legendre nodes. Nodes lighter than $10^{-10}$ are
    dropped.
    """
    points, weights = np.polynomial.legendre.leggauss(NODES_PER_CELL)
    edges = np.linspace(-REACH, REACH, CELLS + 1)
    while True:
        width = np.diff(edges)
        places = 0.5 * (edges[:-1] + edges[1:])[:, None] + 0.5 * width[:, None] * points
        masses = 0.5 * width[:, None] * weights * np.exp(-0.5 * places**2) / np.sqrt(2.0 * np.pi)
        values = _evaluate(function, places, name)
        ends = _evaluate(function, edges, name)
        heavy = masses > SMALLEST_MASS
        # With the ends: a jump between the last node and the end of a cell must not pass unseen.
        change = np.ptp(np.column_stack([ends[:-1], values, ends[1:]]), axis=1)
        coarse = (change > ALLOWED_CHANGE * np.ptp(values[heavy])) & heavy.any(axis=1) & (width > NARROWEST)
        if not coarse.any() or edges.size > MOST_CELLS:
            break
        edges = np.union1d(edges, 0.5 * (edges[:-1] + edges[1:])[coarse])
    smooth = heavy.any(axis=1) & (width > NARROWEST)
    resolution = float(change[smooth].max(initial=0.0))
    return GaussianNodes(values[heavy], places[heavy], masses[heavy] / masses[heavy].sum(), resolution)


def _evaluate(function: Callable[[np.ndarray], np.ndarray], places: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(function(places.ravel()), dtype=float)
    if values.shape not in ((), (places.size,)):
        raise InputError(f"{name} must return one value per entry, got shape {values.shape} for {places.size} entries.")
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite on [-{REACH}, {REACH}], got a value that is not.")
    return np.broadcast_to(values, (places.size,)).reshape(places.shape)
