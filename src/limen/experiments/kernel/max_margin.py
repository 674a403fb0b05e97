"""Losses with an exponential tail turn towards the max-margin direction on separable data, logarithmically slowly."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, thin
from limen.experiments.number import Number
from limen.result import Findings, Result
from limen.simulation.kernel.logistic_regression import (
    draw_labelled_points,
    exponential_descent,
    logistic_descent,
    softened_descent,
)
from limen.theory.kernel.classification.logistic_flow import (
    direction_error,
    log_logistic_loss,
    logistic_flow,
    normalized_margin,
)
from limen.theory.kernel.classification.max_margin import margin_asymptotics

EARLIEST_TIME, POINTS = 20.0, 13
FAR = 60
SHOWN = 2
# Drawn with full and with dashed lines; the logistic loss lies between them.
SHOWN_LOSSES = (("exponential", False), ("softened", True))
LOSSES = ("exponential", "logistic", "softened")
UNKNOWN = "the support does not span the data"


class MaxMarginFlow(Experiment):
    r"""Gradient flow of linear classification on separable points, $w(t)=\hat w\log t+\tilde w+o(1)$, to $t=e^{1000}$.

    Three losses of the margin $m$ are followed, $\frac1c\log(1+ce^{-m})$: the exponential $e^{-m}$ ($c\to0$), the
    logistic ($c=1$) and one that is softer on missed labels. All have the tail $e^{-m}$. $\hat w$ is the hard-margin
    separator, $\|\hat w\|=1/\gamma_{\max}$. The loss falls like $\|\hat w\|^2/t$; margin and direction approach their
    limits like $1/\log t$, with constants that the multipliers $a_i$ of the support give:
    $$(\gamma_{\max}-\gamma(t))\log t\to\frac1{\|\hat w\|}\Big[\max_i\log a_i-
      \frac{\sum_ia_i\log a_i}{\sum_ia_i}\Big],\qquad
      \Big\|\frac w{\|w\|}-\frac{\hat w}{\|\hat w\|}\Big\|\log t\to
      \frac{\|P^\perp_{\hat w}\tilde w\|}{\|\hat w\|}.$$
    The equation is solved in $\log(1+t)$, for the data of each seed; descent with step $\eta$, at $t=\eta k$, sees the
    beginning.

    What to see: plain descent on the line of the flow, far from the limit: a thousand times more steps would change
    little. The three losses part at first and end at the same constants, direction and margin alike: the tail alone
    decides. The black constants are reached at $\log t\sim100$ and beyond. A direction without constant belongs to
    data whose support does not span the space, and there the losses may part for ever. Source: Soudry, Hoffer,
    Nacson, Gunasekar & Srebro 2018.
    """

    name: ClassVar[str] = "max-margin"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Losses with an exponential tail find the largest margin, but only as fast as 1/log t."
    citations: ClassVar[tuple[str, ...]] = ("soudry2018",)
    default_seeds: ClassVar[int] = 8
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("margin", "direction_error", "time_times_loss")
    quick: ClassVar[dict[str, float]] = {"d": 2, "samples": 8, "latest_log_time": 20.0, "longest_descent": 200.0}
    quick_seeds: ClassVar[int] = 12

    d: int = Field(3, ge=2, le=20, description="dimension d of the inputs")
    samples: int = Field(30, ge=2, le=300, description="number n of labelled points")
    gap: float = Field(0.2, ge=0.01, le=10.0, description="distance by which points are moved from the hyperplane")
    step: float = Field(0.05, ge=1e-5, le=1.0, description="step η of gradient descent")
    longest_descent: float = Field(1000.0, ge=50.0, le=1e5, description="time t = ηk at which descent ends")
    softness: float = Field(10.0, ge=2.0, le=100.0, description="softness c of the third loss log(1 + c·exp(-m))/c")
    latest_log_time: float = Field(1000.0, ge=20.0, le=5000.0, description="log t at which the flow ends")

    def step_counts(self) -> np.ndarray:
        """Step counts of descent that are compared."""
        times = np.geomspace(EARLIEST_TIME, self.longest_descent, POINTS)
        return np.unique((times / self.step).round().astype(int))

    def softnesses(self) -> tuple[float, ...]:
        """The exponential loss, the logistic loss, and the softer one."""
        return (0.0, 1.0, self.softness)

    def log_times(self) -> np.ndarray:
        """Values of log t that descent reaches."""
        return np.log(self.step * self.step_counts())

    def far_log_times(self) -> np.ndarray:
        """Values of log t for the whole flow."""
        return np.geomspace(1.0, self.latest_log_time, FAR)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        near, far = self.log_times(), self.far_log_times()
        every = np.union1d(near, far)
        curves: dict[str, list[np.ndarray]] = {}
        constants = np.full((len(seeds), 4), np.nan)
        for row, seed in enumerate(seeds):
            points = self._points(seed)
            limit = margin_asymptotics(points)
            known = (limit.margin_constant, limit.direction_constant)
            constants[row, :2] = 1.0 / np.sqrt(limit.loss_constant), limit.loss_constant
            constants[row, 2:] = [np.nan if value is None else value for value in known]
            flows = [
                _measures(points, logistic_flow(points, every, softness=softness), every, softness)
                for softness in self.softnesses()
            ]
            for name in flows[0]:
                values = np.array([flow[name] for flow in flows])
                curves.setdefault(name, []).append(values[:, np.isin(every, near)])
                curves.setdefault(f"flow_{name}", []).append(values[:, np.isin(every, far)])
        names = ("largest_margin", "loss_constant", "margin_constant", "direction_constant")
        dataset = xr.Dataset(
            {
                **{
                    name: (("seed", "loss", "far_log_time" if name.startswith("flow_") else "log_time"), np.array(rows))
                    for name, rows in curves.items()
                },
                **{name: ("seed", constants[:, i], {"undefined": UNKNOWN}) for i, name in enumerate(names)},
            },
            coords={"loss": list(LOSSES), "log_time": near, "far_log_time": far, "seed": list(seeds)},
        )
        status = "the flow of each seed's own data, to ten digits."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        points, counts = self._points(seed), self.step_counts()
        runs = (
            exponential_descent(points, self.step, counts.tolist()),
            logistic_descent(points, self.step, counts.tolist()),
            softened_descent(points, self.softness, self.step, counts.tolist()),
        )
        rows = [
            _measures(points, weights, self.log_times(), softness)
            for weights, softness in zip(runs, self.softnesses(), strict=True)
        ]
        best = 1.0 / np.sqrt(margin_asymptotics(points).loss_constant)
        dataset = xr.Dataset(
            {
                **{name: (("seed", "loss", "log_time"), [[row[name] for row in rows]]) for name in rows[0]},
                "largest_margin": ("seed", [best]),
            },
            coords={"loss": list(LOSSES), "log_time": self.log_times(), "seed": [seed]},
            attrs={"d": self.d},
        )
        status = f"{counts[-1]} steps of gradient descent on each loss."
        return Findings(dataset, True, status)

    def _points(self, seed: int) -> np.ndarray:
        return draw_labelled_points(seed, self.samples, self.d, self.gap)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data = theory.dataset
        far, near = data.far_log_time.values, data.log_time.values
        margins: list[Mark] = []
        directions: list[Mark] = []
        losses: list[Mark] = []
        at = thin(near.size, 7)
        for colour, seed in enumerate(theory.seeds[:SHOWN]):
            own = data.sel(seed=seed)
            best, scale = float(own.largest_margin), float(own.loss_constant)
            for loss, dashed in SHOWN_LOSSES:
                flow = own.sel(loss=loss)
                name = f"data set {seed}, {loss}"
                margins.append(Line(far, (best - flow.flow_margin) * far, name, colour, dashed=dashed))
                directions.append(Line(far, flow.flow_direction_error * far, "", colour, dashed=dashed))
                losses.append(Line(far, flow.flow_time_times_loss / scale, "", colour, dashed=dashed))
                if simulation is None or seed not in simulation.seeds:
                    continue
                run = simulation.dataset.sel(seed=seed, loss=loss)
                label = "descent" if colour == 0 and not dashed else ""
                margins.append(Points(near[at], ((best - run.margin) * near).values[at], None, label, colour))
                directions.append(Points(near[at], (run.direction_error * near).values[at], None, "", colour))
                losses.append(Points(near[at], (run.time_times_loss / scale).values[at], None, "", colour))
            for marks, constant in ((margins, own.margin_constant), (directions, own.direction_constant)):
                if np.isfinite(constant):
                    late = far[far > 0.3 * far[-1]]
                    name = "" if any(mark.label == "limit" for mark in marks) else "limit"
                    marks.append(Line(late, np.full(late.size, float(constant)), name, colour=6, dashed=True))
        losses.append(Threshold(r"$tL=\|\hat w\|^2$", y=1.0))
        label = r"$\log t$ of the time $t$ (logarithmic axis)"
        panels = (
            (r"margin missing $(\gamma_{\max}-\gamma)\log t$", margins),
            (r"direction error $\times\,\log t$", directions),
            (r"loss $\times$ time $tL/\|\hat w\|^2$", losses),
        )
        return Figure(
            [Panel(label, words, marks, x_scale="log") for words, marks in panels],
            title=f"Classification of separable data, $n={self.samples}$, $d={self.d}$ (black: limits)",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        best = dataset.largest_margin
        reached = (dataset.margin.sel(loss="logistic").isel(log_time=-1) / best).mean()
        numbers = {
            "part_of_margin_when_descent_ends": Number(
                reached, f"part of the largest margin, logistic, reached at time t = {self.longest_descent:g}"
            )
        }
        if "flow_margin" in dataset:
            last = dataset.sel(loss="logistic").isel(far_log_time=-1)
            numbers |= {
                "part_of_margin_when_flow_ends": Number(
                    (last.flow_margin / best).mean(),
                    f"part of the largest margin, logistic, reached at log t = {self.latest_log_time:g}",
                ),
                "time_times_loss_over_limit": Number(
                    (last.flow_time_times_loss / last.loss_constant).mean(),
                    f"time times logistic loss over its limit at log t = {self.latest_log_time:g}",
                ),
            }
        return numbers


def _measures(points: np.ndarray, weights: np.ndarray, log_times: np.ndarray, softness: float) -> dict[str, np.ndarray]:
    return {
        "margin": np.asarray(normalized_margin(points, weights)),
        "direction_error": np.asarray(direction_error(points, weights)),
        "time_times_loss": np.exp(np.asarray(log_logistic_loss(points, weights, softness)) + log_times),
    }
