"""The gallery in Python: every experiment by name, run and drawn in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure as Canvas

from limen.checks import seed_list
from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.own_problem import OwnProblem
from limen.experiments.registry import experiment_class
from limen.plot import draw
from limen.problem.spec import InputError, Spec
from limen.result import Result
from limen.storage import FileStore, Run, run
from limen.storage.remembered import remember


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment: theory, simulation, their comparison, and the figure; draws itself in a notebook."""

    finished: Run

    @property
    def experiment(self) -> Experiment:
        """The experiment with its parameters."""
        return self.finished.experiment

    @property
    def theory(self) -> Result:
        """The prediction."""
        return self.finished.theory

    @property
    def simulation(self) -> Result | None:
        """The trainings, seed by seed; None for a theory alone."""
        return self.finished.simulation

    @property
    def comparison(self) -> Comparison | None:
        """Deviation, band and verdict; None for a theory alone."""
        return self.finished.comparison

    @property
    def numbers(self) -> dict[str, dict[str, float]]:
        """The few numbers that matter, of theory and simulation."""
        return self.experiment.headline(self.theory, self.simulation)

    @property
    def figure(self) -> Canvas:
        """The experiment's figure, drawn by matplotlib."""
        return draw(self.experiment.figure(self.theory, self.simulation))

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.figure.savefig(picture, format="png")
        return picture.getvalue()

    def __repr__(self) -> str:
        said = self.comparison.sentence if self.comparison is not None else self.theory.status
        return f"{self.experiment.name}: {said}"


@dataclass(frozen=True)
class PosedExperiment:
    """An experiment of the gallery with its parameters, ready to run."""

    experiment: Experiment

    def run(self, seeds: int | Sequence[int] | None = None, fresh: bool = False) -> Outcome:
        """Theory, one training per seed, and their comparison; what the store has is not computed again.

        Args:
            seeds: how many (`8` means seeds 0..7) or which; by default as many as the experiment asks for; 0 for the
                theory alone.
            fresh: compute again what the store has.
        """
        wanted = self.experiment.default_seeds if seeds is None else seeds
        store = FileStore()
        finished = run(self.experiment, () if wanted == 0 else seed_list(wanted), store, fresh=fresh)
        remember(store, finished)
        return Outcome(finished)


def experiment(name: str | Spec | type[Experiment], **parameters: Any) -> PosedExperiment:
    """An experiment of the gallery by name, its parameters by keyword: `limen.experiment("grokking", d=320)`.

    `limen.experiments()` lists the names; `limen run NAME --help` describes the parameters, which also go by the
    other names they have there (`size`, `delta`, `rate` or `step`). A class of one's own takes the place of a name, and
    so does a problem: `limen.experiment(problem, times=30, d=400)`.
    """
    if isinstance(name, Spec):
        return PosedExperiment(OwnProblem(problem=name, **parameters))
    kind = experiment_class(name) if isinstance(name, str) else name
    if not (isinstance(kind, type) and issubclass(kind, Experiment)):
        raise InputError(f"name must be that of an experiment, the class of one, or a problem, got {name!r}.")
    return PosedExperiment(kind(**{kind.field_called(word): value for word, value in parameters.items()}))
