"""One labelled dataset over the grid of a sweep, from whatever of it is in the store."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from limen.experiments.experiment import Experiment
from limen.result import Result, merge
from limen.storage.file_store import FileStore
from limen.sweeps.sweep_record import Plan, Unit

RESULTS_AT_ONCE = 2000
LARGEST_VARIABLE_BYTES = 1e9
MISSING, NOT_OK, OK = -1, 0, 1
POINT = "point"


def assemble(plan: Plan, store: FileStore) -> xr.Dataset:
    """Simulation variables under their names along (grid, seed, ...), theory as `NAME_theory`, headline numbers as
    `headline_NAME`; `status` is 1 where a result is good, 0 where it says it is not, -1 where it is missing.

    What is missing is NaN. A dimension of length one is dropped; results of different lengths are filled up with NaN. A
    coordinate that depends on the point is the variable `NAME_at`. Text, variables whose dimensions change and those
    above 1 GB are left out, and the attribute `left_out` names them.
    """
    table = _Table(plan)
    for units, results in _by_points(plan, store):
        _add_point(table, units, results)
    return table.dataset()


def _by_points(plan: Plan, store: FileStore) -> Iterator[tuple[list[Unit], dict[str, Result]]]:
    per_point = 1 + len(plan.record.seeds)
    together = max(1, RESULTS_AT_ONCE // per_point) * per_point
    for begin in range(0, len(plan.units), together):
        part = plan.units[begin : begin + together]
        results = store.get([unit.key for unit in part])
        for first in range(0, len(part), per_point):
            yield list(part[first : first + per_point]), results


def _add_point(table: "_Table", units: list[Unit], results: dict[str, Result]) -> None:
    point = units[0].point
    theory = results.get(units[0].key)
    runs = [(number, results[unit.key]) for number, unit in enumerate(units[1:]) if unit.key in results]
    if theory is not None:
        table.flag("status_theory", (point,), theory.ok)
        table.add(theory.dataset, point, None, "_theory")
    for number, result in runs:
        table.flag("status", (point, number), result.ok)
        table.add(result.dataset, point, number, "")
    if theory is not None and (len(runs) == len(units) - 1):
        experiment = table.plan.record.experiment(**table.plan.points[point])
        table.add_headline(point, experiment, theory, merge([result for _, result in runs]) if runs else None)


class _Table:
    """Arrays along (point, [seed], own dimensions) that grow as results come."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.points, self.seeds = len(plan.points), len(plan.record.seeds)
        self.dims: dict[str, tuple[str, ...]] = {"status_theory": (POINT,)}
        self.arrays: dict[str, np.ndarray] = {"status_theory": np.full(self.points, MISSING, np.int8)}
        self.labels: dict[str, np.ndarray] = {}
        self.left_out: set[str] = set()
        self.names = {axis.name for axis in plan.record.grid.axes}
        if self.seeds:
            self.dims["status"] = (POINT, "seed")
            self.arrays["status"] = np.full((self.points, self.seeds), MISSING, np.int8)

    def flag(self, name: str, at: tuple[int, ...], ok: bool) -> None:
        self.arrays[name][at] = OK if ok else NOT_OK

    def add(self, dataset: xr.Dataset, point: int, seed: int | None, ending: str) -> None:
        for name, variable in dataset.variables.items():
            name = str(name)
            if name == "seed":
                continue
            values, dims = variable.values, tuple(str(dim) for dim in variable.dims)
            if name in dataset.coords:
                self._label(name, dims, values, point)
                continue
            if "seed" in dims:
                values = np.moveaxis(values, dims.index("seed"), 0)
                rest = tuple(dim for dim in dims if dim != "seed")
                # A paired theory has a row for each seed of the sweep.
                rows = slice(None) if seed is None else seed
                self._put(
                    f"{name}{ending}", (POINT, "seed", *rest), (point, rows), values if seed is None else values[0]
                )
            else:
                self._put(f"{name}{ending}", (POINT, *dims), (point,), values)

    def add_headline(self, point: int, experiment: Experiment, theory: Result, simulation: Result | None) -> None:
        try:
            numbers = experiment.headline(theory, simulation)
        except (ArithmeticError, LookupError, ValueError) as error:
            self.left_out.add(f"headline of some points ({type(error).__name__}: {error})")
            return
        for kind, ending in (("theory", "_theory"), ("simulation", "")):
            for name, value in numbers.get(kind, {}).items():
                self._put(f"headline_{name}{ending}", (POINT,), (point,), np.asarray(float(value)))

    def _label(self, name: str, dims: tuple[str, ...], values: np.ndarray, point: int) -> None:
        if values.dtype.kind in "iufb" and dims:
            self._put(f"{name}_at", (POINT, *dims), (point,), values)
        elif dims == (name,) and (name not in self.labels or np.array_equal(self.labels[name], values)):
            self.labels[name] = values
        else:
            self.left_out.add(name)

    def _put(self, name: str, dims: tuple[str, ...], at: tuple[Any, ...], values: np.ndarray) -> None:
        if name in self.left_out:
            return
        if values.dtype.kind not in "iufb" or self.dims.setdefault(name, dims) != dims:
            self._leave_out(name)
            return
        leading = tuple(self.points if dim == POINT else self.seeds for dim in dims if dim in (POINT, "seed"))
        own = values.shape[values.ndim - (len(dims) - len(leading)) :]
        array = self.arrays.get(name)
        before = array.shape[len(leading) :] if array is not None else tuple(0 for _ in own)
        if array is None or any(new > old for new, old in zip(own, before, strict=True)):
            shape = (*leading, *map(max, own, before))
            if 8.0 * np.prod(shape, dtype=float) > LARGEST_VARIABLE_BYTES:
                self._leave_out(name)
                return
            grown = np.full(shape, np.nan)
            if array is not None:
                grown[tuple(slice(size) for size in array.shape)] = array
            self.arrays[name] = array = grown
        array[(*at, *(slice(size) for size in own))] = values

    def _leave_out(self, name: str) -> None:
        self.left_out.add(name)
        self.arrays.pop(name, None)

    def dataset(self) -> xr.Dataset:
        grid = self.plan.record.grid
        over = (POINT,) if grid.zipped else tuple(axis.name for axis in grid.axes)
        variables: dict[str, Any] = {}
        coords: dict[str, Any] = {name: (name, values) for name, values in self.labels.items()}
        for name, array in self.arrays.items():
            dims = self.dims[name]
            axes = [i for i, dim in enumerate(dims) if dim in (POINT, "seed") or array.shape[i] != 1]
            array = array.reshape([array.shape[i] for i in axes])
            dims = tuple(self._own_name(dims[i]) for i in axes)
            own = name.removesuffix("_at")
            if name.endswith("_at") and len(dims) == 1:
                continue
            if name.endswith("_at") and _same_rows(array) and own not in coords:
                first = array[np.isfinite(array).reshape(len(array), -1).any(axis=1)][0]
                coords[self._own_name(own)] = (dims[1:], first)
            else:
                variables[name] = ((*over, *dims[1:]), array.reshape(*grid.shape, *array.shape[1:]))
        for axis in grid.axes:
            coords[axis.name] = (POINT if grid.zipped else axis.name, [_label_of(value) for value in axis.values])
        if self.seeds:
            coords["seed"] = ("seed", list(self.plan.record.seeds))
        used = {dim for dims, *_ in variables.values() for dim in dims}
        coords = {name: (dims, v) for name, (dims, v) in coords.items() if {dims} <= used or set(dims) <= used}
        record = self.plan.record
        attributes = {
            "experiment": record.reference,
            "sweep": record.identifier,
            "record": json.dumps(record.describe(), sort_keys=True),
            "left_out": ", ".join(sorted(self.left_out)),
        }
        return xr.Dataset(dict(sorted(variables.items())), coords, attributes)

    def _own_name(self, name: str) -> str:
        """A dimension of the results that has the name of a swept parameter takes another."""
        return f"{name}_own" if name in self.names else name


def _same_rows(array: np.ndarray) -> bool:
    """Whether all points that have a coordinate have the same."""
    rows = array[np.isfinite(array).reshape(len(array), -1).any(axis=1)]
    return len(rows) > 0 and bool(np.array_equal(rows, np.broadcast_to(rows[:1], rows.shape), equal_nan=True))


def _label_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else " ".join(f"{number:g}" for number in value)
    return value
