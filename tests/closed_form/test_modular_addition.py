"""Addition modulo p by waves: the exact solution, the Gaussian law of random waves, the kernel of a lazy network."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import j0

import limen
import limen.descent
from limen.simulation.descent.modular_training import random_waves_accuracy, train_modular
from limen.theory.descent.modular_addition import TAILS, _all_lower, lazy_scores, periodic_weights, tangent_kernel


def outputs(first: np.ndarray, second: np.ndarray, readout: np.ndarray) -> np.ndarray:
    """Outputs over n, m, q."""
    return np.einsum("knm,qk->nmq", (first[:, :, None] + second[:, None]) ** 2, readout) / len(first)


def sums(p: int) -> np.ndarray:
    return np.add.outer(np.arange(p), np.arange(p)) % p


@pytest.mark.parametrize("p", [3, 5, 11, 15])
def test_the_solution_is_exact(p):
    """One half at the sum, -1/(2(p-1)) elsewhere; p need not be prime."""
    weights = limen.descent.modular_solution(p)
    assert len(weights[0]) == 3 * (p - 1)
    np.testing.assert_allclose(outputs(*weights), (p * np.eye(p)[sums(p)] - 1.0) / (2.0 * (p - 1.0)), atol=1e-12)


def test_moments_of_random_waves():
    """Mean and covariance of one neuron's outputs against s = n + m - q, on a grid of phases: exact."""
    p, turns = 5, 16
    grid = np.arange(turns) / turns * 2.0 * np.pi
    frequency, first, second = (part.ravel() for part in np.meshgrid([1, 2], grid, grid, indexing="ij"))
    waves = periodic_weights(p, frequency, first, second)
    single = (waves[0][:, :1] + waves[1][:, :1]) ** 2 * waves[2].T  # n = m = 0: s = -q
    single = single[:, -np.arange(p) % p]
    bar = np.where(np.arange(p) == 0, 1.0, -1.0 / (p - 1.0))
    np.testing.assert_allclose(single.mean(axis=0), 0.5 * bar, atol=1e-12)
    s = np.arange(p)
    apart, together = (s[:, None] - s) % p, (s[:, None] + s) % p
    expected = 0.5 * (9 / 4 * bar[apart] + 3 / 8 * bar[together]) - 0.25 * np.outer(bar, bar)
    np.testing.assert_allclose(np.cov(single.T, bias=True), expected, atol=1e-12)


@pytest.mark.parametrize("p, width", [(23, 24), (23, 48)])
def test_accuracy_of_random_waves(p, width):
    accuracy, error = limen.descent.random_solution_accuracy(p, width)
    networks = [random_waves_accuracy(p, width, seed) for seed in range(40)]
    band = 4.0 * np.hypot(np.std(networks) / 40**0.5, error)
    assert abs(np.mean(networks) - accuracy) < band + 1.0 / p**2
    wider, _ = limen.descent.random_solution_accuracy(p, 2 * width)
    assert abs(np.mean(networks) - wider) > band


@pytest.mark.parametrize("p, width", [(7, 16), (7, 24)])
def test_what_few_residues_leave_out_is_of_second_order(p, width):
    """Pairs of outputs are correlated by -(1 + r)/(p - 1): taken into account to first order in 1/p, the rest is in the
    error."""
    networks = [random_waves_accuracy(p, width, seed, 10) for seed in range(100)]
    accuracy, error = limen.descent.random_solution_accuracy(p, width)
    assert accuracy == pytest.approx(np.mean(networks), abs=1 / p**2)
    assert abs(accuracy - np.mean(networks)) < 2.0 * np.hypot(error, np.std(networks) / 10)


def test_a_sum_of_few_waves_has_lighter_tails():
    r"""Of eight equal ones, by the characteristic function $J_0(t)^8$; a Gaussian is off by up to 0.004."""
    for level in (0.5, 0.9, 1.2, 2.0):
        wave = quad(lambda t, x=level: j0(t) ** 8 * np.sin(2.0 * x * t) / t, 0.0, 60.0, limit=400)[0]
        found = _all_lower(np.array(level), np.array(1.0), np.array(TAILS / 8.0), 1)
        assert found == pytest.approx(0.5 + wave / np.pi, abs=8e-4)


def test_limits_of_random_waves():
    """Many neurons are always right; with p = 3 one neuron has the sum above both others or not."""
    assert limen.descent.random_solution_accuracy(11, 300)[0] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(limen.InputError, match="width"):
        limen.descent.random_solution_accuracy(11, 0)


def test_a_lazy_network_is_worse_than_chance():
    """The tangent kernel by sampling weights; unseen sums score lowest in their row and column."""
    p, random = 7, np.random.default_rng(1)
    pairs = np.array([[0, 0], [0, 1], [2, 3]])
    first, second, readout = (random.standard_normal((200_000, count)) for count in (p, p, 1))
    field = first[:, pairs[:, 0]] + second[:, pairs[:, 1]]
    squares = field**2
    kernel = squares.T @ squares / len(field)
    shared = (pairs[:, None] == pairs[None]).sum(axis=2)
    kernel += 4.0 * shared * ((readout * field).T @ (readout * field)) / len(field)
    np.testing.assert_allclose(kernel, tangent_kernel(pairs, pairs), rtol=0.05)
    table = np.stack(np.divmod(random.permutation(p * p), p), axis=1)
    seen, unseen = table[:25], table[25:]
    scores = lazy_scores(p, seen)
    np.testing.assert_allclose(scores[tuple(seen.T)], np.eye(p)[seen.sum(axis=1) % p], atol=1e-9)
    right = scores[tuple(unseen.T)].argmax(axis=1) == unseen.sum(axis=1) % p
    assert right.mean() < 1.0 / p


def test_training_finds_waves_late():
    steps = np.array([0, 80, 800])
    run = train_modular(11, 64, 0.7, steps, rate=0.02, weight_decay=0.5, seed=0)
    assert run.train_accuracy[1] == 1.0 and run.test_accuracy[1] < run.test_accuracy[2]
    assert run.periodicity[2] > 1.5 * run.periodicity[0]


@pytest.mark.parametrize("modulus", [4, 1, 2.5, 10**6 + 1])
def test_bad_moduli_are_refused(modulus):
    with pytest.raises(limen.InputError, match="odd"):
        limen.descent.modular_solution(modulus)
