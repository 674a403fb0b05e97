"""The first-layer weights a training starts from, shared by simulation and by theories paired with it."""

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bartlett import bartlett_factor
from limen.gaussian.keys import start_normals, stream_key
from limen.problem import InputError, OverlapStart, TwoLayer
from limen.problem.starts import overlap_matrix

# Above, a start is drawn through its overlaps alone.
LARGEST_D_WITH_WEIGHTS = 20_000


def start_weights(problem: TwoLayer, d: int, seed: int) -> np.ndarray:
    r"""First-layer weights $\theta_j(0)$, shape (width, d), float64, in a basis whose first $k$ axes are the
    latent directions of the target (of unit length even where the target's own are not).

    `RandomStart`: uniform on the sphere of radius `initial_norm`. `OverlapStart`: exactly the given
    overlaps and Gram matrix (without `gram`: orthogonal parts independent and uniform).
    """
    k, width, norm = problem.target.latents, problem.network.width, problem.network.initial_norm
    if d < k + width:
        raise InputError(f"d must be at least width + latent directions = {k + width}, got {d}.")
    normals = start_normals(seed, d, width)
    if not isinstance(problem.start, OverlapStart):
        return norm * normals / np.linalg.norm(normals, axis=1, keepdims=True)
    overlap = overlap_matrix(problem.start, width, k) / np.sqrt(problem.inputs.latent_blocks(k).sum(axis=0))
    orthogonal = normals[:, k:]
    if problem.start.gram is None:
        length = np.sqrt(np.maximum(norm**2 - (overlap**2).sum(axis=1), 0.0))
        rest = length[:, None] * orthogonal / np.linalg.norm(orthogonal, axis=1, keepdims=True)
    else:
        values, vectors = np.linalg.eigh(np.asarray(problem.start.gram) - overlap @ overlap.T)
        frame = np.linalg.qr(orthogonal.T)[0].T
        rest = (vectors * np.sqrt(np.maximum(values, 0.0))) @ frame
    return np.concatenate([overlap, rest], axis=1)


def start_overlaps(problem: TwoLayer, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Overlaps $M=\Theta\Theta_*^\top$ (width, k) and Gram matrix $Q=\Theta\Theta^\top$ of a start.

    Up to $d=20\,000$ those of `start_weights`. Above, a draw of the same law in which no vector of length $d$ is
    formed: normals along the $k$ latent directions, Bartlett's factor of the remaining $d-k$; $O(m^2)$ whatever $d$.
    """
    if d <= LARGEST_D_WITH_WEIGHTS:
        weights = start_weights(problem, d, seed)
        return weights[:, : problem.target.latents], weights @ weights.T
    k, width, norm = problem.target.latents, problem.network.width, problem.network.initial_norm
    if d < k + width:
        raise InputError(f"d must be at least width + latent directions = {k + width}, got {d}.")
    along_key, rest_key = jax.random.split(stream_key(seed, d, "start"))
    rest = np.sqrt(d - k) * bartlett_factor(rest_key, width, d - k)
    if isinstance(problem.start, OverlapStart):
        overlap = overlap_matrix(problem.start, width, k)
        if problem.start.gram is not None:
            return overlap, np.array(problem.start.gram, dtype=float)
        length = np.sqrt(np.maximum(norm**2 - (overlap**2).sum(axis=1), 0.0))
        rest *= (length / np.linalg.norm(rest, axis=1))[:, None]
        return overlap, overlap @ overlap.T + rest @ rest.T
    with jax.enable_x64(True):
        along = np.array(jax.random.normal(along_key, (width, k), jnp.float64))
    coordinates = np.concatenate([along, rest], axis=1)
    coordinates *= norm / np.linalg.norm(coordinates, axis=1, keepdims=True)
    return coordinates[:, :k], coordinates @ coordinates.T
