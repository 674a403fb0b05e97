"""The limit of deep residual networks against solvable ones: linear layers, one pure bias, and bad input."""

import numpy as np
import pytest
from scipy.linalg import expm

from limen.problem import Activation, InputError
from limen.simulation.attention.residual_network import (
    DepthWeights,
    draw_depth_weights,
    hidden_states,
    residual_network,
)
from limen.theory.attention.neural_ode import neural_ode

LINEAR, TANH = Activation(formula="linear"), Activation(formula="tanh")


def constant_linear_weights(matrix):
    """f(x, s) = A x at every depth."""
    d = len(matrix)
    outer, inner = np.zeros((5, d, d)), np.zeros((5, d, d))
    outer[0], inner[0] = matrix, np.eye(d)
    return outer, inner, np.zeros((5, d))


def test_linear_layers_have_the_exponential_and_the_error_of_its_compound_interest():
    matrix = np.random.default_rng(0).standard_normal((3, 3)) / 2.0
    start, duration, times = np.array([[1.0, -0.5, 2.0], [0.0, 1.0, 0.3]]), 1.7, np.array([0.0, 0.6, 1.7])
    run = neural_ode(start, *constant_linear_weights(matrix), LINEAR, duration, times)
    for i, t in enumerate(times):
        exact = start @ expm(t * matrix).T
        np.testing.assert_allclose(run.path[i], exact, atol=1e-9)
        # (1 + hA)^k = exp(tA) (1 - h t A^2 / 2 + ...) with t = kh and h = T / L.
        np.testing.assert_allclose(run.coefficient[i], -0.5 * duration * t * exact @ (matrix @ matrix).T, atol=1e-8)


def test_a_bias_that_varies_with_depth_is_integrated_by_the_left_rule():
    # f = cos(pi s), the same for all x: the sum of a left rule misses T (f(0) - f(1)) / (2 L) = T / L.
    outer, inner, bias = np.zeros((3, 1, 1)), np.zeros((3, 1, 1)), np.zeros((3, 1))
    outer[0], bias[1] = 1.0, 1.0
    run = neural_ode([[0.2]], outer, inner, bias, LINEAR, 2.0, [1.0, 2.0])
    np.testing.assert_allclose(run.path[:, 0, 0], 0.2 + 2.0 / np.pi * np.array([1.0, 0.0]), atol=1e-9)
    np.testing.assert_allclose(run.coefficient[:, 0, 0], [1.0, 2.0], atol=1e-8)


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_a_network_is_first_order_and_second_order_after_its_predicted_correction(name):
    activation, weights = Activation(formula=name), draw_depth_weights(4, 10, 3)
    start = np.random.default_rng(1).standard_normal((2, 4))
    limit = neural_ode(start, *weights, activation, 2.0, [2.0])
    depths = np.array([100, 200, 400])
    errors = np.stack([residual_network(start, weights, activation, depth, 2.0) for depth in depths]) - limit.path[-1]
    plain = np.log(np.abs(errors).max(axis=(1, 2)))
    corrected = np.log(np.abs(errors - limit.coefficient[-1] / depths[:, None, None]).max(axis=(1, 2)))
    assert np.polyfit(np.log(depths), plain, 1)[0] == pytest.approx(-1.0, abs=0.02)
    assert np.polyfit(np.log(depths), corrected, 1)[0] == pytest.approx(-2.0, abs=0.05)


def test_hidden_states_end_at_the_outputs_and_follow_the_path():
    weights, start = draw_depth_weights(3, 8, 0), np.ones((2, 3))
    states = hidden_states(start, weights, TANH, 400, 1.5)
    assert states.shape == (401, 2, 3)
    np.testing.assert_array_equal(states[0], start)
    np.testing.assert_allclose(states[-1], residual_network(start, weights, TANH, 400, 1.5), rtol=1e-13)
    limit = neural_ode(start, *weights, TANH, 1.5, np.linspace(0.0, 1.5, 401))
    np.testing.assert_allclose(states, limit.path + limit.coefficient / 400, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"duration": 0.0}, "duration must be positive"),
        ({"times": [0.0, 3.0]}, "times must end at the duration"),
        ({"x0": np.zeros((2, 4))}, "x0 must have shape"),
        ({"bias": np.zeros((5, 2))}, "outer, inner and bias must have shapes"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, words):
    outer, inner, bias = draw_depth_weights(3, 8, 0)
    arguments = {"x0": np.zeros((2, 3)), "outer": outer, "inner": inner, "bias": bias, "activation": TANH}
    with pytest.raises(InputError, match=words):
        neural_ode(**{**arguments, "duration": 2.0, "times": [1.0], **change})
    with pytest.raises(InputError, match="depth must be"):
        residual_network(np.zeros((1, 3)), DepthWeights(outer, inner, bias), TANH, 0, 1.0)
