"""Ridge regression on the first N of many drawn features, by linear systems: a whole curve in N from one draw."""

from collections.abc import Sequence

import numpy as np

from limen.problem.spec import InputError
from limen.simulation.kernel.random_features import RandomFeaturesData
from limen.simulation.kernel.spectral_estimators import RegressionErrors


def ridge_errors_by_width(data: RandomFeaturesData, widths: Sequence[int], ridge: Sequence[float]) -> RegressionErrors:
    r"""Errors of the minimiser of $\frac1n\sum_i(y_i-f(x_i))^2+\frac{N\lambda}d\|a\|^2$ on the first $N$ features.

    One row per $N$ in `widths`, one column per $\lambda>0$ in `ridge`. With $c=\frac{nN\lambda}d$ the coefficients are
    $(\Phi^\top\Phi+c)^{-1}\Phi^\top y=\Phi^\top(\Phi\Phi^\top+c)^{-1}y$, whichever system is smaller.
    $O(nN\min(n,N))$ for each $N$.
    """
    if min(ridge) <= 0.0:
        raise InputError(f"ridge must be positive, got {min(ridge)}.")
    samples = len(data.labels)
    test, train = np.empty((2, len(widths), len(ridge)))
    for i, width in enumerate(widths):
        features, fresh = data.train_features[:, :width], data.test_features[:, :width]
        wide = width > samples
        gram = features @ features.T if wide else features.T @ features
        right = data.labels if wide else features.T @ data.labels
        for j, penalty in enumerate(ridge):
            shift = samples * width * penalty / data.dimension
            solution = np.linalg.solve(gram + shift * np.eye(len(gram)), right)
            coefficients = features.T @ solution if wide else solution
            test[i, j] = np.mean((fresh @ coefficients - data.test_target) ** 2)
            train[i, j] = np.mean((data.labels - features @ coefficients) ** 2)
    return RegressionErrors(test, train)
