"""The tangent kernel of a random network becomes deterministic as the width grows."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.result import Findings, Result
from limen.simulation.kernel.networks.mlp import MLP, draw_parameters, empirical_ntk
from limen.theory.kernel.tangent.neural_tangent import ntk

INPUTS, LINE, FRACTIONS = 16, 160, (16, 4, 1)


class NTKConvergence(Experiment):
    r"""The kernel $\sum_p\partial_pf(x)\,\partial_pf(x')$ of one random network, against its limit of infinite width.

    The inputs lie on a circle of radius $\sqrt d$, so that the limit $\Theta$ depends on the angle between them only.
    It follows from a recursion over layers, $\Theta^{(k+1)}=\Theta^{(k)}\sigma_w^2E[\sigma'\sigma']+\Sigma^{(k+1)}$.
    One network of width $m$ deviates from it by $O(m^{-1/2})$, the mean over networks by $O(1/m)$ (two layers: not at
    all).

    What to see: the mean over networks on the line, single narrow networks widely around it; the relative deviation of
    one network falls with slope $-1/2$, and deeper networks start higher. Source: Jacot, Gabriel & Hongler 2018.
    """

    name: ClassVar[str] = "ntk-convergence"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The tangent kernel of one network deviates from its limit like one over root width."
    citations: ClassVar[tuple[str, ...]] = ("jacot2018", "lee2019")
    size_field: ClassVar[str] = "width"
    default_seeds: ClassVar[int] = 128
    compared: ClassVar[tuple[str, ...] | None] = ("tangent_kernel",)
    quick: ClassVar[dict[str, float]] = {"width": 256}
    quick_seeds: ClassVar[int] = 192

    activation: Literal["relu", "erf", "tanh", "gelu"] = Field("relu", description="activation σ of the hidden layers")
    depth: int = Field(3, ge=2, le=8, description="number L of weight layers")
    weight_variance: float = Field(2.0, gt=0.0, le=10.0, description="variance σ_w² of the weights, over the fan-in")
    bias: float = Field(0.1, ge=0.0, le=10.0, description="standard deviation β of the biases")
    d: int = Field(10, ge=2, le=1_000, description="dimension of the inputs")
    width: int = Field(512, ge=32, le=4_096, description="width m of the widest hidden layers")

    def widths(self) -> np.ndarray:
        """Widths of the sweep, each about four times the one before."""
        return np.array([self.width // fraction for fraction in FRACTIONS])

    def angles(self) -> np.ndarray:
        """Angles between two of the inputs, in units of π."""
        return np.arange(INPUTS // 2 + 1) / (INPUTS / 2)

    def inputs(self, count: int = INPUTS) -> np.ndarray:
        """Points (count, d) at equal distances on a circle of radius √d."""
        around = 2.0 * np.pi * np.arange(count) / count
        plane = np.sqrt(self.d) * np.stack([np.cos(around), np.sin(around)], axis=1)
        return np.pad(plane, ((0, 0), (0, self.d - 2)))

    def _limit(self, count: int = INPUTS) -> np.ndarray:
        return ntk(self.inputs(count), None, self.activation, self.depth, self.weight_variance, self.bias)[1]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        values = {"tangent_kernel": ("angle", _by_angle(self._limit())), "slope_in_width": -0.5}
        dataset = xr.Dataset(values, coords={"angle": self.angles()})
        status = "exact in the limit of infinite width."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        inputs, widths, limit = self.inputs(), self.widths(), self._limit()
        kernels = []
        for width in widths.tolist():
            mlp = MLP((self.d, *[width] * (self.depth - 1)), self.activation, self.weight_variance, self.bias)
            kernels.append(empirical_ntk(mlp, draw_parameters(mlp, seed), inputs))
        deviation = np.linalg.norm(np.array(kernels) - limit, axis=(1, 2)) / np.linalg.norm(limit)
        dataset = xr.Dataset(
            {
                "tangent_kernel": (("seed", "angle"), _by_angle(kernels[-1])[None]),
                "narrow_tangent_kernel": (("seed", "angle"), kernels[0][None, 0, : INPUTS // 2 + 1]),
                "wide_tangent_kernel": (("seed", "angle"), kernels[-1][None, 0, : INPUTS // 2 + 1]),
                "relative_deviation": (("seed", "width"), deviation[None]),
            },
            coords={"angle": self.angles(), "width": widths, "seed": [seed]},
            attrs={"d": self.width},
        )
        return Findings(dataset, True, "one draw per width.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        angles, widths = self.angles(), self.widths()
        fine = np.linspace(0.0, 1.0, LINE // 2 + 1)
        kernel: list[Mark] = [Line(fine, self._limit(LINE)[0, : fine.size], "infinite width")]
        fall: list[Mark] = []
        if simulation is not None:
            data = simulation.dataset
            mean, error = mean_and_error(data.tangent_kernel.values)
            for i, (name, width) in enumerate((("narrow", widths[0]), ("wide", widths[-1]))):
                low, high = np.quantile(data[f"{name}_tangent_kernel"].values, (0.1, 0.9), axis=0)
                kernel.append(Band(angles, low, high, f"single networks, $m={width}$", colour=1 - i))
            kernel.append(Points(angles, mean, error, f"mean of {len(simulation.seeds)}, $m={widths[-1]}$"))
            size, spread = mean_and_error(data.relative_deviation.values)
            guide = size[-1] * np.sqrt(widths[-1] / widths)
            fall.append(Points(widths, size, spread, f"{counted(len(simulation.seeds), 'network')}"))
        else:
            guide = 1.0 / np.sqrt(widths)
        fall.append(Line(widths, guide, r"slope $-\frac{1}{2}$", dashed=True))
        # Whole decades, whose labels do not crowd.
        decades = (10.0 ** np.floor(np.log10(widths[0])), 10.0 ** np.ceil(np.log10(widths[-1])))
        deviation = r"deviation $\|K-\Theta\|_F\,/\,\|\Theta\|_F$"
        return Figure(
            [
                Panel(r"angle between inputs $\,/\,\pi$", r"tangent kernel $\Theta$", kernel),
                Panel("width $m$", deviation, fall, x_scale="log", y_scale="log", x_range=decades),
            ],
            title=f"Tangent kernel, {typeset(self.activation)}, {self.depth} layers, "
            f"$\\sigma_w^2={self.weight_variance:g}$, $\\beta={self.bias:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        if "slope_in_width" in dataset:
            slope = dataset.slope_in_width
        else:
            deviation = np.log(dataset.relative_deviation.values).mean(axis=0)
            slope = np.polyfit(np.log(self.widths()), deviation, 1)[0]
        kernel = over_seeds(dataset).tangent_kernel.values
        return {
            "slope_in_width": Number(
                slope, "power of the width m with which one network's deviation from the limit falls"
            ),
            "equal_inputs_kernel": Number(kernel[0], f"tangent kernel of equal inputs, {self.depth} layers"),
            "opposite_inputs_kernel": Number(kernel[-1], f"tangent kernel of opposite inputs, {self.depth} layers"),
        }


def _by_angle(kernel: np.ndarray) -> np.ndarray:
    """Means over all pairs of inputs at the same angle, which the limit cannot tell apart."""
    here = np.arange(INPUTS)
    return np.array([kernel[here, (here + apart) % INPUTS].mean() for apart in range(INPUTS // 2 + 1)])
