"""Rows that begin at a saddle on inputs of several variances: `noisy_rows` with every overlap once per eigenspace.

Kicks have the covariance of the limit; what whole steps add at finite d is not in them.
"""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.starts.block_starts import block_start
from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST, ONE_THREAD, RUNS_ONCE
from limen.problem import TwoLayer
from limen.theory.one_pass.blocks.block_fluctuations import block_increment_covariance
from limen.theory.one_pass.blocks.block_overlaps import (
    BlockOverlaps,
    BlockPath,
    Spectrum,
    block_slope,
    follow_blocks,
    pack_blocks,
)
from limen.theory.one_pass.increments import Steps, problem_increments
from limen.theory.one_pass.overlap_equations import noisy_rows
from limen.theory.one_pass.overlap_equations.integration import Motion, Outcome, Rules, Solver, mapped
from limen.theory.one_pass.overlap_equations.overlap_flow import solver_of
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

ROUNDING = 1e-12


def noisy_block_rows(
    problem: TwoLayer,
    population: Population,
    spectrum: Spectrum,
    starts: BlockOverlaps,
    motion: Motion,
    times: np.ndarray,
    d: int,
    seeds: Sequence[int],
    tolerance: float,
    rules: Rules | None,
) -> tuple[BlockPath, float]:
    """`noisy_rows.PATHS` paths for every seed, (seed x path, time, ...), with their losses, and the part of the time
    that has noise."""
    sampled, solver = problem_increments(problem, noisy_rows.POINTS), solver_of(motion)

    def follow(
        taken: Rules | None,
        state: noisy_rows.State,
        offsets: np.ndarray,
        random: Sequence[np.random.Generator],
    ) -> noisy_rows.Followed:
        parts = BlockOverlaps(*map(on_device, state))
        clock = on_device(offsets), on_device(tolerance)
        states, outcome, covariance = _followed(population, sampled, spectrum, parts, motion, *clock, solver, taken)
        values, vectors = np.linalg.eigh(np.nan_to_num(covariance, posinf=0.0, neginf=0.0))
        # The root of rounding would be a kick.
        values = np.where(values > ROUNDING * values[:, -1:], values, 0.0)
        chances = noisy_rows.normals(random, values.shape[1]) * np.sqrt(values)[:, None]
        steps = Steps(chances @ vectors.swapaxes(1, 2), np.zeros(values.shape))
        return noisy_rows.Followed(noisy_rows.State(*(np.asarray(part) for part in states)), outcome, steps)

    def slope(packed: np.ndarray) -> np.ndarray:
        own = population if rules is None else rules.of(population, 0)
        return np.asarray(_slopes(own, spectrum, motion, on_device(packed), starts.second_layer[0]))

    begin, target = noisy_rows.State(*(np.asarray(part) for part in starts)), np.asarray(spectrum.latent_blocks)
    first = block_start(problem, d, noisy_rows.PILOT)
    pilot = noisy_rows.State(first.gram[None], first.overlap(problem)[None], begin.second_layer[:1])
    flows = partial(follow, rules), partial(follow, noisy_rows.of_pilot(rules))
    course = noisy_rows.Course(*flows, slope, pilot, target)
    found = noisy_rows.rows(course, begin, motion, times, d, seeds)
    states = BlockOverlaps(*map(on_device, found.states))
    excess, test = noisy_rows.losses(population, states.weighted(spectrum.variances))
    return BlockPath(states, excess, test, found.outcome), found.noisy


@eqx.filter_jit(compiler_options=RUNS_ONCE | ONE_THREAD)  # pyright: ignore[reportCallIssue]
def _slopes(
    population: Population, spectrum: Spectrum, motion: Motion, packed: jax.Array, second_layer: jax.Array
) -> jax.Array:
    """The slope of packed overlaps and Gram matrices (state, S(pk + p^2)) of one second layer."""
    blocks, p = spectrum.latent_blocks.shape[0], second_layer.size
    split = packed.shape[1] - blocks * p * p

    def one(vector: jax.Array) -> jax.Array:
        overlap, gram = vector[:split].reshape(blocks, p, -1), vector[split:].reshape(blocks, p, p)
        even = BlockOverlaps(0.5 * (gram + jnp.swapaxes(gram, 1, 2)), overlap, second_layer)
        return pack_blocks(block_slope(population, spectrum, motion, even, jnp.zeros(())))[: vector.size]

    return jax.lax.map(one, packed)


@eqx.filter_jit(compiler_options=COMPILES_FAST | ONE_THREAD)  # pyright: ignore[reportCallIssue]
def _followed(
    population: Population,
    sampled: SampledPopulation,
    spectrum: Spectrum,
    states: BlockOverlaps,
    motion: Motion,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
    rules: Rules | None,
) -> tuple[BlockOverlaps, Outcome, jax.Array]:
    r"""The flow from every state at `times`, and $\Sigma$ at the last of them, (path, S(pk + p^2), ...)."""
    _, blocks, p, k = states.overlap.shape
    count = blocks * p * (k + p)

    def one(parts: tuple[BlockOverlaps, jax.Array | None]) -> tuple[BlockOverlaps, Outcome, jax.Array]:
        start, taken = parts
        own = population if rules is None or taken is None else rules.of(population, taken)
        found, outcome = follow_blocks(own, spectrum, start, motion, times, tolerance, solver)
        end = BlockOverlaps(*(part[-1] for part in found))
        covariance = block_increment_covariance(sampled, spectrum, end, motion, jnp.zeros(()))
        return found, outcome, covariance[:count, :count]

    return mapped(one, (states, None if rules is None else rules.taken))
