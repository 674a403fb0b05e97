r"""Gradient flow of wide networks without the Gaussian model: small steps of descent with neurons equal in law.

What the Gaussian model cannot have (losses other than the square, kinked activations, biases, other lengths) is solved
as in `small_steps`, by descent with the step $\eta=\delta T/N$ in $N,2N,4N$ steps, but with the theory of
`equal_neurons`, whose cost does not grow with the width.
"""

import contextlib
from typing import Any

import numpy as np
import xarray as xr

from limen.labelled import labelled
from limen.method import Findings, Method
from limen.problem import GradientDescent, GradientFlow, InputError, TwoLayer
from limen.problem.groups import neuron_groups
from limen.problem.times import time_grid
from limen.theory.cubic_spline import spline_values
from limen.theory.descent import equal_neurons
from limen.theory.descent.path_error import OF_A_MEDIAN
from limen.theory.flow import solve as gaussian
from limen.theory.flow.exact.small_steps import followed_until, of_the_model

CITATIONS = ("montanari2026", "celentano2021", "montanari2025")
FEWEST_STEPS, MOST_STEPS = 16, 400
SETS = 5


def refuses(problem: object) -> str | None:
    """Why small steps of equal neurons do not give the flow, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientFlow):
        return f"it solves GradientFlow, not {type(problem.algorithm).__name__}."
    if isinstance(problem.algorithm.weight_decay, tuple):
        return "a decay matrix makes every neuron different: they are followed one by one (small-steps, up to 8)."
    found = equal_neurons.groups_of(problem)
    return found if isinstance(found, str) else problem.inputs.unlike_isotropic()


def solve(problem: TwoLayer, times: Any, tolerance: float = 0.03) -> Findings:
    r"""Gradient flow $\frac d{dt}=-\frac nd\nabla\hat R$, on the sphere or free, as $n,d\to\infty$ at fixed $n/d$.

    For any loss, activation, bias, width and decays that are the same for all neurons; neurons in up to four
    groups of equal second layer, bias and start. Variables as of `small-steps`, each with its
    `*_spread`: the sets' own error and the change at the last extrapolation.

    Args:
        tolerance: largest error, in parts of a variable's size; beyond it, and where steps are too many, the answer is
            that of the Gaussian model, and the status says so; where that does not apply, `ok` is False.

    Cost: that of `equal-neurons` for $N,2N,4N$ steps, $N=2\alpha T$ or 16, whatever the width: seconds.
    Sources: Montanari & Wang 2026; Montanari & Urbani 2025 for the setting.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"small steps of equal neurons do not apply: {reason}")
    assert isinstance(problem.algorithm, GradientFlow) and problem.samples_per_dim is not None
    grid, width = time_grid(times, counts_steps=False), problem.network.width
    last = followed_until(grid)
    gaussian.check_decays(problem, last)
    steps = max(FEWEST_STEPS, int(np.ceil(2.0 * problem.samples_per_dim * last / width)))
    if 4 * steps > MOST_STEPS:
        why = f"the exact theory would take {4 * steps} steps to t = {last:g}, at most {MOST_STEPS}"
        return of_the_model(problem, grid, why)
    runs = [_run(problem, grid, steps << level) for level in range(3)]
    broken = next((run for run in runs if not run.ok), None)
    variables, worst = _extrapolated([run.dataset for run in runs])
    if problem.algorithm.spherical:
        variables = {name: value for name, value in variables.items() if not name.startswith("own_gram")}
    groups = neuron_groups(problem)
    coords = {"time": grid, "group_size": ("group", groups.sizes.astype(int))}
    dataset = labelled(variables, coords=coords)
    status = f"descent of equal neurons in up to {4 * steps} steps, extrapolated; error {worst:.1e}."
    statistics = {"steps": 4.0 * steps, "error": worst}
    if not (broken is None and worst <= tolerance) and gaussian.refuses(problem) is None:
        # Where the model cannot start from here the exact theory says what it has.
        with contextlib.suppress(InputError):
            return of_the_model(problem, grid, f"the exact theory has an error of {worst:.1e} there")
    if broken is not None:
        return Findings(dataset, False, broken.status, statistics)
    if not worst <= tolerance:
        return Findings(dataset, False, f"{status[:-1]}, above the tolerance {tolerance:g}: ask for earlier times.")
    return Findings(dataset, True, status, statistics)


def _run(problem: TwoLayer, grid: np.ndarray, steps: int) -> Findings:
    """Descent in so many steps, read off at the times asked for, by groups of neurons that start alike."""
    assert isinstance(problem.algorithm, GradientFlow) and problem.samples_per_dim is not None
    last = followed_until(grid)
    rule = GradientDescent(problem.samples_per_dim * last / steps, spherical=problem.algorithm.spherical)
    regularization = problem.algorithm.regularization(1)

    def decays(step: int) -> tuple[float, float]:
        assert regularization is not None
        time = step * last / steps
        return float(regularization.matrix(time)[0, 0]), regularization.second_layer(time)

    plain = problem.model_copy(update={"algorithm": rule})
    found = equal_neurons.solve_decaying(plain, steps, None, SETS, 0, decays if regularization else None)
    own = np.linspace(0.0, last, steps + 1)
    _, first = np.unique(neuron_groups(problem).label, return_index=True)
    inner = equal_neurons.groups_of(problem)
    assert isinstance(inner, equal_neurons.Groups)
    which = np.repeat(np.arange(len(inner.counts)), inner.counts)[first]
    parts: dict[str, Any] = {}
    for ending in ("", "_spread"):
        values = {name: found.dataset[f"{name}{ending}"].values for name in ("train_loss", "test_loss")}
        values["second_layer"] = found.dataset[f"second_layer{ending}"].values[:, first]
        values["overlap"] = found.dataset[f"overlap{ending}"].values[:, first]
        values["gram"] = found.dataset[f"shared_gram{ending}"].values[:, which[:, None], which]
        values["own_gram"] = found.dataset[f"own_gram{ending}"].values[:, which]
        single = np.flatnonzero(np.array(inner.counts)[which] == 1)
        values["gram"][:, single, single] = values["own_gram"][:, single]
        part = OF_A_MEDIAN / SETS**0.5 if ending else 1.0
        parts |= {f"{name}{ending}": part * _read(own, value, grid) for name, value in values.items()}
    dataset = labelled({name: (_dims(name), value) for name, value in parts.items()})
    return Findings(dataset, found.ok, found.status)


def _read(own: np.ndarray, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        return np.full((grid.size, *values.shape[1:]), np.nan)
    return spline_values(own, values, grid)


def _dims(name: str) -> tuple[str, ...]:
    kinds = {"second_layer": ("group",), "overlap": ("group", "latent"), "gram": ("group", "group2")}
    return ("time", *(kinds | {"own_gram": ("group",)}).get(name.removesuffix("_spread"), ()))


def _extrapolated(runs: list[xr.Dataset]) -> tuple[dict[str, Any], float]:
    """Values at step zero, with their errors, and the largest error in parts of a variable's size."""
    variables, worst = {}, 0.0
    for name in (name for name in map(str, runs[0]) if not name.endswith("_spread")):
        coarse, middle, fine = (run[name].values for run in runs)
        best, before = 2.0 * fine - middle, 2.0 * middle - coarse
        spread = np.hypot(2.0 * runs[2][f"{name}_spread"].values, runs[1][f"{name}_spread"].values)
        error = np.hypot(np.abs(best - before) / 3.0, spread)
        variables[name], variables[f"{name}_spread"] = (_dims(name), best), (_dims(name), error)
        size = max(float(np.abs(best).max(initial=0.0)), 1e-3)
        worst = max(worst, float(error.max(initial=0.0)) / size) if np.isfinite(size) else np.inf
    return variables, worst


equal_small_steps = Method("equal-small-steps", "theory", CITATIONS, refuses, solve)
