r"""The Gaussian coordinates that every path of the theory is a function of.

A path is one sample's story. It depends on the latent coordinates $V_*$, the label's own noise, and the neurons'
fields; these are linear in the coordinates $\xi=(\xi_*,\xi_0,\xi_1,\xi_2,\dots)$ of the weights: `latents` along the
target, `width` of the start, and one for each independent direction of the accumulated gradients. With inputs of
several variances each eigenspace has its own copy.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from limen.gaussian.sobol import MOST_DIMENSIONS, sobol_normals
from limen.problem import InputError, TwoLayer
from limen.problem.inputs import InputVariances


class Coordinates(NamedTuple):
    """Points of one scramble.

    `weights` (paths, coordinates, S): the coordinates of the weights, those of the target first, then of the start.
    `latent` (paths, k): $V_*$. `labels` and `clean_labels` (paths,): with and without additive noise.
    """

    weights: np.ndarray
    latent: np.ndarray
    labels: np.ndarray
    clean_labels: np.ndarray


def draw_coordinates(
    problem: TwoLayer, variances: InputVariances, gradients: int, paths: int, seed: int
) -> Coordinates:
    """Scrambled Sobol normals for `gradients` independent directions of the gradients beside target and start.

    Dimensions are dealt out by importance: target, label noise, start, then the gradients in the order of time.
    """
    target, width = problem.target, problem.network.width
    k, atoms = target.latents, variances.values.size
    dimension = atoms * (k + width + gradients) + 2
    if dimension > MOST_DIMENSIONS:
        raise InputError(
            f"times must end after at most {(MOST_DIMENSIONS - 2) // (atoms * width)} steps, got {gradients // width}."
        )
    normals = whitened(sobol_normals(paths, dimension, seed))
    own = normals[:, atoms * k : atoms * k + 2]
    weights = np.concatenate([normals[:, : atoms * k], normals[:, atoms * k + 2 :]], axis=1)
    weights = weights.reshape(paths, k + width + gradients, atoms)
    latent = weights[:, :k] @ np.sqrt(variances.fractions * variances.values)
    clean = np.asarray(target.function(latent, own[:, 0] if target.uses_inner_noise else np.zeros(paths)), dtype=float)
    if not np.isfinite(clean).all():
        raise InputError(f"target {target.label!r} must be finite for every latent coordinate.")
    return Coordinates(weights, latent, clean + np.sqrt(target.noise) * own[:, 1], clean)


def whitened(normals: np.ndarray) -> np.ndarray:
    r"""Points of shape (paths, dimension) with mean zero and covariance exactly the identity.

    The triangular map nearest to the order of the columns: early columns, which matter most, move least. It makes
    everything that is linear or quadratic in the coordinates exact. At most half as many dimensions as paths.
    """
    paths, dimension = normals.shape
    if 2 * dimension > paths:
        raise InputError(f"paths must be at least twice the {dimension} coordinates of this problem, got {paths}.")
    centred = normals - normals.mean(axis=0)
    factor = np.linalg.cholesky(centred.T @ centred / paths)
    return solve_triangular(factor, centred.T, lower=True).T
