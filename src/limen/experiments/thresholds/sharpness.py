"""The edge of stability: the largest curvature along gradient descent against the step."""

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.problem import GradientDescent, InputError, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.record import diverged
from limen.simulation.thresholds.trained_hessian import trained_top
from limen.theory.thresholds.sharpness import sharpness

PATHS, SCRAMBLES = 4096, 5
RANKS, MOST_TIMES = 2, 7
CAVEAT = (
    "Beyond the edge of stability runs begin to swing at different steps, and their mean lies below the line, by up to "
    "7% of the range at d = 300."
)


class Sharpness(Experiment):
    r"""The largest eigenvalue of $m\nabla^2\hat R$ along gradient descent of a small network, for several steps $\eta$.

    Near a minimum descent is stable along an eigenvector while its eigenvalue $\lambda$ is below $2m/\eta$, with
    momentum $\beta$ below $2m(1+\beta)/\eta$. Theory has $\lambda$ as $n,d\to\infty$: the weights of the Hessian are
    known on the paths of the mean-field equations, and its eigenvalues outside the bulk lean on the directions that
    training has taken (target, start, the gradients) and on the second layer.

    What to see: the network grows to fit the labels, and the curvature with it. With a short step it stays below the
    edge; with the longest it passes it, and that is not felt at once: a swing across the valley has to grow first,
    from what little there is of it. `--step 0.7 --steps 42` shows it grown: iterates go back and forth between a
    place that is too curved for the step and one that is not, which costs train loss for good. While it sets in
    (steps 8 to 20) runs differ in its moment, and their mean at $d=300$ is up to 7% of the range below the line,
    which is one run at $d=\infty$. The comparison is made at $d/2$ and $d$. Where $\lambda_1$ is no outlier but the
    edge of the bulk (`--activation tanh`), it lies $O(d^{-2/3})$ below its limit. Source: Cohen et al. 2021 for the
    phenomenon; Montanari & Wang 2026 for the dynamics; the outliers along what training has taken are derived here.
    """

    name: ClassVar[str] = "sharpness"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "The curvature grows along training, up to what the step can bear and beyond."
    citations: ClassVar[tuple[str, ...]] = ("cohen2021", "montanari2026", "celentano2021")
    # By a pilot of twelve seeds: with so many the band leaves a verdict.
    default_seeds: ClassVar[int] = 72
    compared: ClassVar[tuple[str, ...] | None] = ("stability", "train_loss")
    quick: ClassVar[dict[str, object]] = {"d": 120, "steps": 4, "step": (0.25, 0.5)}
    quick_seeds: ClassVar[int] = 352

    target: str = Field("3*relu(z)", description="target: a name or a formula in z1, z2, ...")
    noise: float = Field(0.1, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("softplus", description="activation σ, twice differentiable")
    loss: str = Field("square", description="loss ℓ: square, huber:k, pseudo-huber:k, ...")
    width: int = Field(1, ge=1, le=4, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a at the start: one number, or one per neuron")
    train_second_layer: bool = Field(True, description="train the second layer too")
    samples_per_dim: float = Field(12.0, ge=1.0, le=100.0, description="samples per dimension δ = n/d")
    step: NumberList = Field((0.25, 0.35, 0.5), description="steps η, one curve each")
    momentum: float = Field(0.0, ge=0.0, lt=1.0, description="momentum β of the heavy ball")
    steps: int = Field(30, ge=1, le=200, description="steps of gradient descent")
    d: int = Field(300, ge=20, le=2_000, description="dimension of the inputs; half of it is run too")

    @model_validator(mode="after")
    def _check(self) -> "Sharpness":
        values = np.asarray(self.step)
        if not 1 <= values.size <= 6 or (np.diff(values) <= 0.0).any() or not 0.0 < values[0] <= values[-1] <= 100.0:
            raise InputError(f"step must be one to six ascending numbers in (0, 100], got {self.step}.")
        self.problem(self.step[0])
        return self

    def problem(self, step: float) -> TwoLayer:
        """The learning problem at one step."""
        second = self.second_layer[0] if len(self.second_layer) == 1 else self.second_layer
        return TwoLayer(
            target(self.target, noise=self.noise),
            network(self.width, self.activation, second, train_second_layer=self.train_second_layer),
            GradientDescent(step, momentum=self.momentum),
            samples_per_dim=self.samples_per_dim,
            loss=self.loss,
        )

    def times(self) -> np.ndarray:
        """Up to seven steps, even and odd ones: the swing has period two."""
        return np.unique(np.rint(np.linspace(0.0, self.steps, min(self.steps + 1, MOST_TIMES))))

    def sizes(self) -> tuple[int, int]:
        """Half the dimension, and the dimension."""
        return self.d // 2, self.d

    def limits(self) -> np.ndarray:
        r"""$2m(1+\beta)/\eta$ of every step."""
        return 2.0 * self.width * (1.0 + self.momentum) / np.asarray(self.step)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        found = [sharpness(self.problem(step), self.times(), PATHS, SCRAMBLES, count=RANKS) for step in self.step]
        parts: list[xr.Dataset] = []
        for one, limit in zip(found, self.limits(), strict=True):
            part = one.dataset.drop_vars("step")
            attrs = part.sharpness.attrs | {"error": "stability_spread"}
            part["stability"] = (part.sharpness / limit).assign_attrs(attrs)
            part["stability_spread"] = part.sharpness_spread / limit
            kept = ["eigenvalue", "bulk_edge", "train_loss", "train_loss_spread", "stability", "stability_spread"]
            parts.append(part[kept])
        dataset = xr.concat(parts, xr.Variable("step", list(self.step)), combine_attrs="override")
        if float(dataset.stability.max()) > 1.0:
            dataset = dataset.assign_attrs(caveat=CAVEAT)
        worst = next((one for one in found if not one.ok), found[0])
        return Findings(dataset, worst.ok, self._shown(dataset) if worst.ok else worst.status)

    def _shown(self, dataset: xr.Dataset) -> str:
        """One line: where the curvature ends, in units of the largest that is stable."""
        last = dataset.stability.values[:, -1]
        said = ", ".join(f"{value:.2g} at η = {step:g}" for value, step in zip(last, self.step, strict=True))
        return f"after {self.steps} steps the largest curvature over the largest stable one is {said}."

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(step=self.step[:1])

    def train(self, seed: int) -> Findings:
        shape = (len(self.sizes()), len(self.step), self.times().size)
        values, losses = np.empty((*shape, RANKS)), np.empty(shape)
        for i, d in enumerate(self.sizes()):
            for j, step in enumerate(self.step):
                problem = self.problem(step)
                values[i, j], losses[i, j] = trained_top(
                    problem, trained_weights(problem, self.times(), d, seed), RANKS
                )
        along = ("seed", "size", "step", "time")
        dataset = xr.Dataset(
            {
                "eigenvalue": ((*along, "rank"), values[None]),
                "stability": (along, values[None, ..., 0] / self.limits()[:, None]),
                "train_loss": (along, losses[None]),
            },
            coords={"seed": [seed], "size": list(self.sizes()), "step": list(self.step), "time": self.times()},
            attrs={"d": self.d},
        )
        finite = bool(np.isfinite(values).all())
        status = f"Hessians of trained networks in d = {self.d // 2} and {self.d}."
        return Findings(dataset, finite, status if finite else diverged(self.d))

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        def at(result: Result, i: int) -> Result:
            dataset = result.dataset.isel(size=i) if "size" in result.dataset.dims else result.dataset
            return replace(result, dataset=dataset.assign_attrs(d=self.sizes()[i]))

        return compare([at(theory, i) for i in range(2)], [at(simulation, i) for i in range(2)], self.compared)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        largest = len(self.step) - 1
        curves: dict[str, list[Mark]] = {"stability": [], "train_loss": []}
        for i, eta in enumerate(self.step):
            for name, marks in curves.items():
                marks += self._marks(theory, simulation, name, i, rf"$\eta={eta:g}$")
        rows: list[Mark] = []
        for rank in range(RANKS):
            rows += self._marks(theory, simulation, "eigenvalue", largest, rf"$\lambda_{rank + 1}$", rank)
        bulk = Line(self.times(), theory.dataset.bulk_edge.values[largest], "edge of the bulk", colour=4)
        limit = Threshold(r"$2m(1+\beta)/\eta$" if self.momentum else r"$2m/\eta$", y=self.limits()[largest])
        edge = Threshold("edge of stability", y=1.0)
        unit = r"2m(1+\beta)" if self.momentum else "2m"
        model = f"{typeset(self.activation)}, $m={self.width}$, on $y=$ {typeset(self.target)}"
        return Figure(
            [
                Panel("step $t$", rf"sharpness $\eta\lambda_1/{unit}$", [*curves["stability"], edge]),
                Panel("step $t$", "eigenvalues", [*rows, bulk, limit], rf"$\eta={self.step[-1]:g}$"),
                Panel("step $t$", "train loss", curves["train_loss"], y_scale="log"),
            ],
            title=f"Edge of stability: {model}, $n/d={self.samples_per_dim:g}$, $d={self.d}$",
        )

    def _marks(
        self, theory: Result, simulation: Result | None, name: str, i: int, label: str, rank: int | None = None
    ) -> list[Mark]:
        """Line and points of one variable at one step, of one rank where it has several."""
        index = (i, slice(None), *(() if rank is None else (rank,)))
        colour = i if rank is None else rank
        marks: list[Mark] = [Line(self.times(), theory.dataset[name].values[index], label, colour)]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset[name].values[:, -1])
            marks.append(Points(self.times(), mean[index], error[index], colour=colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        at, found = over_seeds(dataset), {}
        at = at.isel(size=-1) if "size" in at.dims else at
        for i, eta in enumerate(self.step):
            largest, last, loss = at.stability.values[i].max(), at.stability.values[i, -1], at.train_loss.values[i, -1]
            found[f"largest_{eta:g}"] = Number(largest, f"largest curvature over the largest stable one, step {eta:g}")
            found[f"last_{eta:g}"] = Number(last, f"the same after training, step {eta:g}")
            found[f"train_loss_{eta:g}"] = Number(loss, f"train loss after training, step {eta:g}")
        return found
