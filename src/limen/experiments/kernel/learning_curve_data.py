"""Learning curves of real data, predicted from their rows before anything is trained."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.data import learning_curve, training_curve
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.kernel.shipped_data import shipped
from limen.experiments.number import Number
from limen.result import Findings, Result


class LearningCurveData(Experiment):
    r"""Regression on a data set that ships with scikit-learn: train and test loss against the number of samples.

    The theory sees all rows once and trains on none: an effective medium in which every row has the weight with which a
    random choice of $n$ rows would see it. What follows are the mean losses over all choices, on rows drawn and on rows
    left out, half mean squares with inputs and numbers scaled to variance 1 (a coordinate per class). The points are
    trainings on random parts of the rows. The band is what so few rows leave open about their source. Labels shuffled
    at random can be asked for: then nothing is learned, and the theory knows that too. Sources: Canatar, Bordelon &
    Pehlevan 2021; Simon et al. 2023; Soven 1967 for the effective medium.
    """

    name: ClassVar[str] = "learning-curve-data"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Train and test loss of regression on real data, predicted from the rows."
    citations: ClassVar[tuple[str, ...]] = ("canatar2021", "simon2023", "soven1967")
    size_field: ClassVar[str] = "largest"
    default_seeds: ClassVar[int] = 16
    compared: ClassVar[tuple[str, ...] | None] = ("test_loss", "train_loss")
    quick: ClassVar[dict[str, float]] = {"largest": 100, "points": 3, "draws": 5}

    data: Literal["breast_cancer", "diabetes", "digits", "wine"] = Field("breast_cancer", description="the data set")
    model: Literal["ridge", "kernel", "ntk"] = Field("ridge", description="what learns: linear, Gaussian kernel, NTK")
    ridge: float = Field(0.01, gt=0.0, le=100.0, description="ridge λ")
    largest: int = Field(280, ge=20, le=1500, description="largest number of samples n, below the rows of the set")
    points: int = Field(7, ge=2, le=30, description="numbers of samples, even in the logarithm")
    draws: int = Field(60, ge=1, le=10_000, description="random parts of the rows per seed")
    shuffled: bool = Field(False, description="labels shuffled at random")

    def sizes(self) -> np.ndarray:
        """Numbers of samples, from a fifth of the largest."""
        return np.unique(np.geomspace(self.largest / 5, self.largest, self.points).round().astype(int))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        X, y = shipped(self.data, self.shuffled)
        return learning_curve(X, y, self.model, self.sizes(), self.ridge).findings

    def train(self, seed: int) -> Findings:
        X, y = shipped(self.data, self.shuffled)
        draws = range(seed * self.draws, (seed + 1) * self.draws)
        found = training_curve(X, y, self.model, self.sizes(), self.ridge, seeds=list(draws))
        means = found.dataset.mean("seed").expand_dims(seed=[seed])
        return Findings(means.assign_attrs(d=self.largest), found.ok, found.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, n = theory.dataset, theory.dataset.samples.values
        losses: list[Mark] = [
            Band(n, found.test_loss_low.values, found.test_loss_high.values, "99%, data of this source"),
            Line(n, found.test_loss.values, "test, theory", spots=True),
            Line(n, found.train_loss.values, "training, theory", 1, spots=True),
        ]
        if simulation is not None:
            for name, colour, label in (
                ("test_loss", 0, "test, simulation"),
                ("train_loss", 1, "training, simulation"),
            ):
                mean, error = mean_and_error(simulation.dataset[name].values)
                losses.append(Points(n, mean, error, label, colour))
        panels = [Panel("samples $n$", "half mean squared error", losses, x_scale="log")]
        if "test_error" in found:
            wrong: list[Mark] = [Line(n, found.test_error.values, "theory", 2, spots=True)]
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.test_error.values)
                wrong.append(Points(n, mean, error, "simulation", 2))
            panels.append(Panel("samples $n$", "share misclassified", wrong, x_scale="log"))
        name = self.data.replace("_", " ") + (", labels shuffled" if self.shuffled else "")
        return Figure(panels, title=f"{name}, {self.model}, $\\lambda={self.ridge:g}$")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        few, many = (int(means.samples.values[place]) for place in (0, -1))
        return {
            "first_test_loss": Number(float(means.test_loss[0]), f"test loss, {few} samples"),
            "last_test_loss": Number(float(means.test_loss[-1]), f"test loss, {many} samples"),
            "last_train_loss": Number(float(means.train_loss[-1]), f"training loss, {many} samples"),
        }
