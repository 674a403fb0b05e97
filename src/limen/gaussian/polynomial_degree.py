"""Whether a function is a polynomial, and of which degree, by its values."""

from collections.abc import Callable

import numpy as np

MOST_DEGREE, LINES, REACH = 6, 4, 8.0
ROUNDING = 1e-11


def polynomial_degree(function: Callable, variables: int) -> int | None:
    """The total degree of `function`, None where it is none of degree at most six.

    `function` takes points (N, variables), or (N, 1) of one variable entry by entry. Along random lines a polynomial of
    total degree r is one of degree r in one variable: fitted at Chebyshev's points, tried there and between them.
    """
    random = np.random.default_rng(0)
    nodes = np.cos(np.pi * (np.arange(48) + 0.5) / 48)
    degree = 0
    for _ in range(LINES):
        middle, way = random.standard_normal((2, variables))
        with np.errstate(all="ignore"):
            values = function(middle + REACH * nodes[:, None] * way / np.linalg.norm(way))
        values = np.asarray(values, dtype=float).reshape(nodes.size, -1).sum(axis=1)
        if not np.isfinite(values).all():
            return None
        coefficients = np.polynomial.chebyshev.chebfit(nodes, values, MOST_DEGREE)
        size = np.abs(values).max()
        if np.abs(np.polynomial.chebyshev.chebval(nodes, coefficients) - values).max() > ROUNDING * size:
            return None
        seen = np.flatnonzero(np.abs(coefficients) > ROUNDING * size)
        degree = max(degree, int(seen[-1]) if seen.size else 0)
    return degree
