r"""Hermite coefficients $c_m=E[g(\xi)he_m(\xi)]$ of a smooth function by the trapezoid rule."""

from functools import lru_cache

import numpy as np

from limen.gaussian.panels import normal_density
from limen.gaussian.quadrature import weighted_hermite

DEGREE = 100
# he_m times the root of the density is bounded, the other root ends the integrand at 12.
REACH, STEP = 12.4, 0.05


@lru_cache(maxsize=1)
def hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes (N,) and the matrix (N, degree + 1) that takes the values $g(\xi)$ at them to $c_m$."""
    nodes = np.arange(-REACH, REACH + STEP / 2, STEP)
    return nodes, STEP * (weighted_hermite(nodes, DEGREE) * np.sqrt(normal_density(nodes))).T
