r"""When frames on the Stiefel manifold leave a random start: the law of the time to an overlap, information exponent 2.

A random start has $\sqrt N\,\mathrm{vec}M\sim N(0,I)$. While $M$ is small its drift is linear, $\dot M=L[M]$, and the
steps add Gaussian noise of covariance $\frac\delta NG$ per unit of time, $G=E[gg^\top]$ with
$g=\mathrm{vec}(cs_*^\top)$ at $M=0$. On the growing modes of $L$, rates $\lambda_i>0$, what comes out of the noise is
what would have come out of a larger Gaussian start, of covariance

$$\frac1N\Big(\delta_{ij}+\frac{\delta\,\tilde G_{ij}}{\lambda_i+\lambda_j}\Big)$$

in the coordinates of the modes; decaying modes are gone by then. From there the equations of `stiefel_flow` lead. What
is left out is that single kicks are not Gaussian, with heavy tails where the target is a product. For $z_1z_2$ at
$\delta=0.1$ mean times of the law are late by 0.10(2) at $N=256$, 5%; that the kicks are the reason is not shown. One
direction is the Gaussian amplitude of `hitting_time` (exponent 2); several directions are derived here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.checks import fraction, integer, positive
from limen.gaussian.sobol import sobol_normals
from limen.link.leap import first_degree
from limen.precision import in_double
from limen.problem import InputError, MultiIndex
from limen.theory.effective.stiefel_flow import CITATIONS as FLOW_CITATIONS
from limen.theory.effective.stiefel_flow import drift_of, frozen_points

CITATIONS = FLOW_CITATIONS
MANY_POINTS, FEW_POINTS = 2**17, 2**14
SMALL = 0.03
# Of a unit of time over the largest rate.
STEP = 0.2
GRID = 41
REST = 0.02


@in_double
def frame_hitting_times(problem: MultiIndex, d: int, level: float, horizon: float, draws: int = 128) -> np.ndarray:
    r"""When $\lVert M\rVert_F/\sqrt k$ reaches `level` from a random start: a sample of its law.

    Args:
        problem: a `MultiIndex` of any loss whose target has information exponent 2.
        d: dimension $N$.
        level: in (0, 1), far above the $\sqrt{k/N}$ of the start.
        horizon: last time, in units of $\text{steps}\cdot\delta/N$.
        draws: number of frozen Gaussian starts.

    Returns:
        Times (draws,), increasing; `inf` after the horizon. Some seconds for 128 draws.
    """
    k = problem.directions
    d, level, horizon = integer("d", d, 2 * k + 1), fraction("level", level), positive("horizon", horizon)
    draws = integer("draws", draws, 8)
    if level <= 2.0 * np.sqrt(k / d):
        raise InputError(f"level must be above {2.0 * np.sqrt(k / d):.3g}, twice the start's overlap, got {level:g}.")
    rates, modes, spread = growing_modes(problem)
    normals = sobol_normals(draws, len(rates), 0)
    starts = (normals @ np.linalg.cholesky(spread).T @ modes.T / np.sqrt(d)).reshape(draws, k, k)
    grid = np.linspace(0.0, horizon, GRID)
    logs = np.log(_lengths(problem, starts, grid, float(rates.max()))) - np.log(level)
    above = logs >= 0.0
    at = np.maximum(above.argmax(axis=1), 1)
    rows = np.arange(draws)
    before, after = logs[rows, at - 1], logs[rows, at]
    # Over a short horizon a length may not move at all: it is then above the level from the start, or never.
    interval = grid[1] - grid[0]
    past = np.divide(interval * after, after - before, out=np.full(draws, interval), where=after != before)
    times = grid[at] - past
    return np.sort(np.where(above.any(axis=1), np.maximum(times, 0.0), np.inf))


@in_double
def growing_modes(problem: MultiIndex) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Rates (g,) of the growing modes at zero overlap, the modes (k², g), and the covariance (g, g), times $N$, of
    their amplitudes at the start, noise of the steps included. Refused where nothing grows."""
    if first_degree(problem.target) != 2:
        raise InputError(f"target must have information exponent 2, got {first_degree(problem.target):g}.")
    rest, linear = _near_zero(problem, MANY_POINTS)
    if np.abs(rest).max() > REST:
        raise InputError(f"loss must leave zero overlap at rest, and {problem.loss.name!r} does not for this target.")
    # Of gradients of a population loss, up to the corrector of the step and the points' own error.
    rates, modes = np.linalg.eigh(0.5 * (linear + linear.T))
    grows = rates > 0.0
    if not grows.any():
        raise InputError(f"step must be smaller: at {problem.step:g} no overlap grows from zero.")
    rates, modes = rates[grows], modes[:, grows]
    points, scale = frozen_points(problem.directions, 0, MANY_POINTS), problem.target.noise**0.5
    pull = _pulls(problem.target.function, problem.loss.slope)(points.along, points.free, points.noise, scale)
    kicks = (np.asarray(pull)[:, :, None] * points.along[:, None, :]).reshape(len(points.along), -1) @ modes
    noise = kicks.T @ kicks / len(kicks)
    return rates, modes, np.eye(len(rates)) + problem.step * noise / (rates[:, None] + rates)


def _near_zero(problem: MultiIndex, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The drift at zero overlap (k², zero but for the error of `count` points) and its derivative (k², k²)."""
    k, points = problem.directions, frozen_points(problem.directions, 0, count)
    drift, scale = drift_of(problem.target.function, problem.loss.slope), problem.target.noise**0.5

    def at(overlap: np.ndarray) -> np.ndarray:
        return np.asarray(drift(overlap, *points, scale, problem.step)).ravel()

    basis = SMALL * np.eye(k * k).reshape(-1, k, k)
    return at(np.zeros((k, k))), np.stack([at(one) - at(-one) for one in basis], axis=1) / (2.0 * SMALL)


@lru_cache(maxsize=64)
def _pulls(link: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    student = jax.vmap(jax.value_and_grad(lambda s: link(s, 0.0)))

    @jax.jit
    def pulls(along: Any, free: Any, noise: Any, scale: Any) -> Any:
        outputs, gradients = student(free)
        labels = link(along, jnp.zeros(along.shape[0])) + scale * noise
        return slope(labels, outputs)[:, None] * gradients

    return pulls


def _lengths(problem: MultiIndex, starts: np.ndarray, grid: np.ndarray, rate: float) -> np.ndarray:
    """Root mean square singular values of the overlaps, (draws, times), by Runge–Kutta of order four.

    Few points are enough for the curvature of the drift; its value and slope at zero are those of many.
    """
    points = tuple(jnp.asarray(part) for part in frozen_points(problem.directions, 0, FEW_POINTS))
    rest, slope = _near_zero(problem, FEW_POINTS)
    mended = jnp.asarray(-rest), jnp.asarray(_near_zero(problem, MANY_POINTS)[1] - slope)
    run = _advance(problem.target.function, problem.loss.slope)
    state, clock, found = jnp.asarray(starts), 0.0, []
    for moment in grid:
        count = int(np.ceil((moment - clock) * rate / STEP))
        if count:
            length = (moment - clock) / count
            state = run(state, *points, *mended, problem.target.noise**0.5, problem.step, length, count)
        clock = float(moment)
        found.append(np.sqrt(np.mean(np.sum(np.asarray(state) ** 2, axis=2), axis=1)))
    return np.stack(found, axis=1)


@lru_cache(maxsize=64)
def _advance(link: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    drift = drift_of(link, slope)

    @jax.jit
    def run(
        state: Any,
        along: Any,
        free: Any,
        noise: Any,
        shift: Any,
        slope: Any,
        scale: Any,
        step: Any,
        length: Any,
        count: Any,
    ) -> Any:
        def rate(one: Any) -> Any:
            return drift(one, along, free, noise, scale, step) + (shift + slope @ one.ravel()).reshape(one.shape)

        def move(_: Any, frames: Any) -> Any:
            def one(frame: Any) -> Any:
                first = rate(frame)
                second = rate(frame + 0.5 * length * first)
                third = rate(frame + 0.5 * length * second)
                fourth = rate(frame + length * third)
                new = frame + length / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
                # Few points may lead out of the ball of overlaps, long after any level: stay there.
                return jnp.where((new**2).sum() <= new.shape[0], new, frame)

            return jax.lax.map(one, frames)

        return jax.lax.fori_loop(0, count, move, state)

    return run
