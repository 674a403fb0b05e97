"""SGD of k orthonormal vectors in all N dimensions: multi-index losses, one fresh sample a step."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.keys import numpy_generators
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, MultiIndex, OverlapStart
from limen.problem.starts import overlap_matrix
from limen.result import Findings
from limen.simulation.effective.recorded_runs import recorded_steps
from limen.simulation.record import states_at
from limen.simulation.work import check_sgd_work

CITATIONS = ("benarous2021", "benarous2022")
# Numbers drawn at a time, over all seeds.
DRAWN = 2**22


def refuses(problem: object) -> str | None:
    """Why this simulator does not apply, or None."""
    return None if isinstance(problem, MultiIndex) else "it trains MultiIndex."


def solve(problem: MultiIndex, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run in $N=d$ dimensions, $O(kN)$ per sample: `overlap` (time, neuron, latent) at `times`
    $t=\text{steps}\cdot\delta/N$. The teacher's directions are the first $k$ axes."""
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: MultiIndex, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds in one result; every seed's numbers are its own."""
    k = problem.directions
    if d <= 2 * k:
        raise InputError(f"d must be above {2 * k}, twice the directions, got {d}.")
    steps = recorded_steps(problem.step, times, d)
    check_sgd_work(d, int(steps.whole[-1]), len(seeds), k, k)
    most = max(1, DRAWN // (64 * d))
    paths = [_paths(problem, steps.whole, d, seeds[begin : begin + most]) for begin in range(0, len(seeds), most)]
    dataset = xr.Dataset(
        {"overlap": (("seed", "time", "neuron", "latent"), steps.at_times(np.concatenate(paths), axis=1))},
        coords={"time": times, "seed": list(seeds), "step": ("time", steps.exact), "samples": ("time", steps.exact)},
        attrs={"d": d},
    )
    finite = bool(np.isfinite(dataset.overlap.values).all())
    status = f"full SGD on the Stiefel manifold in d = {d}."
    return [Findings(dataset, finite, status if finite else f"runs diverged at d = {d}: take a smaller step.")]


def _paths(problem: MultiIndex, steps: np.ndarray, d: int, seeds: Sequence[int]) -> np.ndarray:
    """Overlaps (seeds, times, k, k) of some seeds side by side."""
    k, scale = problem.directions, problem.target.noise**0.5
    block = int(np.clip(DRAWN // (len(seeds) * d), 1, 256))
    inputs, extras, begins = (
        numpy_generators(seeds, d, f"stiefel {name}") for name in ("inputs", "labels", "start")
    )  # fmt: skip
    start = np.stack([_start(problem, generator, d) for generator in begins])
    link, pull = problem.target.function, _pull(problem.target.function, problem.loss.slope)

    def advance(x: jax.Array, left: int) -> tuple[jax.Array, int]:
        count = min(left, block)
        samples, labels = np.zeros((len(seeds), block, d)), np.zeros((len(seeds), block))
        for row, label, draw, extra in zip(samples, labels, inputs, extras, strict=True):
            draw.standard_normal(out=row[:count])
            label[:count] = np.asarray(link(row[:count, :k], np.zeros(count)))
            if scale > 0.0:
                label[:count] += scale * extra.standard_normal(count)
        return _advance(pull, x, problem.step / d, samples, labels, count), count

    return np.stack([np.asarray(x[:, :, :k]) for x in states_at(steps, jnp.asarray(start), advance)], axis=1)


def _start(problem: MultiIndex, generator: np.random.Generator, d: int) -> np.ndarray:
    """Orthonormal rows (k, d), uniform or with the given overlaps with the first k axes."""
    k = problem.directions
    if not isinstance(problem.start, OverlapStart):
        return np.linalg.qr(generator.standard_normal((d, k)))[0].T
    overlap, rows = overlap_matrix(problem.start, k, k), np.zeros((k, d))
    values, vectors = np.linalg.eigh(np.eye(k) - overlap @ overlap.T)
    free = np.linalg.qr(generator.standard_normal((d - k, k)))[0].T
    rows[:, :k] = overlap
    rows[:, k:] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T @ free
    return rows


@lru_cache(maxsize=64)
def _pull(link: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The gradient of the loss by the student's fields (k,)."""

    def pull(label: Any, fields: Any) -> Any:
        output, gradient = jax.value_and_grad(lambda s: link(s, 0.0))(fields)
        return slope(label, output) * gradient

    return pull


@partial(jax.jit, static_argnums=0)
def _advance(pull: Any, x: jax.Array, rate: Any, samples: jax.Array, labels: jax.Array, count: Any) -> jax.Array:
    """`count` steps of frames x (seeds, k, d); samples (seeds, block, d)."""

    def one(frame: jax.Array, sample: jax.Array, label: jax.Array) -> jax.Array:
        fields = frame @ sample
        slopes = pull(label, fields)
        inside = jnp.outer(slopes, fields)
        moved = frame - rate * (jnp.outer(slopes, sample) - 0.5 * (inside + inside.T) @ frame)
        values, vectors = jnp.linalg.eigh(moved @ moved.T)
        return (vectors / jnp.sqrt(values)) @ vectors.T @ moved

    def step(i: jax.Array, x: jax.Array) -> jax.Array:
        return jax.vmap(one)(x, samples[:, i], labels[:, i])

    return jax.lax.fori_loop(0, count, step, x)


stiefel_sgd = Method("stiefel-sgd", "simulation", CITATIONS, refuses, solve, solve_seeds)
