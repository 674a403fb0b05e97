"""How far trainings of any network have come along the hard directions of their target."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.link import hard_subspace
from limen.precision import in_double
from limen.problem import TwoLayer
from limen.simulation.descent.many_targets import Drawn, Numbers, Rule, many_step, own_overlaps, prepare_many
from limen.simulation.descent.trained_weights import trained_weights

# Trainings that have passed are left out after so many steps, in so large groups: every number is compiled once.
STEPS_AT_ONCE, GROUP = 8, 16


def largest_hard_cosine(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> np.ndarray:
    r"""$\max_j|P_H\theta_j|/|\theta_j|$ at `times` (whole steps) of one training, $P_H$ the projector on the hard
    subspace; shape (time,)."""
    found = trained_weights(problem, times, d, seed)
    hard = hard_subspace(problem.target).basis.T @ found.directions
    along = np.linalg.norm(found.first_layer @ hard.T, axis=-1)
    return (along / np.linalg.norm(found.first_layer, axis=-1)).max(axis=-1)


@in_double
def first_steps_above(problem: TwoLayer, level: float, steps: int, d: int, seed: int, targets: int) -> np.ndarray:
    """The first step up to `steps` at which the largest hard cosine exceeds `level`, infinite where there is none;
    of `targets` trainings on one sample, each with a target of its own (`many_targets`), shape (target,).

    Trainings are independent but for the inputs they share: errors of means are to be taken between seeds. Those that
    have passed are not trained on.
    """
    rule, numbers, drawn = prepare_many(problem, d, seed, targets)
    hard = jnp.asarray(hard_subspace(problem.target).basis, jnp.float32)
    names, passed = np.arange(targets), np.full(targets, np.inf)
    for begin in range(0, steps + 1, STEPS_AT_ONCE):
        left = np.flatnonzero(np.isinf(passed[names]))
        if left.size == 0:
            break
        filled = np.flatnonzero(np.isfinite(passed[names]))[: -left.size % GROUP]
        chosen = np.concatenate([left, filled])
        drawn, names = drawn.some(chosen), names[chosen]
        count = min(STEPS_AT_ONCE, steps + 1 - begin)
        weights, cosines = _cosines(rule, count, numbers, drawn, hard)
        drawn, above = drawn._replace(weights=weights), np.asarray(cosines) > level
        first = np.where(above.any(axis=0), begin + above.argmax(axis=0), np.inf)
        passed[names] = np.minimum(passed[names], first)
    return passed


@partial(jax.jit, static_argnums=(0, 1))
def _cosines(rule: Rule, count: int, numbers: Numbers, drawn: Drawn, hard: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights after `count` steps, and the largest hard cosines (count, target) before each of them."""
    step = many_step(rule, numbers, drawn)

    def one(weights: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        overlap, square = own_overlaps(weights, drawn.axes)
        return step(weights), (jnp.linalg.norm(overlap @ hard, axis=-1) / jnp.sqrt(square)).max(axis=1)

    return jax.lax.scan(one, drawn.weights, None, length=count)
