"""`limen show ID`: what a stored run is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from limen.cli.answers import answer_of_run
from limen.cli.run import answer_of, check_writable, save, show


def show_run(identifier: str, out: Path | None) -> None:
    """Prints a stored run as it was printed when it was made; with `out`, draws its figure again."""
    if out is not None:
        check_writable(out)
    answer = (answer_of_run(identifier) if out is None else None) or _answer(identifier, out)
    summary = answer["summary"]
    # A problem of one's own is called by its family.
    params = ((name, value["type"] if isinstance(value, dict) else value) for name, value in summary["params"].items())
    parameters = ", ".join(f"{name} = {value}" for name, value in params)
    click.echo(f"{summary['experiment']}: {parameters}; {answer['seeds']} seed{'s' * (answer['seeds'] != 1)}")
    files = answer["files"] if out is not None else {"figure": "(draw it with --out FOLDER)"}
    show({**answer, "files": files}, as_json=False)


def _answer(identifier: str, out: Path | None) -> dict[str, Any]:
    from limen.storage import FileStore
    from limen.storage.remembered import recall

    run = recall(FileStore(), identifier)
    if run.simulation is not None:
        run = replace(run, comparison=run.experiment.compare(run.theory, run.simulation))
    return answer_of(run, {} if out is None else save(run, out))
