"""Modular addition: waves that add exactly, how many random ones do, and a network that finds them late."""

from typing import Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.descent.modular_training import random_waves_accuracy, train_modular
from limen.theory.descent.modular_addition import check_modulus, lazy_scores, modular_solution, random_solution_accuracy

# Widths of random waves that are drawn: up to this many times the narrowest, where not all networks are right.
WIDTHS, REACH = 4, 4
FINE = 14
RECORDED = 41
# Random tables from which the accuracy of a lazy network is averaged.
TABLES = 3
JUMP = 0.9
# Networks of random waves that one seed draws at every width.
NETWORKS = 96


class ModularAddition(Experiment):
    r"""A two-layer network with squares, $f_q(n,m)=\frac1N\sum_kW_{qk}(U_{kn}+V_{km})^2$, learns $n+m$ modulo $p$
    from part of the $p^2$ sums: the classical example of grokking.

    Three things are known. Waves of one frequency per neuron, with phases that add up, are an exact solution with
    $N=3(p-1)$ neurons (Gromov 2023; here with the phases that make it exact). With random frequencies and phases the
    other outputs are Gaussian around it, which gives the accuracy at width $N$: this is what is compared. And a lazy
    network, whose kernel sees only whether symbols are equal, does *worse* than chance on unseen pairs: in the row of
    $n$ and the column of $m$ their sum is the one that did not occur.

    Not known is when training turns from the one to the other. What to see: the train accuracy is 1 after some tens of
    steps, while the test accuracy has fallen from chance to that of a lazy network, zero; it jumps ten times later,
    while the neurons become waves (all their power in one frequency). From a third of the table, or without weight
    decay, it does not come within these steps (Gromov has it without decay, after long descent). No theory here
    predicts the time of the jump. Source: Gromov 2023 (arXiv 2301.02679); the phenomenon: Power et al. 2022
    (arXiv 2201.02177).
    """

    name: ClassVar[str] = "modular-addition"
    source: ClassVar[str] = "Feature-learning phase transitions"
    summary: ClassVar[str] = "A network adds modulo p: exact waves, random waves, and waves that training finds late."
    citations: ClassVar[tuple[str, ...]] = ("gromov2023", "power2022")
    size_field: ClassVar[str] = "modulus"
    default_seeds: ClassVar[int] = 24
    compared: ClassVar[tuple[str, ...] | None] = ("random_accuracy",)
    quick: ClassVar[dict[str, Any]] = {"modulus": 13, "width": 32, "steps": 40, "narrowest": 12, "widest": 100}
    quick_seeds: ClassVar[int] = 48

    modulus: int = Field(23, ge=5, le=97, description="p, odd: residues are added modulo p")
    fraction: float = Field(0.5, ge=0.05, le=0.95, description="part of all pairs that is trained on")
    width: int = Field(128, ge=4, le=2000, description="neurons N of the trained network")
    weight_decay: float = Field(0.3, ge=0.0, le=10.0, description="weight decay of AdamW")
    rate: float = Field(0.02, gt=0.0, le=1.0, description="learning rate of AdamW")
    steps: int = Field(2000, ge=20, le=50_000, description="steps of training on all trained pairs")
    narrowest: int = Field(16, ge=12, le=1000, description="smallest width of the random waves")
    widest: int = Field(1000, ge=16, le=5000, description="largest width of the random waves")

    @model_validator(mode="after")
    def _possible(self) -> "ModularAddition":
        check_modulus(self.modulus)
        if self.narrowest >= self.widest:
            raise InputError(f"widest must be above narrowest = {self.narrowest}, got {self.widest}.")
        return self

    def widths(self) -> np.ndarray:
        widest = min(REACH * self.narrowest, self.widest)
        return np.unique(np.geomspace(self.narrowest, widest, WIDTHS).round().astype(int))

    def recorded(self) -> np.ndarray:
        """Steps at which the trained network is looked at."""
        return np.unique(np.concatenate([[0], np.geomspace(1, self.steps, RECORDED).round()]).astype(int))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        p, fine = self.modulus, np.geomspace(self.narrowest, self.widest, FINE).round().astype(int)
        first, second, readout = modular_solution(p)
        outputs = np.einsum("knm,qk->nmq", (first[:, :, None] + second[:, None]) ** 2, readout) / len(first)
        sums = np.add.outer(np.arange(p), np.arange(p)) % p
        lazy = [self._lazy(sums, table) for table in range(TABLES)]
        drawn, error = np.array([random_solution_accuracy(p, int(width)) for width in self.widths()]).T
        dataset = labelled(
            {
                "random_accuracy": (
                    ("width",), drawn, {"error": "random_accuracy_spread", "error_part": 1.0},
                ),
                "random_accuracy_spread": (("width",), error),
                "random_curve": (("fine_width",), [random_solution_accuracy(p, int(n))[0] for n in fine]),
                "exact_accuracy": float((outputs.argmax(axis=2) == sums).mean()),
                "exact_width": float(len(first)),
                "lazy_accuracy": float(np.mean(lazy)),
                "chance": 1.0 / p,
            },
            coords={"width": self.widths(), "fine_width": fine},
        )  # fmt: skip
        status = "random waves up to order 1/p; when training finds waves is not predicted."
        return Findings(dataset, True, status)

    def _lazy(self, sums: np.ndarray, table: int) -> float:
        """Accuracy of a lazy network on the unseen pairs of one random table."""
        order = np.random.default_rng(table).permutation(sums.size)
        count = round(self.fraction * sums.size)
        pairs = np.stack(np.divmod(order, self.modulus), axis=1)
        right = lazy_scores(self.modulus, pairs[:count]).argmax(axis=2) == sums
        return float(right[tuple(pairs[count:].T)].mean())

    def train(self, seed: int) -> Findings:
        recorded = self.recorded()
        run = train_modular(
            self.modulus, self.width, self.fraction, recorded, self.rate, self.weight_decay, seed
        )  # fmt: skip
        drawn = [random_waves_accuracy(self.modulus, int(width), seed, NETWORKS) for width in self.widths()]
        variables: dict[str, Any] = {name: (("seed", "step"), values[None]) for name, values in run._asdict().items()}
        variables["random_accuracy"] = (("seed", "width"), np.array([drawn]))
        coords = {"seed": [seed], "step": recorded, "width": self.widths()}
        dataset = labelled(variables, coords=coords, attrs={"d": self.modulus})
        finite = bool(np.isfinite(run.train_loss).all())
        return Findings(dataset, finite, "trained." if finite else "training diverges: take a smaller rate.")

    def jump(self, dataset: xr.Dataset, name: str) -> float:
        """First recorded step at which the mean accuracy is 0.9; nan if it is not reached, or not known."""
        if name not in dataset:
            return float("nan")
        above = np.flatnonzero(dataset[name].mean("seed").values >= JUMP)
        return float(dataset.step.values[above[0]]) if above.size else float("nan")

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        found = theory.dataset
        waves: list[Mark] = [Line(found.fine_width, found.random_curve, "random waves, theory")]
        known: list[Mark] = [
            Threshold("chance $1/p$", y=float(found.chance)),
            Threshold("lazy network", y=float(found.lazy_accuracy)),
        ]
        learnt: list[Mark] = []
        if simulation is not None:
            runs = simulation.dataset
            waves.append(Points(found.width, *mean_and_error(runs.random_accuracy.values), "networks"))
            later = runs.step.values > 0
            at = runs.step.values[later]
            for colour, (name, label) in enumerate(
                (("train_accuracy", "seen pairs"), ("test_accuracy", "unseen pairs"))
            ):
                mean, error = mean_and_error(runs[name].values[:, later])
                known.append(Points(at, mean, error, label, colour))
            mean, error = mean_and_error(runs.periodicity.values[:, later])
            learnt.append(Points(at, mean, error, "power in one frequency", 2))
            mean, error = mean_and_error(runs.test_loss.values[:, later])
            learnt.append(Points(at, mean, error, "loss of unseen pairs", 1))
        waves.append(Threshold("$3(p-1)$ exact", x=float(found.exact_width)))
        learnt.append(Threshold("exact waves", y=1.0))
        part = f"{self.fraction:g} of all pairs"
        return Figure(
            [
                Panel("width $N$", "accuracy on all pairs", waves, title="explicit waves", x_scale="log"),
                Panel("step", "accuracy", known, title=f"trained on {part}, $N={self.width}$", x_scale="log"),
                Panel("step", "first layer and loss", learnt, title="what training finds", x_scale="log"),
            ],
            title=f"Addition modulo $p={self.modulus}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        means = dataset.mean("seed") if "seed" in dataset.dims else dataset
        widths = self.widths()
        middle = int(widths[widths.size // 2])
        found = {
            "random_accuracy": Number(
                float(means.random_accuracy.values[widths.size // 2]), f"accuracy of {middle} random waves on all pairs"
            )
        }
        if "lazy_accuracy" in dataset:
            found |= {
                "exact_accuracy": Number(
                    float(dataset.exact_accuracy),
                    f"accuracy of the exact solution with {3 * (self.modulus - 1)} neurons",
                ),
                "lazy_accuracy": Number(
                    float(dataset.lazy_accuracy),
                    f"accuracy of a lazy network on unseen pairs (chance: {1 / self.modulus:.3f})",
                ),
            }
        trained = "test_accuracy" in dataset
        found |= {
            "final_test_accuracy": Number(
                float(means.test_accuracy.values[-1]) if trained else float("nan"),
                f"accuracy on unseen pairs after {self.steps} steps; no theory says it",
            ),
            "train_jump": Number(
                self.jump(dataset, "train_accuracy"),
                f"step at which {JUMP:g} of the seen pairs are right; no theory says it",
                "steps",
            ),
            "test_jump": Number(
                self.jump(dataset, "test_accuracy"),
                f"step at which {JUMP:g} of the unseen pairs are right; no theory says it",
                "steps",
            ),
            "periodicity": Number(
                float(means.periodicity.values[-1]) if trained else 1.0,
                "part of a neuron's power in its strongest frequency, at the end; 1 for exact waves",
            ),
        }
        return found
