r"""Plain gradient descent on least squares from any start, run until it interpolates or stops moving."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError
from limen.simulation.least_squares import draw_least_squares
from limen.simulation.spectral_estimators import RegressionErrors, stacked

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeastSquaresDescent:
    r"""End of a run: `coefficients` (p,), the `steps` it took, the last `gradient_norm`, and whether that is below the
    tolerance (`converged`)."""

    coefficients: Floats
    steps: int
    gradient_norm: float
    converged: bool


def descend_to_interpolator(
    inputs: ArrayLike,
    labels: ArrayLike,
    start: ArrayLike | None = None,
    *,
    tolerance: float = 1e-10,
    largest_steps: int = 100_000,
) -> LeastSquaresDescent:
    r"""Gradient descent on $\frac1n\|y-X\theta\|^2$ from `start` (0 if not given), with step
    $\frac{0.9}{\lambda_{\max}(X^\top X/n)}$, until the gradient is below `tolerance` times its norm at the origin
    or `largest_steps` are done. `inputs` (n, p), `labels` (n,). Cost $O(np)$ per step."""
    design, targets = np.asarray(inputs, dtype=float), np.asarray(labels, dtype=float)
    if design.ndim != 2 or targets.shape != design.shape[:1]:
        raise InputError(f"labels must have one entry per row of inputs, got shapes {targets.shape}, {design.shape}.")
    theta = np.zeros(design.shape[1]) if start is None else np.array(start, dtype=float)
    if theta.shape != design.shape[1:]:
        raise InputError(f"start must have one entry per column of inputs ({design.shape[1]}), got {theta.shape}.")
    samples = len(targets)
    step = 0.9 / (np.linalg.norm(design, 2) ** 2 / samples)
    small = tolerance * float(np.linalg.norm(2 / samples * (design.T @ targets)))
    gradient_norm = np.inf
    for done in range(largest_steps + 1):
        gradient = 2 / samples * (design.T @ (design @ theta - targets))
        gradient_norm = float(np.linalg.norm(gradient))
        if gradient_norm <= small:
            return LeastSquaresDescent(theta, done, gradient_norm, True)
        if done < largest_steps:
            theta = theta - step * gradient
    return LeastSquaresDescent(theta, largest_steps, gradient_norm, False)


def simulate_interpolator(
    ratio: float, noise: float, start_scale: float, *, dimension: int, seeds: int, tolerance: float = 1e-8
) -> RegressionErrors:
    r"""Gradient descent on `seeds` isotropic data sets with $p$ = `dimension`, $n=p/$`ratio`, $\|\beta\|=1$, from the
    informed start $\theta_0=c\beta$, $c$ = `start_scale`: one column, the errors where it ends."""
    samples = round(dimension / ratio)
    if samples < 1:
        raise InputError(f"ratio must be at most the dimension {dimension}, got {ratio}.")
    rows = []
    for seed in range(seeds):
        data = draw_least_squares(seed, dimension, samples, noise)
        end = descend_to_interpolator(data.inputs, data.labels, start_scale * data.coefficients, tolerance=tolerance)
        if not end.converged:
            raise InputError(f"ratio must be farther from 1 for descent to end in {end.steps} steps, got {ratio}.")
        test = np.sum((end.coefficients - data.coefficients) ** 2)
        train = np.mean((data.labels - data.inputs @ end.coefficients) ** 2)
        rows.append(RegressionErrors(np.array([float(test)]), np.array([float(train)])))
    return stacked(rows)
