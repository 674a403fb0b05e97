"""The adapted rule in one dimension, tensor and Sobol expectations, and what they refuse."""

import math

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import qmc

from limen.gaussian import expectation, gaussian_rule, sobol_normals
from limen.gaussian.functions import as_function
from limen.gaussian.sobol import scrambled_points
from limen.problem.spec import InputError
from limen.problem.targets import target


def test_moments_of_the_standard_normal():
    rule = gaussian_rule("z**6")
    for k in range(0, 13, 2):
        exact = math.prod(range(1, k, 2))
        assert rule.mean(lambda z, k=k: z**k) == pytest.approx(exact, rel=1e-13)
        assert abs(rule.mean(lambda z, k=k: z ** (k + 1))) < 1e-12 * exact * 10


@pytest.mark.parametrize("at", [0.3, -1.234567, 2.0, 1e-3, 1.9999])
def test_jumps_nobody_announced_are_found_even_next_to_a_panel_end(at):
    rule = gaussian_rule(lambda z: np.where(z > at, 1.0, 0.0))
    assert rule.weights @ rule.values == pytest.approx(0.5 * math.erfc(at / math.sqrt(2)), abs=2e-14)


def test_kinks_nobody_announced_are_found():
    rule = gaussian_rule(lambda z: np.abs(z - 0.3))
    exact = 2 * math.exp(-0.045) / math.sqrt(2 * math.pi) + 0.3 * math.erf(0.3 / math.sqrt(2))
    assert rule.weights @ rule.values == pytest.approx(exact, abs=1e-14)
    assert rule.kinks == pytest.approx((0.3,), abs=1e-6)


def test_sharp_and_singular_functions():
    sharp = gaussian_rule("tanh(100*z)**2")
    logarithm = gaussian_rule("log(abs(z))")
    assert logarithm.weights @ logarithm.values == pytest.approx(-(np.euler_gamma + math.log(2)) / 2, abs=1e-13)
    # 1 - E tanh^2(kz) = sqrt(2/pi)/k (1 - pi^2/(24 k^2) + O(k^-4))
    k = 100.0
    lost = math.sqrt(2 / math.pi) / k * (1 - math.pi**2 / (24 * k**2))
    assert 1 - sharp.weights @ sharp.values == pytest.approx(lost, abs=1e-10)


def test_mean_label_of_a_target_with_noise_inside():
    z = np.array([-2.0, -0.6, -1e-4, 0.0, 0.0005, 0.45, 1.2, 3.0])
    mean = as_function(target("sign(z+0.3*e)", noise=2.0)).values(z)
    assert np.max(np.abs(mean - erf(z / 0.3 / math.sqrt(2)))) < 1e-13


@pytest.mark.parametrize("formula", ["exp(z**2)", "exp(z**2/4)", "1/z", "abs(z)**(-0.5)"])
def test_not_square_integrable_is_refused(formula):
    with pytest.raises(InputError, match="must be square integrable"):
        gaussian_rule(formula)


def test_not_finite_is_refused():
    with pytest.raises(InputError, match="must be finite on the whole line"):
        gaussian_rule("log(z)")


def test_heavy_but_square_integrable_is_accepted():
    rule = gaussian_rule("exp(z**2/5)")
    assert rule.weights @ rule.values**2 == pytest.approx(1 / math.sqrt(0.2), rel=1e-13)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_tensor_expectation(dimension):
    found = expectation(lambda z: np.cos(z.sum(1)) + np.prod(np.abs(z), axis=1), dimension)
    exact = math.exp(-dimension / 2) + (2 / math.pi) ** (dimension / 2)
    assert abs(found.value - exact) < 1e-11
    assert found.error < 1e-8


def test_tensor_expectation_states_the_error_of_an_oblique_kink():
    found = expectation(lambda z: np.abs(z[:, 0] + 0.7 * z[:, 1] - 0.1), 2)
    s = math.sqrt(1.49)
    exact = s * math.sqrt(2 / math.pi) * math.exp(-0.005 / s**2) + 0.1 * math.erf(0.1 / s / math.sqrt(2))
    assert 1e-12 < abs(found.value - exact) < 1e-3
    assert found.error > 0.1 * abs(found.value - exact)


def test_sobol_expectation_above_three_dimensions():
    found = expectation(lambda z: np.stack([np.cos(z.sum(1)), z[:, 0] ** 2], axis=1), 5)
    exact = np.array([math.exp(-2.5), 1.0])
    assert np.max(np.abs(found.value - exact)) < 5 * found.error
    assert found.error < 2e-3


def test_sobol_normals_are_frozen_finite_and_balanced():
    z = sobol_normals(1 << 14, 6, seed=3)
    assert z.shape == (1 << 14, 6) and z.dtype == np.float64 and np.all(np.isfinite(z))
    assert np.array_equal(z, sobol_normals(1 << 14, 6, seed=3))
    assert not np.array_equal(z, sobol_normals(1 << 14, 6, seed=4))
    assert np.max(np.abs(z.mean(0))) < 1e-3
    assert np.max(np.abs(z.T @ z / len(z) - np.eye(6))) < 5e-3  # a Gaussian sample has 0.011 on the diagonal
    assert np.max(np.abs((z**4).mean(0) - 3)) < 5e-2


@pytest.mark.parametrize("count", [0, 3, 1000])
def test_sobol_count_must_be_a_power_of_two(count):
    with pytest.raises(InputError, match="count must be a power of two"):
        sobol_normals(count, 2)


@pytest.mark.parametrize("count, dimension", [(1, 1), (2, 3), (1024, 5), (64, 400)])
def test_sobol_points_are_those_of_scipy(count, dimension):
    """Bit by bit, so that nothing changes where `scipy.stats` is no longer imported for them."""
    sequence = qmc.Sobol(dimension, scramble=True, bits=30, rng=np.random.default_rng(7))
    expected = sequence.random_base2(count.bit_length() - 1)
    np.testing.assert_array_equal(scrambled_points(count, dimension, np.random.default_rng(7)), expected)


def test_points_where_the_direction_numbers_are_not_found(monkeypatch, tmp_path):
    expected = scrambled_points(64, 3, np.random.default_rng(7))
    monkeypatch.setattr("limen.gaussian.sobol.direction_numbers", lambda: tmp_path / "elsewhere.npz")
    np.testing.assert_array_equal(scrambled_points(64, 3, np.random.default_rng(7)), expected)
