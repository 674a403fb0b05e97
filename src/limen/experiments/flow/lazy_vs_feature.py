r"""Lazy or feature learning: what the size of the second layer at the start decides."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.flow.flow_witness import (
    COARSE,
    CURVES,
    GAUSSIAN,
    GRID_TOLERANCE,
    LEARNING,
    NETWORK,
    check_room,
    compare_unfitted,
    curves,
    flow_problem,
    in_larger_dimension,
    joined_runs,
    network_deviations,
    sizes,
    witness_runs,
)
from limen.experiments.flow.flow_words import (
    ACTIVATION,
    ACTIVATION_WORDS,
    TARGET,
    TARGET_WORDS,
    noise_series,
)
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.labelled import labelled
from limen.problem import InputError, TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.early_stopping import early_stopping
from limen.theory.flow.long_times.threshold import interpolation_threshold
from limen.theory.flow.solve import solve

NAMES = (*CURVES, "train_fraction", "travel")
# The part of the train loss that is left, in the place of the loss: that of a large start varies most at time 0.
COMPARED = tuple(f"witness_{name}" for name in NAMES if name != "train_loss")


def _curves(result: Findings | Result) -> dict[str, np.ndarray]:
    """The curves of a run, the part of its train loss that is left, and how far neurons are from where they began,
    $1-C(t,0)$."""
    found, correlation = curves(result), result.dataset.correlation
    count, train = correlation.sizes["time"], found["train_loss"]
    travel = 1.0 - correlation.values.reshape(count, count)[:, 0]
    return found | {"train_fraction": train / train[0], "travel": travel}


class LazyVersusFeature(Experiment):
    r"""The same network, data and flow; only the start $a_j=a_0$ of the second layer grows from $O(1)$ to
    $\gamma\sqrt m$.

    With $a_0=O(1)$ neurons turn to the target ($v=O(1)$), the test loss goes through a minimum, and only at
    $t\sim m$ is the noise fitted. With $a_0=\gamma\sqrt m$, $\gamma>\gamma_{GF}(\alpha)$, the noise is interpolated at
    $t=O(1)$ while neurons move little: $v=O(m^{-1/2})$, the test loss stays near that of a kernel. In between, both
    change continuously. Activation $0.8\,he_1+0.6\,he_2$, linear target.

    What to see: the larger $a_0$, the earlier train loss vanishes, the smaller the largest overlap and the worse the
    best test loss. The theory is exact for the Gaussian model, which is compared at a small width in two dimensions
    until nine tenths of the train loss are gone; real networks stand beside it. Source: Montanari & Urbani 2025
    (arXiv 2502.21269).
    """

    name: ClassVar[str] = "lazy-vs-feature"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "A small second layer learns features and overfits late; a large one fits noise at once."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025",)
    default_seeds: ClassVar[int] = 64
    compared: ClassVar[tuple[str, ...] | None] = COMPARED
    quick: ClassVar[dict[str, Any]] = {
        "width": 20, "scales": "0.3 1", "samples_per_parameter": 0.9, "horizon": 5.0, "witness_width": 3,
        "witness_horizon": 3.0, "d": 48, "tolerance": 0.05,
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 152

    width: int = Field(100, ge=2, le=100_000, description="number m of neurons")
    scales: NumberList = Field((0.1, 0.2, 0.4, 0.7, 1.0), description="starts a₀/√m of the second layer")
    samples_per_parameter: float = Field(0.3, gt=0.0, lt=1.0, description="samples per parameter α = n/(md)")
    activation: str = Field(ACTIVATION, description=ACTIVATION_WORDS)
    target: str = Field(TARGET, description=TARGET_WORDS)
    noise: float = Field(0.3, gt=0.0, le=10.0, description="variance τ² of the label noise")
    horizon: float = Field(1e4, ge=1.0, le=1e7, description="last time t")
    tolerance: float = Field(0.01, ge=1e-4, le=0.1, description="error allowed on the grid of times")
    witness_width: int = Field(8, ge=2, le=20, description="number of neurons of the simulated networks")
    witness_starts: NumberList = Field((1.0, 4.0), description="starts a₀ of the simulated networks")
    witness_horizon: float = Field(30.0, ge=1.0, le=1000.0, description="last time of the simulations")
    d: int = Field(48, ge=16, le=200, description="dimension of the inputs in simulations (and a third of it)")

    @model_validator(mode="after")
    def _room(self) -> "LazyVersusFeature":
        for name in ("scales", "witness_starts"):
            values = getattr(self, name)
            if not values or not all(0.0 < value <= 100.0 for value in values):
                raise InputError(f"{name} must be numbers above 0, at most 100, got {values}.")
        check_room(self.d, self.witness_width)
        return self

    def problem(self, width: int, start: float) -> TwoLayer:
        """The learning problem at one width and start."""
        return flow_problem(width, self.samples_per_parameter, self.noise, self.activation, self.target, start)

    def starts(self) -> tuple[float, ...]:
        """The starts $a_0/\\sqrt m$, the smallest first."""
        return tuple(sorted(set(self.scales)))

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.02, self.horizon, 90)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.witness_horizon, 18)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        root = np.sqrt(self.width)
        found = [
            solve(self.problem(self.width, scale * root), self.times(), tolerance=self.tolerance)
            for scale in self.starts()
        ]
        small = [
            solve(self.problem(self.witness_width, start), self.witness_times(), tolerance=GRID_TOLERANCE)
            for start in self.witness_starts
        ]
        variables: dict[str, Any] = {}
        for prefix, dims, results in (
            ("", ("scale", "time"), found), ("witness_", ("start", "witness_time"), small),
        ):  # fmt: skip
            rows = [_curves(result) for result in results]
            variables |= {prefix + name: (dims, np.array([row[name] for row in rows])) for name in NAMES}
        variables["threshold"] = self.threshold()
        best = [early_stopping(result) for result in found]
        variables["least_test_loss"] = (("scale",), [stop.test_loss for stop in best])
        coords = {
            "scale": list(self.starts()),
            "time": self.times(),
            "start": list(self.witness_starts),
            "witness_time": self.witness_times(),
        }
        worst = next((result for result in [*found, *small] if not result.ok), found[0])
        dataset = labelled(variables, coords=coords)
        return Findings(dataset, worst.ok, worst.status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(tolerance=COARSE, scales=self.scales[:1] + self.scales[1:][-1:])

    def train(self, seed: int) -> Findings:
        times, runs = self.witness_times(), []
        variables: dict[str, Any] = {name: [] for name in NAMES}
        networks: dict[str, Any] = {name: [] for name in NAMES}
        for start in self.witness_starts:
            models, real = witness_runs(self.problem(self.witness_width, start), times, self.d, seed)
            parts, beside = [_curves(model) for model in models], _curves(real)
            for name in NAMES:
                variables[name].append([part[name] for part in parts])
                networks[name].append(beside[name])
            runs += [*models, real]
        data: dict[str, Any] = {
            f"witness_{name}": (("seed", "start", "size", "witness_time"), np.array([values]))
            for name, values in variables.items()
        }
        data |= {
            f"network_{name}": (("seed", "start", "witness_time"), np.array([values]))
            for name, values in networks.items()
        }
        coords = {
            "seed": [seed], "start": list(self.witness_starts), "size": list(sizes(self.d)), "witness_time": times,
        }  # fmt: skip
        dataset = labelled(data, coords=coords, attrs={"d": self.d})
        return joined_runs(dataset, runs)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model at the small width in two dimensions, until nine tenths of the train loss are fitted."""
        return compare_unfitted(theory, simulation, COMPARED)

    def threshold(self) -> float:
        r"""$\gamma_{GF}$: starts above it interpolate at $t=O(1)$."""
        return interpolation_threshold(noise_series(self.activation), self.samples_per_parameter, self.noise)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, times, scales = theory.dataset, self.times()[1:], self.starts()
        shown = sorted({0, len(scales) // 2, len(scales) - 1})
        labels = {"train_loss": r"train loss $e_{tr}$", "test_loss": r"test loss $e_{ts}$", "overlap": "overlap $v$"}
        panels = []
        for name, label in labels.items():
            marks: list[Mark] = [
                Line(times, found[name].values[i, 1:], rf"$a_0={scales[i]:g}\sqrt{{m}}$" * (name == "train_loss"), c)
                for c, i in enumerate(shown)
            ]
            marks += [Threshold("$t=m$", x=float(self.width))] if self.width < self.horizon else []
            panels.append(Panel("time $t$", label, marks, x_scale="log"))
        summary: list[Mark] = [
            Line(scales, found.least_test_loss.values, "least test loss", 1, spots=True),
            Line(scales, found.overlap.max("time").values, "largest overlap $v$", 2, spots=True),
            Line(scales, found.travel.values[:, -1], "travel $1-C(t,0)$", 3, spots=True),
            Threshold(r"$\gamma_{GF}$", x=self.threshold()),
        ]
        axes = (r"start $a_0/\sqrt{m}$", f"over the whole run, $m={self.width}$")
        panels.append(Panel(*axes, summary, x_scale="log", y_range=(0.0, 1.25)))
        for name, label in (("train_loss", "train loss $e_{tr}$"), ("travel", "travel $1-C(t,0)$")):
            panels.append(self._witness_panel(name, label, theory, simulation))
        title = f"Lazy or feature learning: $m={self.width}$, $\\alpha={self.samples_per_parameter:g}$"
        return Figure(panels, title + f", $\\tau^2={self.noise:g}$")

    def _witness_panel(self, name: str, label: str, theory: Result, simulation: Result | None) -> Panel:
        times, marks = self.witness_times()[1:], []
        for i, start in enumerate(self.witness_starts):
            line = theory.dataset[f"witness_{name}"].values[i, 1:]
            marks.append(Line(times, line, f"theory, $a_0={start:g}$" * (name != "travel"), 2 * i))
            if simulation is None:
                continue
            rows = {
                f"Gaussian model, $a_0={start:g}$": (
                    simulation.dataset[f"witness_{name}"].isel(size=-1, start=i),
                    2 * i + GAUSSIAN,
                ),
                f"real networks, $a_0={start:g}$": (
                    simulation.dataset[f"network_{name}"].isel(start=i),
                    2 * i + NETWORK,
                ),
            }
            for what, (values, colour) in rows.items():
                mean, error = mean_and_error(values.values)
                marks.append(Points(times, mean[1:], error[1:], what if name == "travel" else "", colour))
        return Panel("time $t$", label, marks, title=f"simulated width $m={self.witness_width}$", x_scale="log")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "travel" in dataset:
            overlap = dataset.overlap.max("time").values
            for i, regime in ((0, "feature"), (-1, "lazy")):
                start = f"start a₀ = {self.starts()[i]:g} √m"
                found |= {
                    f"{regime}_least_test_loss": Number(
                        float(dataset.least_test_loss.values[i]), f"least test loss, {start}"
                    ),
                    f"{regime}_largest_overlap": Number(
                        float(overlap[i]), f"largest overlap v with the target, {start}"
                    ),
                    f"{regime}_travel": Number(
                        float(dataset.travel.values[i, -1]), f"how far neurons turn, 1 - C(t,0) at the end, {start}"
                    ),
                }
            found["threshold"] = Number(
                float(dataset.threshold),
                f"start a₀/√m above which noise is fitted at once, α = {self.samples_per_parameter:g}",
            )
        travel = in_larger_dimension(dataset).witness_travel.values
        for i, start in enumerate(self.witness_starts):
            found[f"witness_travel_start_{start:g}"] = Number(
                float(travel[i, -1]), f"how far neurons turn, simulated width m = {self.witness_width}, a₀ = {start:g}"
            )
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        found, learning = super().headline(theory, simulation), LEARNING / self.samples_per_parameter
        networks = {"theory": (theory.dataset, "witness")}
        if simulation is not None:
            networks["simulation"] = (simulation.dataset.mean("seed"), "network")
        for witness, (dataset, prefix) in networks.items():
            for i, start in enumerate(self.witness_starts):
                expected = {name: theory.dataset[f"witness_{name}"].values[i] for name in CURVES}
                values = {name: dataset[f"{prefix}_{name}"].values[i] for name in CURVES}
                apart = network_deviations(expected, values, self.witness_times(), learning)
                found[witness] |= {
                    f"{name}_start_{start:g}": Number(value, f"{value.words}, a₀ = {start:g}")
                    for name, value in apart.items()
                }
        return found
