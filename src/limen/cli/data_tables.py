"""What `limen data` prints and draws."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Printed

from limen.data import learning_curve, load, training_curve
from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, mean_and_error, witnesses
from limen.plot import save_figure
from limen.problem.spec import InputError
from limen.result import Result


def learning_curves(
    file: Path, target: str | None, sizes: str | None, asked: dict[str, Any], seeds: int, out: Path, as_json: bool
) -> None:
    """Predicts, trains where seeds are asked for, saves and prints."""
    table = load(file, target)
    asked = {**asked, "sizes": _numbers(sizes)}
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
    columns = ["samples", "train loss", "test loss", "99% interval", "trained: test loss"]
    columns += ["wrong answers", "trained: wrong"] if "test_error" in predicted else []
    for column in columns:
        printed.add_column(column, justify="right")
    for place, n in enumerate(predicted.samples.values):
        at = predicted.isel(samples=place)
        cells = [str(n), f"{float(at.train_loss):.4g}", f"{float(at.test_loss):.4g}"]
        cells += [
            f"{float(at.test_loss_low):.4g} .. {float(at.test_loss_high):.4g}",
            _measured(run, "test_loss", place),
        ]
        if "test_error" in predicted:
            cells += [f"{float(at.test_error):.1%}", _measured(run, "test_error", place)]
        printed.add_row(*cells)
    console.print(printed)
    console.print(
        f"{theory.status} Half mean squares; inputs of variance 1, numbers to be learned too, a coordinate per class."
    )
    console.print(f"figure: {files['figure']}", soft_wrap=True)


def curve_figure(theory: Result, run: Result | None, title: str) -> Figure:
    """Predicted losses as lines with their interval, trained ones as points."""
    found, n = theory.dataset, theory.dataset.samples.values
    marks: list[Mark] = [
        Band(n, found.test_loss_low.values, found.test_loss_high.values, "99% interval"),
        Line(n, found.test_loss.values, "test, predicted"),
        Line(n, found.train_loss.values, "training, predicted", colour=1),
    ]
    if run is not None:
        for name, colour, label in (("test_loss", 0, "test, trained"), ("train_loss", 1, "training, trained")):
            mean, error = mean_and_error(run.dataset[name].values)
            marks.append(Points(n, mean, error, label, colour))
    panels = [Panel("samples $n$", "half mean squared error", marks, x_scale="log")]
    return Figure(panels, title=title, key=witnesses(panels, None if run is None else len(run.seeds)))


def _numbers(sizes: str | None) -> list[int] | None:
    if sizes is None:
        return None
    try:
        return [int(part) for part in sizes.split(",")]
    except ValueError:
        raise InputError(f"sizes must be whole numbers with commas between them, got {sizes!r}.") from None


def _measured(run: Result | None, name: str, place: int) -> str:
    if run is None:
        return ""
    values = run.dataset[name].values[:, place]
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():.4g} ± {error:.2g}"


def _rows(result: Result | None) -> dict[str, Any] | None:
    if result is None:
        return None
    dataset = result.dataset.mean("seed") if "seed" in result.dataset.dims else result.dataset
    return {"samples": dataset.samples.values.tolist()} | {
        str(name): values.values.tolist() for name, values in dataset.data_vars.items()
    }
