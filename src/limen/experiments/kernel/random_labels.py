"""Fitting noise: a network learns true, half-true and random labels alike, and only the test error tells."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.kernel.digits_population import digits_classes, digits_risk
from limen.experiments.kernel.fitting_line import PIXELS, fitting_line, network_parameters
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.problem.spec import InputError
from limen.result import Findings, Result
from limen.simulation.kernel.classifier import initial_weights, train_classifier
from limen.simulation.kernel.digits import CLASSES, corrupted, corruption_noise, load_digits, split_digits
from limen.simulation.kernel.digits_regression import simulate_digits_kernel
from limen.theory.kernel.rows.subsets import SubsetRisk

# Measured with 1200 and 500 regressions: 2.2(2) and 1.2(2)% of the training error, .8(1) and .5(1)% of the test error.
CAVEAT = (
    "The medium knows images one by one, and that costs a part of the errors that falls about as 1/n: on random labels "
    "2% of the training error at n = 200, 1% at n = 400."
)


class RandomLabels(Experiment):
    r"""The same network and the same images, with a part $q$ of the training labels replaced by random ones.

    A network with more parameters than labels is trained until it makes no error on the labels it is shown: on the
    true ones, on mixtures, and on labels that have nothing to do with the images. Whether it can fit therefore says
    nothing about how it does on new images, where its error, against the *true* classes, rises with $q$ from a few
    per cent to the 90% of guessing.

    What theory can predict is the mean square of the network's linear cousin: regression with the ReLU kernel and
    ridge $\lambda$, which fits random labels too. Wrong labels shrink the signal by $1-q$ and act as noise of variance
    $\frac9{10}(1-(1-q)^2)$, so that the test error against the true classes is a parabola in $q$. Its coefficients
    come from an effective medium that knows every image, its row of the kernel matrix and its class, and averages over
    the choice of the $n$ that are trained on; the training error likewise, 2% too small on random labels at $n=200$ and
    1% at 400. `--kernel tangent` takes the cousin of the
    same depth, the tangent kernel of `depth` layers, to which a wide network with square loss and lazy training tends.

    What else has a theory, at any depth and loss, is whether the labels are fitted: a network with more parameters
    than twice its outputs on the training images has no stable minimum with labels unfitted (the argument of
    `jamming-digits`, which says where it fails), whatever the labels are. No theory stands behind the errors of the
    trained network.
    Sources: Zhang et al. 2017; Soven 1967 for the medium; Jacot, Gabriel & Hongler 2018; Spigler et al. 2018.
    """

    name: ClassVar[str] = "random-labels"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "A network fits random labels as well as true ones; only the test error tells."
    citations: ClassVar[tuple[str, ...]] = ("zhang2017", "soven1967", "jacot2018", "spigler2018")
    size_field: ClassVar[str] = "n"
    default_seeds: ClassVar[int] = 12
    compared: ClassVar[tuple[str, ...] | None] = ("test_mse", "train_mse")
    quick: ClassVar[dict[str, float]] = {"n": 200, "images": 500, "draws": 50, "width": 64, "levels": 3, "steps": 400}
    quick_seeds: ClassVar[int] = 12

    n: int = Field(300, ge=50, le=1200, description="training images n")
    images: int = Field(1000, ge=100, le=1797, description="images of the set, the others are for testing")
    width: int = Field(128, ge=1, le=2048, description="width of the hidden layers")
    depth: int = Field(3, ge=2, le=8, description="weight layers of the network")
    loss: Literal["logistic", "square"] = Field("logistic", description="loss of the network")
    kernel: Literal["features", "tangent"] = Field(
        "features", description="kernel of the regression: ReLU features, or the tangent kernel of `depth` layers"
    )
    draws: int = Field(100, ge=1, le=1000, description="kernel regressions per seed, each on its own images")
    levels: int = Field(6, ge=2, le=50, description="corruption levels q, evenly from 0 to 1")
    ridge: float = Field(0.01, ge=1e-9, le=100.0, description="ridge λ of the kernel regression")
    steps: int = Field(3000, ge=1, le=100_000, description="most gradient steps; training stops before, at small loss")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.images <= self.n:
            raise InputError(f"images must exceed n = {self.n}, got {self.images}.")
        return self

    def tangent_depth(self) -> int:
        """Layers of the tangent kernel, 0 for the kernel of features."""
        return self.depth if self.kernel == "tangent" else 0

    def corruptions(self) -> np.ndarray:
        """The levels q."""
        return np.linspace(0.0, 1.0, self.levels)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        corruption = self.corruptions()
        test, train, settled = self._errors(corruption)
        variables: dict[str, Any] = {
            "test_mse": ("corruption", test),
            "train_mse": ("corruption", train),
            # What the network does in the end: it fits all it is shown, and guesses.
            "network_train_error_random_labels": 0.0,
            "network_test_error_random_labels": 1.0 - 1.0 / CLASSES,
        }
        if network_parameters(PIXELS, self.width, self.depth, CLASSES) > fitting_line(self.n, CLASSES):
            variables["fitted"] = ((), 1.0, {"outcomes": self.levels})
        dataset = xr.Dataset(variables, {"corruption": corruption}, {"caveat": CAVEAT})
        status = "an effective medium that knows every image." if settled else "the medium did not settle: more ridge."
        return Findings(dataset, settled, status)

    def train(self, seed: int) -> Findings:
        digits, levels = load_digits(), self.corruptions()
        runs = []
        for own in range(seed * self.draws, (seed + 1) * self.draws):
            split = split_digits(own, self.n, self.images)
            runs.append(
                simulate_digits_kernel(
                    [corrupted(split, level, own) for level in levels], self.ridge, self.tangent_depth()
                )
            )
        split = split_digits(seed, self.n, self.images)
        start = initial_weights(seed, digits.inputs.shape[1], self.width, self.depth, CLASSES, output_scale=0.1)
        test, train, steps = [], [], []
        for level in levels:
            labels = corrupted(split, level, seed).train_labels
            network = train_classifier(
                start, digits.inputs[split.train], labels, self.loss, rate=0.3, steps=self.steps, goal=0.02
            )
            test.append(network.error_on(digits.inputs[split.test], digits.labels[split.test]))
            train.append(network.error)
            steps.append(float(network.steps))
        dataset = xr.Dataset(
            {
                "test_mse": (("seed", "corruption"), [np.mean([run.test for run in runs], axis=0)]),
                "train_mse": (("seed", "corruption"), [np.mean([run.train for run in runs], axis=0)]),
                "network_test_error": (("seed", "corruption"), [test]),
                "network_train_error": (("seed", "corruption"), [train]),
                "network_steps": (("seed", "corruption"), [steps]),
                "fitted": (("seed",), [np.mean(np.array(train) == 0.0)]),
            },
            {"seed": [seed], "corruption": levels},
            attrs={"d": self.n},
        )
        fitted = max(train) == 0.0
        status = "every set of labels was fitted." if fitted else "some labels were not fitted: more steps or width."
        return Findings(dataset, fitted, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        fine = np.linspace(0.0, 1.0, 61)
        test, train, _ = self._errors(fine)
        marks: list[Mark] = [
            Line(fine, test, "test, theory"),
            Line(fine, train, "training, theory", colour=1),
        ]
        label = "part $q$ of labels replaced at random"
        panels = [Panel(label, "mean squared error of kernel regression", marks)]
        if simulation is not None:
            found = simulation.dataset
            levels = found.corruption.values
            for name, colour, word in (("test_mse", 0, "test, simulation"), ("train_mse", 1, "training, simulation")):
                mean, error = mean_and_error(found[name].values)
                marks.append(Points(levels, mean, error, word, colour))
            errors: list[Mark] = []
            for name, colour, word in (("network_test_error", 2, "test"), ("network_train_error", 3, "training")):
                mean, error = mean_and_error(found[name].values)
                errors.append(Points(levels, mean, error, word, colour))
            errors.append(Threshold("guessing", y=1.0 - 1.0 / CLASSES))
            panels.append(Panel(label, "share misclassified by the network", errors, y_range=(-0.03, 1.0)))
        return Figure(
            panels,
            title=f"Random labels, $n={self.n}$ digits, {self.depth} layers of width {self.width}, "
            f"{typeset(self.loss)} loss",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset)
        numbers = {
            "test_mse_true_labels": Number(mean.test_mse[0], "test error of kernel regression on true labels, q = 0"),
            "test_mse_random_labels": Number(
                mean.test_mse[-1], "test error of kernel regression on random labels, q = 1"
            ),
        }
        if "fitted" in mean:
            numbers["fitted"] = Number(float(mean.fitted), "part of all sets of labels that the network fits")
        for name, words in (("train", "training images misclassified"), ("test", "test images misclassified")):
            key = f"network_{name}_error_random_labels"
            share = mean[key] if key in mean else mean[f"network_{name}_error"][-1]
            numbers[key] = Number(share, f"part of {words} by the network trained on random labels, q = 1")
        return numbers

    def _risk(self) -> SubsetRisk:
        return digits_risk(self.images, self.n, self.ridge, tangent_depth=self.tangent_depth())

    def _errors(self, corruption: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Test and training error at each corruption, and whether the medium settled."""
        risk, labels = self._risk(), digits_classes(self.images)
        found = [risk.with_noise(labels, 1.0 - q, corruption_noise(q)) for q in corruption]
        test, train = np.array([[part.mean() for part in parts] for parts in found]).T
        return test, train, risk.settled
