r"""Powers $w^{\otimes k}$ of vectors in the space of symmetric tensors, in an orthonormal basis of it.

The basis vector of the multiset $\{i_1\le\dots\le i_k\}$ is the symmetrised $e_{i_1}\otimes\dots\otimes e_{i_k}$
divided by its norm. In these $\binom{d+k-1}k$ coordinates $w^{\otimes k}$ is $\sqrt{k!/\alpha!}\,w^\alpha$, where
$\alpha_i$ counts how often $i$ occurs, and $\langle u^{\otimes k},w^{\otimes k}\rangle=\langle u,w\rangle^k$. A
Gaussian tensor with independent entries acts on symmetric tensors as a vector of independent normals in these
coordinates, with $k!$ times fewer numbers.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np


def symmetric_dimension(d: int, degree: int) -> int:
    r"""$\binom{d+k-1}k$, the dimension of symmetric tensors of degree $k$."""
    return comb(d + degree - 1, degree)


@dataclass(frozen=True, eq=False)
class SymmetricPowers:
    """Symmetric tensors of one degree at least 1 over $R^d$: `position` (coordinates,) is where the flattened tensor
    has each multiset, `scale` the root of its number of orders, `place` ($d^k$,) the multiset of every entry."""

    d: int
    degree: int
    position: np.ndarray
    scale: np.ndarray
    place: np.ndarray

    def sum_of_powers(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        r"""Coordinates of $\sum_jc_jw_j^{\otimes k}$ for rows `vectors` (m, d) and numbers `weights` (m,)."""
        full = (self._lower_powers(vectors) * weights) @ vectors
        return full.ravel()[self.position] * self.scale

    def contracted(self, coordinates: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        r"""$\langle A,w_j^{\otimes(k-1)}\otimes\cdot\rangle$ (m, d) for the tensor $A$ of given coordinates.

        $k$ times it is the gradient of $\langle A,w_j^{\otimes k}\rangle$, its product with $w_j$ the value.
        """
        full = (coordinates / self.scale)[self.place].reshape(self.d, -1)
        return (full @ self._lower_powers(vectors)).T

    def _lower_powers(self, vectors: np.ndarray) -> np.ndarray:
        r"""$w_j^{\otimes(k-1)}$ as columns, ($d^{k-1}$, m)."""
        powers = np.ones((1, len(vectors)))
        for _ in range(self.degree - 1):
            powers = (powers[:, None, :] * vectors.T[None]).reshape(-1, len(vectors))
        return powers


@lru_cache(maxsize=8)
def symmetric_powers(d: int, degree: int) -> SymmetricPowers:
    """The coordinates of symmetric tensors; $d^k$ numbers of memory."""
    axes = np.indices((d,) * degree, dtype=np.int32).reshape(degree, -1)
    sorted_axes = np.sort(axes, axis=0)
    flat = np.ravel_multi_index(tuple(sorted_axes), (d,) * degree)
    position, place, orders = np.unique(flat, return_inverse=True, return_counts=True)
    return SymmetricPowers(d, degree, position, np.sqrt(orders), place.reshape(-1).astype(np.int32))
