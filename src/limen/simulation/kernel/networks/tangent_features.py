"""Least-norm regression on first-layer tangent features at finite size, through its interpolation threshold."""

import numpy as np

from limen.gaussian.functions import ScalarFunction, as_function
from limen.problem.activations import Activation
from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.spectral_estimators import Floats, RegressionErrors


def simulate_tangent_features(
    activation: str | Activation,
    neurons: int,
    *,
    dimension: int,
    samples: int,
    seeds: int,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: float = 0.0,
    test_samples: int = 1000,
) -> RegressionErrors:
    r"""Least-norm least squares on the $Nd$ features $x\,\sigma'(\langle w_j,x\rangle/\sqrt d)/\sqrt{Nd}$, $j\le N$.

    Inputs and $w_j$ are uniform on the sphere of radius $\sqrt d$. The target is $F_1\langle u,x\rangle+x^\top Gx$,
    $u$ a random unit vector, $G$ symmetric, traceless, scaled so that the quadratic part has variance exactly
    $F_*^2$; labels carry noise. `neurons` $N$, `linear` $F_1$, `nonlinear` $F_*^2$, `noise` the variance. One row per
    seed, one column. The data and the first neurons of a seed do not change with N.

    For $Nd\ge n$ the fit needs only the n x n kernel $\frac{x^\top x'}{d}\cdot\frac1N\sum_j\sigma'\sigma'$, never the
    $Nd$ features; below, the features are the smaller matrix. Cost: $O(n^3+n^2N)$.
    """
    sizes = {"neurons": neurons, "dimension": dimension, "samples": samples, "seeds": seeds}
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    slope = as_function(activation).derivative()
    if slope is None:
        raise InputError(f"activation must be differentiable by JAX, got {activation!r}.")
    errors = np.array(
        [
            tangent_feature_errors(slope, seed, neurons, dimension, samples, linear, nonlinear, noise, test_samples)
            for seed in range(seeds)
        ]
    )
    return RegressionErrors(errors[:, :1], errors[:, 1:])


def tangent_feature_errors(
    slope: ScalarFunction,
    seed: int,
    neurons: int,
    d: int,
    n: int,
    linear: float,
    nonlinear: float,
    noise: float,
    tests: int,
) -> tuple[float, float]:
    r"""Excess test error and training error of one seed of `simulate_tangent_features`; `slope` is $\sigma'$."""
    weights = _on_sphere(seed, d, "neurons", neurons)
    inputs, fresh = _on_sphere(seed, d, "inputs", n), _on_sphere(seed, d, "test inputs", tests)
    direction = _on_sphere(seed, d, "linear target", 1)[0] / np.sqrt(d)
    form = numpy_generator(seed, d, "quadratic target").standard_normal((d, d))
    form = form + form.T
    form -= np.trace(form) / d * np.eye(d)
    form *= np.sqrt(nonlinear * (d + 2) / (2 * d)) / np.linalg.norm(form)

    def target(x: Floats) -> Floats:
        return linear * (x @ direction) + np.sum((x @ form) * x, axis=1)

    labels = target(inputs) + np.sqrt(noise) * numpy_generator(seed, d, "label noise").standard_normal(n)
    slopes, fresh_slopes = (slope.values(x @ weights.T / np.sqrt(d)) for x in (inputs, fresh))
    if neurons * d >= n:
        kernel = (inputs @ inputs.T) * (slopes @ slopes.T) / (neurons * d)
        values, vectors = np.linalg.eigh(kernel)
        # directions that rounding alone makes independent carry no signal
        kept = values > 1e-13 * values[-1]
        dual = vectors[:, kept] @ ((vectors[:, kept].T @ labels) / values[kept])
        fitted = kernel @ dual
        predicted = ((fresh @ inputs.T) * (fresh_slopes @ slopes.T)) @ dual / (neurons * d)
    else:
        coefficients = np.linalg.lstsq(_features(inputs, slopes), labels)[0]
        fitted = _features(inputs, slopes) @ coefficients
        predicted = _features(fresh, fresh_slopes) @ coefficients
    return float(np.mean((predicted - target(fresh)) ** 2)), float(np.mean((fitted - labels) ** 2))


def _features(x: Floats, slopes: Floats) -> Floats:
    return (slopes[:, :, None] * x[:, None, :]).reshape(len(x), -1) / np.sqrt(slopes.shape[1] * x.shape[1])


def _on_sphere(seed: int, d: int, stream: str, count: int) -> Floats:
    points = numpy_generator(seed, d, stream).standard_normal((count, d))
    return points * np.sqrt(d) / np.linalg.norm(points, axis=1, keepdims=True)
