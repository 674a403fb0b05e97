"""How fast the compute-optimal loss falls: exponents over the plane of data and target, fitted and predicted."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, mean_and_error
from limen.experiments.number import Number
from limen.result import Findings, Result
from limen.simulation.generators import numpy_generator
from limen.theory.kernel.scaling.scaling_laws import frontier_exponents, limit_error, scaling_exponents

LARGEST_ALPHA, LARGEST_BETA = 1.3, 1.3


class ScalingPhases(Experiment):
    r"""The exponent of the compute-optimal frontier in the plane $(\alpha,\beta)$, with its phase lines.

    At compute $f$ the risk is the sum of what is being learnt, what $d$ features cannot hold, the distortion of the
    embedding and the noise of SGD; the best $d$ balances the two largest. Which two changes at $\alpha=\frac12$,
    $\beta=\frac12$ and $\beta=\alpha$: phases I to IV. The map is the exponent as $f\to\infty$. Beside it the slope of
    the frontier itself, at sizes up to `largest`, along a line of the plane at one $\alpha$: the second witness is the
    mean risk of SGD, computed for every size without a draw, on another grid of sizes for every seed. The limit states
    its own error at these sizes, by the terms it leaves out; near phase lines, and in phase IV, it is reached slowly.
    Source: Paquette, Paquette, Xiao & Pennington 2024.
    """

    name: ClassVar[str] = "scaling-phases"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Exponents of compute-optimal training over the plane of data and target, in phases."
    citations: ClassVar[tuple[str, ...]] = ("paquette2024",)
    size_field: ClassVar[str] = "largest"
    default_seeds: ClassVar[int] = 6
    compared: ClassVar[tuple[str, ...] | None] = ("exponent",)
    quick: ClassVar[dict[str, float]] = {"largest": 1_000_000, "sizes": 6, "points": 2}

    alpha: float = Field(1.0, ge=0.55, le=1.3, description="α at which the frontier is computed")
    largest: int = Field(10_000_000, ge=10_000, le=30_000_000, description="largest model size d of the frontier")
    sizes: int = Field(7, ge=5, le=60, description="model sizes, even in the logarithm")
    points: int = Field(5, ge=2, le=30, description="values of β at which the frontier is fitted")

    def betas(self) -> np.ndarray:
        """Values of β along the line."""
        return np.linspace(0.1, LARGEST_BETA, self.points)

    def sizes_between(self) -> np.ndarray:
        """Model sizes of the frontier, over one and a half decades."""
        return np.geomspace(self.largest / 30.0, self.largest, self.sizes)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        betas, middle = self.betas(), float(np.sqrt(self.sizes_between()[0] * self.largest))
        dataset = xr.Dataset(
            {
                "exponent": ("beta", [scaling_exponents(self.alpha, beta).risk for beta in betas]),
                "limit_error": ("beta", [limit_error(self.alpha, beta, middle) for beta in betas]),
            },
            {"beta": betas},
        )
        # A bound of order of magnitude, not the spread of a normal law: read as 99% of one.
        dataset.exponent.attrs.update(error="limit_error", error_part=1.0 / 2.576)
        return Findings(dataset, True, "exponents, exactly, and how far they are at these sizes.")

    def train(self, seed: int) -> Findings:
        shift = numpy_generator(seed, self.largest, "sizes of a frontier").uniform(0.6, 1.0)
        features = (shift * self.sizes_between()).astype(int)
        fitted = [frontier_exponents(self.alpha, beta, features)[0] for beta in self.betas()]
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
            mean, error = mean_and_error(simulation.dataset.exponent.values)
            line.append(Points(self.betas(), mean, error, "frontier, fitted", 0))
        panels.append(Panel(f"target, $\\beta$ (at $\\alpha={self.alpha:g}$)", "exponent of the risk", line))
        return Figure(panels, title="Compute-optimal exponents and their phases")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        values = dataset.exponent.values.reshape(-1, self.points)[0]
        betas = self.betas()
        return {
            "first_exponent": Number(float(values[0]), f"exponent of the risk, β = {betas[0]:.2g}"),
            "last_exponent": Number(float(values[-1]), f"exponent of the risk, β = {betas[-1]:.2g}"),
        }
