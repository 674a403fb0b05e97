"""Spare neurons: how many students a committee needs to find its teachers from a random start."""

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.precision import in_double
from limen.problem import InputError, OnePassSGD, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.one_pass.one_pass_sgd import one_pass_sgd
from limen.theory.one_pass.committee import committee_population
from limen.theory.one_pass.zero_risk import REACHED, UNDECIDED, flow_outcomes

HORIZON, CURVE_POINTS = 2000.0, 40


class OverparametrizedCommittee(Experiment):
    r"""Students $\frac1p\sum_i\sigma(u_i\cdot x)$ learn $\frac1k\sum_r\sigma(u^*_r\cdot x)$, $\sigma$ the ReLU, by
    one-pass SGD from random starts.

    With as many students as teachers, gradient flow of the population risk often ends in a spurious minimum; a few
    spare students make that rare. The theory is the flow of
    the overlaps from the very starts of the simulation, followed until its risk has fallen below a tolerance or stands
    still at a point without growing direction. SGD takes small steps at first, $\gamma/p=0.01+0.001\,t$ up to 1, so
    that its noise is small while the risk is large.

    What to see: a plateau on which all students are alike, then a fall that takes longest for $p=k$; the success
    probability jumps to one within a few spare students. Only the risk curves are held against each other: at $p=k$
    single runs of flow and SGD may end differently from one start, and slow runs of SGD count as failures at the last
    time. Source: Safran & Shamir 2018 (arXiv 1712.08968); Goldt et al. 2019 for erf.
    """

    name: ClassVar[str] = "overparametrized-committee"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "With spare students, a committee nearly always finds its teachers."
    citations: ClassVar[tuple[str, ...]] = ("safran2018", "goldt2019")
    default_seeds: ClassVar[int] = 16
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk",)
    quick: ClassVar[dict[str, Any]] = {"teachers": 2, "ratios": "1 2", "d": 8, "horizon": 50.0}
    quick_seeds: ClassVar[int] = 16

    teachers: int = Field(8, ge=1, le=15, description="number k of teachers")
    ratios: NumberList = Field((1.0, 1.25, 2.0), description="students per teacher p/k, each at least 1")
    d: int = Field(24, ge=2, le=2000, description="dimension of the inputs")
    horizon: float = Field(HORIZON, gt=1.0, le=20_000.0, description="last time t of SGD")
    tolerance: float = Field(
        0.003, gt=0.0, lt=0.1, description="part of the first risk below which a run has succeeded"
    )

    @model_validator(mode="after")
    def _room(self) -> "OverparametrizedCommittee":
        if min(self.ratios) < 1.0 or max(self.ratios) > 8.0:
            raise InputError(f"ratios must lie between 1 and 8, got {self.ratios}.")
        if self.d < self.teachers + max(self.widths()):
            most = self.teachers + max(self.widths())
            raise InputError(f"d must be at least students + teachers = {most}, got {self.d}.")
        return self

    def widths(self) -> tuple[int, ...]:
        """The numbers of students."""
        return tuple(sorted({round(ratio * self.teachers) for ratio in self.ratios}))

    def times(self) -> np.ndarray:
        """Evenly spread in the logarithm, from the first fall of the risk on."""
        return np.concatenate([[0.0], np.geomspace(0.5, self.horizon, CURVE_POINTS - 1)])

    def problem(self, width: int) -> TwoLayer:
        """The learning problem of one width."""
        k = self.teachers
        label = "(" + " + ".join(f"relu(z{r + 1})" for r in range(k)) + f")/{k}"
        rate = f"{width}*min(0.01 + 0.001*t, 1)"
        return TwoLayer(target(label), network(width, "relu"), OnePassSGD(rate=rate))

    @in_double
    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        widths, k, times = self.widths(), self.teachers, self.times()
        most = widths[-1]
        problems = [self.problem(width) for width in widths]
        starts = [_padded_start(problem, self.d, seed, most) for problem in problems for seed in seeds]
        gram, overlap, second = (np.stack(part) for part in zip(*starts, strict=True))
        population = committee_population("relu", most, np.eye(k), np.ones(k), 0.0)
        # Second layers most/p run the flow of width p faster by that factor.
        own_times = np.repeat(np.asarray(widths) / most, len(seeds))[:, None] * times
        outcome, _, _, risks = flow_outcomes(population, gram, overlap, second, own_times, False, self.tolerance)
        shape = (len(widths), len(seeds))
        undecided = int((outcome == UNDECIDED).sum())
        dataset = labelled(
            {
                "excess_risk": (("seed", "width", "time"), np.swapaxes(risks.reshape(*shape, -1), 0, 1)),
                "reached": (("seed", "width"), (outcome == REACHED).reshape(shape).T.astype(float)),
            },
            coords={"seed": list(seeds), "width": list(widths), "time": times},
            attrs={"d": self.d},
        )
        status = f"{outcome.size} flows, {undecided} of them undecided."
        return Findings(dataset, undecided == 0, status)

    def train(self, seed: int) -> Findings:
        runs = [one_pass_sgd.solve(self.problem(width), self.times(), d=self.d, seed=seed) for width in self.widths()]
        risks = np.stack([run.dataset.excess_risk.values for run in runs], axis=1)
        dataset = labelled(
            {
                "excess_risk": (("seed", "width", "time"), risks),
                "reached": (("seed", "width"), (risks[..., -1] < self.tolerance * risks[..., 0]).astype(float)),
            },
            coords={"seed": [seed], "width": list(self.widths()), "time": self.times()},
            attrs={"d": self.d},
        )
        worst = next((run for run in runs if not run.ok), runs[0])
        return Findings(dataset, worst.ok, worst.status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, widths = self.times()[1:], self.widths()
        ratios = np.asarray(widths) / self.teachers
        chance = theory.dataset.reached.mean("seed").values
        curves: list[Mark] = []
        successes: list[Mark] = [Line(ratios, chance, "gradient flow")]
        for colour, width in enumerate(widths):
            risk = np.median(theory.dataset.excess_risk.sel(width=width).values, axis=0)[1:]
            curves.append(Line(times, risk, f"$p={width}$", colour))
            if simulation is not None:
                values = np.median(simulation.dataset.excess_risk.sel(width=width).values, axis=0)[1:]
                label = f"SGD, median of {len(simulation.seeds)}" if colour == 0 else ""
                curves.append(Points(times[::2], values[::2], None, label, colour))
        if simulation is not None:
            found, error = mean_and_error(simulation.dataset.reached.values)
            successes.append(Points(ratios, found, error, f"SGD at $t={self.horizon:g}$", 1))
        first = float(np.median(theory.dataset.excess_risk.values[:, :, 0]))
        curves.append(Threshold("success", y=self.tolerance * first))
        return Figure(
            [
                Panel(
                    r"time $t$ = steps $\times\,\gamma/(dp)$",
                    r"excess risk (median over starts)",
                    curves,
                    x_scale="log",
                    y_scale="log",
                    y_range=(0.1 * self.tolerance * first, 3.0 * first),
                ),
                Panel(r"students per teacher $p/k$", "success probability", successes, y_range=(-0.05, 1.05)),
            ],
            title=f"ReLU committees learn $k={self.teachers}$ teachers, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        chance = dataset.reached.mean("seed").values
        return {
            f"success_width_{w}": Number(
                float(c), f"part of starts from which p = {w} students learn all k = {self.teachers} teachers"
            )
            for w, c in zip(self.widths(), chance, strict=True)
        }


# Kept, since most changes of the experiment leave its starts as they are.
@lru_cache(maxsize=256)
def _padded_start(problem: TwoLayer, d: int, seed: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One start among `most` students, the absent ones silent: every width then shares one compilation."""
    overlap, gram = start_overlaps(problem, d, seed)
    p = len(gram)
    wide = np.eye(most)
    wide[:p, :p] = gram
    aligned = np.zeros((most, overlap.shape[1]))
    aligned[:p] = overlap
    return wide, aligned, np.where(np.arange(most) < p, most / p, 0.0)
