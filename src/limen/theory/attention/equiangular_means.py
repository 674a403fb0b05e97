r"""Mean cosine and energy of independent uniform tokens, to order $1/d$.

The Gram matrix of the tokens closes on itself (`equiangular_spread`), so that chance is in its start alone: cosines of
mean 0, variance $1/d$ and fourth moment $3/d(d+2)$, different pairs uncorrelated, third moments $O(d^{-2})$. By
symmetry no pair is better than another, and a mean over starts is, with one pair put to $\epsilon$ and all others to 0,
$$E\,m=m_0+\frac{m_2}d+O(d^{-2}),\qquad\sum_{i<j}\phi(G_{ij})=\sum_k\epsilon^km_k.$$
Tokens then have three cosines: $x$ of the pair, $y$ of the pair with others, $z$ among the $K=n-2$ others,
$$\dot x=\tfrac2{Z_1}[e_x(1-x^2)+Ke_yy(1-x)],\qquad
\dot z=\tfrac2{Z_3}[2e_yy(1-z)+e_z(1-z^2)+(K-2)e_zz(1-z)],$$
$$\dot y=\tfrac1{Z_1}[e_xy(1-x)+e_y(1-y^2)+(K-1)e_y(z-y^2)]+\tfrac1{Z_3}[e_y(1-y^2)+e_y(x-y^2)+(K-1)e_zy(1-z)],$$
$e_c=e^{\beta(c-1)}$, $Z_1=1+e_x+Ke_y$, $Z_3=1+2e_y+(K-1)e_z$ (without normalization $ne^{-\beta}$ both), followed as
power series in $\epsilon$ up to the fourth power along $s=-\ln(1-\gamma)$, where nothing is stiff. Our own calculation.
"""

from typing import NamedTuple

import numpy as np

from limen.theory.lsoda import lsoda

ORDERS = 5
# Beyond, tokens differ by 1e-13.
LATEST = 30.0
Series = np.ndarray


class PairSums(NamedTuple):
    r"""$m_2$ and $m_4$ of the cosines and of $(e^{\beta c}-1)/\beta$, summed over pairs; (2, time) each."""

    second: np.ndarray
    fourth: np.ndarray


# Where single weights or energies leave the largest number so do the sums.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def pair_sums(n: int, beta: float, distance: np.ndarray, normalized: bool = True) -> PairSums:
    r"""What one pair that starts at $\epsilon$ does to sums over all pairs when the common cosine is 1 - `distance`."""
    others = float(n - 2)
    # Of an unequal pair each other token feels 1/n, and each pair of them 1/n^2.
    units = np.array([1.0, max(others, 1.0), max(others, 1.0) ** 2])[:, None]
    depth = np.minimum(-np.log(np.maximum(distance, 1e-300)), LATEST)
    order = np.argsort(depth, kind="stable")
    grid, place = np.unique(depth[order], return_inverse=True)

    def series(s: float, state: np.ndarray) -> np.ndarray:
        parts = np.empty((3, ORDERS))
        parts[:, 0], parts[:, 1:] = -np.expm1(-s), state.reshape(3, -1) / units
        return parts

    def slope(s: float, state: np.ndarray) -> np.ndarray:
        rates = gram_rates(n, beta, series(s, state), normalized)
        # By the rate of s itself, which is that of the cosine of others without a pair.
        return np.nan_to_num(units * rates[:, 1:] * np.exp(-s) / rates[2, 0], posinf=0.0, neginf=0.0).ravel()

    start = np.zeros((3, ORDERS - 1))
    start[0, 0] = 1.0
    # Where no time has passed there is nothing to follow.
    path = lsoda(slope, start.ravel(), grid, 1e-9, 1e-12).y if grid[-1] > 0.0 else start.reshape(-1, 1)
    many = np.array([1.0, 2.0 * others, 0.5 * others * (others - 1.0)])
    sums = np.empty((2, ORDERS, depth.size))
    for i, at in zip(order, place, strict=True):
        parts = series(float(grid[at]), path[:, at])
        energies = [exponential(beta * part) / beta if beta else part for part in parts]
        sums[:, :, i] = many @ parts, many @ np.array(energies)
    return PairSums(sums[:, 2], sums[:, 4])


def gram_rates(n: int, beta: float, cosines: np.ndarray, normalized: bool) -> np.ndarray:
    r"""$\dot x,\dot y,\dot z$ of the module's head, as series (3, orders)."""
    x, y, z = cosines
    one, others = np.zeros(ORDERS), float(n - 2)
    one[0] = 1.0
    to_x, to_y, to_z = (exponential(beta * (c - one)) for c in cosines)
    if normalized:
        first = one + to_x + others * to_y
        third = one + 2.0 * to_y + (others - 1.0) * to_z
    else:
        first = third = n * np.exp(-beta) * one
    square = product(y, y)
    toward_x = product(to_x, one - product(x, x)) + others * product(to_y, product(y, one - x))
    among = product(to_y, one - square)
    from_pair = product(to_x, product(y, one - x)) + among + (others - 1.0) * product(to_y, z - square)
    apart = product(y, one - z)
    from_other = among + product(to_y, x - square) + (others - 1.0) * product(to_z, apart)
    toward_z = product(to_z, one - product(z, z)) + (others - 2.0) * product(to_z, product(z, one - z))
    toward_z += 2.0 * product(to_y, apart)
    return np.array(
        [
            2.0 * quotient(toward_x, first),
            quotient(from_pair, first) + quotient(from_other, third),
            2.0 * quotient(toward_z, third),
        ]
    )


def product(left: Series, right: Series) -> Series:
    """The product of two power series, to their order."""
    return np.convolve(left, right)[: left.size]


def exponential(given: Series) -> Series:
    """The exponential of a power series."""
    found = np.empty_like(given)
    found[0] = np.exp(given[0])
    slopes = given * np.arange(given.size)
    for k in range(1, given.size):
        found[k] = slopes[1 : k + 1] @ found[k - 1 :: -1][:k] / k
    return found


def quotient(above: Series, below: Series) -> Series:
    """The quotient of two power series."""
    found = np.empty_like(above)
    for k in range(above.size):
        found[k] = (above[k] - below[1 : k + 1] @ found[:k][::-1]) / below[0]
    return found
