"""Specialisation: the students of a soft committee share the teachers before they divide them."""

import re
from typing import Annotated, ClassVar

import numpy as np
import xarray as xr
from pydantic import AfterValidator, Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.labelled import with_variables
from limen.problem import InputError, OnePassSGD, OverlapStart, TwoLayer, network, target
from limen.problem.activations import NAMED, as_activation
from limen.result import Findings, Result
from limen.simulation.one_pass.one_pass_sgd import one_pass_sgd
from limen.theory.one_pass.fluctuations import fluctuations
from limen.theory.one_pass.overlap_equations import overlap_ode
from limen.theory.one_pass.plateaus import noise_plateau

# The state of the covariance equation grows like the fourth power of the width.
WIDEST_BAND = 4


def _formula(name: str) -> str:
    """An activation as a formula in `z`; a series has none."""
    if as_activation(name).formula is None:
        raise InputError(f"activation must be a name or a formula in z, got {name!r}.")
    return NAMED.get(name, name)


def _named(name: str) -> str:
    _formula(name)
    return name


class CommitteeSGD(Experiment):
    r"""A committee of $p$ students learns a committee of $k$ teachers from one pass over noisy data.

    $f=\frac1p\sum_ia_i\sigma(u_i\cdot x)$ learns $y=\frac1k\sum_r\sigma(u^*_r\cdot x)+\sqrt\Delta\,z$ by
    $u_i\leftarrow u_i+\frac\gamma d\,[\dots]$; as $d\to\infty$ the overlaps $M=UU^{*\top}$ and $Q=UU^\top$ obey the
    equations of Saad & Solla (1995), here from the simulation's own starts. Each student begins with a small advantage
    $m_0$ for one teacher; without it the escape is set by chance.

    What to see: within $t\approx5$ every student overlaps with all teachers alike, and the risk waits on a plateau;
    then each student specialises, its overlap with its own teacher grows to one and the others fall, and the risk ends
    at the plateau that label noise leaves, $\frac{\gamma\Delta}{4p^2}\sum_iE[\sigma'^2]$ to first order in the rate
    (Goldt et al. 2019). The shaded bands are the spread of single runs at this $d$, from the covariance equation.
    """

    name: ClassVar[str] = "committee-sgd"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "A committee under one-pass SGD waits on a symmetric plateau before its units specialise."
    citations: ClassVar[tuple[str, ...]] = ("saad1995", "goldt2019")
    default_seeds: ClassVar[int] = 32
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("own_overlap", "other_overlap", "excess_risk")
    quick: ClassVar[dict[str, float]] = {"d": 300, "horizon": 5.0, "rate": 1.0, "moments": 17}
    quick_seeds: ClassVar[int] = 48

    activation: Annotated[str, AfterValidator(_named)] = Field(
        "saad-solla", description="activation σ of students and teachers, a name or a formula in z"
    )
    teachers: int = Field(2, ge=1, le=8, description="teachers k")
    students: int = Field(2, ge=1, le=16, description="students p")
    rate: float = Field(3.0, gt=0.0, le=100.0, description="learning rate γ (step γ/d on unit-norm weights)")
    noise: float = Field(0.01, ge=0.0, le=10.0, description="variance Δ of the label noise")
    train_second_layer: bool = Field(False, description="whether SGD moves the second layer too")
    advantage: float = Field(0.2, ge=0.0, le=1.0, description="initial overlap m₀ of a student with its own teacher")
    horizon: float = Field(200.0, gt=0.0, le=10_000.0, description="last time T, in samples × γ/(dp)")
    d: int = Field(400, ge=32, le=20_000, description="dimension of the inputs")
    moments: int = Field(81, ge=3, le=1001, description="times that are recorded; the test losses there cost the most")

    def problem(self) -> TwoLayer:
        """The learning problem behind the experiment."""
        return TwoLayer(
            target(self._target(), noise=self.noise),
            network(self.students, self.activation, train_second_layer=self.train_second_layer),
            OnePassSGD(self.rate),
            start=OverlapStart(self.advantage * self._own()),
        )

    def times(self) -> np.ndarray:
        """Denser at the beginning, where the students first meet the teachers."""
        return self.horizon * np.linspace(0.0, 1.0, self.moments) ** 2

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        problem, times = self.problem(), self.times()
        found = overlap_ode.solve(problem, times, d=self.d, seeds=seeds)
        dataset = with_variables(
            self._with_specialisation(found.dataset), {"noise_plateau": ((), self._noise_plateau())}
        )
        if self.students <= WIDEST_BAND:
            spread = fluctuations(problem, times, self.d).dataset.overlap_spread
            dataset = dataset.assign(overlap_spread=spread)
        return Findings(dataset, found.ok, found.status, found.statistics)

    def train(self, seed: int) -> Findings:
        run = one_pass_sgd.solve(self.problem(), self.times(), d=self.d, seed=seed)
        dataset = self._with_specialisation(run.dataset)
        return Findings(dataset, run.ok, run.status, run.statistics)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, data = self.times(), theory.dataset
        overlap_marks: list[Mark] = []
        risk_marks: list[Mark] = [Line(times, data.excess_risk.mean("seed").values, "theory")]
        names = {"own_overlap": "own teacher", "other_overlap": "other teachers"}
        own = self._own().astype(bool)
        if self.teachers == 1:
            names.pop("other_overlap")
        for colour, (name, words) in enumerate(names.items()):
            mean = data[name].mean("seed").values
            overlap_marks.append(Line(times, mean, f"{words}, theory", colour=colour))
            if "overlap_spread" in data:
                members = data.overlap_spread.values[:, own if colour == 0 else ~own]
                width = np.sqrt((members**2).mean(axis=1))
                label = "" if colour else "spread of one run"
                overlap_marks.append(Band(times, mean - width, mean + width, label, colour))
        if simulation is not None:
            at, runs = thin(times.size), len(simulation.seeds)
            for colour, name in enumerate(names):
                mean, error = mean_and_error(simulation.dataset[name].values)
                label = "" if colour else f"SGD, {counted(runs, 'run')}"
                overlap_marks.append(Points(times[at], mean[at], error[at], label, colour))
            mean, error = mean_and_error(simulation.dataset.excess_risk.values)
            risk_marks.append(Points(times[at], mean[at], error[at], f"SGD, {counted(runs, 'run')}"))
        plateau = self._noise_plateau()
        if plateau > 0.0:
            risk_marks.append(Threshold(r"noise plateau, first order in $\gamma$", y=plateau))
        moment = self._specialisation_time(data)
        if np.isfinite(moment):
            for marks in (overlap_marks, risk_marks):
                marks.append(Threshold("specialisation", x=moment))
        time_label = r"time $t$ = samples $\times\,\gamma/(dp)$"
        return Figure(
            [
                Panel(time_label, "student-teacher overlap $M_{ir}$", overlap_marks),
                Panel(time_label, r"excess risk $R-\Delta/2$", risk_marks, y_scale="log"),
            ],
            title=(
                f"One-pass SGD of a committee, $p={self.students}$, $k={self.teachers}$, "
                f"$\\gamma={self.rate:g}$, $\\Delta={self.noise:g}$, $d={self.d}$"
            ),
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = dataset[["excess_risk", "own_overlap"]].mean("seed").isel(time=-1)
        end = f"at the end, t = {self.horizon:g}"
        found = {
            "specialisation_time": Number(
                self._specialisation_time(dataset),
                "time t = samples × γ/(dp) at which students turn to their own teachers",
                "units of time",
            ),
            "final_risk": Number(float(last.excess_risk), f"excess risk {end}"),
            "final_own_overlap": Number(float(last.own_overlap), f"overlap of students with their own teachers {end}"),
        }
        if "noise_plateau" in dataset:
            found["noise_plateau"] = Number(
                float(dataset.noise_plateau),
                f"excess risk that label noise leaves, to first order in the rate, γ = {self.rate:g}",
            )
        return found

    def _target(self) -> str:
        unit = f"({_formula(self.activation)})"
        units = [re.sub(r"\bz\b", f"z{r + 1}", unit) for r in range(self.teachers)]
        return f"({' + '.join(units)})/{self.teachers}"

    def _own(self) -> np.ndarray:
        """1 where a student belongs to a teacher: the first to the first, around the circle."""
        return np.eye(self.teachers)[np.arange(self.students) % self.teachers]

    def _with_specialisation(self, dataset: xr.Dataset) -> xr.Dataset:
        """Adds the mean overlaps with the own and with the other teachers."""
        own, overlap = self._own().astype(bool), dataset.overlap.values
        others = overlap[..., ~own].mean(axis=-1) if self.teachers > 1 else np.zeros(overlap.shape[:-2])
        means = {"own_overlap": overlap[..., own].mean(axis=-1), "other_overlap": others}
        return with_variables(dataset, {name: (("seed", "time"), values) for name, values in means.items()})

    def _noise_plateau(self) -> float:
        r"""First order in the rate, where a perfect solution exists: $p$ a multiple of $k$; else 0."""
        if self.students % self.teachers:
            return 0.0
        return noise_plateau(self.activation, self.rate, self.noise, np.ones(self.students))

    def _specialisation_time(self, dataset: xr.Dataset) -> float:
        """When the advantage of the own teacher is halfway from its lowest to its last value; infinite if it never
        doubles."""
        means = dataset[["own_overlap", "other_overlap"]].mean("seed")
        advantage = (means.own_overlap - means.other_overlap).values
        lowest = int(advantage.argmin())
        level = 0.5 * (advantage[lowest] + advantage[-1])
        if self.teachers == 1 or not advantage[-1] > 2.0 * advantage[lowest]:
            return float("inf")
        after = lowest + int(np.flatnonzero(advantage[lowest:] >= level)[0])
        return float(np.interp(level, advantage[after - 1 : after + 1], self.times()[after - 1 : after + 1]))
