"""The probability that gradient descent learns a hard direction, against the number of samples, at several sizes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.descent.restarts import nested_restarts
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.success import success_probabilities

PATHS, SCRAMBLES = 8192, 7
STARTS = 16
LEARNT = 0.5
CAVEAT = "The theory is linear in the overlap, as d grows: at small d cosines near one half grow otherwise."


class LearningTransition(Experiment):
    r"""How many samples per dimension does gradient descent need to find a hard direction? It depends on $d$.

    The overlap of a random start is of order $d^{-1/2}$, and so is what the noise of the sample adds. A run succeeds if
    its cosine with $\theta_*$ passes $\frac12$ within the given steps. While it is small the overlap is a Gaussian
    process of known variance, and lines are $2\big(1-\Phi(\frac1{2\max_ts_t})\big)$ with the typical cosine
    $s_t^2=C_u(t,t)/(d\,C_\theta(t,t))$: one pass of the theory serves every $d$.

    What to see: the transition is wide and moves up with the dimension, slowly; it lies far above
    $\delta_{\mathrm{alg}}$, from which on other algorithms find the direction, and at any $d$ within reach below the
    threshold of $d\to\infty$. The linear theory is low where cosines grow faster than it says (square loss near one
    half). The comparison is at the largest size and allows the part of the deviation that falls like $1/d$ from the
    smaller ones. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "learning-transition"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "The chance that gradient descent finds a hard direction rises with n/d and falls with d."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    size_field: ClassVar[str] = "sizes"
    default_seeds: ClassVar[int] = 230
    compared: ClassVar[tuple[str, ...] | None] = ("success",)
    diagram: ClassVar[dict[str, object]] = {
        "grid": {"samples_per_dim": "2:14:9"},
        "sizes": "log:20:160:4",
        "seeds": 16,
    }
    quick: ClassVar[dict[str, object]] = {"sizes": (40.0, 80.0), "steps": 8, "samples_per_dim": (1.0, 12.0)}
    quick_seeds: ClassVar[int] = 256

    target: str = Field("z**2", description="target: a name or a formula with one hard direction")
    activation: str = Field("gelu", description="activation σ, twice differentiable")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: NumberList = Field((3.0, 5.0, 7.0, 9.0, 12.0), description="samples per dimension δ = n/d")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    steps: int = Field(50, ge=1, le=200, description="steps of gradient descent")
    sizes: NumberList = Field((40.0, 100.0), description="dimensions d of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "LearningTransition":
        if not 1 <= len(self.samples_per_dim) <= 20 or not all(0.0 < ratio <= 100.0 for ratio in self.samples_per_dim):
            raise InputError(f"samples_per_dim must be 1 to 20 numbers in (0, 100], got {self.samples_per_dim}.")
        if np.any(np.diff(self.samples_per_dim) <= 0):
            raise InputError(f"samples_per_dim must ascend, got {self.samples_per_dim}.")
        if not 1 <= len(self.sizes) <= 5 or not all(10 <= d <= 2000 and int(d) == d for d in self.sizes):
            raise InputError(f"sizes must be 1 to 5 whole numbers from 10 to 2000, got {self.sizes}.")
        hard = hard_subspace(self.problem(self.samples_per_dim[0]).target).dimension
        if hard != 1:
            raise InputError(f"target must have one hard direction, got {self.target!r}, which has {hard}.")
        return self

    def problem(self, samples_per_dim: float) -> TwoLayer:
        """The learning problem at one number of samples."""
        return TwoLayer(
            target(self.target),
            network(1, self.activation),
            GradientDescent(self.step),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
        )

    def dimensions(self) -> list[int]:
        """The sizes in ascending order."""
        return sorted(int(d) for d in self.sizes)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:

        def run(ratio: float) -> np.ndarray:
            return success_probabilities(self.problem(ratio), self.dimensions(), self.steps, PATHS, SCRAMBLES)

        with ThreadPoolExecutor(2) as pool:
            found = np.array(list(pool.map(run, self.samples_per_dim)))
        dataset = xr.Dataset(
            {
                "success": (("size", "ratio"), found.T),
                "algorithmic_threshold": (
                    (),
                    algorithmic(target(self.target)),
                    {"undefined": "no number of samples is enough"},
                ),
            },
            coords={"ratio": list(self.samples_per_dim), "size": self.dimensions()},
            attrs={"d": self.dimensions()[-1], "caveat": CAVEAT},
        )
        status = f"linear theory of the overlap; medians of {SCRAMBLES} sets of {PATHS} paths."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        times = np.arange(self.steps + 1.0)
        part = np.empty((1, len(self.sizes), len(self.samples_per_dim)))
        for i, d in enumerate(self.dimensions()):
            problem = self.problem(self.samples_per_dim[0])
            runs = nested_restarts(problem, self.samples_per_dim, times, d, seed, STARTS)
            part[0, i] = [(one.cosine.max(axis=1) > LEARNT).mean() for one in runs]
        dataset = xr.Dataset(
            {"success": (("seed", "size", "ratio"), part)},
            coords={"ratio": list(self.samples_per_dim), "size": self.dimensions(), "seed": [seed]},
            attrs={"d": self.dimensions()[-1]},
        )
        status = f"{STARTS} starts on each sample."
        return Findings(dataset, True, status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        def at(result: Result, i: int) -> Result:
            return replace(result, dataset=result.dataset.isel(size=i).assign_attrs(d=self.dimensions()[i]))

        sizes = range(len(self.sizes))
        return compare([at(theory, i) for i in sizes], [at(simulation, i) for i in sizes], self.compared)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        ratios, marks = np.array(self.samples_per_dim), list[Mark]()
        for i, d in enumerate(self.dimensions()):
            marks.append(Line(ratios, theory.dataset.success.values[i], f"$d={d}$", i, spots=True))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.success.values[:, i])
                runs = f"GD, {STARTS * len(simulation.seeds)} runs" if i == 0 else ""
                marks.append(Points(ratios, mean, error, runs, i))
        threshold = float(theory.dataset.algorithmic_threshold)
        if np.isfinite(threshold):
            marks.append(Threshold(r"$\delta_{\mathrm{alg}}$", x=threshold))
        label = rf"probability of $|\cos|>\frac{{1}}{{2}}$ within {self.steps} steps"
        title = f"{typeset(self.activation)} on $y=$ {typeset(self.target)}, {typeset(self.loss)} loss"
        panel = Panel(r"samples per dimension $\delta=n/d$", label, marks, x_range=(0.0, 1.03 * ratios.max()))
        return Figure([panel], title=title)

    def thresholds(self, parameter: str, theory: Result) -> dict[str, float]:
        return (
            {r"$\delta_{\mathrm{alg}}$": float(theory.dataset.algorithmic_threshold)}
            if parameter == "samples_per_dim"
            else {}
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """Where each size's probability, taken as rising, crosses one half; NaN where it does not on this grid."""
        values = over_seeds(dataset.success).values
        rising = np.maximum.accumulate(values, axis=1) + 1e-9 * np.arange(values.shape[1])
        crossing = [np.interp(0.5, row, self.samples_per_dim, left=np.nan, right=np.nan) for row in rising]
        return {
            f"half_succeed_{d}": Number(ratio, f"samples per dimension at which half of the runs learn, d = {d}")
            for d, ratio in zip(self.dimensions(), crossing, strict=True)
        }
