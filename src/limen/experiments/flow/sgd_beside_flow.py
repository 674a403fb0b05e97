"""Mini-batch SGD beside gradient flow: the same sample, the same clock, theory and training of both."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.flow.flow_words import TARGET, TARGET_WORDS, coefficients, flow_target, series_label
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.labelled import labelled
from limen.problem import GradientDescent, GradientFlow, InputError, OverlapStart, TwoLayer, activation, network
from limen.result import Findings, Result
from limen.simulation.descent import gradient_descent
from limen.simulation.flow.gradient_flow import gradient_flow
from limen.theory.descent import solve as descent
from limen.theory.flow.exact import small_steps

LOSSES = ("train_loss", "test_loss")
PATHS, SCRAMBLES = 8192, 4
STEP_TOLERANCE = 1e-4
MOMENTS = 8
MOST_STEPS = 160


class SGDBesideFlow(Experiment):
    r"""A narrow network on the sphere learns a target from $n=\delta d$ samples by gradient flow and by mini-batch SGD
    of step $\eta$, batches of $bn$ samples: $\nu$ steps of SGD are the time $t=\nu\eta/\delta$ of the flow.

    What to see: SGD with a small step lies on the flow; the source compares its theory of the flow with SGD for that
    reason. A larger step, or a smaller batch at the same step, leaves it: the noise of the batches, in proportion to
    $\eta/(b\delta)$, holds the losses up. Both are predicted without a model of the network: the flow by small steps of
    descent, SGD by the same equations with batches as random factors of the forces. Trained networks in dimension $d$
    are compared with both.

    With a polynomial activation and $\eta/(b\delta)$ of order one the theory diverges, and says so,
    while training in dimension 60 stayed finite. A few samples of large field may be the reason; that was not tested.
    Sources: Montanari & Urbani 2025 (arXiv 2502.21269), "Comparing with SGD"; Gerbelot et al. 2022 for the batches.
    """

    name: ClassVar[str] = "sgd-beside-flow"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "Mini-batch SGD on the clock of gradient flow: where they agree, where noise parts them."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025", "gerbelot2022", "montanari2026")
    default_seeds: ClassVar[int] = 96
    compared: ClassVar[tuple[str, ...] | None] = (*LOSSES, "flow_train_loss", "flow_test_loss")
    quick: ClassVar[dict[str, Any]] = {"width": 1, "samples_per_dim": 2.0, "rates": "0.5", "horizon": 1.0, "d": 60}
    quick_seeds: ClassVar[int] = 560

    activation: str = Field("erf", description="activation σ: a name or formula, or Hermite coefficients s₀, s₁, ...")
    target: str = Field(TARGET, description=TARGET_WORDS)
    noise: float = Field(0.3, ge=0.0, le=10.0, description="variance τ² of the label noise")
    width: int = Field(2, ge=1, le=4, description="neurons m")
    samples_per_dim: float = Field(3.0, gt=0.0, le=20.0, description="samples per dimension δ = n/d")
    rates: NumberList = Field((0.25, 1.0), description="steps η of SGD")
    batch_fraction: float = Field(0.5, gt=0.0, le=1.0, description="part b of the sample that a step sees")
    start: float = Field(0.3, ge=0.0, lt=1.0, description="overlap with the target at the start")
    horizon: float = Field(2.0, gt=0.0, le=20.0, description="last time t of the flow")
    d: int = Field(200, ge=10, le=2_000, description="dimension of the inputs in simulations")

    @model_validator(mode="after")
    def _possible(self) -> "SGDBesideFlow":
        if not self.rates or not all(0.0 < rate <= 10.0 for rate in self.rates):
            raise InputError(f"rates must be numbers above 0, at most 10, got {self.rates}.")
        for rate in self.rates:
            if not 1 <= self.steps(rate)[-1] <= MOST_STEPS:
                raise InputError(
                    f"horizon * samples_per_dim / rate, the number of steps, must be 1 to {MOST_STEPS} for every rate, "
                    f"got {self.horizon:g} * {self.samples_per_dim:g} / {rate:g}."
                )
        self.problem(GradientFlow())
        return self

    def problem(self, algorithm: GradientFlow | GradientDescent) -> TwoLayer:
        """The learning problem with one algorithm."""
        series = coefficients(self.activation)
        sigma = activation(self.activation) if series is None else activation(hermite=series)
        return TwoLayer(
            flow_target(self.target, self.noise),
            network(self.width, sigma, train_second_layer=True),
            algorithm,
            self.samples_per_dim,
            start=OverlapStart(self.start),
        )

    def sgd(self, rate: float) -> TwoLayer:
        """The learning problem with mini-batch SGD."""
        return self.problem(GradientDescent(rate, spherical=True, batch_fraction=self.batch_fraction))

    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.horizon, MOMENTS + 1)

    def steps(self, rate: float) -> np.ndarray:
        """Whole steps of SGD nearest to the times."""
        return np.rint(self.times() * self.samples_per_dim / rate)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        flow = small_steps.solve(self.problem(GradientFlow()), self.times())
        parts = [self._theory(rate) for rate in self.rates]
        variables: dict[str, Any] = {}
        for name in LOSSES:
            spread = f"{name}_spread"
            variables[f"flow_{name}"] = (
                ("time",), flow.dataset[name].values, {"error": f"flow_{spread}", "error_part": 1.0},
            )  # fmt: skip
            variables[f"flow_{spread}"] = (("time",), flow.dataset[spread].values)
            attributes = parts[0].dataset[name].attrs
            variables[name] = (("rate", "moment"), np.array([part.dataset[name].values for part in parts]), attributes)
            variables[spread] = (("rate", "moment"), np.array([part.dataset[spread].values for part in parts]))
        worst = next((part for part in [flow, *parts] if not part.ok), flow)
        return Findings(labelled(variables, coords=self._coords()), worst.ok, worst.status)

    def _theory(self, rate: float) -> Findings:
        """SGD at its times; a step may stand for several of them, so that whole steps are solved once."""
        steps = self.steps(rate)
        known = np.unique(steps)
        found = descent.solve(self.sgd(rate), known, paths=PATHS, scrambles=SCRAMBLES, tolerance=0.03)
        return Findings(found.dataset.sel(time=steps), found.ok, found.status)

    def _coords(self) -> dict[str, Any]:
        return {"time": self.times(), "rate": list(self.rates), "moment": np.arange(MOMENTS + 1)}

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(horizon=min(self.horizon, 0.5), rates=self.rates[:1])

    def train(self, seed: int) -> Findings:
        flow = gradient_flow.solve(
            self.problem(GradientFlow()), self.times(), self.d, seed, tolerance=STEP_TOLERANCE
        )  # fmt: skip
        rows = []
        for rate in self.rates:
            steps = self.steps(rate)
            found = gradient_descent.solve(self.sgd(rate), np.unique(steps), self.d, seed)
            rows.append(found.dataset.sel(time=steps))
        variables: dict[str, Any] = {}
        for name in LOSSES:
            variables[f"flow_{name}"] = (("seed", "time"), flow.dataset[name].values.reshape(1, -1))
            values = np.array([row[name].values.reshape(-1) for row in rows])
            variables[name] = (("seed", "rate", "moment"), values[None])
        coords = {"seed": [seed], **self._coords()}
        return Findings(labelled(variables, coords=coords, attrs={"d": self.d}), flow.ok, flow.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        panels = []
        for name, label in (("train_loss", r"train loss $e_{tr}$"), ("test_loss", r"test loss $e_{ts}$")):
            marks: list[Mark] = [Line(self.times(), theory.dataset[f"flow_{name}"], "gradient flow")]
            if simulation is not None:
                values = simulation.dataset[f"flow_{name}"].values
                marks.append(Points(self.times(), *mean_and_error(values), f"flow, $d={self.d}$"))
            for i, rate in enumerate(self.rates):
                at = self.steps(rate) * rate / self.samples_per_dim
                marks.append(Line(at, theory.dataset[name].values[i], rf"SGD, $\eta={rate:g}$", i + 1))
                if simulation is not None:
                    values = simulation.dataset[name].values[:, i]
                    marks.append(Points(at, *mean_and_error(values), "", i + 1))
            panels.append(Panel("time $t$ of the flow", label, marks))
        title = rf"SGD beside gradient flow: $m={self.width}$, $\delta={self.samples_per_dim:g}$, "
        words = f"{series_label(self.activation)}, target {series_label(self.target)}"
        return Figure(panels, title + rf"$b={self.batch_fraction:g}$, {words}")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        end = f"at t = {self.horizon:g}"
        found = {"flow_test_loss": Number(float(means.flow_test_loss.values[-1]), f"test loss of gradient flow {end}")}
        for i, rate in enumerate(self.rates):
            row = means.test_loss.transpose("rate", "moment").values[i]
            found[f"test_loss_rate_{rate:g}"] = Number(float(row[-1]), f"test loss of SGD with step {rate:g} {end}")
        return found
