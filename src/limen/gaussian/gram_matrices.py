"""Gram matrices given by a user or by a flow: checked, and their symmetric roots."""

import numpy as np

from limen.problem.spec import InputError

ROUNDING = 1e-10


def square_root(gram: np.ndarray) -> np.ndarray:
    """The symmetric root of a positive semidefinite matrix.

    Negative eigenvalues count as zero: an integrator's own error can make them, where a flow comes close to singular.
    """
    values, vectors = np.linalg.eigh(gram)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def gram_matrix(gram: object, size: int, name: str) -> np.ndarray:
    """A symmetric positive semidefinite matrix of shape (size, size), or a refusal that calls it `name`."""
    matrix = np.asarray(gram, dtype=float)
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise InputError(f"{name} must be a finite matrix of shape ({size}, {size}), got shape {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-12):
        raise InputError(f"{name} must be symmetric.")
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -ROUNDING * max(1.0, abs(values[-1])):
        raise InputError(f"{name} must be positive semidefinite, got smallest eigenvalue {values[0]:.3g}.")
    return 0.5 * (matrix + matrix.T)
