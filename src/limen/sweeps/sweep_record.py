"""A sweep as data: which experiment, what is fixed, which grid, which seeds; its identifier is their hash."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from limen.experiments.experiment import Experiment
from limen.problem.spec import InputError
from limen.storage.address import address, spec_of
from limen.sweeps.grid import Axis, Grid
from limen.sweeps.point_tasks import Task, resolve


@dataclass(frozen=True)
class Unit:
    """One result of a sweep: where it is kept, which point of the grid it belongs to, and which seeds."""

    key: str
    point: int
    kind: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """What a sweep asks for; `fixed` are parameters that differ from the defaults. No seeds: theory alone."""

    reference: str
    fixed: dict[str, Any]
    grid: Grid
    seeds: tuple[int, ...]

    @property
    def experiment(self) -> type[Experiment]:
        """The class of the experiment."""
        return resolve(self.reference)

    @property
    def identifier(self) -> str:
        """A short name, the same whenever the same is asked."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()[:10]

    def parameters(self) -> Iterator[dict[str, Any]]:
        """The parameters of each point, as plain JSON data."""
        return ({**self.fixed, **_listed(point)} for point in self.grid)

    def experiments(self) -> Iterator[Experiment]:
        """Each point, checked."""
        kind = self.experiment
        return (kind(**parameters) for parameters in self.parameters())

    def describe(self) -> dict[str, Any]:
        """Canonical plain data for JSON."""
        return {
            "experiment": self.reference,
            "fixed": self.fixed,
            "grid": self.grid.describe(),
            "seeds": list(self.seeds),
        }


def read_record(data: Mapping[str, Any]) -> Record:
    """The record behind plain data from `Record.describe`."""
    axes = tuple(Axis(name, tuple(_tupled(value) for value in values)) for name, values in data["grid"]["axes"])
    grid = Grid(axes, data["grid"]["zipped"])
    return Record(data["experiment"], dict(data["fixed"]), grid, tuple(data["seeds"]))


@dataclass(frozen=True)
class Plan:
    """Everything a sweep wants: its units, and per point the parameters and the structure (which shares compiled
    code)."""

    record: Record
    units: tuple[Unit, ...]
    points: tuple[dict[str, Any], ...]
    structures: tuple[str, ...]

    def task(self, units: list[Unit]) -> Task:
        """The task that computes these units: one, or theories of several points."""
        first = units[0]
        assert len(units) == 1 or (first.kind == "theory" and not first.seeds)
        points = tuple(self.points[unit.point] for unit in units)
        return Task(self.record.reference, first.kind, points, first.seeds)

    def size(self, point: int) -> float:
        """The size of a point; 0 where it is not a number."""
        kind = self.record.experiment
        size = self.points[point].get(kind.size_field, kind.model_fields[kind.size_field].default)
        size = size[0] if isinstance(size, (list, tuple)) and len(size) == 1 else size
        return float(size) if isinstance(size, (int, float)) else 0.0


def make_plan(record: Record) -> Plan:
    """Checks every point and gives each result its address: the same that a single run of the point has."""
    units: list[Unit] = []
    points: list[dict[str, Any]] = []
    structures: list[str] = []
    name = record.reference
    for number, (parameters, experiment) in enumerate(zip(record.parameters(), record.experiments(), strict=True)):
        spec = spec_of(experiment)
        paired = record.seeds if experiment.paired else ()
        units.append(Unit(address(spec, "theory", paired), number, "theory", paired))
        units += [Unit(address(spec, "simulation", (seed,)), number, "simulation", (seed,)) for seed in record.seeds]
        points.append(parameters)
        structures.append(f"{name} {json.dumps(experiment.structure(), sort_keys=True, default=str)}")
    if len({unit.key for unit in units}) < len(units):
        raise InputError("two points of the grid are the same experiment.")
    return Plan(record, tuple(units), tuple(points), tuple(structures))


def _listed(point: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in point.items()}


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
