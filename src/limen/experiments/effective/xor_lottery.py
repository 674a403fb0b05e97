"""The XOR lottery: whether a network finds all four clouds is decided by the signs it starts from."""

import math
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, field_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.problem import InputError, XorMixture
from limen.result import Findings, Result
from limen.simulation.effective.xor_clusters import occupied_clusters
from limen.simulation.effective.xor_networks import train_networks
from limen.theory.effective.mixtures.xor_fixed_points import lottery_probability

MOST_WIDTH = 32


class XorLottery(Experiment):
    r"""Probability that a two-layer ReLU network of width $K$ discovers all four clouds of the XOR mixture.

    Without noise ($\lambda=\infty$) each neuron joins the cloud that its initial signs point to, and stays: the clouds
    are independent and uniform, and all four are found with probability
    $p_K=\sum_{j=0}^4(-1)^j\binom4j(1-\frac j4)^K$; $p_4=\frac3{32}$ and $p_K\simeq1-4(3/4)^K$. More neurons than the
    four that are needed buy luck, nothing else. The line is compared with SGD without noise.

    At finite $\lambda$, where initial overlaps $d^{-1/2}$ are below the noise $\lambda^{-1/2}$, neurons leave at
    different times and late ones are pushed towards clouds that are still free. That probability has no formula; it is
    measured beside the line, and still grows with the time of training. With $K=4$, $\alpha=0.05$, $d=200$,
    $\lambda=20$ and time 100 it is about .145 instead of .094.

    What to see: points of noiseless SGD on the line; those with noise above it. Source: Ben Arous, Gheissari &
    Jagannath 2022 (arXiv 2206.04030).
    """

    name: ClassVar[str] = "xor-lottery"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Finding all four clouds of XOR is a lottery over initial signs that width improves."
    citations: ClassVar[tuple[str, ...]] = ("benarous2022",)
    default_seeds: ClassVar[int] = 16
    compared: ClassVar[tuple[str, ...] | None] = ("success",)
    quick: ClassVar[dict[str, object]] = {"d": 160, "time": 60.0, "widths": (12,), "networks": 256, "noisy_networks": 4}
    quick_seeds: ClassVar[int] = 24

    widths: NumberList = Field((4, 7, 12), description="widths K of the network, a list")
    sharpness: float = Field(20.0, ge=0.1, le=1e6, description="inverse noise variance λ of the second measurement")
    penalty: float = Field(0.05, gt=0.0, lt=0.125, description="penalty α on the weights")
    step: float = Field(1.0, gt=0.0, le=10.0, description="step constant c (steps c/d)")
    time: float = Field(60.0, gt=0.0, le=1000.0, description="training time t = steps × c/d")
    networks: int = Field(512, ge=1, le=10_000, description="networks without noise per seed and width")
    noisy_networks: int = Field(12, ge=0, le=10_000, description="networks with noise per seed and width, 0 for none")
    d: int = Field(80, ge=40, le=20_000, description="dimension d of the inputs")

    @field_validator("widths")
    @classmethod
    def _check_widths(cls, widths: tuple[float, ...]) -> tuple[float, ...]:
        whole = all(width == int(width) and 1 <= width <= MOST_WIDTH for width in widths)
        if not whole or not widths or list(widths) != sorted(set(widths)):
            raise InputError(f"widths must be increasing whole numbers from 1 to {MOST_WIDTH}, got {list(widths)}.")
        return widths

    def problem(self, width: int, sharpness: float) -> XorMixture:
        """The mixture and its network."""
        return XorMixture(width=width, sharpness=sharpness, penalty=self.penalty, step=self.step)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        values = [lottery_probability(self.problem(int(width), math.inf)) for width in self.widths]
        dataset = xr.Dataset({"success": ("width", values)}, coords={"width": list(self.widths)})
        status = "sign-signature probability at infinite sharpness."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        success, noisy = [], []
        for width in (int(width) for width in self.widths):
            runs = [train_networks(self.problem(width, math.inf), self.time, self.d, self.networks, seed)]
            success.append(np.mean(occupied_clusters(runs[0]) == 4))
            if self.noisy_networks:
                noisy_problem = self.problem(width, self.sharpness)
                runs.append(train_networks(noisy_problem, self.time, self.d, self.noisy_networks, seed))
                noisy.append(np.mean(occupied_clusters(runs[1]) == 4))
        variables = {"success": (("seed", "width"), np.array([success]))}
        if noisy:
            variables["success_with_noise"] = (("seed", "width"), np.array([noisy]))
        dataset = xr.Dataset(variables, {"width": list(self.widths), "seed": [seed]}, {"d": self.d})
        status = f"full SGD with and without noise, d = {self.d}."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        widths = np.arange(1, int(max(self.widths)) + 2)
        line = [lottery_probability(self.problem(int(width), math.inf)) for width in widths]
        marks: list[Mark] = [Line(widths, line, r"initial signs, $p_K$")]
        if simulation is not None:
            data = simulation.dataset
            count = len(simulation.seeds) * self.networks
            marks.append(
                Points(self.widths, *mean_and_error(data.success.values), f"SGD, no noise, {counted(count, 'run')}")
            )
            if "success_with_noise" in data:
                count = len(simulation.seeds) * self.noisy_networks
                label = rf"SGD, $\lambda={self.sharpness:g}$, {counted(count, 'run')}"
                marks.append(Points(self.widths, *mean_and_error(data.success_with_noise.values), label, 1))
        return Figure(
            [Panel("width $K$ (neurons)", "probability of finding all four clouds", marks, y_range=(-0.03, 1.03))],
            title=f"The XOR lottery, $\\alpha={self.penalty:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        success = dataset.success.mean("seed") if "seed" in dataset.dims else dataset.success
        return {
            f"success_{int(width)}": Number(
                float(value), f"probability that K = {int(width)} neurons find all four clouds"
            )
            for width, value in zip(self.widths, success.values, strict=True)
        }
