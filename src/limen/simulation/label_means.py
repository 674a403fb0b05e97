r"""$E[h\,\sigma(\lambda_j)]$ of many neurons over the same latent points, in one compiled loop.

Given the latent coordinates $z$, a field is $\lambda=u+sy$ with $u=M\cdot z+b$ and an own normal $y$. The mean answer
$g(u)=E_y\,\sigma(u+sy)$ depends on one number. It is tabulated for each neuron and looked up at every point.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.simulation.conditional_means import answers

# A kink changes the mean answer within this many spreads of it, a little more than the reach of the smooth rule.
REACH = 9.1
WHOLE_NODES, PIECE_NODES, LAYER_NODES = 401, 201, 129
_STENCIL = np.arange(6) - 2.5
# Coefficients of the polynomial through six neighbouring values, lowest power first.
_TO_POLYNOMIAL = np.linalg.inv(np.vander(_STENCIL, increasing=True))


def label_means(
    activation: Any, kinks: Any, points: np.ndarray, weighted: np.ndarray, items: tuple[np.ndarray, ...]
) -> np.ndarray:
    r"""$\sum_p w_p\,g_i(M_i\cdot z_p+b_i)$ for every item $i$ and every set of points, shape (items, sets).

    `points` (sets, N, k), `weighted` (sets, N) weights times labels; `items` are overlaps (items, k), biases (items,)
    and spreads $s$ (items,). Cost: some $10^5$ activations an item and 8 ns a point.
    """
    overlap, bias, spread = (np.asarray(part, dtype=float) for part in items)
    count = len(bias)
    padded = np.minimum(np.arange(max(8, 1 << (count - 1).bit_length())), count - 1)
    arrays = tuple(jnp.asarray(part[padded]) for part in (overlap, bias, np.maximum(spread, 1e-6)))
    edges = jnp.asarray(np.sort(np.asarray(kinks, dtype=float)))
    return np.asarray(_means(activation, edges, jnp.asarray(points), jnp.asarray(weighted), arrays, count))[:count]


@partial(jax.jit, static_argnums=0)
def _means(
    activation: Any, kinks: jax.Array, points: jax.Array, weighted: jax.Array, items: tuple[jax.Array, ...], count: Any
) -> jax.Array:
    def one(i: Any, found: jax.Array) -> jax.Array:
        overlap, bias, spread = (part[i] for part in items)
        answer = _mean_answers(activation, kinks, flat @ overlap + bias, spread).reshape(weighted.shape)
        return found.at[i].set(jnp.sum(weighted * answer, axis=1))

    flat = points.reshape(-1, points.shape[-1])
    return jax.lax.fori_loop(0, count, one, jnp.zeros((len(items[0]), len(points))))


def _mean_answers(activation: Any, kinks: jax.Array, known: jax.Array, spread: jax.Array) -> jax.Array:
    r"""$g(u)$ at all `known`, by polynomials of degree five between equally spaced nodes of each segment.

    Segments are in turn free of kinks and layers around a kink, cut to the range of `known`; where layers meet, what
    would lie between them has no length and is never looked up.
    """
    low, high = known.min() - 1e-6, known.max() + 1e-6
    ends = kinks + REACH * spread
    starts = jnp.maximum(kinks - REACH * spread, jnp.concatenate([low[None], ends])[:-1])
    inner = jnp.clip(jnp.stack([starts, ends], axis=1).ravel(), low, high)
    edges = jnp.concatenate([low[None], inner, high[None]])
    tables, sizes = [], []
    for part in range(edges.size - 1):
        layer = part % 2 == 1
        size = LAYER_NODES if layer else (PIECE_NODES if kinks.size else WHOLE_NODES)
        nodes = jnp.linspace(edges[part], edges[part + 1], size)
        values = answers(activation, kinks if layer else kinks[:0], nodes, spread)
        windows = jnp.stack([values[k : k + size - 5] for k in range(6)])
        tables.append(jnp.tensordot(_TO_POLYNOMIAL, windows, 1, precision="highest"))
        sizes.append(size)
    count = np.array(sizes)
    scale = (count - 1) / jnp.maximum(jnp.diff(edges), 1e-300)
    first = np.concatenate([[0], np.cumsum(count - 5)[:-1]])
    last = count - 6
    left, slope, top, start = edges[0], scale[0], int(last[0]), 0
    for part, edge in enumerate(inner, start=1):
        beyond = known > edge
        left, slope = jnp.where(beyond, edges[part], left), jnp.where(beyond, scale[part], slope)
        top, start = jnp.where(beyond, int(last[part]), top), jnp.where(beyond, int(first[part]), start)
    position = (known - left) * slope
    window = jnp.clip(position.astype(jnp.int32) - 2, 0, top)
    own, place = position - window - 2.5, window + start
    table = jnp.concatenate(tables, axis=1)
    found = jnp.zeros_like(own)
    for row in range(5, -1, -1):
        found = found * own + table[row].at[place].get(mode="promise_in_bounds")
    return found
