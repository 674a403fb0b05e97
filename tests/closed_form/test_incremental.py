"""Incremental learning: the order and the times at which degrees are learnt."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from limen.problem import InputError
from limen.theory.one_pass.incremental import early_first_degree, incremental_learning, normal_quantiles
from limen.theory.one_pass.incremental_width import incremental_network
from limen.theory.one_pass.overlap_equations.overlap_flow import flow

ONES = [1.0, 1.0, 1.0]


def half_times(epsilon, second, self_term=False):
    """When each residual is half of its start: the equations written out, by BDF with event location."""
    m = len(second)
    own = float(self_term) / m

    def slope(t, state):
        a, s = state[:m], state[m:]
        r = [1.0 - np.mean(a * s**n) for n in range(3)]
        fast = r[0] + s * r[1] + s**2 * r[2] - own * a * ((1 - s**2) + (1 - s**4))
        slow = r[1] + 2 * s * r[2] + own * a * (s + 2 * s**3)
        return np.concatenate([fast / epsilon, a * (1 - s**2) * slow])

    events = [lambda t, state, n=n: 0.5 - np.mean(state[:m] * state[m:] ** n) for n in range(3)]
    start = np.concatenate([second, np.zeros(m)])
    found = solve_ivp(slope, (0, 3 * epsilon**0.25), start, "BDF", rtol=1e-7, atol=1e-10, events=events)
    return np.array([times[0] for times in found.t_events])


@pytest.mark.parametrize(("epsilon", "first", "second"), [(1e-2, 0.2858, 0.592), (1e-4, 0.306, 0.527)])
def test_degrees_are_learnt_one_after_the_other_at_their_times(epsilon, first, second):
    """Half of a residual, second layer without sampling error, 50 particles. The factor of eps^(1/4) still falls with
    eps; a random second layer of 100, whose law is not symmetric, moves it by up to a third."""
    start = normal_quantiles(50)
    times = np.linspace(0.0, 3.0 * epsilon**0.25, 30)
    found = incremental_learning(ONES, ONES, epsilon, times, width=50, second_layer=start).dataset
    zero, one, two = found.learning_time.values
    np.testing.assert_allclose([zero, one, two], half_times(epsilon, start), rtol=1e-3)
    assert zero == pytest.approx(epsilon * np.log(2), rel=0.002)
    assert one == pytest.approx(first * np.sqrt(epsilon) * np.log(1 / epsilon), rel=0.002)
    assert two == pytest.approx(second * epsilon**0.25, rel=0.002)
    assert (np.diff(found.excess_risk) <= 1e-9).all()


def test_the_self_term_delays_a_narrow_network():
    epsilon, start = 1e-2, normal_quantiles(30)
    times = np.linspace(0.0, 1.0, 5)
    kept = incremental_learning(ONES, ONES, epsilon, times, 30, second_layer=start, self_term=True).dataset
    np.testing.assert_allclose(kept.learning_time.values, half_times(epsilon, start, True), rtol=1e-3)
    dropped = incremental_learning(ONES, ONES, epsilon, times, 30, second_layer=start).dataset
    assert kept.learning_time.values[1] > 1.2 * dropped.learning_time.values[1]


@pytest.mark.slow
def test_the_network_of_finite_width_is_the_overlap_flow():
    """Against the general overlap equations; the particles with self-term are off by the mixing they leave out."""
    epsilon, start, times = 0.02, normal_quantiles(8), np.array([0.0, 0.02, 0.1, 0.3])
    found = incremental_network(ONES, ONES, epsilon, times, start).dataset
    full = flow(
        np.eye(8), np.zeros((8, 1)), np.eye(1), start, 1.0, "1 + z + (z**2 - 1)/sqrt(2)", 0.0, 0.0, times,
        train_second_layer=True, spherical=True, second_layer_ratio=1 / epsilon, tolerance=1e-7,
    ).dataset  # fmt: skip
    np.testing.assert_allclose(found.excess_risk, full.excess_risk, atol=1e-5)
    particles = incremental_learning(ONES, ONES, epsilon, times, 8, second_layer=start, self_term=True).dataset
    assert float(np.abs(particles.excess_risk - full.excess_risk).max()) > 0.01


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
