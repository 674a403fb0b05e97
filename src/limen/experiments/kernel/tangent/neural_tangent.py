"""Regression on first-layer tangent features: a peak where they begin to interpolate, then a kernel method."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.gaussian.functions import as_function
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.kernel.networks.tangent_features import tangent_feature_errors
from limen.theory.kernel.tangent.tangent_model import tangent_model

FEWEST_SAMPLES_PER_DIM, SAMPLE_SIZES, WIDER = 0.3, 4, 3
TEST_SAMPLES = 500


class NeuralTangent(Experiment):
    r"""Least-norm fit of the tangent features $x\,\sigma'(\langle w_j,x\rangle/\sqrt d)$, $j\le N$, against $N$.

    This is a two-layer network whose first layer is trained so little that it stays linear in its weights: $N$
    neurons make $Nd$ features. Below $Nd=n$ the fit is least squares, above it interpolates, and for $Nd\gg n$ it is
    regression with the kernel $h(u)=u\,E[\sigma'(G)\sigma'(G')]$. For $n\asymp d$ only three numbers of $h$ count:
    the linear part of the target is learnt with eigenvalue $h'(0)/d$, the rest $h(1)-h(0)-h'(0)$ is a ridge of the
    network's own making, and the non-linear part of the target acts as noise.

    What to see: test error peaks at $Nd=n$, where training error reaches 0, and comes down to the kernel line; on the
    right that line as a function of $n/d$, against networks with many neurons. Few neurons have no theory here:
    medians and quartiles of the runs are drawn, not compared. Source: Montanari & Zhong 2022.
    """

    name: ClassVar[str] = "neural-tangent"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Tangent features peak at Nd = n and approach their kernel as neurons are added."
    citations: ClassVar[tuple[str, ...]] = ("montanari2022", "jacot2018")
    default_seeds: ClassVar[int] = 256
    compared: ClassVar[tuple[str, ...] | None] = ("excess_mse",)
    quick: ClassVar[dict[str, float]] = {"d": 60, "neurons": 300}
    quick_seeds: ClassVar[int] = 160

    samples_per_dim: float = Field(3.0, ge=1.0, le=20.0, description="samples per dimension n/d of the left panel")
    activation: Literal["erf", "tanh", "gelu", "softplus"] = Field("erf", description="smooth activation σ")
    nonlinear: float = Field(0.1, ge=0.0, le=10.0, description="variance F*² of the non-linear part of the target")
    noise: float = Field(0.1, ge=0.0, le=10.0, description="variance τ² of the label noise")
    neurons: int = Field(400, ge=50, le=10_000, description="neurons N that stand for infinitely many")
    d: int = Field(80, ge=10, le=500, description="dimension of the inputs")

    @property
    def samples(self) -> int:
        """n of the left panel."""
        return round(self.samples_per_dim * self.d)

    def sample_sizes(self) -> np.ndarray:
        """Numbers of samples at which many neurons are held against the kernel; the last is `samples`."""
        smallest = FEWEST_SAMPLES_PER_DIM * self.d
        return np.unique(np.geomspace(smallest, self.samples, SAMPLE_SIZES).round()).astype(int)

    def few_neurons(self) -> np.ndarray:
        """Numbers of neurons through the threshold, up to `neurons`; only drawn."""
        threshold = self.samples / self.d
        below = np.linspace(1.0, threshold, 3)
        above = np.geomspace(threshold, self.neurons / 3.0, WIDER + 1)[1:]
        return np.unique([*below.round(), np.ceil(threshold) + 1.0, *above.round()]).astype(int)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        sizes = self.sample_sizes()
        dataset = xr.Dataset(
            {"excess_mse": ("samples_per_dim", self._kernel_line(sizes)), "peak_neurons": self.samples / self.d},
            coords={"samples_per_dim": sizes / self.d},
        )
        status = "exact for infinitely many neurons."
        return Findings(dataset, True, status)

    def _kernel_line(self, samples: np.ndarray) -> np.ndarray:
        return tangent_model(self.activation, self.d, samples, nonlinear=self.nonlinear, noise=self.noise).test

    def train(self, seed: int) -> Findings:
        sizes, few = self.sample_sizes(), self.few_neurons()
        many = np.array([self._fit(seed, self.neurons, int(n)) for n in sizes])
        rows = np.array([self._fit(seed, int(count), self.samples) for count in few])
        dataset = xr.Dataset(
            {
                "excess_mse": (("seed", "samples_per_dim"), many[None, :, 0]),
                "few_neurons_excess_mse": (("seed", "neurons"), rows[None, :, 0]),
                "few_neurons_train_mse": (("seed", "neurons"), rows[None, :, 1]),
            },
            coords={"samples_per_dim": sizes / self.d, "neurons": few, "seed": [seed]},
            attrs={"d": self.d},
        )
        status = "least squares of least norm, solved exactly."
        return Findings(dataset, True, status)

    def _fit(self, seed: int, neurons: int, samples: int) -> tuple[float, float]:
        slope = as_function(self.activation).derivative()
        if slope is None:
            raise InputError(f"activation must be differentiable, got {self.activation!r}.")
        return tangent_feature_errors(
            slope, seed, neurons, self.d, samples, 1.0, self.nonlinear, self.noise, TEST_SAMPLES
        )

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        few, threshold = self.few_neurons(), self.samples / self.d
        limit = float(theory.dataset.excess_mse.values[-1])
        peak: list[Mark] = [Line([few[0], self.neurons], [limit, limit], r"kernel, $N=\infty$")]
        sizes = np.linspace(FEWEST_SAMPLES_PER_DIM * self.d, self.samples, 100)
        line: list[Mark] = [Line(sizes / self.d, self._kernel_line(sizes), r"kernel, $N=\infty$")]
        if simulation is not None:
            data = simulation.dataset
            runs = f"$d={self.d}$, {counted(len(simulation.seeds), 'run')}"
            low, middle, high = np.quantile(data.few_neurons_excess_mse.values, (0.25, 0.5, 0.75), axis=0)
            mean, error = mean_and_error(data.excess_mse.values)
            train = np.median(data.few_neurons_train_mse.values, axis=0)
            fitted = train > 1e-10
            peak += [
                Band(few, low, high, "quartiles"),
                Points(few, middle, label=f"test, {runs}"),
                Points([self.neurons], mean[-1:], error[-1:]),
                Points(few[fitted], train[fitted], label="training (0 from the peak on)", colour=1),
            ]
            line.append(Points(data.samples_per_dim.values, mean, error, f"$N={self.neurons}$, {runs}"))
        peak.append(Threshold("$Nd=n$", x=threshold))
        return Figure(
            [
                Panel("neurons $N$", "excess and training error", peak, x_scale="log", y_scale="log"),
                Panel(r"samples per dimension $n/d$", "excess risk of many neurons", line),
            ],
            title=f"{typeset(self.activation)} tangent features, $n/d={threshold:g}$ (left), $\\tau^2={self.noise:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        if "peak_neurons" in dataset:
            peak = dataset.peak_neurons
        else:
            peak = dataset.neurons[int(np.median(dataset.few_neurons_excess_mse.values, axis=0).argmax())]
        return {
            "peak_neurons": Number(
                peak, f"neurons N at the peak of the test error, n = {self.samples} samples", "neurons"
            ),
            "many_neurons_excess_mse": Number(
                over_seeds(dataset).excess_mse[-1],
                f"excess risk of many neurons, n/d = {self.samples / self.d:.3g} samples per dimension",
            ),
        }
