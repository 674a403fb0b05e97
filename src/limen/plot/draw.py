"""From figure data to matplotlib: theory as lines, simulation as points with error bars, thresholds dashed."""

import os
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Panel, Points, Threshold
from limen.plot.placing import Drawn, place_above, place_beside, place_legend

# Okabe and Ito's palette: told apart by every common kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Grounds of a map of kinds: pale, so that lines and words can stand on them.
KINDS = ("#f4d9b8", "#cfe3f3", "#d3ecd9", "#ecd3e3", "#e5e5e5", "#fff3b0")
THRESHOLD: dict[str, Any] = {"color": "0.35", "linestyle": (0, (4, 3)), "linewidth": 0.9, "zorder": 1.5}
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
# Characters of a line of a legend; as many as go into a panel.
LONGEST_LABEL = 44


def draw(figure: Figure) -> Canvas:
    """A matplotlib figure, panels side by side, at most three in a row."""
    rows = -(-len(figure.panels) // MOST_IN_A_ROW)
    columns = -(-len(figure.panels) // max(rows, 1))
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(layout="constrained")
        canvas.set_size_inches(PANEL_WIDTH * max(columns, 1), PANEL_HEIGHT * rows + 0.35)
        FigureCanvasAgg(canvas)
        places = [canvas.add_subplot(rows, columns, index + 1) for index in range(len(figure.panels))]
        for axes, panel in zip(places, figure.panels, strict=True):
            _draw_panel(axes, panel)
        if figure.title:
            canvas.suptitle(figure.title, fontsize=10.5)
        if figure.key:
            # Small, and broken to the width, so that a single panel keeps its own.
            words = textwrap.fill(figure.key, 62 * max(columns, 1))
            canvas.supxlabel(words, fontsize=7.5, color="0.35")
        # Words find their places once it is known where everything else stands: names first, then legends.
        taller = np.zeros((2, max(rows, 1), max(columns, 1)))
        for words, place in enumerate((_place_names, _place_legend)):
            canvas.draw_without_rendering()
            for index, (axes, panel) in enumerate(zip(places, figure.panels, strict=True)):
                taller[words].flat[index] = place(axes, panel)
            canvas.set_size_inches(canvas.get_figwidth(), canvas.get_figheight() + taller[words].max(axis=1).sum())
    return canvas


def save_figure(figure: Figure, path: str | os.PathLike[str], *others: str | os.PathLike[str]) -> Path:
    """Draws a figure once and writes it to a path, and to others; the ending is the format (png, pdf, svg)."""
    with matplotlib.rc_context(STYLE):
        canvas = draw(figure)
        for one in (path, *others):
            canvas.savefig(one)
    return Path(path)


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
    for mark in panel.marks:
        if isinstance(mark, Threshold) and mark.x is not None:
            axes.axvline(mark.x, **THRESHOLD)
        elif isinstance(mark, Threshold) and mark.y is not None:
            axes.axhline(mark.y, **THRESHOLD)
    handles, labels = axes.get_legend_handles_labels()
    for handle, label in zip(handles, labels, strict=True):
        handle.set_label(_broken(label))
    if labels:
        axes.legend(handlelength=1.6, borderaxespad=0.3, loc="upper right")


def _broken(label: str) -> str:
    """A label in lines that fit into a panel: wider than that, it would leave no room for the axes. Formulas stay."""
    return label if "$" in label or len(label) <= LONGEST_LABEL else textwrap.fill(label, LONGEST_LABEL)


def _place_names(axes: Axes, panel: Panel) -> float:
    """Names of thresholds, and the title above them; the height in inches that they take."""
    drawn = Drawn(axes)
    named = [mark for mark in panel.marks if isinstance(mark, Threshold) and mark.label]
    above = [
        axes.text(mark.x, 1.0, mark.label, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=8.5)
        for mark in named
        if mark.x is not None and _within(axes.get_xlim(), mark.x)
    ]
    lift = place_above(axes, above) if above else 0.0
    if panel.title:
        axes.set_title(panel.title, pad=6.0 + lift)
    for mark in named:
        if mark.x is None and mark.y is not None and _within(axes.get_ylim(), mark.y):
            place_beside(axes, drawn, axes.text(0.0, mark.y, mark.label, fontsize=8.5), mark.y)
    return lift / 72.0


def _place_legend(axes: Axes, panel: Panel) -> float:
    """The legend; the height in inches that it takes below the axes."""
    drawn, legend = Drawn(axes), axes.get_legend()
    drawn.words = [text.get_window_extent() for text in axes.texts]
    return place_legend(axes, drawn, legend) if legend is not None else 0.0


def _within(limits: tuple[float, float], value: float) -> bool:
    return min(limits) <= value <= max(limits)


def _label_short_log(axis: Axis) -> None:
    """Over less than a decade and a half, and where a single power of ten is seen, 1, 2 and 5 times powers of ten, or
    more of them where there are too few: matplotlib's own labels would overlap."""
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() != "log" or not low > 0.0:
        return
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    if high >= 30.0 * low and np.sum((powers >= low) & (powers <= high)) >= 2:
        return
    for multiples in ((1, 2, 5), (1, 2, 3, 4, 5, 7), np.arange(10, 100, 5) / 10):
        ticks = np.outer(powers, multiples).ravel()
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        if ticks.size >= 3:
            break
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _counts(panel: Panel) -> bool:
    """Whether the horizontal axis counts something: every series stands at whole numbers."""
    series = [np.asarray(mark.x, dtype=float) for mark in panel.marks if isinstance(mark, Line | Points | Band)]
    return bool(series) and all(np.array_equal(x, np.round(x), equal_nan=True) for x in series)


def _draw_mark(axes: Axes, mark: object) -> None:
    match mark:
        case Line(x, y, label, colour, dashed, spots=True):
            form = "D--" if dashed else "s-"
            axes.plot(x, y, form, color=_colour(colour), label=label or None, markersize=4.2, linewidth=0.6)
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
        case Map(x, y, values, _, _, _, names) if names:
            kinds = ListedColormap(KINDS[: len(names)])
            axes.pcolormesh(
                np.asarray(x), np.asarray(y), np.asarray(values), cmap=kinds, vmin=-0.5, vmax=len(names) - 0.5,
                shading="nearest", rasterized=True,
            )  # fmt: skip
            for name, colour in zip(names, KINDS, strict=False):
                axes.plot(
                    [], [], "s", markersize=7, markeredgecolor="0.4", markeredgewidth=0.5, color=colour, label=name
                )
        case Map(x, y, values, label, low, high):
            mesh = axes.pcolormesh(
                np.asarray(x), np.asarray(y), np.asarray(values), cmap="cividis", vmin=low, vmax=high,
                shading="nearest", rasterized=True,
            )  # fmt: skip
            axes.figure.colorbar(mesh, ax=axes, label=label, pad=0.02)
        case _:
            pass


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
