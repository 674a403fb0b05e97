r"""Starts on inputs of several variances: overlaps and Gram matrices inside each eigenspace.

Shared by simulation and by theories paired with it, as `start_weights` is for isotropic inputs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bartlett import bartlett_factor
from limen.gaussian.eigenspaces import block_sizes, latent_directions, reflected
from limen.gaussian.keys import stream_key
from limen.gaussian.starts.start_weights import LARGEST_D_WITH_WEIGHTS, start_weights
from limen.problem import InputError, OverlapStart, TwoLayer
from limen.problem.starts import overlap_matrix


class BlockStart(NamedTuple):
    r"""Inside each of the S eigenspaces: coordinates of the neurons on the axes of the target's directions (S, m, k),
    and their Gram matrix (S, m, m)."""

    aligned: np.ndarray
    gram: np.ndarray

    def overlap(self, problem: TwoLayer) -> np.ndarray:
        r"""$\theta_j\cdot\theta_{*r}$ inside each eigenspace, shape (S, m, k)."""
        return self.aligned * np.sqrt(problem.inputs.latent_blocks(problem.target.latents))[:, None, :]


def spectral_weights(problem: TwoLayer, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """First layer (m, d) at the start, and the target's directions (k, d), in coordinates that are eigenvectors."""
    directions = latent_directions(problem.inputs, problem.target.latents, d, seed)
    images = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return reflected(start_weights(problem, d, seed), images), directions


def block_start(problem: TwoLayer, d: int, seed: int) -> BlockStart:
    r"""The start of `spectral_weights`, eigenspace by eigenspace.

    Above $d=20\,000$ a draw of the same law without vectors of length $d$: normals along the axes of the target in each
    eigenspace, Bartlett's factor of the rest.
    """
    k, sizes = problem.target.latents, block_sizes(problem.inputs.spectrum, d)
    if d <= LARGEST_D_WITH_WEIGHTS:
        weights, directions = spectral_weights(problem, d, seed)
        ends = np.cumsum(sizes)[:-1]
        parts = np.split(weights, ends, axis=1)
        aligned = [part[:, :k] for part in parts]
        if problem.inputs.rows is not None:
            axes = (part / _lengths(part) for part in np.split(directions, ends, axis=1))
            aligned = [part @ axis.T for part, axis in zip(parts, axes, strict=True)]
        return BlockStart(np.stack(aligned), np.stack([part @ part.T for part in parts]))
    width, norm = problem.network.width, problem.network.initial_norm
    keys = jax.random.split(stream_key(seed, d, "start"), sizes.size + 1)
    with jax.enable_x64(True):
        along = np.array(jax.random.normal(keys[0], (sizes.size, width, k), jnp.float64))
    rest = [
        np.sqrt(size - k) * bartlett_factor(key, width, int(size) - k)
        for key, size in zip(keys[1:], sizes, strict=True)
    ]
    return _completed(problem, along, np.stack([factor @ factor.T for factor in rest]), norm)


def _lengths(rows: np.ndarray) -> np.ndarray:
    """Norms (rows, 1); 1 for a row of zeros."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > 0.0, norms, 1.0)


def limiting_start(problem: TwoLayer) -> BlockStart:
    r"""An `OverlapStart` as $d\to\infty$: what is orthogonal to the target is spread evenly, weight $w_b$ in each
    eigenspace; a random start is refused."""
    start, network, k = problem.start, problem.network, problem.target.latents
    if not isinstance(start, OverlapStart):
        raise InputError(
            "d and seeds are required: from a random start the flow depends on the overlaps of size d^(-1/2)."
        )
    along, unit = _toward_target(problem)
    rest = np.zeros((network.width, network.width))
    if start.gram is not None:
        rest = np.asarray(start.gram, dtype=float) - unit @ unit.T
    else:
        np.fill_diagonal(rest, network.initial_norm**2 - (unit**2).sum(axis=1))
    fractions = problem.inputs.spectrum.fractions
    assert along.shape[2] == k
    return BlockStart(along, along @ np.swapaxes(along, 1, 2) + fractions[:, None, None] * rest)


def _toward_target(problem: TwoLayer) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (S, m, k) of the part of an `OverlapStart` along the target's directions, and its coordinates (m, k)
    on their unit vectors."""
    assert isinstance(problem.start, OverlapStart)
    k, width = problem.target.latents, problem.network.width
    blocks = problem.inputs.latent_blocks(k)
    unit = overlap_matrix(problem.start, width, k) / np.sqrt(blocks.sum(axis=0))
    return unit * np.sqrt(blocks / blocks.sum(axis=0))[:, None, :], unit


def _completed(problem: TwoLayer, along: np.ndarray, rest: np.ndarray, norm: float) -> BlockStart:
    """The start made of normals along the target's axes (S, m, k) and Gram matrices of the remaining ones (S, m, m)."""
    if not isinstance(problem.start, OverlapStart):
        gram = rest + along @ np.swapaxes(along, 1, 2)
        scale = norm / np.sqrt(np.einsum("bii->i", gram))
        return BlockStart(along * scale[:, None], gram * scale[:, None] * scale)
    blocks = problem.inputs.latent_blocks(problem.target.latents)
    images = np.sqrt(blocks / blocks.sum(axis=0))[:, None, :]
    # The normals' part along the target's directions is given, not drawn.
    along = along - (along * images).sum(axis=0) * images
    gram = rest + along @ np.swapaxes(along, 1, 2)
    toward, unit = _toward_target(problem)
    if problem.start.gram is None:
        length = np.sqrt(np.maximum(norm**2 - (unit**2).sum(axis=1), 0.0))
        mixing = np.diag(length / np.sqrt(np.einsum("bii->i", gram)))
    else:
        values, vectors = np.linalg.eigh(np.asarray(problem.start.gram) - unit @ unit.T)
        factor = np.linalg.cholesky(gram.sum(axis=0))
        mixing = (vectors * np.sqrt(np.maximum(values, 0.0))) @ np.linalg.inv(factor)
    drawn = mixing @ along
    aligned = toward + drawn
    orthogonal = mixing @ rest @ mixing.T
    return BlockStart(aligned, aligned @ np.swapaxes(aligned, 1, 2) + orthogonal)
