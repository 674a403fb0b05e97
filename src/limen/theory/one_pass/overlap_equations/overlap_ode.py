r"""The overlap equations as a theory of `TwoLayer` with one-pass SGD, for any activation, target and loss."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.checks import power_of_two
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import with_variables
from limen.machine.arrays import on_device
from limen.machine.compilation import RUNS_ONCE
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, OnePassSGD, OverlapStart, RandomStart, SphericalSGD, TwoLayer
from limen.problem.own_functions import OwnFunction
from limen.problem.rates import is_schedule
from limen.problem.starts import overlap_matrix
from limen.result import Findings
from limen.theory.fresh_inputs.population_losses import population_losses
from limen.theory.one_pass.committee import (
    SQUARE,
    Rule,
    committee_population,
    committee_weights,
    problem_rule,
    sampled_problem,
)
from limen.theory.one_pass.increments import problem_increments
from limen.theory.one_pass.overlap_equations.integration import Motion, Path, Rules, integrate_many, integrate_one
from limen.theory.one_pass.overlap_equations.overlap_flow import (
    CITATIONS,
    checked_tolerance,
    flow_findings,
    motion_of,
    solver_of,
)
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.frozen_points import POINTS, enough_points
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation
from limen.theory.one_pass.symmetry import lasting_symmetry

# Sets of points that rows share: the more rows share a set, the less of its error averages out. Numbers of all sets
# together, and sets there are at least.
NUMBERS_IN_ALL, FEWEST_SETS = 1 << 23, 16
# Overlaps and entries of the Gram matrix, at most, that the noise at a saddle is drawn for; in all eigenspaces together
# fewer, where their covariance is taken apart at every piece.
MOST_KICKED, MOST_KICKED_APART = 1 << 12, 200
# A pull below this part of the spread of single samples leaves the begin to chance, at the sizes people train; points
# that tell.
WEAK, PULL_POINTS = 0.1, 1 << 10


def refuses(problem: object) -> str | None:
    """Why the overlap equations do not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not problem.one_pass:
        return f"it solves OnePassSGD and SphericalSGD, not {type(problem.algorithm).__name__}."
    return problem.inputs.unlike_isotropic()


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int | None = None,
    seeds: Sequence[int] = (),
    tolerance: float | None = None,
    points: int | None = None,
) -> Findings:
    r"""Overlaps, Gram matrix, second layer and risk in the limit $d\to\infty$, from given starts.

    With `d` and `seeds`: one row per seed, from the simulator's own initial overlaps at that $d$; the flow itself is
    the limit, and from a random start at a saddle the noise of the samples at that $d$ is in the overlaps
    (`noise_of_rows`, `noisy_rows`). Without them the start must be an `OverlapStart` that fixes the Gram matrix, or
    (without `gram`) students whose parts orthogonal to the target are orthogonal to each other. Closed forms where
    target and network are committees of one activation with zero bias and square loss; otherwise averages over the
    `points` points of `problem_rule` (16384, and 1024 for each of several paths at a saddle), whose error without
    `seeds` is in `*_spread` and with them between rows, which have points of their own.

    Momentum $\beta$ forgets within $1/(1-\beta)$ steps, during which nothing moves as $d\to\infty$: the limit is that
    of the rate $\gamma/(1-\beta)$, its noise included, whose clock runs $1/(1-\beta)$ times as fast.
    """
    if momentum_of(problem):
        found = solve(*without_momentum(problem, times), d, seeds, tolerance, points)
        return replace(found, dataset=found.dataset.assign_coords(time=times))
    count = POINTS if points is None else power_of_two("points", points)
    population, teacher_weights = population_of(problem, count)
    motion = problem_motion(problem, times)
    sampled = isinstance(population, SampledPopulation)
    fine = checked_tolerance(tolerance, problem.network.activation, sampled)
    if d is not None and len(seeds):
        pairs = [start_overlaps(problem, d, seed) for seed in seeds]
    elif d is not None or len(seeds):
        raise InputError("d and seeds must be given together.")
    else:
        pairs = [given_overlaps(problem)]
    second_layer = np.asarray(problem.network.per_neuron("second_layer"))
    starts = [(gram, overlap, second_layer) for overlap, gram in pairs]
    if d is not None:
        batch = Overlaps(*(on_device(np.stack(parts)) for parts in zip(*starts, strict=True)))
        noisy, caveat = noise_of_rows(problem)
        if noisy:
            # Here: it stands on parts that most problems do without.
            from limen.theory.one_pass.overlap_equations import noisy_rows

            population, rules = noisy_rows.row_averages(problem, population, points, seeds)
            fine = min(tolerance or noisy_rows.TOLERANCE, noisy_rows.TOLERANCE)
            path, part = noisy_rows.noisy_rows(problem, population, motion, batch, times, d, seeds, fine, rules)
            found = flow_findings(path, times, population, motion, None, "seed", (), {"d": d})
            return noisy_rows.row_means(with_losses(problem, found) if sampled else found, seeds, part)
        rules = seed_rules(problem, count, seeds) if sampled else None
        ends, fine = on_device(times), on_device(fine)
        path = integrate_many(population, batch, motion, None, None, ends, fine, solver_of(motion), rules)
        found = flow_findings(path, times, population, motion, None, "seed", seeds, {"d": d, **caveat})
        return with_losses(problem, found) if sampled else found
    start = Overlaps(*(on_device(part) for part in starts[0]))

    def along(population: Population) -> Path:
        return integrate_one(population, start, motion, on_device(times), on_device(fine), solver_of(motion))

    path = along(population)
    symmetry = lasting_symmetry(start, motion, population, teacher_weights)
    found = flow_findings(path, times, population, motion, symmetry)
    if not sampled:
        return found
    found, other = with_losses(problem, found), other_points(problem, population, count)
    if other is None or not found.ok:
        return found
    return with_spread(found, with_losses(problem, flow_findings(along(other), times, other, motion)))


def begins_at_saddle(problem: TwoLayer) -> bool:
    r"""Whether a random start has directions to leave that nothing pulls along: there the noise of the samples counts
    at every d.

    At $M=0$ the pull $E[\sigma'_i\,\ell'(y,f)\,z]$ of square loss is $-E[\sigma'_i]\,E[yz]$, the same direction for all
    neurons: with several latent directions others are left to chance. With one, the pull is compared with the spread
    of what single samples do.
    """
    if not isinstance(problem.start, RandomStart):
        return False
    if problem.target.latents > 1:
        return True
    network = problem.network
    second_layer = np.asarray(network.per_neuron("second_layer"))
    gram, overlap = network.initial_norm**2 * np.eye(network.width), np.zeros((network.width, 1))
    state = Overlaps(*map(on_device, (gram, overlap, second_layer)))
    pull, spread = _pulls(problem_increments(problem, PULL_POINTS), state)
    return bool((np.abs(pull) < WEAK * np.asarray(spread)).any())


@eqx.filter_jit(compiler_options=RUNS_ONCE)  # pyright: ignore[reportCallIssue]
def _pulls(sampled: SampledPopulation, state: Overlaps) -> tuple[jax.Array, jax.Array]:
    """Mean and root mean square of what one sample does to the overlap of each neuron with the only latent."""
    sample = sampled.sample(state)
    push = sample.slopes * sample.residual * sample.fields[-1]
    return push @ sampled.weights, jnp.sqrt(push**2 @ sampled.weights)


def noise_of_rows(problem: TwoLayer) -> tuple[bool, dict[str, str]]:
    """Whether rows at some d have the noise of the samples, as they must where they begin at a saddle; and where they
    have to do without, what a comparison that does not agree should say."""
    assert isinstance(problem.algorithm, (OnePassSGD, SphericalSGD))
    if not begins_at_saddle(problem):
        return False, {}
    p, spaces = problem.network.width, len(problem.inputs.spectrum[0])
    if is_schedule(problem.algorithm.rate):
        where = "with a rate that changes in time"
    elif spaces * p * (p + problem.target.latents) > (MOST_KICKED if spaces == 1 else MOST_KICKED_APART):
        where = f"with as many as {p} neurons{' on inputs of several variances' if spaces > 1 else ''}"
    else:
        return True, {}
    return False, {
        "caveat": "From a random start the noise of SGD moves the escape from a saddle as much as the start itself "
        f"does, at every d, and {where} the equations of the overlaps leave it out."
    }


def momentum_of(problem: TwoLayer) -> float:
    """The momentum of one-pass SGD, 0 where there is none."""
    return problem.algorithm.momentum if isinstance(problem.algorithm, OnePassSGD) else 0.0


def without_momentum(problem: TwoLayer, times: np.ndarray) -> tuple[TwoLayer, np.ndarray]:
    r"""The problem without momentum that has the same limit, the rate over $1-\beta$, and the times of its clock."""
    algorithm = problem.algorithm
    assert isinstance(algorithm, OnePassSGD)
    kept, rate = 1.0 - algorithm.momentum, algorithm.rate
    if isinstance(rate, OwnFunction):
        # The same function on the slower clock.
        faster: Any = rate.model_copy(update={"function": lambda t: rate(kept * t) / kept})
    elif isinstance(rate, str):
        slower = re.sub(r"\bt\b", f"({kept!r}*t)", rate)
        faster = f"({slower})/{kept!r}"
    else:
        faster = rate / kept
    plain = algorithm.model_copy(update={"rate": faster, "momentum": 0.0})
    return problem.model_copy(update={"algorithm": plain}), times / kept


def seed_rules(problem: TwoLayer, points: int, seeds: Sequence[int]) -> Rules | None:
    """Points of every row, a scramble by its seed, so that their errors average out over rows; None where the rule is
    exact."""
    fields = problem.network.width + problem.target.latents + 2
    points = enough_points(fields, points)
    sets = max(NUMBERS_IN_ALL // (points * fields), FEWEST_SETS)
    scrambles, taken = np.unique([seed % sets for seed in seeds], return_inverse=True)
    if _rule(problem, points, int(scrambles[0])).exact:
        return None
    every = [_rule(problem, points, int(scramble)) for scramble in scrambles]
    nodes, weights = (on_device(np.stack(parts)) for parts in zip(*(rule[:2] for rule in every), strict=True))
    return Rules(nodes, weights, on_device(taken))


def other_points(problem: TwoLayer, population: SampledPopulation, points: int) -> SampledPopulation | None:
    """The population on another scramble, None where its rule is exact: what differs is the error of the points."""
    rule = _rule(problem, points, 1)
    if rule.exact:
        return None
    parts = on_device(rule.nodes), on_device(rule.weights)
    return eqx.tree_at(lambda one: (one.points, one.weights), population, parts)


def _rule(problem: TwoLayer, points: int, scramble: int) -> Rule:
    network = problem.network
    return problem_rule(network.activation, network.width, problem.target, problem.loss, points, scramble)


def with_spread(found: Findings, other: Findings) -> Findings:
    """The same with what differs in another solution of equal worth as `*_spread`, added to what is there already."""
    added = {}
    for name in ("overlap", "gram", "second_layer", "excess_risk", "test_loss"):
        one = found.dataset[name]
        gap = np.abs(one.values - other.dataset[name].values)
        # Where only the other one diverges nothing is known.
        gap = np.where(np.isfinite(gap), gap, np.abs(one.values))
        known = found.dataset.get(f"{name}_spread")
        added[f"{name}_spread"] = (one.dims, gap if known is None else gap + known.values)
    return replace(found, dataset=with_variables(found.dataset, added))


def with_losses(problem: TwoLayer, found: Findings, fields: Sequence[np.ndarray] | None = None) -> Findings:
    """The same with losses by quadrature along its overlaps: frozen points are good for the flow, not for a loss
    that is compared at the start, where everything else is equal. Their errors are in `*_spread`.

    `fields`: `overlap`, `gram` and `second_layer` of the fields' covariance, where they are not those of the dataset.
    """
    dataset = found.dataset
    shape, dims = dataset.test_loss.shape, dataset.test_loss.dims
    if fields is None:
        fields = [dataset[name].values for name in ("overlap", "gram", "second_layer")]
    overlap, gram, second = (part.reshape(-1, *part.shape[len(shape) :]) for part in fields)
    names = ("test_loss", "excess_risk", "test_loss_spread", "excess_risk_spread")
    losses = zip(names, population_losses(problem, overlap, gram, second), strict=True)
    return replace(found, dataset=with_variables(dataset, {name: (dims, part.reshape(shape)) for name, part in losses}))


def population_of(problem: TwoLayer, points: int = POINTS) -> tuple[Population, np.ndarray | None]:
    """The averages of a problem, and the teachers' weights when its target is a committee."""
    network, target = problem.network, problem.target
    weights = committee_weights(target, network.activation) if problem.loss == SQUARE else None
    if weights is None or any(network.per_neuron("bias")):
        return sampled_problem(network.activation, network.per_neuron("bias"), target, problem.loss, points), None
    teachers = np.asarray(weights)
    identity = np.eye(target.latents)
    return committee_population(network.activation, network.width, identity, teachers, target.noise, points), teachers


def problem_motion(problem: TwoLayer, times: np.ndarray) -> Motion:
    """Rates, batch and sphere of a problem's algorithm."""
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    batch, ratio = (algorithm.batch, algorithm.second_layer_ratio) if isinstance(algorithm, OnePassSGD) else (1, 1.0)
    return motion_of(
        algorithm.rate,
        network.width,
        batch,
        ratio if network.train_second_layer else 0.0,
        isinstance(algorithm, SphericalSGD),
        times,
    )


def given_overlaps(problem: TwoLayer) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps and Gram matrix of an `OverlapStart` as d goes to infinity; a random start is refused."""
    start, network = problem.start, problem.network
    if not isinstance(start, OverlapStart):
        raise InputError(
            "d and seeds are required: from a random start the flow depends on the overlaps of size d^(-1/2)."
        )
    overlap = overlap_matrix(start, network.width, problem.target.latents)
    if start.gram is not None:
        return overlap, np.asarray(start.gram, dtype=float)
    gram = overlap @ overlap.T
    np.fill_diagonal(gram, network.initial_norm**2)
    return overlap, gram


def _tangent(*arguments: Any, **options: Any) -> Any:
    # Here: it stands on this module.
    from limen.theory.one_pass.overlap_equations.overlap_tangent import tangent

    return tangent(*arguments, **options)


overlap_ode = Method("overlap-ode", "theory", CITATIONS, refuses, solve, tangent=_tangent)
