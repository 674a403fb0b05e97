"""Cubic splines through given points.

Those of `scipy.interpolate.CubicSpline`, to rounding. Importing that takes a quarter of a second of a first answer,
since SciPy's optimisers come with it.
"""

import numpy as np


def spline_coefficients(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    r"""Coefficients (4, N - 1, ...) of the spline through `y` (N, ...) at the increasing `x` (N,), N at least 4.

    On the piece from $x_i$ to $x_{i+1}$ its value is $c_0r^3+c_1r^2+c_2r+c_3$ with $r=x-x_i$. The third derivative does
    not jump at the second and the last but one of the points ("not a knot"). The slopes at the points solve a
    tridiagonal system (de Boor 1978, chapter IV).
    """
    step, rows = np.diff(x), y.reshape(len(y), -1)
    secant = np.diff(rows, axis=0) / step[:, None]
    # Each end: its own two pieces are one cubic.
    ends = [(step[i] + step[j], step[i], step[j], secant[i], secant[j]) for i, j in ((0, 1), (-1, -2))]
    first, last = (
        ((own + 2.0 * both) * other * secant_own + own**2 * secant_other) / both
        for both, own, other, secant_own, secant_other in ends
    )
    inner = 3.0 * (step[1:, None] * secant[:-1] + step[:-1, None] * secant[1:])
    diagonal = np.concatenate([step[1:2], 2.0 * (step[1:] + step[:-1]), step[-2:-1]])
    below, above = np.append(step[1:], ends[1][0]), np.insert(step[:-1], 0, ends[0][0])
    slopes = _tridiagonal(below, diagonal, above, np.vstack([first, inner, last]))
    bend = (slopes[:-1] + slopes[1:] - 2.0 * secant) / step[:, None]
    parts = np.stack([bend / step[:, None], (secant - slopes[:-1]) / step[:, None] - bend, slopes[:-1], rows[:-1]])
    return parts.reshape(4, len(x) - 1, *y.shape[1:])


def spline_values(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The spline through `y` (N, ...) at `x` (N,), evaluated at `at` (M,): shape (M, ...)."""
    coefficients = spline_coefficients(x, y)
    piece = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    distance = (at - x[piece]).reshape(-1, *(1,) * (y.ndim - 1))
    cubic, square, line, value = coefficients[:, piece]
    return ((cubic * distance + square) * distance + line) * distance + value


def _tridiagonal(below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution (N, M) of the tridiagonal system, by elimination down and substitution up."""
    diagonal, found = diagonal.copy(), right.copy()
    for row in range(1, len(diagonal)):
        factor = below[row - 1] / diagonal[row - 1]
        diagonal[row] -= factor * above[row - 1]
        found[row] -= factor * found[row - 1]
    found[-1] /= diagonal[-1]
    for row in range(len(diagonal) - 2, -1, -1):
        found[row] = (found[row] - above[row] * found[row + 1]) / diagonal[row]
    return found
