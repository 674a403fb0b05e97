"""Checks of what users pass to the attention chapter: one sentence each, naming the argument and the value found."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError

LARGEST_UNNORMALIZED_BETA = 700.0


def real(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """The argument as an array of finite real numbers."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a real number or an array of them, got {value!r}.") from None
    _refuse(name, array, np.isfinite(array), "be finite")
    return array


def number(name: str, value: Any) -> float:
    """One finite real number."""
    array = real(name, value)
    if array.ndim:
        raise InputError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(array)


def positive(name: str, value: Any) -> float:
    """One finite number greater than 0."""
    checked = number(name, value)
    if not checked > 0.0:
        raise InputError(f"{name} must be positive, got {checked}.")
    return checked


def non_negative(name: str, value: Any) -> float:
    """One finite number that is at least 0."""
    checked = number(name, value)
    if checked < 0.0:
        raise InputError(f"{name} must not be negative, got {checked}.")
    return checked


def non_negatives(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """The argument as an array of finite numbers of at least 0."""
    array = real(name, value)
    _refuse(name, array, array >= 0.0, "not be negative")
    return array


def fraction(name: str, value: Any) -> float:
    """One number strictly between 0 and 1."""
    checked = number(name, value)
    if not 0.0 < checked < 1.0:
        raise InputError(f"{name} must be strictly between 0 and 1, got {checked}.")
    return checked


def integer(name: str, value: Any, least: int) -> int:
    """One whole number that is at least `least`."""
    checked = number(name, value)
    if checked != round(checked) or checked < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(checked)


def integers(name: str, value: ArrayLike, least: int) -> NDArray[np.int64]:
    """Whole numbers that are at least `least`, in any shape."""
    array = real(name, value)
    _refuse(name, array, (array == np.round(array)) & (array >= least), f"be whole numbers of at least {least}")
    return array.astype(np.int64)


def increasing_times(value: ArrayLike) -> NDArray[np.float64]:
    """A non-empty, increasing list of non-negative times; one number counts as a list of one."""
    array = np.atleast_1d(real("times", value))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"times must be a non-empty list of numbers, got shape {array.shape}.")
    if array[0] < 0.0 or (np.diff(array) <= 0.0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    return array


def square_matrix(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """A finite square matrix of size at least 2."""
    array = real(name, value)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 2:
        raise InputError(f"{name} must be a square matrix of size at least 2, got shape {array.shape}.")
    return array


def density_values(density: Callable[[Any], Any], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A density evaluated on an array of points: non-negative, finite, not zero everywhere."""
    if not callable(density):
        raise InputError(f"density must be a function of an array of points, got {type(density).__name__}.")
    try:
        values = np.broadcast_to(np.asarray(density(points), dtype=float), points.shape)
    except (TypeError, ValueError):
        raise InputError("density must return one number per point of the array it is given.") from None
    if not np.isfinite(values).all() or (values < 0.0).any() or not values.any():
        found = values[~np.isfinite(values)] if not np.isfinite(values).all() else values
        raise InputError(f"density must be non-negative, finite and not zero everywhere, got {float(found.min())}.")
    return values


def beta_without_normalization(beta: float, normalized: bool) -> None:
    """Refuses the flow without softmax where its speed, of order $e^\\beta$, is no longer a double."""
    if not normalized and abs(beta) > LARGEST_UNNORMALIZED_BETA:
        raise InputError(
            f"beta must be at most {LARGEST_UNNORMALIZED_BETA:g} in size without normalization, got {beta}: "
            "the speed of order exp(beta) is not a double."
        )


def plain(array: Any) -> Any:
    """A float for one number, the array otherwise."""
    return float(array) if np.ndim(array) == 0 else np.asarray(array)


def _refuse(name: str, array: NDArray[np.float64], allowed: NDArray[np.bool_], rule: str) -> None:
    if not np.all(allowed):
        raise InputError(f"{name} must {rule}, got {float(array[~np.asarray(allowed)].flat[0])}.")
