"""Where a vector on the unit sphere starts, shared by simulation and by theories paired with it, seed by seed."""

from collections.abc import Sequence

import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.problem.families.effective_models import sphere_start_overlap
from limen.problem.spec import InputError
from limen.problem.starts import OverlapStart, Start

LARGEST_D = 2**32 - 1  # sizes enter random keys as 32 bits
SMALLEST_D = 3  # one direction along the signal, one along the rest of the vector, one for everything else


def check_dimension(d: int) -> None:
    """Refuses a dimension below 3 or beyond what a random key holds."""
    if not SMALLEST_D <= d <= LARGEST_D:
        raise InputError(f"d must be between {SMALLEST_D} and {LARGEST_D}, got {d}.")


def sphere_start_overlaps(start: Start, d: int, seeds: Sequence[int]) -> np.ndarray:
    r"""Overlaps $m_0=\langle x,\theta\rangle$, shape (seeds,), of starts on $S^{d-1}$.

    Uniform: $m_0=\xi/\sqrt{\xi^2+\chi^2_{d-1}}$, whatever $d$ at the same cost; `OverlapStart`: its overlap.
    """
    check_dimension(d)
    if isinstance(start, OverlapStart):
        return np.full(len(seeds), sphere_start_overlap(start))
    draws = [(g.standard_normal(), g.chisquare(d - 1)) for g in numpy_generators(seeds, d, "start overlap")]
    along, rest = np.array(draws).T
    return along / np.sqrt(along**2 + rest)


def orthogonal_directions(d: int, seeds: Sequence[int]) -> np.ndarray:
    r"""Independent uniform unit vectors, shape (seeds, d), orthogonal to the first axis."""
    check_dimension(d)
    rest = np.zeros((len(seeds), d))
    for row, generator in zip(rest, numpy_generators(seeds, d, "start direction"), strict=True):
        generator.standard_normal(out=row[1:])
    return rest / np.linalg.norm(rest, axis=1, keepdims=True)
