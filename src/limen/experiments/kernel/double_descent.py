"""Double descent in its simplest form: least squares without penalty, through the interpolation threshold."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.least_squares import draw_least_squares
from limen.simulation.kernel.ridgeless import ridgeless_errors
from limen.theory.kernel.ridge import ridge

VARIABLES = ("excess_mse", "bias_mse", "variance_mse", "train_mse")
EACH_SIDE, NEAR = 7, 2
WIDEST, NARROWEST, SHOWN = 5.0, 1.45, 10.0


class DoubleDescent(Experiment):
    r"""Risk of the least-norm least squares fit against $\gamma=p/n$, for isotropic inputs and $\|\beta\|^2=r^2$.

    For $\gamma<1$ there is no bias and the variance is $\sigma^2\frac\gamma{1-\gamma}$; for $\gamma>1$ the fit
    interpolates, the bias is $r^2(1-\frac1\gamma)$ and the variance $\frac{\sigma^2}{\gamma-1}$. At $\gamma=1$ the
    variance is infinite: the data just determine the fit, and all noise goes into it.

    What to see: the risk rises to a peak without bound at $\gamma=1$ and falls again; for a signal stronger than
    the noise ($r^2>\sigma^2$) a second minimum at $\gamma=\frac r{r-\sigma}$. Training error falls to 0 at the peak
    and stays there. Between $\gamma=1/1.45$ and 1.45 runs fluctuate without bound as $\gamma\to1$: they are drawn,
    not compared. Source: Hastie, Montanari, Rosset & Tibshirani 2022.
    """

    name: ClassVar[str] = "double-descent"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Least squares risk peaks where the fit begins to interpolate, then falls again."
    citations: ClassVar[tuple[str, ...]] = ("hastie2022", "belkin2019")
    default_seeds: ClassVar[int] = 512
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse", "bias_mse", "train_mse")
    quick: ClassVar[dict[str, float]] = {"d": 150}
    quick_seeds: ClassVar[int] = 768

    noise: float = Field(0.2, gt=0.0, le=100.0, description="variance σ² of the label noise")
    signal: float = Field(1.0, gt=0.0, le=100.0, description="squared norm r² of the coefficients")
    d: int = Field(200, ge=30, le=2_000, description="dimension p of the inputs; samples are p/γ")

    def ratios(self) -> np.ndarray:
        """Ratios that are compared, each a whole number of samples."""
        away = np.geomspace(NARROWEST, WIDEST, EACH_SIDE)
        return self._whole(np.concatenate([1.0 / away[::-1], away]))

    def ratios_near_threshold(self) -> np.ndarray:
        """Ratios on both sides of 1 that are only drawn."""
        away = np.geomspace(1.12, NARROWEST, NEAR + 1)[:-1]
        return self._whole(np.concatenate([1.0 / away[::-1], away]))

    def _whole(self, ratios: np.ndarray) -> np.ndarray:
        return self.d / np.round(self.d / ratios)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        ratios = self.ratios()
        risk = ridge(ratios, 0.0, self.noise, signal=self.signal)
        values = (risk.test, risk.bias, risk.variance, risk.train)
        dataset = xr.Dataset(
            {
                **{name: ("ratio", value) for name, value in zip(VARIABLES, values, strict=True)},
                "threshold": 1.0,
                "second_minimum_ratio": self._second_minimum(),
            },
            coords={"ratio": ratios},
        )
        dataset.second_minimum_ratio.attrs["undefined"] = "the risk falls for ever beyond the peak"
        return Findings(dataset, True, "exact.")

    def train(self, seed: int) -> Findings:
        ratios, near = self.ratios(), self.ratios_near_threshold()
        counts = np.round(self.d / np.concatenate([ratios, near])).astype(int)
        # One data set, of which each ratio uses the first samples.
        data = draw_least_squares(seed, self.d, int(counts.max()), self.noise, signal=(self.signal,))
        rows = np.array(
            [ridgeless_errors(replace(data, inputs=data.inputs[:n], labels=data.labels[:n])) for n in counts]
        )
        compared, drawn = rows[: ratios.size], rows[ratios.size :, 0]
        dataset = xr.Dataset(
            {
                **{name: (("seed", "ratio"), compared[None, :, i]) for i, name in enumerate(VARIABLES)},
                "excess_mse_near_threshold": (("seed", "ratio_near_threshold"), drawn[None]),
            },
            coords={"ratio": ratios, "ratio_near_threshold": near, "seed": [seed]},
            attrs={"d": self.d},
        )
        status = "least squares, solved exactly."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        away = np.geomspace(1.01, SHOWN, 200)
        branches = (1.0 / away[::-1], away)
        total: list[Mark] = []
        parts: list[Mark] = []
        for first, ratios in zip((True, False), branches, strict=True):
            risk = ridge(ratios, 0.0, self.noise, signal=self.signal)
            total.append(Line(ratios, risk.test, "test, theory" if first else ""))
            total.append(Line(ratios, risk.train, "training, theory" if first else "", colour=1))
            parts.append(Line(ratios, risk.bias, "bias" if first else "", colour=2))
            parts.append(Line(ratios, risk.variance, "variance" if first else "", colour=3))
        if simulation is not None:
            data = simulation.dataset
            x, near = data.ratio.values, data.ratio_near_threshold.values
            runs = f"$p={self.d}$, {counted(len(simulation.seeds), 'run')}"
            total.append(Points(x, *mean_and_error(data.excess_mse.values), runs))
            total.append(Points(near, *mean_and_error(data.excess_mse_near_threshold.values)))
            total.append(Points(x, *mean_and_error(data.train_mse.values), colour=1))
            parts.append(Points(x, *mean_and_error(data.bias_mse.values), colour=2))
            parts.append(Points(x, *mean_and_error(data.variance_mse.values), runs, colour=3))
        limits = [Threshold(r"$\gamma=1$", x=1.0)]
        best = self._second_minimum()
        if 1.0 < best < SHOWN:
            limits.append(Threshold(r"$\frac{r}{r-\sigma}$", x=best))
        top = 1.25 * float(ridge([1.0 / 1.12, 1.12], 0.0, self.noise, signal=self.signal).test.max())
        label, shown, height = r"dimensions per sample $\gamma=p/n$", (1.0 / SHOWN, SHOWN), (0.0, top)
        return Figure(
            [
                Panel(label, words, marks, x_scale="log", x_range=shown, y_range=height)
                for words, marks in (
                    ("excess and training error", [*total, *limits]),
                    ("parts of the excess risk", [*parts, *limits[:1]]),
                )
            ],
            title=f"Least squares without penalty, $r^2={self.signal:g}$, $\\sigma^2={self.noise:g}$",
        )

    def _second_minimum(self) -> float:
        r"""$\frac r{r-\sigma}$; infinite if the risk falls for ever beyond the peak."""
        gap = np.sqrt(self.signal) - np.sqrt(self.noise)
        return float(np.sqrt(self.signal) / gap) if gap > 0.0 else float("inf")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        risk, last = over_seeds(dataset).excess_mse.values, self.ratios()[-1]
        numbers = {}
        if "threshold" in dataset:
            numbers |= {
                "threshold": Number(
                    dataset.threshold, "interpolation threshold: dimensions per sample γ = p/n of the peak"
                ),
                "second_minimum_ratio": Number(
                    dataset.second_minimum_ratio, "dimensions per sample γ = p/n of the second minimum of the risk"
                ),
            }
        return numbers | {
            "fewest_dimensions_excess_mse": Number(
                risk[0], f"excess risk with fewest dimensions, γ = {self.ratios()[0]:.3g}"
            ),
            "most_dimensions_excess_mse": Number(risk[-1], f"excess risk with most dimensions, γ = {last:.3g}"),
        }
