"""The bulk of a sample covariance: a few population eigenvalues, spread out by many dimensions and few samples."""

from functools import cached_property
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Histogram, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.result import Findings, Result
from limen.simulation.spectra.random_matrices import draw_covariance, population_spectrum
from limen.theory.spectra import CovarianceLaw
from limen.theory.spectra.marchenko_pastur import TRACY_WIDOM_MEAN

POINTS_PER_BAND = 15
BINS = 60


class MarchenkoPasturBulk(Experiment):
    r"""Eigenvalues of $\hat\Sigma=\frac1nX^\top X$ when $\Sigma$ has few distinct eigenvalues and $p/n\to\gamma$.

    Each population eigenvalue spreads into a band; bands merge as $\gamma$ grows. The companion transform $v$ solves
    $z=-\frac1v+\gamma E_H\frac s{1+sv}$ over the population spectrum $H$, and the density is its imaginary part on the
    real axis. With one eigenvalue 1 this is the Marchenko–Pastur law on $[(1-\sqrt\gamma)^2,(1+\sqrt\gamma)^2]$.

    What to see: the histogram fills the predicted bands and leaves the gaps empty; for $\gamma>1$ the part
    $1-1/\gamma$ of all eigenvalues is 0. The eigenvalues next to an edge stay inside it by $1.2065\,(\pi
    pC)^{-2/3}$ on average, where the density is $C\sqrt{|x-x_e|}$ (Tracy–Widom); this is what `edge_eigenvalue`
    compares. Sources: Marchenko & Pastur 1967; Silverstein 1995; Johnstone 2001.
    """

    name: ClassVar[str] = "marchenko-pastur"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Population eigenvalues spread into bands with sharp edges."
    citations: ClassVar[tuple[str, ...]] = ("marchenko1967", "silverstein1995", "johnstone2001")
    default_seeds: ClassVar[int] = 48
    compared: ClassVar[tuple[str, ...] | None] = ("distribution", "edge_eigenvalue")
    quick: ClassVar[dict[str, float]] = {"d": 100}
    quick_seeds: ClassVar[int] = 48

    ratio: float = Field(0.3, ge=1e-6, le=20.0, description="dimensions per sample γ = p/n")
    values: NumberList = Field((1.0, 4.0, 10.0), description="population eigenvalues s, e.g. '1, 4, 10'")
    weights: NumberList = Field((0.5, 0.3, 0.2), description="their proportions, which sum to 1")
    d: int = Field(300, ge=20, le=5_000, description="dimension p of the covariance")

    @model_validator(mode="after")
    def _check(self) -> "MarchenkoPasturBulk":
        CovarianceLaw(self.values, self.weights, self.ratio)
        return self

    @cached_property
    def law(self) -> CovarianceLaw:
        """The limiting spectrum."""
        return CovarianceLaw(self.values, self.weights, self.ratio)

    def grid(self) -> np.ndarray:
        """Points inside every band and one in every gap."""
        bands = self.law.edges().reshape(-1, 2)
        inside = [np.linspace(left, right, POINTS_PER_BAND + 2)[1:-1] for left, right in bands]
        return np.sort(np.concatenate([*inside, self.law.gaps.mean(axis=1)]))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        edges, grid = self.law.edges(), self.grid()
        inward = np.tile([1.0, -1.0], len(edges) // 2)
        spacing = (np.pi * self.d * self.law.edge_coefficients()) ** (-2.0 / 3.0)
        dataset = xr.Dataset(
            {
                "distribution": ("eigenvalue", self.law.cdf(grid)),
                "density": ("eigenvalue", self.law.density(grid)),
                "edge_eigenvalue": ("edge", edges - TRACY_WIDOM_MEAN * inward * spacing),
                "bulk_edge": ("edge", edges),
            },
            coords={"eigenvalue": grid},
        )
        status = f"exact, {len(edges) // 2} band(s), mass {self.law.atom:.4g} at zero."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        samples = max(1, round(self.d / self.ratio))
        rows = draw_covariance(population_spectrum(self.d, self.values, self.weights), samples, seed)
        small = rows.T @ rows if self.d <= samples else rows @ rows.T
        nonzero = np.linalg.eigvalsh(small / samples)
        eigenvalues = np.concatenate([np.zeros(self.d - len(nonzero)), nonzero])
        grid = self.grid()
        dataset = xr.Dataset(
            {
                "distribution": (("seed", "eigenvalue"), [np.searchsorted(eigenvalues, grid, "right") / self.d]),
                "edge_eigenvalue": (("seed", "edge"), [self._ends_of_bands(eigenvalues)]),
                "spectrum": (("seed", "rank"), [eigenvalues]),
            },
            coords={"eigenvalue": grid, "seed": [seed]},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{samples} samples.")

    def _ends_of_bands(self, eigenvalues: np.ndarray) -> np.ndarray:
        """Least and largest non-zero eigenvalue of every band; bands are told apart at the middle of the gaps."""
        positive = eigenvalues[eigenvalues > 1e-10 * eigenvalues[-1]]
        parts = np.split(positive, np.searchsorted(positive, self.law.gaps.mean(axis=1)))
        return np.array([end for part in parts for end in ((part[0], part[-1]) if part.size else (np.nan, np.nan))])

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        edges = self.law.edges()
        bands = edges.reshape(-1, 2)
        fine = [0.5 * (a + b) - 0.5 * (b - a) * np.cos(np.linspace(0.0, np.pi, 202)[1:-1]) for a, b in bands]
        low = max(edges[0], 1e-3 * edges[-1])
        density: list[Mark] = []
        x = np.concatenate(fine)
        distribution: list[Mark] = [Line(x, self.law.cdf(x), "theory")]
        if simulation is not None:
            spectrum = simulation.dataset.spectrum.values
            positive = spectrum[spectrum > 1e-10 * spectrum.max()]
            counts, bins = np.histogram(
                positive, np.geomspace(0.9 * max(low, positive.min()), 1.1 * edges[-1], BINS + 1)
            )
            label = f"{counted(len(simulation.seeds), 'draw')}"
            density.append(Histogram(bins, counts / (spectrum.size * np.diff(np.log(bins))), label))
            mean, error = mean_and_error(simulation.dataset.distribution.values)
            distribution.append(Points(self.grid()[::2], mean[::2], error[::2], label))
        curves = [part * self.law.density(part) for part in fine]
        density += [
            Line(part, curve, "" if i else "theory", colour=1)
            for i, (part, curve) in enumerate(zip(fine, curves, strict=True))
        ]
        # Room above the bands for the legend.
        top = 1.35 * float(np.concatenate(curves).max())
        outer = {0: r"$\lambda_-$", len(edges) - 1: r"$\lambda_+$"}
        density += [Threshold(outer.get(i, ""), x=float(edge)) for i, edge in enumerate(edges) if edge >= low]
        label, scale = r"eigenvalue $x$", {"x_scale": "log", "x_range": (0.8 * low, 1.25 * edges[-1])}
        return Figure(
            [
                Panel(label, r"density of $\log x$, $x\rho(x)$", density, y_range=(0.0, top), **scale),
                Panel(label, r"part of eigenvalues below $x$", distribution, **scale),
            ],
            title=f"Sample covariance, $\\gamma=p/n={self.ratio:g}$, $p={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        ends = over_seeds(dataset).edge_eigenvalue.values
        numbers = {
            "smallest_eigenvalue": Number(ends[0], f"smallest positive sample eigenvalue, p = {self.d}"),
            "largest_eigenvalue": Number(ends[-1], f"largest sample eigenvalue, p = {self.d}"),
        }
        if "bulk_edge" in dataset:
            edges = dataset.bulk_edge.values
            numbers |= {
                "left_edge": Number(max(0.0, edges[0]), f"left edge of the spectrum as p → ∞, γ = {self.ratio:g}"),
                "right_edge": Number(edges[-1], f"right edge of the spectrum as p → ∞, γ = {self.ratio:g}"),
                "bands": Number(len(edges) / 2, "number of bands of the spectrum", "bands"),
            }
        return numbers
