"""What more a visitor may ask: a grid over parameters, the best parameters, thresholds, the Hessian; all checked."""

import math
from typing import Any

from limen.experiments.registry import OWN
from limen.problem import InputError, Spec
from limen.problem.changes import changed
from limen.problem.spec import from_description
from limen.web.limits import Limits
from limen.web.own_problem import affordable, controls_of, problem_parameters, problem_schema
from limen.web.schema import parameters_of, schema, within

KINDS = ("grid", "tune", "thresholds", "hessian")
MOST_AXES, MOST_VALUES, MOST_POINTS, MOST_GRID_SEEDS = 2, 40, 200, 64
# A whole number is tried value by value.
MOST_TRIED, TIME = 12, "time"


def question_task(asked: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """A question as the task of a worker; what cannot be asked is refused in one sentence."""
    kind, name, settings = asked["kind"], asked["experiment"], asked["settings"]
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind[:60]!r}.")
    if kind != "grid" and name not in OWN:
        raise InputError(f"{kind} is asked of a problem of your own, got {name[:60]!r}.")
    read = problem_parameters if name in OWN else lambda given, bounds: parameters_of(name, given, bounds)
    parameters = read(asked["parameters"], limits)
    task = {"task": "question", "kind": kind, "experiment": name, "parameters": parameters}
    match kind:
        case "grid":
            _only(settings, ("axes", "seeds", "quantity"))
            return task | _grid(name, parameters, settings, limits)
        case "tune":
            _only(settings, ("over", "goal"))
            return task | _tuning(parameters, settings)
        case _:
            _only(settings, ())
            return task


def _only(settings: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for name in settings:
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise InputError(f"{str(name)[:60]!r} is not a setting of this question (allowed: {known}).")


def _grid(name: str, parameters: dict[str, Any], settings: dict[str, Any], limits: Limits) -> dict[str, Any]:
    axes, seeds, quantity = settings.get("axes"), settings.get("seeds", 0), settings.get("quantity")
    if not isinstance(axes, list) or not 1 <= len(axes) <= MOST_AXES:
        raise InputError(f"axes must be a list of one or {MOST_AXES} parameters.")
    if type(seeds) is not int or not 0 <= seeds <= MOST_GRID_SEEDS:
        raise InputError(f"seeds must be from 0 (theory alone) to {MOST_GRID_SEEDS} on a grid, got {str(seeds)[:60]}.")
    if quantity is not None and (not isinstance(quantity, str) or len(quantity) > limits.text):
        raise InputError("quantity must be the name of a number per point.")
    problem = from_description(parameters["problem"]) if name in OWN else None
    controls = _controls(name, problem, limits)
    grid: dict[str, list[float]] = {}
    for axis in axes:
        control, ends, count, scale = _axis(axis, controls)
        if control["name"] in grid:
            raise InputError(f"{control['name']} stands twice on the grid.")
        grid[control["name"]] = _values(ends, count, scale, control["kind"] == "integer")
    points = math.prod(map(len, grid.values()))
    if points > MOST_POINTS:
        raise InputError(f"the grid must have at most {MOST_POINTS} points on the page, got {points}.")
    if problem is not None:
        for corner in (0, -1):
            affordable(changed(problem, {path: values[corner] for path, values in grid.items() if path != "d"}))
    return {"grid": grid, "seeds": seeds, "quantity": quantity}


def _controls(name: str, problem: Spec | None, limits: Limits) -> dict[str, dict[str, Any]]:
    """Numbers that may stand on a grid, by name."""
    if problem is None:
        known = schema(name, limits)["parameters"]
    else:
        own = [one for one in problem_schema(limits)["parameters"] if one["name"] == "d"]
        known = [*controls_of(problem), *([] if getattr(problem, "d", None) is not None else own)]
    return {one["name"]: one for one in known if one["kind"] in ("integer", "number")}


def _axis(axis: Any, controls: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], tuple[float, float], int, str]:
    if not isinstance(axis, dict) or set(axis) != {"name", "low", "high", "count", "scale"}:
        raise InputError("an axis must have name, low, high, count and scale.")
    name, count, scale = axis["name"], axis["count"], axis["scale"]
    if not isinstance(name, str) or name not in controls:
        raise InputError(f"a grid has numbers on its axes ({', '.join(controls)}), got {str(name)[:60]!r}.")
    if type(count) is not int or not 2 <= count <= MOST_VALUES:
        raise InputError(f"count of {name} must be a whole number from 2 to {MOST_VALUES}, got {str(count)[:60]}.")
    if scale not in ("linear", "log"):
        raise InputError(f"scale of {name} must be linear or log, got {str(scale)[:60]!r}.")
    low, high = _ends(axis, name)
    if scale == "log" and low <= 0.0:
        raise InputError(f"{name} must begin above 0 on a logarithmic axis, got {low:g}.")
    control = controls[name]
    # Both ends are within the field's own bounds, so what lies between is.
    return control, (within(control, low), within(control, high)), count, scale


def _ends(given: dict[str, Any], name: str) -> tuple[float, float]:
    low, high = given["low"], given["high"]
    if any(type(end) not in (int, float) or not abs(end) < 1e300 for end in (low, high)) or not low < high:
        raise InputError(f"{name} must go from a number to a larger one, got {str(low)[:40]} to {str(high)[:40]}.")
    return low, high


def _values(ends: tuple[float, float], count: int, scale: str, whole: bool) -> list[float]:
    low, high = ends
    parts = [i / (count - 1) for i in range(count)]
    if scale == "log":
        values = [low * (high / low) ** part for part in parts]
    else:
        values = [low + (high - low) * part for part in parts]
    if whole:
        return sorted({round(value) for value in values})
    return [low, *(float(f"{value:.6g}") for value in values[1:-1]), high]


def _tuning(parameters: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    over, goal = settings.get("over"), settings.get("goal")
    if not isinstance(goal, str) or not 0 < len(goal) <= 60:
        raise InputError("goal must be the name of a variable of the prediction.")
    if not isinstance(over, list) or not 1 <= len(over) <= MOST_AXES:
        raise InputError(f"over must be a list of one or {MOST_AXES} parameters.")
    problem = from_description(parameters["problem"])
    controls = {one["name"]: one for one in controls_of(problem) if one["kind"] in ("integer", "number")}
    ranges: dict[str, Any] = {}
    for one in over:
        if not isinstance(one, dict) or set(one) != {"name", "low", "high"}:
            raise InputError("a range must have name, low and high.")
        name = one["name"]
        if name not in (TIME, *controls):
            raise InputError(f"what is tuned is a number ({', '.join((TIME, *controls))}), got {str(name)[:60]!r}.")
        low, high = _ends(one, name)
        if name == TIME:
            if not 0.0 <= low < high <= parameters["times"]:
                raise InputError(f"time must lie between 0 and the last time, {parameters['times']:g}.")
            ranges[name] = {"range": [low, high]}
            continue
        low, high = (within(controls[name], end) for end in (low, high))
        affordable(changed(problem, {name: high}))
        if controls[name]["kind"] == "integer":
            if high - low >= MOST_TRIED:
                raise InputError(f"{name} is tried value by value, at most {MOST_TRIED} of them.")
            ranges[name] = {"values": list(range(int(low), int(high) + 1))}
        else:
            ranges[name] = {"range": [low, high]}
    return {"over": ranges, "goal": goal}
