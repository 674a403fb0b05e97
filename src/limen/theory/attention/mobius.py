r"""$\beta=0$: every token is dragged by the same vector, a Möbius flow of the sphere, and cross ratios are conserved.

For $\dot x_i=P^\perp_{x_i}f(t)$ with any common $f$ (attention at $\beta=0$ with any $V$, in any dimension)
$\frac d{dt}\ln(1-g_{ij})=-(\langle f,x_i\rangle+\langle f,x_j\rangle)$, $g$ the Gram matrix, so all
$\frac{(1-g_{ij})(1-g_{kl})}{(1-g_{ik})(1-g_{jl})}$ are constants of motion (Watanabe & Strogatz 1994 on the circle).
With $V=I$ a law on the circle that starts as a Poisson kernel remains one (Ott & Antonsen 2008), and the heights of a
law symmetric about an axis move by one common shift of $\operatorname{atanh}u$.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from limen.checks import increasing_times, integer, number, plain, reals
from limen.problem.spec import InputError
from limen.theory.attention.field_limits import density_values
from limen.theory.attention.height_rule import height_rule

CITATIONS = ("watanabe1994", "ott2008")


def cross_ratios(gram: ArrayLike, quadruples: ArrayLike | None = None) -> NDArray[np.float64]:
    r"""$\frac{(1-g_{ij})(1-g_{kl})}{(1-g_{ik})(1-g_{jl})}$ of Gram matrices (..., n, n), $n\ge4$, for each quadruple.

    `quadruples` (count, 4) holds token numbers $(i,j,k,l)$; by default $(i,i+1,i+2,i+3)$ modulo $n$. Near consensus
    $1-g$ has lost its digits: use `token_cross_ratios`.
    """
    matrix = reals("gram", gram)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or matrix.shape[-1] < 4:
        raise InputError(f"gram must hold square matrices of at least 4 tokens, got shape {matrix.shape}.")
    return _ratios(1.0 - matrix, quadruples)


def token_cross_ratios(tokens: ArrayLike, quadruples: ArrayLike | None = None) -> NDArray[np.float64]:
    r"""Cross ratios of unit tokens (..., n, d), with $1-g_{ij}=\frac12|x_i-x_j|^2$ free of cancellation."""
    rows = reals("tokens", tokens)
    if rows.ndim < 2 or rows.shape[-2] < 4:
        raise InputError(f"tokens must have at least 4 rows, got shape {rows.shape}.")
    difference = rows[..., :, None, :] - rows[..., None, :, :]
    return _ratios(0.5 * (difference**2).sum(axis=-1), quadruples)


def ott_antonsen(r0: float, times: ArrayLike) -> Any:
    r"""Order parameter $r(t)=[1+(r_0^{-2}-1)e^{-t}]^{-1/2}$ of a Poisson-kernel law on the circle, $0\le r_0\le1$.

    The law with density $\propto(1-r^2)/(1-2r\cos\theta+r^2)$ keeps its form, with $\dot r=\frac12r(1-r^2)$.
    """
    start = number("r0", r0)
    if not 0.0 <= start <= 1.0:
        raise InputError(f"r0 must be in [0, 1], got {start}.")
    grid = reals("times", times)
    return plain(start / np.sqrt(start**2 + (1.0 - start**2) * np.exp(-grid)))


def zonal_shift(
    density: Callable[[Any], Any], d: int, times: ArrayLike, nodes: int = 64
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""The shift $M(t)$ and mean height $\mathbb E[u(t)]$ of a law symmetric about an axis, $\beta=0$, any dimension.

    $\operatorname{atanh}u(t)=\operatorname{atanh}u_0+M(t)$ with $\dot M=\mathbb E[\tanh(\operatorname{atanh}u_0+M)]$:
    one scalar equation. `density` of the height, relative to the uniform law on the sphere, is evaluated on NumPy
    arrays of $u\in(-1,1)$.
    """
    d, nodes, grid = integer("d", d, 2), integer("nodes", nodes, 4), increasing_times(times)
    heights, weights = height_rule(d, nodes)
    weights = weights * density_values(density, heights)
    weights = weights / weights.sum()
    start = np.arctanh(heights)

    def slope(t: float, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([weights @ np.tanh(start + shift[0])])

    until = max(float(grid[-1]), 1e-12)
    solution = solve_ivp(slope, (0.0, until), [0.0], "DOP853", t_eval=grid, rtol=1e-11, atol=1e-13)
    shifts = solution.y[0]
    return shifts, np.tanh(start + shifts[:, None]) @ weights


def _ratios(distances: NDArray[np.float64], quadruples: ArrayLike | None) -> NDArray[np.float64]:
    n = distances.shape[-1]
    if quadruples is None:
        rows = (np.arange(n)[:, None] + np.arange(4)) % n
    else:
        rows = np.atleast_2d(np.asarray(quadruples))
        ordered = np.sort(rows, axis=-1)
        distinct = rows.ndim == 2 and rows.shape[1] == 4 and bool((np.diff(ordered, axis=-1) > 0).all())
        if not distinct or rows.dtype.kind not in "iu" or ordered.min() < 0 or ordered.max() >= n:
            raise InputError(f"quadruples must be rows of four different token numbers below {n}, got {rows.tolist()}.")
    i, j, k, last = rows.T
    return distances[..., i, j] * distances[..., k, last] / (distances[..., i, k] * distances[..., j, last])
