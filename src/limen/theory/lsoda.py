"""LSODA over spans of any length: stiff or not, the step is its own business."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

# Shorter spans are integrated in units of their own: LSODA does not come back from one near the least number.
SHORTEST = 1e-30


def lsoda(
    rate: Callable[[float, np.ndarray], Any],
    start: np.ndarray | Sequence[float],
    times: np.ndarray,
    rtol: float,
    atol: float,
) -> Any:
    r"""Solution of $\dot y=$ `rate(t, y)` from `start` at 0, as `solve_ivp` gives it, with `y` (size, time) at `times`.

    `times` increase from 0 or later.
    """
    last = float(times[-1])
    if last == 0.0 or last >= SHORTEST:
        return solve_ivp(rate, (0.0, last), start, "LSODA", t_eval=times, rtol=rtol, atol=atol)

    def scaled(part: float, state: np.ndarray) -> np.ndarray:
        return last * np.asarray(rate(last * part, state))

    return solve_ivp(scaled, (0.0, 1.0), start, "LSODA", t_eval=np.asarray(times) / last, rtol=rtol, atol=atol)
