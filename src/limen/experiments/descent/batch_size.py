"""Batch size and rate for the same number of samples seen: the map, and its best point."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.descent.cases import SeveralTrainings, means
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, mean_and_error
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.result import Result


class BatchSize(SeveralTrainings):
    r"""SGD in batches of $bn$ of the $n=\delta d$ samples, at step $\eta$, until it has looked at `passes` times $n$
    samples: $\text{passes}/b$ steps. Which batch and which step give the smallest test loss at that cost?

    Batches enter the mean-field equations as a random factor $\mathrm{sel}(t)\in\{0,1/b\}$ at the force of each sample.
    The map is from theory alone; every point of it is also trained.

    What to see: along lines of equal $\eta/b$ the loss hardly changes while steps are small, since $1/b$ steps of
    $\eta$ go as far as one; small batches with small steps are as good as any. At large $\eta/b$ the noise of the
    batches, which grows with $\eta/(b\delta)$, sends the loss up, and for each batch there is a best step. The whole
    sample at once cannot go far enough: its best step is bounded by the curvature. Source: Mignacco et al. 2020,
    Gerbelot et al. 2022.
    """

    name: ClassVar[str] = "batch-size"
    summary: ClassVar[str] = "Test loss after the same number of samples seen, against batch and step."
    citations: ClassVar[tuple[str, ...]] = ("gerbelot2022",)
    default_seeds: ClassVar[int] = 192
    quick: ClassVar[dict[str, Any]] = {"d": 320, "fractions": (1.0, 0.5), "rates": (0.2, 0.4), "passes": 2}
    quick_seeds: ClassVar[int] = 144

    samples_per_dim: float = Field(4.0, ge=0.01, le=100.0, description="samples per dimension δ = n/d")
    fractions: NumberList = Field((1.0, 0.5, 0.25, 0.125), description="batches, as fractions b of the sample")
    rates: NumberList = Field((0.1, 0.2, 0.4, 0.8, 1.6), description="steps η")
    passes: int = Field(4, ge=1, le=20, description="samples seen, in units of n")
    replacement: bool = Field(True, description="batches drawn anew at each step; else by epochs")
    d: int = Field(400, ge=10, le=5_000, description="dimension of the inputs")

    def check(self) -> None:
        if not 1 <= len(self.fractions) <= 6 or not 1 <= len(self.rates) <= 8:
            raise InputError("fractions must be 1 to 6 numbers and rates 1 to 8.")
        if min(self.fractions) <= 0.0 or self.passes / min(self.fractions) > 200.0:
            raise InputError(f"fractions must be at least passes / 200 = {self.passes / 200:g}, got {self.fractions}.")

    def problems(self) -> list[TwoLayer]:
        """The learning problem at each batch, then at each step."""
        return [
            self.problem(GradientDescent(rate, batch_fraction=fraction, replacement=self.replacement))
            for fraction in self.fractions
            for rate in self.rates
        ]

    def times(self) -> list[np.ndarray]:
        return [np.rint([0.0, self.passes / fraction]) for fraction in self.fractions for _ in self.rates]

    def case(self) -> xr.Variable:
        return xr.Variable("setting", np.arange(len(self.fractions) * len(self.rates)))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        shape = (len(self.fractions), len(self.rates))
        last, rates = theory.dataset.test_loss.values[:, -1].reshape(shape), np.asarray(self.rates)
        curves: list[Mark] = []
        for i, fraction in enumerate(self.fractions):
            curves.append(Line(rates, last[i], f"$b={fraction:g}$", i, spots=True))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.test_loss.values[:, :, -1])
                curves.append(Points(rates, mean.reshape(shape)[i], error.reshape(shape)[i], "", i))
        order = np.argsort(self.fractions)
        shown = np.where(np.isfinite(last), last, np.nan)[order]
        # Losses beside divergence are larger by powers of ten.
        wide = np.nanmax(shown, initial=0.0) > 10.0 * np.nanmin(shown, initial=np.inf)
        values, words = (np.log10(shown), r"$\log_{10}$ test loss") if wide else (shown, "test loss")
        chart = Map(rates, np.asarray(self.fractions)[order], values, words)
        seen = rf"test loss after ${self.passes}n$ samples"
        panels = [
            Panel(r"step $\eta$", seen, curves, x_scale="log"),
            Panel(r"step $\eta$", "batch fraction $b$", [chart], "theory", x_scale="log", y_scale="log"),
        ]
        return Figure(panels, title=f"Batch size: $n/d={self.samples_per_dim:g}$, $d={self.d}$")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = means(dataset).test_loss.values[:, -1].reshape(len(self.fractions), len(self.rates))
        i, j = np.unravel_index(int(np.nanargmin(last)), last.shape)
        found = {
            "best_loss": Number(last[i, j], "smallest test loss on the map"),
            "best_fraction": Number(self.fractions[i], "its batch, as a fraction of the sample"),
            "best_rate": Number(self.rates[j], "its step"),
        }
        for row, fraction in enumerate(self.fractions):
            finite = np.where(np.isfinite(last[row]), last[row], np.inf)
            best = int(finite.argmin())
            words = f"smallest test loss with batches of {fraction:g} n"
            found[f"best_loss_{fraction:g}"] = Number(finite[best], words)
            words = f"its step, beyond which larger ones hurt, with batches of {fraction:g} n"
            found[f"best_rate_{fraction:g}"] = Number(self.rates[best] if np.isfinite(finite[best]) else np.nan, words)
        return found
