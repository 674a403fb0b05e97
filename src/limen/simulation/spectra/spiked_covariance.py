"""The top eigenvalue of a spiked sample covariance and its overlap with the spike, for many spikes on the same data."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from limen.problem.spec import InputError
from limen.simulation.spectra.random_matrices import draw_covariance

HALVINGS = 60


class TopEigenvectors(NamedTuple):
    r"""Largest eigenvalue, and squared overlap $\langle\hat v,v\rangle^2$ of its eigenvector with the spike; one entry
    per spike."""

    values: np.ndarray
    overlaps: np.ndarray


def spiked_top(spikes: ArrayLike, dimension: int, samples: int, seed: int) -> TopEigenvectors:
    r"""Gaussian data with covariance $I+(\ell-1)vv^\top$, the same standard normals for each $\ell$ in `spikes`.

    With $v=e_1$ the sample covariance is a bordered matrix, $\ell a$ in the corner, $\sqrt\ell c$ beside it, and a
    block $B=V\mathrm{diag}(b)V^\top$ that does not depend on $\ell$. So one diagonalisation serves all spikes: with
    $u=V^\top c$ the largest eigenvalue is the root above $\max b$ of $\lambda=\ell
    a+\ell\sum_k\frac{u_k^2}{\lambda-b_k}$ (bisection), and the overlap is
    $\big(1+\ell\sum_k\frac{u_k^2}{(\lambda-b_k)^2}\big)^{-1}$. $O(p^2n+p^3)$.
    """
    strength = np.atleast_1d(np.asarray(spikes, dtype=float))
    if dimension < 2 or not (strength > 0.0).all():
        raise InputError(f"spikes must be positive and dimension at least 2, got {strength.min()} and {dimension}.")
    rows = draw_covariance(np.ones(dimension), samples, seed)
    first, rest = rows[:, 0], rows[:, 1:]
    poles, vectors = np.linalg.eigh(rest.T @ rest / samples)
    weights = (vectors.T @ (rest.T @ first) / samples) ** 2
    corner = float(first @ first) / samples
    low = np.full(strength.shape, poles[-1])
    # The largest eigenvalue of a positive matrix is at most the sum of those of its diagonal blocks.
    high = low + strength * corner
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore"):
            pull = strength * (weights / (middle[:, None] - poles)).sum(axis=1)
        below = middle - strength * corner - pull < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    overlaps = 1.0 / (1.0 + strength * (weights / (high[:, None] - poles) ** 2).sum(axis=1))
    return TopEigenvectors(high, overlaps)
