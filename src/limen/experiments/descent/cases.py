"""The same training in several versions: theory and runs side by side along one more dimension."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from limen.experiments.figure import Line, Mark, Points, mean_and_error, thin
from limen.problem import GradientDescent, TwoLayer
from limen.result import Findings, Result
from limen.simulation.descent import gradient_descent
from limen.theory.descent import entrywise
from limen.theory.descent import solve as descent

LOSSES = ("train_loss", "test_loss")
PATHS, SCRAMBLES = 8192, 5


def predicted(problems: Sequence[TwoLayer], times: Sequence[np.ndarray], case: xr.Variable) -> Findings:
    """Losses of each problem at its own times, all of one length, along the dimension `case`."""
    found = []
    for problem, grid in zip(problems, times, strict=True):
        theory = descent if isinstance(problem.algorithm, GradientDescent) else entrywise
        found.append(theory.solve(problem, grid, paths=PATHS, scrambles=SCRAMBLES))
    return _together(found, [*LOSSES, *(f"{name}_spread" for name in LOSSES)], case)


def trained(
    problems: Sequence[TwoLayer], times: Sequence[np.ndarray], case: xr.Variable, d: int, seed: int
) -> Findings:
    """Losses of one training of each problem at its own times, along the dimension `case`."""
    found = [
        gradient_descent.solve(problem, grid, d=d, seed=seed) for problem, grid in zip(problems, times, strict=True)
    ]
    return _together(found, LOSSES, case)


def _together(found: list[Findings], names: Sequence[str], case: xr.Variable) -> Findings:
    parts = []
    for one in found:
        part = one.dataset[list(names)].drop_vars(["step", "epoch", "samples"], errors="ignore")
        parts.append(part.assign_coords(time=np.arange(part.sizes["time"])).rename(time="moment"))
    dataset = xr.concat(parts, dim=case, combine_attrs="drop", coords="minimal", compat="override")
    order = [dim for dim in ("seed", str(case.dims[0]), "moment") if dim in dataset.dims]
    worst = next((one for one in found if not one.ok), found[0])
    return Findings(dataset.transpose(*order), all(one.ok for one in found), worst.status)


def marks(
    theory: Result, simulation: Result | None, name: str, case: int, x: np.ndarray, label: str, colour: int
) -> list[Mark]:
    """Theory's line of one case and the points of its runs."""
    made: list[Mark] = [Line(x, theory.dataset[name].values[case], label, colour)]
    if simulation is not None:
        mean, error = mean_and_error(simulation.dataset[name].values[:, case])
        some = thin(len(x), 12)
        made.append(Points(x[some], mean[some], error[some], "", colour))
    return made


def means(dataset: xr.Dataset) -> xr.Dataset:
    """The mean over seeds, where there are any."""
    return dataset.mean("seed") if "seed" in dataset.dims else dataset
