"""Seeds as people give them: a number of them, or a list."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from limen.problem.spec import InputError


def seed_list(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """`8` means 0..7; a list or an array of whole numbers is taken as it is."""
    if isinstance(seeds, np.ndarray) and seeds.ndim == 1:
        seeds = seeds.tolist()
    if isinstance(seeds, Sequence) and not isinstance(seeds, str):
        if any(isinstance(seed, bool) or not _is_whole(seed) for seed in seeds):
            raise InputError(f"seeds must be whole numbers, got {list(seeds)!r}.")
        if not seeds or any(seed < 0 for seed in seeds) or len(set(seeds)) != len(seeds):
            raise InputError(f"seeds must be distinct and not negative, got {list(seeds)!r}.")
        return tuple(int(seed) for seed in seeds)
    if whole("seeds", seeds) < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}.")
    return tuple(range(int(seeds)))


def whole(name: str, value: Any) -> int:
    """A positive whole number, or one sentence about what is not."""
    if value is None:
        raise InputError(f"{name} is required.")
    if np.ndim(value):
        raise InputError(f"{name} must be one positive whole number, got {list(value)!r}: ask for each by itself.")
    if isinstance(value, bool) or not _is_whole(value) or value < 1:
        raise InputError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def _is_whole(value: Any) -> bool:
    try:
        return int(value) == value
    except (TypeError, ValueError, OverflowError):
        return False
