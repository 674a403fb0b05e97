r"""Power series on $[-1,1]$ with their first two derivatives, fast for the thousands of values of a row."""

from math import factorial

import numpy as np

LONGEST_DIRECT = 12
CELLS = 1024
ORDER = 4


class PowerSeries:
    r"""$h(q)=\sum_kc_kq^k$ with $h'$ and $h''$.

    Short series are summed directly. Of long ones $h$, $h'$ and $h''$ are tabulated as Taylor polynomials of degree 4
    around 1025 points of $[-1,1]$: cells reach $2^{-10}$ to each side, and the rest is below $10^{-15}$ of the largest
    fifth derivative of each over $5!$.
    """

    def __init__(self, coefficients: np.ndarray) -> None:
        self.coefficients = np.trim_zeros(np.asarray(coefficients, dtype=float), "b")
        if self.coefficients.size == 0:
            self.coefficients = np.zeros(1)
        self._table = None if self.coefficients.size <= LONGEST_DIRECT + 1 else _taylor_table(self.coefficients)
        # Columns of the series of h, h', h''.
        self._columns = _derivatives(self.coefficients)

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """$h(q)$, $h'(q)$ and $h''(q)$, shape (3, *q.shape)."""
        if self._table is None:
            return _horner(self._columns.reshape(-1, 3, *(1,) * q.ndim), q)
        # In units of cells, so that the table holds the coefficients for distances of at most one half.
        place = (q + 1.0) * (CELLS / 2)
        cell = np.maximum(np.minimum(np.rint(place), CELLS), 0)
        place -= cell
        cell = cell.astype(np.intp)
        return _horner(self._table.take(cell, axis=2, mode="clip"), place)


def _derivatives(coefficients: np.ndarray) -> np.ndarray:
    """The coefficients (K, ...) of a series and of its first two derivatives, shape (K, 3, ...)."""
    k = np.arange(coefficients.shape[0]).reshape(-1, *(1,) * (coefficients.ndim - 1))
    found = np.zeros((coefficients.shape[0], 3, *coefficients.shape[1:]))
    found[:, 0] = coefficients
    found[:-1, 1] = (k * coefficients)[1:]
    found[:-2, 2] = (k * (k - 1) * coefficients)[2:]
    return found


def _horner(coefficients: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The sum of `coefficients` (K, ...) times powers of q."""
    if len(coefficients) == 1:
        return coefficients[0] + 0.0 * q
    total = coefficients[-1] * q
    for c in coefficients[-2:0:-1]:
        total += c
        total *= q
    total += coefficients[0]
    return total


def _taylor_table(coefficients: np.ndarray) -> np.ndarray:
    """Coefficients around every point, of the series and of its derivatives: (ORDER + 1, 3, CELLS + 1)."""
    points = np.linspace(-1.0, 1.0, CELLS + 1)
    table, current = np.empty((ORDER + 1, 3, CELLS + 1)), coefficients
    for order in range(ORDER + 3):
        derivative = _horner(current, points)
        for k in range(max(0, order - ORDER), min(order, 2) + 1):
            table[order - k, k] = derivative * ((2.0 / CELLS) ** (order - k) / factorial(order - k))
        current = np.arange(1, current.size) * current[1:]
    return table
