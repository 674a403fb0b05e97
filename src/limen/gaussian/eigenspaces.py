"""Inputs of several variances at finite size: which coordinates have which, and where the target's directions lie."""

import numpy as np

from limen.problem import InputError, Inputs
from limen.problem.inputs import InputVariances


def block_sizes(variances: InputVariances, d: int) -> np.ndarray:
    """Numbers of coordinates of each variance, shape (S,), within one of $w_bd$."""
    return np.diff(np.rint(np.cumsum(variances.fractions) * d).astype(int), prepend=0)


def coordinate_variances(variances: InputVariances, d: int) -> np.ndarray:
    """The variance of every coordinate, shape (d,): equal ones side by side."""
    return np.repeat(variances.values, block_sizes(variances, d))


def latent_directions(inputs: Inputs, latents: int, d: int) -> np.ndarray:
    r"""Orthogonal rows $\theta_{*r}$ (latents, d) with exactly the lengths of `Inputs.latent_blocks`.

    Row $r$ lies along the axis number $r$ of each eigenspace, so that $\Theta_*\Sigma\Theta_*^\top=I$ exactly; which
    axes they are does not matter for Gaussian inputs.
    """
    sizes = block_sizes(inputs.spectrum, d)
    if sizes.min() < latents:
        raise InputError(f"d must give every variance at least {latents} dimensions, got d = {d}.")
    first = np.cumsum(sizes) - sizes
    lengths = np.sqrt(inputs.latent_blocks(latents))
    rows = np.zeros((latents, d))
    for r in range(latents):
        rows[r, first + r] = lengths[:, r]
    return rows


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
