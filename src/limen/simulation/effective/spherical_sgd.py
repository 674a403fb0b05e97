"""SGD on the sphere in all N dimensions: single-index losses, one fresh sample a step, many seeds side by side."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.gaussian.starts.sphere_start import check_dimension, orthogonal_directions, sphere_start_overlaps
from limen.method import Method
from limen.precision import in_double
from limen.problem.families.effective_models import SphericalProblem
from limen.result import Findings
from limen.simulation.effective.recorded_runs import recorded_runs, recorded_steps
from limen.simulation.effective.spherical_chain import refuses
from limen.simulation.effective.spherical_losses import CITATIONS, Slope, spherical_loss
from limen.simulation.record import states_at
from limen.simulation.work import check_sgd_work

# Numbers drawn at a time, over all seeds.
DRAWN = 2**22


def solve(problem: SphericalProblem, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run in $N=d$ dimensions, $O(N)$ per sample: `overlap` at `times` $t=\text{steps}\cdot\delta/N$.

    Starts at the same overlap as the chain. Runs above `MOST_SGD_WORK` are refused.
    """
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: SphericalProblem, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds in one result; every seed's numbers are its own."""
    check_dimension(d)
    steps = recorded_steps(problem.step, times, d)
    check_sgd_work(d, int(steps.whole[-1]), len(seeds), 1, 1)
    most = max(1, DRAWN // (64 * d))
    paths = [_paths(problem, steps.whole, d, seeds[begin : begin + most]) for begin in range(0, len(seeds), most)]
    status = f"full spherical SGD in d = {d}."
    return [recorded_runs(problem, {"overlap": np.concatenate(paths)}, times, steps, d, seeds, status)]


def _paths(problem: SphericalProblem, steps: np.ndarray, d: int, seeds: Sequence[int]) -> np.ndarray:
    """Overlaps (seeds, times) of some seeds side by side."""
    loss = spherical_loss(problem)
    overlap = sphere_start_overlaps(problem.start, d, seeds)
    start = np.sqrt(1.0 - overlap**2)[:, None] * orthogonal_directions(d, seeds)
    start[:, 0] = overlap
    block = int(np.clip(DRAWN // (len(seeds) * d), 1, 256))
    # Streams of their own, so that a path does not depend on how many steps are drawn at a time.
    inputs, extras = (numpy_generators(seeds, d, f"spherical {name}") for name in ("inputs", "labels"))

    def advance(x: jax.Array, left: int) -> tuple[jax.Array, int]:
        count = min(left, block)
        samples, noise = np.empty((len(seeds), block, d)), np.zeros((len(seeds), block))
        for row, label, draw, extra in zip(samples, noise, inputs, extras, strict=True):
            draw.standard_normal(out=row[:count])
            row[:count, 0] = loss.along(row[:count, 0], extra)
            if loss.noise_scale > 0.0:
                label[:count] = loss.noise_scale * extra.standard_normal(count)
        return _advance(loss.slope, x, problem.step / d, loss.parameter, samples, noise, count), count

    return np.stack([np.asarray(x[:, 0]) for x in states_at(steps, jnp.asarray(start), advance)], axis=1)


@partial(jax.jit, static_argnums=0)
def _advance(
    slope: Slope, x: jax.Array, rate: Any, parameter: Any, samples: jax.Array, noise: jax.Array, count: Any
) -> jax.Array:
    """`count` steps of vectors x (seeds, d) whose first coordinate is the overlap; samples (seeds, block, d)."""

    def step(i: jax.Array, x: jax.Array) -> jax.Array:
        a, e = samples[:, i], noise[:, i]
        field = (a * x).sum(axis=1)
        c = slope(a[:, 0], field, e, parameter)
        moved = x - rate * c[:, None] * (a - field[:, None] * x)
        return moved / jnp.linalg.norm(moved, axis=1, keepdims=True)

    return jax.lax.fori_loop(0, count, step, x)


spherical_sgd = Method("spherical-sgd", "simulation", CITATIONS, refuses, solve, solve_seeds)
