"""How an even cloud of tokens breaks up: growth rates of its ripples, and the number of points that attract."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.attention.attracting_points import attracting_points
from limen.simulation.attention.growth import measured_growth
from limen.simulation.attention.particles import simulate
from limen.simulation.generators import numpy_generator
from limen.theory.attention.uniform_stability import cluster_count, fastest_degree, growth_rates, mode_thresholds

BETAS, DEGREES, DURATION, DRAWS, LINE = 7, 6, 1.0, 160, 401
# Rings on the sphere and long runs are dear: every second inverse temperature.
STRIDE = 2


class AttentionModes(Experiment):
    r"""Tokens spread evenly over the circle or the sphere, $Q^\top K=V=I$, softmax: a state of rest, and unstable.

    A ripple of degree $\ell$ grows at the rate $\lambda_\ell=\frac{\ell(\ell+d-2)}\beta I_{\ell+d/2-1}(\beta)/
    I_{d/2-1}(\beta)$. The fastest degree rises by one at each threshold (dashed), so that sharper attention breaks the
    cloud into more clusters. Independent tokens bring ripples of all degrees along: at first $h=\int e^{\beta\langle
    x,y\rangle}d\mu$ has $N(0)$ maxima on average (Rice's formula), about $\sqrt{3\beta/2}$; while ripples grow, the
    count $N(t)$ moves towards the fastest degree.

    What to see: rates measured on particles, one ripple of each degree at once, on the curves of $d=2$ and $d=3$. Then
    counts of attracting points: of independent tokens at the start on the line $N(0)$; later near $N(t)$, then fewer,
    as clusters merge. Only the count at the start is judged; $N(t)$ is linear theory, and few tokens leave it soon.
    Source: Geshkovski et al. 2023; Bruno, Pasqualotto & Agazzi 2024.
    """

    name: ClassVar[str] = "attention-modes"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Growth rates of ripples on the uniform law, and how many clusters they make."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023", "bruno2024", "rice1945")
    size_field: ClassVar[str] = "tokens"
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("growth_rate", "sphere_growth_rate", "first_points")
    quick: ClassVar[dict[str, float]] = {"tokens": 60, "settled_time": 4.0, "largest_beta": 8.0}
    quick_seeds: ClassVar[int] = 32

    largest_beta: float = Field(16.0, ge=2.0, le=30.0, description="largest inverse temperature β")
    perturbation: float = Field(0.003, gt=0.0, le=0.02, description="size ε of each ripple whose growth is measured")
    linear_time: float = Field(1.5, gt=0.0, le=10.0, description="time t at which N(t) is shown beside the count")
    settled_time: float = Field(12.0, gt=0.0, le=1_000.0, description="time from there to the last count")
    tokens: int = Field(160, ge=20, le=2_000, description="number n of independent tokens whose clusters are counted")

    def betas(self) -> np.ndarray:
        """Inverse temperatures at which particles are run."""
        return np.linspace(0.0, self.largest_beta, BETAS + 1)[1:]

    def degrees(self) -> np.ndarray:
        """Degrees of the ripples."""
        return np.arange(1, DEGREES + 1)

    def _coordinates(self) -> dict[str, np.ndarray]:
        return {"beta": self.betas(), "sparse_beta": self.betas()[::STRIDE], "degree": self.degrees()}

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        betas, sparse_betas, degrees = self._coordinates().values()
        dataset = xr.Dataset(
            {
                "growth_rate": (("beta", "degree"), growth_rates(2, betas, degrees)),
                "sphere_growth_rate": (("sparse_beta", "degree"), growth_rates(3, sparse_betas, degrees)),
                "first_points": (("beta",), cluster_count(betas, 0.0)),
                "later_points": (("sparse_beta",), cluster_count(sparse_betas, self.linear_time)),
                "fastest_degree": (("beta",), fastest_degree(2, betas)),
            },
            coords=self._coordinates(),
            attrs={"d": self.tokens},
        )
        return Findings(dataset, True, "closed forms.")

    def train(self, seed: int) -> Findings:
        betas, sparse_betas, degrees = self._coordinates().values()

        def rates(d: int, values: np.ndarray) -> np.ndarray:
            wanted = degrees.tolist()
            return np.array(
                [[measured_growth(d, beta, wanted, self.perturbation, DURATION, seed) for beta in values.tolist()]]
            )

        angles = numpy_generator(seed, self.tokens, "independent tokens").uniform(
            0.0, 2.0 * np.pi, (DRAWS, self.tokens)
        )
        first = attracting_points(angles, betas).mean(axis=1)
        counts = [self._counts(angles[0], beta) for beta in sparse_betas.tolist()]
        dataset = xr.Dataset(
            {
                "growth_rate": (("seed", "beta", "degree"), rates(2, betas)),
                "sphere_growth_rate": (("seed", "sparse_beta", "degree"), rates(3, sparse_betas)),
                "first_points": (("seed", "beta"), [first]),
                "later_points": (("seed", "sparse_beta"), [[count[0] for count in counts]]),
                "settled_points": (("seed", "sparse_beta"), [[count[1] for count in counts]]),
            },
            coords={**self._coordinates(), "seed": [seed]},
            attrs={"d": self.tokens},
        )
        status = f"particles; counts of {self.tokens} independent tokens."
        return Findings(dataset, True, status)

    def _counts(self, angles: np.ndarray, beta: float) -> list[float]:
        """Attracting points of one set of tokens at the two times."""
        start = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        moments = [self.linear_time, self.linear_time + self.settled_time]
        states = simulate(start, beta, moments, tolerance=1e-5).dataset.tokens.values
        return [
            float(count) for count in attracting_points(np.arctan2(states[..., 1], states[..., 0]), np.array([beta]))[0]
        ]

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        betas, sparse_betas, degrees = self._coordinates().values()
        fine = np.linspace(0.0, 1.05 * self.largest_beta, LINE)
        panels = []
        for d, values, name in ((2, betas, "growth_rate"), (3, sparse_betas, "sphere_growth_rate")):
            curves = growth_rates(d, fine, degrees)
            # Colours mean the same on circle and sphere: one legend, where the frame leaves room for it.
            marks: list[Mark] = [
                Line(fine, curves[:, i], rf"$\ell={degree}$" if d == 3 else "", colour=i)
                for i, degree in enumerate(degrees)
            ]
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset[name].values)
                marks += [Points(values, mean[:, i], error[:, i], colour=i) for i in range(degrees.size)]
            thresholds = mode_thresholds(d, degrees[:-1])
            marks += [
                Threshold(f"${degree}|{degree + 1}$", x=float(at))
                for degree, at in zip(degrees, thresholds, strict=False)
                if at < fine[-1]
            ]
            place, room = ("circle, $d=2$", 1.0) if d == 2 else ("sphere, $d=3$", 1.3)
            label = rf"growth rate $\lambda_\ell$, {place}"
            panels.append(Panel(r"inverse temperature $\beta$", label, marks, x_range=(0.0, room * fine[-1])))
        positive = fine[1:]
        lines: list[Mark] = [
            Line(positive, cluster_count(positive, 0.0), "$N(0)$"),
            Line(positive, cluster_count(positive, self.linear_time), f"$N({self.linear_time:g})$", colour=1),
            Line(positive, fastest_degree(2, positive), "fastest degree", colour=6, dashed=True),
        ]
        if simulation is not None:
            run = simulation.dataset
            late = self.linear_time + self.settled_time
            counted = (("first_points", betas, 0.0), ("later_points", sparse_betas, self.linear_time))
            for colour, (name, values, moment) in enumerate((*counted, ("settled_points", sparse_betas, late))):
                lines.append(
                    Points(values, *mean_and_error(run[name].values), f"tokens, $t={moment:g}$", colour=colour)
                )
        panels.append(Panel(r"inverse temperature $\beta$", "attracting points, circle", lines, x_range=(0, fine[-1])))
        return Figure(panels, title=f"Ripples on the uniform law; counts of $n={self.tokens}$ independent tokens")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last, beta = over_seeds(dataset).isel(beta=-1, sparse_beta=-1), f"β = {self.largest_beta:g}"
        rates = last.growth_rate.values
        return {
            "largest_growth_rate": Number(rates.max(), f"growth rate of the fastest ripple on the circle, {beta}"),
            "fastest_degree": Number(
                self.degrees()[rates.argmax()], f"degree ℓ of the fastest ripple on the circle, {beta}"
            ),
            "first_points": Number(
                last.first_points, f"attracting points of independent tokens at the start, {beta}", "points"
            ),
            "later_points": Number(
                last.later_points, f"attracting points at t = {self.linear_time:g}, {beta}", "points"
            ),
        }
