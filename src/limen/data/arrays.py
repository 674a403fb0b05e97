"""Inputs and labels as regression takes them: checked, columns of mean 0 and variance 1, classes as coordinates."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.data.table import FEWEST_ROWS, MOST_CLASSES
from limen.problem.spec import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Arrays:
    """Standardised `inputs` (N, d), centred `labels` (N, outputs), the `classes` they stand for (empty for numbers),
    how many constant columns were left out, and a digest of all of it."""

    inputs: Floats
    labels: Floats
    classes: tuple[str, ...]
    dropped: int
    digest: str

    @property
    def said(self) -> str:
        """What a status says about the data."""
        rows, columns = self.inputs.shape
        text = f"{rows} rows, {columns} columns"
        if self.dropped:
            text += f" ({self.dropped} constant ones left out)"
        return text + (f", {len(self.classes)} classes" if self.classes else "")


def checked_inputs(X: ArrayLike) -> tuple[Floats, int]:
    """Columns of mean 0 and variance 1, constant ones left out and counted; what cannot be learnt from is refused."""
    try:
        raw = np.asarray(X)
    except ValueError:
        raise InputError("X must have rows of equal length.") from None
    if raw.dtype.kind not in "biuf":
        raise InputError(f"X must hold numbers, got {raw.dtype}.")
    inputs = np.asarray(raw, dtype=float)
    if inputs.ndim != 2:
        raise InputError(f"X must have shape (samples, columns), got {inputs.shape}.")
    if len(inputs) < FEWEST_ROWS:
        raise InputError(f"X must have at least {FEWEST_ROWS} rows, got {len(inputs)}.")
    bad = ~np.isfinite(inputs)
    if bad.any():
        column, rows = int(bad.any(axis=0).argmax()), int(bad.any(axis=1).sum())
        raise InputError(
            f"X must be finite: {rows} row{'s have' if rows > 1 else ' has'} NaN or infinity, first in column {column}."
        )
    # By its largest entry first: squares of very large numbers overflow.
    largest = np.abs(inputs).max(axis=0)
    inputs = inputs / np.where(largest > np.finfo(float).tiny, largest, 1.0)
    spread = inputs.std(axis=0)
    kept = spread > 1e-12
    if not kept.any():
        raise InputError(f"X must have a column that is not constant, all {kept.size} are.")
    return (inputs[:, kept] - inputs[:, kept].mean(axis=0)) / spread[kept], int((~kept).sum())


def checked_arrays(X: ArrayLike, y: ArrayLike) -> Arrays:
    """Inputs and labels, checked. Text, booleans, or up to 50 different whole numbers are classes: one coordinate per
    class, centred. Other numbers are centred and divided by their standard deviation."""
    inputs, dropped = checked_inputs(X)
    given = np.asarray(y)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.shape != (len(inputs),):
        raise InputError(f"y must have one entry per row of X ({len(inputs)}), got shape {given.shape}.")
    missing = sum(value is None or value != value for value in given.tolist()) if given.dtype.kind == "O" else 0
    if missing:
        raise InputError(f"y must have no missing entries, got {missing}: leave these rows out.")
    classes: tuple[str, ...] = ()
    if _names_classes(given):
        values, place = np.unique(given.astype(str) if given.dtype.kind not in "biuf" else given, return_inverse=True)
        if values.size > MOST_CLASSES:
            raise InputError(f"y must have at most {MOST_CLASSES} classes, got {values.size}.")
        classes = tuple(str(value) for value in values)
        labels = np.eye(values.size)[place]
    else:
        numbers = np.asarray(given, dtype=float)[:, None]
        if not np.isfinite(numbers).all():
            bad = int((~np.isfinite(numbers)).sum())
            raise InputError(f"y must be finite: {bad} entr{'ies are' if bad > 1 else 'y is'} NaN or infinite.")
        numbers = numbers / (np.abs(numbers).max() or 1.0)
        labels = numbers / (numbers.std() or 1.0)
    if np.ptp(labels, axis=0).max() == 0.0:
        raise InputError("y must not be constant.")
    labels = labels - labels.mean(axis=0)
    digest = hashlib.sha256(np.ascontiguousarray(inputs).tobytes() + labels.tobytes()).hexdigest()[:16]
    return Arrays(inputs, labels, classes, dropped, digest)


def _names_classes(values: NDArray[Any]) -> bool:
    if values.dtype.kind not in "biuf":
        return True
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.round(values)).all()):
        return False
    # Whole numbers that hardly repeat (ages, counts) are numbers.
    return np.unique(values).size <= min(MOST_CLASSES, max(2, len(values) // 10))
