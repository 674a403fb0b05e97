"""The spectrum that theory takes from real data: kernel eigenvalues and target energies of all handwritten digits."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from limen.simulation.kernel.digits import load_digits, one_hot
from limen.simulation.kernel.digits_regression import relu_kernel


@lru_cache(maxsize=1)
def digits_spectrum() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Eigenvalues $\eta_k$ of $K/M$ for the ReLU kernel on all $M=1797$ images, descending, and the energies
    $c_k^2=\sum_a\langle v_k,y_a\rangle^2/M$ of the ten class coordinates. One diagonalisation, about two seconds."""
    digits = load_digits()
    size = len(digits.labels)
    values, vectors = np.linalg.eigh(relu_kernel(digits.inputs) / size)
    energies = np.sum((vectors.T @ one_hot(digits.labels)) ** 2, axis=1) / size
    return np.maximum(values[::-1], 0.0), energies[::-1]
