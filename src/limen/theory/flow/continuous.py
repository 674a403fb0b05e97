r"""The continuous state: $z$ grows everywhere, every overlap is left at a pace of its own.

From $q=0$ with $D=C=1$ and $x=h''(0)^{-1/2}$ the equations

$$x'=-z,\qquad D'=-\kappa h'z,\qquad C'=\alpha\kappa^2\frac{h'}{D^2}$$

with $z$ of `local_slope` are integrated to $q=1$; nothing is left to be matched. It needs $h''(0)>0$, and it is a state
of the dynamics where $z$ does not decrease. There its energy is also the lowest of all, so that $\gamma_{GF}$ is the
threshold of the existence of interpolators in the Gaussian model (an expectation, not a proof).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from limen.theory.flow.long_times.ageing_state import AgeingState, NoiseCovariance, ending_state, local_slope

TOLERANCE = 1e-9


def integrate(
    h: NoiseCovariance,
    alpha: float,
    kappa: float,
    start: float,
    x: float,
    resolvent: float,
    correlation: float,
    between: bool = True,
) -> Any | None:
    """(x, D, C) against q from `start` to 1, as SciPy's solution; None if it breaks down on the way.

    `between` asks for its values between the steps, a quarter of the work, where not only the end matters.
    """

    def slopes(q: float, state: np.ndarray) -> list[float]:
        x, resolvent, correlation = state.tolist()
        z = local_slope(h, alpha, kappa, q, x, resolvent, correlation)
        force = h(q, 1)
        return [-z, -kappa * force * z, alpha * kappa**2 * force / resolvent**2]

    def breakdown(q: float, state: np.ndarray) -> float:
        x, resolvent, _ = state.tolist()
        return min(x, resolvent, 1.0 - alpha * (kappa * h(q, 1) * x / resolvent) ** 3) - 1e-6

    breakdown.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    solution = solve_ivp(
        slopes,
        (start, 1.0),
        np.array([x, resolvent, correlation]),
        "DOP853",
        rtol=TOLERANCE,
        atol=1e-11,
        dense_output=between,
        events=breakdown,
    )
    return solution if solution.status == 0 else None


def slopes_along(h: NoiseCovariance, alpha: float, kappa: float, solution: Any, q: np.ndarray) -> np.ndarray:
    r"""$z(q)$ of a solution of `integrate`."""
    return np.array([local_slope(h, alpha, kappa, float(at), *solution.sol(at)) for at in q])


def continuous_state(h: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    r"""The continuous state at $(\alpha,\kappa)$; None where it does not exist. Does not ask whether $z$ grows."""
    if not h(0.0, 2) > 0.0:
        return None
    solution = integrate(h, alpha, kappa, 0.0, h(0.0, 2) ** -0.5, 1.0, 1.0, between=False)
    if solution is None:
        return None
    x, resolvent, correlation = (float(part) for part in solution.y[:, -1])
    slope = local_slope(h, alpha, kappa, 1.0, x, resolvent, correlation)
    return ending_state(h, kappa, "continuous", None, slope, x, resolvent, correlation)


def closing(state: Callable[[float], AgeingState | None], alpha: float, guess: float) -> float | None:
    r"""$\gamma$ at which the gap of `state(kappa)` closes, looked for from `guess` in steps of 3%.

    None if the state ceases to exist before its gap closes.
    """

    @cache
    def gap(gamma: float) -> float:
        found = state(gamma / alpha**0.5)
        return -1.0 if found is None else found.gap

    low = high = guess
    while gap(low) <= 0.0:
        high, low = low, low / 1.03
    while gap(high) > 0.0:
        low, high = high, high * 1.03
    gamma = float(brentq(gap, low, high, xtol=1e-10, rtol=1e-10))  # pyright: ignore[reportArgumentType]
    below = state(gamma * (1.0 - 1e-8) / alpha**0.5)
    return gamma if below is not None and abs(below.gap) < 1e-5 else None
