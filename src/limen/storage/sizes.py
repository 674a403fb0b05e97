"""One experiment at several sizes: each run and kept as usual, all compared together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from limen.comparison import compare_sizes
from limen.experiments.experiment import Experiment
from limen.problem.spec import InputError
from limen.storage.run import Run, Store, run


def at_sizes(experiment: Experiment, sizes: Sequence[int]) -> list[Experiment]:
    """The experiment at each of at least two sizes, increasing; all else as it is."""
    increasing = sorted(set(sizes))
    if len(increasing) < 2 or len(increasing) < len(sizes):
        raise InputError(f"sizes must be at least two different ones, got {', '.join(map(str, sizes))}.")
    given = {name: getattr(experiment, name) for name in type(experiment).model_fields}
    return [type(experiment)(**{**given, experiment.size_field: size}) for size in increasing]


def run_sizes(
    experiment: Experiment, sizes: Sequence[int], seeds: Sequence[int], store: Store, **options: Any
) -> list[Run]:
    """Runs the experiment at each size; the comparison of the last and largest is over all of them.

    What of its deviation falls with size, as far as the data show it, does not count: see `limen.comparison`. `options`
    are those of `run`.
    """
    if not seeds:
        raise InputError("sizes are for simulations: ask for at least one seed.")
    experiments = at_sizes(experiment, sizes)
    runs = [run(one, seeds, store, **options) for one in experiments]
    comparisons = [one.comparison for one in runs if one.comparison is not None]
    measured = compare_sizes(comparisons, [getattr(one, one.size_field) for one in experiments])
    return [*runs[:-1], replace(runs[-1], comparison=measured)]
