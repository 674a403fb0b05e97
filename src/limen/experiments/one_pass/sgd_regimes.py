"""The phase diagram of one-pass SGD: gradient flow, Saad and Solla's limit, noise, and no limit at all."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Band, Figure, Line, Map, Mark, Panel, Points, Threshold, counted, mean_and_error
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import InputError, OnePassSGD, OverlapStart, TwoLayer, network, target
from limen.result import Findings, Result
from limen.simulation.one_pass.overlap_chain import overlap_chain
from limen.theory.one_pass.alike_students import alike_flows, alike_noise_dominated_flow
from limen.theory.one_pass.plateaus import regime

# Sums kappa + rho at which theory and simulation are held against each other, and those near the end of the
# equations, which are drawn only.
COMPARED = np.array([-0.3, -0.2, -0.1, 0.0, 0.1, 0.25, 0.4])
BEYOND = np.array([-0.5, -0.4])
NOISY = np.array([-0.5, -0.4, -0.3, -0.2, -0.1])
SHOWN = {0.4: 3, 0.0: 4, -0.2: 0}
SCANNED, LARGER = 19, 100.0
# The longest step of a run that still follows a flow, in the time t.
LONGEST_STEP = 0.03
LARGEST = 20_000
CODES = {"no ode": 0.0, "noise dominated": 1.0, "saad-solla": 2.0, "gradient flow": 2.0}


class SGDRegimes(Experiment):
    r"""Width $p=d^\kappa$, rate $\gamma=d^{-\rho}$ and batch $b=d^\mu$: which limit one-pass SGD has.

    Students $\mathrm{erf}(\lambda/\sqrt2)$ learn one such teacher with label noise $\Delta$. In the time
    $t=\text{steps}\cdot\gamma/(dp)$ the noise of SGD has the weight $\gamma/p=d^{-(\kappa+\rho)}$: it vanishes for
    $\kappa+\rho>0$ (gradient flow, $n\sim d^{1+\kappa+\rho}$ samples), stays for $\kappa+\rho=0$ (Saad & Solla),
    and for $-\frac12<\kappa+\rho<0$ it is all that is left in the time $t\gamma/p$: norms grow and nothing is learnt.
    From $-\frac12$ on a single step moves the norms by $O(1)$ and there is no differential equation. Batches of
    $b=d^\mu$ samples divide the noise by $b$: the same diagram with $\kappa+\rho+\mu$, as long as a step stays short,
    $\frac\gamma{dp}=d^{-1-\kappa-\rho}\to0$. A rate $d^\mu$ times larger then makes the same way in as many
    samples and $d^\mu$ times fewer steps.

    What to see: along a line of constant $\kappa$ the risk at a fixed time rises from that of gradient flow through the
    plateau of Saad & Solla's limit to where nothing is learnt, and the rise sharpens as $d$ grows. The equations at
    this $d$ (weight $\gamma/p$ kept) describe the mean of the runs; towards $-\frac12$ the scatter of
    single runs grows. Source: Veiga et al. 2022 (arXiv 2202.00293).
    """

    name: ClassVar[str] = "sgd-regimes"
    source: ClassVar[str] = "Dimension-free limits of SGD"
    summary: ClassVar[str] = (
        "Width d^κ, rate d^-ρ and batch d^μ decide whether SGD is a gradient flow, noisy, or only noise."
    )
    citations: ClassVar[tuple[str, ...]] = ("veiga2022", "saad1995")
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("excess_risk",)
    quick: ClassVar[dict[str, float]] = {"d": 600, "horizon": 1.0, "kappa": 0.0}
    quick_seeds: ClassVar[int] = 128

    kappa: float = Field(0.2, ge=0.0, le=0.5, description="exponent κ of the width, p = d^κ")
    noise: float = Field(0.2, ge=0.0, le=10.0, description="variance Δ of the label noise")
    advantage: float = Field(0.2, gt=0.0, le=0.9, description="initial overlap m₀ of every student with the teacher")
    horizon: float = Field(8.0, gt=0.0, le=1_000.0, description="last time T, in steps × γ/(dp)")
    mu: float = Field(0.0, ge=0.0, le=0.5, description="exponent μ of the batch, b = d^μ samples a step")
    d: int = Field(400, ge=32, le=LARGEST, description="dimension of the inputs")

    @model_validator(mode="after")
    def _check(self) -> "SGDRegimes":
        if self.batch() > _largest_batch(self.d):
            # A batch is rounded: all below the next half is as good.
            most = np.floor(1e3 * np.log(_largest_batch(self.d) + 0.49) / np.log(self.d)) / 1e3
            dims = range(self.d, LARGEST + 1)
            enough = next((d for d in dims if round(d**self.mu) <= _largest_batch(d)), None)
            larger = "" if enough is None else f", or d = {enough}"
            raise InputError(
                f"mu must be at most {most:g} at d = {self.d}, or steps are too long for a flow, got {self.mu:g}: "
                f"take a smaller mu{larger}."
            )
        return self

    def batch(self) -> int:
        r"""$b=d^\mu$, rounded."""
        return max(1, round(self.d**self.mu))

    def width(self) -> int:
        r"""$p=d^\kappa$, rounded."""
        return max(1, round(self.d**self.kappa))

    def rates(self, total: np.ndarray) -> np.ndarray:
        r"""Rate over batch at each $\kappa+\rho+\mu$: $\gamma/(pb)=d^{-(\kappa+\rho+\mu)}$, with the whole $p$.

        The equations know rate and batch through this ratio alone, in the time $t$.
        """
        return self.width() * self.d**-total

    def times(self) -> np.ndarray:
        """Twelve times up to the horizon, without the common start."""
        return np.linspace(0.0, self.horizon, 13)[1:]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        grid, times = np.linspace(BEYOND[0], COMPARED[-1], SCANNED), self.times()
        sharper = self.width() * (LARGER * self.d) ** -grid
        rates = np.concatenate([[0.0], self.rates(COMPARED), self.rates(grid), sharper])
        solved = alike_flows(*self._alike(), rates, self.noise, times)
        free, inside, here, there = np.split(
            solved.dataset.excess_risk.values, np.cumsum([1, COMPARED.size, grid.size])
        )
        # Times of the noise-dominated limit, t times gamma/p, ascending.
        clocks = self.horizon * self.d ** -NOISY[::-1]
        alone = alike_noise_dominated_flow(*self._alike(), self.noise, clocks)
        dataset = labelled(
            {
                "excess_risk": (("total", "time"), inside),
                "final_risk": ("scanned", here[:, -1]),
                "final_risk_larger_d": ("scanned", there[:, -1]),
                "gradient_flow_risk": ("time", free[0]),
                "noise_dominated_risk": ("noisy", alone.dataset.excess_risk.values[::-1]),
            },
            coords={"total": COMPARED, "time": times, "scanned": grid, "noisy": NOISY},
        )
        wrong = [part.status for part in (solved, alone) if not part.ok]
        status = wrong[0] if wrong else f"p = {self.width()}, {rates.size} rates integrated."
        return Findings(dataset, not wrong, status)

    def train(self, seed: int) -> Findings:
        inside = [self._run(rate, self.times(), seed) for rate in self.rates(COMPARED)]
        outside = [self._run(rate, self.times(), seed) for rate in self.rates(BEYOND)]
        dataset = labelled(
            {
                "excess_risk": (
                    ("seed", "total", "time"),
                    np.stack([run.dataset.excess_risk.values for run in inside], axis=1),
                ),
                "risk_beyond": (
                    ("seed", "beyond"),
                    np.stack([run.dataset.excess_risk.values[:, -1] for run in outside], axis=1),
                ),
            },
            coords={"seed": [seed], "total": COMPARED, "time": self.times(), "beyond": BEYOND},
            attrs={"d": self.d},
        )
        status = f"exact overlap chain of SGD in d = {self.d}, {len(inside) + len(outside)} rates."
        return Findings(dataset, True, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        data, times = theory.dataset, self.times()
        scan: list[Mark] = [
            Line(data.scanned.values, data.final_risk.values, "equations at this $d$"),
            Line(data.scanned.values, data.final_risk_larger_d.values, "at $100\\,d$", colour=5),
            Line([0.0, COMPARED[-1]], [float(data.gradient_flow_risk[-1])] * 2, "gradient flow", 2, dashed=True),
            Line(NOISY, data.noise_dominated_risk.values, "noise alone", 1, dashed=True),
        ]
        paths: list[Mark] = [Line(times, data.gradient_flow_risk.values, "gradient flow", 2, dashed=True)]
        for total, colour in SHOWN.items():
            paths.append(Line(times, data.excess_risk.sel(total=total).values, f"${self._sum()}={total:g}$", colour))
        if simulation is not None:
            label = f"SGD, {counted(len(simulation.seeds), 'run')}"
            mean, error = mean_and_error(simulation.dataset.excess_risk.values)
            last = np.concatenate(
                [simulation.dataset.risk_beyond.values, simulation.dataset.excess_risk.values[..., -1]], axis=1
            )
            totals, spread = np.concatenate([BEYOND, COMPARED]), last.std(axis=0)
            scan.append(Band(totals, last.mean(axis=0) - spread, last.mean(axis=0) + spread, "spread of one run"))
            scan.append(Points(totals, *mean_and_error(last), label))
            for total, colour in SHOWN.items():
                at = int(np.flatnonzero(total == COMPARED)[0])
                paths.append(Points(times, mean[at], error[at], "", colour))
        for place, words in ((0.0, "$0$"), (-0.5, r"$-\frac{1}{2}$")):
            scan.append(Threshold(words, x=place))
        return Figure(
            [
                self._diagram(),
                Panel(
                    rf"${self._sum()}$ (noise of SGD $d^{{-({self._sum()})}}$)",
                    f"excess risk at $t={self.horizon:g}$",
                    scan,
                ),
                Panel(r"time $t$ = steps $\times\,\gamma/(dp)$", r"excess risk $R-\Delta/2$", paths),
            ],
            title=(
                f"Regimes of one-pass SGD, $p=d^{{{self.kappa:g}}}={self.width()}$, "
                f"$\\Delta={self.noise:g}$, $d={self.d}$" + (f", batches of {self.batch()}" if self.mu else "")
            ),
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        risk = dataset.excess_risk.isel(time=-1)
        last = risk.mean("seed") if "seed" in risk.dims else risk
        words = f"excess risk at t = {self.horizon:g}"
        found = {
            "risk_gradient_flow_side": Number(
                float(last.sel(total=0.4)), f"{words}, κ + ρ + μ = 0.4: the noise of SGD vanishes with d"
            ),
            "risk_saad_solla": Number(float(last.sel(total=0.0)), f"{words}, κ + ρ + μ = 0: the noise of SGD stays"),
            "risk_noise_side": Number(float(last.sel(total=-0.2)), f"{words}, κ + ρ + μ = -0.2: the noise of SGD wins"),
        }
        if "gradient_flow_risk" in dataset:
            found["risk_gradient_flow"] = Number(
                float(dataset.gradient_flow_risk[-1]), f"{words} of gradient flow, without the noise of SGD"
            )
        return found

    def _diagram(self) -> Panel:
        kappas, deltas = np.linspace(0.0, 1.0, 61), np.linspace(-1.6, 1.0, 105)
        codes = np.array([[CODES[regime(kappa, delta + self.mu)] for kappa in kappas] for delta in deltas])
        ends = np.array([0.0, 1.0])
        return Panel(
            r"exponent of the width $\kappa$",
            r"exponent of the rate $\rho$",
            [
                Map(kappas, deltas, codes, names=("no limiting ODE", "noise wins", "gradient flow")),
                Line(ends, -ends - self.mu, rf"Saad & Solla, ${self._sum()}=0$", colour=1),
                Line(ends, -0.5 - ends - self.mu, rf"${self._sum()}=-\frac{{1}}{{2}}$", colour=6),
                Line(
                    [self.kappa] * 2,
                    [end - self.kappa - self.mu for end in (BEYOND[0], COMPARED[-1])],
                    "simulated",
                    2,
                    True,
                ),
            ],
            y_range=(-1.6, 1.0),
        )

    def _sum(self) -> str:
        return r"\kappa+\rho+\mu" if self.mu else r"\kappa+\rho"

    def _alike(self) -> tuple[int, float, float, float, float, float, float, str]:
        """Width, norm, overlaps of students with each other and the teacher, teacher, second layers, activation."""
        return self.width(), 1.0, self.advantage**2, self.advantage, 1.0, 1.0, 1.0, "saad-solla"

    def _run(self, rate: float, times: np.ndarray, seed: int) -> Findings:
        gram = np.full((self.width(), self.width()), self.advantage**2)
        np.fill_diagonal(gram, 1.0)
        problem = TwoLayer(
            target("committee:1", noise=self.noise),
            network(self.width(), "saad-solla"),
            OnePassSGD(float(rate) * self.batch(), batch=self.batch()),
            start=OverlapStart(np.full((self.width(), 1), self.advantage), gram=gram),
        )
        return overlap_chain.solve(problem, times, d=self.d, seed=seed)


def _largest_batch(d: int) -> int:
    """Samples a step with which the steps of the largest rate compared are short enough for a flow; at least one."""
    return max(1, int(LONGEST_STEP * d ** (1.0 + COMPARED[0])))
