r"""The spectral estimator on drawn data: leading eigenvector of $\frac1n\sum_iT(y_i)x_ix_i^\top$."""

from collections.abc import Callable, Sequence

import numpy as np

from limen.problem import InputError
from limen.problem.targets import Target
from limen.simulation.spectra.spectrum import top_eigenspace, weighted_gram
from limen.simulation.thresholds.single_index import draw_single_index


def spectral_overlaps(
    target: Target,
    weight: Callable[[np.ndarray], np.ndarray],
    samples_per_dim: float,
    dimension: int,
    seeds: Sequence[int],
) -> np.ndarray:
    """Squared cosines of the leading eigenvector with the direction of the labels, one per seed.

    `weight` maps labels to $T(y)$. Cost per seed: some dozens of products with the $n\\times d$ data.
    """
    if not dimension >= 3:
        raise InputError(f"dimension must be at least 3, got {dimension}.")
    found = []
    for seed in seeds:
        rows, labels = draw_single_index(target, samples_per_dim, dimension, seed)
        space = top_eigenspace(weighted_gram(rows, np.asarray(weight(labels))), dimension, 1, seed)
        found.append(space.vectors[0, 0] ** 2)
    return np.array(found)
