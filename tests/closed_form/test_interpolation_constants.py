"""Interpolators: least squares from any start, singular smoothers and nearest neighbours, by exact cases and limits."""

import numpy as np
import pytest
from scipy.integrate import quad

from limen.problem import InputError
from limen.simulation.kernel.least_squares_descent import descend_to_interpolator
from limen.simulation.kernel.nearest_neighbours import (
    nearest_neighbour_regression,
    neighbour_distances,
    singular_nadaraya_watson,
    singular_smoother_errors,
)
from limen.theory.kernel import ridge
from limen.theory.kernel.interpolating_smoother import (
    nearest_neighbour_risk,
    neighbour_squared_distance,
    singular_smoother_bandwidth,
    singular_smoother_risk,
)
from limen.theory.kernel.min_norm import covariance_error, descent_limit, interpolator_risk, largest_stable_step
from limen.theory.spectra import MarchenkoPastur

KERNEL = {"dimension": 2, "exponent": 0.5, "noise": 0.25}


def regression(seed, samples, dimension):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((samples, dimension)), generator.standard_normal(samples)


def test_limit_is_the_nearest_interpolator():
    inputs, labels = regression(0, 8, 20)
    start = np.random.default_rng(1).standard_normal(20)
    limit = descent_limit(inputs, labels, start)
    np.testing.assert_allclose(inputs @ limit.coefficients, labels, atol=1e-12)
    assert limit.interpolates
    assert not limit.minimum_norm
    kernel = np.linalg.svd(inputs)[2][8:]
    # any other interpolator adds a vector orthogonal to the row space, to which the displacement is orthogonal
    np.testing.assert_allclose(kernel @ (limit.coefficients - start), 0, atol=1e-12)
    assert limit.outside_row_space == pytest.approx(np.linalg.norm(kernel @ start), rel=1e-12)
    least = descent_limit(inputs, labels)
    np.testing.assert_allclose(least.coefficients, np.linalg.pinv(inputs) @ labels, atol=1e-12)
    assert np.linalg.norm(limit.coefficients) ** 2 == pytest.approx(
        np.linalg.norm(least.coefficients) ** 2 + limit.outside_row_space**2, rel=1e-12
    )


def test_minimum_norm_is_claimed_only_inside_the_row_space():
    inputs, labels = regression(2, 8, 20)
    assert descent_limit(inputs, labels).minimum_norm
    inside = inputs.T @ np.arange(8.0)
    assert descent_limit(inputs, labels, inside).minimum_norm
    outside = np.linalg.svd(inputs)[2][-1]
    assert not descent_limit(inputs, labels, inside + 1e-6 * outside).minimum_norm


def test_labels_that_cannot_be_fitted():
    inputs, labels = regression(3, 20, 8)
    limit = descent_limit(inputs, labels, np.ones(8))
    assert not limit.interpolates
    assert limit.minimum_norm
    np.testing.assert_allclose(limit.coefficients, np.linalg.lstsq(inputs, labels)[0], atol=1e-12)
    repeated = np.repeat(inputs[:3], 2, axis=0)
    assert not descent_limit(repeated, np.arange(6.0)).interpolates
    assert descent_limit(repeated, np.repeat(np.arange(3.0), 2)).interpolates


@pytest.mark.parametrize(("samples", "dimension"), [(20, 45), (45, 20)])
def test_descent_step_by_step_ends_there(samples, dimension):
    inputs, labels = regression(4, samples, dimension)
    start = np.random.default_rng(5).standard_normal(dimension)
    run = descend_to_interpolator(inputs, labels, start, tolerance=1e-12)
    assert run.converged
    limit = descent_limit(inputs, labels, start)
    np.testing.assert_allclose(run.coefficients, limit.coefficients, atol=1e-10)
    if samples < dimension:
        forgetful = descent_limit(inputs, labels).coefficients
        assert np.abs(run.coefficients - forgetful).max() > 0.1


def test_largest_stable_step():
    inputs, labels = regression(6, 10, 4)
    step = largest_stable_step(inputs)
    sizes = []
    for factor in (0.98, 1.02):
        theta = np.zeros(4)
        for _ in range(3000):
            theta = theta - factor * step * 2 / 10 * (inputs.T @ (inputs @ theta - labels))
        sizes.append(np.linalg.norm(theta))
    assert sizes[0] < 10
    assert sizes[1] > 1e10


def test_interpolator_risk_is_the_ridgeless_risk_of_what_is_left_to_learn():
    ratios = np.array([0.3, 0.8, 1.3, 4.0])
    here, there = interpolator_risk(ratios, 0.4, 0.7), ridge(ratios, 0.0, 0.4, signal=(0.7,))
    np.testing.assert_allclose(here.bias, there.bias, atol=1e-10)
    np.testing.assert_allclose(here.variance, there.variance, rtol=1e-10)
    np.testing.assert_allclose(here.train, there.train, atol=1e-10)
    threshold = interpolator_risk(1.0, 0.1)
    assert threshold.variance == np.inf
    assert "infinite" in threshold.status
    assert interpolator_risk(1.0, 0.0).test == 0.0


def test_covariance_error_is_the_far_edge():
    for ratio in (0.1, 1.0, 3.0):
        left, right = MarchenkoPastur(ratio).edges
        assert covariance_error(ratio) == pytest.approx(max(right - 1, 1 - left), rel=1e-12)


def test_smoother_constants_by_quadrature():
    d, a, beta = 3, 0.9, 0.6
    risk = singular_smoother_risk(1.0, 1.0, dimension=d, exponent=a, noise=1.0, smoothness=beta, height=2.0)
    mass, square, tilt = (quad(lambda r, p=p: r ** (d - 1 - p), 0, 1)[0] for p in (a, 2 * a, a - beta))
    assert risk.variance == pytest.approx(square / (4 * np.pi * mass**2), rel=1e-9)
    assert risk.squared_bias == pytest.approx((2 * tilt / mass) ** 2, rel=1e-9)


def test_smoother_rate_and_its_constant():
    for samples in (1e3, 2e5, 1e9):
        risk = singular_smoother_risk(samples, samples**-0.25, **KERNEL)
        assert risk.test == pytest.approx((0.36 + 0.25 * 2.25 / (2 * np.pi)) * samples**-0.5, rel=1e-12)
    assert singular_smoother_risk(2e5, 2e5**-0.25, **KERNEL).test == pytest.approx(0.001005, abs=5e-7)


def test_best_bandwidth():
    best = singular_smoother_bandwidth(1e4, **KERNEL)
    at_best = singular_smoother_risk(1e4, best, **KERNEL).test
    for factor in (0.99, 1.01):
        assert singular_smoother_risk(1e4, factor * best, **KERNEL).test > at_best
    assert best / singular_smoother_bandwidth(16e4, **KERNEL) == pytest.approx(2, rel=1e-12)


def test_noise_free_bias_and_its_first_correction():
    # to first order in 1/(n h^d) the squared ratio of two sums over the ball gains (A + 3B - 4C)/(n h^d S), where
    # A, B, C = 25/12, 9/4, 15/8 are the second moments of numerator, denominator and both, over squared means
    correction = (25 / 12 + 3 * 9 / 4 - 4 * 15 / 8) / (1600 * 0.1**2 * 2 * np.pi)
    kernel = {"dimension": 2, "exponent": 0.5, "noise": 0.0}
    errors = np.array([singular_smoother_errors(1600, 0.1, **kernel, seed=seed).mean() for seed in range(200)])
    limit = singular_smoother_risk(1600, 0.1, **kernel).squared_bias
    error = errors.std(ddof=1) / np.sqrt(200)
    assert abs(errors.mean() - limit * (1 + correction)) < 3.5 * error
    assert error < 0.004 * limit
    assert errors.mean() - limit > 3.5 * error


@pytest.mark.parametrize("exponent", [0.0, -1.0, 1.0, 1.5])
def test_exponents_that_are_not_square_integrable_are_refused(exponent):
    with pytest.raises(InputError, match="exponent"):
        singular_smoother_risk(100, 0.1, dimension=2, exponent=exponent, noise=1.0)
    with pytest.raises(InputError, match="exponent"):
        singular_nadaraya_watson(np.eye(2), np.ones(2), np.eye(2), 0.5, exponent)


def test_other_bad_input_is_refused():
    with pytest.raises(InputError, match="two different labels"):
        singular_nadaraya_watson([[0.0, 1.0], [0.0, 1.0]], [1.0, 2.0], [[0.0, 0.0]], 1.0, 0.5)
    with pytest.raises(InputError, match="two different labels"):
        nearest_neighbour_regression([[0.0], [1.0], [0.0]], [1.0, 2.0, 3.0], [[0.0]], 1)
    with pytest.raises(InputError, match="neighbours"):
        nearest_neighbour_regression([[0.0], [1.0]], [1.0, 2.0], [[0.0]], 3)
    with pytest.raises(InputError, match="bandwidth"):
        singular_nadaraya_watson(np.eye(2), np.ones(2), np.eye(2), 0.0, 0.5)
    with pytest.raises(InputError, match="neighbours"):
        nearest_neighbour_risk(100, 0, dimension=2, noise=1.0)
    with pytest.raises(InputError, match="labels"):
        descent_limit(np.eye(2), np.ones(3))
    with pytest.raises(InputError, match="ratio"):
        interpolator_risk(-1.0, 0.1)


def test_smoother_interpolates_and_says_zero_where_there_is_nothing():
    inputs, labels = np.random.default_rng(0).random((200, 2)), np.random.default_rng(1).standard_normal(200)
    for bandwidth in (0.01, 0.3):
        np.testing.assert_array_equal(singular_nadaraya_watson(inputs, labels, inputs, bandwidth, 0.5), labels)
    close = inputs + 1e-280
    np.testing.assert_allclose(singular_nadaraya_watson(inputs, labels, close, 0.3, 0.9), labels, rtol=1e-12)
    near = singular_nadaraya_watson(inputs, labels, inputs + 1e-9, 0.05, 0.9)
    assert np.abs(near - labels).max() < 1e-3
    np.testing.assert_array_equal(singular_nadaraya_watson(inputs, labels, [[5.0, 5.0]], 0.3, 0.5), 0)


def test_smoother_by_hand():
    inputs, labels = [[1.0, 0.0], [0.0, 2.0], [-4.0, 0.0]], [1.0, 5.0, 100.0]
    weights = np.array([1.0, 2.0**-0.5])
    expected = weights @ [1.0, 5.0] / weights.sum()
    assert singular_nadaraya_watson(inputs, labels, [[0.0, 0.0]], 3.0, 0.5)[0] == pytest.approx(expected, rel=1e-14)


def test_weights_do_not_overflow():
    inputs = np.array([[1e-300, 0.0, 0.0], [1.0, 0.0, 0.0]])
    value = singular_nadaraya_watson(inputs, [3.0, 7.0], [[0.0, 0.0, 0.0]], 2.0, 1.4)[0]
    assert value == pytest.approx(3.0)


def test_nearest_neighbours_by_hand():
    inputs, labels = [[0.0], [1.0], [3.0], [7.0]], [1.0, 2.0, 4.0, 8.0]
    np.testing.assert_allclose(nearest_neighbour_regression(inputs, labels, [[0.1], [6.0]], 2), [1.5, 6.0])
    np.testing.assert_allclose(nearest_neighbour_regression(inputs, labels, inputs, 1), labels)
    np.testing.assert_allclose(neighbour_distances(inputs, [[1.5]], 3), [[0.5, 1.5, 1.5]])


def test_mean_of_neighbour_distances_is_their_sum():
    for dimension, k in ((1, 4), (2, 7), (5, 3)):
        direct = np.mean([neighbour_squared_distance(1000, order, dimension) for order in range(1, k + 1)])
        risk = nearest_neighbour_risk(1000, k, dimension=dimension, noise=0.3, laplacian=2.0 * dimension)
        assert risk.squared_bias == pytest.approx(direct**2, rel=1e-12)
        assert risk.variance == pytest.approx(0.3 / k)
    # one dimension: the nearest of n points at density 1 is at distance of mean square 2 / (2n)^2
    assert neighbour_squared_distance(50, 1, 1) == pytest.approx(2 / 100**2, rel=1e-12)
