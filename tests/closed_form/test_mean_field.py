"""Particles of wide committees: the full overlap equations, closed forms, limits in the width."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from limen.problem import InputError
from limen.theory.one_pass.mean_field import mean_field
from limen.theory.one_pass.overlap_equations.overlap_flow import flow

TIMES = [0.0, 0.5, 1.5]


def square_flow(overlap, gram, rate, noise, times):
    """The full overlap equations of the square with orthonormal teachers and second layers one."""
    p, k = overlap.shape
    v = np.diag(np.r_[-np.ones(p) / p, np.ones(k) / k])

    def parts(state):
        m, q = state[: p * k].reshape(p, k), state[p * k :].reshape(p, p)
        c = np.block([[q, m], [m.T, np.eye(k)]])
        return c, np.trace(c @ v), np.trace(c @ v @ c @ v), c @ v @ c

    def slope(t, state):
        c, t1, t2, b = parts(state)
        drift = 2 * (t1 * c + 2 * b)
        noise_term = 4 * ((t1**2 + 2 * t2) * c + 4 * t1 * b + 8 * c @ v @ b + noise * c)[:p, :p]
        grown = drift[:p, :p] + drift[:p, :p].T + rate / p * noise_term
        return np.r_[drift[:p, p:].ravel(), grown.ravel()]

    found = solve_ivp(slope, (0, times[-1]), np.r_[overlap.ravel(), gram.ravel()], t_eval=times, rtol=1e-8, atol=1e-10)
    risk = [0.5 * (t1**2 + 2 * t2) for _, t1, t2, _ in map(parts, found.y.T)]
    return found.y.T[:, : p * k].reshape(-1, p, k), np.array(risk)


def start(p, k=2, seed=0):
    rng = np.random.default_rng(seed)
    return 0.4 * rng.normal(size=(p, k)), np.full(p, 0.5)


def test_exactly_the_overlap_equations_where_orthogonal_parts_are_orthogonal():
    """One neuron: the reduction loses nothing, noise of SGD included; dropping the self-term does."""
    overlap, rest = np.array([[0.4, 0.2]]), np.array([0.5])
    expected, risk = square_flow(overlap, overlap @ overlap.T + np.diag(rest), 0.05, 0.3, TIMES)
    found = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.05, 0.3, TIMES).dataset
    np.testing.assert_allclose(found.overlap, expected, atol=1e-5)
    np.testing.assert_allclose(found.excess_risk, risk, atol=1e-5)
    wrong = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.05, 0.3, TIMES, self_term=False).dataset
    assert float(np.abs(wrong.overlap - expected).max()) > 0.05


def test_error_against_the_full_equations_falls_with_the_width():
    """d = infinity start, orthogonal parts exactly orthogonal: the error of M falls like 1/p."""
    errors = []
    for p in (20, 80):
        # Copies of the same 20 neurons: the empirical law is the same at both widths.
        overlap, rest = np.tile(start(20)[0], (p // 20, 1)), np.full(p, 0.5)
        expected, _ = square_flow(overlap, overlap @ overlap.T + np.diag(rest), 0.0, 0.0, TIMES)
        kept = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, TIMES).dataset.overlap
        dropped = mean_field(
            overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, TIMES, self_term=False
        ).dataset.overlap
        errors.append((float(np.abs(kept - expected).max()), float(np.abs(dropped - expected).max())))
    # Neurons mix their orthogonal parts at order 1/p too, so both variants are off by O(1/p). With the
    # self-term these widths are not yet in that regime at the last time: only a bound is tested.
    (kept_few, few), (kept_many, many) = errors
    assert 3.5 < few / many < 4.3
    assert kept_many < kept_few / 4 and kept_many < many


@pytest.mark.parametrize("self_term", [True, False])
def test_hermite_and_sobol_routes_reproduce_the_closed_form(self_term):
    overlap, rest = start(40)
    closed = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.5, 0.2, TIMES, self_term).dataset
    general = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "1.0*z**2", 0.5, 0.2, TIMES, self_term).dataset
    np.testing.assert_allclose(general.overlap, closed.overlap, atol=2e-3)
    np.testing.assert_allclose(general.excess_risk, closed.excess_risk, atol=1e-3)


def test_a_teacher_that_is_not_orthonormal_is_a_change_of_basis():
    overlap, rest = start(12)
    basis = np.array([[1.0, 0.0], [0.6, 0.8]])
    plain = mean_field(overlap, rest, np.eye(2), 1.0, [1.0, 0.0], "saad-solla", 0.0, 0.0, TIMES).dataset
    turned = mean_field(
        overlap @ basis.T, rest, basis @ basis.T, 1.0, [1.0, 0.0], "saad-solla", 0.0, 0.0, TIMES
    ).dataset
    np.testing.assert_allclose(turned.overlap, plain.overlap.values @ basis.T, atol=1e-6)
    np.testing.assert_allclose(turned.excess_risk, plain.excess_risk, atol=1e-7)
    assert (np.diff(plain.excess_risk) < 0).all()


def test_finite_dimension_raises_the_risk_by_its_closed_form():
    overlap, rest = start(30)
    infinite = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, [0.0]).dataset.excess_risk
    finite = mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, [0.0], d=62).dataset.excess_risk
    assert float(finite[0] - infinite[0]) == pytest.approx(30 * 29 * 0.25 / 60 / 900)
    # Particles that stand for many meet others of their own kind too.
    infinite, finite = (
        mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, [0.0], False, d).dataset.excess_risk
        for d in (None, 62)
    )
    assert float(finite[0] - infinite[0]) == pytest.approx(30 * 30 * 0.25 / 60 / 900)


def test_quadrature_over_angles_reproduces_the_explicit_term_of_the_square():
    """Gauss–Gegenbauer against the closed form, second layers not one; without d both differ visibly."""
    overlap, rest = start(20)
    second = np.linspace(0.6, 1.4, 20)
    arguments = (overlap, rest, np.eye(2), second, [1.0, 0.8])
    closed = mean_field(*arguments, "square", 0.0, 0.0, TIMES, d=9).dataset
    general = mean_field(*arguments, "1.0*z**2", 0.0, 0.0, TIMES, d=9).dataset
    np.testing.assert_allclose(general.excess_risk, closed.excess_risk, atol=2e-6)
    np.testing.assert_allclose(general.overlap, closed.overlap, atol=1e-5)
    without = mean_field(*arguments, "square", 0.0, 0.0, TIMES).dataset
    assert float(np.abs(without.excess_risk - closed.excess_risk).max()) > 0.01


@pytest.mark.parametrize(("activation", "width"), [("square", 160), pytest.param("relu", 60, marks=pytest.mark.slow)])
def test_finite_dimension_is_that_of_the_full_overlap_equations(activation, width):
    """d = 8, starts on the sphere: the full flow; leaving the correction out is caught."""
    k, d, rng = 2, 8, np.random.default_rng(1)
    times = [0.0, 0.5, 1.0]
    worst = {d: 0.0, None: 0.0}
    for _ in range(2):
        neurons = rng.normal(size=(width, d))
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        overlap, gram = neurons[:, :k], neurons @ neurons.T
        full = flow(gram, overlap, np.eye(k), 1.0, 1.0, activation, 0.0, 0.0, times, tolerance=1e-6).dataset.excess_risk
        for size in worst:
            rest = 1.0 - (overlap**2).sum(axis=1)
            particles = mean_field(overlap, rest, np.eye(k), 1.0, 1.0, activation, 0.0, 0.0, times, d=size).dataset
            worst[size] = max(worst[size], float(np.abs(particles.excess_risk - full).max() / full[0]))
    assert worst[d] < 0.015
    assert worst[None] > 2.5 * worst[d]


def test_what_is_refused():
    overlap, rest = start(4)
    with pytest.raises(InputError, match="P must be positive definite"):
        mean_field(overlap, rest, np.ones((2, 2)), 1.0, 1.0, "square", 0.0, 0.0, TIMES)
    with pytest.raises(InputError, match="q0 must not be negative"):
        mean_field(overlap, -rest, np.eye(2), 1.0, 1.0, "square", 0.0, 0.0, TIMES)
    with pytest.raises(InputError, match=r"at least k \+ 2 = 4, got 3"):
        mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "tanh", 0.0, 0.0, TIMES, d=3)
    with pytest.raises(InputError, match="no kink away from 0"):
        mean_field(overlap, rest, np.eye(2), 1.0, 1.0, "relu(z-1)", 0.0, 0.0, TIMES)


def test_noise_of_a_weak_linear_neuron_feeds_what_is_orthogonal():
    r"""At $am=1$ the label noise alone is left: $\dot q=-2a^2q+\gamma a^2(a^2q+\Delta)$."""
    a, rate, noise, times = 0.5, 1.2, 0.8, np.array([0.0, 0.5, 2.0])
    found = mean_field([[1 / a]], [0.0], [[1.0]], a, 1.0, "linear", rate, noise, times).dataset
    decay = 2 * a**2 - rate * a**4
    expected = rate * a**2 * noise / decay * (1 - np.exp(-decay * times))
    # The mean of the squared error is one of frozen points.
    np.testing.assert_allclose(found.orthogonal_norm[:, 0], expected, rtol=2e-3)
    np.testing.assert_allclose(found.overlap[:, 0, 0], 1 / a, rtol=1e-6)
