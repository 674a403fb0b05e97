r"""One-pass SGD on inputs of several variances as a theory of `TwoLayer`, for any activation, target and loss."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.checks import power_of_two
from limen.gaussian.starts.block_starts import block_start, limiting_start
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.result import Findings
from limen.theory.one_pass.blocks.block_overlaps import BlockOverlaps, BlockPath, Spectrum, integrate_blocks
from limen.theory.one_pass.overlap_equations.integration import Motion, Path
from limen.theory.one_pass.overlap_equations.overlap_flow import CITATIONS, checked_tolerance, flow_findings, solver_of
from limen.theory.one_pass.overlap_equations.overlap_ode import (
    momentum_of,
    noise_of_rows,
    other_points,
    population_of,
    problem_motion,
    seed_rules,
    with_losses,
    with_spread,
    without_momentum,
)
from limen.theory.one_pass.populations.frozen_points import POINTS
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation


def refuses(problem: object) -> str | None:
    """Why the overlap equations in blocks do not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not problem.one_pass:
        return f"it solves OnePassSGD and SphericalSGD, not {type(problem.algorithm).__name__}."
    return None


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int | None = None,
    seeds: Sequence[int] = (),
    tolerance: float | None = None,
    points: int | None = None,
) -> Findings:
    r"""Overlaps, Gram matrix, second layer and risk as $d\to\infty$ at fixed spectrum (see `block_overlaps`).

    `overlap` $=\theta_j\cdot\theta_{*r}$ and `gram` are sums over eigenspaces; `block_overlap` and `block_gram`, along
    `block` in the order of the variances, are their parts. Starts, options and averages as for isotropic inputs. Cost:
    that of isotropic inputs and $O(S(p+k)^3)$ per right-hand side.
    """
    if momentum_of(problem):
        found = solve(*without_momentum(problem, times), d, seeds, tolerance, points)
        return replace(found, dataset=found.dataset.assign_coords(time=times))
    count = POINTS if points is None else power_of_two("points", points)
    population, _ = population_of(problem, count)
    motion = problem_motion(problem, times)
    if d is not None and len(seeds):
        starts = [block_start(problem, d, seed) for seed in seeds]
    elif d is not None or len(seeds):
        raise InputError("d and seeds must be given together.")
    else:
        starts = [limiting_start(problem)]
    second = jnp.asarray(problem.network.per_neuron("second_layer"), float)
    stacked = BlockOverlaps(
        jnp.stack([jnp.asarray(start.gram) for start in starts]),
        jnp.stack([jnp.asarray(start.overlap(problem)) for start in starts]),
        jnp.tile(second, (len(starts), 1)),
    )
    spectrum = problem_spectrum(problem)
    sampled = isinstance(population, SampledPopulation)
    fine = checked_tolerance(tolerance, problem.network.activation)
    noisy, caveat = noise_of_rows(problem) if d is not None else (False, {})
    if d is not None and noisy:
        # Here: it stands on parts that most problems do without.
        from limen.theory.one_pass.blocks.noisy_block_rows import noisy_block_rows
        from limen.theory.one_pass.overlap_equations import noisy_rows

        population, rules = noisy_rows.row_averages(problem, population, points, seeds)
        coarse = min(tolerance or noisy_rows.TOLERANCE, noisy_rows.TOLERANCE)
        path, part = noisy_block_rows(problem, population, spectrum, stacked, motion, times, d, seeds, coarse, rules)
        paths = range(noisy_rows.PATHS * len(seeds))
        found = _findings(problem, path, times, population, spectrum, motion, paths, {"d": d})
        return noisy_rows.row_means(found, seeds, part)

    def along(population: Population) -> Findings:
        rules = seed_rules(problem, count, seeds) if sampled and len(seeds) else None
        path = integrate_blocks(
            population, spectrum, stacked, motion, jnp.asarray(times), jnp.asarray(fine), solver_of(motion), rules
        )
        return _findings(problem, path, times, population, spectrum, motion, seeds, {"d": d, **caveat})

    found = along(population)
    if not isinstance(population, SampledPopulation) or len(seeds) or not found.ok:
        return found
    other = other_points(problem, population, count)
    return found if other is None else with_spread(found, along(other))


def _findings(
    problem: TwoLayer,
    solved: BlockPath,
    times: np.ndarray,
    population: Population,
    spectrum: Spectrum,
    motion: Motion,
    seeds: Sequence[int],
    attributes: dict[str, Any],
) -> Findings:
    """What the paths show, one row per seed, or one path without any."""
    if not len(seeds):
        solved = jax.tree.map(lambda part: part[0], solved)
    states, lead = solved.states, ("seed",) * bool(len(seeds))
    path = Path(
        states.weighted(jnp.ones_like(spectrum.variances)), solved.excess_risk, solved.test_loss, *solved.outcome
    )
    fields = states.weighted(spectrum.variances)
    found = flow_findings(
        path,
        times,
        population,
        motion,
        lead=lead[0] if lead else None,
        labels=seeds,
        attributes=attributes if lead else None,
        last=None if lead else jax.tree.map(lambda part: part[-1], fields),
    )
    dims = (*lead, "time", "block", "neuron")
    found.dataset["block_overlap"] = ((*dims, "latent"), np.asarray(states.overlap))
    found.dataset["block_gram"] = ((*dims, "neuron2"), np.asarray(states.gram))
    if not isinstance(population, SampledPopulation):
        return found
    return with_losses(
        problem, found, [np.asarray(part) for part in (fields.overlap, fields.gram, fields.second_layer)]
    )


def problem_spectrum(problem: TwoLayer) -> Spectrum:
    """The spectrum of a problem's inputs, and where its target lives."""
    s, w = problem.inputs.spectrum
    return Spectrum(jnp.asarray(s), jnp.asarray(w), jnp.asarray(problem.inputs.latent_blocks(problem.target.latents)))


block_overlap_ode = Method("block-overlap-ode", "theory", CITATIONS, refuses, solve)
