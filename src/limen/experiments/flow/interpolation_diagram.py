"""Who interpolates: the train loss after a given time, in samples per parameter and size of the second layer."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.interpolate import RegularGridInterpolator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Threshold
from limen.experiments.flow.flow_witness import GAUSSIAN, compare_dimensions, in_larger_dimension, joined_runs
from limen.experiments.flow.flow_words import (
    ACTIVATION_WORDS,
    ADDED_TARGET_WORDS,
    NOTHING,
    depends_on_width,
    noise_series,
    series_label,
    unlearnt_noise,
)
from limen.experiments.flow.noise_witness import (
    dimensions,
    joined_theory,
    noise_problem,
    noise_runs,
    remaining,
    with_network_deviation,
    witness_marks,
)
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import TwoLayer
from limen.result import Findings, Result
from limen.theory.flow.long_times.consistent_threshold import consistent_threshold
from limen.theory.flow.long_times.threshold import interpolation_threshold
from limen.theory.flow.solve import solve

LOWEST = -5.0
FIRST_GAMMA, LAST_GAMMA = 0.1, 1.0
FIRST_ALPHA, LAST_ALPHA = 0.1, 0.9


class InterpolationDiagram(Experiment):
    r"""Networks $\frac1m\sum_ja_j\,he_p(\langle w_j,x\rangle)$ with fixed second layer $a_j=\gamma\sqrt m$ fit
    $n=\alpha md$ labels of pure noise by gradient flow until a given time: a map of what is left of the train loss.

    More parameters than samples are not enough. The line $\gamma_{GF}(\alpha)$ divides networks that fit every label
    from those that never do; at a finite time the fall is smooth, and below the line the map hardly changes any more.
    With a second layer of order one, $\gamma\sim m^{-1/2}$, a wide network lies far below the line: it interpolates
    only if it is trained long enough for the second layer to grow.

    The theory is exact for the Gaussian model (residuals as Gaussian processes of the weights) and is compared with it
    in two dimensions along one cut. Real networks stand beside it; they are worse at fitting noise, with
    $\sigma=he_2$ most so. For $p=3$ the dashed line is the simpler one-step threshold, too low above $\alpha=0.5$.
    With a `target` and a linear part in $\sigma$ the linear part of the target is learnt, the rest is fitted as noise:
    $\gamma$ is counted in units of $\sqrt{\tau^2+\lVert\varphi\rVert^2-f_1^2}$, the map is that of `width`.
    Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "interpolation-diagram"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "Which second layers let a network fit noise, against the number of samples per parameter."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025",)
    default_seeds: ClassVar[int] = 24
    compared: ClassVar[tuple[str, ...] | None] = ("remaining_loss",)
    quick: ClassVar[dict[str, Any]] = {"horizon": 1.0, "resolution": 4, "witness_width": 2, "d": 32}
    quick_seeds: ClassVar[int] = 32

    horizon: float = Field(20.0, ge=0.5, le=1000.0, description="time t at which the train loss is looked at")
    noise: float = Field(1.0, gt=0.0, le=10.0, description="variance τ² of the label noise")
    activation: str = Field("hermite:2", description=ACTIVATION_WORDS)
    target: str = Field(NOTHING, description=ADDED_TARGET_WORDS)
    width: int = Field(
        100_000, ge=2, le=1_000_000, description="number m of neurons of the map; it matters with a linear part only"
    )
    resolution: int = Field(6, ge=4, le=24, description="number of α and of γ at which the theory is solved")
    witness_width: int = Field(2, ge=1, le=8, description="number m of neurons of the simulated networks")
    d: int = Field(96, ge=16, le=160, description="dimension of the inputs in simulations (and half of it)")

    def alphas(self) -> np.ndarray:
        return np.linspace(FIRST_ALPHA, LAST_ALPHA, self.resolution)

    def gammas(self) -> np.ndarray:
        """In units of the noise, and of what else is noise to the network."""
        return np.geomspace(FIRST_GAMMA, LAST_GAMMA, self.resolution)

    def cut(self) -> tuple[float, np.ndarray]:
        r"""Where simulations are: one $\alpha$, and every second $\gamma$."""
        return float(self.alphas()[self.resolution // 2 - 1]), self.gammas()[1::2]

    def unlearnt(self) -> float:
        """Variance of what is noise to a wide network: of the label noise, and of the target beyond degree 1."""
        return unlearnt_noise(self.activation, self.target, self.noise)

    def problem(self, alpha: float, gamma: float, width: int | None = None) -> TwoLayer:
        r"""The second layer at $\gamma\tau\sqrt m$; $m$, by default of the witnesses, does not matter to $he_p$ on
        noise."""
        width = width or self.witness_width
        second_layer = gamma * (self.unlearnt() * width) ** 0.5
        return noise_problem(self.activation, width, alpha, self.noise, second_layer, False, self.target)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        alphas, gammas, times = self.alphas(), self.gammas(), [0.0, self.horizon]
        width = self.width if depends_on_width(self.activation, self.target) else self.witness_width
        found = [
            [solve(self.problem(alpha, gamma, width), times, tolerance=0.02) for gamma in gammas] for alpha in alphas
        ]
        left = np.array([[remaining(part)[-1] for part in row] for row in found])
        small = found[self.resolution // 2 - 1][1::2]
        if width != self.witness_width:
            small = [solve(self.problem(self.cut()[0], gamma), times, tolerance=0.02) for gamma in self.cut()[1]]
        curve, h = np.linspace(0.02, 0.98, 25), noise_series(self.activation)
        simple = np.array([interpolation_threshold(h, alpha) for alpha in curve])
        # Where the state is continuous from q = 0 on, as of q^2, the two agree everywhere.
        full = simple if h[2] else np.array([consistent_threshold(h, alpha) for alpha in curve])
        dataset = labelled(
            {
                "remaining_map": (("alpha", "gamma"), left),
                "threshold": (("curve_alpha",), full),
                "one_step_threshold": (("curve_alpha",), simple),
                "remaining_loss": (("cut_gamma",), [remaining(part)[-1] for part in small]),
            },
            coords={
                "alpha": alphas, "gamma": gammas, "curve_alpha": curve, "cut_gamma": self.cut()[1],
            },
        )  # fmt: skip
        return joined_theory(dataset, [*(part for row in found for part in row), *small])

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(resolution=4)

    def train(self, seed: int) -> Findings:
        alpha, gammas = self.cut()
        times = np.array([0.0, self.horizon])
        found = [noise_runs(self.problem(alpha, gamma), times, self.d, seed) for gamma in gammas]
        # (gamma, run); the last run is the real network.
        left = np.array([[remaining(run)[-1] for run in runs] for runs in found])
        dataset = labelled(
            {
                "remaining_loss": (("seed", "size", "cut_gamma"), left[None, :, :-1].swapaxes(1, 2)),
                "network_loss": (("seed", "cut_gamma"), left[None, :, -1]),
            },
            coords={"seed": [seed], "size": list(dimensions(self.d)), "cut_gamma": gammas},
            attrs={"d": self.d},
        )
        runs = [run for part in found for run in part]
        return joined_runs(dataset, runs)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model in two dimensions along the cut."""
        return compare_dimensions(theory, simulation, ("remaining_loss",))

    def between(self, theory: Result, alpha: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        r"""What remains, (alpha, gamma), interpolated between the solved points in $\log\gamma$."""
        logs = np.log10(np.maximum(theory.dataset.remaining_map.values, 10.0 ** (LOWEST - 2.0)))
        nodes = (theory.dataset.alpha.values, np.log(theory.dataset.gamma.values))
        # Without overshoot where the loss has fallen to the floor.
        smooth = RegularGridInterpolator(nodes, logs, method="pchip")
        inside = np.clip(np.log(gamma), nodes[1][0], nodes[1][-1])
        points = np.stack(np.meshgrid(alpha, inside, indexing="ij"), axis=-1)
        return 10.0 ** smooth(points)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found = theory.dataset
        alpha, gamma = np.linspace(FIRST_ALPHA, LAST_ALPHA, 61), np.linspace(FIRST_GAMMA, LAST_GAMMA, 61)
        logs = np.log10(self.between(theory, alpha, gamma)).T
        marks: list[Mark] = [
            Map(alpha, gamma, logs, r"$\log_{10}\,e_{tr}(t)/e_{tr}(0)$ (theory)", LOWEST, 0.0),
            Line(found.curve_alpha, found.threshold, colour=1),
        ]
        if not np.array_equal(found.threshold, found.one_step_threshold):
            marks.append(Line(found.curve_alpha, found.one_step_threshold, colour=1, dashed=True))
        panels = [
            Panel(
                r"samples per parameter $\alpha=n/(md)$", r"second layer $\gamma/\tau=a/(\tau\sqrt{m})$", marks,
                x_range=(FIRST_ALPHA, LAST_ALPHA), y_range=(FIRST_GAMMA, LAST_GAMMA),
                title=rf"$t={self.horizon:g}$; line: threshold $\gamma_{{GF}}(\alpha)$",
            )
        ]  # fmt: skip
        cut = self.cut()[0]
        line = self.between(theory, np.array([cut]), gamma)[0]
        other = depends_on_width(self.activation, self.target)
        cuts: list[Mark] = [Line(gamma, line, f"theory, $t={self.horizon:g}$" + f", $m={self.width}$" * other)]
        if other:
            label = f"theory, $m={self.witness_width}$"
            cuts.append(Line(found.cut_gamma, found.remaining_loss, label, GAUSSIAN, dashed=True, spots=True))
        if simulation is not None:
            model, real = simulation.dataset.remaining_loss.values[:, -1], simulation.dataset.network_loss.values
            cuts += witness_marks(found.cut_gamma.values, model, real, self.d, True)
        cuts.append(Threshold(r"$\gamma_{GF}$", x=float(np.interp(cut, found.curve_alpha, found.threshold))))
        label = rf"remaining $e_{{tr}}(t)/e_{{tr}}(0)$ at $\alpha={cut:.3g}$"
        panels.append(Panel(r"second layer $\gamma/\tau$", label, cuts))
        what = "pure noise" if self.target == NOTHING else f"noise beside {series_label(self.target)}"
        return Figure(panels, title=f"Who fits {what}: {series_label(self.activation)}, fixed second layer")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "threshold" in dataset:
            half = float(np.interp(0.5, dataset.curve_alpha.values, dataset.threshold.values))
            found["threshold_at_half"] = Number(half, "second layer γ/τ from which noise is fitted, α = 0.5")
        remains = in_larger_dimension(dataset).remaining_loss.values
        where = f"at α = {self.cut()[0]:.3g}, t = {self.horizon:g}"
        found["interpolated_points"] = Number(
            float((remains < 1e-2).sum()),
            f"second layers, of {remains.size}, that leave less than 1% train loss {where}",
        )
        found["largest_remaining"] = Number(
            float(remains.max()), f"largest part of the train loss left by a second layer {where}"
        )
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        networks = None if simulation is None else simulation.dataset.network_loss
        return with_network_deviation(
            super().headline(theory, simulation), theory.dataset.remaining_loss, networks, 1.0, "the remaining loss"
        )
