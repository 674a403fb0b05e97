"""Tables printed by the command line."""

import math

from rich.console import Console
from rich.table import Table

from limen.experiments.number import Number
from limen.storage import Run


def print_run(run: Run, files: dict[str, str]) -> None:
    """Headline numbers, comparison and verdict of a run, and where its files are."""
    console = Console(highlight=False)
    headline = run.experiment.headline(run.theory, run.simulation)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "theory", "simulation"):
        table.add_column(column, justify="left" if not column else "right")
    for name, value in headline["theory"].items():
        measured = headline.get("simulation", {}).get(name)
        words = value.words if isinstance(value, Number) else name
        table.add_row(words, _shown(value), "" if measured is None else _shown(measured))
    console.print(table)
    if run.comparison is not None:
        console.print()
        console.print(str(run.comparison))
    console.print(f"theory: {run.theory.status}")
    if run.simulation is not None and not run.simulation.ok:
        console.print(f"simulation: {run.simulation.status}")
    console.print(f"figure: {files['figure']}", soft_wrap=True)
    console.print(f"limen show {run.identifier}")


def _shown(value: float) -> str:
    """A number with its unit; what does not exist is a dash, a wait without end "never"."""
    words, unit = (value.words, value.unit) if isinstance(value, Number) else ("", "")
    if math.isnan(value):
        return "– (none)"
    if math.isinf(value):
        wait = value > 0 and (unit or "time" in words.split())
        return "never" if wait else "∞" if value > 0 else "−∞"
    return f"{value:.5g} {unit}".rstrip()
