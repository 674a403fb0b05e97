"""What uniform convergence promises, and what least squares pays."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.capacity import uniform_gaps
from limen.theory.kernel.classification.uniform_gap import least_squares_gap, uniform_gap

WIDEST, NARROWEST, EACH_SIDE, SHOWN = 5.0, 1.6, 5, 10.0
VARIABLES = ("empirical_above", "true_above", "least_squares")


class UniformConvergence(Experiment):
    r"""$\sup_{\|\theta\|\le\rho}|\hat R-R|$ of linear regression, exactly, beside the gap of the fit it should bound.

    For $x\sim N(0,I_d)$, $y=\langle\beta,x\rangle+\varepsilon$ and the square loss both suprema are trust-region
    problems; as $d/n\to\gamma$ they tend to
    $$\sup\varsigma(\hat R-R)=\min_{\mu}\ \rho^2\mu+\int\frac{r^2l^2+\sigma^2\gamma s}{\mu-l},\qquad l=\varsigma(s-1),$$
    $\varsigma=\pm1$, $s$ of the Marchenko–Pastur law. Least squares has the gap
    $\sigma^2\big(\frac1{1-\gamma}-(1-\gamma)\big)$ for $\gamma<1$ and
    $r^2(1-\frac1\gamma)+\frac{\sigma^2\gamma}{\gamma-1}$ beyond, where it interpolates.

    What to see: with few samples per dimension the worst $\theta$ of the ball is several times worse than the fit;
    with many ($\gamma\to0$) the supremum falls like $\sqrt\gamma$, the gap of the fit like $\gamma$: the ratio of the
    two grows. Near $\gamma=1$ the fit leaves every ball. Sources: Bartlett & Mendelson 2002 for the bounds; Nagarajan &
    Kolter 2019 for how they fail.
    """

    name: ClassVar[str] = "uniform-gap"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The uniform deviation over a ball is many times the gap of the least squares fit in it."
    citations: ClassVar[tuple[str, ...]] = ("bartlett2002", "nagarajan2019", "hastie2022")
    default_seeds: ClassVar[int] = 256
    compared: ClassVar[tuple[str, ...] | None] = VARIABLES
    quick: ClassVar[dict[str, float]] = {"d": 150}
    quick_seeds: ClassVar[int] = 304

    noise: float = Field(0.25, ge=0.0, le=100.0, description="variance σ² of the label noise")
    signal: float = Field(1.0, gt=0.0, le=10.0, description="norm r of the coefficients")
    radius: float = Field(1.25, ge=1e-6, le=100.0, description="radius ρ of the ball")
    d: int = Field(100, ge=20, le=1_000, description="dimension d of the inputs; samples are d/γ")

    def ratios(self) -> np.ndarray:
        """Ratios that are compared, each a whole number of samples."""
        away = np.geomspace(NARROWEST, WIDEST, EACH_SIDE)
        return self.d / np.round(self.d / np.concatenate([1.0 / away[::-1], away]))

    def _limits(self, ratios: np.ndarray) -> np.ndarray:
        """The three gaps, shape (ratio, gap)."""
        rows = []
        for ratio in ratios:
            ball = uniform_gap(float(ratio), self.radius, self.noise, self.signal)
            fit = least_squares_gap(float(ratio), self.noise, self.signal)
            rows.append((ball.empirical_above, ball.true_above, fit.gap))
        return np.array(rows)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        ratios = self.ratios()
        values = self._limits(ratios)
        dataset = xr.Dataset(
            {name: ("ratio", values[:, i]) for i, name in enumerate(VARIABLES)}, coords={"ratio": ratios}
        )
        return Findings(dataset, True, "exact.")

    def train(self, seed: int) -> Findings:
        ratios = self.ratios()
        gaps = [
            uniform_gaps(float(ratio), self.radius, self.noise, self.signal, dimension=self.d, seed=seed)
            for ratio in ratios
        ]
        dataset = xr.Dataset(
            {name: (("seed", "ratio"), [[getattr(gap, name) for gap in gaps]]) for name in VARIABLES},
            coords={"ratio": ratios, "seed": [seed]},
            attrs={"d": self.d},
        )
        status = "suprema found exactly on each data set."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        away = np.geomspace(1.01, SHOWN, 120)
        words = (r"$\sup(\hat R-R)$", r"$\sup(R-\hat R)$", r"$R-\hat R$ of least squares")
        gaps: list[Mark] = []
        overshoot: list[Mark] = []
        highest, compared = 0.0, False
        for first, ratios in zip((True, False), (1.0 / away[::-1], away), strict=True):
            values = self._limits(ratios)
            gaps += [Line(ratios, values[:, i], word if first else "", i) for i, word in enumerate(words)]
            fits = [least_squares_gap(float(ratio), self.noise, self.signal).squared_norm for ratio in ratios]
            # The comparison is fair only where the ball holds the fit.
            inside = np.array(fits) <= self.radius**2
            share = np.where(inside & (values[:, 2] > 0.0), values[:, 1] / np.maximum(values[:, 2], 1e-300), np.nan)
            overshoot.append(Line(ratios, share, "theory" if first else "", 3))
            highest, compared = max(highest, float(values.max())), compared or bool(np.isfinite(share).any())
        if simulation is not None:
            data = simulation.dataset
            x = data.ratio.values
            for i, name in enumerate(VARIABLES):
                label = f"$d={self.d}$, {counted(len(simulation.seeds), 'run')}" if i == 0 else ""
                gaps.append(Points(x, *mean_and_error(data[name].values), label, i))
            fits = [least_squares_gap(float(ratio), self.noise, self.signal).squared_norm for ratio in x]
            inside = np.array(fits) <= self.radius**2
            if self.noise > 0.0:
                above, fit = data.true_above.values, data.least_squares.values
                share = above.mean(axis=0) / fit.mean(axis=0)
                # The error of a ratio of means, to first order.
                _, error = mean_and_error(share * (above / above.mean(axis=0) - fit / fit.mean(axis=0)))
                overshoot.append(Points(x[inside], share[inside], error[inside], "runs", 3))
        limit = Threshold(r"$\gamma=1$", x=1.0)
        label, shown = r"dimensions per sample $\gamma=d/n$", (1.0 / SHOWN, SHOWN)
        panels = [
            Panel(
                label, "gap between risk and training error", [*gaps, limit], x_scale="log", y_scale="log",
                x_range=shown, y_range=(0.03, 1.3 * highest),
            )
        ]  # fmt: skip
        if compared:
            words = r"overshoot $\sup(R-\hat R)/(R-\hat R)$"
            panels.append(Panel(label, words, [*overshoot, limit], x_scale="log", x_range=shown))
        return Figure(
            panels,
            title=rf"Uniform convergence on $\|\theta\|\leq{self.radius:g}$, $r={self.signal:g}$, "
            rf"$\sigma^2={self.noise:g}$",
        )  # fmt: skip

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        first, place = over_seeds(dataset).isel(ratio=0), f"d/n = {self.ratios()[0]:.3g}"
        words = {
            "empirical_above": f"largest excess of training error over risk in the ball, {place}",
            "true_above": f"largest excess of risk over training error in the ball, {place}",
            "least_squares": f"excess of risk over training error of least squares, {place}",
        }
        return {f"fewest_dimensions_{name}": Number(first[name], words[name]) for name in VARIABLES}
