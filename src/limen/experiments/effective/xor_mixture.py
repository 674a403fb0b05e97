"""XOR learnt by a two-layer network: neurons move towards four clouds, in the limit and by SGD."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.effective.xor_starts import random_start
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import XorMixture
from limen.result import Findings, Result
from limen.simulation.effective.mixture_training import xor_sgd
from limen.simulation.effective.xor_clusters import occupied_clusters
from limen.theory.effective.mixtures.xor_fixed_points import cluster_mass
from limen.theory.effective.mixtures.xor_flow import xor_flow

MOST_DRAWN = 7
# Curves are then good to a thousandth of their range.
POINTS = 1 << 10


class XorTraining(Experiment):
    r"""Clouds $\pm\mu$ (label 1) and $\pm\nu$ (label 0), noise $I/\lambda$, learnt by $v\cdot\max(WX,0)$ online.

    Second layer $v_i$, overlaps $m_i^\mu,m_i^\nu$ and the Gram matrix $R_{ij}$ of the rest of the weights close:
    as $d\to\infty$ with steps $c/d$ they follow an ordinary differential equation, whose last term
    $\frac c\lambda v_iv_jE[e^2\chi_i\chi_j]$ is the noise of SGD. Neurons with $v_i>0$ turn to $\mu$ or $-\mu$, those
    with $v_i<0$ to $\nu$ or $-\nu$, and stay; neurons of one cloud share it, $\sum v_i^2\to
    \Lambda=\log\frac{1-4\alpha}{4\alpha}$ as $\lambda\to\infty$. Classification is right only if all four
    clouds are occupied: try other values of `draw`, which start from other signs.

    What to see: neurons bending towards the four axes, the others' overlap decaying; SGD on the lines. All runs share
    the start, whose overlaps are of size `overlap`; with overlaps of $d^{-1/2}$ the noise of SGD decides which
    cloud a neuron finds and single runs leave the line. Source: Ben Arous, Gheissari & Jagannath 2022 (arXiv
    2206.04030).
    """

    name: ClassVar[str] = "xor-mixture"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Neurons of a two-layer network on XOR each find one of four clouds, or share one."
    citations: ClassVar[tuple[str, ...]] = ("benarous2022",)
    default_seeds: ClassVar[int] = 48
    compared: ClassVar[tuple[str, ...] | None] = ("overlap", "second_layer", "orthogonal_gram")
    quick: ClassVar[dict[str, object]] = {"d": 60, "width": 2, "time": 10.0}
    quick_seeds: ClassVar[int] = 384

    width: int = Field(4, ge=1, le=32, description="neurons K")
    sharpness: float = Field(10.0, ge=0.1, le=1e6, description="inverse noise variance λ")
    penalty: float = Field(0.02, gt=0.0, lt=0.125, description="penalty α on the weights")
    step: float = Field(1.0, gt=0.0, le=10.0, description="step constant c (steps c/d)")
    overlap: float = Field(0.5, gt=0.0, le=3.0, description="size of the initial overlaps with the means")
    draw: int = Field(0, ge=0, le=10**6, description="which random start, the same for all runs")
    time: float = Field(40.0, gt=0.0, le=1000.0, description="training time t = steps × c/d")
    d: int = Field(300, ge=40, le=20_000, description="dimension d of the inputs")

    def problem(self) -> XorMixture:
        """The mixture and its network."""
        start, second = random_start(self.width, self.overlap, self.draw)
        return XorMixture(self.width, self.sharpness, self.penalty, self.step, start, second)

    def times(self) -> np.ndarray:
        """Where both are recorded."""
        return np.linspace(0.0, self.time, 41)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        return xor_flow.solve(self.problem(), self.times(), points=POINTS)

    def train(self, seed: int) -> Findings:
        return xor_sgd.solve(self.problem(), self.times(), self.d, seed)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, data = self.times(), theory.dataset
        shown, at = range(min(self.width, MOST_DRAWN)), thin(times.size, 14)
        plane: list[Mark] = []
        second: list[Mark] = []
        for i in shown:
            plane.append(Line(data.overlap.values[:, i, 0], data.overlap.values[:, i, 1], f"neuron {i + 1}", i))
            second.append(Line(times, data.second_layer.values[:, i], colour=i))
        if simulation is not None:
            label = f"SGD, {counted(len(simulation.seeds), 'run')}"
            for i in shown:
                mean, error = mean_and_error(simulation.dataset.overlap.values[:, :, i])
                plane.append(Points(mean[at, 0], mean[at, 1], error[at, 1], "", i))
                mean, error = mean_and_error(simulation.dataset.second_layer.values[..., i])
                second.append(Points(times[at], mean[at], error[at], label if i == 0 else "", i))
        length = cluster_mass(self.problem()) ** 0.5
        second += [Threshold(r"$\sqrt{\Lambda}$", y=length), Threshold(r"$-\sqrt{\Lambda}$", y=-length)]
        rest: list[Mark] = []
        for i in shown:
            rest.append(Line(times, data.orthogonal_gram.values[:, i, i], colour=i))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.orthogonal_gram.values[:, :, i, i])
                rest.append(Points(times[at], mean[at], error[at], "", i))
        reach = 1.15 * max(float(np.abs(data.overlap.values).max()), 0.5)
        time_label = r"time $t$ = samples $\times\,c/d$"
        return Figure(
            [
                Panel(
                    r"overlap with $\mu$, $m_i^\mu$", r"overlap with $\nu$, $m_i^\nu$", plane,
                    x_range=(-reach, reach), y_range=(-reach, reach),
                ),
                Panel(time_label, r"second layer $v_i$", second),
                Panel(time_label, r"squared orthogonal length $R_{ii}$", rest),
            ],
            title=f"XOR mixture, $K={self.width}$, $\\lambda={self.sharpness:g}$, $\\alpha={self.penalty:g}$, "
            f"$d={self.d}$",
        )  # fmt: skip

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        second = dataset.second_layer.isel(time=-1)
        return {
            "clouds_found": Number(
                float(np.mean(occupied_clusters(Findings(dataset)))), "clouds of the mixture, of four, found at the end"
            ),
            "second_layer_square": Number(
                float((second**2).sum("neuron").mean()),
                f"squared length of the second layer at the end, t = {self.time:g}",
            ),
        }
