"""Random features in time: learning first, overfitting later, and when to stop."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.problem import RandomFeatures
from limen.result import Findings, Result
from limen.simulation.kernel.regression_flow import random_features_simulation
from limen.theory.kernel.random_features import random_features
from limen.theory.kernel.random_features_problem import random_features_problem


class RandomFeaturesFlow(Experiment):
    r"""Gradient flow on the second layer of a network with $N$ random hidden neurons, $n$ samples in $d$ dimensions.

    The outputs on the training set follow $\dot f=-A(f-y)$, $A=\frac dn\frac1N\Phi\Phi^\top$; eigenvalues of $A$
    that carry the linear part of the target are of order $\mu_1^2$ and are fitted first, the many small ones of
    order $\mu_*^2d/n$ carry what cannot be generalised and are fitted last.

    What to see: test error falls, reaches its least value, and rises to that of the interpolating network
    while the training error goes to 0; stopping in time beats interpolation, by a factor of two here. Source: the
    limit of Mei & Montanari 2022, extended to any time by an integral around the spectrum.
    """

    name: ClassVar[str] = "random-features-flow"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Random features learn the linear part first and overfit later."
    citations: ClassVar[tuple[str, ...]] = ("mei2022", "advani2020")
    default_seeds: ClassVar[int] = 512
    quick: ClassVar[dict[str, float]] = {"d": 60}
    quick_seeds: ClassVar[int] = 640

    features_per_dim: float = Field(6.0, ge=1e-6, le=50.0, description="features per dimension N/d")
    samples_per_dim: float = Field(3.0, ge=1e-6, le=50.0, description="samples per dimension n/d")
    activation: Literal["relu", "tanh", "erf"] = Field("erf", description="activation σ of the features")
    nonlinear: float = Field(0.3, ge=0.0, le=10.0, description="variance F*² of the non-linear part of the target")
    noise: float = Field(0.2, ge=0.0, le=10.0, description="variance τ² of the label noise")
    last_time: float = Field(1e4, gt=1.0, le=1e6, description="last time t of the flow")
    d: int = Field(60, ge=10, le=1_000, description="dimension of the inputs")

    def problem(self) -> RandomFeatures:
        """The learning problem behind the experiment."""
        target = {"nonlinear": self.nonlinear, "noise": self.noise}
        return RandomFeatures(self.features_per_dim, self.samples_per_dim, self.activation, **target)

    def times(self) -> np.ndarray:
        """Times of the flow, in equal ratios."""
        return np.geomspace(0.1, self.last_time, 41)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        target = {"nonlinear": self.nonlinear, "noise": self.noise}
        limit = random_features(self.features_per_dim, self.samples_per_dim, 0.0, self.activation, **target)
        found = random_features_problem.solve(self.problem(), self.times())
        return replace(found, dataset=found.dataset.assign(interpolation_excess_mse=float(limit.test)))

    def train(self, seed: int) -> Findings:
        return random_features_simulation.solve(self.problem(), self.times(), d=self.d, seed=seed, test_samples=1000)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, numbers = self.times(), self.numbers(theory.dataset)
        panels = []
        for colour, (name, label) in enumerate((("excess_mse", "excess risk"), ("train_mse", "training error"))):
            values = theory.dataset[name].values
            marks: list[Mark] = [Line(times, values, "theory", colour)]
            if simulation is not None:
                at = thin(times.size)
                mean, error = mean_and_error(simulation.dataset[name].values)
                runs = f"$d={self.d}$, {counted(len(simulation.seeds), 'run')}"
                marks.append(Points(times[at], mean[at], error[at], runs, colour))
            marks.append(Threshold(r"$t^*$", x=numbers["best_time"]))
            level = numbers["interpolation_excess_mse"]
            if name == "excess_mse" and np.isfinite(level):
                # From the optimum on: before it the line would cross the falling curve.
                ends = [numbers["best_time"], times[-1]]
                marks.append(Line(ends, [level, level], "interpolation", colour=6, dashed=True))
            # Room above the curves for the legend.
            height = (0.0, 1.3 * float(values.max()))
            panels.append(Panel(r"time $t$", label, marks, x_scale="log", y_range=height))
        sizes = f"$N/d={self.features_per_dim:g}$, $n/d={self.samples_per_dim:g}$"
        return Figure(panels, title=f"{typeset(self.activation)} random features, {sizes}")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        times, mean = self.times(), over_seeds(dataset).excess_mse.values
        best = int(mean.argmin())
        numbers = {
            "best_time": Number(times[best], "time t at which the excess risk is least"),
            "best_excess_mse": Number(mean[best], "least excess risk along the flow"),
            "last_excess_mse": Number(mean[-1], f"excess risk at the last time, t = {self.last_time:g}"),
        }
        if "interpolation_excess_mse" in dataset:
            numbers["interpolation_excess_mse"] = Number(
                dataset.interpolation_excess_mse, "excess risk of the interpolating network, t = ∞"
            )
        return numbers
