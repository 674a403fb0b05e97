"""Several directions at once: overlaps of a frame under two losses, and when a random frame finds them."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.experiments.first_passage import first_passage
from limen.experiments.number import Number, over_seeds
from limen.experiments.typeset import typeset
from limen.problem import InputError, MultiIndex, OverlapStart, RandomStart, target
from limen.result import Findings, Result
from limen.simulation.effective.frame_chain import chain_lengths
from limen.simulation.effective.stiefel_sgd import solve_seeds
from limen.theory.effective.stiefel_flow import solve
from limen.theory.effective.stiefel_hitting import frame_hitting_times, growing_modes

PATH_TIMES, LAW_TIMES = 7, 41
SQUARE = "square"
# Where frames of the first two panels start: nearer to some directions than to others.
TILT = ((0.4, 0.1), (0.0, 0.35))


class MultiIndexLosses(Experiment):
    r"""SGD of two orthonormal vectors on a teacher $y=h(\langle\theta_1,a\rangle,\langle\theta_2,a\rangle)+$ noise,
    $h=z_1z_2$, one sample a step, with the square loss and with another one.

    The $2\times2$ overlaps $M=X\Theta^\top$ close. From given overlaps they follow
    $\dot M=-E[cs_*^\top]+\frac12E[cs^\top+sc^\top]M-\frac\delta2E[cc^\top]M$, $c$ the gradient of the loss by the
    fields $s=Xa$. From a random start, $M\sim N^{-1/2}$, some patterns of overlaps grow, at rates set by loss and step
    (for $z_1z_2$, square loss, no noise: $2-8\delta$, twice), out of a Gaussian start made larger by the noise of the
    steps. That is the law of the time at which $\lVert M\rVert_F/\sqrt2$ reaches a level: $\frac{\ln N}{2A}$ plus a
    random number of order one.

    What to see: overlaps on their curves, each loss with its own speed; hitting times with their law, not only their
    mean. Compared are the overlaps, of SGD in `d` dimensions, and the mean time (runs that have not arrived count with
    the last time), of the exact chain of the overlaps in `law_dimension` dimensions: the law is one of large $N$.
    Source: Ben Arous, Gheissari & Jagannath 2021 (one direction); several directions are derived here.
    """

    name: ClassVar[str] = "multi-index"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Two directions are learnt at once: overlaps under two losses, and laws of hitting times."
    citations: ClassVar[tuple[str, ...]] = ("benarous2021", "benarous2022")
    default_seeds: ClassVar[int] = 16
    compared: ClassVar[tuple[str, ...] | None] = ("overlap", "hitting_time")
    quick: ClassVar[dict[str, Any]] = {"d": 100, "runs": 16, "chains": 128, "law_dimension": 256, "draws": 64}
    quick_seeds: ClassVar[int] = 16

    link: str = Field("z1*z2", description="link h of teacher and student, a formula in z1 and z2")
    other_loss: str = Field("pseudo-huber:1", description="the loss beside the square one: a name or formula in y, f")
    noise: float = Field(0.1, ge=0.0, le=10.0, description="variance of the label noise")
    step: float = Field(0.1, gt=0.0, le=5.0, description="step δ: learning rate times dimension")
    path_horizon: float = Field(0.9, gt=0.0, le=20.0, description="last time t of the overlaps from the given start")
    level: float = Field(0.5, gt=0.0, lt=1.0, description="overlap whose first time is looked for")
    horizon: float = Field(4.0, gt=0.0, le=100.0, description="last time t of runs from random starts")
    draws: int = Field(128, ge=8, le=4096, description="starts from which the theory draws its law")
    law_dimension: int = Field(1024, ge=64, le=100_000, description="dimension N of the runs from random starts")
    chains: int = Field(128, ge=1, le=4096, description="runs from random starts in one seed")
    runs: int = Field(16, ge=1, le=256, description="runs from the given start in one seed, for each loss")
    d: int = Field(200, ge=10, le=5000, description="dimension N of the runs from the given start")

    @model_validator(mode="after")
    def _check(self) -> "MultiIndexLosses":
        if self.problem(SQUARE).directions != 2:
            raise InputError(f"link must be a formula in z1 and z2, got {self.link!r}.")
        return self

    def losses(self) -> tuple[str, str]:
        """The square loss and the other one."""
        return SQUARE, self.other_loss

    def problem(self, loss: str, tilted: bool = False) -> MultiIndex:
        """The learning problem, from a random start or from the given overlaps."""
        start = OverlapStart([list(row) for row in TILT]) if tilted else RandomStart()
        given: dict[str, Any] = {} if loss == SQUARE else {"loss": loss}
        return MultiIndex(target=target(self.link, noise=self.noise), step=self.step, start=start, **given)

    def path_times(self) -> np.ndarray:
        """Times of the overlaps from the given start."""
        return np.linspace(0.0, self.path_horizon, PATH_TIMES)

    def law_times(self) -> np.ndarray:
        """Times at which runs from random starts are looked at."""
        return np.linspace(0.0, self.horizon, LAW_TIMES)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        found = [solve(self.problem(loss, True), self.path_times()) for loss in self.losses()]
        hits = frame_hitting_times(
            self.problem(SQUARE), self.law_dimension, self.level, self.horizon, self.draws
        )  # fmt: skip
        dims = ("loss", "path_time", "neuron", "latent")
        dataset = xr.Dataset(
            {
                "overlap": (
                    dims,
                    np.stack([part.dataset.overlap.values for part in found]),
                    {"error": "overlap_spread", "error_part": 1.0},
                ),
                "overlap_spread": (dims, np.stack([part.dataset.overlap_spread.values for part in found])),
                "growth_rate": (
                    ("loss",), [float(growing_modes(self.problem(loss))[0].max()) for loss in self.losses()]
                ),
                **self._laws(hits),
            },
            coords=self._coordinates(),
        )  # fmt: skip
        worst = next((part for part in found if not part.ok), None)
        status = "equations of the overlaps; laws of hitting times to leading order in the dimension."
        return Findings(dataset, worst is None, worst.status if worst else status)

    def train(self, seed: int) -> Findings:
        own = tuple(range(seed * self.runs, (seed + 1) * self.runs))
        paths = [solve_seeds(self.problem(loss, True), self.path_times(), self.d, own)[0] for loss in self.losses()]
        free = chain_lengths(self.problem(SQUARE), self.law_times(), self.law_dimension, seed, self.chains)
        found = np.array([first_passage(self.law_times(), 1.0 / row, 1.0 / self.level) for row in free])
        hits = np.where(np.isnan(found), np.inf, found)
        variables = {"overlap": (("loss", "path_time", "neuron", "latent"), np.stack([_mean(part) for part in paths]))}
        dataset = xr.Dataset(variables | self._laws(hits), coords=self._coordinates())
        worst = next((part for part in paths if not part.ok), paths[0])
        return Findings(dataset.expand_dims(seed=[seed]).assign_attrs(d=self.d), worst.ok, worst.status)

    def _coordinates(self) -> dict[str, Any]:
        return {"path_time": self.path_times(), "law_time": self.law_times()}

    def _laws(self, hits: np.ndarray) -> dict[str, Any]:
        """The mean time, those after the horizon counted as the horizon, and the part arrived by each time."""
        return {
            "hitting_time": ((), float(np.minimum(hits, self.horizon).mean())),
            "arrived": (("law_time",), [(hits <= at).mean() for at in self.law_times()]),
        }

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        panels = []
        names = (r"$M_{11}$", r"$M_{12}$", r"$M_{21}$", r"$M_{22}$")
        for place, loss in enumerate(self.losses()):
            lines = theory.dataset.overlap.values[place].reshape(PATH_TIMES, 4)
            marks: list[Mark] = [Line(self.path_times(), lines[:, i], names[i], i) for i in range(4)]
            if simulation is not None:
                mean, error = mean_and_error(simulation.dataset.overlap.values[:, place].reshape(-1, PATH_TIMES, 4))
                marks += [Points(self.path_times(), mean[:, i], error[:, i], "", i) for i in range(4)]
            panels.append(Panel("time $t$", "overlaps $M$", marks, f"{loss} loss, from given overlaps"))
        laws: list[Mark] = [Line(self.law_times(), theory.dataset.arrived.values)]
        if simulation is not None:
            share, spread = mean_and_error(simulation.dataset.arrived.values)
            laws.append(Points(self.law_times()[::2], share[::2], spread[::2]))
        panels.append(
            Panel("time $t$", rf"runs with $\Vert M\Vert_F/\sqrt{{2}}\geq{self.level:g}$", laws,
                  f"square loss, from random starts, $N={self.law_dimension}$", y_range=(-0.03, 1.05))
        )  # fmt: skip
        return Figure(panels, title=rf"Two directions at once: {typeset(self.link)}, $\delta={self.step:g}$")

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean, found = over_seeds(dataset), {}
        words = f"mean time t at which the overlap reaches {self.level:g} from a random start, N = {self.law_dimension}"
        found["hitting_time"] = Number(mean.hitting_time, words, "units of time")
        for place, loss in enumerate(self.losses()):
            final = float(np.sqrt((mean.overlap.values[place, -1] ** 2).sum() / 2.0))
            words = f"length of the overlaps at t = {self.path_horizon:g} from the given start, {loss} loss"
            which = "other_" * place
            found[f"{which}final_overlap"] = Number(final, words)
            if "growth_rate" in dataset:
                words = f"largest rate at which small overlaps grow, {loss} loss"
                found[f"{which}growth_rate"] = Number(dataset.growth_rate.values[place], words, "per unit of time")
        return found


def _mean(runs: Findings) -> np.ndarray:
    return runs.dataset.overlap.values.mean(axis=0)
