"""Which noise can be fitted: the interpolation threshold of a fixed second layer, and how slow it is near it."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.interpolate import PchipInterpolator

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.flow.flow_witness import GAUSSIAN, NETWORK, compare_dimensions, in_larger_dimension, joined_runs
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
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.theory.flow.long_times.relaxation import lazy_relaxation_rate, relaxation_time
from limen.theory.flow.long_times.threshold import asymptotic_error, interpolation_threshold
from limen.theory.flow.solve import solve

# In units of the threshold: of the theory, and of the simulations.
RATIOS = (0.4, 0.7, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0)
WITNESSED = (0.7, 1.5)
DRAWN = (0.4, 0.7, 0.9, 1.1, 1.5, 3.0)
FLOOR = 1e-6


class InterpolationThreshold(Experiment):
    r"""A network $\frac1m\sum_ja_j\,he_p(\langle w_j,x\rangle)$ with fixed $a_j=\gamma\sqrt m$ fits pure noise,
    $n=\alpha md$ samples, by gradient flow of the first layer.

    Above $\gamma_{GF}(\alpha)$ the train loss vanishes like $e^{-t/t_{rel}}$, with $1/t_{rel}$ going to zero at the
    threshold; far above it is the edge $2\gamma^2h'(1)(1-\sqrt\alpha)^2$ of a Marchenko-Pastur law. Below, the loss
    ages towards $e_\infty(\gamma)>0$, ever more slowly.

    The theory is exact for the Gaussian model (residuals as Gaussian processes of the weights), and is compared with it
    in two dimensions at all times. Real networks stand beside it: noise fitting is where the Gaussian model is only
    qualitative, and with $\sigma=he_2$ most so. For $p=3$ and $\alpha$ above 0.5 the threshold drawn, of one step, is a
    little low (`limen.flow.consistent_threshold`).

    With a `target` $\varphi$ and a linear part in $\sigma$ the network learns the linear part of $\varphi$, with its
    neurons moved by $O(m^{-1/2})$. The rest of the target is noise to it: the threshold is that of pure noise with
    $\tau^2+\lVert\varphi\rVert^2-f_1^2$. Curves are then those of `width`, the witnesses those of their own width.
    Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "interpolation-threshold"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "A second layer above a threshold fits pure noise exponentially fast; below it, never."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025",)
    default_seeds: ClassVar[int] = 24
    compared: ClassVar[tuple[str, ...] | None] = ("remaining_loss",)
    quick: ClassVar[dict[str, Any]] = {"horizon": 20.0, "witness_width": 2, "witness_horizon": 3.0, "d": 64}
    quick_seeds: ClassVar[int] = 48

    samples_per_parameter: float = Field(0.3, ge=0.02, le=0.9, description="samples per parameter α = n/(md)")
    noise: float = Field(1.0, gt=0.0, le=10.0, description="variance τ² of the label noise")
    activation: str = Field("hermite:2", description=ACTIVATION_WORDS)
    target: str = Field(NOTHING, description=ADDED_TARGET_WORDS)
    width: int = Field(
        100_000, ge=2, le=1_000_000, description="number m of neurons of the curves; it matters with a linear part only"
    )
    horizon: float = Field(1e4, ge=1.0, le=1e6, description="last time t")
    witness_width: int = Field(2, ge=1, le=16, description="number m of neurons of the simulated networks")
    witness_horizon: float = Field(50.0, ge=1.0, le=1000.0, description="last time of the simulations")
    d: int = Field(120, ge=16, le=200, description="dimension of the inputs in simulations (and half of it)")

    def problem(self, gamma: float, width: int | None = None) -> TwoLayer:
        r"""The second layer at $\gamma\sqrt m$; $m$, by default of the witnesses, does not matter to $he_p$ on
        noise."""
        width = width or self.witness_width
        ratio, second_layer = self.samples_per_parameter, gamma * width**0.5
        return noise_problem(self.activation, width, ratio, self.noise, second_layer, False, self.target)

    def unlearnt(self) -> float:
        """Variance of what is noise to a wide network: of the label noise, and of the target beyond degree 1."""
        return unlearnt_noise(self.activation, self.target, self.noise)

    def threshold(self) -> float:
        return interpolation_threshold(noise_series(self.activation), self.samples_per_parameter, self.unlearnt())

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.horizon, 161)])

    def witness_times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.2, self.witness_horizon, 10)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        threshold, h = self.threshold(), noise_series(self.activation)
        grid = np.unique(np.concatenate([self.times(), self.witness_times()]))
        width = self.width if depends_on_width(self.activation, self.target) else self.witness_width
        found = [solve(self.problem(ratio * threshold, width), grid, tolerance=5e-3) for ratio in RATIOS]
        if width == self.witness_width:
            at = np.searchsorted(grid, self.witness_times())
            small = [found[RATIOS.index(ratio)] for ratio in WITNESSED]
        else:
            at = slice(None)
            short = self.witness_times()
            small = [solve(self.problem(ratio * threshold), short, tolerance=5e-3) for ratio in WITNESSED]
        beside = [remaining(part)[at] for part in small]
        ratio = np.linspace(0.0, 1.1, 34)
        dataset = labelled(
            {
                "train_loss": (("ratio", "time"), np.array([part.dataset.train_loss.values for part in found])),
                "relaxation_rate": (
                    ("ratio",),
                    [_rate(part) for part in found],
                    {"undefined": "the loss does not relax to zero"},
                ),
                "lazy_rate": (
                    ("ratio",),
                    lazy_relaxation_rate(h, self.samples_per_parameter, threshold * np.array(RATIOS)),
                ),
                "asymptotic_error": (
                    ("curve_ratio",),
                    asymptotic_error(h, self.samples_per_parameter, ratio * threshold, self.unlearnt()),
                ),
                "remaining_loss": (("witness_ratio", "witness_time"), np.array(beside)),
                "threshold": threshold,
            },
            coords={
                "ratio": list(RATIOS),
                "time": grid,
                "curve_ratio": ratio,
                "witness_ratio": list(WITNESSED),
                "witness_time": self.witness_times(),
            },
        )
        return joined_theory(dataset, [*found, *small])

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(horizon=min(self.horizon, max(10.0, self.witness_horizon)))

    def train(self, seed: int) -> Findings:
        threshold, times = self.threshold(), self.witness_times()
        parts = [noise_runs(self.problem(ratio * threshold), times, self.d, seed) for ratio in WITNESSED]
        # (ratio, run, time); the last run is the real network.
        left = np.array([[remaining(run) for run in part] for part in parts])
        dataset = labelled(
            {
                "remaining_loss": (
                    ("seed", "size", "witness_ratio", "witness_time"),
                    np.swapaxes(left[:, :-1], 0, 1)[None],
                ),
                "network_loss": (
                    ("seed", "witness_ratio", "witness_time"), left[None, :, -1]
                ),
            },
            coords={
                "seed": [seed], "size": list(dimensions(self.d)), "witness_ratio": list(WITNESSED),
                "witness_time": times,
            },
            attrs={"d": self.d},
        )  # fmt: skip
        runs = [run for part in parts for run in part]
        return joined_runs(dataset, runs)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The Gaussian model in two dimensions, at all times."""
        return compare_dimensions(theory, simulation, ("remaining_loss",))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, threshold = theory.dataset, self.threshold()
        times = found.time.values[1:]
        falls: list[Mark] = [
            Line(
                times,
                _above_floor(found.train_loss.sel(ratio=ratio).values[1:]),
                rf"${ratio:g}\,\gamma_{{GF}}$",
                colour,
            )
            for colour, ratio in enumerate(DRAWN)
        ]
        ends: list[Mark] = [Line(found.curve_ratio, found.asymptotic_error, r"$e_\infty$, $t=\infty$", 6)]
        fine = np.linspace(0.0, 2.0, 81)
        for colour, at in enumerate(dict.fromkeys((self.witness_horizon, self.horizon))):
            # With the smallest second layer a wide network learns what is linear, and the rest is noise.
            losses = [0.5 * self.unlearnt(), *found.train_loss.sel(time=at, method="nearest").values]
            between = PchipInterpolator([0.0, *RATIOS], losses)(fine)
            ends.append(Line(fine, between, f"$t={_decimal(at)}$", 2 * colour, dashed=True))
        ends.append(Threshold(r"$\gamma_{GF}$", x=1.0))
        initial = found.train_loss.sel(ratio=list(WITNESSED)).values[:, 0]
        witnesses: list[Mark] = []
        other = depends_on_width(self.activation, self.target)
        for i in range(len(WITNESSED)):
            short = found.train_loss.sel(ratio=WITNESSED[i], time=slice(0.1, self.witness_horizon))
            at, line = short.time, short / initial[i]
            if other:
                at, line = self.witness_times()[1:], found.remaining_loss.values[i, 1:]
            witnesses.append(Line(at, line, "theory" * (i == 0), GAUSSIAN))
            if simulation is not None:
                model = simulation.dataset.remaining_loss.values[:, -1, i, 1:]
                real = simulation.dataset.network_loss.values[:, i, 1:]
                if not other:
                    for left, colour in ((model, GAUSSIAN), (real, NETWORK)):
                        end = initial[i] * left[:, -1]
                        ends.append(Points([WITNESSED[i]], *mean_and_error(end[:, None]), "", colour))
                witnesses += witness_marks(self.witness_times()[1:], model, real, self.d, i == 0)
        above = np.array(RATIOS) > 1.0
        away = found.ratio.values[above] - 1.0
        rates: list[Mark] = [
            Line(away, found.relaxation_rate.values[above], r"$1/t_{rel}$, fitted", spots=True),
            Line(away, found.lazy_rate.values[above], "Marchenko-Pastur edge", 6, spots=True),
        ]
        low, high = WITNESSED
        return Figure(
            [
                Panel(
                    "time $t$", r"train loss $e_{tr}$", falls, x_scale="log",
                    y_scale="log", y_range=(FLOOR, 1.5 * float(found.train_loss.max())),
                ),
                Panel(r"second layer $\gamma/\gamma_{GF}$", r"train loss $e_{tr}$", ends),
                Panel(
                    r"distance $\gamma/\gamma_{GF}-1$", r"rate $1/t_{rel}$", rates, x_scale="log", y_scale="log"
                ),
                Panel(
                    "time $t$", r"remaining $e_{tr}(t)/e_{tr}(0)$", witnesses, x_scale="log",
                    title=rf"$\gamma/\gamma_{{GF}}={low:g}$ (upper), ${high:g}$ (lower); $m={self.witness_width}$",
                ),
            ],
            title=rf"Fitting noise: $\alpha={self.samples_per_parameter:g}$, $\gamma_{{GF}}={threshold:.4g}$, "
            f"{series_label(self.activation)}"
            + (f", target {series_label(self.target)}" if self.target != NOTHING else ""),
        )  # fmt: skip

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "threshold" in dataset:
            found["threshold"] = Number(
                float(dataset.threshold),
                f"second layer γ = a/√m from which noise is fitted, α = {self.samples_per_parameter:g}",
            )
        remains = in_larger_dimension(dataset).remaining_loss.values
        for i, side in enumerate(("below", "above")):
            found[f"remaining_{side}"] = Number(
                float(remains[i, -1]),
                f"part of the train loss left at t = {self.witness_horizon:g}, γ = {WITNESSED[i]:g} × threshold",
            )
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how far real networks are from the theory, which no witness can say alone."""
        networks = None if simulation is None else simulation.dataset.network_loss
        return with_network_deviation(
            super().headline(theory, simulation), theory.dataset.remaining_loss, networks, 1.0, "the remaining loss"
        )


def _rate(result: Findings | Result) -> float:
    try:
        return 1.0 / relaxation_time(result)
    except InputError:
        return float("nan")


def _decimal(value: float) -> str:
    exponent = np.log10(value)
    return f"10^{{{exponent:.0f}}}" if value >= 1e3 and exponent == round(exponent) else f"{value:g}"


def _above_floor(loss: xr.DataArray) -> np.ndarray:
    return np.where(loss > 0.5 * FLOOR, loss, np.nan)
