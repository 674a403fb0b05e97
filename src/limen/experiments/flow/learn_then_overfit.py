"""Learning, then overfitting: three regimes of one training run over six decades of time."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Threshold
from limen.experiments.flow.flow_witness import (
    COARSE,
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
from limen.experiments.flow.flow_words import ACTIVATION, ACTIVATION_WORDS, TARGET, TARGET_WORDS
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.early_stopping import early_stopping
from limen.theory.flow.mean_field import mean_field
from limen.theory.flow.solve import solve

FIRST_TIME = 0.05


class LearnThenOverfit(Experiment):
    r"""A network $\frac1m\sum_ja_j\sigma(\langle w_j,x\rangle)$, $\sigma=0.8\,he_1+0.6\,he_2$, learns a linear target
    from $n=\alpha md$ noisy samples, with more parameters than samples, by gradient flow to $t=10^5$.

    Three regimes: at $t\sim1/\alpha$ it learns, train and test loss fall together along the mean-field equations; from
    $t\sim\sqrt m$ on the directions of the neurons feel the noise; at $t\sim m$ the second layer grows to
    $a\approx\gamma_{GF}\sqrt m$, the train loss vanishes and the overlap $v$ with the target is given up. The best test
    loss lies between.

    The theory is exact for the Gaussian model (residuals as Gaussian processes of the weights). It is compared at a
    smaller width with that model sampled in two dimensions, until nine tenths of the train loss are gone; later the
    dimension is too small and deviations are only drawn. Real networks stand beside it: within some percent while they
    learn, then slower to fit the noise. Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "learn-then-overfit"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "A wide network learns, then feels the noise, then fits it: three times, six decades."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025", "mei2018")
    default_seeds: ClassVar[int] = 96
    compared: ClassVar[tuple[str, ...] | None] = WITNESSED
    quick: ClassVar[dict[str, Any]] = {
        "width": 20, "horizon": 20.0, "samples_per_parameter": 3.0, "witness_width": 3, "witness_horizon": 3.0, "d": 48,
        "tolerance": 0.05,
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 216

    width: int = Field(200, ge=2, le=1_000_000, description="number m of neurons")
    samples_per_parameter: float = Field(0.3, gt=0.0, le=5.0, description="samples per parameter α = n/(md)")
    activation: str = Field(ACTIVATION, description=ACTIVATION_WORDS)
    target: str = Field(TARGET, description=TARGET_WORDS)
    noise: float = Field(0.3, ge=0.0, le=10.0, description="variance τ² of the label noise")
    second_layer: float = Field(1.0, gt=0.0, le=1000.0, description="start a₀ of the second layer")
    horizon: float = Field(1e5, ge=1.0, le=1e7, description="last time t")
    tolerance: float = Field(2e-3, ge=1e-4, le=0.1, description="error allowed on the grid of times")
    witness_width: int = Field(8, ge=2, le=20, description="number of neurons of the simulated networks")
    witness_horizon: float = Field(40.0, ge=1.0, le=1000.0, description="last time of the simulations")
    d: int = Field(60, ge=16, le=200, description="dimension of the inputs in simulations (and a third of it)")

    @model_validator(mode="after")
    def _room(self) -> "LearnThenOverfit":
        check_room(self.d, self.witness_width)
        return self

    def problem(self, width: int) -> TwoLayer:
        """The learning problem at one width."""
        return flow_problem(
            width, self.samples_per_parameter, self.noise, self.activation, self.target, self.second_layer
        )

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(FIRST_TIME, self.horizon, 121)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.witness_horizon, 18)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        found = solve(self.problem(self.width), self.times(), tolerance=self.tolerance)
        limit = mean_field(self.problem(self.width), self.times())
        small, beside = witness_theory(self.problem(self.witness_width), self.witness_times())
        dataset = labelled(
            {name: (("time",), values) for name, values in curves(found).items()}
            | {"grid_error": found.dataset.grid_error, "mean_field_loss": limit.dataset.test_loss},
            coords={"time": self.times()},
        ).merge(small)
        ok = found.ok and beside.ok
        status = found.status if found.ok else beside.status
        statistics = {"nodes": found.statistics["nodes"]}
        return Findings(dataset, ok, status, statistics)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(tolerance=COARSE)

    def train(self, seed: int) -> Findings:
        problem = self.problem(self.witness_width)
        return witness_simulation(problem, self.witness_times(), self.d, seed)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model at the smaller width in two dimensions, until nine tenths of the train loss are fitted."""
        return compare_unfitted(theory, simulation, WITNESSED)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, found = self.times()[1:], theory.dataset
        root = np.sqrt(self.width)
        regimes: list[Mark] = [
            Threshold(symbol, x=at)
            for symbol, at in (
                (r"$1/\alpha$", 1 / self.samples_per_parameter),
                (r"$\sqrt{m}$", root),
                ("$m$", self.width),
            )
            if at < self.horizon
        ]
        losses: list[Mark] = [
            Line(times, found.train_loss.values[1:], r"train $e_{tr}$"),
            Line(times, found.test_loss.values[1:], r"test $e_{ts}$", 1),
            Line(times, found.mean_field_loss.values[1:], r"mean field, $m=\infty$", 6, dashed=True),
            *regimes,
        ]
        order: list[Mark] = [
            Line(times, found.overlap.values[1:], "overlap $v$", 2),
            Line(times, found.second_layer.values[1:] / root, r"second layer $a/\sqrt{m}$", 3),
            *regimes,
        ]
        return Figure(
            [
                Panel("time $t$", r"losses", losses, x_scale="log"),
                Panel("time $t$", "order parameters", order, x_scale="log"),
                *witness_panels(self.witness_width, theory, simulation),
            ],
            title=f"Learning, then overfitting: $m={self.width}$, $\\alpha={self.samples_per_parameter:g}$, "
            f"$\\tau^2={self.noise:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "train_loss" in dataset:
            best = early_stopping(Findings(dataset))
            end = f"at the end, t = {self.horizon:g}, m = {self.width}"
            found = {
                "stopping_time": Number(
                    best.time, f"time t at which the test loss is least, m = {self.width}", "units of time"
                ),
                "least_test_loss": Number(best.test_loss, f"least test loss, m = {self.width}"),
                "final_test_loss": Number(best.final_test_loss, f"test loss {end}"),
                "final_train_loss": Number(float(dataset.train_loss.values[-1]), f"train loss {end}"),
                "final_second_layer": Number(float(dataset.second_layer.values[-1]), f"second layer a {end}"),
                "final_overlap": Number(float(dataset.overlap.values[-1]), f"overlap v with the target {end}"),
            }
        return found | witness_numbers(dataset, self.witness_width)

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        learning = LEARNING / self.samples_per_parameter
        return with_network_deviations(super().headline(theory, simulation), theory, simulation, learning)
