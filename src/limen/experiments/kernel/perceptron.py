"""How many random labels a perceptron can learn by heart, and how many mistakes it makes on the way."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.kernel.logistic_regression import draw_labelled_points
from limen.simulation.kernel.separability import perceptron, separable_count
from limen.theory.kernel.classification.separability import (
    capacity_transition,
    perceptron_mistake_bound,
    separable_probability,
)

LABELINGS = 12
FEWEST, MOST, POINTS = 1.0, 3.0, 17
GAPS = (0.1, 0.2, 0.4, 0.8, 1.6)


class Perceptron(Experiment):
    r"""Cover's transition: $n$ points in $\mathbb R^d$ with random labels are separable by a hyperplane through 0 with
    probability $2^{1-n}\sum_{k<d}\binom{n-1}k$; and the mistakes of the perceptron against $(R/\gamma)^2$.

    The probability is exact for any points in general position, $\frac12$ at $n=2d$, and a step there as
    $d\to\infty$, of width $\sqrt{2/d}$ in $n/d$. On separable points the perceptron errs at most $(R/\gamma)^2$ times,
    $R$ the largest norm and $\gamma$ the best margin, in whatever order and however often they are shown.

    What to see: the fall from 1 to 0 around $n/d=2$, steeper for larger $d$; all runs of the perceptron below the
    diagonal, by a factor of 5 or so for random inputs. Sources: Cover 1965; Novikoff 1962.
    """

    name: ClassVar[str] = "perceptron"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Random labels are separable up to two points per dimension; the margin bounds mistakes."
    citations: ClassVar[tuple[str, ...]] = ("cover1965", "novikoff1962")
    default_seeds: ClassVar[int] = 500
    compared: ClassVar[tuple[str, ...] | None] = ("separable_fraction",)
    quick: ClassVar[dict[str, float]] = {"d": 8}
    quick_seeds: ClassVar[int] = 500

    d: int = Field(20, ge=4, le=200, description="dimension d of the points")
    samples_per_dim: float = Field(2.0, gt=0.0, le=50.0, description="points per dimension n/d shown to the perceptron")

    def counts(self) -> np.ndarray:
        """Numbers of points n, from one to three per dimension."""
        return np.unique(np.round(np.linspace(FEWEST, MOST, POINTS) * self.d).astype(int))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        counts = self.counts()
        chance = [separable_probability(n, self.d) for n in counts]
        dataset = xr.Dataset(
            {"separable_fraction": ("ratio", chance), "largest_mistakes_over_bound": 1.0},
            coords={"ratio": counts / self.d},
        )
        return Findings(dataset, True, "exact.")

    def train(self, seed: int) -> Findings:
        counts = self.counts()
        reached = np.array([separable_count(LABELINGS * seed + i, int(counts[-1]), self.d) for i in range(LABELINGS)])
        shown = max(2, round(self.samples_per_dim * self.d))
        sets = [draw_labelled_points(seed, shown, self.d, gap) for gap in GAPS]
        dataset = xr.Dataset(
            {
                "separable_fraction": (
                    ("seed", "ratio"),
                    (reached[:, None] >= counts).mean(axis=0)[None],
                    {"outcomes": LABELINGS},
                ),
                "mistakes": (("seed", "gap"), [[float(perceptron(rows).mistakes) for rows in sets]]),
                "mistake_bound": (("seed", "gap"), [[perceptron_mistake_bound(rows) for rows in sets]]),
            },
            coords={"ratio": counts / self.d, "gap": list(GAPS), "seed": [seed]},
            attrs={"d": self.d},
        )
        status = f"{LABELINGS} labelings; perceptrons run until free of mistakes."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        every = np.arange(self.d, MOST * self.d + 1).astype(int)
        transition = capacity_transition(self.d) / self.d
        fraction: list[Mark] = [Line(every / self.d, [separable_probability(n, self.d) for n in every], "theory")]
        larger = 10 * self.d
        many = np.arange(larger, MOST * larger + 1).astype(int)
        step = [separable_probability(n, larger) for n in many]
        fraction.append(Line(many / larger, step, f"theory, $d={larger}$", colour=1, dashed=True))
        reach = np.array([1.0, 1000.0])
        if simulation is not None:
            data = simulation.dataset
            drawn = LABELINGS * len(simulation.seeds)
            mean, error = mean_and_error(data.separable_fraction.values)
            fraction.append(Points(data.ratio.values, mean, error, f"$d={self.d}$, {counted(drawn, 'draw')}"))
            bounds = data.mistake_bound.values
            reach = np.array([0.8 * bounds.min(), 1.25 * bounds.max()])
        mistakes: list[Mark] = [Line(reach, reach, r"bound $(R/\gamma)^2$")]
        if simulation is not None:
            # A dozen runs for each margin show the spread; all of them would be a blot.
            some = simulation.dataset.isel(seed=slice(0, 12))
            mistakes.append(Points(some.mistake_bound.values.ravel(), some.mistakes.values.ravel(), None, "perceptron"))
        return Figure(
            [
                Panel(
                    r"points per dimension $n/d$",
                    "part of labelings separable",
                    [*fraction, Threshold(r"$n=2d$", x=transition)],
                ),
                Panel(r"bound on the mistakes $(R/\gamma)^2$", "mistakes made", mistakes, x_scale="log", y_scale="log"),
            ],
            title=f"Capacity of the perceptron, $d={self.d}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        fraction = over_seeds(dataset).separable_fraction.values
        if "largest_mistakes_over_bound" in dataset:
            share = dataset.largest_mistakes_over_bound
        else:
            share = (dataset.mistakes / dataset.mistake_bound).max()
        return {
            # The fraction falls.
            "half_separable_ratio": Number(
                np.interp(-0.5, -fraction, dataset.ratio.values),
                f"points per dimension n/d at which half of all labelings are separable, d = {self.d}",
            ),
            "largest_mistakes_over_bound": Number(share, "largest number of mistakes over its bound (R/γ)²"),
        }
