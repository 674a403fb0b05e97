"""Checks of single numbers and of data matrices: whole numbers, probabilities, one row per sample."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError
from limen.theory.kernel import arguments


def one_positive(name: str, value: float) -> float:
    """One finite number greater than 0."""
    return arguments.number(name, arguments.positive(name, value))


def one_non_negative(name: str, value: float) -> float:
    """One finite number that is at least 0."""
    return arguments.number(name, arguments.non_negative(name, value))


def whole(name: str, value: float) -> int:
    """A whole number of at least 1."""
    number = arguments.number(name, arguments.real(name, value))
    if not (np.isfinite(number) and number >= 1 and number == int(number)):
        raise InputError(f"{name} must be a whole number of at least 1, got {value}.")
    return int(number)


def probability(name: str, value: float) -> float:
    """A number strictly between 0 and 1."""
    number = arguments.number(name, arguments.real(name, value))
    if not 0 < number < 1:
        raise InputError(f"{name} must be between 0 and 1, both excluded, got {number}.")
    return number


def sample_matrix(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """A non-empty matrix of finite numbers, one row per sample."""
    matrix = np.asarray(arguments.real(name, value))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{name} must be a non-empty matrix with one row per sample, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} must be finite.")
    return matrix
