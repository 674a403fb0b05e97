r"""The limit of infinite depth of a residual network, and how far a network of finite depth is from it.

$x_{k+1}=x_k+\frac TLf(x_k,\frac kL)$ with $f(x,s)=w(s)\,\sigma(a(s)x+b(s))$ is Euler's method for the neural ODE
$\dot x=f(x,t/T)$ on $[0,T]$. One layer misses $\frac{h^2}2\ddot x$ with $h=T/L$, and the misses are carried along by
the linearised flow, so that
$$x_L=x(T)+\frac TL\,e(T)+O(L^{-2}),\qquad \dot e=\partial_xf\;e-\tfrac12\ddot x,\quad e(0)=0,\quad
\ddot x=\partial_xf\;f+\tfrac1T\partial_sf.$$
"""

from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.checks import increasing_times, positive, reals
from limen.precision import in_double
from limen.problem import Activation
from limen.problem.spec import InputError

TOLERANCE = 1e-10
MOST_STEPS = 100_000


class DepthLimit(NamedTuple):
    r"""`path` (time, samples, d) of the neural ODE, and `coefficient` (time, samples, d), $c=T\,e$: a network of $L$
    layers is at $x+c/L$ up to $O(L^{-2})$."""

    path: NDArray[np.float64]
    coefficient: NDArray[np.float64]


@in_double
def neural_ode(
    x0: ArrayLike,
    outer: ArrayLike,
    inner: ArrayLike,
    bias: ArrayLike,
    activation: Activation,
    duration: float,
    times: ArrayLike,
) -> DepthLimit:
    r"""Inputs `x0` (samples, d) along $\dot x=w\,\sigma(ax+b)$, with the first correction in $1/L$.

    Weights are Fourier series of the depth $s=t/T$, terms $1,\cos\pi s,\dots,\cos\pi Hs,\sin\pi s,\dots,\sin\pi Hs$
    along the first axis: $w$ (2H+1, d, h), $a$ (2H+1, h, d), $b$ (2H+1, h). Dormand–Prince 8 to $10^{-10}$; derivatives
    of the field by forward differentiation. The activation must be smooth for the correction to hold. `times` lie in
    $[0,T]$.
    """
    duration, grid, start = positive("duration", duration), increasing_times(times), reals("x0", x0)
    if grid[-1] > duration:
        raise InputError(f"times must end at the duration {duration:g}, got {grid[-1]:g}.")
    parts = tuple(reals(name, value) for name, value in (("outer", outer), ("inner", inner), ("bias", bias)))
    terms, width, d = parts[1].shape if parts[1].ndim == 3 else (0, 0, 0)
    if parts[0].shape != (terms, d, width) or parts[2].shape != (terms, width) or terms % 2 != 1:
        raise InputError(
            "outer, inner and bias must have shapes (2H+1, d, h), (2H+1, h, d), (2H+1, h), "
            f"got {parts[0].shape}, {parts[1].shape}, {parts[2].shape}."
        )
    if start.ndim != 2 or start.shape[1] != d:
        raise InputError(f"x0 must have shape (samples, {d}), got {start.shape}.")
    series = tuple(jnp.asarray(part) for part in parts)
    state = jnp.stack([jnp.asarray(start), jnp.zeros(start.shape)])
    states, finished = _follow(activation.function, series, state, jnp.asarray(grid), jnp.asarray(duration))
    if not finished:
        raise RuntimeError(f"the neural ODE could not be followed to t = {grid[-1]:.4g}: take a shorter duration.")
    path, error = np.moveaxis(np.asarray(states), 1, 0)
    return DepthLimit(path, duration * error)


@partial(jax.jit, static_argnums=0)
def _follow(
    function: Any, series: Any, state: jax.Array, times: jax.Array, duration: jax.Array
) -> tuple[Any, jax.Array]:
    """States at the times; the solver steps onto each of them, as interpolation would be of lower order."""
    steps = diffrax.ClipStepSizeController(diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE), step_ts=times)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, _: _slope(function, series, y, jnp.asarray(t), duration)),
        diffrax.Dopri8(),
        0.0,
        duration,
        None,
        state,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=steps,
        max_steps=MOST_STEPS,
        throw=False,
        adjoint=diffrax.ForwardMode(),
    )
    return solution.ys, diffrax.is_successful(solution.result)


def _slope(function: Any, series: Any, state: jax.Array, t: jax.Array, duration: jax.Array) -> jax.Array:
    terms = jnp.pi * jnp.arange(1, series[0].shape[0] // 2 + 1)

    def field(x: jax.Array, s: jax.Array) -> jax.Array:
        waves = jnp.concatenate([jnp.ones(1), jnp.cos(terms * s), jnp.sin(terms * s)])
        w, a, b = (jnp.einsum("k,k...->...", waves, part) for part in series)
        return jnp.einsum("dh,nh->nd", w, function(jnp.einsum("hd,nd->nh", a, x) + b))

    x, error = state
    s = t / duration
    velocity = field(x, s)
    acceleration = jax.jvp(field, (x, s), (velocity, 1.0 / duration))[1]
    carried = jax.jvp(lambda y: field(y, s), (x,), (error,))[1]
    return jnp.stack([velocity, carried - 0.5 * acceleration])
