"""Learning curves of real data, predicted from their rows before anything is trained."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.data import learning_curve, training_curve
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure
from limen.experiments.kernel.curve_figure import curve_figure
from limen.experiments.kernel.shipped_data import shipped
from limen.experiments.number import Number
from limen.problem import InputError
from limen.result import Findings, Result


class LearningCurveData(Experiment):
    r"""Regression on a data set that ships with scikit-learn: train and test loss against the number of samples.

    The theory sees all rows once and trains on none: an effective medium in which every row has the weight with which a
    random choice of $n$ rows would see it. What follows are the mean losses over all choices, on rows drawn and on rows
    left out, half mean squares with inputs and numbers scaled to variance 1 (a coordinate per class). The points are
    trainings on random parts of the rows. The band is what so few rows leave open about their source. Labels shuffled
    at random can be asked for: then nothing is learnt, and the theory knows that too. Sources: Canatar, Bordelon &
    Pehlevan 2021; Simon et al. 2023; Soven 1967 for the effective medium.
    """

    name: ClassVar[str] = "learning-curve-data"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Train and test loss of regression on real data, predicted from the rows."
    citations: ClassVar[tuple[str, ...]] = ("canatar2021", "simon2023", "soven1967")
    size_field: ClassVar[str] = "largest"
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("test_loss", "train_loss")
    quick: ClassVar[dict[str, float]] = {"points": 3}
    quick_seeds: ClassVar[int] = 32

    data: Literal["breast_cancer", "diabetes", "digits", "wine"] = Field("breast_cancer", description="the data set")
    model: Literal["ridge", "kernel", "ntk"] = Field("ridge", description="what learns: linear, Gaussian kernel, NTK")
    ridge: float = Field(0.01, gt=0.0, le=100.0, description="ridge λ")
    largest: int = Field(280, ge=20, le=1500, description="largest number of samples n, below the rows of the set")
    points: int = Field(7, ge=2, le=30, description="numbers of samples, even in the logarithm")
    draws: int = Field(400, ge=1, le=10_000, description="random parts of the rows per seed")
    shuffled: bool = Field(False, description="labels shuffled at random")

    def sizes(self) -> np.ndarray:
        """Numbers of samples, from a tenth of the largest."""
        return np.unique(np.geomspace(self.largest / 10, self.largest, self.points).round().astype(int))

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels; some rows must be left out of the largest number of samples."""
        X, y = shipped(self.data, self.shuffled)
        if self.largest >= len(X):
            raise InputError(f"largest must be below the {len(X)} rows of {self.data}, got {self.largest}.")
        return X, y

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        X, y = self.rows()
        return learning_curve(X, y, self.model, self.sizes(), self.ridge).findings

    def train(self, seed: int) -> Findings:
        X, y = self.rows()
        found = training_curve(X, y, self.model, self.sizes(), self.ridge, seeds=[seed], draws=self.draws)
        return Findings(found.dataset.assign_attrs(d=self.largest), found.ok, found.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        name = self.data.replace("_", " ") + (", labels shuffled" if self.shuffled else "")
        return curve_figure(theory, simulation, f"{name}, {self.model}, $\\lambda={self.ridge:g}$")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        few, many = (int(means.samples.values[place]) for place in (0, -1))
        return {
            "first_test_loss": Number(float(means.test_loss[0]), f"test loss, {few} samples"),
            "last_test_loss": Number(float(means.test_loss[-1]), f"test loss, {many} samples"),
            "last_train_loss": Number(float(means.train_loss[-1]), f"training loss, {many} samples"),
        }
