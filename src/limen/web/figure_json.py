"""From figure data to plotly: one plot per panel, so that the page may lay panels out as its width allows."""

import math
from typing import Any

import numpy as np

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Mark, Panel, Points, Scale, Threshold
from limen.plot.draw import COLOURS, KINDS
from limen.web.text.one_line import label

DIGITS = 6
# Where the symmetric logarithm is linear, as in the printed figures.
LINEAR_UP_TO = 2.0


def figure_json(figure: Figure) -> dict[str, Any]:
    """Title, caption, and for each panel the traces and layout that `Plotly.react` takes."""
    return {
        "title": label(figure.title),
        "caption": label(f"{figure.caption} {figure.key}".strip()),
        "panels": [_panel(panel) for panel in figure.panels],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    traces, shapes, annotations = [], [], []
    for mark in panel.marks:
        if isinstance(mark, Threshold):
            shape, annotation = _threshold(mark, panel)
            shapes.append(shape)
            annotations.append(annotation)
        else:
            traces += _traces(mark, panel)
    layout = {
        "xaxis": _axis(panel.x_label, panel.x_scale, panel.x_range, [x for m in panel.marks for x in _reach(m)]),
        "yaxis": _axis(panel.y_label, panel.y_scale, panel.y_range, []),
        "shapes": shapes,
        "annotations": annotations,
        "showlegend": any(trace.get("showlegend") for trace in traces),
    }
    return {"title": label(panel.title.strip()), "data": traces, "layout": layout}


def _traces(mark: Mark, panel: Panel) -> list[dict[str, Any]]:
    def x_of(values: Any) -> list[Any]:
        return _numbers(_scaled(values, panel.x_scale))

    def y_of(values: Any) -> list[Any]:
        return _numbers(_scaled(values, panel.y_scale))

    match mark:
        case Line(x, y, name, colour, dashed, spots):
            line = {"color": _colour(colour), "width": 0.8 if spots else 2.2, "dash": "dash" if dashed else "solid"}
            trace = {"type": "scatter", "mode": "lines", "x": x_of(x), "y": y_of(y), "line": line}
            if spots:
                trace |= {"mode": "lines+markers", "marker": {"color": _colour(colour), "size": 7, "symbol": "square"}}
            return [{**trace, **_named(name, "theory")}]
        case Points(x, y, error, name, colour):
            marker = {"color": _colour(colour), "size": 7, "symbol": "circle-open", "line": {"width": 1.6}}
            trace = {
                "type": "scatter", "mode": "markers", "x": x_of(x), "y": y_of(y), "marker": marker,
                **_named(name, "simulation"),
            }  # fmt: skip
            if error is not None:
                trace["error_y"] = {
                    "type": "data", "array": _numbers(error), "color": _colour(colour), "thickness": 1.2, "width": 2,
                }  # fmt: skip
            return [trace]
        case Band(x, low, high, name, colour):
            common = {"type": "scatter", "mode": "lines", "x": x_of(x), "line": {"width": 0}, "hoverinfo": "skip"}
            fill = {"fill": "tonexty", "fillcolor": _transparent(colour, 0.18)}
            return [
                {**common, "y": y_of(low), "showlegend": False},
                {**common, "y": y_of(high), **fill, **_named(name, "range")},
            ]
        case Histogram(edges, heights, name, colour):
            edges, heights = np.asarray(edges, dtype=float), np.asarray(heights, dtype=float)
            stairs = {"color": _transparent(colour, 0.55), "width": 1, "shape": "hv"}
            return [
                {
                    "type": "scatter", "mode": "lines", "x": x_of(edges), "y": y_of(np.append(heights, heights[-1:])),
                    "line": stairs, "fill": "tozeroy", "fillcolor": _transparent(colour, 0.28),
                    **_named(name, "simulation"),
                }
            ]  # fmt: skip
        case Map(x, y, values, _, _, _, names) if names:
            ends = np.repeat(np.arange(len(names) + 1) / len(names), 2)[1:-1].tolist()
            scale = [[end, KINDS[i // 2 % len(KINDS)]] for i, end in enumerate(ends)]
            rows = [_numbers(row) for row in np.asarray(values, dtype=float)]
            ground = {
                "type": "heatmap", "x": x_of(x), "y": y_of(y), "z": rows, "zmin": -0.5, "zmax": len(names) - 0.5,
                "colorscale": scale, "showscale": False,
            }  # fmt: skip
            boxes = [
                {
                    "type": "scatter", "mode": "markers", "x": [None], "y": [None], **_named(name, "kind"),
                    "marker": {"color": colour, "size": 11, "symbol": "square", "line": {"width": 0.5}},
                }
                for name, colour in zip(names, KINDS, strict=False)
            ]  # fmt: skip
            return [ground, *boxes]
        case Map(x, y, values, name, low, high):
            bar = {"title": {"text": label(name), "side": "right"}, "thickness": 12, "outlinewidth": 0}
            rows = [_numbers(row) for row in np.asarray(values, dtype=float)]
            return [
                {
                    "type": "heatmap", "x": x_of(x), "y": y_of(y), "z": rows, "zmin": low, "zmax": high,
                    "colorscale": "Cividis", "colorbar": bar,
                }
            ]  # fmt: skip
        case _:
            raise AssertionError(f"unknown mark {mark!r}")


def _threshold(mark: Threshold, panel: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    shape: dict[str, Any] = {"type": "line", "line": {"width": 1.2, "dash": "dash"}, "layer": "below"}
    annotation: dict[str, Any] = {"text": label(mark.label), "showarrow": False}
    if mark.x is not None:
        at = _number(float(_scaled(mark.x, panel.x_scale)))
        where = math.log10(mark.x) if panel.x_scale == "log" and mark.x > 0 else at
        shape |= {"xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
        annotation |= {"xref": "x", "yref": "paper", "x": where, "y": 1, "yanchor": "bottom"}
    else:
        value = float(mark.y or 0.0)
        at = _number(float(_scaled(value, panel.y_scale)))
        where = math.log10(value) if panel.y_scale == "log" and value > 0 else at
        shape |= {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": at, "y1": at}
        annotation |= {"xref": "paper", "yref": "y", "x": 0.02, "y": where, "xanchor": "left", "yanchor": "bottom"}
    return shape, annotation


def _axis(text: str, scale: Scale, limits: tuple[float, float] | None, reach: list[float]) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": label(text)}, "type": "log" if scale == "log" else "linear"}
    if limits is not None:
        ends = [float(end) for end in _scaled(np.array(limits), scale)]
        axis["range"] = [math.log10(end) for end in ends] if scale == "log" else ends
    if scale == "symlog":
        largest = max((abs(x) for x in reach), default=10.0)
        ticks = [0.0, 1.0, *(10.0**k for k in range(1, 13) if 10.0**k <= 3.0 * largest)]
        axis["tickvals"] = [_number(float(_scaled(tick, scale))) for tick in ticks]
        axis["ticktext"] = [f"{tick:g}" for tick in ticks]
    return axis


def _reach(mark: Mark) -> list[float]:
    """The largest finite abscissa of a mark."""
    values = mark.edges if isinstance(mark, Histogram) else mark.x
    array = np.atleast_1d(np.asarray(values, dtype=float)) if values is not None else np.zeros(0)
    array = array[np.isfinite(array)]
    return [float(np.abs(array).max())] if array.size else []


def _scaled(values: Any, scale: Scale) -> np.ndarray:
    """Plotly has no symmetric logarithm: such coordinates are transformed here and their ticks named by hand."""
    array = np.asarray(values, dtype=float)
    if scale != "symlog":
        return array
    size = np.maximum(np.abs(array) / LINEAR_UP_TO, 1e-300)
    return np.sign(array) * np.where(size <= 1.0, size, 1.0 + np.log10(size))


def _named(text: str, kind: str) -> dict[str, Any]:
    """A trace with a label stands in the legend; one without shows its kind when pointed at."""
    return {"name": label(text) or kind, "showlegend": bool(text)}


def _number(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _numbers(values: Any) -> list[float | None]:
    return [_number(value) for value in np.atleast_1d(np.asarray(values, dtype=float)).tolist()]


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _transparent(index: int, opacity: float) -> str:
    red, green, blue = (int(_colour(index)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
