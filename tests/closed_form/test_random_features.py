"""Random features ridge regression: the published fixed point, exact limits and symmetries, any spectrum, bad input."""

import numpy as np
import pytest

from limen.problem.spec import InputError
from limen.theory.kernel import (
    ActivationMoments,
    activation_moments,
    random_features,
    random_features_from_moments,
    random_features_optimal_ridge,
    random_features_spectrum,
    ridge,
)

RELU = ActivationMoments(1 / np.sqrt(2 * np.pi), 0.5, 0.25 - 0.5 / np.pi)


def published(psi1: float, psi2: float, penalty: float, moments: ActivationMoments) -> tuple[float, float, float]:
    r"""The form published by Mei & Montanari: fixed point of $\nu_1,\nu_2$, polynomials in their product $\chi$."""
    zeta = moments.linear**2 / moments.nonlinear_squared
    xi = 1j * np.sqrt(psi1 * psi2 * penalty / moments.nonlinear_squared)
    nu1, nu2 = psi1 / -xi, psi2 / -xi
    for _ in range(200_000):
        new1 = psi1 / (-xi - nu2 - zeta * nu2 / (1 - zeta * nu1 * nu2))
        new2 = psi2 / (-xi - nu1 - zeta * nu1 / (1 - zeta * nu1 * nu2))
        change = abs(new1 - nu1) + abs(new2 - nu2)
        nu1, nu2 = 0.5 * (nu1 + new1), 0.5 * (nu2 + new2)
        if change < 2e-15 * (abs(nu1) + abs(nu2)):
            break
    c, z = (nu1 * nu2).real, zeta
    p, q = psi1 * psi2, psi1 + psi2
    e0 = -(c**5) * z**3 + 3 * c**4 * z**2 + (p - q + 1) * c**3 * z**3 - 2 * c**3 * z**2 - 3 * c**3 * z
    e0 += (q - 3 * p + 1) * c**2 * z**2 + 2 * c**2 * z + c**2 + 3 * p * c * z - p
    e1 = psi2 * c**3 * z**2 - psi2 * c**2 * z + p * c * z - p
    e2 = c**5 * z**3 - 3 * c**4 * z**2 + (psi1 - 1) * c**3 * z**3 + 2 * c**3 * z**2 + 3 * c**3 * z
    e2 += (-psi1 - 1) * c**2 * z**2 - 2 * c**2 * z - c**2
    return e1 / e0, e2 / e0, c


def test_moments():
    for name, linear, nonlinear in (
        ("relu", 0.5, 0.25 - 0.5 / np.pi),
        ("erf", 2 / np.sqrt(3 * np.pi), 2 / np.pi * np.arcsin(2 / 3) - 4 / (3 * np.pi)),
        ("tanh", 0.6057055096, 0.0274153260),
    ):
        moments = activation_moments(name)
        assert moments.linear == pytest.approx(linear, abs=6e-11)
        assert moments.nonlinear_squared == pytest.approx(nonlinear, abs=6e-11)
    assert activation_moments("3*z + 1").nonlinear_squared == 0.0
    assert activation_moments("hermite:3").linear == 0.0


def test_reference_values():
    risk = random_features(2.0, 3.0, 0.01, "relu", noise=1.0)
    np.testing.assert_allclose(
        [risk.kappa, risk.bias, risk.variance], [0.1031930022, 0.4127763894, 0.7538584218], atol=6e-11
    )
    assert published(2.0, 3.0, 0.01, RELU)[2] == pytest.approx(-0.8803412536, abs=6e-11)
    curve = random_features([1, 2, 4, 6, 10, 100], 3.0, 0.0, "relu", noise=0.2).test
    np.testing.assert_allclose(curve, [0.7719, 1.0849, 1.1268, 0.4371, 0.2400, 0.1029], atol=6e-5)


def test_equal_to_the_published_fixed_point():
    rng = np.random.default_rng(1)
    for _ in range(40):
        psi1, psi2 = np.exp(rng.uniform(-1.5, 2.0, 2))
        penalty = np.exp(rng.uniform(-3.0, 1.5))
        moments = ActivationMoments(0.0, rng.uniform(0.2, 1.5), rng.uniform(0.05, 1.0))
        bias, variance, _ = published(psi1, psi2, penalty, moments)
        ours = random_features_from_moments(psi1, psi2, penalty, moments, noise=1.0)
        assert ours.bias == pytest.approx(bias, rel=1e-10)
        assert ours.variance == pytest.approx(variance, rel=1e-10)


def test_effective_ridge_is_symmetric_and_solves_its_equation():
    m1, ms = RELU.linear**2, RELU.nonlinear_squared
    for psi1, psi2, penalty in ((0.3, 4.0, 1e-6), (2.0, 3.0, 0.1), (7.0, 7.0, 1e-8), (5.0, 0.2, 3.0)):
        kappa = random_features(psi1, psi2, penalty, "relu").kappa
        assert random_features(psi2, psi1, penalty, "relu").kappa == pytest.approx(kappa, rel=1e-14)
        degrees = m1 / (m1 + kappa) + ms / kappa
        value = kappa * (1 - degrees / psi1) * (1 - degrees / psi2)
        assert value == pytest.approx(penalty, rel=1e-9, abs=1e-15)


def test_ridgeless_is_the_limit_of_ridge_and_its_variance_is_simple():
    for psi1, psi2 in ((0.4, 2.0), (2.0, 3.0), (4.0, 3.0), (30.0, 0.5)):
        zero, small = (random_features(psi1, psi2, penalty, "tanh", 1.2, 0.3, 0.2) for penalty in (0.0, 1e-13))
        assert small.test == pytest.approx(zero.test, rel=1e-8)
        assert small.train == pytest.approx(zero.train, abs=1e-9)
        if psi1 < psi2:
            assert zero.variance == pytest.approx(psi1 / (psi2 - psi1), rel=1e-13)
        assert (zero.train == 0.0) == (psi1 >= psi2)


def test_peak():
    for gap in (1e-6, -1e-6):
        variance = random_features(3.0 + gap, 3.0, 0.0, "relu", noise=1.0).variance
        assert variance * abs(gap) == pytest.approx(3.0, rel=1e-4)
    at = random_features([2.0, 0.1 + 0.2], [2.0, 0.3], 0.0, "relu", noise=0.1)
    assert np.isinf(at.test).all() and (at.train == 0.0).all()
    assert "psi1 = psi2" in at.status


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 0.5])
def test_infinitely_many_features_are_isotropic_linear_ridge(penalty):
    for psi2 in (0.4, 1.0, 3.0):
        wide = random_features(np.inf, psi2, penalty, "relu", 1.3, 0.0, 0.2)
        m1, ms = RELU.linear**2, RELU.nonlinear_squared
        linear = ridge(1 / psi2, (ms + psi2 * penalty) / (psi2 * m1), 0.2, signal=(1.3**2,))
        assert 1.3**2 * wide.bias == pytest.approx(linear.bias, rel=1e-12)
        assert 0.2 * wide.variance == pytest.approx(linear.variance, rel=1e-12)
        assert wide.test == pytest.approx(linear.test, rel=1e-12)
        many = random_features(1e9, psi2, penalty, "relu", 1.3, 0.0, 0.2)
        assert many.test == pytest.approx(wide.test, rel=1e-7)


def test_infinitely_many_samples_leave_the_approximation_error():
    endless, many = (random_features(2.0, psi2, 0.01, "relu", 1.0, 0.3, 0.2) for psi2 in (np.inf, 1e9))
    assert endless.variance == 0.0
    assert endless.test == pytest.approx(many.test, rel=1e-7)
    assert endless.train == pytest.approx(endless.test + 0.2, rel=1e-12)


def test_training_objective():
    # train + (N lambda/d)|a|^2 = (1 - D1/psi2)[F1^2 kappa/(mu1^2 + kappa) + F*^2 + tau^2]; the objective's
    # derivative in lambda is (N/d)|a|^2 (envelope), hence train = objective - lambda d(objective)/d(lambda)
    m1, ms = RELU.linear**2, RELU.nonlinear_squared

    def objective(penalty):
        kappa = random_features(2.0, 3.0, penalty, "relu").kappa
        return (1 - (m1 / (m1 + kappa) + ms / kappa) / 3.0) * (1.44 * kappa / (m1 + kappa) + 0.3 + 0.2)

    penalty, change = 0.05, 1e-4
    slope = (objective(penalty + change) - objective(penalty - change)) / (2 * change)
    train = random_features(2.0, 3.0, penalty, "relu", 1.2, 0.3, 0.2).train
    assert train == pytest.approx(objective(penalty) - penalty * slope, rel=1e-6)


def test_without_a_linear_part_nothing_linear_is_learnt():
    risk = random_features([0.5, 2.0, np.inf], 3.0, 0.1, "hermite:2")
    assert (risk.bias >= 1.0 - 1e-15).all()


def test_linear_features_are_linear_regression():
    # enough features: ordinary least squares in d dimensions, whatever their number
    risk = random_features([1.0, 1.5, np.inf], 3.0, 0.0, "linear", noise=0.2)
    np.testing.assert_allclose(risk.variance, 1.0 / (3.0 - 1.0), rtol=1e-12)
    np.testing.assert_array_equal(risk.bias, 0.0)


@pytest.mark.parametrize("noise", [0.05, 0.8])
def test_optimal_ridge_of_the_kernel_limit(noise):
    best = random_features_optimal_ridge(2.0, "relu", 1.1, 0.1, noise)
    m1, ms = RELU.linear**2, RELU.nonlinear_squared
    assert best == pytest.approx(max(0.0, m1 * (noise + 0.1) / 1.21 - ms) / 2.0, abs=1e-14)
    grid = np.concatenate([[0.0], np.geomspace(1e-5, 10, 20_001)])
    risks = random_features(np.inf, 2.0, grid, "relu", 1.1, 0.1, noise).test
    assert grid[np.argmin(risks)] == pytest.approx(best, rel=1e-3, abs=1e-12)
    assert random_features_optimal_ridge(2.0, "hermite:2", noise=1.0) == np.inf


def test_any_spectrum_contains_the_linear_regime():
    # eigenvalue mu1^2/d d times and the tail mu*^2; delta = n lambda/d
    d = 80
    for psi1, psi2, penalty in ((2.0, 3.0, 0.01), (4.0, 1.5, 0.0), (np.inf, 2.0, 0.1)):
        regime = random_features(psi1, psi2, penalty, "relu", 1.2, 0.3, 0.2)
        spectrum = random_features_spectrum(
            np.full(d, 0.25 / d), np.full(d, 1.44 / d), psi2 * d, psi1 * d, psi2 * penalty, 0.2,
            tail=RELU.nonlinear_squared, tail_coefficient=0.3,
        )  # fmt: skip
        assert spectrum.test == pytest.approx(regime.test, rel=1e-12)
        assert spectrum.train == pytest.approx(regime.train, rel=1e-12, abs=1e-15)


def test_power_law_spectrum_obeys_the_printed_equations():
    k = np.arange(1, 2001)
    eigenvalues, coefficients = k**-1.5, k**-2.0
    n, p, delta, noise = 100.0, 150.0, 0.05, 0.1
    risk = random_features_spectrum(eigenvalues, coefficients, n, p, delta, noise, tail=0.02, tail_coefficient=0.01)
    kappa = risk.kappa
    t1 = np.sum(eigenvalues / (eigenvalues + kappa)) + 0.02 / kappa
    t2 = np.sum((eigenvalues / (eigenvalues + kappa)) ** 2)
    ts = np.sum(eigenvalues / (eigenvalues + kappa) ** 2) + 0.02 / kappa**2
    assert kappa * (1 - t1 / p) * (n - t1) == pytest.approx(delta, rel=1e-10)
    x = t1 / p
    upsilon = p / n * (x**2 + (1 - x) ** 2 * t2 / (p - t2))
    shape = coefficients * (1 + eigenvalues * ts / (p - t2)) / (eigenvalues + kappa) ** 2
    assert risk.bias == pytest.approx((kappa**2 * shape.sum() + 0.01) / (1 - upsilon), rel=1e-10)
    assert risk.variance == pytest.approx(noise * upsilon / (1 - upsilon), rel=1e-10)
    assert risk.train == pytest.approx((1 - t1 / n) ** 2 * (risk.test + noise), rel=1e-10)


def test_more_samples_than_eigenvalues():
    # no tail, more samples and features than eigenvalues: unpenalised least squares on 5 functions
    risk = random_features_spectrum(np.arange(1.0, 6.0), np.ones(5), 20.0, np.inf, 0.0, 0.4)
    assert risk.bias == 0.0
    assert risk.variance == pytest.approx(0.4 * 5 / 15, rel=1e-13)


def test_arguments_broadcast():
    risk = random_features(np.array([[1.0], [2.0]]), np.array([0.5, 3.0, 9.0]), 0.01, "erf", noise=0.1)
    assert risk.test.shape == (2, 3)
    assert risk.test[1, 2] == pytest.approx(random_features(2.0, 9.0, 0.01, "erf", noise=0.1).test, rel=1e-13)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_features(0.0, 1.0, 0.1, "relu"), "psi1 must be positive, got 0.0."),
        (lambda: random_features(1.0, -1.0, 0.1, "relu"), "psi2 must be positive, got -1.0."),
        (lambda: random_features(1.0, 1.0, -0.1, "relu"), "ridge must be non-negative and finite, got -0.1."),
        (lambda: random_features(np.inf, np.inf, 0.1, "relu"), "psi1 and psi2 must not both be infinite"),
        (lambda: random_features(1.0, 1.0, 0.1, "relu", noise=-1.0), "noise must be non-negative"),
        (lambda: random_features(1.0, 1.0, 0.1, "relu", nonlinear=-1.0), "nonlinear must be non-negative"),
        (lambda: random_features(1.0, 1.0, 0.1, "2 + 0*z"), "activation must not be constant"),
        (lambda: random_features_spectrum([1.0], [1.0, 2.0], 5, 5, 0.1), "coefficients must have as many entries as"),
        (lambda: random_features_spectrum([0.0], [1.0], 5, 5, 0.1), "eigenvalues must contain a positive number"),
        (lambda: random_features_spectrum([1.0], [1.0], np.inf, 5, 0.1), "samples must be positive and finite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(words)


def test_an_activation_that_is_not_square_integrable_is_refused():
    with pytest.raises(InputError):
        random_features(1.0, 1.0, 0.1, "exp(z**2)")
