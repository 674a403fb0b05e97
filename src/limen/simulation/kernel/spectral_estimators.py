r"""Estimators that fit a part $q(s)$ of the labels along each singular vector of the data."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError

Floats = NDArray[np.float64]
Shrinkage = Callable[[Floats], Floats]


@dataclass(frozen=True)
class RegressionErrors:
    """`test`: excess risk (mean square against the noiseless target); `train`: mean squared residual. One row per seed
    and one column per estimator."""

    test: Floats
    train: Floats


def stacked(runs: list[RegressionErrors]) -> RegressionErrors:
    """Runs of several seeds as one."""
    return RegressionErrors(np.array([run.test for run in runs]), np.array([run.train for run in runs]))


def ridge_shrinkages(ridge: ArrayLike) -> list[Shrinkage]:
    r"""$q(s)=\frac s{s+\lambda}$ for each penalty."""
    return [_ridge(penalty) for penalty in _non_negative("ridge", ridge)]


def flow_shrinkages(time: ArrayLike) -> list[Shrinkage]:
    r"""$q(s)=1-e^{-ts}$ for each time."""
    return [_flow(duration) for duration in _non_negative("time", time)]


def _ridge(penalty: float) -> Shrinkage:
    return lambda eigenvalues: eigenvalues / (eigenvalues + penalty)


def _flow(duration: float) -> Shrinkage:
    return lambda eigenvalues: -np.expm1(-duration * eigenvalues)


def _non_negative(name: str, value: ArrayLike) -> Floats:
    array = np.atleast_1d(np.asarray(value, dtype=float))
    if not (array >= 0).all():
        raise InputError(f"{name} must be non-negative, got {float(array[~(array >= 0)][0])}.")
    return array
