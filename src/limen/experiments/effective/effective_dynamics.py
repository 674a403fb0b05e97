"""Effective dynamics derived from a loss by sampling alone, held against closed forms worked out by hand."""

from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error, thin
from limen.experiments.number import Number
from limen.problem import OverlapStart, SpikedTensor, XorMixture
from limen.result import Findings, Result
from limen.simulation.effective.generic_sgd import run
from limen.theory.effective.derive import derive
from limen.theory.effective.mixtures.xor_drift import xor_drift
from limen.theory.effective.mixtures.xor_flow import solve as xor_flow
from limen.theory.effective.tensor_finite_size import tensor_finite_size
from limen.theory.effective.tensor_flow import tensor_flow

WIDTH, SHARPNESS, PENALTY = 2, 4.0, 0.02
UPPER = np.triu_indices(WIDTH)
XOR_START = {"v": [1.0, -0.8], "mu": [0.4, 0.1], "nu": [-0.1, 0.5], "R": [[0.6, 0.1], [0.1, 0.5]]}
MATRIX_START = (0.4, 0.6)
TERMS = ("population_drift", "corrector")
NAMES = ("drift $-f$", "corrector $g$")
TIMES, POINTS = 41, 3
# Samples of the mixture are vectors, far cheaper than matrices.
MORE = 16


class EffectiveDynamicsCheck(Experiment):
    r"""What `limen.effective.derive` finds from a loss, a sampler and statistics, beside what is known.

    In the time $t=\ell\delta$ statistics $u(x)$ of online SGD follow $du=(-f+g)dt+\sqrt\Sigma\,dB$ with the population
    drift $f=J\nabla\Phi$, the corrector $g_i=\frac\delta2\langle V,\nabla^2u_i\rangle$ and the volatility
    $\Sigma=\delta JVJ^\top$. The models: a spiked matrix with $u=(m,\|x\|^2-m^2)$, whose $f$, $g$ and $\Sigma$ are
    polynomials, and the XOR mixture learnt by two ReLU neurons, whose nine statistics drift by Gaussian integrals.
    Every seed derives them anew from its own samples at values along the limiting path, and trains by plain SGD from
    random vectors that share the first of these values; the path beside them has its part of order $1/N$ (matrix).

    What to see: sampled against exact terms on the diagonal, with no formula of the model used; the corrector, which
    gradient flow does not have; runs of SGD around the limiting path. Source: Ben Arous, Gheissari & Jagannath 2022
    (arXiv 2206.04030).
    """

    name: ClassVar[str] = "effective-dynamics"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Drift and corrector found by sampling a loss agree with closed forms."
    citations: ClassVar[tuple[str, ...]] = ("benarous2022",)
    default_seeds: ClassVar[int] = 24
    quick: ClassVar[dict[str, Any]] = {"d": 24, "samples": 128, "runs": 2}
    quick_seeds: ClassVar[int] = 320

    model: Literal["spiked-matrix", "xor-mixture"] = Field("spiked-matrix", description="which built-in model")
    signal: float = Field(3.0, gt=1.0, le=20.0, description="strength λ of the spike of the matrix")
    step: float = Field(0.25, gt=0.0, le=4.0, description="step c (c/N per sample)")
    d: int = Field(50, ge=8, le=1000, description="dimension N of a sample (N × N for the matrix)")
    samples: int = Field(1024, ge=128, le=2**16, description="gradients per value and seed; 16 times that for XOR")
    runs: int = Field(8, ge=1, le=256, description="runs of SGD in one seed")

    def times(self) -> np.ndarray:
        """Where runs are recorded: whole steps."""
        grid, step = np.linspace(0.0, 0.6 if self.model == "spiked-matrix" else 6.0, TIMES), self.step / self.d
        return step * np.unique(np.rint(grid / step))

    def path(self) -> np.ndarray:
        """The limiting path (time, statistic)."""
        if self.model == "spiked-matrix":
            matrix = SpikedTensor(order=2, signal=self.signal, step=self.step)
            return np.stack(tensor_flow(matrix, *MATRIX_START, self.times()), axis=1)
        means = np.stack([XOR_START["mu"], XOR_START["nu"]], axis=1)
        start = OverlapStart(overlap=means.tolist(), gram=(np.array(XOR_START["R"]) + means @ means.T).tolist())
        begun = self._xor(self.step).model_copy(update={"start": start, "second_layer": XOR_START["v"]})
        found = xor_flow(begun, self.times()).dataset
        gram = found.orthogonal_gram.values[:, UPPER[0], UPPER[1]]
        overlap = found.overlap.values
        return np.concatenate([found.second_layer.values, overlap[..., 0], overlap[..., 1], gram], axis=1)

    def mean_path(self) -> np.ndarray:
        r"""The mean of runs (time, statistic): the limiting path, and for the matrix its part of order $1/N$."""
        if self.model != "spiked-matrix":
            return self.path()
        matrix = SpikedTensor(order=2, signal=self.signal, step=self.step)
        found = tensor_finite_size(matrix, *MATRIX_START, self.times())
        return self.path() + np.stack([found.overlap, found.orthogonal_square], axis=1) / self.d

    def values(self) -> np.ndarray:
        """Statistics (point, statistic) at which the terms are compared, along the path."""
        path = self.path()
        return path[np.linspace(0, len(path) - 1, POINTS).round().astype(int)]

    def _xor(self, step: float) -> XorMixture:
        return XorMixture(width=WIDTH, sharpness=SHARPNESS, penalty=PENALTY, step=step)

    def _exact(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""$f$ and $g$ at `u`; those of the matrix at this very $N$, from $V=8R^2I+8xx^\top$."""
        if self.model == "spiked-matrix":
            m, r = u
            square = m * m + r
            g = self.step * (8.0 * square * (self.d - 1) + 8.0 * r) / self.d
            return np.array([-4.0 * m * (self.signal - square), 8.0 * square * r]), np.array([0.0, g])
        v, mu, nu, gram = np.split(u, [WIDTH, 2 * WIDTH, 3 * WIDTH])
        full = np.zeros((WIDTH, WIDTH))
        full[UPPER] = gram
        full = full + np.triu(full, 1).T

        def drift(step: float) -> np.ndarray:
            found = xor_drift(self._xor(step), v, mu, nu, full)
            return np.concatenate([found["v"], found["mu"], found["nu"], found["R"][UPPER]])

        without = drift(1e-12)
        return -without, drift(self.step) - without

    def _exact_volatility(self, m: float, r: float) -> np.ndarray:
        r"""The entries $mm$, $mr$, $rr$ of $\Sigma$ of the matrix."""
        square = m * m + r
        return self.step / self.d * np.array([8.0 * (square + m * m), 16.0 * m * r, 32.0 * r * (square + r)])

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        pairs = [self._exact(u) for u in self.values()]
        f, g = (np.stack(part) for part in zip(*pairs, strict=True))
        dataset = self._dataset()
        for name, value in zip(TERMS, (f, g), strict=True):
            dataset[name] = (("point", "statistic"), value)
        dataset["statistics"] = (("time", "statistic"), self.mean_path())
        if self.model == "spiked-matrix":
            dataset["volatility"] = (("point", "entry"), np.stack([self._exact_volatility(*u) for u in self.values()]))
        return Findings(dataset, True, "closed forms.")

    def train(self, seed: int) -> Findings:
        loss, sampler, measured, size = _functions(self.model, self.signal, self.d)
        count = self.samples * (1 if self.model == "spiked-matrix" else MORE)
        dynamics = derive(loss, sampler, measured, self.step / self.d, size, samples=count, seed=seed)
        values = self.values()
        rows = [[getattr(dynamics, name)(u).value for u in values] for name in TERMS]
        own = range(seed * self.runs, (seed + 1) * self.runs)
        starts = dynamics.lift(values[0], self.runs)
        trained = run(loss, sampler, measured, self.step / self.d, size, self.times(), starts, own)
        dataset = self._dataset().assign_coords(seed=[seed])
        for name, row in zip(TERMS, rows, strict=True):
            dataset[name] = (("seed", "point", "statistic"), np.stack(row)[None])
        dataset["statistics"] = (("seed", "time", "statistic"), trained.dataset.statistics.values.mean(axis=0)[None])
        if self.model == "spiked-matrix":
            entries = np.stack([dynamics.volatility(u).value[np.triu_indices(2)] for u in values])
            dataset["volatility"] = (("seed", "point", "entry"), entries[None])
        status = f"terms sampled from the loss alone, and plain SGD, in d = {self.d}: {trained.status}"
        return Findings(dataset, trained.ok, status)

    def _dataset(self) -> xr.Dataset:
        return xr.Dataset(coords={"time": self.times(), "point": np.arange(POINTS)}, attrs={"d": self.d})

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, times, at = theory.dataset, self.times(), thin(self.times().size, 11)
        exact = -data.population_drift.values, data.corrector.values
        low = min(float(part.min()) for part in exact)
        high = max(float(part.max()) for part in exact)
        parity: list[Mark] = [Line([low, high], [low, high], "equal", 6, dashed=True)]
        for i, name in enumerate(TERMS[:2]):
            error = None
            mean = exact[i]
            if simulation is not None:
                sign = -1.0 if i == 0 else 1.0
                mean, error = mean_and_error(sign * simulation.dataset[name].values)
                error = error.ravel()
            parity.append(Points(exact[i].ravel(), np.ravel(mean), error, NAMES[i], i))
        paths: list[Mark] = []
        labels = self._labels()
        # Of the nine statistics of XOR the overlaps are drawn.
        shown = range(2) if self.model == "spiked-matrix" else range(WIDTH, 3 * WIDTH)
        for colour, i in enumerate(shown):
            paths.append(Line(times, data.statistics.values[:, i], labels[i], colour))
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.statistics.values[:, :, i])
                paths.append(Points(times[at], mean[at], error[at], colour=colour))
        found = "sampled from the loss" if simulation is not None else "closed form"
        title = self.model.replace("-", " ").replace("xor", "XOR")
        return Figure(
            [
                Panel("closed form", found, parity, "terms of the effective dynamics"),
                Panel(r"time $t$ = samples $\times\,c/N$", "statistics $u$", paths, "limit (lines), SGD (points)"),
            ],
            title=f"Effective dynamics found automatically: {title}, $N={self.d}$",
        )

    def _labels(self) -> list[str]:
        if self.model == "spiked-matrix":
            return ["$m$", r"$r=\|x\|^2-m^2$"]
        names = [f"${name}_{i + 1}$" for name in ("v", r"m^\mu", r"m^\nu") for i in range(WIDTH)]
        return names + [f"$R_{{{i + 1}{j + 1}}}$" for i, j in zip(*UPPER, strict=True)]

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = dataset.mean("seed") if "seed" in dataset.dims else dataset
        first = "overlap m" if self.model == "spiked-matrix" else "second layer v of neuron 1"
        return {
            "largest_drift": Number(
                float(np.abs(mean.population_drift.values).max()), "largest drift f of a statistic along the path"
            ),
            "largest_corrector": Number(
                float(np.abs(mean.corrector.values).max()),
                f"largest corrector g, which the noise of SGD adds to a statistic, step c = {self.step:g}",
            ),
            "final_first_statistic": Number(float(mean.statistics.values[-1, 0]), f"{first} at the end of the path"),
        }


@lru_cache(maxsize=32)
def _functions(model: str, signal: float, d: int) -> tuple[Any, Any, Any, int]:
    """Loss, sampler, statistics and length of `x`, as a user would write them; the same objects for all seeds."""
    import jax
    import jax.numpy as jnp

    if model == "spiked-matrix":
        return (
            lambda x, y: jnp.sum((y - jnp.outer(x, x)) ** 2),
            lambda key: jax.random.normal(key, (d, d)).at[0, 0].add(signal),
            lambda x: jnp.stack([x[0], jnp.sum(x[1:] ** 2)]),
            d,
        )

    def loss(x: Any, sample: Any) -> Any:
        point, label = sample
        second, first = x[:WIDTH], x[WIDTH:].reshape(WIDTH, d)
        output = second @ jax.nn.relu(first @ point)
        return jax.nn.softplus(output) - label * output + 0.5 * PENALTY * jnp.sum(x**2)

    def sampler(key: Any) -> Any:
        side, noise = jax.random.split(key)
        cloud = jax.random.randint(side, (), 0, 4)
        centre = jnp.zeros(d).at[cloud // 2].set(1.0 - 2.0 * (cloud % 2))
        return centre + jax.random.normal(noise, (d,)) / SHARPNESS**0.5, jnp.where(cloud < 2, 1.0, 0.0)

    def statistics(x: Any) -> Any:
        first = x[WIDTH:].reshape(WIDTH, d)
        gram = first[:, 2:] @ first[:, 2:].T
        return jnp.concatenate([x[:WIDTH], first[:, 0], first[:, 1], gram[UPPER]])

    return loss, sampler, statistics, WIDTH * (d + 1)
