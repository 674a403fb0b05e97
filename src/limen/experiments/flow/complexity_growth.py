"""How complexity grows: a network that fits noise raises its second layer on the scale of t = m."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Threshold
from limen.experiments.flow.flow_witness import GAUSSIAN, compare_dimensions, in_larger_dimension, joined_runs
from limen.experiments.flow.flow_words import (
    ACTIVATION_WORDS,
    ADDED_TARGET_WORDS,
    NOTHING,
    learnt_without_overlap,
    noise_series,
    series_label,
    unlearnt_noise,
)
from limen.experiments.flow.noise_witness import (
    dimensions,
    joined_theory,
    noise_problem,
    noise_runs,
    remaining,
    with_network_deviation,
    witness_marks,
)
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.long_times.adiabatic import adiabatic
from limen.theory.flow.solve import solve

STEPS_OF_TEN = 3
HELD = "a target of degree 2 or more can hold a wide network in what it has learnt"
COMPARED = ("witness_second_layer", "witness_remaining")
CAVEAT = (
    "In d dimensions the Gaussian model fits noise later than in the limit, by A/d: with two neurons and 0.9 samples "
    "per parameter the remaining loss is up to 2.9/d above it, 6.2% of its range at d = 48 and 2.9% at d = 96."
)


class ComplexityGrowth(Experiment):
    r"""A network $\frac1m\sum_ja_j\,he_p(\langle w_j,x\rangle)$ with both layers trained fits $n=\alpha md$ labels of
    pure noise, from $a_j=a_0$ of order one.

    While $t\sim\sqrt m$ the directions relax and $a$ hardly moves. Then $a=\sqrt m\,\gamma(t/m)$: the first layer has
    aged to its asymptotic state at every $\gamma$, and $\gamma'=-\alpha\,e_\infty'(\gamma)$. It grows first with the
    slope $\gamma_*=\sqrt\alpha\,\tau E_{th}$ set by the threshold energy of a spin glass, and stops at the
    interpolation threshold $\gamma_{GF}$, where the train loss vanishes. What to see: curves of growing width collapse
    onto the adiabatic one.

    The theory is exact for the Gaussian model (residuals as Gaussian processes of the weights); at a small width it is
    compared with it in two dimensions at all times, where it fits later by $A/d$. Real networks stand beside it, slower
    to fit noise: with $\sigma=he_2$ the Gaussian model is only qualitative for them.

    With a linear `target` and a linear part in $\sigma$ the target is learnt first, at $t\sim1/\alpha$; then $a$ grows
    as on pure noise, with the product of $a$ and the overlap kept. A target of higher degree can hold a wide network
    in what it has learnt: no adiabatic line is drawn for it. Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "complexity-growth"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "The second layer of a network that fits noise grows adiabatically to a threshold."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025", "cugliandolo1993")
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = COMPARED
    quick: ClassVar[dict[str, Any]] = {
        "samples_per_parameter": 0.9, "largest_width": 100, "horizon": 0.3, "witness_width": 2, "witness_horizon": 6.0,
        "d": 96,
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 208

    samples_per_parameter: float = Field(0.3, ge=0.02, le=0.9, description="samples per parameter α = n/(md)")
    noise: float = Field(1.0, gt=0.0, le=10.0, description="variance τ² of the label noise")
    activation: str = Field("hermite:2", description=ACTIVATION_WORDS)
    target: str = Field(NOTHING, description=ADDED_TARGET_WORDS)
    second_layer: float = Field(0.3, gt=0.0, le=100.0, description="start a₀ of the second layer")
    largest_width: int = Field(10_000, ge=100, le=1_000_000, description="largest number m of neurons")
    horizon: float = Field(5.0, ge=0.1, le=100.0, description="last time in units of the width, s = t/m")
    witness_width: int = Field(4, ge=1, le=16, description="number of neurons of the simulated networks")
    witness_horizon: float = Field(6.0, ge=0.1, le=100.0, description="last time of the simulations, s = t/m")
    d: int = Field(100, ge=16, le=160, description="dimension of the inputs in simulations (and half of it)")

    def problem(self, width: int) -> TwoLayer:
        """Both layers trained, on pure noise or beside a target."""
        ratio, start = self.samples_per_parameter, self.second_layer
        return noise_problem(self.activation, width, ratio, self.noise, start, True, self.target)

    def follows(self) -> bool:
        """Whether the growth is adiabatic: nothing of the target is held by the overlap."""
        return learnt_without_overlap(self.activation, self.target)

    def widths(self) -> list[int]:
        return [self.largest_width // 10**power for power in reversed(range(STEPS_OF_TEN))]

    def times(self) -> np.ndarray:
        r"""$s=t/m$."""
        return np.concatenate([[0.0], np.geomspace(1e-3, self.horizon, 80)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.05, self.witness_horizon, 19)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        widths, times, short = self.widths(), self.times(), self.witness_times()
        unlearnt = unlearnt_noise(self.activation, self.target, self.noise)
        limit = adiabatic(noise_series(self.activation), self.samples_per_parameter, times, unlearnt).dataset
        known, why = (1.0, {}) if self.follows() else (np.nan, {"undefined": HELD})
        found = [solve(self.problem(width), width * times, tolerance=5e-3) for width in widths]
        beside = solve(self.problem(self.witness_width), self.witness_width * short, tolerance=5e-3)
        layers = np.array([part.dataset.second_layer.values[:, 0] for part in found])
        dataset = labelled(
            {
                "gamma": (("width", "time"), layers / np.sqrt(widths)[:, None]),
                "train_loss": (("width", "time"), np.array([part.dataset.train_loss.values for part in found])),
                "adiabatic_gamma": (("time",), known * limit.gamma.values, why),
                "adiabatic_loss": (("time",), known * limit.train_loss.values, why),
                "witness_second_layer": (("witness_time",), beside.dataset.second_layer.values[:, 0]),
                "witness_remaining": (("witness_time",), remaining(beside)),
                "threshold": float(limit.threshold),
                "initial_slope": float(limit.initial_slope),
            },
            coords={"width": widths, "time": times, "witness_time": short},
            attrs={"caveat": CAVEAT},
        )
        return joined_theory(dataset, [*found, beside])

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(largest_width=min(self.largest_width, 100))

    def train(self, seed: int) -> Findings:
        width, short = self.witness_width, self.witness_times()
        runs = noise_runs(self.problem(width), width * short, self.d, seed)
        layers = [run.dataset.second_layer.values.ravel() for run in runs]
        left = [remaining(run) for run in runs]
        sized, single = ("seed", "size", "witness_time"), ("seed", "witness_time")
        dataset = labelled(
            {
                "witness_second_layer": (sized, np.array([layers[:-1]])),
                "witness_remaining": (sized, np.array([left[:-1]])),
                "network_second_layer": (single, layers[-1][None]),
                "network_remaining": (single, left[-1][None]),
            },
            coords={"seed": [seed], "size": list(dimensions(self.d)), "witness_time": short},
            attrs={"d": self.d},
        )
        return joined_runs(dataset, runs)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model of the small width in two dimensions, at all times."""
        return compare_dimensions(theory, simulation, COMPARED)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, s = theory.dataset, self.times()[1:]
        threshold, slope = float(found.threshold), float(found.initial_slope)
        growth: list[Mark] = []
        losses: list[Mark] = []
        for colour, width in enumerate(self.widths()):
            label = f"$m={width}$"
            growth.append(Line(s, found.gamma.sel(width=width).values[1:], label, colour))
            losses.append(Line(s, found.train_loss.sel(width=width).values[1:], label, colour))
        if self.follows():
            growth.append(Line(s, found.adiabatic_gamma.values[1:], "adiabatic", 6, dashed=True))
            losses.append(Line(s, found.adiabatic_loss.values[1:], "adiabatic", 6, dashed=True))
            linear = s[s * slope < 0.6 * threshold]
            growth.append(Line(linear, slope * linear, r"slope $\gamma_*$", 4, dashed=True))
        growth.append(Threshold(r"$\gamma_{GF}$", y=threshold))
        panels = [
            Panel(
                "time $s=t/m$", r"second layer $\gamma=a/\sqrt{m}$", growth, x_scale="log", y_scale="log",
                y_range=(0.5 * self.second_layer / self.largest_width**0.5, 2.0 * threshold),
            ),
            Panel("time $s=t/m$", r"train loss $e_{tr}$", losses, x_scale="log"),
        ]  # fmt: skip
        at = self.witness_times()[1:]
        for name, label in (("second_layer", "second layer $a$"), ("remaining", r"remaining $e_{tr}(t)/e_{tr}(0)$")):
            marks: list[Mark] = [Line(at, found[f"witness_{name}"].values[1:], "theory", GAUSSIAN)]
            if simulation is not None:
                model = simulation.dataset[f"witness_{name}"].values[:, -1, 1:]
                marks += witness_marks(at, model, simulation.dataset[f"network_{name}"].values[:, 1:], self.d, True)
            title = f"simulated width $m={self.witness_width}$"
            panels.append(Panel("time $s=t/m$", label, marks, title=title, x_scale="log"))
        what = "on pure noise" if self.target == NOTHING else f"beside the target {series_label(self.target)}"
        return Figure(
            panels,
            title=rf"Growth of complexity {what}: $\alpha={self.samples_per_parameter:g}$, "
            rf"$\tau^2={self.noise:g}$, {series_label(self.activation)}",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "gamma" in dataset:
            found = {
                "threshold": Number(
                    float(dataset.threshold),
                    f"second layer γ = a/√m from which noise is fitted, α = {self.samples_per_parameter:g}",
                ),
                "final_gamma": Number(
                    float(dataset.gamma.values[-1, -1]), f"second layer γ = a/√m at the end, m = {self.largest_width}"
                ),
            }
            if self.follows():
                off = np.abs(dataset.gamma.values[-1] - dataset.adiabatic_gamma.values).max()
                found["deviation_from_adiabatic"] = Number(
                    float(off), f"largest distance of γ from its adiabatic growth, m = {self.largest_width}"
                )
        layer = in_larger_dimension(dataset).witness_second_layer.values
        found["witness_final_second_layer"] = Number(
            float(layer[-1]), f"second layer a at the end, at the simulated width m = {self.witness_width}"
        )
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        expected = theory.dataset.witness_second_layer
        networks = None if simulation is None else simulation.dataset.network_second_layer
        reach = max(float(np.ptp(expected.values)), 1e-12)
        return with_network_deviation(
            super().headline(theory, simulation), expected, networks, reach, "the second layer, in parts of its growth,"
        )
