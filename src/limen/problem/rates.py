r"""Learning rates: a positive number, a formula in the time `t`, or a JAX function of it.

For descent on a fixed sample (`Step`) `t` counts the steps done before. For one-pass SGD (`Rate`) with a formula the
clock runs at the rate itself: step number $\nu$ advances the time by $dt=\gamma(t)/(dm)$, so that the flow of the
population gradient does not see the schedule and only the noise of SGD does.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator
from typing_extensions import TypeIs

from limen.precision import in_double
from limen.problem import formula as formulas
from limen.problem.own_functions import OwnFunction, check_elementwise, own_function
from limen.problem.spec import InputError

# Formulas are probed on this grid when they are given, and up to the last time when they are used.
PROBED_UNTIL, PROBES = 1.0, 1001
# Whole numbers beyond the range of floats are no rates.
LARGEST = float(np.finfo(float).max)
PANELS = 512
# Beyond, steps are no whole numbers of 64 bits; fewer may still be too much work, which simulators say.
MOST_STEPS = 2.0**62
RateSchedule = str | OwnFunction


def is_schedule(rate: Any) -> TypeIs[RateSchedule]:
    """Whether a rate depends on the time."""
    return isinstance(rate, str | OwnFunction)


def rate_label(rate: float | RateSchedule) -> str:
    """A rate as a text: the number, the formula, or the name of the function."""
    return rate.name if isinstance(rate, OwnFunction) else f"{rate}"


def checked_rate(value: Any, name: str = "rate") -> float | RateSchedule:
    """A positive number, or a formula in `t` or a function that is positive just after the start; anything else is
    refused.

    A formula without `t` becomes the number it is.
    """
    if callable(value) and not isinstance(value, OwnFunction):
        value = own_function(value, None, 1)
        check_elementwise(value, name)
    if isinstance(value, OwnFunction):
        if value.function is not None:
            check_rate_until(value, PROBED_UNTIL, name)
        return value
    if isinstance(value, str):
        tree = formulas.parse(value, ("t",))
        check_rate_until(value, PROBED_UNTIL, name)
        return value if "t" in formulas.names_in(tree) else float(rate_values(value, np.zeros(1))[0])
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} must be a number, a formula in t or a function of it, got {value!r}.")
    if not abs(value) <= LARGEST:
        raise InputError(f"{name} must be a finite number, got {value!r}.")
    if not value > 0.0:
        raise InputError(f"{name} must be greater than 0, got {value!r}.")
    return float(value)


@lru_cache(maxsize=64)
def rate_function(text: RateSchedule) -> Callable[[Any], Any]:
    """A formula in `t` as a function of JAX arrays; the same object for equal formulas."""
    if isinstance(text, OwnFunction):
        return lambda t: text(t) + 0.0 * t
    tree = formulas.parse(text, ("t",))
    return lambda t: formulas.evaluate(tree, {"t": t}) + 0.0 * t  # the sum gives constants the shape of t


def rate_values(rate: float | RateSchedule, times: np.ndarray) -> np.ndarray:
    """The rate at these times."""
    return _schedule_values(rate, times) if is_schedule(rate) else np.full(np.shape(times), float(rate))


@in_double
def _schedule_values(rate: RateSchedule, times: np.ndarray) -> np.ndarray:
    return np.asarray(rate_function(rate)(np.asarray(times, dtype=float)))


def check_rate_until(rate: float | RateSchedule, last: float, name: str = "rate") -> None:
    """Refuses a formula that is not finite and positive from 0 to `last`."""
    times = np.linspace(0.0, last, PROBES)
    values = rate_values(rate, times)
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if wrong.size:
        at = int(wrong[0])
        raise InputError(
            f"{name} must be finite and positive, got {values[at]:g} at t = {times[at]:g} from {rate_label(rate)!r}."
        )


def steps_at(rate: float | RateSchedule, times: np.ndarray, weights: int) -> np.ndarray:
    r"""Whole steps of SGD up to each time: $\nu(t)=dm\int_0^t\frac{du}{\gamma(u)}$, rounded.

    `weights` is $dm$: one step advances the time by $\gamma(t)/(dm)$. Gauss–Legendre on 512 panels of the time span,
    broken at the `times`.
    """
    if not is_schedule(rate):
        with np.errstate(over="ignore"):
            return whole_steps(times * weights / rate, rate)
    last = float(times[-1])
    check_rate_until(rate, last)
    edges = np.union1d(np.linspace(0.0, last, PANELS + 1), times)
    nodes, parts = np.polynomial.legendre.leggauss(8)
    halves = 0.5 * np.diff(edges)
    points = (edges[:-1] + halves)[:, None] + halves[:, None] * nodes
    count = np.concatenate([[0.0], np.cumsum((halves[:, None] * parts / rate_values(rate, points)).sum(axis=1))])
    return whole_steps(count[np.searchsorted(edges, times)] * weights, rate)


def whole_steps(steps: np.ndarray, rate: float | RateSchedule) -> np.ndarray:
    """Steps of SGD rounded to whole numbers; more than are counted are refused."""
    if not steps[-1] < MOST_STEPS:
        raise InputError(
            f"rate must be larger for at most 2^62 steps, got {rate_label(rate)}, which needs {steps[-1]:.3g}."
        )
    return np.rint(steps).astype(np.int64)


def _checked_step(value: Any) -> float | RateSchedule:
    return checked_rate(value, "step")


Rate = Annotated[float | str | OwnFunction, BeforeValidator(checked_rate)]
Step = Annotated[float | str | OwnFunction, BeforeValidator(_checked_step)]
