r"""The effective medium of regression on weighted rows, $\Gamma=K(\delta+WK)^{-1}$, from features or from a kernel."""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, get_lapack_funcs

Floats = NDArray[np.float64]


class Medium(Protocol):
    r"""What is asked of $\Gamma=K(\delta+WK)^{-1}$, at the weights and the ridge asked for last."""

    def leverages(self, weights: Floats, ridge: float) -> Floats:
        r"""$h_i=\Gamma_{ii}$, shape (M,)."""
        ...

    def carried(self, vectors: Floats) -> Floats:
        r"""$\Gamma v$ for columns (M, c)."""
        ...

    def squares(self, vector: Floats) -> Floats:
        r"""$\sum_j\Gamma_{ij}^2v_j$."""
        ...

    def squared_entries(self) -> Floats:
        r"""$\Gamma_{ij}^2$, shape (M, M)."""
        ...


class FeatureMedium:
    r"""From features $\Phi$ (M, p): $O(Mp^2)$, no array of $M^2$ numbers but `squared_entries`."""

    def __init__(self, features: ArrayLike) -> None:
        self.features = np.asarray(features, dtype=float)
        self.resolvent = np.zeros(0)

    def leverages(self, weights: Floats, ridge: float) -> Floats:
        phi = self.features
        inverse = cho_factor(phi.T @ (weights[:, None] * phi) + ridge * np.eye(phi.shape[1]))
        self.resolvent = cho_solve(inverse, phi.T).T
        return np.einsum("ip,ip->i", self.resolvent, phi)

    def carried(self, vectors: Floats) -> Floats:
        return self.resolvent @ (self.features.T @ vectors)

    def squares(self, vector: Floats) -> Floats:
        inner = self.features.T @ (vector[:, None] * self.features)
        return np.einsum("ip,ip->i", self.resolvent @ inner, self.resolvent)

    def squared_entries(self) -> Floats:
        return (self.resolvent @ self.features.T) ** 2


class KernelMedium:
    """From a kernel matrix (M, M): $O(M^3)$."""

    def __init__(self, kernel: ArrayLike) -> None:
        self.kernel = np.asarray(kernel, dtype=float)
        self.gamma = np.zeros(0)

    def leverages(self, weights: Floats, ridge: float) -> Floats:
        root = np.sqrt(weights)
        inside = root[:, None] * self.kernel * root
        inside[np.diag_indices_from(inside)] += ridge
        factor, _ = cho_factor(inside, lower=True, overwrite_a=True)
        (invert,) = get_lapack_funcs(("potri",), (factor,))
        lower, _ = invert(factor, lower=1, overwrite_c=1)
        gamma = np.tril(lower) + np.tril(lower, -1).T
        gamma *= -ridge
        gamma[np.diag_indices_from(gamma)] += 1.0
        gamma /= root[:, None]
        gamma /= root
        self.gamma = gamma
        return np.diagonal(gamma).copy()

    def carried(self, vectors: Floats) -> Floats:
        return self.gamma @ vectors

    def squares(self, vector: Floats) -> Floats:
        return self.gamma**2 @ vector

    def squared_entries(self) -> Floats:
        return self.gamma**2
