"""Stopping early is a ridge: the risk along gradient flow beside the risk along the ridge path."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.least_squares import draw_least_squares, spectral_errors
from limen.simulation.kernel.spectral_estimators import flow_shrinkages, ridge_shrinkages
from limen.theory.kernel.filters import optimal_stopping_time, ridge_flow
from limen.theory.kernel.ridge import optimal_ridge, ridge


class RidgeEarlyStopping(Experiment):
    r"""Least squares with $p/n\to\gamma$: gradient flow stopped at $t$ beside ridge of penalty $\lambda=1/t$.

    Flow $\dot b=\frac1nX^\top(y-Xb)$ from 0 fits the part $1-e^{-ts}$ of the labels along a direction of
    sample variance $s$, ridge the part $\frac s{s+\lambda}$; both fit strong directions first. The risks follow from
    integrals of these filters over the limiting spectrum.

    What to see: two curves of one shape in $t=1/\lambda$, each with an optimum before it fits the noise; the best
    ridge ($\lambda^*=\sigma^2\gamma/r^2$) is a little better than the best stopping time. The training error falls
    all the while and cannot tell. Sources: Ali, Kolter & Tibshirani 2019; Dobriban & Wager 2018; Advani, Saxe &
    Sompolinsky 2020.
    """

    name: ClassVar[str] = "ridge-early-stopping"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Gradient flow stopped in time is almost as good as the best ridge."
    citations: ClassVar[tuple[str, ...]] = ("ali2019", "dobriban2018", "advani2020")
    default_seeds: ClassVar[int] = 768
    quick: ClassVar[dict[str, float]] = {"d": 200, "last_time": 5.0}
    quick_seeds: ClassVar[int] = 1000

    ratio: float = Field(1.5, ge=1e-6, le=20.0, description="dimensions per sample γ = p/n")
    noise: float = Field(0.5, ge=1e-9, le=100.0, description="variance σ² of the label noise")
    signal: float = Field(1.0, ge=1e-9, le=100.0, description="squared norm r² of the coefficients")
    last_time: float = Field(50.0, gt=1.0, le=10_000.0, description="last time t of the flow, and of 1/λ")
    d: int = Field(200, ge=10, le=4_000, description="dimension p of the inputs; samples are p/γ")

    def times(self) -> np.ndarray:
        """Times of the flow; the ridge path is taken at λ = 1/t."""
        return np.geomspace(0.02, self.last_time, 33)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times = self.times()
        flow = ridge_flow(self.ratio, times, self.noise, signal=self.signal)
        path = ridge(self.ratio, 1.0 / times, self.noise, signal=self.signal)
        dataset = xr.Dataset(
            {
                "flow_excess_mse": ("time", flow.test),
                "flow_train_mse": ("time", flow.train),
                "ridge_excess_mse": ("time", path.test),
                "ridge_train_mse": ("time", path.train),
                "optimal_stopping_time": optimal_stopping_time(self.ratio, self.noise, signal=self.signal),
                "optimal_ridge": optimal_ridge(self.ratio, self.noise, signal=self.signal),
            },
            coords={"time": times},
        )
        return Findings(dataset, True, "exact.")

    def train(self, seed: int) -> Findings:
        times, samples = self.times(), max(1, round(self.d / self.ratio))
        data = draw_least_squares(seed, self.d, samples, self.noise, signal=(self.signal,))
        errors = spectral_errors(data, [*flow_shrinkages(times), *ridge_shrinkages(1.0 / times)])
        test, train = (part.reshape(2, 1, times.size) for part in (errors.test, errors.train))
        dims = ("seed", "time")
        dataset = xr.Dataset(
            {
                "flow_excess_mse": (dims, test[0]),
                "flow_train_mse": (dims, train[0]),
                "ridge_excess_mse": (dims, test[1]),
                "ridge_train_mse": (dims, train[1]),
            },
            coords={"time": times, "seed": [seed]},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{samples} samples.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times = self.times()
        panels = []
        for kind, label in (("excess_mse", "excess risk"), ("train_mse", "training error")):
            marks: list[Mark] = [
                Line(times, theory.dataset[f"flow_{kind}"].values, "gradient flow"),
                Line(times, theory.dataset[f"ridge_{kind}"].values, "ridge", colour=1),
            ]
            if simulation is not None:
                for colour, method in enumerate(("flow", "ridge")):
                    # Every second point each, so that the two kinds do not hide one another.
                    at = thin(times.size)[colour::2]
                    mean, error = mean_and_error(simulation.dataset[f"{method}_{kind}"].values)
                    runs = f"$p={self.d}$, {counted(len(simulation.seeds), 'run')}" if colour == 0 else ""
                    marks.append(Points(times[at], mean[at], error[at], runs, colour))
            if kind == "excess_mse":
                optimum = self.numbers(theory.dataset)
                for symbol, x in (("$t^*$", optimum["stopping_time"]), (r"$1/\lambda^*$", 1.0 / optimum["ridge"])):
                    if times[0] < x < times[-1]:
                        marks.append(Threshold(symbol, x=x))
            panels.append(Panel(r"time $t$, inverse penalty $1/\lambda$", label, marks, x_scale="log"))
        title = f"$\\gamma=p/n={self.ratio:g}$, $\\sigma^2={self.noise:g}$, $r^2={self.signal:g}$"
        return Figure(panels, title=f"Early stopping and ridge, {title}")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean, numbers = over_seeds(dataset), {}
        if "optimal_ridge" in dataset:
            numbers |= {
                "stopping_time": Number(dataset.optimal_stopping_time, "best time t* to stop gradient flow"),
                "ridge": Number(dataset.optimal_ridge, "best ridge penalty λ*"),
            }
        place = f"γ = {self.ratio:g}"
        return numbers | {
            "best_flow_excess_mse": Number(
                mean.flow_excess_mse.min(), f"least excess risk along gradient flow, {place}"
            ),
            "best_ridge_excess_mse": Number(
                mean.ridge_excess_mse.min(), f"least excess risk along the ridge path, {place}"
            ),
        }
