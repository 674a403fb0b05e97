"""Wide networks train like their linearisation: outputs against a closed form, for growing width."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.number import Number
from limen.experiments.typeset import typeset
from limen.result import Findings, Result
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.networks.mlp import MLP, draw_parameters, empirical_ntk, outputs
from limen.simulation.kernel.networks.mlp_training import train_by_flow
from limen.theory.kernel.tangent.linearized import linearized_training

FRACTIONS, DRAWN_INPUTS, TIMES = (16, 4, 1), 3, 15


class LinearizedTraining(Experiment):
    r"""Gradient flow of all layers of a network of width $m$, against the flow of the network linearised at its start.

    With the tangent kernel $K$ frozen at its start, the outputs follow
    $f_t(x)=f_0(x)+K_xK^{-1}(1-e^{-tK/n})(y-f_0)$ for the loss $\frac1{2n}\|y-f\|^2$. Each seed is a network; its own
    initial kernel and outputs make its prediction. Data are the same for all seeds.

    What to see: a narrow network leaves its line, a wide one keeps to it. The gap and the change of the kernel fall
    like $1/m$; weights of the last layer move by $m^{-1/2}$ (operator norm over root fan-in), those of the first by a
    distance that does not depend on $m$. The comparison allows each output the part of its gap that a fit in $1/m$
    over all widths finds. Source: Lee et al. 2019.
    """

    name: ClassVar[str] = "linearized-training"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Outputs of a trained network approach a closed form like one over the width."
    citations: ClassVar[tuple[str, ...]] = ("lee2019", "jacot2018")
    size_field: ClassVar[str] = "width"
    default_seeds: ClassVar[int] = 12
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("train_output", "test_output")
    quick: ClassVar[dict[str, float]] = {"width": 32, "horizon": 10.0, "samples": 5}
    quick_seeds: ClassVar[int] = 16

    activation: Literal["erf", "tanh", "relu", "gelu"] = Field("erf", description="activation σ of the hidden layers")
    depth: int = Field(2, ge=2, le=5, description="number L of weight layers")
    bias: float = Field(0.0, ge=0.0, le=5.0, description="standard deviation β of the biases")
    samples: int = Field(10, ge=2, le=200, description="number n of training inputs")
    d: int = Field(10, ge=2, le=200, description="dimension of the inputs")
    horizon: float = Field(50.0, gt=0.0, le=1_000.0, description="last time t of the flow of ‖y-f‖²/2n")
    width: int = Field(512, ge=32, le=4_096, description="width m of the widest hidden layers")

    def widths(self) -> np.ndarray:
        """Widths of the sweep, each about four times the one before."""
        return np.array([self.width // fraction for fraction in FRACTIONS])

    def times(self) -> np.ndarray:
        """Times of the flow, denser at the start."""
        return np.concatenate([[0.0], np.geomspace(0.01, 1.0, TIMES - 1)]) * self.horizon

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training inputs, labels ±1 and as many test inputs; Gaussian, the same for all seeds and widths."""
        inputs = numpy_generator(0, self.d, "training inputs").standard_normal((self.samples, self.d))
        fresh = numpy_generator(0, self.d, "test inputs").standard_normal((self.samples, self.d))
        return inputs, numpy_generator(0, self.d, "labels").choice([-1.0, 1.0], self.samples), fresh

    def _network(self, width: int) -> MLP:
        return MLP((self.d, *[width] * (self.depth - 1)), self.activation, bias=self.bias)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        runs = [[self._closed_form(seed, width) for width in self.widths().tolist()] for seed in seeds]
        dataset = self._dataset(seeds, *(np.array([[run[i] for run in row] for row in runs]) for i in range(2)))
        dataset = dataset.assign(gap_slope=-1.0, kernel_drift_slope=-1.0, last_layer_drift_slope=-0.5)
        status = "closed form, from each seed's initial kernel."
        return Findings(dataset, True, status)

    def _closed_form(self, seed: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels, fresh = self.data()
        mlp = self._network(width)
        start = draw_parameters(mlp, seed)
        run = linearized_training(
            empirical_ntk(mlp, start, inputs),
            labels,
            self.times(),
            outputs(mlp, start, inputs),
            empirical_ntk(mlp, start, fresh, inputs),
            outputs(mlp, start, fresh),
        )
        assert run.test is not None
        return run.train, run.test

    def train(self, seed: int) -> Findings:
        inputs, labels, fresh = self.data()
        networks = [self._network(width) for width in self.widths().tolist()]
        runs = [train_by_flow(mlp, draw_parameters(mlp, seed), inputs, labels, self.times(), fresh) for mlp in networks]
        # The gap is a distance from the closed form of the same start, and no number of the run alone.
        closed = [self._closed_form(seed, width)[1] for width in self.widths().tolist()]
        gaps = [float(np.abs(run.test - line).max()) for run, line in zip(runs, closed, strict=True)]
        dataset = self._dataset(
            (seed,), np.array([[run.train for run in runs]]), np.array([[run.test for run in runs]])
        ).assign(
            gap=(("seed", "width"), [gaps]),
            kernel_drift=(("seed", "width"), [[run.kernel_drift for run in runs]]),
            first_layer_drift=(("seed", "width"), [[run.weight_drift[0] for run in runs]]),
            last_layer_drift=(("seed", "width"), [[run.weight_drift[-1] for run in runs]]),
        )
        error = max(run.error for run in runs)
        statistics = {"integrator_error": error}
        ok = error < 1e-3
        status = f"outputs are within about {error:.1e} of the exact flow."
        return Findings(dataset, ok, status, statistics)

    def _dataset(self, seeds: tuple[int, ...], train: np.ndarray, test: np.ndarray) -> xr.Dataset:
        return xr.Dataset(
            {
                "train_output": (("seed", "width", "time", "sample"), train),
                "test_output": (("seed", "width", "time", "test_input"), test),
            },
            coords={"seed": list(seeds), "width": self.widths(), "time": self.times()},
            attrs={"d": self.width},
        )

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """At the largest width, the others telling how much of the gap is finite width."""
        return compare(self._by_width(theory), self._by_width(simulation), variables=self.compared)

    def _by_width(self, result: Result) -> list[Result]:
        return [
            replace(result, dataset=result.dataset.sel(width=width).drop_vars("width").assign_attrs(d=width))
            for width in self.widths().tolist()
        ]

    def gaps(self, theory: Result, simulation: Result) -> np.ndarray:
        """Largest difference between test outputs and their closed form, (seed, width)."""
        difference = np.abs(simulation.dataset.test_output - theory.dataset.test_output)
        return difference.max(("time", "test_input")).transpose("seed", "width").values

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, widths = self.times(), self.widths()
        lines = theory.dataset.test_output
        seed = int(lines.seed.values[0]) if simulation is None else simulation.seeds[0]
        panels = []
        for width in (widths[0], widths[-1]):
            marks: list[Mark] = []
            for point in range(min(DRAWN_INPUTS, self.samples)):
                closed = lines.sel(seed=seed, width=width).isel(test_input=point).values
                marks.append(Line(times, closed, "" if point else "linearised", colour=point))
                if simulation is not None:
                    true = simulation.dataset.test_output.sel(seed=seed, width=width).isel(test_input=point).values
                    marks.append(Points(times, true, label="" if point else "trained", colour=point))
            title = f"one network, width $m={width}$"
            first = times[1]
            panels.append(Panel("time $t$", "outputs at test inputs", marks, title, "log", x_range=(first, times[-1])))
        falls: list[Mark] = []
        if simulation is not None:
            data = simulation.dataset
            gaps, error = mean_and_error(self.gaps(theory, simulation))
            falls.append(Points(widths, gaps, error, "gap of outputs"))
            for i, (name, label) in enumerate(
                (("kernel_drift", "kernel"), ("last_layer_drift", "last layer"), ("first_layer_drift", "first layer"))
            ):
                falls.append(Points(widths, *mean_and_error(data[name].values), f"change of {label}", i + 1))
            for colour, power, size in (
                (0, -1.0, gaps[-1]),
                (1, -1.0, data.kernel_drift.values[:, -1].mean()),
                (2, -0.5, data.last_layer_drift.values[:, -1].mean()),
                (3, 0.0, data.first_layer_drift.values[:, -1].mean()),
            ):
                falls.append(Line(widths, size * (widths / widths[-1]) ** power, colour=colour, dashed=True))
        else:
            falls += [Line(widths, widths**power, f"slope ${power:g}$", dashed=True) for power in (-1.0, -0.5)]
        title = r"dashed: slopes $-1$, $-1$, $-\frac{1}{2}$, 0"
        # Whole decades, whose labels do not crowd.
        decades = (10.0 ** np.floor(np.log10(widths[0])), 10.0 ** np.ceil(np.log10(widths[-1])))
        panels.append(Panel("width $m$", "gap, relative changes", falls, title, "log", "log", x_range=decades))
        name = (
            f"Training against its linearisation: {typeset(self.activation)}, {self.depth} layers, $n={self.samples}$"
        )
        return Figure(panels, title=name)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        falls = {
            "gap_slope": ("gap", "power of the width m with which outputs approach the linearised ones"),
            "kernel_drift_slope": ("kernel_drift", "power of the width m with which the change of the kernel falls"),
            "last_layer_drift_slope": (
                "last_layer_drift",
                "power of the width m with which the last layer's change falls",
            ),
        }
        return {
            name: Number(dataset[name] if name in dataset else self._slope(dataset[variable].values), words)
            for name, (variable, words) in falls.items()
        }

    def _slope(self, values: np.ndarray) -> float:
        return float(np.polyfit(np.log(self.widths()), np.log(values).mean(axis=0), 1)[0])
