"""One-pass SGD of a two-layer network in d dimensions: a fresh sample at every step."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.gaussian.start_weights import start_weights
from limen.method import Method
from limen.problem import OnePassSGD, SphericalSGD, Target, TwoLayer
from limen.result import Result
from limen.simulation.data import check_inputs, draw_inputs, draw_labels, spread
from limen.simulation.training_record import Observables, observe, stayed_finite, training_dataset
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, loss_and_gradient

CITATIONS = ("saad1995", "goldt2019")
# Samples are drawn in blocks: per-sample draws cost more than the step itself.
BLOCK = 200


def refuses(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    if not isinstance(problem, TwoLayer):
        return "it trains two-layer networks."
    if not problem.one_pass:
        return f"it runs OnePassSGD and SphericalSGD, not {type(problem.algorithm).__name__}."
    return None


def solve(problem: TwoLayer, times: np.ndarray, d: int, seed: int, inputs: str = "gaussian") -> Result:
    r"""Trains one network, $O(md)$ per sample, and reports its overlaps at `times`.

    Times are $t=\text{steps}\cdot\gamma/(dm)$, rounded to whole steps. `inputs` is the law of the entries of $x$:
    `gaussian`, `rademacher` or `student-t`. Test loss and excess risk are on Gaussian inputs.
    """
    check_inputs(inputs)
    began = time.perf_counter()
    algorithm, m, k = problem.algorithm, problem.network.width, problem.target.latents
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    batch = algorithm.batch if isinstance(algorithm, OnePassSGD) else 1
    steps = np.rint(times * d * m / algorithm.rate).astype(np.int64)
    weights = spread(start_weights(problem, d, seed), k, seed, inputs)
    frame = spread(np.eye(k, d), k, seed, inputs)
    interval = int(np.median(np.diff(steps, prepend=0))) if steps.size > 1 else int(steps[-1])
    observables = _train(
        functions_of(problem),
        problem.target,
        isinstance(algorithm, SphericalSGD),
        inputs,
        int(np.clip(interval, 1, BLOCK)),
        batch,
        Weights(
            jnp.asarray(weights, jnp.float32),
            jnp.asarray(problem.network.per_neuron("second_layer"), jnp.float32),
        ),
        jnp.asarray(frame, jnp.float32),
        jnp.asarray(problem.network.per_neuron("bias"), jnp.float32),
        jnp.asarray(algorithm.rate / (d * batch), jnp.float32),
        jnp.asarray(_second_layer_rate(problem) / (d * batch), jnp.float32),
        jnp.asarray(problem.network.initial_norm, jnp.float32),
        jnp.asarray(np.diff(steps, prepend=0), jnp.int32),
        stream_key(seed, d, "samples"),
    )
    dataset = training_dataset(problem, observables, times, seed, d)
    dataset = dataset.assign_coords(step=("time", steps), samples=("time", steps * batch))
    finite = stayed_finite(dataset)
    status = f"full SGD in d = {d}." if finite else f"training diverged at d = {d}: take a smaller rate."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, problem.describe(), "simulation", finite, status, statistics, (seed,), CITATIONS)


def _second_layer_rate(problem: TwoLayer) -> float:
    if not problem.network.train_second_layer:
        return 0.0
    algorithm = problem.algorithm
    return algorithm.rate * algorithm.second_layer_ratio if isinstance(algorithm, OnePassSGD) else algorithm.rate  # pyright: ignore[reportAttributeAccessIssue]


@partial(jax.jit, static_argnums=tuple(range(6)))
def _train(
    functions: Functions,
    target: Target,
    spherical: bool,
    inputs: str,
    block: int,
    batch: int,
    weights: Weights,
    frame: jax.Array,
    bias: jax.Array,
    rate: jax.Array,
    second_rate: jax.Array,
    norm: jax.Array,
    intervals: jax.Array,
    key: jax.Array,
) -> Observables:
    """Observables after each interval; `rate` and `second_rate` are per sample of the batch."""
    k, d = frame.shape

    def step(weights: Weights, x: jax.Array, y: jax.Array) -> Weights:
        """One step on a batch x (batch, d)."""
        gradient = loss_and_gradient(functions, weights, bias, x, y)[1]
        first = weights.first - rate * gradient.first
        if spherical:
            first = first * (norm / jnp.linalg.norm(first, axis=1, keepdims=True))
        return Weights(first, weights.second - second_rate * gradient.second)

    def run_block(carry: tuple[Weights, jax.Array, jax.Array]) -> tuple[Weights, jax.Array, jax.Array]:
        weights, key, left = carry
        key, input_key, label_key = jax.random.split(key, 3)
        x = draw_inputs(input_key, (block, batch, d), inputs)
        z = x[..., :k] if inputs == "gaussian" else x @ frame.T
        y = draw_labels(label_key, target, z)
        count = jnp.minimum(left, block)
        weights = jax.lax.fori_loop(0, count, lambda i, weights: step(weights, x[i], y[i]), weights)
        return weights, key, left - count

    def interval(carry: tuple[Weights, jax.Array], length: jax.Array) -> tuple[tuple[Weights, jax.Array], Observables]:
        weights, key, _ = jax.lax.while_loop(lambda c: c[2] > 0, run_block, (*carry, length))
        return (weights, key), observe(weights, frame)

    return jax.lax.scan(interval, (weights, key), intervals)[1]


one_pass_sgd = Method("one-pass-sgd", CITATIONS, refuses, solve)
