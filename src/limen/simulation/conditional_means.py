r"""Averages over one field given another, by double-exponential quadrature on the pieces between kinks.

Nodes crowd at the ends of a piece, which resolves the thin layer where a kink is smoothed by what is left of the
other field's variance, however thin.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

AT_ONCE = 8
BASE = np.array([-9.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 9.0])
SMOOTH_REACH, SMOOTH_STEP = 9.0, 0.15
_STEP = 0.22
_T = _STEP * np.arange(-13, 14)
_X = np.tanh(0.5 * np.pi * np.sinh(_T))
_W = _STEP * 0.5 * np.pi * np.cosh(_T) / np.cosh(0.5 * np.pi * np.sinh(_T)) ** 2
_W *= 2.0 / _W.sum()


def trapezoid(step: float = SMOOTH_STEP, reach: float = SMOOTH_REACH) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the normal law: exponentially accurate for functions analytic in a strip."""
    count = round(reach / step)
    nodes = step * np.arange(-count, count + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def pieces(cuts: Any) -> tuple[jax.Array, jax.Array]:
    """Nodes and Gaussian weights of the pieces between `BASE` and further `cuts` (..., c)."""
    cuts = jnp.clip(cuts, BASE[0], BASE[-1])
    base = jnp.broadcast_to(jnp.asarray(BASE), (*cuts.shape[:-1], BASE.size))
    edges = jnp.sort(jnp.concatenate([base, cuts], axis=-1), axis=-1)
    half = 0.5 * jnp.diff(edges, axis=-1)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    # A piece without length lies on a cut, where the function may be infinite: it is looked at elsewhere.
    nodes = jnp.where(half > 0.0, centre + half * _X, 0.7317).reshape(*edges.shape[:-1], -1)
    weights = (half * _W).reshape(*edges.shape[:-1], -1) * jnp.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
    return nodes, weights


def joint_means(
    function: Callable[..., Any], kinks: tuple[Sequence[float], Sequence[float]], items: Sequence[Any]
) -> np.ndarray:
    r"""$E\,g(s_1x+b_1,\;s_2(\rho x+\sqrt{1-\rho^2}\,y)+b_2,\;\text{own})$ for independent standard normals $x,y$.

    `items` are arrays $s_1,b_1,s_2,b_2,\rho$, and whatever else the function takes, with one entry per average.
    """
    edges = tuple(jnp.asarray(np.asarray(part, dtype=float)) for part in kinks)
    arrays = tuple(np.asarray(part, dtype=float) for part in items)
    count = len(arrays[0])
    # Blocks of one length: one compiled program for any number of averages.
    index = np.minimum(np.arange(-(-count // AT_ONCE) * AT_ONCE), count - 1).reshape(-1, AT_ONCE)
    bent = bool(edges[0].size or edges[1].size)
    means = [_joint(function, bent, edges, tuple(jnp.asarray(part[block]) for part in arrays)) for block in index]
    return np.concatenate([np.asarray(part) for part in means])[:count]


@partial(jax.jit, static_argnums=(0, 1))
def _joint(function: Any, bent: bool, edges: tuple[jax.Array, ...], items: tuple[jax.Array, ...]) -> jax.Array:
    def one(item: tuple[jax.Array, ...]) -> jax.Array:
        scale1, shift1, scale2, shift2, rho, *own = item
        scale1, scale2 = jnp.maximum(scale1, 1e-12), jnp.maximum(scale2, 1e-12)
        rest = jnp.sqrt(jnp.maximum(1.0 - rho**2, 1e-18))
        if bent:
            moved = (edges[1] - shift2) / scale2
            slope = jnp.where(jnp.abs(rho) > 1e-9, rho, 1e-9)
            x, x_weights = pieces(jnp.concatenate([(edges[0] - shift1) / scale1, moved / slope]))
            y, y_weights = pieces((moved - rho * x[:, None]) / rest)
        else:
            nodes, weights = (jnp.asarray(part) for part in trapezoid())
            x, x_weights, y, y_weights = nodes, weights, nodes[None], weights[None]
        u = scale1 * x[:, None] + shift1
        v = scale2 * (rho * x[:, None] + rest * y) + shift2
        return jnp.sum(function(u, v, *own) * (x_weights[:, None] * y_weights), axis=(-2, -1))

    return jax.lax.map(one, items)


@partial(jax.jit, static_argnums=0)
def answers(activation: Any, kinks: jax.Array, nodes: jax.Array, spread: jax.Array) -> jax.Array:
    r"""$E\,\sigma(u+sy)$ at every node $u$."""
    if not kinks.size:
        y, weights = (jnp.asarray(part) for part in trapezoid())
        return activation(nodes[:, None] + spread * y) @ weights
    y, weights = pieces((kinks - nodes[:, None]) / spread)
    return jnp.sum(activation(nodes[:, None] + spread * y) * weights, axis=1)
