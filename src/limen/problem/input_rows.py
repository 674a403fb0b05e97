"""Rows of data as the inputs of a problem: on their principal axes, held by a digest."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limen.problem.spec import Held, InputError

# Directions with less than this part of the largest variance are rounding.
ROUNDING = 1e-10
# Fewest directions of one eigenspace: as many latent directions can lie in all of them.
FEWEST_DIRECTIONS = 4


@dataclass(frozen=True, eq=False)
class InputRows(Held):
    """`rows` (N, d), centred, on the principal axes in the order of ascending `variances` (d,), whose mean is 1.

    Equal to other rows of the same digest. A description names them and does not hold them.
    """

    rows: np.ndarray
    variances: np.ndarray
    digest: str
    name: str

    def describe(self) -> dict[str, Any]:
        """Name, digest and shape."""
        return {"name": self.name, "digest": self.digest, "shape": list(self.rows.shape)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputRows) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def principal_rows(X: ArrayLike, name: str) -> InputRows:
    """Rows (N, columns) as inputs: centred, turned to their principal axes, scaled to variance 1 on average; directions
    without variance are left out."""
    raw = np.asarray(X)
    if raw.dtype.kind not in "biuf" or raw.ndim != 2:
        raise InputError(f"X must be numbers of shape (samples, columns), got {raw.dtype} of shape {raw.shape}.")
    rows = np.asarray(raw, dtype=float)
    if not np.isfinite(rows).all():
        raise InputError(f"X must be finite: {int((~np.isfinite(rows)).any(axis=1).sum())} rows have NaN or infinity.")
    if len(rows) < 2 * FEWEST_DIRECTIONS:
        raise InputError(f"X must have at least {2 * FEWEST_DIRECTIONS} rows, got {len(rows)}.")
    centred = rows - rows.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(rows))
    kept = values > ROUNDING * max(values[-1], 1e-300)
    if kept.sum() < FEWEST_DIRECTIONS or values[-1] <= 0.0:
        raise InputError(f"X must vary in at least {FEWEST_DIRECTIONS} directions, got {int(kept.sum())}.")
    mean = values[kept].mean()
    turned = centred @ axes[:, kept] / np.sqrt(mean)
    turned.flags.writeable = False
    digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()[:16]
    return InputRows(turned, values[kept] / mean, digest, name)


def eigenspaces(variances: np.ndarray, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean variances and fractions of at most `blocks` eigenspaces, of equal ranges in the logarithm of the ascending
    `variances` (d,); neighbours are joined until each has four directions."""
    logs = np.log(variances)
    edges = np.linspace(logs[0], logs[-1], blocks + 1)[1:-1]
    counts: list[int] = []
    for count in np.diff(np.searchsorted(logs, edges), prepend=0, append=len(logs)):
        if counts and (counts[-1] < FEWEST_DIRECTIONS):
            counts[-1] += int(count)
        elif count:
            counts.append(int(count))
    if len(counts) > 1 and counts[-1] < FEWEST_DIRECTIONS:
        counts[-2:] = [sum(counts[-2:])]
    parts = np.split(variances, np.cumsum(counts)[:-1])
    return np.array([part.mean() for part in parts]), np.array(counts) / len(variances)
