"""The order parameters of one-pass SGD: what a network of any dimension is reduced to."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.machine.arrays import on_device
from limen.problem.spec import InputError

ROUNDING = 1e-9


class Overlaps(NamedTuple):
    r"""Gram matrix $Q_{ij}=u_i\cdot u_j$ (p, p), overlaps $M_{ir}=u_i\cdot u^*_r$ (p, k), second layer $a$ (p,)."""

    gram: jax.Array
    overlap: jax.Array
    second_layer: jax.Array

    def covariance(self, teacher_gram: jax.Array) -> jax.Array:
        r"""Covariance of all fields of a fresh input, students first: $C=\begin{pmatrix}Q&M\\M^\top&P\end{pmatrix}$."""
        return jnp.block([[self.gram, self.overlap], [self.overlap.T, teacher_gram]])


def pack(overlaps: Overlaps) -> jax.Array:
    """One flat vector: an integrator's arithmetic on it is one operation instead of three."""
    return jnp.concatenate([overlaps.overlap.ravel(), overlaps.gram.ravel(), overlaps.second_layer])


def unpack(vector: jax.Array, p: int, k: int) -> Overlaps:
    """The inverse of `pack`; leading axes are batches."""
    lead = vector.shape[:-1]
    gram = vector[..., p * k : p * (k + p)].reshape(*lead, p, p)
    return Overlaps(gram, vector[..., : p * k].reshape(*lead, p, k), vector[..., p * (k + p) :])


def checked_overlaps(
    Q: Any,
    M: Any,
    P: Any,
    a: Any,
    a_star: Any,
) -> tuple[Overlaps, np.ndarray, np.ndarray]:
    """Overlaps, teachers' Gram matrix and teachers' weights as arrays of double precision, their shapes and the joint
    covariance checked; single numbers for `a` and `a_star` mean all units, `P` may be a number when k = 1."""
    overlap = _array("M", M)
    overlap = overlap.reshape(1, 1) if overlap.ndim == 0 else overlap
    if overlap.ndim != 2:
        raise InputError(f"M must have shape (students, teachers), got {overlap.shape}.")
    p, k = overlap.shape
    gram, teacher_gram = _square_matrix("Q", Q, p), _square_matrix("P", P, k)
    second_layer, teacher_weights = _vector("a", a, p), _vector("a_star", a_star, k)
    joint = np.block([[gram, overlap], [overlap.T, teacher_gram]])
    least = float(np.linalg.eigvalsh(joint).min())
    if least < -ROUNDING * max(1.0, float(np.trace(joint))):
        raise InputError(
            f"the joint covariance [[Q, M], [M^T, P]] must be positive semidefinite, got the eigenvalue {least:.4g}."
        )
    return Overlaps(*(on_device(part) for part in (gram, overlap, second_layer))), teacher_gram, teacher_weights


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, got {value!r}.") from None
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite.")
    return array


def _square_matrix(name: str, value: Any, size: int) -> np.ndarray:
    matrix = _array(name, value)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    if matrix.shape != (size, size):
        raise InputError(f"{name} must have shape ({size}, {size}), got {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, atol=1e-10):
        raise InputError(f"{name} must be symmetric.")
    return 0.5 * (matrix + matrix.T)


def _vector(name: str, value: Any, size: int) -> np.ndarray:
    vector = _array(name, value)
    if vector.ndim == 0:
        return np.full(size, float(vector))
    if vector.shape != (size,):
        raise InputError(f"{name} must be one number or {size}, got shape {vector.shape}.")
    return vector
