"""The noise of one-pass SGD: differential equation, diffusion and exact chain of one overlap."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.result import Findings, Result
from limen.simulation.one_pass.overlap_chain import chain
from limen.theory.one_pass import phase_retrieval
from limen.theory.one_pass.diffusion import sphere_diffusion

PATHS = 32_768
VARIABLES = ("overlap", "overlap_spread", "overlap_correlation")


class SGDNoise(Experiment):
    r"""One neuron $z^2$ learns $y=z^2+\sqrt\Delta\,\varepsilon$ on the sphere from an overlap $m_0$ of order one.

    As $d\to\infty$ the overlap follows $\dot m=4m[(1-6\gamma)(1-m^2)-\gamma\Delta/2]$. At finite $d$ it spreads by
    $O(d^{-1/2})$: $dm=\dot m\,dt+\sqrt{\gamma\Sigma(m)/d}\,dB$. The chain is the exact law of SGD in $d$ dimensions;
    one seed is a batch of `runs` of them, with its mean, its standard deviation and its correlation with the last time
    (together: the two-time covariance).

    What to see: the mean lies below the differential equation by a few times $1/d$, which the diffusion knows; the
    spread grows while the overlap climbs (a longer horizon shows it shrink again); overlaps at two times stay
    correlated, since early noise is amplified with the rest. Source: Arnaboldi et al. 2023 (arXiv 2305.18502).
    """

    name: ClassVar[str] = "sgd-noise"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "An overlap under one-pass SGD: its equation, its diffusion and its exact law."
    citations: ClassVar[tuple[str, ...]] = ("arnaboldi2023escaping",)
    default_seeds: ClassVar[int] = 192
    compared: ClassVar[tuple[str, ...] | None] = VARIABLES
    quick: ClassVar[dict[str, float]] = {"d": 200, "runs": 100}
    quick_seeds: ClassVar[int] = 384

    d: int = Field(600, ge=20, le=10**7, description="dimension of the inputs")
    rate: float = Field(0.08, ge=1e-4, le=0.15, description="learning rate γ")
    noise: float = Field(0.3, ge=0.0, le=5.0, description="variance Δ of the label noise")
    start: float = Field(0.3, ge=0.05, le=0.95, description="initial overlap m₀")
    horizon: float = Field(0.4, ge=0.1, le=10.0, description="last time, in samples times γ/d")
    runs: int = Field(200, ge=5, le=10_000, description="runs of SGD per seed")

    def steps(self) -> np.ndarray:
        """Recorded steps."""
        steps = np.rint(np.linspace(0.0, self.horizon * self.d / self.rate, 21)).astype(np.int64)
        return np.unique(steps[steps > 0])

    def times(self) -> np.ndarray:
        """Their times."""
        return self.steps() * (self.rate / self.d)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times = self.times()
        paths = sphere_diffusion(self.start, self.rate, self.noise, self.d, times, PATHS).dataset
        overlap = paths.overlap.values[:, :, 0, 0]
        square = phase_retrieval.square_overlap(np.array([self.start]), self.rate, self.noise, times)
        dataset = labelled(
            {
                **{name: ("time", values) for name, values in zip(VARIABLES, _moments(overlap), strict=True)},
                "overlap_ode": ("time", np.sqrt(square).ravel()),
            },
            coords={"time": times},
            attrs={"d": self.d},
        )
        status = f"closed form, and {PATHS} paths of the diffusion."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        runs = range(seed * self.runs, (seed + 1) * self.runs)
        unit, one = np.eye(1), np.ones(1)
        found = chain(
            unit, self.start * unit, unit, one, one, "square", self.rate, self.noise, self.d, self.steps().tolist(),
            runs, spherical=True,
        )  # fmt: skip
        overlap = found.dataset.overlap.values[:, :, 0, 0]
        dataset = labelled(
            {name: (("seed", "time"), values[None]) for name, values in zip(VARIABLES, _moments(overlap), strict=True)},
            coords={"seed": [seed], "time": self.times()},
            attrs={"d": self.d},
        )
        return Findings(dataset, found.ok, found.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, data = theory.dataset.time.values, theory.dataset
        mean, spread = data.overlap.values, data.overlap_spread.values
        marks: list[Mark] = [
            Band(times, mean - spread, mean + spread, "diffusion, one standard deviation"),
            Line(times, mean, "diffusion, mean"),
            Line(times, data.overlap_ode.values, "differential equation", colour=1, dashed=True),
        ]
        spreads: list[Mark] = [Line(times, np.sqrt(self.d) * spread, "diffusion")]
        correlations: list[Mark] = [Line(times, data.overlap_correlation.values, "diffusion")]
        if simulation is not None:
            at, label = thin(times.size), f"chain, {counted(len(simulation.seeds) * self.runs, 'run')}"
            scales = (1.0, np.sqrt(self.d), 1.0)
            for panel, name, scale in zip((marks, spreads, correlations), VARIABLES, scales, strict=True):
                values, error = mean_and_error(scale * simulation.dataset[name].values)
                panel.append(Points(times[at], values[at], error[at], label))
        label = r"time $t$ = samples $\times\,\gamma/d$"
        return Figure(
            [
                Panel(label, "overlap $m$", marks),
                Panel(label, r"spread of the overlap $\times\sqrt{d}$", spreads),
                Panel(label, r"correlation with the last overlap", correlations),
            ],
            title=f"The noise of SGD, $\\gamma={self.rate:g}$, $\\Delta={self.noise:g}$, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = dataset.mean("seed") if "seed" in dataset.dims else dataset
        return {
            "last_overlap": Number(
                float(mean.overlap.values[-1]), f"mean overlap m with the teacher at the end, t = {self.horizon:g}"
            ),
            "largest_spread": Number(
                float(mean.overlap_spread.values.max()), f"largest standard deviation of m between runs, d = {self.d}"
            ),
            "half_way_correlation": Number(
                float(mean.overlap_correlation.values[dataset.sizes["time"] // 2 - 1]),
                "correlation of m at half time with m at the end",
            ),
        }


def _moments(overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and correlation with the last time, over the first axis of (run, time)."""
    runs = overlap.shape[0]
    mean, spread = overlap.mean(axis=0), overlap.std(axis=0, ddof=1)
    covariance = ((overlap - mean) * (overlap - mean)[:, -1:]).sum(axis=0) / (runs - 1)
    correlation = covariance / (spread * spread[-1])
    # Of normal samples: the deviation is low by 1/(4n) of itself, the correlation by (1 - r^2)/(2n).
    return mean, spread * (1 + 0.25 / (runs - 1)), correlation * (1 + 0.5 * (1 - correlation**2) / (runs - 1))
