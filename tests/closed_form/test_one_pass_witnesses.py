"""One-pass SGD, second witnesses: sums over all pairs, sampled steps, plain loops and exact moments in NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta

import limen
from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.simulation.one_pass.two_timescale_sgd import two_timescale_sgd
from limen.theory.one_pass import incremental, zero_risk
from limen.theory.one_pass.alike_students import AlikeErfPopulation, alike_flows
from limen.theory.one_pass.blocks.block_fluctuations import block_increment_covariance
from limen.theory.one_pass.blocks.block_overlaps import BlockOverlaps, Spectrum
from limen.theory.one_pass.committee import committee_population
from limen.theory.one_pass.exit_time import amplitude_factor, growth_rate
from limen.theory.one_pass.increments import problem_increments
from limen.theory.one_pass.overlap_equations.integration import Motion, Schedule
from limen.theory.one_pass.overlap_equations.right_hand_side import right_hand_side
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.zero_risk import growth_rate as fastest_growth
from limen.theory.one_pass.zero_risk import random_overlaps

# Exit of phase retrieval: the numbers that no run of ours has pinned


@pytest.mark.parametrize("p, rate, noise", [(2, 0.4, 0.5), (4, 0.5, 0.0)])
def test_growth_and_amplitude_at_the_saddle_are_moments_of_one_step(gauss_hermite, p, rate, noise):
    r"""One step moves $m_j$ by $2\varepsilon\lambda_j\lambda^*$, less what the sphere takes back."""

    def parts(x, m):
        target = m * x[:, 0] + math.sqrt(1 - m**2) * x[:, p]
        error = target**2 - (x[:, :p] ** 2).mean(axis=1) + math.sqrt(noise) * x[:, p + 1]
        return target, error

    def speed(m):
        def toward(x):
            target, error = parts(x, m)
            push = 2 * error * x[:, 0]
            return push * target - m * (push * x[:, 0] + 0.5 * rate / p * push**2)

        return gauss_hermite(toward, p + 2, 4)

    assert speed(1e-4) / 1e-4 == pytest.approx(4 * growth_rate(p, rate, noise), rel=1e-6)

    def kick(x):
        target, error = parts(x, 0.0)
        return (2 * error * x[:, 0] * target) ** 2

    gathered = rate / p * gauss_hermite(kick, p + 2, 4) / (8 * growth_rate(p, rate, noise))
    assert amplitude_factor(p, rate, noise) == pytest.approx(1 + gathered, rel=1e-10)


# Students alike


@pytest.mark.parametrize("d", [None, 40])
@in_double
def test_students_alike_are_all_of_them(d):
    """Four equal students, two unequal teachers: two rows of every average over all six units."""
    teachers, weights = np.array([[1.0, 0.2], [0.2, 0.7]]), np.array([1.3, -0.4])
    norm, between, toward, second, noise, scale, p = 1.1, 0.3, np.array([0.4, -0.2]), 0.8, 0.3, 0.7, 4

    def overlaps(count):
        gram = np.where(np.eye(count, dtype=bool), norm, between)
        return Overlaps(*(jnp.asarray(x) for x in (gram, np.tile(toward, (count, 1)), np.full(count, second))))

    inverse_d = None if d is None else jnp.asarray(1 / d)
    every = committee_population(f"erf({scale}*z)", p, teachers, weights, noise)
    few = AlikeErfPopulation(*(jnp.asarray(x) for x in (teachers, weights, noise, scale, float(p))))
    kept = np.array([0, 1, 4, 5])
    np.testing.assert_allclose(few.drift(overlaps(2)), every.drift(overlaps(p))[:2, kept], rtol=1e-10)
    np.testing.assert_allclose(few.response(overlaps(2)), every.response(overlaps(p))[:2], rtol=1e-10)
    np.testing.assert_allclose(few.losses(overlaps(2)), every.losses(overlaps(p)), rtol=1e-10)
    found = few.noise(overlaps(2), inverse_d)
    np.testing.assert_allclose(found, every.noise(overlaps(p), inverse_d)[:2, :2], rtol=1e-10)


# Several variances


@in_double
def test_increments_inside_eigenspaces_have_the_covariance_of_sampled_ones():
    """Two neurons, both layers, two eigenspaces: 400,000 samples of the fields' parts, increments written out."""
    s, w = np.array([0.5, 2.0]), np.array([0.6, 0.4])
    gram = np.array([[[0.7, 0.2], [0.2, 0.5]], [[0.4, -0.1], [-0.1, 0.6]]])
    overlap, lengths = np.array([[[0.3], [0.1]], [[0.2], [-0.25]]]), np.array([[0.8], [0.4]])
    second, noise, rate = np.array([1.2, -0.7]), 0.3, 1.4
    link, count = "tanh(2*z)", 400_000
    problem = limen.TwoLayer(limen.target(link, noise=noise), limen.network(2, "tanh"), limen.OnePassSGD(rate))
    motion = Motion(Schedule(jnp.asarray(rate / 2)), jnp.asarray(1.0), jnp.asarray(1.0), False, True)
    state = BlockOverlaps(*(jnp.asarray(x) for x in (gram, overlap, second)))
    spectrum = Spectrum(*(jnp.asarray(x) for x in (s, w, lengths)))
    sampled = problem_increments(problem, 2**14)
    # The latent field has the variance sum(s_b l_b) = 1.2.
    sampled = sampled.__class__(**{**vars(sampled), "teacher_gram": jnp.asarray([[1.2]])})
    found = np.asarray(block_increment_covariance(sampled, spectrum, state, motion, jnp.asarray(0.0)))

    generator, parts = np.random.default_rng(2), []
    for b in range(2):
        covariance = np.block([[gram[b], overlap[b]], [overlap[b].T, np.diag(lengths[b])]])
        parts.append(generator.normal(size=(count, 3)) @ np.linalg.cholesky(s[b] * covariance).T)
    fields = parts[0] + parts[1]
    label = np.tanh(2 * fields[:, 2]) + math.sqrt(noise) * generator.normal(size=count)
    error = label - np.tanh(fields[:, :2]) @ second / 2
    push = second * (1 - np.tanh(fields[:, :2]) ** 2) * error[:, None]
    toward = [push[:, i] * part[:, 2] for part in parts for i in range(2)]
    inward = [
        push[:, i] * part[:, j] + push[:, j] * part[:, i] + rate / 2 * s[b] * w[b] * push[:, i] * push[:, j]
        for b, part in enumerate(parts)
        for i in range(2)
        for j in range(2)
    ]
    drawn = np.array([*toward, *inward, *(np.tanh(fields[:, :2]) * error[:, None]).T])
    expected = np.cov(drawn)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # Fourth moments of products: known to one percent of their scale from so many samples.
    np.testing.assert_allclose(found / scale, expected / scale, atol=0.02)


# Flows to zero risk


def test_random_overlaps_have_the_law_of_explicit_vectors():
    """Means and variances of Q and M of Gaussian vectors, at a dimension where every degree of freedom counts."""
    p, k, d, norm, count = 3, 2, 6, 1.3, 20_000
    gram, overlap = random_overlaps(p, k, d, range(count), norm)
    vectors = norm / math.sqrt(d) * np.random.default_rng(0).normal(size=(count, p, d))
    explicit = vectors @ vectors.transpose(0, 2, 1), vectors[:, :, :k]
    for drawn, other in zip((gram, overlap), explicit, strict=True):
        spread = np.sqrt(2.0) * other.std(axis=0) / math.sqrt(count)
        assert (np.abs(drawn.mean(axis=0) - other.mean(axis=0)) < 5 * spread).all()
        np.testing.assert_allclose(drawn.var(axis=0), other.var(axis=0), rtol=0.08)
    assert gram.mean(axis=0) == pytest.approx(norm**2 * np.eye(p), abs=0.03)
    assert gram[:, 0, 0].var() == pytest.approx(2 * norm**4 / d, rel=0.08)
    # Rest of the Gram matrix beside the target's axes: chi-squared of d - k degrees of freedom.
    rest = gram[:, 0, 0] - (overlap[:, 0] ** 2).sum(axis=1)
    assert rest.mean() == pytest.approx(norm**2 * (d - k) / d, abs=0.03)


@in_double
def test_growth_rates_at_states_whose_flow_is_known():
    r"""Linear neuron: $\dot M=1-M$, $\dot Q=2(M-Q)$. Phase retrieval where it stands still at $Q=1/3$, $M=0$: the
    overlap grows at rate 4, and $Q$ falls back at rate 4."""
    motion = Motion(Schedule(jnp.asarray(0.0)), jnp.asarray(1.0), None, False, False)

    def rate(activation, q, m):
        state = Overlaps(jnp.asarray([[q]]), jnp.asarray([[m]]), jnp.ones(1))
        return fastest_growth(committee_population(activation, 1, np.eye(1), np.ones(1), 0.0), state, motion)

    # The second layer does not move: its direction has the eigenvalue 0.
    assert rate("linear", 0.5, 0.5) == pytest.approx(0.0, abs=1e-12)
    assert rate("square", 1 / 3, 0.0) == pytest.approx(4.0, rel=1e-9)


# Degrees one after the other


@pytest.mark.parametrize("self_term", [False, True])
def test_the_jacobian_given_to_the_stiff_solver_is_that_of_differences(self_term, monkeypatch):
    """A wrong one costs steps and says nothing."""
    caught = {}

    class Caught(Exception):
        pass

    def catch(slope, *_, jac, **__):
        caught.update(slope=slope, jacobian=jac)
        raise Caught

    monkeypatch.setattr(incremental, "solve_ivp", catch)
    with pytest.raises(Caught):
        incremental.incremental_learning(
            [0.4, 0.9, 0.6, 0.5], [0.3, 1.1, -0.7, 0.4], 0.3, [0.0, 1.0], 3, self_term=self_term
        )
    at, step = np.array([1.2, -0.5, 0.7, 0.3, -0.4, 0.6]), 1e-6
    moved = [(caught["slope"](0.0, at + e) - caught["slope"](0.0, at - e)) / (2 * step) for e in step * np.eye(6)]
    np.testing.assert_allclose(caught["jacobian"](0.0, at), np.array(moved).T, atol=1e-7)


def test_two_time_scales_are_a_plain_loop():
    """The same samples through a loop in double precision."""
    sigma, phi, d, m = (0.4, 0.9, 0.6), (0.3, 1.1, -0.7), 6, 3
    epsilon, rate, second = 0.3, 0.2, np.array([1.2, -0.5, 0.7])
    unit, steps = rate / (d * m), np.array([0, 7, 40])
    found = two_timescale_sgd(sigma, phi, epsilon, steps * unit, second, d, rate, seed=4).dataset
    # One block of samples for every interval between recorded times.
    key, draws = stream_key(4, d, "two time scales"), []
    for length in np.diff(steps):
        key, own = jax.random.split(key)
        draws.extend(np.asarray(jax.random.normal(own, (64, d), jnp.float32), dtype=float)[:length])

    def series(c, z):
        return c[0] + c[1] * z + c[2] * (z**2 - 1) / math.sqrt(2)

    first, layer = np.eye(m, d, 1), second.copy()
    for step in range(41):
        if step in steps:
            at, gram = list(steps).index(step), first @ first.T
            linear = [np.mean(layer * first[:, 0] ** n) for n in range(3)]
            pairs = [layer @ gram**n @ layer / m**2 for n in range(3)]
            residual = [phi[n] - sigma[n] * linear[n] for n in range(3)]
            squares = (phi[n] ** 2 - 2 * phi[n] * sigma[n] * linear[n] + sigma[n] ** 2 * pairs[n] for n in range(3))
            np.testing.assert_allclose(found.residual[0, at], residual, atol=2e-5)
            assert float(found.excess_risk[0, at]) == pytest.approx(0.5 * sum(squares), abs=2e-5)
        if step == steps[-1]:
            break
        x = draws[step]
        fields = first @ x
        error = series(phi, x[0]) - layer @ series(sigma, fields) / m
        slopes = sigma[1] + sigma[2] * math.sqrt(2) * fields
        moved = first + unit * (error * layer * slopes)[:, None] * x
        layer = layer + unit / epsilon * error * series(sigma, fields)
        first = moved / np.linalg.norm(moved, axis=1, keepdims=True)


@pytest.mark.parametrize("p", [1, 3])
def test_flows_of_students_alike_begin_with_the_slope_of_all_of_them(p):
    """A short time at two rates, against the right-hand side of every student; one student has no other."""
    norm, between, toward, noise, step = 1.1, 0.3, np.array([0.4, -0.2]), 0.3, 1e-5
    teachers, weights, rates = np.array([[1.0, 0.2], [0.2, 0.7]]), np.array([1.3, -0.4]), np.array([0.5, 3.0])
    shared = (teachers, 0.8, weights, "erf(0.7*z)")
    found = alike_flows(p, norm, between, toward, *shared, rates, noise, [0.0, step], tolerance=1e-10).dataset
    gram = np.where(np.eye(p, dtype=bool), norm, between)
    for i, rate in enumerate(rates):
        slope = right_hand_side(gram, np.tile(toward, (p, 1)), *shared, rate, noise)
        moved = found.isel(set=i)
        for place in ((0, 0), (0, 1)):
            # Of one student both that are followed are copies.
            own = place if p > 1 else (0, 0)
            speed = (float(moved.gram[1][place]) - gram[own]) / step
            assert speed == pytest.approx(slope["Q"][own], rel=1e-4)
        np.testing.assert_allclose((moved.overlap[1, 0] - toward) / step, slope["M"][0], rtol=1e-4)


def test_the_error_of_a_probability_is_that_of_its_posterior(monkeypatch):
    """Jeffreys' prior: 7 of 10 runs are Beta(7.5, 3.5)."""
    outcome = np.array([0] * 7 + [1] * 3)
    monkeypatch.setattr(zero_risk, "flow_outcomes", lambda *_: (outcome, np.zeros(10), np.full(10, 50.0), None))
    found = zero_risk.zero_risk_probability(2, 2, "square", d=10, runs=10).dataset
    assert float(found.zero_risk_probability) == 0.7 and float(found.trapped) == pytest.approx(0.3)
    assert float(found.standard_error) == pytest.approx(beta(7.5, 3.5).std(), rel=1e-12)


@pytest.mark.parametrize("drop, verdict", [(0.004, zero_risk.TRAPPED), (0.01, zero_risk.UNDECIDED)])
def test_a_risk_stands_still_when_a_third_of_the_time_leaves_it(drop, verdict, monkeypatch):
    """One per cent of itself, while the time grows from two thirds of the horizon to all of it."""
    curve = np.array([[1.0, 0.5 + drop, 0.5]])
    monkeypatch.setattr(zero_risk, "advance", lambda population, states, motion, times: (states, curve))
    monkeypatch.setattr(zero_risk, "growth_rate", lambda *_: 0.0)
    times = 50.0 * np.array([[0.0, 2 / 3, 1.0]])
    one = np.ones((1, 1, 1))
    outcome, _, stopped, _ = zero_risk.flow_outcomes(None, one, one, one[0], times, False, 1e-3)
    assert outcome[0] == verdict
    assert stopped[0] == (50.0 if verdict == zero_risk.TRAPPED else zero_risk.LAST_HORIZON)
