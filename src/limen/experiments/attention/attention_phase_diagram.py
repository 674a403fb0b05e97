"""The plane of time and inverse temperature for tokens in few and in many dimensions, beside the limit."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.first_passage import first_passage
from limen.experiments.number import Number, over_seeds
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.attention.ensemble import run_ensemble
from limen.simulation.attention.starts import reduced_tokens
from limen.theory.attention import finite_dimension_hitting_time, hitting_time, transition_beta

CLUSTERED = 1e-3
BETAS, TIMES = 19, 41
# Dimensions are the size divided by these.
PARTS = (256, 64, 16, 4, 1)
# Compared where theory promises the passage in this part of the time, so that slower systems still make it.
SAFE = 0.7
# Runge–Kutta of order four with identity matrices: an error of about 1e-5 at this step, whatever beta.
STEP = 0.25
FEW = "the equiangular limit needs d + 1 >= n"


class AttentionPhaseDiagram(Experiment):
    r"""The fraction of pairs of tokens with cosine at least 0.999 over $(t,\beta)$, at five dimensions, $Q^\top K=V=I$.

    As $d\to\infty$ independent tokens are orthogonal and all share one cosine, whose passage of 0.999 is a curve
    $\beta_*(t)$ in closed form, the same in every panel. At finite $d$ cosines scatter by $d^{-1/2}$: tokens that start
    closer meet sooner, the wait is shorter by about $e^{-\beta^2/(2d)}$, and for $d<n$ tokens crowd into clusters that
    live long.

    What to see: one sharp boundary on the curve at the largest dimension. At smaller ones it moves up and frays: parts
    of the tokens meet early, the last clusters late. The last panel shows the time of the collapse at one $\beta$
    against $d$, its limit and its leading correction. Hitting times are compared at the largest dimension, where that
    correction is good to a part in a hundred; below, the panels show how far it reaches. Source: Geshkovski,
    Letrouit, Polyanskiy & Rigollet 2023 (arXiv 2312.10794), section 6, with $n=32$ as there.
    """

    name: ClassVar[str] = "attention-phase-diagram"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Who has collapsed at which depth and temperature: from few dimensions to many."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023",)
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("hitting_time",)
    quick: ClassVar[dict[str, float]] = {"tokens": 6, "horizon": 10.0, "largest_beta": 4.0}
    quick_seeds: ClassVar[int] = 32

    tokens: int = Field(32, ge=2, le=128, description="number of tokens n")
    largest_beta: float = Field(9.0, gt=0.0, le=100.0, description="largest inverse temperature β")
    horizon: float = Field(30.0, gt=0.0, le=1000.0, description="last time t")
    d: int = Field(4096, ge=512, le=10_000_000, description="largest dimension; the others are d/4, d/16, d/64, d/256")

    @model_validator(mode="after")
    def _check(self) -> "AttentionPhaseDiagram":
        if self.tokens > self.d:
            raise InputError(f"tokens must be at most d = {self.d}, or the limit is far, got {self.tokens}.")
        least = hitting_time(self.tokens, 0.0, CLUSTERED)
        if SAFE * self.horizon < least:
            raise InputError(f"horizon must be at least {least / SAFE:.4g} for any collapse, got {self.horizon:g}.")
        return self

    def dims(self) -> list[int]:
        """The five dimensions, the smallest first."""
        return [max(2, self.d // part) for part in PARTS]

    def betas(self) -> np.ndarray:
        """Inverse temperatures of the diagrams."""
        return np.linspace(0.0, self.largest_beta, BETAS)

    def times(self) -> np.ndarray:
        """Times of the diagrams."""
        return np.linspace(0.0, self.horizon, TIMES)

    def collapsing(self) -> np.ndarray:
        """Inverse temperatures at which the collapse is expected well before the horizon: those compared."""
        expected = finite_dimension_hitting_time(self.tokens, self.d, self.betas(), CLUSTERED)
        return self.betas()[expected <= SAFE * self.horizon]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        reached = self.collapsing()
        expected = np.asarray(hitting_time(self.tokens, self.betas(), CLUSTERED))
        dataset = xr.Dataset(
            {
                "hitting_time": ("collapsing_beta", finite_dimension_hitting_time(self.tokens, self.d, reached)),
                "clustered_pairs": (("beta", "time"), (self.times() >= expected[:, None]).astype(float)),
                "slowest_time": ("dim", self._corrected_times(float(reached[-1])), {"undefined": FEW}),
                "limit_slowest_time": float(hitting_time(self.tokens, float(reached[-1]), CLUSTERED)),
                "transition_beta_at_horizon": float(transition_beta(self.tokens, self.horizon, CLUSTERED)),
            },
            coords={"beta": self.betas(), "time": self.times(), "collapsing_beta": reached, "dim": self.dims()},
        )
        return Findings(dataset, True, "the curve exact as d grows; hitting times with the leading correction.")

    def _corrected_times(self, beta: float) -> list[float]:
        """Corrected hitting times at each dimension; nan where there is no equiangular limit."""
        return [
            float(finite_dimension_hitting_time(self.tokens, dim, beta, CLUSTERED))
            if dim + 1 >= self.tokens
            else np.nan
            for dim in self.dims()
        ]

    def train(self, seed: int) -> Findings:
        betas, times = self.betas(), self.times()
        pairs, slowest, passages = [], [], []
        reached = self.collapsing()
        for dim in self.dims():
            token = reduced_tokens(self.tokens, dim, (seed,))
            record = run_ensemble(np.repeat(token, BETAS, axis=0), betas, times, step=STEP)
            pairs.append(np.asarray(record.clustered_pairs).T)
            cosine = np.asarray(record.mean_cosine).T
            passages = [first_passage(times, 1.0 - row, CLUSTERED) for row in cosine[: reached.size]]
            slowest.append(passages[-1])
        dataset = xr.Dataset(
            {
                # Of the last dimension, the largest.
                "hitting_time": (("seed", "collapsing_beta"), np.array([passages])),
                "clustered_pairs": (("seed", "dim", "beta", "time"), np.array([pairs])),
                "slowest_time": (("seed", "dim"), np.array([slowest]), {"undefined": "later than the horizon"}),
            },
            coords={"dim": self.dims(), "beta": betas, "time": times, "collapsing_beta": reached, "seed": [seed]},
            attrs={"d": self.d},
        )
        ok = bool(np.isfinite(passages).all())
        status = f"{self.tokens} tokens." if ok else "some cosines did not pass 0.999: take a larger horizon."
        return Findings(dataset, ok, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        betas, times = self.betas(), self.times()
        steep = np.linspace(0.0, self.largest_beta, 300)
        limit = np.asarray(hitting_time(self.tokens, steep, CLUSTERED))
        seen = limit <= self.horizon
        panels = []
        for place, dim in enumerate(self.dims()):
            pairs = theory.dataset.clustered_pairs.values
            if simulation is not None:
                pairs = simulation.dataset.clustered_pairs.values[:, place].mean(axis=0)
            curve = Line(limit[seen], steep[seen], r"$\beta_*(t)$, $d\to\infty$" if place == 0 else "", colour=1)
            marks: list[Mark] = [Map(times, betas, pairs, "pairs that have met", 0.0, 1.0), curve]
            panels.append(Panel(r"time $t$ (depth)", r"inverse temperature $\beta$", marks, f"$d={dim}$"))
        beta = float(theory.dataset.collapsing_beta[-1])
        wait: list[Mark] = [
            Line(self.dims(), theory.dataset.slowest_time.values, "corrected", spots=True),
            Threshold(r"$d\to\infty$", y=float(theory.dataset.limit_slowest_time)),
        ]
        if simulation is not None:
            wait.append(Points(self.dims(), *mean_and_error(simulation.dataset.slowest_time.values), colour=1))
        panels.append(Panel("dimension $d$", "time $t$ of the collapse", wait, rf"$\beta={beta:.3g}$", x_scale="log"))
        key = "Maps: simulation" if simulation is not None else "Maps: theory"
        key += ", part of the pairs with cosine at least 0.999. Curves and squares: theory."
        if simulation is not None:
            key += f" Points: simulation, mean and standard error over {counted(len(simulation.seeds), 'seed')}."
        else:
            key = "Maps, curves and squares: theory."
        return Figure(panels, title=f"Attention over depth and temperature, $n={self.tokens}$", key=key)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset)
        slowest = float(dataset.collapsing_beta[-1])
        words = f"time t at which the mean cosine passes 0.999, d = {self.d}, β = {slowest:.3g}"
        numbers = {"slowest_compared_hitting_time": Number(mean.hitting_time.values[-1], words)}
        for dim in self.dims()[-3:-1]:
            words = f"the same time at d = {dim}"
            numbers[f"slowest_time_{dim}"] = Number(mean.slowest_time.sel(dim=dim), words)
        if "transition_beta_at_horizon" in dataset:
            words = f"inverse temperature β below which tokens have collapsed by t = {self.horizon:g}"
            numbers["transition_beta_at_horizon"] = Number(dataset.transition_beta_at_horizon, words)
        return numbers
