"""Ask the theory for the best: a bounded search over parameters of a problem, with the uncertainty of the optimum."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import OptimizeResult, minimize, minimize_scalar

from limen.checks import number
from limen.experiments.figure import Band, Figure, Line, Panel, Points, Threshold
from limen.problem import InputError, Spec
from limen.problem.changes import changed, full_path, value_at
from limen.result import Result
from limen.verbs import check_problem, predict

TIME = "time"
# The first look, the most evaluations, and how far apart (in parts of the range) two values are told apart.
FIRST_LOOK, MOST_EVALUATIONS, RESOLVED = 9, 120, 1e-3
# A range of positive numbers over this factor is searched evenly in the logarithm.
WIDE = 10.0
TIMES_AT_ONCE, ZOOMS = 65, 3
CURVATURE_STEP = 0.05
Goal = str | Callable[[Result], float]


@dataclass(frozen=True)
class _Range:
    """A parameter from `low` to `high`; the search sees it from 0 to 1."""

    name: str
    low: float
    high: float

    @property
    def logarithmic(self) -> bool:
        return self.low > 0.0 and self.high / self.low >= WIDE

    def value(self, x: float) -> float:
        x = min(max(float(x), 0.0), 1.0)
        if self.logarithmic:
            return float(self.low * (self.high / self.low) ** x)
        return float(self.low + (self.high - self.low) * x)


@dataclass(frozen=True)
class Tuned:
    """The best parameters that the theory knows of; prints and draws itself.

    `intervals` are values that the theory's own error cannot tell from the best; `at_end` names parameters whose best
    value is an end of their range; `evaluations` is the table of all that was tried.
    """

    problem: Spec
    parameters: dict[str, Any]
    value: float
    error: float
    intervals: dict[str, tuple[float, float]]
    at_end: tuple[str, ...]
    goal: str
    time: float
    evaluations: pd.DataFrame
    ok: bool
    status: str
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def figure(self) -> Figure:
        """The goal at everything that was tried, along each parameter, as data."""
        panels = []
        for name, (low, high) in self.ranges.items():
            x, y = (self.evaluations[column].to_numpy(dtype=float) for column in (name, self.goal))
            order = np.argsort(x)[np.isfinite(y[np.argsort(x)])]
            x, y = x[order], y[order]
            left, right = self.intervals.get(name, (self.parameters[name],) * 2)
            marks: list[Any] = [Points(x, y, label="tried")]
            if len(self.ranges) == 1:
                marks.insert(0, Line(x, y, "theory"))
            marks.append(Threshold(f"{self.parameters[name]:.3g}", x=self.parameters[name]))
            if right > left and y.size:
                marks.insert(0, Band([left, right], [y.min()] * 2, [y.max()] * 2, "as good", colour=1))
            scale = "log" if _Range(name, low, high).logarithmic else "linear"
            panels.append(Panel(name.replace("_", " "), self.goal.replace("_", " "), marks, x_scale=scale))
        if not panels:
            raise InputError("there is nothing to draw: no parameter has a range.")
        return Figure(panels, title=f"smallest {self.goal.replace('_', ' ')}: {self.value:.4g}")

    def plot(self) -> Any:
        """The figure, drawn by matplotlib."""
        from limen.plot import draw

        return draw(self.figure())

    def _repr_png_(self) -> bytes | None:
        if not self.ranges:
            return None
        picture = BytesIO()
        self.plot().savefig(picture, format="png", dpi=110)
        return picture.getvalue()

    def __repr__(self) -> str:
        lines = [f"smallest {self.goal}: {self.value:.6g} ± {self.error:.2g} at time {self.time:g}"]
        for name, value in self.parameters.items():
            low, high = self.intervals.get(name, (None, None))
            between = f" (as good: {low:.4g} to {high:.4g})" if low is not None and high is not None else ""
            shown = f"{value:.5g}" if isinstance(value, float) else f"{value}"
            lines.append(f"  {name} = {shown}{between}")
        return "\n".join([*lines, f"  {self.status}"])


def tune(
    problem: Spec,
    over: Mapping[str, Any],
    goal: Goal = "test_loss",
    at: Any = None,
    theory: str | None = None,
    **options: Any,
) -> Tuned:
    """The parameters with the smallest `goal`, by a bounded search on the theory.

    Args:
        problem: where the search begins; every parameter that is not in `over` keeps its value.
        over: by path, a range `(low, high)`, or a list of values to try. `"time"` is when to stop.
        goal: a variable of the prediction, read at time `at` (`"overlap_0_1"` for a component, means over seeds), or a
            function of the prediction that gives a number.
        at: the time of the goal; a function of the problem; or `{"samples_per_dim": 20}`: the time at which one-pass
            SGD has seen so many samples. Left out where `over` has `"time"`.
        theory: its name; by default the first that applies.
        options: of the theory.

    A look at nine values (a grid, for several parameters), then Brent's or Nelder and Mead's method around the best.
    Theories that sample answer every question with the same random numbers, so that the goal is smooth; their stated
    error becomes the interval of parameters that are as good. A prediction that is not finite counts as infinitely bad.
    """
    check_problem(problem)
    ranges, lists = _sorted_out(problem, over)
    time_range = next((one for one in ranges if one.name == TIME), None)
    if (at is None) == (time_range is None):
        raise InputError("at is the time of the goal: give it, or put a range of 'time' into over.")
    searched = [one for one in ranges if one.name != TIME]
    search = _Search(problem, goal, at, time_range, theory, options)
    best: tuple[float, dict[str, Any], np.ndarray] | None = None
    for chosen in itertools.product(*lists.values()):
        fixed = dict(zip(lists, chosen, strict=True))
        x = search.minimum(searched, fixed)
        value = search.at(searched, x, fixed)[0]
        if best is None or value < best[0]:
            best = (value, fixed, x)
    assert best is not None
    _, fixed, x = best
    if not np.isfinite(best[0]):
        raise InputError(f"{search.name} is not finite anywhere in these ranges.")
    return search.tuned(searched, fixed, x)


def _sorted_out(problem: Spec, over: Mapping[str, Any]) -> tuple[list[_Range], dict[str, list[Any]]]:
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            f"over must name at least one parameter, such as {{'algorithm.step': (0.01, 2.0)}}, got {over!r}."
        )
    ranges, lists = [], {}
    for given, values in over.items():
        name = TIME if given == TIME else full_path(problem, given)
        pair = isinstance(values, tuple) and len(values) == 2 and all(isinstance(v, int | float) for v in values)
        if not pair:
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
                raise InputError(f"over[{given!r}] must be a range (low, high) or a list of values, got {values!r}.")
            lists[name] = list(values)
            continue
        low, high = map(float, values)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"over[{given!r}] must be a range with low < high, got {values!r}.")
        if name != TIME and isinstance(value_at(problem, name), int):
            raise InputError(f"{name} is a whole number: list the values to try, as in [1, 2, 4].")
        ranges.append(_Range(name, low, high))
    return ranges, lists


class _Search:
    """One search: asks the theory, and remembers every answer."""

    def __init__(
        self, problem: Spec, goal: Goal, at: Any, times: _Range | None, theory: str | None, options: dict[str, Any]
    ) -> None:
        self.problem, self.goal, self.when, self.times = problem, goal, at, times
        self.theory, self.options = theory, options
        self.name = goal if isinstance(goal, str) else getattr(goal, "__name__", "goal")
        self.rows: list[dict[str, Any]] = []
        self.known: dict[tuple[Any, ...], tuple[float, float, float, bool]] = {}

    def at(self, ranges: list[_Range], x: np.ndarray, fixed: dict[str, Any]) -> tuple[float, float, float, bool]:
        """Goal, its error, the time it is reached, and whether the theory stands by it."""
        values = {**fixed, **{one.name: one.value(part) for one, part in zip(ranges, np.atleast_1d(x), strict=True)}}
        key = tuple(values.values())
        if key not in self.known:
            posed = changed(self.problem, values)
            self.known[key] = found = self._stopped(posed) if self.times else self._read(posed, [self._time(posed)])
            self.rows.append({**values, TIME: found[2], self.name: found[0], "error": found[1], "ok": found[3]})
        return self.known[key]

    def _time(self, problem: Spec) -> float:
        if callable(self.when):
            when: Any = self.when(problem)
            return number("at", when)
        if isinstance(self.when, Mapping):
            return _time_of_samples(problem, self.when)
        return number("at", self.when)

    def _read(self, problem: Spec, times: Sequence[float]) -> tuple[float, float, float, bool]:
        """The least goal over these times."""
        grid = np.unique(np.round(times)) if getattr(problem, "counts_steps", False) else np.asarray(times, float)
        result = predict(problem, grid, self.theory, **self.options)
        if callable(self.goal):
            value = _number_of(self.goal(result))
            return (value if np.isfinite(value) else np.inf), 0.0, float(grid[-1]), result.ok
        values, errors = curve_of(result, self.goal)
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(np.argmin(values))
        return float(values[best]), float(errors[best]), float(grid[best]), result.ok

    def _stopped(self, problem: Spec) -> tuple[float, float, float, bool]:
        """The best time to stop: all steps, or ever finer grids of times."""
        assert self.times is not None
        low, high = self.times.low, self.times.high
        if getattr(problem, "counts_steps", False):
            return self._read(problem, np.arange(np.ceil(low), np.floor(high) + 1.0).tolist())
        left, right = 0.0, 1.0
        found = (np.inf, 0.0, low, True)
        for _ in range(ZOOMS):
            units = np.linspace(left, right, TIMES_AT_ONCE)
            grid = np.array([self.times.value(unit) for unit in units])
            found = self._read(problem, grid.tolist())
            at = int(np.argmin(np.abs(grid - found[2])))
            left, right = units[max(at - 1, 0)], units[min(at + 1, len(units) - 1)]
        return found

    def minimum(self, ranges: list[_Range], fixed: dict[str, Any]) -> np.ndarray:
        """Where the goal is least, in the units of the search."""

        def value(x: Any) -> float:
            return self.at(ranges, np.clip(np.atleast_1d(x), 0.0, 1.0), fixed)[0]

        if not ranges:
            return np.zeros(0)
        per_axis = FIRST_LOOK if len(ranges) == 1 else 5 if len(ranges) == 2 else 3
        grid = np.linspace(0.0, 1.0, per_axis)
        points = [np.array(point) for point in itertools.product(grid, repeat=len(ranges))]
        values = [value(point) for point in points]
        start = points[int(np.argmin(values))]
        if not np.isfinite(min(values)):
            return start
        left = MOST_EVALUATIONS - len(points)
        if len(ranges) == 1:
            step = grid[1]
            bounds = (max(start[0] - step, 0.0), min(start[0] + step, 1.0))
            best: OptimizeResult = minimize_scalar(
                value, bounds=bounds, method="bounded", options={"xatol": 0.1 * RESOLVED, "maxiter": left}
            )  # pyright: ignore
        else:
            simplex = np.clip(np.vstack([start, *(start + 0.5 * grid[1] * row for row in _inward(start))]), 0.0, 1.0)
            options = {"xatol": RESOLVED, "fatol": 1e-9, "maxfev": left, "initial_simplex": simplex}
            best = minimize(value, start, method="Nelder-Mead", bounds=[(0.0, 1.0)] * len(start), options=options)
        found = np.clip(np.atleast_1d(best.x), 0.0, 1.0)
        return found if value(found) <= value(start) else start

    def tuned(self, ranges: list[_Range], fixed: dict[str, Any], x: np.ndarray) -> Tuned:
        """What came of the search, with the uncertainty of each parameter."""
        value, error, time, ok = self.at(ranges, x, fixed)
        intervals, at_end = {}, []
        for i, one in enumerate(ranges):
            intervals[one.name] = self._interval(ranges, fixed, x, i, value, error)
            if min(x[i], 1.0 - x[i]) < 2.0 * RESOLVED:
                at_end.append(one.name)
        parameters = {**fixed, **{one.name: one.value(part) for one, part in zip(ranges, x, strict=True)}}
        best = changed(self.problem, parameters) if parameters else self.problem
        if self.times is not None:
            parameters[TIME] = time
            ends = [self.times.low, self.times.high]
            at_end += [TIME] if np.isclose(time, ends, rtol=1e-6).any() else []
        said = f"{len(self.rows)} predictions"
        if at_end:
            said += f"; {', '.join(at_end)} at an end of the range: look further"
        if not ok:
            said += "; the theory does not stand by its number there"
        shown = {one.name: (one.low, one.high) for one in ranges}
        return Tuned(
            best, parameters, value, error, intervals, tuple(at_end), self.name, time,
            pd.DataFrame(self.rows), ok and not at_end, f"{said}.", shown,
        )  # fmt: skip

    def _interval(
        self, ranges: list[_Range], fixed: dict[str, Any], x: np.ndarray, i: int, value: float, error: float
    ) -> tuple[float, float]:
        """Values of one parameter that are as good within the theory's error, by the curvature at the optimum."""
        step = np.zeros(len(x))
        step[i] = CURVATURE_STEP
        sides = [self.at(ranges, np.clip(x + sign * step, 0.0, 1.0), fixed)[0] for sign in (-1.0, 1.0)]
        finite = [side - value for side in sides if np.isfinite(side) and side > value]
        rise = float(np.mean(finite)) if finite else 0.0
        # The search itself stops within its resolution.
        width = 1.0 if rise <= 0.0 else CURVATURE_STEP * np.sqrt(max(error, 0.0) / rise)
        width = min(max(width, RESOLVED), 1.0)
        return ranges[i].value(x[i] - width), ranges[i].value(x[i] + width)


def _number_of(value: Any) -> float:
    """What a goal of one's own gives."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"goal must give a number, got {value!r}.") from None


def _inward(start: np.ndarray) -> np.ndarray:
    """Unit steps from a corner of the simplex that stay in the range."""
    return np.diag(np.where(start < 0.75, 1.0, -1.0))


def curve_of(result: Result, goal: str) -> tuple[np.ndarray, np.ndarray]:
    """A variable over time (mean over seeds), and its stated error."""
    table = result.to_dataframe()
    if goal not in table:
        shown = ", ".join(name for name in table.columns if not name.endswith("_spread"))
        raise InputError(f"goal must be a variable of the prediction ({shown}), got {goal!r}.")
    over_seeds = table.groupby(level=TIME, sort=True).mean() if "seed" in table.index.names else table
    part = 1.0
    for name, variable in result.dataset.data_vars.items():
        if goal == name or goal.startswith(f"{name}_"):
            part = float(variable.attrs.get("error_part", 1.0))
    pieces = goal.split("_")
    spreads = ["_".join([*pieces[:cut], "spread", *pieces[cut:]]) for cut in range(1, len(pieces) + 1)]
    held = next((over_seeds[name] for name in spreads if name in over_seeds), None)
    errors = np.zeros(len(over_seeds)) if held is None else part * np.abs(held.to_numpy())
    return over_seeds[goal].to_numpy(), np.nan_to_num(errors)


def _time_of_samples(problem: Spec, asked: Mapping[str, float]) -> float:
    r"""When one-pass SGD has seen $\alpha d$ samples: $t=\alpha\gamma/(mB)$ with $m$ neurons, batches of $B$."""
    algorithm, network = getattr(problem, "algorithm", None), getattr(problem, "network", None)
    rate = getattr(algorithm, "rate", None)
    if set(asked) != {"samples_per_dim"} or not isinstance(rate, float) or network is None:
        raise InputError(
            f"at must be a time, or {{'samples_per_dim': ...}} with one-pass SGD at a constant rate: {asked}."
        )
    return float(asked["samples_per_dim"]) * rate / (network.width * getattr(algorithm, "batch", 1))
