"""One-pass SGD of a two-layer network in d dimensions: a fresh sample at every step."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bulk_normals import bulk_normals
from limen.gaussian.eigenspaces import block_sizes, coordinate_variances
from limen.gaussian.keys import stream_key
from limen.gaussian.starts.block_starts import spectral_weights
from limen.gaussian.starts.start_weights import start_weights
from limen.labelled import with_coordinates
from limen.method import Method
from limen.precision import in_double
from limen.problem import OnePassSGD, SphericalSGD, Target, TwoLayer
from limen.problem.rates import is_schedule, rate_function, steps_at
from limen.result import Findings
from limen.simulation.block_record import block_dataset, observe_blocks
from limen.simulation.data import draw_inputs, draw_labels, shuffled_rows, spread
from limen.simulation.record import diverged, record_blocks
from limen.simulation.training_record import (
    Observables,
    check_keep,
    observe,
    stayed_finite,
    training_dataset,
    with_weights,
)
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, loss_and_gradient
from limen.simulation.work import check_sgd_work

CITATIONS = ("saad1995", "goldt2019")
# Samples are drawn in blocks: per-sample draws cost more than the step itself.
BLOCK = 200


class State(NamedTuple):
    """What a step carries: weights, their velocity where there is momentum, the time where the rate follows it."""

    weights: Weights
    velocity: Weights | None
    time: jax.Array | None


# State, key of the samples to come, and steps done.
Carry = tuple[State, jax.Array, jax.Array]


def refuses(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    if not isinstance(problem, TwoLayer):
        return "it trains two-layer networks."
    if not problem.one_pass:
        return f"it runs OnePassSGD and SphericalSGD, not {type(problem.algorithm).__name__}."
    return None


def solve(problem: TwoLayer, times: np.ndarray, d: int, seed: int, keep: str = "") -> Findings:
    r"""Trains one network, $O(md)$ per sample, and reports its overlaps at `times`.

    Times are $t=\text{steps}\cdot\gamma/(dm)$ ($dt=\gamma(t)/(dm)$ a step with a formula), rounded to whole steps.
    Test loss and excess risk are on Gaussian inputs. With `keep="weights"` also `first_layer` (seed, time, neuron,
    input) and the target's `direction` (seed, latent, input). Runs above `MOST_SGD_WORK` are refused.
    """
    algorithm, m, k = problem.algorithm, problem.network.width, problem.target.latents
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    batch, momentum = (algorithm.batch, algorithm.momentum) if isinstance(algorithm, OnePassSGD) else (1, 0.0)
    steps = steps_at(algorithm.rate, times, d * m)
    check_sgd_work(d, int(steps[-1]), batch, m, k)
    law, spectrum = problem.inputs.law, problem.inputs.spectrum
    deviations, blocks, rows = None, None, None
    if spectrum.isotropic and problem.inputs.rows is None:
        weights = spread(start_weights(problem, d, seed), k, seed, law)
        frame = spread(np.eye(k, d), k, seed, law)
    else:
        weights, frame = spectral_weights(problem, d, seed)
        deviations = jnp.asarray(np.sqrt(coordinate_variances(problem.inputs, d)), jnp.float32)
        blocks = tuple(block_sizes(spectrum, d).tolist())
    interval = int(np.median(np.diff(steps, prepend=0))) if steps.size > 1 else int(steps[-1])
    block = int(np.clip(interval, 1, BLOCK))
    if problem.inputs.rows is not None:
        deviations = None
        used = shuffled_rows(problem.inputs.rows, seed, int(steps[-1]) * batch, "times")
        # The last block may reach beyond the rows that are used.
        rows = jnp.asarray(np.pad(used, ((0, block * batch), (0, 0))), jnp.float32)
    schedule = rate_function(algorithm.rate) if is_schedule(algorithm.rate) else None
    first, second = _rates(problem)
    train = _train if schedule is None else in_double(_train)
    kept = check_keep(keep, times.size, m, d)
    observables, path = train(
        functions_of(problem),
        problem.target,
        isinstance(algorithm, SphericalSGD),
        law,
        block,
        batch,
        schedule,
        blocks,
        kept,
        Weights(
            jnp.asarray(weights, jnp.float32),
            jnp.asarray(problem.network.per_neuron("second_layer"), jnp.float32),
        ),
        jnp.asarray(frame, jnp.float32),
        deviations,
        rows,
        jnp.asarray(problem.network.per_neuron("bias"), jnp.float32),
        np.asarray(first / (d * batch)),
        np.asarray(second / (d * batch)),
        None if not momentum else jnp.asarray(momentum, jnp.float32),
        jnp.asarray(problem.start_lengths, jnp.float32)[:, None],
        np.diff(steps, prepend=0),
        stream_key(seed, d, "samples"),
    )
    make = training_dataset if blocks is None else block_dataset
    dataset = make(problem, observables, times, seed, d)
    dataset = with_coordinates(dataset, {"step": ("time", steps), "samples": ("time", steps * batch)})
    if kept:
        dataset = with_weights(dataset, path, frame)
    finite = stayed_finite(dataset)
    status = f"full SGD in d = {d}." if finite else diverged(d, "rate")
    return Findings(dataset, finite, status)


def _rates(problem: TwoLayer) -> tuple[float, float]:
    """Rates of the two layers, without the schedule if there is one."""
    algorithm = problem.algorithm
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    rate = 1.0 if is_schedule(algorithm.rate) else algorithm.rate
    ratio = algorithm.second_layer_ratio if isinstance(algorithm, OnePassSGD) else 1.0
    return rate, rate * ratio if problem.network.train_second_layer else 0.0


@partial(jax.jit, static_argnums=tuple(range(9)))
def _train(
    functions: Functions,
    target: Target,
    spherical: bool,
    law: str,
    block: int,
    batch: int,
    schedule: Callable[[Any], Any] | None,
    blocks: tuple[int, ...] | None,
    kept: bool,
    weights: Weights,
    frame: jax.Array,
    deviations: jax.Array | None,
    rows: jax.Array | None,
    bias: jax.Array,
    rate: jax.Array,
    second_rate: jax.Array,
    momentum: jax.Array | None,
    norm: jax.Array,
    intervals: jax.Array,
    key: jax.Array,
) -> tuple[Observables, jax.Array | None]:
    """Observables after each interval, and first layers if they are `kept`.

    `rate` and `second_rate` are per sample of the batch, times the schedule.

    With inputs of several variances: standard `deviations` of the coordinates, and the numbers of them in each block.
    `rows` of data (samples, d) take the place of drawn inputs, in their order.
    """
    (k, d), m = frame.shape, bias.size

    def step(state: State, x: jax.Array, y: jax.Array) -> State:
        """One step on a batch x (batch, d)."""
        weights, velocity, t = state
        gamma = 1.0 if schedule is None else schedule(t)
        first_rate, last_rate = ((gamma * part).astype(jnp.float32) for part in (rate, second_rate))
        gradient = loss_and_gradient(functions, weights, bias, x, y)[1]
        push = Weights(-first_rate * gradient.first, -last_rate * gradient.second)
        if velocity is not None and momentum is not None:
            push = velocity = jax.tree.map(lambda kept, new: momentum * kept + new, velocity, push)
        first = weights.first + push.first
        if spherical:
            first = first * (norm / jnp.linalg.norm(first, axis=1, keepdims=True))
        moved = Weights(first, weights.second + push.second)
        return State(moved, velocity, None if t is None else t + gamma * rate * (batch / m))

    def inputs_after(done: jax.Array, key: jax.Array) -> jax.Array:
        if rows is not None:
            return jax.lax.dynamic_slice_in_dim(rows, done * batch, block * batch).reshape(block, batch, d)
        shape = (block, batch, d)
        x = bulk_normals(key, shape) if law == "gaussian" else draw_inputs(key, shape, law)
        return x if deviations is None else x * deviations

    def run_block(carry: Carry, left: jax.Array) -> tuple[Carry, jax.Array]:
        state, key, done = carry
        key, input_key, label_key = jax.random.split(key, 3)
        x = inputs_after(done, input_key)
        z = x[..., :k] if law == "gaussian" and blocks is None else x @ frame.T
        y = draw_labels(label_key, target, z)
        count = jnp.minimum(left, block)
        state = jax.lax.fori_loop(0, count, lambda i, state: step(state, x[i], y[i]), state)
        return (state, key, done + count), count

    def look(carry: Carry) -> tuple[Observables, jax.Array | None]:
        weights = carry[0].weights
        seen = observe(weights, frame) if blocks is None else observe_blocks(weights, frame, blocks)
        return seen, weights.first if kept else None

    # The time of a schedule is summed in double precision: a step is smaller than the rounding of a float32.
    time_zero = None if schedule is None else jnp.zeros((), jnp.float64)
    velocity = None if momentum is None else jax.tree.map(jnp.zeros_like, weights)
    return record_blocks(run_block, look, (State(weights, velocity, time_zero), key, jnp.zeros((), int)), intervals)


one_pass_sgd = Method("one-pass-sgd", "simulation", CITATIONS, refuses, solve)
