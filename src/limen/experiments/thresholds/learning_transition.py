"""The probability that gradient descent learns a hard direction, against the number of samples, at several sizes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.descent.hard_cosines import largest_hard_cosine
from limen.simulation.descent.restarts import nested_restarts
from limen.theory.descent.escape import average_run
from limen.theory.thresholds.algorithmic import algorithmic

PATHS = 2048
STARTS = 16
LEARNT = 0.5


class LearningTransition(Experiment):
    r"""How many samples per dimension does gradient descent need to find a hard direction? It depends on $d$.

    The overlap of a random start is of order $d^{-1/2}$, and so is what the noise of the sample adds. A run succeeds if
    the cosine of a neuron with the hard subspace of the target passes $\frac12$ within the given steps. Theory:
    mean-field equations with the fluctuation of the sample's mean in the overlaps, run by run; lines are the part of
    `runs` runs that succeed.

    What to see: the transition is wide and moves up with the dimension, slowly; it lies far above
    $\delta_{\mathrm{alg}}$, from which on other algorithms find the direction, and at any $d$ within reach below the
    threshold of $d\to\infty$. Any width, several hard directions (`--width 2 --target "z1*z2"`) and kinked activations
    will do. `--activation square --step 0.2 --samples-per-dim 3,6` is the quadratic neuron, whose overlaps grow faster
    than linearly long before $\frac12$. The comparison is at the largest size and allows the part of the deviation that
    falls like $1/d$ from the smaller ones. Source: Montanari & Wang 2026.
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

    target: str = Field("z**2", description="target: a name or a formula with a hard direction")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("gelu", description="activation σ, smooth or kinked")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: NumberList = Field((3.0, 5.0, 7.0, 9.0, 12.0), description="samples per dimension δ = n/d")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    steps: int = Field(50, ge=1, le=200, description="steps of gradient descent")
    runs: int = Field(256, ge=32, le=4096, description="runs of the theory at each number of samples and each size")
    sizes: NumberList = Field((40.0, 100.0), description="dimensions d of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "LearningTransition":
        if not 1 <= len(self.samples_per_dim) <= 20 or not all(0.0 < ratio <= 100.0 for ratio in self.samples_per_dim):
            raise InputError(f"samples_per_dim must be 1 to 20 numbers in (0, 100], got {self.samples_per_dim}.")
        if np.any(np.diff(self.samples_per_dim) <= 0):
            raise InputError(f"samples_per_dim must ascend, got {self.samples_per_dim}.")
        if not 1 <= len(self.sizes) <= 5 or not all(10 <= d <= 2000 and int(d) == d for d in self.sizes):
            raise InputError(f"sizes must be 1 to 5 whole numbers from 10 to 2000, got {self.sizes}.")
        if hard_subspace(self.problem(self.samples_per_dim[0]).target).dimension == 0:
            raise InputError(f"target must have a hard direction, got {self.target!r}, which has none.")
        return self

    def problem(self, samples_per_dim: float) -> TwoLayer:
        """The learning problem at one number of samples."""
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        return TwoLayer(
            target(self.target, noise=self.noise),
            network(self.width, self.activation, second_layer, bias),
            GradientDescent(self.step),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
        )

    def dimensions(self) -> list[int]:
        """The sizes in ascending order."""
        return sorted(int(d) for d in self.sizes)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        points = [(d, ratio) for d in self.dimensions() for ratio in self.samples_per_dim]
        # Four paths to each coordinate of a run, at least.
        paths = max(PATHS, 2 ** int(np.ceil(np.log2(4 * (self.steps + 2) * (self.width + 2)))))

        def run(point: tuple[int, float]) -> Result:
            d, ratio = point
            return average_run(self.problem(ratio), self.steps, d, self.runs, paths)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(run, points))
        shape = (len(self.sizes), len(self.samples_per_dim))
        part, error = (
            np.array([one.dataset[name].values[-1] for one in found]).reshape(shape)
            for name in ("escaped", "escaped_error")
        )
        threshold = algorithmic(target(self.target, noise=self.noise))
        dataset = xr.Dataset(
            {
                "success": (("size", "ratio"), part, {"error": "success_error"}),
                "success_error": (("size", "ratio"), error),
                "algorithmic_threshold": ((), threshold, {"undefined": "no number of samples is enough"}),
            },
            coords={"ratio": list(self.samples_per_dim), "size": self.dimensions()},
            attrs={"d": self.dimensions()[-1]},
        )
        worst = next((one for one in found if not one.ok), found[0])
        status = f"{self.runs} runs at each size and number of samples, each on {paths} paths."
        return Findings(dataset, worst.ok, status if worst.ok else worst.status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(runs=32)

    def train(self, seed: int) -> Findings:
        times = np.arange(self.steps + 1.0)
        part = np.empty((1, len(self.sizes), len(self.samples_per_dim)))
        for i, d in enumerate(self.dimensions()):
            part[0, i] = [(cosines.max(axis=-1) > LEARNT).mean() for cosines in self._cosines(times, d, seed)]
        dataset = xr.Dataset(
            {"success": (("seed", "size", "ratio"), part)},
            coords={"ratio": list(self.samples_per_dim), "size": self.dimensions(), "seed": [seed]},
            attrs={"d": self.dimensions()[-1]},
        )
        return Findings(dataset, True, f"{self._starts()} trainings on each sample.")

    def _starts(self) -> int:
        """Trainings on each sample: one neuron from many starts costs little more than from one."""
        return STARTS if self.width == 1 else 1

    def _cosines(self, times: np.ndarray, d: int, seed: int) -> list[np.ndarray]:
        """Cosines with the hard subspace (start, time) of trainings at each number of samples."""
        if self.width > 1:
            return [largest_hard_cosine(self.problem(ratio), times, d, seed)[None] for ratio in self.samples_per_dim]
        problem = self.problem(self.samples_per_dim[0])
        hard = hard_subspace(problem.target).basis
        runs = nested_restarts(problem, self.samples_per_dim, times, d, seed, STARTS)
        return [np.linalg.norm(one.overlap @ hard, axis=-1) / np.sqrt(one.square) for one in runs]

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
                runs = f"GD, {counted(self._starts() * len(simulation.seeds), 'run')}" if i == 0 else ""
                marks.append(Points(ratios, mean, error, runs, i))
        threshold = float(theory.dataset.algorithmic_threshold)
        if np.isfinite(threshold):
            marks.append(Threshold(r"$\delta_{\mathrm{alg}}$", x=threshold))
        label = rf"probability of $|\cos|>\frac{{1}}{{2}}$ within {self.steps} steps"
        neurons = f", $m={self.width}$," if self.width > 1 else ""
        title = f"{typeset(self.activation)}{neurons} on $y=$ {typeset(self.target)}, {typeset(self.loss)} loss"
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
