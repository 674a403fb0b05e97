"""Ridge, gradient flow and random features: the limit against finite-size regression, and planted errors caught.

Agreement means: at every point the mean over seeds lies within its statistical error of the limit, simultaneously
over all points of a case (Student's t, Bonferroni, 99 %). No allowance is made for finite size.
"""

import numpy as np
import pytest
from scipy.stats import t as student

from limen.simulation.kernel.least_squares import simulate_flow, simulate_gradient_descent, simulate_ridge
from limen.simulation.kernel.random_features import simulate_random_features, simulate_random_features_flow
from limen.simulation.kernel.spectral_estimators import RegressionErrors
from limen.theory.kernel import (
    gradient_descent_risk,
    kernel_flow,
    random_features,
    random_features_flow,
    random_features_spectrum,
    ridge,
    ridge_flow,
)

POPULATION = {"values": (1.0, 4.0, 10.0), "weights": (0.5, 0.3, 0.2), "signal": (0.2, 0.5, 0.3)}
TARGET = {"linear": 1.0, "nonlinear": 0.3, "noise": 0.2}


def agrees(theory, simulation) -> bool:
    """Whether test and training errors of the limit are inside the simultaneous band of the simulation."""
    return within_band(theory, simulation, np.zeros((len(simulation.test), 0)))


def within_band(theory, simulation, controls: np.ndarray) -> bool:
    """The comparison with control variates: columns of mean exactly 0, one row per seed, regressed out."""
    samples = np.concatenate([simulation.test, simulation.train], axis=1)
    limit = np.concatenate([np.ravel(theory.test), np.ravel(theory.train)])
    seeds, points = samples.shape
    design = np.concatenate([np.ones((seeds, 1)), controls], axis=1)
    coefficients = np.linalg.lstsq(design, samples)[0]
    freedom = seeds - design.shape[1]
    spread = np.sum((samples - design @ coefficients) ** 2, axis=0) / freedom
    error = np.sqrt(spread * np.linalg.inv(design.T @ design)[0, 0])
    return bool((np.abs(coefficients[0] - limit) <= student.ppf(1 - 0.005 / points, freedom) * error).all())


@pytest.fixture(scope="module", params=[0.6, 1.7])
def ratio(request):
    return request.param


def test_ridge(ratio):
    penalties = [0.05, 0.3, 2.0]
    run = simulate_ridge(ratio, penalties, 0.5, dimension=150, seeds=60, **POPULATION)
    assert agrees(ridge(ratio, penalties, 0.5, **POPULATION), run)
    assert not agrees(ridge(ratio, penalties, 0.0, **POPULATION), run)
    assert not agrees(ridge(ratio, np.multiply(1.5, penalties), 0.5, **POPULATION), run)


def test_ridgeless_least_squares():
    # Gaussian inputs have exact means at finite size: noise p/(n - p - 1) against the limit p/(n - p), and equal train
    run = simulate_ridge(0.5, 0.0, 0.5, dimension=100, seeds=300, **POPULATION)

    def at_finite_size(limit):
        return type(limit)(limit.kappa, limit.bias, limit.variance * 100 / 99, limit.train)

    assert agrees(at_finite_size(ridge(0.5, [0.0], 0.5, **POPULATION)), run)
    assert not agrees(at_finite_size(ridge(0.55, [0.0], 0.5, **POPULATION)), run)


def test_flow(ratio):
    times = np.array([0.05, 0.15, 0.5, 3.0])
    run = simulate_flow(ratio, times, 0.5, dimension=200, seeds=60, **POPULATION)
    assert agrees(ridge_flow(ratio, times, 0.5, **POPULATION), run)
    assert not agrees(ridge_flow(ratio, times, 0.0, **POPULATION), run)
    assert not agrees(ridge_flow(ratio, 1.1 * times, 0.5, **POPULATION), run)


def test_descent_step_by_step():
    run = simulate_gradient_descent(0.6, 0.04, 12, 0.5, dimension=200, seeds=60, **POPULATION)
    later = RegressionErrors(run.test[:, 1:], run.train[:, 1:])
    assert agrees(gradient_descent_risk(0.6, 0.04, np.arange(1, 13), 0.5, **POPULATION), later)
    assert not agrees(gradient_descent_risk(0.6, 0.044, np.arange(1, 13), 0.5, **POPULATION), later)


@pytest.mark.parametrize("activation", ["relu", "erf", "tanh"])
def test_random_features_through_the_peak(activation):
    dimension, samples, penalties = 100, 200, [1e-3, 0.1]
    for features in (100, 180, 200, 240, 400):
        run = simulate_random_features(
            activation,
            penalties,
            dimension=dimension,
            features=features,
            samples=samples,
            seeds=12,
            test_samples=1000,
            **TARGET,
        )
        psi1, psi2 = features / dimension, samples / dimension
        assert agrees(random_features(psi1, psi2, penalties, activation, **TARGET), run)
        assert not agrees(random_features(psi1, psi2, penalties, activation, 1.0, 0.3, 0.0), run)
        assert not agrees(random_features(psi1, psi2, penalties, activation, 1.0, 0.0, 0.2), run)


@pytest.mark.parametrize("activation", ["relu", "erf", "tanh"])
def test_random_features_in_time(activation):
    target = {"linear": 1.0, "nonlinear": 0.1, "noise": 0.1}
    # before training the errors are mean squares of targets and labels, whose expectations are known: control variates
    run = simulate_random_features_flow(
        activation,
        [0.0, 0.5, 2.0, 100.0],
        dimension=120,
        features=360,
        samples=240,
        seeds=40,
        test_samples=1000,
        **target,
    )
    controls = np.stack([run.test[:, 0] - 1.1, run.train[:, 0] - 1.2], axis=1)
    later = RegressionErrors(run.test[:, 1:], run.train[:, 1:])
    times = np.array([0.5, 2.0, 100.0])
    assert within_band(random_features_flow(3.0, 2.0, times, activation, **target), later, controls)
    assert not within_band(random_features_flow(3.0, 2.0, times, activation, 1.0, 0.1, 0.0), later, controls)
    assert not within_band(random_features_flow(3.0, 2.0, 1.1 * times, activation, **target), later, controls)
    assert not within_band(random_features_flow(3.0, 2.0, 0.9 * times, activation, **target), later, controls)


def test_any_spectrum_with_gaussian_features():
    k = np.arange(1, 301)
    eigenvalues, energies = k**-1.4, k**-1.8
    samples, features, noise, penalties = 80, 120, 0.05, [0.02, 1.0]
    rng = np.random.default_rng(3)
    test, train = [], []
    for _ in range(80):
        target = np.sqrt(energies) * rng.choice([-1.0, 1.0], len(k))
        weights = np.sqrt(eigenvalues)[:, None] * rng.standard_normal((len(k), features)) / np.sqrt(features)
        inputs = rng.standard_normal((samples, len(k)))
        labels = inputs @ target + np.sqrt(noise) * rng.standard_normal(samples)
        design = inputs @ weights
        fits = [np.linalg.solve(design.T @ design + p * np.eye(features), design.T @ labels) for p in penalties]
        test.append([np.sum((target - weights @ fit) ** 2) for fit in fits])
        train.append([np.mean((labels - design @ fit) ** 2) for fit in fits])
    run = RegressionErrors(np.array(test), np.array(train))
    assert agrees(random_features_spectrum(eigenvalues, energies, samples, features, penalties, noise), run)
    assert not agrees(random_features_spectrum(eigenvalues, energies, samples, features, penalties, 0.0), run)
    assert not agrees(random_features_spectrum(eigenvalues, energies, samples, np.inf, penalties, noise), run)


def test_kernel_flow_with_the_arc_cosine_kernel():
    def kernel(cosine):
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        return (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)

    # h(0) = 1/2pi, h'(0) = 1/4, h(1) = 1/2; much later the training error, near 0, differs by a multiple of 1/d
    slope, tail = 0.25, 0.25 - 0.5 / np.pi
    dimension, samples, noise, times = 160, 320, 0.1, np.array([0.3, 1.0, 3.0])
    rng = np.random.default_rng(4)
    test, train = [], []

    def sphere(count):
        points = rng.standard_normal((count, dimension))
        return points / np.linalg.norm(points, axis=1, keepdims=True)

    for _ in range(40):
        inputs, fresh = sphere(samples), sphere(1000)
        direction = np.sqrt(dimension) * sphere(1)[0]
        labels = inputs @ direction + np.sqrt(noise) * rng.standard_normal(samples)
        values, vectors = np.linalg.eigh(kernel(inputs @ inputs.T))
        projected, outputs = vectors.T @ labels, kernel(fresh @ inputs.T) @ vectors
        decays = [np.exp(-t * values) for t in times]
        test.append([np.mean((outputs @ ((1 - d) / values * projected) - fresh @ direction) ** 2) for d in decays])
        train.append([np.mean((vectors @ (d * projected)) ** 2) for d in decays])
    run = RegressionErrors(np.array(test), np.array(train))
    assert agrees(kernel_flow(2.0, times, slope, tail, 1.0, 0.0, noise), run)
    assert not agrees(kernel_flow(2.0, times, slope, tail, 1.0, 0.0, 0.0), run)
    assert not agrees(kernel_flow(2.0, 1.2 * times, slope, tail, 1.0, 0.0, noise), run)


def test_seeds_are_reproducible_and_streams_independent():
    one = simulate_ridge(0.6, 0.3, 0.5, dimension=40, seeds=3, **POPULATION)
    two = simulate_ridge(0.6, 0.3, 0.5, dimension=40, seeds=2, **POPULATION)
    np.testing.assert_array_equal(one.test[:2], two.test)
    assert one.test[0, 0] != one.test[1, 0]
