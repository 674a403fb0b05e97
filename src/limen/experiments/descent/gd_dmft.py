"""Full-batch gradient descent against its mean-field theory, observable by observable."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.descent import gradient_descent
from limen.theory.descent import solve as descent

MOST_TIMES = 41
MOST_SHOWN = 4
PATHS, SCRAMBLES = 8192, 7
COARSE_PATHS, COARSE_SETS = 1024, 2


class GradientDescentMeanField(Experiment):
    r"""A small network learns a multi-index target by full-batch gradient descent on $n=\delta d$ samples.

    As $n,d\to\infty$ everything that is an average over samples or coordinates follows a deterministic dynamics with
    memory: the same samples are seen at every step, so the fields $V(t)=\Theta(t)^\top x$ of a sample remember how they
    have pulled at the weights. Two kernels say how: the correlation $C(t,t')=\theta(t)\cdot\theta(t')$ and the response
    $R(t,t')$ of the weights at $t$ to a push at $t'$, and the theory computes both, with
    the losses and the overlaps $\theta_j\cdot\theta_{*r}$, in one causal pass.

    What to see: the train loss runs away from the test loss although both follow from the same
    equations; the neurons find the first latent direction at once and the second through it, later; the weights
    grow along the noise of the sample, and correlations with early weights flatten out while the response decays.
    Points of finite-size training lie on the lines, all two-time correlations included. Overlaps with hard directions
    of a target (try $z^2$) vanish in this limit and are left out of the comparison. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "gd-dmft"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "Gradient descent on a fixed sample follows its mean-field theory, two times included."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026", "celentano2021")
    default_seeds: ClassVar[int] = 192
    compared: ClassVar[tuple[str, ...] | None] = (
        "train_loss", "test_loss", "overlap", "gram", "correlation", "second_layer"
    )  # fmt: skip
    quick: ClassVar[dict[str, Any]] = {
        "d": 400, "steps": 4, "width": 1, "second_layer": (1.0,), "bias": (0.0,), "target": "tanh(2*z)"
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 512

    target: str = Field("tanh(2*z1) + tanh(z1*z2)", description="target: a name or a formula in z1, z2, ...")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("tanh", description="activation σ, twice differentiable")
    loss: str = Field("square", description="loss ℓ: square, logistic, huber:k, pseudo-huber:k, ...")
    width: int = Field(3, ge=1, le=6, description="neurons m")
    second_layer: NumberList = Field((2.0, -2.0, 3.0), description="second layer a: one number, or one per neuron")
    bias: NumberList = Field((0.0, 0.3, -0.3), description="biases b: one number, or one per neuron")
    samples_per_dim: float = Field(4.0, gt=0.0, le=100.0, description="samples per dimension δ = n/d")
    step: float = Field(1.2, gt=0.0, le=100.0, description="step η")
    weight_decay: float = Field(0.0, ge=0.0, le=10.0, description="weight decay λ of the first layer")
    train_second_layer: bool = Field(False, description="train the second layer too")
    spherical: bool = Field(False, description="keep every neuron on its sphere")
    steps: int = Field(16, ge=1, le=120, description="steps of gradient descent")
    d: int = Field(400, ge=10, le=5_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "GradientDescentMeanField":
        self.problem()
        return self

    def problem(self) -> TwoLayer:
        """The learning problem behind the experiment."""
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        return TwoLayer(
            target(self.target, noise=self.noise),
            network(self.width, self.activation, second_layer, bias, train_second_layer=self.train_second_layer),
            GradientDescent(self.step, self.weight_decay, self.spherical),
            samples_per_dim=self.samples_per_dim,
            loss=self.loss,
        )

    def times(self) -> np.ndarray:
        """Every step, or 41 of them."""
        return np.unique(np.rint(np.linspace(0.0, self.steps, min(self.steps + 1, MOST_TIMES))))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        return self._theory(PATHS, SCRAMBLES)

    def first_look(self) -> tuple[Self, Findings]:
        return self, self._theory(COARSE_PATHS, COARSE_SETS)

    def _theory(self, paths: int, scrambles: int) -> Findings:
        return descent.solve(self.problem(), self.times(), paths, scrambles)

    def train(self, seed: int) -> Findings:
        return gradient_descent.solve(self.problem(), self.times(), d=self.d, seed=seed)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        names = [
            name for name in self.compared or () if name != "overlap" or np.abs(theory.dataset.overlap.values).max() > 0
        ]
        return compare(theory, simulation, names)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        shown = range(min(self.width, MOST_SHOWN))
        losses = [
            mark
            for colour, (name, label) in enumerate((("test_loss", "test"), ("train_loss", "train")))
            for mark in self._marks(theory, simulation, name, (), label, colour)
        ]
        panels = [Panel("step $t$", "loss", losses)]
        for r in range(min(self.problem().target.latents, 2)):
            marks = [m for j in shown for m in self._marks(theory, simulation, "overlap", (j, r), f"$j={j + 1}$", j)]
            panels.append(Panel("step $t$", rf"overlap $\theta_j\cdot\theta_{{*{r + 1}}}$", marks))
        marks = [m for j in shown for m in self._marks(theory, simulation, "gram", (j, j), f"$j={j + 1}$", j)]
        panels.append(Panel("step $t$", r"squared length $|\theta_j|^2$", marks))
        panels += self._two_time(theory, simulation)
        model = f"{typeset(self.activation)}, $m={self.width}$, $y=$ {typeset(self.target)}"
        title = f"{model}, $n/d={self.samples_per_dim:g}$, $d={self.d}$"
        return Figure(panels, title=title)

    def _two_time(self, theory: Result, simulation: Result | None) -> list[Panel]:
        """Correlation and response of the first neuron from a few early times on."""
        times, correlation, response = self.times(), [], []
        for colour, start in enumerate(thin(times.size, 4)[:-1]):
            label = f"$t'={times[start]:g}$"
            correlation += self._marks(theory, simulation, "correlation", (int(start), 0, 0), label, colour)
            values = theory.dataset.response.values[start + 1 :, start, 0, 0]
            response.append(Line(times[start + 1 :], values, label, colour))
        return [
            Panel("step $t$", r"correlation $C_{11}(t,t')=\theta_1(t)\cdot\theta_1(t')$", correlation),
            Panel("step $t$", r"response $R_{11}(t,t')$", response),
        ]

    def _marks(
        self, theory: Result, simulation: Result | None, name: str, at: tuple[int, ...], label: str, colour: int
    ) -> list[Mark]:
        """Theory's line and the points of the runs, along time at the given further indices."""
        times, index = self.times(), (slice(None), *at)
        marks: list[Mark] = [Line(times, theory.dataset[name].values[index], label, colour)]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset[name].values)
            some, runs = (
                thin(times.size),
                f"GD, {counted(len(simulation.seeds), 'run')}" if name == "train_loss" else "",
            )
            marks.append(Points(times[some], mean[index][some], error[index][some], runs, colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = over_seeds(dataset.isel(time=-1))
        train, test = float(last.train_loss), float(last.test_loss)
        return {
            "train_loss": Number(train, "train loss after training"),
            "test_loss": Number(test, "test loss after training"),
            "gap": Number(test - train, "test loss minus train loss after training"),
            "largest_overlap": Number(
                np.abs(last.overlap.values).max(), "largest overlap with the target after training"
            ),
        }
