"""Least squares at finite size: ridge, gradient flow and gradient descent on drawn data, by one SVD per seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.machine.memory import check_memory
from limen.problem.input_rows import InputRows
from limen.problem.spec import InputError
from limen.simulation.data import shuffled_rows
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.spectral_estimators import (
    Floats,
    RegressionErrors,
    Shrinkage,
    flow_shrinkages,
    ridge_shrinkages,
    stacked,
)


@dataclass(frozen=True)
class LeastSquaresData:
    r"""A training set $y=X\beta+\varepsilon$: `inputs` (n, p), `labels` (n,), `coefficients` $\beta$ (p,), and the
    variances of the p independent coordinates of an input."""

    inputs: Floats
    labels: Floats
    coefficients: Floats
    variances: Floats


def draw_least_squares(
    seed: int,
    dimension: int,
    samples: int,
    noise: float,
    values: ArrayLike = (1.0,),
    weights: ArrayLike = (1.0,),
    signal: ArrayLike = (1.0,),
) -> LeastSquaresData:
    r"""Gaussian inputs with covariance atoms `values` in shares `weights` of the `dimension` coordinates, and $\beta$
    uniform on the sphere of squared radius `signal[k]` in each eigenspace. An eigenspace that gets no coordinate is
    refused."""
    counts = _counts(dimension, np.atleast_1d(np.asarray(weights, dtype=float)))
    variances = np.repeat(np.atleast_1d(np.asarray(values, dtype=float)), counts)
    # Normals, their scaled copy, and one of the same size where they are decomposed.
    what = f"the inputs, {samples:.3g} samples in {dimension} dimensions,"
    check_memory(what, 24.0 * samples * dimension, "take a smaller d or fewer samples per dimension")
    inputs = numpy_generator(seed, dimension, "inputs").standard_normal((samples, dimension)) * np.sqrt(variances)
    return _labelled(seed, inputs, variances, counts, noise, signal)


def rows_least_squares(
    seed: int, problem_rows: InputRows, samples: int, noise: float, weights: ArrayLike, signal: ArrayLike
) -> LeastSquaresData:
    """The same with rows of data for inputs, each at most once; the eigenspaces are theirs."""
    counts = _counts(problem_rows.variances.size, np.atleast_1d(np.asarray(weights, dtype=float)))
    inputs = shuffled_rows(problem_rows, seed, samples, "ratio")
    return _labelled(seed, inputs, problem_rows.variances, counts, noise, signal)


def _labelled(
    seed: int, inputs: Floats, variances: Floats, counts: NDArray[np.int64], noise: float, signal: ArrayLike
) -> LeastSquaresData:
    samples, dimension = inputs.shape
    direction = numpy_generator(seed, dimension, "coefficients").standard_normal(dimension)
    blocks = np.split(direction, np.cumsum(counts)[:-1])
    energies = np.atleast_1d(np.asarray(signal, dtype=float))
    coefficients = np.concatenate(
        [np.sqrt(energy) * block / np.linalg.norm(block) for energy, block in zip(energies, blocks, strict=True)]
    )
    errors = numpy_generator(seed, dimension, "label noise").standard_normal(samples)
    return LeastSquaresData(inputs, inputs @ coefficients + np.sqrt(noise) * errors, coefficients, variances)


def spectral_errors(data: LeastSquaresData, shrinkages: Sequence[Shrinkage]) -> RegressionErrors:
    r"""Excess risk $(b-\beta)^\top\Sigma(b-\beta)$, exact given the data, and training error of
    $b=\hat\Sigma^{-1}q(\hat\Sigma)\frac1nX^\top y$, one for each $q$ (a function of eigenvalues, $q(0)=0$)."""
    samples = len(data.labels)
    left, singular, right = np.linalg.svd(data.inputs, full_matrices=False)
    projected = left.T @ data.labels
    test, train = [], []
    for shrinkage in shrinkages:
        fitted = shrinkage(singular**2 / samples)
        estimate = right.T @ (fitted / singular * projected)
        residual = data.labels - left @ (fitted * projected)
        test.append(np.sum(data.variances * (estimate - data.coefficients) ** 2))
        train.append(np.mean(residual**2))
    return RegressionErrors(np.array(test), np.array(train))


def simulate_ridge(
    ratio: float, ridge: ArrayLike, noise: float, *, dimension: int, seeds: int, **population: ArrayLike
) -> RegressionErrors:
    r"""Ridge regression with loss $\frac1n\|y-Xb\|^2+\lambda\|b\|^2$ on `seeds` data sets with $p=$ `dimension`,
    $n=p/$`ratio`.

    One column per entry of `ridge`; 0 is the least-norm solution. `population`: `values`, `weights`, `signal` of
    `draw_least_squares`.
    """
    return _simulate(ratio, noise, dimension, seeds, ridge_shrinkages(ridge), population)


def simulate_flow(
    ratio: float, time: ArrayLike, noise: float, *, dimension: int, seeds: int, **population: ArrayLike
) -> RegressionErrors:
    r"""Gradient flow $\dot b=\frac1nX^\top(y-Xb)$ from 0, in its own closed form on the singular vectors of the data;
    one column per time."""
    return _simulate(ratio, noise, dimension, seeds, flow_shrinkages(time), population)


def simulate_gradient_descent(
    ratio: float, step: float, steps: int, noise: float, *, dimension: int, seeds: int, **population: ArrayLike
) -> RegressionErrors:
    r"""Gradient descent $b\leftarrow b+\frac\eta nX^\top(y-Xb)$ from 0, iterated step by step.

    Columns are 0, 1, ..., `steps`.
    """
    rows = []
    for seed in range(seeds):
        data = draw_least_squares(seed, dimension, _samples(ratio, dimension), noise, **population)
        estimate, test, train = np.zeros(dimension), [], []
        for _ in range(steps + 1):
            residual = data.labels - data.inputs @ estimate
            test.append(np.sum(data.variances * (estimate - data.coefficients) ** 2))
            train.append(np.mean(residual**2))
            estimate = estimate + step / len(residual) * (data.inputs.T @ residual)
        rows.append(RegressionErrors(np.array(test), np.array(train)))
    return stacked(rows)


def _simulate(
    ratio: float,
    noise: float,
    dimension: int,
    seeds: int,
    shrinkages: Sequence[Shrinkage],
    population: dict[str, Any],
) -> RegressionErrors:
    samples = _samples(ratio, dimension)
    runs = [
        spectral_errors(draw_least_squares(seed, dimension, samples, noise, **population), shrinkages)
        for seed in range(seeds)
    ]
    return stacked(runs)


def _samples(ratio: float, dimension: int) -> int:
    samples = round(dimension / ratio)
    if samples < 1:
        raise InputError(f"ratio must be at most the dimension {dimension}, got {ratio}.")
    return samples


def _counts(dimension: int, weights: Floats) -> NDArray[np.int64]:
    edges = np.round(np.concatenate([[0.0], np.cumsum(weights)]) * dimension).astype(int)
    counts = np.diff(edges)
    if edges[-1] != dimension or (counts < 1).any():
        raise InputError(
            f"weights must sum to 1 and give each eigenspace a coordinate of {dimension}, got {weights.tolist()}."
        )
    return counts
