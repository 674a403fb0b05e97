"""How late overfitting must come: what bounds for all networks say, beside what happens."""

from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.flow.flow_witness import (
    CURVES,
    LEARNING,
    NETWORK,
    STEP_TOLERANCE,
    compare_dimensions,
    orthogonal,
)
from limen.experiments.flow.flow_witness import curves as flow_curves
from limen.experiments.flow.flow_words import TARGET, TARGET_WORDS, flow_target, series_label
from limen.experiments.flow.noise_witness import dimensions
from limen.experiments.number import Number
from limen.experiments.typeset import typeset
from limen.labelled import labelled
from limen.problem import GradientFlow, TwoLayer, network
from limen.result import Findings, Result
from limen.theory.flow.bounds import (
    bartlett_bound,
    generalization_bound,
    overfitting_bounds,
    overfitting_time_bound,
    start_loss,
)
from limen.theory.flow.solve import solve

LEARNT = ("test_loss", "second_layer", "overlap")
# Overfitting times are looked for up to these times, in units of the width and of 1/alpha.
PER_WIDTH, PER_LEARNING = 20.0, 30.0
CAVEAT = (
    "The theory is the Gaussian model, which networks are near while they learn: their exact flow is up to 2% of a "
    "range away with three neurons and 0.9 samples per parameter, by 1.3% with eight and 0.5."
)


class OverfittingBound(Experiment):
    r"""A network with a bounded activation learns a noisy target by gradient flow; how soon can it overfit?

    Two statements hold for every such network. The second layer grows at most linearly, $|a_j|\le a_0+a_1\hat t$ in
    mean-field time $\hat t=\alpha t$; and test exceeds train loss by at most $\frac{4AL}{\sqrt{n/d}}(\sqrt{Ey^2}+AS)$,
    $A=\frac1m\lVert a\rVert_1$ (Rademacher complexity; Bartlett's $A/\sqrt{n/d}$ without constants). Together they
    forbid overfitting before $\hat t\sim(n/d)^{1/4}$.

    What to see: the bound on $a$ is within a factor of three while the network learns. The bound on the gap is vacuous
    at any $n/d$ one can simulate, larger than the losses themselves by a factor of seven at the start and of thousands
    later, and the overfitting time it excludes is zero up to $n/d$ of thousands; in truth overfitting comes at
    $\hat t$ in proportion to $m$. Late, Bartlett's scale with the true $a$ is within a factor of ten.

    The truth is the theory of the Gaussian model, and real networks beside it. Compared are test loss, second layer and
    overlap of networks in two dimensions while they learn, $\hat t\le3$; no Gaussian model can be sampled for an
    activation that is no polynomial. Source: Montanari & Urbani 2025 (arXiv 2502.21269).
    """

    name: ClassVar[str] = "overfitting-bound"
    source: ClassVar[str] = "Learning then overfitting"
    summary: ClassVar[str] = "Bounds on the gap of train and test loss, beside the gap: true, and far too large."
    citations: ClassVar[tuple[str, ...]] = ("montanari2025", "bartlett1996", "bartlett2002")
    default_seeds: ClassVar[int] = 128
    compared: ClassVar[tuple[str, ...] | None] = tuple(f"learning_{name}" for name in LEARNT)
    quick: ClassVar[dict[str, Any]] = {
        "width": 3, "samples_per_parameter": 0.9, "largest_width": 10, "horizon": 3.0, "d": 48
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 328

    activation: str = Field("tanh", description="bounded activation σ: a name or formula (tanh, erf, sigmoid, sin(z))")
    target: str = Field(TARGET, description=TARGET_WORDS)
    width: int = Field(8, ge=2, le=32, description="number m of neurons")
    samples_per_parameter: float = Field(0.5, ge=0.1, le=0.9, description="samples per parameter α = n/(md)")
    noise: float = Field(0.3, gt=0.0, le=10.0, description="variance τ² of the label noise")
    second_layer: float = Field(1.0, gt=0.0, le=10.0, description="start a₀ of the second layer")
    gap: float = Field(0.12, gt=0.0, le=1.0, description="excess of test over train loss called overfitting")
    horizon: float = Field(60.0, ge=1.0, le=1000.0, description="last time t")
    largest_width: int = Field(10_000, ge=10, le=1_000_000, description="largest width of the overfitting times")
    d: int = Field(96, ge=16, le=300, description="dimension of the inputs in simulations (and half of it)")

    def problem(self, width: int) -> TwoLayer:
        """The learning problem at one width."""
        return TwoLayer(
            flow_target(self.target, self.noise),
            network(width, self.activation, second_layer=self.second_layer, train_second_layer=True),
            GradientFlow(),
            samples_per_dim=self.samples_per_parameter * width,
        )

    def times(self) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(0.1, self.horizon, 24)])

    def learning(self) -> np.ndarray:
        """Indices of the times at which networks learn."""
        return np.flatnonzero(self.times() * self.samples_per_parameter <= LEARNING)

    def widths(self) -> np.ndarray:
        return np.unique(np.geomspace(10, self.largest_width, 4).round().astype(int))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        problem, times, alpha = self.problem(self.width), self.times(), self.samples_per_parameter
        found, bounds = solve(problem, times), overfitting_bounds(problem, times, self.gap).dataset
        curves = flow_curves(found)
        size, slope, power = (float(bounds[name]) for name in ("activation_bound", "activation_slope", "label_power"))
        # The loss at the start is linear in 1/m.
        one, two = start_loss(self.problem(1)), start_loss(self.problem(2))
        wide = 2.0 * two - one
        ratios = np.geomspace(10.0, 1e12, 111)
        excluded = [
            overfitting_time_bound(
                self.gap, delta, self.second_layer, wide + (one - wide) * alpha / delta, size, slope, power
            )
            for delta in ratios
        ]
        overfit = [alpha * self.overfitting_time(int(width)) for width in self.widths()]
        variables: dict[str, Any] = {name: (("time",), values) for name, values in curves.items()}
        variables |= {
            "second_layer_bound": bounds.second_layer_bound,
            "gap_bound": bounds.gap_bound,
            "complexity_bound": (
                ("time",), generalization_bound(curves["second_layer"], alpha * self.width, size, slope, power)
            ),
            "bartlett_scale": (("time",), [bartlett_bound(a, alpha * self.width) for a in curves["second_layer"]]),
            "excluded_time": (("samples_per_dim",), excluded),
            "overfitting_time": (("true_width",), overfit, {"undefined": "it does not overfit by so much"}),
        }  # fmt: skip
        variables |= {f"learning_{name}": (("learning_time",), curves[name][self.learning()]) for name in LEARNT}
        coords = {
            "time": times, "learning_time": times[self.learning()], "samples_per_dim": ratios,
            "true_width": self.widths(),
        }  # fmt: skip
        status = "exact for the Gaussian model, for real networks close while they learn." if found.ok else found.status
        dataset = labelled(variables, coords=coords, attrs={"caveat": CAVEAT})
        return Findings(dataset, found.ok, status)

    def overfitting_time(self, width: int) -> float:
        """When test first exceeds train loss by `gap` in the theory, linearly between times; nan if it does not."""
        end = max(PER_WIDTH * width, PER_LEARNING / self.samples_per_parameter)
        found = solve(self.problem(width), np.geomspace(0.1, end, 101), tolerance=1e-2).dataset
        return first_time(found.time.values, found.test_loss.values - found.train_loss.values, self.gap)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(horizon=min(self.horizon, 10.0))

    def train(self, seed: int) -> Findings:
        from limen.simulation.flow.gradient_flow import gradient_flow

        problem, times = orthogonal(self.problem(self.width)), self.times()
        both = dimensions(self.d)
        runs = [gradient_flow.solve(problem, times, size, seed, tolerance=STEP_TOLERANCE) for size in both]
        rows = [flow_curves(run) for run in runs]
        curves = {name: np.array([row[name] for row in rows]) for name in CURVES}
        variables: dict[str, Any] = {name: (("seed", "time"), values[-1:]) for name, values in curves.items()}
        variables |= {
            f"learning_{name}": (("seed", "size", "learning_time"), curves[name][None, :, self.learning()])
            for name in LEARNT
        }
        coords = {
            "seed": [seed], "time": times, "learning_time": times[self.learning()], "size": list(both),
        }  # fmt: skip
        worst = next((run for run in runs if not run.ok), runs[-1])
        dataset = labelled(variables, coords=coords, attrs={"d": self.d})
        return Findings(dataset, worst.ok, worst.status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """Test loss, second layer and overlap of real networks in two dimensions while they learn."""
        return compare_dimensions(theory, simulation, [f"learning_{name}" for name in LEARNT])

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found, times = theory.dataset, self.times()[1:]
        layers: list[Mark] = [
            Line(times, found.second_layer_bound[1:], r"bound $a_0+a_1\hat{t}$", 6, dashed=True),
            Line(times, found.second_layer[1:], "theory"),
        ]
        gaps: list[Mark] = [
            Line(times, found.gap_bound[1:], "the theorem", 6, dashed=True),
            Line(times, found.complexity_bound[1:], "with the true $a$", 2, dashed=True),
            Line(times, found.bartlett_scale[1:], "Bartlett's scale", 3, dashed=True),
            Line(times, (found.test_loss - found.train_loss)[1:], "theory"),
        ]
        truth = found.true_width * self.samples_per_parameter
        excluded = np.where(found.excluded_time > 0.0, found.excluded_time, np.nan)
        late: list[Mark] = [
            Line(truth, found.overfitting_time, "theory", spots=True),
            Line(found.samples_per_dim, excluded, "excluded before", 6, dashed=True),
        ]
        if simulation is not None:
            label = f"real networks, $d={self.d}$"
            mean, error = mean_and_error(simulation.dataset.second_layer.values[:, 1:])
            layers.append(Points(times, mean, error, label, NETWORK))
            mean, error = mean_and_error((simulation.dataset.test_loss - simulation.dataset.train_loss).values[:, 1:])
            # Before learning the sign of the gap is that of the noise that was drawn.
            seen = mean > 2.0 * error
            gaps.append(Points(times[seen], mean[seen], error[seen], label, NETWORK))
            at = self.samples_per_parameter * self.width
            reached = self.numbers(simulation.dataset)["overfitting_time"]
            late.append(Points([at], [self.samples_per_parameter * reached], None, label, NETWORK))
        gaps.append(Threshold("vacuous above", y=float(found.test_loss.max())))
        begins = self.begins(found)
        if np.isfinite(begins):
            late.append(Threshold("bound begins", x=begins))
        lowest = 0.3 * float((found.test_loss - found.train_loss)[1])
        return Figure(
            [
                Panel("time $t$", "second layer $a$", layers, x_scale="log", y_scale="log"),
                Panel(
                    "time $t$", r"gap $e_{ts}-e_{tr}$ and its bounds", gaps, x_scale="log", y_scale="log",
                    y_range=(max(lowest, 1e-4), 3.0 * float(found.gap_bound.max())),
                ),
                Panel(
                    "samples per dimension $n/d$", rf"time $\hat{{t}}=\alpha t$ of a gap of {self.gap:g}", late,
                    x_scale="log", y_scale="log",
                ),
            ],
            title=rf"Bounds on overfitting: $m={self.width}$, $\alpha={self.samples_per_parameter:g}$, "
            rf"$\tau^2={self.noise:g}$, {typeset(self.activation)}, target {series_label(self.target)}",
        )  # fmt: skip

    def begins(self, found: xr.Dataset) -> float:
        """The smallest $n/d$ at which the bound excludes any time; nan if it never does."""
        ratios = found.samples_per_dim.values[found.excluded_time.values > 0.0]
        return float(ratios[0]) if ratios.size else float("nan")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        gap = (means.test_loss - means.train_loss).values
        found = {}
        if "gap_bound" in dataset:
            end = f"on the gap, divided by the gap, at the end, t = {self.horizon:g}"
            found = {
                "bound_over_gap": Number(float(dataset.gap_bound.values[-1] / gap[-1]), f"bound of the theorem {end}"),
                "bartlett_over_gap": Number(
                    float(dataset.bartlett_scale.values[-1] / gap[-1]), f"scale of Bartlett's bound {end}"
                ),
                "bound_begins_at_samples_per_dim": Number(
                    self.begins(dataset),
                    f"samples from which the bound excludes overfitting at some time, gap {self.gap:g}",
                    "samples per dimension",
                ),
            }
        found["overfitting_time"] = Number(
            first_time(self.times(), gap, self.gap), f"time t at which the gap reaches {self.gap:g}", "units of time"
        )
        found["final_gap"] = Number(float(gap[-1]), f"gap of test and train loss at the end, t = {self.horizon:g}")
        return found

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """With how real networks stand to the theory and its bound, which no witness can say alone."""
        found, ours, early = super().headline(theory, simulation), theory.dataset, self.learning()
        witnesses = {"theory": ours} | (
            {"simulation": simulation.dataset.mean("seed")} if simulation is not None else {}
        )
        for witness, values in witnesses.items():
            off = {name: np.abs((values[name] - ours[name]).values) / np.ptp(ours[name].values) for name in CURVES}
            found[witness] |= {
                "second_layer_share_of_bound": Number(
                    float((values.second_layer / ours.second_layer_bound).values[early[-1]]),
                    f"second layer a over its bound when learning ends, t = {self.times()[early[-1]]:.3g}",
                ),
                "network_deviation_learning": Number(
                    float(max(off[name][early].max() for name in LEARNT)),
                    "largest deviation of real networks from the theory while they learn",
                ),
                "network_deviation_train_loss": Number(
                    float(off["train_loss"].max()),
                    "largest deviation of the train loss of real networks from the theory",
                ),
            }
        return found


def first_time(times: np.ndarray, gaps: np.ndarray, gap: float) -> float:
    """When `gaps` first reach `gap`, linearly between times; nan if they do not."""
    above = np.flatnonzero(gaps >= gap)
    if not above.size or above[0] == 0:
        return float("nan")
    i = int(above[0])
    return float(np.interp(gap, gaps[i - 1 : i + 1], times[i - 1 : i + 1]))
