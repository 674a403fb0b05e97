r"""$\delta^*(t)$: how many samples per dimension make a hard direction learnable after $t$ steps.

Three criteria, none of them beyond doubt, are evaluated on the same paths of the theory:

* `trimmed`: an informative outlier of the Hessian lies below zero and below the bulk; the lowest $10^{-3}$ of the
  weights are left out while the edge is negative. Without trimming, and with labels that have no bound, the edge
  follows the smallest sample and $\delta^*$ would be infinite.
* `zero-level`: the hard direction is unstable at the origin, $\mathrm{Re}\,\psi(0+i\epsilon)<0$, bulk or not.
* `growth`: at finite $d$ the typical cosine grows at least like $t^{1/4}$ over the second half of the time.

They come together as $t\to\infty$ for losses with a bounded slope; for square loss with unbounded labels they do not
settle at any time that can be reached, and the answer is a bracket (Montanari & Wang 2026).
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import xarray as xr

from limen.link import hard_subspace
from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.hard_fluctuations import hard_fluctuations
from limen.theory.descent.solve import CITATIONS, Scramble, pinned_directions
from limen.theory.thresholds.along_training import (
    PathFields,
    fields_of,
    path_fields,
    path_weights,
    scrambles_of,
    weight_decay_level,
)
from limen.theory.thresholds.hessian_law import hessian_law, zero_levels
from limen.theory.thresholds.population_hessian import population_hessian

Criterion = Literal["trimmed", "zero-level", "growth"]
CRITERIA: tuple[Criterion, ...] = ("trimmed", "zero-level", "growth")
TRIM = 1e-3
EXPONENT = 0.25
# Ratios are looked at on this lattice; thresholds are interpolated between neighbours.
PER_OCTAVE, LOWEST, HIGHEST = 4, 1.0, 64.0
# Below two samples per dimension the criteria are noise around zero: only a run of negative values counts.
RUN = 3
# Beyond so many steps responses are left out, and there are so many paths a neuron and step.
LONG, PATHS_A_STEP = 100, 256
# A curve whose last half moves by less than this has settled.
SETTLED = 0.05


@answers("theory", CITATIONS)
@in_double
def feature_learning(
    problem: TwoLayer,
    times: Any,
    criterion: Criterion = "trimmed",
    paths: int = 4096,
    scrambles: int = 3,
    seed: int = 0,
    progress: Callable[[int], None] = lambda passes: None,
) -> Findings:
    r"""$\delta^*(t)$ of each hard direction at `times`, the bracket as $t\to\infty$, and whether the curve has settled.

    The `samples_per_dim` of the problem is ignored: it is what is sought, the lowest ratio at which the criterion
    holds. `threshold` (time, hard), with `threshold_spread` between `scrambles` sets of paths; at least 1, infinite
    beyond 64. `all_criteria` (criterion, time, hard) holds the three curves, with `all_criteria_spread`. `bracket`
    (bound): the lowest and highest value of the first direction at the last time over criteria and sets of paths.
    `minimum_weight` (time): the smallest weight of the Hessian next to the threshold. At width above one a direction
    counts as soon as the block of one neuron shows it.

    Without a hard direction there is no threshold: `threshold` has no entries along `hard` and the status says so.
    Cost: one pass of the theory per set and lattice ratio, four to an octave. Beyond 100 steps the pass is the one
    without responses, $O(N(mT)^2)$ operations instead of $O(N(mT)^3)$, on at least $256mT$ paths (with 128 a neuron and
    step $\delta^*$ is 3% high at 65 steps, with 504 1%): about 5 s a pass for 130 steps, and 300 steps are what one can
    wait for. The growth of the fluctuations is then not known: `growth` is undefined, the bracket that of the others.
    """
    if criterion not in CRITERIA:
        raise InputError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}.")
    grid = time_grid(times, counts_steps=True)
    directions = pinned_directions(problem).shape[1]
    if hard_subspace(problem.target).basis.shape[1] > directions:
        raise InputError("start must not overlap with the hard directions of the target for a threshold.")
    if directions == 0:
        return _no_hard_direction(problem, grid)
    steps = grid.astype(int)
    if steps[-1] > LONG and criterion == "growth":
        raise InputError(f"criterion must not be 'growth' beyond {LONG} steps, where responses are left out.")
    if steps[-1] > LONG:
        paths = max(paths, 2 ** int(np.ceil(np.log2(PATHS_A_STEP * problem.network.width * steps[-1]))))
    passes, minima = 0, list[np.ndarray]()

    def signs(index: int) -> np.ndarray:
        nonlocal passes
        ratio = LOWEST * 2.0 ** (index / PER_OCTAVE)
        at_ratio = problem.model_copy(update={"samples_per_dim": ratio})
        if steps[-1] > LONG:
            sets = fields_of(at_ratio, steps, paths, scrambles, seed)
            found = [_hessian_criteria(at_ratio, one, steps) for one in sets]
        else:
            passed = scrambles_of(at_ratio, int(steps[-1]), paths, scrambles, seed)
            found = [_criteria(at_ratio, one, steps) for one in passed]
        passes += len(found)
        progress(passes)
        values, smallest = zip(*found, strict=True)
        minima.append(np.min(smallest, axis=0))
        return np.stack(values)

    curves = _lowest_crossings(signs)
    found = _findings(problem, grid, criterion, curves, passes)
    places = np.nan_to_num(np.log2(found.dataset.threshold.values[:, 0] / LOWEST) * PER_OCTAVE, nan=0.0)
    nearest = np.clip(places, 0, len(minima) - 1).round().astype(int)
    found.dataset["minimum_weight"] = (("time",), np.stack(minima)[nearest, np.arange(grid.size)])
    return found


def _criteria(problem: TwoLayer, one: Scramble, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that are negative where a criterion holds, shape (criterion, time, hard), ascending along hard; and the
    smallest weights (time,)."""
    values, smallest = _hessian_criteria(problem, path_fields(one, steps), steps)
    variance, _ = hard_fluctuations(problem, one.found, one.coordinates.latent, one.hard)
    for i, step in enumerate(steps):
        if one.found.diverged is not None and step >= one.found.diverged:
            continue
        for neuron in range(problem.network.width):
            values[2, i] = np.fmin(values[2, i], EXPONENT - _growth(one, variance, int(step), neuron))
    return values, smallest


def _hessian_criteria(problem: TwoLayer, one: PathFields, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `_criteria`, of the two that the Hessian decides; growth is left undefined."""
    values, smallest = np.full((len(CRITERIA), steps.size, one.hard.shape[1]), np.nan), np.full(steps.size, np.nan)
    delta, level = problem.samples_per_dim, weight_decay_level(problem)
    assert delta is not None
    for i, step in enumerate(steps):
        for neuron in range(problem.network.width if int(step) in one.fields else 0):
            weights = path_weights(problem, one, int(step), neuron)
            if problem.inputs.isotropic:
                law = hessian_law(weights, one.hard, delta, TRIM, level)
                levels = zero_levels(weights, one.hard, delta, level=level)
            else:
                law = population_hessian(weights, one.hard, delta, problem.inputs, TRIM, level)
                levels = population_hessian(weights, one.hard, delta, problem.inputs, level=level).zero_levels()
            smallest[i] = np.fmin(smallest[i], law.minimum_weight)
            values[0, i] = np.fmin(values[0, i], law.stability)
            values[1, i] = np.fmin(values[1, i], levels)
    return values, smallest


def _growth(one: Scramble, variance: np.ndarray, step: int, neuron: int) -> np.ndarray:
    r"""$d\log s_t/d\log t$ over $[t/2,t]$ along each hard direction, descending; below two steps NaN."""
    if step < 2:
        return np.full(variance.shape[-1], np.nan)
    gram = (one.found.coefficients[:, neuron] ** 2).sum(axis=(1, 2))
    ends = [np.linalg.eigvalsh(variance[t, neuron, neuron])[::-1] / gram[t] for t in (step // 2, step)]
    return 0.5 * np.log(ends[1] / ends[0]) / np.log(step / (step // 2))


def _lowest_crossings(signs: Callable[[int], np.ndarray]) -> np.ndarray:
    """Lowest ratio from which each number stays negative for half an octave, interpolated in its logarithm.

    The lattice is climbed from below until every number has done so. One that does not is infinite; one that is
    negative from the lowest ratio on has that ratio; one that is never defined (growth at the first steps) is NaN.
    """
    last = round(float(np.log2(HIGHEST / LOWEST)) * PER_OCTAVE)
    history: list[np.ndarray] = []
    begins = np.zeros(0)
    for index in range(last + 1):
        history.append(signs(index))
        negative = np.stack([*history, *[np.full_like(history[0], -1.0)] * (RUN - 1) * (index == last)]) < 0.0
        runs = np.logical_and.reduce([negative[i : len(negative) - RUN + 1 + i] for i in range(RUN)])
        begins = np.where(runs.any(axis=0), runs.argmax(axis=0), last + 1) if len(runs) else begins
        if len(runs) and np.all((begins <= last) | np.isnan(history[-1])):
            break
    values = np.stack(history)
    after = np.minimum(begins, len(values) - 1).astype(int)[None]
    now = np.take_along_axis(values, after, axis=0)[0]
    before = np.take_along_axis(values, np.maximum(after - 1, 0), axis=0)[0]
    # A number that never crosses may be the same at all ratios.
    inside = (after[0] > 0) & np.isfinite(before) & (before != now)
    position = np.where(inside, after[0] - 1 + before / np.where(inside, before - now, 1.0), after[0])
    found = begins <= last
    crossing = np.where(found, LOWEST * 2.0 ** (np.where(found, position, 0.0) / PER_OCTAVE), np.inf)
    return np.where(np.isnan(values).all(axis=0), np.nan, crossing)


def _findings(problem: TwoLayer, grid: np.ndarray, criterion: Criterion, curves: np.ndarray, passes: int) -> Findings:
    middle = np.median(curves, axis=0)
    with np.errstate(invalid="ignore"):
        spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.full(middle.shape, np.nan)
    chosen = CRITERIA.index(criterion)
    final = curves[:, :, -1, 0]
    final = final[~np.isnan(final)]
    dataset = xr.Dataset(
        {
            "threshold": (("time", "hard"), middle[chosen]),
            "threshold_spread": (("time", "hard"), spread[chosen]),
            "all_criteria": (("criterion", "time", "hard"), middle),
            "all_criteria_spread": (("criterion", "time", "hard"), spread),
            "bracket": (("bound",), np.array([final.min(initial=np.inf), final.max(initial=-np.inf)])),
        },
        coords={"time": grid, "criterion": list(CRITERIA), "bound": ["low", "high"]},
    )
    for name in dataset.data_vars:
        dataset[name].attrs["undefined"] = "not crossed within the samples looked at"
    settled, moved = _settled(grid, middle[chosen, :, 0], spread[chosen, :, 0])
    low, high = dataset.bracket.values
    status = f"δ* = {middle[chosen, -1, 0]:.3g} at step {grid[-1]:g} ({criterion}); bracket {low:.3g} to {high:.3g}"
    if settled:
        status += f", settled within {moved:.0%} over the last half of the time."
    else:
        status += ", not settled: longer times move it, and only the bracket is an answer" + (
            "; where labels have no bound the slope of the square loss has none, and the edge of the Hessian follows "
            "its tail: a Huber loss settles."
            if problem.loss.name == "square"
            else "."
        )
    statistics = {"passes": float(passes), "settled": float(settled)}
    return Findings(dataset, settled, status, statistics)


def _settled(grid: np.ndarray, curve: np.ndarray, spread: np.ndarray) -> tuple[bool, float]:
    """Whether the last value is finite and differs by under 5% from the one at half the time, and by how much; a curve
    known to some percent only has not settled to less."""
    half = int(np.searchsorted(grid, 0.5 * grid[-1]))
    if not (np.isfinite(curve[-1]) and np.isfinite(curve[half])) or half == grid.size - 1:
        return False, np.inf
    known = np.nan_to_num(spread[[half, -1]] / curve[[half, -1]]).max()
    moved = max(abs(curve[-1] / curve[half] - 1.0), known)
    return bool(moved < SETTLED), float(moved)


def _no_hard_direction(problem: TwoLayer, grid: np.ndarray) -> Findings:
    dataset = xr.Dataset(
        {
            "threshold": (("time", "hard"), np.zeros((grid.size, 0))),
            "threshold_spread": (("time", "hard"), np.zeros((grid.size, 0))),
        },
        coords={"time": grid},
    )
    status = (
        "no hard direction: every latent direction of this target is learnt from any number of samples per dimension."
    )
    return Findings(dataset, True, status, {"settled": 1.0})
