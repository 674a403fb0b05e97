"""The integrator of the overlap equations on equations with known solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limen.precision import in_double
from limen.theory.one_pass.overlap_equations.dormand_prince import DENSE, ERROR, NODES, TABLEAU, integrated


def test_the_tableau_is_of_order_five_and_its_error_of_order_four():
    step = TABLEAU[-1]
    np.testing.assert_allclose(TABLEAU.sum(axis=1), NODES, atol=1e-14)
    for power in range(5):
        assert step @ NODES**power == pytest.approx(1.0 / (power + 1), abs=1e-14)
    for power in range(4):
        assert ERROR @ NODES**power == pytest.approx(0.0, abs=1e-15)
    assert abs(ERROR @ NODES**4) > 1e-4
    # The dense output ends with the step and integrates polynomials up to the third power from any part of it.
    np.testing.assert_allclose(DENSE.sum(axis=0), step, atol=1e-12)
    for part in (0.3, 0.8):
        weights = part ** np.arange(len(DENSE)) @ DENSE
        for power in range(4):
            assert weights @ NODES**power == pytest.approx(part ** (power + 1) / (power + 1), abs=1e-12)


def turned(t, v):
    return jnp.stack([v[1], -v[0]])


@in_double
def test_circles_are_followed_to_the_tolerance():
    times = jnp.linspace(0.0, 20.0, 201)
    start = jnp.array([1.0, 0.0])
    solve = jax.jit(lambda tolerance: integrated(turned, start, times, tolerance))
    steps = []
    for tolerance in (1e-5, 1e-8):
        values, end = solve(tolerance)
        assert float(jnp.abs(values[:, 0] - jnp.cos(times)).max()) < 10 * tolerance
        assert not end.stuck and not end.diverged and float(end.t) == 20.0
        steps.append(int(end.steps))
    # Order five: a thousandth of the error costs four times the steps.
    assert 3.0 < steps[1] / steps[0] < 6.0


@in_double
def test_several_run_side_by_side_with_steps_of_their_own():
    times, rates = jnp.array([0.0, 0.5, 2.0]), jnp.array([0.1, 1.0, 30.0])

    def one(rate):
        return integrated(lambda t, v: -rate * v, jnp.ones(2), times, 1e-9)

    values, end = jax.vmap(one)(rates)
    np.testing.assert_allclose(values[..., 0], np.exp(-np.outer(rates, times)), atol=1e-9)
    assert end.steps[2] > end.steps[0]


@in_double
def test_the_derivative_in_a_parameter_goes_through_the_stages():
    def last(rate):
        return integrated(lambda t, v: -rate * v, jnp.ones(1), jnp.array([1.0]), 1e-10)[0][-1, 0]

    value, slope = jax.jvp(last, (0.7,), (1.0,))
    assert float(value) == pytest.approx(np.exp(-0.7), rel=1e-8)
    assert float(slope) == pytest.approx(-np.exp(-0.7), rel=1e-7)


@in_double
def test_growth_beyond_a_bound_and_a_singularity_are_said():
    times = jnp.array([0.5, 0.9, 2.0])
    values, end = integrated(lambda t, v: v * v, jnp.ones(1), times, 1e-8, lambda v: v[0] > 1e6)
    np.testing.assert_allclose(values[:2, 0], [2.0, 10.0], rtol=1e-6)
    assert end.diverged and not end.stuck and np.isinf(values[2, 0]) and 0.999 < float(end.t) < 1.001
    values, end = integrated(lambda t, v: v * v, jnp.ones(1), times, 1e-8)
    assert end.stuck and np.isinf(values[2, 0])
    np.testing.assert_allclose(values[:2, 0], [2.0, 10.0], rtol=1e-6)


@in_double
def test_stages_see_the_field_at_their_own_times():
    """A field of the time alone, of degree four: every step is exact, dense output included to its own degree."""
    values, _ = integrated(lambda t, v: 5 * t**4 + 0.0 * v, jnp.zeros(1), jnp.asarray([0.7, 2.0]), 1e-4)
    assert float(values[-1, 0]) == pytest.approx(32.0, rel=1e-12)
    values, _ = integrated(lambda t, v: 4 * t**3 + 0.0 * v, jnp.zeros(1), jnp.asarray([0.3, 0.7, 2.0]), 1e-4)
    np.testing.assert_allclose(values[:, 0], [0.3**4, 0.7**4, 16.0], rtol=1e-9)


@in_double
def test_a_time_later_than_the_last_is_not_waited_for():
    values, end = jax.jit(lambda times: integrated(turned, jnp.array([1.0, 0.0]), times, 1e-6))(
        jnp.array([0.5, 2.0, 1.0])
    )
    assert not bool(end.stuck) and int(end.steps) < 100
    assert bool(jnp.isinf(values[1]).all())
    assert float(values[2, 0]) == pytest.approx(float(np.cos(1.0)), abs=1e-5)
