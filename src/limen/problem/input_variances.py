"""Inputs of several variances: the eigenvalues of their covariance and how many dimensions each has."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limen.problem.spec import InputError


class InputVariances(NamedTuple):
    r"""Eigenvalues $s$ of the covariance of the inputs and their fractions $w_s$, $\sum_sw_ss=1$; shapes (S,)."""

    values: np.ndarray
    fractions: np.ndarray

    @property
    def isotropic(self) -> bool:
        """Whether there is one eigenvalue only."""
        return self.values.size == 1


def input_variances(values: Sequence[float], fractions: Sequence[float]) -> InputVariances:
    r"""Checks eigenvalues and fractions: positive, fractions summing to one, mean eigenvalue one."""
    s, w = np.atleast_1d(np.asarray(values, dtype=float)), np.atleast_1d(np.asarray(fractions, dtype=float))
    if s.ndim != 1 or s.shape != w.shape:
        raise InputError(f"variances and fractions must be lists of one length, got {s.shape} and {w.shape}.")
    if not ((s > 0).all() and (w > 0).all()):
        raise InputError("variances and fractions must be positive.")
    if abs(w.sum() - 1.0) > 1e-9 or abs(w @ s - 1.0) > 1e-9:
        raise InputError(
            f"fractions must sum to 1 and variances average to 1, got {w.sum():.6g} and {w @ s:.6g}: rescale them."
        )
    return InputVariances(s, w)
