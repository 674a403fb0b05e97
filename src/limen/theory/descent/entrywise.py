"""Descent by rules that treat every entry alone (Adam, signs, one's own) as predictions, with their spread."""

from typing import Any

import numpy as np
import xarray as xr

from limen.checks import integer, power_of_two
from limen.gaussian.keys import numpy_generators
from limen.gaussian.sobol import sobol_normals
from limen.machine.memory import check_memory
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.algorithms import Descent, Entrywise, plain_units
from limen.problem.divergence import remedy
from limen.problem.rates import rate_label
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.causal_pass import start_coefficients
from limen.theory.descent.conditioned_pass import Run
from limen.theory.descent.coordinates import whitened
from limen.theory.descent.finite_dimension import draw_points
from limen.theory.descent.solve import median_of_sets, pinned_directions, run_observables
from limen.theory.descent.two_sided_pass import Entries, two_sided_pass

CITATIONS = ("celentano2021", "gerbelot2022", "kingma2015")
# Seeds of the entries' points stand apart from those of the samples.
ENTRY_SEED = 500_000
# A set whose train losses differ by more than this part of their range has too few paths.
LARGEST_SPREAD = 0.02
# A train loss that moves by a smaller part of itself is measured by this part of it instead of its range.
STILL = 1e-3
# Squares of gradients, of size samples_per_dim ** -0.5, must be numbers in single precision.
FEWEST_SAMPLES = 1e-30
# Paths to begin with, and how far they are raised where the sets differ.
PATHS, MOST_PATHS, MOST_BYTES = 16384, 262144, 1e9


def refuses(problem: object) -> str | None:
    """Why the theory of entrywise rules does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, Descent):
        return f"it solves descent on a fixed sample, not {type(problem.algorithm).__name__}."
    return problem.inputs.unlike_isotropic()


@in_double
def solve(problem: TwoLayer, times: Any, paths: int | None = None, scrambles: int = 5, seed: int = 0) -> Findings:
    r"""Descent as $n,d\to\infty$ with $n/d\to\delta$, at `times` (whole steps), by any update rule.

    Returns `train_loss`, `test_loss`, `excess_risk`, `overlap`, `gram`, `second_layer` and the two-time
    `correlation` $C_\theta(t,t')$: the **median** over `scrambles` independent sets of `paths` samples and as many
    entries, with the standard deviation between sets in `*_spread`. Where the target has hard directions and the start
    no overlap with them, their overlaps are pinned to zero. The law of the target's entries matters; see
    `two_sided_pass` for the equations, which need no derivative of rule, activation or loss.

    Rules linear in the gradient are solved too, as a check of the theory `descent`, which is cheaper for them.

    Args:
        paths: samples and entries of a set, a power of two; by default 16384, and four times as many, up to twice,
            where sets differ by more than 2% of the range of the train loss.
        scrambles: number of sets.
        seed: of the sets.

    Not `ok` where sets still differ by more than that. Cost of a set: $O(N(mT)^2)$ operations,
    $24NmT$ bytes. Source: Celentano, Cheng & Montanari 2021; Gerbelot et al. 2022.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"entrywise does not apply: {reason}")
    scrambles, seed = integer("scrambles", scrambles, 1), integer("seed", seed, 0)
    assert isinstance(problem.algorithm, Descent) and problem.samples_per_dim is not None
    if problem.samples_per_dim < FEWEST_SAMPLES:
        raise InputError(
            f"samples_per_dim must be at least {FEWEST_SAMPLES:g}, or gradients leave single precision, "
            f"got {problem.samples_per_dim:g}."
        )
    grid = time_grid(times, counts_steps=True)
    steps, width, k = int(grid[-1]), problem.network.width, problem.target.latents

    def bytes_of(count: int) -> float:
        return 24.0 * count * (steps * width + width + k + 4)

    count = PATHS if paths is None else power_of_two("paths", paths)
    check_memory("paths x steps x width", bytes_of(count), f"take fewer than {count} paths or {steps} steps")

    def medians(count: int) -> xr.Dataset:
        sets = range(1000 * seed, 1000 * seed + scrambles)
        return median_of_sets([run_observables(problem, run_set(problem, steps, count, i), grid) for i in sets], grid)

    dataset = medians(count)
    while paths is None and apart(dataset) and count < MOST_PATHS and bytes_of(4 * count) <= MOST_BYTES:
        count *= 4
        dataset = medians(count)
    loss = dataset.train_loss.values
    status, ok = f"median of {scrambles} sets of {count} samples and {count} entries.", True
    if not np.isfinite(loss).all():
        ok, first = False, grid[~np.isfinite(loss)][0]
        status = f"the weights diverge before step {first:g}: {remedy(problem)}."
    elif apart(dataset):
        ok, worst = False, grid[int(np.argmax(dataset.train_loss_spread.values))]
        status = f"sets of {count} paths differ by more than 2% of the range of the train loss at step {worst:g}: "
        status += "take more paths."
        if np.ptp(loss) < STILL * loss[0]:
            status = f"the train loss moves by less than {STILL:.1%}, which sets of {count} paths do not resolve: "
            status += f"take more steps, or a larger step than {rate_label(problem.algorithm.step)}."
    if isinstance(problem.algorithm, Entrywise):
        status = f"{status[:-1]}; {plain_units(problem.algorithm)}."
    statistics = {"memory": bytes_of(count)}
    return Findings(dataset, ok, status, statistics)


def apart(dataset: xr.Dataset) -> bool:
    """Whether sets differ by more than 2% of the range of the train loss; one set has nothing to differ from."""
    loss, spread = dataset.train_loss.values, dataset.train_loss_spread.values
    return bool(np.max(spread) > LARGEST_SPREAD * max(np.ptp(loss), STILL * loss[0]))


def run_set(problem: TwoLayer, steps: int, paths: int, seed: int) -> Run:
    """One set of samples and entries through all steps."""
    assert isinstance(problem.algorithm, Descent)
    k, m = problem.target.latents, problem.network.width
    randoms = numpy_generators([seed], 0, "batches of the theory")
    batches = draw_batches(problem.algorithm, steps, paths, randoms)
    samples = draw_points(problem, m * steps, paths, [seed]).row(0)
    entries = draw_entries(problem, m * steps, paths, ENTRY_SEED + seed)
    pinned, single = pinned_directions(problem).shape[1] > 0, None if batches is None else batches.row(0)
    return two_sided_pass(problem, samples, entries, start_coefficients(problem, k + m), steps, single, pinned)


def draw_entries(problem: TwoLayer, directions: int, paths: int, seed: int) -> Entries:
    """Scrambled Sobol normals of the entries; those of the target have their law."""
    target, k, m = problem.target, problem.target.latents, problem.network.width
    normals = sobol_normals(paths, 2 * k + m + directions, seed)
    chosen = normals[:, k : 2 * k] < _quantile(target.filled)
    first = whitened(np.concatenate([np.where(chosen, normals[:, :k], 0.0), normals[:, 2 * k : 2 * k + m]], axis=1))
    first = np.ascontiguousarray(first.T, np.float32)
    return Entries(first[:k], first[k:], np.ascontiguousarray(normals[:, 2 * k + m :].T, np.float32))


def _quantile(fraction: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(fraction))


entrywise = Method("entrywise", "theory", CITATIONS, refuses, solve, coarse={"paths": 2048, "scrambles": 2})
