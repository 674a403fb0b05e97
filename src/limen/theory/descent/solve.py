"""The theory of full-batch gradient descent as predictions: losses, overlaps, two-time kernels, with their spread."""

import time
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from limen.link import hard_subspace
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer
from limen.problem.algorithms import beyond_plain, constant_step
from limen.problem.inputs import InputVariances
from limen.problem.starts import overlap_matrix
from limen.problem.times import time_grid
from limen.result import Result
from limen.theory.descent.causal_pass import Pass, causal_pass, memory_estimate
from limen.theory.descent.coordinates import Coordinates, draw_coordinates
from limen.theory.descent.hard_fluctuations import hard_fluctuations, path_weights
from limen.theory.descent.population_losses import population_losses

CITATIONS = ("montanari2026", "celentano2021")
MOST_BYTES = 8e9
# Variables along (time, time2, neuron, neuron2) are reported up to this many entries.
MOST_ENTRIES = 4e6


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
    if (reason := beyond_plain(problem.algorithm)) is not None:
        return reason
    if problem.network.activation.breakpoints:
        label = problem.network.activation.label
        return (
            f"it needs a twice differentiable activation, and {label} has a kink: take a smooth one (gelu, softplus)."
        )
    return problem.inputs.unlike_gaussian()


@in_double
def solve(
    problem: TwoLayer,
    times: Any,
    paths: int = 4096,
    scrambles: int = 5,
    seed: int = 0,
) -> Result:
    r"""Gradient descent as $n,d\to\infty$ with $n/d\to\delta$, at `times` (whole steps).

    Returns `train_loss`, `test_loss`, `excess_risk`, `overlap`, `gram`, `second_layer`, and the two-time kernels
    `correlation` $C_\theta(t,t')$ and `response` $R_\theta(t,t')$; where the target has hard directions and the start
    no overlap with them, their overlaps are pinned to zero, and `hard_variance` $C_u(t,t)$ and `amplification`
    $\Phi_0(t)$ (see `hard_fluctuations`) say what happens to them at finite $d$. Each is the **median** over
    `scrambles` independent sets of `paths` points, with the standard deviation between sets in `*_spread`: where
    paths cross a separatrix responses are heavy-tailed, and a single path can spoil a set.

    Args:
        paths: points of a set, a power of two.
        scrambles: number of sets.
        seed: of the sets.

    Inputs of several variances leave out the hard fluctuations.

    Cost of a set: $\frac13NT^3m^3$ operations and $2NT^2m^2$ bytes. Source: Montanari & Wang 2026.
    """
    began = time.perf_counter()
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"descent does not apply: {reason}")
    grid = time_grid(times, counts_steps=True)
    spectrum = problem.inputs.spectrum
    if scrambles < 1:
        raise InputError(f"scrambles must be at least 1, got {scrambles}.")
    memory = checked_memory(problem, int(grid[-1]), paths, spectrum)
    found = [
        _observables(problem, run_scramble(problem, int(grid[-1]), paths, 1000 * seed + i, spectrum), spectrum, grid)
        for i in range(scrambles)
    ]
    dataset = _median(found, grid)
    diverged = bool(~np.isfinite(dataset.train_loss.values).all())
    status = f"median of {scrambles} sets of {paths} paths."
    if diverged:
        first = grid[~np.isfinite(dataset.train_loss.values)][0]
        status = f"the weights diverge before step {first:g}: take a smaller step than {_step(problem):g}."
    statistics = {"seconds": time.perf_counter() - began, "memory": memory}
    return Result(dataset, problem.describe(), "theory", not diverged, status, statistics, citations=CITATIONS)


def run_scramble(problem: TwoLayer, steps: int, paths: int, seed: int, spectrum: InputVariances) -> Scramble:
    """One set of paths through all steps."""
    hard = pinned_directions(problem)
    easy = np.eye(problem.target.latents) - hard @ hard.T
    coordinates = draw_coordinates(problem, spectrum, steps * problem.network.width, paths, seed)
    weights = path_weights(coordinates.latent, hard if spectrum.values.size == 1 else hard[:, :0])
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
    bytes_needed = memory_estimate(steps, m, paths, k, spectrum.values.size)
    if bytes_needed > MOST_BYTES:
        raise InputError(
            f"paths x steps² x width² needs {bytes_needed / 1e9:.1f} GB, at most {MOST_BYTES / 1e9:g} are allowed: "
            f"take fewer than {paths} paths or {steps} steps."
        )
    return bytes_needed


def _observables(problem: TwoLayer, scramble: Scramble, spectrum: InputVariances, grid: np.ndarray) -> dict[str, Any]:
    found, k, at = scramble.found, problem.target.latents, grid.astype(int)
    coefficients = found.coefficients[at]
    field_overlap = coefficients[:, :, :k] @ np.sqrt(spectrum.fractions * spectrum.values)
    field_gram = np.einsum("tica,tjca->tij", coefficients, coefficients)
    test, excess = population_losses(problem, field_overlap, field_gram, found.second_layer[at])
    variables: dict[str, Any] = {
        "train_loss": (("time",), found.train_loss[at]),
        "test_loss": (("time",), test),
        "excess_risk": (("time",), excess),
        "overlap": (
            ("time", "neuron", "latent"),
            coefficients[:, :, :k] @ np.sqrt(spectrum.fractions / spectrum.values),
        ),
        "gram": (
            ("time", "neuron", "neuron2"),
            np.einsum("tica,tjca,a->tij", coefficients, coefficients, 1.0 / spectrum.values),
        ),
        "second_layer": (("time", "neuron"), found.second_layer[at]),
    }
    if (at.size * problem.network.width) ** 2 <= MOST_ENTRIES:
        two_time = ("time", "time2", "neuron", "neuron2")
        scaled = (coefficients / np.sqrt(spectrum.values)).reshape(at.size, problem.network.width, -1)
        variables["correlation"] = (two_time, np.einsum("tic,ujc->tuij", scaled, scaled, optimize=True))
        variables["response"] = (two_time, found.response[np.ix_(at, at)])
    if scramble.hard.shape[1] and spectrum.values.size == 1:
        variance, amplification = hard_fluctuations(problem, found, scramble.coordinates.latent, scramble.hard)
        blocks = ("time", "neuron", "neuron2", "hard", "hard2")
        variables["hard_variance"] = (blocks, variance[at])
        variables["amplification"] = (blocks, amplification[at])
    return variables


def _median(found: list[dict[str, Any]], grid: np.ndarray) -> xr.Dataset:
    variables = {}
    for name, (dims, _) in found[0].items():
        values = np.stack([one[name][1] for one in found])
        variables[name] = (dims, np.median(values, axis=0))
        spread = values.std(axis=0, ddof=1) if len(found) > 1 else np.full(values.shape[1:], np.nan)
        variables[f"{name}_spread"] = (dims, spread)
    coords = {"time": grid, "step": ("time", grid)}
    if "correlation" in variables:
        coords["time2"] = grid
    return xr.Dataset(variables, coords=coords)


def _step(problem: TwoLayer) -> float:
    assert isinstance(problem.algorithm, GradientDescent)
    return constant_step(problem.algorithm)


descent = Method("descent", CITATIONS, refuses, solve)
