"""Runs that the store remembers: what was run, when, with what verdict, and the whole of it again."""

from collections.abc import Iterable
from typing import Any

from limen.experiments.registry import experiment_class
from limen.problem.spec import InputError
from limen.result import merge
from limen.storage.file_store import FileStore
from limen.storage.run import Run


def remember(store: FileStore, run: Run) -> None:
    """Makes a run findable by its identifier."""
    record = {
        "experiment": run.experiment.name,
        "parameters": run.experiment.model_dump(mode="json"),
        "seeds": list(run.seeds),
        "theory": run.theory_key,
        "simulations": list(run.simulation_keys),
    }
    store.put_run(run.identifier, record, run.comparison.verdict if run.comparison is not None else None)


def recall(store: FileStore, identifier: str) -> Run:
    """A remembered run by the beginning of its identifier, as it was but for the comparison, which is not kept."""
    _, record = store.find_run(identifier)
    experiment = experiment_class(record["experiment"])(**record["parameters"])
    keys = tuple(record["simulations"])
    results = store.get((record["theory"], *keys))
    if len(results) < len(keys) + 1:
        raise InputError(f"results of run {identifier!r} are no longer in the store: run it again.")
    simulation = merge([results[key] for key in keys]) if keys else None
    return Run(experiment, results[record["theory"]], simulation, None, tuple(record["seeds"]), record["theory"], keys)


def latest(store: FileStore, experiments: Iterable[str], most: int) -> list[dict[str, Any]]:
    """The newest runs of these experiments whose results are there, at most `most`, newest first, as plain data.

    `created` is in seconds since 1970; `verdict` is None for a theory alone and for runs of former versions.
    """
    return [
        {
            "identifier": identifier,
            "experiment": record["experiment"],
            "parameters": record["parameters"],
            "seeds": len(record["seeds"]),
            "created": record["created"],
            "verdict": record["verdict"],
        }
        for identifier, record in store.latest_runs(experiments, most)
    ]
