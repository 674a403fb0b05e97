"""The work of a sweep in a worker: theory or one seed of a point of an experiment, from plain data."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from limen.problem.spec import InputError

if TYPE_CHECKING:
    from limen.experiments.experiment import Experiment
    from limen.result import Result


@dataclass(frozen=True)
class Task:
    """Results of one kind: theory of one or several points, or a simulation of one.

    `reference` names the experiment; `points` are its parameters that differ from the defaults; `seeds` the seed of a
    simulation, or those a paired theory starts from.
    """

    reference: str
    kind: str
    points: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...] = ()


def compute(task: Task) -> "list[Result]":
    """The results of a task, one per point."""
    experiments = [_experiment(task.reference, json.dumps(point)) for point in task.points]
    if task.kind == "simulation":
        return [experiment.simulate(task.seeds[0]) for experiment in experiments]
    if len(experiments) == 1:
        found = [experiments[0].theory(task.seeds)]
    else:
        found = list(type(experiments[0]).theory_batch(experiments))
    for experiment, result in zip(experiments, found, strict=True):
        check_quantities(experiment, result)
    return found


def check_quantities(experiment: "Experiment", theory: "Result") -> None:
    """Refuses a variable that was asked for and that the theory does not have."""
    if getattr(experiment, "quantities", ()):
        experiment.numbers(theory.dataset)


@lru_cache(maxsize=64)
def _experiment(reference: str, parameters: str) -> "Experiment":
    """The seeds of one point share one object: checking parameters may cost more than a small run."""
    return resolve(reference)(**json.loads(parameters))


def resolve(reference: str) -> "type[Experiment]":
    """The class behind a name of the gallery, or behind `module:Class` for experiments from elsewhere."""
    from limen.experiments.registry import experiment_class

    module, colon, name = reference.partition(":")
    if not colon:
        return experiment_class(reference)
    from limen.experiments.experiment import Experiment

    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"the experiment {reference!r} cannot be imported: {error}.") from None
    if not (isinstance(found, type) and issubclass(found, Experiment)):
        raise InputError(f"{reference!r} is not an experiment.")
    return found


def reference_to(kind: "type[Experiment]") -> str:
    """The reference by which workers find a class; one they cannot import is refused."""
    from limen.experiments.registry import OWN, PLACES

    if kind.__module__.startswith("limen.experiments.") and getattr(kind, "name", "") in PLACES | OWN:
        return kind.name
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise InputError(f"{kind.__name__} must be defined at the top of an importable module: workers import it.")
    return f"{kind.__module__}:{kind.__qualname__}"
