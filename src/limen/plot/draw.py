"""From figure data to matplotlib: theory as lines, simulation as points with error bars, thresholds dashed."""

import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Panel, Points, Threshold

# Okabe and Ito's palette: told apart by every common kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "mathtext.fontset": "cm",
    "axes.labelsize": 9.5,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.6,
    # No frame to be seen, but lines that pass behind the words are dimmed.
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.facecolor": "white",
    "legend.borderpad": 0.2,
    "legend.fontsize": 8.0,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "savefig.dpi": 200,
}
PANEL_WIDTH, PANEL_HEIGHT = 3.7, 2.9
MOST_IN_A_ROW = 3


def draw(figure: Figure) -> Canvas:
    """A matplotlib figure, panels side by side, at most three in a row."""
    rows = -(-len(figure.panels) // MOST_IN_A_ROW)
    columns = -(-len(figure.panels) // rows)
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(PANEL_WIDTH * columns, PANEL_HEIGHT * rows + 0.35), layout="constrained")
        FigureCanvasAgg(canvas)
        for index, panel in enumerate(figure.panels):
            _draw_panel(canvas.add_subplot(rows, columns, index + 1), panel)
        if figure.title:
            canvas.suptitle(figure.title, fontsize=10.5)
    return canvas


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Draws and writes a figure; the ending of the path is the format (png, pdf, svg)."""
    path = Path(path)
    with matplotlib.rc_context(STYLE):
        draw(figure).savefig(path)
    return path


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    if panel.title:
        axes.set_title(panel.title)
    for mark in panel.marks:
        _draw_mark(axes, mark)
    if panel.x_range is not None:
        axes.set_xlim(panel.x_range)
    if panel.y_range is not None:
        axes.set_ylim(panel.y_range)
    for axis in (axes.xaxis, axes.yaxis):
        _label_short_log(axis)
    if panel.x_scale == "linear" and _counts(panel):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    # After the ranges are settled, so that labels stand inside the axes.
    for mark in panel.marks:
        if isinstance(mark, Threshold):
            _draw_threshold(axes, mark)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(handlelength=1.6, borderaxespad=0.3)


def _label_short_log(axis: Axis) -> None:
    """Over less than a decade and a half, 1, 2 and 5 times powers of ten: matplotlib's own labels would overlap."""
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and low > 0.0 and high < 30.0 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _counts(panel: Panel) -> bool:
    """Whether the horizontal axis counts something: every series stands at whole numbers."""
    series = [np.asarray(mark.x, dtype=float) for mark in panel.marks if isinstance(mark, Line | Points | Band)]
    return bool(series) and all(np.array_equal(x, np.round(x), equal_nan=True) for x in series)


def _draw_mark(axes: Axes, mark: object) -> None:
    match mark:
        case Line(x, y, label, colour, dashed):
            axes.plot(x, y, "--" if dashed else "-", color=_colour(colour), label=label or None)
        case Points(x, y, error, label, colour):
            axes.errorbar(
                x, y, yerr=error, fmt="o", markersize=3.4, markerfacecolor="white", markeredgewidth=1.0,
                elinewidth=0.9, color=_colour(colour), label=label or None, zorder=3,
            )  # fmt: skip
        case Band(x, low, high, label, colour):
            axes.fill_between(np.asarray(x), low, high, color=_colour(colour), alpha=0.2, lw=0, label=label or None)
        case Histogram(edges, heights, label, colour):
            axes.stairs(heights, edges, fill=True, color=_colour(colour), alpha=0.3, label=label or None)
        case Map(x, y, values, label, low, high):
            mesh = axes.pcolormesh(
                np.asarray(x), np.asarray(y), np.asarray(values), cmap="cividis", vmin=low, vmax=high,
                shading="nearest", rasterized=True,
            )  # fmt: skip
            axes.figure.colorbar(mesh, ax=axes, label=label, pad=0.02)
        case _:
            pass


def _draw_threshold(axes: Axes, mark: Threshold) -> None:
    style = {"color": "0.35", "linestyle": (0, (4, 3)), "linewidth": 0.9, "zorder": 1.5}
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0}
    if mark.x is not None:
        axes.axvline(mark.x, **style)
        # Above the axes, where no curve runs.
        above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 8.5}
        axes.text(mark.x, 1.01, mark.label, **above)
    if mark.y is not None:
        axes.axhline(mark.y, **style)
        axes.text(0.02, mark.y, mark.label, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5, bbox=box)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
