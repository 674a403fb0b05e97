"""Loss against compute for models of many sizes: which size is best, and how fast the best loss falls."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.number import Number
from limen.problem import InputError
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.result import Findings, Result
from limen.theory.kernel.scaling.power_law import population
from limen.theory.kernel.scaling.scaling_laws import scaling_exponents
from limen.verbs import predict, simulate

# Sizes over which the frontier of the figure is taken.
FRONTIER_SIZES = 24


class ScalingLaw(Experiment):
    r"""Random features of power-law data learnt by one-pass SGD, for models of growing size $d$.

    Inputs $x_j\sim N(0,j^{-2\alpha})$, target $\sum_jj^{-\beta}x_j$. A small model learns fast per unit of compute
    $f=dB\cdot\text{steps}$ and stops at what $d$ features cannot hold; a large one starts late and ends lower. The
    lower envelope of the curves of all sizes, drawn in black, is the compute-optimal frontier, a power law whose
    exponent, dashed, depends on $(\alpha,\beta)$ in phases. Lines are the deterministic equivalent, no features are
    drawn. Single draws scatter around it at finite $d$: the comparison takes the exact mean over samples given each
    draw, seed by seed. Source: Paquette, Paquette, Xiao & Pennington 2024.
    """

    name: ClassVar[str] = "scaling-law"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Loss against compute for many model sizes, and the compute-optimal frontier."
    citations: ClassVar[tuple[str, ...]] = ("paquette2024",)
    size_field: ClassVar[str] = "largest"
    default_seeds: ClassVar[int] = 36
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk",)
    quick: ClassVar[dict[str, float]] = {"largest": 40, "sizes": 2, "ambient": 200, "steps": 200, "batch": 128}
    quick_seeds: ClassVar[int] = 36

    alpha: float = Field(0.8, gt=0.25, le=3.0, description="α, eigenvalues of the inputs fall as j^(-2α)")
    beta: float = Field(0.4, ge=0.0, le=3.0, description="β, coefficients of the target fall as j^(-β)")
    largest: int = Field(128, ge=10, le=1000, description="largest model size d")
    sizes: int = Field(3, ge=2, le=12, description="model sizes, halving from the largest")
    ambient: int = Field(1000, ge=50, le=20_000, description="dimensions v of the inputs")
    rate: float = Field(0.2, gt=0.0, le=1.0, description="learning rate γ in units of one over trace + batch")
    batch: int = Field(32, ge=1, le=1000, description="samples B of a step")
    steps: int = Field(500, ge=10, le=100_000, description="steps of SGD")

    @model_validator(mode="after")
    def _room(self) -> "ScalingLaw":
        if self.ambient <= self.largest:
            raise InputError(f"ambient must exceed largest = {self.largest}, got {self.ambient}.")
        return self

    def features(self) -> np.ndarray:
        """Model sizes, ascending."""
        return np.unique(np.maximum(2, np.round(self.largest / 2.0 ** np.arange(self.sizes)))).astype(int)

    def times(self) -> np.ndarray:
        """Steps at which the risk is looked at, even in the logarithm, from a tenth of all on."""
        return np.unique(np.geomspace(self.steps / 10, self.steps, 8).round())

    def problem(self, features: int) -> PowerLawFeatures:
        """The problem of one size."""
        values, counts, _ = population(self.alpha, self.beta, self.ambient)
        rate = self.rate / (float(values @ counts) + self.batch)
        return PowerLawFeatures(self.alpha, self.beta, int(features), self.ambient, rate=rate, batch=self.batch)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        own = seeds or tuple(range(self.default_seeds))
        runs = [predict(self.problem(d), self.times(), seeds=own) for d in self.features()]
        return self._gathered(runs, own, "exact mean over samples, given the features.")

    def train(self, seed: int) -> Findings:
        runs = [simulate(self.problem(d), self.times(), seeds=[seed]) for d in self.features()]
        found = self._gathered(runs, (seed,), "SGD on drawn features.")
        return Findings(found.dataset.assign_attrs(d=self.largest), found.ok, found.status)

    def _gathered(self, runs: list[Result], seeds: tuple[int, ...], status: str) -> Findings:
        """The results of all sizes as one, not ok where one of them is not."""
        risks = np.stack([run.dataset.excess_risk.values for run in runs], axis=1)
        dataset = xr.Dataset({"excess_risk": (("seed", "features", "time"), risks)}, self._coordinates())
        wrong = [f"d = {d}: {run.status}" for d, run in zip(self.features(), runs, strict=True) if not run.ok]
        return Findings(dataset.assign_coords(seed=list(seeds)), not wrong, wrong[0] if wrong else status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        sizes, times = self.features(), self.times()
        fine = np.unique(np.geomspace(1, 100 * self.steps, 120).round())
        marks: list[Mark] = []
        curves = []
        for place, d in enumerate(sizes):
            curve = self._risk(d, fine)
            trusted = np.isfinite(curve).all()
            curves += [curve] if trusted else []
            label = f"$d={d}$" if trusted else f"$d={d}$: theory not trusted"
            marks.append(Line(d * self.batch * fine, curve, label, colour=place % 6))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.excess_risk.values[:, place])
                marks.append(Points(d * self.batch * times, mean, error, "", place % 6))
        compute, best = self._frontier(fine)
        slope = scaling_exponents(self.alpha, self.beta).risk
        marks.append(Line(compute, best, "best size", 6))
        if middle := len(compute) // 2:
            limit = 0.7 * best[middle] * (compute / compute[middle]) ** -slope
            marks.append(Line(compute, limit, f"$f^{{-{slope:.2f}}}$", 6, True))
        top = 2.0 * max((float(curve[0]) for curve in curves), default=np.nan)
        low = 0.3 * min((float(curve[-1]) for curve in curves), default=np.nan)
        panel = Panel(
            "compute $f=dB\\cdot$steps", "excess risk", marks, x_scale="log", y_scale="log", y_range=(low, top)
        )
        return Figure([panel], title=f"Scaling law, $\\alpha={self.alpha:g}$, $\\beta={self.beta:g}$")

    def _frontier(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least risk over sizes from a fourth of the smallest to four times the largest, where the best of them is
        not at an end."""
        smallest, largest = self.features()[0] / 4, min(4 * self.largest, self.ambient // 2)
        sizes = np.unique(np.maximum(2, np.geomspace(smallest, largest, FRONTIER_SIZES).astype(int)))
        compute = np.geomspace(sizes[0] * self.batch * steps[0], sizes[-1] * self.batch * steps[-1], 200)
        logs = [
            np.interp(np.log(compute / (d * self.batch)), np.log(steps), np.log(self._risk(d, steps)), np.inf, np.inf)
            for d in sizes.tolist()
        ]
        logs = np.where(np.isnan(logs), np.inf, logs)
        best, least = np.argmin(logs, axis=0), np.min(logs, axis=0)
        known = np.isfinite(least)
        inside = known & (best > 0) & (best < len(sizes) - 1)
        inside = inside if inside.any() else known
        return compute[inside], np.exp(least)[inside]

    def _risk(self, features: int, steps: np.ndarray) -> np.ndarray:
        """The deterministic equivalent at one size, NaN where it does not trust itself."""
        found = predict(self.problem(features), steps)
        return found.dataset.excess_risk.values if found.ok else np.full(steps.size, np.nan)

    def _fitted_exponent(self, risk: np.ndarray) -> float:
        """Slope through the points (sizes, times) that no cheaper point undercuts, NaN where they are fewer than 3."""
        compute = (self.features()[:, None] * self.batch * self.times()).ravel()
        order = np.argsort(compute)
        compute, risk = compute[order], risk.ravel()[order]
        lowest = risk <= np.minimum.accumulate(risk)
        if lowest.sum() < 3:
            return np.nan
        return -float(np.polyfit(np.log(compute[lowest]), np.log(risk[lowest]), 1)[0])

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        risk, sizes = means.excess_risk.values, self.features()
        limit = scaling_exponents(self.alpha, self.beta).risk
        return {
            "frontier_exponent": Number(
                self._fitted_exponent(risk),
                f"exponent of the best risk in the compute (limit: {limit:.3g})",
            ),
            "smallest_model": Number(float(risk[0, -1]), f"excess risk after training, d = {sizes[0]}"),
            "largest_model": Number(float(risk[-1, -1]), f"excess risk after training, d = {sizes[-1]}"),
        }

    def _coordinates(self) -> dict[str, np.ndarray]:
        return {"features": self.features(), "time": self.times()}
