"""Gradient flow on the Gaussian model of a two-layer network, from the start to interpolation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from limen.labelled import labelled
from limen.method import Method
from limen.problem import GradientFlow, InputError, TwoLayer
from limen.problem.decays import check_decay_until
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.flow.history import History
from limen.theory.flow.integrator import Outcome, adapt, follow, initial_time, refined
from limen.theory.flow.long_times.trapped import Plateau, find_plateau
from limen.theory.flow.model import GaussianModel, gaussian_model
from limen.theory.flow.model import refuses as model_refuses
from limen.theory.flow.observables import Observables, extrapolate, grid_error, observe

CITATIONS = ("montanari2025",)
# How the status of an answer begins.
OF_A_MODEL = "Gaussian model, a model of the network"
SMALLEST, LARGEST = 1e-5, 0.1
MOST_NODES = 1000
ATTEMPTS = 3
# The variable correlation(time, time2) is reported up to this many entries.
MOST_ENTRIES = 4e6


class Pair(NamedTuple):
    """A run on an adapted grid and one on the grid twice as fine, and what they say at the times asked for."""

    coarse: History
    fine: History
    outcome: Outcome
    values: Observables
    error: np.ndarray
    growth: float


def refuses(problem: object) -> str | None:
    """Why the Gaussian model of gradient flow does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientFlow):
        return f"it solves GradientFlow, not {type(problem.algorithm).__name__}."
    return model_refuses(problem)


def solve(problem: TwoLayer, times: Any, tolerance: float = 1e-3, groups: Sequence[int] | None = None) -> Findings:
    r"""Gradient flow $\frac d{dt}=-\frac nd\nabla\hat R$ with neurons on the sphere, as $n,d\to\infty$ at fixed $n/d$,
    with the decays that `GradientFlow` has.

    Residuals are replaced by Gaussian processes with the same second moments (see `GaussianModel`): quantitative while
    the network learns, qualitative when it fits noise. Returns, along `time`, `train_loss` $=\frac12C_A(t,t)$ and
    `test_loss` $=\frac12\Sigma_C(t,t)$ (noise included); `second_layer` (time, group); `overlap` (time, group, latent);
    `gram` (time, group, group2), the overlap of two *different* neurons (1 for a group of one neuron); `correlation`
    (time, time2), the overlap of a neuron with itself, averaged over neurons; and `grid_error` (time).

    The two-time equations are solved by BDF2 on a grid uniform in $\log(t+c)$, and again on the grid twice as fine.
    Reported is the extrapolation of the two; `grid_error` is the estimated error of the finer one, the largest over
    losses, $a/(1+|a|)$, overlaps and `gram`. After interpolation (train loss below $10^{-9}$) everything is constant.
    A state that no longer moves is looked at again with capped steps before it is called trapped.

    Args:
        tolerance: largest `grid_error`; grids are refined up to twice to reach it.
        groups: numbers of consecutive neurons to treat as groups; by default neurons that start alike form one.

    Cost: $N^3$ with $N$ nodes, and $N\propto\log t$: about 1 s for 200 nodes. Source: Montanari & Urbani 2025.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"the Gaussian model does not apply: {reason}")
    if not SMALLEST <= tolerance <= LARGEST:
        raise InputError(f"tolerance must be between {SMALLEST:g} and {LARGEST:g}, got {tolerance}.")
    grid = time_grid(times, counts_steps=False)
    check_decays(problem, float(grid[-1]))
    model = gaussian_model(problem, groups)
    pair = _refine(model, grid, tolerance)
    plateau = find_plateau(pair.coarse, 1.0 + pair.growth) if pair.outcome.reason == "end" else None
    ok, status = _verdict(model, pair, plateau, tolerance)
    statistics = {
        "nodes": float(pair.fine.count),
        "iterations": float(pair.outcome.iterations),
        "truncation": model.truncation,
        "end_time": float(pair.fine.time[pair.fine.count - 1]),
    }
    dataset = _dataset(model, pair, grid)
    return Findings(dataset, ok, f"{OF_A_MODEL}: {status}" if ok else status, statistics)


def check_decays(problem: TwoLayer, last: float) -> None:
    """Refuses a decay that is not defined up to the last time."""
    for name in ("weight_decay", "second_layer_decay"):
        check_decay_until(getattr(problem.algorithm, name), last, name)


def _refine(model: GaussianModel, grid: np.ndarray, tolerance: float) -> Pair:
    growth = min(5.0 * np.sqrt(tolerance), 0.1 * max(np.sqrt(tolerance / 1e-3), 1.0), 0.3)
    decades = np.log1p(float(grid[-1]) / initial_time(model))
    growth = max(growth, 2.0 * decades / MOST_NODES)
    pair = _solve_pair(model, grid, growth)
    for _ in range(ATTEMPTS - 1):
        worst = float(np.nanmax(pair.error))
        shrink = max(0.9 * np.sqrt(tolerance / worst), 0.4) if worst > tolerance else 1.0
        if shrink == 1.0 or pair.outcome.reason == "stuck" or pair.fine.count / shrink > MOST_NODES:
            break
        growth *= shrink
        pair = _solve_pair(model, grid, growth)
    return pair


def _solve_pair(model: GaussianModel, grid: np.ndarray, growth: float) -> Pair:
    start = initial_time(model)
    until = max(float(grid[-1]), 1e-3 * start)
    offset = min(start, until)
    coarse, first = adapt(model, until, 1.0 + growth)
    fine, second = follow(model, refined(coarse.time[: coarse.count], offset))
    outcome = first if second.reason == "end" else second
    counts = Outcome(outcome.reason, first.iterations + second.iterations, first.rejected + second.rejected)
    values = observe(coarse, grid, offset), observe(fine, grid, offset)
    found, error = extrapolate(*values), grid_error(*values)
    if outcome.reason == "stuck":
        unknown = grid > min(coarse.time[coarse.count - 1], fine.time[fine.count - 1])
        for name in ("train_loss", "test_loss", "second_layer", "overlap", "gram", "correlation"):
            getattr(found, name)[unknown] = np.nan
        found.correlation[:, unknown] = np.nan
        error[unknown] = np.nan
    return Pair(coarse, fine, counts, found, error, growth)


def _verdict(model: GaussianModel, pair: Pair, plateau: Plateau | None, tolerance: float) -> tuple[bool, str]:
    end = pair.fine.time[pair.fine.count - 1]
    error = float(np.nanmax(pair.error))
    if model.truncation > tolerance:
        return False, (
            f"the Hermite series of activation and target leave out {model.truncation:.1g} of their size: take "
            "smoother ones."
        )
    if pair.outcome.reason == "stuck":
        return False, f"the equations could not be solved beyond t = {end:.4g}: ask for earlier times."
    if error > tolerance:
        return (
            False,
            f"grid error {error:.1e} is above tolerance {tolerance:g}: ask for earlier times or more tolerance.",
        )
    if plateau is not None and not plateau.confirmed:
        return False, (
            f"the plateau at train loss {plateau.train_loss:.4g} from t = {plateau.since:.4g} on is left when steps "
            f"are capped at {plateau.step:.2g}: later times cannot be trusted."
        )
    if plateau is not None:
        # With more samples than parameters there is nothing to be trapped from.
        state = "trapped" if model.samples_per_parameter < 1.0 else "settled"
        return True, (
            f"{state} at train loss {plateau.train_loss:.4g} from t = {plateau.since:.4g} on, confirmed with steps of "
            f"at most {plateau.step:.2g}."
        )
    if pair.outcome.reason == "interpolation":
        return True, f"interpolates at t = {end:.4g} and is constant from there on; grid error {error:.1e}."
    return True, f"followed to the last time; grid error {error:.1e}."


def _dataset(model: GaussianModel, pair: Pair, grid: np.ndarray) -> xr.Dataset:
    values = pair.values
    variables: dict[str, Any] = {
        "train_loss": (("time",), values.train_loss),
        "test_loss": (("time",), values.test_loss),
        "second_layer": (("time", "group"), values.second_layer),
        "overlap": (("time", "group", "latent"), values.overlap),
        "gram": (("time", "group", "group2"), values.gram),
        "grid_error": (("time",), pair.error),
    }
    coords: dict[str, Any] = {"time": grid, "group_size": ("group", model.sizes.astype(int))}
    if grid.size**2 <= MOST_ENTRIES:
        variables["correlation"] = (("time", "time2"), values.correlation)
        coords["time2"] = grid
    return labelled(variables, coords=coords)


gaussian_model_flow = Method("gaussian-model", "theory", CITATIONS, refuses, solve, coarse={"tolerance": LARGEST})
