"""Escaping a saddle: one neuron learns phase retrieval from one pass over the data."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.problem import SphericalSGD, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.one_pass import overlap_chain
from limen.simulation.one_pass.one_pass_sgd import one_pass_sgd
from limen.theory.one_pass import phase_retrieval


class PhaseRetrievalSGD(Experiment):
    r"""One neuron with activation $z^2$ learns $y=z^2+\sqrt{\Delta}\,\varepsilon$ by spherical one-pass SGD.

    A random start has overlap $d^{-1/2}$ with the target, a saddle: nothing seems to happen until the overlap, growing
    like $e^{4ct}$ with $c=1-6\gamma-\gamma\Delta/2$, becomes visible. Then the risk falls within a time of order one to
    the plateau $\gamma\Delta/(1-6\gamma)$ that label noise leaves. The noise of SGD itself shortens the wait.

    What to see: a flat start, a fall at the exit time, the plateau; both times grow as the rate approaches
    $\gamma=1/(6+\Delta/2)$, beyond which nothing is learnt. When a run leaves is luck, and a thousand runs show
    the mean within a few per cent: with several `runs` a seed is their mean, each followed through the exact chain of
    its overlaps instead of its weights. Source: Arnaboldi et al. 2023 (arXiv 2305.18502).
    """

    name: ClassVar[str] = "phase-retrieval-sgd"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "One-pass SGD waits at a saddle, escapes, and stops at a noise plateau."
    citations: ClassVar[tuple[str, ...]] = ("arnaboldi2023escaping", "saad1995")
    default_seeds: ClassVar[int] = 500
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk",)
    quick: ClassVar[dict[str, Any]] = {"d": 200, "rate": 0.04, "runs": 128}
    quick_seeds: ClassVar[int] = 16

    rate: float = Field(0.05, gt=0.0, le=0.5, description="learning rate γ (step γ/d on unit-norm weights)")
    noise: float = Field(0.2, ge=0.0, le=10.0, description="variance Δ of the label noise")
    d: int = Field(300, ge=4, le=20_000, description="dimension of the inputs")
    fraction: float = Field(0.01, gt=0.0, lt=1.0, description="part of the risk whose loss marks the exit")
    runs: int = Field(1, ge=1, le=1000, description="runs per seed; 1 trains all weights, more follow overlaps only")

    def problem(self) -> TwoLayer:
        """The learning problem behind the experiment."""
        return TwoLayer(target("phase-retrieval", noise=self.noise), network(1, "square"), SphericalSGD(self.rate))

    def times(self) -> np.ndarray:
        """Long enough for nearly every start to reach the plateau; a fixed span where there is no escape."""
        growth = phase_retrieval.growth_rate(self.rate, self.noise)
        horizon = (np.log(self.d) + 10.0) / (8.0 * growth) if growth > 0.05 else 10.0
        return np.linspace(0.0, min(horizon, 40.0), 101)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        if self.runs == 1:
            found = phase_retrieval.solve(self.problem(), self.times(), d=self.d, seeds=seeds)
            starts = found.dataset.overlap.values[:, 0, 0, 0]
        else:
            own = [run for seed in seeds for run in self._runs_of(seed)]
            starts = np.array([start_overlaps(self.problem(), self.d, run)[0][0, 0] for run in own])
            found = self._mean_prediction(seeds, starts)
        noiseless = phase_retrieval.square_overlap(starts[:, None], self.rate, self.noise, self.times()).mean(axis=0)
        dataset = found.dataset.assign(
            plateau_risk=phase_retrieval.plateau_risk(self.rate, self.noise), noiseless_square=("time", noiseless)
        )
        return replace(found, dataset=dataset)

    def _mean_prediction(self, seeds: tuple[int, ...], starts: np.ndarray) -> Findings:
        """The mean of each seed's runs; of the overlap the root mean square."""
        square = phase_retrieval.mean_square(starts, self.rate, self.noise, self.times(), self.d)
        square = square.reshape(len(seeds), self.runs, -1).mean(axis=1)
        dataset = labelled(
            {
                "excess_risk": (("seed", "time"), 2.0 * (1.0 - square)),
                "test_loss": (("seed", "time"), 2.0 * (1.0 - square) + 0.5 * self.noise),
                "overlap": (("seed", "time", "neuron", "latent"), np.sqrt(square)[..., None, None]),
            },
            coords={"time": self.times(), "seed": list(seeds)},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, phase_retrieval.said(self.rate, self.noise))

    def train(self, seed: int) -> Findings:
        if self.runs == 1:
            return one_pass_sgd.solve(self.problem(), self.times(), d=self.d, seed=seed)
        found = overlap_chain.solve_together(self.problem(), self.times(), self.d, self._runs_of(seed))
        return replace(found, dataset=self._averaged(found.dataset, (seed,)))

    def _runs_of(self, seed: int) -> range:
        return range(seed * self.runs, (seed + 1) * self.runs)

    def _averaged(self, dataset: xr.Dataset, seeds: tuple[int, ...]) -> xr.Dataset:
        """Means over the runs of each seed; of the overlap, whose sign is chance, the root mean square."""
        squares = dataset[["excess_risk", "test_loss"]].assign(overlap=dataset.overlap**2)
        means = squares.coarsen(seed=self.runs).mean().assign_coords(seed=list(seeds))
        return means.assign(overlap=np.sqrt(means.overlap))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, risk = self.times(), theory.dataset.excess_risk.mean("seed").values
        risk_marks: list[Mark] = [Line(times, risk, "theory")]
        overlap_marks: list[Mark] = [
            Line(times, 1.0 - risk / 2.0, "theory"),
            Line(times, theory.dataset.noiseless_square, "without the noise of SGD", colour=1, dashed=True),
        ]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset.excess_risk.values)
            at, label = thin(times.size), f"SGD, {counted(len(simulation.seeds) * self.runs, 'run')}"
            risk_marks.append(Points(times[at], mean[at], error[at], label))
            squares, errors = mean_and_error((simulation.dataset.overlap.values[..., 0, 0]) ** 2)
            overlap_marks.append(Points(times[at], squares[at], errors[at], label))
        plateau = phase_retrieval.plateau_risk(self.rate, self.noise)
        if plateau < 2.0:
            risk_marks.append(Threshold(r"plateau $\gamma\Delta/(1-6\gamma)$", y=plateau))
        exit_time = self._exit_time(theory.dataset)
        if np.isfinite(exit_time):
            risk_marks.append(Threshold(r"$t_{\mathrm{exit}}$", x=exit_time))
        time_label = r"time $t$ = samples $\times\,\gamma/d$"
        return Figure(
            [
                Panel(time_label, r"excess risk $R-\Delta/2$", risk_marks),
                Panel(time_label, r"squared overlap $m^2$", overlap_marks, y_scale="log"),
            ],
            title=f"One-pass SGD on phase retrieval, $\\gamma={self.rate:g}$, $\\Delta={self.noise:g}$, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        if "plateau_risk" in dataset:
            plateau = float(dataset.plateau_risk)
        else:
            # The median: a few unlucky starts are still on their way at any finite time.
            plateau = float(np.median(dataset.excess_risk.values[:, -10:]))
        return {
            "exit_time": Number(
                self._exit_time(dataset),
                f"time t until the mean excess risk has lost {100 * self.fraction:g}% of its start",
                "units of time",
            ),
            "plateau_risk": Number(plateau, f"excess risk on the last plateau, γ = {self.rate:g}, Δ = {self.noise:g}"),
        }

    def _exit_time(self, dataset: xr.Dataset) -> float:
        """First time at which the mean risk has lost `fraction` of its start; infinite if it never does."""
        times, risk = self.times(), dataset.excess_risk.mean("seed").values
        level = (1.0 - self.fraction) * risk[0]
        below = np.flatnonzero(risk <= level)
        if below.size == 0:
            return float("inf")
        i = int(below[0])
        return float(times[i - 1] + (times[i] - times[i - 1]) * (risk[i - 1] - level) / (risk[i - 1] - risk[i]))
