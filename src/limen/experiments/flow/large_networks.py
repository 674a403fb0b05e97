"""Are large networks bad? Train and test loss over width, time and the scale of the second layer at the start."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, mean_and_error
from limen.experiments.flow.flow_witness import (
    COARSE,
    GAUSSIAN,
    GRID_TOLERANCE,
    NETWORK,
    check_room,
    compare_unfitted,
    curves,
    flow_problem,
    in_larger_dimension,
    joined_runs,
    sizes,
    witness_runs,
)
from limen.experiments.flow.flow_words import ACTIVATION, ACTIVATION_WORDS, NOTHING, TARGET, TARGET_WORDS, series_label
from limen.experiments.flow.noise_witness import with_network_deviation
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.labelled import labelled
from limen.problem import InputError, TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.early_stopping import early_stopping
from limen.theory.flow.solve import solve

COMPARED = ("witness_train_fraction", "witness_test_loss")
LOSSES = ("train_loss", "test_loss")
# A train loss below this part of the start counts as interpolation.
FITTED = 0.01
LOWEST = -4.0


class LargeNetworks(Experiment):
    r"""Are large networks necessarily bad? The same data, $n=\alpha md$ noisy samples, and gradient flow; what changes
    is the width $m$, the time $t$ at which it is stopped and the start $a_0=c\,m^e$ of the second layer, from mean
    field ($e=0$) to lazy ($e=\frac12$).

    What to see, with a trained second layer and a signal: every width interpolates in the end although there are more
    parameters than samples, at $t\sim m$ from $a_0=O(1)$ and at $t=O(1)$ from $a_0\sim\sqrt m$. Stopped at the right
    time the mean-field start is the better the wider it is; the lazy one is worse at every time and width. So: size
    does no harm, laziness and late stopping do. `--no-trained` keeps the second layer where it starts, `--no-signal`
    makes the labels pure noise.

    The theory is exact for the Gaussian model, which is compared at a small width in two dimensions until nine tenths
    of the train loss are gone; real networks stand beside it and fit noise more slowly.
    Source: Montanari & Urbani 2025 (arXiv 2502.21269), "Are large networks necessarily bad?" and questions Q1 to Q4.
    """

    name: ClassVar[str] = "large-networks"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "Who interpolates, and when to stop: width, time and start, with and without signal."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025",)
    default_seeds: ClassVar[int] = 64
    compared: ClassVar[tuple[str, ...] | None] = COMPARED
    quick: ClassVar[dict[str, Any]] = {
        "widths": "5 10", "exponents": "0 0.5", "samples_per_parameter": 0.9, "horizon": 5.0, "witness_width": 3,
        "witness_horizon": 3.0, "d": 48, "tolerance": 0.05,
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 64

    trained: bool = Field(True, description="train the second layer")
    signal: bool = Field(True, description="labels carry the target; otherwise pure noise")
    activation: str = Field(ACTIVATION, description=ACTIVATION_WORDS)
    target: str = Field(TARGET, description=TARGET_WORDS)
    samples_per_parameter: float = Field(0.3, gt=0.0, lt=1.0, description="samples per parameter α = n/(md)")
    noise: float = Field(0.3, gt=0.0, le=10.0, description="variance τ² of the label noise")
    widths: NumberList = Field((10.0, 40.0, 160.0, 640.0), description="numbers m of neurons")
    exponents: NumberList = Field((0.0, 0.25, 0.5), description="exponents e of the start a₀ = c mᵉ")
    second_layer: float = Field(1.0, gt=0.0, le=10.0, description="factor c of the start a₀ = c mᵉ")
    horizon: float = Field(1e4, ge=1.0, le=1e7, description="last time t")
    tolerance: float = Field(0.01, ge=1e-4, le=0.1, description="error allowed on the grid of times")
    witness_width: int = Field(8, ge=2, le=20, description="number of neurons of the simulated networks")
    witness_horizon: float = Field(30.0, ge=1.0, le=1000.0, description="last time of the simulations")
    d: int = Field(48, ge=16, le=200, description="dimension of the inputs in simulations (and a third of it)")

    @model_validator(mode="after")
    def _room(self) -> "LargeNetworks":
        if len(set(self.widths)) < 2 or not all(2 <= width <= 1e5 and width == int(width) for width in self.widths):
            raise InputError(f"widths must be two or more whole numbers between 2 and 100000, got {self.widths}.")
        if len(set(self.exponents)) < 2 or not all(0.0 <= exponent <= 1.0 for exponent in self.exponents):
            raise InputError(f"exponents must be two or more numbers between 0 and 1, got {self.exponents}.")
        check_room(self.d, self.witness_width)
        return self

    def counts(self) -> tuple[int, ...]:
        """The widths as whole numbers, the smallest first."""
        return tuple(sorted({int(width) for width in self.widths}))

    def powers(self) -> tuple[float, ...]:
        """The exponents, the smallest first."""
        return tuple(sorted(set(self.exponents)))

    def problem(self, width: int, exponent: float) -> TwoLayer:
        """The learning problem at one width and scale of the start."""
        words, start = self.target if self.signal else NOTHING, self.second_layer * width**exponent
        return flow_problem(
            width, self.samples_per_parameter, self.noise, self.activation, words, start, self.trained
        )  # fmt: skip

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.02, self.horizon, 80)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.witness_horizon, 18)])

    def ends(self) -> tuple[float, float]:
        """The exponents that are simulated: the smallest and the largest."""
        return self.powers()[0], self.powers()[-1]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times, short = self.times(), self.witness_times()
        found = [
            [solve(self.problem(width, power), times, tolerance=self.tolerance) for width in self.counts()]
            for power in self.powers()
        ]
        small = [solve(self.problem(self.witness_width, e), short, tolerance=GRID_TOLERANCE) for e in self.ends()]
        stops = [[early_stopping(one) for one in row] for row in found]
        variables: dict[str, Any] = {
            name: (
                ("exponent", "width", "time"),
                np.array([[one.dataset[name].values for one in row] for row in found]),
            )
            for name in LOSSES
        }
        train = variables["train_loss"][1]
        pairs = ("exponent", "width")
        variables |= {
            "interpolates": (pairs, (train[..., -1] < FITTED * train[..., 0]).astype(float)),
            "least_test_loss": (pairs, np.array([[stop.test_loss for stop in row] for row in stops])),
            "stopping_time": (pairs, np.array([[stop.time for stop in row] for row in stops])),
        }
        rows = [_witness(one) for one in small]
        variables |= {
            f"witness_{name}": (("start", "witness_time"), np.array([row[name] for row in rows])) for name in rows[0]
        }
        coords = {
            "exponent": list(self.powers()), "width": list(self.counts()), "time": times, "start": list(self.ends()),
            "witness_time": short,
        }  # fmt: skip
        solved = [one for row in found for one in row] + small
        worst = next((one for one in solved if not one.ok), None)
        status = "the limit of the Gaussian model; real networks fit noise more slowly."
        return Findings(labelled(variables, coords=coords), worst is None, worst.status if worst else status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(
            tolerance=COARSE, widths=self.widths[:2], exponents=self.exponents[:1] + self.exponents[-1:]
        )

    def train(self, seed: int) -> Findings:
        times, runs = self.witness_times(), []
        model_rows, network_rows = [], []
        for power in self.ends():
            models, real = witness_runs(self.problem(self.witness_width, power), times, self.d, seed)
            model_rows.append([_witness(model) for model in models])
            network_rows.append(_witness(real))
            runs += [*models, real]
        data: dict[str, Any] = {}
        for name in network_rows[0]:
            values = np.array([[[part[name] for part in row] for row in model_rows]])
            data[f"witness_{name}"] = (("seed", "start", "size", "witness_time"), values)
            data[f"network_{name}"] = (
                ("seed", "start", "witness_time"),
                np.array([[row[name] for row in network_rows]]),
            )
        coords = {"seed": [seed], "start": list(self.ends()), "size": list(sizes(self.d)), "witness_time": times}
        return joined_runs(labelled(data, coords=coords, attrs={"d": self.d}), runs)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model at the small width in two dimensions, until nine tenths of the train loss are fitted."""
        return compare_unfitted(theory, simulation, COMPARED)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, log_times = theory.dataset, np.log10(self.times()[1:])
        panels = [self._map(theory, power, log_times) for power in self.ends()]
        best: list[Mark] = []
        stops: list[Mark] = []
        for colour, power in enumerate(self.powers()):
            part, label = found.sel(exponent=power), rf"$a_0\propto m^{{{power:g}}}$"
            best.append(Line(part.width, part.least_test_loss, f"{label}: best stop", colour, spots=True))
            best.append(Line(part.width, part.test_loss.isel(time=-1), f"{label}: end", colour, dashed=True))
            stops.append(Line(part.width, np.maximum(part.stopping_time, self.times()[1]), label, colour, spots=True))
        panels.append(Panel("width $m$", r"test loss $e_{ts}$", best, x_scale="log"))
        panels.append(Panel("width $m$", "best time to stop $t$", stops, x_scale="log", y_scale="log"))
        for name, label in (
            ("train_fraction", r"remaining $e_{tr}(t)/e_{tr}(0)$"),
            ("test_loss", r"test loss $e_{ts}$"),
        ):
            panels.append(self._witness_panel(name, label, theory, simulation))
        kind = f"{'trained' if self.trained else 'fixed'} second layer, {'with' if self.signal else 'without'} signal"
        return Figure(
            panels,
            rf"Large networks: {kind}, $\alpha={self.samples_per_parameter:g}$, $\tau^2={self.noise:g}$, "
            f"{series_label(self.activation)}",
        )

    def _map(self, theory: Result, power: float, log_times: np.ndarray) -> Panel:
        train = theory.dataset.train_loss.sel(exponent=power).values
        logs = np.log10(np.maximum(train[:, 1:] / train[:, :1], 10.0**LOWEST))
        width, fine = np.log10(self.counts()), np.linspace(np.log10(self.counts()[0]), np.log10(self.counts()[-1]), 41)
        smooth = np.array([np.interp(fine, width, column) for column in logs.T]).T
        marks: list[Mark] = [Map(log_times, fine, smooth, r"$\log_{10}\,e_{tr}(t)/e_{tr}(0)$ (theory)", LOWEST, 0.0)]
        stops = theory.dataset.stopping_time.sel(exponent=power).values
        marks.append(Line(np.log10(np.maximum(stops, self.times()[1])), width, "best stop", 1, spots=True))
        title = rf"start $a_0={self.second_layer:g}\,m^{{{power:g}}}$"
        ranges = {"x_range": (log_times[0], log_times[-1]), "y_range": (fine[0], fine[-1])}
        return Panel(r"time $\log_{10}t$", r"width $\log_{10}m$", marks, title=title, **ranges)

    def _witness_panel(self, name: str, label: str, theory: Result, simulation: Result | None) -> Panel:
        times, marks = self.witness_times()[1:], []
        for i, power in enumerate(self.ends()):
            line = theory.dataset[f"witness_{name}"].values[i, 1:]
            marks.append(Line(times, line, rf"theory, $a_0\propto m^{{{power:g}}}$", 2 * i))
            if simulation is None:
                continue
            model = simulation.dataset[f"witness_{name}"].isel(size=-1, start=i)
            real = simulation.dataset[f"network_{name}"].isel(start=i)
            for values, colour, what in ((model, GAUSSIAN, "Gaussian model"), (real, NETWORK, "real networks")):
                mean, error = mean_and_error(values.values)
                marks.append(Points(times, mean[1:], error[1:], what if i == 0 else "", 2 * i + colour))
        return Panel("time $t$", label, marks, title=f"simulated width $m={self.witness_width}$", x_scale="log")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "interpolates" in dataset:
            widest = self.counts()[-1]
            pairs = dataset.interpolates.size
            found["interpolating"] = Number(
                float(dataset.interpolates.sum()),
                f"widths and starts, of {pairs}, that fit all labels by t = {self.horizon:g}",
            )
            for power, kind in zip(self.ends(), ("smallest", "largest"), strict=True):
                part, case = dataset.sel(exponent=power, width=widest), f"m = {widest}, start with exponent {power:g}"
                found |= {
                    f"least_test_loss_{kind}_start": Number(float(part.least_test_loss), f"least test loss, {case}"),
                    f"final_test_loss_{kind}_start": Number(
                        float(part.test_loss.values[-1]), f"test loss at t = {self.horizon:g}, {case}"
                    ),
                    f"stopping_time_{kind}_start": Number(
                        float(part.stopping_time), f"best time to stop, {case}", "units of time"
                    ),
                }
        left = in_larger_dimension(dataset).witness_train_fraction.transpose("start", "witness_time").values[:, -1]
        for value, kind in zip(left, ("smallest", "largest"), strict=True):
            found[f"witness_remaining_{kind}_start"] = Number(
                float(value),
                f"part of the train loss left at t = {self.witness_horizon:g}, m = {self.witness_width}, {kind} start",
            )
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        networks = None if simulation is None else simulation.dataset.network_train_fraction
        return with_network_deviation(
            super().headline(theory, simulation),
            theory.dataset.witness_train_fraction,
            networks,
            1.0,
            "the remaining loss",
        )


def _witness(result: Findings | Result) -> dict[str, np.ndarray]:
    """Losses of a run, and the part of its train loss that is left."""
    found = curves(result)
    train = found["train_loss"]
    return {"train_loss": train, "test_loss": found["test_loss"], "train_fraction": train / train[0]}
