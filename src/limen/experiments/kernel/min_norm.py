"""Gradient descent chooses among all interpolators the one nearest to its start."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.least_squares import draw_least_squares
from limen.simulation.kernel.least_squares_descent import descent_errors, interpolator_errors
from limen.theory.kernel.classification.uniform_gap import least_squares_gap
from limen.theory.kernel.filters import gradient_descent_risk
from limen.theory.kernel.min_norm import interpolator_risk

SCALES = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
FOLLOWED = (-0.5, 0.0, 0.5, 1.0)
# Part of the largest stable step at which descent is followed.
CAUTION = 0.8


class MinNorm(Experiment):
    r"""Gradient descent on least squares with more parameters than samples, $p/n\to\gamma>1$, from $\theta_0=c\beta$.

    Infinitely many $\theta$ fit the data. Descent moves in the row space of $X$ only and ends at
    $\theta_\infty=\theta_0+X^+(y-X\theta_0)$, the interpolator nearest to $\theta_0$; from 0 it has least norm. With
    $\|\beta\|=1$ and noise variance $\sigma^2$,
    $$\|\theta_\infty-\beta\|^2\to(1-c)^2\Big(1-\frac1\gamma\Big)+\frac{\sigma^2}{\gamma-1},\qquad
      \|\theta_\infty-\theta_0\|^2\to\frac{(1-c)^2}\gamma+\frac{\sigma^2}{\gamma-1}.$$

    What to see: two parabolas in $c$: a start is worth the distance to $\beta$ it saves, and only the share $1/\gamma$
    of that distance is ever gone; all of them interpolate. From $\theta_0=\beta$ training only harms. The way there
    follows the filter $(1-\eta z)^k$ of the spectrum. Source: Hastie, Montanari, Rosset & Tibshirani 2022.
    """

    name: ClassVar[str] = "min-norm"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Descent on least squares ends at the interpolator nearest to its start."
    citations: ClassVar[tuple[str, ...]] = ("hastie2022", "ali2019")
    default_seeds: ClassVar[int] = 512
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse", "squared_displacement", "path_excess_mse")
    quick: ClassVar[dict[str, float]] = {"d": 240}
    quick_seeds: ClassVar[int] = 384

    ratio: float = Field(3.0, ge=1.3, le=20.0, description="parameters per sample γ = p/n, above 1")
    noise: float = Field(0.3, ge=0.0, le=100.0, description="variance σ² of the label noise")
    steps: int = Field(40, ge=2, le=2_000, description="steps of descent that are followed")
    d: int = Field(240, ge=30, le=2_000, description="number of parameters p; samples are p/γ")

    @property
    def whole_ratio(self) -> float:
        """The ratio with a whole number of samples nearest to the one asked for."""
        return self.d / round(self.d / self.ratio)

    @property
    def step(self) -> float:
        r"""Step $\eta$, safely below $2/\lambda_+$, where $\lambda_+=(1+\sqrt\gamma)^2$."""
        return CAUTION * 2.0 / (1.0 + np.sqrt(self.whole_ratio)) ** 2

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        gamma, missed = self.whole_ratio, (1.0 - np.array(SCALES)) ** 2
        ends = interpolator_risk(gamma, self.noise, missed)
        ways = [least_squares_gap(gamma, self.noise, np.sqrt(square)).squared_norm for square in missed]
        counts = np.arange(self.steps + 1)
        paths = [
            gradient_descent_risk(gamma, self.step, counts, self.noise, signal=((1.0 - scale) ** 2,)).test
            for scale in FOLLOWED
        ]
        dataset = xr.Dataset(
            {
                "excess_mse": ("start", ends.test),
                "train_mse": ("start", ends.train),
                "squared_displacement": ("start", ways),
                "path_excess_mse": (("followed", "step"), paths),
            },
            coords={"start": list(SCALES), "followed": list(FOLLOWED), "step": counts},
        )
        return Findings(dataset, True, "exact.")

    def train(self, seed: int) -> Findings:
        data = draw_least_squares(seed, self.d, round(self.d / self.ratio), self.noise)
        ends = [interpolator_errors(data, scale) for scale in SCALES]
        paths = [descent_errors(data, scale, self.step, self.steps) for scale in FOLLOWED]
        dataset = xr.Dataset(
            {
                "excess_mse": (("seed", "start"), [[end.test for end in ends]]),
                "train_mse": (("seed", "start"), [[end.train for end in ends]]),
                "squared_displacement": (("seed", "start"), [[end.squared_displacement for end in ends]]),
                "path_excess_mse": (("seed", "followed", "step"), [paths]),
            },
            coords={
                "start": list(SCALES),
                "followed": list(FOLLOWED),
                "step": np.arange(self.steps + 1),
                "seed": [seed],
            },
            attrs={"d": self.d},
        )
        status = "gradient descent, run until it stopped moving."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        gamma, fine = self.whole_ratio, np.linspace(SCALES[0], SCALES[-1], 121)
        missed = (1.0 - fine) ** 2
        ways = [least_squares_gap(gamma, self.noise, np.sqrt(square)).squared_norm for square in missed]
        ends: list[Mark] = [
            Line(fine, interpolator_risk(gamma, self.noise, missed).test, r"error $\|\theta_\infty-\beta\|^2$"),
            Line(fine, ways, r"way $\|\theta_\infty-\theta_0\|^2$", colour=1),
        ]
        paths: list[Mark] = []
        steps = theory.dataset.step.values
        for colour, scale in enumerate(FOLLOWED):
            line = theory.dataset.path_excess_mse.sel(followed=scale).values
            name = {0.0: r"$\theta_0=0$", 1.0: r"$\theta_0=\beta$"}.get(scale, rf"$\theta_0={scale:g}\,\beta$")
            paths.append(Line(steps, line, name, colour))
        if simulation is not None:
            data = simulation.dataset
            runs = f"$p={self.d}$, {counted(len(simulation.seeds), 'run')}"
            ends.append(Points(data.start.values, *mean_and_error(data.excess_mse.values), runs))
            ends.append(Points(data.start.values, *mean_and_error(data.squared_displacement.values), colour=1))
            at = thin(steps.size, 16)
            for colour, scale in enumerate(FOLLOWED):
                mean, error = mean_and_error(data.path_excess_mse.sel(followed=scale).values)
                paths.append(Points(steps[at], mean[at], error[at], colour=colour))
        ends.append(Threshold(r"$\theta_0=\beta$", x=1.0))
        # Room for the legend above the highest curve.
        top = 1.45 * float(theory.dataset.path_excess_mse.max())
        return Figure(
            [
                Panel(r"start $c$, $\theta_0=c\,\beta$", "squared distance at the end", ends),
                Panel(r"steps $k$ of descent", r"excess risk $\|\theta_k-\beta\|^2$", paths, y_range=(0.0, top)),
            ],
            title=f"Descent to the nearest interpolator, $p/n={gamma:.3g}$, $\\sigma^2={self.noise:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        from_zero = over_seeds(dataset).sel(start=0.0)
        place = f"p/n = {self.whole_ratio:.3g}"
        return {
            "least_norm_excess_mse": Number(
                from_zero.excess_mse, f"excess risk of the interpolator of least norm, {place}"
            ),
            "least_squared_norm": Number(
                from_zero.squared_displacement, "squared norm of the interpolator of least norm"
            ),
            "train_mse": Number(from_zero.train_mse, "training error at the end of descent from 0"),
        }
