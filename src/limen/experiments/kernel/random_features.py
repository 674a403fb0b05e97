"""Double descent of random features: test error against the number of features, for several penalties."""

from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.experiments.typeset import typeset
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.kernel.random_features import draw_random_features
from limen.simulation.kernel.random_features_ridge import ridge_errors_by_width
from limen.theory.kernel.random_features import random_features

SMALLEST, LARGEST, POINTS = 0.16, 4.0, 10
TEST_SAMPLES = 1000


class RandomFeaturesPeak(Experiment):
    r"""Ridge regression on $N$ random features, $n$ samples in $d$ dimensions, against $N/d$ through $N=n$.

    $f(x)=\sum_ja_j\sigma(\langle\theta_j,x\rangle/\sqrt d)$ with random $\theta_j$; $a$ minimises
    $\frac1n\sum_i(y_i-f(x_i))^2+\frac{N\lambda}d\|a\|^2$. The target is linear plus a part that random features
    cannot learn from $n\asymp d$ samples, plus noise; the last two act alike. In the limit one scalar equation
    gives everything.

    What to see: nearly without penalty the test error peaks at $N=n$, where training error reaches 0, and falls again,
    below what any smaller $N$ gives; a penalty of the right size removes the peak, and then more features never hurt.
    Source: Mei & Montanari 2022.
    """

    name: ClassVar[str] = "random-features"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Test error of random features peaks at N = n unless the ridge prevents it."
    citations: ClassVar[tuple[str, ...]] = ("mei2022", "belkin2019")
    default_seeds: ClassVar[int] = 512
    quick: ClassVar[dict[str, object]] = {"d": 80, "ridges": (0.1, 1.0)}
    quick_seeds: ClassVar[int] = 384

    samples_per_dim: float = Field(2.5, gt=0.0, le=20.0, description="samples per dimension n/d")
    activation: Literal["relu", "tanh", "erf"] = Field("relu", description="activation σ of the features")
    ridges: NumberList = Field((0.001, 0.01, 0.1), description="penalties λ, e.g. '0.001, 0.01, 0.1'")
    nonlinear: float = Field(0.1, ge=0.0, le=10.0, description="variance F*² of the non-linear part of the target")
    noise: float = Field(0.2, ge=0.0, le=10.0, description="variance τ² of the label noise")
    d: int = Field(80, ge=10, le=1_000, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "RandomFeaturesPeak":
        if not self.ridges or min(self.ridges) <= 0.0:
            raise InputError(f"ridges must be a non-empty list of positive numbers, got {self.ridges}.")
        return self

    @property
    def samples(self) -> int:
        """n."""
        return max(1, round(self.samples_per_dim * self.d))

    def features(self) -> np.ndarray:
        """Numbers of features N, from few to several times n, n among them."""
        factors = np.concatenate(
            [np.geomspace(SMALLEST, 1.0, POINTS // 2 + 1), np.geomspace(1.0, LARGEST, POINTS // 2)]
        )
        return np.unique(np.maximum((factors * self.samples).round(), 1)).astype(int)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        per_dim = self.features() / self.d
        risk = self._limit(per_dim)
        dims = ("features_per_dim", "ridge")
        dataset = xr.Dataset(
            {"excess_mse": (dims, risk[0]), "train_mse": (dims, risk[1]), "threshold": self.samples / self.d},
            coords={"features_per_dim": per_dim, "ridge": list(self.ridges)},
        )
        return Findings(dataset, True, "exact.")

    def _limit(self, features_per_dim: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Test and training error, one row per number of features, one column per penalty."""
        target = {"nonlinear": self.nonlinear, "noise": self.noise}
        risk = random_features(
            features_per_dim[:, None], self.samples / self.d, np.array(self.ridges), self.activation, **target
        )
        return risk.test, risk.train

    def train(self, seed: int) -> Findings:
        counts = self.features()
        target = {"nonlinear": self.nonlinear, "noise": self.noise}
        data = draw_random_features(
            seed, self.activation, self.d, int(counts[-1]), self.samples, test_samples=TEST_SAMPLES, **target
        )
        errors = ridge_errors_by_width(data, counts.tolist(), self.ridges)
        dims = ("seed", "features_per_dim", "ridge")
        dataset = xr.Dataset(
            {"excess_mse": (dims, errors.test[None]), "train_mse": (dims, errors.train[None])},
            coords={"features_per_dim": counts / self.d, "ridge": list(self.ridges), "seed": [seed]},
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{self.samples} samples.")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        at = self.features() / self.d
        fine = np.union1d(np.geomspace(at[0], at[-1], 300), self.samples / self.d)
        panels = []
        kinds = (("excess_mse", "excess risk"), ("train_mse", "training error"))
        for (kind, label), limit in zip(kinds, self._limit(fine), strict=True):
            marks: list[Mark] = [
                Line(fine, limit[:, i], f"$\\lambda={penalty:g}$", i) for i, penalty in enumerate(self.ridges)
            ]
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset[kind].values)
                runs = f"$d={self.d}$, {counted(len(simulation.seeds), 'run')}"
                for i in range(len(self.ridges)):
                    marks.append(Points(at, mean[:, i], error[:, i], "" if i else runs, i))
            marks.append(Threshold("$N=n$", x=self.samples / self.d))
            panels.append(Panel(r"features per dimension $N/d$", label, marks, x_scale="log"))
        title = f"{typeset(self.activation)} random features, $n/d={self.samples / self.d:g}$, $\\tau^2={self.noise:g}$"
        return Figure(panels, title=title)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        peak = int(np.flatnonzero(self.features() == self.samples)[0])
        weakest = int(np.argmin(self.ridges))
        mean, penalty = over_seeds(dataset).excess_mse.values[:, weakest], f"λ = {self.ridges[weakest]:g}"
        numbers = {}
        if "threshold" in dataset:
            numbers["threshold"] = Number(
                dataset.threshold, "interpolation threshold N = n, in features per dimension N/d"
            )
        return numbers | {
            "peak_excess_mse": Number(mean[peak], f"excess risk at the interpolation threshold N = n, {penalty}"),
            "widest_excess_mse": Number(
                mean[-1], f"excess risk with the most features, N = {self.features()[-1]}, {penalty}"
            ),
        }
