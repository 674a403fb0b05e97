r"""The exact law of the overlap of spherical SGD at finite N, at a cost independent of N.

A step sees the sample $a$ through $s_*=\langle a,\theta\rangle$, $s=ms_*+\sqrt{1-m^2}\,w$ and its norm. With
$w\sim N(0,1)$ and $\chi^2_{N-2}$ for all directions that are left, $\|a\|^2=s_*^2+w^2+\chi^2_{N-2}$, and
with $c=\partial_sL$
$$m\leftarrow\frac{m-\frac\delta Nc\,(s_*-sm)}{\sqrt{1+(\delta/N)^2c^2(\|a\|^2-s^2)}}$$
is identical in law to training in $N$ dimensions (projections as in Ben Arous, Gheissari & Jagannath 2022).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.starts.sphere_start import check_dimension, sphere_start_overlaps
from limen.method import Method
from limen.precision import in_double
from limen.problem import BinaryMixture, OnlinePCA, SingleIndex
from limen.problem.families.effective_models import SphericalProblem
from limen.result import Findings
from limen.simulation.effective.block_supply import Supply, groups
from limen.simulation.effective.recorded_runs import recorded_runs, recorded_steps
from limen.simulation.effective.spherical_losses import CITATIONS, Slope, SphericalLoss, spherical_loss
from limen.simulation.work import check_chain_work


def refuses(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    if not isinstance(problem, (SingleIndex, OnlinePCA, BinaryMixture)):
        return "it runs SingleIndex, OnlinePCA and BinaryMixture."
    return None


def solve(problem: SphericalProblem, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run of the chain: `overlap` at `times` $t=\text{steps}\cdot\delta/N$."""
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: SphericalProblem, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds side by side in one result, far cheaper per seed; every seed's numbers are its own."""
    check_dimension(d)
    steps = recorded_steps(problem.step, times, d)
    check_chain_work(d, int(steps.whole[-1]), len(seeds), 1)
    loss = spherical_loss(problem)
    advance = partial(_advance, loss.slope, problem.step / d, loss.parameter)
    paths = []
    for group in groups(seeds):
        start = jnp.asarray(sphere_start_overlaps(problem.start, d, group))
        supply = Supply(partial(sample_block, loss, d), group, d, "spherical chain")
        states = supply.advanced(steps.whole, start, advance)
        paths.append(np.stack([np.asarray(overlap) for overlap in states], axis=1))
    status = f"exact overlap chain of spherical SGD in d = {d}."
    variables = {"overlap": np.concatenate(paths)}
    return [recorded_runs(problem, variables, times, steps, d, seeds, status)]


def sample_block(loss: SphericalLoss, d: int, generator: np.random.Generator, out: np.ndarray) -> None:
    r"""Fills $s_*$, $w$, $e$ and $\chi^2_{N-2}$ of a block of steps of one seed, `out` (4, BLOCK)."""
    generator.standard_normal(out=out[:3] if loss.noise_scale > 0.0 else out[:2])
    out[0] = loss.along(out[0], generator)
    if loss.noise_scale > 0.0:
        out[2] *= loss.noise_scale
    # chi^2 = 2 Gamma(nu/2), without the intermediate array of `chisquare`
    generator.standard_gamma(0.5 * (d - 2), out=out[3])
    out[3] *= 2.0


def overlap_step(slope: Slope, overlap: jax.Array, rate: Any, parameter: Any, draws: jax.Array) -> jax.Array:
    r"""One step of all seeds; `draws` (4, seeds) holds $s_*$, $w$, $e$ and $\chi^2_{N-2}$."""
    along, across, noise, remaining = draws
    field = overlap * along + jnp.sqrt(jnp.maximum(1.0 - overlap * overlap, 0.0)) * across
    move = rate * slope(along, field, noise, parameter)
    square = along * along + across * across + remaining - field * field
    return (overlap - move * (along - field * overlap)) / jnp.sqrt(1.0 + move * move * square)


@partial(jax.jit, static_argnums=0)
def _advance(
    slope: Slope, rate: Any, parameter: Any, overlap: jax.Array, draws: jax.Array, first: Any, last: Any
) -> jax.Array:
    return jax.lax.fori_loop(first, last, lambda i, m: overlap_step(slope, m, rate, parameter, draws[i]), overlap)


spherical_chain = Method("spherical-chain", "simulation", CITATIONS, refuses, solve, solve_seeds)
