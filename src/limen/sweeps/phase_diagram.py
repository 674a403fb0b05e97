"""The picture of a sweep: a map over two numeric parameters, lines over one; theory and thresholds drawn in."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, Scale, Threshold, mean_and_error, witnesses
from limen.problem.spec import InputError

# With fewer values than this, a second parameter is told by colour instead of by a second axis.
FEWEST_FOR_A_MAP = 4
MOST_PANELS = 6
MOST_COLOURS = 7


def quantities(experiment: type[Experiment], dataset: xr.Dataset, over: Sequence[str]) -> list[str]:
    """What can be drawn: numbers per point (and seed); those the experiment compares first, then its headline."""
    plain = {*over, "seed", "point"}
    names = [str(name) for name in dataset.data_vars]
    numbers = [name for name in names if set(dataset[name].dims) <= plain and not name.startswith("status")]
    bases = list(dict.fromkeys(name.removesuffix("_theory") for name in numbers))
    compared = [name for name in experiment.compared or () if name in bases]
    others = [name for name in bases if name not in compared and not name.startswith("headline_")]
    # A number that theory and simulation both have says more than one that only one of them has.
    both = [name for name in [*compared, *others, *bases] if name in numbers and f"{name}_theory" in numbers]
    return list(dict.fromkeys([*both, *compared, *bases]))


def phase_diagram(
    experiment: type[Experiment],
    dataset: xr.Dataset,
    over: Sequence[str],
    thresholds: Mapping[str, Mapping[str, float]] | None = None,
    quantity: str | None = None,
    averaged: int = 1,
) -> Figure:
    """The figure of a sweep's dataset; `thresholds` by parameter, `quantity` one of `quantities`.

    A quantity without seeds, such as a headline, is one over `averaged` runs.
    """
    allowed = quantities(experiment, dataset, over)
    if not allowed:
        raise InputError("there is nothing to draw: no result is a number per point.")
    name = quantity or allowed[0]
    if name not in allowed:
        raise InputError(f"the quantity must be one of {', '.join(allowed)}, got {name!r}.")
    zipped = "point" in dataset.dims
    axes = ["point"] if zipped else [axis for axis in over if dataset.sizes[axis] > 1] or list(over[:1])
    numeric = [axis for axis in axes if zipped or dataset[axis].dtype.kind in "iuf"] or axes[:1]
    second = numeric[1] if len(numeric) > 1 and dataset.sizes[numeric[1]] >= FEWEST_FOR_A_MAP else None
    fixed = [axis for axis in axes if axis not in (numeric[0], second)]
    cells = list(itertools.product(*(range(dataset.sizes[axis]) for axis in fixed)))
    lines = _Lines(experiment, dataset, over, name, thresholds or {})
    if second is None:
        panels = [lines.panel(numeric[0], fixed, cells[:MOST_COLOURS])]
    else:
        panels = [lines.map_panel(numeric[0], second, fixed, cell) for cell in cells[:MOST_PANELS]]
    seeds = dataset[name].sizes.get("seed", averaged) if name in dataset else None
    key = [witnesses(panels, seeds)]
    if second is not None:
        runs = (
            "theory"
            if seeds is None
            else f"simulation, mean over {seeds} seeds"
            if seeds > 1
            else "simulation, one seed"
        )
        key.insert(0, f"Colours: {runs}.")
    return Figure(panels, title=f"{experiment.name}: {_words(name)}", key=" ".join(filter(None, key)))


class _Lines:
    """One quantity of a sweep, drawn over its parameters."""

    def __init__(
        self,
        experiment: type[Experiment],
        dataset: xr.Dataset,
        over: Sequence[str],
        name: str,
        thresholds: Mapping[str, Mapping[str, float]],
    ) -> None:
        self.experiment, self.dataset, self.over, self.name = experiment, dataset, over, name
        self.thresholds = thresholds

    def panel(self, axis: str, fixed: list[str], cells: list[tuple[int, ...]]) -> Panel:
        """Theory as lines, simulation as points with error bars, a colour for each value of the other parameters."""
        parameter = self._parameter(axis)
        x, marks = self._values(parameter), list[Mark]()
        for colour, cell in enumerate(cells):
            at, label = self._at(fixed, cell)
            theory, runs = self._theory(at, (axis,)), self._runs(at, (axis,))
            if theory is not None:
                order = np.argsort(x, kind="stable")
                marks.append(Line(x[order], theory[order], label or "theory", colour))
            if runs is not None:
                mean, error = _mean_over_runs(runs)
                # The runs behind a headline are gone, and one run has no spread.
                marks.append(
                    Points(
                        x,
                        mean,
                        error if len(runs) > 1 else None,
                        "" if theory is not None and label else "simulation",
                        colour,
                    )
                )
        marks += self._marks(parameter, x, "x")
        low_high = _wide(x, [mark.x for mark in marks if isinstance(mark, Threshold) and mark.x is not None])
        return Panel(self._axis_label(parameter), _words(self.name), marks, x_scale=_scale(x), x_range=low_high)

    def map_panel(self, across: str, up: str, fixed: list[str], cell: tuple[int, ...]) -> Panel:
        """The simulated mean (or theory, where that is all there is) as colours; where theory and simulation pass
        their middle value, a line and points."""
        at, label = self._at(fixed, cell)
        x, y = self._values(across), self._values(up)
        theory, runs = self._theory(at, (up, across)), self._runs(at, (up, across))
        values = np.asarray(theory) if runs is None else _mean_over_runs(runs)[0]
        marks: list[Mark] = [Map(x, y, values, _words(self.name))]
        if theory is not None and np.isfinite(theory).any():
            level = _level(theory)
            for i, (a, b) in enumerate(level_lines(x, y, theory, level)):
                marks.append(Line(a, b, f"theory = {level:.3g}" if i == 0 else "", colour=1))
            if runs is not None:
                for a, b in level_lines(x, y, values, level):
                    marks.append(Points(a, b, label=f"simulation = {level:.3g}", colour=1))
        marks += self._marks(across, x, "x") + self._marks(up, y, "y")
        far = [mark.x for mark in marks if isinstance(mark, Threshold) and mark.x is not None]
        x_range = _wide(x, far) if far else None
        return Panel(
            self._axis_label(across), self._axis_label(up), marks, title=label, x_scale=_scale(x), y_scale=_scale(y),
            x_range=x_range,
        )  # fmt: skip

    def _parameter(self, axis: str) -> str:
        """Of a zipped grid, the first parameter that is a number."""
        if axis != "point":
            return axis
        return next((name for name in self.over if self.dataset[name].dtype.kind in "iuf"), self.over[0])

    def _values(self, parameter: str) -> np.ndarray:
        values = self.dataset[parameter].values
        return values.astype(float) if values.dtype.kind in "iuf" else np.arange(float(values.size))

    def _at(self, fixed: list[str], cell: tuple[int, ...]) -> tuple[dict[str, int], str]:
        at = dict(zip(fixed, cell, strict=True))
        shown = (f"{name} = {_shown(self.dataset[name].values[i])}" for name, i in at.items())
        return at, ", ".join(shown)

    def _theory(self, at: dict[str, int], order: tuple[str, ...]) -> np.ndarray | None:
        name = f"{self.name}_theory"
        if name not in self.dataset:
            return None
        chosen = self._rest(self.dataset[name].isel(at), order)
        return (chosen.mean("seed") if "seed" in chosen.dims else chosen).transpose(*order, ...).values

    def _runs(self, at: dict[str, int], order: tuple[str, ...]) -> np.ndarray | None:
        if self.name not in self.dataset:
            return None
        chosen = self._rest(self.dataset[self.name].isel(at), order)
        chosen = chosen if "seed" in chosen.dims else chosen.expand_dims("seed")
        return chosen.transpose("seed", *order, ...).values

    def _rest(self, chosen: xr.DataArray, drawn: tuple[str, ...]) -> xr.DataArray:
        """Without the axes that have one value only, but for those that are drawn."""
        alone = [dim for dim in chosen.dims if chosen.sizes[dim] == 1 and dim not in ("seed", *drawn)]
        return chosen.isel(dict.fromkeys(alone, 0))

    def _marks(self, parameter: str, values: np.ndarray, where: str) -> list[Mark]:
        span = np.ptp(values) or 1.0
        near = {
            symbol: value
            for symbol, value in self.thresholds.get(parameter, {}).items()
            if values.min() - 0.5 * span <= value <= values.max() + 0.5 * span
        }
        return [Threshold(symbol, **{where: value}) for symbol, value in near.items()]

    def _axis_label(self, parameter: str) -> str:
        field = self.experiment.model_fields.get(parameter)
        # A parameter of a problem is called by its path.
        label = (None if field is None else field.description) or parameter.replace("_", " ")
        values = self.dataset[parameter].values
        if values.dtype.kind in "iuf":
            return label
        return f"{label}\n" + ", ".join(f"{i}: {value}" for i, value in enumerate(values.tolist()))


def level_lines(x: np.ndarray, y: np.ndarray, values: np.ndarray, level: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Where `values[i, j]` at `y[i]`, `x[j]` first crosses `level`: along each row, or else along each column."""
    by_rows = [
        (crossing, b) for row, b in zip(values, y, strict=True) if (crossing := _crossing(x, row, level)) is not None
    ]
    by_columns = [
        (a, crossing)
        for column, a in zip(values.T, x, strict=True)
        if (crossing := _crossing(y, column, level)) is not None
    ]
    line = by_rows if len(by_rows) >= 2 or len(by_rows) >= len(by_columns) else by_columns
    return [tuple(np.array(line).T)] if line else []


def _crossing(x: np.ndarray, values: np.ndarray, level: float) -> float | None:
    above = values >= level
    steps = np.flatnonzero((above[1:] != above[:-1]) & np.isfinite(values[1:]) & np.isfinite(values[:-1]))
    if steps.size == 0:
        return None
    i = int(steps[0])
    return float(x[i] + (x[i + 1] - x[i]) * (level - values[i]) / (values[i + 1] - values[i]))


def _mean_over_runs(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the runs that are there; all NaN where there is none."""
    if np.isfinite(runs).all():
        return mean_and_error(runs)
    there = np.isfinite(runs)
    count = there.sum(axis=0)
    sums = np.where(there, runs, 0.0).sum(axis=0)
    mean = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    squares = np.where(there, (runs - np.where(count > 0, mean, 0.0)) ** 2, 0.0).sum(axis=0)
    error = np.sqrt(np.divide(squares, count * (count - 1.0), out=np.zeros(count.shape), where=count > 1))
    return mean, error


def _level(values: np.ndarray) -> float:
    """One half for what lies between 0 and 1 and passes it, else the middle of the range."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return 0.5 if 0.0 <= low < 0.5 < high <= 1.0 else 0.5 * (low + high)


def _scale(values: np.ndarray) -> Scale:
    """Logarithmic where the values are evenly spaced in the logarithm over some range."""
    if values.size < 3 or values.min() <= 0.0 or values.max() < 4.0 * values.min():
        return "linear"
    steps, ratios = np.diff(np.sort(values)), np.diff(np.log(np.sort(values)))
    return "log" if np.ptp(ratios) / ratios.mean() < np.ptp(steps) / steps.mean() else "linear"


def _wide(values: np.ndarray, others: Sequence[float]) -> tuple[float, float] | None:
    """A range that holds the values and the thresholds; None leaves it to the drawing."""
    if not others or _scale(values) == "log":
        return None
    low, high = min(float(values.min()), *others), max(float(values.max()), *others)
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _words(name: str) -> str:
    return name.removeprefix("headline_").replace("_", " ")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value)
