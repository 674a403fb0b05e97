"""How many samples per dimension make a hidden direction learnable, step by step."""

from typing import ClassVar, Literal, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.link import hard_subspace
from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.thresholds.hessian import alignment, network_hessian
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.along_training import hessian
from limen.theory.thresholds.feature_learning import CRITERIA, feature_learning
from limen.theory.thresholds.hessian_law import HessianLaw
from limen.theory.thresholds.information_theoretic import threshold_if_known

PATHS, SCRAMBLES = 4096, 2
WITNESS_PATHS, WITNESS_SCRAMBLES = 8192, 3
MOST_TIMES = 8
LABELS = {"trimmed": "outlier below the bulk", "zero-level": "unstable at zero", "growth": "growing overlap"}


class FeatureThreshold(Experiment):
    r"""$\delta^*(t)$: samples per dimension from which descent can still leave the saddle after $t$ steps.

    A hard direction is learnt when the Hessian pushes towards it. Three readings of that, on the same paths of the
    mean-field theory: an informative outlier of the Hessian below bulk and zero (`trimmed`); the direction unstable at
    the origin, $\mathrm{Re}\,u^\top(H-i\epsilon)^{-1}u<0$ (`zero-level`); an overlap that still grows with time
    (`growth`). $\delta_{\mathrm{alg}}$ and $\delta_{\mathrm{IT}}$ are what the best known algorithm and what any
    estimator need on the same target.

    What to see: training flattens the landscape, so that $\delta^*$ rises with $t$, far above $\delta_{\mathrm{alg}}$:
    gradient descent that does not start well soon needs ten times the samples. With a loss of bounded slope the curves
    settle, with square loss and unbounded labels (`--loss square`) they do not, and only the bracket is an answer. The
    other panels are the witness at finite size: after a few steps from a start without overlap, the resolvent of the
    empirical Hessian along the hidden direction changes sign where theory says, and the lowest eigenvector turns
    towards it ($c_*^2$; rounded at finite $d$). In a wider network a direction counts as soon as the block of one
    neuron shows it; the witness is the block of the first neuron. Source: Montanari & Wang 2026.
    """

    name: ClassVar[str] = "feature-threshold"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "Samples needed to learn a hidden direction, by three readings of the Hessian."
    citations: ClassVar[tuple[str, ...]] = ("montanari2026",)
    default_seeds: ClassVar[int] = 64
    compared: ClassVar[tuple[str, ...] | None] = ("unstable_share", "hard_resolvent")
    quick: ClassVar[dict[str, object]] = {"d": 400, "steps": 2, "ratios": (2, 6)}
    quick_seeds: ClassVar[int] = 192

    target: str = Field("z**2 - 1", description="target with a hard direction: a name or a formula in z1, z2, ...")
    noise: float = Field(0.0, ge=0.0, le=10.0, description="variance of the label noise")
    activation: str = Field("gelu", description="activation σ, twice differentiable")
    loss: str = Field("huber:2", description="loss ℓ: square, huber:k, pseudo-huber:k, ...")
    width: int = Field(1, ge=1, le=8, description="neurons m")
    second_layer: NumberList = Field((1.0,), description="second layer a, fixed: one number, or one per neuron")
    bias: NumberList = Field((0.0,), description="biases b, fixed: one number, or one per neuron")
    step: float = Field(1.5, gt=0.0, le=100.0, description="step η")
    steps: int = Field(40, ge=2, le=150, description="steps of gradient descent")
    criterion: Literal["trimmed", "zero-level", "growth"] = Field("trimmed", description="criterion of the headline")
    ratios: NumberList = Field((2.0, 3.0, 4.0, 6.0, 9.0), description="samples per dimension δ of the witness")
    witness_step: int = Field(2, ge=0, le=100, description="step of the witness")
    epsilon: float = Field(0.15, ge=0.01, le=1.0, description="distance ε to the axis of the witness's resolvent")
    d: int = Field(250, ge=20, le=2_000, description="dimension of the witness")

    @model_validator(mode="after")
    def _check(self) -> "FeatureThreshold":
        ratios = np.asarray(self.ratios)
        if not 2 <= ratios.size <= 20 or (np.diff(ratios) <= 0.0).any() or not 1.0 <= ratios[0] <= ratios[-1] <= 100.0:
            raise InputError(f"ratios must be 2 to 20 ascending numbers between 1 and 100, got {self.ratios}.")
        self.problem(self.ratios[0])
        return self

    def problem(self, samples_per_dim: float) -> TwoLayer:
        """The learning problem behind the experiment, from a start without overlap with the target."""
        link = target(self.target, noise=self.noise)
        second_layer, bias = (values[0] if len(values) == 1 else values for values in (self.second_layer, self.bias))
        return TwoLayer(
            link,
            network(self.width, self.activation, second_layer, bias),
            GradientDescent(self.step),
            samples_per_dim=samples_per_dim,
            loss=self.loss,
            start=OverlapStart(overlap=0.0),
        )

    def times(self) -> np.ndarray:
        """The start and up to eight steps, evenly in their logarithm."""
        return np.unique(np.rint([0.0, *np.geomspace(1.0, self.steps, MOST_TIMES)]))

    def hard_basis(self) -> np.ndarray:
        """Hard directions (k, r) of the target, at least one."""
        basis = hard_subspace(target(self.target, noise=self.noise)).basis
        if basis.shape[1] == 0:
            raise InputError(f"target must have a hard direction (try 'z**2'), {self.target!r} has none.")
        return basis

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        self.hard_basis()
        link = target(self.target, noise=self.noise)
        delta_it = threshold_if_known(link)
        curve = feature_learning(self.problem(1.0), self.times(), self.criterion, PATHS, SCRAMBLES)
        witness = [self._predicted(ratio) for ratio in self.ratios]
        dataset = xr.Dataset(
            {
                **{name: ("ratio", np.array([one[name] for one in witness])) for name in witness[0]},
                "threshold": ("time", curve.dataset.threshold.values[:, 0]),
                "all_criteria": (("criterion", "time"), curve.dataset.all_criteria.values[:, :, 0]),
                "all_criteria_spread": (("criterion", "time"), curve.dataset.all_criteria_spread.values[:, :, 0]),
                "bracket": ("bound", curve.dataset.bracket.values),
                "delta_alg": ((), algorithmic(link)),
                "delta_it": ((), np.nan if delta_it is None else delta_it),
            },
            coords={"ratio": list(self.ratios), "time": self.times(), "criterion": list(CRITERIA)},
        )
        for name in ("threshold", "all_criteria", "all_criteria_spread", "bracket", "delta_alg", "delta_it"):
            dataset[name].attrs["undefined"] = "no number of samples is known to be enough"
        return Findings(dataset, curve.ok, curve.status, {**curve.statistics})

    def _predicted(self, ratio: float) -> dict[str, float]:
        law = hessian(self.problem(ratio), self.witness_step, paths=WITNESS_PATHS, scrambles=WITNESS_SCRAMBLES)
        assert isinstance(law, HessianLaw)
        below = law.outliers.size > 0 and law.outliers[0] < law.left_edge
        resolvent = law.hard_resolvent(1j * self.epsilon)
        return {
            "alignment": float(law.alignment[0]) if below else 0.0,
            "unstable_share": float(law.unstable_share.mean()),
            "hard_resolvent": float(np.trace(resolvent).real / len(resolvent)),
        }

    def first_look(self) -> tuple[Self, Findings] | None:
        return self.coarser(steps=min(self.steps, 4), ratios=self.ratios[:1] + self.ratios[1:][-1:])

    def train(self, seed: int) -> Findings:
        hard = self.hard_basis()
        found = [self._measured(ratio, hard, seed) for ratio in self.ratios]
        dataset = xr.Dataset(
            {name: (("seed", "ratio"), np.array([[one[name] for one in found]])) for name in found[0]},
            coords={"seed": [seed], "ratio": list(self.ratios)},
            attrs={"d": self.d},
        )
        status = f"dense Hessians after {self.witness_step} steps in d = {self.d}."
        return Findings(dataset, True, status)

    def _measured(self, ratio: float, hard: np.ndarray, seed: int) -> dict[str, float]:
        problem = self.problem(ratio)
        trained = trained_weights(problem, [self.witness_step], self.d, seed)
        layers = (trained.first_layer[0], trained.second_layer[0], trained.bias)
        functions = (problem.network.activation, problem.loss)
        values, vectors = network_hessian(trained.inputs, trained.labels, *layers, *functions, neuron=0).eigenspace()
        along = alignment(vectors, hard.T @ trained.directions)
        return {
            "alignment": float(along[0]),
            "unstable_share": float(along[values < 0.0].sum() / hard.shape[1]),
            "hard_resolvent": float(along @ (values / (values**2 + self.epsilon**2)) / hard.shape[1]),
        }

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        rates = self.step * self.times()
        curves: list[Mark] = []
        for colour, name in enumerate(CRITERIA):
            middle, spread = (theory.dataset[part].values[colour] for part in ("all_criteria", "all_criteria_spread"))
            known = np.isfinite(middle) & (middle > 1.0)
            curves.append(Line(rates[known], middle[known], LABELS[name], colour, spots=True))
            curves.append(Band(rates[known], (middle - spread)[known], (middle + spread)[known], colour=colour))
        alg, it = float(theory.dataset.delta_alg), float(theory.dataset.delta_it)
        if np.isclose(alg, it, rtol=0.02):
            curves.append(Threshold(r"$\delta_{\mathrm{alg}}=\delta_{\mathrm{IT}}$", y=alg))
        else:
            lines = ((r"$\delta_{\mathrm{alg}}$", alg), (r"$\delta_{\mathrm{IT}}$", it))
            curves += [Threshold(label, y=value) for label, value in lines if np.isfinite(value)]
        witness_label = r"samples per dimension $\delta=n/d$"
        resolvent = r"$\mathrm{Re}\,u^\top(H-i\epsilon)^{-1}u$"
        shares = [
            *self._marks(theory, simulation, "unstable_share", r"part of $u$ on $\lambda<0$", 0),
            *self._marks(theory, simulation, "alignment", r"alignment $c_*^2$", 1),
        ]
        zero = self._marks(theory, simulation, "hard_resolvent", "", 2)
        neurons = "One neuron" if self.width == 1 else f"$m={self.width}$ neurons"
        model = f"{neurons}, {typeset(self.activation)}, {typeset(self.loss)} loss, $y=$ {typeset(self.target)}"
        title = f"{model}, $\\eta={self.step:g}$"
        step = f"after {self.witness_step} steps, $d={self.d}$"
        return Figure(
            [
                Panel(r"time $\eta t$", r"threshold $\delta^*(t)$", curves, x_scale="symlog"),
                Panel(witness_label, f"resolvent {resolvent}", [*zero, Threshold("stable above", y=0.0)], step),
                Panel(witness_label, "part of the hard direction", shares, step, y_range=(0.0, 1.0)),
            ],
            title=title,
        )

    def _marks(self, theory: Result, simulation: Result | None, name: str, label: str, colour: int) -> list[Mark]:
        marks: list[Mark] = [Line(self.ratios, theory.dataset[name].values, label, colour, spots=True)]
        if simulation is not None:
            mean, error = mean_and_error(simulation.dataset[name].values)
            marks.append(Points(self.ratios, mean, error, colour=colour))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        resolvent, step = over_seeds(dataset.hard_resolvent).values, self.witness_step
        words = f"samples per dimension at which the Hessian shows the direction, step {step}"
        found = {"witness_crossing": Number(self._crossing(resolvent), words)}
        if "threshold" not in dataset:
            return found
        low, high = dataset.bracket.values
        return {
            "threshold": Number(dataset.threshold.values[-1], "threshold δ*: samples per dimension, last step"),
            "bracket_low": Number(low, "lower end of the bracket of δ*"),
            "bracket_high": Number(high, "upper end of the bracket of δ*"),
            "delta_alg": Number(dataset.delta_alg, "δ of the best spectral method"),
            "delta_it": Number(dataset.delta_it, "δ from which on the direction can be known at all"),
            **found,
        }

    def _crossing(self, resolvent: np.ndarray) -> float:
        """The ratio at which the resolvent first turns negative; infinite if it does not, the first if it starts so."""
        negative = np.flatnonzero(resolvent < 0.0)
        if negative.size == 0:
            return float("inf")
        i = int(negative[0])
        if i == 0:
            return self.ratios[0]
        part = resolvent[i - 1] / (resolvent[i - 1] - resolvent[i])
        return self.ratios[i - 1] + part * (self.ratios[i] - self.ratios[i - 1])
