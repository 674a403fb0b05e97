r"""The spectral estimator on drawn data: leading eigenvector of $\frac1n\sum_iT(y_i)x_ix_i^\top$."""

from collections.abc import Callable, Sequence

import numpy as np

from limen.problem import InputError
from limen.problem.inputs import Inputs
from limen.problem.targets import Target
from limen.simulation.spectra.spectrum import top_eigenspace, weighted_gram
from limen.simulation.thresholds.single_index import draw_single_index, planted_direction


def spectral_overlaps(
    target: Target,
    weight: Callable[[np.ndarray], np.ndarray],
    samples_per_dim: float,
    dimension: int,
    seeds: Sequence[int],
    inputs: Inputs | None = None,
) -> np.ndarray:
    """Squared cosines of the leading eigenvector with the direction of the labels, one per seed.

    `weight` maps labels to $T(y)$. Cost per seed: some dozens of products with the $n\\times d$ data.
    """
    if not dimension >= 3:
        raise InputError(f"dimension must be at least 3, got {dimension}.")
    direction = np.eye(1, dimension)[0] if inputs is None else planted_direction(inputs, dimension)
    direction = direction / np.linalg.norm(direction)
    found = []
    for seed in seeds:
        rows, labels = draw_single_index(target, samples_per_dim, dimension, seed, inputs)
        space = top_eigenspace(weighted_gram(rows, np.asarray(weight(labels))), dimension, 1, seed)
        vector = np.ravel(space.vectors)
        found.append(float(vector @ direction) ** 2)
    return np.array(found)
