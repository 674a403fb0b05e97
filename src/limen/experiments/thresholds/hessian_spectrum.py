"""The Hessian along training: a bulk of curvatures, and one eigenvalue that points at what is to be learnt."""

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Histogram, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.problem import GradientDescent, InputError, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.descent.trained_weights import TrainedWeights, trained_weights
from limen.simulation.spectra.spectrum import lanczos, spectrum_from
from limen.simulation.thresholds.hessian import NetworkHessian, alignment, network_hessian
from limen.theory.thresholds.along_training import hessian
from limen.theory.thresholds.hessian_law import HessianLaw

PATHS, SCRAMBLES = 8192, 6
LEVELS = np.linspace(0.04, 0.96, 24)
POINTS, BINS = 241, 48
# Alignments above this many times $d^{-1/3}$, the width of the critical window, belong to outliers clear of the bulk.
CLEAR = 2.5
# A smaller part of a hard direction in the unstable eigenspace is none.
LEAST = 0.01
# Up to this dimension all eigenvalues are computed, beyond it Gauss rules by Lanczos: steps, and random vectors.
LARGEST_DENSE, LANCZOS_STEPS, PROBES = 2000, 100, 4
CAVEAT = "At finite d the unstable share is low: by 4% of its range at d = 240, and less as d grows."


class HessianSpectrum(Experiment):
    r"""Eigenvalues of $\nabla^2\hat R$ after $t$ steps of gradient descent of one neuron on a target that hides; in a
    wider network, of the block of one of its neurons, $m\nabla^2_{\theta_j}\hat R$.

    The Hessian is $H=\frac1n\sum_iG_ix_ix_i^\top$, $G=\frac{a^2}m\ell''\sigma'^2+a\,\ell'\sigma''$. Its bulk is a
    generalised Marchenko–Pastur law, $z=-\frac1\alpha+\delta E\frac G{\delta+G\alpha}$. Since $G$ depends on the hidden
    coordinate $U$ of $x_i$, one eigenvalue $\lambda^*$ can leave the bulk: at $\Psi(z)=-z+\delta
    E\frac{GU^2}{\delta+G\alpha}=0$, with an eigenvector that leans on the hidden direction by $c_*^2$. If
    $\lambda^*<0$, descent runs down that direction; if the outlier drowns in the bulk first, nothing is learnt.

    What to see: at the start both sample sizes have the outlier. Training lifts the bulk and the outlier towards zero;
    with few samples the outlier is swallowed on the way, with many it is still there. $c_*^2$ falls accordingly, and
    with it the part of the hidden direction inside the eigenspace of negative eigenvalues, which has no threshold and
    is blurred little by finite size. Close to the bulk, where $c_*^2$ is not large against $d^{-1/3}$, the two mix at
    finite size and runs that begin to learn lean further: there outliers are not held against runs. Right of the
    bulk, small samples may show an eigenvalue along the neuron itself: it is not informative. Source: Montanari & Wang
    2026.
    """

    name: ClassVar[str] = "hessian-spectrum"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "An outlier of the Hessian points at the hidden direction, or drowns in the bulk."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026", "marchenko1967", "baik2005")
    default_seeds: ClassVar[int] = 48
    compared: ClassVar[tuple[str, ...] | None] = ("eigenvalue", "unstable_share", "outlier", "alignment")
    quick: ClassVar[dict[str, object]] = {"d": 480, "times": (0, 3), "samples_per_dim": (4, 8)}
    quick_seeds: ClassVar[int] = 128

    target: str = Field(
        "4*tanh(z**2/4)", description="target with a hard direction: a name or a formula in z1, z2, ..."
    )
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("gelu", description="activation σ, twice differentiable")
    loss: str = Field("square", description="loss ℓ: square, huber:k, pseudo-huber:k, ...")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    neuron: int = Field(0, ge=0, le=7, description="neuron whose block of the Hessian is shown, from 0 to m - 1")
    samples_per_dim: NumberList = Field((5.0, 12.0), description="samples per dimension δ = n/d, e.g. '5, 12'")
    step: float = Field(0.5, gt=0.0, le=100.0, description="step η")
    times: NumberList = Field((0.0, 4.0, 12.0), description="steps after which to look, ascending, e.g. '0, 4, 12'")
    d: int = Field(300, ge=20, le=10_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "HessianSpectrum":
        for name in ("samples_per_dim", "times"):
            values = np.asarray(getattr(self, name))
            if not 1 <= values.size <= 6 or (np.diff(values) <= 0.0).any():
                raise InputError(f"{name} must be one to six ascending numbers, got {getattr(self, name)}.")
        if self.times[0] < 0.0 or self.times[-1] > 200.0 or any(value != int(value) for value in self.times):
            raise InputError(f"times must be whole numbers of steps from 0 to 200, got {self.times}.")
        if self.samples_per_dim[0] < 1.0 or self.samples_per_dim[-1] > 100.0:
            raise InputError(f"samples_per_dim must lie between 1 and 100, got {self.samples_per_dim}.")
        if self.neuron >= self.width:
            raise InputError(f"neuron must be a whole number from 0 to {self.width - 1}, got {self.neuron}.")
        self.problem(self.samples_per_dim[0])
        return self

    def problem(self, samples_per_dim: float) -> TwoLayer:
        """The learning problem behind the experiment."""
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        return TwoLayer(
            target(self.target, noise=self.noise),
            network(self.width, self.activation, second_layer, bias),
            GradientDescent(self.step),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
        )

    def hard_basis(self) -> np.ndarray:
        """Hard directions (k, r) of the target, at least one."""
        basis = hard_subspace(target(self.target, noise=self.noise)).basis
        if basis.shape[1] == 0:
            raise InputError(f"target must have a hard direction (try 'z**2'), {self.target!r} has none.")
        return basis

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        self.hard_basis()
        laws = [[self._law(delta, step) for step in self.times] for delta in self.samples_per_dim]
        cells = [[self._predicted(law) for law in row] for row in laws]
        dims = ("samples_per_dim", "time")
        dataset = xr.Dataset(
            {
                name: ((*dims, *more), np.array([[cell[name] for cell in row] for row in cells]))
                for name, more in {
                    **dict.fromkeys(("left_edge", "right_edge", "outlier", "alignment", "unstable_share"), ()),
                    "eigenvalue": ("level",),
                    "place": ("point",),
                    "density": ("point",),
                }.items()
            },
            coords=self._coords(),
            attrs={"caveat": CAVEAT},
        )
        dataset.outlier.attrs["undefined"] = "no outlier below the bulk"
        counted = int(np.isfinite(dataset.outlier.values).sum())
        status = f"informative outliers below the bulk in {counted} of {dataset.outlier.size} cases."
        return Findings(dataset, True, status)

    def _law(self, delta: float, step: float) -> HessianLaw:
        law = hessian(self.problem(delta), int(step), self.neuron, PATHS, SCRAMBLES)
        assert isinstance(law, HessianLaw)
        return law

    def _predicted(self, law: HessianLaw) -> dict[str, object]:
        below = law.outliers.size > 0 and law.outliers[0] < law.left_edge
        middle, half = 0.5 * (law.left_edge + law.right_edge), 0.5 * (law.right_edge - law.left_edge)
        place = middle - half * np.cos(np.linspace(0.0, np.pi, POINTS + 2)[1:-1])
        return {
            "left_edge": law.left_edge,
            "right_edge": law.right_edge,
            "outlier": law.outliers[0] if below else np.nan,
            "alignment": law.alignment[0] if below else 0.0,
            "unstable_share": law.unstable_share.mean(),
            "eigenvalue": law.quantile(LEVELS),
            "place": place,
            "density": law.density(place),
        }

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(times=self.times[:2])

    def train(self, seed: int) -> Findings:
        hard = self.hard_basis()
        found = [self._measured(self.problem(delta), hard, seed) for delta in self.samples_per_dim]
        dims = ("seed", "samples_per_dim", "time")
        more = {"eigenvalue": ("level",), "spectrum": ("index",)}
        dataset = xr.Dataset(
            {name: ((*dims, *more.get(name, ())), np.array([row[name] for row in found])[None]) for name in found[0]},
            coords={"seed": [seed], **self._coords()},
            attrs={"d": self.d},
        )
        status = f"{'dense ' * (self.d <= LARGEST_DENSE)}Hessians of trained networks in d = {self.d}."
        return Findings(dataset, True, status)

    def _measured(self, problem: TwoLayer, hard: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        trained = trained_weights(problem, self.times, self.d, seed)
        cells = [self._eigenvalues(problem, trained, hard.T @ trained.directions, i) for i in range(len(self.times))]
        return {name: np.array([cell[name] for cell in cells]) for name in cells[0]}

    def _eigenvalues(self, problem: TwoLayer, trained: TrainedWeights, hard: np.ndarray, at: int) -> dict[str, object]:
        layers = (trained.first_layer[at], trained.second_layer[at], trained.bias)
        functions = (problem.network.activation, problem.loss)
        matrix = network_hessian(trained.inputs, trained.labels, *layers, *functions, self.neuron)
        if self.d > LARGEST_DENSE:
            return self._by_lanczos(matrix, hard)
        values, vectors = matrix.eigenspace()
        along = alignment(vectors, hard)
        return {
            "outlier": values[0],
            "alignment": along[0],
            "unstable_share": along[values < 0.0].sum() / len(hard),
            "eigenvalue": np.quantile(values, LEVELS, method="hazen"),
            "spectrum": values,
        }

    def _by_lanczos(self, matrix: NetworkHessian, hard: np.ndarray) -> dict[str, object]:
        """The same from products with vectors: Gauss rules as random vectors and as the hard directions see them."""
        bottom = matrix.bottom(1)
        bulk = lanczos(matrix.operator, self.d, LANCZOS_STEPS, PROBES)
        shares = []
        for direction in hard:
            nodes, weights = spectrum_from(matrix.operator, direction, LANCZOS_STEPS)
            shares.append(weights[nodes < 0.0].sum())
        return {
            "outlier": bottom.values[0],
            "alignment": alignment(bottom.vectors, hard)[0],
            "unstable_share": np.mean(shares),
            "eigenvalue": bulk.quantile(LEVELS),
            "spectrum": np.concatenate([bottom.values, bulk.quantile((np.arange(1, 400) + 0.5) / 400)]),
        }

    def _coords(self) -> dict[str, object]:
        return {"samples_per_dim": list(self.samples_per_dim), "time": list(self.times), "level": LEVELS}

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """Cases without an outlier clear of the bulk count as 0 on both sides, and so do shares below a hundredth."""
        clear = theory.dataset.alignment > CLEAR * self.d ** (-1.0 / 3.0)

        def seen(result: Result) -> Result:
            parts = {name: result.dataset[name].where(clear, 0.0) for name in ("outlier", "alignment")}
            parts["unstable_share"] = result.dataset.unstable_share.where(theory.dataset.unstable_share > LEAST, 0.0)
            return replace(result, dataset=result.dataset.assign(parts))

        return compare(seen(theory), seen(simulation), self.compared)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        ends = sorted({0, len(self.times) - 1})
        panels = []
        for i, (name, label) in enumerate(
            (("alignment", r"alignment $c_*^2$"), ("unstable_share", r"part of $u$ on $\lambda<0$"))
        ):
            row = 0 if i == 0 else len(self.samples_per_dim) - 1
            panels += [self._density(theory, simulation, row, at) for at in ends]
            panels.append(Panel("step $t$", label, self._along(theory, simulation, name), y_range=(-0.03, 1.03)))
        model = f"{typeset(self.activation)} neuron, $y=$ {typeset(self.target)}"
        which = f"neuron {self.neuron} of {self.width}, " if self.width > 1 else "one "
        title = f"Hessian of {which}{model}, $\\eta={self.step:g}$, $d={self.d}$"
        return Figure(panels, title=title)

    def _density(self, theory: Result, simulation: Result | None, row: int, at: int) -> Panel:
        cell = theory.dataset.isel(samples_per_dim=row, time=at)
        top, marks = 1.35 * float(np.nanmax(cell.density.values)), list[Mark]()
        if simulation is not None:
            spectrum = simulation.dataset.spectrum.values[:, row, at]
            heights, edges = np.histogram(spectrum, BINS, density=True)
            marks.append(Histogram(edges, heights, f"{counted(len(spectrum), 'run')}"))
            lowest = spectrum[:, 0]
            marks.append(Points(lowest, np.full(lowest.shape, 0.04 * top), label="smallest", colour=2))
        marks.append(Line(cell.place.values, cell.density.values, "theory", colour=1))
        if np.isfinite(cell.outlier):
            marks.append(Threshold(r"$\lambda^*$", x=float(cell.outlier)))
        title = f"$\\delta={self.samples_per_dim[row]:g}$, $t={self.times[at]:g}$"
        return Panel(r"eigenvalue $\lambda$", r"density $\rho(\lambda)$", marks, title, y_range=(0.0, top))

    def _along(self, theory: Result, simulation: Result | None, name: str) -> list[Mark]:
        marks: list[Mark] = []
        for colour, delta in enumerate(self.samples_per_dim):
            values = theory.dataset[name].values[colour]
            marks.append(Line(self.times, values, f"$\\delta={delta:g}$", colour, spots=True))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset[name].values[:, colour])
                marks.append(Points(self.times, mean, error, colour=colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        """Of the last step, at every number of samples."""
        last = over_seeds(dataset.isel(time=-1))
        words = {
            "left_edge": "left edge of the bulk of the Hessian",
            "outlier": "eigenvalue below the bulk",
            "alignment": "alignment of its eigenvector with the hard directions",
            "unstable_share": "part of a hard direction in the negative eigenspace",
        }
        return {
            f"{name} δ={delta:g}": Number(last[name].values[i], f"{words[name]}, δ = {delta:g}")
            for i, delta in enumerate(self.samples_per_dim)
            for name in words
            if name in last
        }

    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        found = super().headline(theory, simulation)
        if simulation is not None:
            # A smallest eigenvalue there always is; it is an outlier where theory says so.
            known = {key for key, value in found["theory"].items() if np.isfinite(value)}
            found["simulation"] = {key: value for key, value in found["simulation"].items() if key in known}
        return found
