"""What is measured of a set of tokens: cosines, energy, clusters."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from limen.problem import InputError

CLUSTERED = 1e-3


def cosine_gaps(tokens: np.ndarray) -> np.ndarray:
    r"""$1-\langle x_i,x_j\rangle=\frac12|x_i-x_j|^2$, shape (n, n), without the cancellation of one minus a cosine
    near one."""
    if tokens.shape[0] * tokens.shape[0] * tokens.shape[1] <= 2**24:
        return 0.5 * ((tokens[:, None] - tokens[None]) ** 2).sum(axis=2)
    return np.maximum(1.0 - tokens @ tokens.T, 0.0)


def cluster_count(tokens: np.ndarray, delta: float = CLUSTERED) -> int:
    r"""Connected components of $\{1-\langle x_i,x_j\rangle\le\delta\}$.

    A dense cloud on a circle is one component before anything has happened: read the count once cosines are bimodal.
    """
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must lie in (0, 1), got {delta}.")
    return int(connected_components(cosine_gaps(tokens) <= delta, directed=False, return_labels=False))


def cluster_masses(tokens: np.ndarray, delta: float = CLUSTERED) -> tuple[np.ndarray, np.ndarray]:
    """Directions (cluster, d) of the means of the clusters that `cluster_count` counts, and their numbers of tokens."""
    count, labels = connected_components(cosine_gaps(tokens) <= delta, directed=False)
    centres = np.stack([np.bincount(labels, column, count) for column in tokens.T], axis=1)
    return centres / np.linalg.norm(centres, axis=1, keepdims=True), np.bincount(labels, minlength=count)


def energy(
    tokens: np.ndarray, beta: float, query_key: np.ndarray | None = None, weights: np.ndarray | None = None
) -> float:
    r"""$E_\beta=\frac1{2\beta}\sum_{ij}w_iw_j(e^{\beta x_i^\top Bx_j}-1)$ with $w_i=1/n$, or weights normalised to one.

    Its limit $\frac12\sum w_iw_jx_i^\top Bx_j$ at $\beta=0$. Never decreasing along the flow if $B=B^\top$ and
    $V=cB$, $c>0$; otherwise nothing is known. Infinite where it exceeds the largest number ($\beta x^\top Bx>709$).
    """
    share = np.full(len(tokens), 1.0 / len(tokens)) if weights is None else weights / weights.sum()
    cosines = (tokens if query_key is None else tokens @ query_key) @ tokens.T
    if abs(beta) < 1e-12:
        return float(0.5 * share @ cosines @ share)
    with np.errstate(over="ignore"):
        return float(share @ np.expm1(beta * cosines) @ share / (2.0 * beta))


def clustered_pairs(cosines: np.ndarray, delta: float = CLUSTERED) -> np.ndarray:
    r"""Fraction of pairs $i\ne j$ with $\langle x_i,x_j\rangle\ge1-\delta$, of Gram matrices (..., n, n)."""
    n = cosines.shape[-1]
    close = (cosines >= 1.0 - delta).sum(axis=(-2, -1)) - n
    return close / (n * (n - 1))
