"""The theory of full-batch gradient descent as predictions: losses, overlaps, two-time kernels, with their spread."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from limen.checks import integer, number, power_of_two
from limen.gaussian.keys import numpy_generators
from limen.labelled import labelled
from limen.link import hard_subspace
from limen.machine.memory import check_memory
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer
from limen.problem.algorithms import beyond_plain
from limen.problem.divergence import remedy
from limen.problem.inputs import InputVariances
from limen.problem.starts import overlap_matrix
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.block_pass import BlockRun, block_pass
from limen.theory.descent.causal_pass import Pass, causal_pass, memory_estimate, start_coefficients
from limen.theory.descent.conditioned_pass import Points, Run, Sampling, conditioned_pass
from limen.theory.descent.coordinates import Coordinates, draw_coordinates
from limen.theory.descent.finite_dimension import checked_memory as checked_run_memory
from limen.theory.descent.finite_dimension import draw_points, runs
from limen.theory.descent.hard_fluctuations import hard_fluctuations, path_weights
from limen.theory.descent.path_error import PathError, path_error, stated_part
from limen.theory.fresh_inputs.population_losses import PopulationLosses, population_losses

CITATIONS = ("montanari2026", "celentano2021")
# Variables along (time, time2, neuron, neuron2) are reported up to this many entries.
MOST_ENTRIES = 4e6
# Paths of a set without responses, where they are cheap.
SET_PATHS = 16384
TOLERANCE = 0.01
# Sets of paths, by default.
FEW_AND_MORE_SETS = (5, 10)
MOST_WIDTH = 32
# Paths are not raised beyond this many operations: some ten seconds.
MOST_OPERATIONS = 1e11


class Scramble(NamedTuple):
    """One scramble's points, pass, and the directions that were pinned: `hard` (k, r), r = 0 where none is."""

    coordinates: Coordinates
    found: Pass
    hard: np.ndarray


def refuses(problem: object) -> str | None:
    """Why the mean-field theory of gradient descent does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientDescent):
        return f"it solves GradientDescent, not {type(problem.algorithm).__name__}."
    if problem.network.width > MOST_WIDTH:
        return _too_wide(problem)
    if problem.inputs.target_shares is not None:
        return "it solves targets spread evenly over the eigenspaces, not target_shares."
    return None


def _too_wide(problem: TwoLayer) -> str:
    """The refusal of a network whose neurons are too many to be followed one by one, with the numbers."""
    m, k, steps = problem.network.width, problem.target.latents, 10
    smooth = without_responses(problem) is None
    memory = memory_estimate(steps, m, 4096, k, 1) if smooth else 16.0 * SET_PATHS * m * steps
    operations = 4096.0 * (m * steps) ** 3 / 3.0 if smooth else 4.0 * SET_PATHS * (m * steps) ** 2
    return (
        f"it follows every neuron, up to {MOST_WIDTH}: width {m} takes {memory / 1e9:.3g} GB and {operations:.1g} "
        f"operations a set for {steps} steps; neurons that are equal in law are solved by equal-neurons."
    )


def without_responses(problem: TwoLayer) -> str | None:
    """Why responses, and what rests on them (Hessian, thresholds, the linear law), are left out, or None."""
    assert isinstance(problem.algorithm, GradientDescent)
    if problem.network.activation.kinks:
        label = problem.network.activation.label
        return (
            f"it needs a twice differentiable activation, and {label} has a kink, where its second derivative, and so "
            f"a response or a Hessian, is not defined: take a smooth one (gelu, softplus)."
        )
    if problem.loss.kinked:
        return (
            f"it needs a loss with a continuous slope, and that of {problem.loss.name} jumps, so that a response or a "
            f"Hessian is not defined: take a smooth one (huber:k, pseudo-huber:k)."
        )
    if problem.network.train_bias:
        return "it needs fixed biases, and train_bias is set."
    return beyond_plain(problem.algorithm)


@in_double
def solve(
    problem: TwoLayer,
    times: Any,
    paths: int | None = None,
    scrambles: int | None = None,
    seed: int = 0,
    d: int | None = None,
    seeds: int | Sequence[int] | None = None,
    tolerance: float | None = None,
) -> Findings:
    r"""Gradient descent as $n,d\to\infty$ with $n/d\to\delta$, at `times` (whole steps), or at dimension `d`.

    Returns `train_loss`, `test_loss`, `excess_risk`, `overlap`, `gram`, `second_layer`, and the two-time kernels
    `correlation` $C_\theta(t,t')$ and `response` $R_\theta(t,t')$; where the target has hard directions and the start
    no overlap with them, their overlaps are pinned to zero, and `hard_variance` $C_u(t,t)$ and `amplification`
    $\Phi_0(t)$ (see `hard_fluctuations`) say what happens to them at finite $d$. Each is the **median** over
    `scrambles` independent sets of `paths` points, with the standard deviation between sets in `*_spread`: where
    paths cross a separatrix responses are heavy-tailed, and a single path can spoil a set.

    With `d` every one of `seeds` (default 32) has a row of its own, escape from hard directions included: see
    `finite_dimension.runs`.

    Args:
        paths: points of a set, a power of two; by default 4096 (16384 where no responses are computed), and four times
            as many, up to twice, where the sets differ by more than `tolerance`.
        scrambles: number of sets; by default 5, and 10 where the error of 5 is above half of the tolerance: so few do
            not know it well. With `d` every row is one.
        seed: of the sets.
        d: the dimension.
        seeds: the rows at dimension `d`.
        tolerance: largest error of a median over the sets, in parts of the size of its variable; 0.01 by default. Where
            it is not reached `ok` is False, and the status says from which step on the sets differ.

    Kinked activations and losses, momentum, step schedules, mini-batches, a step of its own for the second layer and
    trained biases (then reported as `bias`) go through `conditioned_pass` (`block_pass` on inputs of several
    variances), which leaves out `response`, `hard_variance` and `amplification`.

    Cost of a set: $\frac13NT^3m^3$ operations and $8NTm^2$ bytes, without responses $O(N(mT)^2)$ and $16NmT$. Source:
    Montanari & Wang 2026.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"descent does not apply: {reason}")
    if d is not None:
        for name, value in (("scrambles", scrambles), ("tolerance", tolerance)):
            if value is not None:
                raise InputError(f"{name} must be left out with d, where every row has its own set, got {value}.")
        return runs(problem, times, d, 32 if seeds is None else seeds, paths, seed)
    if seeds is not None:
        raise InputError("seeds need d, the dimension at which runs differ.")
    grid = time_grid(times, counts_steps=True)
    steps, spectrum = int(grid[-1]), problem.inputs.spectrum
    counts = FEW_AND_MORE_SETS if scrambles is None else (integer("scrambles", scrambles, 1),)
    seed = integer("seed", seed, 0)
    tolerance = TOLERANCE if tolerance is None else number("tolerance", tolerance)
    if not 1e-6 <= tolerance <= 1.0:
        raise InputError(f"tolerance must be between 1e-6 and 1, got {tolerance}.")
    reason = without_responses(problem)

    def one_set(points: int, i: int) -> dict[str, Any]:
        if reason is None:
            return _observables(problem, run_scramble(problem, steps, points, i, spectrum), spectrum, grid)
        return _without_responses(problem, steps, points, i, grid)

    def medians(points: int) -> tuple[xr.Dataset, PathError, int]:
        found = [one_set(points, 1000 * seed + i) for i in range(counts[0])]
        for count in counts[1:]:
            error = path_error(median_of_sets(found, grid), len(found), tolerance)
            if error.first is not None or not error.largest > 0.5 * tolerance:
                break
            found += [one_set(points, 1000 * seed + i) for i in range(len(found), count)]
        dataset = median_of_sets(found, grid)
        return dataset, path_error(dataset, len(found), tolerance), len(found)

    def memory_of(points: int) -> float:
        if reason is None:
            return checked_memory(problem, steps, points, spectrum)
        return checked_run_memory(problem, steps, points, spectrum.values.size)

    first = 4096 if reason is None else SET_PATHS
    raised = [] if paths is not None else [4 * first, 16 * first]
    paths = first if paths is None else paths
    memory = memory_of(paths)
    dataset, error, sets = medians(paths)
    for more in raised:
        if error.first is None or diverges(dataset) or _work(problem, steps, more) > MOST_OPERATIONS:
            break
        paths, memory = more, memory_of(more)
        dataset, error, sets = medians(paths)
    diverged = diverges(dataset)
    status = f"median of {sets} sets of {paths} paths."
    if reason is not None:
        status = f"{status[:-1]}, without responses ({reason.split(':')[0].rstrip('.')})."
    if diverged:
        first = grid[~np.isfinite(dataset.train_loss.values)][0]
        status = f"the weights diverge before step {first:g}: {remedy(problem)}."
    elif error.first is not None:
        status = (
            f"sets of {paths} paths differ by {error.largest:.1%} of a variable's size, more than the tolerance "
            f"{tolerance:g}: not to be trusted from step {error.first:g} on; take more paths or fewer steps."
        )
    statistics = {"memory": memory, "paths": float(paths), "path_error": error.largest}
    return Findings(dataset, not diverged and error.first is None, status, statistics)


def diverges(dataset: xr.Dataset) -> bool:
    """Whether the weights stop being finite."""
    return bool(~np.isfinite(dataset.train_loss.values).all())


def _work(problem: TwoLayer, steps: int, paths: int) -> float:
    """Operations of all sets, roughly, where responses are computed."""
    return 2.0 * paths * float(steps * problem.network.width) ** 3


def run_scramble(problem: TwoLayer, steps: int, paths: int, seed: int, spectrum: InputVariances) -> Scramble:
    """One set of paths through all steps."""
    hard = pinned_directions(problem)
    easy = np.eye(problem.target.latents) - hard @ hard.T
    coordinates = draw_coordinates(problem, spectrum, steps * problem.network.width, paths, seed)
    weights = path_weights(coordinates.latent, hard)
    return Scramble(coordinates, causal_pass(problem, coordinates, spectrum, steps, easy, weights), hard)


def pinned_directions(problem: TwoLayer) -> np.ndarray:
    """Hard directions (k, r) of the target; none (k, 0) if the start overlaps with them."""
    hard = hard_subspace(problem.target).basis
    if isinstance(problem.start, OverlapStart):
        overlap = overlap_matrix(problem.start, problem.network.width, problem.target.latents)
        if np.abs(overlap @ hard).max(initial=0.0) > 0.0:
            return hard[:, :0]
    return hard


def checked_memory(problem: TwoLayer, steps: int, paths: int, spectrum: InputVariances) -> float:
    """Bytes a set will take; refused before they are spent."""
    k, m = problem.target.latents, problem.network.width
    bytes_needed = memory_estimate(steps, m, power_of_two("paths", paths), k, spectrum.values.size)
    check_memory("paths x steps x width²", bytes_needed, f"take fewer than {paths} paths or {steps} steps")
    return bytes_needed


def _observables(problem: TwoLayer, scramble: Scramble, spectrum: InputVariances, grid: np.ndarray) -> dict[str, Any]:
    found, at = scramble.found, grid.astype(int)
    bias = np.tile(np.asarray(problem.network.per_neuron("bias"), dtype=float), (len(found.second_layer), 1))
    run = BlockRun(found.coefficients, found.train_loss, found.second_layer, bias)
    variables = block_observables(problem, run, spectrum, grid)
    if "correlation" in variables:
        variables["response"] = (variables["correlation"][0], found.response[np.ix_(at, at)])
    if scramble.hard.shape[1]:
        variance, amplification = hard_fluctuations(problem, found, scramble.coordinates.latent, scramble.hard)
        blocks = ("time", "neuron", "neuron2", "hard", "hard2")
        variables["hard_variance"] = (blocks, variance[at])
        variables["amplification"] = (blocks, amplification[at])
    return variables


def block_observables(problem: TwoLayer, found: BlockRun, spectrum: InputVariances, grid: np.ndarray) -> dict[str, Any]:
    """What is reported of one set whose coefficients have an axis of eigenspaces."""
    at, k = grid.astype(int), problem.target.latents
    coefficients = found.coefficients[at]
    field_overlap = coefficients[:, :, :k] @ np.sqrt(spectrum.fractions * spectrum.values)
    field_gram = np.einsum("tica,tjca->tij", coefficients, coefficients)
    losses = population_losses(problem, field_overlap, field_gram, found.second_layer[at], found.bias[at])
    scaled = (coefficients / np.sqrt(spectrum.values)).reshape(at.size, problem.network.width, -1)
    overlap = coefficients[:, :, :k] @ np.sqrt(spectrum.fractions / spectrum.values)
    variables = _reported(losses, overlap, scaled, found.train_loss[at], found.second_layer[at])
    return variables | reported_bias(problem, found.bias[at])


def _without_responses(problem: TwoLayer, steps: int, paths: int, seed: int, grid: np.ndarray) -> dict[str, Any]:
    """What is reported of one set by conditioning, on inputs of one variance or several."""
    if problem.inputs.isotropic:
        return run_observables(problem, conditioned_set(problem, steps, paths, seed), grid)
    assert isinstance(problem.algorithm, GradientDescent)
    spectrum, hard = problem.inputs.spectrum, pinned_directions(problem)
    batches = draw_batches(problem.algorithm, steps, paths, numpy_generators([seed], 0, "batches of the theory"))
    coordinates = draw_coordinates(problem, spectrum, steps * problem.network.width, paths, seed)
    found = block_pass(problem, coordinates, spectrum, steps, None if batches is None else batches.row(0), hard)
    return block_observables(problem, found, spectrum, grid)


def conditioned_set(
    problem: TwoLayer,
    steps: int,
    paths: int,
    seed: int,
    penalty: Callable[[int], tuple[np.ndarray, float]] | None = None,
    points: Points | None = None,
) -> Run:
    """One set of paths through all steps without responses, in the limit of infinite dimension, losses on fresh inputs
    left out; `penalty` as of `conditioned_pass`. Sets given the same `points`, drawn when met, share them."""
    assert isinstance(problem.algorithm, GradientDescent)
    given = problem.target.latents + problem.network.width
    randoms = numpy_generators([seed], 0, "batches of the theory")
    sampling = Sampling(None, draw_batches(problem.algorithm, steps, paths, randoms))
    directions = problem.network.width * steps
    points = draw_points(problem, directions, paths, [seed], when_met=True) if points is None else points
    start = start_coefficients(problem, given)[None]
    pinned = pinned_directions(problem).shape[1] > 0
    own = points.again(given, directions)
    return conditioned_pass(problem, own, start, steps, sampling, pinned, penalty=penalty, fresh=()).row(0)


def run_observables(problem: TwoLayer, found: Run, grid: np.ndarray) -> dict[str, Any]:
    """What is reported of one set without responses."""
    at, k = grid.astype(int), problem.target.latents
    coefficients = found.coefficients[at]
    overlap, gram = coefficients[:, :, :k], np.einsum("tic,tjc->tij", coefficients, coefficients)
    losses = population_losses(problem, overlap, gram, found.second_layer[at], found.bias[at])
    variables = _reported(losses, overlap, coefficients, found.train_loss[at], found.second_layer[at])
    return variables | reported_bias(problem, found.bias[at])


def reported_bias(problem: TwoLayer, bias: np.ndarray) -> dict[str, Any]:
    """Biases (time, m), where they move."""
    return {"bias": (("time", "neuron"), bias)} if problem.network.train_bias else {}


def _reported(
    losses: PopulationLosses, overlap: np.ndarray, weights: np.ndarray, train_loss: np.ndarray, second_layer: np.ndarray
) -> dict[str, Any]:
    """Variables of one set; `weights` (T, m, c) on orthonormal coordinates."""
    variables: dict[str, Any] = {
        "train_loss": (("time",), train_loss),
        "test_loss": (("time",), losses.test),
        "excess_risk": (("time",), losses.excess),
        "quadrature_error": (("time",), losses.test_error),
        "overlap": (("time", "neuron", "latent"), overlap),
        "gram": (("time", "neuron", "neuron2"), np.einsum("tic,tjc->tij", weights, weights)),
        "second_layer": (("time", "neuron"), second_layer),
    }
    if (weights.shape[0] * weights.shape[1]) ** 2 <= MOST_ENTRIES:
        two_time = np.einsum("tic,ujc->tuij", weights, weights, optimize=True)
        variables["correlation"] = (("time", "time2", "neuron", "neuron2"), two_time)
    return variables


def median_of_sets(found: list[dict[str, Any]], grid: np.ndarray) -> xr.Dataset:
    """Medians over the sets, and the standard deviation between them in `*_spread`; the error of a median is a part of
    it."""
    variables, part = {}, stated_part(len(found))
    for name, (dims, _) in found[0].items():
        values = np.stack([one[name][1] for one in found])
        variables[name] = (dims, np.median(values, axis=0), {"error": f"{name}_spread", "error_part": part})
        # What diverges may be too large to be squared.
        with np.errstate(over="ignore", invalid="ignore"):
            spread = values.std(axis=0, ddof=1) if len(found) > 1 else np.full(values.shape[1:], np.nan)
        variables[f"{name}_spread"] = (dims, spread)
    quadrature = variables.pop("quadrature_error")[1]
    variables.pop("quadrature_error_spread")
    for name in ("test_loss_spread", "excess_risk_spread"):
        variables[name] = (("time",), np.hypot(variables[name][1], quadrature))
    coords = {"time": grid, "step": ("time", grid)}
    if "correlation" in variables:
        coords["time2"] = grid
    return labelled(variables, coords=coords)


COARSE = {"paths": 1024, "scrambles": 2, "tolerance": 0.1}

descent = Method("descent", "theory", CITATIONS, refuses, solve, coarse=COARSE)
