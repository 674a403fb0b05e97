r"""Latent directions with entries of a given law, and the start carried along with them."""

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.problem import InputError, Target


def target_frame(target: Target, d: int, seed: int) -> np.ndarray:
    r"""Orthonormal directions (k, d) whose entries, times $\sqrt d$, have the law `target.entries`.

    Drawn independently, then orthonormalised, which moves them by $O(d^{-1/2})$ and leaves a single one sparse.
    """
    k = target.latents
    with jax.enable_x64(True):
        draw_key, place_key = jax.random.split(stream_key(seed, d, "entries"))
        entries = np.array(jax.random.normal(draw_key, (k, d), jnp.float64))
        entries *= np.asarray(jax.random.uniform(place_key, (k, d), jnp.float64)) < target.filled
    if np.linalg.matrix_rank(entries) < k:
        raise InputError(f"entries {target.entries!r} leave a latent direction empty at d = {d}: take a larger d.")
    directions, upper = np.linalg.qr(entries.T)
    return (directions * np.sign(np.diag(upper))).T


def carried(vectors: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Rows (vectors, d) after an orthogonal map that sends the first axes to the rows of `directions` (k, d).

    One Householder reflection per direction. Each sends the present image of its axis to its direction and leaves the
    directions before alone, to which both are orthogonal.
    """
    axes = np.eye(*directions.shape)
    both = np.concatenate([axes, vectors])
    for r, direction in enumerate(directions):
        normal = both[r] - direction
        square = normal @ normal
        if square > 0.0:
            both = both - np.outer(both @ normal, normal) * (2.0 / square)
    return both[len(directions) :]
