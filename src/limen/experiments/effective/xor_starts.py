"""Starts of XOR networks for the gallery: one draw for all runs, so that theory and simulations share it."""

import numpy as np

from limen.problem import OverlapStart


def random_start(width: int, overlap: float, draw: int) -> tuple[OverlapStart, np.ndarray]:
    r"""Overlaps $N(0,\mathrm{overlap}^2)$ with both means and a second layer $N(0,1)$, orthogonal parts orthonormal."""
    normals = np.random.default_rng([draw, width]).standard_normal((width, 3))
    return _overlaps(overlap * normals[:, :2]), normals[:, 2]


def directed_start(width: int, clouds: int, overlap: float, draw: int) -> tuple[OverlapStart, np.ndarray]:
    r"""Neuron $i$ leans towards cloud $i$ mod `clouds` of $+\mu,+\nu,-\mu,-\nu$, by `overlap` and a sign of $v_i$.

    Lengths vary by a half around `overlap` and $\frac34$; the overlap with the other mean is a tenth.
    """
    generator = np.random.default_rng([draw, width, clouds])
    lengths = overlap * generator.uniform(0.5, 1.5, width)
    aside = 0.1 * overlap * generator.standard_normal(width)
    second = generator.uniform(0.5, 1.0, width)
    overlaps = np.empty((width, 2))
    for i in range(width):
        cloud = i % clouds
        axis, sign = cloud % 2, 1.0 if cloud < 2 else -1.0
        overlaps[i, axis], overlaps[i, 1 - axis] = sign * lengths[i], aside[i]
        second[i] *= 1.0 - 2.0 * axis
    return _overlaps(overlaps), second


def _overlaps(values: np.ndarray) -> OverlapStart:
    return OverlapStart(tuple((float(one), float(other)) for one, other in values))
