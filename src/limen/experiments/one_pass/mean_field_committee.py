"""Wide committees: neurons as particles, and how the error of that picture falls with the width."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error, thin
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.problem import InputError, OnePassSGD, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.one_pass.one_pass_sgd import one_pass_sgd
from limen.theory.one_pass.mean_field import mean_field

# Far below the 1/p that separates the particles from a network.
TOLERANCE = 1e-6
LABELS = {"square": "z{r}**2", "relu": "relu(z{r})", "tanh": "tanh(z{r})"}


class MeanFieldCommittee(Experiment):
    r"""A committee of $p$ students learns two teachers; its neurons are particles $(m_i,q_i)$ that meet only through
    their overlaps with the teachers.

    Each particle has overlaps $m_i$ with the teachers and an orthogonal part of square length $q_i$, and different
    orthogonal parts count as independent directions of $\mathbb R^{d-k}$: $p(k+1)$ numbers in place of $p(p+k)$. The
    picture is right up to $1/p$; a part of that, the kernel of a neuron with itself, can be kept (width $p$) or dropped
    ($p=\infty$). At fixed rate $\gamma$ the noise of SGD is of order $\gamma/p$ too. The comparison is made across the
    widths: what differs by $A/p$ is allowed, what stays is not.

    What to see: points approach the full lines as $p$ grows, and these the dashed one without self-term, $p=\infty$;
    late in training the particles lag behind narrow networks, whose neurons no longer have independent orthogonal
    parts. Source: Arnaboldi et al. 2023 (arXiv 2302.05882).
    """

    name: ClassVar[str] = "mean-field-committee"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = "Neurons of a wide committee are particles, up to 1/p."
    citations: ClassVar[tuple[str, ...]] = ("arnaboldi2023high", "arnaboldi2023escaping")
    default_seeds: ClassVar[int] = 12
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk", "alignment", "orthogonal_norm")
    quick: ClassVar[dict[str, Any]] = {
        "activation": "tanh", "widths": "10 20", "d": 100, "rate": 0.5, "horizon": 1.0
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 12

    activation: Literal["square", "relu", "tanh"] = Field("square", description="activation of students and teachers σ")
    widths: NumberList = Field((20.0, 40.0, 80.0), description="numbers of students p")
    teachers: int = Field(2, ge=1, le=6, description="number k of teachers")
    d: int = Field(100, ge=4, le=2000, description="dimension of the inputs")
    rate: float = Field(1.0, gt=0.0, le=20.0, description="learning rate γ, the same for every width")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance Δ of the label noise")
    horizon: float = Field(2.0, gt=0.0, le=50.0, description="last time t")

    @model_validator(mode="after")
    def _room(self) -> "MeanFieldCommittee":
        if not all(width >= 2 and width == int(width) for width in self.widths) or not self.widths:
            raise InputError(f"widths must be whole numbers of at least 2, got {self.widths}.")
        if self.d < self.teachers + max(self.widths):
            most = self.teachers + int(max(self.widths))
            raise InputError(f"d must be at least students + teachers = {most}, got {self.d}.")
        return self

    def sizes(self) -> tuple[int, ...]:
        """The widths as whole numbers, the smallest first."""
        return tuple(sorted({int(width) for width in self.widths}))

    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.horizon, 41)

    def problem(self, width: int) -> TwoLayer:
        """The learning problem of one width."""
        parts = [LABELS[self.activation].format(r=r + 1) for r in range(self.teachers)]
        label = "(" + " + ".join(parts) + f")/{self.teachers}"
        return TwoLayer(target(label, noise=self.noise), network(width, self.activation), OnePassSGD(rate=self.rate))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        starts = [[start_overlaps(self.problem(width), self.d, seed) for seed in seeds] for width in self.sizes()]
        rows = [_order_parameters(self._particles(pairs, True)) for pairs in starts]
        risk, alignment, norm = np.moveaxis(np.array(rows), 0, 2)
        limits = self._particles(starts[-1], False).excess_risk.values
        dims = ("seed", "width", "time")
        dataset = labelled(
            {
                "excess_risk": (dims, risk),
                "alignment": (dims, alignment),
                "orthogonal_norm": (dims, norm),
                "limit_risk": (("seed", "time"), limits),
            },
            coords={"seed": list(seeds), "width": list(self.sizes()), "time": self.times()},
            attrs={"d": self.d},
        )
        finite = bool(np.isfinite(risk).all())
        status = f"particles of {len(self.sizes())} widths." if finite else "the particles diverge: lower the rate."
        return Findings(dataset, finite, status)

    def _particles(self, starts: list[tuple[np.ndarray, np.ndarray]], self_term: bool) -> xr.Dataset:
        """Particles from the starts of one width, all seeds together."""
        overlap, gram = (np.stack(part) for part in zip(*starts, strict=True))
        rest = np.einsum("sii->si", gram) - (overlap**2).sum(axis=2)
        identity = np.eye(self.teachers)
        learning = (self.activation, self.rate, self.noise, self.times())
        found = mean_field(overlap, rest, identity, 1.0, 1.0, *learning, self_term, self.d, TOLERANCE)
        return found.dataset.reindex(time=self.times())

    def train(self, seed: int) -> Findings:
        runs = [one_pass_sgd.solve(self.problem(width), self.times(), d=self.d, seed=seed) for width in self.sizes()]
        rows = []
        for run in runs:
            overlap, gram = run.dataset.overlap.values[0], run.dataset.gram.values[0]
            aligned = (overlap**2).sum(axis=2)
            rest = np.einsum("tii->ti", gram) - aligned
            rows.append([run.dataset.excess_risk.values[0], aligned.mean(axis=1), rest.mean(axis=1)])
        risk, alignment, norm = np.moveaxis(np.array(rows), 1, 0)[:, None]
        dims = ("seed", "width", "time")
        dataset = labelled(
            {"excess_risk": (dims, risk), "alignment": (dims, alignment), "orthogonal_norm": (dims, norm)},
            coords={"seed": [seed], "width": list(self.sizes()), "time": self.times()},
            attrs={"d": self.d},
        )
        worst = next((run for run in runs if not run.ok), runs[0])
        return Findings(dataset, worst.ok, worst.status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """One comparison over all widths, in which the width is the size: a deviation $A/p$ is allowed."""

        def split(result: Result) -> list[Result]:
            parts = [result.dataset.sel(width=width, drop=True) for width in self.sizes()]
            return [
                replace(result, dataset=part.assign_attrs(d=width))
                for part, width in zip(parts, self.sizes(), strict=True)
            ]

        return compare(split(theory), split(simulation), variables=self.compared)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, at = self.times(), thin(self.times().size, 14)
        panels = []
        names = {"excess_risk": r"excess risk $R-\Delta/2$", "alignment": r"alignment $\frac{1}{p}\sum_i|m_i|^2$"}
        for name, label in names.items():
            marks: list[Mark] = []
            for colour, width in enumerate(self.sizes()):
                found = theory.dataset.sel(width=width)
                marks.append(Line(times, found[name].mean("seed"), f"particles, $p={width}$", colour))
                if simulation is not None:
                    mean, error = mean_and_error(simulation.dataset[name].sel(width=width).values)
                    points = f"SGD, {counted(len(simulation.seeds), 'run')}" if colour == 0 else ""
                    marks.append(Points(times[at], mean[at], error[at], points, colour))
            if name == "excess_risk":
                limit = theory.dataset.limit_risk.mean("seed")
                marks.append(Line(times, limit, "without self-term", len(self.sizes()), dashed=True))
            panels.append(Panel(r"time $t$ = steps $\times\,\gamma/(dp)$", label, marks))
        return Figure(
            panels,
            title=f"Committees ({typeset(self.activation)}) of growing width, $k={self.teachers}$, $d={self.d}$, "
            f"$\\gamma={self.rate:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        risk = dataset.excess_risk.mean("seed")
        found = {
            f"last_risk_width_{w}": Number(
                float(risk.sel(width=w).values[-1]), f"excess risk at the end, t = {self.horizon:g}, p = {w} students"
            )
            for w in self.sizes()
        }
        found["half_time"] = Number(
            self._half_time(risk.isel(width=-1).values),
            f"time t until half of the excess risk is gone, p = {self.sizes()[-1]} students",
            "units of time",
        )
        return found

    def _half_time(self, risk: np.ndarray) -> float:
        """When the widest network has lost half of its risk; infinite if it does not."""
        below = np.flatnonzero(risk <= 0.5 * risk[0])
        if below.size == 0:
            return float("inf")
        i = int(below[0])
        return float(np.interp(-0.5 * risk[0], -risk[i - 1 : i + 1], self.times()[i - 1 : i + 1]))


def _order_parameters(particles: xr.Dataset) -> list[np.ndarray]:
    aligned = (particles.overlap.values**2).sum(axis=-1).mean(axis=-1)
    return [particles.excess_risk.values, aligned, particles.orthogonal_norm.values.mean(axis=-1)]
