"""What a run prints: numbers in words, the comparison, what theory and simulation say of themselves, the files."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_answer(answer: dict[str, Any]) -> None:
    """Prints the answer of `limen.cli.run.answer_of`."""
    console = Console(highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "theory", "simulation"):
        table.add_column(column, justify="left" if not column else "right")
    for row in answer["numbers"]:
        values = (_shown(row[kind], row["words"], row["unit"]) for kind in ("theory", "simulation"))
        table.add_row(Text(row["words"]), *values)
    console.print(table)
    if answer["comparison_text"]:
        console.print()
        console.print(answer["comparison_text"])
    console.print(f"theory: {answer['theory_status']}")
    if answer["simulation_status"]:
        console.print(f"simulation: {answer['simulation_status']}")
    if "figure" in answer["files"]:
        console.print(f"figure: {answer['files']['figure']}", soft_wrap=True)
    console.print(f"limen show {answer['id']}")


def _shown(value: float | str | None, words: str, unit: str) -> str:
    """A number with its unit; what does not exist is a dash, a wait without end "never"."""
    match value:
        case None:
            return ""
        case "nan":
            return "– (none)"
        case "inf":
            return "never" if unit or "time" in words.split() else "∞"
        case "-inf":
            return "−∞"
        case _:
            return f"{value:.5g} {unit}".rstrip()
