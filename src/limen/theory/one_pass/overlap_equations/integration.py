r"""Integration of the overlap equations: adaptive Runge–Kutta, dense output, divergence caught."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST, ONE_THREAD, RUNS_ONCE
from limen.problem.rates import RateSchedule, is_schedule, rate_function, rate_label
from limen.problem.spec import InputError
from limen.theory.one_pass.overlap_equations.dormand_prince import MOST_STEPS, integrated
from limen.theory.one_pass.overlap_equations.right_hand_side import Speeds, gradient_slope, overlap_slope, projected
from limen.theory.one_pass.overlaps import Overlaps, pack, unpack
from limen.theory.one_pass.populations.population import Population

# Norms this many times larger than at the start are taken as divergence.
LARGEST_GROWTH = 1e4
# Above this ratio of the two layers' rates explicit steps are bound by the fast layer.
STIFF_RATIO = 100.0

Solver = Literal["dormand-prince", "kvaerno5"]
# Sets integrated side by side.
GROUP = 16
# Populations of more numbers than this hold points over which they average.
MOST_NUMBERS = 1000
# Sets times the squared number of pairs of fields with a student. Without LLVM's optimisations four sets of two
# students and two teachers compile in .43 instead of .86 s and run in 5 instead of 3 ms; beyond it the loss counts.
MOST_LIGHT = 1 << 13


class Schedule(eqx.Module):
    r"""A learning rate: `scale`, times a function of $t$ if there is one."""

    scale: jax.Array
    shape: Callable | None = eqx.field(static=True, default=None)

    def __call__(self, t: jax.Array) -> jax.Array:
        """The rate at time t."""
        return self.scale if self.shape is None else self.scale * self.shape(t)


class Motion(eqx.Module):
    r"""What moves: the noise weight $\gamma(t)/(pB)$, the drift weight, $\epsilon_a$ (None: fixed); on the sphere or
    not."""

    noise: Schedule
    drift: jax.Array
    second_layer: jax.Array | None
    spherical: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)

    def slope(self, population: Population, overlaps: Overlaps, t: jax.Array) -> Overlaps:
        """Time derivative of the overlaps at time t."""
        speeds = Speeds(self.drift, self.noise(t), self.second_layer)
        if self.noisy:
            slope = overlap_slope(population, overlaps, speeds)
        else:
            slope = gradient_slope(population, overlaps, speeds)
        return projected(overlaps, slope) if self.spherical else slope


class Rules(NamedTuple):
    """Points (rule, dimension, N) and weights (rule, N) that a sampled population may average over, and which of them
    each set takes, (sets,): errors of the points then average out over sets."""

    points: jax.Array
    weights: jax.Array
    taken: jax.Array

    def of(self, population: Population, taken: jax.Array | int) -> Population:
        """The population with the rule of this number."""
        return eqx.tree_at(lambda one: (one.points, one.weights), population, (self.points[taken], self.weights[taken]))


class Path(NamedTuple):
    """Overlaps and losses at the requested times (not finite after a divergence), whether it diverged and when, whether
    the steps sufficed, and their number."""

    overlaps: Overlaps
    excess_risk: jax.Array
    test_loss: jax.Array
    diverged: jax.Array
    stopped: jax.Array
    enough_steps: jax.Array
    steps: jax.Array


def schedule(rate: float | RateSchedule, factor: float, last: float) -> Schedule:
    """The rate, a number or a formula in `t`, times a factor; refused where it is negative before `last`."""
    if not is_schedule(rate):
        return Schedule(on_device(rate * factor))
    shape = rate_function(rate)
    values = np.asarray(shape(jnp.linspace(0.0, last, 1001)))
    if not np.isfinite(values).all() or values.min() < 0:
        raise InputError(
            f"rate must be finite and not negative at all times, got {values.min():g} from {rate_label(rate)!r}."
        )
    return Schedule(on_device(factor), shape)


class Outcome(NamedTuple):
    """Whether an integration diverged and when it stopped, whether the steps sufficed, and their number."""

    diverged: jax.Array
    stopped: jax.Array
    enough_steps: jax.Array
    steps: jax.Array


def integrate(
    population: Population, start: Overlaps, motion: Motion, times: jax.Array, tolerance: jax.Array, solver: Solver
) -> Path:
    """The path of one start at `times` (from t = 0), by Dormand–Prince 5(4) or, for stiff problems, implicit Kvaerno
    5(4)."""
    overlaps, outcome = followed(population, start, motion, times, tolerance, solver)
    excess, test = jax.lax.map(population.losses, overlaps)
    return Path(overlaps, excess, test, *outcome)


def followed(
    population: Population, start: Overlaps, motion: Motion, times: jax.Array, tolerance: jax.Array, solver: Solver
) -> tuple[Overlaps, Outcome]:
    """The overlaps of `integrate`, without losses."""
    p, k = start.overlap.shape

    def field(t, vector):
        return pack(motion.slope(population, unpack(vector, p, k), t))

    def size(vector):
        overlaps = unpack(vector, p, k)
        return jnp.trace(overlaps.gram) + jnp.sum(overlaps.second_layer**2)

    bound = LARGEST_GROWTH * (1.0 + size(pack(start)) + jnp.trace(population.teacher_gram))
    vectors, outcome = trajectory(field, size, bound, pack(start), times, tolerance, solver)
    return unpack(vectors, p, k), outcome


def trajectory(
    field: Callable,
    size: Callable,
    bound: jax.Array,
    start: jax.Array,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
) -> tuple[jax.Array, Outcome]:
    """The solution of dv/dt = `field(t, v)` at `times`, shape (time, n); `size(v)` above `bound` is taken as
    divergence."""

    def too_large(vector: jax.Array) -> jax.Array:
        return ~(size(vector) < bound)

    if solver == "kvaerno5":
        return _stiff_trajectory(field, too_large, start, times, tolerance)
    values, end = integrated(field, start, times, tolerance, too_large)
    # The first try is no step: it finds the slope at the start.
    return values, Outcome(end.diverged, end.t, ~end.stuck, end.steps - 1)


def _stiff_trajectory(
    field: Callable, too_large: Callable, start: jax.Array, times: jax.Array, tolerance: jax.Array
) -> tuple[jax.Array, Outcome]:
    # Here: importing it takes a third of a second, and few problems are stiff.
    import diffrax

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, vector, args: field(t, vector)),
        diffrax.Kvaerno5(),
        0.0,
        times[-1],
        None,
        start,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=1e-3 * tolerance),
        max_steps=MOST_STEPS,
        throw=False,
        adjoint=diffrax.ForwardMode(),
        event=diffrax.Event(lambda t, vector, args, **kwargs: too_large(vector)),
    )
    assert solution.ys is not None and solution.ts is not None
    return solution.ys[0], Outcome(
        solution.result == diffrax.RESULTS.event_occurred,
        solution.ts[1][0],
        diffrax.is_successful(solution.result),
        solution.stats["num_steps"],
    )


integrate_one = eqx.filter_jit(integrate, compiler_options=COMPILES_FAST)  # pyright: ignore[reportCallIssue]


def integrate_many(
    population: Population,
    starts: Overlaps,
    motion: Motion,
    label_noises: jax.Array | None,
    noise_scales: jax.Array | None,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
    rules: Rules | None = None,
) -> Path:
    """`integrate` over a leading axis of the starts and, where given, of label noise, noise weight and rules."""
    run = _integrate_few if _is_light(population, starts) else _integrate_sets
    return run(population, starts, motion, label_noises, noise_scales, times, tolerance, solver, rules)


def _is_light(population: Population, starts: Overlaps) -> bool:
    """Whether all sets together are a matter of milliseconds: closed forms, of few students and sets."""
    sets, p, k = starts.overlap.shape
    numbers = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(population, eqx.is_array)))
    return numbers <= MOST_NUMBERS and sets * (p * (p + k)) ** 2 <= MOST_LIGHT


def _integrate_all(
    population: Population,
    starts: Overlaps,
    motion: Motion,
    label_noises: jax.Array | None,
    noise_scales: jax.Array | None,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
    rules: Rules | None,
) -> Path:
    """`integrate_many` as one program.

    In groups of 16 (`mapped`), otherwise one after another, inside one compiled loop. A group shares the cost of
    calling many small operations but goes on until its slowest is done: all sets under one `vmap` cost more than they
    save.
    """

    def one(parts: tuple[Overlaps, jax.Array | None, jax.Array | None, jax.Array | None]) -> Path:
        start, label_noise, scale, taken = parts
        own, moved = population, motion
        if rules is not None and taken is not None:
            own = rules.of(own, taken)
        if label_noise is not None:
            own = eqx.tree_at(lambda tree: tree.label_noise, own, label_noise)
        if scale is not None:
            moved = eqx.tree_at(lambda tree: tree.noise.scale, motion, scale)
        return integrate(own, start, moved, times, tolerance, solver)

    taken = None if rules is None else rules.taken
    return mapped(one, (starts, label_noises, noise_scales, taken))


def mapped(one: Callable, sets: Any) -> Any:
    """`one` of every set, stacked: side by side in groups where the sets divide into at least four of them."""
    count = jax.tree.leaves(sets)[0].shape[0]
    group = GROUP if count >= 4 * GROUP and count % GROUP == 0 else None
    return jax.lax.map(one, sets, batch_size=group)


_integrate_sets = eqx.filter_jit(_integrate_all, compiler_options=COMPILES_FAST | ONE_THREAD)  # pyright: ignore[reportCallIssue]
_integrate_few = eqx.filter_jit(_integrate_all, compiler_options=RUNS_ONCE | ONE_THREAD)  # pyright: ignore[reportCallIssue]
