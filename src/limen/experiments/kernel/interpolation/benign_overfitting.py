"""When interpolation is harmless: three covariances, the same noise, more and more samples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.least_squares import LeastSquaresData, draw_least_squares
from limen.simulation.kernel.ridgeless import InterpolatorRisk, interpolator_risk_of_inputs
from limen.theory.kernel.effective_ranks import BenignOverfitting as RiskOfInterpolator
from limen.theory.kernel.effective_ranks import benign_overfitting, effective_ranks

HARMLESS, TEMPERED, RUINOUS = "flat floor", "power law", "geometric"
# Those for which the equivalent is exact as the samples grow.
COMPARED = (HARMLESS, TEMPERED)
POINTS, SMALLEST = 4, 4
# The target lives on this many leading directions, evenly.
LEARNT = 5
# Eigenvalues of the infinite spectra that are kept: per sample, and in lengths of the geometric decay.
KEPT, LENGTHS = 12, 15


class BenignOverfitting(Experiment):
    r"""The least-norm interpolator of $n$ noisy labels, for three covariances $\Sigma$ of the inputs.

    *Flat floor*: $\lambda_i=e^{-i/\tau}+\frac1p$, $p=n^a$ directions, so that a floor of total variance 1 lies under a
    few leading directions. *Power law*: $\lambda_i=i^{-\alpha}$. *Geometric*: $\lambda_i=e^{-i/\tau}$, the first
    without its floor. All three fits pass through every label. With $\sum_i\frac{\lambda_i}{\lambda_i+\kappa}=n$ and
    $V=\frac1n\sum_i\frac{\lambda_i^2}{(\lambda_i+\kappa)^2}$ the noise costs $\sigma^2\frac V{1-V}$.

    What to see: the floor absorbs the noise and the risk falls to 0, as
    $\sigma^2\big(\frac{k^*}n+\frac n{R_{k^*}}\big)$ says (dashed; $k^*$ is the first $k$ with $r_k\ge n$, where $r_k$
    and $R_k$ count the directions of the tail behind $k$); under the power law the noise costs $\sigma^2(\alpha-1)$ at
    every $n$; without a floor the risk grows like $\sigma^2n/\tau$, since no tail is wide: $r_k\le\tau+1$. Runs of the
    third are drawn, not compared: only $\tau$ eigenvalues lie near $\kappa$ at any $n$, and the theory errs by a
    relative $O(1/\tau)$, 4% at $\tau=10$. Sources: Bartlett, Long, Lugosi & Tsigler 2020; Mallinar et al. 2022 for
    the three kinds.
    """

    name: ClassVar[str] = "benign-overfitting"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = (
        "Passing through noisy labels is harmless, costly or ruinous: the tail of the spectrum decides."
    )
    citations: ClassVar[tuple[str, ...]] = ("bartlett2020", "mallinar2022", "hastie2022")
    size_field: ClassVar[str] = "samples"
    default_seeds: ClassVar[int] = 64
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse",)
    quick: ClassVar[dict[str, float]] = {"samples": 160}
    quick_seeds: ClassVar[int] = 160

    noise: float = Field(0.2, gt=0.0, le=100.0, description="variance σ² of the label noise")
    decay: float = Field(10.0, ge=2.0, le=50.0, description="length τ of the geometric decay of the eigenvalues")
    growth: float = Field(1.5, ge=1.2, le=2.0, description="exponent a of the directions p = n^a of the floor")
    power: float = Field(2.0, ge=1.2, le=4.0, description="exponent α of the power law")
    samples: int = Field(200, ge=100, le=600, description="largest number of samples n")

    def counts(self) -> list[int]:
        """Numbers of samples, up to the largest."""
        return [round(count) for count in np.geomspace(self.samples / SMALLEST, self.samples, POINTS)]

    def eigenvalues(self, spectrum: str, count: int) -> np.ndarray:
        """Eigenvalues of the covariance for a number of samples, the largest first."""
        if spectrum == TEMPERED:
            return np.arange(1.0, KEPT * self.samples + 1) ** -self.power
        if spectrum == RUINOUS:
            return np.exp(-np.arange(1.0, self.samples + LENGTHS * self.decay + 1) / self.decay)
        directions = np.arange(1.0, round(count**self.growth) + 1)
        return np.exp(-directions / self.decay) + 1.0 / directions.size

    def _risks(self, spectrum: str, counts: Sequence[int]) -> list[RiskOfInterpolator]:
        many = ((self.eigenvalues(spectrum, count), count) for count in counts)
        return [benign_overfitting(values, count, self.noise, _signal(values.size)) for values, count in many]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        risks = {name: self._risks(name, self.counts()) for name in (*COMPARED, RUINOUS)}
        compared = [risks[name] for name in COMPARED]
        places = ("spectrum", "count")
        dataset = xr.Dataset(
            {
                "excess_mse": (places, [[risk.test for risk in row] for row in compared]),
                "bias_mse": (places, [[risk.bias for risk in row] for row in compared]),
                "rank_estimate": (places, [[risk.estimate for risk in row] for row in compared]),
                "split": (places, [[risk.split for risk in row] for row in compared]),
                "geometric_excess_mse": ("count", [risk.test for risk in risks[RUINOUS]]),
            },
            coords={"spectrum": list(COMPARED), "count": self.counts()},
        )
        for name in ("rank_estimate", "split"):
            dataset[name].attrs["undefined"] = "no tail of the spectrum is as wide as the number of samples"
        return Findings(dataset, True, "exact as the samples grow; of the geometric spectrum within a part 1/τ.")

    def train(self, seed: int) -> Findings:
        rows = {name: [self._risk(seed, name, count) for count in self.counts()] for name in COMPARED}
        values = self.eigenvalues(RUINOUS, self.samples)
        # One data set, of which each number of samples uses the first.
        whole = self._draw(seed, values, self.samples)
        ruinous = [
            sum(
                interpolator_risk_of_inputs(
                    replace(whole, inputs=whole.inputs[:n], labels=whole.labels[:n]), self.noise
                )
            )
            for n in self.counts()
        ]
        places = ("seed", "spectrum", "count")
        dataset = xr.Dataset(
            {
                "excess_mse": (places, [[[sum(risk) for risk in rows[name]] for name in COMPARED]]),
                "bias_mse": (places, [[[risk.bias for risk in rows[name]] for name in COMPARED]]),
                "geometric_excess_mse": (("seed", "count"), [ruinous]),
            },
            coords={"spectrum": list(COMPARED), "count": self.counts(), "seed": [seed]},
            attrs={"d": self.samples},
        )
        return Findings(dataset, True, "interpolators of drawn inputs, averaged exactly over the label noise.")

    def _risk(self, seed: int, spectrum: str, count: int) -> InterpolatorRisk:
        return interpolator_risk_of_inputs(self._draw(seed, self.eigenvalues(spectrum, count), count), self.noise)

    def _draw(self, seed: int, values: np.ndarray, count: int) -> LeastSquaresData:
        size = values.size
        return draw_least_squares(seed, size, count, self.noise, values, np.full(size, 1 / size), _signal(size))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        counts = theory.dataset["count"].values
        # Between the numbers of samples that are trained theory is a curve, not a polygon.
        fine = np.unique(np.geomspace(counts[0], counts[-1], 25).round().astype(int))
        risks: list[Mark] = []
        for colour, name in enumerate((*COMPARED, RUINOUS)):
            found = self._risks(name, fine.tolist())
            risks.append(Line(fine, [risk.test for risk in found], name, colour))
            if name != RUINOUS:
                label = f"the same, {name}" if colour else r"$\sigma^2(k^*/n+n/R_{k^*})$"
                risks.append(Line(fine, [risk.estimate for risk in found], label, colour, dashed=True))
        if simulation is not None:
            runs = simulation.dataset
            for colour, name in enumerate(COMPARED):
                risks.append(Points(counts, *mean_and_error(runs.excess_mse.sel(spectrum=name).values), colour=colour))
            risks.append(Points(counts, *mean_and_error(runs.geometric_excess_mse.values), colour=2))
        limit = self.noise * (self.power - 1.0)
        risks.append(Line(counts[[0, -1]], [limit, limit], r"$\sigma^2(\alpha-1)$", 3, dashed=True))
        ranks: list[Mark] = []
        for colour, name in enumerate((*COMPARED, RUINOUS)):
            found = effective_ranks(self.eigenvalues(name, self.samples))
            shown = np.arange(min(found.tail_rank.size, self.samples))
            ranks.append(Line(shown, found.tail_rank[shown] / self.samples, f"$r_k/n$, {name}", colour))
            spread = found.spread_rank[shown] / self.samples
            ranks.append(Line(shown, spread, f"$R_k/n$, {name}", colour, dashed=True))
        ranks.append(Threshold("$r_k=n$", y=1.0))
        return Figure(
            [
                Panel("samples $n$", "excess risk of the interpolator", risks, x_scale="log", y_scale="log"),
                Panel(
                    "leading directions $k$",
                    "effective rank of the tail, over $n$",
                    ranks,
                    y_scale="log",
                ),
            ],
            title=f"Interpolation of noisy labels, $\\sigma^2={self.noise:g}$",
            caption=rf"Right: $n={self.samples}$, full lines $r_k/n$, dashed $R_k/n$.",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = over_seeds(dataset).isel(count=-1)
        place = f"at n = {self.samples}"
        found = {
            "flat_floor_excess_mse": Number(
                last.excess_mse.sel(spectrum=HARMLESS), f"excess risk above a flat floor {place}"
            ),
            "power_law_excess_mse": Number(
                last.excess_mse.sel(spectrum=TEMPERED), f"excess risk under the power law {place}"
            ),
            "geometric_excess_mse": Number(last.geometric_excess_mse, f"excess risk without a floor {place}"),
        }
        if "split" in dataset:
            found["split"] = Number(last.split.sel(spectrum=HARMLESS), f"directions k* above the flat floor {place}")
        return found


def _signal(size: int) -> np.ndarray:
    return np.where(np.arange(size) < LEARNT, 1.0 / LEARNT, 0.0)
