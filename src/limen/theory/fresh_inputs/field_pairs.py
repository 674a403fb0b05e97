r"""$E\,g(u,v)$ for two correlated fields, where $g$ has kinks or jumps along known lines of $u$ and of $v$.

With correlation $\rho=\cos t\ge0$ and standard normals $a,b$: $G_{1,2}=\cos\frac t2\,a\pm\sin\frac t2\,b$. A
kink of either field is a straight line in the plane of $(a,b)$. Gauss–Legendre panels in $a$ end on these lines, panels
in $b$ where two of them cross, so that every piece is smooth and the rule converges geometrically, uniformly in $t$.
A negative correlation is a positive one with the sign of the second scale turned.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ORDER = 10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
WIDTHS = (1.0, 0.5, 0.25, 0.125)
ACCURACY = 1e-8
PROBES = 3
SMALLEST_SCALE = 1e-12


class Fields(NamedTuple):
    r"""Pairs of fields $u=s_1G_1+b_1$, $v=s_2G_2+b_2$ with $E\,G_1G_2=\rho$; five arrays of one shape (pairs,)."""

    first_scale: np.ndarray
    first_shift: np.ndarray
    second_scale: np.ndarray
    second_shift: np.ndarray
    correlation: np.ndarray


class PairMean(NamedTuple):
    """Averages (pairs, ...) and the estimated error of each, relative to the average of the absolute value."""

    value: np.ndarray
    error: np.ndarray


def pair_means(
    function: Callable[..., Any],
    fields: Fields,
    first_kinks: Sequence[float],
    second_kinks: Sequence[float],
    reach: float,
    parameters: tuple[np.ndarray, ...] = (),
    accuracy: float = ACCURACY,
) -> PairMean:
    r"""$E\,g(u,v,p)$ for each pair; `function` takes arrays of fields and the pair's own `parameters` (pairs, ...) and
    returns an array with the averages last: (..., points).

    Panels are halved from width 1 until three probe pairs change by less than `accuracy` of their size; the change at
    the last halving is the error. About $2\cdot10^4$ evaluations a pair.
    """
    count = len(fields.correlation)
    if count == 0:
        return PairMean(np.zeros(0), np.zeros(0))
    sign = np.where(np.asarray(fields.correlation) < 0.0, -1.0, 1.0)
    arrays = (
        np.maximum(fields.first_scale, SMALLEST_SCALE),
        np.asarray(fields.first_shift, dtype=float),
        sign * np.maximum(fields.second_scale, SMALLEST_SCALE),
        np.asarray(fields.second_shift, dtype=float),
        np.clip(np.abs(fields.correlation), 0.0, 1.0),
        *parameters,
    )
    # NumPy arrays enter the compiled program as they are: `jnp.asarray` would compile a copy for each shape.
    kinks = (np.asarray(first_kinks, dtype=float), np.asarray(second_kinks, dtype=float))
    probes = np.unique(np.linspace(0, count - 1, PROBES).astype(int))
    few = tuple(array[np.resize(probes, PROBES)] for array in arrays)
    width, change = WIDTHS[0], np.inf
    known, size = (np.asarray(part) for part in _means(function, reach, width, kinks, few))
    for finer in WIDTHS[1:]:
        new, size = (np.asarray(part) for part in _means(function, reach, finer, kinks, few))
        # What diverges may be too large for a number: the change is then NaN, and no width is taken for fine enough.
        with np.errstate(over="ignore", invalid="ignore"):
            change = float(np.max(np.abs(new - known) / np.where(size > 0, size, 1.0)))
        if change <= accuracy:
            break
        width, known = finer, new
    # One compiled length for all calls of similar size.
    padded = 1 << max(count - 1, 3).bit_length()
    index = np.minimum(np.arange(padded), count - 1)
    value, size = _means(function, reach, width, kinks, tuple(array[index] for array in arrays))
    return PairMean(np.asarray(value)[:count], change * np.asarray(size)[:count])


@partial(jax.jit, static_argnums=(0, 1, 2))
def _means(function: Any, reach: float, width: float, kinks: Any, arrays: tuple[Any, ...]) -> Any:
    base = jnp.arange(-reach, reach + 0.5 * width, width)

    def one(parts: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        scale1, shift1, scale2, shift2, rho, *own = parts
        cosine, sine = jnp.sqrt(0.5 * (1.0 + rho)), jnp.sqrt(0.5 * (1.0 - rho))
        first, second = (kinks[0] - shift1) / scale1, (kinks[1] - shift2) / scale2
        crossings = ((first[:, None] - second[None, :]) / jnp.maximum(2.0 * sine, 1e-300)).ravel()
        edges = jnp.sort(jnp.concatenate([base, jnp.clip(crossings, -reach, reach)]))
        b, b_weights = _panels(edges)
        moved = [(point[:, None] - sign * sine * b) / cosine for point, sign in ((first, 1.0), (second, -1.0))]
        lines = jnp.clip(jnp.concatenate(moved), -reach, reach)
        inner = jnp.concatenate([jnp.broadcast_to(base[:, None], (len(base), len(b))), lines])
        a, a_weights = _panels(jnp.sort(inner, axis=0).T)
        u = scale1 * (cosine * a + sine * b[:, None]) + shift1
        v = scale2 * (cosine * a - sine * b[:, None]) + shift2
        values = function(u, v, *own)
        weights = b_weights[:, None] * a_weights
        return jnp.sum(values * weights, axis=(-2, -1)), jnp.sum(jnp.abs(values) * weights, axis=(-2, -1))

    return jax.lax.map(one, arrays)


def _panels(edges: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Nodes and Gaussian weights of the panels between successive edges (last axis)."""
    half = 0.5 * jnp.diff(edges)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    nodes = (centre + half * _NODES).reshape(*edges.shape[:-1], -1)
    weights = (half * _WEIGHTS).reshape(*edges.shape[:-1], -1)
    return nodes, weights * jnp.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
