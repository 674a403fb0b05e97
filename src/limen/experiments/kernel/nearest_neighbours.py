"""Bias and variance in their plainest form: how many neighbours to average."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.special import gamma

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.nearest_neighbours import nearest_neighbour_errors
from limen.theory.kernel.interpolating_smoother import SmootherRisk, nearest_neighbour_risk

POINTS = 16
# The farthest neighbours of interest, and how far places stay from the boundary.
REACH, MARGIN = 0.2, 0.25


class NearestNeighbours(Experiment):
    r"""Regression by the mean label of the $k$ nearest of $n$ inputs, uniform on the unit cube.

    The noise averages out, the neighbours move away. With $v_d$ the volume of the unit ball and $\Delta f$ the
    Laplacian of the target,
    $$\text{variance}=\frac{\sigma^2}k,\qquad
      \text{bias}=\frac{\Delta f}{2(d+2)}\,\frac{\Gamma(k+1+2/d)}{k!}\,(nv_d)^{-2/d}\approx
      \frac{\Delta f}{2(d+2)}\Big(\frac k{nv_d}\Big)^{2/d}.$$

    What to see: $k=1$ interpolates and keeps all the noise, large $k$ blurs; the best $k$ grows like $n^{4/(4+d)}$. In
    logarithmic axes the two branches have slopes $-1$ and $4/d$. Points of no curvature have no bias at this order.
    Sources: Cover & Hart 1967; Györfi, Kohler, Krzyżak & Walk 2002, chapter 6.
    """

    name: ClassVar[str] = "nearest-neighbours"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Few neighbours keep the noise, many blur the target; the best number lies between."
    citations: ClassVar[tuple[str, ...]] = ("cover1967", "gyorfi2002")
    size_field: ClassVar[str] = "samples"
    default_seeds: ClassVar[int] = 768
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse", "bias", "variance_mse")
    quick: ClassVar[dict[str, float]] = {"samples": 1000}
    quick_seeds: ClassVar[int] = 384

    dimension: int = Field(2, ge=1, le=4, description="dimension d of the inputs")
    noise: float = Field(1.0, ge=0.0, le=100.0, description="variance σ² of the label noise")
    laplacian: float = Field(60.0, ge=0.0, le=1000.0, description="Laplacian Δf of the target")
    samples: int = Field(4_000, ge=200, le=200_000, description="number n of samples")

    def neighbours(self) -> np.ndarray:
        """Numbers of neighbours, as many as lie within 0.2 of a point."""
        d = self.dimension
        most = self.samples * np.pi ** (d / 2) / gamma(1 + d / 2) * REACH**d
        return np.unique(np.geomspace(1, max(2.0, most), POINTS).astype(int))

    def _risk(self, neighbours: int) -> SmootherRisk:
        return nearest_neighbour_risk(
            self.samples, neighbours, dimension=self.dimension, noise=self.noise, laplacian=self.laplacian
        )

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        counts = self.neighbours()
        risks = [self._risk(int(k)) for k in counts]
        dataset = xr.Dataset(
            {
                "excess_mse": ("neighbours", [risk.test for risk in risks]),
                "bias": ("neighbours", [np.sqrt(risk.squared_bias) for risk in risks]),
                "variance_mse": ("neighbours", [risk.variance for risk in risks]),
                "best_neighbours": float(self._best()),
            },
            coords={"neighbours": counts},
        )
        status = "leading order in neighbours per sample."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        counts = self.neighbours()
        blur, noise = nearest_neighbour_errors(
            self.samples,
            int(counts[-1]),
            dimension=self.dimension,
            noise=self.noise,
            laplacian=self.laplacian,
            margin=MARGIN,
            seed=seed,
        )
        blur, noise = blur[:, counts - 1], noise[:, counts - 1]
        values = {"excess_mse": (blur + noise) ** 2, "bias": blur, "variance_mse": noise**2}
        dataset = xr.Dataset(
            {name: (("seed", "neighbours"), value.mean(axis=0)[None]) for name, value in values.items()},
            coords={"neighbours": counts, "seed": [seed]},
            attrs={"d": self.samples},
        )
        status = f"errors at {len(blur)} places of one data set."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        counts = theory.dataset.neighbours.values
        every = np.unique(np.geomspace(1, counts[-1], 200).astype(int))
        risks = [self._risk(int(k)) for k in every]
        errors: list[Mark] = [
            Line(every, [risk.test for risk in risks], "risk, theory"),
            Line(every, [risk.squared_bias for risk in risks], "squared bias, theory", colour=1, dashed=True),
            Line(every, [risk.variance for risk in risks], "variance, theory", colour=2, dashed=True),
        ]
        blur: list[Mark] = [Line(every, [np.sqrt(risk.squared_bias) for risk in risks], "theory", colour=1)]
        if simulation is not None:
            data = simulation.dataset
            errors.append(Points(counts, *mean_and_error(data.excess_mse.values), "risk, simulation"))
            errors.append(Points(counts, *mean_and_error(data.variance_mse.values), "variance, simulation", colour=2))
            blur.append(Points(counts, *mean_and_error(data.bias.values), "simulation", colour=1))
        best = int(theory.dataset.best_neighbours)
        mark = [Threshold(rf"best $k={best}$", x=float(best))] if 1 < best < counts[-1] else []
        smallest = min(risk.test for risk in risks)
        top = 1.5 * max(risk.test for risk in risks)
        # A target or noise of zero has nothing to show in logarithmic axes.
        heights = (smallest / 20.0, top) if smallest > 0.0 else None
        label = r"neighbours $k$"
        return Figure(
            [
                Panel(
                    label, "excess risk", [*errors, *mark], x_scale="log", y_scale="log" if heights else "linear",
                    y_range=heights,
                ),
                Panel(label, r"bias of $\hat f_k$", blur),
            ],
            title=f"Nearest neighbours, $n={self.samples}$, $d={self.dimension}$, $\\sigma^2={self.noise:g}$",
        )  # fmt: skip

    def _best(self) -> int:
        """The number of neighbours of least risk."""
        every = np.arange(1, int(self.neighbours()[-1]) + 1)
        return int(every[np.argmin([self._risk(int(k)).test for k in every])])

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset).excess_mse.values
        numbers = {}
        if "best_neighbours" in dataset:
            numbers["best_neighbours"] = Number(
                dataset.best_neighbours, "number k of neighbours of least risk", "neighbours"
            )
        return numbers | {
            "least_excess_mse_on_grid": Number(mean.min(), f"least excess risk over all k tried, n = {self.samples}"),
            "one_neighbour_excess_mse": Number(mean[0], "excess risk of one neighbour, k = 1"),
        }
