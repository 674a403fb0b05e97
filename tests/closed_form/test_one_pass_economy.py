"""What one-pass theories save, held against the long way: interpolated noise, Halley's rounds, common steps, Heun."""

import numpy as np
import pytest

import limen
from limen.problem import OnePassSGD, OverlapStart, TwoLayer, network, target
from limen.theory.one_pass import fluctuations as noise_module
from limen.theory.one_pass.diffusion import sphere_diffusion
from limen.theory.one_pass.exit_time import amplitude_factor, bending, exit_times_from, growth_rate, neuron_overlap
from limen.theory.one_pass.fluctuations import fluctuations
from limen.theory.one_pass.mean_field import mean_field
from limen.theory.one_pass.phase_retrieval import square_overlap
from limen.theory.one_pass.square_particles import square_slopes

# Compilations, not computations, take the time.
pytestmark = pytest.mark.slow


def test_interpolated_noise_is_that_of_many_more_knots(monkeypatch):
    """A plateau and an escape: 48 knots against 192 give the spread to 3e-4; 12 would be seen."""
    problem = TwoLayer(
        target("(erf(z1/sqrt(2)) + erf(z2/sqrt(2)))/2", noise=0.01),
        network(2, "saad-solla"),
        OnePassSGD(3.0),
        start=OverlapStart(0.2 * np.eye(2)),
    )
    times = np.linspace(0.0, 200.0, 21)

    def spread(knots):
        monkeypatch.setattr(noise_module, "NODES", knots)
        return fluctuations(problem, times, 400, points=2048).dataset.overlap_spread.values[1:]

    fine, default, coarse = spread(192), spread(48), spread(12)
    assert np.abs(default / fine - 1.0).max() < 3e-4
    assert np.abs(coarse / fine - 1.0).max() > 1e-3


@pytest.mark.parametrize("width, rate, noise", [(1, 0.1, 0.0), (2, 0.4, 0.5), (4, 0.5, 0.0), (8, 2.0, 0.0)])
def test_exit_times_solve_their_equation(width, rate, noise):
    d, fraction = 3000, 0.02
    rng = np.random.default_rng(0)
    mu, tau = rng.chisquare(width, 500) + 0.01, rng.chisquare(max(width * (width - 1) // 2, 1), 500) * 2 * (width > 1)
    times = exit_times_from(mu, tau, width, d, rate, noise, fraction, "noise")
    factor, growth = amplitude_factor(width, rate, noise), growth_rate(width, rate, noise)
    level = fraction * width * (width + 1) * d + (2 * width * mu - tau) * (1 - fraction)
    needed = level / (2 * width) + 0.5 * (width - 1) * neuron_overlap(times, width, rate, noise)
    room = 1 - bending(width, rate, noise) * needed / d
    expected = np.log((needed + (factor - 1) * (mu - 2)) / (factor * mu * room)) / (8 * growth)
    assert np.abs(times - np.maximum(expected, 0.0)).max() < 1e-9


def test_neuron_overlap_without_decay_grows_linearly():
    times = np.array([0.0, 0.3, 2.0])
    at, near = (neuron_overlap(times, 4, rate, 0.2) for rate in (2.0, 2.0 * (1 + 1e-7)))
    assert at[0] == 1.0
    np.testing.assert_allclose(at[1] - 1.0, (at[2] - 1.0) * 0.15, rtol=1e-12)
    np.testing.assert_allclose(at, near, rtol=1e-5)


def test_square_particles_are_sums_over_units():
    """The k x k matrices against sums over all pairs and triples of units."""
    rng = np.random.default_rng(1)
    p, k, rate, noise, self_term = 5, 2, 0.7, 0.3, 1.0
    m, q, a, readout = rng.normal(size=(p, k)), rng.uniform(0.5, 1.5, p), rng.normal(size=p), rng.normal(size=k)
    teacher = np.array([[1.0, 0.3], [0.3, 1.4]])
    inverse = np.linalg.inv(teacher)
    numbers = np.array([rate, noise, 0.0, self_term])
    state = np.concatenate([m, q[:, None]], axis=1)
    slope, risk = square_slopes(state[None], inverse, teacher, a, readout, numbers)
    joint = np.block([[m @ inverse @ m.T + np.diag(q), m], [m.T, teacher]])
    v = np.concatenate([-a / p, readout / k])
    trace, chain = np.diag(joint) @ v, joint @ np.diag(v) @ joint
    drift = 2 * (trace * joint + 2 * chain)[:p]
    square = trace**2 + 2 * np.trace(chain @ np.diag(v))
    kick = 4 * ((square + noise) * joint + 4 * trace * chain + 8 * joint @ np.diag(v) @ chain)
    moved = 2 * a * np.diag(drift[:, :p]) + rate / p * a**2 * np.diag(kick)[:p]
    toward = a[:, None] * drift[:, p:]
    np.testing.assert_allclose(slope[0, :, :k], toward, rtol=1e-12)
    np.testing.assert_allclose(slope[0, :, k], moved - 2 * ((m @ inverse) * toward).sum(axis=1), rtol=1e-11)
    np.testing.assert_allclose(risk[0], 0.5 * square, rtol=1e-12)


@pytest.mark.parametrize("activation", ["square", "tanh"])
def test_starts_together_are_starts_alone(activation):
    rng = np.random.default_rng(0)
    starts, rest = 0.3 * rng.normal(size=(3, 6, 2)), rng.uniform(0.5, 1.0, size=(3, 6))
    arguments = (np.eye(2), 1.0, 1.0, activation, 0.5, 0.1, [0.0, 0.5, 1.0], True, 40)
    together = mean_field(starts, rest, *arguments).dataset
    for i in range(3):
        alone = mean_field(starts[i], rest[i], *arguments).dataset
        for name in ("excess_risk", "overlap", "orthogonal_norm"):
            np.testing.assert_allclose(together[name].values[i], alone[name].values, rtol=1e-5, atol=1e-7)


def test_steps_of_the_sphere_diffusion_are_of_second_order():
    """Without noise to speak of its paths are the exact logistic curve; Euler's first order would miss by 1e-3."""
    times = np.linspace(0.0, 1.0, 6)[1:]
    found = sphere_diffusion(0.1, 1e-4, 0.2, 4 * 10**9, times, 4).dataset.overlap.values[:, :, 0, 0]
    exact = np.sqrt(square_overlap(np.array([0.1]), 1e-4, 0.2, times))
    assert np.abs(found - exact).max() < 1e-4


def test_steps_do_not_follow_single_points_across_a_kink():
    """Averages over frozen points jump where one crosses the kink; finer steps cost more than they change."""
    problem = TwoLayer(target("z"), network(1, "relu", bias=0.1), OnePassSGD(0.4), start=OverlapStart(0.5))
    usual, fine = (limen.predict(problem, [0.0, 1.0, 2.0], tolerance=tolerance) for tolerance in (None, 1e-7))
    assert usual.statistics["steps"] < 0.2 * fine.statistics["steps"]
    for name in ("overlap", "gram", "test_loss"):
        assert np.abs(usual.dataset[name] - fine.dataset[name]).max() < 1e-3
