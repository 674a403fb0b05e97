"""Multiplying the output of a network makes its training lazy, if the network starts at zero."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.gaussian.functions import as_function
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.kernel.networks.lazy_training import LazyRun, draw_lazy_start, lazy_training
from limen.theory.kernel.tangent.lazy import lazy_bounds, two_layer_lipschitz
from limen.theory.kernel.tangent.linearized import linearized_training

TIMES = np.geomspace(0.3, 300.0, 12)
STARTS = ("zero", "random")
POWER = 4.0
FAILING = "the condition of the bound fails"


class LazyTraining(Experiment):
    r"""Gradient flow on the first layer of $f=\frac\alpha{\sqrt m}\sum_jb_j\sigma(\langle w_j,x\rangle)$, for growing
    $\alpha$, starting at $f_0=0$ (each neuron has a twin with opposite $b_j$) or at a random $f_0\propto\alpha$.

    To fit given labels a large $\alpha$ needs weights that move by $O(1/\alpha)$ only, along which $f$ is linear: the
    flow stays within $O(\alpha^{-2})$ of the linearised flow $\bar\theta_t$. If
    $4\Lambda\|y-f_0\|<\sigma_{\min}^2$ this is a theorem, with bounds $2r_0/\sigma_{\min}$ on the distance and
    $\min(3r_0/\sigma_{\min},\frac{104}3\Lambda\sigma_{\max}^2r_0^2/\sigma_{\min}^5)$ on the deviation. Without $f_0=0$
    the residual $r_0$ grows with $\alpha$ as well, and training never becomes lazy.

    What to see: from $f_0=0$ slopes $-1$ and $-2$ already where the theorem's condition fails, and bounds (lines
    that begin where it holds) above the measured values, for the deviation by a factor of thousands; from a random
    start both level off. Suprema are over twelve recorded times up to $s=\alpha^2t=300$. Compared, at the
    largest $\alpha$ and seed by seed, with the closed form of the linearised flow: $\|y-f_t\|$ and
    $\alpha\|\theta_t-\theta_0\|$ against $s=\alpha^2t$. Source: Chizat, Oyallon & Bach 2019.
    """

    name: ClassVar[str] = "lazy-training"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Scaling the output makes training linear, but only from a start at zero."
    citations: ClassVar[tuple[str, ...]] = ("chizat2019", "bartlett2021")
    size_field: ClassVar[str] = "width"
    default_seeds: ClassVar[int] = 6
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("residual", "scaled_distance")
    quick: ClassVar[dict[str, float]] = {"width": 20, "largest_scale": 16.0, "samples": 6}
    quick_seeds: ClassVar[int] = 12

    activation: Literal["tanh", "erf", "sigmoid"] = Field("tanh", description="activation σ, twice differentiable")
    samples: int = Field(12, ge=2, le=100, description="number n of training inputs, with labels ±1")
    d: int = Field(20, ge=2, le=200, description="dimension of the inputs")
    largest_scale: float = Field(256.0, ge=16.0, le=1_024.0, description="largest factor α of the output")
    width: int = Field(40, ge=2, le=2_000, description="number m of neurons, even")

    @model_validator(mode="after")
    def _check(self) -> "LazyTraining":
        if self.width % 2:
            raise InputError(f"width must be even, so that each neuron has a twin, got {self.width}.")
        if self.samples >= self.width * self.d / 2:
            raise InputError(
                f"samples must be below width*d/2 = {self.width * self.d // 2} for an interpolating network, "
                f"got {self.samples}."
            )
        return self

    def scales(self) -> np.ndarray:
        """Factors α from 1 to the largest, each about four times the one before."""
        return np.geomspace(1.0, self.largest_scale, 1 + round(np.log(self.largest_scale) / np.log(POWER)))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        scales = self.scales()
        shape = (len(seeds), len(STARTS), scales.size)
        distances, distance_bounds, deviation_bounds, conditions = (np.empty(shape) for _ in range(4))
        residuals, scaled = [], []
        for i, seed in enumerate(seeds):
            for j, start in enumerate(STARTS):
                inputs, labels, features, initial = self._start(seed, start == "zero")
                singular = np.linalg.svd(features, compute_uv=False)
                unscaled, curvature = features @ features.T, two_layer_lipschitz(inputs, self.activation, self.width)
                distance = residual = np.zeros(TIMES.size)
                for k, alpha in enumerate(scales):
                    kernel = alpha**2 * unscaled
                    flow = linearized_training(kernel, labels, TIMES / alpha**2, alpha * initial)
                    distance = np.sqrt(np.einsum("ti,ij,tj->t", flow.coefficients, kernel, flow.coefficients))
                    residual = np.linalg.norm(labels - flow.train, axis=1)
                    bounds = lazy_bounds(
                        float(np.linalg.norm(labels - alpha * initial)),
                        float(alpha * singular[-1]),
                        float(alpha * singular[0]),
                        float(alpha) * curvature,
                        self.samples,
                    )
                    at = (i, j, k)
                    distances[at], conditions[at] = distance.max(), bounds.condition
                    distance_bounds[at], deviation_bounds[at] = bounds.distance, bounds.parameter_deviation
                if start == "zero":
                    residuals.append(residual)
                    scaled.append(scales[-1] * distance)
        dims = ("seed", "start", "scale")
        dataset = xr.Dataset(
            {
                "residual": (("seed", "time"), np.array(residuals)),
                "scaled_distance": (("seed", "time"), np.array(scaled)),
                "sup_distance": (dims, distances),
                "distance_bound": (dims, distance_bounds, {"undefined": FAILING}),
                "deviation_bound": (dims, deviation_bounds, {"undefined": FAILING}),
                "condition": (dims, conditions),
                "distance_slope": -1.0,
                "deviation_slope": -2.0,
            },
            coords={"seed": list(seeds), "start": list(STARTS), "scale": scales, "time": TIMES},
        )
        status = "closed form of the linearised flow; bounds are infinite where their condition fails."
        return Findings(dataset, True, status)

    def _start(self, seed: int, mirrored: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The seed's inputs, labels, Jacobian of the first layer and outputs at α = 1."""
        inputs, labels, weights, signs = draw_lazy_start(self.samples, self.d, self.width, mirrored, seed)
        function = as_function(self.activation)
        slope = function.derivative()
        assert slope is not None
        fields, output = inputs @ weights.T, signs / np.sqrt(self.width)
        features = np.einsum("ij,id->ijd", slope.values(fields) * output, inputs).reshape(self.samples, -1)
        return inputs, labels, features, function.values(fields) @ output

    def train(self, seed: int) -> Findings:
        runs = [[self._train(float(alpha), start, seed) for alpha in self.scales()] for start in STARTS]
        laziest = runs[0][-1]
        dims = ("seed", "start", "scale")
        dataset = xr.Dataset(
            {
                "residual": (("seed", "time"), laziest.residual[None]),
                "scaled_distance": (("seed", "time"), self.scales()[-1] * laziest.distance[None]),
                "sup_distance": (dims, [[[run.distance.max() for run in row] for row in runs]]),
                "sup_deviation": (dims, [[[run.parameter_deviation.max() for run in row] for row in runs]]),
            },
            coords={"seed": [seed], "start": list(STARTS), "scale": self.scales(), "time": TIMES},
            attrs={"d": self.width},
        )
        # The integrator's error beside what it might spoil most.
        error = max(run.error / float(run.parameter_deviation.max()) for row in runs for run in row)
        statistics = {"integrator_error": error}
        ok = error < 0.1
        remedy = "." if ok else ", too little: take a smaller largest_scale."
        status = f"deviations are known to {error:.1e} of themselves{remedy}"
        return Findings(dataset, ok, status, statistics)

    def _train(self, alpha: float, start: str, seed: int) -> LazyRun:
        return lazy_training(
            alpha, TIMES, activation=self.activation, samples=self.samples, dimension=self.d, width=self.width,
            mirrored=start == "zero", seed=seed,
        )  # fmt: skip

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        scales, words = self.scales(), ("$f_0=0$", r"random $f_0$")
        limit = theory.dataset.mean("seed")
        distance: list[Mark] = []
        deviation: list[Mark] = []
        for j, start in enumerate(STARTS):
            distance.append(
                Line(scales, limit.sup_distance.sel(start=start).values, f"linearised, {words[j]}", j, spots=True)
            )
        if simulation is not None:
            data = simulation.dataset
            for j, start in enumerate(STARTS):
                runs = f"trained, {words[j]}"
                distance.append(
                    Points(scales, *mean_and_error(data.sup_distance.sel(start=start).values), runs, colour=j)
                )
                size, error = mean_and_error(data.sup_deviation.sel(start=start).values)
                deviation.append(Points(scales, size, error, runs, colour=j))
                if start == "zero":
                    guide = size[-1] * (scales[-1] / scales) ** 2
                    deviation.append(Line(scales, guide, "slope $-2$", dashed=True))
        for name, marks in (("distance_bound", distance), ("deviation_bound", deviation)):
            bound = limit[name].sel(start="zero").values
            known = np.isfinite(bound)
            if known.any():
                marks.append(Line(scales[known], bound[known], "bound, $f_0=0$", colour=2))
        label = r"scale $\alpha$ of the output"
        title = f"Lazy training: {typeset(self.activation)}, $m={self.width}$, $n={self.samples}$, $d={self.d}$"
        if simulation is not None:
            title += f", {counted(len(simulation.seeds), 'run')}"
        return Figure(
            [
                Panel(label, r"distance $\sup_t\|\theta_t-\theta_0\|$", distance, x_scale="log", y_scale="log"),
                Panel(label, r"deviation $\sup_t\|\theta_t-\bar\theta_t\|$", deviation, x_scale="log", y_scale="log"),
            ],
            title=title,
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        from_zero = over_seeds(dataset.sel(start="zero"))
        slopes = {
            "distance_slope": (
                "sup_distance",
                "power of the scale α with which the weights' distance from their start falls",
            ),
            "deviation_slope": (
                "sup_deviation",
                "power of the scale α with which the deviation from linear training falls",
            ),
        }
        numbers = {}
        for name, (variable, words) in slopes.items():
            slope = dataset[name] if name in dataset else self._slope(from_zero[variable].values)
            numbers[name] = Number(slope, words)
        if "condition" in dataset:
            # From f_0 = 0 the condition is inversely proportional to the scale.
            largest = dataset.condition.sel(start="zero").values.max(axis=0)
            numbers["scale_of_theorem"] = Number(
                largest[0] * self.scales()[0], f"scale α from which the theorem holds, m = {self.width} neurons"
            )
        return numbers

    def _slope(self, values: np.ndarray) -> float:
        large = self.scales() >= POWER
        return float(np.polyfit(np.log(self.scales()[large]), np.log(values[large]), 1)[0])
