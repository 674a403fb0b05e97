"""Implicit bias, interpolation and capacity: limits against plain training and drawn data, planted errors caught.

Agreement means: the mean over seeds lies within 3.5 standard errors of the theory, with no allowance for finite size
unless the exact finite-size mean is known and used. Every agreement has a twin with a planted error that fails it.
"""

import numpy as np
import pytest
from scipy.stats import binomtest

from limen.simulation.kernel.capacity import uniform_gaps
from limen.simulation.kernel.least_squares import draw_least_squares
from limen.simulation.kernel.least_squares_descent import interpolator_errors
from limen.simulation.kernel.logistic_regression import (
    draw_labelled_points,
    exponential_descent,
    logistic_descent,
    softened_descent,
)
from limen.simulation.kernel.nearest_neighbours import (
    nearest_neighbour_regression,
    neighbour_distances,
    singular_smoother_errors,
)
from limen.simulation.kernel.separability import separable_count
from limen.simulation.spectra.random_matrices import draw_covariance
from limen.theory.kernel.classification.logistic_flow import log_logistic_loss, logistic_flow, normalized_margin
from limen.theory.kernel.classification.max_margin import margin_asymptotics, max_margin
from limen.theory.kernel.classification.separability import separable_probability
from limen.theory.kernel.classification.uniform_gap import least_squares_gap, uniform_gap
from limen.theory.kernel.interpolating_smoother import (
    nearest_neighbour_risk,
    neighbour_squared_distance,
    singular_smoother_risk,
)
from limen.theory.kernel.min_norm import covariance_error, interpolator_risk
from limen.theory.spectra import MarchenkoPastur


def agrees(theory: float, samples: np.ndarray) -> bool:
    error = samples.std(ddof=1) / np.sqrt(len(samples))
    return bool(abs(samples.mean() - theory) < 3.5 * error)


def test_logistic_flow_is_descent_with_small_steps():
    rows = draw_labelled_points(0, 30, 3, gap=0.3)
    times = np.array([1.0, 5.0, 20.0, 60.0])
    flow = logistic_flow(rows, np.log(times))
    coarse, fine = (logistic_descent(rows, step, (times / step).astype(int)) for step in (0.02, 0.01))
    # first order in the step, so halving it halves the distance and extrapolation removes it
    distances = [np.abs(run - flow).max() for run in (coarse, fine)]
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.02)
    extrapolated = 2 * fine - coarse
    np.testing.assert_allclose(flow, extrapolated, atol=3e-5)
    without_mean = logistic_flow(rows, np.log(times * len(rows)))
    late = logistic_flow(rows, np.log(1.01 * times))
    for wrong in (without_mean, late):
        assert np.abs(wrong - extrapolated).max() > 1e-3


@pytest.mark.parametrize("softness", [0.5, 4.0])
def test_softer_descent_follows_its_flow_and_no_other(softness):
    rows = draw_labelled_points(3, 12, 2, 0.3)
    times = np.array([5.0, 20.0])
    coarse, fine = (softened_descent(rows, softness, step, (times / step).astype(int)) for step in (0.04, 0.02))
    flow, wrong = (logistic_flow(rows, np.log(times), softness=value) for value in (softness, 1.1 * softness))
    # the error of a step is of first order: two of them remove it
    np.testing.assert_allclose(2 * fine - coarse, flow, atol=1e-4)
    assert np.abs(2 * fine - coarse - wrong).max() > 1e-2


@pytest.mark.parametrize("descent", [logistic_descent, exponential_descent])
def test_descent_on_either_loss_reaches_the_constants(descent):
    rows = np.array([[1.0, 0.0, 0.2], [0.0, 1.5, 0.1], [0.3, 0.1, 1.2]])
    constants, times = margin_asymptotics(rows), 0.7 * np.array([16_000, 64_000])
    assert constants.offset is not None
    assert constants.approach_exponent is not None
    offsets = descent(rows, 0.7, [16_000, 64_000]) - np.outer(np.log(times), constants.weights)
    # the offset is approached like t^-0.313; two times remove that term
    gain = 4**constants.approach_exponent
    np.testing.assert_allclose((gain * offsets[1] - offsets[0]) / (gain - 1), constants.offset, atol=1.5e-3)
    first, second = np.linalg.norm(offsets - constants.offset, axis=1)
    assert np.log(first / second) / np.log(4) == pytest.approx(constants.approach_exponent, rel=0.02)
    without_mean = np.linalg.lstsq(rows, -np.log(constants.multipliers))[0]
    assert np.abs(offsets[1] - without_mean).max() > 0.4


def test_loss_and_margin_along_descent():
    rows = np.array([[1.0, 0.0, 0.2], [0.0, 1.5, 0.1], [0.3, 0.1, 1.2]])
    constants, time = margin_asymptotics(rows), 0.7 * 64_000
    (weights,) = logistic_descent(rows, 0.7, [64_000])
    assert np.exp(log_logistic_loss(rows, weights)) * time == pytest.approx(constants.loss_constant, rel=1e-3)
    assert constants.margin_constant is not None
    shortfall = (max_margin(rows).margin - normalized_margin(rows, weights)) * np.log(time)
    assert shortfall == pytest.approx(constants.margin_constant, rel=0.15)
    assert shortfall == pytest.approx(
        (max_margin(rows).margin - normalized_margin(rows, logistic_flow(rows, [np.log(time)])[0])) * np.log(time),
        rel=1e-3,
    )


@pytest.mark.parametrize(("ratio", "scale"), [(2.0, 0.0), (2.0, 0.5), (4.0, -1.0)])
def test_interpolator_from_any_start(ratio, scale):
    dimension, seeds = 120, 80
    samples = round(dimension / ratio)
    draws = [draw_least_squares(seed, dimension, samples, 0.3) for seed in range(seeds)]
    run = np.array([interpolator_errors(data, scale).test for data in draws])
    # Gaussian inputs: the bias is exact at finite size, the variance has p - n - 1 for p - n
    finite = (dimension - samples) / (dimension - samples - 1)

    def expected(squared_distance, noise=0.3):
        limit = interpolator_risk(ratio, noise, squared_distance)
        return limit.bias + finite * limit.variance

    assert agrees(expected((1 - scale) ** 2), run)
    assert not agrees(expected((1 - scale) ** 2, 0.0), run)
    assert not agrees(expected((1.2 - scale) ** 2), run)
    if scale:
        assert not agrees(expected(1.0), run)


def test_covariance_error():
    errors = []
    for seed in range(40):
        rows = draw_covariance(np.ones(100), 200, seed)
        errors.append(np.linalg.norm(rows.T @ rows / 200 - np.eye(100), 2))
    law = MarchenkoPastur(0.5)
    shift = law.largest_eigenvalue(200).mean - law.edges[1]
    assert agrees(float(covariance_error(0.5)) + shift, np.array(errors))
    assert not agrees(float(covariance_error(0.55)) + shift, np.array(errors))
    assert not agrees(float(covariance_error(0.5)), np.array(errors))


def smoother_risks(samples, bandwidth, seeds, **setting):
    return np.array(
        [singular_smoother_errors(samples, bandwidth, seed=seed, **setting).mean() for seed in range(seeds)]
    )


def test_variance_of_the_singular_smoother():
    setting = {"dimension": 2, "noise": 0.25}
    run = smoother_risks(20_000, 0.05, 100, exponent=0.5, height=0.0, **setting)
    assert agrees(singular_smoother_risk(20_000, 0.05, exponent=0.5, **setting).variance, run)
    assert not agrees(singular_smoother_risk(20_000, 0.05, exponent=0.3, **setting).variance, run)
    assert not agrees(singular_smoother_risk(22_000, 0.05, exponent=0.5, **setting).variance, run)


@pytest.mark.slow
def test_risk_of_the_singular_smoother_at_the_minimax_bandwidth():
    setting = {"dimension": 2, "exponent": 0.5, "noise": 0.25}
    samples, width = 200_000, 200_000**-0.25
    run = smoother_risks(samples, width, 80, **setting)
    limit = singular_smoother_risk(samples, width, **setting)
    assert agrees(limit.test, run)
    assert not agrees(limit.squared_bias, run)
    assert not agrees(limit.test + limit.squared_bias * ((2 / 3) ** 2 / 0.6**2 - 1), run)


def interior_places(dimension, margin):
    axis = np.linspace(margin, 1 - margin, 4)
    return np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


def test_distances_to_neighbours():
    places = interior_places(3, 0.3)
    squares = []
    for seed in range(60):
        inputs = np.random.default_rng(seed).random((4000, 3))
        squares.append((neighbour_distances(inputs, places, 6) ** 2).mean(axis=0))
    squares = np.array(squares)
    for order in (1, 3, 6):
        assert agrees(neighbour_squared_distance(4000, order, 3), squares[:, order - 1])
        assert not agrees(neighbour_squared_distance(4000, order, 3, density=1.1), squares[:, order - 1])
    naive = neighbour_squared_distance(4000, 1, 3) / 0.9027452929509336
    assert not agrees(naive, squares[:, 0])


def test_nearest_neighbour_regression():
    # f = 3 x1^2 + x2^2 - 5 x1: Laplacian 8, and a gradient that must not matter
    places = interior_places(2, 0.3)

    def target(x):
        return 3 * x[:, 0] ** 2 + x[:, 1] ** 2 - 5 * x[:, 0]

    bias, noise = [], []
    for seed in range(400):
        generator = np.random.default_rng(seed)
        inputs, errors = generator.random((600, 2)), generator.standard_normal(600)
        fitted = nearest_neighbour_regression(inputs, target(inputs), places, 20)
        bias.append((fitted - target(places)).mean())
        noise.append((nearest_neighbour_regression(inputs, errors, places, 20) ** 2).mean())
    expected = nearest_neighbour_risk(600, 20, dimension=2, noise=1.0, laplacian=8.0)
    assert agrees(np.sqrt(expected.squared_bias), np.array(bias))
    assert agrees(expected.variance, np.array(noise))
    farthest = 8 / 4 * neighbour_squared_distance(600, 20, 2)
    assert not agrees(farthest, np.array(bias))
    assert not agrees(expected.variance * 20 / 18, np.array(noise))


@pytest.mark.parametrize(("ratio", "dimension", "seeds"), [(0.25, 100, 250), (2.0, 100, 250)])
def test_uniform_gap(ratio, dimension, seeds):
    gaps = [uniform_gaps(ratio, 1.0, 0.25, dimension=dimension, seed=seed) for seed in range(seeds)]
    empirical_above, true_above, least_squares = np.array(
        [(gap.empirical_above, gap.true_above, gap.least_squares) for gap in gaps]
    ).T
    limit, fit = uniform_gap(ratio, 1.0, 0.25), least_squares_gap(ratio, 0.25)
    assert agrees(limit.empirical_above, empirical_above)
    assert agrees(limit.true_above, true_above)
    # the two signs exchanged, and a ratio ten per cent off
    assert not agrees(limit.true_above, empirical_above)
    assert not agrees(limit.empirical_above, true_above)
    off = uniform_gap(1.1 * ratio, 1.0, 0.25)
    assert not agrees(off.empirical_above, empirical_above)
    assert not agrees(off.true_above, true_above)
    assert agrees(fit.gap, least_squares)
    assert not agrees(1.1 * fit.gap, least_squares)
    assert true_above.mean() > 2.5 * least_squares.mean()


def test_random_labelings_are_separable_as_often_as_counted():
    dimension, draws = 10, 400
    counts = np.array([separable_count(seed, 30, dimension) for seed in range(draws)])
    for samples in (16, 20, 24):
        found = int((counts >= samples).sum())
        assert binomtest(found, draws, separable_probability(samples, dimension)).pvalue > 1e-3
        # an affine hyperplane, or one point fewer, would be seen
        assert binomtest(found, draws, separable_probability(samples, dimension + 1)).pvalue < 1e-3
        assert binomtest(found, draws, separable_probability(samples + 2, dimension)).pvalue < 1e-3
