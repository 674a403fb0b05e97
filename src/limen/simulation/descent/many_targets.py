"""Gradient descent of small networks on many targets hidden in the same inputs: overlaps by the hundred."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, OverlapStart, RandomStart, Target, TwoLayer
from limen.problem.algorithms import constant_step
from limen.problem.starts import overlap_matrix
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
    unbiased, errors are to be taken between seeds. At most $d/k$ targets, a fixed second layer; a random start, or
    given overlaps of every network with its own target (no Gram matrix).

    Cost: inputs are drawn once; $4nmd$ operations per target and step, as products of matrices.
    """
    steps = time_grid(times, counts_steps=True).astype(np.int32)
    rule, numbers, drawn = prepare_many(problem, d, seed, targets)
    found = _train(rule, numbers, drawn, jnp.asarray(np.diff(steps, prepend=0)))
    return ManyTargets(*(np.asarray(part, dtype=float).swapaxes(0, 1) for part in found))


class Rule(NamedTuple):
    """What compiled code is made for: the functions of a network, and whether neurons keep their length."""

    functions: Functions
    spherical: bool


class Numbers(NamedTuple):
    r"""$\eta$, $1-\eta\lambda$, the length of the start, $a$ and $b$ (m,), and overlaps (m, k) at the start, None where
    they are random."""

    step: jax.Array
    shrinkage: jax.Array
    norm: jax.Array
    second: jax.Array
    bias: jax.Array
    overlap: jax.Array | None


class Drawn(NamedTuple):
    """Inputs (n, d); of each target labels (target, n), first layers (target, m, d), and which coordinates of the
    inputs are its own, `axes` (target, k)."""

    inputs: jax.Array
    labels: jax.Array
    weights: jax.Array
    axes: jax.Array

    def some(self, chosen: np.ndarray) -> "Drawn":
        """Only these targets."""
        return Drawn(self.inputs, *(part[chosen] for part in self[1:]))


def prepare_many(problem: TwoLayer, d: int, seed: int, targets: int) -> tuple[Rule, Numbers, Drawn]:
    """What the trainings of `many_targets` need; refused where it does not apply."""
    reason = refuses_plain(problem)
    if reason is None and problem.network.train_second_layer:
        reason = "it trains networks with a fixed second layer."
    reason = reason or problem.inputs.unlike_isotropic() or problem.inputs.unlike_gaussian()
    start = problem.start
    if reason is None and isinstance(start, OverlapStart) and start.gram is not None:
        reason = "its starts have no given Gram matrix."
    if reason is None and not isinstance(start, RandomStart | OverlapStart):
        reason = "it starts at random or from given overlaps."
    if reason is not None:
        raise InputError(f"many_targets does not apply: {reason}")
    if not 1 <= targets <= d // problem.target.latents:
        raise InputError(f"targets must lie between 1 and d/k = {d // problem.target.latents}, got {targets}.")
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, GradientDescent)
    overlap = None
    if isinstance(start, OverlapStart):
        overlap = jnp.asarray(overlap_matrix(start, network.width, problem.target.latents), jnp.float32)
    step = constant_step(algorithm)
    second, bias = (network.per_neuron(name) for name in ("second_layer", "bias"))
    values = (step, 1.0 - step * algorithm.weight_decay, network.initial_norm, second, bias)
    numbers = Numbers(*(jnp.asarray(value, jnp.float32) for value in values), overlap=overlap)
    sizes = (sample_size(problem, d, "float32"), d, targets)
    drawn = _draw(problem.target, sizes, numbers, stream_key(seed, d, "many targets"))
    return Rule(functions_of(problem), algorithm.spherical), numbers, drawn


@partial(jax.jit, static_argnums=(0, 1))
def _draw(target: Target, sizes: tuple[int, int, int], numbers: Numbers, key: jax.Array) -> Drawn:
    n, d, count = sizes
    k, m = target.latents, numbers.second.size
    input_key, label_key, start_key = jax.random.split(key, 3)
    x = jax.random.normal(input_key, (n, d), jnp.float32)
    y = draw_labels(label_key, target, x[:, : count * k].reshape(n, count, k)).T
    start = jax.random.normal(start_key, (count * m, d), jnp.float32).reshape(count, m, d)
    axes = jnp.arange(count * k).reshape(count, k)
    if numbers.overlap is None:
        return Drawn(x, y, numbers.norm * start / jnp.linalg.norm(start, axis=2, keepdims=True), axes)
    own = (jnp.arange(count)[:, None, None], jnp.arange(m)[:, None], axes[:, None])
    rest = start.at[own].set(0.0)
    length = jnp.sqrt(jnp.maximum(numbers.norm**2 - (numbers.overlap**2).sum(axis=1, keepdims=True), 0.0))
    rest = length * rest / jnp.linalg.norm(rest, axis=2, keepdims=True)
    return Drawn(x, y, rest.at[own].set(numbers.overlap), axes)


def many_step(rule: Rule, numbers: Numbers, drawn: Drawn) -> Callable[[jax.Array], jax.Array]:
    """One step of all networks: weights (target, m, d) to weights."""
    x, y = drawn.inputs, drawn.labels.T
    (n, count), m = y.shape, numbers.second.size

    def step(weights: jax.Array) -> jax.Array:
        flat = weights.reshape(count * m, -1)
        fields = jnp.einsum("nd,md->nm", x, flat).reshape(n, count, m) + numbers.bias
        values, slopes = jax.jvp(rule.functions.activation, (fields,), (jnp.ones_like(fields),))
        pulls = rule.functions.slope(y, values @ numbers.second / m) / m
        factors = (pulls[..., None] * slopes * numbers.second).reshape(n, count * m)
        new = numbers.shrinkage * flat - numbers.step * (factors.T @ x) / n
        new = new * (numbers.norm / jnp.linalg.norm(new, axis=1, keepdims=True)) if rule.spherical else new
        return new.reshape(weights.shape)

    return step


def own_overlaps(weights: jax.Array, axes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Overlaps (target, m, k) of networks with their own target, and squared lengths (target, m)."""
    return jnp.take_along_axis(weights, axes[:, None], axis=2), (weights**2).sum(axis=2)


@partial(jax.jit, static_argnums=0)
def _train(rule: Rule, numbers: Numbers, drawn: Drawn, intervals: jax.Array) -> tuple[jax.Array, jax.Array]:
    step = many_step(rule, numbers, drawn)
    return record(step, lambda weights: own_overlaps(weights, drawn.axes), drawn.weights, intervals)
