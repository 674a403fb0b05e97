r"""Power series on $[-1,1]$ with their first two derivatives, fast for the thousands of values of a row."""

import numpy as np

LONGEST_DIRECT = 12
CELLS = 1024
ORDER = 6


class PowerSeries:
    r"""$h(q)=\sum_kc_kq^k$ with $h'$ and $h''$.

    Short series are summed directly. Long ones are tabulated as Taylor polynomials of degree 6 around 1025 points of
    $[-1,1]$: with cells of width 1/512 the rest is below $10^{-15}$ of the largest seventh derivative over $7!$.
    """

    def __init__(self, coefficients: np.ndarray) -> None:
        self.coefficients = np.trim_zeros(np.asarray(coefficients, dtype=float), "b")
        if self.coefficients.size == 0:
            self.coefficients = np.zeros(1)
        self._table = None if self.coefficients.size <= LONGEST_DIRECT + 1 else _taylor_table(self.coefficients)
        k = np.arange(self.coefficients.size)
        self._first = (k * self.coefficients)[1:]
        self._second = (k * (k - 1) * self.coefficients)[2:]

    def __call__(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """$h(q)$, $h'(q)$ and $h''(q)$."""
        if self._table is None:
            return _horner(self.coefficients, q), _horner(self._first, q), _horner(self._second, q)
        cell = np.clip(np.rint((q + 1.0) * (CELLS / 2)), 0, CELLS).astype(np.intp)
        x = q - (cell * (2.0 / CELLS) - 1.0)
        c = self._table[:, cell]
        value, slope, bend = c[ORDER], ORDER * c[ORDER], ORDER * (ORDER - 1) * c[ORDER]
        for k in range(ORDER - 1, -1, -1):
            value = value * x + c[k]
            if k >= 1:
                slope = slope * x + k * c[k]
            if k >= 2:
                bend = bend * x + k * (k - 1) * c[k]
        return value, slope, bend


def _horner(coefficients: np.ndarray, q: np.ndarray) -> np.ndarray:
    if coefficients.size == 0:
        return np.zeros_like(q)
    total = np.full_like(q, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= q
        total += c
    return total


def _taylor_table(coefficients: np.ndarray) -> np.ndarray:
    points = np.linspace(-1.0, 1.0, CELLS + 1)
    rows, current = [], coefficients
    for order in range(ORDER + 1):
        rows.append(_horner(current, points))
        current = np.arange(1, current.size) * current[1:] / (order + 1)
    return np.array(rows)
