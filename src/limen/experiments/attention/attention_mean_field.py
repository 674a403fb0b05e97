"""Infinitely many tokens: the law of the cloud follows an equation of its own, and finite clouds leave it in time."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error, thin
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.attention.mean_field_starts import (
    axial_tokens,
    circle_tokens,
    drawn_angles,
    stratified,
)
from limen.simulation.attention.particles import simulate
from limen.simulation.generators import numpy_generator
from limen.theory.attention.circle.circle_flow import circle_flow
from limen.theory.attention.zonal_flow import zonal_flow

MODES, TIMES, FRACTIONS, TOLERANCE = 4, 13, (4, 2, 1), 1e-6
SHOWN_TOKENS = 60


class AttentionMeanField(Experiment):
    r"""Many tokens under softmax attention, $Q^\top K=V=I$: as $n\to\infty$ their law obeys
    $\partial_t\mu+\mathrm{div}(\mu\,\frac1\beta\nabla\ln h)=0$, $h(x)=\int e^{\beta\langle x,y\rangle}d\mu(y)$.

    On the circle the start $1+a\cos\theta+\frac a2\cos(2\theta-1)$ is followed by its Fourier modes (a spectral
    method); on the sphere of $\mathbb R^d$ the start $1+au$ by the heights $u$ alone, whatever $d$. Against them run
    tokens drawn from these laws, one from each of $n$ equal parts (stratified), and, on the circle, independent tokens
    as well. In high dimension a token sees mostly itself, $e^\beta/n$ against $h$, and far more tokens are needed.

    What to see: the second mode overtakes the first as the cloud breaks up; stratified tokens stay on the lines.
    Independent tokens start $n^{-1/2}$ away, stratified ones $n^{-3/2}$, and the instability that forms clusters
    amplifies both. Judged are stratified tokens at the largest $n$, less what a fit in $1/n$ lays to their number,
    while the density on the circle is smooth: later it breaks into point masses. Source: Geshkovski et al. 2023.
    """

    name: ClassVar[str] = "attention-mean-field"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The law of infinitely many tokens, on the circle and on spheres, against particles."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023", "bruno2024")
    size_field: ClassVar[str] = "tokens"
    default_seeds: ClassVar[int] = 10
    compared: ClassVar[tuple[str, ...] | None] = ("modes", "mean_height")
    quick: ClassVar[dict[str, float]] = {"tokens": 128, "horizon": 1.5}
    quick_seeds: ClassVar[int] = 32

    beta: float = Field(4.0, ge=0.0, le=30.0, description="inverse temperature β")
    amplitude: float = Field(0.3, gt=0.0, le=0.6, description="amplitude a of the uneven start")
    horizon: float = Field(2.5, gt=0.0, le=10.0, description="last time t")
    dim: int = Field(3, ge=3, le=50, description="dimension d of the sphere")
    tokens: int = Field(300, ge=32, le=4_000, description="largest number n of tokens")

    def times(self) -> np.ndarray:
        """Times of the flow."""
        return np.linspace(0.0, self.horizon, TIMES)

    def sizes(self) -> np.ndarray:
        """Numbers of tokens of the sweep on the circle."""
        return np.array([self.tokens // fraction for fraction in FRACTIONS])

    def circle_density(self, angle: np.ndarray) -> np.ndarray:
        """The start on the circle, up to its mass."""
        return 1.0 + self.amplitude * (np.cos(angle) + 0.5 * np.cos(2.0 * angle - 1.0))

    def height_density(self, height: np.ndarray) -> np.ndarray:
        """The start on the sphere relative to the uniform law."""
        return 1.0 + self.amplitude * height

    def _coordinates(self) -> dict[str, np.ndarray]:
        return {"time": self.times(), "k": np.arange(1, MODES + 1), "part": np.array(["cosine", "sine"])}

    @cached_property
    def _circle(self) -> Result:
        """The law on the circle, as long as it is smooth."""
        return circle_flow(self.circle_density, self.beta, self.times())

    def _limit_modes(self) -> np.ndarray:
        """Modes (time, k, part) of the law on the circle; nan once it is no longer smooth."""
        modes, law = np.full((TIMES, MODES, 2), np.nan), self._circle.dataset
        for i, name in enumerate(("modes", "sine_modes")):
            modes[: law.sizes["time"], :, i] = law[name].values[:, 1 : MODES + 1]
        return modes

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        circle, sphere = self._circle, zonal_flow(self.height_density, self.dim, self.beta, self.times())
        dataset = xr.Dataset(
            {
                "modes": (("time", "k", "part"), self._limit_modes(), {"undefined": "the law is no longer smooth"}),
                "mean_height": (("time",), sphere.dataset.mean_height.values),
                "independent_slope": -0.5,
                "stratified_slope": -1.5,
            },
            coords=self._coordinates(),
            attrs={"d": self.tokens},
        )
        status = f"circle: {circle.status} Sphere: {sphere.status}"
        ok = circle.ok and sphere.ok
        return Findings(dataset, ok, status)

    def train(self, seed: int) -> Findings:
        modes = {kind: [self._modes(seed, n, kind) for n in self.sizes().tolist()] for kind in ("strata", "free")}
        spheres = [self._sphere(seed, n) for n in self.sizes().tolist()]
        heights = [tokens[..., -1].mean(axis=1) for tokens in spheres]
        seen = spheres[-1][[0, TIMES // 2, -1]][..., [0, -1]]
        dims = ("seed", "size", "time", "k", "part")
        dataset = xr.Dataset(
            {
                "modes": (dims, np.array([modes["strata"]])),
                "independent_modes": (dims, np.array([modes["free"]])),
                "mean_height": (("seed", "size", "time"), np.array([heights])),
                "seen_from_the_side": (("seed", "snapshot", "token", "axis"), seen[None]),
            },
            coords={
                **self._coordinates(),
                "size": self.sizes(),
                "seed": [seed],
                "snapshot": self.times()[[0, TIMES // 2, -1]],
            },
            attrs={"d": self.tokens},
        )
        status = f"up to {self.tokens} tokens."
        return Findings(dataset, True, status)

    def _sphere(self, seed: int, n: int) -> np.ndarray:
        """`n` stratified tokens on the sphere along the flow, (time, token, d); heights are the last coordinate."""
        generator = numpy_generator(seed, n, "axial tokens")
        start = axial_tokens(self.height_density, n, self.dim, generator)
        return simulate(start, self.beta, self.times(), tolerance=TOLERANCE).dataset.tokens.values

    def _modes(self, seed: int, n: int, kind: str) -> np.ndarray:
        """Fourier modes (time, k, part) of `n` tokens from a stratified or an independent draw."""
        generator = numpy_generator(seed, n, f"circle {kind}")
        quantiles = stratified(n, generator) if kind == "strata" else generator.uniform(size=n)
        start = circle_tokens(drawn_angles(self.circle_density, quantiles))
        run = simulate(start, self.beta, self.times(), tolerance=TOLERANCE).dataset.tokens.values
        turn = (run[..., 0] + 1j * run[..., 1])[..., None] ** np.arange(1, MODES + 1)
        mean = turn.mean(axis=1)
        return np.stack([mean.real, mean.imag], axis=-1)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """At the largest number of tokens, the others telling what part is finite number; while the density on the
        circle is smooth."""
        smooth = np.isfinite(theory.dataset.modes.values).all(axis=(1, 2))
        names = list(self.compared or ())
        early = simulation.dataset[names].isel(time=smooth)
        runs = [
            replace(simulation, dataset=early.sel(size=n).drop_vars("size").assign_attrs(d=n))
            for n in self.sizes().tolist()
        ]
        prediction = replace(theory, dataset=theory.dataset[names].isel(time=smooth))
        return compare(prediction, runs, variables=self.compared)

    def deviations(self, theory: Result, simulation: Result, name: str) -> np.ndarray:
        """Root mean square over modes of the distance from the mean field, (seed, size, time)."""
        difference = simulation.dataset[name] - theory.dataset.modes
        return np.sqrt((difference**2).mean(("k", "part"), skipna=False)).transpose("seed", "size", "time").values

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        times, at = self.times(), thin(TIMES)
        amplitudes = np.hypot(*np.moveaxis(theory.dataset.modes.values, -1, 0))
        circle: list[Mark] = [Line(times, amplitudes[:, k], f"$k={k + 1}$", colour=k) for k in range(MODES)]
        sphere: list[Mark] = [Line(times, theory.dataset.mean_height.values, "mean field")]
        panels = []
        if simulation is not None:
            measured = np.hypot(*np.moveaxis(simulation.dataset.modes.values[:, -1], -1, 0))
            mean, error = mean_and_error(measured)
            circle += [Points(times[at], mean[at, k], error[at, k], colour=k) for k in range(MODES)]
            mean, error = mean_and_error(simulation.dataset.mean_height.values[:, -1])
            label = f"stratified tokens, {counted(len(simulation.seeds), 'draw')}"
            sphere.append(Points(times[at], mean[at], error[at], label))
            panels += [self._distance_panel(theory, simulation), self._snapshot_panel(simulation)]
        label = r"time $t$"
        return Figure(
            [
                Panel(label, r"$|\mathrm{E}\,e^{ik\theta}|$, circle", circle),
                Panel(label, rf"mean height $\mathrm{{E}}\,u$, $d={self.dim}$", sphere),
                *panels,
            ],
            title=rf"Mean field of attention, $\beta={self.beta:g}$, $n={self.tokens}$",
        )

    def _distance_panel(self, theory: Result, simulation: Result) -> Panel:
        times, sizes = self.times(), self.sizes()
        marks: list[Mark] = []
        for base, (name, word) in enumerate((("independent_modes", "independent"), ("modes", "stratified"))):
            distances = self.deviations(theory, simulation, name)
            for i in (0, sizes.size - 1):
                mean, error = mean_and_error(distances[:, i])
                marks.append(Points(times, mean, error, f"{word}, $n={sizes[i]}$", colour=2 * base + (i > 0)))
        # Room for the legend below.
        levels = np.concatenate([np.ravel(mark.y) for mark in marks if isinstance(mark, Points)])
        levels = levels[np.isfinite(levels)]
        span = (levels.min() / 30.0, 2.0 * levels.max())
        return Panel("time $t$", "distance of modes from mean field", marks, y_scale="log", y_range=span)

    def _snapshot_panel(self, simulation: Result) -> Panel:
        """Tokens of the first draw on the sphere, seen from the side: before, and at the end."""
        angle = np.linspace(0.0, 2.0 * np.pi, 200)
        marks: list[Mark] = [Line(np.cos(angle), np.sin(angle), colour=3)]
        views = simulation.dataset.seen_from_the_side.values[0]
        for colour, row in enumerate((0, -1)):
            moment = float(simulation.dataset.snapshot.values[row])
            some = views[row, :: max(1, len(views[row]) // SHOWN_TOKENS)]
            marks.append(Points(some[:, 0], some[:, 1], None, f"$t={moment:g}$", colour=colour))
        return Panel("first coordinate of tokens", "height $u$ of tokens", marks, y_range=(-1.1, 1.6))

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last = dataset.isel(size=-1) if "size" in dataset.dims else dataset
        # The density on the circle is smooth up to here, for both witnesses.
        smooth = self._circle.dataset.sizes["time"] - 1
        mode = over_seeds(last).modes.isel(time=smooth).sel(k=2).values
        numbers = {
            "second_mode": Number(
                np.hypot(*mode),
                f"second Fourier mode on the circle at t = {self.times()[smooth]:.3g}, β = {self.beta:g}",
            ),
            "mean_height": Number(
                last.mean_height[..., -1].mean(), f"mean height on the sphere at t = {self.horizon:g}, d = {self.dim}"
            ),
        }
        for kind, name in (("independent", "independent_modes"), ("stratified", "modes")):
            slope = f"{kind}_slope"
            found = dataset[slope] if slope in dataset else self._start_slope(dataset[name].isel(time=0).values)
            numbers[slope] = Number(
                found, f"power of the number n with which {kind} tokens start nearer to the mean field"
            )
        return numbers

    def _start_slope(self, modes: np.ndarray) -> float:
        """Slope in the number of tokens of the distance of their modes (seed, size, k, part) from the mean field at the
        start, before the instability has had its say."""
        squares = ((modes - self._limit_modes()[0]) ** 2).mean(axis=(0, 2, 3))
        return float(np.polyfit(np.log(self.sizes()), 0.5 * np.log(squares), 1)[0])
