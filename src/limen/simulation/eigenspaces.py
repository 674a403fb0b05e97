"""Inputs of several variances at finite size: the coordinates of each, and directions spread evenly over them."""

import numpy as np

from limen.problem import InputError
from limen.problem.inputs import InputVariances


def coordinate_variances(variances: InputVariances, d: int) -> np.ndarray:
    """The variance of every coordinate, shape (d,): equal ones side by side, their numbers within one of $w_sd$."""
    ends = np.rint(np.cumsum(variances.fractions) * d).astype(int)
    return np.repeat(variances.values, np.diff(ends, prepend=0))


def even_directions(variances: InputVariances, latents: int, d: int) -> np.ndarray:
    r"""Orthonormal rows $\theta_{*r}$ (latents, d) with weight exactly $w_s$ in each eigenspace.

    Row $r$ is $\sum_s\sqrt{w_s}$ times the axis number $r$ of eigenspace $s$, so that
    $\Theta_*^\top\Sigma\Theta_*=I$ exactly; which axes they are does not matter for Gaussian inputs.
    """
    sizes = np.diff(np.rint(np.cumsum(variances.fractions) * d).astype(int), prepend=0)
    if sizes.min() < latents:
        raise InputError(f"d must give every variance at least {latents} dimensions, got d = {d}.")
    first = np.cumsum(sizes) - sizes
    rows = np.zeros((latents, d))
    for r in range(latents):
        rows[r, first + r] = np.sqrt(variances.fractions)
    return rows
