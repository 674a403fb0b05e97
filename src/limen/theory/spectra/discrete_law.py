"""Discrete laws given by atoms and probabilities, checked once at the door."""

from collections.abc import Sequence

import numpy as np

from limen.problem.spec import InputError

Numbers = float | Sequence[float] | np.ndarray

SUM_TOLERANCE = 1e-8


def discrete_law(
    values: Numbers, probabilities: Numbers, values_name: str, probabilities_name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ascending atoms and their probabilities, which are made to sum to one exactly."""
    atoms = finite_array(values, values_name)
    weights = finite_array(probabilities, probabilities_name)
    if atoms.shape != weights.shape:
        raise InputError(
            f"{probabilities_name} must have one entry per entry of {values_name} ({atoms.size}), got {weights.size}."
        )
    if weights.min() < 0.0:
        raise InputError(f"{probabilities_name} must not be negative, got {weights.min()}.")
    if abs(weights.sum() - 1.0) > SUM_TOLERANCE:
        raise InputError(f"{probabilities_name} must sum to 1, got {weights.sum()}.")
    distinct, inverse = np.unique(atoms, return_inverse=True)
    gathered = np.bincount(inverse.ravel(), weights=weights / weights.sum())
    return distinct[gathered > 0.0], gathered[gathered > 0.0]


def finite_array(values: Numbers, name: str) -> np.ndarray:
    """A non-empty vector of finite doubles; a single number is a vector of one."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {values!r}.") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a non-empty vector, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}.")
    return array
