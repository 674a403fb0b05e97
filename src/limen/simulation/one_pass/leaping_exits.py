"""Exit times of spherical SGD on phase retrieval where steps are too many to take one by one: the chain in leaps."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bartlett import sphere_gram
from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.simulation.one_pass.exit_times import check_exit, seeds_of

# A leap in time t, and the samples whose noise stands for that of all its steps.
LEAP, SAMPLES = 1e-3, 4
BLOCK = 128


@in_double
def leaping_exit_times(
    width: int,
    d: int,
    rate: float,
    noise: float,
    fraction: float = 0.01,
    seeds: int | Sequence[int] = 256,
    horizon: float = 40.0,
    leap: float = LEAP,
) -> np.ndarray:
    r"""Exit times (seeds,) as `simulated_exit_times`, by leaps of $b=\text{leap}\cdot dp/\gamma$ steps of SGD at once.

    The overlaps $(m,Q)$ move by $b$ times the mean of one step, in closed form, plus the noise of `SAMPLES` drawn steps
    scaled so that its covariance is that of $b$ steps; then every neuron is put back on its sphere:

    $$\Delta m=bE[\delta m]+\sqrt{b/S}\sum_{s\le S}(\delta m_s-E[\delta m]),\quad
    \delta m_j=\tfrac{2\gamma}{dp}e\lambda_jz,\quad
    \delta Q_{jl}=\tfrac{4\gamma}{dp}e\lambda_j\lambda_l+\tfrac{4\gamma^2}{dp^2}e^2\lambda_j\lambda_l,$$

    $e=z^2+\sqrt\Delta\,\xi-\frac1p\sum_r\lambda_r^2$. Against the chain of single steps the law is changed by terms of
    order `leap` and $1/d$. An exit is dated in the middle of its leap; a seed still inside at `horizon` is infinity.
    Cost $O(p^3)$ a leap: it does not grow with $d$ but for the logarithm in the exit time. Refuses where a leap would
    hold fewer steps than samples: there the chain itself is cheap.
    """
    width, d = int(width), int(d)
    check_exit(width, d, rate, noise, fraction, horizon)
    steps = leap * d * width / rate
    if steps < SAMPLES:
        raise InputError(f"d must be at least {SAMPLES * rate / (leap * width):.0f} for leaps of {leap:g}, got {d}.")
    every = seeds_of(seeds)
    start = sphere_gram(stream_keys(every, d, "exit start"), width + 1, d)
    overlap, gram = jnp.asarray(start[:, :width, width]), jnp.asarray(start[:, :width, :width])
    keys = stream_keys(every, d, "leaping chain")
    most = int(np.ceil(horizon / leap))
    first = np.asarray(_leaps(width, noise > 0, overlap, gram, keys, leap, steps, rate / width, noise, fraction, most))
    return np.where(first > 0, (first - 0.5) * leap, np.inf)


@partial(jax.jit, static_argnums=(0, 1))
def _leaps(
    p: int,
    noisy: bool,
    overlap: jax.Array,
    gram: jax.Array,
    keys: jax.Array,
    leap: jax.Array,
    steps: jax.Array,
    strength: jax.Array,
    noise: jax.Array,
    fraction: jax.Array,
    most: jax.Array,
) -> jax.Array:
    """Number of the leap of each seed's exit, 0 for those still inside after `most`."""
    level = (1.0 - fraction) * _excess_risk(overlap, gram)

    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        key, own = jax.random.split(key)
        return key, jax.random.normal(own, (BLOCK, SAMPLES, p + 1 + noisy))

    def block(carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple:
        overlap, gram, keys, first, done = carry
        keys, normals = jax.vmap(draw, out_axes=(0, 1))(keys)

        def one(i: jax.Array, now: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
            overlap, gram, first = now
            overlap, gram = _leap(overlap, gram, normals[i], leap, steps, strength, noise)
            out = (first == 0) & (_excess_risk(overlap, gram) <= level)
            return overlap, gram, jnp.where(out, done + i + 1, first)

        overlap, gram, first = jax.lax.fori_loop(0, BLOCK, one, (overlap, gram, first))
        return overlap, gram, keys, first, done + BLOCK

    inside = jnp.zeros(overlap.shape[0], jnp.int64)
    carry = (overlap, gram, keys, inside, jnp.zeros((), jnp.int64))
    first = jax.lax.while_loop(lambda now: jnp.any(now[3] == 0) & (now[4] < most), block, carry)[3]
    return jnp.where(first > most, 0, first)


def _leap(
    overlap: jax.Array,
    gram: jax.Array,
    normals: jax.Array,
    leap: jax.Array,
    steps: jax.Array,
    strength: jax.Array,
    noise: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    r"""One leap of all seeds; moves are in units of the time of a step, `strength` is $\gamma/p$."""
    p = overlap.shape[-1]
    mean_overlap, mean_gram = _mean_move(overlap, gram, strength, noise)
    factor = jnp.linalg.cholesky(gram - overlap[:, :, None] * overlap[:, None, :])
    z, own = normals[..., 0], normals[..., 1 : p + 1]
    fields = overlap[:, None, :] * z[..., None] + jnp.einsum("njl,nsl->nsj", factor, own)
    residual = z**2 - (fields**2).mean(axis=-1)
    if normals.shape[-1] > p + 1:
        residual = residual + jnp.sqrt(noise) * normals[..., -1]
    size = jnp.sqrt(steps / SAMPLES) * (leap / steps)
    moves = jnp.einsum("ns,nsj->nj", 2.0 * residual * z, fields)
    weight = 4.0 * residual + 4.0 * strength * residual**2
    gram_moves = jnp.einsum("ns,nsj,nsl->njl", weight, fields, fields)
    overlap = overlap + leap * mean_overlap + size * (moves - SAMPLES * mean_overlap)
    gram = gram + leap * mean_gram + size * (gram_moves - SAMPLES * mean_gram)
    scale = 1.0 / jnp.sqrt(jnp.einsum("njj->nj", gram))
    return overlap * scale, gram * scale[:, :, None] * scale[:, None, :]


def _mean_move(
    overlap: jax.Array, gram: jax.Array, strength: jax.Array, noise: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""Mean of one step's moves of $m$ and $Q$ before the neurons are put back, $|x|^2=d$, by Wick's theorem.

    With $u=(\lambda,z)\sim N(0,C)$ and $e=u^\top Au+\sqrt\Delta\xi$: $E[e\,uu^\top]=tC+2CAC$ and
    $E[e^2uu^\top]=(t^2+2\operatorname{tr}(AC)^2+\Delta)C+4tCAC+8CACAC$, $t=\operatorname{tr}AC$.
    """
    p = overlap.shape[-1]
    last = jnp.concatenate([overlap, jnp.ones_like(overlap[:, :1])], axis=1)[:, None, :]
    covariance = jnp.concatenate([jnp.concatenate([gram, overlap[:, :, None]], axis=2), last], axis=1)
    signs = jnp.concatenate([jnp.full(p, -1.0 / p), jnp.ones(1)])
    once = covariance * signs @ covariance
    twice = covariance * signs @ once
    trace = jnp.einsum("nii,i->n", covariance, signs)[:, None, None]
    square = jnp.einsum("nii,i->n", once, signs)[:, None, None]
    linear = trace * covariance + 2.0 * once
    quadratic = (trace**2 + 2.0 * square + noise) * covariance + 4.0 * trace * once + 8.0 * twice
    moves = 4.0 * linear + 4.0 * strength * quadratic
    return 2.0 * linear[:, :p, p], moves[:, :p, :p]


def _excess_risk(overlap: jax.Array, gram: jax.Array) -> jax.Array:
    r"""$1+\frac1{p^2}\mathrm{tr}\,Q^2-\frac2p|m|^2$, shape (seeds,)."""
    p = overlap.shape[-1]
    return 1.0 + (gram**2).sum(axis=(1, 2)) / p**2 - 2.0 * (overlap**2).sum(axis=1) / p
