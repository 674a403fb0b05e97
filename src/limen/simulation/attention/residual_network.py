r"""Residual networks and their limit of infinite depth: $x_{k+1}=x_k+\frac TL\,w_k\sigma(a_kx_k+b_k)$."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.precision import in_double
from limen.problem import Activation, InputError
from limen.simulation.generators import numpy_generator

HARMONICS = 2


class DepthWeights(NamedTuple):
    r"""Smooth weights over depth $s\in[0,1]$ as short Fourier series; shapes (harmonics, d, h), (harmonics, h, d),
    (harmonics, h): the constant, then $\cos\pi js$, then $\sin\pi js$."""

    outer: np.ndarray
    inner: np.ndarray
    bias: np.ndarray


def draw_depth_weights(d: int, hidden: int, seed: int) -> DepthWeights:
    """Random smooth weights of norm of order one."""
    generator, count = numpy_generator(seed, d, "residual network"), 2 * HARMONICS + 1
    return DepthWeights(
        generator.standard_normal((count, d, hidden)) / np.sqrt(hidden * count),
        generator.standard_normal((count, hidden, d)) / np.sqrt(d * count),
        generator.standard_normal((count, hidden)) / np.sqrt(count),
    )


@in_double
def residual_network(
    x0: np.ndarray, weights: DepthWeights, activation: Activation, depth: int, duration: float
) -> np.ndarray:
    r"""Outputs of a network of `depth` residual layers, $h=T/L$, weights read at $s=k/L$; inputs (samples, d).

    Compiled once for all depths.
    """
    _check(depth, duration)
    return np.asarray(_outputs(activation.function, jnp.asarray(x0), weights, depth, float(duration)))


@in_double
def hidden_states(
    x0: np.ndarray, weights: DepthWeights, activation: Activation, depth: int, duration: float
) -> np.ndarray:
    r"""What each layer passes on, from the inputs to the outputs: shape (depth + 1, samples, d)."""
    _check(depth, duration)
    return np.asarray(_states(activation.function, jnp.asarray(x0), weights, depth, float(duration)))


@partial(jax.jit, static_argnums=0)
def _outputs(function: Any, x0: jax.Array, weights: DepthWeights, depth: Any, duration: Any) -> jax.Array:
    layer = _layer(function, weights, depth, duration)
    return jax.lax.fori_loop(0, depth, lambda k, x: layer(x, k), x0)


@partial(jax.jit, static_argnums=(0, 3))
def _states(function: Any, x0: jax.Array, weights: DepthWeights, depth: int, duration: Any) -> jax.Array:
    layer = _layer(function, weights, depth, duration)

    def passed_on(x: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        after = layer(x, k)
        return after, after

    return jnp.concatenate([x0[None], jax.lax.scan(passed_on, x0, jnp.arange(depth))[1]])


def _layer(function: Any, weights: DepthWeights, depth: Any, duration: Any) -> Callable[[jax.Array, Any], jax.Array]:
    waves = jnp.arange(1, HARMONICS + 1)

    def layer(x: jax.Array, k: Any) -> jax.Array:
        s = k / depth
        basis = jnp.concatenate([jnp.ones(1), jnp.cos(jnp.pi * waves * s), jnp.sin(jnp.pi * waves * s)])
        w, a, b = (jnp.tensordot(basis, part, axes=1) for part in weights)
        return x + duration / depth * (function(x @ a.T + b) @ w.T)

    return layer


def _check(depth: int, duration: float) -> None:
    if int(depth) != depth or depth < 1:
        raise InputError(f"depth must be a whole number of at least 1, got {depth!r}.")
    if not duration > 0.0:
        raise InputError(f"duration must be positive, got {duration}.")
