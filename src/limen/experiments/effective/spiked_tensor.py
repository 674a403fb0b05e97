"""Tensor PCA by SGD: the phase portrait of overlap and remaining length, and runs on it."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import InputError, OverlapStart, SpikedTensor
from limen.result import Findings, Result
from limen.simulation.effective.tensor_chain import tensor_chain
from limen.theory.effective.tensor_flow import critical_signal, tensor_fixed_points, tensor_flow

TIMES = 31
STREAM_TIMES = np.concatenate([[0.0], np.geomspace(1e-3, 12.0, 240)])


class SpikedTensorFlow(Experiment):
    r"""SGD on $L=\|Y-x^{\otimes k}\|^2$ with a fresh spiked tensor $Y=\lambda v^{\otimes k}+W$ every step.

    With step $c/N$ the overlap $m=\langle x,v\rangle$ and the square $r=\|x\|^2-m^2$ of what is left follow, with
    $R^2=m^2+r$,
    $$\dot m=2km(\lambda m^{k-2}-R^{2(k-1)}),\qquad\dot r=-4kR^{2(k-1)}(r-c).$$
    The noise of the tensors holds $r$ at $c$. For $k\ge3$ zero overlap always attracts; above
    $\lambda_c=c^{k/2}\big(\frac{2(k-1)}k\big)^{k-1}\big(\frac{k-2}k\big)^{-(k-2)/2}$ a stable overlap $m_+$ exists
    beside it, behind the unstable $m_-$. Matrices ($k=2$) have $\lambda_c=c$ and $m_+=\sqrt{\lambda-c}$, reached from
    any start.

    What to see: the plane divided into what is drawn to zero (orange) and to $m_+$ (blue); runs of SGD on these lines,
    starts on either side of the divide ending apart. The witness is the exact chain of $(m,r)$ at finite $N$; at small
    $N$ the explicit step can explode for $k\ge3$, which no limit shows. Source: Ben Arous, Gheissari & Jagannath 2022
    (arXiv 2206.04030), where $k=2$, $c=1$.
    """

    name: ClassVar[str] = "spiked-tensor"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The phase portrait of SGD on a spiked tensor: two ends, and a divide between them."
    citations: ClassVar[tuple[str, ...]] = ("benarous2022",)
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("overlap", "orthogonal_square")
    quick: ClassVar[dict[str, float]] = {"d": 1000, "runs": 2, "horizon": 0.5}
    quick_seeds: ClassVar[int] = 48

    order: int = Field(3, ge=2, le=6, description="order k of the tensor")
    signal: float = Field(1.6, gt=0.0, le=50.0, description="strength λ of the spike, above the critical one")
    step: float = Field(0.5, ge=1e-6, le=2.0, description="step c (c/N per sample)")
    horizon: float = Field(1.5, gt=0.0, le=20.0, description="time t up to which runs are followed")
    d: int = Field(8000, ge=200, le=10**6, description="dimension N; a run takes N·horizon/c steps")
    runs: int = Field(8, ge=1, le=1024, description="runs from every start in one seed")

    def problem(self, start: OverlapStart | None = None) -> SpikedTensor:
        """The tensor, begun from a start or from nowhere in particular."""
        problem = SpikedTensor(order=self.order, signal=self.signal, step=self.step)
        return problem if start is None else problem.model_copy(update={"start": start})

    def end(self) -> float:
        r"""The stable overlap $m_+$."""
        points = tensor_fixed_points(self.problem())
        if not points:
            raise InputError(
                f"signal must be greater than the critical {critical_signal(self.problem()):.6g}, got {self.signal:g}."
            )
        return points[-1]

    def starts(self) -> list[tuple[float, float]]:
        r"""$(m_0,r_0)$ of the runs: on both sides of the divide, and of the stable point."""
        top, c = self.end(), self.step
        low = tensor_fixed_points(self.problem())[0] if self.order >= 3 else 0.1 * top
        return [(0.45 * low, 2.2 * c), (2.2 * low, 0.2 * c), (1.25 * top, 2.0 * c), (1.05 * top, 0.1 * c)]

    def times(self) -> np.ndarray:
        """Where runs are recorded, densest at the start."""
        return self.horizon * np.linspace(0.0, 1.0, TIMES) ** 2

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        times = self.times()
        pairs = [tensor_flow(self.problem(), m, r, times) for m, r in self.starts()]
        dataset = self._dataset()
        for name, rows in zip(("overlap", "orthogonal_square"), zip(*pairs, strict=True), strict=True):
            dataset[name] = (("start", "time"), np.stack(rows))
        dataset["stable_overlap"] = self.end()
        dataset["critical_signal"] = critical_signal(self.problem())
        return Findings(dataset, True, "integrated.")

    def train(self, seed: int) -> Findings:
        times = self.times()
        own = tuple(range(seed * self.runs, (seed + 1) * self.runs))
        found = []
        for m, r in self.starts():
            begun = self.problem(OverlapStart(overlap=m, gram=[[m * m + r]]))
            found.append(tensor_chain.run_seeds(begun, times, self.d, own))
        dataset = self._dataset().assign_coords(seed=[seed])
        for name in ("overlap", "orthogonal_square"):
            rows = np.stack([one.dataset[name].values.mean(axis=0) for one in found])
            dataset[name] = (("seed", "start", "time"), rows[None])
        worst = next((one for one in found if not one.ok), found[0])
        return Findings(dataset, worst.ok, worst.status)

    def _dataset(self) -> xr.Dataset:
        m, r = zip(*self.starts(), strict=True)
        coords = {"time": self.times(), "start": np.arange(len(m)), "m0": ("start", list(m)), "r0": ("start", list(r))}
        return xr.Dataset(coords=coords, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, times, at = theory.dataset, self.times(), thin(TIMES, 16)
        portrait = self._streams()
        overlaps: list[Mark] = []
        squares: list[Mark] = []
        for i, (m, r) in enumerate(self.starts()):
            label = f"$m_0={m:.2f}$, $r_0={r:.2f}$"
            for marks, name in ((overlaps, "overlap"), (squares, "orthogonal_square")):
                marks.append(Line(times, data[name].values[i], label if marks is overlaps else "", i + 2))
                if simulation is not None:
                    mean, error = mean_and_error(simulation.dataset[name].values[:, i])
                    last = i == data.sizes["start"] - 1
                    marks.append(Points(times[at], mean[at], error[at], "chain" if last else "", i + 2))
            source, mark = (data, Line) if simulation is None else (simulation.dataset.mean("seed"), Points)
            portrait.append(mark(source.overlap.values[i], source.orthogonal_square.values[i], colour=i + 2))
        overlaps += [Threshold("$m_+$", y=self.end())]
        if self.order >= 3:
            overlaps.append(Threshold("$m_-$", y=tensor_fixed_points(self.problem())[0]))
        squares.append(Threshold("$r=c$", y=self.step))
        label = r"time $t$ = samples $\times\,c/N$"
        reach = 1.45 * self.end(), 3.5 * self.step
        # Room on the left for the names of the rest points.
        sides = -0.13 * self.horizon, 1.03 * self.horizon
        return Figure(
            [
                Panel(
                    r"overlap $m$", r"remaining square $r$", portrait, "flow, and runs from four starts",
                    x_range=(-0.03 * reach[0], reach[0]), y_range=(0.0, reach[1]),
                ),
                Panel(label, "overlap $m$", overlaps, x_range=sides, y_range=(0.0, 1.75 * self.end())),
                Panel(label, "remaining square $r$", squares, x_range=sides),
            ],
            title=f"SGD on a spiked tensor of order {self.order}, $\\lambda={self.signal:g}$, $c={self.step:g}$, "
            f"$N={self.d}$",
        )  # fmt: skip

    def _streams(self) -> list[Mark]:
        """Lines of the flow from the edges of the picture, coloured by where they end, and the rest points."""
        problem, top, c = self.problem(), self.end(), self.step
        across, up = np.linspace(0.02, 1.4, 11) * top, np.linspace(0.3, 2.3, 5) * c
        begin_m = np.concatenate([across, across, np.full(up.size, 1.4 * top)])
        begin_r = np.concatenate([np.full(across.size, 0.06 * c), np.full(across.size, 2.55 * c), up])
        marks: list[Mark] = []
        named: set[int] = set()
        for m, r in zip(*tensor_flow(problem, begin_m, begin_r, STREAM_TIMES / c ** (self.order - 1)), strict=True):
            colour = 0 if m[-1] > 0.5 * top else 1
            label = "" if colour in named else ("drawn to $m_+$", "drawn to zero")[colour]
            named.add(colour)
            marks.append(Line(m, r, label, colour))
        rest = [0.0, *tensor_fixed_points(problem)]
        marks.append(Points(rest, [c] * len(rest), label="rest points", colour=6))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = dataset.mean("seed") if "seed" in dataset.dims else dataset
        last, end = mean.overlap.values[:, -1], f"at the end, t = {self.horizon:g}"
        found = {
            "overlap_from_below": Number(
                float(last[0]), f"overlap with the spike {end}, from a start below the divide"
            ),
            "overlap_from_above": Number(
                float(last[1]), f"overlap with the spike {end}, from a start above the divide"
            ),
            "final_square": Number(
                float(mean.orthogonal_square.values[1, -1]),
                f"squared length off the spike {end}, from above the divide",
            ),
        }
        if "stable_overlap" in dataset:
            found["stable_overlap"] = Number(
                float(dataset.stable_overlap), f"overlap at the stable rest point, signal λ = {self.signal:g}"
            )
            found["critical_signal"] = Number(
                float(dataset.critical_signal), f"signal λ below which nothing is found, step c = {self.step:g}"
            )
        return found
