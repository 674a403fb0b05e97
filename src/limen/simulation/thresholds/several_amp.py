r"""Bayes-optimal approximate message passing for several directions at once, on drawn data.

As `amp`, with matrices: $\hat X$ (d, k), $A=X/\sqrt d$, $g^{-1}=0$, $V=I-\,$overlap of the start,
$$\omega=A\hat X-g^-V,\quad g_i=V^{-1}(E[z\mid y_i,\omega_i,V]-\omega_i),\quad\hat Q=\frac1dg^\top g,\quad
\hat X\leftarrow(\hat X\hat Q+A^\top g)(I+\hat Q)^{-1},\quad V\leftarrow(I+\hat Q)^{-1}.$$

Source: Rangan 2011; Aubin et al. 2018 for several directions.
"""

from collections.abc import Sequence

import jax
import numpy as np

from limen.problem import InputError
from limen.problem.targets import Target
from limen.simulation.spectra.random_matrices import stream_generator

NODES = 41
REACH = 5.5
MOST_AT_ONCE = 1 << 21


def matrix_message_passing(
    target: Target, samples_per_dim: float, dimension: int, seeds: Sequence[int], steps: int, start: float
) -> np.ndarray:
    r"""Overlaps $\frac1d\Theta_*^\top\hat X$ of shape (seeds, steps + 1, k, k), from a start of overlap `start` times
    the identity.

    The target needs additive noise and no `e`; posterior means are taken on $41^k$ nodes for every sample.
    """
    if not (target.noise > 0 and not target.uses_inner_noise and target.latents > 1):
        raise InputError(f"target must have several directions, additive noise and no e, and {target.label!r} has not.")
    if not 0 < start < 1:
        raise InputError(f"start must lie between 0 and 1, got {start}.")
    return np.array([_run(target, samples_per_dim, dimension, seed, steps, start) for seed in seeds])


def _run(
    target: Target, samples_per_dim: float, dimension: int, seed: int, steps: int, start: float
) -> list[np.ndarray]:
    k, samples = target.latents, round(samples_per_dim * dimension)
    rows = stream_generator(seed, dimension, "inputs").standard_normal((samples, dimension))
    noise = stream_generator(seed, dimension, "label noise").standard_normal(samples)
    # The directions are the first axes, the signal sqrt(d) along them.
    labels = _links(target, rows[:, :k]) + np.sqrt(target.noise) * noise
    rows /= np.sqrt(dimension)
    random = stream_generator(seed, dimension, "start").standard_normal((dimension, k))
    estimate = np.sqrt(start * (1.0 - start)) * random
    estimate[:k] = start * np.sqrt(dimension) * np.eye(k)
    variance, scores = (1.0 - start) * np.eye(k), np.zeros((samples, k))
    overlaps = [estimate[:k] / np.sqrt(dimension)]
    for _ in range(steps):
        fields = rows @ estimate - scores @ variance
        scores = _scores(target, labels, fields, variance)
        precision = scores.T @ scores / dimension
        variance = np.linalg.inv(np.eye(k) + precision)
        estimate = (estimate @ precision + rows.T @ scores) @ variance
        overlaps.append(estimate[:k] / np.sqrt(dimension))
    return overlaps


def _links(target: Target, z: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(target.function(z, np.zeros(len(z))), dtype=np.float64)


def _scores(target: Target, labels: np.ndarray, fields: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """$V^{-1}(E[z|y]-\\omega)$ of every sample, by a sum over a grid of what is not known."""
    k, axis = target.latents, np.linspace(-REACH, REACH, NODES)
    nodes = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    values, vectors = np.linalg.eigh(variance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    result, size = np.empty_like(fields), max(1, MOST_AT_ONCE // len(nodes))
    for begin in range(0, len(labels), size):
        part = slice(begin, begin + size)
        z = fields[part, None] + nodes @ root
        means = _links(target, z.reshape(-1, k)).reshape(z.shape[:2])
        exponents = -0.5 * np.sum(nodes**2, axis=1) - (labels[part, None] - means) ** 2 / (2.0 * target.noise)
        weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        result[part] = (weights @ nodes) / weights.sum(axis=1, keepdims=True)
    return result @ np.linalg.inv(root)
