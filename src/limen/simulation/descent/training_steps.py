r"""The steps of training on a fixed sample: every algorithm of `limen.problem.algorithms`, whole sample or batches."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from limen.gaussian.keys import stream_key
from limen.problem import GradientDescent, InputError, SignDescent, TwoLayer
from limen.problem.algorithms import Descent, move_of, step_sizes
from limen.problem.updates import Move
from limen.simulation.descent.fixed_sample_training import Setting
from limen.simulation.descent.sharded_sample import sharded_risk_and_gradient
from limen.simulation.record import record
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, risk_and_gradient


class Plan(NamedTuple):
    """What compiled code is made for; equal plans share it.

    `batch`: samples of a step, None for all. `observe(weights, risk, setting)`: what is recorded.
    """

    functions: Functions
    move: Move
    spherical: bool
    train_second_layer: bool
    batch: int | None
    replacement: bool
    mesh: Mesh | None
    observe: Callable[[Weights, Any, Setting], Any]


class Numbers(NamedTuple):
    r"""$\eta$ and $1-\eta\lambda$ of every step (steps,), the rule's own constants, lengths (m, 1), $\sqrt d$, and the
    step of the second layer over that of the first."""

    steps: jax.Array
    shrinkages: jax.Array
    own: tuple[jax.Array, ...]
    norm: jax.Array
    root: jax.Array
    second_ratio: jax.Array


class State(NamedTuple):
    """What a step carries: weights, the rule's memories, steps done; whole sample: risk and gradient at the weights;
    batches: the order (n,) of the samples in this epoch."""

    weights: Weights
    memory: Weights
    done: jax.Array
    risk: jax.Array | None
    gradient: Weights | None
    order: jax.Array | None


def batch_size(problem: TwoLayer, n: int) -> int | None:
    """Samples of a step, the whole part of `batch_fraction` times n; None where a step sees all."""
    algorithm = problem.algorithm
    assert isinstance(algorithm, Descent)
    if algorithm.batch_fraction == 1.0:
        return None
    # Products such as 0.1 * 30 may fall just short of the whole number they are.
    batch = int(algorithm.batch_fraction * n + 1e-6)
    if batch < 1:
        raise InputError(f"batch_fraction times n = {n} must be at least 1, got {algorithm.batch_fraction * n:g}.")
    return batch


def train(
    problem: TwoLayer,
    setting: Setting,
    times: np.ndarray,
    seed: int,
    observe: Callable[[Weights, Any, Setting], Any],
    mesh: Mesh | None = None,
) -> Any:
    """Observations `observe(weights, risk, setting)` at `times` (whole steps), stacked along their first axis.

    Cost of a step: two products of the inputs of its batch with the weights. Whole sample: the risk comes with the
    gradient, and recording every step costs one step more in all. Batches: a pass over the sample per recorded time.
    """
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, Descent)
    d, dtype = setting.frame.shape[1], setting.frame.dtype
    n = setting.sample.x.shape[0] if setting.counts is None else round(float(setting.counts.sum()))
    batch = batch_size(problem, n)
    if batch is not None and mesh is not None:
        raise InputError(f"devices must be 1 with batch_fraction below 1, got {mesh.size}.")
    counts = np.rint(times).astype(np.int32)
    steps = step_sizes(algorithm, max(1, int(counts[-1])))
    decay = 0.0 if isinstance(algorithm, SignDescent) else algorithm.weight_decay
    move, own = move_of(algorithm)
    numbers = Numbers(
        jnp.asarray(steps, dtype),
        jnp.asarray(1.0 - steps * decay, dtype),
        tuple(jnp.asarray(value, dtype) for value in own),
        jnp.asarray(problem.start_lengths, dtype)[:, None],
        jnp.asarray(np.sqrt(d), dtype),
        jnp.asarray(algorithm.second_layer_ratio if isinstance(algorithm, GradientDescent) else 1.0, dtype),
    )
    plan = Plan(
        functions_of(problem),
        move,
        isinstance(algorithm, GradientDescent) and algorithm.spherical,
        network.train_second_layer,
        batch,
        algorithm.replacement,
        mesh,
        observe,
    )
    return _train(plan, setting, numbers, jnp.asarray(np.diff(counts, prepend=0)), stream_key(seed, d, "batches"))


@partial(jax.jit, static_argnums=0)
def _train(plan: Plan, setting: Setting, numbers: Numbers, intervals: jax.Array, key: jax.Array) -> Any:
    memory = jax.tree.map(lambda part: jnp.zeros((plan.move.memories, *part.shape), part.dtype), setting.start)
    start = State(setting.start, memory, jnp.zeros((), jnp.int32), None, None, None)
    if plan.batch is None:
        step, first, observe = _whole_sample(plan, setting, numbers)
    else:
        step, first, observe = _batches(plan, setting, numbers, key)
    return record(step, observe, first(start), intervals)


def _whole_sample(plan: Plan, setting: Setting, numbers: Numbers) -> tuple[Callable[..., Any], ...]:
    def measured(state: State) -> State:
        if plan.mesh is None or setting.counts is None:
            risk, gradient = risk_and_gradient(plan.functions, state.weights, setting.bias, *setting.sample)
        else:
            parts = (state.weights, setting.bias, setting.sample, setting.counts, setting.counts.sum())
            risk, gradient = sharded_risk_and_gradient(plan.mesh, plan.functions, *parts)
        return state._replace(risk=risk, gradient=gradient)

    def step(state: State) -> State:
        assert state.gradient is not None
        return measured(_moved(plan, numbers, state, state.gradient))

    return step, measured, lambda state: plan.observe(state.weights, state.risk, setting)


def _batches(plan: Plan, setting: Setting, numbers: Numbers, key: jax.Array) -> tuple[Callable[..., Any], ...]:
    x, y = setting.sample
    n, batch = y.size, plan.batch
    assert batch is not None

    def shuffled(number: jax.Array) -> jax.Array:
        return jax.random.permutation(jax.random.fold_in(key, number), n).astype(jnp.int32)

    def drawn(state: State) -> tuple[jax.Array, State]:
        if plan.replacement:
            return shuffled(state.done)[:batch], state
        epoch, place = state.done // (n // batch), state.done % (n // batch)
        order = jax.lax.cond(place == 0, lambda: shuffled(epoch), lambda: state.order)
        return jax.lax.dynamic_slice_in_dim(order, place * batch, batch), state._replace(order=order)

    def step(state: State) -> State:
        chosen, state = drawn(state)
        gradient = risk_and_gradient(plan.functions, state.weights, setting.bias, x, y, chosen)[1]
        return _moved(plan, numbers, state, gradient)

    def first(state: State) -> State:
        return state if plan.replacement else state._replace(order=jnp.zeros(n, jnp.int32))

    def observe(state: State) -> Any:
        risk = risk_and_gradient(plan.functions, state.weights, setting.bias, x, y)[0]
        return plan.observe(state.weights, risk, setting)

    return step, first, observe


def _moved(plan: Plan, numbers: Numbers, state: State, gradient: Weights) -> State:
    r"""One step of the rule. Rules that are not linear act on $\sqrt d\,\theta$ and $\sqrt d\,\nabla$, and on the
    second layer and biases as they are; weight decay acts on the first layer only."""
    step, shrinkage = numbers.steps[state.done], numbers.shrinkages[state.done]
    root = 1.0 if plan.move.linear else numbers.root
    weights, memory = state.weights, state.memory
    entries = (weights.first, gradient.first) if plan.move.linear else (root * weights.first, root * gradient.first)
    first, first_memory = plan.move.apply(numbers.own, step, shrinkage, state.done, *entries, memory.first)
    if not plan.move.linear:
        first = first / root
    if plan.spherical:
        first = first * (numbers.norm / jnp.linalg.norm(first, axis=1, keepdims=True))
    outer, outer_memory = weights[1:], memory[1:]
    unshrunk = jnp.ones_like(shrinkage)
    if plan.train_second_layer:
        size, parts = numbers.second_ratio * step, (weights.second, gradient.second, memory.second)
        moved = plan.move.apply(numbers.own, size, unshrunk, state.done, *parts)
        outer, outer_memory = (moved[0], outer[1]), (moved[1], outer_memory[1])
    if weights.bias is not None:
        moved = plan.move.apply(numbers.own, step, unshrunk, state.done, weights.bias, gradient.bias, memory.bias)
        outer, outer_memory = (outer[0], moved[0]), (outer_memory[0], moved[1])
    return state._replace(
        weights=Weights(first, *outer), memory=Weights(first_memory, *outer_memory), done=state.done + 1
    )
