"""What every experiment of the gallery offers."""

from abc import abstractmethod
from typing import Any, ClassVar

from limen.comparison import Comparison, compare
from limen.experiments.figure import Figure
from limen.problem import Spec
from limen.result import Result


class Experiment(Spec):
    """A phenomenon of the field, with parameters to play with.

    Every parameter is a field with default, bounds and one line; the size is one of them (`size_field`). Final classes
    give `theory()`, `simulate(seed)`, `figure()` and `headline()`; `compare` may be narrowed by `compared`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]
    citations: ClassVar[tuple[str, ...]]
    size_field: ClassVar[str] = "d"
    default_seeds: ClassVar[int] = 8
    # Whether the theory starts from the simulation's own starts, seed by seed.
    paired: ClassVar[bool] = False
    # Variables held against each other; None means every variable that theory and simulation share.
    compared: ClassVar[tuple[str, ...] | None] = None
    # Parameters with which theory and two seeds finish in about two seconds.
    quick: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def theory(self, seeds: tuple[int, ...] = ()) -> Result:
        """The prediction; a `paired` one has a row per seed (default: `default_seeds` of them), others take none."""

    @abstractmethod
    def simulate(self, seed: int) -> Result:
        """One finite-size run."""

    @abstractmethod
    def figure(self, theory: Result, simulation: Result | None = None) -> Figure:
        """The picture, as data."""

    @abstractmethod
    def headline(self, theory: Result, simulation: Result | None = None) -> dict[str, dict[str, float]]:
        """The few numbers that matter: `{"theory": {...}, "simulation": {...}}`."""

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """The comparison this experiment stands by."""
        return compare(theory, simulation, variables=self.compared)
