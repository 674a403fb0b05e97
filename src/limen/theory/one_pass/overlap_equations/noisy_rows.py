r"""Rows of one-pass SGD that begin at a saddle: the overlap equations with the noise of the samples.

$$d(M,Q)=(\dot M,\dot Q)\,dt+\sqrt{\tfrac\gamma{dpB}}\;\Sigma^{1/2}dB,$$
$\Sigma$ the covariance of one step in units of the step, and $\dot M,\dot Q$ with what whole steps at this $d$ add to
the mean (`limen.theory.one_pass.increments.whole_steps`). At a saddle the overlaps with the target and between the
neurons are of order $d^{-1/2}$ and so is their noise: both grow alike, and the time of the escape depends on both at
every $d$. The second layer moves by $O(d^{-1/2})$ without growth and is left as it is: means are off by $O(1/d)$. A row
is the mean over the noise, given the start of the simulation of its seed (Ben Arous, Gheissari & Jagannath 2022;
Arnaboldi et al. 2023).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST, ONE_THREAD, RUNS_ONCE
from limen.problem import TwoLayer
from limen.result import Findings
from limen.theory.one_pass.increments import Steps, problem_increments, whole_steps
from limen.theory.one_pass.overlap_equations.fastest_rate import fastest_rate
from limen.theory.one_pass.overlap_equations.integration import (
    Motion,
    Outcome,
    Path,
    Rules,
    Solver,
    followed,
    mapped,
)
from limen.theory.one_pass.overlap_equations.overlap_flow import solver_of
from limen.theory.one_pass.overlap_equations.overlap_ode import population_of, seed_rules
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

# A piece between kicks is this part of the time of the fastest rate, growth or fall; after so many there are no kicks,
# after few where the flow without them diverges, and rows with it.
PART, MOST_PIECES, FEW_PIECES = 0.3, 512, 64
# Recorded times that a piece has room for, and times at which the pilot, of a seed that no run has, is looked at.
ROOM, PILOT = 16, 2**31 - 1
FARTHEST = 10.0
# Paths of a row: pairs of opposite kicks.
PATHS = 4
# Points, at least, and tolerance, at most: the noise of a path is far larger than their errors, which average out over
# paths besides.
POINTS, TOLERANCE = 1 << 10, 1e-4


class State(NamedTuple):
    """Gram matrices (path, S, p, p) and overlaps (path, S, p, k) inside each of S eigenspaces of the inputs, one where
    all variances are equal, and second layers (path, p); with times on a second axis where they are recorded."""

    gram: np.ndarray
    overlap: np.ndarray
    second_layer: np.ndarray


class Followed(NamedTuple):
    """Where a piece of the flow leads: states at the times asked for, (path, time, ...), how the integrations ended,
    and what steps do at the last time: `noise` (path, 2, n) for the kicks before and after it, `shift` (path, n)."""

    states: State
    outcome: Outcome
    steps: Steps


class Rows(NamedTuple):
    """States of all paths at the recorded times, not a number from where a path is lost on, how they ended, and the
    part of the time that had kicks."""

    states: State
    outcome: Outcome
    noisy: float


class Course(NamedTuple):
    """A flow with kicks: `follow(states, times, generators)`, and `ahead`, the same with the pilot's averages for all
    paths; `slope` of packed states (state, S(pk + p^2)) whose second layers stay as the pilot's, by its averages; the
    pilot's start, one path; and the squared lengths (S, k) of the latent directions inside the eigenspaces."""

    follow: Callable[[State, np.ndarray, Sequence[np.random.Generator]], Followed]
    ahead: Callable[[State, np.ndarray, Sequence[np.random.Generator]], Followed]
    slope: Callable[[np.ndarray], np.ndarray]
    pilot: State
    target: np.ndarray


class Kick(NamedTuple):
    """Noise and shift of overlaps and Gram matrix, packed, (path, pk + p^2)."""

    noise: np.ndarray
    shift: np.ndarray


def noisy_rows(
    problem: TwoLayer,
    population: Population,
    motion: Motion,
    starts: Overlaps,
    times: np.ndarray,
    d: int,
    seeds: Sequence[int],
    tolerance: float,
    rules: Rules | None,
) -> tuple[Path, float]:
    """`rows` on inputs of one variance, with their losses, and the part of the time that has noise."""
    sampled, solver = problem_increments(problem, POINTS), solver_of(motion)

    def follow(
        taken: Rules | None, state: State, offsets: np.ndarray, random: Sequence[np.random.Generator]
    ) -> Followed:
        parts = Overlaps(*map(on_device, (state.gram[:, 0], state.overlap[:, 0], state.second_layer)))
        numbers = (on_device(part) for part in (offsets, tolerance, 1.0 / d, normals(random, sampled.weights.size)))
        overlaps, outcome, steps = _followed(population, sampled, parts, motion, solver, taken, *numbers)
        gram, overlap, second_layer = (np.asarray(part) for part in overlaps)
        return Followed(State(gram[:, :, None], overlap[:, :, None], second_layer), outcome, steps)

    def slope(packed: np.ndarray) -> np.ndarray:
        own = population if rules is None else rules.of(population, 0)
        return np.asarray(_slopes(own, motion, on_device(packed), starts.second_layer[0]))

    begin = State(*(np.asarray(part) for part in (starts.gram[:, None], starts.overlap[:, None], starts.second_layer)))
    overlap, gram = start_overlaps(problem, d, PILOT)
    pilot = State(gram[None, None], overlap[None, None], begin.second_layer[:1])
    course = Course(
        partial(follow, rules), partial(follow, of_pilot(rules)), slope, pilot, np.ones((1, problem.target.latents))
    )
    (gram, overlap, second_layer), outcome, noisy = rows(course, begin, motion, times, d, seeds)
    overlaps = Overlaps(*map(on_device, (gram[:, :, 0], overlap[:, :, 0], second_layer)))
    return Path(overlaps, *losses(population, overlaps), *outcome), noisy


def rows(course: Course, starts: State, motion: Motion, times: np.ndarray, d: int, seeds: Sequence[int]) -> Rows:
    r"""`PATHS` paths for every seed, (seed x path, time, ...), of a rate that does not depend on time.

    Half a kick before and after every piece of the flow (Strang's splitting): $M\to M+\delta_M$, $Q\to Q+\delta_Q$,
    negative parts of $Q-MM^\top$ taken as zero, on the sphere put back to its length. All pieces are equally long, by
    the fastest rate along the flow from a start of its own (`piece_length`): a row depends neither on the other seeds
    nor, but for the error of the splitting, on the last time.
    """
    follow, target = course.follow, course.target
    many, last = PATHS * len(seeds), float(times[-1])
    random, scale = numpy_generators(seeds, d, "noise of the samples"), float(motion.noise.scale) / d
    lost, enough, steps = np.full(many, np.inf), np.ones(many, bool), np.zeros(many, int)

    def half_kick(steps: Steps, draw: int, length: float) -> Kick:
        noise, shift = (np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in steps)
        return Kick(np.sqrt(0.5 * length * scale) * noise[:, draw], 0.5 * length * shift)

    state = at_first = State(*(np.repeat(part, PATHS, axis=0) for part in starts))
    recorded = State(*(np.repeat(part[:, None], len(times), axis=1) for part in state))
    (longest, pieces), begun = piece_length(course, many, last, random), 0.0
    until = min(last, pieces * longest)
    ahead = follow(state, np.zeros(ROOM), random).steps
    while begun < last:
        kicks = begun < until
        end = _end(times, begun, longest if kicks else last)
        inside, offsets = _offsets(times, begun, end)
        first = half_kick(ahead, 0, (end - begun) * kicks)
        found = follow(_moved(state, first.noise + first.shift, target, motion.spherical), offsets, random)
        path, ahead = State(*(np.where(np.isfinite(part), part, np.nan) for part in found.states)), found.steps
        second = half_kick(ahead, 1, (end - begun) * kicks)
        for i, at in enumerate(inside):
            rest = _rest_inside(first, second, offsets[i] / (end - begun))
            now = _moved(State(*(part[:, i] for part in path)), rest, target, motion.spherical)
            for part, values in zip(recorded, now, strict=True):
                part[:, at] = values
        diverged, stopped, sufficed, taken = (np.asarray(part) for part in found.outcome)
        lost = np.minimum(lost, np.where(diverged, begun + stopped, np.inf))
        enough &= sufficed | np.isfinite(lost)
        steps += taken
        gone = np.isfinite(lost)
        if gone.all():
            break
        # Who is lost goes on from his start: near where he was lost steps are short.
        reached = State(
            *(np.where(_along(gone, old), old, new[:, -1]) for new, old in zip(path, at_first, strict=True))
        )
        state, begun = _moved(reached, second.noise + second.shift, target, motion.spherical), end
    for part in recorded:
        part[lost[:, None] <= times] = np.nan
    return Rows(
        recorded, Outcome(*map(on_device, (np.isfinite(lost), lost, enough, steps))), until / last if last else 1.0
    )


def piece_length(course: Course, many: int, last: float, random: Sequence[np.random.Generator]) -> tuple[float, int]:
    """`PART` of the time of the fastest rate at times that double up to the last one, along the flow from the pilot's
    start without kicks, and how many such pieces have kicks; it goes through the program of the rows, as `many` equal
    paths."""
    times = last * 2.0 ** np.linspace(1.0 - ROOM, 0.0, ROOM)
    found = course.ahead(State(*(np.repeat(part, many, axis=0) for part in course.pilot)), times, random).states
    along = np.concatenate([packed(course.pilot), packed(State(*(part[0] for part in found)))])
    # Where it diverges rates have no bound: what lies far beyond the start is left out.
    sizes, pieces = np.linalg.norm(along, axis=1), MOST_PIECES if np.isfinite(along).all() else FEW_PIECES
    rate = fastest_rate(course.slope, along[sizes <= FARTHEST * (1.0 + sizes[0])])
    return (min(PART / rate, last) if rate > 0.0 else last), pieces


def packed(state: State) -> np.ndarray:
    """Overlaps and Gram matrices as one row each, in the order of kicks."""
    return np.concatenate([part.reshape(len(part), -1) for part in (state.overlap, state.gram)], axis=1)


def _end(times: np.ndarray, begun: float, length: float) -> float:
    """Where a piece that begins here ends: after its length, at the last time, or where its room for times ends."""
    ahead = times[times > begun]
    room = ahead[min(ROOM, len(ahead)) - 1]
    # What is left of less than a tenth of a piece belongs to it.
    return float(min(room, begun + length if ahead[-1] - begun > 1.1 * length else ahead[-1]))


def _offsets(times: np.ndarray, begun: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Which times lie in a piece, and `ROOM` times since it began: theirs, then its end again and again; in
    rounding too none is later than its end, which the integration would never reach."""
    inside, length = np.flatnonzero((begun < times) & (times <= end)), end - begun
    return inside, np.append(np.minimum(times[inside] - begun, length), np.full(ROOM - len(inside), length))


def _rest_inside(first: Kick, second: Kick, x: float) -> np.ndarray:
    r"""What is to be added at the part $x$ of a piece, where the flow has all of the first half kick and none of the
    second: $\min(1,\sqrt{2x})$ of the first noise and $\sqrt{\max(0,2x-1)}$ of the second have the variance of $x$
    pieces; of the means, $\min(1,2x)$ of the first and $\max(0,2x-1)$ of the second."""
    before, after = min(0.0, 2.0 * x - 1.0), max(0.0, 2.0 * x - 1.0)
    noise = np.sqrt(after) * second.noise - (1.0 - np.sqrt(1.0 + before)) * first.noise
    return noise + before * first.shift + after * second.shift


def _along(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A condition on rows in the shape of values (rows, ...)."""
    return rows.reshape(-1, *(1,) * (values.ndim - 1))


@eqx.filter_jit(compiler_options=COMPILES_FAST | ONE_THREAD)  # pyright: ignore[reportCallIssue]
def _followed(
    population: Population,
    sampled: SampledPopulation,
    states: Overlaps,
    motion: Motion,
    solver: Solver,
    rules: Rules | None,
    times: jax.Array,
    tolerance: jax.Array,
    inverse_d: jax.Array,
    chances: jax.Array,
) -> tuple[Overlaps, Outcome, Steps]:
    """The flow from every state at `times`, and what steps do at the last of them, (path, ...)."""

    def one(parts: tuple[Overlaps, jax.Array | None, jax.Array]) -> tuple[Overlaps, Outcome, Steps]:
        start, taken, own_chances = parts
        own = population if rules is None or taken is None else rules.of(population, taken)
        overlaps, outcome = followed(own, start, motion, times, tolerance, solver)
        end = Overlaps(*(part[-1] for part in overlaps))
        return overlaps, outcome, whole_steps(sampled, end, motion, jnp.zeros(()), inverse_d, own_chances)

    return mapped(one, (states, None if rules is None else rules.taken, chances))


@eqx.filter_jit(compiler_options=RUNS_ONCE | ONE_THREAD)  # pyright: ignore[reportCallIssue]
def _slopes(population: Population, motion: Motion, packed: jax.Array, second_layer: jax.Array) -> jax.Array:
    """The slope of packed overlaps and Gram matrices (state, pk + p^2) of one second layer."""
    p = second_layer.size

    def one(vector: jax.Array) -> jax.Array:
        overlap, gram = vector[: -p * p].reshape(p, -1), vector[-p * p :].reshape(p, p)
        slope = motion.slope(population, Overlaps(0.5 * (gram + gram.T), overlap, second_layer), jnp.zeros(()))
        return jnp.concatenate([slope.overlap.ravel(), slope.gram.ravel()])

    return jax.lax.map(one, packed)


def normals(random: Sequence[np.random.Generator], size: int) -> np.ndarray:
    """Standard normals for two kicks of every path, (path, 2, size): those of every second path are the opposite of
    those of the one before."""
    half = np.stack([one.standard_normal((PATHS // 2, 2, size)) for one in random])
    return np.stack([half, -half], axis=2).reshape(-1, 2, size)


def _moved(state: State, kick: np.ndarray, target: np.ndarray, spherical: bool) -> State:
    """The state after a kick (path, S(pk + p^2)) of overlaps and Gram matrices."""
    gram, overlap, second_layer = state
    toward, between = np.split(kick, [overlap[0].size], axis=1)
    moved = overlap + toward.reshape(overlap.shape)
    kicked = gram + between.reshape(gram.shape)
    # The flow amplifies what rounding makes asymmetric.
    kicked = 0.5 * (kicked + kicked.swapaxes(2, 3))
    # What neurons share beside the target stays a Gram matrix, in every eigenspace.
    along = moved / np.where(target > 0.0, target, np.inf)[:, None]
    beside = kicked - along @ moved.swapaxes(2, 3)
    values, vectors = np.linalg.eigh(np.where(np.isfinite(beside), beside, 0.0))
    kicked = kicked + (vectors * np.maximum(-values, 0.0)[..., None, :]) @ vectors.swapaxes(2, 3)
    if spherical:
        shrink = np.sqrt(np.einsum("sbii->si", gram) / np.einsum("sbii->si", kicked))[:, None]
        moved, kicked = shrink[..., None] * moved, shrink[..., None] * kicked * shrink[..., None, :]
    return State(kicked, moved, second_layer)


def losses(population: Population, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
    """Excess risks and test losses (row, time) of these covariances; NaN where they are averages over points
    (`with_losses`)."""
    if isinstance(population, SampledPopulation):
        unknown = jnp.full(overlaps.second_layer.shape[:2], jnp.nan)
        return unknown, unknown
    return _closed_losses(population, overlaps)


@eqx.filter_jit(compiler_options=COMPILES_FAST)  # pyright: ignore[reportCallIssue]
def _closed_losses(population: Population, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
    return jax.lax.map(lambda row: jax.lax.map(population.losses, row), overlaps)


def of_pilot(rules: Rules | None) -> Rules | None:
    """The same points, of which every path takes the pilot's: no other program is compiled."""
    return None if rules is None else rules._replace(taken=on_device(np.zeros_like(np.asarray(rules.taken))))


def row_averages(
    problem: TwoLayer, population: Population, points: int | None, seeds: Sequence[int]
) -> tuple[Population, Rules | None]:
    """The averages of rows, on fewer points than those of a single solution, and the points of all paths by their
    seeds; none where an average is in closed form or its rule exact."""
    if not isinstance(population, SampledPopulation):
        return population, None
    count = POINTS if points is None else points
    # The points of number 0 come first and are the pilot's, whatever the seeds.
    rules = seed_rules(problem, count, [0, *(PATHS * seed + i for seed in seeds for i in range(PATHS))])
    rules = None if rules is None else rules._replace(taken=rules.taken[1:])
    return population_of(problem, count)[0] if rules is None else population, rules


def row_means(found: Findings, seeds: Sequence[int], noisy: float) -> Findings:
    """Rows as means over their paths, drawn with noise for this part of the time. A row is lost where its first path
    is; other lost paths are left out.

    What is left of the noise of so few paths turns the sign of small overlaps: rows promise none to the comparison.
    """
    variables = {}
    for name, one in found.dataset.data_vars.items():
        paths = one.values.reshape(len(seeds), PATHS, *one.shape[1:])
        kept = np.isfinite(paths)
        sums, count = np.where(kept, paths, 0.0).sum(axis=1), kept.sum(axis=1)
        variables[name] = (one.dims, np.where(kept[:, 0], sums / np.maximum(count, 1), np.nan), one.attrs)
    coords = {"time": found.dataset.time.values, "seed": list(seeds)}
    status = found.status
    if found.ok:
        began = "" if noisy >= 1.0 else f", which ends after {noisy:.2%} of the time"
        status = (
            f"{status.rstrip('.')}; a row is the mean over {PATHS} paths of the noise of the samples{began}: overlaps "
            f"of both signs cancel in it."
        )
    return replace(found, status=status, dataset=labelled(variables, coords=coords, attrs=found.dataset.attrs))
