r"""Regularisation of a flow: a number, a formula in the time `t`, or a matrix $\Lambda_t$ of these over the neurons."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from limen.problem import formula as formulas
from limen.problem.rates import rate_function, rate_values
from limen.problem.spec import InputError, nested_tuple

Entry = float | str
PROBED_UNTIL, PROBES = 1.0, 101


def checked_decay(value: Any, name: str = "weight_decay") -> Entry:
    """A number not below 0, or a formula in `t` that is finite and not negative just after the start."""
    found = _entry(value, name)
    _check_sign(found, PROBED_UNTIL, name)
    return found


def checked_matrix(value: Any) -> Entry | tuple[tuple[Entry, ...], ...]:
    """One decay for all neurons, or the rows of $\\Lambda_t$, whose entries may have either sign."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return checked_decay(value)
    rows = nested_tuple(value) if isinstance(value, np.ndarray) else tuple(value)
    if not rows or not all(isinstance(row, (list, tuple)) and len(row) == len(rows) for row in rows):
        raise InputError("weight_decay must be a number, a formula in t, or a square matrix of these.")
    return tuple(tuple(_entry(one, "weight_decay") for one in row) for row in rows)


def check_decay_until(decay: Any, last: float, name: str) -> None:
    """Refuses formulas that are not finite (nor, for a single decay, positive or zero) from 0 to `last`."""
    if isinstance(decay, tuple):
        for one in (one for row in decay for one in row):
            _check_finite(one, last, name)
        return
    _check_sign(decay, last, name)


@dataclass(frozen=True)
class Regularization:
    r"""$\Lambda_t$ of the first layer (m, m) and $\lambda_t$ of the second of a flow with `width` neurons."""

    first: Entry | tuple[tuple[Entry, ...], ...]
    second: Entry
    width: int

    def matrix(self, time: float) -> np.ndarray:
        r"""$\Lambda_t$, (m, m)."""
        if isinstance(self.first, tuple):
            return self._rows if self._rows is not None else _matrix(self.first, time)
        return _value(self.first, time) * np.eye(self.width)

    def second_layer(self, time: float) -> float:
        r"""$\lambda_t$ of the second layer."""
        return _value(self.second, time)

    @cached_property
    def changes(self) -> bool:
        """Whether it depends on the time."""
        entries = [one for row in self.first for one in row] if isinstance(self.first, tuple) else [self.first]
        return any(isinstance(one, str) for one in (*entries, self.second))

    @cached_property
    def _rows(self) -> np.ndarray | None:
        """The matrix, where it does not change."""
        return None if self.changes or not isinstance(self.first, tuple) else _matrix(self.first, 0.0)


def _matrix(rows: tuple[tuple[Entry, ...], ...], time: float) -> np.ndarray:
    return np.array([[_value(one, time) for one in row] for row in rows])


def _value(entry: Entry, time: float) -> float:
    return float(rate_function(entry)(np.float64(time))) if isinstance(entry, str) else entry


def _entry(value: Any, name: str) -> Entry:
    if isinstance(value, str):
        tree = formulas.parse(value, ("t",))
        _check_finite(value, PROBED_UNTIL, name)
        return value if "t" in formulas.names_in(tree) else float(rate_values(value, np.zeros(1))[0])
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number or a formula in t, got {value!r}.")
    return float(value)


def _check_finite(entry: Entry, last: float, name: str) -> np.ndarray:
    times = np.linspace(0.0, last, PROBES)
    values = rate_values(entry, times)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise InputError(f"{name} must be finite, got {values[wrong[0]]:g} at t = {times[wrong[0]]:g} from {entry!r}.")
    return values


def _check_sign(entry: Entry, last: float, name: str) -> None:
    values = _check_finite(entry, last, name)
    if values.min() < 0.0:
        raise InputError(f"{name} must not be negative, got {values.min():g} from {entry!r}.")


def _checked_second(value: Any) -> Entry:
    return checked_decay(value, "second_layer_decay")


MatrixDecay = Annotated[float | str | tuple[tuple[float | str, ...], ...], BeforeValidator(checked_matrix)]
SecondDecay = Annotated[float | str, BeforeValidator(_checked_second)]
