"""Generalisation that comes late: train and test loss of gradient descent through the escape from hard directions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.problem import GradientDescent, OverlapStart, RandomStart, TwoLayer, network, target
from limen.problem.algorithms import beyond_plain
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.descent.gradient_descent import solve as train_once
from limen.simulation.descent.restarts import fresh_losses, restarts
from limen.theory.descent.escape import average_run

PATHS = 2048
STARTS = 2
MOST_TIMES = 41
LEARNT = 0.5


class Grokking(Experiment):
    r"""A small network learns a target with hard directions by gradient descent on $n=\delta d$ samples, again and
    again the same.

    No step shows the direction $\theta_*$ to the neurons: their overlap starts at $d^{-1/2}$ and the gradient of the
    sample moves it at random. Meanwhile the network fits the noise, the train loss falls and the test loss does not.
    Whether the overlap then grows is decided by $\delta$; when it has grown to order one, after a time of order
    $\log d$, the test loss falls too.

    Theory: mean-field equations with the fluctuation of the sample's mean in the overlaps, run by run. Lines are
    means over `runs` runs, bands hold eight runs of ten, the dashed line is the median escape (cosine with the hard
    subspace above $\frac12$). Runs start with overlaps $c/\sqrt d$, $c$ given by `start`, or at random: the smaller
    $c$, the later the escape and the more it is a matter of luck (try 0.5).

    What to see, from few samples to many: at $\delta=4$ the train loss falls and the test loss rises, for ever; at 10
    training is over before the test loss falls, later in some runs than in others; at 20 both fall almost together. At
    twice the dimension the escape comes later. Means at finite $d$ lie $O(1/d)$ beside the lines: the comparison
    is made at $d/2$ and $d$ and allows the part that falls between them. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "grokking"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "With few samples never, with more of them late, with many at once: when test loss falls."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    default_seeds: ClassVar[int] = 160
    compared: ClassVar[tuple[str, ...] | None] = ("train_loss", "test_loss")
    quick: ClassVar[dict[str, object]] = {"d": 40, "steps": 5, "samples_per_dim": (4.0, 10.0), "runs": 8}

    target: str = Field("z**2", description="target: a name or a formula with a hard direction")
    activation: str = Field("gelu", description="activation σ, smooth or kinked")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: NumberList = Field((4.0, 10.0, 20.0), description="samples per dimension δ = n/d, one panel each")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    momentum: float = Field(0.0, ge=0.0, lt=1.0, description="momentum β of the heavy ball")
    batch_fraction: float = Field(1.0, gt=0.0, le=1.0, description="part of the sample that each step sees")
    steps: int = Field(40, ge=1, le=200, description="steps of gradient descent")
    start: float = Field(2.0, ge=0.0, le=10.0, description="overlaps of the start in units of 1/√d")
    random_start: bool = Field(False, description="start at random instead")
    runs: int = Field(384, ge=8, le=4096, description="runs of the theory that its means are taken over")
    d: int = Field(400, ge=20, le=5_000, description="dimension of the inputs; half of it is run too")

    @model_validator(mode="after")
    def _check(self) -> "Grokking":
        if not 1 <= len(self.samples_per_dim) <= 6 or not all(0.0 < ratio <= 200.0 for ratio in self.samples_per_dim):
            raise InputError(f"samples_per_dim must be 1 to 6 numbers in (0, 200], got {self.samples_per_dim}.")
        problem = self.problem(self.samples_per_dim[0], self.d // 2)
        if hard_subspace(problem.target).dimension == 0:
            raise InputError(f"target must have a hard direction, got {self.target!r}, which has none.")
        return self

    def problem(self, samples_per_dim: float, d: int) -> TwoLayer:
        """The learning problem at one number of samples and one dimension."""
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        overlap = OverlapStart(overlap=self.start / float(np.sqrt(d)))
        return TwoLayer(
            target(self.target),
            network(self.width, self.activation, second_layer, bias),
            GradientDescent(self.step, momentum=self.momentum, batch_fraction=self.batch_fraction),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
            start=RandomStart() if self.random_start else overlap,
        )

    def sizes(self) -> tuple[int, int]:
        """Half the dimension, and the dimension."""
        return self.d // 2, self.d

    def times(self) -> np.ndarray:
        """Every fourth step, or 41 of them."""
        return np.unique(np.rint(np.linspace(0.0, self.steps, min(-(-self.steps // 4) + 1, MOST_TIMES))))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        points = [(d, ratio) for d in self.sizes() for ratio in self.samples_per_dim]

        def run(point: tuple[int, float]) -> Result:
            d, ratio = point
            least = 4 * (self.steps + 2) * (self.width + 2)
            paths = max(PATHS, 2 ** int(np.ceil(np.log2(least))))
            return average_run(self.problem(ratio, d), self.times(), d, self.runs, paths)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(run, points))
        dataset = self._by_size([one.dataset for one in found])
        worst = next((one for one in found if not one.ok), found[0])
        status = (
            worst.status if not worst.ok else f"means of {self.runs} runs at each of d = {self.d // 2} and {self.d}."
        )
        return Findings(dataset, worst.ok, status)

    def _by_size(self, found: list[xr.Dataset]) -> xr.Dataset:
        """Datasets of all points, sizes first, as one along (size, ratio)."""
        count = len(self.samples_per_dim)
        ratios, sizes = xr.Variable("ratio", list(self.samples_per_dim)), xr.Variable("size", list(self.sizes()))
        rows = [xr.concat(found[i : i + count], ratios, combine_attrs="drop") for i in range(0, len(found), count)]
        return xr.concat(rows, sizes, combine_attrs="drop").assign_attrs(d=self.d)

    def train(self, seed: int) -> Findings:
        points = [(d, ratio) for d in self.sizes() for ratio in self.samples_per_dim]
        found = [self._train(ratio, d, seed) for d, ratio in points]
        dataset = self._by_size([one.dataset for one in found]).transpose("seed", "size", "ratio", ...)
        worst = next((one for one in found if not one.ok), found[0])
        return Findings(dataset, worst.ok, worst.status)

    def _train(self, ratio: float, d: int, seed: int) -> Findings:
        """`train_loss`, `test_loss` (seed, time) and `escape` (seed, start) of trainings on one sample."""
        problem, times, hard = self.problem(ratio, d), self.times(), hard_subspace(target(self.target)).basis
        algorithm = problem.algorithm
        assert isinstance(algorithm, GradientDescent)
        if self.width == 1 and beyond_plain(algorithm) is None:
            run = restarts(problem, times, d, seed, STARTS)
            losses = run.dataset[["train_loss"]].assign(
                test_loss=(("seed", "start", "time"), fresh_losses(problem, run.dataset))
            )
            losses = losses.mean("start")
            cosine = np.linalg.norm(run.dataset.overlap.values[0] @ hard, axis=-1) / run.dataset.length.values[0]
        else:
            run = train_once(problem, times, d, seed)
            losses = run.dataset[["train_loss", "test_loss"]]
            along = np.linalg.norm(run.dataset.overlap.values @ hard, axis=-1)
            lengths = np.sqrt(np.einsum("stjj->stj", run.dataset.gram.values))
            cosine = (along / lengths).max(axis=-1)
        passed = cosine > LEARNT
        first = np.where(passed.any(axis=1), times[passed.argmax(axis=1)], np.inf)
        losses["escape"] = (("seed", "start"), first[None])
        return Findings(losses[["train_loss", "test_loss", "escape"]], run.ok, run.status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        def at(result: Result, i: int) -> Result:
            return replace(result, dataset=result.dataset.isel(size=i).assign_attrs(d=self.sizes()[i]))

        sizes = range(2)
        return compare([at(theory, i) for i in sizes], [at(simulation, i) for i in sizes], self.compared)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, panels = self.times(), []
        largest = theory.dataset.isel(size=-1)
        values = [largest[f"{name}_loss_{end}"].values for name in ("train", "test") for end in ("low", "high")]
        low, high = float(np.min(values)), float(np.max(values))
        margin = 0.06 * (high - low)
        for i, ratio in enumerate(self.samples_per_dim):
            at, marks = largest.isel(ratio=i), []
            for colour, name in enumerate(("test", "train")):
                marks += self._marks(at, simulation, i, name, colour, times)
            escape = float(at.escape_time.sel(quantile=0.5))
            if np.isfinite(escape):
                marks.append(Threshold(f"half escaped at {escape:g}", x=escape))
            panels.append(Panel("step $t$", "loss", marks, rf"$n/d={ratio:g}$", y_range=(low - margin, high + margin)))
        panels.append(self._escapes(theory, simulation))
        model = f"{typeset(self.activation)} on $y=$ {typeset(self.target)}, {typeset(self.loss)} loss"
        title = f"Grokking: {model}, $d={self.d}$"
        return Figure(panels, title=title)

    def _escapes(self, theory: Result, simulation: Result | None) -> Panel:
        """The part of runs that have escaped, at both sizes, for the number of samples at which they part most."""
        times, escaped = self.times(), theory.dataset.escaped.values
        i = int(np.abs(escaped[0] - escaped[1]).max(axis=1).argmax())
        marks: list[Mark] = []
        for j, d in enumerate(self.sizes()):
            marks.append(Line(times, escaped[j, i], f"$d={d}$", 2 + j))
            if simulation is not None:
                passed = simulation.dataset.escape.values[:, j, i, :, None] <= times
                mean, error = mean_and_error(passed.mean(axis=1))
                marks.append(Points(times, mean, error, "", 2 + j))
        title = rf"$n/d={self.samples_per_dim[i]:g}$"
        return Panel("step $t$", "part of runs that have escaped", marks, title, y_range=(-0.03, 1.03))

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
            mean, error = mean_and_error(simulation.dataset[variable].values[:, -1, i])
            some, runs = thin(times.size, 16), simulation.dataset.escape.values[:, -1, i].size
            label = f"GD, {runs} runs" if first and colour == 1 else ""
            marks.append(Points(times[some], mean[some], error[some], label, colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """Losses and escapes at the largest size; medians and spreads of the escape time at both, where finite."""
        if "seed" in dataset.dims:
            runs = dataset.escape.transpose("size", "ratio", ...).values.reshape(2, len(self.samples_per_dim), -1)
            quartiles = np.moveaxis(np.quantile(runs, (0.25, 0.5, 0.75), axis=-1, method="nearest"), 0, -1)
            escaped, losses = np.isfinite(runs).mean(axis=-1), dataset[["train_loss", "test_loss"]].mean("seed")
        else:
            escaped, quartiles, losses = dataset.escaped.values[..., -1], dataset.escape_time.values, dataset
        found = {}
        for i, ratio in enumerate(self.samples_per_dim):
            train, test = (losses[f"{name}_loss"].values[-1, i] for name in ("train", "test"))
            at = f"δ = {ratio:g}"
            found[f"last_test_loss_{ratio:g}"] = Number(test[-1], f"test loss after training, {at}")
            found[f"largest_gap_{ratio:g}"] = Number((test - train).max(), f"largest gap of test and train loss, {at}")
            found[f"escaped_{ratio:g}"] = Number(escaped[-1, i], f"part of the runs that learnt, {at}")
            for d, times in zip(self.sizes(), quartiles[:, i], strict=True):
                if np.isfinite(times[1]):
                    words = f"median step of the escape, {at}, d = {d}"
                    found[f"median_escape_{ratio:g}_d{d}"] = Number(times[1], words, "steps")
                if np.isfinite(times).all():
                    words = f"spread of the escape between quartiles, {at}, d = {d}"
                    found[f"escape_spread_{ratio:g}_d{d}"] = Number(times[2] - times[0], words, "steps")
        return found
