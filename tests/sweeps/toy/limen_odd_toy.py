"""An experiment whose results differ in length from point to point, with a theory of its own for each seed."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.result import Findings

MISSING = (3.0, 20, 7)


class Odd(Experiment):
    """A path of `slope` + 1 times that lie `d` apart; where `slope` is 2 it is not to be trusted."""

    name: ClassVar[str] = "odd"
    source: ClassVar[str] = "tests"
    summary: ClassVar[str] = "Paths of different lengths."
    citations: ClassVar[tuple[str, ...]] = ()
    paired: ClassVar[bool] = True

    slope: float = Field(1.0, description="slope")
    d: int = Field(10, description="size")

    def value(self, seed: int, index: int) -> float:
        return 1000.0 * self.slope + self.d + 0.1 * seed + 0.001 * index

    def _paths(self, seeds, shift):
        steps = range(int(self.slope) + 1)
        rows = [[self.value(seed, index) + shift for index in steps] for seed in seeds]
        times = float(self.d) * np.arange(len(steps))
        return xr.Dataset({"path": (("seed", "time"), rows)}, {"time": times, "seed": list(seeds)}, {"d": self.d})

    def predict(self, seeds=()):
        return Findings(self._paths(seeds, 0.0))

    def train(self, seed):
        if (self.slope, self.d, seed) == MISSING:
            raise ValueError("not this one")
        ok = self.slope != 2.0
        return Findings(self._paths([seed], 0.5), ok, "as it is.")

    def headline(self, theory, simulation=None):
        return {"theory": {"first": 1.0}, "simulation": {"first": float(simulation.dataset.path.mean("seed")[0])}}
