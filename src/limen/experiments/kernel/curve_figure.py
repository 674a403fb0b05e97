"""The picture of a learning curve, as data."""

import numpy as np

from limen.experiments.figure import Band, Figure, Line, Mark, Panel, Points, mean_and_error, witnesses
from limen.result import Result

LABELS = {
    "samples": ("samples $n$", "$n={:g}$"),
    "ridge": (r"ridge $\lambda$", r"$\lambda={:g}$"),
    "features": ("random features $N$", "$N={:g}$"),
    "time": ("time $t$ of gradient flow", "$t={:g}$"),
}
# Lines that one panel holds.
MOST_SERIES = 6


def curve_figure(theory: Result, run: Result | None, title: str) -> Figure:
    """Predicted losses as lines with their interval, trained ones as points; for classes also the share of wrong
    answers. With lists of ridges, features or stopping times: against the last of them, a line for each of the rest, up
    to six."""
    found = theory.dataset
    several = found.test_loss.ndim > 1
    panels = [_several(theory, run, "test_loss") if several else _losses(theory, run)]
    if "test_error" in found and several:
        panels.append(_several(theory, run, "test_error"))
    elif "test_error" in found:
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


def _several(theory: Result, run: Result | None, name: str) -> Panel:
    """Test losses, training dashed, or wrong answers, against the last dimension."""
    found, marks = theory.dataset, []
    *others, last = map(str, found[name].dims)
    x, places = found[last].values, list(np.ndindex(found[name].shape[:-1]))
    shown = np.unique(np.linspace(0, len(places) - 1, min(len(places), MOST_SERIES)).round().astype(int))
    for colour, chosen in enumerate(shown):
        place = dict(zip(others, places[chosen], strict=True))
        at = found.isel(place)
        label = ", ".join(LABELS[dim][1].format(float(at[dim])) for dim in others if found.sizes[dim] > 1)
        marks.append(Line(x, at[name].values, label, colour, spots=True))
        if name == "test_loss":
            marks.append(Line(x, at.train_loss.values, "", colour=colour, dashed=True))
        if run is not None:
            mean, error = mean_and_error(np.asarray(run.dataset[name].isel(place).values))
            marks.append(Points(x, mean, error, "", colour))
    words = "loss (dashed: training)" if name == "test_loss" else "share misclassified"
    return Panel(LABELS[last][0], words, marks, x_scale="log")
