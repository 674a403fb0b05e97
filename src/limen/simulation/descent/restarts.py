"""Gradient descent of one neuron from many starts on the same sample: as many trainings for little more than one."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.method import answers
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.algorithms import constant_step
from limen.result import Findings
from limen.simulation.descent.fixed_sample import Sample
from limen.simulation.descent.fixed_sample_training import prepare, refuses_plain
from limen.simulation.population_loss import population_losses
from limen.simulation.record import diverged, record
from limen.simulation.two_layer_gradient import Functions, functions_of

CITATIONS = ("montanari2026",)
BLOCK_BYTES = 1024 * 1024


class Rule(NamedTuple):
    r"""$\eta$, $1-\eta\lambda$, `initial_norm`."""

    step: jax.Array
    shrinkage: jax.Array
    norm: jax.Array


class Trainings(NamedTuple):
    """What a step carries: weights (starts, d), train losses (starts,) and gradients (starts, d) at them."""

    weights: jax.Array
    losses: jax.Array
    gradients: jax.Array


class Record(NamedTuple):
    r"""For each start along recorded steps: $\theta\cdot\theta_{*r}$ (start, time, k), $|\theta|^2$ and train loss."""

    overlap: Any
    square: Any
    train_loss: Any

    @property
    def cosine(self) -> np.ndarray:
        """Between neuron and latent directions, (start, time)."""
        return np.linalg.norm(self.overlap, axis=2) / np.sqrt(self.square)


@answers("simulation", CITATIONS)
@in_double
def restarts(problem: TwoLayer, times: np.ndarray, d: int, seed: int, starts: int = 8) -> Findings:
    r"""Trains one neuron on $n=\delta d$ samples `starts` times, from independent starts.

    Returns `train_loss`, `overlap`, `length` $|\theta|$ and `cosine` (the length of $\theta$'s projection on the latent
    directions over $|\theta|$) along (seed, start, time); `fresh_losses` adds what costs more.
    Trainings on one sample are not independent: means over starts are unbiased, their errors are to be taken between
    seeds.

    Cost: inputs are read from memory once for all starts, so that eight trainings of a large sample take about twice
    the time of one. The second layer is fixed.
    """
    assert problem.samples_per_dim is not None
    found = nested_restarts(problem, (problem.samples_per_dim,), times, d, seed, starts)[0]
    n, along = round(problem.samples_per_dim * d), ("seed", "start", "time")
    dataset = xr.Dataset(
        {
            "train_loss": (along, found.train_loss[None]),
            "overlap": ((*along, "latent"), found.overlap[None]),
            "length": (along, np.sqrt(found.square)[None]),
            "cosine": (along, found.cosine[None]),
        },
        coords={"time": times, "seed": [seed]},
        attrs={"d": d, "n": n},
    )
    finite = bool(np.isfinite(found.square).all())
    return Findings(dataset, finite, f"{starts} trainings on n = {n} samples in d = {d}." if finite else diverged(d))


@in_double
def nested_restarts(
    problem: TwoLayer, ratios: Sequence[float], times: np.ndarray, d: int, seed: int, starts: int = 8
) -> list[Record]:
    r"""`restarts` at every $\delta$ of `ratios`, each on the first $\delta d$ of one sample, from the same starts.

    The sample is drawn once and the code compiled once for all ratios.
    """
    reason = refuses_plain(problem)
    if reason is None and (problem.network.width != 1 or problem.network.train_second_layer):
        reason = "it trains one neuron with a fixed second layer."
    reason = reason or problem.inputs.unlike_isotropic()
    if reason is not None:
        raise InputError(f"restarts does not apply: {reason}")
    if starts < 1:
        raise InputError(f"starts must be at least 1, got {starts}.")
    algorithm = problem.algorithm
    assert isinstance(algorithm, GradientDescent)
    network = problem.network.model_copy(update={"width": starts})
    many = problem.model_copy(update={"network": network, "samples_per_dim": max(ratios)})
    setting, steps = prepare(many, d, seed, "float32"), np.rint(times).astype(np.int32)
    step = constant_step(algorithm)
    numbers = (step, 1.0 - step * algorithm.weight_decay, problem.network.initial_norm)

    def trained(ratio: float) -> Record:
        n = max(1, round(ratio * d))
        found = _train(
            functions_of(problem),
            algorithm.spherical,
            setting.sample,
            jnp.asarray(n),
            setting.start.first,
            setting.start.second[0],
            setting.bias[0],
            setting.frame,
            Rule(*(jnp.asarray(number, jnp.float32) for number in numbers)),
            jnp.asarray(np.diff(steps, prepend=0)),
        )

        overlap, square, train_loss = (np.asarray(part, dtype=float) for part in found)
        return Record(overlap.transpose(1, 0, 2), square.T, train_loss.T)

    return [trained(ratio) for ratio in ratios]


def fresh_losses(problem: TwoLayer, overlap: np.ndarray, square: np.ndarray) -> np.ndarray:
    r"""Losses on fresh inputs of one neuron with overlaps (..., k) and squared length (...): shape (...)."""
    count = square.size
    second = np.broadcast_to(np.asarray(problem.network.per_neuron("second_layer")), (count, 1))
    parts = (overlap.reshape(count, 1, -1), square.reshape(count, 1, 1), second)
    return population_losses(problem, *parts).test.reshape(square.shape)


@partial(jax.jit, static_argnums=(0, 1))
def _train(
    functions: Functions,
    spherical: bool,
    sample: Sample,
    n: jax.Array,
    first: jax.Array,
    second: jax.Array,
    bias: jax.Array,
    frame: jax.Array,
    rule: Rule,
    intervals: jax.Array,
) -> Record:
    """As many steps as the interval has on the first `n` samples, then a record."""
    drawn, d = sample.x.shape
    rows = min(drawn, max(1, BLOCK_BYTES // (d * sample.x.dtype.itemsize)))

    def measured(weights: jax.Array) -> Trainings:

        def add_block(i: jax.Array, total: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            # The last block is moved back until it fits; rows already seen, or beyond n, do not count.
            begin = jnp.minimum(i * rows, drawn - rows)
            row = begin + jnp.arange(rows)
            counts = ((row >= i * rows) & (row < n)).astype(weights.dtype)[:, None]
            x, y = (jax.lax.dynamic_slice_in_dim(part, begin, rows) for part in sample)
            fields = x @ weights.T + bias
            values, slopes = jax.jvp(functions.activation, (fields,), (jnp.ones_like(fields),))
            output = second * values
            factors = counts * functions.slope(y[:, None], output) * second * slopes
            losses = (counts * functions.loss(y[:, None], output)).sum(axis=0)
            return total[0] + losses, total[1] + factors.T @ x

        total = (jnp.zeros(len(weights), weights.dtype), jnp.zeros_like(weights))
        losses, gradient = jax.lax.fori_loop(0, -(-n // rows), add_block, total)
        return Trainings(weights, losses / n, gradient)

    def step(state: Trainings) -> Trainings:
        new = rule.shrinkage * state.weights - rule.step * state.gradients / n
        if spherical:
            new = new * (rule.norm / jnp.linalg.norm(new, axis=1, keepdims=True))
        return measured(new)

    def observe(state: Trainings) -> Record:
        return Record(state.weights @ frame.T, (state.weights**2).sum(axis=1), state.losses)

    return record(step, observe, measured(first), intervals)
