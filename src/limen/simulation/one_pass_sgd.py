"""One-pass SGD of a two-layer network in d dimensions: a fresh sample at every step."""

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.keys import stream_key
from limen.gaussian.start_weights import start_weights
from limen.problem import OnePassSGD, SphericalSGD, TwoLayer
from limen.method import Method
from limen.result import Result
from limen.simulation.data import check_inputs, draw_inputs, draw_labels, spread
from limen.simulation.population_loss import population_losses

CITATIONS = ("saad1995", "goldt2019")
# Samples are drawn in blocks: per-sample draws cost more than the step itself.
BLOCK = 200


class State(NamedTuple):
    """What a step carries: first layer (m, d) and second layer (m,)."""

    weights: jax.Array
    second_layer: jax.Array


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
    overlap, gram, second_layer = _train(
        problem.network.activation.function,
        problem.loss.slope,
        problem.target,
        isinstance(algorithm, SphericalSGD),
        inputs,
        int(np.clip(interval, 1, BLOCK)),
        batch,
        State(
            jnp.asarray(weights, jnp.float32),
            jnp.asarray(problem.network.per_neuron("second_layer"), jnp.float32),
        ),
        jnp.asarray(frame, jnp.float32),
        jnp.asarray(problem.network.per_neuron("bias"), jnp.float32),
        jnp.asarray(algorithm.rate / d, jnp.float32),
        jnp.asarray(_second_layer_rate(problem) / d, jnp.float32),
        jnp.asarray(problem.network.initial_norm, jnp.float32),
        jnp.asarray(np.diff(steps, prepend=0), jnp.int32),
        stream_key(seed, d, "samples"),
    )
    overlap, gram, second_layer = (np.asarray(part, dtype=float) for part in (overlap, gram, second_layer))
    finite = bool(np.isfinite(gram).all())
    test, excess = population_losses(problem, overlap, gram, second_layer)
    dataset = xr.Dataset(
        {
            "overlap": (("seed", "time", "neuron", "latent"), overlap[None]),
            "gram": (("seed", "time", "neuron", "neuron2"), gram[None]),
            "second_layer": (("seed", "time", "neuron"), second_layer[None]),
            "test_loss": (("seed", "time"), test[None]),
            "excess_risk": (("seed", "time"), excess[None]),
        },
        coords={"time": times, "step": ("time", steps), "samples": ("time", steps * batch), "seed": [seed]},
        attrs={"d": d},
    )
    status = f"full SGD in d = {d}." if finite else f"training diverged at d = {d}: take a smaller rate."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, problem.describe(), "simulation", finite, status, statistics, (seed,), CITATIONS)


def _second_layer_rate(problem: TwoLayer) -> float:
    if not problem.network.train_second_layer:
        return 0.0
    algorithm = problem.algorithm
    return algorithm.rate * algorithm.second_layer_ratio if isinstance(algorithm, OnePassSGD) else algorithm.rate  # pyright: ignore[reportAttributeAccessIssue]


@partial(jax.jit, static_argnums=tuple(range(7)))
def _train(
    activation, slope, target, spherical, inputs, block, batch,
    state, frame, bias, rate, second_rate, norm, intervals, key,
):  # fmt: skip  # noqa: ANN001, ANN202
    m, d = state.weights.shape
    k = frame.shape[0]

    def step(state: State, x: jax.Array, y: jax.Array) -> State:
        """One step on a batch x (batch, d)."""
        fields = x @ state.weights.T + bias
        values, slopes = jax.jvp(activation, (fields,), (jnp.ones_like(fields),))
        residual = slope(y, values @ state.second_layer / m) / (m * batch)
        factors = residual[:, None] * slopes * state.second_layer
        weights = state.weights - rate * (factors.T @ x)
        if spherical:
            weights = weights * (norm / jnp.linalg.norm(weights, axis=1, keepdims=True))
        return State(weights, state.second_layer - second_rate * (residual @ values))

    def run_block(carry: tuple[State, jax.Array, jax.Array]) -> tuple[State, jax.Array, jax.Array]:
        state, key, left = carry
        key, input_key, label_key = jax.random.split(key, 3)
        x = draw_inputs(input_key, (block, batch, d), inputs)
        z = x[..., :k] if inputs == "gaussian" else x @ frame.T
        y = draw_labels(label_key, target, z)
        count = jnp.minimum(left, block)
        state = jax.lax.fori_loop(0, count, lambda i, state: step(state, x[i], y[i]), state)
        return state, key, left - count

    def interval(carry: tuple[State, jax.Array], length: jax.Array):  # noqa: ANN202
        state, key = carry
        state, key, _ = jax.lax.while_loop(lambda c: c[2] > 0, run_block, (state, key, length))
        return (state, key), (state.weights @ frame.T, state.weights @ state.weights.T, state.second_layer)

    return jax.lax.scan(interval, (state, key), intervals)[1]


one_pass_sgd = Method("one-pass-sgd", CITATIONS, refuses, solve)
