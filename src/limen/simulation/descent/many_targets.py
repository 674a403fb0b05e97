"""Gradient descent of small networks on many targets hidden in the same inputs: overlaps by the hundred."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, RandomStart, Target, TwoLayer
from limen.problem.algorithms import constant_step
from limen.problem.times import time_grid
from limen.simulation.data import draw_labels
from limen.simulation.descent.fixed_sample import sample_size
from limen.simulation.descent.fixed_sample_training import refuses_plain
from limen.simulation.record import record
from limen.simulation.two_layer_gradient import Functions, functions_of


class ManyTargets(NamedTuple):
    r"""Of each target: $\theta_j\cdot\theta_{*r}$ and $|\theta_j|^2$, along (target, time, neuron[, k])."""

    overlap: np.ndarray
    square_length: np.ndarray


@in_double
def many_targets(problem: TwoLayer, times: object, d: int, seed: int, targets: int) -> ManyTargets:
    r"""Trains `targets` networks, each alone, on labels of its own: $k$ coordinates of the inputs are its target's.

    Every training has exactly the law of a single one. Those that share inputs are not quite independent: means are
    unbiased, errors are to be taken between seeds. At most $d/k$ targets, a fixed second layer, a random start.

    Cost: inputs are drawn once; $4nmd$ operations per target and step, as products of matrices.
    """
    reason = refuses_plain(problem)
    if reason is None and problem.network.train_second_layer:
        reason = "it trains networks with a fixed second layer."
    reason = reason or problem.inputs.unlike_isotropic()
    if reason is None and not isinstance(problem.start, RandomStart):
        reason = "it starts at random."
    if reason is not None:
        raise InputError(f"many_targets does not apply: {reason}")
    if not 1 <= targets <= d // problem.target.latents:
        raise InputError(f"targets must lie between 1 and d/k = {d // problem.target.latents}, got {targets}.")
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, GradientDescent)
    steps = time_grid(times, counts_steps=True).astype(np.int32)
    second, bias = (network.per_neuron(name) for name in ("second_layer", "bias"))
    step = constant_step(algorithm)
    shrinkage = 1.0 - step * algorithm.weight_decay
    values = (step, shrinkage, network.initial_norm, second, bias)
    numbers = Numbers(*(jnp.asarray(value, jnp.float32) for value in values))
    sizes = (sample_size(problem, d, "float32"), d, targets)
    key = stream_key(seed, d, "many targets")
    fixed = (functions_of(problem), problem.target, algorithm.spherical, sizes)
    overlap, square = _train(*fixed, numbers, key, jnp.asarray(np.diff(steps, prepend=0)))
    return ManyTargets(*(np.asarray(part, dtype=float).swapaxes(0, 1) for part in (overlap, square)))


class Numbers(NamedTuple):
    r"""$\eta$, $1-\eta\lambda$, the length of the start, $a$ and $b$ (m,)."""

    step: jax.Array
    shrinkage: jax.Array
    norm: jax.Array
    second: jax.Array
    bias: jax.Array


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _train(
    functions: Functions,
    target: Target,
    spherical: bool,
    sizes: tuple[int, int, int],
    numbers: Numbers,
    key: jax.Array,
    intervals: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    n, d, count = sizes
    k, m = target.latents, numbers.second.size
    input_key, label_key, start_key = jax.random.split(key, 3)
    x = jax.random.normal(input_key, (n, d), jnp.float32)
    y = draw_labels(label_key, target, x[:, : count * k].reshape(n, count, k))
    start = jax.random.normal(start_key, (count * m, d), jnp.float32)
    start = numbers.norm * start / jnp.linalg.norm(start, axis=1, keepdims=True)

    def step(weights: jax.Array) -> jax.Array:
        fields = jnp.einsum("nd,md->nm", x, weights).reshape(n, count, m) + numbers.bias
        values, slopes = jax.jvp(functions.activation, (fields,), (jnp.ones_like(fields),))
        pulls = functions.slope(y, values @ numbers.second / m) / m
        factors = (pulls[..., None] * slopes * numbers.second).reshape(n, count * m)
        new = numbers.shrinkage * weights - numbers.step * (factors.T @ x) / n
        return new * (numbers.norm / jnp.linalg.norm(new, axis=1, keepdims=True)) if spherical else new

    def observe(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        own = weights[:, : count * k].reshape(count, m, count, k)[jnp.arange(count), :, jnp.arange(count)]
        return own, (weights**2).sum(axis=1).reshape(count, m)

    return record(step, observe, start, intervals)
