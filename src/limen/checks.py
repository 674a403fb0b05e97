"""Checks of what users pass: one sentence each, naming the argument, the value found and what is allowed.

Singular names return one number (`positive`), plural names arrays of any shape (`positives`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError

Floats = NDArray[np.float64]
# Random keys fold a size in as a word of 32 bits, and hold a seed in a signed one of 64.
LARGEST_SIZE, LARGEST_SEED = 2**32 - 1, 2**63 - 1
# Rows of one answer; more would fill the memory before the first is computed.
MOST_SEEDS = 10**7


def reals(name: str, value: ArrayLike) -> Floats:
    """Finite real numbers."""
    array = _numbers(name, value)
    _refuse(name, array, np.isfinite(array), "be finite")
    return array


def reals_or_infinite(name: str, value: ArrayLike) -> Floats:
    """Real numbers, both infinities included."""
    return _numbers(name, value)


def positives(name: str, value: ArrayLike) -> Floats:
    """Finite numbers greater than 0."""
    array = _numbers(name, value)
    _refuse(name, array, (array > 0.0) & np.isfinite(array), "be positive and finite")
    return array


def positives_or_infinite(name: str, value: ArrayLike) -> Floats:
    """Numbers greater than 0, infinity included."""
    array = _numbers(name, value)
    _refuse(name, array, array > 0.0, "be positive")
    return array


def non_negatives(name: str, value: ArrayLike) -> Floats:
    """Finite numbers that are at least 0."""
    array = _numbers(name, value)
    _refuse(name, array, (array >= 0.0) & np.isfinite(array), "be non-negative and finite")
    return array


def integers(name: str, value: ArrayLike, least: int) -> NDArray[np.int64]:
    """Whole numbers that are at least `least`."""
    array = reals(name, value)
    _refuse(name, array, (array == np.round(array)) & (array >= least), f"be whole numbers of at least {least}")
    return array.astype(np.int64)


def number(name: str, value: Any) -> float:
    """One finite real number."""
    return _one(name, reals(name, value))


def positive(name: str, value: Any) -> float:
    """One finite number greater than 0."""
    return _one(name, positives(name, value))


def positive_or_infinite(name: str, value: Any) -> float:
    """One number greater than 0, or infinity."""
    return _one(name, positives_or_infinite(name, value))


def non_negative(name: str, value: Any) -> float:
    """One finite number that is at least 0."""
    return _one(name, non_negatives(name, value))


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


def whole(name: str, value: Any) -> int:
    """One positive whole number; several are refused with the way to ask for them."""
    if value is None:
        raise InputError(f"{name} is required.")
    if np.ndim(value):
        raise InputError(f"{name} must be one positive whole number, got {list(value)!r}: ask for each by itself.")
    if isinstance(value, bool) or not _is_whole(value) or value < 1:
        raise InputError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def dimension(value: Any) -> int:
    """The size d of training: a positive whole number that random keys can hold."""
    d = whole("d", value)
    if d > LARGEST_SIZE:
        raise InputError(f"d must be at most {LARGEST_SIZE}, got {value!r}.")
    return d


def power_of_two(name: str, value: Any) -> int:
    """One power of two."""
    if not _is_whole(value) or value < 1 or int(value) & (int(value) - 1):
        raise InputError(f"{name} must be a power of two, got {value!r}.")
    return int(value)


def seed_list(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """`8` means 0..7; a list or an array of whole numbers is taken as it is."""
    if not isinstance(seeds, Sequence) and np.ndim(seeds) == 1:
        seeds = np.asarray(seeds).tolist()
    if isinstance(seeds, Sequence) and not isinstance(seeds, str):
        if any(isinstance(seed, bool) or not _is_whole(seed) for seed in seeds):
            raise InputError(f"seeds must be whole numbers, got {list(seeds)!r}.")
        if not seeds:
            raise InputError("seeds must be at least one whole number, got [].")
        if any(seed < 0 for seed in seeds) or len(set(seeds)) != len(seeds):
            raise InputError(f"seeds must be distinct and not negative, got {list(seeds)!r}.")
        if max(seeds) > LARGEST_SEED:
            raise InputError(f"seeds must be at most {LARGEST_SEED}, got {int(max(seeds))}.")
        return tuple(int(seed) for seed in seeds)
    count = whole("seeds", seeds)
    if count > MOST_SEEDS:
        raise InputError(f"seeds must be at most {MOST_SEEDS} where it counts them, got {seeds!r}.")
    return tuple(range(count))


def vector(name: str, value: ArrayLike) -> Floats:
    """A list of finite, non-negative numbers; one number counts as a list of one."""
    array = np.atleast_1d(non_negatives(name, value))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a non-empty list of numbers, got shape {array.shape}.")
    return array


def increasing_times(value: ArrayLike) -> Floats:
    """A non-empty, increasing list of non-negative times; one number counts as a list of one."""
    array = np.atleast_1d(reals("times", value))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"times must be a non-empty list of numbers, got shape {array.shape}.")
    if array[0] < 0.0 or (np.diff(array) <= 0.0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    return array


def square_matrix(name: str, value: ArrayLike) -> Floats:
    """A finite square matrix of size at least 2."""
    array = reals(name, value)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 2:
        raise InputError(f"{name} must be a square matrix of size at least 2, got shape {array.shape}.")
    return array


def sample_matrix(name: str, value: ArrayLike) -> Floats:
    """A non-empty matrix of finite numbers, one row per sample."""
    matrix = reals(name, value)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{name} must be a non-empty matrix with one row per sample, got shape {matrix.shape}.")
    return matrix


def broadcast(**arguments: Floats) -> list[Floats]:
    """The arguments with one common shape."""
    try:
        return list(np.broadcast_arrays(*arguments.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arguments.items())
        raise InputError(f"arguments must have shapes that broadcast together, got {shapes}.") from None


def same_length(first: str, one: Floats, second: str, other: Floats) -> None:
    """Refuses lists of different lengths."""
    if len(one) != len(other):
        raise InputError(f"{second} must have as many entries as {first} ({len(one)}), got {len(other)}.")


def plain(array: Any) -> Any:
    """A float for one number, the array otherwise."""
    return float(array) if np.ndim(array) == 0 else np.asarray(array)


def _numbers(name: str, value: ArrayLike) -> Floats:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a real number or an array of them, got {value!r}.") from None
    if np.isnan(array).any():
        raise InputError(f"{name} must not be NaN.")
    return array


def _one(name: str, array: Floats) -> float:
    if array.ndim:
        raise InputError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(array)


def _refuse(name: str, array: Floats, allowed: NDArray[np.bool_], rule: str) -> None:
    if not np.all(allowed):
        raise InputError(f"{name} must {rule}, got {float(array[~np.asarray(allowed)].flat[0])}.")


def _is_whole(value: Any) -> bool:
    try:
        return int(value) == value
    except (TypeError, ValueError, OverflowError):
        return False
