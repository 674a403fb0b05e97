"""A problem of the user's own as an experiment: predicted, trained, compared, swept, drawn, stored as any other."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from limen.experiments.default_panels import default_figure
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure
from limen.experiments.number import Number, over_seeds
from limen.method import Method, choose
from limen.problem.algorithms import GradientFlow
from limen.problem.changes import changed, parameters
from limen.problem.spec import InputError, Spec, from_description, nested_tuple
from limen.problem.starts import RandomStart
from limen.result import Findings, Result
from limen.theory.registry import THEORIES
from limen.verbs import predict, simulate

Options = tuple[tuple[str, Any], ...]
LAST, MOST_NUMBERS = "at the end", 8
# The part of the time that a first look at an exact flow covers.
BEGINNING = 0.25


def _as_problem(value: Any) -> Any:
    return from_description(dict(value)) if isinstance(value, Mapping) else value


def _as_options(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


Problem = Annotated[Spec, BeforeValidator(_as_problem), PlainSerializer(lambda problem: problem.describe())]
Given = Annotated[Options, BeforeValidator(_as_options)]


class OwnProblem(Experiment):
    """A learning problem of your own: what the first theory that applies says of it, and what training does.

    Parameters of the problem are set by their paths as well: `OwnProblem(problem=..., **{"algorithm.step": 0.1})`.
    """

    name: ClassVar[str] = "problem"
    source: ClassVar[str] = "your own problem"
    summary: ClassVar[str] = "A problem of your own: theory, training, and how well they agree."

    problem: Problem = Field(description="the problem")
    times: Annotated[float | tuple[float, ...], BeforeValidator(nested_tuple)] = Field(
        20.0, description="last time, or the times, in the algorithm's own unit"
    )
    d: int | None = Field(None, gt=0, le=10_000_000, description="dimension of the simulation; 400 by default")
    theory_name: str | None = Field(None, description="the theory; by default the first that applies")
    simulator_name: str | None = Field(None, description="the simulator; by default the first that applies")
    theory_options: Given = Field((), description="options of the theory")
    simulator_options: Given = Field((), description="options of the simulator")
    at_size: bool | None = Field(
        None, description="theory at the simulation's own size and starts, seed by seed; by default where it must be"
    )
    quantities: tuple[str, ...] = Field((), description="variables whose last value is a number of the run")

    @model_validator(mode="before")
    @classmethod
    def _by_path(cls, values: Any) -> Any:
        """Parameters of the problem that are given by their paths."""
        if not isinstance(values, dict):
            return values
        own = {name: value for name, value in values.items() if name in cls.model_fields}
        inner = {name: value for name, value in values.items() if name not in cls.model_fields}
        problem = _as_problem(own.get("problem"))
        if inner and isinstance(problem, Spec):
            own["problem"] = changed(problem, inner)
            return own
        return values

    @model_validator(mode="after")
    def _check(self) -> "OwnProblem":
        if isinstance(self.problem, Experiment):
            raise InputError(f"problem must be a problem, got the experiment {self.problem.name!r}.")
        if self.d is not None and self._fixed_size() is not None:
            raise InputError(f"d must be left out: {type(self.problem).__name__} has its own ({self._fixed_size()}).")
        return self

    def _fixed_size(self) -> int | None:
        return getattr(self.problem, "d", None)

    @property
    def size(self) -> int:
        """The dimension of the simulation."""
        return self._fixed_size() or self.d or 400

    def _theory(self) -> Method:
        methods = THEORIES.named(self.theory_name, self.problem)
        return choose(methods, self.problem, self.theory_name, "theory")

    @property
    def paired(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the theory starts from the simulation's own starts: where it leaves a saddle, or is asked to."""
        if self.at_size is False:
            return False
        able = {"d", "seeds"} <= set(self._theory().options)
        if self.at_size:
            if not able:
                raise InputError(f"at_size must be false with the theory {self._theory().name}, which knows no size.")
            return True
        random = isinstance(getattr(self.problem, "start", None), RandomStart)
        return able and random and not getattr(self.problem, "counts_steps", False)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        options = dict(self.theory_options)
        if self.paired:
            options |= {"d": self.size, "seeds": seeds or tuple(range(self.default_seeds))}
        return predict(self.problem, self.times, self.theory_name, **options).findings

    def first_look(self) -> tuple[Self, Findings] | None:
        method = self._theory()
        if self.paired:
            return None
        if method.coarse:
            return self.coarser(theory_options=tuple({**method.coarse, **dict(self.theory_options)}.items()))
        if isinstance(getattr(self.problem, "algorithm", None), GradientFlow) and isinstance(self.times, float):
            # Steps of a flow that is followed exactly go with the time: its beginning is cheap.
            return self.coarser(times=BEGINNING * self.times)
        return None

    def train(self, seed: int) -> Findings:
        options = dict(self.simulator_options)
        return simulate(self.problem, self.times, self.size, [seed], self.simulator_name, **options).findings

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        return default_figure([theory] if simulation is None else [theory, simulation])

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """The last value of every curve of the time alone (or of `quantities`), and where the test loss is smallest."""
        means = over_seeds(dataset)
        there = {str(name): value for name, value in means.data_vars.items() if value.dims == ("time",)}
        for name in self.quantities:
            if name not in means:
                raise InputError(
                    f"{name!r} is not a variable of this problem (it has {', '.join(map(str, means.data_vars))})."
                )
        wanted = self.quantities or [name for name in there if not name.endswith("_spread")][:MOST_NUMBERS]
        found: dict[str, Number] = {}
        for name in wanted:
            last = means[name].isel(time=-1) if "time" in means[name].dims else means[name]
            for index in np.ndindex(last.shape):
                key = "_".join([name, *map(str, index)])
                found[key] = Number(float(last.values[index]), f"{key.replace('_', ' ')} {LAST}")
        if "test_loss" in there and not self.quantities and np.isfinite(there["test_loss"].values).all():
            best = int(there["test_loss"].values.argmin())
            found["best_test_loss"] = Number(float(there["test_loss"][best]), "smallest test loss")
            found["best_time"] = Number(float(there["test_loss"].time[best]), "time of the smallest test loss")
        return found

    def nested_parameters(self) -> dict[str, Any]:
        return parameters(self.problem)

    def describe(self) -> dict[str, Any]:
        """The spec as plain data; which numbers are shown changes none."""
        return {name: value for name, value in super().describe().items() if name != "quantities"}

    def structure(self) -> tuple[Any, ...]:
        return (self.size, *_shape(self.problem.describe()), str(self.times), self.theory_name, self.simulator_name)


def _shape(value: Any) -> tuple[Any, ...]:
    """What of a description decides how code is compiled: everything but real numbers."""
    if isinstance(value, Mapping):
        return tuple(part for name, inner in value.items() for part in (name, *_shape(inner)))
    if isinstance(value, list):
        return (len(value), *(part for inner in value for part in _shape(inner)))
    return () if isinstance(value, float) else (value,)
