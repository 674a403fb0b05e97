"""Multi-pass mini-batch SGD of a two-layer network on a fixed sample in d dimensions."""

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.result import Result
from limen.simulation.descent.fixed_sample import sample_size
from limen.simulation.descent.fixed_sample_training import (
    Record,
    Setting,
    keeps_path,
    prepare,
    recorded,
    refuses,
    training_result,
    updated,
)
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, risk_and_gradient

CITATIONS = ("montanari2026",)


class State(NamedTuple):
    """What a step carries: weights, the order (n,) of the samples in this epoch, steps done."""

    weights: Weights
    order: jax.Array
    steps: jax.Array


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int,
    seed: int,
    batch: int | None = None,
    dtype: str = "float32",
) -> Result:
    r"""Trains as `gradient-descent` does, with $\hat R$ replaced at each step by its mean over `batch` samples.

    Each epoch takes a new random order of the $n$ samples and cuts $\lfloor n/B\rfloor$ batches from it; what is
    left over sits out that epoch. Time counts steps, not epochs; the coordinate `epoch` counts passes. Train loss is
    over the whole sample. Cost: $4Bmd$ operations a step, and one pass over the sample per recorded time.
    """
    began = time.perf_counter()
    assert isinstance(problem.algorithm, GradientDescent)
    if batch is None:
        raise InputError("batch (samples per step) is required with the simulator minibatch-sgd.")
    n = sample_size(problem, d, dtype)
    if isinstance(batch, bool) or int(batch) != batch or not 1 <= batch <= n:
        raise InputError(f"batch must be a whole number from 1 to n = {n}, got {batch!r}.")
    setting = prepare(problem, d, seed, dtype)
    steps = np.rint(times).astype(np.int32)
    record = _train(
        functions_of(problem),
        problem.algorithm.spherical,
        keeps_path(setting, times),
        int(batch),
        setting,
        jnp.asarray(np.diff(steps, prepend=0).astype(np.int32)),
        stream_key(seed, d, "batches"),
    )
    record = jax.block_until_ready(record)
    statistics = {"seconds": time.perf_counter() - began}
    what = f"mini-batch SGD (batch {int(batch)})"
    result = training_result(problem, setting, record, times, seed, what, statistics, CITATIONS)
    result.dataset.coords["epoch"] = ("time", steps / (n // int(batch)))
    return result


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _train(
    functions: Functions,
    spherical: bool,
    with_path: bool,
    batch: int,
    setting: Setting,
    intervals: jax.Array,
    key: jax.Array,
) -> Record:
    """Records after each interval."""
    x, y = setting.sample
    n = y.size
    batches = n // batch

    def step(_: jax.Array, state: State) -> State:
        epoch, place = state.steps // batches, state.steps % batches
        order = jax.lax.cond(
            place == 0,
            lambda: jax.random.permutation(jax.random.fold_in(key, epoch), n).astype(jnp.int32),
            lambda: state.order,
        )
        chosen = jax.lax.dynamic_slice_in_dim(order, place * batch, batch)
        gradient = risk_and_gradient(functions, state.weights, setting.bias, x[chosen], y[chosen])[1]
        return State(updated(setting.rule, spherical, state.weights, gradient), order, state.steps + 1)

    def interval(state: State, length: jax.Array) -> tuple[State, Record]:
        state = jax.lax.fori_loop(0, length, step, state)
        risk = risk_and_gradient(functions, state.weights, setting.bias, x, y)[0]
        return state, recorded(state.weights, setting, risk, with_path)

    start = State(setting.start, jnp.zeros(n, jnp.int32), jnp.zeros((), jnp.int32))
    return jax.lax.scan(interval, start, intervals)[1]


minibatch_sgd = Method("minibatch-sgd", CITATIONS, refuses, solve)
