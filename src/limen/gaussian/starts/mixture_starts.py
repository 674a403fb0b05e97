r"""Summary statistics of the starts of the mixtures, without the vectors; shared by theory and simulators.

Rows $x^c\sim N(0,I_d/d)$ split into coordinates on the $q$ directions of the means, $N(0,1/d)$ each, and the rest,
whose Gram matrix is that of Gaussian vectors in $d-q$ dimensions. Both are drawn exactly, whatever $d$.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from limen.gaussian.bartlett import bartlett_factor
from limen.gaussian.gram_matrices import gram_matrix, square_root
from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.problem.starts import OverlapStart, overlap_matrix


class StartStatistics(NamedTuple):
    r"""`aligned` (..., rows, q); `factor` (..., rows, rows) with $R=LL^\top$; `second_layer` (..., rows)."""

    aligned: np.ndarray
    factor: np.ndarray
    second_layer: np.ndarray

    @property
    def orthogonal_gram(self) -> np.ndarray:
        r"""$R$, shape (..., rows, rows)."""
        return self.factor @ np.swapaxes(self.factor, -1, -2)


@in_double
def drawn_start(rows: int, directions: int, d: int, seeds: Sequence[int]) -> StartStatistics:
    r"""Statistics of `rows` vectors $N(0,I_d/d)$ and `directions` fixed directions; second layers $N(0,1)$.

    One start per seed along the first axis. Training in $d$ dimensions starts from these very numbers: rotations that
    fix the means leave its law unchanged.
    """
    if d <= rows + directions:
        raise InputError(f"d must exceed {rows + directions} (rows of weights plus means), got {d}.")
    factor = bartlett_factor(stream_keys(seeds, d, "mixture rest"), rows, d - directions)
    shape = (rows, directions + 1)
    normals = np.stack([np.random.default_rng([seed, d, rows, directions]).standard_normal(shape) for seed in seeds])
    return StartStatistics(
        normals[..., :directions] / np.sqrt(d), factor * np.sqrt((d - directions) / d), normals[..., directions]
    )


def given_start(start: OverlapStart, means: np.ndarray, rows: int, second_layer: Any = None) -> StartStatistics:
    r"""Statistics of a start with given overlaps $\langle x^c,\mu_a\rangle$ (rows, means), or one number for all.

    `means` are the coordinates of the means, one per row, in an orthonormal basis of their span. Without a Gram matrix
    of whole rows, $R$ is the identity. `second_layer` is ones if not given.
    """
    count = len(means)
    try:
        overlap = overlap_matrix(start, rows, count)
    except ValueError:
        raise InputError(f"overlap must be a number or have shape ({rows}, {count}).") from None
    aligned = np.linalg.solve(means, overlap.T).T
    second = np.ones(rows) if second_layer is None else np.asarray(second_layer, dtype=float)
    if second.shape != (rows,) or not np.isfinite(second).all():
        raise InputError(f"second_layer must be {rows} finite numbers, one per neuron, got shape {second.shape}.")
    if start.gram is None:
        return StartStatistics(aligned, np.eye(rows), second)
    whole = np.asarray(start.gram, dtype=float)
    if whole.shape != (rows, rows):
        raise InputError(f"gram must have shape ({rows}, {rows}), got {whole.shape}.")
    rest = gram_matrix(whole - aligned @ aligned.T, rows, "gram minus the part of the overlaps")
    return StartStatistics(aligned, square_root(rest), second)
