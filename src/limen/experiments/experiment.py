"""What every experiment of the gallery offers."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, final

import numpy as np
import xarray as xr

from limen.comparison import Comparison, compare
from limen.experiments.curve import Curve
from limen.experiments.default_panels import default_figure
from limen.experiments.figure import Figure, witnesses
from limen.experiments.number import Number
from limen.method import answered
from limen.problem import InputError, Spec
from limen.result import Findings, Kind, Result


class Experiment(Spec):
    """A phenomenon of the field, with parameters to play with.

    Every parameter is a field with default, bounds and one line; the size is one of them (`size_field`). Final classes
    give `predict(seeds)`, `train(seed)` and `numbers(dataset)`; `compared` narrows `compare`. The figure shows
    `panels`, or what a `picture` of their own says. For sweeps a class may also give `theory_batch(points)`,
    `structure()` and `thresholds(parameter, theory)`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]
    citations: ClassVar[tuple[str, ...]] = ()
    size_field: ClassVar[str] = "d"
    default_seeds: ClassVar[int] = 8
    # Whether the theory starts from the simulation's own starts, seed by seed.
    paired: ClassVar[bool] = False
    # Variables held against each other; None means every variable that theory and simulation share.
    compared: ClassVar[tuple[str, ...] | None] = None
    # The panels of the figure; none means one for each variable that is compared.
    panels: ClassVar[tuple[Curve, ...]] = ()
    # Parameters with which theory and two seeds finish in about two seconds.
    quick: ClassVar[dict[str, Any]] = {}
    # Seeds with which the quick parameters decide: `benchmarks/calibration.py --needed` computes them from a pilot.
    quick_seeds: ClassVar[int] = 8
    # Grid, sizes and seeds of a phase diagram worth showing, as `limen.sweep` takes them.
    diagram: ClassVar[dict[str, Any]] = {}
    # Other names under which parameters may be put on a grid: their symbols.
    aliases: ClassVar[dict[str, str]] = {"delta": "samples_per_dim"}

    @classmethod
    def field_called(cls, name: str, known: Collection[str] | None = None) -> str:
        """The parameter meant by a name: its own, its symbol (`aliases`), `size`, `step` for `rate` or the reverse.

        `known` are the parameters there are, by default the fields.
        """
        known = cls.model_fields if known is None else known
        if name in known:
            return name
        other = {"step": "rate", "rate": "step"}.get(name, name)
        if other in known:
            return other
        return cls.size_field if name in ("size", "d") else cls.aliases.get(name, name)

    @abstractmethod
    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        """The prediction; a `paired` one has a row per seed (default: `default_seeds` of them), others take none."""

    @abstractmethod
    def train(self, seed: int) -> Findings:
        """One finite-size run."""

    def first_look(self) -> tuple[Self, Findings] | None:
        """What `predict` says in a fraction of its time, and the experiment that draws it; None where it is quick.

        From fewer paths, runs or cases, a larger tolerance, an earlier end.
        """
        return None

    @final
    def theory(self, seeds: tuple[int, ...] = ()) -> Result:
        """The prediction as a result."""
        own = (seeds or tuple(range(self.default_seeds))) if self.paired else ()
        return self._answered("theory", lambda: self.predict(seeds), own)

    @final
    def preliminary(self) -> tuple[Self, Result] | None:
        """The first look as a result that calls itself preliminary; it is shown while the theory is computed."""
        try:
            looked = self.first_look()
        except InputError:
            # What is coarser may be out of bounds; the theory itself says what is wrong, if anything.
            return None
        if looked is None:
            return None
        drawn, found = looked
        said = replace(found, status=f"preliminary ({found.status.rstrip('.')}); the theory itself follows.")
        return drawn, drawn._answered("theory", lambda: said, ())

    @final
    def coarser(self, **fields: Any) -> tuple[Self, Findings] | None:
        """A first look with other values of some fields; None where they are its own already."""
        other = self.model_copy(update=fields)
        return None if other == self else (other, other.predict())

    @final
    def simulate(self, seed: int) -> Result:
        """One finite-size run as a result."""
        return self._answered("simulation", lambda: self.train(seed), (seed,))

    def _answered(self, kind: Kind, find: Callable[[], Findings], seeds: tuple[int, ...]) -> Result:
        try:
            return answered(find, self.describe(), kind, self.name, self.citations, seeds)
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            raise InputError(
                f"{self.name} leaves the numbers a computer can tell apart at {self._farthest()} ({error})."
            ) from error

    def _farthest(self) -> str:
        """The field whose value is the most orders of magnitude away from its default, with both."""
        away = {
            name: abs(np.log(abs(value) / abs(field.default)))
            for name, field in type(self).model_fields.items()
            if isinstance(value := getattr(self, name), (int, float)) and value and field.default
        }
        name = max(away, key=lambda one: away[one])
        return f"{name} = {getattr(self, name):g} (default {type(self).model_fields[name].default:g})"

    @final
    def figure(self, theory: Result, simulation: Result | None = None) -> Figure:
        """The picture, as data, with a key that says which marks are theory and which simulation."""
        picture = self.picture(theory, simulation)
        seeds = None if simulation is None else len(simulation.seeds)
        return replace(picture, key=picture.key or witnesses(picture.panels, seeds))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        """The panels under their title: by default `panels`, or the variables that are compared."""
        if not self.panels:
            results = [theory] if simulation is None else [theory, simulation]
            curves = [name for name in self.compared or () if set(theory.dataset[name].dims) - {"seed"}]
            return replace(default_figure(results, variables=curves or None), title=self.title())
        datasets = theory.dataset, None if simulation is None else simulation.dataset
        return Figure([curve.panel(*datasets) for curve in self.panels], self.title())

    def title(self) -> str:
        """The title of the figure: by default the name and the size."""
        return f"{self.name}, {self.size_field} = {getattr(self, self.size_field)}"

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """The few numbers that matter, by symbol, each with words and unit; asked of both witnesses alike."""
        return {}

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """The numbers of both witnesses: `{"theory": {...}, "simulation": {...}}`."""
        witnesses = {"theory": theory} | ({"simulation": simulation} if simulation is not None else {})
        return {name: dict(self.numbers(result.dataset)) for name, result in witnesses.items()}

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The comparison this experiment stands by."""
        return compare(theory, simulation, variables=self.compared)

    @classmethod
    def theory_batch(cls, points: Sequence[Self]) -> list[Result]:
        """Predictions of several points of equal structure, none of them paired, faster together than one by one.

        The prediction of a point must not depend on which others are computed with it.
        """
        return [point.theory() for point in points]

    @classmethod
    def batches_theory(cls) -> bool:
        """Whether the class gives a `theory_batch` of its own."""
        return cls.theory_batch.__func__ is not Experiment.theory_batch.__func__

    def structure(self) -> tuple[Any, ...]:
        """What decides how code is compiled: points of equal structure share it.

        By default the size, all else that is not a real number, and the lengths of lists.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        size = values.pop(self.size_field)
        rest = (value for value in values.values() if not isinstance(value, float))
        return (size, *(len(value) if isinstance(value, tuple) else value for value in rest))

    def nested_parameters(self) -> dict[str, Any]:
        """Parameters inside parameters that may be put on a grid: by path, with their annotations."""
        return {}

    def thresholds(self, parameter: str, theory: Result) -> dict[str, float]:
        """Values of a parameter at which something changes, by symbol: lines in the phase diagram of a sweep."""
        return {}
