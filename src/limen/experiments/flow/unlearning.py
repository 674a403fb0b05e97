"""Unlearning: after the noise is fitted the target is given up, if the network can afford it."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Threshold
from limen.experiments.flow.flow_witness import (
    COARSE,
    CURVES,
    LEARNING,
    WITNESSED,
    check_room,
    compare_unfitted,
    curves,
    flow_problem,
    with_network_deviations,
    witness_numbers,
    witness_panels,
    witness_simulation,
    witness_theory,
)
from limen.experiments.flow.flow_words import (
    ACTIVATION,
    ACTIVATION_WORDS,
    TARGET,
    TARGET_WORDS,
    coefficients,
    flow_activation,
    noise_series,
    series_label,
)
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.labelled import labelled
from limen.problem import InputError, TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.early_stopping import early_stopping
from limen.theory.flow.long_times.threshold import interpolation_threshold
from limen.theory.flow.solve import solve

DEGREES = (1, 2)


class Unlearning(Experiment):
    r"""Gradient flow long after learning, $t\sim m$: with $\sigma=0.8\,he_1+0.6\,he_2$ and a linear target the second
    layer grows as $a=\sqrt m\,\gamma(t/m)$ up to $\gamma_{GF}$, the train loss vanishes and the overlap $v$ with
    the target falls as $m^{-1/2}$, with $av$ kept: neurons turn to the noise, the network hardly forgets.

    That needs a flat direction. A target with a part of degree 2 (here $\varphi=\sigma$) is not reached with $v\to0$:
    the learnt state is a strict minimum of the population risk, and wide networks stay in it although they have more
    parameters than samples ($\alpha<1$); narrow ones still leave it.

    What to see: linear target, curves against $t/m$ approach one for $t\sim m$ as the width grows; target of degree 2,
    the narrow network overfits, the wide one is trapped with its overlap. The theory is exact for the Gaussian model,
    which is compared at a small width in two dimensions until nine tenths of the train loss are gone; real networks
    stand beside it, close while they learn and slower in fitting noise.
    Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "unlearning"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "At t ~ m a linear target is unlearnt; a target of degree 2 can hold the network."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025",)
    default_seeds: ClassVar[int] = 128
    compared: ClassVar[tuple[str, ...] | None] = WITNESSED
    quick: ClassVar[dict[str, Any]] = {
        "widths": "10 20", "samples_per_parameter": 0.9, "horizon": 1.0, "witness_width": 3, "witness_horizon": 3.0,
        "d": 48, "tolerance": 0.05,
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 432

    widths: NumberList = Field((100.0, 2000.0), description="numbers m of neurons")
    samples_per_parameter: float = Field(0.3, gt=0.0, lt=1.0, description="samples per parameter α = n/(md)")
    activation: str = Field(ACTIVATION, description=ACTIVATION_WORDS)
    target: str = Field(TARGET, description=f"{TARGET_WORDS}; by default linear")
    second_target: str = Field("0, 0.8, 0.6", description="second target, by default of degree 2: as the first")
    noise: float = Field(0.3, gt=0.0, le=10.0, description="variance τ² of the label noise")
    horizon: float = Field(100.0, ge=1.0, le=1000.0, description="last time t in units of m")
    tolerance: float = Field(0.01, ge=1e-4, le=0.1, description="error allowed on the grid of times")
    witness_width: int = Field(8, ge=2, le=20, description="number of neurons of the simulated networks")
    witness_horizon: float = Field(40.0, ge=1.0, le=1000.0, description="last time of the simulations")
    d: int = Field(60, ge=16, le=200, description="dimension of the inputs in simulations (and a third of it)")

    @model_validator(mode="after")
    def _room(self) -> "Unlearning":
        if not self.widths or not all(2 <= width <= 1e5 and width == int(width) for width in self.widths):
            raise InputError(f"widths must be whole numbers between 2 and 100000, got {self.widths}.")
        check_room(self.d, self.witness_width)
        return self

    def counts(self) -> tuple[int, ...]:
        """The widths as whole numbers, the smallest first."""
        return tuple(sorted({int(width) for width in self.widths}))

    def problem(self, width: int, degree: int) -> TwoLayer:
        """The learning problem at one width, with a target of degree 1 or 2."""
        words = self.target if degree == 1 else self.second_target
        return flow_problem(width, self.samples_per_parameter, self.noise, self.activation, words)

    def scaled_times(self) -> np.ndarray:
        """Times in units of the width: from before learning, whatever the width."""
        return np.concatenate([[0.0], np.geomspace(0.1 / self.counts()[-1], self.horizon, 90)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.witness_horizon, 18)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        scaled = self.scaled_times()
        small, beside = witness_theory(self.problem(self.witness_width, 1), self.witness_times())
        found = {
            (degree, width): solve(self.problem(width, degree), width * scaled, tolerance=self.tolerance)
            for degree in DEGREES
            for width in self.counts()
        }
        rows = [[curves(found[degree, width]) for width in self.counts()] for degree in DEGREES]
        dims = ("degree", "width", "scaled_time")
        variables: dict[str, Any] = {
            name: (dims, np.array([[part[name] for part in row] for row in rows])) for name in CURVES
        }
        trapped = [
            [early_stopping(found[degree, width]).verdict == "trapped" for width in self.counts()] for degree in DEGREES
        ]
        variables["threshold"] = self.threshold()
        variables["trapped"] = (("degree", "width"), np.array(trapped, dtype=float))
        coords = {"degree": list(DEGREES), "width": list(self.counts()), "scaled_time": scaled}
        dataset = labelled(variables, coords=coords).merge(small)
        worst = next((result for result in found.values() if not result.ok), beside)
        status = "; ".join(
            f"degree {degree}, m = {width}: {result.status.removesuffix('.')}"
            for (degree, width), result in found.items()
        )
        text = f"{status}." if worst.ok else worst.status
        return Findings(dataset, worst.ok, text)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(tolerance=COARSE, widths=self.widths[:1])

    def train(self, seed: int) -> Findings:
        problem = self.problem(self.witness_width, 1)
        return witness_simulation(problem, self.witness_times(), self.d, seed)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model at the small width in two dimensions, linear target, until the train loss is a tenth."""
        return compare_unfitted(theory, simulation, WITNESSED)

    def threshold(self) -> float:
        r"""$\gamma_{GF}$, where $a/\sqrt m$ ends as $m\to\infty$."""
        return interpolation_threshold(noise_series(self.activation), self.samples_per_parameter, self.noise)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, scaled = theory.dataset, self.scaled_times()[1:]
        symbols = {
            "second_layer": r"complexity $a/\sqrt{m}$",
            "overlap": "overlap $v$",
            "train_loss": r"train loss $e_{tr}$",
        }
        panels = []
        for name, label in symbols.items():
            marks: list[Mark] = []
            for degree in DEGREES:
                for colour, width in enumerate(self.counts()):
                    values = found[name].sel(degree=degree, width=width).values[1:]
                    values = values / np.sqrt(width) if name == "second_layer" else values
                    what = f"$m={width}$, target {degree}" if name == "train_loss" else ""
                    marks.append(Line(scaled, values, what, colour, dashed=degree == 2))
            if name == "second_layer":
                marks.append(Threshold(r"$\gamma_{GF}$", y=self.threshold()))
            marks.append(Threshold("$t=m$", x=1.0))
            panels.append(Panel("time $t/m$", label, marks, x_scale="log"))
        title = f"Unlearning, $\\alpha={self.samples_per_parameter:g}$, $\\tau^2={self.noise:g}$: "
        return Figure(
            [*panels, self._product_panel(theory), *witness_panels(self.witness_width, theory, simulation)],
            title + f"target {series_label(self.target)} (full), then {series_label(self.second_target)} (dashed)",
        )

    def _product_panel(self, theory: Result) -> Panel:
        found, scaled = theory.dataset.sel(degree=1), self.scaled_times()[1:]
        marks: list[Mark] = []
        for colour, width in enumerate(self.counts()):
            part = found.sel(width=width)
            marks.append(Line(scaled, (part.second_layer * part.overlap).values[1:], f"$m={width}$", colour))
        linear, series = coefficients(self.target), flow_activation(self.activation).hermite
        if linear is not None and len(linear) == 2 and series is not None and series[1]:
            marks.append(Threshold("learnt: $a\\,v\\,s_1=f_1$", y=linear[1] / series[1]))
        marks.append(Threshold("$t=m$", x=1.0))
        return Panel("time $t/m$", "first target: product $a\\,v$", marks, x_scale="log")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "trapped" in dataset:
            last = self.counts()[-1]
            found["threshold"] = Number(
                float(dataset.threshold),
                f"complexity a/√m at which noise is fitted as m → ∞, α = {self.samples_per_parameter:g}",
            )
            for degree in DEGREES:
                which = "first" if degree == 1 else "second"
                part, case = dataset.sel(degree=degree, width=last), f"{which} target, m = {last}"
                found |= {
                    f"degree_{degree}_final_overlap": Number(
                        float(part.overlap.values[-1]), f"overlap v with the target at the end, {case}"
                    ),
                    f"degree_{degree}_final_complexity": Number(
                        float(part.second_layer.values[-1] / np.sqrt(last)), f"complexity a/√m at the end, {case}"
                    ),
                    f"degree_{degree}_trapped": Number(
                        float(part.trapped), f"whether the network stays with what it has learnt (1) or not (0), {case}"
                    ),
                }
        return found | witness_numbers(dataset, self.witness_width)

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        learning = LEARNING / self.samples_per_parameter
        return with_network_deviations(super().headline(theory, simulation), theory, simulation, learning)
