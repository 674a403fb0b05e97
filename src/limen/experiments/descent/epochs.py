"""One pass or many over the same sample: where reuse pays, and where it overfits."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.descent.cases import SeveralTrainings, marks, means
from limen.experiments.figure import Figure, Panel, Threshold
from limen.experiments.number import Number
from limen.problem import GradientDescent, TwoLayer
from limen.result import Result


class Epochs(SeveralTrainings):
    r"""SGD in epochs over $n=\delta d$ samples, cut into `batches` batches in a new random order each time, against the
    same SGD on samples that are always new.

    The second is the first epoch of a sample that many times larger. In the mean-field theory of both, every
    path has its place in the order of each epoch; what reuse adds is the memory of how a sample has pulled at the
    weights before.

    What to see: within the first epoch both are one-pass SGD, and agree. In the next epochs reuse still lowers the
    test loss, at nearly the rate of new samples: computing is cheaper than data. Then the train loss runs away
    and the test loss levels off (it turns up with larger steps, or fewer samples): the gap to fresh samples is what
    the sample could not tell. Source: Gerbelot et al. 2022.
    """

    name: ClassVar[str] = "epochs"
    summary: ClassVar[str] = "Passes over the same sample, against fresh samples: where reuse pays and overfits."
    citations: ClassVar[tuple[str, ...]] = ("gerbelot2022", "celentano2021")
    default_seeds: ClassVar[int] = 104
    quick: ClassVar[dict[str, Any]] = {"d": 320, "epochs": 2, "batches": 2}
    quick_seeds: ClassVar[int] = 256

    samples_per_dim: float = Field(3.0, gt=0.0, le=100.0, description="samples per dimension δ = n/d")
    step: float = Field(0.25, gt=0.0, le=100.0, description="step η")
    batches: int = Field(4, ge=1, le=20, description="batches of an epoch")
    epochs: int = Field(10, ge=1, le=20, description="epochs")
    d: int = Field(300, ge=10, le=2_000, description="dimension of the inputs")

    def problems(self) -> list[TwoLayer]:
        """The same sample again and again, and a sample large enough for one epoch."""
        return [
            self.problem(
                GradientDescent(self.step, batch_fraction=1.0 / (self.batches * times), replacement=False),
                self.samples_per_dim * times,
            )
            for times in (1, self.epochs)
        ]

    def times(self) -> list[np.ndarray]:
        return [np.arange(0.0, self.epochs * self.batches + 1.0, max(1, self.batches // 4))] * 2

    def case(self) -> xr.Variable:
        return xr.Variable("sample", ["reused", "fresh"])

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        x = self.times()[0] / self.batches
        shown = [
            *marks(theory, simulation, "test_loss", 0, x, "test, same sample", 0),
            *marks(theory, simulation, "test_loss", 1, x, "test, fresh samples", 2),
            *marks(theory, simulation, "train_loss", 0, x, "train, same sample", 1),
            Threshold("one epoch", x=1.0),
        ]
        title = f"Epochs: $n/d={self.samples_per_dim:g}$, {self.batches} batches, $d={self.d}$"
        return Figure([Panel("samples seen / $n$", "loss", shown)], title=title)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        at, x = means(dataset), self.times()[0] / self.batches
        reused, fresh = at.test_loss.values
        one = int(np.searchsorted(x, 1.0))
        return {
            "after_one_epoch": Number(float(reused[one]), "test loss after one epoch"),
            "best": Number(float(reused.min()), "smallest test loss on the same sample"),
            "best_epoch": Number(float(x[reused.argmin()]), "where it is reached", "epochs"),
            "last": Number(float(reused[-1]), f"test loss after {self.epochs} epochs on the same sample"),
            "last_fresh": Number(float(fresh[-1]), "test loss on as many fresh samples"),
        }
