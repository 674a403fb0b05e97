"""Emergence of outliers: how much test data a Hessian needs before its outliers can be seen."""

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
import xarray as xr
from pydantic import Field, field_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.problem import GaussianMixture, InputError
from limen.result import Findings, Result
from limen.simulation.effective.mixture_blocks import measure_block
from limen.theory.effective.mixtures.block_spectrum import block_spectrum, emergence_ratio
from limen.theory.effective.mixtures.block_weights import mixture_inputs
from limen.theory.effective.mixtures.mixture_flow import MixtureState, mixture_path, start_state

FINE = 19
RANKS_DRAWN = 6
# Outliers this far beyond their threshold are compared; at finite size the transition is rounded.
MARGIN = 1.5


class OutlierEmergence(Experiment):
    r"""A block of the test Hessian of logistic regression against the size of the test set, at one moment of training.

    Theory speaks of $k$ outliers, one per class. On $\tilde M$ test samples in $d$ dimensions the block
    $\frac1{\tilde M}\sum w_lY_lY_l^\top$ has a bulk of width $\sqrt{d/\tilde M}$ that hides them: outlier $j$ stands
    out beyond a critical $\tilde M/d$, where $\det(K-z)=0$ has its root at the edge, and only then do eigenvectors, and
    the alignment of the weights with them, mean anything. At zero weights all $k$ appear together at
    $\tilde M/d=(k/\lambda)^2$ (a Baik-Ben Arous-Péché transition); training separates the thresholds (dashed).

    What to see: eigenvalues leave the bulk one after another as test data grow, and the alignment $\rho(x^1,E_k)$ rises
    with each. At finite $d$ transitions are rounded, so that the alignment near a threshold lies above the line;
    compared is, at each test size, the mean of the eigenvalues past 1.5 times their threshold. With
    `matrix=gradient` thresholds lie higher and the edge is soft, set by the worst classified samples.

    Sizes of the published figures: `classes=10, sharpness=10, penalty=0.01, step=1, d=1000`. Source: Ben Arous,
    Gheissari, Huang & Jagannath 2023 (arXiv 2310.03010), extended to finite test sets.
    """

    name: ClassVar[str] = "outlier-emergence"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Outliers of a test Hessian appear one by one as the test set grows."
    citations: ClassVar[tuple[str, ...]] = ("benarous2023", "baik2005")
    default_seeds: ClassVar[int] = 32
    quick: ClassVar[dict[str, object]] = {"d": 320, "classes": 2, "time": 2.0, "ratios": (1.0, 4.0)}
    quick_seeds: ClassVar[int] = 192

    classes: int = Field(3, ge=2, le=12, description="classes k")
    sharpness: float = Field(5.0, ge=0.1, le=1e6, description="inverse noise variance λ")
    penalty: float = Field(0.05, gt=0.0, le=1.0, description="penalty β on the weights")
    step: float = Field(1.0, gt=0.0, le=10.0, description="step constant c (steps c/d)")
    time: float = Field(8.0, ge=0.0, le=1000.0, description="training time t = steps × c/d, 0 for no training")
    matrix: Literal["hessian", "gradient"] = Field("hessian", description="which matrix: hessian or gradient")
    ratios: NumberList = Field(
        (0.2, 0.5, 1.0, 2.0, 4.0, 10.0), description="test samples per dimension M/d that are measured, a list"
    )
    d: int = Field(320, ge=40, le=4000, description="dimension d of the inputs")

    @field_validator("ratios")
    @classmethod
    def _check_ratios(cls, ratios: tuple[float, ...]) -> tuple[float, ...]:
        if len(ratios) < 2 or list(ratios) != sorted(set(ratios)) or not 0.05 <= ratios[0] <= ratios[-1] <= 100.0:
            raise InputError(f"ratios must be two or more increasing numbers from 0.05 to 100, got {list(ratios)}.")
        return ratios

    def problem(self) -> GaussianMixture:
        """The mixture, equal classes with orthonormal means."""
        return GaussianMixture(
            classes=self.classes, sharpness=self.sharpness, penalty=self.penalty, step=self.step
        )  # fmt: skip

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        problem, k = self.problem(), self.classes
        path = mixture_path(problem, start_state(problem), np.array([self.time]))
        inputs = mixture_inputs(problem, MixtureState(*(part[-1] for part in path)), self.matrix, (0, 0), None)
        thresholds = [emergence_ratio(inputs, j) for j in range(1, k + 1)]
        needed = np.array([1.0 / ratio if ratio > 0.0 else np.inf for ratio in thresholds])
        measured = [block_spectrum(inputs, 1.0 / ratio, k) for ratio in self.ratios]
        # Both sides of every threshold are places of the curve, so that its kinks stand where they belong.
        kinks = np.clip(np.concatenate([0.999 * needed, 1.001 * needed]), self.ratios[0], self.ratios[-1])
        fine = np.sort(np.concatenate([np.geomspace(self.ratios[0], self.ratios[-1], FINE), kinks]))
        curve = [block_spectrum(inputs, 1.0 / ratio, k) for ratio in fine]
        values = np.array([one.leading(k) for one in measured])
        dataset = xr.Dataset(
            {
                "eigenvalue": (("ratio", "rank"), values),
                "leading_sum": ("ratio", values.sum(axis=1)),
                "alignment": ("ratio", [one.alignment for one in measured]),
                "samples_needed": ("rank", needed, {"undefined": "it never leaves the bulk"}),
                "curve_eigenvalue": (("fine", "rank"), np.array([one.leading(k) for one in curve])),
                "curve_outliers": ("fine", [len(one.outliers) for one in curve]),
                "curve_edge": ("fine", [one.edge for one in curve]),
                "curve_alignment": ("fine", [one.alignment for one in curve]),
            },
            coords={"ratio": list(self.ratios), "fine": fine, "rank": np.arange(k)},
        )
        status = f"{self.matrix} block at time {self.time:g}: bulk, outliers and thresholds."
        if any(one.soft for one in measured):
            status = f"{self.matrix} block at time {self.time:g}: edges are soft, set by the heaviest samples."
        return Findings(dataset, True, status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(ratios=self.ratios[:1] + self.ratios[-1:])

    def train(self, seed: int) -> Findings:
        runs = [measure_block(self.problem(), [self.time], ratio, self.d, [seed], self.matrix) for ratio in self.ratios]
        values = np.stack([run.dataset.eigenvalue.values[:, 0] for run in runs], axis=1)
        dataset = xr.Dataset(
            {
                "eigenvalue": (("seed", "ratio", "rank"), values),
                "leading_sum": (("seed", "ratio"), values.sum(axis=2)),
                "alignment": (
                    ("seed", "ratio"),
                    np.stack([run.dataset.alignment.values[:, 0] for run in runs], axis=1),
                ),
            },
            coords={"ratio": list(self.ratios), "rank": np.arange(self.classes), "seed": [seed]},
            attrs={"d": self.d},
        )
        status = f"full SGD in d = {self.d}, one fresh test set per size."
        return Findings(dataset, True, status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """Where outliers have clearly emerged, their mean: near-degenerate ones repel each other at finite size."""
        emerged = theory.dataset.ratio > MARGIN * theory.dataset.samples_needed
        seen = emerged.any("rank").values
        if not seen.any():
            return compare(theory, simulation, ("leading_sum",))
        pair = []
        for result in (theory, simulation):
            mean = result.dataset.eigenvalue.where(emerged).mean("rank").isel(ratio=seen)
            pair.append(
                replace(result, dataset=mean.to_dataset(name="outlier_mean").assign_attrs(result.dataset.attrs))
            )
        return compare(*pair)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, symbol = theory.dataset, "H" if self.matrix == "hessian" else "G"
        fine, edge = data.fine.values, data.curve_edge.values
        spectrum: list[Mark] = [Band(fine, np.zeros_like(edge), edge, "bulk, up to its edge", 6)]
        aligned: list[Mark] = [Line(fine, data.curve_alignment.values, "theory")]
        for rank in range(min(self.classes, RANKS_DRAWN)):
            out = np.where(data.curve_outliers.values > rank, data.curve_eigenvalue.values[:, rank], np.nan)
            spectrum.append(Line(fine, out, f"eigenvalue {rank + 1}", rank))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.eigenvalue.values[..., rank])
                spectrum.append(Points(self.ratios, mean, error, "", rank))
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset.alignment.values)
            aligned.append(Points(self.ratios, mean, error, f"SGD, {counted(len(simulation.seeds), 'run')}"))
        aligned += [
            Threshold(_ordinal(rank + 1) if count == 1 else f"{_ordinal(rank + 1)}-{_ordinal(rank + count)}", x=place)
            for rank, count, place in self._visible(data.samples_needed.values)
        ]
        x_label = r"test samples per dimension $\tilde M/d$"
        return Figure(
            [
                Panel(x_label, f"leading eigenvalues of ${symbol}_{{11}}$", spectrum, x_scale="log"),
                Panel(
                    x_label, rf"alignment $\rho(x^1,E_{{{self.classes}}})$", aligned, x_scale="log",
                    y_range=(0.0, 1.05),
                ),
            ],
            title=f"Emergence of outliers, $k={self.classes}$, $\\lambda={self.sharpness:g}$, $t={self.time:g}$, "
            f"$d={self.d}$",
            caption="Dashed: test data at which the first, second, ... outlier appears.",
        )  # fmt: skip

    def _visible(self, needed: np.ndarray) -> list[tuple[int, int, float]]:
        """First rank, number and place of thresholds inside the axes; labels that would overlap are one."""
        found: list[tuple[int, int, float]] = []
        for rank, place in enumerate(needed):
            if not self.ratios[0] < place < self.ratios[-1]:
                continue
            if found and place < 1.4 * found[-1][2]:
                first, count, begin = found.pop()
                found.append((first, count + 1, begin))
            else:
                found.append((rank, 1, float(place)))
        return found

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found = {}
        if "samples_needed" in dataset:
            needed, unit = dataset.samples_needed.values, "samples per dimension"
            name = "Hessian" if self.matrix == "hessian" else "gradient matrix"
            found = {
                "samples_first_outlier": Number(
                    float(needed[0]), f"test samples from which the first outlier of the {name} is seen", unit
                ),
                "samples_all_outliers": Number(
                    float(needed[-1]), f"test samples from which all k = {self.classes} outliers are seen", unit
                ),
            }
        found["alignment_most_samples"] = Number(
            float(dataset.alignment.isel(ratio=-1).mean()),
            f"alignment of the weights with the leading eigenvectors, {self.ratios[-1]:g} test samples per dimension",
        )
        return found


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"
