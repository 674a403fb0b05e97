"""Neurons as particles: the mean-field equations of gradient flow, and how finite widths leave them."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.flow.flow_witness import (
    CURVES,
    GRID_TOLERANCE,
    WITNESSED,
    check_room,
    compare_unfitted,
    curves,
    flow_problem,
    with_network_deviations,
    witness_numbers,
    witness_panels,
    witness_simulation,
)
from limen.experiments.flow.flow_words import ACTIVATION, ACTIVATION_WORDS, TARGET, TARGET_WORDS
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.labelled import labelled
from limen.problem import InputError, TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.mean_field import mean_field
from limen.theory.flow.solve import solve

POINTS = 18


class MeanFieldFlow(Experiment):
    r"""As $m\to\infty$ at fixed $\hat t=\alpha t$, neurons that start alike obey two equations,

    $$\frac{da}{d\hat t}=\hat\varphi(v)-a\,h(v^2),\qquad
    \frac{dv}{d\hat t}=a(1-v^2)\big[\hat\varphi'(v)-a\,v\,h'(v^2)\big],$$

    $a$ the second layer, $v$ the overlap with the target; train and test loss are equal. Here
    $\sigma=0.8\,he_1+0.6\,he_2$ and the target is linear. At width $m$ the two-time theory is $O(1/m)$ away at
    $\hat t=O(1)$, and far once $t\sim\sqrt m$, where the noise is felt: train and test loss part.

    What to see: lines approach the dashed one as the width grows, by $1/m$ (right). The theory is exact for the
    Gaussian model, which is compared at the smallest width in two dimensions; real networks stand beside it and are
    close while they learn. Sources: Mei, Montanari & Nguyen 2018; Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "mean-field-flow"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = (
        "Two equations describe learning in wide networks; width m is 1/m away, until noise is felt."
    )
    citations: ClassVar[tuple[str, ...]] = ("mei2018", "montanari2025")
    default_seeds: ClassVar[int] = 84
    compared: ClassVar[tuple[str, ...] | None] = WITNESSED
    quick: ClassVar[dict[str, Any]] = {"widths": "3 6", "samples_per_parameter": 3.0, "horizon": 4.0, "d": 48}
    quick_seeds: ClassVar[int] = 224

    widths: NumberList = Field((5.0, 20.0, 80.0), description="numbers m of neurons; the smallest is simulated")
    samples_per_parameter: float = Field(0.5, gt=0.0, le=5.0, description="samples per parameter α = n/(md)")
    activation: str = Field(ACTIVATION, description=ACTIVATION_WORDS)
    target: str = Field(TARGET, description=TARGET_WORDS)
    noise: float = Field(0.3, ge=0.0, le=10.0, description="variance τ² of the label noise")
    second_layer: float = Field(1.0, gt=0.0, le=100.0, description="start a₀ of the second layer")
    horizon: float = Field(5.0, ge=0.5, le=50.0, description="last mean-field time αt")
    d: int = Field(60, ge=16, le=200, description="dimension of the inputs in simulations (and a third of it)")

    @model_validator(mode="after")
    def _room(self) -> "MeanFieldFlow":
        if not self.widths or not all(2 <= width <= 1e6 and width == int(width) for width in self.widths):
            raise InputError(f"widths must be whole numbers between 2 and 1000000, got {self.widths}.")
        if min(self.widths) > 20:
            raise InputError(f"widths must begin with at most 20, which is simulated, got {min(self.widths):g}.")
        check_room(self.d, self.counts()[0])
        return self

    def counts(self) -> tuple[int, ...]:
        """The widths as whole numbers, the smallest first."""
        return tuple(sorted({int(width) for width in self.widths}))

    def problem(self, width: int) -> TwoLayer:
        """The learning problem at one width."""
        return flow_problem(
            width, self.samples_per_parameter, self.noise, self.activation, self.target, self.second_layer
        )

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.02, self.horizon, POINTS)]) / self.samples_per_parameter

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times, counts = self.times(), self.counts()
        found = [solve(self.problem(width), times, tolerance=GRID_TOLERANCE) for width in counts]
        limit = curves(mean_field(self.problem(counts[0]), times))
        stacked = [curves(result) for result in found]
        variables: dict[str, Any] = {
            name: (("width", "time"), np.array([part[name] for part in stacked])) for name in CURVES
        }
        variables |= {f"mean_field_{name}": (("time",), limit[name]) for name in CURVES}
        variables |= {f"witness_{name}": (("witness_time",), stacked[0][name]) for name in CURVES}
        dataset = labelled(variables, coords={"width": list(counts), "time": times, "witness_time": times})
        worst = next((result for result in found if not result.ok), found[0])
        return Findings(dataset, worst.ok, worst.status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(widths=self.widths[:1])

    def train(self, seed: int) -> Findings:
        problem = self.problem(self.counts()[0])
        return witness_simulation(problem, self.times(), self.d, seed)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model at the smallest width in two dimensions, until nine tenths of the train loss are gone."""
        return compare_unfitted(theory, simulation, WITNESSED)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, times = theory.dataset, self.samples_per_parameter * self.times()[1:]
        panels = []
        for name, label in (("overlap", "overlap $v$"), ("second_layer", "second layer $a$")):
            marks: list[Mark] = [
                Line(times, found[name].sel(width=width).values[1:], f"$m={width}$", colour)
                for colour, width in enumerate(self.counts())
            ]
            limit = found[f"mean_field_{name}"].values[1:]
            marks.append(Line(times, limit, r"mean field, $m=\infty$", 6, dashed=True))
            panels.append(Panel(r"mean-field time $\hat t=\alpha t$", label, marks, x_scale="log"))
        panels.append(self._distance_panel(theory, simulation))
        title = f"Mean field of gradient flow, $\\alpha={self.samples_per_parameter:g}$, $\\tau^2={self.noise:g}$"
        return Figure([*panels, *witness_panels(self.counts()[0], theory, simulation), self._gap_panel(theory)], title)

    def _distance_panel(self, theory: Result, simulation: Result | None) -> Panel:
        widths, distance = np.array(self.counts(), dtype=float), self._distances(theory.dataset)
        marks: list[Mark] = [Line(widths, distance, "theory", spots=True)]
        marks.append(Line(widths, distance[-1] * widths[-1] / widths, r"$\propto1/m$", 6, dashed=True))
        if simulation is not None:
            limit, at = theory.dataset.mean_field_overlap.values, self._unit()
            rows = {
                "Gaussian model": simulation.dataset.witness_overlap.isel(size=-1),
                "real networks": simulation.dataset.network_overlap,
            }
            for colour, (label, values) in enumerate(rows.items()):
                mean, error = mean_and_error(limit[at] - values.values[:, at])
                marks.append(Points(widths[:1] * (1.0 + 0.06 * colour), [mean], [error], label, colour))
        label = rf"$v_\infty-v_m$ at $\hat t={self.samples_per_parameter * self.times()[self._unit()]:.2f}$"
        span = (0.3 * widths[0], 3.0 * widths[-1])
        return Panel("width $m$", label, marks, x_scale="log", y_scale="log", x_range=span)

    def _gap_panel(self, theory: Result) -> Panel:
        found, times = theory.dataset, self.times()[1:]
        marks: list[Mark] = []
        for colour, width in enumerate(self.counts()):
            gap = (found.test_loss - found.train_loss).sel(width=width).values[1:]
            marks.append(Line(times, gap, f"$m={width}$", colour))
            if np.sqrt(width) < times[-1]:
                marks.append(Threshold(rf"$\sqrt{{{width}}}$", x=float(np.sqrt(width))))
        return Panel("time $t$", r"gap $e_{ts}-e_{tr}$", marks, x_scale="log")

    def _unit(self) -> int:
        """The recorded time nearest to mean-field time 1."""
        return int(np.abs(self.samples_per_parameter * self.times() - 1.0).argmin())

    def _distances(self, found: xr.Dataset) -> np.ndarray:
        return (found.mean_field_overlap - found.overlap).transpose("width", "time").values[:, self._unit()]

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "mean_field_overlap" in dataset:
            counts, distances = self.counts(), self._distances(dataset)
            when = f"{self.samples_per_parameter * self.times()[self._unit()]:.2f}"
            found = {
                f"overlap_distance_width_{w}": Number(
                    float(x), f"overlap v short of that of infinite width at αt = {when}, m = {w}"
                )
                for w, x in zip(counts, distances, strict=True)
            }
            # Without noise the limit may be passed: distances of both signs follow no power.
            if len(distances) > 1 and distances[0] * distances[-1] > 0.0:
                found["exponent_of_width"] = Number(
                    float(np.log(distances[-1] / distances[0]) / np.log(counts[-1] / counts[0])),
                    f"power of the width with which v nears infinite width, m = {counts[0]} to {counts[-1]}",
                )
        return found | witness_numbers(dataset, self.counts()[0])

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        learning = 1.0 / self.samples_per_parameter
        return with_network_deviations(super().headline(theory, simulation), theory, simulation, learning)
