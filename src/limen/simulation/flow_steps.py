"""Gradient flow of a parameter tree by the classical Runge-Kutta method, between given moments."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem.spec import InputError

Velocity = Callable[[Any], Any]
_STAGES = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])  # shift and weight of each stage


def runge_kutta_step(velocity: Velocity, state: Any, step: Any) -> Any:
    """One step of the classical method of order 4, exact to $O(h^5)$.

    The four stages are a loop, so that the velocity is compiled once.
    """

    def stage(carry: tuple[Any, Any], coefficients: jax.Array) -> tuple[tuple[Any, Any], None]:
        moved, slope = carry
        slope = velocity(shifted(state, slope, coefficients[0] * step))
        return (shifted(moved, slope, coefficients[1] * step), slope), None

    nothing = jax.tree.map(jnp.zeros_like, state)
    return jax.lax.scan(stage, (state, nothing), jnp.asarray(_STAGES))[0][0]


def shifted(state: Any, direction: Any, length: Any) -> Any:
    """`state + length * direction` on every leaf."""
    return jax.tree.map(lambda x, v: x + length * v, state, direction)


def steps_between(times: np.ndarray, longest: float) -> list[tuple[float, int]]:
    """Size and number of equal steps, at most `longest` each, from 0 to the first time and on to the others."""
    if times.ndim != 1 or times.size == 0 or not np.all(np.diff(times, prepend=0.0) >= 0):
        raise InputError(f"times must be an increasing list of non-negative numbers, got {times.tolist()}.")
    pieces = []
    for length in np.diff(times, prepend=0.0):
        count = int(np.ceil(length / longest))
        pieces.append((float(length) / max(count, 1), count))
    return pieces
