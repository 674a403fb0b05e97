"""Samples for finite-size training: inputs of a chosen law, latent coordinates, labels."""

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.eigenspaces import reflected
from limen.gaussian.keys import stream_key
from limen.problem import InputError, Target
from limen.problem.input_rows import InputRows

DEGREES_OF_FREEDOM = 8.0


def shuffled_rows(held: InputRows, seed: int, count: int, what: str) -> np.ndarray:
    """The first `count` rows of data in the random order of a seed, each once; more than there are is refused, in the
    name of `what` asked for them."""
    total, d = held.rows.shape
    if count > total:
        raise InputError(f"{what} must ask for at most the {total} rows of {held.name}, each used once, got {count}.")
    with jax.enable_x64(True):
        order = np.asarray(jax.random.permutation(stream_key(seed, d, "rows of data"), total))
    return held.rows[order[:count]]


def draw_inputs(key: jax.Array, shape: tuple[int, ...], law: str, dtype: jnp.dtype = jnp.float32) -> jax.Array:
    """Entries independent, of mean 0 and variance 1: normal, ±1, or Student's t with 8 degrees of freedom."""
    if law == "rademacher":
        return jax.random.rademacher(key, shape, dtype)
    if law == "student-t":
        return _student_t(key, shape, dtype)
    return jax.random.normal(key, shape, dtype)


def _student_t(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    r"""Student's t of variance one by Bailey's polar method, $\sqrt{\nu(U^{-2/\nu}-1)}\cos2\pi V$: two uniform numbers
    for one, a tenth of the time that a ratio with a root of chi square takes. Single precision ends at 19 deviations.
    """
    nu = DEGREES_OF_FREEDOM
    radius_key, angle_key = jax.random.split(key)
    below = 1.0 - jax.random.uniform(radius_key, shape, dtype)
    angle = jax.random.uniform(angle_key, shape, dtype, 0.0, 2.0 * jnp.pi)
    return jnp.sqrt((nu - 2.0) * (below ** (-2.0 / nu) - 1.0)) * jnp.cos(angle)


def spread(vectors: np.ndarray, latents: int, seed: int, law: str) -> np.ndarray:
    r"""Rows (vectors, d) carried by one orthogonal map from the basis that begins with the latent axes to the
    basis of the inputs.

    Gaussian inputs are rotation invariant: nothing is done. Other laws need latent directions spread over all
    coordinates (a latent coordinate would itself be ±1 otherwise): one random Householder reflection per latent
    axis sends it to a random direction.
    """
    if law == "gaussian":
        return vectors
    d = vectors.shape[1]
    with jax.enable_x64(True):
        images = np.array(jax.random.normal(stream_key(seed, d, "teacher"), (latents, d), jnp.float64))
    return reflected(vectors, images / np.linalg.norm(images, axis=1, keepdims=True))


def draw_labels(key: jax.Array, target: Target, z: jax.Array) -> jax.Array:
    r"""$y=h(z,e)+\sqrt{\text{noise}}\,\varepsilon$ for latent coordinates `z` of shape (..., k)."""
    inner_key, outer_key = jax.random.split(key)
    shape, dtype = z.shape[:-1], z.dtype
    inner = jax.random.normal(inner_key, shape, dtype) if target.uses_inner_noise else jnp.zeros(shape, dtype)
    labels = target.function(z, inner)
    if target.noise > 0.0:
        labels = labels + jnp.asarray(target.noise**0.5, dtype) * jax.random.normal(outer_key, shape, dtype)
    return labels
