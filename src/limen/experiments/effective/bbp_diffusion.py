"""The spectral transition as a diffusion: the overlap of SGD with a spike, below and above the critical signal."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Histogram, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import SpikedTensor
from limen.result import Findings, Result
from limen.simulation.effective.tensor_chain import solve_seeds
from limen.theory.effective.search.search_moments import search_moments

# Signals held against the diffusion, in units of the critical one.
MULTIPLES = (0.5, 1.0, 1.4)
CURVE = np.linspace(0.02, 1.45, 60)
TIMES = 26


class BBPDiffusion(Experiment):
    r"""SGD on a spiked matrix $Y=\lambda vv^\top+W$, a fresh one each step, from a uniform start on the unit sphere.

    With step $c/N$ the part of $x$ off the spike settles at $r=c$, and near zero overlap $z=\sqrt Nm$ is a diffusion
    whatever $N$,
    $$dz=4(\lambda-r)z\,dt+\sqrt{8cr}\,dB,\qquad\dot r=-8r(r-c).$$
    Below $\lambda_c=c$ it is an Ornstein-Uhlenbeck process with stationary variance $c^2/(c-\lambda)$; at $\lambda_c$
    the variance grows linearly; above, exponentially, until $m$ is of order one: the transition of Baik, Ben Arous &
    Péché seen by SGD.

    What to see: spreads that settle, creep and run away; memory $E[z(t)z(T)]$ that dies below the transition and lasts
    above; a Gaussian law at the end. The witness is the exact chain of $(m,r)$ at finite $N$. Sources: Ben Arous,
    Gheissari & Jagannath 2022 (arXiv 2206.04030); Baik, Ben Arous & Péché 2005.
    """

    name: ClassVar[str] = "bbp-diffusion"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Near zero overlap SGD on a spiked matrix is a diffusion, stable below the BBP transition."
    citations: ClassVar[tuple[str, ...]] = ("benarous2022", "baik2005")
    default_seeds: ClassVar[int] = 40
    compared: ClassVar[tuple[str, ...] | None] = ("spread", "memory")
    quick: ClassVar[dict[str, float]] = {"d": 1600, "runs": 1024}
    quick_seeds: ClassVar[int] = 64

    step: float = Field(1.0, ge=1e-6, le=5.0, description="step c (c/N per sample), also the critical signal")
    horizon: float = Field(0.3, ge=1e-6, le=5.0, description="time t·c up to which runs are followed")
    d: int = Field(3400, ge=50, le=10**6, description="dimension N; a run takes N·horizon/c² steps")
    runs: int = Field(448, ge=8, le=4096, description="runs in one seed")

    def problem(self, multiple: float) -> SpikedTensor:
        """The spiked matrix with a multiple of the critical signal."""
        return SpikedTensor(order=2, signal=multiple * self.step, step=self.step)

    def times(self) -> np.ndarray:
        """Where runs are recorded."""
        return np.linspace(0.0, self.horizon / self.step, TIMES)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times = self.times()
        moments = [search_moments(self.problem(multiple), times) for multiple in MULTIPLES]
        variance = np.stack([one[0] for one in moments])
        growth = np.stack([one[1] for one in moments])
        # Correlation of z(t) with its value at the end.
        memory = np.sqrt(variance) * growth[:, -1:] / growth / np.sqrt(variance[:, -1:])
        curve = [search_moments(self.problem(multiple), times[[0, -1]])[0][-1] for multiple in CURVE]
        dataset = self._dataset()
        dataset["spread"] = (("multiple", "time"), np.sqrt(variance))
        dataset["memory"] = (("multiple", "time"), memory)
        dataset["final_spread"] = ("signal_curve", np.sqrt(curve))
        dataset["stationary_spread"] = float(np.sqrt(self.step / (1.0 - MULTIPLES[0])))
        dataset = dataset.assign_coords(signal_curve=CURVE)
        status = "moments of the diffusion integrated."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        times = self.times()
        own = range(seed * self.runs, (seed + 1) * self.runs)
        spread, memory, last = [], [], []
        for multiple in MULTIPLES:
            z = self.d**0.5 * solve_seeds(self.problem(multiple), times, self.d, own)[0].dataset.overlap.values
            mean_square = (z**2).mean(axis=0)
            spread.append(np.sqrt(mean_square))
            memory.append((z * z[:, -1:]).mean(axis=0) / np.sqrt(mean_square * mean_square[-1]))
            last.append(z[:, -1])
        dataset = self._dataset().assign_coords(seed=[seed])
        for name, values in (("spread", spread), ("memory", memory)):
            dataset[name] = (("seed", "multiple", "time"), np.stack(values)[None])
        dataset["rescaled_overlap_of_runs"] = (("seed", "multiple", "run"), np.stack(last)[None])
        status = f"exact chain of SGD on a spiked matrix in d = {self.d}, {self.runs} runs a seed."
        return Findings(dataset, True, status)

    def _dataset(self) -> xr.Dataset:
        return xr.Dataset(coords={"time": self.times(), "multiple": list(MULTIPLES)}, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, times = theory.dataset, self.times()
        at = thin(times.size, 11)
        spreads: list[Mark] = []
        memories: list[Mark] = []
        for marks, name in ((spreads, "spread"), (memories, "memory")):
            for i, multiple in enumerate(MULTIPLES):
                label = rf"$\lambda={multiple:g}\,c$"
                marks.append(Line(times, data[name].values[i], label, i))
                if simulation is not None:
                    mean, error = mean_and_error(simulation.dataset[name].values[:, i])
                    last = i == len(MULTIPLES) - 1
                    marks.append(Points(times[at], mean[at], error[at], "chain" if last else "", i))
        along: list[Mark] = [Line(CURVE, data.final_spread.values, f"$t={times[-1]:g}$")]
        below = CURVE[CURVE < 0.97]
        along.append(
            Line(below, np.sqrt(self.step / (1.0 - below)), "stationary, $c/\\sqrt{c-\\lambda}$", 1, dashed=True)
        )
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset.spread.values[:, :, -1])
            along.append(Points(MULTIPLES, mean, error, "chain"))
        along.append(Threshold(r"$\lambda_c=c$", x=1.0))
        top = 1.25 * float(data.final_spread.values[-1])
        label = r"time $t$ = samples $\times\,c/N$"
        panels = [
            Panel(label, r"spread of $z=\sqrt{N}\,m$", spreads),
            Panel(label, r"correlation of $z(t)$ with $z(T)$", memories, y_range=(0.0, 1.05)),
            Panel(r"signal $\lambda/c$", r"spread of $z(T)$", along, y_range=(0.0, top)),
        ]
        if simulation is not None:
            panels.append(self._law(data, simulation))
        return Figure(panels, title=f"SGD near the spectral transition, $c={self.step:g}$, $N={self.d}$")

    def _law(self, data: xr.Dataset, simulation: Result) -> Panel:
        """Density of $z$ at the end, first below and then above the transition."""
        marks: list[Mark] = []
        widest = 3.5 * float(data.spread.values[-1, -1])
        grid, edges = np.linspace(-widest, widest, 201), np.linspace(-widest, widest, 61)
        for i in (0, len(MULTIPLES) - 1):
            deviation = float(data.spread.values[i, -1])
            density = np.exp(-0.5 * (grid / deviation) ** 2) / (np.sqrt(2.0 * np.pi) * deviation)
            values = simulation.dataset.rescaled_overlap_of_runs.values[:, i].ravel()
            heights = np.histogram(values, edges)[0] / (values.size * np.diff(edges))
            marks.append(Histogram(edges, heights, colour=i))
            marks.append(Line(grid, density, rf"$\lambda={MULTIPLES[i]:g}\,c$", i))
        return Panel(r"$z(T)$", "density", marks, "law at the end")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        spread = dataset.spread.isel(time=-1)
        last = (spread.mean("seed") if "seed" in spread.dims else spread).values
        below, critical, above = MULTIPLES
        words = "spread of the rescaled overlap √N m at the end"
        found = {
            "spread_below": Number(float(last[0]), f"{words}, signal λ = {below:g} c"),
            "spread_at": Number(float(last[1]), f"{words}, signal λ = {critical:g} c, the critical one"),
            "spread_above": Number(float(last[2]), f"{words}, signal λ = {above:g} c"),
        }
        if "stationary_spread" in dataset:
            found["stationary_spread_below"] = Number(
                float(dataset.stationary_spread), f"spread of √N m after infinite time, signal λ = {below:g} c"
            )
        return found
