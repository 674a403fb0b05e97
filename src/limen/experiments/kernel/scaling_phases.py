"""How fast the compute-optimal loss falls: exponents over the plane of data and target, fitted and predicted."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points
from limen.experiments.number import Number
from limen.result import Findings, Result
from limen.simulation.generators import numpy_generator
from limen.theory.kernel.scaling_laws import scaling_exponents, scaling_frontier

LARGEST_ALPHA, LARGEST_BETA = 1.3, 1.3


class ScalingPhases(Experiment):
    r"""The exponent of the compute-optimal frontier in the plane $(\alpha,\beta)$, with its phase lines.

    At compute $f$ the risk is the sum of what is being learned, what $d$ features cannot hold, the distortion of the
    embedding and the noise of SGD; the best $d$ balances the two largest. Which two changes at $\alpha=\frac12$,
    $\beta=\frac12$ and $\beta=\alpha$: phases I to IV. The map is the exponent as $f\to\infty$. Beside it the frontier
    itself, at sizes up to `largest`, is fitted along a line of the plane at one $\alpha$: the second witness is the
    mean risk of SGD, computed for every size without a draw, on another grid of sizes for every seed. Near phase lines,
    and in phase IV, the limit is reached slowly.
    Source: Paquette, Paquette, Xiao & Pennington 2024.
    """

    name: ClassVar[str] = "scaling-phases"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Exponents of compute-optimal training over the plane of data and target, in phases."
    citations: ClassVar[tuple[str, ...]] = ("paquette2024",)
    size_field: ClassVar[str] = "largest"
    default_seeds: ClassVar[int] = 8
    compared: ClassVar[tuple[str, ...] | None] = ("exponent",)
    quick: ClassVar[dict[str, float]] = {"largest": 20_000, "sizes": 4, "points": 2}

    alpha: float = Field(1.0, ge=0.55, le=1.3, description="α at which the frontier is computed")
    largest: int = Field(1_000_000, ge=1000, le=10_000_000, description="largest model size d of the frontier")
    sizes: int = Field(9, ge=4, le=60, description="model sizes, even in the logarithm")
    points: int = Field(5, ge=2, le=30, description="values of β at which the frontier is fitted")

    def betas(self) -> np.ndarray:
        """Values of β along the line."""
        return np.linspace(0.1, LARGEST_BETA, self.points)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        found = [scaling_exponents(self.alpha, beta).risk for beta in self.betas()]
        return Findings(xr.Dataset({"exponent": ("beta", found)}, {"beta": self.betas()}), True, "exponents, exactly.")

    def train(self, seed: int) -> Findings:
        shift = numpy_generator(seed, self.largest, "sizes of a frontier").uniform(0.5, 1.0)
        features = np.unique((shift * np.geomspace(self.largest / 3000, self.largest, self.sizes)).astype(int))
        fitted = []
        for beta in self.betas():
            size = scaling_exponents(self.alpha, beta).size
            # Compute at which sizes a few times the smallest and below the largest are best, to a factor of order one.
            compute = np.geomspace((8.0 * features[0]) ** (1.0 / size), (features[-1] / 8.0) ** (1.0 / size), 15)
            risk, best = scaling_frontier(self.alpha, beta, features, compute, ambient_per_feature=4.0)
            inside = (best > features[0]) & (best < features[-1])
            inside = inside if inside.sum() > 3 else np.ones_like(inside)
            fitted.append(-np.polyfit(np.log(compute[inside]), np.log(risk[inside]), 1)[0])
        dataset = xr.Dataset({"exponent": (("seed", "beta"), [fitted])}, {"beta": self.betas(), "seed": [seed]})
        return Findings(dataset.assign_attrs(d=self.largest), True, "frontier of the mean risk of SGD, fitted.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        alphas, betas = np.linspace(0.26, LARGEST_ALPHA, 80), np.linspace(0.02, LARGEST_BETA, 80)
        values = np.array(
            [[scaling_exponents(a, b).risk if 2 * (a + b) > 1.0 else np.nan for a in alphas] for b in betas]
        )
        half, wide = [0.5, 0.5], [0.0, LARGEST_BETA]
        marks: list[Mark] = [
            Map(alphas, betas, values, "exponent of the risk (theory)"),
            Line(half, wide, "phase lines", 6),
            Line([0.26, LARGEST_ALPHA], half, "", 6),
            Line([0.5, LARGEST_ALPHA], [0.5, LARGEST_ALPHA], "", 6),
        ]
        panels = [Panel("data, $\\alpha$", "target, $\\beta$", marks)]
        fine = np.linspace(0.05, LARGEST_BETA, 200)
        line: list[Mark] = [Line(fine, [scaling_exponents(self.alpha, b).risk for b in fine], "limit", 0)]
        if simulation is not None:
            line.append(Points(self.betas(), simulation.dataset.exponent.values[0], None, "frontier, fitted", 0))
        panels.append(Panel(f"target, $\\beta$ (at $\\alpha={self.alpha:g}$)", "exponent of the risk", line))
        return Figure(panels, title="Compute-optimal exponents and their phases")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        values = dataset.exponent.values.reshape(-1, self.points)[0]
        betas = self.betas()
        return {
            "first_exponent": Number(float(values[0]), f"exponent of the risk, β = {betas[0]:.2g}"),
            "last_exponent": Number(float(values[-1]), f"exponent of the risk, β = {betas[-1]:.2g}"),
        }
