r"""Spherical one-pass SGD in $d$ dimensions whose second layer is faster than the first, on a single-index target.

Activation and target are orthonormal Hermite series, $\sigma=\sum_\ell\sigma_\ell he_\ell$ and
$\varphi=\sum_\ell\varphi_\ell he_\ell$, so that every population average is a polynomial in the overlaps.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.keys import stream_key
from limen.method import answers
from limen.problem.activations import hermite_series
from limen.problem.rates import whole_steps
from limen.problem.spec import InputError
from limen.result import Findings
from limen.simulation.record import diverged, record_blocks

CITATIONS = ("berthier2023",)
BLOCK = 64


@answers("simulation", CITATIONS)
def two_timescale_sgd(
    activation_series: Sequence[float],
    target_series: Sequence[float],
    epsilon: float,
    times: Sequence[float] | np.ndarray,
    second_layer: Sequence[float] | np.ndarray,
    d: int,
    rate: float,
    seed: int = 0,
) -> Findings:
    r"""One run: $u_i\leftarrow u_i+\frac\gamma{dm}a_i\sigma'(\lambda_i)e\,x$ put back on the unit sphere,
    $a_i\leftarrow a_i+\frac\gamma{\epsilon dm}\sigma(\lambda_i)e$, $e=\varphi(x_1)-\frac1m\sum_ia_i\sigma(\lambda_i)$.

    Neurons start orthonormal and orthogonal to the target's direction ($d\ge m+1$), second layers at `second_layer`
    (m,). Times are $t=\text{steps}\cdot\gamma/(dm)$, rounded to whole steps; $O(md)$ a step.

    Returns `excess_risk` (seed, time), `residual` $\varphi_\ell-\frac{\sigma_\ell}m\sum_ia_is_i^\ell$ (seed, time,
    degree).
    """
    sigma, phi = (tuple(float(value) for value in series) for series in (activation_series, target_series))
    second, grid = np.asarray(second_layer, dtype=float), np.asarray(times, dtype=float)
    m = second.size
    if d < m + 1:
        raise InputError(f"d must be at least width + 1 = {m + 1}, got {d}.")
    if not (rate > 0.0 and epsilon > 0.0):
        raise InputError(f"rate and epsilon must be positive, got {rate} and {epsilon}.")
    unit = rate / (d * m)
    steps = whole_steps(grid / unit, rate)
    first = np.zeros((m, d), dtype=np.float32)
    first[np.arange(m), np.arange(1, m + 1)] = 1.0
    rates = jnp.asarray([unit, unit / epsilon], jnp.float32)
    aligned, gram, layer = _train(
        sigma, phi, jnp.asarray(first), jnp.asarray(second, jnp.float32), rates,
        jnp.asarray(np.diff(steps, prepend=0), jnp.int32), stream_key(seed, d, "two time scales"),
    )  # fmt: skip
    aligned, gram, layer = (np.asarray(part, dtype=float) for part in (aligned, gram, layer))
    coefficients, target = np.asarray(sigma), np.asarray(phi)
    degrees = np.arange(coefficients.size)
    residual = target - coefficients * np.einsum("ti,til->tl", layer, aligned[:, :, None] ** degrees) / m
    pairs = np.stack([np.einsum("ti,tij,tj->t", layer, gram**degree, layer) / m**2 for degree in degrees], axis=1)
    linear = np.einsum("ti,til->tl", layer, aligned[:, :, None] ** degrees) / m
    risk = 0.5 * (target**2 - 2.0 * target * coefficients * linear + coefficients**2 * pairs).sum(axis=1)
    dataset = xr.Dataset(
        {
            "excess_risk": (("seed", "time"), risk[None]),
            "residual": (("seed", "time", "degree"), residual[None]),
        },
        coords={"seed": [seed], "time": grid, "degree": degrees},
        attrs={"d": d},
    )
    finite = bool(np.isfinite(risk).all())
    status = f"full SGD in d = {d}." if finite else diverged(d, f"rate than {rate:g}")
    return Findings(dataset, finite, status)


@partial(jax.jit, static_argnums=(0, 1))
def _train(
    sigma: tuple[float, ...],
    phi: tuple[float, ...],
    first: jax.Array,
    second: jax.Array,
    rates: jax.Array,
    intervals: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Overlaps with the target, Gram matrices and second layers after each interval of steps."""
    m, d = first.shape

    def step(weights: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = weights
        fields = first @ x
        values, slopes = jax.jvp(partial(hermite_series, sigma), (fields,), (jnp.ones_like(fields),))
        error = hermite_series(phi, x[0]) - second @ values / m
        first = first + (rates[0] * error * second * slopes)[:, None] * x
        first = first / jnp.sqrt((first**2).sum(axis=1, keepdims=True))
        return first, second + rates[1] * error * values

    def block(carry: tuple, left: jax.Array) -> tuple:
        weights, key = carry
        key, own = jax.random.split(key)
        x = jax.random.normal(own, (BLOCK, d), jnp.float32)
        count = jnp.minimum(left, BLOCK)
        return (jax.lax.fori_loop(0, count, lambda i, weights: step(weights, x[i]), weights), key), count

    def look(carry: tuple) -> tuple[jax.Array, jax.Array, jax.Array]:
        first, second = carry[0]
        return first[:, 0], first @ first.T, second

    return record_blocks(block, look, ((first, second), key), intervals)
