"""Frozen scrambled Sobol normals: a deterministic stand-in for a large Gaussian sample."""

import numpy as np

from limen.problem.spec import InputError

MOST_DIMENSIONS = 21201  # of the direction numbers that SciPy ships
_SPACING = 2.0**-31


def sobol_normals(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    r"""Standard normals from an Owen-scrambled Sobol sequence, shape (count, dimension), float64.

    The same arguments always give the same points, so that an average over them is a smooth deterministic
    function of its parameters; for smooth integrands its error falls nearly like 1/count. `count` must be a
    power of two, without which the points lose their balance. Points on the grid of spacing $2^{-30}$ are
    moved by half a spacing, which keeps them off 0 and 1.

    Source: Owen 1998, "Scrambling Sobol' and Niederreiter-Xing points".
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    if count < 1 or count & (count - 1):
        raise InputError(f"count must be a power of two, got {count}.")
    if not 1 <= dimension <= MOST_DIMENSIONS:
        raise InputError(f"dimension must be between 1 and {MOST_DIMENSIONS}, got {dimension}.")
    if count > 1 << 30:
        raise InputError(f"count must be at most 2**30, got {count}.")
    sequence = qmc.Sobol(dimension, scramble=True, bits=30, rng=np.random.default_rng(seed))
    return ndtri(sequence.random_base2(count.bit_length() - 1) + _SPACING)
