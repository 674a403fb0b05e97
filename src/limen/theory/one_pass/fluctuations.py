r"""Spread of the overlaps at finite $d$: the linear noise around the deterministic flow.

$\dot S=\mathcal AS+S\mathcal A^\top+\frac\gamma{dpB}\Sigma$, with $\mathcal A$ the Jacobian of the flow and $\Sigma$
the covariance of the increments of one sample in units of the step (`limen.theory.one_pass.increments`). Valid while
the spread is small against the overlaps: not on the way out of a saddle from a random start.

$\Sigma$, an average over many points, costs far more than all the rest and is smooth along the flow: it is computed at
48 times, dense where the overlaps move, and interpolated by a cubic spline.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST, RUNS_ONCE
from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.cubic_spline import spline_coefficients
from limen.theory.one_pass.increments import increment_covariance, problem_increments
from limen.theory.one_pass.overlap_equations.dormand_prince import integrated
from limen.theory.one_pass.overlap_equations.integration import Motion
from limen.theory.one_pass.overlap_equations.overlap_flow import CITATIONS
from limen.theory.one_pass.overlap_equations.overlap_ode import (
    given_overlaps,
    momentum_of,
    population_of,
    problem_motion,
    refuses,
    without_momentum,
)
from limen.theory.one_pass.overlaps import Overlaps, pack, unpack
from limen.theory.one_pass.populations.frozen_points import POINTS
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

TOLERANCE = 1e-7
NODES = 48
# Parts of the last time among which the nodes are chosen: fine near zero and fine everywhere.
CANDIDATES = np.union1d(np.linspace(0.0, 1.0, 4097), np.geomspace(1e-7, 1.0, 1024))


@answers("theory", CITATIONS)
@in_double
def fluctuations(
    problem: TwoLayer, times: Any, d: int, overlap: Any = None, gram: Any = None, points: int = POINTS
) -> Findings:
    r"""Standard deviation over the samples of SGD of every overlap at dimension `d`, to leading order in $d^{-1/2}$.

    The problem is a `TwoLayer` with one-pass SGD; it starts from its `OverlapStart`, or from `overlap` (p, k) and
    `gram` (p, p) where given (those of one simulated start, say). Returns the flow (`overlap`, `gram`,
    `second_layer`) and `overlap_spread`, `gram_spread`, `second_layer_spread` of the same shapes. The state has $n^2$
    entries, $n=p(p+k+1)$, and each step costs $n$ right-hand sides: for $p$ up to about 10. Inputs of several variances
    start from the problem's `OverlapStart` and also give the parts of every eigenspace.
    """
    if isinstance(problem, TwoLayer) and problem.one_pass and not problem.inputs.isotropic:
        # It reads this module's integrator.
        from limen.theory.one_pass.blocks.block_fluctuations import block_fluctuations

        if overlap is not None or gram is not None:
            raise InputError("overlap and gram must be left out with inputs of several variances.")
        return block_fluctuations(problem, time_grid(times, counts_steps=False), d, points)
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"fluctuations do not apply: {reason}")
    p, k = problem.network.width, problem.target.latents
    if d < p + k:
        raise InputError(f"d must be at least students + latent directions = {p + k}, got {d}.")
    grid = time_grid(times, counts_steps=False)
    problem, clock = without_momentum(problem, grid) if momentum_of(problem) else (problem, grid)
    if (overlap is None) != (gram is None):
        raise InputError("overlap and gram must be given together.")
    first, second = given_overlaps(problem) if overlap is None else (np.asarray(overlap), np.asarray(gram))
    parts = (second, first, problem.network.per_neuron("second_layer"))
    start = Overlaps(*(on_device(np.asarray(part, float)) for part in parts))
    population, _ = population_of(problem, points)
    motion = problem_motion(problem, clock)
    batch = getattr(problem.algorithm, "batch", 1)
    last, sampled = float(clock[-1]), problem_increments(problem, points)
    path = np.asarray(_path(population, start, motion, on_device(last * CANDIDATES)))

    def source_at(vectors: np.ndarray, at: np.ndarray) -> jax.Array:
        states = unpack(vectors, p, k)  # pyright: ignore[reportArgumentType]
        return _source(sampled, Overlaps(*map(on_device, states)), motion, on_device(at))

    source = source_along(path, motion, source_at, last)
    path, covariance, fine = _spread(population, start, motion, on_device(clock), source, on_device(1.0 / d))
    variances = np.maximum(np.diagonal(np.asarray(covariance), axis1=1, axis2=2), 0.0)
    spread = unpack(np.sqrt(variances), p, k)  # pyright: ignore[reportArgumentType]
    names = {
        "overlap": ("time", "neuron", "latent"),
        "gram": ("time", "neuron", "neuron2"),
        "second_layer": ("time", "neuron"),
    }
    variables = {name: (dims, np.asarray(getattr(path, name))) for name, dims in names.items()}
    variables |= {f"{name}_spread": (dims, np.asarray(getattr(spread, name))) for name, dims in names.items()}
    dataset = labelled(variables, coords={"time": grid}, attrs={"d": d, "batch": batch})
    status = f"linear noise around the flow at d = {d}." if fine else "the flow diverges: take a smaller rate."
    return Findings(dataset, bool(fine), status)


class Spline(NamedTuple):
    """A cubic spline: knots (N,) and coefficients (4, N - 1, ...) in falling powers of the distance from a knot."""

    knots: jax.Array
    coefficients: jax.Array

    def __call__(self, t: jax.Array) -> jax.Array:
        """Its value at time t."""
        last = self.knots.size - 2
        piece = jnp.clip(jnp.searchsorted(self.knots, t, side="right") - 1, 0, last)
        distance = t - self.knots[piece]
        cubic, square, line, value = self.coefficients[:, piece]
        return ((cubic * distance + square) * distance + line) * distance + value


def source_along(
    path: np.ndarray, motion: Motion, source_at: Callable[[np.ndarray, np.ndarray], jax.Array], last: float
) -> Spline:
    r"""$\Sigma$ along the flow up to the last time, or up to where the flow diverges.

    `path` (candidates, n) is the flow at `CANDIDATES` of the last time. From one knot to the next time and overlaps
    together go the same way, each measured by its whole way.
    """
    times = last * CANDIDATES
    # The integrator fills what lies beyond a divergence with infinities.
    known = int(np.isfinite(path).all(axis=1).sum())
    rates = np.broadcast_to(np.asarray(motion.noise(on_device(times))), times.shape)
    way = np.linalg.norm(np.diff(np.column_stack([path, rates])[:known], axis=0), axis=1).cumsum()
    passed = times[:known] / times[known - 1]
    passed[1:] += way / max(way[-1], np.finfo(float).tiny)
    chosen = np.searchsorted(passed, np.linspace(0.0, passed[-1], NODES)).clip(max=known - 1)
    # Every knot once, and always as many: the number is part of the compiled program.
    chosen = np.unique(chosen)
    spare = np.setdiff1d(np.arange(known), chosen)
    chosen = np.union1d(chosen, spare[np.linspace(0, spare.size - 1, NODES - chosen.size).astype(int)])
    source = source_at(path[chosen], times[chosen])
    knots = times[chosen]
    return Spline(on_device(knots), on_device(spline_coefficients(knots, np.asarray(source))))


@eqx.filter_jit(compiler_options=RUNS_ONCE)  # pyright: ignore[reportCallIssue]
def _path(population: Population, start: Overlaps, motion: Motion, times: jax.Array) -> jax.Array:
    """The packed overlaps of the flow (time, n)."""
    p, k = start.overlap.shape

    def field(t, vector):
        return pack(motion.slope(population, unpack(vector, p, k), t))

    return solved(field, pack(start), times)[0]


@eqx.filter_jit(compiler_options=COMPILES_FAST)  # pyright: ignore[reportCallIssue]
def _source(sampled: SampledPopulation, states: Overlaps, motion: Motion, times: jax.Array) -> jax.Array:
    """The covariance of the increments at each state and time, (time, n, n), one after the other."""
    return jax.lax.map(lambda pair: increment_covariance(sampled, pair[0], motion, pair[1]), (states, times))


@eqx.filter_jit(compiler_options=RUNS_ONCE)  # pyright: ignore[reportCallIssue]
def _spread(
    population: Population, start: Overlaps, motion: Motion, times: jax.Array, source: Spline, inverse_d: jax.Array
) -> tuple[Overlaps, jax.Array, jax.Array]:
    p, k = start.overlap.shape

    def slope(vector: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Twice: as what is differentiated and as it is, from one copy of the field.
        found = pack(motion.slope(population, unpack(vector, p, k), t))
        return found, found

    def field(t, state):
        vector, covariance = state
        jacobian, found = jax.jacfwd(slope, has_aux=True)(vector, t)
        # The noise weight is gamma/(pB): divided by d it is the source of the covariance.
        gained = motion.noise(t) * inverse_d * source(t)
        return found, jacobian @ covariance + covariance @ jacobian.T + gained

    vector = pack(start)
    (path, covariance), fine = solved(field, (vector, jnp.zeros((vector.size, vector.size))), times)
    return unpack(path, p, k), covariance, fine


def solved(field: Callable, start: Any, times: jax.Array) -> tuple[Any, jax.Array]:
    """The solution at `times`, from t = 0, and whether the integrator got there; a state may have parts."""
    vector, parts = ravel_pytree(start)
    values, end = integrated(lambda t, at: ravel_pytree(field(t, parts(at)))[0], vector, times, TOLERANCE)
    return jax.vmap(parts)(values), ~end.stuck
