"""A smoother that fits every noisy label, and still learns at the best possible rate."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.kernel.nearest_neighbours import singular_smoother_errors
from limen.theory.kernel.interpolating_smoother import (
    SmootherRisk,
    singular_smoother_bandwidth,
    singular_smoother_risk,
)

HALVINGS = 3


class InterpolatingSmoother(Experiment):
    r"""Nadaraya–Watson regression with the singular kernel $K(u)=\|u\|^{-a}1(\|u\|\le1)$, $0<a<d/2$.

    The weight of an input grows without bound as it is approached: the estimate passes through every label, for every
    bandwidth $h$. Yet at a new point, for $f(x)-f(x_0)=L\|x-x_0\|^\beta$ and $h=cn^{-1/(2\beta+d)}$,
    $$\text{risk}\to n^{-\frac{2\beta}{2\beta+d}}\Big[L^2c^{2\beta}\Big(\frac{d-a}{d-a+\beta}\Big)^2+
      \frac{\sigma^2}{c^d}\frac{(d-a)^2}{(d-2a)S_{d-1}}\Big],$$
    the minimax rate, $S_{d-1}$ the area of the unit sphere. Interpolation costs a factor, not the rate.

    What to see: a straight line in logarithmic axes; the risk times $n^{2\beta/(2\beta+d)}$ is flat at the constant.
    Against uniform weights, each at its best bandwidth, a weak singularity is even a gain: it has less bias. The factor
    diverges as $a\to d/2$, and so does the $n$ that it takes to see it. Source: Belkin, Rakhlin & Tsybakov
    2019.
    """

    name: ClassVar[str] = "interpolating-smoother"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "A singular kernel fits all labels exactly and attains the minimax rate."
    citations: ClassVar[tuple[str, ...]] = ("belkin2019interpolation",)
    size_field: ClassVar[str] = "samples"
    default_seeds: ClassVar[int] = 512
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse",)
    quick: ClassVar[dict[str, float]] = {"samples": 8000}
    quick_seeds: ClassVar[int] = 512

    dimension: int = Field(2, ge=1, le=4, description="dimension d of the inputs, uniform on the unit cube")
    exponent: float = Field(0.5, gt=0.0, lt=2.0, description="strength a of the singularity, below d/2")
    smoothness: float = Field(1.0, gt=0.0, le=2.0, description="exponent β of the target L|x − x₀|^β")
    height: float = Field(1.0, ge=1e-6, le=100.0, description="height L of the target")
    noise: float = Field(0.25, gt=0.0, le=100.0, description="variance σ² of the label noise")
    bandwidth: float = Field(1.0, gt=0.1, le=5.0, description="factor c of the bandwidth h = c n^(−1/(2β+d))")
    samples: int = Field(8_000, ge=800, le=1_000_000, description="largest number n of samples")

    @model_validator(mode="after")
    def _check(self) -> "InterpolatingSmoother":
        if self.exponent >= self.dimension / 2:
            raise InputError(f"exponent must be below dimension/2 = {self.dimension / 2:g}, got {self.exponent:g}.")
        largest = 0.5 * self.bandwidth / self._width(float(self.counts()[0]))
        if self.bandwidth > largest:
            raise InputError(f"bandwidth must be at most {largest:.3g} with so few samples, got {self.bandwidth:g}.")
        return self

    @property
    def rate(self) -> float:
        r"""$\frac{2\beta}{2\beta+d}$."""
        return 2.0 * self.smoothness / (2.0 * self.smoothness + self.dimension)

    def counts(self) -> np.ndarray:
        """Numbers of samples, each twice the one before."""
        return self.samples // 2 ** np.arange(HALVINGS, -1, -1)

    def _width(self, samples: float) -> float:
        return float(self.bandwidth * samples ** (-1.0 / (2.0 * self.smoothness + self.dimension)))

    def _risk(self, samples: float) -> SmootherRisk:
        return singular_smoother_risk(
            samples,
            self._width(samples),
            dimension=self.dimension,
            exponent=self.exponent,
            noise=self.noise,
            smoothness=self.smoothness,
            height=self.height,
        )

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        counts = self.counts()
        risk = np.array([self._risk(n).test for n in counts])
        dataset = xr.Dataset(
            {"excess_mse": ("samples", risk), "scaled_excess_mse": ("samples", risk * counts**self.rate)},
            coords={"samples": counts},
        )
        status = "leading order in the number of inputs within a bandwidth."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        counts = self.counts()
        risk = np.array([self._mean_error(seed, int(n)) for n in counts])
        dataset = xr.Dataset(
            {
                "excess_mse": (("seed", "samples"), risk[None]),
                "scaled_excess_mse": (("seed", "samples"), (risk * counts**self.rate)[None]),
            },
            coords={"samples": counts, "seed": [seed]},
            attrs={"d": self.samples},
        )
        status = f"{self.samples} inputs for each point of the curve."
        return Findings(dataset, True, status)

    def _mean_error(self, seed: int, samples: int) -> float:
        """Mean over as many data sets of this size as the largest size has room for."""
        errors = singular_smoother_errors(
            samples,
            self._width(samples),
            dimension=self.dimension,
            exponent=self.exponent,
            noise=self.noise,
            smoothness=self.smoothness,
            height=self.height,
            sets=self.samples // samples,
            seed=seed,
        )
        return float(errors.mean())

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        counts = theory.dataset.samples.values
        fine = np.geomspace(0.7 * counts[0], 1.4 * counts[-1], 60)
        risks = [self._risk(n) for n in fine]
        total = np.array([risk.test for risk in risks])
        falls: list[Mark] = [
            Line(fine, total, "risk, theory"),
            Line(fine, [risk.squared_bias for risk in risks], "squared bias", colour=1, dashed=True),
            Line(fine, [risk.variance for risk in risks], "variance", colour=2, dashed=True),
        ]
        constant = float(total[0] * fine[0] ** self.rate)
        flat: list[Mark] = [Line(fine, total * fine**self.rate, "theory")]
        if simulation is not None:
            label = f"{counted(len(simulation.seeds), 'run')}"
            falls.append(Points(counts, *mean_and_error(simulation.dataset.excess_mse.values), label))
            flat.append(Points(counts, *mean_and_error(simulation.dataset.scaled_excess_mse.values), label))
        label = r"samples $n$"
        power = rf"$n^{{{self.rate:.3g}}}\times$ risk"
        strengths = np.linspace(0.005, 0.97, 120) * self.dimension / 2
        least = np.array([self._least_risk(strength) for strength in strengths])
        price: list[Mark] = [
            Line(strengths, least / self._least_risk(1e-9), colour=3),
            Threshold(rf"$a={self.exponent:g}$", x=self.exponent),
        ]
        return Figure(
            [
                Panel(label, "excess risk at a new point", falls, x_scale="log", y_scale="log"),
                Panel(label, power, flat, x_scale="log", y_range=(0.0, 1.4 * constant)),
                Panel(r"singularity $a$", "least risk over that of uniform weights", price),
            ],
            title=f"Interpolating smoother, $d={self.dimension}$, $a={self.exponent:g}$, $\\beta={self.smoothness:g}$",
        )

    def _least_risk(self, exponent: float) -> float:
        """Risk per power of the samples at the bandwidth that is best for this strength of the singularity."""
        setting = {
            "exponent": exponent,
            "noise": self.noise,
            "smoothness": self.smoothness,
            "height": self.height,
        }
        best = singular_smoother_bandwidth(1.0, dimension=self.dimension, **setting)
        return singular_smoother_risk(1.0, best, dimension=self.dimension, **setting).test

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset).excess_mse.values
        slope = np.polyfit(np.log(dataset.samples.values), np.log(mean), 1)[0]
        return {
            "rate": Number(-slope, "power of the number of samples n with which the excess risk falls"),
            "constant": Number(
                dataset.scaled_excess_mse.mean(),
                f"excess risk times n^{self.rate:.3g}, singularity a = {self.exponent:g}",
            ),
        }
