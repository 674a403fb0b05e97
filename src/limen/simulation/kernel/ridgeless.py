"""Least squares without penalty at finite size: the normal equations, least norm where they have many solutions."""

from typing import NamedTuple

import numpy as np

from limen.problem.spec import InputError
from limen.simulation.kernel.least_squares import LeastSquaresData


class RidgelessErrors(NamedTuple):
    """Mean squares: the excess risk, its part without label noise, the part due to label noise alone (in between the
    two stands their cross term), and the residual on the training set."""

    excess: float
    bias: float
    variance: float
    train: float


class InterpolatorRisk(NamedTuple):
    """Mean squares of an interpolator for one draw of the inputs, label noise averaged: bias and variance."""

    bias: float
    variance: float


def interpolator_risk_of_inputs(data: LeastSquaresData, noise: float) -> InterpolatorRisk:
    r"""Risk of $b=X^+y$ for $n<p$ given $X$ and $\beta$, with the mean over labels $y=X\beta+\varepsilon$ taken
    exactly: the variance is $\sigma^2\operatorname{tr}(X^{+\top}\Sigma X^+)$. $O(n^2p)$.
    """
    # X^T = QR, so that the inverse sees the condition number of X and not its square.
    basis, triangle = np.linalg.qr(data.inputs.T)
    kept = basis @ (basis.T @ data.coefficients)
    spread = np.linalg.solve(triangle, (basis.T * np.sqrt(data.variances)))
    return InterpolatorRisk(float(data.variances @ (kept - data.coefficients) ** 2), float(noise * np.sum(spread**2)))


def ridgeless_errors(data: LeastSquaresData) -> RidgelessErrors:
    r"""Errors of $b=X^+y$, and of the same fit to $X\beta$ and to $\varepsilon$ apart; exact given the data.

    One linear system of size $\min(n,p)$, $O(np\min(n,p))$; $n=p$ is refused, being singular for all purposes.
    """
    samples, dimension = data.inputs.shape
    if samples == dimension:
        raise InputError(f"ratio must differ from 1, got {samples} samples in {dimension} dimensions.")
    clean = data.inputs @ data.coefficients
    labels = np.stack([clean, data.labels - clean], axis=1)
    if samples > dimension:
        fits = np.linalg.solve(data.inputs.T @ data.inputs, data.inputs.T @ labels)
    else:
        fits = data.inputs.T @ np.linalg.solve(data.inputs @ data.inputs.T, labels)
    missed, disturbance = fits[:, 0] - data.coefficients, fits[:, 1]
    bias, variance = (float(data.variances @ error**2) for error in (missed, disturbance))
    excess = float(data.variances @ (missed + disturbance) ** 2)
    residual = data.labels - data.inputs @ fits.sum(axis=1)
    return RidgelessErrors(excess, bias, variance, float(np.mean(residual**2)))
