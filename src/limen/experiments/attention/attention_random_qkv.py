"""Attention with random matrices: one cluster, or two opposite ones?"""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator
from scipy.linalg import expm

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Map, Mark, Panel, Points, Threshold, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.experiments.number_list import NumberList
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.attention.ensemble import Matrices, run_ensemble
from limen.simulation.attention.matrices import random_matrix, value_matrix
from limen.simulation.attention.observables import CLUSTERED, clustered_pairs, cosine_gaps
from limen.simulation.attention.particles import simulate as run_particles
from limen.simulation.attention.starts import uniform_tokens
from limen.theory.attention import bipolar_stability, consensus_rate

CASES = ("A", "B", "C", "D")
# More inverse temperatures than this are no longer told apart as curves.
MOST_CURVES, MOST_BETAS = 4, 16
TIMES, CLOUD_TIMES = 41, 17
CLOUD_TOKENS, CLOUD_SPREAD, CLOUD_HORIZON = 6, 1e-4, 8.0
# Runge–Kutta of order four stays below 1e-3 at this step for beta times the norm of B up to some hundreds.
STEP = 0.05


class AttentionRandomQKV(Experiment):
    r"""Tokens under $\dot x_i=P^\perp_{x_i}\sum_jA_{ij}Vx_j$, $A_{ij}\propto e^{\beta x_i^\top Bx_j}$, $B=Q^\top K$,
    with random matrices drawn anew for each run.

    A: $B$ and $V$ independent Ginibre (non-symmetric Gaussian); B: $B$ Wigner, $V$ positive Wishart; C: $B$ Ginibre and
    $V=B/\sqrt d$; D: $B$ Wigner and $V=B/\sqrt d$, the only gradient flow of the four. Entries of $B$ have variance
    one, $V$ is of order one (Wishart: $GG^\top/(4d)$).

    Tokens that have met follow $\dot x=P^\perp_xVx$, and the distance between them falls as $|x_0|/|e^{Vt}x_0|$, in the
    end at the rate $\alpha(V)=\max\mathrm{Re}\,\lambda(V)$, whatever $B$ and $\beta$: consensus is stable iff
    $\alpha(V)>0$. Two opposite poles $\pm v$, $Vv=\lambda v$, can be stable as well if $\lambda v^\top Bv>0$ and the
    attention is sharp: that is why part of the diagrams never becomes one cluster.

    What to see: cosines near one (points) and near plus or minus one (dashed) rise together in A and B; in D they part
    as $\beta$ grows, where bipolar states are stable, and sharp attention keeps several clusters for long. Compared is
    the shrinking of a small cloud of tokens, run by run against $|e^{Vt}x_0|$ of the same matrix; its logarithm has
    both signs and its mean hides a common factor, so that its size is compared as well. Where tokens from
    random starts end is not compared: stability does not say which state is reached, and times of order $d^{2/3}$ are
    needed in D. Source: Geshkovski, Letrouit, Polyanskiy & Rigollet 2023 (arXiv 2312.10794), section 9.
    """

    name: ClassVar[str] = "attention-random-qkv"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Random matrices lead tokens to one cluster or to two opposite ones."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023",)
    default_seeds: ClassVar[int] = 16
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("log_spread", "absolute_log_spread")
    quick: ClassVar[dict[str, object]] = {"tokens": 6, "d": 8, "betas": (0.5, 2.0), "horizon": 4.0}
    quick_seeds: ClassVar[int] = 8

    betas: NumberList = Field(
        (0.1, 0.5, 3.0), description="inverse temperatures β, at most sixteen; from five on drawn as phase diagrams"
    )
    tokens: int = Field(16, ge=4, le=128, description="number of tokens n")
    horizon: float = Field(20.0, gt=0.0, le=500.0, description="last time t")
    d: int = Field(32, ge=4, le=256, description="dimension of the tokens")

    @model_validator(mode="after")
    def _check(self) -> "AttentionRandomQKV":
        if not 1 <= len(self.betas) <= MOST_BETAS or any(not 0.0 < beta <= 30.0 for beta in self.betas):
            raise InputError(f"betas must be one to {MOST_BETAS} numbers in (0, 30], got {list(self.betas)}.")
        if any(low >= high for low, high in zip(self.betas, self.betas[1:], strict=False)):
            raise InputError(f"betas must increase, got {list(self.betas)}.")
        return self

    def times(self) -> np.ndarray:
        """Times at which pairs are counted."""
        return np.linspace(0.0, self.horizon, TIMES)

    def cloud_times(self) -> np.ndarray:
        """Times at which the size of a small cloud is measured."""
        return np.linspace(0.0, CLOUD_HORIZON, CLOUD_TIMES)

    def matrices(self, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(B, V) of each case."""
        root = np.sqrt(self.d)
        ginibre, wigner = (random_matrix(kind, self.d, seed, f"query-key {kind}") for kind in ("ginibre", "wigner"))
        value, wishart = (value_matrix(kind, self.d, seed, f"value {kind}") for kind in ("ginibre", "wishart"))
        return [(ginibre, value), (wigner, wishart / 4.0), (ginibre, ginibre / root), (wigner, wigner / root)]

    def centre(self, seed: int) -> np.ndarray:
        """The point around which the small cloud starts."""
        return uniform_tokens(1, self.d, (seed,))[0, 0]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        spread = np.zeros((len(seeds), len(CASES), CLOUD_TIMES))
        rate = np.zeros((len(seeds), len(CASES)))
        bipolar = np.zeros((len(seeds), len(CASES), len(self.betas)))
        for row, seed in enumerate(seeds):
            centre = self.centre(seed)
            for case, (query_key, value) in enumerate(self.matrices(seed)):
                spread[row, case] = self._cloud_size(value, centre)
                rate[row, case] = consensus_rate(value)
                for place, beta in enumerate(self.betas):
                    bipolar[row, case, place] = _bipolar_is_stable(value, query_key, beta)
        dataset = xr.Dataset(
            {
                "log_spread": (("seed", "case", "cloud_time"), spread),
                "absolute_log_spread": (("seed", "case", "cloud_time"), np.abs(spread)),
                "consensus_rate": (("seed", "case"), rate),
                "bipolar_stable": (("seed", "case", "beta"), bipolar),
            },
            coords={"seed": list(seeds), "case": np.arange(4), "cloud_time": self.cloud_times(), "beta": [*self.betas]},
        )
        status = "exact for clouds much smaller than the distance on which attention varies."
        return Findings(dataset, True, status)

    def _cloud_size(self, value: np.ndarray, centre: np.ndarray) -> np.ndarray:
        r"""$-\ln|e^{Vt}x_0|$ at the times of the cloud."""
        step = expm(value * (CLOUD_HORIZON / (CLOUD_TIMES - 1)))
        state, sizes = centre, [0.0]
        for _ in range(CLOUD_TIMES - 1):
            state = step @ state
            length = float(np.linalg.norm(state))
            state = state / length
            sizes.append(sizes[-1] - np.log(length))
        return np.array(sizes)

    def train(self, seed: int) -> Findings:
        pairs = self.matrices(seed)
        systems = len(CASES) * len(self.betas)
        start = np.broadcast_to(uniform_tokens(self.tokens, self.d, (seed,)), (systems, self.tokens, self.d))
        heads = [np.repeat(np.stack(part), len(self.betas), axis=0)[:, None] for part in zip(*pairs, strict=True)]
        betas = np.tile(self.betas, len(CASES))
        record = run_ensemble(start, betas, self.times(), Matrices(*heads), step=STEP, keep_gram=True)
        gram = np.asarray(record.gram).reshape(TIMES, len(CASES), len(self.betas), self.tokens, self.tokens)
        spread = np.stack([self._cloud(query_key, value, seed) for query_key, value in pairs])
        dims = ("seed", "case", "beta", "time")
        dataset = xr.Dataset(
            {
                "clustered_pairs": (dims, np.moveaxis(clustered_pairs(gram), 0, -1)[None]),
                "aligned_pairs": (dims, np.moveaxis(clustered_pairs(np.abs(gram)), 0, -1)[None]),
                "log_spread": (("seed", "case", "cloud_time"), spread[None]),
                "absolute_log_spread": (("seed", "case", "cloud_time"), np.abs(spread)[None]),
            },
            coords={
                "seed": [seed],
                "case": np.arange(4),
                "beta": [*self.betas],
                "time": self.times(),
                "cloud_time": self.cloud_times(),
            },
            attrs={"d": self.d},
        )
        ok = bool(np.isfinite(gram).all() and np.isfinite(spread).all())
        status = f"{self.tokens} tokens, {systems} systems." if ok else "the tokens did not stay finite."
        return Findings(dataset, ok, status)

    def _cloud(self, query_key: np.ndarray, value: np.ndarray, seed: int) -> np.ndarray:
        """Logarithm of the size of a small cloud, relative to its start, at the largest beta."""
        scatter = uniform_tokens(CLOUD_TOKENS + 1, self.d, (seed,))[0, 1:]
        tokens = self.centre(seed) + CLOUD_SPREAD * scatter
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
        run = run_particles(tokens, self.betas[-1], self.cloud_times(), query_key, value, tolerance=1e-10, merge=0.0)
        sizes = np.array([cosine_gaps(state).sum() for state in run.dataset.tokens.values])
        return 0.5 * np.log(sizes / sizes[0])

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, small = self.times(), self.cloud_times()
        titles = ("A: $B$, $V$ Ginibre", "B: $B$ Wigner, $V$ Wishart", "C: $V=B/\\sqrt{d}$ Ginibre",
                  "D: $V=B/\\sqrt{d}$ Wigner")  # fmt: skip
        panels, shrinking, stable = [], [], []
        for case, title in enumerate(titles):
            marks: list[Mark] = []
            shrinking.append(Line(small, theory.dataset.log_spread.values[:, case].mean(axis=0), CASES[case], case))
            share = theory.dataset.bipolar_stable.values[:, case].mean(axis=0)
            stable.append(Line(self.betas, share, "", case, spots=True))
            diagram = len(self.betas) > MOST_CURVES
            if diagram:
                marks += self._diagram(case, share, simulation)
            if simulation is not None:
                data = simulation.dataset
                for colour, beta in enumerate(() if diagram else self.betas):
                    mean, error = mean_and_error(data.clustered_pairs.values[:, case, colour])
                    at = thin(times.size, 14)
                    # One legend is enough.
                    label = f"$\\beta={beta:g}$" if case == 1 else ""
                    marks.append(Points(times[at], mean[at], error[at], label, colour))
                    aligned = data.aligned_pairs.values[:, case, colour].mean(axis=0)
                    marks.append(Line(times, aligned, "", colour, dashed=True))
                mean, error = mean_and_error(data.log_spread.values[:, case])
                shrinking.append(Points(small, mean, error, "", case))
                stable.append(Points(self.betas, *mean_and_error(_bipolar_at_end(data)[:, case]), colour=case))
            if diagram:
                limits = (self.betas[0], self.betas[-1])
                label = r"inverse temperature $\beta$"
                panels.append(Panel(r"time $t$ (depth)", label, marks, title, y_scale="log", y_range=limits))
            else:
                label = r"pairs with $g\geq0.999$; dashed: $|g|$"
                panels.append(Panel(r"time $t$ (depth)", label, marks, title, y_range=(-0.03, 1.05)))
        panels += [
            Panel(r"time $t$", r"log size of a small cloud", shrinking),
            Panel(
                r"inverse temperature $\beta$",
                "fraction of runs with two poles",
                stable,
                "squares: stable; points: reached",
                x_scale="log",
                y_range=(-0.03, 1.05),
            ),
        ]
        diagram = len(self.betas) > MOST_CURVES
        key = f"{'Dashed' if diagram else 'Full'} lines and squares: theory, for the matrices that were drawn."
        if simulation is not None:
            key += f" Points: simulation, mean and standard error over {counted(len(simulation.seeds), 'seed')}."
            key += (
                " Maps: simulation, part of the pairs with cosine at least 0.999."
                if diagram
                else " Dashed: simulation, pairs with cosine near plus or minus one."
            )
        title = f"Attention with random matrices, $n={self.tokens}$, $d={self.d}$"
        return Figure(panels, title=title, key=key)

    def _diagram(self, case: int, share: np.ndarray, simulation: Result | None) -> list[Mark]:
        r"""The part of pairs that have met over $(t,\beta)$, and the $\beta$ from which on half of the matrices have
        two stable poles."""
        marks: list[Mark] = []
        if simulation is not None:
            met = simulation.dataset.clustered_pairs.values[:, case].mean(axis=0)
            marks.append(Map(self.times(), np.array(self.betas), met, "pairs that have met" * (case == 1), 0.0, 1.0))
        beyond = np.flatnonzero(share >= 0.5)
        if beyond.size and beyond[0] > 0:
            at = int(beyond[0])
            critical = np.interp(0.5, share[at - 1 : at + 1], self.betas[at - 1 : at + 1])
            marks.append(Threshold(r"two poles stable above", y=float(critical)))
        return marks

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean, numbers = over_seeds(dataset), {}
        for case, log_size in zip(CASES, mean.log_spread.isel(cloud_time=-1).values, strict=True):
            words = f"log size of a small cloud at t = {CLOUD_HORIZON:g} over its start, case {case}"
            numbers[f"log_spread_{case}"] = Number(log_size, words)
        if "consensus_rate" in dataset:
            for case, rate in zip(CASES, mean.consensus_rate.values, strict=True):
                numbers[f"consensus_rate_{case}"] = Number(
                    rate, f"rate at which tokens that have met contract, case {case}"
                )
        return numbers


def _bipolar_is_stable(value: np.ndarray, query_key: np.ndarray, beta: float) -> bool:
    try:
        return bipolar_stability(value, query_key, beta).stable
    except InputError:
        # Only complex eigenvalues: there are no poles to stay at.
        return False


def _bipolar_at_end(data: xr.Dataset) -> np.ndarray:
    """Whether all pairs are aligned at the last time and some of them opposite, shape (seed, case, beta)."""
    aligned, together = data.aligned_pairs.values[..., -1], data.clustered_pairs.values[..., -1]
    return ((aligned > 1.0 - CLUSTERED) & (together < 1.0 - CLUSTERED)).astype(float)
