r"""Averages of products over two correlated fields by Mehler's formula, with a bound on what is left out.

For standard normals $x,y$ of correlation $\rho$ and the normalised Hermite coefficients $c_n=E[g(x)\,\mathrm{he}_n(x)]$
of two functions, $E[g_1(x)g_2(y)]=\sum_n\rho^nc^{(1)}_nc^{(2)}_n$. After `ORDER` terms the rest is at most
$|\rho|^{\rm ORDER}\sqrt{r_1r_2}$, with $r=E g^2-\sum_nc_n^2$. One line of values per function replaces a plane of
values per pair.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ORDER = 96
# Polynomials of high degree reach far: the panels end at 12, and are longer where the weight is small.
_SIDE = np.concatenate([np.arange(0.5, 5.5, 0.5), [6.0, 7.0, 8.0, 10.0, 12.0]])
EDGES = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])
POINTS = 12
DIGITS = 12
_X, _W = np.polynomial.legendre.leggauss(POINTS)


class Series(NamedTuple):
    r"""Hermite coefficients (items, `ORDER`), the mean square (items,) and what of it the coefficients leave out."""

    coefficients: np.ndarray
    power: np.ndarray
    rest: np.ndarray


def hermite_series(
    function: Callable[..., Any], kinks: Sequence[float], scale: np.ndarray, shift: np.ndarray
) -> Series:
    r"""Series of $x\mapsto g(sx+b)$ for every pair of `scale` $s$ and `shift` $b$ (items,).

    Gauss–Legendre panels between `EDGES`, cut where the function has a kink or a jump. Pairs that are equal to
    `DIGITS` share their series: a neuron on its sphere has one.
    """
    pairs = np.round(np.stack([scale, shift], axis=1), DIGITS)
    _, kept, items = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    found = _distinct_series(function, kinks, scale[kept], shift[kept])
    return Series(*(part[items.ravel()] for part in found))


def _distinct_series(
    function: Callable[..., Any], kinks: Sequence[float], scale: np.ndarray, shift: np.ndarray
) -> Series:
    scale = np.maximum(scale, 1e-12)
    cuts = (np.asarray(kinks, dtype=float) - shift[:, None]) / scale[:, None]
    cuts = np.clip(cuts, EDGES[0], EDGES[-1])
    if len(kinks) == 0 or np.ptp(cuts, axis=0).max() == 0.0:
        nodes, weights, hermite = _common_rule(tuple(cuts[0].tolist()))
        values = np.asarray(_values(function, nodes * scale[:, None] + shift[:, None]))
        found = (weights * values) @ hermite
        power = values**2 @ weights
    else:
        nodes, weights = _panels(cuts)
        values = np.asarray(_values(function, nodes * scale[:, None] + shift[:, None]))
        weighted = weights * values
        found = np.stack([np.sum(weighted * part, axis=1) for part in _hermite(nodes)], axis=1)
        power = np.sum(weighted * values, axis=1)
    return Series(found, power, np.maximum(power - np.sum(found**2, axis=1), 1e-15 * power))


def products(
    first: Series, second: Series, index: tuple[np.ndarray, np.ndarray], correlation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""$E[g_1g_2]$ for the items `index` of two series, and a bound of its error in parts of
    $\sqrt{E g_1^2\,E g_2^2}$."""
    one, other = index
    terms = first.coefficients[one] * second.coefficients[other]
    value = np.polynomial.polynomial.polyval(correlation, terms.T, tensor=False)
    size = np.sqrt(first.power[one] * second.power[other])
    left = np.abs(correlation) ** ORDER * np.sqrt(first.rest[one] * second.rest[other])
    return value, left / np.where(size > 0.0, size, 1.0)


@partial(jax.jit, static_argnums=0)
def _values(function: Callable[..., Any], at: jax.Array) -> jax.Array:
    return jnp.broadcast_to(function(at), at.shape)


@lru_cache(maxsize=64)
def _common_rule(cuts: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nodes, weights = (part[0] for part in _panels(np.array([cuts], dtype=float)))
    return nodes, weights, np.stack(list(_hermite(nodes)), axis=1)


def _panels(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and Gaussian weights (items, nodes) of panels that end at the `cuts` (items, c)."""
    edges = np.sort(np.concatenate([np.broadcast_to(EDGES, (len(cuts), EDGES.size)), cuts], axis=1), axis=1)
    half = 0.5 * np.diff(edges, axis=1)[..., None]
    centre = 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None]
    # A panel without length lies on a cut, where the function may be infinite: it is looked at elsewhere.
    nodes = np.where(half > 0.0, centre + half * _X, 0.7317).reshape(len(cuts), -1)
    weights = (half * _W).reshape(len(cuts), -1) * np.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
    return nodes, weights


def _hermite(nodes: np.ndarray) -> Iterator[np.ndarray]:
    r"""The normalised Hermite polynomials $\mathrm{he}_n/\sqrt{n!}$, $n<$ `ORDER`, at the nodes, one after another."""
    before, now = np.zeros_like(nodes), np.ones_like(nodes)
    for n in range(ORDER):
        yield now
        before, now = now, (nodes * now - np.sqrt(n) * before) / np.sqrt(n + 1.0)
