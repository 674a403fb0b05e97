"""Escaping mediocrity: how many samples phase retrieval needs to leave its saddle, against width and rate."""

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.one_pass.exit_times import simulated_exit_times
from limen.simulation.one_pass.leaping_exits import leaping_exit_times
from limen.theory.one_pass.exit_time import AVERAGES, Average, exit_time, exit_times
from limen.theory.one_pass.plateaus import best_rate

WIDTHS, MULTIPLES = (1, 2, 4), (0.4, 0.7, 1.0, 1.15)
CURVE_WIDTHS, CURVE_MULTIPLES = np.arange(1, 9), np.linspace(0.25, 1.2, 15)
# Runs per seed: exit times of few neurons are spread most.
RUNS, OTHER_RUNS = {1: 24, 2: 8}, 4
DRAWS = 2**15
QUANTILES = np.linspace(0.005, 0.995, 100)
# By this time that part of the runs should have left; those still inside count with it.
PART = 0.8
# Beyond this dimension a run takes more than a million steps: the chain leaps.
LEAPING = 30_000
NAMES: dict[Average, str] = {"noise": "with the noise of SGD", "quenched": "quenched", "annealed": "annealed"}


class EscapeMediocrity(Experiment):
    r"""$p$ neurons with activation $z^2$ learn $y=z^2+\sqrt\Delta\,\varepsilon$ by spherical one-pass SGD.

    Random starts sit at a saddle: overlaps are of order $d^{-1/2}$ and grow like $e^{4c_pt}$,
    $c_p=1-\frac\gamma p(1+\frac1p+\frac4{p^2}+\frac\Delta2)$, $t=\text{samples}\cdot\gamma/(dp)$. The exit is where the
    excess risk has lost a fraction $T$. Its time is random at leading order, through the start (`quenched`: mean over
    starts; `annealed`: the start's means inserted) and through the noise of SGD. The law with noise is held against the
    exact overlap chain. Its slow tail is cut: a run still inside when 80% should have left counts with that time.

    What to see: samples to exit are fewest near $\gamma=p/2\big/(1+\frac1p+\frac4{p^2}+\frac\Delta2)$; more neurons
    leave earlier, but by a bounded factor; the noise of SGD helps, the more the larger the rate; exit times keep a
    spread of order one, whatever $d$. Beyond $d=30\,000$ the chain moves in leaps of many steps with the mean and the
    noise of all of them, so that $d=10^6$ takes seconds. Source: Arnaboldi et al. 2023 (arXiv 2305.18502).
    """

    name: ClassVar[str] = "escape-mediocrity"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "Samples needed to leave the saddle of phase retrieval, against width and rate."
    citations: ClassVar[tuple[str, ...]] = ("arnaboldi2023escaping",)
    default_seeds: ClassVar[int] = 24
    compared: ClassVar[tuple[str, ...] | None] = ("exit_samples",)
    quick: ClassVar[dict[str, float]] = {"d": 40_000, "fraction": 0.05, "width": 1}
    quick_seeds: ClassVar[int] = 48

    d: int = Field(3000, ge=500, le=10**9, description="dimension of the inputs")
    noise: float = Field(0.0, ge=0.0, le=4.0, description="variance Δ of the label noise")
    fraction: float = Field(0.02, ge=0.01, le=0.1, description="part T of the risk whose loss marks the exit")
    width: int = Field(4, ge=1, le=8, description="number of neurons p where the rate varies")

    def points(self) -> list[tuple[int, float]]:
        """Width and rate of what is simulated: where the law holds, along rates, then widths at their best rate."""
        return [point for point in self._wanted() if np.isfinite(self._stopped(*point))]

    def _wanted(self) -> list[tuple[int, float]]:
        best = best_rate(self.width, self.noise)
        others = [p for p in WIDTHS if p != self.width]
        return [(self.width, best * part) for part in MULTIPLES] + [(p, best_rate(p, self.noise)) for p in others]

    def _law(self, p: int, rate: float, average: Average) -> np.ndarray:
        return _cached_law(p, self.d, rate, self.noise, self.fraction, average)

    def _window(self, p: int, rate: float) -> float:
        """When runs are stopped, a whole number of steps."""
        return _cached_stop(p, self.d, rate, self.noise, self.fraction)[0]

    def _mean(self, p: int, rate: float, average: Average) -> float:
        """Mean of samples per dimension at the exit; not a number where the law does not hold."""
        try:
            return exit_time(p, self.d, rate, self.noise, self.fraction, average) * p / rate
        except InputError:
            return float("nan")

    def _stopped(self, p: int, rate: float) -> float:
        """The same with the noise of SGD, runs counted at the end of the window if still inside."""
        try:
            return _cached_stop(p, self.d, rate, self.noise, self.fraction)[1] * p / rate
        except InputError:
            return float("nan")

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        exits = np.array([self._stopped(p, rate) for p, rate in self.points()])
        found: dict[str, tuple[Any, ...]] = {"exit_samples": ("point", exits)}
        best = best_rate(self.width, self.noise)
        left_out = len(self._wanted()) - len(self.points())
        curves = {
            "rate_curve": [(self.width, part * best) for part in CURVE_MULTIPLES],
            "width_curve": [(int(p), best_rate(int(p), self.noise)) for p in CURVE_WIDTHS],
        }
        for curve, along in curves.items():
            small = {"undefined": "d * fraction is too small for the law"}
            for average in AVERAGES:
                means = np.array([self._mean(p, rate, average) for p, rate in along])
                found[f"{curve}_{average}"] = (curve, means, small)
            found[f"{curve}_window"] = (curve, np.array([self._stopped(p, rate) for p, rate in along]), small)
        for average in ("noise", "quenched"):
            found[f"law_{average}"] = ("quantile", _quantiles(self._law(self.width, best, average), QUANTILES))
        axes = {"rate_curve": CURVE_MULTIPLES * best, "width_curve": CURVE_WIDTHS, "quantile": QUANTILES}
        dataset = self._dataset().assign_coords(axes).assign(found)
        status = "closed forms, averaged over random starts."
        if left_out:
            status = f"closed forms; {left_out} points left out, where d * fraction is too small for the law."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        best, means, shown = self._best(), [], np.zeros(0)
        for index, (p, rate) in enumerate(self.points()):
            window = self._window(p, rate)
            runs = RUNS.get(p, OTHER_RUNS)
            own = range(seed * runs, (seed + 1) * runs)
            found = np.minimum(self._exits(p, rate, own, window), window)
            means.append(found.mean() * p / rate)
            if index == best:
                shown = found
        dataset = self._dataset().assign_coords(seed=[seed])
        dataset["exit_samples"] = (("seed", "point"), np.array([means]))
        dataset["exit_time_of_runs"] = (("seed", "run"), shown[None])
        chain = "overlap chain of SGD in leaps of many steps" if self.d > LEAPING else "exact overlap chain of SGD"
        status = f"{chain}, d = {self.d}."
        return Findings(dataset, True, status)

    def _exits(self, p: int, rate: float, runs: range, window: float) -> np.ndarray:
        if self.d > LEAPING:
            return leaping_exit_times(p, self.d, rate, self.noise, self.fraction, runs, window)
        return simulated_exit_times(p, self.d, rate, self.noise, self.fraction, runs, window)[0]

    def _best(self) -> int:
        """Which of the points is that of the width at its best rate."""
        return self.points().index((self.width, best_rate(self.width, self.noise)))

    def _dataset(self) -> xr.Dataset:
        widths, rates = zip(*self.points(), strict=True)
        coords = {"point": np.arange(len(widths)), "width": ("point", list(widths)), "rate": ("point", list(rates))}
        return labelled({}, coords=coords, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data = theory.dataset
        widths, rates = data.width.values, data.rate.values
        bests = np.array([best_rate(int(p), self.noise) for p in widths])
        at_width, at_best = widths == self.width, np.isclose(rates, bests)
        panels = []
        for curve, part, x, title, label in (
            ("rate_curve", at_width, rates, f"$p={self.width}$", r"learning rate $\gamma$"),
            ("width_curve", at_best, widths, "best rate of each width", "number of neurons $p$"),
        ):
            marks: list[Mark] = [
                Line(data[curve].values, data[f"{curve}_{average}"].values, name, i, dashed=average != "noise")
                for i, (average, name) in enumerate(NAMES.items())
            ]
            marks.append(Line(data[curve].values, data[f"{curve}_window"].values, "noise, tail cut at 80%", 3))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.exit_samples.values[:, part])
                marks.append(Points(x[part], mean, error, "chain, tail cut at 80%", 3))
            if curve == "rate_curve":
                marks.append(Threshold(r"$p/2B$", x=best_rate(self.width, self.noise)))
            panels.append(Panel(label, r"samples at exit, $n/d$", marks, title))
        panels.append(self._distribution(theory, simulation))
        return Figure(
            panels, title=f"Escaping mediocrity, $d={self.d}$, $\\Delta={self.noise:g}$, $T={self.fraction:g}$"
        )

    def _distribution(self, theory: Result, simulation: Result | None) -> Panel:
        """Part of the runs that have left, at the best rate."""
        data = theory.dataset
        marks: list[Mark] = [
            Line(data[f"law_{average}"].values, QUANTILES, NAMES[average], i, dashed=bool(i))
            for i, average in enumerate(("noise", "quenched"))
        ]
        if simulation is not None:
            times = np.sort(simulation.dataset.exit_time_of_runs.values.ravel())
            inside = np.linspace(0.9 * times[0], times[-1], 13)[1:-1]
            left = np.searchsorted(times, inside, side="right") / times.size
            marks.append(
                Points(inside, left, np.sqrt(left * (1 - left) / times.size), f"chain, {counted(times.size, 'run')}", 0)
            )
        title = rf"$p={self.width}$, best rate"
        return Panel(r"time $t$ = samples $\times\,\gamma/(dp)$", "part of the runs that have left", marks, title)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        values = dataset.exit_samples
        mean = (values.mean("seed") if "seed" in values.dims else values).values
        found = {
            "samples_per_dim_at_best_rate": Number(
                float(mean[self._best()]),
                f"mean samples until SGD leaves its start, at the best rate, p = {self.width}",
                "samples per dimension",
            )
        }
        if mean.size > 1:
            found["slowest_over_fastest"] = Number(
                float(mean.max() / mean.min()), "samples of the slowest of all widths and rates over the fastest"
            )
        return found


def _quantiles(law: np.ndarray, parts: Any) -> Any:
    """Quantiles of a sorted sample, the values joined by lines."""
    return np.interp(parts, np.linspace(0.0, 1.0, law.size), law)


@lru_cache(maxsize=64)
def _cached_stop(p: int, d: int, rate: float, noise: float, fraction: float) -> tuple[float, float]:
    """The time at which runs are stopped, and their mean time, those still inside counted with it."""
    law, unit = _cached_law(p, d, rate, noise, fraction, "noise"), rate / (d * p)
    window = float(np.ceil(_quantiles(law, PART) / unit) * unit)
    return window, float(np.minimum(law, window).mean())


@lru_cache(maxsize=64)
def _cached_law(p: int, d: int, rate: float, noise: float, fraction: float, average: Average) -> np.ndarray:
    """Draws from the law of exit times, the same for every seed of a run."""
    return exit_times(p, d, rate, noise, fraction, average, DRAWS)
