"""Online PCA: a random start, exponential growth of a Gaussian amplitude, and a law of hitting times."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.special import ndtri

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import InputError, OnlinePCA
from limen.result import Findings, Result
from limen.simulation.effective.spherical_chain import solve_seeds
from limen.theory.effective.fixed_point import fixed_point
from limen.theory.effective.search.hitting import hitting_probability, hitting_time

QUARTILES = np.array([0.25, 0.5, 0.75])
TIMES = 61
# By then all but this part of the runs have reached the level.
REMAINING = 0.005
# Crossings are compared while at least this part of the runs is on either side: rarer ones say nothing.
RARE = 0.03
AMPLITUDES = ndtri((np.arange(2000) + 0.5) / 4000.0 + 0.5)


class OnlinePCATraining(Experiment):
    r"""The leading direction of $E\,YY^\top=I+\lambda\theta\theta^\top$ by SGD on the sphere, one sample a step.

    The information exponent is 2: a uniform start has overlap $\zeta N^{-1/2}$ and grows like $e^{At}$,
    $A=2(\lambda-\delta)$, $t=\text{samples}\cdot\delta/N$. The noise of SGD widens the amplitude by the factor
    $m_*^{-4}$, and
    $$m^2(t)=m_*^2\frac q{1+q},\quad q=\frac{\zeta^2}{Nm_*^4}e^{2At},\quad
    m_*^2=\frac{\lambda-\delta}{\lambda(1+\delta)},\quad\zeta\sim N(0,1).$$

    What to see: curves of one shape, shifted in time by the luck of the start, so that hitting times are spread by
    an order one that does not shrink with $N$ around $\frac{\log N}{2A}$; a plateau below one that the limit of small
    steps (dashed) misses; nothing is learnt for $\delta\ge\lambda$. The witness is the exact chain of the overlap.
    Sources: Ben Arous, Gheissari & Jagannath 2021 and 2022 (arXiv 2206.04030).
    """

    name: ClassVar[str] = "online-pca"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Online PCA leaves a random start at a random time, and stops below overlap one."
    citations: ClassVar[tuple[str, ...]] = ("benarous2021", "benarous2022")
    default_seeds: ClassVar[int] = 24
    compared: ClassVar[tuple[str, ...] | None] = ("square_overlap", "reached")
    quick: ClassVar[dict[str, float]] = {"d": 1600, "runs": 64}
    quick_seeds: ClassVar[int] = 96

    signal: float = Field(4.0, gt=0.0, le=100.0, description="strength λ of the leading direction")
    step: float = Field(0.5, gt=0.0, le=50.0, description="step δ (δ/N per sample), less than λ")
    level: float = Field(0.5, gt=0.0, lt=1.0, description="overlap η whose first crossing is timed, below the plateau")
    d: int = Field(4000, ge=50, le=10**7, description="dimension N of the inputs; a run takes some N steps")
    runs: int = Field(100, ge=2, le=4096, description="runs in one seed")

    def problem(self) -> OnlinePCA:
        """The learning problem behind the experiment."""
        return OnlinePCA(signal=self.signal, step=self.step)

    def times(self) -> np.ndarray:
        """Until nearly every run has reached the level."""
        return np.linspace(0.0, hitting_time(self.problem(), self.d, self.level, 1.0 - REMAINING), TIMES)

    def crossing(self) -> np.ndarray:
        """Which of the times see runs cross the level."""
        part = hitting_probability(self.problem(), self.d, self.level, self.times())
        seen = (part >= RARE) & (part <= 1.0 - RARE)
        if not seen.any():
            raise InputError(
                f"level must be well above {self.d**-0.5:.2g}, the overlap of a random start at d = {self.d}, "
                f"got {self.level:g}: every run begins beyond it."
            )
        return seen

    def _square_overlap(self, amplitudes: np.ndarray, step: float) -> np.ndarray:
        r"""$m^2$ (amplitude, time) at a step, which may be that of the limit of small ones."""
        end = (self.signal - step) / (self.signal * (1.0 + step))
        growth = np.exp(4.0 * (self.signal - step) * self.times())
        q = amplitudes[:, None] ** 2 / (self.d * end**2) * growth
        return end * q / (1.0 + q)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times, crossing = self.times(), self.crossing()
        quartiles = ndtri(0.5 + 0.5 * QUARTILES)
        dataset = xr.Dataset(
            {
                "square_overlap": ("time", self._square_overlap(AMPLITUDES, self.step).mean(axis=0)),
                "small_step_square_overlap": ("time", self._square_overlap(AMPLITUDES, 0.0).mean(axis=0)),
                "overlap_quartile": (("quantile", "time"), np.sqrt(self._square_overlap(quartiles, self.step))),
                "reached": ("crossing_time", hitting_probability(self.problem(), self.d, self.level, times[crossing])),
                "hitting_time": ("quantile", hitting_time(self.problem(), self.d, self.level, QUARTILES)),
            },
            coords={"time": times, "crossing_time": times[crossing], "quantile": QUARTILES},
            attrs={"d": self.d},
        )
        status = "closed form, to leading order in the dimension."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        times, crossing = self.times(), self.crossing()
        own = range(seed * self.runs, (seed + 1) * self.runs)
        size = np.abs(solve_seeds(self.problem(), times, self.d, own)[0].dataset.overlap.values)
        # The crossing is as good as monotone: between two records the overlap moves by far more than its noise.
        passed = np.maximum.accumulate(size, axis=1) >= self.level
        dataset = xr.Dataset(
            {
                "square_overlap": (("seed", "time"), (size**2).mean(axis=0)[None]),
                "reached": (("seed", "crossing_time"), passed[:, crossing].mean(axis=0)[None]),
                "overlap_of_runs": (("seed", "run", "time"), size[None]),
            },
            coords={"seed": [seed], "time": times, "crossing_time": times[crossing]},
            attrs={"d": self.d},
        )
        status = f"exact overlap chain of spherical SGD in d = {self.d}, {self.runs} runs a seed."
        return Findings(dataset, True, status)

    def _hitting_quartiles(self, overlap_of_runs: np.ndarray) -> np.ndarray:
        """Quartiles over all runs, crossings interpolated between records; infinite where not reached."""
        times, found = self.times(), []
        for path in overlap_of_runs.reshape(-1, TIMES):
            above = np.flatnonzero(path >= self.level)
            if above.size == 0 or above[0] == 0:
                found.append(np.inf if above.size == 0 else 0.0)
                continue
            i = int(above[0])
            part = (self.level - path[i - 1]) / (path[i] - path[i - 1])
            found.append(times[i - 1] + part * (times[i] - times[i - 1]))
        return np.quantile(found, QUARTILES, method="inverted_cdf")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, times = theory.dataset, self.times()
        names = ("unlucky quarter", "median", "lucky quarter")
        paths: list[Mark] = [
            Line(times, data.overlap_quartile.values[i], names[i], i) for i in reversed(range(len(QUARTILES)))
        ]
        squares: list[Mark] = [
            Line(times, data.square_overlap.values, r"theory, step $\delta$"),
            Line(times, data.small_step_square_overlap.values, "limit of small steps", 1, dashed=True),
        ]
        reached: list[Mark] = [Line(data.crossing_time.values, data.reached.values, "theory")]
        if simulation is not None:
            found, at = simulation.dataset, thin(times.size, 20)
            runs = found.overlap_of_runs.values.reshape(-1, TIMES)
            for i, row in enumerate(np.quantile(runs, QUARTILES, axis=0)):
                paths.append(Points(times[at], row[at], colour=i, label="chain" if i == 0 else ""))
            for marks, name, x in ((squares, "square_overlap", times), (reached, "reached", data.crossing_time.values)):
                mean, error = mean_and_error(found[name].values)
                kept = thin(x.size, 20)
                marks.append(Points(x[kept], mean[kept], error[kept], f"chain, {counted(len(runs), 'run')}"))
        paths.append(Threshold("$m_*$", y=fixed_point(self.problem())))
        reached.append(Threshold(r"$\log N/2A$", x=float(np.log(self.d) / (4.0 * (self.signal - self.step)))))
        label = r"time $t$ = samples $\times\,\delta/N$"
        return Figure(
            [
                Panel(label, r"overlap $|m|$", paths, y_range=(0.0, 1.0)),
                Panel(label, r"mean of $m^2$", squares, y_range=(0.0, 1.05)),
                Panel(label, rf"part of runs past $\eta={self.level:g}$", reached, y_range=(0.0, 1.05)),
            ],
            title=f"Online PCA, $\\lambda={self.signal:g}$, $\\delta={self.step:g}$, $N={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        known = "hitting_time" in dataset
        quartiles = dataset.hitting_time.values if known else self._hitting_quartiles(dataset.overlap_of_runs.values)
        crossing = f"overlap η = {self.level:g} is reached, t = samples × δ/N"
        return {
            "median_hitting_time": Number(float(quartiles[1]), f"median time at which {crossing}", "units of time"),
            "interquartile_range": Number(
                float(quartiles[2] - quartiles[0]),
                f"distance of the quartiles of the time at which {crossing}",
                "units of time",
            ),
            "final_square_overlap": Number(
                float(dataset.square_overlap.isel(time=-1).mean()), "mean squared overlap m² at the end"
            ),
        }
