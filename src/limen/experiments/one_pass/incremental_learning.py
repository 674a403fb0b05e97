"""Degree by degree: with a fast second layer a wide network learns a single-index target in steps."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.one_pass.two_timescale_sgd import two_timescale_sgd
from limen.theory.one_pass.incremental import incremental_learning, normal_quantiles
from limen.theory.one_pass.incremental_width import incremental_network

TIMES, PARTICLES = 49, 60


class IncrementalLearning(Experiment):
    r"""A network $\frac1m\sum_ia_i\sigma(u_i\cdot x)$ with $\sigma=he_0+he_1+he_2$ learns the same function of one
    direction, its second layer $1/\epsilon$ times faster than its first, which stays on the sphere.

    From $u_i$ orthogonal to the direction the degrees of the target are learnt one after the other: the constant at
    $t\approx\epsilon\log2$, the linear part near $0.3\sqrt\epsilon\log(1/\epsilon)$, the quadratic part at a time of
    order $\epsilon^{1/4}$ (half of each, for $a_i\sim N(0,1)$). Points are SGD in $d$ dimensions. Lines are the
    overlap equations of the same width; the dashed line is its limit $m=\infty$, particles $(a_i,s_i)$ with $s_i$ the
    overlap with the direction, and a second dashed line adds, for the narrowest network, only the kernel of each
    particle with itself.

    What to see: stairs in the logarithm of time, further apart as $\epsilon$ falls; narrow networks are late at the
    second and third step, by an amount of order $1/(m\sqrt\epsilon)$. Source: Berthier, Montanari & Zhou 2023 (arXiv
    2303.00055).
    """

    name: ClassVar[str] = "incremental-learning"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "With a fast second layer, degrees of the target are learnt one after the other."
    citations: ClassVar[tuple[str, ...]] = ("berthier2023",)
    default_seeds: ClassVar[int] = 20
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk",)
    quick: ClassVar[dict[str, Any]] = {"widths": "5 10", "d": 12, "epsilon": 0.05, "rate": 0.002}
    quick_seeds: ClassVar[int] = 192

    epsilon: float = Field(0.01, ge=1e-3, le=10.0, description="time scale ε of the second layer against the first")
    widths: NumberList = Field((10.0, 30.0), description="numbers of neurons m")
    d: int = Field(32, ge=3, le=2000, description="dimension of the inputs")
    rate: float = Field(3.2e-4, gt=0.0, le=1.0, description="learning rate γ/m of the first layer per neuron")

    @model_validator(mode="after")
    def _room(self) -> "IncrementalLearning":
        if not self.widths or not all(width >= 2 and width == int(width) for width in self.widths):
            raise InputError(f"widths must be whole numbers of at least 2, got {self.widths}.")
        if self.d <= max(self.widths):
            raise InputError(f"d must be larger than the largest width {int(max(self.widths))}, got {self.d}.")
        fastest = self.rate / (self.d * self.epsilon)
        if fastest > 0.3:
            raise InputError(f"rate/(d·epsilon), the step of the second layer, must be at most 0.3, got {fastest:.3g}.")
        return self

    def sizes(self) -> tuple[int, ...]:
        """The widths as whole numbers, the smallest first."""
        return tuple(sorted({int(width) for width in self.widths}))

    def times(self) -> np.ndarray:
        """Evenly spread in the logarithm, in whole steps of SGD."""
        unit = self.rate / self.d
        last = max(2.0 * self.epsilon**0.25, 10.0 * self.epsilon)
        steps = np.unique(np.rint(np.geomspace(max(0.05 * self.epsilon, unit), last, TIMES) / unit))
        return np.concatenate([[0.0], unit * steps])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        ones = (1.0, 1.0, 1.0)
        sizes, times = self.sizes(), self.times()
        found = [incremental_network(ones, ones, self.epsilon, times, normal_quantiles(width)) for width in sizes]
        limit = incremental_learning(ones, ones, self.epsilon, times, PARTICLES, 0, normal_quantiles(PARTICLES))
        few = sizes[0]
        own = incremental_learning(ones, ones, self.epsilon, times, few, 0, normal_quantiles(few), self_term=True)
        widths = xr.DataArray(list(sizes), dims="width", name="width")
        dataset = xr.concat([one.dataset for one in found], dim=widths, join="exact")
        dataset["limit_risk"] = limit.dataset.excess_risk
        dataset["self_term_risk"] = own.dataset.excess_risk
        dataset = dataset.assign_attrs(d=self.d)
        worst = next((one for one in (*found, limit, own) if not one.ok), found[-1])
        return Findings(dataset, worst.ok, worst.status)

    def train(self, seed: int) -> Findings:
        ones = (1.0, 1.0, 1.0)
        runs = [
            two_timescale_sgd(
                ones, ones, self.epsilon, self.times(), normal_quantiles(width), self.d, self.rate * width, seed
            )
            for width in self.sizes()
        ]
        widths = xr.DataArray(list(self.sizes()), dims="width", name="width")
        dataset = xr.concat([run.dataset for run in runs], dim=widths, join="exact", combine_attrs="override")
        dataset = dataset.transpose("seed", "width", "time", "degree")
        worst = next((run for run in runs if not run.ok), runs[0])
        return Findings(dataset, worst.ok, worst.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times = self.times()
        stairs: list[Mark] = []
        for colour, width in enumerate(self.sizes()):
            stairs.append(Line(times[1:], theory.dataset.excess_risk.sel(width=width)[1:], f"$m={width}$", colour))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.excess_risk.sel(width=width).values)
                label = f"SGD, {counted(len(simulation.seeds), 'run')}" if colour == 0 else ""
                stairs.append(Points(times[1::2], mean[1::2], error[1::2], label, colour))
        limit = theory.dataset.limit_risk
        stairs.append(Line(times[1:], limit[1:], r"$m=\infty$", len(self.sizes()), dashed=True))
        few = theory.dataset.self_term_risk
        stairs.append(Line(times[1:], few[1:], f"particles with self-term, $m={self.sizes()[0]}$", 0, dashed=True))
        wide = self.sizes()[-1]
        degrees: list[Mark] = []
        for degree in range(3):
            line = theory.dataset.residual.sel(width=wide, degree=degree)
            degrees.append(Line(times[1:], line[1:], f"degree {degree}", degree))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.residual.sel(width=wide, degree=degree).values)
                degrees.append(Points(times[1::2], mean[1::2], error[1::2], "", degree))
        epsilon = self.epsilon
        if epsilon < 0.1:
            marks = (
                (r"$\epsilon\log2$", epsilon * np.log(2.0)),
                (r"$0.3\sqrt{\epsilon}\,\log\epsilon^{-1}$", 0.3 * np.sqrt(epsilon) * np.log(1.0 / epsilon)),
                (r"$\quad\quad\epsilon^{1/4}$", epsilon**0.25),
            )
            degrees.extend(Threshold(label, x=float(at)) for label, at in marks)
        time_label = r"time $t$ = steps $\times\,\gamma/(dm)$"
        return Figure(
            [
                Panel(time_label, r"excess risk", stairs, x_scale="log"),
                Panel(time_label, rf"residual $r_\ell$ of a degree, $m={wide}$", degrees, x_scale="log"),
            ],
            title=rf"Incremental learning, $\epsilon={epsilon:g}$, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        wide = self.sizes()[-1]
        residual = dataset.residual.sel(width=wide)
        mean = (residual.mean("seed") if "seed" in residual.dims else residual).values
        return {
            f"learning_time_degree_{n}": Number(
                self._half_time(mean[:, n]),
                f"time t until half of the part of degree {n} is learnt, m = {wide}",
                "units of time",
            )
            for n in range(3)
        }

    def _half_time(self, residual: np.ndarray) -> float:
        """When a residual is first half of its start; infinite if it is not."""
        below = np.flatnonzero(np.abs(residual) <= 0.5)
        if below.size == 0:
            return float("inf")
        i = int(below[0])
        return float(np.interp(-0.5, -np.abs(residual[i - 1 : i + 1]), self.times()[i - 1 : i + 1]))
