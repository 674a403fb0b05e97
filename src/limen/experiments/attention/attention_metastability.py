"""Clusters that last: the number of clusters falls one by one, over decades of time."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.first_passage import first_passage
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.attention.observables import cluster_masses, clustered_pairs, cosine_gaps
from limen.simulation.attention.particles import simulate as run_particles
from limen.simulation.attention.starts import uniform_tokens
from limen.theory.attention import (
    cluster_count,
    forming_time,
    log_lifetime,
    log_two_cluster_time,
    merging_times,
)

CLUSTERED = 1e-3
FIRST_TIME, TIMES, PLATEAU_TIME = 5.0, 481, 12.0
# Numbers of clusters whose end is timed.
LEFT = (4, 3, 2, 1)
ANGLES = np.linspace(1.0, 2.8, 5)
CLOUD, SPREAD = 20, 1e-2
# How far from regular the polygons of random tokens are: good for an order of magnitude.
IRREGULARITY = 0.1
SHOWN_SEEDS = 6
EARLY_TIMES = np.geomspace(0.05, FIRST_TIME, 24, endpoint=False)
SHOWN_TOKENS = 50


class AttentionMetastability(Experiment):
    r"""Tokens on the circle under attention with large $\beta$: clusters form at once and merge very slowly.

    The uniform law is unstable, and within a time of order one random tokens gather in about $\sqrt{3\beta/2}$ clusters
    (Rice's count of the attracting points). Clusters that see each other at angle $\varphi$ attract at a rate of order
    $e^{-\beta(1-\cos\varphi)}$, so each merger takes decades longer than the one before: on the way to the single
    cluster that every start reaches in the end, the count and the energy
    $\frac1{2\beta n^2}\sum_{ij}(e^{\beta\langle x_i,x_j\rangle}-1)$ climb a staircase in $\log t$. Regular polygons of
    $k$ clusters live for times of order $\tau_k$ (dashed marks), good for the order of magnitude only.

    What to see: plateaus of very different lengths from start to start, energies near those of $k$ equal clusters, and
    merging times over many decades. Two things are compared. Given where the clusters of a start are at $t=12$ and how
    many tokens each has, their own exact equations (`merging_times`) say when four, three, two and one are left, each
    start against its own run of all tokens; what comes after the last time counts as the last time. And two clouds of
    given sizes at a given angle merge by $\dot\gamma=(1-\gamma^2)\big[\frac{w_2}{w_1e^{\beta(1-\gamma)}+w_2}+
    \frac{w_1}{w_2e^{\beta(1-\gamma)}+w_1}\big]$.

    When clusters form (`forming_time`, ripples as large as the density; in the simulation half of the pairs have met),
    and how many, by Rice's count at that time, are estimates and not compared. Source: Geshkovski, Letrouit,
    Polyanskiy & Rigollet 2023 (arXiv 2312.10794), section 7.
    """

    name: ClassVar[str] = "attention-metastability"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Clusters of tokens merge one by one, each merger decades after the last."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023", "bruno2024")
    size_field: ClassVar[str] = "tokens"
    default_seeds: ClassVar[int] = 8
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("log10_merging_time", "log10_fall_time")
    quick: ClassVar[dict[str, float]] = {"tokens": 40, "decades": 3.0, "beta": 6.0}
    quick_seeds: ClassVar[int] = 8

    beta: float = Field(9.0, ge=1.0, le=14.0, description="inverse temperature β")
    tokens: int = Field(200, ge=8, le=1000, description="number of tokens n")
    decades: float = Field(7.0, ge=2.0, le=12.0, description="log10 of the last time")
    share: float = Field(0.7, ge=0.05, le=0.95, description="part of the tokens in the first of two merging clouds")

    def times(self) -> np.ndarray:
        """From the end of the linear phase, evenly in the logarithm."""
        return np.geomspace(FIRST_TIME, 10.0**self.decades, TIMES)

    def sizes(self) -> tuple[int, int]:
        """Tokens in each of the two merging clouds."""
        first = min(max(round(self.share * CLOUD), 1), CLOUD - 1)
        return first, CLOUD - first

    def start(self, seed: int) -> np.ndarray:
        """Independent tokens on the circle."""
        return uniform_tokens(self.tokens, 2, (seed,))[0]

    def fall_times(self, seed: int) -> list[float]:
        r"""$\log_{10}$ of the times from which on at most `LEFT` clusters are left, by the equations of the clusters
        that the tokens of a start have formed at the time of the plateau."""
        settled = run_particles(self.start(seed), self.beta, [PLATEAU_TIME]).dataset.tokens.values[0]
        centres, masses = cluster_masses(settled, CLUSTERED)
        angles, last = np.arctan2(centres[:, 1], centres[:, 0]), 10.0**self.decades
        waits = merging_times(angles, masses, self.beta, last, CLUSTERED)
        # The wait until at most `left` clusters are left is the one with so many mergers still to come.
        found = [waits[-left] if left <= waits.size else 0.0 for left in LEFT]
        return np.log10(np.minimum(PLATEAU_TIME + np.array(found), last)).tolist()

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        forming = forming_time(self.beta, self.tokens)
        merging = [log_two_cluster_time(self.sizes(), self.beta, float(np.cos(a)), CLUSTERED) for a in ANGLES]
        clusters = np.arange(2, 6)
        lives = [log_lifetime(int(k), self.beta, IRREGULARITY) for k in clusters]
        dataset = xr.Dataset(
            {
                "log10_merging_time": ("angle", np.array(merging) / np.log(10.0)),
                "log10_lifetime": ("polygon", np.array(lives) / np.log(10.0)),
                "polygon_energy": ("polygon", [self._polygon_energy(int(k)) for k in clusters]),
                "first_plateau": ((), cluster_count(self.beta, forming)),
                "forming_time": ((), forming),
                "log10_fall_time": (("seed", "left"), [self.fall_times(seed) for seed in seeds]),
            },
            coords={"angle": ANGLES, "polygon": clusters, "seed": list(seeds), "left": list(LEFT)},
        )
        status = "merging times exact, from the clusters at t = 12 on; forming time and first plateau are estimates."
        return Findings(dataset, True, status)

    def _polygon_energy(self, k: int) -> float:
        """Energy of k equal clusters at equal angles, in units of that of one cluster."""
        cosines = np.cos(2.0 * np.pi * np.arange(k) / k)
        return float(np.expm1(self.beta * cosines).mean() / np.expm1(self.beta))

    def train(self, seed: int) -> Findings:
        moments = np.concatenate([EARLY_TIMES, self.times()])
        run = run_particles(self.start(seed), self.beta, moments, delta=CLUSTERED)
        late = slice(EARLY_TIMES.size, None)
        counts = run.dataset.clusters.values[late]
        # Clusters have formed when half of the pairs that meet by the time of the plateau have met.
        met = clustered_pairs(run.dataset.gram.values[moments <= PLATEAU_TIME], CLUSTERED)
        formed = first_passage(moments[: met.size], 1.0 / np.maximum(met, 1e-6), 2.0 / met[-1])
        shown = run.dataset.tokens.values[:, :: max(1, self.tokens // SHOWN_TOKENS)]
        merging = [np.log10(self._merging_time(float(angle), seed, place)) for place, angle in enumerate(ANGLES)]
        whole = np.expm1(self.beta) / (2.0 * self.beta)
        dataset = xr.Dataset(
            {
                "clusters": (("seed", "time"), counts[None].astype(float)),
                "log10_fall_time": (("seed", "left"), [[self._fall_time(counts, left) for left in LEFT]]),
                "forming_time": (("seed",), [formed]),
                "relative_energy": (("seed", "time"), run.dataset.energy.values[None, late] / whole),
                "log10_merging_time": (("seed", "angle"), np.array([merging])),
                "token_angle": (("seed", "moment", "token"), np.arctan2(shown[..., 1], shown[..., 0])[None]),
            },
            coords={"time": self.times(), "moment": moments, "angle": ANGLES, "seed": [seed], "left": list(LEFT)},
            attrs={"d": self.tokens},
        )
        ok = run.ok and bool(np.isfinite(merging).all())
        statistics = {"evaluations": run.statistics["evaluations"]}
        return Findings(dataset, ok, run.status, statistics)

    def _fall_time(self, counts: np.ndarray, left: int) -> float:
        """log10 of the time from which on at most `left` clusters are left, between the time of the plateau and the
        last: the middle, in the logarithm, of the two records between which it lies."""
        logs, first = np.log10(self.times()), np.log10(PLATEAU_TIME)
        more = np.flatnonzero(counts > left)
        after = int(more[-1]) + 1 if more.size else 0
        if after == counts.size:
            return float(logs[-1])
        return float(max(0.5 * (logs[after] + logs[max(after - 1, 0)]), first))

    def _merging_time(self, angle: float, seed: int, place: int) -> float:
        """When two clouds of tokens around points at this angle have come within 0.001 of cosine one."""
        first, second = self.sizes()
        scatter = np.random.default_rng([seed, place, self.tokens]).normal(size=CLOUD) * SPREAD
        angles = np.repeat([0.0, angle], [first, second]) + scatter
        state, since = np.stack([np.cos(angles), np.sin(angles)], axis=1), 0.0
        passage = float("nan")
        # Mergers take no time on the scale of the wait: the record is refined around the passage.
        clock = np.concatenate([[0.0], np.geomspace(1e-2, 1e4 * np.exp(2.0 * self.beta), 60)])
        for _ in range(3):
            path = run_particles(state, self.beta, clock, tolerance=1e-6).dataset.tokens.values
            gaps = np.array([cosine_gaps(tokens[[0, -1]])[0, 1] for tokens in path])
            passed = np.flatnonzero(gaps <= CLUSTERED)
            if passed.size == 0:
                return float("nan")
            last = max(int(passed[0]) - 1, 0)
            passage = since + first_passage(clock, gaps, CLUSTERED)
            state, since = path[last] / np.linalg.norm(path[last], axis=1, keepdims=True), since + clock[last]
            clock = np.linspace(0.0, clock[last + 1] - clock[last], 30)
        return passage

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        lives = theory.dataset.log10_lifetime.values
        marks = [
            Threshold(f"$\\tau_{k}$", x=float(10.0**life))
            for k, life in zip(theory.dataset.polygon.values, lives, strict=True)
            if np.log10(FIRST_TIME) + 0.2 < life < self.decades
        ]
        counts: list[Mark] = [*marks, Threshold("Rice's count", y=float(theory.dataset.first_plateau))]
        energies: list[Mark] = [
            Threshold(f"{k} equal clusters", y=float(level))
            for k, level in zip(theory.dataset.polygon.values[:3], theory.dataset.polygon_energy.values, strict=False)
        ]
        tokens: list[Mark] = []
        ends = [np.log10(PLATEAU_TIME), self.decades]
        falls: list[Mark] = [Line(ends, ends, "as predicted", 6, dashed=True)]
        merging: list[Mark] = [Line(ANGLES, theory.dataset.log10_merging_time.values, "theory", spots=True)]
        if simulation is not None:
            data, times = simulation.dataset, self.times()
            for row in range(min(len(simulation.seeds), SHOWN_SEEDS)):
                # Lifted a little from one another, or the staircases would hide each other.
                counts.append(Line(times, data.clusters.values[row] + 0.05 * row, colour=row))
                energies.append(Line(times, data.relative_energy.values[row], colour=row))
            # Unwrapped, or a token that passes the cut of the circle would draw a line across the panel.
            paths = np.unwrap(data.token_angle.values[0], axis=0).T
            tokens.extend(Line(data.moment.values, path, colour=0) for path in paths)
            tokens.append(Threshold("$t_{form}$", x=float(theory.dataset.forming_time)))
            for colour, left in enumerate(LEFT):
                expected, found = (part.dataset.log10_fall_time.sel(left=left) for part in (theory, simulation))
                words = "one left" if left == 1 else f"{left} left"
                falls.append(Points(expected.sel(seed=found.seed).values, found.values, label=words, colour=colour))
            mean, error = mean_and_error(data.log10_merging_time.values)
            merging.append(Points(ANGLES, mean, error, f"{len(simulation.seeds)} pairs of clouds"))
        time_range = (FIRST_TIME, 10.0**self.decades)
        time_label = r"time $t$ (depth)"
        most = 1.0 + max(6.0, float(theory.dataset.first_plateau))
        first, second = self.sizes()
        key = "Dashed lines and squares: theory."
        if simulation is not None:
            shown = min(len(simulation.seeds), SHOWN_SEEDS)
            key += (
                f" Other lines: simulation, start by start ({shown} shown of {counted(len(simulation.seeds), 'seed')})."
            )
            key += " Points: mean and standard error over the seeds; in the last panel each is one start."
        snapshots, timed = [], []
        if simulation is not None:
            snapshots = [Panel(time_label, r"angles of tokens, first start", tokens, x_scale="log")]
            timed = [
                Panel(
                    rf"$\log_{{10}}t$ predicted from $t={PLATEAU_TIME:g}$ on", r"$\log_{10}t$ of all tokens", falls,
                    "when so many clusters are left, start by start",
                )
            ]  # fmt: skip
        return Figure(
            [
                *snapshots,
                Panel(
                    time_label, "clusters, start by start", counts,
                    x_scale="log", x_range=time_range, y_range=(0.5, most),
                ),
                Panel(
                    time_label, r"energy $E_\beta$ / energy of one cluster", energies,
                    x_scale="log", x_range=time_range, y_range=(0.0, 1.05),
                ),
                Panel(
                    r"angle between two clouds $\varphi$",
                    f"$\\log_{{10}}$ merging time, sizes {first}:{second}",
                    merging,
                ),
                *timed,
            ],
            title=f"Metastable clusters on the circle, $\\beta={self.beta:g}$, $n={self.tokens}$",
            key=key,
        )  # fmt: skip

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        angle = f"angle {ANGLES[-1]:g}, β = {self.beta:g}"
        if "first_plateau" in dataset:
            plateau = dataset.first_plateau
        else:
            plateau = dataset.clusters.sel(time=PLATEAU_TIME, method="nearest").mean()
        numbers = {
            "log10_merging_time_widest_angle": Number(
                over_seeds(dataset).log10_merging_time[-1],
                f"log10 of the time after which two clouds have merged, {angle}",
            ),
            "clusters_on_first_plateau": Number(plateau, "number of clusters on the first plateau", "clusters"),
            "forming_time": Number(
                over_seeds(dataset).forming_time,
                "time t at which clusters form: half of their pairs have met (an estimate)",
            ),
        }
        for left in LEFT[1:3]:
            words = f"log10 of the time from which on at most {left} clusters are left, mean over the starts"
            numbers[f"log10_time_of_{left}_left"] = Number(over_seeds(dataset).log10_fall_time.sel(left=left), words)
        if "log10_lifetime" in dataset:
            numbers["log10_lifetime_triangle"] = Number(
                dataset.log10_lifetime.sel(polygon=3),
                "log10 of the lifetime of three equal clusters (order of magnitude)",
            )
        return numbers
