"""Random features at finite size: ridge and gradient flow on drawn features, inputs and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limen.precision import in_double
from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError
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
class RandomFeaturesData:
    r"""Feature matrices $\sigma(\langle\theta_j,x_i\rangle/\sqrt d)$ of the training inputs (n, N) and of fresh test
    inputs, the noisy training labels, and the noiseless values of the target at the test inputs."""

    train_features: Floats
    labels: Floats
    test_features: Floats
    test_target: Floats
    dimension: int


@in_double
def draw_random_features(
    seed: int,
    activation: str | Activation,
    dimension: int,
    features: int,
    samples: int,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: float = 0.0,
    test_samples: int = 2000,
) -> RandomFeaturesData:
    r"""Weights and inputs uniform on the sphere of radius $\sqrt d$; the target is $F_1\langle u,x\rangle+x^\top Gx$
    plus noise.

    $u$ is a random unit vector and $G$ a random symmetric traceless matrix, scaled so that the quadratic part has
    variance exactly $F_*^2$ on the sphere: $\mathrm{Var}(x^\top Gx)=\frac{2d}{d+2}\|G\|_F^2$. `linear` is $F_1$,
    `nonlinear` $F_*^2$, `noise` $\tau^2$.
    """
    for name, value in (("dimension", dimension), ("features", features), ("samples", samples)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    function = as_activation(activation).function
    weights = _on_sphere(numpy_generator(seed, dimension, "feature weights"), features, dimension)
    inputs = _on_sphere(numpy_generator(seed, dimension, "inputs"), samples, dimension)
    fresh = _on_sphere(numpy_generator(seed, dimension, "test inputs"), test_samples, dimension)
    direction = numpy_generator(seed, dimension, "linear target").standard_normal(dimension)
    form = numpy_generator(seed, dimension, "quadratic target").standard_normal((dimension, dimension))
    form = form + form.T
    form -= np.trace(form) / dimension * np.eye(dimension)
    form *= np.sqrt(nonlinear * (dimension + 2) / (2 * dimension)) / np.linalg.norm(form)

    def target(x: Floats) -> Floats:
        return linear * (x @ direction) / np.linalg.norm(direction) + np.sum((x @ form) * x, axis=1)

    def features_of(x: Floats) -> Floats:
        return np.asarray(function(x @ weights.T / np.sqrt(dimension)))

    errors = numpy_generator(seed, dimension, "label noise").standard_normal(samples)
    return RandomFeaturesData(
        features_of(inputs), target(inputs) + np.sqrt(noise) * errors, features_of(fresh), target(fresh), dimension
    )


def simulate_random_features(
    activation: str | Activation,
    ridge: ArrayLike,
    *,
    dimension: int,
    features: int,
    samples: int,
    seeds: int,
    **target: Any,
) -> RegressionErrors:
    r"""Minimises $\frac1n\sum_i(y_i-f(x_i))^2+\frac{N\lambda}d\|a\|^2$, one column per $\lambda$ in `ridge`; 0 is the
    least-norm solution.

    `target`: `linear`, `nonlinear`, `noise`, `test_samples` of `draw_random_features`.
    """
    return _simulate(activation, ridge_shrinkages(ridge), dimension, features, samples, seeds, target)


def simulate_random_features_flow(
    activation: str | Activation,
    time: ArrayLike,
    *,
    dimension: int,
    features: int,
    samples: int,
    seeds: int,
    **target: Any,
) -> RegressionErrors:
    r"""Gradient flow from $a=0$, where training outputs follow $\dot f=-\frac dn\frac1N\Phi\Phi^\top(f-y)$.

    One column per time.
    """
    return _simulate(activation, flow_shrinkages(time), dimension, features, samples, seeds, target)


def random_features_errors(data: RandomFeaturesData, shrinkages: Sequence[Shrinkage]) -> RegressionErrors:
    r"""Errors of $a=\Phi^+q(A)y$ for each $q$, a function of the eigenvalues of $A=\frac dn\frac1N\Phi\Phi^\top$."""
    samples, features = data.train_features.shape
    left, singular, right = np.linalg.svd(data.train_features, full_matrices=False)
    # features that rounding alone makes independent carry no signal
    kept = singular > 1e-12 * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    projected = left.T @ data.labels
    outputs = data.test_features @ right.T / singular
    test, train = [], []
    for shrinkage in shrinkages:
        fitted = shrinkage(singular**2 * data.dimension / (samples * features)) * projected
        test.append(np.mean((outputs @ fitted - data.test_target) ** 2))
        train.append(np.mean((data.labels - left @ fitted) ** 2))
    return RegressionErrors(np.array(test), np.array(train))


def _simulate(
    activation: str | Activation,
    shrinkages: Sequence[Shrinkage],
    dimension: int,
    features: int,
    samples: int,
    seeds: int,
    target: dict[str, Any],
) -> RegressionErrors:
    runs = [
        random_features_errors(
            draw_random_features(seed, activation, dimension, features, samples, **target), shrinkages
        )
        for seed in range(seeds)
    ]
    return stacked(runs)


def _on_sphere(generator: np.random.Generator, count: int, dimension: int) -> Floats:
    points = generator.standard_normal((count, dimension))
    return points * np.sqrt(dimension) / np.linalg.norm(points, axis=1, keepdims=True)
