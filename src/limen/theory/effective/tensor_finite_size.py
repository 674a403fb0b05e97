r"""What a finite $N$ changes in the mean and the spread of SGD on a spiked matrix or tensor, to order $1/N$.

One step of $y=(m,r)$ has the mean $\frac cN(b+g/N)$, exactly, and the covariance $\frac cN\cdot\frac VN$. Steps of
length $c/N$ in place of a flow, and the curvature of $b$ over the spread $\Sigma/N$, are of the same order:
$$E\,y=\bar y+\frac{y_1}N,\qquad\dot y_1=Jy_1+g+\tfrac12b''\!:\Sigma-\tfrac c2Jb,\qquad
\dot\Sigma=J\Sigma+\Sigma J^\top+V .$$
With $A^2=4k(k-1)R^{2(k-2)}$ and $B^2=4kR^{2(k-1)}$: $g=(0,\;4ck^2R^{4(k-1)}r+cA^2r-cB^2)$,
$V_{mm}=c(A^2m^2+B^2)$, $V_{mr}=2cA^2mr$, $V_{rr}=4c(A^2r^2+B^2r)$.
"""

from typing import Any, NamedTuple

import numpy as np

from limen.problem import InputError, SpikedTensor
from limen.theory.effective.tensor_flow import TOLERANCE, checked_tensor, tensor_drift
from limen.theory.lsoda import lsoda


class FiniteSize(NamedTuple):
    r"""Coefficients of $1/N$ at each time: of the means of `overlap` $m$ and `orthogonal_square` $r$ (time,), and
    `covariance` $\Sigma$ of both (time, 2, 2)."""

    overlap: np.ndarray
    orthogonal_square: np.ndarray
    covariance: np.ndarray


def tensor_finite_size(problem: SpikedTensor, m0: float, r0: float, times: Any) -> FiniteSize:
    r"""The first corrections to `tensor_flow` from one exact start: means move by $1/N$ of these numbers.

    `times` is an increasing array from 0 on. Good while the spread $\sqrt{\Sigma/N}$ is small against $m$ and $r$; for
    $k\ge3$ explosions, which are rarer than any power of $1/N$, are left out.
    """
    checked_tensor(problem, "tensor_finite_size")
    grid = np.asarray(times, dtype=float)
    if grid.ndim != 1 or not np.isfinite(grid).all() or grid[0] < 0.0 or (np.diff(grid) <= 0.0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    if not (np.isfinite(m0) and m0 > 0.0 and np.isfinite(r0) and r0 > 0.0):
        raise InputError(f"m0 and r0 must be finite and positive, got {m0!r} and {r0!r}.")
    start = np.array([m0, r0, 0.0, 0.0, 0.0, 0.0, 0.0])
    if grid[-1] == 0.0:
        path = start[:, None]
    else:
        solution = lsoda(lambda t, state: _slope(problem, state), start, grid, TOLERANCE, 1e-12)
        if not solution.success:
            raise InputError(f"the flow cannot be followed to t = {grid[-1]:g} from m0 = {m0}, r0 = {r0}.")
        path = solution.y
    covariance = path[[[4, 5], [5, 6]]].transpose(2, 0, 1)
    return FiniteSize(path[2], path[3], covariance)


def _slope(problem: SpikedTensor, state: np.ndarray) -> np.ndarray:
    """Time derivative of (m, r), their corrections, and the three entries of the covariance."""
    k, c = problem.order, problem.step
    m, r = state[:2]
    spread = np.array([[state[4], state[5]], [state[5], state[6]]])
    square = m * m + r
    shrink = square ** (k - 1)
    radial, own = 4.0 * k * (k - 1) * square ** (k - 2), 4.0 * k * shrink
    drift = np.array(tensor_drift(problem, m, r))
    jacobian, curvature = _derivatives(problem, m, r)
    mean = np.array([0.0, c * (4.0 * k**2 * shrink**2 * r + radial * r - own)])
    bent = 0.5 * np.einsum("aij,ij->a", curvature, spread)
    corrected = jacobian @ (state[2:4] - 0.5 * c * drift) + mean + bent
    cross = 2.0 * c * radial * m * r
    noise = np.array([[c * (radial * m * m + own), cross], [cross, 4.0 * c * (radial * r * r + own * r)]])
    widened = jacobian @ spread + spread @ jacobian.T + noise
    return np.concatenate([drift, corrected, [widened[0, 0], widened[0, 1], widened[1, 1]]])


def _derivatives(problem: SpikedTensor, m: float, r: float) -> tuple[np.ndarray, np.ndarray]:
    r"""First (2, 2) and second (2, 2, 2) derivatives of the drift, from $S=R^{2(k-1)}$, $S'$, $S''$ in $R^2$."""
    k, signal, left = problem.order, problem.signal, r - problem.step
    square = m * m + r
    value, first = square ** (k - 1), (k - 1) * square ** (k - 2)
    second = 0.0 if k == 2 else (k - 1) * (k - 2) * square ** (k - 3)
    pull = 0.0 if k == 2 else signal * (k - 1) * (k - 2) * m ** (k - 3)
    slope = signal * (k - 1) * m ** (k - 2)
    jacobian = np.array(
        [
            [2.0 * k * (slope - value - 2.0 * m * m * first), -2.0 * k * m * first],
            [-8.0 * k * m * first * left, -4.0 * k * (first * left + value)],
        ]
    )
    mixed = -2.0 * k * (first + 2.0 * m * m * second)
    mixed_rest = -8.0 * k * m * (second * left + first)
    curvature = np.array(
        [
            [[2.0 * k * (pull - 6.0 * m * first - 4.0 * m**3 * second), mixed], [mixed, -2.0 * k * m * second]],
            [
                [-8.0 * k * left * (first + 2.0 * m * m * second), mixed_rest],
                [mixed_rest, -4.0 * k * (second * left + 2.0 * first)],
            ],
        ]
    )
    return jacobian, curvature
