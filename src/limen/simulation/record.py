"""The only training loops: steps between the times at which a training is looked at.

`record` where every step is alike, `record_blocks` where a compiled training draws its samples for many steps at once,
`states_at` where NumPy draws them between compiled pieces.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax

State = TypeVar("State")


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


def record_blocks(
    advance: Callable[[Any, jax.Array], tuple[Any, jax.Array]],
    observe: Callable[[Any], Any],
    state: Any,
    intervals: jax.Array,
) -> Any:
    """As `record`, for steps taken in blocks: `advance(state, left)` takes at most `left` steps and says how many.

    A state holds what its random numbers come from: a key, or a block drawn before and not yet used up.
    """

    def some(carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        state, left = carry
        state, count = advance(state, left)
        return state, left - count

    def interval(state: Any, length: jax.Array) -> tuple[Any, Any]:
        state = jax.lax.while_loop(lambda carry: carry[1] > 0, some, (state, length))[0]
        return state, observe(state)

    return jax.lax.scan(interval, state, intervals)[1]


def states_at(
    steps: Iterable[int], state: State, advance: Callable[[State, int], tuple[State, int]]
) -> Iterator[State]:
    """The state after each of `steps`; `advance(state, left)` takes at most `left` steps and says how many it took."""
    done = 0
    for goal in steps:
        while done < goal:
            state, count = advance(state, int(goal) - done)
            done += count
        yield state


def diverged(d: int, remedy: str = "step") -> str:
    """The status of a training that left the finite numbers; `remedy` is what to take smaller."""
    return f"training diverged at d = {d}: take a smaller {remedy}."
