r"""Gauss quadrature for heights $u=\langle x,e\rangle$ of uniform points of the sphere of $\mathbb R^d$, density
$\propto(1-u^2)^{(d-3)/2}$.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal


def height_rule(d: int, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Nodes and probability weights, exact for polynomials of degree $2\,\text{count}-1$, any $d\ge2$.

    Golub–Welsch with the Gegenbauer recurrence; off-diagonal squares
    $\frac{k(k+d-3)}{(2k+d-2)(2k+d-4)}$, and $\frac1d$ for $k=1$, so that no dimension overflows.
    """
    k = np.arange(2, count, dtype=float)
    squares = np.concatenate([[1.0 / d], k * (k + d - 3.0) / ((2.0 * k + d - 2.0) * (2.0 * k + d - 4.0))])
    nodes, vectors = eigh_tridiagonal(np.zeros(count), np.sqrt(squares[: count - 1]))
    return nodes, vectors[0] ** 2
