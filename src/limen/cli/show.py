"""`limen show ID`: what a stored run is."""

from dataclasses import replace
from pathlib import Path

import click

from limen.cli.run import answer_of, save, show
from limen.storage import FileStore
from limen.storage.remembered import recall


def show_run(identifier: str, out: Path | None) -> None:
    """Prints a stored run as it was printed when it was made; with `out`, draws its figure again."""
    run = recall(FileStore(), identifier)
    if run.simulation is not None:
        run = replace(run, comparison=run.experiment.compare(run.theory, run.simulation))
    parameters = ", ".join(f"{name} = {value}" for name, value in run.experiment.model_dump(mode="json").items())
    click.echo(f"{run.experiment.name}: {parameters}; {len(run.seeds)} seeds")
    files = save(run, out) if out is not None else {"figure": "(draw it with --out FOLDER)"}
    show(answer_of(run, files), as_json=False)
