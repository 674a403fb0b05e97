r"""Spherical SGD on phase retrieval as a diffusion: the first correction to the differential equation in $1/d$.

$$dm=\dot m\,dt+\sqrt{\tfrac{\gamma}{d}\,\Sigma(m)}\;dB,$$
$\dot m$ the mean of one step in units of the step $\gamma/d$, to order $1/d$, and $\Sigma$ the variance of its
increments, with $|x|^2\to d$ in their quadratic term (Arnaboldi et al. 2023). The quadratic term, the change of the
norm, is part of $\Sigma$; leaving it out is a frequent and visible error. The part of $\dot m$ of order $1/d$ comes
from putting the neuron back on the sphere: without it the mean of $m$ is too high by several $1/d$ (.0025 at $d=800$).
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_keys
from limen.labelled import labelled
from limen.method import answers
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.result import Findings

CITATIONS = ("arnaboldi2023escaping",)
STEPS_PER_TIME = 150


def sphere_volatility(m: Any, rate: float, noise: float) -> np.ndarray:
    r"""$\Sigma(m)$ of spherical SGD on phase retrieval, one neuron: the variance of
    $2\lambda e(\lambda^*-m\lambda)-2\gamma m\lambda^2e^2$, $e=\lambda^{*2}-\lambda^2+\sqrt\Delta z$.

    An exact polynomial of degree at most 6 in $m^2$; as $\gamma\to0$ it is
    $4(1-m^2)[12(1-m^2)(1+2m^2)+\Delta]-16m^2(1-m^2)^2$. Any shape.
    """
    return np.polynomial.polynomial.polyval(np.asarray(m, dtype=float) ** 2, _sphere_polynomials(rate, noise)[0])


def sphere_drift_correction(m: Any, rate: float, noise: float) -> np.ndarray:
    r"""$\beta(m)$: the mean of one step of spherical SGD on phase retrieval is $\frac\gamma d(\dot m+\frac1d\beta(m)+
    O(d^{-2}))$.

    With $h=2\lambda e$ and the growth of the norm $s=h\lambda+\frac\gamma2h^2$:
    $\gamma E[\frac{3m}2s^2-h\lambda^*s-\frac m2h^2(\lambda^2+\lambda_\perp^2-2)]$, $\lambda_\perp$ the other coordinate
    of the input in the plane of neuron and target. An exact polynomial; any shape.
    """
    m = np.asarray(m, dtype=float)
    return m * np.polynomial.polynomial.polyval(m**2, _sphere_polynomials(rate, noise)[1])


@lru_cache(maxsize=256)
def _sphere_polynomials(rate: float, noise: float) -> tuple[np.ndarray, ...]:
    """Coefficients in m^2 of the volatility and of the drift's correction over m: Gauss–Hermite is exact for the
    polynomial integrands, interpolation for their dependence on m."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    field, other, label = np.meshgrid(nodes, nodes, nodes, indexing="ij")
    joint = weights[:, None, None] * weights[:, None] * weights
    squares = 0.5 * (1.0 - np.cos(np.pi * (np.arange(8) + 0.5) / 8))
    volatility, correction = [], []
    for m in np.sqrt(squares):
        latent = m * field + np.sqrt(1.0 - m**2) * other
        push = 2.0 * field * (latent**2 - field**2 + np.sqrt(noise) * label)
        stretch = push * field + 0.5 * rate * push**2
        increment = push * latent - m * stretch
        volatility.append((joint * increment**2).sum() - (joint * increment).sum() ** 2)
        second = 1.5 * m * stretch**2 - push * latent * stretch - 0.5 * m * push**2 * (field**2 + other**2 - 2.0)
        correction.append(rate * (joint * second).sum() / m)
    return tuple(np.polynomial.polynomial.polyfit(squares, values, 7) for values in (volatility, correction))


@answers("theory", CITATIONS)
@in_double
def sphere_diffusion(
    m0: float | np.ndarray,
    rate: float,
    noise: float,
    d: int,
    times: Sequence[float] | np.ndarray,
    seeds: int | Sequence[int],
) -> Findings:
    r"""$dm=\big(4m[(1-6\gamma)(1-m^2)-\frac{\gamma\Delta}2]+\frac1d\beta(m)\big)dt+\sqrt{\frac\gamma d\Sigma(m)}\,dB$
    by Heun's steps; $\beta$ is `sphere_drift_correction`.

    Phase retrieval on the sphere, one neuron, from `m0` (one number, or one per seed); at least 150 steps per unit of
    time, their number between two recorded times a power of two. With $dW$ the noise of a step the drift is averaged
    over $m$ and $m+\dot m\,dt+\sqrt{\gamma\Sigma(m)/d}\,dW$, the amplitude of the noise over $m$ and $m+\dot m\,dt$:
    errors of mean and spread are of order $dt^2$ and $dt/d$ (some $10^{-5}$ of their size).
    Returns `overlap` (seed, time, neuron, latent) and `excess_risk` (seed, time).
    """
    grid, seeds = _grid(times), _seeds(seeds)
    if not np.all(np.abs(m0) <= 1.0):
        raise InputError(f"m0 must lie in [-1, 1], got {m0}.")
    start = jnp.broadcast_to(jnp.asarray(m0, dtype=float), (len(seeds),))
    # The number of steps is part of the compiled program: a power of two seldom changes.
    steps = 1 << int(np.ceil(np.log2(max(np.diff(grid, prepend=0.0).max() * STEPS_PER_TIME, 1.0))))
    keys = stream_keys(seeds, d, "diffusion")
    path = _sphere_path(
        steps,
        start,
        jnp.asarray(np.diff(grid, prepend=0.0)),
        jnp.asarray([rate, noise, d]),
        jnp.asarray(_sphere_polynomials(rate, noise)),
        keys,
    )
    overlap = np.asarray(path).T
    dataset = labelled(
        {
            "overlap": (("seed", "time", "neuron", "latent"), overlap[:, :, None, None]),
            "excess_risk": (("seed", "time"), 2.0 * (1.0 - overlap**2)),
        },
        coords={"time": grid, "seed": list(seeds)},
        attrs={"d": d},
    )
    status = f"Heun's steps, {len(seeds)} paths."
    return Findings(dataset, True, status)


@partial(jax.jit, static_argnums=0)
def _sphere_path(
    steps: int, start: jax.Array, lengths: jax.Array, numbers: jax.Array, polynomials: jax.Array, keys: jax.Array
) -> jax.Array:
    rate, noise, d = numbers

    def interval(carry: tuple[jax.Array, jax.Array], length: jax.Array) -> Any:
        m, keys = carry
        pairs = jax.vmap(jax.random.split)(keys)
        normals = jax.vmap(lambda key: jax.random.normal(key, (steps,), jnp.float64), out_axes=1)(pairs[:, 1])
        dt = length / steps

        def parts(m: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Drift and amplitude of the noise."""
            drift = 4.0 * m * ((1.0 - 6.0 * rate) * (1.0 - m**2) - rate * noise / 2.0)
            volatility, correction = (jnp.polyval(part[::-1], m**2) for part in polynomials)
            return drift + m * correction / d, jnp.sqrt(jnp.maximum(volatility, 0.0) * rate / d)

        def step(m: jax.Array, normal: jax.Array) -> tuple[jax.Array, None]:
            kick = jnp.sqrt(dt) * normal
            drift, amplitude = parts(m)
            # An amplitude that knew the kick would shift the mean: this one looks ahead along the drift alone.
            later = parts(m + drift * dt)[1]
            ahead = parts(m + drift * dt + amplitude * kick)[0]
            # The sphere ends at one; the noise alone could step over.
            return jnp.clip(m + 0.5 * (drift + ahead) * dt + 0.5 * (amplitude + later) * kick, -1.0, 1.0), None

        m = jax.lax.scan(step, m, normals)[0]
        return (m, pairs[:, 0]), m

    return jax.lax.scan(interval, (start, keys), lengths)[1]


def _grid(times: Any) -> np.ndarray:
    grid = np.atleast_1d(np.asarray(times, dtype=float))
    if grid.ndim != 1 or grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    return grid


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(range(seeds)) if isinstance(seeds, (int, np.integer)) else tuple(int(seed) for seed in seeds)
