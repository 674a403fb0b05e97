"""Averages of products of two fields by Mehler's series: closed forms, and a bound that holds."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import erf as error_function
from scipy.special import erf

from limen.precision import in_double
from limen.simulation.mehler_means import ORDER, hermite_series, products

CORRELATIONS = np.array([-1.0, -0.95, -0.6, -0.2, 0.0, 0.1, 0.5, 0.8, 0.9, 0.99, 1.0])


@in_double
def averages(function, kinks, scales, correlation, shift=0.0):
    series = hermite_series(function, kinks, np.asarray(scales, dtype=float), np.full(2, shift))
    pairs = (np.zeros(correlation.size, dtype=int), np.ones(correlation.size, dtype=int))
    return products(series, series, pairs, correlation), series


def rectified(x):
    return jnp.maximum(x, 0.0)


def test_two_rectified_fields_give_the_arc_cosine_kernel_within_the_bound():
    (found, bound), series = averages(rectified, (0.0,), (1.3, 0.7), CORRELATIONS)
    angle = np.arccos(CORRELATIONS)
    exact = 1.3 * 0.7 * (np.sin(angle) + (np.pi - angle) * CORRELATIONS) / (2.0 * np.pi)
    size = np.sqrt(series.power.prod())
    assert np.all(np.abs(found - exact) <= bound * size + 1e-13)
    assert np.max(np.abs(found - exact)[np.abs(CORRELATIONS) <= 0.8]) < 1e-12
    # The series is slow at correlation one, and says so.
    assert bound[-1] > 1e-5
    np.testing.assert_allclose(series.power, 0.5 * np.array([1.3, 0.7]) ** 2, rtol=1e-12)


def test_two_error_functions_give_the_arc_sine_kernel():
    (found, bound), _ = averages(error_function, (), (1.5, 0.8), CORRELATIONS)
    inside = 2.0 * 1.5 * 0.8 * CORRELATIONS / np.sqrt((1.0 + 2.0 * 1.5**2) * (1.0 + 2.0 * 0.8**2))
    assert np.max(np.abs(found - 2.0 / np.pi * np.arcsin(inside))) < 1e-9
    assert np.max(bound) < 1e-6


@pytest.mark.parametrize("shift", [0.4, -1.1])
def test_a_step_beside_its_bias_is_a_normal_probability(shift):
    """At correlation zero the mean of the product is a product of means."""
    (found, bound), series = averages(lambda x: jnp.where(x > 0.0, 1.0, 0.0), (0.0,), (1.0, 2.0), np.zeros(1), shift)
    means = 0.5 * (1.0 + erf(shift / np.array([1.0, 2.0]) / np.sqrt(2.0)))
    np.testing.assert_allclose(found, means.prod(), rtol=1e-12)
    np.testing.assert_allclose(series.power, means, rtol=1e-12)
    assert bound[0] == 0.0


def test_a_polynomial_is_exact_at_every_correlation():
    (found, _), series = averages(lambda x: x**3 - x, (), (1.0, 1.0), CORRELATIONS)
    # x³ - x = he_3 + 2 he_1
    np.testing.assert_allclose(found, 6.0 * CORRELATIONS**3 + 4.0 * CORRELATIONS, atol=1e-11)
    assert np.max(np.abs(series.coefficients[:, 4:])) < 1e-10
    assert series.coefficients.shape == (2, ORDER)


def test_a_missing_term_would_be_seen():
    """The twin: without the first coefficient the arc-cosine kernel is missed by far more than the bound."""
    (found, bound), series = averages(rectified, (0.0,), (1.0, 1.0), np.array([0.5]))
    wrong = found - 0.5 * series.coefficients[0, 1] ** 2
    exact = (np.sin(np.pi / 3) + np.pi / 3.0) / (2.0 * np.pi)
    assert abs(found[0] - exact) < 1e-12
    assert abs(wrong[0] - exact) > 1e6 * bound[0]


@in_double
def test_equal_fields_share_a_series_and_keep_their_places():
    scales, shifts = np.array([1.0, 0.5, 1.0, 0.5 + 1e-15, 1.0]), np.array([0.0, 0.1, 0.0, 0.1, 0.2])
    together = hermite_series(rectified, (0.0,), scales, shifts)
    for place in range(5):
        alone = hermite_series(rectified, (0.0,), scales[place : place + 1], shifts[place : place + 1])
        np.testing.assert_allclose(together.coefficients[place], alone.coefficients[0], atol=1e-13)
        assert together.power[place] == pytest.approx(alone.power[0], rel=1e-13)
