"""How many samples until a random start has found its direction: information exponents one, two and three."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison, compare
from limen.comparison.verdict import RESOLUTION, TOLERANCE, judge
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.number import Number
from limen.problem import OnlinePCA, SingleIndex
from limen.result import Findings, Result
from limen.simulation.effective.overlap_hitting import simulated_hitting_times
from limen.theory.effective.fixed_point import fixed_point
from limen.theory.effective.search.hitting import critical_samples_per_dim, hitting_time
from limen.theory.effective.sphere.sphere_drift import SphereDrift

STRONG = 0.9
# Runs stop at this multiple of the time by which three quarters should have arrived: medians do not see it.
PATIENCE = 1.3
PARTS = {1: (16, 4, 1), 2: (16, 4, 1), 3: (50, 30, 20)}
NAMES = {1: "linear teacher, $k=1$", 2: "online PCA, $k=2$", 3: "cubic student, $k=3$"}
CUBIC_STEP = 20.0
# Small dimensions are cheap and their search is a smaller part: more runs there.
TIMES_MORE = (4, 2, 1)
PLACE = ("point", "exponent", "dimension")
# The starting overlap is of order N^(-1/2), and so is what the theory leaves out.
FINITE_SIZE_ORDER = 0.5


class Predicted(NamedTuple):
    """Levels of weak and strong recovery, the median times to both, and when to stop."""

    levels: tuple[float, float]
    medians: tuple[float, float]
    stops: tuple[float, float]


class WeakRecovery(Experiment):
    r"""Spherical SGD from a uniform start on three problems whose information exponents are $k=1,2,3$.

    The overlap starts at $N^{-1/2}$ and is pushed by $-\phi'(m)\simeq a_km^{k-1}$: the flatter, the longer the search.
    Reaching a fixed overlap takes $\alpha N$ samples with $\alpha\asymp\alpha_c(N,k)=1,\ \log N,\ N^{k-2}$. The models:
    a linear teacher and student ($\delta=\frac12$); online PCA ($\lambda=2$, $\delta=\frac12$); labels
    $\tanh He_3(z)$ fitted by the small cubic $0.03\,He_3$, with $\delta=20N^{-1/2}$, at which the search diffusion does
    not depend on $N$. Medians of hitting times come from the ODE ($k=1$), the growth of a Gaussian amplitude ($k=2$),
    and the Fokker-Planck equation of the search diffusion ($k=3$); from weak to strong recovery the ODE leads.

    What to see: samples growing as $N$, $N\log N$ and $N^2$; divided by $N\alpha_c$ they level off; the share of
    samples spent before weak recovery is constant for $k=1$ and tends to one for $k\ge2$. The witness is the exact
    chain of the overlap; $k=3$ runs in dimensions twenty times smaller. Source: Ben Arous, Gheissari & Jagannath 2021.
    """

    name: ClassVar[str] = "weak-recovery"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Samples to weak recovery grow as N, N log N and N² with the information exponent."
    citations: ClassVar[tuple[str, ...]] = ("benarous2021", "benarous2022")
    default_seeds: ClassVar[int] = 12
    quick: ClassVar[dict[str, float]] = {"d": 3200, "runs": 15}
    quick_seeds: ClassVar[int] = 12

    d: int = Field(4000, ge=3200, le=40_000, description="largest dimension N for exponents 1 and 2; a twentieth for 3")
    weak: float = Field(0.5, ge=0.4, le=0.8, description="part of the final overlap that counts as weak recovery")
    runs: int = Field(41, ge=3, le=1001, description="runs in one seed in the largest dimension")

    def points(self) -> list[tuple[int, int]]:
        """Exponents and dimensions."""
        return [(k, self.d // part) for k, parts in PARTS.items() for part in parts]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        dataset = self._dataset()
        weak, strong = np.array([_predicted(k, size, self.weak).medians for k, size in self.points()]).T
        dataset["log_samples"] = ("point", np.log10(weak * self._per_time()))
        dataset["search_fraction"] = ("point", weak / strong)
        status = "medians of hitting times, to leading order in the dimension."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        medians = []
        for index, (k, size) in enumerate(self.points()):
            batches = TIMES_MORE[index % len(TIMES_MORE)]
            first = seed * self.runs * batches
            # Batches of one size, for which code is compiled once.
            own = [range(first + i * self.runs, first + (i + 1) * self.runs) for i in range(batches)]
            expected, problem = _predicted(k, size, self.weak), _problem(k, size)
            for level, stop in zip(expected.levels, expected.stops, strict=True):
                hits = [simulated_hitting_times(problem, size, level, part, stop, both_sides=k == 2) for part in own]
                medians.append(np.median(np.concatenate(hits)))
        weak, strong = np.array(medians[::2]), np.array(medians[1::2])
        share = np.divide(weak, strong, where=np.isfinite(strong), out=np.full_like(weak, np.nan))
        dataset = self._dataset().assign_coords(seed=[seed])
        dataset["log_samples"] = (("seed", "point"), np.log10(weak * self._per_time())[None])
        dataset["search_fraction"] = (("seed", "point"), share[None])
        for name in ("log_samples", "search_fraction"):
            dataset[name].attrs["undefined"] = "most runs had not arrived when they were stopped"
        status = f"exact overlap chain of spherical SGD, at least {self.runs} runs a seed."
        return Findings(dataset, True, status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """Median times as parts of the predicted ones, and the share of the search, exponent by exponent.

        Three dimensions of each: the part of a deviation that falls like $N^{-1/2}$, the next order of the theory, is
        allowed as far as they show it.
        """
        found = []
        for i, k in enumerate(PARTS):
            places = range(len(TIMES_MORE) * i, len(TIMES_MORE) * (i + 1))
            expected, runs = ([self._scaled(one, theory, k, at) for at in places] for one in (theory, simulation))
            found += compare(expected, runs).variables
        return judge([variable.measured for variable in found], (self.d,), RESOLUTION, TOLERANCE)

    def _scaled(self, result: Result, theory: Result, k: int, at: int) -> Result:
        """One exponent in one dimension, the time in units of the predicted one."""
        part, unit = (one.dataset.isel(point=at).drop_vars(PLACE) for one in (result, theory))
        variables = {
            f"weak_recovery_time_{k}": 10.0 ** (part.log_samples - unit.log_samples),
            f"search_fraction_{k}": part.search_fraction,
        }
        attributes = {"d": self.points()[at][1], "finite_size_order": FINITE_SIZE_ORDER}
        return replace(result, dataset=xr.Dataset(variables, attrs=attributes))

    def _per_time(self) -> np.ndarray:
        """Samples in a unit of time, for every point."""
        return np.array([size / _problem(k, size).step for k, size in self.points()])

    def _dataset(self) -> xr.Dataset:
        exponents, sizes = zip(*self.points(), strict=True)
        coords = {
            "point": np.arange(len(sizes)), "exponent": ("point", list(exponents)), "dimension": ("point", list(sizes)),
        }  # fmt: skip
        return xr.Dataset(coords=coords, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data = theory.dataset
        samples: list[Mark] = []
        scaled: list[Mark] = []
        fractions: list[Mark] = []
        for i, k in enumerate(PARTS):
            part = data.exponent.values == k
            sizes = data.dimension.values[part]
            unit = np.array([size * critical_samples_per_dim(float(size), k) for size in sizes])
            expected = 10.0 ** data.log_samples.values[part]
            samples.append(Line(sizes, expected, NAMES[k], i, spots=True))
            scaled.append(Line(sizes, expected / unit, NAMES[k], i, spots=True))
            fractions.append(Line(sizes, data.search_fraction.values[part], NAMES[k], i, spots=True))
            if simulation is None:
                continue
            mean, error = mean_and_error(simulation.dataset.log_samples.values[:, part])
            found, bar = 10.0**mean, 10.0**mean * np.log(10.0) * error
            name = "chain" if k == 3 else ""
            samples.append(Points(sizes, found, bar, name, i))
            scaled.append(Points(sizes, found / unit, bar / unit, name, i))
            mean, error = mean_and_error(simulation.dataset.search_fraction.values[:, part])
            fractions.append(Points(sizes, mean, error, name, i))
        unequal = f"search: until ${self.weak:g}\\,m_*$; all: until ${STRONG:g}\\,m_*$"
        sides = self.d / 65.0, self.d * 1.3
        top = 1.7 * max(float(np.max(mark.y)) for mark in scaled if isinstance(mark, Line))
        heights = np.concatenate([np.asarray(mark.y) for mark in samples if isinstance(mark, Line)])
        # Room above for the names.
        room = 0.6 * float(heights.min()), 20.0 * float(heights.max())
        return Figure(
            [
                Panel("dimension $N$", "samples to weak recovery", samples, "median of runs", "log", "log", sides,
                      room),
                Panel("dimension $N$", r"samples over $N\alpha_c(N,k)$", scaled, "", "log", x_range=sides,
                      y_range=(0.0, top)),
                Panel("dimension $N$", "part of samples spent searching", fractions, unequal, "log", x_range=sides,
                      y_range=(0.0, 1.35)),
            ],
            title="Weak recovery from a random start, by information exponent $k$",
        )  # fmt: skip

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = dataset.mean("seed") if "seed" in dataset.dims else dataset
        log_samples, fraction = mean.log_samples.values, mean.search_fraction.values
        found = {}
        for k in PARTS:
            at = [i for i, point in enumerate(self.points()) if point[0] == k]
            decades = np.log10(self.points()[at[-1]][1] / self.points()[at[0]][1])
            found[f"growth_with_dimension_{k}"] = Number(
                float((log_samples[at[-1]] - log_samples[at[0]]) / decades),
                f"power of the dimension with which samples to weak recovery grow, information exponent {k}",
            )
            found[f"search_fraction_{k}"] = Number(
                float(fraction[at[-1]]),
                f"part of the samples spent searching, N = {self.points()[at[-1]][1]}, information exponent {k}",
            )
        return found


def _problem(k: int, size: int) -> SingleIndex | OnlinePCA:
    """The model of an exponent, with the step that suits the dimension."""
    if k == 1:
        return SingleIndex(link="z", step=0.5)
    if k == 2:
        return OnlinePCA(signal=2.0, step=0.5)
    # Bounded labels and a small student: gradients without the heavy tails of He_3 squared.
    return SingleIndex(link="tanh(z**3 - 3*z)", student_link="0.03*(z**3 - 3*z)", step=CUBIC_STEP / size**0.5)


@lru_cache(maxsize=128)
def _predicted(k: int, size: int, weak: float) -> Predicted:
    """The law's medians, the same for every seed of a run."""
    problem = _problem(k, size)
    end = fixed_point(problem)
    levels = weak * end, STRONG * end
    median, late = hitting_time(problem, size, levels[0], (0.5, 0.75))
    # Out of the noise's reach all runs descend alike.
    descent = SphereDrift(problem).time_between(*levels)
    return Predicted(levels, (median, median + descent), (PATIENCE * late, PATIENCE * late + 2.0 * descent))
