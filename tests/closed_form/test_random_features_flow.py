"""Gradient flow on random features and kernels: references, limits, independent integrals."""

import numpy as np
import pytest

from limen.problem.spec import InputError
from limen.theory.kernel import (
    activation_moments,
    kernel_flow,
    random_features,
    random_features_flow,
    random_features_spectrum,
    random_features_spectrum_flow,
    ridge_flow,
)
from limen.theory.kernel.equivalent import kernel_spectrum
from limen.theory.kernel.equivalent_risk import ridge_risk
from limen.theory.kernel.filters import combine, flow_risk, in_groups, ridge_filter
from limen.theory.kernel.random_features import linear_regime


def both(risk) -> np.ndarray:
    return np.array([risk.test, risk.train])


def test_reference_values():
    risk = random_features_flow(6.0, 3.0, [1.0, 10.0, 100.0, 1e4], "relu", 1.0, 0.3, 0.2)
    np.testing.assert_allclose(risk.test, [0.962885, 0.605622, 0.842556, 1.133781], atol=6e-7)


def test_contour_reproduces_the_closed_form_of_ridge():
    rng = np.random.default_rng(0)
    for index in range(42):
        name = ("relu", "erf", "tanh", "hermite:2", "linear", "abs(z)", "z**3 - 2*z")[index % 7]
        psi1, psi2 = np.exp(rng.uniform(-2, 2.5, 2))
        psi1, psi2 = (np.inf, psi2) if index % 5 == 0 else (psi1, np.inf) if index % 11 == 0 else (psi1, psi2)
        penalty = np.exp(rng.uniform(-6, 1))
        spectrum = linear_regime(activation_moments(name), 1.0, 0.3)
        contour = combine(in_groups(spectrum, psi1, psi2, np.array([penalty]), ridge_filter), (), 0.2)
        closed = random_features(psi1, psi2, penalty, name, 1.0, 0.3, 0.2)
        np.testing.assert_allclose(both(contour), both(closed), rtol=1e-10, atol=1e-11, err_msg=f"{name} {psi1} {psi2}")


def test_contour_on_random_spectra():
    # eigenvalues over ten decades of e, gaps, atoms, tails: the branch is followed and both contours agree with ridge
    rng = np.random.default_rng(5)
    for index in range(60):
        count = rng.integers(1, 8)
        energies, rest = rng.uniform(0, 1, count), 0.3 * (index % 2)
        tail = np.exp(rng.uniform(-7, 1)) if index % 3 else 0.0
        spectrum = kernel_spectrum(
            np.exp(rng.uniform(-7, 3, count)), rng.dirichlet(np.ones(count)), energies, tail, rest
        )
        samples, penalty = np.exp(rng.uniform(-2.5, 2.5)), np.exp(rng.uniform(-9, 2))
        features = (np.inf, samples, *np.exp(rng.uniform(-2.5, 2.5, 2)))[index % 4]
        contour = combine(in_groups(spectrum, features, samples, np.array([penalty]), ridge_filter), (), 0.2)
        closed = ridge_risk(spectrum, *map(np.asarray, (features, samples, penalty, 0.2)), threshold="")
        np.testing.assert_allclose(both(contour), both(closed), rtol=1e-10, atol=1e-11)
        flow = flow_risk(spectrum, features, samples, np.array([0.0, 0.1, 10.0, 1e3]))
        assert flow.bias[0] == pytest.approx(energies.sum() + rest, rel=1e-10)
        assert (np.diff(flow.train_signal + flow.train_noise) <= 1e-11).all()


@pytest.mark.parametrize(("psi1", "psi2"), [(0.3, 2.0), (6.0, 3.0), (np.inf, 0.5), (np.inf, 4.0), (1.5, np.inf)])
def test_beginning_and_end(psi1, psi2):
    start = random_features_flow(psi1, psi2, 0.0, "erf", 1.2, 0.3, 0.2)
    assert start.test == pytest.approx(1.44 + 0.3, rel=1e-12)
    assert start.train == pytest.approx(1.44 + 0.3 + 0.2, rel=1e-12)
    end = random_features_flow(psi1, psi2, 1e6, "erf", 1.2, 0.3, 0.2)
    ridgeless = random_features(psi1, psi2, 0.0, "erf", 1.2, 0.3, 0.2)
    np.testing.assert_allclose(both(end), both(ridgeless), atol=1e-10)


@pytest.mark.parametrize("samples_per_dim", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("time", [0.05, 1.0, 30.0])
def test_kernel_flow_is_an_integral_over_marchenko_pastur(samples_per_dim, time):
    # K = slope (n/d) z + tail on the training set, z the spectrum of XX^T/n; predictions see only the linear part,
    # with the filter 1 - kz (1 - exp(-t(kz + c)))/(kz + c), and what they cannot see acts as noise
    slope, tail, linear, nonlinear, noise = 0.9, 0.4, 1.2, 0.3, 0.2
    ratio = 1 / samples_per_dim
    count = 4000
    angle = (np.arange(count) + 0.5) * np.pi / count
    s = (1 - np.sqrt(ratio)) ** 2 + 4 * np.sqrt(ratio) * np.cos(angle / 2) ** 2
    w = 2 * np.sin(angle) ** 2 / (count * s)
    k = slope * samples_per_dim
    decay = np.exp(-time * (k * s + tail))
    fitted = k * s * (1 - decay) / (k * s + tail)
    bias = linear**2 * (w @ (1 - fitted) ** 2 + max(0.0, 1 - 1 / ratio))
    amplification = ratio * (w @ (fitted**2 / s))
    rest = max(0.0, 1 - ratio) * np.exp(-2 * time * tail)
    train = linear**2 * w @ (s * decay**2) + (noise + nonlinear) * (ratio * w @ decay**2 + rest)
    risk = kernel_flow(samples_per_dim, time, slope, tail, linear, nonlinear, noise)
    assert risk.test == pytest.approx(bias + (noise + nonlinear) * amplification + nonlinear, rel=1e-10)
    assert risk.variance == pytest.approx(noise * amplification, rel=1e-10)
    assert risk.train == pytest.approx(train, rel=1e-10)


def test_linear_features_in_endless_number_are_least_squares():
    features = random_features_flow(np.inf, 0.7, [0.3, 5.0], "linear", 1.2, 0.0, 0.2)
    least_squares = ridge_flow(1 / 0.7, [0.3, 5.0], 0.2, signal=(1.44,))
    np.testing.assert_allclose(both(features), both(least_squares), atol=1e-11)


def test_any_spectrum_contains_the_linear_regime():
    d, moments = 60, activation_moments("tanh")
    regime = random_features_flow(2.0, 3.0, [0.5, 20.0], "tanh", 1.2, 0.3, 0.2)
    spectrum = random_features_spectrum_flow(
        np.full(d, moments.linear**2 / d), np.full(d, 1.44 / d), 3.0 * d, 2.0 * d, np.array([0.5, 20.0]) * d, 0.2,
        tail=moments.nonlinear_squared, tail_coefficient=0.3,
    )  # fmt: skip
    np.testing.assert_allclose(both(spectrum), both(regime), atol=1e-10)


def test_power_law_spectrum_ends_ridgeless():
    k = np.arange(1, 61)
    arguments = (k**-1.5, k**-2.0, 100.0, 30.0)
    end = random_features_spectrum_flow(*arguments, 1e6, 0.1)
    np.testing.assert_allclose(both(end), both(random_features_spectrum(*arguments, 0.0, 0.1)), atol=1e-10)


def test_training_error_falls_monotonically():
    risk = random_features_flow(2.0, 3.0, np.geomspace(0.01, 300.0, 40), "relu", 1.0, 0.3, 0.2)
    assert (np.diff(risk.train) < 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_features_flow(2.0, 3.0, -1.0, "relu"), "time must be non-negative and finite, got -1.0."),
        (lambda: random_features_flow([2.0, 1.0], 3.0, 1.0, "relu"), "psi1 must be one number"),
        (lambda: random_features_flow(np.inf, np.inf, 1.0, "relu"), "psi1 and psi2 must not both be infinite"),
        (lambda: kernel_flow(2.0, 1.0, 0.0, 0.0), "slope or tail must be positive"),
        (lambda: kernel_flow(0.0, 1.0, 1.0, 0.0), "samples_per_dim must be positive and finite, got 0.0."),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(words)
