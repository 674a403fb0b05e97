"""Gradient flow and descent for least squares: references, integrals, limits, and the two contours."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from limen.problem.spec import InputError
from limen.theory.kernel import (
    gradient_descent_risk,
    optimal_ridge,
    optimal_stopping_time,
    ridge,
    ridge_by_contour,
    ridge_flow,
)
from limen.theory.kernel.ridge import population
from limen.theory.kernel.spectral_edges import spectral_edges

THREE_ATOMS = {"values": (1.0, 4.0, 10.0), "weights": (0.5, 0.3, 0.2), "signal": (0.2, 0.5, 0.3)}


def marchenko_pastur(ratio: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    angle = (np.arange(count) + 0.5) * np.pi / count
    nodes = (1 - np.sqrt(ratio)) ** 2 + 4 * np.sqrt(ratio) * np.cos(angle / 2) ** 2
    return nodes, 2 * np.sin(angle) ** 2 / (count * nodes)


def isotropic(ratio: float, residual, signal: float, noise: float, count: int = 20000) -> tuple[float, float, float]:
    """Bias, variance and training error of any filter for isotropic inputs, by quadrature over Marchenko-Pastur."""
    s, w = marchenko_pastur(ratio, count)
    phi = residual(s)
    bias = signal * (w @ phi**2 + max(0.0, 1 - 1 / ratio))
    variance = noise * ratio * (w @ ((1 - phi) ** 2 / s))
    train = signal * w @ (s * phi**2) + noise * (ratio * w @ phi**2 + max(0.0, 1 - ratio))
    return bias, variance, train


def three(risk) -> np.ndarray:
    return np.array([risk.bias, risk.variance, risk.train])


def test_reference_values():
    first = ridge_flow(0.6, 0.5, 0.5, **THREE_ATOMS)
    np.testing.assert_allclose(three(first), [0.388051527, 0.139442414, 0.422938803], atol=6e-10)
    second = ridge_flow(1.7, 3.0, 0.5, **THREE_ATOMS)
    np.testing.assert_allclose(three(second), [0.850801580, 0.705961906, 0.009490408], atol=6e-10)


def test_reference_edges():
    law = population((1.0, 4.0, 10.0), (0.5, 0.3, 0.2), (1.0, 1.0, 1.0)).spectrum
    np.testing.assert_allclose(spectral_edges(law, np.inf, 1 / 0.3), [0.2750706482, 16.1922255340], atol=6e-11)


@pytest.mark.parametrize("ratio", [0.3, 0.95, 1.0, 1.05, 4.0])
@pytest.mark.parametrize("time", [0.01, 1.0, 40.0, 1e3])
def test_flow_is_an_integral_over_marchenko_pastur(ratio, time):
    exact = isotropic(ratio, lambda s: np.exp(-time * s), 1.5, 0.4)
    np.testing.assert_allclose(three(ridge_flow(ratio, time, 0.4, signal=(1.5,))), exact, atol=1e-11, rtol=1e-11)


def test_long_flow_at_the_threshold():
    exact = isotropic(1.0, lambda s: np.exp(-1e5 * s), 1.0, 0.4)
    np.testing.assert_allclose(three(ridge_flow(1.0, 1e5, 0.4)), exact, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("steps", [0, 1, 7, 300])
@pytest.mark.parametrize("fraction", [0.1, 0.6, 0.99, 1.02])
def test_descent_is_an_integral_over_marchenko_pastur(ratio, steps, fraction):
    step = 2 * fraction / (1 + np.sqrt(ratio)) ** 2
    exact = isotropic(ratio, lambda s: (1 - step * s) ** steps, 1.5, 0.4)
    risk = gradient_descent_risk(ratio, step, steps, 0.4, signal=(1.5,))
    # a diverging filter is integrated to rounding of its largest square, at the right edge
    largest = (1 - step * (1 + np.sqrt(ratio)) ** 2) ** (2 * steps)
    np.testing.assert_allclose(three(risk), exact, atol=max(1e-11, 1e-13 * largest), rtol=1e-11)
    assert ("diverges" in risk.status) == (fraction > 1)


def test_flow_on_ridge_is_an_integral_over_marchenko_pastur():
    for ratio in (0.5, 1.0, 2.0):
        exact = isotropic(ratio, lambda s: 1 - s * (1 - np.exp(-6 * (s + 0.3))) / (s + 0.3), 1.5, 0.4)
        risk = ridge_flow(ratio, 6.0, 0.4, signal=(1.5,), ridge=0.3)
        np.testing.assert_allclose(three(risk), exact, atol=1e-11)


@pytest.mark.parametrize("ratio", [0.3, 0.6, 1.0, 1.7, 5.0])
def test_contour_reproduces_the_closed_form_of_ridge(ratio):
    penalties = np.array([0.01, 0.3, 3.0])
    closed, contour = (
        ridge(ratio, penalties, 0.5, **THREE_ATOMS),
        ridge_by_contour(ratio, penalties, 0.5, **THREE_ATOMS),
    )
    np.testing.assert_allclose(three(contour), three(closed), atol=1e-12)


def test_long_flow_on_ridge_is_ridge():
    np.testing.assert_allclose(
        three(ridge_flow(1.7, 400.0, 0.5, **THREE_ATOMS, ridge=0.3)),
        three(ridge(1.7, 0.3, 0.5, **THREE_ATOMS)),
        atol=1e-11,
    )


@pytest.mark.parametrize("ratio", [0.3, 1.7])
def test_long_flow_is_ridgeless(ratio):
    np.testing.assert_allclose(
        three(ridge_flow(ratio, 1e4, 0.5, **THREE_ATOMS)), three(ridge(ratio, 0.0, 0.5, **THREE_ATOMS)), atol=1e-11
    )


def test_flow_starts_from_nothing():
    risk = ridge_flow(0.6, [0.0, 1e-7], 0.5, **THREE_ATOMS)
    total = np.dot(THREE_ATOMS["signal"], THREE_ATOMS["values"])
    np.testing.assert_allclose(risk.bias, total, rtol=1e-5)
    np.testing.assert_allclose(risk.train, total + 0.5, rtol=1e-5)
    # variance = noise * ratio * t^2 E[s^2] to leading order: E tr(Sigma Sigma_hat)/p = E s^2
    second = np.dot(THREE_ATOMS["weights"], np.square(THREE_ATOMS["values"]))
    assert risk.variance[0] == 0.0
    assert risk.variance[1] == pytest.approx(0.5 * 0.6 * 1e-14 * second, rel=1e-4)


def test_descent_with_small_steps_approaches_flow_at_first_order():
    flow = ridge_flow(0.6, 2.0, 0.5, **THREE_ATOMS).test
    gaps = [abs(gradient_descent_risk(0.6, 2.0 / k, k, 0.5, **THREE_ATOMS).test - flow) for k in (200, 400)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, abs=0.05)


def test_times_broadcast_and_do_not_see_each_other():
    times = np.array([[0.1, 3.0], [50.0, 0.4]])
    together = ridge_flow(1.7, times, 0.5, **THREE_ATOMS)
    assert together.test.shape == (2, 2)
    for index in np.ndindex(2, 2):
        assert together.test[index] == pytest.approx(ridge_flow(1.7, times[index], 0.5, **THREE_ATOMS).test, rel=1e-12)


def test_best_stopping_time_is_the_minimum_of_the_integral():
    found = minimize_scalar(
        lambda log: sum(isotropic(0.7, lambda s: np.exp(-np.exp(log) * s), 1.0, 0.5, 2000)[:2]),
        bounds=(-3, 4),
        method="bounded",
    )
    best = optimal_stopping_time(0.7, 0.5)
    assert best == pytest.approx(np.exp(found.x), rel=1e-4)
    assert optimal_stopping_time(0.7, 0.0) == np.inf
    assert optimal_stopping_time(0.7, 1.0, signal=(0.0,)) == 0.0


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_best_stopped_flow_is_close_to_but_not_better_than_best_ridge(ratio):
    # isotropic: ridge is Bayes optimal, and stopping early loses at most 22 % (Ali, Kolter & Tibshirani 2019)
    best = ridge(ratio, optimal_ridge(ratio, 0.5), 0.5).test
    stopped = ridge_flow(ratio, optimal_stopping_time(ratio, 0.5), 0.5).test
    assert best <= stopped <= 1.22 * best


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ridge_flow(0.5, -1.0, 1.0), "time must be non-negative and finite, got -1.0."),
        (lambda: ridge_flow([0.5, 0.6], 1.0, 1.0), "ratio must be one number, got an array of shape (2,)."),
        (lambda: ridge_flow(1.0, 1e12, 1.0), "time or steps too large"),
        (lambda: gradient_descent_risk(0.5, 0.0, 3, 1.0), "step must be positive and finite, got 0.0."),
        (lambda: gradient_descent_risk(0.5, 0.1, 2.5, 1.0), "steps must be whole numbers, got 2.5."),
        (lambda: ridge_by_contour(0.5, 0.0, 1.0), "ridge must be positive and finite, got 0.0."),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(words)
