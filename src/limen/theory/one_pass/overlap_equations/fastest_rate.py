"""How fast a flow forgets or amplifies: what a step of anything that is added to it must be short beside."""

from collections.abc import Callable

import numpy as np

# Powers of the derivative, and how many of the last are looked at: pairs of complex rates turn.
POWERS, LAST = 16, 8
# Part of the state: wide enough that of averages over points with kinks many points cross.
DIFFERENCE = 1e-2


def fastest_rate(slope: Callable[[np.ndarray], np.ndarray], states: np.ndarray) -> float:
    r"""The largest $|\lambda|$ of the derivative of $\dot v=F(v)$ over the rows of `states` (state, n); 0 where nothing
    moves or nothing is finite.

    `slope` gives $F$ of all rows at once. Power iteration with differences of $F$: good to some percent, to a tenth
    where complex pairs turn, which is enough for the length of a step.
    """
    lengths = DIFFERENCE * np.linalg.norm(states, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        base, factors = slope(states), []
        direction = np.random.default_rng(0).standard_normal(states.shape)
        for _ in range(POWERS):
            direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
            direction = (slope(states + lengths * direction) - base) / lengths
            factors.append(np.linalg.norm(direction, axis=1))
        rates = np.exp(np.mean(np.log(factors[-LAST:]), axis=0))
    return float(rates[np.isfinite(rates)].max(initial=0.0))
