"""When do random tokens become one? The transition in time and inverse temperature."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, mean_and_error, thin
from limen.experiments.first_passage import first_passage
from limen.experiments.number import Number, over_seeds
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.attention.ensemble import run_ensemble
from limen.simulation.attention.starts import reduced_tokens
from limen.theory.attention import (
    equiangular_cosine,
    finite_dimension_hitting_time,
    hitting_time,
    transition_beta,
)

CLUSTERED = 1e-3
BETAS, TIMES, SMOOTH = 24, 61, 110
# Compared where theory promises the passage in this part of the time, so that slower systems still make it.
SAFE = 0.7
# Runge–Kutta of order four with identity matrices: an error of about 1e-5 at this step, whatever beta.
STEP = 0.25


class AttentionClustering(Experiment):
    r"""Independent uniform tokens under $\dot x_i=P^\perp_{x_i}\sum_jA_{ij}x_j$ with $A_{ij}\propto e^{\beta\langle
    x_i,x_j\rangle}$: the fraction of pairs with cosine at least 0.999, over time and inverse temperature.

    In high dimension random tokens are nearly orthogonal, and orthogonal tokens keep one common cosine,
    $\dot\gamma=\frac{2(1-\gamma)(1+(n-1)\gamma)}{e^{\beta(1-\gamma)}+n-1}$. Its passage of 0.999 draws the curve
    $\beta_*(t)$: below it all tokens have become one, above it nothing has happened yet. A large $\beta$ does not slow
    the collapse itself, whose last stage is $1-\gamma\sim Ce^{-2t}$ for every $\beta$; it lengthens the wait.

    What to see: a sharp boundary along the curve, and cosines that wait and then rise. At finite $d$ the cosines
    scatter by $d^{-1/2}$ and the wait is shorter by about $e^{-\beta^2/(2d)}$. That leading correction (dashed), not
    the limit, is what the hitting times of the particles are compared with. It is heuristic: at $d=512$ and $n=32$, 256
    systems lie 0.3% above it at $\beta=3.5$ and 0.8% below at $\beta=6.3$, which a few dozen systems cannot tell, and
    the difference falls with $d$, hence the default. Dimension costs nothing here. Source: Geshkovski, Letrouit,
    Polyanskiy & Rigollet 2023 (arXiv 2312.10794), section 6.
    """

    name: ClassVar[str] = "attention-clustering"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Tokens under attention wait, then collapse: a sharp curve in time and temperature."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023",)
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("hitting_time",)
    quick: ClassVar[dict[str, float]] = {"tokens": 6, "d": 4096, "horizon": 10.0, "largest_beta": 4.0}
    quick_seeds: ClassVar[int] = 32

    tokens: int = Field(32, ge=2, le=256, description="number of tokens n")
    largest_beta: float = Field(9.0, gt=0.0, le=100.0, description="largest inverse temperature β")
    horizon: float = Field(30.0, gt=0.0, le=1000.0, description="last time t")
    d: int = Field(4096, ge=2, le=10_000_000, description="dimension of the tokens (costs nothing beyond n)")

    @model_validator(mode="after")
    def _check(self) -> "AttentionClustering":
        if self.tokens > self.d:
            raise InputError(
                f"tokens must be at most d = {self.d}, or no two are nearly orthogonal, got {self.tokens}."
            )
        least = hitting_time(self.tokens, 0.0, CLUSTERED)
        if SAFE * self.horizon < least:
            raise InputError(f"horizon must be at least {least / SAFE:.4g} for any collapse, got {self.horizon:g}.")
        return self

    def betas(self) -> np.ndarray:
        """Inverse temperatures of the diagram."""
        return np.linspace(0.0, self.largest_beta, BETAS)

    def times(self) -> np.ndarray:
        """Times of the diagram."""
        return np.linspace(0.0, self.horizon, TIMES)

    def drawn(self) -> np.ndarray:
        """Places of the inverse temperatures whose cosines are drawn."""
        return np.linspace(0, BETAS - 1, 6)[1:-1].round().astype(int)

    def collapsing(self) -> np.ndarray:
        """Inverse temperatures at which the collapse is expected well before the horizon: those compared."""
        expected = finite_dimension_hitting_time(self.tokens, self.d, self.betas(), CLUSTERED)
        return self.betas()[expected <= SAFE * self.horizon]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        reached = self.collapsing()
        expected = np.asarray(hitting_time(self.tokens, self.betas(), CLUSTERED))
        smooth = np.linspace(0.0, self.horizon, SMOOTH)
        cosine = [equiangular_cosine(self.tokens, float(beta), smooth) for beta in self.betas()[self.drawn()]]
        dataset = xr.Dataset(
            {
                "hitting_time": ("collapsing_beta", finite_dimension_hitting_time(self.tokens, self.d, reached)),
                "hitting_time_limit": ("collapsing_beta", hitting_time(self.tokens, reached, CLUSTERED)),
                "clustered_pairs": (("beta", "time"), (self.times() >= expected[:, None]).astype(float)),
                "cosine_limit": (("drawn_beta", "smooth_time"), np.stack(cosine)),
                "transition_beta_at_horizon": float(transition_beta(self.tokens, self.horizon, CLUSTERED)),
            },
            coords={
                "beta": self.betas(),
                "time": self.times(),
                "collapsing_beta": reached,
                "drawn_beta": self.betas()[self.drawn()],
                "smooth_time": smooth,
            },
        )
        status = "cosines exact as d grows; hitting times with the leading correction at this d."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        betas, times = self.betas(), self.times()
        starts = np.broadcast_to(reduced_tokens(self.tokens, self.d, (seed,)), (BETAS, self.tokens, self.tokens))
        record = run_ensemble(starts, betas, times, step=STEP)
        cosine, pairs = np.asarray(record.mean_cosine).T, np.asarray(record.clustered_pairs).T
        reached = self.collapsing()
        passages = [first_passage(times, 1.0 - row, CLUSTERED) for row in cosine[: reached.size]]
        dataset = xr.Dataset(
            {
                "hitting_time": (("seed", "collapsing_beta"), np.array([passages])),
                "mean_cosine": (("seed", "beta", "time"), cosine[None]),
                "clustered_pairs": (("seed", "beta", "time"), pairs[None]),
            },
            coords={"beta": betas, "time": times, "collapsing_beta": reached, "seed": [seed]},
            attrs={"d": self.d},
        )
        ok = bool(np.isfinite(passages).all())
        status = f"{self.tokens} tokens." if ok else "some cosines did not pass 0.999: take a larger horizon."
        return Findings(dataset, ok, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        betas, times = self.betas(), self.times()
        pairs, witness = theory.dataset.clustered_pairs.values, "theory"
        if simulation is not None:
            pairs, witness = simulation.dataset.clustered_pairs.mean("seed").values, "simulation"
        steep = np.linspace(0.0, self.largest_beta, 300)
        limit = np.asarray(hitting_time(self.tokens, steep, CLUSTERED))
        corrected = finite_dimension_hitting_time(self.tokens, self.d, steep, CLUSTERED)
        diagram: list[Mark] = [
            Map(times, betas, pairs, rf"pairs with $\langle x_i,x_j\rangle\geq0.999$ ({witness})", 0.0, 1.0),
            Line(limit[limit <= self.horizon], steep[limit <= self.horizon], r"theory, $d\to\infty$", colour=1),
            Line(
                corrected[corrected <= self.horizon], steep[corrected <= self.horizon],
                f"theory, corrected for $d={self.d}$", colour=1, dashed=True,
            ),
        ]  # fmt: skip
        curves: list[Mark] = []
        smooth = theory.dataset.smooth_time.values
        for colour, row in enumerate(self.drawn()):
            label = f"$\\beta={betas[row]:.2g}$"
            curves.append(Line(smooth, theory.dataset.cosine_limit.values[colour], label, colour))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.mean_cosine.values[:, row])
                at = thin(times.size)
                curves.append(Points(times[at], mean[at], error[at], "", colour))
        time_label = r"time $t$ (depth)"
        return Figure(
            [
                Panel(time_label, r"inverse temperature $\beta$", diagram),
                Panel(time_label, r"mean cosine of pairs $\gamma_\beta(t)$", curves, r"lines: $d\to\infty$"),
            ],
            title=f"Clustering under attention, $n={self.tokens}$, $d={self.d}$",
            caption="Solid: the limit of many dimensions. Dashed: its leading correction at this dimension.",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        times, slowest = over_seeds(dataset).hitting_time.values, float(dataset.collapsing_beta[-1])
        numbers = {
            "hitting_time_at_beta_0": Number(times[0], "time t at which the mean cosine passes 0.999, β = 0"),
            "slowest_compared_hitting_time": Number(
                times[-1], f"time t at which the mean cosine passes 0.999, β = {slowest:.3g}"
            ),
        }
        if "transition_beta_at_horizon" in dataset:
            numbers["transition_beta_at_horizon"] = Number(
                dataset.transition_beta_at_horizon,
                f"inverse temperature β below which tokens have collapsed by t = {self.horizon:g}",
            )
        return numbers
