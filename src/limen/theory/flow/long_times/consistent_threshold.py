r"""The ageing state that is stable at every overlap, and the interpolation threshold that follows from it.

A state of the dynamics has $g(q)\le0$ on all of $[0,1]$ and a $z$ that never decreases (`ageing_state`). Four
structures are tried: one step; continuous; one step up to $q_1$, then continuous; continuous up to $q_1$, then one
step. In the third $z$ does not jump at $q_1$: below it $g''(q_1^-)\propto z_{local}-z\le0$, above it $z_{local}\ge z$.
In the fourth it jumps upwards, and $q_1$ and the jump follow from $g(1)=g'(1)=0$. (The same phases are known in
spherical spin glasses of covariance $q^s+cq^p$: Crisanti & Leuzzi 2006.) Other structures, such as two steps, are
refused.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from limen.problem.spec import InputError
from limen.theory.flow.continuous import closing, continuous_state, integrate, slopes_along
from limen.theory.flow.long_times.ageing_state import AgeingState, NoiseCovariance, ending_state, local_slope
from limen.theory.flow.long_times.threshold import checked_gammas, checked_ratio, checked_variance
from limen.theory.flow.one_step import OneStep, one_step, one_step_state, one_step_threshold, stable_at_end

OVERLAPS = np.linspace(0.0, 1.0, 101)
SLACK = 1e-8


def consistent_threshold(h: Any, samples_per_parameter: float, noise: float = 1.0) -> float:
    r"""$\gamma_{GF}(\alpha)$ from the state that is stable at every overlap.

    Arguments as in `interpolation_threshold`, which it equals where the step is stable at both ends or $z$ of the
    continuous state grows ($q^2$ always, $c\,q^p$ for $\alpha\le\frac{p-2}{2p-3}$). 0.1 s to a few seconds.

    Both suppose that the start is forgotten. How far that is true for states with a step is not known: for $q^3$ and a
    trained second layer, solved at $m=10^4$, $\gamma$ ends at 0.3640, 0.5000, 0.6410, 0.819 for $\alpha=$ 0.3, 0.5,
    0.7, 0.9, against 0.3638, 0.5009, 0.6437, 0.8260 here and 0.3638, 0.5000, 0.6355, 0.7833 for the plain step.
    """
    covariance = NoiseCovariance(h)
    alpha, variance = checked_ratio(samples_per_parameter), checked_variance(noise)
    guess = one_step_threshold(covariance, alpha)[0]
    found = closing(lambda kappa: consistent_state(covariance, alpha, kappa), alpha, guess)
    if found is None:
        raise InputError(f"no consistent state of this h reaches zero error at samples_per_parameter = {alpha:g}.")
    return variance**0.5 * found


def consistent_error(h: Any, samples_per_parameter: float, gamma: Any, noise: float = 1.0) -> Any:
    r"""$e_\infty(\gamma)$ from the state that is stable at every overlap; 0 at and above `consistent_threshold`.

    Arguments as in `asymptotic_error`.
    """
    covariance = NoiseCovariance(h)
    alpha, variance = checked_ratio(samples_per_parameter), checked_variance(noise)
    gammas = checked_gammas(gamma) / variance**0.5
    threshold = consistent_threshold(h, alpha)
    errors = np.zeros(gammas.size)
    for i, value in enumerate(gammas.ravel().tolist()):
        if value < threshold:
            state = consistent_state(covariance, alpha, value / alpha**0.5)
            if state is None:
                raise InputError(f"no consistent state of this h was found at gamma = {value * variance**0.5:g}.")
            errors[i] = state.training_error
    shaped = variance * errors.reshape(gammas.shape)
    return float(shaped) if shaped.ndim == 0 else shaped


def consistent_state(h: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    r"""The state at $(\alpha,\kappa)$, noise variance 1, that passes both conditions; None if there is none."""
    step = one_step(h, alpha, kappa)
    if step is not None and _obeys(h, alpha, kappa, step):
        return one_step_state(h, alpha, kappa)
    if h(0.0, 2) > 0.0:
        solution = integrate(h, alpha, kappa, 0.0, h(0.0, 2) ** -0.5, 1.0, 1.0)
        if solution is not None and _grows(slopes_along(h, alpha, kappa, solution, OVERLAPS)):
            return continuous_state(h, alpha, kappa)
    return _step_then_continuous(h, alpha, kappa) or _continuous_then_step(h, alpha, kappa)


def _obeys(h: NoiseCovariance, alpha: float, kappa: float, step: OneStep) -> bool:
    g = step.at(h, alpha, kappa, OVERLAPS * step.end)[3]
    return bool((g <= SLACK).all()) and stable_at_end(h, alpha, kappa, step)


def _grows(slopes: np.ndarray) -> bool:
    return bool((np.diff(slopes) >= -SLACK * np.abs(slopes).max()).all() and (slopes >= -SLACK).all())


def _step_then_continuous(h: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    def jump(end: float) -> float:
        step = one_step(h, alpha, kappa, end)
        if step is None:
            return 1.0
        local = local_slope(h, alpha, kappa, end, step.x, step.resolvent, step.correlation)
        return local - step.slope if local >= 0.0 else 1.0

    ends = np.linspace(0.02, 1.0, 50)
    jumps = np.array([jump(end) for end in ends])
    for i in np.flatnonzero((jumps[:-1] <= 0.0) & (jumps[1:] > 0.0))[::-1]:
        end = float(brentq(jump, ends[i], ends[i + 1], xtol=1e-12))  # pyright: ignore[reportArgumentType]
        step = one_step(h, alpha, kappa, end)
        if step is None or (step.at(h, alpha, kappa, OVERLAPS * end)[3] > SLACK).any():
            continue
        solution = integrate(h, alpha, kappa, end, step.x, step.resolvent, step.correlation)
        if solution is None:
            continue
        if _grows(slopes_along(h, alpha, kappa, solution, end + (1.0 - end) * OVERLAPS)):
            x, resolvent, correlation = (float(part) for part in solution.y[:, -1])
            slope = local_slope(h, alpha, kappa, 1.0, x, resolvent, correlation)
            return ending_state(h, kappa, "one step, then continuous", end, slope, x, resolvent, correlation)
    return None


def _continuous_then_step(h: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    if not h(0.0, 2) > 0.0:
        return None
    solution = integrate(h, alpha, kappa, 0.0, h(0.0, 2) ** -0.5, 1.0, 1.0)
    if solution is None:
        return None
    value, first, second = (h(1.0, order) for order in (0, 1, 2))

    def last_step(start: float) -> tuple[float, float, float, float, float] | None:
        """z, x(1), D(1), C(1) and g(1) of the step from `start`, on which g'(1) = 0."""
        x, resolvent, correlation = solution.sol(start).tolist()
        rise = value - h(start)

        def ends(z: float) -> tuple[float, float, float]:
            lower = resolvent - kappa * z * rise
            return x - z * (1.0 - start), lower, correlation + alpha * kappa**2 * rise / (lower * resolvent)

        def marginal(z: float) -> float:
            last, lower, late = ends(z)
            return last**2 * (second * late + alpha * (kappa * first / lower) ** 2) - 1.0

        largest = x / (1.0 - start)
        if kappa > 0.0:
            largest = min(largest, (1.0 - 1e-9) * resolvent / (kappa * rise))
        if not (marginal(0.0) > 0.0 > marginal(largest)):
            return None
        z = float(brentq(marginal, 0.0, largest, xtol=1e-14))  # pyright: ignore[reportArgumentType]
        last, lower, late = ends(z)
        # Up to `start` the integral of 1/x^2 is h'C there, since g = 0.
        integral = h(start, 1) * correlation + (1.0 - start) / (last * x)
        return z, last, lower, late, first * late - integral

    def excess(start: float) -> float:
        found = last_step(start)
        return np.nan if found is None else found[4]

    starts = np.linspace(0.0, 0.99, 100)
    values = np.array([excess(start) for start in starts])
    for i in np.flatnonzero(values[:-1] * values[1:] < 0.0):
        start = float(brentq(excess, starts[i], starts[i + 1], xtol=1e-12))  # pyright: ignore[reportArgumentType]
        found = last_step(start)
        slopes = slopes_along(h, alpha, kappa, solution, start * OVERLAPS)
        if found is not None and _grows(np.append(slopes, found[0])):
            z, x, resolvent, correlation, _ = found
            return ending_state(h, kappa, "continuous, then one step", start, z, x, resolvent, correlation)
    return None
