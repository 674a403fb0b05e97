"""SGD on the sphere in all N dimensions: single-index losses, one fresh sample a step, many seeds side by side."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.gaussian.sphere_start import check_dimension, orthogonal_directions, sphere_start_overlaps
from limen.method import Method
from limen.precision import in_double
from limen.problem.effective_models import SphericalProblem
from limen.result import Findings
from limen.simulation.effective.recorded_runs import recorded_runs, steps_of
from limen.simulation.effective.spherical_chain import refuses
from limen.simulation.effective.spherical_losses import CITATIONS, Slope, spherical_loss
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
    steps = steps_of(problem.step, times, d)
    check_sgd_work(d, int(steps[-1]), len(seeds), 1, 1)
    loss = spherical_loss(problem)
    paths = []
    most = max(1, DRAWN // (64 * d))
    for begin in range(0, len(seeds), most):
        group = tuple(seeds[begin : begin + most])
        overlap = sphere_start_overlaps(problem.start, d, group)
        x = np.sqrt(1.0 - overlap**2)[:, None] * orthogonal_directions(d, group)
        x[:, 0] = overlap
        state = jnp.asarray(x)
        block = int(np.clip(DRAWN // (len(group) * d), 1, 256))
        # Streams of their own, so that a path does not depend on how many steps are drawn at a time.
        inputs, extras = (numpy_generators(group, d, f"spherical {name}") for name in ("inputs", "labels"))
        rows = [overlap] if steps[0] == 0 else []
        for count in np.diff(steps, prepend=0)[len(rows) :]:
            left = int(count)
            while left:
                done = min(left, block)
                samples, noise = np.empty((len(group), block, d)), np.zeros((len(group), block))
                for row, label, draw, extra in zip(samples, noise, inputs, extras, strict=True):
                    draw.standard_normal(out=row[:done])
                    row[:done, 0] = loss.along(row[:done, 0], extra)
                    if loss.noise_scale > 0.0:
                        label[:done] = loss.noise_scale * extra.standard_normal(done)
                state = _advance(loss.slope, state, problem.step / d, loss.parameter, samples, noise, done)
                left -= done
            rows.append(np.asarray(state[:, 0]))
        paths.append(np.stack(rows, axis=1))
    status = f"full spherical SGD in d = {d}."
    variables = {"overlap": np.concatenate(paths)}
    return [recorded_runs(problem, variables, times, steps, d, seeds, status)]


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
