"""The picture of a learning curve, as data."""

import numpy as np

from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, mean_and_error, witnesses
from limen.result import Result


def curve_figure(theory: Result, run: Result | None, title: str) -> Figure:
    """Predicted losses as lines with their interval, trained ones as points; for classes also the share of wrong
    answers. With stopping times one pair of lines per number of samples, against time."""
    found = theory.dataset
    panels = [_losses(theory, run)] if "time" not in found.dims else [_stopped(theory, run)]
    if "test_error" in found and "time" not in found.dims:
        n = found.samples.values
        wrong: list[Mark] = [Line(n, found.test_error.values, "predicted", 2, spots=True)]
        if run is not None:
            mean, error = mean_and_error(run.dataset.test_error.values)
            wrong.append(Points(n, mean, error, "trained", 2))
        panels.append(Panel("samples $n$", "share misclassified", wrong, x_scale="log"))
    return Figure(panels, title=title, key=witnesses(panels, None if run is None else len(run.seeds)))


def _losses(theory: Result, run: Result | None) -> Panel:
    found, n = theory.dataset, theory.dataset.samples.values
    marks: list[Mark] = [
        Band(n, found.test_loss_low.values, found.test_loss_high.values, "99% interval"),
        Line(n, found.test_loss.values, "test, predicted", spots=True),
        Line(n, found.train_loss.values, "training, predicted", 1, spots=True),
    ]
    if run is not None:
        for name, colour, label in (("test_loss", 0, "test, trained"), ("train_loss", 1, "training, trained")):
            mean, error = mean_and_error(run.dataset[name].values)
            marks.append(Points(n, mean, error, label, colour))
    return Panel("samples $n$", "half mean squared error", marks, x_scale="log")


def _stopped(theory: Result, run: Result | None) -> Panel:
    found, marks = theory.dataset, []
    for place, n in enumerate(found.samples.values):
        at = found.isel(samples=place)
        marks.append(Line(found.time.values, at.test_loss.values, f"test, $n={n}$", place, spots=True))
        marks.append(Line(found.time.values, at.train_loss.values, "", colour=place, dashed=True))
        if run is not None:
            mean, error = mean_and_error(np.asarray(run.dataset.test_loss.isel(samples=place).values))
            marks.append(Points(found.time.values, mean, error, "", place))
    return Panel("time $t$ of gradient flow", "half mean squared error (dashed: training)", marks, x_scale="log")
