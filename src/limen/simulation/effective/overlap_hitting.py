"""First times at which the exact chains of spherical SGD and of spiked tensors reach an overlap."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.checks import seed_list
from limen.gaussian.starts.sphere_start import check_dimension, sphere_start_overlaps
from limen.precision import in_double
from limen.problem import BinaryMixture, InputError, OnlinePCA, SingleIndex, SpikedTensor
from limen.simulation.effective.block_supply import Supply, groups
from limen.simulation.effective.recorded_runs import recorded_steps
from limen.simulation.effective.spherical_chain import overlap_step, sample_block
from limen.simulation.effective.spherical_losses import Slope, spherical_loss
from limen.simulation.effective.tensor_chain import start_statistics, tensor_block, tensor_step
from limen.simulation.work import check_chain_work

Step = Callable[[Any, Any, Any], Any]


@in_double
def simulated_hitting_times(
    problem: Any, N: int, level: float, seeds: int | Sequence[int], longest: float, both_sides: bool = True
) -> np.ndarray:
    r"""First times $t=\text{steps}\cdot\delta/N$ at which $|m|\ge$ `level`, shape (seeds,), by the exact chain.

    Looks after every step, at a cost independent of $N$; inf for a seed that has not hit by $t=$ `longest`.

    Args:
        problem: `SingleIndex`, `OnlinePCA`, `BinaryMixture` or `SpikedTensor`.
        N: the dimension.
        level: the overlap to reach.
        seeds: `8` means seeds 0..7, or a list.
        longest: where to stop.
        both_sides: whether $m\le-$`level` counts as well.
    """
    chosen = seed_list(seeds)
    if not (np.isfinite(level) and level > 0.0):
        raise InputError(f"level must be positive, got {level!r}.")
    if not (np.isfinite(longest) and longest > 0.0):
        raise InputError(f"longest must be positive, got {longest!r}.")
    check_dimension(N)
    most = int(recorded_steps(problem.step, np.array([longest]), N).whole[0])
    check_chain_work(N, most, len(chosen), 1)
    found = []
    for group in groups(chosen):
        step, state, parameters, supply = _chain(problem, N, group)
        first = jnp.where(_hit(state[0], level, both_sides), 0, -1)
        done = 0
        while done < most and bool((first < 0).any()):
            count = min(most - done, supply.left)
            draws, begin, end = supply.take(count)
            state, first = _advance(step, both_sides, state, first, parameters, level, done, draws, begin, end)
            done += count
        found.append(np.asarray(first))
    steps = np.concatenate(found)
    return np.where(steps >= 0, steps * (problem.step / N), np.inf)


def _chain(problem: Any, N: int, seeds: Sequence[int]) -> tuple[Step, tuple[jax.Array, ...], tuple[Any, ...], Supply]:
    match problem:
        case SingleIndex() | OnlinePCA() | BinaryMixture():
            loss = spherical_loss(problem)
            state = (jnp.asarray(sphere_start_overlaps(problem.start, N, seeds)),)
            supply = Supply(partial(sample_block, loss, N), seeds, N, "spherical chain")
            return _sphere_step(loss.slope), state, (problem.step / N, loss.parameter), supply
        case SpikedTensor():
            state = tuple(jnp.asarray(part) for part in start_statistics(problem, N, seeds))
            supply = Supply(partial(tensor_block, N), seeds, N, "tensor chain")
            return _tensor_step(problem.order), state, (problem.signal, problem.step / N), supply
        case _:
            raise InputError(
                "problem must be a SingleIndex, OnlinePCA, BinaryMixture or SpikedTensor for hitting times, "
                f"got {type(problem).__name__}."
            )


@lru_cache(maxsize=64)
def _sphere_step(slope: Slope) -> Step:
    return lambda state, parameters, draws: (overlap_step(slope, state[0], parameters[0], parameters[1], draws),)


@lru_cache(maxsize=16)
def _tensor_step(order: int) -> Step:
    return lambda state, parameters, draws: tensor_step(order, state, parameters[0], parameters[1], draws)


def _hit(overlap: jax.Array, level: Any, both_sides: bool) -> jax.Array:
    return (jnp.abs(overlap) if both_sides else overlap) >= level


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    step: Step,
    both_sides: bool,
    state: tuple[jax.Array, ...],
    first: jax.Array,
    parameters: Any,
    level: Any,
    done: Any,
    draws: jax.Array,
    begin: Any,
    end: Any,
) -> tuple[tuple[jax.Array, ...], jax.Array]:

    def advance(i: jax.Array, carry: tuple[tuple[jax.Array, ...], jax.Array]) -> Any:
        state, first = carry
        moved = step(state, parameters, draws[i])
        hit = (first < 0) & _hit(moved[0], level, both_sides)
        # A run that has hit stands still: what an exploding tensor does afterwards does not matter.
        kept = tuple(jnp.where(first < 0, new, old) for new, old in zip(moved, state, strict=True))
        return kept, jnp.where(hit, done + i + 1 - begin, first)

    return jax.lax.fori_loop(begin, end, advance, (state, first))
