r"""Hermite coefficients $c_m=E[g(\xi)he_m(\xi)]$: smooth functions by the trapezoid rule, those with
a kink at 0 by panels on either side."""

from functools import lru_cache

import numpy as np

from limen.gaussian.panels import normal_density
from limen.gaussian.quadrature import weighted_hermite

DEGREE = 100
# he_m times the root of the density is bounded, the other root ends the integrand at 12.
REACH, STEP = 12.4, 0.05
# Panels of half a line, and Gauss–Legendre nodes of each: he_100 turns five times in one. Half as many tell the error.
PANELS, ORDER = 24, 12


@lru_cache(maxsize=1)
def hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes (N,) and the matrix (N, degree + 1) that takes the values $g(\xi)$ at them to $c_m$."""
    nodes = np.arange(-REACH, REACH + STEP / 2, STEP)
    return nodes, STEP * (weighted_hermite(nodes, DEGREE) * np.sqrt(normal_density(nodes))).T


@lru_cache(maxsize=2)
def halves_rule(panels: int = PANELS) -> tuple[np.ndarray, np.ndarray]:
    """`hermite_rule` for functions that are smooth on either side of 0."""
    nodes, weights = np.polynomial.legendre.leggauss(ORDER)
    ends = np.linspace(0.0, REACH, panels + 1)
    half = 0.5 * np.diff(ends)[:, None]
    right = (ends[:-1, None] + half * (nodes + 1.0)).ravel()
    nodes, weights = np.concatenate([-right, right]), np.tile((half * weights).ravel(), 2)
    return nodes, weights[:, None] * (weighted_hermite(nodes, DEGREE) * np.sqrt(normal_density(nodes))).T
