"""A figure is data: panels of lines, points, bands, histograms, maps and thresholds. Drawing is elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Scale = Literal["linear", "log", "symlog"]
# Series of one colour belong together: the theory line and the simulation points of one parameter value.
Colour = int


def _array(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float)


@dataclass(frozen=True)
class Line:
    """Theory: a curve. `dashed` for a second, simpler prediction; `spots` for one known at these places only
    (squares; dashed: diamonds)."""

    x: Any
    y: Any
    label: str = ""
    colour: Colour = 0
    dashed: bool = False
    spots: bool = False


@dataclass(frozen=True)
class Points:
    """Simulation: points with error bars (standard errors)."""

    x: Any
    y: Any
    error: Any = None
    label: str = ""
    colour: Colour = 0


@dataclass(frozen=True)
class Band:
    """A region between two curves: a confidence band, a spread, a bracket."""

    x: Any
    low: Any
    high: Any
    label: str = ""
    colour: Colour = 0


@dataclass(frozen=True)
class Histogram:
    """Simulated values as a density; `edges` has one entry more than `heights`."""

    edges: Any
    heights: Any
    label: str = ""
    colour: Colour = 0


@dataclass(frozen=True)
class Map:
    """A phase diagram: `values[i, j]` at `y[i]`, `x[j]`; `low` and `high` fix the colour range.

    With `names` the values are 0, 1, ...: kinds, told in a legend instead of a colour bar.
    """

    x: Any
    y: Any
    values: Any
    label: str = ""
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Threshold:
    """A dashed line with its symbol: at `x` (vertical) or at `y` (horizontal)."""

    label: str
    x: float | None = None
    y: float | None = None


Mark = Line | Points | Band | Histogram | Map | Threshold


@dataclass(frozen=True)
class Panel:
    """One pair of axes; labels carry symbol and words, with mathematics in `$...$`.

    A range that is not finite is none.
    """

    x_label: str
    y_label: str
    marks: Sequence[Mark]
    title: str = ""
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("x_range", "y_range"):
            ends = getattr(self, name)
            if ends is not None and not np.isfinite(ends).all():
                object.__setattr__(self, name, None)


@dataclass(frozen=True)
class Figure:
    """Panels side by side under one title; `key` says which marks are theory, which simulation, of how many seeds."""

    panels: Sequence[Panel]
    title: str = ""
    caption: str = ""
    key: str = ""

    def describe(self) -> dict[str, Any]:
        """Plain JSON data, for pages that draw the figure themselves; not-finite numbers become null."""
        return {
            "title": self.title,
            "caption": self.caption,
            "key": self.key,
            "panels": [
                {
                    **{name: value for name, value in vars(panel).items() if name != "marks"},
                    "marks": [{"kind": type(mark).__name__.lower(), **_plain(vars(mark))} for mark in panel.marks],
                }
                for panel in self.panels
            ],
        }


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None or isinstance(value, (str, bool, int)):
            plain[name] = value
        elif name == "names":
            plain[name] = list(value)
        else:
            array = _array(value)
            plain[name] = _nulls(array) if array.ndim else float(array) if np.isfinite(array) else None
    return plain


def _nulls(array: np.ndarray) -> list[Any]:
    exact = array.astype(object)
    exact[~np.isfinite(array)] = None
    return exact.tolist()


def witnesses(panels: Sequence[Panel], seeds: int | None) -> str:
    """The key of a figure whose lines are theory and whose points are means over `seeds` runs (None: theory alone)."""
    marks = [mark for panel in panels for mark in panel.marks]
    lines = [mark for mark in marks if isinstance(mark, Line)]
    parts = ["Lines: theory."] if any(not mark.spots for mark in lines) else []
    if any(mark.spots for mark in lines):
        parts.append("Squares: theory, computed there alone; thin lines lead the eye.")
    points = [mark for mark in marks if isinstance(mark, Points)]
    if seeds is not None:
        runs = f"{seeds} seeds" if seeds > 1 else "one seed"
        if any(mark.error is not None for mark in points) and seeds > 1:
            parts.append(f"Points: simulation, mean and standard error over {runs}.")
        elif points:
            parts.append(f"Points: simulation, {runs}.")
        if any(isinstance(mark, Histogram) for mark in marks):
            parts.append(f"Histograms: simulation, {runs}.")
    return " ".join(parts)


def counted(count: int, word: str) -> str:
    """A number of things in words: 1 run, 8 runs."""
    return f"{count} {word}{'s' * (count != 1)}"


def mean_and_error(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the first axis (seeds), for points with error bars."""
    array = _array(values)
    if array.shape[0] < 2:
        return array.mean(axis=0), np.zeros(array.shape[1:])
    # Runs that diverge have no spread.
    with np.errstate(invalid="ignore", over="ignore"):
        return array.mean(axis=0), array.std(axis=0, ddof=1) / np.sqrt(array.shape[0])


def thin(count: int, most: int = 25) -> np.ndarray:
    """Indices of at most `most` evenly spread points, so that error bars stay readable."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
