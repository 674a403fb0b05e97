"""Checks of what users pass to the kernel chapter: one sentence each, naming the argument and the value found."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError


def real(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """The argument as an array of real numbers without NaN."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a real number or an array of them, got {value!r}.") from None
    if np.isnan(array).any():
        raise InputError(f"{name} must not be NaN.")
    return array


def positive(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Finite numbers greater than 0."""
    array = real(name, value)
    _refuse(name, array, (array > 0) & np.isfinite(array), "be positive and finite")
    return array


def positive_or_infinite(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Numbers greater than 0, infinity included."""
    array = real(name, value)
    _refuse(name, array, array > 0, "be positive")
    return array


def non_negative(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Finite numbers that are at least 0."""
    array = real(name, value)
    _refuse(name, array, (array >= 0) & np.isfinite(array), "be non-negative and finite")
    return array


def number(name: str, array: NDArray[np.float64]) -> float:
    """A checked argument that must be one number."""
    if array.ndim:
        raise InputError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(array)


def broadcast(**arguments: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The arguments with one common shape."""
    try:
        return list(np.broadcast_arrays(*arguments.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arguments.items())
        raise InputError(f"arguments must have shapes that broadcast together, got {shapes}.") from None


def vector(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """A list of finite, non-negative numbers; one number counts as a list of one."""
    array = np.atleast_1d(non_negative(name, value))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a non-empty list of numbers, got shape {array.shape}.")
    return array


def same_length(first: str, one: NDArray[np.float64], second: str, other: NDArray[np.float64]) -> None:
    """Refuses lists of different lengths."""
    if len(one) != len(other):
        raise InputError(f"{second} must have as many entries as {first} ({len(one)}), got {len(other)}.")


def plain(array: NDArray[Any]) -> Any:
    """A float for one number, the array otherwise."""
    return float(array) if np.ndim(array) == 0 else np.asarray(array)


def _refuse(name: str, array: NDArray[np.float64], allowed: NDArray[np.bool_], rule: str) -> None:
    if not np.all(allowed):
        raise InputError(f"{name} must {rule}, got {float(array[~allowed].flat[0])}.")
