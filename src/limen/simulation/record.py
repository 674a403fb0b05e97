"""The only training loop: steps between the times at which a training is looked at."""

from collections.abc import Callable
from typing import Any

import jax


def record(step: Callable[[Any], Any], observe: Callable[[Any], Any], state: Any, intervals: jax.Array) -> Any:
    """Observations of a training, stacked along their first axis; to be called inside compiled code.

    Takes `intervals[0]` steps from `state` and observes, then `intervals[1]` more and observes, and so on. What a step
    carries is the `state`, what may be dropped is what `observe` makes of it. A training whose step computes something
    worth recording keeps it in its state.
    """

    def interval(state: Any, length: jax.Array) -> tuple[Any, Any]:
        state = jax.lax.fori_loop(0, length, lambda _, state: step(state), state)
        return state, observe(state)

    return jax.lax.scan(interval, state, intervals)[1]


def diverged(d: int, remedy: str = "step") -> str:
    """The status of a training that left the finite numbers; `remedy` is what to take smaller."""
    return f"training diverged at d = {d}: take a smaller {remedy}."
