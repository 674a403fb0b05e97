"""Grids of parameters: `delta=2:20:19`, `d=log:50:800:5`, `activation=gelu,erf`; products of them, or zipped."""

import difflib
import itertools
import math
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.experiments.experiment import Experiment
from limen.problem.spec import InputError

MOST_POINTS = 200_000


@dataclass(frozen=True)
class Axis:
    """One parameter and its values."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Grid:
    """The points of a sweep: the product of the axes, the first slowest; or, zipped, their values side by side."""

    axes: tuple[Axis, ...]
    zipped: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; of a zipped grid, the common length."""
        lengths = tuple(len(axis.values) for axis in self.axes)
        return lengths[:1] if self.zipped else lengths

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = [axis.name for axis in self.axes]
        columns = [axis.values for axis in self.axes]
        rows = zip(*columns, strict=True) if self.zipped else itertools.product(*columns)
        return (dict(zip(names, row, strict=True)) for row in rows)

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"axes": [[axis.name, list(axis.values)] for axis in self.axes], "zipped": self.zipped}


def make_grid(
    experiment: type[Experiment],
    grid: Mapping[str, Any] | Sequence[str],
    sizes: Any = None,
    zipped: bool = False,
    seeds: int = 1,
    nested: Mapping[str, Any] | None = None,
) -> Grid:
    """The grid of a sweep, refused before any of it is written out if it is empty, unknown or too large.

    Args:
        experiment: the class whose fields are swept; its `aliases` are other names for them.
        grid: texts `PARAM=VALUES`, or a mapping from parameters to values. Values are `a:b:n` (n numbers from a to b,
            evenly spaced), `log:a:b:n` (evenly spaced in the logarithm; rounded for whole-number parameters), a list
            `v,v,...`, or any sequence.
        sizes: values of the experiment's size, as another axis.
        zipped: axes are walked side by side instead of in all combinations.
        seeds: runs per point, which count towards the largest allowed sweep.
        nested: parameters of a problem by path, with their annotations.
    """
    asked = _pairs(grid)
    if sizes is not None:
        asked.append((experiment.size_field, sizes))
    if not asked:
        raise InputError("the grid is empty: give at least one parameter with values, such as --grid rate=0.1:0.5:5.")
    known = {**{name: field.annotation for name, field in experiment.model_fields.items()}, **(nested or {})}
    asked = [(_field(experiment, name, known), values) for name, values in asked]
    for name, _ in asked:
        if sum(name == other for other, _ in asked) > 1:
            raise InputError(f"{name} is on the grid twice.")
    counts = [_count(name, values) for name, values in asked]
    if zipped and len(set(counts)) > 1:
        raise InputError(
            f"a zipped grid needs as many values of each parameter, got {', '.join(map(str, counts))} "
            f"of {', '.join(name for name, _ in asked)}."
        )
    points = counts[0] if zipped else math.prod(counts)
    if points * seeds > MOST_POINTS * 10 or points > MOST_POINTS:
        raise InputError(
            f"the grid has {points:,} points and {seeds} seeds; a sweep has at most {MOST_POINTS:,} points "
            f"and {10 * MOST_POINTS:,} runs."
        )
    axes = tuple(Axis(name, _values(known[name], name, values)) for name, values in asked)
    return Grid(axes, zipped)


def _pairs(grid: Mapping[str, Any] | Sequence[str]) -> list[tuple[str, Any]]:
    if isinstance(grid, str):
        grid = [grid]
    if isinstance(grid, Mapping):
        return [(str(name), values) for name, values in grid.items()]
    if not isinstance(grid, Sequence) or not all(isinstance(text, str) for text in grid):
        raise InputError(f"grid must be a dict such as {{'rate': [0.1, 0.2]}} or texts PARAM=VALUES, got {grid!r}.")
    pairs = []
    for text in grid:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"a grid looks like PARAM=a:b:n, PARAM=log:a:b:n or PARAM=v,v,..., got {text!r}.")
        pairs.append((name.strip(), values.strip()))
    return pairs


def _field(experiment: type[Experiment], name: str, known: Mapping[str, Any]) -> str:
    plain = experiment.field_called(name.replace("-", "_"), known)
    if plain not in known:
        # The last part of a path is enough where only one ends so.
        ending = [path for path in known if path.rpartition(".")[2] == plain]
        plain = ending[0] if len(ending) == 1 else plain
    if plain not in known:
        near = difflib.get_close_matches(plain, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"its parameters are {', '.join(known)}."
        raise InputError(f"{name} is not a parameter of {experiment.name}: {hint}")
    return plain


def _range(text: str) -> tuple[bool, float, float, int] | None:
    """`a:b:n` or `log:a:b:n` as (logarithmic, a, b, n)."""
    parts = text.split(":")
    logarithmic = parts[0].strip() == "log"
    parts = parts[1:] if logarithmic else parts
    if len(parts) != 3:
        return None
    try:
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
    except ValueError:
        return None
    return logarithmic, first, last, count


def _count(name: str, values: Any) -> int:
    """How many values there will be, without making them."""
    if isinstance(values, str):
        found = _range(values)
        if found is None:
            return len(_listed(name, values))
        logarithmic, first, last, count = found
        if count < 1 or not (math.isfinite(first) and math.isfinite(last)):
            raise InputError(f"the grid of {name} is empty or endless: {values!r}.")
        if logarithmic and (first <= 0.0 or last <= 0.0):
            raise InputError(f"a logarithmic range of {name} must have positive ends, got {values!r}.")
        return count
    if not isinstance(values, (Sequence, np.ndarray)):
        return 1
    if len(values) == 0:
        raise InputError(f"the grid of {name} is empty.")
    return len(values)


def _listed(name: str, text: str) -> list[str]:
    """Values between commas that are in no bracket: formulas may have commas of their own."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    listed = [part.strip() for part in parts]
    if not any(listed):
        raise InputError(f"the grid of {name} is empty.")
    if not all(listed):
        raise InputError(f"the grid of {name} has an empty value: {text!r}.")
    return listed


def _values(annotation: Any, name: str, values: Any) -> tuple[Any, ...]:
    kind = _kind(annotation)
    if isinstance(values, str):
        found = _range(values)
        made = _spaced(name, kind, *found) if found else [_read(name, kind, part) for part in _listed(name, values)]
    elif isinstance(values, (Sequence, np.ndarray)):
        made = [_plain(name, kind, value) for value in values]
    else:
        made = [_plain(name, kind, values)]
    unique = tuple(dict.fromkeys(made))
    if len(unique) < len(made):
        raise InputError(f"the grid of {name} has a value twice.")
    return unique


def _kind(annotation: Any) -> type:
    """int, float, bool, tuple (a list of numbers), or str for everything else."""
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    origin = typing.get_origin(annotation) or annotation
    return origin if origin in (int, float, bool, tuple) else str


def _spaced(name: str, kind: type, logarithmic: bool, first: float, last: float, count: int) -> list[Any]:
    if kind not in (int, float, tuple):
        raise InputError(f"{name} is not a number: list its values, as in {name}=first,second.")
    numbers = np.geomspace(first, last, count) if logarithmic else np.linspace(first, last, count)
    if kind is int and logarithmic:
        # Neighbours that round to the same number are one value.
        return list(dict.fromkeys(round(number) for number in numbers.tolist()))
    # Twelve digits: 0.30000000000000004 is another address than 0.3, and another label.
    return [_plain(name, kind, float(f"{number:.12g}")) for number in numbers.tolist()]


def _read(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{name} must be true or false, got {text!r}.")
        return text.lower() == "true"
    if kind is str:
        return text
    try:
        return _plain(name, kind, float(text))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} must be a number, got {text!r}.") from None


def _plain(name: str, kind: type, value: Any) -> Any:
    """A value as plain Python data; a number given for a list of numbers is a list of one."""
    value = value.item() if isinstance(value, np.generic) else value
    if kind is tuple:
        return tuple(map(float, value)) if isinstance(value, (Sequence, np.ndarray)) else (float(value),)
    if kind is int and isinstance(value, (int, float)) and not isinstance(value, bool):
        if value != int(value):
            raise InputError(f"{name} must be whole numbers, got {value:g}.")
        return int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
