"""Generalisation that comes late: train and test loss of gradient descent through the escape from a hard direction."""

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.number_list import NumberList
from limen.problem import GradientDescent, OverlapStart, TwoLayer, network, target
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.descent.restarts import fresh_losses, restarts
from limen.theory.descent.escape import average_run, escape_of

PATHS, SCRAMBLES = 8192, 3
STARTS = 8
MOST_TIMES = 41
LEARNT = 0.5


class Grokking(Experiment):
    r"""One neuron learns a target with a hard direction by gradient descent on $n=\delta d$ samples, again and again
    the same.

    No step shows the direction $\theta_*$ to the neuron: its overlap starts at $d^{-1/2}$ and the gradient
    of the sample moves it at random. Meanwhile the neuron fits the noise, the train loss falls and the test loss does
    not. Whether the overlap then grows is decided by $\delta$; when it has grown to order one, after a time of order
    $\log d$, the test loss falls too.

    Theory: the overlap's fluctuations at finite $d$ are a Gaussian process with known variance and amplification, and
    runs continue from an informed start matched to them. Lines are means over luck, bands hold eight runs of ten, the
    dashed line is the median escape ($|\cos|>\frac12$). Runs start with $\theta\cdot\theta_*=c/\sqrt d$, $c$ given
    by `start`.

    What to see, from few samples to many: at $\delta=4$ the train loss falls and the test loss rises, for ever; at 10
    training is over long before the test loss falls, later in some runs than in others; at 50 both fall together.
    The lines are those of $d\to\infty$ at the overlap a run has at its own $d$, and leave out smaller effects: at
    $d=320$ and $\delta=10$ mean train losses of many runs lie 3% of the range below the line late (test losses:
    1 to 2.5%), which the comparison notices; sets of paths scatter by 1%. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "grokking"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "With few samples never, with more of them late, with many at once: when test loss falls."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    default_seeds: ClassVar[int] = 110
    compared: ClassVar[tuple[str, ...] | None] = ("train_loss", "test_loss")
    quick: ClassVar[dict[str, object]] = {"d": 40, "steps": 5, "samples_per_dim": (4.0, 10.0)}

    target: str = Field("z**2", description="target: a name or a formula with one hard direction")
    activation: str = Field("gelu", description="activation σ, twice differentiable")
    second_layer: float = Field(1.0, ge=-10.0, le=10.0, description="second layer a of the neuron, fixed")
    bias: float = Field(0.0, ge=-10.0, le=10.0, description="bias b of the neuron, fixed")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: NumberList = Field((4.0, 10.0, 50.0), description="samples per dimension δ = n/d, one panel each")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    steps: int = Field(50, ge=1, le=200, description="steps of gradient descent")
    start: float = Field(0.5, ge=0.0, le=10.0, description="overlap of the start in units of 1/√d")
    d: int = Field(320, ge=10, le=5_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "Grokking":
        if not 1 <= len(self.samples_per_dim) <= 6 or not all(0.0 < ratio <= 200.0 for ratio in self.samples_per_dim):
            raise InputError(f"samples_per_dim must be 1 to 6 numbers in (0, 200], got {self.samples_per_dim}.")
        for ratio in self.samples_per_dim:
            escape_of(self.problem(ratio), self.d)
        return self

    def problem(self, samples_per_dim: float) -> TwoLayer:
        """The learning problem at one number of samples."""
        return TwoLayer(
            target(self.target),
            network(1, self.activation, self.second_layer, self.bias),
            GradientDescent(self.step),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
            start=OverlapStart(overlap=self.start / float(np.sqrt(self.d))),
        )

    def times(self) -> np.ndarray:
        """Every second step, or 41 of them."""
        return np.unique(np.rint(np.linspace(0.0, self.steps, min(self.steps // 2 + 1, MOST_TIMES))))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        def run(ratio: float) -> Result:
            return average_run(self.problem(ratio), self.times(), self.d, PATHS, SCRAMBLES)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(run, self.samples_per_dim))
        dataset = xr.concat([one.dataset for one in found], dim=xr.Variable("ratio", list(self.samples_per_dim)))
        worst = next((one for one in found if not one.ok), found[0])
        return Findings(dataset, worst.ok, worst.status)

    def train(self, seed: int) -> Findings:
        found = [restarts(self.problem(ratio), self.times(), self.d, seed, STARTS) for ratio in self.samples_per_dim]
        for ratio, one in zip(self.samples_per_dim, found, strict=True):
            one.dataset["test_loss"] = (("seed", "start", "time"), fresh_losses(self.problem(ratio), one.dataset))
        runs = xr.concat([one.dataset for one in found], dim=xr.Variable("ratio", list(self.samples_per_dim)))
        dataset = runs[["train_loss", "test_loss", "cosine"]].mean("start")
        passed = (runs.cosine > LEARNT).transpose("seed", "ratio", "start", "time").values
        first = np.where(passed.any(axis=-1), self.times()[passed.argmax(axis=-1)], np.inf)
        dataset = dataset.transpose("seed", "ratio", "time")
        dataset["escape"] = (("seed", "ratio", "start"), first)
        worst = next((one for one in found if not one.ok), found[0])
        status = worst.status if not worst.ok else f"{STARTS} trainings on each sample, d = {self.d}."
        return Findings(dataset.assign_attrs(d=self.d), worst.ok, status)

    def figure(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, panels = self.times(), []
        values = [theory.dataset[f"{name}_loss_{end}"].values for name in ("train", "test") for end in ("low", "high")]
        low, high = float(np.min(values)), float(np.max(values))
        margin = 0.06 * (high - low)
        for i, ratio in enumerate(self.samples_per_dim):
            at, marks = theory.dataset.isel(ratio=i), []
            for colour, name in enumerate(("test", "train")):
                marks += self._marks(at, simulation, i, name, colour, times)
            escape = float(at.escape_time.sel(quantile=0.5))
            if np.isfinite(escape):
                marks.append(Threshold(f"half escaped at {escape:g}", x=escape))
            panels.append(
                Panel("step $t$", "loss", marks, rf"$n/d={ratio:g}$" + "\n", y_range=(low - margin, high + margin))
            )
        title = f"Grokking: {self.activation} on $y=$ {self.target}, loss {self.loss}, $d={self.d}$"
        return Figure(panels, title=title)

    def _marks(
        self, theory: xr.Dataset, simulation: Result | None, i: int, name: str, colour: int, times: np.ndarray
    ) -> list[Mark]:
        """Mean, band of runs, and points of the simulation, of one loss at one ratio; the first panel explains them."""
        first, variable = i == 0, f"{name}_loss"
        marks: list[Mark] = [
            Band(times, theory[f"{variable}_low"].values, theory[f"{variable}_high"].values, "", colour),
            Line(times, theory[variable].values, name if first else "", colour),
        ]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset[variable].values[:, i])
            some, runs = thin(times.size, 16), len(simulation.seeds) * STARTS
            label = f"GD, {runs} runs" if first and colour == 1 else ""
            marks.append(Points(times[some], mean[some], error[some], label, colour))
        return marks

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        numbers = {"theory": self._numbers(theory.dataset, theory.dataset.escaped.values[:, -1])}
        if simulation is not None:
            escaped = np.isfinite(simulation.dataset.escape.values).mean(axis=(0, 2))
            numbers["simulation"] = self._numbers(simulation.dataset.mean("seed"), escaped)
        return numbers

    def _numbers(self, dataset: xr.Dataset, escaped: np.ndarray) -> dict[str, float]:
        found = {}
        for i, ratio in enumerate(self.samples_per_dim):
            train, test = (dataset[f"{name}_loss"].values[i] for name in ("train", "test"))
            found[f"last_test_loss_{ratio:g}"] = float(test[-1])
            found[f"largest_gap_{ratio:g}"] = float((test - train).max())
            found[f"escaped_{ratio:g}"] = float(escaped[i])
        return found
