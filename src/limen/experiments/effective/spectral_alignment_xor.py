"""Spectral alignment of a two-layer network on XOR: each layer with its own block, one outlier per cloud found."""

from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.effective.xor_starts import directed_start
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number
from limen.problem import InputError, XorMixture
from limen.result import Findings, Result
from limen.simulation.effective.xor_alignment import MATRICES, measure_network
from limen.simulation.effective.xor_clusters import occupied_clusters
from limen.theory.effective.mixtures.block_spectrum import SpectralBlock, block_spectrum
from limen.theory.effective.mixtures.block_weights import second_layer_matrix, xor_inputs
from limen.theory.effective.mixtures.blocks import DEAD, SECOND_LAYER_LEADING, XOR_LEADING
from limen.theory.effective.mixtures.xor_flow import XorState, start_state, xor_path

DRAWN = ("second_eigenvalue", "second_alignment", "first_alignment", "overlap")
SYMBOLS = {"hessian": "H", "gradient": "G"}
RANKS_DRAWN = 6
FLOW_POINTS = 1 << 10
# Theory is drawn at this many times as many times as it is compared.
FINER = 3


class SpectralAlignmentXor(Experiment):
    r"""Blocks of test Hessian and gradient second moment of a two-layer ReLU network on the XOR mixture.

    The block of neuron $i$, $H_{ii}=\frac1{\tilde M}\sum v_i^2\sigma'(h)\chi_iXX^\top$ (gradient: $e^2$ for $\sigma'$),
    has at most two outliers, in the span of $\mu$ and $\nu$; $W_i$ aligns with them. The block of the second layer,
    $H_{vv}=\frac1{\tilde M}\sum\sigma'(h)\,g(WX)g(WX)^\top$, has size $K$ and one large eigenvalue for each
    cloud that some neuron has found; $v$ aligns with the leading four. A network with one to three clouds has as
    many outliers in $G_{vv}$: `clouds` chooses towards how many the start leans. Noise can free a neuron later.

    What to see: alignments rising to almost 1; the leading eigenvalues of $G_{vv}$ parting from the rest, as many as
    clouds. Theory: the limiting flow, then blocks at $d,\tilde M\to\infty$. All runs share the start. ReLU: blocks are
    means over samples, without the Dirac term of $\nabla^2E[L]$. A neuron with $v_i\approx0$ is dead: it aligns with
    nothing, and the status says so. Compared are the sums of the second layer's
    four leading eigenvalues (single near-degenerate ones repel at finite $d$) and the squared alignment of the neuron
    with $E_2(H_{ii})$.

    Parameters of the published figures. Alignment of both layers (figure 1.6 of the source; $E_2$ for $W_i$, $E_4$ for
    $v$): `width=20, sharpness=10, penalty=0.02, step=1, d=1000`, there from $W_{ij}\sim N(0,1/d)$, overlaps of
    0.03, at which the noise of SGD chooses the clouds and single runs leave the limit. Rank-deficient second-layer
    matrices $G_{vv}$ (figure 1.8): the same with `clouds` 1, 2, 3, 4 (`limen.effective.occupied_clusters` sorts runs
    from random starts). Source: Ben Arous, Gheissari, Huang & Jagannath 2023 (arXiv 2310.03010).
    """

    name: ClassVar[str] = "spectral-alignment-xor"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Both layers of an XOR network align with outliers of their blocks, one per cloud found."
    citations: ClassVar[tuple[str, ...]] = ("benarous2023", "benarous2022")
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("second_leading_sum", "first_alignment_squared")
    quick: ClassVar[dict[str, object]] = {"d": 160, "width": 2, "clouds": 2, "time": 6.0, "records": 3}
    quick_seeds: ClassVar[int] = 384

    width: int = Field(6, ge=1, le=32, description="neurons K")
    sharpness: float = Field(10.0, ge=0.1, le=1e6, description="inverse noise variance λ")
    penalty: float = Field(0.02, gt=0.0, lt=0.125, description="penalty α on the weights")
    step: float = Field(1.0, gt=0.0, le=10.0, description="step constant c (steps c/d)")
    clouds: int = Field(4, ge=1, le=4, description="clouds towards which the start leans")
    overlap: float = Field(0.4, gt=0.0, le=3.0, description="size of the initial overlaps with the clouds")
    draw: int = Field(0, ge=0, le=10**6, description="which random start, the same for all runs")
    neuron: int = Field(1, ge=1, le=32, description="neuron i whose first-layer block is looked at")
    test_samples_per_dim: float = Field(16.0, ge=0.1, le=100.0, description="test samples per dimension, M/d")
    time: float = Field(40.0, gt=0.0, le=1000.0, description="training time t = steps × c/d")
    records: int = Field(7, ge=2, le=200, description="times at which blocks are looked at, from time 0")
    d: int = Field(300, ge=40, le=4000, description="dimension d of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "SpectralAlignmentXor":
        for name in ("neuron", "clouds"):
            if getattr(self, name) > self.width:
                raise InputError(f"{name} must be at most width ({self.width}), got {getattr(self, name)}.")
        return self

    def problem(self) -> XorMixture:
        """The mixture and its network."""
        return XorMixture(width=self.width, sharpness=self.sharpness, penalty=self.penalty, step=self.step)

    def times(self) -> np.ndarray:
        """Where both are recorded."""
        return self._fine_times()[::FINER]

    def _fine_times(self) -> np.ndarray:
        return np.linspace(0.0, self.time, FINER * (self.records - 1) + 1)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        problem, times = self.problem(), self._fine_times()
        start, second = directed_start(self.width, self.clouds, self.overlap, self.draw)
        path = xor_path(problem, start_state(problem, start, second), times, FLOW_POINTS)
        states = [XorState(*parts) for parts in zip(*path, strict=True)]
        layers = np.array([[second_layer_matrix(problem, s, m, None) for s in states] for m in MATRICES])
        values, vectors = np.linalg.eigh(layers)
        leading = vectors[..., ::-1][..., :SECOND_LAYER_LEADING]
        projected = np.linalg.norm(np.einsum("mtkr,tk->mtr", leading, path.second_layer), axis=-1)
        blocks = [[self._first(s, m) for s in states] for m in MATRICES]
        # With fewer than two outliers told from the bulk the limit has no two-dimensional eigenspace to align with.
        aligned = [[b.alignment if len(b.outliers) >= XOR_LEADING else np.nan for b in row] for row in blocks]
        dims = ("matrix", "fine")
        curves = xr.Dataset(
            {
                "second_eigenvalue": ((*dims, "rank"), values[..., ::-1]),
                "second_alignment": (dims, projected / np.linalg.norm(path.second_layer, axis=-1)),
                "first_alignment": (dims, np.array(aligned), {"undefined": "fewer than two outliers"}),
                "second_layer": (("fine", "neuron"), path.second_layer),
                "overlap": (("fine", "neuron", "mean"), path.overlap),
            },
            coords={"fine": times, "matrix": list(MATRICES), "mean": ["mu", "nu"]},
        )
        compared = _with_compared(curves.isel(fine=slice(None, None, FINER)).rename(fine="time"))
        dataset = compared.assign({f"curve_{name}": curves[name] for name in DRAWN})
        dead = np.flatnonzero(np.abs(path.second_layer[-1]) < DEAD * np.abs(path.second_layer[-1]).max()) + 1
        status = "limiting flow, then blocks at finite test size."
        if dead.size:
            status = f"limiting flow; dead neurons at the end, aligned with nothing: {', '.join(map(str, dead))}."
        return Findings(dataset, True, status)

    def _first(self, state: XorState, matrix: str) -> SpectralBlock:
        i = self.neuron - 1
        inputs = xor_inputs(self.problem(), state, "hessian" if matrix == "hessian" else "gradient", (i, i), None)
        return block_spectrum(inputs, 1.0 / self.test_samples_per_dim, XOR_LEADING)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(records=3)

    def train(self, seed: int) -> Findings:
        start, second = directed_start(self.width, self.clouds, self.overlap, self.draw)
        run = measure_network(
            self.problem(), self.times(), self.test_samples_per_dim, self.d, seed, self.neuron - 1, start, second
        )
        return Findings(_with_compared(run.dataset), run.ok, run.status, run.statistics)  # fmt: skip

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, data = self.times(), theory.dataset
        fine = data.fine.values
        time_label = r"time $t$ = samples $\times\,c/d$"
        panels = []
        for name, vector, space in (
            ("first_alignment", f"W_{{{self.neuron}}}", f"E_2({{}}_{{{self.neuron}{self.neuron}}})"),
            ("second_alignment", "v", "E_4({}_{{vv}})"),
        ):
            marks: list[Mark] = []
            for colour, matrix in enumerate(MATRICES):
                label = "$" + space.replace("{}", SYMBOLS[matrix]).replace("{{", "{").replace("}}", "}") + "$"
                marks.append(Line(fine, data[f"curve_{name}"].sel(matrix=matrix).values, label, colour))
                if simulation is not None:
                    mean, error = mean_and_error(simulation.dataset[name].sel(matrix=matrix).values)
                    label = f"SGD, {counted(len(simulation.seeds), 'run')}" if colour == 0 else ""
                    marks.append(Points(times, mean, error, label, colour))
            panels.append(Panel(time_label, rf"alignment $\rho({vector},E)$", marks, y_range=(0.0, 1.05)))
        marks = []
        for rank in range(min(self.width, RANKS_DRAWN)):
            values = data.curve_second_eigenvalue.sel(matrix="gradient").values[:, rank]
            marks.append(Line(fine, values, f"eigenvalue {rank + 1}", rank))
            if simulation is not None:
                runs = simulation.dataset.second_eigenvalue.sel(matrix="gradient").values[..., rank]
                marks.append(Points(times, *mean_and_error(runs), "", rank))
        panels.append(Panel(time_label, r"eigenvalues of $G_{vv}$", marks))
        marks = []
        for neuron in range(self.width):
            for colour, (mean, symbol) in enumerate((("mu", r"\mu"), ("nu", r"\nu"))):
                label = rf"$\langle W_i,{symbol}\rangle$" if neuron == 0 else ""
                marks.append(Line(fine, data.curve_overlap.sel(mean=mean).values[:, neuron], label, colour))
                if simulation is not None:
                    runs = simulation.dataset.overlap.sel(mean=mean).values[..., neuron]
                    marks.append(Points(times, *mean_and_error(runs), "", colour))
        panels.append(Panel(time_label, "overlaps of all neurons with the means", marks))
        return Figure(
            panels,
            title=f"XOR, $K={self.width}$, {self.clouds} clouds, $\\lambda={self.sharpness:g}$, "
            f"$\\alpha={self.penalty:g}$, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = dataset.isel(time=-1)
        names = {"hessian": "Hessian", "gradient": "gradient matrix"}
        found = {
            "clouds_found": Number(
                float(np.mean(occupied_clusters(Findings(dataset)))), "clouds of the mixture, of four, found at the end"
            )
        }
        for matrix in MATRICES:
            found[f"neuron_alignment_{matrix}"] = Number(
                float(last.first_alignment.sel(matrix=matrix).mean()),
                f"alignment of neuron {self.neuron} with 2 eigenvectors of its {names[matrix]} at the end",
            )
            found[f"second_layer_alignment_{matrix}"] = Number(
                float(last.second_alignment.sel(matrix=matrix).mean()),
                f"alignment of the second layer with 4 eigenvectors of its {names[matrix]} at the end",
            )
        return found


def _with_compared(dataset: xr.Dataset) -> xr.Dataset:
    """The square of an alignment, without square-root bias near zero; a sum, in which repelling eigenvalues cancel."""
    return dataset.assign(
        first_alignment_squared=dataset.first_alignment.sel(matrix="hessian", drop=True) ** 2,
        second_leading_sum=dataset.second_eigenvalue.isel(rank=slice(SECOND_LAYER_LEADING)).sum("rank"),
    )
