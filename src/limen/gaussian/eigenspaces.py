"""Inputs of several variances at finite size: which coordinates have which, and where the target's directions lie."""

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.problem import InputError, Inputs
from limen.problem.inputs import InputVariances


def block_sizes(variances: InputVariances, d: int) -> np.ndarray:
    """Numbers of coordinates of each variance, shape (S,), within one of $w_bd$."""
    return np.diff(np.rint(np.cumsum(variances.fractions) * d).astype(int), prepend=0)


def coordinate_variances(inputs: Inputs, d: int) -> np.ndarray:
    """The variance of every coordinate, shape (d,): equal ones side by side; of data, each its own."""
    if inputs.rows is not None:
        return inputs.rows.variances
    return np.repeat(inputs.spectrum.values, block_sizes(inputs.spectrum, d))


def latent_directions(inputs: Inputs, latents: int, d: int, seed: int) -> np.ndarray:
    r"""Orthogonal rows $\theta_{*r}$ (latents, d) with exactly the lengths of `Inputs.latent_blocks`.

    Row $r$ lies along the axis number $r$ of each eigenspace, so that $\Theta_*\Sigma\Theta_*^\top=I$ exactly; which
    axes they are does not matter for Gaussian inputs. It does for rows of data: there the axes are random ones of each
    eigenspace, and a row is scaled to variance 1 on the data.
    """
    if inputs.d not in (None, d):
        raise InputError(f"d must be the {inputs.d} directions of the data or left out, got {d}.")
    sizes = block_sizes(inputs.spectrum, d)
    if sizes.min() < latents:
        raise InputError(f"d must give every variance at least {latents} dimensions, got d = {d}.")
    first = np.cumsum(sizes) - sizes
    lengths = np.sqrt(inputs.latent_blocks(latents))
    rows = np.zeros((latents, d))
    for r in range(latents):
        rows[r, first + r] = lengths[:, r]
    if inputs.rows is None:
        return rows
    with jax.enable_x64(True):
        normals = np.asarray(jax.random.normal(stream_key(seed, d, "latent axes"), (d, latents), jnp.float64))
    for begin, size in zip(first, sizes, strict=True):
        axes = np.linalg.qr(normals[begin : begin + size])[0]
        rows[:, begin : begin + size] = rows[:, begin : begin + latents] @ axes.T
    return rows / np.sqrt(rows**2 @ inputs.rows.variances)[:, None]


def reflected(vectors: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Rows (vectors, d) after one Householder reflection per row of `images`, which sends that axis to the image, a
    unit vector."""
    for axis, image in enumerate(images):
        normal = -image
        normal[axis] += 1.0
        square = normal @ normal
        if square > 0.0:
            vectors = vectors - np.outer(vectors @ normal, normal) * (2.0 / square)
    return vectors
