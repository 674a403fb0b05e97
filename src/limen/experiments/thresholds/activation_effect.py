"""The effect of activations: the same target and data, and thresholds and success that depend on what learns."""

from typing import ClassVar

import jax
import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.gaussian import gaussian_rule
from limen.link import hard_subspace
from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer, activation, network, target
from limen.result import Findings, Result
from limen.simulation.descent.restarts import nested_restarts
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.thresholds.hessian import alignment, network_hessian
from limen.theory.descent.escape import average_run
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.along_training import hessian
from limen.theory.thresholds.feature_learning import feature_learning
from limen.theory.thresholds.hessian_law import HessianLaw

TEN = "gelu square z*sigmoid(z) softplus softplus(4*z)/4 tanh sigmoid saad-solla hermite:2 cos(z)"
PATHS, SCRAMBLES = 2048, 2
WITNESS_PATHS, WITNESS_SCRAMBLES = 8192, 2
STARTS, LEARNT = 16, 0.5
TIMES, MOST = 5, 20
# Of the palette of a figure.
COLOURS = 7


class ActivationEffect(Experiment):
    r"""Ten neurons that differ in their activation learn one target, by gradient descent from the same data.

    What any algorithm needs, $\delta_{\mathrm{alg}}$, is a property of the target alone. What gradient descent needs is
    not: the Hessian along training, and so $\delta^*(t)$, depends on the activation. Steps are $\eta=$ `step`
    $/E[\sigma'(Z)^2]$, so that one step means the same for each. Left: $\delta^*(t)$, the samples per dimension from
    which an informative direction of the Hessian lies below bulk and zero after $t$ steps. Middle: the part of the
    hidden direction that lies on negative eigenvalues after `witness_step` steps. Right: the part of runs whose cosine
    with it passes $\frac12$ within all `steps`. Theory for both: mean-field paths, at finite $d$ with the fluctuation
    of the sample.

    What to see: on the even target $z^2$, activations with a positive even part (square, GELU, softplus) learn, the
    flatter the later; odd ones (tanh, erf, sigmoid up to a constant) have no curvature that points to the direction and
    do not learn at any $\delta$ up to 64; $\cos$, even with the wrong sign, neither. All are far above
    $\delta_{\mathrm{alg}}$. Activations must be twice differentiable. Compared is the part on negative eigenvalues;
    success is drawn with its error: starts on one sample share their luck, and a thousand samples would be needed to
    hold it to 5%. Source: Montanari & Wang 2026, "effect of
    activations" (GELU and square there).
    """

    name: ClassVar[str] = "activation-effect"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "Ten activations, one target: thresholds and success depend on what learns."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    default_seeds: ClassVar[int] = 100
    compared: ClassVar[tuple[str, ...] | None] = ("unstable_share",)
    quick: ClassVar[dict[str, object]] = {
        "activations": "square softplus tanh",
        "steps": 4,
        "runs": 64,
    }
    quick_seeds: ClassVar[int] = 100

    activations: str = Field(TEN, description="names or formulas without blanks, separated by blanks; up to 20")
    target: str = Field("z**2", description="target: a name or a formula of one hard direction")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    loss: str = Field("huber:1", description="loss ℓ: huber:k, pseudo-huber:k, square, ...")
    samples_per_dim: float = Field(8.0, gt=0.0, le=100.0, description="samples per dimension δ = n/d of the runs")
    step: float = Field(0.5, gt=0.0, le=2.0, description="step η in units of 1/E[σ'(Z)²]")
    steps: int = Field(30, ge=2, le=150, description="steps of gradient descent")
    witness_step: int = Field(2, ge=0, le=100, description="step at which the Hessian is looked at")
    runs: int = Field(256, ge=32, le=4096, description="runs of the theory for each activation")
    d: int = Field(400, ge=20, le=2_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "ActivationEffect":
        if not 1 <= len(self.names()) <= MOST or len(set(self.names())) < len(self.names()):
            raise InputError(f"activations must be 1 to {MOST} different ones, got {self.activations!r}.")
        bent = [name for name in self.names() if activation(name).kinks]
        if bent:
            raise InputError(f"activations must be twice differentiable (the Hessian needs it), got {bent[0]!r}.")
        if self.witness_step > self.steps:
            raise InputError(f"witness_step must be at most steps = {self.steps}, got {self.witness_step}.")
        link = target(self.target, noise=self.noise)
        if hard_subspace(link).dimension != 1 or link.latents != 1:
            raise InputError(f"target must be a function of one hard direction (try 'z**2'), got {self.target!r}.")
        for name in self.names():
            self.problem(name)
        return self

    def names(self) -> tuple[str, ...]:
        """The activations."""
        return tuple(self.activations.split())

    def problem(self, name: str, overlap: bool = True) -> TwoLayer:
        """The learning problem of one activation; without `overlap` the start has none with the target."""
        scale = mean_squared_slope(name)
        if not (np.isfinite(scale) and scale > 0.0):
            raise InputError(f"activations must have a slope of finite positive mean square, got {name!r}.")
        posed = TwoLayer(
            target(self.target, noise=self.noise),
            network(1, name),
            GradientDescent(self.step / scale),
            samples_per_dim=self.samples_per_dim,
            loss=self.loss,
        )
        return posed if overlap else posed.model_copy(update={"start": OverlapStart(overlap=0.0)})

    def times(self) -> np.ndarray:
        """The start and a few steps, evenly in their logarithm."""
        return np.unique(np.rint([0.0, *np.geomspace(1.0, self.steps, TIMES)]))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        rows, worst = list[tuple[np.ndarray, float, float, float]](), ""
        for name in self.names():
            curve = feature_learning(self.problem(name, overlap=False), self.times(), "trimmed", PATHS, SCRAMBLES)
            law = hessian(self.problem(name, False), self.witness_step, 0, WITNESS_PATHS, WITNESS_SCRAMBLES)
            assert isinstance(law, HessianLaw)
            run = average_run(self.problem(name), self.steps, self.d, self.runs, PATHS)
            worst = worst or ("" if run.ok else run.status)
            escaped, error = (float(run.dataset[part].values[-1]) for part in ("escaped", "escaped_error"))
            rows.append((curve.dataset.threshold.values[:, 0], float(law.unstable_share.mean()), escaped, error))
        threshold, share, escaped, error = (np.array(part) for part in zip(*rows, strict=True))
        along = ("activation",)
        dataset = xr.Dataset(
            {
                "threshold": ((*along, "time"), threshold, {"undefined": "not up to 64 samples per dimension"}),
                "unstable_share": (along, share),
                "success": (along, escaped, {"error": "success_error"}),
                "success_error": (along, error),
                "delta_alg": ((), algorithmic(target(self.target, noise=self.noise))),
            },
            coords={"activation": list(self.names()), "time": self.times()},
            attrs={"d": self.d},
        )
        status = f"{self.runs} runs of each of {len(self.names())} activations; thresholds at t = {self.steps} move on."
        return Findings(dataset, not worst, worst or status)

    def train(self, seed: int) -> Findings:
        found = np.array([self._measured(name, seed) for name in self.names()])
        dataset = xr.Dataset(
            {part: (("seed", "activation"), found[None, :, i]) for i, part in enumerate(("success", "unstable_share"))},
            coords={"seed": [seed], "activation": list(self.names())},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{STARTS} trainings on each sample, one dense Hessian.")

    def _measured(self, name: str, seed: int) -> tuple[float, float]:
        """Part of the starts that learn, and the part of the direction on negative eigenvalues of the Hessian."""
        runs = nested_restarts(
            self.problem(name), [self.samples_per_dim], np.arange(self.steps + 1.0), self.d, seed, STARTS
        )[0]
        problem = self.problem(name, overlap=False)
        trained = trained_weights(problem, [self.witness_step], self.d, seed)
        layers = (trained.first_layer[0], trained.second_layer[0], trained.bias)
        matrix = network_hessian(trained.inputs, trained.labels, *layers, problem.network.activation, problem.loss)
        values, vectors = matrix.eigenspace()
        along = alignment(vectors, trained.directions)
        return float((runs.cosine.max(axis=1) > LEARNT).mean()), float(along[values < 0.0].sum())

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        names, data = self.names(), theory.dataset
        places, curves = np.arange(1.0, len(names) + 1.0), list[Mark]()
        for i, name in enumerate(names):
            values = data.threshold.values[i]
            known = np.isfinite(values)
            label = f"{i + 1}: {typeset(name)}" + ("" if known.any() else r" ($\delta^*>64$)")
            # Colours come again after seven: diamonds and dashes tell the second round.
            curves.append(Line(data.time.values[known], values[known], label, i, dashed=i >= COLOURS, spots=True))
        alg = float(data.delta_alg)
        if np.isfinite(alg):
            curves.append(Threshold(r"$\delta_{\mathrm{alg}}$", y=alg))
        panels = [
            Panel("step $t$", r"threshold $\delta^*(t)$", curves, x_scale="symlog", y_scale="log"),
        ]
        words = {
            "unstable_share": f"part of the direction on $\\lambda<0$, step {self.witness_step}",
            "success": f"part of runs with $|\\cos|>\\frac{{1}}{{2}}$ by step {self.steps}",
        }
        for name, label in words.items():
            marks: list[Mark] = [Line(places, data[name].values, "", 0, spots=True)]
            if simulation is not None:
                marks.append(Points(places, *mean_and_error(simulation.dataset[name].values), "", 1))
            panels.append(
                Panel("number of the activation", label, marks, x_range=(0.5, len(names) + 0.5), y_range=(-0.05, 1.05))
            )
        title = (
            f"{typeset(self.loss)} loss, $y=$ {typeset(self.target)}, $\\delta={self.samples_per_dim:g}$, $d={self.d}$"
        )
        return Figure(panels, title=title, caption="Activations in the middle and on the right: numbers of the left.")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = over_seeds(dataset)
        found: dict[str, Number] = {}
        for i, name in enumerate(self.names()):
            words = f"part of runs that learn, {name}, d = {self.d}"
            found[f"success_{i + 1}"] = Number(means.success.values[i], words)
            if "threshold" in dataset:
                words = f"threshold δ* of {name} after {self.steps} steps"
                found[f"threshold_{i + 1}"] = Number(dataset.threshold.values[i, -1], words)
        if "delta_alg" in dataset:
            found["delta_alg"] = Number(dataset.delta_alg, "δ from which the best known algorithm finds the direction")
        return found


def mean_squared_slope(name: str) -> float:
    r"""$E[\sigma'(Z)^2]$, $Z\sim N(0,1)$."""
    sigma = activation(name)
    with jax.enable_x64(True):
        slope = jax.vmap(jax.grad(sigma.function))
        return gaussian_rule(sigma).mean(lambda z: np.asarray(slope(z)) ** 2)
