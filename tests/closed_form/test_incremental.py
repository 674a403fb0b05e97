"""Incremental learning: the order and the times at which degrees are learnt."""

import numpy as np
import pytest

from limen.problem import InputError
from limen.theory.one_pass.incremental import early_first_degree, incremental_learning

ONES = [1.0, 1.0, 1.0]


def test_degrees_are_learnt_one_after_the_other_at_their_times():
    scaled = []
    for epsilon in (1e-2, 1e-4):
        horizon = 3.0 * epsilon**0.25
        found = incremental_learning(ONES, ONES, epsilon, np.linspace(0.0, horizon, 30), width=100).dataset
        zero, one, two = found.learning_time.values
        assert zero < one < two
        assert zero == pytest.approx(epsilon * np.log(2), rel=0.02)
        scaled.append((one / (np.sqrt(epsilon) * np.log(1 / epsilon)), two / epsilon**0.25))
        assert (np.diff(found.excess_risk) <= 1e-9).all()
    for one, two in scaled:
        assert one == pytest.approx(0.31, rel=0.1)
        assert two == pytest.approx(0.66, rel=0.15)


def test_a_slow_second_layer_is_not_incremental():
    found = incremental_learning(ONES, ONES, 100.0, np.linspace(0.0, 100.0, 20), width=100).dataset
    zero, one, two = found.learning_time.values
    assert one < two < zero


def test_the_first_degree_starts_as_a_hyperbolic_sine():
    epsilon, width = 1e-4, 100
    times = np.sqrt(epsilon) * np.array([0.5, 0.8, 1.1])
    found = incremental_learning([0.0, 1.0], [0.0, 1.0], epsilon, np.r_[0.0, times], width=width).dataset
    normals = np.random.default_rng(0).normal(size=width)
    expected = early_first_degree(times, 1.0, 1.0, epsilon, float(normals.var()))
    np.testing.assert_allclose(1.0 - found.residual.values[1:, 1], expected, rtol=0.06)


def test_what_is_refused():
    with pytest.raises(InputError, match="degree 1 must be present"):
        incremental_learning([1.0, 0.0, 1.0], ONES, 0.1, [0.0, 1.0])
    with pytest.raises(InputError, match="must not vanish"):
        incremental_learning([1.0, 1.0, 0.0], ONES, 0.1, [0.0, 1.0])
    with pytest.raises(InputError, match="epsilon must be positive"):
        incremental_learning(ONES, ONES, 0.0, [0.0, 1.0])
