r"""Clusters of any weights on the circle: when the next two meet, and the next, until one is left.

Tokens that have met act as one token of their total weight. $k$ clusters of weights $w_j$ at angles $\phi_j$ obey,
under softmax attention with $Q^\top K=V=I$,
$$\dot\phi_j=\frac{\sum_lw_le^{\beta\cos(\phi_l-\phi_j)}\sin(\phi_l-\phi_j)}{\sum_lw_le^{\beta\cos(\phi_l-\phi_j)}},$$
exactly. For large $\beta$ the speeds are of order $e^{-\beta(1-\cos\varphi)}$ in the angle $\varphi$ to a neighbour:
this is the slow motion of metastable states, with all that is fast left out, so that steps grow with the waiting times.
Order on the circle is kept. Two neighbours count as one from $1-\cos\le\delta$ on; nearer than `JOINED` they are
replaced by their centre.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from limen.checks import fraction, non_negative, positive, positives, reals, same_length, vector

CITATIONS = ("geshkovski2023",)
# Angle below which two clusters are replaced by one; the centre then errs by less than its square.
JOINED = 1e-4
RELATIVE, ABSOLUTE = 1e-9, 1e-10
SLACK = 1e-6


def merging_times(angles: Any, weights: Any, beta: float, horizon: float, delta: float = 1e-3) -> NDArray[np.float64]:
    r"""Times at which $k$ clusters become $k-1$, $k-2$, ..., 1, increasing; `inf` for what comes after `horizon`.

    Args:
        angles: $\phi_j$, shape (k,), in radians, no two equal.
        weights: $w_j>0$, shape (k,); only their ratios matter.
        beta: inverse temperature $\beta\ge0$.
        horizon: last time.
        delta: neighbours with $\cos\ge1-\delta$ count as one cluster; they may from the start.

    Returns:
        Shape (k - 1,). Dormand–Prince 8, some hundred steps for each merger, whatever the waiting time. Regular
        polygons of equal clusters are at rest: only rounding starts them.
    """
    places, masses = np.mod(np.atleast_1d(reals("angles", angles)), 2.0 * np.pi), vector("weights", weights)
    beta, horizon, delta = non_negative("beta", beta), positive("horizon", horizon), fraction("delta", delta)
    same_length("angles", places, "weights", masses)
    positives("weights", masses)
    order = np.argsort(places)
    places, masses = places[order], masses[order]
    reach, clock = float(np.arccos(1.0 - delta)), 0.0
    times = np.full(places.size - 1, np.inf)
    times[: int((_gaps(places) <= reach).sum())] = 0.0
    while places.size > 1 and clock < horizon:
        clock, places, passed = _until_next(places, masses, beta, clock, horizon, reach)
        if passed:
            times[np.argmax(times)] = clock
        near = np.flatnonzero(_gaps(places) <= JOINED)
        if near.size:
            places, masses = _joined(places, masses, int(near[0]))
    return times


def _gaps(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Angles from each cluster to the next, around the circle."""
    return np.mod(np.roll(places, -1) - places, 2.0 * np.pi)


def _speeds(places: NDArray[np.float64], masses: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    apart = places[None, :] - places[:, None]
    pull = masses * np.exp(-2.0 * beta * np.sin(0.5 * apart) ** 2)
    return (pull * np.sin(apart)).sum(axis=1) / pull.sum(axis=1)


def _until_next(
    places: NDArray[np.float64], masses: NDArray[np.float64], beta: float, clock: float, horizon: float, reach: float
) -> tuple[float, NDArray[np.float64], bool]:
    """Time and angles when a gap passes `reach` (True), when a pair is to be joined, or at the horizon (False)."""
    # A gap that has just passed is closed, whatever the root finder left of it.
    closing = _gaps(places) > reach * (1.0 + SLACK)

    def passage(t: float, state: NDArray[np.float64]) -> float:
        return float(_gaps(state)[closing].min()) - reach

    def joining(t: float, state: NDArray[np.float64]) -> float:
        return float(_gaps(state).min()) - 0.99 * JOINED

    passage.terminal = joining.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    solution = solve_ivp(
        lambda t, state: _speeds(state, masses, beta),
        (clock, horizon), places, "DOP853", events=[passage, joining], rtol=RELATIVE, atol=ABSOLUTE,
    )  # fmt: skip
    if not solution.success:
        raise RuntimeError(f"the equation of the clusters stopped at t = {solution.t[-1]:.4g}: {solution.message}")
    return float(solution.t[-1]), solution.y[:, -1], bool(solution.t_events[0].size)


def _joined(
    places: NDArray[np.float64], masses: NDArray[np.float64], first: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cluster `first` and the next as one at their centre."""
    second = (first + 1) % places.size
    part = masses[second] / (masses[first] + masses[second])
    centre = places[first] + part * np.mod(places[second] - places[first], 2.0 * np.pi)
    others = np.setdiff1d(np.arange(places.size), (first, second))
    places = np.mod(np.append(places[others], centre), 2.0 * np.pi)
    masses = np.append(masses[others], masses[first] + masses[second])
    order = np.argsort(places)
    return places[order], masses[order]
