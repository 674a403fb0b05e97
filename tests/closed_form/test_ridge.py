"""Ridge and ridgeless least squares: closed forms, limits, symmetries, and bad input."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from limen.problem.spec import InputError
from limen.theory.kernel import optimal_ridge, random_features_spectrum, ridge

THREE_ATOMS = {"values": (1.0, 4.0, 10.0), "weights": (0.5, 0.3, 0.2), "signal": (0.2, 0.5, 0.3)}


def marchenko_pastur(ratio: float, count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the bulk of the Marchenko-Pastur law: midpoint rule in the angle."""
    angle = (np.arange(count) + 0.5) * np.pi / count
    nodes = (1 - np.sqrt(ratio)) ** 2 + 4 * np.sqrt(ratio) * np.cos(angle / 2) ** 2
    return nodes, 2 * np.sin(angle) ** 2 / (count * nodes)


def test_reference_values():
    risk = ridge(0.6, 0.3, 0.5, **THREE_ATOMS)
    np.testing.assert_allclose(
        [risk.kappa, risk.bias, risk.variance, risk.train], [0.55960, 0.10198, 0.29300, 0.25721], atol=5e-6
    )
    assert risk.test == risk.bias + risk.variance


def test_effective_ridge_solves_its_equation():
    s, w = np.array(THREE_ATOMS["values"]), np.array(THREE_ATOMS["weights"])
    for ratio in (0.2, 0.9, 1.0, 1.1, 5.0):
        for penalty in (1e-8, 0.1, 30.0):
            kappa = ridge(ratio, penalty, 0.5, **THREE_ATOMS).kappa
            assert kappa * (1 - ratio * w @ (s / (s + kappa))) == pytest.approx(penalty, rel=1e-6, abs=1e-14)


def test_isotropic_ridgeless():
    ratio = np.array([0.1, 0.5, 0.99, 1.01, 2.0, 10.0])
    risk = ridge(ratio, 0.0, 0.3, signal=(2.0,))
    below = ratio < 1
    np.testing.assert_allclose(risk.bias, np.where(below, 0.0, 2.0 * (1 - 1 / ratio)), atol=1e-12)
    np.testing.assert_allclose(risk.variance, 0.3 * np.where(below, ratio / (1 - ratio), 1 / (ratio - 1)), rtol=1e-11)
    np.testing.assert_allclose(risk.train, np.where(below, 0.3 * (1 - ratio), 0.0), atol=1e-14)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("penalty", [0.05, 1.0])
def test_isotropic_ridge_is_an_integral_over_marchenko_pastur(ratio, penalty):
    s, w = marchenko_pastur(ratio)
    atom = max(0.0, 1 - 1 / ratio)
    risk = ridge(ratio, penalty, 0.4, signal=(1.5,))
    left_over = penalty / (s + penalty)
    assert risk.bias == pytest.approx(1.5 * (w @ left_over**2 + atom), rel=1e-10)
    assert risk.variance == pytest.approx(0.4 * ratio * (w @ (s / (s + penalty) ** 2)), rel=1e-10)
    train = 1.5 * w @ (s * left_over**2) + 0.4 * (ratio * w @ left_over**2 + max(0.0, 1 - ratio))
    assert risk.train == pytest.approx(train, rel=1e-10)


def test_ridgeless_is_the_limit_of_ridge():
    for ratio in (0.5, 3.0):
        small, zero = ridge(ratio, 1e-11, 0.5, **THREE_ATOMS), ridge(ratio, 0.0, 0.5, **THREE_ATOMS)
        assert small.test == pytest.approx(zero.test, rel=1e-9)
        assert small.train == pytest.approx(zero.train, abs=1e-9)


def test_infinite_variance_is_said_not_rounded():
    tenths = {"values": np.linspace(1, 2, 10), "weights": np.full(10, 0.1), "signal": np.full(10, 0.1)}
    for population in ({}, tenths):
        risk = ridge([0.5, 1.0, 2.0], 0.0, 1.0, **population)
        assert np.isinf(risk.variance).tolist() == [False, True, False]
        assert risk.bias[1] == 0.0 and risk.train[1] == 0.0
        assert "infinite" in risk.status
    assert ridge(1.0, 0.0, 0.0).variance == 0.0
    assert "finite" in ridge(2.0, 0.0, 1.0).status and "infinite" not in ridge(2.0, 0.0, 1.0).status


def test_peak_has_its_exact_strength_next_to_the_threshold():
    # variance = 1/(2 sqrt(lambda)) to leading order at ratio 1
    for penalty in (1e-24, 1e-300):
        assert ridge(1.0, penalty, 1.0).variance * np.sqrt(penalty) == pytest.approx(0.5, rel=1e-9)
    assert ridge(1.0, 1e300, 1.0).test == pytest.approx(1.0, rel=1e-12)


def test_directions_without_variance_do_not_count():
    with_null = ridge(1.6, 0.2, 0.5, (0.0, 2.0), (0.25, 0.75), (3.0, 1.0))
    without = ridge(1.2, 0.2, 0.5, 2.0, 1.0, 1.0)
    assert with_null.test == pytest.approx(without.test, rel=1e-13)
    assert with_null.train == pytest.approx(without.train, rel=1e-13)


def test_scaling_of_inputs_and_penalty():
    # x -> 3x, beta -> beta/3, lambda -> 9 lambda is the same problem
    values, signal = np.array(THREE_ATOMS["values"]), np.array(THREE_ATOMS["signal"])
    one = ridge(1.7, 0.3, 0.5, **THREE_ATOMS)
    other = ridge(1.7, 2.7, 0.5, 9 * values, THREE_ATOMS["weights"], signal / 9)
    assert other.bias == pytest.approx(one.bias, rel=1e-13)
    assert other.variance == pytest.approx(one.variance, rel=1e-13)


@pytest.mark.parametrize("ratio", [0.4, 1.0, 3.0])
def test_optimal_ridge_of_an_isotropic_signal(ratio):
    weights = np.array(THREE_ATOMS["weights"])
    best = optimal_ridge(ratio, 0.5, THREE_ATOMS["values"], weights, 2 * weights)
    assert best == pytest.approx(0.5 * ratio / 2, rel=1e-9)


def test_optimal_ridge_is_the_numerical_minimum():
    best = optimal_ridge(0.8, 0.5, **THREE_ATOMS)
    found = minimize_scalar(
        lambda log: ridge(0.8, np.exp(log), 0.5, **THREE_ATOMS).test, bounds=(-8, 4), method="bounded"
    )
    assert best == pytest.approx(np.exp(found.x), rel=1e-4)
    assert ridge(0.8, best, 0.5, **THREE_ATOMS).test <= found.fun * (1 + 1e-14)


def test_optimal_ridge_at_its_ends():
    assert optimal_ridge(0.5, 0.0) == 0.0
    assert optimal_ridge(0.5, 1.0, signal=(0.0,)) == np.inf
    # a signal along the top of the covariance, more parameters than samples: no penalty is best
    assert optimal_ridge(2.0, 1e-6, (0.05, 20.0), (0.9, 0.1), (0.0, 1.0)) == 0.0


def test_linear_regression_is_kernel_regression_with_the_linear_kernel():
    samples, dimension = 50, 30
    kernel = random_features_spectrum(
        np.full(dimension, 1.0), np.full(dimension, 1 / dimension), samples, np.inf, 0.2 * samples, 0.4
    )
    linear = ridge(dimension / samples, 0.2, 0.4)
    assert kernel.test == pytest.approx(linear.test, rel=1e-13)
    assert kernel.train == pytest.approx(linear.train, rel=1e-13)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ratio": 0.0}, "ratio must be positive and finite, got 0.0."),
        ({"ratio": [1.0, -2.0]}, "ratio must be positive and finite, got -2.0."),
        ({"ridge": -1.0}, "ridge must be non-negative and finite, got -1.0."),
        ({"noise": -0.1}, "noise must be non-negative and finite, got -0.1."),
        ({"noise": float("nan")}, "noise must not be NaN."),
        ({"ratio": "many"}, "ratio must be a real number or an array of them, got 'many'."),
        ({"weights": (0.7,)}, "weights must sum to 1, got 0.7."),
        ({"values": (-1.0,)}, "values must be non-negative and finite, got -1.0."),
        ({"values": (0.0,)}, "values must contain a positive covariance eigenvalue of positive weight."),
        ({"values": (1.0, 2.0)}, "weights must have as many entries as values (2), got 1."),
        ({"ratio": [1.0, 2.0], "ridge": [1.0, 2.0, 3.0]}, "arguments must have shapes that broadcast together"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change, words):
    with pytest.raises(InputError) as caught:
        ridge(**{"ratio": 0.5, "ridge": 0.1, "noise": 1.0, **change})
    assert str(caught.value).startswith(words)
