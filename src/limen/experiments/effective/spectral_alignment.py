"""Spectral alignment of k-class logistic regression: SGD ends up inside the outlier eigenspace of its own Hessian."""

from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number
from limen.problem import GaussianMixture
from limen.result import Findings, Result
from limen.simulation.effective.mixture_coordinates import measure_all_blocks
from limen.theory.effective.mixtures.blocks import block_path
from limen.theory.effective.mixtures.mixture_flow import mixture_flow

MATRICES = ("hessian", "gradient")
NAMES = ("alignment", "eigenvalue")
SYMBOLS = {"hessian": "H", "gradient": "G"}
RANKS_DRAWN = 6
SHOWN_AXES = 60
# Theory is drawn at this many times as many times as it is compared.
FINER = 3


class SpectralAlignment(Experiment):
    r"""Blocks of test Hessian and gradient second moment of logistic regression on $k$ Gaussian clouds, along training.

    Online SGD $x\leftarrow x-\frac cd(\nabla L+\beta x)$ on classes with means $\mu_a$ and noise $I_d/\lambda$. On a
    fresh test set of $\tilde M$ samples the block $H_{11}=\frac1{\tilde M}\sum\pi_1(1-\pi_1)YY^\top$ is a bulk plus at
    most $k$ outliers whose eigenvectors span the means; so is $G_{11}=\frac1{\tilde M}\sum e_1^2YY^\top$. The
    alignment $\rho=\|P_Ex^1\|/\|x^1\|$ with the $k$ leading eigenvectors rises from $O(\sqrt{k/d})$ to a plateau in
    a time $1/\beta$ at most, and the eigenvalue of the block's own mean leaves the other $k-1$ soon after the start.
    Lines: $d,\tilde M\to\infty$ at fixed $\tilde M/d$; small test sets hide outliers, those of $G$ first.

    What to see: $\rho$ close to 1 for $H$ and all classes, lower for $G$ at few test samples; outliers that
    separate from the bulk and from each other, and with them the overlap of $x^1$ with its own mean from the
    others. On the right the coordinates at the end of training: $x^1$ and the leading eigenvectors of both blocks
    live on the axes of the means, the eigenvectors on that of $\mu_1$ alone. By symmetry classes are alike, and
    overlaps are averaged over them. The overlaps, the squared alignment and the sum of the leading eigenvalues of
    $H$ are compared: single near-degenerate outliers mix, and the edge of $G$ is soft, set by the few worst
    classified samples.

    Parameters of the published figures. Alignment along training, its coordinates, and separation of outliers (figures
    1.3, 1.4, 1.7 of the source): `classes=10, sharpness=10, penalty=0.01, step=1, d=1000` (or 500),
    `test_samples_per_dim=10`. Source: Ben Arous, Gheissari, Huang & Jagannath 2023 (arXiv 2310.03010).
    """

    name: ClassVar[str] = "spectral-alignment"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = (
        "SGD on a Gaussian mixture aligns with the outlier eigenspaces of Hessian and gradient matrix."
    )
    citations: ClassVar[tuple[str, ...]] = ("benarous2023",)
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("alignment_squared", "leading_sum", "mean_overlap")
    quick: ClassVar[dict[str, object]] = {"d": 320, "classes": 2, "time": 4.0, "records": 3}
    quick_seeds: ClassVar[int] = 48

    classes: int = Field(3, ge=2, le=20, description="classes k")
    sharpness: float = Field(10.0, ge=0.1, le=1e6, description="inverse noise variance λ")
    penalty: float = Field(0.05, gt=0.0, le=1.0, description="penalty β on the weights")
    step: float = Field(1.0, gt=0.0, le=10.0, description="step constant c (steps c/d)")
    test_samples_per_dim: float = Field(8.0, ge=0.1, le=100.0, description="test samples per dimension, M/d")
    time: float = Field(20.0, gt=0.0, le=1000.0, description="training time t = steps × c/d")
    records: int = Field(7, ge=2, le=200, description="times at which blocks are looked at, from time 0")
    d: int = Field(400, ge=40, le=4000, description="dimension d of the inputs")

    def problem(self) -> GaussianMixture:
        """The mixture, equal classes with orthonormal means."""
        return GaussianMixture(
            classes=self.classes, sharpness=self.sharpness, penalty=self.penalty, step=self.step
        )  # fmt: skip

    def times(self) -> np.ndarray:
        """Denser at the start, where outliers separate."""
        return self._fine_times()[::FINER]

    def _fine_times(self) -> np.ndarray:
        return self.time * np.linspace(0.0, 1.0, FINER * (self.records - 1) + 1) ** 2

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        fine = self._fine_times()
        paths = {m: block_path(self.problem(), fine, self.test_samples_per_dim, m) for m in MATRICES}
        variables = {}
        for matrix, path in paths.items():
            compared = path.dataset.isel(time=slice(None, None, FINER))
            curve = path.dataset.rename(time="fine")
            variables |= {f"{name}_{matrix}": compared[name] for name in (*NAMES, "outliers")}
            variables |= {f"curve_{name}_{matrix}": curve[name] for name in (*NAMES, "edge", "outliers")}
        found = mixture_flow.solve(self.problem(), fine).dataset
        flow = found.overlap
        variables["curve_mean_overlap"] = _own_and_other(flow.rename(time="fine"))
        variables["mean_overlap"] = _own_and_other(flow.isel(time=slice(None, None, FINER)))
        variables["weight_coordinates"] = ("mean_axis", path_end(found))
        dataset = _with_compared(xr.Dataset(variables))
        status = " ".join(path.status.capitalize() for path in paths.values())
        return Findings(dataset, True, status)

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(records=3)

    def train(self, seed: int) -> Findings:
        run = measure_all_blocks(self.problem(), self.times(), self.test_samples_per_dim, self.d, seed)
        variables = {f"eigenvalue_{matrix}": run[f"eigenvalue_{matrix}"] for matrix in MATRICES}
        for matrix in MATRICES:
            variables[f"alignment_{matrix}"] = run[f"alignment_{matrix}"].isel({"class": 0})
            variables[f"all_alignments_{matrix}"] = run[f"alignment_{matrix}"]
        variables["mean_overlap"] = _own_and_other(run.overlap)
        variables["coordinates"] = run.coordinates
        dataset = _with_compared(xr.Dataset(variables)).expand_dims(seed=[seed]).assign_attrs(d=self.d)
        status = f"full SGD in d = {self.d}, blocks on fresh test sets."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, data = self.times(), theory.dataset
        fine = data.fine.values
        label = "" if simulation is None else f"SGD, {counted(len(simulation.seeds), 'run')}"
        aligned: list[Mark] = []
        for colour, matrix in enumerate(MATRICES):
            symbol = f"$E_{{{self.classes}}}({SYMBOLS[matrix]}_{{11}})$"
            aligned.append(Line(fine, data[f"curve_alignment_{matrix}"].values, symbol, colour))
            if simulation is not None:
                for c in range(self.classes):
                    mean, error = mean_and_error(simulation.dataset[f"all_alignments_{matrix}"].values[..., c])
                    aligned.append(Points(times, mean, error, label if colour == c == 0 else "", colour))
        time_label = r"time $t$ = samples $\times\,c/d$"
        panels = [Panel(time_label, r"alignment $\rho(x^c,E)$, all classes $c$", aligned, y_range=(0.0, 1.05))]
        for matrix in MATRICES:
            values = data[f"curve_eigenvalue_{matrix}"].values
            edge = data[f"curve_edge_{matrix}"].values
            marks: list[Mark] = [Band(fine, np.zeros_like(edge), edge, "bulk, up to its edge", 6)]
            for rank in range(min(self.classes, RANKS_DRAWN)):
                # Ranks that have not left the bulk lie at its edge: no line there.
                out = np.where(data[f"curve_outliers_{matrix}"].values > rank, values[:, rank], np.nan)
                marks.append(Line(fine, out, f"eigenvalue {rank + 1}", rank))
                if simulation is not None:
                    mean, error = mean_and_error(simulation.dataset[f"eigenvalue_{matrix}"].values[..., rank])
                    marks.append(Points(times, mean, error, "", rank))
            panels.append(Panel(time_label, f"leading eigenvalues of ${SYMBOLS[matrix]}_{{11}}$", marks))
        panels.append(self._overlaps(theory, simulation))
        if simulation is not None:
            panels.append(self._coordinates(theory, simulation))
        return Figure(
            panels,
            title=f"Spectral alignment, $k={self.classes}$, $\\lambda={self.sharpness:g}$, $\\beta={self.penalty:g}$, "
            f"$d={self.d}$, $\\tilde M/d={self.test_samples_per_dim:g}$",
        )

    def _overlaps(self, theory: Result, simulation: Result | None) -> Panel:
        """Overlaps with the class's own mean and with the others."""
        marks: list[Mark] = []
        for i, label in enumerate((r"own, $\langle x^c,\mu_c\rangle$", r"others, $\langle x^c,\mu_a\rangle$")):
            marks.append(Line(theory.dataset.fine.values, theory.dataset.curve_mean_overlap.values[:, i], label, i))
            if simulation is not None:
                marks.append(
                    Points(self.times(), *mean_and_error(simulation.dataset.mean_overlap.values[..., i]), "", i)
                )
        return Panel(r"time $t$ = samples $\times\,c/d$", "overlap with the means", marks)

    def _coordinates(self, theory: Result, simulation: Result) -> Panel:
        """Coordinates of weights and leading eigenvectors of the first seed at the end, those of the means first."""
        shown = min(self.d, SHOWN_AXES)
        axes, values = np.arange(1, shown + 1), simulation.dataset.coordinates.values[0, :, :shown]
        labels = (r"$x^1/\|x^1\|$", "eigenvector of $H_{11}$", "eigenvector of $G_{11}$")
        marks: list[Mark] = [
            Points(axes, row, None, label, i) for i, (row, label) in enumerate(zip(values, labels, strict=True))
        ]
        marks.append(Line(axes[: self.classes], theory.dataset.weight_coordinates.values, "theory", 0, spots=True))
        return Panel(f"axis (means first; {shown} of {self.d})", "coordinate at the end, first seed", marks)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = (dataset.mean("seed") if "seed" in dataset.dims else dataset).isel(time=-1)
        names = {"hessian": "Hessian", "gradient": "gradient matrix"}
        found = {
            f"final_alignment_{matrix}": Number(
                float(last[f"alignment_{matrix}"]),
                f"alignment of the weights with {self.classes} eigenvectors of the {names[matrix]} at the end",
            )
            for matrix in MATRICES
        }
        found["top_eigenvalue_hessian"] = Number(
            float(last.eigenvalue_hessian[0]), f"largest eigenvalue of the Hessian at the end, t = {self.time:g}"
        )
        for matrix in MATRICES:
            if f"outliers_{matrix}" in last:
                found[f"outliers_{matrix}"] = Number(
                    float(last[f"outliers_{matrix}"]), f"eigenvalues of the {names[matrix]} outside its bulk at the end"
                )
        return found


def _own_and_other(overlap: xr.DataArray) -> xr.DataArray:
    """Overlaps (time, class, mean) of classes with their own mean and with another, averaged over classes."""
    values = overlap.values
    own = np.einsum("tcc->t", values) / values.shape[1]
    other = (values.sum(axis=(1, 2)) - values.shape[1] * own) / (values.shape[1] * (values.shape[1] - 1))
    return xr.DataArray(np.stack([own, other], axis=1), dims=(overlap.dims[0], "mean"), coords=overlap.coords)


def path_end(flow: xr.Dataset) -> np.ndarray:
    r"""$\langle x^1,\mu_a\rangle/\|x^1\|$ at the end of the flow, shape (class,); orthonormal means."""
    overlap, rest = flow.overlap.values[-1, 0], float(flow.orthogonal_gram.values[-1, 0, 0])
    return overlap / np.sqrt(overlap @ overlap + rest)


def _with_compared(dataset: xr.Dataset) -> xr.Dataset:
    """Squares, which have no square-root bias where there is no alignment, and sums, in which mixing cancels."""
    return dataset.assign(
        alignment_squared=dataset.alignment_hessian**2, leading_sum=dataset.eigenvalue_hessian.sum("rank")
    )
