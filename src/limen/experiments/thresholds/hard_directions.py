"""Hard directions: what gradient descent cannot see at any number of samples, it finds by amplified chance."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.link.hard_subspace import HardSubspace
from limen.problem import GradientDescent, InputError, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.descent.many_targets import many_targets
from limen.theory.descent import solve as descent

PATHS, SCRAMBLES = 8192, 5


class HardDirections(Experiment):
    r"""A small network trained by gradient descent on a target with a direction that no statistic of the labels sees.

    A direction $u$ of the target is hard if $E[u\cdot z\mid y,z_\perp]=0$; easy ones are climbed by a staircase of
    moments, whose singular values the last panel shows. As $d\to\infty$ overlaps with easy directions follow
    deterministic curves and those with hard ones vanish, but $\vartheta(t)=\sqrt d\,\theta(t)\cdot u$ does not: it is a
    Gaussian process with a linear memory,
    $$\vartheta(t+1)=\vartheta(t)-\eta\sum_{s\le t}\tilde R(t,s)\vartheta(s)+\eta\tilde Q(t),$$
    that amplifies the chance overlap of the start by $\Phi_0(t)=\partial\vartheta(t)/\partial\vartheta(0)$ and adds the
    noise of the sample; $C_u(t,t)=E\,\vartheta(t)^2$.

    What to see: the easy overlap is there at once and alike in every run; $\sqrt{C_u}$ grows several times beyond
    its start, faster than $\Phi_0$, since the noise is amplified too. All of it is of order $d^{-1/2}$, and becomes
    learning when $\sqrt{C_u/(d\,C_\theta)}$ nears $\frac12$: take more steps or a smaller $d$ and the runs leave the
    linear theory. With several neurons lengths and amplification are means over them. Source: Montanari & Wang 2026
    for the setting; the staircase of Abbe et al. 2022.
    """

    name: ClassVar[str] = "hard-directions"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "Overlaps with hard directions are amplified chance, with a Gaussian law of their own."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026", "abbe2022")
    default_seeds: ClassVar[int] = 40
    compared: ClassVar[tuple[str, ...] | None] = ("hard_length", "amplification", "easy_overlap")
    quick: ClassVar[dict[str, object]] = {
        "d": 400, "steps": 2, "runs": 200, "target": "tanh(z1) + 2*tanh(z2**2/2)"
    }  # fmt: skip
    quick_seeds: ClassVar[int] = 320

    target: str = Field("z1 + z2**2", description="target with a hard direction: a name or a formula in z1, z2, ...")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("gelu", description="activation σ, twice differentiable")
    loss: str = Field("huber:1", description="loss ℓ: square, huber:k, pseudo-huber:k, ...")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    samples_per_dim: float = Field(6.0, gt=0.0, le=100.0, description="samples per dimension δ = n/d")
    step: float = Field(1.0, gt=0.0, le=100.0, description="step η")
    steps: int = Field(8, ge=1, le=100, description="steps of gradient descent")
    runs: int = Field(
        200,
        ge=1,
        le=1_000,
        description="targets per seed, hidden in the same inputs, each learnt alone; at most d/k count",
    )
    d: int = Field(400, ge=10, le=5_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "HardDirections":
        self.problem()
        return self

    def problem(self) -> TwoLayer:
        """The learning problem behind the experiment."""
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        return TwoLayer(
            target(self.target, noise=self.noise),
            network(self.width, self.activation, second_layer, bias),
            GradientDescent(self.step),
            samples_per_dim=self.samples_per_dim,
            loss=self.loss,
        )

    def times(self) -> np.ndarray:
        """Every step."""
        return np.arange(self.steps + 1.0)

    def subspace(self) -> HardSubspace:
        """Easy and hard directions of the target; at least one must be hard."""
        found = hard_subspace(target(self.target, noise=self.noise))
        if found.dimension == 0:
            raise InputError(f"target must have a hard direction (try 'z**2'), {self.target!r} has none.")
        return found

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        subspace = self.subspace()
        result = descent.solve(self.problem(), self.times(), PATHS, SCRAMBLES)
        variance, amplification = (
            np.einsum("tjjaa->ta", result.dataset[name].values) / self.width
            for name in ("hard_variance", "amplification")
        )
        dataset = xr.Dataset(
            {
                "hard_length": ("time", np.sqrt(variance.sum(axis=1))),
                "amplification": ("time", amplification.mean(axis=1)),
                "easy_overlap": (("time", "neuron", "easy"), result.dataset.overlap.values @ subspace.easy_basis),
                "square_length": ("time", np.einsum("tjj->t", result.dataset.gram.values) / self.width),
                "singular_value": (
                    ("stage", "place"),
                    _padded(subspace.singular_values),
                    {"undefined": "the stage has fewer directions"},
                ),
                "singular_error": ("stage", np.array(subspace.errors)),
            },
            coords={"time": self.times()},
        )
        status = f"{subspace.dimension} of {len(subspace.basis)} directions are hard; {result.status}"
        return Findings(dataset, result.ok, status, result.statistics)

    def train(self, seed: int) -> Findings:
        problem, subspace = self.problem(), self.subspace()
        runs = min(self.runs, self.d // problem.target.latents)
        found = many_targets(problem, self.times(), self.d, seed, runs)
        hard, easy = (found.overlap @ basis for basis in (subspace.basis, subspace.easy_basis))
        start = hard[:, :1]
        means = {
            "hard_length": (("time",), np.sqrt(self.d * (hard**2).sum(axis=3).mean(axis=(0, 2)))),
            "amplification": (
                ("time",),
                (hard * start).sum(axis=3).mean(axis=(0, 2)) / (start**2).sum(axis=3).mean(),
            ),
            # Of one run: it hardly varies, and the mean of all would only show its correction of order 1/d.
            "easy_overlap": (("time", "neuron", "easy"), easy[0]),
            "square_length": (("time",), found.square_length.mean(axis=(0, 2))),
        }
        dataset = xr.Dataset(
            {name: (("seed", *dims), values[None]) for name, (dims, values) in means.items()},
            coords={"seed": [seed], "time": self.times()},
            attrs={"d": self.d},
        )
        finite = bool(np.isfinite(dataset.square_length.values).all())
        status = f"{runs} runs in d = {self.d}." if finite else "training diverged: take a smaller step."
        return Findings(dataset, finite, status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        has_easy = theory.dataset.sizes["easy"] > 0
        return compare(theory, simulation, [n for n in self.compared or () if has_easy or n != "easy_overlap"])

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        hard = [
            *self._marks(theory, simulation, "hard_length", r"$\sqrt{C_u(t,t)}$", 0),
            *self._marks(theory, simulation, "amplification", r"amplification $\Phi_0(t)$", 1),
        ]
        easy = self._marks(theory, simulation, "square_length", r"$|\theta|^2$", 1)
        for i in range(theory.dataset.sizes["easy"]):
            for j in range(self.width):
                label = rf"$\theta\cdot e_{i + 1}$" if j == 0 else ""
                easy += self._marks(theory, simulation, "easy_overlap", label, 2 + i, (j, i))
        return Figure(
            [
                Panel("step $t$", r"hard overlap $\sqrt{d}\,|P_U\theta|$", hard),
                Panel("step $t$", "easy overlaps and squared length", easy),
                self._staircase(theory),
            ],
            title=f"{typeset(self.activation)}, $m={self.width}$, $y=$ {typeset(self.target)}, "
            f"$n/d={self.samples_per_dim:g}$, $d={self.d}$",
        )

    def _marks(
        self, theory: Result, simulation: Result | None, name: str, label: str, colour: int, at: tuple[int, ...] = ()
    ) -> list[Mark]:
        times, index = self.times(), (slice(None), *at)
        marks: list[Mark] = [Line(times, theory.dataset[name].values[index], label, colour)]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset[name].values)
            some = thin(times.size)
            marks.append(Points(times[some], mean[index][some], error[index][some], colour=colour))
        return marks

    def _staircase(self, theory: Result) -> Panel:
        values = theory.dataset.singular_value.values
        marks: list[Mark] = []
        for stage, row in enumerate(values):
            row = row[np.isfinite(row)]
            marks += [Line([stage + 1.0], [value], colour=stage, spots=True) for value in row]
        marks.append(Threshold("counts as zero", y=float(theory.dataset.singular_error.values.max())))
        stages = (0.0, len(values) + 1.0)
        return Panel("stage of the staircase", "singular values", marks, y_scale="log", x_range=stages)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = over_seeds(dataset.isel(time=-1))
        hard, square = float(last.hard_length), float(last.square_length)
        found = {
            "hard_length": Number(hard, "length along the hard directions after training, in units of d^(-1/2)"),
            "amplification": Number(last.amplification, "growth of a small overlap with the hard directions"),
            "hard_cosine": Number(hard / np.sqrt(self.d * square), "cosine with the hard directions after training"),
        }
        for stage, row in enumerate(dataset.singular_value.values if "singular_value" in dataset else ()):
            words = f"smallest singular value of the test for hard directions, stage {stage + 1}"
            found[f"smallest_singular_value_{stage + 1}"] = Number(np.nanmin(row), words)
        return found


def _padded(rows: tuple[np.ndarray, ...]) -> np.ndarray:
    """Rows of different lengths as one array, filled up with NaN."""
    padded = np.full((len(rows), max(row.size for row in rows)), np.nan)
    for i, row in enumerate(rows):
        padded[i, : row.size] = row
    return padded
