r"""Plain online SGD of a user's own loss, sampler and update rule, with statistics recorded along the run."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from limen.checks import seed_list
from limen.gaussian.keys import stream_keys
from limen.method import answers
from limen.precision import in_double
from limen.problem.families.user_model import UserModel, user_model
from limen.problem.spec import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.simulation.record import states_at

CITATIONS = ("benarous2022",)
MOST_STEPS = 2**31 - 1


@answers("simulation", CITATIONS, "generic_sgd")
@in_double
def run(
    loss: Callable[[Any, Any], Any],
    sampler: Callable[..., Any],
    statistics: Callable[[Any], Any],
    step: float | Callable[[int], float],
    dimension: int,
    times: Any,
    start: ArrayLike | Callable[..., Any] | None = None,
    seeds: int | Sequence[int] = 8,
    update: Callable[..., Any] | None = None,
) -> Findings:
    r"""Online SGD $x\leftarrow x-\delta\,\text{update}(\nabla_xL(x,y))$, one fresh sample a step.

    The arguments are those of `limen.effective.derive`, taken to the letter: every step of every seed is made, and
    recorded at the times $t=\ell\delta$ of `times`.

    Args:
        loss: `loss(x, y)`, one number.
        sampler: `sampler(key)` or `sampler(key, dimension)`, one sample.
        statistics: `statistics(x)`, a number or a vector.
        step: $\delta$, or a function of the dimension.
        dimension: length $N$ of `x`.
        times: increasing; a time means the nearest whole number of steps. A number T means 101 times from 0 to T.
        start: where to begin: a vector, one per seed (seed, N), or a function of a key; by default $N(0,I/N)$.
        seeds: 8 means 0..7.
        update: `update(gradient)` giving the direction, or `update(gradient, memory)` giving direction and memory.

    Returns:
        `statistics` (seed, time, statistic). `ok` is false if a run diverged. Seeds advance side by side.
    """
    grid = time_grid(times, counts_steps=False)
    draws = seed_list(seeds)
    moving = start if callable(start) or start is None else None
    model = user_model(loss, sampler, statistics, step, dimension, update, moving)
    counts = np.round(grid / model.delta).astype(np.int64)
    if counts[-1] > MOST_STEPS:
        raise InputError(f"times must be shorter: {counts[-1]:.3g} steps of {model.delta:.3g} are too many.")
    points = _starts(model, start, draws)
    keys = stream_keys(draws, dimension, "generic-sgd")

    def advance(state: tuple[jax.Array, jax.Array, int], left: int) -> tuple[tuple[jax.Array, jax.Array, int], int]:
        points, memory, done = state
        return (*_advance(model, model.delta, points, memory, keys, done, left), done + left), left

    states = states_at(counts, (points, jnp.zeros_like(points), 0), advance)
    path = np.stack([np.asarray(_measured(model, points)) for points, _, _ in states], axis=1)
    ok = bool(np.isfinite(path).all())
    lost = int(np.sum(~np.isfinite(path).all(axis=(1, 2))))
    status = f"{counts[-1]} steps."
    if not ok:
        status = f"{lost} of {len(draws)} runs diverged: the step is too large at this dimension."
    dataset = xr.Dataset(
        {"statistics": (("seed", "time", "statistic"), path)},
        coords={"seed": list(draws), "time": grid, "step": ("time", counts)},
        attrs={"d": int(dimension)},
    )
    return Findings(dataset, ok, status)


def _starts(model: UserModel, start: Any, draws: Sequence[int]) -> jax.Array:
    if start is None or callable(start):
        return jax.vmap(model.random_point)(stream_keys(draws, model.dimension, "generic-sgd-start"))
    points = np.asarray(start, dtype=float)
    wanted = (len(draws), model.dimension)
    if points.shape not in (wanted, wanted[1:]) or not np.isfinite(points).all():
        raise InputError(
            f"start must be {wanted[1]} finite numbers, or as many for each seed, got shape {points.shape}."
        )
    return jnp.broadcast_to(points, wanted)


@partial(jax.jit, static_argnums=0)
def _advance(
    model: UserModel, delta: Any, points: jax.Array, memory: jax.Array, keys: jax.Array, done: Any, count: Any
):
    def one(x, memory, key, index):
        gradient = model.gradient(x, jax.random.fold_in(key, index))
        direction, memory = model.remembered_direction(gradient, memory)
        return x - delta * direction, memory

    def step(index, state):
        points, memory = state
        return jax.vmap(one, in_axes=(0, 0, 0, None))(points, memory, keys, done + index)

    return jax.lax.fori_loop(0, count, step, (points, memory))


@partial(jax.jit, static_argnums=0)
def _measured(model: UserModel, points: jax.Array) -> jax.Array:
    return jax.vmap(model.measure)(points)
