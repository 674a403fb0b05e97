"""Generalisation that comes late: train and test loss of gradient descent through the escape from hard directions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.labelled import labelled
from limen.link import hard_subspace
from limen.problem import GradientDescent, OverlapStart, RandomStart, TwoLayer, network, target
from limen.problem.algorithms import beyond_plain
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.descent.gradient_descent import solve as train_once
from limen.simulation.descent.restarts import fresh_losses, nested_restarts
from limen.simulation.record import diverged
from limen.theory.descent.escape import average_run

PATHS, PATHS_PER_DIRECTION = 4096, 32
# Of the first look.
FEW_RUNS, FEW_PATHS = 32, 1024
STARTS = 4
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
    $c$, the later the escape and the more it is a matter of luck.

    What to see: at $\delta=2$ the train loss falls and the test loss rises, for ever; at 10 most of the train loss's
    fall is over before the test loss moves at all, later in some runs than in others; at 20 (try it) both fall almost
    together. At twice the dimension the escape comes later. Means at finite $d$ lie $O(1/d)$ beside the lines: the
    comparison is made at $d/2$ and $d$ and allows the part that falls between them. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "grokking"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "With few samples never, with more of them late: when the test loss falls."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    # The band of the trainings is a quarter of the tolerance, by the spread between 24 pilots on other seeds; that of
    # the theory is another, and the rest is for what is found.
    default_seeds: ClassVar[int] = 1900
    compared: ClassVar[tuple[str, ...] | None] = ("train_loss", "test_loss")
    quick: ClassVar[dict[str, object]] = {"d": 40, "steps": 5, "samples_per_dim": (4.0, 10.0), "runs": 32}

    target: str = Field("z**2", description="target: a name or a formula with a hard direction")
    activation: str = Field("gelu", description="activation σ, smooth or kinked")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: NumberList = Field((2.0, 10.0), description="samples per dimension δ = n/d, one panel each")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    momentum: float = Field(0.0, ge=0.0, lt=1.0, description="momentum β of the heavy ball")
    batch_fraction: float = Field(1.0, gt=0.0, le=1.0, description="part of the sample that each step sees")
    steps: int = Field(32, ge=1, le=200, description="steps of gradient descent")
    start: float = Field(0.5, ge=0.0, le=10.0, description="overlaps of the start in units of 1/√d")
    random_start: bool = Field(False, description="start at random instead")
    runs: int = Field(512, ge=32, le=4096, description="runs of the theory that its means are taken over")
    d: int = Field(200, ge=20, le=5_000, description="dimension of the inputs; half of it is run too")

    @model_validator(mode="after")
    def _check(self) -> "Grokking":
        if not 1 <= len(self.samples_per_dim) <= 6 or not all(0.0 < ratio <= 200.0 for ratio in self.samples_per_dim):
            raise InputError(f"samples_per_dim must be 1 to 6 numbers in (0, 200], got {self.samples_per_dim}.")
        most = float(np.sqrt(self.d // 2))
        if self.start > most and not self.random_start:
            raise InputError(f"start must be at most √⌊d/2⌋ = {most:.4g}, the length of a neuron, got {self.start:g}.")
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
        return self._means(self.runs, PATHS, PATHS_PER_DIRECTION)

    def _means(self, runs: int, least: int, per_direction: int) -> Findings:
        """Means over so many runs at each size and ratio; each on `least` points, or so many per direction."""
        points = [(d, ratio) for d in self.sizes() for ratio in self.samples_per_dim]
        paths = max(least, 2 ** int(np.ceil(np.log2(per_direction * (self.steps + 2) * self.width))))

        def run(point: tuple[int, float]) -> Result:
            d, ratio = point
            return average_run(self.problem(ratio, d), self.times(), d, runs, paths)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(run, points))
        dataset = self._by_size([one.dataset for one in found])
        worst = next((one for one in found if not one.ok), found[0])
        return Findings(dataset, worst.ok, self._shown(dataset) if worst.ok else worst.status)

    def _shown(self, dataset: xr.Dataset) -> str:
        """One line: how long the escape comes after the train loss has fallen, at the largest size."""
        times, said = self.times(), []
        names = ("train_loss", "test_loss", "escaped", "escape_time")
        largest = [dataset[name].values[-1] for name in names]
        middle = list(dataset["quantile"].values).index(0.5)
        for ratio, train, test, escaped, passage in zip(self.samples_per_dim, *largest, strict=True):
            half = passage[middle]
            if not np.isfinite(half):
                said.append(f"at δ = {ratio:g} {escaped[-1]:.0%} of the runs learn in {self.steps} steps")
                continue
            fallen = times[int(np.argmax(train <= train[0] - 0.5 * (train[0] - train.min())))]
            later = times[int(np.argmax(test <= test[0] - 0.5 * (test[0] - test.min())))]
            said.append(
                f"at δ = {ratio:g} the train loss has made half of its fall by step {fallen:g}, the test loss by step "
                f"{later:g}, and half of the runs have learnt by step {half:g}"
            )
        return f"means of {self.runs} runs at each of d = {self.d // 2} and {self.d}: {'; '.join(said)}."

    def _by_size(self, found: list[xr.Dataset]) -> xr.Dataset:
        """Datasets of all points, sizes first, as one along (size, ratio)."""
        shape, first = (len(self.sizes()), len(self.samples_per_dim)), found[0]
        variables = {}
        for name, one in first.data_vars.items():
            values = np.stack([part[name].values for part in found])
            variables[name] = (("size", "ratio", *one.dims), values.reshape(*shape, *one.shape), one.attrs)
        coords: dict[str, Any] = {str(name): one.values for name, one in first.coords.items()}
        coords |= {"size": list(self.sizes()), "ratio": list(self.samples_per_dim)}
        return labelled(variables, coords=coords, attrs={"d": self.d})

    def first_look(self) -> tuple[Self, Findings] | None:
        if self.runs <= FEW_RUNS:
            return None
        coarse = self.model_copy(update={"runs": FEW_RUNS})
        return coarse, coarse._means(FEW_RUNS, FEW_PATHS, PATHS_PER_DIRECTION // 2)

    def train(self, seed: int) -> Findings:
        problem = self.problem(self.samples_per_dim[0], self.d)
        assert isinstance(problem.algorithm, GradientDescent)
        alone = self.width == 1 and beyond_plain(problem.algorithm) is None
        train, test, cosine = self._restarted(seed) if alone else self._trained(seed)
        passed, times = cosine > LEARNT, self.times()
        escape = np.where(passed.any(axis=-1), times[passed.argmax(axis=-1)], np.inf)
        along = ("seed", "size", "ratio")
        losses = {"train_loss": train, "test_loss": test}
        dataset = labelled(
            {name: ((*along, "time"), values.mean(axis=2)[None]) for name, values in losses.items()}
            | {"escape": ((*along, "start"), escape[None], {"undefined": "the run never escaped"})},
            coords={"seed": [seed], "size": list(self.sizes()), "ratio": list(self.samples_per_dim), "time": times},
            attrs={"d": self.d},
        )
        finite = bool(np.isfinite(train).all())
        status = f"trainings in d = {self.d // 2} and {self.d}." if finite else diverged(self.d)
        return Findings(dataset, finite, status)

    def _restarted(self, seed: int) -> tuple[np.ndarray, ...]:
        """Trainings of one neuron, several on each sample: losses and cosines (size, ratio, start, time)."""
        times, ratios, shape = self.times(), self.samples_per_dim, (len(self.sizes()), len(self.samples_per_dim))
        problems = [self.problem(ratios[0], d) for d in self.sizes()]
        runs = [
            one
            for problem, d in zip(problems, self.sizes(), strict=True)
            for one in nested_restarts(problem, ratios, times, d, seed, STARTS)
        ]
        overlap, square, train = (np.stack(parts) for parts in zip(*runs, strict=True))
        # The losses of all runs in one call: network and target are the same.
        test = fresh_losses(problems[0], overlap, square)
        along = np.linalg.norm(overlap @ hard_subspace(problems[0].target).basis, axis=-1)
        return tuple(part.reshape(*shape, *part.shape[1:]) for part in (train, test, along / np.sqrt(square)))

    def _trained(self, seed: int) -> tuple[np.ndarray, ...]:
        """Trainings of any network by any rule, one on each sample: as `_restarted`."""
        hard, found = hard_subspace(target(self.target)).basis, []
        for d in self.sizes():
            for ratio in self.samples_per_dim:
                one = train_once(self.problem(ratio, d), self.times(), d, seed).dataset
                lengths = np.sqrt(np.einsum("stjj->stj", one.gram.values))
                cosine = (np.linalg.norm(one.overlap.values @ hard, axis=-1) / lengths).max(axis=-1)
                found.append((one.train_loss.values, one.test_loss.values, cosine))
        shape = (len(self.sizes()), len(self.samples_per_dim), 1, -1)
        return tuple(np.stack(parts).reshape(shape) for parts in zip(*found, strict=True))

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
            label = f"GD, {counted(runs, 'run')}" if first and colour == 1 else ""
            marks.append(Points(times[some], mean[some], error[some], label, colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """Losses and escapes at the largest size; medians and spreads of the escape time at both, NaN where half
        of the runs, or a quarter, do not escape."""
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
                half, spread = times[1], times[2] - times[0] if np.isfinite(times).all() else np.nan
                words = f"median step of the escape, {at}, d = {d}"
                found[f"median_escape_{ratio:g}_d{d}"] = Number(half if np.isfinite(half) else np.nan, words, "steps")
                words = f"spread of the escape between quartiles, {at}, d = {d}"
                found[f"escape_spread_{ratio:g}_d{d}"] = Number(spread, words, "steps")
        return found
