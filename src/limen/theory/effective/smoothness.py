r"""Whether statistics are twice differentiable: kinks and jumps found along random lines by refinement.

On a line $\phi(t)=u(x+td)$ the interval where $\phi$ or $\phi'$ departs most from the trapezoidal rule of its own
derivative is refined until it is some $10^{-13}$ wide; a smooth function has nothing left there, a kink keeps its jump.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem.families.user_model import UserModel
from limen.problem.spec import InputError

LINES, POINTS, REACH = 8, 129, 2.0
ROUNDS = 6
# Part of the largest value or slope on the line.
SMALLEST_JUMP = 1e-7


def check_smooth(model: UserModel, seed: int) -> None:
    """Refuses statistics that are not finite, or have a kink or a jump on one of some lines through random points."""
    size = len(np.asarray(model.measure(model.random_points(seed, "line", 1)[0])))
    lines = max(LINES, size)
    points, directions = (model.random_points(seed, name, lines) for name in ("line starts", "line directions"))
    grid = np.linspace(-REACH, REACH, POINTS)
    jets = _jets(model, points, directions, np.tile(grid, (lines, 1)))
    if not np.isfinite(jets).all():
        bad = np.flatnonzero(~np.isfinite(jets).all(axis=(0, 1, 2)))[0]
        raise InputError(f"statistics must be finite with finite derivatives, entry {bad} is not near random points.")
    for order, name in ((0, "value"), (1, "slope")):
        # The line of each entry's worst cell; rows beyond the entries only keep the shape.
        lines_of, cells = np.unravel_index(
            _departures(jets, grid[None], order).reshape(-1, size).argmax(axis=0), (lines, POINTS - 1)
        )
        rows = np.resize(lines_of, lines)
        left, right = np.resize(grid[cells], lines), np.resize(grid[cells + 1], lines)
        entries = np.arange(size)
        jumps = np.zeros(size)
        for _ in range(ROUNDS):
            times = np.linspace(left, right, POINTS, axis=1)
            departures = _departures(_jets(model, points[rows], directions[rows], times), times, order)
            own = departures[entries, :, entries]
            jumps, worst = own.max(axis=1), np.resize(own.argmax(axis=1), lines)
            left, right = (times[np.arange(lines), worst + i] for i in (0, 1))
        largest = np.abs(jets[order]).max(axis=(0, 1)) + np.abs(np.diff(jets[order], axis=1)).max(axis=(0, 1))
        broken = np.flatnonzero(jumps > SMALLEST_JUMP * np.maximum(largest, 1e-300))
        if broken.size:
            raise InputError(
                f"statistics must be twice differentiable: the {name} of entry {broken[0]} jumps by "
                f"{jumps[broken[0]]:.2g} between neighbouring points."
            )


def _departures(jets: np.ndarray, times: np.ndarray, order: int) -> np.ndarray:
    """How far values (line, cell, entry) are from the trapezoidal rule of their derivatives."""
    values, slopes = jets[order], jets[order + 1]
    return np.abs(np.diff(values, axis=1) - 0.5 * np.diff(times)[..., None] * (slopes[:, 1:] + slopes[:, :-1]))


def _jets(model: UserModel, points: np.ndarray, directions: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Value, slope and second derivative of the statistics (order, line, time, entry)."""
    return np.stack([np.asarray(part) for part in _along(model, points, directions, times)])


@partial(jax.jit, static_argnums=0)
def _along(model: UserModel, points: jax.Array, directions: jax.Array, times: jax.Array) -> list[jax.Array]:
    """Value, slope and second derivative of the statistics (line, time, entry) along lines."""

    def jet(point, direction, time):
        def value(t):
            return model.measure(point + t * direction)

        def slope(t):
            return jax.jvp(value, (t,), (1.0,))[1]

        return [value(time), *jax.jvp(slope, (time,), (jnp.ones_like(time),))]

    over_times = jax.vmap(jet, in_axes=(None, None, 0))
    return jax.vmap(over_times)(points, directions, times)
