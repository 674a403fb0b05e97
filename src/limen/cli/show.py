"""`limen show ID`: what a stored run is."""

from pathlib import Path

import click

from limen.cli.run import save
from limen.cli.tables import print_run
from limen.experiments.registry import experiment_class
from limen.problem.spec import InputError
from limen.result import merge
from limen.storage import FileStore, Run


def show_run(identifier: str, out: Path | None) -> None:
    """Prints a stored run as it was printed when it was made; with `out`, draws its figure again."""
    store = FileStore()
    _, stored = store.find_run(identifier)
    experiment = experiment_class(stored["experiment"])(**stored["parameters"])
    keys = tuple(stored["simulations"])
    results = store.get((stored["theory"], *keys))
    if len(results) < len(keys) + 1:
        raise InputError(f"results of run {identifier!r} are no longer in the store: run it again.")
    theory = results[stored["theory"]]
    simulation = merge([results[key] for key in keys]) if keys else None
    comparison = experiment.compare(theory, simulation) if simulation is not None else None
    run = Run(experiment, theory, simulation, comparison, tuple(stored["seeds"]), stored["theory"], keys)
    parameters = ", ".join(f"{name} = {value}" for name, value in stored["parameters"].items())
    click.echo(f"{experiment.name}: {parameters}; {len(run.seeds)} seeds")
    files = save(run, out) if out is not None else {"figure": "(draw it with --out FOLDER)"}
    print_run(run, files)
