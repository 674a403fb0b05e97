r"""Gradient flow without a model: the exact theory of gradient descent, its step taken to zero.

Descent with the step $\eta=\delta T/N$ takes $N$ steps to time $T$ and is off by a smooth expansion in $\eta$. Runs
of $N,2N,4N$ steps are extrapolated twice (Richardson), $N$ doubled until the last two extrapolations agree.

All three have the same random points: the forces are smooth in time, so that their new directions come in the same
order at every $N$, and most of the error of the paths cancels in the differences that the extrapolation magnifies.
"""

from typing import Any, NamedTuple

import numpy as np

from limen.labelled import labelled
from limen.method import Findings, Method
from limen.precision import in_double
from limen.problem import GradientDescent, GradientFlow, InputError, TwoLayer
from limen.problem.groups import neuron_groups
from limen.problem.times import time_grid
from limen.theory.cubic_spline import spline_values
from limen.theory.descent.conditioned_pass import Points
from limen.theory.descent.finite_dimension import draw_points
from limen.theory.descent.solve import conditioned_set
from limen.theory.flow import solve as gaussian
from limen.theory.fresh_inputs.population_losses import population_losses

CITATIONS = ("montanari2026", "celentano2021", "montanari2025")
PATHS, MOST_PATHS, SETS = 8192, 131072, 4
FEWEST_STEPS = 8
# Steps times width that a set of paths can carry, and up to which it takes seconds.
MOST_DIRECTIONS = 640
WIDEST = 8
# Paths times squared directions, up to which the paths are raised: some ten seconds.
MOST_WORK = 5e9


class Trajectory(NamedTuple):
    """Train loss (time,), overlaps (time, m, k), Gram matrices (time, m, m), second layers (time, m)."""

    train_loss: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray
    second_layer: np.ndarray


def refuses(problem: object) -> str | None:
    """Why small steps of descent do not give the flow, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientFlow):
        return f"it solves GradientFlow, not {type(problem.algorithm).__name__}."
    if problem.network.width > WIDEST:
        return f"it follows every neuron for itself, at most {WIDEST}, got {problem.network.width}."
    return problem.inputs.unlike_isotropic()


@in_double
def solve(problem: TwoLayer, times: Any, tolerance: float = 0.01) -> Findings:
    r"""Gradient flow $\frac d{dt}=-\frac nd\nabla\hat R$, on the sphere or free, as $n,d\to\infty$ at fixed $n/d$.

    Exact where it is affordable, for any loss, activation, bias, length of the neurons and decay. Returns `train_loss`,
    `test_loss` (noise included), `second_layer` (time, group), `overlap` (time, group, latent), `gram` (time, group,
    group2), the overlap of two *different* neurons, and of a free flow `own_gram` (time, group), each with its
    `*_spread`: the change at the last extrapolation and the error of the paths. Where time times width is too long the
    answer is that of the Gaussian model, and the status says so; where both can be had, `model_error` in the statistics
    is the largest difference of their test losses, in parts of the range.

    Args:
        tolerance: largest error, in parts of a variable's size; beyond it `ok` is False.

    Cost: $O(N_{\text{paths}}(mN)^2)$ for the finest run, a few seconds. Sources: Montanari & Wang 2026; Montanari &
    Urbani 2025 for the setting and the model.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"small steps do not apply: {reason}")
    grid = time_grid(times, counts_steps=False)
    gaussian.check_decays(problem, float(grid[-1]))
    assert problem.samples_per_dim is not None and isinstance(problem.algorithm, GradientFlow)
    m, last = problem.network.width, followed_until(grid)
    steps = max(FEWEST_STEPS, int(np.ceil(2.0 * problem.samples_per_dim * last / m)))
    if 4 * steps * m > MOST_DIRECTIONS:
        why = f"the exact theory would take {4 * steps} steps of {m} neurons, at most {MOST_DIRECTIONS} together"
        return of_the_model(problem, grid, why)
    paths = PATHS
    found, error = _extrapolated(_runs(problem, grid, steps, paths))
    while not error.worst <= tolerance:
        finer, more = 2 * steps, 4 * paths
        if error.of_paths and more <= MOST_PATHS and more * (4 * steps * m) ** 2 <= MOST_WORK:
            paths = more
        elif 4 * finer * m <= MOST_DIRECTIONS:
            steps, paths = finer, paths if paths * (4 * finer * m) ** 2 <= 2.0 * MOST_WORK else PATHS
        else:
            break
        found, error = _extrapolated(_runs(problem, grid, steps, paths))
    worst = error.worst
    groups = neuron_groups(problem)
    losses = population_losses(problem, found.overlap, found.gram, found.second_layer)
    ends = [population_losses(problem, *(part[i] for part in error.sets)).test for i in range(SETS)]
    along = ("time", "group")
    variables: dict[str, Any] = {
        "train_loss": (("time",), found.train_loss),
        "test_loss": (("time",), losses.test),
        "second_layer": (along, groups.means(found.second_layer)),
        "overlap": ((*along, "latent"), np.moveaxis(groups.means(np.moveaxis(found.overlap, 1, 2)), 2, 1)),
        "gram": ((*along, "group2"), groups.pair_means(found.gram)),
        "train_loss_spread": (("time",), error.train_loss),
        "test_loss_spread": (("time",), np.std(ends, axis=0, ddof=1) / SETS**0.5 + losses.test_error),
        "second_layer_spread": (along, groups.means(error.second_layer)),
        "overlap_spread": ((*along, "latent"), np.moveaxis(groups.means(np.moveaxis(error.overlap, 1, 2)), 2, 1)),
        "gram_spread": ((*along, "group2"), np.abs(groups.pair_means(error.gram))),
    }
    if not problem.algorithm.spherical:
        own = [groups.means(np.diagonal(part, axis1=1, axis2=2)) for part in (found.gram, error.gram)]
        variables |= {"own_gram": (along, own[0]), "own_gram_spread": (along, own[1])}
    coords = {"time": grid, "group_size": ("group", groups.sizes.astype(int))}
    dataset = labelled(variables, coords=coords)
    statistics = {"steps": 4.0 * steps, "paths": float(paths), "error": worst}
    where = "on the sphere" if problem.algorithm.spherical else "of free neurons"
    status = f"descent {where} in up to {4 * steps} steps, extrapolated; error {worst:.1e}"
    if not np.isfinite(worst):
        status = f"descent {where} diverges in steps as long as these, {steps} to {4 * steps} in all"
        return Findings(dataset, False, f"{status}: ask for earlier times.", statistics)
    if gaussian.refuses(problem) is None:
        gap = _model_gap(problem, grid, losses.test)
        if gap is not None and np.isfinite(gap):
            statistics["model_error"] = gap
            status += f"; the Gaussian model is off by {gap:.1%} of the range of the test loss"
    if not worst <= tolerance:
        return Findings(
            dataset, False, f"{status}: above the tolerance {tolerance:g}, ask for earlier times.", statistics
        )
    return Findings(dataset, True, status + ".", statistics)


def followed_until(grid: np.ndarray) -> float:
    """The time to which steps are taken; where the start alone is asked for, to any, for a step must have a length."""
    return float(grid[-1]) or 1.0


def _runs(problem: TwoLayer, grid: np.ndarray, steps: int, paths: int) -> list[list[Trajectory]]:
    """Descent in `steps`, twice and four times as many, each with every set of paths."""
    most, sets = 4 * steps * problem.network.width, range(SETS)
    points = [draw_points(problem, most, paths, [seed], when_met=True) for seed in sets]
    return [[_run(problem, grid, steps << level, paths, i, points[i]) for i in sets] for level in range(3)]


def _run(problem: TwoLayer, grid: np.ndarray, steps: int, paths: int, seed: int, points: Points) -> Trajectory:
    """Descent in so many steps, read off at the times asked for."""
    flow = problem.algorithm
    assert problem.samples_per_dim is not None and isinstance(flow, GradientFlow)
    last, k = followed_until(grid), problem.target.latents
    rule = GradientDescent(problem.samples_per_dim * last / steps, spherical=flow.spherical)
    regularization = flow.regularization(problem.network.width)

    def penalty(step: int) -> tuple[np.ndarray, float]:
        assert regularization is not None
        time = step * last / steps
        return regularization.matrix(time), regularization.second_layer(time)

    plain = problem.model_copy(update={"algorithm": rule})
    run = conditioned_set(plain, steps, paths, seed, penalty if regularization is not None else None, points)
    gram = np.einsum("tic,tjc->tij", run.coefficients, run.coefficients)
    own = np.linspace(0.0, last, steps + 1)
    parts = (run.train_loss, run.coefficients[:, :, :k], gram, run.second_layer)
    if run.diverged is not None:
        return Trajectory(*(np.full((grid.size, *part.shape[1:]), np.nan) for part in parts))
    return Trajectory(*(spline_values(own, part, grid) for part in parts))


class Error(NamedTuple):
    """Errors of the parts of a trajectory; overlaps, Gram matrices and second layers of every set; the largest error in
    parts of a variable's size, and whether the paths, not the steps, make it."""

    train_loss: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray
    second_layer: np.ndarray
    sets: tuple[np.ndarray, np.ndarray, np.ndarray]
    worst: float
    of_paths: bool


def _extrapolated(runs: list[list[Trajectory]]) -> tuple[Trajectory, Error]:
    """The twice extrapolated trajectory, and its error."""
    values, errors, sets, worst, of_paths = [], [], [], 0.0, False
    for part in range(4):
        coarse, middle, fine = (np.stack([one[part] for one in level]) for level in runs)
        first, second = 2.0 * middle - coarse, 2.0 * fine - middle
        best = (4.0 * second - first) / 3.0
        values.append(best.mean(axis=0))
        change = np.abs(second.mean(axis=0) - first.mean(axis=0)) / 3.0
        spread = best.std(axis=0, ddof=1) / SETS**0.5
        errors.append(np.hypot(change, spread))
        sets.append(best)
        size = np.abs(values[-1]).max()
        if not np.isfinite(size):
            worst, of_paths = np.inf, False
        elif size > 0.0 and float(np.max(errors[-1])) / size > worst:
            worst, of_paths = float(np.max(errors[-1])) / size, bool(np.max(spread) > np.max(change))
    own = (sets[1], sets[2], sets[3])
    return Trajectory(*values), Error(errors[0], errors[1], errors[2], errors[3], own, worst, of_paths)


def _model_gap(problem: TwoLayer, grid: np.ndarray, test: np.ndarray) -> float | None:
    try:
        model = gaussian.solve(problem, grid)
    except InputError:
        return None
    span = float(np.ptp(test)) or float(np.abs(test).max())
    return float(np.max(np.abs(model.dataset.test_loss.values - test))) / span if model.ok else None


def of_the_model(problem: TwoLayer, grid: np.ndarray, why: str) -> Findings:
    """The answer of the Gaussian model, which the status calls a model, with the reason why it is not the exact one."""
    reason = gaussian.refuses(problem)
    if reason is not None:
        raise InputError(f"times must end earlier: {why}, and the Gaussian model does not apply: {reason}")
    found = gaussian.solve(problem, grid)
    status = f"{gaussian.OF_A_MODEL} ({why}): {found.status.removeprefix(f'{gaussian.OF_A_MODEL}: ')}"
    return Findings(found.dataset, found.ok, status, found.statistics)


small_steps = Method("small-steps", "theory", CITATIONS, refuses, solve)
