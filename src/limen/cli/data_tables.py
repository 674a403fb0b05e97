"""What `limen data` prints and draws."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Printed

from limen.cli.run import check_writable
from limen.data import learning_curve, load, training_curve
from limen.experiments.kernel.curve_figure import curve_figure
from limen.plot import save_figure
from limen.problem.spec import InputError
from limen.result import Result


def learning_curves(
    file: Path,
    target: str | None,
    lists: dict[str, str | None],
    asked: dict[str, Any],
    seeds: int,
    out: Path,
    as_json: bool,
) -> None:
    """Predicts, trains where seeds are asked for, saves and prints."""
    table = load(file, target)
    asked = asked | {name: _numbers(name, text) for name, text in lists.items()}
    check_writable(out)
    theory = learning_curve(table.X, table.y, **asked)
    run = training_curve(table.X, table.y, **asked, seeds=seeds) if seeds else None
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"{file.stem}-{asked['model']}"
    files = {
        "figure": str(save_figure(curve_figure(theory, run, f"{file.name}, {asked['model']}"), f"{stem}.png")),
        "theory": str(theory.save(f"{stem}-theory.nc")),
    }
    if run is not None:
        files["simulation"] = str(run.save(f"{stem}-simulation.nc"))
    if as_json:
        click.echo(
            json.dumps({"theory": _rows(theory), "simulation": _rows(run), "files": files, "status": theory.status})
        )
        return
    console = Console(highlight=False, width=120)
    printed = Printed(box=None, pad_edge=False, header_style="bold")
    predicted = theory.dataset
    dims = list(predicted.test_loss.dims)
    columns = [*map(str, dims), "train loss", "test loss", "99% interval", "trained: test loss"]
    columns += ["wrong answers", "trained: wrong"] if "test_error" in predicted else []
    for column in columns:
        printed.add_column(column, justify="right")
    for place in np.ndindex(predicted.test_loss.shape):
        at = predicted.isel(dict(zip(dims, place, strict=True)))
        cells = [f"{float(at[dim]):g}" for dim in dims] + [f"{float(at.train_loss):.4g}", f"{float(at.test_loss):.4g}"]
        cells += [
            f"{float(at.test_loss_low):.4g} .. {float(at.test_loss_high):.4g}",
            _measured(run, "test_loss", place),
        ]
        if "test_error" in predicted:
            cells += [f"{float(at.test_error):.1%}", _measured(run, "test_error", place)]
        printed.add_row(*cells)
    console.print(printed)
    console.print(
        f"{theory.status} Half mean squares; inputs of variance 1, numbers to be learnt too, a coordinate per class."
    )
    console.print(f"figure: {files['figure']}", soft_wrap=True)


def _numbers(name: str, text: str | None) -> list[float] | float | None:
    """Numbers with commas between them as a list; one ridge or number of features as itself."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
        return numbers[0] if len(numbers) == 1 and name in ("ridge", "features") else numbers
    except ValueError:
        raise InputError(f"{name} must be numbers with commas between them, got {text!r}.") from None


def _measured(run: Result | None, name: str, place: tuple[int, ...]) -> str:
    if run is None:
        return ""
    values = run.dataset[name].values[(slice(None), *place)]
    form, of_error = (".1%", ".1%") if name == "test_error" else (".4g", ".2g")
    mean = f"{values.mean():{form}}"
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(values.size):{of_error}}" if values.size > 1 else mean


def _rows(result: Result | None) -> dict[str, Any] | None:
    if result is None:
        return None
    dataset = result.dataset.mean("seed") if "seed" in result.dataset.dims else result.dataset
    return {str(dim): dataset[dim].values.tolist() for dim in dataset.dims} | {
        str(name): values.values.tolist() for name, values in dataset.data_vars.items()
    }
