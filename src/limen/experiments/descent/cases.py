"""The same training in several versions: theory and runs side by side along one more dimension."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Line, Mark, Points, mean_and_error, thin
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.problem.algorithms import Descent
from limen.result import Findings, Result
from limen.simulation.descent import gradient_descent
from limen.theory.descent import entrywise
from limen.theory.descent import solve as descent

LOSSES = ("train_loss", "test_loss")
PATHS, SCRAMBLES = 32768, 4
COARSE_PATHS, COARSE_SETS = 2048, 2


class SeveralTrainings(Experiment):
    """One neuron on a single-index target, trained in several versions; a class gives `problems`, `times`, `case`.

    Losses are held against each other at all times of all versions: variables (case, moment). Default numbers of seeds
    bring the 99% band to half the tolerance, by the spread between 16 pilot runs on other seeds.
    """

    source: ClassVar[str] = "First-order methods"
    compared: ClassVar[tuple[str, ...] | None] = LOSSES

    target: str = Field("tanh(2*z) + 0.5*(z**2 - 1)", description="target: a name or a formula in z")
    noise: float = Field(0.1, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("tanh", description="activation σ")
    samples_per_dim: float = Field(2.0, gt=0.0, le=100.0, description="samples per dimension δ = n/d")
    d: int = Field(600, ge=10, le=5_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        self.problems()
        return self

    def check(self) -> None:
        """Refuses parameters that do not go together."""

    @abstractmethod
    def problems(self) -> list[TwoLayer]:
        """The learning problem of each version."""

    @abstractmethod
    def times(self) -> list[np.ndarray]:
        """The steps at which each version is looked at, equally many."""

    @abstractmethod
    def case(self) -> xr.Variable:
        """The dimension along which versions lie."""

    def problem(self, algorithm: Descent, samples_per_dim: float | None = None, entries: str = "gaussian") -> TwoLayer:
        """One version: its algorithm, its sample, the law of the target's entries."""
        return TwoLayer(
            target(self.target, noise=self.noise, entries=entries),
            network(1, self.activation),
            algorithm,
            self.samples_per_dim if samples_per_dim is None else samples_per_dim,
        )

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        return self._theory(PATHS, SCRAMBLES)

    def first_look(self) -> tuple[Self, Findings]:
        return self, self._theory(COARSE_PATHS, COARSE_SETS)

    def _theory(self, paths: int, scrambles: int) -> Findings:
        found = []
        for problem, grid in zip(self.problems(), self.times(), strict=True):
            theory = descent if isinstance(problem.algorithm, GradientDescent) else entrywise
            found.append(theory.solve(problem, grid, paths=paths, scrambles=scrambles))
        return self._together(found, [*LOSSES, *(f"{name}_spread" for name in LOSSES)])

    def train(self, seed: int) -> Findings:
        pairs = zip(self.problems(), self.times(), strict=True)
        found = [gradient_descent.solve(problem, grid, d=self.d, seed=seed) for problem, grid in pairs]
        return self._together(found, LOSSES)

    def _together(self, found: list[Findings], names: Sequence[str]) -> Findings:
        parts, case = [], self.case()
        for one in found:
            part = one.dataset[list(names)].drop_vars(["step", "epoch", "samples"], errors="ignore")
            parts.append(part.assign_coords(time=np.arange(part.sizes["time"])).rename(time="moment"))
        # Attributes of variables name the theory's own error.
        dataset = xr.concat(parts, dim=case, combine_attrs="override", coords="minimal", compat="override")
        order = [dim for dim in ("seed", str(case.dims[0]), "moment") if dim in dataset.dims]
        worst = next((one for one in found if not one.ok), found[0])
        dataset = dataset.transpose(*order).assign_attrs(d=self.d)
        return Findings(dataset, all(one.ok for one in found), worst.status)


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
