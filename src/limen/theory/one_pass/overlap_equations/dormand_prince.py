r"""Adaptive Runge–Kutta 5(4) of Dormand and Prince with dense output, in which the field is compiled once.

The stages are a loop over the rows of the tableau, and the slope at the start comes from a first step of length zero:
a program holds one copy of the field, and the field is nearly all there is to compile. Source: Dormand & Prince 1980;
the dense output of order four is that of Shampine 1986; the first step that of Hairer, Nørsett & Wanner.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NODES = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
# Row s takes the slopes of the stages before to the point of stage s; the last row is the step itself.
TABLEAU = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
# Weights of the stages at the part x of a step: its value is 1, x, ..., x^4 times these columns.
DENSE = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0],
        [
            -8048581381 / 2820520608,
            0,
            131558114200 / 32700410799,
            -1754552775 / 470086768,
            127303824393 / 49829197408,
            -282668133 / 205662961,
            40617522 / 29380423,
        ],
        [
            8663915743 / 2820520608,
            0,
            -68118460800 / 10900136933,
            14199869525 / 1410260304,
            -318862633887 / 49829197408,
            2019193451 / 616988883,
            -110615467 / 29380423,
        ],
        [
            -12715105075 / 11282082432,
            0,
            87487479700 / 32700410799,
            -10690763975 / 1880347072,
            701980252875 / 199316789632,
            -1453857185 / 822651844,
            69997945 / 29380423,
        ],
    ]
)
MOST_STEPS = 200_000
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0


class Progress(NamedTuple):
    """Where the integration is: time, point and slope there, the next step; the last accepted step (`before` its time,
    `origin` its point, `length`, slopes of its `stages`); the number of tries, and whether it diverged or got stuck."""

    t: jax.Array
    point: jax.Array
    step: jax.Array
    before: jax.Array
    origin: jax.Array
    length: jax.Array
    stages: jax.Array
    steps: jax.Array
    diverged: jax.Array
    stuck: jax.Array


def integrated(
    field: Callable[[Any, jax.Array], jax.Array],
    start: jax.Array,
    times: jax.Array,
    tolerance: Any,
    too_large: Callable[[jax.Array], jax.Array] | None = None,
) -> tuple[jax.Array, Progress]:
    r"""The solution of $\dot v=f(t,v)$ from t = 0 at the increasing `times`, shape (time, n), and how it ended. It is
    infinite at a time later than the last one.

    Local errors are kept below `tolerance` of the larger of $|v|$ at both ends of a step, and 1e-3 of it, in root mean
    square. After a step to a point that is `too_large`, and where it gets stuck, values are infinite. Derivatives go
    through the stages, not through the choice of the steps.
    """
    last = times[-1]
    first = Progress(
        jnp.zeros_like(last),
        start,
        jnp.zeros_like(last),
        jnp.zeros_like(last),
        start,
        jnp.zeros_like(last),
        jnp.zeros((len(NODES), start.size), start.dtype),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), bool),
        jnp.zeros((), bool),
    )

    def advance(now: Progress) -> Progress:
        return _advance(field, now, last, tolerance, too_large)

    def reach(now: Progress, time: jax.Array) -> tuple[Progress, jax.Array]:
        reached = jnp.minimum(time, last)
        now = jax.lax.while_loop(lambda at: (at.t < reached) & ~at.diverged & ~at.stuck, advance, now)
        part = jnp.where(now.length > 0.0, (time - now.before) / jnp.where(now.length > 0.0, now.length, 1.0), 0.0)
        weights = part ** jnp.arange(len(DENSE)) @ DENSE
        value = now.origin + now.length * (weights @ now.stages)
        return now, jnp.where(time <= now.t, value, jnp.inf)

    end, values = jax.lax.scan(reach, first, times)
    return values, end


def _advance(
    field: Callable[[Any, jax.Array], jax.Array],
    now: Progress,
    last: jax.Array,
    tolerance: Any,
    too_large: Callable[[jax.Array], jax.Array] | None,
) -> Progress:
    """One try of a step: taken, or followed by a shorter one. The first has length zero and finds the slope."""
    rest = last - now.t
    length = jnp.minimum(now.step, rest)
    tableau, nodes = jnp.asarray(TABLEAU), jnp.asarray(NODES)

    def stage(s: jax.Array, carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        stages, _ = carried
        point = now.point + length * (tableau[s] @ stages)
        return stages.at[s].set(field(now.t + nodes[s] * length, point)), point

    # The last slope of the step before is the first of this one.
    stages, point = jax.lax.fori_loop(
        1, len(NODES), stage, (jnp.zeros_like(now.stages).at[0].set(now.stages[-1]), now.point)
    )
    begun = now.steps > 0
    allowed = tolerance * (1e-3 + jnp.maximum(jnp.abs(now.point), jnp.abs(point)))
    error = _size(jax.lax.stop_gradient(length * (jnp.asarray(ERROR) @ stages) / allowed))
    error = jnp.where(jnp.isfinite(error), error, jnp.inf)
    fine = error <= 1.0
    factor = jnp.clip(SAFETY * error ** (-0.2), jnp.where(fine, 1.0, SHRINK), GROW)
    following = jnp.where(begun, length * factor, _first_step(now.point, stages[-1], allowed, last, tolerance))
    t = jnp.where(now.step >= rest, last, now.t + length)
    taken = Progress(
        t,
        point,
        jax.lax.stop_gradient(following),
        now.t,
        now.point,
        length,
        stages,
        now.steps,
        jnp.zeros((), bool) if too_large is None else too_large(point),
        jnp.zeros((), bool),
    )
    refused = now._replace(step=jax.lax.stop_gradient(following))
    after = jax.tree.map(lambda one, other: jnp.where(fine, one, other), taken, refused)
    steps = now.steps + 1
    return after._replace(steps=steps, stuck=(steps > MOST_STEPS) | (~fine & (now.t + following == now.t)))


def _first_step(point: jax.Array, slope: jax.Array, allowed: jax.Array, last: jax.Array, tolerance: Any) -> jax.Array:
    """A hundredth of the time in which the slope would carry the point through its own size, for a tolerance of 1e-8;
    errors of a step are of order five in its length."""
    point, slope = (_size(jax.lax.stop_gradient(part) / allowed) for part in (point, slope))
    known = (point > 1e-5) & (slope > 1e-5)
    return jnp.minimum(
        jnp.where(known, 0.01 * (tolerance / 1e-8) ** 0.2 * point / jnp.where(known, slope, 1.0), 1e-6), last
    )


def _size(vector: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.mean(vector**2))
