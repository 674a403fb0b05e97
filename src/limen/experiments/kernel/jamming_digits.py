"""Deep networks on real images through the point where they begin to fit every label: a jamming transition."""

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.kernel.fitting_line import fitting_line, network_parameters
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.classifier import TrainedClassifier, initial_weights, train_classifier
from limen.simulation.kernel.digits import load_digits, split_digits

# Directions of the images that are kept, as in the source.
DIRECTIONS = 10
# A loss below this is taken as zero: no label is missed, and the margins are full to a thousandth.
ZERO = 1e-6


class JammingDigits(Experiment):
    r"""Are images of digits even or odd? A ReLU network of `depth` layers learns it by descent on the quadratic hinge
    $\frac1{2n}\sum_i\max(0,1-y_if(x_i))^2$, for growing widths, on the first ten principal directions of the images.

    A network too small is stuck with labels it cannot fit; from some number of parameters $N^*$ on the loss falls to
    zero, and there the test error has a cusp: it falls, rises towards $N^*$ and falls again as the width grows.

    What theory says is a bound. At a minimum with $N_\Delta$ labels unfitted the Hessian is a positive part of rank
    $N_\Delta$ plus the second derivatives of the network, which alone have a share of about one half of negative
    eigenvalues. A stable minimum therefore needs $N_\Delta\ge N/2$, and as $N_\Delta\le n$ there is none with
    $N>2n$: beyond this line, descent that is patient enough fits everything. The comparison takes the share of such
    trainings that end at zero. Where below the line the transition lies, and how high the cusp is, no theory here
    predicts; with `logistic` loss, which is never zero, fitting means no label missed, and the argument is but a guide.

    The argument counts labels and does not read them: with `--corruption 1` they are random, new images are guessed,
    and the line is the same, with `--loss square` too, where fitting means no label missed (a loss of zero takes far
    more steps). With random labels the argument fails near the line: some narrow networks stop at
    a loss that does not fall, and the verdict is not *agrees*; from several times the line on they fit.
    Sources: Spigler et al. 2018; Geiger et al. 2018.
    """

    name: ClassVar[str] = "jamming-digits"
    source: ClassVar[str] = "Mathematics of large models"
    summary: ClassVar[str] = "Deep networks on digits: the test error has a cusp where they begin to fit every label."
    citations: ClassVar[tuple[str, ...]] = ("spigler2018", "geiger2018")
    size_field: ClassVar[str] = "n"
    default_seeds: ClassVar[int] = 16
    compared: ClassVar[tuple[str, ...] | None] = ("fitted_beyond",)
    quick: ClassVar[dict[str, float]] = {"n": 150, "depth": 3, "widths": 4, "steps": 3000}

    n: int = Field(300, ge=50, le=1200, description="training images n, of 1797")
    depth: int = Field(5, ge=2, le=8, description="weight layers of the network")
    loss: Literal["quadratic-hinge", "square", "logistic"] = Field("quadratic-hinge", description="loss of the network")
    corruption: float = Field(0.0, ge=0.0, le=1.0, description="part q of the training labels replaced at random")
    widths: int = Field(14, ge=4, le=40, description="widths of the hidden layers, half of them beyond the line N = 2n")
    steps: int = Field(5000, ge=100, le=1_000_000, description="most gradient steps; training stops before, at zero")
    rate: float = Field(0.05, gt=0.0, le=10.0, description="learning rate of descent with momentum 0.9")

    def outputs(self) -> int:
        """One for the hinge and the square loss, two classes for the logistic loss."""
        return 2 if self.loss == "logistic" else 1

    def parameters(self, width: int | np.ndarray) -> int | np.ndarray:
        """Weights of a network of this width."""
        return network_parameters(DIRECTIONS, width, self.depth, self.outputs())

    def line(self) -> float:
        """Parameters beyond which no stable minimum is left, N = 2n."""
        return fitting_line(self.n, 1)

    def sizes(self) -> np.ndarray:
        """Widths, half of them below the line and half beyond, up to sixteen times as many parameters."""
        every = np.arange(2, 4000)
        counts = self.parameters(every)
        first = int(np.searchsorted(counts, self.line(), side="right"))
        last = int(np.searchsorted(counts, 16.0 * self.line()))
        below = np.unique(np.rint(np.linspace(0, first - 1, self.widths // 2)).astype(int))
        beyond = np.unique(
            np.rint(np.geomspace(first, max(last, first + 1), self.widths - self.widths // 2)).astype(int)
        )
        return every[np.concatenate([below[below < first], beyond])]

    def beyond(self) -> np.ndarray:
        """Which widths have more parameters than the line."""
        return np.asarray(self.parameters(self.sizes())) > self.line()

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        outcomes = int(self.beyond().sum())
        dataset = xr.Dataset({"fitted_beyond": ((), 1.0, {"outcomes": outcomes}), "line": ((), self.line())})
        return Findings(dataset, True, "a bound: no stable minimum has more parameters than twice the labels.")

    def train(self, seed: int) -> Findings:
        images, parity = _principal_digits()
        split, found = split_digits(seed, self.n), []
        labels = _partly_random(parity[split.train], self.corruption, seed)
        for width in self.sizes().tolist():
            start = initial_weights(seed, DIRECTIONS, width, self.depth, self.outputs())
            # A sum of squares below 1 misses no label.
            goal = {"quadratic-hinge": ZERO, "square": 0.5 / self.n, "logistic": 0.01}[self.loss]
            found.append(
                train_classifier(
                    start, images[split.train], labels, self.loss,
                    rate=self.rate, steps=self.steps, goal=goal,
                )
            )  # fmt: skip
        fitted = np.array([self._fits(one) for one in found], dtype=float)
        test = [one.error_on(images[split.test], parity[split.test]) for one in found]
        dims = ("seed", "width")
        dataset = xr.Dataset(
            {
                "fitted": (dims, fitted[None]),
                "fitted_beyond": (("seed",), [fitted[self.beyond()].mean()]),
                "test_error": (dims, [test]),
                "train_loss": (dims, [[one.loss for one in found]]),
            },
            {"seed": [seed], "width": self.sizes(), "parameters": ("width", self.parameters(self.sizes()))},
            attrs={"d": self.n},
        )
        return Findings(dataset, True, f"descent of at most {self.steps} steps.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        line = Threshold("$N=2n$", x=self.line())
        share: list[Mark] = [line]
        error: list[Mark] = [line]
        if simulation is not None:
            found = simulation.dataset
            counts = found.parameters.values
            for marks, name, label in ((share, "fitted", "networks"), (error, "test_error", "networks")):
                mean, spread = mean_and_error(found[name].values)
                marks.append(Points(counts, mean, spread, label, 0))
        share.append(Line([self.line(), 16.0 * self.line()], [1.0, 1.0], "bound", 1))
        label = "parameters $N$"
        return Figure(
            [
                Panel(label, "part of networks that fit every label", share, x_scale="log", y_range=(-0.05, 1.1)),
                Panel(label, "share of new images misclassified", error, x_scale="log"),
            ],
            title=f"Even or odd digits, $n={self.n}$, {self.depth} layers, {self.loss} loss"
            + (f", {self.corruption:.0%} of labels random" if self.corruption else ""),
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset)
        threshold = self.line()
        if "fitted" in mean:
            half = mean.fitted.values >= 0.5
            threshold = mean.parameters.values[half.argmax()] if half.any() else np.nan
        return {
            "fitted_beyond": Number(
                float(mean.fitted_beyond), f"part of networks with N > 2n = {self.line():g} that fit every label"
            ),
            "threshold_per_sample": Number(
                threshold / self.n, "parameters per image N/n from which half of the networks fit; theory: at most"
            ),
        }

    def _fits(self, trained: TrainedClassifier) -> bool:
        return trained.loss <= ZERO if self.loss == "quadratic-hinge" else trained.error == 0.0


def _partly_random(labels: np.ndarray, corruption: float, seed: int) -> np.ndarray:
    """Each label, 0 or 1, is replaced with probability `corruption` by one drawn evenly; one seed decides for each at
    which corruption it falls, and to what."""
    generator = numpy_generator(seed, len(labels), "parity corruption")
    falls = generator.random(len(labels)) < corruption
    return np.where(falls, generator.integers(0, 2, len(labels)), labels)


@lru_cache(maxsize=1)
def _principal_digits() -> tuple[np.ndarray, np.ndarray]:
    """All images on their first ten principal directions, scaled to variance 1, and whether the digit is odd."""
    digits = load_digits()
    centred = digits.inputs - digits.inputs.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    images = centred @ axes[:DIRECTIONS].T
    return images / images.std(axis=0), digits.labels % 2
