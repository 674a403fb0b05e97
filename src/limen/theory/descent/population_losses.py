"""Test loss and excess risk of the theory's networks on fresh inputs."""

from functools import lru_cache

import numpy as np

from limen.gaussian.panels import normal_density, panel_nodes
from limen.gaussian.sobol import sobol_normals
from limen.problem import TwoLayer
from limen.theory.descent.coordinates import whitened
from limen.theory.descent.forces import mean_losses

POINTS = 2**16
# Panels of a product rule for one neuron and one latent coordinate: 16 nodes each, 1e-14 of the mass outside.
EDGES = tuple(range(-8, 9, 2))


def population_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""$E\,\ell(y,f)$ with label noise, and without additive noise, at each time; shapes (time,).

    Fields of a fresh input are Gaussian with covariance `gram` (time, m, m) and covariance `overlap` (time, m, k) with
    $V_*\sim N(0,I_k)$. One neuron and one latent coordinate: a product of Gauss–Legendre panels, cut at the kinks of
    the target, good to rounding. Otherwise frozen Sobol points, good to some $10^{-4}$ of the loss: an error that is
    the same in every scramble of the paths. Square loss: additive noise only adds half its variance.
    """
    target, network = problem.target, problem.network
    k, m, square = target.latents, network.width, problem.loss.name == "square"
    exact = k == m == 1 and not target.uses_inner_noise and (square or target.noise == 0.0)
    points, weights = _product(target.breakpoints) if exact else _points(k + m + 2)
    latent, own = points[:, :k], points[:, k : k + m]
    clean = np.asarray(target.function(latent, points[:, -1]), dtype=float)
    labels = clean if square else clean + np.sqrt(target.noise) * points[:, -2]
    bias = np.asarray(network.per_neuron("bias"))
    found = np.full((2, len(overlap)), np.nan)
    for t in np.flatnonzero(np.isfinite(gram).all(axis=(1, 2))):
        values, vectors = np.linalg.eigh(gram[t] - overlap[t] @ overlap[t].T)
        fields = latent @ overlap[t].T + own @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        parts = (fields, labels, clean, second_layer[t], bias, weights)
        found[:, t] = mean_losses(network.activation, problem.loss, *parts)
    return found[0] + (0.5 * target.noise if square else 0.0), found[1]


@lru_cache(maxsize=8)
def _product(kinks: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Points (nodes, 4), the last two columns zero, and weights; panels of the first coordinate end at `kinks`."""
    inside = [kink for kink in kinks if EDGES[0] < kink < EDGES[-1]]
    nodes, weights = zip(*(_line(np.unique([*EDGES, *more])) for more in (inside, ())), strict=True)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.pad(grid, ((0, 0), (0, 2))), np.outer(*weights).ravel()


def _line(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = (part.ravel() for part in panel_nodes(edges[:-1], edges[1:]))
    return nodes, weights * normal_density(nodes)


@lru_cache(maxsize=8)
def _points(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    return whitened(sobol_normals(POINTS, dimension, 1)), np.full(POINTS, 1.0 / POINTS)
