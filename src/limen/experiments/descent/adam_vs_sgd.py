"""Adam against gradient descent at equal cost, on dense and on sparse targets."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.descent.cases import SeveralTrainings, marks, means
from limen.experiments.figure import Figure, Panel
from limen.experiments.number import Number
from limen.problem import Adam, GradientDescent, TwoLayer
from limen.problem.algorithms import plain_units
from limen.result import Result

CASES = ("gd_dense", "adam_dense", "gd_sparse", "adam_sparse")


class AdamVersusSGD(SeveralTrainings):
    r"""One neuron learns a single-index target on $n=\delta d$ samples by gradient descent, or by Adam, step against
    step; the target's direction has Gaussian entries, or only a fraction $p$ of them.

    Adam treats every entry of the weights alone and moves it by a bounded step. So the law of the entries matters: in
    the limit $n,d\to\infty$ the weights are not Gaussian, and the theory follows samples and entries by paths
    of their own. Gradient descent knows no coordinates, and does not feel the difference.

    What to see: gradient descent draws the same curve for both targets. Adam learns the dense one somewhat less well
    and the sparse one hardly at all: a sparse direction of length one has few, large entries, and a rule
    with bounded steps needs many steps to reach them. Sparse *targets* are not where Adam gains; compare `step_adam`
    twice as large. Steps of Adam are in scaled units (times $d^{-1/2}$ in plain training). Source: Celentano, Cheng &
    Montanari 2021; Kingma & Ba 2015.
    """

    name: ClassVar[str] = "adam-vs-sgd"
    summary: ClassVar[str] = "Adam feels whether the target's entries are dense or sparse; gradient descent does not."
    citations: ClassVar[tuple[str, ...]] = ("celentano2021", "kingma2015", "gerbelot2022")
    default_seeds: ClassVar[int] = 136
    quick: ClassVar[dict[str, Any]] = {"d": 320, "steps": 4, "filled": 0.2}
    quick_seeds: ClassVar[int] = 256

    step_gd: float = Field(0.5, gt=0.0, le=100.0, description="step η of gradient descent")
    step_adam: float = Field(0.15, gt=0.0, le=10.0, description="step η of Adam, scaled: η/√d in plain training")
    beta1: float = Field(0.9, ge=0.0, le=0.999999, description="β₁ of Adam")
    beta2: float = Field(0.99, ge=0.0, le=0.999999, description="β₂ of Adam")
    epsilon: float = Field(0.01, gt=0.0, le=10.0, description="ε of Adam, scaled: ε/√d in plain training")
    filled: float = Field(0.05, gt=0.0, le=1.0, description="fraction p of non-zero entries of the sparse target")
    steps: int = Field(30, ge=1, le=200, description="steps")
    d: int = Field(800, ge=10, le=5_000, description="dimension of the inputs")

    def adam(self) -> Adam:
        """Adam with the parameters given."""
        return Adam(self.step_adam, self.beta1, self.beta2, self.epsilon)

    def problems(self) -> list[TwoLayer]:
        """Dense and sparse, by each algorithm."""
        return [
            self.problem(algorithm, entries=entries)
            for entries in ("gaussian", f"sparse:{self.filled:g}")
            for algorithm in (GradientDescent(self.step_gd), self.adam())
        ]

    def times(self) -> list[np.ndarray]:
        return [np.arange(self.steps + 1.0)] * len(CASES)

    def case(self) -> xr.Variable:
        return xr.Variable("case", list(CASES))

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        x, panels = np.arange(self.steps + 1.0), []
        both = [theory] if simulation is None else [theory, simulation]
        values = np.concatenate([means(one.dataset).test_loss.values.ravel() for one in both])
        margin = 0.1 * np.ptp(values)
        limits = (float(values.min() - margin), float(values.max() + margin))
        for first, title in ((0, "dense target"), (2, f"sparse target, $p={self.filled:g}$")):
            shown = [
                mark
                for i, label in enumerate(("gradient descent", "Adam"))
                for mark in marks(theory, simulation, "test_loss", first + i, x, label, i)
            ]
            panels.append(Panel("step $t$", "test loss", shown, title, y_range=limits))
        plain = plain_units(self.adam(), self.d).removeprefix("in plain units ")
        return Figure(panels, title=f"Adam and gradient descent, $d={self.d}$ (Adam in plain units: {plain})")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = means(dataset).test_loss.values[:, -1]
        words = ("gradient descent, dense", "Adam, dense", "gradient descent, sparse", "Adam, sparse")
        return {
            f"last_{case}": Number(float(value), f"test loss after {self.steps} steps: {name}")
            for case, value, name in zip(CASES, last, words, strict=True)
        }
