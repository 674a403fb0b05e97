r"""Rows of one-pass SGD that begin at a saddle: the overlap equations with the noise of the samples in the overlaps.

$$dM=\dot M\,dt+\sqrt{\tfrac\gamma{dpB}}\;\Sigma_M^{1/2}dB,$$
$\Sigma_M$ the covariance of one sample's increments of $M$ in units of the step (`limen.theory.one_pass.increments`).
At a saddle $M$ is of order $d^{-1/2}$ and so is its noise: both grow alike, and the time of the escape depends on both
at every $d$. Everything else moves by $O(d^{-1/2})$ without growth and is left as it is: means are off by $O(1/d)$. A
row is the mean over the noise, given the start of the simulation of its seed (Ben Arous, Gheissari & Jagannath 2022;
Arnaboldi et al. 2023).
"""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST
from limen.problem import TwoLayer
from limen.result import Findings
from limen.theory.one_pass.increments import increment_covariance, problem_increments
from limen.theory.one_pass.overlap_equations.integration import Motion, Path, Rules, Solver, integrate_many
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

# Kicks up to the last time, at least; between them the equations are integrated as usual.
KICKS = 8
# Paths of a row: pairs of opposite kicks.
PATHS = 4
# Points and tolerance: the noise of a path is far larger than their errors, which average out over paths besides.
POINTS, TOLERANCE = 1 << 10, 1e-4


def noisy_rows(
    problem: TwoLayer,
    population: Population,
    motion: Motion,
    starts: Overlaps,
    times: np.ndarray,
    d: int,
    seeds: Sequence[int],
    solver: Solver,
    rules: Rules | None,
) -> Path:
    r"""`PATHS` paths for every seed, (seed x path, time, ...), of a rate that does not depend on time.

    Kicks of half a step before and after every piece of the flow (Strang's splitting), at the recorded times and at
    least every eighth of the last one. A kick $\delta$ moves the neurons along the target alone:
    $M\to M+\delta$, $Q\to Q+(M+\delta)(M+\delta)^\top-MM^\top$, on the sphere put back to its length.
    """
    sampled, random = problem_increments(problem, POINTS), numpy_generators(seeds, d, "noise of the samples")
    weight, longest = float(motion.noise.scale) / d, times[-1] / KICKS
    many = PATHS * len(seeds)
    lost, enough, steps = np.full(many, np.inf), np.ones(many, bool), np.zeros(many, int)
    state = Overlaps(*(on_device(np.repeat(part, PATHS, axis=0)) for part in starts))
    factors, recorded, begun = _kick_factors(sampled, state, motion), [], 0.0
    for time in times:
        pieces = int(np.ceil((time - begun) / longest - 1e-9))
        length = (time - begun) / max(pieces, 1)
        for i in range(pieces):
            state = _kicked(state, factors, random, 0.5 * length * weight, motion.spherical)
            path = integrate_many(
                population, state, motion, None, None, on_device([length]), on_device(TOLERANCE), solver, rules
            )
            stopped = begun + i * length + np.asarray(path.stopped)
            lost = np.minimum(lost, np.where(np.asarray(path.diverged), stopped, np.inf))
            enough &= np.asarray(path.enough_steps) | np.isfinite(lost)
            steps += np.asarray(path.steps)
            # Who is lost stays where he was.
            state = Overlaps(
                *(
                    on_device(np.where(_along(np.isfinite(lost), old), old, np.asarray(new)[:, 0]))
                    for new, old in zip(path.overlaps, state, strict=True)
                )
            )
            factors = _kick_factors(sampled, state, motion)
            state = _kicked(state, factors, random, 0.5 * length * weight, motion.spherical)
        begun = time
        recorded.append([np.where(_along(lost <= time, part), np.nan, part) for part in state])
    overlaps = Overlaps(*(on_device(np.stack(parts, axis=1)) for parts in zip(*recorded, strict=True)))
    excess, test = _losses(population, overlaps)
    return Path(overlaps, excess, test, *map(on_device, (np.isfinite(lost), lost, enough, steps)))


def _along(rows: np.ndarray, values: jax.Array | np.ndarray) -> np.ndarray:
    """A condition on rows in the shape of values (rows, ...)."""
    return rows.reshape(-1, *(1,) * (values.ndim - 1))


def _kick_factors(sampled: SampledPopulation, state: Overlaps, motion: Motion) -> np.ndarray:
    r"""Symmetric roots of $\Sigma_M$ of every row, (row, pk, pk)."""
    values, vectors = np.linalg.eigh(np.asarray(_covariances(sampled, state, motion)))
    return np.einsum("sij,sj,skj->sik", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)


@eqx.filter_jit(compiler_options=COMPILES_FAST)  # pyright: ignore[reportCallIssue]
def _covariances(sampled: SampledPopulation, state: Overlaps, motion: Motion) -> jax.Array:
    _, p, k = state.overlap.shape

    def one(overlaps: Overlaps) -> jax.Array:
        return increment_covariance(sampled, overlaps, motion, jnp.zeros(()))[: p * k, : p * k]

    return jax.lax.map(one, state)


def _kicked(
    state: Overlaps, factors: np.ndarray, random: Sequence[np.random.Generator], variance: float, spherical: bool
) -> Overlaps:
    """The state after a kick whose covariance is that of the factors times `variance`."""
    gram, overlap = np.asarray(state.gram), np.asarray(state.overlap)
    half = np.stack([one.standard_normal((PATHS // 2, factors.shape[-1])) for one in random])
    normals = np.stack([half, -half], axis=2).reshape(len(factors), -1)
    moved = overlap + np.sqrt(variance) * np.einsum("sij,sj->si", factors, normals).reshape(overlap.shape)
    kicked = gram + moved @ moved.transpose(0, 2, 1) - overlap @ overlap.transpose(0, 2, 1)
    if spherical:
        shrink = np.sqrt(np.einsum("sii->si", gram) / np.einsum("sii->si", kicked))
        moved, kicked = shrink[..., None] * moved, shrink[..., None] * kicked * shrink[:, None]
    return Overlaps(on_device(kicked), on_device(moved), state.second_layer)


@eqx.filter_jit(compiler_options=COMPILES_FAST)  # pyright: ignore[reportCallIssue]
def _losses(population: Population, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
    """Excess risks and test losses (row, time)."""
    return jax.lax.map(lambda row: jax.lax.map(population.losses, row), overlaps)


def row_means(found: Findings, seeds: Sequence[int]) -> Findings:
    """Rows as means over their paths. A row is lost where its first path is; other lost paths are left out."""
    variables = {}
    for name, one in found.dataset.data_vars.items():
        paths = one.values.reshape(len(seeds), PATHS, *one.shape[1:])
        kept = np.isfinite(paths)
        sums, count = np.where(kept, paths, 0.0).sum(axis=1), kept.sum(axis=1)
        variables[name] = (one.dims, np.where(kept[:, 0], sums / np.maximum(count, 1), np.nan), one.attrs)
    coords = {"time": found.dataset.time.values, "seed": list(seeds)}
    return replace(found, dataset=labelled(variables, coords=coords, attrs=found.dataset.attrs | {"rows": "means"}))
