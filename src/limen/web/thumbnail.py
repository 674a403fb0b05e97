"""A small picture of a figure as SVG: the first panel's marks without ticks or words, on a transparent ground."""

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Panel, Points, Scale, Threshold, thin
from limen.plot.draw import COLOURS, KINDS

WIDTH, HEIGHT, MARGIN = 240, 132, 7
MOST_POINTS, MOST_DOTS, MOST_CELLS = 80, 24, 30
# Five stops of matplotlib's cividis, the colour map of the printed figures.
CIVIDIS = ((0, 34, 78), (66, 78, 108), (125, 124, 120), (187, 173, 108), (254, 232, 56))
Place = Callable[[Any], np.ndarray]


def thumbnail(figure: Figure) -> str:
    """The SVG text, some kilobytes."""
    # The first panel that shows a curve or a map; a histogram alone says little in this size.
    telling = (panel for panel in figure.panels if any(isinstance(mark, Line | Map) for mark in panel.marks))
    panel = next(telling, figure.panels[0])
    across = _placement(panel, panel.x_scale, panel.x_range, _abscissae, MARGIN, WIDTH - MARGIN)
    down = _placement(panel, panel.y_scale, panel.y_range, _ordinates, HEIGHT - MARGIN, MARGIN)
    order = {Map: 0, Histogram: 1, Band: 2, Threshold: 3, Line: 4, Points: 5}
    marks = [_draw(mark, across, down) for mark in sorted(panel.marks, key=lambda mark: order[type(mark)])]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(marks)}</svg>'


def _draw(mark: object, across: Place, down: Place) -> str:
    match mark:
        case Line(x, y, _, colour, dashed):
            dashes = ' stroke-dasharray="5 4"' if dashed else ""
            some = thin(np.size(x), MOST_POINTS)
            path = _path(across(x)[some], down(y)[some])
            return f'<path d="{path}" fill="none" stroke="{_colour(colour)}" stroke-width="2"{dashes}/>'
        case Points(x, y, _, _, colour):
            some = thin(np.size(x), MOST_DOTS)
            dots = zip(across(x)[some], down(y)[some], strict=True)
            circles = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in dots if _seen(a, b))
            return f'<g fill="none" stroke="{_colour(colour)}" stroke-width="1.4">{circles}</g>'
        case Band(x, low, high, _, colour):
            some = thin(np.size(x), MOST_POINTS)
            back = some[::-1]
            outline = (
                np.concatenate([across(x)[some], across(x)[back]]),
                np.concatenate([down(low)[some], down(high)[back]]),
            )
            return f'<path d="{_path(*outline)}Z" fill="{_colour(colour)}" fill-opacity="0.2"/>'
        case Histogram(edges, heights, _, colour):
            # A logarithmic axis has no zero: its bars stand on the frame.
            x, y, zero = across(edges), down(heights), down([0.0])[0]
            floor = float(np.clip(zero, 0, HEIGHT)) if np.isfinite(zero) else HEIGHT
            bars = zip(x[:-1], x[1:], y, strict=True)
            boxes = "".join(
                f'<rect x="{a:.1f}" y="{top:.1f}" width="{max(b - a, 0.5):.1f}" height="{max(floor - top, 0):.1f}"/>'
                for a, b, top in bars
                if _seen(a, top) and np.isfinite(b)
            )
            return f'<g fill="{_colour(colour)}" fill-opacity="0.3">{boxes}</g>'
        case Map():
            return _map(mark)
        case Threshold(_, x, y):
            line = 'stroke="#888" stroke-width="1" stroke-dasharray="4 3"'
            if x is not None:
                at = across([x])[0]
                return f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{HEIGHT}" {line}/>' if np.isfinite(at) else ""
            at = down([y])[0]
            return f'<line x1="0" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" {line}/>' if np.isfinite(at) else ""
    return ""


def _map(mark: Map) -> str:
    values = np.asarray(mark.values, dtype=float)
    rows = np.unique(np.linspace(0, values.shape[0] - 1, min(values.shape[0], MOST_CELLS)).astype(int))
    columns = np.unique(np.linspace(0, values.shape[1] - 1, min(values.shape[1], MOST_CELLS)).astype(int))
    part = values[np.ix_(rows, columns)]
    finite = part[np.isfinite(part)]
    low = mark.low if mark.low is not None else float(finite.min(initial=0.0))
    high = mark.high if mark.high is not None else float(finite.max(initial=1.0))
    width, height = (WIDTH - 2 * MARGIN) / columns.size, (HEIGHT - 2 * MARGIN) / rows.size
    shades = [
        [_kind(value) if mark.names else _cividis((value - low) / ((high - low) or 1.0)) for value in row]
        for row in part
    ]
    cells = []
    for i, row in enumerate(shades):
        begin = 0
        for shade, run in groupby(row):
            count = len(list(run))
            if shade:
                place = f'x="{MARGIN + begin * width:.1f}" y="{HEIGHT - MARGIN - (i + 1) * height:.1f}"'
                size = f'width="{count * width + 0.4:.1f}" height="{height + 0.4:.1f}"'
                cells.append(f'<rect {place} {size} fill="{shade}"/>')
            begin += count
    return "".join(cells)


def _kind(value: float) -> str:
    return KINDS[int(value) % len(KINDS)] if np.isfinite(value) else ""


def _cividis(part: float) -> str:
    """The colour of a part of the range; none for a value that is not a number."""
    if not np.isfinite(part):
        return ""
    at = float(np.clip(part, 0.0, 1.0)) * (len(CIVIDIS) - 1)
    i = min(int(at), len(CIVIDIS) - 2)
    red, green, blue = (round(a + (at - i) * (b - a)) for a, b in zip(CIVIDIS[i], CIVIDIS[i + 1], strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _placement(
    panel: Panel,
    scale: Scale,
    limits: tuple[float, float] | None,
    values_of: Callable[[object], list[Any]],
    begin: float,
    end: float,
) -> Place:
    """From values to pixels; the range is the panel's, else that of its marks."""

    def scaled(values: Any) -> np.ndarray:
        array = np.atleast_1d(np.asarray(values, dtype=float))
        if scale == "linear":
            return array
        if scale == "symlog":
            return np.arcsinh(array)
        return np.log10(np.where(array > 0, array, np.nan))

    if limits is None:
        found = [scaled(values) for mark in panel.marks for values in values_of(mark)]
        everything = np.concatenate([np.zeros(0), *(np.ravel(values) for values in found)])
        everything = everything[np.isfinite(everything)]
        low, high = (float(everything.min()), float(everything.max())) if everything.size else (0.0, 1.0)
    else:
        low, high = (float(value) for value in scaled(limits))
    if not math.isfinite(low) or not math.isfinite(high) or low == high:
        low, high = (low if math.isfinite(low) else 0.0) - 0.5, (high if math.isfinite(high) else 0.0) + 0.5
    return lambda values: begin + (scaled(values) - low) / (high - low) * (end - begin)


def _abscissae(mark: object) -> list[Any]:
    match mark:
        case Histogram(edges):
            return [edges]
        case Line(x) | Points(x) | Band(x) | Map(x):
            return [x]
    return []


def _ordinates(mark: object) -> list[Any]:
    match mark:
        case Histogram(_, heights):
            return [heights, [0.0]]
        case Band(_, low, high):
            return [low, high]
        case Line(_, y) | Points(_, y) | Map(_, y):
            return [y]
    return []


def _path(x: np.ndarray, y: np.ndarray) -> str:
    parts, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if _seen(a, b):
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _seen(a: float, b: float) -> bool:
    """Finite, and near enough to be drawn."""
    return bool(np.isfinite(a) and np.isfinite(b) and abs(a) < 10 * WIDTH and abs(b) < 10 * HEIGHT)


def _colour(index: int) -> str:
    # Grey for black: the picture also stands on dark ground.
    return {"#000000": "#777777"}.get(COLOURS[index % len(COLOURS)], COLOURS[index % len(COLOURS)])
