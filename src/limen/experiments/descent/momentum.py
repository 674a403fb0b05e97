"""Heavy-ball momentum on a fixed sample: how fast it learns, and how fast it overfits."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.curve import Curve
from limen.experiments.descent.cases import SeveralTrainings, means
from limen.experiments.number import Number
from limen.experiments.number_list import NumberList
from limen.problem import GradientDescent, InputError, TwoLayer


class Momentum(SeveralTrainings):
    r"""One neuron learns a single-index target on $n=\delta d$ samples with heavy-ball momentum $\beta$,
    $u\leftarrow\beta u-\eta\nabla\hat R$, $\theta\leftarrow\theta+u$.

    As $n,d\to\infty$ the dynamics with momentum has a mean-field limit as gradient descent has: the rule is linear in
    the gradient, and acts on the weights' coordinates as it does on the weights. Nothing is fitted.

    What to see: momentum reaches the same losses in fewer steps, up to $1/(1-\beta)$ times, and goes on: the train loss
    keeps falling while the test loss turns up earlier. Near $\beta=1$ losses swing before they settle. Points of
    finite-size training lie on the lines. Source: Celentano, Cheng & Montanari 2021.
    """

    name: ClassVar[str] = "momentum"
    summary: ClassVar[str] = "Heavy-ball momentum learns in fewer steps and overfits in fewer steps."
    citations: ClassVar[tuple[str, ...]] = ("celentano2021", "gerbelot2022")
    default_seeds: ClassVar[int] = 176
    panels: ClassVar[tuple[Curve, ...]] = tuple(
        Curve(f"{name}_loss", "moment", "step $t$", f"{name} loss", series=r"$\beta={:g}$")
        for name in ("test", "train")
    )
    quick: ClassVar[dict[str, Any]] = {"d": 320, "steps": 4, "momenta": (0.0, 0.8)}
    quick_seeds: ClassVar[int] = 256

    step: float = Field(0.2, gt=0.0, le=100.0, description="step η")
    momenta: NumberList = Field((0.0, 0.5, 0.8, 0.9), description="momenta β, one curve each, from 0 to below 1")
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    steps: int = Field(30, ge=1, le=200, description="steps")

    def check(self) -> None:
        if not 1 <= len(self.momenta) <= 6:
            raise InputError(f"momenta must be 1 to 6 numbers, got {len(self.momenta)}.")

    def problems(self) -> list[TwoLayer]:
        """The learning problem at each momentum."""
        return [
            self.problem(GradientDescent(self.step, momentum=momentum, nesterov=self.nesterov))
            for momentum in self.momenta
        ]

    def times(self) -> list[np.ndarray]:
        return [np.arange(self.steps + 1.0)] * len(self.momenta)

    def case(self) -> xr.Variable:
        return xr.Variable("momentum", list(self.momenta))

    def title(self) -> str:
        kind = "Nesterov" if self.nesterov else "heavy ball"
        return rf"Momentum ({kind}): $\eta={self.step:g}$, $n/d={self.samples_per_dim:g}$, $d={self.d}$"

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        found, at = {}, means(dataset)
        for i, momentum in enumerate(self.momenta):
            test = at.test_loss.values[i]
            found[f"best_test_loss_{momentum:g}"] = Number(test.min(), f"smallest test loss, momentum {momentum:g}")
            words = f"step of the smallest test loss, momentum {momentum:g}"
            found[f"best_step_{momentum:g}"] = Number(float(test.argmin()), words, "steps")
        return found
