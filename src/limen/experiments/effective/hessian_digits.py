"""The Hessian of a network trained on real images: a bulk near zero and one outlier for each class."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number
from limen.gaussian import covariance_dual, covariance_dual_prime
from limen.precision import in_double
from limen.result import Findings, Result
from limen.simulation.effective.classifier_hessian import class_mean_eigenvalues, hessian_operator
from limen.simulation.kernel.classifier import initial_weights, train_classifier
from limen.simulation.kernel.digits import CLASSES, load_digits, split_digits
from limen.simulation.spectra.spectrum import lanczos, top_eigenspace

STAGES = np.array([0, 1])
GROUPS = np.array([0, 1])
RANKS = np.arange(1, 2 * CLASSES + 1)
CAVEAT = "The initial eigenvalues are those of infinite width: a finite one changes them by a part of order 1/width."


class HessianDigits(Experiment):
    r"""Eigenvalues of $\nabla^2\hat R$ over all weights of a ReLU network on digits, before and after training.

    Nearly all eigenvalues crowd around zero; ten, one for each class, stand far above. With the square loss the
    Hessian is nearly the Gauss-Newton matrix $\frac1n\sum_{i,a}g_{ia}g_{ia}^\top$, $g_{ia}=\nabla f_a(x_i)$, whose
    nonzero eigenvalues are those of the tangent kernel matrix of all samples and outputs, divided by $n$.

    Before training, infinite width predicts the outliers: the ten outputs have one and the same kernel $\Theta$, so
    that its largest eigenvalue $\lambda_1(\Theta)/n$, which belongs to the mean image, comes ten times, and all others
    share the rest of the trace $\frac{10}n\mathrm{tr}\,\Theta$. `initial_mean` is the mean of the ten largest ones
    (group 0) and of all others (group 1); the theory averages over eight draws of images.

    After training the classes predict them: the Gauss-Newton matrix is looked at only from the at most 100 mean
    gradients $\bar g_{ca}$ of each output over each class, by first derivatives alone. `class_share` is the mean of the
    ten largest eigenvalues seen so, divided by the mean of those measured by Lanczos' method on products of the true
    Hessian with vectors; it is 1 if the outliers live in the space of the classes and the residuals' part of the
    Hessian is gone. The first prediction leaves out what a finite width adds, of relative order 1/width.

    What to see: ten outliers before and after, a factor 2 to 3 above the eleventh eigenvalue; training lowers them.
    Sources: Sagun et al. 2017; Papyan 2020; Jacot, Gabriel & Hongler 2018.
    """

    name: ClassVar[str] = "hessian-digits"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The Hessian of a network trained on digits has a bulk and one outlier per class."
    citations: ClassVar[tuple[str, ...]] = ("sagun2017", "papyan2020", "jacot2018")
    size_field: ClassVar[str] = "width"
    default_seeds: ClassVar[int] = 8
    compared: ClassVar[tuple[str, ...] | None] = ("initial_mean", "class_share")
    quick: ClassVar[dict[str, float]] = {"n": 60, "width": 16, "lanczos_steps": 25, "steps": 50}
    quick_seeds: ClassVar[int] = 96

    n: int = Field(150, ge=30, le=1200, description="training images n, of 1797")
    width: int = Field(160, ge=4, le=1024, description="width of the hidden layers")
    depth: int = Field(2, ge=2, le=6, description="weight layers of the network")
    steps: int = Field(400, ge=1, le=50_000, description="gradient steps of training")
    lanczos_steps: int = Field(40, ge=25, le=300, description="Lanczos steps for the density of eigenvalues")

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        levels = self._infinite_width()
        dataset = xr.Dataset(
            {
                "infinite_width_eigenvalue": ("rank", levels[(RANKS - 1) // CLASSES]),
                "initial_mean": ("group", self._initial_means(levels[0])),
                "class_share": ((), 1.0),
                "outliers": ("stage", [float(CLASSES)] * len(STAGES)),
            },
            {"rank": RANKS, "group": GROUPS, "stage": STAGES},
            attrs={"caveat": CAVEAT},
        )
        return Findings(dataset)

    def train(self, seed: int) -> Findings:
        digits = load_digits()
        split = split_digits(seed, self.n)
        images, labels = digits.inputs[split.train], split.train_labels
        start = self._start(seed)
        trained = train_classifier(start, images, labels, "square", rate=0.2, steps=self.steps)
        parameters, places = sum(matrix.size for matrix in start), self._places()
        tops, densities, traces = [], [], []
        for weights in (start, trained.weights):
            product = hessian_operator(weights, images, labels, "square")
            tops.append(top_eigenspace(product, parameters, RANKS.size, seed).values)
            spectrum = lanczos(product, parameters, self.lanczos_steps, 2, seed)
            densities.append(spectrum.density(places, 1.5 * (places[1] - places[0])).mean)
            traces.append(parameters * float(spectrum.moments(1).mean[0]))
        seen = class_mean_eigenvalues(trained.weights, images, labels)[: RANKS.size]
        outliers = tops[0][:CLASSES]
        others = (traces[0] - outliers.sum()) / (parameters - CLASSES)
        dataset = xr.Dataset(
            {
                "eigenvalue": (("seed", "stage", "rank"), [tops]),
                "class_mean_eigenvalue": (("seed", "rank"), [seen]),
                "initial_mean": (("seed", "group"), [[outliers.mean(), others]]),
                "class_share": ("seed", [seen[:CLASSES].mean() / tops[1][:CLASSES].mean()]),
                "density": (("seed", "stage", "place"), [densities]),
                "train_error": ("seed", [trained.error]),
                "test_error": ("seed", [trained.error_on(digits.inputs[split.test], digits.labels[split.test])]),
            },
            {"seed": [seed], "stage": STAGES, "group": GROUPS, "rank": RANKS, "place": places},
            attrs={"d": self.width},
        )
        return Findings(dataset)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        ranks = RANKS.astype(float)
        marks: list[Mark] = [Line(ranks, theory.dataset.infinite_width_eigenvalue.values, "infinite width, start")]
        top = 1.25 * float(theory.dataset.initial_mean[0])
        panels = [Panel("rank of the eigenvalue", r"Hessian eigenvalue $\lambda$", marks, y_range=(0.0, top))]
        if simulation is not None:
            found = simulation.dataset
            marks.append(Line(ranks, found.class_mean_eigenvalue.values.mean(axis=0), "class means, trained", colour=1))
            for stage, label in enumerate(("Hessian, start", "Hessian, trained")):
                mean, error = mean_and_error(found.eigenvalue.values[:, stage])
                marks.append(Points(ranks, mean, error, label, stage))
            densities = found.density.values.mean(axis=0)
            curves: list[Mark] = [
                Line(self._places(), densities[stage], word, stage) for stage, word in enumerate(("start", "trained"))
            ]
            highest = float(densities.max())
            panels.append(
                Panel(
                    r"Hessian eigenvalue $\lambda$", r"density $\rho(\lambda)$ of eigenvalues", curves, y_scale="log",
                    y_range=(1e-6 * highest, 3.0 * highest),
                )
            )  # fmt: skip
        marks.append(Threshold(f"{CLASSES} classes", x=CLASSES + 0.5))
        key = "Line of infinite width: theory."
        if simulation is not None:
            seeds = counted(len(simulation.seeds), "seed")
            key += f" Points, class means and densities: simulation, mean (and standard error) over {seeds}."
        return Figure(
            panels,
            key=key,
            title=f"Hessian on {self.n} digits, {self.depth} weight layers of width {self.width}, square loss",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        if "outliers" in dataset:
            before, after = dataset.outliers.values
        else:
            before, after = (_above_widest_gap(row) for row in dataset.eigenvalue.values.mean(axis=0))
        return {
            "outliers_before": Number(float(before), "Hessian eigenvalues beyond the rest before training"),
            "outliers_after": Number(float(after), "Hessian eigenvalues beyond the rest after training"),
            "initial_outlier": Number(
                float(dataset.initial_mean.isel(group=0).mean()),
                f"mean of the {CLASSES} largest Hessian eigenvalues before training",
            ),
            "class_share": Number(
                float(dataset.class_share.mean()),
                f"part of the {CLASSES} largest eigenvalues explained by class means after training",
            ),
        }

    def _initial_means(self, largest: float) -> list[float]:
        parameters = sum(matrix.size for matrix in self._start(0))
        # On images of one norm the kernel's diagonal is the same for all: 2 per weight layer.
        trace = CLASSES * float(infinite_width_kernel(load_digits().inputs[:1], self.depth)[0, 0])
        return [largest, (trace - CLASSES * largest) / (parameters - CLASSES)]

    def _start(self, seed: int) -> tuple[np.ndarray, ...]:
        return initial_weights(seed, load_digits().inputs.shape[1], self.width, self.depth, CLASSES)

    def _infinite_width(self) -> np.ndarray:
        """The two largest eigenvalues of the kernel matrix over n, averaged over draws of images."""
        draws = [load_digits().inputs[split_digits(seed, self.n).train] for seed in range(8)]
        return np.mean(
            [np.linalg.eigvalsh(infinite_width_kernel(images, self.depth))[:-3:-1] / self.n for images in draws], axis=0
        )

    def _places(self) -> np.ndarray:
        """Where the density is evaluated: around zero and beyond the outliers expected, the same for every seed."""
        top = 1.3 * float(_largest_level(self.n, self.depth))
        return np.linspace(-0.25 * top, top, 161)


def _above_widest_gap(eigenvalues: np.ndarray) -> float:
    """How many eigenvalues, descending, stand above the largest ratio of neighbours."""
    return float((eigenvalues[:-1] / eigenvalues[1:]).argmax() + 1)


@lru_cache(maxsize=8)
def _largest_level(samples: int, depth: int) -> float:
    kernel = infinite_width_kernel(load_digits().inputs[split_digits(0, samples).train], depth)
    return float(np.linalg.eigvalsh(kernel)[-1]) / samples


@in_double
def infinite_width_kernel(inputs: np.ndarray, depth: int) -> np.ndarray:
    r"""The tangent kernel $\Theta$ of the infinitely wide network, per output, on `inputs` (n, d): (n, n).

    $\Sigma^{(1)}=\Theta^{(1)}=\frac2dx^\top x'$, $\Sigma^{(k+1)}=2E[\sigma\sigma]$,
    $\Theta^{(k+1)}=2E[\sigma'\sigma']\,\Theta^{(k)}+\Sigma^{(k+1)}$ (Jacot, Gabriel & Hongler 2018).
    """
    covariance = 2.0 * inputs @ inputs.T / inputs.shape[1]
    tangent = covariance
    for _ in range(depth - 1):
        own = np.diagonal(covariance)
        first, second = own[:, None], own[None, :]
        slopes = 2.0 * covariance_dual_prime("relu", first, second, covariance)
        covariance = 2.0 * covariance_dual("relu", first, second, covariance)
        tangent = slopes * tangent + covariance
    return tangent
