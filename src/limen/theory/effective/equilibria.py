r"""Zeros of an estimated drift and their stability.

Samples are common to all values of the statistics, so the estimated drift $b(u)$ is a fixed smooth function and
Broyden's method from central differences applies; its zero is off by $(\partial b)^{-1}$ times the error of the drift.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from limen.problem.spec import InputError
from limen.theory.effective.estimates import Estimate

MOST_STEPS = 30
# Of 1 + |u|, for central differences: coarse enough to average over the kinks of a sampled ReLU.
DIFFERENCE = 5e-3


class FixedPoint(NamedTuple):
    """A zero of the effective drift, its standard error, the eigenvalues of the linearised drift (largest real part
    first), and whether all have negative real part."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]
    stable: bool


def find_fixed_points(
    drift: Callable[[NDArray[np.float64]], Estimate], guesses: Sequence[NDArray[np.float64]]
) -> list[FixedPoint]:
    """Broyden's method from every guess; zeros that coincide within their errors are given once.

    A guess from which the method leaves the values the statistics can take, or does not settle, is refused.
    """
    found: list[FixedPoint] = []
    for guess in guesses:
        point = _found_from(drift, guess)
        if not any(_coincide(point, other) for other in found):
            found.append(point)
    return found


def _found_from(drift: Callable[[NDArray[np.float64]], Estimate], guess: NDArray[np.float64]) -> FixedPoint:
    value = guess.copy()
    estimate = drift(value)
    try:
        slope = _slope(drift, value)
        for _ in range(MOST_STEPS):
            shift = -np.linalg.lstsq(slope, estimate.value, rcond=1e-10)[0]
            before = value, estimate
            value, estimate = _line_search(drift, value, estimate, shift)
            moved = value - before[0]
            if np.abs(moved).max() <= 1e-7 * (1.0 + np.abs(value).max()):
                break
            # Broyden: the slope is corrected along the step just made.
            missing = estimate.value - before[1].value - slope @ moved
            slope = slope + np.outer(missing, moved) / (moved @ moved)
        slope = _slope(drift, value)
    except InputError as error:
        raise InputError(f"no fixed point was found from {guess.tolist()}: {error}") from None
    if np.any(np.abs(estimate.value) > np.maximum(estimate.error, 1e-6)):
        raise InputError(
            f"no fixed point was found from {guess.tolist()}: the drift is still {np.abs(estimate.value).max():.2g} at "
            f"{np.round(value, 4).tolist()}."
        )
    eigenvalues: NDArray[np.complex128] = np.asarray(np.linalg.eigvals(slope), dtype=np.complex128)
    eigenvalues = eigenvalues[np.argsort(-eigenvalues.real)]
    inverse = np.linalg.pinv(slope)
    error = np.sqrt((inverse**2) @ (estimate.error**2))
    return FixedPoint(value, error, eigenvalues, bool(eigenvalues.real.max() < 0.0))


def _line_search(drift, value, estimate, shift):
    size = np.linalg.norm(estimate.value)
    for halving in range(12):
        trial = value + 0.5**halving * shift
        try:
            found = drift(trial)
        except InputError:
            continue
        if np.linalg.norm(found.value) < size:
            return trial, found
    return value, estimate


def _slope(drift: Callable[[NDArray[np.float64]], Estimate], value: NDArray[np.float64]) -> NDArray[np.float64]:
    columns = []
    for i, entry in enumerate(value):
        shift = np.zeros_like(value)
        shift[i] = DIFFERENCE * (1.0 + abs(entry))
        columns.append((drift(value + shift).value - drift(value - shift).value) / (2.0 * shift[i]))
    return np.stack(columns, axis=1)


def _coincide(one: FixedPoint, other: FixedPoint) -> bool:
    # Both come from the same samples: equal zeros differ by far less than their errors.
    return bool(np.all(np.abs(one.value - other.value) <= 1e-3 * (1.0 + np.abs(one.value))))
