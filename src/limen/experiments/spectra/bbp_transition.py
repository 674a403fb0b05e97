"""When does a direction show in the spectrum? The transition of Baik, Ben Arous and Péché."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.spectra.spiked_covariance import spiked_top
from limen.theory.spectra import CovarianceLaw, MarchenkoPastur

WEAK, STRONG, WINDOW = 5, 12, 5


class BBPTransition(Experiment):
    r"""One population eigenvalue $\ell$ among ones: the top of the sample spectrum against the strength of the spike.

    With $p/n\to\gamma$ the largest sample eigenvalue leaves the bulk iff $\ell>1+\sqrt\gamma$. Then it sits at
    $\ell\big(1+\frac\gamma{\ell-1}\big)$ and its eigenvector keeps the squared overlap
    $\frac{1-\gamma/(\ell-1)^2}{1+\gamma/(\ell-1)}$ with the population direction; below, the direction is lost.

    What to see: both curves leave their floor at the threshold, the overlap with a kink, the eigenvalue smoothly.
    At finite size the transition is smeared over a window of relative width $p^{-1/3}$: points closer than
    $4p^{-1/3}$ are drawn but not compared. Below the threshold the comparison uses the leading order in $p$: the
    edge with its Tracy–Widom mean, and the overlap $\frac{\gamma\ell}{p\,(1+\sqrt\gamma-\ell)^2}$ of an eigenvector
    at the edge. Sources: Baik, Ben Arous & Péché 2005; Paul 2007; Ledoit & Péché 2011.
    """

    name: ClassVar[str] = "bbp-transition"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "A planted direction shows in the spectrum only above a sharp strength."
    citations: ClassVar[tuple[str, ...]] = ("baik2005", "paul2007", "ledoit2011", "johnstone2001")
    default_seeds: ClassVar[int] = 512
    compared: ClassVar[tuple[str, ...] | None] = ("top_eigenvalue", "squared_overlap")
    quick: ClassVar[dict[str, float]] = {"d": 250}
    quick_seeds: ClassVar[int] = 256

    ratio: float = Field(0.5, ge=1e-6, le=10.0, description="dimensions per sample γ = p/n")
    strongest: float = Field(4.0, gt=1.0, le=1000.0, description="largest spike ℓ")
    d: int = Field(400, ge=50, le=4_000, description="dimension p of the covariance")

    @model_validator(mode="after")
    def _check(self) -> "BBPTransition":
        least = self.threshold + self.window
        if self.strongest <= least:
            raise InputError(f"strongest must be above 1 + √γ and its window, {least:.4g}, got {self.strongest:g}.")
        return self

    @property
    def threshold(self) -> float:
        r"""$1+\sqrt\gamma$."""
        return float(1.0 + np.sqrt(self.ratio))

    @property
    def window(self) -> float:
        """Half-width of the window around the threshold in which finite size rules."""
        return float(min(4.0 * self.d ** (-1.0 / 3.0), 0.9) * np.sqrt(self.ratio))

    @property
    def samples(self) -> int:
        """n."""
        return max(1, round(self.d / self.ratio))

    def spikes(self) -> np.ndarray:
        """Strengths that are compared."""
        weak = np.linspace(1.0, self.threshold - self.window, WEAK)
        return np.concatenate([weak, np.linspace(self.threshold + self.window, self.strongest, STRONG)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        value, overlap = self._limit(self.spikes(), at_size=True)
        dataset = xr.Dataset(
            {
                "top_eigenvalue": ("spike", value),
                "squared_overlap": ("spike", overlap),
                "threshold": self.threshold,
            },
            coords={"spike": self.spikes()},
        )
        status = f"exact; below the threshold {self.threshold:.4g} to leading order in p."
        return Findings(dataset, True, status)

    def _limit(self, spikes: np.ndarray, at_size: bool) -> tuple[np.ndarray, np.ndarray]:
        bulk = MarchenkoPastur(self.ratio)
        law = CovarianceLaw(1.0, 1.0, self.ratio)
        floor = bulk.largest_eigenvalue(self.samples).mean if at_size else bulk.edges[1]
        values, overlaps = np.full(spikes.shape, floor), np.zeros(spikes.shape)
        for i, spike in enumerate(spikes):
            outlier = law.outlier(float(spike)) if spike > self.threshold else None
            if outlier is not None:
                values[i], overlaps[i] = outlier.location, outlier.overlap_squared
            elif at_size:
                overlaps[i] = self.ratio * spike / (self.d * (self.threshold - spike) ** 2)
        return values, overlaps

    def train(self, seed: int) -> Findings:
        far = self.spikes()
        near = np.linspace(self.threshold - self.window, self.threshold + self.window, WINDOW + 2)[1:-1]
        top = spiked_top(np.concatenate([far, near]), self.d, self.samples, seed)
        dataset = xr.Dataset(
            {
                "top_eigenvalue": (("seed", "spike"), top.values[None, : far.size]),
                "squared_overlap": (("seed", "spike"), top.overlaps[None, : far.size]),
                "top_eigenvalue_in_window": (("seed", "spike_in_window"), top.values[None, far.size :]),
                "squared_overlap_in_window": (("seed", "spike_in_window"), top.overlaps[None, far.size :]),
            },
            coords={"spike": far, "spike_in_window": near, "seed": [seed]},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{self.samples} samples.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        fine = np.linspace(1.0, self.strongest, 400)
        panels = []
        labels = {"top_eigenvalue": r"largest eigenvalue $\hat\lambda$", "squared_overlap": r"squared overlap $q^2$"}
        for (name, label), limit in zip(labels.items(), self._limit(fine, at_size=False), strict=True):
            # One legend is enough; in the other panel it would stand in the way of the curve.
            words = ("theory", "leading order in $p$") if name == "squared_overlap" else ("", "")
            weak = theory.dataset.spike.values < self.threshold
            marks: list[Mark] = [
                Line(fine, limit, words[0]),
                Line(theory.dataset.spike.values[weak], theory.dataset[name].values[weak], words[1], 2, dashed=True),
            ]
            if simulation is not None:
                data = simulation.dataset
                runs = [f"$p={self.d}$, {counted(len(simulation.seeds), 'draw')}", "in the window (not compared)"]
                for colour, place in enumerate(("", "_in_window")):
                    mean, error = mean_and_error(data[f"{name}{place}"].values)
                    at = data[f"spike{place}"].values
                    marks.append(Points(at, mean, error, runs[colour] if words[0] else "", colour))
            marks.append(Threshold(r"$1+\sqrt{\gamma}$", x=self.threshold))
            panels.append(Panel(r"spike $\ell$ (population eigenvalue)", label, marks))
        return Figure(panels, title=f"One spike in a covariance, $\\gamma=p/n={self.ratio:g}$")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last, spike = over_seeds(dataset).isel(spike=-1), f"spike ℓ = {self.strongest:g}"
        numbers = {}
        if "threshold" in dataset:
            numbers["threshold"] = Number(
                dataset.threshold, f"spike ℓ above which the direction shows, γ = {self.ratio:g}"
            )
        return numbers | {
            "strongest_top_eigenvalue": Number(last.top_eigenvalue, f"largest sample eigenvalue, {spike}"),
            "strongest_squared_overlap": Number(
                last.squared_overlap, f"squared overlap of the top eigenvector with the direction, {spike}"
            ),
        }
