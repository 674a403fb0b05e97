r"""Many systems of tokens at once: RK4 on the sphere, compiled, systems as a leading axis; with noise, Euler–Maruyama.

RK4 on the tangent field with every stage put back on the sphere is of order four; a step of 0.1 leaves about
$10^{-7}$ for identity matrices at any $\beta$, and the step shrinks with the norm of $V$ and $\beta B$ otherwise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.precision import in_double
from limen.problem import InputError
from limen.simulation.attention.observables import CLUSTERED
from limen.simulation.record import record_blocks

STEP = 0.1
MOST_STEPS = 3_000_000
# Of the classical method, stage by stage: how far along the slope before, and six times the weight.
RUNGE_KUTTA = ((0.0, 1.0), (0.5, 2.0), (0.5, 2.0), (1.0, 1.0))


class Matrices(NamedTuple):
    """Arrays (systems, heads, d, d), or None for the identity."""

    query_key: Any
    value: Any


IDENTITY = Matrices(None, None)


class Record(NamedTuple):
    """Along (time, systems): mean cosine of pairs, fraction of pairs within `CLUSTERED` of one, energy; and the Gram
    matrices (time, systems, n, n) where they are kept."""

    mean_cosine: jax.Array
    clustered_pairs: jax.Array
    energy: jax.Array
    gram: jax.Array | None


@in_double
def run_ensemble(
    tokens: np.ndarray,
    beta: float | np.ndarray,
    times: np.ndarray,
    matrices: Matrices = IDENTITY,
    heads: int = 1,
    normalized: bool = True,
    feed_forward: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    activation: Callable[[Any], Any] | None = None,
    noise: float = 0.0,
    keys: Any = None,
    step: float | None = None,
    keep_gram: bool = False,
) -> Record:
    """Systems `tokens` (systems, n, d) to each of `times`. `beta` is one for all or one for each system; `step` is the
    longest step, by default from the matrices."""
    temperatures = np.asarray(beta, dtype=float)
    largest = float(np.abs(temperatures).max())
    longest = stable_step(largest, matrices, heads, normalized) if step is None else step
    if not longest > 0.0:
        raise InputError(f"step must be positive, got {longest}.")
    lengths = np.diff(times, prepend=0.0)
    steps = np.maximum(np.ceil(lengths / longest), 1).astype(np.int32)
    if steps.sum() > MOST_STEPS:
        raise InputError(
            f"times must be reached in at most {MOST_STEPS} steps of {longest:.3g}, got {steps.sum()}: end earlier, or "
            "follow single systems with limen.attention.simulate."
        )
    structure = (normalized, heads, activation, noise > 0.0, keep_gram)
    if keys is None:
        keys = jax.random.split(jax.random.key(0), len(tokens))
    return _run(
        structure,
        jnp.asarray(tokens),
        jnp.asarray(temperatures.reshape(-1, 1, 1) if temperatures.ndim else temperatures),
        jax.tree.map(jnp.asarray, matrices),
        jax.tree.map(jnp.asarray, feed_forward),
        jnp.asarray(float(noise)),
        keys,
        jnp.asarray(lengths / steps),
        jnp.asarray(steps),
    )


def stable_step(beta: float, matrices: Matrices, heads: int, normalized: bool) -> float:
    r"""0.1, less where $\|V\|$, the number of heads, $\beta\|B\|$ beyond 10, or unnormalised attention make the field
    faster."""

    def norm(matrix: Any) -> float:
        return 1.0 if matrix is None else float(np.linalg.norm(np.asarray(matrix), 2, axis=(-2, -1)).max())

    speed = heads * norm(matrices.value)
    sharpness = abs(beta) * norm(matrices.query_key)
    if not normalized:
        speed *= np.exp(min(sharpness, 700.0))
    variation = 1.0 if matrices.query_key is None else max(1.0, sharpness / 10.0)
    return STEP / (max(speed, 1.0) * variation)


@partial(jax.jit, static_argnums=0)
def _run(
    structure: Any,
    tokens: jax.Array,
    beta: jax.Array,
    matrices: Matrices,
    feed_forward: Any,
    noise: jax.Array,
    keys: jax.Array,
    lengths: jax.Array,
    counts: jax.Array,
) -> Record:
    normalized, heads, activation, noisy, keep_gram = structure

    def field(x: jax.Array) -> jax.Array:
        return batched_field(x, beta, matrices, heads, normalized, feed_forward, activation)

    def flow_step(x: jax.Array, h: jax.Array) -> jax.Array:
        # One copy of the field in the compiled program instead of four.
        def stage(carry: Any, numbers: Any) -> Any:
            slope, total = carry
            slope = field(on_sphere(x + h * numbers[0] * slope))
            return (slope, total + numbers[1] * slope), None

        zero = jnp.zeros_like(x)
        return on_sphere(x + h / 6.0 * jax.lax.scan(stage, (zero, zero), jnp.asarray(RUNGE_KUTTA))[0][1])

    def noisy_step(x: jax.Array, h: jax.Array, keys: jax.Array) -> jax.Array:
        normals = jax.vmap(lambda key: jax.random.normal(key, x.shape[1:], x.dtype))(keys)
        return on_sphere(x + h * field(x) + jnp.sqrt(2.0 * noise * h) * tangent_part(x, normals))

    def advance(carry: Any, count: jax.Array) -> Any:
        x, keys, interval = carry
        h = lengths[interval]
        if noisy:

            def body(_: jax.Array, carry: Any) -> Any:
                x, keys = carry
                pairs = jax.vmap(jax.random.split)(keys)
                return noisy_step(x, h, pairs[:, 1]), pairs[:, 0]

            x, keys = jax.lax.fori_loop(0, count, body, (x, keys))
        else:
            x = jax.lax.fori_loop(0, count, lambda _, x: flow_step(x, h), x)
        return (x, keys, interval + 1), count

    def look(carry: Any) -> Record:
        return _observe(carry[0], beta, matrices.query_key, keep_gram)

    return record_blocks(advance, look, (tokens, keys, jnp.zeros((), jnp.int32)), counts)


def batched_field(
    x: jax.Array,
    beta: jax.Array,
    matrices: Matrices,
    heads: int,
    normalized: bool,
    feed_forward: Any,
    activation: Any,
) -> jax.Array:
    """Tangent velocity of tokens (systems, n, d); identity heads are all alike and counted instead of summed."""
    total = jnp.zeros_like(x)
    alike = matrices.query_key is None and matrices.value is None
    for head in range(1 if alike else heads):
        query = x if matrices.query_key is None else x @ matrices.query_key[:, head]
        exponents = beta * jnp.einsum("snd,smd->snm", query, x)
        attention = jax.nn.softmax(exponents, axis=-1) if normalized else jnp.exp(exponents) / x.shape[1]
        mixed = attention @ x
        total += mixed if matrices.value is None else jnp.einsum("snd,sed->sne", mixed, matrices.value[:, head])
    if alike:
        total *= heads
    if feed_forward is not None:
        outer, inner, bias = feed_forward
        total += activation(x @ inner.T + bias) @ outer.T
    return tangent_part(x, total)


def tangent_part(x: jax.Array, velocity: jax.Array) -> jax.Array:
    """Each row without its component along the token."""
    return velocity - jnp.sum(x * velocity, axis=-1, keepdims=True) * x


def on_sphere(x: jax.Array) -> jax.Array:
    """Rows divided by their lengths."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def _observe(x: jax.Array, beta: jax.Array, query_key: Any, keep_gram: bool) -> Record:
    n = x.shape[1]
    gram = jnp.einsum("snd,smd->snm", x, x)
    products = gram if query_key is None else jnp.einsum("snd,smd->snm", x @ query_key[:, 0], x)
    safe = jnp.where(beta == 0.0, 1.0, beta)
    energy = jnp.where(beta == 0.0, products, jnp.expm1(safe * products) / safe).mean(axis=(1, 2)) / 2.0
    close = (jnp.sum(gram >= 1.0 - CLUSTERED, axis=(1, 2)) - n) / (n * (n - 1))
    mean = (gram.sum(axis=(1, 2)) - n) / (n * (n - 1))
    return Record(mean, close, energy, gram if keep_gram else None)
