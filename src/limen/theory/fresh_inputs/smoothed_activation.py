r"""$S(u)=E\,\sigma(u+s\xi+b)$: what a neuron answers on average, given the part $u$ of its field that is known."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem import Activation

ORDER = 10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
EVEN_NODES, KINK_NODES, COARSE_NODES = 769, 129, 321
SMALLEST_SCALE = 1e-9


def smoothed_means(
    activation: Activation,
    kinks: Sequence[float],
    reach: float,
    scales: np.ndarray,
    shifts: np.ndarray,
    directions: np.ndarray,
    points: np.ndarray,
    weighted_labels: np.ndarray,
    coarse: bool = False,
) -> np.ndarray:
    r"""$\sum_nw_nS(d\cdot z_n)$ for every neuron: `scales`, `shifts` (neurons,), `directions` (neurons, k), `points`
    (sets, N, k), `weighted_labels` (sets, N); shape (neurons, sets).

    $S$ and $S'$ are tabulated by Gauss–Legendre panels that end at the kinks of $\sigma$, on nodes crowded around
    them at the scale $s$, and interpolated by cubics: $10^{-8}$ of the size. `coarse`: even nodes alone, fewer of them,
    for $s$ not below half of $|d|$.
    """
    arrays = (np.maximum(scales, SMALLEST_SCALE), shifts, directions)
    parts = tuple(jnp.asarray(array) for array in arrays)
    fixed = (jnp.asarray(np.asarray(kinks, dtype=float)), jnp.asarray(points), jnp.asarray(weighted_labels))
    return np.asarray(_means(activation.function, reach, coarse, fixed, parts))


def _inserted(edges: jax.Array, point: jax.Array) -> jax.Array:
    """Ascending edges (..., n) with one more point (...,) in its place; a sort takes ten times as long."""
    lead = [(0, 0)] * (edges.ndim - 1)
    before = jnp.pad(edges, [*lead, (1, 0)], constant_values=-jnp.inf)
    after = jnp.pad(edges, [*lead, (0, 1)], constant_values=jnp.inf)
    return jnp.maximum(before, jnp.minimum(after, point[..., None]))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _means(
    activation: Any, reach: float, coarse: bool, fixed: tuple[jax.Array, ...], neurons: tuple[jax.Array, ...]
) -> jax.Array:
    kinks, points, weighted = fixed
    base = jnp.arange(-reach, reach + 0.5)

    def one(parts: tuple[jax.Array, ...]) -> jax.Array:
        scale, shift, direction = parts
        known = points @ direction
        span = jnp.max(jnp.abs(known)) * (1.0 + 1e-9) + 1e-9
        nodes = jnp.linspace(-span, span, COARSE_NODES if coarse else EVEN_NODES)
        if not coarse:
            around = (kinks - shift)[:, None] + jnp.minimum(scale, span) * jnp.linspace(-8.0, 8.0, KINK_NODES)
            nodes = jnp.sort(jnp.concatenate([nodes, jnp.clip(around, -span, span).ravel()]))
        edges = jnp.broadcast_to(base, (len(nodes), len(base)))
        for kink in kinks:
            edges = _inserted(edges, jnp.clip((kink - shift - nodes) / scale, -reach, reach))
        half, centre = 0.5 * jnp.diff(edges)[..., None], 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None]
        own = (centre + half * _NODES).reshape(len(nodes), -1)
        weights = (half * _WEIGHTS).reshape(len(nodes), -1) * jnp.exp(-0.5 * own**2) / np.sqrt(2.0 * np.pi)
        fields = nodes[:, None] + scale * own + shift
        values, slopes = jax.jvp(activation, (fields,), (jnp.ones_like(fields),))
        value, slope = jnp.sum(values * weights, axis=1), jnp.sum(slopes * weights, axis=1)
        left = jnp.clip(jnp.searchsorted(nodes, known.ravel(), side="right") - 1, 0, len(nodes) - 2)
        width = jnp.maximum(nodes[left + 1] - nodes[left], 1e-300)
        t = (known.ravel() - nodes[left]) / width
        interpolated = (
            (1 + 2 * t) * (1 - t) ** 2 * value[left]
            + t * (1 - t) ** 2 * width * slope[left]
            + t**2 * (3 - 2 * t) * value[left + 1]
            - t**2 * (1 - t) * width * slope[left + 1]
        )
        return jnp.sum(interpolated.reshape(known.shape) * weighted, axis=1)

    return jax.lax.map(one, neurons)
