"""One-pass SGD, cases small enough to be written out: actual vectors, exact moments, roots and plain sums."""

import math
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import digamma, ndtr

from limen import one_pass
from limen.precision import in_double
from limen.simulation.one_pass import leaping_exits
from limen.theory.fresh_inputs.axis_rules import axis_rule
from limen.theory.fresh_inputs.latent_rule import whitened
from limen.theory.one_pass import phase_retrieval
from limen.theory.one_pass.exit_time import (
    amplitude_factor,
    bending,
    exit_time,
    exit_times_from,
    growth_rate,
    neuron_overlap,
)
from limen.theory.one_pass.incremental import incremental_learning
from limen.theory.one_pass.incremental_width import incremental_network

# Phase retrieval


@pytest.mark.parametrize("p, rate, noise", [(2, 0.3, 0.4), (3, 0.7, 0.0)])
def test_source_and_decay_of_neuron_overlaps_are_exact_moments(gauss_hermite, p, rate, noise):
    """The mean square of one step of Q_12 at the saddle by Gauss–Hermite, and the decay from the flow of Q_12."""

    def source(x):
        error = x[:, p] ** 2 - (x[:, :p] ** 2).mean(axis=1) + math.sqrt(noise) * x[:, p + 1]
        return (x[:, 0] * x[:, 1]) ** 2 * error**2 * (1 + rate / p * error) ** 2

    s = 16 * rate / p * gauss_hermite(source, p + 2)
    kappa = 16 / p * (1 - 8 * rate / p**2)
    times = np.array([0.0, 0.05, 0.4, 3.0])
    expected = s / kappa + (1 - s / kappa) * np.exp(-kappa * times)
    np.testing.assert_allclose(neuron_overlap(times, p, rate, noise), expected, rtol=1e-12)


def test_neuron_overlaps_without_decay_grow_linearly():
    p = 4
    found = neuron_overlap(np.array([0.0, 0.5, 2.0]), p, p**2 / 8, 0.0)
    assert found[0] == 1.0
    assert (found[2] - 1.0) == pytest.approx(4 * (found[1] - 1.0), rel=1e-10)


@pytest.mark.parametrize("p, rate, noise", [(1, 0.08, 0.3), (2, 0.3, 0.4), (5, 1.0, 0.0)])
def test_exit_times_with_noise_are_roots_of_their_equation(p, rate, noise):
    d, fraction, mu, tau = 4000, 0.05, np.array([0.7 * p, 2.5 * p]), np.array([0.3, 1.0]) * p * (p - 1)
    c, factor, bend = growth_rate(p, rate, noise), amplitude_factor(p, rate, noise), bending(p, rate, noise)
    found = exit_times_from(mu, tau, p, d, rate, noise, fraction, "noise")
    for i in range(2):

        def left(t, i=i):
            level = (fraction * p * (p + 1) * d + (2 * p * mu[i] - tau[i]) * (1 - fraction)) / (2 * p * mu[i])
            needed = level * mu[i] + (p - 1) / 2 * float(neuron_overlap(np.array(t), p, rate, noise))
            reached = (needed + (factor - 1) * (mu[i] - 2)) / (factor * mu[i] * (1 - bend * needed / d))
            return math.log(reached) / (8 * c) - t

        assert found[i] == pytest.approx(brentq(left, 0.0, 50.0), abs=1e-6)


def test_samples_at_the_best_rate_are_those_of_the_annealed_exit():
    for p, noise in ((1, 0.0), (3, 0.5)):
        rate, d, fraction = one_pass.best_rate(p, noise), 5000, 0.02
        steps = exit_time(p, d, rate, noise, fraction, "annealed") * d * p / rate
        assert one_pass.sample_budget(p, d, noise, fraction) == pytest.approx(steps, rel=1e-12)


def test_the_quenched_exit_is_the_mean_over_its_own_starts():
    """At a large dimension mu is chi-squared and tau plays no part: E log mu is a digamma."""
    p, d, rate, noise, fraction = 3, 10**7, 0.2, 0.1, 0.03
    c = growth_rate(p, rate, noise)
    expected = math.log(fraction * (p + 1) * d / 2) - math.log(2) - digamma(p / 2)
    assert exit_time(p, d, rate, noise, fraction) == pytest.approx(expected / (8 * c), abs=2e-5)


def test_logistic_overlap_solves_its_equation_and_the_amplitude_its_own(gauss_hermite):
    rate, noise, d = 0.07, 0.4, 300
    times = np.linspace(0.0, 1.5, 7)

    def slope(t, m):
        return 4 * m * ((1 - 6 * rate) * (1 - m**2) - rate * noise / 2)

    path = solve_ivp(slope, (0.0, 1.5), [0.1], t_eval=times, rtol=1e-10, atol=1e-12).y[0]
    np.testing.assert_allclose(phase_retrieval.square_overlap(np.array(0.1), rate, noise, times), path**2, rtol=1e-8)

    # Near the saddle one sample moves m by 2 e z z* rate / d: an unstable Ornstein–Uhlenbeck process of rate 4c.
    def square(x):
        return (2 * x[:, 0] * x[:, 1] * (x[:, 1] ** 2 - x[:, 0] ** 2 + math.sqrt(noise) * x[:, 2])) ** 2

    c = phase_retrieval.growth_rate(rate, noise)
    expected = rate * gauss_hermite(square, 3) / d * (1 - np.exp(-8 * c * times)) / (8 * c)
    np.testing.assert_allclose(phase_retrieval.amplitude_variance(rate, noise, times, d), expected, rtol=1e-10)


@in_double
def test_a_leap_has_the_mean_and_the_variance_of_its_steps(gauss_hermite):
    """One neuron: tangent moves of m by exact Gaussian moments; 20000 leaps of four thousand steps."""
    m, strength, noise, leap, steps, count = 0.3, 0.03, 0.5, 1e-3, 4000.0, 20_000

    def move(x):
        field = m * x[:, 0] + math.sqrt(1 - m**2) * x[:, 1]
        error = x[:, 0] ** 2 - field**2 + math.sqrt(noise) * x[:, 2]
        # What lengthens the neuron by half of its square's growth is taken back.
        return 2 * error * x[:, 0] * field - m * (2 * error + 2 * strength * error**2) * field**2

    mean = gauss_hermite(move, 3)
    variance = gauss_hermite(lambda x: (move(x) - mean) ** 2, 3)
    normals = np.random.default_rng(1).normal(size=(count, leaping_exits.SAMPLES, 3))
    start = (jnp.full((count, 1), m), jnp.ones((count, 1, 1)), jnp.asarray(normals))
    overlap, gram = leaping_exits._leap(*start, *(jnp.asarray(x) for x in (leap, steps, strength, noise)))
    np.testing.assert_allclose(gram, 1.0, rtol=1e-12)
    found = np.asarray(overlap)[:, 0]
    error = math.sqrt(variance * leap**2 / steps / count)
    assert found.mean() - m == pytest.approx(leap * mean, abs=4 * error + 0.02 * leap * abs(mean))
    assert 4 * error < 0.02 * leap * abs(mean)
    # Heavy-tailed products make up a leap: the variance of 20000 leaps is known to some percent.
    assert found.var() == pytest.approx(variance * leap**2 / steps, rel=0.12)


@in_double
def test_a_leap_of_two_neurons_sees_the_mean_of_their_squares(gauss_hermite):
    """As above for the first of two neurons that overlap."""
    m, between, strength, noise, leap, steps, count = (0.3, -0.2), 0.25, 0.03, 0.5, 1e-3, 4000.0, 20_000
    gram = np.array([[1.0, between], [between, 1.0]])
    factor = np.linalg.cholesky(gram - np.outer(m, m))

    def move(x):
        fields = x[:, :1] * np.array(m) + x[:, 1:3] @ factor.T
        error = x[:, 0] ** 2 - (fields**2).mean(axis=1) + math.sqrt(noise) * x[:, 3]
        back = m[0] * (2 * error + 2 * strength * error**2) * fields[:, 0] ** 2
        return 2 * error * x[:, 0] * fields[:, 0] - back

    mean = gauss_hermite(move, 4, 6)
    variance = gauss_hermite(lambda x: (move(x) - mean) ** 2, 4, 7)
    normals = np.random.default_rng(1).normal(size=(count, leaping_exits.SAMPLES, 4))
    start = (jnp.tile(jnp.asarray(m), (count, 1)), jnp.tile(jnp.asarray(gram), (count, 1, 1)), jnp.asarray(normals))
    overlap, _ = leaping_exits._leap(*start, *(jnp.asarray(x) for x in (leap, steps, strength, noise)))
    found = np.asarray(overlap)[:, 0]
    error = math.sqrt(variance * leap**2 / steps / count)
    assert found.mean() - m[0] == pytest.approx(leap * mean, abs=4 * error + 0.02 * leap * abs(mean))
    assert found.var() == pytest.approx(variance * leap**2 / steps, rel=0.12)


# Degrees learnt one after the other


def sphere_of_vectors(sigma, phi, epsilon, second, times):
    """Neurons as actual vectors on the sphere of m + 1 dimensions, the target along the last axis."""
    m, degrees = len(second), range(len(sigma))

    def parts(state):
        return state[:m], state[m:].reshape(m, m + 1)

    def slope(t, state):
        a, u = parts(state)
        s, gram = u[:, -1], u @ u.T
        fast = sum(sigma[n] * phi[n] * s**n - sigma[n] ** 2 / m * gram**n @ a for n in degrees)
        pull = sum(n * sigma[n] * phi[n] * s ** (n - 1) for n in degrees if n)
        push = sum(n * sigma[n] ** 2 / m * gram ** (n - 1) * a for n in degrees if n)
        force = np.outer(pull, np.eye(m + 1)[-1]) - push @ u
        tangent = force - (force * u).sum(axis=1, keepdims=True) * u
        return np.concatenate([fast / epsilon, (a[:, None] * tangent).ravel()])

    def risk(state):
        a, u = parts(state)
        s, gram = u[:, -1], u @ u.T
        linear = [2 * phi[n] * sigma[n] * np.mean(a * s**n) for n in degrees]
        pairs = [sigma[n] ** 2 * a @ gram**n @ a / m**2 for n in degrees]
        return 0.5 * sum(phi[n] ** 2 - linear[n] + pairs[n] for n in degrees)

    first = np.concatenate([second, np.eye(m, m + 1).ravel()])
    path = solve_ivp(slope, (0.0, times[-1]), first, t_eval=times, rtol=1e-8, atol=1e-10).y.T
    left = [[phi[n] - sigma[n] * np.mean(parts(x)[0] * parts(x)[1][:, -1] ** n) for n in degrees] for x in path]
    return np.array([risk(x) for x in path]), np.array(left)


def test_a_narrow_network_is_its_vectors():
    """Three neurons, unequal coefficients up to degree three, against vectors in four dimensions."""
    sigma, phi = np.array([0.4, 0.9, 0.6, 0.5]), np.array([0.3, 1.1, -0.7, 0.4])
    epsilon, second, times = 0.3, np.array([1.2, -0.5, 0.7]), np.array([0.0, 0.2, 0.8, 2.0])
    found = incremental_network(sigma, phi, epsilon, times, second).dataset
    risk, residual = sphere_of_vectors(sigma, phi, epsilon, second, times)
    np.testing.assert_allclose(found.excess_risk, risk, atol=2e-5)
    np.testing.assert_allclose(found.residual, residual, atol=2e-5)


@pytest.mark.parametrize("self_term", [False, True])
def test_risk_of_the_particles_is_that_of_their_residuals(self_term):
    """At the start, where nothing is learnt but degree zero: by hand, the kernel of a neuron with itself included."""
    sigma, phi, second = np.array([0.5, 0.8, 0.3]), np.array([1.0, 0.6, -0.2]), np.array([0.4, 1.0])
    found = incremental_learning(sigma, phi, 0.5, [0.0, 0.1], 2, second_layer=second, self_term=self_term).dataset
    residual = phi - np.array([0.5 * 0.7, 0.0, 0.0])
    np.testing.assert_allclose(found.residual[0], residual, atol=1e-12)
    own = (sigma[1:] ** 2).sum() * (second**2).sum() / (2 * 2**2) if self_term else 0.0
    assert float(found.excess_risk[0]) == pytest.approx(0.5 * (residual**2).sum() + own, rel=1e-12)


# Quadrature behind the losses


def test_rules_between_breakpoints_have_the_moments_of_the_pieces():
    """Gauss rules on the pieces: polynomials times a jump are exact, whatever the piece."""
    nodes, weights = axis_rule((-0.7, 0.4), 9)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    for power in range(9):
        moment = 0.0 if power % 2 else math.prod(range(1, power, 2))
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-9, abs=1e-11)
    middle = (nodes > -0.7) & (nodes < 0.4)
    mass = 0.5 * (math.erf(0.4 / math.sqrt(2)) - math.erf(-0.7 / math.sqrt(2)))
    assert weights[middle].sum() == pytest.approx(mass, rel=1e-12)
    slope = (math.exp(-0.245) - math.exp(-0.08)) / math.sqrt(2 * math.pi)
    assert weights[middle] @ nodes[middle] == pytest.approx(slope, rel=1e-10)


@pytest.mark.parametrize("breakpoints", [(5.0,), (-3.0, -1.0, 2.5)])
def test_rules_of_many_points_stay_in_their_pieces(breakpoints):
    """Far pieces have nearly dependent powers: all 48 nodes of each lie inside, and E[exp(z)] of it is exact."""
    nodes, weights = axis_rule(breakpoints, 48)
    edges = (-12.0, *breakpoints, 12.0)
    for part, (low, high) in enumerate(pairwise(edges)):
        own = slice(48 * part, 48 * (part + 1))
        assert ((nodes[own] > low) & (nodes[own] < high)).all() and (weights[own] >= 0.0).all()
        mean = math.exp(0.5) * (ndtr(high - 1) - ndtr(low - 1) if low < 1 else ndtr(1 - low) - ndtr(1 - high))
        assert weights[own] @ np.exp(nodes[own]) == pytest.approx(mean, rel=1e-10)


def test_whitened_points_have_no_mean_and_the_identity():
    points = whitened(np.random.default_rng(0).normal(size=(50, 3)) @ np.array([[1.0, 0.4, 0], [0, 2, 0.3], [0, 0, 1]]))
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(points.T @ points / 50, np.eye(3), atol=1e-13)
