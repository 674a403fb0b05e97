"""An experiment made for trouble: spawned workers import it, it needs no jax, and it writes down what it does."""

import os
import signal
import time
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.result import Findings

LOG = "LIMEN_TOY_LOG"
# While this file exists, trouble happens; without it every point is well.
TROUBLE = "LIMEN_TOY_TROUBLE"


class Toy(Experiment):
    """A line with noise; at `bad` it may crash, hang or raise."""

    name: ClassVar[str] = "toy"
    source: ClassVar[str] = "tests"
    summary: ClassVar[str] = "A line with noise."
    citations: ClassVar[tuple[str, ...]] = ()
    default_seeds: ClassVar[int] = 3
    compared: ClassVar[tuple[str, ...] | None] = ("level",)
    aliases: ClassVar[dict[str, str]] = {"delta": "slope"}

    slope: float = Field(1.0, gt=-10.0, le=1e6, description="slope δ")
    shape: Literal["line", "square"] = Field("line", description="shape of the curve")
    d: int = Field(10, ge=1, description="size d")
    seconds: float = Field(0.0, ge=0.0, description="time one run takes")
    busy: int = Field(0, ge=0, description="rounds of real work")
    bad: float = Field(-1.0, description="the slope at which trouble waits")
    trouble: Literal["none", "crash", "hang", "raise"] = Field("none", description="what happens there")

    def _work(self, kind: str, seed: int) -> None:
        log = os.environ.get(LOG)
        armed = TROUBLE not in os.environ or Path(os.environ[TROUBLE]).exists()
        if kind == "simulation" and self.slope == self.bad and armed:
            if self.trouble == "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "hang":
                time.sleep(1000.0)
            if self.trouble == "raise":
                raise ValueError("this slope is no good")
        if self.seconds:
            time.sleep(self.seconds)
        total = 0
        for i in range(self.busy):
            total += i * i
        if log:
            with open(log, "a") as lines:
                lines.write(f"{kind} {self.slope:g} {self.shape} {self.d} {seed} {os.getpid()}\n")

    def _curve(self) -> np.ndarray:
        times = np.arange(4.0)
        return self.slope * (times if self.shape == "line" else times**2)

    def predict(self, seeds=()):
        self._work("theory", -1)
        data = xr.Dataset({"curve": ("time", self._curve()), "level": float(self.slope)}, {"time": np.arange(4.0)})
        return Findings(data.assign_attrs(d=self.d))

    def train(self, seed):
        self._work("simulation", seed)
        noise = np.random.default_rng((seed, self.d)).standard_normal(5) / np.sqrt(self.d)
        data = xr.Dataset(
            {
                "curve": (("seed", "time"), (self._curve() + noise[:4])[None]),
                "level": ("seed", [self.slope + noise[4]]),
            },
            {"time": np.arange(4.0), "seed": [seed]},
            {"d": self.d},
        )
        return Findings(data, statistics={"clock": time.perf_counter()})

    def headline(self, theory, simulation=None):
        numbers = {"theory": {"end": float(theory.dataset.curve[-1])}}
        if simulation is not None:
            numbers["simulation"] = {"end": float(simulation.dataset.curve.mean("seed")[-1])}
        return numbers

    def thresholds(self, parameter, theory):
        return {r"$\delta_*$": 2.5} if parameter == "slope" else {}


class BatchToy(Toy):
    """The same with theories computed together, of which one point may be poison."""

    name: ClassVar[str] = "batch-toy"

    @classmethod
    def theory_batch(cls, points):
        if any(point.slope == point.bad and point.trouble == "raise" for point in points) and len(points) > 1:
            raise ValueError("one of them is bad")
        return [point.theory() for point in points]

    def predict(self, seeds=()):
        if self.slope == self.bad and self.trouble == "raise":
            raise ValueError("this theory is bad")
        return super().predict(seeds)
