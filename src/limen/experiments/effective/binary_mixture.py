"""A mixture of two Gaussians learnt online: unequal weights point the way, equal ones make SGD search."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.special import ndtri

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import BinaryMixture
from limen.result import Findings, Result
from limen.simulation.effective.spherical_chain import solve_seeds
from limen.theory.effective.fixed_point import fixed_point
from limen.theory.effective.mixtures.mixture_fluctuations import overlap_fluctuations
from limen.theory.effective.search.hitting import hitting_probability, hitting_time
from limen.theory.effective.sphere.sphere_drift import SphereDrift

TIMES = 41
# Parts of the final overlap that end the record with unequal weights and mark recovery with equal ones.
NEARLY, RECOVERED = 0.97, 0.7
# Recovery is watched between these parts of the runs: before, a handful of runs has nothing to say.
EARLY, LATE = 0.03, 0.9


class BinaryMixtureTraining(Experiment):
    r"""The direction $\theta$ of $Y=\varepsilon\theta+z$, $P(\varepsilon=1)=p$, by online maximum likelihood.

    Loss $-\log\cosh(\langle Y,x\rangle+h)$ on the sphere, $p=e^h/(e^h+e^{-h})$, step $\delta/N$,
    $t=\text{samples}\cdot\delta/N$:
    $$\dot m=-\phi'(m)(1-m^2)-\tfrac\delta2m\,E\tanh^2,\qquad\phi'(m)=-E[\varepsilon\tanh(z+\varepsilon m+h)].$$
    Unequal weights have $\phi'(0)<0$, information exponent 1: every run follows the same path, up to a Gaussian of size
    $N^{-1/2}$ whose variance, with the shift of the mean by $1/N$, is part of the theory. Equal weights have
    $\phi'(0)=0$, exponent 2: the start's luck is amplified, and recovery takes $\frac{\log N}{2A}$ and a random time of
    order one.

    What to see: left, one curve with a narrow band; middle, its width rising while the drift is unstable and falling
    at the end; right, recovery spread over a wide range of times. The witness is the exact chain of the overlap.
    Sources: Ben Arous, Gheissari & Jagannath 2021, and 2022 (arXiv 2206.04030).
    """

    name: ClassVar[str] = "binary-mixture"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "A two-component mixture: unequal weights are learnt at once, equal ones after a search."
    citations: ClassVar[tuple[str, ...]] = ("benarous2021", "benarous2022")
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("overlap", "overlap_spread", "recovered")
    quick: ClassVar[dict[str, float]] = {"d": 1600, "runs": 512}
    quick_seeds: ClassVar[int] = 64

    weight: float = Field(0.8, ge=0.7, le=0.98, description="probability p of the component at +θ in the unequal case")
    step: float = Field(1.0, gt=0.0, le=2.0, description="step δ (δ/N per sample)")
    d: int = Field(1200, ge=200, le=10**6, description="dimension N of the inputs, halved for equal weights")
    runs: int = Field(280, ge=8, le=4096, description="runs in one seed; a third as many with equal weights")

    def problem(self) -> BinaryMixture:
        """Unequal weights."""
        return BinaryMixture(weight=self.weight, step=self.step)

    def balanced(self) -> BinaryMixture:
        """Equal weights."""
        return BinaryMixture(weight=0.5, step=self.step)

    def level(self) -> float:
        """The overlap that counts as recovery with equal weights."""
        return RECOVERED * fixed_point(self.balanced())

    def times(self) -> np.ndarray:
        """Until the path is close to its end."""
        drift = SphereDrift(self.problem())
        return np.linspace(0.0, drift.time_between(0.0, NEARLY * drift.stable_overlap()), TIMES)

    def balanced_times(self) -> np.ndarray:
        """While runs recover."""
        early, late = hitting_time(self.balanced(), self.d // 2, self.level(), (EARLY, LATE))
        return np.linspace(early, late, TIMES)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        dataset = self._dataset()
        limit, shift, variance = overlap_fluctuations(self.problem(), dataset.time.values)
        dataset["overlap"] = ("time", limit + shift / self.d)
        dataset["limiting_overlap"] = ("time", limit)
        dataset["overlap_spread"] = ("time", np.sqrt(variance))
        late = dataset.balanced_time.values
        dataset["recovered"] = ("balanced_time", hitting_probability(self.balanced(), self.d // 2, self.level(), late))
        dataset["median_recovery_time"] = float(hitting_time(self.balanced(), self.d // 2, self.level(), 0.5))
        status = "integrated; fluctuations and recovery to leading order in the dimension."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        own = range(seed * self.runs, (seed + 1) * self.runs)
        paths = solve_seeds(self.problem(), self.times(), self.d, own)[0].dataset.overlap.values
        fewer = range(seed * self.runs, seed * self.runs + self.runs // 3)
        size = np.abs(solve_seeds(self.balanced(), self.balanced_times(), self.d // 2, fewer)[0].dataset.overlap.values)
        dataset = self._dataset().assign_coords(seed=[seed])
        dataset["overlap"] = (("seed", "time"), paths.mean(axis=0)[None])
        dataset["overlap_spread"] = (("seed", "time"), self.d**0.5 * paths.std(axis=0, ddof=1)[None])
        passed = np.maximum.accumulate(size, axis=1) >= self.level()
        dataset["recovered"] = (("seed", "balanced_time"), passed.mean(axis=0)[None])
        dataset["balanced_overlap_of_runs"] = (("seed", "run", "balanced_time"), size[None])
        status = f"exact overlap chain of spherical SGD in d = {self.d}, {self.runs} runs a seed."
        return Findings(dataset, True, status)

    def _dataset(self) -> xr.Dataset:
        coords = {"time": self.times(), "balanced_time": self.balanced_times()}
        return xr.Dataset(coords=coords, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data = theory.dataset
        times, late = data.time.values, data.balanced_time.values
        overlap, spread = data.overlap.values, data.overlap_spread.values
        wide = float(ndtri(0.975)) * spread / self.d**0.5
        paths: list[Mark] = [
            Line(times, overlap, "theory"),
            Band(times, overlap - wide, overlap + wide, "95% of runs"),
        ]
        spreads: list[Mark] = [Line(times, spread, "theory")]
        recovered: list[Mark] = [Line(late, data.recovered.values, "theory")]
        if simulation is not None:
            count, at = len(simulation.seeds) * self.runs, thin(TIMES, 14)
            for marks, name, x, runs in (
                (paths, "overlap", times, count),
                (spreads, "overlap_spread", times, count),
                (recovered, "recovered", late, len(simulation.seeds) * (self.runs // 3)),
            ):
                mean, error = mean_and_error(simulation.dataset[name].values)
                marks.append(Points(x[at], mean[at], error[at], f"chain, {counted(runs, 'run')}"))
        paths.append(Threshold("$m_*$", y=fixed_point(self.problem())))
        label = r"time $t$ = samples $\times\,\delta/N$"
        unequal = f"$p={self.weight:g}$, exponent 1"
        return Figure(
            [
                Panel(label, "overlap $m$", paths, unequal),
                Panel(label, r"spread of $\sqrt{N}\,m$ over runs", spreads, unequal),
                Panel(
                    label,
                    f"part of runs past $|m|={self.level():.2f}$",
                    recovered,
                    f"$p=1/2$, exponent 2, $N={self.d // 2}$",
                    y_range=(0.0, 1.05),
                ),
            ],
            title=f"Online learning of a binary mixture, $\\delta={self.step:g}$, $N={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = dataset.mean("seed") if "seed" in dataset.dims else dataset
        if "median_recovery_time" in dataset:
            median = float(dataset.median_recovery_time)
        else:
            median = self._half_recovered(mean.recovered.values)
        return {
            "final_overlap": Number(
                float(mean.overlap.values[-1]),
                f"mean overlap with the direction at the end, weight p = {self.weight:g}",
            ),
            "largest_spread": Number(
                float(mean.overlap_spread.values.max()),
                f"largest spread of the overlap between runs, times √N, weight p = {self.weight:g}",
            ),
            "median_recovery_time_of_equal_weights": Number(
                median, "time t = samples × δ/N until half of the runs recover, equal weights", "units of time"
            ),
        }

    def _half_recovered(self, part: np.ndarray) -> float:
        """When half of the runs have recovered; infinite if that is not among the times."""
        late, above = self.balanced_times(), np.flatnonzero(part >= 0.5)
        if not above.size or above[0] == 0:
            return float("inf")
        i = int(above[0])
        return float(np.interp(0.5, part[i - 1 : i + 1], late[i - 1 : i + 1]))
