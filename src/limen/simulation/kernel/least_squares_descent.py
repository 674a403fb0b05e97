r"""Plain gradient descent on least squares from any start, run until it interpolates or stops moving."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.problem.spec import InputError
from limen.simulation.kernel.least_squares import LeastSquaresData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeastSquaresDescent:
    r"""End of a run: `coefficients` (p,), the `steps` it took, the last `gradient_norm`, and whether that is below the
    tolerance (`converged`)."""

    coefficients: Floats
    steps: int
    gradient_norm: float
    converged: bool


@dataclass(frozen=True)
class InterpolatorErrors:
    r"""Where descent from $\theta_0$ ends on one data set: excess risk $\|\theta_\infty-\beta\|^2$ (`test`), mean
    squared residual (`train`) and the way gone, $\|\theta_\infty-\theta_0\|^2$ (`squared_displacement`)."""

    test: float
    train: float
    squared_displacement: float


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


def interpolator_errors(data: LeastSquaresData, start_scale: float, tolerance: float = 1e-8) -> InterpolatorErrors:
    r"""Gradient descent on an isotropic data set from the informed start $\theta_0=c\beta$, $c$ = `start_scale`, until
    it stops moving."""
    start = start_scale * data.coefficients
    end = descend_to_interpolator(data.inputs, data.labels, start, tolerance=tolerance)
    if not end.converged:
        samples, dimension = data.inputs.shape
        raise InputError(
            f"data must have a number of samples farther from the dimension {dimension} for descent to end in "
            f"{end.steps} steps, got {samples}."
        )
    return InterpolatorErrors(
        float(np.sum((end.coefficients - data.coefficients) ** 2)),
        float(np.mean((data.labels - data.inputs @ end.coefficients) ** 2)),
        float(np.sum((end.coefficients - start) ** 2)),
    )


def descent_errors(data: LeastSquaresData, start_scale: float, step: float, steps: int) -> Floats:
    r"""Excess risk $\|\theta_k-\beta\|^2$ of $\theta\leftarrow\theta+\frac\eta nX^\top(y-X\theta)$ after $k=0,1,\dots$,
    `steps` steps on an isotropic data set, from the start of `interpolator_errors`."""
    theta, errors = start_scale * data.coefficients, np.zeros(steps + 1)
    for done in range(steps + 1):
        errors[done] = np.sum((theta - data.coefficients) ** 2)
        theta = theta + step / len(data.labels) * (data.inputs.T @ (data.labels - data.inputs @ theta))
    return errors
