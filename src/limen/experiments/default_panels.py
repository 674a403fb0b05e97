"""The figure of results that nobody designed one for: losses together, overlaps, two-time maps; any number of results.

Theory is a line (with its own stated error as a band), simulation points with standard errors over its seeds. A theory
and a simulation of one problem share a colour; several problems are told apart by what differs between them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from limen.experiments.figure import Band, Figure, Line, Map, Mark, Panel, Points, mean_and_error, thin
from limen.problem.spec import InputError
from limen.result import Result

# Symbols of the variables that all chapters share; every other is called by its name.
WORDS = {
    "overlap": "overlap $M$",
    "gram": "Gram matrix $Q$",
    "second_layer": "second layer $a$",
    "correlation": "correlation $C$",
    "response": "response $R$",
    "overlap_variance": "variance of the overlap",
}
LOSS_ENDINGS = ("loss", "risk", "mse", "error")
# Not shown: what belongs to another variable (its spread, error or interval) and what counts.
LIMITS = ("_low", "_high")
ASIDE = ("_spread", "_error", *LIMITS)
# What moves by less, in parts of its size, moves by rounding.
STILL = 1e-6
# Curves closer than this, in parts of the largest value, and than so many stated errors, are one.
SAME, ERRORS = 1e-6, 3.0
MOST_LINES, MOST_POINTS, MOST_PANELS, LARGEST_MAP = 6, 26, 9, 200
TIMES = {"step": "step $t$", "time": "time $t$"}
Group = tuple[str, list[Result]]


class NothingToDraw(InputError):
    """Results without an axis: numbers at one time."""


def default_figure(
    results: Sequence[Result], labels: Sequence[str] | None = None, variables: Sequence[str] | None = None
) -> Figure:
    """Panels of everything that can be drawn of these results.

    Args:
        results: theories and simulations, of one problem or of several.
        labels: one per result; by default what differs between their problems, methods or sizes.
        variables: which, and in what order; by default all.
    """
    if not results or not all(isinstance(result, Result) for result in results):
        raise InputError("plot takes results: limen.plot(prediction), limen.plot(prediction, run).")
    groups = grouped(results, labels)
    shown = _chosen(results, variables)
    losses = [name for name in shown if _is_loss(name, results)] if len(groups) == 1 else []
    panels = [_loss_panel(losses, groups[0][1])] if losses else []
    for name in shown:
        if name not in losses:
            panels += _panels(name, groups)
    if not panels:
        raise NothingToDraw(f"there is nothing to draw along an axis in {', '.join(shown) or 'these results'}.")
    title = "" if len(groups) > 1 else _title(groups[0][1][0])
    return Figure(panels[:MOST_PANELS], title)


def grouped(results: Sequence[Result], labels: Sequence[str] | None = None) -> list[Group]:
    """Results of one label (one problem, where no labels are given) together, in the order given."""
    if labels is not None and len(labels) != len(results):
        raise InputError(f"labels must be one per result ({len(results)}), got {len(labels)}.")
    named = list(labels) if labels is not None else _differences(results)
    groups: dict[str, list[Result]] = {}
    for name, result in zip(named, results, strict=True):
        groups.setdefault(name, []).append(result)
    return list(groups.items())


def _differences(results: Sequence[Result]) -> list[str]:
    """What tells each result from the others: fields of its problem, else its method."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(_told_apart(result))
    flat = [_told_apart(result) for result in results]
    paths = [
        path
        for path in dict.fromkeys(path for fields in flat for path in fields)
        if any(_differ(path, fields) for fields in kinds.values())
    ]
    problems = [path for path in paths if path not in ("method", "size")]
    used = problems or paths
    return [", ".join(f"{_short(path)} = {_value(fields[path])}" for path in used if path in fields) for fields in flat]


def _told_apart(result: Result) -> dict[str, Any]:
    size = result.dataset.attrs.get("d") if result.kind == "simulation" else None
    return {**dict(_flat(result.spec)), "method": result.method, **({} if size is None else {"size": size})}


def _differ(path: str, fields: list[dict[str, Any]]) -> bool:
    return any(one.get(path) != fields[0].get(path) for one in fields)


def _flat(spec: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _short(path: str) -> str:
    """`network.activation.formula` is the activation; `algorithm.type` the algorithm."""
    parts = path.split(".")
    while len(parts) > 1 and parts[-1] in ("formula", "name", "type"):
        parts.pop()
    return parts[-1].replace("_", " ")


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _chosen(results: Sequence[Result], variables: Sequence[str] | None) -> list[str]:
    there = dict.fromkeys(str(name) for result in results for name in result.dataset.data_vars)
    if variables is not None:
        variables = [variables] if isinstance(variables, str) else list(variables)
        for name in variables:
            if name not in there:
                raise InputError(f"{name!r} is not a variable of these results (they have {', '.join(there)}).")
        return variables
    shown = [
        name
        for name in there
        if not any(name.endswith(ending) and name.removesuffix(ending) in there for ending in ASIDE)
        and any(_drawable(result.dataset[name]) for result in results if name in result.dataset)
    ]
    # Losses and flat curves first, what depends on two times last.
    return sorted(shown, key=lambda name: (not _is_loss(name, results), _two_times(name, results)))


def _is_loss(name: str, results: Sequence[Result]) -> bool:
    if not name.rsplit("_", 1)[-1].endswith(LOSS_ENDINGS):
        return False
    return all(len(_own_dims(result.dataset[name])) == 1 for result in results if name in result.dataset)


def _two_times(name: str, results: Sequence[Result]) -> bool:
    return any("time2" in result.dataset[name].dims for result in results if name in result.dataset)


def _own_dims(variable: xr.DataArray) -> list[str]:
    return [str(dim) for dim in variable.dims if dim != "seed"]


def _drawable(variable: xr.DataArray) -> bool:
    """A number along an axis that moves: what is not trained is a flat line."""
    if variable.dtype.kind not in "iufb" or (axis := _axis(variable)) is None:
        return False
    values = variable.values.astype(float)
    finite = np.isfinite(values)
    held = np.where(finite, values, np.nan)
    along = np.abs(np.diff(held, axis=variable.get_axis_num(axis)))
    return bool(finite.any()) and bool((along > STILL * np.abs(held[finite]).max()).any())


def _axis(variable: xr.DataArray) -> str | None:
    """The dimension a variable is drawn along: time, else the longest that has numbers."""
    dims = _own_dims(variable)
    if "time" in dims:
        return "time" if variable.sizes["time"] > 1 else None
    numeric = [
        dim
        for dim in dims
        if variable.sizes[dim] > 1 and dim in variable.coords and variable[dim].dtype.kind in "iuf"
    ]  # fmt: skip
    return max(numeric, key=lambda dim: variable.sizes[dim]) if numeric else None


def _loss_panel(names: list[str], results: list[Result]) -> Panel:
    marks = [
        mark
        for colour, name in enumerate(names)
        for result in results
        if name in result.dataset
        for mark in _marks(result, result.dataset[name], name, colour, _words(name))
    ]
    held = next(result.dataset[name] for name in names for result in results if name in result.dataset)
    words = _words(names[0]) if len(names) == 1 else "loss" if all("loss" in n for n in names) else "loss and risk"
    return Panel(_axis_label(held, results), words, _labelled_once(marks), **_scales(held, marks))


def _panels(name: str, groups: list[Group]) -> list[Panel]:
    """The panels of one variable: its components as lines of one panel, or, for several problems, a panel each."""
    with_it = [(label, [result for result in results if name in result.dataset]) for label, results in groups]
    with_it = [(label, results) for label, results in with_it if results]
    first = with_it[0][1][0].dataset[name]
    if "time2" in first.dims:
        return _maps(name, with_it)
    axis = _axis(first)
    if axis is None:
        return []
    every = [result for _, results in with_it for result in results]
    theory = next((result.dataset for result in every if result.kind == "theory"), None)
    alike = _alike(_components(first, axis), theory, name)
    if len(with_it) == 1:
        marks = [
            mark
            for colour, some in enumerate(alike[:MOST_LINES])
            for result in every
            for mark in _marks(result, _mean_of(result.dataset[name], some), name, colour, _alike_label(some))
        ]
        left = f" (first {MOST_LINES} of {len(alike)})" if len(alike) > MOST_LINES else ""
        label = f"{_words(name)}{left}"
        return [Panel(_axis_label(first, every), label, _labelled_once(marks), **_scales(first, marks))]
    panels = []
    for some in alike:
        held = [
            (colour, label, result, _mean_of(result.dataset[name], some))
            for colour, (label, results) in enumerate(with_it)
            for result in results
            if all(index < result.dataset[name].sizes[dim] for one in some for dim, index in one.items())
        ]
        if len(alike) > 1 and not any(_drawable(part) for *_, part in held):
            continue
        marks = [mark for colour, label, result, part in held for mark in _marks(result, part, name, colour, label)]
        title = _alike_label(some)
        panels.append(Panel(_axis_label(first, every), _words(name), _labelled_once(marks), title))
    return panels[:MOST_LINES]


def _components(variable: xr.DataArray, axis: str) -> list[dict[str, int]]:
    """Every choice of the dimensions other than the axis; of a matrix between neurons the upper triangle."""
    others = [dim for dim in _own_dims(variable) if dim != axis]
    ranges = [range(variable.sizes[dim]) for dim in others]
    chosen = [dict(zip(others, indices, strict=True)) for indices in itertools.product(*ranges)]
    return [one for one in chosen if all(one.get(dim, 0) <= one.get(f"{dim}2", one.get(dim, 0)) for dim in one)]


def _alike(components: list[dict[str, int]], theory: xr.Dataset | None, name: str) -> list[list[dict[str, int]]]:
    """Components that the theory cannot tell apart within its own error, such as neurons that start alike, together."""
    if theory is None:
        return [[component] for component in components]
    curves = [np.asarray(theory[name].isel(component).values, dtype=float) for component in components]
    size = max((float(np.nanmax(np.abs(curve), initial=0.0)) for curve in curves), default=0.0)
    stated = theory[name].attrs.get("error")
    held = theory[stated] if isinstance(stated, str) and stated in theory else None
    groups: list[list[int]] = []
    for i, curve in enumerate(curves):
        error = 0.0 if held is None else float(np.nanmax(held.isel(components[i]).values, initial=0.0))
        apart = SAME * size + ERRORS * error
        near = (group for group in groups if np.allclose(curves[group[0]], curve, rtol=0.0, atol=apart))
        group = next(near, None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    return [[components[i] for i in group] for group in groups]


def _mean_of(variable: xr.DataArray, components: list[dict[str, int]]) -> xr.DataArray:
    """The mean over some components; of one, it is itself."""
    if len(components) == 1:
        return variable.isel(components[0])
    held = [variable.isel(component).drop_vars(list(component), errors="ignore") for component in components]
    return xr.concat(held, dim="alike").mean("alike")


def _alike_label(components: list[dict[str, int]]) -> str:
    more = f" and {len(components) - 1} more alike" if len(components) > 1 else ""
    return f"{_component_label(components[0])}{more}"


def _component_label(component: Mapping[str, int]) -> str:
    return ", ".join(f"{dim.replace('2', '')} {index + 1}" for dim, index in component.items())


def _marks(result: Result, variable: xr.DataArray, name: str, colour: int, label: str) -> list[Mark]:
    axis = _axis(variable)
    if axis is None:
        return []
    x = np.asarray(variable[axis].values if axis in variable.coords else np.arange(variable.sizes[axis]), dtype=float)
    if "seed" not in variable.dims:
        y = variable.transpose(axis).values
        if result.kind == "simulation":
            some = thin(len(x), MOST_POINTS)
            return [Points(x[some], y[some], None, label, colour)]
        return [*_error_band(result, name, variable, x, y, colour), Line(x, y, label, colour)]
    mean, error = mean_and_error(variable.transpose("seed", axis).values)
    if result.kind == "theory":
        return [Band(x, mean - error, mean + error, "", colour), Line(x, mean, label, colour)]
    some = thin(len(x), MOST_POINTS)
    return [Points(x[some], mean[some], error[some], label, colour)]


def _error_band(
    result: Result, name: str, variable: xr.DataArray, x: np.ndarray, y: np.ndarray, colour: int
) -> list[Mark]:
    """The interval of the curve, or the theory's own stated error, where it has one."""
    ends = [result.dataset.get(f"{name}{ending}") for ending in LIMITS]
    if ends[0] is not None and ends[1] is not None and ends[0].dims == ends[1].dims == variable.dims:
        return [Band(x, ends[0].values, ends[1].values, "", colour)]
    stated = result.dataset[name].attrs.get("error")
    if not isinstance(stated, str) or stated not in result.dataset:
        return []
    held = result.dataset[stated]
    held = held.isel({dim: int(i) for dim, i in _position(result.dataset[name], variable).items() if dim in held.dims})
    if held.dims != variable.dims:
        return []
    error = float(result.dataset[name].attrs.get("error_part", 1.0)) * np.abs(held.values)
    return [Band(x, y - error, y + error, "", colour)]


def _position(whole: xr.DataArray, part: xr.DataArray) -> dict[str, int]:
    """Where in the whole a component stands, by its scalar coordinates; 0 where there are none."""
    position = {}
    for dim in whole.dims:
        if dim not in part.dims:
            at = part.coords.get(dim)
            values = whole[dim].values if dim in whole.coords else None
            position[str(dim)] = 0 if at is None or values is None else int(np.argmax(values == at.values))
    return position


def _labelled_once(marks: Sequence[Mark]) -> list[Mark]:
    """One entry of the legend for a line and the points of its colour."""
    seen: set[tuple[str, int]] = set()
    made: list[Mark] = []
    for mark in marks:
        label, colour = getattr(mark, "label", ""), getattr(mark, "colour", 0)
        if label and (label, colour) in seen:
            mark = type(mark)(**{**vars(mark), "label": ""})
        seen.add((label, colour))
        made.append(mark)
    return made


def _maps(name: str, groups: list[Group]) -> list[Panel]:
    """A map of both times for theory and simulation, of the first component; the same colours for all."""
    made = []
    for label, results in groups:
        for result in results:
            variable = result.dataset[name]
            variable = variable.mean("seed") if "seed" in variable.dims else variable
            other = {str(dim): 0 for dim in variable.dims if dim not in ("time", "time2")}
            held = variable.isel(other).transpose("time", "time2")
            every = [thin(size, LARGEST_MAP) for size in held.shape]
            title = ", ".join(part for part in (label, result.kind, _component_label(other)) if part)
            made.append((title, held.isel(time=every[0], time2=every[1])))
    finite = np.concatenate([held.values[np.isfinite(held.values)] for _, held in made])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return [
        Panel(
            "time $t'$",
            "time $t$",
            [Map(held.time2.values, held.time.values, held.values, _words(name), low, high)],
            title,
        )
        for title, held in made
    ]


def _words(name: str) -> str:
    return WORDS.get(name, name.replace("_", " "))


def _axis_label(variable: xr.DataArray, results: Sequence[Result]) -> str:
    axis = _axis(variable) or "time"
    if axis == "time" and any("step" in result.dataset.coords for result in results) and _whole(variable):
        return TIMES["step"]
    return TIMES.get(axis, axis.replace("_", " "))


def _whole(variable: xr.DataArray) -> bool:
    times = variable["time"].values
    return bool(np.array_equal(times, np.round(times)))


def _scales(variable: xr.DataArray, marks: Sequence[Mark]) -> dict[str, Any]:
    """Logarithms where the numbers ask for them: an axis, or positive values, over more than two decades."""
    scales: dict[str, Any] = {}
    x = np.concatenate([np.asarray(mark.x, dtype=float) for mark in marks if isinstance(mark, Line | Points)] or [[]])
    y = np.concatenate([np.ravel(mark.y) for mark in marks if isinstance(mark, Line | Points)] or [[]])
    positive = x[x > 0.0]
    if positive.size > 8 and np.ptp(np.diff(np.unique(positive))) > 1e-9 * positive.max():
        ratios = np.diff(np.log(np.unique(positive)))
        if positive.max() > 100.0 * positive.min() and ratios.std() < 0.5 * ratios.mean():
            scales["x_scale"] = "log"
    finite = y[np.isfinite(y)]
    if finite.size and finite.min() > 0.0 and finite.max() > 100.0 * finite.min():
        scales["y_scale"] = "log"
    return scales


def _title(result: Result) -> str:
    spec = result.spec.get("problem", result.spec)
    algorithm = spec.get("algorithm")
    inner = f", {algorithm['type']}" if isinstance(algorithm, Mapping) and "type" in algorithm else ""
    return f"{spec.get('type', '')}{inner}"
